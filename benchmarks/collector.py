"""What a collector costs, in processor time, beside a server that does nothing in the same run.

    python benchmarks/collector.py [--small] [--seconds 5] [--store 10_000_000]

The server is `metricldp collector serve` in a process of its own; this process sends. Times are
those that the system books for the server's processes (utime + stime), so a busy machine changes
little.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import measure
from metricldp import Categorical, Integer, Survey

TICKS = os.sysconf("SC_CLK_TCK")
NOTHING = """
import sys, socket, uvicorn
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown": return
    while (await receive()).get("more_body"): pass
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools",
            access_log=False, log_level="warning", server_header=False, date_header=False)
"""


def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
            "region": Categorical(
                ["north", "south", "east"], epsilon=2, mechanism="randomized-response"
            ),
        }
    )


def reports(agreed, count):
    rng = np.random.default_rng(1)
    ages, regions = rng.integers(0, 100, count), rng.choice(["north", "south", "east"], count)
    return [
        agreed.report({"age": int(age), "region": str(region)})
        for age, region in zip(ages, regions, strict=True)
    ]


def new_id():
    """The day in UTC and 12 random bytes, as docs/specification.md has it."""
    return int(time.time() // 86_400).to_bytes(4, "big") + os.urandom(12)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process that serves, and what it has used so far."""

    def __init__(self, command, port):
        self.process = subprocess.Popen([str(part) for part in command])
        self.port = port
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        time.sleep(0.5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    @property
    def processor(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) / 1024
        return float("nan")


def nothing():
    port = free_port()
    return Server([sys.executable, "-c", NOTHING, port], port)


def collector(folder, agreed, *more):
    port = free_port()
    path = Path(folder) / "survey.toml"
    agreed.save(path)
    return Server(
        [sys.executable, "-m", "metricldp", "collector", "serve", path, "--port", port, *more], port
    )


class Connection(asyncio.Protocol):
    """One device after the other, each as soon as the last was answered."""

    def __init__(self, bodies, path, times, done, counted):
        self.bodies, self.path, self.times, self.done = bodies, path, times, done
        self.counted = counted
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport
        self.next()

    def next(self):
        body = next(self.bodies, None)
        if body is None:
            self.transport.close()
            return
        self.began = time.perf_counter()
        head = f"POST {self.path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def data_received(self, data):
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self.times.append(time.perf_counter() - self.began)
        status = int(head[9:12])
        self.counted[status] = self.counted.get(status, 0) + 1
        self.buffer = b""
        self.next()

    def connection_lost(self, _):
        if not self.done.done():
            self.done.set_result(None)


async def drive(port, bodies, path, connections):
    """Send everything; how long each took, and the statuses."""
    loop = asyncio.get_running_loop()
    times, counted, ends = [], {}, []
    for _ in range(connections):
        done = loop.create_future()
        ends.append(done)
        await loop.create_connection(
            lambda done=done: Connection(bodies, path, times, done, counted), "127.0.0.1", port
        )
    await asyncio.gather(*ends)
    return np.array(times), counted


def measured(server, bodies, path, connections=64):
    """Processor microseconds per request, the times, and the statuses."""
    before = server.processor
    times, counted = asyncio.run(drive(server.port, bodies, path, connections))
    return 1e6 * (server.processor - before) / len(times), times, counted


def uploads(some, each, until):
    """Bodies of so many reports with new ids, until a time."""
    at = 0
    while time.monotonic() < until:
        body = b"".join(new_id() + some[(at + k) % len(some)] for k in range(each))
        at += each
        yield body


def load(seconds):
    lines = []
    agreed = survey()
    some = reports(agreed, 10_000)
    path = f"/v1/surveys/{agreed.fingerprint}/reports"
    with (
        tempfile.TemporaryDirectory() as folder,
        nothing() as idle,
        collector(folder, agreed, "--seal-at", "1000000000") as kept,
    ):
        measured(kept, uploads(some, 1, time.monotonic() + 1), path)
        for each, connections in ((1, 64), (1, 256), (100, 8), (1000, 8)):
            rows = {}
            for _ in range(2):
                for name, server in (("nothing", idle), ("collector", kept)):
                    bodies = uploads(some, each, time.monotonic() + seconds)
                    rows.setdefault(name, []).append(measured(server, bodies, path, connections))
            base = min(found for found, _, _ in rows["nothing"])
            cost, times, counted = min(rows["collector"], key=lambda row: row[0])
            assert set(counted) == {200}, counted
            lines.append(
                {
                    "reports an upload": each,
                    "connections": connections,
                    "nothing, us": base,
                    "collector, us": cost,
                    "times nothing": cost / base if base else None,
                    "us a report": cost / each,
                    "p50 ms": 1e3 * float(np.median(times)),
                    "p99 ms": 1e3 * float(np.quantile(times, 0.99)),
                }
            )
    measure.table(lines, list(lines[0]), "collector")


def sealing(seconds):
    lines = []
    agreed = survey()
    some = reports(agreed, 10_000)
    path = f"/v1/surveys/{agreed.fingerprint}/reports"
    for name, at in (("never sealing", 1_000_000_000), ("sealing every 20,000", 20_000)):
        with (
            tempfile.TemporaryDirectory() as folder,
            collector(folder, agreed, "--seal-at", at) as kept,
        ):
            measured(kept, uploads(some, 1000, time.monotonic() + seconds), path, 1)
            until = time.monotonic() + seconds

            def mixed(until=until):
                # Singles are timed; a large upload in between keeps the sealer busy.
                yield from uploads(some, 1, until)

            async def both(until=until, kept=kept, mixed=mixed):
                large = drive(kept.port, uploads(some, 1000, until), path, 1)
                return await asyncio.gather(drive(kept.port, mixed(), path, 16), large)

            (times, counted), (_, many) = asyncio.run(both())
            assert set(counted) == {200}, counted
            lines.append(
                {
                    "sealing": name,
                    "single reports": len(times),
                    "uploads of 1,000": many.get(200, 0),
                    "p50 ms": 1e3 * float(np.median(times)),
                    "p99 ms": 1e3 * float(np.quantile(times, 0.99)),
                    "longest ms": 1e3 * float(times.max()),
                }
            )
    measure.table(lines, list(lines[0]), "collector-sealing")


def memory(count):
    lines = []
    agreed = survey()
    some = reports(agreed, 10_000)
    path = f"/v1/surveys/{agreed.fingerprint}/reports"
    with tempfile.TemporaryDirectory() as folder, collector(folder, agreed) as kept:
        step = min(500_000, count)
        for done in range(step, count + 1, step):
            bodies = (
                b"".join(new_id() + some[(1000 * k + j) % len(some)] for j in range(1000))
                for k in range(step // 1000)
            )
            cost, times, counted = measured(kept, bodies, path, 4)
            size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()) / 1e6
            assert set(counted) == {200}, counted
            lines.append(
                {
                    "reports": done,
                    "memory MB": kept.memory,
                    "disk MB": size,
                    "us a report": cost / 1000,
                    "p99 ms": 1e3 * float(np.quantile(times, 0.99)),
                }
            )
    measure.table(lines, list(lines[0]), "collector-memory")


def main():
    parser = measure.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row")
    parser.add_argument("--store", type=int, default=10_000_000, help="reports of the long run")
    options = measure.arguments(parser)
    seconds, store = (0.5, 20_000) if options.small else (options.seconds, options.store)
    load(seconds)
    sealing(seconds)
    memory(store)


if __name__ == "__main__":
    main()
