"""Reports of bits as columns of bits, in files: what a count reads is then a few columns.

A folder of slices has files of words, in which a row holds 64 reports and a column one bit of them;
files of the columns that are no bits, one report to a row as ever; and `sliced.json`, written last,
which names them all with their digests. Without it a folder is half-written, and refused. Files
have new names each time, so that whoever slices again is killed before or after, never between.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.basics.errors import QueryError, ReportRefused
from metricldp.basics.optional import optional
from metricldp.basics.sealed import SHA256, sealed, unsealed
from metricldp.basics.writing import made, remove_leftovers, replacing, why_not
from metricldp.reports.arrow import batches, regrouped
from metricldp.reports.incoming import check_outside, files_in, pieces
from metricldp.reports.parquet import ENDINGS, NUMBER, new_collection, numbered
from metricldp.store import loops as counting
from metricldp.store.engines.places import bits_of, column
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = optional("pyarrow"), optional("pyarrow.parquet")

INDEX = "sliced.json"
VERSION = 2
GROUP = 1 << 20
"""Reports of a row group: with fewer, the footer is larger than what a count reads."""
GROUPS_PER_FILE = 16
_NAME = re.compile(r"(words|rest)-[0-9a-f]{16}-[0-9]{5,9}\.parquet")
"""As files are named here: others in a folder are somebody else's."""
_MARK = "metricldp-sliced"
_SHAPE = {
    "collections": [NUMBER],
    "files": [{"n": int, "sha256": (_NAME, SHA256)}],
    _MARK: int,
    "n": int,
    "survey": str,
}
_refuse = partial(ReportRefused, "file")


def slice_files(
    survey: Agreement, source: str | Path, output: str | Path, *, fingerprint: str | None = None
) -> int:
    """Turn files of reports into a folder of slices, and say how many reports they are."""
    if not bits_of(survey):
        raise QueryError("no attribute of this survey reports bits; ask its files as they are")
    check_outside(output, source, files_in(source))
    folder, counted, entries = Path(output), set[str](), list[dict[str, Any]]()
    tables = regrouped(pieces(survey, source, fingerprint=fingerprint, counted=counted), GROUP)
    try:
        entries.extend(_written(survey, tables, folder))
    except BaseException:
        _remove(folder, entries)
        raise
    n = sum(int(entry["n"]) for entry in entries)
    data = {
        "collections": sorted(numbered(counted, new_collection())),
        "files": entries,
        _MARK: VERSION,
        "n": n,
        "survey": survey.fingerprint,
    }
    old: list[Any] = []
    with suppress(ReportRefused):  # one that is not whole names nothing
        old = unsealed(folder / INDEX, _MARK, VERSION, _SHAPE, "")["files"]
    with replacing(folder / INDEX, _refuse, "index", [".json"]) as file:
        file.write(sealed(data))
    _remove(folder, old)
    return n


def _remove(folder: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    for entry in entries:
        for name in entry["sha256"]:
            (folder / name).unlink(missing_ok=True)


def _written(
    survey: Agreement, tables: Iterator[pa.Table], folder: Path
) -> Iterator[dict[str, Any]]:
    """Files of a few row groups each, and what the index says of them."""
    waiting = next(tables, None)
    number, own = 0, secrets.token_hex(8)
    remove_leftovers(made(folder, _refuse))
    while waiting is not None:
        number, n = number + 1, 0
        paths = [folder / f"{kind}-{own}-{number:05}.parquet" for kind in ("words", "rest")]
        rest = _rest_of(survey)
        with ExitStack() as stack:
            words = _writer(stack, paths[0], _words_schema(survey))
            kept = [field for field in waiting.schema if field.name in rest]
            others = _writer(stack, paths[1], pa.schema(kept)) if rest else None
            for _ in range(GROUPS_PER_FILE):
                if waiting is None:
                    break
                words.write_table(_sliced(survey, waiting), row_group_size=GROUP // 64)
                if others is not None:
                    plain = waiting.select(rest).replace_schema_metadata(None)
                    others.write_table(plain.combine_chunks(), row_group_size=GROUP)
                n += waiting.num_rows
                waiting = next(tables, None)
        written = paths if rest else paths[:1]
        yield {"n": n, "sha256": {path.name: _sha256(path) for path in written}}


def _writer(stack: ExitStack, path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    sink = stack.enter_context(replacing(path, _refuse, "slices", ENDINGS))
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    return stack.enter_context(pq.ParquetWriter(sink, schema, **options))


def _words_schema(survey: Agreement) -> pa.Schema:
    names = [column(n, bit) for n in bits_of(survey) for bit in range(survey.channels[n].bits)]
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in names])


def _sliced(survey: Agreement, table: pa.Table) -> pa.Table:
    """One row for every 64 reports; the last is filled up with zeros."""
    schema, arrays = _words_schema(survey), []
    for name in bits_of(survey):
        parts = [batch[name] for batch in batches(table.select([name]))]
        words = counting.transpose(np.concatenate(parts), survey.channels[name].bits)
        arrays += [pa.array(row.view(np.int64)) for row in words]
    return pa.Table.from_arrays(arrays, schema=schema)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as wrong:
        raise _refuse(f"cannot read {path}: {why_not(wrong)}") from None


class Index:
    """What a folder of slices holds, checked: its files, how many reports, of which collections."""

    def __init__(self, survey: Agreement, folder: Path, *, unmarked: bool = False) -> None:
        path = folder / INDEX
        said = unsealed(path, _MARK, VERSION, _SHAPE, "slice again")
        if said["survey"] != survey.fingerprint:
            raise ReportRefused(
                "survey",
                f"the slices in {folder} belong to another survey ({said['survey'][:32]}, this is "
                f"{survey.fingerprint[:32]}); use the survey file that the devices used",
            )
        entries = said["files"]
        self.n, self.collections = said["n"], frozenset(said["collections"])
        names = [name for entry in entries for name in entry["sha256"]]
        kinds = ["rest", "words"] if _rest_of(survey) else ["words"]
        if (
            sum(entry["n"] for entry in entries) != self.n
            or len(set(names)) != len(names)
            or any(sorted(map(_kind, entry["sha256"])) != kinds for entry in entries)
            or (self.n and not self.collections)
        ):
            raise ReportRefused("checksum", f"{path} contradicts itself; slice again")
        for entry in entries:
            rows = {"words": -(-entry["n"] // 64), "rest": entry["n"]}
            for name, digest in entry["sha256"].items():
                _check(folder / name, "" if unmarked else digest, rows[_kind(name)])
        self.words = [folder / name for name in names if _kind(name) == "words"]
        self.rest = [folder / name for name in names if _kind(name) == "rest"]


def _check(path: Path, digest: str, rows: int) -> None:
    if not path.is_file():
        raise _refuse(f"there is no file {path}, which {INDEX} names; slice again")
    if digest and _sha256(path) != digest:
        raise ReportRefused("checksum", f"{path} is damaged: its digest is wrong; slice again")
    try:
        found = pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as wrong:
        raise _refuse(f"cannot read {path}: {why_not(wrong)}; slice again") from None
    if found != rows:
        why = f"{path} has {found:,} rows, and {INDEX} says {rows:,}; slice again"
        raise ReportRefused("checksum", why)


def _kind(name: str) -> str:
    return name.partition("-")[0]


def _rest_of(survey: Agreement) -> list[str]:
    """The columns that are no bits."""
    return [name for name in survey.fields if name not in bits_of(survey)]
