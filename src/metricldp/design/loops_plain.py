"""The search for shaped noise: blocks of heights move by a unit, and most moves that help stay.

Plain Python that numba compiles; see `design/shaped.py` for what is searched for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def anneal(
    heights: Any,
    unit: float,
    width: int,
    each: int,
    cap: int,
    gram: Any,
    moves: int,
    hot: float,
    cold: float,
    seed: int,
) -> float:
    """Better heights in place of those given, (patterns, n); the objective that they reach.

    The objective is sum_k gram[k] / sum_j |q_j(k)|^2 over frequencies k, times the number of
    patterns, q_j the normalised exp(unit heights). Heights of positions up to `width` apart differ
    by at most `each`, and any two by at most `cap`. A move is accepted if it helps, or with
    probability exp(-loss / temperature), which falls from hot to cold; losses are relative.
    """
    np.random.seed(seed)
    patterns, n = heights.shape
    count = len(gram)
    cosine, sine = np.empty(n), np.empty(n)
    for t in range(n):
        cosine[t], sine[t] = math.cos(2 * math.pi * t / n), math.sin(2 * math.pi * t / n)
    v = np.empty((patterns, n))
    real, imaginary = np.zeros((patterns, count)), np.zeros((patterns, count))
    power, total = np.zeros((patterns, count)), np.zeros(count)
    for j in range(patterns):
        top = heights[j].max()
        for x in range(n):
            v[j, x] = math.exp(unit * (heights[j, x] - top))
        for k in range(count):
            for x in range(n):
                real[j, k] += v[j, x] * cosine[k * x % n]
                imaginary[j, k] += v[j, x] * sine[k * x % n]
            power[j, k] = (real[j, k] ** 2 + imaginary[j, k] ** 2) / real[j, 0] ** 2
            total[k] += power[j, k]
    now = patterns * (gram / total).sum()
    best, kept = now, heights.copy()
    new_real, new_imaginary, new_power = np.empty(count), np.empty(count), np.empty(count)
    up, down = math.exp(unit) - 1, math.exp(-unit) - 1
    for move in range(moves):
        j, first = np.random.randint(patterns), np.random.randint(n)
        if np.random.random() > v[j, first] ** 0.3 + 0.02:
            continue  # where there is next to no probability, little is to be gained
        kind = np.random.random()
        length = 1
        if kind > 0.5:
            length = 1 + np.random.randint(width if kind < 0.8 else n // 2)
        sign = 1 if np.random.random() < 0.5 else -1
        fits = True
        for a in range(min(length, width)):
            for d in range(a + 1, min(width, n - length + a) + 1):
                left, right = first + a, first + length - 1 - a
                height = sign * (heights[j, left % n] - heights[j, (left - d) % n])
                other = sign * (heights[j, right % n] - heights[j, (right + d) % n])
                if height >= each or other >= each:
                    fits = False
                    break
            if not fits:
                break
        if fits and cap < 1 << 30:
            low, high = 1 << 40, -(1 << 40)
            for x in range(n):
                height = heights[j, x] + (sign if (x - first) % n < length else 0)
                low, high = min(low, height), max(high, height)
            fits = high - low <= cap
        if not fits:
            continue
        factor = up if sign > 0 else down
        new_real[:], new_imaginary[:] = real[j], imaginary[j]
        for q in range(length):
            x = (first + q) % n
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
            new += gram[k] / (total[k] - power[j, k] + new_power[k])
        new *= patterns
        heat = hot * (cold / hot) ** (move / moves)
        if new >= now and np.random.random() >= math.exp(-(new - now) / (now * heat)):
            continue
        now = new
        for q in range(length):
            x = (first + q) % n
            heights[j, x] += sign
            v[j, x] *= 1 + factor
        for k in range(count):
            total[k] += new_power[k] - power[j, k]
        power[j, :], real[j, :], imaginary[j, :] = new_power, new_real, new_imaginary
        if now < best:
            best = now
            kept[:] = heights
        top = v[j].max()
        if not 0.02 < top < 50:
            v[j] /= top
            real[j] /= top
            imaginary[j] /= top
    heights[:] = kept
    return best
