"""Runs a page: shows how far it is, then writes its text, its tables and its pictures."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from metricldp.app.plots import draw
from metricldp.basics.errors import QueryError
from metricldp.lab.pages import Page, Progress, Rows, silent


@contextlib.contextmanager
def watched(name: str) -> Iterator[Progress]:
    """A bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(name), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        yield lambda done: bar.update(task, completed=done)


def directory(path: Path) -> Path:
    """Made if need be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise QueryError(f"{path} is a file; name a directory to write into") from None
    return path


def run(name: str, work: Callable[[Progress], Page], output: Path) -> tuple[Page, list[Path]]:
    """The page that the work makes, and the files that it is written to."""
    with watched(name) as progress:
        page = work(progress)
    return page, write(page, output)


def write(page: Page, output: Path) -> list[Path]:
    """The text, the tables as CSV files, the pictures."""
    files = [output / f"{page.name}.{page.kind}"]
    files[0].write_text(page.text, "utf-8")
    for name, rows in page.tables.items():
        files.append(output / name)
        _write_rows(files[-1], rows)
    for picture in page.pictures:
        files += draw(picture, output)
    return files


def _write_rows(path: Path, rows: Rows) -> None:
    """The keys of the rows on top."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
