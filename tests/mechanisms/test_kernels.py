"""The kernels of `metricldp.mechanisms` equal their numpy versions bit for bit.

Each runs twice: as machine code, and as Python, where numpy raises an error for an index beyond the
end of an array.
"""

import itertools

import numpy as np
import plain_kernels as plain
import pytest

from metricldp.mechanisms import sampling_kernels as kernels
from metricldp_core.exact import WORD

WAYS = ("python", "compiled")
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def kernel(monkeypatch):
    """One of the kernels, as Python or as machine code."""

    def chosen(name, way):
        compiled = getattr(kernels, name)
        if way == "compiled":
            return compiled
        monkeypatch.setattr(kernels, "_BLOCK", 2)
        monkeypatch.setattr(kernels, "popcount", lambda word: np.uint64(int(word).bit_count()))
        return compiled.py_func

    return chosen


def words(rng, *shape):
    return rng.integers(0, WORD, shape, dtype=np.uint64)


@each_way
@pytest.mark.parametrize("count", range(1, 9))
def test_decide(kernel, way, count):
    """All digits of two or three places, some of more; whole blocks, and what is left of one."""
    rng = np.random.default_rng(count)
    chosen = {
        *range(min(1 << count, 8)),
        (1 << count) - 1,
        *rng.integers(0, 1 << count, 3).tolist(),
    }
    widths = (1, 2, 5) if way == "python" else (1, 512, 1030)
    for digits, width in itertools.product(chosen, widths):
        planes = words(rng, count, width)
        given = [words(rng, 2, width), None]
        given[1] = given[0].copy()
        counts = [
            decide(planes, digits, *both)
            for decide, both in zip((plain.decide, kernel("decide", way)), given, strict=True)
        ]
        assert counts[0] == counts[1]
        np.testing.assert_array_equal(*given)


@each_way
def test_decide_rest(kernel, way):
    """Lanes in order, each with a word of its own; of words that are equal none is below."""
    rng = np.random.default_rng(1)
    for width in (1, 3, 20):
        undecided = words(rng, width) & words(rng, width) & words(rng, width)
        undecided[::3] = 0
        undecided[-1] |= np.uint64(1 << 63 | 1)
        count = int(np.bitwise_count(undecided).sum())
        rest = np.uint64(5 << 60)
        drawn = words(rng, count)
        drawn[::4] = rest
        drawn[1::4] = rest - np.uint64(1)
        below = words(rng, width) & ~undecided
        found = [below.copy(), below.copy()]
        plain.decide_rest(found[0], undecided, drawn, rest)
        kernel("decide_rest", way)(found[1], undecided, drawn, rest)
        np.testing.assert_array_equal(*found)


@each_way
def test_cross(kernel, way):
    """Rows of any length, whose ends fall anywhere in a word, at any positions."""
    rng = np.random.default_rng(2)
    cross = kernel("cross", way)
    for bits, n in itertools.product((1, 7, 8, 9, 30, 63, 64, 65, 120, 128, 300), (1, 9)):
        width = -(-bits // 8)
        for positions in (rng.integers(0, bits + 1, n), np.zeros(n, int), np.full(n, bits)):
            flips = words(rng, -(-n * width // 8))
            found = [flips.copy(), flips.copy()]
            plain.cross(found[0], positions, width, bits)
            cross(found[1], positions, width, bits)
            rows = [part.view(np.uint8)[: n * width] for part in found]
            np.testing.assert_array_equal(*rows)


@each_way
def test_add_noise(kernel, way):
    """Any number of people and planes; noise is clipped at both ends, and some of it is zero."""
    rng = np.random.default_rng(3)
    add_noise = kernel("add_noise", way)
    for n, count, kind in itertools.product((1, 64, 65, 200), (0, 1, 4), (np.uint8, np.int64)):
        width = -(-n // 64)
        planes, weights = words(rng, count, width), rng.integers(1, 90, count)
        planes[:1, ::2] = 0
        negative, zero = words(rng, width), words(rng, width) & words(rng, width)
        positions = rng.integers(0, 200, n)
        found = [np.full(n, 7, dtype=kind) for _ in WAYS]
        plain.add_noise(positions, planes, weights, negative, zero, found[0], 199)
        add_noise(positions, planes, weights, negative, zero, found[1], 199)
        np.testing.assert_array_equal(*found)
