"""A folder that grows: what others have there stays, and a manifest is believed as written only."""

import json
import shutil

import pytest
from logbook import KEEP, SURVEY, honest, records

from metricldp import MetricLdpError, ReportRefused
from metricldp.basics.sealed import sealed
from metricldp.collector.logs.ingest import ingest
from metricldp.collector.logs.output import MANIFEST, Output
from metricldp.collector.logs.sources import FileLog
from tampering import cases

PEOPLE = records(60)
MINE = ["reports-mine.parquet", "ids-x.ids", "totals-mine.totals", "reports-0000001.parquet"]
"""Names like those of a round, but of none."""


@pytest.fixture
def log(tmp_path):
    (tmp_path / "a.log").write_bytes(b"".join(PEOPLE))
    return FileLog(SURVEY, tmp_path / "a.log")


@pytest.fixture
def out(tmp_path, log):
    ingest(SURVEY, log, tmp_path / "out", keep=KEEP, at_once=20)
    return tmp_path / "out"


def opened(folder):
    with Output.opened(SURVEY, folder, "ingest", KEEP) as found:
        return found.files, found.totals()


def names(folder):
    return {path.name for path in folder.iterdir()}


def resealed(folder, **changes):
    said = json.loads((folder / MANIFEST).read_bytes())
    del said["sha256"]
    (folder / MANIFEST).write_bytes(sealed({**said, **changes}))


@pytest.mark.parametrize("name", [*MINE, "reports-000001.parquet"])
def test_without_a_manifest_a_folder_with_such_files_is_refused(tmp_path, log, name):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).write_bytes(b"mine")
    with pytest.raises(ReportRefused, match=f"{name} and no manifest.json.*move the file away"):
        ingest(SURVEY, log, tmp_path / "new")
    assert names(tmp_path / "new") == {name}


def test_with_one_only_the_round_that_did_not_end_is_removed(tmp_path, log, out):
    before = names(out)
    for name in MINE:
        (out / name).write_bytes(b"mine")
    (out / "ids-000004.ids").mkdir()
    for name in ("reports-000004.parquet", "totals-000004.totals", "totals-000002.totals"):
        (out / name).write_bytes(b"of a round that was killed")
    assert ingest(SURVEY, log, out, keep=KEEP).read == 0
    assert names(out) == before | {*MINE, "ids-000004.ids"}
    (out / "reports-000005.parquet").write_bytes(b"of another folder")
    with pytest.raises(ReportRefused, match=r"reports-000005\.parquet is of a round that"):
        opened(out)
    assert (out / "reports-000005.parquet").exists()


def test_a_round_of_nobody_leaves_no_file(tmp_path, log, out):
    (tmp_path / "b.log").write_bytes(b"".join(PEOPLE[:9]))
    before = names(out)
    assert ingest(SURVEY, FileLog(SURVEY, tmp_path / "b.log"), out, keep=KEEP).duplicates == 9
    assert names(out) - before == {"totals-000004.totals"}
    assert opened(out)[1] == honest(PEOPLE).store


@pytest.mark.parametrize(
    "changes",
    [
        {"reports": {}},
        {"n": 61},
        {"round": 2},
        {"round": 0},
        {"totals": ""},
        {"totals": "reports-000001.parquet"},
        {"ids": {"../a.log": "0" * 64}},
        {"collections": []},
        {"n": "60"},
        {"offsets": []},
        {"taken": {"x": 1}},
    ],
)
def test_a_manifest_that_contradicts_itself_removes_nothing(out, changes):
    before = names(out)
    resealed(out, **changes)
    with pytest.raises(ReportRefused, match="begin anew in another folder") as wrong:
        opened(out)
    assert wrong.value.reason == "checksum"
    assert names(out) == before


def test_every_tampered_manifest_is_refused_or_says_the_same(tmp_path, log, out):
    raw, whole, refused = (out / MANIFEST).read_bytes(), honest(PEOPLE), 0
    (out / MINE[0]).write_bytes(b"mine")
    before = names(out) - {"totals-000003.totals"}  # newer ones may replace them
    for case in cases(raw, 300):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(out, copy)
        (copy / MANIFEST).write_bytes(case)
        try:
            ingest(SURVEY, log, copy, keep=KEEP)
            files, totals = opened(copy)
            assert totals == SURVEY.tally(files, keep=KEEP).store == whole.store, case
        except MetricLdpError as wrong:
            assert "\n" not in str(wrong)
            refused += 1
        assert before <= names(copy), case
    assert 230 < refused < 300
