"""People in: columns of tables to positions, or a refusal that says where.

A column is cleaned here (text to numbers, dictionaries, missing values); what is wrong with a value
its attribute says. Rows count from 1 in messages, the header of a file not counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from metricldp.attributes.base import Attribute, Positions
from metricldp.basics.errors import InvalidValueError, MetricLdpError, at_row
from metricldp.basics.optional import lazy
from metricldp.basics.text import counted, guess, listed, same_but_spelling, type_name
from metricldp.reports.arrow import check_people
from metricldp.survey.agreement import Agreement
from metricldp_core.values import is_missing

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    nw, pa, pc = lazy("narwhals"), lazy("pyarrow"), lazy("pyarrow.compute")

T = TypeVar("T")
Refusal = Callable[[str], MetricLdpError]


def checked(survey: Agreement, people: Any, *, clip: bool) -> dict[str, Positions]:
    """The position of every value of a table of people, or a refusal."""
    people = _frame(people, list(survey.asked))
    found = {
        name: positions_of(
            attribute,
            _column(people, attribute.source(name)),
            attribute.source(name),
            clip=clip,
        )
        for name, attribute in survey.attributes.items()
    }
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InvalidValueError(
            f"columns differ in length: {counts}; give one value for each respondent"
        )
    return found


def positions_of(
    attribute: Attribute,
    values: pa.Array | list[Any],
    name: str,
    *,
    clip: bool = False,
) -> Positions:
    """The positions of one column."""
    try:
        if not isinstance(values, list):
            values.validate(full=True)
            values = _without_views(values)
    except pa.ArrowInvalid:
        raise InvalidValueError(
            "holds text that is not UTF-8; save it as such", attribute=name
        ) from None
    if attribute.asks_whether:
        return np.asarray(~_missing(values), dtype=np.int64)
    if attribute.optional is None:
        return _Column(attribute, values, name, clip).positions()
    rows = np.flatnonzero(~_missing(values))
    some = (
        [values[row] for row in rows] if isinstance(values, list) else values.take(pa.array(rows))
    )
    found = np.full(len(values), attribute.position_if_any(None))
    try:
        found[rows] = _Column(attribute, some, name, clip).positions()
    except InvalidValueError as wrong:
        row = None if wrong.row is None else int(rows[wrong.row])
        words = "a missing value is left blank" if wrong.reason in ("kind", "name") else ""
        raise at_row(wrong, row, words) from None
    return found


def _without_views(values: pa.Array) -> pa.Array:
    """In types that all of Arrow's functions take; polars hands text over as views."""
    kind = values.type
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    whole = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(inner)
    if whole is None:
        return values
    return values.cast(whole if inner is kind else pa.dictionary(kind.index_type, whole))


def _missing(values: pa.Array | list[Any]) -> npt.NDArray[np.bool_]:
    """Where a column has no value: null, NaN or a blank text."""
    if isinstance(values, list):
        return np.array([is_missing(value) for value in values])
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    missing = values.is_null(nan_is_null=True)
    if _is_text(values.type):
        blank = pc.equal(pc.utf8_trim_whitespace(values.cast(pa.large_string())), "")
        missing = pc.or_kleene(missing, blank)
    return np.asarray(missing.to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class _Column:
    """One column of people; a list where Arrow has no type for it."""

    attribute: Attribute
    values: pa.Array | list[Any]
    name: str
    clip: bool

    def positions(self) -> Positions:
        numbers = None if isinstance(self.values, list) else self._numbers(self.values)
        if numbers is None:
            found = [self._one(row) for row in range(len(self.values))]
            return np.array(found, dtype=np.uint64).view(np.int64)
        try:
            return self.attribute.positions(numbers, self.name, clip=self.clip)
        except InvalidValueError as wrong:
            self._one(wrong.row or 0)  # in the words for the value as it was written
            raise

    def _one(self, row: int) -> int:
        """The position of one value, or a refusal that names its row."""
        values = self.values
        value = values[row] if isinstance(values, list) else values[row].as_py()
        try:
            return self.attribute.position(value, self.name, clip=self.clip)
        except InvalidValueError as wrong:
            raise at_row(wrong, row) from None

    def _numbers(self, values: pa.Array) -> npt.NDArray[Any] | None:
        """As integers, floats or codes of names; None where only a look at each value can tell."""
        if not len(values):
            return np.zeros(0)
        if pa.types.is_dictionary(values.type):
            codes = self._codes_of_entries(values) if self.attribute.named else None
            if codes is not None:
                return codes
            values = values.dictionary_decode()
        return self._codes(values) if self.attribute.named else self._parsed(values)

    def _parsed(self, values: pa.Array) -> npt.NDArray[Any] | None:
        kind, types = values.type, pa.types
        if types.is_floating(kind):
            return np.asarray(values.to_numpy(zero_copy_only=False))
        if _is_text(kind):
            values = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
            # Arrow reads 0x1f as a whole number but not as a real one; here it is no number at all.
            if pc.any(pc.match_substring(values, "x", ignore_case=True)).as_py():
                return None
        elif types.is_boolean(kind):
            self._one(0)
        elif not (types.is_integer(kind) or types.is_decimal(kind)):
            why = f"holds {type_name(kind)} values where numbers are needed"
            self._refuse(f"{why}; convert them to numbers")
        for target in (pa.int64(), pa.float64()):
            try:
                return np.asarray(values.cast(target).to_numpy())
            except pa.ArrowInvalid:
                continue
        return None

    def _codes_of_entries(self, values: pa.Array) -> npt.NDArray[Any] | None:
        """A look-up per entry of a dictionary; an unknown one that nobody has is no matter."""
        if not _is_text(values.type.value_type):
            return None
        entries = pc.index_in(values.dictionary.cast(pa.string()), value_set=self._names)
        codes = entries.take(values.indices)
        return None if codes.null_count else np.asarray(codes.to_numpy())

    def _codes(self, values: pa.Array) -> npt.NDArray[Any] | None:
        kind, types = values.type, pa.types
        if not (_is_text(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            why = f"holds {type_name(kind)} values where names are needed"
            self._refuse(f"{why}; convert them to text")
        codes = pc.index_in(values.cast(pa.string()), value_set=self._names)
        return None if codes.null_count else np.asarray(codes.to_numpy())

    @property
    def _names(self) -> pa.Array:
        names = [self.attribute.name_of(position) for position in range(self.attribute.size)]
        return pa.array(names, pa.string())

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidValueError(why, attribute=self.name)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def columns_of(people: Any) -> dict[str, pa.Array | list[Any]]:
    """Every column of a table of people."""
    frame = _frame(people, ())
    if is_lazy(people):
        frame = nw.from_native(collected_lazy(people))
    names = list(frame) if isinstance(frame, Mapping) else frame.columns
    return {name: _column(frame, name) for name in names}


def _frame(people: Any, names: Collection[str]) -> Any:
    """People as something with these columns: a dict, or a frame of pandas, polars or Arrow.

    Of a frame or a query that has yet to be computed, only these columns are.
    """
    found, lazy = _arrow_table(people), False
    if isinstance(found, Mapping):
        there = list(found)
    else:
        try:
            found = nw.from_native(found)
            lazy = isinstance(found, nw.LazyFrame)
            if isinstance(found.to_native(), pa.Table):
                check_people(found.to_native().schema, "these")
            there = found.collect_schema().names()
        except TypeError:
            raise InvalidValueError(
                f"data must be a pandas, polars or Arrow table or a dict of arrays, "
                f"not {type(people).__name__}"
            ) from None
        except nw.exceptions.DuplicateError:
            raise InvalidValueError("the table has two columns of one name; rename one") from None
        except UnicodeDecodeError:
            raise InvalidValueError(
                "the table has a column whose name is not text; rename it"
            ) from None
    for name in names:
        if name not in there:
            raise InvalidValueError(
                f"the table has no column {name!r}{column_hint(name, names, there)}"
            )
    return _computed(found.select(names)) if lazy else found


def column_hint(name: str, needed: Collection[str], there: Collection[object]) -> str:
    """Which of the columns that are there is probably meant; it shows no value.

    If a table was read without a header its column names are one respondent's values. So only the
    survey's own names are listed, and a similar one is shown only beside one of them.
    """
    if same := same_but_spelling(name, there):
        return same
    known = [other for other in needed if other in there]
    others = [other for other in there if other not in needed]
    if known and (near := guess(name, others)):
        return f"{near} Rename that column"
    more = counted(len(others), "other column")
    if known:
        return f"; it has {listed(known)}{f' and {more}' if others else ''}"
    are = "is" if len(others) == 1 else "are"
    return f"; there {are} {more}, if the first line is a header at all" if others else ""


def _arrow_table(people: Any) -> Any:
    """Batches of Arrow as one table; everything else as it is."""
    if isinstance(people, pa.RecordBatch):
        return pa.Table.from_batches([people])
    if not isinstance(people, pa.RecordBatchReader):
        return people
    return without_details(people.read_all, InvalidValueError)


def _column(people: Any, name: str) -> pa.Array | list[Any]:
    """One column, as an Arrow array where it fits."""
    column = people[name]
    if not _is_column(column):
        hint = '; df.to_dict("list") makes lists' if isinstance(column, Mapping) else ""
        why = (
            f"has the type {type(column).__name__} and is not a column; give a list or an array of "
            "one dimension, or use survey.report for one respondent"
        )
        raise InvalidValueError(f"{why}{hint}", attribute=name)
    column = _opened(column)
    if not _alike(column):
        return list(column)
    with contextlib.suppress(pa.ArrowException, OverflowError, TypeError, UnicodeError):
        found = column
        if not isinstance(column, pa.ChunkedArray):
            found = pa.array(column) if isinstance(people, Mapping) else column.to_arrow()
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return list(column)


def _opened(column: Any) -> Any:
    """What is a column only by the doors that it has, as one of Arrow or of numpy."""
    if isinstance(column, Sequence) or hasattr(column, "dtype"):
        return column
    if hasattr(column, "__arrow_c_stream__"):
        return pa.chunked_array(column)
    return pa.array(column) if hasattr(column, "__arrow_c_array__") else np.asarray(column)


def _alike(values: Any) -> bool:
    """Whether Arrow takes all values for what they are.

    Among numbers True would become 1, and half of a 16-bit float nothing.
    """
    if hasattr(values, "type") or getattr(values, "dtype", object) not in (object, nw.Object):
        return True  # of Arrow, or of numbers
    kinds = set(map(type, values)) - {type(None)}
    numbers = (int, float, np.integer, np.float32)
    others = (bool, np.timedelta64)
    return kinds in ({str}, {bool}) or all(
        issubclass(kind, numbers) and not issubclass(kind, others) for kind in kinds
    )


def _is_column(values: Any) -> bool:
    """Whether it has one value for each person: a text and a set have not, nor has a table."""
    if len(getattr(values, "shape", (0,))) != 1:
        return False
    if any(
        hasattr(values, door) for door in ("__array__", "__arrow_c_array__", "__arrow_c_stream__")
    ):
        return True
    return isinstance(values, Sequence) and not isinstance(
        values, str | bytes | bytearray | memoryview
    )


def is_lazy(frame: Any) -> bool:
    """Whether it is a frame or a query of some library that has yet to be computed."""
    return isinstance(nw.from_native(frame, pass_through=True), nw.LazyFrame)


def collected_lazy(frame: Any, refusal: Refusal = InvalidValueError) -> pa.Table:
    return _computed(nw.from_native(frame), refusal).to_arrow()


def _computed(frame: nw.LazyFrame[Any], refusal: Refusal = InvalidValueError) -> nw.DataFrame[Any]:
    return without_details(lambda: frame.collect("pyarrow"), refusal)


def without_details(read: Callable[[], T], refusal: Refusal) -> T:
    """What a library reads or computes; its own error may quote a value, so it is not chained."""
    try:
        return read()
    except (MetricLdpError, StopIteration):
        raise
    except Exception as wrong:
        kind = type(wrong).__name__
    raise refusal(
        f"this table cannot be read: {kind}, whose message may hold a value and is not shown; read "
        "the table yourself and pass the result"
    )
