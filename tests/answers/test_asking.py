"""The words of questions: widths in an attribute's units, rings, signs, names that are numbers."""

from __future__ import annotations

import numpy as np
import pytest
from metricldp.answers.where_text import parse_text

from metricldp import (
    Categorical,
    Coins,
    Continuous,
    Graph,
    Integer,
    Ordinal,
    QueryError,
    Real,
    ReportRefused,
    SensitiveSet,
    Survey,
    SurveyError,
    Table,
)
from metricldp.answers.queries import parse

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
MECHANISMS = ["response", "unary", "geometric", "threshold", "matrix"]


def ring(values):
    return Graph([(x, values[place - len(values) + 1]) for place, x in enumerate(values)])


def hours(**more):
    return Integer(0, 23, epsilon=12, metric=ring(range(24)), **more)


@pytest.fixture(scope="module")
def survey():
    return Survey(
        {
            "age": Integer(0, 99, epsilon=1),
            "income": Continuous(0, 200_000, bins=100, epsilon=1, per=2000),
            "speed": Real(0, 10, points=11, epsilon=1),
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
    return survey.tally(survey.encode(people, coins=Coins.seeded(1)))


# Widths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "width", "labels", "note"),
    [
        ("income", 50_000, 4, None),
        (
            "income",
            np.float64(70_000),
            ["0 to 70,000", "70,000 to 140,000", "140,000 to 200,000"],
            None,
        ),
        ("income", 2000, 100, None),
        ("income", 10**9, ["0 to 200,000"], "one bar of everybody: income goes 0 to 200,000"),
        ("age", 25, ["0 to 24", "25 to 49", "50 to 74", "75 to 99"], None),
        ("age", 33.3, 4, "bars of 33, not 33.3: age has steps of 1"),
        ("speed", 4, ["0 to 4", "4 to 8", "8 to 10"], "bars of speed fade into each other"),
        ("speed", 2.5, ["0 to 2.5", "2.5 to 5", "5 to 7.5", "7.5 to 10"], "over its steps of 1"),
        ("speed", 1e40, ["0 to 10"], "one bar of everybody: speed goes 0 to 10"),
        ("mood", 2, ["bad to fair", "good"], None),
        ("mood", None, 3, None),
    ],
)
def test_widths_are_in_units_of_the_attribute(tally, name, width, labels, note):
    bars = tally.histogram(name, {"town": "north"}, width=width)
    assert len(bars) == labels if isinstance(labels, int) else list(bars.labels) == labels
    notes = bars.shared_notes()
    assert [text for text in notes if note and note in text] or (note is None and not notes)
    whole = tally.count({"town": "north"})
    assert sum(bars.values) == pytest.approx(whole.value)


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


def test_bars_are_the_counts_of_their_ranges(tally):
    for name, width in (("income", 50_000), ("age", 25), ("speed", 2.5)):
        bars, step = tally.histogram(name, width=width), 1 if name == "age" else 0
        for place, bar in enumerate(bars):
            low, high = place * width, (place + 1) * width - step
            assert bar.value == pytest.approx(tally.count({name: (low, high)}).value)


@pytest.mark.parametrize("width", [0, -1, 1999, True, "wide", float("nan")])
def test_widths_that_are_none(tally, width):
    with pytest.raises(QueryError, match="a bar of income"):
        tally.histogram("income", width=width)
    with pytest.raises(QueryError, match="town has no order"):
        tally.histogram("town", width=2)


def test_a_bar_says_its_whole_question(tally):
    bars = tally.histogram("age", {"town": "north", "hour": (22, 2)}, width=50)
    assert [bar.question for bar in bars] == [
        "age 0 to 49 among town north, hour 22 to 2",
        "age 50 to 99 among town north, hour 22 to 2",
    ]
    assert [row["question"] for row in bars.to_dict()["answers"]] == [b.question for b in bars]
    assert tally.histogram("town")[0].question == "town north"
    rows = tally.linear("mood", "values", {"town": "north"})
    assert rows.to_dict()["answers"][2]["question"] == "mood good among town north"


# Rings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_ranges_go_over_the_end_of_a_ring(mechanism):
    """The same as the list of values, in every question."""
    survey = Survey({"hour": hours(mechanism=mechanism), "age": Integer(0, 9, epsilon=9)})
    rng = np.random.default_rng(1)
    people = {"hour": rng.integers(20, 28, 4000) % 24, "age": rng.integers(0, 10, 4000)}
    tally = survey.tally(survey.encode(people, coins=Coins.seeded(1)))
    for pair, values in {(22, 2): [22, 23, 0, 1, 2], (23, 0): [0, 23], (1, 0): range(24)}.items():
        one, other = {"hour": pair}, {"hour": list(values)}
        assert parse_text(survey, [f"hour={pair[0]}..{pair[1]}"]) == one
        for ask in (tally.count, tally.fraction):
            assert ask(one).value == pytest.approx(ask(other).value)
            assert ask(one).variance == pytest.approx(ask(other).variance)
        assert survey.predict(one, 100) == pytest.approx(survey.predict(other, 100))
        if mechanism in ("response", "unary"):
            assert tally.mean("age", one).value == pytest.approx(tally.mean("age", other).value)
            assert str(tally.quantile("age", 0.5, one)) == str(tally.quantile("age", 0.5, other))
            assert tally.histogram("age", one).values == pytest.approx(
                tally.histogram("age", other).values
            )
    night = tally.count({"hour": (22, 2)})
    assert night.question == "hour 22 to 2"
    truth = np.isin(people["hour"], [22, 23, 0, 1, 2]).sum()
    assert abs(night.value - truth) < 6 * survey.predict({"hour": (22, 2)}, 4000)


def test_which_attributes_go_round():
    week = Ordinal(DAYS, epsilon=1, metric=ring(DAYS))
    assert week.is_cyclic
    assert np.flatnonzero(week.choose(("sat", "mon"), "day").inside).tolist() == [0, 5, 6]
    assert week.choose(("tue", "mon"), "day").whole
    far = [[min(abs(x - y), 5 - abs(x - y)) for y in range(5)] for x in range(5)]
    assert Integer(0, 4, epsilon=1, metric=Table(far)).is_cyclic
    chord = Graph([*ring(range(6)).edges, (0, 3)])
    for other in (
        Integer(0, 23, epsilon=1),
        Ordinal(DAYS, epsilon=1),
        Ordinal(DAYS, epsilon=1, metric=SensitiveSet(["mon"])),
        Integer(0, 5, epsilon=1, metric=chord),
        Integer(0, 2, epsilon=1, metric=ring(range(3))),
        Categorical(DAYS, epsilon=1, metric=ring(DAYS)),
        Continuous(0, 24, bins=24, epsilon=1),
    ):
        assert not other.is_cyclic


@pytest.mark.parametrize(
    ("where", "needle"),
    [
        (
            {"age": (30, 20)},
            "age 30 to 20 is an empty range: its ends are swapped; ask for 20 to 30, or make age "
            "cyclic in the survey if its ranges should wrap around; here it is not",
        ),
        ({"income": (9e4, 1e4)}, "its ends are swapped; ask for 10,000 to 90,000$"),
        ({"speed": (3, 2)}, "its ends are swapped; ask for 2 to 3$"),
        (
            {"mood": ("good", "bad")},
            "mood good to bad is an empty range: its ends are swapped; ask for bad to good, or "
            "make mood cyclic in the survey",
        ),
        ({"hour": (30, -1)}, "hour 30 to -1 is an empty range; hour goes from 0 to 23"),
        ({"hour": (2.1, 2.9)}, "hour 2.1 to 2.9 is an empty range"),
    ],
    ids=str,
)
def test_reversed_ranges_elsewhere(tally, where, needle):
    with pytest.raises(QueryError) as wrong:
        tally.count(where)
    assert needle in f"{wrong.value}$"


# Signs -------------------------------------------------------------------------------------------

SIGNS = [
    ("age>=18", {"age": (18, None)}),
    ("age > 18", {"age": (19, None)}),
    ("age>18.5", {"age": (19, None)}),
    ("age<30", {"age": (None, 29)}),
    ("age≤30", {"age": (None, 30)}),
    ("age==5", {"age": 5}),
    ("18<=age<=30", {"age": (18, 30)}),
    (" 18 < age < 30 ", {"age": (19, 29)}),
    ("30>=age>18", {"age": (19, 30)}),
    ("18<=age", {"age": (18, None)}),
    ("income<3e4", {"income": (None, 30_000)}),
    ("speed>2", {"speed": (2, None)}),
    ("mood>=fair", {"mood": ("fair", None)}),
    ("mood>fair", {"mood": ("good", None)}),
    ("bad<=mood<good", {"mood": ("bad", "fair")}),
    ("town!=north", {"town": ["south", "far, far"]}),
    ("town==far, far", {"town": ["far, far"]}),
    ("code=1", {"code": "1"}),
    ("code!=2", {"code": ["1", "3"]}),
]


@pytest.mark.parametrize(("word", "where"), SIGNS, ids=lambda v: str(v)[:30])
def test_conditions_with_signs(survey, word, where):
    found = parse(survey, parse_text(survey, [word]))
    asked = parse(survey, where)
    for name, function in asked.functions.items():
        assert (found.functions[name] == function).all()
    assert found.functions.keys() == asked.functions.keys()


def test_two_signs_make_a_range(survey):
    assert parse_text(survey, ["age>=18", "age<30"]) == {"age": (18, 29)}
    assert parse_text(survey, ["age=..30", "age>20"]) == {"age": (21, 30)}


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (
            ["age!=3"],
            "not all but '3'; ask for everybody, and for that value, and take the difference",
        ),
        (["18<=age>=3"], "is not a range"),
        (["18<age<19"], "no age is both from 19 and up to 18"),
        (["hour>=22", "hour<=2"], "over the end it is hour=22..2"),
        (["mood>good"], "mood has nothing > 'good'"),
        (["town>=north"], "town has no order, so nothing is >= 'north'; name values"),
        (["age=>18"], "age takes >= and not =>, as in age>=5"),
        (["age>=x"], "finite numbers, not 'x'"),
        (["agee>=3"], "did you mean 'age'?"),
        (["town!=nort"], "did you mean 'north'?"),
        (["age>=3", "age>=5"], "age is asked for twice"),
        (["age=3", "age<5"], "age is asked for twice"),
        (["age"], "write age=0..99 or income=0..200000; in a shell, < and > need quotes"),
        (["age=1, town=north"], "several conditions; give each as a word of its own"),
    ],
    ids=str,
)
def test_signs_that_mean_nothing(survey, words, needle):
    with pytest.raises(QueryError) as wrong:
        parse(survey, parse_text(survey, words))
    assert needle in str(wrong.value)


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
    assert Survey({"v": levels}).encode(people).num_rows == 3
    for names, needle in (([1, "1"], "repeat '1'"), ([1.5, 2], "not 1.5; write '1.5'")):
        with pytest.raises(SurveyError, match=needle):
            Categorical(names, epsilon=1)
    with pytest.raises(SurveyError, match=r"the metric names 1.*; write '1'"):
        Categorical([1, 2], epsilon=1, metric=SensitiveSet([1]))


def test_arguments_in_the_wrong_order(survey, tally):
    for ask in (tally.count, survey.predict):
        for wrong in (survey, "age>=18", [{"age": 3}]):
            with pytest.raises(QueryError, match=r"such as \{'age': \(18, 29\)"):
                ask(wrong)
    for wrong in ({"age": (1, 2)}, {"age": [1, 2]}):
        with pytest.raises(ReportRefused, match=r"encoded first.*asked of the tally"):
            survey.tally(wrong)
    for ask in (tally.mean, tally.histogram, tally.sum, tally.cdf):
        with pytest.raises(QueryError, match="the attribute comes before where"):
            ask({"age": (1, 2)}, "age")
    with pytest.raises(QueryError, match=r"as in quantile\(attribute, 0.5\)"):
        tally.quantile(0.5, "age")
