"""Section 4.1 of the paper to the letter: slow, dense, and written to be read beside it.

The observations o (`observations`), the matrix B and its inverse (`b_matrix`, `b_inverse`), the
frequencies (`frequencies`, equation 7) and their sums over ranges (`range_sum`, equation 8).
Tests compare the answers of `threshold-paper` with it.

Values count from 1 here, as in the paper, and the first attribute runs fastest. Attributes may
differ in size: B is then what section 4.3.1 calls C.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import QueryError
from metricldp.mechanisms import Floats
from metricldp.reports.arrow import batches
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa

Whole = npt.NDArray[np.int64]
Range = Sequence[tuple[int, int]]
"""The inclusive ends [l_d, r_d] of each attribute, counting from 1."""

_LITERAL = ("threshold-paper", "threshold-dummy")
LARGEST_DENSE = 2048
"""Cells up to which a matrix of cells by cells is built."""


def index(x: Sequence[int], sizes: Sequence[int]) -> int:
    """ind(x) = 1 + sum_d (m_1 ... m_{d-1}) (x[d] - 1).

    >>> [index((a, b), (3, 2)) for b in (1, 2) for a in (1, 2, 3)]
    [1, 2, 3, 4, 5, 6]
    """
    result, stride = 1, 1
    for value, size in zip(x, sizes, strict=True):
        if not 1 <= value <= size:
            raise QueryError(f"a value of {size} counts from 1 to {size}, not {value}")
        result += stride * (value - 1)
        stride *= size
    return result


def values(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Every x of the domain in the order of ind(x)."""
    backwards = itertools.product(*(range(1, size + 1) for size in reversed(sizes)))
    return [x[::-1] for x in backwards]


# The matrix and its inverse


def b_matrix(sizes: Sequence[int]) -> Whole:
    """Equation 6: blocks of the one before, minus those above the diagonal.

    >>> b_matrix([3])
    array([[ 1, -1, -1],
           [ 1,  1, -1],
           [ 1,  1,  1]])
    """
    _check_dense(sizes)
    before: Whole = np.ones((1, 1), dtype=np.int64)
    for size in sizes:
        rows = [[before if j <= i else -before for j in range(size)] for i in range(size)]
        before = np.block(rows)
    return before


def b_inverse_scaled(sizes: Sequence[int]) -> Whole:
    """2^D times the inverse of B, in integers, by the recursion of equation 9.

    >>> b_inverse_scaled([3])
    array([[ 1,  0,  1],
           [-1,  1,  0],
           [ 0, -1,  1]])
    """
    _check_dense(sizes)
    before: Whole = np.ones((1, 1), dtype=np.int64)
    for size in sizes:
        rows = [[_sign(i, j, size) * before for j in range(size)] for i in range(size)]
        before = np.block(rows)
    return before


def _sign(i: int, j: int, size: int) -> int:
    """One on the diagonal and in the last column of the first row, minus one below."""
    return int(i == j) - int(j == i - 1) + int(i == 0 and j == size - 1)


def b_inverse(sizes: Sequence[int]) -> Floats:
    """The inverse of B: zeros and plus or minus 2^-D, which floats hold exactly."""
    return np.asarray(b_inverse_scaled(sizes) / 2 ** len(sizes))


def range_row(ranges: Range, sizes: Sequence[int]) -> Floats:
    """The rows of the inverse of B summed over a range: what Theorem 3's proof looks at."""
    inside = [index(x, sizes) - 1 for x in _cells_of(ranges, sizes)]
    return np.asarray(b_inverse(sizes)[inside].sum(axis=0))


def _check_dense(sizes: Sequence[int]) -> None:
    cells = math.prod(sizes)
    if cells > LARGEST_DENSE:
        raise QueryError(
            f"a matrix over {cells:,} cells is too large to write down (the limit is "
            f"{LARGEST_DENSE:,}); use frequencies_along_axes"
        )


# From reports to frequencies


def report_signs(survey: Agreement, reports: pa.Table) -> list[Whole]:
    """The rows of all R_i: for each attribute, the signs of each report, (n, m_d)."""
    signs = []
    for name, channel in survey.channels.items():
        mechanism = survey.mechanisms[name].name
        if mechanism not in _LITERAL:
            raise QueryError(
                f"{name} is randomized by {mechanism}; section 4.1 is about threshold-paper"
            )
        found = [channel.features(batch[name]) for batch in batches(reports)]
        signs.append(np.concatenate([np.zeros((0, channel.bits)), *found]).astype(np.int64))
    return signs


def observe(signs: Sequence[npt.NDArray[np.int64]]) -> Whole:
    """Equation 4: o_x = sum_i prod_d R_i[d, x[d]] for every x, in the order of ind(x)."""
    sizes = [each.shape[1] for each in signs]
    observed = []
    for x in values(sizes):
        product = np.ones(len(signs[0]), dtype=np.int64)
        for each, value in zip(signs, x, strict=True):
            product = product * each[:, value - 1]
        observed.append(product.sum())
    return np.array(observed, dtype=np.int64)


def observations(survey: Agreement, reports: pa.Table) -> Whole:
    """The vector o of a table of reports.

    Of `threshold-dummy` it is over the extended domain, of one value more for each attribute.
    """
    return observe(report_signs(survey, reports))


def kappa(epsilon: float) -> float:
    """(e^epsilon + 1)/(e^epsilon - 1)."""
    return 1 / math.tanh(epsilon / 2)


def frequencies(o: Whole, sizes: Sequence[int], epsilons: Sequence[float]) -> Floats:
    """Equation 7: the product of the kappas, times the inverse of B, times o, densely."""
    _check_observations(o, sizes)
    scale = math.prod(map(kappa, epsilons)) / 2 ** len(sizes)
    return np.asarray(scale * (b_inverse_scaled(sizes) @ o))


def frequencies_along_axes(o: Whole, sizes: Sequence[int], epsilons: Sequence[float]) -> Floats:
    """Equation 7 without the matrix: its recursion says that each attribute is undone alone.

    Along one attribute c_1 = (o_1 + o_m)/2 and c_k = (o_k - o_{k-1})/2: two terms for each cell
    and attribute, where a row of the inverse has 2^D.
    """
    _check_observations(o, sizes)
    cells = np.asarray(o).reshape(sizes, order="F")
    for axis in range(len(sizes)):
        ahead = np.roll(cells, 1, axis=axis)
        first = np.arange(sizes[axis]) == 0
        shape = [-1 if k == axis else 1 for k in range(len(sizes))]
        cells = cells + np.where(first.reshape(shape), ahead, -ahead)
    scale = math.prod(map(kappa, epsilons)) / 2 ** len(sizes)
    return np.asarray(scale * cells.reshape(-1, order="F"))


def _check_observations(o: Whole, sizes: Sequence[int]) -> None:
    if np.shape(o) != (math.prod(sizes),):
        raise QueryError(
            f"sizes {tuple(sizes)} have {math.prod(sizes):,} observations, not {np.shape(o)}"
        )


def range_sum(estimated: Floats, sizes: Sequence[int], ranges: Range) -> float:
    """Equation 8: the sum of the estimated frequencies of all x in the range, one by one."""
    return math.fsum(estimated[index(x, sizes) - 1] for x in _cells_of(ranges, sizes))


def _cells_of(ranges: Range, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    for (first, last), size in zip(ranges, sizes, strict=True):
        if not 1 <= first <= last <= size:
            raise QueryError(f"a range of {size} values has ends 1 to {size}, not {first}, {last}")
    return list(itertools.product(*(range(first, last + 1) for first, last in ranges)))
