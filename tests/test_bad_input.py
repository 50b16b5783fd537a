"""Every mistake is refused by a typed exception with one line that names the place, not the value.

On the command line it is that line on standard error, nothing on standard output, exit code 2.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import math
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Integer,
    InvalidReportError,
    InvalidSpecError,
    InvalidValueError,
    MetricLdpError,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    TightenedMetricWarning,
    Weight,
)
from metricldp.basics.text import shown
from metricldp.cli import main as cli
from metricldp.reports import arrow, files, parquet
from metricldp.reports import bytes as pack

NAN, INF = math.nan, math.inf
HEAD = "age,income,region,often\n"
GOOD = "30,1000.5,north,never\n"


@pytest.fixture(scope="module")
def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
            "income": Continuous(0, 200_000, bins=100, epsilon=1, per=10_000),
            "region": Categorical(["north", "south", "east"], epsilon=2),
            "often": Ordinal(["never", "rarely", "often"], epsilon=1, mechanism="threshold"),
        }
    )


@pytest.fixture(scope="module")
def people():
    return {
        "age": [30, 40, 50],
        "income": [1.5, 2000.0, 199_999.0],
        "region": ["north", "south", "east"],
        "often": ["never", "rarely", "often"],
    }


@pytest.fixture(scope="module")
def table(survey, people):
    return survey.randomize(people, randomness=Randomness.seeded(1))


@pytest.fixture(scope="module")
def tally(survey, table):
    return survey.tally(table)


@pytest.fixture
def at_work(survey, table, tmp_path, monkeypatch):
    """A directory with a survey, people and their reports, and no other place to be."""
    monkeypatch.chdir(tmp_path)
    survey.save("survey.toml")
    (tmp_path / "people.csv").write_text(HEAD + GOOD)
    parquet.write(survey, "reports.parquet", [table])
    return tmp_path


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a command that must be refused: its one line, without the name of the program."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["metricldp", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        assert stopped.value.code == 2
        return one_line(out, err)

    return run


def one_line(out, err):
    """The line of an error; below that of a condition, it is shown with a mark."""
    assert out == ""
    assert err.startswith("metricldp: ")
    assert err.endswith("\n")
    line, *condition = err.removeprefix("metricldp: ").splitlines()
    assert not condition or (len(condition) == 2 and condition[1].strip() == "^")
    return line


def says(kind, call, *needles, lines=1):
    """What `call` raises is of that kind, in so many lines, and speaks of the needles."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, MetricLdpError)
    assert message
    assert message.count("\n") == lines - 1
    for needle in needles:
        assert str(needle) in message
    return caught.value


def shows(message, value):
    """Whether a message has a value, as text or as Python writes it; row numbers do not count."""
    forms = {str(value), repr(value), " ".join(str(value).split())}
    if isinstance(value, int | float):
        forms |= {f"{value:,}", f"{value:g}"}
    message = re.sub(r"\brow \d+", "", message)
    words = [rf"(?<!\w){re.escape(form)}(?!\w)" for form in forms if form.strip()]
    return any(re.search(word, message) for word in words)


# Attributes --------------------------------------------------------------------------------------

NOT_POSITIVE = [0, -1, 0.0, -0.5, NAN, INF, -INF, "1", "one", None, True, [1], 10**400]


@pytest.mark.parametrize("value", NOT_POSITIVE, ids=lambda v: repr(v)[:12])
@pytest.mark.parametrize(
    ("word", "make"),
    [
        ("epsilon", lambda v: Integer(0, 9, epsilon=v, per=1)),
        ("epsilon", lambda v: Continuous(0, 1, bins=3, epsilon=v, per=1)),
        ("epsilon", lambda v: Ordinal(["a", "b"], epsilon=v)),
        ("epsilon", lambda v: Categorical(["a", "b"], epsilon=v)),
        ("per", lambda v: Integer(0, 9, epsilon=1, per=v)),
        ("per", lambda v: Continuous(0, 1, bins=3, epsilon=1, per=v)),
        ("per", lambda v: Ordinal(["a", "b"], epsilon=1, per=v)),
    ],
)
def test_epsilon_and_per_are_positive_and_finite(word, make, value):
    if word == "per" and value is None:
        pytest.skip("None is the default")
    says(InvalidSpecError, lambda: make(value), word, repr(value)[:30], "positive finite number")


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-13, 1025, 1e6, 1e308])
def test_an_epsilon_that_coins_cannot_keep_is_refused_at_once(epsilon):
    says(
        InvalidSpecError,
        lambda: Integer(0, 9, epsilon=epsilon, per=1),
        "epsilon",
        "between neighbouring values",
        "use a",
    )
    says(InvalidSpecError, lambda: Categorical(["a", "b"], epsilon=epsilon), "epsilon", "use a")
    says(InvalidSpecError, lambda: Integer(0, 9, epsilon=1, per=1 / 1e300), "epsilon", "use a")


@pytest.mark.parametrize(
    ("low", "high", "needle"),
    [
        (5, 5, "one value only"),
        (6, 5, "is empty"),
        (NAN, 5, "nan"),
        (0, NAN, "nan"),
        (0, INF, "inf"),
        (-INF, 0, "-inf"),
        ("a", 5, "'a'"),
        (None, 5, "None"),
        (True, 5, "True"),
        (0, 10**400, "high"),
    ],
)
def test_ends(low, high, needle):
    says(InvalidSpecError, lambda: Integer(low, high, epsilon=1, per=1), needle)
    missing = "needs its lowest and highest value" if low is None else needle
    says(InvalidSpecError, lambda: Continuous(low, high, bins=4, epsilon=1, per=1), missing)


def test_integer_ends_are_whole_and_exact():
    says(InvalidSpecError, lambda: Integer(0, 5.5, epsilon=1, per=1), "5.5", "whole")
    says(InvalidSpecError, lambda: Integer(10**20, 10**20 + 5, epsilon=1, per=1), 10**20, "low")
    says(
        InvalidSpecError,
        lambda: Integer(0, 1 << 20, epsilon=1, per=1),
        "1,048,577",
        "at most 1,048,576",
    )
    assert Integer(0.0, 5.0, epsilon=1, per=1) == Integer(0, 5, epsilon=1, per=1)


def test_a_domain_wider_than_a_float():
    says(
        InvalidSpecError,
        lambda: Continuous(-1.7e308, 1.7e308, bins=4, epsilon=1, per=1),
        "too wide",
    )


@pytest.mark.parametrize(
    "bins", [1, 0, -1, 2.5, NAN, INF, "4", True, 10**400], ids=lambda v: repr(v)[:12]
)
def test_bins(bins):
    needles = ("at least 2 bins", repr(bins)[:30])
    says(InvalidSpecError, lambda: Continuous(0, 1, bins=bins, epsilon=1, per=1), *needles)


def test_too_many_bins():
    says(
        InvalidSpecError,
        lambda: Continuous(0, 1, bins=10**9, epsilon=1, per=1),
        "1,000,000,000",
        "at most",
    )
    says(
        InvalidSpecError,
        lambda: Continuous(1, 1 + 1e-12, bins=10**5, epsilon=1, per=1),
        "too narrow",
    )


@pytest.mark.parametrize("kind", [Categorical, Ordinal])
@pytest.mark.parametrize(
    ("names", "needle"),
    [
        ([], "at least two"),
        (["only"], "only"),
        (["a", "b", "a"], "'a'"),
        (["a", ""], "''"),
        (["a", "  "], "'  '"),
        (["a", "b\n"], r"'b\n'"),
        (["a", 3.5], "3.5"),
        (["a", None], "None"),
        ([["a"], ["b"]], "['a']"),
        ("abc", "'abc'"),
        (3, "3"),
        (None, "None"),
        ({"a"}, "list of names"),
        (pd.Series(["a", "b"]), "list of names"),
    ],
    ids=repr,
)
def test_names(kind, names, needle):
    says(InvalidSpecError, lambda: kind(names, epsilon=1), needle)


@pytest.mark.parametrize("mechanism", ["foo", "", None, 3, ["randomized-response"], "Threshold"])
def test_unknown_mechanisms(mechanism):
    wanted = ("attribute a: ", repr(mechanism), "choose auto")
    age = Integer(0, 9, epsilon=1, mechanism=mechanism, per=1)
    says(InvalidSpecError, lambda: Survey.design({"a": age}), *wanted, "threshold")
    sort = Categorical(["a", "b"], epsilon=1, mechanism=mechanism)
    says(InvalidSpecError, lambda: Survey.design({"a": sort}), *wanted)


@pytest.mark.parametrize(
    ("mechanism", "needle"),
    [
        ("geometrc", "did you mean 'geometric'?"),
        ("hierachy-4", "did you mean 'hierarchy-4'?"),
        ("Threshold", "'threshold' differs only in its case"),
        ("hio", "'hio' randomizes several attributes together; name them in joint="),
        (
            "planar-laplace",
            "'planar-laplace' randomizes several attributes together; name them in jo",
        ),
        (
            "telepathy",
            "choose auto, geometric, threshold, randomized-response, additive, tight-constraints, "
            "extremal, unary or a plug-in",
        ),
    ],
)
def test_a_mechanism_that_was_meant(mechanism, needle):
    age = Integer(0, 9, epsilon=1, mechanism=mechanism, per=1)
    says(InvalidSpecError, lambda: Survey.design({"a": age}), needle)


@pytest.mark.parametrize(
    "described",
    [
        Integer(0, 9, epsilon=1, mechanism="telepathy", per=1),
        Continuous(0, 9, bins=3, epsilon=1, mechanism="telepathy", per=1),
        Ordinal(["low", "high"], epsilon=1, mechanism="telepathy"),
        Categorical(["a", "b"], epsilon=1, mechanism="telepathy"),
        Weight(0, 9, private=True, epsilon=1, mechanism="telepathy"),
    ],
    ids=lambda described: described.kind,
)
def test_unknown_mechanism_names_at_most_eight_that_suit_the_attribute(described):
    with pytest.raises(InvalidSpecError) as error:
        Survey.design({"a": described})
    names = str(error.value).partition("choose ")[2].removesuffix(" or a plug-in").split(", ")
    assert 2 <= len(names) <= 8
    for name in names:
        Survey.design({"a": dataclasses.replace(described, mechanism=name)})
        assert f'"{name}"' in Integer.__doc__


def test_categories_have_no_hierarchies_to_choose():
    for mechanism in ("telepathy", "geometric", "hierarchy-4"):
        sort = Categorical(["a", "b"], epsilon=1, mechanism=mechanism)
        wrong = says(
            InvalidSpecError,
            lambda sort=sort: Survey.design({"a": sort}),
            "; choose auto, randomized-response",
        )
        assert "hierarchy" not in str(wrong).split(";")[1]


@pytest.mark.parametrize("kind", [Categorical, Ordinal])
def test_names_cannot_be_clipped(kind):
    survey = Survey.design({"a": kind(["north", "south"], epsilon=1)})
    people = {"a": ["north", "moon"]}
    says(
        InvalidValueError,
        lambda: survey.randomize(people, clip=True),
        "only numbers can be clipped",
    )
    with pytest.raises(InvalidValueError) as wrong:
        survey.randomize(people)
    assert "clip" not in str(wrong.value)


@pytest.mark.parametrize("mechanism", ["threshold", "threshold-paper", "geometric"])
def test_a_mechanism_that_does_not_serve_the_kind(mechanism):
    says(
        InvalidSpecError,
        lambda: Survey.design({"a": Categorical(["a", "b"], epsilon=1, mechanism=mechanism)}),
        mechanism,
        "categorical",
        "choose auto, randomized-response",
    )


@pytest.mark.parametrize("attributes", [{}, {"a": 3}, {"a": "integer"}, {"": 1}, {"a=b": 1}])
def test_surveys_of_nonsense(attributes):
    says(InvalidSpecError, lambda: Survey.design(attributes))


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\x1b[31m", "a\x00", "a\u2028b"])
def test_names_of_attributes_are_one_line(name):
    says(
        InvalidSpecError, lambda: Survey.design({name: Integer(0, 9, epsilon=1, per=1)}), repr(name)
    )


def test_long_lists_of_names_are_cut():
    many = Categorical([f"canton {k}" for k in range(40)], epsilon=1)
    wrong = says(QueryError, lambda: many.choose("here", "home"), "'canton 7' and 32 more")
    assert "canton 8" not in str(wrong)
    commas = Categorical(["a, b", "c"], epsilon=1)
    says(QueryError, lambda: commas.choose("a", "x"), "'a, b', 'c'")


# Survey files ------------------------------------------------------------------------------------

HEADER = "metricldp = 1\n"
STATED = HEADER + '[attributes.age]\nkind = "integer"\nlow = 0\nhigh = 9\nepsilon = 1\nper = 1\n'
NUMBERS = (
    'distribution = {kind = "geometric", size = 10, zero = "764d4f5d5a2bcd94", digits = [], '
    'block = "5e2d58d8b3bcdf1b"}\n'
)
AGE = STATED + 'mechanism = "geometric"\n' + NUMBERS
SORT = HEADER + "[attributes.sort]\n"

PLAN = (
    SORT + 'kind = "categorical"\ncategories = ["a", "b", "c"]\nepsilon = 1\n'
    '[attributes.sort.mechanism]\nname = "matrix"\n'
)
BITS = (
    SORT + 'kind = "categorical"\ncategories = ["a", "b"]\nepsilon = 1\n'
    '[attributes.sort.mechanism]\nname = "unary"\n'
)


def table_of(near, far):
    """A survey file with a table of distances."""
    rows = [[0, near, near], [near, 0, far], [near, far, 0]]
    levels = SORT + 'kind = "ordinal"\nlevels = ["a", "b", "c"]\nepsilon = 1\n'
    return (
        f'{levels}[attributes.sort.metric]\nkind = "distance-matrix"\nrows = {json.dumps(rows)}\n'
    )


BAD_FILES = {
    "empty": ("", "metricldp = 1"),
    "not toml": ("age: 3\n", "not a TOML file"),
    "half": (AGE + "[attributes", "not a TOML file"),
    "twice": (AGE + "[attributes.age]\n", "not a TOML file"),
    "no version": (AGE.replace(HEADER, ""), "is a spec, not a designed survey"),
    "nothing designed": (STATED + 'mechanism = "additive"\n', "age is not designed"),
    "no mechanism": (STATED, "attribute age is not designed"),
    "no distance": (AGE.replace("per = 1\n", ""), "needs a distance"),
    "version 2": (AGE.replace("metricldp = 1", "metricldp = 2"), "not 2"),
    "version text": (AGE.replace("metricldp = 1", 'metricldp = "1"'), "'1'"),
    "version true": (AGE.replace("metricldp = 1", "metricldp = true"), "True"),
    "version 1.0": (AGE.replace("metricldp = 1", "metricldp = 1.0"), "1.0"),
    "huge integer": (AGE.replace("high = 9", "high = " + "9" * 5000), "digits"),
    "deep": (AGE.replace("per = 1", "per = " + "[" * 5000), "not a TOML file"),
    "line break": (AGE.replace("attributes.age", r'attributes."a\nge"'), r"'a\nge'"),
    "no attributes": ("metricldp = 1\n", "[attributes.NAME]"),
    "attributes 3": ("metricldp = 1\nattributes = 3\n", "[attributes.NAME]"),
    "attribute 3": ("metricldp = 1\n[attributes]\nage = 3\n", "age"),
    "unknown entry": ("metricldp = 1\nfoo = 2\n", "'foo'"),
    "unknown key": (AGE + "color = 3\n", "'color'"),
    "per of categories": (
        SORT + 'kind = "categorical"\ncategories = ["a", "b"]\nepsilon = 1\nper = 2\n',
        "'per'",
    ),
    "missing high": (AGE.replace("high = 9\n", ""), "'high'"),
    "missing epsilon": (AGE.replace("epsilon = 1\n", ""), "'epsilon'"),
    "missing kind": (AGE.replace('kind = "integer"\n', ""), "None"),
    "kind": (AGE.replace('"integer"', '"number"'), "'number'"),
    "kind 3": (AGE.replace('"integer"', "3"), "3"),
    "kind list": (AGE.replace('"integer"', '["integer"]'), "['integer']"),
    "low text": (AGE.replace("low = 0", 'low = "a"'), "'a'"),
    "low nan": (AGE.replace("low = 0", "low = nan"), "nan"),
    "high inf": (AGE.replace("high = 9", "high = inf"), "inf"),
    "high date": (AGE.replace("high = 9", "high = 1979-05-27"), "1979"),
    "one value": (AGE.replace("high = 9", "high = 0"), "one value only"),
    "upside down": (AGE.replace("high = 9", "high = -9"), "-9"),
    "epsilon 0": (AGE.replace("epsilon = 1", "epsilon = 0"), "epsilon"),
    "epsilon -1": (AGE.replace("epsilon = 1", "epsilon = -1"), "-1"),
    "epsilon nan": (AGE.replace("epsilon = 1", "epsilon = nan"), "nan"),
    "epsilon inf": (AGE.replace("epsilon = 1", "epsilon = inf"), "inf"),
    "epsilon text": (AGE.replace("epsilon = 1", 'epsilon = "1"'), "'1'"),
    "epsilon true": (AGE.replace("epsilon = 1", "epsilon = true"), "True"),
    "epsilon huge": (AGE.replace("epsilon = 1", "epsilon = 1e300"), "smaller epsilon"),
    "per 0": (AGE.replace("per = 1", "per = 0"), "per"),
    "per -1": (AGE.replace("per = 1", "per = -1"), "-1"),
    "per nan": (AGE.replace("per = 1", "per = nan"), "nan"),
    "mechanism": (STATED + 'mechanism = "magic"\n', "'magic'"),
    "mechanism 3": (STATED + "mechanism = 3\n", "3"),
    "mechanism table": (
        STATED + "mechanism = {reach = 3}\n",
        "a table with a name, not {'reach': 3}",
    ),
    "mechanism name": (STATED + "mechanism = {name = 3}\n", "{'name': 3}"),
    "data of none": (STATED + 'mechanism = {name = "geometric", scale = 3}\n', "no entry 'scale'"),
    "plan entry": (PLAN + 'strategi = "identity"\n', "did you mean 'strategy'?"),
    "bits entry": (BITS + "bit = []\n", "no entry 'bit'; it has 'bits'"),
    "categories 3": (SORT + 'kind = "categorical"\ncategories = 3\nepsilon = 1\n', "3"),
    "categories floats": (
        SORT + 'kind = "categorical"\ncategories = [1.5, 2]\nepsilon = 1\n',
        "'1.5'",
    ),
    "one category": (SORT + 'kind = "categorical"\ncategories = ["a"]\nepsilon = 1\n', "'a'"),
    "blank": (SORT + 'kind = "categorical"\ncategories = ["a", ""]\nepsilon = 1\n', "''"),
    "repeated": (SORT + 'kind = "categorical"\ncategories = ["a", "a"]\nepsilon = 1\n', "'a'"),
    "levels text": (SORT + 'kind = "ordinal"\nlevels = "abc"\nepsilon = 1\n', "'abc'"),
    "one bin": (
        SORT + 'kind = "continuous"\nlow = 0\nhigh = 1\nbins = 1\nepsilon = 1\nper = 1\n',
        "at least 2 bins, not 1",
    ),
    "long fraction": (table_of(1, f"{'7' * 41}1/{'7' * 41}2"), "of at most 40 digits"),
    "longer fraction": (table_of(1, f"{'7' * 5000}/{'3' * 5000}"), "'b' to 'c'"),
}
BAD_DESIGNS = {
    "threshold": (
        SORT + 'kind = "categorical"\ncategories = ["a", "b"]\nepsilon = 1\n'
        'mechanism = "threshold"\n',
        "'threshold'",
    ),
    "rows of ones": (PLAN + "strategy = [[1, 1, 1]]\nepsilons = 0.1\n", "depends on the value"),
    "no epsilons": (PLAN + "strategy = [[1, 1, 1]]\nepsilons = []\n", "epsilons are []"),
    "epsilons 0": (PLAN + 'strategy = "identity"\nepsilons = 0.0\n', "epsilons are 0.0"),
    "all epsilons 0": (PLAN + 'strategy = "identity"\nepsilons = [0, 0, 0]\n', "[0, 0, 0]"),
    "epsilons tiny": (PLAN + 'strategy = "identity"\nepsilons = 1e-14\n', "row 0 of the strategy"),
    "rows of text": (PLAN + 'strategy = [["1", "0", "0"]]\nepsilons = 0.1\n', "[['1', '0', '0']]"),
    "long hierarchy": (
        PLAN + f'strategy = "hierarchy-{"9" * 5000}"\nepsilons = 0.1\n',
        "'hierarchy-999",
    ),
    "wide hierarchy": (
        PLAN + f'strategy = "hierarchy-{"9" * 30}"\nepsilons = 0.1\n',
        "'hierarchy-999",
    ),
    "other digits": (
        PLAN + 'strategy = "hierarchy-\u0662"\nepsilons = 0.1\n',
        "'hierarchy-\u0662'",
    ),
    "reach 1e30": (PLAN + 'strategy = "identity"\nepsilons = 0.1\nreach = 1e30\n', "1e+30"),
    "reach 2^60": (PLAN + f'strategy = "identity"\nepsilons = 0.1\nreach = {2**60}\n', str(2**60)),
    "bits tiny": (BITS + "bits = [[1e-300, 1e-300], [1e-300, 1e-300]]\n", "1e-300 and 1e-300"),
    "bits mixed": (BITS + "bits = [[0.5, 1e-300], [0.5, 0.5]]\n", "0.5 and 1e-300"),
}
"""What only a spec can state: in a survey file it follows from the distribution."""
BAD_NUMBERS = {
    "kind": (AGE.replace('{kind = "geometric"', '{kind = "magic"'), "'magic' that is not supp"),
    "other kind": (
        AGE.replace('mechanism = "geometric"', 'mechanism = "threshold"'),
        "'threshold'",
    ),
    "size": (AGE.replace("size = 10", "size = 11"), "11 positions"),
    "size 0": (AGE.replace("size = 10", "size = 0"), "size"),
    "digits": (AGE.replace("digits = []", "digits = 3"), "digits"),
    "hexadecimal": (AGE.replace("5e2d58d8b3bcdf1b", "5e2d58d8b3bcdf1"), "block"),
    "capitals": (AGE.replace("5e2d58d8b3bcdf1b", "5E2D58D8B3BCDF1B"), "block"),
    "number": (AGE.replace('"5e2d58d8b3bcdf1b"', "5"), "block"),
    "missing": (AGE.replace("digits = [], ", ""), "digits"),
    "unknown": (AGE.replace("digits = []", "digits = [], digit = []"), "'digit'"),
    "other noise": (AGE.replace("5e2d58d8b3bcdf1b", "5d2d58d8b3bcdf1b"), "age: noise whose"),
    "broken": (AGE.replace("per = 1", "per = 2"), "break its guarantee: age has"),
    "not a table": (AGE.replace(NUMBERS, "distribution = 3\n"), "distribution"),
    "no mechanism": (STATED + NUMBERS, "name the mechanism"),
    "automatic": (STATED + 'mechanism = "auto"\n' + NUMBERS, "name the mechanism"),
    "response": (AGE + NUMBERS.replace("distribution", "response"), "response if it is optional"),
    "no response": (AGE + "optional = true\n", "response if it is optional"),
    "design": (
        SORT + 'kind = "categorical"\ncategories = ["a", "b"]\nepsilon = 1\n'
        'mechanism = {name = "unary", bits = [[1, 1], [1, 1]]}\n'
        'distribution = {kind = "unary", own = [["9000000000000000", 2]], '
        'other = [["8000000000000000", 2]]}\n',
        "'bits' of mechanism 'unary' follows from the distribution",
    ),
    "no order": (
        SORT + 'kind = "categorical"\ncategories = ["a", "b"]\nepsilon = 1\n'
        'mechanism = "threshold"\n'
        'distribution = {kind = "threshold", size = 2, flips = [["5000000000000000", 1]]}\n',
        "'threshold' does not support categorical",
    ),
    "public weight": (
        AGE + '[attributes.w]\nkind = "weight"\nlow = 0\nhigh = 1\n' + NUMBERS,
        "attribute w: distribution: leave it out",
    ),
}
"""Distributions of survey files."""


def test_many_different_denominators_are_refused():
    """No number is long, but their common denominator would be."""
    size = 40
    rows = [[0] * size for _ in range(size)]
    for x, y in itertools.combinations(range(size), 2):
        rows[x][y] = rows[y][x] = f"{10**20}/{10**20 + size * x + y}"
    says(
        InvalidSpecError,
        lambda: Integer(1, size, epsilon=1, metric=DistanceMatrix(rows)),
        "denominator",
    )
    near, far = f"{10**39}/{10**39 + 7}", f"{10**39}/{10**39 + 9}"
    rows = [[0, near, 9], [near, 0, far], [9, far, 0]]
    with pytest.warns(TightenedMetricWarning):
        says(
            InvalidSpecError,
            lambda: Integer(1, 3, epsilon=1, metric=DistanceMatrix(rows)),
            "1 to 3",
            "digits",
        )


@pytest.mark.parametrize("case", BAD_FILES)
def test_survey_files(case, tmp_path, refused):
    check_survey_file(*BAD_FILES[case], tmp_path, refused, 2 if case == "no distance" else 1)


@pytest.mark.parametrize("case", BAD_NUMBERS)
def test_distributions_in_survey_files(case, tmp_path, refused):
    check_survey_file(*BAD_NUMBERS[case], tmp_path, refused)


def check_survey_file(text, needle, tmp_path, refused, lines=1):
    path = tmp_path / "survey.toml"
    path.write_text(text)
    says(InvalidSpecError, lambda: Survey.load(path), path, needle, lines=lines)
    line = refused("explain", path)
    assert str(path) in line
    assert needle in line
    assert refused("certify", path, "--json") == line


SPEC_CASES = {
    case: (text.removeprefix(HEADER).replace(NUMBERS, ""), needle)
    for case, (text, needle) in {**BAD_FILES, **BAD_DESIGNS}.items()
    if text.startswith(HEADER) and case not in ("nothing designed", "no mechanism")
}


@pytest.mark.parametrize("case", SPEC_CASES)
def test_spec_files(case, tmp_path):
    text, needle = SPEC_CASES[case]
    path = tmp_path / "spec.toml"
    path.write_text(text)
    lines = 2 if case == "no distance" else 1
    says(InvalidSpecError, lambda: Survey.design(SurveySpec.load(path)), needle, lines=lines)


def test_what_is_wrong_in_bad_files_is_what_was_changed(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(AGE)
    survey = Survey.load(path)
    path.write_text(AGE.removeprefix(HEADER).replace(NUMBERS, ""))
    assert Survey.design(SurveySpec.load(path)) == survey


def test_epsilon_alone_names_the_choices():
    for make in (
        lambda: Integer(0, 9, epsilon=1),
        lambda: Continuous(0, 1, bins=3, epsilon=1),
        lambda: Integer(0, 9, epsilon=1, per=None),
    ):
        says(InvalidSpecError, make, "epsilon = 1", "within=", "per=", "metric=", lines=2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"metricldp": 2, "attributes": {"a": {"kind": []}}}',
        '{"a": NaN}',
        "[" * 100_000,
        '{"metricldp": ' + "9" * 5000 + "}",
    ],
    ids=lambda text: text[:20],
)
def test_json_survey_files(text, tmp_path, refused):
    path = tmp_path / "survey.json"
    path.write_text(text)
    says(InvalidSpecError, lambda: Survey.load(path), path)
    refused("explain", path)


def test_survey_files_that_are_not_there(tmp_path, refused):
    binary = tmp_path / "survey.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.toml", tmp_path, binary):
        says(InvalidSpecError, lambda path=path: Survey.load(path), path)
        for command in ("explain", "certify"):
            assert str(path) in refused(command, path)
        assert str(path) in refused("randomize", path, "people.csv", "-o", tmp_path / "out.parquet")
        assert str(path) in refused("query", "count", path, "reports.parquet")
        assert str(path) in refused("query", "histogram", path, "reports.parquet", "age")


# People in Python --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values", "needles"),
    [
        ("age", [1, 2, 100], ("row 3", "0 to 99")),
        ("age", [1, -1, 2], ("row 2", "outside")),
        ("age", [1, 1.5, 2], ("row 2", "whole")),
        ("age", [1, INF, 2], ("row 2", "finite")),
        ("age", [1, None, 2], ("row 2", "missing")),
        ("age", [1, NAN, 2], ("row 2", "missing")),
        ("age", ["1", "x", "2"], ("row 2", "number")),
        ("age", ["1", "", "2"], ("row 2", "missing")),
        ("age", ["1", " ", "2"], ("row 2", "missing")),
        ("age", ["1", "nan", "2"], ("row 2", "missing")),
        ("age", ["1", "0x10", "2"], ("row 2", "not a number")),
        ("age", ["1", "1_0", "2"], ("row 2", "not a number")),
        ("age", [1, "x", 2], ("row 2", "not a number")),
        ("age", [1, 10**30, 2], ("age",)),
        ("age", [[1], [2], [3]], ("list",)),
        ("age", [1j, 2, 3], ("age",)),
        ("age", np.array([1j, 2, 3]), ("age",)),
        ("age", np.zeros((3, 1)), ("age",)),
        ("age", np.array(["2020-01-01"] * 3, "datetime64[D]"), ("date",)),
        ("age", np.array([1, 2, 2**63], "uint64"), ("row 3", "outside")),
        ("age", pd.Series([1, None, 2], dtype="Int8"), ("row 2", "missing")),
        ("age", 3, ("age",)),
        ("age", None, ("age",)),
        ("income", [1, 2, 200_000.01], ("row 3", "0 to 200,000")),
        ("income", [1, -INF, 2], ("row 2", "finite")),
        ("income", ["1", "2", "1e999"], ("row 3", "finite")),
        (
            "region",
            ["north", "nowhere", "south"],
            ("row 2", "'north', 'south', 'east'"),
        ),
        ("region", ["north", None, "south"], ("row 2", "missing")),
        ("region", ["north", "", "south"], ("row 2", "missing")),
        ("region", ["north", "North", "south"], ("row 2", "not one of")),
        ("region", [1, 2, 3], ("row 1", "not one of")),
        ("region", [["north"]] * 3, ("list",)),
        ("region", [b"\xff"] * 3, ("bytes",)),
        ("region", [1.0, 2.0, 3.0], ("double",)),
        ("region", pd.Series(["north", None, "east"]).astype("category"), ("row 2", "missing")),
        ("often", ["never", "no\nway", "often"], ("row 2", "not one of")),
        ("often", ["never", "rarely"], ("length",)),
    ],
    ids=lambda v: " ".join(repr(v).split())[:40],
)
def test_values(survey, people, name, values, needles):
    people = {**people, name: values}
    wrong = says(
        InvalidValueError,
        lambda: survey.randomize(people, randomness=NoRandomness()),
        *needles,
    )
    assert wrong.row is None or f"{name} in row {wrong.row + 1} " in str(wrong)
    cells = list(values) if np.ndim(values) else [values]
    for cell in cells if wrong.row is None else [cells[wrong.row]]:
        assert not shows(str(wrong), cell)


@pytest.mark.parametrize("value", [100, -1, 1.5, 10**30, "x", "nan", "no\nway", None, b"\xff"])
def test_value_in_a_message_is_detected(value):
    """Negative control of the check that messages do not show values."""
    for form in (str(value), repr(value), f"'{value}'"):
        assert shows(f"age in row 3 is {form}, not a number", value)
    assert not shows("age in row 100 is outside 0 to 99", value)


class NoRandomness:
    """Nothing may be blurred when something is refused."""

    def words(self, count):
        raise AssertionError("a coin was drawn")


@pytest.mark.parametrize(
    ("nonsense", "needle"),
    [
        (None, "NoneType"),
        (3, "int"),
        ("people.csv", "str"),
        ([1, 2], "list"),
        (np.arange(3), "ndarray"),
        ({}, "'age'"),
        ({1: [2]}, "'age'"),
        (pd.DataFrame({0: [1]}), "'age'"),
        (pd.DataFrame({"Age": [1]}), "Age"),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "two columns"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["age", "age"]), "two columns"),
    ],
    ids=lambda v: " ".join(repr(v).split())[:20],
)
def test_people_that_are_no_table(survey, nonsense, needle):
    says(InvalidValueError, lambda: survey.randomize(nonsense), needle)


# Files of people ---------------------------------------------------------------------------------

BAD_PEOPLE = {
    "no column": ("age,income,region\n1,2,north\n", ("'often'", "'region'")),
    "spaces in the header": (
        "age, income,region,often\n" + GOOD,
        ("'income'", "' income' differs only in its spaces"),
    ),
    "column twice": ("age," + HEAD + "1," + GOOD, ("'age'", "more than one")),
    "semicolons": ((HEAD + GOOD).replace(",", ";"), ("'age'", "separate columns by commas")),
    "tabs": ((HEAD + GOOD).replace(",", "\t"), ("'age'", "separate columns by commas")),
    "capitals": ("Age" + HEAD[3:] + GOOD, ("'age'", "'Age' differs only in its case")),
    "typo": ("age,incom,region,often\n" + GOOD, ("'income'", "did you mean 'incom'?")),
    "text": (HEAD + GOOD + "x,1,north,never\n", ("age in row 2", "number")),
    "empty number": (HEAD + GOOD + ",1,north,never\n", ("age in row 2", "missing")),
    "blank number": (HEAD + GOOD + "1, ,north,never\n", ("income in row 2", "missing")),
    "empty category": (HEAD + GOOD + "1,1,,never\n", ("region in row 2", "missing")),
    "empty level": (HEAD + GOOD + "1,1,north,\n", ("often in row 2", "missing")),
    "too large": (
        HEAD + GOOD + "100,1,north,never\n",
        ("age in row 2", "0 to 99", "clip=True, --clip"),
    ),
    "negative": (HEAD + GOOD + "1,-0.01,north,never\n", ("income in row 2", "outside")),
    "much too large": (HEAD + f"{10**30},1,north,never\n", ("age in row 1", "outside")),
    "fraction": (HEAD + GOOD + "1.5,1,north,never\n", ("age in row 2", "whole")),
    "nan": (HEAD + GOOD + "nan,1,north,never\n", ("age in row 2", "missing")),
    "inf": (HEAD + GOOD + "1,inf,north,never\n", ("income in row 2", "finite")),
    "NULL": (HEAD + GOOD + "1,NULL,north,never\n", ("income in row 2", "not a number")),
    "hexadecimal": (HEAD + "0x1f,1,north,never\n", ("age in row 1", "not a number")),
    "unknown category": (HEAD + GOOD + "1,1,up,never\n", ("region in row 2", "north")),
    "unknown level": (HEAD + GOOD + "1,1,north,Never\n", ("often in row 2", "not one of")),
    "newline": (HEAD + '1,1,"no\nrth",never\n', ("region in row 1", "not one of")),
    "empty file": ("", ("is empty",)),
    "only blank lines": ("\n\n", ("is empty",)),
    "only a header": (HEAD, ("has no responses",)),
    "only half a header": (HEAD.strip(), ("has no responses",)),
    "short row": (HEAD + GOOD + "1,2\n" + GOOD, ("row 2", "2 cells", "header 4")),
    "long row": (HEAD + GOOD + "1,2,north,never,5\n" + GOOD, ("row 2", "5 cells", "header 4")),
    "latin-1": (HEAD.encode() + b"1,2,n\xf6rth,never\n", ("UTF-8",)),
    "latin-1 further on": (HEAD.encode() + GOOD.encode() * 2000 + b"1,2,n\xf6,never\n", ("UTF-8",)),
    "binary": (b"\x00\x01\x02\xff" * 100, ("people.csv",)),
}


@pytest.mark.parametrize("case", BAD_PEOPLE)
def test_csv_files(case, survey, at_work, refused):
    text, needles = BAD_PEOPLE[case]
    (at_work / "people.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    says(
        InvalidValueError,
        lambda: files.encode_file(survey, "people.csv", "out.parquet"),
        *needles,
    )
    line = refused("randomize", "survey.toml", "people.csv", "-o", "out.parquet")
    for needle in needles:
        assert str(needle) in line
    if place := re.fullmatch(r"(\w+) in row (\d+)", needles[0]):
        rows = list(csv.DictReader(io.StringIO(text)))
        assert not shows(line, rows[int(place[2]) - 1][place[1]])
    assert not list(at_work.glob("out*"))


@pytest.mark.parametrize("case", ["text", "short row", "no column", "only a header"])
def test_a_refused_file_leaves_the_old_output_alone(case, survey, at_work, refused):
    (at_work / "people.csv").write_text(BAD_PEOPLE[case][0])
    (at_work / "out.parquet").write_text("precious")
    refused("randomize", "survey.toml", "people.csv", "-o", "out.parquet", "--force")
    assert (at_work / "out.parquet").read_text() == "precious"
    assert [path.name for path in at_work.glob("out*")] == ["out.parquet"]


@pytest.mark.parametrize(
    "text",
    [
        (HEAD + GOOD * 3).replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + (HEAD + GOOD * 3).encode(),
        b"\xef\xbb\xbf" + (HEAD + GOOD * 3).replace("\n", "\r\n").encode(),
        (HEAD + GOOD * 3).rstrip().encode(),
        (HEAD + "\n" + GOOD * 2 + "\n" + GOOD).encode(),
        (
            '"often","region","x\ny","income","age"\n' + '"never","north",",","1","30"\n' * 3
        ).encode(),
        (HEAD + " 30 ,+1e3,north,never\n" * 3).encode(),
    ],
    ids=["CRLF", "BOM", "BOM and CRLF", "no last newline", "blank lines", "quotes", "spaces"],
)
def test_csv_files_that_work(text, survey, at_work):
    (at_work / "people.csv").write_bytes(text)
    assert files.encode_file(survey, "people.csv", "out.parquet") == 3
    assert survey.tally("out.parquet").n == 3


@pytest.mark.parametrize(
    ("bad", "needles"),
    [
        ("30,1000.5,nowhere,never\n", ("region in row 300001 ", "not one of")),
        ("30,x,north,never\n", ("income in row 300001 ", "not a number")),
        ("130,1000.5,north,never\n", ("age in row 300001 ", "0 to 99")),
        ("30,north,never\n", ("row 300001 of", "3 cells")),
    ],
)
def test_rows_are_counted_beyond_the_first_block(bad, needles, survey, at_work, refused):
    text = HEAD + GOOD * 300_000 + bad + GOOD * 10
    assert len(text) > 5_000_000
    (at_work / "people.csv").write_text(text)
    line = refused("randomize", "survey.toml", "people.csv", "-o", "out.parquet")
    for needle in needles:
        assert needle in line
    assert not list(at_work.glob("out*"))


def test_rows_are_counted_beyond_the_first_batch_of_parquet(survey, at_work):
    n = 4 * arrow.BATCH + 10
    table = pa.table(
        {
            "age": [1] * (n - 1) + [100],
            "income": [1] * n,
            "region": ["north"] * n,
            "often": ["never"] * n,
        }
    )
    pq.write_table(table, "people.parquet")
    wrong = says(
        InvalidValueError,
        lambda: files.encode_file(survey, "people.parquet", "out.parquet"),
        f"age in row {n} ",
    )
    assert wrong.row == n - 1
    assert not list(at_work.glob("out*"))


def test_files_of_people_that_are_none(survey, at_work, refused, people):
    (at_work / "folder").mkdir()
    (at_work / "text.parquet").write_text("hello, this is no Parquet file")
    pq.write_table(pa.table(people), "whole.parquet")
    (at_work / "half.parquet").write_bytes((at_work / "whole.parquet").read_bytes()[:-100])
    pq.write_table(pa.table(people).drop_columns("age"), "ageless.parquet")
    pq.write_table(pa.table(people).slice(0, 0), "nobody.parquet")
    for name, needle in [
        ("none.csv", "no file"),
        ("folder", "directory"),
        ("text.parquet", "cannot be read"),
        ("half.parquet", "cannot be read"),
        ("ageless.parquet", "'age'"),
        ("nobody.parquet", "has no responses"),
    ]:
        line = refused("randomize", "survey.toml", name, "-o", "out.parquet")
        assert name in line
        assert needle in line
        says(InvalidValueError, lambda n=name: files.encode_file(survey, n, "out.parquet"), needle)
    assert not list(at_work.glob("out*"))


@pytest.mark.parametrize(
    ("name", "needle"), [("-", "pipe"), ("/dev/null", "pipe"), ("people.csv.gz", "compressed")]
)
def test_people_that_are_not_in_a_plain_file(name, needle, at_work, refused):
    (at_work / "people.csv.gz").write_bytes(b"\x1f\x8b\x08")
    line = refused("randomize", "survey.toml", name, "-o", "out.parquet")
    assert name in line
    assert needle in line


def test_a_device_is_not_replaced_by_a_file(at_work, refused):
    assert "/dev/null" in refused(
        "randomize", "survey.toml", "people.csv", "-o", "/dev/null", "--force"
    )


@pytest.mark.parametrize("output", ["none/out.parquet", ".", "folder", "people.csv"])
def test_outputs_that_cannot_be_written(output, at_work, refused):
    (at_work / "folder").mkdir()
    before = sorted(path.name for path in at_work.rglob("*"))
    assert output in refused("randomize", "survey.toml", "people.csv", "-o", output, "--force")
    assert sorted(path.name for path in at_work.rglob("*")) == before
    assert (at_work / "people.csv").read_text() == HEAD + GOOD


# Reports -----------------------------------------------------------------------------------------


def marked(table, **marks):
    changed = {f"metricldp.{key}".encode(): value for key, value in marks.items()}
    return table.replace_schema_metadata({**table.schema.metadata, **changed})


def column(table, name, values):
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, values)


BAD_REPORTS = {
    "no marks": ("unmarked", lambda t: t.replace_schema_metadata(None), "fingerprint"),
    "another survey": ("survey", lambda t: marked(t, survey=b"ab" * 32), "abab"),
    "another version": ("version", lambda t: marked(t, version=b"3"), "3"),
    "garbled survey": ("survey", lambda t: marked(t, survey=b"\xff"), "another survey"),
    "garbled version": ("version", lambda t: marked(t, version=b"\xff"), "version"),
    "no column": ("columns", lambda t: t.drop_columns("age=report"), "'age=report'"),
    "column twice": (
        "columns",
        lambda t: t.append_column("age=report", t["age=report"]),
        "2 columns",
    ),
    "wide integers": (
        "columns",
        lambda t: column(t, "age=report", t["age=report"].cast("int64")),
        "int64",
    ),
    "text": (
        "columns",
        lambda t: column(t, "age=report", t["age=report"].cast("string")),
        "string",
    ),
    "loose bytes": (
        "columns",
        lambda t: column(t, "often=report", t["often=report"].cast("binary")),
        "often",
    ),
    "null": ("missing", lambda t: column(t, "age=report", pa.array([1, None, 2], "uint8")), "age"),
    "null bits": (
        "missing",
        lambda t: column(t, "often=report", pa.array([b"\0", None, b"\0"], pa.binary(1))),
        "often",
    ),
    "out of range": (
        "range",
        lambda t: column(t, "age=report", pa.array([1, 99, 100], "uint8")),
        "report 3 has a value in column 'age=report' that no report of this survey can have",
    ),
    "padding": (
        "range",
        lambda t: column(t, "often=report", pa.array([b"\3", b"\4", b"\0"], pa.binary(1))),
        "report 2 has a value in column 'often=report' that no report of this survey can have",
    ),
}


@pytest.mark.parametrize("case", BAD_REPORTS)
def test_tables_of_reports(case, survey, table, at_work, refused):
    reason, change, needle = BAD_REPORTS[case]
    bad = change(table)
    assert says(InvalidReportError, lambda: survey.tally(bad), needle).reason == reason
    if case != "column twice":
        pq.write_table(bad, "bad.parquet")
        assert (
            says(InvalidReportError, lambda: survey.tally("bad.parquet"), needle).reason == reason
        )
        assert needle in refused("query", "count", "survey.toml", "bad.parquet", "1 <= age <= 2")
        assert needle in refused("query", "histogram", "survey.toml", "bad.parquet", "age")


def test_a_bad_report_far_behind_is_named(survey, table):
    bad = BAD_REPORTS["padding"][1](table).cast(table.schema)
    later = pa.concat_tables([table] * 5 + [bad])
    says(InvalidReportError, lambda: survey.tally(later), "report 17 ")


def test_files_of_reports(survey, table, at_work, refused):
    whole = (at_work / "reports.parquet").read_bytes()
    (at_work / "half.parquet").write_bytes(whole[: len(whole) // 2])
    (at_work / "tail.parquet").write_bytes(whole[len(whole) // 2 :])
    (at_work / "nothing.parquet").write_bytes(b"")
    (at_work / "folder").mkdir()
    for name in ("half", "tail", "nothing", "folder", "people.csv", "survey.toml", "none"):
        path = name if (at_work / name).exists() else f"{name}.parquet"
        assert path in refused("query", "count", "survey.toml", path)
        wrong = says(InvalidReportError, lambda path=path: survey.tally(path), path)
        assert wrong.reason == "file"


@pytest.mark.parametrize("nonsense", [None, 3, b"abc", [1], ["abc"], [None], [b""], {"a": 1}])
def test_reports_that_are_none(survey, nonsense):
    says(InvalidReportError, lambda: survey.tally(nonsense))


def test_what_is_no_bytes_is_counted(survey, table):
    seen = Counter()
    good = pack.pack(survey, table)
    kept = pack.unpack(survey, [good[0], 3, None, "text", b"", good[1]], refused=seen)
    assert pack.pack(survey, kept) == good[:2]
    assert seen == {"kind": 3, "length": 1}


def test_places_where_nothing_can_be_saved(survey, tally, tmp_path):
    for path in (tmp_path, tmp_path / "none" / "file"):
        says(InvalidSpecError, lambda path=path: survey.save(path), "cannot write", path)
        wrong = says(InvalidReportError, lambda path=path: tally.save(path), "cannot write", path)
        assert wrong.reason == "file"


# One person --------------------------------------------------------------------------------------

PERSON = {"age": 30, "income": 1.5, "region": "north", "often": "never"}


@pytest.mark.parametrize(
    ("change", "needles"),
    [
        ({"age": 130}, ("age is outside 0 to 99", "clip=True")),
        ({"age": None}, ("age is missing",)),
        ({"age": True}, ("age holds bool",)),
        ({"income": True}, ("income holds bool",)),
        ({"region": "North"}, ("region is not one of 'north', 'south'",)),
    ],
    ids=str,
)
def test_one_person_has_no_rows(survey, change, needles):
    wrong = says(InvalidValueError, lambda: survey.report({**PERSON, **change}), *needles)
    assert "row 1" not in str(wrong)
    assert wrong.attribute == next(iter(change))
    assert wrong.row is None


def test_a_person_without_a_value(survey):
    person = {("Age" if name == "age" else name): value for name, value in PERSON.items()}
    says(InvalidValueError, lambda: survey.report(person), "'age'", "did you mean 'Age'?")


def test_one_person_is_clipped_when_asked(survey):
    assert len(survey.report({**PERSON, "age": 130}, clip=True)) == pack.packed_size(survey)


# Questions ---------------------------------------------------------------------------------------

BAD_QUESTIONS = [
    ({"foo": 1}, "'foo'", "'age', 'income', 'region', 'often'"),
    ({"incme": (0, 9)}, "'incme'", "did you mean 'income'?"),
    ({"Region": "north"}, "'Region'", "'region' differs only in its case"),
    ({3: 1}, "3"),
    ({None: 1}, "None"),
    ({"age": (30, 20)}, "30 to 20", "empty range", "swapped", "20 to 30"),
    ({"age": "18"}, "'18'", "in numbers and not in text"),
    ({"age": (200, 300)}, "200 to 300", "0 to 99"),
    ({"age": (None, -1)}, "up to -1"),
    ({"age": (INF, None)}, "inf"),
    ({"age": (0.2, 0.8)}, "0.2 to 0.8"),
    ({"age": []}, "empty list"),
    ({"age": np.array([])}, "empty list"),
    ({"age": (1, 2, 3)}, "(1, 2, 3)"),
    ({"age": (1,)}, "(1,)"),
    ({"age": ()}, "()"),
    ({"age": (NAN, 3)}, "nan"),
    ({"age": (1, NAN)}, "nan"),
    ({"age": ("18", "29")}, "'18'"),
    ({"age": (True, 3)}, "True"),
    ({"age": (0, 10**400)}, "age"),
    ({"age": 100}, "100", "0 to 99"),
    ({"age": 10**5000}, "too large", "0 to 99"),
    ({"age": 1.5}, "1.5"),
    ({"age": "30"}, "'30'"),
    ({"age": None}, "None"),
    ({"age": True}, "True"),
    ({"age": [1, None]}, "None"),
    ({"age": [1, [2]]}, "[2]"),
    ({"age": {1: 2}}, "{1: 2}"),
    ({"age": slice(1, 2)}, "slice"),
    ({"income": (5, 5)}, "5 to 5", "narrower than a bin", "0 to 2000"),
    ({"income": (3200, 3300)}, "narrower than a bin", "2000 to 4000"),
    ({"income": (200_000, None)}, "200,000 and up", "narrower than a bin", "198,000 to 200,000"),
    ({"income": (-7, 0)}, "-7 to 0", "narrower than a bin", "0 to 2000"),
    ({"income": (150_000, 50_000)}, "150,000 to 50,000"),
    ({"income": (300_000, None)}, "300,000 and up"),
    ({"income": (None, -1)}, "up to -1"),
    ({"income": (INF, None)}, "inf"),
    ({"income": (NAN, None)}, "nan"),
    ({"income": (1, 2, 3)}, "(1, 2, 3)"),
    ({"income": ("1", "2")}, "'1'"),
    ({"income": 200_001}, "200001"),
    ({"income": NAN}, "nan"),
    ({"income": INF}, "inf"),
    ({"income": [1, 2]}, "[1, 2]"),
    ({"income": "x"}, "'x'"),
    ({"income": None}, "None"),
    ({"region": "nowhere"}, "'nowhere'", "'north', 'south', 'east'"),
    ({"region": ["north", "nowhere"]}, "'nowhere'"),
    ({"region": []}, "empty list"),
    ({"region": ("north", "south")}, "no order"),
    ({"region": 3}, "3"),
    ({"region": " north"}, "' north'", "'north' differs only in its spaces"),
    ({"region": "SOUTH"}, "'SOUTH'", "'south' differs only in its case"),
    ({"region": "éast"}, "'éast'", "'east' differs only in its accents"),
    ({"region": "nort"}, "'nort'", "did you mean 'north'?"),
    ({"region": None}, "None"),
    ({"region": [["north"]]}, "['north']"),
    ({"often": ("often", "never")}, "often to never"),
    ({"often": ("never", "always")}, "'always'"),
    ({"often": ("never", "rarely", "often")}, "pair"),
    ({"often": (0, 1)}, "0"),
    ({"often": []}, "empty list"),
    ({"often": "always"}, "'always'"),
    ([("age", 1)], "a condition is a text such as", "[('age', 1)]"),
    ("age", "'age'"),
    (3, "3"),
    ([], "[]"),
    ("", "the condition is empty"),
    (0, "0"),
    (False, "False"),
]


@pytest.mark.parametrize(
    ("where", "needles"), [(w, n) for w, *n in BAD_QUESTIONS], ids=lambda v: shown(v)[:40]
)
def test_questions(survey, tally, where, needles):
    lines = 3 if where == "age" else 1
    for query in (
        lambda: tally.count(where),
        lambda: tally.fraction(where),
        lambda: survey.expected_error(where, n=10, prior="worst"),
        lambda: tally.histogram("region", where),
    ):
        says(QueryError, query, *needles, lines=lines)


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ({"age": (-INF, 29)}, {"age": (None, 29)}),
        ({"age": (30, INF)}, {"age": (30, None)}),
        ({"income": (50_000, INF)}, {"income": (50_000, None)}),
        ({"age": np.array(5)}, {"age": 5}),
        ({"age": np.array([5, 6])}, {"age": (5, 6)}),
        ({"age": {5, 6}}, {"age": [5, 6]}),
        (None, {}),
    ],
    ids=repr,
)
def test_questions_that_mean_the_same(tally, where, same):
    one, other = tally.count(where), tally.count(same)
    assert (one.value, one.variance, one.notes) == (other.value, other.variance, other.notes)


@pytest.mark.parametrize(
    ("where", "same", "words"),
    [
        ({"income": (-1e308, 1e308)}, None, "income -1e+308 to 1e+308"),
        ({"income": (-5, 50_000)}, "income < 50_000", "income -5 to 50,000"),
        ("income <= 300_000", None, "income up to 300,000"),
        ("-3 <= age <= 29", "age <= 29", "age -3 to 29"),
        ("age >= 65 and age < 200", "age >= 65", "age 65 to 199"),
    ],
    ids=repr,
)
def test_condition_partly_outside_of_the_domain_has_a_note(tally, where, same, words):
    one, other = tally.count(where), tally.count(same)
    assert (one.value, one.variance) == (other.value, other.variance)
    (note,) = one.notes
    domain = "0 to 200,000" if "income" in words else "0 to 99"
    assert note == f"{words} is partly outside of the domain, {domain}"
    assert note in str(one)


def test_mask_as_a_condition_is_named_by_its_type(tally):
    ages = pd.Series([31, 47, 58], name="age")
    frame = pd.DataFrame({"age": ages})
    for mask in (ages > 40, ages, frame, ages.to_numpy(), pa.array(ages), pa.table(frame)):
        with pytest.raises(QueryError) as error:
            tally.count(mask)
        message = str(error.value)
        assert message.endswith(f", not a {type(mask).__name__}"), message
        assert not any(word in message for word in ("True", "False", "31", "47"))


@pytest.mark.parametrize("attribute", ["foo", None, 3, ["age"]])
def test_histograms_of_what_is_not_there(tally, attribute):
    says(QueryError, lambda: tally.histogram(attribute), repr(attribute), "age")


@pytest.mark.parametrize("bins", [0, -1, 0.5, True, "a", NAN, [5]])
def test_bins_of_a_histogram(tally, bins):
    says(QueryError, lambda: tally.histogram("age", bins=bins), "age", repr(bins))


def test_bins_of_a_histogram_need_numbers(tally):
    says(QueryError, lambda: tally.histogram("region", bins=2), "region", "leave bins out")


def test_a_histogram_of_an_attribute_among_itself(tally):
    says(QueryError, lambda: tally.histogram("age", {"age": (1, 2)}), "age", "remove it")


@pytest.mark.parametrize("about", ["world", "", None, 3])
def test_abouts(tally, about):
    says(QueryError, lambda: tally.count({"age": 3}, target=about), repr(about), "population")
    says(QueryError, lambda: tally.fraction({"age": 3}, target=about), repr(about))
    says(QueryError, lambda: tally.histogram("age", target=about), repr(about))


@pytest.mark.parametrize("level", [0, 1, -1, 2, 95, NAN, INF, "a", None, True])
def test_levels(tally, level):
    says(QueryError, lambda: tally.count({"age": 3}).confidence_interval(level), repr(level))
    says(QueryError, lambda: tally.count({"age": 3}).to_dict(level), repr(level))
    says(QueryError, lambda: tally.histogram("region").to_arrow(level), repr(level))


def test_a_fraction_of_nobody(survey, table):
    says(QueryError, lambda: survey.tally(table.slice(0, 0)).fraction({"age": 3}), "no reports")


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"n": "10"}, "'10'"),
        ({"n": 0}, "0"),
        ({"n": 2.5}, "2.5"),
        ({"n": None}, "None"),
        ({"n": 10**5000}, "too large"),
        ({"prior": None}, "prior"),
        ({"prior": ["a"] * 100}, "array of numbers"),
        ({"prior": {"age": ["a"] * 100}}, "a prior for age"),
        ({"prior": [1, [2, 3]]}, "array of numbers"),
        ({"prior": "even"}, "'even'"),
        ({"weights": [1.0]}, "[1.0]"),
        ({"weights": {"v": [1.0], "w": [1.0]}}, "one name"),
        ({"weights": {"w": ["a"]}}, "weights of w"),
    ],
    ids=lambda v: shown(v)[:40],
)
def test_predictions_of_nonsense(survey, options, needle):
    says(
        QueryError,
        lambda: survey.expected_error({"age": (0, 9)}, **{"n": 1, "prior": "worst"} | options),
        needle,
    )


@pytest.mark.parametrize(
    "n", ["5", 0, -1, 1.5, NAN, 10**16, 10**400, 10**5000], ids=lambda n: shown(n)[:12]
)
def test_explanations_of_nonsense(survey, n):
    wrong = says(QueryError, lambda: survey.explain(n=n), "from 1 to 1,000,000,000,000,000")
    assert len(str(wrong)) < 200


# Questions on the command line -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "needle"),
    [
        (["age =="], "cannot be read here"),
        (["== 3"], "cannot be read here"),
        (["foo == 3"], "no attribute 'foo'"),
        (["age == 1", "age == 3"], "one condition instead of 2"),
        (["age == 1", "region == 'north'", "age == 1"], "one condition instead of 3"),
        (["age == 1 and age == 3"], "exclude each other"),
        (["age == a"], "write a category in quotes, 'a'"),
        (["age == 'a'"], "age is a number, and 'a' is a text"),
        (["'a' <= age <= 'b'"], "'a' is a text"),
        (["1 <= age <= 'b'"], "'b' is a text"),
        (["age >= nan"], "'nan'"),
        (["age <= nan"], "'nan'"),
        (["age == nan"], "'nan'"),
        (["age == inf"], "'inf'"),
        (["18 <= age <= inf"], "'inf'"),
        (["age == 1e999"], "the number is too large"),
        (["3 >= age >= -1e999"], "the number is too large"),
        (["age == " + "9" * 400], "the number is too large"),
        (["age == " + "9" * 5000], "at most 4,000"),
        (["age in [1,,2]"], "cannot be read here"),
        (["age in []"], "the list is empty"),
        (["age in 1"], "a list follows in"),
        (["age=18..29"], "write == for one value, and 18 <= age <= 29 for a range"),
        (["age == 18-29"], "no arithmetic"),
        (["income == 10 to 20.5"], "two values follow each other"),
        (["age == 10...20"], "no '.';"),
        (["age == "], "cannot be read here"),
        (["30 <= age <= 20"], "no age is in this range"),
        (["age == 100"], "100"),
        (["age == 1.5"], "1.5"),
        (["age >= 200"], "200"),
        (["income == 'a'"], "'a'"),
        (["income == nan"], "'nan'"),
        (["income in [1, 2]"], "1 is part of a bin"),
        (["income == 300000"], "300000"),
        (["300000 <= income <= 400000"], "300,000"),
        (["region == 'nowhere'"], "'nowhere'"),
        (["region == north"], "write a category in quotes, 'north'"),
        (["'north' <= region <= 'south'"], "no order"),
        (["'often' <= often <= 'never'"], "no often is in this range"),
        (["'never' <= often <= 'always'"], "'always'"),
    ],
    ids=lambda v: " ".join(v)[:30] if isinstance(v, list) else "",
)
def test_conditions(conditions, needle, at_work, refused):
    line = refused("query", "count", "survey.toml", "reports.parquet", *conditions)
    assert needle in line
    assert (
        refused("query", "count", "survey.toml", "reports.parquet", "--json", *conditions) == line
    )
    plot = ("--plot", "bars.png")
    assert (
        refused("query", "histogram", "survey.toml", "reports.parquet", "age", *conditions, *plot)
        == line
    )
    assert not (at_work / "bars.png").exists()


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (["--foo"], "--foo"),
        (["frobnicate"], "'frobnicate'"),
        (["explain"], "SURVEY"),
        (["certify"], "SURVEY"),
        (["randomize"], "SURVEY"),
        (["randomize", "survey.toml"], "RESPONSES"),
        (["randomize", "survey.toml", "people.csv"], "--output"),
        (["randomize", "survey.toml", "people.csv", "-o"], "-o"),
        (["randomize", "survey.toml", "people.csv", "more.csv", "-o", "out.parquet"], "more.csv"),
        (["query", "count"], "SURVEY"),
        (["query", "count", "survey.toml"], "REPORTS"),
        (["query", "count", "survey.toml", "reports.parquet", "--foo"], "--foo"),
        (["query", "count", "survey.toml", "reports.parquet", "age"], "'age' is neither"),
        (["query", "count", "survey.toml", "reports.parquet", "age:3"], "'age:3' is neither"),
        (["query", "histogram", "survey.toml", "reports.parquet"], "ATTRIBUTE"),
        (["query", "histogram", "survey.toml", "reports.parquet", "foo"], "'foo'"),
        (
            ["query", "histogram", "survey.toml", "reports.parquet", "age", "1 <= age <= 2"],
            "remove it",
        ),
        (["query", "histogram", "survey.toml", "reports.parquet", "age", "--bins", "0"], "0"),
        (["query", "histogram", "survey.toml", "reports.parquet", "age", "--bins", "0.5"], "0.5"),
        (["query", "histogram", "survey.toml", "reports.parquet", "age", "--bins", "wide"], "bins"),
        (
            ["query", "histogram", "survey.toml", "reports.parquet", "region", "--bins", "2"],
            "leave bins out",
        ),
        (
            ["query", "histogram", "survey.toml", "reports.parquet", "age", "--plot", "no/a.png"],
            "no/a.png",
        ),
        (
            ["query", "histogram", "survey.toml", "reports.parquet", "age", "--plot", "a.foo"],
            ".png",
        ),
        (
            ["query", "histogram", "survey.toml", "reports.parquet", "age", "--plot", "."],
            "it is a directory; name a file in it",
        ),
        (["explain", "survey.toml", "--n", "0"], "0"),
        (["explain", "survey.toml", "--n", "-5"], "-5"),
        (["explain", "survey.toml", "--n", "many"], "--n"),
        (["explain", "survey.toml", "--n", "9" * 400], "n is the number of respondents"),
        (["explain", "survey.toml", "extra"], "extra"),
        (["risk"], "SURVEY"),
        (["risk", "survey.toml", "foo"], "'foo'"),
        (["risk", "survey.toml", "--within", "5"], "ATTRIBUTE"),
        (["risk", "survey.toml", "age", "--within", "wide"], "--within"),
        (["risk", "survey.toml", "age", "--prior", "none.csv"], "none.csv"),
        (["risk", "survey.toml", "age", "--reports", "2"], "--reports"),
        (["plan", "survey.toml", "fraction", "age < 2", "--plot", "a.foo"], ".png"),
        (["demo", "-o", "no/demo.png"], "no/demo.png"),
        (["demo", "-o", "demo.docx"], ".png"),
    ],
    ids=lambda v: " ".join(v)[:60] if isinstance(v, list) else "",
)
def test_words_of_the_command_line(words, needle, at_work, refused):
    before = sorted(at_work.iterdir())
    assert needle in refused(*words)
    assert sorted(at_work.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        ["query", "count", "survey.toml", "reports.parquet", "30 <= age <= 20"],
        ["randomize", "survey.toml", "none.csv", "-o", "out.parquet"],
        ["frobnicate"],
    ],
    ids=lambda words: words[0],
)
def test_a_real_process(words, at_work):
    program = "from metricldp.cli.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    one_line(run.stdout, run.stderr)


def test_a_list_of_questions_says_which_is_wrong():
    survey = Survey.design({"age": Integer(0, 99, epsilon=1, per=1)})
    tally = survey.tally(survey.randomize({"age": [1, 2]}))
    says(QueryError, lambda: tally.counts({"age": (1, 2)}), "a list of conditions", "use count")
    wheres = [{"age": (1, 2)}, {"age": (5, 200)}, {"height": 3}]
    says(QueryError, lambda: tally.counts(wheres), "condition 3", "no attribute 'height'")
    assert tally.count({"age": range(18, 30)}) == tally.count({"age": list(range(18, 30))})
