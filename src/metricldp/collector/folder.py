"""A collector: a folder with its books and its sealed reports, or a database and such a folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from metricldp.answers.tally import Tally
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.writing import PRIVATE_FOLDER, replacing, sync
from metricldp.collector import sealing
from metricldp.collector.base import Status
from metricldp.collector.books import ACCEPTED, DUPLICATE, FORGOTTEN, Books
from metricldp.collector.database import Database, StoreError
from metricldp.collector.envelope import Envelope, today
from metricldp.collector.postgres import Postgres
from metricldp.collector.register import ALL, Entry, Register
from metricldp.collector.settings import Settings
from metricldp.collector.sqlite import FILE, SQLite
from metricldp.reports.bytes import header, unpack
from metricldp.store.raw import Raw
from metricldp.survey.agreement import Agreement

SURVEYS = "surveys"
REASONS = (
    *("length", "version", "survey", "padding", "range"),
    *("late", "early", "invite", "conflict", "closed", "full", "too-many", "unknown-survey"),
    *("too-large", "slow"),
)
"""Why a report can be refused."""
OUTCOMES = (ACCEPTED, DUPLICATE, *REASONS)
SEAL = 100_000
"""Reports that wait until they are sealed, where no batches are asked for."""


@dataclass
class _Counted:
    """What a tally was made of."""

    state: tuple[Any, ...]
    tally: Tally
    sealed: Raw
    segments: frozenset[str]


class Collector:
    """What a folder holds: surveys, tokens, reports; the side of it that answers are made from.

    Safe to use from several threads, and beside other processes on the same folder.
    """

    def __init__(self, folder: str | Path, store: str | None = None) -> None:
        self.folder = Path(folder)
        inside = [self.folder / name for name in (sealing.FOLDER, SURVEYS)]
        try:
            # The settings include the key of invites.
            new = [
                p for p in (*reversed(self.folder.parents), self.folder, *inside) if not p.is_dir()
            ]
            for path in new:
                path.mkdir(PRIVATE_FOLDER, exist_ok=True)
                sync(path.parent)
        except OSError as wrong:
            raise StoreError(f"cannot make {self.folder}: {wrong.strerror}") from None
        self._store = store
        self._lock = threading.RLock()
        self._books = Books(self.connect())
        self._tallies: dict[str, _Counted] = {}
        self._making = threading.Lock()

    @classmethod
    def at(cls, place: str | Path, store: str | None = None) -> Collector:
        """A folder that is one already; else a refusal, so that a wrong name makes nothing."""
        if store is None and not (Path(place) / FILE).is_file():
            raise StoreError(
                f"{place} is not a collector folder; metricldp collector serve creates one"
            )
        return cls(place, store)

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> Database:
        """A connection of one's own."""
        return SQLite(self.folder) if self._store is None else Postgres(self._store)

    def close(self) -> None:
        with self._lock:
            self._books.database.close()

    @contextlib.contextmanager
    def using(self) -> Iterator[tuple[Books, Register]]:
        """The books for one thread at a time."""
        with self._lock:
            yield self._books, Register(self._books)

    # Surveys -------------------------------------------------------------------------------------

    def open(self, survey: Agreement, settings: Settings | None = None) -> Entry:
        """Take reports of a survey; settings that are not given stay, or are the usual ones."""
        with self.using() as (books, register):
            known = register.entry(survey.fingerprint)
            if settings is None:
                settings = known.settings if known else Settings()
            if known and known.settings.proof != settings.proof:
                self._check_empty(books, known, settings.proof)
            found = register.open(survey, settings)
        path = self.folder / SURVEYS / f"{survey.fingerprint}.toml"
        with replacing(path, StoreError, private=True) as file:
            file.write(survey.to_toml().encode())
        return found

    @staticmethod
    def _check_empty(books: Books, entry: Entry, proof: str) -> None:
        """Ids of another kind would be mixed with those that are there."""
        if n := books.counter(entry.number, ACCEPTED):
            raise InvalidSpecError(
                f"{n:,} reports were accepted with proof={entry.settings.proof!r}, so it cannot "
                f"become {proof!r}; close this survey, and collect into another folder"
            )

    def surveys(self) -> Sequence[Agreement]:
        return [survey_of(entry.text) for entry in self.entries()]

    def entries(self) -> list[Entry]:
        with self.using() as (_, register):
            return register.entries()

    def entry(self, fingerprint: str) -> Entry | None:
        with self.using() as (_, register):
            return register.entry(fingerprint)

    def _entry(self, survey: Agreement) -> Entry:
        found = self.entry(survey.fingerprint)
        if found is None:
            raise InvalidSpecError(f"survey {survey.fingerprint[:32]} is not open in {self.folder}")
        return found

    def change(self, survey: Agreement, **said: Any) -> Entry:
        """Other settings."""
        entry = self._entry(survey)
        return self.open(survey_of(entry.text), entry.settings.changed(**said))

    def stop(self, survey: Agreement) -> None:
        """Take no more reports."""
        entry = self._entry(survey)
        with self.using() as (_, register):
            register.close(entry.number)

    def delete(self, survey: Agreement) -> None:
        """Let go of everything about a survey."""
        entry = self._entry(survey)
        with self.using() as (books, register):
            # Ids go in several transactions. A kill in between leaves a closed survey.
            register.close(entry.number)
            books.delete_ids(entry.number)
            names = register.delete(entry.number)
        for name in names:
            (self.folder / sealing.FOLDER / name).unlink(missing_ok=True)
        (self.folder / SURVEYS / f"{survey.fingerprint}.toml").unlink(missing_ok=True)
        self._tallies.pop(survey.fingerprint, None)

    def allowed(self, token: str, survey: Agreement | None, scope: str) -> bool:
        """Whether a token gives a scope for a survey; for None, for all of them."""
        with self.using() as (_, register):
            entry = None if survey is None else register.entry(survey.fingerprint)
            if survey is not None and entry is None:
                return False
            return register.allowed(token, ALL if entry is None else entry.number, scope)

    # What came -----------------------------------------------------------------------------------

    def status(self, survey: Agreement) -> Status:
        entry = self._entry(survey)
        with self.using() as (books, _), books.database.reading():
            counters = books.counters()
            waiting = books.waiting().get(entry.number, 0)
            sealed = books.sealed(entry.number)
            hours = books.hours(entry.number)
        own = {outcome: n for (number, outcome), n in counters.items() if number == entry.number}
        held = waiting if entry.settings.batch else 0
        outcomes = {**dict.fromkeys(OUTCOMES, 0), FORGOTTEN: 0, **own}
        kept = sealed + waiting - held
        return Status(kept, held, tuple(hours), outcomes, entry.closed, entry.presentations)

    def tally(self, survey: Agreement) -> Tally:
        entry = self._entry(survey)
        with self._making:
            before = self._tallies.get(survey.fingerprint)
            with self.using() as (books, _), books.database.reading():
                segments = books.segments(entry.number)
                groups = [] if entry.settings.batch else books.groups(entry.number, 1 << 62)
            state = (entry.text, tuple(segments), tuple(seq for seq, _, _ in groups))
            if before is not None and before.state == state:
                return before.tally
            if before is not None and before.segments <= segments.keys():
                sealed, known = Raw(survey, before.sealed.table), before.segments
                sealed.counted = before.sealed.counted
            else:
                sealed, known = Raw.of(survey, []), frozenset()
            for name in segments:
                if name not in known:
                    sealed.add(self._file(name))
            found = Raw(survey, sealed.table)
            found.counted = sealed.counted
            if groups:
                found.add(_table(survey, [reports for _, _, reports in groups]))
            made = _Counted(state, Tally(found), sealed, frozenset(segments))
            self._tallies[survey.fingerprint] = made
            return made.tally

    def _file(self, name: str) -> Path:
        with self.using() as (books, _):
            return sealing.file_of(books, self.folder, name)

    # What has to be done from time to time -------------------------------------------------------

    def tend(self, books: Books, seal_at: int = SEAL) -> int:
        """Seal what waits, through a connection of one's own; how many reports that were."""
        sealed = 0
        waiting = books.waiting()
        for entry in Register(books).entries():
            settings, survey = entry.settings, survey_of(entry.text)
            least = settings.batch or seal_at
            while waiting.get(entry.number, 0) >= least:
                n = sealing.seal(books, self.folder, survey, entry.number, least)
                if not n:
                    break
                sealed += n
                waiting[entry.number] -= n
        return sealed

    def let_go(self, books: Books) -> None:
        """Let go of what is older than its survey says; once in an hour is enough."""
        for entry in Register(books).entries():
            settings = entry.settings
            if settings.keep_days is not None:
                if not settings.batch and books.last_sealed(entry.number) < today():
                    # Only what is sealed has a day. Else what never fills a file would stay.
                    sealing.seal(books, self.folder, survey_of(entry.text), entry.number, 1)
                for name in books.drop_segments(entry.number, today() - settings.keep_days):
                    (self.folder / sealing.FOLDER / name).unlink(missing_ok=True)
            if settings.proof == "none":
                # A day more than the window, so that no id is forgotten that is still taken.
                books.forget_ids(entry.number, today() - settings.window - 2)


@lru_cache(maxsize=256)
def survey_of(text: str) -> Agreement:
    """The survey of a text, made once."""
    return Agreement.from_toml(text)


def envelope_of(entry: Entry) -> Envelope:
    """How records of a survey are read, by its settings now."""
    settings = entry.settings
    proof, window = settings.made_proof(), settings.window
    return Envelope(survey_of(entry.text), entry.number, proof, window, settings.at_once)


def _table(survey: Agreement, groups: Sequence[bytes]) -> Any:
    """A table of reports that stand in groups without their headers."""
    reports, start = b"".join(groups), header(survey)
    size = -(-survey.report_bits // 8)
    blobs = [start + reports[at : at + size] for at in range(0, len(reports), size)]
    return unpack(survey, blobs)
