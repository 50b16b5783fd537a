"""What a tally is asked beyond counts, sums, means and quantiles: one line for each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from metricldp.answers import moments, wald
from metricldp.answers.answer import Estimate
from metricldp.answers.by import By
from metricldp.answers.conditions import Where
from metricldp.answers.estimate import POPULATION, RESPONDENTS
from metricldp.answers.grouped import WithQuantiles
from metricldp.answers.regression import Regression, regression
from metricldp.answers.smooth import Tallied
from metricldp.answers.top import TopK, top_k
from metricldp.answers.wald import TestResult
from metricldp.estimate.table import EstimateTable


class Statistics(WithQuantiles, Tallied):
    """Queries whose estimates are smooth functions of sums over respondents."""

    @overload
    def variance(
        self, attribute: str, where: Where | None = ..., *, by: None = ..., target: str = ...
    ) -> Estimate: ...

    @overload
    def variance(
        self, attribute: str, where: Where | None = ..., *, by: By, target: str = ...
    ) -> EstimateTable: ...

    def variance(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Estimate | EstimateTable:
        """The variance of a numeric attribute among the respondents who meet a condition."""
        if by is None:
            return moments.variance(self, attribute, where, target)._reported()

        def query(group: Where | None) -> Estimate:
            return self.variance(attribute, group, target=target)

        return self._by(by, where, "variance of", query, attribute)

    @overload
    def std(
        self, attribute: str, where: Where | None = ..., *, by: None = ..., target: str = ...
    ) -> Estimate: ...

    @overload
    def std(
        self, attribute: str, where: Where | None = ..., *, by: By, target: str = ...
    ) -> EstimateTable: ...

    def std(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        by: By | None = None,
        target: str = RESPONDENTS,
    ) -> Estimate | EstimateTable:
        """The standard deviation of a numeric attribute: the root of its variance."""
        if by is None:
            return moments.std(self, attribute, where, target)._reported()

        def query(group: Where | None) -> Estimate:
            return self.std(attribute, group, target=target)

        return self._by(by, where, "standard deviation of", query, attribute)

    def covariance(
        self, x: str, y: str, where: Where | None = None, *, target: str = POPULATION
    ) -> Estimate:
        """The covariance of two numeric attributes, of the population by default."""
        return moments.covariance(self, x, y, where, target)._reported()

    def correlation(
        self, x: str, y: str, where: Where | None = None, *, target: str = POPULATION
    ) -> Estimate:
        """The correlation coefficient of two numeric attributes, of the population by default."""
        return moments.correlation(self, x, y, where, target)._reported()

    def linear_regression(
        self,
        y: str,
        x: Sequence[str],
        where: Where | None = None,
        *,
        base: Mapping[str, str] | None = None,
        target: str = POPULATION,
    ) -> Regression:
        """Least squares of the outcome y on the predictors x, numeric and categorical.

        Levels are compared with the first one, or with the one that `base` names: {"region":
        "south"}. Errors and p-values are for the population by default; with
        target="respondents" they leave out the sampling error.
        """
        return regression(self, y, x, where, base, target)

    def independence_test(
        self,
        x: str,
        y: str,
        where: Where | None = None,
        *,
        widths: Mapping[str, float] | None = None,
        target: str = POPULATION,
    ) -> TestResult:
        """A chi-square test of whether two attributes are independent, on their estimated table.

        `widths` groups the values of an ordered attribute: {"age": 10}.
        """
        return wald.independence(self, x, y, where, widths, target)

    def trend_test(
        self,
        event: Where,
        attribute: str,
        where: Where | None = None,
        *,
        target: str = POPULATION,
    ) -> TestResult:
        """A test of whether the fraction with an event changes along an attribute."""
        return wald.trend(self, event, attribute, where, target)

    def top_k(
        self, attribute: str, k: int = 10, where: Where | None = None, *, target: str = RESPONDENTS
    ) -> TopK:
        """The k most frequent values of an attribute, and which of their ranks are certain."""
        return top_k(self.histogram(attribute, where, target=target), k)

    def histogram(self, attribute: str, *given: Any, **how: Any) -> EstimateTable:
        raise NotImplementedError
