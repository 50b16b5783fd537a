"""What is refused stays private: no message, attribute or chain of an exception has the value."""

from __future__ import annotations

import datetime
import sys
import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidReportError,
    InvalidValueError,
    Ordinal,
    Survey,
    Weight,
)
from metricldp.planning.draft import describe

SECRET = 987654321
NAME = "SECRET-CANARY"
SURVEY = Survey.design(
    {
        "age": Integer(0, 99, epsilon=1, per=5),
        "income": Continuous(0, 2000, bins=20, epsilon=1, per=100),
        "height": Continuous(0, 2, points=5, epsilon=1, rounding="stochastic", per=1),
        "often": Ordinal(["never", "often"], epsilon=1),
        "region": Categorical(["north", "south"], epsilon=1),
        "hours": Weight(0, 24),
        "owed": Weight(0, 10, private=True, epsilon=1),
    }
)
GOOD = {
    "age": 30,
    "income": 1.5,
    "height": 1.8,
    "often": "never",
    "region": "north",
    "hours": 8.0,
    "owed": 1.0,
}
SECRETS = [
    SECRET,
    -SECRET,
    float(SECRET),
    SECRET + 0.5,
    Decimal(SECRET),
    Decimal(f"{SECRET}.5"),
    Fraction(SECRET, 7),
    SECRET**50,
    SECRET**1000,
    str(SECRET),
    f"{SECRET}x",
    f"{SECRET}e999",
    "0" * 5000 + str(SECRET),
    NAME,
    f"north {NAME}",
    NAME.encode(),
    [SECRET],
    (NAME, SECRET),
    {SECRET},
    {NAME: SECRET},
    SECRET + 1j,
    np.int64(SECRET),
    np.float32(SECRET),
    np.str_(NAME),
    np.bytes_(NAME),
    np.array(SECRET),
    np.array([SECRET, SECRET]),
    np.timedelta64(SECRET, "s"),
    np.datetime64(SECRET, "s"),
    datetime.timedelta(seconds=SECRET),
    pd.Timestamp(SECRET, unit="s"),
    pa.scalar(SECRET),
    object(),
]


def is_private(wrong: BaseException) -> None:
    """Neither in its words, nor in what it carries, nor in what it came from."""
    told = [*traceback.format_exception(wrong)]
    seen: BaseException | None = wrong
    while seen is not None:
        told += [str(seen), repr(seen), repr(seen.args), repr(vars(seen))]
        seen = seen.__cause__ or seen.__context__
    # The lines of this file are in a traceback, so only messages and data are looked at.
    text = "\n".join(line for line in told if not line.lstrip().startswith("File "))
    for secret in (str(SECRET), f"{SECRET:,}", NAME, "9.87654", "1410935", "939777", "9.39777"):
        assert secret not in text, text


def refused(call) -> InvalidValueError:
    with pytest.raises(InvalidValueError) as caught:
        call()
    is_private(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", SURVEY.attributes)
@pytest.mark.parametrize("secret", SECRETS, ids=lambda v: type(v).__name__)
def test_a_refused_value_is_nowhere_to_be_seen(name, secret):
    for clip in (False, True):
        person = {**GOOD, name: secret}
        try:
            SURVEY.report(person, clip=clip)
        except InvalidValueError as wrong:
            is_private(wrong)
            assert wrong.attribute == name
            assert wrong.reason in ("kind", "range", "name", "whole")
        else:
            assert clip, "only what can be clipped is taken"


WAYS_IN = {
    "lists": lambda column: column,
    "mixed lists": lambda column: [*column[:1], str(column[1])],
    "numpy": np.array,
    "objects": lambda column: np.array(column, dtype=object),
    "masked": lambda column: np.ma.array(column, mask=[False] * len(column)),
    "pandas": pd.Series,
    "pandas nullable": lambda column: pd.Series(column).convert_dtypes(),
    "pandas categories": lambda column: pd.Series(column, dtype="category"),
    "polars": pl.Series,
    "arrow": pa.array,
    "arrow dictionary": lambda column: pa.array(column).dictionary_encode(),
}
IN_COLUMNS = [SECRET, float(SECRET), SECRET + 0.5, str(SECRET), f"{SECRET}e999", NAME, SECRET**5]


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("name", SURVEY.attributes)
def test_nor_from_a_column(name, way):
    for secret in IN_COLUMNS:
        good = str(GOOD[name]) if isinstance(secret, str) else GOOD[name]
        try:
            column = WAYS_IN[way]([good, secret])
        except Exception:  # no column of that kind can hold the two
            continue
        people = {key: [value] * 2 for key, value in GOOD.items()} | {name: column}
        wrong = refused(lambda people=people: SURVEY.randomize(people))
        assert wrong.attribute == name
        assert wrong.row == 1 or "values where" in str(wrong)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", SURVEY.attributes)
def test_nor_from_a_file_or_on_the_command_line(name, kind, tmp_path, run):
    SURVEY.save(tmp_path / "survey.toml")
    for secret in (SECRET, NAME):
        if kind == "csv":
            rows = [GOOD, {**GOOD, name: secret}]
            pd.DataFrame(rows).to_csv(tmp_path / "people.csv", index=False)
        else:
            people = {key: [value] * 2 for key, value in GOOD.items()}
            people[name] = [str(GOOD[name]), str(secret)]
            pq.write_table(pa.table(people), tmp_path / "people.parquet")
        arguments = ["survey.toml", f"people.{kind}", "-o", "out.parquet"]
        code, out, told = run(["randomize", *arguments], tmp_path)
        assert (code, out) == (2, "")
        assert f"{name} in row 2 " in told
        assert str(secret) not in told


@pytest.fixture
def run(monkeypatch, capsys):
    """The command line in this process: exit code, standard output, standard error."""
    from metricldp.cli import main as cli

    def call(arguments, directory):
        monkeypatch.chdir(directory)
        monkeypatch.setattr(sys, "argv", ["metricldp", *arguments])
        with pytest.raises(SystemExit) as done:
            cli.main()
        return done.value.code, *capsys.readouterr()

    return call


def test_a_file_without_a_header_shows_no_person(tmp_path, run):
    SURVEY.save(tmp_path / "survey.toml")
    for text in (
        f"{SECRET},{NAME}\n",
        f"{SECRET};{NAME}\n",
        f"age,{NAME}\n{SECRET}\n",  # a ragged row, and a header that is one
        "age,income,height,often,region,hours,owed\n" + f'{SECRET},"{NAME}\n' * 3,
        ",".join(GOOD) + f"\n{SECRET},{NAME}\n",
    ):
        (tmp_path / "people.csv").write_text(text)
        code, _, told = run(
            ["randomize", "survey.toml", "people.csv", "-o", "out.parquet"], tmp_path
        )
        assert code == 2
        assert str(SECRET) not in told
        assert NAME not in told or text.startswith("age,SECRET")


def test_a_person_who_is_no_dict_or_lacks_a_value():
    for person in (
        SECRET,
        NAME,
        [SECRET],
        {SECRET: 1},
        {NAME.encode(): 1},
        {(NAME,): SECRET},
        None,
    ):
        refused(lambda person=person: SURVEY.report(person))
    wrong = refused(lambda: SURVEY.report({"age": SECRET % 100, "incom": SECRET}))
    assert str(wrong) == (
        "the response has no value for 'income', only for 'age', 'incom'; did you mean 'incom'?"
    )


# Arrow types whose names contain values --------------------------------------------------------

NESTED = {
    "struct": pa.array([{NAME: True}, {NAME: False}]),
    "list": pa.array([[{NAME: 1}], []]),
    "large_list": pa.array([[{NAME: 1}], []], pa.large_list(pa.struct([(NAME, pa.int8())]))),
    "map": pa.array([[("x", {NAME: 1})], []], pa.map_("string", pa.struct([(NAME, pa.int8())]))),
    "struct with line breaks": pa.array([{f"\n{NAME}\n": 1}, None]),
    "timestamp": pa.array([1, 2], pa.timestamp("s", tz=NAME)),
}


@pytest.mark.parametrize("case", NESTED)
@pytest.mark.parametrize("name", SURVEY.attributes)
def test_types_of_columns_are_shown_without_names_of_fields(name, case):
    people = {key: [value] * 2 for key, value in GOOD.items()} | {name: NESTED[case]}
    wrong = refused(lambda: SURVEY.randomize(people))
    assert wrong.attribute == name
    assert f" {case.split()[0]} values where" in str(wrong)
    reports = SURVEY.randomize({key: [value] * 2 for key, value in GOOD.items()})
    place = reports.schema.get_field_index(f"{name}=report")
    column = NESTED[case].fill_null(NESTED[case][0])
    for fingerprint in (None, SURVEY.fingerprint):
        with pytest.raises(InvalidReportError) as caught:
            SURVEY.tally(
                reports.set_column(place, f"{name}=report", column), fingerprint=fingerprint
            )
        is_private(caught.value)
        assert f" holds {case.split()[0]}, and reports" in str(caught.value)


@pytest.mark.parametrize("case", NESTED)
def test_draft_shows_no_names_of_fields(case):
    left_out = describe("age", NESTED[case]).left_out
    assert NAME not in left_out
    expected = "these are dates" if case == "timestamp" else f"its values are {case.split()[0]};"
    assert left_out.startswith(expected)


# Columns that are none ---------------------------------------------------------------------------

FRAME = pd.DataFrame({name: [value, value] for name, value in GOOD.items()}, index=[0, 1])
NO_COLUMNS = {
    "a frame as a dict of dicts": lambda values: dict(enumerate(values)),
    "one text": lambda values: str(values[0]),
    "bytes": lambda values: str(values[0]).encode(),
    "a bytearray": lambda values: bytearray(b"\x01\x02"),
    "a view of bytes": lambda values: memoryview(b"\x01\x02"),
    "a set": lambda values: {*values, "other"},
    "a frozen set": frozenset,
    "a generator": lambda values: (value for value in values),
    "a map": lambda values: map(str, values),
    "keys": lambda values: dict.fromkeys(values).keys(),
    "one value": lambda values: values[0],
    "a numpy scalar": lambda values: np.array(values)[0],
    "nothing": lambda values: None,
    "no dimension": lambda values: np.array(values[0]),
    "two dimensions": lambda values: np.array([values, values]),
    "a frame": lambda values: pd.DataFrame({"x": values}),
    "a polars frame": lambda values: pl.DataFrame({"x": values}),
    "a table": lambda values: pa.table({"x": values}),
    "lists in a list": lambda values: [[value] for value in values],
    "arrays in a list": lambda values: [np.array([value]) for value in values],
    "dicts in a list": lambda values: [{"x": value} for value in values],
    "spans of time": lambda values: np.array([1, 2], "m8[s]"),
    "spans of time in a list": lambda values: [datetime.timedelta(1)] * 2,
    "numpy spans of time in a list": lambda values: [np.timedelta64(1), 1],
    "dates": lambda values: np.array([1, 2], "M8[s]"),
    "complex numbers": lambda values: np.array([1j, 2j]),
    "records": lambda values: np.rec.fromarrays([[1, 2], [3, 4]]),
    "periods": lambda values: pd.Series(pd.period_range("1970", periods=2)),
    "bytes in an array": lambda values: np.array([b"1", b"2"]),
    "bytes in a list": lambda values: [b"north", b"never"],
    "truth values": lambda values: [True, False],
    "truth values among numbers": lambda values: [values[0], True],
    "masked values": lambda values: np.ma.array(values, mask=[False, True]),
}


@pytest.mark.parametrize("case", NO_COLUMNS)
@pytest.mark.parametrize("name", SURVEY.attributes)
def test_what_is_no_column_is_refused(name, case):
    """Never read as something else: a dict's keys, a text's letters, a set in any order."""
    people = {key: list(column) for key, column in FRAME.items()}
    wrong = refused(lambda: SURVEY.randomize({**people, name: NO_COLUMNS[case](people[name])}))
    assert wrong.attribute == name


def test_a_frame_as_a_dict_of_dicts_is_told_the_way_out():
    with pytest.raises(InvalidValueError, match=r'has the type dict.*df.to_dict\("list"\)'):
        SURVEY.randomize(FRAME.to_dict())
    assert SURVEY.randomize(FRAME.to_dict("list")).num_rows == 2


@pytest.mark.parametrize(
    "column",
    [
        (70, 71),
        range(70, 72),
        np.array([70, 71], "uint8"),
        np.array([70, 71], object),
        np.array(["70", "71"]),
        np.ma.array([70, 71, 3], mask=[0, 0, 1])[:2],
        pd.Series([70, 71], index=[1, 0]),
        pd.Series([70, 71], dtype="Int64"),
        pd.Series([70, 71], dtype="category"),
        pd.Categorical([70, 71]),
        pd.Index([70, 71]),
        pd.arrays.SparseArray([70, 71]),
        pl.Series([70, 71]),
        pl.Series([70, "71"], dtype=pl.Object),
        pa.array([70, 71]),
        pa.chunked_array([[70], [71]]),
        [70, "71"],
        [np.int8(70), 71.0],
        [Decimal(70), Fraction(71)],
    ],
    ids=lambda v: f"{type(v).__name__} {getattr(v, 'dtype', '')}",
)
def test_what_is_a_column_is_read_in_order(column):
    survey = Survey.design({"age": Integer(0, 99, epsilon=50, mechanism="geometric", per=1)})
    assert survey.randomize({"age": column}).column("age=report").to_pylist() == [70, 71]
    assert survey.tally(survey.randomize({"age": column})).n == 2


def test_mixed_columns_are_read_like_one_person_at_a_time():
    survey = Survey.design({"age": Integer(0, 99, epsilon=50, mechanism="geometric", per=1)})
    read = survey.randomize({"age": [10**30, "5", -(10**30)]}, clip=True)
    assert read.column("age=report").to_pylist() == [99, 5, 0]
    frame = pd.DataFrame({"age": [7, "5", 3.0]})
    assert survey.randomize(frame).column("age=report").to_pylist() == [7, 5, 3]
