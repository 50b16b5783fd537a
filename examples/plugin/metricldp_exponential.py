"""The exponential mechanism on a line: P(y | x) proportional to e^(-epsilon |x - y| / 2).

One step of x changes every weight by e^(epsilon/2) at most and their sum by as much again, so the
reports of neighbours differ by a factor of e^epsilon at most (McSherry and Talwar 2007).
"""

from fractions import Fraction

from metricldp.basics.exact import ONE, exp_bounds
from metricldp.channels.mechanism import Simple
from metricldp.channels.table import Table


def exponential(size: int, epsilon: Fraction) -> Table:
    """Whole numbers over 2^64: each rounded down, and the true value takes what is left."""
    shrink = exp_bounds(-epsilon / 2)[0]
    rows = []
    for x in range(size):
        weights = [shrink ** abs(x - y) for y in range(size)]
        row = [int(weight / sum(weights) * ONE) for weight in weights]
        row[x] += ONE - sum(row)
        rows.append(row)
    return Table.of(rows)


EXPONENTIAL = Simple(
    "exponential",
    exponential,
    title="exponential mechanism",
    source="McSherry and Talwar 2007",
    needs_order=True,
    max_computed=256,
    max_simulated=256,
)
