"""The contest: mechanisms side by side on the same people, with the same questions.

A contender is a mechanism under the name that people know it by, and the promise it keeps. Entered
for some attributes it has two numbers of privacy, never one: epsilon for one step, and epsilon
across the whole domain. Its error is exact for given people and questions; simulated people on the
whole way, from their values to answers, check it.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import InvalidSpecError
from metricldp.lab.crowd import Crowd, Questions
from metricldp.mechanisms import Channel, Floats
from metricldp.mechanisms.base import ANY_TWO, PER_STEP, Mechanism
from metricldp.mechanisms.joint import JointChannel
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.registry import AUTO, every_mechanism, mechanism
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import MOST_CELLS
from metricldp.survey.ledger import kept

MOST = Mechanism.max_computed
"""Positions up to which errors are computed, unless a contender is slower."""
_TOGETHER = 1 << 16
"""People blurred at a time."""
_EVERYWHERE = sys.float_info.max
"""Farther than any two values are apart."""


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
        return cls(found.name, found.title or found.name, found.guarantee, found.source, *limits)

    @property
    def plain(self) -> bool:
        """Whether all pairs of values are equally protected."""
        return self.promise == ANY_TWO

    @property
    def wider(self) -> bool:
        """Whether it spends more on a whole person than on one attribute."""
        return False

    def enter(self, attributes: Mapping[str, Attribute]) -> Entry:
        """Built for these attributes; a InvalidSpecError says why it cannot be."""
        for name, attribute in attributes.items():
            if attribute.size > self.most:
                raise InvalidSpecError(f"{name} has more than {self.most:,} positions")
        mixed = {a.ordered for a in attributes.values()} == {False, True}
        chosen = {}
        for name, attribute in attributes.items():
            # Beside attributes with an order, categories are left to what "auto" takes for them.
            spare = self.mechanism == AUTO or (
                mixed
                and not attribute.ordered
                and not mechanism(self.mechanism).serves(attribute.ordered)
            )
            chosen[name] = replace(attribute, mechanism=AUTO if spare else self.mechanism)
        return Entry(self, Agreement(chosen))


@dataclass(frozen=True)
class Alike(Contender):
    """A mechanism that keeps any metric, made for one in which all pairs are alike."""

    def enter(self, attributes: Mapping[str, Attribute]) -> Entry:
        smallest = {name: float(a.distances.smallest(a.size)) for name, a in attributes.items()}
        return super().enter(
            {name: replace(spread_out(a), epsilon=smallest[name]) for name, a in attributes.items()}
        )


@dataclass(frozen=True)
class JointContender(Contender):
    """A mechanism that randomizes several attributes together: one epsilon for the whole person."""

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
            raise InvalidSpecError("HIO randomizes several attributes together")
        steps = [a.distances.smallest(a.size) for a in attributes.values()]
        epsilon = float(sum(steps) if self.wider else min(steps))
        usual = {
            name: replace(spread_out(a), mechanism=AUTO, epsilon=epsilon)
            for name, a in attributes.items()
        }
        wish = {"name": self.mechanism, "branching": self.branching}
        if self.consistent:
            wish["consistent"] = True
        return Entry(self, Agreement(usual, joint={tuple(usual): wish}))


@dataclass(frozen=True)
class AsOne(Contender):
    """A mechanism that blurs at least two attributes together, by their own metrics."""

    cells: int = 1 << 16
    """Combinations of values up to which it is quick enough to be made."""

    def enter(self, attributes: Mapping[str, Attribute]) -> Entry:
        sizes = [attribute.size for attribute in attributes.values()]
        if len(sizes) < 2 or max(sizes) > self.most or math.prod(sizes) > self.cells:
            raise InvalidSpecError(
                f"{self.title}: two attributes or more, of {self.most} values each and "
                f"{self.cells:,} combinations"
            )
        usual = {name: replace(a, mechanism=AUTO) for name, a in attributes.items()}
        return Entry(self, Agreement(usual, joint={tuple(usual): self.mechanism}))


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
    *("geometric", "additive", "threshold", "threshold-paper", "prefix", "randomized-response"),
    *("unary-symmetric", "unary-optimised", "histogram-sum", "histogram-threshold"),
    *("local-hashing", "hadamard", "hierarchy-2", "hierarchy-4", "hierarchy-16"),
    *("hierarchy-4-plain", "hierarchy-4-unary", "haar"),
)


@cache
def in_table_2() -> tuple[Contender, ...]:
    """Those of table 2: always the same, whoever else is installed."""
    alone = (Contender.of(mechanism(name)) for name in _IN_TABLE_2)
    any_metric = [Alike.of(mechanism(name)) for name in ("additive", "extremal")]
    alike = [
        replace(
            c, title=f"{c.title.partition(',')[0]}, the same epsilon for all pairs", promise=ANY_TWO
        )
        for c in any_metric
    ]
    return (*alone, *alike, *_HIO, AsOne.of(mechanism("faces")))


AS_ONE = AsOne(
    "additive", "additive noise over cells", PER_STEP, Mechanism.source, cells=MOST_CELLS
)


@cache
def everybody() -> tuple[Contender, ...]:
    """Those, and all others that are installed and can be computed."""
    others = (m for m in every_mechanism() if m.max_computed and not m.joint)
    rest = (Contender.of(found) for found in others if found.name not in _IN_TABLE_2)
    return (*in_table_2(), AS_ONE, *rest, *_CONSISTENT)


def entries(
    attributes: Mapping[str, Attribute], contenders: Sequence[Contender]
) -> Iterator[Entry]:
    """Those who can take part; who does not serve an attribute is skipped."""
    for contender in contenders:
        with contextlib.suppress(InvalidSpecError):
            yield contender.enter(attributes)


def spread_out(attribute: Attribute) -> Attribute:
    """The attribute with its epsilon between any two values, whatever its metric is.

    That keeps what the survey says in words, "epsilon for every `per` units" or "within" so many,
    for values up to so far apart, and the same epsilon for all others. Never more than the cap.
    """
    usual: dict[str, Any] = {"metric": None, "cyclic": False, "per": None, "within": _EVERYWHERE}
    known = {key: x for key, x in usual.items() if hasattr(attribute, key)}
    epsilon = min(attribute.epsilon, attribute.max_epsilon or attribute.epsilon)
    return replace(attribute, epsilon=epsilon, max_epsilon=None, **known)


# Entries


@dataclass(frozen=True)
class Entry:
    """A contender that is ready for certain attributes."""

    contender: Contender
    survey: Agreement

    @property
    def joint(self) -> bool:
        """Whether it blurs attributes together."""
        return bool(self.survey.blocks)

    @property
    def mechanism(self) -> str:
        """As it is written in a survey; of attributes blurred in different ways, all of them."""
        names = (self.survey.mechanisms[name].name for name in self.survey.attributes)
        return " + ".join(dict.fromkeys(names))

    @property
    def step(self) -> float:
        """Epsilon between two people one step apart in one attribute, at the most."""
        return float(max(self._step(name) for name in self.survey.attributes))

    def _step(self, name: str) -> Fraction:
        """Of neighbouring positions; categories have no order, so any two are neighbours."""
        attribute, metric = self.survey.attributes[name], kept(self.survey, name)
        if not attribute.ordered:
            return metric.diameter(attribute.size)
        return max(metric.distance(x, x + 1) for x in range(attribute.size - 1))

    @property
    def width(self) -> float:
        """Epsilon between two people at opposite ends of every attribute; distances add up."""
        channels = self.survey.channels.items()
        alone = [kept(self.survey, name).diameter(c.size) for name, c in channels]
        return float(sum(alone) + sum(block.diameter for block in self.survey.blocks.values()))

    def variances(self, crowd: Crowd, asked: Questions) -> Floats:
        """The exact expected squared error of every answer.

        That is the sum over people of E[F^2] - f^2. Of a block E[F^2] is a sum of products itself.
        """
        alone = {
            name: c.moments.second_moment(asked.functions[name])
            for name, c in self._channels(asked)
        }
        sums: list[tuple[Floats | float, dict[str, Floats]]] = [(1.0, alone)]
        for names, channel, functions in self._blocks(asked):
            sums = [
                (scale * term.scale, factors | dict(zip(names, term.factors or (), strict=False)))
                for scale, factors in sums
                for term in channel.second_moment(functions)
            ]
        seconds = sum(scale * asked.over(crowd, factors) for scale, factors in sums)
        return np.asarray(seconds - asked.over(crowd))

    def _channels(self, asked: Questions) -> Iterator[tuple[str, Channel]]:
        channels = self.survey.channels.items()
        return ((name, channel) for name, channel in channels if name in asked.functions)

    def _blocks(
        self, asked: Questions
    ) -> Iterator[tuple[tuple[str, ...], JointChannel, list[Floats]]]:
        """Blocks that are asked about, and functions of all their attributes."""
        for block in self.survey.blocks.values():
            if any(name in asked.functions for name in block.names):
                sizes = zip(block.names, block.sizes, strict=True)
                whole = {name: np.ones((asked.count, size)) for name, size in sizes}
                functions = [asked.functions.get(name, ones) for name, ones in whole.items()]
                yield block.names, block.channel, functions

    def answers(
        self, crowd: Crowd, asked: Questions, repetitions: int, randomness: Randomness
    ) -> Floats:
        """Simulated answers, (repetitions, questions): everybody blurs anew for each.

        From sums of features for one attribute, from products of decoders for several.
        """
        decoders = {
            name: c.moments.coefficients(asked.functions[name]) for name, c in self._channels(asked)
        }
        blocks = list(self._blocks(asked))
        if len(decoders) == 1 and not blocks:
            ((name, decoder),) = decoders.items()
            return np.asarray((decoder @ self.totals(crowd, name, repetitions, randomness)).T)
        found = np.empty((repetitions, asked.count))
        # Attributes that are blurred together are simulated one repetition at a time.
        for part in _parts(_TOGETHER if blocks else crowd.n, repetitions):
            times = part.stop - part.start
            product: Floats | float = 1.0
            for name, decoder in decoders.items():
                column = self._column(crowd, name, times, randomness)
                product = product * self.survey.channels[name].values(column, decoder)
            for names, channel, functions in blocks:
                columns = channel.sample([crowd.positions[name] for name in names], randomness)
                product = product * channel.decoded(functions, columns)
            found[part] = np.asarray(product).reshape(-1, times, crowd.n).sum(axis=2).T
        return found

    def totals(self, crowd: Crowd, name: str, repetitions: int, randomness: Randomness) -> Floats:
        """Sums of features of one attribute over the people, (features, repetitions)."""
        channel = self.survey.channels[name]
        found = np.empty((channel.moments.feature_count, repetitions))
        for part in _parts(crowd.n, repetitions):
            times = part.stop - part.start
            codes = np.repeat(np.arange(times), crowd.n)
            column = self._column(crowd, name, times, randomness)
            found[:, part] = channel.totals(column, codes, times)
        return found

    def _column(
        self, crowd: Crowd, name: str, times: int, randomness: Randomness
    ) -> npt.NDArray[Any]:
        positions = np.tile(crowd.positions[name], times)
        return self.survey.channels[name].sample(positions, randomness)


def _parts(people: int, repetitions: int) -> Iterator[slice]:
    """Repetitions that are blurred together."""
    step = max(1, _TOGETHER // people)
    return (slice(k, min(k + step, repetitions)) for k in range(0, repetitions, step))
