"""Least squares on what people reported: coefficients, predictions and R^2, with their errors.

Moments are decoded without bias; so noise in a predictor does not pull its coefficient towards
zero, as it would if reports were taken for values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from metricldp.answers.answer import Estimate, normal_reach
from metricldp.answers.comparisons import p_text
from metricldp.answers.conditions import Where
from metricldp.answers.least_squares import Fitting, columns_for
from metricldp.answers.moments import numeric
from metricldp.answers.smooth import People, Tallied
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown, table
from metricldp.estimate.display import percent
from metricldp.estimate.table import EstimateTable, Grouping
from metricldp.mechanisms import Floats
from metricldp.store.readings import attribute_of

NOTE = "moments are estimated without bias, so noise in predictors does not attenuate coefficients"


@dataclass(frozen=True, eq=False)
class Regression:
    """A linear regression by least squares."""

    outcome: str
    coefficients: EstimateTable
    """Estimates by label: "intercept", the name of a numeric predictor, or "region: south" for a
    level of a categorical predictor, compared with the level in `base`."""
    covariances: Floats
    """Of the coefficients, in their order."""
    base: Mapping[str, str]
    """The reference level of each categorical predictor."""
    target: str
    n: int
    question: str
    notes: tuple[str, ...]
    _fitting: Fitting = field(repr=False)

    @cached_property
    def r_squared(self) -> Estimate:
        """The fraction of the outcome's variance that the predictors explain."""
        return self._fitting.r_squared()

    def __getitem__(self, label: str) -> Estimate:
        found: Estimate = self.coefficients[label]
        return found

    def to_text(self, confidence_level: float = 0.95) -> str:
        """A table of the coefficients with p-values, and R^2 below it."""
        normal_reach(confidence_level)  # rejects a level that is not between 0 and 1
        header = ("", "coefficient", "SE", f"{percent(confidence_level)} CI", "p-value")
        rows: list[tuple[str, ...]] = [header]
        for label, one in self.coefficients:
            display = one.display(confidence_level)
            p = p_text(one.pvalue())
            rows.append((label, display.value, display.stderr, display.interval, p))
        against = [f"{base} is the reference level of {k}" for k, base in self.base.items()]
        r_squared = f"R^2 {self.r_squared.to_text(confidence_level)}"
        title = f"{self.question}, for the {self.target}"
        return "\n".join([title, table(rows), r_squared, *against, *self.notes])

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            **self.coefficients.to_dict(confidence_level),
            "label": self.question,
            "outcome": self.outcome,
            "base": dict(self.base),
            "pvalues": [one.pvalue() for _, one in self.coefficients],
            "covariances": self.covariances.tolist(),
            "r_squared": self.r_squared.to_dict(confidence_level),
            "notes": list(self.notes),
        }

    def to_pandas(self, confidence_level: float = 0.95) -> Any:
        """A row for each coefficient."""
        return self.coefficients.to_pandas(confidence_level)


def regression(
    tally: Tallied,
    outcome: str,
    predictors: Sequence[str],
    where: Where | None,
    base: Mapping[str, str] | None,
    target: str,
) -> Regression:
    """Least squares of an attribute on others, over the people of a where-clause."""
    attribute_of(tally.survey, outcome)
    names = _checked(predictors, outcome)
    for name in names:
        attribute_of(tally.survey, name)
    if base is not None and not isinstance(base, Mapping):
        raise QueryError(f'a base is a dict such as {{"region": "north"}}, not {shown(base)}')
    people = People.of(tally, where, target, [outcome, *names])
    columns, bases, notes = columns_for(people, names, base)
    y = numeric(people, outcome)
    if y.binned:
        notes.append(f"{outcome} is taken at the middle of its bins, and so is the regression")
    elif y.step:
        notes.append(
            f"{outcome} is rounded at random; R^2 assumes that it is uniform between points"
        )
    fitting = Fitting(people, y, tuple(columns))
    return _result(fitting, bases, tuple(dict.fromkeys(notes)))


def _result(fitting: Fitting, bases: dict[str, str], notes: tuple[str, ...]) -> Regression:
    people, back = fitting.people, fitting.back()
    names = list(dict.fromkeys(column.name for column in fitting.columns if column.name))
    question = f"{fitting.y.name} by {', '.join(names)}{people.group.among}"
    answers = [
        fitting.combination(
            row,
            f"{column.label} of {question}",
            f"{fitting.y.name} per {column.name}"
            if column.label == column.name
            else fitting.y.name,
        )
        for row, column in zip(back, fitting.columns, strict=True)
    ]
    moves = back @ fitting.moves
    labels = [column.label for column in fitting.columns]
    return Regression(
        fitting.y.name,
        EstimateTable([Grouping("coefficient", labels, labels)], answers, label=question),
        moves @ fitting.shared @ moves.T,
        bases,
        people.target,
        people.tally.n,
        question,
        (*people.group.notes, *notes, NOTE),
        fitting,
    )


def _checked(predictors: Any, outcome: str) -> list[str]:
    if isinstance(predictors, str) or not isinstance(predictors, Sequence) or not len(predictors):
        example = '["age", "region"]'
        raise QueryError(f"predictors are a list of attributes, {example}, not {shown(predictors)}")
    names = list(predictors)
    for place, name in enumerate(names):
        if name == outcome:
            raise QueryError(f"{shown(name)} is the outcome; leave it out of the predictors")
        if name in names[:place]:
            raise QueryError(f"the predictor {shown(name)} is named twice; leave one out")
    return names
