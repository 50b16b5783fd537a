"""People in: columns of tables to positions, or a refusal that says where.

A column is cleaned here (text to numbers, dictionaries, missing values); what is wrong with a value
its attribute says. Rows count from 1 in messages, the header of a file not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute, Positions
from metricldp.basics.errors import ValueRefused
from metricldp.basics.optional import optional
from metricldp.basics.text import guess, listed
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    nw, pa, pc = optional("narwhals"), optional("pyarrow"), optional("pyarrow.compute")


def checked(survey: Agreement, people: Any, *, clip: bool) -> dict[str, Positions]:
    """The position of every value of a table of people, or a refusal."""
    found = {
        name: positions_of(attribute, _column(people, name), name, clip=clip)
        for name, attribute in survey.attributes.items()
    }
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise ValueRefused(f"columns differ in length: {lengths}")
    return found


def positions_of(
    attribute: Attribute, values: pa.Array, name: str, *, clip: bool = False
) -> Positions:
    """The positions of one column."""
    if attribute.named:
        return attribute.positions(_codes(attribute, values, name, clip), name)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        _one(attribute, values, _first(values.is_null()), name, clip)
    numbers = _numbers(attribute, values, name)
    if numbers is None:
        found = [_one(attribute, values, row, name, clip) for row in range(len(values))]
        return np.array(found, dtype=np.uint64).view(np.int64)
    try:
        return attribute.positions(numbers, name, clip=clip)
    except ValueRefused as wrong:
        _one(attribute, values, wrong.row or 0, name, clip)  # shows the value as it was written
        raise


def _one(attribute: Attribute, values: pa.Array, row: int, name: str, clip: bool) -> int:
    """The position of one value, or a refusal that names its row."""
    try:
        return attribute.position(values[row].as_py(), name, clip=clip)
    except ValueRefused as wrong:
        raise wrong.at(row) from None


def _numbers(attribute: Attribute, values: pa.Array, name: str) -> npt.NDArray[Any] | None:
    """A column as integers or floats; None where only a look at each value can tell."""
    kind, types = values.type, pa.types
    if types.is_floating(kind):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if _is_text(kind):
        values = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
        # Arrow reads 0x1f as a whole number but not as a real one; here it is no number at all.
        if pc.any(pc.match_substring(values, "x", ignore_case=True)).as_py():
            return None
    elif types.is_boolean(kind) and len(values):
        attribute.position(values[0].as_py(), name)
    elif not (types.is_integer(kind) or types.is_decimal(kind) or not len(values)):
        raise ValueRefused(f"holds {kind} values where numbers are needed", attribute=name)
    for target in (pa.int64(), pa.float64()):
        try:
            return np.asarray(values.cast(target).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            continue
    return None


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _codes(attribute: Attribute, values: pa.Array, name: str, clip: bool) -> npt.NDArray[Any]:
    """A column of names as the position of each."""
    names = [attribute.name_of(position) for position in range(attribute.size)]
    known = pa.array(names, pa.string())
    if pa.types.is_dictionary(values.type):
        if _is_text(values.type.value_type):
            # A look-up per entry of the dictionary; an unknown one that nobody has is no matter.
            entries = pc.index_in(values.dictionary.cast(pa.string()), value_set=known)
            codes = entries.take(values.indices)
            if not codes.null_count:
                return np.asarray(codes.to_numpy())
        values = values.dictionary_decode()
    try:
        texts = values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        why = f"holds {values.type} values where names are needed"
        raise ValueRefused(why, attribute=name) from None
    codes = pc.index_in(texts, value_set=known)
    if codes.null_count:
        _one(attribute, texts, _first(codes.is_null()), name, clip)
    return np.asarray(codes.to_numpy())


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _column(people: Any, name: str) -> pa.Array:
    """One column of pandas, polars, Arrow or a dict of arrays, as an Arrow array."""
    if isinstance(people, pa.RecordBatch):
        people = pa.Table.from_batches([people])
    if not isinstance(people, Mapping):
        try:
            people = nw.from_native(people, eager_only=True)
        except TypeError:
            raise ValueRefused(
                f"people must be a pandas, polars or Arrow table or a dict of arrays, "
                f"not {type(people).__name__}"
            ) from None
        except nw.exceptions.DuplicateError:
            raise ValueRefused("people have two columns of one name; rename one") from None
    try:
        names = list(people) if isinstance(people, Mapping) else people.columns
        if name not in names:
            there = f"{listed(names)}{guess(name, names)}"
            raise ValueRefused(f"people have no column {name!r}; they have {there}")
        if isinstance(people, Mapping):
            found = pa.array(people[name], from_pandas=True)
        else:
            found = people.get_column(name).to_arrow()
    except (pa.ArrowException, OverflowError, TypeError) as wrong:
        why = " ".join(str(wrong).split())
        raise ValueRefused(f"{name} is not a column of one kind of values: {why}") from None
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
