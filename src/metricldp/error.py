"""What the theory predicts: the exact error of an answer, in the worst case or under a prior.

One person at x adds prod_d S_d(x_d) - prod_d f_d(x_d)^2 to the variance of an answer, where S_d is
the second moment of the decoder of f_d. Everything here is that expression, averaged or bounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metricldp.channels import Channel, Floats
from metricldp.errors import QueryError
from metricldp.queries import Query
from metricldp.survey import Survey

Prior = str | npt.ArrayLike | Mapping[str, npt.ArrayLike]


@dataclass(frozen=True)
class Factor:
    """One attribute's part in an answer: its function, and the second moment of its decoder."""

    name: str
    channel: Channel
    function: Floats

    @property
    def square(self) -> Floats:
        """f^2 at every position."""
        return np.asarray(self.function**2)

    @property
    def second(self) -> Floats:
        """S = E[F^2 | x] at every position."""
        return self.channel.second_moment(self.function)

    @property
    def coefficients(self) -> Floats:
        """The decoders of f, of S and of f^2, all that an answer and its variance need."""
        return self.channel.coefficients(np.stack([self.function, self.second, self.square]))


def factors(survey: Survey, query: Query) -> list[Factor]:
    """The attributes that matter: those named, and those that cost even when left whole."""
    found = []
    for name, channel in survey.channels.items():
        if name in query.functions:
            found.append(Factor(name, channel, query.functions[name]))
        elif not channel.free_when_whole:
            found.append(Factor(name, channel, np.ones(channel.size)))
    return found


def predicted(survey: Survey, query: Query, n: int, prior: Prior) -> float:
    """The standard error of a sum over n people, exact for the prior."""
    if n < 1:
        raise QueryError(f"an error needs at least one person, not n = {n}")
    involved = factors(survey, query)
    if isinstance(prior, str) and prior == "worst":
        return math.sqrt(n * variance_bounds(involved)[1])
    return math.sqrt(n * max(0.0, _mean_variance(involved, query, prior)))


def variance_bounds(involved: list[Factor]) -> tuple[float, float]:
    """The least and the most that one person, wherever she is, adds to the variance.

    Attributes are joined one at a time; of the pairs (product of S, product of f^2) only those
    are kept that some later factor could still make the smallest or the largest.
    """
    lowest = highest = np.array([[1.0, 1.0]])
    for factor in involved:
        pairs = np.unique(np.stack([factor.second, factor.square], axis=1), axis=0)
        lowest = _front(_products(lowest, pairs), sign=-1)
        highest = _front(_products(highest, pairs), sign=1)
    return float((lowest[:, 0] - lowest[:, 1]).min()), float((highest[:, 0] - highest[:, 1]).max())


def _products(one: Floats, other: Floats) -> Floats:
    return np.asarray((one[:, None, :] * other[None, :, :]).reshape(-1, 2))


def _front(pairs: Floats, sign: int) -> Floats:
    """The pairs with no other that is better in both: larger first and smaller second, for +1."""
    order = np.lexsort((sign * pairs[:, 1], -sign * pairs[:, 0]))
    ranked = sign * pairs[order, 1]
    best_before = np.concatenate([[np.inf], np.minimum.accumulate(ranked)[:-1]])
    return np.asarray(pairs[order][ranked < best_before])


def _mean_variance(involved: list[Factor], query: Query, prior: Prior) -> float:
    named = [factor for factor in involved if factor.name in query.functions]
    whole = [factor for factor in involved if factor.name not in query.functions]
    shares = _shares(named, prior)
    if isinstance(shares, list):
        second = math.prod(float(p @ f.second) for p, f in zip(shares, named, strict=True))
        square = math.prod(float(p @ f.square) for p, f in zip(shares, named, strict=True))
    else:
        second, square = (_contract(shares, [g(f) for f in named]) for g in (_second, _square))
    # A function that is 1 everywhere has the same second moment everywhere.
    return second * math.prod(float(f.second[0]) for f in whole) - square


def _second(factor: Factor) -> Floats:
    return factor.second


def _square(factor: Factor) -> Floats:
    return factor.square


def _contract(joint: Floats, vectors: list[Floats]) -> float:
    for vector in reversed(vectors):
        joint = joint @ vector
    return float(joint)


def _shares(named: list[Factor], prior: Prior) -> list[Floats] | Floats:
    """How people are spread over the named attributes: one array each, or one joint array."""
    if isinstance(prior, str):
        if prior != "uniform":
            raise QueryError(f"a prior is 'worst', 'uniform' or arrays of shares, not {prior!r}")
        return [np.full(f.channel.size, 1 / f.channel.size) for f in named]
    if isinstance(prior, Mapping):
        missing = [f.name for f in named if f.name not in prior]
        if missing:
            raise QueryError(f"the prior says nothing of {missing[0]}; give an array for it")
        return [_normalised(prior[f.name], (f.channel.size,), f.name) for f in named]
    sizes = tuple(f.channel.size for f in named)
    return _normalised(prior, sizes, " x ".join(f.name for f in named) or "nothing")


def _normalised(shares: npt.ArrayLike, sizes: tuple[int, ...], name: str) -> Floats:
    array = np.asarray(shares, dtype=np.float64)
    if array.shape != sizes:
        raise QueryError(f"a prior for {name} has shape {sizes}, not {array.shape}")
    total = array.sum()
    if not np.isfinite(array).all() or (array < 0).any() or total <= 0:
        raise QueryError(f"a prior for {name} holds shares of people: finite, none below zero")
    return np.asarray(array / total)


def paper_range_variance(epsilon: float, attributes: int, cut: int, n: int) -> float:
    """Theorem 3 of the paper with constant 1, for `cut` of the attributes cut by the range.

    With cut = attributes it is Theorem 2, the bound drawn in Figure 2. It is what the paper states,
    not an upper bound: its proof drops the covariances of observations that share bits, so people
    inside a range over two or more attributes exceed it. `predicted` is exact.
    """
    kappa_squared = (1 / math.tanh(epsilon / 2)) ** 2
    return kappa_squared**attributes * 2.0**-cut * (1 - kappa_squared**-attributes) * n
