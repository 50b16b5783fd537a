"""Plans of the matrix mechanism (section 3): which rows a person reports, the epsilon of each.

A plan is made once, when a survey is made, and then it is data: the name of a strategy or its
rows, whole numbers, and an epsilon for each row, a short decimal. Whoever loads it needs no
optimiser. Whatever made it, that it keeps the metric is decided here, by integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import distinct, guess, shown
from metricldp.mechanisms import strategies
from metricldp.mechanisms.base import Label, Mechanism
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.matrix_channel import LARGEST_ENTRY, LARGEST_REACH, MatrixChannel
from metricldp.mechanisms.matrix_search import best_plan
from metricldp.mechanisms.progress import search_settings
from metricldp.mechanisms.scales import sensitive_scales
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Metric
from metricldp_core.exact import decimal_of, floor_of

Rows = tuple[tuple[int, ...], ...]
Entries = npt.NDArray[np.int64]

WORKLOADS: dict[str, Callable[[int], Workload]] = {
    "ranges": Workload.all_ranges,
    "prefixes": Workload.prefixes,
    "values": Workload.identity,
    "mean": Workload.mean,
}
GIVEN = "given"
"""What a survey file says of a workload that was stated as rows: the plan is all that is left."""
MOST_POSITIONS = 4096
"""Plans and decoders are matrices with a row and a column for each position."""
LITTLE = 1e-2
"""What a value weighs that a workload leaves open, as a share of the workload's largest entry."""
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
    epsilons: Any = None
    reach: int | None = None

    saves: ClassVar[tuple[str, ...]] = ("workload", "strategy", "epsilons", "reach")
    in_distribution: ClassVar[tuple[str, ...]] = ("epsilons", "reach")
    name: ClassVar[str] = "matrix"  # type: ignore[misc]
    title: ClassVar[str] = "matrix mechanism"  # type: ignore[misc]
    source: ClassVar[str] = "Xiang et al. 2020, section 3"  # type: ignore[misc]
    max_computed: ClassVar[int] = 0  # type: ignore[misc]

    @property
    def is_designed(self) -> bool:
        return self.epsilons is not None

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> Matrix:
        if size > MOST_POSITIONS:
            raise InvalidSpecError(
                f"{size:,} positions are too many for the matrix mechanism; "
                f"use at most {MOST_POSITIONS:,}"
            )
        workload = checked_workload(self.workload, size, ordered)
        strategy = _checked_strategy("auto" if self.strategy is None else self.strategy, size)
        reach = None if self.reach is None else _checked_reach(self.reach)
        checked = replace(self, workload=workload, strategy=strategy, reach=reach)
        if self.epsilons is not None:
            return replace(checked, epsilons=_checked_epsilons(self.epsilons))
        if not isinstance(strategy, str):
            lost = strategies.undetermined(strategy)
            _check_determined(lost, "of the strategy", "add rows, or leave strategy out", label)
        strategy, epsilons = made(workload, strategy, metric, size)
        named = workload if isinstance(workload, str) else GIVEN
        return replace(checked, workload=named, strategy=strategy, epsilons=epsilons)

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        """The rows with their noise, if they keep the metric and determine all counts."""
        if self.epsilons is None:
            return self.settled(size, metric, label=label).channel(size, metric, label=label)
        rows = rows_of(self.strategy, size)
        epsilons = epsilons_of(self.epsilons, len(rows))
        found = broken(rows, epsilons, metric)
        if found is not None:
            x, other, spent = found
            told, allowed = distinct(spent, metric.distance(x, other))
            raise InvalidSpecError(
                f"the epsilons of the strategy's rows add up to {told} between {label(x)} "
                f"and {label(other)}, where the metric allows {allowed}; "
                "leave epsilons out to have them chosen"
            )
        lost = undetermined(self.strategy, rows, epsilons)
        remedy = "send more rows, or leave epsilons out"
        _check_determined(lost, "with an epsilon above 0", remedy, label)
        return MatrixChannel.of(rows, epsilons, self.reach)

    def kept(self, size: int, metric: Metric) -> Metric:
        return metric

    def settings(self) -> Any:
        """Without the rows of a strategy, which are in the output distribution."""
        named = replace(self, strategy=self.strategy if isinstance(self.strategy, str) else GIVEN)
        return super(Matrix, named).settings()


def _check_determined(position: int | None, which: str, remedy: str, label: Label) -> None:
    if position is not None:
        raise InvalidSpecError(
            f"the rows {which} do not determine the count of {label(position)}; "
            f"{remedy} to have them chosen"
        )


# What a description may say ----------------------------------------------------------------------


def workload_of(workload: Any, size: int) -> Workload:
    """By its name, by the shares of several names, itself, or its rows."""
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
    found = workload if isinstance(workload, Workload) else Workload.from_rows(workload)
    if found.size != size:
        raise QueryError(
            f"the workload has rows of {found.size} positions, the attribute has {size}"
        )
    return found


def _mixture_of(shares: Mapping[Any, Any], size: int) -> Workload:
    for name, share in shares.items():
        if not is_number(share) or not 0 < share < math.inf:
            raise QueryError(f"the share of {shown(name)} is a number above 0, not {shown(share)}")
    if not shares or not all(isinstance(name, str) for name in shares):
        raise QueryError(
            "a workload of several is a table of their names and shares, such as "
            f"{{ranges = 2, mean = 1}}, not {shown(dict(shares))}"
        )
    parts = [(workload_of(name, size), float(share)) for name, share in shares.items()]
    return Workload.mixture(parts)


def checked_workload(workload: Any, size: int, ordered: bool) -> str | Workload:
    """A name, or rows over so many positions as a Workload; where nothing is said the usual one."""
    if workload is None:
        return "ranges" if ordered else "values"
    if isinstance(workload, str) and workload == GIVEN:
        return workload
    try:
        found = workload_of(workload, size)
    except QueryError as wrong:
        raise InvalidSpecError(str(wrong)) from None
    return workload if isinstance(workload, str) else found


def said_workload(workload: Any, size: int) -> str | None:
    """What a file says beside what was found for a workload: its name, "given" for rows."""
    if workload is None:
        return None
    found = checked_workload(workload, size, ordered=False)
    return found if isinstance(found, str) else GIVEN


def checked_prior(prior: Any, size: int) -> tuple[float, ...] | None:
    """How many people, or which share of them, are at each position."""
    if prior is None:
        return None
    found = np.array(prior, dtype=object) if is_list(prior) else np.empty(0)
    if len(found) != size or not all(is_number(part) and 0 <= part < math.inf for part in found):
        raise InvalidSpecError(
            f"a prior is a list of {size:,} numbers of at least 0, one for each position, not "
            f"{shown(prior)}"
        )
    if not any(found):
        raise InvalidSpecError("a prior has at least one number above 0")
    return tuple(float(part) for part in found)


def _checked_strategy(strategy: Any, size: int) -> str | Rows:
    """A name, or rows of whole numbers over so many positions."""
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


def _checked_epsilons(epsilons: Any) -> float | tuple[float, ...]:
    """One number for all rows, or one for each; 0 where a row is not sent."""
    found = list(epsilons) if is_list(epsilons) else [epsilons]
    for number in found:
        if not is_number(number) or not math.isfinite(number) or number < 0:
            raise InvalidSpecError(
                f"the epsilon of a row is a number of at least 0, not {shown(number)}"
            )
    numbers = tuple(float(number) for number in found)
    if not any(numbers):
        raise InvalidSpecError(
            f"epsilons are {shown(epsilons)}: at least one row has to be sent, with an epsilon "
            "above 0; leave epsilons out to have them chosen"
        )
    return numbers if is_list(epsilons) else numbers[0]


def _checked_reach(reach: Any) -> int:
    if not is_whole(reach) or not 0 <= reach <= LARGEST_REACH:
        raise InvalidSpecError(
            f"reach is a whole number from 0 to {LARGEST_REACH:,}, not {shown(reach)}; "
            "leave it out to have it chosen"
        )
    return int(reach)


# Rows and epsilons -------------------------------------------------------------------------------


def rows_of(strategy: str | Rows, size: int) -> Entries:
    """The rows of a strategy, without those that are the same for everybody."""
    if isinstance(strategy, str):
        entries = strategies.plain(strategy, size)
        if entries is None:
            raise InvalidSpecError(
                f"the strategy {shown(strategy)} depends on more than its name; "
                "leave epsilons out to have it chosen, or give its rows"
            )
        whole = entries.astype(np.int64)
    else:
        whole = np.array(strategy, dtype=np.int64)
    telling: Entries = whole[whole.min(axis=1) < whole.max(axis=1)]
    if not len(telling):
        raise InvalidSpecError("no row of the strategy depends on the value; add a row that does")
    return telling


def epsilons_of(epsilons: float | tuple[float, ...], rows: int) -> list[Fraction]:
    if isinstance(epsilons, float):
        return [decimal_of(epsilons)] * rows
    if len(epsilons) != rows:
        raise InvalidSpecError(
            f"{len(epsilons)} epsilons for {rows} rows that depend on the value; give each one, "
            "0 for a row that is not sent"
        )
    return [decimal_of(epsilon) for epsilon in epsilons]


def undetermined(strategy: str | Rows, rows: Entries, epsilons: Sequence[Fraction]) -> int | None:
    """The first position whose count the rows that are sent leave open; None if there is none."""
    sent = [k for k, epsilon in enumerate(epsilons) if epsilon]
    if isinstance(strategy, str) and len(sent) == len(rows):
        return None  # a strategy with a name tells all
    return strategies.undetermined(rows[sent])


def broken(
    rows: Entries, epsilons: Sequence[Fraction], metric: Metric
) -> tuple[int, int, Fraction] | None:
    """The first generating pair with sum_k u_k |a_k(x) - a_k(x')| > E(x, x'), and that sum.

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
        over = np.flatnonzero(spent > np.array(limits, dtype=weights.dtype)[which])
        if len(over):
            at = over[0]
            return int(x[at]), int(other[at]), int(spent[at]) * unit
    return None


def _pairs(metric: Metric, size: int) -> npt.NDArray[np.int64]:
    return np.array(list(metric.generating_pairs(size)), dtype=np.int64).reshape(-1, 2)


# Making a plan -----------------------------------------------------------------------------------


def completed(workload: Workload) -> Workload:
    """The same workload; if it leaves counts open, with every value as a row of little weight.

    A plan has to tell every count, or no other question and no error could be answered later.
    """
    if workload.tells_all:
        return workload
    gram, size = workload.gram(), workload.size
    told = np.linalg.eigvalsh(gram + gram.trace() / size)[0]  # everybody is known without asking
    little = LITTLE * workload.largest()
    return workload if told > (LITTLE * little) ** 2 else workload.with_values(little)


def made(
    workload: str | Workload, strategy: str | Rows, metric: Metric, size: int
) -> tuple[str | Rows, float | tuple[float, ...]]:
    """The best plan for a workload under a metric: a strategy and the epsilons of its rows."""
    if workload == GIVEN:
        raise InvalidSpecError(
            "a given workload has a plan already; give its strategy and epsilons"
        )
    if metric.is_line and (
        strategy == "prefix"
        or (strategy == "auto" and workload in ("ranges", "prefixes", "values"))
    ):
        # Section 3.3: every step of a line changes one prefix, which can have all its epsilon. Of
        # all the strategies that the optimiser tries for these workloads, it takes this one.
        steps = [float(metric.per_step(size))] * (size - 1)
        return "prefix", _collapsed(_short(steps, rows_of("prefix", size), metric))
    sensitive = metric.sensitive_positions(size)
    if workload == "values" and strategy == "identity" and sensitive is not None:
        # Section 3.2: the closed form where some values are sensitive, or all alike.
        inside, outside = sensitive_scales(size, len(sensitive), float(metric.smallest(size)))
        found = [inside if x in sensitive else outside for x in range(size)]
        return strategy, _collapsed(_short(found, rows_of("identity", size), metric))
    asked = completed(workload_of(workload, size))
    rows, u = _optimised(asked, strategy, metric, size)
    short = _short(u, rows, metric)
    names = (strategy,) if isinstance(strategy, str) else ()
    for name in dict.fromkeys((*names, *strategies.NAMES)):
        if strategies.plain(name, size) is not None:
            placed = _placed(rows, short, rows_of(name, size))
            if placed is not None:
                return name, _collapsed(placed)
    return tuple(tuple(row) for row in rows.tolist()), _collapsed(short)


def _optimised(
    workload: Workload, strategy: str | Rows, metric: Metric, size: int
) -> tuple[Entries, list[float]]:
    """Rows of whole numbers and an epsilon per unit of each, in floats."""
    pairs = _pairs(metric, size)
    distances = metric.matrix(size)[pairs[:, 0], pairs[:, 1]]
    wanted: Any = strategy
    if not isinstance(strategy, str):  # everybody is known without asking
        wanted = np.vstack([np.array(strategy, dtype=np.float64), np.ones(size)])
    try:
        plan = best_plan(workload, pairs, distances, wanted, *search_settings())
        rows, unit = _on_grid(plan.strategy)
        if not np.allclose(rows * unit[:, None], plan.strategy, rtol=0, atol=1e-9):
            plan = best_plan(workload, pairs, distances, np.rint(rows), *search_settings())
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
    while broken(rows, epsilons_of(tuple(found), len(rows)), metric) is not None:
        found = [float(down.create_decimal_from_float(number * shrink)) for number in u]
        shrink *= 1 - 10.0 ** (1 - _DIGITS)
    return found


def _collapsed(epsilons: list[float]) -> float | tuple[float, ...]:
    """One number where all are the same."""
    return epsilons[0] if len(set(epsilons)) == 1 else tuple(epsilons)


def _placed(rows: Entries, epsilons: list[float], named: Entries) -> list[float] | None:
    """The epsilons in the order of a named strategy, 0 for rows not used; None if any is not it."""
    place = {tuple(row): k for k, row in enumerate(named.tolist())}
    found = [0.0] * len(named)
    for row, epsilon in zip(rows.tolist(), epsilons, strict=True):
        if tuple(row) not in place:
            return None
        found[place[tuple(row)]] = epsilon
    return found
