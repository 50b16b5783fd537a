"""Errors that a design implies for estimates, before any report is collected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.answers.answer import normal_reach
from metricldp.answers.conditions import Where
from metricldp.answers.liars import one_report
from metricldp.answers.predict import predicted, predicted_total
from metricldp.answers.queries import Query, expected, if_answered, parse, workload_for
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import shown
from metricldp.mechanisms import Floats
from metricldp.reports.files import read_positions
from metricldp.survey.agreement import Agreement
from metricldp_core.random_words import FRACTION_BITS

MOST_RESPONDENTS = 10**15
_PRIORS = {"uniform": "uniform values", "worst": "the worst case"}


@dataclass(frozen=True)
class ExpectedError:
    """The error that a design implies for an estimate, before any report is collected."""

    stderr: float
    """Standard error, in `unit`."""
    unit: str
    """Unit of the estimate, such as people."""
    prior: str = "uniform values"
    """How values are distributed, in words."""
    n: int | None = None
    """The number of respondents, if the estimate is a count of some of them."""

    def margin(self, confidence_level: float = 0.95) -> float:
        """Half of the width of a normal confidence interval."""
        return normal_reach(confidence_level) * self.stderr

    def __str__(self) -> str:
        n = self.n or math.inf
        percentage = f", {_digits(100 * self.stderr / n, 2)}% of n" if self.n else ""
        note = "; the SE is above n: use more respondents" if n < self.stderr else ""
        margin = f"95% margin of error {_digits(self.margin())}"
        error = f"SE {_digits(self.stderr)} {self.unit}{percentage} ({margin})"
        return f"{error}, for {self.prior}{note}"


def _digits(number: float, count: int = 4) -> str:
    """A number with some significant digits and without an exponent."""
    return f"{float(f'{number:.{count}g}'):,.15g}"


def expected_error(
    survey: Agreement,
    where: Where | None,
    n: Any,
    prior: Any,
    weights: Any = None,
    attribute: Any = None,
    workload: Any = None,
) -> ExpectedError:
    """The error of a count, of the sum of a weight, or of the rows of a workload."""
    n, prior, weights = expected(n, prior, weights)
    words = "the given prior" if not isinstance(prior, str) else _PRIORS.get(prior, prior)
    if attribute is None and workload is None:
        query = parse(survey, where, next(iter(weights or ()), None))
        error = predicted(survey, query, n, prior, weights)
        return ExpectedError(error, "people", words, None if weights else n)
    if attribute is None or workload is None:
        raise QueryError("the expected error of a workload needs both, attribute= and workload=")
    empty = where is None or (isinstance(where, Mapping) and not where)
    if weights or not empty:
        raise QueryError("the expected error of a workload takes no where and no weights")
    rows = workload_for(survey, attribute, workload)
    error = math.sqrt(predicted_total(survey, attribute, rows, n, prior) / rows.rows)
    return ExpectedError(error, "people", words)


def typical_errors(survey: Agreement, n: Any) -> dict[str, dict[str, Any]]:
    """For each attribute the error of one count, of the lower half or of the first value.

    `poisoning` is the largest change of the count by one malicious report.
    """
    if not is_whole(n) or not 1 <= n <= MOST_RESPONDENTS:
        raise QueryError(
            f"n is the number of respondents, a whole number from 1 to {MOST_RESPONDENTS:,}, "
            f"not {shown(n)}"
        )
    errors = {}
    for name, attribute in survey.asked.items():
        if attribute.is_public:
            continue
        last = (attribute.size + 1) // 2 - 1 if attribute.ordered else 0
        indicator = (np.arange(attribute.size) <= last).astype(float)
        query = Query({name: indicator, **if_answered(survey, name)}, name)
        low, high = one_report(survey, query.functions)
        errors[name] = {
            "where": attribute.label(0, last),
            "stderr_uniform": predicted(survey, query, int(n), "uniform"),
            "stderr_worst": predicted(survey, query, int(n), "worst"),
            "poisoning": high - low,
        }
    return errors


def prior_in_file(
    survey: Agreement, names: Sequence[str], path: str | Path, *, clip: bool = False
) -> dict[str, Floats]:
    """A prior for these attributes: how often each value occurs in a file of public data.

    For a group such as "east+north" the prior of each of its attributes; and with an attribute
    those that are randomized jointly with it.
    """
    members = [m for n in names for m in (survey.blocks[n].names if n in survey.blocks else [n])]
    groups = [group for group in map(survey.block_of, members) if group is not None]
    members += [name for group in groups for name in group.names]
    attributes = {
        name: a for name, a in survey.attributes.items() if name in members and not a.asks_whether
    }
    if not attributes:
        raise QueryError("a prior from a file is for attributes, and the query has none")
    prior = {}
    for name, positions in read_positions(attributes, path, clip=clip).items():
        parts = 1 << FRACTION_BITS if attributes[name].rounded_at_random else 1
        nearest = np.rint(positions / parts).astype(np.int64)
        counts = np.bincount(nearest, minlength=attributes[name].size)
        prior[name] = counts.astype(np.float64)
    return prior
