"""Files of reports: Parquet with checksums, a digest of the reports, and their collections.

Nothing in a file depends on the people but their reports: row groups have one size, whatever came
in. A collection is what was gathered together; its number goes wherever its reports go, so that
none is counted twice.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from metricldp.basics.errors import InvalidReportError
from metricldp.basics.optional import lazy
from metricldp.basics.writing import near_file, replacing, why_not
from metricldp.reports.arrow import batches, check_marks, check_table, column_of, regrouped, schema
from metricldp.survey.agreement import Agreement
from metricldp_core.canonical import canonical

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

ENDINGS = (".parquet", ".pq")
ROW_GROUP = 1 << 18
"""Reports in every row group but the last."""
UNNUMBERED = ""
"""Stands among collections for reports that came without the number of theirs."""
_DIGEST, _COLLECTIONS = b"metricldp.digest", b"metricldp.collections"
_CONTENT = 64
"""Digits of what copies have in common; numbers of collections have half as many."""
_MANY_BITS = 128
"""Of reports that are a copy if they are the same; fewer may agree by chance."""
_SEAL, _SHA256 = b"metricldp-footer", 32
"""What stands before the footer, with its digest: there, whoever writes the file again drops it."""
NUMBER = re.compile("[0-9a-f]{32}")
_NUMBERS = re.compile(f"({NUMBER.pattern}( {NUMBER.pattern})*)?")


class Digest:
    """A SHA-256 of reports in order, the same for every way to lay them out in a file."""

    def __init__(self, survey: Agreement) -> None:
        self._survey = survey
        self._columns = {name: hashlib.sha256() for name in survey.fields}
        self._n = 0

    def update(self, table: pa.Table) -> None:
        for batch in batches(table):
            for name, column in batch.items():
                little = column.dtype.newbyteorder("<")
                self._columns[name].update(np.ascontiguousarray(column, dtype=little).data)
        self._n += table.num_rows

    @property
    def reports(self) -> str | None:
        """What files with the same reports in the same order have in common, if any reports."""
        return self.of(()) if self._n else None

    @property
    def content(self) -> str | None:
        """The same, but None for so few reports that those of others may agree."""
        return self.reports if self._n * self._survey.report_bits >= _MANY_BITS else None

    def of(self, collections: Collection[str]) -> str:
        data = {
            "collections": sorted(collections),
            "columns": [found.hexdigest() for found in self._columns.values()],
            "n": self._n,
            "survey": self._survey.fingerprint,
        }
        return hashlib.sha256(canonical(data).encode("utf-8")).hexdigest()


def write(
    survey: Agreement,
    path: str | Path,
    tables: Iterable[pa.Table],
    counted: Collection[str] = (UNNUMBERED,),
    *,
    private: bool = False,
    more: Mapping[bytes, str] | None = None,
) -> int:
    """A file of reports, and how many they are; `counted` are their collections in the end.

    Only its owner can read a `private` file. `more` is added to the metadata.
    Bits are random and do not compress; small integers are stored as small dictionary codes.
    """
    digest, rows = Digest(survey), 0
    refusal = partial(InvalidReportError, "file")
    with replacing(path, refusal, "reports", ENDINGS, private=private) as sink:
        with pq.ParquetWriter(
            sink,
            schema(survey),
            compression="none",
            use_dictionary=[column_of(n) for n, f in survey.fields.items() if f.small_numbers],
            write_statistics=False,
            write_page_checksum=True,
        ) as file:
            for table in regrouped(tables, ROW_GROUP):
                checked = check_table(survey, table)
                digest.update(checked)
                # In one chunk, because pages end where chunks do.
                file.write_table(checked.combine_chunks())
                rows += table.num_rows
            numbers = numbered(counted, new_collection())
            marks = {_COLLECTIONS: " ".join(sorted(numbers)), _DIGEST: digest.of(numbers)}
            file.add_key_value_metadata(marks | dict(more or {}))
            sink.write(_SEAL + bytes(_SHA256))
        # The footer is known now that it is written.
        start, footer = _footer(sink)
        sink.seek(start - _SHA256)
        sink.write(hashlib.sha256(footer).digest())
    return rows


def _footer(file: BinaryIO | pa.NativeFile) -> tuple[int, bytes]:
    """Where the metadata of a Parquet file begin, and those; eight bytes follow them."""
    end = file.seek(-8, os.SEEK_END)
    size = int.from_bytes(file.read(4), "little")
    file.seek(end - size)
    return end - size, file.read(size)


def _is_sealed_well(file: pa.NativeFile) -> bool:
    """Whether the footer is as it was written; no seal is none that is broken."""
    start, footer = _footer(file)
    file.seek(max(0, start - len(_SEAL) - _SHA256))
    mark, digest = file.read(len(_SEAL)), file.read(_SHA256)
    return bool(mark != _SEAL or digest == hashlib.sha256(footer).digest())


def new_collection() -> str:
    """A number that nobody else will draw."""
    return secrets.token_hex(16)


def numbered(counted: Collection[str], own: str) -> frozenset[str]:
    """Collections to write down, where reports without a number get one.

    What files had for their content is left out: it would tell which reports came together.
    """
    return frozenset(number or own for number in counted if len(number) < _CONTENT)


class ReportsFile:
    """An open file of reports, and the collections that they are of.

    A file that may be unmarked may say anything: its collections are those it names only if, once
    all is read, its digest is right.
    """

    content: str | None = None
    """What copies have in common, whatever program wrote them; known once all is read."""
    reports: str | None = None
    """The same, where it may be so few reports that others agree by chance."""

    def __init__(
        self, survey: Agreement, path: str | Path, file: pq.ParquetFile, unmarked: bool
    ) -> None:
        self._survey, self._path, self._file, self._unmarked = survey, path, file, unmarked
        check_marks(survey, file.schema_arrow, f"the reports in {path}", unmarked=unmarked)
        said = file.metadata.metadata or {}
        numbers, self._digest = (
            said.get(key, b"").decode("ascii", "replace") for key in (_COLLECTIONS, _DIGEST)
        )
        self._checked = not unmarked and not said.keys().isdisjoint({_COLLECTIONS, _DIGEST})
        self.said = frozenset(numbers.split())
        if self._checked and not (_COLLECTIONS in said and _NUMBERS.fullmatch(numbers)):
            raise _damaged(self._path)
        self.collections = self.said if self._checked else frozenset()

    @property
    def digest(self) -> str:
        """What the file says that its digest is, or nothing."""
        return str(self._digest)

    @property
    def count(self) -> int:
        """How many reports the footer speaks of."""
        return int(self._file.metadata.num_rows)

    def tables(self, before: int) -> Iterator[pa.Table]:
        """The reports, checked, a piece at a time; in the end, whether they are as written.

        `before` reports came before these: messages count on from there.
        """
        digest = Digest(self._survey)
        for batch in self._file.iter_batches(ROW_GROUP):
            table = pa.Table.from_batches([batch])
            table = check_table(self._survey, table, before, unmarked=self._unmarked)
            digest.update(table)
            before += table.num_rows
            yield table
        as_written = digest.of(self.said) == self._digest
        if self._checked and not as_written:
            raise _damaged(self._path)
        self.collections = self.said if as_written else frozenset()
        self.content, self.reports = digest.content, digest.reports


def schema_in(path: str | Path) -> pa.Schema:
    """The columns of a Parquet file, and its marks."""
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as wrong:
        raise InvalidReportError("file", f"{path} cannot be read: {why_not(wrong)}") from None


def _damaged(path: str | Path) -> InvalidReportError:
    return InvalidReportError(
        "checksum",
        f"{path} is damaged, or another program changed it: its digest is wrong; fetch it again, "
        "or to read it as it is, pass survey.tally(..., fingerprint=...)",
    )


@contextmanager
def opened(survey: Agreement, path: str | Path, *, unmarked: bool) -> Iterator[ReportsFile]:
    """A file of reports to read, refused unless they are this survey's and as they were written.

    With `unmarked` the caller has passed the fingerprint: marks may be missing, and digest and
    collections are not looked at.
    """
    try:
        with (
            pa.OSFile(os.fspath(path)) as source,
            # Buffered ahead, the whole file would stay in memory.
            pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False) as file,
        ):
            if not (unmarked or _is_sealed_well(source)):
                raise _damaged(path)
            yield ReportsFile(survey, path, file, unmarked)
    except InvalidReportError:
        raise
    except FileNotFoundError:
        raise InvalidReportError(
            "file", f"there is no reports file {path}{near_file(path)}"
        ) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as wrong:
        reason = why_not(wrong).split(". ")[0].rstrip(".")
        why = f"{path} is not a whole Parquet file; copy it or write it as Parquet again ({reason})"
        if os.fspath(path).endswith(".csv"):
            why = f"{path} is not a Parquet file; randomize values into Parquet reports first"
        raise InvalidReportError("file", why) from None
