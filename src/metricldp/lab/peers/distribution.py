"""Output distributions of baselines, which devices do not support."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, NoReturn, cast

import numpy as np

from metricldp.channels.plain_data import word
from metricldp_core.canonical import Entry
from metricldp_core.distributions import Distribution, Invariance
from metricldp_core.exact import CERTAIN
from metricldp_core.random_words import Words


class ChannelDistribution(Distribution):
    """The distribution of a channel that draws and compares by itself."""

    def __init__(self, channel: Any) -> None:
        self.channel, self.kind = channel, channel.mechanism  # type: ignore[misc]
        self.bits = channel.bits
        joint = hasattr(channel, "sizes") and hasattr(channel, "fields")
        self._sizes: tuple[int, ...] | None = channel.sizes if joint else None
        self.size = prod(channel.sizes) if joint else channel.size

    @property
    def invariance(self) -> Invariance:  # type: ignore[override]
        return "all" if self.channel.same_ratio_for_all_pairs else "none"

    def _cell(self, position: int) -> Any:
        if self._sizes is None:
            return position
        return tuple(int(x) for x in np.unravel_index(position, self._sizes))

    def draw(self, position: int, words: Words) -> int:
        if self._sizes is None:
            return int(self.channel.blur(position, words))
        report = start = 0
        drawn = self.channel.draw(self._cell(position), words)
        for number, field in zip(drawn, self.channel.fields.values(), strict=True):
            report |= int(number) << start
            start += field.bits
        return report

    def ratio(self, x: int, other: int) -> Fraction:
        ratio: Fraction = self.channel.worst_ratio(self._cell(x), self._cell(other))
        return ratio

    def largest_ratio(self) -> Fraction:
        return self.ratio(0, 1) if self.invariance == "all" else CERTAIN

    def is_possible(self, report: int) -> bool:
        fields = [self.channel.field] if self._sizes is None else self.channel.fields.values()
        for field in fields:
            impossible = field.impossible()
            if impossible is not None and impossible(report & (1 << field.bits) - 1):
                return False
            report >>= field.bits
        return True

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.channel.law()
        return {"kind": data.pop("law"), **data}

    @classmethod
    def read(cls, entry: Entry) -> NoReturn:
        entry.reject("has a distribution of a baseline, which is not supported")


class Baseline:
    """A channel with its own `blur` or `draw`, `worst_ratio` and `law`."""

    same_ratio_for_all_pairs = False

    def law(self) -> dict[str, Any]:
        """The integers of the sampler as plain data."""
        found = {f.name: _plain(getattr(self, f.name)) for f in fields(cast(Any, self))}
        return {"law": cast(Any, self).mechanism, **found}

    @cached_property
    def distribution(self) -> Distribution:
        return ChannelDistribution(self)


def _plain(value: Any) -> Any:
    """Probabilities as hexadecimal text, sequences as lists."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return word(value) if isinstance(value, int) and value >= 1 << 53 else value
