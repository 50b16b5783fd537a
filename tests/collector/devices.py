"""Devices that call the app directly, without a network."""

import asyncio
import contextlib
import json
import time

from metricldp.collector.envelope import new_id
from metricldp.collector.server import Options, application
from metricldp.reports.bytes import header


def report_of(wide, number):
    return header(wide) + number.to_bytes(8, "little")


class Estimate:
    def __init__(self, messages):
        self.status = messages[0]["status"]
        self.headers = {k.decode(): v.decode() for k, v in messages[0]["headers"]}
        self.body = b"".join(m.get("body", b"") for m in messages[1:])

    @property
    def data(self):
        return json.loads(self.body)

    @property
    def word(self):
        """The last word of a problem's type."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.data["status"] == self.status
        return self.data["type"].rpartition(":")[2]


async def ask(app, method, path, body=b"", headers=(), pieces=None, query=b""):
    """One request, without a network."""
    parts = iter([body] if pieces is None else pieces)
    messages, rest = [], [None]

    async def receive():
        if rest[0] is None:
            rest[0] = list(parts)
        if not rest[0]:
            return {"type": "http.disconnect"}
        part = rest[0].pop(0)
        if isinstance(part, float):
            await asyncio.sleep(part)
            return await receive()
        return {"type": "http.request", "body": part, "more_body": bool(rest[0])}

    async def send(message):
        messages.append(message)

    raw = [(k.encode(), v.encode()) for k, v in dict(headers).items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "scheme": "http",
        "headers": raw,
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return Estimate(messages)


def upload_path(survey):
    return f"/v1/surveys/{survey.fingerprint}/reports"


@contextlib.asynccontextmanager
async def running(collector, **options):
    """The app between its start and its end; it seals only when told to."""
    app = application(collector, options=Options(**{"every": 0.0, **options}))
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


def serve_and(collector, work, **options):
    """Run `work(app)` with a started app, and return what it returns."""

    async def go():
        async with running(collector, **options) as app:
            return await work(app)

    return asyncio.run(go())


def post_all(collector, survey, bodies, **options):
    """Answers to uploads, one after the other."""

    async def go(app):
        return [await ask(app, "POST", upload_path(survey), body) for body in bodies]

    return serve_and(collector, go, **options)


def records(reports, day=None):
    return [new_id(day) + report for report in reports]


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
