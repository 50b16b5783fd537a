"""P(report | position) as an exact fraction, for every output distribution of the trusted core."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import singledispatch

from metricldp_core import distributions as core
from metricldp_core.exact import WORD
from metricldp_core.levels import Additive


@singledispatch
def exact_probability(distribution: core.Distribution, x: int, report: int) -> Fraction:
    """Return P(report | x), computed from the stored integers alone."""
    raise TypeError(f"the probabilities of {distribution.kind!r} are not known")


@exact_probability.register
def _(distribution: core.RandomizedResponse, x: int, report: int) -> Fraction:
    if report == x:
        return Fraction(distribution.keep, WORD)
    return Fraction(WORD - distribution.keep, WORD * (distribution.size - 1))


@exact_probability.register
def _(distribution: core.Threshold, x: int, report: int) -> Fraction:
    flipped = report ^ (1 << distribution.bits) - (1 << x)
    flips = enumerate(distribution.flips)
    parts = (flip if flipped >> k & 1 else WORD - flip for k, flip in flips)
    return Fraction(math.prod(parts), WORD**distribution.bits)


@exact_probability.register
def _(distribution: core.Unary, x: int, report: int) -> Fraction:
    ones = list(distribution.other)
    ones[x] = distribution.own[x]
    parts = (one if report >> k & 1 else WORD - one for k, one in enumerate(ones))
    return Fraction(math.prod(parts), WORD**distribution.bits)


@exact_probability.register
def _(distribution: core.Table, x: int, report: int) -> Fraction:
    return Fraction(distribution.weights[x][report], WORD)


@exact_probability.register
def _(distribution: core.Geometric, x: int, report: int) -> Fraction:
    if 0 < report < distribution.size - 1:
        return noise_probability(distribution, report - x)
    distance = x if report == 0 else distribution.size - 1 - x
    tail = noise_tail(distribution, max(distance, 1))
    return tail if distance else tail + noise_probability(distribution, 0)


@exact_probability.register
def _(distribution: core.LazyGeometric, x: int, report: int) -> Fraction:
    stays = distribution.end if x in (0, distribution.size - 1) else distribution.keep
    moved = exact_probability(distribution.geometric, x, report) * (1 - Fraction(stays, WORD))
    return moved + Fraction(stays, WORD) if report == x else moved


@exact_probability.register
def _(distribution: core.Matrix, x: int, report: int) -> Fraction:
    probability = Fraction(1)
    for row in distribution.rows:
        y = report & (1 << row.noise.bits) - 1
        probability *= exact_probability(row.noise, row.entries[x] - row.low, y)
        report >>= row.noise.bits
    return probability


@exact_probability.register
def _(distribution: core.Memoised, x: int, report: int) -> Fraction:
    first, second = distribution.first, distribution.second
    if isinstance(second, core.RandomizedResponse):
        kept, moved = (
            exact_probability(second, z, report) for z in (report, (report + 1) % second.size)
        )
        return moved + (kept - moved) * exact_probability(first, x, report)
    parts = (
        exact_probability(first, x, z) * exact_probability(second, z, report)
        for z in range(first.outputs)
    )
    return sum(parts, Fraction(0))


@exact_probability.register
def _(distribution: Additive, x: int, report: int) -> Fraction:
    j, y = divmod(report, distribution.ring)
    depths, levels = distribution.depths[j], distribution.levels[j]
    level = levels[depths[(y - distribution.place(x)) % distribution.ring]]
    return Fraction(level, len(distribution.depths) * sum(levels[depth] for depth in depths))


def noise_probability(noise: core.Geometric, value: int) -> Fraction:
    """The probability that noise, before it is clipped, is `value`."""
    if value == 0:
        return Fraction(noise.zero, WORD)
    blocks, rest = divmod(abs(value) - 1, 1 << len(noise.digits))
    probability = Fraction(WORD - noise.zero, 2 * WORD) * Fraction(noise.block, WORD) ** blocks
    probability *= Fraction(WORD - noise.block, WORD)
    for j, digit in enumerate(noise.digits):
        probability *= Fraction(digit if rest >> j & 1 else WORD - digit, WORD)
    return probability


def noise_tail(noise: core.Geometric, value: int) -> Fraction:
    """The probability that noise, before it is clipped, is `value` or more, for value >= 1."""
    blocks, rest = divmod(value - 1, 1 << len(noise.digits))
    block, at_least = Fraction(noise.block, WORD), Fraction(1)
    for j, digit in enumerate(noise.digits):  # of the digits being `rest` or more, lowest first
        one = Fraction(digit, WORD)
        at_least = one * at_least if rest >> j & 1 else one + (1 - one) * at_least
    inside = (1 - block) * at_least + block
    return Fraction(WORD - noise.zero, 2 * WORD) * block**blocks * inside
