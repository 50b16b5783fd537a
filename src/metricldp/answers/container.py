"""Answers: a value with its own uncertainty, in the units of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from metricldp.answers.answer import Answer
from metricldp.answers.postprocess import NOTE, norm_sub
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess, listed


@dataclass(frozen=True)
class Histogram(Sequence[Answer]):
    """One answer for each bar, in the order of the attribute; by place or by label."""

    attribute: str
    labels: tuple[str, ...]
    answers: tuple[Answer, ...]
    named: bool = False
    """Whether the labels are names, of levels or categories, and not numbers."""
    people: int | None = None
    """How many people all bars hold together, where that is known: everybody who reported."""

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, str):
            return self.answers[index]
        if index not in self.labels:
            there = f"it has {listed(self.labels)}{guess(index, self.labels)}"
            raise QueryError(f"the histogram of {self.attribute} has no bar {index!r}; {there}")
        return self.answers[self.labels.index(index)]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

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
        values = norm_sub([answer.value for answer in self.answers], wanted)
        moved = [
            replace(answer, value=float(value), notes=tuple(dict.fromkeys((*answer.notes, NOTE))))
            for answer, value in zip(self.answers, values, strict=True)
        ]
        return replace(self, answers=tuple(moved))

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """A table with a row for each bar; `.to_pandas()` and polars take it from there."""
        ends = [answer.interval(level) for answer in self.answers]
        return pa.table(
            {
                self.attribute: list(self.labels),
                "value": [answer.value for answer in self.answers],
                "stderr": [answer.stderr for answer in self.answers],
                "low": [low for low, _ in ends],
                "high": [high for _, high in ends],
            }
        )

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Plain data for a program."""
        return {
            "attribute": self.attribute,
            "bars": [
                {"label": label, **answer.to_dict(level)}
                for label, answer in zip(self.labels, self.answers, strict=True)
            ],
        }

    def __str__(self) -> str:
        wide = max(len(label) for label in self.labels)
        notes = [answer.notes for answer in self.answers]
        shared = [note for note in notes[0] if all(note in others for others in notes)]
        lines = [
            f"{label:>{wide}}  {replace(answer, notes=_without(answer.notes, shared))}"
            for label, answer in zip(self.labels, self.answers, strict=True)
        ]
        return "\n".join([*lines, *(f"all bars: {note}" for note in shared)])


def _without(notes: tuple[str, ...], shared: Sequence[str]) -> tuple[str, ...]:
    return tuple(note for note in notes if note not in shared)
