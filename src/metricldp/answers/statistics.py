"""What a tally is asked beyond counts, sums, means and quantiles: one line for each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metricldp.answers import moments, wald
from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import Histogram
from metricldp.answers.conditions import Where
from metricldp.answers.estimate import POPULATION, RESPONDENTS
from metricldp.answers.regression import Regression, regression
from metricldp.answers.smooth import Tallied
from metricldp.answers.top import Top, top
from metricldp.answers.wald import Test


class Statistics(Tallied):
    """Questions whose answers are smooth functions of sums over people."""

    def variance(
        self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Answer:
        """The variance of an attribute over the people of the where-clause."""
        return moments.variance(self, attribute, where, about)

    def std(
        self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Answer:
        """The standard deviation of an attribute: the root of its variance."""
        return moments.std(self, attribute, where, about)

    def covariance(
        self, attribute: str, other: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Answer:
        """The covariance of two attributes over the people of the where-clause."""
        return moments.covariance(self, attribute, other, where, about)

    def correlation(
        self, attribute: str, other: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Answer:
        """The correlation of two attributes over the people of the where-clause."""
        return moments.correlation(self, attribute, other, where, about)

    def regression(
        self,
        outcome: str,
        predictors: Sequence[str],
        where: Where | None = None,
        *,
        base: Mapping[str, str] | None = None,
        about: str = RESPONDENTS,
    ) -> Regression:
        """Least squares of an attribute on others, numbers and categories.

        Levels are compared with the first one, or with the one that `base` names: {"region":
        "south"}.
        """
        return regression(self, outcome, predictors, where, base, about)

    def independence(
        self,
        attribute: str,
        other: str,
        where: Where | None = None,
        *,
        widths: Mapping[str, float] | None = None,
        about: str = POPULATION,
    ) -> Test:
        """A test of whether two attributes are independent: chi-square on their decoded table.

        `widths` puts the values of an ordered attribute into bars: {"age": 10}.
        """
        return wald.independence(self, attribute, other, where, widths, about)

    def trend(
        self,
        share: Where,
        attribute: str,
        where: Where | None = None,
        *,
        about: str = POPULATION,
    ) -> Test:
        """A test of whether the share who meet some conditions changes along an attribute."""
        return wald.trend(self, share, attribute, where, about)

    def top(
        self, attribute: str, k: int, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Top:
        """The k most frequent values of an attribute, and which of their ranks are certain."""
        return top(self.histogram(attribute, where, about=about), k)

    def histogram(self, attribute: str, *given: Any, **how: Any) -> Histogram:
        raise NotImplementedError
