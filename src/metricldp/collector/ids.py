"""The ids that are not new any more: what the books ask of them, and a table that holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from metricldp.collector.database import MARK
from metricldp.collector.envelope import DAY
from metricldp.collector.recent import Marks, cut
from metricldp.collector.turns import Turns

_AT_ONCE = 2000
"""Ids that go to the table in one transaction, so that nobody waits long."""


class Ids(Protocol):
    """Old ids, with what tells their reports from others."""

    def names(self) -> list[str]:
        """The files that hold them."""

    def refresh(self) -> None:
        """Inside a transaction that writes: what all processes have committed."""

    def known(self, survey: int, marks: Sequence[bytes]) -> Marks:
        """Those of some ids that are here, with their digests."""

    def merge(self, least: int) -> int:
        """Take over the new ones, if they are so many; how many they were."""

    def tidy(self) -> int:
        """Let go of those that are forgotten, or of surveys that are gone; how many they were."""

    def check(self) -> None:
        """Refuse what is not as it was written."""

    def remove_orphans(self) -> int:
        """Inside a transaction, while nobody else changes files: remove those no table knows."""


class IdTable:
    """Ids in a table of the database, as Postgres has them."""

    def __init__(self, turns: Turns) -> None:
        self._turns, self._database = turns, turns.database

    def names(self) -> list[str]:
        return []

    def refresh(self) -> None:
        """A table is always as new as the transaction."""

    def known(self, survey: int, marks: Sequence[bytes]) -> Marks:
        asked = "SELECT mark, digest FROM ids WHERE survey = ? AND mark = ANY(?)"
        found = self._database.rows(asked, (survey, list(marks)))
        return {bytes(mark): bytes(digest) for mark, digest in found}

    def merge(self, least: int) -> int:
        """In short steps. One that is done again changes nothing, and only the last lets go."""
        pieces = self._database.rows("SELECT seq, survey, ids FROM fresh ORDER BY seq")
        by_survey: defaultdict[int, list[bytes]] = defaultdict(list)
        for _, survey, ids in pieces:
            by_survey[int(survey)] += cut(bytes(ids))
        count = sum(map(len, by_survey.values()))
        if count < least or not count:
            return 0
        for survey, found in by_survey.items():
            found.sort()
            for at in range(0, len(found), _AT_ONCE):
                with self._turns.writing():
                    self._add(survey, found[at : at + _AT_ONCE])
        with self._turns.writing():
            self._database.rows("DELETE FROM fresh WHERE seq <= ?", (pieces[-1][0],))
        return count

    def _add(self, survey: int, ids: list[bytes]) -> None:
        self._database.rows(
            f"INSERT INTO ids SELECT ?, substr(id, 1, {MARK}), substr(id, {MARK + 1}) "
            "FROM unnest(?::bytea[]) AS id ON CONFLICT DO NOTHING",
            (survey, ids),
        )

    def tidy(self) -> int:
        count = 0
        for survey, forgotten in self._database.rows("SELECT number, forgotten FROM surveys"):
            if forgotten:
                end = (int(forgotten) + 1).to_bytes(DAY, "big")
                with self._turns.writing():
                    count += self._database.many(
                        "DELETE FROM ids WHERE survey = ? AND mark < ?", [(survey, end)]
                    )
        with self._turns.writing():
            return count + self._database.many(
                "DELETE FROM ids WHERE survey NOT IN (SELECT number FROM surveys)", [()]
            )

    def check(self) -> None:
        """A database looks after its own."""

    def remove_orphans(self) -> int:
        return 0
