"""The best smooth function above a sharp one: a convex program.

The answer to a sharp question is noisy, because its decoder has to undo the blur at every cut. A
function u that is at least as large everywhere, and smooth, has a larger sum and far less noise. Of
all such u the best for people spread like p makes mean + z standard errors smallest:

    min  <p, u> + z sqrt(Var_p(U) / n)   with  u >= f.

A function is a sum of non-negative ones that add up to 1, the knots, along each axis; so u >= f
holds everywhere as soon as it holds at the knots. Whatever comes out is valid: it is kept above f
by construction, and only how short the interval is depends on how good it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metricldp.mechanisms import Floats

_STEPS = 1000
"""Steps of the search at most."""
_BETWEEN = 20
"""Steps between two looks at what was found."""
_IDLE = 3
"""So many looks without a gain end the search."""
_ENOUGH = 2e-3
"""What is no gain, as a share of the width."""
_WIDEST = 0.1
"""The part of the span of a function that an interval is taken to reach, at most, by a planner."""
_RELAXED = 1.6
_BALANCED = (0.5, 2.0)
"""Between these the two residuals are close enough."""
_TURN = 5.0
"""The most that their balance is changed at once."""
_FLAT = 1e-6
"""What varies by less than this part of the span is a constant: its noise would be rounding."""
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Axis:
    """One attribute, or several that are blurred together, as a planner sees them."""

    shares: Floats
    """The share of people at each knot, (knots,)."""
    second: Floats
    """E[Phi_k Phi_l] of the decoders of two knots, mean over people, (knots, knots)."""
    square: Floats
    """The same of the knots themselves."""


def soften(
    axes: Sequence[Axis],
    f: Floats,
    n: int,
    z: float,
    *,
    drawn: bool = False,
    start: Floats | None = None,
) -> Floats:
    """A function at least as large as f at every knot, (knots, ...), from where a search starts.

    Where nothing is gained, f comes back as it was. People who are drawn add to the noise. The
    search is by alternating directions: a linear solve for the noise, then back above f.
    """
    program = _Program(axes, n, z, drawn)
    found = f if start is None else np.maximum(start, f)
    tried = [(g, program.cost(g)) for g in (f, found, np.full(f.shape, f.max()))]
    best, least = min(tried, key=lambda pair: pair[1])
    bound, w = f / program.scale, found / program.scale
    span = float(np.ptp(f))
    weight, middle = program.weight(found, span), program.mean(found)
    balance = weight * math.sqrt(float(program.values.min() * program.values.max()))
    y = np.maximum(program.slope(w, weight, middle), 0.0) / -balance
    idle = 0
    for step in range(1, _STEPS + 1):
        before = w
        v = program.solve(w - y, weight, middle, balance)
        y += _RELAXED * v + (1 - _RELAXED) * w
        w = np.maximum(y, bound)
        y -= w
        if step % _BETWEEN:
            continue
        found = np.maximum(w * program.scale, f)
        cost = program.cost(found)
        idle = 0 if least - cost > _ENOUGH * program.wide(found) else idle + 1
        if cost < least:
            best, least = found, cost
        if idle >= _IDLE:
            break
        off = _size(v - w) / (_size(w) + _TINY)
        drift = balance * _size(w - before) / (_size(program.slope(w, weight, middle)) + _TINY)
        ratio = math.sqrt(off / (drift + _TINY))
        if not _BALANCED[0] < ratio < _BALANCED[1]:
            turn = min(max(ratio, 1 / _TURN), _TURN)
            balance, y = balance * turn, y / turn
        weight, middle = program.weight(found, span), program.mean(found)
    return best if np.ptp(best) > _FLAT * span else np.full(f.shape, best.max())


class _Program:
    """The quadratic program for one weight of the noise, scaled so that knots cost the same.

    Its matrix is a Kronecker product, so it is solved in the product of its eigenvectors.
    """

    def __init__(self, axes: Sequence[Axis], n: int, z: float, drawn: bool) -> None:
        self.axes, self.n, self.z, self.drawn = axes, n, z, drawn
        scales = [1 / np.sqrt(np.maximum(np.diag(axis.second), _TINY)) for axis in axes]
        self.scale, self.shares = outer(scales), outer([axis.shares for axis in axes])
        self.linear = self.shares * self.scale
        turned = [
            np.linalg.eigh(axis.second * np.multiply.outer(scale, scale))
            for axis, scale in zip(axes, scales, strict=True)
        ]
        self.vectors = [np.ascontiguousarray(vectors) for _, vectors in turned]
        self.back = [np.ascontiguousarray(vectors.T) for vectors in self.vectors]
        self.values = np.maximum(outer([values for values, _ in turned]), _TINY)

    def mean(self, function: Floats) -> float:
        return float(np.vdot(function, self.shares))

    def variance(self, function: Floats) -> float:
        """Of one person's decoder."""
        noise = np.vdot(function, along(function, [axis.second for axis in self.axes]))
        known = np.vdot(function, along(function, [axis.square for axis in self.axes]))
        return max(0.0, float(noise - (self.mean(function) ** 2 if self.drawn else known)))

    def wide(self, function: Floats) -> float:
        return self.z * math.sqrt(self.variance(function) / self.n)

    def cost(self, function: Floats) -> float:
        return self.mean(function) + self.wide(function)

    def weight(self, function: Floats, span: float) -> float:
        """The factor of the quadratic term that has the same slope as z standard errors.

        What is wider than a part of all there is, is not what will be found.
        """
        wide = min(self.wide(function), _WIDEST * span)
        return self.z**2 / (self.n * max(wide, _TINY))

    def slope(self, scaled: Floats, weight: float, middle: float) -> Floats:
        """Of the linear and the quadratic term, at a scaled function."""
        inside = along(scaled, self.back) * self.values
        return weight * along(inside, self.vectors) + (1 - weight * middle) * self.linear

    def solve(self, target: Floats, weight: float, middle: float, balance: float) -> Floats:
        """min <p, v> + weight / 2 E[(V - middle)^2] + balance / 2 |v - target|^2."""
        right = along(balance * target - (1 - weight * middle) * self.linear, self.back)
        right /= weight * self.values + balance
        return along(right, self.vectors)


def _size(function: Floats) -> float:
    return math.sqrt(float(np.vdot(function, function)))


def outer(parts: Sequence[Floats]) -> Floats:
    """The product of functions, one along each axis."""
    found = np.ones(())
    for part in parts:
        found = np.multiply.outer(found, part)
    return found


def along(function: Floats, matrices: Sequence[Floats]) -> Floats:
    """A matrix, (new, old), along each axis."""
    *sizes, last = function.shape
    done = 1
    for matrix, size in zip(matrices[:-1], sizes, strict=True):
        function = matrix @ function.reshape(done, size, -1)
        done *= len(matrix)
    found = function.reshape(-1, last) @ matrices[-1].T
    return np.asarray(found.reshape([len(matrix) for matrix in matrices]))
