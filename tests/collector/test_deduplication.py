"""The deduplication index: a repeated id is a duplicate in every process, after any change."""

import gc
import random
import threading
import weakref
from collections import Counter

import pytest

from metricldp import Integer, Survey
from metricldp.basics.errors import InvalidSpecError
from metricldp.collector import backups, books
from metricldp.collector.books import Books
from metricldp.collector.database import DIGEST, MARK, StoreError
from metricldp.collector.envelope import DAY, Upload, today
from metricldp.collector.folder import Collector
from metricldp.collector.sealing import remove_orphans
from metricldp.collector.settings import Settings


def upload(survey, ids):
    made = Upload(survey)
    for mark, digest in ids:
        made.add(mark, digest, b"report")
    return made


def random_ids(rng, count, day=None):
    start = (today() if day is None else day).to_bytes(DAY, "big")
    return [(start + rng.randbytes(MARK - DAY), rng.randbytes(DIGEST)) for _ in range(count)]


def other_survey():
    return Survey.design({"y": Integer(0, 9, epsilon=1, mechanism="threshold", per=1)})


@pytest.mark.parametrize("seed", range(4))
def test_index_equals_a_dictionary(collector, wide, monkeypatch, seed):
    """New and repeated ids, deleted days and a deleted survey, through two connections."""
    monkeypatch.setattr(books, "_IDS_AT_ONCE", 16)
    monkeypatch.setattr(books, "_DELETIONS", 16)
    rng = random.Random(seed)
    surveys = [collector.open(each).number for each in (wide, other_survey())]
    known: dict[int, dict[bytes, bytes]] = {number: {} for number in surveys}
    forgotten = dict.fromkeys(surveys, 0)
    connections = [Books(collector.connect()) for _ in range(2)]
    for step in range(60):
        one, number = rng.choice(connections), rng.choice(surveys)
        new = random_ids(rng, rng.randrange(1, 40), today() - rng.randrange(10))
        # An id of another survey is new in this one.
        others = [m for other, marks in known.items() if other != number for m in marks]
        new += [(m, rng.randbytes(DIGEST)) for m in others if rng.random() < 0.05]
        new = [(m, d) for m, d in new if m not in known[number]]
        old = rng.sample(sorted(known[number].items()), min(7, len(known[number])))
        conflicts = [(mark, rng.randbytes(DIGEST)) for mark, _ in old[:3]]
        late = [m for m, _ in new if int.from_bytes(m[:DAY], "big") <= forgotten[number]]
        (outcome,) = one.take([upload(number, new + old + conflicts)], Counter())
        assert outcome.duplicate == len(old)
        expected = Counter({"conflict": len(conflicts), "late": len(late)})
        assert outcome.refused == expected + Counter()
        assert outcome.accepted == len(new) - len(late)
        known[number].update({m: d for m, d in new if m not in late})
        if step in (25, 45):
            day = today() - 12 + step // 5
            gone = [m for m in known[number] if int.from_bytes(m[:DAY], "big") <= day]
            assert rng.choice(connections).forget_ids(number, day) == len(gone)
            forgotten[number] = day
            for mark in gone:
                del known[number][mark]
        if step == 50:
            collector.delete(other_survey())
            known.pop(surveys.pop())
    (left,) = known.values()
    for one in connections:
        rows = one.database.rows("SELECT survey, mark, digest FROM ids")
        assert {(n, bytes(m)): bytes(d) for n, m, d in rows} == {
            (surveys[0], m): d for m, d in left.items()
        }
        one.database.close()


@pytest.fixture
def filled(tmp_path, wide):
    """A collector with 60 ids."""
    collector = Collector(tmp_path / "c")
    number = collector.open(wide).number
    own, ids = Books(collector.connect()), random_ids(random.Random(5), 60)
    own.take([upload(number, ids)], Counter())
    yield collector, own, number, ids
    own.database.close()
    collector.close()


def test_kill_while_ids_are_deleted_leaves_a_closed_survey(filled, wide, monkeypatch):
    collector, own, _, _ = filled
    monkeypatch.setattr(books, "_DELETIONS", 10)

    class Killed(BaseException):
        pass

    steps = iter([None, None, Killed()])
    plain = Books.writing

    def writing(self):
        if isinstance(wrong := next(steps, None), Killed):
            raise wrong
        return plain(self)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Books, "writing", writing)
        collector.delete(wide)
    assert collector.status(wide).closed
    assert own.database.rows("SELECT count(*) FROM ids") == [(50,)]
    collector.delete(wide)
    assert own.database.rows("SELECT count(*) FROM ids") == [(0,)]


def test_leftovers_of_a_kill_are_removed(filled):
    collector, own, _, _ = filled
    part = collector.folder / "segments" / ".metricldp-0123456789abcdef-1"
    part.write_bytes(b"half")
    assert remove_orphans(own, collector.folder) == 1
    assert not part.exists()


def test_database_of_version_0_2_is_rejected(tmp_path):
    with Collector(tmp_path / "c") as collector, collector.using() as (own, _):
        own.database.rows("ALTER TABLE ids RENAME TO fresh")
    with pytest.raises(StoreError, match=r"written by version 0\.2"):
        Collector(tmp_path / "c")


def test_backup_ends_while_reports_arrive(filled, tmp_path):
    """A copy in steps would start again at every commit."""
    collector, own, number, ids = filled
    rng, stop = random.Random(7), threading.Event()
    own.database.rows("CREATE TABLE large (content)")
    own.database.rows("INSERT INTO large VALUES (zeroblob(20000000))")

    def write():
        other = Books(collector.connect())
        while not stop.is_set():
            other.take([upload(number, random_ids(rng, 1))], Counter())
        other.database.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert backups.backup(collector, tmp_path / "copy") >= 60
    finally:
        stop.set()
        writer.join()
    with Collector.at(tmp_path / "copy") as copy, copy.using() as (other, _):
        assert other.take([upload(number, ids)], Counter())[0].duplicate == 60


def test_proof_does_not_change_after_the_first_report(collector, wide):
    number = collector.open(wide).number
    invited = Settings(proof="invites", key="00" * 32)
    collector.open(wide, invited)
    collector.open(wide, Settings())
    with collector.using() as (own, _):
        own.take([upload(number, random_ids(random.Random(1), 3))], Counter())
    with pytest.raises(InvalidSpecError, match="3 reports were accepted with proof='none'"):
        collector.open(wide, invited)
    collector.open(wide, Settings(most=10))


def test_unreferenced_collector_closes_its_connection(tmp_path, wide):
    """A connection that is open when a process forks would damage the database."""
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
