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
    """Of tables whose promise is more than channels of one attribute each add up to."""
    for block in survey.blocks.values():
        if nearer(block):
            sides = zip(block.metrics, block.sizes, strict=True)
            apart = [float(metric.diameter(size)) for metric, size in sides]
            yield (
                f"{' and '.join(block.names)} are blurred together: at most epsilon "
                f"{float(block.diameter):.4g} for any two people. Channels of one attribute each "
                f"have {' + '.join(f'{far:.4g}' for far in apart)} = {sum(apart):.4g}."
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
                "plain mechanisms that keep its metric have it between any two values."
            )
        elif said >= metric.diameter(size):
            yield (
                f"{name}: the stated epsilon {float(said):g} between any two values promises "
                f"no more than the survey itself, which keeps {float(metric.diameter(size)):.4g} "
                "across the whole domain."
            )
