"""What people hand over, and the engine that reads it: files, addresses, frames, tables.

Files on this machine are opened by name and read once, before anything is asked: marks, digests and
collections are checked as in any tally. With a fingerprint, and without marks, they are not.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metricldp.basics.errors import InvalidReportError, QueryError
from metricldp.basics.optional import require
from metricldp.basics.text import listed, shown
from metricldp.reports import parquet
from metricldp.reports.arrow import accepts_unmarked
from metricldp.reports.incoming import TableKey, check_uncounted, count_table, files_in, pieces
from metricldp.reports.parquet import UNNUMBERED
from metricldp.store.engines.duckdb import DuckDB
from metricldp.store.engines.places import Files, Rows
from metricldp.store.engines.polars import Polars
from metricldp.store.engines.spark import Spark
from metricldp.survey.agreement import Agreement

AUTO = "auto"
ENGINES: dict[str, Any] = {"duckdb": DuckDB, "polars": Polars, "spark": Spark}
_LIBRARIES = {"duckdb": "duckdb", "polars": "polars", "spark": "pyspark"}
_OWNERS = {"duckdb": "duckdb", "_duckdb": "duckdb", "polars": "polars", "pyspark": "spark"}
"""Whose frames are whose, by the library that defines them."""


def opened(
    survey: Agreement, collected: Any, engine: str, *, fingerprint: str | None, counted: set[str]
) -> Rows:
    """The reports to query; their collections join those counted."""
    if not isinstance(engine, str) or engine not in (AUTO, *ENGINES):
        raise QueryError(f"an engine is one of {listed([AUTO, *ENGINES])}, not {shown(engine)}")
    unmarked = accepts_unmarked(survey, fingerprint)
    owner = _OWNERS.get(type(collected).__module__.partition(".")[0])
    if owner is not None:
        return _frame(survey, collected, owner, engine, unmarked, counted)
    paths = list(collected) if isinstance(collected, list | tuple) else [collected]
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        raise InvalidReportError(
            "kind",
            "an engine reads Parquet files, a folder of them, an address, or a frame of its own, "
            f"not {shown(collected)}; tally others without engine=",
        )
    chosen = _default() if engine == AUTO else engine
    require(chosen)
    remote = [str(path) for path in paths if "://" in str(path)]
    if remote or (chosen == "spark" and not _local(paths)):
        if len(remote) not in (0, len(paths)):
            raise QueryError("name files on this machine, or addresses, not both together")
        _check_vouched(unmarked, remote[0] if remote else str(paths[0]))
        counted.add(UNNUMBERED)
        source = ENGINES[chosen].of_files(remote) if remote else Spark.of_table(str(paths[0]))
        return Rows(survey, source, Files())
    return _files(survey, paths, chosen, unmarked, counted)


def _default() -> str:
    for name, library in _LIBRARIES.items():
        if importlib.util.find_spec(library):
            return name
    raise QueryError("no engine is installed: run python -m pip install 'metricldp[duckdb]'")


def _local(paths: Sequence[str | Path]) -> bool:
    """Whether these are files, rather than a table that Spark knows."""
    if len(paths) != 1 or isinstance(paths[0], Path):
        return True
    name = paths[0]
    return Path(name).exists() or any(letter in name for letter in "/\\*?[") or "parquet" in name


def _frame(
    survey: Agreement, frame: Any, owner: str, engine: str, unmarked: bool, counted: set[str]
) -> Rows:
    if engine not in (AUTO, owner):
        raise QueryError(f"{type(frame).__name__} is of {owner}; use engine={owner!r}")
    _check_vouched(unmarked, f"this {type(frame).__name__}")
    check_uncounted([TableKey.of(frame)], counted, "these reports")
    count_table(frame, counted)
    return Rows(survey, ENGINES[owner](frame), Files())


def _check_vouched(unmarked: bool, what: str) -> None:
    if not unmarked:
        raise InvalidReportError(
            "unmarked",
            f"{what} has no survey fingerprint that could be checked; if it holds reports of this "
            "survey, none of them counted yet, pass survey.tally(..., fingerprint=...)",
        )


def _files(
    survey: Agreement, paths: Sequence[str | Path], engine: str, unmarked: bool, counted: set[str]
) -> Rows:
    files = [file for path in paths for file in files_in(path)]
    now = Files(files)
    if unmarked:
        n = _footers(survey, files, counted)
    else:
        n = sum(t.num_rows for t in pieces(survey, list(files), counted=counted))
    return Rows(survey, ENGINES[engine].of_files(files), now, n)


def _footers(survey: Agreement, files: Sequence[Path], counted: set[str]) -> int:
    """How many reports files say to hold; another survey's, and one file twice, are refused."""
    seen: dict[object, Path] = {}
    n = 0
    for path in files:
        with parquet.opened(survey, path, unmarked=True) as file:
            here = path.stat()
            check_uncounted(file.said, counted, f"the reports in {path}")
            for key in filter(None, [(here.st_dev, here.st_ino), file.digest]):
                if key in seen:
                    raise InvalidReportError(
                        "twice", f"{path} is the same as {seen[key]}; name it once"
                    )
                seen[key] = path
            n += file.count
    counted.add(UNNUMBERED)
    return n
