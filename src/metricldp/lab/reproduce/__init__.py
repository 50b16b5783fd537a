"""The paper's figures and tables again, each with the exact theory beside the measurement.

`RUNS` maps the name of each to a function that writes its files into a directory. A figure has to
come out the same every time, so these are the only simulations of the package with seeded coins.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from metricldp.lab.reproduce import figure1, figure2, table1, table2

__all__ = ["RUNS", "Run", "figure1", "figure2", "table1", "table2"]


class Run(Protocol):
    """Writes files into a directory, tells how far it is, and says what was found and where."""

    def __call__(
        self,
        output: Path,
        *,
        quick: bool = False,
        progress: Callable[[float], None] = ...,
    ) -> tuple[str, list[Path]]:
        """`progress` is called with the share of the work that is done; `quick` is for tests."""


RUNS: dict[str, Run] = {
    "figure1": figure1.run,
    "figure2": figure2.run,
    "table1": table1.run,
    "table2": table2.run,
}
