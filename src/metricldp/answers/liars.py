"""How far lying devices can move an answer: a bound from the decoders, without any assumption.

Whoever has a device can send any report that a collector takes. Of a linear answer, a sum of F over
all reports, each lie in place of an honest report moves it by at most max F - min F, and some lie
does so. k of them move it by k times that, and no more, whatever the honest ones sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import shown
from metricldp.store.readings import Functions, involved
from metricldp.survey.agreement import Agreement

Ends = tuple[float, float]
"""The least and the most."""
Lie = Callable[[], Ends]
"""What one report can add to a sum, found when it is asked for."""
_DOUBLINGS, _HALVINGS = 200, 60


def one_report(survey: Agreement, functions: Functions, weight: str | None = None) -> Ends:
    """The least and the most that one report adds to the sum of a product of functions.

    Exact where the channels know their ends: each attribute's field can be chosen by itself, so
    those of a product are products of ends. A public weight can be anything in its interval.
    """
    parts = [_of(survey, name, functions) for name in involved(survey, functions)]
    if weight is not None:
        ends = survey.attributes[weight].public_ends
        assert ends is not None
        parts.append((float(ends[0]), float(ends[1])))
    return reduce(_times, parts, (1.0, 1.0))


def _of(survey: Agreement, name: str, functions: Functions) -> Ends:
    if name in survey.blocks:
        block = survey.blocks[name]
        sizes = zip(block.names, block.sizes, strict=True)
        return block.channel.output_range(
            [functions.get(n, np.ones(size))[None] for n, size in sizes]
        )
    channel = survey.channels[name]
    return channel.moments.output_range(functions.get(name, np.ones(channel.size)))


def _times(one: Ends, other: Ends) -> Ends:
    corners = [a * b for a in one for b in other]
    return min(corners), max(corners)


def checked_liars(liars: object) -> int:
    """A number of devices, from 0 on."""
    if not is_whole(liars) or liars < 0:
        raise QueryError(f"malicious is a number of reports, such as 500, not {shown(liars)}")
    return int(liars)


def moved_mean(
    sums: tuple[float, float],
    liars: int,
    lies: Callable[[float], Ends],
    lie: Ends,
    possible: Ends,
) -> Ends:
    """The ends of a mean N / D that lies moved: from what one adds to N - m D, and to D.

    k lies move N - m D by up to width(m), k times what one does; an honest mean m has |N - m D| <=
    width(m). The width is convex in m and grows no faster than that of D, so where D cannot be
    moved to zero there is one end on each side; else none.
    """

    def width(mean: float) -> float:
        low, high = lies(mean)
        return liars * (high - low)

    numerator, size = sums
    if size <= liars * (lie[1] - lie[0]):
        return possible
    mean = numerator / size
    low, high = (_end(mean, size, width, sign) for sign in (-1, 1))
    return low, high


def _end(mean: float, size: float, width: Callable[[float], float], sign: int) -> float:
    """The first m on one side of the mean that is too far from it, by doubling and halving."""

    def within(step: float) -> bool:
        return step * size <= width(mean + sign * step)

    if not width(mean):
        return mean
    far = width(mean) / size
    for _ in range(_DOUBLINGS):
        if not within(far):
            break
        far *= 2
    else:
        return sign * math.inf
    near = 0.0
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if within(middle) else (near, middle)
    return mean + sign * far
