"""The best channel of all for a metric: weights of shapes, and the search for better shapes.

A channel is a set of shapes v_y with weights p_y and sum_y p_y v_y(x) = 1 at every position. With
shapes scaled to prior v = 1 and M = sum_y p_y v_y v_y', the best decoders of a workload with Gram
matrix G have the total mean square tr(G M^-1): a convex function of p. At its minimum, with
A = M^-1 G M^-1 and the multipliers l of the equalities, v'Av <= l v for every shape, those in use
with equality. So a shape with v'Av > l v makes the channel better, and where none is left it is the
best there is: if v'Av <= r l v for all shapes, no channel has a total below total^2 / (r sum l).
Where the shapes are few enough to be listed, r is known. Elsewhere the search climbs from many
starts, and proves nothing when it fails.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms.moments import Floats

Heights = npt.NDArray[np.int64]

_STARTS, _SWEEPS, _ROUNDS = 60, 40, 100
_FIRST_GAP, _LAST_GAP, _CLOSE = 0.05, 1e-6, 1e-5
_RARE = 1e-5
"""Shapes with less than this share of the largest weight are dropped between rounds."""
_MOST_LISTED = 20_000
"""Shapes that are listed instead of searched for."""
MOST_EXTREME = 200_000
"""Shapes up to which a limit is proved by looking at each of them."""
_MOST_STEPS = 150
_KEPT = 1e-9
"""How far the equalities may be from 1 at the end of a round."""

watching: ContextVar[Callable[[float], None]] = ContextVar("watching", default=lambda share: None)
"""Who is told how far a search is, as a share from 0 to 1."""


@dataclass(frozen=True)
class BestMixture:
    """Shapes with their weights, and how good they are."""

    heights: Heights
    """(shapes, positions), whole numbers with smallest 0."""
    tops: Floats
    """P(y | x) where shape y is highest; elsewhere it is exp(unit (height - highest)) of that."""
    total: float
    """tr(G M^-1)."""
    excess: float
    """The largest v'Av / (l v) that the search found at the end: 1 where it found nothing."""
    limit: float | None
    """No channel that keeps the metric has a smaller total; None where nothing is known."""
    prices: Floats
    """l, the multipliers of the equalities."""


def best_mixture(
    apart: Heights,
    unit: float,
    gram: Floats,
    *,
    prior: Floats | None = None,
    first: Sequence[Heights] = (),
    listed: Heights | None = None,
    target: float = 1.002,
    seconds: float = 60.0,
) -> BestMixture:
    """Rounds of weighing and searching until nothing above the target is found, or time is up.

    `listed` are all shapes that matter, where they are known; else few are listed here.
    """
    size, began = len(apart), time.thread_time()
    draw = np.random.default_rng(1)
    prior = np.full(size, 1 / size) if prior is None else prior
    if listed is None:
        every = _enumerated(apart, 1, _MOST_LISTED)
        listed = np.empty((0, size), dtype=np.int64) if every is None else every
    listed = listed - listed.min(axis=1, keepdims=True, initial=0)
    heights = np.unique(np.array([*_plain_shapes(apart), *first]), axis=0)
    mirrored = _is_symmetric(apart) and _is_symmetric(gram) and np.array_equal(prior, prior[::-1])
    p, gap = np.full(len(heights), 1 / len(heights)), _FIRST_GAP
    for _ in range(_ROUNDS):
        shapes = scaled(heights, unit, prior)
        p, _, inverse, prices = weighed(shapes, gram, p, gap)
        quadratic = inverse @ gram @ inverse
        if len(listed):
            ratios = _ratios(scaled(listed, unit, prior), quadratic, prices)
            excess, best = float(ratios.max()), np.argsort(-ratios)[:_STARTS]
            found = list(listed[best[ratios[best] > 1 + gap / 10]])
        else:
            found, excess = [], 1.0
            for start in range(_STARTS):
                use = heights[draw.choice(len(heights), p=p / p.sum())]
                here = use.copy() if start % 2 else _random_shape(apart, draw)
                ratio = _climb(here, apart, unit, quadratic, prices, prior)
                excess = max(excess, ratio)
                if ratio > 1 + gap / 10:
                    found += [here - here.min()]
        passed = time.thread_time() - began  # of this thread: a busy machine changes nothing
        watching.get()(max(passed / seconds, 1 - math.sqrt(max(excess - target, 0))))
        if (excess < target and gap < target - 1) or passed > seconds:
            break
        gap = min(gap, max(_LAST_GAP, (max(excess, target) - 1) / 20))
        used = p > _RARE * p.max()
        heights, p = heights[used], p[used]
        if found:
            found += [here[::-1] for here in found] if mirrored else []
            known = {row.tobytes() for row in heights}
            new = [row for row in np.unique(found, axis=0) if row.tobytes() not in known]
            share = 0.05 / max(1, len(new))
            heights = np.concatenate([heights, *(row[None] for row in new)])
            p = np.concatenate([0.95 * p, np.full(len(new), share)])
    return _pruned(heights, p, unit, gram, prior, excess, listed)


def _climb(
    heights: Heights, apart: Heights, unit: float, quadratic: Floats, prices: Floats, prior: Floats
) -> float:
    from metricldp.mechanisms import search_kernels as kernels

    return float(kernels.climb(heights, apart, unit, quadratic, prices, prior, _SWEEPS))


def extreme_shapes(apart: Heights, most: int = MOST_EXTREME) -> Heights | None:
    """All shapes that matter, first height 0, or None where these are more than so many.

    A shape that is no mixture of others has enough pairs at their full distance to join all
    positions. If every distance is as odd or even as the two distances from the first position are
    together, so is then every height: a walk on a line goes up or down, and never stays. Elsewhere
    all heights are listed that keep the distances.
    """
    odd = apart[0] % 2
    return _enumerated(apart, 1 if ((apart - odd - odd[:, None]) % 2).any() else 2, most)


def _enumerated(apart: Heights, every: int, most: int) -> Heights | None:
    """All heights, the first 0, that differ by no more than `apart`, in steps of `every`.

    Rows are in lexicographic order; None where there are more than `most`. Because `apart` obeys
    the triangle inequality, heights of the first positions always extend to all of them.
    """
    rows = np.zeros((1, 1), dtype=np.int64)
    for at in range(1, len(apart)):
        low, high = (rows - apart[at, :at]).max(axis=1), (rows + apart[at, :at]).min(axis=1)
        count = (high - low) // every + 1
        ends = count.cumsum()
        if ends[-1] > most:
            return None
        step = np.arange(ends[-1]) - np.repeat(ends - count, count)
        rows = np.column_stack([np.repeat(rows, count, axis=0), np.repeat(low, count)])
        rows[:, -1] += every * step
    return rows


def _ratios(shapes: Floats, quadratic: Floats, prices: Floats) -> Floats:
    """v'Av / (l v) of scaled shapes, beyond all bounds where l v is not above 0."""
    price = shapes @ prices
    square = np.einsum("ij,ij->i", shapes @ quadratic, shapes)
    return np.asarray(np.divide(square, price, out=np.full(len(price), np.inf), where=price > 0))


def _pruned(
    heights: Heights,
    p: Floats,
    unit: float,
    gram: Floats,
    prior: Floats,
    excess: float,
    listed: Heights,
) -> BestMixture:
    """Without shapes that are next to never sent, at the last gap, and with exact equalities."""
    shapes = scaled(heights, unit, prior)
    p, _, _, _ = weighed(shapes, gram, p, _CLOSE)
    used = p > (1e-6 if len(listed) else 1e-4) * p.max()
    heights, shapes, p = heights[used], shapes[used], p[used] / p[used].sum()
    p, total, inverse, prices = weighed(shapes, gram, p, _CLOSE)
    limit = None
    if len(listed):
        every = scaled(listed, unit, prior)
        excess = float(_ratios(every, inverse @ gram @ inverse, prices).max())
        limit = total**2 / (excess * float(prices.sum()))
    for _ in range(3):  # the smallest relative change that makes every sum 1
        spread = shapes * (p**2)[:, None]
        p = p + spread @ np.linalg.lstsq(shapes.T @ spread, 1 - shapes.T @ p, rcond=None)[0]
    means = _lifted(heights, unit) @ prior
    return BestMixture(heights, p / means, total, excess, limit, prices)


def weighed(
    shapes: Floats, gram: Floats, p: Floats, gap: float
) -> tuple[Floats, float, Floats, Floats]:
    """Weights with tr(G M^-1) within a relative gap of the smallest; it, M^-1 and the prices.

    Newton's method with a logarithmic barrier; the equalities need not hold at the beginning.
    """
    count, size = shapes.shape
    total, inverse = _look(shapes, gram, p)
    barrier = 0.05 * total / count
    for _ in range(_MOST_STEPS):
        left = shapes @ (inverse @ gram @ inverse)
        slope = -np.einsum("ij,ij->i", left, shapes) - barrier / p
        bent = 2 * (left @ shapes.T) * (shapes @ inverse @ shapes.T)
        bent[np.diag_indices(count)] += barrier / p**2
        missing = 1 - shapes.T @ p
        solved = np.linalg.solve(bent, np.column_stack([shapes, slope]))
        both = shapes.T @ solved
        prices = np.linalg.lstsq(both[:, :size], -(missing + both[:, size]), rcond=1e-13)[0]
        step = -solved[:, size] - solved[:, :size] @ prices
        falling = step < 0
        length = min(1.0, 0.95 * float(np.min(-p[falling] / step[falling], initial=2.0)))
        while True:
            try:
                total, inverse = _look(shapes, gram, p + length * step)
                break
            except np.linalg.LinAlgError:
                length /= 2
        p = p + length * step
        if length > 0.5 and abs(float(slope @ step)) < 0.5 * barrier * count:
            if barrier * count < gap * total and np.abs(missing).max() < _KEPT:
                break
            barrier /= 5
    return p, total, inverse, np.asarray(prices, dtype=np.float64)


def _look(shapes: Floats, gram: Floats, p: Floats) -> tuple[float, Floats]:
    root = np.linalg.inv(np.linalg.cholesky((shapes.T * p) @ shapes))
    inverse = root.T @ root
    return float((gram * inverse).sum()), inverse


def scaled(heights: Heights, unit: float, prior: Floats) -> Floats:
    """The shapes with mean 1."""
    shapes = _lifted(heights, unit)
    return np.asarray(shapes / (shapes @ prior)[:, None])


def _lifted(heights: Heights, unit: float) -> Floats:
    """The shapes with highest value 1."""
    return np.asarray(np.exp(unit * (heights - heights.max(axis=1, keepdims=True))))


def _is_symmetric(matrix: npt.NDArray[np.generic]) -> bool:
    return np.array_equal(matrix, matrix[::-1, ::-1])


def _plain_shapes(apart: Heights) -> list[Heights]:
    """Flat, a peak and a pit at each position, and a step below each."""
    size = len(apart)
    alone, at = np.eye(size, dtype=np.int64), np.arange(size)
    found = [np.zeros(size, dtype=np.int64)]
    for x in range(size):
        wanted = (alone[x], 1 - alone[x], -apart[x], apart[x], (at <= x).astype(np.int64))
        found += [_allowed(heights, apart) for heights in wanted]
    return found


def _random_shape(apart: Heights, draw: np.random.Generator) -> Heights:
    """Smooth noise cut in two, a peak with a flat foot, a pit, or a square wave."""
    size, highest = len(apart), int(apart.max())
    kind, x, at = draw.integers(4), draw.integers(size), np.arange(size)
    if kind == 0:
        length = int(draw.integers(1, max(2, size)))
        noise = np.convolve(draw.normal(size=size + length), np.ones(length), "valid")[:size]
        heights = (noise > 0) * draw.integers(1, highest + 1)
    elif kind == 1:
        heights = np.maximum(draw.integers(1, highest + 1) - apart[x], 0)
    elif kind == 2:
        heights = apart[x]
    else:
        period = int(draw.integers(1, size)) if size > 1 else 1
        heights = (at + draw.integers(period + 1)) // period % 2
    return _allowed(heights.astype(np.int64), apart)


def _allowed(heights: Heights, apart: Heights) -> Heights:
    """The highest below that differs by no more than the metric allows."""
    found = (heights + apart).min(axis=1)
    return np.asarray(found - found.min())
