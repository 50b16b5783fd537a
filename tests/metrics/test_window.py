"""Metrics of the difference: "within", caps and circles, against their tables of distances."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from metricldp.metrics import Line, Uniform
from metricldp.metrics.closed import Distances, closure
from metricldp.metrics.window import Bent, Window, capped

CAPS = (None, Fraction(1), Fraction(3, 2), Fraction(2), Fraction(5, 2), Fraction(4))

FRACTIONS = [Fraction(text) for text in ("3/2", "5/2", "7/3", "8/3", "13/5", "3.1415926535897932")]


def every(size):
    for cap, around in product(CAPS, (None, size)):
        yield Bent(Fraction(1), cap=cap, around=around)
        for width in (1, 2, 3, 5, 20, *FRACTIONS):
            yield Window(Fraction(1), width, cap, around)


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13, 40])
def test_closed_forms_say_what_the_table_says(size):
    for metric in every(size):
        whole = metric.whole(size)
        table = Distances.of(whole, metric.step)
        assert np.array_equal(closure(whole), whole), metric
        pairs = list(metric.generating_pairs(size))
        assert {tuple(sorted(pair)) for pair in pairs} == set(table.generating_pairs(size)), metric
        assert len(pairs) == metric.generating_count(size) == table.generating_count(size)
        assert metric.diameter(size) == table.diameter(size)
        assert metric.smallest(size) == table.smallest(size)
        assert metric.per_step(size) == table.per_step(size), metric
        half = metric.scaled(Fraction(1, 2))
        for x, other in product(range(size), repeat=2):
            assert metric.distance(x, other) == table.distance(x, other)
            assert half.distance(x, other) == metric.distance(x, other) / 2


def test_within_five_years():
    metric = Window(Fraction(1), 5)
    assert [int(metric.distance(30, 30 + d)) for d in (0, 1, 5, 6, 10, 11)] == [0, 1, 1, 2, 2, 3]
    low = capped(metric, Fraction(3), 100)
    assert low.distance(0, 99) == 3
    assert low.distance(0, 10) == 2
    assert capped(metric, Fraction(1, 2), 100) == Uniform(Fraction(1, 2))
    assert capped(metric, Fraction(20), 100) == metric


def test_within_two_and_a_half():
    """Exactly ceil(d / 2.5): 5 apart is two windows, where windows of 2 would be three."""
    metric = Window(Fraction(1), Fraction(5, 2))
    assert [int(metric.at(d)) for d in range(12)] == [0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5]
    assert [other for x, other in metric.generating_pairs(30) if x == 0] == [1, 2, 5]
    assert metric.per_step(30) == Fraction(2, 5)
    assert metric.within(Window(Fraction(1), 2), 30)
    assert Window(Fraction(1), 3).within(metric, 30)
    assert not metric.within(Window(Fraction(1), 3), 30)
    assert metric.on_grid_points() == Window(Fraction(1), 4)
    assert metric.refined(4) == Window(Fraction(1), 10)


def test_what_is_within_what():
    line, window = Line(Fraction(1, 5)), Window(Fraction(1), 5)
    assert line.within(window, 100)
    assert not window.within(line, 100)
    assert window.within(Window(Fraction(1), 4), 100)
    assert not Window(Fraction(1), 4).within(window, 100)
    assert capped(window, Fraction(3), 100).within(window, 100)
    assert not window.within(capped(window, Fraction(3), 100), 100)


@pytest.mark.parametrize(
    "metric",
    [
        Window(Fraction(1), 2),
        Window(Fraction(1), Fraction(5, 2)),
        Bent(Fraction(1, 2), cap=Fraction(2)),
    ],
)
def test_values_between_points_keep_what_is_promised(metric):
    """Mixtures of two neighbouring points, over a fine grid of values, for the steepest channel."""
    size, parts = 9, 4
    kept = metric.on_grid_points()
    at = np.arange(size)
    far = np.array([[float(kept.distance(x, y)) for y in at] for x in at])
    values = np.arange(0, size - 1, 1 / parts)
    low, share = values.astype(int), values % 1
    for shape in np.exp(np.concatenate([far, -far])):
        v = shape[low] * (1 - share) + shape[low + 1] * share
        for (i, a), (j, b) in product(enumerate(values), repeat=2):
            steps = Fraction(abs(a - b))
            if isinstance(metric, Bent):
                promised = min(metric.epsilon * steps, metric.cap)
            else:
                promised = metric.epsilon * -(-steps // metric.width)
            assert v[i] / v[j] <= np.exp(float(promised)) * (1 + 1e-12)
