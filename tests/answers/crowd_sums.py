"""Sums over the reports of a whole crowd, drawn at once and many times over.

People stand at few places, so the sum of a feature over them is a few binomial or multinomial
draws, not one draw per person: a thousand repetitions cost milliseconds for any number of people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from metricldp.answers.tally import Tally
from metricldp.mechanisms import Channel, Floats, IntegerChannel
from metricldp.mechanisms.matrix_channel import MatrixChannel
from metricldp.mechanisms.threshold import ThresholdChannel
from metricldp.mechanisms.unary_channel import UnaryChannel
from metricldp.store.base import Store
from metricldp.store.cubes import Table
from metricldp.store.readings import Readings
from metricldp.survey.agreement import Agreement
from metricldp_core.exact import WORD

People = Sequence[tuple[tuple[int, ...], Any]]
"""A position of each attribute, and how many people stand there, in each repetition."""


def chances(channel: Channel) -> Floats:
    """P(bit = 1 | x) of a channel of bits, or P(report | x): (size, bits or reports)."""
    if isinstance(channel, ThresholdChannel):
        flip = channel.distribution.flips[0] / WORD
        below = np.arange(channel.size)[:, None] <= np.arange(channel.bits)
        return np.where(below, 1 - flip, flip)
    if isinstance(channel, UnaryChannel):
        other = np.array([word / WORD for word in channel.distribution.other])
        found = np.tile(other, (channel.size, 1))
        np.fill_diagonal(found, [word / WORD for word in channel.distribution.own])
        return found
    assert isinstance(channel, IntegerChannel)
    law = np.maximum(channel.moments.probabilities, 0.0)
    return law / law.sum(axis=1, keepdims=True)


def features(channel: Channel, people: People, reps: int, rng: np.random.Generator) -> Floats:
    """Sums of all features over people with one attribute: (reps, features)."""
    counts = [np.broadcast_to(count, reps) for _, count in people]
    pairs = list(zip((x for (x,), _ in people), counts, strict=True))
    n = sum(counts)[:, None]
    if isinstance(channel, MatrixChannel):  # windows so wide that nothing is ever clipped
        true = sum(count[:, None] * channel.entries[:, x] for x, count in pairs)
        keeps = [-np.expm1(-noise.epsilon) for noise in channel.noises]
        up, down = (rng.negative_binomial(n, keeps) for _ in range(2))
        return np.concatenate([n, true + up - down, 0 * true], axis=1)
    law = chances(channel)
    if not channel.is_bits:
        return sum(rng.multinomial(count, law[x]) for x, count in pairs)
    ones = sum(rng.binomial(count[:, None], law[x]) for x, count in pairs)
    return np.concatenate([n, 2 * ones - n], axis=1)


def sums(
    readings: Readings, people: People, reps: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """What a store would add up for one query: (reps,) by the name of each row."""
    if len(readings.parts) == 1:
        (reading,) = readings.parts
        drawn = features(reading.channel, people, reps, rng)
        return dict(zip(readings.rows, reading.coefficients @ drawn.T, strict=True))
    tables, laws = zip(*map(_kinds, readings.parts), strict=True)
    values = np.ones((len(readings.rows), 1))
    for table in tables:
        values = (values[:, :, None] * table[:, None, :]).reshape(len(values), -1)
    found = np.zeros((len(readings.rows), reps))
    for places, count in people:
        law = np.ones(1)
        for x, part in zip(places, laws, strict=True):
            law = np.outer(law, part[x]).ravel()
        found += values @ rng.multinomial(np.broadcast_to(count, reps), law / law.sum()).T
    return dict(zip(readings.rows, found, strict=True))


def _kinds(reading: Any) -> tuple[Floats, Floats]:
    """The decoders at each kind of report that they tell apart, and P(kind | x)."""
    channel, coefficients, law = reading.channel, reading.coefficients, chances(reading.channel)
    if not channel.is_bits:
        _, first, code = np.unique(
            np.round(coefficients, 9), axis=1, return_index=True, return_inverse=True
        )
        merged = np.zeros((len(first), len(law)))
        np.add.at(merged, code.reshape(-1), law.T)
        return coefficients[:, first], merged.T
    used = np.flatnonzero(coefficients[:, 1:].any(axis=0))
    ones = np.arange(1 << len(used))[:, None] >> np.arange(len(used)) & 1
    table = coefficients[:, :1] + coefficients[:, 1 + used] @ (2 * ones.T - 1)
    each = np.where(ones == 1, law[:, None, used], 1 - law[:, None, used])
    return table, each.prod(axis=2)


class Drawn(Store):
    """Sums of all features of a survey with one attribute, as they were drawn."""

    def __init__(self, survey: Agreement, n: int, drawn: Floats) -> None:
        self.survey, self._n, self._drawn = survey, n, drawn

    @property
    def n(self) -> int:
        return self._n

    def sums(self, asked: Any, layout: str, weight: str | None = None) -> dict[str, Floats]:
        (reading,) = asked.parts
        return asked.named(reading.coefficients @ self._drawn)

    def opened(self, readings: Readings, attribute: str) -> tuple[dict[str, Floats], str]:
        return dict.fromkeys(readings.rows, self._drawn[None]), "cells"

    def table_of(self, names: tuple[str, ...]) -> Table:
        return Table(dict(self.survey.channels), self._drawn.astype(np.int64))

    def layout_for(self, names: tuple[str, ...], questions: int = 1) -> str:
        return "cells"

    def _never(self, *_: object, **__: object) -> Any:
        raise NotImplementedError

    add = merge = holds = weight_squares = save = _never


def tallies(
    survey: Agreement, people: People, reps: int, rng: np.random.Generator
) -> Iterator[Tally]:
    """What is collected of the same people, or of the same number of them, again and again."""
    (channel,) = survey.channels.values()
    n = int(np.broadcast_to(sum(np.asarray(count) for _, count in people), reps)[0])
    for drawn in features(channel, people, reps, rng):
        yield Tally(Drawn(survey, n, drawn))
