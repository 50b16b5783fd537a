"""P(y | x) <= e^E P(y | x'): every event that is looked at, for every pair that is asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from metricldp.lab.audit.design import Design, Pair, Rows
from metricldp.lab.audit.sample import Counts, Features, Sample
from metricldp.lab.audit.trials import Family, Floats, Prospect, from_odds, promising
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.fields import Column
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp_core.exact import log_of
from metricldp_core.random_words import FRACTION_BITS

_FEW_BITS = 14
"""A field of so many bits has few reports: the law of each is worked out once."""
_ROWS = 1 << 11
"""Reports of each person for which the law of a longer field is worked out, about."""
_MANY_BITS = 64
"""Beyond, this takes too long; such fields are bits or numbers that tell enough one by one."""
_CERTAIN = 50.0
"""Stands for a log-ratio that is infinite."""
_SUMMED = 1 << 18
"""Reports that are counted at a time in 32-bit floats, which know all whole numbers to 2^24."""
_PLACES = 24
"""Where scores are cut."""


@dataclass(frozen=True)
class Table:
    """Counts of features by group, and how many reports each group has."""

    counts: Counts
    sizes: Counts

    def __add__(self, other: Table) -> Table:
        return Table(self.counts + other.counts, self.sizes + other.sizes)

    def events(self, group: int) -> Counts:
        """That a feature is there, and that it is not: (2, features)."""
        own = self.counts[group]
        return np.stack([own, self.sizes[group] - own])


def table(features: Features, sample: Sample, groups: Sequence[Rows]) -> Table:
    return Table(features.counts(sample, groups), np.array([len(rows) for rows in groups]))


def both_ways(first: Counts, second: Counts) -> tuple[Counts, Counts]:
    """Hits of the one and of both, and the other way round: (2, ...)."""
    return np.stack([first, second]), np.stack([first + second] * 2)


def test_pairs(family: Family, found: Table, pairs: Sequence[Pair], names: Sequence[str]) -> None:
    """Every feature, there or not, either way round."""
    for pair in pairs:
        hits, total = both_ways(found.events(pair.first), found.events(pair.second))

        def tell(
            at: tuple[int, ...], pair: Pair = pair, hits: Any = hits, total: Any = total
        ) -> str:
            event = f"{'no ' if at[1] else ''}{names[at[2]]}"
            return ratio_words(pair, event, int(hits[at]), int(total[at]))

        family.above(hits, total, from_odds(pair.allowed), tell, pair.about)


def ratio_words(pair: Pair, event: str, hits: int, total: int) -> str:
    seen = f"{hits:,} against {total - hits:,} reports"
    allowed = f"{math.exp(pair.allowed):.4g}" if pair.allowed < 10 else f"e^{pair.allowed:.4g}"
    return f"{pair.words}, {event}: {seen}, a ratio of at most {allowed} is allowed"


# Pools -------------------------------------------------------------------------------------------


Event = tuple[int, ...]
"""The way round, whether it is absent, and which feature."""


def best_event(reference: Table, pair: Pair) -> Event:
    """The event that would show best what is wrong with a pair, as the promised law has it."""
    hits, total = both_ways(reference.events(pair.first), reference.events(pair.second))
    score = promising(np.minimum(hits, total * from_odds(pair.allowed)), total, pair.allowed)
    return tuple(int(k) for k in np.unravel_index(int(np.argmax(score)), score.shape))


def seen(found: Table, pairs: Sequence[Pair], events: Sequence[Event]) -> tuple[int, int]:
    """Reports that have the event of their pair, of the value that has it more often and of both.

    Over pairs with nothing in common: their counts add up.
    """
    hits = total = 0
    for pair, event in zip(pairs, events, strict=True):
        both, whole = both_ways(found.events(pair.first), found.events(pair.second))
        hits, total = hits + int(both[event]), total + int(whole[event])
    return hits, total


def test_pool(family: Family, found: Table, pool: Sequence[Pair], events: Sequence[Event]) -> None:
    """Each pair with the event that would tell."""
    hits, total = seen(found, pool, events)
    words = f"{pool[0].words}, and {len(pool) - 1} similar pairs"
    whole_pair = pool[0]._replace(words=words)
    told = ratio_words(whole_pair, "the best event of each pair", hits, total)
    family.single(hits, total, from_odds(pool[0].allowed), told, whole_pair.about)


# Two features at once ----------------------------------------------------------------------------


def pairs_of_features(features: Features, rows: Rows) -> Counts:
    """How often two features are both there, one, the other or none: (4, pairs of features)."""
    both = np.zeros((len(features.together),) * 2, dtype=np.int64)
    for start in range(0, len(rows), _SUMMED):
        matrix = features.matrix(rows[start : start + _SUMMED])
        both += (matrix.T @ matrix).astype(np.int64)
    own, upper = np.diag(both), np.triu_indices(len(both), 1)
    first, second = own[upper[0]] - both[upper], own[upper[1]] - both[upper]
    return np.stack([both[upper], first, second, len(rows) - both[upper] - first - second])


TOGETHER = ("{} and {}", "{} and no {}", "no {} and {}", "neither {} nor {}")


# Likelihood ratios -------------------------------------------------------------------------------


def test_scores(
    family: Family, pair: Pair, learnt: Scores, tried: Scores, event: str
) -> list[Prospect]:
    """Reports whose score is high, or low: where it is cut is learnt from others than are tried."""
    if not len(learnt[0]) or not len(learnt[1]):
        return []
    prospects = []
    scale = (len(tried[0]) + len(tried[1])) / (len(learnt[0]) + len(learnt[1]))
    for sign in (1, -1):
        (mine, other), (own, others) = ((sign * s[0], sign * s[1]) for s in (learnt, tried))
        if sign < 0:
            mine, other, own, others = other, mine, others, own
        places = np.quantile(np.concatenate([mine, other]), np.linspace(0.02, 0.98, _PLACES))
        hits = np.array([(mine >= place).sum() for place in places])
        total = hits + np.array([(other >= place).sum() for place in places])
        best = int(np.argmax(promising(hits, total, pair.allowed)))
        cut = places[best]
        expected = float(scale * hits[best]), float(scale * total[best])
        prospects.append(Prospect(family, pair.allowed, *expected))
        seen = int((own >= cut).sum())
        both = seen + int((others >= cut).sum())
        told = ratio_words(pair, event, seen, both)
        family.single(seen, both, from_odds(pair.allowed), told, pair.about)
    return prospects


Scores = tuple[Floats, Floats]
"""Of the reports of the first of two people, and of the second."""


def naive(features: Features, sample: Sample, kinds: tuple[int, int]) -> Floats:
    """Weights of bits, as if they were independent: log-ratios of their odds."""
    logs = []
    for kind in kinds:
        bits = features.matrix(sample.rows[sample.of(kind)])
        ones = bits.sum(axis=0, dtype=np.float64) + 0.5
        logs.append(np.log(ones) - np.log(len(bits) + 1 - ones))
    return np.asarray(logs[0] - logs[1], dtype=np.float64)


def scored(features: Features, sample: Sample, kinds: tuple[int, int], weights: Floats) -> Scores:
    first, second = (features.matrix(sample.rows[sample.of(kind)]) @ weights for kind in kinds)
    return first, second


class Law:
    """The log-ratio of what the survey's law says of a report of two people."""

    def __init__(self, survey: Agreement, features: Features, design: Design) -> None:
        self.survey, self.people = survey, design.people.people
        self._places = {name: (start, end) for name, start, end in features.columns}

    def scores(self, sample: Sample, pair: Pair) -> Scores:
        first, second = (self._scores(sample, kind, pair) for kind in (pair.first, pair.second))
        return first, second

    def _scores(self, sample: Sample, kind: int, pair: Pair) -> Floats:
        parts = list(self._parts(pair))
        longest = max((self._bits(columns) for columns, *_ in parts), default=0)
        has_law = all(block.channel.has_likelihood for block in self.survey.blocks.values())
        if longest > _MANY_BITS or not has_law:
            return np.zeros(0)
        if longest > _FEW_BITS:
            sample = sample.part(slice(2 * _ROWS * len(self.people)))
        rows = sample.rows[sample.of(kind)]
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        score, valid = np.zeros(len(rows)), np.ones(len(rows), dtype=bool)
        for columns, law, ends in parts:
            fields = {name: self.survey.fields[name] for name in columns}
            cut = {name: bits[:, slice(*self._places[name])] for name in columns}
            read = {name: field.unpack(cut[name]) for name, field in fields.items()}
            for name, field in fields.items():
                valid &= ~field.invalid(read[name])
            whole = np.concatenate([np.packbits(c, axis=1) for c in cut.values()], axis=1)
            _, first, inverse = np.unique(whole, axis=0, return_index=True, return_inverse=True)
            known = np.zeros(len(first))
            for at, row in enumerate(first.tolist()):
                if valid[row]:
                    report = {name: column[row] for name, column in read.items()}
                    known[at] = _log_ratio(*(law(end, report) for end in ends))
            score += known[inverse.reshape(-1)]
        return score[valid]

    def _bits(self, columns: Sequence[str]) -> int:
        return sum(self.survey.fields[name].bits for name in columns)

    def _parts(self, pair: Pair) -> Iterator[tuple[list[str], Any, tuple[Any, Any]]]:
        """What is blurred by itself: its columns, its law, and the positions of both people."""
        people = self.people[pair.first], self.people[pair.second]
        for name, channel in self.survey.channels.items():
            attribute = self.survey.attributes[name]
            source = attribute.source(name)
            ends = tuple(attribute.position_if_any(p[source], name, clip=True) for p in people)

            law = _rounded(channel) if attribute.rounded_at_random else channel.probability
            if ends[0] != ends[1]:
                yield [name], partial(_alone, law, name), (ends[0], ends[1])
        for block in self.survey.blocks.values():
            where = tuple(
                tuple(self.survey.attributes[n].position(p[n], n, clip=True) for n in block.names)
                for p in people
            )
            if where[0] != where[1]:
                yield list(block.columns.values()), partial(_joint, block), (where[0], where[1])


def _alone(law: Probability, name: str, end: int, report: dict[str, Column]) -> Fraction:
    return law(end, report[name])


def _joint(block: Block, end: tuple[int, ...], report: dict[str, Column]) -> Fraction:
    own = {part: int(report[name]) for part, name in block.columns.items()}
    return block.channel.probability(end, own)


def _rounded(channel: Channel) -> Probability:
    """The law of a position between two points: a mixture of theirs."""

    def law(end: int, report: Column) -> Fraction:
        point, rest = end >> FRACTION_BITS, Fraction(end % _POINT, _POINT)
        low = channel.probability(point, report)
        return low if not rest else (1 - rest) * low + rest * channel.probability(point + 1, report)

    return law


_POINT = 1 << FRACTION_BITS
Probability = Callable[[int, Column], Fraction]


def _log_ratio(p: Fraction, q: Fraction) -> float:
    if p > 0 and q > 0:
        return log_of(p / q) if p >= q else -log_of(q / p)
    return _CERTAIN * ((p > 0) - (q > 0))
