"""Checks of the numbers that a description states."""

from __future__ import annotations

import math

from metricldp.basics.errors import SurveyError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import shown


def positive(what: str, value: object) -> float:
    """A positive finite number, or a refusal."""
    if not is_number(value) or not math.isfinite(value) or value <= 0:
        raise SurveyError(f"{what} must be a positive finite number, not {shown(value)}")
    return float(value)
