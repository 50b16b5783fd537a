"""A wish: an answer and the error that it may have, asked of surveys that nobody has answered yet.

Errors are those of `predict.py`. That of a mean is the delta method's: the error of the sum of what
values are above the mean, over the expected size of the group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metricldp.answers.answer import normal_reach
from metricldp.answers.conditions import Where
from metricldp.answers.predict import mean, predicted, shares_of
from metricldp.answers.queries import EVERYBODY, Query, expected, parse, valued
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, plain, shown
from metricldp.channels import Floats
from metricldp.store.readings import attribute_of, involved
from metricldp.survey.agreement import Agreement

COUNT, FRACTION, MEAN = KINDS = ("count", "fraction", "mean")
INTERVAL, STDERR = MEASURES = ("interval", "stderr")
WORST, EVENLY = "worst", "uniform"


@dataclass(frozen=True, eq=False)
class Wish:
    """A question, the error wanted, and what is meant by an error."""

    kind: str
    where: Where | None
    attribute: str | None
    """What a mean is of."""
    error: float
    """Of a count in people, of a fraction between 0 and 1, of a mean in the attribute's unit."""
    measure: str = INTERVAL
    """"interval", half of the width of the interval; or "stderr", the standard error."""
    level: float = 0.95
    prior: Any = WORST

    def __post_init__(self) -> None:
        for what, said, known in (
            ("an answer", self.kind, KINDS),
            ("an error", self.measure, MEASURES),
        ):
            if not isinstance(said, str) or said not in known:
                choice = f"{', '.join(known[:-1])} or {known[-1]}"
                raise QueryError(f"{what} is {choice}, not {shown(said)}{guess(said, known)}")
        if not is_number(self.error) or not 0 < self.error < math.inf:
            raise QueryError(f"the error wanted is a number above 0, not {shown(self.error)}")
        if self.kind == FRACTION and self.error >= 1:
            raise QueryError(
                f"a fraction is between 0 and 1, so an error of {plain(self.error)} says nothing; "
                "two points are 0.02, or 2% on the command line"
            )
        object.__setattr__(self, "error", float(self.error))
        if (self.attribute is not None) != (self.kind == MEAN):
            told = "name the attribute to average" if self.kind == MEAN else "only a mean is of one"
            raise QueryError(f"a {self.kind} of attribute {shown(self.attribute)}: {told}")
        normal_reach(self.level)

    @classmethod
    def of(cls, survey: Agreement, kind: Any, where: Any, prior: Any, **said: Any) -> Wish:
        """With a prior: where none is said the worst, but of the mean of a group an even one."""
        wish = cls(kind, where, prior=EVENLY if prior is None else prior, **said)
        if prior is None and (kind != MEAN or not wish._group(survey).factors):
            wish = replace(wish, prior=WORST)
        return replace(wish, prior=expected(1, wish.prior, None)[1])

    def names(self, survey: Agreement) -> list[str]:
        """The attributes that its error depends on, in the survey's order."""
        about = () if self.attribute is None else (self.attribute,)
        found = set(involved(survey, {*self._group(survey).factors, *about}))
        found |= {
            name for block in survey.blocks.values() if block.name in found for name in block.names
        }
        sources = {a.source(name) for name, a in survey.attributes.items() if name in found}
        return [name for name in survey.asked if name in sources]

    def words(self, survey: Agreement) -> str:
        among = self._group(survey).words
        if self.kind == MEAN:
            return f"the mean of {self.attribute}" + (
                "" if among == EVERYBODY else f" among {among}"
            )
        return f"the {'number' if self.kind == COUNT else 'share'} of people with {among}"

    def notes(self, survey: Agreement) -> tuple[str, ...]:
        """What a question says of itself, such as that it is about the nearest edges of bins."""
        if self.kind != MEAN:
            return self._group(survey).notes
        return valued(survey, str(self.attribute), self._group(survey))[0][0].notes

    @property
    def spread(self) -> str:
        """Whom it holds for, in words."""
        if isinstance(self.prior, str) and self.prior == WORST:
            return "however people are spread"
        even = isinstance(self.prior, str)
        return f"if people are spread {'evenly' if even else 'as was given'}"

    @property
    def unit(self) -> str:
        """What its errors are in."""
        return {COUNT: "people", FRACTION: "points"}.get(self.kind, str(self.attribute))

    def digits(self, error: float) -> str:
        """An error in three digits; points are hundredths."""
        return plain(float(f"{error * (100 if self.kind == FRACTION else 1):.3g}"))

    def shown(self, error: float) -> str:
        """The same with its unit; an attribute's unit is not known."""
        digits = self.digits(error)
        if self.kind == MEAN:
            return digits
        unit = {"points": "point", "people": "person"}[self.unit] if digits == "1" else self.unit
        return f"{digits} {unit}"

    # Errors --------------------------------------------------------------------------------------

    def error_of(self, survey: Agreement, n: int) -> float:
        """What is promised of n people: in the measure that was asked for."""
        if self.measure == STDERR:
            return self.stderr(survey, n)
        return normal_reach(self.level) * self.stderr(survey, n) + self.open(survey)

    def met(self, survey: Agreement, n: int) -> bool:
        return self.error_of(survey, n) <= self.error

    def stderr(self, survey: Agreement, n: int) -> float:
        """The standard error that the theory predicts for n people."""
        if self.kind != MEAN:
            error = predicted(survey, self._group(survey), n, self.prior)
            return error if self.kind == COUNT else error / n
        query, group = self._asked(survey)
        size, inside = self.size(survey), group.functions.get(str(self.attribute), 1.0)
        among = 0.0 if self._worst else self._expected(survey, query) / size
        beyond = query.functions[str(self.attribute)] - among * inside
        above = replace(query, factors={**query.factors, str(self.attribute): beyond})
        return predicted(survey, above, n, self.prior) / (n * size)

    def open(self, survey: Agreement) -> float:
        """By how much bins leave a mean open, to each side."""
        if self.kind != MEAN:
            return 0.0
        queries, _ = valued(survey, str(self.attribute), self._group(survey))
        if len(queries) == 1:
            return 0.0
        low, high = (query.functions[str(self.attribute)] for query in queries[1:])
        if self._worst:
            return float((high - low).max()) / 2
        apart = replace(queries[0], factors={**queries[0].factors, str(self.attribute): high - low})
        return self._expected(survey, apart) / self.size(survey) / 2

    def size(self, survey: Agreement) -> float:
        """The share of people in the group of a mean."""
        found = 1.0 if self._worst else self._expected(survey, self._group(survey))
        if found <= 0:
            raise QueryError(f"the prior has nobody with {self._group(survey).words}")
        return found

    def size_error(self, survey: Agreement, n: int) -> float:
        """The standard error of the size of a mean's group, as a share of that size."""
        group = self._group(survey)
        if self.kind != MEAN or not group.factors:
            return 0.0
        return predicted(survey, group, n, self.prior) / (n * self.size(survey))

    @property
    def _worst(self) -> bool:
        return isinstance(self.prior, str) and self.prior == WORST

    def _group(self, survey: Agreement) -> Query:
        if self.attribute is not None:
            attribute_of(survey, self.attribute)
        return parse(survey, self.where, self.attribute)

    def _asked(self, survey: Agreement) -> tuple[Query, Query]:
        queries, group = valued(survey, str(self.attribute), self._group(survey))
        if self._worst and group.factors:
            raise QueryError(
                "the error of a group's mean hangs on how many it has; say how people are spread, "
                "evenly or by shares of each attribute"
            )
        return queries[0], group

    def _expected(self, survey: Agreement, query: Query) -> float:
        """The mean of a question over people spread as the prior says; all answer who may."""
        functions: dict[str, Floats] = {}
        for name, function in query.functions.items():
            told = isinstance(self.prior, Mapping) and name in self.prior
            if told or not survey.attributes[name].asks_whether:
                functions[name] = function
        sizes = {n: a.size for n, a in survey.attributes.items() if n in functions}
        return mean(shares_of(sizes, self.prior), [np.asarray(functions[name]) for name in sizes])
