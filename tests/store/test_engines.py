"""Engines find the integers of totals and the floats of a tally in memory, wherever reports are."""

import shutil

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import MIXED, ONE, reports, wheres, written
from test_layouts import surveys

from metricldp import Integer, InvalidReportError, InvalidSpecError, QueryError, Survey
from metricldp.reports import parquet
from metricldp.store.bits import Digit, counts_from_reports
from metricldp.store.engines.duckdb import DuckDB
from metricldp.store.engines.places import Files, Rows
from metricldp.store.lake import Lake

SIZES = [200, 0, 1, 130]
ENGINES = ("duckdb", "polars")
SURVEYS = {**ONE, **MIXED}
TABLED = [name for name in SURVEYS if name != "parts"]
"""All but blocks of several parts, which have no table."""


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Folders of reports, written once for each survey."""
    folders = {}

    def folder(name):
        if name not in folders:
            path = tmp_path_factory.mktemp("lake") / "reports"
            folders[name] = written(SURVEYS[name], path, SIZES)
        return folders[name]

    return folder


def same(one, other):
    assert (one.value, one.stderr, one.layout) == (other.value, other.stderr, other.layout)
    assert one == other


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TABLED)
def test_answers_are_those_of_all_reports_in_memory(lakes, name, engine):
    survey, folder = SURVEYS[name], lakes(name)
    memory = {k: survey.tally(folder, layout=k) for k in ("reports", "cells", "prefix")}
    lake = survey.tally(folder, engine=engine)
    assert lake.n == sum(SIZES) == memory["prefix"].n
    for where in wheres(survey):
        count = lake.count(where)
        same(count, memory[count.layout].count(where))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [*MIXED, "threshold", "matrix", "local-hashing"])
def test_totals_are_the_same_integers(lakes, name, engine):
    survey = SURVEYS[name]
    names = list(survey.channels)[:3]
    keep = [names[:2], names[-1:], names]
    whole = survey.tally(lakes(name), keep=keep)
    assert survey.tally(lakes(name), keep=keep, engine=engine) == whole


@pytest.mark.parametrize("layout", ["cells", "prefix", "reports"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["integers", "bits", "threshold", "geometric", "block"])
def test_every_layout(lakes, name, engine, layout):
    survey = SURVEYS[name]
    memory = survey.tally(lakes(name), layout=layout)
    lake = survey.tally(lakes(name), engine=engine, layout=layout)
    for where in wheres(survey):
        count = lake.count(where)
        if not (layout == "reports" and name == "block"):
            same(count, memory.count(where))


@settings(max_examples=12)
@given(
    survey=surveys(),
    sizes=st.lists(st.sampled_from([0, 1, 63, 64, 65, 150]), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
    engine=st.sampled_from(ENGINES),
)
def test_any_survey_in_any_segments(tmp_path_factory, survey, sizes, seed, engine):
    folder = written(survey, tmp_path_factory.mktemp("any") / "r", sizes, seed)
    keep = [list(survey.attributes)]
    whole = survey.tally(folder, keep=keep)
    assert survey.tally(folder, keep=keep, engine=engine) == whole


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["integers", "bits", "block"])
def test_other_questions(lakes, name, engine):
    survey = SURVEYS[name]
    where = {"b": (0, 1)} if name == "block" else {"c": (1, 2)}
    whole = survey.tally(lakes(name), keep=[list(survey.attributes)])
    lake = survey.tally(lakes(name), engine=engine, layout="prefix")
    if name == "block":
        lake = survey.tally(lakes(name), engine=engine)
    for ask in (
        lambda t: t.mean("a", where),
        lambda t: t.sum("a"),
        lambda t: t.fraction(where),
        lambda t: t.histogram("c").iloc[1],
        lambda t: t.histogram("c", {"a": (1, 2)}).iloc[1],
        lambda t: t.quantile("c", 0.4).value,
        lambda t: t.count(where).confidence_interval(),
    ):
        assert ask(lake) == ask(whole)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", [{"a": (1, 3)}, {"a": (1, 3), "c": (2, 3)}, {"a": [0, 2, 5]}])
def test_bars_of_bits_given_a_range(lakes, engine, where):
    survey = SURVEYS["bits"]
    memory = survey.tally(lakes("bits"), layout="reports")
    lake = survey.tally(lakes("bits"), engine=engine)
    one, two = lake.histogram("b", where), memory.histogram("b", where)
    assert one.labels == two.labels
    assert {bar.layout for _, bar in one} == {"reports"}
    for (_, bar), (_, other) in zip(one, two, strict=True):
        same(bar, other)
    found, expected = (tally.quantile("b", 0.3, where) for tally in (lake, memory))
    assert found.position == expected.position  # also if the value is NaN
    assert found.confidence_interval() == expected.confidence_interval()


def test_blocks_of_several_parts_are_grouped(lakes):
    survey = SURVEYS["parts"]
    memory = survey.tally(lakes("parts"))
    found = [survey.tally(lakes("parts"), engine=engine) for engine in ENGINES]
    for where in wheres(survey):
        one, two = (lake.count(where) for lake in found)
        same(one, two)
        assert one.value == pytest.approx(memory.count(where).value, abs=1e-9)
        assert one.stderr == pytest.approx(memory.count(where).stderr, abs=1e-9)
    with pytest.raises(QueryError, match="use counts one after the other"):
        found[0].histogram("c", {"a": (1, 2)})


def test_weights_are_pushed_down(lakes):
    survey = SURVEYS["weight"]
    memory = survey.tally(lakes("weight"))
    for engine in ENGINES:
        lake = survey.tally(lakes("weight"), engine=engine)
        for where in ({}, {"a": (1, 3)}, {"a": (1, 3), "b": "x"}):
            one, two = lake.sum("w", where), memory.sum("w", where)
            assert one.value == pytest.approx(two.value, rel=1e-12)
            assert one.stderr == pytest.approx(two.stderr, rel=1e-9, abs=1e-9)


def test_products_of_digits_against_enumeration():
    """Up to three digits, report by report; a digit with its ends exchanged is detected."""
    survey = MIXED["bits"]
    table = reports(survey, 200, 3)
    batch = {
        n: np.frombuffer(b"".join(table[f"{n}=report"].to_pylist()), np.uint8).reshape(200, -1)
        for n in "abc"
    }
    digits = [Digit("a", 1, 4), Digit("b", 5, None), Digit("c", 3, 0)]
    terms = [(), *((d,) for d in digits), tuple(digits[:2]), tuple(digits[1:]), tuple(digits)]

    def value(digit):
        signs = [
            2 * survey.channels[digit.name].bit(batch[digit.name], bit).astype(int) - 1
            for bit in (digit.first, digit.second)
            if bit is not None
        ]
        return signs[0] if digit.second is None else (signs[0] - signs[1]) // 2

    expected = [int(np.prod([np.ones(200), *map(value, term)], axis=0).sum()) for term in terms]
    assert counts_from_reports(terms, survey.channels, [batch]) == expected
    exchanged = [(digits[0]._replace(first=4, second=1),), *terms[2:]]
    assert (
        counts_from_reports(exchanged, survey.channels, [batch])[0] == -expected[1] != expected[1]
    )


# Frames, relations and addresses -----------------------------------------------------------------


def test_frames_are_asked_where_they_are_and_vouched_for(lakes):
    survey, folder = SURVEYS["integers"], lakes("integers")
    whole = survey.tally(folder, keep=[list("abc")])
    relation = duckdb.read_parquet(f"{folder}/*.parquet")
    frame = pl.scan_parquet(f"{folder}/*.parquet")
    for source in (relation, frame, frame.collect(), f"file://{folder}/*.parquet"):
        with pytest.raises(InvalidReportError, match="fingerprint=") as refused:
            survey.tally(source, engine="auto")
        assert refused.value.reason == "unmarked"
        assert (
            survey.tally(source, engine="auto", fingerprint=survey.fingerprint, keep=[list("abc")])
            == whole
        )
    with pytest.raises(QueryError, match="engine='polars'"):
        survey.tally(frame, engine="duckdb", fingerprint=survey.fingerprint)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_no_device_could_send_is_refused(engine):
    survey = SURVEYS["all kinds"]
    table = reports(survey, 50, 1)

    def ask(changed, where):
        source = duckdb.from_arrow(changed) if engine == "duckdb" else pl.from_arrow(changed).lazy()
        return survey.tally(source, engine=engine, fingerprint=survey.fingerprint).count(where)

    def column(name, values):
        return table.set_column(table.schema.get_field_index(name), name, values)

    assert ask(table.replace_schema_metadata(None), {"b": (1, 2)})
    wide = [0] * 49
    size = survey.fields["b"].outputs
    for name, values, reason in (
        ("b", pa.array([*wide, size]), "range"),
        ("b", pa.array([*wide, None], pa.uint8()), "missing"),
        ("b", pa.array([*wide, -1]), "range"),
        ("b", pa.array([0.5] * 50), "columns"),
        ("a", pa.array([b"\xff"] * 50), "range"),
        ("a", pa.array([b"\x00\x00"] * 50), "columns"),
        ("c", pa.array([b"\xff" * survey.fields["c"].width] * 50), "range"),
    ):
        with pytest.raises(InvalidReportError) as refused:
            ask(column(f"{name}=report", values), {name: (1, 2)})
        assert (refused.value.reason, name) == (reason, name)
        assert name in str(refused.value)
    for changed in (table.drop(["b=report"]), table.append_column("x", pa.array([1] * 50))):
        with pytest.raises(InvalidReportError) as refused:
            ask(changed, {"a": (1, 2)})
        assert refused.value.reason == "columns"


def test_weights_out_of_range_are_refused():
    survey = SURVEYS["weight"]
    table = reports(survey, 20, 1)
    for bad in (11.0, -1.0, float("nan"), None):
        changed = table.set_column(2, "w=report", pa.array([1.0] * 19 + [bad]))
        for source in (duckdb.from_arrow(changed), pl.from_arrow(changed).lazy()):
            lake = survey.tally(source, engine="auto", fingerprint=survey.fingerprint)
            with pytest.raises(InvalidReportError, match="impossible value for w"):
                lake.sum("w", {"a": (1, 3)})
            with pytest.raises(InvalidReportError, match="impossible value for w"):
                lake.store.weight_squares("w", 3)


def test_counts_that_do_not_add_up_are_refused(lakes):
    """The broken twin of an engine: one group is lost, or the files grow meanwhile."""
    survey = SURVEYS["integers"]

    class Lossy(DuckDB):
        def grouped(self, columns, weight=None):
            return super().grouped(columns, weight).slice(1)

    files = sorted(lakes("integers").glob("*.parquet"))
    for kind, count, good in ((DuckDB, 331, True), (Lossy, 331, False), (DuckDB, 330, False)):
        place = Rows(survey, kind.of_files(files), Files(), count)
        tally = Lake(survey, [place], engine="duckdb")
        if good:
            assert tally.table_of(("a",)).sums.sum() == 331
            continue
        with pytest.raises(InvalidReportError, match="tally them again") as refused:
            tally.table_of(("a",))
        assert refused.value.reason == "sums"


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
@pytest.mark.parametrize("how", ["replaced", "gone"])
def test_files_that_change_meanwhile_are_named(tmp_path, engine, how):
    """One that has as many reports, too: answers would mix the old and the new."""
    survey = SURVEYS["bits"]
    folder = written(survey, tmp_path / "reports", [70, 80])
    tally = survey.tally(folder, engine=engine)
    tally.count({"a": (1, 2)})
    others = written(survey, tmp_path / "others", [70, 80])
    for path in sorted(folder.glob("*.parquet"))[:1]:
        if how == "gone":
            path.unlink()
        elif how == "replaced":
            (others / path.name).replace(path)
    with pytest.raises(InvalidReportError, match="changed since it was checked") as refused:
        tally.store.table_of(tuple(survey.channels)[1:2])
    assert refused.value.reason == "sums"


# Files that should not be counted ----------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return written(SURVEYS["bits"], tmp_path / "reports", [70, 80])


def refused_with(folder, reason, name, engine="duckdb", survey=SURVEYS["bits"], **more):
    with pytest.raises(InvalidReportError) as refused:
        survey.tally(folder, engine=engine, **more).count({"a": (1, 2)})
    assert refused.value.reason == reason
    assert name in str(refused.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_segments_are_refused_by_name(folder, engine):
    last = folder / "part-1.parquet"
    data = last.read_bytes()
    changed = bytearray(data)
    changed[40] ^= 1
    for content, reason in (
        (data[: len(data) // 2], "file"),
        (bytes(changed), "file"),
        (b"", "file"),
        (data[:-60] + data[-52:], "file"),
    ):
        last.write_bytes(content)
        with pytest.raises(InvalidReportError, match=r"part-1\.parquet") as refused:
            SURVEYS["bits"].tally(folder, engine=engine)
        assert refused.value.reason in (reason, "checksum")
    last.unlink()
    shutil.copy(folder / "part-0.parquet", last)
    refused_with(folder, "twice", "part-1.parquet", engine)
    refused_with(folder, "twice", "part-1.parquet", engine, fingerprint=SURVEYS["bits"].fingerprint)
    last.unlink()
    parquet.write(SURVEYS["integers"], last, [reports(SURVEYS["integers"], 9, 1)])
    refused_with(folder, "survey", "part-1.parquet", engine)
    refused_with(
        folder, "survey", "part-1.parquet", engine, fingerprint=SURVEYS["bits"].fingerprint
    )
    last.unlink()
    pq.write_table(reports(SURVEYS["bits"], 9, 1).replace_schema_metadata(None), last)
    refused_with(folder, "unmarked", "part-1.parquet", engine)
    assert (
        SURVEYS["bits"].tally(folder, engine=engine, fingerprint=SURVEYS["bits"].fingerprint).n
        == 79
    )


# One tally among others --------------------------------------------------------------------------


def test_lakes_are_merged_and_added_to(tmp_path):
    survey = SURVEYS["bits"]
    one, two = (written(survey, tmp_path / str(k), [90], seed=k) for k in (1, 2))
    whole = survey.tally([one, two], layout="prefix")
    duck = survey.tally(one, engine="duckdb", layout="prefix")
    both = duck + survey.tally(two, engine="polars", layout="prefix")
    duck.add(two)
    for where in wheres(survey):
        same(both.count(where), whole.count(where))
        same(duck.count(where), whole.count(where))
    with pytest.raises(InvalidReportError, match="counted already"):
        both.add(one)
    with pytest.raises(InvalidReportError, match="counted already"):
        both + survey.tally(one, engine="duckdb")
    assert repr(both) == "<Tally of 180 reports in 2 places>"


def test_what_a_lake_does_not_do_says_what_does(tmp_path):
    survey = SURVEYS["bits"]
    folder = written(survey, tmp_path / "r", [90])
    lake = survey.tally(folder, engine="duckdb")
    with pytest.raises(QueryError, match="save totals of them"):
        lake.save(tmp_path / "x.parquet")
    with pytest.raises(QueryError, match="tally them without engine="):
        lake.store.batches(["a"])
    with pytest.raises(QueryError, match="an engine is one of"):
        survey.tally(folder, engine="sqlite")
    with pytest.raises(QueryError, match="a layout is one of"):
        survey.tally(folder, engine="duckdb", layout="heap")
    with pytest.raises(InvalidSpecError, match="leave layout="):
        survey.tally(folder, engine="duckdb", layout="cells", keep=[["a"]])
    with pytest.raises(InvalidReportError, match="tally others without engine="):
        survey.tally(reports(survey, 9, 1), engine="duckdb")
    with pytest.raises(InvalidReportError, match="no file matches"):
        survey.tally(f"{folder}/none-*.parquet", engine="duckdb")
    totals = survey.tally(folder, engine="duckdb", keep=[list("ab")])
    totals.save(tmp_path / "x.totals")
    assert survey.tally(tmp_path / "x.totals") == totals
    with pytest.raises(InvalidReportError, match="counted already"):
        totals.add(folder)


def test_names_that_are_patterns_or_sql(tmp_path):
    survey = Survey.design({'x"; DROP `y`': Integer(0, 4, epsilon=1, mechanism="geometric", per=1)})
    folder = written(survey, tmp_path / "a[1]*b?=2", [40])
    whole = survey.tally(folder, keep=[list(survey.attributes)])
    for engine in ENGINES:
        assert survey.tally(folder, engine=engine, keep=[list(survey.attributes)]) == whole
