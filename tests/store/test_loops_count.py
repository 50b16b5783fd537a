"""The compiled loops give the integers of their numpy twins; small jobs never load them."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricldp import Coins, Integer, Survey
from metricldp.answers.queries import parse
from metricldp.basics.compiled import Loops
from metricldp.store import cubes, scan
from metricldp.store import loops as counting
from metricldp.store import loops_compiled as compiled
from metricldp.store import loops_plain as plain
from metricldp.store.readings import read


@settings(max_examples=60)
@given(n=st.integers(1, 700), bits=st.integers(1, 600), seed=st.integers(0, 10**6))
def test_transposing(n, bits, seed):
    """Blocks of 64 x 256 bits, eight blocks to a cache line: all their edges are crossed."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (n, -(-bits // 8)), dtype=np.uint8)
    words = np.zeros((n, 8 * -(-bits // 64)), dtype=np.uint8)
    words[:, : rows.shape[1]] = rows
    columns = compiled.transpose(words.view(np.uint64), bits, 0)
    assert (columns == plain.transpose(words.view(np.uint64), bits, 0)).all()
    assert (columns == counting.transpose(rows, bits)).all()
    for loops in (compiled, plain):
        behind = loops.transpose(words.view(np.uint64), bits, 2)
        assert (behind[2:] == columns).all()
        assert not behind[:2].any()
    person, bit = int(rng.integers(n)), int(rng.integers(bits))
    expected = rows[person, bit // 8] >> (bit % 8) & 1
    assert int(columns[bit, person // 64]) >> (person % 64) & 1 == expected


@settings(max_examples=60)
@given(
    a=st.integers(1, 11),
    b=st.sampled_from([1, 7, 63, 64, 65, 255, 256, 257, 300]),
    words=st.sampled_from([1, 2, 7, 8, 9, 100]),
    seed=st.integers(0, 10**6),
)
def test_counting_pairs(a, b, words, seed):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 2**64, (a, words), dtype=np.uint64)
    right = rng.integers(0, 2**64, (b, words), dtype=np.uint64)
    common = compiled.common_counts(left, right)
    assert (common == plain.common_counts(left, right)).all()
    words_of_first = list(zip(left[0], right[0], strict=True))
    assert common[0, 0] == sum(int(x & y).bit_count() for x, y in words_of_first)
    apart = counting.pair_counts(left, right)
    assert apart[0, 0] == sum(int(x ^ y).bit_count() for x, y in words_of_first)
    assert (counting.pair_counts(right, left) == apart.T).all()


@pytest.mark.parametrize("words", [2039, 2040, 2041, 2047, 2048, 4096])
def test_counters_are_emptied_before_they_are_full(words):
    """All lanes of both columns are 1, so every counter counts every lane."""
    full = np.full((3, words), 2**64 - 1, dtype=np.uint64)
    assert (compiled.common_counts(full, full) == 64 * words).all()
    assert (compiled.column_counts(full) == 64 * words).all()


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    n=st.integers(0, 500),
    seed=st.integers(0, 10**6),
)
def test_joint_histograms(sizes, n, seed):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, n).astype(np.min_scalar_type(size - 1)) for size in sizes]
    stacked, shape = np.stack(columns), np.array(sizes)
    counts = compiled.joint_histogram(stacked, shape)
    assert (counts == plain.joint_histogram(stacked, shape)).all()
    table = counting.joint_histogram(columns, sizes)
    literal = np.zeros(sizes, dtype=int)
    for row in zip(*columns, strict=True):
        literal[row] += 1
    assert (table == literal).all()


@settings(max_examples=40)
@given(
    rows=st.integers(1, 4),
    attributes=st.integers(1, 3),
    n=st.integers(1, 300),
    seed=st.integers(0, 10**6),
)
def test_sums_of_products_are_the_same_floats(rows, attributes, n, seed):
    rng = np.random.default_rng(seed)
    tables = rng.normal(size=(rows, 20))
    places = rng.integers(0, 20, (attributes, n))
    weights = rng.normal(size=(rows, n))
    sums = compiled.product_sums(tables, places, weights)
    assert (sums == plain.product_sums(tables, places, weights)).all()
    assert sums == pytest.approx((weights * tables[:, places].prod(axis=1)).sum(axis=1))


@settings(max_examples=60)
@given(
    k=st.integers(1, 6),
    words=st.sampled_from([1, 7, 1023, 1024, 1025, 2500]),
    seed=st.integers(0, 10**6),
)
def test_sums_of_digits(k, words, seed):
    rng = np.random.default_rng(seed)
    n = 64 * words - int(rng.integers(0, 64))
    lanes = rng.integers(0, 2, (k, n), dtype=np.uint8)
    packed = np.zeros((k, 8 * words), dtype=np.uint8)
    packed[:, : -(-n // 8)] = np.packbits(lanes, axis=1, bitorder="little")
    columns = packed.view(np.uint64)
    firsts, seconds = np.full((6, 3), -1), np.full((6, 3), -1)
    expected = np.full((6, n), 1)
    for row in range(1, 6):
        for place in range(min(3, row)):
            one, other = rng.integers(0, k, 2)
            firsts[row, place] = one
            digit = 1 - 2 * lanes[one].astype(int)
            if rng.integers(2):
                seconds[row, place] = other
                digit = (digit - (1 - 2 * lanes[other].astype(int))) // 2
            expected[row] *= digit
    sums = compiled.digit_sums(columns, firsts, seconds, n)
    assert (sums == plain.digit_sums(columns, firsts, seconds, n)).all()
    assert (sums == expected.sum(axis=1)).all()


@pytest.mark.parametrize("mechanism", ["threshold", "threshold-paper", "threshold-dummy"])
def test_answers_are_bit_for_bit_the_same(mechanism, monkeypatch):
    """From rows, from columns, with numpy's loops and with the compiled ones."""
    survey = Survey({k: Integer(0, 20, epsilon=1, mechanism=mechanism) for k in "abc"})
    rng = np.random.default_rng(1)
    people = {k: rng.integers(0, 21, 1000) for k in "abc"}
    reports = survey.encode(people, coins=Coins.seeded(1))
    where = {"a": (3, 11), "c": (None, 7)}
    tables, answers = [], []
    for large in (1 << 62, 0):
        loops = Loops(plain, compiled.__name__, large)
        monkeypatch.setattr(counting, "loops", loops)
        tally = survey.tally(reports, layout="reports")
        answers += [tally.count(where) for _ in range(4)]
        assert tally.store._columns is not None
        tables.append(cubes.build(tally.store.batches("abc"), survey.channels).sums)
        assert loops.now is (plain if large else compiled)
    assert all(answer == answers[0] for answer in answers)
    assert (tables[0] == tables[1]).all()
    readings = read(survey, parse(survey, where).functions)
    floats = scan._in_floats(tally.store.batches("abc"), readings.parts, 3, None)
    assert answers[0].value == pytest.approx(floats[0], rel=1e-9, abs=1e-9)


def test_columns_of_uneven_batches():
    survey = Survey({"a": Integer(0, 9, epsilon=1, mechanism="threshold")})
    reports = survey.encode({"a": np.arange(1000) % 10}, coins=Coins.seeded(1))
    parts = [survey.tally(reports.slice(a, b)) for a, b in ((0, 1), (1, 63), (64, 500), (564, 436))]
    merged = sum(parts[1:], start=parts[0])
    whole = survey.tally(reports)
    for _ in range(4):
        assert merged.count({"a": (2, 6)}) == whole.count({"a": (2, 6)})


def test_work_is_added_up_until_it_is_worth_compiling():
    loops = Loops(plain, compiled.__name__, 100)
    for _ in range(3):
        loops.expect(30)
        assert loops.now is plain
    loops.expect(10)
    assert loops.now is compiled


@pytest.mark.parametrize(
    "why", [ImportError("no numba"), RuntimeError("no locator available"), OSError("disk full")]
)
def test_without_compiled_loops_numpy_goes_on(why, monkeypatch):
    """numba may be missing, or find no folder that it may write its cache to."""

    def refuse(name):
        raise why

    monkeypatch.setattr("importlib.import_module", refuse)
    loops = Loops(plain, compiled.__name__, 1)
    with pytest.warns(RuntimeWarning, match=f"cannot be loaded \\({why}\\); numpy's give the same"):
        loops.expect(5)
    loops.expect(5)
    assert loops.now is plain


def test_small_jobs_do_not_load_numba():
    program = """
import sys
from metricldp import Integer, Survey
survey = Survey({"a": Integer(0, 30, epsilon=1, mechanism="threshold")})
tally = survey.tally([survey.report({"a": a}) for a in range(30)])
for _ in range(5):
    tally.count({"a": (3, 9)})
tally.histogram("a"), tally.mean("a")
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
