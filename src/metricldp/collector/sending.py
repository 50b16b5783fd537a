"""Sending reports to a collector: uploads of many, each again with the same bytes until kept.

For those who gathered reports elsewhere, and for trying a collector out; devices send their own.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from metricldp.basics.errors import InvalidReportError, QueryError
from metricldp.basics.text import shown
from metricldp.basics.writing import why_not
from metricldp.collector.envelope import DAY, LARGEST, UNDATED, new_id
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
_LONGEST = 1 << 24
"""Bytes of an answer that are read."""
_TOKEN = re.compile(r"[!-~]+")
T = TypeVar("T")


@dataclass
class Sent:
    """What became of all that was sent."""

    accepted: int = 0
    duplicate: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, said: dict[str, Any]) -> None:
        self.accepted += int(said["accepted"])
        self.duplicate += int(said["duplicate"])
        self.refused.update({str(k): int(n) for k, n in said["rejected"].items()})

    def to_dict(self) -> dict[str, Any]:
        return {
            "accepted": self.accepted,
            "duplicate": self.duplicate,
            "rejected": dict(self.refused),
        }


class Line:
    """A connection to one collector, made again whenever it breaks."""

    def __init__(self, url: str, waits: Iterable[float] = _WAITS) -> None:
        self.url, self._waits = url, tuple(waits)
        try:
            self._parts = urllib.parse.urlsplit(url)
            self._port = self._parts.port
        except ValueError as wrong:
            raise self._no_address(why_not(wrong)) from None
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise self._no_address("it has no http:// or no host")
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _no_address(self, why: str) -> QueryError:
        return QueryError(
            f"a collector has an address such as https://example.org:8000, not {shown(self.url)}: "
            f"{why}"
        )

    def ask(
        self, method: str, path: str, body: bytes | None = None, token: str | None = None
    ) -> dict[str, Any]:
        """The answer, as data; busy and broken lines are tried again with the same bytes."""
        if token is not None and not _TOKEN.fullmatch(token):
            raise QueryError("a token is one word, as metricldp collector token new has shown it")
        why = ""
        for wait in (*self._waits, None):
            try:
                status, text = self._once(method, path, body, token)
            except (http.client.InvalidURL, UnicodeError) as wrong:
                raise self._no_address(why_not(wrong)) from None
            except (OSError, http.client.HTTPException) as wrong:
                self.close()
                why = str(wrong) or type(wrong).__name__
            else:
                if status < 400:
                    return _data(text)
                why = shown(_data(text).get("title", f"status {status}"))
                if status < 500 and status != http.client.TOO_MANY_REQUESTS:
                    word = str(_data(text).get("type", "")).rpartition(":")[2]
                    raise InvalidReportError(
                        word or str(status), f"{self.url} rejected the request: {why}"
                    )
            if wait is not None:
                time.sleep(wait)
        raise InvalidReportError("busy", f"{self.url} does not respond: {why}; try again later")

    def _once(
        self, method: str, path: str, body: bytes | None, token: str | None
    ) -> tuple[int, bytes]:
        if self._connection is None:
            kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            made = kinds[self._parts.scheme]
            self._connection = made(str(self._parts.hostname), self._port, timeout=_TIMEOUT)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read(_LONGEST)

    def understood(self, read: Callable[[], T]) -> T:
        """What is read of an answer; a server that is no collector may say anything."""
        try:
            return read()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            why = f"{self.url} does not respond like a collector; check the address"
            raise QueryError(why) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _data(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
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
            said = to.ask("POST", path, b"".join(waiting))
        except InvalidReportError as wrong:
            if len(waiting) > 1:
                raise
            sent.refused[wrong.reason] += 1
        else:
            to.understood(partial(sent.add, said))
        done += len(waiting)
        waiting.clear()
        progress(done)

    size = 0
    for report in reports:
        head = next(ids, None)
        if head is None:
            there = done + len(waiting)
            raise QueryError(f"there are more reports than invites ({there}); give more invites")
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
        with parquet.opened(survey, path, unmarked=False) as file:
            for table in file.tables(0):
                yield from pack(survey, table)
        return
    people = read_people(path, list(survey.asked), lambda done: None)
    for batch in arrow.regrouped(people, arrow.BATCH):
        yield from pack(survey, encode(survey, batch, clip=clip, shuffle=True))


def ids_for(survey: Agreement, path: Path) -> Iterator[bytes]:
    """New ids; those of a file of reports follow from what it holds, so no copy counts again.

    Whenever it is sent, so they have no day. So few reports that others may agree by chance are
    told apart by the numbers of their collections.
    """
    if not is_reports(path):
        while True:
            yield new_id()
    with parquet.opened(survey, path, unmarked=False) as file:
        for _ in file.tables(0):  # what they hold is known once all is read
            pass
        seed = file.content or " ".join(sorted(file.collections))
    if not seed:
        raise QueryError(
            f"{path} has few reports and no collection ID, so other files may have the same "
            "content; save it with survey.tally(...).save(...), and send that file"
        )
    for at in count():
        yield UNDATED + sha256(f"{seed} {at}".encode()).digest()[: SERIAL - DAY]


def invites_in(path: Path) -> Iterator[bytes]:
    """The invites of a file: a line for each, in hexadecimal digits."""
    for number, line in enumerate(path.read_text("ascii", "replace").splitlines(), 1):
        try:
            yield bytes.fromhex(line)
        except ValueError:
            raise QueryError(f"line {number} of {path} is not an invite") from None
