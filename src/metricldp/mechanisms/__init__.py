"""The channels: an attribute's way from a private position to a report and back to answers."""

from __future__ import annotations

from metricldp.mechanisms.channel import (
    LARGEST_EPSILON,
    BitChannel,
    Channel,
    CoreChannel,
    IntegerChannel,
    Integers,
    Levels,
    NumberChannel,
)
from metricldp.mechanisms.fields import Bits, Clear, Column, Field, Number, Struct
from metricldp.mechanisms.geometric import Geometric
from metricldp.mechanisms.matrix_channel import MatrixChannel
from metricldp.mechanisms.moments import Floats, Independent, Moments, OneHot
from metricldp.mechanisms.randomized_response import Response, keep_for
from metricldp.mechanisms.threshold import Threshold, ThresholdDummy, ThresholdPaper
from metricldp.mechanisms.unary_channel import UnaryChannel

__all__ = [
    "LARGEST_EPSILON",
    "BitChannel",
    "Bits",
    "Channel",
    "Clear",
    "Column",
    "CoreChannel",
    "Field",
    "Floats",
    "Geometric",
    "Independent",
    "IntegerChannel",
    "Integers",
    "Levels",
    "MatrixChannel",
    "Moments",
    "Number",
    "NumberChannel",
    "OneHot",
    "Response",
    "Struct",
    "Threshold",
    "ThresholdDummy",
    "ThresholdPaper",
    "UnaryChannel",
    "keep_for",
]
