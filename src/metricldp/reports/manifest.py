"""Manifest files for devices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import counted, listed
from metricldp.basics.writing import replacing
from metricldp.survey.agreement import Agreement
from metricldp_core.distributions import SUPPORTED

SUFFIX = ".client.json"
"""The ending of the names of manifest files."""


@dataclass(frozen=True)
class SavedManifest:
    """A manifest that was written: its survey, whose fingerprint is its SHA-256, and its size."""

    survey: str
    file: str
    size: int
    unsupported: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "unsupported": list(self.unsupported)}

    def __str__(self) -> str:
        line = f"manifest of survey {self.survey} in {self.file}, {counted(self.size, 'byte')}"
        if self.unsupported:
            names = listed(self.unsupported)
            line += f"\nwarning: devices do not support {names} and reject the manifest"
        return line


def save(survey: Agreement, path: Path) -> SavedManifest:
    """Write the manifest; its SHA-256 is the fingerprint of the survey."""
    data = survey.client_manifest.text.encode("utf-8")
    with replacing(path, InvalidSpecError, "client manifest", [".json"]) as file:
        file.write(data)
    return SavedManifest(survey.fingerprint, str(path), len(data), unsupported(survey))


def unsupported(survey: Agreement) -> tuple[str, ...]:
    """The distributions of a survey that devices do not support."""
    fields = survey.client_manifest.fields
    kinds = {field.distribution.kind for field in fields if field.distribution is not None}
    return tuple(sorted(kinds - SUPPORTED.keys()))
