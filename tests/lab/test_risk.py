"""The attacker's view: held against sums over all reports, closed forms, samples and the metric."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from checks import MECHANISMS, every_report_of
from metricldp import (
    Categorical,
    Continuous,
    Cyclic,
    Graph,
    Integer,
    Ordinal,
    Real,
    Relative,
    Survey,
    Weight,
)
from metricldp.app.plots.risks import risk as draw_risk
from metricldp.basics.errors import QueryError
from metricldp.channels.joint import JointChannel
from metricldp.lab import guessing
from metricldp.lab import risk as module
from metricldp.lab.crowd import seeded
from metricldp.lab.guessing import Alone, Attack, Stretches
from metricldp.lab.risk import risk, shares_in

OF_SHAPES = ("shaped", "designed", "tents")
LONG = ("matrix", "prefix", "histogram-sum")
"""Mechanisms with so many reports that only few of their cases can be listed."""


def by_hand(law, prior, near, reports):
    """Over all rows of reports: how often the best guess is right, of all and from each position.

    `law` is P(report | x), (x, reports); `near` says which guesses are right about which x. Equally
    good guesses are made equally often.
    """
    share, rights, surest = 0.0, np.zeros(len(prior)), 0.0
    for row in itertools.product(range(law.shape[1]), repeat=reports):
        likely = np.prod(law[:, row], axis=1)
        sums = near @ (prior * likely)
        most = sums.max()
        best = sums >= most * (1 - 1e-9)
        share += most
        rights += likely * near[best].mean(axis=0)
        surest = max(surest, most / (prior @ likely))
    return share, rights, surest


def near_by(size, steps, ring=False):
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    apart = np.minimum(apart, size - apart) if ring else apart
    return (apart <= steps).astype(float)


def held(survey, name, near, within, prior, most=2):
    """One attribute's chances against those by hand."""
    _, law = every_report_of(Survey({name: survey.attributes[name]}))
    found = risk(survey, name, prior=prior, within=within, reports=most).chances
    chosen = [c for c in found if c.within == within]
    assert [c.reports for c in chosen] == [0, *(r for r in (1, 2) if r < most), most]
    shares = np.asarray(prior) / np.sum(prior)
    assert chosen[0].chance == pytest.approx((near @ shares).max())
    easiest = None
    for chance in chosen[1:]:
        share, rights, surest = by_hand(law, shares, near, chance.reports)
        easiest = (
            int(np.argmax(rights >= rights.max() * (1 - 1e-9))) if easiest is None else easiest
        )
        assert chance.error == chance.error_of_easiest == 0.0
        assert chance.chance == pytest.approx(share, rel=1e-9)
        assert chance.of_easiest == pytest.approx(rights[easiest], rel=1e-6)
        assert chance.easiest == survey.attributes[name].label(easiest)
        assert share - 1e-12 <= surest <= chance.limit + 1e-9


@pytest.mark.parametrize("name", [*MECHANISMS, *OF_SHAPES])
def test_every_mechanism_as_by_hand(name):
    size, epsilon = (2, 3.0) if name in LONG else (4, 1.0)
    survey = Survey({"x": Integer(0, size - 1, epsilon=epsilon, mechanism=name)})
    few = len(survey.channels["x"].every_report()) <= 16
    prior = np.arange(1, size + 1) ** 1.5
    held(survey, "x", np.eye(size), None, prior, 2 if few else 1)
    if size > 2:
        held(survey, "x", near_by(size, 1), 1.0, prior, 2 if few else 1)


def test_other_kinds_as_by_hand():
    kinds = {
        "hour": Cyclic(6, epsilon=0.7, within=2),
        "level": Ordinal(["a", "b", "c", "d"], epsilon=0.5),
        "place": Categorical(["a", "b", "c"], epsilon=1, metric=Graph([("a", "b"), ("b", "c")])),
        "bins": Continuous(0, 50, bins=5, epsilon=1, within=20, cap=2),
    }
    survey = Survey(kinds)
    held(survey, "hour", near_by(6, 1, ring=True), 1.0, np.arange(1, 7))
    held(survey, "hour", near_by(6, 2, ring=True), 2.0, np.arange(1, 7), 1)
    held(survey, "level", near_by(4, 2), 2.0, [3, 1, 1, 2])
    held(survey, "place", np.eye(3), None, [0.2, 0.5, 0.3], 4)
    held(survey, "bins", near_by(5, 1), 10.0, [1, 0, 2, 1, 3])


def test_the_best_guess_may_lie_between_two_values():
    """Within 1.5 of 2.5 are four values, of a value only three."""
    kinds = {
        "age": Integer(0, 6, epsilon=1, within=1.5),
        "hour": Cyclic(6, epsilon=0.7, within=1.5),
        "bins": Continuous(0, 50, bins=5, epsilon=1, within=20, cap=2),
        "uneven": Continuous(edges=[0, 2, 4, 10, 12, 14], epsilon=1, within=4),
    }
    survey = Survey(kinds)
    runs = np.array([[float(k <= x < k + 4) for x in range(7)] for k in range(4)])
    held(survey, "age", runs, 1.5, np.arange(1, 8), 1)
    ring = np.array([np.roll([1.0, 1, 1, 1, 0, 0], k) for k in range(6)])
    held(survey, "hour", ring, 1.5, np.arange(1, 7))
    held(survey, "bins", runs[:2, :5], 15.0, [1, 4, 2, 1, 3])
    middles = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]])
    held(survey, "uneven", middles.astype(float), 2.0, [1, 4, 2, 1, 3])
    whole = risk(survey, "age", within=1, reports=1).chances[-1]
    near = risk(survey, "age", within=1.4, reports=1).chances[-1]
    assert near.chance == pytest.approx(whole.chance), "three values, as within 1"


def test_places_between_the_middles_of_cells():
    kinds = {"x": Integer(0, 3, epsilon=1, within=1.5), "y": Integer(0, 2, epsilon=1, within=1.5)}
    survey = Survey(kinds, joint={("x", "y"): {"name": "shaped", "metric": "sum"}})
    _, law = every_report_of(survey)
    prior = {"x": [0.4, 0.3, 0.2, 0.1], "y": [0.5, 0.3, 0.2]}
    spread = np.multiply.outer(*map(np.array, prior.values())).reshape(-1)
    pairs = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    near = np.kron(pairs, np.array([[1.0, 1, 0], [0, 1, 1]]))
    found = risk(survey, "x+y", prior=prior, within=0.5, reports=1).chances[-1]
    share, rights, surest = by_hand(law, spread, near, 1)
    assert found.chance == pytest.approx(share, rel=1e-9)
    assert found.of_easiest == pytest.approx(rights.max(), rel=1e-6)
    assert surest <= found.limit + 1e-9


def test_blocks_as_by_hand():
    """Two reports of one person are of the same other attribute, too."""
    kinds = {"x": Integer(0, 2, epsilon=1), "y": Integer(0, 1, epsilon=2)}
    survey = Survey(kinds, joint={("x", "y"): "planar-laplace"})
    _, law = every_report_of(survey)
    priors = {"x": np.array([0.5, 0.2, 0.3]), "y": np.array([0.9, 0.1])}
    spread = np.multiply.outer(*priors.values()).reshape(-1)
    for name, near in (("x", np.repeat(np.eye(3), 2, axis=1)), ("y", np.tile(np.eye(2), 3))):
        found = risk(survey, name, prior=priors, reports=3).chances
        for chance in [c for c in found if c.within is None and c.reports]:
            share, _, _ = by_hand(law, spread, near, chance.reports)
            assert chance.chance == pytest.approx(share, rel=1e-9)
            assert chance.chance <= chance.limit
    forgetful = np.tensordot(priors["y"], law.reshape(3, 2, -1), axes=(0, 1))
    twin, _, _ = by_hand(forgetful, priors["x"], np.eye(3), 3)
    share, _, _ = by_hand(law, spread, np.repeat(np.eye(3), 2, axis=1), 3)
    assert abs(twin - share) > 1e-5, "reports that forget the other attribute would be seen"


def of_both(mechanism, **norm):
    kinds = {"x": Integer(0, 3, epsilon=1, within=1), "y": Integer(0, 2, epsilon=1, within=1)}
    if mechanism == "planar-laplace":
        kinds = {"x": Integer(0, 3, epsilon=1), "y": Integer(0, 2, epsilon=1)}
    return Survey(kinds, joint={("x", "y"): mechanism}, **norm)


@pytest.mark.parametrize("mechanism", ["planar-laplace", "hio", "shaped", "designed"])
def test_whole_blocks_as_by_hand(mechanism):
    survey = of_both(mechanism)
    _, law = every_report_of(survey)
    prior = {"x": [0.4, 0.3, 0.2, 0.1], "y": [0.5, 0.3, 0.2]}
    spread = np.multiply.outer(*map(np.array, prior.values())).reshape(-1)
    near = np.kron(near_by(4, 1), near_by(3, 1))
    found = risk(survey, "x+y", prior=prior, reports=1).chances
    assert [c.within for c in found] == [None, None, 1.0, 1.0]
    for chance, sides in ((found[1], np.eye(12)), (found[3], near)):
        share, rights, surest = by_hand(law, spread, sides, 1)
        assert chance.chance == pytest.approx(share, rel=1e-9)
        assert chance.of_easiest == pytest.approx(rights.max(), rel=1e-6)
        assert surest <= chance.limit + 1e-9
        assert chance.easiest.count(", ") == 1
    every = survey.risk(reports=1)
    assert list(dict.fromkeys(c.attribute for c in every.chances)) == ["x", "y", "x+y"]
    assert f"x+y: x and y, blurred together by {mechanism}" in str(every)
    assert "the cell" in str(every)


def test_chances_of_hio_are_those_of_its_integers():
    channel = of_both("hio").blocks["x+y"].channel
    columns = channel.every_report()
    assert np.allclose(channel.log_chances(columns), JointChannel.log_chances(channel, columns))


def test_the_distance_of_two_people_is_that_of_their_block():
    """Of a grid its own, else the sum, or the straight line."""
    for mechanism, distance in (
        ("planar-laplace", math.sqrt(2)),
        ("faces", 2.0),
        ({"name": "shaped", "metric": "plane"}, 2.0),
    ):
        survey = of_both(mechanism)
        prior = {name: np.full(a.size, 1 / a.size) for name, a in survey.attributes.items()}
        assert module._seen(survey, "x+y", prior)[2][0, 4] == pytest.approx(distance)


def test_blocks_whose_reports_cannot_be_told_have_the_limit():
    kinds = {"x": Integer(0, 5, epsilon=1), "y": Integer(0, 5, epsilon=1)}
    found = risk(Survey(kinds, joint={("x", "y"): "faces"}), "x")
    assert all(c.chance is None for c in found.chances if c.reports)
    alone = risk(Survey({"x": kinds["x"]}), "x")
    assert [c.limit for c in found.chances] == pytest.approx([c.limit for c in alone.chances])
    assert "easiest" not in str(found)
    assert len(draw_risk(found).axes[0].lines) == 2


@pytest.mark.parametrize(("size", "epsilon"), [(2, 0.5), (5, 1.0), (20, 2.0), (9, 6.0)])
def test_closed_forms(size, epsilon):
    """Randomized response reaches the limit; subset selection is as the literature has it."""
    names = [f"v{k}" for k in range(size)]
    categories = {"c": Categorical(names, epsilon=epsilon, mechanism="response")}
    chance = Survey(categories).risk("c", reports=1).chances[-1]
    assert chance.chance == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + size - 1))
    assert chance.limit == pytest.approx(chance.chance)
    categories = {"c": Categorical(names, epsilon=epsilon, mechanism="subset")}
    chance = Survey(categories).risk("c", reports=1).chances[-1]
    chosen = max(1, round(size / (math.exp(epsilon) + 1)))
    known = math.exp(epsilon) / (chosen * math.exp(epsilon) + size - chosen)
    assert chance.chance == pytest.approx(known)


@pytest.mark.parametrize("reports", [1, 2, 7])
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("within", [2, 2.5])
def test_no_shape_is_surer_than_the_limit(reports, ring, within):
    """Any function that differs by no more than e^E is what some mechanism's report may tell."""
    rng = np.random.default_rng(5)
    size = 12
    described = Cyclic(size, epsilon=1, within=3) if ring else Integer(0, 11, epsilon=1, within=3)
    distances = described.distances.matrix(size)
    kind = Stretches.around(size, within) if ring else Stretches.near(np.arange(12.0), within)
    near = near_by(size, 2, ring)
    if within > 2:
        between = [[float((x - k) % size < 6) for x in range(size)] for k in range(size)]
        near = np.array(between if ring else between[:7])
    for _ in range(200):
        prior = rng.dirichlet(np.full(size, 0.5))
        limit = kind.limit(prior, distances, reports)
        heights = rng.normal(size=size) * rng.choice([1, 10])
        heights = (heights[:, None] - reports * distances).max(axis=0)  # the steepest below
        for shape in (heights, -reports * distances[rng.integers(size)]):
            likely = prior * np.exp(shape)
            assert (near @ likely).max() / likely.sum() <= limit + 1e-12


# Samples -----------------------------------------------------------------------------------------

FALSE_ALARM = 1e-7
DRAWS = 1 << 15


def allowed(numbers=DRAWS):
    """Hoeffding: the mean of numbers between 0 and 1 is off by more than this so rarely."""
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * numbers))


class Faulty(Alone):
    """Devices that blur with an eighth of the epsilon that they say."""

    def drawn(self, states, coins):
        column = SAMPLED["eighth"].encode(states, coins)
        return self.channel.log_chances(column)


SAMPLED = {
    "full": Survey({"x": Integer(0, 5, epsilon=0.8, mechanism="threshold")}).channels["x"],
    "eighth": Survey({"x": Integer(0, 5, epsilon=0.1, mechanism="threshold")}).channels["x"],
}


def gains(seen, kind):
    prior = np.arange(1, 7) / 21
    distances = 0.8 * np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    return Attack(seen, prior, distances, np.random.default_rng(8), seeded(8)).gains(kind, (1, 2))


@pytest.mark.parametrize(
    "kind", [Stretches.of_one(6), *(Stretches.near(np.arange(6.0), w) for w in (0.5, 1))]
)
def test_samples_agree_with_lists(kind, monkeypatch):
    easiest, exact = gains(Alone(SAMPLED["full"]), kind)
    monkeypatch.setattr(guessing, "DRAWS", DRAWS)
    monkeypatch.setattr(guessing, "_MOST_BITS", -1)
    found, sampled = gains(Alone(SAMPLED["full"]), kind)
    assert found == easiest
    for one, other in zip(exact, sampled, strict=True):
        assert one.share.error == one.own.error == 0.0
        assert one.limit == other.limit
        for mean, drawn in ((one.share, other.share), (one.own, other.own)):
            assert 0 < drawn.error < allowed()
            assert abs(drawn.mean - mean.mean) < allowed()
            assert abs(drawn.mean - mean.mean) < 5.5 * drawn.error  # normal: 4e-8
    _, broken = gains(Faulty(SAMPLED["full"]), kind)
    assert abs(broken[0].own.mean - exact[0].own.mean) > 2 * allowed()
    assert abs(broken[1].share.mean - exact[1].share.mean) > 2 * allowed()


def test_a_seed_repeats_and_another_differs():
    survey = Survey({"x": Integer(0, 40, epsilon=1, per=5, mechanism="threshold")})
    first = survey.risk(reports=2)
    assert first == survey.risk(reports=2, seed=1)
    other = survey.risk(reports=2, seed=2).chances
    assert first.chances[1].chance != other[1].chance
    assert first.chances[1].chance == pytest.approx(other[1].chance, abs=allowed(1 << 12))
    assert "± " in str(first) and "4,096 simulated people" in str(first)


def test_chances_that_reports_are_as_likely_as_they_say():
    """ln P of whole columns, on domains whose reports are too many to be listed."""
    for name in (*MECHANISMS, *OF_SHAPES):
        survey = Survey({"x": Integer(0, 11, epsilon=0.9, mechanism=name)})
        channel = survey.channels["x"]
        column = channel.encode(np.arange(12), seeded(3))
        logs = channel.log_chances(column)
        for row, x in itertools.product((0, 5, 11), range(12)):
            assert np.exp(logs[row, x]) == pytest.approx(
                float(channel.probability(x, column[row])), rel=1e-9
            )


# What is said ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey():
    return Survey(
        {
            "age": Integer(0, 99, epsilon=1, within=5, cap=3),
            "region": Categorical(["north", "south"], epsilon=2),
            "rent": Continuous(0, 3000, bins=30, epsilon=1, within=300, optional=1),
            "height": Real(100, 200, points=11, epsilon=1, per=20),
            "pay": Continuous(1, 100, bins=8, epsilon=1, metric=Relative(0.5)),
            "load": Weight(0, 10, private=True, epsilon=1),
            "size": Weight(0, 10),
        }
    )


def test_words_and_data(survey):
    found = survey.risk(reports=20)
    assert list(dict.fromkeys(c.attribute for c in found.chances)) == [
        *("age", "region", "rent", "rent=answered", "height", "pay", "load")
    ]
    assert [c.reports for c in found.chances[:6]] == [0, 1, 2, 5, 10, 20]
    text = str(found)
    for words in ("within 300", "the bin", "the point", "people are spread evenly", "north, the"):
        assert words in " ".join(text.split())
    assert {c.within for c in found.chances if c.attribute in ("pay", "load", "region")} == {None}
    assert json.loads(json.dumps(found.to_dict()))["chances"][1]["reports"] == 1
    for chance in found.chances:
        assert 0 < chance.chance <= chance.limit + 1e-12 <= 1 + 1e-12
    by_reports = [c.chance for c in found.chances[:6]]
    assert by_reports == sorted(by_reports)


def test_explain_has_it_in_a_line(survey):
    said = survey.explain()
    entry = {entry["attribute"]: entry for entry in said.to_dict()["attributes"]}["age"]["guess"]
    last = [c for c in survey.risk("age", reports=1).chances if c.within == 5][-1]
    assert (entry["within"], entry["after"], entry["limit"]) == (5.0, last.chance, last.limit)
    line = f"attacker  guesses within 5: 11% right before a report, {100 * last.chance:.3g}% after"
    assert line in str(said)
    long = Survey({"x": Integer(0, 256, epsilon=1, mechanism="geometric")})
    assert "attacker" not in str(long.explain())


def test_no_guess_may_be_off_so_far_that_it_is_always_right():
    said = str(Survey({"pay": Ordinal(["low", "middle", "high"], epsilon=1)}).explain())
    assert "guesses within" not in said and "33.3% right before a report" in said


def test_people_of_a_file_as_a_prior(survey, tmp_path):
    rows = ["age,height,load", "10,101,0", "10,104,2", "11,199,9", "12,126,10"]
    (tmp_path / "people.csv").write_text("\n".join(rows))
    names = ["age", "height", "load"]
    shares, words = shares_in(survey, names, tmp_path / "people.csv")
    assert shares["age"][9:14].tolist() == [0, 2, 1, 1, 0]
    assert shares["height"].tolist() == [2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert shares["load"].tolist() == [2, 2]
    assert words == f"spread as the 4 people in {tmp_path / 'people.csv'}"
    found = risk(survey, "age", prior={"age": shares["age"]}, reports=1, told=words)
    assert found.chances[0].chance == 0.5
    assert found.chances[1].easiest == "10"
    assert "".join(words.split()) in "".join(str(found).split())
    with pytest.raises(QueryError, match="says nothing of rent=answered"):
        shares_in(survey, ["rent=answered"], tmp_path / "people.csv")


def test_long_attributes(monkeypatch):
    """Beyond 4,096 positions, here 40, there is a word about it."""
    monkeypatch.setattr(module, "MOST_POSITIONS", 40)
    kinds = {name: Integer(0, last, epsilon=1, per=5) for name, last in (("x", 39), ("y", 40))}
    found = Survey(kinds).risk(reports=1)
    assert {c.attribute for c in found.chances} == {"x"}
    assert found.left_out == ("y: left out, its 41 positions are more than 40",)
    assert found.left_out[0] in str(found)
    found = Survey(kinds).risk("y")
    with pytest.raises(QueryError, match="nothing to draw; y: left out"):
        draw_risk(found)


def test_blocks_of_very_many_cells_are_explained_and_have_the_limit():
    kinds = {name: Integer(0, 99, epsilon=1, per=5) for name in "abcdef"}
    survey = Survey(kinds, joint={tuple(kinds): "hio"})
    assert str(survey.explain()).count("never surer than") == 6
    found = survey.risk(reports=1)
    assert [c.chance is None for c in found.chances[:2]] == [False, True]
    assert found.left_out == (
        "a+b+c+d+e+f: left out, its 1,000,000,000,000 positions are more than 4,096",
    )


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"attribute": "hight"}, "no attribute 'hight'; it has"),
        ({"attribute": "size"}, "public weight"),
        ({"attribute": ["age"]}, "no attribute ['age']"),
        ({"within": 5}, "name that attribute"),
        ({"attribute": "region", "within": 1}, "no order"),
        ({"attribute": "age", "within": 0}, "positive number, not 0"),
        ({"attribute": "age", "within": "5"}, "positive number, not '5'"),
        ({"attribute": "age", "within": math.inf}, "positive number, not inf"),
        ({"attribute": "age", "within": 0.4}, "no guess is within 0.4 of two values of age"),
        ({"reports": 0}, "from 1 to 1,000, not 0"),
        ({"reports": 1001}, "not 1001"),
        ({"reports": "2"}, "not '2'"),
        ({"seed": -1}, "at least 0, not -1"),
        ({"seed": 0.5}, "not 0.5"),
        ({"attribute": "age+region"}, "no attribute 'age+region'"),
        ({"prior": "worst"}, "not 'worst'"),
        ({"prior": [1, 2]}, "name it, or give a dict"),
        ({"attribute": "age", "prior": [1, 2]}, "shape (100,), not (2,)"),
        ({"attribute": "region", "prior": [-1, 2]}, "none below zero"),
        ({"attribute": "region", "prior": ["a", 2]}, "array of numbers"),
        ({"attribute": "region", "prior": {"age": np.ones(100)}}, "says nothing of region"),
        ({"attribute": "region", "prior": {"foo": [1]}}, "no attribute 'foo'"),
    ],
)
def test_refusals(survey, options, needle):
    with pytest.raises(QueryError) as wrong:
        survey.risk(**options)
    assert needle in str(wrong.value)
    assert "\n" not in str(wrong.value)
