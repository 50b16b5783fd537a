"""Small output distributions with their exact probabilities, small manifests, and enumeration.

Probabilities are written here a second time, from the specification and not from the core.
"""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import prod

from metricldp.channels.plain_data import plain_data
from metricldp_core.canonical import canonical
from metricldp_core.distributions import (
    Geometric,
    LazyGeometric,
    Matrix,
    Memoised,
    RandomizedResponse,
    Row,
    Table,
    Threshold,
    Unary,
)
from metricldp_core.levels import Additive, Extremal
from metricldp_core.random_words import Words

W = 1 << 64


# Enumeration -------------------------------------------------------------------------------------


class Guided(Words):
    """Words that take given branches, then the first of each; every branch has its probability.

    A branch of `word` is an interval of words between breakpoints, which must not matter inside.
    """

    def __init__(self, branches, breakpoints):
        super().__init__(_no_source)
        self.branches, self.taken, self.weight = list(branches), [], Fraction(1)
        self.breakpoints = sorted({0, W, *breakpoints})

    def branch(self, weights):
        place = len(self.taken)
        if place == len(self.branches):
            self.branches.append(0)
        index = self.branches[place]
        self.taken.append(len(weights))
        self.weight *= weights[index]
        return index

    def below(self, probability):
        return self.branch([Fraction(W - probability, W), Fraction(probability, W)]) == 1

    def bits(self, count):
        return self.branch([Fraction(1, 1 << count)] * (1 << count)) if count else 0

    def uniform(self, bound):
        return self.branch([Fraction(1, bound)] * bound)

    def word(self):
        ends = list(zip(self.breakpoints, self.breakpoints[1:], strict=False))
        # Both ends of an interval are drawn, each with half of its weight.
        index = self.branch([Fraction(b - a, 2 * W) for a, b in ends for _ in range(2)])
        start, end = ends[index // 2]
        return (start, end - 1)[index % 2]


def _no_source(count):
    raise AssertionError("words are enumerated")


def outcomes(draw, breakpoints=()):
    """The exact probability of each result of draw(words), over all words."""
    probabilities, waiting = defaultdict(Fraction), [[]]
    while waiting:
        prefix = waiting.pop()
        words = Guided(prefix, breakpoints)
        probabilities[draw(words)] += words.weight
        for place in range(len(prefix), len(words.taken)):
            head = words.branches[:place]
            waiting += [[*head, index] for index in range(1, words.taken[place])]
    return {result: p for result, p in probabilities.items() if p}


# Exact probabilities -----------------------------------------------------------------------------


def noise(distribution, value):
    """P(noise = value) of two-sided geometric noise that is not clipped."""
    if value == 0:
        return Fraction(distribution.zero, W)
    blocks, rest = divmod(abs(value) - 1, 1 << len(distribution.digits))
    block = Fraction(distribution.block, W)
    probability = Fraction(W - distribution.zero, 2 * W) * block**blocks * (1 - block)
    for j, digit in enumerate(distribution.digits):
        probability *= Fraction(digit if rest >> j & 1 else W - digit, W)
    return probability


def clipped(distribution, x):
    """P(report | x) of clipped geometric noise: the ends have all that lies beyond."""
    last = distribution.size - 1
    inner = {y: noise(distribution, y - x) for y in range(1, last)}
    above = 1 - sum(noise(distribution, value) for value in range(-last, last - x))
    # Above the last position: 1 minus all values below, which include the lower tail by symmetry.
    lower_tail = (1 - sum(noise(distribution, v) for v in range(-last, last + 1))) / 2
    above -= lower_tail
    return {**inner, last: above, 0: 1 - above - sum(inner.values())}


def probabilities(distribution, x):
    """P(report | x) for every report, as the specification states it."""
    size = distribution.size
    match distribution:
        case RandomizedResponse():
            keep = Fraction(distribution.keep, W)
            other = (1 - keep) / (size - 1)
            return {y: keep if y == x else other for y in range(size)}
        case Threshold():
            ones = [f if x > k else W - f for k, f in enumerate(distribution.flips)]
            return _bits(ones)
        case Unary():
            pairs = zip(distribution.own, distribution.other, strict=True)
            return _bits([own if k == x else other for k, (own, other) in enumerate(pairs)])
        case Geometric():
            return clipped(distribution, x)
        case LazyGeometric():
            stays = Fraction(distribution.end if x in (0, size - 1) else distribution.keep, W)
            moved = clipped(distribution.geometric, x)
            return {y: (1 - stays) * p + stays * (y == x) for y, p in moved.items()}
        case Matrix():
            return _joint(
                [clipped(r.noise, r.entries[x] - r.low) for r in distribution.rows],
                [r.noise.bits for r in distribution.rows],
            )
        case Memoised():
            total = defaultdict(Fraction)
            for z, first in probabilities(distribution.first, x).items():
                for y, second in probabilities(distribution.second, z).items():
                    total[y] += first * second
            return dict(total)
        case Extremal():
            tops = zip(distribution.depths, distribution.tops, strict=True)
            weights = [level(top, distribution.fall, shape[x]) for shape, top in tops]
            return dict(enumerate(Fraction(v, W) for v in [*weights, W - sum(weights)]))
        case Table():
            return {y: Fraction(weight, W) for y, weight in enumerate(distribution.weights[x])}
        case Additive():
            return _shifted(distribution, x)
    raise TypeError(distribution)


def level(top, fall, depth):
    for _ in range(depth):
        top = -(-top * fall // W)
    return top


def _bits(ones):
    """Reports of independent bits, from the probability over 2^64 that each is 1."""
    return {
        sum(bit << k for k, bit in enumerate(bits)): Fraction(
            prod(p if bit else W - p for bit, p in zip(bits, ones, strict=True)), W ** len(ones)
        )
        for bits in product((0, 1), repeat=len(ones))
    }


def _joint(parts, lengths):
    """Independent parts one after the other, the first lowest."""
    total = {0: Fraction(1)}
    start = 0
    for part, length in zip(parts, lengths, strict=True):
        total = {a | b << start: p * q for a, p in total.items() for b, q in part.items()}
        start += length
    return total


def _shifted(distribution, x):
    """Additive noise: the place of the cell of x on the ring, plus d."""
    cell, rest = [], x
    for size in reversed(distribution.sizes):
        rest, position = divmod(rest, size)
        cell.append(position)
    place = 0
    for position, length in zip(reversed(cell), distribution.lengths, strict=True):
        place = place * length + position
    n, total = prod(distribution.lengths), {}
    for j, (shape, top) in enumerate(zip(distribution.depths, distribution.tops, strict=True)):
        levels = [level(top, distribution.fall, depth) for depth in shape]
        for d, weight in enumerate(levels):
            y = j * n + (place + d) % n
            total[y] = Fraction(weight, sum(levels) * len(distribution.tops))
    return total


def largest_quotient(here, there):
    """The maximum over reports of P / P' and its inverse; None if one is 0 and the other is not."""
    ratios = [Fraction(1)]
    for y in here.keys() | there.keys():
        p, q = here.get(y, 0), there.get(y, 0)
        if not p and not q:
            continue
        if not p or not q:
            return None
        ratios.append(max(Fraction(p) / q, Fraction(q) / p))
    return max(ratios)


# Distributions on 2 to 5 positions ---------------------------------------------------------------


def _coarse(rng, least=1):
    """A probability: coarse, or at an end of the range."""
    return rng.choice(
        [rng.randrange(1, 16) << 60, W // 2, W - 1, max(least, 1), rng.randrange(1, W)]
    )


def geometric(rng, size, *, digits=None):
    count = rng.randrange(3) if digits is None else digits
    parts = tuple(_coarse(rng) for _ in range(count))
    return Geometric(size, _coarse(rng), parts, rng.randrange(1, W >> 1))


def table(rng, size, outputs):
    rows = []
    for _ in range(size):
        cuts = sorted(
            rng.choices([0, W >> 1, W >> 4, *(rng.randrange(W) for _ in range(3))], k=outputs - 1)
        )
        rows.append(tuple(b - a for a, b in zip([0, *cuts], [*cuts, W], strict=True)))
    return Table(tuple(rows))


def _shapes(rng, count, places):
    shapes = []
    for _ in range(count):
        shape = [rng.randrange(4) for _ in range(places)]
        shape[rng.randrange(places)] = 0
        shapes.append(tuple(shape))
    return tuple(shapes)


def additive(rng, sizes, *, patterns=None):
    lengths = tuple(size + rng.randrange(3) for size in sizes)
    count = patterns or rng.choice([1, 2])
    depths = _shapes(rng, count, prod(lengths))
    tops = tuple(rng.choice([1, 3, 8]) for _ in range(count))
    return Additive(sizes, lengths, depths, tops, rng.choice([W // 2, W - 1, W // 3, 1]))


def examples(seed=1, each=3):
    """Distributions of every kind on 2 to 5 positions, some with probabilities at the ends."""
    rng = random.Random(seed)
    for size in [2, 3, 4, 5][: each + 1]:
        geometric_first = geometric(rng, size)
        other = geometric(rng, size, digits=1)
        yield RandomizedResponse(size, _coarse(rng))
        yield Threshold(size, (_coarse(rng),) * (size - 1 + rng.randrange(3)))
        yield Threshold(size, tuple(_coarse(rng) for _ in range(size - 1)))
        yield Unary(size, (_coarse(rng),) * size, (_coarse(rng),) * size)
        yield Unary(*(size, *(tuple(_coarse(rng) for _ in range(size)) for _ in range(2))))
        yield geometric_first
        yield LazyGeometric(other, _coarse(rng), _coarse(rng))
        rows = tuple(
            Row(tuple(rng.randrange(-2, 2) for _ in range(size)), -2, geometric(rng, 4, digits=1))
            for _ in range(2)
        )
        yield Matrix(size, rows)
        yield Memoised(geometric_first, LazyGeometric(other, _coarse(rng), _coarse(rng)))
        yield Memoised(table(rng, size, 3), RandomizedResponse(3, _coarse(rng)))
        yield table(rng, size, rng.randrange(2, 6))
        yield additive(rng, (size,))
        depths, tops = _shapes(rng, 3, size), tuple(rng.randrange(1, W // 3) for _ in range(3))
        yield Extremal.of(depths, tops, rng.choice([W // 2, W - 1, W // 7]))
    yield additive(rng, (2, 2))


# Manifests ---------------------------------------------------------------------------------------


def integer(name="x", low=0, high=1, **more):
    return {"name": name, "kind": "integer", "low": low, "high": high, **more}


def field(domain, metric, distribution):
    """A field as plain data; a distribution can be an object."""
    if not isinstance(distribution, dict):
        distribution = plain_data(distribution)
    domains = domain if isinstance(domain, list) else [domain]
    return {"attributes": domains, "metric": metric, "distribution": distribution}


def manifest(*fields):
    """The text of a manifest of these fields."""
    return canonical({"metricldp": 1, "fields": list(fields)})


def simple(domain, epsilon="9", **metric):
    """The field of one attribute with randomized response."""
    size = len(domain["names"]) if "names" in domain else None
    if size is None:
        size = domain.get("bins") or domain.get("points") or len(domain.get("edges", ())) - 1
    if domain["kind"] == "integer":
        size = domain["high"] - domain["low"] + 1
    if domain["kind"] == "response" or domain.get("private"):
        size = 2
    metric = {"kind": "uniform", "epsilon": epsilon, **metric}
    return field(domain, metric, RandomizedResponse(size, W // 2))


def optional(domain):
    """The two fields of an optional attribute."""
    return simple({**domain, "optional": True}), simple(
        {"name": domain["name"], "kind": "response"}
    )
