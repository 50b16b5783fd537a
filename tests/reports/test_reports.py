"""Reports go through Arrow, Parquet and bytes unchanged, and nothing else gets in."""

from __future__ import annotations

import itertools
import json
import tempfile
import tracemalloc
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidReportError,
    InvalidValueError,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    Tally,
)
from metricldp.reports import arrow, incoming, parquet
from metricldp.reports import bytes as pack

SIZES = [2, 3, 8, 9, 17, 256, 257, 300]
MECHANISMS = ["threshold", "threshold-paper", "geometric", "randomized-response"]
BITS = {
    "threshold": lambda size: size - 1,
    "threshold-paper": lambda size: size,
    "geometric": lambda size: (size - 1).bit_length(),
    "randomized-response": lambda size: (size - 1).bit_length(),
}


def names(size):
    return [f"v{k}" for k in range(size)]


def attribute(kind, size, mechanism):
    if kind == "integer":
        return Integer(-3, size - 4, epsilon=1, mechanism=mechanism, per=1)
    if kind == "continuous":
        return Continuous(0, size, bins=size, epsilon=1, mechanism=mechanism, per=1)
    if kind == "ordinal":
        return Ordinal(names(size), epsilon=1, mechanism=mechanism)
    return Categorical(names(size), epsilon=1, mechanism="randomized-response")


def values(kind, places):
    if kind == "integer":
        return places - 3
    if kind == "continuous":
        return places + 0.5
    return [f"v{k}" for k in places]


def people_of(survey, n, seed=5):
    rng = np.random.default_rng(seed)
    return {
        name: values(a.kind, rng.integers(a.size, size=n)) for name, a in survey.attributes.items()
    }


def mixed(size):
    """Every kind with every mechanism that serves it."""
    kinds = [(k, m) for k in ("integer", "continuous", "ordinal") for m in MECHANISMS]
    described = {f"{k} {m}": attribute(k, size, m) for k, m in [*kinds, ("categorical", "")]}
    return Survey.design(described)


def rows_of(table):
    return table.to_pylist()


# Round trips -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_every_kind_and_mechanism_goes_round(size, tmp_path):
    survey = mixed(size)
    table = survey.randomize(people_of(survey, 70), randomness=Randomness.seeded(1))
    assert table.num_rows == 70
    assert table.schema.equals(arrow.schema(survey), check_metadata=True)
    packed = pack.pack(survey, table)
    assert {len(blob) for blob in packed} == {pack.packed_size(survey)}
    assert pack.unpack(survey, packed).equals(table, check_metadata=True)
    assert parquet.write(survey, tmp_path / "reports.parquet", [table]) == 70
    assert survey.tally(tmp_path / "reports.parquet").store.table.equals(table, check_metadata=True)
    tally = survey.tally(table)
    assert survey.tally(packed) == tally == survey.tally(tmp_path / "reports.parquet")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_packed_size(size, mechanism):
    survey = Survey.design({"x": attribute("integer", size, mechanism)})
    bits = BITS[mechanism](size)
    assert survey.report_bits == bits
    assert pack.packed_size(survey) == 1 + 16 + -(-bits // 8)
    packed = survey.report({"x": 0 if size > 4 else -3})
    assert len(packed) == pack.packed_size(survey)


def test_fields_follow_each_other_bit_after_bit():
    survey = Survey.design(
        {
            "a": Integer(0, 4, epsilon=1, mechanism="randomized-response", per=1),
            "b": Integer(0, 10, epsilon=1, mechanism="threshold", per=1),
            "c": Integer(0, 299, epsilon=1, mechanism="geometric", per=1),
        }
    )
    table = survey.randomize(
        {"a": [4, 0], "b": [3, 10], "c": [299, 7]}, randomness=Randomness.seeded(3)
    )
    for row, blob in zip(rows_of(table), pack.pack(survey, table), strict=True):
        assert blob[0] == 1
        assert blob[1:17].hex() == survey.fingerprint[:32]
        whole = int.from_bytes(blob[17:], "little")
        assert whole & 0b111 == row["a=report"]
        assert whole >> 3 & (1 << 10) - 1 == int.from_bytes(row["b=report"], "little")
        assert whole >> 13 == row["c=report"]


@st.composite
def surveys(draw):
    """A few attributes of any kind, mechanism and size."""
    kinds = st.sampled_from(["integer", "continuous", "ordinal", "categorical"])
    sizes = st.one_of(st.sampled_from(SIZES), st.integers(2, 70))
    parts = draw(
        st.lists(st.tuples(kinds, sizes, st.sampled_from(MECHANISMS)), min_size=1, max_size=5)
    )
    return Survey.design({f"x{k}": attribute(*part) for k, part in enumerate(parts)})


@given(surveys(), st.integers(0, 40), st.integers(0, 1000))
def test_any_survey_goes_round(survey, n, seed):
    table = survey.randomize(people_of(survey, n, seed), randomness=Randomness.seeded(seed))
    packed = pack.pack(survey, table)
    assert len(packed) == n
    assert pack.unpack(survey, packed).equals(table, check_metadata=True)
    with tempfile.TemporaryDirectory() as folder:
        parquet.write(survey, f"{folder}/reports.parquet", [table])
        assert survey.tally(f"{folder}/reports.parquet").store.table.equals(table)


@given(surveys(), st.binary(max_size=80), st.booleans())
def test_any_bytes_are_a_report_or_refused(survey, noise, as_body):
    """What is accepted packs to the very same bytes; everything else has a reason."""
    if as_body:
        size = pack.packed_size(survey)
        header = survey.report({n: values(a.kind, np.zeros(1, int))[0] for n, a in attrs(survey)})
        noise = (header[:17] + noise + bytes(size))[:size]
    seen = Counter()
    table = pack.unpack(survey, [noise], refused=seen)
    assert pack.pack(survey, table) == ([] if seen else [noise])
    assert sum(seen.values()) + table.num_rows == 1
    assert set(seen) <= {"length", "version", "survey", "padding", "range"}


def attrs(survey):
    return survey.attributes.items()


@given(surveys(), st.lists(st.integers(0, 30), max_size=4), st.randoms())
def test_slices_and_chunks_read_alike(survey, cuts, random):
    table = survey.randomize(people_of(survey, 30), randomness=Randomness.seeded(2))
    ends = [0, *sorted(cuts), 30]
    parts = [table.slice(a, b - a) for a, b in pairwise(ends)]
    tally = survey.tally(table)
    assert pack.pack(survey, pa.concat_tables(parts)) == pack.pack(survey, table)
    random.shuffle(parts)
    merged = survey.tally(parts[0])
    for part in parts[1:]:
        merged = merged + survey.tally(part)
    assert merged == tally
    value = people_of(survey, 1)["x0"][0]
    described = survey.attributes["x0"]
    where = {"x0": value}
    if described.in_bins:
        where = {"x0": described.values_at(described.position(value))}
    one, other = merged.count(where), tally.count(where)
    assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-9)
    assert one.stderr == pytest.approx(other.stderr, rel=1e-9, abs=1e-9)


# People in ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism="threshold"),
            "income": Continuous(0, 1000, bins=17, epsilon=1, per=100, mechanism="geometric"),
            "sick": Integer(0, 1, epsilon=1, mechanism="threshold-paper", per=1),
            "region": Categorical(["north", "south", "east"], epsilon=2),
        }
    )


AGES, INCOMES, SICK = [30, 0, 99, 7], [1.5, 1000.0, 0.0, 500.25], [True, False, False, True]
REGIONS = ["north", "east", "south", "north"]
PEOPLE = {"age": AGES, "income": INCOMES, "sick": SICK, "region": REGIONS}

SAME_PEOPLE = {
    "dict of lists": PEOPLE,
    "dict of tuples": {name: tuple(column) for name, column in PEOPLE.items()},
    "dict of arrays": {name: np.array(column) for name, column in PEOPLE.items()},
    "dict of object arrays": {name: np.array(c, dtype=object) for name, c in PEOPLE.items()},
    "dict of pandas": {name: pd.Series(column) for name, column in PEOPLE.items()},
    "dict of polars": {name: pl.Series(column) for name, column in PEOPLE.items()},
    "dict of arrow": {name: pa.array(column) for name, column in PEOPLE.items()},
    "dict of chunks": {n: pa.chunked_array([c[:1], c[1:3], [], c[3:]]) for n, c in PEOPLE.items()},
    "more columns": {"name": ["a", "b", "c", "d"], **PEOPLE},
    "other order": dict(reversed(PEOPLE.items())),
    "pandas": pd.DataFrame(PEOPLE),
    "pandas index": pd.DataFrame(PEOPLE, index=[9, 3, 3, 1]),
    "pandas categories": pd.DataFrame(PEOPLE).astype("category"),
    "pandas nullable": pd.DataFrame(PEOPLE).convert_dtypes(),
    "pandas arrow": pd.DataFrame(PEOPLE).convert_dtypes(dtype_backend="pyarrow"),
    "pandas text": pd.DataFrame(PEOPLE).astype({"age": str, "income": str}),
    "pandas slice": pd.DataFrame({n: c * 2 for n, c in PEOPLE.items()}).iloc[4:],
    "polars": pl.DataFrame(PEOPLE),
    "polars categories": pl.DataFrame(PEOPLE).with_columns(pl.col("region").cast(pl.Categorical)),
    "polars enum": pl.DataFrame(PEOPLE).with_columns(
        pl.col("region").cast(pl.Enum(["east", "south", "north"]))
    ),
    "polars chunks": pl.concat([pl.DataFrame(PEOPLE)[:2], pl.DataFrame(PEOPLE)[2:]], rechunk=False),
    "arrow": pa.table(PEOPLE),
    "arrow batch": pa.RecordBatch.from_pydict(PEOPLE),
    "arrow chunks": pa.concat_tables([pa.table(PEOPLE).slice(0, 3), pa.table(PEOPLE).slice(3)]),
    "arrow slice": pa.table({n: c * 2 for n, c in PEOPLE.items()}).slice(4),
    "arrow dictionaries": pa.table({n: pa.array(c).dictionary_encode() for n, c in PEOPLE.items()}),
    "arrow dictionary chunks": pa.table(
        {
            name: pa.chunked_array([pa.array(half).dictionary_encode() for half in (c[:2], c[2:])])
            for name, c in PEOPLE.items()
        }
    ),
    "large text": {**PEOPLE, "region": pa.array(REGIONS, pa.large_string())},
    "text views": {
        **PEOPLE,
        "region": pa.array(REGIONS, pa.string_view()),
        "age": pa.array([str(a) for a in AGES], pa.string_view()),
    },
    "text": {**PEOPLE, "age": [" 30", "0 ", "99", "+7"], "income": [str(v) for v in INCOMES]},
    "decimals": {**PEOPLE, "age": [Decimal(a) for a in AGES]},
    "whole floats": {**PEOPLE, "age": np.array(AGES, "float32")},
    **{
        dtype: {**PEOPLE, "age": np.array(AGES, dtype), "sick": np.array(SICK, dtype)}
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
}


@pytest.mark.parametrize("form", SAME_PEOPLE)
def test_people_in_any_form_are_the_same_people(form, survey):
    expected = survey.randomize(PEOPLE, randomness=Randomness.seeded(8))
    assert survey.randomize(SAME_PEOPLE[form], randomness=Randomness.seeded(8)).equals(expected)


def computed_later(form, people):
    """People as they are before a frame is computed or read."""
    table = pa.table(people)
    if form == "polars":
        return pl.from_arrow(table).lazy().filter(pl.col("sick").is_not_null())
    if form == "duckdb":
        return pytest.importorskip("duckdb").from_arrow(table).filter("sick is not null")
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(3))


@pytest.mark.parametrize("form", ["polars", "duckdb", "reader"])
def test_people_who_are_computed_later_are_the_same_people(form, survey):
    expected = survey.randomize(PEOPLE, randomness=Randomness.seeded(8))
    found = computed_later(form, {"name": ["a", "b", "c", "d"], **PEOPLE})
    assert survey.randomize(found, randomness=Randomness.seeded(8)).equals(expected)
    with pytest.raises(InvalidValueError, match="age in row 2 is outside"):
        survey.randomize(computed_later(form, {**PEOPLE, "age": [1, 150, 2, 3]}))
    misspelt = {{"age": "agee"}.get(name, name): column for name, column in PEOPLE.items()}
    with pytest.raises(InvalidValueError, match=r"no column 'age'; did you mean 'agee'"):
        survey.randomize(computed_later(form, misspelt))


def test_only_columns_of_the_survey_are_computed(survey):
    """What else a frame would compute costs nothing, and cannot fail."""

    def fail(_):
        raise AssertionError("computed")

    frame = pl.LazyFrame(PEOPLE).with_columns(
        name=pl.col("age").map_batches(fail, return_dtype=pl.Int64)
    )
    assert survey.randomize(frame).num_rows == 4


def test_dictionaries_may_hold_names_that_nobody_has():
    survey = Survey.design({"x": Ordinal(["low", "high"], epsilon=1)})
    names = pa.array(["high", "low", "higher"])
    fine = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), names)
    expected = survey.randomize({"x": ["high", "low", "high"]}, randomness=Randomness.seeded(1))
    assert survey.randomize({"x": fine}, randomness=Randomness.seeded(1)).equals(expected)
    wrong = pa.DictionaryArray.from_arrays(pa.array([0, 2, 2], pa.int8()), names)
    with pytest.raises(InvalidValueError, match=r"row 2 is not one of"):
        survey.randomize({"x": wrong})


@pytest.mark.parametrize("column", [[], np.array([]), pa.array([], pa.string()), pd.Series([])])
def test_nobody_is_no_reports(survey, column):
    table = survey.randomize(dict.fromkeys(PEOPLE, column))
    assert table.num_rows == 0
    assert pack.pack(survey, table) == []
    assert survey.tally(table).count({"age": (1, 2)}).value == 0


def test_columns_of_different_length_are_refused(survey):
    with pytest.raises(InvalidValueError, match="differ in length: age 4, income 3, sick 4"):
        survey.randomize({**PEOPLE, "income": INCOMES[:3]})


def test_batches_are_encoded_like_one(monkeypatch, survey):
    people = {name: column * 10 for name, column in PEOPLE.items()}
    monkeypatch.setattr("metricldp.reports.encode.BATCH", 7)
    table = survey.randomize(people, randomness=Randomness.seeded(4))
    assert table.num_rows == 40
    packed = pack.pack(survey, table)
    assert len(set(packed)) > 20
    assert pack.unpack(survey, packed).equals(table)


class Recorded:
    """A stream of coins that knows the streams it spawned and how often it was drawn from."""

    def __init__(self, randomness):
        self.randomness, self.spawned, self.draws = randomness, [], 0

    def spawn(self):
        self.spawned.append(Recorded(self.randomness.spawn()))
        return self.spawned[-1]

    def words(self, count):
        self.draws += 1
        return self.randomness.words(count)

    def draw(self, count):
        self.draws += 1
        return self.randomness.draw(count)


class OneForAll(Recorded):
    """The broken twin: whoever asks for coins of their own gets the same ones."""

    def spawn(self):
        return self


class Backwards:
    """A pool of threads that happens to run the last batch first."""

    def __init__(self, threads):
        self.waiting = []

    def __enter__(self):
        return self

    def __exit__(self, *failed):
        assert not self.waiting

    def submit(self, job):
        self.waiting.append(job)
        return self

    def result(self):
        while self.waiting:
            self.waiting.pop()()


def encoded(people, randomness, monkeypatch, backwards):
    survey = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism="threshold")})
    with monkeypatch.context() as patch:
        patch.setattr("metricldp.reports.encode.BATCH", 7)
        patch.setattr("metricldp.reports.encode._cores", lambda: 2)
        if backwards:
            patch.setattr("metricldp.reports.encode.ThreadPoolExecutor", Backwards)
        return survey.randomize({"age": [30] * people}, randomness=randomness)


def test_each_batch_has_coins_of_its_own(monkeypatch):
    """So no two threads race for the words of one stream, and no order of batches matters."""
    forth, back = Recorded(Randomness.seeded(4)), Recorded(Randomness.seeded(4))
    table = encoded(40, forth, monkeypatch, backwards=False)
    assert encoded(40, back, monkeypatch, backwards=True).equals(table)
    for randomness in (forth, back):
        assert randomness.draws == 0
        assert len(randomness.spawned) == 6
        assert all(own.draws and not own.spawned for own in randomness.spawned)
    batches = [tuple(table["age=report"][k : k + 5].to_pylist()) for k in range(0, 40, 7)]
    assert len(set(batches)) == 6
    # Eight people are two batches, seven are one, which needs no stream but the one it is given.
    for people, streams in ((8, 2), (7, 0), (0, 0)):
        randomness = Recorded(Randomness.seeded(4))
        encoded(people, randomness, monkeypatch, backwards=False)
        assert len(randomness.spawned) == streams
    shared = OneForAll(Randomness.seeded(4)), OneForAll(Randomness.seeded(4))
    mixed_up = [
        encoded(40, s, monkeypatch, backwards=b) for s, b in zip(shared, (0, 1), strict=True)
    ]
    assert not mixed_up[0].equals(mixed_up[1])


# Clipping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "clipped"),
    [
        ([-50, -5, 0, 300, 999], [-5, -5, 0, 300, 300]),
        ([-1e300, 1e300, 2.0], [-5, 300, 2]),
        (["-99", "5", "1e9"], [-5, 5, 300]),
        (np.array([-128, 127], "int8"), [-5, 127]),
        (np.array([0, 255], "uint8"), [0, 255]),
        (np.array([2**64 - 1], "uint64"), [300]),
        (np.array([2**63 - 1, -(2**63)]), [300, -5]),
    ],
    ids=repr,
)
def test_integers_clip_to_the_ends(column, clipped):
    survey = Survey.design({"x": Integer(-5, 300, epsilon=1, per=1)})
    one = survey.randomize({"x": column}, randomness=Randomness.seeded(1), clip=True)
    assert one.equals(survey.randomize({"x": clipped}, randomness=Randomness.seeded(1)))


def test_reals_clip_to_the_ends():
    survey = Survey.design({"x": Continuous(0, 1, bins=5, epsilon=1, per=1)})
    one = survey.randomize({"x": [-3, 1.5, 0.5, 1e300]}, randomness=Randomness.seeded(1), clip=True)
    assert one.equals(survey.randomize({"x": [0, 1, 0.5, 1]}, randomness=Randomness.seeded(1)))


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), 1.5, "x", ""])
def test_clipping_repairs_nothing_else(value):
    survey = Survey.design({"x": Integer(0, 9, epsilon=1, per=1)})
    with pytest.raises(InvalidValueError):
        survey.randomize({"x": [value]}, clip=True)


def test_names_do_not_clip():
    survey = Survey.design({"x": Ordinal(["low", "high"], epsilon=1)})
    with pytest.raises(InvalidValueError, match="only numbers can be clipped"):
        survey.randomize({"x": ["higher"]}, clip=True)


# Strict decoding ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict():
    """3 bits of 5 values and 10 bits of thresholds: 3 impossible codes, 3 bits of padding."""
    return Survey.design(
        {
            "a": Integer(0, 4, epsilon=1, mechanism="randomized-response", per=1),
            "b": Integer(0, 10, epsilon=1, mechanism="threshold", per=1),
        }
    )


@pytest.fixture(scope="module")
def packed(strict):
    people = {"a": np.arange(50) % 5, "b": np.arange(50) % 11}
    return pack.pack(strict, strict.randomize(people, randomness=Randomness.seeded(6)))


def flipped(blob, bit):
    changed = bytearray(blob)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def with_code(blob, code):
    return blob[:17] + bytes([blob[17] & ~7 | code]) + blob[18:]


def bad_ones(blob):
    return {
        "length": [b"", blob[:-1], blob + b"\0", blob * 2],
        "version": [*(flipped(blob, bit) for bit in range(8)), b"?", b"{" + blob],
        "survey": [*(flipped(blob, bit) for bit in range(8, 136)), flipped(blob, 135)[:17]],
        "padding": [flipped(blob, 8 * 17 + bit) for bit in (13, 14, 15)],
        "range": [with_code(blob, code) for code in (5, 6, 7)],
    }


def test_every_flaw_has_its_reason(strict, packed):
    for reason, blobs in bad_ones(packed[0]).items():
        for blob in blobs:
            with pytest.raises(InvalidReportError) as caught:
                pack.unpack(strict, [packed[0], packed[1], blob])
            assert caught.value.reason == reason
            assert str(caught.value).startswith("report 3 ")
            assert "\n" not in str(caught.value)
            with pytest.raises(InvalidReportError):
                strict.tally([blob])


def test_rows_of_bytes_are_sound_or_not(strict, packed):
    def rows(blobs):
        return np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1)

    assert pack.sound(strict, rows(packed))
    assert pack.sound(strict, rows(packed)[:0])
    for blobs in bad_ones(packed[0]).values():
        for blob in blobs:
            if len(blob) == len(packed[0]):
                assert not pack.sound(strict, rows([packed[1], blob, packed[2]]))


def test_a_table_of_reports_is_marked(strict, packed):
    table = pack.unpack(strict, packed)
    assert arrow.is_marked(table.schema)
    assert not arrow.is_marked(table.schema.with_metadata(None))
    assert not arrow.is_marked(table.schema.with_metadata({"other": "x"}))


def test_a_refusal_says_what_was_found_and_what_was_expected(strict, packed):
    good, other = packed[0], flipped(packed[0], 8)
    for blob, needle in (
        ("x" * len(good), "report 2 is a str; each report is bytes"),
        (bytearray(good), "report 2 is a bytearray; each report is bytes"),
        (b"", f"report 2 has 0 bytes, expected {len(good)};"),
        (b"\x07" + good[1:], "report 2 has version 7, expected 1;"),
        (other, f"report 2 is of survey {other[1:17].hex()}, expected {good[1:17].hex()};"),
    ):
        with pytest.raises(InvalidReportError) as caught:
            pack.unpack(strict, [good, blob])
        assert str(caught.value).startswith(needle)
        seen = Counter()
        assert pack.unpack(strict, [good, blob], refused=seen).num_rows == 1
        assert sum(seen.values()) == 1


def test_bad_ones_are_counted_and_good_ones_kept_in_order(strict, packed):
    flaws = [(reason, blob) for reason, blobs in bad_ones(packed[0]).items() for blob in blobs]
    rng = np.random.default_rng(0)
    mixed_up = [(None, blob) for blob in packed]
    for flaw in flaws:
        mixed_up.insert(int(rng.integers(len(mixed_up) + 1)), flaw)
    seen = Counter({"length": 100})
    table = pack.unpack(strict, [blob for _, blob in mixed_up], refused=seen)
    assert pack.pack(strict, table) == packed
    expected = Counter(reason for reason, _ in flaws)
    expected["length"] += 100
    assert seen == expected


def test_only_bad_ones_and_none_at_all(strict, packed):
    seen = Counter()
    assert pack.unpack(strict, [b"", packed[0][:-1]], refused=seen).num_rows == 0
    assert seen == {"length": 2}
    assert pack.unpack(strict, [], refused=seen).num_rows == 0
    assert strict.tally([]).n == 0


def impossible(strict, table, row):
    """The same reports but one, which no device could send."""
    codes = table["a=report"].to_numpy().copy()
    codes[row] = 6
    return table.set_column(0, table.schema.field(0), pa.array(codes))


def test_a_refused_report_is_named_by_its_place_in_what_arrived(
    strict, packed, monkeypatch, tmp_path
):
    """Counted from 1 over bytes and tables in the order in which they come, refused ones too."""
    monkeypatch.setattr("metricldp.reports.incoming.BATCH", 4)
    monkeypatch.setattr("metricldp.reports.arrow.BATCH", 3)
    monkeypatch.setattr("metricldp.reports.parquet.ROW_GROUP", 4)
    table = pack.unpack(strict, packed[:10])
    batch = table.to_batches()[0]
    bad, wrong = impossible(strict, table, 8), packed[0][:-1]
    for collected, number in (
        ([wrong], 1),
        ([packed[0], wrong, wrong], 2),
        ([*packed[:4], wrong], 5),
        ([*packed[:11], wrong], 12),
        ([table, batch, wrong], 21),
        ([table, *packed[:5], wrong], 16),
        ([bad], 9),
        ([packed[0], bad], 10),
        ([*packed[:6], bad], 15),
        ([table, bad.to_batches()[0]], 19),
        ([wrong, table, *packed[:3]], 1),
    ):
        for stream in (collected, iter(collected)):
            with pytest.raises(InvalidReportError, match=f"^report {number} has"):
                strict.tally(stream)
    with pytest.raises(InvalidReportError, match=r"^report 9 has a value in column 'a=report'"):
        pack.pack(strict, bad)
    good = tmp_path / "good.parquet"
    parquet.write(strict, good, [table])
    parquet.write(strict, tmp_path / "more.parquet", [table.slice(1), table.slice(0, 1)])
    with pytest.raises(InvalidReportError, match=r"^report 24 has"):
        strict.tally([good, str(tmp_path / "more.parquet"), *packed[:3], wrong])


def test_numbers_count_on_within_streams_and_from_file_to_file(strict, packed, tmp_path):
    table = pack.unpack(strict, packed[:10])
    bad = impossible(strict, table, 8)
    parts = [part.to_batches()[0] for part in (table, table, bad)]
    with pytest.raises(InvalidReportError, match=r"^report 29 has"):
        strict.tally(pa.RecordBatchReader.from_batches(table.schema, parts))
    with pytest.raises(InvalidReportError, match=r"^report 30 has"):
        strict.tally([packed[0], pa.RecordBatchReader.from_batches(table.schema, parts)])
    for name, rows in (("a", table), ("b", table.slice(3)), ("c", bad)):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    with pytest.raises(InvalidReportError, match=r"report 26 has"):
        strict.tally(tmp_path, fingerprint=strict.fingerprint)
    with pytest.raises(InvalidReportError, match=r"report 27 has"):
        strict.tally([packed[0], tmp_path], fingerprint=strict.fingerprint)
    counted = set()
    list(
        incoming.pieces(
            strict, tmp_path / "a.parquet", fingerprint=strict.fingerprint, counted=counted
        )
    )
    assert parquet.numbered(counted, "") == {""}


def test_whatever_is_refused_the_rest_keeps_its_order_and_its_number(strict, packed, monkeypatch):
    monkeypatch.setattr("metricldp.reports.incoming.BATCH", 4)
    table = pack.unpack(strict, packed[:10])
    seen = Counter()
    stream = [packed[10], b"", packed[11], table, b"", *packed[12:20], b"", b""]
    parts = list(incoming.pieces(strict, stream, refused=seen))
    assert [part.num_rows for part in parts] == [2, 10, 3, 4, 1]  # bytes four at a time
    found = pa.concat_tables(parts)
    assert pack.pack(strict, found) == [*packed[10:12], *packed[:10], *packed[12:20]]
    assert seen == {"length": 4}
    with pytest.raises(InvalidReportError, match=r"^report 12 has"):
        list(incoming.pieces(strict, [b"", b"", impossible(strict, table, 9)], refused=seen))


def test_reports_come_in_any_collection_and_in_nothing_else(strict, packed):
    few = packed[:3]
    kinds = (list, tuple, set, frozenset, iter, lambda x: dict(enumerate(x)).values())
    for kind in kinds:
        assert strict.tally(kind(few)).n == len(set(few))
    for wrong in (5, None, {"a": few[0]}, few[0], object()):
        with pytest.raises(InvalidReportError) as caught:
            list(incoming.pieces(strict, wrong))
        assert caught.value.reason == "kind"


def test_reports_without_a_number_are_noted(strict, packed):
    table = pack.unpack(strict, packed)
    key = incoming.TableKey.of(table)
    for collected, noted in (([], set()), (packed[:1], {""}), ([table], {"", key})):
        counted = set()
        list(incoming.pieces(strict, collected, counted=counted))
        assert counted == noted


@given(surveys(), st.integers(0, 71))
def test_any_flipped_bit_of_any_header_is_refused(survey, bit):
    person = {name: values(a.kind, np.zeros(1, int))[0] for name, a in attrs(survey)}
    with pytest.raises(InvalidReportError) as caught:
        pack.unpack(survey, [flipped(survey.report(person), bit)])
    assert caught.value.reason == ("version" if bit < 8 else "survey")


def test_reports_of_another_survey_are_refused(strict, packed):
    other = Survey.design(
        {**strict.attributes, "a": Integer(0, 4, epsilon=2, mechanism="randomized-response", per=1)}
    )
    assert pack.packed_size(other) == pack.packed_size(strict)
    seen = Counter()
    assert pack.unpack(other, packed, refused=seen).num_rows == 0
    assert seen == {"survey": 50}


def test_a_table_is_checked_before_it_is_written_or_packed(strict, packed, tmp_path):
    table = pack.unpack(strict, packed)
    bad = table.set_column(0, table.schema.field(0), pa.array([5] * 50, pa.uint8()))
    for call in (lambda: pack.pack(strict, bad), lambda: strict.tally(bad)):
        with pytest.raises(InvalidReportError, match="report 1 "):
            call()
    with pytest.raises(InvalidReportError, match="report 1 "):
        parquet.write(strict, tmp_path / "bad.parquet", [bad])
    assert not list(tmp_path.iterdir())


# Tallies -----------------------------------------------------------------------------------------


def test_tallies_add_up_in_any_order():
    numbers = survey_of_numbers()
    table = numbers.randomize(people_of(numbers, 60), randomness=Randomness.seeded(9))
    whole = numbers.tally(table)
    first, middle, last = (numbers.tally(table.slice(20 * k, 20)) for k in range(3))
    assert first + middle + last == last + (first + middle) == whole
    assert (first + middle).n == 40
    assert first + middle != whole
    assert first != middle
    assert whole != numbers.tally(table.take(pa.array([0] * 60)))
    backwards = numbers.tally(table.take(pa.array(range(59, -1, -1))))
    assert backwards == whole
    for where in ({"x": (0, 3)}, {"x": (0, 3), "y": "v1"}):
        assert backwards.count(where) == whole.count(where)
        assert (last + first + middle).count(where) == whole.count(where)
    empty = numbers.tally(table.slice(0, 0))
    assert whole + empty == whole
    assert whole != "whole"
    assert "60 reports" in repr(whole)


def survey_of_numbers():
    return Survey.design(
        {"x": attribute("integer", 17, "geometric"), "y": attribute("categorical", 3, "")}
    )


def test_tallies_of_different_surveys_do_not_mix(survey, strict, packed):
    with pytest.raises(InvalidReportError, match="different surveys") as caught:
        strict.tally(packed) + survey.tally(survey.randomize(PEOPLE))
    assert caught.value.reason == "survey"
    assert strict.tally([]) != survey.tally([])
    with pytest.raises(TypeError):
        strict.tally(packed) + 3


def test_tallies_are_saved_and_loaded(survey, tmp_path):
    tally = survey.tally(survey.randomize(PEOPLE)) + survey.tally(survey.randomize(PEOPLE))
    for path in (tmp_path / "tally.parquet", str(tmp_path / "text.parquet")):
        tally.save(path)
        loaded = survey.tally(path)
        assert isinstance(loaded, Tally)
        assert loaded == tally
        assert loaded.count({"age": (18, 65)}) == tally.count({"age": (18, 65)})
    merged = survey.tally(tmp_path / "tally.parquet") + survey.tally(survey.randomize(PEOPLE))
    assert merged.n == 12


def test_tables_from_other_programs_can_be_merged(survey, tmp_path):
    """Another writer may drop the not-null marks or reorder columns, but not add any."""
    table = survey.randomize(PEOPLE)
    loose = pa.table({name: table[name].combine_chunks() for name in reversed(table.column_names)})
    loose = loose.replace_schema_metadata(table.schema.metadata)
    with pytest.raises(InvalidReportError, match="is not one of the survey's"):
        survey.tally(loose.append_column("arrived", pa.array([1, 2, 3, 4])))
    pq.write_table(loose, tmp_path / "loose.parquet")
    tally = survey.tally(table)
    for other in (survey.tally(loose), survey.tally(tmp_path / "loose.parquet")):
        assert other == tally
        assert (other + tally).n == (tally + other).n == 8
        assert other + tally == tally + survey.tally(table.slice(0))


# Tallies -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tally(survey):
    return survey.tally(survey.randomize(PEOPLE, randomness=Randomness.seeded(8)))


def test_many_tallies_are_summed(survey, tally):
    more = [survey.tally(survey.randomize(PEOPLE)) for _ in range(2)]
    assert sum([tally, *more]) == tally + more[0] + more[1]
    assert sum([tally]) is tally
    with pytest.raises(TypeError):
        1 + tally


def test_a_tally_says_how_many(survey, tally):
    assert "Tally of 4 reports" in repr(tally)
    assert "Tally of 1 report " in repr(survey.tally(survey.randomize(_first(1))))


def _first(count):
    return {name: column[:count] for name, column in PEOPLE.items()}


def test_an_empty_tally_says_so(survey, tally):
    empty = survey.tally(survey.randomize(_first(0)))
    rows = empty.histogram("region").iloc[0], empty.counts([{}]).iloc[0]
    for answer in (empty.count({"age": 3}), *rows):
        assert answer.value == 0
        assert "no reports yet" in answer.notes
    assert "no reports yet" not in tally.count().notes


def test_answers_are_json_even_where_nothing_is_known(survey):
    one = survey.tally(survey.randomize(_first(1)))
    data = one.count({"age": 3}, target="population").to_dict()
    assert (data["std_error"], data["ci_low"], data["ci_high"]) == (None, 0.0, 1.0)
    json.dumps(data, allow_nan=False)
    bars = one.histogram("region", target="population")
    json.dumps(bars.to_dict(), allow_nan=False)
    assert bars.to_arrow()["ci_high"].to_pylist() == [1.0] * 3
    assert bars.confidence_interval(method="normal").high.tolist() == [1.0] * 3


def test_bars_by_label(tally):
    bars = tally.histogram("region")
    assert bars["south"] is bars.iloc[1]
    with pytest.raises(QueryError, match=r"no row 'South'.*'south' differs only in its case"):
        bars["South"]


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8])
def test_bins_of_any_integer(tally, kind):
    bars = tally.histogram("age", bins=kind(5))
    assert len(bars) == 5
    assert bars.labels[-1] == (80, 100)
    edges = tally.histogram("age", bins=[kind(edge) for edge in (0, 20, 40, 60, 80, 100)])
    assert edges == bars
    assert bars.iloc[1].value == pytest.approx(tally.count({"age": (20, 39)}).value)


def test_more_bins_than_values_are_one_for_each(tally):
    every = tally.histogram("age")
    assert tally.histogram("age", bins=10**30).values.tolist() == every.values.tolist()


def test_one_bin_has_everyone(tally):
    ((_, bar),) = tally.histogram("age", bins=1)
    assert bar.value == pytest.approx(tally.count().value)


def test_bars_are_made_one_at_a_time():
    """All at once, 30,000 bars would be 7 GB."""
    survey = Survey.design({"x": Integer(0, 29_999, epsilon=1, mechanism="geometric", per=1)})
    tally = survey.tally(survey.randomize({"x": [1, 2]}))
    taken = []
    tally.profile = lambda attribute, query, bars, labels, *, target: [
        taken.append(bar.sum()) for bar in itertools.islice(bars, 3)
    ]
    tracemalloc.start()
    tally.histogram("x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken == [1, 1, 1]
    assert peak < 30_000_000


# True and false ----------------------------------------------------------------------------------


def test_true_and_false_are_one_and_zero(survey, tally):
    assert tally.count({"sick": True}).value == tally.count({"sick": 1}).value
    assert tally.count({"sick": [True, False]}).value == tally.count().value


@pytest.mark.parametrize("name", ["age", "income"])
def test_true_and_false_are_no_other_numbers(survey, name):
    with pytest.raises(InvalidValueError, match=f"{name} in row 1 holds bool values"):
        survey.randomize({**PEOPLE, name: SICK})
