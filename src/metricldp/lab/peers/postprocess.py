"""Post-processing of estimated counts: the methods of Wang et al., each a function of its own.

Wang et al., "Locally Differentially Private Frequency Estimation with Consistency" (NDSS 2020).
Unbiased counts may be negative and need not add up to the number of people. All of these make
something better of that, and all are biased: the error of an answer is no longer the one stated,
and sums of many small counts may be far off. `norm_sub` is the one that answers offer; it is also
the constrained least squares solution (CLS). Post-Pos, the tenth, is `max(0, answer)`.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from metricldp.answers.postprocess import norm_sub
from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.mechanisms import Floats

__all__ = [
    "base_cut",
    "base_pos",
    "mle_apx",
    "norm",
    "norm_cut",
    "norm_mul",
    "norm_sub",
    "power",
    "power_ns",
]
TITLES = {
    "base_pos": "Base-Pos",
    "base_cut": "Base-Cut",
    "norm": "Norm",
    "norm_mul": "Norm-Mul",
    "norm_cut": "Norm-Cut",
    "norm_sub": "Norm-Sub (CLS)",
    "mle_apx": "MLE-Apx",
    "power": "Power",
    "power_ns": "PowerNS",
}
"""What the paper calls each."""
_REACH = 8
"""Standard deviations around an estimate beyond which nothing weighs."""
_STEEPEST = 64.0


def base_pos(counts: npt.ArrayLike) -> Floats:
    """Negative counts become 0."""
    return np.maximum(_checked(counts), 0.0)


def base_cut(counts: npt.ArrayLike, deviation: float, alarms: float = 2) -> Floats:
    """Counts become 0 that might be noise: of values nobody has, so many are expected to stay."""
    given = _checked(counts)
    share = min(max(alarms / len(given), 2.0**-50), 0.5)
    least = deviation * NormalDist().inv_cdf(1 - share)
    return np.where(given > least, given, 0.0)


def norm(counts: npt.ArrayLike, total: float) -> Floats:
    """The same number is added to all counts, so that they add up to the total."""
    given = _checked(counts)
    return np.asarray(given + (total - given.sum()) / len(given))


def norm_mul(counts: npt.ArrayLike, total: float) -> Floats:
    """Negative counts become 0, and the others are multiplied to add up to the total."""
    positive = base_pos(counts)
    if not positive.any():
        raise QueryError("no count is above 0, so nothing can be multiplied; use norm_sub")
    return np.asarray(positive * (total / positive.sum()))


def norm_cut(counts: npt.ArrayLike, total: float) -> Floats:
    """The largest counts stay until they pass the total, others become 0; then as `norm_mul`."""
    positive = base_pos(counts)
    falling = np.argsort(-positive, kind="stable")
    before = np.cumsum(positive[falling]) - positive[falling]
    positive[falling[before > total]] = 0.0
    return norm_mul(positive, total)


def mle_apx(counts: npt.ArrayLike, total: float, other: float, own: float) -> Floats:
    """The most likely counts, none negative, if noise were normal and independent.

    `other` and `own` are the variances that a person without and with a value adds to its count.
    With the k values that are left and S their share of all people, f becomes
    (f - other z)/(1 + (own - other) z), z = (S - 1)/(own + (k - 1) other), until none is negative.
    """
    given = _checked(counts) / total
    shares = given
    while True:
        left = shares > 0
        if not left.any():
            raise QueryError("no count is above 0, so none is likely; use norm_sub")
        z = (given[left].sum() - 1) / (own + (left.sum() - 1) * other)
        shares = np.where(left, (given - other * z) / (1 + (own - other) * z), 0.0)
        if shares.min() >= 0:
            return np.asarray(shares * total)


def power(counts: npt.ArrayLike, total: float, deviation: float) -> Floats:
    """What to expect of each count, if people follow a power law and noise is normal.

    True counts x from 1 to the total have probabilities proportional to x^-a, with the a that gives
    them the mean of all counts.
    """
    given = _checked(counts)
    exponent = _exponent(float(given.mean()), int(total))
    return np.array([_expected(one, int(total), deviation, exponent) for one in given.tolist()])


def power_ns(counts: npt.ArrayLike, total: float, deviation: float) -> Floats:
    """`power`, then `norm_sub`."""
    return norm_sub(power(counts, total, deviation), total)


def _exponent(mean: float, most: int) -> float:
    """By halving: a steeper law has a smaller mean."""
    logs = np.log(np.arange(1.0, most + 1))
    low, high = 0.0, _STEEPEST
    for _ in range(40):
        middle = (low + high) / 2
        weights = np.exp(-middle * logs)
        if np.exp(logs) @ weights > mean * weights.sum():
            low = middle
        else:
            high = middle
    return high


def _expected(estimate: float, most: int, deviation: float, exponent: float) -> float:
    first = min(max(1.0, estimate - _REACH * deviation), float(most))
    last = min(max(1.0, estimate) + _REACH * deviation, float(most))
    counts = np.arange(np.floor(first), np.floor(last) + 1)
    logs = -0.5 * ((counts - estimate) / deviation) ** 2 - exponent * np.log(counts)
    weights = np.exp(logs - logs.max())
    return float(counts @ weights / weights.sum())


def _checked(counts: npt.ArrayLike) -> Floats:
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise QueryError(f"post-processing takes a list of finite counts, not {shown(counts)}")
    return given
