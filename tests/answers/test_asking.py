"""The words of questions: widths in an attribute's units, rings, signs, names that are numbers."""

from __future__ import annotations

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    InvalidReportError,
    InvalidSpecError,
    Ordinal,
    QueryError,
    Randomness,
    SensitiveSet,
    Survey,
)
from metricldp.answers.queries import parse

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
MECHANISMS = ["randomized-response", "unary", "geometric", "threshold", "matrix"]


def ring(values):
    return Graph([(x, values[place - len(values) + 1]) for place, x in enumerate(values)])


def hours(**more):
    return Integer(0, 23, epsilon=12, metric=ring(range(24)), **more)


@pytest.fixture(scope="module")
def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=1),
            "income": Continuous(0, 200_000, bins=100, epsilon=1, per=2000),
            "speed": Continuous(0, 10, points=11, epsilon=1, rounding="stochastic", per=1),
            "mood": Ordinal(["bad", "fair", "good"], epsilon=1),
            "town": Categorical(["north", "south", "far, far"], epsilon=1),
            "code": Categorical([1, 2, 3], epsilon=1),
            "hour": hours(),
        }
    )


@pytest.fixture(scope="module")
def tally(survey):
    people = {
        "age": [1, 30],
        "income": [5, 1e5],
        "speed": [1.5, 3],
        "mood": ["bad", "good"],
        "town": ["north", "south"],
        "code": [1, 3],
        "hour": [23, 1],
    }
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))


# Bins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bins", "texts"),
    [
        (
            "income",
            4,
            ["0 to 50,000", "50,000 to 100,000", "100,000 to 150,000", "150,000 to 200,000"],
        ),
        ("income", [0, 70_000, 200_000], ["0 to 70,000", "70,000 to 200,000"]),
        ("income", np.array([0.0, 1e5, 2e5]), ["0 to 100,000", "100,000 to 200,000"]),
        ("income", 1000, 100),
        ("income", None, 100),
        ("income", 1, ["0 to 200,000"]),
        ("age", 4, ["0 to 24", "25 to 49", "50 to 74", "75 to 99"]),
        ("age", 3, ["0 to 32", "33 to 65", "66 to 99"]),
        ("age", [0, 18, 100], ["0 to 17", "18 to 99"]),
        ("speed", [0, 2.5, 5, 7.5, 10], ["0 to 2.5", "2.5 to 5", "5 to 7.5", "7.5 to 10"]),
        ("mood", None, ["bad", "fair", "good"]),
    ],
)
def test_bins_are_a_number_or_edges(tally, name, bins, texts):
    table = tally.histogram(name, {"town": "north"}, bins=bins)
    if isinstance(texts, int):
        assert len(table) == texts
    else:
        assert list(table.groupings[0].texts) == texts
    whole = tally.count({"town": "north"})
    assert sum(table.values) == pytest.approx(whole.value)


def test_widths_over_edges_of_ones_own():
    gain = Continuous(edges=[0, 1, 1000, 5000, 10_000, 50_000, 100_000], epsilon=1, per=5000)
    exact = list(gain.bars(50_000, "gain"))
    assert [bar.words for bar in exact] == ["0 to 50,000", "50,000 to 100,000"]
    assert {bar.note for bar in exact} == {None}
    for width in (25_000, 1):
        with pytest.raises(QueryError, match="leave the width out"):
            list(gain.bars(width, "gain"))
    assert len(list(gain.bars(1e9, "gain"))) == 1
    thin = Continuous(edges=[0, 1e-6, 2e-6, 1e6], epsilon=1, per=1e6)
    with pytest.raises(QueryError, match="would cut bins of thin"):
        list(thin.bars(1e-6, "thin"))


@pytest.mark.parametrize(
    ("name", "edges"),
    [("income", [0, 50_000, 200_000]), ("age", [0, 25, 50]), ("speed", [0, 2.5, 5])],
)
def test_bins_are_the_counts_of_their_ranges(tally, name, edges):
    table, step = tally.histogram(name, bins=edges), 1 if name == "age" else 0
    for (low, high), count in table:
        assert count.value == pytest.approx(tally.count({name: (low, high - step)}).value)


@pytest.mark.parametrize("bins", [0, -1, 2.5, True, "wide", float("nan")])
def test_invalid_numbers_of_bins_are_rejected(tally, bins):
    with pytest.raises(QueryError, match="bins of income are a number, a list of edges"):
        tally.histogram("income", bins=bins)
    with pytest.raises(QueryError, match="has names and no numbers"):
        tally.histogram("town", bins=2)


@pytest.mark.parametrize("edges", [[0], [10_000, 0], [0, 1_999], [0, 0, 2_000], ["a", "b"]])
def test_invalid_edges_of_bins_are_rejected(tally, edges):
    with pytest.raises(QueryError, match="edges"):
        tally.histogram("income", bins=edges)


def test_row_of_a_table_has_its_whole_question(tally):
    table = tally.histogram("age", {"town": "north", "hour": (22, 2)}, bins=2)
    assert [estimate.question for _, estimate in table] == [
        "age 0 to 49 among town north, hour 22 to 2",
        "age 50 to 99 among town north, hour 22 to 2",
    ]
    assert tally.histogram("town")["north"].question == "town north"
    rows = tally.workload("mood", "values", {"town": "north"})
    assert rows["good"].question == "mood good among town north"


# Rings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_ranges_go_over_the_end_of_a_ring(mechanism):
    """The same as the list of values, in every question."""
    survey = Survey.design(
        {"hour": hours(mechanism=mechanism), "age": Integer(0, 9, epsilon=9, per=1)}
    )
    rng = np.random.default_rng(1)
    people = {"hour": rng.integers(20, 28, 4000) % 24, "age": rng.integers(0, 10, 4000)}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
    for pair, values in {(22, 2): [22, 23, 0, 1, 2], (23, 0): [0, 23], (1, 0): range(24)}.items():
        one, other = {"hour": pair}, {"hour": list(values)}
        text = f"hour >= {pair[0]} or hour <= {pair[1]}"
        assert tally.count(text).value == pytest.approx(tally.count(one).value)
        for ask in (tally.count, tally.fraction):
            assert ask(one).value == pytest.approx(ask(other).value)
            assert ask(one).variance == pytest.approx(ask(other).variance)
        assert survey.expected_error(one, n=100, prior="worst").stderr == pytest.approx(
            survey.expected_error(other, n=100, prior="worst").stderr
        )
        if mechanism in ("randomized-response", "unary"):
            assert tally.mean("age", one).value == pytest.approx(tally.mean("age", other).value)
            assert str(tally.quantile("age", 0.5, one)) == str(tally.quantile("age", 0.5, other))
            assert tally.histogram("age", one).values == pytest.approx(
                tally.histogram("age", other).values
            )
    night = tally.count({"hour": (22, 2)})
    assert night.question == "hour 22 to 2"
    truth = np.isin(people["hour"], [22, 23, 0, 1, 2]).sum()
    assert (
        abs(night.value - truth)
        < 6 * survey.expected_error({"hour": (22, 2)}, n=4000, prior="worst").stderr
    )


def test_which_attributes_go_round():
    week = Ordinal(DAYS, epsilon=1, metric=ring(DAYS))
    assert week.is_cyclic
    assert np.flatnonzero(week.choose(("sat", "mon"), "day").inside).tolist() == [0, 5, 6]
    assert week.choose(("tue", "mon"), "day").whole
    far = [[min(abs(x - y), 5 - abs(x - y)) for y in range(5)] for x in range(5)]
    assert Integer(0, 4, epsilon=1, metric=DistanceMatrix(far)).is_cyclic
    chord = Graph([*ring(range(6)).edges, (0, 3)])
    for other in (
        Integer(0, 23, epsilon=1, per=1),
        Ordinal(DAYS, epsilon=1),
        Ordinal(DAYS, epsilon=1, metric=SensitiveSet(["mon"])),
        Integer(0, 5, epsilon=1, metric=chord),
        Integer(0, 2, epsilon=1, metric=ring(range(3))),
        Categorical(DAYS, epsilon=1, metric=ring(DAYS)),
        Continuous(0, 24, bins=24, epsilon=1, per=1),
    ):
        assert not other.is_cyclic


@pytest.mark.parametrize(
    ("where", "needle"),
    [
        (
            {"age": (30, 20)},
            "age 30 to 20 is an empty range: its ends are swapped; use 20 to 30, or make age "
            "cyclic in the survey if its ranges should wrap around; here it is not",
        ),
        ({"income": (9e4, 1e4)}, "its ends are swapped; use 10,000 to 90,000$"),
        ({"speed": (3, 2)}, "its ends are swapped; use 2 to 3$"),
        (
            {"mood": ("good", "bad")},
            "mood good to bad is an empty range: its ends are swapped; use bad to good, or "
            "make mood cyclic in the survey",
        ),
        ({"hour": (30, -1)}, "hour 30 to -1 is an empty range; hour is from 0 to 23"),
        ({"hour": (2.1, 2.9)}, "hour 2.1 to 2.9 is an empty range"),
    ],
    ids=str,
)
def test_reversed_ranges_elsewhere(tally, where, needle):
    with pytest.raises(QueryError) as wrong:
        tally.count(where)
    assert needle in f"{wrong.value}$"


# Texts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("30 >= age > 18", {"age": (19, 30)}),
        ("age <= 30 and age > 20", {"age": (21, 30)}),
        ("age >= 3 and age >= 5", {"age": (5, None)}),
        ("income < 3e4", {"income": (None, 30_000)}),
        ("speed > 2", {"speed": (2, None)}),
        ("'bad' <= mood < 'good'", {"mood": ("bad", "fair")}),
        ("town != 'north'", {"town": ["south", "far, far"]}),
        ("town == 'far, far'", {"town": ["far, far"]}),
        ("code == '1'", {"code": "1"}),
        ("code != '2'", {"code": ["1", "3"]}),
    ],
)
def test_text_selects_as_dictionary_does(survey, text, where):
    query, expected = parse(survey, text), parse(survey, where)
    assert query.functions.keys() == expected.functions.keys()
    for name, function in expected.functions.items():
        assert np.array_equal(query.functions[name], function)


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("18 < age < 19", "no age is in this range"),
        ("hour >= 22 and hour <= 2", "around the circle it is hour >= 22 or hour <= 2"),
        ("code == 1", "write '1' in quotes"),
        ("code in ['1', 2]", "write '2' in quotes"),
        ("town != 'nort'", "did you mean 'north'?"),
        ("agee >= 3", "did you mean 'age'?"),
        ("age => 18", "write >="),
    ],
)
def test_text_without_a_meaning_is_rejected(survey, text, needle):
    with pytest.raises(QueryError) as error:
        parse(survey, text)
    assert needle in str(error.value)


# Names that are numbers, and arguments in the wrong order ----------------------------------------


def test_names_that_are_numbers(survey, tally):
    code = survey.attributes["code"]
    assert code == Categorical(["1", "2", "3"], epsilon=1, mechanism=code.mechanism)
    for same in (1, "1", np.int64(1), [1], ["1"]):
        assert tally.count({"code": same}) == tally.count({"code": "1"})
    assert code.position(3) == code.position("3") == 2
    assert Categorical([True, False], epsilon=1).categories == ("true", "false")
    levels = Ordinal([0, 10, 20], epsilon=1)
    assert levels.choose((10, None), "v").inside.tolist() == [False, True, True]
    people = {"v": [0, 20, 10]}
    assert Survey.design({"v": levels}).randomize(people).num_rows == 3
    for names, needle in (([1, "1"], "repeat '1'"), ([1.5, 2], "not 1.5; write '1.5'")):
        with pytest.raises(InvalidSpecError, match=needle):
            Categorical(names, epsilon=1)
    with pytest.raises(InvalidSpecError, match=r"the metric names 1.*; write '1'"):
        Categorical([1, 2], epsilon=1, metric=SensitiveSet([1]))


def test_arguments_in_the_wrong_order(survey, tally):
    for ask in (tally.count, lambda where: survey.expected_error(where, n=100)):
        for wrong in (survey, ("age", 18), [{"age": 3}]):
            with pytest.raises(QueryError, match=r"such as \{'age': between\(18, 29\)"):
                ask(wrong)
    for wrong in ({"age": (1, 2)}, {"age": [1, 2]}):
        with pytest.raises(
            InvalidReportError, match=r"randomize values first.*a condition belongs to a query"
        ):
            survey.tally(wrong)
    for ask in (tally.mean, tally.histogram, tally.sum, tally.cdf):
        with pytest.raises(QueryError, match="the attribute comes before where"):
            ask({"age": (1, 2)}, "age")
    with pytest.raises(QueryError, match=r"as in quantile\(attribute, 0.5\)"):
        tally.quantile(0.5, "age")
