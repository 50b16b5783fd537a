"""Reports as bytes: a header, then the fields, bit after bit.

The header has the version of the format, one byte, and the first 16 bytes of the fingerprint. The
fields follow in the order of the manifest, each with its lowest bit first, and zeros up to a whole
byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from metricldp_core.manifest import FORMAT, Manifest

HEADER_BYTES = 17


class ReportFormat:
    """Where each field of a report is."""

    def __init__(self, manifest: Manifest) -> None:
        self.header = bytes([FORMAT]) + bytes.fromhex(manifest.fingerprint)[: HEADER_BYTES - 1]
        self.widths = [field.bits for field in manifest.fields]
        self.size = HEADER_BYTES + -(-sum(self.widths) // 8)

    def pack(self, parts: Sequence[int]) -> bytes:
        """The bytes of a report from the integers of its fields."""
        content = start = 0
        for part, width in zip(parts, self.widths, strict=True):
            content |= part << start
            start += width
        return self.header + content.to_bytes(self.size - HEADER_BYTES, "little")
