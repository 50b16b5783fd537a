"""Error bounds as the paper states them (lemma 1, theorems 2 to 5), and corrected ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown


def paper_range_variance(epsilon: float, attributes: int, cut: int, n: int) -> float:
    """Theorem 3 of the paper with constant 1, for `cut` of the attributes cut by the range.

    With cut = attributes it is Theorem 2, the bound drawn in Figure 2. It is what the paper states,
    not an upper bound: its proof drops the covariances of observations that share bits, so people
    inside a range over two or more attributes exceed it. `predicted` is exact.
    """
    kappa_squared = (1 / math.tanh(epsilon / 2)) ** 2
    return kappa_squared**attributes * 2.0**-cut * (1 - kappa_squared**-attributes) * n


def paper_weighted_variance(
    epsilon: float, attributes: int, cut: int, n: int, largest: float, *, private: bool
) -> float:
    """Theorem 4 of the paper with constant 1: ranges weighted by numbers from 0 to `largest`.

    A private weight is one more attribute, which every range cuts. It is what the paper states, not
    an upper bound, for the reason above: with public weights from two attributes on, with private
    ones from one on, people inside a range whose weight is the largest exceed it.
    `weighted_variance` is exact.
    """
    more = 1 if private else 0
    return largest**2 * paper_range_variance(epsilon, attributes + more, cut + more, n)


def weighted_variance(
    epsilon: float,
    attributes: int,
    weights: npt.ArrayLike,
    inside: npt.ArrayLike,
    largest: float | None = None,
) -> float:
    """The exact expected squared error of a weighted range, as section 4.3.2 answers it.

    `inside` has a row for each person and a column for each attribute that the range cuts: whether
    they are inside its part. A cut attribute's decoder has the second moment (kappa^2 - 1)/2 + f, a
    whole one's kappa^2. With `largest`, weights are private: rounded at random to 0 or `largest`
    and sent as one more attribute of two values, which is cut and has a mean f of w / largest.
    """
    squared = (1 / math.tanh(epsilon / 2)) ** 2
    w, f = np.asarray(weights, dtype=np.float64), np.asarray(inside, dtype=np.float64)
    second = squared ** (attributes - f.shape[1]) * ((squared - 1) / 2 + f).prod(axis=1)
    if largest is None:
        weighted = w**2 * second
    else:
        weighted = largest**2 * second * ((squared - 1) / 2 + w / largest)
    return float((weighted - w**2 * f.prod(axis=1)).sum())


# Bounds for one attribute in threshold bits, everybody asked


def paper_percentile_bound(epsilon: float, n: int, delta: float) -> float:
    """Lemma 1 of the paper: |share_hat(x) - share(x)| <= kappa sqrt(2/n ln(1/delta)) for one x.

    Its proof writes o_1 + o_r where its algebra gives o_m + o_r, adds two sums with the tail of
    one, and takes a one-sided tail for both sides. The claim is true for delta <= 1/2 all the same:
    Hoeffding for the 2n signs of the literal channel gives kappa sqrt(ln(2/delta) / n).
    """
    return _kappa(epsilon, n, delta) * math.sqrt(2 / n * math.log(1 / delta))


def paper_quantile_bound(epsilon: float, n: int, m: int, delta: float) -> float:
    """Theorem 5 of the paper: Err <= 2 kappa sqrt(2/n ln(2 log2(m) / delta)).

    The outer logarithm is natural, from the Lemma; the inner one counts the steps of a binary
    search, so its base is 2. The proof adds up failures over the values that the search visits;
    but which those are depends on the same noise, and the last scan visits up to eleven more.
    """
    kappa = _kappa(epsilon, n, delta, m)
    return 2 * kappa * math.sqrt(2 / n * math.log(2 * math.log2(m) / delta))


def percentile_bound(epsilon: float, n: int, delta: float) -> float:
    """With the constant last bit: |share_hat(x) - share(x)| <= kappa sqrt(ln(2/delta) / (2n)).

    share_hat - share = kappa / (2n) times the sum of n independent centred signs, each within an
    interval of length 2. Hoeffding: that sum exceeds t either way with probability at most
    2 exp(-t^2 / (2n)), which is delta at t = sqrt(2n ln(2/delta)).
    """
    return _kappa(epsilon, n, delta) * math.sqrt(math.log(2 / delta) / (2 * n))


def quantile_bound(epsilon: float, n: int, m: int, delta: float) -> float:
    """Err of both methods, with the constant last bit: kappa sqrt(ln(2(m-1)/delta) / (2n)).

    Let b be that bound: `percentile_bound` at delta / (m-1). With probability 1 - delta all m - 1
    inner shares are within b at once, and the last is exact; no visited set has to be guessed.
    Isotonic regression keeps this with any weights: the fit at k is max over a <= k of min over
    c >= k of the mean of share_hat over a..c; with c = k that is at most share(k) + b, and with
    a = k at least share(k) - b. For the x that either method returns, share_hat(x-1) < p <=
    share_hat(x), so share(x-1) < p + b and share(x) >= p - b: p is within b of x's percentiles.
    """
    return _kappa(epsilon, n, delta, m) * math.sqrt(math.log(2 * (m - 1) / delta) / (2 * n))


def _kappa(epsilon: float, n: int, delta: float, m: int = 2) -> float:
    for name, value, fits in (
        ("epsilon above 0", epsilon, is_number(epsilon) and epsilon > 0),
        ("n of at least 1", n, is_number(n) and 1 <= n < math.inf),
        ("m of at least 2", m, is_number(m) and 2 <= m < math.inf),
        ("delta between 0 and 1", delta, is_number(delta) and 0 < delta < 1),
    ):
        if not fits:
            raise QueryError(f"a bound needs {name}, not {shown(value)}")
    return 1 / math.tanh(epsilon / 2)
