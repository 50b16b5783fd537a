"""Old ids of a SQLite store, in sorted files beside it.

In a table of SQLite, to look an id up and to put it in its place both cost more the more ids there
are: two pages of the disk for each. A sorted file costs a few memory accesses, and is written from
its beginning to its end. A run that is not much smaller than the one before is merged with it, so
that runs stay few, and each id is written once for each doubling.

The table `runs` is the truth. A file is written, synced and named first; then one transaction names
it in the table, and takes away the new ids, or the runs, that it stands for. A kill in between
leaves a file that no table knows, and the next start removes it. Files never change, and a process
that still reads one that is gone reads what it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from metricldp.basics.writing import remove_leftovers, replacing, why_not
from metricldp.collector.database import DIGEST, MARK, StoreError
from metricldp.collector.envelope import DAY
from metricldp.collector.recent import Marks
from metricldp.collector.search import halves, places
from metricldp.collector.turns import Turns

FOLDER, ENDING = "ids", ".ids"
_Words = npt.NDArray[np.uint64]
"""A row for the last halves of ids, in order; rows for their first halves, surveys and digests."""
_ROWS = 4
_AT_ONCE = 1 << 16
"""Ids that are in memory at once while files are written."""
_RESTORE = "restore it from a backup"
_Rule = Callable[[_Words], npt.NDArray[np.bool_]]


class Runs:
    """The runs of a folder, as one process reads them."""

    def __init__(self, turns: Turns, folder: Path) -> None:
        self._turns, self._database, self._folder = turns, turns.database, folder / FOLDER
        self._open: dict[str, _Words] = {}

    def names(self) -> list[str]:
        return [str(name) for (name,) in self._database.rows("SELECT name FROM runs")]

    def refresh(self) -> None:
        rows = self._database.rows("SELECT name, n FROM runs")
        if len(rows) == len(self._open) and all(name in self._open for name, _ in rows):
            return
        # Only what is whole is kept: with a run left out, its ids would pass for new.
        self._open = {
            str(name): self._open[name] if name in self._open else self._mapped(name, n)
            for name, n in rows
        }

    def _mapped(self, name: str, n: int) -> _Words:
        path = self._folder / name
        try:
            words = np.memmap(path, "<u8", "r")
        except (OSError, ValueError) as wrong:
            raise StoreError(
                f"cannot read the ids in {path}: {why_not(wrong)}; {_RESTORE}"
            ) from None
        if len(words) != _ROWS * n:
            raise StoreError(f"{path} does not have its {n} ids; {_RESTORE}")
        return np.asarray(words.reshape(_ROWS, -1))

    def _checked(self, name: str, n: int, sha256: str) -> _Words:
        """A run whose every byte is what was written."""
        words = self._mapped(name, n)
        if digest_of(self._folder / name) != sha256:
            raise StoreError(f"{self._folder / name} was changed; {_RESTORE}")
        return words

    def known(self, survey: int, marks: Sequence[bytes]) -> Marks:
        found: Marks = {}
        if not self._open or not marks:
            return found
        last, first = halves(np.frombuffer(b"".join(marks), np.uint8))
        order = np.argsort(last)
        asked = (last[order], first[order], np.full(len(order), survey, dtype=np.uint64))
        for run in self._open.values():
            at = places(asked, (run[0], run[1], run[2]))
            for here in np.flatnonzero(at >= 0):
                found[marks[order[here]]] = int(run[3, at[here]]).to_bytes(DIGEST, "big")
        return found

    def merge(self, least: int) -> int:
        if self._turns.fresh() < max(least, 1):
            return 0
        with self._turns.alone() as holder:
            if holder is None:
                return 0
            pieces = self._database.rows("SELECT seq, survey, ids FROM fresh ORDER BY seq")
            if not pieces:
                return 0
            new = _sorted(np.concatenate([_words(int(s), bytes(ids)) for _, s, ids in pieces], 1))
            joined, total = [], new.shape[1]
            parts = [new]
            for name, n, sha256 in self._database.rows("SELECT * FROM runs ORDER BY n"):
                if 2 * total <= n:
                    break
                joined.append(str(name))
                parts.append(self._checked(name, n, sha256))
                total += int(n)
            with self._instead(holder, joined, parts, total, None):
                gone = self._database.many(
                    "DELETE FROM fresh WHERE seq = ?", [(seq,) for seq, _, _ in pieces]
                )
                if gone != len(pieces):
                    raise StoreError("new ids were let go while they were merged")
            return int(new.shape[1])

    def tidy(self) -> int:
        count = 0
        with self._turns.alone() as holder:
            if holder is None:
                return 0
            rows = self._database.rows("SELECT number, forgotten FROM surveys")
            stays = _rule({int(survey): int(day) for survey, day in rows})
            for name, n, sha256 in self._database.rows("SELECT * FROM runs"):
                run = self._checked(name, n, sha256)
                left = sum(int(np.count_nonzero(stays(part))) for part in _pieces([run]))
                if left < run.shape[1]:
                    with self._instead(holder, [name], [run], left, stays):
                        count += run.shape[1] - left
        return count

    @contextlib.contextmanager
    def _instead(
        self, holder: str, old: Sequence[str], parts: Sequence[_Words], n: int, stays: _Rule | None
    ) -> Iterator[None]:
        """One run, if anything is left for it, instead of old ones; what else goes with it."""
        name = f"{secrets.token_hex(8)}{ENDING}"
        path, sha256 = self._folder / name, ""
        if n:
            _write(path, parts, n, stays, self._turns.renewing(holder))
            sha256 = digest_of(path)
        try:
            with self._turns.still_alone(holder):
                yield
                self._database.many("DELETE FROM runs WHERE name = ?", [(one,) for one in old])
                if n:
                    self._database.rows("INSERT INTO runs VALUES (?, ?, ?)", (name, n, sha256))
        except StoreError:
            with self._turns.writing():
                if name not in self.names():  # or the commit did succeed after all
                    path.unlink(missing_ok=True)
            raise
        for one in old:
            (self._folder / one).unlink(missing_ok=True)

    def check(self) -> None:
        for row in self._database.rows("SELECT * FROM runs"):
            self._checked(*row)

    def remove_orphans(self) -> int:
        known = self.names()
        orphans = [path for path in self._folder.glob(f"*{ENDING}") if path.name not in known]
        for path in orphans:
            path.unlink(missing_ok=True)
        return len(orphans) + remove_leftovers(self._folder)


def _words(survey: int, ids: bytes) -> _Words:
    rows = np.frombuffer(ids, np.uint8).reshape(-1, MARK + DIGEST)
    last, first = halves(rows[:, :MARK])
    digest = np.ascontiguousarray(rows[:, MARK:]).view(">u8").reshape(-1).astype(np.uint64)
    return np.stack([last, first, np.full(len(rows), survey, dtype=np.uint64), digest])


def _sorted(words: _Words) -> _Words:
    # Stable, because that merges what is sorted already instead of sorting it again.
    return words[:, np.argsort(words[0], kind="stable")]


def _rule(forgotten: dict[int, int]) -> _Rule:
    """Which ids stay: those of surveys that are there, after the day that each has forgotten."""

    surveys = np.array(sorted(forgotten), dtype=np.uint64)
    until = np.array([forgotten[int(survey)] for survey in surveys], dtype=np.uint64)

    def stays(words: _Words) -> npt.NDArray[np.bool_]:
        if not len(surveys):
            return np.zeros(words.shape[1], dtype=bool)
        at = np.minimum(surveys.searchsorted(words[2]), len(surveys) - 1)
        days = words[1] >> np.uint64(64 - 8 * DAY)
        # Serial numbers have no day, and theirs are never forgotten.
        found = (surveys[at] == words[2]) & ((days > until[at]) | (until[at] == 0))
        return np.asarray(found, dtype=bool)

    return stays


def digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as wrong:
        raise _unread(path, wrong) from None


def _unread(path: Path, wrong: Exception) -> StoreError:
    return StoreError(f"cannot read the ids in {path}: {why_not(wrong)}; {_RESTORE}")


def _pieces(parts: Sequence[_Words]) -> Iterator[_Words]:
    """All ids of some runs in order, a part of them at a time."""
    steps = sum(part.shape[1] for part in parts) // _AT_ONCE + 1
    ends = np.array([(1 << 64) * step // steps for step in range(1, steps)], dtype=np.uint64)
    cuts = [[0, *part[0].searchsorted(ends), part.shape[1]] for part in parts]
    for step in range(steps):
        slices = [p[:, cut[step] : cut[step + 1]] for p, cut in zip(parts, cuts, strict=True)]
        yield slices[0] if len(slices) == 1 else _sorted(np.concatenate(slices, axis=1))


def _write(
    path: Path, parts: Sequence[_Words], n: int, stays: _Rule | None, between: Callable[[], None]
) -> None:
    at = 0
    with replacing(path, StoreError, private=True) as file:
        for piece in _pieces(parts):
            kept = piece if stays is None else piece[:, stays(piece)]
            for row, words in enumerate(kept):
                file.seek(8 * (row * n + at))
                file.write(words.astype("<u8").tobytes())
            at += kept.shape[1]
            between()
        if at != n:
            raise StoreError(f"{at} ids were merged where {n} were expected")
