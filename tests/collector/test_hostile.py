"""What a sceptical reader tried: numbers with zeros before them, slow crowds, surprises."""

import asyncio
from collections import Counter

import pytest
from devices import ask, post_all, report_of, serve_and, upload_path

from metricldp.collector import folder, sealing
from metricldp.collector.books import Books
from metricldp.collector.envelope import new_id, today
from metricldp.collector.folder import Collector
from metricldp.collector.register import ALL
from metricldp.collector.settings import Settings


@pytest.fixture
def collector(tmp_path):
    with Collector(tmp_path / "c") as made:
        yield made


@pytest.mark.parametrize("n", ["100001", "000000001200000", "0" * 5000 + "1", "-1", "1e3", "٣", ""])
def test_no_number_of_invites_gets_around_the_limit(collector, wide, n):
    collector.open(wide, Settings(proof="invites", key="ab" * 32))
    with collector.using() as (_, register):
        token = register.new_token("owner", ALL, "own")
    said = {"authorization": f"Bearer {token}"}

    async def go(app, word):
        path = f"/v1/surveys/{wide.fingerprint}/invites"
        return await ask(app, "POST", path, headers=said, query=b"n=" + word.encode())

    refused = serve_and(collector, lambda app: go(app, n))
    assert (refused.status, refused.word) == (400, "question")
    good = serve_and(collector, lambda app: go(app, "3"))
    assert (good.status, len(good.body.split())) == (200, 3)
    assert good.headers["cache-control"] == "no-store"


def test_bodies_that_are_still_coming_take_room(collector, wide):
    """Slow senders of large bodies fill the waiting room, never the memory."""
    collector.open(wide)
    record = new_id() + report_of(wide, 1)

    async def go(app):
        slow = [[bytes(20_000), 0.3, bytes(20_000)] for _ in range(50)]
        many = [ask(app, "POST", upload_path(wide), pieces=pieces) for pieces in slow]
        found = Counter(answer.status for answer in await asyncio.gather(*many))
        after = await ask(app, "POST", upload_path(wide), pieces=[record[:9], record[9:]])
        return found, after

    found, after = serve_and(collector, go, room=100_000)
    assert found[503] >= 45  # at most five of them are held at once
    assert after.data["accepted"] == 1  # and those who are gone leave their room


def test_a_surprise_in_one_transaction_does_not_stop_the_next(collector, wide, monkeypatch):
    """Nobody foresaw this error; whoever waits is told, and the intake goes on."""
    collector.open(wide)
    body = new_id() + report_of(wide, 1)

    async def go(app):
        with monkeypatch.context() as broken:
            broken.setattr(app.intake._books, "write", lambda *_: {}["surprise"])
            busy = await asyncio.wait_for(ask(app, "POST", upload_path(wide), body), 5)
            ready = await ask(app, "GET", "/readyz")
        return busy, ready, await asyncio.wait_for(ask(app, "POST", upload_path(wide), body), 5)

    busy, ready, kept = serve_and(collector, go)
    assert (busy.status, busy.word, ready.status) == (503, "busy", 503)
    assert kept.data["accepted"] == 1


def test_what_never_fills_a_file_is_let_go_as_well(collector, wide, monkeypatch):
    """Retention is for all reports: five that wait for 99,995 others grow old, too."""
    collector.open(wide, Settings(keep_days=2))
    books = Books(collector.connect())
    bodies = [new_id() + report_of(wide, k) for k in range(6)]
    post_all(collector, wide, bodies[:5])
    collector.let_go(books)
    post_all(collector, wide, bodies[5:])
    collector.let_go(books)  # one file a day is enough
    assert (len(books.segments()), collector.tally(wide).n) == (1, 6)
    for days, left in ((1, 6), (2, 6), (3, 1), (9, 0)):
        monkeypatch.setattr(folder, "today", lambda days=days: today() + days)
        monkeypatch.setattr(sealing, "today", lambda days=days: today() + days)
        collector.let_go(books)
        assert collector.tally(wide).n == left
    assert collector.status(wide).outcomes["forgotten"] == 6
    books.database.close()
