"""Sending reports to a collector: uploads of many, each again with the same bytes until kept.

For those who gathered reports elsewhere, and for trying a collector out; devices send their own.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from itertools import count
from pathlib import Path
from typing import Any

from metricldp.basics.errors import QueryError, ReportRefused
from metricldp.collector.envelope import DAY, LARGEST, new_id, today
from metricldp.collector.proofs import SERIAL
from metricldp.reports import arrow, parquet
from metricldp.reports.bytes import pack
from metricldp.reports.encode import encode
from metricldp.reports.files import read_people
from metricldp.survey.agreement import Agreement

AT_ONCE = 1000
"""Reports in an upload."""
_WAITS = (0.5, 1, 2, 4, 8, 16, 32)
"""Seconds before each further attempt."""
_TIMEOUT = 60
_SAME_DAYS = 25
"""Days for which a file of reports is sent under the same ids again."""


@dataclass
class Sent:
    """What became of all that was sent."""

    accepted: int = 0
    duplicate: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, said: dict[str, Any]) -> None:
        self.accepted += int(said["accepted"])
        self.duplicate += int(said["duplicate"])
        self.refused.update({str(k): int(n) for k, n in said["refused"].items()})

    def to_dict(self) -> dict[str, Any]:
        return {
            "accepted": self.accepted,
            "duplicate": self.duplicate,
            "refused": dict(self.refused),
        }


class Line:
    """A connection to one collector, made again whenever it breaks."""

    def __init__(self, url: str, waits: Iterable[float] = _WAITS) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise QueryError(f"a collector has an address such as https://example.org, not {url!r}")
        self.url, self._parts, self._waits = url, parts, tuple(waits)
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self, method: str, path: str, body: bytes | None = None, token: str | None = None
    ) -> dict[str, Any]:
        """The answer, as data; busy and broken lines are tried again with the same bytes."""
        why = ""
        for wait in (*self._waits, None):
            try:
                status, text = self._once(method, path, body, token)
            except (OSError, http.client.HTTPException) as wrong:
                self.close()
                why = str(wrong) or type(wrong).__name__
            else:
                if status < 400:
                    return _data(text)
                why = str(_data(text).get("title", f"status {status}"))
                if status < 500 and status != http.client.TOO_MANY_REQUESTS:
                    word = str(_data(text).get("type", "")).rpartition(":")[2]
                    raise ReportRefused(word or str(status), f"{self.url} says: {why}")
            if wait is not None:
                time.sleep(wait)
        raise ReportRefused("busy", f"{self.url} does not answer: {why}; try again later")

    def _once(
        self, method: str, path: str, body: bytes | None, token: str | None
    ) -> tuple[int, bytes]:
        if self._connection is None:
            kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            made = kinds[self._parts.scheme]
            self._connection = made(str(self._parts.hostname), self._parts.port, timeout=_TIMEOUT)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _data(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def send(
    survey: Agreement,
    reports: Iterable[bytes],
    ids: Iterator[bytes],
    to: Line,
    *,
    at_once: int = AT_ONCE,
    progress: Callable[[int], None] = lambda done: None,
) -> Sent:
    """Send reports, each under the next id (with its proof, where one is needed)."""
    sent, done = Sent(), 0
    waiting: list[bytes] = []
    path = f"/v1/surveys/{survey.fingerprint}/reports"

    def flush() -> None:
        nonlocal done
        try:
            sent.add(to.ask("POST", path, b"".join(waiting)))
        except ReportRefused as wrong:
            if len(waiting) > 1:
                raise
            sent.refused[wrong.reason] += 1
        done += len(waiting)
        waiting.clear()
        progress(done)

    size = 0
    for report in reports:
        head = next(ids, None)
        if head is None:
            there = done + len(waiting)
            raise QueryError(f"there are more reports than invites, which are {there}")
        if waiting and (len(waiting) == at_once or size + len(head) + len(report) > LARGEST):
            flush()
            size = 0
        waiting.append(head + report)
        size += len(head) + len(report)
    if waiting:
        flush()
    return sent


def is_reports(path: Path) -> bool:
    """Whether a file holds reports; else it holds people."""
    if path.suffix.lower() not in parquet.ENDINGS or not path.is_file():
        return False
    return arrow.is_marked(parquet.schema_in(path))


def reports_in(survey: Agreement, path: Path, *, clip: bool = False) -> Iterator[bytes]:
    """The reports of a file; people are blurred on this machine."""
    if is_reports(path):
        with parquet.opened(survey, path, trust=False) as file:
            for table in file.tables(0):
                yield from pack(survey, table)
        return
    people = read_people(path, list(survey.asked), lambda done: None)
    for batch in arrow.regrouped(people, arrow.BATCH):
        yield from pack(survey, encode(survey, batch, clip=clip, shuffle=True))


def ids_for(survey: Agreement, path: Path) -> Iterator[bytes]:
    """New ids; those of a file of reports are the same when it is sent again, and no other's."""
    if not is_reports(path):
        while True:
            yield new_id()
    with parquet.opened(survey, path, trust=False) as file:
        seed = " ".join(sorted(file.collections)).encode()
    if not seed:  # another program dropped the numbers
        with path.open("rb") as whole:
            seed = file_digest(whole, "sha256").digest()
    day = int(path.stat().st_mtime) // 86_400
    day = day if 0 <= today() - day <= _SAME_DAYS else today()
    for at in count():
        yield day.to_bytes(DAY, "big") + sha256(seed + b" %d" % at).digest()[: SERIAL - DAY]


def invites_in(path: Path) -> Iterator[bytes]:
    """The invites of a file: a line for each, in hexadecimal digits."""
    for number, line in enumerate(path.read_text("ascii", "replace").splitlines(), 1):
        try:
            yield bytes.fromhex(line)
        except ValueError:
            raise QueryError(f"line {number} of {path} is no invite") from None
