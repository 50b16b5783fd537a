"""Queries that tallies, fits and pools have in common: of all respondents, or with `by=` of groups.

Each of them answers a query for one group; what `by=` returns follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, overload

from metricldp.answers.answer import Estimate, over
from metricldp.answers.by import By, Cells, cells
from metricldp.answers.conditions import Where, all_of
from metricldp.answers.estimate import RESPONDENTS
from metricldp.answers.quantiles import Quantile
from metricldp.answers.queries import parse_all
from metricldp.answers.ratio import Ratio
from metricldp.answers.searches import ISOTONIC, checked_all
from metricldp.basics.errors import QueryError
from metricldp.estimate.table import EstimateTable
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

_Query = Callable[[Any], Estimate]
"""The estimate of a group, from the condition that it meets."""


class Grouped:
    """Counts, fractions, sums and means of all respondents or, with `by`, of each group."""

    @property
    def n(self) -> int:
        """Number of reports."""
        raise NotImplementedError

    @property
    def _described(self) -> Agreement:
        """The survey that conditions and groups are read with."""
        raise NotImplementedError

    def _count(self, where: Any, target: str) -> Estimate:
        raise NotImplementedError

    def _fraction(self, where: Where | None, among: Any, target: str) -> Estimate:
        raise NotImplementedError

    def _sum_of(self, attribute: str, where: Any, target: str) -> Estimate:
        raise NotImplementedError

    def _mean_of(self, attribute: str, where: Any, target: str) -> Estimate:
        raise NotImplementedError

    def _planned_for_many(self, count: int) -> AbstractContextManager[None]:
        """What many queries of the same form share while they run."""
        return nullcontext()

    def _among(self, where: Where | None) -> str:
        """The condition that all groups of a table meet, for its label."""
        return "" if where is None else f" among {parse_all(self._described, where)[0].words}"

    def _label(self, what: str, attribute: str | None, groups: Cells, where: Where | None) -> str:
        """Of a table of groups, when the attribute has been checked."""
        of = "" if attribute is None else f" {attribute}"
        return f"{what}{of} by {groups.names}{self._among(where)}"

    def _by(
        self,
        by: By,
        where: Where | None,
        label: str,
        query: _Query,
        attribute: str | None = None,
    ) -> EstimateTable:
        """The same query for each group; layouts are planned once for all of them."""
        groups = cells(self._described, by, where, attribute)
        label = self._label(label, attribute, groups, where)
        with self._planned_for_many(len(groups.clauses)):
            return groups.table(where, label, query)

    def _counts_by(self, by: By, where: Where | None, target: str) -> EstimateTable:
        return self._by(by, where, "respondents", lambda g: self._count(g, target))

    @overload
    def count(
        self, where: Where | None = ..., *, by: None = ..., target: str = ...
    ) -> Estimate: ...

    @overload
    def count(self, where: Where | None = ..., *, by: By, target: str = ...) -> EstimateTable: ...

    def count(
        self, where: Where | None = None, *, by: By | None = None, target: str = RESPONDENTS
    ) -> Estimate | EstimateTable:
        """The number of respondents who meet a condition; with `by`, in each group."""
        return self._count(where, target) if by is None else self._counts_by(by, where, target)

    @overload
    def fraction(
        self,
        where: Where | None = ...,
        *,
        among: Where | None = ...,
        by: None = ...,
        target: str = ...,
    ) -> Estimate: ...

    @overload
    def fraction(
        self, where: Where | None = ..., *, among: Where | None = ..., by: By, target: str = ...
    ) -> EstimateTable: ...

    def fraction(
        self,
        where: Where | None = None,
        *,
        among: Where | None = None,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Estimate | EstimateTable:
        """The fraction of respondents who meet a condition; `among`: of those who meet another.

        A fraction among a group is a ratio of estimates, with Fieller's interval. With `by`, the
        fraction within each group.
        """
        if not self.n:
            raise QueryError("there are no reports, so there is no fraction")
        if by is not None:
            if where is None:
                raise QueryError("fraction(by=...) needs a condition")
            # Neither condition is about a group.
            cells(self._described, by, all_of(where, {} if among is None else among))
            label = f"fraction of {parse_all(self._described, where)[0].words}"
            return self._by(by, among, label, lambda g: self._fraction(where, g, target))
        if among is None:
            return self._count(where, target).scaled(1 / self.n, "of respondents")
        return self._fraction(where, among, target)

    @overload
    def sum(
        self, attribute: str, where: Where | None = ..., *, by: None = ..., target: str = ...
    ) -> Estimate: ...

    @overload
    def sum(
        self, attribute: str, where: Where | None = ..., *, by: By, target: str = ...
    ) -> EstimateTable: ...

    def sum(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Estimate | EstimateTable:
        """The sum of a numeric attribute or a weight; with `by`, in each group.

        In a pool bins may differ: then the interval covers every value of a bin.
        """
        if by is None:
            return self._sum_of(attribute, where, target)
        return self._by(
            by, where, "sum of", lambda g: self._sum_of(attribute, g, target), attribute
        )

    @overload
    def mean(
        self, attribute: str, where: Where | None = ..., *, by: None = ..., target: str = ...
    ) -> Estimate: ...

    @overload
    def mean(
        self, attribute: str, where: Where | None = ..., *, by: By, target: str = ...
    ) -> EstimateTable: ...

    def mean(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Estimate | EstimateTable:
        """The mean of a numeric attribute, with Fieller's interval; with `by`, in each group.

        For a cyclic attribute it is the circular mean.
        """
        if by is None:
            return self._noted_mean(attribute, where, target)
        query = partial(self._noted_mean, attribute, target=target)
        return self._by(by, where, "mean", query, attribute)

    def _noted_mean(self, attribute: str, where: Any, target: str) -> Estimate:
        """The mean; of an optional attribute with a note on how many respondents it is of."""
        mean = self._mean_of(attribute, where, target)
        if not isinstance(mean, Ratio) or not mean.estimable or mean.survey is None:
            return mean
        if attribute_of(mean.survey, attribute).optional is None:
            return mean
        return replace(mean, notes=(*mean.notes, over(mean.denominator)))


class WithQuantiles(Grouped):
    """The same queries, and quantiles."""

    def quantiles(
        self,
        attribute: str,
        probabilities: Iterable[float],
        where: Where | None = None,
        *,
        target: str = RESPONDENTS,
    ) -> list[Any]:
        """Several quantiles of the same group, in one pass."""
        raise NotImplementedError

    @overload
    def quantile(
        self,
        attribute: str,
        q: float = ...,
        where: Where | None = ...,
        *,
        by: None = ...,
        target: str = ...,
    ) -> Quantile: ...

    @overload
    def quantile(
        self,
        attribute: str,
        q: float = ...,
        where: Where | None = ...,
        *,
        by: By,
        target: str = ...,
    ) -> EstimateTable: ...

    def quantile(
        self,
        attribute: str,
        q: float = 0.5,
        where: Where | None = None,
        *,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Quantile | EstimateTable:
        """The value x with F(x - 1) < q <= F(x), and its confidence interval.

        It is read off the monotone estimate of F. With `by`, one in each group.
        """

        def query(where: Where | None) -> Quantile:
            found: Quantile = self.quantiles(attribute, [q], where, target=target)[0]
            return found

        if by is None:
            return query(where)
        (q,) = checked_all([q], ISOTONIC)
        return self._by(by, where, f"{q:g}-quantile of", query, attribute)
