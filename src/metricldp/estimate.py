"""From reports to answers: sums over people of products of decoders, and nothing else.

A count, its variance and every bar of a histogram are sums over reports of a product with one
factor per attribute. The variance is one because the exact variance of a person's contribution is
itself a function of her values, prod S_d - prod f_d^2, and functions of values can be decoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from metricldp.answers import Answer
from metricldp.channels import Column, Floats, Integers
from metricldp.error import Factor, variance_bounds
from metricldp.errors import QueryError

Batch = Mapping[str, Column]
_MOST_CODES = 1 << 16
"""Up to this many joint codes are counted as integers; beyond, products are summed as floats."""


class Sums(NamedTuple):
    """Three sums over reports: of the decoders of prod f, of prod S and of prod f^2."""

    value: float
    second: float
    square: float


def to_answer(
    sums: Sums, involved: list[Factor], n: int, question: str, notes: tuple[str, ...], about: str
) -> Answer:
    """Three sums as a value with its variance.

    Of the respondents: second - square, the noise of blurring these very people. Of a population
    that n people were drawn from at random: n times the variance of one draw, unbiased as well.
    """
    low, high = (n * bound for bound in variance_bounds(involved))
    variance = sums.second - sums.square
    if about == "population":
        # Drawing people adds to the noise of blurring them, so its least possible value stays.
        variance = (sums.second - sums.value**2 / n) * n / (n - 1) if n > 1 else math.inf
        high = math.inf
    elif about != "respondents":
        raise QueryError(f"an answer is about 'respondents' or the 'population', not {about!r}")
    return Answer(sums.value, variance, question, about=about, notes=notes, bounds=(low, high))


def product_sums(batches: Iterable[Batch], involved: list[Factor]) -> Sums:
    """For each of the three decoders of every factor: the sum over reports of their product."""
    coefficients = [factor.coefficients for factor in involved]
    reader = _joint_codes(involved, coefficients)
    if reader is None:
        return _product_sums_in_floats(batches, involved, coefficients)
    table, read = reader
    counts = np.zeros(table.shape[1], dtype=np.int64)
    for batch in batches:
        counts += np.bincount(read(batch), minlength=len(counts))
    return Sums(*(table @ counts).tolist())


def _joint_codes(
    involved: list[Factor], coefficients: list[Floats]
) -> tuple[Floats, Callable[[Batch], Integers]] | None:
    """One small code for all factors of a report together, and the decoders' products there.

    Counting codes is exact, so an answer depends on the reports but not on their order. None
    where there would be too many codes.
    """
    parts = [f.channel.levels(c) for f, c in zip(involved, coefficients, strict=True)]
    table = np.ones((3, 1))
    found = []
    for part in parts:
        if part is None or table.shape[1] * part.table.shape[1] > _MOST_CODES:
            return None
        table = (table[:, :, None] * part.table[:, None, :]).reshape(3, -1)
        found.append(part)

    def read(batch: Batch) -> Integers:
        size = len(next(iter(batch.values())))
        codes: Integers = np.zeros(size, dtype=np.min_scalar_type(table.shape[1]))
        for factor, part in zip(involved, found, strict=True):
            codes *= codes.dtype.type(part.table.shape[1])
            codes += part.codes(batch[factor.name]).astype(codes.dtype)
        return codes

    return table, read


def _product_sums_in_floats(
    batches: Iterable[Batch], involved: list[Factor], coefficients: list[Floats]
) -> Sums:
    sums: list[list[float]] = [[], [], []]
    for batch in batches:
        product: Floats = np.ones((3, 1))
        for factor, weights in zip(involved, coefficients, strict=True):
            product = product * factor.channel.values(batch[factor.name], weights)
        for kind, row in zip(sums, product, strict=True):
            kind.append(float(row.sum()))
    return Sums(*(math.fsum(kind) for kind in sums))


def bar_sums(
    batches: Iterable[Batch], bars: list[Factor], involved: list[Factor]
) -> Iterator[Sums]:
    """The sums of each bar: a function of one attribute, together with the other factors.

    The other factors are read as one code per report; for each code the sums of all features of
    the bars' attribute are exact integers, and every bar is a weighted sum of those.
    """
    batches = list(batches)
    name, channel = bars[0].name, bars[0].channel
    reader = _joint_codes(involved, [factor.coefficients for factor in involved])
    if reader is None:
        for bar in bars:
            yield product_sums(batches, [*involved, bar])
        return
    table, read = reader
    totals = np.zeros((channel.features, table.shape[1]), dtype=np.int64)
    for batch in batches:
        totals += channel.totals(batch[name], read(batch), table.shape[1])
    by_kind = table @ totals.T
    for bar in bars:
        yield Sums(*(bar.coefficients * by_kind).sum(axis=1).tolist())
