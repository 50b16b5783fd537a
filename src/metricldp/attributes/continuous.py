"""Continuous values in bins: the paper's way with real numbers, at the end of its section 4.2."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import LARGEST_SIZE, Circle, Positions
from metricldp.attributes.ordered import Interval, OnLine, no_line
from metricldp.attributes.rounded import RoundedContinuous
from metricldp.attributes.selection import (
    Chosen,
    any_ends,
    empty,
    is_reversed,
    partly_outside,
    range_words,
    swapped,
)
from metricldp.basics.checks import finite, is_list, positive
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import plain, plain_or_exact, shown
from metricldp.metrics import Distances, Metric, Relative
from metricldp.metrics import from_dict as metric_from_dict
from metricldp.metrics.base import Integers
from metricldp.metrics.closed import MOST_POSITIONS, closure, common_unit, kind_for
from metricldp_core.exact import decimal_of, floor_of
from metricldp_core.values import Bins

STOCHASTIC = "stochastic"


@dataclass(frozen=True)
class AutoBins:
    """What the best number of bins depends on: respondents, and the density of their values.

    `smoothness` is the density of values where ranges end, as a multiple of the uniform density.
    `prior`, the fractions of respondents in equal parts of the domain, replaces it.
    """

    n: int = 10_000
    smoothness: float = 1.0
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.n) or self.n < 1:
            raise InvalidSpecError(
                f"n of the bins is a number of respondents, at least 1, not {shown(self.n)}"
            )
        positive("smoothness", self.smoothness)
        if self.prior is not None and self.smoothness != 1:
            raise InvalidSpecError(
                "a prior determines the smoothness; give prior or smoothness, not both"
            )
        if self.prior is not None:
            try:
                shares = np.asarray(self.prior, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                shares = np.empty((0, 0))
            some = shares.ndim == 1 and shares.size > 0
            if not some or not np.isfinite(shares).all() or shares.min() < 0:
                raise InvalidSpecError("a prior for bins is a list of fractions, none below zero")
            positive("the sum of the prior", float(shares.sum()))
            object.__setattr__(self, "prior", tuple(shares.tolist()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a spec file."""
        if self.prior is not None:
            return {"n": self.n, "prior": list(self.prior)}
        return {"n": self.n, "smoothness": self.smoothness}

    @property
    def density(self) -> float:
        """The root mean square density where ranges end, 1 for an even spread."""
        if self.prior is None:
            return self.smoothness
        shares = np.asarray(self.prior) / math.fsum(self.prior)
        return math.sqrt(len(shares) * float(shares @ shares))


@dataclass(frozen=True, repr=False)
class Continuous(Interval, OnLine):
    """A real number between low and high, in bins or rounded to points of a grid.

    Queries use the edges of bins, and means are uncertain by up to half of a bin. With
    rounding="stochastic" a value is rounded at random to one of the two nearest of `points` points,
    so means have no such uncertainty; ranges then have soft ends, and there are no quantiles.

    Parameters:
        low, high: The smallest and the largest value.
        bins: The number of equal bins, or an AutoBins with what is known about the respondents. If
            it is left out, `Survey.design` chooses it and prefers edges at round numbers.
        edges: The edges of bins, in place of `bins`, for values that many respondents share: 0, or
            round numbers. The distance of two bins is that of their middles.
        rounding: "stochastic" for rounding to `points` in place of bins.
        points: The number of points from low to high, with stochastic rounding.
        metric: Relative(...) for relative distances; all bins then have the same ratio of edges.
        epsilon, within, per, max_epsilon, cyclic, optional, mechanism, workload: As for Integer.
    """

    low: float = field(default=None, kw_only=False)  # type: ignore[assignment]
    high: float = field(default=None, kw_only=False)  # type: ignore[assignment]
    bins: int | str | AutoBins | None = field(default=None, kw_only=True)
    edges: Sequence[float] | None = field(default=None, kw_only=True)
    metric: Relative | None = field(default=None, kw_only=True)
    rounding: InitVar[str | None] = field(default=None, kw_only=True)
    """Stochastic rounding makes an attribute of another class, so none is left here."""

    kind: ClassVar[str] = "continuous"
    in_bins: ClassVar[bool] = True

    def __new__(cls, *ends: Any, rounding: str | None = None, **said: Any) -> Any:
        """With rounding="stochastic", an attribute on `points` points in place of bins."""
        if rounding is None:
            return super().__new__(cls, *ends, **said)
        if not isinstance(rounding, str) or rounding != STOCHASTIC:
            raise InvalidSpecError(f'rounding is "{STOCHASTIC}" or left out, not {shown(rounding)}')
        if "points" not in said:
            raise InvalidSpecError("rounding needs points=, the number of points of the grid")
        return RoundedContinuous(*ends, **said)

    def __post_init__(self, rounding: str | None) -> None:
        if self.metric is not None:
            self._settle_relative(self.metric)
        if self.edges is not None:
            self._place_edges(self.edges)
        elif self.low is None or self.high is None:
            raise InvalidSpecError(
                "a continuous attribute needs its lowest and highest value, "
                "such as Continuous(0, 100, ...), or edges=[0, 10, 50, 100]"
            )
        elif self.bins is None:
            object.__setattr__(self, "bins", "auto")
        super().__post_init__()
        if self.cyclic and self._uneven:
            raise InvalidSpecError(
                "bins of different widths do not go around a circle; use bins, or leave cyclic out"
            )
        if self.edges is None:
            self._settle_bins()
        if not self.undecided:
            self._check_metric()

    def _settle_metric(self) -> None:
        if self.edges is not None:
            self._check_farthest()

    def _settle_relative(self, said: Any) -> None:
        """Bins of one ratio become edges, which every device reads alike."""
        said = metric_from_dict(said) if isinstance(said, Mapping) else said
        if not isinstance(said, Relative):
            raise InvalidSpecError(
                f"the metric of a continuous attribute is Relative(...) or left out, not "
                f"{shown(said)}"
            )
        object.__setattr__(self, "metric", said)
        if self.per not in (None, 1):
            raise InvalidSpecError("the metric defines all distances; leave per out")
        if self.edges is None:
            low, high = finite("low", self.low), finite("high", self.high)
            if not is_whole(self.bins) or not 2 <= self.bins <= MOST_POSITIONS:
                raise InvalidSpecError(
                    f"bins on a log scale are a number from 2 to {MOST_POSITIONS:,}, not "
                    f"{shown(self.bins)}"
                )
            if 0 < low < high:
                inner = np.geomspace(low, high, int(self.bins) + 1)[1:-1].tolist()
                rounded = [float(f"{edge:.9g}") for edge in inner]
                object.__setattr__(self, "edges", (low, *rounded, high))
                object.__setattr__(self, "bins", None)
        first = finite("low", self.low) if self.edges is None else self.edges[0]
        if not is_number(first) or not first > 0:
            raise InvalidSpecError(
                f"a relative metric needs values above 0, and the lowest is {shown(first)}; "
                "begin above 0"
            )

    def _place_edges(self, edges: object) -> None:
        if self.bins is not None:
            raise InvalidSpecError("give a continuous attribute bins or edges, not both")
        edges = edges.tolist() if isinstance(edges, np.ndarray) else edges
        if not is_list(edges):
            raise InvalidSpecError(f"edges are a list of numbers, not {shown(edges)}")
        placed = tuple(finite("an edge", edge) for edge in edges)
        if not 3 <= len(placed) <= MOST_POSITIONS + 1:
            raise InvalidSpecError(
                f"edges of one's own make 2 to {MOST_POSITIONS:,} bins, not {len(placed) - 1}"
            )
        for lower, upper in pairwise(placed):
            if lower >= upper:
                raise InvalidSpecError(
                    f"edges must rise, but {plain(upper)} follows {plain(lower)}; write each edge "
                    "once, in increasing order"
                )
        for end, edge in (("low", placed[0]), ("high", placed[-1])):
            said = getattr(self, end)
            if said is not None and (not is_number(said) or said != edge):
                raise InvalidSpecError(
                    f"{end} is {shown(said)}, but the edges end at {plain(edge)}"
                )
            object.__setattr__(self, end, edge)
        object.__setattr__(self, "edges", placed)

    def _settle_bins(self) -> None:
        bins: Any = {} if isinstance(self.bins, str) and self.bins == "auto" else self.bins
        if isinstance(bins, Mapping):
            try:
                bins = AutoBins(**bins)
            except TypeError:
                said = f"not {list(bins)}"
                raise InvalidSpecError(f"bins take n, smoothness and prior, {said}") from None
        if isinstance(bins, AutoBins):
            object.__setattr__(self, "bins", bins)
            return
        if is_list(bins):
            raise InvalidSpecError(
                f"bins is a number of equal bins, not {shown(bins)}; write "
                "Continuous(edges=[0, 10, 50, 100], ...) to place the bins"
            )
        if not is_whole(bins) or bins < 2:
            raise InvalidSpecError(
                f"a continuous attribute needs at least 2 bins, not {shown(bins)}"
            )
        object.__setattr__(self, "bins", int(bins))
        if self.size <= LARGEST_SIZE and not (np.diff(self.bin_edges) > 0).all():
            raise InvalidSpecError(
                f"{self.bins:,} bins between {self.low} and {self.high} are too narrow"
            )

    @property
    def undecided(self) -> bool:  # type: ignore[override]
        return isinstance(self.bins, AutoBins)

    @property
    def size(self) -> int:
        if self.edges is not None:
            return len(self.edges) - 1
        if isinstance(self.bins, int):
            return self.bins
        raise InvalidSpecError(
            "the number of bins is not chosen yet; put the attribute in a survey"
        )

    @cached_property
    def _apart(self) -> list[Fraction]:
        """How far the middles of neighbouring bins are apart, where edges were placed."""
        edges = [decimal_of(edge) for edge in self.edges or ()]
        return [(after - before) / 2 for before, after in zip(edges, edges[2:], strict=False)]

    @property
    def step(self) -> Fraction:
        return self.extent / self.size if self.edges is None else min(self._apart)

    @property
    def usual(self) -> Metric:
        """A line; with bins of different widths, by the distances of their middles."""
        if self.metric is not None:
            edges = [decimal_of(edge) for edge in self.edges or ()]
            return self.metric.along(_middles(edges), self.unit)
        if self.within is not None and self._uneven:
            return self._windows(decimal_of(self.within))
        if len(set(self._apart)) <= 1:
            return super().usual
        unit = common_unit(self._apart)
        whole = [0, *accumulate(int(apart / unit) for apart in self._apart)]
        middles: Integers = np.array(whole, dtype=kind_for(whole[-1]))
        return Distances.of(np.abs(middles[:, None] - middles), unit * self.unit)

    @property
    def _uneven(self) -> bool:
        """Whether bins have different widths; their middles may be evenly spaced all the same."""
        edges = [decimal_of(edge) for edge in self.edges or ()]
        return len({above - below for below, above in pairwise(edges)}) > 1

    def _windows(self, within: Fraction) -> Distances:
        """Epsilon for every window that has to be left to come from one bin to the other.

        Values of two bins are farther apart than the gap between them, so floor(gap / within) + 1
        windows at least.
        """
        edges = [decimal_of(edge) for edge in self.edges or ()]
        most = floor_of((edges[-2] - edges[1]) / within) + 1
        whole: Integers = np.zeros((self.size, self.size), dtype=kind_for(most))
        for x, end in enumerate(edges[1:-1]):
            rest = [floor_of((start - end) / within) + 1 for start in edges[x + 1 : -1]]
            whole[x, x + 1 :] = whole[x + 1 :, x] = rest
        return Distances.of(closure(whole), decimal_of(self.epsilon))

    @property
    def metric_kind(self) -> str:
        if self.metric is not None:
            return self.metric.kind
        return "line" if self.within is None else "window"

    @property
    def widths(self) -> tuple[float, float]:
        """Of the narrowest and of the widest bin."""
        if self.edges is None:
            return float(self.step), float(self.step)
        found = np.diff(self.bin_edges)
        return float(found.min()), float(found.max())

    @cached_property
    def bin_edges(self) -> npt.NDArray[np.float64]:
        """The size + 1 edges; bin k holds edges[k] <= v < edges[k+1], the last its upper end.

        As they were placed, or as the core computes them.
        """
        if self.edges is not None:
            return np.array(self.edges)
        return np.array(Bins("", low=self.low, high=self.high, bins=self.size).edges)

    def domain_of(self, name: str) -> Bins:
        ends: dict[str, Any] = {"low": self.low, "high": self.high, "cyclic": self.is_cyclic}
        bins: dict[str, Any] = {"bins": self.size}
        if self.edges is not None:
            bins = {"given": tuple(self.edges)}
        return Bins(name, self.optional is not None, **self._close, **ends, **bins)

    def _positions(self, reals: npt.NDArray[np.float64]) -> Positions:
        places = np.searchsorted(self.bin_edges[1:-1], reals, side="right")
        if self.is_cyclic:
            places = np.where(reals == self.high, 0, places)
        return places.astype(np.int64)

    @cached_property
    def _edges(self) -> array[float]:
        return array("d", self.bin_edges.tobytes())

    def choose(self, words: object, name: str) -> Chosen:
        """A pair of ends, which have to be edges of bins, or None for an open end.

        Bins are left-closed: (0, 20) is 0 <= x < 20, except at the upper end of the domain.
        """
        if isinstance(words, tuple):
            return self._choose_range(words, name)
        if not is_number(words):
            raise QueryError(f"{name} takes a range, not {shown(words)}")
        if not self.low <= words <= self.high:
            raise empty(words, name, self._domain)
        position = self.position(words, name)
        raise QueryError(
            f"{name} = {plain_or_exact(words)} is part of a bin; "
            f"use the bin, {self.label(position)}"
        )

    def _choose_range(self, words: tuple[Any, ...], name: str) -> Chosen:
        low, high = any_ends(words, name)
        over_the_end = is_reversed(low, high)
        if over_the_end and not self.is_cyclic:
            raise swapped(low, high, name)
        said = range_words(low, high)
        start = self.low if low is None else max(low, self.low)
        end = self.high if high is None else min(high, self.high)
        inside = self.low <= end and start <= self.high
        if not inside or (start > end and not over_the_end):
            raise empty(words, name, self._domain)
        first, last = (self._edge_at(number) for number in (start, end))
        if first is None or last is None:
            inside = first is None and last is None and self.position(start) == self.position(end)
            narrow = inside and not over_the_end
        else:
            narrow = (first == last and not over_the_end) or (first, last) == (self.size, 0)
        if narrow:
            # From the upper end on around the circle to the lower end, which is the same point.
            nearest = 0 if over_the_end else self.position(start + (end - start) / 2, name)
            bin_there = self.label(nearest)
            raise QueryError(f"{name} {said} is narrower than a bin; the nearest is {bin_there}")
        if first is None or last is None:
            cuts = [self._cut(at) for at, edge in ((start, first), (end, last)) if edge is None]
            raise QueryError(
                f"{name} {said} cuts a bin of {name}: {'; '.join(cuts)}; use bin edges as ends"
            )
        note = partly_outside(name, low, high, self.low, self.high)
        return Chosen.between(first, last, self.size, said, note)

    def _edge_at(self, number: float) -> int | None:
        """Which edge a number is, up to rounding or as messages print the edge; None for none."""
        nearest = int(np.abs(self.bin_edges - number).argmin())
        edge = float(self.bin_edges[nearest])
        # Relative to the width of a bin: one of seconds since 1970 is small beside its edges.
        near = max(1e-9 * self.widths[0], 4 * math.ulp(edge))
        same = abs(number - edge) <= near
        return nearest if same or float(self._edge(nearest).replace(",", "")) == number else None

    def _cut(self, number: float) -> str:
        """Where in a bin a number lies."""
        position = self.position(number)
        below, above = self._edge(position), self._edge(position + 1)
        return f"{plain_or_exact(number)} lies between the edges {below} and {above}"

    def _cuts(self, width: float, name: str) -> tuple[list[int], str | None]:
        """Bars from the lower end, each of this width but the last; none cuts a bin."""
        count = max(1, math.ceil((self.high - self.low) / width - 1e-9))
        edges: list[int] = []
        # More bars than bins cut one of the first bins.
        for cut in (self.low + k * width for k in range(1, min(count, self.size + 1))):
            edge = self._edge_at(cut)
            if edge is None:
                raise QueryError(
                    f"bars of {plain(width)} would cut bins of {name}: {self._cut(cut)}; "
                    f"{self._other_width(width)}"
                )
            edges.append(edge)
        return [0, *edges, self.size], None

    def _other_width(self, width: float) -> str:
        """What to use in place of a width that cuts bins."""
        if self._uneven:
            return "leave the width out for a bar for each bin"
        step = float(self.step)
        times = max(1, math.floor(width / step))
        return f"use {plain(times * step)} or {plain((times + 1) * step)}"

    @property
    def narrowest_bar(self) -> float:
        return self.widths[0]

    def numbers(self, name: str) -> tuple[npt.NDArray[np.float64], str | None]:
        if self.is_cyclic:
            raise no_line(name)
        edges = self.bin_edges
        narrow, wide = (plain(width / 2) for width in self.widths)
        most = wide if narrow == wide else f"{narrow} to {wide}"
        note = f"{name} taken at the middle of its bins, at most {most} off each; "
        note += "the interval is wider by that, as a bound"
        return (edges[:-1] + edges[1:]) / 2, note

    def circle(self, name: str) -> Circle:
        step = 2 * math.pi / self.size
        middles = (np.arange(self.size, dtype=np.float64) + 0.5) * step
        return Circle(self.low, self.high - self.low, middles, step / 2)

    def extremes(
        self, inside: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        edges = self.bin_edges
        return edges[:-1] * inside, edges[1:] * inside

    @property
    def _domain(self) -> str:
        low, high = plain_or_exact(self.low), plain_or_exact(self.high)
        return f"from {low} to {high} in {self._of_bins}"

    @property
    def _of_bins(self) -> str:
        narrow, wide = (plain(width) for width in self.widths)
        return f"bins of {narrow}" if narrow == wide else f"{self.size} bins of {narrow} to {wide}"

    def values_at(self, position: int) -> tuple[float, float]:
        low, high = self.bin_edges[position : position + 2].tolist()
        return low, high

    def describe(self) -> str:
        of = "" if self.edges is None else self._of_bins.partition(" bins")[2]
        around = ", around a circle" if self.is_cyclic else ""
        return f"{plain(self.low)} to {plain(self.high)} in {self.size} bins{of}{around}"

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        if self.edges is not None:
            del data["low"], data["high"]  # the first and the last edge
        return data if self.metric is None else {**data, "metric": self.metric.to_dict()}

    def name_of(self, position: int) -> str:
        return self.label(position, position)

    def label(self, first: int, last: int | None = None) -> str:
        """From the lower edge of the first bin to the upper edge of the last."""
        end = first if last is None else last
        return f"{self._edge(first)} to {self._edge(end + 1)}"

    def until(self, position: int) -> str:
        return self._edge(position + 1)

    def _edge(self, number: int) -> str:
        """An edge with as many digits as it takes to tell it from its neighbours."""
        edges = self.bin_edges
        edge, near = float(edges[number]), edges[max(number - 1, 0) : number + 2]
        digits = 2 + math.ceil(math.log10(max(1.0, abs(edge) / float(np.diff(near).min()))))
        return plain(edge) if digits <= 6 or edge == int(edge) else f"{edge:,.{digits}g}"


def _middles(edges: Sequence[Fraction]) -> list[Fraction]:
    """Between two edges on a log scale, in whole parts of 2^64 of the lower one."""
    found = []
    for below, above in pairwise(edges):
        root = math.isqrt(int(above / below * (1 << 128)))
        found.append(below * Fraction(root, 1 << 64))
    return found
