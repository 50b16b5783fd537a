"""Writes the results of a command into a folder: text and CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metricldp.basics.errors import QueryError
from metricldp.basics.writing import replacing


def directory(path: Path) -> Path:
    """The folder, created if necessary."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise QueryError(f"{path} is a file; name a directory to write into") from None
    return path


def write_text(path: Path, text: str) -> Path:
    with replacing(path, QueryError) as file:
        file.write(text.encode("utf-8"))
    return path


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """One line for each row; the first row names the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return write_text(path, text.getvalue())
