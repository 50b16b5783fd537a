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
    Integer,
    InvalidSpecError,
    Lp,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
)
from metricldp.answers.queries import parse
from metricldp.lab.peers import planar
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hio import HadamardBoxes, Nodes, products
from metricldp.lab.peers.hio_hashing import HashedBoxes
from metricldp.lab.peers.joint import HashedHio, Hio
from metricldp.lab.peers.planar import Planar
from metricldp.mechanisms import RandomizedResponseChannel, joint
from metricldp.mechanisms.joint import Term
from metricldp_core.distributions import RandomizedResponse
from metricldp_core.exact import WORD, at_most_exp
from metricldp_core.random_words import Words


def exact_variance(epsilon, cuts):
    """Of prefix sums, for one person and a range with so many ends inside the domain."""
    return cuts / (2 * math.sinh(epsilon / 2) ** 2)


def line(size, epsilon=1.0, **more):
    return Integer(0, size - 1, epsilon=epsilon, per=1, **more)


def together(attributes, mechanism, **more):
    return Survey.design(SurveySpec(attributes, joint={tuple(attributes): mechanism}, **more))


def plane(first, second, epsilon=1.0, other=None):
    """Two lines, epsilon per step; cells twice as long as wide where `other` says so."""
    attributes = {"x": line(first, epsilon), "y": line(second, other or epsilon)}
    return together(attributes, "planar-laplace", metric=Lp(2))


def lines(sizes, epsilon):
    return {f"v{d}": line(size, epsilon) for d, size in enumerate(sizes)}


def hio(*sizes, epsilon=1.0, **more):
    return together(lines(sizes, epsilon), Hio(**more))


def hashed(*sizes, epsilon=1.0, **more):
    return together(lines(sizes, epsilon), HashedHio(**more))


def channel_of(survey):
    (block,) = survey.blocks.values()
    return block.channel


def mixed(epsilon):
    return {
        "level": Ordinal(["low", "middle", "high"], epsilon=epsilon),
        "colour": Categorical(["red", "green", "blue"], epsilon=epsilon),
    }


TINY = {
    "hio-2-2": hio(2, 2, branching=2),
    "hio-5-3": hio(5, 3, branching=2),
    "hio-4-5-consistent": hio(4, 5, epsilon=0.3, branching=3, consistent=True),
    "hio-2-3-2": hio(2, 3, 2, epsilon=2.0, branching=2),
    "hio-mixed": together(mixed(0.5), Hio()),
    "hashed-2-2": hashed(2, 2, branching=2),
    "hashed-3-2": hashed(3, 2, epsilon=0.4, branching=3),
    "planar-2-2": plane(2, 2),
    "planar-4-3": plane(4, 3, 0.3),
    "planar-3-5-long": plane(3, 5, 2.0, 0.25),
}
CHANNELS = {
    **{name: channel_of(survey) for name, survey in TINY.items()},
    # No survey has a block of one attribute; the formulas hold for it.
    "hashed-5": HashedBoxes.for_epsilon((5,), (3,), Fraction(3, 2)),
    "hio-7": HadamardBoxes.for_epsilon((7,), (3,), Fraction(1, 2)),
}
each = pytest.mark.parametrize("survey", TINY.values(), ids=TINY)
each_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)


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


# Proofs by enumeration ---------------------------------------------------------------------------


@each_channel
def test_the_law_is_a_law(channel):
    for law in laws_of(channel):
        assert sum(law) == 1
        assert min(law) > 0


@each_channel
def test_loss_is_that_of_all_reports(channel):
    """For every two people; and those who stand for all others are told apart best."""
    laws, people = laws_of(channel), list(people_of(channel))
    planar = isinstance(channel, Planar)
    worst = Counter()
    for x, other in itertools.combinations(range(len(people)), 2):
        ratios = [p / q for p, q in zip(laws[x], laws[other], strict=True)]
        ratio = max(*ratios, 1 / min(ratios))
        assert ratio == channel.distribution.ratio(x, other) == channel.distribution.ratio(other, x)
        apart = tuple(b - a for a, b in zip(people[x], people[other], strict=True))
        key = apart if planar else 0
        worst[key] = max(worst[key], ratio)
    assert all(channel.distribution.ratio(x, x) == 1 for x in range(len(people)))
    told = (
        [ratio for *_, ratio in channel.worst_pairs()]
        if planar
        else [channel.distribution.largest_ratio()]
    )
    assert sorted(worst.values()) == sorted(told)


@each
def test_the_certificate_is_about_every_two_people(survey):
    certificate = survey.certify()
    assert certificate.holds
    assert certificate.fingerprint == survey.fingerprint
    (proof,) = certificate.proofs
    channel = channel_of(survey)
    assert proof.count == math.comb(math.prod(channel.sizes), 2)
    assert all(pair.limit.allows(pair.ratio) for pair in proof.core.pairs)
    metrics = [attribute.distances for attribute in survey.attributes.values()]
    for pair in proof.core.pairs:
        cells = (np.unravel_index(cell, channel.sizes) for cell in (pair.x, pair.other))
        ends = zip(metrics, *([int(x) for x in cell] for cell in cells), strict=True)
        apart = [metric.distance(x, other) for metric, x, other in ends]
        assert pair.limit.allowed <= float(survey.metric.join(apart)) * (1 + 1e-15)
    if not isinstance(channel, Planar) or min(channel.sizes) > 2:
        # Hardly anything is given away; but a corner adds up noise that is not straight behind it.
        assert proof.tightest.loss > proof.tightest.limit.allowed * (1 - 2.0**-18)


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


@each_channel
def test_any_real_functions_are_decoded_with_their_exact_second_moment(channel):
    """Random numbers, with many zeros, with many equal neighbours, sets, constants, everybody."""
    rng = np.random.default_rng(9)
    laws = np.array([[float(p) for p in law] for law in laws_of(channel)])
    functions = [
        np.concatenate(
            [
                rng.normal(size=(3, size)),
                rng.normal(size=(3, size)) * rng.integers(0, 2, (3, size)),
                np.sort(rng.integers(-2, 3, (3, size)), axis=1),
                rng.integers(0, 2, (3, size)),
                np.full((1, size), -1.5),
                np.ones((1, size)),
                np.zeros((1, size)),
            ]
        )
        for size in channel.sizes
    ]
    # One attribute alone, the others left whole.
    functions = [
        np.concatenate([f, f[:3] if d == 0 else np.ones((3, f.shape[1]))])
        for d, f in enumerate(functions)
    ]
    people = list(people_of(channel))
    f = np.array([math.prod(g[:, at] for g, at in zip(functions, x, strict=True)) for x in people])
    columns = channel.every_report()
    decoded = channel.decoded(functions, columns)
    scale = np.abs(decoded).max(axis=1, keepdims=True)
    assert (np.abs(decoded @ laws.T - f.T) <= 1e-9 * scale).all()
    exact = not isinstance(channel, HashedBoxes)
    far = channel.influence(functions)
    assert (far >= scale[:, 0] * (1 - 1e-12)).all()
    assert (far <= scale[:, 0] * (1 + 1e-9 if exact else 3)).all()
    moment = decoded**2 @ laws.T
    terms = channel.second_moment(functions)
    np.testing.assert_allclose(over_people(channel, terms), moment, rtol=1e-9, atol=1e-9)
    # One function at a time is the same.
    for k in range(len(decoded)):
        alone = channel.decoded([g[k : k + 1] for g in functions], columns)
        np.testing.assert_allclose(alone[0], decoded[k], rtol=1e-9, atol=1e-9 * scale[k, 0])
    # What is the same for everybody is known.
    whole = slice(12, 15)
    np.testing.assert_allclose(decoded[whole], np.repeat(f.T[whole, :1], decoded.shape[1], axis=1))
    np.testing.assert_allclose(over_people(channel, terms)[whole], f.T[whole] ** 2)
    # Two different functions, as the covariance in a mean needs them.
    others = [g[::-1].copy() for g in functions]
    both = (decoded * channel.decoded(others, columns)) @ laws.T
    found = over_people(channel, channel.second_moment(functions, others))
    np.testing.assert_allclose(found, both, rtol=1e-9, atol=1e-9 * np.abs(both).max())
    # S is decoded by its terms.
    seconds = channel.valued(terms, columns) @ laws.T
    np.testing.assert_allclose(seconds, moment, rtol=1e-9, atol=1e-9 * moment.max())
    # Kinds of people are all people, each kind at least once.
    square = [Term(np.ones(len(decoded)), tuple(g**2 for g in functions))]
    for k in range(len(decoded)):
        one = [[_row(term, k) for term in row] for row in (terms, square)]
        pairs = {tuple(np.round(pair, 6)) for pair in joint.kinds(one).T}
        expected = np.array(
            [over_people(channel, [_row(t, k) for t in r])[0] for r in (terms, square)]
        )
        assert pairs == {tuple(np.round(pair, 6)) for pair in expected.T}


def _row(term, k):
    return Term(term.scale[k : k + 1], term.factors and tuple(f[k : k + 1] for f in term.factors))


def test_kinds_of_several_queries_are_those_of_each():
    """Those with fewer kinds repeat their last."""
    rng = np.random.default_rng(3)
    terms = [Term(rng.normal(size=4))]
    for _ in range(3):
        factors = tuple(rng.integers(0, 3, (4, size)).astype(float) for size in (5, 3, 4))
        terms.append(Term(rng.normal(size=4), factors))
    found = joint.kinds([terms, terms[1:2]]).reshape(2, 4, -1)
    for k in range(4):
        alone = joint.kinds([[_row(t, k) for t in terms], [_row(terms[1], k)]])
        np.testing.assert_allclose(found[:, k, : alone.shape[1]], alone)
        assert (found[:, k, alone.shape[1] :] == alone[:, -1:]).all()


def test_people_of_too_many_kinds(monkeypatch):
    survey = hio(6, 5)
    tally = survey.tally(survey.randomize({"v0": [1], "v1": [2]}, randomness=Randomness.seeded(1)))
    assert tally.count({"v0": [1, 3], "v1": 2}).bounds
    monkeypatch.setattr(joint, "MAX_KINDS", 3)
    with pytest.raises(QueryError, match="too many combinations of values for an exact error"):
        tally.count({"v0": [1, 3], "v1": 2})


def test_all_people_have_the_second_moment_of_the_docstring():
    channel = channel_of(hio(5, 4, branching=2))
    functions = [np.array([[0, 1.0, 1, 1, 0]]), np.array([[1.0, 1, 0, 0]])]
    # Positions 1 to 3 of 0 .. 4 are the leaf 1 and the pair 2, 3; of 0 .. 3 the first two a pair.
    kappa = 1 / math.tanh(0.5)
    (term,) = channel.second_moment(functions)
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


def published(survey, where, epsilon, n=1, inside=0.0):
    """N C 4 e^eps / (e^eps - 1)^2 with the published oracle, for N level vectors and C boxes.

    A share of people is inside, and they add 2 N - 1 more each.
    """
    channel, functions = channel_of(survey), parse(survey, where).functions
    sizes = zip(survey.attributes, channel.sizes, strict=True)
    rows = [functions.get(name, np.ones(size))[None] for name, size in sizes]
    boxes = channel.fewest(rows)
    outside = channel.vectors * float(products(boxes, boxes)[0]) / math.sinh(epsilon / 2) ** 2
    return n * (outside + inside * (2 * channel.vectors - 1))


def test_the_published_oracle_enumerated():
    """Optimised local hashing with e^eps = 2, so 3 hash values, over all hash functions."""
    survey = hio(2, 2, epsilon=math.log(2), branching=2)
    functions = [np.array([1.0, 0.0]), np.array([1.0, 1.0])]
    keep, chance = 1 / 2, 1 / 3
    weights = channel_of(survey).weights(functions)
    for person, inside in (((0, 1), 1), ((1, 1), 0)):
        first = second = 0.0
        for levels in itertools.product(range(2), repeat=2):
            boxes = list(itertools.product(*(range(2**level) for level in levels)))
            box = tuple(p >> (1 - lv) for p, lv in zip(person, levels, strict=True))
            tables = [per_level[level] for per_level, level in zip(weights, levels, strict=True)]
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
        formula = published(survey, {"v0": 0}, math.log(2), inside=inside)
        assert formula == pytest.approx(second - inside)


def test_hadamard_against_the_published_oracle():
    for epsilon, ratio in ((1.0, 1.2716), (0.01, 1.0), (3.0, 5.5338)):
        survey = hio(16, 25, epsilon=epsilon)
        where = {"v0": (3, 12), "v1": (5, 9)}
        exact = survey.expected_error(where, n=100, prior="worst").stderr ** 2
        assert exact / published(survey, where, epsilon, 100) == pytest.approx(ratio, rel=1e-4)


def test_hashing_is_the_published_oracle():
    """But for g = e^eps + 1, which is rounded, and hash values that are not quite even."""
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        survey = hashed(16, 25, epsilon=epsilon)
        where = {"v0": (3, 12), "v1": (5, 9)}
        exact = survey.expected_error(where, n=100, prior="uniform").stderr ** 2
        inside = 10 / 16 * 5 / 25
        assert exact == pytest.approx(published(survey, where, epsilon, 100, inside), rel=0.02)
    assert published(hio(16, 25), where, 1.0) == published(hashed(16, 25), where, 1.0)


@pytest.mark.parametrize("branching", [64, 2**63, 10**30, 1e30])
def test_more_branches_than_positions_are_leaves_at_once(branching):
    for make in (hio, hashed):
        survey = make(5, 3, branching=branching)
        assert [tree.sizes for tree in channel_of(survey).trees] == [(1, 5), (1, 3)]
        table = survey.randomize({"v0": [4, 0], "v1": [1, 2]}, randomness=Randomness.seeded(3))
        assert math.isfinite(survey.tally(table).count({"v0": (1, 4), "v1": 2}).value)


def test_attributes_may_have_the_names_of_columns():
    names = {"sign": line(3), "box": line(2)}
    for mechanism in (Hio(), HashedHio()):
        survey = together(names, mechanism)
        table = survey.randomize({"sign": [1, 2], "box": [0, 1]}, randomness=Randomness.seeded(3))
        assert not set(names) & set(table.column_names)
        assert survey.tally(table).count().value == 2


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
each_coarse = pytest.mark.parametrize(("channel", "randomness"), COARSE.values(), ids=COARSE)


def sampled(channel, person, randomness):
    """The law of `encode`, run on every coin."""
    randomness.at = 0
    positions = [np.full(randomness.people, position) for position in person]
    columns = channel.sample(positions, randomness)
    assert list(columns) == list(channel.fields)
    drawn = Counter(zip(*(c.tolist() for c in columns.values()), strict=True))
    return {report: Fraction(count, randomness.people) for report, count in drawn.items()}


def expected_law(channel, person):
    return {tuple(r.values()): channel.probability(person, r) for r in every(channel)}


@each_coarse
def test_encode_on_every_coin(channel, randomness):
    for person in people_of(channel):
        assert sampled(channel, person, randomness) == expected_law(channel, person)


@each_coarse
def test_blur_on_every_tape(channel, randomness):
    for person in people_of(channel):
        assert law_of_blur(channel, person) == expected_law(channel, person)


def law_of_blur(channel, person):
    """The exact law of `blur`, on every words."""
    cell = int(np.ravel_multi_index(person, channel.sizes))
    law, rest = law_of(
        lambda words: tuple(numbers_of(channel, channel.distribution.draw(cell, words)))
    )
    assert rest == 0
    return law


def numbers_of(channel, report):
    """The fields of a report, first lowest."""
    for field in channel.fields.values():
        yield report & (1 << field.bits) - 1
        report >>= field.bits
    assert report == 0


@each_channel
def test_blur_has_the_law_of_the_integers(channel):
    """Sampled, as bounds that are no power of two are rejected: a false alarm of 1e-9 in all."""
    n = 3000
    words = Words(Randomness.seeded(12).draw)
    person = tuple(size - 1 for size in channel.sizes)
    cell = math.prod(channel.sizes) - 1
    drawn = Counter(
        tuple(numbers_of(channel, channel.distribution.draw(cell, words))) for _ in range(n)
    )
    law = expected_law(channel, person)
    assert set(drawn) <= set(law)
    assert_counts([drawn[report] for report in law], law.values(), false_alarm=1e-9 / len(CHANNELS))


@dataclass(frozen=True)
class SignBare(HadamardBoxes):
    """The sign is sent as it is."""

    def _bare(self):
        return HadamardBoxes(self.sizes, self.branchings, WORD)

    def sample(self, positions, randomness):
        return self._bare().sample(positions, randomness)

    def draw(self, positions, words):
        return self._bare().draw(positions, words)


class NextBox(HashedBoxes):
    """The leaf beside theirs."""

    def sample(self, positions, randomness):
        return super().sample([1 - positions[0]], randomness)

    def draw(self, positions, words):
        return super().draw([1 - positions[0]], words)


class NextCell(Planar):
    """One word of the table too far."""

    def sample(self, positions, randomness):
        columns = super().sample(positions, randomness)
        return {**columns, 1: 1 - columns[1]}

    def draw(self, positions, words):
        row, column = super().draw(positions, words)
        return row, 1 - column


@pytest.mark.parametrize(
    ("name", "cls"), list(zip(COARSE, (SignBare, NextBox, NextCell), strict=True))
)
def test_broken_samplers_are_caught_on_every_coin(name, cls):
    channel, randomness = COARSE[name]
    broken = cls(**{f.name: getattr(channel, f.name) for f in fields(channel)})
    person = (1, 0)[: len(broken.sizes)]
    assert sampled(broken, person, randomness) != expected_law(broken, person)
    assert law_of_blur(broken, person) != expected_law(broken, person)


class OneTermLess(HashedBoxes):
    """As if one's own box and the others were not correlated; five residues in two buckets are."""

    def _second_moment(self, functions, others):
        return super()._second_moment(functions, others)[:-1]


class OtherForgotten(HadamardBoxes):
    """The moment of two functions taken for that of the first."""

    def _second_moment(self, functions, others):
        return super()._second_moment(functions, functions)


class WordsOnce(HadamardBoxes):
    """The index of every attribute is that of the first."""

    def _decoded(self, functions, columns):
        first = [functions[0], np.ones_like(functions[1])]
        return super()._decoded(first, columns)


class TooQuiet(HadamardBoxes):
    """One report moves an answer further than it says."""

    def _influence(self, functions):
        return super()._influence(functions) * (1 - 1e-6)


@pytest.mark.parametrize(
    "channel",
    [
        OneTermLess((5,), (3,), LocalHashing.for_epsilon(5, Fraction(2, 5))),
        OtherForgotten.for_epsilon((5, 3), (2, 2), Fraction(1)),
        WordsOnce.for_epsilon((5, 3), (2, 2), Fraction(1)),
        TooQuiet.for_epsilon((5, 3), (2, 2), Fraction(1)),
    ],
    ids=lambda channel: type(channel).__name__,
)
def test_broken_decoders_and_moments_are_caught(channel):
    with pytest.raises(AssertionError):
        test_any_real_functions_are_decoded_with_their_exact_second_moment(channel)


# Planar Laplace noise ----------------------------------------------------------------------------


def test_the_planar_law_is_that_of_the_unbounded_grid():
    channel = channel_of(plane(4, 3, 0.9, 0.6))
    reach = np.arange(-70, 71)
    noise = np.exp(-np.hypot(0.9 * reach[:, None], 0.6 * reach))
    noise /= noise.sum()
    for x, y in itertools.product(range(4), range(3)):
        law = np.zeros((4, 3))
        ends = np.clip(x + reach, 0, 3)[:, None], np.clip(y + reach, 0, 2)[None]
        np.add.at(law, ends, noise)
        found = channel.table[x * 3 + y].reshape(4, 3) / float(WORD)
        np.testing.assert_allclose(found, law, rtol=2e-5)


def test_noise_is_as_far_as_published():
    """On a fine grid, from its middle: the mean distance of the report is 2 / epsilon."""
    channel = channel_of(plane(21, 21, 0.8))
    apart = np.hypot(*(np.indices((21, 21)) - 10)).reshape(-1)
    law = channel.table[10 * 21 + 10] / float(WORD)
    # On this grid it is 3% less, and at 10 steps, with probability 0.003, it is clipped.
    assert law @ apart == pytest.approx(2 / 0.8, rel=0.03)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 7.0, 60.0])
def test_planar_laplace_is_certified_for_small_and_large_epsilons(epsilon):
    survey = plane(5, 6, epsilon)
    assert survey.certify().holds
    assert all(sum(row.tolist()) == WORD for row in channel_of(survey).table)


def tampered(survey, channel):
    """The same survey with another channel behind its block's back."""
    (block,) = survey.blocks.values()
    object.__setattr__(block, "channel", channel)
    return survey


def proved(survey, table):
    """Whether each offset's worst pair of cells is within its distance, had it that table."""
    honest = channel_of(survey)
    channel = Planar(honest.sizes, honest.steps, table)
    return [at_most_exp(r, channel.distance(x, other)) for x, other, r in channel.worst_pairs()]


def test_the_pair_that_is_named_does_not_hang_on_the_last_digit():
    """Two ways along a square are told apart equally well, but for how a machine rounds."""
    survey = plane(4, 4, 0.5)
    channel, named = channel_of(survey), survey.certify().proofs[0].labels
    rng = np.random.default_rng(8)
    for _ in range(10):
        table = channel.table.copy()
        for row in table:
            off = rng.integers(0, 1 << 8, len(row) // 2).astype(np.uint64)
            row[: len(off)] += off
            row[len(row) - len(off) :] -= off
        tampered(survey, Planar(channel.sizes, channel.steps, table))
        assert survey.certify().proofs[0].labels == named


def test_a_law_that_is_a_little_too_sharp_is_not_certified():
    survey = plane(4, 4, 0.5)
    honest = channel_of(survey)
    assert all(proved(survey, honest.table))
    sharp = planar._integers(planar._law((4, 4), (0.5 * (1 + 2.0**-18),) * 2))
    assert not all(proved(survey, sharp))
    changed = honest.table.copy()
    changed[5, 5] += np.uint64(int(changed[5, 5]) >> 18)
    assert not all(proved(survey, changed))
    assert survey.certify().holds
    for table in (sharp, changed):
        assert not tampered(survey, Planar(honest.sizes, honest.steps, table)).certify().holds


def test_a_table_that_rounds_its_tail_is_not_certified():
    survey = plane(4, 4, 9.0)
    whole = (planar._law((4, 4), (9.0, 9.0)) * float(WORD)).astype(np.uint64)
    rounded = np.maximum(whole >> np.uint64(44), np.uint64(1)) << np.uint64(44)
    assert not all(proved(survey, rounded))


def test_a_broken_law_is_refused_when_it_is_made(monkeypatch):
    law = planar._law
    monkeypatch.setattr(planar, "_law", lambda shape, steps: law(shape, (steps[0] * 1.1, steps[1])))
    with pytest.raises(
        InvalidSpecError,
        match=r"attributes x, y: planar Laplace noise exceeds the distance of 0, 2 and 1, 0",
    ):
        plane(3, 3)
    with pytest.raises(
        CertificateError, match="planar Laplace noise exceeds the distance of 0, 2 and 1, 0"
    ):
        Planar.for_steps((3, 3), (Fraction(1), Fraction(1)))


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


def simulate(survey, where, seed):
    """The answers of many crowds, the truth, and how the people are spread."""
    people = crowd(survey.attributes, seed)
    many = {name: np.tile(column, CROWDS) for name, column in people.items()}
    table = survey.randomize(many, randomness=Randomness.seeded(seed))
    parts = [table.slice(k * CROWD, CROWD) for k in range(CROWDS)]
    answers = [survey.tally(part).count(where) for part in parts]
    inside = np.ones(CROWD, dtype=bool)
    for name, (low, high) in where.items():
        inside &= (people[name] >= low) & (people[name] <= high)
    shares = np.zeros([a.size for a in survey.attributes.values()])
    np.add.at(shares, tuple(people.values()), 1 / CROWD)
    return answers, int(inside.sum()), shares


def check(answers, true, variance):
    values = np.array([answer.value for answer in answers])
    assert_mean(values, true, variance=variance, false_alarm=FALSE_ALARM)
    spread = ((values - true) ** 2).sum() / variance
    tails = stats.chi2.cdf(spread, CROWDS), stats.chi2.sf(spread, CROWDS)
    assert min(tails) > FALSE_ALARM / 2, f"spread {spread / CROWDS:.3g} times the formula"
    # What each answer says of its own variance is unbiased as well; its mean hardly varies.
    stated = np.array([answer.variance for answer in answers])
    assert stated.mean() == pytest.approx(variance, rel=0.05)


BLOCKS = {
    "hio": (hio(10, 8, branching=4), {"v0": (1, 7), "v1": (0, 3)}),
    "consistent": (hio(10, 8, branching=4, consistent=True), {"v0": (1, 7), "v1": (0, 3)}),
    "three": (hio(9, 3, 2, epsilon=0.5, branching=3), {"v0": (2, 7), "v1": (1, 2), "v2": (1, 1)}),
    "hashed": (hashed(10, 8, branching=4), {"v0": (1, 7), "v1": (0, 3)}),
    "hashed, large": (hashed(16, 3, epsilon=3.0, branching=2), {"v0": (3, 12), "v1": (1, 2)}),
    "plane": (plane(6, 5, 1.0), {"x": (1, 3), "y": (2, 4)}),
    "long plane": (plane(8, 8, 0.4, 0.8), {"x": (2, 5), "y": (0, 3)}),
}


@pytest.mark.parametrize(("survey", "where"), BLOCKS.values(), ids=BLOCKS)
def test_blocks_simulated(survey, where):
    answers, true, shares = simulate(survey, where, seed=31)
    check(answers, true, survey.expected_error(where, n=CROWD, prior=shares).stderr ** 2)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_prefix_sums_simulated(epsilon):
    survey = Survey.design({"v": line(12, epsilon, mechanism="prefix")})
    answers, true, shares = simulate(survey, {"v": (3, 7)}, seed=33)
    variance = survey.expected_error({"v": (3, 7)}, n=CROWD, prior=shares).stderr ** 2
    assert variance == pytest.approx(CROWD * exact_variance(epsilon, 2), rel=1e-9)
    check(answers, true, variance)


@pytest.mark.parametrize("percent", [-10, 10])
def test_a_sign_ten_percent_off_is_caught(percent):
    """It is kept that much more or less often, and decoded as if it were not."""
    survey, where = hio(10, 8, branching=4), BLOCKS["hio"][1]
    channel = channel_of(survey)
    channel.__dict__["sign"] = RandomizedResponseChannel(
        RandomizedResponse(2, channel.keep * (100 + percent) // 100)
    )
    answers, true, shares = simulate(survey, where, seed=31)
    with pytest.raises(AssertionError, match="mean"):
        check(answers, true, survey.expected_error(where, n=CROWD, prior=shares).stderr ** 2)


def test_planar_noise_ten_percent_off_is_caught():
    survey, where = plane(6, 5, 1.0), BLOCKS["plane"][1]
    channel = channel_of(survey)
    assert channel._inverse.any()  # decoded as if nothing had happened
    honest = survey.expected_error(where, n=CROWD, prior="uniform").stderr
    channel.__dict__["table"] = channel_of(plane(6, 5, 1.1)).table
    assert survey.expected_error(where, n=CROWD, prior="uniform").stderr == honest
    answers, true, shares = simulate(survey, where, seed=32)
    with pytest.raises(AssertionError, match="mean"):
        check(answers, true, survey.expected_error(where, n=CROWD, prior=shares).stderr ** 2)


@pytest.mark.parametrize("name", ["hio", "plane"])
@pytest.mark.parametrize("factor", [0.6, 1.6])
def test_a_formula_that_is_off_is_caught(name, factor):
    survey, where = BLOCKS[name]
    answers, true, shares = simulate(survey, where, seed=32)
    with pytest.raises(AssertionError, match="spread"):
        check(
            answers, true, factor * survey.expected_error(where, n=CROWD, prior=shares).stderr ** 2
        )


# Prefix sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_published_prefix_variance(epsilon):
    survey = Survey.design({"v": line(9, epsilon, mechanism="prefix")})
    assert survey.certify().holds
    for where, cuts in (({"v": (3, 5)}, 2), ({"v": (0, 5)}, 1)):
        for prior in ("worst", "uniform"):
            exact = survey.expected_error(where, prior=prior, n=1).stderr ** 2
            assert exact == pytest.approx(exact_variance(epsilon, cuts), rel=1e-9)
        ratio = exact / (cuts * 2 / epsilon**2)
        assert 1 - epsilon**2 / 12 < ratio < 1 - epsilon**2 / 12 + epsilon**4 / 240


def test_prefix_sums_have_a_limit():
    with pytest.raises(InvalidSpecError, match="5,000 positions are too many for prefix sums"):
        Survey.design({"v": line(5000, mechanism="prefix")})


# What is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hio(3, 2, branching=1), "branching is a whole number of at least 2, not 1"),
        (lambda: hio(3, 2, branching="many"), "at least 2, not 'many'"),
        (lambda: hio(3, 2, consistent="yes"), "consistent is true or false, not 'yes'"),
        (lambda: hashed(4000, 4000), "16,000,000 positions into 4 buckets needs reports of more"),
        # Nobody would see the end of a search for a prime from here.
        (lambda: hashed(*[1 << 20] * 5), "positions into 4 buckets needs reports of more than 63"),
        (
            lambda: together(lines((2, 2, 2), 1), "planar-laplace"),
            "for two attributes, not 3",
        ),
        (lambda: together(mixed(1), "planar-laplace"), "for distances along lines: numbers or"),
        (lambda: plane(33, 32), "33 x 32 cells are too many"),
        (lambda: plane(3, 3, 0.001), "epsilon 0.001 per step is too small"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidSpecError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)
