"""Reports are kept once, counted once, and every refusal has its word; with both stores."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from devices import ask, post_all, records, report_of, serve_and, upload_path

from metricldp import Integer, Survey
from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.collector import sqlite
from metricldp.collector.base import Collected
from metricldp.collector.books import Books
from metricldp.collector.database import StoreError
from metricldp.collector.envelope import UNDATED, Envelope, new_id, today
from metricldp.collector.folder import OUTCOMES, Collector
from metricldp.collector.proofs import Anybody, Invited
from metricldp.collector.register import ALL
from metricldp.collector.settings import Settings
from metricldp.reports.bytes import pack


def outcomes(collector, survey):
    return {k: n for k, n in collector.status(survey).outcomes.items() if n}


def count_ids(books):
    return books.database.rows("SELECT count(*) FROM ids")[0][0]


def stored(collector, survey):
    return Counter(pack(survey, collector.tally(survey).store.table))


def test_kept_once_and_counted_once(collector, survey, reports):
    collector.open(survey)
    bodies = [records([report])[0] for report in reports[:20]]
    bodies.append(b"".join(records(reports[20:120])))
    answers = post_all(collector, survey, bodies)
    assert [a.status for a in answers] == [200] * 21
    assert answers[0].data == {"accepted": 1, "duplicate": 0, "rejected": {}}
    assert answers[-1].data == {"accepted": 100, "duplicate": 0, "rejected": {}}
    assert stored(collector, survey) == Counter(reports[:120])
    again = post_all(collector, survey, bodies)
    assert [a.data["duplicate"] for a in again] == [1] * 20 + [100]
    assert stored(collector, survey) == Counter(reports[:120])
    assert outcomes(collector, survey) == {"accepted": 120, "duplicate": 120}
    status = collector.status(survey)
    assert (status.reports, status.waiting, status.closed) == (120, 0, False)
    assert sum(n for _, n in status.per_hour) == 120
    assert {*OUTCOMES} <= {*status.outcomes}


def test_answers_are_those_of_a_tally_of_the_same_bytes(collector, survey, reports):
    collector.open(survey)
    post_all(collector, survey, [b"".join(records(reports))])
    found = collector.tally(survey).count({"age": (18, 40)})
    assert found.value == survey.tally(reports).count({"age": (18, 40)}).value


def test_it_is_what_others_may_know_of_a_collector(collector):
    as_known: Collected = collector
    for name in ("surveys", "tally", "status", "allowed"):
        assert callable(getattr(as_known, name))


def test_a_mixed_upload_tells_what_became_of_each(collector, survey, reports):
    collector.open(survey)
    first = new_id() + reports[0]
    post_all(collector, survey, [first])
    other = first[:16] + next(r for r in reports if r != reports[0])
    bad = new_id() + reports[1][:-1] + b"\xff"
    body = b"".join([first, other, bad, *records(reports[:3]), records(reports[:1], 1)[0]])
    (answer,) = post_all(collector, survey, [body])
    assert answer.status == 200
    assert answer.data == {
        "accepted": 3,
        "duplicate": 1,
        "rejected": {"padding": 1, "late": 1, "conflict": 1},
    }
    assert collector.tally(survey).n == 4


def test_the_same_id_with_another_report_is_a_conflict_and_is_not_stored(collector, wide):
    """A device that blurs twice must not have both kept: that would spend its epsilon twice."""
    collector.open(wide)
    one = new_id()
    first, second = (one + report_of(wide, number) for number in (1, 2))
    answers = post_all(collector, wide, [first, second, first])
    assert [a.status for a in answers] == [200, 409, 200]
    assert answers[1].word == "conflict"
    assert stored(collector, wide) == {report_of(wide, 1): 1}
    # Also within one upload, whichever comes first.
    two = new_id()
    body = b"".join(two + report_of(wide, number) for number in (3, 4, 3))
    (answer,) = post_all(collector, wide, [body])
    assert answer.data == {"accepted": 1, "duplicate": 1, "rejected": {"conflict": 1}}
    assert stored(collector, wide) == {report_of(wide, 1): 1, report_of(wide, 3): 1}


def test_ids_of_other_processes_are_duplicates(collector, books, wide):
    collector.open(wide)
    bodies = [new_id() + report_of(wide, k) for k in range(30)]
    post_all(collector, wide, bodies[:20])
    assert count_ids(books) == 20

    async def both(app):
        other = Books(collector.connect())
        try:
            number = collector.entry(wide.fingerprint).number
            read = Envelope(wide, number, Anybody(), 30, 100).read
            for body in bodies[20:]:
                other.take([read(body)], Counter())
            return [await ask(app, "POST", upload_path(wide), body) for body in bodies]
        finally:
            other.database.close()

    answers = serve_and(collector, both)
    assert [a.data["duplicate"] for a in answers] == [1] * 30
    changed = [body[:16] + report_of(wide, 99) for body in bodies]
    assert {a.word for a in post_all(collector, wide, changed)} == {"conflict"}
    assert collector.tally(wide).n == 30


def test_a_transaction_that_fails_leaves_no_trace(collector, books, wide, monkeypatch):
    """Neither in the store nor in memory: sent again, the report is accepted."""
    collector.open(wide)
    number = collector.entry(wide.fingerprint).number
    upload = Envelope(wide, number, Anybody(), 30, 100).read(new_id() + report_of(wide, 1))

    def failing():
        raise StoreError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(books.database, "commit", failing)
        with pytest.raises(StoreError):
            books.take([upload], Counter())
    assert collector.tally(wide).n == 0
    assert books.take([upload], Counter())[0].accepted == 1
    assert books.take([upload], Counter())[0].duplicate == 1
    assert outcomes(collector, wide) == {"accepted": 1, "duplicate": 1}


def test_when_nothing_can_be_kept_nobody_is_told_that_it_was(collector, wide, monkeypatch):
    collector.open(wide)

    async def go(app):
        database = app.intake._books.database

        def failing():
            raise StoreError("disk full")

        body = new_id() + report_of(wide, 1)
        with monkeypatch.context() as broken:
            broken.setattr(database, "commit", failing)
            answer = await ask(app, "POST", upload_path(wide), body)
            ready = await ask(app, "GET", "/readyz")
        return answer, ready, await ask(app, "POST", upload_path(wide), body)

    busy, ready, kept = serve_and(collector, go)
    assert (busy.status, busy.word, busy.headers["retry-after"]) == (503, "busy", "2")
    assert ready.status == 503
    assert kept.data["accepted"] == 1
    assert collector.tally(wide).n == 1


def test_a_full_waiting_room_sends_people_away(collector, wide):
    collector.open(wide)
    bodies = [new_id() + report_of(wide, k) for k in range(100)]

    async def go(app):
        many = (ask(app, "POST", upload_path(wide), body) for body in bodies)
        return await asyncio.gather(*many)

    answers = serve_and(collector, go, room=3000)
    found = Counter(a.status for a in answers)
    assert found[200] >= 5
    assert found[503] >= 5
    assert collector.tally(wide).n == found[200]
    again = post_all(collector, wide, bodies)
    assert sum(a.data["accepted"] for a in again) == 100 - found[200]


def test_closing_is_at_once_and_for_all_processes(collector, survey, reports):
    collector.open(survey)

    async def go(app):
        first = await ask(app, "POST", upload_path(survey), records(reports)[0])
        collector.stop(survey)
        return first, await ask(app, "POST", upload_path(survey), records(reports)[1])

    first, second = serve_and(collector, go)
    assert first.status == 200
    assert (second.status, second.word) == (410, "closed")
    assert collector.status(survey).closed
    assert outcomes(collector, survey) == {"accepted": 1, "closed": 1}


def test_a_survey_that_nobody_knows(collector, survey, reports):
    (answer,) = post_all(collector, survey, [records(reports)[0]])
    assert (answer.status, answer.word) == (404, "unknown-survey")
    collector.open(survey)
    assert post_all(collector, survey, [records(reports)[0]])[0].status == 200
    collector.delete(survey)
    (answer,) = post_all(collector, survey, [records(reports)[0]])
    assert answer.word == "unknown-survey"
    assert collector.surveys() == []


def test_a_deleted_survey_leaves_nothing(collector, books, survey, reports):
    collector.open(survey)
    post_all(collector, survey, [b"".join(records(reports))])
    collector.tend(books, 1)
    assert count_ids(books) == len(reports)
    post_all(collector, survey, [b"".join(records(reports[:7]))])
    with collector.using() as (_, register):
        register.new_token("ann", collector.entry(survey.fingerprint).number, "ask")
    collector.delete(survey)
    for table in ("ids", "groups_waiting", "segments", "tokens", "surveys", "hours"):
        assert books.database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    assert not list(collector.folder.rglob("*.parquet"))
    collector.open(survey)
    assert collector.tally(survey).n == 0


def test_a_quota_is_met_exactly(collector, survey, reports):
    collector.open(survey, Settings(most=25))
    answers = post_all(
        collector, survey, [b"".join(records(reports[k : k + 10])) for k in (0, 10, 20, 30)]
    )
    assert [a.data["accepted"] for a in answers] == [10, 10, 5, 0]
    assert answers[2].data["rejected"] == {"full": 5}
    assert collector.tally(survey).n == 25


@pytest.mark.parametrize("asked", ["none", "invites"])
@pytest.mark.parametrize("n", [1, 2, 64])
def test_a_proof_that_is_missing_or_too_many_is_named(wide, asked, n):
    """And is not taken for a report that is broken."""
    proof = Invited(bytes(32)) if asked == "invites" else Anybody()
    envelope = Envelope(wide, 1, proof, 30, 1000)
    wrong = Anybody() if asked == "invites" else Invited(bytes(32))
    head = new_id() + bytes(wrong.size)
    body = b"".join(head + report_of(wide, k) for k in range(n))
    found = envelope.read(body)
    assert (len(found), found.refused) == (0, {"invite": n})


def test_invites_are_used_once(collector, wide):
    collector.open(wide, Settings(proof="invites", key="ab" * 32))
    invites = Invited(bytes.fromhex("ab" * 32)).new(3)
    bodies = [invites[0] + report_of(wide, 1), invites[1] + report_of(wide, 2)]
    bodies += [invites[0] + report_of(wide, 3), bytes(32) + report_of(wide, 4), bodies[0]]
    answers = post_all(collector, wide, bodies)
    assert [a.status for a in answers] == [200, 200, 409, 403, 200]
    assert answers[3].word == "invite"
    assert stored(collector, wide) == {report_of(wide, 1): 1, report_of(wide, 2): 1}


def test_blind_tokens_of_a_separate_issuer(collector, wide):
    key, other = (rsa.generate_private_key(65537, 2048) for _ in range(2))

    def token(key, serial):
        return serial + key.sign(serial, padding.PSS(padding.MGF1(SHA384()), 48), SHA384())

    def pem(key):
        return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    collector.open(wide, Settings(proof="blind", key=pem(key).decode()))
    good, forged = token(key, new_id(5)), token(other, new_id(6))
    bodies = [good + report_of(wide, 1), forged + report_of(wide, 2), good + report_of(wide, 3)]
    answers = post_all(collector, wide, [*bodies, good[:16] + bytes(256) + report_of(wide, 4)])
    assert [a.status for a in answers] == [200, 403, 409, 403]
    assert stored(collector, wide) == {report_of(wide, 1): 1}
    small = rsa.generate_private_key(65537, 1024)
    for wrong in (pem(small).decode(), "no key", ""):
        with pytest.raises(InvalidSpecError, match="2048 bits"):
            Settings(proof="blind", key=wrong)


def test_forgotten_ids_are_late_for_ever_even_if_the_clock_goes_back(collector, books, wide):
    collector.open(wide, Settings(window=30))
    number = collector.entry(wide.fingerprint).number
    old, young = (new_id(today() - days) + report_of(wide, days) for days in (20, 3))
    post_all(collector, wide, [old, young])
    assert books.forget_ids(number, today() - 10) == 1
    assert books.forget_ids(number, today() - 15) == 0
    assert count_ids(books) == 1
    answers = post_all(collector, wide, [old, young])
    assert [a.status for a in answers] == [400, 200]
    assert answers[0].word == "late"
    assert collector.tally(wide).n == 2


def test_an_id_without_a_day_is_never_forgotten(collector, books, wide, monkeypatch):
    collector.open(wide, Settings(window=1))
    number = collector.entry(wide.fingerprint).number
    body = UNDATED + bytes(12) + report_of(wide, 1)
    later = today() + 1000
    for _ in range(2):
        (answer,) = post_all(collector, wide, [body])
        assert answer.status == 200
        assert books.forget_ids(number, later) == 0
        monkeypatch.setattr("metricldp.collector.envelope.today", lambda: later + 10)
    assert outcomes(collector, wide) == {"accepted": 1, "duplicate": 1}


def test_retention(collector, books, wide, monkeypatch):
    collector.open(wide, Settings(keep_days=7))
    post_all(collector, wide, [b"".join(new_id() + report_of(wide, k) for k in range(50))])
    collector.tend(books, 10)
    post_all(collector, wide, [new_id() + report_of(wide, 99)])
    collector.let_go(books)
    assert collector.tally(wide).n == 51
    books.database.rows("UPDATE segments SET day = day - 8")
    collector.let_go(books)
    assert collector.tally(wide).n == 1
    found = collector.status(wide)
    assert found.outcomes["forgotten"] == 50
    assert found.outcomes["accepted"] == found.reports + found.outcomes["forgotten"]
    assert {path.name for path in collector.folder.rglob("*.parquet")} == {*books.segments()}


def test_several_surveys_do_not_mix(collector, survey, wide, reports):
    for one in (survey, wide):
        collector.open(one)
    mine = new_id()
    post_all(collector, survey, [mine + reports[0]])
    post_all(collector, wide, [mine + report_of(wide, 5)])
    assert (collector.tally(survey).n, collector.tally(wide).n) == (1, 1)
    assert [s.fingerprint for s in collector.surveys()] == [survey.fingerprint, wide.fingerprint]
    (answer,) = post_all(collector, wide, [new_id() + reports[0]])
    assert answer.word == "survey"


def test_tokens_have_scopes_and_surveys(collector, survey, wide):
    first, second = (collector.open(one) for one in (survey, wide))
    with collector.using() as (_, register):
        ask_one = register.new_token("ann", first.number, "ask")
        own_one = register.new_token("bob", first.number, "own")
        own_all = register.new_token("carl", ALL, "own")
        assert [t.name for t in register.tokens()] == ["ann", "bob", "carl"]
        with pytest.raises(QueryError, match="named 'ann'"):
            register.new_token("ann", second.number, "ask")
        with pytest.raises(QueryError, match="scope"):
            register.new_token("dora", second.number, "see")
        for name in ("", "a\nb"):
            with pytest.raises(QueryError, match="line of text"):
                register.new_token(name, ALL, "ask")
    allowed = collector.allowed
    assert allowed(ask_one, survey, "ask")
    assert allowed(own_one, survey, "ask")
    assert allowed(own_one, survey, "own")
    assert allowed(own_all, wide, "own")
    assert allowed(own_all, None, "own")
    for token, one, scope in [
        (ask_one, survey, "own"),
        (ask_one, wide, "ask"),
        (own_one, None, "own"),
        ("", survey, "ask"),
        ("x" * 43, survey, "ask"),
        (own_all, Survey.design({"z": Integer(0, 3, epsilon=1, per=1)}), "ask"),
        (own_all, survey, "everything"),
    ]:
        assert not allowed(token, one, scope)
    with collector.using() as (books, register):
        kept = [bytes(h) for (h,) in books.database.rows("SELECT hash FROM tokens")]
        assert not any(ask_one.encode() in one for one in kept)
        register.revoke("ann")
        with pytest.raises(QueryError, match="no token"):
            register.revoke("ann")
    assert not allowed(ask_one, survey, "ask")


def test_settings_are_checked():
    for said in ({"batch": -1}, {"window": 0}, {"most": 0}, {"proof": "x"}, {"batch": 1.5}):
        with pytest.raises(InvalidSpecError):
            Settings(**said)
    with pytest.raises(InvalidSpecError, match="hexadecimal"):
        Settings(proof="invites", key="12")
    made = Settings(batch=5, proof="invites", key="00" * 32)
    assert Settings.from_json(made.to_json()) == made
    assert replace(made, batch=0) != made


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_a_sqlite_that_may_damage_its_file_is_refused(version):
    with pytest.raises(StoreError, match="WAL-reset"):
        sqlite.check_version(version)
    for good in ("3.51.3", "3.54.1", "4.0"):
        sqlite.check_version(good)


def test_folder_without_a_collector_is_rejected(tmp_path):
    with pytest.raises(StoreError, match="is not a collector folder; metricldp collector serve"):
        Collector.at(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make"):
        Collector(tmp_path / "file")
