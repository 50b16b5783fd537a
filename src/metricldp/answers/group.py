"""The people of a where-clause in the order of one attribute: what their shares are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from metricldp.answers.answer import Bracket, Estimate, barely
from metricldp.answers.quantiles import Cdf
from metricldp.answers.queries import Query
from metricldp.answers.ratio import Ratio
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.text import plain
from metricldp.mechanisms import Floats, Integers

_TINY = 1e-9
"""In place of a group of no people at all."""


@dataclass(frozen=True)
class Group:
    """The people of a where-clause, in the order of one attribute.

    `literal` estimates everybody's prefixes as the paper does. Else the known number of all people
    replaces its noisy estimate, which some channels, such as threshold-paper, would make of it.
    """

    name: str
    attribute: Attribute
    query: Query
    n: int
    literal: bool

    def __post_init__(self) -> None:
        if not self.attribute.ordered or self.attribute.rounded_at_random:
            raise QueryError(
                f"{self.name} is {self.attribute.kind} and has no quantiles; "
                "use an integer, continuous or ordinal attribute"
            )
        if self.attribute.is_cyclic:
            raise QueryError(
                f"{self.name} is cyclic, so its values have no order and no quantiles; use mean "
                "(circular), histogram, or count over ranges"
            )
        if not self.n:
            raise QueryError("there are no reports, so there is no quantile")

    @property
    def everybody(self) -> bool:
        """Whether the size of the group is known: it is all who reported."""
        return not self.query.factors

    @cached_property
    def positions(self) -> Integers:
        """The positions that the group can be at; the last prefix is the whole group."""
        inside = self.query.functions.get(self.name)
        return np.arange(self.attribute.size) if inside is None else np.flatnonzero(inside)

    @property
    def labels(self) -> list[str]:
        """What each of the functions is, for messages."""
        count = len(self.positions) - 1
        return [f"{self.name} prefix"] * (count if self.everybody else 2 * count) + [self.name]

    def functions(self) -> Iterator[Floats]:
        """Prefixes; in a group of unknown size also the rests above them; and the whole.

        Everybody's prefixes are asked as 1[x <= k] - 1/2, whose sum is n/2 less than the count: it
        treats both ends alike, so that the paper's noisy last bit drops out.
        """
        grid = np.arange(self.attribute.size)
        for position in self.positions[:-1]:
            yield (grid <= position) - self._shift
        if not self.everybody:
            for position in self.positions[:-1]:
                yield (grid > position).astype(np.float64)
        yield np.ones(len(grid))

    def excess(self, position: int, share: float) -> Query:
        """The group's people up to a position, less a share of the group."""
        grid = np.arange(self.attribute.size)
        inside = self.query.functions.get(self.name, np.ones(len(grid)))
        factors = {**self.query.factors, self.name: ((grid <= position) - share) * inside}
        return replace(self.query, factors=factors)

    @property
    def _shift(self) -> float:
        return 0.5 if self.everybody and not self.literal else 0.0

    def to_cdf(self, answers: Sequence[Estimate]) -> Cdf:
        """From the answers to `functions`, in their order."""
        *parts, whole = answers
        points = self._of_all(parts) if self.everybody else _of_some(parts, whole)
        if self.everybody and self.literal:
            points.append(_share(whole, self.n))
        else:
            all_of_it = Estimate(1.0, 0.0, target=whole.target, reports=whole.reports)
            points.append(_share(replace(all_of_it, survey=whole.survey), 1))
        positions = [int(position) for position in self.positions]
        ends = [plain(self.attribute.values_at(position)[1]) for position in positions]
        words = self.query.words
        asked = [
            replace(point, question=f"{self.name} up to {end} among {words}")
            for point, end in zip(points, ends, strict=True)
        ]
        question, notes = f"{self.name} among {words}", self.query.notes
        if not points[0].clear:
            notes = (*notes, barely(whole.value, whole.stderr))
        return Cdf(self.name, self.attribute, positions, asked, question, notes)

    def _of_all(self, prefixes: list[Estimate]) -> list[Ratio]:
        added = self._shift * self.n
        return [
            _share(replace(one, value=one.value + added, bracket=self._whole(one)), self.n)
            for one in prefixes
        ]

    def _whole(self, prefix: Estimate) -> Bracket | None:
        """The bracket of a prefix that was asked for as 1[x <= k] - 1/2."""
        found = prefix.bracket
        return None if found is None else found.raised(self.name, self._shift)


def _of_some(parts: list[Estimate], whole: Estimate) -> list[Ratio]:
    """Estimated counts over an estimated size; Var(whole - part) gives their covariance."""
    size, error = whole.value or -_TINY, whole.stderr
    half = len(parts) // 2
    return [
        _share(
            replace(
                below, jump=max(below.jump, above.jump), hidden=max(below.hidden, above.hidden)
            ),
            size,
            error**2,
            (below.stderr**2 + error**2 - above.stderr**2) / 2,
            whole.one,
        )
        for below, above in zip(parts[:half], parts[half:], strict=True)
    ]


def _share(
    count: Estimate,
    size: float,
    size_variance: float = 0.0,
    covariance: float = 0.0,
    size_one: float = 0.0,
) -> Ratio:
    """A count over the size of its group, as a share."""
    share, variance = count.value / size, count.stderr**2
    spread = variance - 2 * share * covariance + share**2 * size_variance
    return Ratio(
        share,
        max(0.0, spread) / size**2,
        unit="of the group",
        target=count.target,
        jump=count.jump / size,
        hidden=count.hidden / size**2,
        bracket=None if size_variance else count.bracket,
        lie=None if size_variance else count.lie,
        scale=1 / size,
        reports=count.reports,
        survey=count.survey,
        denominator=size,
        numerator_variance=variance,
        denominator_variance=size_variance,
        shared=covariance,
        possible=(0.0, 1.0),
        ones=(count.one, size_one),
    )
