"""Several attributes as one: metrics on the cells of a grid, and what blurs cells."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    Integer,
    InvalidSpecError,
    Lp,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
)
from metricldp.answers.tally import Tally
from metricldp.mechanisms.joint_cells import REPORT

BOTH = ("east", "north")


def side(size, **said):
    return Integer(0, size - 1, **(said if "within" in said else {"per": 1, **said}))


def place(*sizes, **said):
    return {name: side(size, **said) for name, size in zip(BOTH, sizes, strict=True)}


def blurred(attributes, name, metric="plane", **more):
    how = {"name": name, "metric": metric, **more}
    return Survey.design(SurveySpec(attributes, joint={tuple(attributes)[:2]: how}))


WITHIN = {"epsilon": 1, "within": 2}
SURVEYS = {
    "additive, plane": lambda: blurred(place(3, 4, **WITHIN), "additive"),
    "additive, bins": lambda: blurred(
        {name: Continuous(0, 3, bins=3, epsilon=1, within=1) for name in BOTH}, "additive"
    ),
    "additive, sum": lambda: blurred(place(3, 3, epsilon=0.5), "additive", "sum"),
    "additive, max_epsilon": lambda: blurred(
        place(3, 4, epsilon=1, within=1, max_epsilon=2), "additive"
    ),
    "additive, lines": lambda: blurred(place(2, 3, epsilon=1), "additive"),
    "extremal, plane": lambda: blurred(place(3, 3, **WITHIN), "extremal"),
    "extremal, circle": lambda: blurred(
        {
            "hour": Integer(0, 3, epsilon=1, per=1, cyclic=True),
            "kind": Categorical(["a", "b", "c"], epsilon=1),
        },
        "extremal",
        "sum",
    ),
    "tight-constraints, plane": lambda: blurred(place(3, 3, epsilon=1), "tight-constraints"),
    "tight-constraints, sum": lambda: blurred(place(2, 3, epsilon=0.3), "tight-constraints", "sum"),
}
made = {}


@pytest.fixture(params=SURVEYS)
def survey(request):
    if request.param not in made:
        made[request.param] = SURVEYS[request.param]()
    return made[request.param]


# Surveys


def test_files_say_it_all(survey):
    for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
        assert again == survey
        assert again.to_dict() == survey.to_dict()


def test_answers_from_reports_totals_and_parts_are_the_same(survey, tmp_path):
    n, rng = 4_000, np.random.default_rng(2)
    people = {}
    for name, described in survey.attributes.items():
        values = [described.values_at(k)[0] for k in range(described.size)]
        people[name] = [values[k] for k in rng.integers(0, described.size, n)]
    reports = survey.randomize(people, randomness=Randomness.seeded(1))
    first, second = survey.attributes
    binned = survey.attributes[first].kind == "continuous"
    values = {name: people[name][0] for name in (first, second)}
    where = {name: (v, v + 1) for name, v in values.items()} if binned else values
    whole = survey.tally(reports)
    kept = survey.tally(reports, keep=[(first,)])
    kept.save(tmp_path / "a.totals")
    kept = Tally.load(survey, tmp_path / "a.totals")
    parts = survey.tally(reports.slice(0, 1_000)) + survey.tally(reports.slice(1_000))
    for asked in (where, {first: where[first]}, {second: where[second]}):
        answers = [tally.count(asked) for tally in (whole, kept, parts)]
        assert len({round(answer.value, 6) for answer in answers}) == 1
        assert len({round(answer.stderr, 6) for answer in answers}) == 1
        true = sum(all(people[k][i] == values[k] for k in asked) for i in range(n))
        assert abs(answers[0].value - true) < 6.5 * answers[0].stderr


def test_errors_are_the_predicted_ones():
    """The mean square of a rectangle's answers over many collections: within 5 % at 6 sigma."""
    survey = SURVEYS["additive, plane"]()
    where, n, times = {"east": (1, 2), "north": (0, 1)}, 40, 3_000
    people = {"east": np.tile(np.arange(n) % 3, times), "north": np.tile(np.arange(n) % 4, times)}
    reports = survey.randomize(people, randomness=Randomness.seeded(4))
    (block,) = survey.blocks.values()
    inside = [np.array([[0.0, 1, 1]]), np.array([[1.0, 1, 0, 0]])]
    column = reports.column("east+north=report").to_numpy()
    sums = block.channel.decoded(inside, {REPORT: column})[0].reshape(times, n).sum(axis=1)
    shares = np.zeros((3, 4))
    np.add.at(shares, (np.arange(n) % 3, np.arange(n) % 4), 1 / n)
    expected = survey.expected_error(where, n=n, prior=shares).stderr ** 2
    true = sum(k % 3 >= 1 and k % 4 <= 1 for k in range(n))
    assert abs(((sums - true) ** 2).mean() / expected - 1) < 6 * math.sqrt(2 / times)


def test_shaped_noise_is_near_the_best_and_far_better_than_planar_laplace():
    """4 x 4 cells, within 1 cell: all rectangles, mean variance per person."""
    sides = place(4, 4, epsilon=1, within=1)

    def variance(survey):
        ranges = [(a, b) for a in range(4) for b in range(a, 4)]
        asked = itertools.product(ranges, repeat=2)
        boxes = [dict(zip(BOTH, ends, strict=True)) for ends in asked]
        return np.mean(
            [survey.expected_error(box, n=1, prior="uniform").stderr ** 2 for box in boxes]
        )

    planar = Survey.design(SurveySpec(place(4, 4, epsilon=1), joint={BOTH: "planar-laplace"}))
    shaped, designed = (variance(blurred(sides, name)) for name in ("additive", "extremal"))
    assert designed == pytest.approx(1.554, rel=0.01)
    assert designed < shaped < 1.12 * designed
    assert variance(planar) > 2 * shaped


def test_what_a_place_is_made_for():
    """A workload of names or rows, a prior for designed, and limits of its search."""
    sides = place(3, 3, **WITHIN)
    usual = blurred(sides, "extremal")

    def of_cells(survey, count=9):
        where = [dict(zip(BOTH, cell, strict=True)) for cell in np.ndindex(3, 3)]
        return sum(
            survey.expected_error(w, n=1, prior="uniform").stderr ** 2 for w in where[:count]
        )

    for name in ("additive", "extremal"):
        values = blurred(sides, name, workload="values")
        assert values.mechanisms["east"].workload == "values"
        ranges = usual if name == "extremal" else blurred(sides, name)
        assert of_cells(values) < of_cells(ranges)
    rows = blurred(sides, "extremal", workload=np.eye(9)[:1].tolist())
    assert rows.mechanisms["east"].workload == "given"
    assert Survey.from_json(rows.to_json()) == rows
    assert of_cells(rows, 1) < of_cells(usual, 1)
    people = np.array([[50, 1, 1], [1, 1, 1], [1, 1, 50]])
    known = blurred(sides, "extremal", prior=people.ravel().tolist(), gap=0.01, seconds=20)
    settings = known.to_dict()["groups"]["east+north"]["mechanism"]
    assert list(settings) == ["name", "metric", "workload", "prior"]
    assert Survey.from_toml(known.to_toml()) == known
    box = {"east": (0, 1), "north": (0, 1)}
    assert (
        known.expected_error(box, n=1, prior=people).stderr
        < usual.expected_error(box, n=1, prior=people).stderr
    )
    assert known.certify().holds


def test_what_stays_the_same_for_attributes_beside_a_place():
    alone = Survey.design({"age": side(10, epsilon=1)})
    survey = Survey.design(
        SurveySpec(
            {"east": side(3, **WITHIN), "age": side(10, epsilon=1), "north": side(3, **WITHIN)},
            joint={BOTH: {"name": "additive", "metric": "plane"}},
        )
    )
    assert (
        survey.channels["age"].distribution.to_data()
        == alone.channels["age"].distribution.to_data()
    )
    assert list(survey.fields) == ["east+north", "age"]
    ledger = Accountant()
    ledger.add(survey)
    assert ledger.spent("east", 0, 2) == 1
    assert ledger.together == survey.blocks["east+north"].diameter + 9
    assert "at most 2.72 times as likely" in str(survey.explain(n=100))
    assert "radii" in survey.explain().details()


# What is refused


def test_a_certificate_follows_the_attributes_and_not_the_file():
    """A channel for one epsilon is not certified for a smaller one."""
    survey = SURVEYS["additive, plane"]()
    other = blurred(place(3, 4, epsilon=0.9, within=2), "additive")
    assert not certified_with(other, survey).holds


def certified_with(survey, other):
    """The certificate of a survey with the integers of another one."""
    ((name, block),) = survey.blocks.items()
    survey.blocks = {name: replace(block, channel=other.blocks[name].channel)}
    for computed in ("client_manifest", "_block_of"):
        survey.__dict__.pop(computed)
    return survey.certify()


@pytest.mark.parametrize("name", ["additive", "extremal", "tight-constraints"])
def test_one_max_epsilon_for_all_attributes_together(name):
    """Opposite corners are 4 apart, and with a max_epsilon of 2 not more than that."""
    survey = blurred(place(3, 3, epsilon=1), name, "sum", max_epsilon=2)
    (block,) = survey.blocks.values()
    grid = block.grid
    assert [float(grid.distance(0, k)) for k in range(9)] == [0, 1, 2, 1, *[2] * 5]
    assert survey.certify().holds and float(block.diameter) == 2
    assert Survey.from_toml(survey.to_toml()) == survey
    data = survey.to_dict()
    data["groups"]["east+north"]["mechanism"]["max_epsilon"] = 1
    with pytest.raises(InvalidSpecError, match="break"):
        Survey.from_dict(data)


def test_max_epsilon_bounds_each_attribute_alone_too():
    """5 values, 1 per step: 4 across, but all together are never more than 2 apart."""
    survey = blurred(place(5, 5, epsilon=1), "additive", "sum", max_epsilon=np.float64(2))
    assert [e["max_epsilon"] for e in survey.explain().to_dict()["attributes"]] == [2, 2]
    ledger = Accountant()
    ledger.add(survey)
    assert float(ledger.spent("east", 0, 4)) == 2
    proof = survey.certify()
    assert proof.holds


def test_a_channel_beyond_max_epsilon_is_not_certified():
    """A channel made for a max_epsilon of 3, under one of 2."""
    wide = blurred(place(5, 5, epsilon=1), "additive", "sum", max_epsilon=3)
    narrow = blurred(place(5, 5, epsilon=1), "additive", "sum", max_epsilon=2)
    assert not certified_with(narrow, wide).holds


def test_workloads_of_one_attribute_of_a_block_are_predicted_at_once():
    survey = blurred(place(4, 3, epsilon=1), "additive", "sum")
    values = [{"east": value} for value in range(4)]
    shares = np.random.default_rng(3).dirichlet(np.ones(12)).reshape(4, 3)
    for prior in ("uniform", shares):
        expected = np.mean(
            [survey.expected_error(where, n=7, prior=prior).stderr ** 2 for where in values]
        )
        found = (
            survey.expected_error(attribute="east", workload="values", n=7, prior=prior).stderr ** 2
        )
        assert found == pytest.approx(expected, rel=1e-9)


PLANE = {"name": "additive", "metric": "plane"}


@pytest.mark.parametrize(
    ("attributes", "joint", "message"),
    [
        (place(200, 200, **WITHIN), PLANE, "200 x 200 cells are too many .* at most 32,768"),
        (
            place(40, 40, **WITHIN),
            {**PLANE, "name": "tight-constraints"},
            "1,600 cells are too many for tight-constraints; use at most 1,024, or mechanism "
            "additive",
        ),
        (
            place(11, 10, **WITHIN),
            {**PLANE, "name": "extremal"},
            "110 cells are too many for mechanism extremal; use at most 100",
        ),
        (
            place(3, 3, epsilon=1),
            {**PLANE, "max_epsilon": 0},
            "the max_epsilon of all together is above 0, not 0",
        ),
        (
            place(3, 3, epsilon=1),
            {**PLANE, "max_epsilon": 0.5},
            "max_epsilon 0.5 .* below the smallest distance",
        ),
        (place(3, 3, epsilon=1), {**PLANE, "metric": "air"}, 'metric is "sum" or "plane", not '),
        (place(3, 3, epsilon=1), {**PLANE, "size": 3}, "'additive' has no entry 'size'"),
        (
            {"east": side(3, epsilon=1, within=1), "north": side(3, epsilon=1)},
            PLANE,
            "use within for both, or per for both",
        ),
        (
            {"east": side(3, epsilon=1, within=1), "north": side(3, epsilon=2, within=1)},
            PLANE,
            "epsilon within a distance in the plane must be the same",
        ),
        (
            {"east": side(3, epsilon=1, max_epsilon=2), "north": side(3, epsilon=1)},
            PLANE,
            "max_epsilon is for the distance in the plane; state the same for both",
        ),
        (
            {"hour": Integer(0, 4, epsilon=1, per=1, cyclic=True), "north": side(3, epsilon=1)},
            PLANE,
            "hour cannot be an axis of a plane; use evenly spaced numbers, not cyclic",
        ),
        (
            {**place(3, 3, epsilon=1), "up": side(3, epsilon=1)},
            PLANE,
            "a plane has two attributes, not 3",
        ),
        (
            place(4, 4, epsilon=0.3),
            {**PLANE, "name": "tight-constraints"},
            # The four inner cells have the same weight, up to rounding.
            "the weight of [12], [12] would be negative under this metric; use mechanism extremal",
        ),
        (place(3, 3, **WITHIN), {**PLANE, "workload": "mean"}, "a workload of several attributes"),
        (place(3, 3, **WITHIN), {**PLANE, "workload": {"mean": 1}}, "of several attributes"),
        (place(3, 3, **WITHIN), {**PLANE, "workload": "rangs"}, "no workload is called 'rangs'"),
        (place(3, 3, **WITHIN), {**PLANE, "workload": "7 bars"}, "bars"),
        (
            place(3, 3, **WITHIN),
            {**PLANE, "prior": [1] * 9},
            "a uniform prior; leave prior",
        ),
        (
            place(3, 3, epsilon=1e-9),
            PLANE,
            "epsilon is too small to distinguish values in floats; use a larger",
        ),
    ],
)
def test_refused(attributes, joint, message):
    with pytest.raises(InvalidSpecError, match=message) as refused:
        Survey.design(SurveySpec(attributes, joint={tuple(attributes): joint}))
    assert "\n" not in str(refused.value)


def test_the_norm_of_a_survey_and_that_of_a_place():
    """A window in the plane may be more than the root of the sum of squares, and a sum is."""
    lines = Survey.design(SurveySpec(place(3, 3, epsilon=1), metric=Lp(2), joint={BOTH: PLANE}))
    assert lines.certify().holds
    with pytest.raises(InvalidSpecError, match="has a norm with p up to 1"):
        Survey.design(SurveySpec(place(3, 3, **WITHIN), metric=Lp(2), joint={BOTH: PLANE}))
    with pytest.raises(InvalidSpecError, match="has a norm with p up to 1"):
        Survey.design(SurveySpec(place(3, 3, epsilon=1), metric=Lp(2), joint={BOTH: "additive"}))


def test_within_and_max_epsilon_below_one_step_are_rejected():
    with pytest.raises(
        InvalidSpecError, match=r"within 0\.2 is less than one step of the grid, 0\.5"
    ):
        Continuous(0, 8, bins=16, epsilon=1, within=0.2)
    with pytest.raises(
        InvalidSpecError, match=r"max_epsilon 0\.5 is below the smallest distance, 1"
    ):
        Continuous(0, 8, bins=16, epsilon=1, within=1, max_epsilon=0.5)


def test_what_totals_hold_of_blocks():
    survey = Survey.design(SurveySpec(place(3, 3, epsilon=1), joint={BOTH: "hio"}))
    with pytest.raises(QueryError, match="east is a joint attribute"):
        survey.tally(survey.randomize({"east": [1], "north": [2]}), keep=[("east",)])


def test_three_attributes_as_one():
    """At a tenth per step the product of three channels has over 100 times the error."""
    sides = {name: side(3, epsilon=0.1) for name in "abc"}
    joint = Survey.design(SurveySpec(sides, joint={("a", "b", "c"): "additive"}))
    assert joint.certify().holds
    corner = dict.fromkeys(sides, (0, 1))
    product = Survey.design({name: replace(a, mechanism="threshold") for name, a in sides.items()})
    assert product.expected_error(corner, n=1, prior="uniform").stderr ** 2 > 100 * (
        joint.expected_error(corner, n=1, prior="uniform").stderr ** 2
    )
