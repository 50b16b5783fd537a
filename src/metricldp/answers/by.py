"""The same question in every group that one or two attributes make: a table of answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricldp.answers.answer import Answer, normal_reach, percent
from metricldp.answers.answer_table import Answers, Grid
from metricldp.answers.conditions import Where, all_of, attributes_in
from metricldp.answers.quantiles import Quantile
from metricldp.attributes.selection import Chosen
from metricldp.basics.errors import QueryError
from metricldp.basics.markup import table
from metricldp.basics.text import plain, shown
from metricldp.channels import Floats
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

By = str | Sequence[str] | Mapping[str, float | None]
"""An attribute, two of them, or attributes with the width of their bars."""
MOST_GROUPS = 4096


@dataclass(frozen=True)
class Cells:
    """The groups of a table: each a where-clause with a name."""

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """Of the groups along each attribute."""
    clauses: tuple[dict[str, Chosen], ...]
    """Row by row."""
    edges: tuple[Sequence[float] | None, ...] = ()
    """Where the groups along each attribute begin and end, if they are numbers."""

    def within(self, where: Where | None) -> list[Where]:
        """Each group, of the people of a where-clause only."""
        if where is None:
            return list(self.clauses)
        if isinstance(where, Mapping):
            return [{**where, **clause} for clause in self.clauses]
        return [all_of(where, clause) for clause in self.clauses]

    def table(self, found: Sequence[Answer]) -> Answers:
        if len(self.names) == 1:
            return Answers(self.names[0], self.labels[0], found)
        (one, two), (rows, columns) = self.names, self.labels
        return Grid((one, two), rows, columns, list(found), (self.edges[0], self.edges[1]))

    def answers(self, where: Where | None, ask: Callable[[Where], Answer]) -> Answers:
        """A question for each group."""
        return self.table([ask(clause) for clause in self.within(where)])


def cells(survey: Agreement, by: By, where: Where | None, about: str | None = None) -> Cells:
    """The groups that attributes make, which neither `where` nor the question is about."""
    widths = _widths(by)
    bars = []
    for name, width in widths.items():
        described = attribute_of(survey, name)
        if described.is_weight:
            raise QueryError(f"{name} is a weight, and makes no groups")
        if name == about:
            raise QueryError(f"{name} is asked about; let another attribute make the groups")
        if name in attributes_in(where or {}):
            raise QueryError(f"{name} makes the groups; leave it out of where")
        bars.append(list(described.bars(width, name)))
    count = int(np.prod([len(some) for some in bars]))
    if count > MOST_GROUPS:
        raise QueryError(
            f"{' and '.join(widths)} make {count:,} groups, more than {MOST_GROUPS:,}; give bars a "
            f"width, such as by={{{next(iter(widths))!r}: 10}}"
        )
    names = tuple(widths)
    if len(names) == 1:
        clauses = [{names[0]: bar} for bar in bars[0]]
    else:
        clauses = [{names[0]: one, names[1]: two} for one in bars[0] for two in bars[1]]
    labels = tuple(tuple(bar.words for bar in some) for some in bars)
    edges = [
        attribute_of(survey, name).edges_of(some) for name, some in zip(names, bars, strict=True)
    ]
    return Cells(names, labels, tuple(clauses), tuple(edges))


def _widths(by: By) -> dict[str, float | None]:
    if isinstance(by, str):
        return {by: None}
    found: dict[Any, float | None]
    if isinstance(by, Mapping):
        found = dict(by)
    elif isinstance(by, Sequence) and all(isinstance(name, str) for name in by):
        found = dict.fromkeys(by)
        if len(found) < len(by):
            raise QueryError(f"by names an attribute twice: {shown(list(by))}")
    else:
        found = {}
    if not 1 <= len(found) <= 2 or not all(isinstance(name, str) for name in found):
        raise QueryError(
            f"by is an attribute or two, such as 'region', ['region', 'sex'] or {{'age': 10}}, "
            f"not {shown(by)}"
        )
    return found


class Quantiles(Answers):
    """A quantile for each group. It has an interval, but no standard error."""

    def __init__(self, attribute: str, labels: Sequence[str], found: Sequence[Quantile]) -> None:
        super().__init__(attribute, labels, ())
        self.found = tuple(found)

    def __len__(self) -> int:
        return len(self.found)

    def _block(self, start: int, stop: int) -> Any:
        return self.found[start:stop]

    @property
    def values(self) -> Any:
        return np.array([one.value for one in self.found])

    @property
    def stderr(self) -> Floats:
        raise QueryError("a quantile has no standard error; ask for its interval")

    def interval(self, level: float = 0.95, **how: Any) -> tuple[Any, Any]:
        normal_reach(level)
        each = 1 - (1 - level) / len(self) if how.get("simultaneous") else level
        ends = [one.interval(each) for one in self.found]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])

    def _columns(self, level: float, simultaneous: bool | None) -> dict[str, Any]:
        low, high = self.interval(level, simultaneous=self._all(simultaneous))
        return {self.attribute: list(self.labels), "value": self.values, "low": low, "high": high}

    def to_dict(self, level: float = 0.95, *, simultaneous: bool | None = None) -> dict[str, Any]:
        rows = zip(self.labels, self.found, strict=True)
        return {
            "by": self.attribute,
            "level": level,
            "answers": [{"label": label, **one.to_dict(level)} for label, one in rows],
        }

    def shared_notes(self) -> list[str]:
        return []

    def text(self, level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        wide = max((len(label) for label in self.labels), default=0)
        rows = zip(self.labels, self.found, strict=True)
        return "\n".join(f"{label:>{wide}}  {one.text(level)}" for label, one in rows)

    def to_html(self, level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        low, high = self.interval(level, simultaneous=self._all(simultaneous))
        rows = [(self.attribute, "quantile", f"{percent(level)} interval")]
        for label, one, *ends in zip(self.labels, self.found, low, high, strict=True):
            rows.append((label, one.shown(), " to ".join(map(plain, ends))))
        return table(rows)
