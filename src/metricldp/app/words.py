"""What is promised in words: by ratios, and of attributes that are blurred together."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from metricldp.basics.text import counted, plain
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.strength import in_short, rounded, times, together


def promise_in_short(survey: Agreement, names: Sequence[str]) -> str:
    """What is promised of some attributes, and of a whole report, in a line for a picture."""
    kinds = {name: survey.attributes[name] for name in names if name in survey.attributes}
    said = [f"{name} {in_short(survey, name)}" for name, a in kinds.items() if not a.is_public]
    if len(survey.asked) > len(said) or not said:
        said.append(f"any two people at most ε {rounded(together(survey))} in all")
    return "; ".join(said)


def of_block(survey: Agreement, block: Block) -> str:
    """What attributes that are blurred together promise, in a few sentences."""
    names, grid = " and ".join(block.names), block.mechanism.grid
    most = rounded(block.diameter / survey.share)
    whole = f"{names} are blurred together: at most epsilon {most} for any two people."
    if grid is None:
        return whole
    if not grid.axes:
        return f"{whole} Their distances add up: who differs in all is told apart by all of them."
    if grid.straight:
        return f"{whole} Two places are as far apart as the straight line between them is long."
    reach = [
        plain(survey.attributes[name].grid_step / float(axis.step))
        for name, axis in zip(block.names, grid.axes, strict=True)
    ]
    near = f"within {reach[0]} of each other"
    if reach[0] != reach[1]:
        sides = (f"{far} along {name}" for far, name in zip(reach, block.names, strict=True))
        near = f"within an ellipse that reaches {' and '.join(sides)}"
    epsilon = float(grid.axes[0].epsilon)
    return (
        f"{whole} Two places {near}: a report is {times(epsilon)}, from one as from the other; up "
        f"to twice as far apart {times(2 * epsilon)}; and so on. Nearer places are hidden no "
        "better: neighbouring cells may be told apart by the whole epsilon."
    )


def of_margin(error: float, alone: float) -> list[str]:
    """What a question about one attribute of a block would cost in other ways.

    Two halves of the people, one with a channel of its own, are joined by their variances. What is
    asked of all attributes is then answered by the other half at the worst: the root of two.
    """
    found = [f"blurred by itself it would be ± {alone:,.0f}"]
    if 0 < alone < error:
        half = math.sqrt(2 / (error**-2 + alone**-2))
        found.append(f"by half of the people by itself, and by half as here: ± {half:,.0f};")
        found.append("questions about all of the block would then have up to 1.41 times the error")
    return [f"{'':12}{line}" for line in found]


def of_ratios(attribute: Any) -> list[str]:
    """The promise of a metric of ratios: by its own share, and by some factors.

    Bins are as far apart as their middles, and values in them may be a bin farther apart than their
    ratio says: what is told is the most that two such values can be.
    """
    by, epsilon, metric = attribute.metric.by, attribute.epsilon, attribute.distances
    share, never = f"{plain(100 * by)} %", ""
    if attribute.cap is not None:
        never = f", never above {plain(attribute.cap)}"
    if not attribute.in_bins:
        farthest = float(metric.diameter(attribute.size))
        twice = min(epsilon * math.log(2) / math.log1p(by), farthest)
        told = f"epsilon {plain(epsilon)} for values that differ by {share}{never}"
        return [
            f"  promise   {told}: {times(min(epsilon, farthest))}",
            f"            one twice the other: {times(twice)}",
        ]
    lines = [
        f"  promise   epsilon {plain(epsilon)} for every {share} between middles of bins{never}"
    ]
    for told, ratio in ((f"values that differ by {share}", 1 + by), ("one twice the other", 2.0)):
        far, bins = _most_apart(attribute, ratio)
        lines.append(f"            {told}, up to {counted(bins, 'bin')} apart: {times(far)}")
    hair = times(max(float(metric.distance(k, k + 1)) for k in range(attribute.size - 1)))
    lines.append(f"            two values a hair apart on both sides of a bin's edge: {hair}")
    return lines


def _most_apart(attribute: Any, ratio: float) -> tuple[float, int]:
    """The largest distance of two values of such a ratio, and how many bins they may be apart."""
    ends = [attribute.values_at(position) for position in range(attribute.size)]
    starts = [low for low, _ in ends]
    found = []
    for position, (_, high) in enumerate(ends):
        other = bisect_left(starts, ratio * high) - 1
        found.append((float(attribute.distances.distance(position, other)), other - position))
    return max(found)[0], max(bins for _, bins in found)


def memory_entry(survey: Agreement, name: str) -> dict[str, float]:
    """What one report of an attribute keeps, where a device remembers the first blur."""
    size = survey.attributes[name].size
    by_one = survey.mechanisms[name].kept_by_one(size, survey.kept[name])
    return {} if by_one is None else {"one_report_per_step": float(by_one.smallest(size))}


def of_memory(entry: dict[str, Any]) -> list[str]:
    """That a promise is for all reports together, and what is said of one of them."""
    if "one_report_per_step" not in entry:
        return []
    return [
        "  again     all reports of one value from one memory keep that promise together; one of "
        "them",
        f"            tells the nearest values apart by epsilon {entry['one_report_per_step']:.3g}",
    ]
