"""Search for the best extremal mechanism of a metric: column generation over shapes.

A mechanism is a set of shapes v_y with weights p_y and sum_y p_y v_y(x) = 1 at every position
(Kairouz et al. 2014; Holohan et al. 2017). Shapes are scaled to prior v = 1. With
M = sum_y p_y v_y v_y', the best decoders of a workload with Gram matrix G have the total mean
square tr(G M^-1), a convex function of p. At its minimum, with A = M^-1 G M^-1 and the multipliers
l of the equalities, v'Av <= l v for every shape, with equality for those in use.

So a shape with v'Av > l v improves the mechanism. If v'Av <= r l v for all shapes, no mechanism has
a total below total^2 / (r sum l). If the shapes are few enough to be listed, r is known and the
result is proved. Otherwise a local search starts from many shapes and proves nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metricldp.basics.progress import Progress, silent
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.moments import Floats
from metricldp.mechanisms.search_cache import cached_search

Heights = npt.NDArray[np.int64]

_STARTS, _SWEEPS, _ROUNDS = 60, 40, 100
_FIRST_GAP, _LAST_GAP, _FINAL_GAP = 0.05, 1e-6, 1e-5
_RARE, _RARE_IF_LISTED, _RARE_AT_END = 1e-5, 1e-6, 1e-4
"""Shapes with less than this fraction of the largest weight are dropped between rounds, and at the
end, if the shapes are listed or not."""
_MAX_LISTED = 20_000
"""Shapes that are listed instead of searched for."""
MAX_EXTREME = 200_000
"""Shapes up to which a limit is proved by a list of all."""
_MAX_STEPS = 150
_TOLERANCE = 1e-9
"""How far the equalities may be from 1 at the end of a round."""


@dataclass(frozen=True)
class BestMixture:
    """Shapes with their weights, and how good they are."""

    heights: Heights
    """(shapes, positions), integers with smallest 0."""
    tops: Floats
    """P(y | x) where shape y is highest; elsewhere it is exp(unit (height - highest)) of that."""
    total: float
    """tr(G M^-1)."""
    excess: float
    """The largest v'Av / (l v) of the last round; 1 if no shape improves the mechanism."""
    limit: float | None
    """No mechanism under the metric has a smaller total; None if that is not proved."""
    prices: Floats
    """l, the multipliers of the equalities."""


@cached_search
def best_mixture(
    distances: Heights,
    unit: float,
    gram: Floats,
    *,
    prior: Floats | None = None,
    first: Sequence[Heights] = (),
    listed: Heights | None = None,
    target: float = 1.002,
    effort: Effort = DEFAULT,
    progress: Progress = silent,
) -> BestMixture:
    """The best mixture of shapes: rounds of optimal weights and a search for better shapes.

    The rounds end when no shape has v'Av > target l v. `listed` are all shapes that matter, if the
    caller has them; otherwise they are listed here if they are few.
    """
    from metricldp.mechanisms import search_kernels as kernels

    size, began = len(distances), time.thread_time()
    random = np.random.default_rng(1 + effort.seed)
    prior = np.full(size, 1 / size) if prior is None else prior
    if listed is None:
        few = _enumerated(distances, 1, _MAX_LISTED)
        listed = np.empty((0, size), dtype=np.int64) if few is None else few
    listed = listed - listed.min(axis=1, keepdims=True, initial=0)
    heights = np.unique(np.array([*_plain_shapes(distances), *first]), axis=0)
    symmetric = _is_symmetric(distances) and _is_symmetric(gram) and _is_symmetric(prior)
    p, gap = np.full(len(heights), 1 / len(heights)), _FIRST_GAP
    for _ in range(math.ceil(effort.scale * _ROUNDS)):
        p, _, inverse, prices = optimal_weights(scaled(heights, unit, prior), gram, p, gap)
        quadratic = inverse @ gram @ inverse
        if len(listed):
            ratios = _ratios(scaled(listed, unit, prior), quadratic, prices)
            best = np.argsort(-ratios)[:_STARTS]
            shapes, ratios, excess = listed[best], ratios[best], float(ratios.max())
        else:
            shapes = _starts(heights, p, distances, random)
            problem = distances, unit, quadratic, prices, prior, _SWEEPS
            ratios = np.array([kernels.climb(shape, *problem) for shape in shapes])
            excess = max(1.0, float(ratios.max()))
        progress(max(0.0, 1 - math.sqrt(max(excess - target, 0))))
        seconds = time.thread_time() - began  # of this thread: other processes change nothing
        late = effort.seconds is not None and seconds > effort.seconds
        if (excess < target and gap < target - 1) or late:
            break
        better = shapes[ratios > 1 + gap / 10]
        better = better - better.min(axis=1, keepdims=True)
        if symmetric:
            better = np.concatenate([better, better[:, ::-1]])
        gap = min(gap, max(_LAST_GAP, (max(excess, target) - 1) / 20))
        used = p > _RARE * p.max()
        heights, p = _with_new(heights[used], p[used], better)
    return _exact(heights, p, unit, gram, prior, excess, listed)


def _starts(
    heights: Heights, p: Floats, distances: Heights, random: np.random.Generator
) -> Heights:
    """Random shapes and shapes in use, in turn."""
    starts = []
    for number in range(_STARTS):
        used = heights[random.choice(len(heights), p=p / p.sum())]
        starts.append(used if number % 2 else _random_shape(distances, random))
    return np.array(starts)


def _with_new(heights: Heights, p: Floats, candidates: Heights) -> tuple[Heights, Floats]:
    """Shapes in use and new ones, which receive a twentieth of the weight."""
    if not len(candidates):
        return heights, p
    known = {row.tobytes() for row in heights}
    new = [row for row in np.unique(candidates, axis=0) if row.tobytes() not in known]
    weight = 0.05 / max(1, len(new))
    heights = np.concatenate([heights, *(row[None] for row in new)])
    return heights, np.concatenate([0.95 * p, np.full(len(new), weight)])


def extreme_shapes(distances: Heights, most: int = MAX_EXTREME) -> Heights | None:
    """All shapes that matter, with first height 0; None if there are more than `most`.

    In a shape that is no mixture of others, pairs at their full distance join all positions. If
    every distance is as odd or even as the two distances from the first position are together, so
    is every height: on a line, a step goes up or down, and never stays. Otherwise all heights
    within the distances are listed.
    """
    odd = distances[0] % 2
    step = 1 if ((distances - odd - odd[:, None]) % 2).any() else 2
    return _enumerated(distances, step, most)


def _enumerated(distances: Heights, step: int, most: int) -> Heights | None:
    """All heights, the first 0, that differ by no more than the distances, in steps of `step`.

    Rows are in lexicographic order; None if there are more than `most`. By the triangle inequality,
    heights of the first positions always extend to all of them.
    """
    rows = np.zeros((1, 1), dtype=np.int64)
    for x in range(1, len(distances)):
        low, high = (rows - distances[x, :x]).max(axis=1), (rows + distances[x, :x]).min(axis=1)
        count = (high - low) // step + 1
        ends = count.cumsum()
        if ends[-1] > most:
            return None
        number = np.arange(ends[-1]) - np.repeat(ends - count, count)
        heights = np.repeat(low, count) + step * number
        rows = np.column_stack([np.repeat(rows, count, axis=0), heights])
    return rows


def _ratios(shapes: Floats, quadratic: Floats, prices: Floats) -> Floats:
    """v'Av / (l v) of scaled shapes, infinite if l v is not above 0."""
    price = shapes @ prices
    square = np.einsum("ij,ij->i", shapes @ quadratic, shapes)
    return np.asarray(np.divide(square, price, out=np.full(len(price), np.inf), where=price > 0))


def _exact(
    heights: Heights,
    p: Floats,
    unit: float,
    gram: Floats,
    prior: Floats,
    excess: float,
    listed: Heights,
) -> BestMixture:
    """Without shapes of nearly no weight, at the final gap, and with exact equalities."""
    shapes = scaled(heights, unit, prior)
    p = optimal_weights(shapes, gram, p, _FINAL_GAP)[0]
    used = p > (_RARE_IF_LISTED if len(listed) else _RARE_AT_END) * p.max()
    heights, shapes, p = heights[used], shapes[used], p[used] / p[used].sum()
    p, total, inverse, prices = optimal_weights(shapes, gram, p, _FINAL_GAP)
    limit = None
    if len(listed):
        quadratic = inverse @ gram @ inverse
        excess = float(_ratios(scaled(listed, unit, prior), quadratic, prices).max())
        limit = total**2 / (excess * float(prices.sum()))
    for _ in range(3):  # the smallest relative change that makes every sum 1
        spread = shapes * (p**2)[:, None]
        p = p + spread @ np.linalg.lstsq(shapes.T @ spread, 1 - shapes.T @ p, rcond=None)[0]
    return BestMixture(heights, p / (_values(heights, unit) @ prior), total, excess, limit, prices)


def optimal_weights(
    shapes: Floats, gram: Floats, p: Floats, gap: float
) -> tuple[Floats, float, Floats, Floats]:
    """Weights with tr(G M^-1) within a relative gap of the smallest; it, M^-1 and the prices.

    Newton's method with a logarithmic barrier; the start may violate the equalities.
    """
    count, size = shapes.shape
    total, inverse = _total(shapes, gram, p)
    barrier = 0.05 * total / count
    for _ in range(_MAX_STEPS):
        left = shapes @ (inverse @ gram @ inverse)
        slope = -np.einsum("ij,ij->i", left, shapes) - barrier / p
        hessian = 2 * (left @ shapes.T) * (shapes @ inverse @ shapes.T)
        hessian[np.diag_indices(count)] += barrier / p**2
        missing = 1 - shapes.T @ p
        solved = np.linalg.solve(hessian, np.column_stack([shapes, slope]))
        normal = shapes.T @ solved
        prices = np.linalg.lstsq(normal[:, :size], -(missing + normal[:, size]), rcond=1e-13)[0]
        step = -solved[:, size] - solved[:, :size] @ prices
        falling = step < 0
        length = min(1.0, 0.95 * float(np.min(-p[falling] / step[falling], initial=2.0)))
        while True:
            try:
                total, inverse = _total(shapes, gram, p + length * step)
                break
            except np.linalg.LinAlgError:
                length /= 2
        p = p + length * step
        if length > 0.5 and abs(float(slope @ step)) < 0.5 * barrier * count:
            if barrier * count < gap * total and np.abs(missing).max() < _TOLERANCE:
                break
            barrier /= 5
    return p, total, inverse, np.asarray(prices, dtype=np.float64)


def _total(shapes: Floats, gram: Floats, p: Floats) -> tuple[float, Floats]:
    """tr(G M^-1) and M^-1."""
    root = np.linalg.inv(np.linalg.cholesky((shapes.T * p) @ shapes))
    inverse = root.T @ root
    return float((gram * inverse).sum()), inverse


def scaled(heights: Heights, unit: float, prior: Floats) -> Floats:
    """The shapes with mean 1 under the prior."""
    shapes = _values(heights, unit)
    return np.asarray(shapes / (shapes @ prior)[:, None])


def _values(heights: Heights, unit: float) -> Floats:
    """The shapes with largest value 1."""
    return np.asarray(np.exp(unit * (heights - heights.max(axis=1, keepdims=True))))


def _is_symmetric(array: npt.NDArray[np.generic]) -> bool:
    return np.array_equal(array, np.flip(array))


def _plain_shapes(distances: Heights) -> list[Heights]:
    """Flat, a peak and a pit at each position, and a step below each."""
    size = len(distances)
    one, at = np.eye(size, dtype=np.int64), np.arange(size)
    shapes = [np.zeros(size, dtype=np.int64)]
    for x in range(size):
        wanted = (one[x], 1 - one[x], -distances[x], distances[x], (at <= x).astype(np.int64))
        shapes += [_allowed(heights, distances) for heights in wanted]
    return shapes


def _random_shape(distances: Heights, random: np.random.Generator) -> Heights:
    """Smooth noise cut in two, a peak with a flat foot, a pit, or a square wave."""
    size, highest = len(distances), int(distances.max())
    kind, x, at = random.integers(4), random.integers(size), np.arange(size)
    if kind == 0:
        length = int(random.integers(1, max(2, size)))
        noise = np.convolve(random.normal(size=size + length), np.ones(length), "valid")[:size]
        heights = (noise > 0) * random.integers(1, highest + 1)
    elif kind == 1:
        heights = np.maximum(random.integers(1, highest + 1) - distances[x], 0)
    elif kind == 2:
        heights = distances[x]
    else:
        period = int(random.integers(1, size)) if size > 1 else 1
        heights = (at + random.integers(period + 1)) // period % 2
    return _allowed(heights.astype(np.int64), distances)


def _allowed(heights: Heights, distances: Heights) -> Heights:
    """The highest heights below these that differ by no more than the distances."""
    lowered = (heights + distances).min(axis=1)
    return np.asarray(lowered - lowered.min())
