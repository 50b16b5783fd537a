"""Old ids: in sorted files or in a table, found again whatever happens in between."""

import fcntl
import gc
import random
import threading
import time
import weakref
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from metricldp import Integer, Survey
from metricldp.basics.errors import SurveyError
from metricldp.collector import backups, runs
from metricldp.collector.books import Books
from metricldp.collector.database import DIGEST, MARK, StoreError
from metricldp.collector.envelope import DAY, Upload, today
from metricldp.collector.folder import Collector
from metricldp.collector.sealing import remove_orphans
from metricldp.collector.search import halves, places
from metricldp.collector.settings import Settings
from metricldp.collector.turns import Turns


def upload(survey, ids):
    found = Upload(survey)
    for mark, digest in ids:
        found.add(mark, digest, b"report")
    return found


def some(rng, count, day=None):
    start = (today() if day is None else day).to_bytes(DAY, "big")
    return [(start + rng.randbytes(MARK - DAY), rng.randbytes(DIGEST)) for _ in range(count)]


def other_survey():
    return Survey({"y": Integer(0, 9, epsilon=1, mechanism="threshold")})


@pytest.mark.parametrize("seed", range(4))
def test_against_a_plain_dictionary(collector, wide, monkeypatch, seed):
    """New ids, merges, forgotten days, deleted surveys, by two processes in turn."""
    monkeypatch.setattr(runs, "_AT_ONCE", 16)
    rng = random.Random(seed)
    surveys = [collector.open(each).number for each in (wide, other_survey())]
    known: dict[int, dict[bytes, bytes]] = {number: {} for number in surveys}
    forgotten = dict.fromkeys(surveys, 0)
    ever: dict[int, set[bytes]] = {number: set() for number in surveys}
    processes = [Books(collector.connect()) for _ in range(2)]
    for step in range(60):
        books, number = rng.choice(processes), rng.choice(surveys)
        day = today() - rng.randrange(10)
        new = some(rng, rng.randrange(1, 40), day)
        # Some ids are known to the other survey, which is none of this one's business.
        if rng.random() < 0.5:
            others = [m for other, marks in known.items() if other != number for m in marks]
            new += [(m, rng.randbytes(DIGEST)) for m in others if rng.random() < 0.1]
        old = rng.sample(sorted(known[number].items()), min(7, len(known[number])))
        conflicts = [(mark, rng.randbytes(DIGEST)) for mark, _ in old[:3]]
        # One that was forgotten may still be in memory: it is refused too, by another word.
        new = [(m, d) for m, d in new if m not in ever[number]]
        ever[number].update(m for m, _ in new)
        late = [m for m, _ in new if int.from_bytes(m[:DAY], "big") <= forgotten[number]]
        (found,) = books.take([upload(number, new + old + conflicts)], Counter())
        assert found.duplicate == len(old)
        assert found.refused == Counter({"conflict": len(conflicts), "late": len(late)}) + Counter()
        assert found.accepted == len(new) - len(late)
        known[number].update({m: d for m, d in new if m not in late})
        if rng.random() < 0.4:
            waiting = books.fresh()
            assert rng.choice(processes).ids.merge(0) == waiting
        if step in (25, 45):
            processes[0].ids.merge(0)
            day = today() - 12 + step // 5
            gone = [m for m in known[number] if int.from_bytes(m[:DAY], "big") <= day]
            rng.choice(processes).forget_ids(number, day)
            assert rng.choice(processes).ids.tidy() == len(gone)
            forgotten[number] = day
            for mark in gone:
                del known[number][mark]
        if step == 50:
            collector.delete(other_survey())
            left = surveys.pop()
            del known[left]
    for books in processes:
        books.ids.merge(0)
        books.take([], Counter())
        for number in surveys:
            marks = [*known[number], *(m for m, _ in some(rng, 50))]
            assert books.ids.known(number, marks) == known[number]
            assert books.ids.known(left, marks) == {}
        books.database.close()


def test_runs_stay_few(tmp_path, wide):
    collector = Collector(tmp_path / "c")
    number = collector.open(wide).number
    books, rng = Books(collector.connect()), random.Random(1)
    for _ in range(200):
        books.take([upload(number, some(rng, 10))], Counter())
        books.ids.merge(0)
        sizes = sorted(n for (n,) in books.database.rows("SELECT n FROM runs"))
        assert all(2 * small <= large for small, large in pairwise(sizes))
    assert sum(sizes) == 2000
    assert len(sizes) <= 8
    assert len(list((tmp_path / "c" / runs.FOLDER).iterdir())) == len(sizes)
    for database in (books.database, collector):
        database.close()


def test_ids_that_share_their_last_half_are_told_apart():
    rng = random.Random(3)
    pool = [rng.randbytes(8) + tail * 8 for tail in (b"a", b"b") for _ in range(50)]
    pool += [rng.randbytes(16) for _ in range(50)]
    there, absent = pool[::2], pool[1::2]
    last, first = halves(np.frombuffer(b"".join(there), np.uint8))
    order = np.argsort(last, kind="stable")
    asked = halves(np.frombuffer(b"".join(there + absent), np.uint8))
    found = places(asked, (last[order], first[order]))
    assert [there[order[at]] for at in found[: len(there)]] == there
    assert (found[len(there) :] == -1).all()
    assert (places(asked, (last[:0], first[:0])) == -1).all()


@pytest.fixture
def filled(tmp_path, wide):
    """A folder with ids in a run, and as many new ones."""
    collector = Collector(tmp_path / "c")
    number = collector.open(wide).number
    books, rng = Books(collector.connect()), random.Random(5)
    ids = [some(rng, 30), some(rng, 30)]
    books.take([upload(number, ids[0])], Counter())
    books.ids.merge(0)
    books.take([upload(number, ids[1])], Counter())
    yield collector, books, number, ids[0] + ids[1]
    books.database.close()
    collector.close()


class Dies(BaseException):
    """As a kill: nobody catches it."""


@pytest.mark.parametrize("moment", ["writing", "written", "committing", "committed", "removing"])
def test_a_kill_at_any_moment_loses_no_id(filled, monkeypatch, moment):
    collector, books, number, ids = filled
    database = books.database

    def dies(*_, **__):
        raise Dies

    with monkeypatch.context() as patched:
        if moment == "writing":
            patched.setattr(runs, "_pieces", dies)
        elif moment == "written":
            patched.setattr(Turns, "still_alone", dies)
        elif moment == "committing":
            patched.setattr(database, "commit", dies)
            patched.setattr(Turns, "give_back", lambda *_: None)
            patched.setattr(Turns, "claim", lambda *_: "me")
            patched.setattr(Turns, "holds", lambda *_: True)
        elif moment == "committed":
            patched.setattr(runs.Path, "unlink", dies)
        elif moment == "removing":
            patched.setattr(runs.Path, "unlink", dies)
            patched.setattr(Turns, "give_back", lambda *_: None)
        with pytest.raises(Dies):
            books.ids.merge(0)
    other = Books(collector.connect())
    found = other.take([upload(number, ids)], Counter())[0]
    assert (found.duplicate, found.accepted) == (60, 0)
    database.rows("DELETE FROM leases")
    remove_orphans(other, collector.folder)
    there = {path.name for path in (collector.folder / runs.FOLDER).iterdir()}
    assert there == {*other.ids.names()}
    other.ids.merge(0)
    assert other.take([upload(number, ids)], Counter())[0].duplicate == 60
    other.database.close()


def test_who_lost_the_right_changes_nothing_and_removes_only_its_own_file(filled, monkeypatch):
    collector, books, number, ids = filled
    folder, plain = collector.folder / runs.FOLDER, runs._write

    def slow(*given):
        plain(*given)
        books.database.rows("UPDATE leases SET holder = '1-another'")
        (folder / "another.ids").write_bytes(b"being written")

    monkeypatch.setattr(runs, "_write", slow)
    with pytest.raises(StoreError, match="took over"):
        books.ids.merge(0)
    assert {p.name for p in folder.iterdir()} == {"another.ids", *books.ids.names()}
    assert books.fresh() == 30
    assert books.take([upload(number, ids)], Counter())[0].duplicate == 60
    assert books.ids.merge(0) == 0  # the other has the right now


def test_new_ids_that_went_away_are_not_kept(filled, monkeypatch):
    _, books, _, _ = filled
    plain = runs._write

    def slow(*given):
        plain(*given)
        books.database.rows("DELETE FROM fresh")

    monkeypatch.setattr(runs, "_write", slow)
    with pytest.raises(StoreError, match="let go"):
        books.ids.merge(0)


@pytest.mark.parametrize("cut", [8, 32, 320, None])
def test_ids_that_are_damaged_are_not_taken_for_new(filled, cut):
    """Not at the first try, and not at the next."""
    collector, _, number, ids = filled
    (path,) = (collector.folder / runs.FOLDER).iterdir()
    if cut is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-cut])
    other = Books(collector.connect())
    for _ in range(3):
        with pytest.raises(StoreError, match="restore it from a backup"):
            other.take([upload(number, ids)], Counter())
    other.database.close()


def test_a_failure_that_passes_lets_no_id_pass(filled, monkeypatch):
    """Too many open files, for example."""
    collector, _, number, ids = filled
    other = Books(collector.connect())
    with monkeypatch.context() as patched:
        patched.setattr(runs.np, "memmap", lambda *_: (_ for _ in ()).throw(OSError(24, "many")))
        with pytest.raises(StoreError, match="many"):
            other.take([upload(number, ids)], Counter())
    assert other.take([upload(number, ids)], Counter())[0].duplicate == 60
    other.database.close()


@pytest.mark.parametrize("at", [0, 100, 500, 959])
def test_a_changed_byte_is_found_before_ids_are_written_anew_or_copied(filled, tmp_path, at):
    collector, books, _, _ = filled
    (path,) = (collector.folder / runs.FOLDER).iterdir()
    data = bytearray(path.read_bytes())
    assert len(data) == 960
    data[at] ^= 1
    path.write_bytes(data)
    for asked in (
        lambda: books.ids.merge(0),
        books.ids.tidy,
        lambda: backups.backup(collector, tmp_path / "copy"),
    ):
        with pytest.raises(StoreError, match="was changed"):
            asked()
    assert path.read_bytes() == data


def test_what_a_kill_left_behind_is_removed(filled):
    collector, books, _, _ = filled
    parts = [
        collector.folder / inside / ".metricldp-0123456789abcdef-1"
        for inside in (runs.FOLDER, "segments")
    ]
    for path in parts:
        path.write_bytes(b"half")
    held = (collector.folder / runs.FOLDER / ".metricldp-0123456789abcdef-2").open("wb")
    fcntl.flock(held, fcntl.LOCK_EX)
    assert remove_orphans(books, collector.folder) == 2
    assert not any(path.exists() for path in parts)
    assert Path(held.name).exists()
    held.close()


def test_a_folder_of_an_earlier_version_is_refused(tmp_path):
    with Collector(tmp_path / "c") as collector, collector.using() as (books, _):
        books.database.rows("CREATE TABLE ids (survey, mark, digest)")
    with pytest.raises(StoreError, match="a version before"):
        Collector(tmp_path / "c")


def test_a_copy_is_made_while_reports_come(filled, tmp_path):
    """In steps, it would begin again at every commit and never end."""
    collector, books, number, _ = filled
    rng, stop = random.Random(7), threading.Event()
    books.database.rows("CREATE TABLE large (content)")
    books.database.rows("INSERT INTO large VALUES (zeroblob(20000000))")
    other = collector.connect

    def write():
        own = Books(other())
        while not stop.is_set():
            own.take([upload(number, some(rng, 1))], Counter())
        own.database.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert backups.backup(collector, tmp_path / "copy") >= 60
    finally:
        stop.set()
        writer.join()
    for path in (tmp_path / "copy" / runs.FOLDER).iterdir():
        assert path.stat().st_mode & 0o77 == 0


def test_a_right_that_is_renewed_is_kept(filled, monkeypatch):
    _, books, _, _ = filled
    with books.alone() as holder:
        books.database.rows("UPDATE leases SET until = 0")
        renew = books.renewing(holder)
        renew()
        assert books.database.rows("SELECT until FROM leases") == [(0,)]  # not so soon
        monkeypatch.setattr("time.monotonic", lambda: 1e12)
        renew()
        assert books.database.rows("SELECT until FROM leases")[0][0] > time.time() + 100
        books.database.rows("UPDATE leases SET holder = '1-another'")
        monkeypatch.setattr("time.monotonic", lambda: 2e12)
        with pytest.raises(StoreError, match="took over"):
            renew()


def test_the_kind_of_ids_does_not_change_once_reports_came(collector, wide, books):
    number = collector.open(wide).number
    invited = Settings(proof="invites", key="00" * 32)
    collector.open(wide, invited)
    collector.open(wide, Settings())
    books.take([upload(number, some(random.Random(1), 3))], Counter())
    with pytest.raises(SurveyError, match="3 reports came with proof='none'"):
        collector.open(wide, invited)
    collector.open(wide, Settings(most=10))


def test_a_copy_is_whole_although_files_are_merged_meanwhile(filled, tmp_path, monkeypatch, wide):
    collector, books, number, ids = filled
    plain, merged = backups._copy, []

    def slow(source, target):
        if source.suffix == ".ids" and not merged:
            merged.append(books.ids.merge(0))
        plain(source, target)

    monkeypatch.setattr(backups, "_copy", slow)
    assert backups.backup(collector, tmp_path / "copy") == 60
    assert merged == [30]
    copy = Collector.at(tmp_path / "copy")
    with copy.using() as (own, _):
        assert own.take([upload(number, ids)], Counter())[0].duplicate == 60
        assert len(list((copy.folder / runs.FOLDER).iterdir())) == 1
    copy.close()
    (path,) = (collector.folder / runs.FOLDER).iterdir()
    path.unlink()
    with pytest.raises(StoreError, match="is gone"):
        backups.backup(collector, tmp_path / "another")


def test_a_file_of_ids_tells_nothing_of_the_order(filled):
    collector, books, _, _ = filled
    books.ids.merge(0)
    (path,) = (collector.folder / runs.FOLDER).iterdir()
    words = np.fromfile(path, "<u8").reshape(4, -1)
    assert words.shape == (4, 60)
    assert (np.diff(words[0].astype(float)) > 0).all()
    assert path.stat().st_mode & 0o77 == 0


def test_a_collector_that_nobody_has_any_more_is_closed_at_once(tmp_path, wide):
    """A connection that is still open when a process forks would damage the store."""
    collector = Collector(tmp_path / "c")
    collector.open(wide)
    connection = weakref.ref(collector._books.database._connection)
    assert connection() is not None
    gc.disable()
    try:
        del collector
        assert connection() is None
    finally:
        gc.enable()
