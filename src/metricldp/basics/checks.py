"""Checks of what a description states."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from metricldp.basics.errors import InvalidSpecError, MetricLdpError, QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, listed, shown


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a sequence of others, which a text is not."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def as_lists(value: Any) -> Any:
    """Tuples in tuples as lists, which is what files hold."""
    return [as_lists(item) for item in value] if isinstance(value, tuple) else value


def refuse_unknown(what: str, entries: Iterable[str], known: Sequence[str]) -> None:
    for key in entries:
        if key not in known:
            there = f"{listed(known)}{guess(key, known)}"
            raise InvalidSpecError(f"{what} has no entry {shown(key)}; it has {there}")


def flag(what: str, value: object, refusal: type[MetricLdpError] = QueryError) -> bool:
    """True or False, and nothing that might mean one of them."""
    if not isinstance(value, bool | np.bool_):
        raise refusal(f"{what} is True or False, not {shown(value)}")
    return bool(value)


def positive(what: str, value: object) -> float:
    if not is_number(value) or not math.isfinite(value) or value <= 0:
        raise InvalidSpecError(f"{what} must be a positive finite number, not {shown(value)}")
    return float(value)


def finite(what: str, value: object) -> float:
    if not is_number(value) or not math.isfinite(value):
        raise InvalidSpecError(f"{what} must be finite, not {shown(value)}")
    return float(value)
