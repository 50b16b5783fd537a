"""Every public function and method with nonsense in every argument: only our own refusals come out.

Python's own TypeError is right for an argument that is missing or unknown, and for nothing else.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import metricldp
from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    DistanceMatrix,
    Fit,
    Graph,
    Integer,
    InvalidSpecError,
    Lp,
    Matrix,
    MetricLdpError,
    Ordinal,
    Pool,
    Relative,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tally,
    Totals,
    Tree,
    Unary,
    Waves,
    Weight,
    Workload,
    draft,
    plan,
    pool,
    waves,
)
from metricldp.lab.audit import Command, audit
from metricldp.reports import files
from metricldp.survey.agreement import MOST_ATTRIBUTES
from metricldp.survey.files import LONGEST_TEXT, MOST_KEY_PARTS


class Nasty:
    """Does not like to be looked at."""

    def __repr__(self):
        raise RuntimeError("no")

    __str__ = __repr__


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


HUGE = 1 << 200_000
NASTY = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "a float": 0.5,
    "nan": math.nan,
    "inf": math.inf,
    "huge": HUGE,
    "a fraction": Fraction(1, 3),
    "complex": 1j,
    "no text": "",
    "a text": "nonsense\n\x00",
    "half a letter": "\ud800",
    "bytes": b"\xff",
    "a list": [1, "a", None],
    "an empty list": [],
    "nested": nested(500),
    "a tuple": (1, 2, 3),
    "a set": {1, "a"},
    "a dict": {"a": [1], 2: {}},
    "an empty dict": {},
    "a series": pd.Series([1, 2]),
    "a frame": pd.DataFrame({"a": [1]}),
    "an array": np.arange(4).reshape(2, 2),
    "an array of texts": np.array(["a", "b"]),
    "a type": int,
    "an object": Nasty(),
}

SPEC = SurveySpec({"x": Integer(0, 3, epsilon=1, per=1)})
SURVEY = Survey.design(
    {
        "age": Integer(0, 9, epsilon=1, optional=True, per=1),
        "region": Categorical(["north", "south"], epsilon=1),
        "mood": Ordinal(["bad", "fair", "good"], epsilon=1),
        "income": Continuous(0, 10, bins=5, epsilon=1, per=1),
        "height": Continuous(0, 2, points=3, epsilon=1, rounding="stochastic", per=1),
        "w": Weight(0, 1),
        "v": Weight(0, 1, private=True, epsilon=1),
    }
)
PERSON = {"age": 3, "region": "north", "mood": "fair", "income": 5, "height": 1, "w": 0.5, "v": 0.5}
PEOPLE = {name: [value] * 3 for name, value in PERSON.items()}
TALLY = SURVEY.tally(SURVEY.randomize(PEOPLE))
FIT = TALLY.fit_distribution(["income", "region"])
POOL = pool([TALLY, SURVEY.tally(SURVEY.randomize(PEOPLE))])
WAVES = waves([TALLY, SURVEY.tally(SURVEY.randomize(PEOPLE))])
LINES = Survey.design(
    {
        "age": Integer(0, 9, epsilon=30, per=1),
        "pay": Integer(0, 9, epsilon=30, per=1),
        "region": Categorical(["north", "south"], epsilon=30),
    }
)
LINED = {
    "age": [k % 10 for k in range(200)],
    "pay": [k % 7 for k in range(200)],
    "region": [("north", "south")[k % 3 % 2] for k in range(200)],
}
LINE = LINES.tally(LINES.randomize(LINED)).linear_regression("pay", ["age", "region"])


def accountant():
    result = Accountant()
    result.add(SURVEY)
    return result


# What is called, and arguments that are right, so that one at a time can be wrong.
CALLS = {
    "Integer": (Integer, {"low": 0, "high": 9, "epsilon": 1, "per": 1}),
    "Integer of epsilon alone": (Integer, {"low": 0, "high": 9, "epsilon": 1}),
    "Continuous": (Continuous, {"low": 0, "high": 9, "bins": 3, "epsilon": 1, "per": 1}),
    "Continuous with edges": (Continuous, {"edges": [0, 1, 3], "epsilon": 1, "per": 1}),
    "Continuous with points": (
        Continuous,
        {"low": 0, "high": 9, "points": 3, "rounding": "stochastic", "epsilon": 1, "per": 1},
    ),
    "Ordinal": (Ordinal, {"levels": ["a", "b"], "epsilon": 1}),
    "Categorical": (Categorical, {"categories": ["a", "b"], "epsilon": 1}),
    "Weight": (Weight, {"low": 0, "high": 1, "private": True, "epsilon": 1}),
    "AutoBins": (metricldp.AutoBins, {}),
    "Graph": (lambda **k: on_ten(Graph(**k)), {"edges": [(k, k + 1) for k in range(9)]}),
    "Tree": (
        lambda **k: on_ten(Tree(**k)),
        {"groups": {"a": list(range(5)), "b": list(range(5, 10))}, "lengths": {"a": 1}},
    ),
    "Relative": (
        lambda **k: Survey.design({"v": Integer(1, 9, epsilon=1, metric=Relative(**k))}),
        {"by": 0.1},
    ),
    "Relative bins": (
        lambda metric, **k: Survey.design(
            {"v": Continuous(epsilon=1, metric=Relative(metric), **k)}
        ),
        {"metric": 0.5, "low": 1, "high": 9, "bins": 4},
    ),
    "Integer windows": (
        lambda **k: Survey.design({"v": Integer(0, 20, **k)}),
        {"epsilon": 1, "within": 5, "max_epsilon": 3, "cyclic": True},
    ),
    "SensitiveSet": (lambda **k: on_ten(SensitiveSet(**k)), {"values": [1, 2]}),
    "DistanceMatrix": (
        lambda **k: on_ten(DistanceMatrix(**k)),
        {"rows": [[abs(a - b) for a in range(10)] for b in range(10)]},
    ),
    "Lp": (Lp, {"p": 2}),
    "Matrix": (lambda **k: with_mechanism(Matrix(**k)), {}),
    "Unary": (lambda **k: with_mechanism(Unary(**k)), {}),
    "mechanism": (
        lambda mechanism: Survey.design(
            {"x": Integer(0, 9, epsilon=1, mechanism=mechanism, per=1)}
        ),
        {"mechanism": "auto"},
    ),
    "metric": (
        lambda metric: Survey.design({"x": Integer(0, 9, epsilon=1, metric=metric)}),
        {"metric": Lp(1)},
    ),
    "SurveySpec": (SurveySpec, {"attributes": {"x": Integer(0, 3, epsilon=1, per=1)}}),
    "SurveySpec.from_dict": (SurveySpec.from_dict, {"data": SPEC.to_dict()}),
    "SurveySpec.load": (SurveySpec.load, {"path": "none.toml"}),
    "SurveySpec.save": (SPEC.save, {"path": "folder/spec.toml"}),
    "Survey.design": (Survey.design, {"spec": SPEC}),
    "Survey.design of a dict": (Survey.design, {"spec": dict(SPEC.attributes)}),
    "Survey.fixed": (Survey.fixed, {"attributes": dict(SPEC.attributes)}),
    "Survey.from_dict": (Survey.from_dict, {"data": SURVEY.to_dict()}),
    "Survey.from_toml": (Survey.from_toml, {"text": SURVEY.to_toml()}),
    "Survey.from_json": (Survey.from_json, {"text": SURVEY.to_json()}),
    "Survey.load": (Survey.load, {"path": "none.toml"}),
    "survey.save": (SURVEY.save, {"path": "folder/s.toml"}),
    "survey.verify": (SURVEY.verify, {"fingerprint": SURVEY.fingerprint}),
    "survey.randomize": (SURVEY.randomize, {"data": PEOPLE}),
    "survey.report": (SURVEY.report, {"response": PERSON}),
    "survey.tally": (SURVEY.tally, {"reports": []}),
    "survey.expected_error": (SURVEY.expected_error, {"where": {"age": (1, 2)}, "n": 10}),
    "survey.expected_error of a workload": (
        SURVEY.expected_error,
        {"attribute": "age", "workload": "values", "n": 10, "prior": "uniform"},
    ),
    "plan": (
        plan,
        {"spec": SURVEY, "target_error": 0.1, "where": {"region": "north"}},
    ),
    "plan of a mean": (
        plan,
        {"spec": SURVEY, "target_error": 1, "query": "mean", "attribute": "income", "n": 9000}
        | {"find": "mechanism"},
    ),
    "draft": (draft, {"data": {"a": [1, 2, 3]}}),
    "survey.explain": (SURVEY.explain, {}),
    "survey.risk": (SURVEY.risk, {"attribute": "age"}),
    "survey.block_of": (SURVEY.block_of, {"name": "age"}),
    "Accountant.add": (lambda **k: Accountant().add(**k), {"survey": SURVEY}),
    "accountant.spent": (accountant().spent, {"attribute": "age", "x": 1, "other": 2}),
    "accountant.total": (accountant().total, {"attribute": "age"}),
    "accountant.worst": (accountant().worst, {"attribute": "age"}),
    "Accountant.from_dict": (Accountant.from_dict, {"data": accountant().to_dict()}),
    "Accountant.load": (Accountant.load, {"path": "none.json"}),
    "accountant.save": (accountant().save, {"path": "folder/l.json"}),
    "tally.count": (TALLY.count, {}),
    "tally.counts": (TALLY.counts, {"wheres": [{}]}),
    "tally.fraction": (TALLY.fraction, {}),
    "tally.sum": (TALLY.sum, {"attribute": "age"}),
    "tally.sum of a weight": (TALLY.sum, {"attribute": "v"}),
    "tally.mean": (TALLY.mean, {"attribute": "income"}),
    "tally.fraction in groups": (TALLY.fraction, {"where": "age < 3", "by": "region"}),
    "fit.fraction in groups": (FIT.fraction, {"where": "income < 4", "by": "region"}),
    "pool.fraction in groups": (POOL.fraction, {"where": "age < 3", "by": "region"}),
    "tally.mean in groups": (TALLY.mean, {"attribute": "income", "by": "region"}),
    "fit.mean in groups": (FIT.mean, {"attribute": "income", "by": "region"}),
    "pool.mean in groups": (POOL.mean, {"attribute": "income", "by": "region"}),
    "tally.sum in groups": (TALLY.sum, {"attribute": "income", "by": "region"}),
    "fit.sum in groups": (FIT.sum, {"attribute": "income", "by": "region"}),
    "pool.sum in groups": (POOL.sum, {"attribute": "income", "by": "region"}),
    "tally.variance in groups": (TALLY.variance, {"attribute": "income", "by": "region"}),
    "tally.std in groups": (TALLY.std, {"attribute": "income", "by": "region"}),
    "tally.histogram": (TALLY.histogram, {"attribute": "age"}),
    "tally.cdf": (TALLY.cdf, {"attribute": "income"}),
    "tally.quantile": (TALLY.quantile, {"attribute": "income", "q": 0.5}),
    "tally.quantile in groups": (
        TALLY.quantile,
        {"attribute": "income", "q": 0.5, "by": "region"},
    ),
    "fit.quantile in groups": (FIT.quantile, {"attribute": "income", "q": 0.5, "by": "region"}),
    "tally.quantiles": (TALLY.quantiles, {"attribute": "income", "probabilities": [0.5]}),
    "tally.variance": (TALLY.variance, {"attribute": "age"}),
    "tally.std": (TALLY.std, {"attribute": "income"}),
    "tally.covariance": (TALLY.covariance, {"x": "age", "y": "height"}),
    "tally.correlation": (TALLY.correlation, {"x": "age", "y": "income"}),
    "tally.linear_regression": (
        TALLY.linear_regression,
        {"y": "age", "x": ["region"]},
    ),
    "tally.independence_test": (
        TALLY.independence_test,
        {"x": "age", "y": "region"},
    ),
    "tally.trend_test": (
        TALLY.trend_test,
        {"event": {"region": "north"}, "attribute": "age"},
    ),
    "tally.top_k": (TALLY.top_k, {"attribute": "region", "k": 1}),
    "Regression.to_text": (LINE.to_text, {"confidence_level": 0.9}),
    "table.pvalues": (TALLY.histogram("region").pvalues, {}),
    "tally.workload": (TALLY.workload, {"attribute": "age", "matrix": "values"}),
    "tally.contributions": (
        TALLY.contributions,
        {"where": {"age": (1, 2)}, "attribute": "income"},
    ),
    "tally.with_prior": (
        TALLY.with_prior,
        {"prior": {"age": np.ones(SURVEY.attributes["age"].size)}},
    ),
    "tally.fit_distribution": (TALLY.fit_distribution, {"attributes": ["income", "region"]}),
    "pool.fit_distribution": (POOL.fit_distribution, {"attributes": ["income"]}),
    "pool": (pool, {"tallies": [TALLY]}),
    "Pool": (lambda **k: pool(**k).count(), {"tallies": [TALLY]}),
    "pool.count": (POOL.count, {}),
    "pool.fraction": (POOL.fraction, {"where": {"age": (1, 2)}}),
    "pool.sum": (POOL.sum, {"attribute": "income"}),
    "pool.mean": (POOL.mean, {"attribute": "income"}),
    "pool.histogram": (POOL.histogram, {"attribute": "mood"}),
    "Waves": (waves, {"tallies": [TALLY]}),
    "waves.count": (WAVES.count, {}),
    "waves.fraction": (WAVES.fraction, {}),
    "waves.sum": (WAVES.sum, {"attribute": "income"}),
    "waves.mean": (WAVES.mean, {"attribute": "income"}),
    "waves.quantile": (WAVES.quantile, {"attribute": "income", "q": 0.5}),
    "waves differences": (WAVES.count().differences, {}),
    "Fit.count": (FIT.count, {}),
    "fit.fraction": (FIT.fraction, {}),
    "fit.sum": (FIT.sum, {"attribute": "income"}),
    "fit.mean": (FIT.mean, {"attribute": "income"}),
    "fit.histogram": (FIT.histogram, {"attribute": "income"}),
    "fit.cdf": (FIT.cdf, {"attribute": "income"}),
    "fit.quantile": (FIT.quantile, {"attribute": "income", "q": 0.5}),
    "fit.quantiles": (FIT.quantiles, {"attribute": "income", "probabilities": [0.5]}),
    "fit.workload": (FIT.workload, {"attribute": "income", "matrix": "values"}),
    "tally.add": (lambda **k: SURVEY.tally([]).add(**k), {"collected": []}),
    "tally.save": (TALLY.save, {"path": "folder/t.parquet"}),
    "Tally.of": (Tally.of, {"survey": SURVEY, "collected": []}),
    "Totals": (Totals, {"survey": SURVEY, "keep": [["age"]]}),
    "Tally.load": (Tally.load, {"survey": SURVEY, "path": "none.parquet"}),
    "estimate.confidence_interval": (TALLY.count().confidence_interval, {}),
    "estimate.confidence_interval of a count": (TALLY.count({"age": 1}).confidence_interval, {}),
    "estimate.poisoning_bounds": (TALLY.count().poisoning_bounds, {"malicious": 1}),
    "table.confidence_interval": (TALLY.histogram("age").confidence_interval, {}),
    "expected error.margin": (SURVEY.expected_error(n=10).margin, {}),
    "Command": (Command, {"command": "cat"}),
    "audit": (audit, {"survey": SURVEY, "n": 0}),
    "Workload.from_rows": (Workload.from_rows, {"rows": [[1, 2]]}),
}


def about(name):
    """Calls with one attribute's value, column or condition."""
    yield f"count where {name}", lambda meant: TALLY.count({name: meant})
    yield (
        f"predict where {name}",
        lambda meant: SURVEY.expected_error({name: meant}, n=1, prior="worst"),
    )
    yield f"report {name}", lambda value: SURVEY.report({**PERSON, name: value})
    yield f"encode {name}", lambda values: SURVEY.randomize({**PEOPLE, name: values})
    yield f"encode {name} in", lambda value: SURVEY.randomize({**PEOPLE, name: [value] * 3})


CALLS |= {
    what: (call, dict.fromkeys(inspect.signature(call).parameters, 0))
    for name in SURVEY.attributes
    for what, call in about(name)
}


def on_ten(metric):
    return Survey.design({"x": Integer(0, 9, epsilon=1, metric=metric)})


def with_mechanism(mechanism):
    return Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=mechanism, per=1)})


def is_brief(message):
    """One line; a condition and a mark below it, or examples of guarantees, may follow."""
    _, *more = message.split("\n")
    shows_condition = len(more) == 2 and all(line.startswith("    ") for line in more)
    gives_examples = len(more) == 1 and more[0].startswith("Here within=")
    return len(message) < 2000 and (not more or shows_condition or gives_examples)


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, right = CALLS[name]
    parameters = [
        p.name
        for p in inspect.signature(call).parameters.values()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    for argument in parameters or right:
        if argument == "randomness":
            continue
        for what, nasty in NASTY.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(**{**right, argument: nasty})
            except MetricLdpError as wrong:
                assert is_brief(str(wrong)), (name, argument, what, str(wrong))
            except Exception as wrong:
                raise AssertionError(f"{name}({argument}={what}): {wrong!r}") from wrong


def test_coins_are_coins():
    for call in (
        lambda c: SURVEY.randomize(PEOPLE, randomness=c),
        lambda c: SURVEY.report(PERSON, randomness=c),
    ):
        for what, nasty in NASTY.items():
            if nasty is None:
                continue
            with pytest.raises(MetricLdpError, match="randomness"):
                call(nasty)
            assert what


def test_every_public_class_is_called_here():
    """So that a new one is not forgotten; results and exceptions are not made by users."""
    made_by_us = {
        "Estimate",
        "EstimateTable",
        "Interval",
        "Cdf",
        "Quantile",
        "Draft",
        "Certificate",
    }
    made_by_us |= {"ExpectedError", "Explanation", "GoodnessOfFit", "Plan", "Risk", "TestResult"}
    made_by_us |= {"Randomness"}
    for name in metricldp.__all__:
        if isinstance(getattr(metricldp, name), type) and name not in made_by_us:
            thing = getattr(metricldp, name)
            errors = issubclass(thing, Exception)
            assert errors or any(name in called for called in CALLS), name
    for owner, prefix in (
        (Survey, "survey"),
        (Tally, "tally"),
        (Fit, "fit"),
        (Pool, "pool"),
        (Waves, "waves"),
        (Accountant, "accountant"),
        (SurveySpec, "surveyspec"),
    ):
        for method, function in inspect.getmembers(owner, callable):
            if method.startswith("_") or len(inspect.signature(function).parameters) < 2:
                continue
            called = {name.split()[0].lower() for name in CALLS}
            assert f"{prefix}.{method}" in called or method in ("layout_for", "profile", "values")


# Survey files ------------------------------------------------------------------------------------

RICH = {
    "metric": {"p": 2},
    "attributes": {
        "a": {
            "kind": "integer",
            "low": 0,
            "high": 4,
            "epsilon": 1,
            "per": 2,
            "optional": 1,
            "mechanism": "threshold",
        },
        "b": {
            "kind": "integer",
            "low": 0,
            "high": 3,
            "epsilon": 1,
            "metric": {"kind": "graph", "edges": [[0, 1], [1, 2, "1/3"], [2, 3, 2]]},
        },
        "c": {
            "kind": "categorical",
            "categories": ["x", "y", "z"],
            "epsilon": 1,
            "metric": {
                "kind": "tree",
                "groups": {"g": ["x"], "h": {"i": ["y", "z"]}},
                "lengths": [["g", 1]],
            },
        },
        "d": {
            "kind": "ordinal",
            "levels": ["x", "y"],
            "epsilon": 1,
            "metric": {"kind": "sensitive-set", "values": ["x"]},
            "mechanism": "unary",
        },
        "e": {
            "kind": "continuous",
            "low": 0,
            "high": 1,
            "bins": 4,
            "epsilon": 1,
            "per": 1,
            "mechanism": "geometric",
        },
        "f": {"kind": "continuous", "edges": [0, 1, 3], "epsilon": 1, "within": 1},
        "g": {
            "kind": "continuous",
            "rounding": "stochastic",
            "low": 0,
            "high": 1,
            "points": 3,
            "epsilon": 1,
            "per": 1,
            "mechanism": "geometric",
        },
        "h": {"kind": "weight", "low": 0, "high": 1, "private": True, "epsilon": 1},
        "i": {
            "kind": "integer",
            "low": 0,
            "high": 2,
            "epsilon": 1,
            "per": 1,
            "mechanism": {
                "name": "matrix",
                "workload": "ranges",
                "strategy": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
                "reach": 2,
            },
        },
        "j": {
            "kind": "integer",
            "low": 0,
            "high": 1,
            "epsilon": 1,
            "metric": {"kind": "distance-matrix", "rows": [[0, 1], [1, 0]]},
        },
        "k": {"kind": "integer", "low": 0, "high": 4, "epsilon": 1, "per": 1},
        "l": {"kind": "integer", "low": 0, "high": 4, "epsilon": 1, "per": 1},
    },
    "joint": [{"attributes": ["k", "l"], "mechanism": {"name": "hio", "branching": 2}}],
}


BINNED = {
    "attributes": {
        "x": {
            "kind": "continuous",
            "low": 0,
            "high": 1,
            "bins": {"n": 100, "smoothness": 1},
            "epsilon": 1,
            "per": 1,
        }
    }
}
"""The search for bins is slow, so it is not part of the other."""


def places(data, path=()):
    """The path of everything in plain data."""
    yield path
    entries = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in entries:
        yield from places(value, (*path, key))


def changed(data, path, value):
    data = copy.deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


DESIGNED = Survey.design(SurveySpec.from_dict(RICH)).to_dict()


def test_the_rich_survey_is_a_survey():
    survey = Survey.from_dict(DESIGNED)
    assert survey.certify().holds
    assert survey == Survey.design(SurveySpec.from_dict(RICH))


IN_FILES = [
    name for name, value in NASTY.items() if isinstance(value, (int, float, str, list, dict))
]
"""What a file can hold; hexadecimal numbers of TOML have no end."""


def check_files(data, path, read):
    """Nonsense at a place of a file is read, or rejected briefly."""
    for what in IN_FILES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(changed(data, path, NASTY[what]))
        except InvalidSpecError as wrong:
            assert is_brief(str(wrong)), (path, what, str(wrong))
        except Exception as wrong:
            raise AssertionError(f"{path} {what}: {wrong!r}") from wrong


def ids(path):
    return ".".join(map(str, path))


@pytest.mark.parametrize("path", [p for p in places(RICH) if p], ids=ids)
def test_nonsense_anywhere_in_a_spec_file_is_rejected_by_name(path):
    check_files(RICH, path, lambda data: Survey.design(SurveySpec.from_dict(data)))


@pytest.mark.parametrize("path", [p for p in places(BINNED) if p], ids=ids)
def test_nonsense_anywhere_in_a_spec_file_with_automatic_bins_is_rejected_by_name(path):
    check_files(BINNED, path, lambda data: Survey.design(SurveySpec.from_dict(data)))


@pytest.mark.parametrize("path", [p for p in places(DESIGNED) if p], ids=ids)
def test_nonsense_anywhere_in_a_survey_file_is_rejected_by_name(path):
    check_files(DESIGNED, path, lambda data: Survey.from_dict(data).fingerprint)


def test_huge_hexadecimal_numbers_in_a_file():
    for line in ("low = 0x{}", "epsilon = 0x{}", "per = 0x{}", "optional = 0x{}"):
        text = (
            'metricldp = 1\n[attributes.x]\nkind = "integer"\nhigh = 9\nmechanism = "geometric"\n'
        )
        entries = {"low": "low = 0", "epsilon": "epsilon = 1", "per": "per = 1"}
        entries[line.split()[0]] = line.format("f" * 40_000)
        with pytest.raises(InvalidSpecError, match=r"low|epsilon|per|optional"):
            Survey.from_toml(text + "\n".join(entries.values()))


def test_limits_of_a_survey_have_a_clear_line():
    """40 KB of dots took 45 s and 1.6 GB, 20,000 attributes 39 s."""
    deep = "metricldp = 1\n" + ".".join(["a"] * 20_000) + " = 1\n"
    with pytest.raises(InvalidSpecError, match=f"more than {MOST_KEY_PARTS} parts"):
        Survey.from_toml(deep)
    for part in ('"a b"', "'a.b'", "a-b ", '""'):
        with pytest.raises(InvalidSpecError, match=f"more than {MOST_KEY_PARTS} parts"):
            Survey.from_toml("metricldp = 1\n[" + ".".join([part] * 5_000) + "]\n")
    one = Integer(0, 1, epsilon=1, mechanism="randomized-response", per=1)
    with pytest.raises(InvalidSpecError, match=f"use at most {MOST_ATTRIBUTES:,}"):
        Survey.design({f"x{k}": one for k in range(20_000)})
    for read in (Survey.from_toml, Survey.from_json):
        with pytest.raises(InvalidSpecError, match="letters are too many"):
            read(" " * (LONGEST_TEXT + 1))
        with pytest.raises(InvalidSpecError, match="not a"):
            read("[" * 100_000)
    with pytest.raises(InvalidSpecError, match="take too long to be found"):
        Survey.design(
            {"x": Integer(0, 1023, epsilon=1, mechanism=Matrix(strategy="hierarchy"), per=1)}
        )
    text = SURVEY.to_toml() + "# " + "a." * 30 + "\n"
    assert Survey.from_toml(text) == SURVEY


def test_work_grows_with_the_survey_and_not_with_its_square():
    """Counted in look-ups: each attribute's mechanism is asked for, not all of them for each."""
    some = Survey.design(
        {
            f"x{k}": Integer(0, 1, epsilon=1, mechanism="randomized-response", per=1)
            for k in range(300)
        }
    )
    assert some.mechanisms is some.mechanisms
    names = [f"n{k}" for k in range(20_000)]
    assert Categorical(names, epsilon=1).size == 20_000
    with pytest.raises(InvalidSpecError, match="'n5'"):
        Categorical([*names, "n5"], epsilon=1)


# JSON --------------------------------------------------------------------------------------------


def test_a_key_that_stands_twice_is_refused_wherever_it_stands(tmp_path):
    """Languages differ in which of the two they take."""
    text = json.dumps(DESIGNED)
    assert Survey.from_json(text) == Survey.from_dict(DESIGNED)
    for path in (p for p in places(DESIGNED) if p and isinstance(p[-1], str)):
        inner = DESIGNED
        for key in path:
            inner = inner[key]
        entry = f"{json.dumps(path[-1])}: {json.dumps(inner)}"
        assert entry in text
        for again in (entry, f"{json.dumps(path[-1])}: 1"):
            twice = text.replace(entry, f"{entry}, {again}", 1)
            with pytest.raises(InvalidSpecError, match="occurs twice in one object"):
                Survey.from_json(twice)
            (tmp_path / "s.json").write_text(twice)
            with pytest.raises(InvalidSpecError, match="occurs twice in one object"):
                Survey.load(tmp_path / "s.json")
            (tmp_path / "l.json").write_text(
                f'{{"metricldp-ledger": 1, "entries": [{{"note": "", "survey": {twice}}}]}}'
            )
            with pytest.raises(InvalidSpecError, match="occurs twice in one object"):
                Accountant.load(tmp_path / "l.json")
    (tmp_path / "l.json").write_text('{"metricldp-ledger": 1, "entries": [], "entries": []}')
    with pytest.raises(InvalidSpecError, match="occurs twice in one object"):
        Accountant.load(tmp_path / "l.json")


def test_so_is_one_in_the_header_of_totals(tmp_path):
    import hashlib

    survey = Survey.design({"x": Integer(0, 3, epsilon=1, per=1)})
    survey.tally(survey.randomize({"x": [1, 2]}), keep=[("x",)]).save(tmp_path / "t.totals")
    whole = (tmp_path / "t.totals").read_bytes()[:-32]
    twice = whole.replace(b'"n":2', b'"n":2,"n":2', 1)
    assert twice != whole
    (tmp_path / "t.totals").write_bytes(twice + hashlib.sha256(twice).digest())
    with pytest.raises(metricldp.InvalidReportError, match="header"):
        survey.tally(tmp_path / "t.totals")


# Names and pipes ---------------------------------------------------------------------------------


def test_a_column_whose_name_is_no_text(tmp_path):
    """In bytes that are not UTF-8, in a file and in a table."""
    survey = Survey.design({"age": Integer(0, 99, epsilon=1, per=1)})
    people = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3], "other": [1, 2, 3]}), people)
    people.write_bytes(people.read_bytes().replace(b"other", b"\xff\xfehe\xff"))
    reports = tmp_path / "reports.parquet"
    survey.tally(survey.randomize({"age": [1, 2]})).save(reports)
    reports.write_bytes(reports.read_bytes().replace(b"age", b"\xff\xfee"))
    for call in (
        lambda: files.encode_file(survey, people, tmp_path / "out.parquet"),
        lambda: survey.randomize(pq.read_table(people)),
        lambda: survey.tally(people),
        lambda: survey.tally(pq.read_table(people), fingerprint=survey.fingerprint),
        lambda: survey.tally(reports),
        lambda: survey.tally(reports, fingerprint=survey.fingerprint),
    ):
        with pytest.raises(MetricLdpError) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("closed", [">&-", "2>&-", "2>&- >&-", "| true", "<&- >&- 2>&-"])
def test_a_closed_output_is_no_reason_to_shout(closed, tmp_path):
    survey = Survey.design({"age": Integer(0, 99, epsilon=1, per=1)})
    survey.save(tmp_path / "survey.toml")
    (tmp_path / "people.csv").write_text("age\n1\n2\n")
    for words in ("certify survey.toml", "randomize survey.toml people.csv -o out.parquet --force"):
        line = f"{sys.executable} -m metricldp {words} {closed}"
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, check=False)
        assert b"Traceback" not in done.stderr, done.stderr
        assert b"Exception ignored" not in done.stderr, done.stderr
        assert done.returncode == 0
    assert survey.tally(tmp_path / "out.parquet").n == 2
