"""Answers in a row, whatever was asked: values, errors and intervals, as arrays and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from operator import index as as_index
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from metricldp.answers import pictures
from metricldp.answers.answer import (
    AUTO,
    NORMAL,
    Answer,
    check_method,
    normal_reach,
    percent,
    together,
)
from metricldp.answers.postprocess import NOTE, norm_sub
from metricldp.basics.checks import flag
from metricldp.basics.errors import QueryError
from metricldp.basics.markup import beside, table
from metricldp.basics.numbers import finite
from metricldp.basics.optional import loaded
from metricldp.basics.text import counted, guess, listed, plain, shown
from metricldp.channels import Floats
from metricldp.store.readings import MAX_ROWS_TOGETHER

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS_SHOWN = 200
"""Of longer answers only the first are printed."""
_NUMBERS = ("value", "stderr", "low", "high")


class Answers(Sequence[Answer]):
    """One answer for each label, in their order: by position, by label, or a slice of them.

    `values` and `stderr` are arrays; so are the two ends of `interval`.
    """

    simultaneous: ClassVar[bool] = False
    """Whether tables and texts show intervals that hold for all rows together, unless told."""

    def __init__(self, attribute: str, labels: Sequence[str], answers: Sequence[Answer]) -> None:
        self.attribute = attribute
        """What the labels are of; nothing, where they are questions."""
        self._labels, self._answers = tuple(labels), tuple(answers)

    @cached_property
    def labels(self) -> Sequence[str]:
        return self._labels

    @cached_property
    def values(self) -> Floats:
        return np.fromiter((answer.value for answer in self), np.float64, len(self))

    @cached_property
    def stderr(self) -> Floats:
        return np.fromiter((answer.stderr for answer in self), np.float64, len(self))

    def interval(
        self,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
        method: str = AUTO,
        anytime: bool = False,
    ) -> tuple[Floats, Floats]:
        """The lower and the upper end of every row's interval, by one of its methods.

        Of more than 256 rows "auto" is "normal", as every bracket has to be looked for.

        Simultaneous ones hold for all k rows together at that level: each may fail with a k-th of
        the probability, so that one of them fails no more often than the level allows (Bonferroni).
        """
        normal_reach(level)
        each = together(level, len(self)) if flag("simultaneous", simultaneous) else level
        by = self._method(method)
        found = [answer.interval(each, by, anytime=anytime) for answer in self]
        ends = np.array(found).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def p_values(self, number: float = 0.0) -> Floats:
        """The p-value of every row against a number, as `Answer.p_value` computes it."""
        return np.array([answer.p_value(number) for answer in self], dtype=np.float64)

    def moved_by(self, liars: int) -> tuple[Floats, Floats]:
        """Between what each value would lie if so many devices had not lied, row by row."""
        ends = np.array([answer.moved_by(liars) for answer in self]).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def _method(self, method: str) -> str:
        """What rows are asked for."""
        check_method(method)
        return NORMAL if method == AUTO and len(self) > MAX_ROWS_TOGETHER else method

    # A sequence ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._answers)

    def _block(self, start: int, stop: int) -> Sequence[Answer]:
        """Some rows that follow each other."""
        return self._answers[start:stop]

    def __iter__(self) -> Iterator[Answer]:
        for start in range(0, len(self), MAX_ROWS_TOGETHER):
            yield from self._block(start, start + MAX_ROWS_TOGETHER)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            rows = range(*index.indices(len(self)))
            return Answers(self.attribute, self.labels[index], [self[row] for row in rows])
        if isinstance(index, str):
            if index not in self._positions:
                about = f" about {self.attribute}" if self.attribute else ""
                there = f"there are {listed(self.labels)}{guess(index, self.labels)}"
                raise QueryError(f"no answer{about} is called {shown(index)}; {there}")
            index = self._positions[index]
        row = as_index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"there are answers 0 to {len(self) - 1}, not {row}")
        row %= len(self)
        return self._block(row, row + 1)[0]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {label: row for row, label in reversed(list(enumerate(self.labels)))}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answers):
            return NotImplemented
        return list(self.labels) == list(other.labels) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    # Tables and text -----------------------------------------------------------------------------

    def _columns(self, level: float, simultaneous: bool | None) -> dict[str, Any]:
        low, high = self.interval(level, simultaneous=self._all(simultaneous))
        numbers = (self.values, self.stderr, low, high)
        return {**self._label_columns(), **dict(zip(_NUMBERS, numbers, strict=True))}

    def _label_columns(self) -> dict[str, list[Any]]:
        label = "label" if self.attribute in _NUMBERS else self.attribute or "question"
        return {label: self._marks()}

    def _all(self, simultaneous: bool | None) -> bool:
        return self.simultaneous if simultaneous is None else simultaneous

    def _marks(self) -> list[Any]:
        return list(self.labels)

    def to_arrow(self, level: float = 0.95, *, simultaneous: bool | None = None) -> pa.Table:
        """A table with a row for each answer."""
        found: pa.Table = loaded("pyarrow").table(self._columns(level, simultaneous))
        return found

    def to_pandas(self, level: float = 0.95, *, simultaneous: bool | None = None) -> Any:
        return loaded("pandas").DataFrame(self._columns(level, simultaneous))

    def to_polars(self, level: float = 0.95, *, simultaneous: bool | None = None) -> Any:
        return loaded("polars").DataFrame(self._columns(level, simultaneous))

    def to_dict(self, level: float = 0.95, *, simultaneous: bool | None = None) -> dict[str, Any]:
        """Plain data for a program; None where a number is infinite, which JSON cannot say."""
        columns = self._columns(level, simultaneous)
        numbers, shared = [columns[name] for name in _NUMBERS], self.shared_notes()
        rows = zip(self._marks(), *(column.tolist() for column in numbers), self, strict=True)
        return {
            "attribute": self.attribute,
            "about": self[0].about if len(self) else "respondents",
            "level": level,
            "simultaneous": self._all(simultaneous),
            "notes": shared,
            "answers": [
                {
                    "label": label,
                    "question": answer.question,
                    **{name: finite(x) for name, x in zip(_NUMBERS, found, strict=True)},
                    "unit": answer.unit,
                    "notes": [note for note in answer.notes if note not in shared],
                }
                for label, *found, answer in rows
            ],
        }

    def plot(self, path: str | Path | None = None, **look: Any) -> Any:
        """A picture, as a figure of matplotlib; into a file as well, if one is named.

        `metricldp.app.plots` has all of them, and tells what each can be asked for.
        """
        return pictures.plot(self, path, **look)

    def shared_notes(self) -> list[str]:
        """What is noted of every answer."""
        first = self[0].notes if len(self) else ()
        return [note for note in first if all(note in answer.notes for answer in self)]

    def text(self, level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        """A line for each answer, with its interval at that level."""
        shown = list(islice(zip(self.labels, self, strict=True), MAX_ROWS_SHOWN))
        shared = self.shared_notes()
        wide = max((len(label) for label, _ in shown), default=0)
        among = len(self) if self._all(simultaneous) else 1
        by = self._method(AUTO)
        lines = []
        for label, answer in shown:
            notes = tuple(note for note in answer.notes if note not in shared)
            one = replace(answer, notes=notes)
            text = one.text(level, among=among, method=by)
            lines.append(f"{label:>{wide}}  {text}")
        if len(self) > len(shown):
            lines.append(f"and {len(self) - len(shown):,} more")
        return "\n".join([*lines, *(f"all: {note}" for note in shared)])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        about = f" about {self.attribute}" if self.attribute else ""
        return f"<Answers to {counted(len(self), 'question')}{about}>"

    def _repr_html_(self) -> str:
        """A small table for a notebook."""
        return self.to_html()

    def to_html(self, level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        """A small table for a page."""
        most, every = MAX_ROWS_SHOWN, self._all(simultaneous)
        few = self
        if len(self) > most and not every:  # errors of the others may not be found yet
            few = Answers(self.attribute, self.labels[:most], list(islice(self, most)))
        columns = few._columns(level, every)
        marks, numbers = few._marks()[:most], [columns[name][:most] for name in _NUMBERS]
        interval = f"{percent(level)} {'for all' if every else 'interval'}"
        units = {one.unit for one in islice(few, most)} - {""}
        value = f"value ({units.pop()})" if len(units) == 1 else "value"
        head = (self.attribute or "question", value, "± error", interval)
        rows = [head]
        for mark, one, *found in zip(marks, islice(few, most), *numbers, strict=True):
            value, error, low, high = map(one._shown, found)
            rows.append((plain(mark), value, error, f"{low} to {high}"))
        if len(self) > most:
            rows.append((f"and {len(self) - most:,} more", "", "", ""))
        return beside(table(rows), below=self.shared_notes())


class Histogram(Answers):
    """The answers to a histogram, one for each bar, in the order of the attribute."""

    def __init__(
        self,
        attribute: str,
        labels: Sequence[str],
        answers: Sequence[Answer],
        *,
        named: bool = False,
        people: int | None = None,
        edges: Sequence[float] | None = None,
    ) -> None:
        super().__init__(attribute, labels, answers)
        self.named = named
        """Whether the labels are names, of levels or categories, and not numbers."""
        self.people = people
        """How many people all bars hold together, where that is known: everybody who reported."""
        self.edges = None if edges is None else tuple(edges)
        """Where bars of numbers begin and end: one more than there are bars."""

    def with_answers(self, answers: Sequence[Answer], people: int | None) -> Histogram:
        """The same bars with other answers, of so many people."""
        bars = self.attribute, self.labels, answers
        return Histogram(*bars, named=self.named, people=people, edges=self.edges)

    def norm_sub(self, total: float | None = None) -> Histogram:
        """The nearest bars that are not negative and add up to `total`, everybody unless stated.

        It biases every bar: small ones upwards, large ones downwards. The errors stay those of the
        estimates from before and are wrong for these, and false reports can move more than they
        could. Every answer says so in a note; sums and totals want the bars as they were.
        """
        wanted = self.people if total is None else total
        if wanted is None:
            raise QueryError(
                f"the bars of {self.attribute} are of a group of unknown size; "
                "say how many people it has: norm_sub(total=...)"
            )
        moved = [
            replace(
                answer,
                value=value,
                lie=None,
                made=None,
                notes=tuple(dict.fromkeys((*answer.notes, NOTE))),
            )
            for answer, value in zip(self, norm_sub(self.values, wanted).tolist(), strict=True)
        ]
        return self.with_answers(moved, self.people)


class Grid(Answers):
    """The answers of all cells, row by row; `rows` and `columns` say what each is.

    `edges` are where rows, and where columns, of numbers begin and end; None where they are names.
    """

    def __init__(
        self,
        names: tuple[str, str],
        rows: Sequence[str],
        columns: Sequence[str],
        found: list[Answer],
        edges: tuple[Sequence[float] | None, Sequence[float] | None] = (None, None),
    ) -> None:
        labels = [f"{names[0]} {row}, {names[1]} {column}" for row in rows for column in columns]
        super().__init__("", labels, found)
        self.names, self.rows, self.columns = names, tuple(rows), tuple(columns)
        self.edges = edges

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def _label_columns(self) -> dict[str, list[Any]]:
        rows = [row for row in self.rows for _ in self.columns]
        return dict(zip(self.names, (rows, list(self.columns) * len(self.rows)), strict=True))
