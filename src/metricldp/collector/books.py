"""The books of a collector: every statement of SQL, each change in one transaction.

An id, its report and its counter are written together or not at all. So accepted is what is stored,
and what is sent again changes nothing.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from metricldp.collector.database import MARK, StoreError
from metricldp.collector.envelope import DAY, Upload
from metricldp.collector.turns import Turns

ACCEPTED, DUPLICATE, FORGOTTEN = "accepted", "duplicate", "forgotten"
UNKNOWN = 0
"""The number that stands for a survey that nobody knows."""
_HOUR_SECONDS = 3600
_IDS_AT_ONCE = 1000
"""Ids in one statement: a database limits the number of its parameters."""
_LAST = b"\xff" * (MARK + 1)
"""Greater than every mark."""
_DELETIONS = 10_000
"""Ids that are deleted in one transaction, so that uploads do not wait long."""
_ADD = (
    "INSERT INTO counters VALUES (?, ?, ?) "
    "ON CONFLICT (survey, outcome) DO UPDATE SET n = counters.n + excluded.n"
)
_ADD_HOUR = (
    "INSERT INTO hours VALUES (?, ?, ?) "
    "ON CONFLICT (survey, hour) DO UPDATE SET n = hours.n + excluded.n"
)

Digests = dict[bytes, bytes]
"""By the mark of an id, the digest of its report."""


@dataclass(slots=True)
class Outcome:
    """What became of an upload."""

    accepted: int
    duplicate: int
    refused: Counter[str]


class Books(Turns):
    """The tables of a collector through one connection; used by one thread at a time."""

    # Reports -------------------------------------------------------------------------------------

    def take(self, uploads: Sequence[Upload], more: Counter[tuple[int, str]]) -> list[Outcome]:
        """Keep uploads, and count outcomes that have nothing to keep, in one transaction."""
        with self.writing():
            return self.write(uploads, more)

    def write(self, uploads: Sequence[Upload], more: Counter[tuple[int, str]]) -> list[Outcome]:
        """The same inside a transaction that is open."""
        by_survey: defaultdict[int, list[Upload]] = defaultdict(list)
        for upload in uploads:
            by_survey[upload.survey].append(upload)
        counts: Counter[tuple[int, str]] = Counter(more)
        outcomes: dict[int, Outcome] = {}
        for survey, own in by_survey.items():
            accepted = duplicate = 0
            for upload, outcome in zip(own, self._keep(survey, own), strict=True):
                outcomes[id(upload)] = outcome
                accepted += outcome.accepted
                duplicate += outcome.duplicate
                for reason, n in outcome.refused.items():
                    counts[survey, reason] += n
            counts[survey, ACCEPTED] += accepted
            counts[survey, DUPLICATE] += duplicate
        self.count(counts)
        return [outcomes[id(upload)] for upload in uploads]

    def count(self, counts: Counter[tuple[int, str]]) -> None:
        hour = int(time.time()) // _HOUR_SECONDS
        self.database.many(_ADD, [(*which, n) for which, n in counts.items() if n])
        accepted = [(s, hour, n) for (s, outcome), n in counts.items() if outcome == ACCEPTED and n]
        if accepted:
            self.database.many(_ADD_HOUR, accepted)

    def _keep(self, survey: int, uploads: Sequence[Upload]) -> list[Outcome]:
        found = self.database.rows(
            "SELECT closed, forgotten, most FROM surveys WHERE number = ?", (survey,)
        )
        if not found or found[0][0]:
            why = "closed" if found else "unknown-survey"
            return [_refused(upload, why) for upload in uploads]
        _, forgotten, most = found[0]
        marks = [mark for upload in uploads for mark in upload.marks]
        known = self._known(survey, marks)
        if (
            most is None
            and not known
            and len({*marks}) == len(marks)
            and _newer(uploads, forgotten)
        ):
            self._add(survey, uploads)
            return [Outcome(len(upload), 0, upload.refused) for upload in uploads]
        # Somebody sent something again, or not all can be taken: one by one, then.
        return self._keep_each(survey, uploads, known, forgotten, most)

    def _known(self, survey: int, marks: list[bytes]) -> Digests:
        """The marks that are in the deduplication index, with their digests."""
        known = {}
        for at in range(0, len(marks), _IDS_AT_ONCE):
            some = marks[at : at + _IDS_AT_ONCE]
            rows = self.database.rows(
                "SELECT mark, digest FROM ids WHERE survey = ? AND mark IN "
                f"({', '.join('?' * len(some))})",
                (survey, *some),
            )
            known.update({bytes(mark): bytes(digest) for mark, digest in rows})
        return known

    def _keep_each(
        self,
        survey: int,
        uploads: Sequence[Upload],
        known: Digests,
        forgotten: int,
        most: int | None,
    ) -> list[Outcome]:
        room = None if most is None else most - self.counter(survey, ACCEPTED)
        kept, outcomes = Upload(survey), []
        for upload in uploads:
            outcome = Outcome(0, 0, Counter(upload.refused))
            for mark, digest, report in zip(
                upload.marks, upload.digests, upload.reports, strict=True
            ):
                if mark in known:
                    same = known[mark] == digest
                    outcome.duplicate += same
                    if not same:
                        outcome.refused["conflict"] += 1
                elif upload.dated and int.from_bytes(mark[:DAY], "big") <= forgotten:
                    outcome.refused["late"] += 1
                elif room is not None and len(kept) >= room:
                    outcome.refused["full"] += 1
                else:
                    known[mark] = digest
                    kept.add(mark, digest, report)
                    outcome.accepted += 1
            outcomes.append(outcome)
        self._add(survey, [kept])
        return outcomes

    def _add(self, survey: int, uploads: Sequence[Upload]) -> None:
        """Ids and reports; ids in the order of the index, so that neighbours share a page."""
        reports = [report for upload in uploads for report in upload.reports]
        if not reports:
            return
        ids = sorted(
            (survey, mark, digest)
            for upload in uploads
            for mark, digest in zip(upload.marks, upload.digests, strict=True)
        )
        for at in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[at : at + _IDS_AT_ONCE]
            rows = ", ".join(["(?, ?, ?)"] * len(some))
            self.database.rows(f"INSERT INTO ids VALUES {rows}", [*chain.from_iterable(some)])
        self.database.rows(
            "INSERT INTO groups_waiting (survey, n, reports) VALUES (?, ?, ?)",
            (survey, len(reports), b"".join(reports)),
        )

    # Numbers -------------------------------------------------------------------------------------

    def counter(self, survey: int, outcome: str) -> int:
        found = self.database.rows(
            "SELECT n FROM counters WHERE survey = ? AND outcome = ?", (survey, outcome)
        )
        return int(found[0][0]) if found else 0

    def counters(self) -> dict[tuple[int, str], int]:
        found = self.database.rows("SELECT survey, outcome, n FROM counters")
        return {(int(survey), str(outcome)): int(n) for survey, outcome, n in found}

    def hours(self, survey: int) -> list[tuple[int, int]]:
        found = self.database.rows(
            "SELECT hour, n FROM hours WHERE survey = ? ORDER BY hour", (survey,)
        )
        return [(int(hour), int(n)) for hour, n in found]

    def waiting(self) -> dict[int, int]:
        """By survey, how many reports are not sealed yet."""
        found = self.database.rows("SELECT survey, sum(n) FROM groups_waiting GROUP BY survey")
        return {int(survey): int(n) for survey, n in found}

    def sealed(self, survey: int) -> int:
        found = self.database.rows("SELECT sum(n) FROM segments WHERE survey = ?", (survey,))
        return int(found[0][0] or 0)

    def last_sealed(self, survey: int) -> int:
        """The day of the newest segment; 0 if there is none."""
        found = self.database.rows("SELECT max(day) FROM segments WHERE survey = ?", (survey,))
        return int(found[0][0] or 0)

    def groups(self, survey: int, most: int) -> list[tuple[int, int, bytes]]:
        """The first groups, until they have so many reports: numbers, how many, and reports."""
        found, count = [], 0
        numbers = self.database.rows(
            "SELECT seq, n FROM groups_waiting WHERE survey = ? ORDER BY seq", (survey,)
        )
        for seq, n in numbers:
            if count >= most:
                break
            ((reports,),) = self.database.rows(
                "SELECT reports FROM groups_waiting WHERE seq = ?", (seq,)
            )
            found.append((int(seq), int(n), bytes(reports)))
            count += n
        return found

    def segments(self, survey: int | None = None) -> dict[str, int]:
        where, values = ("", ()) if survey is None else (" WHERE survey = ?", (survey,))
        found = self.database.rows(f"SELECT name, n FROM segments{where} ORDER BY name", values)
        return {str(name): int(n) for name, n in found}

    def content(self, name: str) -> bytes | None:
        found = self.database.rows("SELECT content FROM segments WHERE name = ?", (name,))
        return bytes(found[0][0]) if found and found[0][0] is not None else None

    # Sealing -------------------------------------------------------------------------------------

    def seal(
        self, survey: int, groups: Sequence[int], name: str, n: int, day: int, content: bytes | None
    ) -> None:
        """Inside a transaction: a segment instead of exactly these groups."""
        gone = self.database.many(
            "DELETE FROM groups_waiting WHERE seq = ? AND survey = ?",
            [(seq, survey) for seq in groups],
        )
        if gone != len(groups):
            raise StoreError(f"{len(groups) - gone} groups were sealed by another process")
        self.database.rows(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?)", (name, survey, n, day, content)
        )

    def drop_segments(self, survey: int, before: int) -> list[str]:
        """Let go of what was sealed before a day; those reports are counted as forgotten."""
        with self.writing():
            old = self.database.rows(
                "SELECT name, n FROM segments WHERE survey = ? AND day < ?", (survey, before)
            )
            self.database.many("DELETE FROM segments WHERE name = ?", [(name,) for name, _ in old])
            self.count(Counter({(survey, FORGOTTEN): sum(int(n) for _, n in old)}))
        return [str(name) for name, _ in old]

    def forget_ids(self, survey: int, day: int) -> int:
        """Reject reports of a day and before as late from now on, and delete their ids."""
        rows = self.database.rows("SELECT forgotten FROM surveys WHERE number = ?", (survey,))
        forgotten = int(rows[0][0]) if rows else 0
        if rows and forgotten < day:
            with self.writing():
                self.database.rows(
                    "UPDATE surveys SET forgotten = ? WHERE number = ? AND forgotten < ?",
                    (day, survey, day),
                )
            forgotten = day
        return self.delete_ids(survey, (forgotten + 1).to_bytes(DAY, "big")) if forgotten else 0

    def delete_ids(self, survey: int, before: bytes = _LAST) -> int:
        """Delete the ids whose marks are below a bound; how many they were."""
        total, count = 0, 1
        while count:
            with self.writing():
                count = self.database.many(
                    "DELETE FROM ids WHERE survey = ? AND mark IN "
                    "(SELECT mark FROM ids WHERE survey = ? AND mark < ? LIMIT ?)",
                    [(survey, survey, before, _DELETIONS)],
                )
            total += count
        return total


def _refused(upload: Upload, why: str) -> Outcome:
    return Outcome(0, 0, upload.refused + Counter({why: len(upload)}))


def _newer(uploads: Iterable[Upload], forgotten: int) -> bool:
    end = (forgotten + 1).to_bytes(DAY, "big")
    return all(not u.dated or mark >= end for u in uploads for mark in u.marks)
