"""Files of reports: they tell nothing but reports, notice every change, and count once."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import shutil
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks import assert_counts
from metricldp import (
    Categorical,
    Integer,
    InvalidReportError,
    InvalidValueError,
    QueryError,
    Randomness,
    Survey,
    Weight,
    pool,
    waves,
)
from metricldp.reports import files, incoming, parquet, shuffle
from metricldp.reports.shuffle import random_order, scattered

SURVEY = Survey.design(
    {
        "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
        "visits": Integer(0, 20, epsilon=1, mechanism="threshold", per=1),
        "region": Categorical(["north", "south"], epsilon=1),
        "weight": Weight(0, 10),
    }
)
COLUMNS = list(SURVEY.attributes)


def people(n, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(100, size=n),
        "visits": rng.integers(21, size=n),
        "region": np.array(["north", "south"])[rng.integers(2, size=n)],
        "weight": rng.integers(10, size=n).astype(float),
    }


@pytest.fixture(scope="module")
def table():
    return SURVEY.randomize(people(500), randomness=Randomness.seeded(1))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# What a file tells -------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Row groups, batches and blocks so small that a few people fill several."""
    monkeypatch.setattr(parquet, "ROW_GROUP", 64)
    monkeypatch.setattr(files, "_BLOCK", 1 << 10)
    monkeypatch.setattr(parquet, "new_collection", lambda: "0" * 32)


def written(n, shuffle, form, name):
    """A file of people in some form; the bytes of the file of reports that is made of it."""
    frame = pd.DataFrame(people(n))
    if form == "long text":
        frame = frame.map(lambda value: f" {value} " if not isinstance(value, str) else value)
    if form == "more columns":
        frame.insert(1, "diary", ["x" * (7 * k % 400) for k in range(n)])
    if form == "other order":
        frame = frame[COLUMNS[::-1]]
    source = f"{name}.csv"
    if form in ("parquet", "groups", "dictionary", "indexed"):
        source = f"{name}.parquet"
        given = pa.Table.from_pandas(frame, preserve_index=form == "indexed")
        if form == "dictionary":
            given = given.set_column(
                2, "region", given["region"].combine_chunks().dictionary_encode()
            )
        pq.write_table(
            given, source, row_group_size=17 if form in ("groups", "dictionary") else None
        )
    else:
        frame.to_csv(source, index=False, lineterminator="\r\n" if form == "returns" else "\n")
    output = f"{name}-out.parquet"
    randomness = Randomness.seeded(3)
    assert files.encode_file(SURVEY, source, output, randomness=randomness, shuffle=shuffle) == n
    return Path(output).read_bytes()


FORMS = ["plain", "long text", "more columns", "other order", "returns", "parquet"]
FORMS += ["groups", "dictionary", "indexed"]


@pytest.mark.parametrize("shuffle", [True, False])
def test_nothing_but_reports_depends_on_the_people(shuffle, here, small):
    """The same coins, the same values: the same bytes, in whatever form the people came."""
    found = {form: written(500, shuffle, form, form.replace(" ", "-")) for form in FORMS}
    assert {form for form, data in found.items() if data != found["plain"]} == set()
    (here / "a.parquet").write_bytes(found["plain"])
    meta = pq.ParquetFile("a.parquet").metadata
    sizes = [meta.row_group(k).num_rows for k in range(meta.num_row_groups)]
    assert sizes == [64] * 7 + [52]


def layout(path):
    """All that a file says beside its reports, without where each part begins."""
    meta = pq.ParquetFile(path).metadata.to_dict()
    for group in meta["row_groups"]:
        del group["total_byte_size"]
        for column in group["columns"]:
            assert not column["statistics"]
            for key in [key for key in column if key.endswith(("_size", "_offset"))]:
                del column[key]
    return meta


def test_other_values_change_no_layout(here, small):
    """Values of one character or of many: all but the reports is the same."""
    survey = Survey.design({name: SURVEY.attributes[name] for name in ("visits", "weight")})
    for name, high in (("short", 9), ("long", 20)):
        rows = "".join(f"{k % high},{k % high}.{'0' * (k % high)}\n" for k in range(500))
        (here / f"{name}.csv").write_text("visits,weight\n" + rows.replace("20.", "10."))
        files.encode_file(survey, f"{name}.csv", f"{name}.parquet", clip=True)
    assert layout("short.parquet") == layout("long.parquet")
    sizes = [(here / f"{name}.parquet").stat().st_size for name in ("short", "long")]
    # The checksum of a page is a number of up to five bytes, and there are 16 pages.
    assert abs(sizes[0] - sizes[1]) <= 4 * 16 + 8


def test_two_encode_to_one_name(here):
    """Whichever comes last, its file is whole; none of the other stays."""
    pd.DataFrame(people(2000)).to_csv("few.csv", index=False)
    pd.DataFrame(people(3000)).to_csv("many.csv", index=False)
    for _ in range(5):
        both = [
            threading.Thread(target=files.encode_file, args=(SURVEY, source, "out.parquet"))
            for source in ("few.csv", "many.csv")
        ]
        for one in both:
            one.start()
        for one in both:
            one.join()
        assert SURVEY.tally("out.parquet").n in (2000, 3000)
    assert sorted(path.name for path in here.iterdir()) == ["few.csv", "many.csv", "out.parquet"]


def test_a_merged_file_tells_nothing_of_its_parts(table, here, small):
    for cuts in ((100, 500), (7, 8, 64, 65, 300, 500)):
        names = []
        for start, end in itertools.pairwise((0, *cuts)):
            names.append(f"{cuts[0]}-{end}.parquet")
            pq.write_table(table.slice(start, end - start), names[-1])
        SURVEY.tally(names).save(f"all{cuts[0]}.parquet")
    assert (here / "all100.parquet").read_bytes() == (here / "all7.parquet").read_bytes()


# Order -------------------------------------------------------------------------------------------


def test_every_order_is_equally_likely():
    randomness, n, false_alarm = Randomness.seeded(5), 24_000, 1e-7
    orders = list(itertools.permutations(range(4)))
    found = Counter(tuple(random_order(4, randomness).tolist()) for _ in range(n))
    assert_counts([found[o] for o in orders], [1 / 24] * 24, false_alarm=false_alarm)


class Coarse:
    """Words of three values only, so that many are equal."""

    def __init__(self):
        self.rng = np.random.default_rng(1)

    def words(self, count):
        return self.rng.integers(3, size=count).astype(np.uint64)


def check_orders(order, n=6000):
    found = Counter(tuple(order()) for _ in range(n))
    orders = list(itertools.permutations(range(3)))
    assert_counts([found[o] for o in orders], [1 / 6] * 6, false_alarm=1e-7)


def test_words_that_are_equal_are_drawn_again():
    randomness = Coarse()
    check_orders(lambda: random_order(3, randomness).tolist())
    with pytest.raises(AssertionError, match="a count this far off"):
        check_orders(lambda: np.argsort(randomness.words(3), kind="stable").tolist())


def sequence(survey, table):
    """Weights are public and stand here for who is who."""
    return table["weight=report"].to_numpy().astype(int).tolist()


def test_streams_are_in_every_order_too(here):
    """Four people that come in two batches: each of the 24 orders equally often."""
    survey = Survey.design({"x": Integer(0, 1, epsilon=1, per=1), "weight": Weight(0, 10)})
    whole = survey.randomize({"x": [0] * 4, "weight": [0.0, 1, 2, 3]})
    orders, found = list(itertools.permutations(range(4))), Counter()
    randomness = Randomness.seeded(6)
    for _ in range(1200):
        parts = scattered(survey, [whole.slice(0, 3), whole.slice(3)], randomness, here)
        found[tuple(sequence(survey, pa.concat_tables(parts)))] += 1
    assert_counts([found[o] for o in orders], [1 / 24] * 24, false_alarm=1e-7)
    assert not list(here.iterdir())


def test_buckets_alone_are_no_random_order(here, monkeypatch):
    """The twin of the test above: with two buckets and no order in them it must notice."""
    survey = Survey.design({"x": Integer(0, 1, epsilon=1, per=1), "weight": Weight(0, 10)})
    whole = survey.randomize({"x": [0] * 3, "weight": [0.0, 1, 2]})

    class Bits(Randomness):
        def draw(self, count):
            return bytes(byte & 1 for byte in super().draw(count))

    def mixed():
        return sequence(survey, pa.concat_tables(scattered(survey, [whole], Bits(), here)))

    check_orders(mixed, 1000)
    monkeypatch.setattr(shuffle, "random_order", lambda count, randomness: np.arange(count))
    with pytest.raises(AssertionError, match="a count this far off"):
        check_orders(mixed, 1000)


def test_order_is_kept_or_not(here):
    """Of 500 people, how many stay where they were; and nobody is lost."""
    given = {**people(500), "weight": np.arange(500) / 50}
    pd.DataFrame(given).to_csv("people.csv", index=False)
    for mixed in (True, False):
        encoded = SURVEY.randomize(given, shuffle=mixed)
        files.encode_file(SURVEY, "people.csv", "out.parquet", shuffle=mixed)
        for found in (encoded, SURVEY.tally("out.parquet").store.table):
            weights = found["weight=report"].to_numpy()
            stayed = int((weights == given["weight"]).sum())
            # At random a Poisson number with mean 1: 20 or more has probability 2e-19.
            assert stayed < 20 if mixed else stayed == 500
            assert sorted(weights) == given["weight"].tolist()
    kept = SURVEY.randomize(given)["weight=report"].to_numpy().tolist()
    assert kept == given["weight"].tolist()


def test_rows_stay_together(here):
    """At a huge epsilon reports are values: the rows of the file are those of the people."""
    survey = Survey.design(
        {
            "a": Integer(0, 40, epsilon=60, per=1),
            "b": Integer(0, 40, epsilon=60, mechanism="threshold", per=1),
        }
    )
    given = {"a": np.arange(40).repeat(20), "b": np.arange(40).repeat(20)}
    pd.DataFrame(given).to_csv("people.csv", index=False)
    files.encode_file(survey, "people.csv", "out.parquet")
    read = survey.tally("out.parquet").store.table
    for found in (read, survey.randomize(given, shuffle=True)):
        rows = found["b=report"].to_pylist()
        bits = [int.from_bytes(value, "little").bit_count() for value in rows]
        ages = np.array(found["a=report"].to_pylist())
        ones = Counter(zip(ages.tolist(), bits, strict=True))
        assert len(ones) == 40
        assert set(ones.values()) == {20}


# Damage ------------------------------------------------------------------------------------------


def test_pages_have_checksums_and_the_file_a_digest(table, here):
    parquet.write(SURVEY, "a.parquet", [table])
    said = pq.ParquetFile("a.parquet").metadata.metadata
    assert len(said[b"metricldp.digest"]) == 64
    assert len(said[b"metricldp.collections"]) == 32
    data = bytearray((here / "a.parquet").read_bytes())
    # Bits of "visits" stand in plain pages: one of them, somewhere in the middle of its column.
    column = pq.ParquetFile("a.parquet").metadata.row_group(0).column(1)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    (here / "b.parquet").write_bytes(data)
    with pytest.raises(InvalidReportError, match="CRC checksum"):
        SURVEY.tally("b.parquet", fingerprint=SURVEY.fingerprint)


def test_the_digest_is_as_the_formats_say(table, here):
    """Read without the package: SHA-256 of canonical JSON over a SHA-256 for each column."""
    parquet.write(SURVEY, "a.parquet", [table])
    found = pq.read_table("a.parquet")
    said = pq.ParquetFile("a.parquet").metadata.metadata
    columns = [
        b"".join(
            v if isinstance(v, bytes) else np.array(v, kind).tobytes()
            for v in found[f"{name}=report"].to_pylist()
        )
        for name, kind in zip(COLUMNS, ("u1", "", "u1", "<f8"), strict=True)
    ]
    data = {
        "collections": said[b"metricldp.collections"].decode().split(),
        "columns": [hashlib.sha256(column).hexdigest() for column in columns],
        "n": 500,
        "survey": SURVEY.fingerprint,
    }
    text = json.dumps(data, separators=(",", ":"))
    assert said[b"metricldp.digest"].decode() == hashlib.sha256(text.encode()).hexdigest()


def test_a_changed_footer_is_refused(table, here):
    """Whichever byte of it: also those that no reader looks at."""
    parquet.write(SURVEY, "a.parquet", [table])
    whole = (here / "a.parquet").read_bytes()
    start = whole.index(b"metricldp-footer") + 48
    assert hashlib.sha256(whole[start:-8]).digest() == whole[start - 32 : start]
    for at in range(start - 32, len(whole)):
        (here / "b.parquet").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(InvalidReportError):
            SURVEY.tally("b.parquet")


def test_the_digest_does_not_depend_on_the_layout(table, here):
    """Other programs may write the same reports in another way, if they keep the metadata."""
    parquet.write(SURVEY, "a.parquet", [table])
    read = pq.ParquetFile("a.parquet").read()
    pq.write_table(read, "b.parquet", row_group_size=33, compression="zstd", use_dictionary=False)
    assert SURVEY.tally("b.parquet") == SURVEY.tally(table)


MARKS = ("digest", "collections")


def remarked(source, target, change):
    """The same reports with other marks, written by another program."""
    found = pq.ParquetFile(source).read()
    marks = dict(found.schema.metadata)
    change(marks)
    pq.write_table(found.replace_schema_metadata(marks), target)


@pytest.mark.parametrize("key", MARKS)
def test_changed_marks_are_refused(key, table, here):
    parquet.write(SURVEY, "a.parquet", [table])
    name = f"metricldp.{key}".encode()

    def turn(marks):
        marks[name] = marks[name][:-1] + bytes([marks[name][-1] ^ 1])

    for change in (turn, lambda marks: marks.pop(name), lambda marks: marks.update({name: b""})):
        remarked("a.parquet", "b.parquet", change)
        with pytest.raises(InvalidReportError) as told:
            SURVEY.tally("b.parquet")
        assert told.value.reason == "checksum"
        assert "\n" not in str(told.value)
        assert SURVEY.tally("b.parquet", fingerprint=SURVEY.fingerprint) == SURVEY.tally(table)


def test_files_of_other_programs_have_no_digest(table, here):
    pq.write_table(table, "a.parquet")
    assert SURVEY.tally("a.parquet") == SURVEY.tally(table)


def test_changed_reports_are_refused(table, here):
    parquet.write(SURVEY, "a.parquet", [table])
    read = pq.ParquetFile("a.parquet").read()
    for other in (read.slice(1), read.slice(0, 499), read.take(list(range(499, -1, -1)))):
        pq.write_table(other, "b.parquet")
        for how in ({}, {"keep": [("age",)]}):
            with pytest.raises(
                InvalidReportError, match=r"b\.parquet is damaged, or another program"
            ):
                SURVEY.tally("b.parquet", **how)
        assert SURVEY.tally("b.parquet", fingerprint=SURVEY.fingerprint).n == other.num_rows


def corrupted(data, rng):
    """A file with some bytes changed anywhere, cut off, doubled or turned to zeros."""
    data, kind = bytearray(data), int(rng.integers(10))
    if kind < 7:
        for at in rng.integers(len(data), size=int(rng.integers(1, 4))):
            data[at] ^= int(rng.integers(1, 256))
    elif kind == 7:
        start = int(rng.integers(len(data)))
        data[start : start + 8] = bytes(len(data[start : start + 8]))
    elif kind == 8:
        start, size = int(rng.integers(len(data))), int(rng.integers(1, 40))
        data[start:start] = data[start : start + size]
    else:
        start = int(rng.integers(len(data)))
        del data[start : start + int(rng.integers(1, 40))]
    return bytes(data)


def count_accepted(files_made, rng, here, table):
    """Of so many corrupted files: how many were read, and of those with changed reports."""
    parquet.write(SURVEY, "whole.parquet", [table.slice(0, 50)])
    whole, expected = (here / "whole.parquet").read_bytes(), SURVEY.tally(table.slice(0, 50))
    accepted = changed = 0
    for _ in range(files_made):
        (here / "bad.parquet").write_bytes(corrupted(whole, rng))
        try:
            found = SURVEY.tally("bad.parquet")
        except InvalidReportError as wrong:
            assert "\n" not in str(wrong)
            continue
        accepted += 1
        changed += found != expected
    return accepted, changed


def test_corrupted_files_are_refused(table, here):
    accepted, changed = count_accepted(600, np.random.default_rng(1), here, table)
    assert not changed
    assert accepted < 60  # names of programs, paddings and the like


@pytest.mark.slow
def test_very_many_corrupted_files_are_refused(table, here):
    accepted, changed = count_accepted(20_000, np.random.default_rng(2), here, table)
    print(f"\n20,000 corrupted files: {accepted} accepted, {changed} with changed reports")
    assert not changed


def test_a_file_is_read_row_group_by_row_group(here, monkeypatch):
    """Never is all of it in memory."""
    monkeypatch.setattr(parquet, "ROW_GROUP", 1 << 10)
    parquet.write(SURVEY, "long.parquet", [SURVEY.randomize(people(1 << 16))])
    before, most = pa.total_allocated_bytes(), 0
    with parquet.opened(SURVEY, "long.parquet", unmarked=False) as file:
        for _ in file.tables(0):
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < (here / "long.parquet").stat().st_size / 4


def test_marks_of_what_is_no_file(here):
    (here / "text.parquet").write_text("age\n30\n")
    for name in ("none.parquet", "text.parquet"):
        with pytest.raises(InvalidReportError, match=rf"^{name} cannot be read: ") as told:
            parquet.schema_in(name)
        assert told.value.reason == "file"


# Counted once ------------------------------------------------------------------------------------


@pytest.fixture
def two(here, table):
    """Two files of reports, a copy of the first, and links to it."""
    parquet.write(SURVEY, "one.parquet", [table])
    parquet.write(SURVEY, "two.parquet", [SURVEY.randomize(people(30, 2))])
    shutil.copy("one.parquet", "copy.parquet")
    (here / "hard.parquet").hardlink_to("one.parquet")
    (here / "soft.parquet").symlink_to("one.parquet")
    SURVEY.tally(["one.parquet", "two.parquet"]).save("both.parquet")
    pq.write_table(pq.ParquetFile("one.parquet").read(), "rewritten.parquet")
    return here


AGAIN = ["one.parquet", "copy.parquet", "hard.parquet", "soft.parquet", "both.parquet"]
AGAIN += ["rewritten.parquet", "./one.parquet"]


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("how", [{}, {"keep": [("age", "region")]}], ids=["reports", "totals"])
def test_a_file_is_counted_once(again, how, two):
    calls = [
        lambda: SURVEY.tally(["one.parquet", again], **how),
        lambda: SURVEY.tally(["one.parquet"], **how).add(again),
        lambda: SURVEY.tally("one.parquet", **how) + SURVEY.tally(again, **how),
    ]
    for call in calls:
        with pytest.raises(InvalidReportError) as told:
            call()
        assert told.value.reason == "twice"
    assert SURVEY.tally(["one.parquet", "two.parquet"], **how).n == 530
    assert SURVEY.tally("both.parquet", **how).n == 530


COPIES = ["one.parquet", "copy.parquet", "soft.parquet", "rewritten.parquet", "polars.parquet"]
COPIES += ["bare.parquet"]


@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize("first", ["one.parquet", "polars.parquet", "bare.parquet"])
def test_copy_is_counted_once_even_with_the_fingerprint(first, again, two, table):
    """By its reports in order where it lost its number, whatever program wrote it."""
    for name in ("polars.parquet", "again.parquet"):
        pl.from_arrow(table).write_parquet(name)
    for name in ("bare.parquet", "bare-again.parquet"):  # marked, without a number
        pq.write_table(table, name)
    if first == again:
        again = {"polars.parquet": "again.parquet", "bare.parquet": "bare-again.parquet"}.get(
            again, again
        )
    for how in ({}, {"keep": [("age", "region")]}):
        with pytest.raises(
            InvalidReportError, match=r"same file again|the same as in|counted"
        ) as told:
            SURVEY.tally([first, "two.parquet", again], fingerprint=SURVEY.fingerprint, **how)
        assert told.value.reason == "twice"
    assert SURVEY.tally([first, "two.parquet"], fingerprint=SURVEY.fingerprint).n == 530


def test_unchanged_file_keeps_its_number_with_the_fingerprint(two):
    tally = SURVEY.tally("one.parquet", fingerprint=SURVEY.fingerprint)
    with pytest.raises(InvalidReportError, match=r"copy\.parquet were counted already"):
        tally.add("copy.parquet")
    with pytest.raises(InvalidReportError, match=r"copy\.parquet were counted already"):
        SURVEY.tally("one.parquet").add("copy.parquet", fingerprint=SURVEY.fingerprint)
    # Changed by another program, whatever it says of its collection need not be so.
    whole = pq.read_table("one.parquet")
    for name, part in (("left.parquet", whole.slice(0, 200)), ("right.parquet", whole.slice(200))):
        pq.write_table(part, name)
    assert SURVEY.tally(["left.parquet", "right.parquet"], fingerprint=SURVEY.fingerprint).n == 500


def test_copies_in_a_later_call_are_rejected_from_128_bits_on(here):
    """Fewer bits may agree by chance; in one call a copy is rejected however few there are."""
    survey = Survey.design({"x": Integer(0, 1, epsilon=1, mechanism="threshold", per=1)})
    for n in (127, 128):
        table = survey.randomize({"x": np.zeros(n, int)})
        for name in ("a.parquet", "b.parquet"):
            pq.write_table(table, name)
        with pytest.raises(InvalidReportError, match=r"b\.parquet are the same as in a\.parquet"):
            survey.tally(["a.parquet", "b.parquet"])
        tally = survey.tally("a.parquet")
        if n == 127:
            tally.add("b.parquet")
            assert tally.n == 254
        else:
            with pytest.raises(InvalidReportError, match=r"b\.parquet were counted already"):
                tally.add("b.parquet")
            assert tally.n == 128


@pytest.mark.parametrize("first", ["bare.parquet", "one.parquet"])
@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("how", [{}, {"keep": [("age",)]}], ids=["reports", "totals"])
def test_a_copy_without_a_number_is_known_by_its_reports(first, marked, how, two, table):
    """In a later call, and in another tally."""
    kept = table if marked else table.replace_schema_metadata(None)
    for name in ("bare.parquet", "bare-copy.parquet"):
        pq.write_table(kept, name)
    pq.write_table(kept.slice(1), "rest.parquet")
    read = partial(SURVEY.tally, fingerprint=SURVEY.fingerprint, **how)
    tally, copy = read(first), read("bare-copy.parquet")
    for again in (
        lambda: tally.add(first, fingerprint=SURVEY.fingerprint),
        lambda: tally.add(["two.parquet", "bare-copy.parquet"], fingerprint=SURVEY.fingerprint),
        lambda: copy.add("one.parquet"),
        lambda: tally + copy,
        lambda: read("two.parquet") + tally + copy,
    ):
        with pytest.raises(InvalidReportError, match="counted already") as told:
            again()
        assert told.value.reason == "twice"
    with pytest.raises(InvalidReportError, match=r"counted already \(by its digest\): "):
        copy.add("one.parquet")
    (number,) = parquet.numbered(tally.store.counted, "")
    with pytest.raises(InvalidReportError, match=rf"counted already \(collection {number}\): "):
        tally + tally
    with pytest.raises(QueryError, match="have reports in common"):
        pool([tally, copy])
    with pytest.raises(QueryError, match="have reports in common"):
        waves({"2020": tally, "2021": copy})
    tally.add("two.parquet")
    tally.add(
        "rest.parquet", fingerprint=SURVEY.fingerprint
    )  # not the same reports as far as anybody can tell
    tally.add(table)  # at hand it is what it is: whoever adds it knows it
    assert tally.n == 500 + 30 + 499 + 500


def test_what_is_saved_tells_no_content(here, table):
    """By it one could find out which of the reports came together; so it is forgotten."""
    pq.write_table(table, "bare.parquet")
    for ending, how in ((".parquet", {}), (".totals", {"keep": [("age",)]})):
        tally = SURVEY.tally("bare.parquet", **how)
        tally.save(f"saved{ending}")
        number, content = sorted(tally.store.counted, key=len)
        data = (here / f"saved{ending}").read_bytes()
        assert number.encode() in data
        assert content.encode() not in data


def test_a_refused_file_changes_nothing(two):
    for how in ({}, {"keep": [("age",)]}):
        tally = SURVEY.tally("one.parquet", **how)
        for _ in range(2):
            with pytest.raises(InvalidReportError, match=r"copy\.parquet were counted already"):
                tally.add(["two.parquet", "copy.parquet"])
        assert tally.n == 500
        tally.add("two.parquet")
        assert tally.n == 530


def test_saved_tallies_remember_what_they_counted(two):
    for name, how in (("kept.parquet", {}), ("kept.totals", {"keep": [("age",)]})):
        SURVEY.tally(["one.parquet"], **how).save(name)
        for again in (name, f"copy-of-{name}"):
            shutil.copy(name, f"copy-of-{name}")
            tally = SURVEY.tally(name)
            with pytest.raises(InvalidReportError, match="counted already"):
                tally.add("copy.parquet")
            with pytest.raises(InvalidReportError, match="counted already"):
                tally + SURVEY.tally(again)
            tally.add("two.parquet")
            assert tally.n == 530


def test_reports_without_a_number_get_one(here, table):
    """A saved tally, its later self and its copies all hold the same reports."""
    for ending, how in ((".parquet", {}), (".totals", {"keep": [("age",)]})):
        tally = SURVEY.tally(table, **how)
        tally.save(f"early{ending}")
        with pytest.raises(InvalidReportError, match="counted already"):
            tally + tally
        tally.add(table.slice(0, 5))
        tally.add(table.slice(5, 5))
        assert len(parquet.numbered(tally.store.counted, "")) == 1
        tally.save(f"late{ending}")
        with pytest.raises(InvalidReportError, match="counted already"):
            SURVEY.tally(f"early{ending}") + SURVEY.tally(f"late{ending}")
        left, right = SURVEY.tally(f"early{ending}"), SURVEY.tally(f"early{ending}")
        left.add(table.slice(0, 5))
        right.add(table.slice(5, 5))
        with pytest.raises(InvalidReportError, match="counted already"):
            left + right
        assert (left + SURVEY.tally(table, **how)).n == 1005


def test_nothing_is_no_collection(here, table):
    """Where there are no reports, none can be counted twice."""
    nothing = table.slice(0, 0)
    pq.write_table(nothing, "nothing.parquet")
    for how in ({}, {"keep": [("age",)]}):
        for none in ([], nothing, [nothing, nothing], [b"?"], "nothing.parquet"):
            empty = SURVEY.tally(none, rejected=Counter(), **how)
            assert empty.store.counted == frozenset()
            assert (empty + empty + empty).n == 0
    SURVEY.tally(nothing).save("kept.parquet")
    shutil.copy("kept.parquet", "copy.parquet")
    assert SURVEY.tally(["kept.parquet", "copy.parquet", table]).n == 500


# Other programs ----------------------------------------------------------------------------------


def stripped(table):
    """As other programs return it: no marks, loose binaries, wide integers."""
    loose = table.replace_schema_metadata(None)
    for place, kind in ((0, pa.int64()), (1, pa.large_binary())):
        name = loose.column_names[place]
        loose = loose.set_column(place, name, loose[name].cast(kind))
    return loose


def through(name, table):
    if name == "polars":
        return pl.from_arrow(table)
    if name == "lazy":
        return pl.from_arrow(table).lazy().filter(pl.col("weight=report") >= 0)
    if name == "pandas":
        return stripped(table).to_pandas()
    if name == "reader":
        return pa.RecordBatchReader.from_batches(
            stripped(table).schema, stripped(table).to_batches(max_chunksize=64)
        )
    if name == "batch":
        return stripped(table).to_batches()[0]
    if name == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        return duckdb.from_arrow(table).filter('"weight=report" >= 0')
    return stripped(table)


PROGRAMS = ["arrow", "polars", "lazy", "pandas", "reader", "batch", "duckdb"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_reports_from_other_programs(name, table):
    for how in ({}, {"keep": [("age", "region")]}):
        with pytest.raises(InvalidReportError, match="fingerprint=") as told:
            SURVEY.tally(through(name, table), **how)
        assert told.value.reason == "unmarked"
        assert SURVEY.tally(
            through(name, table), fingerprint=SURVEY.fingerprint, **how
        ) == SURVEY.tally(table, **how)
        tally = SURVEY.tally([], **how)
        tally.add(through(name, table), fingerprint=SURVEY.fingerprint)
        assert tally.n == 500


def test_marked_frames_need_no_fingerprint(table):
    """Arrow keeps the marks of a table, and of what is made of it."""
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert SURVEY.tally(reader) == SURVEY.tally(table)


def test_a_query_that_has_yet_to_run_is_a_table(table):
    lazy = nw.from_native(stripped(table)).lazy()
    assert SURVEY.tally(lazy, fingerprint=SURVEY.fingerprint) == SURVEY.tally(table)
    assert SURVEY.tally([lazy, table], fingerprint=SURVEY.fingerprint).n == 1000


def test_one_column_is_no_table(table):
    with pytest.raises(InvalidReportError, match="a table of columns, not a ChunkedArray") as told:
        SURVEY.tally(table["age=report"])
    assert told.value.reason == "kind"


def test_a_file_brings_its_own_numbers_and_no_other(two, table):
    """So a file and a stream of bytes can be told apart, and neither is counted twice."""
    parts, counted = [], set()
    for part in incoming.pieces(SURVEY, ["one.parquet", "two.parquet"], counted=counted):
        parts.append(part.num_rows)
    assert parts == [500, 30]
    numbers = parquet.numbered(counted, "")
    assert (len(numbers), len(counted)) == (2, 4)  # and the content of both
    assert all(parquet.NUMBER.fullmatch(number) for number in numbers)


def spoiled(table, name, values):
    column = f"{name}=report"
    at = table.schema.get_field_index(column)
    return stripped(table).set_column(at, column, values)


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("range", lambda t: spoiled(t, "age", pa.array([100] * 500))),
        ("range", lambda t: spoiled(t, "age", pa.array([-1] * 500))),
        ("columns", lambda t: spoiled(t, "age", pa.array([1e3] * 500))),
        ("columns", lambda t: spoiled(t, "age", pa.array(["x"] * 500))),
        ("missing", lambda t: spoiled(t, "age", pa.array([None] * 500, pa.int64()))),
        ("columns", lambda t: spoiled(t, "visits", pa.array([b"ab"] * 500))),
        ("range", lambda t: spoiled(t, "visits", pa.array([b"\xff\xff\xff"] * 500))),
        ("range", lambda t: spoiled(t, "weight", pa.array([11.0] * 500))),
        ("columns", lambda t: spoiled(t, "weight", pa.array([1] * 500))),
        ("columns", lambda t: stripped(t).drop_columns("age=report")),
        ("survey", lambda t: t.replace_schema_metadata(
            {**t.schema.metadata, b"metricldp.survey": b"ab" * 32})),
        ("unmarked", lambda t: t.replace_schema_metadata({b"metricldp.version": b"1"})),
    ],
)  # fmt: skip
def test_fingerprint_does_not_accept_impossible_reports(reason, change, table):
    with pytest.raises(InvalidReportError) as told:
        SURVEY.tally(change(table), fingerprint=SURVEY.fingerprint)
    assert told.value.reason == reason


def test_files_of_other_programs(table, here):
    pl.from_arrow(table).write_parquet("polars.parquet")
    with pytest.raises(InvalidReportError, match="fingerprint="):
        SURVEY.tally("polars.parquet")
    assert SURVEY.tally("polars.parquet", fingerprint=SURVEY.fingerprint) == SURVEY.tally(table)
    SURVEY.tally("polars.parquet", fingerprint=SURVEY.fingerprint).save("marked.parquet")
    assert SURVEY.tally("marked.parquet") == SURVEY.tally(table)


def test_folders_and_patterns(table, here):
    (here / "days" / "june").mkdir(parents=True)
    for k, name in enumerate(["a.parquet", "b.pq", "june/c.PARQUET"]):
        parquet.write(SURVEY, f"days/{name}", [table.slice(100 * k, 100)])
    for name in ("_tmp.parquet", ".metricldp-1.parquet", "_SUCCESS", "notes.txt"):
        (here / "days" / name).write_text("not for us")
    first = SURVEY.tally(table.slice(0, 300))
    assert SURVEY.tally("days") == first == SURVEY.tally(here / "days", keep=None)
    assert SURVEY.tally(["days", table.slice(300)]) == SURVEY.tally(table)
    assert SURVEY.tally("days/[ab].p*").n == 200
    assert SURVEY.tally("days/**/[abc].[pP]*").n == 300
    assert SURVEY.tally("days", keep=[("age",)]).n == 300
    (here / "od[d].parquet").write_bytes((here / "days" / "a.parquet").read_bytes())
    assert SURVEY.tally("od[d].parquet").n == 100
    for nothing, needle in (
        ("none/*.parquet", "no file matches"),
        ("days/june/none", "no reports file"),
    ):
        with pytest.raises(InvalidReportError, match=needle):
            SURVEY.tally(nothing)
    (here / "empty").mkdir()
    with pytest.raises(InvalidReportError, match="no file in the folder empty ends in"):
        SURVEY.tally("empty")
    assert [path.name for path in incoming.files_in("days")] == ["a.parquet", "b.pq", "c.PARQUET"]
    with pytest.raises(InvalidReportError, match="the same file again"):
        SURVEY.tally(["days", "days/a.parquet"])


def test_memory_of_a_shuffled_stream_is_small(here):
    """Peak of Python's own memory while 2^17 reports pass: a small part of all of them."""
    import tracemalloc

    survey = Survey.design({"bits": Integer(0, 511, epsilon=1, mechanism="threshold", per=1)})
    one = survey.randomize({"bits": np.arange(1 << 12) % 512})
    whole = one.nbytes * 32
    tracemalloc.start()
    rows = sum(t.num_rows for t in scattered(survey, itertools.repeat(one, 32), Randomness(), here))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 1 << 17
    assert peak < whole / 4
    assert math.isclose(whole, 64 * (1 << 17))


# Damaged people ----------------------------------------------------------------------------------


def test_corrupted_people_are_refused_in_one_line(here):
    survey = Survey.design({name: SURVEY.attributes[name] for name in ("age", "region")})
    pq.write_table(pa.table({"age": range(50), "region": ["north", "south"] * 25}), "whole.parquet")
    whole, rng, refused = (here / "whole.parquet").read_bytes(), np.random.default_rng(3), 0
    for _ in range(400):
        (here / "bad.parquet").write_bytes(corrupted(whole, rng))
        try:
            files.encode_file(survey, "bad.parquet", "out.parquet")
        except InvalidValueError as wrong:
            assert "\n" not in str(wrong)
            refused += 1
    assert refused > 300


@pytest.mark.parametrize("form", [lambda v: v, lambda v: v.dictionary_encode()])
def test_text_that_is_none(form):
    raw = pa.array([b"north", b"n\xff"], pa.binary())
    text = form(pa.Array.from_buffers(pa.string(), 2, raw.buffers()))
    good = people(2)
    for name in ("age", "region"):
        with pytest.raises(InvalidValueError, match=f"{name} holds text that is not UTF-8"):
            SURVEY.randomize(pa.table({**good, name: text}))


def test_defaults_are_strict(table):
    """Row groups are as long as the formats say; without a word nobody is trusted."""
    assert parquet.ROW_GROUP == 1 << 18
    with pytest.raises(InvalidReportError, match="have no survey fingerprint"):
        list(incoming.pieces(SURVEY, stripped(table)))
