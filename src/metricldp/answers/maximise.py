"""Expectation maximisation that stops in time, and the ladder from one attribute to several.

Run to its end, EM finds the distribution under which the reports are most likely, and that is all
spikes: it fits the noise. So reports are dealt out to two halves. Each half is followed through 0,
1, 2, 4, 8, ... steps and judged by how likely it makes the other. With t the best of these, all
reports together have 4 t steps, or 2 t over one attribute, and at least four: they bear more than
half of them does. And more, as long as ranges are clearly nearer to the truth by that.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from itertools import combinations
from typing import Any

import numpy as np

from metricldp.answers.likelihood import Reports, Shares
from metricldp.basics.optional import lazy
from metricldp.mechanisms import Floats

threadpoolctl = lazy("threadpoolctl")

Axes = tuple[int, ...]
Progress = Callable[[float], None]
_FEWEST, _LEAST = 16, 4
"""Steps that are always tried; and taken."""
_BEYOND, _BEYOND_ALONE = 4, 2
"""All reports have so many times the steps that are best for half of them; over one attribute."""
_MOST = 1 << 12
"""Steps of a half after which nothing more is expected."""
_PATIENCE = 2
"""Doublings without a gain that end the search."""
_CLEARLY = 2.0
"""Standard errors by which ranges have to be nearer to the truth for more steps."""
_BY_ONE = 32
"""Steps that are taken one by one before several are taken at once."""
_STRIDE = 16
"""At once are taken at most twice a share of the steps so far: one of so many."""
_ROUNDING = 1e-13
"""By so much of itself a sum of logarithms can be off."""
_STILL = 1e-11
"""The length of a step at the top, where rounding alone moves shares: nothing comes any more."""
_KEPT = 0.1
"""What is left, at least, of a cell in such a leap, of what two steps leave."""
_LARGE = 1 << 22
"""Work of a step from which on the two halves are worth a thread each."""
_SWEEPS = 60
_CLOSE = 1e-7
"""Sweeps of proportional fitting: at most so many, or until no margin is farther off."""


class Run:
    """EM from a start; steps are counted also where several are taken at once."""

    def __init__(self, reports: Reports, start: Shares) -> None:
        self.reports, self.shares, self.steps = reports, start, 0.0
        self._known: tuple[float, Shares] | None = None

    def to(self, steps: int) -> Shares:
        """The shares after so many steps in all."""
        while (left := steps - self.steps) > 0:
            leap = min(left / 2, self.steps / _STRIDE) if self.steps >= _BY_ONE else 0.0
            if leap < 1.5:
                self.shares, self._known = self._stepped(self.shares, self._at()[1]), None
                self.steps += min(1.0, left)
            else:
                self._leap(leap)
        return self.shares

    def _at(self) -> tuple[float, Shares]:
        if self._known is None:
            self._known = self.reports.gradient(self.shares)
        return self._known

    def _stepped(self, shares: Shares, gradient: Shares) -> Shares:
        if not self.reports.n:  # a half of very few reports
            return shares
        found = shares * gradient
        return np.asarray(found / found.sum())

    def _leap(self, most: float) -> None:
        """Two steps, and on along the curve that they show: about 2 a steps with a leap of a.

        Squared extrapolation (Varadhan and Roland 2008). A leap that makes reports less likely than
        the first step did is taken back, unless by rounding only: at the top nothing else moves.
        """
        one = self._stepped(self.shares, self._at()[1])
        before, gradient = self.reports.gradient(one)
        two = self._stepped(one, gradient)
        first, turn = one - self.shares, two - 2 * one + self.shares
        scale = np.maximum(self.shares, np.finfo(np.float64).tiny)
        bend = math.sqrt(float((turn * turn / scale).sum()))
        length = math.sqrt(float((first * first / scale).sum()))
        leap = min(most, length / max(bend, 1e-300))
        if length >= _STILL and leap > 1.5:
            far = np.maximum(self.shares + 2 * leap * first + leap * leap * turn, _KEPT * two)
            far /= far.sum()
            known = self.reports.gradient(far)
            if known[0] >= before - _ROUNDING * abs(before):
                self.shares, self._known = far, known
                self.steps += 2 * leap
                return
        self.shares, self._known = two, None
        self.steps += 2 * (most if length < _STILL else 1)


@dataclass(frozen=True)
class Climbed:
    """What a search for the best stop found."""

    shares: Shares
    """Of all reports, at the end."""
    early: tuple[Shares, ...]
    """At the best stop: of all reports, and of each half; for the next rung to start from."""
    stop: int
    """The best number of steps for half of the reports."""
    steps: int
    """Those that all reports had."""
    scores: Mapping[int, float]
    """By number of steps, how likely each half made the other, in logarithms."""


def climb(
    reports: Sequence[Reports], starts: Sequence[Shares], progress: Progress = lambda done: None
) -> Climbed:
    """EM with the stop that serves unseen reports best; all of them first, then the two halves."""
    whole, *parts = (Run(r, start) for r, start in zip(reports, starts, strict=True))
    scores: dict[int, float] = {}
    stop, best, worse, early = 0, 0, 0, list(starts[1:])
    with _threads(whole) as each:
        while stop <= _MOST:
            shares = list(each(lambda run, to: run.to(to), parts, [stop] * 2))
            crossed = list(each(lambda r, p: r.likelihood(p), reports[:0:-1], shares))
            scores[stop] = float(sum(crossed))
            if scores[stop] > scores[best] or not stop:
                best, worse, early = stop, 0, shares
            else:
                worse += 1
            progress(1 - 0.5 ** (1 + len(scores) / 4))
            if worse >= _PATIENCE and stop >= _FEWEST:
                break
            stop = max(1, 2 * stop)
        beyond = _BEYOND if whole.shares.ndim > 1 else _BEYOND_ALONE
        steps = _longer(parts, reports[:0:-1], max(beyond * best, _LEAST), each)
    first = whole.to(best)
    found = Climbed(whole.to(steps), (first, *early), best, steps, scores)
    progress(1.0)
    return found


def _longer(
    runs: Sequence[Run], judges: Sequence[Reports], steps: int, each: Callable[..., Iterator[Any]]
) -> int:
    """The same steps, or twice as many as long as ranges are clearly nearer to the truth then.

    Likelihood looks at single cells. Where these are many and noise is small, it stops before
    wide ranges are right. Each half is judged by the unbiased answers of the other.
    """
    before = list(each(lambda run: run.to(steps), runs))
    while 2 * steps <= _BEYOND * _MOST:
        after = list(each(lambda run: run.to(2 * steps), runs))  # noqa: B023
        judged = list(each(lambda r, p, q: r.farther(p, q), judges, after, before))
        by, variance = (sum(part) for part in zip(*judged, strict=True))
        if by >= -_CLEARLY * math.sqrt(variance):
            break
        before, steps = after, 2 * steps
    return steps


@contextlib.contextmanager
def _threads(run: Run) -> Iterator[Callable[..., Iterator[Any]]]:
    """How work is done on two things at once: by two threads, where it is worth it."""
    if run.reports.work < _LARGE:
        yield map
        return
    with ThreadPoolExecutor(2) as pool:
        yield pool.map


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Products of matrices on one core each: on a busy machine more of them wait for each other."""
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield


# Several attributes


@dataclass(frozen=True)
class Ladder:
    """The fits of a set of axes, and of all sets below it."""

    climbed: Mapping[Axes, Climbed]
    shares: Shares


def ladder(reports: Reports, progress: Progress = lambda done: None) -> Ladder:
    """Up to three axes: each alone, every two, all three, each from those below it."""
    every = (reports, *reports.halves())
    count = len(reports.shape)
    rungs = [axes for size in range(1, count + 1) for axes in combinations(range(count), size)]
    parts = {axes: [r if len(axes) == count else r.over(axes) for r in every] for axes in rungs}
    work = {axes: parts[axes][0].work for axes in rungs}
    done, found = 0.0, dict[Axes, Climbed]()
    for axes in rungs:
        starts = [_start(parts[axes][0].shape, axes, found, which) for which in range(3)]
        share = work[axes] / sum(work.values())
        found[axes] = climb(parts[axes], starts, partial(_within, progress, done, share))
        done += share
    return Ladder(found, found[rungs[-1]].shares)


def _within(progress: Progress, done: float, share: float, part: float) -> None:
    progress(min(1.0, done + share * part))


def _start(shape: Axes, axes: Axes, below: Mapping[Axes, Climbed], which: int) -> Shares:
    """Even, a product, or the closure of pairs: of all reports (0), or of a half (1, 2)."""
    if len(axes) == 1:
        return np.full(shape, 1 / shape[0])

    if len(axes) == 2:
        return np.multiply.outer(*(below[axis,].early[which] for axis in axes))
    places = {axis: place for place, axis in enumerate(axes)}
    pairs: dict[Axes, Shares] = {
        (places[a], places[b]): below[a, b].early[which] for a, b in combinations(axes, 2)
    }
    return closure(pairs, shape)


def closure(pairs: Mapping[Axes, Shares], shape: Axes) -> Shares:
    """The distribution of largest entropy that has these margins, by proportional fitting.

    Margins that do not quite agree with each other are met as far as they can be, the last best.
    """
    alone: dict[int, list[Floats]] = {}
    for (a, b), shares in pairs.items():
        alone.setdefault(a, []).append(shares.sum(axis=1))
        alone.setdefault(b, []).append(shares.sum(axis=0))
    single = [np.mean(alone[d], axis=0) for d in range(len(shape))]
    return proportional(reduce(np.multiply.outer, single), pairs)


def proportional(start: Shares, margins: Mapping[Axes, Shares]) -> Shares:
    """The nearest distribution that has these margins, in the sense of information."""
    found = np.array(start, dtype=np.float64)
    for _ in range(_SWEEPS):
        astray = 0.0
        for axes, wanted in margins.items():
            others = tuple(d for d in range(found.ndim) if d not in axes)
            margin = found.sum(axis=others)
            astray = max(astray, float(np.abs(margin - wanted).max()))
            ratio = np.divide(wanted, margin, out=np.zeros_like(wanted), where=margin > 0)
            found *= np.expand_dims(ratio, others)
        if astray < _CLOSE:
            break
    return np.asarray(found / found.sum())
