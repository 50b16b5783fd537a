"""Tables of reports: columns and marks as docs/specification.md has them, and what is refused."""

import hashlib
import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_columns import with_a_broken_name

from metricldp import Categorical, Integer, InvalidReportError, Randomness, Survey, Weight
from metricldp.reports import arrow, parquet

SURVEY = Survey.design(
    {
        "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
        "visits": Integer(0, 20, epsilon=1, mechanism="threshold", per=1),
        "region": Categorical(["north", "south"], epsilon=1),
        "weight": Weight(0, 10),
    }
)
N = 100
TABLE = SURVEY.randomize(
    {
        "age": np.arange(N),
        "visits": np.arange(N) % 21,
        "region": ["north", "south"] * 50,
        "weight": np.arange(N) / 10,
    },
    randomness=Randomness.seeded(1),
)
MARKS = {b"metricldp.version": b"1", b"metricldp.survey": SURVEY.fingerprint.encode()}


def refused(table, reason, told, **how):
    with pytest.raises(InvalidReportError) as caught:
        arrow.check_table(SURVEY, table, **how)
    assert (caught.value.reason, str(caught.value)) == (reason, told)


def wrong_type(name, found, expected):
    return (
        f"column {name!r} holds {found}, and reports of this survey hold {expected}; are these raw "
        "values? randomize them first, survey.randomize(...)"
    )


def with_column(name, values):
    at = TABLE.schema.get_field_index(name)
    return TABLE.set_column(at, TABLE.schema.field(at).name, pa.array(values))


# Columns and marks


def test_columns_and_marks_are_those_of_the_formats():
    assert TABLE.schema.metadata == MARKS
    types = {"age": pa.uint8(), "visits": pa.binary(3), "region": pa.uint8()}
    types["weight"] = pa.float64()
    fields = [pa.field(f"{name}=report", kind, nullable=False) for name, kind in types.items()]
    assert TABLE.schema.equals(pa.schema(fields))
    assert arrow.schema(SURVEY).equals(TABLE.schema, check_metadata=True)


def test_marks_that_do_not_fit():
    other = "ab" * 32
    for marks, reason, told in (
        ({}, "unmarked", "these reports have no survey fingerprint, which other programs drop"),
        ({b"metricldp.version": b"1"}, "unmarked", "these reports have no survey fingerprint"),
        ({b"metricldp.survey": other}, "unmarked", "these reports have no survey fingerprint"),
        ({**MARKS, b"metricldp.version": b"2"}, "version", "these reports have version 2, this is"),
        (
            {**MARKS, b"metricldp.survey": other},
            "survey",
            f"these reports belong to another survey ({other[:32]}, this is "
            f"{SURVEY.fingerprint[:32]}); use the survey file",
        ),
    ):
        table = TABLE.replace_schema_metadata(marks)
        with pytest.raises(InvalidReportError) as caught:
            arrow.check_table(SURVEY, table)
        assert caught.value.reason == reason
        assert str(caught.value).startswith(told)
        if marks:  # marks of another survey are rejected with any fingerprint
            with pytest.raises(InvalidReportError):
                arrow.check_table(SURVEY, table, unmarked=True)
        with pytest.raises(InvalidReportError, match=r"^the reports in a file"):
            arrow.check_marks(SURVEY, table.schema, "the reports in a file")
    found = arrow.check_table(SURVEY, TABLE.replace_schema_metadata(None), unmarked=True)
    assert found.equals(TABLE, check_metadata=True)


# Rows


def test_tables_that_no_device_could_have_sent():
    ages = TABLE["age=report"].to_pylist()
    refused([1], "kind", "reports are a pyarrow.Table, not list")
    refused(
        TABLE.drop_columns("age=report"), "columns", "these reports have no column 'age=report'"
    )
    twice = TABLE.append_column("age=report", TABLE["age=report"])
    refused(twice, "columns", "these reports have 2 columns 'age=report'")
    more = TABLE.append_column("name", TABLE["age=report"])
    refused(
        more,
        "columns",
        f"column {more.num_columns} of these reports is not one of the survey's; leave it out",
    )
    broken = with_a_broken_name(TABLE.append_column("names", TABLE["age=report"]))
    refused(broken, "columns", "these reports have a column whose name is not text")
    loose = with_column("age=report", pa.array(ages, pa.int64()))
    refused(loose, "columns", wrong_type("age=report", "int64", "uint8"))
    gaps = with_column("age=report", pa.array([None, *ages[1:-1], None], pa.uint8()))
    refused(gaps, "missing", "column age=report has 2 empty rows")
    gap = with_column("age=report", pa.array([None, *ages[1:]], pa.uint8()))
    refused(gap, "missing", "column age=report has 1 empty row")


def test_a_row_that_no_device_could_have_sent_is_named(monkeypatch):
    monkeypatch.setattr(arrow, "BATCH", 16)
    for row in (0, 15, 16, 60, N - 1):
        ages = TABLE["age=report"].to_numpy().copy()
        ages[row] = 100
        ages[row + 1 : row + 2] = 101
        wrong = with_column("age=report", ages)
        for table in (wrong, pa.concat_tables([wrong.slice(0, 7), wrong.slice(7)])):
            told = (
                "has a value in column 'age=report' that no report of this survey can have "
                "(whole numbers from 0 to 99); are these raw values? randomize them first, "
                "survey.randomize(...)"
            )
            refused(table, "range", f"report {row + 1} {told}")
            refused(table, "range", f"report {row + 6} {told}", before=5)


def test_unmarked_tables_may_have_other_types_and_nothing_else():
    ages = TABLE["age=report"].to_pylist()
    wide = with_column("age=report", pa.array(ages, pa.int64())).replace_schema_metadata(None)
    assert arrow.check_table(SURVEY, wide, unmarked=True).equals(TABLE)
    for name, values, told in (
        ("age=report", pa.array(ages, pa.float64()), "columns"),
        ("age=report", pa.array([-1] * N), "range"),
        ("weight=report", pa.array([1] * N), "columns"),
        ("visits=report", pa.array([b"ab"] * N), "columns"),
    ):
        table = with_column(name, values).replace_schema_metadata(None)
        with pytest.raises(InvalidReportError) as caught:
            arrow.check_table(SURVEY, table, unmarked=True)
        assert caught.value.reason == told
        refused(
            table.replace_schema_metadata(MARKS),
            "columns",
            wrong_type(name, values.type, TABLE.schema.field(name).type),
        )


def test_rows_are_read_in_batches_without_those_that_are_empty(monkeypatch):
    monkeypatch.setattr(arrow, "BATCH", 16)
    chunked = pa.concat_tables([TABLE.slice(0, 20), TABLE.slice(20, 0), TABLE.slice(20)])
    found = list(arrow.batches(chunked))
    assert [len(batch["age"]) for batch in found] == [16, 4, 16, 16, 16, 16, 16]
    assert list(found[0]) == list(SURVEY.attributes)
    for name in ("age", "weight"):
        joined = np.concatenate([batch[name] for batch in found])
        assert joined.tolist() == TABLE[f"{name}=report"].to_pylist()
    bits = np.concatenate([batch["visits"] for batch in found])
    assert bits.shape == (N, 3)
    assert [row.tobytes() for row in bits] == TABLE["visits=report"].to_pylist()


def test_rows_in_groups_of_one_length():
    for cuts in ([0, 100], [0, 1, 3, 50, 100], [0, 32, 64, 96, 100], [0, 0, 64, 64, 100]):
        parts = [TABLE.slice(a, b - a) for a, b in pairwise(cuts)]
        found = list(arrow.regrouped(iter(parts), 32))
        assert [part.num_rows for part in found] == [32, 32, 32, 4]
        assert pa.concat_tables(found).equals(TABLE)
    assert [part.num_rows for part in arrow.regrouped([TABLE], 50)] == [50, 50]
    assert list(arrow.regrouped([], 50)) == []
    assert list(arrow.regrouped([TABLE.slice(0, 0)], 50)) == []


# Files


def written(here, name="a.parquet", tables=(TABLE,), **how):
    path = here / name
    assert parquet.write(SURVEY, path, iter(tables), **how) == sum(t.num_rows for t in tables)
    return path


def test_a_file_is_as_the_formats_have_it(tmp_path):
    """The digest by hand, from the words of docs/specification.md."""
    assert parquet.ROW_GROUP == 1 << 18
    path = written(tmp_path, tables=[TABLE.slice(0, 7), TABLE.slice(7)])
    marks = pq.ParquetFile(path).metadata.metadata
    number = marks[b"metricldp.collections"].decode()
    assert len(bytes.fromhex(number)) == 16
    kinds = {"age": "u1", "visits": "", "region": "u1", "weight": "<f8"}
    columns = []
    for name, kind in kinds.items():
        values = TABLE[f"{name}=report"].to_pylist()
        rows = [v if isinstance(v, bytes) else np.array(v, kind).tobytes() for v in values]
        columns.append(hashlib.sha256(b"".join(rows)).hexdigest())
    data = {"collections": [number], "columns": columns, "n": N, "survey": SURVEY.fingerprint}
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    assert marks[b"metricldp.digest"].decode() == hashlib.sha256(text.encode()).hexdigest()
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    footer, seal = raw[-8 - size : -8], raw[-8 - size - 48 : -8 - size]
    assert seal == b"metricldp-footer" + hashlib.sha256(footer).digest()


def test_a_file_tells_nothing_but_reports(tmp_path, monkeypatch):
    """Groups of one length, no statistics, no compression, checksums of pages."""
    monkeypatch.setattr(parquet, "ROW_GROUP", 32)
    path = written(tmp_path, tables=[TABLE.slice(0, 7), TABLE.slice(7)])
    meta = pq.ParquetFile(path).metadata
    groups = [meta.row_group(k) for k in range(meta.num_row_groups)]
    assert [group.num_rows for group in groups] == [32, 32, 32, 4]
    for group in groups:
        for k, small in enumerate((True, False, True, False)):
            column = group.column(k)
            assert not column.is_stats_set
            assert column.compression == "UNCOMPRESSED"
            assert column.has_dictionary_page is small  # codes of few values, and not of bits
    bits = Survey.design({"visits": SURVEY.attributes["visits"]})
    parquet.write(bits, tmp_path / "bits.parquet", [bits.randomize({"visits": [1, 2]})])
    column = pq.ParquetFile(tmp_path / "bits.parquet").metadata.row_group(0).column(0)
    assert column.has_dictionary_page is False


def test_every_byte_of_a_page_is_checked(tmp_path):
    """A page with another checksum is no whole file, even where the digest would not be read."""
    path = written(tmp_path)
    raw = bytearray(path.read_bytes())
    at = raw.index(TABLE["weight=report"].combine_chunks().buffers()[1].to_pybytes())
    raw[at + 3] ^= 1
    path.write_bytes(raw)
    with pytest.raises(InvalidReportError, match="CRC checksum verification failed") as caught:
        SURVEY.tally(path, fingerprint=SURVEY.fingerprint)
    assert caught.value.reason == "file"


def numbers_of(path, **how):
    """The collections of a file before and after it is read, and its content."""
    with parquet.opened(SURVEY, path, **{"unmarked": False, **how}) as file:
        first = file.collections
        rows = sum(table.num_rows for table in file.tables(0))
        return first, file.collections, file.content, rows


def rewritten(path, name, **marks):
    """As another program would write it: other metadata, no seal."""
    table = pq.ParquetFile(path).read()
    found = {**table.schema.metadata, **pq.ParquetFile(path).metadata.metadata}
    found.pop(b"ARROW:schema", None)
    found = {key: value for key, value in found.items() if marks.get(key.decode()) != ""}
    found |= {key.encode(): value for key, value in marks.items() if value}
    pq.write_table(table.replace_schema_metadata(found), path.parent / name)
    return path.parent / name


def test_collections_of_a_file_are_those_that_its_digest_covers(tmp_path):
    own = {"ab" * 16, "cd" * 16}
    path = written(tmp_path, counted=own)
    first, last, content, rows = numbers_of(path)
    assert (first, last, rows) == (own, own, N)
    assert len(bytes.fromhex(content)) == 32
    # Collection numbers of an unmarked file count once its digest is right.
    assert numbers_of(path, unmarked=True) == (set(), own, content, N)
    loose = rewritten(path, "b.parquet")
    assert numbers_of(loose) == (own, own, content, N)
    wrong = rewritten(path, "c.parquet", **{"metricldp.digest": "0" * 64})
    assert numbers_of(wrong, unmarked=True) == (set(), set(), content, N)
    bare = {"metricldp.digest": "", "metricldp.collections": ""}
    assert numbers_of(rewritten(path, "d.parquet", **bare)) == (set(), set(), content, N)
    for marks in (
        {"metricldp.digest": "0" * 64},
        {"metricldp.digest": ""},
        {"metricldp.collections": ""},
        {"metricldp.collections": "ab" * 15},
        {"metricldp.collections": "ef" * 16},
        {"metricldp.collections": " ".join(sorted(own)) + " "},
    ):
        with pytest.raises(InvalidReportError, match="is damaged, or another program") as caught:
            numbers_of(rewritten(path, "e.parquet", **marks))
        assert caught.value.reason == "checksum"


def test_a_digest_without_collections_is_half_of_the_marks(tmp_path):
    """Even where it is the right one of no collections."""
    content = numbers_of(path := written(tmp_path))[2]
    half = {"metricldp.collections": "", "metricldp.digest": content}
    with pytest.raises(InvalidReportError, match="is damaged, or another program"):
        numbers_of(rewritten(path, "half.parquet", **half))


def test_a_file_of_another_survey_is_refused_even_if_nobody_is_in_it(tmp_path):
    other = Survey.design({"age": Integer(0, 9, epsilon=1, per=1)})
    parquet.write(other, tmp_path / "other.parquet", [])
    told = f"the reports in {tmp_path / 'other.parquet'} belong to another survey"
    with pytest.raises(InvalidReportError) as caught:
        SURVEY.tally(tmp_path / "other.parquet")
    assert str(caught.value).startswith(told)


def test_rows_of_a_file_are_counted_over_its_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 16)
    ages = TABLE["age=report"].to_numpy().copy()
    ages[60] = 100
    pq.write_table(with_column("age=report", ages), tmp_path / "a.parquet")
    with pytest.raises(InvalidReportError, match=r"^report 61 has a value"):
        SURVEY.tally(tmp_path / "a.parquet")


def test_a_copy_is_known_by_128_bits_of_reports(tmp_path):
    """One report of this survey has 92: two of them are enough, and one is not."""
    assert SURVEY.report_bits == 92
    path = written(tmp_path, tables=[TABLE.slice(0, 1)])
    assert numbers_of(path)[2] is None
    assert numbers_of(written(tmp_path, "b.parquet", [TABLE.slice(0, 2)]))[2] is not None
    exact = Survey.design({"a": Integer(0, 128, epsilon=1, mechanism="threshold", per=1)})
    assert exact.report_bits == 128
    digest = parquet.Digest(exact)
    assert digest.content is None
    digest.update(exact.randomize({"a": [1]}))
    assert digest.content is not None


def test_a_seal_is_checked_where_there_is_one(tmp_path):
    path = written(tmp_path)
    raw = path.read_bytes()
    at = raw.rindex(b"metricldp-footer") + 20
    path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    with pytest.raises(InvalidReportError, match="is damaged, or another program"):
        SURVEY.tally(path)
    assert SURVEY.tally(path, fingerprint=SURVEY.fingerprint).n == N
    tiny = Survey.design({"a": Integer(0, 1, epsilon=1, per=1)})
    pq.write_table(tiny.randomize({"a": [1]}), tmp_path / "tiny.parquet", store_schema=False)
    loose = tiny.tally(tmp_path / "tiny.parquet", fingerprint=tiny.fingerprint)
    assert loose.n == 1


def test_files_that_are_none(tmp_path):
    (tmp_path / "people.csv").write_text("age\n3\n")
    (tmp_path / "text.parquet").write_text("hello")
    for name, told in (
        ("none.parquet", "there is no reports file "),
        ("people.csv", "is not a Parquet file; randomize values into Parquet reports first"),
        ("text.parquet", "is not a whole Parquet file; copy it or write it as Parquet again"),
    ):
        with pytest.raises(InvalidReportError) as caught:
            SURVEY.tally(tmp_path / name)
        assert caught.value.reason == "file"
        assert told in str(caught.value)


def test_reports_without_a_number_get_one_and_others_keep_theirs():
    assert parquet.numbered(["", "ab"], "own") == {"own", "ab"}
    assert parquet.numbered([], "own") == set()
    numbers = {parquet.new_collection() for _ in range(100)}
    assert len(numbers) == 100
    assert {len(number) for number in numbers} == {32}
