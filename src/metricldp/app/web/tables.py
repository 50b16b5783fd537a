"""Tables behind the charts: on the page, and as CSV that no spreadsheet mistakes for a program."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass

from metricldp.basics.text import plain

Cell = str | float | int | None
MOST_SHOWN = 200
"""Rows on a page; a file has them all."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula."""


@dataclass(frozen=True)
class Table:
    """A row of heads and rows of cells; numbers stay numbers."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 0

    @property
    def left_out(self) -> int:
        """Rows that a page does not show."""
        return max(0, len(self.rows) - MOST_SHOWN)

    def shown(self) -> list[list[tuple[str, bool]]]:
        """Every cell as people read it, and whether it is a number."""
        return [
            [(self._cell(cell), not isinstance(cell, str)) for cell in row]
            for row in self.rows[:MOST_SHOWN]
        ]

    def _cell(self, cell: Cell) -> str:
        if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
            return "–"
        return f"{cell:,.{self.digits}f}" if isinstance(cell, float) else plain(cell)


def to_csv(table: Table) -> str:
    """Lines of cells; a text that a spreadsheet could run begins with an apostrophe instead."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\r\n")
    for row in (table.heads, *table.rows):
        lines.writerow([_safe(cell) for cell in row])
    return text.getvalue()


def _safe(cell: Cell) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        return repr(cell) if math.isfinite(cell) else ""
    text = cell.replace("\0", "\ufffd")
    stripped = text.lstrip(" ")
    return f"'{text}" if stripped.startswith(_FORMULA) else text
