"""Where-clauses put together, and the same question in every group: against the people."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import every_report_of
from metricldp import Categorical, Continuous, Integer, QueryError, Randomness, Survey
from metricldp.answers.conditions import Condition, all_of, any_of, none_of
from metricldp.answers.queries import parse, parse_all

TINY = Survey.design(
    {
        "a": Integer(0, 3, epsilon=1, mechanism="geometric", per=1),
        "g": Categorical(["x", "y"], epsilon=1.2),
        "o": Integer(0, 2, epsilon=1.5, mechanism="randomized-response", optional=True, per=1),
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


FADING = Survey.design(
    {
        "x": Continuous(0, 8, points=5, epsilon=1, rounding="stochastic", per=1),
        "g": Categorical(["x", "y"], epsilon=1.2),
    }
)
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
    tally = FADING.tally(FADING.randomize(people, randomness=Randomness.seeded(7)))
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
    assert tally.fraction(range_, among=range_).value == pytest.approx(1)
    one, other = (tally.fraction(half, among=range_).value for half in halves)
    assert one + other == pytest.approx(1)


@pytest.fixture(scope="module")
def enumerated():
    survey = Survey.design({name: TINY.attributes[name] for name in ("a", "g")})
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


SURVEY = Survey.design(
    {
        "a": Integer(0, 9, epsilon=2, mechanism="geometric", per=1),
        "g": Categorical(["x", "y", "z"], epsilon=3),
        "h": Categorical(["p", "q"], epsilon=3),
        "r": Continuous(0, 10, points=6, epsilon=2, rounding="stochastic", per=1),
        "c": Continuous(0, 10, bins=5, epsilon=2, mechanism="geometric", per=1),
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
    return SURVEY.tally(SURVEY.randomize(people, randomness=Randomness.seeded(1)))


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
    assert near(tally.fraction({"h": "p"}, among=where), np.mean(people["h"][inside] == "p"))
    bars = tally.histogram("h", where)
    for label, bar in bars:
        assert near(bar, np.sum(people["h"][inside] == label))
    assert bars.values.sum() == pytest.approx(tally.count(where).value)
    both = tally.counts([where, {"g": "x"}, none_of(where)])
    assert both.values[0] + both.values[2] == pytest.approx(tally.n)
    assert both.labels[2] == "not (a 0 to 3 or g x)"
    with pytest.raises(QueryError, match="a union of 2 parts"):
        tally.quantile("c", 0.5, where)
    assert (
        tally.quantile("c", 0.5, none_of({"g": "x"})).value
        == tally.quantile("c", 0.5, {"g": ["y", "z"]}).value
    )


def test_a_share_within_a_group(tally, people):
    share = tally.fraction({"a": (0, 3)}, among={"g": "x"})
    inside = people["g"] == "x"
    assert near(share, np.mean(people["a"][inside] <= 3))
    assert share.question == "a 0 to 3 among g x"
    assert share.unit == "of the group"
    low, high = share.confidence_interval()
    assert 0 <= low <= share.value <= high <= 1
    everybody = tally.fraction({"a": (0, 3)}, among={})
    assert everybody.value == pytest.approx(tally.fraction({"a": (0, 3)}).value)


def test_by_one_attribute(tally, people):
    counts = tally.count({"h": "p"}, by="g")
    assert counts.labels == ["x", "y", "z"]
    for label, answer in counts:
        assert answer == tally.count({"h": "p", "g": label})
    means = tally.mean("a", by="g")
    sums = tally.sum("a", any_of({"h": "p"}, {"c": (0, 4)}), by="g")
    shares = tally.fraction({"a": (0, 3)}, by="g")
    for label in "xyz":
        inside = people["g"] == label
        assert near(means[label], people["a"][inside].mean())
        assert near(shares[label], np.mean(people["a"][inside] <= 3))
        held = inside & ((people["h"] == "p") | (people["c"] < 4))
        assert near(sums[label], people["a"][held].sum())
    assert tally.count(by={"a": [0, 5, 10]}).labels == [(0, 5), (5, 10)]
    assert (means["z"] - means["x"]).pvalue() < 1e-6


def test_by_two_attributes(tally, people):
    found = tally.count(by=["g", "h"])
    assert found.labels == list(itertools.product("xyz", "pq"))
    for (g, h), answer in found:
        assert near(answer, np.sum((people["g"] == g) & (people["h"] == h)))
    assert found.values.sum() == pytest.approx(tally.n)
    means = tally.mean("a", by={"h": None, "c": [0, 4, 10]})
    assert means.labels == list(itertools.product("pq", [(0, 4), (4, 10)]))
    for (h, (low, high)), mean in means:
        inside = (people["h"] == h) & (low <= people["c"]) & (people["c"] < high)
        assert near(mean, people["a"][inside].mean())


def test_quantiles_by(tally, people):
    found = tally.quantile("c", 0.5, by="h")
    for label, one in found:
        assert one.value == tally.quantile("c", 0.5, {"h": label}).value
    low, high = found.confidence_interval()
    wide = found.confidence_interval(simultaneous=True)
    assert (wide[0] <= low).all() and (high <= wide[1]).all()
    assert np.isnan(found.stderr).all()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda t: t.count({"g": "x"}, by="g"), "remove it from the condition"),
        (lambda t: t.mean("a", by="a"), "group by another one"),
        (lambda t: t.count(by=["g", "h", "a"]), "an attribute or two"),
        (lambda t: t.count(by=3), "an attribute or two"),
        (lambda t: t.count(by=["g", "g"]), "twice"),
        (lambda t: t.count(by="nothing"), "no attribute"),
        (lambda t: t.fraction(by="g"), "needs a condition"),
        (lambda t: t.count(any_of()), "at least one"),
        (lambda t: t.count(any_of(3)), "where-clauses such as"),
        (lambda t: t.count(all_of({"g": "x"}, {"g": "y"})), "exclude each other"),
        (
            lambda t: (
                t.fit_distribution(["a"]).count({"a": 1})
                - t.fit_distribution(["a"]).count({"a": 2})
            ),
            "not known",
        ),
    ],
)
def test_what_is_refused(tally, ask, said):
    with pytest.raises(QueryError, match=said):
        ask(tally)


def test_texts_are_combined_like_dictionaries():
    one, other = (
        any_of("0 <= a <= 3", none_of("g == 'x'")),
        any_of({"a": (0, 3)}, none_of({"g": "x"})),
    )
    for text, expected in zip(parse_all(SURVEY, one), parse_all(SURVEY, other), strict=True):
        assert text.words == expected.words
        assert text.functions.keys() == expected.functions.keys()
        for name, function in text.functions.items():
            assert np.array_equal(function, expected.functions[name])


@pytest.mark.parametrize("town", ["Sand or Sea", "not here", "(old)"])
def test_categories_may_contain_words_and_signs_of_conditions(town):
    survey = Survey.design({"town": Categorical(["Sand or Sea", "not here", "(old)"], epsilon=1)})
    queries = parse(survey, f"town == '{town}'"), parse(survey, {"town": town})
    assert np.array_equal(*(query.functions["town"] for query in queries))
