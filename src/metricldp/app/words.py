"""What is promised of attributes that are blurred together, in words."""

from __future__ import annotations

from metricldp.basics.text import plain
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.strength import rounded, times


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
