"""200 means on the disk: system calls in their order, and kills at any moment."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from devices import post_all, report_of

from metricldp.collector.books import Books
from metricldp.collector.database import StoreError
from metricldp.collector.envelope import new_id
from metricldp.collector.folder import Collector
from metricldp.reports.bytes import pack

HERE = Path(__file__).parent
KILLS = int(os.environ.get("METRICLDP_KILLS", "1000"))


def run_here(*command):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [str(part) for part in command], env=environment, stderr=subprocess.PIPE, text=True
    )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def traced(tmp_path, wide, uploads, *broken):
    """The lines of strace while single reports are sent, one after the other."""
    folder, port, lines = tmp_path / "collected", free_port(), tmp_path / "calls"
    collector = Collector(folder)
    collector.open(wide)
    collector.close()
    calls = "trace=fdatasync,fsync,write,writev,sendto,sendmsg,read,recvfrom,recvmsg"
    tracer = ["strace", "-f", "-s", "32", "-e", calls, "-e", "signal=none", "-o", lines]
    server = run_here(*tracer, sys.executable, HERE / "serve_one.py", folder, port, *broken)
    try:
        for _ in range(600):
            if server.poll() is not None:
                pytest.skip(f"strace cannot trace here: {server.stderr.read()[-200:]}")
            try:
                line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                line.connect()
                break
            except OSError:
                time.sleep(0.1)
        for number in range(uploads):
            body = new_id() + report_of(wide, number)
            line.request("POST", f"/v1/surveys/{wide.fingerprint}/reports", body)
            assert line.getresponse().read() == b'{"accepted":1,"duplicate":0,"rejected":{}}'
        line.close()
        time.sleep(0.3)
    finally:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        for child in children.read_text().split() if children.exists() else []:
            os.kill(int(child), signal.SIGTERM)
        server.wait(20)
        server.stderr.close()
    return lines.read_text().splitlines()


def answers_on_the_disk(lines):
    """For each answer, whether the disk was waited for between the report and its answer."""
    found, synced = [], None
    for line in lines:
        if re.search(r'"POST /v1/surveys', line):
            synced = False
        elif re.search(r"f(data)?sync.*= 0$", line) and synced is not None:
            synced = True
        elif '"HTTP/1.1 200' in line and synced is not None:
            found.append(synced)
            synced = None
    return found


needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


@needs_strace
def test_no_answer_leaves_before_its_report_is_on_the_disk(tmp_path, wide):
    assert answers_on_the_disk(traced(tmp_path, wide, 20)) == [True] * 20


@needs_strace
@pytest.mark.parametrize("broken", ["early", "unsynced"])
def test_the_broken_twins_are_caught(tmp_path, wide, broken):
    found = answers_on_the_disk(traced(tmp_path, wide, 5, broken))
    assert len(found) == 5
    assert not found[0]


def kill(kills, *more):
    running = run_here(sys.executable, "-W", "ignore", HERE / "killing.py", "--kills", kills, *more)
    _, log = running.communicate()
    return running.returncode, log


def test_a_few_kills():
    code, log = kill(4, "--processes", 2)
    assert code == 0, log


@pytest.mark.parametrize("broken", ["early", "forgetful"])
@pytest.mark.slow
def test_kills_catch_broken_twins(broken):
    code, log = kill(40, "--broken", broken)
    assert code == 1, log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "more"),
    [(0.4, ()), (0.4, ("--processes", 2)), (0.2, ("--processes", 2, "--full"))],
    ids=["one process", "two processes", "full disk"],
)
def test_a_thousand_kills(share, more):
    """METRICLDP_KILLS says how many in all."""
    code, log = kill(max(2, int(share * KILLS)), *more)
    assert code == 0, log


@pytest.fixture
def small_disk():
    """A disk of two megabytes, where one can be had."""
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("a small disk can only be mounted by root")
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", place], check=True)


def test_a_disk_that_is_really_full(small_disk, wide):
    """Nothing acknowledged is lost, nothing else is kept, and it goes on with more room."""
    collector = Collector(small_disk / "collected")
    collector.open(wide)
    bodies = [
        b"".join(new_id() + report_of(wide, 1000 * k + j) for j in range(1000)) for k in range(80)
    ]
    statuses = [a.status for a in post_all(collector, wide, bodies)]
    assert statuses.count(200) > 3
    assert statuses.count(503) > 3
    assert {*statuses} == {200, 503}
    kept = 1000 * statuses.count(200)
    assert collector.tally(wide).n == kept == collector.status(wide).outcomes["accepted"]
    books = Books(collector.connect())
    with pytest.raises(StoreError):
        collector.tend(books, 1)
    assert collector.tally(wide).n == kept
    subprocess.run(["mount", "-o", "remount,size=40m", small_disk], check=True)
    again = post_all(collector, wide, bodies)
    assert {a.status for a in again} == {200}
    assert sum(a.data["duplicate"] for a in again) == kept
    collector.tend(books, 1)
    numbers = {
        int.from_bytes(r[17:], "little") for r in pack(wide, collector.tally(wide).store.table)
    }
    assert numbers == set(range(80_000))
    assert collector.tally(wide).n == 80_000
    books.database.close()
    collector.close()
