"""The paper's figures and tables again, each with the exact theory beside the measurement.

A figure has to come out the same every time, so these are the only simulations of the package with
seeded coins.
"""

from __future__ import annotations

from types import ModuleType

from metricldp.lab.pages import Page, Progress, silent
from metricldp.lab.reproduce import (
    dimensions,
    figure1,
    figure1_page,
    figure2,
    figure2_page,
    table1,
    table2,
    table2_page,
)

STUDIES: dict[str, tuple[ModuleType, ModuleType]] = {
    "figure1": (figure1, figure1_page),
    "figure2": (figure2, figure2_page),
    "table1": (table1, table1),
    "table2": (table2, table2_page),
    "dimensions": (dimensions, dimensions),
}
"""Of each the module with the numbers (`Setting`, `QUICK`), and the one with the page."""


def page(name: str, quick: bool = False, progress: Progress = silent) -> Page:
    """One of the studies; `quick` is a small version, for tests and a first look."""
    numbers, told = STUDIES[name]
    found: Page = told.page(numbers.QUICK if quick else numbers.Setting(), progress)
    return found.quick(told.QUICK_NOTE) if quick else found
