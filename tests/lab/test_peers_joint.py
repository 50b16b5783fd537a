"""Peers for several attributes at once, and prefix sums: proved on tiny domains, then simulated."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from checks import EveryCoin, assert_counts, assert_mean, law_of
from metricldp import (
    Categorical,
    CertificateError,
    Coins,
    Integer,
    Lp,
    Ordinal,
    QueryError,
    Real,
    ReportRefused,
    Survey,
    SurveyError,
    ValueRefused,
    Weight,
)
from metricldp.basics.exact import ONE, at_most_exp
from metricldp.channels import Response, joint
from metricldp.channels.joint import Term
from metricldp.coins.tape import Tape
from metricldp.lab.peers import planar
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hio import HadamardBoxes, Nodes
from metricldp.lab.peers.hio_hashing import HashedBoxes
from metricldp.lab.peers.joint import HashedHio, Hio, PlanarLaplace
from metricldp.lab.peers.planar import Planar
from metricldp.lab.peers.prefix import exact_variance, published_variance
from metricldp.reports import bytes as pack


def line(size, epsilon=1.0, **more):
    return Integer(0, size - 1, epsilon=epsilon, **more)


def plane(first, second, epsilon=1.0, other=None):
    """Two lines, epsilon per step; cells twice as long as wide where `other` says so."""
    attributes = {"x": line(first, epsilon), "y": line(second, other or epsilon)}
    return PlanarLaplace(Survey(attributes, metric=Lp(2)))


def hio(*sizes, epsilon=1.0, **more):
    return Hio(Survey({f"v{d}": line(size) for d, size in enumerate(sizes)}), epsilon, **more)


def hashed(*sizes, epsilon=1.0, **more):
    return HashedHio(Survey({f"v{d}": line(size) for d, size in enumerate(sizes)}), epsilon, **more)


MIXED = Survey(
    {
        "level": Ordinal(["low", "middle", "high"], epsilon=1),
        "colour": Categorical(["red", "green", "blue"], epsilon=1),
    }
)
TINY = {
    "hio-2-2": hio(2, 2, branching=2),
    "hio-5-3": hio(5, 3, branching=2),
    "hio-4-5-consistent": hio(4, 5, epsilon=0.3, branching=3, consistent=True),
    "hio-2-3-2": hio(2, 3, 2, epsilon=2.0, branching=2),
    "hio-mixed": Hio(MIXED, 0.5),
    "hashed-2-2": hashed(2, 2, branching=2),
    "hashed-3-2": hashed(3, 2, epsilon=0.4, branching=3),
    "hashed-5": hashed(5, epsilon=1.5, branching=3),
    "planar-2-2": plane(2, 2),
    "planar-4-3": plane(4, 3, 0.3),
    "planar-3-5-long": plane(3, 5, 2.0, 0.25),
}
each = pytest.mark.parametrize("mechanism", TINY.values(), ids=TINY)


def people_of(channel):
    """Every combination of positions."""
    return itertools.product(*map(range, channel.sizes))


def every(channel):
    """Every report as a dict of integers."""
    columns = channel.every_report()
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, row, strict=True))


def laws_of(channel):
    """P(report | person), exactly, for every person in the order of `people_of`."""
    found = list(every(channel))
    return [[channel.probability(x, report) for report in found] for x in people_of(channel)]


def some_functions(mechanism):
    """Sets of positions of one attribute, of all, and of all as intervals."""
    rng = np.random.default_rng(4)
    sizes = {name: a.size for name, a in mechanism.survey.attributes.items()}
    first, size = next(iter(sizes.items()))
    yield {first: (np.arange(size) == size - 1).astype(float)}
    for _ in range(4):
        found = {name: rng.integers(0, 2, size).astype(float) for name, size in sizes.items()}
        if all(0 < f.sum() < len(f) for f in found.values()):
            yield found
    yield {name: (np.arange(size) < size - 1).astype(float) for name, size in sizes.items()}


def truths(mechanism, functions):
    """The product of the functions for everybody."""
    names = mechanism.survey.attributes
    people = [dict(zip(names, x, strict=True)) for x in people_of(mechanism.channel)]
    return np.array([math.prod(f[x[name]] for name, f in functions.items()) for x in people])


# Proofs by enumeration ---------------------------------------------------------------------------


@each
def test_the_law_is_a_law(mechanism):
    for law in laws_of(mechanism.channel):
        assert sum(law) == 1
        assert min(law) > 0


@each
def test_loss_is_what_the_certificate_says(mechanism):
    certificate = mechanism.certify()
    assert certificate.holds
    assert certificate.fingerprint == mechanism.fingerprint
    (proof,) = certificate.proofs
    channel = mechanism.channel
    laws, people = laws_of(channel), list(people_of(channel))
    assert proof.count == math.comb(len(people), 2)
    worst = Counter()
    for x, other in itertools.combinations(range(len(people)), 2):
        ratios = [p / q for p, q in zip(laws[x], laws[other], strict=True)]
        ratio = max(*ratios, 1 / min(ratios))
        assert ratio == channel.worst_ratio(people[x], people[other])
        assert ratio == channel.worst_ratio(people[other], people[x])
        key = 0
        if isinstance(mechanism, PlanarLaplace):
            key = tuple(b - a for a, b in zip(people[x], people[other], strict=True))
        worst[key] = max(worst[key], ratio)
    assert all(channel.worst_ratio(x, x) == 1 for x in people)
    assert sorted(worst.values()) == sorted(pair.ratio for pair in proof.pairs)
    assert all(at_most_exp(pair.ratio, pair.allowed) for pair in proof.pairs)
    if not isinstance(mechanism, PlanarLaplace) or min(mechanism.channel.sizes) > 2:
        # Hardly anything is given away; but a corner adds up noise that is not straight behind it.
        assert proof.tightest.loss > float(proof.tightest.allowed) * (1 - 2.0**-18)


@each
def test_decoders_are_unbiased_with_their_exact_second_moment(mechanism):
    laws = np.array([[float(p) for p in law] for law in laws_of(mechanism.channel)])
    named = dict(zip(mechanism.fields, mechanism.channel.every_report().values(), strict=True))
    rows = [{n: c[k : k + 1] for n, c in named.items()} for k in range(laws.shape[1])]
    for functions in some_functions(mechanism):
        f = truths(mechanism, functions)
        sums = np.array([mechanism.decoded(functions, row) for row in rows])
        decoded, seconds = sums.T
        np.testing.assert_allclose(laws @ decoded, f, atol=1e-9 * np.abs(decoded).max())
        moment = laws @ decoded**2
        np.testing.assert_allclose(laws @ seconds, moment, rtol=1e-9)
        terms = mechanism.channel.moment(mechanism._rows(functions))
        np.testing.assert_allclose(over_people(mechanism.channel, terms)[0], moment, rtol=1e-9)
        least, most = mechanism.bounds(functions)
        assert least == pytest.approx((moment - f).min(), rel=1e-9, abs=1e-9)
        assert most == pytest.approx((moment - f).max(), rel=1e-9)
        involved = mechanism.involved(functions)
        attributes = mechanism.survey.attributes
        shares = [np.full(attributes[name].size, 1 / attributes[name].size) for name in involved]
        assert mechanism.added(functions, shares) == pytest.approx((moment - f).mean(), rel=1e-9)


def over_people(channel, terms):
    """The sum of terms for everybody, (k, people)."""
    found = []
    for x in people_of(channel):
        parts = [
            math.prod([term.scale, *(f[:, x[d]] for d, f in enumerate(term.factors or ()))])
            for term in terms
        ]
        found.append(np.sum(parts, axis=0))
    return np.array(found).T


@each
def test_any_real_functions_are_decoded_with_their_exact_second_moment(mechanism):
    """Random numbers, numbers with many zeros, with many equal neighbours, and everybody."""
    channel, rng = mechanism.channel, np.random.default_rng(9)
    laws = np.array([[float(p) for p in law] for law in laws_of(channel)])
    functions = [
        np.concatenate(
            [
                rng.normal(size=(3, size)),
                rng.normal(size=(3, size)) * rng.integers(0, 2, (3, size)),
                np.sort(rng.integers(-2, 3, (3, size)), axis=1),
                np.ones((1, size)),
                np.zeros((1, size)),
            ]
        )
        for size in channel.sizes
    ]
    people = list(people_of(channel))
    f = np.array([math.prod(g[:, at] for g, at in zip(functions, x, strict=True)) for x in people])
    decoded = channel.decoded(functions, channel.every_report())
    scale = np.abs(decoded).max(axis=1, keepdims=True)
    assert (np.abs(decoded @ laws.T - f.T) <= 1e-9 * scale).all()
    exact = not isinstance(channel, HashedBoxes)
    far = channel.influence(functions)
    assert (far >= scale[:, 0] * (1 - 1e-12)).all()
    assert (far <= scale[:, 0] * (1 + 1e-9 if exact else 3)).all()
    moment = decoded**2 @ laws.T
    terms = channel.moment(functions)
    np.testing.assert_allclose(over_people(channel, terms), moment, rtol=1e-9, atol=1e-9)
    # One function at a time is the same, and S is decoded by its terms.
    for k in range(len(decoded)):
        alone = channel.decoded([g[k : k + 1] for g in functions], channel.every_report())
        np.testing.assert_allclose(alone[0], decoded[k], rtol=1e-9, atol=1e-9 * scale[k, 0])
    columns = channel.every_report()
    rows = [{n: c[k : k + 1] for n, c in columns.items()} for k in range(laws.shape[1])]
    seconds = np.array([channel.sums(terms, row) for row in rows])
    np.testing.assert_allclose((laws @ seconds).T, moment, rtol=1e-9, atol=1e-7)
    # What follows from the terms: the noise of everybody, its mean and its ends.
    noise = moment - f.T**2
    wanted = {"rtol": 1e-9, "atol": 1e-9 * moment.max()}
    even = [np.full(size, 1 / size) for size in channel.sizes]
    whole = rng.random(channel.sizes)
    whole /= whole.sum()
    least, most = joint.extremes(channel.noise(functions))
    np.testing.assert_allclose(least, noise.min(axis=1), **wanted)
    np.testing.assert_allclose(most, noise.max(axis=1), **wanted)
    mean = joint.means(channel.noise(functions), even)
    np.testing.assert_allclose(mean, noise.mean(axis=1), **wanted)
    mean = joint.means(channel.noise(functions), whole)
    np.testing.assert_allclose(mean, noise @ whole.reshape(-1), **wanted)


def test_extremes_of_too_many_combinations_are_bounds(monkeypatch):
    rng = np.random.default_rng(3)
    terms = [Term(rng.normal(size=4))]
    terms += [
        Term(rng.normal(size=4), tuple(rng.normal(size=(4, size)) for size in (5, 3, 4)))
        for _ in range(3)
    ]
    exact = joint.extremes(terms)
    monkeypatch.setattr(joint, "_MOST_COMBINED", 10)
    rough = joint.extremes(terms)
    assert (rough[0] <= exact[0]).all()
    assert (rough[1] >= exact[1]).all()
    alone = joint.extremes(terms[1:2])
    monkeypatch.undo()
    np.testing.assert_allclose(alone, joint.extremes(terms[1:2]))


def test_all_people_have_the_second_moment_of_the_docstring():
    channel = hio(5, 4, branching=2).channel
    functions = [np.array([[0, 1.0, 1, 1, 0]]), np.array([[1.0, 1, 0, 0]])]
    # Positions 1 to 3 of 0 .. 4 are the leaf 1 and the pair 2, 3; of 0 .. 3 the first two a pair.
    kappa = 1 / math.tanh(0.5)
    (term,) = channel.moment(functions)
    assert term.factors is None
    assert term.scale == pytest.approx(kappa**2 * (4 * 2) * (3 * 1))


@pytest.mark.parametrize(("size", "branching"), [(2, 2), (7, 2), (9, 3), (30, 5), (6, 6)])
def test_weights_add_up_and_least_squares_are_the_least(size, branching):
    tree = Nodes(size, branching)
    assert tree.levels[-1] == 1
    assert tree.sizes[0] == 1
    above = np.concatenate(
        [np.arange(count)[:, None] == np.arange(size) // width
         for count, width in zip(tree.sizes, tree.levels, strict=True)]
    ).astype(float)  # fmt: skip
    rng = np.random.default_rng(2)
    for _ in range(20):
        function = rng.integers(0, 2, size).astype(float)
        fewest = np.concatenate(tree.weights(function))
        np.testing.assert_array_equal(fewest @ above, function)
        best = np.concatenate(tree.weights(function, consistent=True))
        expected = np.linalg.lstsq(above.T, function, rcond=None)[0]
        np.testing.assert_allclose(best, expected, atol=1e-12)
        assert best @ best <= fewest @ fewest + 1e-12


def test_the_published_oracle_enumerated():
    """Optimised local hashing with e^eps = 2, so 3 hash values, over all hash functions."""
    mechanism = hio(2, 2, epsilon=math.log(2), branching=2)
    functions = [np.array([1.0, 0.0]), np.array([1.0, 1.0])]
    keep, chance = 1 / 2, 1 / 3
    weights = dict(zip(("v0", "v1"), mechanism.channel.weights(functions), strict=True))
    for person, inside in (({"v0": 0, "v1": 1}, 1), ({"v0": 1, "v1": 1}, 0)):
        first = second = 0.0
        for levels in itertools.product(range(2), repeat=2):
            boxes = list(itertools.product(*(range(2**level) for level in levels)))
            box = tuple(p >> (1 - lv) for p, lv in zip(person.values(), levels, strict=True))
            pairs = zip(weights.values(), levels, strict=True)
            tables = [per_level[level] for per_level, level in pairs]
            for hashes in itertools.product(range(3), repeat=len(boxes)):
                own = hashes[boxes.index(box)]
                for told in range(3):
                    p = keep if told == own else (1 - keep) / 2
                    decoded = 4 * sum(
                        tables[0][u] * tables[1][v] * ((h == told) - chance) / (keep - chance)
                        for (u, v), h in zip(boxes, hashes, strict=True)
                    )
                    mass = p / 4 / 3 ** len(boxes)
                    first, second = first + mass * decoded, second + mass * decoded**2
        assert first == pytest.approx(inside)
        published = mechanism.published_variance({"v0": 0}, inside=inside)
        assert published == pytest.approx(second - inside)


def test_hadamard_against_the_published_oracle():
    for epsilon, ratio in ((1.0, 1.2716), (0.01, 1.0), (3.0, 5.5338)):
        mechanism = hio(16, 25, epsilon=epsilon)
        where = {"v0": (3, 12), "v1": (5, 9)}
        exact = mechanism.error(where, 100) ** 2
        published = mechanism.published_variance(where, 100)
        assert exact / published == pytest.approx(ratio, rel=1e-4)


def test_hashing_is_the_published_oracle():
    """But for g = e^eps + 1, which is rounded, and hash values that are not quite even."""
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        mechanism = hashed(16, 25, epsilon=epsilon)
        where = {"v0": (3, 12), "v1": (5, 9)}
        exact = mechanism.error(where, 100, "uniform") ** 2
        inside = 10 / 16 * 5 / 25
        assert exact == pytest.approx(mechanism.published_variance(where, 100, inside), rel=0.02)
    assert hio(16, 25).published_variance(where) == hashed(16, 25).published_variance(where)


@pytest.mark.parametrize("branching", [64, 2**63, 10**30, 1e30])
def test_more_branches_than_positions_are_leaves_at_once(branching):
    for make in (hio, hashed):
        mechanism = make(5, 3, branching=branching)
        assert [tree.sizes for tree in mechanism.channel.trees] == [(1, 5), (1, 3)]
        table = mechanism.encode({"v0": [4, 0], "v1": [1, 2]}, coins=Coins.seeded(3))
        assert math.isfinite(mechanism.count(table, {"v0": (1, 4), "v1": 2}).value)


def test_attributes_may_have_the_names_of_columns():
    names = {"sign": line(3), "box": line(2)}
    for make in (Hio, HashedHio):
        mechanism = make(Survey(names), 1.0)
        table = mechanism.encode({"sign": [1, 2], "box": [0, 1]}, coins=Coins.seeded(3))
        assert set(names) < set(table.column_names)
        assert mechanism.count(table).value == 2


# Samplers on every coin --------------------------------------------------------------------------


COARSE = {
    # Two levels each, and a sign of four binary digits: so few coins decide.
    "hio": (HadamardBoxes((2, 3), (3, 3), 11 << 60), EveryCoin(12, word=2)),
    # Two levels, eight polynomials, and a bucket of four binary digits.
    "hio-hashing": (HashedBoxes((2,), (2,), LocalHashing(2, 2, 11 << 60)), EveryCoin(10, word=3)),
    "planar-laplace": (
        Planar(
            (2, 2),
            (Fraction(1), Fraction(1)),
            np.array([[9, 3, 3, 1], [2, 10, 1, 3], [3, 1, 8, 4], [1, 5, 2, 8]], dtype=np.uint64)
            << np.uint64(60),
        ),
        EveryCoin(4, word=4),
    ),
}
each_coarse = pytest.mark.parametrize(("channel", "coins"), COARSE.values(), ids=COARSE)


def sampled(channel, person, coins):
    """The law of `encode`, run on every coin."""
    coins.at = 0
    positions = [np.full(coins.people, position) for position in person]
    columns = channel.encode(positions, coins)
    assert list(columns) == list(channel.fields)
    drawn = Counter(zip(*(c.tolist() for c in columns.values()), strict=True))
    return {report: Fraction(count, coins.people) for report, count in drawn.items()}


def expected_law(channel, person):
    return {tuple(r.values()): channel.probability(person, r) for r in every(channel)}


@each_coarse
def test_encode_on_every_coin(channel, coins):
    for person in people_of(channel):
        assert sampled(channel, person, coins) == expected_law(channel, person)


@each_coarse
def test_blur_on_every_tape(channel, coins):
    for person in people_of(channel):
        assert law_of_blur(channel, person) == expected_law(channel, person)


def law_of_blur(channel, person):
    """The exact law of `blur`, on every tape."""
    law, rest = law_of(lambda tape: tuple(numbers_of(channel, channel.blur(person, tape))))
    assert rest == 0
    return law


def numbers_of(channel, report):
    """The fields of a report, first lowest."""
    for field in channel.fields.values():
        yield report & (1 << field.bits) - 1
        report >>= field.bits
    assert report == 0


@each
def test_blur_has_the_law_of_the_integers(mechanism):
    """Sampled, as bounds that are no power of two are rejected: a false alarm of 1e-9 in all."""
    channel, n = mechanism.channel, 3000
    tape = Tape(Coins.seeded(12))
    person = tuple(size - 1 for size in channel.sizes)
    drawn = Counter(tuple(numbers_of(channel, channel.blur(person, tape))) for _ in range(n))
    law = expected_law(channel, person)
    assert set(drawn) <= set(law)
    assert_counts([drawn[report] for report in law], law.values(), false_alarm=1e-9 / len(TINY))


@dataclass(frozen=True)
class SignBare(HadamardBoxes):
    """The sign is sent as it is."""

    def _bare(self):
        return HadamardBoxes(self.sizes, self.branchings, ONE)

    def encode(self, positions, coins):
        return self._bare().encode(positions, coins)

    def draw(self, positions, tape):
        return self._bare().draw(positions, tape)


class NextBox(HashedBoxes):
    """The leaf beside hers."""

    def encode(self, positions, coins):
        return super().encode([1 - positions[0]], coins)

    def draw(self, positions, tape):
        return super().draw([1 - positions[0]], tape)


class NextCell(Planar):
    """One word of the table too far."""

    def encode(self, positions, coins):
        columns = super().encode(positions, coins)
        return {**columns, 1: 1 - columns[1]}

    def draw(self, positions, tape):
        row, column = super().draw(positions, tape)
        return row, 1 - column


@pytest.mark.parametrize(
    ("name", "cls"), list(zip(COARSE, (SignBare, NextBox, NextCell), strict=True))
)
def test_broken_samplers_are_caught_on_every_coin(name, cls):
    channel, coins = COARSE[name]
    broken = cls(**{f.name: getattr(channel, f.name) for f in fields(channel)})
    person = (1, 0)[: len(broken.sizes)]
    assert sampled(broken, person, coins) != expected_law(broken, person)
    assert law_of_blur(broken, person) != expected_law(broken, person)


class OneTermLess(HashedBoxes):
    """As if her own box and the others were not correlated; five residues in two buckets are."""

    def moment(self, functions):
        return super().moment(functions)[:-1]


class WordsOnce(HadamardBoxes):
    """The index of every attribute is that of the first."""

    def decoded(self, functions, columns):
        first = [functions[0], np.ones_like(functions[1])]
        return super().decoded(first, columns)


def test_broken_decoders_and_moments_are_caught():
    for channel in (
        OneTermLess((5,), (3,), LocalHashing.for_epsilon(5, Fraction(2, 5))),
        WordsOnce.for_epsilon((5, 3), (2, 2), Fraction(1)),
    ):
        broken = hio(5)
        broken.channel = channel
        with pytest.raises(AssertionError):
            test_any_real_functions_are_decoded_with_their_exact_second_moment(broken)


# Planar Laplace noise ----------------------------------------------------------------------------


def test_the_planar_law_is_that_of_the_unbounded_grid():
    mechanism = plane(4, 3, 0.9, 0.6)
    reach = np.arange(-70, 71)
    noise = np.exp(-np.hypot(0.9 * reach[:, None], 0.6 * reach))
    noise /= noise.sum()
    for x, y in itertools.product(range(4), range(3)):
        law = np.zeros((4, 3))
        ends = np.clip(x + reach, 0, 3)[:, None], np.clip(y + reach, 0, 2)[None]
        np.add.at(law, ends, noise)
        found = mechanism.channel.table[x * 3 + y].reshape(4, 3) / float(ONE)
        np.testing.assert_allclose(found, law, rtol=2e-5)


def test_noise_is_as_far_as_published():
    """On a fine grid, from its middle: the mean distance of the report is 2 / epsilon."""
    mechanism = plane(21, 21, 0.8)
    apart = np.hypot(*(np.indices((21, 21)) - 10)).reshape(-1)
    law = mechanism.channel.table[10 * 21 + 10] / float(ONE)
    # On this grid it is 3% less, and at 10 steps, with probability 0.003, it is clipped.
    assert law @ apart == pytest.approx(planar.published_distance(0.8), rel=0.03)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 7.0, 60.0])
def test_planar_laplace_is_certified_for_small_and_large_epsilons(epsilon):
    mechanism = plane(5, 6, epsilon)
    assert mechanism.certify().holds
    assert all(sum(row.tolist()) == ONE for row in mechanism.channel.table)


def proved(mechanism, table):
    """Whether each offset's worst pair of cells is within its distance, had it that table."""
    channel = Planar(mechanism.channel.sizes, mechanism.channel.steps, table)
    return [at_most_exp(r, channel.distance(x, other)) for x, other, r in channel.worst_pairs()]


def test_the_pair_that_is_named_does_not_hang_on_the_last_digit():
    """Two ways along a square are told apart equally well, but for how a machine rounds."""
    honest = plane(4, 4, 0.5)
    channel, named = honest.channel, honest.certify().proofs[0].labels
    rng = np.random.default_rng(8)
    for _ in range(10):
        table = channel.table.copy()
        for row in table:
            off = rng.integers(0, 1 << 8, len(row) // 2).astype(np.uint64)
            row[: len(off)] += off
            row[len(row) - len(off) :] -= off
        honest.channel = Planar(channel.sizes, channel.steps, table)
        assert honest.certify().proofs[0].labels == named


def test_a_law_that_is_a_little_too_sharp_is_not_certified():
    mechanism = plane(4, 4, 0.5)
    table = mechanism.channel.table
    assert all(proved(mechanism, table))
    sharp = planar._integers(planar._law((4, 4), (0.5 * (1 + 2.0**-18),) * 2))
    assert not all(proved(mechanism, sharp))
    changed = table.copy()
    changed[5, 5] += np.uint64(int(changed[5, 5]) >> 18)
    assert not all(proved(mechanism, changed))


def test_a_table_that_rounds_its_tail_is_not_certified():
    mechanism = plane(4, 4, 9.0)
    whole = (planar._law((4, 4), (9.0, 9.0)) * float(ONE)).astype(np.uint64)
    rounded = np.maximum(whole >> np.uint64(44), np.uint64(1)) << np.uint64(44)
    assert not all(proved(mechanism, rounded))


def test_a_broken_law_is_refused_when_it_is_made(monkeypatch):
    law = planar._law
    monkeypatch.setattr(planar, "_law", lambda shape, steps: law(shape, (steps[0] * 1.1, steps[1])))
    with pytest.raises(CertificateError, match="tells 0, 2 from 1, 0 too well"):
        plane(3, 3)


# Simulated ---------------------------------------------------------------------------------------
# Many crowds of the same people are blurred; the mean of their answers must be the truth, and their
# spread the variance of the formula. The limits are those of a normal sum and a chi-square.

CROWDS, CROWD, FALSE_ALARM = 800, 1000, 1e-9


def crowd(attributes, seed):
    rng = np.random.default_rng(seed)
    return {
        name: np.minimum(rng.binomial(a.size - 1, 0.4, CROWD), a.size - 1)
        for name, a in attributes.items()
    }


def simulate(mechanism, where, seed, survey=None):
    """The answers of many crowds, the truth, and the exact variance for these very people."""
    own = mechanism.survey if survey is None else survey
    people = crowd(own.attributes, seed)
    many = {name: np.tile(column, CROWDS) for name, column in people.items()}
    table = mechanism.encode(many, coins=Coins.seeded(seed))
    parts = [table.slice(k * CROWD, CROWD) for k in range(CROWDS)]
    if survey is None:
        answers = [mechanism.count(part, where) for part in parts]
    else:
        answers = [survey.tally(part).count(where) for part in parts]
    inside = np.ones(CROWD, dtype=bool)
    for name, (low, high) in where.items():
        inside &= (people[name] >= low) & (people[name] <= high)
    sizes = [a.size for a in own.attributes.values()]
    joint = np.zeros(sizes)
    np.add.at(joint, tuple(people.values()), 1 / CROWD)
    return answers, int(inside.sum()), joint


def check(answers, true, variance):
    values = np.array([answer.value for answer in answers])
    assert_mean(values, true, variance=variance, false_alarm=FALSE_ALARM)
    spread = ((values - true) ** 2).sum() / variance
    tails = stats.chi2.cdf(spread, CROWDS), stats.chi2.sf(spread, CROWDS)
    assert min(tails) > FALSE_ALARM / 2, f"spread {spread / CROWDS:.3g} times the formula"
    # What each answer says of its own variance is unbiased as well; its mean hardly varies.
    stated = np.array([answer.variance for answer in answers])
    assert stated.mean() == pytest.approx(variance, rel=0.05)


HIO_SETTINGS = [
    (hio(10, 8, epsilon=1.0, branching=4), {"v0": (1, 7), "v1": (0, 3)}),
    (hio(10, 8, epsilon=1.0, branching=4, consistent=True), {"v0": (1, 7), "v1": (0, 3)}),
    (hio(27, epsilon=0.5, branching=3), {"v0": (5, 20)}),
    (hashed(10, 8, epsilon=1.0, branching=4), {"v0": (1, 7), "v1": (0, 3)}),
    (hashed(16, 3, epsilon=3.0, branching=2), {"v0": (3, 12), "v1": (1, 2)}),
]


@pytest.mark.parametrize(("mechanism", "where"), HIO_SETTINGS)
def test_hio_simulated(mechanism, where):
    answers, true, joint = simulate(mechanism, where, seed=31)
    check(answers, true, mechanism.error(where, CROWD, joint) ** 2)


PLANES = [
    (plane(6, 5, 1.0), {"x": (1, 3), "y": (2, 4)}),
    (plane(8, 8, 0.4, 0.8), {"x": (2, 5), "y": (0, 3)}),
]


@pytest.mark.parametrize(("mechanism", "where"), PLANES)
def test_planar_laplace_simulated(mechanism, where):
    answers, true, joint = simulate(mechanism, where, seed=32)
    check(answers, true, mechanism.error(where, CROWD, joint) ** 2)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_prefix_sums_simulated(epsilon):
    survey = Survey({"v": line(12, epsilon, mechanism="prefix")})
    answers, true, joint = simulate(survey, {"v": (3, 7)}, 33, survey)
    variance = survey.predict({"v": (3, 7)}, CROWD, joint) ** 2
    assert variance == pytest.approx(CROWD * exact_variance(epsilon, 2), rel=1e-9)
    check(answers, true, variance)


def off_by(percent):
    """HIO whose sign is kept that much more or less often, and decoded as if it were not."""
    mechanism = hio(10, 8, epsilon=1.0, branching=4)
    channel = mechanism.channel
    channel.__dict__["sign"] = Response(2, channel.keep * (100 + percent) // 100)
    return mechanism


@pytest.mark.parametrize("percent", [-10, 10])
def test_a_sign_ten_percent_off_is_caught(percent):
    honest, where = HIO_SETTINGS[0]
    answers, true, joint = simulate(off_by(percent), where, seed=31)
    with pytest.raises(AssertionError, match="mean"):
        check(answers, true, honest.error(where, CROWD, joint) ** 2)


def test_planar_noise_ten_percent_off_is_caught():
    honest, where = PLANES[0]
    broken = plane(6, 5, 1.0)
    channel = broken.channel
    assert channel._inverse.any()  # decoded as if nothing had happened
    channel.__dict__["table"] = plane(6, 5, 1.1).channel.table
    answers, true, joint = simulate(broken, where, seed=32)
    with pytest.raises(AssertionError, match="mean"):
        check(answers, true, honest.error(where, CROWD, joint) ** 2)


@pytest.mark.parametrize(("mechanism", "where"), [HIO_SETTINGS[0], PLANES[0]])
@pytest.mark.parametrize("factor", [0.6, 1.6])
def test_a_formula_that_is_off_is_caught(mechanism, where, factor):
    answers, true, joint = simulate(mechanism, where, seed=32)
    with pytest.raises(AssertionError, match="spread"):
        check(answers, true, factor * mechanism.error(where, CROWD, joint) ** 2)


# Prefix sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_published_prefix_variance(epsilon):
    survey = Survey({"v": line(9, epsilon, mechanism="prefix")})
    assert survey.certify().holds
    for where, cuts in (({"v": (3, 5)}, 2), ({"v": (0, 5)}, 1)):
        for prior in ("worst", "uniform"):
            exact = survey.predict(where, prior=prior) ** 2
            assert exact == pytest.approx(exact_variance(epsilon, cuts), rel=1e-9)
        ratio = exact / published_variance(epsilon, cuts)
        assert 1 - epsilon**2 / 12 < ratio < 1 - epsilon**2 / 12 + epsilon**4 / 240


def test_prefix_sums_have_a_limit():
    with pytest.raises(SurveyError, match="5,000 positions are too many for prefix sums"):
        Survey({"v": line(5000, mechanism="prefix")})


# The frame ---------------------------------------------------------------------------------------


def test_answers_and_errors_of_the_frame():
    mechanism = hio(10, 8)
    people = {"v0": np.arange(10).repeat(8), "v1": np.tile(np.arange(8), 10)}
    table = mechanism.encode(people, coins=Coins.seeded(5))
    everybody = mechanism.count(table)
    assert (everybody.value, everybody.stderr) == (80, 0)
    assert mechanism.error() == 0
    answer = mechanism.count(table, {"v0": (2, 5)})
    assert answer.question == "v0 2 to 5"
    expected = mechanism.error({"v0": (2, 5)}, 80)
    assert answer.stderr == pytest.approx(expected, rel=0.01)
    population = mechanism.count(table, {"v0": (2, 5)}, about="population")
    assert population.value == answer.value
    halves = [mechanism.count(t, {"v0": (2, 5)}) for t in (table.slice(0, 40), table.slice(40))]
    assert sum(half.value for half in halves) == pytest.approx(answer.value)
    empty = mechanism.count(table.slice(0, 0), {"v0": (2, 5)})
    assert (empty.value, empty.variance) == (0, 0)


@each
def test_reports_to_bytes_and_back(mechanism):
    attributes = mechanism.survey.attributes
    people = {
        name: [a.label(k % a.size) for k in range(30)]
        if isinstance(a, Ordinal | Categorical)
        else np.arange(30) % a.size
        for name, a in attributes.items()
    }
    table = mechanism.encode(people, coins=Coins.seeded(6))
    assert pack.unpack(mechanism, pack.pack(mechanism, table)).equals(table)
    other = hio(2, 2, epsilon=1.5)
    with pytest.raises(ReportRefused, match="another mechanism than this hio") as refused:
        other.count(table, {"v0": 1})
    assert refused.value.reason == "survey"


def test_another_epsilon_is_refused_with_what_to_do():
    table = hio(5, 3, epsilon=1.0).encode({"v0": [1], "v1": [2]}, coins=Coins.seeded(7))
    with pytest.raises(ReportRefused, match=r"the same survey, epsilon and branching$"):
        hio(5, 3, epsilon=2.0).count(table)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"inside": 1.5}, "a share of people from 0 to 1, not 1.5"),
        ({"inside": float("nan")}, "a share of people from 0 to 1, not nan"),
        ({"inside": "half"}, "a share of people from 0 to 1, not 'half'"),
        ({"n": 0}, "at least 1, not n = 0"),
    ],
)
def test_a_published_variance_of_nobody(asked, words):
    with pytest.raises(QueryError, match=words):
        hio(5, 3).published_variance({"v0": 1}, **asked)


def test_impossible_reports_are_refused():
    mechanism = hio(5, 3)
    table = mechanism.encode({"v0": [1], "v1": [2]}, coins=Coins.seeded(7))
    wrong = table.set_column(0, table.schema.field(0), [np.array([200], dtype=np.uint8)])
    with pytest.raises(ReportRefused, match="report 1 has an impossible value for v0"):
        mechanism.count(wrong, {"v0": 1})


def test_values_and_questions_are_refused_as_by_a_survey():
    mechanism = plane(3, 3)
    with pytest.raises(ValueRefused, match="x in row 2"):
        mechanism.encode({"x": [1, 7], "y": [0, 0]})
    assert mechanism.encode({"x": [1, 7], "y": [0, 0]}, clip=True).num_rows == 2
    table = mechanism.encode({"x": [1], "y": [0]})
    with pytest.raises(QueryError, match="no attribute 'z'"):
        mechanism.count(table, {"z": 1})
    with pytest.raises(QueryError, match="the prior says nothing of y"):
        mechanism.error({"x": 1}, 10, {"x": [1, 1, 1]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hio({"a": line(3)}, 1), "stands on a Survey"),
        (lambda: hio(3, epsilon=0), "epsilon must be a positive finite number, not 0"),
        (lambda: hio(3, branching=1), "branching is a whole number of at least 2, not 1"),
        (lambda: hashed(4000, 4000), "16,000,000 positions into 4 buckets needs reports of more"),
        (
            lambda: Hio(Survey({"a": line(3), "w": Weight(0, 1)}), 1),
            "w is weight; a joint mechanism blurs",
        ),
        (lambda: Hio(Survey({"r": Real(0, 1, epsilon=1, points=3)}), 1), "r is real; a joint"),
        (lambda: PlanarLaplace(Survey({"x": line(3)}, metric=Lp(2))), "for two attributes, not 1"),
        (lambda: PlanarLaplace(Survey({"x": line(3), "y": line(3)})), r"say Lp\(2\)"),
        (lambda: PlanarLaplace(MIXED), "colour has no distance along a line"),
        (lambda: plane(33, 32), "33 x 32 cells are too many"),
        (lambda: plane(3, 3, 0.001), "x has epsilon 0.001 per step, too small"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(SurveyError, match=message):
        make()


def test_peers_has_nothing_else():
    from metricldp.lab import peers

    with pytest.raises(AttributeError, match="peers has no 'Unheard'"):
        peers.Unheard  # noqa: B018
