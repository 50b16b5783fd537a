"""A new kind of attribute, a new metric and a new mechanism with an option: one class each.

What is written here is all that they need; no other file of the package has to know of them.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from metricldp import Integer, Ordinal, Randomness, Survey
from metricldp.attributes import kinds
from metricldp.attributes.base import Attribute
from metricldp.attributes.selection import Chosen
from metricldp.basics.errors import QueryError
from metricldp.mechanisms import RandomizedResponseChannel, registry
from metricldp.mechanisms.base import ANY_TWO, Mechanism
from metricldp.metrics import METRICS, Line, MetricInWords, Uniform
from metricldp_core.values import WholeNumbers


@dataclass(frozen=True, repr=False)
class Clock(Attribute):
    """Whole hours of a day, written as "07:00"."""

    hours: int = field(kw_only=False)

    kind: ClassVar[str] = "clock"
    ordered: ClassVar[bool] = True
    size = property(lambda self: self.hours)
    usual = property(lambda self: Line(self.unit))

    def domain_of(self, name):
        return WholeNumbers(name, self.optional is not None, low=0, high=self.hours - 1)

    def positions(self, numbers, name="", *, clip=False):
        return np.array([self.position(int(number), name) for number in numbers], dtype=np.int64)

    def choose(self, words, name):
        if not isinstance(words, tuple):
            raise QueryError(f"{name} takes a pair of hours")
        inside = np.isin(np.arange(self.size), np.arange(words[0], words[1] + 1))
        return Chosen.of(inside, f"{words[0]} to {words[1]}")

    def name_of(self, position):
        return f"{position:02}:00"


@dataclass(frozen=True)
class Apart(MetricInWords):
    """One distance for all pairs, stated in words."""

    far: int

    kind: ClassVar[str] = "apart"

    def on(self, values, unit):
        return Uniform(unit * self.far)


@dataclass(frozen=True)
class Half(Mechanism):
    """Randomized response with a part of epsilon, an option."""

    part: Any = None

    name: ClassVar[str] = "half"
    guarantee: ClassVar[str] = ANY_TWO
    options: ClassVar[tuple[str, ...]] = ("part",)

    def distribution(self, problem, effort, progress):
        part = Fraction(str(self.part or 0.5))
        epsilon = problem.metric.smallest(problem.size) * part
        return RandomizedResponseChannel.for_epsilon(problem.size, epsilon).distribution

    def resolved(self, problem, distribution):
        return Half(self.part or 0.5)

    def proved_metric(self, metric, distribution):
        return Uniform(metric.smallest(distribution.size) * Fraction(str(self.part)))


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(kinds.KINDS, "clock", Clock)
    monkeypatch.setitem(METRICS, "apart", Apart)
    monkeypatch.setitem(registry.BUILT_IN, "half", Half())


def whole_way(attribute, values, where):
    survey = Survey.design({"v": attribute, "age": Integer(0, 9, epsilon=1, per=1)})
    again = Survey.from_toml(survey.to_toml())
    assert again == survey
    assert again.certify().holds
    assert len(again.report({"v": values[0], "age": 3})) in (18, 19)
    people = {"v": list(values) * 500, "age": [1] * (500 * len(values))}
    tally = again.tally(again.randomize(people, randomness=Randomness.seeded(1)))
    answer = tally.count(where)
    assert 0 < answer.stderr < len(people["age"])
    assert "v" in str(survey.explain())
    assert len(tally.histogram("v")) == attribute.size
    return survey, answer


def test_a_kind_of_attribute_is_one_class():
    survey, answer = whole_way(Clock(24, epsilon=1), [7, 8, 20], {"v": (6, 9)})
    assert abs(answer.value - 1000) < 6 * answer.stderr
    assert survey.tally([]).histogram("v").labels[7] == "07:00"


def test_a_metric_is_one_class():
    levels = Ordinal(["low", "mid", "high"], epsilon=1, metric=Apart(2))
    survey, _ = whole_way(levels, ["low", "high"], {"v": "low"})
    assert survey.problems["v"].metric == Uniform(Fraction(2))


def test_a_mechanism_with_an_option_is_one_class():
    levels = Ordinal(["low", "mid", "high"], epsilon=2, mechanism="half")
    survey, _ = whole_way(levels, ["low", "high"], {"v": "low"})
    assert survey.mechanisms["v"].part == 0.5
    assert "part = 0.5" in survey.to_toml()
    other = Survey.design(
        {"v": Ordinal(["a", "b"], epsilon=2, mechanism={"name": "half", "part": 0.25})}
    )
    assert other.mechanisms["v"].part == 0.25
