"""The risk of an attribute, compared with sums over all reports, closed forms and the metric."""

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
    Graph,
    Integer,
    InvalidValueError,
    Ordinal,
    QueryError,
    Relative,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.mechanisms.joint import JointChannel
from metricldp.mechanisms.randomness import seeded
from metricldp.planning import risk as module
from metricldp.planning.expected_error import prior_in_file
from metricldp.planning.risk import Guesses, Runs, SingleView, attack, risk, usual_within

OF_SHAPES = ("additive", "extremal", "tight-constraints")
LONG = ("matrix", "prefix", "histogram-sum")
"""Mechanisms with so many reports that only few of their cases can be listed."""


def by_hand(law, prior, near):
    """Over all reports: how often the best guess is right, of all and from each position.

    `law` is P(report | x), (x, reports); `near` says which guesses are right about which x. Equally
    good guesses are made equally often.
    """
    share, rights, surest = 0.0, np.zeros(len(prior)), 0.0
    for likely in law.T:
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


def check(survey, name, near, within, prior):
    """The risk of one attribute against that by hand."""
    _, law = every_report_of(Survey.design({name: survey.attributes[name]}))
    found = survey.risk(name, prior=prior, within=within)
    fractions = np.asarray(prior) / np.sum(prior)
    share, rights, surest = by_hand(law, fractions, near)
    assert found.before == pytest.approx((near @ fractions).max())
    assert found.stderr == found.most_exposed_stderr == 0.0
    assert found.after == pytest.approx(share, rel=1e-9)
    exposed = int(np.argmax(rights >= rights.max() * (1 - 1e-9)))
    assert found.most_exposed_after == pytest.approx(rights[exposed], rel=1e-6)
    assert found.most_exposed == survey.attributes[name].label(exposed)
    assert share - 1e-12 <= surest <= found.bound + 1e-9


@pytest.mark.parametrize("name", [*MECHANISMS, *OF_SHAPES])
def test_every_mechanism_as_by_hand(name):
    size, epsilon = (2, 3.0) if name in LONG else (4, 1.0)
    survey = Survey.design({"x": Integer(0, size - 1, epsilon=epsilon, mechanism=name, per=1)})
    prior = np.arange(1, size + 1) ** 1.5
    check(survey, "x", np.eye(size), 0, prior)
    if size > 2:
        check(survey, "x", near_by(size, 1), 1.0, prior)


def test_other_kinds_as_by_hand():
    kinds = {
        "hour": Integer(0, 5, epsilon=0.7, within=2, cyclic=True),
        "level": Ordinal(["a", "b", "c", "d"], epsilon=0.5),
        "place": Categorical(["a", "b", "c"], epsilon=1, metric=Graph([("a", "b"), ("b", "c")])),
        "bins": Continuous(0, 50, bins=5, epsilon=1, within=20, max_epsilon=2),
    }
    survey = Survey.design(kinds)
    check(survey, "hour", near_by(6, 1, ring=True), 1.0, np.arange(1, 7))
    check(survey, "hour", near_by(6, 2, ring=True), 2.0, np.arange(1, 7))
    check(survey, "level", near_by(4, 2), 2.0, [3, 1, 1, 2])
    check(survey, "place", np.eye(3), 0, [0.2, 0.5, 0.3])
    check(survey, "bins", near_by(5, 1), 10.0, [1, 0, 2, 1, 3])


def test_the_best_guess_may_lie_between_two_values():
    """Within 1.5 of 2.5 are four values, of a value only three."""
    kinds = {
        "age": Integer(0, 6, epsilon=1, within=1.5),
        "hour": Integer(0, 5, epsilon=0.7, within=1.5, cyclic=True),
        "bins": Continuous(0, 50, bins=5, epsilon=1, within=20, max_epsilon=2),
        "uneven": Continuous(edges=[0, 2, 4, 10, 12, 14], epsilon=1, within=4),
    }
    survey = Survey.design(kinds)
    runs = np.array([[float(k <= x < k + 4) for x in range(7)] for k in range(4)])
    check(survey, "age", runs, 1.5, np.arange(1, 8))
    ring = np.array([np.roll([1.0, 1, 1, 1, 0, 0], k) for k in range(6)])
    check(survey, "hour", ring, 1.5, np.arange(1, 7))
    check(survey, "bins", runs[:2, :5], 15.0, [1, 4, 2, 1, 3])
    middles = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]])
    check(survey, "uneven", middles.astype(float), 2.0, [1, 4, 2, 1, 3])
    whole, near = (survey.risk("age", within=within).after for within in (1, 1.4))
    assert near == pytest.approx(whole), "three values, as within 1"


def test_guesses_of_locations_between_the_middles_of_cells():
    kinds = {"x": Integer(0, 3, epsilon=1, within=1.5), "y": Integer(0, 2, epsilon=1, within=1.5)}
    survey = Survey.design(
        SurveySpec(kinds, joint={("x", "y"): {"name": "additive", "metric": "sum"}})
    )
    _, law = every_report_of(survey)
    prior = {"x": [0.4, 0.3, 0.2, 0.1], "y": [0.5, 0.3, 0.2]}
    spread = np.multiply.outer(*map(np.array, prior.values())).reshape(-1)
    pairs = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    near = np.kron(pairs, np.array([[1.0, 1, 0], [0, 1, 1]]))
    found = survey.risk("x+y", prior=prior, within=0.5)
    share, rights, surest = by_hand(law, spread, near)
    assert found.after == pytest.approx(share, rel=1e-9)
    assert found.most_exposed_after == pytest.approx(rights.max(), rel=1e-6)
    assert surest <= found.bound + 1e-9


def test_attributes_of_a_group_as_by_hand():
    kinds = {"x": Integer(0, 2, epsilon=1, per=1), "y": Integer(0, 1, epsilon=2, per=1)}
    survey = Survey.design(SurveySpec(kinds, joint={("x", "y"): "additive"}))
    _, law = every_report_of(survey)
    priors = {"x": np.array([0.5, 0.2, 0.3]), "y": np.array([0.9, 0.1])}
    spread = np.multiply.outer(*priors.values()).reshape(-1)
    for name, near in (("x", np.repeat(np.eye(3), 2, axis=1)), ("y", np.tile(np.eye(2), 3))):
        found = survey.risk(name, prior=priors)
        share, _, _ = by_hand(law, spread, near)
        assert found.after == pytest.approx(share, rel=1e-9)
        assert found.after <= found.bound
    only = survey.risk("x", prior={"x": priors["x"]}).after
    assert only == pytest.approx(survey.risk("x", prior={**priors, "y": [0.5, 0.5]}).after)
    assert abs(only - survey.risk("x", prior=priors).after) > 1e-5


def of_both(mechanism, **norm):
    kinds = {"x": Integer(0, 3, epsilon=1, within=1), "y": Integer(0, 2, epsilon=1, within=1)}
    if mechanism == "planar-laplace":
        kinds = {"x": Integer(0, 3, epsilon=1, per=1), "y": Integer(0, 2, epsilon=1, per=1)}
    return Survey.design(SurveySpec(kinds, joint={("x", "y"): mechanism}, **norm))


@pytest.mark.parametrize("mechanism", ["planar-laplace", "hio", "additive", "extremal"])
def test_whole_groups_as_by_hand(mechanism):
    survey = of_both(mechanism)
    _, law = every_report_of(survey)
    prior = {"x": [0.4, 0.3, 0.2, 0.1], "y": [0.5, 0.3, 0.2]}
    spread = np.multiply.outer(*map(np.array, prior.values())).reshape(-1)
    for within, sides in ((0, np.eye(12)), (1.0, np.kron(near_by(4, 1), near_by(3, 1)))):
        found = survey.risk("x+y", prior=prior, within=within)
        share, rights, surest = by_hand(law, spread, sides)
        assert found.after == pytest.approx(share, rel=1e-9)
        assert found.most_exposed_after == pytest.approx(rights.max(), rel=1e-6)
        assert surest <= found.bound + 1e-9
        assert found.most_exposed.count(", ") == 1


def test_chances_of_hio_are_those_of_its_integers():
    channel = of_both("hio").blocks["x+y"].channel
    columns = channel.every_report()
    assert np.allclose(
        channel.log_likelihood(columns), JointChannel.log_likelihood(channel, columns)
    )


def test_distances_of_cells_are_those_of_their_group():
    """Of a grid its own, else the sum, or the straight line."""
    for mechanism, distance in (
        ("planar-laplace", math.sqrt(2)),
        ("faces", 2.0),
        ({"name": "additive", "metric": "plane"}, 2.0),
    ):
        group = of_both(mechanism).blocks["x+y"]
        assert module._cell_distances(group)[0, 4] == pytest.approx(distance)


def test_groups_without_probabilities_have_the_bound():
    kinds = {"x": Integer(0, 5, epsilon=1, per=1), "y": Integer(0, 5, epsilon=1, per=1)}
    found = risk(Survey.design(SurveySpec(kinds, joint={("x", "y"): "faces"})), "x")
    assert found.after is None and found.most_exposed is None
    assert found.bound == pytest.approx(risk(Survey.design({"x": kinds["x"]}), "x").bound)
    assert "with the report" not in str(found)


@pytest.mark.parametrize(("size", "epsilon"), [(2, 0.5), (5, 1.0), (20, 2.0), (9, 6.0)])
def test_closed_forms(size, epsilon):
    """Randomized response reaches the bound; subset selection is as in the literature."""
    names = [f"v{k}" for k in range(size)]
    categories = {"c": Categorical(names, epsilon=epsilon, mechanism="randomized-response")}
    found = Survey.design(categories).risk("c")
    assert found.before == pytest.approx(1 / size)
    assert found.after == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + size - 1))
    assert found.bound == pytest.approx(found.after)
    categories = {"c": Categorical(names, epsilon=epsilon, mechanism="subset")}
    chosen = max(1, round(size / (math.exp(epsilon) + 1)))
    known = math.exp(epsilon) / (chosen * math.exp(epsilon) + size - chosen)
    assert Survey.design(categories).risk("c").after == pytest.approx(known)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("within", [2, 2.5])
def test_no_posterior_exceeds_the_bound(ring, within):
    """Any function that differs by at most e^E is the likelihood of some mechanism's report."""
    rng = np.random.default_rng(5)
    size = 12
    attribute = Integer(0, 11, epsilon=1, within=3, cyclic=ring)
    distances = attribute.distances.matrix(size)
    runs = Runs.on_ring(size, within) if ring else Runs.on_line(np.arange(12.0), within)
    near = near_by(size, 2, ring)
    if within > 2:
        between = [[float((x - k) % size < 6) for x in range(size)] for k in range(size)]
        near = np.array(between if ring else between[:7])
    reached = 0.0
    for _ in range(200):
        prior = rng.dirichlet(np.full(size, 0.5))
        bound = Guesses([runs]).bound(prior, distances)
        heights = rng.normal(size=size) * rng.choice([1, 10])
        heights = (heights[:, None] - distances).max(axis=0)  # the steepest below
        for likelihood in (heights, -distances[rng.integers(size)]):
            weights = prior * np.exp(likelihood)
            posterior = (near @ weights).max() / weights.sum()
            assert posterior <= bound + 1e-12
            reached = max(reached, posterior / bound)
    assert reached > 0.95, "a bound that is never nearly reached would hide faults"


@pytest.mark.parametrize("ring", [False, True])
def test_runs_cover_what_they_sum(ring):
    """`covered` is the transpose of `sums`."""
    runs = Runs.on_ring(7, 1.5) if ring else Runs.on_line(np.array([0, 1, 2, 5, 6, 7.5, 9]), 1.25)
    matrix = runs.sums(np.eye(7)).T
    assert np.allclose(runs.covered(np.eye(len(matrix))), matrix)
    assert not ring or (matrix.sum(axis=1) == 4).all()


# Samples ------------------------------------------------------------------------------------------

FALSE_ALARM = 1e-7
DRAWS = 1 << 15


def allowed(numbers=DRAWS):
    """Hoeffding: the mean of numbers between 0 and 1 is off by more than this so rarely."""
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * numbers))


class Faulty(SingleView):
    """Devices that use an eighth of the epsilon that they state."""

    def simulate(self, states, randomness):
        return self.channel.log_likelihood(channel_of(0.1).sample(states, randomness))


def channel_of(epsilon):
    attribute = Integer(0, 5, epsilon=epsilon, mechanism="threshold", per=1)
    return Survey.design({"x": attribute}).channels["x"]


@pytest.mark.parametrize("within", [0, 0.5, 1])
def test_simulations_agree_with_lists(within, monkeypatch):
    ones = Runs(np.arange(6), np.ones(6, dtype=np.int64), 6)
    runs = Runs.on_line(np.arange(6.0), within) if within else ones
    prior = np.arange(1, 7) / 21
    exact, exposed, rate = attack(SingleView(channel_of(0.8)), prior, Guesses([runs]))
    monkeypatch.setattr(module, "SIMULATED", DRAWS)
    monkeypatch.setattr(module, "_MOST_BITS", -1)
    sampled, found, sampled_rate = attack(SingleView(channel_of(0.8)), prior, Guesses([runs]))
    assert found == exposed
    assert exact.stderr == rate.stderr == 0.0
    for mean, drawn in ((exact, sampled), (rate, sampled_rate)):
        assert 0 < drawn.stderr < allowed()
        assert abs(drawn.mean - mean.mean) < allowed()
        assert abs(drawn.mean - mean.mean) < 5.5 * drawn.stderr  # normal: 4e-8
    broken, _, broken_rate = attack(Faulty(channel_of(0.8)), prior, Guesses([runs]))
    assert max(abs(broken.mean - exact.mean), abs(broken_rate.mean - rate.mean)) > 2 * allowed()


def test_simulations_repeat():
    survey = Survey.design({"x": Integer(0, 40, epsilon=1, per=5, mechanism="threshold")})
    first = survey.risk("x")
    assert first == survey.risk("x")
    assert 0 < first.stderr < 0.02
    assert "(SE " in str(first)


def test_chances_that_reports_are_as_likely_as_they_say():
    """ln P of whole columns, on domains whose reports are too many to be listed."""
    for name in (*MECHANISMS, *OF_SHAPES):
        survey = Survey.design({"x": Integer(0, 11, epsilon=0.9, mechanism=name, per=1)})
        channel = survey.channels["x"]
        column = channel.sample(np.arange(12), seeded(3))
        logs = channel.log_likelihood(column)
        for row, x in itertools.product((0, 5, 11), range(12)):
            assert np.exp(logs[row, x]) == pytest.approx(
                float(channel.probability(x, column[row])), rel=1e-9
            )


# Text, data and wrong arguments -------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3),
            "region": Categorical(["north", "south"], epsilon=2),
            "rent": Continuous(0, 3000, bins=30, epsilon=1, within=300, optional=1),
            "height": Continuous(100, 200, points=11, epsilon=1, per=20, rounding="stochastic"),
            "pay": Continuous(1, 100, bins=8, epsilon=1, metric=Relative(0.5)),
            "load": Weight(0, 10, private=True, epsilon=1),
            "size": Weight(0, 10),
        }
    )


def test_text_and_data(survey):
    found = survey.risk("age", within=5)
    assert str(found).splitlines() == [
        "Right guesses of age within 5, by an adversary with a uniform prior:",
        "  without the report   11%",
        f"  with the report      {100 * found.after:.3g}%; {100 * found.most_exposed_after:.3g}% "
        f"for {found.most_exposed}, the most exposed value",
        "  upper bound          71.3% for each report, whatever the mechanism",
    ]
    assert json.loads(json.dumps(found.to_dict()))["after"] == found.after
    assert "exactly, by an adversary with the given prior" in str(
        survey.risk("region", prior=[1, 3])
    )
    for name in ("age", "region", "rent", "rent=response", "height", "pay", "load"):
        found = survey.risk(name)
        assert 0 < found.before < found.after <= found.bound + 1e-12 <= 1 + 1e-12


def test_usual_within_is_the_distance_of_the_guarantee(survey):
    assert [usual_within(survey, name) for name in ("age", "rent", "height")] == [5, 300, 20]
    assert [usual_within(survey, name) for name in ("region", "pay", "load")] == [0, 0, 0]
    levels = Survey.design({"pay": Ordinal(["low", "middle", "high"], epsilon=1)})
    assert usual_within(levels, "pay") == 0, "a guess of the middle would always be right"


def test_prior_in_file(survey, tmp_path):
    rows = ["age,height,load", "10,101,0", "10,104,2", "11,199,9", "12,126,10"]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(rows))
    prior = prior_in_file(survey, ["age", "height", "load"], path)
    assert prior["age"][9:14].tolist() == [0, 2, 1, 1, 0]
    assert prior["height"].tolist() == [2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert prior["load"].tolist() == [2, 2]
    found = survey.risk("age", prior=prior)
    assert (found.before, found.most_exposed) == (0.5, "10")
    with pytest.raises(QueryError, match="is for attributes"):
        prior_in_file(survey, ["rent=response"], path)
    with pytest.raises(InvalidValueError, match="age"):
        path.write_text("age\n100")
        prior_in_file(survey, ["age"], path)
    assert prior_in_file(survey, ["age"], path, clip=True)["age"][99] == 1


def test_prior_in_file_has_all_attributes_of_a_group(tmp_path):
    (tmp_path / "people.csv").write_text("x,y\n0,0\n3,2\n3,1")
    for names in (["x"], ["x+y"]):
        prior = prior_in_file(of_both("hio"), names, tmp_path / "people.csv")
        assert {name: counts.tolist() for name, counts in prior.items()} == {
            "x": [1, 0, 0, 2],
            "y": [1, 1, 1],
        }


def test_large_domains_are_rejected_or_have_the_bound(monkeypatch):
    """Beyond 4,096 positions, here 40."""
    monkeypatch.setattr(module, "MOST_POSITIONS", 40)
    kinds = {name: Integer(0, last, epsilon=1, per=5) for name, last in (("x", 39), ("y", 40))}
    survey = Survey.design(kinds)
    assert survey.risk("x").after is not None
    with pytest.raises(QueryError, match="risk of y is computed for up to 40 values, not 41"):
        survey.risk("y")
    kinds = {name: Integer(0, 9, epsilon=1, per=5) for name in "abc"}
    group = Survey.design(SurveySpec(kinds, joint={tuple(kinds): "hio"}))
    assert group.risk("a").after is None and group.risk("a").bound < 1
    with pytest.raises(QueryError, match="risk of a\\+b\\+c is computed for up to 40 values"):
        group.risk("a+b+c")


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"attribute": "hight"}, "no attribute 'hight'; it has"),
        ({"attribute": "size"}, "public weight"),
        ({"attribute": ["age"]}, "no attribute ['age']"),
        ({"attribute": "region", "within": 1}, "no order"),
        ({"attribute": "age", "within": -1}, "a number of at least 0, not -1"),
        ({"attribute": "age", "within": "5"}, "at least 0, not '5'"),
        ({"attribute": "age", "within": None}, "at least 0, not None"),
        ({"attribute": "age", "within": math.inf}, "at least 0, not inf"),
        ({"attribute": "age", "within": 0.4}, "no two values of age are within 0.8"),
        ({"attribute": "age+region"}, "no attribute 'age+region'"),
        ({"attribute": "age", "prior": "worst"}, "not 'worst'"),
        ({"attribute": "age", "prior": [1, 2]}, "shape (100,), not (2,)"),
        ({"attribute": "region", "prior": [-1, 2]}, "none below zero"),
        ({"attribute": "region", "prior": ["a", 2]}, "array of numbers"),
        ({"attribute": "region", "prior": {"age": np.ones(100)}}, "no entry for region"),
        ({"attribute": "region", "prior": {"foo": [1]}}, "no attribute 'foo'"),
    ],
)
def test_wrong_arguments_are_named(survey, options, needle):
    with pytest.raises(QueryError) as error:
        survey.risk(**options)
    assert needle in str(error.value)
    assert "\n" not in str(error.value)
