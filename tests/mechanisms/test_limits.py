"""Limits that are proved: never above the best channel, near it, and forms that hold."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from settings_of_auto import against_all, settings
from test_shapes import SKEWED, every_shape, metrics

from metricldp import Categorical, InvalidSpecError, QueryError, Survey, SurveySpec
from metricldp.attributes.integer import Integer
from metricldp.lab.limits import Made, nearness
from metricldp.lab.limits import limits as all_limits
from metricldp.mechanisms import limit_forms as forms
from metricldp.mechanisms import limits
from metricldp.mechanisms.auto import variance_of
from metricldp.mechanisms.extremal_search import best_mixture, extreme_shapes
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Line, Uniform
from metricldp.metrics.grid import summed
from metricldp.metrics.window import Bent, Window


def relaxed(size, metric, gram, prior=None):
    spread = np.full(size, 1 / size) if prior is None else np.array(prior) / sum(prior)
    dual = forms.Dual(size, metric, gram, spread)
    return dual.proved(dual.best())


@pytest.mark.parametrize("index", range(11))
def test_a_relaxation_is_below_the_best_of_all_shapes(index):
    size = 5
    metric, gram = metrics(size, Fraction(1))[index], Workload.all_ranges(size).gram()
    for prior in (None, SKEWED):
        exact = limits.limit(size, metric, gram, None if prior is None else np.array(prior))
        assert exact.exact
        apart = np.asarray(metric.whole(size), dtype=np.int64)
        spread = None if prior is None else np.array(prior) / sum(prior)
        best = best_mixture(apart, float(metric.step), gram, prior=spread, target=1 + 1e-5)
        assert exact.total <= best.total <= exact.total * (1 + 1e-3)
        below = relaxed(size, metric, gram, prior)
        assert 0.75 * best.total <= below <= best.total * (1 + 1e-9)


@pytest.mark.parametrize(
    ("size", "metric", "known"),
    [(16, Line(Fraction(35, 100)), 9.889), (16, Line(Fraction(1, 10)), 168.9)],
)
def test_limits_of_lines_are_the_known_ones(size, metric, known):
    """By a list of all shapes, and by a relaxation."""
    workload = Workload.all_ranges(size)
    gram = workload.gram()
    found = limits.limit(size, metric, gram)
    assert found.exact
    for total in (found.total, relaxed(size, metric, gram)):
        assert (total - gram.trace() / size) / workload.rows == pytest.approx(known, rel=1e-3)


@pytest.mark.parametrize(
    "metric",
    [
        Window(Fraction(1), 2),
        Window(Fraction(1, 2), 2, Fraction(1)),
        Bent(Fraction(1), cap=Fraction(2)),
        Uniform(Fraction(2)),
    ],
)
def test_every_form_is_at_least_0_on_every_shape(metric):
    """And its twin, a form moved by a hundredth, is not: the test would see a false one."""
    size = 5
    dual = forms.Dual(size, metric, np.eye(size), np.full(size, 1 / size))
    apart = np.asarray(metric.whole(size), dtype=np.int64)
    shapes = np.exp(float(metric.step) * every_shape(apart))
    shapes /= shapes.mean(axis=1, keepdims=True)
    assert (shapes @ dual.rows.T).min() > -1e-12
    assert (shapes <= dual.reach + 1e-12).all()
    squares = (shapes[:, :, None] * shapes[:, None, :]).reshape(len(shapes), -1)
    local = np.zeros((dual.forms, size * size))
    np.add.at(local, (dual.owner, dual.at), dual.parts)
    values = squares @ local.T
    assert values.min() > -1e-9
    moved = values - 0.01 * np.abs(squares) @ np.abs(local).T
    assert (moved.min(axis=0) < -1e-6).all(), "every form touches 0 somewhere"


GRIDS = {
    (2, 2): {0.1: 132.0, 0.5: 5.08},
    (3, 3): {0.1: 206.27, 0.2: 51.146, 0.5: 7.7077, 1: 1.4981},
    (4, 4): {0.1: 265.21, 0.2: 65.520, 0.5: 9.5775, 1: 1.5071},
    (3, 3, 3): {0.05: 1391.8, 0.1: 347.03, 0.2: 85.847, 0.5: 12.685, 1: 2.0968},
}
"""Mean variance of all boxes, people spread evenly, epsilon per step."""


def of_grid(sizes, epsilon):
    metric = summed([Line(Fraction(str(epsilon)))] * len(sizes), sizes)
    boxes = Workload.product([Workload.all_ranges(size) for size in sizes])
    return boxes, limits.limit(boxes.size, metric, boxes.gram())


@pytest.mark.parametrize(
    ("sizes", "epsilon", "known"),
    [
        pytest.param(
            *(sizes, epsilon, known),
            marks=[pytest.mark.slow] if len(sizes) == 3 and epsilon != 0.2 else [],
        )
        for sizes, found in GRIDS.items()
        for epsilon, known in found.items()
    ],
)
def test_limits_of_grids_are_the_known_ones(sizes, epsilon, known):
    """And the proof refuses a limit that is higher by a hundredth: it is no rubber stamp."""
    boxes, found = of_grid(sizes, epsilon)
    assert found.exact and found.holds()
    assert variance_of(found.total, boxes, None) == pytest.approx(known, rel=2e-4)
    assert not replace(found, total=1.01 * found.total).holds()


@pytest.mark.parametrize(
    ("sizes", "epsilon"),
    [
        pytest.param(sizes, epsilon, marks=[pytest.mark.slow] if len(sizes) == 3 else [])
        for sizes in ((3, 3), (4, 4), (3, 3, 3))
        for epsilon in (0.1, 0.2, 0.5, 1)
    ],
)
def test_column_generation_reaches_the_limits_that_shaped_noise_comes_near(sizes, epsilon):
    """Of small grids: within a hundredth, in the whole numbers of a survey, and certified."""
    side, names = Integer(0, 2, epsilon=epsilon, per=1), tuple("abc"[: len(sizes)])
    attributes = {name: replace(side, high=n - 1) for name, n in zip(names, sizes, strict=True)}
    made = {
        name: Survey.design(SurveySpec(attributes, joint={names: name}))
        for name in ("additive", "extremal")
    }
    near = {}
    for name, survey in made.items():
        (block,) = survey.blocks.values()
        boxes = Workload.product([Workload.all_ranges(size) for size in sizes])
        near[name] = variance_of(block.channel.one.moments.mean_square(boxes.gram()), boxes, None)
    known = GRIDS[sizes][epsilon]
    assert 0.999 * known < near["extremal"] < 1.01 * known
    assert 1.04 * known < near["additive"] < 1.27 * known
    assert made["extremal"].certify().holds


def test_a_proof_that_is_wrong_proves_less():
    """A larger B, smaller prices, a matrix that is not symmetric, a multiplier below 0."""
    _, found = of_grid((3, 3), 0.5)
    proof = found.proof
    assert replace(proof, matrix=2 * proof.matrix).total() == pytest.approx(found.total)
    more = proof.matrix + np.diag([1.0, *[0] * 8]) * proof.matrix.max()
    assert replace(proof, matrix=more).total() < found.total
    crooked = proof.matrix.copy()
    crooked[0, 1] *= 1.01
    assert replace(proof, matrix=crooked).total() == 0
    assert replace(proof, prices=-proof.prices).total() == 0
    problem = proof.problem
    dual = forms.Dual(problem.size, problem.metric, problem.gram, problem.prior)
    point = dual.best()
    weaker = limits.ByForms(problem, point)
    assert 0.99 * found.total < weaker.total() <= found.total * (1 + 1e-4)
    bad = point.copy()
    bad[-1] = -1e-3
    assert limits.ByForms(problem, bad).total() == 0


@pytest.mark.parametrize(
    ("metrics_of", "sizes", "count"),
    [
        (Line(Fraction(1)), (3, 3), 82),
        (Line(Fraction(1)), (4, 4), 2604),
        (Line(Fraction(1)), (2, 2, 2), 38),
        (Line(Fraction(1)), (2, 3), None),
        (Line(Fraction(1)), (6,), 32),
        (Window(Fraction(1), 2), (5,), None),
        (Bent(Fraction(1), cap=Fraction(2)), (2, 3), None),
    ],
)
def test_no_extreme_shape_is_missing(metrics_of, sizes, count):
    """Those of all shapes whose pairs at their full distance join all positions are listed."""
    metric = summed([metrics_of] * len(sizes), sizes)
    size = int(np.prod(sizes))
    apart = np.asarray(metric.whole(size), dtype=np.int64)
    listed = extreme_shapes(apart)
    assert count is None or len(listed) == count
    if size > 6:
        return
    mine = {tuple(row) for row in listed.tolist()}
    for row in every_shape(apart):
        tight = np.abs(row[:, None] - row) == apart
        reached = np.linalg.matrix_power(tight.astype(np.int64), size)[0]
        assert not reached.all() or tuple((row - row[0]).tolist()) in mine
    assert extreme_shapes(apart, most=5) is None


def test_a_block_says_how_near_it_is():
    side = Integer(0, 2, epsilon=0.5, per=1)
    survey = Survey.design(
        SurveySpec({"a": side, "b": side, "c": side}, joint={("a", "b"): "additive"})
    )
    block, alone = all_limits(survey, n=100).entries
    assert (block.attribute, alone.attribute) == ("a+b", "c")
    assert block.exact and 0 <= block.room < 0.15
    assert block.limit == pytest.approx((100 * 7.7077) ** 0.5, rel=1e-3)
    assert "a+b" in str(all_limits(survey))
    values = nearness(survey, "a+b", workload="values")
    assert values.limit < values.error
    with pytest.raises(QueryError, match="leave prior out"):
        nearness(survey, "a+b", prior=[1] * 9)
    with pytest.raises(QueryError, match="ranges, prefixes, values or bars of each"):
        nearness(survey, "a+b", workload="mean")
    places = Survey.design(SurveySpec({"a": side, "b": side}, joint={("a", "b"): "planar-laplace"}))
    assert all_limits(places).without["a+b"] == (
        "lower bounds of groups are computed for additive, extremal and tight-constraints, not for "
        "planar-laplace"
    )


def test_a_survey_says_how_near_it_is():
    survey = Survey.design(
        {
            "a": Integer(0, 5, epsilon=1, within=2, mechanism="extremal"),
            "b": Integer(0, 5, epsilon=1, within=2, mechanism="geometric"),
            "long": Integer(0, 999, epsilon=1, per=1),
        }
    )
    best, plain = all_limits(survey, n=100).entries
    assert best.exact and 0 <= best.room < 0.002
    assert plain.limit == pytest.approx(best.limit) and plain.room > 0.4
    assert best.error == pytest.approx(
        survey.expected_error(attribute="a", workload="ranges", n=100, prior="uniform").stderr,
        rel=1e-6,
    )
    told = str(all_limits(survey, n=100))
    assert "long: lower bounds are computed for up to 128 values, not 1,000" in told
    assert all_limits(survey).to_dict()["limits"][0]["mechanism"] == "extremal"
    with pytest.raises(InvalidSpecError, match="no workload is called"):
        nearness(survey, "a", workload="rangs")
    skewed = nearness(survey, "a", workload={"mean": 1, "3 bars": 1}, prior=[9, 1, 1, 1, 1, 1])
    assert skewed.limit < skewed.error


@pytest.mark.parametrize("metric", ["sum", "plane"])
def test_tables_have_a_limit_of_their_own(metric):
    """Of two attributes as one; where all shapes can be listed a designed table is at the limit."""
    kinds = {name: Integer(0, 1, epsilon=1, within=1) for name in ("x", "y")}
    kinds["x"] = Integer(0, 2, epsilon=1, within=1)
    said = {"name": "extremal", "metric": metric}
    survey = Survey.design(
        SurveySpec({**kinds, "z": Integer(0, 3, epsilon=1, per=1)}, joint={("x", "y"): said})
    )
    table, alone = all_limits(survey, n=100).entries
    assert (alone.attribute, table.attribute, table.workload) == ("z", "x+y", "ranges")
    assert table.exact and -1e-6 <= table.room < 0.002
    wheres = [
        {"x": (a, b), "y": (c, d)}
        for a, b in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        for c, d in ((0, 0), (0, 1), (1, 1))
    ]
    squares = [survey.expected_error(where, n=100, prior="uniform").stderr ** 2 for where in wheres]
    assert table.error == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)
    shaped = Survey.design(SurveySpec(kinds, joint={("x", "y"): {**said, "name": "additive"}}))
    assert all_limits(shaped, n=100).entries[0].limit == pytest.approx(table.limit, rel=1e-3)
    made = Made.of(survey).to_dict()["made"]
    assert [(e["attribute"], e["values"]) for e in made] == [("z", 4), ("x+y", 6)]
    assert "x+y" in str(Made.of(survey)) and made[1]["gap"] < 1e-2
    with pytest.raises(QueryError, match=r"x is in a group; .* computes the bound of x\+y"):
        nearness(survey, "x")


def test_tables_without_a_limit_say_why():
    wide = {name: Integer(0, 8, epsilon=1, per=1) for name in ("x", "y")}
    told = str(all_limits(Survey.design(SurveySpec(wide, joint={("x", "y"): "planar-laplace"}))))
    assert told == (
        "x+y: lower bounds of groups are computed for additive, extremal and tight-constraints, "
        "not for planar-laplace"
    )
    cells = Survey.design(
        SurveySpec(wide, joint={("x", "y"): {"name": "tight-constraints", "metric": "sum"}})
    )
    assert "lower bounds are computed for up to 64 cells, not 81; use a coarser grid" in str(
        all_limits(cells)
    )


@pytest.mark.parametrize("name", ["auto", "extremal", "additive", "matrix"])
@pytest.mark.parametrize("workload", ["mean", {"values": 1, "mean": 2}])
def test_categories_have_no_mean(name, workload):
    if isinstance(workload, dict) and name == "matrix":
        return
    said = {"name": name, "workload": workload}
    with pytest.raises(InvalidSpecError, match="attribute c: categories have no mean; use"):
        Survey.design({"c": Categorical(list("abcd"), epsilon=1, mechanism=said)})
    Survey.design({"c": Integer(0, 3, epsilon=1, mechanism=said, per=1)})


SETTINGS = list(settings())
QUICK = {3, 44, 55}


@pytest.mark.parametrize(
    "index", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in range(60)]
)
def test_auto_is_never_worse_than_any_other_mechanism(index):
    """By more than the hundredth that a simpler one may cost."""
    assert len(SETTINGS) == 60
    size, _, metric, workload = SETTINGS[index]
    _, mine, best, other = against_all(size, metric, workload)
    assert mine <= 1.01 * other, best
