"""Whatever a log repeats or mixes up, and whenever a process dies: everybody counts once."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logbook import KEEP, SURVEY, delivered, honest, records

from metricldp import QueryError, ReportRefused
from metricldp.basics import writing
from metricldp.basics.sealed import sealed
from metricldp.collector.logs import output as outputs
from metricldp.collector.logs import sources
from metricldp.collector.logs.ingest import ingest
from metricldp.collector.logs.output import MANIFEST, Output
from metricldp.collector.logs.seen import Seen, ordered
from metricldp.collector.logs.sources import FileLog, KafkaLog, log_of
from metricldp.reports.bytes import packed_size


def log_in(folder, *parts):
    """A folder of log files, one for each list of records."""
    folder.mkdir(exist_ok=True)
    for k, part in enumerate(parts):
        (folder / f"{k}.log").write_bytes(b"".join(part))
    return FileLog(SURVEY, folder)


def counted(folder):
    """What the files of a folder hold, and its totals, which must agree."""
    with Output.opened(SURVEY, folder, "ingest", KEEP) as found:
        totals, files = found.totals(), found.files
    whole = SURVEY.tally(files, keep=KEEP) if files else SURVEY.tally([], keep=KEEP)
    assert totals == whole.store
    return whole


def test_everybody_counts_once(tmp_path):
    people = records(500)
    log = log_in(tmp_path / "log", delivered(people), people[:100])
    found = ingest(SURVEY, log, tmp_path / "out", keep=KEEP, at_once=64)
    assert found.accepted == found.reports == 500
    assert found.read == found.accepted + found.duplicates > 700
    assert counted(tmp_path / "out") == honest(people)
    assert SURVEY.tally(tmp_path / "out", keep=KEEP) == honest(people)
    again = ingest(SURVEY, log, tmp_path / "out", keep=KEEP)
    assert (again.read, again.accepted, again.reports) == (0, 0, 500)


def test_a_log_that_grows_is_read_on(tmp_path):
    people = records(300)
    log = log_in(tmp_path / "log", people[:120])
    path = tmp_path / "log" / "0.log"
    assert ingest(SURVEY, log, tmp_path / "out", keep=KEEP).accepted == 120
    half = people[120][:9]
    with path.open("ab") as file:
        file.write(half)  # a record that is still being written
    assert ingest(SURVEY, log, tmp_path / "out", keep=KEEP).read == 0
    with path.open("ab") as file:
        file.write(people[120][9:] + b"".join(people[100:]))
    found = ingest(SURVEY, log, tmp_path / "out", keep=KEEP)
    assert (found.accepted, found.duplicates) == (180, 21)
    assert counted(tmp_path / "out") == honest(people)
    for other in ([], people[:3], records(400, seed=2)):
        path.write_bytes(b"".join(other))
        with pytest.raises(ReportRefused, match="shorter than what was read of it, or begins"):
            ingest(SURVEY, log, tmp_path / "out", keep=KEEP)


def test_logs_of_one_name_are_not_taken_for_one(tmp_path):
    """In another folder: nobody is lost. The same under two names: nobody counts twice."""
    people = records(35)
    for day, some in (("mon", people[:10]), ("tue", people[10:])):
        log_in(tmp_path / day, some)
        found = ingest(
            SURVEY, FileLog(SURVEY, tmp_path / day / "0.log"), tmp_path / "out", keep=KEEP
        )
        assert found.accepted == len(some)
    (tmp_path / "mon").rename(tmp_path / "wed")
    found = ingest(SURVEY, FileLog(SURVEY, tmp_path / "wed"), tmp_path / "out", keep=KEEP)
    assert (found.accepted, found.duplicates) == (0, 10)
    (tmp_path / "wed" / "1.log").symlink_to(tmp_path / "tue" / "0.log")
    assert ingest(SURVEY, FileLog(SURVEY, tmp_path / "wed"), tmp_path / "out", keep=KEEP).read == 0
    assert counted(tmp_path / "out") == honest(people)


def test_offsets_link_no_id_to_a_report(tmp_path):
    people = records(3)
    ingest(SURVEY, log_in(tmp_path / "log", people), tmp_path / "out")
    with Output.opened(SURVEY, tmp_path / "out", "ingest") as found:
        (key,) = found.state["offsets"]
    path = (tmp_path / "log" / "0.log").resolve()
    place = hashlib.sha256(bytes(path)).hexdigest()
    assert key == f"{hashlib.sha256(people[0][:16]).hexdigest()} {place}"


def test_bad_reports_are_counted_by_reason_and_keep_no_id(tmp_path):
    people = records(50)
    bad = bytearray(people[7])
    bad[16] = 9
    foreign = bytearray(people[8])
    foreign[20] ^= 1
    log = log_in(tmp_path / "log", [bytes(bad), bytes(foreign), *people])
    found = ingest(SURVEY, log, tmp_path / "out", keep=KEEP)
    assert found.refused == {"version": 1, "survey": 1}
    assert counted(tmp_path / "out") == honest(people)
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text("utf-8"))
    assert manifest["refused"] == {"version": 1, "survey": 1}


class Power(Exception):
    """What nobody catches."""


def failing(monkeypatch, step):
    """The machine goes off before the so-manieth file gets its name, or right after it."""
    calls = iter(range(10**6))
    before, sync = writing.sync, writing.os.fsync

    def now(original):
        def run(*given):
            if next(calls) == step:
                raise Power
            return original(*given)

        return run

    monkeypatch.setattr(writing, "sync", now(before))
    monkeypatch.setattr(writing.os, "fsync", now(sync))


def test_power_may_fail_at_every_step(tmp_path, monkeypatch):
    people = records(60)
    log = log_in(tmp_path / "log", delivered(people))
    died = 0
    for step in range(60):
        out = tmp_path / f"out-{step}"
        with monkeypatch.context() as patch:
            failing(patch, step)
            try:
                ingest(SURVEY, log, out, keep=KEEP, at_once=50)
                break
            except Power:
                died += 1
        ingest(SURVEY, log, out, keep=KEEP, at_once=80)
        assert counted(out) == honest(people)
        left = {path.name for path in out.iterdir()}
        assert len(left) == 2 * len([n for n in left if n.startswith("ids")]) + 2, left
    assert died == 27


@pytest.mark.parametrize("broken", ["offsets first", "no ids", "ids first"])
def test_twins_that_commit_otherwise_are_caught(tmp_path, monkeypatch, broken):
    """Offsets before reports lose people; ids apart from reports lose or repeat them."""
    people = records(60)
    log = log_in(tmp_path / "log", delivered(people))
    right = Output.write

    def write(self, tables, numbers, found, change=lambda state: None):
        if broken == "offsets first":
            right(self, [], set(), lambda: found()[:0], change)
            return right(self, tables, numbers, found)
        if broken == "ids first":
            right(self, [], set(), found)
            return right(self, tables, numbers, lambda: found()[:0], change)
        return right(self, tables, numbers, lambda: found()[:0], change)

    monkeypatch.setattr(Output, "write", write)
    wrong = 0
    for step in range(1, 24, 5):
        out = tmp_path / f"out-{step}"
        with monkeypatch.context() as patch, pytest.raises(Power):
            failing(patch, step)
            ingest(SURVEY, log, out, keep=KEEP, at_once=50)
            raise Power
        ingest(SURVEY, log, out, keep=KEEP, at_once=50)
        wrong += counted(out) != honest(people)
    assert wrong


_PROGRAM = """
import sys, time
sys.path[:0] = sys.argv[3:]
from logbook import KEEP, SURVEY
from metricldp.collector.logs.ingest import ingest
from metricldp.collector.logs.sources import FileLog
print("up", flush=True)
found = ingest(SURVEY, FileLog(SURVEY, sys.argv[1]), sys.argv[2], keep=KEEP, at_once=20)
print("done", flush=True)
"""


def killed_again_and_again(tmp_path, people, times):
    log_in(tmp_path / "log", delivered(people))
    rng, kills = random.Random(4), 0
    while True:
        words = [sys.executable, "-c", _PROGRAM, tmp_path / "log", tmp_path / "out", *sys.path]
        process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "up\n"
        if kills < times:
            time.sleep(rng.random() * 0.15)
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        done = process.communicate()[0]
        if done:
            return kills


def test_a_killed_process_loses_nobody_and_repeats_nobody(tmp_path):
    people = records(400)
    assert killed_again_and_again(tmp_path, people, times=2) == 2
    assert counted(tmp_path / "out") == honest(people)


@pytest.mark.slow
def test_forty_kills(tmp_path):
    people = records(4000)
    assert killed_again_and_again(tmp_path, people, times=40) == 40
    assert counted(tmp_path / "out") == honest(people)


def test_two_processes_do_not_share_a_folder(tmp_path):
    log = log_in(tmp_path / "log", records(5))
    with (
        Output.opened(SURVEY, tmp_path / "out", "ingest"),
        pytest.raises(ReportRefused, match="another process writes into"),
    ):
        ingest(SURVEY, log, tmp_path / "out")


def test_manifests_that_do_not_fit_are_refused(tmp_path):
    out = tmp_path / "out"
    ingest(SURVEY, log_in(tmp_path / "log", records(40)), out, keep=KEEP)

    def refused(told, kind="ingest", keep=KEEP, survey=SURVEY):
        with pytest.raises(ReportRefused, match=told), Output.opened(survey, out, kind, keep):
            pass

    refused("metricldp ingest writes into", kind="compact")
    refused("say the same, or begin anew", keep=KEEP[:1])
    ids, files = next(out.glob("*.ids")), next(out.glob("*.parquet"))
    data = ids.read_bytes()
    ids.write_bytes(data[:-16])
    refused("damaged")
    ids.unlink()
    refused("cannot read")
    ids.write_bytes(data)
    files.rename(tmp_path / "away")
    refused("which manifest.json names")
    (tmp_path / "away").rename(files)
    good = (out / MANIFEST).read_text("utf-8")
    for text, told in (
        ("{}", "it has no metricldp-manifest"),
        ("", "cannot read"),
        ("[]", "it has no metricldp-manifest"),
        (good.replace('manifest":2', 'manifest":1'), "has version 1, this is 2"),
        (good.replace('"round":1', '"round":2'), "damaged or was changed by hand"),
    ):
        (out / MANIFEST).write_text(text)
        refused(told)
    said = json.loads(good)
    del said["sha256"]
    (out / MANIFEST).write_bytes(sealed({**said, "survey": "0" * 64}))
    refused("another survey")


@given(
    rounds=st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=8),
    last=st.booleans(),
)
def test_ids_are_a_set(rounds, last):
    """Also where many ids have one half in common."""
    seen, model = Seen(), set()
    for numbers in rounds:
        raw = [n.to_bytes(8) + (b"x" * 8 if last else n.to_bytes(8)) for n in numbers]
        ids = np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 16)
        expected = [n not in model and n not in numbers[:k] for k, n in enumerate(numbers)]
        assert seen.fresh(ids).tolist() == expected
        new = ids[np.array(expected, dtype=bool)]
        seen.add(new)
        model |= set(numbers)
        assert len(seen) == len(model)
        assert [bytes(row) for row in ordered(new)] == sorted(bytes(row) for row in new)


# Kafka -------------------------------------------------------------------------------------------


def test_addresses_of_logs(tmp_path):
    assert isinstance(log_of(SURVEY, str(tmp_path)), FileLog)
    for wrong in (
        "http://a/b",
        "kafka://host:9092",
        "kafka:///topic",
        "kafka://h/a/b",
        "kafka://[::1",
    ):
        with pytest.raises(QueryError, match="kafka://HOST:PORT/TOPIC"):
            log_of(SURVEY, wrong)
    with pytest.raises(ReportRefused, match="there is no log"):
        log_of(SURVEY, str(tmp_path / "none"))


def test_a_broker_that_is_not_there(monkeypatch, capfd):
    pytest.importorskip("confluent_kafka", reason="needs metricldp[kafka]")
    monkeypatch.setattr(sources, "_PATIENCE", 0.3)
    for address in ("127.0.0.1:1", "[::1", "127.0.0.1:99999"):
        with pytest.raises(ReportRefused, match=r"cannot read from .*; check the address"):
            log_of(SURVEY, f"kafka://{address}/topic").read({}, 10)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def broker():
    """The broker that comes with librdkafka: the real protocol over loopback, in memory."""
    kafka = pytest.importorskip("confluent_kafka", reason="needs metricldp[kafka]")
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "127.0.0.1"})
    found = producer.list_topics(timeout=20).brokers[1]
    return producer, f"{found.host}:{found.port}"


def test_a_broker_that_repeats_itself(tmp_path, broker):
    producer, address = broker
    people = records(400)
    sent = delivered(people)
    for k, record in enumerate(sent[:-60]):
        producer.produce("reports", record, partition=k % 3)
    producer.produce("reports", b"".join(sent[-60:-30]), partition=0)
    producer.produce("reports", b"no record", partition=1)
    assert producer.flush(20) == 0
    log = log_of(SURVEY, f"kafka://{address}/reports")
    assert isinstance(log, KafkaLog)
    first = ingest(SURVEY, log, tmp_path / "out", keep=KEEP, at_once=100)
    assert first.refused == {"length": 1}
    producer.produce("reports", b"".join(sent[-30:]), partition=2)
    assert producer.flush(20) == 0
    other = KafkaLog(SURVEY, address, "reports")
    second = ingest(SURVEY, other, tmp_path / "out", keep=KEEP, at_once=100)
    assert second.read == 30
    assert counted(tmp_path / "out") == honest(people)
    more = records(150, seed=5)
    for record in more:
        producer.produce("others", record, partition=0)
    assert producer.flush(20) == 0
    third = ingest(SURVEY, KafkaLog(SURVEY, address, "others"), tmp_path / "out", keep=KEEP)
    assert third.accepted == 150  # a partition of another topic is another one
    assert ingest(SURVEY, other, tmp_path / "out", keep=KEEP).read == 0
    assert counted(tmp_path / "out") == honest([*people, *more])
    with pytest.raises(ReportRefused, match="no topic"):
        KafkaLog(SURVEY, address, "nothing").read({}, 10)


def test_the_record_is_an_id_and_a_report():
    assert len(records(1)[0]) == 16 + packed_size(SURVEY)
    assert outputs.MANIFEST == "manifest.json"


def test_folders_may_have_names_of_any_bytes(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/lo\xffgs"))
    found = ingest(SURVEY, log_in(folder, records(3)), tmp_path / "out")
    assert found.accepted == 3
    assert ingest(SURVEY, FileLog(SURVEY, folder), tmp_path / "out").read == 0
