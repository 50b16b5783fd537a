"""Uploads that nobody should send: none is accepted, none fails, each is counted by its reason."""

import logging
import random
from collections import Counter

import pytest
from devices import ask, serve_and, upload_path

from metricldp.collector.envelope import new_id, today
from metricldp.collector.folder import Collector
from metricldp.reports.bytes import unpack


def bad_upload(rng, survey, reports, kept):
    """A body that is wrong in one way, and the survey that it is sent to."""
    report, kind = rng.choice(reports), rng.randrange(10)
    name = survey.fingerprint
    record = bytearray(new_id() + report)
    if kind == 0:  # cut
        return name, bytes(record[: rng.randrange(len(record))])
    if kind == 1:  # too long
        return name, bytes(record) + rng.randbytes(rng.randrange(1, 20))
    if kind == 2:  # a wrong version
        record[16] = rng.choice([x for x in range(256) if x != report[0]])
    elif kind == 3:  # another survey
        record[17 + rng.randrange(16)] ^= 1 + rng.randrange(255)
    elif kind == 4:  # bits behind the last field
        record[-1] |= 1 << rng.randrange(survey.report_bits % 8, 8)
    elif kind == 5:  # values that no device can send: 100..127 of 100, or 3 of 3
        record[-2:] = (rng.randrange(100, 128) | rng.randrange(3) << 7).to_bytes(2, "little")
    elif kind == 6:  # a day that is gone, or has not come
        ahead = rng.choice([-31 - rng.randrange(9000), 2 + rng.randrange(9000)])
        record[:4] = (today() + ahead).to_bytes(4, "big")
    elif kind == 7:  # an id that is known, with other bytes
        known = rng.choice(kept)
        other = rng.choice([r for r in reports if r != known[16:]])
        return name, known[:16] + other
    elif kind == 8:  # a survey that is not here
        return rng.randbytes(32).hex(), bytes(record)
    else:  # nothing but noise
        return name, rng.randbytes(rng.randrange(80))
    return name, bytes(record)


def barrage(tmp_path, survey, reports, count, caplog):
    collector = Collector(tmp_path / "collected")
    collector.open(survey)
    rng = random.Random(7)
    kept = [new_id() + report for report in reports[:50]]
    told = Counter()

    async def go(app):
        for body in kept:
            assert (await ask(app, "POST", upload_path(survey), body)).status == 200
        for _ in range(count):
            name, body = bad_upload(rng, survey, reports, kept)
            answer = await ask(app, "POST", f"/v1/surveys/{name}/reports", body)
            assert b"Traceback" not in answer.body
            if answer.status == 200:  # noise of just two records, or three
                assert not answer.data["accepted"] + answer.data["duplicate"]
                told.update(answer.data["rejected"])
            else:
                assert answer.status in (400, 404, 409), (answer.status, answer.body)
                told[answer.word] += 1

    with caplog.at_level(logging.WARNING):
        serve_and(collector, go)
    assert not caplog.records
    with collector.using() as (books, _):
        counters = Counter()
        for (_, outcome), n in books.counters().items():
            counters[outcome] += n
    assert counters.pop("accepted") == 50 == collector.tally(survey).n
    assert +counters == +told
    assert sum(told.values()) >= count
    collector.close()
    return told


WORDS = {"length", "version", "survey", "padding", "range", "late", "early", "conflict"}


def test_some_thousand_malformed_uploads(tmp_path, survey, reports, caplog):
    told = barrage(tmp_path, survey, reports, 5000, caplog)
    assert told.keys() == WORDS | {"unknown-survey"}
    assert min(told.values()) > 50


@pytest.mark.slow
def test_a_million_malformed_uploads(tmp_path, survey, reports, caplog):
    told = barrage(tmp_path, survey, reports, 1_000_000, caplog)
    assert told.keys() == WORDS | {"unknown-survey"}


def test_many_bad_ones_in_one_upload(tmp_path, survey, reports):
    """A large upload is read through arrays, and says the same."""
    collector = Collector(tmp_path / "collected")
    collector.open(survey)
    rng = random.Random(8)
    good = [new_id() + report for report in reports[:100]]
    bad = []
    while len(bad) < 100:
        name, body = bad_upload(rng, survey, reports, good)
        if (
            name == survey.fingerprint
            and len(body) == len(good[0])
            and body[:16] not in {one[:16] for one in good}
        ):
            bad.append(body)
    expected = Counter()
    unpack(survey, [body[16:] for body in bad], refused=expected)
    mixed = [*good, *bad]
    rng.shuffle(mixed)

    async def go(app):
        return await ask(app, "POST", upload_path(survey), b"".join(mixed))

    answer = serve_and(collector, go)
    assert answer.data["accepted"] == 100
    found = Counter(answer.data["rejected"])
    assert found["late"] + found["early"] == 100 - sum(expected.values())
    assert {k: n for k, n in found.items() if k not in ("late", "early")} == dict(expected)
    collector.close()


def test_large_and_slow_bodies(tmp_path, survey, reports):
    collector = Collector(tmp_path / "collected")
    collector.open(survey)
    path, body = upload_path(survey), new_id() + reports[0]

    async def go(app):
        said = await ask(app, "POST", path, b"", {"content-length": str(1 << 21)})
        grown = await ask(app, "POST", path, pieces=[bytes(1 << 19)] * 3)
        slow = await ask(app, "POST", path, pieces=[body[:9], 5.0, body[9:]])
        cut = await ask(app, "POST", path, pieces=[body[:9], body[9:20], body[20:]])
        gone = await ask(app, "POST", path, pieces=[])
        put = await ask(app, "PUT", path, body)
        options = await ask(app, "OPTIONS", path)
        return said, grown, slow, cut, gone, put, options

    said, grown, slow, cut, gone, put, options = serve_and(collector, go, patience=0.1)
    assert [a.word for a in (said, grown, slow, gone, put)] == [
        *("too-large", "too-large", "slow", "slow", "method")
    ]
    assert cut.data["accepted"] == 1
    assert (options.status, options.headers["access-control-allow-origin"]) == (204, "*")
    assert cut.headers["access-control-allow-origin"] == "*"
    collector.close()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/surveys/../../etc/passwd",
        "/v1/surveys/" + "x" * 64,
        "/v1/surveys/" + "x" * 64 + "/status",
        "/v1/surveys/%00/manifest",
        "/v1/surveys//reports",
        "/surveys/x",
        "/",
        "//",
        "/v1/surveys/a'; DROP TABLE surveys; --",
    ],
)
def test_other_addresses_are_problems_too(tmp_path, path):
    collector = Collector(tmp_path / "collected")

    async def go(app):
        return [await ask(app, method, path) for method in ("GET", "POST", "PUT", "DELETE", "XX")]

    for answer in serve_and(collector, go):
        assert answer.status in (401, 404, 405)
        assert answer.word in ("not-found", "unknown-survey", "token", "method")
    collector.close()
