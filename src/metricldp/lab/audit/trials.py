"""Exact binomial tests by the thousand, with one false-alarm rate for all of them together.

Tests stand in families. The rate is shared equally by the families, and in each by its tests: by
Bonferroni's inequality an encoder that keeps its promise is called wrong no more often than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.basics.optional import lazy

special: Any = lazy("scipy.special")
stats: Any = lazy("scipy.stats")

Floats = npt.NDArray[np.float64]
Tell = Callable[[tuple[int, ...]], str]
"""What a test says when it fails, by its place among those that were made together."""
_WORTH_A_LOOK = 3.0
"""Counts that are not so many deviations off have a chance far above that of any false alarm."""
_LISTED = 200


class Failure(NamedTuple):
    """A test that failed: the chance of that, if all is well, what was seen, and of what."""

    chance: float
    words: str
    about: str


@dataclass
class Family:
    """Tests of one kind."""

    verdict: str
    """What is wrong where one fails: privacy, law or coins."""
    share: float
    """Its part of the false-alarm rate."""
    tests: int = 0
    _suspects: list[Failure] = field(default_factory=list)

    @property
    def level(self) -> float:
        """The rate of each test."""
        return self.share / max(1, self.tests)

    @property
    def failures(self) -> list[Failure]:
        return sorted(found for found in self._suspects if found.chance < self.level)

    def above(self, hits: Any, total: Any, chance: Any, tell: Tell, about: str = "") -> None:
        """Whether so many hits of so many are too many, if each is one with this chance."""
        hits, total = np.asarray(hits, dtype=np.float64), np.asarray(total, dtype=np.float64)
        chance = np.broadcast_to(chance, hits.shape)
        self.tests += hits.size
        deviation = np.sqrt(total * chance * (1 - chance))
        places = np.argwhere(hits - total * chance > _WORTH_A_LOOK * deviation)
        if not len(places):
            return
        at = tuple(places.T)
        tails = tail(hits[at], total[at], chance[at])
        order = np.argsort(tails, kind="stable")[:_LISTED]
        for place, found in zip(places[order].tolist(), tails[order].tolist(), strict=True):
            if found < self.share:
                self._suspects.append(Failure(found, tell(tuple(place)), about))

    def single(self, hits: int, total: int, chance: Any, words: str, about: str = "") -> None:
        self.above([hits], [total], chance, lambda at: words, about)

    def same(
        self, hits: Any, size: Any, others: Any, other_size: Any, tell: Tell, about: str = ""
    ) -> None:
        """Whether two samples of these sizes have the same share of hits: too many or too few.

        Given all hits, which of them are of the first sample is a draw without replacement.
        """
        hits, others = np.asarray(hits, dtype=np.float64), np.asarray(others, dtype=np.float64)
        size, whole = np.broadcast_arrays(size, np.asarray(size) + other_size)
        size, whole = (np.broadcast_to(sizes, hits.shape) for sizes in (size, whole))
        self.tests += 2 * hits.size
        share, total = size / np.maximum(whole, 1), hits + others
        spread = total * share * (1 - share) * (whole - total) / np.maximum(whole - 1, 1)
        off = np.abs(hits - total * share) / np.sqrt(np.where(spread > 0, spread, np.inf))
        suspect = np.argwhere(off > _WORTH_A_LOOK)
        farthest = np.argsort(-off[tuple(suspect.T)])[:_LISTED]
        for place in suspect[farthest]:
            at = tuple(place.tolist())
            found = drawn_tail(int(hits[at]), int(whole[at]), int(total[at]), int(size[at]))
            if found < self.share:
                self._suspects.append(Failure(found, tell(at), about))


def drawn_tail(hits: int, whole: int, total: int, size: int) -> float:
    """P(so many hits or farther out), exactly: of `whole`, `total` are hits, `size` are drawn."""
    mean = total * size / whole
    way = 1 if hits >= mean else -1
    spread = math.sqrt(mean * (1 - size / whole) * (1 - total / whole) + 1)
    steps = np.arange(int(40 * spread) + 100, dtype=np.float64)
    found = hits + way * steps
    found = found[(found >= max(0, size + total - whole)) & (found <= min(total, size))]
    parts = _choose(total, found) + _choose(whole - total, size - found) - _choose(whole, size)
    return float(np.exp(special.logsumexp(parts)))


def _choose(whole: Any, some: Any) -> Any:
    """The logarithm of a binomial coefficient."""
    log = special.gammaln
    return log(whole + 1.0) - log(some + 1.0) - log(whole - some + 1.0)


def tail(hits: Floats, total: Floats, chance: Any) -> Floats:
    """P(at least so many hits), exactly."""
    return np.where(hits > 0, special.betainc(np.maximum(hits, 1), total - hits + 1, chance), 1.0)


# Power -------------------------------------------------------------------------------------------

FOUND = 0.99
"""The probability with which a fault of the stated size is found."""


_CERTAIN = 4
"""Standard errors above which a ratio is there: the best of many is looked at."""
_UNSEEN = 1e-9
"""A difference of chances that no number of reports will show."""


def from_odds(log_odds: Any) -> Any:
    return special.expit(log_odds)


@dataclass(frozen=True)
class Prospect:
    """What a test is likely to see of an encoder that does just what its survey promises."""

    family: Family
    allowed: float
    """The largest log-ratio that is."""
    hits: float
    total: float
    """Reports with the feature: of the value that has it more often, and of both."""

    @property
    def told(self) -> float:
        """The log-ratio of the event, no more than is allowed; 0 where it may be chance alone."""
        hits, rest = self.hits + 0.5, max(0.0, self.total - self.hits) + 0.5
        ratio = math.log(hits / rest)
        certain = ratio > _CERTAIN * math.sqrt(1 / hits + 1 / rest)
        return min(ratio, self.allowed) if certain else 0.0

    @property
    def share(self) -> float:
        """An event that tells a share of what is allowed grows by that share of an excess."""
        return self.told / self.allowed if self.allowed > 0 else 1.0

    def excess(self) -> float:
        """By how much all that is told has to be too large for this test to find it."""
        whole = max(1, round(self.total))
        critical = stats.binom.isf(self.family.level, whole, from_odds(self.allowed)) + 1
        if not math.isfinite(critical) or critical > whole or not self.share:
            return math.inf
        needed = special.betaincinv(critical, whole - critical + 1, FOUND)
        return float((special.logit(needed) - self.told) / self.share)

    def needed(self, excess: float) -> float:
        """About how many times the reports it takes to find an excess."""
        q, r = from_odds(self.allowed), from_odds(self.told + excess * self.share)
        if r - q < _UNSEEN or not self.total:
            return math.inf
        spread = stats.norm.isf(self.family.level) * math.sqrt(q * (1 - q))
        spread += stats.norm.ppf(FOUND) * math.sqrt(r * (1 - r))
        return float((spread / (r - q)) ** 2 / self.total)


def promising(hits: Any, total: Any, allowed: Any) -> Floats:
    """How well events show a large ratio: what they tell, less what they may by chance."""
    hits, total = np.asarray(hits, dtype=np.float64), np.asarray(total, dtype=np.float64)
    told = np.log(hits + 0.5) - np.log(total - hits + 0.5)
    q = from_odds(allowed)
    by_chance = _DEVIATIONS / np.sqrt((total + 1e-9) * q * (1 - q))
    return np.asarray(told - by_chance)


_DEVIATIONS = 8.0
"""What it takes to be sure against some million tests."""
