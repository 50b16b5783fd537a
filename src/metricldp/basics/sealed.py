"""Small files that name others: one line of canonical JSON with the SHA-256 of the rest of it.

What such a file says is acted upon: files that it does not name are removed, and what it counts is
not counted again. So it is believed only if it is as it was written, and of the right shape.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metricldp.basics.canonical import canonical
from metricldp.basics.errors import ReportRefused
from metricldp.basics.text import shown
from metricldp.basics.writing import why_not

SHA256 = re.compile("[0-9a-f]{64}")


def sealed(data: Mapping[str, Any]) -> bytes:
    """The line, in the one way that it can be written."""
    digest = hashlib.sha256(canonical(data).encode("utf-8")).hexdigest()
    return canonical({**data, "sha256": digest}).encode("utf-8") + b"\n"


def unsealed(path: Path, mark: str, version: int, shape: dict[str, Any], remedy: str) -> Any:
    """What the line in a file says; `mark` is the key of the version of its format."""
    try:
        raw = path.read_bytes()
        said = json.loads(raw.decode("utf-8"))
        if not isinstance(said, dict) or mark not in said:
            raise ValueError(f"it has no {mark}")
        said.pop("sha256", None)
        as_written = sealed(said) == raw
    except (OSError, ValueError, RecursionError) as wrong:
        why = f"cannot read {path}: {why_not(wrong)}; {remedy}"
        raise ReportRefused("file", why) from None
    if said[mark] != version:
        why = f"{path} has version {shown(said[mark])}, this is {version}; {remedy}"
        raise ReportRefused("version", why)
    if not (as_written and fits(said, shape)):
        raise ReportRefused("checksum", f"{path} is damaged or was changed by hand; {remedy}")
    return said


def fits(value: object, shape: Any) -> bool:
    """Whether plain data have this shape.

    A shape is int, which is not below 0; str; a pattern that text has to match; a list of one shape
    for all items; a dict of keys and their shapes; or a pair of shapes, for any keys and values.
    """
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    if not isinstance(shape, dict | tuple):
        return type(value) is shape and (not isinstance(value, int) or value >= 0)
    if not isinstance(value, dict):
        return False
    if isinstance(shape, tuple):
        return all(fits(key, shape[0]) and fits(item, shape[1]) for key, item in value.items())
    return value.keys() == shape.keys() and all(fits(value[key], shape[key]) for key in shape)
