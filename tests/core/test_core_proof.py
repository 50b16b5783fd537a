"""Proofs agree with a check of all pairs and reports, and reject whatever exceeds a limit."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from core_cases import (
    W,
    additive,
    examples,
    field,
    geometric,
    integer,
    largest_quotient,
    manifest,
    noise,
    probabilities,
)

from metricldp.channels.plain_data import plain_data
from metricldp_core import InvalidManifestError, Manifest, certify
from metricldp_core.distributions import (
    Geometric,
    LazyGeometric,
    Matrix,
    Memoised,
    RandomizedResponse,
    Row,
    Table,
    Threshold,
    Unary,
)
from metricldp_core.exact import (
    CERTAIN,
    at_most_exp,
    exp_bounds,
    log_bounds,
    log_of,
    product,
    upper,
)
from metricldp_core.levels import Additive, Extremal
from metricldp_core.metrics import Graph, Grid, Limit, Line, Uniform
from metricldp_core.verify import prove, steps

F = Fraction
BOUNDS = Geometric | Matrix | Memoised
"""Their ratios can be above the maximum: ends are clipped, or the second stage adds noise."""


def metrics(size, epsilon):
    """Metrics on so many positions whose distances are multiples of epsilon."""
    yield Uniform(size, epsilon)
    yield Line(size, epsilon)
    yield Line(size, epsilon, F(3, 2))
    yield Line(size, epsilon, F(1), epsilon * 3 / 2)
    yield Line(size, epsilon, F(1), None, True)
    pairs = [(x, x + 1) for x in range(size - 1)] + [(0, size - 1)] * (size > 2)
    yield Graph(size, epsilon, tuple(pairs), tuple(1 + x % 2 for x, _ in pairs))
    if size == 4:
        yield Grid((2, 2), epsilon, ((0, 1), (1, 0)), (1, 2))


def holds(distribution, metric):
    """Whether all pairs and all reports hold, compared one by one."""
    known = [probabilities(distribution, x) for x in range(distribution.size)]
    for x, other in combinations(range(distribution.size), 2):
        ratio = largest_quotient(known[x], known[other])
        if ratio is None or not at_most_exp(ratio, metric.distance(x, other)):
            return False
    return True


def smallest_epsilon(distribution, metric):
    """The epsilon at which a metric of unit epsilon just holds, in multiples of 2^-128."""
    known = [probabilities(distribution, x) for x in range(distribution.size)]
    least = F(1, 1 << 128)
    for x, other in combinations(range(distribution.size), 2):
        ratio = largest_quotient(known[x], known[other])
        least = max(least, log_bounds(ratio)[1] / metric.distance(x, other))
    return least


def private_examples():
    """Distributions with finite ratios, which a field can have."""
    for distribution in [*examples(2), *examples(3)]:
        if distribution.largest_ratio() < CERTAIN and not isinstance(distribution, LazyGeometric):
            yield distribution


def check_proofs(distribution):
    """At the smallest epsilon a proof holds, just below it fails, as a check of all pairs does."""
    for unit in metrics(distribution.size, F(1)):
        least = smallest_epsilon(distribution, unit)
        for epsilon in (least, least * (1 - F(1, 10**9)), least * 2, least / 3):
            *_, metric = (m for m in metrics(distribution.size, epsilon) if same_kind(m, unit))
            proved = prove("", distribution, metric).holds
            if isinstance(distribution, BOUNDS):
                assert not proved or holds(distribution, metric)
            else:
                assert proved == holds(distribution, metric), (distribution, metric)


def same_kind(metric, unit):
    return replace_epsilon(metric) == replace_epsilon(unit)


def replace_epsilon(metric):
    """The metric in units of its epsilon."""
    if isinstance(metric, Graph | Grid):
        return replace(metric, step=F(1))
    cap = getattr(metric, "cap", None)
    more = {} if cap is None else {"cap": cap / metric.epsilon}
    return replace(metric, epsilon=F(1), **more)


def test_proofs_agree_with_all_pairs_and_reports():
    checked = set()
    for distribution in private_examples():
        check_proofs(distribution)
        checked.add(type(distribution))
    assert checked == {
        *(RandomizedResponse, Threshold, Unary, Geometric, Matrix, Memoised, Table),
        *(Additive, Extremal),
    }


def test_bounds_are_tight_for_noise_that_is_not_clipped():
    """Proofs of geometric noise hold down to the epsilon of a step of the noise."""
    rng = random.Random(4)
    for _ in range(10):
        distribution = geometric(rng, 5)
        least = log_bounds(distribution.step)[1]
        assert prove("", distribution, Line(5, least)).holds
        assert not prove("", distribution, Line(5, least * (1 - F(1, 10**9)))).holds


# One unit ----------------------------------------------------------------------------------------


def changed(distribution):
    """The same with one stored probability changed by one unit, in all ways."""
    for name in ("keep", "zero", "block"):
        if isinstance(value := getattr(distribution, name, None), int):
            yield from (replace(distribution, **{name: value + d}) for d in (-1, 1))
    for name in ("flips", "own", "other", "digits"):
        values = getattr(distribution, name, ())
        for k, value in enumerate(values):
            for d in (-1, 1):
                yield replace(distribution, **{name: (*values[:k], value + d, *values[k + 1 :])})
    if isinstance(distribution, Table):
        for x, row in enumerate(distribution.weights):
            for y in range(len(row)):
                moved = list(row)
                moved[y] += 1
                moved[y - 1] -= 1
                rows = [*distribution.weights[:x], tuple(moved), *distribution.weights[x + 1 :]]
                yield Table(tuple(rows))


TIGHT = [
    RandomizedResponse(3, W // 2 + 12345),
    RandomizedResponse(3, W // 5),
    Threshold(3, (W // 3, W // 3 - 99)),
    Threshold(3, (W // 3 * 2, W // 3)),
    Unary(3, (W // 2, W // 2, W // 2 + 5), (W // 4, W // 4 + 3, W // 4)),
    Geometric(3, W // 3, (W // 3, W // 4), W // 5),
    Geometric(3, W // 9, (), W // 3),
    Table(((W // 2, W // 4, W // 4), (W // 4, W // 2, W // 4), (W // 4 + 7, W // 4 - 7, W // 2))),
]


def worst_step(distribution):
    """The largest ratio of neighbouring values of noise, by enumeration."""
    last = 4 << len(distribution.digits)
    values = [noise(distribution, k) for k in range(-last, last + 1)]
    return max(max(a / b, b / a) for a, b in pairwise(values))


def check_units(distribution):
    """Every change by one unit that raises the largest ratio breaks the guarantee; others do not.

    Epsilon is the loss of the worst pair, rounded up to a multiple of 2^-128, and one unit changes
    a loss by more than 2^-70.
    """
    if isinstance(distribution, Geometric):
        unit = Line(distribution.size, F(1))
        least = log_bounds(worst_step(distribution))[1]
    else:
        unit = Uniform(distribution.size, F(1))
        least = smallest_epsilon(distribution, unit)
    metric = replace(unit, epsilon=least)
    assert prove("", distribution, metric).holds
    broken = 0
    for other in changed(distribution):
        if isinstance(distribution, Geometric):
            allowed = at_most_exp(worst_step(other), least)
        else:
            allowed = holds(other, metric)
        assert prove("", other, metric).holds == allowed, other
        broken += not allowed
    return broken


@pytest.mark.parametrize("distribution", TIGHT, ids=lambda d: d.kind)
def test_one_unit_beyond_a_tight_pair_is_rejected(distribution):
    assert check_units(distribution) > 0


def test_one_unit_of_a_level_beyond_a_tight_pair_is_rejected():
    """The fall of extremal and additive levels is the ratio of neighbouring depths."""
    for fall in (W // 2, W // 3 * 2, W - 12345):
        extremal = Extremal.of(((0, 1, 2), (2, 1, 0)), (W // 5, W // 5), fall)
        least = smallest_epsilon(extremal, Line(3, F(1)))
        assert prove("", extremal, Line(3, least)).holds
        steeper = Extremal.of(extremal.depths, extremal.tops, fall - 1)
        assert prove("", steeper, Line(3, least)).holds == holds(steeper, Line(3, least))
        noise_on_ring = Additive((3,), (5,), ((0, 1, 2, 2, 1),), (1 << 60,), fall)
        least = smallest_epsilon(noise_on_ring, Line(3, F(1)))
        assert prove("", noise_on_ring, Line(3, least)).holds
        steeper = replace(noise_on_ring, fall=fall - (1 << 20))
        assert not prove("", steeper, Line(3, least)).holds


# Manifests ---------------------------------------------------------------------------------------


def test_certificates_of_manifests_agree_with_all_pairs_and_reports():
    """From the text of a manifest, with metrics that fit one attribute or several."""
    count = 0
    for distribution in private_examples():
        for metric in metrics(distribution.size, F(2, 3)):
            size, joint = distribution.size, isinstance(metric, Grid)
            domain = [integer("x"), integer("y")] if joint else [integer(high=size - 1)]
            if getattr(metric, "ring", False):
                domain = [integer(high=size - 1, cyclic=True)]
            try:
                text = manifest(field(domain, plain_data(metric), distribution))
                parsed = Manifest.parse(text)
            except InvalidManifestError as error:
                # Probabilities of a table can be 2^64, which has no 16 digits.
                assert "hexadecimal" in str(error) or "block" in str(error)
                continue
            certificate = certify(parsed)
            assert parsed.fields[0].metric == metric
            if certificate.holds:
                assert holds(distribution, metric)
            elif not isinstance(distribution, BOUNDS):
                assert not holds(distribution, metric)
            count += 1
    assert count > 100


def test_torus_with_the_metric_of_a_line_is_not_certified_by_its_first_row():
    """The pair 3 and 4 of three rows of four cells is not in one row, unlike 0 and 1."""
    shape = tuple((0, 1, 2, 3, 2, 1)[place % 6] for place in range(30))
    torus = Additive((3, 4), (5, 6), (shape,), (W // 64,), W // 2)
    assert torus.ratio(0, 1) == 2
    assert torus.ratio(3, 4) == 8
    text = manifest(field(integer(high=11), {"kind": "line", "epsilon": "7/10"}, torus))
    assert not certify(Manifest.parse(text)).holds
    grid = {"kind": "grid", "step": "7/10", "sizes": [3, 4], "steps": [[0, 1, 1], [1, 0, 3]]}
    joint = [integer("x", high=2), integer("y", high=3)]
    assert certify(Manifest.parse(manifest(field(joint, grid, torus)))).holds


def check_stochastic():
    """Points must keep less than the metric if values are rounded to them at random."""
    epsilon = log_bounds(F(3))[1]
    points = {"name": "x", "kind": "continuous", "low": 0, "high": 2, "points": 3}
    line = {"kind": "line", "epsilon": str(epsilon)}
    allowed = Threshold(3, (int(W / (2 + epsilon)) + 1,) * 2)
    for flips, rounded, whole in ((W // 4 + 1, False, True), (allowed.flips[0], True, True)):
        bits = Threshold(3, (flips,) * 2)
        holds_for = [
            certify(Manifest.parse(manifest(field(domain, line, bits)))).holds
            for domain in (points, integer(high=2))
        ]
        assert holds_for == [rounded, whole]
    wide = {**line, "width": "3/2"}
    narrow = Threshold(3, (int(W * 0.3661),) * 2)
    texts = [manifest(field(domain, wide, narrow)) for domain in (points, integer(high=2))]
    assert [certify(Manifest.parse(text)).holds for text in texts] == [True, True]
    text = manifest(field({**points, "points": 4}, wide, Threshold(4, (int(W * 0.3661),) * 3)))
    assert not certify(Manifest.parse(text)).holds


def test_points_of_values_that_are_rounded_at_random_keep_less():
    check_stochastic()


def test_certainty_is_not_allowed_by_any_distance():
    disjoint = Table(((W // 2, W - W // 2, 0), (0, W // 2, W - W // 2)))
    assert disjoint.ratio(0, 1) == CERTAIN
    for epsilon in ("3000", str(1 << 40)):
        text = manifest(field(integer(), {"kind": "uniform", "epsilon": epsilon}, disjoint))
        assert not certify(Manifest.parse(text)).holds
    assert not Limit(F(1 << 3000), linear=True).allows(CERTAIN)


def test_a_proof_lists_the_tightest_pair_and_all_fields():
    parts = field(
        integer("a", high=2), {"kind": "line", "epsilon": "1"}, Threshold(3, (W // 3, W * 3 // 10))
    )
    other = field(integer("b", high=2), {"kind": "uniform", "epsilon": "1/100"}, TIGHT[0])
    public = {"attributes": [{"name": "w", "kind": "weight", "low": 0, "high": 1}]}
    certificate = certify(Manifest.parse(manifest(parts, other, public)))
    assert [proof.holds for proof in certificate.proofs] == [True, False]
    assert not certificate.holds
    first = certificate.proofs[0].tightest
    assert (first.x, first.other) == (1, 2)
    assert first.room == min(pair.room for pair in certificate.proofs[0].pairs)
    assert certificate.public == ("w",)
    assert (
        str(certificate)
        .splitlines()[1]
        .startswith("b: randomized-response, pairs examined: 1, exact ")
    )
    assert str(certificate).splitlines()[1].endswith("BROKEN")
    assert str(certificate).splitlines()[2] == "w: sent without protection"


def test_pairs_at_the_largest_limit_are_covered_by_the_bound_of_all():
    rng = random.Random(8)
    firsts = [rng.randrange(W // 4, W // 2) for _ in range(40)]
    distribution = Table(tuple((first, W - first) for first in firsts))
    epsilon = log_bounds(distribution.largest_ratio())[1]
    proof = prove("", distribution, Uniform(40, epsilon))
    assert proof.holds
    assert len(proof.pairs) == 1
    assert steps(distribution, Uniform(40, epsilon)) < steps(distribution, Uniform(40, epsilon / 2))


def test_proofs_beyond_the_number_of_steps_are_rejected():
    rng = random.Random(9)
    rows = tuple(
        Row(tuple(rng.randrange(99) for _ in range(9)), 0, geometric(rng, 99)) for _ in "ab"
    )
    text = manifest(field(integer(high=8), {"kind": "uniform", "epsilon": "1"}, Matrix(9, rows)))
    parsed = Manifest.parse(text)
    certify(parsed)
    with pytest.raises(InvalidManifestError, match="more than 8,388,608 steps; use fewer values"):
        certify(parsed, most_steps=1000)


def test_additive_noise_is_examined_by_differences_of_places():
    rng = random.Random(10)
    for _ in range(10):
        noise_on_ring = additive(rng, (5,))
        metric = Line(5, smallest_epsilon(noise_on_ring, Line(5, F(1))))
        assert prove("", noise_on_ring, metric).holds == holds(noise_on_ring, metric)


# Exact arithmetic --------------------------------------------------------------------------------


def test_enclosures_of_powers_of_e_contain_them():
    """Against a series in fractions, with a bound of the rest."""
    for exponent in (F(1, 10**30), F(1, 3), F(1), F(7, 2), F(13), F(40), F(10**400 + 1, 10**399)):
        term = total = F(1)
        for k in range(1, 400):
            term = term * exponent / k
            term = F(term.numerator * (1 << 900) // term.denominator, 1 << 900)
            total += term
        lower, upper_bound = exp_bounds(exponent)
        assert lower <= total + F(1, 1 << 800)
        assert total <= upper_bound
        assert upper_bound / lower < 1 + F(1, 1 << 250)
        assert exp_bounds(-exponent) == (1 / upper_bound, 1 / lower)


def test_comparisons_with_powers_of_e_decide_next_to_them():
    for exponent in (F(1, 10**20), F(1, 2), F(1), F(20), F(700), -F(3, 2)):
        lower, upper_bound = exp_bounds(exponent, 1024)
        assert at_most_exp(lower, exponent)
        assert not at_most_exp(upper_bound, exponent)
        inside = (lower + upper_bound) / 2
        assert at_most_exp(inside * (1 - F(1, 1 << 900)), exponent)
        assert not at_most_exp(inside * (1 + F(1, 1 << 900)), exponent)
    assert at_most_exp(F(1), F(0))
    assert not at_most_exp(F(10**9 + 1, 10**9), F(0))
    assert at_most_exp(F(10**300), F(10**1999))
    assert at_most_exp(F(1, 10**300), F(1, 10**1999))


def test_logarithms_are_enclosed_by_neighbouring_multiples():
    for value in (F(1), F(2), F(3, 2), F(10**40), F(W, W - 1), F(10**300, 7)):
        lower, upper_bound = log_bounds(value)
        assert upper_bound - lower == F(1, 1 << 128)
        assert at_most_exp(value, upper_bound)
        assert not at_most_exp(value, lower)
        assert float(lower) == pytest.approx(log_of(value), abs=1e-30, rel=1e-14)


def test_products_are_rounded_up_and_saturate():
    ratios = [F(10**9 + 1, 10**9), F(5, 3), F(W, W - 1)]
    exact = ratios[0] * ratios[1] * ratios[2]
    assert exact <= product(map(upper, ratios)) <= exact * (1 + F(1, 1 << 240))
    assert product([]) == 1
    assert product([upper(1 + F(1, 1 << 200))] * 2) > (1 + F(1, 1 << 200)) ** 2
    assert product([upper(F(2))] * 2047) == 1 << 2047
    assert product([upper(F(2))] * 2048) == product([upper(F(2))] * 5000) == CERTAIN
    assert Geometric(2, 1, (), W // 2).ratio(0, 10**9) == CERTAIN
