"""What the promises that stand beside each other in a comparison mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from metricldp.attributes.base import Attribute
from metricldp.lab.contest import spread_out
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block


def nearer(block: Block) -> bool:
    """Whether people are nearer to each other than the distances of its attributes add up to."""
    sides = zip(block.metrics, block.sizes, strict=True)
    return block.diameter < sum(metric.diameter(size) for metric, size in sides)


def both_promises(survey: Agreement) -> Iterator[str]:
    """Of attributes that are blurred together, beside channels of one attribute each."""
    for block in survey.blocks.values():
        sides = zip(block.metrics, block.sizes, strict=True)
        apart = [float(metric.diameter(size)) for metric, size in sides]
        told = f"{' + '.join(f'{far:.4g}' for far in apart)} = {sum(apart):.4g}"
        names = " and ".join(block.names)
        if nearer(block):
            yield (
                f"{names} are randomized jointly: at most epsilon {float(block.diameter):.4g} for "
                f"any two respondents. Mechanisms of one attribute each have {told}."
            )
        else:
            yield (
                f"{names} are randomized jointly, and distances add up, as for separate "
                f"mechanisms: at most epsilon {told} for any two respondents. HIO, HDG and trees "
                "have the same epsilon for any two respondents: their width."
            )


def stated(attribute: Attribute) -> Fraction:
    """The epsilon that plain mechanisms have between any two values, where it is spread out."""
    return spread_out(attribute).distances.smallest(attribute.size)


def meanings(attributes: Mapping[str, Attribute]) -> Iterator[str]:
    """Where the stated epsilon between any two values is nothing new, or promises less."""
    for name, attribute in attributes.items():
        metric, size, said = attribute.distances, attribute.size, stated(attribute)
        if said == metric.smallest(size):
            yield (
                f"{name}: the stated epsilon {float(said):g} is its smallest distance, so "
                "plain mechanisms with its metric have that epsilon between any two values."
            )
        elif said >= metric.diameter(size):
            yield (
                f"{name}: the stated epsilon {float(said):g} between any two values is not "
                "stronger than the survey, whose largest epsilon is "
                f"{float(metric.diameter(size)):.4g}."
            )
