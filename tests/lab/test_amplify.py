"""Shuffled batches: exact values on tiny ones, published closed forms, and tables of others."""

import json
import math
import warnings
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from typer.testing import CliRunner

from metricldp import Categorical, Continuous, Integer, QueryError, Survey, SurveySpec, Weight
from metricldp.cli.main import app
from metricldp.lab.amplify import _positive_part, amplify, delta_at, hidden_at
from metricldp.mechanisms.table import TableChannel
from metricldp_core.exact import WORD


def shuffled_law(rows):
    """P(multiset of reports), exactly, of one report from each row."""
    law = Counter({(): Fraction(1)})
    for row in rows:
        after = Counter()
        for reports, chance in law.items():
            for y, p in enumerate(row):
                after[tuple(sorted((*reports, y)))] += chance * p
        law = after
    return law


def exact_delta(chances, x, other, n, epsilon):
    """The hockey-stick divergence at its worst over all values of the others."""
    factor = Fraction(math.exp(epsilon))
    worst = Fraction(0)
    for others in combinations_with_replacement(range(len(chances)), n - 1):
        rest = [chances[z] for z in others]
        one, two = (shuffled_law([chances[z], *rest]) for z in (x, other))
        worst = max(worst, sum(max(Fraction(0), one[key] - factor * two[key]) for key in one))
    return float(worst)


def tables():
    thirds = TableChannel.of([[WORD // 2, WORD // 4, WORD // 4], [WORD // 4, WORD // 2, WORD // 4]])
    rough = [[WORD // 8 * 5, WORD // 8, WORD // 4], [WORD // 8, WORD // 8 * 3, WORD // 2]]
    uneven = TableChannel.of([*rough, [WORD // 4, WORD // 4, WORD // 2]])
    line = Survey.design({"x": Integer(0, 3, epsilon=0.7, mechanism="geometric", per=1)}).channels[
        "x"
    ]
    return [thirds, uneven, line]


@pytest.mark.parametrize("channel", tables())
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_bound_is_above_the_exact_value(channel, n):
    reports = channel.every_report()
    exact = [[channel.probability(x, y) for y in reports] for x in range(channel.size)]
    chances = channel.moments.probabilities.T
    blanket = chances.min(axis=1) * (1 - 1e-12)
    for (x, other), epsilon in product(permutations(range(channel.size), 2), (0.0, 0.1, 0.5)):
        bound = delta_at(chances[:, x], chances[:, other], blanket, n, epsilon)
        found = exact_delta(exact, x, other, n, epsilon)
        assert found <= bound + 1e-12
        assert bound <= 1


def test_a_blanket_that_not_all_values_send_would_break_the_bound():
    """The twin: the mean of all values in place of the least, as if others were spread evenly."""
    channel = Survey.design({"x": Integer(0, 3, epsilon=2, mechanism="geometric", per=1)}).channels[
        "x"
    ]
    reports, chances = channel.every_report(), channel.moments.probabilities.T
    exact = [[channel.probability(x, y) for y in reports] for x in range(4)]
    found = exact_delta(exact, 0, 1, 3, 0.5)
    assert delta_at(chances[:, 0], chances[:, 1], chances.mean(axis=1), 3, 0.5) < found
    assert delta_at(chances[:, 0], chances[:, 1], chances.min(axis=1), 3, 0.5) >= found


def test_the_mean_of_a_positive_part_is_from_above_and_near():
    """Against all sums, listed: with values on and off the lattice."""
    rng = np.random.default_rng(4)
    for n in (1, 2, 5):
        values, masses = rng.normal(size=3), rng.dirichlet(np.ones(4))[:3]
        every = np.append(values, 0.0), np.append(masses, 1 - masses.sum())
        sums = np.array([sum(s) for s in product(every[0], repeat=n)])
        chances = np.array([np.prod(p) for p in product(every[1], repeat=n)])
        truth = float(chances @ np.maximum(sums, 0))
        found = _positive_part(values, masses, n)
        assert truth <= found <= truth * (1 + 1e-3) + 1e-9


def clones(local, n, delta):
    """Feldman, McMillan and Talwar 2021, in closed form."""
    a = 8 * math.sqrt(math.exp(local) * math.log(4 / delta) / n)
    c = 8 * math.exp(local) / n
    return math.log1p((1 - math.exp(-local)) / (1 + math.exp(-local - math.log1p(a + c))) * (a + c))


def variation_ratio(p, q, beta, n, delta):
    """Wang et al. 2024, in closed form."""
    r = beta / (p - 1) * p / q
    if n <= 8 * math.log(4 / delta) / r:
        return math.inf  # it has no answer for so few people
    c = max(0.0, 4 * (1 - 3 * r) / (9 * (1 - 2 * r)))
    width = math.sqrt(32 * math.log(4 / delta) / (r * (n - 1))) + 4 / (r * (n - 1))
    return math.log1p(beta / ((1 - c) * (1 + p) * beta / (p - 1) + c) * width)


@pytest.mark.parametrize(
    ("k", "local", "published"), [(10, 1, 0.0233), (100, 1, 0.0072), (10, 2, 0.0801)]
)
def test_randomized_response_as_published(k, local, published):
    """Numbers of the variation-ratio authors' program, and below both closed forms."""
    x, other = np.full(k, 1.0), np.full(k, 1.0)
    x[0] = other[1] = math.exp(local)
    x, other = x / x.sum(), other / other.sum()
    n, delta = 10_000, 1e-6
    found = hidden_at((x, other), np.full(k, x[2]), n, delta, local)
    assert found <= published + 6e-5
    assert found == pytest.approx(published, rel=0.01)
    p = math.exp(local)
    assert found < clones(local, n, delta)
    assert found < variation_ratio(p, p, (p - 1) / (p + k - 1), n, delta)


def test_metric_numbers():
    """100 values at 0.2 per step: a cap of 4, and none."""
    capped = Survey.design(
        {"x": Integer(0, 99, epsilon=0.2, max_epsilon=4, mechanism="tight-constraints", per=1)}
    )
    found = amplify(capped, 10_000, 1e-6, pairs=[(50, 51), (50, 55), (37, 62)])
    assert [pair.shuffled for pair in found.pairs] == pytest.approx(
        [0.0332, 0.1356, 0.2631], rel=5e-3
    )
    assert [pair.local for pair in found.pairs] == pytest.approx([0.2, 1, 4], rel=1e-6)
    assert found.enough is None
    p, q = math.exp(0.2), math.exp(4)
    rows = capped.channels["x"].moments.probabilities.T
    beta = np.abs(rows[:, 50] - rows[:, 51]).sum() / 2
    more = amplify(capped, 100_000, 1e-6, pairs=[(50, 51)]).pairs[0].shuffled
    assert more == pytest.approx(0.0096, rel=0.01)
    assert more < variation_ratio(p, q, beta, 100_000, 1e-6) < math.inf
    plain = Survey.design({"x": Integer(0, 99, epsilon=0.2, mechanism="geometric", per=1)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        most, beyond = (amplify(capped, n, pairs=[(37, 62)]).pairs for n in (10**10, 10**18))
    assert most == beyond and most[0].shuffled < 0.1  # more people are never less to hide among
    alone = amplify(plain, 10_000, 1e-6, pairs=[(50, 51)])
    assert alone.pairs[0].shuffled == alone.pairs[0].local
    assert alone.enough == 1_000_000
    assert "does not reduce epsilon" in str(alone)


def test_several_attributes_blocks_and_words():
    survey = Survey.design(
        {
            "a": Integer(0, 3, epsilon=1, mechanism="geometric", per=1),
            "b": Categorical(["x", "y"], epsilon=1),
        }
    )
    found = amplify(survey, 5_000, 1e-6)
    assert {"a 1, b y", "a 2, b y"} <= {pair.x for pair in found.pairs} | {
        pair.other for pair in found.pairs
    }
    assert all(0 < pair.shuffled < pair.local for pair in found.pairs)
    one = amplify(survey, 5_000, 1e-6, pairs=[({"a": 0, "b": "x"}, {"a": 0, "b": "x"})])
    assert one.pairs[0].shuffled == 0
    block = Survey.design(
        SurveySpec(
            {"a": Integer(0, 3, epsilon=1, per=1), "b": Integer(0, 3, epsilon=1, per=1)},
            joint={("a", "b"): "tight-constraints"},
        )
    )
    person, another = {"a": 1, "b": 1}, {"a": 2, "b": 1}
    (pair,) = amplify(block, 5_000, 1e-6, pairs=[(person, another)]).pairs
    assert (pair.x, pair.other) == ("a 1, b 1", "a 2, b 1")
    assert pair.shuffled < pair.local == pytest.approx(1, rel=1e-6)
    bits = Survey.design({"x": Integer(0, 5, epsilon=1, mechanism="threshold", per=1)})
    assert amplify(bits, 10_000, 1e-6, pairs=[(2, 3)]).pairs[0].shuffled < 0.5


@pytest.mark.parametrize(
    ("attributes", "asked", "why"),
    [
        ({"x": Integer(0, 40, epsilon=1, mechanism="threshold", per=1)}, {}, "40 bits"),
        (
            {"x": Integer(0, 4, epsilon=1, per=1), "w": Weight(0, 1)},
            {},
            "w is sent without protection",
        ),
        (
            {name: Integer(0, 99, epsilon=1, mechanism="geometric", per=1) for name in "abcd"},
            {},
            "fewer",
        ),
        ({"x": Integer(0, 4, epsilon=1, per=1)}, {"n": 1}, "at least 2"),
        ({"x": Integer(0, 4, epsilon=1, per=1)}, {"delta": 0}, "between 0 and 1"),
        ({"x": Integer(0, 4, epsilon=1, per=1)}, {"pairs": 3}, "a list"),
        ({"x": Integer(0, 4, epsilon=1, per=1)}, {"pairs": [(1, 2, 3)]}, "two values"),
        (
            {"x": Integer(0, 4, epsilon=1, per=1), "y": Integer(0, 4, epsilon=1, per=1)},
            {"pairs": [(1, 2)]},
            "dict",
        ),
    ],
)
def test_what_is_refused(attributes, asked, why):
    with pytest.raises(QueryError, match=why):
        amplify(Survey.design(attributes), **asked)


def test_the_command(tmp_path):
    path = tmp_path / "survey.toml"
    survey = Survey.design(
        {"x": Integer(0, 4, epsilon=1, max_epsilon=2, mechanism="tight-constraints", per=1)}
    )
    survey.save(path)
    asked = ["lab", "amplify", str(path), "--n", "1000", "--delta", "1e-5"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "of 1,000 shuffled" in done.output
    data = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    assert data["n"] == 1000
    assert data["delta"] == 1e-5
    assert all(pair["shuffled"] <= pair["local"] for pair in data["pairs"])


def test_values_between_the_points_of_a_grid():
    """They are rounded at random: the law of one is a mix of two, not that of the nearest."""
    survey = Survey.design(
        {
            "x": Continuous(
                0,
                1,
                points=6,
                epsilon=4,
                max_epsilon=2,
                mechanism="condensed",
                rounding="stochastic",
                per=1,
            )
        }
    )
    chances, n = survey.channels["x"].moments.probabilities.T, 1000
    blanket = chances.min(axis=1) * (1 - 1e-12)
    rows = [(1 - f) * chances[:, 1] + f * chances[:, 2] for f in (0.05, 0.45)]
    (found,) = amplify(survey, n, pairs=[(0.21, 0.29)]).pairs
    assert found.local == pytest.approx(np.abs(np.log(rows[0] / rows[1])).max())
    assert found.shuffled == pytest.approx(hidden_at(tuple(rows), blanket, n, 1e-6, found.local))
    assert 0 < found.shuffled < found.local
    assert (found.x, found.other) == ("0.21", "0.29")
    (ends,) = amplify(survey, n, pairs=[(0, 1)]).pairs
    assert (ends.x, ends.other) == ("0", "1")
