"""Reports: what leaves the device, as Arrow tables, Parquet files and fixed-size byte strings.

Bytes of one report: the format version (1), the first 8 bytes of the survey's fingerprint, then the
fields of all attributes in order, bit after bit, lowest bit first, and zeros up to a whole byte.
Decoding is strict: whatever no device of this survey could have sent is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy.typing as npt
import pyarrow as pa

from metricldp.attributes.base import Attribute
from metricldp.attributes.weight import Weight
from metricldp.basics.errors import ValueRefused
from metricldp.basics.text import guess, listed
from metricldp.survey.agreement import Agreement


def checked(survey: Agreement, people: Any, *, clip: bool) -> dict[str, npt.NDArray[Any]]:
    """The position of every value of a table of people, or a refusal."""
    found = {
        name: _checked(attribute, _column(people, name), name, clip)
        for name, attribute in survey.attributes.items()
    }
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise ValueRefused(f"columns differ in length: {lengths}")
    return found


def _checked(attribute: Attribute, values: pa.Array, name: str, clip: bool) -> npt.NDArray[Any]:
    if isinstance(attribute, Weight) and attribute.is_public:
        return attribute.checked(values, name, clip=clip)
    return attribute.positions(values, name, clip=clip)


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
