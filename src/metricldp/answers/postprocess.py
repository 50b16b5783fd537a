"""Post-processing: estimates made to look like counts, at the price of their lack of bias.

Nothing here is done unless it is asked for. What comes out is closer to the truth on the whole, and
wrong in ways that the stated errors no longer tell: see `NOTE`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown

Floats = npt.NDArray[np.float64]
NOTE = (
    "made non-negative by Norm-Sub: biased; the standard error is that of the unbiased "
    "estimate, and malicious reports have a larger effect"
)


def norm_sub(counts: npt.ArrayLike, total: float) -> Floats:
    """The nearest counts that are not negative and add up to `total`.

    Norm-Sub of Wang et al. (Locally Differentially Private Frequency Estimation with Consistency,
    NDSS 2020): the same number is taken from all that stay positive, and the rest are zero. It is
    the projection onto the simplex: with the counts in falling order, the largest k for which the
    k-th would stay positive decides what is taken. The largest is taken off first, because beside
    a huge count the total would be lost to rounding; all that is `total` below it becomes zero.
    """
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise QueryError(f"Norm-Sub takes a list of finite counts, not {shown(counts)}")
    if not is_number(total) or not 0 < total < np.inf:
        raise QueryError(f"Norm-Sub needs a number of people above 0, not {shown(total)}")
    with np.errstate(over="ignore"):
        below = np.maximum(given - given.max(), -2 * total)
    falling = np.sort(below)[::-1]
    taken = (np.cumsum(falling) - total) / np.arange(1, len(given) + 1)
    kept = int(np.flatnonzero(falling > taken)[-1])
    return np.asarray(np.maximum(below - taken[kept], 0.0))
