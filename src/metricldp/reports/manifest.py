"""Manifest files for devices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import counted
from metricldp.basics.writing import replacing
from metricldp.survey.agreement import Agreement
from metricldp_core.device import Device
from metricldp_core.errors import InvalidManifestError

SUFFIX = ".client.json"
"""The ending of the names of manifest files."""


@dataclass(frozen=True)
class SavedManifest:
    """A manifest that was written: its survey, whose fingerprint is its SHA-256, and its size."""

    survey: str
    file: str
    size: int
    rejected: str
    """Why devices reject the manifest; empty if they accept it."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        line = f"manifest of survey {self.survey} in {self.file}, {counted(self.size, 'byte')}"
        if self.rejected:
            line += f"\nwarning: devices reject the manifest: {self.rejected}"
        return line


def save(survey: Agreement, path: Path) -> SavedManifest:
    """Write the manifest; its SHA-256 is the fingerprint of the survey."""
    data = survey.client_manifest.text.encode("utf-8")
    with replacing(path, InvalidSpecError, "client manifest", [".json"]) as file:
        file.write(data)
    return SavedManifest(survey.fingerprint, str(path), len(data), rejection(survey))


def rejection(survey: Agreement) -> str:
    """Why devices reject the manifest of a survey; empty if they accept it.

    They read it strictly, support the distributions of the core only, and limit the work of the
    proof.
    """
    try:
        Device(survey.client_manifest.text)
    except InvalidManifestError as error:
        return str(error)
    return ""
