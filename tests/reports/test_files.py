"""Files of people: what is read of them, how far one is, and which row was wrong."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metricldp import Categorical, Integer, InvalidValueError, Randomness, Survey
from metricldp.reports import arrow, files, parquet

SURVEY = Survey.design(
    {
        "age": Integer(0, 99, epsilon=1, per=5),
        "region": Categorical(["north", "south", "NA"], epsilon=2),
    }
)
NAMES = list(SURVEY.attributes)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "_BLOCK", 1 << 10)
    monkeypatch.setattr(arrow, "BATCH", 16)
    return tmp_path


def csv(here, *rows, head="age,region", end="\n", name="people.csv"):
    text = "".join(f"{row}{end}" for row in (head, *rows))
    (here / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return here / name


def read(path, names=NAMES):
    """All tables of a file, and what was said of progress."""
    said = []
    return list(files.read_people(path, names, said.append)), said


def refusal(path, names=NAMES):
    with pytest.raises(InvalidValueError) as told:
        read(path, names)
    assert "\n" not in str(told.value)
    return str(told.value)


# Reading


def test_a_csv_file_is_read_block_by_block(here):
    path = csv(here, *(f"{k % 100},south,more" for k in range(5000)), head="age,region,notes")
    tables, said = read(path)
    assert len(tables) > 50
    whole = pa.concat_tables(tables)
    assert whole.schema == pa.schema({"age": pa.string(), "region": pa.string()})
    assert whole["age"].to_pylist() == [str(k % 100) for k in range(5000)]
    assert said == sorted(said)
    assert len(said) == len(tables)
    assert 0 < said[0] <= 1
    assert said[-1] == 1


def test_a_parquet_file_is_read_batch_by_batch(here):
    people = {"age": range(200), "region": ["north"] * 200, "notes": [""] * 200}
    pq.write_table(pa.table(people), "people.PARQUET")
    tables, said = read(here / "people.PARQUET")
    assert [table.num_rows for table in tables] == [64, 64, 64, 8]
    assert said == [0.32, 0.64, 0.96, 1]
    assert {tuple(table.column_names) for table in tables} == {("age", "region")}
    assert pa.concat_tables(tables)["age"].to_pylist() == list(range(200))


def test_every_cell_of_a_csv_file_is_text(here):
    """What an empty cell, NA or 1e3 means is for the attributes to say."""
    cells = ["007", "1e3", "", "NA", "null", "true", "2024-01-01"]
    (table,), _ = read(csv(here, *(f"{cell},north" for cell in cells)))
    assert table["age"].to_pylist() == cells
    assert table["age"].null_count == 0
    (table,), _ = read(csv(here, "30,NA"))
    assert SURVEY.randomize(table).num_rows == 1


def test_quoted_cells_may_hold_commas_and_lines(here):
    """Wherever a block ends: what is in quotes is one cell."""
    note = '"' + "a,b\n" * 90 + 'say ""yes"""'
    rows = [f"{k},{note},north" for k in range(40)]
    for end in ("\n", "\r\n"):
        tables, _ = read(csv(here, *rows, head='age,"my,\nnotes",region', end=end))
        whole = pa.concat_tables(tables)
        assert whole["age"].to_pylist() == [str(k) for k in range(40)]
        assert set(whole["region"].to_pylist()) == {"north"}


def test_what_some_programs_put_before_the_header(here):
    """A mark of the encoding, and empty lines."""
    path = csv(here, "30,north", head="\ufeffage,region")
    assert read(path)[0][0].num_rows == 1
    path = csv(here, "30,north", "", "40,south", head="\n\nage,region")
    assert sum(table.num_rows for table in read(path)[0]) == 2


# Files that are none


def test_a_row_of_another_length_is_named(here):
    fine = [f"{k % 100},north" for k in range(300)]
    told = refusal(csv(here, *fine, "1,north,more", "1", *fine))
    assert told.startswith(f"row 301 of {here / 'people.csv'} has 3 cells, the header 2; ")
    assert "row 1 of" in refusal(csv(here, "1", *fine))


def test_headers_that_do_not_fit(here):
    """A line that may be a person's own is not quoted."""
    for names, head, told in (
        (NAMES, "age,mayor", "has no column 'region'; it has 'age' and 1 other column"),
        (NAMES, "age,regoin", "'region'; did you mean 'regoin'?"),
        (NAMES, "Age,Region", "'age'; 'Age' differs only in its case"),
        (NAMES, "31,mayor", "'age'; there are 2 other columns, if the first line is a header"),
        (["age"], "mayor", "'age'; there is 1 other column, if the first line is a header"),
        (NAMES, "age;region", "'age'; separate columns by commas"),
        (NAMES, "age\tregion", "'age'; separate columns by commas"),
        (NAMES, "age|region", "'age'; separate columns by commas"),
        (NAMES, "a;b,region", "'age'; it has 'region' and 1 other column"),
        (NAMES, "age,region,age", "has more than one column 'age'; rename the others"),
    ):
        path = csv(here, ",".join(["1"] * len(head.split(","))), head=head)
        assert told in refusal(path, names)
        assert "mayor" not in refusal(path, names)
    assert len(read(csv(here, "1,north,2,3", head="age,region,x,x"))[0]) == 1


def test_files_that_are_no_csv(here):
    late = b"age,region\n" + b"1,north\n" * 9000 + b"1,n\xf6rth\n"
    endless = b'age,region\n1,"north\n' + b"2,south\n" * 900
    for data, told in (
        (b"", "is empty; the first line names the columns"),
        (b"\n\r\n\n", "is empty; the first line names the columns"),
        (b"\xff\xfea\x00g\x00e\x00", "is not a CSV file in UTF-8; save it as CSV in UTF-8"),
        (late, "is not in UTF-8; save it again as CSV in UTF-8"),
        (endless, "has a row that does not end; save it again"),
    ):
        (here / "people.csv").write_bytes(data)
        assert refusal(here / "people.csv").startswith(f"{here / 'people.csv'} {told}")


def test_files_that_are_no_files(here):
    os.mkfifo("pipe.csv")
    (here / "people.csv.GZ").write_bytes(b"\x1f\x8b")
    (here / "text.pq").write_text("hello")
    for name, told in (
        ("none.csv", "there is no file "),
        (".", "is a directory; name a .csv or .parquet file"),
        ("pipe.csv", "responses are not read from a pipe (pipe.csv); name"),
        ("-", "responses are not read from a pipe (-); name"),
        ("people.csv.GZ", "people.csv.GZ is compressed; unpack it"),
        ("text.pq", "text.pq cannot be read: "),
    ):
        assert told in refusal(type(here)(name))


def test_columns_of_parquet_that_do_not_fit(here):
    people = [pa.array([1]), pa.array(["north"]), pa.array([2])]
    pq.write_table(pa.Table.from_arrays(people, ["age", "place", "x"]), "a.parquet")
    assert "has no column 'region'; it has 'age' and 2 other columns" in refusal(here / "a.parquet")
    pq.write_table(pa.Table.from_arrays(people, ["age", "region", "age"]), "b.parquet")
    assert "has more than one column 'age'" in refusal(here / "b.parquet")


def test_every_column_of_a_file(here):
    path = csv(here, "30,north", "41,south")
    assert {name: c.to_pylist() for name, c in files.read_columns(path).items()} == {
        "age": ["30", "41"],
        "region": ["north", "south"],
    }
    pq.write_table(pa.table({"age": [30, 41]}), "people.parquet")
    found = files.read_columns(here / "people.parquet")
    assert {name: column.to_pylist() for name, column in found.items()} == {"age": [30, 41]}
    with pytest.raises(
        InvalidValueError, match=r"none\.csv has no responses; each row after the header"
    ):
        files.read_columns(csv(here, name="none.csv"))


# Rows are counted from the beginning of the file


def encoded(path, **how):
    return files.encode_file(SURVEY, path, "out.parquet", **how)


def positions(path, **how):
    return files.read_positions(SURVEY.attributes, path, **how)


@pytest.mark.parametrize("read_all", [encoded, positions])
def test_a_wrong_value_is_named_by_its_row(read_all, here, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 50)
    fine = [f"{k % 100},north" for k in range(300)]
    for before, row in ((fine, 301), (fine[:50], 51), ([], 1), (fine[:3], 4)):
        path = csv(here, *before, "150,north", *fine)
        with pytest.raises(
            InvalidValueError, match=rf"^age in row {row} is outside 0 to 99"
        ) as told:
            read_all(path)
        assert told.value.row == row - 1
        assert "150" not in str(told.value)
        read_all(path, clip=True)


@pytest.mark.parametrize("read_all", [encoded, positions])
def test_what_is_wrong_with_a_whole_column_has_no_row(read_all, here, monkeypatch):
    """Text that is none, in the second batch of a Parquet file."""
    monkeypatch.setattr(parquet, "ROW_GROUP", 64)
    raw = pa.array([b"north"] * 80 + [b"n\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 81, raw.buffers())
    pq.write_table(pa.table({"age": [1] * 81, "region": text}), "people.parquet")
    with pytest.raises(InvalidValueError, match=r"^region holds text that is not UTF-8") as told:
        read_all("people.parquet")
    assert told.value.row is None


def columns(path):
    return files.read_columns(path)


@pytest.mark.parametrize("read_all", [encoded, positions, columns])
@pytest.mark.parametrize("write", ["encode", "save"])
def test_reports_are_no_people(read_all, write, here):
    """However they were written, as long as they are marked."""
    reports = SURVEY.randomize({"age": [30, 41], "region": ["north", "south"]})
    if write == "save":
        SURVEY.tally(reports).save("reports.parquet")
    else:
        pq.write_table(reports, "reports.parquet")
    with pytest.raises(
        InvalidValueError, match=r"the rows of .*reports\.parquet are reports already; "
    ):
        read_all(here / "reports.parquet")
    assert not (here / "out.parquet").exists()


@pytest.mark.parametrize("read_all", [encoded, positions])
def test_people_at_hand_are_no_file(read_all, here):
    """Nor are they shown."""
    for people in ({"age": [30], "region": ["north"]}, pa.table({"age": [30]}), None):
        with pytest.raises(InvalidValueError, match=r"^responses are read from a \.csv or") as told:
            read_all(people)
        assert str(told.value).endswith(f"not a {type(people).__name__}; save them")
        assert "30" not in str(told.value)


@pytest.mark.parametrize("read_all", [encoded, positions])
def test_nobody_is_refused(read_all, here):
    with pytest.raises(InvalidValueError, match=r"people\.csv has no responses; each row after"):
        read_all(csv(here))
    pq.write_table(pa.table({"age": pa.array([], pa.int64()), "region": []}), "none.parquet")
    with pytest.raises(InvalidValueError, match=r"none\.parquet has no responses"):
        read_all("none.parquet")


def test_positions_of_a_file(here):
    path = csv(here, *(f"{k % 100},{('south', 'NA')[k % 2]}" for k in range(400)))
    said = []
    found = files.read_positions(SURVEY.attributes, str(path), progress=said.append)
    assert found["age"].tolist() == [k % 100 for k in range(400)]
    assert found["region"].tolist() == [1, 2] * 200
    assert (len(said) > 2, said[-1]) == (True, 1)


# Encoding


def test_one_person_is_enough(here):
    assert encoded(csv(here, "30,north")) == 1


def test_a_file_is_encoded_with_the_coins_that_are_given(here):
    path = csv(here, *["30,north"] * 100)
    found, said = [], []
    for seed in (1, 1, 2):
        how = {"randomness": Randomness.seeded(seed), "shuffle": False, "progress": said.append}
        assert encoded(path, **how) == 100
        found.append(SURVEY.tally("out.parquet").store.table)
    assert found[0].equals(found[1])
    assert not found[0].equals(found[2])
    assert found[0].equals(
        SURVEY.randomize(
            {"age": [30] * 100, "region": ["north"] * 100}, randomness=Randomness.seeded(1)
        )
    )
    assert said[-1] == 1


def test_a_file_is_shuffled_unless_told(here):
    """In the order of the people a column at a huge epsilon would come back as it was."""
    clear = Survey.design({"age": Integer(0, 99, epsilon=60, per=1)})
    path = csv(here, *(f"{k}" for k in range(100)), head="age")
    for how, kept in (({}, False), ({"shuffle": False}, True)):
        files.encode_file(clear, path, "out.parquet", **how)
        ages = clear.tally("out.parquet").store.table["age=report"].to_numpy()
        assert sorted(ages) == list(range(100))
        assert (list(ages) == list(range(100))) is kept


def test_the_people_are_not_written_over(here):
    path = csv(here, "30,north", name="people.parquet")
    (here / "link.parquet").symlink_to(path)
    for output in (path, "link.parquet"):
        with pytest.raises(InvalidValueError, match="would replace"):
            files.encode_file(SURVEY, path, output)
    assert path.read_text().startswith("age,region")


def test_merged_files_keep_what_they_are_of(here):
    table = SURVEY.randomize({"age": np.arange(60), "region": ["north"] * 60})
    for k, name in enumerate(("a.parquet", "b.parquet")):
        parquet.write(SURVEY, name, [table.slice(30 * k, 30)])
    SURVEY.tally(["a.parquet", "b.parquet"]).save("both.parquet")
    assert SURVEY.tally("both.parquet").n == 60
    one, other, both = (
        parquet.numbered(SURVEY.tally(f"{name}.parquet").store.counted, "")
        for name in ("a", "b", "both")
    )
    assert (len(both), both) == (2, one | other)
