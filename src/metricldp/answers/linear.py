"""Linear answers: a whole workload of questions about one attribute, W c for its counts c.

With the other attributes of a group of people read, sums of the features of the open attribute
are all that its questions need. The values of all rows follow from the decoded frequencies at once,
and the error of a row from its decoder, a few rows at a time: W is never written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from metricldp.answers.answer import Answer, normal_reach
from metricldp.answers.estimate import RESPONDENTS, to_answers
from metricldp.answers.predict import variance_bounds
from metricldp.answers.queries import Query
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess
from metricldp.channels import Channel, Floats
from metricldp.design.workloads import Workload
from metricldp.store.base import Sums
from metricldp.store.readings import TOGETHER, Readings, read_one
from metricldp.survey.agreement import Agreement


@dataclass(frozen=True, eq=False)
class Profile:
    """Sums over a group of people with one attribute left open: answers for any function of it."""

    survey: Agreement
    attribute: str
    group: Query
    rest: Readings
    """The other attributes of the group."""
    sums: Sums
    """Sums of every feature of the attribute times each row of those, (1, features)."""
    n: int
    about: str = RESPONDENTS
    layout: str = ""

    @cached_property
    def inside(self) -> Floats:
        """Which positions of the attribute itself belong to the group."""
        whole = np.ones(self.survey.channels[self.attribute].size)
        return np.asarray(self.group.functions.get(self.attribute, whole))

    @cached_property
    def frequencies(self) -> Floats:
        """The estimated count of the group at each position."""
        return self.survey.channels[self.attribute].cells(self.sums["value"][0]) * self.inside

    def answers(self, functions: Floats, words: Sequence[str]) -> list[Answer]:
        """The sum of each function (k, size) over the group."""
        readings = read_one(self.survey, self.attribute, functions * self.inside)
        (reading,) = readings.parts
        decoders = readings.named(reading.coefficients)
        found = {row: (by * self.sums[row]).sum(axis=1) for row, by in decoders.items()}
        asked = [(label, self.group.notes) for label in words]
        others = [
            (np.repeat(second, len(functions), axis=0), np.repeat(square, len(functions), axis=0))
            for second, square in self.rest.pairs()
        ]
        bounds = variance_bounds([*others, *readings.pairs()])
        return to_answers(found, bounds, self.n, asked, about=self.about, layout=self.layout)


@dataclass(frozen=True, eq=False)
class Linear(Sequence[Answer]):
    """An answer for every row of a workload, in its order; errors are found when asked for."""

    workload: Workload
    profile: Profile

    @cached_property
    def values(self) -> Floats:
        """The unbiased value of each row."""
        if self._channel.linear:
            return self.workload.answers(self.profile.frequencies)
        parts = (self._found(start, start + TOGETHER) for start in range(0, len(self), TOGETHER))
        return np.array([answer.value for part in parts for answer in part])

    @cached_property
    def stderr(self) -> Floats:
        """The standard error of each row, a few rows at a time."""
        found = np.empty(len(self))
        for start in range(0, len(self), TOGETHER):
            part = self._block(start, start + TOGETHER)
            found[start : start + TOGETHER] = [answer.stderr for answer in part]
        return found

    @property
    def labels(self) -> list[str]:
        """What each row asks for, in the attribute's own words."""
        return self.workload.labels(self._names)

    def __len__(self) -> int:
        return self.workload.rows

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        if isinstance(index, str):
            if index not in self._places:
                near = guess(index, self._places)
                raise QueryError(f"no row is called {index!r}{near}; `labels` has their names")
            index = self._places[index]
        row = int(index) + len(self) if index < 0 else int(index)
        if not 0 <= row < len(self):
            raise IndexError(f"the workload has rows 0 to {len(self) - 1}, not {index}")
        return self._block(row, row + 1)[0]

    def __iter__(self) -> Iterator[Answer]:
        for start in range(0, len(self), TOGETHER):
            yield from self._block(start, start + TOGETHER)

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """A table with a row for each row of the workload."""
        reach = normal_reach(level) * self.stderr
        return pa.table(
            {
                self.profile.attribute: self.labels,
                "value": self.values,
                "stderr": self.stderr,
                "low": self.values - reach,
                "high": self.values + reach,
            }
        )

    def __repr__(self) -> str:
        return f"<Linear answers to {len(self):,} questions about {self.profile.attribute}>"

    @cached_property
    def _names(self) -> list[str]:
        described = self.profile.survey.attributes[self.profile.attribute]
        return [described.name_of(position) for position in range(self.workload.size)]

    @property
    def _channel(self) -> Channel:
        return self.profile.survey.channels[self.profile.attribute]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {label: row for row, label in enumerate(self.labels)}

    def _block(self, start: int, stop: int) -> list[Answer]:
        values = self.values[start:stop].tolist()
        found = self._found(start, stop)
        return [replace(a, value=value) for a, value in zip(found, values, strict=True)]

    def _found(self, start: int, stop: int) -> list[Answer]:
        """Answers from the decoder of each row."""
        rows = self.workload.rows_block(start, stop)
        name, group = self.profile.attribute, self.profile.group.words
        among = "" if group == "everybody" else f" among {group}"
        numbers = range(start, start + len(rows))
        words = [f"{name} {self.workload.label(row, self._names)}{among}" for row in numbers]
        counting = ((rows == 0) | (rows == 1)).all(axis=1).tolist()
        return [
            replace(answer, unit="people" if counts else "weighted people")
            for answer, counts in zip(self.profile.answers(rows, words), counting, strict=True)
        ]
