"""What every joint channel has for nothing, against plain sums over all people and all reports."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from metricldp import Integer, InvalidSpecError, QueryError, Randomness, Survey, SurveySpec
from metricldp.lab.peers.distribution import Baseline
from metricldp.mechanisms import RandomizedResponseChannel, joint
from metricldp.mechanisms.base import Mechanism
from metricldp.mechanisms.fields import Number
from metricldp.mechanisms.joint import JointChannel, Term, constant, kinds, summed
from metricldp.mechanisms.sampling import uniform
from metricldp.metrics import Uniform
from metricldp.metrics.product import ProductMetric
from metricldp.reports.arrow import column_of
from metricldp_core.random_words import Words

SIZES = (3, 2, 4)


@dataclass(frozen=True)
class Apart(Baseline, JointChannel):
    """Every attribute blurred by itself: a joint channel that says only what it must.

    One fair coin more decides whether a decoder counts half or one and a half times, so that the
    decoder of a constant is none by itself.
    """

    sizes: tuple[int, ...]
    channels: tuple[RandomizedResponseChannel, ...]

    mechanism = "apart"

    @property
    def fields(self):
        return {k: channel.field for k, channel in enumerate(self.channels)} | {"luck": Number(2)}

    def law(self):
        return {"law": "apart", "parts": [one.distribution.to_data() for one in self.channels]}

    def sample(self, positions, randomness):
        pairs = enumerate(zip(self.channels, positions, strict=True))
        found = {k: channel.sample(column, randomness) for k, (channel, column) in pairs}
        return found | {"luck": uniform(randomness, 2, len(positions[0])).astype(np.uint8)}

    def draw(self, positions, words):
        pairs = zip(self.channels, positions, strict=True)
        return [*(channel.distribution.draw(x, words) for channel, x in pairs), words.uniform(2)]

    def probability(self, x, report):
        found = Fraction(1, 2)
        for k, channel in enumerate(self.channels):
            found *= channel.probability(x[k], report[k])
        return found

    def worst_ratio(self, x, other):
        found = Fraction(1)
        for channel, *ends in zip(self.channels, x, other, strict=True):
            found *= channel.distribution.ratio(*ends)
        return found

    def worst_pairs(self):
        here, there = (0,) * len(self.sizes), (1,) * len(self.sizes)
        yield here, there, self.worst_ratio(here, there)

    def _decoded(self, functions, columns):
        pairs = enumerate(zip(self.channels, functions, strict=True))
        parts = [
            channel.values(columns[k], channel.moments.coefficients(f)) for k, (channel, f) in pairs
        ]
        return np.prod(parts, axis=0) * (0.5 + columns["luck"])

    def _second_moment(self, functions, others):
        parts = zip(self.channels, functions, others, strict=True)
        factors = tuple(channel.moments.second_moment(f, g) for channel, f, g in parts)
        return [Term(np.full(len(functions[0]), 1.25), factors)]

    def _influence(self, functions):
        pairs = zip(self.channels, functions, strict=True)
        return 1.5 * np.prod([[_farthest(channel, g) for g in f] for channel, f in pairs], axis=0)


def _farthest(channel, function):
    return max(map(abs, channel.moments.output_range(function)))


class Alone(Mechanism):
    """Makes it for a survey: half of the smallest distance for each of two attributes."""

    name = "alone"
    source = "these tests"
    joint = True

    def distribution(self, problem, effort, progress):
        halves = [line.step for line in self.proved_metric(problem.metric, None).metrics]
        pairs = zip(problem.sizes, halves, strict=True)
        channels = tuple(RandomizedResponseChannel.for_epsilon(size, half) for size, half in pairs)
        return Apart(problem.sizes, channels).distribution

    def proved_metric(self, metric, distribution):
        sides = zip(metric.metrics, metric.sizes, strict=True)
        halves = tuple(Uniform(own.smallest(size) / 2) for own, size in sides)
        return ProductMetric(halves, metric.sizes)


CHANNEL = Apart(
    SIZES, tuple(RandomizedResponseChannel.for_epsilon(size, Fraction(1)) for size in SIZES)
)
PEOPLE = list(itertools.product(*map(range, SIZES)))


def some_functions(seed=1, count=5):
    """k functions of each attribute; the third product is a constant, the fourth nearly one."""
    rng = np.random.default_rng(seed)
    functions = [rng.normal(size=(count, size)) for size in SIZES]
    for f, level in zip(functions, (2.0, -1.5, 0.5), strict=True):
        f[2] = level
        f[3] = level
    functions[1][3, -1] += 1
    return functions


def products_of(functions):
    """The products for every person: (k, people)."""
    found = [[f[:, k] for f, k in zip(functions, x, strict=True)] for x in PEOPLE]
    return np.prod(found, axis=1).T


def laws():
    columns = CHANNEL.every_report()
    rows = zip(*columns.values(), strict=True)
    reports = [dict(zip(columns, row, strict=True)) for row in rows]
    return columns, np.array(
        [[float(CHANNEL.probability(x, report)) for report in reports] for x in PEOPLE]
    )


def told(terms, x):
    """Sums of terms for one person: (k,)."""
    found = np.zeros(len(terms[0].scale))
    for term in terms:
        factors = zip(term.factors, x, strict=True) if term.factors else ()
        parts = [f[:, k] for f, k in factors]
        found = found + term.scale * np.prod(parts, axis=0)
    return found


def test_reports_are_listed_once_each():
    columns, law = laws()
    assert CHANNEL.has_likelihood
    assert list(columns) == [0, 1, 2, "luck"]
    reports = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    assert sorted(reports) == [(*x, luck) for x in PEOPLE for luck in (0, 1)]
    np.testing.assert_allclose(law.sum(axis=1), 1, rtol=1e-12)


def test_chances_of_whole_columns():
    columns, law = laws()
    found = CHANNEL.log_likelihood(columns)
    assert found.shape == (law.shape[1], *SIZES)
    np.testing.assert_allclose(np.exp(found).reshape(law.shape[1], -1), law.T, rtol=1e-12)

    class Sure(type(CHANNEL)):
        def probability(self, x, report):
            return Fraction(int(x[0] == report[0]))

    sure = Sure(CHANNEL.sizes, CHANNEL.channels).log_likelihood(columns)
    assert np.array_equal(sure[:, :, 0, 0] == 0, columns[0][:, None] == np.arange(SIZES[0]))
    assert (sure[sure != 0] == -np.inf).all()


def test_a_report_is_its_fields_one_after_the_other_the_first_lowest():
    assert CHANNEL.bits == 2 + 1 + 2 + 1
    for cell, x in enumerate(PEOPLE):
        one, two, three, luck = CHANNEL.draw(x, Words(Randomness.seeded(cell).draw))
        report = CHANNEL.distribution.draw(cell, Words(Randomness.seeded(cell).draw))
        assert report == one + (two << 2) + (three << 3) + (luck << 5)


def test_decoders_are_unbiased_and_constants_are_known():
    functions = some_functions()
    columns, law = laws()
    decoded = CHANNEL.decoded(functions, columns)
    np.testing.assert_allclose(decoded @ law.T, products_of(functions), atol=1e-9)
    np.testing.assert_array_equal(decoded[2], -1.5)
    assert np.ptp(decoded[3]) > 0.1


def test_moments_are_those_of_all_reports():
    f, g = some_functions(), some_functions(2)
    g[0][4] = g[1][4] = g[2][4] = 1.5  # a constant on one side makes the product unblurred there
    columns, law = laws()
    for others in (None, g):
        one, two = (CHANNEL.decoded(h, columns) for h in (f, f if others is None else g))
        expected = (one * two) @ law.T
        terms = CHANNEL.second_moment(f, others)
        found = np.array([told(terms, x) for x in PEOPLE]).T
        np.testing.assert_allclose(found, expected, atol=1e-9)
        decoded = CHANNEL.valued(terms, columns) @ law.T
        np.testing.assert_allclose(decoded, expected, atol=1e-9)
    plain = [part[:2] for part in f]
    assert len(CHANNEL.second_moment(plain)) == 1


def test_valued_adds_up_terms_and_constants():
    functions = some_functions()
    columns, _ = laws()
    scales = np.arange(5.0)
    terms = [Term(scales, tuple(functions)), Term(scales**2), Term(-scales, tuple(functions))]
    np.testing.assert_allclose(
        CHANNEL.valued(terms, columns), np.repeat(scales[:, None] ** 2, 2 * len(PEOPLE), axis=1)
    )


def test_influence_and_jump_are_those_of_all_reports():
    functions = some_functions()
    columns, _ = laws()
    decoded, truth = CHANNEL.decoded(functions, columns), products_of(functions)
    most = np.abs(decoded).max(axis=1)
    np.testing.assert_allclose(CHANNEL.influence(functions), most, rtol=1e-12)
    jump = CHANNEL.skewness(functions)
    expected = most + np.abs(truth).max(axis=1)
    expected[2] = 0  # what is known does not move
    np.testing.assert_allclose(jump, expected, rtol=1e-12)
    assert (jump >= np.abs(decoded[:, :, None] - truth[:, None]).max(axis=(1, 2))).all()


def stepped(seed, count):
    """Functions with few different values, a different number of them for each query."""
    rng = np.random.default_rng(seed)
    found = [rng.integers(0, 3, (count, size)).astype(float) for size in SIZES]
    found[0][1], found[2][1] = 1.0, 2.0
    return tuple(found)


def test_kinds_are_all_that_people_can_be():
    """Two rows of sums of terms, of three queries each, in the order of rows and then queries."""
    rng = np.random.default_rng(3)
    rows = [
        [Term(rng.normal(size=3), stepped(4, 3)), Term(rng.normal(size=3))],
        [Term(rng.normal(size=3), stepped(5, 3)), Term(rng.normal(size=3), stepped(6, 3))],
    ]
    found = kinds(rows)
    assert len(found) == 6
    together = found.reshape(2, 3, -1)
    for query in range(3):
        expected = {tuple(np.round([told(row, x)[query] for row in rows], 9)) for x in PEOPLE}
        assert {tuple(np.round(pair, 9)) for pair in together[:, query].T} == expected
    lengths = {len(set(np.round(row, 9))) for row in found}
    assert len(lengths) > 1  # some repeat their last kind
    assert kinds([[Term(np.ones(3), tuple(f > 1.5 for f in stepped(4, 3)))]]).shape[1] <= 2**3


def test_sums_over_all_rows_have_no_axis_for_what_makes_no_difference():
    rng = np.random.default_rng(7)
    moved, still = stepped(8, 3), stepped(9, 3)
    still[1][:] = [[4.0], [5.0], [6.0]]
    alone = [Term(rng.normal(size=3), still)]
    assert summed(alone).shape == (3, 1, 4)
    terms = [Term(rng.normal(size=3)), Term(rng.normal(size=3), moved), *alone]
    for some in (alone, terms, terms[:1], terms[1:], terms[::-1]):
        found = np.broadcast_to(summed(some), SIZES)
        for x in PEOPLE:
            assert found[x] == pytest.approx(told(some, x).sum(), abs=1e-9)


def test_people_of_too_many_kinds_are_refused(monkeypatch):
    """Exactly as many as are gone through, and one less than there are."""
    rows = [[Term(np.ones(1), tuple(np.arange(1.0, size + 1)[None] for size in SIZES))]]
    monkeypatch.setattr(joint, "MAX_KINDS", len(PEOPLE))
    assert kinds(rows).shape == (1, len(PEOPLE))
    assert summed(rows[0]).shape == SIZES
    monkeypatch.setattr(joint, "MAX_KINDS", len(PEOPLE) - 1)
    for ask in (lambda: kinds(rows), lambda: summed(rows[0])):
        with pytest.raises(QueryError, match="too many combinations of values for an exact error"):
            ask()


def test_joint_mechanism_of_one_attribute_is_rejected():
    attribute = Integer(0, 2, epsilon=1, per=1, mechanism=Alone())
    with pytest.raises(
        InvalidSpecError, match="mechanism 'alone' randomizes several attributes together"
    ):
        Survey.design({"a": attribute})


def test_a_joint_channel_that_says_only_what_it_must_goes_the_whole_way():
    """Proved, sent, counted from reports, and asked: the mean of its decoder over all reports."""
    kinds = {"a": (3, 2), "b": (2, 1), "c": (5, 1)}
    attributes = {name: Integer(0, n - 1, epsilon=e, per=1) for name, (n, e) in kinds.items()}
    survey = Survey.design(SurveySpec(attributes, joint={("a", "b"): Alone()}))
    # For two who differ in both, 1 and 1/2 are kept: more than the smallest distance, not theirs.
    assert survey.certify().holds
    people = {"a": np.arange(900) % 3, "b": np.arange(900) % 2, "c": np.arange(900) % 5}
    reports = survey.randomize(people, randomness=Randomness.seeded(3))
    tally = survey.tally(reports)
    block, third = survey.blocks["a+b"], survey.channels["c"]
    columns = {part: reports[column_of(name)].to_numpy() for part, name in block.columns.items()}
    for where, first, second in (
        ({"a": 1}, [0, 1, 0], [1, 1]),
        ({"a": (0, 1), "b": 1}, [1, 1, 0], [0, 1]),
        ({"b": 0, "c": (2, 4)}, [1, 1, 1], [1, 0]),
    ):
        functions = [np.array([first], dtype=float), np.array([second], dtype=float)]
        decoded = block.channel.decoded(functions, columns)[0]
        if "c" in where:
            upper = third.moments.coefficients(np.array([[0.0, 0, 1, 1, 1]]))
            decoded = decoded * third.values(reports[column_of("c")].to_numpy(), upper)[0]
        assert tally.count(where).value == pytest.approx(decoded.sum(), rel=1e-9)


@pytest.mark.parametrize("known", [3.0, 0.5, 0.0, -2.0])
def test_the_ends_of_what_is_known_are_what_it_is(known):
    """And of a list of products, the first; a factor that is 0 makes all of it known."""
    attributes = {"x": Integer(0, 1, epsilon=1, per=1), "y": Integer(0, 2, epsilon=1, per=1)}
    survey = Survey.design(SurveySpec(attributes, joint={("x", "y"): "hio"}))
    (block,) = survey.blocks.values()
    assert block.channel.one is None
    same = [np.array([[known] * 2, [1, 0]]), np.array([[1.0] * 3, [1, 0, 0]])]
    assert block.channel.output_range(same) == (known, known)
    nobody = [np.array([[0.0, 0.0]]), np.array([[known, 1.0, 2.0]])]
    assert block.channel.output_range(nobody) == (0, 0)
    other = [np.array([[1.0, 0.0]]), np.array([[1.0, 0.0, known]])]
    most = float(block.channel.influence(other)[0])
    assert block.channel.output_range(other) == (-most, most) and most > 0


def test_which_products_are_the_same_for_everybody():
    first = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 3.0], [0.0, 1.0], [1.0, 0.0]])
    second = np.array([[1.0, 2.0], [0.0, 0.0], [2.0, 2.0], [1.0, 1.0], [0.0, 1.0]])
    assert constant([first, second]).tolist() == [True, True, True, False, False]
