"""Post-processing: estimates made to look like counts, at the price of their lack of bias.

Nothing here is done unless it is asked for. What comes out is closer to the truth on the whole, and
wrong in ways that the stated errors no longer tell: see `NOTE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown

Floats = npt.NDArray[np.float64]
NOTE = (
    "made non-negative by Norm-Sub: biased, the error stated is that from before, "
    "and false reports weigh more"
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


def consistent_tree(
    levels: Sequence[npt.ArrayLike], variances: Sequence[npt.ArrayLike], branching: int
) -> list[Floats]:
    """Counts of a tree, root first, made to add up: the least squares estimate of all of them.

    Node j of a level has the nodes j * branching to (j + 1) * branching - 1 of the next, as far as
    there are any. A variance is a number for the whole level or one for each node: 0 for a known
    count, inf (above the leaves) for one that nobody estimated. Two passes as in Hay et al.
    (Boosting the Accuracy of Differentially Private Histograms Through Consistency, VLDB 2010), for
    any variances: up, each node with the sum of its children, weighted by inverse variance; down,
    what a parent differs from its children's sum is shared out by their variances.
    """
    return add_up(*_checked_tree(levels, variances, branching), branching)


def add_up(counts: list[Floats], spreads: list[Floats], branching: int) -> list[Floats]:
    """The same for arrays (..., nodes) of many trees with the same variances."""
    for level in range(len(counts) - 2, -1, -1):
        sums, spread = (_of_children(x[level + 1], branching) for x in (counts, spreads))
        _refuse_clash(level, counts[level], sums, (spreads[level] == 0) & (spread == 0))
        weight = _share(spread, spreads[level])
        own, noise = (np.where(weight > 0, x[level], 0.0) for x in (counts, spreads))
        counts[level] = weight * own + (1 - weight) * sums
        spreads[level] = np.where(weight > 0, weight * noise, spread)
    for level in range(1, len(counts)):
        parents = np.arange(counts[level].shape[-1]) // branching
        missing = counts[level - 1] - _of_children(counts[level], branching)
        spread = _of_children(spreads[level], branching)
        part = spreads[level] / np.where(spread > 0, spread, 1.0)[parents]
        counts[level] = counts[level] + part * missing[..., parents]
    return counts


def _refuse_clash(level: int, own: Floats, sums: Floats, known: npt.NDArray[np.bool_]) -> None:
    """A known count must be the sum of its children, where they are known, too."""
    wrong = known & ~np.isclose(own, sums, rtol=1e-9)
    if wrong.any():
        node = int(np.argmax(wrong))
        raise QueryError(
            f"node {node} of level {level} is known to be {own[node]:g}, but the known counts "
            f"below it add up to {sums[node]:g}; give one of them a variance"
        )


def _share(children: Floats, own: Floats) -> Floats:
    """The weight of a node's own estimate against its children's: by inverse variance."""
    both = np.where(own > 0, children + own, 1.0)
    return np.where(own > 0, children / both, 1.0)


def _of_children(level: Floats, branching: int) -> Floats:
    return np.add.reduceat(level, np.arange(0, level.shape[-1], branching), axis=-1)


def _checked_tree(
    levels: Sequence[npt.ArrayLike], variances: Sequence[npt.ArrayLike], branching: int
) -> tuple[list[Floats], list[Floats]]:
    if isinstance(branching, bool) or not isinstance(branching, int) or branching < 2:
        raise QueryError(f"a tree has at least 2 branches at a node, not {shown(branching)}")
    counts, given = _arrays(levels, "counts"), _arrays(variances, "variances")
    if not counts:
        raise QueryError("a tree has at least one level, and there is none")
    if len(counts) != len(given):
        raise QueryError(
            f"{len(given)} levels of variances do not fit {len(counts)} levels of counts"
        )
    for place, level in enumerate(counts):
        if level.ndim != 1 or not len(level):
            raise QueryError(
                f"level {place} is a list of counts, one for each node, not {shown(levels[place])}"
            )
    for above, (upper, lower) in enumerate(pairwise(counts)):
        if len(upper) != -(-len(lower) // branching):
            raise QueryError(
                f"level {above + 1} has {len(lower)} nodes, so level {above} has "
                f"{-(-len(lower) // branching)}, not {len(upper)}"
            )
    spreads = []
    for place, (level, spread) in enumerate(zip(counts, given, strict=True)):
        if spread.shape not in ((), (1,), level.shape):
            raise QueryError(
                f"variances of level {place} are one number, or one for each of its {len(level)} "
                f"nodes, not {shown(variances[place])}"
            )
        if np.isnan(spread).any() or (spread < 0).any():
            raise QueryError(f"level {place} has a variance below zero; give 0 for a known count")
        spreads.append(np.array(np.broadcast_to(spread, level.shape)))
        wrong = np.flatnonzero(~np.isfinite(level) & np.isfinite(spreads[-1]))
        if len(wrong):
            raise QueryError(
                f"node {wrong[0]} of level {place} is {level[wrong[0]]}; give a finite count, or "
                "an infinite variance if nobody estimated it"
            )
    if np.isinf(spreads[-1]).any():
        raise QueryError("a leaf has an infinite variance, so nothing tells it; leave it out")
    return counts, spreads


def _arrays(parts: Sequence[npt.ArrayLike], what: str) -> list[Floats]:
    """An array of numbers for each level, or a refusal."""
    if isinstance(parts, str | bytes) or not isinstance(parts, Iterable):
        raise QueryError(f"{what} are a list with an entry for each level, not {shown(parts)}")
    found = []
    for place, part in enumerate(parts):
        try:
            array = np.asarray(part)
        except ValueError:  # a list of lists of different lengths
            array = np.asarray("")
        if array.dtype.kind not in "iuf":
            raise QueryError(f"{what} of level {place} are numbers, not {shown(part)}")
        found.append(array.astype(np.float64))
    return found
