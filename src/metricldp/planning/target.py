"""The error that a query may have, and the expected error of surveys before collection.

Errors of counts and fractions are exact (answers/predict.py). The error of a mean is that of the
delta method: the error of the sum of deviations from the mean, over the expected size of the group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from metricldp.answers.answer import normal_reach
from metricldp.answers.conditions import Where
from metricldp.answers.predict import mean, predicted, shares_of
from metricldp.answers.queries import EVERYBODY, Query, expected, parse, valued
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, plain, shown
from metricldp.estimate.display import percent
from metricldp.mechanisms import Floats
from metricldp.store.readings import attribute_of, involved
from metricldp.survey.agreement import Agreement

COUNT, FRACTION, MEAN = QUERIES = ("count", "fraction", "mean")
WORST, UNIFORM = "worst", "uniform"


@dataclass(frozen=True, eq=False)
class Target:
    """A query and the largest error that it may have."""

    query: str
    where: Where | None
    attribute: str | None
    """The attribute of a mean."""
    error: float
    """Of a count in people, of a fraction between 0 and 1, of a mean in the attribute's unit."""
    confidence_level: float | None
    """The error is half of the width of this confidence interval; None: the standard error."""
    prior: Any

    def __post_init__(self) -> None:
        if not isinstance(self.query, str) or self.query not in QUERIES:
            known = f"count, fraction or mean, not {shown(self.query)}"
            raise QueryError(f"query is {known}{guess(self.query, QUERIES)}")
        if not is_number(self.error) or not 0 < self.error < math.inf:
            raise QueryError(f"target_error is a number above 0, not {shown(self.error)}")
        if self.query == FRACTION and self.error >= 1:
            raise QueryError(
                f"a fraction is between 0 and 1, so a target_error of {plain(self.error)} is too "
                "large; 2 percentage points are 0.02"
            )
        if (self.attribute is not None) != (self.query == MEAN):
            raise QueryError("attribute= names the attribute of a mean, with query='mean' only")
        if self.attribute is not None and not isinstance(self.attribute, str):
            raise QueryError(f"attribute is the name of an attribute, not {shown(self.attribute)}")
        if self.confidence_level is not None:
            normal_reach(self.confidence_level)
        object.__setattr__(self, "error", float(self.error))
        object.__setattr__(self, "prior", expected(1, self.prior, None)[1])

    def names(self, survey: Agreement) -> list[str]:
        """The attributes that the error depends on, in the survey's order."""
        of = () if self.attribute is None else (self.attribute,)
        parts = set(involved(survey, {*self._group(survey).factors, *of}))
        groups = [group.names for group in survey.blocks.values() if group.name in parts]
        parts |= {name for names in groups for name in names}
        sources = {a.source(name) for name, a in survey.attributes.items() if name in parts}
        return [name for name in survey.asked if name in sources]

    def words(self, survey: Agreement) -> str:
        among = self._group(survey).words
        if self.query == MEAN:
            return f"the mean of {self.attribute}{'' if among == EVERYBODY else f' among {among}'}"
        what = "number" if self.query == COUNT else "fraction"
        return f"the {what} of respondents with {among}"

    def notes(self, survey: Agreement) -> tuple[str, ...]:
        """The notes of the query, such as that values are taken at the middle of their bins."""
        if self.query != MEAN:
            return self._group(survey).notes
        return valued(survey, str(self.attribute), self._group(survey))[0][0].notes

    @property
    def assumption(self) -> str:
        if self.is_worst:
            return "for any distribution of values"
        return f"for {'uniform values' if isinstance(self.prior, str) else 'the given prior'}"

    @property
    def measure(self) -> str:
        """What the error is."""
        if self.confidence_level is None:
            return "standard error"
        return f"{percent(self.confidence_level)} margin of error"

    @property
    def unit(self) -> str:
        return {COUNT: "people", FRACTION: "percentage points"}.get(self.query, "")

    def digits(self, error: float) -> str:
        """An error in its unit with three digits."""
        return plain(float(f"{error * (100 if self.query == FRACTION else 1):.3g}"))

    def shown(self, error: float) -> str:
        return f"{self.digits(error)} {self.unit}".rstrip()

    # Errors --------------------------------------------------------------------------------------

    def error_of(self, survey: Agreement, n: int) -> float:
        """The expected error for n respondents, as `error` is meant."""
        if self.confidence_level is None:
            return self.stderr(survey, n)
        return normal_reach(self.confidence_level) * self.stderr(survey, n) + self.bias(survey)

    def is_met(self, survey: Agreement, n: int) -> bool:
        return self.error_of(survey, n) <= self.error

    def stderr(self, survey: Agreement, n: int) -> float:
        """The expected standard error for n respondents."""
        if self.query != MEAN:
            error = predicted(survey, self._group(survey), n, self.prior)
            return error if self.query == COUNT else error / n
        query, group = self._mean(survey)
        size, inside = self.group_size(survey), group.functions.get(str(self.attribute), 1.0)
        center = 0.0 if self.is_worst else self._expected(survey, query) / size
        deviations = query.functions[str(self.attribute)] - center * inside
        above = replace(query, factors={**query.factors, str(self.attribute): deviations})
        return predicted(survey, above, n, self.prior) / (n * size)

    def bias(self, survey: Agreement) -> float:
        """By how much a mean can be off because values are known up to their bins."""
        if self.query != MEAN:
            return 0.0
        name = str(self.attribute)
        queries, _ = valued(survey, name, self._group(survey))
        if len(queries) == 1:
            return 0.0
        low, high = (query.functions[name] for query in queries[1:])
        if self.is_worst:
            return float((high - low).max()) / 2
        widths = replace(queries[0], factors={**queries[0].factors, name: high - low})
        return self._expected(survey, widths) / self.group_size(survey) / 2

    def group_size(self, survey: Agreement) -> float:
        """The fraction of respondents in the group of a mean."""
        size = 1.0 if self.is_worst else self._expected(survey, self._group(survey))
        if size <= 0:
            raise QueryError(f"the prior has no respondents with {self._group(survey).words}")
        return size

    def group_size_error(self, survey: Agreement, n: int) -> float:
        """The relative standard error of the size of the group of a mean."""
        group = self._group(survey)
        if self.query != MEAN or not group.factors:
            return 0.0
        return predicted(survey, group, n, self.prior) / (n * self.group_size(survey))

    @cached_property
    def is_worst(self) -> bool:
        return isinstance(self.prior, str) and self.prior == WORST

    def _group(self, survey: Agreement) -> Query:
        if self.attribute is not None:
            attribute_of(survey, self.attribute)
        return parse(survey, self.where, self.attribute)

    def _mean(self, survey: Agreement) -> tuple[Query, Query]:
        queries, group = valued(survey, str(self.attribute), self._group(survey))
        if self.is_worst and group.factors:
            raise QueryError(
                "the error of the mean of a group depends on the size of the group; state a "
                "prior: 'uniform', or fractions for each attribute"
            )
        return queries[0], group

    def _expected(self, survey: Agreement, query: Query) -> float:
        """The mean of a query under the prior, if all optional attributes are responded to."""
        functions: dict[str, Floats] = {}
        for name, function in query.functions.items():
            given = isinstance(self.prior, Mapping) and name in self.prior
            if given or not survey.attributes[name].asks_whether:
                functions[name] = function
        sizes = {n: a.size for n, a in survey.attributes.items() if n in functions}
        return mean(shares_of(sizes, self.prior), [np.asarray(functions[name]) for name in sizes])
