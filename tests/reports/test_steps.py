"""The same work for every value: Python's own instructions are counted, not time.

What C code does inside one instruction (sums of large integers, look-ups in a dict) is not seen
here, and SECURITY.md says so.
"""

from __future__ import annotations

import gc
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from checks import MECHANISMS
from metricldp import Categorical, Continuous, Integer, Ordinal, Survey, SurveySpec, Weight
from metricldp_core.random_words import Words
from metricldp.design.registry import build
from metricldp.metrics import Line
from metricldp.reports.device import Device
from vectors import Recorded


def steps(call) -> int:
    """How many instructions a call takes, with all that it calls."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # others may have put Python code into it
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def spread(device, values, *, clip):
    """The different numbers of steps that reports of these values take, on the same coins."""
    found = set()
    for value in values:
        for _ in range(2):  # what is looked up once is not counted
            words = Words(Recorded("steps"))
            count = steps(lambda v=value, t=words: device.from_tape({"x": v}, t, clip=clip))
        found.add(count)
    return found


INSIDE = [0, 1, 50, 98, 99]
OUTSIDE = [-1, 100, 150, -(10**9), 10**30, -(10**400), 10**5000]
FLOATS = [-1.0, 100.0, 150.0, -1e300, 1e300, 1.7976931348623157e308]
NUMBERS = {
    "integer": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
    "integer bits": Integer(0, 99, epsilon=1, per=5, mechanism="threshold"),
    "continuous": Continuous(0, 99, bins=7, epsilon=1, per=5),
    "real": Continuous(0, 99, points=12, epsilon=1, per=5, rounding="stochastic"),
    "private weight": Weight(0, 99, private=True, epsilon=1),
    "public weight": Weight(0, 99),
}


def device_for(attribute):
    other = {"y": Categorical(["a", "b"], epsilon=1)} if attribute.is_public else {}
    found = Device(Survey.design({"x": attribute, **other}))
    if other:  # the same for everybody
        report = found.from_tape
        found.from_tape = lambda person, words, clip: report({**person, "y": "a"}, words, clip=clip)
    return found


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
    device = device_for(NUMBERS[name])
    assert len(spread(device, inside, clip=False)) == 1
    assert len(spread(device, inside + outside, clip=True)) == 1


@pytest.mark.parametrize("kind", [Ordinal, Categorical])
def test_every_name_takes_the_same_steps(kind):
    names = ["a", "no", "north-by-north-west", "ä", "x" * 500]
    device = Device(Survey.design({"x": kind(names, epsilon=1)}))
    assert len(spread(device, names, clip=False)) == 1
    assert len(spread(device, names, clip=True)) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_blurring_takes_the_same_steps_at_every_position(name):
    """On the same coins; how many there are must not depend on the position either."""
    channel = build(name, 9, Line(Fraction(1, 2)))
    for randomness in ("one", "two", "three"):
        counts, used = set(), set()
        for x in range(channel.size):
            for _ in range(2):
                words = Words(Recorded(randomness))
                count = steps(lambda x=x, t=words: channel.blur(x, t))
            counts.add(count)
            used.add(words.used)
        assert len(counts) == len(used) == 1, (name, counts, used)


PLACES = {"x": Integer(0, 9, epsilon=1, per=1), "y": Integer(0, 3, epsilon=1, per=1)}
OTHERS = {
    "memoised": {
        "x": Integer(0, 9, epsilon=0.7, mechanism={"name": "memoised", "each": 0.3}, per=1)
    },
    "memoised with max_epsilon": {
        "x": Integer(
            0, 9, epsilon=0.7, max_epsilon=2, mechanism={"name": "memoised", "each": 0.3}, per=1
        )
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
    """With a memory of first blurs as without, and in blocks."""
    joint = {("x", "y"): {"name": "additive", "metric": "plane"}} if name == "places" else None
    device = Device(Survey.design(SurveySpec(OTHERS[name], joint=joint)))
    counts, used = set(), set()
    for x in range(10):
        person = {"x": x, "y": 1} if joint else {"x": x}
        memory = None if remembers is None else {}
        for again in range(2):
            if again and remembers == "nothing":
                memory = {}
            words = Words(Recorded("one"))
            count = steps(lambda p=person, t=words, m=memory: device.from_tape(p, t, memory=m))
        counts.add(count)
        used.add(words.used)
    assert len(counts) == len(used) == 1, (counts, used)


def test_a_shortcut_for_values_inside_would_be_seen():
    """The broken twin: what issue 12 found, an exception for whatever has to be clipped."""
    attribute = NUMBERS["integer"]

    class Hurried(Integer):
        def position(self, value, name="", *, clip=False):
            try:
                return super().position(value, name)
            except ValueError:
                return super().position(value, name, clip=clip)

    hurried = Hurried(0, 99, epsilon=1, per=5, mechanism="geometric")
    assert len(spread(Device(Survey.design({"x": attribute})), INSIDE + OUTSIDE, clip=True)) == 1
    assert len(spread(Device(Survey.design({"x": hurried})), INSIDE + OUTSIDE, clip=True)) > 1
