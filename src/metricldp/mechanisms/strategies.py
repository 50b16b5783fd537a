"""Strategies: the rows A of a report (section 3.1 of the paper).

All entries are -1, 0 or 1, so that A h_x lies on an integer grid; weights are a matter of scales.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.optional import lazy
from metricldp.basics.text import shown
from metricldp.mechanisms.workloads import Workload

sparse = lazy("scipy.sparse")

Matrix = npt.NDArray[np.float64]
_HIERARCHY = re.compile(r"hierarchy(?:-([0-9]{1,9}))?")
_MANY = 4
"""A workload is a strategy of its own if it has at most so many rows for each position."""
_CLEAR, _OPEN = 1e-5, 1e-6
"""Pivots above rounding, and the residuals of counts that rows leave open."""


NAMES = (
    "identity",
    "identity-total",
    "prefix",
    "hierarchy",
    "hierarchy-4",
    "hierarchy-16",
    "haar",
    "tree",
    "workload",
)
"""What strategy="auto" chooses from; "hierarchy-b" exists for every whole b from 2."""


def named(name: str, workload: Workload, pairs: npt.NDArray[np.int64], distances: Matrix) -> Matrix:
    """The strategy of this name for a workload and a metric."""
    if name == "tree":
        return tree(workload.size, pairs, distances)
    if name == "workload":
        return of_workload(workload)
    matrix = plain(name, workload.size)
    if matrix is None:
        raise InvalidSpecError(f"no strategy is called {shown(name)}; see strategies.NAMES")
    return matrix


def plain(name: str, size: int) -> Matrix | None:
    """The strategy of a name that depends on the number of positions only, else None."""
    if name in _PLAIN:
        return _PLAIN[name](size)
    branching = _HIERARCHY.fullmatch(name)
    return hierarchy(size, int(branching[1] or 2)) if branching else None


def candidates(workload: Workload) -> list[str]:
    """The names worth trying: no hierarchy of one level, no workload that is too long."""
    left_out = {f"hierarchy-{b}" for b in (4, 16) if workload.size <= b}
    if workload.rows > _MANY * workload.size:
        left_out.add("workload")
    return [name for name in NAMES if name not in left_out]


def identity(size: int) -> Matrix:
    """Every position alone: histogram encoding (section 3.2)."""
    return np.eye(size)


def identity_total(size: int) -> Matrix:
    """Every position alone, and all: a row without noise, which corrects the others."""
    return np.vstack([np.eye(size), np.ones(size)])


def prefix(size: int) -> Matrix:
    """All up to r, for every r (section 3.3); the last row counts all respondents."""
    return np.tril(np.ones((size, size)))


def hierarchy(size: int, branching: int = 2) -> Matrix:
    """Blocks of branching^j positions for every j, up to all positions; no block twice."""
    if branching < 2:
        raise InvalidSpecError(f"a hierarchy branches into at least 2 parts, not {branching}")
    position, blocks, width = np.arange(size), [], 1
    while width < branching * size:
        block = position // width
        blocks.append(np.equal.outer(np.arange(block[-1] + 1), block))
        width *= branching
    return without_repeats(np.vstack(blocks).astype(np.float64))


def haar(size: int) -> Matrix:
    """All, then for each half of each half the left part against the right part."""
    rows, parts = [np.ones(size)], [(0, size)]
    for low, high in parts:  # parts grows while it is read
        if high - low > 1:
            middle = (low + high + 1) // 2
            row = np.zeros(size)
            row[low:middle], row[middle:high] = 1, -1
            rows.append(row)
            parts += [(low, middle), (middle, high)]
    return np.array(rows)


def of_workload(workload: Workload) -> Matrix:
    """The rows of the workload itself, each once, and the total."""
    most = _MANY * workload.size
    if workload.rows > most:
        raise InvalidSpecError(
            f"a workload of {workload.rows:,} rows is too long to be a strategy; "
            f"choose another, or use at most {most:,} rows"
        )
    rows = workload.rows_block(0, workload.rows)
    return without_repeats(np.vstack([rows, np.ones(workload.size)]))


def tree(size: int, pairs: npt.NDArray[np.int64], distances: Matrix) -> Matrix:
    """The positions beyond each edge of the shortest tree that joins all positions, and all.

    On a line these are the prefixes: a step along an edge of the tree changes just one row.
    """
    # Each pair once, smaller position first, with its shortest distance.
    ordered = np.sort(pairs, axis=1)
    order = np.lexsort((distances, ordered[:, 1], ordered[:, 0]))
    ends, first = np.unique(ordered[order], axis=0, return_index=True)
    graph = sparse.coo_array((distances[order][first], ends.T), shape=(size, size))
    short = sparse.csgraph.minimum_spanning_tree(graph.tocsr())
    order, above = sparse.csgraph.breadth_first_order(short, 0, directed=False)
    if len(order) < size:
        lost = int(np.setdiff1d(np.arange(size), order)[0])
        raise InvalidSpecError(
            f"no chain of pairs joins position {lost} with {order[0]}; add a pair"
        )
    below = np.eye(size)
    for node in order[:0:-1]:
        below[above[node]] += below[node]
    return below


def undetermined(rows: npt.ArrayLike) -> int | None:
    """The first position whose count the rows and the total leave open; else None."""
    a = np.asarray(rows, dtype=np.float64)
    centred = a[:, :-1] - a[:, -1:]
    centred = centred[centred.any(axis=1)]
    centred /= np.abs(centred).max(axis=1, keepdims=True)
    width = centred.shape[1]
    if len(centred) >= width:  # mostly nothing is open, and a factorisation shows it fastest
        try:
            pivots = np.diagonal(np.linalg.cholesky(centred.T @ centred))
        except np.linalg.LinAlgError:
            pivots = np.zeros(1)
        if pivots.min() > _CLEAR * pivots.max():
            return None
    residuals = np.linalg.pinv(centred) @ centred - np.eye(width)
    is_open = np.abs(residuals).max(axis=1) > _OPEN
    return int(np.argmax(is_open)) if is_open.any() else None


def without_repeats(rows: Matrix) -> Matrix:
    """Without rows of zeros, and without rows that repeat an earlier one or its negative."""
    filled = rows[np.any(rows != 0, axis=1)]
    leading = np.take_along_axis(filled, np.argmax(filled != 0, axis=1)[:, None], axis=1)
    _, first = np.unique(filled * np.sign(leading), axis=0, return_index=True)
    return filled[np.sort(first)]


_PLAIN: dict[str, Callable[[int], Matrix]] = {
    "identity": identity,
    "identity-total": identity_total,
    "prefix": prefix,
    "haar": haar,
}
