"""A folder that grows in rounds: each is counted whole or not at all, whenever a process dies.

A round writes new files first, then one manifest that names everything: reports, the ids they had,
totals, and how far the input was read. What no manifest names was never counted, and the next round
writes it again. One process at a time works in a folder. Nothing is removed there but what has the
name of a round that was not counted, or of totals that newer ones replace.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.basics.errors import ReportRefused
from metricldp.basics.sealed import SHA256, sealed, unsealed
from metricldp.basics.writing import alone_in, made, replacing, why_not
from metricldp.coins.stream import Coins
from metricldp.collector.logs.seen import Seen, ordered
from metricldp.collector.search import ID, Ids
from metricldp.reports import parquet
from metricldp.reports.shuffle import scattered
from metricldp.store.files import SUFFIX
from metricldp.store.totals import Totals
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
VERSION = 2
_refuse = partial(ReportRefused, "file")
_MARK = "metricldp-manifest"
_ENDINGS = {"reports": ".parquet", "ids": ".ids", "totals": SUFFIX}
_NAME = re.compile(r"(reports|ids|totals)-([0-9]{6,15})\.[a-z]+")
_SHAPE = {
    "collections": [parquet.NUMBER],
    "duplicates": int,
    "ids": (str, SHA256),
    "keep": [[str]],
    "kind": str,
    _MARK: int,
    "n": int,
    "offsets": (str, int),
    "refused": (str, int),
    "reports": (str, {"digest": SHA256, "n": int}),
    "round": int,
    "survey": str,
    "taken": (str, str),
    "totals": str,
}


class Output:
    """What was counted so far into one folder, and the next round of it."""

    def __init__(
        self, survey: Agreement, folder: Path, kind: str, keep: Sequence[Sequence[str]] = ()
    ) -> None:
        self.survey, self.folder, self.kind = survey, folder, kind
        sets = [list(names) for names in Totals(survey, keep).keep] if keep else []
        self.state: dict[str, Any] = {
            "collections": [],
            "duplicates": 0,
            "ids": {},
            "keep": sets,
            "kind": kind,
            _MARK: VERSION,
            "n": 0,
            "offsets": {},
            "refused": {},
            "reports": {},
            "round": 0,
            "survey": survey.fingerprint,
            "taken": {},
            "totals": "",
        }
        self.seen = Seen()
        if (folder / MANIFEST).exists():
            self._load()
            self._remove_orphans()
        else:
            self._begin()

    @classmethod
    @contextmanager
    def opened(
        cls, survey: Agreement, folder: str | Path, kind: str, keep: Sequence[Sequence[str]] = ()
    ) -> Iterator[Output]:
        """A folder, made if need be, in which nobody else works."""
        place = made(folder, _refuse)
        with alone_in(place, _refuse):
            yield cls(survey, place, kind, keep)

    @property
    def n(self) -> int:
        return int(self.state["n"])

    @property
    def files(self) -> list[Path]:
        """The files of reports, which are all that were counted."""
        return [self.folder / name for name in self.state["reports"]]

    def totals(self) -> Totals | None:
        """Totals of everything that was counted, if some are kept."""
        if not self.state["keep"]:
            return None
        if self.state["totals"]:
            return Totals.load(self.survey, self.folder / self.state["totals"])
        return Totals(self.survey, self.state["keep"])

    def write(
        self,
        tables: Iterable[pa.Table],
        numbers: set[str],
        found: Callable[[], Ids],
        change: Callable[[dict[str, Any]], None] = lambda state: None,
    ) -> int:
        """One round: these reports, of collections and with ids that are known once all are read.

        All is in files before the manifest is; with the manifest it is counted.
        """
        state = deepcopy(self.state)
        state["round"] += 1
        number = state["round"]
        more = Totals(self.survey, state["keep"]) if state["keep"] else None
        n = 0

        def counted() -> Iterator[pa.Table]:
            nonlocal n
            for table in tables:
                n += table.num_rows
                if more is not None:
                    more.add(table)
                yield table

        path = self.folder / _name("reports", number)
        shuffled = scattered(self.survey, counted(), Coins(), self.folder)
        parquet.write(self.survey, path, shuffled, numbers)
        with parquet.opened(self.survey, path, unmarked=False) as file:
            own, digest = sorted(file.collections), file.digest
        if n:
            state["reports"][path.name] = {"digest": digest, "n": n}
            state["collections"] = sorted({*state["collections"], *own})
            state["n"] += n
        else:
            path.unlink()
        ids = found()
        if len(ids):
            name = _name("ids", number)
            raw = ordered(ids).tobytes()
            with replacing(self.folder / name, _refuse) as plain:
                plain.write(raw)
            state["ids"][name] = hashlib.sha256(raw).hexdigest()
        if more is not None:
            whole = self.totals()
            assert whole is not None
            more.counted = frozenset(own) if n else frozenset()
            state["totals"] = _name("totals", number)
            whole.merge(more).save(self.folder / state["totals"])
        change(state)
        self._commit(state)
        self.seen.add(ids)
        self._remove_orphans()
        return n

    def note(self, refused: Counter[str], duplicates: int) -> Callable[[dict[str, Any]], None]:
        """Counters of what was not taken, as a change of the state."""

        def change(state: dict[str, Any]) -> None:
            state["refused"] = dict(Counter(state["refused"]) + refused)
            state["duplicates"] += duplicates

        return change

    def _begin(self) -> None:
        """A manifest of nothing, so that what a killed first round leaves is known by its name."""
        for kind, ending in _ENDINGS.items():
            for path in sorted(self.folder.glob(f"{kind}-*{ending}")):
                raise _refuse(
                    f"{self.folder} holds {path.name} and no {MANIFEST}, which would say whose it "
                    "is; name another folder, or move the file away"
                )
        self._commit(self.state)

    def _commit(self, state: dict[str, Any]) -> None:
        with replacing(self.folder / MANIFEST, _refuse) as manifest:
            manifest.write(sealed(state))
        self.state = state

    def _load(self) -> None:
        path = self.folder / MANIFEST
        remedy = "put back a good copy, or begin anew in another folder"
        found = unsealed(path, _MARK, VERSION, _SHAPE, remedy)
        if found["survey"] != self.survey.fingerprint:
            raise ReportRefused(
                "survey", f"{self.folder} holds reports of another survey; name another folder"
            )
        if found["kind"] != self.kind:
            raise _refuse(f"metricldp {found['kind']} writes into {self.folder}; name another one")
        if found["keep"] != self.state["keep"]:
            raise ReportRefused(
                "keep",
                f"the totals in {self.folder} keep {found['keep']}; say the same, or begin anew",
            )
        if not _agrees(found):
            raise ReportRefused("checksum", f"{path} contradicts itself; {remedy}")
        self.state = found
        for name in found["reports"]:
            if not (self.folder / name).is_file():
                raise _refuse(f"there is no file {self.folder / name}, which {MANIFEST} names")
        for name, digest in found["ids"].items():
            self.seen.add(_ids_in(self.folder / name, digest))

    def _remove_orphans(self) -> None:
        """Files of the round that never ended, and totals that newer ones replace."""
        own = [(path, *_round_of(path.name)) for path in self.folder.iterdir() if path.is_file()]
        for path, _, number in own:
            if number > self.state["round"] + 1:
                raise _refuse(
                    f"{path} is of a round that {MANIFEST} does not know: one of the two is from "
                    "elsewhere; move the file away, or put back the manifest that names it"
                )
        for path, kind, number in own:
            old = kind == "totals" and path.name != self.state["totals"]
            if number > self.state["round"] or old:
                path.unlink()


def _name(kind: str, number: int) -> str:
    """The file of a round."""
    return f"{kind}-{number:06}{_ENDINGS[kind]}"


def _round_of(name: str) -> tuple[str, int]:
    """What a file is and of which round, if it is named as files are here; else of round -1."""
    found = _NAME.fullmatch(name)
    if found is None or _name(found[1], int(found[2])) != name:
        return "", -1
    return found[1], int(found[2])


def _agrees(state: dict[str, Any]) -> bool:
    """Whether counts add up, and all names are of files of the rounds so far."""
    kept = [state["totals"]] if state["keep"] and state["round"] else []
    named = [("reports", state["reports"]), ("ids", state["ids"]), ("totals", kept)]
    return bool(
        sum(file["n"] for file in state["reports"].values()) == state["n"]
        and (kept or not state["totals"])
        and bool(state["collections"]) == bool(state["reports"])
        and all(
            found == kind and 0 < number <= state["round"]
            for kind, names in named
            for found, number in map(_round_of, names)
        )
    )


def _ids_in(path: Path, digest: str) -> Ids:
    try:
        raw = path.read_bytes()
    except OSError as wrong:
        raise _refuse(f"cannot read {path}: {why_not(wrong)}") from None
    if hashlib.sha256(raw).hexdigest() != digest:
        raise ReportRefused("checksum", f"{path} is damaged: its digest is wrong")
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, ID)
