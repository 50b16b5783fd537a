"""Answers: a value with its own uncertainty, in the units of the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import pyarrow as pa

from metricldp.errors import QueryError


@dataclass(frozen=True)
class Answer:
    """An unbiased value and an unbiased estimate of its variance.

    `about` says what the interval is about: "respondents", the very people who reported (only the
    blurring is uncertain), or "population", everybody they were drawn from at random.
    """

    value: float
    variance: float
    question: str = ""
    unit: str = "people"
    about: str = "respondents"
    notes: tuple[str, ...] = ()
    bounds: tuple[float, float] = field(default=(0.0, math.inf), repr=False)
    """Between these the true variance must lie, whatever the data."""

    @property
    def stderr(self) -> float:
        """The standard error: the estimated variance, kept within its bounds, as a root."""
        return math.sqrt(min(max(self.variance, self.bounds[0]), self.bounds[1]))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The two-sided normal interval at that level."""
        if not 0 < level < 1:
            raise QueryError(f"a level lies between 0 and 1, not {level!r}")
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self.stderr
        return self.value - reach, self.value + reach

    def scaled(self, factor: float, unit: str) -> Answer:
        """The same answer in another unit."""
        low, high = self.bounds
        return replace(
            self,
            value=self.value * factor,
            variance=self.variance * factor**2,
            unit=unit,
            bounds=(low * factor**2, high * factor**2),
        )

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Plain data for a program."""
        low, high = self.interval(level)
        return {
            "question": self.question,
            "value": self.value,
            "stderr": self.stderr,
            "level": level,
            "low": low,
            "high": high,
            "unit": self.unit,
            "about": self.about,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        low, high = self.interval()
        show = self._shown
        text = f"{show(self.value)} ± {show(self.stderr)} {self.unit}"
        text += f" (95%: {show(low)} to {show(high)})"
        return "; ".join([text, *self.notes])

    def _shown(self, number: float) -> str:
        """As many digits as the error leaves meaning to: two of the error, none of a person."""
        digits = 0
        if self.unit != "people":
            error = self.stderr
            digits = 1 - math.floor(math.log10(error)) if 0 < error < math.inf else 4
        text = f"{number:,.{min(max(digits, 0), 12)}f}"
        return text.removeprefix("-") if not text.strip("-0.,") else text


@dataclass(frozen=True)
class Histogram(Sequence[Answer]):
    """One answer for each bar, in the order of the attribute."""

    attribute: str
    labels: tuple[str, ...]
    answers: tuple[Answer, ...]

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - as Sequence has it
        return self.answers[index]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def to_arrow(self, level: float = 0.95) -> pa.Table:
        """A table with a row for each bar; `.to_pandas()` and polars take it from there."""
        rows = [answer.to_dict(level) for answer in self.answers]
        return pa.table(
            {
                self.attribute: list(self.labels),
                **{key: [row[key] for row in rows] for key in ("value", "stderr", "low", "high")},
            }
        )

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Plain data for a program."""
        return {
            "attribute": self.attribute,
            "bars": [
                {"label": label, **answer.to_dict(level)}
                for label, answer in zip(self.labels, self.answers, strict=True)
            ],
        }

    def __str__(self) -> str:
        wide = max(len(label) for label in self.labels)
        lines = zip(self.labels, self.answers, strict=True)
        return "\n".join(f"{label:>{wide}}  {answer}" for label, answer in lines)
