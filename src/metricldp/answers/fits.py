"""Fits: a distribution of people under which the reports are likely, asked like a tally.

Unbiased sums multiply noise over attributes and do not know that no cell holds fewer than nobody. A
fit does, so its numbers are nearer to the truth where noise is large. It is biased for that, and
nothing is guaranteed of it; every answer says so, and has the interval of the unbiased answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from metricldp.answers.answer import Estimate
from metricldp.answers.by import bars_of, edges_for
from metricldp.answers.circular import CircularMean, mean_direction
from metricldp.answers.conditions import Where, all_of
from metricldp.answers.estimate import RESPONDENTS
from metricldp.answers.fitted import Fitted, FittedCdf, FittedQuantile, FittedRows
from metricldp.answers.grouped import WithQuantiles
from metricldp.answers.likelihood import Shares
from metricldp.answers.linear import WorkloadRows
from metricldp.answers.maximise import Axes, Progress, closure, ladder, one_thread_each
from metricldp.answers.observed import Axis, axes_of, observed
from metricldp.answers.queries import Query, parse, workload_for
from metricldp.answers.searches import checked_all
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import lazy
from metricldp.basics.text import listed, shown
from metricldp.estimate.table import EstimateTable
from metricldp.mechanisms import Floats
from metricldp.mechanisms.workloads import Workload
from metricldp.store.base import Store
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

MOST_JOINT = 3
"""Attributes up to which the joint distribution is fitted; beyond, all pairs of them."""
Tallied = Any
"""A tally, which knows this file and is not known to it; or several that are asked as one."""


class Fit(WithQuantiles):
    """How people are spread over some attributes, estimated from reports; biased."""

    def __init__(self, tally: Tallied, axes: Sequence[Axis], shares: Shares) -> None:
        self._tally = tally
        self.attributes = tuple(name for axis in axes for name in axis.attributes)
        """In the order of the axes of `shares`."""
        sizes = tuple(size for axis in axes for size in axis.sizes)
        self.shares: Shares = np.asarray(shares.reshape(sizes), dtype=np.float64)
        """The share of people in every combination of values: 0 or more, in sum 1."""

    @property
    def survey(self) -> Agreement:
        return cast(Agreement, self._tally._described)

    @property
    def n(self) -> int:
        """How many people reported."""
        return int(self._tally.n)

    def __repr__(self) -> str:
        over = " x ".join(self.attributes)
        return f"<Fit over {over} of {self.n:,} reports: biased, no guarantee>"

    # Questions -----------------------------------------------------------------------------------

    @property
    def _described(self) -> Agreement:
        return self.survey

    def _count(self, where: Where | None, target: str) -> Estimate:
        found = self._sum(self._parsed(where))
        return Fitted.of(found, self._tally.count(where, target=target))

    def _fraction(self, where: Where | None, among: Where, target: str) -> Estimate:
        both, whole = (
            self._parsed(among if where is None else all_of(where, among)),
            self._parsed(among),
        )
        size = self._sum(whole)
        if not size > 0:
            raise self._empty(whole)
        unbiased = self._tally.fraction(where, among=among, target=target)
        return Fitted.of(self._sum(both) / size, unbiased)

    def _sum_of(self, attribute: str, where: Where | None, target: str) -> Estimate:
        values, group = self._valued(attribute, where)
        found = float(self._profile(attribute, group) @ values)
        return Fitted.of(found, self._tally.sum(attribute, where, target=target))

    def _mean_of(self, attribute: str, where: Where | None, target: str) -> Estimate:
        described = self._held(attribute)
        if described.is_cyclic and not described.named:
            return self._circular_mean(attribute, where, target)
        values, group = self._valued(attribute, where)
        profile = self._profile(attribute, group)
        found = float(profile @ values) / self._size(profile, group)
        return Fitted.of(found, self._tally.mean(attribute, where, target=target))

    def _circular_mean(self, attribute: str, where: Where | None, target: str) -> Fitted:
        profile = self._profile(attribute, self._parsed(where, attribute))
        unbiased: CircularMean = self._tally.mean(attribute, where, target=target)
        value = mean_direction(profile, self._held(attribute).circle(attribute))
        fitted = Fitted.of(unbiased.nearest(value), unbiased)
        return replace(fitted, value=unbiased.wrapped(fitted.value))

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        bins: int | Sequence[float] | None = None,
        target: str = RESPONDENTS,
    ) -> EstimateTable:
        """A count for every value of an attribute, or for bins between edges."""
        described = self._held(attribute)
        profile = self._profile(attribute, self._parsed(where, attribute))
        unbiased = self._tally.histogram(attribute, where, bins=bins, target=target)
        bars = bars_of(described, attribute, edges_for(described, attribute, bins))
        values = [float(profile @ bar.inside) for bar in bars.chosen]
        return EstimateTable(unbiased.groupings, _fitted(values, unbiased), label=unbiased.label)

    def cdf(
        self, attribute: str, where: Where | None = None, *, target: str = RESPONDENTS
    ) -> FittedCdf:
        """The share of the people at or below every value, with the unbiased band."""
        self._held(attribute)
        group = self._parsed(where, attribute)
        unbiased = self._tally.cdf(attribute, where, target=target)
        profile = self._profile(attribute, group)
        shares = np.cumsum(profile[list(unbiased.positions)]) / self._size(profile, group)
        return FittedCdf(unbiased, np.append(np.minimum(shares[:-1], 1.0), 1.0))

    def quantiles(
        self,
        attribute: str,
        probabilities: Iterable[float],
        where: Where | None = None,
        *,
        target: str = RESPONDENTS,
    ) -> list[FittedQuantile]:
        """Several quantiles of the same people."""
        asked = checked_all(probabilities, "isotonic")
        shares = self.cdf(attribute, where, target=target)
        return [shares.quantile(p) for p in asked]

    def workload(
        self,
        attribute: str,
        matrix: Workload | str | ArrayLike,
        where: Where | None = None,
        *,
        target: str = RESPONDENTS,
    ) -> EstimateTable:
        """A whole workload of linear queries: for each row, its sum over the group."""
        self._held(attribute)
        asked = workload_for(self.survey, attribute, matrix)
        profile = self._profile(attribute, self._parsed(where, attribute))
        table = self._tally.workload(attribute, asked, where, target=target)
        values, unbiased = asked.answers(profile), table._estimates
        rows = (
            FittedRows(unbiased, values)
            if isinstance(unbiased, WorkloadRows)
            else _fitted(values.tolist(), table)  # of several tallies
        )
        return EstimateTable(table.groupings, rows, label=table.label)

    # Sums over cells -----------------------------------------------------------------------------

    def values(self, functions: Mapping[str, Floats]) -> Floats:
        """The sums over people of many products of functions, (k, size) for each attribute.

        Values alone, for simulations; all other queries have the unbiased estimate beside them.
        """
        count = len(next(iter(functions.values())))
        rows = ({name: rows[k] for name, rows in functions.items()} for k in range(count))
        return np.array([self.n * float(self._over(row)) for row in rows])

    def _parsed(self, where: Where | None, attribute: str | None = None) -> Query:
        query = parse(self.survey, where, attribute)
        for name in query.factors:
            self._held(name)
        return query

    def _held(self, name: str) -> Attribute:
        described = attribute_of(self.survey, name)
        if name not in self.attributes:
            raise QueryError(
                f"the fit is over {listed(self.attributes)}, and {shown(name)} is not among them; "
                "name it in fit_distribution(...) as well, or query the tally"
            )
        return described

    def _valued(self, attribute: str, where: Where | None) -> tuple[Floats, Query]:
        if attribute_of(self.survey, attribute).is_weight:
            raise QueryError(
                f"{attribute} is a weight, which has no fitted distribution; query the tally "
                "for its sum"
            )
        values, _ = self._held(attribute).numbers(attribute)
        return values, self._parsed(where, attribute)

    def _profile(self, attribute: str, group: Query) -> Floats:
        """How many people of the group are at each position of one attribute."""
        functions = dict(group.functions)
        inside = functions.pop(attribute, 1.0)
        return np.asarray(self.n * self._over(functions, attribute) * inside)

    def _sum(self, query: Query) -> float:
        return float(self.n * self._over(query.functions))

    def _over(self, functions: Mapping[str, Floats], left: str | None = None) -> Any:
        """The cells summed up with a function of each attribute, or 1; one may be left open."""
        found = self.shares
        for axis, name in reversed(list(enumerate(self.attributes))):
            if name in functions:
                found = np.tensordot(found, functions[name], (axis, 0))
            elif name != left:
                found = found.sum(axis=axis)
        return found

    def _size(self, profile: Floats, group: Query) -> float:
        size = float(profile.sum())
        if not size > 0:
            raise self._empty(group)
        return size

    def _empty(self, group: Query) -> QueryError:
        return QueryError(
            f"the fitted distribution has no respondents among {group.words}; use a larger group"
        )


def _fitted(values: Sequence[float], unbiased: EstimateTable) -> list[Fitted]:
    return [Fitted.of(value, one) for value, one in zip(values, unbiased._estimates, strict=True)]


# Making one


def fit(tally: Tallied, attributes: object, *, progress: Progress = lambda done: None) -> Fit:
    """A fit of a tally's reports over some attributes; see `Tally.fit_distribution`."""
    axes = axes_of(tally.survey, attributes)
    check_progress(progress)
    if not tally.n:
        raise QueryError("there are no reports to fit a distribution to")
    with one_thread_each():
        if len(axes) > MOST_JOINT:
            return _paired(tally, axes, progress)
        return Fit(tally, axes, ladder(observed(tally.store, axes), progress).shares)


def check_progress(progress: object) -> None:
    if not callable(progress):
        raise QueryError(
            f"progress= is a function of the completed fraction, not {shown(progress)}"
        )


def _paired(tally: Tallied, axes: Sequence[Axis], progress: Progress) -> Fit:
    """All pairs, and the distribution of largest entropy that has them."""
    store: Store = tally.store
    every = list(combinations(range(len(axes)), 2))
    pairs = dict[Axes, Shares]()
    for place, (a, b) in enumerate(every):
        pairs[a, b] = ladder(observed(store, [axes[a], axes[b]])).shares
        progress((place + 1) / (len(every) + 1))
    shares = closure(pairs, tuple(axis.size for axis in axes))
    progress(1.0)
    return Fit(tally, axes, shares)
