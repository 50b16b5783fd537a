"""Sealing: groups of reports become a shuffled Parquet file, and are let go in the same step.

The file is written first, synced and named; then one transaction takes exactly those groups away
and adds the segment, or does nothing. A kill in between leaves a file that no table knows: the
table is the truth, and the next start removes the file.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np

from metricldp.basics.errors import InvalidReportError
from metricldp.basics.writing import remove_leftovers, replacing
from metricldp.collector.books import Books
from metricldp.collector.database import StoreError
from metricldp.collector.envelope import today
from metricldp.mechanisms.randomness import Randomness
from metricldp.reports import parquet
from metricldp.reports.arrow import BATCH
from metricldp.reports.bytes import header, unpack
from metricldp.reports.shuffle import random_order
from metricldp.survey.agreement import Agreement

FOLDER, ENDING = "segments", ".parquet"
PRESENTATION = b"metricldp.presentation"
"""Metadata of a segment: the digest of the presentation that was in use when it was sealed."""
MOST = 1 << 18
"""Reports in a segment, about: as many as a row group has."""


def seal(books: Books, folder: Path, survey: Agreement, number: int, least: int) -> int:
    """Seal what waits, if it is at least so many reports; how many they were."""
    with books.alone() as holder:
        if holder is None:
            return 0
        with books.database.reading():
            groups = books.groups(number, max(MOST, least))
        n = sum(n for _, n, _ in groups)
        if not groups or n < least:
            return 0
        name = f"{survey.fingerprint[:16]}-{secrets.token_hex(8)}{ENDING}"
        path = folder / FOLDER / name
        _write(survey, path, b"".join(reports for _, _, reports in groups), n)
        try:
            content = _content(path) if books.database.keeps_files else None
            with books.still_alone(holder):
                books.seal(number, [seq for seq, _, _ in groups], name, n, today(), content)
        except StoreError:
            _remove_unknown(books, folder, name)
            raise
        return n


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise StoreError(f"{path} is missing; another process deleted it") from None


def shuffled(survey: Agreement, reports: bytes, n: int) -> list[bytes]:
    """Reports without their headers to whole ones, in an order that tells nothing."""
    start = header(survey)
    rows = np.frombuffer(reports, dtype=np.uint8).reshape(n, -1)[random_order(n, Randomness())]
    packed, size = rows.tobytes(), rows.shape[1]
    return [start + packed[at : at + size] for at in range(0, len(packed), size)]


def _write(survey: Agreement, path: Path, reports: bytes, n: int) -> None:
    blobs = shuffled(survey, reports, n)
    pieces = (unpack(survey, blobs[at : at + BATCH // 8]) for at in range(0, n, BATCH // 8))
    more = {PRESENTATION: survey.presentation_digest}
    try:
        parquet.write(survey, path, pieces, private=True, more=more)
    except InvalidReportError as wrong:  # no space, for example
        raise StoreError(str(wrong)) from None


def _remove_unknown(books: Books, folder: Path, name: str) -> None:
    """A file of ours that came to nothing; unless the commit did succeed after all."""
    with books.writing():
        if name not in books.segments():
            (folder / FOLDER / name).unlink(missing_ok=True)


def remove_orphans(books: Books, folder: Path) -> int:
    """Remove files that no table knows, unless somebody is sealing just now."""
    with books.alone() as holder:
        if holder is None:
            return 0
        with books.still_alone(holder):
            known = books.segments()
            orphans = [p for p in (folder / FOLDER).glob(f"*{ENDING}") if p.name not in known]
            for path in orphans:
                path.unlink(missing_ok=True)
            return len(orphans) + remove_leftovers(folder / FOLDER)


def file_of(books: Books, folder: Path, name: str) -> Path:
    """The file of a segment; fetched from a database that has it, if it is not here."""
    path = folder / FOLDER / name
    if not path.exists():
        content = books.content(name)
        if content is None:
            raise StoreError(f"the segment {path} is missing; restore it from a backup")
        with replacing(path, StoreError, private=True) as file:
            file.write(content)
    return path
