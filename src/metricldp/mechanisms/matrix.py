"""The matrix mechanism (section 3): which rows a respondent reports, and the epsilon of each.

Rows are whole numbers and epsilons short decimals that keep the metric exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context
from fractions import Fraction
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.progress import Progress, silent
from metricldp.basics.text import guess, shown
from metricldp.mechanisms import strategies
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.matrix_channel import LARGEST_ENTRY, LARGEST_REACH, MatrixChannel
from metricldp.mechanisms.matrix_search import best_plan
from metricldp.mechanisms.scales import sensitive_scales
from metricldp.mechanisms.stated import GIVEN, checked_workload, completed, workload_of
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Metric
from metricldp_core import distributions as core
from metricldp_core.distributions import Distribution
from metricldp_core.exact import decimal_of, floor_of

Rows = tuple[tuple[int, ...], ...]
Entries = npt.NDArray[np.int64]

MOST_POSITIONS = 4096
"""Plans and decoders are matrices with a row and a column for each position."""
_DIGITS = 7
"""Significant decimal digits of an epsilon."""
_GRID = 1 << 8
"""Entries that are no whole numbers are taken as multiples of 1 / _GRID of the largest."""
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Matrix(Mechanism):
    """The matrix mechanism: linear rows of the response, each with noise (section 3 of the paper).

    `workload` ("ranges", "prefixes", "values", a Workload or rows) is what the rows are optimized
    for, `strategy` ("auto", a name or rows) states the rows. `Survey.design` fixes the epsilon of
    each row. Windows extend `reach` beyond the values of a row.

    >>> from metricldp import Integer, Matrix, Survey
    >>> ages = Integer(0, 99, epsilon=1, per=1, mechanism=Matrix(workload="prefixes"))
    >>> Survey.design({"age": ages}).mechanisms["age"].strategy
    'prefix'
    """

    workload: Any = None
    strategy: Any = None
    reach: int | None = None

    options: ClassVar[tuple[str, ...]] = ("workload", "strategy", "reach")
    search_options: ClassVar[tuple[str, ...]] = ("reach",)
    name: ClassVar[str] = "matrix"  # type: ignore[misc]
    kind: ClassVar[str] = "matrix"  # type: ignore[misc]
    title: ClassVar[str] = "matrix mechanism"  # type: ignore[misc]
    source: ClassVar[str] = "Xiang et al. 2020, section 3"  # type: ignore[misc]
    max_computed: ClassVar[int] = 0  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        size = problem.size
        if size > MOST_POSITIONS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for the matrix mechanism; "
                f"use at most {MOST_POSITIONS:,}"
            )
        workload = checked_workload(problem.workload, size, problem.any_ordered)
        strategy = _checked_strategy("auto" if self.strategy is None else self.strategy, size)
        reach = None if self.reach is None else _checked_reach(self.reach)
        if not isinstance(strategy, str):
            lost = strategies.undetermined(strategy)
            if lost is not None:
                raise InvalidSpecError(
                    "the rows of the strategy do not determine the count of "
                    f"{problem.label(lost)}; add rows, or leave strategy out to have them chosen"
                )
        rows, epsilons = optimal_rows(workload, strategy, problem.metric, size, effort, progress)
        exact = [decimal_of(epsilon) for epsilon in epsilons]
        return MatrixChannel.of(rows, exact, reach).distribution

    def resolved(self, problem: Problem, distribution: Distribution) -> Self:
        """With the name of the strategy, as its rows are in the distribution."""
        mechanism, strategy = super().resolved(problem, distribution), self.strategy
        if isinstance(strategy, str) and strategy != GIVEN:
            _checked_strategy(strategy, problem.size)
        if _is_solved(mechanism.workload, strategy or "auto", problem.metric):
            strategy = "prefix"
        elif strategy != GIVEN:
            strategy = _strategy_name(strategy, cast(core.Matrix, distribution))
        return replace(mechanism, strategy=strategy)


# What a user may state ---------------------------------------------------------------------------


def _checked_strategy(strategy: Any, size: int) -> str | Rows:
    """A name, or rows of whole numbers over so many positions."""
    if isinstance(strategy, str) and strategy == GIVEN:
        raise InvalidSpecError(
            "matrix was designed with rows that the survey file does not name; state the mechanism "
            "again, with its strategy"
        )
    if isinstance(strategy, str):
        known = ("auto", *strategies.NAMES)
        if strategy in known or strategies.plain(strategy, size) is not None:
            return strategy
        raise InvalidSpecError(
            f"no strategy is called {shown(strategy)}{guess(strategy, known)}; "
            f"there are {', '.join(known)}, or give its rows"
        )
    try:
        entries = np.array(strategy)
    except (TypeError, ValueError, OverflowError):
        entries = np.empty(0)
    if entries.ndim != 2 or not entries.size or entries.dtype.kind not in "biuf":
        raise InvalidSpecError(f"a strategy is a name or a list of rows, not {shown(strategy)}")
    entries = entries.astype(np.float64)
    if entries.shape[1] != size:
        raise InvalidSpecError(
            f"the strategy has rows of {entries.shape[1]} positions, the attribute has {size}"
        )
    wrong = ~((np.abs(entries) <= LARGEST_ENTRY) & (entries == np.rint(entries)))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        entry = entries[row, column]
        entry = int(entry) if entry.is_integer() else entry
        raise InvalidSpecError(
            f"row {row} of the strategy holds {entry}; use whole numbers "
            f"up to {LARGEST_ENTRY:,} either way"
        )
    return tuple(tuple(row) for row in entries.astype(np.int64).tolist())


def _checked_reach(reach: Any) -> int:
    if not is_whole(reach) or not 0 <= reach <= LARGEST_REACH:
        raise InvalidSpecError(
            f"reach is a whole number from 0 to {LARGEST_REACH:,}, not {shown(reach)}; "
            "leave it out to have it chosen"
        )
    return int(reach)


# Rows and epsilons -------------------------------------------------------------------------------


def telling_rows(strategy: npt.NDArray[Any]) -> Entries:
    """The rows of a strategy, without those that are the same for every position."""
    whole = np.asarray(strategy).astype(np.int64)
    rows: Entries = whole[whole.min(axis=1) < whole.max(axis=1)]
    if not len(rows):
        raise InvalidSpecError("no row of the strategy depends on the value; add a row that does")
    return rows


def _strategy_name(stated: Any, distribution: core.Matrix) -> str:
    """The first named strategy that has all rows of a distribution, or "given"."""
    rows = {row.entries for row in distribution.rows}
    names: tuple[str, ...] = (stated,) if isinstance(stated, str) else ()
    for name in dict.fromkeys((*names, *strategies.NAMES)):
        entries = strategies.plain(name, distribution.size)
        if entries is not None and rows <= set(map(tuple, telling_rows(entries).tolist())):
            return name
    return GIVEN


def _exceeds(rows: Entries, epsilons: Sequence[Fraction], metric: Metric) -> bool:
    """Whether sum_k u_k |a_k(x) - a_k(x')| > E(x, x') for a generating pair.

    In integers: epsilons over their common denominator, distances rounded down to it.
    """
    size = rows.shape[1]
    unit = Fraction(1, math.lcm(*(epsilon.denominator for epsilon in epsilons)))
    whole = [int(epsilon / unit) for epsilon in epsilons]
    largest = sum(w * int(row.max() - row.min()) for w, row in zip(whole, rows, strict=True))
    weights = np.array(whole, dtype=np.int64 if largest < 1 << 62 else object)
    numbers = metric.whole(size)
    columns = rows.T.copy()
    step = max(1, _AT_ONCE // len(rows))
    pairs = _pairs(metric, size)
    for start in range(0, len(pairs), step):
        x, other = pairs[start : start + step].T
        spent = np.abs(columns[x] - columns[other]) @ weights
        lengths, which = np.unique(numbers[x, other], return_inverse=True)
        limits = [min(floor_of(n * metric.step / unit), largest) for n in lengths.tolist()]
        if (spent > np.array(limits, dtype=weights.dtype)[which]).any():
            return True
    return False


def _pairs(metric: Metric, size: int) -> npt.NDArray[np.int64]:
    return np.array(list(metric.generating_pairs(size)), dtype=np.int64).reshape(-1, 2)


# Making a plan -----------------------------------------------------------------------------------


def _is_solved(workload: str | Workload, strategy: Any, metric: Metric) -> bool:
    """Whether prefixes are the best rows of a line.

    Section 3.3: every step of a line changes one prefix, which can have all its epsilon. Of all the
    strategies that the optimizer tries for these workloads, it takes this one.
    """
    usual = strategy == "auto" and workload in ("ranges", "prefixes", "values")
    return metric.is_line and (strategy == "prefix" or usual)


def optimal_rows(
    workload: str | Workload,
    strategy: str | Rows,
    metric: Metric,
    size: int,
    effort: Effort = DEFAULT,
    progress: Progress = silent,
) -> tuple[Entries, list[float]]:
    """The best plan for a workload under a metric: rows, and an epsilon for each."""
    if _is_solved(workload, strategy, metric):
        rows = telling_rows(strategies.prefix(size))
        return rows, _short([float(metric.per_step(size))] * (size - 1), rows, metric)
    sensitive = metric.sensitive_positions(size)
    if workload == "values" and strategy == "identity" and sensitive is not None:
        # Section 3.2: the closed form where some values are sensitive, or all alike.
        inside, outside = sensitive_scales(size, len(sensitive), float(metric.smallest(size)))
        epsilons = [inside if x in sensitive else outside for x in range(size)]
        rows = telling_rows(strategies.identity(size))
        return rows, _short(epsilons, rows, metric)
    asked = completed(workload_of(workload, size))
    rows, u = _optimised(asked, strategy, metric, size, effort, progress)
    short = _short(u, rows, metric)
    names = (strategy,) if isinstance(strategy, str) else ()
    for name in dict.fromkeys((*names, *strategies.NAMES)):
        named = strategies.plain(name, size)
        if named is not None:
            whole = telling_rows(named)
            placed = _placed(rows, short, whole)
            if placed is not None:
                return whole, placed
    return rows, short


def _optimised(
    workload: Workload,
    strategy: str | Rows,
    metric: Metric,
    size: int,
    effort: Effort,
    progress: Progress,
) -> tuple[Entries, list[float]]:
    """Rows of whole numbers and an epsilon per unit of each, in floats."""
    pairs = _pairs(metric, size)
    distances = metric.matrix(size)[pairs[:, 0], pairs[:, 1]]
    wanted: Any = strategy
    if not isinstance(strategy, str):  # everybody is known without asking
        wanted = np.vstack([np.array(strategy, dtype=np.float64), np.ones(size)])
    try:
        plan = best_plan(workload, pairs, distances, wanted, effort, progress)
        rows, unit = _on_grid(plan.strategy)
        if not np.allclose(rows * unit[:, None], plan.strategy, rtol=0, atol=1e-9):
            plan = best_plan(workload, pairs, distances, np.rint(rows), effort, progress)
            rows, unit = _on_grid(plan.strategy)
    except QueryError as wrong:
        raise InvalidSpecError(str(wrong)) from None
    noisy = np.isfinite(plan.u)
    return rows[noisy].astype(np.int64), (plan.u * unit)[noisy].tolist()


def _on_grid(strategy: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], Any]:
    """Rows as whole numbers without a common divisor, and the unit of each row."""
    whole = (strategy == np.rint(strategy)).all(axis=1)
    grid = np.where(whole, 1.0, np.abs(strategy).max(axis=1) / _GRID)
    rows = np.rint(strategy / grid[:, None])
    divisor = np.gcd.reduce(rows.astype(np.int64), axis=1)
    return rows / divisor[:, None], grid * divisor


def _short(u: Sequence[float], rows: Entries, metric: Metric) -> list[float]:
    """Short decimals that keep the metric: the nearest, or else rounded down and shrunk."""
    found = [float(f"{number:.{_DIGITS - 1}e}") for number in u]
    shrink, down = 1.0, Context(prec=_DIGITS, rounding=ROUND_DOWN)
    while _exceeds(rows, [decimal_of(epsilon) for epsilon in found], metric):
        found = [float(down.create_decimal_from_float(number * shrink)) for number in u]
        shrink *= 1 - 10.0 ** (1 - _DIGITS)
    return found


def _placed(rows: Entries, epsilons: list[float], named: Entries) -> list[float] | None:
    """The epsilons in the order of a named strategy, 0 for rows not used; None if any is not it."""
    place = {tuple(row): k for k, row in enumerate(named.tolist())}
    found = [0.0] * len(named)
    for row, epsilon in zip(rows.tolist(), epsilons, strict=True):
        if tuple(row) not in place:
            return None
        found[place[tuple(row)]] = epsilon
    return found
