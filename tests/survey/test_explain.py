"""Guarantees in words: never stronger than the truth, short, and with the numbers of the data."""

from __future__ import annotations

import itertools
import json
import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest

from checks import every_report_of, people_of
from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    Lp,
    Ordinal,
    QueryError,
    Relative,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
    WeakGuaranteeWarning,
    Weight,
)
from metricldp.metrics import Line, Sensitive, Uniform
from metricldp.survey.explain import (
    close_distance,
    close_values,
    factor,
    no_response,
    rounded_up,
    short_guarantee,
    survey_epsilon,
    weak_guarantees,
)
from metricldp_core.exact import decimal_of, exp_bounds

NAMES = ["clinic", "bank", "news", "games"]
TREE = Tree({"care": ["clinic"], "other": ["bank", "news", "games"]})
ROWS = [[0, 1, 2, 2], [1, 0, 1, 2], [2, 1, 0, 1], [2, 2, 1, 0]]
SEARCHLESS = {
    "per": Integer(0, 20, epsilon=1, per=5, mechanism="geometric"),
    "per part": Integer(0, 20, epsilon=1, per=2.5, mechanism="geometric"),
    "within": Integer(0, 20, epsilon=1, within=3, mechanism="geometric"),
    "limited": Integer(0, 20, epsilon=1, within=3, max_epsilon=2.5, mechanism="geometric"),
    "ring": Integer(0, 10, epsilon=1, within=2, cyclic=True, mechanism="unary"),
    "ring per": Integer(0, 10, epsilon=1, per=2, cyclic=True, mechanism="geometric"),
    "bins": Continuous(0, 60, bins=20, epsilon=1, per=7, mechanism="geometric"),
    "bins within": Continuous(0, 60, bins=20, epsilon=1, within=7, mechanism="geometric"),
    "even edges": Continuous(edges=[0, 1, 3, 4, 6], epsilon=1, per=1.1, mechanism="geometric"),
    "uneven": Continuous(edges=[0, 1, 5, 6, 20], epsilon=1, per=4, mechanism="geometric"),
    "uneven within": Continuous(edges=[0, 1, 5, 6, 20], epsilon=1, within=4, mechanism="geometric"),
    "stochastic": Continuous(
        0, 10, points=21, epsilon=1, within=1.2, rounding="stochastic", mechanism="geometric"
    ),
    "stochastic per": Continuous(
        0, 10, points=21, epsilon=1, per=1.2, rounding="stochastic", mechanism="geometric"
    ),
    "ratios": Continuous(1, 100, bins=12, epsilon=1, metric=Relative(0.5), mechanism="geometric"),
    "ratios of integers": Integer(1, 40, epsilon=1, metric=Relative(0.3), mechanism="geometric"),
    "levels": Ordinal(["low", "middle", "high", "top"], epsilon=1, mechanism="geometric"),
    "plain": Categorical(NAMES, epsilon=1, mechanism="randomized-response"),
    "sensitive": Categorical(NAMES, epsilon=1, metric=SensitiveSet(["bank"]), mechanism="unary"),
    "graph": Ordinal(
        NAMES, epsilon=1, metric=Graph([NAMES[:2], NAMES[1:3], NAMES[2:]]), mechanism="geometric"
    ),
    "tree": Categorical(NAMES, epsilon=1, metric=TREE, mechanism="unary"),
    "matrix": Categorical(NAMES, epsilon=1, metric=DistanceMatrix(ROWS), mechanism="unary"),
    "response": Integer(0, 20, epsilon=1, per=5, mechanism="randomized-response"),
    "weight": Weight(0, 10, private=True, epsilon=1),
}


def ring(size):
    return Graph([(x, (x + 1) % size) for x in range(size)])


def factors_of(text):
    """The factors in a text, each as a number or as an exponent."""
    return re.findall(r"at most (e\^[\d.,]+|[\d.,]+?) times", " ".join(text.split()))


def dense_values(attribute):
    """Values of an attribute, many of them next to the edges of bins."""
    ends = np.unique([attribute.values_at(k) for k in range(attribute.size)])
    if attribute.kind == "integer":
        return ends.tolist()
    between = np.linspace(attribute.low, attribute.high, 41)
    values = np.concatenate([ends, ends - 1e-9, ends + 1e-9, between])
    values = np.unique([*values, *(values + (attribute.within or attribute.per))])
    return [float(v) for v in values if attribute.low <= v <= attribute.high]


# Numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_factors_are_rounded_up_by_less_than_a_hundredth(seed):
    rng = np.random.default_rng(seed)
    for epsilon in [*rng.uniform(0, 13, 100), *(10.0 ** rng.uniform(-9, 0, 100)), 1, 0.1, 12.999]:
        text = factor(epsilon)
        shown = Fraction(text.replace(",", ""))
        assert exp_bounds(Fraction(epsilon))[1] <= shown
        assert float(shown) <= 1.01 * math.exp(epsilon)
        assert float(shown - 1) <= 1.1 * math.expm1(epsilon) + 2e-12
    for epsilon in rng.uniform(13, 5000, 100):
        assert factor(epsilon).startswith("e^")
        assert epsilon <= float(factor(epsilon)[2:].replace(",", "")) <= 1.001 * epsilon


def test_numbers_are_rounded_up_but_decimals_stay():
    assert [rounded_up(x) for x in (1, 19.8, 2.00001, 0.123401)] == [1, 19.8, 2.001, 0.1235]


@pytest.mark.parametrize(
    "kind", [k for k, a in SEARCHLESS.items() if hasattr(a, "low") and not a.is_weight]
)
def test_close_values_have_the_largest_epsilon_of_all_such_pairs(kind):
    """Over many pairs of values; the epsilon that is stated is reached, and not exceeded."""
    attribute = SEARCHLESS[kind]
    survey = Survey.design({"x": attribute})
    if attribute.metric_kind == "relative":
        ratio = Fraction(1) + decimal_of(attribute.metric.by)

        def is_close(x, y):
            return Fraction(y) <= ratio * Fraction(x)
    else:
        distance = close_distance(attribute)

        def is_close(x, y):
            return Fraction(y) - Fraction(x) <= distance

    pairs = [
        (x, y) for x, y in itertools.combinations(dense_values(attribute), 2) if is_close(x, y)
    ]
    most = max(attribute.distance(x, y) for x, y in pairs)
    across = float(survey_epsilon(survey))
    if (close := close_values(survey, "x")) is None:
        assert across <= most
    else:
        assert float(most) <= float(close[1]) * (1 + 1e-8)
        assert float(close[1]) == pytest.approx(float(most), rel=1e-6)


def test_values_in_bins_have_more_than_epsilon_if_per_ends_inside_of_a_bin():
    """Negative control of the test above: epsilon itself would be too small there."""
    survey = Survey.design({"x": SEARCHLESS["bins"]})
    assert float(close_values(survey, "x")[1]) == pytest.approx(9 / 7)
    assert "at most 3.62 times as likely for one x as for another within 7" in str(survey.explain())


@pytest.mark.parametrize("kind", SEARCHLESS)
def test_no_report_exceeds_the_stated_factors(kind):
    """By enumeration of all reports: the largest factor is below what the text says, and near."""
    survey = Survey.design({"x": SEARCHLESS[kind]})
    channel = survey.channels["x"]
    if channel.bits > 12:
        pytest.skip("too many reports")
    _, law = every_report_of(survey)
    logs = np.log(law)
    largest = (logs.max(axis=0) - logs.min(axis=0)).max()
    *_, stated = factors_of(survey.explain().to_dict()["attributes"][0]["guarantee"])
    stated = stated.replace(",", "")
    exponent = float(stated[2:]) if stated.startswith("e^") else math.log(float(stated))
    assert largest <= exponent + 1e-12
    if not SEARCHLESS[kind].rounded_at_random:
        assert exponent <= largest + 0.02


def test_factor_of_all_attributes_holds_for_every_pair_of_respondents():
    survey = Survey.design(
        {
            "x": Integer(0, 2, epsilon=1, per=1, mechanism="geometric", optional=0.5),
            "y": Categorical(["a", "b"], epsilon=0.7, mechanism="randomized-response"),
        }
    )
    _, law = every_report_of(survey)
    people = [p for p in people_of(survey) if p["x=response"] or p["x"] == 1]
    rows = [k for k, p in enumerate(people_of(survey)) if p in people]
    logs = np.log(law[rows])
    largest = (logs.max(axis=0) - logs.min(axis=0)).max()
    *_, stated = factors_of(survey.explain().together)
    assert largest <= math.log(float(stated)) <= largest + 0.01
    none = [k for k, p in zip(rows, people, strict=True) if not p["x=response"] and not p["y"]]
    some = [k for k, p in zip(rows, people, strict=True) if p["x=response"] and not p["y"]]
    most = np.abs(np.log(law[none])[:, None] - np.log(law[some])).max()
    far = no_response(survey, "x")
    assert most == pytest.approx(float(far))
    assert f"at most {factor(far)} times as likely for a value as for no response" in " ".join(
        str(survey.explain()).split()
    )


@pytest.mark.parametrize("size", [2, 3, 7, 24])
def test_mean_distances(size):
    third = Categorical([str(x) for x in range(size)], epsilon=1).unit / 3
    metrics = [Line(third), Uniform(third), Sensitive(frozenset({0}), third)]
    metrics.append(Sensitive(frozenset(range(size)), third))
    if size > 2:
        metrics.append(Integer(0, size - 1, epsilon=1, metric=ring(size)).distances)
    for metric in metrics:
        pairs = itertools.combinations(range(size), 2)
        distances = [float(metric.distance(x, other)) for x, other in pairs]
        assert metric.mean(size) == pytest.approx(sum(distances) / len(distances))


# Text ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3),
            "income": Continuous(
                *(0, 200_000), bins=40, epsilon=1, within=10_000, max_epsilon=3, optional=True
            ),
            "region": Categorical(["north", "south"], epsilon=2),
        }
    )


def test_three_attributes_fit_25_lines_of_80_columns(three):
    lines = str(three.explain(n=10_000)).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert (
        "age: whole numbers from 0 to 99; mechanism additive A report is at most 2.72 times as "
        "likely for one age as for another within 5, and at most 20.1 times for any two."
    ) in text
    assert "It is at most 54.6 times as likely for a value as for no response." in text
    assert "A report is at most 7.39 times as likely for one region as for another." in text
    assert "at most 8,104 times as likely for one respondent as for another (epsilon 9" in text
    assert "Correlated attributes reveal information about each other" in text


def test_expected_errors_need_n(three):
    assert "standard error" not in str(three.explain())
    assert all("expected_error" not in entry for entry in three.explain().to_dict()["attributes"])
    explanation = three.explain(n=10_000)
    assert "Expected standard errors of counts, 10,000 respondents:" in str(explanation)
    age = explanation.to_dict()["attributes"][0]["expected_error"]
    for prior, key in (("uniform", "stderr_uniform"), ("worst", "stderr_worst")):
        expected = three.expected_error("age <= 49", n=10_000, prior=prior)
        assert age[key] == pytest.approx(expected.stderr)
        assert f"{expected.stderr:,.0f}" in str(explanation)
    assert three.explain(n=1).to_dict()["n"] == 1
    for n in (0, -5, 1.5, "many", 10**16):
        with pytest.raises(QueryError, match=r"a whole number from 1 to 1,000,000,000,000,000"):
            three.explain(n=n)
    with pytest.raises(TypeError):
        three.explain(10_000)


def test_poisoning_is_that_of_a_tally(three):
    error = three.explain(n=100).to_dict()["attributes"][2]["expected_error"]
    tally = three.tally(three.randomize({"age": [1], "income": [None], "region": ["north"]}))
    low, high = tally.count("region == 'north'").poisoning_bounds(malicious=1)
    assert (high - low) / 2 <= error["poisoning"] + 1e-9
    assert "one malicious report" in three.explain(n=100).details()


@pytest.mark.parametrize("kind", SEARCHLESS)
def test_texts_have_the_numbers_of_the_data(kind):
    survey = Survey.design({"x": SEARCHLESS[kind]})
    explanation = survey.explain(n=100)
    data = explanation.to_dict()
    json.dumps(data)
    (entry,) = data["attributes"]
    lines = [*str(explanation).splitlines(), *explanation.details().splitlines()]
    assert max(map(len, lines)) <= 80
    stated = factors_of(entry["guarantee"])
    epsilons = dict.fromkeys([entry["close_epsilon"], entry["max_epsilon"]])
    assert stated == [factor(epsilon) for epsilon in epsilons]
    assert entry["guarantee"] in " ".join(str(explanation).split())
    for pair in entry["pairs"]:
        line = next(x for x in explanation.details().splitlines() if f"  {pair['values']}  " in x)
        assert line.endswith(f" {factor(pair['epsilon'])}")
        assert pair["epsilon"] <= entry["max_epsilon"]
    assert entry["pairs"][-1]["epsilon"] == entry["max_epsilon"] == data["max_epsilon"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("limited", "for one x as for another within 3, and at most 12.2 times for any two"),
        ("levels", "for one x as for another within 1 level"),
        ("ratios", "for one x as for another, if the larger is at most 50 % above the smaller"),
        ("sensitive", "for one x as for another if one is bank"),
        ("graph", "for clinic as for bank, the closest two values"),
        ("plain", "for one x as for another."),
        ("response", "at most 1.23 times as likely for one x as for another."),
    ],
)
def test_sentences_name_the_close_values(kind, words):
    survey = Survey.design({"x": SEARCHLESS[kind]})
    assert words in survey.explain().to_dict()["attributes"][0]["guarantee"]


def test_details_name_bins_rounding_memory_and_workloads():
    def notes(**attributes):
        return " ".join(Survey.design(attributes).explain().details().split())

    per = notes(x=Continuous(0, 60, bins=20, epsilon=1, per=6, mechanism="geometric"))
    assert "on different sides of the edge of a bin have a factor of up to 1.65" in per
    assert "at most 0.5 x (distance / 3 + 1)" in per
    assert "0.25 x (distance + half of the widths of their bins)" in notes(x=SEARCHLESS["uneven"])
    assert "holds for exact values, wherever" in notes(x=SEARCHLESS["bins within"])
    assert "rounded to the grid at random" in notes(x=SEARCHLESS["stochastic"])
    assert "guarantees more than the metric: epsilon 0.2" in notes(x=SEARCHLESS["response"])
    again = notes(x=Integer(0, 9, epsilon=1, mechanism="memoised", per=1))
    assert "for all reports of one value from one memory together" in again
    matrix = {"name": "matrix", "workload": "prefixes"}
    assert "designed for the workload prefixes" in notes(
        x=Integer(0, 7, epsilon=1, mechanism=matrix, per=1)
    )
    given = {"name": "additive", "workload": np.eye(10)}
    assert "a workload that the survey file does not contain" in notes(
        x=Integer(0, 9, epsilon=1, mechanism=given, per=1)
    )


def test_groups_have_a_guarantee_of_their_own():
    sides = {name: Integer(0, 3, epsilon=1, per=1) for name in ("east", "north")}
    survey = Survey.design(
        SurveySpec(sides, joint={("east", "north"): "planar-laplace"}, metric=Lp(2))
    )
    text = " ".join(str(survey.explain()).split())
    assert "east: whole numbers from 0 to 3; mechanism planar-laplace, jointly with north" in text
    assert (
        f"randomized jointly by planar-laplace A report is at most {factor(18**0.5)} times" in text
    )
    assert survey.explain().to_dict()["attributes"][0]["jointly_with"] == ["north"]
    windows = {
        "east": Integer(0, 7, epsilon=1, within=2),
        "north": Integer(0, 7, epsilon=1, within=4),
    }
    plane = {("east", "north"): {"name": "additive", "metric": "plane"}}
    text = Survey.design(SurveySpec(windows, joint=plane)).explain().details()
    assert "radii 2 in east and 4 in north" in " ".join(text.split())


def test_norms_are_named_and_one_attribute_has_no_correlations():
    two = {name: Integer(0, 9, epsilon=1, per=1, mechanism="geometric") for name in "ab"}
    text = str(Survey.design(SurveySpec(two, metric=Lp(2))).explain())
    assert "The L2 norm combines epsilons: each mechanism uses 0.707" in " ".join(text.split())
    assert "L-infinity norm" in str(Survey.design(SurveySpec(two, metric=Lp(math.inf))).explain())
    assert "norm" not in str(Survey.design(two).explain())
    assert "Correlated" not in str(Survey.design({"a": two["a"]}).explain())


def test_public_weights_are_named_and_count_for_nothing():
    survey = Survey.design({"a": SEARCHLESS["plain"], "w": Weight(0, 1)})
    assert "w: a public weight from 0 to 1\n  The value is sent without protection." in str(
        survey.explain(n=5)
    )
    assert survey.explain().to_dict()["max_epsilon"] == 1


def test_short_guarantees_are_those_of_the_spec():
    def short(attribute, name="x"):
        return short_guarantee(Survey.design({name: attribute}), [name])

    age = Integer(0, 99, epsilon=1, within=5, max_epsilon=3, mechanism="geometric")
    assert short(age) == "x epsilon 1 within 5, max_epsilon 3"
    assert short(SEARCHLESS["per part"]) == "x epsilon 1 per 2.5"
    assert short(SEARCHLESS["plain"]) == "x epsilon 1 for any two values"
    assert short(SEARCHLESS["graph"]) == "x epsilon 1 to 3"
    assert short(SEARCHLESS["ratios"]) == "x epsilon 1 per 50 %"
    two = Survey.design({"x": SEARCHLESS["plain"], "y": SEARCHLESS["levels"]})
    assert short_guarantee(two, ["y"]).endswith("; all attributes together epsilon 4")


def test_extreme_epsilons_do_not_overflow():
    survey = Survey.design(
        {"a": Integer(0, 1000, epsilon=900, per=1), "b": Categorical(["x", "y"], epsilon=1e3)}
    )
    assert "at most e^900000 times for any two" in " ".join(str(survey.explain()).split())
    assert survey.certify().holds


# Weak guarantees ----------------------------------------------------------------------------------


def weak_lines(**attributes):
    with pytest.warns(WeakGuaranteeWarning) as record:
        survey = Survey.design(attributes)
    (warning,) = record
    assert warning.filename == __file__
    head, *lines = str(warning.message).split("\n")
    assert head == "weak privacy guarantee"
    lines = [line.strip() for line in lines]
    explanation = survey.explain()
    assert lines == list(survey.certify().warnings) == explanation.warnings
    assert lines == explanation.to_dict()["warnings"] == list(weak_guarantees(survey))
    for line in lines:
        assert f"Warning: {line}." in " ".join(str(explanation).split())
    return lines


def test_weak_guarantees_are_warned_of_with_number_and_remedy():
    line = "a report can be e^99 times as likely for 0 as for 99; set max_epsilon="
    assert weak_lines(age=Integer(0, 99, epsilon=1, per=1)) == [f"age: {line}"]
    capped = Integer(0, 99, epsilon=1, within=5, max_epsilon=12, mechanism="geometric")
    assert weak_lines(age=capped) == [
        "age: a report can be 162,755 times as likely for 0 as for 99 (epsilon 12); set a smaller "
        "max_epsilon"
    ]
    assert weak_lines(age=Integer(0, 99, epsilon=4, within=5, mechanism="geometric")) == [
        "age: a report can be 54.6 times as likely for one age as for another within 5 (epsilon 4),"
        " and e^79.2 times for any two; use a smaller epsilon and set max_epsilon="
    ]
    assert weak_lines(age=Integer(0, 9, epsilon=4, within=5)) == [
        "age: a report can be 54.6 times as likely for one age as for another within 5 (epsilon 4),"
        " and 2,981 times for any two; use a smaller epsilon"
    ]
    assert weak_lines(town=Categorical(["north", "south"], epsilon=10.5)) == [
        "town: a report can be 36,316 times as likely for one town as for another (epsilon 10.5); "
        "use a smaller epsilon"
    ]
    assert weak_lines(town=Categorical(["a", "b"], epsilon=6, optional=6)) == [
        "town: a report can be 162,755 times as likely for one town as for no response (epsilon "
        "12); use a smaller epsilon, or optional="
    ]
    nine = {name: Categorical(["x", "y"], epsilon=9) for name in "abc"}
    assert weak_lines(**nine) == [
        "all attributes together: a report can be e^27 times as likely for one respondent as for "
        "another; use smaller epsilons or fewer attributes"
    ]


def test_weak_groups_are_warned_of():
    sides = {name: Integer(0, 6, epsilon=2, per=1) for name in ("east", "north")}
    survey = Survey.design(SurveySpec(sides, joint={("east", "north"): "hio"}))
    assert survey_epsilon(survey) <= 20 and len(weak_guarantees(survey)) < 3
    four = {name: Integer(0, 1, epsilon=6, per=1) for name in "abcd"}
    survey = Survey.design(SurveySpec(four, joint={tuple("abcd"): {"name": "additive"}}))
    (line,) = weak_guarantees(survey)
    assert line.startswith("a and b and c and d: a report can be e^24 times as likely")


def test_guarantees_at_the_thresholds_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakGuaranteeWarning)
        Survey.design({"age": Integer(0, 9, epsilon=3, within=3, max_epsilon=10)})
        Survey.design({name: Categorical(["x", "y"], epsilon=10) for name in "ab"})
        Survey.design(
            {
                "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3, mechanism="geometric"),
                "income": Continuous(
                    *(0, 200_000),
                    bins=40,
                    epsilon=1,
                    within=10_000,
                    max_epsilon=3,
                    optional=True,
                    mechanism="geometric",
                ),
                "hour": Integer(0, 23, epsilon=1, within=2, cyclic=True, mechanism="unary"),
                "region": Categorical(["north", "south"], epsilon=2),
            }
        )


def test_loading_a_weak_survey_does_not_warn(tmp_path):
    with pytest.warns(WeakGuaranteeWarning):
        survey = Survey.design({"x": Categorical(["a", "b"], epsilon=11)})
    survey.save(tmp_path / "survey.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakGuaranteeWarning)
        assert Survey.load(tmp_path / "survey.toml") == survey


def test_second_report_is_free_with_a_memory_only():
    text = "adds the same epsilon again"
    for mechanism, end in (
        ("memoised", ", except reports of one value of a from the same memory."),
        ("geometric", "."),
    ):
        survey = Survey.design({"a": Integer(0, 4, epsilon=1, per=1, mechanism=mechanism)})
        assert " ".join(str(survey.explain()).split()).endswith(text + end)
