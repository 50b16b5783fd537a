"""A log that delivers at least once: each record counts once, after any crash."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from devices import post_all, report_of

from metricldp import Integer, InvalidReportError, QueryError, Survey
from metricldp.collector import ingest as ingesting
from metricldp.collector.envelope import new_id
from metricldp.collector.folder import Collector
from metricldp.collector.ingest import FileLog, KafkaLog, ingest, log_of
from metricldp.collector.settings import Settings
from metricldp.reports.bytes import pack

SURVEY = Survey.design({"x": Integer(0, 64, epsilon=1, mechanism="threshold", per=1)})


def records(count, first=0):
    return [new_id() + report_of(SURVEY, k) for k in range(first, first + count)]


def delivered(messages, seed=1, again=0.3):
    """At least once, and not in order."""
    rng = random.Random(seed)
    sent = [*messages, *(m for m in messages if rng.random() < again)]
    rng.shuffle(sent)
    return sent


def stored(collector, survey=SURVEY):
    return Counter(pack(survey, collector.tally(survey).store.table))


def reports_in(messages):
    return Counter({message[16:]: 1 for message in messages})


@pytest.fixture
def collected(tmp_path):
    with Collector(tmp_path / "collected") as collector:
        collector.open(SURVEY)
        yield collector


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "a.log"
    path.touch()
    return path


def read_file(collector, path, **options):
    log = log_of(str(path), collector.entry(SURVEY.fingerprint))
    return ingest(collector, SURVEY.fingerprint, log, **options)


def test_each_record_counts_once(collected, log_file):
    messages = records(500)
    sent = delivered(messages)
    log_file.write_bytes(b"".join(sent))
    outcomes = read_file(collected, log_file, at_once=64, seal_at=100)
    assert outcomes == {"accepted": 500, "duplicate": len(sent) - 500}
    assert stored(collected) == reports_in(messages)
    assert len(list(collected.folder.rglob("*.parquet"))) >= 3
    assert read_file(collected, log_file) == {}
    status = collected.status(SURVEY)
    assert (status.reports, status.outcomes["accepted"]) == (500, 500)


def test_records_of_a_log_and_of_uploads_share_the_index(collector, wide, tmp_path):
    """With SQLite and Postgres."""
    collector.open(wide)
    messages = [new_id() + report_of(wide, k) for k in range(30)]
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(messages))
    entry = collector.entry(wide.fingerprint)
    assert ingest(collector, wide.fingerprint, log_of(str(path), entry)) == {"accepted": 30}
    (answer,) = post_all(collector, wide, [b"".join(messages)])
    assert answer.data["duplicate"] == 30
    assert stored(collector, wide) == reports_in(messages)


def test_growing_file_is_read_from_its_offset(collected, log_file):
    messages = records(300)
    log_file.write_bytes(b"".join(messages[:120]) + messages[120][:9])  # one is incomplete
    assert read_file(collected, log_file) == {"accepted": 120}
    with log_file.open("ab") as file:
        file.write(messages[120][9:] + b"".join(messages[100:]))
    assert read_file(collected, log_file) == {"accepted": 180, "duplicate": 21}
    assert stored(collected) == reports_in(messages)
    log_file.write_bytes(b"".join(messages[:3]))
    with pytest.raises(InvalidReportError, match="is shorter than its offset"):
        read_file(collected, log_file)


def test_invalid_records_are_counted_by_reason(collected, log_file):
    messages = records(5)
    wrong = [bytearray(message) for message in messages[:2]]
    wrong[0][16] = 9
    wrong[1][20] ^= 1
    old = new_id(5) + messages[0][16:]
    log_file.write_bytes(b"".join([*wrong, old, *messages]))
    outcomes = read_file(collected, log_file)
    assert outcomes == {"version": 1, "survey": 1, "late": 1, "accepted": 5}
    assert stored(collected) == reports_in(messages)
    collected.stop(SURVEY)
    with log_file.open("ab") as file:
        file.write(records(1)[0])
    assert read_file(collected, log_file) == {"closed": 1}


def test_invites_are_checked(collected, log_file):
    collected.open(SURVEY, Settings(proof="invites", key="ab" * 32))
    proof = collected.entry(SURVEY.fingerprint).settings.made_proof()
    good = proof.new(1)[0] + report_of(SURVEY, 1)
    log_file.write_bytes(good + bytes(32) + report_of(SURVEY, 2))
    assert read_file(collected, log_file) == {"accepted": 1, "invite": 1}


def test_settings_of_a_deleted_survey(collected, log_file):
    log_file.write_bytes(records(1)[0])
    log = log_of(str(log_file), collected.entry(SURVEY.fingerprint))
    collected.delete(SURVEY)
    with pytest.raises(QueryError, match="was deleted"):
        ingest(collected, SURVEY.fingerprint, log)


PROGRAM = """
import os, signal, sys
sys.path[:0] = sys.argv[4:]
from pathlib import Path
from test_ingest import SURVEY, read_file
from metricldp.collector.books import Books
from metricldp.collector.folder import Collector
from metricldp.collector.ingest import FileLog

place, path, moment = sys.argv[1:4]
left = 3

def deadly(plain, after):
    def call(*given, **more):
        global left
        left -= 1
        if not left and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = plain(*given, **more)
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

if moment.startswith("flush"):
    Books.take = deadly(Books.take, moment == "flush after")
elif moment.startswith("commit"):
    FileLog.commit = deadly(FileLog.commit, moment == "commit after")
elif moment == "offsets first":
    plain = FileLog.read
    def read(self, most):
        messages = plain(self, most)
        self.commit()
        return messages
    FileLog.read = read
    Books.take = deadly(Books.take, False)
with Collector(place) as collector:
    print(read_file(collector, Path(path), at_once=20, seal_at=30), flush=True)
"""


def run_killed(place, path, moment):
    words = [sys.executable, "-c", PROGRAM, place, path, moment, *sys.path]
    process = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.mark.parametrize("moment", ["flush before", "flush after", "commit before", "commit after"])
def test_kill_around_flush_and_offset_commit(collected, log_file, moment):
    messages = records(200)
    log_file.write_bytes(b"".join(messages))
    run_killed(collected.folder, log_file, moment)
    delivered_again = {"flush after": 20, "commit before": 20}.get(moment, 0)
    outcomes = read_file(collected, log_file)
    assert outcomes["duplicate"] == delivered_again
    assert stored(collected) == reports_in(messages)
    assert collected.status(SURVEY).outcomes["accepted"] == 200


def test_negative_control_that_commits_offsets_first_loses_reports(collected, log_file):
    messages = records(200)
    log_file.write_bytes(b"".join(messages))
    run_killed(collected.folder, log_file, "offsets first")
    read_file(collected, log_file)
    assert sum(stored(collected).values()) == 180


def test_random_kills(collected, log_file):
    messages = records(2000)
    log_file.write_bytes(b"".join(delivered(messages)))
    rng, kills = random.Random(4), 0
    while kills < 3:
        words = [sys.executable, "-c", PROGRAM, collected.folder, log_file, "none", *sys.path]
        process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, text=True)
        offset = Path(f"{log_file}.offset")
        before = offset.read_text() if offset.exists() else ""
        while process.poll() is None and (not offset.exists() or offset.read_text() == before):
            time.sleep(0.001)
        time.sleep(0.01 * rng.random())
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
    read_file(collected, log_file)
    assert stored(collected) == reports_in(messages)


def test_addresses_of_logs(collected, log_file, tmp_path):
    entry = collected.entry(SURVEY.fingerprint)
    assert isinstance(log_of(str(log_file), entry), FileLog)
    for wrong in ("http://a/b", "kafka://host:9092", "kafka:///topic", "kafka://h/a/b"):
        with pytest.raises(QueryError, match="kafka://HOST:PORT/TOPIC"):
            log_of(wrong, entry)
    with pytest.raises(InvalidReportError, match="cannot read the log"):
        log_of(str(tmp_path / "none"), entry)
    Path(f"{log_file}.offset").write_text("x")
    with pytest.raises(InvalidReportError, match="cannot read the log"):
        log_of(str(log_file), entry)


# Kafka -------------------------------------------------------------------------------------------


def test_unreachable_broker(monkeypatch, capfd):
    pytest.importorskip("confluent_kafka", reason="needs metricldp[kafka]")
    monkeypatch.setattr(ingesting, "_PATIENCE", 0.3)
    for address in ("127.0.0.1:1", "[::1", "127.0.0.1:99999"):
        with pytest.raises(InvalidReportError, match=r"cannot read from .*; check the address"):
            KafkaLog(address, "topic", "group")
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def broker():
    """The broker that comes with librdkafka: the real protocol over loopback, in memory."""
    kafka = pytest.importorskip("confluent_kafka", reason="needs metricldp[kafka]")
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "127.0.0.1"})
    described = producer.list_topics(timeout=20).brokers[1]
    return producer, f"{described.host}:{described.port}"


def test_topic(collected, broker):
    producer, address = broker
    messages = records(400)
    sent = delivered(messages)
    for k, message in enumerate(sent[:-60]):
        producer.produce("reports", message, partition=k % 3)
    producer.produce("reports", b"".join(sent[-60:-30]), partition=0)
    producer.produce("reports", b"no record", partition=1)
    assert producer.flush(20) == 0
    entry = collected.entry(SURVEY.fingerprint)
    new_log = partial(log_of, f"kafka://{address}/reports", entry)
    first = ingest(collected, SURVEY.fingerprint, new_log(), at_once=100)
    assert first["length"] == 1
    assert first["accepted"] + first["duplicate"] == len(sent) - 30
    producer.produce("reports", b"".join(sent[-30:]), partition=2)
    assert producer.flush(20) == 0
    second = ingest(collected, SURVEY.fingerprint, new_log())
    assert second["accepted"] + second["duplicate"] == 30
    assert stored(collected) == reports_in(messages)
    third = ingest(collected, SURVEY.fingerprint, new_log(group="another"))
    assert third == {"duplicate": len(sent), "length": 1}
    with pytest.raises(InvalidReportError, match="no topic"):
        KafkaLog(address, "nothing", "group")


def test_topic_delivers_again_what_was_not_committed(collected, broker, monkeypatch):
    producer, address = broker
    messages = records(50)
    for message in messages:
        producer.produce("reports", message, partition=0)
    assert producer.flush(20) == 0
    log = partial(log_of, f"kafka://{address}/reports", collected.entry(SURVEY.fingerprint))

    class Killed(BaseException):
        pass

    def die(_):
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(KafkaLog, "commit", die)
        ingest(collected, SURVEY.fingerprint, log(), at_once=20)
    outcomes = ingest(collected, SURVEY.fingerprint, log())
    assert outcomes["accepted"] + outcomes["duplicate"] == 50
    assert outcomes["duplicate"] > 0
    assert stored(collected) == reports_in(messages)


def test_deleted_messages_are_reported(broker, monkeypatch, caplog):
    kafka = pytest.importorskip("confluent_kafka")
    producer, address = broker
    producer.produce("reports", b"x", partition=0)
    assert producer.flush(20) == 0

    class Consumer(kafka.Consumer):
        def committed(self, partitions, timeout):
            for place in partitions:
                place.offset = 3 if place.partition == 0 else -1001
            return partitions

        def get_watermark_offsets(self, place, timeout):
            return (10, 20) if place.partition == 0 else (0, 0)

    monkeypatch.setattr(ingesting.kafka, "Consumer", Consumer)
    KafkaLog(address, "reports", "group").close()
    (record,) = caplog.records
    assert record.getMessage().startswith("partition 0 of reports: 7 messages were deleted")
