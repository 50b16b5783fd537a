"""A table object is counted once; equal tables that are different objects are both counted."""

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

from metricldp import (
    Integer,
    InvalidReportError,
    QueryError,
    Randomness,
    Survey,
    pool,
    waves,
)

SURVEY = Survey.design({"age": Integer(0, 89, epsilon=1, within=5, mechanism="geometric")})
FINGERPRINT = SURVEY.fingerprint


def encoded(seed=1, n=60):
    return SURVEY.randomize({"age": np.arange(n)}, randomness=Randomness.seeded(seed))


def as_frame(kind, table):
    if kind == "arrow":
        return table
    if kind == "batch":
        return table.combine_chunks().to_batches()[0]
    library = pytest.importorskip(kind)
    return table.to_pandas() if kind == "pandas" else library.from_arrow(table)


def twice(call):
    with pytest.raises(InvalidReportError, match="same table object") as error:
        call()
    assert error.value.reason == "twice"


KINDS = ["arrow", "batch", "pandas", "polars", "duckdb"]


@pytest.mark.parametrize("keep", [None, [["age"]]])
@pytest.mark.parametrize("kind", KINDS)
def test_same_object_is_rejected_in_a_list_a_generator_a_sum_and_add(kind, keep):
    frame = as_frame(kind, encoded())

    def tally(reports):
        return SURVEY.tally(reports, keep=keep, fingerprint=FINGERPRINT)

    twice(lambda: tally([frame, frame]))
    twice(lambda: tally(frame for _ in range(2)))
    twice(lambda: tally(frame) + tally(frame))
    one = tally(frame)
    twice(lambda: one.add(frame, fingerprint=FINGERPRINT))
    assert one.n == 60
    twice(lambda: one + tally([encoded(2), frame]))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_tables_that_are_different_objects_are_both_counted(kind):
    one, other = as_frame(kind, encoded()), as_frame(kind, encoded())
    tally = SURVEY.tally([one, other], fingerprint=FINGERPRINT)
    assert tally.n == 120
    parts = [SURVEY.tally(frame, fingerprint=FINGERPRINT) for frame in (one, other)]
    assert (parts[0] + parts[1]).n == 120


def test_tally_is_not_added_to_itself():
    tally = SURVEY.tally(encoded())
    with pytest.raises(InvalidReportError) as error:
        tally + tally
    assert error.value.reason == "twice"


def test_slices_of_a_table_are_counted():
    table = encoded()
    assert SURVEY.tally([table.slice(0, 20), table.slice(20)]).n == 60
    assert SURVEY.tally([table, table.slice(0)]).n == 120, "a slice is another object"


def test_equal_bytes_are_counted_again():
    """Two respondents can send equal bytes, so a retry is not recognized."""
    assert SURVEY.tally([SURVEY.report({"age": 1})] * 2).n == 2


def test_table_without_rows_may_come_again():
    empty = encoded().slice(0, 0)
    assert SURVEY.tally([empty, empty]).n == 0


def test_rejected_table_may_be_counted_later():
    """All of a list is counted or none of it."""
    good, bad = encoded(), pa.table({"age": [1]})
    tally = SURVEY.tally([])
    with pytest.raises(InvalidReportError, match="fingerprint"):
        tally.add([good, bad])
    tally.add(good)
    assert tally.n == 60


def test_new_table_with_the_id_of_a_deleted_one_is_counted():
    """A stream may free each table, so that the next one has the same id."""

    def stream():
        for seed in range(200):
            yield encoded(seed, 3)

    assert SURVEY.tally(stream()).n == 600


def test_tally_does_not_keep_a_frame_alive():
    frame = as_frame("pandas", encoded())
    tally, reference = SURVEY.tally(frame, fingerprint=FINGERPRINT), weakref.ref(frame)
    del frame
    gc.collect()
    assert reference() is None and tally.n == 60


def test_objects_without_weak_references_are_recognised():
    class Stream:
        __slots__ = ("table",)

        def __init__(self, table):
            self.table = table

        def __arrow_c_stream__(self, requested_schema=None):
            return self.table.__arrow_c_stream__(requested_schema)

    one, other = Stream(encoded()), Stream(encoded())
    assert SURVEY.tally([one, other]).n == 120
    twice(lambda: SURVEY.tally([one, one]))
    twice(lambda: SURVEY.tally(one) + SURVEY.tally(one))


def test_pools_and_waves_reject_tallies_of_the_same_table():
    table = encoded()
    tallies = [SURVEY.tally(table), SURVEY.tally(table)]
    for combine in (pool, waves):
        with pytest.raises(QueryError, match="reports in common"):
            combine(tallies)
    with pytest.raises(QueryError):
        tallies[0].count({"age": (0, 9)}) - tallies[1].count({"age": (0, 9)})


def test_saved_files_name_collections_and_not_tables(tmp_path):
    """Files keep their rule: a copy without a collection number is recognised by its content."""
    table = encoded()
    SURVEY.tally([table, encoded(2)]).save(tmp_path / "one.parquet")
    again = SURVEY.tally(tmp_path / "one.parquet")
    assert len([number for number in again.store.counted if len(number) == 32]) == 1
    SURVEY.tally([table, encoded(2)]).save(tmp_path / "two.parquet")
    with pytest.raises(InvalidReportError, match="are the same as in"):
        SURVEY.tally([tmp_path / "one.parquet", tmp_path / "two.parquet"])


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_engines_reject_the_same_frame(engine):
    frame = as_frame(engine, encoded())

    def tally():
        return SURVEY.tally(frame, engine=engine, fingerprint=FINGERPRINT)

    twice(lambda: tally() + tally())
