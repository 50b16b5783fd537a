"""Manifests of many kinds, built directly with the classes of the core.

They have every output distribution, metric and domain, with an epsilon that is as small as the
integers allow. So one unit less of it, or one unit of a probability in the wrong direction, breaks
the guarantee. The manifests are the same in each run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice, product

from metricldp.channels.plain_data import manifest_of
from metricldp_core import Manifest
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
from metricldp_core.exact import WORD, ceil_of, log_bounds, log_of
from metricldp_core.levels import Additive, Extremal
from metricldp_core.manifest import Field
from metricldp_core.metrics import Graph, Grid, Line, Uniform, strictest
from metricldp_core.values import Bins, Names, Points, PublicWeight, Response, WholeNumbers
from metricldp_core.verify import by_difference

UNIT = 1 << 128
"""Denominator of an epsilon that is as small as possible."""
ONE = Fraction(1)


# Distributions ------------------------------------------------------------------------------------


def probability(value: float) -> int:
    return min(max(int(value * 2**53) << 11, 1), WORD - 1)


def randomized_response(size, epsilon):
    return RandomizedResponse(size, probability(1 / (1 + (size - 1) * math.exp(-epsilon))))


def threshold(size, epsilon, more=0):
    return Threshold(size, (probability(1 / (1 + math.exp(epsilon))),) * (size - 1 + more))


def uneven_threshold(size, seed):
    draw = random.Random(seed)
    return Threshold(size, tuple(probability(0.1 + 0.4 * draw.random()) for _ in range(size - 1)))


def unary(size, epsilon):
    return Unary(size, (WORD // 2,) * size, (probability(1 / (1 + math.exp(epsilon))),) * size)


def uneven_unary(size, seed):
    draw = random.Random(seed)
    own = tuple(probability(0.4 + 0.3 * draw.random()) for _ in range(size))
    return Unary(size, own, tuple(probability(0.05 + 0.3 * draw.random()) for _ in range(size)))


def geometric(size, epsilon, count=None):
    if count is None:
        count = max(0, math.ceil(math.log2(4 / epsilon)))
    digits = tuple(probability(1 / (1 + math.exp(epsilon * 2**j))) for j in range(count))
    zero = probability(math.tanh(epsilon / 2))
    return Geometric(size, zero, digits, probability(math.exp(-epsilon * 2**count)))


def lazy(first, share):
    noise = geometric(first.size, share)
    return LazyGeometric(noise, probability(0.7), probability(0.6))


def matrix(size, epsilon, kind):
    """Counts in prefixes, single values, or halves of halves."""
    rows = {
        "prefix": [[int(x <= k) for x in range(size)] for k in range(size - 1)],
        "identity": [[int(x == k) for x in range(size)] for k in range(size)],
        "halves": [
            [(x * 2**d // size) % 2 * 2 - 1 for x in range(size)] for d in (1, 2) if 2**d <= size
        ],
        "linear": [[3 * x - size for x in range(size)], [-x for x in range(size)]],
    }[kind]
    found = []
    for k, entries in enumerate(rows):
        low, high = min(entries) - k % 3, max(entries) + 2
        noise = geometric(high - low + 1, epsilon / (1 + k % 2))
        found.append(Row(tuple(entries), low, noise))
    return Matrix(size, tuple(found))


def table(size, outputs, seed):
    draw = random.Random(seed)
    rows = []
    for _ in range(size):
        shares = [1 + 3 * draw.random() for _ in range(outputs)]
        row = [int(share / sum(shares) * 2**50) << 14 for share in shares]
        rows.append((WORD - sum(row[1:]), *row[1:]))
    return Table(tuple(rows))


def extremal(size, fall, deepest, slope=1):
    """Shapes that rise to each position, with equal tops that nearly fill 2^64."""
    shapes = [tuple(min(abs(x - y) * slope, deepest) for x in range(size)) for y in range(size)]
    return filled(shapes, fall)


def filled(shapes, fall):
    unit = [max(1, 1 << 40)] * len(shapes)
    rows = Extremal.of(tuple(shapes), tuple(unit), probability(fall)).weights
    top = (1 << 40) * WORD // max(sum(row[:-1]) for row in rows) - (1 << 40)
    return Extremal.of(tuple(shapes), (top,) * len(shapes), probability(fall))


def additive(sizes, lengths, patterns, fall):
    depths = tuple(patterns)
    ring = math.prod(lengths)
    assert all(len(pattern) == ring for pattern in depths)
    tops = tuple((WORD // ring) - 977 * j for j in range(len(depths)))
    return Additive(tuple(sizes), tuple(lengths), depths, tops, probability(fall))


def roof(ring, deepest, step=1):
    return tuple(min(min(k, ring - k) // step, deepest) for k in range(ring))


def cliff(ring, count):
    return tuple(int(k >= count) for k in range(ring))


# Metrics ------------------------------------------------------------------------------------------


def tight(distribution, metric, stochastic=False):
    """The metric with the smallest epsilon that holds: the log of the worst ratio, rounded up."""
    between = metric.between_points() if stochastic else metric
    needs = []
    alike, every = distribution.invariance == "all", not by_difference(distribution, between)
    for group in [strictest(between.groups())] if alike else between.groups():
        limit = group.limit
        for x, other in islice(group.pairs(every), 1 if alike else None):
            ratio = distribution.ratio(x, other)
            loss = float(ratio - 1) if limit.linear else log_of(ratio)
            needs.append((loss / float(limit.epsilon), ratio, limit))
    most = max(need for need, _, _ in needs)
    exact = {
        (ratio - 1 if limit.linear else log_bounds(ratio)[1]) / limit.epsilon
        for need, ratio, limit in needs
        if need >= most * (1 - 1e-9)
    }
    factor = Fraction(max(1, ceil_of(max(exact) * UNIT)), UNIT)
    return scaled(metric, factor)


def scaled(metric, factor):
    if isinstance(metric, Graph | Grid):
        return replace(metric, step=metric.step * factor)
    metric = replace(metric, epsilon=metric.epsilon * factor)
    if isinstance(metric, Line) and metric.cap is not None:
        metric = replace(metric, cap=metric.cap * factor)
    return metric


def line(size, *, width=1, cap=None, ring=False):
    return Line(size, ONE, Fraction(width), None if cap is None else Fraction(cap), ring)


def chain(size, seed=0):
    """Different lengths along a line; the default pairs are not written out."""
    draw = random.Random(seed)
    pairs = tuple((x, x + 1) for x in range(size - 1))
    return Graph(size, ONE, pairs, tuple(1 + draw.getrandbits(3) for _ in pairs))


def star(size, centers):
    pairs = tuple(
        (x, y) for x in range(size) for y in range(x + 1, size) if x in centers or y in centers
    )
    return Graph(size, ONE, pairs, (1,) * len(pairs))


def tree(size, seed):
    draw = random.Random(seed)
    pairs = tuple((draw.getrandbits(16) % x, x) for x in range(1, size))
    more = tuple((x, x + 2) for x in range(0, size - 2, 3) if (x, x + 2) not in pairs)
    return Graph(size, ONE, pairs + more, tuple(1 + k % 4 for k in range(len(pairs + more))))


def large_lengths(size):
    """Lengths of 2^53 and above are text."""
    pairs = tuple((x, x + 1) for x in range(size - 1))
    return Graph(size, ONE, pairs, tuple((1 << 53) - 1 + k for k in range(size - 1)))


def grid(sizes, kind):
    units = [tuple(int(d == k) for k in range(len(sizes))) for d in range(len(sizes))]
    steps, lengths = list(units), [2 + d for d in range(len(sizes))]
    if kind == "diagonal":
        steps.append((1,) * len(sizes))
        lengths.append(4)
    if kind == "capped":
        for apart in product(*map(range, sizes)):
            if sum(apart) > 2:
                steps.append(apart)
                lengths.append(5)
    if kind == "large":
        lengths = [(1 << 60) + d for d in range(len(sizes))]
    return Grid(tuple(sizes), ONE, tuple(steps), tuple(lengths))


# Domains ------------------------------------------------------------------------------------------


def whole(size, name="x", low=-3, **more):
    return WholeNumbers(name, low=low, high=low + size - 1, **more)


def names(size, name="x", **more):
    return Names(name, **{"names": tuple(f"name {k}" for k in range(size)), **more})


def bins(size, name="x", low=-0.7, high=2.3, **more):
    return Bins(name, low=low, high=high, bins=size, **more)


def edges(size, name="x", low=-0.5, **more):
    given = (low, 0.1, 0.30000000000000004, *(3 + 1.7 * k for k in range(size - 2)))
    return Bins(name, low=given[0], high=given[-1], given=given, **more)


def points(size, name="x", low=-1.0, high=2.5, **more):
    return Points(name, low=low, high=high, points=size, **more)


def private_weight(name="w", **more):
    return Points(name, low=0.5, high=2.0, weight=True, **more)


def field(domain, distribution, metric):
    """A field with the smallest epsilon that holds."""
    stochastic = domain.stochastic
    return Field((domain,), tight(distribution, metric, stochastic), distribution)


def response(name, distribution=None):
    return field(Response(name), distribution or randomized_response(2, 1), Uniform(2, ONE))


# Manifests ----------------------------------------------------------------------------------------


def lines() -> Iterator[Field]:
    """Plain local differential privacy, and distances along a line or a ring."""
    for size, epsilon in product((2, 3, 10, 33), (0.1, 1, 3)):
        yield field(whole(size), randomized_response(size, epsilon), Uniform(size, ONE))
        yield field(names(size), unary(size, epsilon), Uniform(size, ONE))
        yield field(whole(size, within="1"), threshold(size, epsilon, size % 3), line(size))
        yield field(bins(size, within="0.3"), geometric(size, epsilon), line(size))
    for size, width in product((9, 40), (2, 5, Fraction(5, 2), Fraction(22, 7))):
        within = f"{float(width):.2g}"
        yield field(whole(size, within=within), geometric(size, 0.5), line(size, width=width))
        domain = whole(size, low=1, ratio="0.25")
        yield field(domain, uneven_threshold(size, f"t {size} {width}"), line(size, width=width))
    for size, cap, ring in product((8, 13), (2, Fraction(7, 2), 5), (False, True)):
        domain = names(size, ordered=True, cyclic=ring, within="1" if ring else "2")
        pattern = roof(2 * size, 3) if not ring else roof(size, 3)
        mechanism = additive([size], [len(pattern)], [pattern, cliff(len(pattern), 4)], 0.6)
        yield field(domain, mechanism, line(size, cap=cap, ring=ring))
        metric = line(size, cap=cap, ring=ring)
        yield field(whole(size, cyclic=ring), table(size, 6, f"{size} {cap}"), metric)
        how = line(size, cap=cap, ring=ring, width=Fraction(3, 2))
        yield field(whole(size, cyclic=ring), extremal(size, 0.7, 4), how)


def graphs() -> Iterator[Field]:
    """Shortest paths over pairs, and bins with given edges."""
    for size in (3, 6, 12):
        yield field(names(size, ordered=True), uneven_threshold(size, f"p {size}"), chain(size))
        yield field(whole(size, low=1, ratio="1.5"), extremal(size, 0.8, 70), chain(size, 1))
        yield field(names(size), uneven_unary(size, f"s {size}"), star(size, {1}))
        yield field(names(size), table(size, size, f"tree {size}"), tree(size, size))
        yield field(edges(size), table(size, 5, f"edges {size}"), Uniform(size, ONE))
        yield field(edges(size, within="1.2"), extremal(size, 0.5, 3), line(size, cap=2))
        yield field(edges(size, low=0.05, ratio="0.5"), geometric(size, 2, 0), line(size))
        yield field(whole(size), extremal(size, 0.9, 4_000, 400), large_lengths(size))
        yield field(bins(size, low=1.0, high=9e5, ratio="0.001"), table(size, 9, "r"), chain(size))
    yield field(names(9), uneven_unary(9, "many"), star(9, {1, 3, 4, 5, 6, 7, 8}))
    yield field(names(9), uneven_unary(9, "few"), star(9, {2, 5}))
    yield field(names(9), uneven_unary(9, "five"), star(9, {1, 3, 4, 5, 6}))
    yield field(names(4), uneven_unary(4, "all"), star(4, {0, 1, 2}))


def matrices() -> Iterator[Field]:
    """The matrix mechanism."""
    for size, kind in product((4, 9), ("prefix", "identity", "halves", "linear")):
        yield field(whole(size), matrix(size, 1, kind), line(size))
        yield field(names(size), matrix(size, 0.5, kind), Uniform(size, ONE))


def rounded_at_random() -> Iterator[Field]:
    """Points, and private weights."""
    for size in (2, 5, 13):
        domain = points(size, within="0.25")
        yield field(domain, geometric(size, 1), line(size))
        yield field(points(size), geometric(size, 0.2), line(size, cap=3))
        yield field(points(size), randomized_response(size, 2), Uniform(size, ONE))
        yield field(points(size, within="1.5"), threshold(size, 1), line(size, width=2))
        mechanism = additive([size], [2 * size], [roof(2 * size, 2)], 0.5)
        yield field(domain, mechanism, line(size, width=Fraction(7, 3), cap=2))
    yield field(private_weight(), randomized_response(2, 1), Uniform(2, ONE))
    yield field(private_weight(), threshold(2, 1, 1), line(2))


def memoised() -> Iterator[Field]:
    """Two randomizations."""
    for size in (3, 8, 21):
        first = geometric(size, 0.7)
        yield field(whole(size, within="2"), Memoised(first, lazy(first, 0.9)), line(size))
        first = randomized_response(size, 1.5)
        second = randomized_response(size, 2.5)
        yield field(names(size), Memoised(first, second), Uniform(size, ONE))
        first = table(size, size + 2, f"memoised {size}")
        yield field(bins(size), Memoised(first, randomized_response(size + 2, 3)), line(size))
        first = extremal(size, 0.6, 3)
        yield field(names(size), Memoised(first, randomized_response(size + 1, 1)), chain(size))
        first = geometric(size, 0.7)
        domain = points(size, within="0.5")
        yield field(domain, Memoised(first, lazy(first, 0.4)), line(size))


def large() -> Iterator[Field]:
    """Large domains, depths and numbers, very large and very small epsilons."""
    wide = additive([70], [140], [roof(140, 70)] * 2, 0.9)  # depths of two digits
    yield field(whole(70), wide, line(70))
    deep = Extremal.of(((0, 4_000), (16_384, 0)), (1 << 62, 1 << 61), WORD - (1 << 50))
    yield field(names(2), deep, Uniform(2, ONE))
    yield field(whole(256, within="5"), geometric(256, 0.2), line(256, width=5))
    yield field(whole(99, low=-(2**53)), geometric(99, 0.3), line(99))
    yield field(whole(60, low=2**53 - 59), geometric(60, 1e-4), line(60))
    yield field(whole(1 << 20, low=0), geometric(1 << 20, 0.01), line(1 << 20))
    yield field(whole(300), threshold(300, 0.02), line(300, width=40))
    yield field(names(1_000), randomized_response(1_000, 5), Uniform(1_000, ONE))
    yield field(names(150), unary(150, 4), Uniform(150, ONE))
    domain = whole(40, cyclic=True, within="3")
    yield field(domain, uneven_unary(40, "wide"), line(40, cap=Fraction(3, 2), ring=True))
    domain = bins(24, cyclic=True, within="0.13")
    yield field(domain, extremal(24, 0.9, 5), line(24, cap=4, ring=True))
    yield field(whole(2, low=0), randomized_response(2, 0.001), Uniform(2, ONE))
    yield field(whole(5), geometric(5, 1e-9), line(5))
    yield field(whole(5), threshold(5, 14), line(5))
    yield field(bins(7, low=1e21, high=3e21), geometric(7, 14), line(7))
    yield field(bins(10, low=1e-7, high=1.0), randomized_response(10, 20), Uniform(10, ONE))


def grids() -> Iterator[Field]:
    """Attributes that are randomized jointly."""
    two = (whole(3, "x", within="1"), names(4, "y", ordered=True))
    patterns = [roof(20, 3), roof(20, 2), cliff(20, 7), roof(20, 9)]
    joint = [
        (two, additive([3, 4], [4, 5], patterns, 0.7), grid([3, 4], "sum")),
        (two, additive([3, 4], [4, 5], patterns[:1], 0.5), grid([3, 4], "capped")),
        (two, table(12, 7, "joint"), grid([3, 4], "diagonal")),
        (two, extremal(12, 0.8, 2), grid([3, 4], "large")),
        (two, randomized_response(12, 2), Uniform(12, ONE)),
        (two, geometric(12, 1), Uniform(12, ONE)),
        (two, geometric(12, 0.2), grid([3, 4], "sum")),
    ]
    three = (whole(2, "a"), names(3, "b"), bins(2, "c", within="2"))
    rings = (whole(6, "x", cyclic=True, within="2"), names(4, "y", ordered=True, cyclic=True))
    joint.append((rings, table(24, 5, "rings"), grid([6, 4], "sum")))
    joint.append((three, table(12, 5, "three"), grid([2, 3, 2], "diagonal")))
    joint.append((three, uneven_unary(12, "three"), grid([2, 3, 2], "capped")))
    for domains, distribution, metric in joint:
        yield Field(domains, tight(distribution, metric), distribution)


def several() -> Iterator[list[Field]]:
    """Several fields, with responses that can be missing and with public weights."""
    for size, first in ((5, whole), (4, names), (6, bins), (3, edges)):
        more = {"ordered": True} if first is names else {}
        domain = first(size, "x", optional=True, within="1", **more)
        yield [field(domain, geometric(size, 0.5), line(size)), response("x")]
    domain = whole(12, "x", optional=True, cyclic=True)
    yield [response("x"), field(domain, extremal(12, 0.8, 3), line(12, ring=True, cap=3))]
    domain = names(7, "x", optional=True)
    yield [field(domain, uneven_unary(7, "o"), tree(7, 2)), response("x", threshold(2, 0.5))]
    domain = points(5, "x", optional=True, within="0.5")
    yield [field(domain, geometric(5, 1), line(5)), response("x", unary(2, 1))]
    domain = points(4, "x", optional=True)
    yield [field(domain, geometric(4, 1), line(4, width=2)), response("x", geometric(2, 1))]
    domain = private_weight(optional=True)
    yield [field(domain, threshold(2, 1), line(2)), response("w")]
    first = geometric(6, 0.5)
    domain = whole(6, "x", optional=True)
    yield [field(domain, Memoised(first, lazy(first, 1)), line(6)), response("x")]
    domain = edges(6, "x", optional=True)
    yield [field(domain, uneven_unary(6, "middle"), tree(6, 5)), response("x")]
    weight = Field((PublicWeight("w", low=-1.5, high=1e6),))
    age = field(whole(100, "age", 0, within="5"), geometric(100, 0.2), line(100, width=5))
    place = field(names(3, "place"), randomized_response(3, 2), Uniform(3, ONE))
    yield [age, place, weight]
    odd = [whole(10, "constructor"), names(2, "toString"), whole(10, "__proto__", 0)]
    yield [field(domain, threshold(domain.size, 1), line(domain.size)) for domain in odd]
    yield [
        weight,
        *(Field((whole(4, f"a{k}"),), age_metric(k), threshold(4, 1)) for k in range(16)),
    ]


def age_metric(k):
    return Line(4, Fraction(1) + Fraction(1, 10**k), Fraction(1), None, False)


@lru_cache(maxsize=1)
def manifests() -> list[Manifest]:
    kinds = (lines, graphs, matrices, rounded_at_random, memoised, large, grids)
    fields = [[one] for kind in kinds for one in kind()]
    return [manifest_of(part) for part in (*fields, *several())]
