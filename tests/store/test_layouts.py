"""The three layouts of Table 1 give the same answers, and "auto" says what it chose."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import MECHANISMS
from metricldp import Categorical, Continuous, Integer, QueryError, Randomness, Survey
from metricldp.answers.estimate import to_answers
from metricldp.answers.predict import _indicator_bounds, variance_bounds
from metricldp.answers.queries import parse
from metricldp.store import scan
from metricldp.store.bits import Cuts
from metricldp.store.cubes import Table, build, worth_a_table
from metricldp.store.readings import read


@st.composite
def surveys(draw):
    names = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True))
    attributes = {}
    for name in names:
        size = draw(st.integers(2, 7))
        mechanism = draw(st.sampled_from(list(MECHANISMS)))
        epsilon = draw(st.floats(0.3, 3))
        attributes[name] = Integer(0, size - 1, epsilon=epsilon, mechanism=mechanism, per=1)
    return Survey.design(attributes)


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
    reports = survey.randomize(some_people(survey, 200, rng), randomness=Randomness.seeded(seed))
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
    survey = Survey.design(
        {"a": Integer(0, 6, epsilon=1, per=1), "b": Categorical(["x", "y"], epsilon=1)}
    )
    people = {"a": [0, 1, 2, 3] * 20, "b": ["x", "y"] * 40}
    reports = survey.randomize(people, randomness=Randomness.seeded(1))
    where = {"a": (1, 3), "b": "x"}
    halves = [survey.tally(reports.slice(k, 40), layout="cells") for k in (0, 40)]
    for half in halves:
        half.count(where)
    merged = halves[0] + halves[1]
    assert merged.store._tables.keys() == {("a", "b")}
    assert merged.count(where) == survey.tally(reports, layout="cells").count(where)


def test_auto_builds_a_table_when_it_pays_and_says_so():
    survey = Survey.design({"a": Integer(0, 30, epsilon=1, mechanism="geometric", per=1)})
    tally = survey.tally(survey.randomize({"a": [5] * 50}, randomness=Randomness.seeded(1)))
    used = [tally.count({"a": (k, 20)}).layout for k in range(5)]
    assert used == ["reports", "reports", "prefix", "prefix", "prefix"]
    fresh = survey.tally(survey.randomize({"a": [5] * 50}, randomness=Randomness.seeded(1)))
    many = fresh.counts([{"a": (k, 20)} for k in range(10)])
    assert {answer.layout for _, answer in many} == {"prefix"}
    assert [answer.value for _, answer in many] == [
        fresh.count({"a": (k, 20)}).value for k in range(10)
    ]
    bits = Survey.design({"a": Integer(0, 30, epsilon=1, mechanism="threshold", per=1)})
    other = bits.tally(bits.randomize({"a": [5] * 50}, randomness=Randomness.seeded(1)))
    assert other.count({"a": (1, 20)}).layout == "reports"


def test_ten_attributes_need_no_table_of_all():
    survey = Survey.design({f"v{k}": Integer(0, 63, epsilon=1, per=1) for k in range(10)})
    channels = list(survey.channels.values())
    assert not worth_a_table(channels, 10**9)
    rng = np.random.default_rng(1)
    n = 100_000
    reports = survey.randomize(some_people(survey, n, rng), randomness=Randomness.seeded(1))
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
    survey = Survey.design(
        {
            "a": Integer(0, 4, epsilon=1, mechanism="threshold", per=1),
            "b": Integer(0, 2, epsilon=1, mechanism="geometric", per=1),
            "c": Integer(0, 3, epsilon=1, mechanism="threshold-paper", per=1),
        }
    )
    rng = np.random.default_rng(3)
    tally = survey.tally(
        survey.randomize(some_people(survey, 300, rng), randomness=Randomness.seeded(1))
    )
    batches = tally.store.batches("abc")
    table = build(batches, survey.channels)
    assert isinstance(table, Table)
    (batch,) = batches
    parts = [survey.channels[k].features(batch[k]).astype(np.int64) for k in "abc"]
    assert (table.sums == np.einsum("na,nb,nc->abc", *parts)).all()


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(2, 9), min_size=1, max_size=4),
    epsilon=st.sampled_from([0.1, 1.0, 3.0, 38.0, 64.0]),
    seed=st.integers(0, 10**6),
    target=st.sampled_from(["respondents", "population"]),
)
def test_counts_of_cuts_are_those_of_the_decoders(sizes, epsilon, seed, target):
    """Ranges of threshold bits in closed form, against readings of the same sums."""
    rng = np.random.default_rng(seed)
    names = "abcd"[: len(sizes)]
    survey = Survey.design(
        {
            k: Integer(0, size - 1, epsilon=epsilon, mechanism="threshold", per=1)
            for k, size in zip(names, sizes, strict=True)
        }
    )
    people = {k: rng.integers(0, size, 200) for k, size in zip(names, sizes, strict=True)}
    tally = survey.tally(
        survey.randomize(people, randomness=Randomness.seeded(seed)), layout="reports"
    )
    where = {}
    for k, size in zip(names, sizes, strict=True):
        low, high = sorted(rng.integers(0, size, 2).tolist())
        where[k] = (low, high)
    query = parse(survey, where)
    cuts = Cuts.of(survey, query.factors)
    assert (cuts is None) == (not query.functions)
    first = tally.count(where, target=target)
    again = [tally.count(where, target=target) for _ in range(3)]
    assert all(answer == first for answer in again)  # from rows, then from columns
    readings = read(survey, query.functions)
    if readings.parts:
        sums = readings.named(scan.from_reports(tally.store.batches(names), readings))
        limits = variance_bounds(readings.pairs())
        steps = readings.extremes()
        (slow,) = to_answers(sums, limits, steps, tally.n, [("", ())], target=target)
        assert first.reach(0.9) == pytest.approx(slow.reach(0.9), rel=1e-6, abs=1e-6)
        assert first.value == pytest.approx(slow.value, rel=1e-9, abs=1e-9)
        assert first.variance == pytest.approx(slow.variance, rel=1e-9, abs=1e-9)
        assert first.bounds == pytest.approx(slow.bounds, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("layout", ["auto", "reports", "cells", "prefix"])
def test_many_counts_are_each_of_them(layout):
    """In any company an answer is the same, to the last digit."""
    rng = np.random.default_rng(3)
    survey = Survey.design(
        {
            "a": Integer(0, 30, epsilon=1, mechanism="threshold", per=1),
            "b": Integer(0, 20, epsilon=0.5, mechanism="geometric", per=1),
            "c": Categorical(["x", "y", "z"], epsilon=1),
            "d": Continuous(0, 1, points=6, epsilon=1, per=1, rounding="stochastic"),
        }
    )
    people = {
        "a": rng.integers(0, 31, 3000),
        "b": rng.integers(0, 21, 3000),
        "c": rng.choice(["x", "y", "z"], 3000),
        "d": rng.uniform(0, 1, 3000),
    }
    reports = survey.randomize(people, randomness=Randomness.seeded(3))
    wheres = [None, {}, {"c": "x"}, {"c": ["x", "z"]}, {"d": (0.2, 0.7)}, {"b": [0, 3, 9]}]
    for _ in range(300):
        a, b = (sorted(rng.integers(0, top, 2).tolist()) for top in (31, 21))
        wheres.append({"a": tuple(a), "b": tuple(b)})
    many = survey.tally(reports, layout=layout).counts(wheres)
    other_way = survey.tally(reports, layout=layout).counts(wheres[::-1])
    assert list(many) == list(other_way)[::-1]
    one_by_one = survey.tally(reports, layout=layout)
    for where, (_, answer) in zip(wheres, many, strict=True):
        alone = one_by_one.count(where)
        assert alone.value == pytest.approx(answer.value, rel=1e-9, abs=1e-6)
        assert alone.stderr == pytest.approx(answer.stderr, rel=1e-9, abs=1e-6)
        if layout != "auto":  # which moves on to a table after a few questions
            assert alone == answer
    assert len(survey.tally(reports).counts([])) == 0


def test_bit_columns_in_segments_and_merged(monkeypatch):
    """Several batches, and two tallies with columns of their own put together."""
    monkeypatch.setattr("metricldp.store.raw.MIN_REPORTS_PASSED", 0)
    monkeypatch.setattr("metricldp.reports.arrow.BATCH", 70)
    survey = Survey.design(
        {k: Integer(0, 9, epsilon=1, mechanism="threshold", per=1) for k in "ab"}
    )
    rng = np.random.default_rng(1)
    reports = survey.randomize(
        {k: rng.integers(0, 10, 500) for k in "ab"}, randomness=Randomness.seeded(1)
    )
    wheres = [{"a": (2, 6)}, {"a": (2, 6), "b": (None, 4)}, {"a": (0, 3), "b": [1, 2, 3, 8]}]
    parts = [
        survey.tally(reports.slice(*part), layout="reports") for part in ((0, 200), (200, 300))
    ]
    for tally in parts:
        for where in wheres * 3:
            tally.count(where)
    merged, whole = parts[0] + parts[1], survey.tally(reports, layout="reports")
    assert len(merged.store._columns._segments) == 2
    for where in wheres:
        assert merged.count(where) == whole.count(where)
    for where in wheres * 3:
        assert whole.count(where) == merged.count(where)
    assert whole.store._columns is not None


@pytest.mark.parametrize("epsilon", [0.5, 2, 38, 64])
def test_real_and_nearly_certain_counts_in_all_layouts(epsilon):
    survey = Survey.design(
        {
            "x": Continuous(
                0,
                10,
                points=11,
                epsilon=epsilon,
                mechanism="threshold",
                per=1,
                rounding="stochastic",
            ),
            "y": Integer(0, 31, epsilon=epsilon, mechanism="threshold", per=1),
        }
    )
    rng = np.random.default_rng(1)
    people = {"x": rng.uniform(0, 10, 400), "y": rng.integers(0, 32, 400)}
    reports = survey.randomize(people, randomness=Randomness.seeded(1))
    tallies = [survey.tally(reports, layout=layout) for layout in ("reports", "prefix")]
    for where in ({"x": (3, 6)}, {"x": (2.5, 3.5)}, {"y": (8, 15)}, {"y": (8, None), "x": (0, 4)}):
        for target in ("respondents", "population"):
            one, other = (tally.count(where, target=target) for tally in tallies)
            assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-9)
            assert one.stderr == pytest.approx(other.stderr, rel=1e-6, abs=1e-6)
            assert one.bounds[0] <= one.bounds[1]
            assert target == "respondents" or one.stderr > 1


@settings(max_examples=200)
@given(
    attributes=st.integers(1, 3),
    queries=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_bounds_of_indicators_are_those_of_all_places(attributes, queries, seed, scale):
    """Also where a range has no inside, no outside, or no noise at all."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(attributes):
        square = rng.integers(0, 2, (queries, 4)).astype(float)
        square[rng.random(queries) < 0.2] = rng.integers(0, 2)
        noise = scale * rng.random((queries, 4)) * rng.integers(0, 2, (queries, 1))
        pairs.append((square + noise, square))
    least, most = _indicator_bounds(pairs)
    for query in range(queries):
        added = np.ones((1, 2))
        for second, square in pairs:
            both = np.stack([second[query], square[query]], axis=1)
            added = (added[:, None, :] * both[None]).reshape(-1, 2)
        literal = added[:, 0] - added[:, 1]
        assert least[query] == pytest.approx(literal.min(), rel=1e-9, abs=1e-9)
        assert most[query] == pytest.approx(literal.max(), rel=1e-9, abs=1e-9)
