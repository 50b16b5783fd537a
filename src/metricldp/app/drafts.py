"""A draft of a survey from made-up or public people: a file that loads, and asks back."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metricldp.attributes.kinds import from_dict
from metricldp.basics.errors import SurveyError, ValueRefused
from metricldp.basics.text import counted
from metricldp.basics.writing import path_of, replacing
from metricldp.design.drafts import Drafted, drafted
from metricldp.reports.columns import columns_of
from metricldp.reports.files import read_columns
from metricldp.survey import files
from metricldp.survey.agreement import FORMAT

WARNING = (
    "Draft from made-up or public data only. Private data must not be used: ranges, names and bins "
    "follow the data, and everybody sees them. An end or a name that only one person has tells of "
    "that person, and no blurring takes it back."
)
_LINE = 96


@dataclass(frozen=True)
class Draft:
    """What each column became, as a file of a survey and in words."""

    source: str
    rows: int
    columns: tuple[Drafted, ...]

    @property
    def kept(self) -> list[Drafted]:
        return [column for column in self.columns if not column.left_out]

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are no attribute, and why."""
        return {column.name: column.left_out for column in self.columns if column.left_out}

    @property
    def choices(self) -> list[str]:
        """Every choice that follows the data."""
        return [
            f"{c.name}: {key} {_said(c, key)}: {why}"
            for c in self.kept
            for key, why in c.why.items()
        ]

    def to_toml(self) -> str:
        """The survey file, with what follows the data and what is asked back as comments."""
        lines = [
            *_comment(f"A draft of a survey from {self.source}, {counted(self.rows, 'row')}."),
            *_comment(WARNING),
            *_comment(
                "Lines that end in a comment follow the data. Lines with a question mark are for "
                "you to decide. Then: metricldp design DRAFT -o survey.toml"
            ),
            "",
            f"metricldp = {FORMAT}",
        ]
        for column in self.kept:
            lines += ["", *self._block(column)]
        for name, why in self.left_out.items():
            lines += [
                "",
                *_comment(f"{files.to_toml({name: 0}).partition(' = ')[0]} is left out: {why}."),
            ]
        return "\n".join(lines) + "\n"

    def _block(self, column: Drafted) -> list[str]:
        lines = [files.to_toml({"attributes": {column.name: {}}}).strip()]
        for key, value in column.entry.items():
            first, *rest = files.to_toml({key: value}).splitlines()
            why = column.why.get(key)
            lines += [f"{first}  # {why}" if why else first, *rest]
        for question in column.questions:
            lines += _comment(question, "# ? ")
        for hint in column.hints:
            lines += _comment(hint)
        return lines

    def save(self, path: str | Path) -> None:
        """Write the file; its name ends in .toml, because comments are what it is about."""
        with replacing(path, SurveyError, "draft", [".toml"]) as file:
            file.write(self.to_toml().encode("utf-8"))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a program."""
        return {
            "source": self.source,
            "rows": self.rows,
            "warning": WARNING,
            "attributes": {column.name: column.entry for column in self.kept},
            "follows_the_data": {column.name: column.why for column in self.kept},
            "questions": {column.name: list(column.questions) for column in self.kept},
            "hints": {column.name: list(column.hints) for column in self.kept if column.hints},
            "left_out": self.left_out,
        }

    def __str__(self) -> str:
        asked = sum(len(column.questions) for column in self.kept)
        parts = [
            f"{counted(len(self.kept), 'attribute')} from {self.source}, "
            f"{counted(self.rows, 'row')}; {counted(asked, 'question')} for you in the file",
            textwrap.fill(WARNING, _LINE),
            "\n".join(["What follows the data:", *(f"- {choice}" for choice in self.choices)]),
        ]
        hints = [f"- {c.name}: {hint}" for c in self.kept for hint in c.hints]
        if hints:
            parts.append("\n".join(["What to look at:", *hints]))
        if self.left_out:
            told = (f"- {name}: {why}" for name, why in self.left_out.items())
            parts.append("\n".join(["Left out:", *told]))
        return "\n\n".join(parts)


def _said(column: Drafted, key: str) -> str:
    text = json.dumps(column.entry[key], ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _comment(words: str, begin: str = "# ") -> list[str]:
    later = "#" + " " * (len(begin) - 1)
    return textwrap.wrap(words, _LINE, initial_indent=begin, subsequent_indent=later)


def draft(people: Any) -> Draft:
    """A draft of a survey from made-up or public people: a file, or a frame, table or dict.

    Never from the people who will be asked: ranges and names that follow data tell of the data.
    The draft says which of its choices follow the data, and asks back what only you can decide.
    """
    columns: dict[str, Any]
    if isinstance(people, str | Path):
        path = path_of(people, ValueRefused)
        columns, source = read_columns(path), path.name
    else:
        columns, source = columns_of(people), "a table"
    rows = {len(values) for values in columns.values()}
    if len(rows) > 1:
        raise ValueRefused(f"columns differ in length: {sorted(rows)}")
    if not columns or rows == {0}:
        raise ValueRefused(f"{source} holds no people; each row is one")
    found = tuple(_checked(drafted(name, values)) for name, values in columns.items())
    if all(column.left_out for column in found):
        why = "; ".join(_reasons(found))
        raise ValueRefused(f"no column of {source} can be an attribute: {why}")
    return Draft(source, rows.pop(), found)


def _reasons(found: Sequence[Drafted]) -> list[str]:
    more = [f"and {len(found) - 5} more"] if len(found) > 5 else []
    # By place: without a header the names would be one row's values.
    places = enumerate(found[:5], 1)
    return [*(f"column {place}: {column.left_out}" for place, column in places), *more]


def _checked(column: Drafted) -> Drafted:
    """What no attribute can be made of is left out."""
    if column.left_out:
        return column
    try:
        from_dict(dict(column.entry), column.name)
    except SurveyError as wrong:
        return Drafted(column.name, left_out=str(wrong))
    return column
