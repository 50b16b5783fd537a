"""Envelopes: what a device sends over the network.

A body is one record after the other, at most a mebibyte. A record is an id of 16 bytes, a proof if
the survey asks for one, and a report. The id is the day in UTC (4 bytes, the highest first) and 12
random bytes; or the serial number of an invite or a token. In place of a day there may be four
bytes of 255: such an id is taken on any day and never forgotten. Whoever sends a report again sends
the same bytes under the same id.

Ids are not kept as they are: what is kept is a hash of the id, and a digest of the report that
only who knows the id could have made. So what is stored does not link an id to a report.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes

import numpy as np

from metricldp.collector.blind import Blind
from metricldp.collector.database import DIGEST, MARK
from metricldp.collector.proofs import SERIAL, Anybody, Invited, Proof
from metricldp.reports.bytes import sound
from metricldp.survey.agreement import Agreement
from metricldp_core.report import ReportFormat

LARGEST = 1 << 20
"""Bytes of a body."""
DAY = 4
"""Bytes of an id that say the day."""
UNDATED = b"\xff" * DAY
"""In place of the day in an id that is never forgotten, as it is later than all that are."""
_MANY = 64
"""Reports from which on arrays are quicker than plain integers."""
_DAY_SECONDS = 86_400


@dataclass(slots=True)
class Upload:
    """What is good in a body, ready to be kept; and what is not, by reason."""

    survey: int
    """The number that the survey has in the store."""
    dated: bool = True
    """Whether marks begin with a day."""
    marks: list[bytes] = field(default_factory=list)
    """What is kept of each id: its day, unless it is a serial number, and a hash."""
    digests: list[bytes] = field(default_factory=list)
    """What tells whether the same id came with the same report."""
    reports: list[bytes] = field(default_factory=list)
    """Without the header, which is the same in all."""
    refused: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.marks)

    def add(self, mark: bytes, digest: bytes, report: bytes) -> None:
        self.marks.append(mark)
        self.digests.append(digest)
        self.reports.append(report)


class Envelope:
    """How records of a survey are laid out and read."""

    def __init__(
        self, survey: Agreement, number: int, proof: Proof, window: int, most: int
    ) -> None:
        self._survey, self.number, self._proof, self._window = survey, number, proof, window
        self._most = most
        self._format = ReportFormat(survey.client_manifest)
        self._head = SERIAL + proof.size
        self.size = self._head + self._format.size
        """Bytes of a record."""

    def count(self, body: bytes) -> int:
        """How many records a body is meant to hold; one that does not fit counts as one."""
        whole, left = divmod(len(body), self.size)
        return 1 if left or not whole else whole

    def read(self, body: bytes) -> Upload:
        """Every record is good, or is counted under the reason why it is not."""
        size, head = self.size, self._head
        found = Upload(self.number, not self._proof.once)
        if len(body) == size and body.startswith(self._format.header, head):
            self._keep(found, (body,), (self._format.reason(body[head:]),))
            return found
        if others := self._with_another_proof(body):
            found.refused["invite"] += others
            return found
        if not body or len(body) % size:
            # A report of the wrong length is judged by what its bytes say first.
            found.refused["length" if len(body) < head else self._cut(body[head:])] += 1
            return found
        records = [body[at : at + size] for at in range(0, len(body), size)]
        if len(records) > self._most:
            found.refused["too-many"] += len(records)
            return found
        self._keep(found, records, self._reasons(records))
        return found

    def _with_another_proof(self, body: bytes) -> int:
        """How many records there are, had they the proof of another kind of survey, or none."""
        header = self._format.header
        if body.startswith(header, self._head):
            return 0
        for proof in (Anybody.size, Invited.size, Blind.size):
            size = SERIAL + proof + self._format.size
            if body.startswith(header, SERIAL + proof) and not len(body) % size:
                return len(body) // size
        return 0

    def _cut(self, report: bytes) -> str:
        return self._format.reason(report[: self._format.size + 1])

    def _reasons(self, records: Sequence[bytes]) -> Sequence[str]:
        if len(records) >= _MANY:
            rows = np.frombuffer(b"".join(records), np.uint8).reshape(len(records), -1)
            if sound(self._survey, rows[:, self._head :]):
                return [""] * len(records)
        return [self._format.reason(record[self._head :]) for record in records]

    def _keep(self, found: Upload, records: Iterable[bytes], reasons: Iterable[str]) -> None:
        """Those that are good, with what is kept of their ids; the others are counted."""
        head, skip = self._head, self._head + len(self._format.header)
        holds = self._proof.holds if self._proof.size else None
        first, last, day = self._days()
        marks, digests, reports = found.marks, found.digests, found.reports
        for record, wrong in zip(records, reasons, strict=True):
            serial, reason = record[:SERIAL], wrong
            if not reason and not (first <= serial < last or serial.startswith(UNDATED)):
                reason = "late" if serial < first else "early"
            if not reason and holds and not holds(serial, record[SERIAL:head]):
                reason = "invite"
            if reason:
                found.refused[reason] += 1
                continue
            hashed = sha256(serial)
            mark = serial[:day] + hashed.digest()
            hashed.update(record)
            marks.append(mark[:MARK])
            digests.append(hashed.digest()[:DIGEST])
            reports.append(record[skip:])

    def _days(self) -> tuple[bytes, bytes, int]:
        """The first id that is taken, the first that is not any more, and how much says the day.

        Days compare like the bytes that say them. Serial numbers have none, and all are taken.
        """
        if self._proof.once:
            return b"", b"\xff" * (SERIAL + 1), 0
        now = today()
        first = max(0, now - self._window)
        return first.to_bytes(DAY, "big"), (now + 2).to_bytes(DAY, "big"), DAY


def today() -> int:
    """Days since 1970 in UTC."""
    return int(time.time()) // _DAY_SECONDS


def new_id(day: int | None = None) -> bytes:
    """The id of a report without an invite."""
    return (today() if day is None else day).to_bytes(DAY, "big") + token_bytes(SERIAL - DAY)
