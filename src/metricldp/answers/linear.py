"""Linear answers: a whole workload of questions about one attribute, W c for its counts c.

With the other attributes of a group of people read, sums of the features of the open attribute
are all that its questions need. The values of all rows follow from the decoded frequencies at once,
and the error of a row from its decoder, a few rows at a time: W is never written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import Answers
from metricldp.answers.estimate import RESPONDENTS, to_answers
from metricldp.answers.liars import Lie, one_report
from metricldp.answers.predict import variance_bounds
from metricldp.answers.queries import Query, asked_of
from metricldp.channels import Floats
from metricldp.design.workloads import Words, Workload
from metricldp.store.base import Sums
from metricldp.store.readings import MAX_ROWS_TOGETHER, Readings, read_one
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

    @property
    def linear(self) -> bool:
        """Whether the values of all functions follow from the frequencies."""
        return self.survey.channels[self.attribute].linear

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
        steps = readings.extremes().times(self.rest.extremes())
        return to_answers(found, bounds, steps, self.n, asked, about=self.about, layout=self.layout)


@dataclass(frozen=True, eq=False)
class Apart:
    """The same for an attribute that is blurred together with others: a question for each function.

    `ask` answers queries; there are no sums of features that any function could be read from.
    """

    survey: Agreement
    attribute: str
    group: Query
    ask: Callable[[Sequence[Query]], list[Answer]]

    def answers(self, functions: Floats, words: Sequence[str]) -> list[Answer]:
        inside = self.group.functions.get(self.attribute, 1.0)
        queries = [
            replace(self.group, factors={**self.group.factors, self.attribute: f * inside}, words=w)
            for f, w in zip(functions, words, strict=True)
        ]
        return self.ask(queries)


class Linear(Answers):
    """An answer for every row of a workload, in its order; errors are found when asked for."""

    def __init__(self, workload: Workload, profile: Profile | Apart) -> None:
        super().__init__(profile.attribute, (), ())
        self.workload, self.profile = workload, profile

    def __len__(self) -> int:
        return self.workload.rows

    @cached_property
    def labels(self) -> list[str]:
        """What each row asks for, in the attribute's own words."""
        return self.workload.labels(self._names)

    @cached_property
    def values(self) -> Floats:
        if isinstance(self.profile, Profile) and self.profile.linear:
            return self.workload.answers(self.profile.frequencies)
        parts = (
            self._found(start, start + MAX_ROWS_TOGETHER)
            for start in range(0, len(self), MAX_ROWS_TOGETHER)
        )
        return np.array([answer.value for part in parts for answer in part])

    @cached_property
    def _names(self) -> Words:
        described = self.profile.survey.attributes[self.attribute]
        return Words(described.label, described.until)

    def shared_notes(self) -> list[str]:
        return list(self.profile.group.notes)

    def _block(self, start: int, stop: int) -> list[Answer]:
        values = self.values[start:stop].tolist()
        found = self._found(start, stop)
        return [replace(a, value=value) for a, value in zip(found, values, strict=True)]

    def _found(self, start: int, stop: int) -> list[Answer]:
        """Answers from the decoder of each row."""
        rows = self.workload.rows_block(start, stop)
        labels = [self.workload.label(start + row, self._names) for row in range(len(rows))]
        words = asked_of(self.attribute, labels, self.profile.group)
        counting = ((rows == 0) | (rows == 1)).all(axis=1).tolist()
        answers = self.profile.answers(rows, words)
        return [
            replace(
                answer,
                unit="people" if counts else "weighted people",
                lie=self._lie(row),
                survey=self.profile.survey,
            )
            for answer, counts, row in zip(answers, counting, rows, strict=True)
        ]

    def _lie(self, row: Floats) -> Lie:
        group = self.profile.group.functions
        inside = group.get(self.attribute, 1.0)
        return partial(one_report, self.profile.survey, {**group, self.attribute: row * inside})
