"""Where-clauses put together, and the same question in every group: against the people."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metricldp.answers.where_text import parse_text

from checks import every_report_of
from metricldp import (
    Categorical,
    Coins,
    Continuous,
    Integer,
    QueryError,
    Real,
    Survey,
    all_of,
    any_of,
    none_of,
)
from metricldp.answers.answer_table import Grid
from metricldp.answers.conditions import Condition
from metricldp.answers.queries import parse, parse_all

TINY = Survey(
    {
        "a": Integer(0, 3, epsilon=1, mechanism="geometric"),
        "g": Categorical(["x", "y"], epsilon=1.2),
        "o": Integer(0, 2, epsilon=1.5, mechanism="response", optional=True),
    }
)
SIZES = {"a": 4, "g": 2, "o": 3}


def meets(where, person):
    """What a where-clause means, in plain words."""
    if isinstance(where, Condition):
        met = [meets(part, person) for part in where.parts]
        return {"all": all(met), "any": any(met), "none": not any(met)}[where.kind]
    return all(_is(meant, person[name]) for name, meant in where.items())


def _is(meant, value):
    if isinstance(meant, list):
        return any(_is(one, value) for one in meant)
    if isinstance(meant, tuple):
        low, high = meant
        return value is not None and (low or 0) <= value <= (9 if high is None else high)
    return value == meant


LEAVES = [
    {"a": (0, 1)},
    {"a": [(0, 0), (2, 3)]},
    {"a": [(None, 1), 3]},
    {"g": "x"},
    {"o": (1, 2)},
    {"o": None},
    {"a": (1, 2), "g": "y"},
    {"o": [0, 2], "g": "x"},
]
conditions = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.builds(
        lambda make, parts: make(*parts),
        st.sampled_from([any_of, all_of, none_of]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
PEOPLE = [
    {"a": a, "g": g, "o": o} for a, g, o in itertools.product(range(4), ("x", "y"), (None, 0, 1, 2))
]


def places(person):
    """The positions that a person has, with whether they answered."""
    found = {"a": person["a"], "g": "xy".index(person["g"]), "o": person["o"] or 0}
    return {**found, "o answered": int(person["o"] is not None)}


@given(conditions)
@settings(deadline=None)
def test_parts_exclude_each_other_and_make_the_whole(where):
    try:
        parts = parse_all(TINY, where)
    except QueryError as wrong:
        assert "exclude each other" in str(wrong) or "parts would take long" in str(wrong)
        assert "long" in str(wrong) or not any(meets(where, person) for person in PEOPLE)
        return
    for person in PEOPLE:
        at = places(person)
        inside = []
        for part in parts:
            values = []
            for name, function in part.functions.items():
                key = name if name in at else "o answered"
                if key == "o" and person["o"] is None:
                    continue  # its position says nothing; whether it was answered decides
                values.append(function[at[key]])
            inside.append(math.prod(values))
        assert sum(inside) == pytest.approx(float(meets(where, person))), (where, person)
        assert all(one in (0, 1) for one in inside)


FADING = Survey({"x": Real(0, 8, points=5, epsilon=1), "g": Categorical(["x", "y"], epsilon=1.2)})
real_leaves = [{"x": (1, 5)}, {"x": [(0, 2.5), (2.5, 4), (7, None)]}, {"x": (3, 6), "g": "x"}]
real_conditions = st.recursive(
    st.sampled_from([*real_leaves, {"g": "y"}, {"x": (None, 1)}]),
    lambda inner: st.builds(
        lambda make, parts: make(*parts),
        st.sampled_from([any_of, all_of, none_of]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
FINE = np.arange(0.125, 8, 0.25)
"""Values off all ends of the ranges above, as many in each half of a cell."""


@given(real_conditions)
@settings(deadline=None)
def test_ranges_of_real_values_are_put_together_before_they_fade(where):
    """A point counts for the part of its cell that meets the whole clause: no product of parts."""
    met = {
        g: np.array([meets(where, {"x": x, "g": g}) for x in FINE], dtype=float) for g in ("x", "y")
    }
    cells = np.round(FINE / 2).astype(int)
    try:
        parts = parse_all(FADING, where)
    except QueryError as wrong:
        assert "long" in str(wrong) or not any(inside.any() for inside in met.values())
        return
    for at, inside in enumerate(met.values()):
        truth = [inside[cells == k].mean() for k in range(5)]
        found = sum(
            part.functions.get("x", np.ones(5)) * part.functions.get("g", np.ones(2))[at]
            for part in parts
        )
        assert found == pytest.approx(truth), where


def test_a_real_range_with_itself_is_itself():
    people = {"x": np.linspace(0, 8, 400), "g": ["x", "y"] * 200}
    tally = FADING.tally(FADING.encode(people, coins=Coins.seeded(7)))
    range_ = {"x": (1, 5)}
    asked = tally.count(range_).value
    halves = {"x": (1, 2.5)}, {"x": (2.5, 5)}
    for same in (
        all_of(range_, range_),
        any_of(range_, range_),
        none_of(none_of(range_)),
        any_of(*halves),
        {"x": [(1, 2.5), (2.5, 5)]},
        all_of({"x": (None, 5)}, {"x": (1, None)}),
    ):
        assert tally.count(same).value == pytest.approx(asked), same
    assert tally.fraction(range_, of=range_).value == pytest.approx(1)
    one, other = (tally.fraction(half, of=range_).value for half in halves)
    assert one + other == pytest.approx(1)


@pytest.fixture(scope="module")
def enumerated():
    survey = Survey({name: TINY.attributes[name] for name in ("a", "g")})
    table, laws = every_report_of(survey)
    return [survey.tally(table.slice(k, 1)) for k in range(table.num_rows)], laws


@pytest.mark.parametrize(
    "where",
    [
        any_of({"a": (0, 1)}, {"g": "x"}),
        none_of({"a": (1, 2), "g": "y"}),
        any_of(all_of({"a": 0}, {"g": "y"}), none_of({"a": (0, 2)}, {"g": "y"})),
        {"a": [(0, 0), (2, 3)]},
    ],
)
def test_counts_are_unbiased_and_tell_their_variance(enumerated, where):
    tallies, laws = enumerated
    answers = [tally.count(where) for tally in tallies]
    values = np.array([answer.value for answer in answers])
    variances = np.array([answer.variance for answer in answers])
    people = [{"a": a, "g": g} for a in range(4) for g in "xy"]
    f = np.array([meets(where, person) for person in people], dtype=float)
    np.testing.assert_allclose(laws @ values, f, atol=1e-9)
    np.testing.assert_allclose(laws @ variances, laws @ values**2 - f**2, atol=1e-8)


SURVEY = Survey(
    {
        "a": Integer(0, 9, epsilon=2, mechanism="geometric"),
        "g": Categorical(["x", "y", "z"], epsilon=3),
        "h": Categorical(["p", "q"], epsilon=3),
        "r": Real(0, 10, points=6, epsilon=2),
        "c": Continuous(0, 10, bins=5, epsilon=2, mechanism="geometric"),
    }
)


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(0)
    g = random.choice(3, 4000, p=[0.5, 0.3, 0.2])
    return {
        "a": random.binomial(9, 0.3 + 0.15 * g),
        "g": np.array(["x", "y", "z"])[g],
        "h": np.array(["p", "q"])[random.integers(0, 2, 4000)],
        "r": random.uniform(0, 10, 4000),
        "c": random.uniform(0, 10, 4000),
    }


@pytest.fixture(scope="module")
def tally(people):
    return SURVEY.tally(SURVEY.encode(people, coins=Coins.seeded(1)))


def near(answer, truth):
    """Within six standard errors: once in 500 million by chance."""
    return abs(answer.value - truth) <= 6 * answer.stderr


def test_sums_means_shares_and_histograms_of_parts(tally, people):
    where = any_of({"a": (0, 3)}, {"g": "x"})
    inside = (people["a"] <= 3) | (people["g"] == "x")
    assert near(tally.count(where), inside.sum())
    assert near(tally.sum("r", where), people["r"][inside].sum())
    assert near(tally.mean("a", where), people["a"][inside].mean())
    assert near(tally.mean("r", where), people["r"][inside].mean())
    assert near(tally.fraction({"h": "p"}, of=where), np.mean(people["h"][inside] == "p"))
    bars = tally.histogram("h", where)
    for label, bar in zip("pq", bars, strict=True):
        assert near(bar, np.sum(people["h"][inside] == label))
    assert bars.values.sum() == pytest.approx(tally.count(where).value)
    both = tally.counts([where, {"g": "x"}, none_of(where)])
    assert both[0].value + both[2].value == pytest.approx(tally.n)
    assert both.labels[2] == "not (a 0 to 3 or g x)"
    with pytest.raises(QueryError, match="asked in 2 parts"):
        tally.quantile("c", 0.5, where)
    assert (
        tally.quantile("c", 0.5, none_of({"g": "x"})).value
        == tally.quantile("c", 0.5, {"g": ["y", "z"]}).value
    )


def test_a_share_within_a_group(tally, people):
    share = tally.fraction({"a": (0, 3)}, of={"g": "x"})
    inside = people["g"] == "x"
    assert near(share, np.mean(people["a"][inside] <= 3))
    assert share.question == "a 0 to 3 among g x"
    assert share.unit == "of the group"
    low, high = share.interval()
    assert 0 <= low <= share.value <= high <= 1
    everybody = tally.fraction({"a": (0, 3)}, of={})
    assert everybody.value == pytest.approx(tally.fraction({"a": (0, 3)}).value)


def test_by_one_attribute(tally, people):
    counts = tally.count({"h": "p"}, by="g")
    assert counts.attribute == "g" and list(counts.labels) == ["x", "y", "z"]
    for label, answer in zip("xyz", counts, strict=True):
        single = tally.count({"h": "p", "g": label})
        assert answer == single
    means = tally.mean("a", by="g")
    sums = tally.sum("a", any_of({"h": "p"}, {"c": (0, 4)}), by="g")
    shares = tally.fraction({"a": (0, 3)}, by="g")
    for k, label in enumerate("xyz"):
        inside = people["g"] == label
        assert near(means[k], people["a"][inside].mean())
        assert near(shares[label], np.mean(people["a"][inside] <= 3))
        held = inside & ((people["h"] == "p") | (people["c"] < 4))
        assert near(sums[k], people["a"][held].sum())
    wide = tally.count(by={"a": 5})
    assert list(wide.labels) == ["0 to 4", "5 to 9"]
    assert list(means.to_pandas().columns) == ["g", "value", "stderr", "low", "high"]
    assert (means["z"] - means["x"]).p_value() < 1e-6


def test_by_two_attributes(tally, people):
    found = tally.count(by=["g", "h"])
    assert isinstance(found, Grid) and found.shape == (3, 2)
    for (g, h), answer in zip(itertools.product("xyz", "pq"), found, strict=True):
        assert near(answer, np.sum((people["g"] == g) & (people["h"] == h)))
    assert found.values.sum() == pytest.approx(tally.n)
    frame = found.to_polars()
    assert frame.columns[:2] == ["g", "h"] and len(frame) == 6
    assert "<table>" in found._repr_html_()
    assert found.to_dict()["answers"][0]["label"] == "g x, h p"
    means = tally.mean("a", by={"h": None, "c": 4})
    assert isinstance(means, Grid) and means.shape[0] == 2
    bars = tally.histogram("a", by="h", width=5)
    assert bars.rows == ("p", "q") and bars.columns == ("0 to 4", "5 to 9")


def test_quantiles_by(tally, people):
    found = tally.quantile("c", 0.5, by="h")
    for label, one in zip("pq", found, strict=True):
        assert one.value == tally.quantile("c", 0.5, {"h": label}).value
    assert list(found.to_pandas().columns) == ["h", "value", "low", "high"]
    assert "p" in found.text() and found.to_dict()["answers"][1]["label"] == "q"
    low, high = found.interval()
    wide = found.interval(simultaneous=True)
    assert (wide[0] <= low).all() and (high <= wide[1]).all()
    assert "<table" in found.to_html()
    with pytest.raises(QueryError, match="no standard error"):
        found.stderr  # noqa: B018


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda t: t.count({"g": "x"}, by="g"), "leave it out of where"),
        (lambda t: t.mean("a", by="a"), "asked about"),
        (lambda t: t.count(by=["g", "h", "a"]), "an attribute or two"),
        (lambda t: t.count(by=3), "an attribute or two"),
        (lambda t: t.count(by=["g", "g"]), "twice"),
        (lambda t: t.count(by="nothing"), "no attribute"),
        (lambda t: t.fraction(by="g"), "say which"),
        (lambda t: t.histogram("a", by=["g", "h"]), "one other attribute"),
        (lambda t: t.quantile("c", 0.5, by={"g": None, "h": None}), "one other attribute"),
        (lambda t: t.count(any_of()), "at least one"),
        (lambda t: t.count(any_of("g=x")), "where-clauses such as"),
        (lambda t: t.count(all_of({"g": "x"}, {"g": "y"})), "exclude each other"),
        (lambda t: t.fit(["a"]).count({"a": 1}) - t.fit(["a"]).count({"a": 2}), "not known"),
    ],
)
def test_what_is_refused(tally, ask, said):
    with pytest.raises(QueryError, match=said):
        ask(tally)


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["a=0..3", "g=x"], {"a": (0, 3), "g": "x"}),
        (["a=0..3", "or", "g=x"], any_of({"a": (0, 3)}, {"g": "x"})),
        (["a=0..3 or g=x"], any_of({"a": (0, 3)}, {"g": "x"})),
        (["not", "g=x"], none_of({"g": "x"})),
        (["not not g=x"], none_of(none_of({"g": "x"}))),
        (["NOT (a=0..3 AND g=x)"], none_of({"a": (0, 3), "g": "x"})),
        (
            ["(a=0..3 or h=p) and not g=x"],
            all_of(any_of({"a": (0, 3)}, {"h": "p"}), none_of({"g": "x"})),
        ),
        (["a>=7", "or", "a<2"], any_of({"a": (7, None)}, {"a": (None, 1)})),
        (["a>=7 or a<2", "g=x"], all_of({"g": "x"}, any_of({"a": (7, None)}, {"a": (None, 1)}))),
        (["g=x", "a>=7 or a<2"], all_of({"g": "x"}, any_of({"a": (7, None)}, {"a": (None, 1)}))),
        (["g=x", "not a>=7"], all_of({"g": "x"}, none_of({"a": (7, None)}))),
        (["g=x", "or a>=7"], any_of({"g": "x"}, {"a": (7, None)})),
        (["a=0..1,7..,5"], {"a": [(0, 1), (7, None), 5]}),
    ],
)
def test_words_of_the_command_line(words, where):
    found = parse_text(SURVEY, words)
    if isinstance(where, Condition):
        assert found == where or parse_all(SURVEY, found) == parse_all(SURVEY, where)
    else:
        assert {**found} == where or parse(SURVEY, found).words == parse(SURVEY, where).words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a=0..3", "or"], "missing"),
        (["or", "a=0..3"], "missing"),
        (["not"], "stands before"),
        (["(", "a=0..3"], "not closed"),
        (["a=0..3", ")"], "behind its end"),
    ],
)
def test_words_that_are_no_where_clause(words, said):
    with pytest.raises(QueryError, match=said):
        parse_text(SURVEY, words)


def test_names_with_operators_in_them():
    odd = Survey({"town": Categorical(["Sand or Sea", "not here", "(old)"], epsilon=1)})
    assert {**parse_text(odd, ["town=Sand or Sea"])}["town"] in ("Sand or Sea", ["Sand or Sea"])
    assert {**parse_text(odd, ["town=(old)"])}["town"] in ("(old)", ["(old)"])
