"""Several attributes as one: a channel of one integer over the cells of their grid."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import given_numbers
from checks import assert_counts
from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
)
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.joint_cells import REPORT, Cells
from metricldp.mechanisms.moments import ranges_gram
from metricldp.mechanisms.table import TableChannel
from metricldp.survey.blocks import grid_of
from metricldp_core.exact import at_most_exp

X, Y = Integer(0, 1, epsilon=1, within=1), Integer(0, 2, epsilon=1, within=1)
NEAR = [Integer(0, 1, epsilon=epsilon, per=1) for epsilon in (1, 0.5)]
BINS = [Continuous(0, n, bins=n, epsilon=1, within=1, max_epsilon=2) for n in (3, 2)]
CIRCLE = Integer(0, 2, cyclic=True, epsilon=0.5, per=1)
C = Categorical(["a", "b"], epsilon=0.5)
SHAPES = {
    "shapes": ["2110", "1201", "1021", "0112", "1001", "0110"],
    "tops": ["7720eb65f042ce60"] * 4 + ["18326733de05502f"] * 2,
}
PRIOR = [1, 2, 3, 30]


def plane(name, **data):
    return {"name": name, "metric": "plane", **data}


def added(metric, around, *patterns):
    return {"name": "additive", "metric": metric, "around": around, "patterns": list(patterns)}


def survey_of(mechanism, names="xy", **attributes):
    return given_numbers.design(attributes, {tuple(names): mechanism})


SURVEYS = [
    survey_of(added("plane", [4, 5], "32101210121010121012", "21212321234321232101"), x=X, y=Y),
    survey_of(added("sum", [4, 5], "21212321234321232101"), x=X, y=Y, c=C),
    survey_of(added("plane", [5, 4], "11101011101011111011"), x=BINS[0], y=BINS[1]),
    survey_of(
        added("sum", [2, 3, 2], "001011111111"),
        "xyc",
        **{"x": NEAR[1], "y": CIRCLE, "z": Ordinal(["no", "yes"], epsilon=1), "c": C},
    ),
    survey_of(plane("tight-constraints"), x=NEAR[0], y=NEAR[1]),
    survey_of(plane("extremal", **SHAPES), x=X, y=X),
]
"""Given patterns and shapes of two attributes, and of three."""


def blocks():
    for survey in SURVEYS:
        yield survey, *survey.blocks.values()


@pytest.fixture(params=SURVEYS, ids=range(len(SURVEYS)))
def survey(request):
    return request.param


def cells_of(block):
    return list(np.ndindex(*block.sizes))


def test_the_loss_of_all_reports_is_within_the_metric(survey):
    (block,) = survey.blocks.values()
    described = {name: survey.attributes[name] for name in block.names}
    channel, promised = block.channel, grid_of(described, block.group.metric)
    reports = range(channel.one.outputs)
    laws = [[channel.probability(x, {REPORT: y}) for y in reports] for x in cells_of(block)]
    assert all(sum(law) == 1 for law in laws)
    for x, other in itertools.combinations(range(len(laws)), 2):
        ratios = [max(p / q, q / p) for p, q in zip(laws[x], laws[other], strict=True)]
        assert max(ratios) == channel.distribution.ratio(x, other)
        assert at_most_exp(max(ratios), promised.distance(x, other))
    assert survey.certify().holds
    chances = np.array(laws, dtype=float)
    assert np.allclose(chances, shares_of(channel), rtol=1e-12)


def shares_of(channel):
    """P(y | cell), (cells, reports)."""
    return np.exp(channel.one.log_likelihood(channel.one.every_report())).T


def decoder_of(channel):
    """That of the count of each cell, (cells, reports)."""
    return channel.one.moments.coefficients(np.eye(channel.one.size))


def functions_of(block, count=3, seed=5):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(count, size)) for size in block.sizes]


def expanded(terms, block):
    total = np.zeros((len(terms[0].scale), *block.sizes))
    for term in terms:
        total += np.einsum(*_letters([term.scale, *term.factors]))
    return total.reshape(len(total), -1)


def _letters(arrays):
    """The arguments of an outer product over all but the first axis."""
    pairs = [(array, [0, d] if d else [0]) for d, array in enumerate(arrays)]
    return *(part for pair in pairs for part in pair), list(range(len(arrays)))


def enumerated(block):
    """What decoders of products, and their moments, are by all reports."""
    channel, f, g = block.channel, functions_of(block), functions_of(block, seed=6)
    every = channel.every_report()
    laws = np.array(
        [
            [float(channel.probability(x, {REPORT: y})) for y in range(channel.one.outputs)]
            for x in cells_of(block)
        ]
    )
    F, G = channel.decoded(f, every), channel.decoded(g, every)
    true = np.einsum(*_letters([np.ones(3), *f])).reshape(3, -1)
    means = np.allclose(F @ laws.T, true, atol=1e-8)
    seconds = np.allclose((F * G) @ laws.T, expanded(channel.second_moment(f, g), block), rtol=1e-8)
    return means, seconds, np.allclose(np.abs(F).max(axis=1), channel.influence(f))


def test_decoders_are_unbiased_with_exact_moments(survey):
    (block,) = survey.blocks.values()
    assert enumerated(block) == (True, True, True)


def test_broken_decoders_are_caught():
    ((_, block),) = itertools.islice(blocks(), 4, 5)
    moments = block.channel.one.moments
    moments.__dict__["_decoder"] = moments._decoder * 1.001
    assert not enumerated(block)[0]
    moments.probabilities = np.roll(moments.probabilities, 1, axis=0)
    assert not enumerated(block)[1]


def test_sampler_has_the_probabilities_of_the_channel(survey):
    (block,) = survey.blocks.values()
    randomness, n = Randomness.seeded(3), 60_000
    for x in cells_of(block)[:5]:
        law = [block.channel.probability(x, {REPORT: y}) for y in range(block.channel.one.outputs)]
        positions = [np.full(n, p) for p in x]
        drawn = block.channel.sample(positions, randomness)[REPORT]
        assert_counts(np.bincount(drawn, minlength=len(law)), law, false_alarm=1e-8)


def test_cells_in_rows():
    table = TableChannel.of([[1 << 63, 1 << 63]] * 24)
    channel = Cells((2, 3, 4), table)
    assert channel.distribution == table.distribution
    assert [channel._cell(x) for x in [(0, 0, 1), (0, 1, 0), (1, 0, 0)]] == [1, 4, 12]
    assert channel.bits == 1


def test_reports_that_tell_nothing_are_not_decoded():
    half = [1 << 63, 1 << 63]
    with pytest.raises(QueryError, match="the reports do not determine the count of position 0"):
        Cells((2, 2), TableChannel.of([half] * 4)).decoder([np.eye(2)[:1]] * 2)


def test_reports_that_tell_little_are_decoded_without_bias():
    """Cells whose laws differ by a few parts in 100,000: rounding alone would show."""
    half = 1 << 62
    rows = [[half + (x << 44) * (y == x) for y in range(3)] for x in (0, 1, 2, 3)]
    channel = Cells((2, 2), TableChannel.of([[*row, (1 << 64) - sum(row)] for row in rows]))
    with pytest.raises(QueryError):  # two of four reports tell of four cells
        channel.decoder([np.eye(2)[:1]] * 2)
    rows = [[half + (1 << 45) * (y == x) for y in range(4)] for x in range(4)]
    table = TableChannel.of([[*row, (1 << 64) - sum(row)] for row in _lowered(rows)])
    channel = Cells((2, 2), table)
    assert np.abs(decoder_of(channel) @ shares_of(channel).T - np.eye(4)).max() < 1e-8


def _lowered(rows):
    return [[weight - (1 << 50) for weight in row] for row in rows]


def test_a_prior_weighs_reports():
    """The decoder of a channel with a prior is the best one for people spread like that."""
    (known,) = survey_of(plane("extremal", prior=PRIOR, **SHAPES), x=X, y=X).blocks.values()
    (usual,) = SURVEYS[5].blocks.values()
    spread = np.array(PRIOR) / sum(PRIOR)
    shares = shares_of(known.channel)
    squares = [
        (decoder_of(channel) ** 2 @ (spread @ shares)).sum()
        for channel in (known.channel, usual.channel)
    ]
    assert squares[0] < squares[1]
    assert np.allclose(decoder_of(known.channel) @ shares.T, np.eye(4))


def test_the_mean_square_is_that_of_the_decoders():
    for _, block in blocks():
        channel, size = block.channel, np.prod(block.sizes)
        rows = np.random.default_rng(1).normal(size=(5, size))
        decoders = rows @ decoder_of(channel)
        expected = ((decoders**2) @ shares_of(channel).T).mean(axis=1).sum()
        assert channel.one.moments.mean_square(rows.T @ rows) == pytest.approx(
            expected * 1.0, rel=1e-9
        )


def test_decoders_are_the_best_for_people_spread_evenly():
    """No other unbiased decoder of a count has a smaller mean square."""
    ((_, block),) = itertools.islice(blocks(), 1)
    channel, rng = block.channel, np.random.default_rng(1)
    shares, decoder = shares_of(channel), decoder_of(channel)
    weight = shares.mean(axis=0)
    best = (decoder**2 @ weight).sum()
    for _ in range(20):
        moved = rng.normal(size=decoder.shape)
        moved -= moved @ np.linalg.pinv(shares) @ shares  # means stay what they are
        assert ((decoder + 0.01 * moved) ** 2 @ weight).sum() >= best * (1 - 1e-12)


def test_mean_square_of_additive_noise_on_a_torus():
    wound = AdditiveChannel.of(
        (2, 3), (3, 4), ((0, 1, 2, 1, 1, 2, 2, 2, 1, 2, 3, 2),), Fraction(1, 2)
    )
    grams = [np.eye(2), ranges_gram(3)]
    found = Cells((2, 3), wound).mean_square(grams)
    assert found == pytest.approx(wound.moments.mean_square(np.kron(*grams)))
