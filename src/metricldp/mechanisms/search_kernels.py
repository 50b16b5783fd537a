"""Kernels of the searches for mechanisms: simulated annealing and local search.

`additive_search.py` and `extremal_search.py` define the objectives. `np.random` in a kernel is
numba's own generator of the thread, which the kernel seeds; numpy's global state does not change.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metricldp.basics.kernel import kernel

TRIES = 100
"""How many moves are tried for each that is wanted."""
COLD = 1e-5
"""The last temperature of an annealing."""


@kernel
def _box(first: int, n: int, lengths: Any, reach: Any, longest: Any, places: Any) -> int:
    """Fill in the places of a random box, and return their number.

    It is a single place, or a box with sides up to the ordinary moves, or up to the longest.
    """
    kind = np.random.random()
    places[0], size, stride = first, 1, n
    for d in range(len(lengths)):
        stride //= lengths[d]
        if kind > 0.5:
            side = 1 + np.random.randint(reach[d] if kind < 0.8 else longest[d])
            for q in range(size, size * side):
                x = places[q - size] + stride
                places[q] = x if x < n else x - n
            size *= side
    return size


@kernel
def anneal(
    heights: Any, unit: float, limits: Any, gram: Any, moves: int, work: int, seed: int
) -> float:
    """Better heights in place of those given, (patterns, n); the objective that they reach.

    The objective is sum_k gram[k] / sum_j |q_j(k)|^2 over frequencies k, times the number of
    patterns, q_j the normalised exp(unit heights). A move is accepted if it helps, or with
    probability exp(-loss / temperature), which falls from 1/n to COLD; losses are relative.
    At most `moves` are tried, and the innermost loops take at most `work` steps.
    """
    np.random.seed(seed)
    patterns, n = heights.shape
    count, hot = len(gram), 1 / n
    cosine, sine = np.empty(n), np.empty(n)
    for t in range(n):
        cosine[t], sine[t] = math.cos(2 * math.pi * t / n), math.sin(2 * math.pi * t / n)
    v, stale = np.empty((patterns, n)), np.ones(patterns, dtype=np.bool_)
    real, imaginary = np.empty((patterns, count)), np.empty((patterns, count))
    power, total = np.zeros((patterns, count)), np.zeros(count)
    now = best = math.inf
    best_heights = heights.copy()
    new_real, new_imaginary, new_power = np.empty(count), np.empty(count), np.empty(count)
    up, down = math.exp(unit) - 1, math.exp(-unit) - 1
    inside, places = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    lengths, reach, longest, offsets, most, cap = limits
    done = 0
    for move in range(moves):
        if done > work:
            break
        if stale.any():  # at first, and when a pattern has moved far, so that no rounding adds up
            for j in range(patterns):
                if stale[j]:
                    v[j] = np.exp(unit * (heights[j] - heights[j].max()))
                    for k in range(count):
                        real[j, k] = imaginary[j, k] = 0.0
                        for x in range(n):
                            real[j, k] += v[j, x] * cosine[k * x % n]
                            imaginary[j, k] += v[j, x] * sine[k * x % n]
                    power[j] = (real[j] ** 2 + imaginary[j] ** 2) / real[j, 0] ** 2
                    stale[j] = False
            total = power.sum(axis=0)
            now = patterns * (gram / total).sum()
        j, first = np.random.randint(patterns), np.random.randint(n)
        if np.random.random() > v[j, first] ** 0.3 + 0.02:
            continue  # little is gained where the probability is low
        size = _box(first, n, lengths, reach, longest, places)
        sign = 1 if np.random.random() < 0.5 else -1
        for q in range(size):
            inside[places[q]] = True
        fits = True
        for q in range(size):
            x = places[q]
            for c in range(len(offsets)):
                y = x + offsets[c]
                if y >= n:
                    y -= n
                if not inside[y] and sign * (heights[j, x] - heights[j, y]) >= most[c]:
                    fits = False
                    break
            done += c + 1
            if not fits:
                break
        for q in range(size):
            inside[places[q]] = False
        if not fits:
            continue
        if cap < 1 << 30:
            done += n
            for q in range(size):
                heights[j, places[q]] += sign
            fits = heights[j].max() - heights[j].min() <= cap
            for q in range(size):
                heights[j, places[q]] -= sign
            if not fits:
                continue
        done += size * count
        factor = up if sign > 0 else down
        new_real[:], new_imaginary[:] = real[j], imaginary[j]
        for q in range(size):
            x = places[q]
            change, t = factor * v[j, x], 0
            for k in range(count):
                new_real[k] += change * cosine[t]
                new_imaginary[k] += change * sine[t]
                t += x
                if t >= n:
                    t -= n
        scale, new = 1 / new_real[0] ** 2, 0.0
        for k in range(count):
            new_power[k] = (new_real[k] ** 2 + new_imaginary[k] ** 2) * scale
            new += gram[k] / max(total[k] - power[j, k] + new_power[k], 1e-300)
        new *= patterns
        heat = hot * (COLD / hot) ** max(move / moves, done / work)
        if new >= now and np.random.random() >= math.exp(-(new - now) / (now * heat)):
            continue
        now = new
        for q in range(size):
            x = places[q]
            heights[j, x] += sign
            v[j, x] *= 1 + factor
        for k in range(count):
            total[k] += new_power[k] - power[j, k]
        power[j, :], real[j, :], imaginary[j, :] = new_power, new_real, new_imaginary
        if now < best:
            best = now
            best_heights[:] = heights
        stale[j] = not 0.1 < v[j].max() < 10
    heights[:] = best_heights
    return best if best < math.inf else now  # no move was accepted


@kernel
def move_many(
    heights: Any,
    v: Any,
    slopes: Any,
    curvatures: Any,
    unit: float,
    limits: Any,
    heat: float,
    wanted: int,
    seed: int,
) -> float:
    """Up to `wanted` moves like those of `anneal`, each judged by slopes from before all of them.

    Heights and v = exp(unit heights) change in place. A move that changes v by d at some places is
    expected to change the objective by the sum of slopes d + curvatures d^2. Returns the sum of the
    expected changes.
    """
    np.random.seed(seed)
    patterns, n = heights.shape
    up, down = math.exp(unit) - 1, math.exp(-unit) - 1
    inside, places = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    lengths, reach, longest, offsets, most, cap = limits
    low, high = np.empty(patterns, dtype=np.int64), np.empty(patterns, dtype=np.int64)
    for j in range(patterns):
        low[j], high[j] = heights[j].min(), heights[j].max()
    done, expected = 0, 0.0
    for _ in range(TRIES * wanted):
        if done == wanted:
            break
        j, first = np.random.randint(patterns), np.random.randint(n)
        if np.random.random() > v[j, first] ** 0.3 + 0.02:
            continue  # little is gained where the probability is low
        size = _box(first, n, lengths, reach, longest, places)
        sign = 1 if np.random.random() < 0.5 else -1
        factor, change = up if sign > 0 else down, 0.0
        lowest, highest = low[j], high[j]
        for q in range(size):
            x = places[q]
            d_v = factor * v[j, x]
            change += slopes[j, x] * d_v + curvatures[j] * d_v * d_v
            lowest, highest = min(lowest, heights[j, x] + sign), max(highest, heights[j, x] + sign)
        if change >= 0 and np.random.random() >= math.exp(-change / heat):
            continue
        for q in range(size):
            inside[places[q]] = True
        fits = True
        for q in range(size):
            x = places[q]
            for c in range(len(offsets)):
                y = x + offsets[c]
                if y >= n:
                    y -= n
                if not inside[y] and sign * (heights[j, x] - heights[j, y]) >= most[c]:
                    fits = False
                    break
            if not fits:
                break
        for q in range(size):
            inside[places[q]] = False
        if not fits or highest - lowest > cap:
            continue
        low[j], high[j] = lowest, highest
        for q in range(size):
            x = places[q]
            heights[j, x] += sign
            v[j, x] *= 1 + factor
        done, expected = done + 1, expected + change
    return expected


@kernel
def climb(
    heights: Any, apart: Any, unit: float, quadratic: Any, linear: Any, prior: Any, sweeps: int
) -> float:
    """A better shape in place of the one given: the ratio v'Av / ((prior v)(linear v)) it reaches.

    A is `quadratic`, v = exp(unit heights), and `apart` the most that two heights may differ. Sets
    of positions that follow each other, with whatever has to move along, go up or down by a unit as
    long as the ratio grows.
    """
    size = len(heights)
    v = np.exp(unit * (heights - heights.max()))
    av = quadratic @ v
    square, mean, price = v @ av, prior @ v, linear @ v
    best = square / (mean * price) if price > 0 else 0.0
    inside = np.zeros(size, dtype=np.bool_)
    waiting, moved = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for _ in range(sweeps):
        grown = False
        for sign in (1, -1):
            factor = math.exp(unit * sign) - 1
            for first in range(size):
                inside[:] = False
                count, chosen, reached = 0, 0, best * (1 + 1e-9)
                more_square = more_mean = more_price = 0.0
                for last in range(first, size):
                    if inside[last]:
                        continue
                    inside[last], waiting[0], left = True, last, 1
                    while left:
                        left -= 1
                        i = waiting[left]
                        change, cross = factor * v[i], av[i]
                        for c in range(count):
                            cross += factor * quadratic[i, moved[c]] * v[moved[c]]
                        more_square += change * (2 * cross + quadratic[i, i] * change)
                        more_mean += prior[i] * change
                        more_price += linear[i] * change
                        moved[count] = i
                        count += 1
                        for j in range(size):
                            if not inside[j] and sign * (heights[i] - heights[j]) >= apart[i, j]:
                                inside[j], waiting[left] = True, j
                                left += 1
                    if count == size:
                        break
                    if price + more_price > 0:
                        below = (mean + more_mean) * (price + more_price)
                        if (square + more_square) / below > reached:
                            reached, chosen = (square + more_square) / below, count
                for c in range(chosen):
                    heights[moved[c]] += sign
                if chosen:
                    grown = True
                    v = np.exp(unit * (heights - heights.max()))
                    av = quadratic @ v
                    square, mean, price = v @ av, prior @ v, linear @ v
                    best = square / (mean * price)
        if not grown:
            break
    return best
