"""What `explain` and `certify` say in words agrees with their numbers, from strict to absurd."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Cyclic,
    Graph,
    Integer,
    Lp,
    Ordinal,
    Real,
    Relative,
    SensitiveSet,
    Survey,
    Weight,
)
from metricldp.app import words
from metricldp.metrics import Line, Sensitive, Uniform
from metricldp.survey.strength import (
    BEYOND,
    GRADES,
    NO_PROMISE_ACROSS,
    NO_PROMISE_NEARBY,
    grade,
    together,
    warnings_of,
)

EPSILONS = (0.01, 0.1, 0.4, 1, 2.3, 3, 4.7, 6, 9, 11, 25, 1000)
ORDER = [word for _, word in GRADES] + [BEYOND]
PROMISE = re.compile(r"at most (e\^)?([\d.,]+?) times as likely, ([a-z ]+?)(?:\.| \(|$)", re.M)
WIDTH = re.compile(
    r"epsilon (?:is )?([\d.,]+?)(?: for any two values)?[:,](?: plain [^,]*,)? "
    r"(ha[a-z]+ a[a-z]* [a-z]+|a hint|a strong hint)"
)


def ring(size):
    return Graph([(x, (x + 1) % size) for x in range(size)])


def surveys(epsilon):
    """From one attribute to five, of every kind."""
    kinds = {
        "height": Integer(0, 99, epsilon=epsilon, per=5),
        "town": Categorical(["north", "south", "east"], epsilon=epsilon),
        "hour": Integer(0, 23, epsilon=epsilon, metric=ring(24)),
        "mood": Ordinal(["bad", "fair", "good"], epsilon=epsilon),
        "rent": Continuous(0, 3000, bins=30, epsilon=epsilon, per=300),
    }
    for count in range(1, len(kinds) + 1):
        yield Survey(dict(itertools.islice(kinds.items(), count)))
    yield Survey({"rent": kinds["rent"]})
    yield Survey({"mood": kinds["mood"], "speed": Real(0, 9, points=10, epsilon=epsilon)})
    yield Survey(
        {
            "bill": Weight(0, 9, private=True, epsilon=epsilon),
            "share": Weight(0, 1),
            "site": Categorical(
                ["clinic", "news", "games"], epsilon=epsilon, metric=SensitiveSet(["clinic"])
            ),
        }
    )
    yield Survey({"height": Integer(0, 99, epsilon=epsilon, per=5, mechanism="response")})
    yield Survey({"height": kinds["height"], "mood": kinds["mood"]}, metric=Lp(2))
    if epsilon < 3:
        plane = {x: Integer(0, 4, epsilon=epsilon) for x in ("east", "north")}
        yield Survey(plane, joint={("east", "north"): "planar-laplace"}, metric=Lp(2))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_words_and_numbers_agree(epsilon):
    for survey in surveys(epsilon):
        told = survey.explain()
        text, data = str(told), told.to_dict()
        json.dumps(data)
        assert max(map(len, text.splitlines())) <= 100
        text = text.replace("\n" + " " * 14, " ")
        promises = PROMISE.findall(text)
        body = text.partition("\n\n")[2]
        assert len(promises) == body.count("times as likely") > 0
        for power, number, word in promises:
            times = float(number.replace(",", ""))
            exponent = times if power else math.log(times)
            # The number is rounded up by less than a hundredth.
            assert word in (grade(exponent), grade(exponent - 0.01)), (number, word)
        for number, word in WIDTH.findall(" ".join(body.split())):
            assert word == grade(float(number.replace(",", ""))), (number, word)
        assert grade(data["effective_epsilon"]) == data["words"]
        assert f", {data['words']}" in " ".join(text.rpartition("\n\n")[2].split())
        for entry in data["attributes"]:
            graded = entry["words"]
            assert graded["step"] == grade(entry["epsilon_per_step"])
            assert graded["typical"] == grade(entry["typical_epsilon"])
            assert graded["across"] == grade(entry["effective_epsilon"])
            assert ORDER.index(graded["typical"]) <= ORDER.index(graded["across"])
        assert "nearly the same" not in text


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_promise_that_is_none_is_said_by_both(epsilon):
    for survey in surveys(epsilon):
        told, certificate = survey.explain(), survey.certify()
        assert certificate.holds
        assert list(certificate.warnings) == told.warnings == certificate.to_dict()["warnings"]
        assert told.warnings == told.to_dict()["warnings"] == list(warnings_of(survey))
        assert str(certificate).count("\nwarning: ") == len(told.warnings)
        assert str(told).count("\nWarning: ") == len(told.warnings)
        warned = {line.split(":")[0] for line in told.warnings}
        for entry in told.to_dict()["attributes"]:
            far = entry["effective_epsilon"] > NO_PROMISE_ACROSS
            near = min(entry["epsilon_per_step"], entry["effective_epsilon"]) > NO_PROMISE_NEARBY
            assert (entry["attribute"] in warned) == (near or far), entry
        assert bool(warned) == (
            together(survey) > NO_PROMISE_ACROSS
            or any(e["epsilon_per_step"] > NO_PROMISE_NEARBY for e in told.data["attributes"])
        )


def test_warnings_name_the_pair_and_the_limit():
    def line(**attributes):
        (found,) = Survey(attributes).certify().warnings
        return found

    assert line(age=Integer(0, 99, epsilon=1000)).startswith(
        "age: no promise even between 0 and 1, the nearest two values: a report may "
        "tell them apart (epsilon 1000, above 10)"
    )
    assert line(age=Integer(0, 99, epsilon=1)).startswith(
        "age: no promise between 0 and 99: a report may tell them apart (epsilon 99, above 20)"
    )
    town = Categorical(["north", "south"], epsilon=10.5)
    assert line(town=town).startswith("town: no promise between any two values: a report may")
    nine = {name: Categorical(["x", "y"], epsilon=9) for name in "abc"}
    assert line(**nine).startswith(
        "all attributes together: no promise between people who differ as much as possible: "
        "a report may tell them apart (epsilon 27, above 20)"
    )
    assert not Survey({"age": Integer(0, 2, epsilon=10)}).certify().warnings
    assert not Survey({"a": nine["a"], "b": nine["b"]}).certify().warnings


def test_only_attributes_of_the_survey_are_named():
    text = str(Survey({"x": Integer(0, 9, epsilon=1), "y": Integer(0, 9, epsilon=1)}).explain())
    assert "as x and y may" in text
    assert not re.search(r"\b(age|income|she|her)\b", text)
    text = str(Survey({"x": Integer(0, 9, epsilon=1)}).explain())
    assert "differ as much as possible in x are at" in " ".join(text.split())
    assert "attributes go together" not in text


def test_grades_go_up():
    exponents = [k / 100 for k in range(3000)]
    places = [ORDER.index(grade(exponent)) for exponent in exponents]
    assert places == sorted(places)
    assert set(places) == set(range(4))
    assert [grade(math.log(times)) for times, _ in GRADES] == ORDER[:-1]
    assert grade(6) == BEYOND


@pytest.mark.parametrize("size", [2, 3, 7, 24])
def test_mean_distances(size):
    third = Categorical([str(x) for x in range(size)], epsilon=1).unit / 3
    metrics = [Line(third), Uniform(third), Sensitive(frozenset({0}), third)]
    metrics.append(Sensitive(frozenset(range(size)), third))
    if size > 2:
        metrics.append(Integer(0, size - 1, epsilon=1, metric=ring(size)).distances)
    for metric in metrics:
        pairs = itertools.combinations(range(size), 2)
        found = [float(metric.distance(x, other)) for x, other in pairs]
        assert metric.mean(size) == pytest.approx(sum(found) / len(found))


def test_windows_circles_and_ratios_are_explained_as_they_are_meant():
    hour = Cyclic(24, epsilon=1, within=2, cap=4)
    price = Continuous(1_000, 100_000, bins=20, epsilon=1, metric=Relative(0.5))
    told = str(Survey({"hour": hour, "price": price}).explain())
    assert "epsilon 1 within 2, never above 4" in told
    assert "nearer ones are hidden no better: neighbours are told apart by the whole" in told
    assert "at full width (0 against 12) epsilon is 4" in told
    assert "epsilon 1 for every 50 % between middles of bins" in told
    assert "values that differ by 50 %, up to 2 bins apart: at most 3.12 times as likely" in told
    assert "one twice the other, up to 4 bins apart: at most 9.70 times as likely" in told


def test_channels_of_shapes_are_held_against_simpler_ones():
    survey = Survey({"age": Integer(0, 49, epsilon=1, within=5)})
    (entry,) = survey.explain().to_dict()["attributes"]
    least = survey.channels["age"].mean_range_variance()
    assert entry["variance"] == pytest.approx(least)
    plain = Survey({"age": Integer(0, 49, epsilon=1, within=5, mechanism="unary")})
    found = plain.channels["age"].mean_range_variance()
    assert entry["others"]["unary"] == pytest.approx(found)
    assert f"unary {found / least:,.3g}" in str(survey.explain())


@pytest.mark.parametrize("by", [0.1, 0.5, 1])
@pytest.mark.parametrize("edges", [None, (1, 1.5, 4, 5, 30, 31, 100)])
def test_ratios_in_bins_are_as_far_apart_as_it_says(by, edges):
    """Over many pairs of values of that ratio; the farthest of them is what is told, or less."""
    said = {"bins": 20, "low": 1, "high": 100} if edges is None else {"edges": edges}
    price = Continuous(**said, epsilon=1, metric=Relative(by))
    values = np.concatenate(
        [np.geomspace(1, 100 / (1 + by), 2000), price.bin_edges[1:] * (1 - 1e-12)]
    )
    pairs = [(v, v * (1 + by)) for v in values if v * (1 + by) <= 100]
    most = max(float(price.distance(v, w)) for v, w in pairs)
    found, bins = words._most_apart(price, 1 + by)
    assert found == pytest.approx(most)
    assert bins == max(price.position(w) - price.position(v) for v, w in pairs)


def test_channels_do_not_stand_beside_themselves():
    sites = Categorical(list("abcd"), epsilon=1, mechanism="tents", metric=SensitiveSet(["a"]))
    (found,) = Survey({"site": sites}).explain().to_dict()["attributes"]
    assert "tents" not in found["others"] and "unary" in found["others"]


def test_promises_of_circles_bins_and_tables_in_words():
    told = str(Survey({"hour": Integer(0, 23, epsilon=1, within=2, cyclic=True)}).explain())
    assert "whole numbers from 0 to 23, around a circle, blurred by" in told
    bins = {name: Continuous(0, 3, bins=3, epsilon=1, within=1) for name in ("east", "north")}
    told = str(Survey(bins, joint={tuple(bins): {"name": "designed", "metric": "plane"}}).explain())
    assert "this holds for the values themselves, wherever in their bins" in told
    assert "Together: all attributes are blurred as one." in told
    told = str(Survey({"x": Real(0, 10, points=21, epsilon=1, within=1.2)}).explain())
    assert "The price: points up to 4 steps apart are kept at epsilon," in told


def test_a_block_says_what_an_attribute_would_cost_alone():
    ages = {name: Integer(0, 7, epsilon=0.3) for name in ("age", "hours")}
    told = Survey(ages, joint=[["age", "hours"]]).explain(n=1_000)
    alone = Survey({"age": ages["age"]}).explain(n=1_000).to_dict()["attributes"][0]
    entry = told.to_dict()["attributes"][0]
    assert entry["error_alone"] == alone["error_uniform"] < entry["error_uniform"]
    own, one = entry["error_alone"], entry["error_uniform"]
    # Of half of the people an error is larger by the root of two; weights are inverse variances.
    half = (1 / (1 / (2 * own**2) + 1 / (2 * one**2))) ** 0.5
    assert f"blurred by itself it would be ± {own:,.0f}\n" in str(told)
    assert f"by half of the people by itself, and by half as here: ± {half:,.0f};\n" in str(told)
    assert "all of the block would then have up to 1.41 times the error" in str(told)
    assert words.of_margin(5.0, 7.0) == ["            blurred by itself it would be ± 7"]
