"""Reading a single report, without arrays. Whatever no device can send is rejected."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from metricldp.channels.fields import Field
from metricldp_core.manifest import Manifest
from metricldp_core.report import HEADER_BYTES, ReportFormat

REASONS = ("kind", "version", "survey", "length", "padding", "range")
"""Why bytes are not a report, in the order in which they are checked."""


class ReportReader:
    """Tells why bytes cannot be a report of a survey."""

    def __init__(self, manifest: Manifest, fields: Iterable[Field]) -> None:
        layout, parts = ReportFormat(manifest), list(fields)
        self.header, self.size = layout.header, layout.size
        ends = list(accumulate((field.bits for field in parts), initial=0))
        self._bits = ends[-1]
        self._limited = [
            (start, (1 << field.bits) - 1, is_impossible)
            for field, start in zip(parts, ends, strict=False)
            if (is_impossible := field.impossible()) is not None
        ]

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
        for start, ones, is_impossible in self._limited:
            if is_impossible(content >> start & ones):
                return "range"
        return ""
