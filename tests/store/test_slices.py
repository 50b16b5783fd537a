"""Slices: files of others stay, an index is believed only as it was written, and kills are safe."""

import json

import pytest
from lakes import MIXED, written

from metricldp import MetricLdpError, QueryError, ReportRefused
from metricldp.basics import writing
from metricldp.basics.sealed import sealed
from metricldp.store import slices
from metricldp.store.slices import INDEX, Index, slice_files
from tampering import cases

SURVEY = MIXED["all kinds"]
WHERES = [{"a": (1, 3)}, {"b": (0, 2)}]


@pytest.fixture
def sliced(tmp_path):
    folder = written(SURVEY, tmp_path / "reports", [70, 80])
    slice_files(SURVEY, folder, tmp_path / "sliced")
    return tmp_path / "sliced"


def answers(sliced, unmarked=False):
    tally = SURVEY.tally(
        sliced, engine="duckdb", fingerprint=SURVEY.fingerprint if unmarked else None
    )
    return [tally.n, *(tally.count(where) for where in WHERES)]


def refused(sliced, why, unmarked=False):
    with pytest.raises(ReportRefused, match=why) as wrong:
        answers(sliced, unmarked)
    assert "\n" not in str(wrong.value)
    return wrong.value.reason


def test_files_of_others_stay(tmp_path, sliced):
    """Whatever they are called: even as slices were, once."""
    names = ["words-mine.parquet", "rest-2025.parquet", "words-00001.parquet", "note.txt"]
    for name in names:
        (sliced / name).write_bytes(b"mine")
    before = {path.name for path in sliced.iterdir()}
    slice_files(SURVEY, tmp_path / "reports", sliced)
    after = {path.name for path in sliced.iterdir()}
    assert len(after) == len(before)
    assert before & after == {INDEX, *names}
    assert all((sliced / name).read_bytes() == b"mine" for name in names)


def test_an_index_that_is_damaged_names_nothing_to_remove(tmp_path, sliced):
    before = {path.name for path in sliced.iterdir()}
    (sliced / INDEX).write_bytes((sliced / INDEX).read_bytes().replace(b'"n":', b'"m":'))
    refused(sliced, "slice again")
    slice_files(SURVEY, tmp_path / "reports", sliced)
    assert before < {path.name for path in sliced.iterdir()}
    assert answers(sliced)[0] == 150


class Power(Exception):
    """What nobody catches."""


@pytest.mark.parametrize("unmarked", [False, True])
def test_power_may_fail_at_every_step(tmp_path, monkeypatch, sliced, unmarked):
    """The old slices answer, or the new ones do, and never some of each."""
    monkeypatch.setattr(slices, "GROUP", 64)
    monkeypatch.setattr(slices, "GROUPS_PER_FILE", 1)
    old = answers(sliced)
    folder = written(SURVEY, tmp_path / "others", [150], seed=9)
    slice_files(SURVEY, folder, tmp_path / "apart")
    new = answers(tmp_path / "apart")
    assert old != new
    found = []
    for step in range(99):
        calls = iter(range(99))

        def now(*given, calls=calls, step=step, real=writing.os.fsync):
            if next(calls) == step:
                raise Power
            return real(*given)

        with monkeypatch.context() as patch:
            patch.setattr(writing.os, "fsync", now)
            patch.setattr(slices, "_remove", lambda *_: None)
            try:
                slice_files(SURVEY, folder, sliced)
                break
            except Power:
                found.append(answers(sliced, unmarked))
    assert found == [old] * (len(found) - 1) + [new]
    assert len(found) == 14


def test_a_bad_segment_leaves_the_old_slices_alone(tmp_path, monkeypatch, sliced):
    monkeypatch.setattr(slices, "GROUP", 64)
    monkeypatch.setattr(slices, "GROUPS_PER_FILE", 1)
    old, before = answers(sliced), sorted(sliced.iterdir())
    (tmp_path / "reports" / "z.parquet").write_bytes(b"none")
    with pytest.raises(ReportRefused, match=r"z\.parquet"):
        slice_files(SURVEY, tmp_path / "reports", sliced)
    assert sorted(sliced.iterdir()) == before
    assert answers(sliced) == old


def resealed(sliced, change):
    said = json.loads((sliced / INDEX).read_bytes())
    del said["sha256"]
    change(said)
    (sliced / INDEX).write_bytes(sealed(said))


def more(said, by):
    said["n"] += by
    said["files"][0]["n"] += by


@pytest.mark.parametrize(
    "change",
    [
        lambda said: more(said, 1),
        lambda said: more(said, 64),
        lambda said: more(said, -155),
        lambda said: (said["files"].append(said["files"][0]), said.update(n=300)),
        lambda said: said["files"][0].update(sha256={}),
        lambda said: said.update(collections=[]),
        lambda said: said.update(survey=7),
        lambda said: said["files"][0]["sha256"].update({"../reports/part-0.parquet": "0" * 64}),
    ],
)
@pytest.mark.parametrize("unmarked", [False, True])
def test_an_index_must_fit_its_files(sliced, change, unmarked):
    """Even where somebody wrote the right digest into it."""
    resealed(sliced, change)
    assert refused(sliced, INDEX, unmarked) == "checksum"


def test_numbers_of_words_alone_are_checked(tmp_path):
    """Without a column of rows the number is known to within 63."""
    survey = MIXED["bits"]
    slice_files(survey, written(survey, tmp_path / "r", [70]), tmp_path / "s")
    assert Index(survey, tmp_path / "s").n == 70
    resealed(tmp_path / "s", lambda said: more(said, 60))
    with pytest.raises(ReportRefused, match=r"has 2 rows, and sliced\.json says 3"):
        Index(survey, tmp_path / "s", unmarked=True)


def test_words_that_are_no_parquet_are_refused_by_name(sliced):
    words = next(sliced.glob("words-*"))
    words.write_bytes(b"none")
    refused(sliced, words.name)
    refused(sliced, f"cannot read .*{words.name}", unmarked=True)


def test_every_tampered_index_is_refused_or_says_the_same(sliced):
    raw, same, seen = (sliced / INDEX).read_bytes(), answers(sliced), 0
    for case in cases(raw, 300):
        (sliced / INDEX).write_bytes(case)
        try:
            assert answers(sliced) == same, case
        except MetricLdpError as wrong:
            assert "\n" not in str(wrong)
            seen += 1
    assert seen > 250


def test_an_output_in_the_source_is_refused(tmp_path):
    folder = written(SURVEY, tmp_path / "reports", [70])
    for output in (folder, folder / "sliced", folder / "a" / ".." / "b"):
        with pytest.raises(QueryError, match="name another folder, outside of it"):
            slice_files(SURVEY, folder, output)
    assert len(list(folder.iterdir())) == 1
    with pytest.raises(QueryError, match="is read as part of"):  # with its files one level below
        slice_files(SURVEY, tmp_path, tmp_path)
    assert slice_files(SURVEY, folder / "part-0.parquet", folder / "sliced") == 70


def test_an_output_that_can_be_none(tmp_path):
    folder = written(SURVEY, tmp_path / "reports", [70])
    (tmp_path / "afile").write_bytes(b"")
    for output in (tmp_path / "afile", tmp_path / "afile" / "inside"):
        with pytest.raises(ReportRefused, match="cannot write into"):
            slice_files(SURVEY, folder, output)
    with pytest.raises(ReportRefused, match="there is no reports file"):
        slice_files(SURVEY, tmp_path / "none", tmp_path / "out")
    with pytest.raises(QueryError, match="a file is named by"):
        slice_files(SURVEY, folder, "a\0b")
    assert not (tmp_path / "out").exists()
