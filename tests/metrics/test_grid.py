"""Metrics on the cells of a grid: sums of distances, and straight lines in the plane."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from metricldp import Categorical, Continuous, Integer, InvalidSpecError
from metricldp.metrics import Distances, Line, Uniform
from metricldp.metrics.closed import closure
from metricldp.metrics.grid import Axis, Grid, in_plane, summed


def axis(size, *, windows=True, in_bins=False, step=Fraction(1), epsilon=1, cap=None):
    return Axis(size, Fraction(epsilon), Fraction(step), windows, in_bins, cap)


def test_whole_numbers_in_the_plane_are_windows_apart():
    grid = in_plane([axis(9, step=Fraction(1, 3)), axis(7, step=Fraction(1, 3))])
    for a, b in np.ndindex(9, 7):
        assert grid.numbers[a, b] == math.ceil(math.sqrt(a * a + b * b) / 3 - 1e-12)


def test_two_places_within_the_radius_are_never_farther_apart_than_epsilon():
    """Wherever they lie in their bins, and twice that within twice the radius, and so on."""
    radius, rng = 1.7, np.random.default_rng(1)
    grid = in_plane([Continuous(0, 8, bins=16, epsilon=1, within=radius).axis] * 2)
    first = rng.uniform(0, 8, (40_000, 2))
    turn, far = rng.uniform(0, 2 * math.pi, 40_000), rng.uniform(0, 5, 40_000)
    second = first + far[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    inside = ((second >= 0) & (second < 8)).all(axis=1)
    far = np.sqrt(((first - second) ** 2).sum(axis=1))
    apart = np.abs((first // 0.5).astype(int) - (second // 0.5).astype(int))[inside]
    allowed = np.ceil(far[inside] / radius)
    assert (grid.numbers[apart[:, 0], apart[:, 1]] <= allowed).all()
    # And no less than that is promised: somebody is as far apart as allowed.
    assert (grid.numbers[apart[:, 0], apart[:, 1]] == allowed).mean() > 0.2
    naive = np.ceil(np.sqrt((apart**2).sum(axis=1)) * 0.5 / radius)  # from middle to middle
    assert (naive > allowed).any()


@pytest.mark.parametrize(
    "axes",
    [
        (axis(4, in_bins=True, step=Fraction(2, 3)), axis(5, in_bins=True, step=Fraction(2, 3))),
        (axis(4, step=Fraction(1, 2)), axis(5, in_bins=True, step=Fraction(1, 3))),
        (axis(4, windows=False), axis(5, windows=False, epsilon=Fraction(3, 7))),
        (axis(4, cap=Fraction(5, 2)), axis(5, cap=Fraction(5, 2))),
        (
            axis(4, windows=False, cap=Fraction(5, 2)),
            axis(3, windows=False, cap=Fraction(5, 2)),
        ),
    ],
)
def test_a_grid_is_a_metric_and_generated_by_its_pairs(axes):
    grid = in_plane(axes)
    size = grid.numbers.size
    whole = grid.whole(size)
    assert np.array_equal(whole, closure(whole.copy()))
    assert (whole[~np.eye(size, dtype=bool)] > 0).all()
    pairs = list(grid.generating_pairs(size))
    assert len(pairs) == len(set(pairs)) == grid.generating_count(size)
    far = np.full((size, size), 10 * int(whole.max()), dtype=np.int64)
    np.fill_diagonal(far, 0)
    for x, other in pairs:
        assert grid.distance(x, other) == grid.step * int(whole[x, other])
        far[x, other] = far[other, x] = whole[x, other]
    assert np.array_equal(closure(far), whole)
    assert grid.smallest(size) == grid.step * int(whole[whole > 0].min())
    assert grid.diameter(size) == grid.step * int(whole.max())
    coarse = grid.coarser(8)
    assert np.array_equal(coarse.whole(size), closure(coarse.whole(size).copy()))
    assert (coarse.whole(size) * coarse.step <= whole * grid.step).all()


def test_straight_lines_are_rounded_down_by_very_little():
    grid = in_plane([axis(4, windows=False), axis(5, windows=False, epsilon=2)])
    for x, other in itertools.combinations(range(20), 2):
        (a, b), (c, d) = grid.cell(x), grid.cell(other)
        exact = math.hypot(a - c, 2 * (b - d))
        assert exact - 1e-5 < float(grid.distance(x, other)) <= exact


def test_distances_add_up():
    sides = (
        Integer(0, 5, epsilon=1, per=1, cyclic=True),
        Integer(0, 4, epsilon=0.3, within=2, max_epsilon=0.5),
    )
    grid = summed([a.distances for a in sides], [a.size for a in sides])
    for x, other in itertools.product(range(30), repeat=2):
        pairs = zip(sides, grid.cell(x), grid.cell(other), strict=True)
        assert grid.distance(x, other) == sum(a.distances.distance(p, q) for a, p, q in pairs)


def test_equal_grids_are_equal():
    one, two = (in_plane([axis(3), axis(4)]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != one.scaled(Fraction(1, 2))
    assert one != Grid(one.numbers + 1, one.step)
    assert one != 3
    assert isinstance(one, Grid)


def test_steps_by_hand():
    """Places in bins: cells that touch may hold places that are next to each other."""
    bins = in_plane([axis(4, in_bins=True), axis(3, in_bins=True)])
    assert bins.numbers.tolist() == [[0, 1, 2], [1, 1, 2], [2, 2, 2], [3, 3, 3]]
    assert in_plane([axis(4), axis(3)]).numbers.tolist() == [
        *([0, 1, 2], [1, 2, 3], [2, 3, 3], [3, 4, 4])
    ]
    mixed = in_plane([axis(4, in_bins=True), axis(3)])
    assert mixed.numbers.tolist() == [[0, 1, 2], [1, 2, 3], [2, 2, 3], [3, 3, 3]]
    assert bins.generating == [(0, 1), (1, 0), (1, 1)]
    assert set(bins.turned()) == {(0, 1), (1, 0), (1, 1), (1, -1)}
    assert (bins.sizes, bins.cell(7), bins.step) == ((4, 3), (2, 1), 1)
    assert bins.nearest(12) == (0, 1)
    assert bins.farthest(12) == (0, 9)


def test_a_cap_in_the_plane():
    """In units of which both epsilon and the cap are multiples; of lines it is rounded down."""
    cap = Fraction(5, 2)
    capped = in_plane([axis(4, cap=cap), axis(3, cap=cap)])
    assert capped.step == Fraction(1, 2)
    assert capped.numbers.max() == 5
    assert capped.numbers[1].tolist() == [2, 4, 5]
    lines = in_plane([axis(4, windows=False, cap=cap), axis(3, windows=False, cap=cap)])
    assert lines.diameter(12) == cap
    assert lines.straight
    assert not capped.straight
    assert lines.step == Fraction(1, 1 << 20)
    odd = Fraction((1 << 65) + 1, 1 << 64)
    assert in_plane([axis(4, cap=odd), axis(3, cap=odd)]).diameter(12) == odd


def test_a_share_of_a_grid_is_a_share_of_every_distance():
    grid = in_plane([axis(3), axis(4)])
    assert grid.scaled(Fraction(1, 3)).distance(0, 11) == grid.distance(0, 11) / 3
    assert grid.scaled(Fraction(1, 3)).axes == grid.axes


def test_units_of_a_grid():
    grid = in_plane([axis(3, windows=False), axis(3, windows=False)])
    eighths = grid.coarser(8)
    assert eighths.step == Fraction(1, 8)
    assert eighths.numbers.tolist() == [[0, 8, 16], [8, 11, 17], [16, 17, 22]]
    assert grid.coarser(1 << 20) is grid
    assert in_plane([axis(3), axis(3)]).coarser(1).step == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"windows": False}, "use within for both, or per for both"),
        ({"cap": Fraction(2)}, "state the same for both"),
        ({"epsilon": 2}, "must be the same for both"),
    ],
)
def test_sides_that_do_not_fit(change, message):
    with pytest.raises(InvalidSpecError, match=message):
        in_plane([axis(3), axis(3, **change)])


def test_lines_may_have_different_epsilons():
    grid = in_plane([axis(2, windows=False), axis(2, windows=False, epsilon=Fraction(1, 2))])
    assert float(grid.distance(0, 3)) == pytest.approx(math.sqrt(1.25), abs=1e-6)
    assert grid.nearest(4) == (0, 1)
    assert in_plane(grid.axes[::-1]).nearest(4) == (0, 2)
    assert grid.step == Fraction(1, 1 << 21)


def test_what_has_no_difference_is_not_summed():
    table = Distances.of(np.array([[0, 1, 3], [1, 0, 2], [3, 2, 0]]), Fraction(1))
    assert summed([table, Uniform(Fraction(1))], [3, 2]) is None
    kinds = Categorical(["a", "b"], epsilon=0.25).distances
    grid = summed([Uniform(Fraction(1)), kinds], [3, 2])
    assert (grid.numbers * grid.step).tolist() == [[0, 0.25], [1, 1.25], [1, 1.25]]
    assert grid.axes == ()
    huge = summed([Uniform(Fraction(1 << 70)), Uniform(Fraction(1, 3))], [2, 2])
    assert huge.distance(0, 3) == (1 << 70) + Fraction(1, 3)
    assert huge.generating == [(1, 0), (0, 1)]
    assert not huge.straight
    wide = summed([Line(Fraction(1)), Line(Fraction(1 << 61))], [2, 5])
    assert wide.diameter(10) == 1 + (1 << 63)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (Integer(0, 4, epsilon=2, within=3), axis(5, epsilon=2, step=Fraction(1, 3))),
        (Integer(0, 4, epsilon=2, per=4), axis(5, epsilon=2, step=Fraction(1, 4), windows=False)),
        (
            Continuous(0, 8, bins=16, epsilon=1, within=1, max_epsilon=3),
            axis(16, step=Fraction(1, 2), in_bins=True, cap=Fraction(3)),
        ),
        (Integer(0, 4, epsilon=1, cyclic=True, per=1), None),
        (Continuous(edges=[0, 1, 3], epsilon=1, per=1), None),
        (Categorical(["a", "b"], epsilon=1), None),
    ],
)
def test_an_attribute_as_a_side(attribute, expected):
    assert attribute.axis == expected


@pytest.mark.parametrize("cap", ["1/3", "1/2", "2", "5/2", "7/3"])
def test_a_cap_cuts_every_distance_and_no_other(cap):
    grid = summed([Line(Fraction(1, 2)), Line(Fraction(2, 3))], (3, 4))
    size, most = 12, Fraction(cap)
    capped = grid.capped(most)
    for x, other in itertools.combinations(range(size), 2):
        assert capped.distance(x, other) == min(grid.distance(x, other), most)
    assert capped.sizes == grid.sizes
    farthest = grid.diameter(size)
    assert grid.capped(farthest) is grid and grid.capped(farthest + 1) is grid


def test_a_grid_of_few_steps_may_have_a_cap_of_many_digits():
    """The whole numbers are wide enough for what they are multiplied with."""
    grid = summed([Line(Fraction(1)), Line(Fraction(1))], (15, 15))
    cap = Fraction(10**9 - 1, 10**9)
    assert grid.capped(cap).distance(0, 224) == cap
    assert grid.capped(cap).distance(0, 0) == 0
