"""Sealing: shuffled files for groups, in one step or not at all; batches of at least k."""

import stat
from collections import Counter
from itertools import pairwise

import pytest
from devices import post_all, report_of

from metricldp.basics.errors import InvalidReportError
from metricldp.collector import sealing
from metricldp.collector.backups import backup
from metricldp.collector.books import Books
from metricldp.collector.database import StoreError
from metricldp.collector.envelope import new_id
from metricldp.collector.folder import Collector
from metricldp.collector.sealing import FOLDER, remove_orphans, seal
from metricldp.collector.settings import Settings
from metricldp.reports.bytes import pack


def fill(collector, wide, numbers, at_once=10):
    numbers = list(numbers)
    bodies = [
        b"".join(new_id() + report_of(wide, number) for number in numbers[at : at + at_once])
        for at in range(0, len(numbers), at_once)
    ]
    assert {a.status for a in post_all(collector, wide, bodies)} == {200}


def stored(collector, wide):
    return Counter(pack(wide, collector.tally(wide).store.table))


def files(collector):
    return sorted((collector.folder / FOLDER).glob("*.parquet"))


@pytest.fixture
def number(collector, wide):
    return collector.open(wide).number


def test_groups_become_a_file_that_others_can_read(collector, books, wide, number):
    fill(collector, wide, range(500))
    assert seal(books, collector.folder, wide, number, 501) == 0
    assert seal(books, collector.folder, wide, number, 500) == 500
    (path,) = files(collector)
    assert books.waiting() == {}
    assert sum(books.segments(number).values()) == 500
    expected = Counter(report_of(wide, k) for k in range(500))
    assert stored(collector, wide) == expected
    assert wide.tally(path).n == 500
    # Everything in the file but the reports themselves is the same for any reports.
    with pytest.raises(InvalidReportError, match="counted already"):
        wide.tally([path]).add(path)


def test_a_sealed_file_tells_nothing_of_the_order(collector, books, wide, number):
    """The broken twin is the order of arrival: it would be found."""
    fill(collector, wide, range(1000), 100)
    seal(books, collector.folder, wide, number, 1)
    (path,) = files(collector)
    order = [int.from_bytes(r[17:], "little") for r in pack(wide, wide.tally(path).store.table)]

    def looks_shuffled(numbers):
        # Neighbours that rise: 500 of 999 in a random order, give or take 9 (one standard error).
        rising = sum(a < b for a, b in pairwise(numbers))
        return abs(rising - 499.5) < 6.5 * 9.2

    assert sorted(order) == list(range(1000))
    assert looks_shuffled(order)
    assert not looks_shuffled(sorted(order))


@pytest.mark.parametrize("moment", ["written", "deleted", "named"])
def test_an_end_in_the_middle_leaves_everything_as_it_was(
    collector, books, wide, number, monkeypatch, moment
):
    fill(collector, wide, range(100))

    class Killed(BaseException):
        pass

    def dies(*_):
        raise Killed

    plain = books.seal
    with monkeypatch.context() as broken:
        if moment == "written":  # the file is there, and its transaction has not begun
            broken.setattr(books, "holds", dies)
        elif moment == "deleted":  # the transaction is whole, but not committed
            broken.setattr(books, "seal", lambda *given: (plain(*given), dies()))
        else:
            broken.setattr(sealing, "_write", dies)
        broken.setattr(books, "give_back", lambda *_: None)
        with pytest.raises(Killed):
            seal(books, collector.folder, wide, number, 1)
    books.database.rows("DELETE FROM leases")
    assert stored(collector, wide) == Counter(report_of(wide, k) for k in range(100))
    assert collector.status(wide).reports == 100
    assert remove_orphans(books, collector.folder) == len([] if moment == "named" else [1])
    assert files(collector) == []
    assert seal(books, collector.folder, wide, number, 1) == 100
    assert stored(collector, wide) == Counter(report_of(wide, k) for k in range(100))


def test_two_sealers_never_seal_the_same(collector, books, wide, number):
    fill(collector, wide, range(100))
    other = Books(collector.connect())
    mine = books.claim("sealing", 60)
    assert mine is not None
    assert seal(other, collector.folder, wide, number, 1) == 0
    assert remove_orphans(other, collector.folder) == 0
    books.give_back("sealing", mine)
    groups = [seq for seq, _, _ in books.groups(number, 1000)]
    assert seal(other, collector.folder, wide, number, 1) == 100
    with pytest.raises(StoreError, match="another process"), books.writing():
        books.seal(number, groups, "late.parquet", 100, 0, None)
    assert stored(collector, wide) == Counter(report_of(wide, k) for k in range(100))
    other.database.close()


def test_who_lost_the_right_to_seal_cannot_finish(collector, books, wide, number, monkeypatch):
    """Its file may be gone by then, for it looked like an orphan."""
    fill(collector, wide, range(50))
    plain = sealing._write
    other = Books(collector.connect())

    def slow(*given):
        plain(*given)
        other.database.rows("UPDATE leases SET until = 0")
        assert remove_orphans(other, collector.folder) == 1

    monkeypatch.setattr(sealing, "_write", slow)
    with pytest.raises(StoreError, match=r"took over|is missing; another process deleted it"):
        seal(books, collector.folder, wide, number, 1)
    assert books.segments() == {}
    assert stored(collector, wide) == Counter(report_of(wide, k) for k in range(50))
    other.database.close()


def test_a_full_disk_while_sealing(collector, books, wide, number, monkeypatch):
    fill(collector, wide, range(50))

    def full(*_, **__):
        raise InvalidReportError("file", "cannot write: No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(sealing.parquet, "write", full)
        with pytest.raises(StoreError, match="No space"):
            seal(books, collector.folder, wide, number, 1)
    assert stored(collector, wide) == Counter(report_of(wide, k) for k in range(50))
    assert seal(books, collector.folder, wide, number, 1) == 50


def test_batches_of_at_least_k(collector, books, wide):
    collector.open(wide, Settings(batch=100))
    fill(collector, wide, range(99), 9)
    collector.tend(books)
    found = collector.status(wide)
    assert (found.reports, found.waiting) == (0, 99)
    assert collector.tally(wide).n == 0
    fill(collector, wide, range(99, 150), 51)
    assert collector.tally(wide).n == 0  # nothing before it is sealed
    collector.tend(books)
    found = collector.status(wide)
    assert (found.reports, found.waiting) == (150, 0)
    fill(collector, wide, range(150, 249))
    collector.tend(books)
    assert (collector.status(wide).reports, collector.tally(wide).n) == (150, 150)
    assert collector.status(wide).waiting == 99
    collector.stop(wide)  # closing releases nothing
    collector.tend(books)
    assert collector.tally(wide).n == 150
    assert all(n >= 100 for n in books.segments().values())


def test_no_segment_is_read_twice(collector, books, wide, number, monkeypatch):
    read = []
    plain = collector._file
    monkeypatch.setattr(collector, "_file", lambda name: (read.append(name), plain(name))[1])
    for part in range(4):
        fill(collector, wide, range(100 * part, 100 * part + 100))
        assert collector.tally(wide).n == 100 * part + 100
        collector.tend(books, 1)
        first = collector.tally(wide)
        assert first.n == 100 * part + 100
        assert collector.tally(wide) is first
    assert sorted(read) == sorted(books.segments())
    assert stored(collector, wide) == Counter(report_of(wide, k) for k in range(400))


def test_a_copy_of_a_folder_is_a_folder(tmp_path, wide):
    original = Collector(tmp_path / "first")
    original.open(wide)
    books = Books(original.connect())
    fill(original, wide, range(100))
    original.tend(books, 1)
    fill(original, wide, range(100, 130))
    assert backup(original, tmp_path / "copy") == 130
    for name in ("first", "copy"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    fill(original, wide, range(130, 140))
    copy = Collector.at(tmp_path / "copy")
    assert stored(copy, wide) == Counter(report_of(wide, k) for k in range(130))
    assert copy.status(wide).outcomes["accepted"] == 130
    fill(copy, wide, range(500, 510))
    assert copy.tally(wide).n == 140
    with pytest.raises(StoreError, match="exists; name a new folder"):
        backup(original, tmp_path / "copy")
    for one in (original, copy, books.database):
        one.close()


def test_a_lost_segment_is_fetched_or_missed_aloud(collector, books, wide, number, store):
    fill(collector, wide, range(20))
    collector.tend(books, 1)
    for path in files(collector):
        path.unlink()
    if store is None:
        with pytest.raises(StoreError, match="restore it from a backup"):
            collector.tally(wide)
    else:
        assert collector.tally(wide).n == 20


def test_nothing_that_is_stored_has_a_time_or_an_address(collector, books, wide, number):
    fill(collector, wide, range(30))
    collector.tend(books, 1)
    columns = {
        "groups_waiting": ["seq", "survey", "n", "reports"],
        "segments": ["name", "survey", "n", "day", "content"],
        "ids": ["survey", "mark", "digest"],
        "hours": ["survey", "hour", "n"],
    }
    for table, names in columns.items():
        list_columns = ", ".join(names)
        books.database.rows(f"SELECT {list_columns} FROM {table}")
        many = "SELECT * FROM {} LIMIT 1".format(table)  # noqa: UP032
        for row in books.database.rows(many):
            assert len(row) == len(names)
