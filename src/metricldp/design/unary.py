"""Unary encoding as a survey has it: what the bit of each value tells, found and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from metricldp.basics.checks import positive
from metricldp.basics.errors import SurveyError
from metricldp.basics.text import shown
from metricldp.channels.base import Channel
from metricldp.channels.mechanism import Label, Mechanism
from metricldp.channels.unary import Unary
from metricldp.design.losses import best_losses, kept_by, too_near
from metricldp.metrics import Metric
from metricldp.metrics.closed import MOST_POSITIONS


@dataclass(frozen=True, repr=False)
class UnaryBits(Mechanism):
    """A bit for each value; `bits` is what each tells by being 1 and by being 0, in nats.

    Left out, the best for the metric are found when the survey is made, and saved.
    """

    bits: Any = None

    name: ClassVar[str] = "unary"  # type: ignore[misc]
    title: ClassVar[str] = "unary, best for the metric"  # type: ignore[misc]
    max_computed: ClassVar[int] = 256  # type: ignore[misc]
    max_simulated: ClassVar[int] = 256  # type: ignore[misc]

    def with_saved(self, data: Mapping[str, Any]) -> UnaryBits:
        for key in data:
            if key != "bits":
                raise SurveyError(f"mechanism 'unary' has no entry {key!r}; it has 'bits'")
        return UnaryBits(**data)

    def saved(self) -> dict[str, Any]:
        return {} if self.bits is None else {"bits": [list(pair) for pair in self.bits]}

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> UnaryBits:
        found = best_losses(metric, size) if self.bits is None else _checked(self.bits, size, label)
        return replace(self, bits=found)

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        """The integers of the bits, if they tell no more than the metric allows."""
        bits = self.settled(size, metric, label=label).bits
        pair = too_near(bits, metric, size)
        if pair is not None:
            raise SurveyError(
                f"the bits of {label(pair[0])} and {label(pair[1])} tell more than their distance "
                "allows; leave bits out, and the best are found"
            )
        return Unary.for_losses(bits)

    def kept(self, size: int, metric: Metric) -> Metric:
        """What the bits tell, added up, for as many values as have a table of distances."""
        few = len(set(self.bits)) == 1 or size <= MOST_POSITIONS
        return kept_by(self.bits) if few else metric

    def __repr__(self) -> str:
        return repr(self.name) if self.bits is None else f"<unary bits of {len(self.bits)} values>"


def _checked(bits: Any, size: int, label: Label) -> tuple[tuple[float, float], ...]:
    if not isinstance(bits, Sequence) or isinstance(bits, str) or len(bits) != size:
        raise SurveyError(
            f"bits must be a list of {size:,} pairs, one for each value, "
            f"not {shown(bits)}; leave them out, and they are found"
        )
    found = []
    for position, pair in enumerate(bits):
        of = f"the bits of {label(position)}"
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise SurveyError(f"{of} must be a pair, not {shown(pair)}")
        yes, no = (positive(f"a number of {of}", number) for number in pair)
        found.append((yes, no))
    return tuple(found)
