"""Output distributions: draws, probabilities and likelihood ratios agree, by enumeration."""

import random
from fractions import Fraction
from itertools import combinations, product

import pytest
from core_cases import (
    W,
    additive,
    examples,
    geometric,
    largest_quotient,
    noise,
    outcomes,
    probabilities,
)

from metricldp_core.distributions import (
    Geometric,
    LazyGeometric,
    Matrix,
    Memoised,
    OneInteger,
    RandomizedResponse,
    Row,
    Table,
    Threshold,
    Unary,
)
from metricldp_core.exact import CERTAIN
from metricldp_core.levels import Additive, Extremal
from metricldp_core.random_words import Words

EXAMPLES = list(examples())
KINDS = [
    *(RandomizedResponse, Threshold, Unary, Geometric, LazyGeometric, Matrix, Memoised, Table),
    *(Additive, Extremal),
]
CLOSE = 1 + Fraction(1, 1 << 40)


def breakpoints(distribution):
    """Where the report of a table can change, as a function of its word."""
    if isinstance(distribution, Memoised):
        return breakpoints(distribution.first)
    if not isinstance(distribution, Table):
        return ()
    return [sum(row[:k]) for row in distribution.weights for k in range(len(row))]


def of_kind(kind):
    return [d for d in EXAMPLES if type(d) is kind]


def check_draws(distribution):
    for x in range(distribution.size):
        drawn = outcomes(lambda words, x=x: distribution.draw(x, words), breakpoints(distribution))
        stated = probabilities(distribution, x)
        assert sum(drawn.values()) == sum(stated.values()) == 1
        assert drawn == {y: p for y, p in stated.items() if p}
        assert all(distribution.is_possible(y) and not y >> distribution.bits for y in drawn)


def check_ratios(distribution):
    """Ratios are never below the exact maximum, and not above it where they are not bounds."""
    known = [probabilities(distribution, x) for x in range(distribution.size)]
    for x, other in product(range(distribution.size), repeat=2):
        ratio, exact = distribution.ratio(x, other), largest_quotient(known[x], known[other])
        assert ratio == distribution.ratio(other, x) <= distribution.largest_ratio()
        if exact is None:
            assert ratio == CERTAIN
        else:
            assert exact <= ratio
        if isinstance(distribution, Memoised):
            known_first = [probabilities(distribution.first, z) for z in (x, other)]
            assert ratio >= (largest_quotient(*known_first) or CERTAIN)
        elif not isinstance(distribution, Geometric | LazyGeometric | Matrix) and exact is not None:
            assert ratio <= exact * CLOSE


def check_invariance(distribution):
    """Pairs that are examined once have one ratio."""
    by_difference, by_steps = {}, {}
    for x, other in combinations(range(distribution.size), 2):
        apart = tuple(
            a - b for a, b in zip(cell(distribution, other), cell(distribution, x), strict=True)
        )
        key = {"none": (x, other), "difference": apart, "all": ()}[distribution.invariance]
        assert by_difference.setdefault(key, distribution.ratio(x, other)) == distribution.ratio(
            x, other
        )
        by_steps[other - x] = distribution.ratio(x, other)
    if distribution.rises and distribution.invariance == "difference":
        ratios = [by_steps[d] for d in sorted(by_steps)]
        assert ratios == sorted(ratios)


def cell(distribution, position):
    cell = []
    for size in reversed(distribution.grid):
        position, x = divmod(position, size)
        cell.append(x)
    return cell[::-1]


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_stated_probabilities(kind):
    for distribution in of_kind(kind):
        check_draws(distribution)


@pytest.mark.parametrize("kind", KINDS)
def test_ratios_are_the_exact_maximum_or_above_it(kind):
    for distribution in of_kind(kind):
        check_ratios(distribution)


@pytest.mark.parametrize("kind", KINDS)
def test_equivalent_pairs_have_equal_ratios(kind):
    for distribution in of_kind(kind):
        check_invariance(distribution)


def check_geometric_step(distribution):
    """Without clipping: the ratio of one step is attained by the noise."""
    last = 4 << len(distribution.digits)
    neighbours = [(noise(distribution, k), noise(distribution, k + 1)) for k in range(-last, last)]
    exact = max(max(p / q, q / p) for p, q in neighbours)
    assert exact <= distribution.ratio(0, 1) <= exact * CLOSE
    assert exact <= distribution.step <= exact * CLOSE


def test_geometric_ratio_of_a_step_is_attained_by_noise_that_is_not_clipped():
    rng = random.Random(5)
    for digits in (0, 1, 2, 3, 4):
        for _ in range(8):
            check_geometric_step(geometric(rng, 1 << 12, digits=digits))


def test_matrix_ratio_is_attained_by_noise_that_is_not_clipped():
    """Rows of one step: the worst reports of all rows make one report."""
    rng = random.Random(6)
    for _ in range(5):
        rows = [geometric(rng, 1 << 12, digits=2) for _ in range(3)]
        entries = [(0, 1), (1, 0), (0, 0)]
        matrix = Matrix(2, tuple(Row(e, 0, noise) for e, noise in zip(entries, rows, strict=True)))
        exact = rows[0].step * rows[1].step
        assert exact <= matrix.ratio(0, 1) <= exact * CLOSE


@pytest.mark.parametrize("distribution", EXAMPLES, ids=lambda d: d.kind)
def test_the_number_of_words_does_not_depend_on_the_position(distribution):
    """On equal words; rejection can repeat a draw, for all positions alike."""
    rng = random.Random(7)
    for _ in range(20):
        words = [rng.randrange(W) for _ in range(64)]
        used = set()
        for x in range(distribution.size):
            tape = Words.given(words)
            distribution.draw(x, tape)
            used.add(tape.used)
        assert len(used) == 1


def test_sums_of_levels_may_be_all_words():
    """The largest sum that an additive pattern can have is drawn without rejection."""
    additive_noise = Additive((2,), (2,), ((0, 0),), (W // 2,), W // 2)
    assert additive_noise.draw(0, Words.given([W - 1])) == 1
    assert additive_noise.draw(1, Words.given([W // 2 - 1])) == 1


def test_impossible_reports_are_recognised():
    assert not RandomizedResponse(3, W // 2).is_possible(3)
    assert Threshold(3, (W // 4,) * 2).is_possible(3)
    row_noise = geometric(random.Random(1), 3)
    matrix = Matrix(2, (Row((0, 1), 0, row_noise),) * 2)
    assert [y for y in range(16) if matrix.is_possible(y)] == [0, 1, 2, 4, 5, 6, 8, 9, 10]


def test_examples_cover_every_distribution_and_the_ends_of_probabilities():
    """A negative control of this file: no kind is missing, and some reports tell for certain."""
    assert {type(d) for d in EXAMPLES} == set(KINDS)
    certain = [d for d in EXAMPLES if d.largest_ratio() == CERTAIN]
    assert {type(d) for d in certain} >= {Table, LazyGeometric}
    assert all(isinstance(d, OneInteger | Threshold | Unary | Matrix) for d in EXAMPLES)
    assert len({d.invariance for d in EXAMPLES}) == 3


def test_torus_ratios_depend_on_differences_of_cells_and_not_of_positions():
    """The pair 0 and 1 does not stand for the pair 1 and 2 of a torus of two by two cells."""
    distributions = [additive(random.Random(seed), (2, 2)) for seed in range(20)]
    assert any(d.ratio(0, 1) != d.ratio(1, 2) for d in distributions)
    for distribution in distributions:
        check_invariance(distribution)
        check_ratios(distribution)
