"""The best guess of a person's value from their reports: how often it is right.

Somebody knows how people are spread, pi, sees r reports of one person, and guesses. A guess g is
right if the value lies in B(g), the values near g. After reports y the best guess is right with
probability max_g P(B(g) | y), so on average with

    sum over y of  max_g  sum over x in B(g) of  pi(x) P(y_1 | x) ... P(y_r | x).

That is exact where all y can be listed; the order of reports tells nothing, so it is left out.
Else people and their reports are drawn. What these tell is exact then, too; only the mean is that
of a sample, and has a standard error.

From the metric alone: P(y | x') >= e^(-r E(x, x')) P(y | x). Take the mean over all x in B = B(g)
by their share of pi, and the sum over all x' outside. Then, whatever the mechanism, for every y

    P(B | y) <= pi(B) / (pi(B) + min over x in B of Z(x)),   Z(x) = sum of pi(x') e^(-r E(x, x')).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.channels import Channel, Column, Floats, Integers
from metricldp.channels.joint import JointChannel
from metricldp.coins.stream import Coins

DRAWS = 1 << 12
"""People who are drawn where reports are too many to be listed."""
_MOST_BITS = 16
"""Up to so many bits reports are listed,"""
_MOST_CHANCES = 1 << 24
"""with so many probabilities of them,"""
_MOST_SETS = 1 << 16
"""and so many sets of several reports."""
_AT_ONCE = 1 << 21
"""Probabilities that are looked at together."""
_TIE = 1e-12
"""Guesses that differ by no more than this share are equally good, and the first is taken."""


class Share(NamedTuple):
    """How often a guess is right; the standard error is 0 where that is exact."""

    mean: float
    error: float = 0.0


class Total:
    """The mean of numbers that come one part after the other."""

    def __init__(self) -> None:
        self.count, self.sum, self.squares = 0, 0.0, 0.0

    def add(self, numbers: npt.ArrayLike) -> None:
        found = np.asarray(numbers, dtype=np.float64)
        self.count += found.size
        self.sum += float(found.sum())
        self.squares += float((found * found).sum())

    @property
    def share(self) -> Share:
        mean = self.sum / self.count
        spread = max(0.0, self.squares / self.count - mean * mean)
        return Share(mean, math.sqrt(spread / (self.count - 1)))


class Guesses(ABC):
    """All guesses that can be made: the positions near each."""

    @abstractmethod
    def sums(self, weights: Floats) -> Floats:
        """The weight of every guess, (n, size) -> (n, guesses)."""

    @abstractmethod
    def back(self, shares: Floats) -> Floats:
        """How often each position is near a guess, (n, guesses) -> (n, size)."""

    def best(self, weights: Floats) -> tuple[Floats, Floats]:
        """The weight of the best guess, (n,), and how often it is right about each position.

        Of several that are equally good each is made equally often.
        """
        sums = self.sums(weights)
        most = sums.max(axis=1)
        equal = (sums >= most[:, None] * (1 - _TIE)).astype(np.float64)
        return most, self.back(equal / equal.sum(axis=1, keepdims=True))

    def limit(self, prior: Floats, distances: Floats, reports: int) -> float:
        """Above what no number of reports of a mechanism brings anybody, see the head of this file.

        A position that nobody has stands for no one inside a guess.
        """
        likely = prior * np.exp(-reports * distances)
        outside = np.maximum(likely.sum(axis=1, keepdims=True) - self.sums(likely), 0.0)
        inside = self.sums(np.diag(prior)) > 0
        least = np.where(inside, outside, np.inf).min(axis=0)
        there = self.sums(prior[None])[0]
        some = there > 0
        return float((there[some] / (there[some] + least[some])).max())


@dataclass(frozen=True, eq=False)
class Stretches(Guesses):
    """Of one attribute: `length` positions from `first` on, over the end of a ring."""

    first: Integers
    length: Integers
    size: int
    centred: bool
    """Whether guess k is position k, so that x is near y where y is near x; else all differ."""

    @classmethod
    def of_one(cls, size: int) -> Stretches:
        """Each position by itself."""
        return cls(np.arange(size), np.ones(size, dtype=np.int64), size, True)

    @classmethod
    def near(cls, numbers: Floats, within: float) -> Stretches:
        """All that lie at most so far from a guess; numbers rise.

        The best guess is one of them, or lies between: then it holds what is at most twice as far
        apart.
        """
        slack, count = 1e-9 * within, len(numbers)
        starts = np.arange(count)
        ends = np.searchsorted(numbers, numbers + 2 * within + slack)
        longest = np.diff(ends, prepend=0) > 0
        starts, ends = starts[longest], ends[longest]
        first = np.searchsorted(numbers, numbers - within - slack)
        last = np.searchsorted(numbers, numbers + within + slack)
        if set(zip(starts.tolist(), ends.tolist(), strict=True)) <= set(
            zip(first.tolist(), last.tolist(), strict=True)
        ):
            return cls(first, last - first, count, True)
        return cls(starts, ends - starts, count, False)

    @classmethod
    def around(cls, size: int, steps: float) -> Stretches:
        """The same on a ring, so many steps to both sides."""
        length = min(math.floor(2 * min(steps, size) + 1e-9) + 1, size)
        centred = length % 2 == 1 or length == size
        first = np.arange(size) - (length // 2 if centred else 0)
        return cls(first % size, np.full(size, length), size, centred)

    def sums(self, weights: Floats) -> Floats:
        if (self.length == 1).all():
            return weights[:, self.first]
        ends = self.first + self.length
        if ends.max() > weights.shape[1]:
            weights = np.concatenate([weights, weights], axis=1)
        before = np.zeros((len(weights), weights.shape[1] + 1))
        np.cumsum(weights, axis=1, out=before[:, 1:])
        return np.asarray(before[:, ends] - before[:, self.first])

    def back(self, shares: Floats) -> Floats:
        if self.centred:
            return self.sums(shares)
        changes = np.zeros((len(shares), 2 * self.size + 1))
        changes[:, self.first] += shares
        changes[:, self.first + self.length] -= shares
        found = np.cumsum(changes[:, :-1], axis=1)
        return np.asarray(found[:, : self.size] + found[:, self.size :])


@dataclass(frozen=True, eq=False)
class Boxes(Guesses):
    """Of several attributes: near in all of them."""

    sides: Sequence[Stretches]

    def sums(self, weights: Floats) -> Floats:
        sizes = [side.size for side in self.sides]
        return _along(weights, sizes, [side.sums for side in self.sides])

    def back(self, shares: Floats) -> Floats:
        counts = [len(side.first) for side in self.sides]
        return _along(shares, counts, [side.back for side in self.sides])


def _along(
    weights: Floats, sizes: Sequence[int], sides: Sequence[Callable[[Floats], Floats]]
) -> Floats:
    """What is done to each side of a box, one side after the other."""
    found = weights.reshape(-1, *sizes)
    for axis, done in enumerate(sides, start=1):
        last = np.moveaxis(found, axis, -1)
        sums = done(last.reshape(-1, last.shape[-1]))
        found = np.moveaxis(sums.reshape(*last.shape[:-1], -1), -1, axis)
    return found.reshape(len(weights), -1)


class Seen(ABC):
    """What somebody sees: reports of people in some state, of which one attribute is guessed."""

    @property
    @abstractmethod
    def states(self) -> int: ...

    @cached_property
    @abstractmethod
    def every(self) -> Floats | None:
        """ln P(report | state) of all reports, (reports, states); None where they are too many."""

    @abstractmethod
    def drawn(self, states: Integers, coins: Coins) -> Floats:
        """A report of each of some people, and ln P(report | state) of it, (n, states)."""

    def attribute(self, weights: Floats) -> Floats:
        """The sum over all states with each position of the attribute, (n, states) -> (n, size)."""
        return weights


@dataclass(frozen=True, eq=False)
class Alone(Seen):
    """An attribute that is blurred by itself: its position is all there is."""

    channel: Channel

    @property
    def states(self) -> int:
        return self.channel.size

    @cached_property
    def every(self) -> Floats | None:
        return None if self._reports is None else self.channel.log_chances(self._reports)

    @cached_property
    def _reports(self) -> Column | None:
        if self.channel.bits > _MOST_BITS:
            return None
        reports = self.channel.every_report()
        return reports if len(reports) * self.states <= _MOST_CHANCES else None

    @cached_property
    def _places(self) -> Integers:
        """Where each report stands in the list, by its bits."""
        found = np.zeros(1 << self.channel.bits, dtype=np.int64)
        assert self._reports is not None
        found[self._code(self._reports)] = np.arange(len(self._reports))
        return found

    def _code(self, column: Column) -> Integers:
        return np.asarray(self.channel.field.pack(column) @ (1 << np.arange(self.channel.bits)))

    def drawn(self, states: Integers, coins: Coins) -> Floats:
        column = self.channel.encode(states, coins)
        if self.every is None:
            return self.channel.log_chances(column)
        return self.every[self._places[self._code(column)]]


@dataclass(frozen=True, eq=False)
class Together(Seen):
    """One of several attributes that are blurred together, or all; reports tell of all of them."""

    channel: JointChannel
    axis: int | None

    @property
    def states(self) -> int:
        return math.prod(self.channel.sizes)

    @property
    def _outputs(self) -> list[int]:
        return [field.outputs for field in self.channel.fields.values()]

    @cached_property
    def every(self) -> Floats | None:
        count = math.prod(self._outputs)
        if not self.channel.has_chances or count * self.states > _MOST_CHANCES:
            return None
        return self.channel.log_chances(self.channel.every_report()).reshape(count, -1)

    def drawn(self, states: Integers, coins: Coins) -> Floats:
        assert self.every is not None
        columns = self.channel.encode(np.unravel_index(states, self.channel.sizes), coins)
        ordered = tuple(columns[part].astype(np.int64) for part in self.channel.fields)
        return self.every[np.ravel_multi_index(ordered, self._outputs)]

    def attribute(self, weights: Floats) -> Floats:
        if self.axis is None:
            return weights
        others = tuple(d + 1 for d in range(len(self.channel.sizes)) if d != self.axis)
        return np.asarray(weights.reshape(-1, *self.channel.sizes).sum(axis=others))


class Found(NamedTuple):
    """What one kind of guess gains from so many reports."""

    share: Share
    """Of everybody."""
    own: Share
    """Of the people who are easiest to guess."""
    limit: float


@dataclass(frozen=True, eq=False)
class Attack:
    """Somebody who knows how people are spread, and sees their reports."""

    seen: Seen
    spread: Floats
    """Over all states."""
    distances: Floats
    """What a mechanism has to keep between positions of the attribute."""
    random: np.random.Generator
    coins: Coins

    @cached_property
    def prior(self) -> Floats:
        """Over the positions of the attribute."""
        return np.asarray(self.seen.attribute(self.spread[None])[0])

    def gains(self, kind: Guesses, counts: Sequence[int]) -> tuple[int, list[Found]]:
        """Who is easiest to guess after one report, and what each number of reports gains."""
        every = sorted({1, *counts})
        listed = {r: ways for r in every if (ways := _ways(self.seen, r)) is not None}
        sampled = [r for r in every if r not in listed]
        shares: dict[int, Share] = {}
        rights: dict[int, Floats] = {}
        for r, ways in listed.items():
            share, rights[r] = self._weighed(kind, ways)
            shares[r] = Share(share)
        totals = {r: Total() for r in sampled}
        for r, after in self._drawn(sampled, self.spread):
            most, right = kind.best(after)
            totals[r].add(most)
            rights[r] = rights.get(r, 0.0) + (after * right).sum(axis=0)
        shares |= {r: total.share for r, total in totals.items()}
        known = self.prior > 0
        easy = np.divide(rights[1], self.prior, out=np.zeros_like(self.prior), where=known)
        easiest = int(np.argmax(easy >= easy.max() * (1 - _TIE)))
        own = {r: Share(float(rights[r][easiest] / self.prior[easiest])) for r in listed}
        hits = {r: Total() for r in sampled}
        for r, after in self._drawn(sampled, self._only(easiest)):
            hits[r].add(kind.best(after)[1][:, easiest])
        own |= {r: total.share for r, total in hits.items()}
        limits = {r: kind.limit(self.prior, self.distances, r) for r in counts}
        return easiest, [Found(shares[r], own[r], limits[r]) for r in counts]

    def _only(self, position: int) -> Floats:
        """How people with one position of the attribute are spread."""
        here = np.eye(len(self.prior))[:, position]
        inside = self.seen.attribute(np.eye(self.seen.states)) @ here * self.spread
        return np.asarray(inside / inside.sum())

    def _weighed(self, kind: Guesses, ways: Floats) -> tuple[float, Floats]:
        """Over all that can be seen: how often guesses are right, and that by position."""
        share, rights = 0.0, np.zeros(len(self.prior))
        for part in _parts(len(ways), self.seen.states):
            weights = self.seen.attribute(self.spread * ways[part])
            most, right = kind.best(weights)
            share += float(most.sum())
            rights += (weights * right).sum(axis=0)
        return share, rights

    def _drawn(self, counts: Sequence[int], spread: Floats) -> Iterator[tuple[int, Floats]]:
        """P(x | reports) after each number of reports of people who are spread like that."""
        if not counts:
            return
        people = self.random.choice(self.seen.states, size=DRAWS, p=spread)
        with np.errstate(divide="ignore"):
            before = np.log(self.spread)
        for part in _parts(DRAWS, self.seen.states):
            logs = np.tile(before, (len(people[part]), 1))
            for r in range(1, counts[-1] + 1):
                logs += self.seen.drawn(people[part], self.coins)
                if r in counts:
                    after = np.exp(logs - logs.max(axis=1, keepdims=True))
                    yield r, self.seen.attribute(after / after.sum(axis=1, keepdims=True))


def _parts(count: int, size: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // size)
    return (slice(start, start + step) for start in range(0, count, step))


def _ways(seen: Seen, reports: int) -> Floats | None:
    """The probability of every set of so many reports, in any order, from each position."""
    if seen.every is None:
        return None
    count = len(seen.every)
    if reports == 1:
        return np.asarray(np.exp(seen.every))
    sets = math.comb(count + reports - 1, reports)
    if sets > _MOST_SETS or sets * seen.states > _MOST_CHANCES:
        return None
    chosen = np.array(list(combinations_with_replacement(range(count), reports)))
    logs = np.full((sets, seen.states), math.lgamma(reports + 1))
    again = np.zeros(sets)
    for k in range(reports):
        same = chosen[:, k] == chosen[:, k - 1] if k else np.zeros(sets, dtype=bool)
        again = np.where(same, again + 1, 1)
        logs += seen.every[chosen[:, k]] - np.log(again)[:, None]
    return np.asarray(np.exp(logs))
