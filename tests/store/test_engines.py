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

from metricldp import Integer, QueryError, ReportRefused, Survey, SurveyError
from metricldp.reports import parquet
from metricldp.store.bits import Digit, counts_from_reports
from metricldp.store.engines import base
from metricldp.store.engines.duckdb import DuckDB
from metricldp.store.engines.folds import OnesFold
from metricldp.store.engines.places import Files, Rows, bits_of
from metricldp.store.lake import Lake
from metricldp.store.slices import INDEX, slice_files

SIZES = [200, 0, 1, 130]
ENGINES = ("duckdb", "polars")
SURVEYS = {**ONE, **MIXED}
TABLED = [name for name in SURVEYS if name != "parts"]
"""All but blocks of several parts, which have no table."""


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """Folders of reports and of slices, made once for each survey."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("lake")
            made[name] = [written(SURVEYS[name], folder / "reports", SIZES)]
            if bits_of(SURVEYS[name]):
                slice_files(SURVEYS[name], made[name][0], folder / "sliced")
                made[name].append(folder / "sliced")
        return made[name]

    return make


def answer(tally, where):
    """A count, or None where bits that are sliced would have to be joined to other columns."""
    try:
        return tally.count(where)
    except QueryError as wrong:
        assert "is sliced to bits" in str(wrong)
        return None


def same(one, other):
    assert (one.value, one.stderr, one.layout) == (other.value, other.stderr, other.layout)
    assert one == other


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TABLED)
def test_answers_are_those_of_all_reports_in_memory(lakes, name, engine):
    survey, folders = SURVEYS[name], lakes(name)
    memory = {k: survey.tally(folders[0], layout=k) for k in ("reports", "cells", "prefix")}
    for folder in folders:
        lake = survey.tally(folder, engine=engine)
        asked = 0
        assert lake.n == sum(SIZES) == memory["prefix"].n
        for where in wheres(survey):
            if found := answer(lake, where):
                same(found, memory[found.layout].count(where))
                asked += 1
        assert asked >= 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [*MIXED, "threshold", "matrix", "local-hashing"])
def test_totals_are_the_same_integers(lakes, name, engine):
    survey = SURVEYS[name]
    names = list(survey.channels)[:3]
    keep = [names[:2], names[-1:], names]
    whole = survey.tally(lakes(name)[0], keep=keep)
    assert survey.tally(lakes(name)[0], keep=keep, engine=engine) == whole
    for folder in lakes(name)[1:]:
        own = [[n for n in names if n in bits_of(survey)]]
        assert survey.tally(folder, keep=own, engine=engine) == survey.tally(
            lakes(name)[0], keep=own
        )


@pytest.mark.parametrize("layout", ["cells", "prefix", "reports"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["integers", "bits", "threshold", "geometric", "block"])
def test_every_layout(lakes, name, engine, layout):
    survey = SURVEYS[name]
    memory = survey.tally(lakes(name)[0], layout=layout)
    for folder in lakes(name):
        lake = survey.tally(folder, engine=engine, layout=layout)
        asked = [answer(lake, where) for where in wheres(survey)]
        for where, found in zip(wheres(survey), asked, strict=True):
            if found is not None and not (layout == "reports" and name == "block"):
                same(found, memory.count(where))
        assert any(found is not None for found in asked)


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
    if bits := bits_of(survey):
        slice_files(survey, folder, folder.parent / "s")
        sliced = survey.tally(folder.parent / "s", keep=[bits[:2]], engine=engine)
        assert sliced == survey.tally(folder, keep=[bits[:2]])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["integers", "bits", "block"])
def test_other_questions(lakes, name, engine):
    survey = SURVEYS[name]
    where = {"b": (0, 1)} if name == "block" else {"c": (1, 2)}
    whole = survey.tally(lakes(name)[0], keep=[list(survey.attributes)])
    lake = survey.tally(lakes(name)[0], engine=engine, layout="prefix")
    if name == "block":
        lake = survey.tally(lakes(name)[0], engine=engine)
    for ask in (
        lambda t: t.mean("a", where),
        lambda t: t.sum("a"),
        lambda t: t.fraction(where),
        lambda t: t.histogram("c")[1],
        lambda t: t.histogram("c", {"a": (1, 2)})[1],
        lambda t: t.quantile("c", 0.4).value,
        lambda t: t.count(where).interval(),
    ):
        assert ask(lake) == ask(whole)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", [{"a": (1, 3)}, {"a": (1, 3), "c": (2, 3)}, {"a": [0, 2, 5]}])
def test_bars_of_bits_given_a_range(lakes, engine, where):
    survey = SURVEYS["bits"]
    memory = survey.tally(lakes("bits")[0], layout="reports")
    for folder in lakes("bits"):
        lake = survey.tally(folder, engine=engine)
        one, two = lake.histogram("b", where), memory.histogram("b", where)
        assert {bar.layout for bar in one} == {"reports"}
        for bar, other in zip(one, two, strict=True):
            same(bar, other)
        assert lake.quantile("b", 0.3, where).value == memory.quantile("b", 0.3, where).value


def test_blocks_of_several_parts_are_grouped(lakes):
    survey = SURVEYS["parts"]
    memory = survey.tally(lakes("parts")[0])
    found = [survey.tally(lakes("parts")[0], engine=engine) for engine in ENGINES]
    for where in wheres(survey):
        one, two = (lake.count(where) for lake in found)
        same(one, two)
        assert one.value == pytest.approx(memory.count(where).value, abs=1e-9)
        assert one.stderr == pytest.approx(memory.count(where).stderr, abs=1e-9)
    with pytest.raises(QueryError, match="ask for counts one after the other"):
        found[0].histogram("c", {"a": (1, 2)})


def test_weights_are_pushed_down(lakes):
    survey = SURVEYS["weight"]
    memory = survey.tally(lakes("weight")[0])
    for engine in ENGINES:
        lake = survey.tally(lakes("weight")[0], engine=engine)
        for where in ({}, {"a": (1, 3)}, {"a": (1, 3), "b": "x"}):
            one, two = lake.sum("w", where), memory.sum("w", where)
            assert one.value == pytest.approx(two.value, rel=1e-12)
            assert one.stderr == pytest.approx(two.stderr, rel=1e-9, abs=1e-9)


def test_the_sign_of_a_digit_is_that_of_its_first_bit():
    """Every product of up to three digits, in words and report by report; a twin is caught."""
    survey = MIXED["bits"]
    table = reports(survey, 200, 3)
    words = {}
    for name, channel in survey.channels.items():
        column = np.frombuffer(b"".join(table[name].to_pylist()), np.uint8).reshape(200, -1)
        for bit in range(channel.bits):
            packed = np.packbits(channel.bit(column, bit), bitorder="little")
            words[f"{name}#{bit}"] = np.concatenate([packed, np.zeros(7, np.uint8)]).view("<i8")

    class Words:
        def __init__(self, turned=False):
            self.turned = turned

        def ones(self, asked):
            return [self.count(one) for one in asked]

        def count(self, one):
            flips = one.flips
            if self.turned and flips:
                second = dict(one.masks)
                flips = [second.get(name, name) for name in flips]
            word = np.full(4, -1)
            for a, b in one.masks:
                word &= words[a] ^ words[b]
            flipped = np.zeros(4, dtype=np.int64)
            for name in flips:
                flipped ^= words[name]
            counted = (word & flipped) if flips else word
            return int(np.bitwise_count(counted.view(np.uint64)).sum())

    a, b, c = survey.channels.values()
    digits = [Digit("a", a, 1, 4), Digit("b", b, 5, None), Digit("c", c, 3, 0)]
    terms = [(), *((d,) for d in digits), tuple(digits[:2]), tuple(digits[1:]), tuple(digits)]
    batch = {
        n: np.frombuffer(b"".join(table[n].to_pylist()), np.uint8).reshape(200, -1) for n in "abc"
    }
    expected = counts_from_reports(terms, [batch])
    named = lambda name, bit: f"{name}#{bit}"  # noqa: E731
    assert base.digit_counts(200, terms, named, Words()) == expected
    assert base.digit_counts(200, terms, named, Words(turned=True)) != expected


def test_ones_are_the_same_by_the_hundred(lakes):
    """What Spark's workers count where a statement would be long, and what DuckDB counts."""
    files = list(lakes("bits")[1].glob("words-*.parquet"))
    asked = [
        base.Ones((), ("a#1",)),
        base.Ones((("a#1", "a#4"),), ()),
        base.Ones((("a#1", "a#4"), ("b#2", "b#3")), ("a#1", "b#2")),
        base.Ones((), ("a#0", "b#8", "c#2")),
    ]
    fold = OnesFold(tuple(asked))
    found = fold([pq.read_table(file) for file in files]).tolist()
    assert found == DuckDB.of_files(files).ones(asked)
    assert fold([]).tolist() == [0] * 4


# Frames, relations and addresses -----------------------------------------------------------------


def test_frames_are_asked_where_they_are_and_vouched_for(lakes):
    survey, (folder, *_) = SURVEYS["integers"], lakes("integers")
    whole = survey.tally(folder, keep=[list("abc")])
    relation = duckdb.read_parquet(f"{folder}/*.parquet")
    frame = pl.scan_parquet(f"{folder}/*.parquet")
    for source in (relation, frame, frame.collect(), f"file://{folder}/*.parquet"):
        with pytest.raises(ReportRefused, match="fingerprint=") as refused:
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
        with pytest.raises(ReportRefused) as refused:
            ask(column(name, values), {name: (1, 2)})
        assert (refused.value.reason, name) == (reason, name)
        assert name in str(refused.value)
    for changed in (table.drop(["b"]), table.append_column("x", pa.array([1] * 50))):
        with pytest.raises(ReportRefused) as refused:
            ask(changed, {"a": (1, 2)})
        assert refused.value.reason == "columns"


def test_weights_out_of_range_are_refused():
    survey = SURVEYS["weight"]
    table = reports(survey, 20, 1)
    for bad in (11.0, -1.0, float("nan"), None):
        changed = table.set_column(2, "w", pa.array([1.0] * 19 + [bad]))
        for source in (duckdb.from_arrow(changed), pl.from_arrow(changed).lazy()):
            lake = survey.tally(source, engine="auto", fingerprint=survey.fingerprint)
            with pytest.raises(ReportRefused, match="impossible value for w"):
                lake.sum("w", {"a": (1, 3)})
            with pytest.raises(ReportRefused, match="impossible value for w"):
                lake.store.weight_squares("w", 3)


def test_counts_that_do_not_add_up_are_refused(lakes):
    """The broken twin of an engine: one group is lost, or the files grow meanwhile."""
    survey = SURVEYS["integers"]

    class Lossy(DuckDB):
        def grouped(self, columns, weight=None):
            return super().grouped(columns, weight).slice(1)

    files = sorted(lakes("integers")[0].glob("*.parquet"))
    for kind, count, good in ((DuckDB, 331, True), (Lossy, 331, False), (DuckDB, 330, False)):
        place = Rows(survey, kind.of_files(files), count, list(survey.fields), Files())
        tally = Lake(survey, [place], engine="duckdb")
        if good:
            assert tally.table_of(("a",)).sums.sum() == 331
            continue
        with pytest.raises(ReportRefused, match="tally them again") as refused:
            tally.table_of(("a",))
        assert refused.value.reason == "sums"


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
@pytest.mark.parametrize("how", ["replaced", "gone", "sliced anew"])
def test_files_that_change_meanwhile_are_named(tmp_path, engine, how):
    """One that has as many reports, too: answers would mix the old and the new."""
    survey = SURVEYS["bits"]
    folder = written(survey, tmp_path / "reports", [70, 80])
    asked = folder
    if how == "sliced anew":
        asked = tmp_path / "sliced"
        slice_files(survey, folder, asked)
    tally = survey.tally(asked, engine=engine)
    tally.count({"a": (1, 2)})
    others = written(survey, tmp_path / "others", [70, 80])
    if how == "sliced anew":
        slice_files(survey, others, asked)
    for path in sorted(folder.glob("*.parquet"))[:1]:
        if how == "gone":
            path.unlink()
        elif how == "replaced":
            (others / path.name).replace(path)
    with pytest.raises(ReportRefused, match="changed since it was checked") as refused:
        tally.store.table_of(tuple(survey.channels)[1:2])
    assert refused.value.reason == "sums"


# Files that should not be counted ----------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return written(SURVEYS["bits"], tmp_path / "reports", [70, 80])


def refused_with(folder, reason, name, engine="duckdb", survey=SURVEYS["bits"], **more):
    with pytest.raises(ReportRefused) as refused:
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
        with pytest.raises(ReportRefused, match=r"part-1\.parquet") as refused:
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


def test_bad_slices_are_refused_by_name(folder, tmp_path):
    survey, sliced = SURVEYS["bits"], tmp_path / "sliced"
    assert slice_files(survey, folder, sliced) == 150
    words = next(sliced.glob("words-*.parquet"))
    data = words.read_bytes()
    words.write_bytes(data[:-1] + b"x")
    refused_with(sliced, "checksum", words.name)
    words.unlink()
    refused_with(sliced, "file", words.name)
    words.write_bytes(data)
    refused_with(sliced, "survey", "sliced", survey=SURVEYS["threshold"])
    assert survey.tally(sliced, engine="duckdb").n == 150
    with pytest.raises(ReportRefused, match="counted already"):
        survey.tally([sliced, sliced], engine="duckdb")
    for fingerprint in (None, survey.fingerprint):
        with pytest.raises(ReportRefused, match="counted already"):
            survey.tally([sliced, folder], engine="duckdb", fingerprint=fingerprint)
    index = (sliced / INDEX).read_text("utf-8")
    for wrong, reason in (
        (index.replace('"n":150', '"n":151', 1), "checksum"),
        (index.replace('sliced":2', 'sliced":1'), "version"),
        ("{}", "file"),
        ("", "file"),
    ):
        (sliced / INDEX).write_text(wrong)
        refused_with(sliced, reason, INDEX if reason != "sums" else "")
    (sliced / INDEX).unlink()
    with pytest.raises(ReportRefused, match=words.name):
        survey.tally(sliced, engine="duckdb")


def test_slices_again_leave_no_old_files(folder, tmp_path):
    survey, sliced = SURVEYS["bits"], tmp_path / "sliced"
    slice_files(survey, folder, sliced)
    slice_files(survey, folder, sliced)
    assert [path.name[:6] for path in sorted(sliced.iterdir())] == [INDEX[:6], "words-"]
    with pytest.raises(QueryError, match="name another folder"):
        slice_files(survey, folder, folder)
    with pytest.raises(QueryError, match="no attribute of this survey reports bits"):
        slice_files(SURVEYS["integers"], folder, sliced)


# One tally among others --------------------------------------------------------------------------


def test_lakes_are_merged_and_added_to(tmp_path):
    survey = SURVEYS["bits"]
    one, two = (written(survey, tmp_path / str(k), [90], seed=k) for k in (1, 2))
    slice_files(survey, two, tmp_path / "sliced")
    whole = survey.tally([one, two], layout="prefix")
    duck = survey.tally(one, engine="duckdb", layout="prefix")
    both = duck + survey.tally(tmp_path / "sliced", engine="polars", layout="prefix")
    duck.add(two)
    for where in wheres(survey):
        same(both.count(where), whole.count(where))
        same(duck.count(where), whole.count(where))
    with pytest.raises(ReportRefused, match="counted already"):
        both.add(one)
    with pytest.raises(ReportRefused, match="counted already"):
        both + survey.tally(one, engine="duckdb")
    assert repr(both) == "<Tally of 180 reports in 2 places>"


def test_what_a_lake_does_not_do_says_what_does(tmp_path):
    survey = SURVEYS["bits"]
    folder = written(survey, tmp_path / "r", [90])
    lake = survey.tally(folder, engine="duckdb")
    with pytest.raises(QueryError, match="keep totals of them"):
        lake.save(tmp_path / "x.parquet")
    with pytest.raises(QueryError, match="tally them without engine="):
        lake.store.batches(["a"])
    with pytest.raises(QueryError, match="an engine is one of"):
        survey.tally(folder, engine="sqlite")
    with pytest.raises(QueryError, match="a layout is one of"):
        survey.tally(folder, engine="duckdb", layout="heap")
    with pytest.raises(SurveyError, match="leave layout="):
        survey.tally(folder, engine="duckdb", layout="cells", keep=[["a"]])
    with pytest.raises(ReportRefused, match="tally others without engine="):
        survey.tally(reports(survey, 9, 1), engine="duckdb")
    with pytest.raises(ReportRefused, match="no file is named like"):
        survey.tally(f"{folder}/none-*.parquet", engine="duckdb")
    totals = survey.tally(folder, engine="duckdb", keep=[list("ab")])
    totals.save(tmp_path / "x.totals")
    assert survey.tally(tmp_path / "x.totals") == totals
    with pytest.raises(ReportRefused, match="counted already"):
        totals.add(folder)


def test_names_that_are_patterns_or_sql(tmp_path):
    survey = Survey({'x"; DROP `y`': Integer(0, 4, epsilon=1, mechanism="geometric")})
    folder = written(survey, tmp_path / "a[1]*b?=2", [40])
    whole = survey.tally(folder, keep=[list(survey.attributes)])
    for engine in ENGINES:
        assert survey.tally(folder, engine=engine, keep=[list(survey.attributes)]) == whole
