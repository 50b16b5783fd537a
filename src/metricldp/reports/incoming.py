"""Reports as they arrive: tables, files and bytes in any order, checked piece by piece."""

from __future__ import annotations

import contextlib
import glob
import secrets
import weakref
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    ValuesView,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from metricldp.basics.errors import InvalidReportError
from metricldp.basics.optional import lazy
from metricldp.basics.writing import path_of
from metricldp.reports import parquet
from metricldp.reports.arrow import BATCH, accepts_unmarked, check_table
from metricldp.reports.bytes import unpack
from metricldp.reports.columns import collected_lazy, is_lazy, without_details
from metricldp.reports.parquet import UNNUMBERED
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")


def pieces(
    survey: Agreement,
    collected: Any,
    *,
    refused: Counter[str] | None = None,
    fingerprint: str | None = None,
    counted: set[str] | None = None,
) -> Iterator[pa.Table]:
    """Reports in any form, checked, one table after the other; bytes are gathered to tables.

    A table or frame, a Parquet file, a folder or pattern of those, or a stream of all that and of
    bytes. The collections that they are of, of a file the content and of a table the object join
    those in `counted`; none may be there already. Reports without the mark of the survey need its
    fingerprint.
    """
    unmarked = accepts_unmarked(survey, fingerprint)
    return _pieces(survey, collected, refused, unmarked, set() if counted is None else counted)


def _pieces(
    survey: Agreement,
    collected: Any,
    refused: Counter[str] | None,
    unmarked: bool,
    counted: set[str],
) -> Iterator[pa.Table]:
    waiting: list[bytes] = []
    seen: dict[Hashable, _Seen] = {}
    before = 0  # reports so far, refused ones too, so that messages count on

    def gathered() -> pa.Table:
        nonlocal before
        table = unpack(survey, waiting, refused=refused, before=before)
        if table.num_rows:
            counted.add(UNNUMBERED)
        before += len(waiting)
        waiting.clear()
        return table

    for item in _items(collected):
        is_file = isinstance(item, str | Path)
        whole = is_file or _is_table(item)
        if not whole:
            waiting.append(item)
        if waiting and (whole or len(waiting) == BATCH):
            yield gathered()
        if not whole:
            continue
        if is_file:
            found = _from_files(survey, item, before, unmarked, counted, seen)
        else:
            found = _from_tables(survey, item, before, unmarked, counted)
        for table in found:
            before += table.num_rows
            yield table
    if waiting:
        yield gathered()


class _Seen(NamedTuple):
    """A file of this call."""

    path: Path
    numbered: bool
    """Whether it has the number of a collection."""


class TableKey(str):
    """Stands among counted collections for one table object; it is not written to files.

    It is longer than the number of a collection. It holds a weak reference, so that another object
    with the same id is not mistaken for this one; objects without weak references stay alive.
    """

    _object: Callable[[], object]

    @classmethod
    def of(cls, table: object) -> TableKey:
        known = _TABLE_KEYS.get(id(table))
        if known is not None and known._object() is table:
            return known
        key = cls(_TABLE + secrets.token_hex(32))
        try:
            key._object = weakref.ref(table)
        except TypeError:
            key._object = lambda: table
        _TABLE_KEYS[id(table)] = key
        return key

    @property
    def is_dead(self) -> bool:
        """Whether the object is gone, so that it cannot be counted again."""
        return self._object() is None

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


_TABLE = "table "
_TABLE_KEYS: weakref.WeakValueDictionary[int, TableKey] = weakref.WeakValueDictionary()
"""By the id of the table, as long as a tally holds the key."""


def count_table(table: object, counted: set[str]) -> None:
    """Add a table object to what was counted, and reports without a collection number."""
    counted |= {TableKey.of(table), UNNUMBERED}


def check_uncounted(new: Collection[str], counted: Collection[str], source: str) -> None:
    """Refuse to count a collection twice."""
    if twice := sorted({*new} & {*counted} - {UNNUMBERED}, key=len):
        if twice[0].startswith(_TABLE):
            raise InvalidReportError(
                "twice",
                f"{source} were counted already: they come from the same table object; leave it "
                "out, or pass a copy of the table if it holds other reports now",
            )
        known = f"collection {twice[0]}" if parquet.NUMBER.fullmatch(twice[0]) else "by its digest"
        raise InvalidReportError(
            "twice",
            f"{source} were counted already ({known}): they are a copy of counted reports, or "
            "share some with them; leave them out",
        )


def files_in(path: str | Path) -> list[Path]:
    """The file itself, those of a folder, or those that a pattern such as day-*.parquet means."""
    place = path_of(path, partial(InvalidReportError, "file"))
    try:
        is_folder, is_pattern = place.is_dir(), not place.exists() and glob.has_magic(str(path))
    except OSError:  # no name that the system can have; whoever opens it will say so
        return [place]
    if is_folder:
        found = sorted(p for p in place.rglob("*") if p.suffix.lower() in parquet.ENDINGS)
        # Other programs put _ or a point before the names of files that are not to be read.
        found = [p for p in found if not p.name.startswith((".", "_"))]
        if not found:
            endings = " or ".join(parquet.ENDINGS)
            raise InvalidReportError("file", f"no file in the folder {path} ends in {endings}")
        return found
    if is_pattern:
        matching = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207 - any root
        if not matching:
            raise InvalidReportError("file", f"no file matches {path}")
        return matching
    return [place]


def _items(collected: Any) -> Iterable[Any]:
    if isinstance(collected, str | Path) or _is_table(collected):
        return [collected]
    if isinstance(collected, list | tuple | set | frozenset | Iterator | ValuesView):
        return collected
    raise InvalidReportError(
        "kind",
        "reports are a table, a Parquet file or a folder of those, or a list or stream of tables, "
        f"files or bytes, not {type(collected).__name__}",
    )


def _is_table(item: Any) -> bool:
    """Whether it is a table, or something that will find one: a lazy frame or a query."""
    if isinstance(item, bytes):
        return False
    return isinstance(item, pa.RecordBatch) or hasattr(item, "__arrow_c_stream__") or is_lazy(item)


def _from_tables(
    survey: Agreement, item: Any, before: int, unmarked: bool, counted: set[str]
) -> Iterator[pa.Table]:
    check_uncounted([TableKey.of(item)], counted, "these reports")
    first = before
    with contextlib.closing(_tables(item)) as tables:
        for table in tables:
            yield check_table(survey, table, before, unmarked=unmarked)
            before += table.num_rows
    if before > first:
        count_table(item, counted)


def _tables(item: Any) -> Generator[pa.Table]:
    if isinstance(item, pa.Table):
        yield item
    elif isinstance(item, pa.RecordBatch):
        yield pa.Table.from_batches([item])
    elif hasattr(item, "__arrow_c_stream__"):
        # Closed in any case: a data base answers nothing else before.
        with without_details(lambda: _stream(item), _unreadable) as reader:
            batches = iter(reader)
            with contextlib.suppress(StopIteration):
                while True:
                    batch = without_details(lambda: next(batches), _unreadable)
                    yield pa.Table.from_batches([batch])
    else:
        yield collected_lazy(item, _unreadable)


def _stream(item: Any) -> pa.RecordBatchReader:
    with contextlib.suppress(pa.ArrowInvalid):
        return pa.RecordBatchReader.from_stream(item)
    raise InvalidReportError("kind", f"reports are a table of columns, not a {type(item).__name__}")


_unreadable = partial(InvalidReportError, "file")


def _from_files(
    survey: Agreement,
    source: str | Path,
    before: int,
    unmarked: bool,
    counted: set[str],
    seen: dict[Hashable, _Seen],
) -> Iterator[pa.Table]:
    for path in files_in(source):
        with parquet.opened(survey, path, unmarked=unmarked) as file:
            here = path.stat()
            if (here.st_dev, here.st_ino) in seen:
                raise InvalidReportError("twice", f"{path} is the same file again; name it once")
            known, what, first = file.collections, f"the reports in {path}", before
            check_uncounted(known, counted, what)
            for table in file.tables(before):
                before += table.num_rows
                yield table
            # Few reports may agree by chance, but not if both files have numbers of their own.
            twin = seen.get(file.reports)
            if twin and (file.content or not (file.collections and twin.numbered)):
                why = f"{what} are the same as in {twin.path}; leave one of them out"
                raise InvalidReportError(
                    "twice", f"{why}, or if both are meant, read them as tables"
                )
            content = set() if file.content is None else {file.content}
            check_uncounted(file.collections - known | content, counted, what)
            counted |= file.collections or ({UNNUMBERED} if before > first else set())
            counted |= content
            one = _Seen(path, bool(file.collections))
            seen[here.st_dev, here.st_ino] = one
            if file.reports:
                seen[file.reports] = one
