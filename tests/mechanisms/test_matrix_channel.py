"""The channel of the matrix mechanism: any strategy by enumeration."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
import pytest

from checks import check_sampler, designed_channel, enumerated_ratio, exact_law
from metricldp import Categorical, Integer, InvalidSpecError, Matrix, QueryError, Survey
from metricldp.answers.queries import parse
from metricldp.basics.errors import CertificateError
from metricldp.mechanisms import (
    GeometricChannel,
    MatrixChannel,
    ThresholdChannel,
    moments,
    strategies,
)
from metricldp.mechanisms import matrix as plans
from metricldp.mechanisms import matrix_channel as matrix
from metricldp.mechanisms.exact_probability import noise_tail
from metricldp.mechanisms.randomness import Randomness
from metricldp.metrics import Line
from metricldp.store.readings import read
from metricldp_core.exact import WORD, at_most_exp

THIRD, HALF = Fraction(1, 3), Fraction(1, 2)
STRATEGIES = {
    "identity": strategies.identity(3),
    "prefix": strategies.prefix(4)[:-1],
    "haar": strategies.haar(4)[1:],
    "hierarchy": strategies.hierarchy(3)[:-1],
    "wide": np.array([[0, 3, -2], [5, 0, 1]]),
}
SETTINGS = [
    pytest.param(name, reach, id=f"{name}-{reach}")
    for name in STRATEGIES
    for reach in (0, 1)
    if name != "hierarchy" or reach == 0
]


def some_channel(name, reach):
    rows = STRATEGIES[name]
    return MatrixChannel.of(rows, [THIRD + k * HALF for k in range(len(rows))], reach)


@pytest.mark.parametrize(("name", "reach"), SETTINGS)
def test_every_strategy_keeps_its_promises_in_any_window(name, reach):
    channel = some_channel(name, reach)
    laws = [exact_law(channel, x) for x in range(channel.size)]
    rows = STRATEGIES[name].astype(int)
    for x, other in product(range(channel.size), repeat=2):
        worst = enumerated_ratio(laws[x], laws[other])
        assert worst <= channel.distribution.ratio(x, other) <= worst * (1 + Fraction(1, 1 << 50))
        spent = sum(
            (THIRD + k * HALF) * abs(int(row[x] - row[other])) for k, row in enumerate(rows)
        )
        assert at_most_exp(worst, spent)
    functions = np.random.default_rng(1).normal(size=(6, channel.size))
    everything = channel.every_report()
    decoded = channel.values(everything, channel.moments.coefficients(functions))
    assert not channel.field.invalid(everything).any()
    moment, decoder = channel.moments.second_moment_estimator(functions, functions[::-1].copy())
    of_moment = channel.values(everything, decoder)
    for x, law in enumerate(laws):
        assert sum(law.values()) == 1
        p = np.array([float(q) for q in law.values()])
        np.testing.assert_allclose(decoded @ p, functions[:, x], atol=1e-9)
        np.testing.assert_allclose(channel.moments.second_moment(functions)[:, x], decoded**2 @ p)
        np.testing.assert_allclose(moment[:, x], (decoded * decoded[::-1]) @ p, atol=1e-9)
        np.testing.assert_allclose(of_moment @ p, moment[:, x], atol=1e-8)
    for function, values in zip(functions, decoded, strict=True):
        assert max(map(abs, channel.moments.output_range(function))) == pytest.approx(
            np.abs(values).max(), rel=1e-12
        )


@pytest.mark.parametrize(("name", "reach"), SETTINGS)
def test_features_codes_totals_and_cells_agree(name, reach):
    channel = some_channel(name, reach)
    rng = np.random.default_rng(2)
    column = channel.sample(rng.integers(0, channel.size, 300), Randomness.seeded(3))
    coefficients = channel.moments.coefficients(rng.normal(size=(4, channel.size)))
    features = channel.features(column)
    assert np.abs(features).max() <= channel.largest
    values = channel.values(column, coefficients)
    np.testing.assert_allclose(values, coefficients @ features.T, atol=1e-9)
    levels = channel.levels(coefficients)
    np.testing.assert_allclose(levels.table[:, levels.codes(column)], values, atol=1e-9)
    codes = rng.integers(0, 3, 300)
    totals = channel.totals(column, codes, 3)
    for code in range(3):
        assert (totals[:, code] == features[codes == code].sum(axis=0)).all()
    joint = np.stack([totals, totals[::-1]], axis=-1).astype(float)
    expected = np.tensordot(channel.moments.coefficients(np.eye(channel.size)), joint, axes=1)
    np.testing.assert_allclose(channel.moments.frequencies(joint), expected, atol=1e-9)


def test_the_sampler_follows_its_integers():
    check_sampler(MatrixChannel.of(strategies.haar(3)[1:], [HALF, Fraction(1)], 1))
    honest = MatrixChannel.of([[0, 1, 2], [1, 0, 0]], [HALF, Fraction(1)], 0)
    check_sampler(honest)
    twin = _Quieter(honest.distribution)
    with pytest.raises(AssertionError):
        check_sampler(twin)


class _Quieter(MatrixChannel):
    """Draws all rows from the noise of the second one."""

    @cached_property
    def noises(self):
        first, second = (GeometricChannel(row.noise) for row in self.distribution.rows)
        return GeometricChannel(replace(second.distribution, size=first.size)), second


def test_a_wide_window_is_the_literal_mechanism():
    for u in ("0.003", "0.1", "1", "3.7", "20"):
        channel = MatrixChannel.of(strategies.prefix(5)[:-1], [Fraction(u)] * 4)
        q = math.exp(-float(u))
        literal = 2 * q / math.expm1(-float(u)) ** 2
        np.testing.assert_allclose(channel.moments.variances, literal, rtol=1e-10)
        window = channel.noises[0]
        reach = (window.size - 2) // 2
        assert noise_tail(window.distribution, reach) < Fraction(1, 1 << 64)
        prefix = np.array([1.0, 1, 0, 0, 0])
        np.testing.assert_allclose(
            channel.moments.second_moment(prefix) - prefix**2, literal, rtol=1e-12, atol=1e-15
        )


def test_no_window_at_all_is_threshold_bits_with_half_the_variance():
    """A row of zeros and ones, clipped to them, is one bit of randomized response."""
    epsilon = Fraction(7, 10)
    narrow = Matrix(strategy="prefix", reach=0)
    channel, bits = (
        designed_channel(narrow, 4, Line(epsilon)),
        ThresholdChannel.for_epsilon(4, epsilon),
    )
    assert channel.bits == bits.bits == 3
    for x in range(4):
        law, other = exact_law(channel, x), exact_law(bits, x)
        for report, p in law.items():
            assert float(p) == pytest.approx(float(other[report]), rel=1e-12)
    functions = np.random.default_rng(3).normal(size=(5, 4))
    np.testing.assert_allclose(
        channel.moments.second_moment(functions), bits.moments.second_moment(functions), rtol=1e-12
    )
    wide = designed_channel(Matrix(strategy="prefix"), 4, Line(epsilon))
    np.testing.assert_allclose(wide.moments.variances, 2 * channel.moments.variances, rtol=1e-12)


def test_a_ratio_of_very_many_rows_is_rounded_up_and_hardly():
    rows = np.random.default_rng(4).integers(0, 5, (60, 3))
    channel = MatrixChannel.of(rows, [Fraction(1, 60)] * 60)
    exact = math.prod(
        noise.distribution.ratio(int(row[0] - low), int(row[1] - low))
        for row, low, noise in zip(channel.entries, channel.lows, channel.noises, strict=True)
    )
    found = channel.distribution.ratio(0, 1)
    assert exact <= found <= exact * (1 + Fraction(1, 1 << 200))


def test_sums_of_the_widest_fields_are_exact():
    """A chunk of fields at the ends of the widest window there is, and lows beyond 32 bits."""
    channel = MatrixChannel.of(
        [[plans.LARGEST_ENTRY, -plans.LARGEST_ENTRY]], [HALF], plans.LARGEST_REACH
    )
    assert channel.bits == 32
    count = (1 << 22) // channel.moments.feature_count + 5
    rng = np.random.default_rng(6)
    fields = channel.noises[0].size - 1 - rng.integers(0, 3, count)
    column = fields.astype("<u4").view(np.uint8).reshape(-1, 4)
    codes = (np.arange(count) % 1000 == 0).astype(np.int64)
    totals = channel.totals(column, codes, 2)
    for code in (0, 1):
        there = fields[codes == code].tolist()
        assert totals[0, code] == len(there)
        assert totals[1, code] == sum(there) + int(channel.lows[0]) * len(there) > 1 << 31
        assert totals[2, code] == there.count(channel.noises[0].size - 1)


@pytest.mark.parametrize("reach", [1 << 20, plans.LARGEST_REACH])
def test_answers_are_the_same_for_any_wide_reach(reach):
    people = {"v": np.repeat(["a", "b", "c"], [700, 200, 100])}
    found = []
    for wide in (None, reach):
        attribute = Categorical(
            list("abc"), epsilon=4, mechanism=Matrix(strategy="identity", reach=wide)
        )
        survey = Survey.design({"v": attribute})
        tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
        found.append([*tally.workload("v", "values").values, tally.count({"v": "a"}).value])
        assert len(survey.report({"v": "b"})) == 17 + (survey.report_bits + 7) // 8
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("reach", [2**30 + 1, 2**38, 2**62, 1e30, 10**400, math.inf, 0.5, True])
def test_a_reach_beyond_all_need_is_refused(reach):
    with pytest.raises(
        InvalidSpecError, match="reach is a whole number from 0 to 1,073,741,824, not"
    ):
        Survey.design({"v": Integer(0, 3, epsilon=1, mechanism=Matrix(reach=reach), per=1)})
    wide = Survey.design({"v": Integer(0, 3, epsilon=1, mechanism=Matrix(reach=2.0), per=1)})
    same = Survey.design({"v": Integer(0, 3, epsilon=1, mechanism=Matrix(reach=2), per=1)})
    assert wide.fingerprint == same.fingerprint
    with pytest.raises(InvalidSpecError, match=r"row 0 of the strategy has a window of"):
        MatrixChannel.of([[0, 1]], [HALF], 1 << 31)


def test_rows_that_cannot_tell_a_position_are_refused_by_the_decoder():
    channel = MatrixChannel.of([[1, 1, 0]], [HALF])
    with pytest.raises(QueryError, match="not determine the count of position 0"):
        channel.moments.coefficients(np.zeros(3))
    last = MatrixChannel.of(
        [[1, 0, 0, 0], [0, 1, 0, 0]], [HALF, HALF]
    )  # 0 and 1 are told, 2 is not
    with pytest.raises(QueryError, match="not determine the count of position 2"):
        last.moments.coefficients(np.zeros(4))
    singular = MatrixChannel.of([[1, 1, 0], [2, 2, 0]], [HALF, HALF])
    with pytest.raises(QueryError, match="not determine the count"):
        singular.moments.coefficients(np.zeros(3))


def test_decoders_of_a_matrix_survey_read_few_rows():
    """A range over prefixes reads two rows, so that codes are counted and answers are exact."""
    survey = Survey.design({"v": Integer(0, 99, epsilon=1, mechanism="matrix", per=1)})
    (reading,) = read(survey, parse(survey, {"v": (10, 40)}).functions).parts
    assert np.count_nonzero(reading.coefficients[0]) == 4
    assert survey.channels["v"].levels(reading.coefficients).table.shape[1] == 92**2


def test_windows_and_rows():
    """Rows that say nothing are not sent; a window reaches 45/u beyond the values, rounded up."""
    rows = [[0, 3, 1], [2, 2, 2], [5, 9, 5], [1, 0, 0], [-2, -2, 1], [4, 0, 0], [0, 3, 2]]
    epsilons = [Fraction(u) for u in ("1", "1", "7", "0", "100", "1e-9", "1")]
    channel = MatrixChannel.of(rows, epsilons)
    assert channel.entries.tolist() == [rows[k] for k in (0, 2, 4, 5, 6)]
    far = 1 << 30  # no farther, however small epsilon is
    assert channel.lows.tolist() == [0 - 45, 5 - 7, -2 - 1, 0 - far, 0 - 45]
    sizes = [3 + 90 + 1, 4 + 14 + 1, 3 + 2 + 1, 4 + 2 * far + 1, 3 + 90 + 1]
    assert [noise.size for noise in channel.noises] == sizes
    found = [noise.epsilon for noise in channel.noises]
    assert found == pytest.approx([1, 7, math.log(WORD), 1e-9, 1], rel=1e-8)
    assert channel.size == 3
    assert channel.moments.feature_count == 11
    assert channel.largest == far + 4
    assert MatrixChannel.of([[0, 1]], [Fraction(1)], 0).largest == 1
    assert MatrixChannel.of([[-9, 1]], [Fraction(1)], 2).largest == 11
    assert MatrixChannel.of([[-1, 9]], [Fraction(1)], 2).largest == 11


def test_the_widest_window_has_as_many_positions_as_32_bits():
    widest = MatrixChannel.of([[0, 1]], [HALF], (1 << 31) - 1)
    assert widest.noises[0].size == 1 << 32
    assert widest.bits == 32
    with pytest.raises(InvalidSpecError) as wrong:
        MatrixChannel.of([[0, 1], [0, 2]], [HALF, HALF], (1 << 31) - 1)
    assert str(wrong.value) == (
        "row 1 of the strategy has a window of 4,294,967,297 positions; use entries and a reach of "
        "32,768 and 1,073,741,824 at most"
    )


def test_an_epsilon_that_coins_cannot_keep_is_named_by_its_row():
    with pytest.raises(CertificateError, match="row 1 of the strategy: ") as wrong:
        MatrixChannel.of([[0, 1], [1, 0]], [HALF, Fraction(1, 10**30)], 3)
    assert "\n" not in str(wrong.value)


def test_rows_of_the_output_distribution():
    channel = MatrixChannel.of([[4, 4, 4, 0], [1, 2, 2, 2]], [HALF, Fraction(1)], 3)
    first, second = channel.distribution.rows
    assert (first.entries, first.low) == ((4, 4, 4, 0), -3)
    assert (second.entries, second.low) == ((1, 2, 2, 2), -2)
    assert [first.noise, second.noise] == [noise.distribution for noise in channel.noises]


def test_more_rows_than_needed_are_read_with_the_least_variance():
    """Generalised least squares, each row with its mean variance."""
    rows = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 1], [0, 3, 1]])
    epsilons = [HALF, Fraction(1), Fraction(2), Fraction(1, 4), THIRD]
    channel = MatrixChannel.of(rows, epsilons, 4)
    functions = np.random.default_rng(11).normal(size=(4, 3))
    found = channel.moments.coefficients(functions)[:, 1:6]
    seen = (rows - rows[:, -1:])[:, :-1]
    weights = np.diag(1 / channel.moments.variances.mean(axis=1))
    best = np.linalg.inv(seen.T @ weights @ seen) @ seen.T @ weights
    np.testing.assert_allclose(found, (functions[:, :-1] - functions[:, -1:]) @ best, rtol=1e-9)
    assert channel.moments.variances.shape == (5, 3)
    assert channel.moments.variances[3].std() > 0  # clipped more often at some positions


def test_a_row_without_noise_is_trusted_and_no_other():
    """At epsilon 60 a row is as good as the truth; what it tells is not read from noisy rows."""
    rows = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]])
    channel = MatrixChannel.of(rows, [Fraction(64), *[Fraction(1, 1000)] * 3], 2)
    told = channel.moments.coefficients(np.array([[1.0, 0, 0], [0, 1, 0]]))[:, 1:5]
    np.testing.assert_allclose(told, [[1, 0, 0, 0], [0, 0, 0.5, 0.5]], atol=1e-9)


def test_codes_are_for_few_combinations_of_rows(monkeypatch):
    """As many as the product of the windows that a decoder reads, and not one more."""
    channel = MatrixChannel.of([[0, 1, 2], [1, 0, 0]], [HALF, Fraction(1)], 1)
    one, both = channel.moments.coefficients(np.array([[[1.0, 0, 0]], [[0.0, 1, 0]]]))
    assert channel.levels(one).table.shape == (1, 4)
    assert channel.levels(both).table.shape == (1, 5 * 4)
    monkeypatch.setattr(matrix, "_MOST_CODES", 20)
    assert channel.levels(both) is not None
    monkeypatch.setattr(matrix, "_MOST_CODES", 19)
    assert channel.levels(both) is None
    assert channel.levels(one) is not None
    monkeypatch.undo()
    decoders = np.zeros((2, channel.moments.feature_count))
    decoders[0, [0, 1, 3]], decoders[1, [0, 2, 4]] = [1, 2, 3], [4, 5, 6]  # a row each
    levels, reports = channel.levels(decoders), channel.every_report()
    expected = decoders @ channel.features(reports).T
    np.testing.assert_allclose(levels.table[:, levels.codes(reports)], expected)


def test_inverses_of_whole_matrices_are_whole():
    prefixes = np.tri(40)
    found = moments._inverse(prefixes)
    assert set(found.flat) == {-1.0, 0.0, 1.0}
    halves = moments._inverse(2 * prefixes)
    np.testing.assert_allclose(halves, found / 2)
    # Whole, and so is its inverse; elimination in floats leaves something behind the point.
    rng = np.random.default_rng(12)
    lower, upper = (np.tri(12, k=-1) * rng.integers(-3, 4, (12, 12)) for _ in range(2))
    mixed = (np.eye(12) + lower) @ (np.eye(12) + upper.T)
    assert not (np.linalg.inv(mixed) % 1 == 0).all()
    assert (moments._inverse(mixed) % 1 == 0).all()
    np.testing.assert_array_equal(moments._inverse(mixed) @ mixed, np.eye(12))
    assert moments._inverse(np.ones((2, 2))) is None
    assert moments._inverse(np.eye(3)[:2]) is None
