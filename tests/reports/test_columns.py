"""Columns of people to positions: whatever holds the same values gives the same, row by row."""

import datetime
from decimal import Decimal
from fractions import Fraction

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from metricldp import Categorical, Integer, InvalidValueError, Ordinal, Survey, Weight
from metricldp.attributes.answered import response_of
from metricldp.reports.columns import checked, collected_lazy, columns_of, is_lazy, positions_of

AGE = Integer(10, 99, epsilon=1, per=1)
SORT = Ordinal(["low", "2", "true", "false", "high"], epsilon=1)
MAYBE = Integer(10, 99, epsilon=1, optional=True, per=1)
MOOD = Categorical(["low", "high"], epsilon=1, optional=True)


def positions(attribute, column, **how):
    survey = Survey.design({"a": attribute, "other": AGE})
    people = {"a": column, "other": [10] * len(column)}
    found = checked(survey, people, **{"clip": False, **how})
    assert {part.dtype for part in found.values()} == {np.dtype(np.int64)}
    if attribute.optional is None:
        return found["a"].tolist()
    there = found[response_of("a")].tolist()
    return [place if yes else None for place, yes in zip(found["a"], there, strict=True)]


def refusal(attribute, column, **how):
    with pytest.raises(InvalidValueError) as told:
        positions(attribute, column, **how)
    assert "\n" not in str(told.value)
    return told.value


# The same values


def test_numbers_in_any_form():
    ages = [11, 30, 99]
    for column in (
        ages,
        tuple(ages),
        range(11, 14),
        [11.0, 30, np.int8(99)],
        [11, Decimal(30), 99],  # of two kinds that Arrow would not join
        [Fraction(11), 30, 99],
        ["11", " 30", "+99 "],
        ["11", "3e1", "99.0"],
        np.array(ages, "uint8"),
        np.array(ages, "float16"),
        np.array(ages, dtype=object),
        np.array([11, Decimal(30), 99], dtype=object),
        pd.Series(ages, index=[3, 3, 1]),
        pd.Series(ages, dtype="Int64"),
        pa.array(ages, pa.decimal128(5, 2)),
        pa.array([str(age) for age in ages], pa.large_string()),
        pa.array([str(age) for age in ages], pa.string_view()),
        pa.array(ages).dictionary_encode(),
        pa.array(["11", "30", "99"]).dictionary_encode(),
        pa.chunked_array([ages[:1], [], ages[1:]]),
        *doors(ages),
    ):
        expected = [1, 20, 89] if not isinstance(column, range) else [1, 2, 3]
        assert positions(AGE, column) == expected, column


def doors(ages):
    """Columns that other programs can read, and of which nothing else is known."""

    class Numpy:
        def __array__(self, dtype=None, copy=None):
            return np.array(ages, dtype)

        def __len__(self):
            return len(ages)

    class Array:
        def __arrow_c_array__(self, requested_schema=None):
            return pa.array(ages).__arrow_c_array__(requested_schema)

        def __len__(self):
            return len(ages)

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([ages[:1], ages[1:]]).__arrow_c_stream__(requested_schema)

        def __len__(self):
            return len(ages)

    return [Numpy(), Array(), Stream()]


def test_names_in_any_form():
    for column, expected in (
        (["low", "high", "2"], [0, 4, 1]),
        (np.array(["low", "high", "2"]), [0, 4, 1]),
        (pd.Categorical(["low", "high", "2"]), [0, 4, 1]),
        (pa.array(["low", "high"], pa.large_string()), [0, 4]),
        (pa.array(["low", "high"], pa.string_view()), [0, 4]),
        (pa.array(["low", "high", "low"]).dictionary_encode(), [0, 4, 0]),
        (pa.array(["low", "low"], pa.large_string()).dictionary_encode(), [0, 0]),
        ([2, 2], [1, 1]),
        (np.array([2, 2], "uint8"), [1, 1]),
        (pa.array([2, 2]).dictionary_encode(), [1, 1]),
        ([True, False], [2, 3]),
        (pa.array([], pa.float64()), []),
        (pa.array([], pa.null()), []),
        (pa.array([], pa.list_(pa.int8())), []),
        ([], []),
    ):
        assert positions(SORT, column) == expected, column


def test_columns_of_polars():
    assert positions(AGE, pl.Series([11, 30, 99])) == [1, 20, 89]
    assert positions(AGE, pl.Series([11, Decimal(30), 99], dtype=pl.Object)) == [1, 20, 89]
    frame = pl.DataFrame({"a": ["low", "high", None]})
    frame = frame.with_columns(sort=pl.col("a").cast(pl.Categorical))
    for table in (frame, pa.table(frame)):
        for name in ("a", "sort"):
            assert positions(MOOD, table[name]) == [0, 1, None]


def test_nobody_in_any_form():
    for column in ([], np.array([]), pa.array([], pa.date32()), pa.array([], pa.bool_())):
        assert positions(AGE, column) == []
        assert positions(MAYBE, column) == []


def test_true_is_one_where_that_is_all():
    one = Integer(0, 1, epsilon=1, per=1)
    assert positions(one, [True, False]) == [1, 0]
    assert positions(one, pa.array([True, False])) == [1, 0]
    digit = Integer(0, 9, epsilon=1, per=1)
    for mixed in ([5, True], [5.0, True], [5, np.True_], [5.0, False], [np.float64(5), True]):
        for column in (mixed, np.array(mixed, dtype=object)):
            assert refusal(digit, column).row == 1  # among numbers it is no number


def test_weights_of_either_sign():
    """Their bits are positions, which of a negative number are above 2^63."""
    weight = Weight(-2, 5)
    for column in ([-1.5, 1.5], [Decimal("-1.5"), Decimal("1.5")], ["-1.5", "1.5"]):
        found = checked(
            Survey.design({"a": AGE, "w": weight}), {"a": [11, 12], "w": column}, clip=False
        )
        assert found["w"].view(np.float64).tolist() == [-1.5, 1.5]


# Values that are wrong


def test_a_wrong_value_is_named_by_its_row():
    for attribute, column, row, why in (
        (AGE, [11, 100, 101], 2, "is outside 10 to 99"),
        (AGE, [9, 11], 1, "is outside 10 to 99"),
        (AGE, ["11", "x"], 2, "is not a number"),
        (AGE, ["11", "0x1f"], 2, "is not a number"),
        (AGE, ["11", "0X1F"], 2, "is not a number"),
        (AGE, ["11", "1.5"], 2, "is not a whole number"),
        (AGE, [11, None, 12], 2, "is missing"),
        (AGE, pa.array([11, None]), 2, "is missing"),
        (AGE, pa.array([11.0, None]), 2, "is missing"),
        (AGE, pa.array([11, None]).dictionary_encode(), 2, "is missing"),
        (AGE, [11.0, float("nan")], 2, "is missing"),
        (AGE, np.array([11, 2**63], "uint64"), 2, "is outside 10 to 99"),
        (AGE, [11, 10**30], 2, "is outside 10 to 99"),
        (AGE, pa.array([True, False]), 1, "holds bool values where numbers are needed"),
        (AGE, [11, Decimal("1.5")], 2, "is not a whole number"),
        (SORT, ["low", "LOW", "x"], 2, "is not one of"),
        (SORT, pa.array(["low", "x", "y"]).dictionary_encode(), 2, "is not one of"),
        (SORT, ["low", None], 2, "is missing"),
        (SORT, pa.array(["low", None]).dictionary_encode(), 2, "is missing"),
        (SORT, [2, 3], 2, "is not one of"),
    ):
        told = refusal(attribute, column)
        assert (told.row, told.attribute) == (row - 1, "a"), column
        assert str(told).startswith(f"a in row {row} {why}"), column


def test_a_column_that_is_wrong_as_a_whole():
    day = datetime.date(2020, 1, 1)
    for attribute, column, why in (
        (AGE, pa.array([day, day]), "a holds date32[day] values where numbers are needed"),
        (AGE, pa.array([b"a"]), "a holds binary values where numbers are needed"),
        (AGE, pa.array([b"a"], pa.binary_view()), "a holds large_binary values where numbers are"),
        (SORT, [1.5, 2.5], "a holds double values where names are needed"),
        (SORT, pa.array([day]), "a holds date32[day] values where names are needed"),
    ):
        told = refusal(attribute, column)
        assert str(told).startswith(why)
        assert (told.row, told.attribute) == (None, "a")


def test_text_that_is_none():
    raw = pa.array([b"11", b"1\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    for attribute in (AGE, SORT, MAYBE):
        told = refusal(attribute, text)
        assert str(told) == "a holds text that is not UTF-8; save it as such"
        assert told.attribute == "a"


def test_clipping():
    for column in ([9, 100, 50], ["9", "100", "50"], [9, Decimal(100), 50]):
        assert positions(AGE, column, clip=True) == [0, 89, 40]
    assert positions(MAYBE, [9, None, 100], clip=True) == [0, None, 89]
    with pytest.raises(InvalidValueError, match=r"^a in row 1 is outside 10 to 99"):  # not shown
        positions_of(AGE, pa.array([9]), "a")
    assert positions_of(AGE, pa.array([9]), "a", clip=True).tolist() == [0]


def test_columns_of_one_length():
    survey = Survey.design({"a": AGE, "b": AGE, "c": AGE})
    ages = [11, 12, 13]
    assert checked(survey, dict.fromkeys("abc", ages), clip=False)["c"].tolist() == [1, 2, 3]
    for a, b, c in ((2, 3, 3), (3, 3, 1), (1, 2, 3), (0, 3, 3)):
        people = {"a": ages[:a], "b": ages[:b], "c": ages[:c]}
        with pytest.raises(InvalidValueError, match="columns differ in length"):
            checked(survey, people, clip=False)


# Missing values


def dictionary(values, kind):
    """As polars hands categories over: codes of texts that are views."""
    codes = pa.array([None if value is None else k for k, value in enumerate(values)], pa.uint32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(values, kind))


def test_missing_values_of_an_optional_attribute():
    nan = float("nan")
    for column, expected in (
        ([30, None, 11], [20, None, 1]),
        ([30.0, nan, 11.0], [20, None, 1]),
        ([30, nan, Decimal(11)], [20, None, 1]),
        (["30", "", "11"], [20, None, 1]),
        (["30", "  ", None], [20, None, None]),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.array(["30", None, " "], pa.large_string()), [20, None, None]),
        (pa.array(["30", None, ""], pa.string_view()), [20, None, None]),
        (pa.array(["30", None, " "]).dictionary_encode(), [20, None, None]),
        (dictionary(["30", None, " "], pa.string_view()), [20, None, None]),
        (pa.chunked_array([dictionary(["30", None], pa.string_view())]), [20, None]),
        (pa.array([30, None]).dictionary_encode(), [20, None]),
        (pd.Series([30, None], dtype="Int64"), [20, None]),
        (np.array([30.0, nan]), [20, None]),
    ):
        assert positions(MAYBE, column) == expected, column
    for column in (
        ["low", "", "high"],
        ["low", None, "high"],
        pd.Categorical(["low", nan, "high"]),
    ):
        assert positions(MOOD, column) == [0, None, 1], column


def test_rows_of_an_optional_attribute_count_those_without_an_answer():
    blank = "; a missing value is left blank"
    for attribute, column, row, hint in (
        (MAYBE, [None, 30, None, 100], 4, ""),
        (MAYBE, [None, None, 100], 3, ""),
        (MAYBE, ["", "x"], 2, blank),
        (MAYBE, [None, Decimal("1.5")], 2, ""),
        (MOOD, ["", "low", "n/a"], 3, blank),
        (MOOD, pa.array([None, "n/a"]).dictionary_encode(), 2, blank),
    ):
        told = refusal(attribute, column)
        assert told.row == row - 1, column
        assert str(told).endswith(blank) is bool(hint), column
        assert "n/a" not in str(told), column
    told = refusal(MOOD, [None, 1.5, 2.5])
    assert (told.row, str(told)) == (
        None,
        "a holds double values where names are needed; convert them to text; a missing value is "
        "left blank",
    )


# Tables of people


def people_refused(people, why):
    with pytest.raises(InvalidValueError) as told:
        checked(Survey.design({"age": AGE}), people, clip=False)
    assert str(told.value).startswith(why)


def with_a_broken_name(table):
    """As a damaged file may have it: the name of a column that is not UTF-8."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(
        sink.getvalue().to_pybytes().replace(b"names", b"n\xffmes")
    ).read_all()


def test_people_that_are_no_table():
    people_refused(3, "data must be a pandas, polars or Arrow table or a dict of arrays, not int")
    people_refused([1, 2], "data must be a pandas, polars or Arrow table or a dict of arrays, n")
    twice = [pa.array([1]), pa.array([2])]
    for frame in (
        pa.Table.from_arrays(twice, ["age", "age"]),
        pd.DataFrame([[11, 12]], columns=["age", "age"]),
    ):
        people_refused(frame, "the table has two columns of one name; rename one")
    people_refused({"Age": [11]}, "the table has no column 'age'; 'Age' differs only")
    people_refused(
        pa.table({"ages": [11]}), "the table has no column 'age'; there is 1 other column, if the"
    )
    people_refused({}, "the table has no column 'age'")
    told = "the table has a column whose name is not text; rename it"
    people_refused(with_a_broken_name(pa.table({"age": [11], "names": [1]})), told)


def test_columns_that_are_none():
    """A text is not a column of letters, nor a dict one of its keys."""
    for column, kind in (
        ("42", "str"),
        (b"42", "bytes"),
        (bytearray(b"42"), "bytearray"),
        (memoryview(b"42"), "memoryview"),
        ({42}, "set"),
        (42, "int"),
        (None, "NoneType"),
        (np.array(42), "ndarray"),
        (np.array([[42]]), "ndarray"),
        (pd.DataFrame({"age": [42]}), "DataFrame"),
        (iter([42]), "list_iterator"),
    ):
        told = (
            f"age has the type {kind} and is not a column; give a list or an array of one "
            "dimension, or use survey.report for one respondent"
        )
        with pytest.raises(InvalidValueError) as caught:
            checked(Survey.design({"age": AGE}), {"age": column}, clip=False)
        assert str(caught.value) == told
        assert caught.value.attribute == "age"
    people_refused({"age": {0: 42}}, "age has the type dict and is not a column; give a list")
    with pytest.raises(InvalidValueError, match=r'df\.to_dict\("list"\) makes lists$'):
        checked(Survey.design({"age": AGE}), {"age": {0: 42}}, clip=False)


def test_lists_of_what_arrow_would_change():
    """Times would become numbers, and True among numbers 1."""
    day = np.timedelta64(30, "D")
    assert refusal(AGE, [day, day]).row == 0
    assert refusal(AGE, [11, day]).row == 1
    half = np.float16(11.5)
    for column in ([half], [half, 12], [half, 12.0]):
        assert str(refusal(AGE, column)).startswith("a in row 1 is not a whole number")
    assert positions(AGE, [np.float16(11), 12]) == [1, 2]
    assert positions(AGE, [np.float32(11), 12]) == [1, 2]
    assert refusal(AGE, ["11", 12, True]).row == 2
    assert positions(AGE, ["11", 12]) == [1, 2]
    assert refusal(AGE, [11, "x"]).row == 1
    assert refusal(AGE, ["11", "1\ud800"]).row == 1


def test_frames_that_have_yet_to_be_computed():
    table = pa.table({"age": [11, 12], "more": [1, 2]})
    lazy = nw.from_native(table).lazy()
    assert is_lazy(lazy)
    assert not is_lazy(table)
    assert not is_lazy(3)
    assert collected_lazy(lazy).equals(table)
    survey = Survey.design({"age": AGE})
    for people in (lazy, table, table.to_batches()[0], table.to_reader()):
        assert checked(survey, people, clip=False)["age"].tolist() == [1, 2]
    people_refused(
        nw.from_native(table.drop_columns("age")).lazy(), "the table has no column 'age'"
    )


def test_every_column_of_a_table():
    table = pa.table({"age": [11, 12], "more": ["a", "b"]})
    lazy = nw.from_native(table).lazy()
    for people in (table.to_pydict(), table, table.to_reader(), lazy):
        found = columns_of(people)
        assert {name: column.to_pylist() for name, column in found.items()} == table.to_pydict()


def test_reports_are_no_people():
    """Blurred a second time they would pass for somebody's values."""
    survey = Survey.design({"age": AGE})
    reports = survey.randomize({"age": [11, 12]})
    forms = [reports, reports.to_batches()[0], reports.to_reader(), nw.from_native(reports)]
    for people in (*forms, reports.select(["age=report"]), pa.concat_tables([reports, reports])):
        with pytest.raises(InvalidValueError, match=r"^these are reports already; pass responses"):
            survey.randomize(people)
    with pytest.raises(InvalidValueError, match="reports already"):
        columns_of(reports)
    # Other programs drop the mark; columns of reports have names that no attribute can have.
    with pytest.raises(InvalidValueError, match="no column 'age'"):
        survey.randomize(reports.replace_schema_metadata(None))
