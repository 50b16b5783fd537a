"""The file of totals (.totals): exact sums over reports, readable without this package.

1. The ASCII line `metricldp-totals 1`, ended by one newline (byte 10). The 1 is the version.
2. One line of canonical JSON (RFC 8785) in UTF-8, ended by one newline. It is an object with
   "collections"  a sorted list of the numbers of the collections that were counted, 32 hexadecimal
                  digits each; a file without it is read, too
   "fingerprint"  the survey's, all 64 hexadecimal digits
   "keep"         a list of sets of attributes; each is a list of names in the survey's order
   "n"            how many people reported
   "shapes"       for each set, the number of features of each of its attributes
3. For each set, in the order of "keep", its table: a 64-bit integer, two's complement, lowest byte
   first, for every combination of one feature of each attribute, the feature of the last attribute
   running fastest (C order). It is the sum over all reports of the product of those features.
4. The SHA-256 of everything before it: 32 bytes. Nothing follows.

The features of a mechanism are those that its channel names. Two files of the same survey and sets
are merged by adding n and every entry, and joining their collections, which must differ. Reading
is strict: anything else is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metricldp.basics.errors import InvalidReportError
from metricldp.basics.writing import replacing, why_not
from metricldp.reports.parquet import NUMBER, UNNUMBERED
from metricldp_core.canonical import canonical

SUFFIX = ".totals"
_MAGIC, _VERSION = b"metricldp-totals ", b"1\n"
_FIRST = re.compile(re.escape(_MAGIC) + rb"([0-9]{1,9})\n")
_MOST_TOGETHER = 64
"""Attributes of a table, as numpy has them."""
_DIGEST = 32
"""Bytes of a SHA-256."""
_SHAPE = {"collections": [NUMBER], "fingerprint": str, "keep": [[str]], "n": int, "shapes": [[int]]}


class Saved(NamedTuple):
    """What such a file holds."""

    fingerprint: str
    n: int
    keep: tuple[tuple[str, ...], ...]
    tables: list[npt.NDArray[np.int64]]
    collections: Collection[str]


def write(path: str | Path, saved: Saved) -> None:
    parts = [_MAGIC + _VERSION, _header(saved)]
    parts += [table.astype("<i8").tobytes() for table in saved.tables]
    digest = hashlib.sha256()
    with replacing(path, partial(InvalidReportError, "file"), "totals", [SUFFIX]) as file:
        for part in parts:
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def read(path: str | Path) -> Saved:
    """What the file holds, if it is whole and written as it should be."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise InvalidReportError("file", f"there is no totals file {path}") from None
    except (OSError, ValueError) as wrong:
        why = f"cannot read the totals file {path}: {why_not(wrong)}"
        raise InvalidReportError("file", why) from None
    first = _FIRST.match(data)
    if not first:
        raise InvalidReportError("file", f"{path} is not a file of totals; save a tally with keep=")
    if first[0] != _MAGIC + _VERSION:
        version = first[1].decode("ascii")
        raise InvalidReportError(
            "version", f"the totals in {path} have version {version}, this is 1"
        )
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise InvalidReportError(
            "checksum", f"{path} is damaged or cut short: its checksum is wrong"
        )
    line, _, tables = body[first.end() :].partition(b"\n")
    header = _checked(line)
    if header is None:
        raise InvalidReportError("header", f"the header of {path} is invalid")
    shapes = header["shapes"]
    if len(tables) != 8 * sum(math.prod(shape) for shape in shapes):
        raise InvalidReportError(
            "length",
            f"{path} has {len(tables):,} bytes of tables, but its header states another number",
        )
    collections = header.get("collections", [UNNUMBERED])
    keep = tuple(map(tuple, header["keep"]))
    saved = Saved(header["fingerprint"], header["n"], keep, [], collections)
    start = 0
    for shape in shapes:
        table = np.frombuffer(tables, "<i8", math.prod(shape), start).reshape(shape)
        saved.tables.append(table.astype(np.int64))
        start += table.nbytes
    return saved


def _header(saved: Saved) -> bytes:
    shapes = [table.shape for table in saved.tables]
    data = {"fingerprint": saved.fingerprint, "keep": saved.keep, "n": saved.n, "shapes": shapes}
    data |= {"collections": sorted(saved.collections)}
    return canonical(data).encode("utf-8") + b"\n"


def _checked(line: bytes) -> dict[str, Any] | None:
    """The header, if it is written in the one way that it can be."""
    try:
        header = json.loads(line.decode("utf-8"))
        good = (
            isinstance(header, dict)
            and _has_shape({"collections": [], **header}, _SHAPE)
            and sorted(set(header.get("collections", []))) == header.get("collections", [])
            and list(map(len, header["keep"])) == list(map(len, header["shapes"]))
            and all(min(shape, default=1) > 0 for shape in header["shapes"])
            and all(len(shape) <= _MOST_TOGETHER for shape in header["shapes"])
            and canonical(header).encode("utf-8") == line
        )
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or numbers beyond 2^53
        return None
    return header if good else None


def _has_shape(value: object, shape: Any) -> bool:
    """Whether plain data have this shape.

    A shape is int, which is not below 0; str; a pattern that the text matches; a list of one shape
    for all items; or a dict of keys and their shapes.
    """
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if isinstance(shape, list):
        return isinstance(value, list) and all(_has_shape(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        return (
            isinstance(value, dict)
            and value.keys() == shape.keys()
            and all(_has_shape(value[key], shape[key]) for key in shape)
        )
    return type(value) is shape and (not isinstance(value, int) or value >= 0)
