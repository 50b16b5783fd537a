"""Random manifests of one attribute, with metrics that need not hold, for facts about sentences."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from client_manifests import (
    bins,
    chain,
    edges,
    extremal,
    geometric,
    lazy,
    names,
    points,
    randomized_response,
    scaled,
    star,
    table,
    threshold,
    tree,
    unary,
    uneven_unary,
    whole,
)

from metricldp.channels.plain_data import manifest_of
from metricldp_core import Manifest
from metricldp_core.distributions import Memoised
from metricldp_core.manifest import Field
from metricldp_core.metrics import Line, Uniform
from metricldp_core.values import Response

LARGEST = Fraction(1 << 40)
"""Of distances and widths."""


def random_manifests(count: int, seed: int) -> Iterator[Manifest]:
    draw = random.Random(seed)
    for _ in range(count):
        domain = random_domain(draw)
        metric = random_metric(draw, domain)
        fields = [Field((domain,), metric, random_distribution(draw, domain.size))]
        if domain.optional:
            whether = Uniform(2, random_epsilon(draw))
            fields.append(Field((Response("x"),), whether, randomized_response(2, 1)))
        yield manifest_of(fields)


def random_epsilon(draw):
    """Fractions of all sizes, also with long numerators and denominators."""
    numerator = draw.randrange(1, 10 ** draw.randrange(1, 13))
    denominator = draw.choice([draw.randrange(1, 50), 2 ** draw.randrange(80), 10**9])
    return min(Fraction(numerator, denominator), LARGEST)


def random_decimal(draw):
    digits = "".join(draw.choice("0123456789") for _ in range(draw.randrange(6))).rstrip("0")
    whole_part = draw.choice([0, 0, draw.randrange(10), draw.randrange(1, 10**6)])
    text = f"{whole_part}.{digits}" if digits else str(whole_part)
    return text if float(text) else "1"


def random_domain(draw):
    size = draw.randrange(3, 12)
    within = {"within": random_decimal(draw)} if draw.random() < 0.5 else {}
    close = {"ratio": random_decimal(draw)} if draw.random() < 0.3 else within
    cyclic = draw.random() < 0.3
    found = draw.choice(
        [
            lambda: whole(size, low=draw.choice([-5, 0, 12_345]), cyclic=cyclic, **within),
            lambda: whole(size, low=draw.choice([1, 7, 1_000]), **close),
            lambda: bins(size, low=0.1, high=draw.choice([2.3, 1e6]), **close),
            lambda: edges(size, low=draw.choice([0.01, 0.05]), **close),
            lambda: names(size, ordered=True, cyclic=cyclic, **within),
            lambda: names(size),
            lambda: points(size, low=draw.choice([-1.0, 0.0]), high=3.7, **within),
        ]
    )()
    return replace(found, optional=draw.random() < 0.3)


def random_metric(draw, domain):
    size, epsilon = domain.size, random_epsilon(draw)
    ring = getattr(domain, "cyclic", False)
    width = max(Fraction(1), Fraction(draw.randrange(1, 60), draw.randrange(1, 10)))
    cap = draw.choice([None, epsilon, min(epsilon * Fraction(draw.randrange(10, 60), 10), LARGEST)])
    centers = set(draw.sample(range(size), draw.randrange(1, size)))
    lines = [Line(size, epsilon, draw.choice([Fraction(1), width]), cap, ring)]
    graphs = [chain(size, draw.random()), star(size, centers), tree(size, draw.random())]
    others = [] if ring or domain.stochastic else graphs
    found = draw.choice([Uniform(size, epsilon), *lines * 3, *others])
    return scaled(found, epsilon / 8) if found in others else found


def random_distribution(draw, size):
    epsilon, seed = draw.choice([0.01, 0.3, 1, 4, 10]), draw.random()
    first = geometric(size, epsilon)
    return draw.choice(
        [
            lambda: randomized_response(size, epsilon),
            lambda: threshold(size, epsilon),
            lambda: unary(size, epsilon),
            lambda: first,
            lambda: table(size, 5, seed),
            lambda: extremal(size, 0.7, 3),
            lambda: uneven_unary(size, seed),
            lambda: Memoised(first, lazy(first, 1)),
        ]
    )()
