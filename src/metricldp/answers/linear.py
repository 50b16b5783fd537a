"""Linear answers: a whole workload of questions about one attribute, W c for its counts c.

With the other attributes of a group of people read, sums of the features of the open attribute
are all that its questions need. The values of all rows follow from the decoded frequencies at once,
and the error of a row from its decoder, a few rows at a time: W is never written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import overload

import numpy as np

from metricldp.answers.answer import Estimate
from metricldp.answers.by import bars_of
from metricldp.answers.estimate import RESPONDENTS, to_answers
from metricldp.answers.liars import Lie, one_report
from metricldp.answers.predict import possible_sum, variance_bounds
from metricldp.answers.queries import Query, asked_of
from metricldp.estimate.table import EstimateTable, Grouping
from metricldp.mechanisms import Floats
from metricldp.mechanisms.workloads import Words, Workload
from metricldp.store.base import Sums
from metricldp.store.readings import MAX_ROWS_TOGETHER, Readings, chunks, read_one
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
    target: str = RESPONDENTS
    layout: str = ""

    @cached_property
    def inside(self) -> Floats:
        """Which positions of the attribute itself belong to the group."""
        whole = np.ones(self.survey.channels[self.attribute].size)
        return np.asarray(self.group.functions.get(self.attribute, whole))

    @property
    def linear(self) -> bool:
        """Whether the values of all functions follow from the frequencies."""
        return self.survey.channels[self.attribute].moments.is_linear

    @cached_property
    def frequencies(self) -> Floats:
        """The estimated count of the group at each position."""
        return (
            self.survey.channels[self.attribute].moments.frequencies(self.sums["value"][0])
            * self.inside
        )

    def answers(self, functions: Floats, words: Sequence[str]) -> list[Estimate]:
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
        steps = readings.extremes().times(self.rest.extremes())
        return to_answers(
            found, bounds, steps, self.n, asked, target=self.target, layout=self.layout
        )


@dataclass(frozen=True, eq=False)
class Apart:
    """The same for an attribute that is blurred together with others: a question for each function.

    `ask` answers queries; there are no sums of features that any function could be read from.
    """

    survey: Agreement
    attribute: str
    group: Query
    ask: Callable[[Sequence[Query]], list[Estimate]]

    def answers(self, functions: Floats, words: Sequence[str]) -> list[Estimate]:
        inside = self.group.functions.get(self.attribute, 1.0)
        queries = [
            replace(self.group, factors={**self.group.factors, self.attribute: f * inside}, words=w)
            for f, w in zip(functions, words, strict=True)
        ]
        return self.ask(queries)


class WorkloadRows(Sequence[Estimate]):
    """The estimate of every row of a workload, in its order; errors are computed when asked for."""

    def __init__(self, workload: Workload, profile: Profile | Apart) -> None:
        self.workload, self.profile = workload, profile

    def __len__(self) -> int:
        return self.workload.rows

    @overload
    def __getitem__(self, place: int) -> Estimate: ...

    @overload
    def __getitem__(self, place: slice) -> list[Estimate]: ...

    def __getitem__(self, place: int | slice) -> Estimate | list[Estimate]:
        if isinstance(place, slice):
            rows = range(*place.indices(len(self)))
            return [one for some in chunks(rows, MAX_ROWS_TOGETHER) for one in self._block(some)]
        return self._block([range(len(self))[place]])[0]

    def __iter__(self) -> Iterator[Estimate]:
        for start in range(0, len(self), MAX_ROWS_TOGETHER):
            yield from self[start : start + MAX_ROWS_TOGETHER]

    @cached_property
    def values(self) -> Floats:
        """All estimates at once."""
        if isinstance(self.profile, Profile) and self.profile.linear:
            return self.workload.answers(self.profile.frequencies)
        parts = (
            self._computed(start, min(start + MAX_ROWS_TOGETHER, len(self)))
            for start in range(0, len(self), MAX_ROWS_TOGETHER)
        )
        return np.array([one.value for part in parts for one in part])

    @cached_property
    def words(self) -> Words:
        """How the rows are labelled, in the attribute's own words."""
        described = self.profile.survey.attributes[self.profile.attribute]
        return Words(described.label, described.until)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes that all rows have."""
        return self.profile.group.notes

    def _block(self, rows: Sequence[int]) -> list[Estimate]:
        start, stop = rows[0], rows[-1] + 1
        found = self._computed(start, stop)
        values = self.values[start:stop].tolist()
        every = [replace(one, value=value) for one, value in zip(found, values, strict=True)]
        return [every[row - start] for row in rows]

    def _computed(self, start: int, stop: int) -> list[Estimate]:
        """Estimates from the decoder of each row."""
        rows = self.workload.rows_block(start, stop)
        labels = [self.workload.label(start + row, self.words) for row in range(len(rows))]
        words = asked_of(self.profile.attribute, labels, self.profile.group)
        counting = ((rows == 0) | (rows == 1)).all(axis=1).tolist()
        return [
            replace(
                one,
                unit="people" if counts else "weighted people",
                lie=self._lie(row),
                survey=self.profile.survey,
                possible=possible_sum(self._functions(row), one.reports),
            )
            for one, counts, row in zip(
                self.profile.answers(rows, words), counting, rows, strict=True
            )
        ]

    def _functions(self, row: Floats) -> dict[str, Floats]:
        group = self.profile.group.functions
        return {**group, self.profile.attribute: row * group.get(self.profile.attribute, 1.0)}

    def _lie(self, row: Floats) -> Lie:
        return partial(one_report, self.profile.survey, self._functions(row))


class RowLabels(Sequence[str]):
    """The labels of the rows of a workload, made when asked for."""

    def __init__(self, workload: Workload, words: Words) -> None:
        self._workload, self._words = workload, words

    def __len__(self) -> int:
        return self._workload.rows

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._workload.label(k, self._words) for k in range(*place.indices(len(self)))]
        return self._workload.label(range(len(self))[place], self._words)

    def __iter__(self) -> Iterator[str]:
        return iter(self._workload.labels(self._words))


def workload_table(workload: Workload, profile: Profile | Apart, among: str = "") -> EstimateTable:
    """The estimates of a workload as a table; `among` states the condition in its label."""
    rows = WorkloadRows(workload, profile)
    name = profile.attribute
    if workload.row_per_value:
        grouping = bars_of(profile.survey.attributes[name], name).grouping
    else:
        labels = RowLabels(workload, rows.words)
        grouping = Grouping(name, labels, labels)
    return EstimateTable([grouping], rows, label=f"workload over {name}{among}")
