"""The matrix mechanism: what it keeps, plans in surveys, and linear answers."""

import math
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import sparse

from checks import MECHANISMS, exact_law, prove, total_error
from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    DistanceMatrix,
    EstimateTable,
    Graph,
    Integer,
    InvalidSpecError,
    Lp,
    Matrix,
    Ordinal,
    QueryError,
    SensitiveSet,
    Survey,
    SurveySpec,
    Weight,
    Workload,
)
from metricldp.answers.queries import parse
from metricldp.estimate.table import COLUMNS, NUMBERS
from metricldp.mechanisms import MatrixChannel, strategies
from metricldp.mechanisms import matrix as plans
from metricldp.mechanisms.matrix_search import best_plan
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.stated import WORKLOADS, completed
from metricldp.metrics import Line, Sensitive, Uniform
from metricldp.reports import arrow
from metricldp.reports import bytes as pack
from metricldp.store.cubes import build
from metricldp_core.exact import log_of

THIRD, HALF = Fraction(1, 3), Fraction(1, 2)


# Privacy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "epsilons", "metric"),
    [
        (strategies.prefix(5)[:-1], [Fraction(1)] * 4, Line(Fraction(1))),
        (strategies.identity(4), [HALF] * 4, Uniform(Fraction(1))),
        (
            strategies.identity(3),
            [Fraction("0.4"), Fraction("0.6"), Fraction("0.6")],
            Sensitive(frozenset([0]), Fraction(1)),
        ),
    ],
    ids=["prefix", "identity", "sensitive"],
)
@pytest.mark.parametrize("reach", [0, 2, None])
def test_one_percent_more_on_one_row_is_not_certified(rows, epsilons, metric, reach):
    rows = rows.astype(np.int64)
    honest = MatrixChannel.of(rows, epsilons, reach)
    assert not plans._exceeds(rows, epsilons, metric)
    assert all(pair.holds for pair in prove(honest, metric))
    for row in range(len(rows)):
        more = [u * Fraction(101, 100) if k == row else u for k, u in enumerate(epsilons)]
        assert plans._exceeds(rows, more, metric)
        assert not all(pair.holds for pair in prove(MatrixChannel.of(rows, more, reach), metric))


def test_whether_a_plan_is_broken_is_decided_without_rounding():
    rows = strategies.prefix(3)[:-1].astype(np.int64)
    exact, tiny = [THIRD, THIRD], Fraction(1, 10**40)
    assert not plans._exceeds(rows, exact, Line(THIRD))
    assert plans._exceeds(rows, [THIRD, THIRD + tiny], Line(THIRD))
    assert plans._exceeds(rows, exact, Line(THIRD - tiny))
    assert not plans._exceeds(rows, [THIRD - tiny] * 2, Line(THIRD))


def test_sums_beyond_64_bits_break_no_plan_and_hide_none():
    """Each weight fits into 64 bits, their sum over the rows does not."""
    rows = np.array([[1 << 15, 0], [-(1 << 15), 0]])
    epsilons = [Fraction("0.000150000000000001"), Fraction("0.000150000000000003")]
    spent = sum(epsilons) * (1 << 15)
    assert plans._exceeds(rows, epsilons, Line(Fraction(1)))
    assert not plans._exceeds(rows, epsilons, Line(spent))
    assert plans._exceeds(rows, epsilons, Line(spent - Fraction(1, 10**30)))


@pytest.mark.parametrize("at_once", [1, 4, 10, 1 << 22])
def test_a_broken_pair_is_found_in_any_block(at_once, monkeypatch):
    monkeypatch.setattr(plans, "_AT_ONCE", at_once)
    rows = strategies.prefix(6)[:-1].astype(np.int64)
    for place in range(5):
        more = [HALF + (k == place) * Fraction(1, 100) for k in range(5)]
        assert plans._exceeds(rows, more, Line(HALF))
    assert not plans._exceeds(rows, [HALF] * 5, Line(HALF))


@pytest.mark.parametrize("u", [1e-5, 1e-6, 2e-7])
def test_rows_with_long_blocks_are_certified(u):
    """Their noise has up to 2^23 values in a block. The largest distance allows all rows."""
    channel = MatrixChannel.of(np.eye(3, dtype=int), [Fraction(str(u))] * 3)
    pairs = prove(channel, Uniform(3 * Fraction(str(u))))
    assert all(pair.holds for pair in pairs)
    assert pairs[0].loss == pytest.approx(3 * u, rel=1e-9)
    assert log_of(channel.distribution.ratio(0, 1)) == pytest.approx(2 * u, rel=1e-9)


def test_a_dense_plan_is_certified():
    """Rows of whole numbers up to 256, so that hundreds of differences come up in each row."""
    places = np.random.default_rng(30).random((12, 2))
    far = np.linalg.norm(places[:, None] - places, axis=2).round(3).tolist()
    attribute = Integer(
        0, 11, epsilon=1, metric=DistanceMatrix(far), mechanism=Matrix(workload="prefixes")
    )
    survey = Survey.design({"v": attribute})
    assert np.abs(survey.channels["v"].entries).max() == 256
    assert survey.certify().holds
    channel = survey.channels["v"]
    more = [Fraction(1.0001 * noise.epsilon) for noise in channel.noises]
    broken = MatrixChannel.of(channel.entries, more)
    assert not all(pair.holds for pair in prove(broken, survey.attributes["v"].distances))


def kinds():
    names = list("abcdef")
    ring = Graph([*pairwise(names), ("f", "a", 2)])
    far = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) ** 0.5
    return {
        "line": Integer(0, 11, epsilon=0.7, per=3, mechanism="matrix"),
        "prefixes": Integer(0, 5, epsilon=2, mechanism=Matrix(workload="prefixes"), per=1),
        "haar": Ordinal(names, epsilon=1, mechanism=Matrix(strategy="haar")),
        "hierarchy": Ordinal(names, epsilon=1, mechanism=Matrix(strategy="hierarchy")),
        "uniform": Categorical(names, epsilon=1, mechanism="matrix"),
        "sensitive": Categorical(
            names, epsilon=1, mechanism="matrix", metric=SensitiveSet(["b", "c"])
        ),
        "closed form": Categorical(
            names,
            epsilon=1,
            metric=SensitiveSet(["b", "c"]),
            mechanism=Matrix(strategy="identity"),
        ),
        "ring": Ordinal(names, epsilon=1.3, mechanism="matrix", metric=ring),
        "table": Ordinal(names, epsilon=1, mechanism="matrix", metric=DistanceMatrix(far.round(2))),
        "continuous": Continuous(0, 7, bins=7, epsilon=1, per=2, mechanism="matrix"),
        "real": Continuous(
            0, 1, points=5, epsilon=3, mechanism="matrix", rounding="stochastic", per=1
        ),
        "rows": Integer(
            0,
            3,
            epsilon=1,
            mechanism=Matrix(strategy=[[1, 0, 0, 0], [2, 1, 0, 0], [0, 1, 1, 0]]),
            per=1,
        ),
        "narrow": Integer(0, 5, epsilon=1, mechanism=Matrix(reach=0), per=1),
        "strong": Integer(0, 3, epsilon=900, mechanism="matrix", per=1),
    }


@pytest.mark.parametrize("metric", [None, Lp(2)], ids=["sum", "p=2"])
@pytest.mark.parametrize("kind", kinds())
def test_plans_are_certified_and_survive_their_files(kind, metric):
    attribute = kinds()[kind]
    survey = Survey.design(
        SurveySpec({"v": attribute, "a": Integer(0, 9, epsilon=1, per=1)}, metric=metric)
    )
    certificate = survey.certify()
    assert certificate.holds
    settled, plan = survey.attributes["v"], survey.mechanisms["v"]
    for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
        assert again == survey
        assert again.attributes["v"].to_dict() == settled.to_dict()
        assert again.mechanisms["v"] == plan
        assert again.channels["v"].distribution == survey.channels["v"].distribution
        if kind != "strong":  # with integers that are rounded to a few units
            pairs = zip(again.channels["v"].noises, survey.channels["v"].noises, strict=True)
            assert all(a.epsilon == pytest.approx(b.epsilon, rel=1e-12) for a, b in pairs)
    if kind not in ("strong", "line", "real"):  # else 7 digits or 64 are what is kept
        tightest = certificate.proofs[0].tightest
        assert tightest.loss > tightest.limit.allowed * (1 - 1e-5)
    wider = replace(settled, mechanism=replace(attribute_mechanism(attribute), reach=3))
    other = Survey.design({"v": wider, "a": attribute_a()})
    assert other.fingerprint != Survey.design({"v": attribute, "a": attribute_a()}).fingerprint


def attribute_mechanism(attribute):
    """The mechanism as it is stated."""
    return attribute.mechanism if isinstance(attribute.mechanism, Matrix) else Matrix()


def attribute_a():
    return Integer(0, 9, epsilon=1, per=1)


def test_a_ledger_adds_plans_up_like_any_mechanism():
    ledger = Accountant()
    ledger.add(Survey.design({"v": Integer(0, 5, epsilon=1, mechanism="matrix", per=1)}))
    ledger.add(
        Survey.design({"v": Integer(0, 5, epsilon=0.5, mechanism=Matrix(strategy="haar"), per=1)})
    )
    ledger.add(Survey.design({"v": Integer(0, 5, epsilon=0.25, per=1)}))
    assert ledger.spent("v", 1, 3) == Fraction("3.5")


def test_other_mechanisms_have_no_plan_in_their_files():
    plain = Survey.design({"v": Integer(0, 9, epsilon=1, per=1)}).to_dict()["attributes"]["v"]
    assert list(plain) == ["kind", "low", "high", "epsilon", "per", "mechanism", "distribution"]
    assert plain["mechanism"] == "geometric"


def test_loading_a_survey_imports_no_optimiser(tmp_path):
    path = tmp_path / "survey.toml"
    Survey.design(
        {
            "v": Ordinal(list("abcd"), epsilon=1, mechanism=Matrix(strategy="haar")),
            "w": Categorical(list("abcd"), epsilon=1, mechanism="matrix"),
        }
    ).save(path)
    program = f"""
import sys
from metricldp import Survey
from metricldp.mechanisms import matrix as plans
plans.optimal_rows = plans.optimised = None
survey = Survey.load({str(path)!r})
assert len(survey.report({{"v": "a", "w": "b"}})) > 9
found = [name for name in sys.modules if name.startswith("scipy")]
assert not found, found
assert survey.certify().holds
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# Plans -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", ["ranges", "prefixes", "values"])
@pytest.mark.parametrize("size", [2, 3, 8, 30])
def test_on_a_line_the_optimiser_takes_the_prefixes_too(workload, size):
    """What `plans.optimal_rows` does at once is what the optimiser finds."""
    asked = WORKLOADS[workload](size)
    pairs = np.column_stack([np.arange(size - 1), np.arange(1, size)])
    plan = best_plan(asked, pairs, np.full(size - 1, 0.5))
    noisy = np.isfinite(plan.u)
    rows = plan.strategy[noisy]
    steps = {tuple(np.sign(np.abs(np.diff(row)))) for row in rows}
    assert steps == {tuple(row) for row in np.eye(size - 1)}, "one step of the line changes each"
    np.testing.assert_allclose(plan.u[noisy] * np.abs(rows).max(axis=1), 0.5, rtol=1e-9)
    rows, epsilons = plans.optimal_rows(workload, "auto", Line(HALF), size)
    assert np.array_equal(rows, np.tri(size, dtype=int)[:-1])
    assert epsilons == [0.5] * (size - 1)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_prefixes_on_a_line_are_section_3_3(size):
    """s = 1/epsilon and the last without noise; 2 s^2 is the variance of the discrete noise here.

    The paper counts m (m - 1) / 2 ranges; its own W_3 has 6 rows, m (m + 1) / 2.
    """
    survey = Survey.design(
        {"v": Integer(1, size, epsilon=0.5, mechanism=Matrix(strategy="prefix"), per=1)}
    )
    channel = survey.channels["v"]
    assert [noise.epsilon for noise in channel.noises] == [0.5] * (size - 1)
    q = math.exp(-0.5)
    variance = 2 * q / (1 - q) ** 2
    expected = 1000 * size * (size - 1) * variance
    for prior in ("worst", "uniform", np.arange(1.0, size + 1)):
        found = total_error(survey, "v", "ranges", n=1000, prior=prior)
        assert found == pytest.approx(expected, rel=1e-12)
    assert Workload.all_ranges(size).rows == size * (size + 1) // 2


@pytest.mark.parametrize(("size", "sensitive"), [(4, 1), (6, 2), (6, 5), (9, 4), (5, 5)])
def test_the_closed_form_of_sensitive_sets_is_what_the_solver_finds(size, sensitive):
    metric = Sensitive(frozenset(range(sensitive)), Fraction(1))
    rows, epsilons = plans.optimal_rows("values", "identity", metric, size)
    assert np.array_equal(rows, np.eye(size))
    u = np.array(epsilons)
    pairs = np.array(list(metric.generating_pairs(size)))
    distances = np.array([float(metric.distance(*pair)) for pair in pairs])
    plan = best_plan(Workload.identity(size), pairs, distances, "identity")
    assert 2 * np.sum(1 / u**2) == pytest.approx(plan.error, rel=1e-6)


def test_rows_of_any_workload_can_be_planned_for():
    rows = np.array([[1, 0.5, 0, 0], [0, 1, 1, 0], [0, 0, 0.25, 1], [0.01, 0, 0, 0]])
    attribute = Integer(0, 3, epsilon=1, mechanism=Matrix(workload=rows), per=1)
    survey = Survey.design({"v": attribute})
    assert survey.mechanisms["v"].workload == "given"
    assert survey.certify().holds
    assert Survey.from_toml(survey.to_toml()) == survey
    usual = Survey.design(
        {"v": Integer(0, 3, epsilon=1, mechanism=Matrix(strategy="identity"), per=1)}
    )
    assert total_error(survey, "v", rows) < total_error(usual, "v", rows)


FEW = {
    "one range": [[1, 1, 0, 0]],
    "two values": [[1, 0, 0, 0], [0, 1, 0, 0]],
    "everybody": [[1, 1, 1, 1]],
    "a mean": [[1.5, 2.5, 3.5, 4.5]],
}


@pytest.mark.parametrize("strategy", ["auto", "workload", "identity-total", "prefix"])
@pytest.mark.parametrize("case", FEW)
def test_a_workload_of_few_questions_is_completed(case, strategy):
    """Every count can be told, and what was asked for has no larger error than with all values."""
    plan, usual_plan = (Matrix(asked, strategy) for asked in (FEW[case], "values"))
    for attribute in (partial(Integer, 1, 4, per=1), partial(Categorical, ["a", "b", "c", "d"])):
        survey = Survey.design({"v": attribute(epsilon=1, mechanism=plan)})
        assert survey.certify().holds
        assert (
            survey.expected_error(
                {"v": survey.attributes["v"].values[1]}, n=1, prior="worst"
            ).stderr
            < math.inf
        )
        usual = Survey.design({"v": attribute(epsilon=1, mechanism=usual_plan)})
        limit = total_error(usual, "v", FEW[case])
        assert total_error(survey, "v", FEW[case]) <= limit * (1 + 1e-3)


def test_only_a_workload_that_leaves_counts_open_is_completed():
    whole = Workload.from_rows([[1, 0, 0], [0, 1, 0]])  # the third is what is left
    assert completed(whole) is whole
    assert completed(Workload.prefixes(5)).rows == 5
    for rows in ([[3, 0, 0]], sparse.csr_array([[3.0, 0, 0]])):
        whole = completed(Workload.from_rows(rows))
        expected = [[3, 0, 0], [0.03, 0, 0], [0, 0.03, 0], [0, 0, 0.03]]
        assert np.allclose(whole.rows_block(0, 9), expected)


def test_what_rows_leave_untold_is_found_by_rank():
    """Against the rank of the rows with everybody and the value itself, in exact arithmetic."""
    rng = np.random.default_rng(8)
    for _ in range(300):
        size = int(rng.integers(2, 7))
        rows = rng.integers(-1, 2, (int(rng.integers(1, 8)), size))
        known = [*rows.tolist(), [1] * size]
        alone = np.eye(size, dtype=int).tolist()
        told = [_rank([*known, alone[x]]) == _rank(known) for x in range(size)]
        assert strategies.undetermined(rows) == (None if all(told) else told.index(False))


def _rank(rows):
    rows, rank = [[Fraction(entry) for entry in row] for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((r for r in rows[rank:] if r[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows.insert(rank, pivot)
        rank += 1
        for place, row in enumerate(rows[rank:], rank):
            factor = row[column] / pivot[column]
            rows[place] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return rank


BAD = {
    "workload": ({"workload": "range"}, "no workload is called 'range'; did you mean 'ranges'"),
    "width": ({"workload": [[1, 0]]}, "the workload has rows of 2 positions, the attribute has 4"),
    "nan": ({"workload": [[1, 0, 0, math.nan]]}, "row 0 of the workload holds nan"),
    "ragged": ({"workload": [[1, 0], [1]]}, "all rows equally long"),
    "strategy": ({"strategy": "haars"}, "did you mean 'haar'"),
    "rows": ({"strategy": [1, 2]}, "a strategy is a name or a list of rows"),
    "row width": ({"strategy": [[1, 2, 3]]}, "rows of 3 positions, the attribute has 4"),
    "fraction": ({"strategy": [[1, 0.5, 0, 0]]}, "row 0 of the strategy holds 0.5"),
    "huge": ({"strategy": [[1, 1e9, 0, 0]]}, "row 0 of the strategy holds 1000000000"),
    "nan row": ({"strategy": [[1, math.nan, 0, 0]]}, "row 0 of the strategy holds nan"),
    "not spanned": (
        {"strategy": [[1, 1, 0, 0], [0, 0, 1, 0]]},
        "do not determine the count of 0; add rows, or leave strategy out",
    ),
    "not all told": (
        {"strategy": [[0, 1, 2, 3]]},
        "do not determine the count of 0; add rows, or leave strategy out",
    ),
    "nothing asked": ({"workload": [[0, 0, 0, 0]]}, "the workload is empty"),
    "too large": ({"workload": [[1e300, 0, 0, 0]]}, "holds 1e+300; use finite numbers, neither"),
    "too small": ({"workload": [[0, 1e-300, 0, 0]]}, "holds 1e-300; use finite numbers, neither"),
    "one row": ({"workload": [1, 1, 0, 0]}, "write one row as [[...]]"),
    "reach": ({"reach": -1}, "reach is a whole number from 0 to 1,073,741,824, not -1"),
    "given": ({"workload": "given"}, "state the mechanism again, with its workload"),
    "epsilons": ({"epsilons": 1}, "has no entry 'epsilons'"),
    "entry": ({"strategies": "prefix"}, "'reach'; did you mean 'strategy'?"),
    "mechanism": ({"name": "geometric", "reach": 2}, "'geometric' has no entry 'r"),
    "auto mechanism": ({"name": "auto", "reach": 2}, "'auto' has no entry 'reach'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_plans_are_refused_in_one_line(case):
    said, expected = BAD[case]
    with pytest.raises(InvalidSpecError) as caught:
        Survey.design({"v": Integer(0, 3, epsilon=1, mechanism={"name": "matrix", **said}, per=1)})
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    if "name" not in said and case not in ("entry", "epsilons"):
        with pytest.raises(InvalidSpecError) as again:
            Survey.design({"v": Integer(0, 3, epsilon=1, mechanism=Matrix(**said), per=1)})
        assert str(again.value) == str(caught.value)


def test_too_many_positions_are_refused():
    with pytest.raises(
        InvalidSpecError, match="10,000 positions are too many for the matrix mechanism"
    ):
        Survey.design({"v": Integer(1, 10_000, epsilon=1, mechanism="matrix", per=1)})


# Joint surveys -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["reports", "cells", "prefix"])
def test_with_other_channels_every_answer_is_unbiased_by_enumeration(layout):
    survey = Survey.design(
        {
            "m": Integer(0, 2, epsilon=1, mechanism=Matrix(reach=1), per=1),
            "t": Integer(0, 1, epsilon=0.5, mechanism="threshold", per=1),
            "r": Categorical(["x", "y", "z"], epsilon=1),
        }
    )
    where = {"m": (1, 2), "t": 0, "r": ["x", "z"]}
    channels = survey.channels
    everything = {name: channel.every_report() for name, channel in channels.items()}
    places = list(product(*(range(len(column)) for column in everything.values())))
    # One report of every kind: answers are sums over reports, so each tells its own.
    answers = []
    for place in places:
        columns = {
            name: column[at : at + 1]
            for at, (name, column) in zip(place, everything.items(), strict=True)
        }
        tally = survey.tally(arrow.to_table(survey, columns), layout=layout)
        answer = tally.count(where)
        answers.append((answer.value, answer.variance))
    laws = {
        name: [
            [float(channel.probability(x, report)) for report in everything[name]]
            for x in range(channel.size)
        ]
        for name, channel in channels.items()
    }
    functions = parse(survey, where).functions
    for person in product(*(range(channel.size) for channel in channels.values())):
        p = [
            math.prod(laws[n][x][at] for n, x, at in zip(laws, person, place, strict=True))
            for place in places
        ]
        truth = math.prod(functions[n][x] for n, x in zip(functions, person, strict=True))
        value, variance = np.array(p) @ np.array(answers)
        assert value == pytest.approx(truth, abs=1e-9)
        spread = sum(q * (v - truth) ** 2 for q, (v, _) in zip(p, answers, strict=True))
        assert variance == pytest.approx(spread, rel=1e-9)


def some_people(n, rng):
    return {
        "m": rng.integers(0, 6, n),
        "t": rng.integers(0, 4, n),
        "g": rng.integers(0, 5, n),
        "c": rng.choice(["x", "y"], n),
    }


def joint_survey(**plan):
    return Survey.design(
        {
            "m": Integer(0, 5, epsilon=1, mechanism=Matrix(**plan), per=1),
            "t": Integer(0, 3, epsilon=1, mechanism="threshold", per=1),
            "g": Integer(0, 4, epsilon=1, mechanism="geometric", per=1),
            "c": Categorical(["x", "y"], epsilon=1, mechanism="matrix"),
        }
    )


@pytest.mark.parametrize("plan", [{}, {"strategy": "identity"}, {"reach": 0}], ids=str)
def test_totals_answer_as_the_reports_do(plan):
    survey = joint_survey(**plan)
    rng = np.random.default_rng(5)
    collected = survey.randomize(some_people(500, rng), randomness=Randomness.seeded(5))
    tally = survey.tally(collected)
    parts = [collected.slice(0, 200), collected.slice(200)]
    totals = survey.tally(iter(parts), keep=[("m", "t", "c"), ("m", "g")])
    assert totals == survey.tally(parts[0], keep=totals.store.keep) + survey.tally(
        parts[1], keep=totals.store.keep
    )
    for where in ({"m": (1, 3)}, {"m": (2, 5), "t": 1, "c": "x"}, {"m": 0, "g": (0, 2)}):
        one, other = tally.count(where), totals.count(where)
        assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-6)
        assert one.stderr == pytest.approx(other.stderr, rel=1e-9, abs=1e-6)
    assert tally.mean("m").value == pytest.approx(totals.mean("m").value)
    assert tally.quantile("m", 0.5).value == totals.quantile("m", 0.5).value


def test_tables_of_large_features_are_exact():
    """Windows of tens of thousands: products of features beyond float32."""
    survey = Survey.design(
        {
            "a": Integer(0, 2, epsilon=0.002, mechanism="matrix", per=1),
            "b": Integer(0, 3, epsilon=0.004, mechanism="matrix", per=1),
            "t": Integer(0, 2, epsilon=1, mechanism="threshold", per=1),
        }
    )
    rng = np.random.default_rng(6)
    people = {name: rng.integers(0, a.size, 3000) for name, a in survey.attributes.items()}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(6)))
    (batch,) = tally.store.batches("abt")
    parts = [c.features(batch[name]) for name, c in survey.channels.items()]
    table = build([batch], survey.channels)
    assert (table.sums == np.einsum("na,nb,nt->abt", *parts)).all()
    assert np.abs(table.sums).max() > 1 << 24


def test_sums_that_could_outgrow_an_integer_get_no_table():
    survey = Survey.design(
        {k: Integer(0, 1, epsilon=1e-4, mechanism="matrix", per=1) for k in "ab"}
    )
    collected = survey.randomize(
        {"a": [0, 1] * 20, "b": [1, 1] * 20}, randomness=Randomness.seeded(1)
    )
    where = {"a": 0, "b": 1}
    with pytest.raises(QueryError, match=r"could outgrow 64 bits.*use layout 'reports'"):
        survey.tally(collected, layout="prefix").count(where)
    with pytest.raises(QueryError, match="could outgrow 64 bits"):
        survey.tally(collected, keep=[("a", "b")])
    tally = survey.tally(collected)
    assert {tally.count(where).layout for _ in range(8)} == {"reports"}


def test_answers_cover_the_truth():
    """n people: 60 counts, each within six of its own standard errors; chance 60 x 2e-9."""
    survey = joint_survey()
    rng = np.random.default_rng(7)
    people = some_people(20_000, rng)
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(7)))
    for low, high in product(range(6), repeat=2):
        if low <= high:
            truth = ((people["m"] >= low) & (people["m"] <= high) & (people["t"] <= 1)).sum()
            answer = tally.count({"m": (low, high), "t": (0, 1)})
            assert abs(answer.value - truth) < 6 * answer.stderr


def test_reports_that_no_device_could_send_are_refused():
    survey = Survey.design({"v": Integer(0, 2, epsilon=1, mechanism=Matrix(reach=1), per=1)})
    channel = survey.channels["v"]
    assert (channel.bits, channel.noises[0].size) == (4, 4)
    survey = Survey.design({"v": Integer(0, 2, epsilon=1, mechanism="matrix", per=1)})
    size = survey.channels["v"].noises[0].size
    assert size == 92
    blob = survey.report({"v": 1})
    bad = blob[:17] + (size).to_bytes(2, "little")
    with pytest.raises(Exception, match="has a value that no device could send"):
        survey.tally([bad])
    good = pack.unpack(survey, [blob] * 3)
    assert pack.pack(survey, good) == [blob] * 3


# Linear answers ----------------------------------------------------------------------------------


def linear_survey(mechanism):
    return Survey.design(
        {
            "v": Integer(0, 5, epsilon=1, mechanism=mechanism, per=1),
            "c": Categorical(["x", "y", "z"], epsilon=1),
            "p": Integer(0, 2, epsilon=1, mechanism="threshold-paper", per=1),
        }
    )


@pytest.mark.parametrize("where", [None, {"c": ["x", "y"], "p": (0, 1)}, {"v": (1, 4)}], ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_linear_answers_are_those_of_asking_one_by_one(mechanism, where):
    survey = linear_survey(mechanism)
    rng = np.random.default_rng(8)
    people = {
        "v": rng.integers(0, 6, 400),
        "c": rng.choice(["x", "y", "z"], 400),
        "p": rng.integers(0, 3, 400),
    }
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(8)))
    totals = survey.tally(
        survey.randomize(people, randomness=Randomness.seeded(8)), keep=[("v", "c", "p")]
    )
    for answers in (tally.workload("v", "ranges", where), totals.workload("v", "ranges", where)):
        assert isinstance(answers, EstimateTable)
        ranges = [(low, high) for low in range(6) for high in range(low, 6)]
        assert len(answers) == len(ranges) == 21
        for (low, high), (label, answer) in zip(ranges, answers, strict=True):
            inside = [x for x in range(low, high + 1) if where != {"v": (1, 4)} or 1 <= x <= 4]
            if inside:
                alone = tally.count({**(where or {}), "v": (inside[0], inside[-1])})
                assert answer.value == pytest.approx(alone.value, abs=1e-6)
                assert answer.stderr == pytest.approx(alone.stderr, rel=1e-6)
            assert answer.question.startswith(f"v {label}")
        values, errors = zip(*((one.value, one.stderr) for _, one in answers), strict=True)
        assert answers.values.tolist() == list(values)
        assert answers.stderr.tolist() == list(errors)
        assert answers.iloc[-1] == answers.iloc[20] == answers.iloc[18:].iloc[-1]
    own = tally.workload("v", [np.arange(6), np.ones(6)], where)
    assert own["row 0"].value == pytest.approx(tally.sum("v", where).value)
    assert own["row 0"].stderr == pytest.approx(tally.sum("v", where).stderr)


@pytest.mark.parametrize("kind", ["continuous", "real", "ordinal"])
def test_linear_answers_of_other_kinds_are_histograms(kind):
    attribute = {
        "continuous": Continuous(0, 1, bins=5, epsilon=3, per=1),
        "real": Continuous(0, 1, points=5, epsilon=3, rounding="stochastic", per=1),
        "ordinal": Ordinal(list("abcde"), epsilon=1, mechanism=Matrix(strategy="haar")),
    }[kind]
    survey = Survey.design({"v": attribute})
    drawn = np.random.default_rng(9).uniform(0, 1, 300)
    values = np.array(list("abcde"))[(5 * drawn).astype(int)] if kind == "ordinal" else drawn
    tally = survey.tally(survey.randomize({"v": values}, randomness=Randomness.seeded(9)))
    bars, answers = tally.histogram("v"), tally.workload("v", Workload.identity(5))
    assert answers.labels == bars.labels
    table, expected = answers.to_arrow(), bars.to_arrow()
    groups = ["v_low", "v_high"] if kind == "continuous" else ["v"]
    assert table.column_names == [*groups, *COLUMNS]
    assert table.schema == expected.schema
    assert table.select(groups) == expected.select(groups)
    for column in NUMBERS:
        np.testing.assert_allclose(table[column], expected[column], rtol=1e-9, atol=1e-9)
    ends = bars.confidence_interval(method="normal")
    np.testing.assert_allclose([table["ci_low"], table["ci_high"]], ends, rtol=1e-9, atol=1e-9)


WIDE = ("histogram-sum", "prefix")
"""The matrix mechanism with windows too wide to list all reports."""


@pytest.mark.parametrize("workload", ["ranges", "prefixes", "values", "own"])
@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m not in WIDE])
def test_the_predicted_total_error_is_the_enumerated_one(mechanism, workload):
    blurred_by = Matrix(reach=1) if mechanism == "matrix" else mechanism
    survey = Survey.design({"v": Integer(0, 3, epsilon=0.8, mechanism=blurred_by, per=1)})
    channel = survey.channels["v"]
    own = np.array([[1, 2.5, 0, -1], [0, 0.5, 0.5, 3]])
    rows = own if workload == "own" else WORKLOADS[workload](4).rows_block(0, 10)
    decoded = channel.values(channel.every_report(), channel.moments.coefficients(rows))
    totals = []
    for x in range(4):
        p = np.array([float(q) for q in exact_law(channel, x).values()])
        totals.append(float(((decoded - rows[:, [x]]) ** 2 @ p).sum()))
        prior = (np.arange(4) == x).astype(float)
        asked = rows if workload == "own" else workload
        assert total_error(survey, "v", asked, 7, prior) == pytest.approx(7 * totals[-1], rel=1e-9)
    assert total_error(survey, "v", asked) == pytest.approx(max(totals), rel=1e-9)
    uniform = total_error(survey, "v", asked, prior="uniform")
    assert uniform == pytest.approx(np.mean(totals), rel=1e-9)
    one_by_one = sum(
        survey.expected_error({"v": (low, high)}, prior="uniform", n=1).stderr ** 2
        for low in range(4)
        for high in range(low, 4)
    )
    if workload == "ranges":
        assert uniform == pytest.approx(one_by_one, rel=1e-9)


def test_total_errors_of_rounded_values_and_costly_neighbours():
    survey = Survey.design(
        {
            "v": Continuous(0, 1, points=4, epsilon=3, rounding="stochastic", per=1),
            "p": Integer(0, 2, epsilon=1, per=1),
        }
    )
    literal = Integer(0, 2, epsilon=1, mechanism="threshold-paper", per=1)
    costly = Survey.design({"v": Integer(0, 3, epsilon=1, per=1), "p": literal})
    for which in (survey, costly):
        # The points of a grid in full: the range that holds the stretches around them.
        step, around = (1 / 3, 1 / 6) if which is survey else (1, 0)
        one_by_one = sum(
            which.expected_error(
                {"v": (low * step - around, high * step + around)}, prior={"v": np.ones(4)}, n=1
            ).stderr
            ** 2
            for low, high in product(range(4), repeat=2)
            if low <= high
        )
        assert total_error(which, "v", "ranges", prior="uniform") == pytest.approx(one_by_one)


def test_all_ranges_of_a_thousand_are_never_written_out():
    survey = Survey.design({"v": Integer(0, 999, epsilon=0.1, mechanism="geometric", per=1)})
    people = {"v": np.random.default_rng(1).integers(0, 1000, 2000)}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
    tracemalloc.start()
    answers = tally.workload("v", Workload.all_ranges(1000))
    assert len(answers.values) == len(answers) == 500_500
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert answers.iloc[999].question == "v 0 to 999"
    assert answers.iloc[999].value == pytest.approx(2000)
    assert answers.iloc[123_456] == answers.iloc[123_456 - 500_500]
    low, high = (int(word) for word in answers.iloc[123_456].question.split()[1::2])
    alone = tally.count({"v": (low, high)})
    assert answers.iloc[123_456].value == pytest.approx(alone.value)
    lines = repr(answers).splitlines()
    assert (lines[0], "note: and 500,300 more rows" in lines) == ("workload over v", True)
    with pytest.raises(IndexError):
        answers.iloc[500_500]


def test_linear_answers_are_found_by_label_and_know_what_they_count():
    survey = Survey.design({"v": Integer(1, 4, epsilon=1, per=1)})
    tally = survey.tally(
        survey.randomize({"v": [1, 2, 2, 4] * 50}, randomness=Randomness.seeded(1))
    )
    ranges = tally.workload("v", "ranges")
    assert ranges["2 to 3"] == ranges.iloc[ranges.labels.index("2 to 3")]
    assert ranges["2"].unit == "people"
    with pytest.raises(QueryError, match="the table has no row '2 to 9'"):
        ranges["2 to 9"]
    with pytest.raises(QueryError, match=r"no row 2; .*; did you mean '2'\?"):
        ranges[2]
    values = tally.workload("v", "values")
    assert values.labels == [1, 2, 3, 4]
    assert values[2] == values.iloc[1]
    rows = tally.workload("v", [[1, 1, 0, 0], [1, 2, 3, 4], [0.5, 0, 0, 0]])
    assert [one.unit for _, one in rows] == ["people", "weighted people", "weighted people"]
    assert "weighted people" in str(rows["row 1"])


def test_bad_workloads_are_refused_in_one_line():
    survey = Survey.design({"v": Integer(0, 3, epsilon=1, per=1), "w": Weight(0, 1)})
    tally = survey.tally(survey.randomize({"v": [1], "w": [0.5]}, randomness=Randomness.seeded(1)))
    for asked, expected in (
        ("everything", "no workload is called 'everything'; there are ranges, prefixes, values"),
        ([[1, 0]], "the workload has rows of 2 positions, the attribute has 4"),
        (Workload.prefixes(5), "the workload has rows of 5 positions, the attribute has 4"),
        ([[1, 0, math.nan, 0]], "row 0 of the workload holds nan"),
        ([[1, 0, 0, 0], [1, 0, 0]], "all rows equally long"),
        ([1, 0, 0, 0], "a list of rows, .*; write one row as "),
        ([[[1]]], "a table of rows"),
        ("w", None),
    ):
        for ask in (tally.workload, partial(total_error, survey)):
            with pytest.raises(QueryError, match=expected):
                ask(*(("w", "values") if expected is None else ("v", asked)))
    with pytest.raises(QueryError, match="no attribute 'x'"):
        tally.workload("x", "ranges")
