"""What the theory predicts: the exact error of an answer, in the worst case or under a prior.

One person at x adds prod_d S_d(x_d) - prod_d f_d(x_d)^2 to the variance of an answer, where S_d is
the second moment of the decoder of f_d. Everything here is that expression, averaged or bounded.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from metricldp.answers.queries import Query, weight_of
from metricldp.attributes.answered import YES, response_of
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import root_of
from metricldp.basics.text import shown
from metricldp.mechanisms import Floats
from metricldp.mechanisms.workloads import Workload
from metricldp.store.extremes import Sum
from metricldp.store.readings import MAX_ROWS_TOGETHER, Readings, read, read_block, read_one
from metricldp.survey.agreement import Agreement

_TINY = 1e-300
_NOBODY = -1.0
"""Stands for the largest of no values at all."""
Prior = str | npt.ArrayLike | Mapping[str, npt.ArrayLike]
Pairs = Sequence[tuple[Floats, Floats]]
"""E[F^2] and f^2 of each attribute, (queries, size)."""


def possible_sum(functions: Mapping[str, Floats], n: int) -> tuple[float, float]:
    """The least and the most that a sum of products of functions over n people can be."""
    low = high = 1.0
    for function in functions.values():
        least, most = float(function.min()), float(function.max())
        ends = [low * least, low * most, high * least, high * most]
        low, high = min(ends), max(ends)
    return n * low, n * high


def predicted(
    survey: Agreement,
    query: Query,
    n: int,
    prior: Prior,
    weights: Mapping[str, npt.ArrayLike] | None = None,
) -> float:
    """The standard error of a sum over n people, exact for the prior.

    With weights, a sample of them by name, of the weighted sum; they are taken to be independent
    of the other attributes.
    """
    readings = read(survey, query.functions)
    if isinstance(prior, str) and prior == "worst":
        _, pairs = _fronts([(second[0], square[0]) for second, square in readings.pairs()])
    else:
        pairs = np.array([_means(survey, readings, query, prior)])
    second, square = _weight_pair(survey, weights)
    return math.sqrt(n * max(0.0, float((pairs[:, 0] * second - pairs[:, 1] * square).max())))


def predicted_total(
    survey: Agreement, attribute: str, workload: Workload, n: int, prior: Prior
) -> float:
    """The sum over all rows of a workload of their squared standard errors, exact for the prior.

    A second moment is quadratic in the row, so the rows of any root of W^T W have the same total
    as those of W: there are as many of them as positions, however long W is. Where values are
    rounded at random, or decoders do not add up, the rows themselves are read. In the worst case
    everybody is where the sum over all rows is largest, not where each row is.
    """
    worst = isinstance(prior, str) and prior == "worst"
    starts = range(0, workload.rows, MAX_ROWS_TOGETHER)
    blocks: Iterable[Floats]
    blocks = (workload.rows_block(start, start + MAX_ROWS_TOGETHER) for start in starts)
    second = square = np.zeros(())
    joint = survey.block_of(attribute)
    if joint and joint.channel.one is not None:
        blocks = [root_of(workload.gram())]
    if joint and not worst and joint.channel.one is None:
        queries = (Query({attribute: row}, attribute) for rows in blocks for row in rows)
        return math.fsum(predicted(survey, query, n, prior) ** 2 for query in queries)
    if joint:
        for rows in blocks:
            reading = read_block(joint, *({attribute: row} for row in rows))
            second, square = second + reading.summed(1), square + reading.summed(2)
    else:
        if (
            not survey.attributes[attribute].rounded_at_random
            and survey.channels[attribute].moments.is_linear
        ):
            blocks = [root_of(workload.gram())]
        for rows in blocks:
            ((seconds, squares),) = read_one(survey, attribute, rows).pairs()
            second, square = second + seconds.sum(axis=0), square + squares.sum(axis=0)
    others = [c for name, c in survey.channels.items() if name != attribute]
    for channel in others:
        if not channel.moments.knows_total:
            second = second * float(channel.moments.second_moment(np.ones(channel.size))[0])
    if survey.attributes[attribute].optional is not None:
        no, yes = survey.channels[response_of(attribute)].moments.second_moment(
            YES.inside.astype(np.float64)
        )
        if worst:  # wherever people are, and whether they answer or not
            return n * max(0.0, float((yes * second - square).max()), float((no * second).max()))
        second = yes * second
    if worst:
        return n * max(0.0, float((second - square).max()))
    if joint:
        sizes = dict(zip(joint.names, joint.sizes, strict=True))
        sums: list[Sum] = [[(1.0, {joint.names: second - square})]]
        return n * max(0.0, _mean_of(sums, sizes, shares_of(sizes, prior)))
    return n * max(0.0, mean(shares_of({attribute: workload.size}, prior), [second - square]))


def _weight_pair(
    survey: Agreement, weights: Mapping[str, npt.ArrayLike] | None
) -> tuple[float, float]:
    """What a weight multiplies E[F^2] and f^2 with, mean over its sample."""
    if not weights:
        return 1.0, 1.0
    ((name, sample),) = weights.items()
    described = weight_of(survey, name)
    values = np.asarray(sample, dtype=np.float64)
    if values.size == 0 or not ((values >= described.low) & (values <= described.high)).all():
        raise QueryError(f"weights of {name} lie between {described.low} and {described.high}")
    square = float((values**2).mean())
    if described.is_public:
        return square, square
    low, high = survey.channels[name].moments.second_moment(described.ends)
    share = (values.mean() - described.low) / (described.high - described.low)
    return float(low + (high - low) * share), square


def variance_bounds(pairs: Pairs) -> tuple[Floats, Floats]:
    """The least and the most that one person, wherever they are, adds to each query's variance."""
    if not pairs:  # everybody is known
        return np.zeros(1), np.zeros(1)
    if all(((square == 0) | (square == 1)).all() for _, square in pairs):
        return _indicator_bounds(pairs)
    if len(pairs) == 1:
        apart = _differences(*pairs[0])
        return apart.min(axis=1), apart.max(axis=1)
    queries = range(len(pairs[0][0]))
    fronts = [_fronts([(second[q], square[q]) for second, square in pairs]) for q in queries]
    least = [_differences(lowest[:, 0], lowest[:, 1]).min() for lowest, _ in fronts]
    most = [_differences(highest[:, 0], highest[:, 1]).max() for _, highest in fronts]
    return np.array(least), np.array(most)


def _indicator_bounds(pairs: Pairs) -> tuple[Floats, Floats]:
    """The same where every f^2 is 0 or 1: the extremes of E[F^2] inside and outside decide.

    Inside every range a person adds the product less 1, outside of at least one the product.
    """
    queries = len(pairs[0][0])
    inside_low, inside_high = np.ones(queries), np.ones(queries)
    outside_low, outside_high = np.full(queries, np.inf), np.full(queries, _NOBODY)
    for second, square in pairs:
        inside = square == 1
        kept = np.maximum(second, _TINY)  # infinity times zero is no number
        here_low = np.min(kept, axis=1, where=inside, initial=np.inf)
        here_high = np.max(kept, axis=1, where=inside, initial=_NOBODY)
        there_low = np.min(kept, axis=1, where=~inside, initial=np.inf)
        there_high = np.max(kept, axis=1, where=~inside, initial=_NOBODY)
        either_low, either_high = np.minimum(here_low, there_low), np.maximum(here_high, there_high)
        outside_low = np.minimum(outside_low * either_low, inside_low * there_low)
        outside_high = np.maximum(
            _times(outside_high, either_high), _times(inside_high, there_high)
        )
        inside_low, inside_high = inside_low * here_low, _times(inside_high, here_high)
    least = np.minimum(outside_low, _differences(inside_low, 1.0))
    return least, np.maximum(outside_high, _differences(inside_high, 1.0))


def _times(one: Floats, other: Floats) -> Floats:
    """Products of largest values; where there is nobody on one side, there is nobody."""
    return np.where((one < 0) | (other < 0), _NOBODY, one * other)


def _differences(first: Floats, second: Floats | float) -> Floats:
    """First less second, and zero where only rounding keeps them apart."""
    apart = first - second
    return np.where(np.isinf(first) | (apart > 1e-14 * first), apart, 0.0)


def _fronts(factors: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The pairs (product of E[F^2], product of f^2) that can make their difference extreme.

    Attributes are joined one at a time, and only those pairs are kept that some later factor
    could still make the smallest or the largest.
    """
    lowest = highest = np.array([[1.0, 1.0]])
    for second, square in factors:
        lowest = _front(_products(lowest, _extremes(second, square, np.minimum)), sign=-1)
        highest = _front(_products(highest, _extremes(second, square, np.maximum)), sign=1)
    return lowest, highest


def _extremes(second: Floats, square: Floats, better: np.ufunc) -> Floats:
    """The pairs of one attribute; of an indicator just the best inside and the best outside."""
    inside = square == 1
    if not (inside | (square == 0)).all():
        return np.stack([second, square], axis=1)
    worst = -np.inf if better is np.maximum else np.inf
    ends = [better.reduce(second, where=where, initial=worst) for where in (~inside, inside)]
    pairs = np.array([[ends[0], 0.0], [ends[1], 1.0]])
    return np.asarray(pairs[np.isfinite(pairs[:, 0])])


def _products(one: Floats, other: Floats) -> Floats:
    return np.asarray((one[:, None, :] * other[None, :, :]).reshape(-1, 2))


def _front(pairs: Floats, sign: int) -> Floats:
    """The pairs with no other that is better in both: larger first and smaller second, for +1."""
    order = np.lexsort((sign * pairs[:, 1], -sign * pairs[:, 0]))
    ranked = sign * pairs[order, 1]
    best_before = np.concatenate([[np.inf], np.minimum.accumulate(ranked)[:-1]])
    return np.asarray(pairs[order][ranked < best_before])


def _means(survey: Agreement, readings: Readings, query: Query, prior: Prior) -> list[float]:
    """The means of E[F^2] and f^2 over people spread as the prior says.

    That takes the attributes asked about, and those blurred together with them where E[F^2] differs
    in them all the same. Everybody answers what is optional, unless the prior says otherwise.
    """
    whether = {name: a for name, a in survey.attributes.items() if a.asks_whether}
    if isinstance(prior, Mapping):
        whether = {name: a for name, a in whether.items() if name not in prior}
    found = [
        _all_answered([part.terms(row, readings.rows) for part in readings.parts], whether)
        for row in ("second", "square")
    ]
    varying = {
        name
        for sums in found
        for terms in sums
        for _, factors in terms
        for names in factors
        for name in names
    }
    named = [
        n for n in survey.attributes if (n in varying or n in query.factors) and n not in whether
    ]
    sizes = {name: survey.attributes[name].size for name in named if name in survey.mechanisms}
    shares = shares_of(sizes, prior)
    return [_mean_of(sums, sizes, shares) for sums in found]


def _all_answered(sums: list[Sum], whether: Collection[str]) -> list[Sum]:
    """The same sums where everybody has answered: "yes" is the last position."""
    return [
        [
            (
                scale * math.prod(float(f[-1]) for (n, *_), f in functions.items() if n in whether),
                {names: f for names, f in functions.items() if names[0] not in whether},
            )
            for scale, functions in terms
        ]
        for terms in sums
    ]


def _mean_of(sums: list[Sum], sizes: Mapping[str, int], shares: list[Floats] | Floats) -> float:
    """The mean of a product of sums over people spread like that over these attributes."""
    axes, found = {name: axis for axis, name in enumerate(sizes)}, 0.0
    for terms in product(*sums):
        scale = math.prod(scale for scale, _ in terms)
        factors = [pair for _, functions in terms for pair in functions.items()]
        if isinstance(shares, list):
            for names, f in factors:
                for name in reversed(names):
                    f = f @ shares[axes[name]]  # noqa: PLW2901
                scale *= float(f)
        elif factors:
            parts: list[Any] = [
                part for names, f in factors for part in (f, [axes[name] for name in names])
            ]
            parts = [shares, [*axes.values()], *parts, []]
            scale *= float(np.einsum(*parts, optimize=True))
        found += scale
    return found


def mean(shares: list[Floats] | Floats, functions: list[Floats]) -> float:
    """The mean of a product: factor by factor if independent, else over the joint shares."""
    if isinstance(shares, list):
        return math.prod(float(p @ f) for p, f in zip(shares, functions, strict=True))
    for function in reversed(functions):
        shares = shares @ function
    return float(shares)


def shares_of(sizes: Mapping[str, int], prior: Prior) -> list[Floats] | Floats:
    """How people are spread over the named attributes: one array each, or one joint array."""
    if isinstance(prior, str):
        if prior != "uniform":
            known = "'worst', 'uniform' or arrays of fractions"
            raise QueryError(f"a prior is {known}, not {shown(prior)}")
        return [np.full(size, 1 / size) for size in sizes.values()]
    if isinstance(prior, Mapping):
        missing = [name for name in sizes if name not in prior]
        if missing:
            raise QueryError(f"the prior has no entry for {missing[0]}; add an array for it")
        return [_normalised(prior[name], (size,), name) for name, size in sizes.items()]
    return _normalised(prior, tuple(sizes.values()), " x ".join(sizes) or "nothing")


def _normalised(shares: npt.ArrayLike, sizes: tuple[int, ...], name: str) -> Floats:
    array = np.asarray(shares, dtype=np.float64)
    if array.shape != sizes:
        raise QueryError(f"a prior for {name} has shape {sizes}, not {array.shape}")
    total = array.sum()
    if not np.isfinite(array).all() or (array < 0).any() or total <= 0:
        raise QueryError(f"a prior for {name} is a list of fractions: finite, none below zero")
    return np.asarray(array / total)
