"""Several attributes as one: a channel of one integer over the cells of their grid."""

import itertools
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from checks import assert_counts
from metricldp import QueryError, Randomness, Survey
from metricldp.channels.base import ranges_gram
from metricldp.channels.cells import REPORT, Cells
from metricldp.channels.levels import in_text, to_text
from metricldp.channels.table import Table
from metricldp.channels.wound import Wound
from metricldp.design.cells import grid_of
from metricldp_core.exact import WORD, at_most_exp
from metricldp_core.random_words import Words

FACTS = Path(__file__).parents[2] / "vectors" / "cells.json"
SURVEYS = [entry["survey"] for entry in json.loads(FACTS.read_text("utf-8"))["surveys"]]
SURVEYS[3]["joint"][0]["mechanism"]["patterns"] = ["001011111111"]  # theirs tells nothing


def blocks():
    """Those that vectors hold: stated patterns and shapes of two attributes, and of three."""
    for said in SURVEYS:
        survey = Survey.from_dict(said)
        yield survey, *survey.blocks.values()


@pytest.fixture(params=range(len(SURVEYS)))
def survey(request):
    return Survey.from_dict(SURVEYS[request.param])


def cells_of(block):
    return list(np.ndindex(*block.sizes))


def test_the_loss_of_all_reports_is_within_the_metric(survey):
    (block,) = survey.blocks.values()
    described = {name: survey.attributes[name] for name in block.names}
    channel, promised = block.channel, grid_of(described, block.mechanism.metric)
    reports = range(channel.one.outputs)
    laws = [[channel.probability(x, {REPORT: y}) for y in reports] for x in cells_of(block)]
    assert all(sum(law) == 1 for law in laws)
    for x, other in itertools.combinations(range(len(laws)), 2):
        ratios = [max(p / q, q / p) for p, q in zip(laws[x], laws[other], strict=True)]
        assert max(ratios) == channel.distribution.ratio(promised.cell(x), promised.cell(other))
        assert at_most_exp(max(ratios), promised.distance(x, other))
    assert survey.certify().holds
    chances = np.array(laws, dtype=float)
    assert np.allclose(chances, shares_of(channel), rtol=1e-12)


def shares_of(channel):
    """P(y | cell), (cells, reports)."""
    return np.exp(channel.one.log_chances(channel.one.every_report())).T


def decoder_of(channel):
    """That of the count of each cell, (cells, reports)."""
    return channel.one.coefficients(np.eye(channel.one.size))


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
    seconds = np.allclose((F * G) @ laws.T, expanded(channel.moment(f, g), block), rtol=1e-8)
    return means, seconds, np.allclose(np.abs(F).max(axis=1), channel.influence(f))


def test_decoders_are_unbiased_with_exact_moments(survey):
    (block,) = survey.blocks.values()
    assert enumerated(block) == (True, True, True)


def test_broken_decoders_are_caught():
    ((_, block),) = itertools.islice(blocks(), 4, 5)
    one = block.channel.one
    one.__dict__["_decoder"] = one._decoder * 1.001
    assert not enumerated(block)[0]
    one.__dict__["_shares"] = np.roll(one._shares, 1, axis=0)
    assert not enumerated(block)[1]


def test_both_samplers_have_the_law(survey):
    (block,) = survey.blocks.values()
    randomness, n = Randomness.seeded(3), 60_000
    for x in cells_of(block)[:5]:
        law = [block.channel.probability(x, {REPORT: y}) for y in range(block.channel.one.outputs)]
        positions = [np.full(n, p) for p in x]
        drawn = block.channel.encode(positions, randomness)[REPORT]
        assert_counts(np.bincount(drawn, minlength=len(law)), law, false_alarm=1e-8)
        words = Words(randomness)
        one = Counter(block.channel.distribution.draw(x, words) for _ in range(5_000))
        assert_counts([one[y] for y in range(len(law))], law, false_alarm=1e-8)


def test_cells_in_rows():
    table = Table.of([[1 << 63, 1 << 63]] * 24)
    channel = Cells((2, 3, 4), table)
    assert channel.distribution.to_data() == {
        "law": "cells",
        "sizes": [2, 3, 4],
        "strides": [12, 4, 1],
        "of": table.distribution.to_data(),
    }
    assert channel.bits == 1
    assert channel.cumulates


def test_reports_that_tell_nothing_are_not_decoded():
    half = [1 << 63, 1 << 63]
    with pytest.raises(QueryError, match="the table does not determine the count of position 0"):
        Cells((2, 2), Table.of([half] * 4)).decoder([np.eye(2)[:1]] * 2)


def test_reports_that_tell_little_are_decoded_without_bias():
    """Cells whose laws differ by a few parts in 100,000: rounding alone would show."""
    half = 1 << 62
    rows = [[half + (x << 44) * (y == x) for y in range(3)] for x in (0, 1, 2, 3)]
    channel = Cells((2, 2), Table.of([[*row, (1 << 64) - sum(row)] for row in rows]))
    with pytest.raises(QueryError):  # two of four reports tell of four cells
        channel.decoder([np.eye(2)[:1]] * 2)
    rows = [[half + (1 << 45) * (y == x) for y in range(4)] for x in range(4)]
    table = Table.of([[*row, (1 << 64) - sum(row)] for row in _lowered(rows)])
    channel = Cells((2, 2), table)
    assert np.abs(decoder_of(channel) @ shares_of(channel).T - np.eye(4)).max() < 1e-8


def _lowered(rows):
    return [[weight - (1 << 50) for weight in row] for row in rows]


def test_a_prior_weighs_reports():
    """The decoder of a channel with a prior is the best one for people spread like that."""
    said = json.loads(json.dumps(SURVEYS[5]))
    said["joint"][0]["mechanism"]["prior"] = [1, 2, 3, 30]
    (known,) = Survey.from_dict(said).blocks.values()
    (usual,) = Survey.from_dict(SURVEYS[5]).blocks.values()
    spread = np.array([1, 2, 3, 30]) / 36
    shares = shares_of(known.channel)
    squares = [
        (decoder_of(channel) ** 2 @ (spread @ shares)).sum()
        for channel in (known.channel, usual.channel)
    ]
    assert squares[0] < squares[1]
    assert np.allclose(decoder_of(known.channel) @ shares.T, np.eye(4))


def test_worst_pairs_are_all_pairs_of_cells():
    ((_, block),) = itertools.islice(blocks(), 4, 5)
    pairs = list(block.channel.worst_pairs())
    assert [pair[:2] for pair in pairs] == list(itertools.combinations(np.ndindex(2, 2), 2))
    for x, other, ratio in pairs:
        assert ratio == block.channel.distribution.ratio(x, other)


def test_what_has_to_be_looked_at():
    """Of noise that is added one pair for each way, of a table all that generate the metric."""
    for (_, block), added in zip(blocks(), (True, True, True, True, False, False), strict=True):
        grid = block.mechanism.grid
        pairs = list(block.channel.proving_pairs(grid))
        every = list(grid.generating_pairs(grid.numbers.size))
        assert pairs == (list(grid.one_pair_each()) if added else every)


def test_the_mean_square_is_that_of_the_decoders():
    for _, block in blocks():
        channel, size = block.channel, np.prod(block.sizes)
        rows = np.random.default_rng(1).normal(size=(5, size))
        decoders = rows @ decoder_of(channel)
        expected = ((decoders**2) @ shares_of(channel).T).mean(axis=1).sum()
        assert channel.one.mean_square(rows.T @ rows) == pytest.approx(expected * 1.0, rel=1e-9)


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


def test_noise_that_is_wound_says_its_strides_and_its_widest_ratio():
    """A ring has places between the rows of cells; a table has none, and no bound at once."""
    wound = Wound.on((2, 3), (3, 4), ((0, 1, 2, 1, 1, 2, 2, 2, 1, 2, 3, 2),), Fraction(1, 2))
    made = Cells((2, 3), wound)
    assert made.distribution.to_data()["strides"] == [4, 1] and made.distribution.to_data()[
        "sizes"
    ] == [2, 3]
    assert made.widest_ratio() == wound.widest_ratio() > 1
    grams = [np.eye(2), ranges_gram(3)]
    assert made.mean_square(grams) == pytest.approx(wound.mean_square(np.kron(*grams)))
    even = Table.of([[WORD >> 1, WORD >> 2, WORD >> 2]] * 5 + [[WORD >> 2, WORD >> 1, WORD >> 2]])
    plain = Cells((2, 3), even)
    assert plain.distribution.to_data()["strides"] == [3, 1]
    assert plain.widest_ratio() is None


def test_what_saves_no_shapes_is_saved_as_it_is():
    assert in_text({"name": "additive"}, "patterns") == {"name": "additive"}
    assert in_text({"patterns": [(0, 1)]}, "patterns") == {"patterns": [to_text((0, 1))]}
