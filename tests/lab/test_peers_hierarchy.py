"""Ranges under plain local privacy, by trees and wavelets: enumerated, and simulated."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import hadamard, null_space

from checks import EveryCoin, assert_mean, exact_law, prove, sampled_law, total_error
from metricldp import Categorical, Integer, InvalidSpecError, QueryError, Randomness, Survey
from metricldp.lab.peers.haar import Haar
from metricldp.lab.peers.hierarchy import Hierarchy, PlainHierarchy
from metricldp.lab.peers.hierarchy_unary import UnaryHierarchy
from metricldp.lab.peers.levels import OneLevel
from metricldp.lab.peers.walsh import odd, transform
from metricldp.mechanisms.registry import build
from metricldp.metrics import Uniform
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words

NAMES = ("hierarchy-2", "hierarchy-3", "hierarchy-16", "hierarchy-2-plain", "hierarchy-3-plain")
EVERY = (*NAMES, "haar")
SIZES = (2, 3, 5, 8, 9, 13, 17, 26)


def built(name, size, epsilon=1):
    channel = build(name, size, Uniform(Fraction(epsilon)))
    assert isinstance(channel, OneLevel)
    return channel


def ranges(size):
    """Every range as a function, (ranges, size)."""
    x = np.arange(size)
    low, high = np.triu_indices(size)
    return ((low[:, None] <= x) & (x <= high[:, None])).astype(float)


def test_walsh_functions_are_those_of_the_hadamard_matrix():
    matrix = hadamard(16).astype(float)
    v, j = np.indices((16, 16))
    assert (matrix == 1 - 2 * odd(v & j)).all()
    values = np.random.default_rng(1).normal(size=(3, 2, 11))
    np.testing.assert_allclose(transform(values, 16), values @ matrix[:11], atol=1e-12)
    assert transform(np.ones((2, 1)), 1).tolist() == [[1.0], [1.0]]


# The decoders


def design(channel):
    """Which values each node holds, all levels one below the other."""
    x = np.arange(channel.size)
    rows = [x // width == k for width in channel.widths for k in range(-(-channel.size // width))]
    return np.array(rows, dtype=float)


@pytest.mark.parametrize("branching", [2, 3, 4, 7])
@pytest.mark.parametrize("size", [2, 3, 5, 7, 9, 11, 17, 27, 28])
def test_constrained_inference_is_generic_least_squares(size, branching):
    """Frequencies that fit all node sums best and add up to everybody."""
    channel = built(f"hierarchy-{branching}", size)
    rng = np.random.default_rng(size)
    sums, people = rng.normal(size=sum(channel.counts)), 5.0
    nodes = np.split(sums, np.cumsum(channel.counts)[:-1])
    matrix, free = design(channel), null_space(np.ones((1, size)))
    start = np.full(size, people / size)
    best = np.linalg.lstsq(matrix @ free, sums - matrix @ start, rcond=None)[0]
    found = channel.unwrite(np.array([people]), nodes)
    np.testing.assert_allclose(found, start + free @ best, atol=1e-10)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", SIZES)
def test_what_is_written_is_the_function_and_frequencies_are_its_transpose(name, size):
    channel = built(name, size)
    functions = np.concatenate([ranges(size), np.random.default_rng(2).normal(size=(5, size))])
    written = channel.write(functions)
    again = np.repeat(written.constant, size, axis=1)
    for width, weights in zip(channel.widths, written.weights, strict=True):
        place = np.arange(size) // width
        if channel.signed:
            again += weights[:, place >> 1] * (1 - 2 * (place & 1))
        else:
            again += weights[:, place]
    np.testing.assert_allclose(again, functions, atol=1e-12)
    decoders = channel.moments.coefficients(np.eye(size))
    np.testing.assert_allclose(
        channel.moments.frequencies(np.eye(channel.outputs)), decoders, atol=1e-9
    )


@pytest.mark.parametrize("name", EVERY)
def test_constants_cost_nothing(name):
    channel = built(name, 13)
    np.testing.assert_allclose(channel.moments.coefficients(np.full(13, 2.5)), 2.5, atol=1e-12)


def canonical(branching, width, start, low, high, size):
    """The largest nodes inside low .. high, each as (width, number), from this node down."""
    end = min(start + width, size)
    if end <= low or high < start:
        return set()
    if low <= start and end <= high + 1:
        return {(width, start // width)}
    below = width // branching
    children = range(start, end, below)
    return set().union(*(canonical(branching, below, s, low, high, size) for s in children))


@pytest.mark.parametrize("branching", [2, 3, 4])
@pytest.mark.parametrize("size", [2, 5, 9, 16, 17, 28])
def test_plain_hierarchies_take_the_canonical_decomposition(size, branching):
    channel = built(f"hierarchy-{branching}-plain", size)
    root = channel.widths[0] * channel.branching
    written = channel.write(ranges(size))
    for row, (low, high) in enumerate(zip(*np.triu_indices(size), strict=True)):
        found = {
            (width, int(node))
            for width, weights in zip(channel.widths, written.weights, strict=True)
            for node in np.flatnonzero(weights[row])
        }
        whole = high - low + 1 == size
        assert found == (set() if whole else canonical(channel.branching, root, 0, low, high, size))
        assert written.constant[row, 0] == whole
    assert set(np.unique(np.concatenate(written.weights, axis=1))) <= {0.0, 1.0}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [2, 3, 5, 6])
@pytest.mark.parametrize("epsilon", ["0.3", "2"])
def test_every_branching_is_unbiased_with_its_exact_moments(name, size, epsilon):
    """The registered names are enumerated by the tests of all channels; these are the others."""
    channel = built(name, size, epsilon)
    f = np.concatenate([ranges(size), np.random.default_rng(3).normal(size=(4, size))])
    g = f[::-1].copy()
    decoded, other = channel.moments.coefficients(f), channel.moments.coefficients(g)
    moment, decoder = channel.moments.second_moment_estimator(f, g)
    for x in range(size):
        law = np.array([float(p) for p in exact_law(channel, x).values()])
        assert law.sum() == pytest.approx(1)
        np.testing.assert_allclose(decoded @ law, f[:, x], atol=1e-10)
        np.testing.assert_allclose(moment[:, x], (decoded * other) @ law, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(decoder @ law, moment[:, x], rtol=1e-10, atol=1e-8)
        np.testing.assert_allclose(channel.moments.mean(decoded)[:, x], decoded @ law, atol=1e-10)
    np.testing.assert_allclose(
        channel.moments.second_moment(f), channel.moments.mean(decoded**2), rtol=1e-9
    )


def test_least_squares_are_never_worse_than_the_fewest_nodes():
    for branching, size in ((2, 16), (2, 21), (3, 27), (4, 30)):
        noise = []
        for name in (f"hierarchy-{branching}", f"hierarchy-{branching}-plain"):
            written = built(name, size).write(ranges(size))
            noise.append(sum((w**2).sum(axis=1) for w in written.weights))
        assert (noise[0] <= noise[1] + 1e-12).all()
        assert noise[0].sum() < 0.8 * noise[1].sum()


# The sampler and its certificate


@pytest.mark.parametrize(
    "channel",
    [
        Haar(3, 11 << 60),
        Haar(4, 11 << 60),
        Hierarchy(2, 11 << 60, 2),
        Hierarchy(4, 11 << 60, 2),
        PlainHierarchy(4, 11 << 60, 3),
    ],
    ids=repr,
)
def test_the_law_of_the_sampler_on_every_coin(channel):
    levels = len(channel.counts)
    assert levels in (1, 2)
    word = (max(channel.counts) - 1).bit_length()
    for x in range(channel.size):
        randomness = EveryCoin(4 + word * (1 + (levels > 1)), word=word)
        assert sampled_law(channel, x, randomness) == exact_law(channel, x)


@pytest.mark.parametrize("name", EVERY)
def test_one_unit_more_is_not_certified(name):
    channel = built(name, 9)
    assert prove(channel, Uniform(Fraction(1)))[0].holds
    more = type(channel)(*[channel.size, channel.keep + 1, *_branching(channel)])
    assert not prove(more, Uniform(Fraction(1)))[0].holds


def _branching(channel):
    return [channel.branching] if isinstance(channel, Hierarchy) else []


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [2, 9, 257])
def test_without_noise_both_ways_send_true_signs(name, size):
    channel = built(name, size, 64)
    words = Words(Randomness.seeded(4).draw)
    for x in {0, 1, size // 2, size - 1}:
        for report in (
            *channel.sample(np.full(50, x), Randomness.seeded(x)),
            channel.distribution.draw(x, words),
        ):
            assert channel.probability(x, np.asarray(report)) > Fraction(1, 1 << 20)


# The error


@pytest.mark.parametrize("name", [name for name in EVERY if "plain" not in name])
@pytest.mark.parametrize("size", SIZES)
def test_the_mean_error_of_ranges_is_that_of_all_ranges(name, size):
    channel = built(name, size, "0.7")
    functions = ranges(size)
    listed = (channel.moments.second_moment(functions) - functions**2).mean()
    assert channel.moments.mean_range_variance() == pytest.approx(listed, rel=1e-10)


def oracle(epsilon):
    """V of the paper, and the exact factor V + 1 (see `levels`)."""
    published = 4 * np.exp(epsilon) / np.expm1(epsilon) ** 2
    assert 1 / np.tanh(epsilon / 2) ** 2 == pytest.approx(published + 1)
    return published + 1


@pytest.mark.parametrize("size", [16, 27, 64, 81, 100])
@pytest.mark.parametrize("branching", [2, 3, 4, 8])
def test_hierarchies_stay_below_the_published_bounds(branching, size):
    """Of consistent trees with ceil(log_B r) + 1, as for plain ones: log_B r is 0 for one value."""
    functions = ranges(size)
    length = functions.sum(axis=1)
    digits = np.array([len(np.base_repr(int(r - 1), branching)) if r > 1 else 0 for r in length])
    for epsilon in (0.1, 1.0, 3.0):
        plain = built(f"hierarchy-{branching}-plain", size, str(epsilon))
        levels = len(plain.counts)
        worst = (plain.moments.second_moment(functions) - functions**2).max(axis=1)
        per_level = (digits + 1) * levels * oracle(epsilon)
        assert (worst <= 2 * (branching - 1) * per_level * (1 + 1e-9)).all()
        consistent = built(f"hierarchy-{branching}", size, str(epsilon))
        worst = (consistent.moments.second_moment(functions) - functions**2).max(axis=1)
        assert (worst <= (branching + 1) / 2 * per_level * (1 + 1e-9)).all()
        assert worst.max() > 0.1 * ((branching + 1) / 2 * per_level).max(), "of the same order"


@pytest.mark.parametrize("size", [2, 16, 21, 64, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_haar_wavelet_stays_below_the_published_bound(size, epsilon):
    functions = ranges(size)
    channel = built("haar", size, str(epsilon))
    worst = (channel.moments.second_moment(functions) - functions**2).max()
    bound = len(channel.counts) ** 2 / 2 * oracle(epsilon)
    assert 0.2 * bound < worst + 0.25 <= bound + 0.25


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *(
            pytest.param(name, 12, marks=pytest.mark.slow)
            for name in ("hierarchy-2", "hierarchy-4")
        ),
        *(("hierarchy-2", 8), ("hierarchy-4", 8), ("hierarchy-4-plain", 8), ("haar", 8)),
        pytest.param("haar", 12, marks=pytest.mark.slow),
    ],
)
def test_errors_grow_with_a_power_of_the_logarithm_of_the_size(name, most):
    logs = range(4, most + 1)
    channels = [built(name, 1 << k) for k in logs]
    if channels[0].is_linear:
        errors = [channel.moments.mean_range_variance() for channel in channels]
    else:
        every = [ranges(channel.size) for channel in channels]
        pairs = zip(channels, every, strict=True)
        errors = [(channel.moments.second_moment(f) - f**2).mean() for channel, f in pairs]
    assert (np.diff(errors) > 0).all()
    power = np.polyfit(np.log(logs), np.log(errors), 1)[0]
    assert 1 < power < 3


def test_thousands_of_values_need_no_matrix():
    functions = (np.arange(4096) < np.array([[1], [1000], [4095]])).astype(float)
    for name in ("hierarchy-2", "hierarchy-16-plain", "haar"):
        channel = built(name, 4096)
        decoded = channel.moments.coefficients(functions)
        np.testing.assert_allclose(channel.moments.mean(decoded), functions, atol=1e-9)
        np.testing.assert_allclose(
            channel.moments.mean(decoded**2), channel.moments.second_moment(functions)
        )


# Simulated


def check_people(channel, drawn_by, *, n=400_000, seed=21):
    """Decoded reports have the mean f, inside and outside of a range, and the exact variance.

    Mean and variance alarm once in 10^9 times each.
    The variance of a squared error is exact as well: its fourth moment is a mean over reports.
    """
    size = channel.size
    f = (np.arange(size) >= size // 3).astype(float) - (np.arange(size) > 2 * size // 3)
    coefficients = channel.moments.coefficients(f)
    positions = np.random.default_rng(seed).integers(0, size, n)
    errors = coefficients[drawn_by.sample(positions, Randomness.seeded(seed))] - f[positions]
    variance = channel.moments.second_moment(f) - f**2
    fourth = np.array([channel.moments.mean((coefficients - f[x]) ** 4)[x] for x in range(size)])
    spread = (fourth - variance**2)[positions].mean()
    expected = variance[positions]
    for inside in (f[positions] == 1, f[positions] == 0):
        assert_mean(errors[inside], 0.0, variance=expected[inside].mean(), false_alarm=1e-9 / 2)
    assert_mean(errors**2 - expected, 0.0, variance=spread, false_alarm=1e-9)


SIMULATED = [
    (name, size, epsilon)
    for name in ("hierarchy-2", "hierarchy-4", "hierarchy-3-plain", "haar")
    for size, epsilon in ((12, "0.5"), (30, "2"))
]


@pytest.mark.parametrize(("name", "size", "epsilon"), SIMULATED)
def test_simulated_errors_are_those_of_the_formula(name, size, epsilon):
    channel = built(name, size, epsilon)
    check_people(channel, channel)


def turned(channel, by):
    """The same with signs that are kept more or less often by this share of t."""
    keep = channel.keep + int(by * (channel.keep - (1 << 63)))
    return type(channel)(*[channel.size, keep, *_branching(channel)])


@dataclass(frozen=True)
class TopLevels(Hierarchy):
    """Draws the last level once more, and so too rarely."""

    def sample(self, positions, randomness):
        column = super().sample(positions, randomness)
        last = self._starts[-1]
        again = super().sample(positions, randomness)
        return np.where((column >= last) & (again < last), again, column)


@pytest.mark.parametrize("name", ["hierarchy-2", "hierarchy-3-plain", "haar"])
@pytest.mark.parametrize("by", [-0.1, 0.1])
def test_broken_signs_are_caught(name, by):
    channel = built(name, 12, "2")
    with pytest.raises(AssertionError):
        check_people(channel, turned(channel, by))


def test_a_level_drawn_too_rarely_is_caught():
    channel = built("hierarchy-2", 12, "2")
    broken = TopLevels(channel.size, channel.keep, channel.branching)
    with pytest.raises(AssertionError):
        check_people(channel, broken)


def check_tallies(survey, drawn_by, *, n=2000, trials=150):
    """Squared errors of counts over their exact variance: chi-squared, one alarm in 10^9."""
    ages = np.random.default_rng(5).binomial(19, 0.4, n)
    where, truth = {"v": (4, 9)}, int(((ages >= 4) & (ages <= 9)).sum())
    prior = np.bincount(ages, minlength=20) / n
    variance = survey.expected_error(where, n=n, prior=prior).stderr ** 2
    found = []
    for trial in range(trials):
        reports = drawn_by.randomize({"v": ages}, randomness=Randomness.seeded(trial))
        found.append(survey.tally(survey_reports(survey, reports)).count(where).value)
    total = ((np.array(found) - truth) ** 2).sum() / variance
    tails = stats.chi2.cdf(total, trials), stats.chi2.sf(total, trials)
    assert min(tails) > 1e-9 / 2, f"errors are {total / trials:.2f} of what they should be"


def survey_reports(survey, reports):
    """The same reports as if they were made for another survey."""
    meta = survey.randomize({"v": [0]}, randomness=Randomness.seeded(0)).schema.metadata
    return reports.replace_schema_metadata(meta)


@pytest.mark.parametrize("epsilon", [0.5, 2])
@pytest.mark.parametrize(
    "mechanism", ["hierarchy-2", "hierarchy-4-plain", "hierarchy-3-unary", "haar"]
)
def test_counts_have_their_error(mechanism, epsilon):
    survey = Survey.design({"v": Integer(0, 19, epsilon=epsilon, mechanism=mechanism, per=1)})
    check_tallies(survey, survey)


def test_counts_with_too_much_noise_are_caught():
    survey, noisy = (
        Survey.design({"v": Integer(0, 19, epsilon=epsilon, mechanism="haar", per=1)})
        for epsilon in (2, 1)
    )
    with pytest.raises(AssertionError):
        check_tallies(survey, noisy)


# Unary encoding of the nodes


def unary(branching, size, epsilon=1):
    channel = build(f"hierarchy-{branching}-unary", size, Uniform(Fraction(epsilon)))
    assert isinstance(channel, UnaryHierarchy)
    return channel


@pytest.mark.parametrize("branching", [2, 3, 4])
@pytest.mark.parametrize("size", [2, 3, 5, 6, 8])
@pytest.mark.parametrize("epsilon", ["0.3", "2"])
def test_unary_nodes_are_unbiased_with_their_exact_moments(branching, size, epsilon):
    channel = unary(branching, size, epsilon)
    f = np.concatenate([ranges(size), np.random.default_rng(3).normal(size=(4, size))])
    g = f[::-1].copy()
    reports = channel.every_report()
    assert len({bytes(report) for report in reports}) == sum(1 << count for count in channel.counts)
    features = channel.features(reports).astype(float)
    decoded, other = (channel.moments.coefficients(h) @ features.T for h in (f, g))
    np.testing.assert_allclose(channel.values(reports, channel.moments.coefficients(f)), decoded)
    moment, decoder = channel.moments.second_moment_estimator(f, g)
    for x in range(size):
        law = np.array([float(p) for p in exact_law(channel, x).values()])
        np.testing.assert_allclose(decoded @ law, f[:, x], atol=1e-10)
        np.testing.assert_allclose(moment[:, x], (decoded * other) @ law, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(decoder @ features.T @ law, moment[:, x], rtol=1e-10, atol=1e-7)


@pytest.mark.parametrize("branching", [2, 3, 4, 7])
@pytest.mark.parametrize("size", SIZES)
def test_weights_of_a_level_add_up_to_nothing(branching, size):
    """So q cancels out."""
    channel = unary(branching, size)
    written = channel.write(ranges(size))
    for weights in written.weights:
        np.testing.assert_allclose(weights.sum(axis=1), 0, atol=1e-13)
    functions = ranges(size)
    listed = (channel.moments.second_moment(functions) - functions**2).mean()
    assert channel.moments.mean_range_variance() == pytest.approx(listed, rel=1e-10)
    decoders = channel.moments.coefficients(np.eye(size))
    np.testing.assert_allclose(
        channel.moments.frequencies(np.eye(channel.moments.feature_count)), decoders, atol=1e-9
    )
    alone = channel.moments.coefficients(np.full(size, 2.5))
    np.testing.assert_allclose(alone, np.eye(1, channel.moments.feature_count)[0] * 2.5, atol=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "by_bits", "by_signs"), [("1", 44.13, 55.09), ("2", 9.22, 20.18), ("4", 1.57, 12.5)]
)
def test_unary_nodes_gain_with_epsilon(epsilon, by_bits, by_signs):
    assert unary(4, 256, epsilon).mean_range_variance() == pytest.approx(by_bits, rel=3e-3)
    signs = built("hierarchy-4", 256, epsilon).mean_range_variance()
    assert signs == pytest.approx(by_signs, rel=3e-3)


@pytest.mark.parametrize(("epsilon", "best"), [("0.5", "haar"), ("0.8", "haar"), ("1.1", "unary")])
@pytest.mark.parametrize("size", [64, 256, 1024, pytest.param(4096, marks=pytest.mark.slow)])
def test_haar_is_best_up_to_an_epsilon_of_about_one(size, epsilon, best):
    haar = built("haar", size, epsilon).mean_range_variance()
    assert (haar < unary(4, size, epsilon).mean_range_variance()) == (best == "haar")


def test_one_unit_less_of_noise_is_not_certified():
    channel = unary(3, 9)
    assert prove(channel, Uniform(Fraction(1)))[0].holds
    less = UnaryHierarchy(channel.size, channel.other - 1, channel.branching)
    assert not prove(less, Uniform(Fraction(1)))[0].holds


@pytest.mark.parametrize(("branching", "size"), [(2, 2), (2, 9), (4, 16), (3, 257), (8, 8)])
def test_what_no_device_sends_is_refused(branching, size):
    """Any other bit of a report set: one behind its level, or behind all."""
    channel = unary(branching, size)
    column = channel.sample(np.arange(size).repeat(20), Randomness.seeded(3))
    assert not channel.field.invalid(column).any()
    levels = channel.field.level(column)
    assert set(levels.tolist()) == set(range(len(channel.counts)))
    for level, count in enumerate(channel.counts):
        row = column[levels == level][:1]
        for bit in range(8 * channel.field.width):
            if size <= bit < channel.bits:
                continue
            other = row.copy()
            other[0, bit >> 3] ^= 1 << (bit & 7)
            assert channel.field.invalid(other)[0] == (bit >= count)
    digits = channel.bits - size
    for level in range(len(channel.counts), 1 << digits):
        assert channel.field.invalid(channel.field.labelled(np.array([level])))[0]


def fourth_moments(channel, f):
    """E[(F - f(x))^4 | x] from the cumulants of the bits, level by level."""
    written, size = channel.write(f), channel.size
    q, levels = channel.other / WORD, len(channel.counts)
    found = np.zeros(size)
    for width, weights in zip(channel.widths, written.weights, strict=True):
        a = levels * weights / (0.5 - q)
        for x in range(size):
            p = np.full(len(a), q)
            p[x // width] = 0.5
            off = written.constant[0] + a @ p - f[x]
            v = p * (1 - p)
            two, three, four = a**2 @ v, a**3 @ (v * (1 - 2 * p)), a**4 @ (v * (1 - 6 * v))
            found[x] += off**4 + 6 * off**2 * two + 4 * off * three + four + 3 * two**2
    return found / levels


def check_bits(channel, drawn_by, *, n=400_000, seed=22):
    """As `check_people`: mean and variance alarm once in 10^9 times each."""
    size = channel.size
    f = (np.arange(size) >= size // 3).astype(float) - (np.arange(size) > 2 * size // 3)
    positions = np.random.default_rng(seed).integers(0, size, n)
    column = drawn_by.sample(positions, Randomness.seeded(seed))
    errors = channel.values(column, channel.moments.coefficients(f)[None])[0] - f[positions]
    variance = channel.moments.second_moment(f) - f**2
    spread = (fourth_moments(channel, f) - variance**2)[positions].mean()
    expected = variance[positions]
    for inside in (f[positions] == 1, f[positions] == 0):
        assert_mean(errors[inside], 0.0, variance=expected[inside].mean(), false_alarm=1e-9 / 2)
    assert_mean(errors**2 - expected, 0.0, variance=spread, false_alarm=1e-9)


@pytest.mark.parametrize("branching", [2, 4])
@pytest.mark.parametrize(("size", "epsilon"), [(12, "0.5"), (30, "2")])
def test_simulated_errors_of_unary_nodes_are_those_of_the_formula(branching, size, epsilon):
    channel = unary(branching, size, epsilon)
    check_bits(channel, channel)


@dataclass(frozen=True)
class BitsDrawnTwice(UnaryHierarchy):
    """Where both draws take the same level, a bit is a one if either of the two is."""

    def sample(self, positions, randomness):
        first, second = (
            super(BitsDrawnTwice, self).sample(positions, randomness) for _ in range(2)
        )
        same = self.field.level(first) == self.field.level(second)
        return np.where(same[:, None], first | second, first)


@pytest.mark.parametrize("by", [-0.1, 0.1])
def test_broken_bits_are_caught(by):
    channel = unary(2, 12, "2")
    other = UnaryHierarchy(channel.size, int(channel.other * (1 + by)), channel.branching)
    with pytest.raises(AssertionError):
        check_bits(channel, other)


def test_bits_drawn_twice_are_caught():
    channel = unary(2, 12, "2")
    with pytest.raises(AssertionError):
        check_bits(channel, BitsDrawnTwice(channel.size, channel.other, channel.branching))


# Surveys


@pytest.mark.parametrize("mate", ["hierarchy-2-unary", "threshold", "haar"])
def test_unary_hierarchies_answer_the_same_in_every_layout(mate):
    attributes = {
        "v": Integer(0, 8, epsilon=2, mechanism="hierarchy-3-unary", per=1),
        "w": Integer(0, 4, epsilon=2, mechanism=mate, per=1),
    }
    survey = Survey.design(attributes)
    rng = np.random.default_rng(7)
    people = {"v": rng.integers(0, 9, 500), "w": rng.integers(0, 5, 500)}
    reports = survey.randomize(people, randomness=Randomness.seeded(7))
    tallies = [survey.tally(reports, layout=layout) for layout in ("reports", "cells", "prefix")]
    tallies.append(survey.tally(reports, keep=[["v", "w"]]))
    for where in ({"v": (2, 5)}, {"w": (1, 3)}, {"v": (0, 6), "w": 2}, {}):
        first, *others = (tally.count(where) for tally in tallies)
        for other in others:
            assert other.value == pytest.approx(first.value)
            assert other.stderr == pytest.approx(first.stderr)


def test_plain_hierarchies_answer_the_same_whatever_the_question_is_part_of():
    """Their decoders do not add up, so nothing is found by adding."""
    survey = Survey.design({"v": Integer(0, 8, epsilon=1, mechanism="hierarchy-2-plain", per=1)})
    assert not survey.channels["v"].is_linear
    people = {"v": np.random.default_rng(6).integers(0, 9, 300)}
    reports = survey.randomize(people, randomness=Randomness.seeded(6))
    tallies = [survey.tally(reports, layout=layout) for layout in ("reports", "prefix")]
    answers = tallies[0].workload("v", "ranges")
    predicted = 0.0
    for (low, high), (_, answer) in zip(
        zip(*np.triu_indices(9), strict=True), answers, strict=True
    ):
        where = {"v": (int(low), int(high))}
        one, other = (tally.count(where) for tally in tallies)
        assert one.value == pytest.approx(other.value)
        assert one.stderr == pytest.approx(other.stderr)
        assert answer.value == pytest.approx(one.value)
        assert answer.stderr == pytest.approx(one.stderr)
        predicted += survey.expected_error(where, n=300, prior="uniform").stderr ** 2
    assert answers.values.tolist() == [answer.value for _, answer in answers]
    assert total_error(survey, "v", "ranges", n=300, prior="uniform") == pytest.approx(predicted)
    with pytest.raises(QueryError, match="use layout 'prefix' or 'reports'"):
        survey.tally(reports, layout="cells").count({"v": (1, 3)})


def test_any_branching_can_be_named(tmp_path):
    for branching, levels in ((2, 10), (16, 3), (1000, 1), (999_999_999, 1)):
        for end in ("", "-plain", "-unary"):
            attribute = Integer(0, 999, epsilon=1, mechanism=f"hierarchy-{branching}{end}", per=1)
            survey = Survey.design({"v": attribute})
            channel = survey.channels["v"]
            assert len(channel.counts) == levels
            assert isinstance(channel, PlainHierarchy) == (end == "-plain")
            assert isinstance(channel, UnaryHierarchy) == (end == "-unary")
            assert survey.certify().holds
    survey.save(tmp_path / "survey.toml")
    assert Survey.load(tmp_path / "survey.toml") == survey


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "-0",
        "-1",
        "-1-plain",
        "-1-unary",
        "-2-plain-unary",
        "-02",
        "--2",
        "-2.5",
        "-x",
        "-2-flat",
        "-2 ",
        "-²",
        "-10000000000",
    ],
)
def test_what_names_no_tree_is_refused(name):
    with pytest.raises(InvalidSpecError, match="B of at least 2, such as hierarchy-4"):
        Survey.design({"v": Integer(0, 9, epsilon=1, mechanism=f"hierarchy{name}", per=1)})


@pytest.mark.parametrize("mechanism", ["haar", "hierarchy-2", "hierarchy-16", "hierarchy-x"])
def test_categories_have_no_order(mechanism):
    refused = "names no tree" if mechanism[-1] == "x" else "does not support categorical attributes"
    with pytest.raises(InvalidSpecError, match=refused):
        Survey.design({"c": Categorical(["a", "b"], epsilon=1, mechanism=mechanism)})
