"""How often an adversary guesses a respondent's value, before and after seeing the report.

The adversary knows the prior pi, sees a report y and guesses. A guess g is right if the value lies
in B(g), the values near g. The best guess is right with probability max_g P(B(g) | y), so on
average with

    sum over y of  max_g  sum over x in B(g) of  pi(x) P(y | x).

This is exact if all reports can be listed. Otherwise respondents and their reports are simulated,
and the average has a standard error.

The metric alone bounds the posterior: P(y | x') >= e^(-E(x, x')) P(y | x). Average over x in B by
the prior, and sum over all x' outside of B. Then for every mechanism and every report y

    P(B | y) <= pi(B) / (pi(B) + min over x in B of Z(x)),   Z(x) = sum of pi(x') e^(-E(x, x')).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.answers.predict import shares_of
from metricldp.answers.queries import expected
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import plain, shown
from metricldp.mechanisms import Channel, Floats, Integers
from metricldp.mechanisms.joint import JointChannel
from metricldp.mechanisms.randomness import Randomness, seeded
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.explain import rounded_up

SIMULATED = 1 << 12
"""Respondents that are simulated if reports are too many to be listed."""
MOST_POSITIONS = 1 << 12
_MOST_BITS = 16
"""Reports of up to so many bits are listed,"""
_MOST_PROBABILITIES = 1 << 24
"""with up to so many probabilities."""
_AT_ONCE = 1 << 21
"""Probabilities in memory at a time."""
_TIE = 1e-12
"""Guesses that differ by no more than this fraction are equally good."""
_SEED = 1


@dataclass(frozen=True)
class Risk:
    """The chance of a right guess for an adversary who knows the prior and sees one report.

    >>> from metricldp import Categorical, Survey
    >>> survey = Survey.design({"vote": Categorical(["yes", "no"], epsilon=1)})
    >>> risk = survey.risk("vote")
    >>> round(risk.before, 3), round(risk.after, 3)
    (0.5, 0.731)
    """

    attribute: str
    within: float
    """How far a guess may be off and still count as right; 0 if not at all."""
    prior: str
    """"uniform" or "given"."""
    before: float
    """Fraction of respondents that are guessed right without a report."""
    bound: float
    """Upper limit of the probability of any guess after any report, from the metric alone."""
    after: float | None = None
    """The fraction with the report; None if the mechanism does not provide probabilities."""
    stderr: float = 0.0
    """Standard error of `after`; 0 if it is exact."""
    most_exposed: str | None = None
    """The value that is guessed right most often after the report."""
    most_exposed_after: float | None = None
    """Fraction of respondents with that value who are guessed right."""
    most_exposed_stderr: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        guess = f"within {plain(self.within)}" if self.within else "exactly"
        prior = "a uniform prior" if self.prior == "uniform" else "the given prior"
        lines = [f"Right guesses of {self.attribute} {guess}, by an adversary with {prior}:"]
        lines.append(f"  without the report   {_percent(self.before)}")
        if self.after is not None:
            exposed = _percent(self.most_exposed_after or 0.0, self.most_exposed_stderr)
            lines.append(
                f"  with the report      {_percent(self.after, self.stderr)}"
                f"; {exposed} for {self.most_exposed}, the most exposed value"
            )
        bound = f"{min(rounded_up(100 * self.bound * (1 - _TIE), 3), 100.0):.3g}%"
        lines.append(f"  upper bound          {bound} for each report, whatever the mechanism")
        return "\n".join(lines)


def _percent(fraction: float, stderr: float = 0.0) -> str:
    percent = 100 * fraction
    if stderr:
        digits = min(2, max(0, 1 - math.floor(math.log10(100 * stderr))))
        return f"{percent:.{digits}f}% (SE {100 * stderr:.{digits}f}%)"
    return ">99.9%" if 99.95 <= percent < 100 else f"{percent:.3g}%"


def risk(survey: Agreement, attribute: Any, *, within: Any = 0, prior: Any = "uniform") -> Risk:
    """The risk of one attribute, or of a group that is randomized jointly: "east+north"."""
    group = survey.blocks.get(attribute) if isinstance(attribute, str) else None
    if group is None and attribute_of(survey, attribute).is_public:
        raise QueryError(
            f"{attribute} is a public weight and not protected, so it has no risk of a guess"
        )
    names = [attribute] if group is None else list(group.names)
    size = math.prod(survey.attributes[name].size for name in names)
    if size > MOST_POSITIONS:
        raise QueryError(
            f"the risk of {attribute} is computed for up to {MOST_POSITIONS:,} values, not {size:,}"
        )
    guesses = Guesses([_nearby(survey, name, within) for name in names])
    fractions = _fractions(survey, names, prior)
    view, spread, distances = _view(survey, attribute, fractions)
    known = spread if view is None else view.attribute(spread[None])[0]
    result = Risk(
        attribute=attribute,
        within=float(within),
        prior="uniform" if isinstance(prior, str) else "given",
        before=float(guesses.sums(known[None]).max()),
        bound=guesses.bound(known, distances),
    )
    if view is None:
        return result
    after, position, exposed = attack(view, spread, guesses)
    return replace(
        result,
        after=after.mean,
        stderr=after.stderr,
        most_exposed=_label(survey, names, position),
        most_exposed_after=exposed.mean,
        most_exposed_stderr=exposed.stderr,
    )


def usual_within(survey: Agreement, name: str) -> float:
    """The distance for which the guarantee is stated, if guesses can be off by it; else 0."""
    attribute: Any = survey.attributes[name]
    if not attribute.ordered or attribute.metric_kind == "relative" or attribute.is_weight:
        return 0.0
    within = float(getattr(attribute, "within", None) or getattr(attribute, "per", None) or 0.0)
    some = within > 0 and _runs(attribute, name, within / 2).length.max() > 1
    return within if some and _runs(attribute, name, within).length.min() < attribute.size else 0.0


def _nearby(survey: Agreement, name: str, within: Any) -> Runs:
    attribute = survey.attributes[name]
    if not is_number(within) or not 0 <= within < math.inf:
        raise QueryError(f"within is a number of at least 0, not {shown(within)}")
    if within and not attribute.ordered:
        raise QueryError(f"{name} has no order, so its values have no difference; leave within out")
    runs = _runs(attribute, name, float(within))
    if within and runs.length.max() == 1:
        raise QueryError(f"no two values of {name} are within {plain(2 * within)}; use within=0")
    return runs


def _runs(attribute: Attribute, name: str, within: float) -> Runs:
    size = attribute.size
    if not within:
        return Runs(np.arange(size), np.ones(size, dtype=np.int64), size)
    if attribute.is_cyclic:
        return Runs.on_ring(size, within / attribute.grid_step)
    numbers = np.arange(size, dtype=np.float64) if attribute.named else attribute.numbers(name)[0]
    return Runs.on_line(numbers, within)


def _fractions(survey: Agreement, names: Sequence[str], prior: Any) -> dict[str, Floats]:
    """The prior of these attributes and of those that are randomized jointly with them."""
    _, prior, _ = expected(1, prior, None)
    if isinstance(prior, str) and prior != "uniform":
        raise QueryError(f"a prior is 'uniform' or arrays of fractions, not {shown(prior)}")
    given: dict[str, Any] = {}
    if isinstance(prior, Mapping):
        given = dict(prior)
    elif not isinstance(prior, str):
        if len(names) > 1:
            raise QueryError("an array is the prior of one attribute; give a dict of arrays")
        given = {names[0]: prior}
    for name in given:
        attribute_of(survey, name)
    group = survey.block_of(names[0])
    fractions = {}
    for name in names if group is None else group.names:
        attribute = survey.attributes[name]
        needed = name in names and not isinstance(prior, str) and not attribute.asks_whether
        stated = given if needed or name in given else "uniform"
        (fractions[name],) = shares_of({name: attribute.size}, stated)
    return fractions


def _view(
    survey: Agreement, name: str, fractions: Mapping[str, Floats]
) -> tuple[View | None, Floats, Floats]:
    """What an adversary sees, the prior over its states, and the metric on what is guessed.

    There is no view of a joint mechanism without probabilities; the prior is then over the guessed
    values alone.
    """
    group = survey.blocks.get(name, survey.block_of(name))
    if name in survey.blocks:
        distances, axis = _cell_distances(survey.blocks[name]), None
    else:
        if group is None:
            distances = survey.problems[name].metric.matrix(survey.attributes[name].size)
            return SingleView(survey.channels[name]), fractions[name], distances
        axis = group.names.index(name)
        distances = group.metrics[axis].matrix(group.sizes[axis])
        if math.prod(group.sizes) > MOST_POSITIONS:
            return None, fractions[name], distances
    assert group is not None
    spread = np.ones(1)
    for other in group.names:
        spread = np.multiply.outer(spread, fractions[other]).reshape(-1)
    view = JointView(group.channel, axis)
    if view.log_probabilities is None:
        return None, view.attribute(spread[None])[0], distances
    return view, spread, distances


def _cell_distances(group: Block) -> Floats:
    """The metric on the combinations of values of a group."""
    cells = np.indices(group.sizes).reshape(len(group.sizes), -1)
    if group.grid is not None:
        return group.grid.matrix(cells.shape[1])
    norm = group.largest_norm
    sides = zip(group.metrics, group.sizes, cells, strict=True)
    powers = (m.matrix(size)[np.ix_(at, at)] ** norm for m, size, at in sides)
    return np.asarray(sum(powers) ** (1 / norm))


def _label(survey: Agreement, names: Sequence[str], position: int) -> str:
    sizes = [survey.attributes[name].size for name in names]
    places = zip(names, np.unravel_index(position, sizes), strict=True)
    return ", ".join(survey.attributes[name].label(int(at)) for name, at in places)


# Guesses ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Runs:
    """Guesses of one attribute: each is right for `length` positions from `first` on.

    On a ring a run can continue over the end.
    """

    first: Integers
    length: Integers
    size: int

    @classmethod
    def on_line(cls, numbers: Floats, within: float) -> Runs:
        """All values at most so far from a guess, which may lie between values.

        So a guess covers values that are at most twice as far apart; shorter runs are left out.
        """
        ends = np.searchsorted(numbers, numbers + 2 * within + 1e-9 * within)
        longest = np.diff(ends, prepend=0) > 0
        first, ends = np.arange(len(numbers))[longest], ends[longest]
        return cls(first, ends - first, len(numbers))

    @classmethod
    def on_ring(cls, size: int, steps: float) -> Runs:
        length = min(math.floor(2 * min(steps, size) + 1e-9) + 1, size)
        return cls(np.arange(size), np.full(size, length), size)

    def sums(self, weights: Floats) -> Floats:
        """The weight of every guess, (n, size) -> (n, guesses)."""
        if (self.length == 1).all():
            return weights[:, self.first]
        before = np.zeros((len(weights), 2 * self.size + 1))
        np.cumsum(np.concatenate([weights, weights], axis=1), axis=1, out=before[:, 1:])
        return np.asarray(before[:, self.first + self.length] - before[:, self.first])

    def covered(self, frequencies: Floats) -> Floats:
        """How often each position is guessed right, (n, guesses) -> (n, size)."""
        changes = np.zeros((len(frequencies), 2 * self.size + 1))
        changes[:, self.first] += frequencies
        changes[:, self.first + self.length] -= frequencies
        runs = np.cumsum(changes[:, :-1], axis=1)
        return np.asarray(runs[:, : self.size] + runs[:, self.size :])


@dataclass(frozen=True, eq=False)
class Guesses:
    """Guesses of one or several attributes, right if they are near in each."""

    axes: Sequence[Runs]

    def sums(self, weights: Floats) -> Floats:
        """The weight of every guess, (n, states) -> (n, guesses)."""
        sizes = [runs.size for runs in self.axes]
        return _along_axes(weights, sizes, [runs.sums for runs in self.axes])

    def covered(self, frequencies: Floats) -> Floats:
        """How often each state is guessed right, (n, guesses) -> (n, states)."""
        counts = [len(runs.first) for runs in self.axes]
        return _along_axes(frequencies, counts, [runs.covered for runs in self.axes])

    def best(self, weights: Floats) -> tuple[Floats, Floats]:
        """The weight of the best guess, (n,), and how often it is right for each state.

        Equally good guesses are made equally often.
        """
        sums = self.sums(weights)
        largest = sums.max(axis=1)
        equal = (sums >= largest[:, None] * (1 - _TIE)).astype(np.float64)
        return largest, self.covered(equal / equal.sum(axis=1, keepdims=True))

    def bound(self, prior: Floats, distances: Floats) -> float:
        """The bound at the head of this file, over all guesses."""
        likely = prior * np.exp(-distances)
        outside = np.maximum(likely.sum(axis=1, keepdims=True) - self.sums(likely), 0.0)
        inside = self.sums(np.diag(prior)) > 0
        least = np.where(inside, outside, np.inf).min(axis=0)
        weight = self.sums(prior[None])[0]
        some = weight > 0
        return float((weight[some] / (weight[some] + least[some])).max())


def _along_axes(
    weights: Floats, sizes: Sequence[int], functions: Sequence[Callable[[Floats], Floats]]
) -> Floats:
    """The functions applied to one axis after the other."""
    result = weights.reshape(-1, *sizes)
    for axis, function in enumerate(functions, start=1):
        last = np.moveaxis(result, axis, -1)
        values = function(last.reshape(-1, last.shape[-1]))
        result = np.moveaxis(values.reshape(*last.shape[:-1], -1), -1, axis)
    return result.reshape(len(weights), -1)


# What an adversary sees ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SingleView:
    """Reports of an attribute with a mechanism of its own; its states are its positions."""

    channel: Channel

    @property
    def states(self) -> int:
        return self.channel.size

    @cached_property
    def log_probabilities(self) -> Floats | None:
        """ln P(report | state) of all reports, (reports, states), unless they are too many."""
        if self.channel.bits > _MOST_BITS:
            return None
        reports = self.channel.every_report()
        if len(reports) * self.states > _MOST_PROBABILITIES:
            return None
        return self.channel.log_likelihood(reports)

    def simulate(self, states: Integers, randomness: Randomness) -> Floats:
        """ln P(report | state) of one random report for each of these states, (n, states)."""
        return self.channel.log_likelihood(self.channel.sample(states, randomness))

    def attribute(self, weights: Floats) -> Floats:
        """Sums over all states with the same guessed value, (n, states) -> (n, size)."""
        return weights


@dataclass(frozen=True, eq=False)
class JointView:
    """Reports of a group; guessed is one of its attributes, or all if `axis` is None."""

    channel: JointChannel
    axis: int | None

    @property
    def states(self) -> int:
        return math.prod(self.channel.sizes)

    @cached_property
    def log_probabilities(self) -> Floats | None:
        count = math.prod(field.outputs for field in self.channel.fields.values())
        if not self.channel.has_likelihood or count * self.states > _MOST_PROBABILITIES:
            return None
        return self.channel.log_likelihood(self.channel.every_report()).reshape(count, -1)

    def attribute(self, weights: Floats) -> Floats:
        if self.axis is None:
            return weights
        others = tuple(d + 1 for d in range(len(self.channel.sizes)) if d != self.axis)
        return np.asarray(weights.reshape(-1, *self.channel.sizes).sum(axis=others))


View = SingleView | JointView


# The attack ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """How often a guess is right; the standard error is 0 if this is exact."""

    mean: float
    stderr: float = 0.0

    @classmethod
    def average(cls, numbers: npt.ArrayLike) -> Rate:
        values = np.asarray(numbers, dtype=np.float64)
        return cls(float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size)))


def attack(view: View, spread: Floats, guesses: Guesses) -> tuple[Rate, int, Rate]:
    """How often the best guess is right, the most exposed position, and how often it is guessed."""
    prior = np.asarray(view.attribute(spread[None])[0])
    right = np.zeros(len(prior))
    if view.log_probabilities is not None:
        total = 0.0
        for part in _parts(len(view.log_probabilities), view.states):
            weights = view.attribute(spread * np.exp(view.log_probabilities[part]))
            largest, covered = guesses.best(weights)
            total += float(largest.sum())
            right += (weights * covered).sum(axis=0)
        position = _most_exposed(right, prior)
        return Rate(total), position, Rate(float(right[position] / prior[position]))
    assert isinstance(view, SingleView)
    random, randomness = np.random.default_rng(_SEED), seeded(_SEED)
    largest_weights = []
    for posterior in _simulated(view, spread, spread, random, randomness):
        largest, covered = guesses.best(posterior)
        largest_weights.append(largest)
        right += (posterior * covered).sum(axis=0)
    position = _most_exposed(right, prior)
    only = np.eye(len(spread))[position]
    hits = [
        guesses.best(posterior)[1][:, position]
        for posterior in _simulated(view, spread, only, random, randomness)
    ]
    after, exposed = (Rate.average(np.concatenate(x)) for x in (largest_weights, hits))
    return after, position, exposed


def _most_exposed(right: Floats, prior: Floats) -> int:
    rates = np.divide(right, prior, out=np.zeros_like(prior), where=prior > 0)
    return int(np.argmax(rates >= rates.max() * (1 - _TIE)))


def _simulated(
    view: SingleView,
    prior: Floats,
    spread: Floats,
    random: np.random.Generator,
    randomness: Randomness,
) -> Iterator[Floats]:
    """The posterior after the report of each of some simulated respondents, (n, states)."""
    states = random.choice(view.states, size=SIMULATED, p=spread)
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    for part in _parts(SIMULATED, view.states):
        logs = log_prior + view.simulate(states[part], randomness)
        posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
        yield posterior / posterior.sum(axis=1, keepdims=True)


def _parts(count: int, size: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // size)
    return (slice(start, start + step) for start in range(0, count, step))
