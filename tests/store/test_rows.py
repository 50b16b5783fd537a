"""SQL that anybody can run, and rows that are checked before they are believed."""

import sqlite3

import duckdb
import pyarrow as pa
import pytest
from lakes import MIXED, reports

from metricldp import QueryError, ReportRefused, Totals
from metricldp.reports.arrow import batches

SURVEY = MIXED["integers"]
KEEP = [("a", "b"), ("b", "c")]
TABLE = reports(SURVEY, 300, 1)
WHOLE = SURVEY.tally(TABLE, keep=KEEP).store


def counted(keep=KEEP):
    connection = duckdb.connect()
    connection.register("lake", TABLE)
    return connection.sql(SURVEY.sql(keep, "lake")).to_arrow_table()


def test_the_text_is_readable():
    text = SURVEY.sql({"a": (1, 3), "b": "x"}, "lake.reports")
    assert text == (
        f"-- reports to survey {SURVEY.fingerprint[:16]}, counted by a x b\n"
        'SELECT\n  "a",\n  "b",\n  COUNT(*) AS reports\nFROM lake.reports\nGROUP BY "a", "b"\n'
    )
    assert "`c=answered`" in SURVEY.sql(KEEP, "lake", quote="`")
    assert SURVEY.sql(KEEP).count("UNION ALL") == 1


@pytest.mark.parametrize("form", ["table", "mappings", "tuples"])
def test_rows_make_the_same_totals(form):
    rows = counted()
    given = {
        "table": rows,
        "mappings": iter(rows.to_pylist()),
        "tuples": [tuple(row.values()) for row in rows.to_pylist()],
    }[form]
    assert Totals.from_rows(SURVEY, KEEP, given) == WHOLE


def test_another_data_base():
    connection = sqlite3.connect(":memory:")
    names = TABLE.column_names
    kinds = ", ".join(f'"{name}" INTEGER' for name in names)
    connection.execute(f"CREATE TABLE lake ({kinds})")
    for batch in batches(TABLE):
        values = zip(*(batch[name].tolist() for name in names), strict=True)
        connection.executemany(f"INSERT INTO lake VALUES ({', '.join('?' * len(names))})", values)
    for keep in (KEEP, KEEP[:1]):
        rows = connection.execute(SURVEY.sql(keep, "lake")).fetchall()
        assert Totals.from_rows(SURVEY, keep, rows) == SURVEY.tally(TABLE, keep=keep).store


def changed(number, **values):
    rows = counted().to_pylist()
    rows[number].update(values)
    return rows


FIRST = next(i for i, row in enumerate(counted().to_pylist()) if row["kept"] == "a x b")


@pytest.mark.parametrize(
    ("rows", "reason", "told"),
    [
        (counted().to_pylist()[1:], "sums", "count the same reports"),
        (changed(0, reports=-1), "sums", "row 1 counts -1"),
        (changed(0, reports=1 << 60), "sums", "row 1 counts"),
        (changed(0, reports=2.5), "kind", "no whole number"),
        (changed(0, reports=True), "kind", "no whole number"),
        (changed(0, reports=None), "missing", "reports in row 1 is missing"),
        (changed(FIRST, a=99), "range", "a = 99"),
        (changed(FIRST, a=-1), "range", "a = -1"),
        (changed(FIRST, a=None), "missing", "a in row"),
        (changed(FIRST, c=1), "columns", "has c, too"),
        (changed(0, kept="b x a"), "keep", "'b x a'"),
        (changed(0, x=1), "columns", "has not the columns"),
        ([*counted().to_pylist(), counted().to_pylist()[0]], "twice", "again"),
        ([(1, 2)], "columns", "has not the columns"),
        ([3], "kind", "no mapping and no tuple"),
        ("rows", "kind", "rows are a table"),
        (4, "kind", "rows are a table"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows, reason, told):
    with pytest.raises(ReportRefused, match=told) as refused:
        Totals.from_rows(SURVEY, KEEP, rows)
    assert refused.value.reason == reason


def test_tables_of_different_reports_are_refused():
    """As many reports in both, but others: their common margin differs."""
    rows = counted().to_pylist()
    one, two = [r for r in rows if r["kept"] == "a x b" and r["b"] != rows[0]["b"]][:2]
    one["reports"] += 1
    other = next(
        r for r in rows if r["kept"] == "a x b" and r["b"] != one["b"] and r["reports"] > 0
    )
    other["reports"] -= 1
    assert two
    with pytest.raises(ReportRefused, match="is no sum") as refused:
        Totals.from_rows(SURVEY, KEEP, rows)
    assert refused.value.reason == "sums"


def test_what_is_no_group_by():
    for survey, names in ((MIXED["bits"], ["a"]), (MIXED["all kinds"], ["c"])):
        with pytest.raises(QueryError, match="no GROUP BY"):
            survey.sql([names], "lake")
        with pytest.raises(QueryError, match="no GROUP BY"):
            Totals.from_rows(survey, [names], [])
    with pytest.raises(QueryError, match="source is a table"):
        SURVEY.sql(KEEP, " ")
    with pytest.raises(QueryError, match="quote is the mark"):
        SURVEY.sql(KEEP, "lake", quote="")


def test_no_rows_are_no_reports():
    totals = Totals.from_rows(SURVEY, KEEP, [])
    assert totals.n == 0
    assert totals == SURVEY.tally([], keep=KEEP).store
    assert Totals.from_rows(SURVEY, KEEP, pa.table(counted().slice(0, 0))) == totals
