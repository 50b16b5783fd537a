"""Joint mechanisms: peers that blur several attributes of a person together.

They are no channels, one for each attribute, but they stand on the same survey. Its attributes turn
values into positions and words into functions of them, reports are tables and bytes with a
fingerprint, coins are exact, and answers are the same answers. A joint mechanism adds the law of
its reports, and for every question a decoder F with

    E[F(report) | x] = prod_d f_d(x_d)   and   S(x) = E[F(report)^2 | x]   known exactly.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from metricldp.answers.answer import Answer
from metricldp.answers.estimate import RESPONDENTS, Bounds, to_answer
from metricldp.answers.predict import Prior, shares_of
from metricldp.answers.queries import Where, expected, parse
from metricldp.attributes.weight import Weight
from metricldp.basics.errors import ReportRefused, SurveyError
from metricldp.basics.text import shown
from metricldp.channels import Column, Floats, Integers, Number
from metricldp.coins.stream import Coins
from metricldp.reports import arrow
from metricldp.reports.people import checked
from metricldp.survey.agreement import Agreement
from metricldp.survey.certify import Certificate

Functions = Mapping[str, Floats]
"""The function of each attribute that a question names; all others are 1."""


class Joint(ABC):
    """A mechanism for all attributes of a survey at once."""

    mechanism: ClassVar[str]
    survey: Agreement
    """Its attributes are the grid; its channels are not used."""
    agreed: ClassVar[str] = ""
    """What devices and collector have to say alike beside the survey, as the rest of a sentence."""

    # What a mechanism has to say ----------------------------------------------------------------

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, Number]:
        """The columns of a report."""

    @property
    @abstractmethod
    def law(self) -> bytes:
        """What devices and collector must agree on, beside the survey."""

    @abstractmethod
    def blur(self, positions: Mapping[str, Integers], coins: Coins) -> Mapping[str, Column]:
        """Blur many people: the only step that sees private values."""

    @abstractmethod
    def probability(self, person: Mapping[str, int], report: Mapping[str, int]) -> Fraction:
        """P(report | position of each attribute), from the integers that the sampler uses."""

    @abstractmethod
    def decoded(self, functions: Functions, columns: Mapping[str, Column]) -> tuple[float, float]:
        """Sums over reports of F, and of a decoder of S."""

    @abstractmethod
    def added(self, functions: Functions, shares: list[Floats] | Floats) -> float:
        """The mean of S(x) - f(x)^2 over people spread like that over the attributes involved.

        Shares are one array for each of them, in the survey's order, or one joint array.
        """

    @abstractmethod
    def bounds(self, functions: Functions) -> Bounds:
        """The least and the most that one person adds to the variance: the range of S - f^2."""

    @abstractmethod
    def certify(self) -> Certificate:
        """The exact loss of the integers in use."""

    # What follows -------------------------------------------------------------------------------

    def involved(self, functions: Functions) -> list[str]:
        """The attributes that the error depends on, in the survey's order."""
        return [name for name in self.survey.attributes if name in functions]

    @cached_property
    def fingerprint(self) -> str:
        """Equal exactly for the same mechanism on the same survey."""
        said = f"{self.mechanism} {self.survey.fingerprint} ".encode() + self.law
        return hashlib.sha256(said).hexdigest()

    @property
    def report_bits(self) -> int:
        """The content of one report, without its header."""
        return sum(field.bits for field in self.fields.values())

    def every_report(self) -> dict[str, Column]:
        """All possible reports as columns, for proofs by enumeration; only for tiny domains."""
        grid = np.indices([field.outputs for field in self.fields.values()])
        return dict(zip(self.fields, grid.reshape(len(grid), -1), strict=True))

    def encode(self, people: Any, coins: Coins | None = None, *, clip: bool = False) -> pa.Table:
        """Blur a table of people, as `Survey.encode` does; all values are checked first."""
        positions = checked(self.survey, people, clip=clip)
        return arrow.to_table(self, self.blur(positions, coins or Coins()))

    def count(
        self,
        collected: pa.Table,
        where: Where | None = None,
        *,
        about: str = RESPONDENTS,
    ) -> Answer:
        """How many people fit a where-clause: unbiased, with an unbiased variance.

        A where-clause is an indicator, so f^2 = f and the variance is sum S - sum f.
        """
        query = parse(self.survey, where)
        table = self._checked(collected)
        n, asked = table.num_rows, (query.words, query.notes)
        if not query.factors:  # everybody is known
            return to_answer(n, n, n, (0.0, 0.0), n, asked, about=about, layout="reports")
        sums = [self.decoded(query.functions, batch) for batch in arrow.batches(table)]
        value, second = (math.fsum(part) for part in zip(*sums, strict=True)) if sums else (0, 0)
        bounds = self.bounds(query.functions)
        return to_answer(value, second, value, bounds, n, asked, about=about, layout="reports")

    def _checked(self, collected: pa.Table) -> pa.Table:
        """The reports, if they are this mechanism's own."""
        try:
            return arrow.check_table(self, collected)
        except ReportRefused as wrong:
            if wrong.reason != "survey":
                raise
            raise ReportRefused(
                wrong.reason,
                f"these reports belong to another mechanism than this {self.mechanism}; build it "
                f"as the devices did: the same survey{self.agreed}",
            ) from None

    def error(self, where: Where | None = None, n: int = 1, prior: Prior = "worst") -> float:
        """The standard error of a count over n people, exact for the prior, as `Survey.error`."""
        functions = parse(self.survey, where).functions
        n, spread, _ = expected(n, prior, None)
        if not functions:
            return 0.0
        if isinstance(spread, str) and spread == "worst":
            return math.sqrt(n * self.bounds(functions)[1])
        sizes = {name: self.survey.attributes[name].size for name in self.involved(functions)}
        return math.sqrt(n * max(0.0, self.added(functions, shares_of(sizes, spread))))


def on_grids(survey: object) -> Agreement:
    """A survey whose attributes all are positions on a grid, or a refusal."""
    if not isinstance(survey, Agreement):
        raise SurveyError(f"a joint mechanism stands on a Survey, not {shown(survey)}")
    for name, attribute in survey.attributes.items():
        if isinstance(attribute, Weight) or attribute.rounded_at_random:
            raise SurveyError(
                f"{name} is {attribute.kind}; a joint mechanism blurs integer, continuous, ordinal "
                "and categorical attributes only, so leave it out"
            )
    return survey
