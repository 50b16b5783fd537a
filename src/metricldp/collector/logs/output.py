"""A folder that grows in rounds: each is counted whole or not at all, whenever a process dies.

A round writes new files first, then one manifest that names everything: reports, the ids they had,
totals, and how far the input was read. What no manifest names was never counted, and the next round
writes it again. One process at a time works in a folder.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.basics.canonical import canonical
from metricldp.basics.errors import ReportRefused
from metricldp.basics.writing import alone_in, replacing, why_not
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
VERSION = 1
_refuse = partial(ReportRefused, "file")
_PATTERNS = ("reports-*.parquet", "ids-*.ids", f"totals-*{SUFFIX}")


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
            "metricldp-manifest": VERSION,
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

    @classmethod
    @contextmanager
    def opened(
        cls, survey: Agreement, folder: str | Path, kind: str, keep: Sequence[Sequence[str]] = ()
    ) -> Iterator[Output]:
        """A folder, made if need be, in which nobody else works."""
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as wrong:
            raise _refuse(f"cannot write into {folder}: {why_not(wrong)}") from None
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
        state = json.loads(json.dumps(self.state))
        state["round"] += 1
        number = f"{state['round']:06}"
        more = Totals(self.survey, state["keep"]) if state["keep"] else None
        n = 0

        def counted() -> Iterator[pa.Table]:
            nonlocal n
            for table in tables:
                n += table.num_rows
                if more is not None:
                    more.add(table)
                yield table

        path = self.folder / f"reports-{number}.parquet"
        shuffled = scattered(self.survey, counted(), Coins(), self.folder)
        parquet.write(self.survey, path, shuffled, numbers)
        with parquet.opened(self.survey, path, trust=False) as file:
            own, digest = sorted(file.collections), file.digest
        if n:
            state["reports"][path.name] = {"digest": digest, "n": n}
            state["collections"] = sorted({*state["collections"], *own})
            state["n"] += n
        ids = found()
        if len(ids):
            name = f"ids-{number}.ids"
            raw = ordered(ids).tobytes()
            with replacing(self.folder / name, _refuse) as plain:
                plain.write(raw)
            state["ids"][name] = hashlib.sha256(raw).hexdigest()
        if more is not None:
            whole = self.totals()
            assert whole is not None
            more.counted = frozenset(own) if n else frozenset()
            state["totals"] = f"totals-{number}{SUFFIX}"
            whole.merge(more).save(self.folder / state["totals"])
        change(state)
        with replacing(self.folder / MANIFEST, _refuse) as manifest:
            manifest.write(canonical(state).encode("utf-8") + b"\n")
        self.state = state
        self.seen.add(ids)
        self._remove_orphans()
        return n

    def note(self, refused: Counter[str], duplicates: int) -> Callable[[dict[str, Any]], None]:
        """Counters of what was not taken, as a change of the state."""

        def change(state: dict[str, Any]) -> None:
            state["refused"] = dict(Counter(state["refused"]) + refused)
            state["duplicates"] += duplicates

        return change

    def _load(self) -> None:
        path = self.folder / MANIFEST
        try:
            found = json.loads(path.read_text("utf-8"))
            good = isinstance(found, dict) and found.keys() == self.state.keys()
        except (OSError, ValueError) as wrong:
            raise _refuse(f"cannot read {path}: {why_not(wrong)}") from None
        if not good or found["metricldp-manifest"] != VERSION:
            raise ReportRefused("version", f"{path} is no manifest of version {VERSION}")
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
        self.state = found
        for name in found["reports"]:
            if not (self.folder / name).is_file():
                raise _refuse(f"there is no file {self.folder / name}, which {MANIFEST} names")
        for name, digest in found["ids"].items():
            self.seen.add(_ids_in(self.folder / name, digest))

    def _remove_orphans(self) -> None:
        """Files of a round that never ended, and totals that newer ones replace."""
        named = {*self.state["reports"], *self.state["ids"], self.state["totals"]}
        for pattern in _PATTERNS:
            for path in self.folder.glob(pattern):
                if path.name not in named:
                    path.unlink()


def _ids_in(path: Path, digest: str) -> Ids:
    try:
        raw = path.read_bytes()
    except OSError as wrong:
        raise _refuse(f"cannot read {path}: {why_not(wrong)}") from None
    if hashlib.sha256(raw).hexdigest() != digest:
        raise ReportRefused("checksum", f"{path} is damaged: its digest is wrong")
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, ID)
