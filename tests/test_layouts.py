"""The three layouts of Table 1 give the same answers, and "auto" says what it chose."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricldp import Categorical, Coins, Integer, QueryError, Survey
from metricldp.channels import CHANNELS
from metricldp.layouts import Table, build, worth_a_table


@st.composite
def surveys(draw):
    names = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True))
    attributes = {}
    for name in names:
        size = draw(st.integers(2, 7))
        mechanism = draw(st.sampled_from(list(CHANNELS)))
        epsilon = draw(st.floats(0.3, 3))
        attributes[name] = Integer(0, size - 1, epsilon=epsilon, mechanism=mechanism)
    return Survey(attributes)


def some_people(survey, n, rng):
    return {name: rng.integers(0, a.size, n) for name, a in survey.attributes.items()}


def close(one, other, n):
    scale = max(abs(one.value), abs(one.variance) ** 0.5, abs(one.bounds[1]) ** 0.5, n)
    assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-9 * scale)
    scale = max(abs(one.variance), abs(one.bounds[1]), n)
    assert one.variance == pytest.approx(other.variance, rel=1e-9, abs=1e-9 * scale)


@settings(max_examples=80)
@given(survey=surveys(), seed=st.integers(0, 10**6))
def test_layouts_agree_for_every_channel(survey, seed):
    rng = np.random.default_rng(seed)
    reports = survey.encode(some_people(survey, 200, rng), coins=Coins.seeded(seed))
    tallies = {k: survey.tally(reports, layout=k) for k in ("reports", "cells", "prefix")}
    for _ in range(4):
        where = {}
        for name, attribute in survey.attributes.items():
            kind = rng.integers(0, 4)
            low, high = sorted(rng.integers(0, attribute.size, 2).tolist())
            if kind == 1:
                where[name] = (low, high)
            elif kind == 2:
                where[name] = sorted({low, high})
        answers = {k: tally.count(where) for k, tally in tallies.items()}
        close(answers["reports"], answers["cells"], 200)
        close(answers["reports"], answers["prefix"], 200)
    name = next(iter(survey.attributes))
    sums = {k: tally.sum(name) for k, tally in tallies.items()}
    close(sums["reports"], sums["cells"], 200 * 7)
    close(sums["reports"], sums["prefix"], 200 * 7)
    assert {k: answer.layout for k, answer in sums.items()} == {k: k for k in tallies}


def test_tables_merge():
    survey = Survey({"a": Integer(0, 6, epsilon=1), "b": Categorical(["x", "y"], epsilon=1)})
    people = {"a": [0, 1, 2, 3] * 20, "b": ["x", "y"] * 40}
    reports = survey.encode(people, coins=Coins.seeded(1))
    where = {"a": (1, 3), "b": "x"}
    halves = [survey.tally(reports.slice(k, 40), layout="cells") for k in (0, 40)]
    for half in halves:
        half.count(where)
    merged = halves[0] + halves[1]
    assert merged._tables.keys() == {("a", "b")}
    assert merged.count(where) == survey.tally(reports, layout="cells").count(where)


def test_auto_builds_a_table_when_it_pays_and_says_so():
    survey = Survey({"a": Integer(0, 30, epsilon=1, mechanism="geometric")})
    tally = survey.tally(survey.encode({"a": [5] * 50}, coins=Coins.seeded(1)))
    used = [tally.count({"a": (k, 20)}).layout for k in range(5)]
    assert used == ["reports", "reports", "prefix", "prefix", "prefix"]
    assert tally.count({"a": (3, 4)}).to_dict()["layout"] == "prefix"
    fresh = survey.tally(survey.encode({"a": [5] * 50}, coins=Coins.seeded(1)))
    many = fresh.counts([{"a": (k, 20)} for k in range(10)])
    assert {answer.layout for answer in many} == {"prefix"}
    assert [a.value for a in many] == [fresh.count({"a": (k, 20)}).value for k in range(10)]
    bits = Survey({"a": Integer(0, 30, epsilon=1, mechanism="threshold")})
    other = bits.tally(bits.encode({"a": [5] * 50}, coins=Coins.seeded(1)))
    assert other.count({"a": (1, 20)}).layout == "reports"


def test_ten_attributes_need_no_table_of_all():
    survey = Survey({f"v{k}": Integer(0, 63, epsilon=1) for k in range(10)})
    channels = list(survey.channels.values())
    assert not worth_a_table(channels, 10**9)
    rng = np.random.default_rng(1)
    n = 100_000
    reports = survey.encode(some_people(survey, n, rng), coins=Coins.seeded(1))
    for layout in ("auto", "cells", "prefix", "reports"):
        tally = survey.tally(reports, layout=layout)
        tracemalloc.start()
        tally.count({"v2": (10, 40), "v7": (3, 50)})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200e6
    with pytest.raises(QueryError, match="use layout 'reports'"):
        survey.tally(reports, layout="cells").count({f"v{k}": (10, 40) for k in range(10)})
    with pytest.raises(QueryError, match="layout is one of"):
        survey.tally(reports, layout="heap")


def test_a_table_of_bits_and_integers_is_the_sum_of_feature_products():
    survey = Survey(
        {
            "a": Integer(0, 4, epsilon=1, mechanism="threshold"),
            "b": Integer(0, 2, epsilon=1, mechanism="geometric"),
            "c": Integer(0, 3, epsilon=1, mechanism="threshold-paper"),
        }
    )
    rng = np.random.default_rng(3)
    tally = survey.tally(survey.encode(some_people(survey, 300, rng), coins=Coins.seeded(1)))
    batches = tally._batches("abc")
    table = build(batches, survey.channels)
    assert isinstance(table, Table)
    (batch,) = batches
    parts = [survey.channels[k].expand(batch[k]).astype(np.int64) for k in "abc"]
    assert (table.sums == np.einsum("na,nb,nc->abc", *parts)).all()
