"""Conditions as texts: what they select, what is rejected, and where errors point."""

import itertools
import operator
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metricldp as mldp
from metricldp import Categorical, Continuous, Integer, Ordinal, QueryError, Survey, Weight
from metricldp.answers.conditions import attributes_in
from metricldp.answers.queries import parse, parse_all
from metricldp.attributes.answered import response_of
from metricldp.estimate.source import MAX_LENGTH, Source

SURVEY = Survey.design(
    {
        "age": Integer(0, 3, epsilon=1, optional=True, per=1),
        "income": Continuous(0, 30, bins=3, epsilon=1, per=10, optional=True),
        "region": Categorical(["north", "south", "it's"], epsilon=1),
        "mood": Ordinal(["bad", "fair", "good"], epsilon=1, optional=True),
        "net größe": Integer(-1, 1, epsilon=1, per=1),
        "hour": Integer(0, 4, epsilon=1, cyclic=True, per=1),
        "height": Continuous(0, 2, points=3, epsilon=3, rounding="stochastic", per=1),
        "w": Weight(0, 2),
        "class": Integer(0, 1, epsilon=1, per=1),
    }
)
DOMAINS = {
    "age": [None, 0, 1, 2, 3],
    "income": [None, 5, 15, 25],
    "mood": [None, "bad", "fair", "good"],
    "region": ["north", "south", "it's"],
}
LEVELS = {"bad": 0, "fair": 1, "good": 2}
OPERATORS = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    **{"==": operator.eq, "!=": operator.ne},
}


def weight(queries, respondent):
    """Return how often queries count a respondent: 0 or 1 if they are disjoint."""
    total = 0.0
    for query in queries:
        inside = 1.0
        for name, function in query.functions.items():
            source = SURVEY.attributes[name].source(name)
            attribute, value = SURVEY.attributes[source], respondent[source]
            if name != source:
                inside *= function[int(value is not None)]
            elif value is None:
                inside *= function[attribute.size // 2]
            else:
                inside *= function[attribute.position(value)]
        total += inside
    return total


def selected(text, names=("age", "income", "region")):
    """Return the responses that a condition selects, of all combinations."""
    queries = parse_all(SURVEY, text)
    people = [dict(zip(names, p, strict=True)) for p in itertools.product(*map(DOMAINS.get, names))]
    weights = [weight(queries, person) for person in people]
    assert set(weights) <= {0.0, 1.0}
    return [tuple(p.values()) for p, w in zip(people, weights, strict=True) if w]


def truth(tree, person):
    """Return True, False or None (unknown) for a formula and a respondent."""
    kind, *rest = tree
    if kind == "not":
        value = truth(rest[0], person)
        return None if value is None else not value
    if kind in ("and", "or"):
        values = [truth(part, person) for part in rest]
        decisive = kind == "or"
        return decisive if decisive in values else None if None in values else not decisive
    name, symbol, value = rest
    response = person[name]
    if symbol in ("is None", "is not None"):
        return (response is None) == (symbol == "is None")
    if response is None:
        return None
    if symbol in ("in", "not in"):
        return (response in value) == (symbol == "in")
    if name == "mood":
        response, value = LEVELS[response], LEVELS[value]
    return OPERATORS[symbol](response, value)


def written(tree):
    """Return a formula as text."""
    kind, *rest = tree
    if kind == "not":
        return f"not ({written(rest[0])})"
    if kind in ("and", "or"):
        return f" {kind} ".join(f"({written(part)})" for part in rest)
    name, symbol, value = rest
    return f"{name} {symbol}" if value is None else f"{name} {symbol} {value!r}"


def comparisons():
    """Return comparisons that hold for some value and that do not cut bins."""
    cases = [("age", s, v) for s in OPERATORS for v in range(4)]
    cases += [("mood", s, v) for s in OPERATORS for v in LEVELS]
    impossible = [("age", "<", 0), ("age", ">", 3), ("mood", "<", "bad"), ("mood", ">", "good")]
    cases = [case for case in cases if case not in impossible]
    cases += [("income", s, v) for s in ("<", ">=", "<=", ">") for v in (10, 20)]
    cases += [("region", s, v) for s in ("==", "!=") for v in DOMAINS["region"]]
    cases += [("region", s, ["north", "it's"]) for s in ("in", "not in")]
    cases += [("age", s, [0, 3]) for s in ("in", "not in")]
    cases += [(n, s, None) for n in ("age", "income", "mood") for s in ("is None", "is not None")]
    return st.sampled_from(cases).map(lambda case: ("compare", *case))


FORMULAS = st.recursive(
    comparisons(),
    lambda part: st.one_of(
        st.tuples(st.just("not"), part),
        st.tuples(st.sampled_from(["and", "or"]), part, part),
        st.tuples(st.sampled_from(["and", "or"]), part, part, part),
    ),
    max_leaves=6,
)
PEOPLE = [dict(zip(DOMAINS, p, strict=True)) for p in itertools.product(*DOMAINS.values())]


@settings(deadline=None, max_examples=300)
@given(FORMULAS)
def test_random_formulas_select_as_three_valued_logic_does(tree):
    expected = [float(truth(tree, person) is True) for person in PEOPLE]
    try:
        queries = parse_all(SURVEY, written(tree))
    except QueryError as error:
        assert not any(expected), error
        assert "exclude each other" in str(error) or "is in this range" in str(error)
        return
    assert [weight(queries, person) for person in PEOPLE] == expected


def test_negated_comparison_selects_only_those_who_responded():
    ages = {age for age, _, _ in selected("not age > 1")}
    assert ages == {0, 1}
    assert {age for age, _, _ in selected("age is None")} == {None}
    assert {age for age, _, _ in selected("not age is None")} == {0, 1, 2, 3}
    assert {age for age, _, _ in selected("age > 1 or age is None")} == {None, 2, 3}


def test_alternative_of_other_attribute_includes_missing_responses():
    assert (None, 5, "north") in selected("age > 1 or region == 'north'")
    assert (None, 5, "south") not in selected("age > 1 or region == 'north'")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("1 <= age <= 2", {"age": (1, 2)}),
        ("1 <= age and age <= 2", {"age": (1, 2)}),
        ("2 >= age >= 1", {"age": (1, 2)}),
        ("0 < age < 3", {"age": (1, 2)}),
        ("0.5 < age", {"age": (1, None)}),
        ("age == 1", {"age": 1}),
        ("1 == age", {"age": 1}),
        ("age == 1.0", {"age": 1}),
        ("age in [1, 3]", {"age": [1, 3]}),
        ("age in (1, 3)", {"age": [1, 3]}),
        ("age >= -5", {"age": (-5, None)}),
        ("age <= 50_000", {"age": (None, 50_000)}),
        ("age < 1e1", {"age": (None, 9)}),
        ("10 <= income < 20", {"income": (10, 20)}),
        ("income > 10", {"income": (10, None)}),
        ("height <= 1.5", {"height": (None, 1.5)}),
        ("region == 'north'", {"region": "north"}),
        ('region == "it\'s"', {"region": "it's"}),
        (r"region == 'it\'s'", {"region": "it's"}),
        ("region in ['north', 'south']", {"region": ["north", "south"]}),
        ("mood >= 'fair'", {"mood": ("fair", None)}),
        ("mood < 'good'", {"mood": (None, "fair")}),
        ("'fair' <= mood <= 'good'", {"mood": ("fair", "good")}),
        ("`net größe` > -1", {"net größe": (0, None)}),
        ("`net größe` == -1 and `age` == 1", {"net größe": -1, "age": 1}),
        ("`class` == 1", {"class": 1}),
        ("`class` == True", {"class": 1}),
        ("age is None", {"age": None}),
        ("  age == 1\n and\tregion == 'north' ", {"age": 1, "region": "north"}),
        (
            "age == 1 and (region == 'north' and hour == 2)",
            {"age": 1, "region": "north", "hour": 2},
        ),
    ],
)
def test_text_selects_as_dictionary_does(text, where):
    one, other = parse(SURVEY, text), parse(SURVEY, where)
    assert one.functions.keys() == other.functions.keys()
    for name, function in one.functions.items():
        assert np.array_equal(function, other.functions[name])
    edges = ("bins of income include their lower edge, so 10 is included",)
    assert one.notes == (*other.notes, *(edges if text == "income > 10" else ()))
    assert set(attributes_in(text)) == set(where)


def test_words_of_a_conjunction_are_those_of_the_dictionary():
    text = "1 <= age <= 2 and region == 'north'"
    assert parse(SURVEY, text).words == parse(SURVEY, {"age": (1, 2), "region": "north"}).words


def test_cyclic_range_is_a_union_in_one_query():
    query = parse(SURVEY, "hour >= 3 or hour <= 0")
    assert query.functions["hour"].tolist() == [1, 0, 0, 1, 1]
    with pytest.raises(QueryError, match="around the circle it is hour >= 3 or hour <= 0"):
        parse(SURVEY, "3 <= hour <= 0")


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("height <= 0.75 or height > 0.75", [(None, None)]),
        ("0.25 <= height <= 1 or 1 <= height < 1.5", [(0.25, 1.5)]),
        ("not height > 0.6", [(None, 0.6)]),
        ("height <= 1.2 and 0.3 <= height", [(0.3, 1.2)]),
        ("not 0.3 < height < 1.2", [(None, 0.3), (1.2, None)]),
    ],
)
def test_ranges_are_joined_before_positions_are_weighted(text, ranges):
    expected = sum(
        parse(SURVEY, {"height": ends}).functions.get("height", np.ones(3)) for ends in ranges
    )
    query = parse(SURVEY, text)
    assert query.functions.get("height", np.ones(3)) == pytest.approx(expected)


def test_range_with_two_ends_has_one_note():
    (query,) = parse_all(SURVEY, "0.4 <= height <= 1.2")
    assert query.notes == parse(SURVEY, {"height": (0.4, 1.2)}).notes
    assert len(query.notes) == 1


def test_query_about_an_optional_attribute_is_about_those_who_responded():
    queries = parse_all(SURVEY, "region == 'north' or age == 1", "income")
    assert all(response_of("income") in query.functions for query in queries)
    with pytest.raises(QueryError, match="exclude each other"):
        parse_all(SURVEY, "income is None", "income")


ERRORS = [
    ("agee > 1", 0, "no attribute 'agee'", "did you mean 'age'?"),
    ("age > 1 and agee > 1", 12, "no attribute 'agee'"),
    ("`net größe` > 0 and größ > 1", 20, "no attribute 'größ'"),
    ("region == 'größe' and age > 1", 10, "no value 'größe'"),
    ("Age > 1", 0, "'age' differs only in its case"),
    ("agé > 1", 0, "'age' differs only in its accents"),
    ("region == 'nroth'", 10, "did you mean 'north'?", "it can be"),
    ("region in ['north', 'soth', 'x']", 20, "no value 'soth'", "did you mean 'south'?"),
    ("region not in ('north', 3)", 24, "no value 3"),
    ("age in [1, 9]", 11, "no value 9; it is from 0 to 3"),
    ("age in [1, -9, 8]", 11, "no value -9"),
    ("mood >= 'god'", 8, "did you mean 'good'?"),
    ("region == north", 10, "in quotes, 'north'"),
    ("region == 3", 10, "it can be 'north'"),
    ("region < 'north'", 9, "no order"),
    ("region in []", 10, "empty"),
    ("region in 'north'", 10, "a list follows in"),
    ("age in region", 7, "a list follows in"),
    ("age == region", 7, "compared with a name"),
    ("age == 'x'", 7, "is a number"),
    ("age == 1.5", 7, "no value 1.5; it is from 0 to 3"),
    ("age > 3", 6, "empty range"),
    ("age < 1e999", 6, "too large"),
    ("2 <= age <= 1", 0, "no age is in this range"),
    ("age > 2 and age < 2 and region == 'north'", 6, "no age is in this range"),
    ("10 < income < 10", 0, "no income is in this range"),
    ("hour > 2 and hour < 1", 7, "around the circle it is hour >= 3 or hour <= 0"),
    ("income < 16", 9, "16 lies between the edges 10 and 20"),
    ("0 <= income < 16", 14, "16 lies between the edges 10 and 20"),
    ("income == 5", 10, "use the bin, 0 to 10"),
    ("income in [5, 6]", 11, "use the bin, 0 to 10"),
    ("height == 1", 10, "compare it by <"),
    ("mood > 'good'", 7, "nothing > 'good'"),
    ("w > 1", 0, "use its sum"),
    ("w is None", 0, "use its sum"),
    ("region is None", 0, "not optional"),
    ("age == None", 7, "age is None"),
    ("age < None", 6, "age is None"),
    ("age in [1, None]", 11, "age is None"),
    ("age == [1, 2]", 7, "write in for =="),
    ("age is 1", 7, "compare with =="),
    ("age", 0, "not a condition"),
    ("age and region == 'north'", 0, "not a condition"),
    ("1 < 2", 0, "name of an attribute"),
    ("True", 0, "a condition is expected"),
    ("age = 1", 4, "write =="),
    ("age=0..2", 3, "18 <= age <= 29"),
    ("age <> 1", 4, "write !="),
    ("age ≥ 1", 4, "write >="),
    ("age => 1", 4, "write >="),
    ("age =< 1", 4, "write <="),
    ("region == “north”", 10, "straight quotes"),
    ("age > 1 & age < 3", 8, "write and"),
    ("age > 1 AND age < 3", 8, "write and in lower case"),
    ("age > 1 age < 3", 8, "follow each other"),
    ("net größe > 1", 4, "`net größe`"),
    ("age > 1, age < 3", 7, "join conditions by and"),
    ("age, größe", 3, "join conditions by and"),
    ("größe, ü", 5, "join conditions by and"),
    ("(age, größe)", 0, "a condition is expected"),
    ("age > 1 or", 9, "cannot be read"),
    ("`net größe` > 1 or", 17, "cannot be read"),
    ("age not 1", 0, "cannot be read"),
    ("(age > 1", 0, "not closed"),
    ("age > 1)", 7, "has no opening parenthesis"),
    ("age in [1)", 9, "has no opening parenthesis"),
    ("region == 'north", 10, "close the string"),
    ("`net größe > 1", 0, "close the name"),
    ("age > 1 # and more", 8, "no comments"),
    ("class == 1", 0, "write an attribute as `class`"),
    ("age > 0x1", 6, "not a number"),
    ("age > 1and age < 3", 6, "not a number"),
    ("age in 18..29", 7, "written with comparisons"),
    ("age between 1 and 3", 4, "written with comparisons"),
    ("age + 1 > 2", 4, "no arithmetic"),
    ("age > --1", 6, "no arithmetic"),
    ("age > 2 - 1", 8, "no arithmetic"),
    (r"region == '\d'", 11, "backslash"),
    ("'a' 'b' == region", 4, "follow each other"),
    ("f'{age}' == region", 0, "no prefix"),
    ("b'x' == region", 0, "no prefix"),
    ("len(age) > 1", 3, "no functions"),
    ("(age)(1) > 1", 5, "no functions"),
    ("age.real > 1", 3, "backticks"),
    ("age[0] > 1", 3, "a list follows in"),
    ("(age := 1) > 1", 5, "no ':='"),
    ("lambda: 1", 0, "word of Python"),
    ("[age for age in [1]]", 0, "a list follows in"),
    ("age in [x for x in [1]]", 10, "word of Python"),
    ("(age for age in [1])", 5, "word of Python"),
    ("1 if age else 2", 2, "word of Python"),
    ("await age", 0, "word of Python"),
    ("(yield age)", 1, "word of Python"),
    ("{1} == age", 0, "no '{'"),
    ("{'age': 1}", 0, "no '{'"),
    ("*age > 1", 0, "no '*'"),
    ("age in [*[1]]", 8, "no '*'"),
    ("age ** 2 > 1", 4, "no '*'"),
    ("age % 2 == 0", 4, "no '%'"),
    ("@age > 1", 0, "no '@'"),
    ("age == ...", 7, "no '.'"),
    ("age == 1j", 7, "not a number"),
    ("age == f'{age}'", 7, "no prefix"),
    ("age.__class__ == 1", 3, "backticks"),
    ("__import__('os')", 10, "no functions"),
    ("age > 1 \\", 8, "no '\\'"),
    ("'''a''' == region", 2, "follow each other"),
    ("age > 1\xa0", 7, "no U+00A0"),
    ("age > \u202e1", 6, "no U+202E"),
    ("age == 1; age == 2", 8, "no ';'"),
    ("age > 1 \x00", 8, "U+0000"),
    ("age > 1 \ud800", 8, "U+D800"),
    ("age > 1 \u2028", 8, "U+2028"),
]


@pytest.mark.parametrize(("text", "column", "words"), [(t, c, w) for t, c, *w in ERRORS])
def test_error_names_the_remedy_and_marks_the_position(text, column, words):
    with pytest.raises(QueryError) as caught:
        parse_all(SURVEY, text)
    message, line, mark = str(caught.value).split("\n")
    for word in words:
        assert word in message
    assert mark == " " * (4 + column) + "^"
    assert line == f"    {text}" or not text.isprintable()


HOSTILE = [
    "a" * 10_000,
    "(" * MAX_LENGTH,
    "(" * 1_900 + "age" + ")" * 1_900,
    "not " * 990 + "age > 1",
    "not(" * 900 + "age > 1" + ")" * 900,
    "-" * 3_900 + "1 < age",
    "~" * 3_900 + "age",
    "age > " + "9" * 3_900,
    "age > 1" + "e9" * 1_900,
    "age" + ".a" * 1_900,
    "age" + "[0]" * 1_300,
    "age" + "(0)" * 1_300,
    "1" + "**1" * 1_300 + " < age",
    "1" + "+1" * 1_900 + " < age",
    "1 < " * 900 + "age",
    " or ".join(["age > 1"] * 300),
    "lambda: " * 450 + "1",
    "1 if age else " * 280 + "1",
    "[" * 2_000 + "]" * 2_000,
    "'" * 3_999,
    "`" * 3_999,
    "`" + "x" * 3_000 + "` > 1",
    "age" + ", age" * 790,
    "age in [" + "1, " * 1_300 + "9]",
    "age == " * 570 + "1",
    "age > " + "9" * 1_000 + "." + "9" * 2_900,
    "a" + "\u0301" * 3_900,
    "\u202e" * 3_900,
    "region == '" + "ü" * 3_000 + "'",
    "region in [" + "'x'," * 900 + "]",
    "\ud800" * 3_000,
    "\x00" * 3_000,
    "１ < age",
    "ａge > 1",
    "",
    "   \n ",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_rejected_at_once_in_few_words(text):
    seconds = []
    for _ in range(3):  # a single run may include a collection of garbage
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(QueryError) as caught:
                parse_all(SURVEY, text)
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.1
    message, *shown = str(caught.value).split("\n")
    assert len(message) < 250
    assert not shown or (len(shown) == 2 and all(len(line) <= 80 for line in shown))


@settings(deadline=None, max_examples=500)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                [
                    *(
                        "age",
                        "region",
                        "'north'",
                        "1",
                        "2.5",
                        "1e9",
                        "not ",
                        *"()[],<>=!-+`'\"\\#.:",
                    ),
                    " and ",
                    " or ",
                    " in ",
                    " is ",
                    "None",
                    "==",
                    "<=",
                    "≥",
                    "`net größe`",
                    " ",
                    "é",
                ]
            ),
            max_size=12,
        ).map("".join),
    )
)
def test_any_text_is_parsed_or_rejected_without_warnings(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            parse_all(SURVEY, text)
        except QueryError as error:
            assert len(str(error).split("\n")) in (1, 3)


@pytest.mark.parametrize(
    "value", [3, 1.5, b"age > 1", ["age > 1"], object(), np.array(["age > 1"])]
)
def test_condition_of_another_type_is_rejected(value):
    with pytest.raises(QueryError, match="a condition is a text such as"):
        Source.of(value)
    with pytest.raises(QueryError, match="a condition is a text such as"):
        parse_all(SURVEY, value)


def test_long_expression_is_shown_around_the_error():
    text = " and ".join(["age > 1"] * 20 + ["agee > 1"] + ["age > 1"] * 20)
    with pytest.raises(QueryError) as caught:
        parse_all(SURVEY, text)
    _, line, mark = str(caught.value).split("\n")
    assert line.startswith("    ...") and line.endswith("...") and len(line) <= 80
    assert line[mark.index("^") :].startswith("agee > 1")


def test_mark_allows_for_wide_and_combining_characters():
    with pytest.raises(QueryError) as caught:
        parse_all(SURVEY, "region != '漢e\u0301' and age > 1")
    assert str(caught.value).split("\n")[2] == " " * 14 + "^"
    with pytest.raises(QueryError) as caught:
        parse_all(SURVEY, "'漢e\u0301' == agee")
    assert str(caught.value).split("\n")[2] == " " * (4 + 9) + "^"


def test_number_of_alternatives_is_bounded():
    attributes = {f"x{k}": Integer(0, 1, epsilon=1, per=1) for k in range(16)}
    survey = Survey.design(attributes)
    pairs = [f"(x{k} == 1 and x{k + 1} == 1)" for k in range(0, 16, 2)]
    with pytest.raises(QueryError, match="more than 64 parts"):
        parse_all(survey, " or ".join(pairs))
    assert len(parse_all(survey, " or ".join(pairs[:3]))) == 7
    values = " or ".join(f"x0 == {k % 2}" for k in range(90))
    assert len(parse_all(survey, values)) == 1


def test_methods_of_a_tally_take_texts():
    people = {"age": [0, 1, 2, 3] * 500, "region": ["north", "north", "north", "south"] * 500}
    survey = Survey.design(
        {"age": Integer(0, 3, epsilon=1, per=1), "region": SURVEY.attributes["region"]}
    )
    tally = survey.tally(survey.randomize(people))
    text, where = "1 <= age <= 2 and region == 'north'", {"age": (1, 2), "region": "north"}
    assert str(tally.count(text)) == str(tally.count(where))
    mean = tally.mean("age", "region == 'north'")
    assert mean.estimable and str(mean) == str(tally.mean("age", {"region": "north"}))
    share = tally.fraction("age == 1", among="region == 'north'")
    assert share.estimable
    assert share.value == tally.fraction({"age": 1}, among={"region": "north"}).value
    by = tally.count("age > 1", by="region")
    assert list(by.values) == list(tally.count({"age": (2, None)}, by="region").values)
    both = [str(one) for one in tally.counts([text, where])]
    assert both[0] == both[1]
    assert (
        survey.expected_error("age > 1", n=9, prior="worst").stderr
        == survey.expected_error({"age": (2, None)}, n=9, prior="worst").stderr
    )


def test_between_is_a_range_with_both_ends():
    assert parse(SURVEY, {"age": mldp.between(1, 2)}).words == "age 1 to 2"
    assert parse(SURVEY, {"age": mldp.between(None, 2)}).words == "age up to 2"
    ranges = {"age": [mldp.between(0, 1), mldp.between(3, None)]}
    assert parse(SURVEY, ranges).functions["age"].tolist() == [1, 1, 0, 1]
