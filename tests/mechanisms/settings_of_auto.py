"""Sixty settings, and the variance of what `auto` chooses beside that of all other mechanisms."""

import contextlib
from fractions import Fraction

from checks import designed_channel
from metricldp.basics.errors import MetricLdpError
from metricldp.mechanisms.auto import choose, mean_variance
from metricldp.mechanisms.base import Problem
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.registry import every_mechanism
from metricldp.metrics import Line, Uniform
from metricldp.metrics.window import Bent, Window

OURS = ("additive", "tight-constraints", "extremal")
ONE, HALF, TWO, THREE = Fraction(1), Fraction(1, 2), Fraction(2), Fraction(3)
FIFTH, ONE_AND_A_HALF = Fraction(1, 5), Fraction(3, 2)


def settings():
    """Sixty: how many values, a metric in words and as it is, and a workload."""
    for size in (16, 64):
        for epsilon in (Fraction(1, 10), HALF, ONE_AND_A_HALF):
            for workload in ("ranges", "values"):
                yield size, f"{float(epsilon):g} per step", Line(epsilon), workload
    for size in (16, 40, 100):
        for epsilon, width in ((ONE, 5), (HALF, 8), (TWO, 3)):
            for workload in ("ranges", "mean"):
                words = f"{float(epsilon):g} within {width}"
                yield size, words, Window(epsilon, width), workload
    for size in (16, 40, 100):
        for epsilon, width, cap in ((ONE, 5, THREE), (HALF, 8, ONE_AND_A_HALF)):
            for workload in ("prefixes", "values"):
                words = f"{float(epsilon):g} within {width}, cap {float(cap):g}"
                yield size, words, Window(epsilon, width, cap), workload
    for size in (8, 16, 64):
        for epsilon in (ONE, THREE):
            for workload in ("ranges", "values"):
                yield size, f"{float(epsilon):g} for all pairs", Uniform(epsilon), workload
    yield 24, "0.5 per step, a circle", Bent(HALF, around=24), "ranges"
    yield 24, "0.5 per step, a circle", Bent(HALF, around=24), "values"
    yield 12, "1 per step, a circle", Bent(ONE, around=12), "ranges"
    yield 12, "1 per step, a circle", Bent(ONE, around=12), "4 bars"
    yield 40, "1 within 5", Window(ONE, 5), "5 bars"
    yield 16, "1 within 4", Window(ONE, 4), "4 bars"


def against_all(size, metric, workload):
    """What "auto" takes and its variance per person; the best of all others, and its own."""
    own, distribution = choose(Problem.single(size, metric, ordered=True, workload=workload))
    mine = mean_variance(channel_of(distribution), workload)
    others = {}
    for other in every_mechanism():
        if other.joint or other.name in (*OURS, own.name, "matrix"):
            continue
        with contextlib.suppress(MetricLdpError, NotImplementedError):
            channel = designed_channel(other, size, metric)
            if channel.moments.is_linear:
                others[other.name] = mean_variance(channel, workload)
    best = min(others, key=others.get)
    return own.name, mine, best, others[best]
