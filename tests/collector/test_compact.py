"""Many segments to few: none is read twice, none counted twice, and a bad one stops all."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logbook import KEEP, SURVEY, delivered, honest, records

from metricldp import Integer, QueryError, ReportRefused, Survey
from metricldp.collector.logs import compact as module
from metricldp.collector.logs.compact import compact
from metricldp.collector.logs.output import Output
from metricldp.reports import parquet
from metricldp.reports.arrow import schema
from metricldp.reports.bytes import unpack


def segment(folder, name, some):
    """A file of reports, as a collector seals them."""
    folder.mkdir(exist_ok=True)
    table = unpack(SURVEY, [record[16:] for record in some])
    parquet.write(SURVEY, folder / name, [table])
    return folder / name


def log_segment(folder, name, some, marks=None, **how):
    """A file of records, as a log is written to an object store."""
    folder.mkdir(exist_ok=True)
    marks = schema(SURVEY).metadata if marks is None else marks
    kinds = pa.schema([("id", pa.binary(16)), ("report", pa.binary())], metadata=marks)
    columns = [[record[:16] for record in some], [record[16:] for record in some]]
    pq.write_table(pa.table(columns, schema=kinds), folder / name, **how)
    return folder / name


def counted(folder):
    with Output.opened(SURVEY, folder, "compact", KEEP) as found:
        totals, files = found.totals(), found.files
    whole = SURVEY.tally(files, keep=KEEP) if files else SURVEY.tally([], keep=KEEP)
    assert totals == whole.store
    return whole


def test_segments_are_joined_and_none_is_read_twice(tmp_path, monkeypatch):
    people = records(600)
    for k in range(5):
        segment(tmp_path / "in", f"s{k}.parquet", people[100 * k : 100 * (k + 1)])
    first = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert (first.segments, first.accepted, first.reports) == (5, 500, 500)
    assert counted(tmp_path / "out") == honest(people[:500])
    assert len(list((tmp_path / "out").glob("reports-*.parquet"))) == 1
    segment(tmp_path / "in", "s5.parquet", people[500:])
    shutil.copy(tmp_path / "in" / "s3.parquet", tmp_path / "in" / "copy.parquet")
    read = []
    pieces = module.pieces

    def watched(survey, path, **more):
        read.append(path.name)
        return pieces(survey, path, **more)

    monkeypatch.setattr(module, "pieces", watched)
    second = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert read == ["s5.parquet"]
    assert (second.segments, second.known, second.accepted, second.reports) == (1, 6, 100, 600)
    third = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert (third.segments, third.known, third.accepted) == (0, 7, 0)
    assert read == ["s5.parquet"]
    assert counted(tmp_path / "out") == honest(people)


def test_records_of_logs_count_once_by_their_ids(tmp_path):
    people = records(400)
    sent = delivered(people)
    for k in range(4):
        log_segment(tmp_path / "in", f"l{k}.parquet", sent[k::4])
    first = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert (first.accepted, first.duplicates) == (400, len(sent) - 400)
    log_segment(tmp_path / "in", "l4.parquet", [*people[:50], *records(20, seed=9)])
    segment(tmp_path / "in", "own.parquet", records(30, seed=8))
    second = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert (second.accepted, second.duplicates, second.reports) == (50, 50, 450)
    everybody = [*people, *records(20, seed=9), *records(30, seed=8)]
    assert counted(tmp_path / "out") == honest(everybody)


def test_files_of_one_name_and_size_are_not_taken_for_one(tmp_path):
    """In another folder, or written anew in the same place: nobody is lost, nobody counts twice."""
    (tmp_path / "in").mkdir()
    plain = {"compression": "none", "use_dictionary": False}
    paths = [
        log_segment(tmp_path / "in" / day, "part-0.parquet", records(50, seed=seed), **plain)
        for seed, day in enumerate(("day1", "day2"))
    ]
    assert len({path.stat().st_size for path in paths}) == 1
    first = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert (first.segments, first.accepted) == (2, 100)
    log_segment(tmp_path / "in" / "day1", "part-0.parquet", records(50, seed=7), **plain)
    assert {path.stat().st_size for path in paths} == {paths[1].stat().st_size}
    second = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert (second.segments, second.known, second.accepted) == (1, 1, 50)
    paths[1].touch()  # as a copy has another time: it is read again, and known by its ids
    third = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert (third.segments, third.accepted, third.duplicates) == (1, 0, 50)
    everybody = [one for seed in (0, 1, 7) for one in records(50, seed=seed)]
    assert counted(tmp_path / "out") == honest(everybody)


def test_totals_of_many_collectors_are_merged_once(tmp_path):
    people = records(200)
    for k in range(2):
        segment(tmp_path / f"in{k}", "s.parquet", people[100 * k : 100 * (k + 1)])
        compact(SURVEY, tmp_path / f"in{k}", tmp_path / f"out{k}", keep=KEEP)
    one, two = (SURVEY.tally(next((tmp_path / f"out{k}").glob("*.totals"))) for k in range(2))
    assert one + two == honest(people)
    with pytest.raises(ReportRefused, match="counted already"):
        one + two + one


def test_a_bad_segment_stops_all_and_is_named(tmp_path):
    people = records(300)
    good = segment(tmp_path / "in", "a.parquet", people[:100])
    assert compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP).accepted == 100
    segment(tmp_path / "in", "b.parquet", people[100:200])
    last = segment(tmp_path / "in", "c.parquet", people[200:])
    data = last.read_bytes()

    def refused(reason, name="c.parquet"):
        with pytest.raises(ReportRefused) as wrong:
            compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
        assert wrong.value.reason == reason
        assert name in str(wrong.value)
        assert counted(tmp_path / "out") == honest(people[:100])

    changed = bytearray(data)
    changed[60] ^= 1
    last.write_bytes(changed)
    refused("file")
    last.write_bytes(data[:200])
    refused("file")
    other = Survey({"x": Integer(0, 4, epsilon=1)})
    parquet.write(other, last, [other.encode({"x": [1, 2]})])
    refused("survey")
    pq.write_table(unpack(SURVEY, [people[0][16:]]), last)
    refused("unmarked")
    log_segment(tmp_path / "in", "c.parquet", people[:3], marks={})
    refused("unmarked")
    last.unlink()
    table = SURVEY.tally(good).store.table
    numbers = SURVEY.tally(good).store.counted
    parquet.write(SURVEY, last, [table, table], numbers)  # the same collection, and more
    refused("twice")
    last.write_bytes(data)
    assert compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP).accepted == 200
    assert counted(tmp_path / "out") == honest(people)


def test_bad_records_are_counted_by_reason(tmp_path):
    people = records(20)
    bad = people[3][:16] + b"\x09" + people[3][17:]
    log_segment(tmp_path / "in", "l.parquet", [bad, people[0][:30], *people])
    found = compact(SURVEY, tmp_path / "in", tmp_path / "out", keep=KEEP)
    assert found.refused == {"version": 1, "length": 1}
    assert counted(tmp_path / "out") == honest(people)
    before = sorted((tmp_path / "out").iterdir())
    with pytest.raises(QueryError, match="name another folder"):
        compact(SURVEY, tmp_path / "out", tmp_path / "out", keep=KEEP)
    assert sorted((tmp_path / "out").iterdir()) == before


def test_what_is_read_is_looked_at_before_anything_is_written(tmp_path):
    mine = segment(tmp_path / "in", "reports-mon.parquet", records(20))
    for output in (tmp_path / "in", tmp_path / "in" / "out"):
        with pytest.raises(QueryError, match="name another folder, outside of it"):
            compact(SURVEY, tmp_path / "in", output)
    for source in (tmp_path / "none", tmp_path / "none" / "*.parquet"):
        with pytest.raises(ReportRefused, match=r"no reports file|no file is named like"):
            compact(SURVEY, source, tmp_path / "out")
    assert list((tmp_path / "in").iterdir()) == [mine]
    assert not (tmp_path / "out").exists()
