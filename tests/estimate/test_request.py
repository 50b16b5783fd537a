"""Requests: one description of each query, read from text and run on a tally."""

import inspect
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from metricldp import Categorical, EstimateTable, Integer, QueryError, Randomness, Survey, pool
from metricldp.answers.fitted import Fitted, FittedQuantile
from metricldp.answers.tally import Tally
from metricldp.estimate.request import (
    KINDS,
    Cdf,
    Count,
    Fraction,
    Histogram,
    Independence,
    Mean,
    Quantile,
    Regression,
    Request,
    Sum,
    TopK,
    parameters,
    run,
)

SURVEY = Survey.design(
    {
        "age": Integer(0, 9, epsilon=3, per=1, mechanism="geometric"),
        "pay": Integer(0, 9, epsilon=3, per=1, mechanism="geometric"),
        "region": Categorical(["north", "south"], epsilon=3),
    }
)
ARGUMENTS = {"attribute": "age", "x": "age", "y": "pay", "event": "pay >= 3", "where": "age < 5"}


@pytest.fixture(scope="module")
def tally():
    rng = np.random.default_rng(1)
    data = {
        "age": rng.integers(0, 10, 2000),
        "pay": rng.integers(0, 10, 2000),
        "region": rng.choice(["north", "south"], 2000),
    }
    return SURVEY.tally(SURVEY.randomize(data, randomness=Randomness.seeded(1)))


def example(kind):
    """A request with every required parameter."""
    required = {name: ARGUMENTS[name] for name, one in parameters(kind).items() if one.required}
    return kind.from_text(required)


@pytest.mark.parametrize("name", KINDS)
def test_request_is_frozen_validated_and_runs(name, tally):
    request = example(KINDS[name])
    with pytest.raises(FrozenInstanceError):
        request.confidence_level = 0.5
    request.validate(SURVEY)
    assert isinstance(run(tally, request), EstimateTable) == request.gives_table


@pytest.mark.parametrize("name", KINDS)
def test_every_field_is_documented_once(name):
    kind = KINDS[name]
    described = parameters(kind)
    assert set(described) == {one.name for one in fields(kind)} - set(kind.excluded)
    texts = [one.help for one in described.values()]
    assert all(texts) and len(set(texts)) == len(texts)
    for field, one in described.items():
        assert (kind.__doc__ or "").count(f"    {field}: {one.help}.") == 1


def test_single_estimate_is_a_table_of_one_row(tally):
    table = run(tally, Count(where="age < 5"))
    assert table.to_dict() == EstimateTable.single(tally.count("age < 5")).to_dict()


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        (Count, {}, Count()),
        (Count, {"by": "region"}, Count(by="region")),
        (Count, {"by": ["region", "age"]}, Count(by=["region", "age"])),
        (Count, {"by": "age=0,5,10"}, Count(by={"age": [0, 5, 10]})),
        (Count, {"by": ["region", "age=0,2.5"]}, Count(by={"region": None, "age": [0, 2.5]})),
        (Count, {"confidence_level": "90%"}, Count(confidence_level=0.9)),
        (Count, {"simultaneous": "true"}, Count(simultaneous=True)),
        (Count, {"simultaneous": "0"}, Count()),
        (Count, {"target": "population"}, Count(target="population")),
        (Mean, {"attribute": "age", "where": "age < 5"}, Mean(attribute="age", where="age < 5")),
        (Quantile, {"attribute": "age", "q": "0.9"}, Quantile(attribute="age", q=0.9)),
        (Histogram, {"attribute": "age", "bins": "1e1"}, Histogram(attribute="age", bins=10)),
        (Histogram, {"attribute": "age", "bins": "0,5"}, Histogram(attribute="age", bins=[0, 5])),
        (Regression, {"y": "pay", "x": ["age"]}, Regression(y="pay", x=("age",))),
        (
            Regression,
            {"y": "pay", "x": "region", "base": "region = south"},
            Regression(y="pay", x=("region",), base={"region": "south"}),
        ),
        (
            Independence,
            {"x": "age", "y": "pay", "widths": ["age=5", "pay=2"]},
            Independence(x="age", y="pay", widths={"age": 5.0, "pay": 2.0}),
        ),
    ],
)
def test_texts_are_read(kind, texts, expected):
    assert kind.from_text(texts) == expected


@pytest.mark.parametrize(
    ("kind", "texts", "error"),
    [
        (Count, {"wher": "age < 5"}, "did you mean 'where'?"),
        (Cdf, {"attribute": "age", "by": "region"}, "cdf has no parameter 'by'"),
        (Mean, {}, "mean needs attribute: "),
        (Mean, {"attribute": ""}, "mean needs attribute: "),
        (Fraction, {}, "fraction needs where: "),
        (Count, {"confidence_level": "1"}, "confidence_level is a number between 0 and 1, not 1"),
        (Count, {"confidence_level": "nan"}, "confidence_level: 'nan' is not a number"),
        (Count, {"simultaneous": "yes"}, "simultaneous: write true or false, not 'yes'"),
        (Count, {"target": "all"}, "target is respondents or population, not 'all'"),
        (Count, {"by": "age=10"}, "by: bands have two edges or more"),
        (Count, {"by": ["age", "age=0,5"]}, "by names 'age' twice"),
        (Quantile, {"attribute": "age", "q": "0"}, "q is a number between 0 and 1"),
        (TopK, {"attribute": "age", "k": "0"}, "k is a number above 0"),
        (TopK, {"attribute": "age", "k": "2.5"}, "k: '2.5' is not an integer"),
        (Regression, {"y": "pay", "x": "age", "base": "south"}, "write attribute=value"),
    ],
)
def test_wrong_texts_name_the_parameter(kind, texts, error):
    with pytest.raises(QueryError) as wrong:
        kind.from_text(texts)
    assert error in str(wrong.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Count(confidence_level=1.0),
        lambda: Count(confidence_level="0.9"),
        lambda: Count(target="everyone"),
        lambda: Quantile(attribute="age", q=1),
        lambda: Cdf(attribute="age", by="region"),
        lambda: TopK(attribute="age", k=0),
    ],
)
def test_python_callers_are_checked_as_well(make):
    with pytest.raises(QueryError):
        make()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Count(where="height < 3"), "no attribute 'height'"),
        (Count(where="age < "), "cannot be read"),
        (Count(by="height"), "no attribute 'height'"),
        (Count(by={"age": [5, 3]}), "increase"),
        (Count(by=["age", "pay", "region"]), "an attribute or two"),
        (Count(where="age < 5", by="age"), "defines the groups"),
        (Mean(attribute="age", by="age"), "group by another one"),
        (Mean(attribute="agee"), "did you mean 'age'?"),
        (Fraction(where="age < 5", among="agee < 3"), "did you mean 'age'?"),
        (Regression(y="pay", x=("age", "hour")), "no attribute 'hour'"),
        (Independence(x="age", y="pay", widths={"hour": 2}), "no attribute 'hour'"),
    ],
)
def test_validation_needs_no_reports(request_, error):
    with pytest.raises(QueryError, match=error.replace("?", r"\?")):
        request_.validate(SURVEY)


@pytest.mark.parametrize(
    "request_",
    [
        Count(where="age < 5"),
        Count(where="age < 5", by="region"),
        Fraction(where="age < 5"),
        Fraction(where="age < 5", among="pay > 2"),
        Fraction(where="age < 5", among="pay > 2", by="region"),
        Sum(attribute="age", where="pay > 2", by={"region": None}),
        Mean(attribute="age", by=["region", "pay"]),
        Mean(attribute="pay", by={"age": [0, 5, 10]}),
        Histogram(attribute="age", bins=2),
        Quantile(attribute="age", q=0.25, by="region"),
    ],
    ids=lambda request: f"{request.kind} by {request.by}",
)
def test_requests_run_on_fits_and_pools_as_on_tallies(request_, tally):
    table = run(tally, request_)
    others = [tally.fit_distribution(["age", "pay", "region"])]
    if request_.kind != "quantile":  # of which there is none of a pool
        others.append(pool([tally]))
    for other in others:
        result = run(other, request_)
        assert (result.labels, result.label) == (table.labels, table.label)
        ends = zip(result.confidence_interval(), table.confidence_interval(), strict=True)
        assert all(np.allclose(one, two) for one, two in ends)
    assert all(isinstance(one, Fitted | FittedQuantile) for _, one in run(others[0], request_))
    if len(others) > 1:
        assert run(others[1], request_).values == pytest.approx(table.values)


def test_request_of_no_kind_has_no_result(tally):
    with pytest.raises(NotImplementedError):
        Request().result(tally)


METHODS = {
    "regression": "linear_regression",
    "independence": "independence_test",
    "trend": "trend_test",
    "goodness-of-fit": "goodness_of_fit_test",
}


@pytest.mark.parametrize("name", KINDS)
def test_parameters_are_those_of_the_method(name):
    method = getattr(Tally, METHODS.get(name, name.replace("-", "_")))
    shown = {"confidence_level", "simultaneous"}
    assert set(parameters(KINDS[name])) - shown <= set(inspect.signature(method).parameters)
