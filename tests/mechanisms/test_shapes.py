"""Tents, shaped noise and designed channels: against all shapes there are, and broken twins."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from checks import designed_channel
from metricldp import InvalidSpecError
from metricldp.mechanisms.additive import AdditiveNoise
from metricldp.mechanisms.base import Problem
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.extremal import ExtremalMechanism, TightConstraints
from metricldp.mechanisms.extremal_search import best_mixture
from metricldp.mechanisms.moments import Moments
from metricldp.mechanisms.stated import completed, workload_of
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


@pytest.mark.parametrize("mechanism", [AdditiveNoise(), ExtremalMechanism()])
def test_they_conform_on_windows_and_caps(mechanism):
    kinds = [lambda e: Window(e, 2), lambda e: Window(e, 2, Fraction(3, 2) * e)]
    found = check_mechanism(mechanism, sizes=(3, 5), epsilons=(0.3, 2.0), metrics=kinds)
    assert found.holds, str(found)


def test_tents_conform_where_they_exist():
    kinds = [Line, Uniform, lambda e: Bent(e, cap=2 * e)]
    found = check_mechanism(TightConstraints(), sizes=(2, 3, 5), epsilons=(0.3, 2.0), metrics=kinds)
    assert found.holds, str(found)
    with pytest.raises(
        InvalidSpecError, match="the weight of 2 would be negative under this metric"
    ):
        designed_channel(TightConstraints(), 5, Window(Fraction(1, 10), 2))


@pytest.mark.parametrize(
    ("size", "metric", "variance"),
    [
        (100, Bent(Fraction(1, 5), cap=Fraction(6)), 24.84),
        (100, Bent(Fraction(1, 5), cap=Fraction(4)), 29.98),
        (24, Bent(Fraction(1, 2), around=24), 3.29),
    ],
)
def test_known_errors_of_tents(size, metric, variance):
    channel = designed_channel(TightConstraints(), size, metric, ordered=False)
    assert channel.moments.mean_range_variance() == pytest.approx(variance, rel=2e-3)


KNOWN = [
    (16, Window(Fraction(1), 4), 3.645),
    (16, Line(Fraction(35, 100)), 9.92),
    (16, Uniform(Fraction(1)), 6.438),
    (20, Uniform(Fraction(2)), 1.351),
    (24, Window(Fraction(7, 10), 3), 5.844),
]


@pytest.mark.parametrize(("size", "metric", "variance"), KNOWN)
def test_known_errors_of_designed_channels(size, metric, variance):
    channel = designed_channel(ExtremalMechanism(), size, metric)
    assert channel.moments.mean_range_variance() <= 1.005 * variance
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
    channel = designed_channel(ExtremalMechanism(), size, metric)
    assert channel.moments.mean_range_variance() <= 1.03 * variance


@pytest.mark.parametrize(
    ("size", "metric", "most"),
    [
        (100, Window(Fraction(1), 5), 1.48),
        (100, Window(Fraction(1), 5, Fraction(3)), 2.83),
        pytest.param(1000, Window(Fraction(1), 20), 1.60, marks=pytest.mark.slow),
    ],
)
def test_known_errors_of_shaped_noise(size, metric, most):
    channel = designed_channel(AdditiveNoise(), size, metric)
    assert len(channel.distribution.depths) <= 8
    assert channel.moments.mean_range_variance() <= most


def test_additive_noise_needs_a_metric_of_the_difference():
    with pytest.raises(
        InvalidSpecError, match="additive noise needs a metric that depends on the distance"
    ):
        designed_channel(AdditiveNoise(), 5, Sensitive(frozenset([1]), Fraction(1)))


@pytest.mark.parametrize("mechanism", [AdditiveNoise(), ExtremalMechanism()])
def test_a_workload_is_stated_by_its_name_after_the_design(mechanism):
    size, metric = 5, Window(Fraction(1), 2)
    problem = Problem.single(size, metric, ordered=True)
    distribution = mechanism.design(problem)

    def again(workload):
        return replace(mechanism, workload=workload).resolved(problem, distribution).workload

    for workload in ("ranges", "prefixes", "given"):
        assert again(workload) == workload
    assert again(None) == "ranges"
    assert again([[1, 0, 1, 0, 1]]) == again(Workload.from_rows([[1, 0, 1, 0, 1]])) == "given"
    for wrong in (2**53 + 1, "nonsense", [1], [["x"]], [[1, 0]]):
        with pytest.raises(InvalidSpecError, match=r"workload|rows"):
            again(wrong)
    with pytest.raises(InvalidSpecError, match="state the mechanism again, with its workload"):
        replace(mechanism, workload="given").design(problem)


SKEWED = (8.0, 4.0, 2.0, 1.0, 0.0)


def test_a_design_for_a_prior_is_the_best_for_it():
    """Against the program, with errors enumerated from the integers in use."""
    size, metric = 5, Window(Fraction(1), 2)
    for name, mechanism in (
        ("ranges", ExtremalMechanism),
        ("mean", ExtremalMechanism),
        ("2 bars", AdditiveNoise),
    ):
        channel = designed_channel(mechanism(name, SKEWED), size, metric, ordered=False)
        asked = workload_of(name, size)
        squares = (
            channel.moments.second_moment(asked.rows_block(0, asked.rows)) @ SKEWED / sum(SKEWED)
        )
        assert channel.moments.mean_square(asked.gram(), SKEWED) == pytest.approx(squares.sum())
        functions = np.eye(size)
        assert channel.moments.mean(channel.moments.coefficients(functions)) == pytest.approx(
            functions, abs=1e-9
        )
        gram = completed(asked).gram()
        apart = np.asarray(metric.whole(size), dtype=np.int64)
        least = by_semidefinite_program(apart, float(metric.step), gram, SKEWED)
        most = least * (2 if mechanism is AdditiveNoise else 1.003)  # bars fit no ring
        assert (1 - 1e-6) * least <= channel.moments.mean_square(gram, SKEWED) <= most


@pytest.mark.parametrize(("width", "around"), [(12, None), (20, None), (28, None), (10, 32)])
def test_a_wide_window_costs_no_more_than_all_pairs_alike(width, around):
    """That keeps more than the window; a search that did not know of it had up to a tenth more."""
    epsilon = Fraction(1)
    errors = [
        designed_channel(AdditiveNoise(), 32, metric).moments.mean_range_variance()
        for metric in (Window(epsilon, width, around=around), Uniform(epsilon))
    ]
    assert errors[0] <= errors[1] * (1 + 1e-9)


def test_shaped_noise_decodes_for_its_prior():
    """Its closed form is the mean square of its decoders, enumerated, and no decoder has less."""
    size, metric = 6, Window(Fraction(1), 2)
    prior = (5.0, 1.0, 0.0, 2.0, 1.0, 0.5)
    channel = designed_channel(AdditiveNoise(prior=prior), size, metric)
    even = replace(channel, prior=None)
    gram = Workload.all_ranges(size).gram()
    by_hand = Moments.mean_square(channel.moments, gram, np.array(prior))
    assert channel.moments.mean_square(gram, np.array(prior)) == pytest.approx(by_hand, rel=1e-12)
    assert by_hand < even.moments.mean_square(gram, np.array(prior))
    assert channel.moments.mean_square(gram) == pytest.approx(
        Moments.mean_square(channel.moments, gram), rel=1e-12
    )
    assert channel.moments.mean_square(gram) > even.moments.mean_square(gram)


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
        designed_channel(ExtremalMechanism(**wishes), 5, Window(Fraction(1), 2))


def test_options_of_the_search_are_not_stated_after_the_design():
    problem = Problem.single(9, Window(Fraction(1), 2, Fraction(3)), ordered=True)
    mechanism = ExtremalMechanism(prior=tuple(range(9)), seconds=5, gap=0.1)
    distribution = mechanism.design(problem)
    resolved = mechanism.resolved(problem, distribution)
    assert resolved.to_dict() == {
        "name": "extremal",
        "workload": "ranges",
        "prior": [float(k) for k in range(9)],
    }
    assert resolved.resolved(problem, distribution) == resolved


def test_equal_efforts_give_equal_distributions_and_others_may_not():
    problem = Problem.single(40, Window(Fraction(1), 4), ordered=True)
    little = AdditiveNoise().design(problem, Effort(scale=0.01))
    assert little == AdditiveNoise().design(problem, Effort(scale=0.01))
    assert little != AdditiveNoise().design(problem)
    assert AdditiveNoise().design(problem, Effort(seed=2)) != AdditiveNoise().design(problem)
    shares = []
    problem = Problem.single(9, Window(Fraction(1), 2), ordered=True, workload=[[1, 2, 3] * 3])
    ExtremalMechanism().design(problem, Effort(seconds=30), shares.append)
    assert shares and 0 <= min(shares) <= max(shares) <= 1
