"""Workloads and priors as users state them: names, fractions of several names, or rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, shown
from metricldp.mechanisms.additive_search import CellWorkload
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.workloads import Workload

if TYPE_CHECKING:
    from metricldp.mechanisms.base import Problem

WORKLOADS: dict[str, Callable[[int], Workload]] = {
    "ranges": Workload.all_ranges,
    "prefixes": Workload.prefixes,
    "values": Workload.identity,
    "mean": Workload.mean,
}
GIVEN = "given"
"""What a survey file states if a workload was given as rows."""
MARGINS = "margins"
"""Queries about one attribute of a group alone."""
LITTLE = 1e-2
"""The weight of a value that a workload leaves open, relative to the workload's largest entry."""
MOST_TABLED_CELLS = 1024
"""Cells up to which a workload of a group is given as rows."""


def workload_of(workload: Any, size: int) -> Workload:
    """The workload of a name, of fractions of several names, of rows, or itself."""
    if isinstance(workload, str):
        bars = re.fullmatch("([0-9]{1,9}) bars", workload)
        if bars:
            return Workload.bars(size, int(bars[1]))
        if workload not in WORKLOADS:
            raise QueryError(
                f"no workload is called {shown(workload)}{guess(workload, WORKLOADS)}; "
                f"there are {', '.join(WORKLOADS)} and bars ('10 bars'), or give its rows"
            )
        return WORKLOADS[workload](size)
    if isinstance(workload, Mapping):
        return _mixture_of(workload, size)
    stated = workload if isinstance(workload, Workload) else Workload.from_rows(workload)
    if stated.size != size:
        raise QueryError(
            f"the workload has rows of {stated.size} positions, the attribute has {size}"
        )
    return stated


def _mixture_of(shares: Mapping[Any, Any], size: int) -> Workload:
    checked = _checked_shares(shares)
    return Workload.mixture([(workload_of(name, size), share) for name, share in checked.items()])


def _checked_shares(shares: Mapping[Any, Any]) -> dict[str, float]:
    for name, share in shares.items():
        if not is_number(share) or not 0 < share < math.inf:
            raise QueryError(f"the share of {shown(name)} is a number above 0, not {shown(share)}")
    if not shares or not all(isinstance(name, str) for name in shares):
        raise QueryError(
            "a workload of several is a table of their names and shares, such as "
            f"{{ranges = 2, mean = 1}}, not {shown(dict(shares))}"
        )
    return {name: float(share) for name, share in shares.items()}


def checked_workload(workload: Any, size: int, ordered: bool) -> str | Workload:
    """A name, or rows over so many positions as a Workload; by default ranges or values."""
    if workload is None:
        return "ranges" if ordered else "values"
    if isinstance(workload, str) and workload == GIVEN:
        return workload
    try:
        stated = workload_of(workload, size)
    except QueryError as wrong:
        raise InvalidSpecError(str(wrong)) from None
    return workload if isinstance(workload, str) else stated


def workload_name(problem: Problem) -> str:
    """The name of a workload for survey files: "given" for rows and for several names."""
    if isinstance(problem.workload, str) and problem.workload == MARGINS and problem.is_group:
        return MARGINS
    if isinstance(problem.workload, Mapping):
        return GIVEN
    stated = checked_workload(problem.workload, problem.size, problem.any_ordered)
    return stated if isinstance(stated, str) else GIVEN


def checked_prior(prior: Any, size: int) -> tuple[float, ...] | None:
    """How many respondents, or which fraction of them, are at each position."""
    if prior is None:
        return None
    parts = np.array(prior, dtype=object) if is_list(prior) else np.empty(0)
    if len(parts) != size or not all(is_number(part) and 0 <= part < math.inf for part in parts):
        raise InvalidSpecError(
            f"a prior is a list of {size:,} numbers of at least 0, one for each position, not "
            f"{shown(prior)}"
        )
    if not any(parts):
        raise InvalidSpecError("a prior has at least one number above 0")
    return tuple(float(part) for part in parts)


def completed(workload: Workload) -> Workload:
    """The same workload; if it leaves counts open, with every value as a row of little weight.

    A distribution has to determine every count, or no other query could be answered later.
    """
    if workload.tells_all:
        return workload
    gram, size = workload.gram(), workload.size
    least = np.linalg.eigvalsh(gram + gram.trace() / size)[0]  # the total is known without reports
    little = LITTLE * workload.largest()
    return workload if least > (LITTLE * little) ** 2 else workload.with_values(little)


def cell_workload(problem: Problem) -> CellWorkload:
    """The Gram matrix of a group's workload over cells.

    A name is about every attribute: boxes of ranges, say; categories are queried one by one.
    Fractions of several names make a mixture.
    """
    workload, sizes = problem.workload, problem.sizes
    if is_list(workload) or isinstance(workload, Workload):
        if problem.size > MOST_TABLED_CELLS:
            raise InvalidSpecError(
                f"rows over {problem.size:,} cells are too many; name a workload, or use at "
                f"most {MOST_TABLED_CELLS:,} cells"
            )
        stated = checked_workload(workload, problem.size, problem.any_ordered)
        assert isinstance(stated, Workload)
        return CellWorkload(whole=completed(stated).gram())
    usual = "ranges" if problem.any_ordered else "values"
    if isinstance(workload, Mapping):
        try:
            parts = _checked_shares(workload)
        except QueryError as wrong:
            raise InvalidSpecError(str(wrong)) from None
        largest = max(parts.values())
        shares = {name: share / largest for name, share in parts.items()}
    else:
        shares = {usual if workload is None else workload: 1.0}
    products: list[tuple[Floats, ...]] = []
    for name, share in shares.items():
        for factors, rows in _products(name, sizes, problem.ordered, usual):
            products.append((factors[0] * (share / rows), *factors[1:]))
    return CellWorkload(tuple(products))


def _products(
    name: Any, sizes: tuple[int, ...], ordered: Sequence[bool], usual: str
) -> list[tuple[list[Floats], int]]:
    """The Gram matrices of a workload that add up, one factor for each attribute, and its rows."""
    if not isinstance(name, str) or name in ("mean", GIVEN):
        raise InvalidSpecError(
            "a workload of several attributes together is ranges, prefixes, values or bars of "
            f"each, margins, shares of several, or rows over all cells, not {shown(name)}"
        )
    each = []
    for line, size in zip(ordered, sizes, strict=True):
        stated = usual if name == MARGINS else name
        checked_workload(stated, size, line)
        each.append(workload_of(stated if line else "values", size))
    grams = [completed(own).gram() for own in each]
    if name != MARGINS:
        return [(grams, math.prod(own.rows for own in each))]
    ones = [np.ones((size, size)) for size in sizes]
    rows = sum(own.rows for own in each)
    return [([*ones[:d], gram, *ones[d + 1 :]], rows) for d, gram in enumerate(grams)]
