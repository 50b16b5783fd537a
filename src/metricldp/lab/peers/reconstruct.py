"""Distributions by expectation maximisation: for a collector who prefers small errors to no bias.

The share of each position is fitted so that the reports are as likely as can be (EM); with
smoothing each round ends with a mean over neighbours (EMS), which says that shares of neighbours
are alike and needs fewer reports. Both are biased, and no error can be stated beside them. From Li
et al., "Estimating Numerical Distributions under Local Differential Privacy" (SIGMOD 2020), who
read Square Wave so; any channel whose report is one integer can be read in the same way. They stop
where the likelihood hardly grows; `tally.fit` stops earlier, where unseen reports are likeliest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metricldp.answers.likelihood import Tabled
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.mechanisms import Floats, IntegerChannel

MOST_ROUNDS = 10_000
_ENOUGH = 1e-3
"""A round that gains less of the logarithm of the likelihood is the last."""


def expectation_maximisation(
    channel: IntegerChannel,
    counts: npt.ArrayLike,
    *,
    smooth: bool = False,
    enough: float = _ENOUGH,
    rounds: int = MOST_ROUNDS,
) -> Floats:
    """The share of people at each position, from how often each report came: they add up to 1."""
    seen = np.asarray(counts, dtype=np.float64)
    if seen.shape != (channel.outputs,) or not (seen >= 0).all() or not 0 < seen.sum() < np.inf:
        raise QueryError(
            f"expectation maximisation takes a count for each of the {channel.outputs:,} reports, "
            f"not {shown(counts)}"
        )
    reports = Tabled((channel,), seen)
    shares = np.full(channel.size, 1 / channel.size)
    before = -np.inf
    for _ in range(rounds):
        likelihood, gradient = reports.gradient(shares)
        if abs(likelihood - before) < enough:
            break
        before = likelihood
        shares = shares * gradient / reports.n
        if smooth:
            shares = _smoothed(shares)
    return shares


def _smoothed(shares: Floats) -> Floats:
    """Twice the own share and once that of each neighbour there is, made to add up to 1."""
    wide = np.pad(shares, 1)
    sums = 2 * shares + wide[:-2] + wide[2:]
    weights = np.full(len(shares), 4.0)
    weights[[0, -1]] = 3.0
    found = sums / weights
    return np.asarray(found / found.sum())
