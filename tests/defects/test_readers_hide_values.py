"""Error messages of readers never show a respondent's value, not even as a column name."""

import io
import json
import subprocess
import sys
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from metricldp import Categorical, Integer, InvalidValueError, MetricLdpError, Survey, draft
from metricldp.reports.files import encode_file

SURVEY = Survey.design(
    {
        "income": Integer(0, 99, epsilon=1, within=5, mechanism="geometric"),
        "region": Categorical(["north", "south"], epsilon=1),
    }
)
SECRETS = ("7319", "Canary")
RESPONDENTS = [{"income": 7319, "region": "Canary"}, {"income": 12, "region": "north"}]
JSON_LINES = "".join(json.dumps(one) + "\n" for one in RESPONDENTS)


def hidden(call, kind=MetricLdpError, chain=True):
    """The message of a rejection that shows no value, nor does an exception that it came from.

    Without `chain`, only what a traceback prints is checked.
    """
    with pytest.raises(kind) as error:
        call()
    message, seen = str(error.value), error.value
    assert "\n" not in message
    while seen is not None:
        for secret in SECRETS:
            assert secret not in f"{seen} {seen.args} {vars(seen)}"
        seen = seen.__cause__ or seen.__context__ if chain else None
    printed = "".join(traceback.format_exception_only(error.value))
    assert error.value.__suppress_context__ or chain
    assert not any(secret in printed for secret in SECRETS)
    return message


FILES = {
    "JSON lines": (JSON_LINES, "is JSON and not CSV"),
    "JSON": (json.dumps(RESPONDENTS), "is JSON and not CSV"),
    "no header": ("7319,Canary\n12,north\n", "if the first line is a header at all"),
    "values like names": ("income7319,regionCanary\n1,north\n", "if the first line is a header"),
    "keys and values": ("income,7319\nregion,Canary\n", "has no column 'region'"),
    "ragged": ("income,region\n7319,north,Canary\n", "has 3 cells, the header 2"),
    "open quote": ('income,region\n1,"Canary\n' + "7319,north\n" * 9, "row 1"),
    "semicolons": ("income;region\n7319;Canary\n", "separate columns by commas"),
    "out of domain": ("income,region\n7319,north\n", "row 1"),
    "unknown category": ("income,region\n1,Canary\n", "row 1"),
}


@pytest.mark.parametrize("name", FILES)
def test_csv_files(tmp_path, name):
    content, expected = FILES[name]
    (tmp_path / "people.csv").write_text(content)
    message = hidden(
        lambda: encode_file(SURVEY, tmp_path / "people.csv", tmp_path / "r.parquet"),
        InvalidValueError,
    )
    assert expected in message


def test_text_that_is_not_utf8(tmp_path):
    (tmp_path / "people.csv").write_bytes(b"income,region\n1,Canary\xe9\n")
    message = hidden(lambda: encode_file(SURVEY, tmp_path / "people.csv", tmp_path / "r.parquet"))
    assert "UTF-8" in message and "0xe9" not in message


def test_command_line_hides_the_first_respondent(tmp_path):
    (tmp_path / "people.csv").write_text(JSON_LINES)
    SURVEY.save(tmp_path / "survey.toml")
    for words in (
        ["randomize", "survey.toml", "people.csv", "-o", "r.parquet"],
        ["draft", "people.csv"],
    ):
        run = subprocess.run(
            [sys.executable, "-m", "metricldp", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode and "is JSON" in run.stderr
        assert not any(secret in run.stdout + run.stderr for secret in SECRETS)


FRAMES = {
    "dict": lambda names, row: dict(zip(names, [[cell] for cell in row], strict=True)),
    "pandas": lambda names, row: pd.DataFrame([row], columns=names),
    "polars": lambda names, row: pl.DataFrame([row], schema=names, orient="row"),
    "polars lazy": lambda names, row: pl.DataFrame([row], schema=names, orient="row").lazy(),
    "arrow": lambda names, row: pa.table(dict(zip(names, [[cell] for cell in row], strict=True))),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("names", [["7319", "Canary"], ["income", "Canary"]])
def test_frames_that_were_read_without_a_header(kind, names):
    frame = FRAMES[kind](names, [12, "north"])
    assert "has no column" in hidden(lambda: SURVEY.randomize(frame)).replace("have", "has")


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("row", [[7319, "north"], [1, "Canary"]])
def test_frames_with_impossible_values(kind, row):
    hidden(lambda: SURVEY.randomize(FRAMES[kind](["income", "region"], row)))


@pytest.mark.parametrize("names", [["7319", "Canary"], ["income", "Canary"]])
def test_parquet_files_without_a_header(tmp_path, names):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(dict(zip(names, [[1], [2]], strict=True))), path)
    assert "has no column" in hidden(lambda: encode_file(SURVEY, path, tmp_path / "r.parquet"))


def test_damaged_parquet_file(tmp_path):
    path = tmp_path / "people.parquet"
    path.write_text(JSON_LINES)
    message = hidden(lambda: encode_file(SURVEY, path, tmp_path / "r.parquet"))
    assert "damaged, or not a Parquet file" in message


def csv_stream(ending=""):
    """A stream of Arrow that fails at a cell, which Arrow quotes in its own message."""
    options = pc.ConvertOptions(column_types={f"income{ending}": pa.int64()})
    blocks = pc.ReadOptions(block_size=64)
    rows = f"income{ending},region{ending}\n" + "1,north\n" * 30 + "Canary,north\n"
    return pc.open_csv(io.BytesIO(rows.encode()), convert_options=options, read_options=blocks)


def lazy_frame(ending=""):
    columns = {f"income{ending}": ["1", "Canary"], f"region{ending}": ["north"] * 2}
    return pl.LazyFrame(columns).with_columns(pl.col(f"income{ending}").cast(pl.Int64))


def relation(ending=""):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.sql(
        f'SELECT CAST(income AS INTEGER) AS "income{ending}", \'north\' AS "region{ending}" '
        "FROM (VALUES ('1'), ('Canary')) AS t(income)"
    )


@pytest.mark.parametrize("make", [csv_stream, lazy_frame, relation])
def test_messages_of_other_libraries_are_not_repeated(make):
    """Negative control: the library's own message has the value."""
    with pytest.raises(Exception, match="Canary"):
        frame = make()
        frame.read_all() if hasattr(frame, "read_all") else (
            frame.collect() if hasattr(frame, "collect") else frame.fetchall()
        )
    assert "cannot be read" in hidden(lambda: SURVEY.randomize(make()))
    hidden(lambda: SURVEY.tally(make("=report"), fingerprint=SURVEY.fingerprint))


@pytest.mark.parametrize("make", [lazy_frame, relation])
def test_messages_of_engines_are_not_repeated(make):
    def ask():
        engine = "polars" if make is lazy_frame else "duckdb"
        tally = SURVEY.tally(make("=report"), engine=engine, fingerprint=SURVEY.fingerprint)
        return tally.count({"income": (0, 9)})

    assert "could not read the reports" in hidden(ask, chain=False)


def test_raw_tables_given_as_reports():
    raw = pa.table({"income": pa.array([7319, 1]), "region": ["Canary", "north"]})
    for table in (raw, raw.rename_columns(["7319", "Canary"]), pa.table({"income": [7319]})):
        hidden(lambda table=table: SURVEY.tally(table))
        hidden(lambda table=table: SURVEY.tally(table, fingerprint=SURVEY.fingerprint))
    reports = SURVEY.randomize({"income": [1], "region": ["north"]})
    more = reports.append_column("Canary", pa.array(np.zeros(1)))
    assert "column 3 of these reports" in hidden(lambda: SURVEY.tally(more))


def test_draft_names_columns_by_place_if_none_can_be_used(tmp_path):
    (tmp_path / "people.csv").write_text("7319,Canary\n1,north\n1,north\n")
    assert "column 1: " in hidden(lambda: draft(tmp_path / "people.csv"))
