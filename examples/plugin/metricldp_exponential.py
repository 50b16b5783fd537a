"""The exponential mechanism on a line: P(y | x) proportional to e^(-epsilon |x - y| / 2).

One step of x changes every weight by e^(epsilon/2) at most and their sum by as much again, so the
reports of neighbours differ by a factor of e^epsilon at most (McSherry and Talwar 2007).
"""

from fractions import Fraction

from metricldp.basics.exact import ONE, exp_bounds
from metricldp.channels.mechanism import Simple
from metricldp.channels.table import Table

FLOOR = 1 << 24


def exponential(size: int, epsilon: Fraction) -> Table:
    """Whole numbers over 2^64: each rounded down, and the true value takes what is left.

    Every report gets a floor of 2^24 first, for weights far away would be rounded to 0 and tell
    values apart for certain. What all rows have in common brings them closer together only.
    """
    shrink = exp_bounds(-epsilon / 2)[0]
    powers = [int(shrink**k * ONE) for k in range(size)]
    rows = []
    for x in range(size):
        weights = [powers[abs(x - y)] for y in range(size)]
        scale = Fraction(ONE - size * FLOOR, sum(weights))
        row = [FLOOR + int(weight * scale) for weight in weights]
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
