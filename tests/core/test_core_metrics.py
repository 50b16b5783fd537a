"""Metrics: generating pairs imply all distances, and points imply the values between them."""

import random
from fractions import Fraction
from itertools import combinations, product

import pytest
from core_cases import W, additive

from metricldp.channels.plain_data import plain_data
from metricldp_core.canonical import Entry
from metricldp_core.distributions import RandomizedResponse, Table, Threshold
from metricldp_core.exact import at_most_exp
from metricldp_core.metrics import KINDS, Graph, Grid, Limit, Line, Uniform, strictest
from metricldp_core.verify import by_difference, prove

F = Fraction
LINES = [
    Line(size, F(2, 3), width, None if cap is None else cap * F(2, 3), ring)
    for size in (2, 3, 4, 5, 6, 7, 8, 11, 12)
    for width in map(F, ("1", "3/2", "2", "7/3", "5/2", "11/4", "3", "10/3", "9", "30"))
    for cap in (None, F(1), F(3, 2), F(2), F(5, 2), F(3))
    for ring in (False, True)
]


def graphs():
    rng = random.Random(1)
    for size in (2, 3, 5, 7):
        for _ in range(6):
            pairs = {tuple(sorted((x, rng.randrange(x)))) for x in range(1, size)}
            pairs |= {p for p in combinations(range(size), 2) if rng.random() < 0.4}
            listed = tuple(sorted(pairs, key=lambda _: rng.random()))
            yield Graph(size, F(1, 3), listed, tuple(rng.randrange(1, 9) for _ in listed))


def grids():
    rng = random.Random(2)
    for sizes in ((2, 2), (2, 3), (3, 4), (2, 2, 3)):
        units = [tuple(int(d == k) for k in range(len(sizes))) for d in range(len(sizes))]
        for _ in range(5):
            more = {tuple(rng.randrange(n) for n in sizes) for _ in range(3)} - {(0,) * len(sizes)}
            steps = tuple(dict.fromkeys([*units, *sorted(more)]))
            yield Grid(sizes, F(1, 2), steps, tuple(rng.randrange(1, 7) for _ in steps))


METRICS = [*(Uniform(n, F(1, 2)) for n in (2, 3, 6)), *graphs(), *grids()]


def shortest_paths(metric):
    """All distances that the limits of generating pairs imply (Floyd and Warshall)."""
    size = metric.size
    paths = [[F(0) if x == other else None for other in range(size)] for x in range(size)]
    for group in metric.groups():
        for x, other in group.pairs(True):
            paths[x][other] = paths[other][x] = group.limit.epsilon
    for z, x, other in product(range(size), repeat=3):
        if paths[x][z] is not None and paths[z][other] is not None:
            way = paths[x][z] + paths[z][other]
            if paths[x][other] is None or way < paths[x][other]:
                paths[x][other] = way
    return paths


def check_paths(metric):
    """Distances are those of shortest paths; of a grid upper bounds, as its paths are monotone."""
    paths, size = shortest_paths(metric), metric.size
    for x, other in product(range(size), repeat=2):
        stated = metric.distance(x, other)
        assert stated == metric.distance(other, x)
        assert paths[x][other] <= stated
        assert isinstance(metric, Grid) or paths[x][other] == stated
    assert metric.largest() >= max(map(max, paths))


def generating_pairs(metric, every=True):
    return [pair for group in metric.groups() for pair in group.pairs(every)]


def check_groups(metric):
    """Pairs of all differences and widest pairs agree with the listed pairs."""
    pairs = generating_pairs(metric)
    assert len(pairs) == len({tuple(sorted(pair)) for pair in pairs})
    assert all(0 <= min(pair) < max(pair) < metric.size for pair in pairs)
    for group in metric.groups():
        listed, chosen = list(group.pairs(True)), list(group.pairs(False))
        assert len(chosen) <= len(listed)
        assert {difference(metric, p) for p in listed} == {difference(metric, p) for p in chosen}
        assert all(metric.distance(*pair) <= group.limit.epsilon for pair in listed)
        flat = [abs(other - x) for x, other in listed]
        assert max(flat) == group.widest[1] - group.widest[0]
        assert group.widest in listed
    distances = [metric.distance(x, other) for x, other in combinations(range(metric.size), 2)]
    assert strictest(metric.groups()).limit.epsilon == min(distances)


def difference(metric, pair):
    """The steps between two cells along each attribute, of opposite directions one."""
    (x, other), apart = pair, []
    for size in reversed(metric.grid):
        apart.insert(0, other % size - x % size)
        x, other = x // size, other // size
    return max(tuple(apart), tuple(-d for d in apart))


@pytest.mark.parametrize("ring", [False, True])
def test_generating_pairs_of_lines_imply_all_distances(ring):
    for line in LINES:
        if line.ring == ring:
            check_paths(line)
            check_groups(line)


def test_generating_pairs_of_other_metrics_imply_all_distances():
    for metric in METRICS:
        check_paths(metric)
        check_groups(metric)


def test_generating_pairs_of_lines_are_needed():
    """No pair of a line is implied by the others, so none could be left out."""
    for line in LINES:
        if line.size > 8:
            continue
        for x, other in generating_pairs(line):
            ways = [line.distance(x, z) + line.distance(z, other) for z in range(line.size)]
            shorter = [way for z, way in enumerate(ways) if z not in (x, other)]
            assert not shorter or min(shorter) > line.distance(x, other)


def check_formula(line):
    """Distances as the specification states them."""
    for d in range(line.size):
        apart = min(d, line.size - d) if line.ring else d
        windows = next(k for k in range(line.size + 1) if k * line.width >= apart)
        far = windows * line.epsilon
        assert line.at(d) == (far if line.cap is None else min(far, line.cap))


def test_distances_of_lines_follow_the_formula():
    for line in LINES:
        check_formula(line)


def test_distances_of_lines_are_metrics():
    for line in LINES:
        at = [line.at(d) for d in range(line.size)]
        for x, z, other in product(range(line.size), repeat=3):
            assert at[abs(x - other)] <= at[abs(x - z)] + at[abs(z - other)]


def test_distances_of_large_graphs_are_bounded():
    """Without a table of all shortest paths, the largest distance is a bound for each."""
    size = 730
    neighbours = tuple((x, x + 1) for x in range(size - 1))
    ring = Graph(size, F(1), (*neighbours, (0, size - 1)), (1,) * size)
    assert ring._all is None
    assert ring.distance(0, 1) == ring.largest() >= size // 2
    path = Graph(size, F(1, 2), neighbours, (3,) * (size - 1))
    assert path.distance(2, 9) == F(21, 2)
    assert path.largest() == F(3 * (size - 1), 2)


def test_sensitive_values_are_at_one_step_of_all_others():
    star = Graph(4, F(1), ((0, 1), (1, 2), (1, 3)), (2, 2, 2))
    assert star.sensitive() == [1]
    path = Graph(4, F(1), ((0, 1), (1, 2), (2, 3)), (2, 2, 2))
    assert path.sensitive() == []


def test_metrics_are_read_as_they_are_written():
    for metric in [*LINES, *METRICS]:
        data = plain_data(metric)
        assert Entry(data, "metric").one_of(KINDS, metric.size) == metric


# Rounding at random ------------------------------------------------------------------------------


def mixture(table, position):
    """The probabilities of a value between two points."""
    below = min(int(position), table.size - 2)
    part = position - below
    pairs = zip(table.weights[below], table.weights[below + 1], strict=True)
    return [(1 - part) * a + part * b for a, b in pairs]


def worst(table, x, other):
    pairs = zip(mixture(table, x), mixture(table, other), strict=True)
    return max(max(a / b, b / a) for a, b in pairs)


def tight_table(size, allowed):
    """A table on points whose ratios come close to what is allowed, and not above."""
    rng = random.Random(size)
    best = None
    for _ in range(60):
        cuts = [[rng.randrange(1, 1 << 10) for _ in range(4)] for _ in range(size)]
        rows = [[W * c // sum(row) for c in row[:-1]] for row in cuts]
        table = Table(tuple((*row, W - sum(row)) for row in rows))
        for shrink in range(1, 30):
            mixed = [[(v + shrink * (W // 4) // 2) * 2 // (2 + shrink) for v in r] for r in rows]
            tried = Table(tuple((*row, W - sum(row)) for row in mixed))
            if allowed(tried):
                best = best or tried
                break
        del table
    return best


def check_between(metric, table):
    """Values on a fine grid between points keep the metric on values."""
    last = metric.size - 1
    fine = [F(k, 6) for k in range(6 * last + 1)]
    for x, other in combinations(fine, 2):
        if metric.width == 1 and isinstance(metric, Line):
            epsilon = metric.epsilon * (other - x)
            epsilon = epsilon if metric.cap is None else min(epsilon, metric.cap)
        else:
            epsilon = metric.at(other - x)
        assert at_most_exp(worst(table, x, other), epsilon)


BETWEEN = [
    Line(4, F(1, 2)),
    Line(4, F(1, 2), F(1), F(3, 4)),
    Line(5, F(1, 2), F(2)),
    Line(6, F(1, 2), F(3, 2)),
    Line(6, F(1, 2), F(3, 2), F(3, 4)),
]


@pytest.mark.parametrize("metric", BETWEEN, ids=str)
def test_points_that_hold_keep_the_metric_between_them(metric):
    points = metric.between_points()
    table = tight_table(metric.size, lambda t: prove("", t, points).holds)
    assert not prove("", table, Line(metric.size, metric.epsilon / 3)).holds
    check_between(metric, table)


def test_points_that_keep_the_metric_alone_do_not_keep_it_between():
    """A ratio of e^epsilon between neighbours is too much: values close to a point differ more."""
    metric = Line(2, F(1))
    high = int(W * 0.7310585)
    table = Table(((high, W - high), (W - high, high)))
    assert prove("", table, metric).holds
    assert not prove("", table, metric.between_points()).holds
    assert worst(table, F(0), F(1, 100)) > 1 + F(1, 100)
    with pytest.raises(AssertionError):
        check_between(metric, table)


def test_uniform_metric_holds_for_all_mixtures():
    table = tight_table(4, lambda t: prove("", t, Uniform(4, F(1, 2))).holds)
    fine = [F(k, 4) for k in range(13)]
    assert all(at_most_exp(worst(table, x, o), F(1, 2)) for x, o in combinations(fine, 2))


def test_neighbours_of_a_linear_limit_are_always_examined():
    """The limit 1 + epsilon is below e^epsilon, so that no bound of all pairs covers it."""
    metric = Line(2, F(1, 2)).between_points()
    assert next(metric.groups()).limit == Limit(F(1, 2), linear=True)
    keep = int(W * 0.62)
    assert prove("", RandomizedResponse(2, keep), Line(2, F(1, 2))).holds
    assert not prove("", RandomizedResponse(2, keep), metric).holds
    assert next(strictest(metric.groups()).pairs(True)) == (0, 1)
    capped = Line(4, F(1, 2), F(1), F(1, 2)).between_points()
    assert not prove("", RandomizedResponse(4, W * 35 // 100), capped).holds


# Which pairs are examined ------------------------------------------------------------------------


def test_one_pair_for_each_difference_of_the_same_cells():
    rng = random.Random(3)
    torus, ring = additive(rng, (3, 4)), additive(rng, (12,))
    grid = Grid((3, 4), F(1), ((1, 0), (0, 1), (1, 1)), (1, 1, 1))
    threshold = Threshold(12, (W // 3,) * 11)
    assert generating_pairs(grid, every=False) == [(0, 4), (0, 1), (0, 5), (1, 4)]
    assert by_difference(torus, grid)
    assert by_difference(threshold, grid)
    for metric in (Line(12, F(1)), Uniform(12, F(1)), Grid((4, 3), F(1), ((1, 0), (0, 1)), (1, 1))):
        assert not by_difference(torus, metric)
        assert by_difference(ring, metric)
    assert generating_pairs(Uniform(12, F(1)), every=False) == [(0, x) for x in range(1, 12)]
