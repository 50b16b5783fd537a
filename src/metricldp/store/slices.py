"""Reports of bits as columns of bits, in files: what a count reads is then a few columns.

A folder of slices has files of words, in which a row holds 64 reports and a column one bit of them;
files of the columns that are no bits, one report to a row as ever; and `sliced.json`, written last,
which names them all with their digests. Without it a folder is half-written, and refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricldp.basics.canonical import canonical
from metricldp.basics.errors import QueryError, ReportRefused
from metricldp.basics.optional import optional
from metricldp.basics.writing import check_apart, replacing, why_not
from metricldp.reports.arrow import batches, regrouped
from metricldp.reports.incoming import files_in, pieces
from metricldp.reports.parquet import ENDINGS, new_collection, numbered
from metricldp.store import loops as counting
from metricldp.store.engines.places import bits_of, column
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = optional("pyarrow"), optional("pyarrow.parquet")

INDEX = "sliced.json"
VERSION = 1
GROUP = 1 << 20
"""Reports of a row group: with fewer, the footer is larger than what a count reads."""
GROUPS_PER_FILE = 16
_refuse = partial(ReportRefused, "file")


def slice_files(
    survey: Agreement, source: str | Path, output: str | Path, *, trust: bool = False
) -> int:
    """Turn files of reports into a folder of slices, and say how many reports they are."""
    if not bits_of(survey):
        raise QueryError("no attribute of this survey reports bits; ask its files as they are")
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    for path in files_in(source):
        check_apart(folder / INDEX, [path], QueryError)
        if path.parent.resolve() == folder.resolve():
            raise QueryError(f"{output} holds the reports themselves; name another folder")
    counted: set[str] = set()
    tables = regrouped(pieces(survey, source, trust=trust, counted=counted), GROUP)
    entries = list(_written(survey, tables, folder))
    n = sum(int(entry["n"]) for entry in entries)
    data = {
        "collections": sorted(numbered(counted, new_collection())),
        "files": entries,
        "metricldp-sliced": VERSION,
        "n": n,
        "survey": survey.fingerprint,
    }
    with replacing(folder / INDEX, _refuse, "index", [".json"]) as file:
        file.write(canonical(data).encode("utf-8") + b"\n")
    named = {name for entry in entries for name in entry["sha256"]}
    for path in [*folder.glob("words-*.parquet"), *folder.glob("rest-*.parquet")]:
        if path.name not in named:
            path.unlink()
    return n


def _written(
    survey: Agreement, tables: Iterator[pa.Table], folder: Path
) -> Iterator[dict[str, Any]]:
    """Files of a few row groups each, and what the index says of them."""
    waiting = next(tables, None)
    number = 0
    while waiting is not None:
        number, n = number + 1, 0
        paths = [folder / f"{kind}-{number:05}.parquet" for kind in ("words", "rest")]
        rest = [name for name in survey.fields if name not in bits_of(survey)]
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

    def __init__(self, survey: Agreement, folder: Path, *, trust: bool = False) -> None:
        path = folder / INDEX
        try:
            said = json.loads(path.read_text("utf-8"))
            entries = [(int(entry["n"]), dict(entry["sha256"])) for entry in said["files"]]
            version, owner = said["metricldp-sliced"], said["survey"]
            self.n, self.collections = int(said["n"]), frozenset(map(str, said["collections"]))
        except (OSError, ValueError, KeyError, TypeError) as wrong:
            raise _refuse(f"{path} is no index of slices: {why_not(wrong)}; slice again") from None
        if version != VERSION:
            raise ReportRefused("version", f"{path} has version {version}, this is {VERSION}")
        if owner != survey.fingerprint:
            raise ReportRefused(
                "survey",
                f"the slices in {folder} belong to another survey ({owner[:32]}, this is "
                f"{survey.fingerprint[:32]}); use the survey file that the devices used",
            )
        if sum(n for n, _ in entries) != self.n:
            raise ReportRefused("checksum", f"{path} is damaged: its counts do not add up")
        self.words, self.rest = [], []
        for _, digests in entries:
            self._check(folder, digests, trust)
            self.words += [folder / name for name in digests if name.startswith("words-")]
            self.rest += [folder / name for name in digests if name.startswith("rest-")]

    def _check(self, folder: Path, digests: Mapping[str, str], trust: bool) -> None:
        for name, digest in digests.items():
            path = folder / name
            if not path.is_file():
                raise _refuse(f"there is no file {path}, which {INDEX} names; slice again")
            if not trust and _sha256(path) != digest:
                raise ReportRefused(
                    "checksum", f"{path} is damaged: its digest is wrong; slice again"
                )
