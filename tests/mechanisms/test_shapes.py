"""Tents, shaped noise and designed channels: against all shapes there are, and broken twins."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from metricldp import InvalidSpecError
from metricldp.mechanisms.additive import ShapedNoise
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.conformance import check_channel
from metricldp.mechanisms.extremal import Designed, Tents
from metricldp.mechanisms.extremal_search import best_mixture
from metricldp.mechanisms.matrix import completed, workload_of
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Line, Sensitive, Uniform, tightened
from metricldp.metrics.window import Bent, Window


def metrics(size, epsilon):
    """Lines, windows, caps, a circle, all alike, a sensitive value, a star, a tree, graphs."""
    star = {(0, x): epsilon * (1 + x % 2) for x in range(1, size)}
    leap = {(x, x + 1): epsilon for x in range(size - 1)} | {(0, size - 1): 2 * epsilon}
    tree = {(0, 1): epsilon, (0, 2): 2 * epsilon} | {
        (1 + x % 2, x): epsilon for x in range(3, size)
    }
    draw = np.random.default_rng(size)
    graph = {(x, int(draw.integers(x))): int(draw.integers(1, 4)) for x in range(1, size)}
    graph = {pair: length * epsilon for pair, length in graph.items()} | {
        (0, size - 1): 3 * epsilon
    }
    return [
        Line(epsilon),
        Uniform(epsilon),
        Window(epsilon, 2),
        Window(epsilon, 3, 2 * epsilon),
        Bent(epsilon, cap=2 * epsilon),
        Bent(epsilon, around=size),
        Sensitive(frozenset([1]), epsilon),
        tightened(star, range(size))[0],
        tightened(leap, range(size))[0],
        tightened(tree, range(size))[0],
        tightened(graph, range(size))[0],
    ]


def every_shape(apart):
    """All whole heights that the metric allows, smallest 0."""
    size = len(apart)
    found = []
    for rest in product(range(-int(apart.max()), int(apart.max()) + 1), repeat=size - 1):
        heights = np.array([0, *rest])
        if (np.abs(heights[:, None] - heights) <= apart).all():
            found.append(heights - heights.min())
    return np.unique(found, axis=0)


def by_semidefinite_program(apart, unit, gram, prior=None):
    import cvxpy as cp

    shapes = np.exp(unit * every_shape(apart))
    shapes /= np.average(shapes, axis=1, weights=prior)[:, None]
    p = cp.Variable(len(shapes), nonneg=True)
    matrix = shapes.T @ cp.multiply(p[:, None], shapes)
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    problem = cp.Problem(cp.Minimize(cp.matrix_frac(root, matrix)), [shapes.T @ p == 1])
    return problem.solve(solver="CLARABEL")


def check_against_program(size, epsilon, metric):
    apart = np.asarray(metric.whole(size), dtype=np.int64)
    gram = Workload.all_ranges(size).gram()
    found = best_mixture(apart, float(metric.step), gram, target=1 + 1e-5)
    least = by_semidefinite_program(apart, float(metric.step), gram)
    assert found.total == pytest.approx(least, rel=1e-4)
    assert found.limit == pytest.approx(least, rel=1e-4) and found.limit <= least * (1 + 1e-6)
    shapes = np.exp(float(metric.step) * (found.heights - found.heights.max(axis=1)[:, None]))
    assert found.tops @ shapes == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("index", range(11))
def test_designed_is_the_best_of_all_shapes(index):
    size, epsilon = 4, Fraction(1)
    check_against_program(size, epsilon, metrics(size, epsilon)[index])


LONG = {(6, 1, 10), (7, 1, 7), (7, 1, 10)}
"""Thousands of shapes, too many for the program."""
GRID = [
    (size, epsilon, index)
    for size, epsilon in [(5, Fraction(1, 5)), (5, 3), (6, 1), (7, 1)]
    for index in range(11)
    if (size, epsilon, index) not in LONG
]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "epsilon", "index"), GRID)
def test_designed_is_the_best_of_all_shapes_on_a_grid(size, epsilon, index):
    epsilon = Fraction(epsilon)
    check_against_program(size, epsilon, metrics(size, epsilon)[index])


@pytest.mark.parametrize("mechanism", [ShapedNoise(), Designed()])
def test_they_conform_on_windows_and_caps(mechanism):
    kinds = [lambda e: Window(e, 2), lambda e: Window(e, 2, Fraction(3, 2) * e)]
    found = check_channel(mechanism, sizes=(3, 5), epsilons=(0.3, 2.0), metrics=kinds)
    assert found.holds, str(found)


def test_tents_conform_where_they_exist():
    kinds = [Line, Uniform, lambda e: Bent(e, cap=2 * e)]
    found = check_channel(Tents(), sizes=(2, 3, 5), epsilons=(0.3, 2.0), metrics=kinds)
    assert found.holds, str(found)
    with pytest.raises(
        InvalidSpecError, match="the weight of 2 would be negative under this metric"
    ):
        Tents().settled(5, Window(Fraction(1, 10), 2))


@pytest.mark.parametrize(
    ("size", "metric", "variance"),
    [
        (100, Bent(Fraction(1, 5), cap=Fraction(6)), 24.84),
        (100, Bent(Fraction(1, 5), cap=Fraction(4)), 29.98),
        (24, Bent(Fraction(1, 2), around=24), 3.29),
    ],
)
def test_known_errors_of_tents(size, metric, variance):
    channel = Tents().settled(size, metric).channel(size, metric)
    assert channel.mean_range_variance() == pytest.approx(variance, rel=2e-3)


KNOWN = [
    (16, Window(Fraction(1), 4), 3.645),
    (16, Line(Fraction(35, 100)), 9.92),
    (16, Uniform(Fraction(1)), 6.438),
    (20, Uniform(Fraction(2)), 1.351),
    (24, Window(Fraction(7, 10), 3), 5.844),
]


@pytest.mark.parametrize(("size", "metric", "variance"), KNOWN)
def test_known_errors_of_designed_channels(size, metric, variance):
    channel = Designed().settled(size, metric, ordered=True).channel(size, metric)
    assert channel.mean_range_variance() <= 1.005 * variance
    assert channel.bits <= 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "metric", "variance"),
    [
        (32, Window(Fraction(1), 5), 3.513),
        (40, Window(Fraction(1, 2), 8, Fraction(3, 2)), 30.57),
        (100, Window(Fraction(1), 5), 1.409),
        (100, Window(Fraction(1), 5, Fraction(3)), 2.70),
    ],
)
def test_known_errors_of_large_designed_channels(size, metric, variance):
    channel = Designed().settled(size, metric, ordered=True).channel(size, metric)
    assert channel.mean_range_variance() <= 1.03 * variance


@pytest.mark.parametrize(
    ("size", "metric", "most"),
    [
        (100, Window(Fraction(1), 5), 1.48),
        (100, Window(Fraction(1), 5, Fraction(3)), 2.83),
        pytest.param(1000, Window(Fraction(1), 20), 1.60, marks=pytest.mark.slow),
    ],
)
def test_known_errors_of_shaped_noise(size, metric, most):
    channel = ShapedNoise().settled(size, metric, ordered=True).channel(size, metric)
    assert channel.patterns <= 8
    assert channel.mean_range_variance() <= most


def test_broken_files_are_refused():
    size, metric = 12, Window(Fraction(1), 3)
    shaped = ShapedNoise().settled(size, metric, ordered=True)
    first, *rest = shaped.patterns
    lowest = first.index(0)
    deeper = (*first[:lowest], *first[lowest:])
    steep = tuple(depth + 2 * (at == lowest - 1) for at, depth in enumerate(deeper))
    with pytest.raises(InvalidSpecError, match="exceed the metric for values 1 steps apart"):
        replace(shaped, patterns=[list(steep), *map(list, rest)]).channel(size, metric)
    with pytest.raises(InvalidSpecError, match="patterns are a list of 1, 2, 4, 8 or 16"):
        replace(shaped, patterns=[list(first)] * 3).channel(size, metric)
    with pytest.raises(
        InvalidSpecError, match="pattern 0 has 5 depths; all have as many, at least 12"
    ):
        replace(shaped, patterns=["00112"]).channel(size, metric)
    with pytest.raises(
        InvalidSpecError, match="pattern 0 holds '0!1'; depths are digits from 0 to Z"
    ):
        replace(shaped, patterns=["0!1"]).channel(size, metric)
    with pytest.raises(
        InvalidSpecError, match="additive noise needs a metric that depends on the distance"
    ):
        ShapedNoise().settled(5, Sensitive(frozenset([1]), Fraction(1)))


@pytest.mark.parametrize("mechanism", [ShapedNoise(), Designed()])
def test_a_saved_workload_is_a_name(mechanism):
    """Beside what was found for it nothing else is kept of it, and nothing else is let in."""
    size, metric = 5, Window(Fraction(1), 2)
    settled = mechanism.settled(size, metric, ordered=True)

    def again(workload):
        return replace(settled, workload=workload).settled(size, metric).saved().get("workload")

    for workload in ("ranges", "prefixes", "given", None):
        assert again(workload) == workload
    assert again([[1, 0, 1, 0, 1]]) == again(Workload.from_rows([[1, 0, 1, 0, 1]])) == "given"
    for wrong in (2**53 + 1, "nonsense", {"a": 1}, [1], [["x"]], [[1, 0]]):
        with pytest.raises(InvalidSpecError, match=r"workload|rows"):
            again(wrong)


def test_tops_that_break_the_promise_or_the_sum_are_refused():
    size, metric = 6, Window(Fraction(1), 2)
    designed = Designed().settled(size, metric, ordered=True)
    designed.channel(size, metric)
    for sign in (1, -1):  # a weight off by one part in 2^20
        tops = [int(top, 16) for top in designed.tops]
        largest = tops.index(max(tops))
        tops[largest] += sign * (tops[largest] >> 20)
        with pytest.raises(InvalidSpecError, match="tops of the shapes"):
            replace(designed, tops=[f"{top:016x}" for top in tops]).channel(size, metric)
    flat = designed.shapes[0]
    steep = tuple(3 * depth for depth in flat) if max(flat) else (0, 3, 0, 0, 0, 0)
    with pytest.raises(InvalidSpecError, match=r"shape 0 exceeds the distance of \d and \d"):
        replace(designed, shapes=(steep, *designed.shapes[1:])).channel(size, metric)


SKEWED = (8.0, 4.0, 2.0, 1.0, 0.0)


def test_a_design_for_a_prior_is_the_best_for_it():
    """Against the program, with errors enumerated from the integers in use."""
    size, metric = 5, Window(Fraction(1), 2)
    for name, mechanism in (("ranges", Designed), ("mean", Designed), ("2 bars", ShapedNoise)):
        settled = mechanism(name, SKEWED).settled(size, metric)
        channel = settled.channel(size, metric)
        asked = workload_of(name, size)
        squares = channel.moment(asked.rows_block(0, asked.rows)) @ SKEWED / sum(SKEWED)
        assert channel.mean_square(asked.gram(), SKEWED) == pytest.approx(squares.sum())
        functions = np.eye(size)
        assert channel.mean(channel.coefficients(functions)) == pytest.approx(functions, abs=1e-9)
        gram = completed(asked).gram()
        apart = np.asarray(metric.whole(size), dtype=np.int64)
        least = by_semidefinite_program(apart, float(metric.step), gram, SKEWED)
        most = least * (2 if mechanism is ShapedNoise else 1.003)  # bars fit no ring
        assert (1 - 1e-6) * least <= channel.mean_square(gram, SKEWED) <= most


@pytest.mark.parametrize(("width", "around"), [(12, None), (20, None), (28, None), (10, 32)])
def test_a_wide_window_costs_no_more_than_all_pairs_alike(width, around):
    """That keeps more than the window; a search that did not know of it had up to a tenth more."""
    epsilon = Fraction(1)
    errors = [
        ShapedNoise().settled(32, metric, ordered=True).channel(32, metric).mean_range_variance()
        for metric in (Window(epsilon, width, around=around), Uniform(epsilon))
    ]
    assert errors[0] <= errors[1] * (1 + 1e-9)


def test_shaped_noise_decodes_for_its_prior():
    """Its closed form is the mean square of its decoders, enumerated, and no decoder has less."""
    size, metric = 6, Window(Fraction(1), 2)
    prior = (5.0, 1.0, 0.0, 2.0, 1.0, 0.5)
    found = ShapedNoise(prior=prior).settled(size, metric, ordered=True)
    even = replace(found, prior=None).channel(size, metric)
    channel = found.channel(size, metric)
    gram = Workload.all_ranges(size).gram()
    by_hand = Channel.mean_square(channel, gram, np.array(prior))
    assert channel.mean_square(gram, np.array(prior)) == pytest.approx(by_hand, rel=1e-12)
    assert by_hand < even.mean_square(gram, np.array(prior))
    assert channel.mean_square(gram) == pytest.approx(Channel.mean_square(channel, gram), rel=1e-12)
    assert channel.mean_square(gram) > even.mean_square(gram)


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"prior": [1, 2]}, "a prior is a list of 5 numbers of at least 0"),
        ({"prior": [0] * 5}, "at least one number above 0"),
        ({"prior": [1, 1, 1, 1, -1]}, "numbers of at least 0"),
        ({"prior": "even"}, "a prior is a list of 5 numbers"),
        ({"seconds": 0}, "seconds of mechanism extremal is a number above 0, at most 86,400"),
        ({"gap": 2}, "gap of mechanism extremal is a number above 0, at most 1, not 2"),
        ({"workload": "9 bars"}, "9 bars for 5 positions; use 1 to 5"),
        ({"workload": "bars"}, "no workload is called 'bars'"),
        ({"workload": {"ranges": 0}}, "the share of 'ranges' is a number above 0, not 0"),
        ({"workload": {}}, "a workload of several is a table of their names and shares"),
    ],
)
def test_wishes_that_cannot_be(wishes, message):
    with pytest.raises(InvalidSpecError, match=message):
        Designed(**wishes).settled(5, Window(Fraction(1), 2), ordered=True)


def test_a_saved_design_is_loaded_as_it_was():
    size, metric = 9, Window(Fraction(1), 2, Fraction(3))
    prior = tuple(range(9))
    for mechanism in (ShapedNoise(), Designed(), Designed(prior=prior, seconds=5, gap=0.1)):
        settled = mechanism.settled(size, metric, ordered=True)
        again = type(settled)().with_saved(settled.saved())
        assert again.channel(size, metric) == settled.channel(size, metric)
        assert again.settled(size, metric) == settled
        assert "seconds" not in settled.saved() and "gap" not in settled.saved()
