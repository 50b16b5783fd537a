"""Optional attributes: never refused, never visible, and answers about those who answered."""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks import every_report_of, people_of, steps
from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    Graph,
    Integer,
    InvalidSpecError,
    InvalidValueError,
    Lp,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
    pool,
)
from metricldp.cli.main import main
from metricldp.reports.bytes import pack, unpack
from metricldp_core.device import Device
from metricldp_core.random_words import Words
from vectors import Recorded, report_of

NOTHING = [None, math.nan, "", "  ", pd.NA, pd.NaT, np.float32("nan"), Decimal("NaN")]
TINY = Survey.design(
    {
        "x": Integer(0, 2, epsilon=1, mechanism="geometric", optional=0.7, per=1),
        "y": Categorical(["a", "b"], epsilon=1, mechanism="randomized-response", optional=True),
    }
)
KINDS = {
    "integer": Integer(0, 9, epsilon=1, optional=True, per=1),
    "ordinal": Ordinal(["low", "mid", "high"], epsilon=1, optional=2),
    "categorical": Categorical(["a", "b", "c"], epsilon=1, optional=2),
    "continuous": Continuous(0, 10, bins=5, epsilon=1, optional=2, per=1),
    "auto bins": Continuous(0, 10, bins="auto", epsilon=1, optional=2, per=1),
    "real": Continuous(0, 10, points=6, epsilon=1, optional=2, rounding="stochastic", per=1),
    "weight": Weight(0, 10, private=True, epsilon=1, optional=2),
}
BINARY = Categorical(["a", "b"], epsilon=1)
VALUES = {name: ["low", "a"][name == "categorical"] if a.named else 3 for name, a in KINDS.items()}


# The agreement -----------------------------------------------------------------------------------


def test_true_stands_for_the_attributes_own_epsilon_and_false_for_nothing():
    assert Integer(0, 9, epsilon=1.5, optional=True, per=1) == Integer(
        0, 9, epsilon=1.5, optional=1.5, per=1
    )
    plain = Integer(0, 9, epsilon=1.5, per=1)
    assert Integer(0, 9, epsilon=1.5, optional=False, per=1) == plain
    assert "optional" not in Survey.design({"x": plain}).to_toml()
    assert Survey.design({"x": plain}) == Survey.design(
        {"x": Integer(0, 9, epsilon=1.5, optional=False, per=1)}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_files_hold_it_and_the_fingerprint_covers_it(kind):
    survey = Survey.design({"x": KINDS[kind], "z": Integer(0, 3, epsilon=1, per=1)})
    for again in (
        Survey.from_toml(survey.to_toml()),
        Survey.from_json(survey.to_json()),
        Survey.from_dict(survey.to_dict()),
    ):
        assert again == survey
    assert list(survey.to_dict()["attributes"]) == ["x", "z"]
    assert list(survey.asked) == ["x", "z"]
    assert list(survey.fields) == ["x", "x=response", "z"]
    assert '{"attributes":[{"kind":"response","name":"x"}],' in survey.manifest()
    assert survey.certify().holds
    assert "optional; mechanism" in " ".join(str(survey.explain()).split())
    data = survey.to_dict()
    required = Survey.from_dict({**data, "attributes": without(data["attributes"])})
    assert required != survey


def without(attributes):
    kept = {"optional", "response"}
    return {
        name: {key: value for key, value in entry.items() if key not in kept}
        for name, entry in attributes.items()
    }


@pytest.mark.parametrize("wrong", [0, -1, "yes", math.nan, math.inf, [1], 1e-13, 2000])
def test_an_epsilon_that_is_none(wrong):
    with pytest.raises(InvalidSpecError, match=r"optional|epsilon"):
        Survey.design({"x": Integer(0, 9, epsilon=1, optional=wrong, per=1)})


def test_what_cannot_be_optional():
    with pytest.raises(InvalidSpecError, match="in the clear and cannot be optional"):
        Weight(0, 1, optional=1)
    ages = {"x": Integer(0, 9, epsilon=1, optional=1, per=1), "y": Integer(0, 9, epsilon=1, per=1)}
    with pytest.raises(InvalidSpecError, match="x is optional; remove optional"):
        Survey.design(SurveySpec(ages, joint={("x", "y"): "hio"}))


def test_the_norm_shares_out_what_is_optional_as_well():
    survey = Survey.design(
        SurveySpec({"x": Integer(0, 9, epsilon=1, optional=1, per=1)}, metric=Lp(math.inf))
    )
    assert survey.parts == 2
    assert survey.share == Fraction(1, 2)
    assert survey.certify().holds


# The report --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_any_form_is_one_and_the_same_report(kind):
    """So no byte tells how the value was missing, and none whether, but for the coins."""
    survey = Survey.design({"x": KINDS[kind]})
    device = Device(survey.client_manifest)
    missing = [{}, *({"x": nothing} for nothing in NOTHING)]
    reports = {report_of(device, response, recorded()) for response in missing}
    assert len(reports) == 1
    assert len(report_of(device, {"x": VALUES[kind]}, recorded())) == len(reports.pop())


def recorded(seed="one"):
    return Words(Recorded(seed).draw)


def test_the_law_of_a_report_is_that_of_two_attributes():
    """Who did not answer reports the middle and "no"; exactly, from the channels' own integers."""
    survey = Survey.design({"x": TINY.attributes["x"]})
    table, laws = every_report_of(survey)
    reports = pack(survey, table)
    laws = {tuple(p.values()): law for p, law in zip(people_of(survey), laws, strict=True)}
    device, n = Device(survey.client_manifest), 8_000
    for value, place in ((0, (0, 1)), (2, (2, 1)), (None, (1, 0))):
        drawn = Counter(report_of(device, {"x": value}, recorded(f"{value} {k}")) for k in range(n))
        assert set(drawn) <= set(reports)
        for report, p in zip(reports, laws[place], strict=True):
            assert abs(drawn[report] - n * p) < 6 * math.sqrt(n * p)


def test_two_people_are_as_far_apart_as_the_sum_says():
    """Every pair of answers, none included, against e^E of every report."""
    survey = Survey.design({"x": TINY.attributes["x"]})
    _, laws = every_report_of(survey)
    laws = {tuple(p.values()): law for p, law in zip(people_of(survey), laws, strict=True)}
    people = {None: (1, 0), 0: (0, 1), 1: (1, 1), 2: (2, 1)}
    ledger = Accountant()
    ledger.add(survey)
    for x, place in people.items():
        for other, there in people.items():
            allowed = abs(place[0] - there[0]) * 1.0 + 0.7 * (place[1] != there[1])
            loss = np.abs(np.log(laws[place] / laws[there])).max()
            assert loss <= allowed + 1e-12
            assert loss >= allowed - 1e-9, "and no tighter, so a broken sum would be seen"
            assert float(ledger.spent("x", x, other)) == pytest.approx(allowed)


@pytest.mark.parametrize("epsilon", [0.7, 2.5])
def test_what_people_are_apart_at_most_is_what_reports_show(epsilon):
    """Over all pairs of people: full width if both answered, else from the middle and whether."""
    x = Integer(0, 2, epsilon=1, mechanism="geometric", optional=epsilon, per=1)
    y = Categorical(["a", "b"], epsilon=1, mechanism="randomized-response", optional=True)
    survey = Survey.design({"x": x, "y": y})
    _, laws = every_report_of(survey)
    logs = {tuple(p.values()): np.log(law) for p, law in zip(people_of(survey), laws, strict=True)}
    people = [{"x": x, "y": y} for x in ANSWERS["x"] for y in ANSWERS["y"]]
    reports = [logs[tuple(place_of(person).values())] for person in people]
    largest = max((one - other).max() for one in reports for other in reports)
    told = survey.explain().to_dict()["max_epsilon"]
    ledger = Accountant()
    ledger.add(survey)
    assert told == pytest.approx(largest, abs=1e-9)
    assert float(ledger.together) == pytest.approx(largest, abs=1e-9)
    assert told < 2 + epsilon + 2, "as if somebody could be at both ends and not answer"


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_has_a_distance_from_values(kind):
    survey = Survey.design({"x": KINDS[kind]})
    ledger, told = Accountant(), survey.explain()
    ledger.add(survey)
    (entry,) = told.to_dict()["attributes"]
    far = entry["no_response"]
    assert "a value and no response" in told.details()
    x = survey.attributes["x"]
    assert far > float(ledger.spent("x", None, x.middle)) == x.optional
    low, high = x.values_at(0)[0], x.values_at(x.size - 1)[0]
    most = max(float(ledger.spent("x", None, value)) for value in (low, high))
    assert far == pytest.approx(most)
    assert told.to_dict()["max_epsilon"] >= far


def test_distances_of_no_response_are_scaled_under_a_norm():
    x = Integer(0, 10, epsilon=1, optional=3, per=1)
    for p, share in ((1, 1), (2, 0.5**0.5), (math.inf, 0.5)):
        told = Survey.design(SurveySpec({"x": x}, metric=Lp(p))).explain().to_dict()
        assert told["attributes"][0]["no_response"] == pytest.approx(8 * share)
        assert told["max_epsilon"] == pytest.approx(10 * share)
    weak = Survey.design({"x": Integer(0, 2, epsilon=1, optional=3, per=1)}).explain().to_dict()
    assert weak["max_epsilon"] == pytest.approx(4)


def apart_at_most(ledger, values):
    """Over all pairs of people, who left out what they liked in some of the collections."""
    found = Fraction(0)
    for x, other in itertools.product(values, repeat=2):
        total = Fraction(0)
        for entry in ledger.entries:
            may = "x=response" in entry.called
            total += max(
                entry.distance("x", one, another)
                + (entry.distance("x=response", one, another) if may else 0)
                for one in ((x, None) if may else (x,))
                for another in ((other, None) if may else (other,))
            )
        found = max(found, total)
    return found


def test_a_ledger_adds_up_what_was_left_out_in_some_collections():
    line, needed = Integer(0, 10, epsilon=1, optional=8, per=1), Integer(0, 10, epsilon=2, per=1)
    ledger = Accountant()
    for attribute, together in ((line, 13), (needed, 33), (line, 46)):
        ledger.add(Survey.design({"x": attribute}))
        assert ledger.together == apart_at_most(ledger, range(11)) == together
    ledger = Accountant()
    ledger.add(
        Survey.design(
            {"x": Continuous(0, 10, points=6, epsilon=1, optional=8, rounding="stochastic", per=1)}
        )
    )
    assert ledger.together == apart_at_most(ledger, [0, 2, 5, 10]) == 13
    ledger = Accountant()
    for far, others in (("ab", ("ac", "bc")), ("bc", ("ab", "ac"))):
        graph = Graph([(*far, 4), *((*pair, 2) for pair in others)])
        x = Categorical(list("abc"), epsilon=1, optional=0.1, metric=graph, mechanism="unary")
        ledger.add(Survey.design({"x": x}))
    most = apart_at_most(ledger, "abc")
    assert ledger.together >= most
    assert ledger.total("x").diameter(3) + Fraction(1, 5) < most, "as if one value were told"


def test_tables_and_devices_read_the_same_positions():
    people = {
        "x": [3, None, 5.0, math.nan, 0],
        "c": ["a", None, "c", "", "b"],
        "v": ["1.5", "", "7", " ", "2"],
    }
    survey = Survey.design(
        {
            "x": Integer(0, 9, epsilon=100, optional=100, mechanism="geometric", per=1),
            "c": Categorical(["a", "b", "c"], epsilon=100, optional=100),
            "v": Continuous(
                0, 10, bins=10, epsilon=100, optional=100, mechanism="geometric", per=1
            ),
        }
    )
    expected = {
        "x=report": [3, 5, 5, 5, 0],
        "x=response": [1, 0, 1, 0, 1],
        "c=report": [0, 1, 2, 1, 1],
        "c=response": [1, 0, 1, 0, 1],
        "v=report": [1, 5, 7, 5, 2],
        "v=response": [1, 0, 1, 0, 1],
    }
    frames = {
        "dict": people,
        "pandas": pd.DataFrame(people),
        "nullable": pd.DataFrame(people).convert_dtypes(),
        "categories": {**people, "c": pd.Series(people["c"], dtype="category")},
        "polars": pl.DataFrame(people, strict=False),
        "arrow": pa.table({name: pa.array(column) for name, column in people.items()}),
        "dictionary": {**people, "c": pa.array(people["c"]).dictionary_encode()},
        "masked": {**people, "x": np.ma.array([3, 9, 5, 9, 0], mask=[0, 1, 0, 1, 0])},
        "objects": {**people, "x": np.array([3, pd.NA, "5", "", 0], object)},
    }
    for frame in frames.values():
        table = survey.randomize(frame)
        assert {name: table.column(name).to_pylist() for name in table.column_names} == expected
        assert not any(table.column(name).null_count for name in table.column_names)
    rows = [{name: column[k] for name, column in people.items()} for k in range(5)]
    blobs = [survey.report(row) for row in rows]
    assert unpack(survey, blobs).to_pydict() == expected


def test_what_is_there_and_wrong_is_refused_all_the_same():
    survey = Survey.design({"x": KINDS["integer"], "c": KINDS["categorical"]})
    with pytest.raises(InvalidValueError, match="x in row 4 is outside 0 to 9"):
        survey.randomize({"x": [1, None, 2, 77], "c": [None] * 4})
    with pytest.raises(InvalidValueError, match="c in row 3 is not one of"):
        survey.randomize({"x": [1, None, 2], "c": [None, "a", "z"]})
    with pytest.raises(InvalidValueError, match="x is outside"):
        survey.report({"x": 77})
    with pytest.raises(InvalidValueError, match="no column 'c'"):
        survey.randomize({"x": [1]})


def test_a_misspelt_key_does_not_read_as_no_answer():
    """Every key is known or refused by its name, whoever answered; the value is not shown."""
    survey = Survey.design({"income": Integer(0, 9, epsilon=1, optional=True, per=1), "c": BINARY})
    for person in ({"incme": 3, "c": "a"}, {"incme": 3, "income": None, "c": "a"}):
        with pytest.raises(
            InvalidValueError, match=r"for 'incme', .* did you mean 'income'"
        ) as refused:
            survey.report(person)
        assert "3" not in str(refused.value)
    with pytest.raises(
        InvalidValueError, match=r"not a name, which is not .* it has 'income', 'c'$"
    ) as no:
        survey.report({987: "x", "income": 3, "c": "a"})
    assert "987" not in str(no.value), "swapped with its value, for all we know"
    for name in survey.fields:
        if name not in survey.asked:
            with pytest.raises(InvalidValueError, match=name):
                survey.report({name: 1, "c": "a"})
    # Where nothing is optional, a misspelt key is missed, and others do no harm.
    assert Survey.design({"c": BINARY}).report({"c": "a", "name": "Ann"})


def test_missing_takes_the_same_steps_as_a_value():
    for kind, values in (
        (KINDS["integer"], [0, 5, 9]),
        (KINDS["continuous"], [0.5, 9.5]),
        (KINDS["real"], [0.5, 9.5]),
        (KINDS["categorical"], ["a", "c"]),
        (KINDS["ordinal"], ["low", "high"]),
    ):
        device = Device(Survey.design({"x": kind}).client_manifest)
        assert len(spread(device, [*values, None], clip=False)) == 1
        assert len(spread(device, [*values, None], clip=True)) == 1
        responses = ({}, {"x": None}, {"x": values[0]})
        assert len(numbers_of_steps(device, responses)) == 1, "no entry is like an empty one"


def numbers_of_steps(device, responses, *, clip=False):
    """The different numbers of instructions that reports of responses take."""
    found = set()
    for response in responses:
        for _ in range(2):  # what is looked up once is not counted
            count = steps(lambda r=response: report_of(device, r, recorded("steps"), clip=clip))
        found.add(count)
    return found


def spread(device, values, *, clip):
    return numbers_of_steps(device, [{"x": value} for value in values], clip=clip)


def test_the_ledger_takes_the_words_that_it_says():
    survey = Survey.design({"x": Integer(0, 9, epsilon=1, optional=2, per=1)})
    ledger = Accountant()
    ledger.add(survey)
    assert str(ledger.worst("x=response")) == "x (response) no | yes: epsilon 2"
    assert ledger.spent("x=response", "no", "yes") == ledger.spent("x=response", "yes", "no") == 2
    assert ledger.spent("x=response", "yes", "yes") == 0
    for word in (None, 3, "maybe"):
        with pytest.raises(QueryError, match="is 'no' or 'yes'"):
            ledger.spent("x=response", "no", word)


@pytest.mark.parametrize(
    ("kind", "answers", "nothing"),
    [
        ("integer", ["0", "9"], ""),
        ("integer", [0.0, 9.0], math.nan),
        ("integer", [np.float32(0), np.float32(9)], np.float32(math.nan)),
        ("integer", [Decimal(0), Decimal(9)], Decimal("nan")),
        ("continuous", ["0.5", "9.5"], " "),
        ("continuous", [np.float64(0.5), np.float64(9.5)], np.float64(math.nan)),
        ("real", ["0.5", "9.5"], ""),
        ("categorical", ["a", "c"], ""),
        ("ordinal", ["low", "high"], math.nan),
    ],
)
def test_a_blank_of_a_kind_takes_the_steps_of_that_kind(kind, answers, nothing):
    """A form that sends texts tells by no step who left its field blank."""
    device = Device(Survey.design({"x": KINDS[kind]}).client_manifest)
    assert len(spread(device, [*answers, nothing], clip=True)) == 1


def test_a_middle_that_a_short_float_cannot_say_is_still_no_answer():
    huge = Integer(2**53 - 3, 2**53 - 2, epsilon=1, optional=True, per=1)
    device = Device(Survey.design({"x": huge}).client_manifest)
    for nothing in ("", math.nan, np.float32(math.nan), None):
        report = report_of(device, {"x": nothing}, recorded())
        assert report == report_of(device, {}, recorded())


# Answers -----------------------------------------------------------------------------------------


ANSWERS = {
    "x": (None, 0, 1, 2),
    "y": (None, "a", "b"),
}
QUESTIONS = {
    "x in a range": (lambda t: t.count({"x": (1, 2)}), lambda p: p["x"] in (1, 2)),
    "x at all": (lambda t: t.count({"x": (0, 2)}), lambda p: p["x"] is not None),
    "x left out": (lambda t: t.count({"x": None}), lambda p: p["x"] is None),
    "one and not the other": (
        lambda t: t.count({"x": (0, 1), "y": None}),
        lambda p: p["x"] in (0, 1) and p["y"] is None,
    ),
    "both": (
        lambda t: t.count({"x": 2, "y": ["a"]}),
        lambda p: (p["x"], p["y"]) == (2, "a"),
    ),
    "a share of all": (lambda t: t.fraction({"y": "b"}), lambda p: p["y"] == "b"),
    "a sum": (lambda t: t.sum("x"), lambda p: p["x"] or 0),
    "a sum of some": (
        lambda t: t.sum("x", {"y": None}),
        lambda p: (p["x"] or 0) * (p["y"] is None),
    ),
    "a bar": (lambda t: t.histogram("x")[1], lambda p: p["x"] == 1),
    "a row": (
        lambda t: t.workload("x", [[3.0, 1.0, 2.0]]).iloc[0],
        lambda p: 0 if p["x"] is None else [3, 1, 2][p["x"]],
    ),
}


def place_of(person):
    """Positions by name, as a device finds them."""
    return {
        name: attribute.position_if_any(person[attribute.source(name)])
        for name, attribute in TINY.attributes.items()
    }


@pytest.fixture(scope="module")
def every_tally():
    table, laws = every_report_of(TINY)
    order = [tuple(place.values()) for place in people_of(TINY)]
    tallies = [TINY.tally(table.slice(k, 1)) for k in range(len(table))]
    return tallies, dict(zip(order, laws, strict=True))


@pytest.mark.parametrize("case", QUESTIONS)
def test_answers_are_unbiased_with_their_exact_error(case, every_tally):
    tallies, laws = every_tally
    ask, truth = QUESTIONS[case]
    answers = [ask(tally) for tally in tallies]
    values = np.array([answer.value for answer in answers])
    variances = np.array([answer.variance for answer in answers])
    for x in ANSWERS["x"]:
        for y in ANSWERS["y"]:
            person = {"x": x, "y": y}
            law = laws[tuple(place_of(person).values())]
            value = float(truth(person))
            assert law @ values == pytest.approx(value, abs=1e-9)
            exact = law @ values**2 - value**2
            assert law @ variances == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_without_reading_whether_it_was_answered_counts_would_be_wrong(every_tally):
    """The broken twin: those who did not answer would all be counted at the middle."""
    tallies, laws = every_tally
    broken = np.array([tally.count({"x=response": ["no", "yes"]}).value for tally in tallies])
    law = laws[tuple(place_of({"x": None, "y": "a"}).values())]
    assert law @ broken == pytest.approx(1)
    middle = Survey.design({"x": Integer(0, 2, epsilon=1, mechanism="geometric", per=1)})
    table, plain = every_report_of(middle)
    values = [middle.tally(table.slice(k, 1)).count({"x": 1}).value for k in range(len(table))]
    assert plain[1] @ np.array(values) == pytest.approx(1), "not 0"


@pytest.mark.parametrize("where", [{"x": (1, 2)}, {"x": None}, {"x": 2, "y": "a"}, {"x": (0, 2)}])
def test_predictions_are_the_exact_error(where, every_tally):
    tallies, laws = every_tally
    values = np.array([tally.count(where).value for tally in tallies])
    worst = 0.0
    for x in ANSWERS["x"]:
        for y in ANSWERS["y"]:
            place = place_of({"x": x, "y": y})
            law = laws[tuple(place.values())]
            exact = law @ values**2 - (law @ values) ** 2
            worst = max(worst, exact)
            prior = {n: np.eye(TINY.attributes[n].size)[at] for n, at in place.items()}
            assert TINY.expected_error(where, n=5, prior=prior).stderr ** 2 == pytest.approx(
                5 * exact, abs=1e-9
            )
            if x is not None and y is not None:
                some = {name: prior[name] for name in ("x", "y")}
                assert TINY.expected_error(where, n=5, prior=some).stderr == pytest.approx(
                    TINY.expected_error(where, n=5, prior=prior).stderr
                )
    # The worst place is over all positions, also those that nobody without an answer has.
    assert TINY.expected_error(where, n=5, prior="worst").stderr ** 2 >= 5 * worst - 1e-9


def test_predicted_workloads_are_those_of_their_rows():
    rows = np.array([[1.0, 0, 0], [0, 1, 1], [1, 2, 3]])
    for prior in ("uniform", [0.2, 0.3, 0.5]):
        each = []
        for row in rows:
            # A row is a sum over values: E[F^2] does not add up, so it is asked whole.
            each.append(
                TINY.expected_error(attribute="x", workload=[row], n=7, prior=prior).stderr ** 2
            )
        whole = TINY.expected_error(attribute="x", workload=rows, n=7, prior=prior).stderr ** 2
        assert whole == pytest.approx(np.mean(each))
    one = [[0.0, 1.0, 1.0]]
    asked = TINY.expected_error(attribute="x", workload=one, n=7, prior="uniform").stderr
    assert asked == pytest.approx(TINY.expected_error({"x": (1, 2)}, n=7, prior="uniform").stderr)
    assert TINY.expected_error(
        attribute="x", workload=one, n=7, prior="worst"
    ).stderr == pytest.approx(TINY.expected_error({"x": (1, 2)}, n=7, prior="worst").stderr)


def test_a_private_weight_that_was_left_out_counts_nothing():
    survey = Survey.design(
        {
            "x": Integer(0, 1, epsilon=1, mechanism="randomized-response", per=1),
            "w": Weight(0, 4, private=True, epsilon=1, optional=0.5),
        }
    )
    table, laws = every_report_of(survey)
    laws = {tuple(p.values()): law for p, law in zip(people_of(survey), laws, strict=True)}
    values = np.array(
        [survey.tally(table.slice(k, 1)).sum("w", {"x": 1}).value for k in range(len(table))]
    )
    for x in (0, 1):
        nothing = (laws[x, 0, 0] + laws[x, 1, 0]) / 2  # 2, rounded at random to 0 or 4
        assert nothing @ values == pytest.approx(0, abs=1e-9)
        three = laws[x, 0, 1] / 4 + laws[x, 1, 1] * 3 / 4
        assert three @ values == pytest.approx(3 * x, abs=1e-9)
        exact = three @ values**2 - (3 * x) ** 2
        predicted = survey.expected_error(
            {"x": 1}, n=1, prior={"x": np.eye(2)[x]}, weights={"w": [3.0]}
        ).stderr
        assert predicted**2 == pytest.approx(exact)


def crowd(n=4000, seed=5):
    rng = np.random.default_rng(seed)
    ages = rng.integers(0, 10, n).astype(float)
    ages[rng.random(n) < 0.3] = np.nan
    return pd.DataFrame({"age": ages, "town": np.where(rng.random(n) < 0.4, None, "north")})


CROWD = Survey.design(
    {
        "age": Integer(0, 9, epsilon=3, optional=3, per=1),
        "town": Categorical(["north", "south"], epsilon=3, optional=3),
    }
)


def near(answer, truth):
    """Six standard errors: a false alarm in 5e8."""
    assert abs(answer.value - truth) < 6 * answer.stderr + 1e-9, (answer, truth)


def test_means_and_quantiles_are_of_those_who_answered():
    people = crowd()
    tally = CROWD.tally(CROWD.randomize(people, randomness=Randomness.seeded(3)))
    near(tally.mean("age"), people.age.mean())
    near(tally.count({"age": None}), people.age.isna().sum())
    near(tally.count({"age": (0, 9)}), people.age.notna().sum())
    near(
        tally.count({"age": (2, 4), "town": None}),
        (people.age.between(2, 4) & people.town.isna()).sum(),
    )
    assert abs(tally.quantile("age", 0.5).value - people.age.median()) <= 1
    assert tally.quantile("age", 0.9).value >= 7
    share = (people.age <= 4).sum() / people.age.notna().sum()
    assert tally.cdf("age").values[4] == pytest.approx(share, abs=0.1)
    assert tally.histogram("age").values.sum() == pytest.approx(tally.count({"age": (0, 9)}).value)
    assert "age is not missing" in str(tally.mean("age").question)
    assert tally.count({"age": None}).question == "age is missing"
    with pytest.raises(QueryError, match="remove it from where"):
        tally.mean("age", {"age": None})
    with pytest.raises(QueryError, match="has no value None"):
        Survey.design({"x": Integer(0, 3, epsilon=1, per=1)}).tally([]).count({"x": None})


def test_mean_of_an_optional_attribute_notes_how_many_responded():
    people = crowd()
    survey = Survey.design(
        {
            "age": CROWD.attributes["age"],
            "hour": Integer(0, 9, epsilon=3, per=1, cyclic=True, optional=3),
            "town": Categorical(["north", "south"], epsilon=3),
        }
    )
    people = people.assign(hour=people.age, town=["north", "south"] * 2000)
    tallies = [
        survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed)))
        for seed in (1, 2)
    ]
    tally, end = tallies[0], "respondents who gave a response"
    size = tally.count("age is not None").value
    near(tally.count("age is not None"), people.age.notna().sum())
    for mean in (tally.mean("age"), tally.mean("hour"), tally.fit_distribution("age").mean("age")):
        number = tally.count(f"{mean.unit} is not None").value
        assert f"mean over an estimated {number:,.0f} {end}" in mean.notes
    by_town = tally.mean("age", by="town")
    for town, mean in by_town:
        number = tally.count(f"age is not None and town == '{town}'").value
        assert mean.notes[-1] == f"mean over an estimated {number:,.0f} {end}"
    either = tally.mean("age", "age <= 4 or town == 'north'")
    number = tally.count("age <= 4 or town == 'north' and age is not None").value
    assert either.notes[-1] == f"mean over an estimated {number:,.0f} {end}"
    size = sum(tally.count("age is not None").value for tally in tallies)
    assert pool(tallies).mean("age").notes == (f"mean over an estimated {size:,.0f} {end}",)
    assert (by_town["north"] - by_town["south"]).notes == ()
    assert (by_town["north"] / by_town["south"]).notes == ()
    plain = Survey.design({"x": Integer(0, 3, epsilon=1, per=1)})
    assert plain.tally(plain.randomize({"x": [1, 2, 3] * 99})).mean("x").notes == ()


def test_totals_keep_whether_it_was_answered(tmp_path):
    people = crowd(500)
    reports = CROWD.randomize(people)
    tally, totals = CROWD.tally(reports), CROWD.tally(reports, keep=[("age",), ("age", "town")])
    for where in ({"age": None}, {"age": (2, 3)}, {"age": 4, "town": None}):
        assert totals.count(where).value == pytest.approx(tally.count(where).value)
        assert totals.count(where).variance == pytest.approx(tally.count(where).variance)
    assert totals.mean("age").value == pytest.approx(tally.mean("age").value)
    totals.save(tmp_path / "x.totals")
    assert CROWD.tally(tmp_path / "x.totals").count({"age": None}) == totals.count({"age": None})


def test_ledgers_add_up_both_halves(tmp_path):
    ledger = Accountant()
    ledger.add(CROWD, names={"age": "years"})
    ledger.add(Survey.design({"years": Integer(0, 9, epsilon=1, per=1)}))
    assert float(ledger.spent("years", 1, 2)) == 4
    with pytest.raises(QueryError, match="is missing"):  # there had to be one in the second
        ledger.spent("years", None, 5)
    first = Accountant()
    first.add(CROWD, names={"age": "years"})
    assert float(first.spent("years", None, 5)) == 3
    assert float(first.spent("years", None, 0)) == 3 + 5 * 3
    assert "years (response)" in str(ledger)
    ledger.save(tmp_path / "ledger.json")
    assert Accountant.load(tmp_path / "ledger.json") == ledger


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    people = crowd(2000)
    CROWD.save("survey.toml")
    people.to_csv("people.csv", index=False)
    pq.write_table(pa.Table.from_pandas(people), "people.parquet")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["metricldp", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        told = capsys.readouterr()
        assert done.value.code == 0, told.err
        return told.out

    for source in ("people.csv", "people.parquet"):
        run("randomize", "survey.toml", source, "-o", "out.parquet", "--force")
        tally = CROWD.tally("out.parquet")
        assert tally.n == 2000
        near(tally.count({"age": None}), people.age.isna().sum())
        told = run("query", "count", "survey.toml", "out.parquet", "age is None")
        assert f"{tally.count({'age': None}).value:,.0f}" in told
        told = run("query", "count", "survey.toml", "out.parquet", "2 <= age <= 3 and town is None")
        assert f"{tally.count({'age': (2, 3), 'town': None}).value:,.0f}" in told
    assert "age (response)" in run("certify", "survey.toml")
    assert "as likely for a value as for no response" in run("explain", "survey.toml")


def test_how_to_say_that_a_value_is_missing():
    tally = CROWD.tally([])
    with pytest.raises(QueryError, match="missing responses are selected by age is None"):
        tally.count("age == None")
    for where in ("age == NA", "age == 'NA'", "age in [None]", "age = none"):
        with pytest.raises(QueryError, match="\n    age"):
            tally.count(where)
    assert tally.count("age is None").question == tally.count({"age": None}).question
    people = crowd(3).astype({"age": object})
    people.loc[1, "age"] = "NA"
    with pytest.raises(InvalidValueError, match=r"age in row 2 .*; a missing value is left blank"):
        CROWD.randomize(people)
