"""Tables without the survey's mark are reports only with the survey's fingerprint."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metricldp import Categorical, Integer, InvalidReportError, Randomness, Survey
from metricldp.cli.main import main

SURVEY = Survey.design(
    {
        "age": Integer(0, 89, epsilon=1, within=5, mechanism="geometric"),
        "region": Categorical(
            ["north", "south", "west"], epsilon=2, mechanism="randomized-response"
        ),
    }
)
OTHER = Survey.design({"age": Integer(0, 89, epsilon=0.5, within=5, mechanism="geometric")})
PEOPLE = {"age": np.arange(80), "region": ["north", "south"] * 40}


@pytest.fixture(scope="module")
def reports():
    return SURVEY.randomize(PEOPLE, randomness=Randomness.seeded(1))


@pytest.fixture
def unmarked(reports):
    return reports.replace_schema_metadata(None)


def rejection(table, **how):
    with pytest.raises(InvalidReportError) as error:
        SURVEY.tally(table, **how)
    assert "\n" not in str(error.value)
    return error.value


def test_raw_values_are_rejected_and_the_message_asks_for_the_fingerprint():
    raw = pa.table({"age": PEOPLE["age"], "region": [0, 1] * 40})
    error = rejection(raw)
    assert error.reason == "unmarked"
    assert "fingerprint=" in str(error) and "randomize them first" in str(error)


def test_trust_is_no_argument_any_more(unmarked):
    with pytest.raises(TypeError, match="trust"):
        SURVEY.tally(unmarked, trust=True)


@pytest.mark.parametrize("digits", [16, 40, 64])
def test_unmarked_reports_are_accepted_with_the_fingerprint(reports, unmarked, digits):
    assert SURVEY.tally(unmarked, fingerprint=SURVEY.fingerprint[:digits]) == SURVEY.tally(reports)
    assert SURVEY.tally(unmarked, fingerprint=SURVEY.fingerprint.upper()).n == 80


def test_fingerprint_of_another_survey_is_rejected(reports, unmarked):
    for table in (reports, unmarked):
        error = rejection(table, fingerprint=OTHER.fingerprint)
        assert error.reason == "survey" and "another survey" in str(error)


@pytest.mark.parametrize("wrong", [True, "", "yes", "0" * 15, "g" * 64, 7])
def test_text_that_is_no_fingerprint_is_rejected(unmarked, wrong):
    assert "first 16 hexadecimal digits" in str(rejection(unmarked, fingerprint=wrong))


def test_contributions_and_add_take_the_fingerprint(reports, unmarked):
    whole = SURVEY.tally(reports).contributions()
    assert SURVEY.tally(unmarked, fingerprint=SURVEY.fingerprint).contributions().equals(whole)
    tally = SURVEY.tally([])
    tally.add(unmarked, fingerprint=SURVEY.fingerprint)
    assert tally.n == 80


def test_impossible_value_is_named_by_number_column_and_range_and_not_shown(unmarked):
    """Row 4 of a column in the type of reports, and of one in a wider type."""
    for kind, value in ((pa.uint8(), 191), (pa.int64(), 4711), (pa.int64(), -3)):
        ages = unmarked["age=report"].cast(pa.int64()).to_pylist()
        ages[3] = value
        table = unmarked.set_column(0, "age=report", pa.array(ages, kind))
        error = rejection(table, fingerprint=SURVEY.fingerprint)
        assert error.reason == "range"
        assert "report 4 has a value in column 'age=report' that no report" in str(error)
        assert "whole numbers from 0 to 89" in str(error) and "raw values?" in str(error)
        assert str(value) not in str(error)


def test_column_of_fractions_is_named_as_raw_values(unmarked):
    table = unmarked.set_column(0, "age=report", pa.array([37.5] * 80))
    error = rejection(table, fingerprint=SURVEY.fingerprint)
    assert "column 'age=report' holds double" in str(error) and "raw values?" in str(error)
    assert "37.5" not in str(error)


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_engines_need_the_fingerprint_for_frames(reports, engine):
    library = pytest.importorskip(engine)
    frame = library.from_arrow(reports)
    with pytest.raises(InvalidReportError, match="fingerprint="):
        SURVEY.tally(frame, engine=engine)
    with pytest.raises(InvalidReportError, match="another survey"):
        SURVEY.tally(frame, engine=engine, fingerprint=OTHER.fingerprint)
    tally = SURVEY.tally(frame, engine=engine, fingerprint=SURVEY.fingerprint)
    where = {"age": (0, 40)}
    assert tally.count(where).value == pytest.approx(SURVEY.tally(reports).count(where).value)


def test_command_line_takes_the_fingerprint(tmp_path, monkeypatch, capsys, unmarked):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "survey.toml").write_text(SURVEY.to_toml())
    pq.write_table(unmarked, "reports.parquet")
    words = ["query", "count", "survey.toml", "reports.parquet"]
    for more, code in (
        ([], 2),
        (["--fingerprint", OTHER.fingerprint[:16]], 2),
        (["--fingerprint", SURVEY.fingerprint[:16]], 0),
    ):
        monkeypatch.setattr(sys, "argv", ["metricldp", *words, *more])
        ended = 0
        try:
            main()
        except SystemExit as stopped:
            ended = stopped.code
        out, err = capsys.readouterr()
        assert ended == code, err
    assert out.startswith("80 people")
