"""Reports take the same steps for every value: instructions of Python are counted, not time.

What C code does inside one instruction (sums of large integers, look-ups in a dict) is not counted,
and SECURITY.md says so.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from checks import MECHANISMS, steps
from metricldp import Categorical, Continuous, Integer, Ordinal, Survey, SurveySpec, Weight
from metricldp.mechanisms.registry import build
from metricldp.metrics import Line
from metricldp_core.device import Device
from metricldp_core.random_words import Words
from vectors import Recorded, report_of


def recorded(seed="steps"):
    return Words(Recorded(seed).draw)


def spread(device, values, *, clip, more=()):
    """The different numbers of steps that reports of these values take, from the same words."""
    found = set()
    for value in values:
        response = {"x": value, **dict(more)}
        for _ in range(2):  # what is looked up once is not counted
            count = steps(lambda r=response: report_of(device, r, recorded(), clip=clip))
        found.add(count)
    return found


INSIDE = [0, 1, 50, 98, 99]
OUTSIDE = [-1, 100, 150, -(10**9), 10**30, -(10**400), 10**5000]
FLOATS = [-1.0, 100.0, 150.0, -1e300, 1e300, 1.7976931348623157e308]
NUMBERS = {
    "integer": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
    "integer bits": Integer(0, 99, epsilon=1, per=5, mechanism="threshold"),
    "continuous": Continuous(0, 99, bins=7, epsilon=1, per=5),
    "points": Continuous(0, 99, points=12, epsilon=1, per=5, rounding="stochastic"),
    "private weight": Weight(0, 99, private=True, epsilon=1),
    "public weight": Weight(0, 99),
}
KINDS_OF_NUMBERS = {
    "int": (INSIDE, OUTSIDE),
    "float": ([float(v) for v in INSIDE], FLOATS),
    "int64": ([np.int64(v) for v in INSIDE], [np.int64(v) for v in OUTSIDE[:4]]),
    "float32": ([np.float32(v) for v in INSIDE], [np.float32(v) for v in FLOATS[:3]]),
    "decimal": ([Decimal(v) for v in INSIDE], [Decimal(v) for v in OUTSIDE[:5]]),
    "text": ([str(v) for v in INSIDE], [str(v) for v in OUTSIDE[:5]]),
}


@pytest.mark.parametrize("kind", KINDS_OF_NUMBERS)
@pytest.mark.parametrize("name", NUMBERS)
def test_clipping_takes_the_same_steps_for_every_value(name, kind):
    inside, outside = KINDS_OF_NUMBERS[kind]
    other = {"y": Categorical(["a", "b"], epsilon=1)} if NUMBERS[name].is_public else {}
    device = Device(Survey.design({"x": NUMBERS[name], **other}).client_manifest)
    more = dict.fromkeys(other, "a")
    assert len(spread(device, inside, clip=False, more=more)) == 1
    assert len(spread(device, inside + outside, clip=True, more=more)) == 1


@pytest.mark.parametrize("kind", [Ordinal, Categorical])
def test_every_name_takes_the_same_steps(kind):
    names = ["a", "no", "north-by-north-west", "ä", "x" * 500]
    device = Device(Survey.design({"x": kind(names, epsilon=1)}).client_manifest)
    assert len(spread(device, names, clip=False)) == 1
    assert len(spread(device, names, clip=True)) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_take_the_same_steps_at_every_position(name):
    """From the same words; how many are read does not depend on the position either."""
    channel = build(name, 9, Line(Fraction(1, 2)))
    for seed in ("one", "two", "three"):
        counts, used = set(), set()
        for x in range(channel.size):
            for _ in range(2):
                words = recorded(seed)
                count = steps(lambda x=x, w=words: channel.distribution.draw(x, w))
            counts.add(count)
            used.add(words.used)
        assert len(counts) == len(used) == 1, (name, counts, used)


PLACES = {"x": Integer(0, 9, epsilon=1, per=1), "y": Integer(0, 3, epsilon=1, per=1)}
AGAIN = {"name": "memoised", "each": 0.3}
OTHERS = {
    "memoised": {"x": Integer(0, 9, epsilon=0.7, mechanism=AGAIN, per=1)},
    "memoised with max_epsilon": {
        "x": Integer(0, 9, epsilon=0.7, max_epsilon=2, mechanism=AGAIN, per=1)
    },
    "additive": {"x": Integer(0, 9, epsilon=1, within=3, max_epsilon=2, mechanism="additive")},
    "tight-constraints": {
        "x": Integer(0, 9, epsilon=1, within=3, max_epsilon=2, mechanism="tight-constraints")
    },
    "places": PLACES,
}


@pytest.mark.parametrize("remembers", [None, "nothing", "everything"])
@pytest.mark.parametrize("name", OTHERS)
def test_reports_take_the_same_steps_for_every_value(name, remembers):
    """With a memory as without, and in groups."""
    joint = {("x", "y"): {"name": "additive", "metric": "plane"}} if name == "places" else None
    device = Device(Survey.design(SurveySpec(OTHERS[name], joint=joint)).client_manifest)
    counts, used = set(), set()
    for x in range(10):
        response = {"x": x, "y": 1} if joint else {"x": x}
        memory = None if remembers is None else {}
        for again in range(2):
            if again and remembers == "nothing":
                memory = {}
            words = recorded("one")
            count = steps(lambda r=response, w=words, m=memory: report_of(device, r, w, memory=m))
        counts.add(count)
        used.add(words.used)
    assert len(counts) == len(used) == 1, (counts, used)


def test_shortcut_for_values_inside_is_noticed():
    """The negative control: clipping after an exception."""
    device = Device(Survey.design({"x": NUMBERS["integer"]}).client_manifest)
    assert len(spread(device, INSIDE + OUTSIDE, clip=True)) == 1
    positions = device.positions

    def hurried(response, *, clip=False):
        try:
            return positions(response)
        except ValueError:
            return positions(response, clip=clip)

    device.positions = hurried
    assert len(spread(device, INSIDE + OUTSIDE, clip=True)) > 1
