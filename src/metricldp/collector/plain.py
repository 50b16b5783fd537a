"""Whether one report could have come from a device, in plain integers: about a microsecond.

The same words for the same faults as `reports.bytes.unpack`, which is quicker for many at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from metricldp.reports.bytes import header, packed_size
from metricldp.survey.agreement import Agreement

GOOD = ""
"""In the place of a reason, where there is none."""


class Plain:
    """What the check of every report of a survey needs, looked up once."""

    def __init__(self, survey: Agreement) -> None:
        self.header, self.size = header(survey), packed_size(survey)
        self._bits = survey.report_bits
        self._checks: list[tuple[int, int, Callable[[int], bool]]] = []
        start = 0
        for field in survey.fields.values():
            impossible = field.impossible()
            if impossible is not None:
                self._checks.append((start, (1 << field.bits) - 1, impossible))
            start += field.bits

    def reason(self, report: bytes) -> str:
        """One word for what is wrong with it; an empty one if nothing is."""
        if len(report) != self.size or not report.startswith(self.header):
            return self._misfit(report)
        fields = int.from_bytes(report[len(self.header) :], "little")
        if fields >> self._bits:
            return "padding"
        for start, mask, impossible in self._checks:
            if impossible(fields >> start & mask):
                return "range"
        return GOOD

    def _misfit(self, report: bytes) -> str:
        """The first thing that is wrong in the order of its bytes."""
        if report and report[0] != self.header[0]:
            return "version"
        whole = len(report) >= len(self.header)
        return "survey" if whole and not report.startswith(self.header) else "length"
