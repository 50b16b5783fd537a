"""What the pages of the figures share: rows as CSV files, paragraphs and blocks of Markdown."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A CSV file with the keys of the rows on top."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def filled(words: str) -> str:
    """A paragraph or a point of a list, its lines broken anew."""
    hanging = " " * 2 * (words[0] == "-")
    return textwrap.fill(" ".join(words.split()), 100, subsequent_indent=hanging)


def block(text: str) -> str:
    """A table as it stands."""
    return f"```text\n{text}\n```\n"
