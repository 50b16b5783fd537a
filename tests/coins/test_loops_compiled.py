"""The compiled loops of encoding, one by one: bit for bit those of numpy.

Each runs twice: as machine code, and as the Python that it is made of, which numpy stops where it
would read or write beyond an array.
"""

import itertools

import numpy as np
import pytest
from numba import njit

from metricldp.basics.exact import ONE
from metricldp.coins import loops_compiled as compiled
from metricldp.coins import loops_plain as plain

WAYS = ("python", "compiled")
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def loop(monkeypatch):
    """One of the loops, as Python or as machine code."""

    def found(name, way):
        made = getattr(compiled, name)
        if way == "compiled":
            return made
        monkeypatch.setattr(compiled, "_BLOCK", 2)
        monkeypatch.setattr(compiled, "ones", lambda word: np.uint64(int(word).bit_count()))
        return made.py_func

    return found


def words(rng, *shape):
    return rng.integers(0, ONE, shape, dtype=np.uint64)


@each_way
@pytest.mark.parametrize("count", range(1, 9))
def test_decide(loop, way, count):
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
            for decide, both in zip((plain.decide, loop("decide", way)), given, strict=True)
        ]
        assert counts[0] == counts[1]
        np.testing.assert_array_equal(*given)


@each_way
def test_settle(loop, way):
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
        plain.settle(found[0], undecided, drawn, rest)
        loop("settle", way)(found[1], undecided, drawn, rest)
        np.testing.assert_array_equal(*found)


@each_way
def test_cross(loop, way):
    """Rows of any length, whose ends fall anywhere in a word, at any positions."""
    rng = np.random.default_rng(2)
    cross = loop("cross", way)
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
def test_blur(loop, way):
    """Any number of people and planes; noise is clipped at both ends, and some of it is zero."""
    rng = np.random.default_rng(3)
    blur = loop("blur", way)
    for n, count, kind in itertools.product((1, 64, 65, 200), (0, 1, 4), (np.uint8, np.int64)):
        width = -(-n // 64)
        planes, weights = words(rng, count, width), rng.integers(1, 90, count)
        planes[:1, ::2] = 0
        negative, zero = words(rng, width), words(rng, width) & words(rng, width)
        positions = rng.integers(0, 200, n)
        found = [np.full(n, 7, dtype=kind) for _ in WAYS]
        plain.blur(positions, planes, weights, negative, zero, found[0], 199)
        blur(positions, planes, weights, negative, zero, found[1], 199)
        np.testing.assert_array_equal(*found)


def test_trying_out_writes_beyond_no_array(monkeypatch):
    monkeypatch.setattr(compiled, "cross", compiled.cross.py_func)
    compiled.try_out()


def test_a_cache_that_cannot_be_written_is_found_out_at_once(monkeypatch):
    """Before any report is made: whoever loads the loops tries them out, and can still go back."""
    compiled.try_out()

    class Full:
        def save_overload(self, *given):
            raise OSError("no space left")

        def load_overload(self, *given):
            return None

    fresh = njit(compiled.cross.py_func)
    fresh._cache = Full()
    monkeypatch.setattr(compiled, "cross", fresh)
    with pytest.raises(OSError, match="no space left"):
        compiled.try_out()
