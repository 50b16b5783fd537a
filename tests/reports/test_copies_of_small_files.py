"""Files with the same few reports, given in one call.

Files without a collection number are compared by their reports, however few these are. Files with
numbers are different collections, whose few reports may agree by chance.
"""

import shutil

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metricldp import Integer, InvalidReportError, Survey
from metricldp.mechanisms.randomness import Randomness

SURVEY = Survey.design({"age": Integer(0, 9, epsilon=1, per=1, mechanism="geometric")})
REPORTS = SURVEY.randomize({"age": [1, 2, 3, 4, 5]}, randomness=Randomness.seeded(1))
UNMARKED = REPORTS.replace_schema_metadata(None)


def tally(paths, **how):
    return SURVEY.tally(paths, fingerprint=SURVEY.fingerprint, **how)


def rejected_as_copy(call):
    with pytest.raises(InvalidReportError, match="are the same as in") as error:
        call()
    assert error.value.reason == "twice"


COPIES = {
    "copied file": shutil.copy,
    "other compression": lambda source, path: pq.write_table(UNMARKED, path, compression="gzip"),
    "polars": lambda source, path: pl.from_arrow(UNMARKED).write_parquet(path),
    "wider type": lambda source, path: pq.write_table(
        UNMARKED.cast(pa.schema([("age=report", pa.int64())])), path
    ),
}


@pytest.fixture
def unmarked(tmp_path):
    path = tmp_path / "unmarked.parquet"
    pq.write_table(UNMARKED, path)
    assert len(UNMARKED) * SURVEY.report_bits < 128
    return path


@pytest.mark.parametrize("keep", [None, [["age"]]])
@pytest.mark.parametrize("case", COPIES)
def test_copy_of_an_unmarked_file_is_rejected(tmp_path, unmarked, case, keep):
    copy = tmp_path / "copy.parquet"
    COPIES[case](unmarked, copy)
    assert tally(copy, keep=keep).n == 5
    rejected_as_copy(lambda: tally([unmarked, copy], keep=keep))
    rejected_as_copy(lambda: tally(tmp_path, keep=keep))
    rejected_as_copy(lambda: tally(str(tmp_path / "*.parquet"), keep=keep))


def test_copy_in_a_call_of_add_is_rejected_and_nothing_is_counted(tmp_path, unmarked):
    shutil.copy(unmarked, tmp_path / "copy.parquet")
    counted = SURVEY.tally([])
    rejected_as_copy(lambda: counted.add(tmp_path, fingerprint=SURVEY.fingerprint))
    assert counted.n == 0


@pytest.mark.parametrize("marked_first", [True, False])
def test_unmarked_copy_of_a_marked_file_is_rejected(tmp_path, unmarked, marked_first):
    marked = tmp_path / "marked.parquet"
    SURVEY.tally(REPORTS).save(marked)
    paths = [marked, unmarked] if marked_first else [unmarked, marked]
    rejected_as_copy(lambda: tally(paths))


def test_other_reports_and_other_orders_are_counted(tmp_path, unmarked):
    pq.write_table(UNMARKED.take([4, 3, 2, 1, 0]), tmp_path / "reversed.parquet")
    pq.write_table(UNMARKED.slice(0, 4), tmp_path / "cut.parquet")
    assert tally(tmp_path).n == 14


def test_files_without_reports_may_be_equal(tmp_path):
    for name in ("one", "other"):
        pq.write_table(UNMARKED.slice(0, 0), tmp_path / f"{name}.parquet")
    assert tally(tmp_path).n == 0


def test_collections_with_the_same_few_reports_are_counted(tmp_path):
    for name in ("one", "other"):
        SURVEY.tally(REPORTS.slice(0)).save(tmp_path / f"{name}.parquet")
    assert SURVEY.tally(tmp_path).n == 10
    assert tally(tmp_path).n == 10


def test_equal_tables_and_files_of_other_calls_are_counted(tmp_path, unmarked):
    """They cannot be told from other people's reports."""
    shutil.copy(unmarked, tmp_path / "copy.parquet")
    assert tally([unmarked, UNMARKED]).n == 10
    assert (tally(unmarked) + tally(tmp_path / "copy.parquet")).n == 10
