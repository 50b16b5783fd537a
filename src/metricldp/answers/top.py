"""The most frequent values of an attribute, and which of their ranks are certain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.answers.answer import Answer, percent
from metricldp.answers.answer_table import Answers, Histogram
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import counted, shown
from metricldp.channels import Floats

Flags = npt.NDArray[np.bool_]


class Top(Answers):
    """The values with the largest counts, the largest first.

    A rank is certain if the value's interval is apart from those of all other values, where all
    intervals hold together: so all that is called certain is true at once, at that level.
    """

    simultaneous = True

    def __init__(
        self,
        attribute: str,
        labels: Sequence[str],
        answers: Sequence[Answer],
        everything: Histogram,
        places: Sequence[int],
    ) -> None:
        super().__init__(attribute, labels, answers)
        self.everything = everything
        """The counts of all values."""
        self._places = list(places)

    @cached_property
    def certain(self) -> Flags:
        """Whether each rank is certain, at the level of 95%."""
        return self.certain_at(0.95)

    @cached_property
    def complete(self) -> bool:
        """Whether no other value can be among the first so many, at the level of 95%."""
        return self.complete_at(0.95)

    def certain_at(self, level: float) -> Flags:
        """The same at another level."""
        low, high = self._ends(level)
        found = []
        for place in self._places:
            others = np.arange(len(low)) != place
            apart = (high[others] < low[place]) | (low[others] > high[place])
            found.append(bool(apart.all()))
        return np.array(found, dtype=bool)

    def complete_at(self, level: float) -> bool:
        """The same at another level."""
        low, high = self._ends(level)
        rest = np.ones(len(low), dtype=bool)
        rest[self._places] = False
        return bool(not rest.any() or high[rest].max() < low[self._places].min())

    def _ends(self, level: float) -> tuple[Floats, Floats]:
        return self.everything.interval(level, simultaneous=True)

    def interval(
        self, level: float = 0.95, *, simultaneous: bool = False, **how: Any
    ) -> tuple[Floats, Floats]:
        """As of any answers; simultaneous ones hold for all values, not for these alone."""
        if not simultaneous:
            return super().interval(level, **how)
        low, high = self.everything.interval(level, simultaneous=True, **how)
        return low[self._places], high[self._places]

    def text(self, level: float = 0.95, *, simultaneous: bool | None = None) -> str:
        low, high = self.interval(level, simultaneous=self._all(simultaneous))
        certain, lines = self.certain_at(level), []
        wide = max((len(label) for label in self.labels), default=0)
        for rank, (label, one) in enumerate(zip(self.labels, self, strict=True)):
            ends = f"{one._shown(low[rank])} to {one._shown(high[rank])}"
            number = f"{one._shown(one.value)} ± {one._shown(one.stderr)} {one.unit}"
            every = " for all" if self._all(simultaneous) else ""
            said = "; this rank is certain" if certain[rank] else ""
            text = f"{rank + 1}. {label:>{wide}}  {number} ({percent(level)}{every}: {ends}){said}"
            lines.append(text)
        others = "no other value is among these" if self.complete_at(level) else ""
        if not others and len(self) < len(self.everything):
            others = "other values may be among these"
        return "\n".join([*lines, *([others] if others else [])])

    def to_dict(self, level: float = 0.95, *, simultaneous: bool | None = None) -> dict[str, Any]:
        found = super().to_dict(level, simultaneous=simultaneous)
        certain = self.certain_at(level).tolist()
        for rank, (row, sure) in enumerate(zip(found["answers"], certain, strict=True)):
            row |= {"rank": rank + 1, "certain": sure}
        return {**found, "complete": self.complete_at(level)}


def top(counts: Histogram, k: int) -> Top:
    """The k largest bars of a histogram; of equal ones the first."""
    if not is_whole(k) or k < 1:
        raise QueryError(f"top takes a number of values, at least 1, not {shown(k)}")
    if k > len(counts):
        raise QueryError(
            f"{counts.attribute} has {counted(len(counts), 'value')}, fewer than {k}; ask for those"
        )
    order = np.argsort(-counts.values, kind="stable")[: int(k)].tolist()
    labels, answers = [counts.labels[p] for p in order], [counts[p] for p in order]
    return Top(counts.attribute, labels, answers, counts, order)
