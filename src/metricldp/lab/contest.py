"""The contest: mechanisms side by side on the same people, with the same questions.

A contender is a mechanism under the name that people know it by, and the promise it keeps. Entered
for some attributes it has two numbers of privacy, never one: epsilon for one step, and epsilon
across the whole domain. Its error is exact for given people and questions; simulated people on the
whole way, from their values to answers, check it.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metricldp.answers.quantiles import TIE, monotone
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import SurveyError
from metricldp.basics.optional import loaded
from metricldp.channels import Channel, Floats, Integers
from metricldp.channels.joint import JointChannel
from metricldp.channels.mechanism import ANY_TWO, Mechanism
from metricldp.coins.stream import Coins
from metricldp.design.registry import every_mechanism, mechanism
from metricldp.lab.crowd import Crowd, Questions
from metricldp.survey.agreement import Agreement
from metricldp.survey.ledger import kept

MOST = Mechanism.max_computed
"""Positions up to which errors are computed, unless a contender is slower."""
_TOGETHER = 1 << 16
"""People blurred at a time."""
_ROWS = 256
"""Prefixes decoded at a time."""
_NOTHING = 1e-9
"""A variance that is this share of the largest is rounding: ten standard errors of it pass."""


# Who takes part


@dataclass(frozen=True)
class Contender:
    """A mechanism, as people know it, and what it promises."""

    mechanism: str
    title: str
    promise: str
    source: str
    most: int = MOST
    """Positions up to which it is quick enough to be computed."""
    drawn: int = MOST
    """Positions up to which it is quick enough to be simulated."""

    @classmethod
    def of(cls, found: Mechanism) -> Contender:
        limits = found.max_computed, found.max_simulated
        return cls(found.name, found.title or found.name, found.promise, found.source, *limits)

    @property
    def plain(self) -> bool:
        """Whether all pairs of values are equally protected."""
        return self.promise == ANY_TWO

    @property
    def wider(self) -> bool:
        """Whether it spends more on a whole person than on one attribute."""
        return False

    def enter(self, attributes: Mapping[str, Attribute]) -> Entry:
        """Built for these attributes; a SurveyError says why it cannot be."""
        for name, attribute in attributes.items():
            if attribute.size > self.most:
                raise SurveyError(f"{name} has more than {self.most:,} positions")
        mixed = {a.ordered for a in attributes.values()} == {False, True}
        chosen = {}
        for name, attribute in attributes.items():
            # Beside attributes with an order, categories are left to what "auto" takes for them.
            serves = mechanism(self.mechanism).serves(attribute.ordered)
            spare = mixed and not attribute.ordered and not serves
            chosen[name] = replace(attribute, mechanism="auto" if spare else self.mechanism)
        return Product(self, Agreement(chosen))


@dataclass(frozen=True)
class JointContender(Contender):
    """A mechanism that blurs several attributes together: one epsilon for the whole person."""

    branching: int = 4
    budget: str = "one"
    """The epsilon of a person: that of "one" attribute, or that of "all" together."""
    consistent: bool = False
    """Whether counts are read with the weights of least squares, or from the fewest nodes."""

    @property
    def wider(self) -> bool:
        return self.budget == "all"

    def enter(self, attributes: Mapping[str, Attribute]) -> Entry:
        """Hio or HashedHio, for at least two attributes; of one it would be a hierarchy."""
        if len(attributes) < 2:
            raise SurveyError("HIO blurs several attributes together")
        steps = [a.distances.smallest(a.size) for a in attributes.values()]
        epsilon = float(sum(steps) if self.wider else min(steps))
        usual = {
            name: replace(spread_out(a), mechanism="auto", epsilon=epsilon)
            for name, a in attributes.items()
        }
        wish = {"name": self.mechanism, "branching": self.branching}
        if self.consistent:
            wish["consistent"] = True
        return Joint(self, Agreement(usual, joint={tuple(usual): wish}))


_HIO = tuple(
    JointContender(name, f"{title}, {told}", ANY_TWO, source, budget=budget)
    for name, title, source in (
        ("hio-hashing", "HIO, published (OLH)", "Wang et al. 2019"),
        ("hio", "HIO with Hadamard response", "Wang et al. 2019, other oracle"),
    )
    for budget, told in (("one", "epsilon in all"), ("all", "D times epsilon"))
)
_CONSISTENT = tuple(
    replace(contender, title=f"consistent {contender.title}", consistent=True)
    for contender in _HIO
    if contender.mechanism == "hio"
)
_IN_TABLE_2 = (
    *("geometric", "threshold", "threshold-paper", "prefix", "response"),
    *("unary-symmetric", "unary-optimised", "histogram-sum", "histogram-threshold"),
    *("local-hashing", "hadamard", "hierarchy-2", "hierarchy-4", "hierarchy-16"),
    *("hierarchy-4-plain", "hierarchy-4-unary", "haar"),
)


@cache
def in_table_2() -> tuple[Contender, ...]:
    """Those of table 2: always the same, whoever else is installed."""
    return (*(Contender.of(mechanism(name)) for name in _IN_TABLE_2), *_HIO)


@cache
def everybody() -> tuple[Contender, ...]:
    """Those, and all others that are installed and can be computed."""
    others = (m for m in every_mechanism() if m.max_computed and not m.joint)
    rest = (Contender.of(found) for found in others if found.name not in _IN_TABLE_2)
    return (*in_table_2(), *rest, *_CONSISTENT)


def entries(
    attributes: Mapping[str, Attribute], contenders: Sequence[Contender]
) -> Iterator[Entry]:
    """Those who can take part; who does not serve an attribute is skipped."""
    for contender in contenders:
        with contextlib.suppress(SurveyError):
            yield contender.enter(attributes)


def spread_out(attribute: Attribute) -> Attribute:
    """The attribute with its epsilon between any two neighbours, whatever `per` or `metric` says.

    A mechanism with one epsilon for all pairs then keeps what the survey says in words, "epsilon
    for every `per` units", for values up to `per` apart, and the same epsilon for all others.
    """
    usual: dict[str, Any] = {"metric": None, "per": attribute.grid_step}
    return replace(attribute, **{key: x for key, x in usual.items() if hasattr(attribute, key)})


# Entries


@dataclass(frozen=True)
class Entry(ABC):
    """A contender that is ready for certain attributes."""

    contender: Contender
    survey: Agreement

    joint: ClassVar[bool] = False
    """Whether it blurs all attributes together."""

    @property
    def mechanism(self) -> str:
        """As it is written in a survey; of attributes blurred in different ways, all of them."""
        return self.contender.mechanism

    @property
    @abstractmethod
    def step(self) -> float:
        """Epsilon between two people one step apart in one attribute, at the most."""

    @property
    @abstractmethod
    def width(self) -> float:
        """Epsilon between two people at opposite ends of every attribute."""

    @abstractmethod
    def variances_of(self, crowds: Sequence[Crowd], asked: Questions) -> Floats:
        """The exact expected squared error of every answer, (crowds, questions)."""

    def variances(self, crowd: Crowd, asked: Questions) -> Floats:
        return np.asarray(self.variances_of([crowd], asked)[0])

    @abstractmethod
    def answers(self, crowd: Crowd, asked: Questions, repetitions: int, coins: Coins) -> Floats:
        """Simulated answers, (repetitions, questions): everybody blurs anew for each."""


@dataclass(frozen=True)
class Product(Entry):
    """A channel for each attribute: the usual survey."""

    @property
    def mechanism(self) -> str:
        """Those of its attributes, each once."""
        return " + ".join(dict.fromkeys(str(a.mechanism) for a in self.survey.attributes.values()))

    @property
    def step(self) -> float:
        """The largest distance kept between neighbours, of the attribute where it is largest."""
        return float(max(self._step(name) for name in self.survey.channels))

    def _step(self, name: str) -> Fraction:
        """Of neighbouring positions; categories have no order, so any two are neighbours."""
        metric, size = kept(self.survey, name), self.survey.channels[name].size
        if not self.survey.attributes[name].ordered:
            return metric.diameter(size)
        return max(metric.distance(x, x + 1) for x in range(size - 1))

    @property
    def width(self) -> float:
        """The diameters of what the channels keep; distances of attributes add up."""
        channels = self.survey.channels.items()
        return float(sum(kept(self.survey, name).diameter(c.size) for name, c in channels))

    def variances_of(self, crowds: Sequence[Crowd], asked: Questions) -> Floats:
        """The sum over people of prod_d S_d - prod_d f_d^2."""
        seconds = {
            name: self.survey.channels[name].moment(f) for name, f in asked.functions.items()
        }
        return np.array([asked.over(crowd, seconds) - asked.over(crowd) for crowd in crowds])

    def answers(self, crowd: Crowd, asked: Questions, repetitions: int, coins: Coins) -> Floats:
        """From sums of features for one attribute, from products of decoders for several."""
        decoders = {
            name: self.survey.channels[name].coefficients(f) for name, f in asked.functions.items()
        }
        if len(decoders) == 1:
            ((name, decoder),) = decoders.items()
            return np.asarray((decoder @ self.totals(crowd, name, repetitions, coins)).T)
        found = np.empty((repetitions, len(next(iter(decoders.values())))))
        for part in _parts(crowd.n, repetitions):
            times = part.stop - part.start
            product: Floats | float = 1.0
            for name, decoder in decoders.items():
                column = self._column(crowd, name, times, coins)
                product = product * self.survey.channels[name].values(column, decoder)
            found[part] = np.asarray(product).reshape(-1, times, crowd.n).sum(axis=2).T
        return found

    def totals(self, crowd: Crowd, name: str, repetitions: int, coins: Coins) -> Floats:
        """Sums of features of one attribute over the people, (features, repetitions)."""
        channel = self.survey.channels[name]
        found = np.empty((channel.features, repetitions))
        for part in _parts(crowd.n, repetitions):
            times = part.stop - part.start
            codes = np.repeat(np.arange(times), crowd.n)
            column = self._column(crowd, name, times, coins)
            found[:, part] = channel.totals(column, codes, times)
        return found

    def _column(self, crowd: Crowd, name: str, times: int, coins: Coins) -> npt.NDArray[Any]:
        positions = np.tile(crowd.positions[name], times)
        return self.survey.channels[name].encode(positions, coins)

    def quantiles(
        self,
        crowd: Crowd,
        probabilities: Sequence[float],
        repetitions: int,
        coins: Coins,
    ) -> Floats:
        """Simulated quantile errors of a single attribute, (repetitions, probabilities).

        The error is the paper's: how far the probability is from the percentiles of the value that
        is given. Shares are made monotone by isotonic regression, all with the same weight.
        """
        ((name, channel),) = self.survey.channels.items()
        totals = self.totals(crowd, name, repetitions, coins)
        shares = np.ones((repetitions, channel.size))
        for part, decoder in _prefix_decoders(channel):
            shares[:, part] = (decoder @ totals).T / crowd.n + 0.5
        counts = np.bincount(crowd.positions[name], minlength=channel.size)
        return np.array([quantile_errors(one, counts, probabilities) for one in shares])


def _parts(people: int, repetitions: int) -> Iterator[slice]:
    """Repetitions that are blurred together."""
    step = max(1, _TOGETHER // people)
    return (slice(k, min(k + step, repetitions)) for k in range(0, repetitions, step))


def _prefix_decoders(channel: Channel) -> Iterator[tuple[slice, Floats]]:
    """Decoders of every prefix but the last, less one half as in `quantiles`; some at a time."""
    grid = np.arange(channel.size)
    for start in range(0, channel.size - 1, _ROWS):
        part = slice(start, min(start + _ROWS, channel.size - 1))
        yield part, channel.coefficients(np.where(grid <= grid[part, None], 0.5, -0.5))


def quantile_errors(shares: Floats, counts: Integers, probabilities: Sequence[float]) -> Floats:
    """How far each probability is from the true percentiles of its estimated quantile.

    `shares` are estimated, at or below each position; `counts` are the true ones at it.
    """
    fit = np.append(monotone(shares[:-1], np.ones(len(shares) - 1)), np.inf)
    true = np.append(0.0, np.cumsum(counts) / counts.sum())
    wanted = np.asarray(probabilities)
    at = np.argmax(fit >= wanted[:, None] - TIE, axis=1)
    off = np.maximum(true[at] - wanted, wanted - true[at + 1])
    return np.asarray(np.maximum(off, 0.0))


@dataclass(frozen=True)
class Joint(Entry):
    """All attributes in one block."""

    joint: ClassVar[bool] = True

    @property
    def channel(self) -> JointChannel:
        (block,) = self.survey.blocks.values()
        return block.channel

    @property
    def step(self) -> float:
        """One epsilon between any two people."""
        return float(kept(self.survey, next(iter(self.survey.attributes))).smallest(2))

    @property
    def width(self) -> float:
        return self.step

    def variances_of(self, crowds: Sequence[Crowd], asked: Questions) -> Floats:
        """The sum over people of S - f^2, term by term."""
        names = list(self.survey.attributes)
        found = np.zeros((len(crowds), len(_everybody(asked))))
        for term in self.channel.noise(self._functions(asked)):
            factors = dict(zip(names, term.factors or (), strict=bool(term.factors)))
            cut = {name: factors[name] for name in asked.functions if term.factors}
            found += [term.scale * (asked.over(c, cut) if cut else c.n) for c in crowds]
        return np.where(_everybody(asked), 0.0, found)

    def _functions(self, asked: Questions) -> list[Floats]:
        """A row for each question; attributes that are not asked about are 1."""
        count = len(_everybody(asked))
        return [
            asked.functions.get(name, np.ones((count, a.size)))
            for name, a in self.survey.attributes.items()
        ]

    def answers(self, crowd: Crowd, asked: Questions, repetitions: int, coins: Coins) -> Floats:
        """Reports of its own for each repetition; how many people there are is known."""
        functions, channel = self._functions(asked), self.channel
        found = np.empty((repetitions, len(_everybody(asked))))
        positions = [crowd.positions[name] for name in self.survey.attributes]
        for row in found:
            columns = channel.encode(positions, coins)
            for k in range(len(row)):  # one after the other: each has a number for every person
                row[k] = channel.decoded([f[k : k + 1] for f in functions], columns).sum()
        return np.where(_everybody(asked), crowd.n, found)


def _everybody(asked: Questions) -> npt.NDArray[np.bool_]:
    """Which questions cut nothing off."""
    found: npt.NDArray[np.bool_] = np.all([f.all(axis=1) for f in asked.functions.values()], axis=0)
    return found


# Whether simulation and theory agree


def surprise(errors: Floats, variances: Floats) -> float:
    """The chance of squared errors (repetitions, questions) this far off, were the theory right.

    Answers are sums over many people, as good as normal. So their squared errors over the exact
    variance, added up over independent repetitions, are chi-squared: bias and variance are checked
    at once. The chance is for the worst of all questions, two-sided, times their number: however
    they depend on each other, less than p comes up with probability p at most. An answer without
    variance has to be right but for rounding, or the chance is 0.
    """
    stats = loaded("scipy.stats")
    most = variances.max(initial=0.0)
    known = variances <= _NOTHING * most
    if (errors[:, known] ** 2 > 100 * _NOTHING * most + _NOTHING).any():
        return 0.0
    if known.all():
        return 1.0
    scaled = (errors[:, ~known] ** 2).sum(axis=0) / variances[~known]
    worst = np.minimum(stats.chi2.cdf(scaled, len(errors)), stats.chi2.sf(scaled, len(errors)))
    return float(min(1.0, 2 * len(worst) * worst.min()))
