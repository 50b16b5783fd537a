"""The exponential mechanism on a line: P(y | x) is proportional to e^(-epsilon |x - y| / 2).

One step of x changes each weight by a factor of at most e^(epsilon/2), and the sum of weights by as
much. So reports of neighbours differ by a factor of at most e^epsilon (McSherry and Talwar 2007).
"""

from fractions import Fraction

from metricldp.mechanisms.base import EpsilonMechanism
from metricldp_core.distributions import Table
from metricldp_core.exact import WORD, exp_bounds

FLOOR = 1 << 24
"""Added to every weight: a weight rounded to 0 would identify values with certainty."""


def exponential(size: int, epsilon: Fraction) -> Table:
    """Return integers that add up to 2^64 for each position; rounding goes to the true value."""
    shrink = exp_bounds(-epsilon / 2)[0]
    powers = [int(shrink**k * WORD) for k in range(size)]
    rows = []
    for x in range(size):
        weights = [powers[abs(x - y)] for y in range(size)]
        scale = Fraction(WORD - size * FLOOR, sum(weights))
        row = [FLOOR + int(weight * scale) for weight in weights]
        row[x] += WORD - sum(row)
        rows.append(tuple(row))
    return Table(tuple(rows))


EXPONENTIAL = EpsilonMechanism(
    "exponential",
    exponential,
    title="exponential mechanism",
    source="McSherry and Talwar 2007",
    needs_order=True,
    max_computed=256,
    max_simulated=256,
)
