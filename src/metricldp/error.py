"""What the theory predicts: the exact error of an answer, in the worst case or under a prior.

One person at x adds prod_d S_d(x_d) - prod_d f_d(x_d)^2 to the variance of an answer, where S_d is
the second moment of the decoder of f_d. Everything here is that expression, averaged or bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from metricldp.channels import Floats
from metricldp.errors import QueryError
from metricldp.queries import Query, weight_of
from metricldp.readings import TOGETHER, Reading, read, read_one
from metricldp.survey import Survey
from metricldp.values import is_number
from metricldp.workloads import Workload

_TINY = 1e-300
_NOBODY = -1.0
"""Stands for the largest of no values at all."""
Prior = str | npt.ArrayLike | Mapping[str, npt.ArrayLike]


def predicted(
    survey: Survey,
    query: Query,
    n: int,
    prior: Prior,
    weights: Mapping[str, npt.ArrayLike] | None = None,
) -> float:
    """The standard error of a sum over n people, exact for the prior.

    With weights, a sample of them by name, of the weighted sum; they are taken to be independent
    of the other attributes.
    """
    if n < 1:
        raise QueryError(f"an error needs at least one person, not n = {n}")
    readings = read(survey, query.functions)
    if isinstance(prior, str) and prior == "worst":
        _, pairs = _fronts([(r.functions[1], r.functions[2]) for r in readings])
    else:
        pairs = np.array([_mean_pair(readings, query, prior)])
    second, square = _weight_pair(survey, weights)
    return math.sqrt(n * max(0.0, float((pairs[:, 0] * second - pairs[:, 1] * square).max())))


def predicted_total(
    survey: Survey, attribute: str, workload: Workload, n: int, prior: Prior
) -> float:
    """The sum over all rows of a workload of their squared standard errors, exact for the prior.

    A second moment is quadratic in the row, so the rows of any root of W^T W have the same total
    as those of W: there are as many of them as positions, however long W is. Where values are
    rounded at random, or decoders do not add up, the rows themselves are read.
    """
    blocks: Iterable[Floats]
    if survey.attributes[attribute].rounds or not survey.channels[attribute].linear:
        starts = range(0, workload.rows, TOGETHER)
        blocks = (workload.rows_block(start, start + TOGETHER) for start in starts)
    else:
        blocks = [_root(workload.gram())]
    second = square = np.zeros(workload.size)
    for block in blocks:
        reading = read_one(survey, attribute, block)
        _, seconds, squares = reading.functions.reshape(3, len(block), -1)
        second, square = second + seconds.sum(axis=0), square + squares.sum(axis=0)
    others = [c for name, c in survey.channels.items() if name != attribute]
    for channel in others:
        if not channel.free_when_whole:
            second = second * float(channel.second_moment(np.ones(channel.size))[0])
    if isinstance(prior, str) and prior == "worst":
        return n * max(0.0, float((second - square).max()))
    return n * max(
        0.0, mean(shares_of({attribute: reading.channel.size}, prior), [second - square])
    )


def _root(gram: Floats) -> Floats:
    """R with R^T R = gram."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _weight_pair(
    survey: Survey, weights: Mapping[str, npt.ArrayLike] | None
) -> tuple[float, float]:
    """What a weight multiplies E[F^2] and f^2 with, mean over its sample."""
    if not weights:
        return 1.0, 1.0
    ((name, sample),) = weights.items()
    _, described = weight_of(survey, name)
    values = np.asarray(sample, dtype=np.float64)
    if values.size == 0 or not ((values >= described.low) & (values <= described.high)).all():
        raise QueryError(f"weights of {name} lie between {described.low} and {described.high}")
    square = float((values**2).mean())
    if described.clear:
        return square, square
    low, high = survey.channels[name].second_moment(described.ends)
    share = (values.mean() - described.low) / (described.high - described.low)
    return float(low + (high - low) * share), square


def variance_bounds(readings: list[Reading]) -> tuple[Floats, Floats]:
    """The least and the most that one person, wherever she is, adds to the variance of each query.

    Readings hold three blocks of rows, as `readings.read` makes them.
    """
    if not readings:  # everybody is known
        return np.zeros(1), np.zeros(1)
    pairs = [r.functions.reshape(3, -1, r.functions.shape[-1])[1:] for r in readings]
    if all(((square == 0) | (square == 1)).all() for _, square in pairs):
        return _indicator_bounds(pairs)
    queries = range(len(pairs[0][0]))
    fronts = [_fronts([(second[q], square[q]) for second, square in pairs]) for q in queries]
    least = [_differences(lowest[:, 0], lowest[:, 1]).min() for lowest, _ in fronts]
    most = [_differences(highest[:, 0], highest[:, 1]).max() for _, highest in fronts]
    return np.array(least), np.array(most)


def _indicator_bounds(pairs: Sequence[Floats]) -> tuple[Floats, Floats]:
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


def _mean_pair(readings: list[Reading], query: Query, prior: Prior) -> tuple[float, float]:
    """The means of E[F^2] and of f^2 over people spread as the prior says."""
    named = [reading for reading in readings if reading.name in query.functions]
    whole = [reading for reading in readings if reading.name not in query.functions]
    shares = shares_of({reading.name: reading.channel.size for reading in named}, prior)
    _, second, square = (mean(shares, [r.functions[row] for r in named]) for row in range(3))
    # A function that is 1 everywhere has the same second moment everywhere.
    return second * math.prod(float(r.functions[1, 0]) for r in whole), square


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
            raise QueryError(f"a prior is 'worst', 'uniform' or arrays of shares, not {prior!r}")
        return [np.full(size, 1 / size) for size in sizes.values()]
    if isinstance(prior, Mapping):
        missing = [name for name in sizes if name not in prior]
        if missing:
            raise QueryError(f"the prior says nothing of {missing[0]}; give an array for it")
        return [_normalised(prior[name], (size,), name) for name, size in sizes.items()]
    return _normalised(prior, tuple(sizes.values()), " x ".join(sizes) or "nothing")


def _normalised(shares: npt.ArrayLike, sizes: tuple[int, ...], name: str) -> Floats:
    array = np.asarray(shares, dtype=np.float64)
    if array.shape != sizes:
        raise QueryError(f"a prior for {name} has shape {sizes}, not {array.shape}")
    total = array.sum()
    if not np.isfinite(array).all() or (array < 0).any() or total <= 0:
        raise QueryError(f"a prior for {name} holds shares of people: finite, none below zero")
    return np.asarray(array / total)


def paper_range_variance(epsilon: float, attributes: int, cut: int, n: int) -> float:
    """Theorem 3 of the paper with constant 1, for `cut` of the attributes cut by the range.

    With cut = attributes it is Theorem 2, the bound drawn in Figure 2. It is what the paper states,
    not an upper bound: its proof drops the covariances of observations that share bits, so people
    inside a range over two or more attributes exceed it. `predicted` is exact.
    """
    kappa_squared = (1 / math.tanh(epsilon / 2)) ** 2
    return kappa_squared**attributes * 2.0**-cut * (1 - kappa_squared**-attributes) * n


# Bounds for one attribute in threshold bits, everybody asked


def paper_percentile_bound(epsilon: float, n: int, delta: float) -> float:
    """Lemma 1 of the paper: |share_hat(x) - share(x)| <= kappa sqrt(2/n ln(1/delta)) for one x.

    Its proof writes o_1 + o_r where its algebra gives o_m + o_r, adds two sums with the tail of
    one, and takes a one-sided tail for both sides. The claim is true for delta <= 1/2 all the same:
    Hoeffding for the 2n signs of the literal channel gives kappa sqrt(ln(2/delta) / n).
    """
    return _kappa(epsilon, n, delta) * math.sqrt(2 / n * math.log(1 / delta))


def paper_quantile_bound(epsilon: float, n: int, m: int, delta: float) -> float:
    """Theorem 5 of the paper: Err <= 2 kappa sqrt(2/n ln(2 log2(m) / delta)).

    The outer logarithm is natural, from the Lemma; the inner one counts the steps of a binary
    search, so its base is 2. The proof adds up failures over the values that the search visits;
    but which those are depends on the same noise, and the last scan visits up to eleven more.
    """
    kappa = _kappa(epsilon, n, delta, m)
    return 2 * kappa * math.sqrt(2 / n * math.log(2 * math.log2(m) / delta))


def percentile_bound(epsilon: float, n: int, delta: float) -> float:
    """With the constant last bit: |share_hat(x) - share(x)| <= kappa sqrt(ln(2/delta) / (2n)).

    share_hat - share = kappa / (2n) times the sum of n independent centred signs, each within an
    interval of length 2. Hoeffding: that sum exceeds t either way with probability at most
    2 exp(-t^2 / (2n)), which is delta at t = sqrt(2n ln(2/delta)).
    """
    return _kappa(epsilon, n, delta) * math.sqrt(math.log(2 / delta) / (2 * n))


def quantile_bound(epsilon: float, n: int, m: int, delta: float) -> float:
    """Err of both methods, with the constant last bit: kappa sqrt(ln(2(m-1)/delta) / (2n)).

    Let b be that bound: `percentile_bound` at delta / (m-1). With probability 1 - delta all m - 1
    inner shares are within b at once, and the last is exact; no visited set has to be guessed.
    Isotonic regression keeps this with any weights: the fit at k is max over a <= k of min over
    c >= k of the mean of share_hat over a..c; with c = k that is at most share(k) + b, and with
    a = k at least share(k) - b. For the x that either method returns, share_hat(x-1) < p <=
    share_hat(x), so share(x-1) < p + b and share(x) >= p - b: p is within b of x's percentiles.
    """
    return _kappa(epsilon, n, delta, m) * math.sqrt(math.log(2 * (m - 1) / delta) / (2 * n))


def _kappa(epsilon: float, n: int, delta: float, m: int = 2) -> float:
    for name, value, fits in (
        ("epsilon above 0", epsilon, is_number(epsilon) and epsilon > 0),
        ("n of at least 1", n, is_number(n) and 1 <= n < math.inf),
        ("m of at least 2", m, is_number(m) and 2 <= m < math.inf),
        ("delta between 0 and 1", delta, is_number(delta) and 0 < delta < 1),
    ):
        if not fits:
            raise QueryError(f"a bound needs {name}, not {value!r}")
    return 1 / math.tanh(epsilon / 2)
