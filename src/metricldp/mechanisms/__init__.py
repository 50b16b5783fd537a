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
from metricldp.mechanisms.geometric import GeometricChannel
from metricldp.mechanisms.matrix_channel import MatrixChannel
from metricldp.mechanisms.moments import Floats, Independent, Moments, OneHot
from metricldp.mechanisms.randomized_response import RandomizedResponseChannel, keep_for
from metricldp.mechanisms.threshold import (
    ThresholdChannel,
    ThresholdDummyChannel,
    ThresholdPaperChannel,
)
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
    "GeometricChannel",
    "Independent",
    "IntegerChannel",
    "Integers",
    "Levels",
    "MatrixChannel",
    "Moments",
    "Number",
    "NumberChannel",
    "OneHot",
    "RandomizedResponseChannel",
    "Struct",
    "ThresholdChannel",
    "ThresholdDummyChannel",
    "ThresholdPaperChannel",
    "UnaryChannel",
    "keep_for",
]
