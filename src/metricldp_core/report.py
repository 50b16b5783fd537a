"""Reports as bytes: a header, then the fields, bit after bit.

The header has the version of the format, one byte, and the first 16 bytes of the fingerprint. The
fields follow in the order of the manifest, each with its lowest bit first, and zeros up to a whole
byte. Reading is strict: whatever no device can send is rejected with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from metricldp_core.manifest import FORMAT, Field, Manifest

HEADER_BYTES = 17
REASONS = ("kind", "version", "survey", "length", "padding", "range")
"""Why bytes are not a report, in the order in which they are checked."""


class ReportFormat:
    """Where each field of a report is."""

    def __init__(self, manifest: Manifest) -> None:
        self.fields: Sequence[Field] = manifest.fields
        self.header = bytes([FORMAT]) + bytes.fromhex(manifest.fingerprint)[: HEADER_BYTES - 1]
        self._bits = sum(field.bits for field in self.fields)
        self.size = HEADER_BYTES + -(-self._bits // 8)

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((field.bits for field in self.fields), initial=0))[:-1]

    def pack(self, parts: Sequence[int]) -> bytes:
        """The bytes of a report from the integers of its fields."""
        content = 0
        for part, start in zip(parts, self._starts, strict=True):
            content |= part << start
        return self.header + content.to_bytes(self.size - HEADER_BYTES, "little")

    def reason(self, report: object) -> str:
        """One word for why bytes cannot be a report; empty if they can."""
        if not isinstance(report, bytes):
            return "kind"
        if len(report) != self.size or not report.startswith(self.header):
            if report and report[0] != self.header[0]:
                return "version"
            whole = len(report) >= HEADER_BYTES
            return "survey" if whole and not report.startswith(self.header) else "length"
        content = int.from_bytes(report[HEADER_BYTES:], "little")
        if content >> self._bits:
            return "padding"
        for field, start in zip(self.fields, self._starts, strict=True):
            if not field.is_possible(content >> start & (1 << field.bits) - 1):
                return "range"
        return ""
