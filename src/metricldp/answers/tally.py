"""The tally: reports of one survey, and all queries that they answer.

Tallies are merged with `+`. Estimates depend on the reports, not on their order or batches (to the
last digit where integers are counted: in all but weights and long lists of values).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from metricldp.answers import decoded, fits
from metricldp.answers.answer import Estimate
from metricldp.answers.arithmetic import divided
from metricldp.answers.asking import Asking
from metricldp.answers.brackets import Planner
from metricldp.answers.by import By, bars_of, cells, edges_for
from metricldp.answers.conditions import Where, all_of
from metricldp.answers.estimate import RESPONDENTS, check_about
from metricldp.answers.fits import Fit
from metricldp.answers.grids import counts_of_cells
from metricldp.answers.linear import workload_table
from metricldp.answers.maximise import Progress
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.queries import asked_of, valued, workload_for
from metricldp.answers.searches import BINARY_SEARCH, ISOTONIC, checked_all
from metricldp.answers.statistics import Statistics
from metricldp.answers.suspicion import GoodnessOfFit, goodness_of_fit
from metricldp.answers.weighted import weighted_sum
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.estimate.table import EstimateTable, Grouping
from metricldp.mechanisms.workloads import Workload
from metricldp.store.opening import opened
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.explain import explain

if TYPE_CHECKING:
    import pyarrow as pa


class Tally(Asking, Statistics):
    """The reports of one survey, and estimates from them."""

    @classmethod
    def of(
        cls,
        survey: Agreement,
        collected: Any,
        *,
        rejected: Counter[str] | None = None,
        layout: str = "auto",
        keep: Iterable[Sequence[str]] | None = None,
        fingerprint: str | None = None,
        engine: str | None = None,
    ) -> Tally:
        """From reports in any form; with `keep`, only totals over groups of attributes remain."""
        return cls(opened(survey, collected, rejected, layout, keep, fingerprint, engine))

    @classmethod
    def load(cls, survey: Agreement, path: str | Path) -> Tally:
        """From a file that `save` wrote."""
        return cls.of(survey, path)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        self.store.check_mergeable(other.store)
        if self.planner != other.planner:
            raise QueryError(
                "tallies whose envelope intervals are planned differently cannot be merged"
            )
        return Tally(self.store.merge(other.store), self.planner)

    def __radd__(self, other: object) -> Tally:
        """For `sum` of many tallies, which starts from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.store == other.store

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Tally of {repr(self.store)[1:-1]}>"

    def _repr_html_(self) -> str:
        return explain(self.survey).to_html(repr(self)[1:-1])

    def with_prior(self, prior: Mapping[str, ArrayLike]) -> Tally:
        """The same tally, whose envelope intervals are planned for this prior.

        `prior` has, by attribute, the fraction of respondents with each value, known from a census
        or an earlier year and never from the reports themselves. Intervals cover the truth whether
        or not the prior holds; they are shorter if it nearly does.
        """
        return Tally(self.store, Planner(self.survey, prior))

    # Questions -----------------------------------------------------------------------------------

    @property
    def _described(self) -> Agreement:
        return self.survey

    def _count(self, where: Where | None, target: str) -> Estimate:
        return self._summed(self._answers(self._parts(where), target))

    def _counts_by(self, by: By, where: Where | None, target: str) -> EstimateTable:
        """Counts of groups, all planned together."""
        groups, found = cells(self.survey, by, where), None
        if len(groups.bars) == 2 and len(self._parts(where)) == 1:
            found = counts_of_cells(self, groups, where, target)
        if found is None:
            found = self._counts(groups.within(where), target)

        def others(row: int) -> Estimate:
            return self.count(groups.outside(where, row), target=target)

        label = self._label("respondents", None, groups, where)
        return EstimateTable(groups.groupings, found, label=label, others=others)

    def counts(self, wheres: Iterable[Where | None], *, target: str = RESPONDENTS) -> EstimateTable:
        """The counts of many conditions, planned together."""
        if isinstance(wheres, Mapping):
            raise QueryError("counts takes a list of conditions; for a single one use count")
        if isinstance(wheres, str) or not isinstance(wheres, Iterable):
            raise QueryError(f"counts takes a list of conditions, not {shown(wheres)}")
        asked = list(wheres)
        found = self._counts(asked, target)
        labels = [one.question for one in found]
        return EstimateTable([Grouping("condition", labels, labels)], found, label="respondents")

    def _counts(self, wheres: Sequence[Where | None], target: str) -> list[Estimate]:
        parts = []
        for place, where in enumerate(wheres):
            try:
                parts.append(self._parts(where))
            except QueryError as wrong:
                raise QueryError(f"condition {place + 1}: {wrong}") from None
        found = iter(self._answers([query for some in parts for query in some], target))
        return [self._summed(list(islice(found, len(some)))) for some in parts]

    def _fraction(self, where: Where | None, among: Where, target: str) -> Estimate:
        check_about(target, self.n)
        whole = self.count(among, target=target)
        both = among if where is None else all_of(where, among)
        words = f"{self._parts(where)[0].words} among {whole.question}"
        share = divided(self.count(both, target=target), whole, (0.0, 1.0))
        return replace(share, question=words, unit="of the group")._reported()

    def _sum_of(self, attribute: str, where: Where | None, target: str) -> Estimate:
        if attribute_of(self.survey, attribute).kind == "weight":
            query = self._parsed(where, attribute)
            return weighted_sum(self.store, attribute, query, target)
        return self._summed(
            [self._sum(attribute, part, target) for part in self._parts(where, attribute)]
        )

    def _mean_of(self, attribute: str, where: Where | None, target: str) -> Estimate:
        described = attribute_of(self.survey, attribute)
        if described.is_cyclic and not described.named:
            return self._circular_mean(attribute, where, target)._reported()
        parts = self._parts(where, attribute)
        if len(parts) > 1:
            return self._mean_of_parts(attribute, parts, target)._reported()
        queries, group = valued(self.survey, attribute, parts[0])
        ratios = [self._mean(attribute, query, group, target) for query in queries]
        return replace(ratios[0], between=tuple(ratios[1:]))._reported()

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        bins: int | Sequence[float] | None = None,
        target: str = RESPONDENTS,
    ) -> EstimateTable:
        """A count for every value of an attribute, or for bins between edges.

        `bins` is a list of edges, left-closed, or a number of bins. They have equal widths if the
        number of values can be divided by it, and nearly equal ones otherwise.
        """
        described = attribute_of(self.survey, attribute)
        parts = self._parts(where, attribute)
        query = parts[0]
        if any(attribute in part.factors for part in parts):
            raise QueryError(f"{attribute} is the histogram's attribute; remove it from where")
        if described.kind == "weight":
            raise QueryError(f"{attribute} is a weight; use its sum")
        bars = bars_of(described, attribute, edges_for(described, attribute, bins))
        labels = [bar.words for bar in bars.chosen]
        parts = [replace(part, notes=(*query.notes, *bars.notes)) for part in parts]
        words = asked_of(attribute, labels, parts[0])
        found = []
        for part in parts:
            functions = (bar.inside.astype(np.float64) for bar in bars.chosen)
            found.append(self.profile(attribute, part, functions, words, target=target))
        counts = [self._summed(list(bar)) for bar in zip(*found, strict=True)]
        label = f"respondents by {attribute}{self._among(where)}"
        return EstimateTable([bars.grouping], counts, label=label)

    def cdf(self, attribute: str, where: Where | None = None, *, target: str = RESPONDENTS) -> Cdf:
        """The distribution function of an attribute, with a simultaneous confidence band."""
        return self._cdf(attribute, where, target, literal=False)

    def quantiles(
        self,
        attribute: str,
        probabilities: Iterable[float],
        where: Where | None = None,
        *,
        method: str = ISOTONIC,
        target: str = RESPONDENTS,
    ) -> list[Quantile]:
        """Several quantiles of the same group, in one pass.

        The method "isotonic" reads them off the monotone estimate of F, "binary-search" is the
        paper's procedure on the raw estimates.
        """
        asked = checked_all(probabilities, method)
        shares = self._cdf(attribute, where, target, literal=method == BINARY_SEARCH)
        return [shares.quantile(p, method) for p in asked]

    def workload(
        self,
        attribute: str,
        matrix: Workload | str | ArrayLike,
        where: Where | None = None,
        *,
        target: str = RESPONDENTS,
    ) -> EstimateTable:
        """Estimates of a workload: for each row, the sum of its entries over the respondents.

        A row states what a respondent with each value adds. `matrix` is a Workload, "ranges",
        "prefixes", "values", or rows.
        """
        asked = workload_for(self.survey, attribute, matrix)
        profile = self._profile(attribute, self._parsed(where, attribute), target)
        return workload_table(asked, profile, self._among(where))

    def fit_distribution(
        self, attributes: Sequence[str] | str, *, progress: Progress = lambda done: None
    ) -> Fit:
        """A distribution over some attributes that maximizes the likelihood of the reports.

        It has the same queries. Its estimates are often nearer to the truth where noise is
        large, but biased, and nothing is guaranteed of them; intervals are those of the unbiased
        estimates. With more than three attributes only pairs are fitted.
        """
        return fits.fit(self, attributes, progress=progress)

    def contributions(
        self, where: Where | None = None, attribute: str | None = None, *, public: bool = False
    ) -> pa.Table:
        """Each report's contribution to a count or, of an attribute or a weight, to its sum.

        The sum of the column `contribution` is the estimate, that of `variance` the variance of the
        randomization; `square` is the squared contribution, for the variance of sampling. Where
        bins leave values open there are the same columns with `_low` and `_high`, for every value
        at the lower and at the upper edge of its bin. With `public` the public weights are added.
        """
        return decoded.of_store(self.store, where, attribute, public=public)

    def goodness_of_fit_test(self) -> GoodnessOfFit:
        """A test of whether any respondents could have produced these reports.

        It finds impossible reports, and cannot detect false responses that are randomized as the
        survey prescribes.
        """
        return goodness_of_fit(self.store)
