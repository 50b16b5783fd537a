"""How likely reports are under a distribution of people, and the steps of EM towards more likely.

With K the channels' probabilities and h how often each report came, the logarithm of the likelihood
of shares p is l(p) = sum_y h(y) ln (K p)(y). One step of expectation maximisation is

    p <- p g(p) / n,   g = K'(h / K p),

and no p whatever is more likely than this one by more than max_x g(x) - n, in logarithms.

Where a report is one integer for each attribute, h is a table, and K is applied along one axis
after the other. Else a report is a row of its own, with its probability from every position.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms import Floats, IntegerChannel
from metricldp.mechanisms.moments import ranges_gram

Shares = npt.NDArray[Any]
"""How people are spread over the cells: an axis for each channel, in sum 1."""
Counts = npt.NDArray[np.int64]
Kinds = tuple[tuple[int, bool], ...]
"""How many values an attribute has, and whether they have an order."""
_MOST_DENSE = 1 << 21
"""Entries of a channel's table up to which it is multiplied with; beyond are quicker ways."""
_MANY = 1 << 18
"""Cells of a table of reports from which on half of the digits are enough."""
_ROWS = 1 << 14
"""Reports that are gone through at a time."""
_TINY = 1e-30
"""What is less likely than this has come about by rounding."""


class Reports(ABC):
    """What was reported, as far as it tells how likely a distribution of people is."""

    shape: tuple[int, ...]
    """Positions along each axis."""
    n: float

    @property
    @abstractmethod
    def work(self) -> float:
        """How long one step takes, roughly, in multiplications."""

    @abstractmethod
    def gradient(self, shares: Shares) -> tuple[float, Shares]:
        """The logarithm of the likelihood, up to a constant, and g = K'(h / K p)."""

    @abstractmethod
    def likelihood(self, shares: Shares) -> float:
        """The logarithm alone, with the same constant for all reports of the same kind."""

    @abstractmethod
    def halves(self) -> tuple[Reports, Reports]:
        """Every report dealt out to one of two by a fair coin: the same for the same reports."""

    @abstractmethod
    def over(self, axes: Sequence[int]) -> Reports:
        """The same reports over some of the axes, in their order."""

    def farther(self, later: Shares, earlier: Shares) -> tuple[float, float]:
        """By how much `later` is farther from the truth than `earlier`, and the variance of that.

        In squares over all ranges, judged without bias by these reports, which neither has seen.
        Nothing, where there is no such judgement.
        """
        return 0.0, 0.0


# Reports as a table


@dataclass(frozen=True, eq=False)
class Tabled(Reports):
    """Reports of one integer for each axis, counted."""

    channels: tuple[IntegerChannel, ...]
    counts: Counts | Floats
    """Whole numbers, where halves are to be drawn."""
    kinds: tuple[Kinds, ...] | None = None
    """Of each axis the attributes that it is made of; one with an order, where nothing is said."""

    @cached_property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(channel.size for channel in self.channels)

    @cached_property
    def n(self) -> float:  # type: ignore[override]
        return float(self.counts.sum())

    @property
    def work(self) -> float:
        return 2.0 * self.counts.size * max(self.shape)

    @cached_property
    def _kind(self) -> Any:
        return np.float32 if self.counts.size >= _MANY else np.float64

    @cached_property
    def _seen(self) -> Shares:
        """In an order in which the longest axes are the first and the last."""
        turned = self.counts.transpose(self._order)
        return np.ascontiguousarray(turned, dtype=self._kind)

    @cached_property
    def _order(self) -> list[int]:
        """The longest axis first, the second longest last: products of large matrices."""
        longest = sorted(range(self.counts.ndim), key=lambda d: -self.counts.shape[d])
        return longest[:1] + longest[2:] + longest[1:2]

    @cached_property
    def _laws(self) -> list[Shares | IntegerChannel]:
        """In that order: tables, or channels whose tables would be too large."""
        channels = [self.channels[d] for d in self._order]
        dense = (channel.outputs * channel.size <= _MOST_DENSE for channel in channels)
        return [
            channel.moments.probabilities.T.astype(self._kind) if small else channel
            for channel, small in zip(channels, dense, strict=True)
        ]

    @cached_property
    def _growth(self) -> list[int]:
        """The axes as they are gone through: those first that grow least."""
        sizes = [self.channels[d] for d in self._order]
        return sorted(range(len(sizes)), key=lambda d: sizes[d].outputs / sizes[d].size)

    def expected(self, shares: Shares) -> Shares:
        """K p: how likely each report is, with the axes as they are here."""
        found = np.asarray(shares.transpose(self._order), dtype=self._kind)
        for d in self._growth:
            law = self._laws[d]
            found = _moved(found, law, d) if isinstance(law, np.ndarray) else _spread(found, law, d)
        return np.asarray(np.maximum(found, _TINY))

    def gradient(self, shares: Shares) -> tuple[float, Shares]:
        expected = self.expected(shares)
        likelihood = self._likelihood(expected)
        found = np.divide(self._seen, expected, out=expected)
        for d in reversed(self._growth):
            law = self._laws[d]
            found = _moved(found, law.T, d) if isinstance(law, np.ndarray) else _mean(found, law, d)
        back = np.argsort(self._order)
        return likelihood, np.asarray(found.transpose(back), dtype=np.float64)

    def likelihood(self, shares: Shares) -> float:
        return self._likelihood(self.expected(shares))

    @cached_property
    def _places(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """Where reports came, and how many."""
        flat = self._seen.reshape(-1)
        places = np.flatnonzero(flat)
        return places, flat[places].astype(np.float64)

    def _likelihood(self, expected: Shares) -> float:
        places, counts = self._places
        return float(counts @ np.log(expected.reshape(-1)[places].astype(np.float64)))

    def farther(self, later: Shares, earlier: Shares) -> tuple[float, float]:
        """With d the difference and w = G d, for the Gram matrix G of all ranges, it is

        w (later + earlier) - 2 w u, where w u is the unbiased answer of w, decoded like any other.
        """
        if not self.n:
            return 0.0, 0.0
        weights = self._over_ranges(later - earlier)
        decoder = weights
        for d, channel in enumerate(self.channels):
            decoder = np.moveaxis(channel.moments.coefficients(np.moveaxis(decoder, d, -1)), -1, d)
        mean = float((self.counts * decoder).sum()) / self.n
        square = float((self.counts * decoder * decoder).sum()) / self.n
        known = float((weights * (later + earlier)).sum())
        return known - 2 * mean, 4 * (square - mean * mean) / self.n

    def _over_ranges(self, shares: Shares) -> Shares:
        kinds = self.kinds or tuple(((size, True),) for size in self.shape)
        every = [kind for axis in kinds for kind in axis]
        found = shares.reshape([size for size, _ in every])
        for d, (size, ordered) in enumerate(every):
            gram = ranges_gram(size) if ordered else 1 + np.eye(size)
            found = _moved(found, gram / gram.max(), d)
        return found.reshape(shares.shape)

    def halves(self) -> tuple[Tabled, Tabled]:
        whole = self.counts.astype(np.int64)
        one = coins_of(whole).binomial(whole, 0.5)
        return replace(self, counts=one), replace(self, counts=whole - one)

    def over(self, axes: Sequence[int]) -> Tabled:
        others = tuple(d for d in range(self.counts.ndim) if d not in axes)
        channels = tuple(self.channels[d] for d in axes)
        kinds = None if self.kinds is None else tuple(self.kinds[d] for d in axes)
        left = sorted(axes)
        summed = self.counts.sum(axis=others)
        return Tabled(channels, summed.transpose([left.index(d) for d in axes]), kinds)


def _apart(values: Shares, axis: int) -> Shares:
    """An axis with all before it as one, and all behind it as one."""
    shape = values.shape
    return values.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _moved(values: Shares, law: Shares, axis: int) -> Shares:
    """A table of (to, from) applied along one axis."""
    parts = _apart(values, axis)
    found = law @ parts if parts.shape[2] > 1 else parts[:, :, 0] @ law.T
    return np.asarray(found.reshape(*values.shape[:axis], len(law), *values.shape[axis + 1 :]))


def _spread(values: Shares, channel: IntegerChannel, axis: int) -> Shares:
    return np.moveaxis(channel.moments.spread(np.moveaxis(values, axis, -1)), -1, axis)


def _mean(values: Shares, channel: IntegerChannel, axis: int) -> Shares:
    return np.moveaxis(channel.moments.mean(np.moveaxis(values, axis, -1)), -1, axis)


def coins_of(counts: npt.NDArray[Any]) -> np.random.Generator:
    """Coins that depend on the reports alone, so that a fit can be made again."""
    digest = hashlib.sha256(counts.tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


# Reports one by one


@dataclass(frozen=True, eq=False)
class Listed(Reports):
    """Different reports, each with its probability from every position of each axis."""

    chances: tuple[Shares, ...]
    """Up to a factor for each report, (reports, positions)."""
    counts: Counts
    """How often each report came."""

    @cached_property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(chances.shape[1] for chances in self.chances)

    @cached_property
    def n(self) -> float:  # type: ignore[override]
        return float(self.counts.sum())

    @property
    def work(self) -> float:
        return 2.0 * len(self.counts) * math.prod(self.shape)

    def gradient(self, shares: Shares) -> tuple[float, Shares]:
        return self._passed(shares, back=True)

    def likelihood(self, shares: Shares) -> float:
        return self._passed(shares, back=False)[0]

    def _passed(self, shares: Shares, *, back: bool) -> tuple[float, Shares]:
        """One pass over all reports; the longest axis by products of matrices."""
        longest = int(np.argmax(self.shape))
        turned = np.moveaxis(shares, longest, 0).astype(np.float32)
        flat = turned.reshape(len(turned), -1)
        found, likelihood = np.zeros(flat.shape), 0.0
        for start in range(0, len(self.counts), _ROWS):
            some = slice(start, start + _ROWS)
            first, others = self.chances[longest][some], self._others(longest, some)
            expected = np.einsum("ik,ik->i", first @ flat, others, dtype=np.float64)
            expected, counts = np.maximum(expected, _TINY), self.counts[some]
            likelihood += float(counts @ np.log(expected))
            if back:
                weights = (counts / expected).astype(np.float32)
                found += first.T @ (others * weights[:, None])
        return likelihood, np.moveaxis(found.reshape(turned.shape), 0, longest)

    def _others(self, longest: int, some: slice) -> Shares:
        """The products of all other axes' probabilities, (reports, cells)."""
        found = np.ones((len(self.counts[some]), 1), dtype=np.float32)
        for d, chances in enumerate(self.chances):
            if d != longest:
                found = (found[:, :, None] * chances[some][:, None, :]).reshape(len(found), -1)
        return found

    def halves(self) -> tuple[Listed, Listed]:
        one = coins_of(self.counts).binomial(self.counts, 0.5)
        return self._counted(one), self._counted(self.counts - one)

    def _counted(self, counts: Counts) -> Listed:
        there = counts > 0
        return Listed(tuple(chances[there] for chances in self.chances), counts[there])

    def over(self, axes: Sequence[int]) -> Listed:
        return Listed(tuple(self.chances[d] for d in axes), self.counts)
