"""Files of reports that were damaged, or made by another program."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fuzzing import Wrong, tried
from report_bytes import well_formed

from metricldp import Categorical, Integer, Survey, Weight
from metricldp.reports.arrow import check_table
from metricldp.reports.bytes import pack
from metricldp.reports.files import encode_file

AT_ONCE = 50


@cache
def whole(number):
    """A survey, a good file of its reports, and the reports."""
    surveys = [
        {"x": Integer(0, 99, epsilon=1, per=5), "c": Categorical(list("abc"), epsilon=1)},
        {"x": Integer(0, 20, epsilon=1, mechanism="threshold", per=1), "w": Weight(0, 1)},
        {"x": Integer(0, 6, epsilon=1, mechanism="matrix", per=1)},
        {"x": Integer(0, 6, epsilon=1, optional=True, per=1)},
    ]
    survey = Survey.design(surveys[number])
    random = np.random.default_rng(number)
    with tempfile.TemporaryDirectory() as folder:
        people, out = Path(folder, "people.parquet"), Path(folder, "reports.parquet")
        columns = {
            name: np.array([a.values_at(p)[0] for p in range(a.size)])[
                random.integers(a.size, size=300)
            ]
            for name, a in survey.asked.items()
        }
        pq.write_table(pa.table(columns), people)
        encode_file(survey, people, out)
        raw = out.read_bytes()
        return survey, raw, sorted(pack(survey, check_table(survey, pq.read_table(out))))


def damaged(random, raw):
    """Other bytes."""
    raw = bytearray(raw)
    for _ in range(random.choice([1, 1, 2, 5])):
        at = (
            random.randrange(len(raw))
            if random.random() < 0.6
            else -1 - random.randrange(min(len(raw), 1500))
        )
        how = random.randrange(7)
        if how < 2:
            raw[at] ^= 1 << random.randrange(8)
        elif how == 2:
            raw[at] = random.randrange(256)
        elif how == 3:
            del raw[at : at + random.randrange(1, 40)]
        elif how == 4:
            raw[at:at] = random.randbytes(random.randrange(1, 20))
        elif how == 5:
            del raw[random.randrange(len(raw)) :]
        else:
            raw[at : at + 4] = random.choice(
                [b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\xff" * 4, b"PAR1"]
            )
        if not raw:
            return b""
    return bytes(raw)


def rewritten(random, raw):
    """Another table, with the marks of the first."""
    table = pq.read_table(io.BytesIO(raw))
    for _ in range(random.choice([1, 1, 2])):
        how, at = random.randrange(12), random.randrange(max(1, table.num_columns))
        if not table.num_columns:
            break
        field, column = table.schema.field(at), table.column(at)
        if how == 0:
            table = table.remove_column(at)
        elif how == 1:
            table = table.append_column(random.choice(["x", "y", "", field.name]), column)
        elif how == 2:
            kinds = [pa.int8(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.bool_()]
            kinds += [pa.float16(), pa.decimal128(20, 3), pa.timestamp("us"), pa.uint64()]
            try:
                other = column.cast(random.choice(kinds), safe=False)
            except (pa.ArrowException, NotImplementedError):
                continue
            table = table.set_column(at, field.name, other)
        elif how == 3:
            keep = pa.array([random.random() < 0.9 for _ in range(table.num_rows)])
            nothing = pa.nulls(table.num_rows, column.type)
            table = table.set_column(at, field.name, pc.if_else(keep, column, nothing))
        elif how == 4:
            table = table.slice(random.randrange(table.num_rows + 1))
        elif how == 5:
            marks = dict(table.schema.metadata or {})
            if marks:
                key = random.choice(sorted(marks))
                marks[key] = random.choice([b"", b"0", b"\xff", marks[key][:-1], marks[key] + b"0"])
            table = table.replace_schema_metadata(marks)
        elif how == 6:
            table = table.replace_schema_metadata(None)
        elif how == 7:
            places = list(range(table.num_columns))
            random.shuffle(places)
            table = table.select(places)
        elif how == 8:
            table = pa.concat_tables([table, table])
        elif how == 9:
            table = table.set_column(at, field.name, _noise(random, column))
        elif how == 10:
            table = table.rename_columns(
                [*table.column_names[:at], "z", *table.column_names[at + 1 :]]
            )
        else:
            lists = pa.array([[1]] * table.num_rows)
            table = table.set_column(at, field.name, lists)
    out = io.BytesIO()
    more = random.choice(
        [{}, {"compression": "none"}, {"row_group_size": 7}, {"use_dictionary": False}]
    )
    pq.write_table(table, out, **more)
    return out.getvalue()


def _noise(random, column):
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([random.randbytes(kind.byte_width) for _ in range(len(column))], kind)
    if pa.types.is_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return pa.array([random.randrange(most) for _ in range(len(column))], kind)
    if pa.types.is_floating(kind):
        return pa.array([random.uniform(-2, 2) for _ in range(len(column))], kind)
    return column


def block(random, where):
    wrong = []
    for k in range(AT_ONCE):
        number = random.randrange(4)
        raw = whole(number)[1]
        same = random.random() < 0.6
        case = (damaged if same else rewritten)(random, raw)
        failure = tried(
            "parquet",
            f"{where} case {k}",
            (number, case, same),
            lambda number=number, case=case, same=same: one(number, case, same),
        )
        wrong += [failure] if failure else []
    return AT_ONCE, wrong


def one(number, case, same=False):
    """Refused, or reports that a device could send; the `same` if it was damaged, not rewritten."""
    survey, _, sent = whole(number)
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(case)
        file.flush()
        tally = survey.tally(file.name)
        tally.count({"x": (1, None)})
        taken = pack(survey, tally.store.table)
        if same and sorted(taken) != sent:
            raise Wrong("other reports are taken than were written")
        for blob in taken:
            if not well_formed(survey, blob):
                raise Wrong(f"no device could send {blob.hex()}, but it is accepted")
