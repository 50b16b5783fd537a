"""The channels: an attribute's way from a private position to a report and back to answers."""

from __future__ import annotations

from metricldp.channels.base import LARGEST_EPSILON, Channel, Cut, Floats, Integers, Levels
from metricldp.channels.fields import Bits, Clear, Column, Field, Number, Struct
from metricldp.channels.geometric import Geometric
from metricldp.channels.kinds import BitChannel, IntegerChannel, NumberChannel
from metricldp.channels.matrix import MatrixChannel
from metricldp.channels.response import Response, keep_for
from metricldp.channels.threshold import Threshold
from metricldp.channels.threshold_paper import ThresholdDummy, ThresholdPaper
from metricldp.channels.unary import UnaryChannel

__all__ = [
    "LARGEST_EPSILON",
    "BitChannel",
    "Bits",
    "Channel",
    "Clear",
    "Column",
    "Cut",
    "Field",
    "Floats",
    "Geometric",
    "IntegerChannel",
    "Integers",
    "Levels",
    "MatrixChannel",
    "Number",
    "NumberChannel",
    "Response",
    "Struct",
    "Threshold",
    "ThresholdDummy",
    "ThresholdPaper",
    "UnaryChannel",
    "keep_for",
]
