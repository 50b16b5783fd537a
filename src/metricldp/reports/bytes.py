"""Reports as byte strings, all of one size.

The version of the format (1 byte), the first 16 bytes of the survey's fingerprint, then the fields
of all attributes in order, bit after bit, lowest bit first, and zeros up to a whole byte. Reading
is strict: whatever no device of this survey could have sent is refused with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidReportError
from metricldp.mechanisms import Column
from metricldp.reports.arrow import batches, check_table, to_table
from metricldp.survey.agreement import Agreement
from metricldp_core.manifest import FORMAT
from metricldp_core.report import HEADER_BYTES, ReportFormat

if TYPE_CHECKING:
    import pyarrow as pa


def packed_size(survey: Agreement) -> int:
    """Bytes of one report, its header included."""
    return ReportFormat(survey.client_manifest).size


def header(survey: Agreement) -> bytes:
    """The first bytes of every report: the version and the start of the fingerprint."""
    return ReportFormat(survey.client_manifest).header


def _header(survey: Agreement) -> npt.NDArray[np.uint8]:
    return np.frombuffer(header(survey), dtype=np.uint8)


def pack(survey: Agreement, table: pa.Table) -> list[bytes]:
    """Each report as a byte string of `packed_size` bytes."""
    found: list[bytes] = []
    size = packed_size(survey)
    for batch in batches(check_table(survey, table).combine_chunks()):
        bits = [survey.fields[name].pack(column) for name, column in batch.items()]
        fields = np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")
        header = np.broadcast_to(_header(survey), (len(fields), HEADER_BYTES))
        whole = np.concatenate([header, fields], axis=1).tobytes()
        found += [whole[at : at + size] for at in range(0, len(whole), size)]
    return found


def unpack(
    survey: Agreement,
    blobs: Sequence[bytes],
    *,
    refused: Counter[str] | None = None,
    before: int = 0,
) -> pa.Table:
    """Byte strings back to a table; `before` reports came before these.

    The first bad one is refused with an exception; or, where a counter is given, bad ones are left
    out and counted there by reason.
    """
    columns, blame = judged(survey, blobs)
    bad = np.flatnonzero(blame != "")
    if len(bad) and refused is None:
        at = int(bad[0])
        raise InvalidReportError(blame[at], _complaint(survey, blame[at], before + at, blobs[at]))
    if refused is not None:
        refused.update(blame[bad].tolist())
    return to_table(survey, columns)


def judged(
    survey: Agreement, blobs: Sequence[bytes]
) -> tuple[dict[str, Column], npt.NDArray[np.object_]]:
    """The columns of all good ones, and of every one the reason to refuse it, or nothing."""
    size = packed_size(survey)
    whole = np.array([isinstance(b, bytes) and len(b) == size for b in blobs], dtype=bool)
    rows = np.frombuffer(
        b"".join(blob for blob, ok in zip(blobs, whole, strict=True) if ok), dtype=np.uint8
    ).reshape(-1, size)
    columns, reasons = _faults(survey, rows)
    blame = np.full(len(blobs), "", dtype=object)
    reports = ReportFormat(survey.client_manifest)
    for at in np.flatnonzero(~whole).tolist():
        blame[at] = reports.reason(blobs[at])
    why = np.full(len(rows), "", dtype=object)
    for reason, wrong in reversed(reasons.items()):
        why[wrong] = reason
    blame[whole] = why
    good = why == ""
    return {name: column[good] for name, column in columns.items()}, blame


def sound(survey: Agreement, rows: npt.NDArray[np.uint8]) -> bool:
    """Whether each row of `packed_size` bytes is a report that a device could have sent."""
    return not any(wrong.any() for wrong in _faults(survey, rows)[1].values())


def _faults(
    survey: Agreement, rows: npt.NDArray[np.uint8]
) -> tuple[dict[str, Column], dict[str, npt.NDArray[np.bool_]]]:
    """The columns of rows of the right length, and by reason which rows have this fault."""
    header = _header(survey)
    bits = np.unpackbits(rows[:, HEADER_BYTES:], axis=1, bitorder="little")
    columns, start = {}, 0
    out_of_range = np.zeros(len(rows), dtype=bool)
    for name, field in survey.fields.items():
        columns[name] = field.unpack(bits[:, start : start + field.bits])
        out_of_range |= field.invalid(columns[name])
        start += field.bits
    return columns, {
        "version": rows[:, 0] != header[0],
        "survey": np.asarray((rows[:, 1:HEADER_BYTES] != header[1:]).any(axis=1)),
        "padding": np.asarray(bits[:, start:].any(axis=1)),
        "range": out_of_range,
    }


def _complaint(survey: Agreement, reason: str, at: int, blob: bytes) -> str:
    if reason == "kind":
        return f"report {at + 1} is a {type(blob).__name__}; each report is bytes"
    told = {
        "length": f"has {len(blob)} bytes, expected {packed_size(survey)}",
        "version": f"has version {blob[0] if blob else 0}, expected {FORMAT}",
        "survey": f"is of survey {blob[1:HEADER_BYTES].hex()}, expected {survey.fingerprint[:32]}",
        "padding": "has bits set behind its last field",
        "range": "has a value that no device could send",
    }
    return f"report {at + 1} {told[reason]}; rebuild the client from this survey"
