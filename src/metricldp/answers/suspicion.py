"""An alarm for reports that no people could have sent: for every attribute, a proved p-value.

Honest reports are independent draws, each from the law of somebody's value. So the share of reports
with anything in common lies between its least and its largest probability for any value, up to a
deviation that Chernoff's inequality bounds. And of all reports together, n KL(seen, expected) is at
least x with a probability of at most e^-x (e x / (k - 1))^(k - 1), k reports being possible
(Agrawal 2020; people of different values only make it smaller). What is expected is not known: the
people who fit best are taken, whose KL is at most that of the true ones. Both hold for any people
and any number of them, without approximation.

What it cannot see: lies that some people would have sent honestly.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricldp.answers.comparisons import POSITIVE, p_text
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import counted, shown, table
from metricldp.mechanisms import Channel, Floats, IntegerChannel
from metricldp.mechanisms.moments import Independent
from metricldp.store.base import Store

_MOST_FITTED = 1 << 21
"""Reports times values up to which people are fitted."""
_GROUPS = 16
"""Beside single reports, so many groups of neighbouring ones: fewer kinds, a sharper bound."""
_MOST_PAIRED = 512
"""Bits up to which all pairs are looked at."""
_ROUNDING = 1e-9
_STEPS, _CLOSE = 80, 1e-10
_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class AttributeFit:
    """What was found in the reports of one attribute."""

    attribute: str
    pvalue: float
    """At most so often do honest reports look so strange, whoever sent them; at least 2e-308."""
    words: str

    def to_dict(self) -> dict[str, Any]:
        return {"attribute": self.attribute, "pvalue": self.pvalue, "found": self.words}


@dataclass(frozen=True)
class GoodnessOfFit:
    """A test of whether any respondents could have produced the reports.

    It cannot detect false responses that are randomized as the survey prescribes.
    """

    n: int
    parts: tuple[AttributeFit, ...]
    untested: tuple[str, ...] = ()
    """Names of attributes that have no such test."""

    @property
    def pvalue(self) -> float:
        """The smallest p-value of the attributes times their number (Bonferroni)."""
        return min([1.0, *(len(self.parts) * part.pvalue for part in self.parts)])

    def alarm(self, rate: float = 1e-3) -> bool:
        """Whether the p-value is at most `rate`, the false-alarm rate for correct reports."""
        if not is_number(rate) or not 0 < rate < 1:
            raise QueryError(f"a false-alarm rate is between 0 and 1, not {shown(rate)}")
        return self.pvalue <= rate

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = [part.to_dict() for part in self.parts]
        rest = {"untested": list(self.untested), "attributes": found}
        return {"n": self.n, "pvalue": self.pvalue, **rest}

    def __str__(self) -> str:
        rows = [("attribute", "p-value at most", "smallest p-value for")]
        rows += [(part.attribute, p_text(part.pvalue), part.words) for part in self.parts]
        lines = [table(rows, left=3), f"{counted(self.n, 'report')}: {self._verdict()}"]
        lines += [f"{name} has no goodness-of-fit test" for name in self.untested]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.alarm():
            return "respondents could not have produced these reports (p-value at most 0.001)"
        return "no evidence of impossible reports; consistent false responses cannot be detected"


def goodness_of_fit(store: Store) -> GoodnessOfFit:
    """The test of every attribute that has one."""
    if not store.n:
        return GoodnessOfFit(0, ())
    parts: list[AttributeFit] = []
    for name, channel in store.survey.tabled.items():
        with contextlib.suppress(QueryError):  # totals that do not hold what is needed
            parts += _tested(store, name, channel)
    tested = {part.attribute for part in parts}
    named = [*store.survey.tabled, *store.survey.blocks]
    untested = [name for name in dict.fromkeys(named) if name not in tested]
    return GoodnessOfFit(store.n, tuple(parts), tuple(untested))


def _tested(store: Store, name: str, channel: Channel) -> Iterator[AttributeFit]:
    if isinstance(channel, IntegerChannel):
        seen = store.table_of((name,)).sums
        yield _of_integers(name, channel, np.asarray(seen, dtype=np.float64))
    elif isinstance(channel.moments, Independent) and channel.is_bits:
        yield _of_bits(store, name, channel, (1 + channel.moments.means) / 2)


def _of_integers(name: str, channel: IntegerChannel, seen: Floats) -> AttributeFit:
    outputs, size = channel.outputs, channel.size
    if outputs * size > 16 * _MOST_FITTED:
        return AttributeFit(name, 1.0, "too many values for a test")
    chances = channel.moments.probabilities.T
    singles, prefixes = chances, np.cumsum(chances, axis=0)[:-1]
    events = np.concatenate([singles, prefixes])
    counts = np.concatenate([seen, np.cumsum(seen)[:-1]])
    words = [f"report {y}" for y in range(outputs)]
    words += [f"reports up to {y}" for y in range(outputs - 1)]
    found = [_strangest(counts, events, words, seen.sum())]
    if outputs * size <= _MOST_FITTED:
        found.append(_all_together(seen, chances, "all reports together"))
        if outputs > _GROUPS:
            cuts = np.arange(_GROUPS) * outputs // _GROUPS
            grouped = [np.add.reduceat(part, cuts, axis=0) for part in (seen, chances)]
            found.append(_all_together(grouped[0], grouped[1], f"{_GROUPS} groups of reports"))
    log_p, said = min(found)
    return AttributeFit(name, _probability(log_p + math.log(len(found))), said)


def _probability(log_p: float) -> float:
    return max(math.exp(min(0.0, log_p)), POSITIVE)


def _of_bits(store: Store, name: str, channel: Channel, chances: Floats) -> AttributeFit:
    """Single bits, and every two of them: the four things that two bits can be."""
    n, bits = store.n, len(chances)
    both = np.zeros((bits, bits))
    for batch in store.batches([name]):
        column = batch[name]
        for start in range(0, len(column), _AT_ONCE):
            signs = channel.features(column[start : start + _AT_ONCE])[
                :, int(channel.moments.has_constant) :
            ]
            ones = (signs > 0).astype(np.float32)
            both += ones.T @ ones
    single = np.diag(both)
    found = [_strangest(single, chances, [f"bit {k}" for k in range(bits)], n)]
    if 1 < bits <= _MOST_PAIRED:
        found.extend(_pairs(both, chances, n))
    log_p, said = min(found)
    return AttributeFit(name, _probability(log_p + math.log(len(found))), said)


def _pairs(both: Floats, chances: Floats, n: float) -> Iterator[tuple[float, str]]:
    """One bit with each behind it, a test for each first bit."""
    single = np.diag(both)
    for first in range(len(both) - 1):
        rest = slice(first + 1, None)
        here, there = chances[first], chances[rest]
        one_one, ones = both[first, rest], single[rest]
        counts = [one_one, single[first] - one_one, ones - one_one]
        counts.append(n - single[first] - ones + one_one)
        events = [here * there, here * (1 - there), (1 - here) * there, (1 - here) * (1 - there)]
        seconds = range(first + 1, len(both))
        words = [
            f"bits {first} and {second} as {as_}"
            for as_ in ("1, 1", "1, 0", "0, 1", "0, 0")
            for second in seconds
        ]
        yield _strangest(np.concatenate(counts), np.concatenate(events), words, n)


def _strangest(counts: Floats, events: Floats, words: list[str], n: float) -> tuple[float, str]:
    """The logarithm of the smallest p-value of all events (k, size), times their number."""
    most = np.minimum(events.max(axis=1) * (1 + _ROUNDING), 1.0)
    least = np.maximum(events.min(axis=1) * (1 - _ROUNDING), 0.0)
    share = counts / n
    nearest = np.clip(share, least, most)
    logs = -n * _divergence(share, nearest)
    at = int(np.argmin(logs))
    limit = "at most" if share[at] > most[at] else "at least"
    expected = n * (most[at] if share[at] > most[at] else least[at])
    said = f"{words[at]}: {counts[at]:,.0f} observed"
    if least[at] <= share[at] <= most[at]:
        said += ", as expected"
    else:
        said += f", {limit} {expected:,.0f} expected"
    return float(logs[at]) + math.log(2 * len(counts)), said


def _divergence(share: Floats, p: Floats) -> Floats:
    """KL of two coins."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(share > 0, share * np.log(share / p), 0.0)
        other = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - p)), 0.0)
    return np.asarray(np.maximum(one + other, 0.0))


def _all_together(seen: Floats, chances: Floats, what: str) -> tuple[float, str]:
    """The logarithm of the p-value of n KL(seen, best fit)."""
    free = len(seen) - 1
    told = least_divergence(seen, chances)
    log_p = 0.0 if told <= free else -told + free + free * math.log(told / free)
    return log_p, f"{what}: likelihood-ratio statistic {2 * told:,.1f}, {free:,} degrees of freedom"


def least_divergence(seen: Floats, chances: Floats) -> float:
    """n KL(seen, P theta) at its smallest over all theta >= 0, from below.

    An interior point method finds a theta. By Jensen's inequality no other one is nearer by more
    than n ln max_x g(x), g(x) being the mean of P(report | x) / P theta(report) over the reports.
    """
    n, w = seen.sum(), seen / seen.sum()
    size = chances.shape[1]
    theta, slack = np.full(size, 1.0 / size), np.ones(size)
    best = 0.0
    for _ in range(_STEPS):
        expected = np.maximum(chances @ theta, 1e-300)
        gain = chances.T @ (w / expected)
        near = w[w > 0] @ np.log((w / expected)[w > 0]) + math.log(theta.sum())
        best = max(best, float(near - math.log(gain.max() * theta.sum())))
        if near - best < _CLOSE:
            break
        aim = 0.1 * float(theta @ slack) / size
        scaled = chances * (np.sqrt(w) / expected)[:, None]
        curve = scaled.T @ scaled + np.diag(slack / theta)
        step = np.linalg.solve(curve, gain - 1 + aim / theta)
        slack_step = (aim - slack * step) / theta - slack
        theta = theta + _reach(theta, step) * step
        slack = slack + _reach(slack, slack_step) * slack_step
    return float(n * best)


def _reach(at: Floats, step: Floats) -> float:
    """How far a step can go with all numbers above zero."""
    falling = step < 0
    return min(1.0, 0.99 * float((at[falling] / -step[falling]).min(initial=np.inf)))
