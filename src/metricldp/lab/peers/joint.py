"""Joint channels on a survey: HIO and planar Laplace noise, asked like any survey.

The survey's attributes turn values into positions and words into functions of them; its own
epsilons, of HIO, and its channels are not used. Reports are tables and bytes with a fingerprint,
and answers are the same answers.
"""

from __future__ import annotations

import hashlib
import math
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
from metricldp.basics.checks import positive
from metricldp.attributes.weight import Weight
from metricldp.basics.errors import QueryError, ReportRefused, SurveyError
from metricldp.basics.exact import as_written, at_most_exp
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import shown
from metricldp.channels import LARGEST_EPSILON, Column, Floats, Number
from metricldp.channels.joint import JointChannel, Part, People, extremes, means
from metricldp.coins.stream import Coins
from metricldp.lab.peers.hio import Boxes, HadamardBoxes
from metricldp.lab.peers.hio_hashing import HashedBoxes
from metricldp.lab.peers.planar import SMALLEST_STEP, Planar
from metricldp.metrics import Line, Lp
from metricldp.reports import arrow
from metricldp.reports.people import checked
from metricldp.survey.agreement import Agreement
from metricldp.survey.certify import Certificate, Pair, Proof, tightest

Functions = Mapping[str, Floats]
"""The function of each attribute that a question names; all others are 1."""


class Joint:
    """A joint channel for all attributes of a survey."""

    agreed: ClassVar[str] = ""
    """What devices and collector have to say alike beside the survey, as the rest of a sentence."""

    def __init__(self, survey: Agreement, channel: JointChannel) -> None:
        self.survey, self.channel = survey, channel

    @property
    def mechanism(self) -> str:
        return self.channel.mechanism

    def _name(self, part: Part) -> str:
        """The column of a part; no attribute has "=" in its name."""
        return f"={part}" if isinstance(part, str) else list(self.survey.attributes)[part]

    @cached_property
    def fields(self) -> dict[str, Number]:
        """The columns of a report."""
        return {self._name(part): field for part, field in self.channel.fields.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Equal exactly for the same mechanism on the same survey."""
        said = f"{self.mechanism} {self.survey.fingerprint} ".encode() + self.channel.law
        return hashlib.sha256(said).hexdigest()

    @property
    def report_bits(self) -> int:
        """The content of one report, without its header."""
        return sum(field.bits for field in self.fields.values())

    def encode(self, people: Any, coins: Coins | None = None, *, clip: bool = False) -> pa.Table:
        """Blur a table of people, as `Survey.encode` does; all values are checked first."""
        positions = checked(self.survey, people, clip=clip)
        blurred = self.channel.encode(
            [positions[name] for name in self.survey.attributes], coins or Coins()
        )
        return arrow.to_table(self, {self._name(part): c for part, c in blurred.items()})

    # Answers -------------------------------------------------------------------------------------

    def _rows(self, functions: Functions) -> list[Floats]:
        sizes = {name: a.size for name, a in self.survey.attributes.items()}
        return [functions.get(name, np.ones(size))[None] for name, size in sizes.items()]

    def decoded(self, functions: Functions, columns: Mapping[str, Column]) -> tuple[float, float]:
        """Sums over reports of F, and of a decoder of S."""
        rows = self._rows(functions)
        named = {part: columns[self._name(part)] for part in self.channel.fields}
        value = self.channel.decoded(rows, named).sum()
        return float(value), float(self.channel.sums(self.channel.moment(rows), named)[0])

    def bounds(self, functions: Functions) -> Bounds:
        """The least and the most that one person adds to the variance: the range of S - f^2."""
        least, most = extremes(self.channel.noise(self._rows(functions)))
        return max(0.0, float(least[0])), float(most[0])

    def involved(self, functions: Functions) -> list[str]:
        """The attributes that the error depends on, in the survey's order."""
        terms = self.channel.noise(self._rows(functions))
        factors = zip(*(term.factors for term in terms if term.factors), strict=True)
        varying = [any(np.ptp(f) for f in each) for each in factors]
        names = zip(self.survey.attributes, varying, strict=True)
        return [name for name, varies in names if varies or name in functions]

    def added(self, functions: Functions, shares: list[Floats] | Floats) -> float:
        """The mean of S(x) - f(x)^2 over people spread like that over the attributes involved."""
        names = list(self.survey.attributes)
        kept = [names.index(name) for name in self.involved(functions)]
        terms = self.channel.noise(self._rows(functions))
        return float(means([term.over(kept) for term in terms], shares)[0])

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

    # The certificate -----------------------------------------------------------------------------

    def distance(self, x: People, other: People) -> Fraction:
        """What is promised for two people."""
        raise NotImplementedError

    def certify(self) -> Certificate:
        """The exact loss of the integers in use, for every two people."""
        attributes, sizes = self.survey.attributes, self.channel.sizes
        listed = list(self.channel.worst_pairs())
        pairs = []
        for x, other, ratio in listed:
            allowed = self.distance(x, other)
            cells = [
                sum(at * math.prod(sizes[d + 1 :]) for d, at in enumerate(p)) for p in (x, other)
            ]
            pairs.append(Pair(cells[0], cells[1], allowed, ratio, at_most_exp(ratio, allowed)))
        here, there = (
            ", ".join(a.label(at) for a, at in zip(attributes.values(), person, strict=True))
            for person in listed[pairs.index(tightest(tuple(pairs)))][:2]
        )
        count = math.comb(math.prod(sizes), 2)
        proof = Proof(
            ", ".join(attributes), self.mechanism, tuple(pairs), count, (here, there), promised=True
        )
        return Certificate(self.fingerprint, (proof,))


class _OnTrees(Joint):
    """HIO: one epsilon between any two people, whatever all their attributes are."""

    channel: Boxes
    agreed: ClassVar[str] = ", epsilon and branching"

    def __init__(self, survey: Agreement, epsilon: float, branching: int = 5) -> None:
        on_grids(survey)
        self.epsilon = positive("epsilon", epsilon)
        if not is_whole(branching) or branching < 2:
            raise SurveyError(f"branching is a whole number of at least 2, not {shown(branching)}")
        attributes = survey.attributes.values()
        sizes = tuple(a.size for a in attributes)
        branchings = tuple(min(a.size, int(branching) if a.ordered else a.size) for a in attributes)
        super().__init__(survey, self._build(sizes, branchings))

    def _build(self, sizes: tuple[int, ...], branchings: tuple[int, ...]) -> Boxes:
        raise NotImplementedError

    @property
    def spent(self) -> Fraction:
        """The epsilon that coins can keep."""
        return min(as_written(self.epsilon), LARGEST_EPSILON)

    def distance(self, x: People, other: People) -> Fraction:
        return as_written(self.epsilon)

    def published_variance(
        self, where: Where | None = None, n: int = 1, inside: float = 0.0
    ) -> float:
        """The variance with the published oracle, optimised local hashing, for a share inside.

        A box that a person is not in has 4 e^eps / (e^eps - 1)^2 (Wang, Blocki, Li and Jha, USENIX
        Security 2017, with e^eps + 1 hash values and not that rounded); the one that she is in has
        2 more as its second moment, because p = 1/2. Different boxes are uncorrelated as long as
        three hash values are independent.
        """
        n = expected(n, "uniform", None)[0]
        if not is_number(inside) or not 0 <= inside <= 1:
            raise QueryError(f"inside is a share of people from 0 to 1, not {shown(inside)}")
        rows = self._rows(parse(self.survey, where).functions)
        outside = float(self.channel.published_variance(rows, self.epsilon)[0])
        return n * (outside + inside * (2 * self.channel.vectors - 1))


class Hio(_OnTrees):
    """HIO with Hadamard response.

    With `consistent`, counts are read from the same reports with the best weights of all levels
    instead of the fewest nodes.
    """

    def __init__(
        self, survey: Agreement, epsilon: float, branching: int = 5, consistent: bool = False
    ) -> None:
        self.consistent = consistent
        super().__init__(survey, epsilon, branching)

    def _build(self, sizes: tuple[int, ...], branchings: tuple[int, ...]) -> HadamardBoxes:
        return HadamardBoxes.for_epsilon(sizes, branchings, self.spent, consistent=self.consistent)


class HashedHio(_OnTrees):
    """HIO with local hashing; the fewest nodes, as published."""

    def _build(self, sizes: tuple[int, ...], branchings: tuple[int, ...]) -> HashedBoxes:
        return HashedBoxes.for_epsilon(sizes, branchings, self.spent)


class PlanarLaplace(Joint):
    """Two attributes on lines, in a survey with metric Lp(2); up to 32 x 32 cells."""

    channel: Planar

    def __init__(self, survey: Agreement) -> None:
        on_grids(survey)
        names = list(survey.attributes)
        if len(names) != 2:
            raise SurveyError(f"planar Laplace noise is for two attributes, not {len(names)}")
        steps = []
        for name, attribute in survey.attributes.items():
            if not isinstance(attribute.distances, Line):
                raise SurveyError(f"{name} has no distance along a line; use numbers or levels")
            steps.append(attribute.distances.step)
            if steps[-1] < SMALLEST_STEP:
                raise SurveyError(
                    f"{name} has epsilon {float(steps[-1]):.3g} per step, too small for planar "
                    "Laplace noise; use a coarser grid, for at least "
                    f"{float(SMALLEST_STEP):.3g} per step"
                )
        if survey.metric != Lp(2):
            raise SurveyError("planar Laplace noise keeps the distance in the plane; say Lp(2)")
        first, second = (a.size for a in survey.attributes.values())
        super().__init__(survey, Planar.for_steps((first, second), (steps[0], steps[1])))

    def distance(self, x: People, other: People) -> Fraction:
        return self.channel.distance(x, other)


def on_grids(survey: object) -> None:
    """Refuse what is no survey whose attributes all are positions on a grid."""
    if not isinstance(survey, Agreement):
        raise SurveyError(f"a joint mechanism stands on a Survey, not {shown(survey)}")
    for name, attribute in survey.attributes.items():
        if isinstance(attribute, Weight) or attribute.rounded_at_random:
            raise SurveyError(
                f"{name} is {attribute.kind}; a joint mechanism blurs integer, continuous, ordinal "
                "and categorical attributes only, so leave it out"
            )
