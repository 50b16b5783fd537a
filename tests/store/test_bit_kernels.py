"""The kernels over bit columns against plain numpy; small jobs never load numba."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricldp import Integer, Randomness, Survey
from metricldp.answers.queries import parse
from metricldp.store import bits as bit_columns
from metricldp.store import cubes, kernels, raw, scan
from metricldp.store.readings import read


@settings(max_examples=60)
@given(
    n=st.integers(1, 700),
    bits=st.integers(1, 600),
    lead=st.integers(0, 2),
    seed=st.integers(0, 10**6),
)
def test_transposition(n, bits, lead, seed):
    """Blocks of 64 x 64 bits, eight of them to a cache line: all their edges occur."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (n, -(-bits // 8)), dtype=np.uint8)
    expected = np.zeros((lead + bits, 64 * -(-n // 64)), dtype=np.uint8)
    expected[lead:, :n] = np.unpackbits(rows, axis=1, count=bits, bitorder="little").T
    packed = np.packbits(expected, axis=1, bitorder="little").view(np.uint64)
    assert (bit_columns.transposed(rows, bits, lead) == packed).all()


@settings(max_examples=60)
@given(
    a=st.integers(1, 11),
    b=st.sampled_from([1, 7, 63, 64, 65, 255, 256, 257, 300]),
    words=st.sampled_from([1, 2, 7, 8, 9, 100]),
    seed=st.integers(0, 10**6),
)
def test_differing_bits(a, b, words, seed):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 2**64, (a, words), dtype=np.uint64)
    right = rng.integers(0, 2**64, (b, words), dtype=np.uint64)
    counts = kernels.differing_bits(left, right)
    assert (counts == np.bitwise_count(left[:, None] ^ right).sum(axis=2)).all()
    words_of_first = zip(left[0], right[0], strict=True)
    assert counts[0, 0] == sum(int(x ^ y).bit_count() for x, y in words_of_first)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=3),
    n=st.integers(1, 500),
    seed=st.integers(0, 10**6),
)
def test_histograms_of_integers(sizes, n, seed):
    rng = np.random.default_rng(seed)
    attributes = (Integer(0, size - 1, epsilon=1, mechanism="geometric", per=1) for size in sizes)
    survey = Survey.design({f"x{k}": attribute for k, attribute in enumerate(attributes)})
    shape = [channel.moments.feature_count for channel in survey.channels.values()]
    columns = {
        name: rng.integers(0, size, n).astype(np.min_scalar_type(size - 1))
        for name, size in zip(survey.channels, shape, strict=True)
    }
    expected = np.zeros(shape, dtype=int)
    for row in zip(*columns.values(), strict=True):
        expected[row] += 1
    assert (cubes.build([columns], survey.channels).sums == expected).all()


@settings(max_examples=60)
@given(
    k=st.integers(1, 6),
    words=st.sampled_from([1, 7, 255, 256, 257, 700]),
    most=st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
def test_sums_of_digits(k, words, most, seed):
    """The kernel, and numpy's version for small inputs, against an enumeration of all reports."""
    rng = np.random.default_rng(seed)
    n = 64 * words - int(rng.integers(0, 64))
    bits = rng.integers(0, 2, (k, n), dtype=np.uint8)
    packed = np.zeros((k, 8 * words), dtype=np.uint8)
    packed[:, : -(-n // 8)] = np.packbits(bits, axis=1, bitorder="little")
    columns = packed.view(np.uint64)
    firsts, seconds = np.full((6, most), -1), np.full((6, most), -1)
    expected = np.full((6, n), 1)
    for row in range(1, 6):
        for place in range(min(most, row)):
            one, other = rng.integers(0, k, 2)
            firsts[row, place] = one
            digit = 1 - 2 * bits[one].astype(int)
            if row == 5 or rng.integers(2):
                seconds[row, place] = other
                digit = (digit - (1 - 2 * bits[other].astype(int))) // 2
            expected[row] *= digit
    for sums in (kernels.digit_sums, bit_columns._digit_sums):
        assert (sums(columns, firsts, seconds, n) == expected.sum(axis=1)).all()


def reports_of(survey, n, seed=1):
    rng = np.random.default_rng(seed)
    people = {name: rng.integers(0, a.size, n) for name, a in survey.attributes.items()}
    return survey.randomize(people, randomness=Randomness.seeded(seed))


@pytest.mark.parametrize("mechanism", ["threshold", "threshold-paper", "threshold-dummy"])
def test_answers_from_rows_and_from_columns_are_equal(mechanism, monkeypatch):
    survey = Survey.design(
        {k: Integer(0, 20, epsilon=1, mechanism=mechanism, per=1) for k in "abc"}
    )
    reports = reports_of(survey, 1000)
    where = {"a": (3, 11), "c": (None, 7)}
    answers = []
    for reports_passed in (1 << 62, 0):
        monkeypatch.setattr(raw, "MIN_REPORTS_PASSED", reports_passed)
        tally = survey.tally(reports, layout="reports")
        answers += [tally.count(where) for _ in range(4)]
        assert (tally.store._columns is None) == bool(reports_passed)
    assert all(answer == answers[0] for answer in answers)
    readings = read(survey, parse(survey, where).functions)
    floats = scan._in_floats(tally.store.batches("abc"), readings.parts, 3, None)
    assert answers[0].value == pytest.approx(floats[0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("names", ["a", "ab", "abc", "cab"])
@pytest.mark.parametrize("n", [1, 64, 100, 70_000])
def test_tables_of_signs_are_those_of_matrix_products(names, n):
    """With constants and without: those of threshold, and those of unary bits."""
    survey = Survey.design(
        {
            "a": Integer(0, 20, epsilon=1, mechanism="threshold", per=1),
            "b": Integer(0, 6, epsilon=1, mechanism="unary", per=1),
            "c": Integer(0, 9, epsilon=1, mechanism="threshold-paper", per=1),
        }
    )
    channels = {name: survey.channels[name] for name in names}
    batches = survey.tally(reports_of(survey, n)).store.batches(names)
    kinds, tables = list(channels.values()), []
    for products in (cubes._sign_products, cubes._feature_products):
        parts = [products([batch[name] for name in names], kinds) for batch in batches]
        tables.append(np.sum(parts, axis=0))
    assert (tables[0] == tables[1]).all()
    assert (cubes.build(batches, channels).sums == tables[0]).all()


def test_columns_of_uneven_batches(monkeypatch):
    monkeypatch.setattr(raw, "MIN_REPORTS_PASSED", 0)
    survey = Survey.design({"a": Integer(0, 9, epsilon=1, mechanism="threshold", per=1)})
    reports = reports_of(survey, 1000)
    parts = [survey.tally(reports.slice(a, b)) for a, b in ((0, 1), (1, 63), (64, 500), (564, 436))]
    merged = sum(parts[1:], start=parts[0])
    whole = survey.tally(reports)
    for _ in range(4):
        assert merged.count({"a": (2, 6)}) == whole.count({"a": (2, 6)})


def test_small_jobs_do_not_load_numba():
    """Nor do large ones over reports of one integer."""
    program = """
import sys
import numpy as np
import pyarrow as pa
from metricldp import Integer, Survey
from metricldp.reports import arrow
def reports(survey, n):
    rng = np.random.default_rng(1)
    fields = survey.fields
    columns = {
        f"{name}=report": rng.integers(0, field.outputs, n).astype(field.dtype)
        if hasattr(field, "outputs")
        else pa.array([rng.bytes(3) + bytes([rng.integers(64)]) for _ in range(n)], pa.binary(4))
        for name, field in fields.items()
    }
    return pa.table(columns, schema=arrow.schema(survey))
for mechanism, n in (("threshold", 900), ("geometric", 300_000)):
    attribute = Integer(0, 30, epsilon=1, per=1, mechanism=mechanism)
    survey = Survey.design({"a": attribute, "b": attribute})
    tally = survey.tally(reports(survey, n))
    for _ in range(5):
        tally.count({"a": (3, 9), "b": (2, 20)})
    tally.histogram("a"), tally.mean("a"), tally.histogram("a", {"b": (3, 5)})
    survey.tally(reports(survey, n), keep=[["a", "b"]]).count({"a": (3, 9), "b": (2, 20)})
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
