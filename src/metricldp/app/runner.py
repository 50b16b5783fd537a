"""Runs a page: shows how far it is, then writes its text, its tables and its pictures."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from metricldp.app.plots import draw
from metricldp.app.terminal import watched
from metricldp.basics.errors import QueryError
from metricldp.basics.writing import replacing
from metricldp.lab.pages import Page, Progress, Rows


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
    _write(files[0], page.text)
    for name, rows in page.tables.items():
        files.append(output / name)
        _write(files[-1], _as_csv(rows))
    for picture in page.pictures:
        files += draw(picture, output)
    return files


def _write(path: Path, text: str) -> None:
    with replacing(path, QueryError) as file:
        file.write(text.encode("utf-8"))


def _as_csv(rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
