"""Which ids came before: the last ones in memory, older ones sorted on the disk.

An id is random, so each one that went to its place would change a page of its own, and a page is a
hundred times as long as an id. So new ids are appended in one piece for each transaction, and the
process has them in memory. Once they are many they go to the old ones together.

What is in memory was read from what is committed, never from what is about to be: a transaction
that fails leaves no trace.
"""

from __future__ import annotations

from metricldp.collector.database import DIGEST, MARK, Database

_BOTH = MARK + DIGEST
Marks = dict[bytes, bytes]
"""By the mark of an id, the digest of its report."""


class Recent:
    """The ids that are not among the old ones yet, as one process knows them."""

    def __init__(self, turn: int = 100_000) -> None:
        self._turn, self._seen, self._count = turn, 0, 0
        self._new: dict[int, Marks] = {}
        self._old: dict[int, Marks] = {}
        self._old_end = 0

    def refresh(self, database: Database) -> None:
        """Inside a transaction that writes, before it does: what all processes have committed."""
        rows = database.rows(
            "SELECT seq, survey, ids FROM fresh WHERE seq > ? ORDER BY seq", (self._seen,)
        )
        for seq, survey, ids in rows:
            found = self._new.setdefault(int(survey), {})
            pieces = cut(bytes(ids))
            found.update({both[:MARK]: both[MARK:] for both in pieces})
            self._count += len(pieces)
            self._seen = int(seq)
        if self._old or self._count >= self._turn:
            self._let_go(database)

    def _let_go(self, database: Database) -> None:
        """Forget what is among the old ones by now; in two halves, so that each can go whole."""
        ((first,),) = database.rows("SELECT min(seq) FROM fresh")
        first = self._seen + 1 if first is None else int(first)
        if first > self._old_end:
            self._old = {}
        if first > self._seen:
            self._new, self._count = {}, 0
        if not self._old and self._count >= self._turn:
            self._old, self._old_end = self._new, self._seen
            self._new, self._count = {}, 0

    def known(self, survey: int, marks: list[bytes]) -> Marks:
        """Those of the marks that came lately, with their digests."""
        new, old = self._new.get(survey, {}), self._old.get(survey, {})
        found = {mark: new[mark] for mark in marks if mark in new}
        found.update({mark: old[mark] for mark in marks if mark in old})
        return found


def joined(marks: list[bytes], digests: list[bytes]) -> bytes:
    """Ids in one piece, sorted, so that their order tells nothing."""
    return b"".join(sorted(mark + digest for mark, digest in zip(marks, digests, strict=True)))


def cut(ids: bytes) -> list[bytes]:
    """Each mark with its digest."""
    return [ids[at : at + _BOTH] for at in range(0, len(ids), _BOTH)]
