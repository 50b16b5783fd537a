"""Workloads against their matrices written out, and the closed forms at sizes never written out."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from metricldp.basics.errors import QueryError
from metricldp.mechanisms.workloads import Words, Workload

RNG = np.random.default_rng(20)


def ranges_by_hand(size):
    """The paper's order, section 3.3: by first position, then by last."""
    rows = [(low, high) for low in range(size) for high in range(low, size)]
    return np.array([[low <= x <= high for x in range(size)] for low, high in rows], dtype=float)


def bars_by_hand(size, count):
    ends = [k * size // count for k in range(count + 1)]
    return np.array([[low <= x < high for x in range(size)] for low, high in pairwise(ends)], float)


def mixture_by_hand(size):
    """A third of the mean over all rows is the prefixes', two thirds are the values'."""
    parts = [(Workload.prefixes(size), 1.0), (Workload.identity(size), 2.0)]
    prefixes = np.tril(np.ones((size, size)))
    rows = np.concatenate([np.sqrt(2 / 3) * prefixes, np.sqrt(4 / 3) * np.eye(size)])
    return Workload.mixture(parts), rows


def made(size):
    own = RNG.normal(size=(5, size))
    own[own < 0] = 0
    return {
        "ranges": (Workload.all_ranges(size), ranges_by_hand(size)),
        "prefixes": (Workload.prefixes(size), np.tril(np.ones((size, size)))),
        "identity": (Workload.identity(size), np.eye(size)),
        "total": (Workload.total(size), np.ones((1, size))),
        "bars": (Workload.bars(size, 1 + size // 3), bars_by_hand(size, 1 + size // 3)),
        "mean": (Workload.mean(size), np.linspace(-1, 1, size)[None] * (size > 1)),
        "mixture": mixture_by_hand(size),
        "rows": (Workload.from_rows(own), own),
        "sparse": (Workload.from_rows(sparse.coo_array(own)), own),
    }


@pytest.mark.parametrize("kind", list(made(1)))
@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_every_method_agrees_with_the_matrix_written_out(size, kind):
    workload, dense = made(size)[kind]
    assert (workload.rows, workload.size) == dense.shape
    np.testing.assert_allclose(workload.rows_block(0, len(dense)), dense, rtol=1e-15)
    np.testing.assert_allclose(workload.rows_block(1, 4), dense[1:4], rtol=1e-15)
    np.testing.assert_allclose(workload.gram(), dense.T @ dense, atol=1e-12)
    counts, several = RNG.normal(size=size), RNG.normal(size=(size, 3))
    np.testing.assert_allclose(workload.answers(counts), dense @ counts, atol=1e-12)
    np.testing.assert_allclose(workload.answers(several), dense @ several, atol=1e-12)
    assert len(set(workload.labels())) == len(dense)


def test_the_rows_of_the_paper():
    expected = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]]
    np.testing.assert_array_equal(Workload.all_ranges(3).rows_block(0, 6), expected)


def test_half_a_million_ranges_without_the_matrix():
    size = 1000
    workload = Workload.all_ranges(size)
    assert workload.rows == 500_500
    counts = RNG.integers(0, 100, size).astype(float)
    answers = workload.answers(counts)
    for row in (0, 999, 1000, 123_456, 500_499):
        assert answers[row] == workload.rows_block(row, row + 1)[0] @ counts


def test_products_have_all_combinations_of_rows():
    boxes = Workload.product([Workload.prefixes(2), Workload.identity(2)])
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]
    np.testing.assert_array_equal(boxes.rows_block(0, 4), expected)


def test_labels():
    assert Workload.all_ranges(3).labels() == ["0", "0 to 1", "0 to 2", "1", "1 to 2", "2"]
    assert Workload.all_ranges(1000).label(500_494) == "997"
    assert Workload.prefixes(2).labels(Words.of(["low", "high"])) == ["up to low", "up to high"]
    assert Workload.identity(2).labels(Words.of(["a", "b"])) == ["a", "b"]
    assert Workload.bars(5, 2).labels() == ["0 to 1", "2 to 4"]
    assert Workload.bars(2, 2).labels() == ["0", "1"]
    assert Workload.total(2).labels() == ["0 to 1"]
    assert Workload.from_rows([[1, 2]]).labels() == ["row 0"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Workload.all_ranges(0), "positions, at least 1, not 0"),
        (lambda: Workload.prefixes(2.5), "whole number of positions, at least 1, not 2.5"),
        (lambda: Workload.identity(True), "whole number of positions, at least 1, not True"),
        (lambda: Workload.total("3"), "whole number of positions, at least 1, not '3'"),
        (lambda: Workload.from_rows([[1, 2], [3]]), "all rows equally long"),
        (lambda: Workload.from_rows([["a", "b"]]), "are numbers"),
        (lambda: Workload.from_rows([1, 2]), r"a list of rows, not \[1, 2\]; write one row as"),
        (lambda: Workload.from_rows(np.empty((0, 3))), r"shape \(0, 3\)"),
        (lambda: Workload.from_rows([[1, 2], [3, np.nan]]), "row 1 of the workload holds nan"),
        (
            lambda: Workload.from_rows(sparse.csr_array([[1.0, 0], [0, 0], [0, np.inf]])),
            "row 2 of the workload holds inf",
        ),
        (lambda: Workload.identity(3).answers([1, 2]), r"shape \(2,\) do not fit 3 positions"),
    ],
)
def test_bad_input_is_refused_in_one_line(make, message):
    with pytest.raises(QueryError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_workloads_do_not_load_scipy():
    program = "import sys, metricldp.mechanisms.workloads; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
