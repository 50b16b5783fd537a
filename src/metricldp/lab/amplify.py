"""What shuffling adds: the (epsilon, delta) of a batch of n reports in a random order, per pair.

The local promise needs no trust. Whoever trusts that reports are shuffled, and that only batches of
n come out, has a second, central one: somebody's report hides among those of the others. Every
channel has a blanket, what all values send in common, omega(y) = min_z P(y | z); a share gamma of
it. Reports from it say nothing of their senders, and hide x from x':

    delta <= E[(L_1 + ... + L_M)_+] / (gamma n),   M ~ Bin(n, gamma),
    L = gamma (P(W | x) - e^epsilon P(W | x')) / omega(W),   W ~ omega / gamma

(Balle, Bell, Gascon and Nissim 2019). The sum is found by Fourier transform on a lattice. Nothing
is taken for smaller than it is: masses between two points of the lattice are split so that the mean
stays, which can only raise a convex function's mean; what is beyond the lattice is bounded by
Chernoff's inequality and added, or comes back at its other end, which adds; and the rounding of
transforms is bounded and added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import plain, shown, table
from metricldp.mechanisms import Channel, Floats, IntegerChannel
from metricldp.survey.agreement import Agreement

_POINTS, _FINE = 1 << 16, 1 << 18
"""Of the lattice; and of more than so many people."""
_MANY = 200_000
_BEYOND = 1e-4
"""What may lie beyond the lattice, as a share of the delta that is asked for."""
_UNIT = 2.0**-53
_FAINT = -90.0
"""Entries of a transform below e to this are left out, and their bound is added."""
_SLACK = 1e-12
"""By so much the blanket is taken smaller than floats say: any smaller one is one, too."""
_MOST_REPORTS, _MOST_ENTRIES = 1 << 20, 1 << 26
_MOST_BITS = 16
_LEAST, _NEAR = 1e-9, 1e-4
"""The search begins at so small a share of the local epsilon, and ends so near above the result."""
_MOST_TILTED, _TILTS = 1 << 12, 200
"""Values of one report in Chernoff's inequality: more are rounded up to so many; and its tilts."""
_MOST_PEOPLE = 10**10
"""Beyond them rounding outgrows what more people hide; a larger batch tells no more than theirs."""
_LITTLE = 0.9
"""Where the epsilon is more than this share of the local one, shuffling bought nothing."""


class Hidden(NamedTuple):
    """Two people, and how well a batch hides one from the other."""

    x: str
    other: str
    local: float
    """The epsilon of one report, which needs no trust."""
    shuffled: float
    """The epsilon of the batch."""


@dataclass(frozen=True)
class Amplified:
    """The central promise of a batch, for some pairs of people."""

    n: int
    delta: float
    blanket: float
    """The share of reports that say nothing of their senders."""
    pairs: tuple[Hidden, ...]
    enough: int | None = None
    """With so many people shuffling begins to help, where it does not with n."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "delta": self.delta,
            "blanket": self.blanket,
            "enough": self.enough,
            "pairs": [pair._asdict() for pair in self.pairs],
        }

    def __str__(self) -> str:
        rows = [("one respondent", "another", "epsilon of a report", f"of {self.n:,} shuffled")]
        for pair in self.pairs:
            rows.append((pair.x, pair.other, f"{pair.local:.4g}", f"{pair.shuffled:.4g}"))
        lines = [
            table(rows, left=2),
            f"The last column needs a trusted shuffler and holds with delta = {self.delta:g}; the "
            "epsilon of a report needs no trust.",
            f"{100 * self.blanket:.3g}% of the reports are independent of the value (the privacy "
            "blanket).",
        ]
        if self.enough is not None:
            lines.append(
                "Shuffling a batch of this size does not reduce epsilon. Use batches of about "
                f"{self.enough:,} reports or more, or a smaller max_epsilon."
            )
        return "\n".join(lines)


def amplify(
    survey: Agreement, n: int = 10_000, delta: float = 1e-6, *, pairs: Any = None
) -> Amplified:
    """The epsilon at which a batch of n shuffled reports tells two people apart, up to delta.

    `pairs` is a list of two values each, of a survey with one attribute, or of two people each, as
    dicts. Left out, values 1, 5 and 25 positions apart and the two ends are taken, and others in
    the middle; of several, two people who differ in all. Of a collector that releases batches of
    at least k, n is k: more reports that are
    shuffled in tell no more.
    """
    if not isinstance(survey, Agreement):
        raise QueryError(f"a batch has reports to a survey, not to {shown(survey)}")
    if not is_whole(n) or n < 2:
        raise QueryError(f"a batch has at least 2 reports, not {shown(n)}")
    if not is_number(delta) or not 0 < delta < 1:
        raise QueryError(f"delta is between 0 and 1, such as 1e-6, not {shown(delta)}")
    laws = _Laws(survey)
    found = []
    for one, other in laws.people(pairs):
        rows = laws.rows(one), laws.rows(other)
        local = _local(*rows)
        epsilon = hidden_at(rows, laws.blanket, min(int(n), _MOST_PEOPLE), delta, local)
        found.append(Hidden(laws.words(one), laws.words(other), local, epsilon))
    enough = None
    if any(pair.local > 0 and pair.shuffled > _LITTLE * pair.local for pair in found):
        enough = _enough(laws, found, delta, int(n), pairs)
    return Amplified(int(n), float(delta), float(laws.blanket.sum()), tuple(found), enough)


class _Laws:
    """The probabilities of whole reports: the product over all that is blurred."""

    def __init__(self, survey: Agreement) -> None:
        self.survey = survey
        public = next((name for name, a in survey.attributes.items() if a.is_public), None)
        if public is not None:
            raise QueryError(
                f"{public} is sent without protection in each report, so shuffling does not "
                "protect it; leave it out, or make it private"
            )
        self.chances = {name: _chances(name, one) for name, one in _parts(survey)}
        reports = math.prod(len(part) for part in self.chances.values())
        if reports > _MOST_REPORTS:
            raise QueryError(
                f"a report has {reports:,} possible values, more than {_MOST_REPORTS:,}; use "
                "a survey with fewer attributes, which is shuffled by itself"
            )

    @cached_property
    def blanket(self) -> Floats:
        """The least of a product is the product of what is least."""
        lows = (part.min(axis=1) * (1 - _SLACK) for part in self.chances.values())
        return _product(lows)

    def rows(self, person: Mapping[str, float]) -> Floats:
        return _product(_at(part, person[name]) for name, part in self.chances.items())

    def people(self, pairs: Any) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
        """Positions of two people each, by what is blurred; between points as fractions."""
        if pairs is None:
            yield from self._usual()
            return
        if not isinstance(pairs, Sequence) or isinstance(pairs, str):
            raise QueryError(
                f"pairs is a list of two values or respondents each, not {shown(pairs)}"
            )
        for pair in pairs:
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise QueryError(f"a pair is two values or two respondents, not {shown(pair)}")
            yield self._person(pair[0]), self._person(pair[1])

    def _person(self, said: Any) -> dict[str, float]:
        asked = self.survey.asked
        if not isinstance(said, Mapping):
            if len(asked) != 1:
                raise QueryError(
                    f"with several attributes a respondent is a dict of values, not {shown(said)}"
                )
            said = {next(iter(asked)): said}
        places: dict[str, float] = {}
        for name, attribute in self.survey.attributes.items():
            source = attribute.source(name)
            if said.get(source) is None and attribute.optional is None and source == name:
                raise QueryError(f"a respondent needs a value for {name!r}: {shown(dict(said))}")
            place = attribute.position_if_any(said.get(source), name)
            places[name] = place / 2**32 if attribute.rounded_at_random else place
        return self._joined(places)

    def _joined(self, places: Mapping[str, float]) -> dict[str, float]:
        """Of a block the position of its cell."""
        found = {name: places[name] for name in self.survey.channels}
        for name, block in self.survey.blocks.items():
            own = tuple(int(places[part]) for part in block.names)
            found[name] = int(np.ravel_multi_index(own, block.sizes))
        return found

    def _usual(self) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
        """Of every attribute some pairs, the others in the middle; and two who differ in all."""
        described = self.survey.attributes
        middle = {name: a.size // 2 for name, a in described.items()}
        for name, attribute in described.items():
            size = attribute.size
            starts = [((size - far) // 2, far) for far in (1, 5, 25) if far < size - 1]
            if attribute.ordered is False:
                starts = []
            far = attribute.distances.farthest(size)
            ends = [(x, x + apart) for x, apart in starts] + [far]
            for x, other in dict.fromkeys(ends):
                yield self._joined({**middle, name: x}), self._joined({**middle, name: other})
        if len(described) > 1:
            far_ends = {name: a.distances.farthest(a.size) for name, a in described.items()}
            one, most = ({name: ends[k] for name, ends in far_ends.items()} for k in (0, 1))
            yield self._joined(one), self._joined(most)

    def words(self, person: Mapping[str, float]) -> str:
        """A person in the data's words."""
        places = {name: person[name] for name in self.survey.channels}
        for name, block in self.survey.blocks.items():
            own = np.unravel_index(int(person[name]), block.sizes)
            places |= {part: int(at) for part, at in zip(block.names, own, strict=True)}
        told = [(name, _label(one, places[name])) for name, one in self.survey.attributes.items()]
        return told[0][1] if len(told) == 1 else ", ".join(f"{name} {at}" for name, at in told)


def _parts(survey: Agreement) -> Iterator[tuple[str, Channel]]:
    yield from survey.channels.items()
    for name, block in survey.blocks.items():
        if block.channel.one is None:
            raise QueryError(
                f"the reports of {name} cannot be listed; use additive, extremal or "
                "tight-constraints"
            )
        yield name, block.channel.one


def _chances(name: str, channel: Channel) -> Floats:
    """P(report | x), (reports, positions)."""
    if isinstance(channel, IntegerChannel):
        if channel.outputs * channel.size > _MOST_ENTRIES:
            raise QueryError(f"{name} has too many values for a table; use coarser ones")
        return channel.moments.probabilities.T
    if channel.bits > _MOST_BITS:
        raise QueryError(
            f"a report of {name} has {channel.bits} bits, too many to list all reports; use a "
            "mechanism that sends one integer, such as geometric, additive, tight-constraints "
            "or randomized-response"
        )
    return np.exp(channel.log_likelihood(channel.every_report()))


def _at(part: Floats, place: float) -> Floats:
    """The law of a position; of one between two points, which is rounded at random, their mix."""
    left = min(int(place), part.shape[1] - 1)
    share = place - left
    if not share:
        return part[:, left]
    return np.asarray((1 - share) * part[:, left] + share * part[:, left + 1])


def _label(attribute: Attribute, place: float) -> str:
    left = int(place)
    if place == left:
        return plain(attribute.label(left))
    ends = [float(attribute.values_at(at)[0]) for at in (left, left + 1)]
    return plain(float(f"{ends[0] + (place - left) * (ends[1] - ends[0]):.9g}"))


def _product(parts: Iterator[Floats]) -> Floats:
    found = np.ones(1)
    for part in parts:
        found = np.multiply.outer(found, part).reshape(-1)
    return found


def _local(x: Floats, other: Floats) -> float:
    seen = (x > 0) | (other > 0)
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(x[seen]) - np.log(other[seen])).max())


def _enough(laws: _Laws, found: list[Hidden], delta: float, n: int, pairs: Any) -> int | None:
    """The power of ten from which on shuffling helps the nearest pair that it does not help yet."""
    people = list(laws.people(pairs))
    open_ones = [k for k, p in enumerate(found) if p.local > 0 and p.shuffled > _LITTLE * p.local]
    nearest = min(open_ones, key=lambda k: found[k].local)
    rows = laws.rows(people[nearest][0]), laws.rows(people[nearest][1])
    local = found[nearest].local
    for power in range(len(str(n)), 13):
        many = int(10**power)
        most = max(
            delta_at(*order, laws.blanket, many, _LITTLE * local) for order in (rows, rows[::-1])
        )
        if most <= delta:
            return many
    return None


# Numbers -----------------------------------------------------------------------------------------


def hidden_at(
    rows: tuple[Floats, Floats], blanket: Floats, n: int, delta: float, local: float
) -> float:
    """The smallest epsilon whose bound is at most delta in both orders; never above the local."""

    def holds(epsilon: float) -> bool:
        orders = (rows, rows[::-1])
        return all(delta_at(*order, blanket, n, epsilon) <= delta for order in orders)

    low, high = local * _LEAST, local
    if not local or not holds(high * (1 - _NEAR)):
        return local
    while high > low * (1 + _NEAR):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def delta_at(x: Floats, other: Floats, blanket: Floats, n: int, epsilon: float) -> float:
    """The bound of delta at an epsilon, in this order; infinite where there is no blanket."""
    gamma = float(blanket.sum())
    seen = blanket > 0
    if not gamma or (x[~seen] > 0).any():
        # A report that somebody never sends is no cover; it may always tell x from others.
        return math.inf
    losses = gamma * (x[seen] - math.exp(epsilon) * other[seen]) / blanket[seen]
    return min(1.0, _positive_part(losses, blanket[seen], n) / (gamma * n))


def _positive_part(values: Floats, masses: Floats, n: int) -> float:
    """E[(X_1 + ... + X_n)_+] from above; X is one of the values with its mass, else 0."""
    largest = float(values.max())
    if largest <= 0:
        return 0.0
    top, beyond = _top(values, masses, n)
    bottom = _bottom(values, masses, n)
    points = _FINE if n > _MANY else _POINTS
    step = (top + bottom) / (points - 2)
    at = values / step
    below = np.floor(at)
    up = at - below
    places = below.astype(np.int64)
    law = np.zeros(points)
    np.add.at(law, places % points, masses * (1 - up))
    np.add.at(law, (places + 1) % points, masses * up)
    law[0] += max(0.0, 1 - float(masses.sum()))
    found = np.fft.rfft(law)
    size = np.maximum(np.abs(found), 1e-300)
    eta = 16 * math.log2(points) * _UNIT  # of an entry of a transform: all sums are at most 1
    kept = n * np.log(size + 2 * eta) > _FAINT
    power = np.zeros_like(found)
    power[kept] = np.exp(n * np.log(found[kept]))
    # (a + e)^n - a^n is at most n e (|a| + e)^(n - 1), and so is what logarithm and phase lose;
    # what is not kept is at most e^-90 each.
    lost = n * (eta + 16 * _UNIT) * np.exp((n - 1) * np.log(size[kept] + 2 * eta))
    summed = np.fft.irfft(power, points)
    count = int(top / step) + 1
    numbers = step * np.arange(count + 1)
    rounding = (
        2 * float(lost.sum() + eta * np.abs(power).sum() + points * math.exp(_FAINT)) / points
    )
    inside = float(numbers @ np.maximum(summed[: count + 1], 0.0))
    return inside + rounding * float(numbers.sum()) + beyond


def _tilts(values: Floats) -> Floats:
    return np.geomspace(1e-8, 200.0, _TILTS) / float(np.abs(values).max())


def _cumulants(values: Floats, masses: Floats, n: int, tilts: Floats) -> Floats:
    """n ln E e^(t X), for every t above 0; where there are many values, from above."""
    if len(values) > _MOST_TILTED:
        low, width = float(values.min()), float(np.ptp(values)) / _MOST_TILTED
        values = low + np.ceil((values - low) / width) * width
    few, back = np.unique(values, return_inverse=True)
    together = np.bincount(back.reshape(-1), weights=masses)
    return np.asarray(n * np.log1p(np.expm1(np.outer(tilts, few)) @ together))


def _top(values: Floats, masses: Floats, n: int) -> tuple[float, float]:
    """Where the lattice ends, and a bound of E[S; S >= end] by Chernoff's inequality.

    s e^(-t (s - b)) falls from b on where t b >= 1, so E[S; S >= b] <= b e^(-t b) E[e^(t S)].
    """
    tilts = _tilts(values)
    logs = _cumulants(values, masses, n, tilts)
    wanted = -math.log(_BEYOND * 1e-12 * float(masses.sum()) * n + 1e-290)
    ends = np.maximum((logs + wanted) / tilts, 1 / tilts)
    ends = np.maximum(ends, float(np.abs(values).max()))
    at = int(np.argmin(ends))
    end = float(ends[at]) * 1.05
    tail = end * math.exp(float(logs[at] - tilts[at] * end))
    return end, tail


def _bottom(values: Floats, masses: Floats, n: int) -> float:
    """How far below zero the lattice reaches: what lies lower comes back on top and only adds."""
    tilts = _tilts(values)
    logs = _cumulants(-values, masses, n, tilts)
    return max(float(((logs + 60.0) / tilts).min()), float(np.abs(values).max()))
