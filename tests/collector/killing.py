"""Kills a collector at random moments, over and over, and looks what it kept.

    python tests/collector/killing.py --kills 1000 [--processes 2] [--full] [--broken early]

This process has everything imported and forks the servers, so a start takes milliseconds. Devices
send reports that are all different, some alone, some in uploads of many; who gets no answer sends
the same bytes again later. Servers seal all the time, so kills hit that, too. After each
kill: whatever was acknowledged is stored once, nothing is stored twice or was never sent, and
accepted equals stored.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import uvicorn

from metricldp import Integer, Survey
from metricldp.collector import sealing
from metricldp.collector.books import Books, Outcome
from metricldp.collector.envelope import new_id
from metricldp.collector.folder import Collector
from metricldp.collector.intake import Intake
from metricldp.collector.server import Options, application
from metricldp.collector.sqlite import SQLite
from metricldp.reports.bytes import header, pack

PER_FOLDER = 40
"""Kills of one folder, before a new one is begun."""
SURVEY = Survey.design({"x": Integer(0, 64, epsilon=1, mechanism="threshold", per=1)})
HEADER = header(SURVEY)


def report(number):
    return HEADER + number.to_bytes(8, "little")


def break_it(how):
    """Twins that a test has to catch."""
    if how == "early":  # answers before the transaction is on the disk

        async def written(self, uploads, counts):
            self._late = [*getattr(self, "_late", []), (uploads, counts)]
            if len(self._late) > 3:
                for one in self._late:
                    self._books.take(*one)
                self._late = []
            return [Outcome(len(upload), 0, upload.refused) for upload in uploads]

        Intake._written = written
    elif how == "forgetful":  # keeps reports, but not their ids
        plain = SQLite.many

        def many(self, statement, values):
            is_ids = statement.startswith("INSERT INTO ids")
            return 0 if is_ids else plain(self, statement, values)

        SQLite.many = many


def aim(rng):
    """Kill this process at one of the moments that matter, not only at any."""
    where, method, after = rng.choice(
        [
            (sealing, "_write", False),
            (sealing, "_write", True),
            (Books, "seal", True),
            (Books, "_add", False),
            (Books, "_add", True),
            (Books, "write", True),
            (SQLite, "commit", False),
            (SQLite, "commit", True),
        ]
    )
    plain, left = getattr(where, method), [rng.randrange(1, 20)]

    def deadly(*given):
        left[0] -= 1
        if not left[0] and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = plain(*given)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(where, method, deadly)


def serve(place, listening, full, seed):
    """A server in a process of its own, until it is killed."""
    if seed % 2:
        aim(random.Random(seed))
    if full:  # a disk that has no more room for any file
        size = max((p.stat().st_size for p in Path(place).rglob("*") if p.is_file()), default=0)
        limit = size + random.randrange(4096, 200_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    collector = Collector(place)
    app = application(collector, options=Options(seal_at=20, every=0.002))
    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="on", access_log=False, log_level="warning"
    )
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def started(place, listening, full, seed):
    pid = os.fork()
    if not pid:
        try:
            serve(place, listening, full, seed)
        finally:
            os._exit(1)
    return pid


class Devices:
    """All devices, and what they know."""

    def __init__(self, rng):
        self.rng, self.number = rng, 0
        self.bodies = {}
        """By number of the upload: its bytes and the numbers in it."""
        self.acknowledged = set()
        self.waiting = []
        self.failures = Counter()

    def upload(self):
        """A new one, one that had no answer yet, or one that had."""
        choice = self.rng.random()
        if self.waiting and choice < 0.3:
            return self.waiting.pop(self.rng.randrange(len(self.waiting)))
        if self.acknowledged and choice < 0.35:
            return self.rng.choice(tuple(self.acknowledged)[-50:])
        count = 1 if self.rng.random() < 0.7 else self.rng.randrange(2, 60)
        numbers = range(self.number, self.number + count)
        self.number += count
        body = b"".join(new_id() + report(number) for number in numbers)
        self.bodies[numbers.start] = (body, numbers)
        return numbers.start

    async def send(self, ports, end):
        reader = writer = None
        while time.monotonic() < end:
            key = self.upload()
            body = self.bodies[key][0]
            try:
                if writer is None:
                    port = self.rng.choice(ports)
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                path = f"/v1/surveys/{SURVEY.fingerprint}/reports"
                head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                said = await reader.readuntil(b"\r\n\r\n")
                size = int(said.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                text = await reader.readexactly(size)
            except (OSError, asyncio.IncompleteReadError):
                if key not in self.acknowledged:
                    self.waiting.append(key)
                writer = None
                await asyncio.sleep(0.005)
                continue
            if said.startswith(b"HTTP/1.1 200"):
                found = json.loads(text)
                count = len(self.bodies[key][1])
                assert found["accepted"] + found["duplicate"] == count, found
                if key in self.acknowledged:
                    assert found["duplicate"] == count, (found, "an acknowledged one was new")
                self.acknowledged.add(key)
            else:
                self.failures[said[9:12].decode()] += 1
                if key not in self.acknowledged:
                    self.waiting.append(key)
                await asyncio.sleep(0.005)

    @property
    def kept(self):
        return {n for key in self.acknowledged for n in self.bodies[key][1]}


def numbers_in(place):
    """Every stored report, and the counters, as they are on the disk."""
    collector = Collector(place)
    try:
        table = collector.tally(SURVEY).store.table
        status = collector.status(SURVEY)
        found = [int.from_bytes(r[len(HEADER) :], "little") for r in pack(SURVEY, table)]
        return found, status
    finally:
        collector.close()


def check(place, devices):
    found, status = numbers_in(place)
    counts = Counter(found)
    lost = devices.kept - counts.keys()
    double = [number for number, n in counts.items() if n > 1]
    strange = [number for number in counts if number >= devices.number]
    assert not lost, f"{len(lost)} acknowledged reports are lost"
    assert not double, f"{len(double)} reports are stored twice"
    assert not strange, f"{len(strange)} reports were never sent"
    accepted = status.outcomes["accepted"]
    assert accepted == len(found) == status.reports, (accepted, len(found), status.reports)
    return len(found)


class Folder:
    """One folder, its servers and its devices."""

    def __init__(self, place, processes, full, rng):
        self.place, self.full, self.rng = place, full, rng
        with Collector(place) as collector:  # closed before any process forks
            collector.open(SURVEY)
        self.devices, self.running, self.orphans = Devices(rng), {}, 0
        self.sockets = []
        for _ in range(processes):
            listening = socket.socket()
            listening.bind(("127.0.0.1", 0))
            listening.listen(256)
            self.sockets.append(listening)
        self.ports = [listening.getsockname()[1] for listening in self.sockets]

    def start(self):
        for at, listening in enumerate(self.sockets):
            if at not in self.running:
                full = self.full and self.rng.random() < 0.5
                seed = self.rng.randrange(1 << 32)
                self.running[at] = started(self.place, listening, full, seed)

    async def rush(self, seconds, dying):
        """Devices send, and in the midst of it servers are killed."""
        end = time.monotonic() + seconds + 4
        sending = [asyncio.create_task(self.devices.send(self.ports, end)) for _ in range(12)]
        if self.rng.random() < 0.8:  # a slow machine may need a while for the first answer
            before, latest = len(self.devices.acknowledged), time.monotonic() + 3
            while len(self.devices.acknowledged) == before and time.monotonic() < latest:
                await asyncio.sleep(0.005)
        await asyncio.sleep(seconds)
        self.kill(dying)
        # A device that waits for a dead server hears nothing while the socket listens.
        await asyncio.sleep(0.05)
        for task in sending:
            task.cancel()
        for found in await asyncio.gather(*sending, return_exceptions=True):
            if isinstance(found, AssertionError):
                raise found

    def kill(self, dying):
        for at in dying:
            pid = self.running.pop(at)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def one_round(self):
        self.start()
        several = sorted(self.running)
        dying = several if self.rng.random() < 0.5 else [self.rng.choice(several)]
        asyncio.run(self.rush(self.rng.uniform(0, 0.4), dying))
        # Who was cut off in the middle sends again.
        self.devices.waiting = sorted(self.devices.bodies.keys() - self.devices.acknowledged)
        if not self.running:
            self.look()
        return len(dying)

    def look(self):
        known = Collector(self.place)
        with known.using() as (books, _):
            names = books.segments()
        known.close()
        files = {p.name for p in (Path(self.place) / "segments").glob("*.parquet")}
        assert names.keys() <= files, "a segment has no file"
        self.orphans += len(files - names.keys())
        return check(self.place, self.devices), len(names)

    def end(self):
        self.kill(sorted(self.running))
        for listening in self.sockets:
            listening.close()
        return self.look()


def run(kills, processes, full=False, seed=1, say=print):
    rng, total, failures = random.Random(seed), Counter(), Counter()
    began = time.monotonic()
    while total["kills"] < kills:
        with tempfile.TemporaryDirectory() as place:
            one, done = Folder(place, processes, full, rng), 0
            while done < min(PER_FOLDER, kills - total["kills"]):
                done += one.one_round()
            stored, segments = one.end()
        acknowledged = len(one.devices.kept)
        total += Counter(kills=done, acknowledged=acknowledged, stored=stored)
        total += Counter(segments=segments, orphans=one.orphans)
        failures += one.devices.failures
        say(f"{dict(total)} failures {dict(failures)} after {time.monotonic() - began:.0f} s")
    return total, failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="half of the servers have a full disk")
    parser.add_argument("--broken", choices=["early", "forgetful"])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    break_it(asked.broken)
    try:
        run(asked.kills, asked.processes, asked.full, asked.seed, lambda t: print(t, flush=True))
    except AssertionError as wrong:
        print(f"FAILED: {wrong}", flush=True)
        sys.exit(1)
