"""The inner loops of encoding: `loops.now` are those to use, random words in and reports out."""

from __future__ import annotations

from metricldp.basics.compiled import Loops
from metricldp.coins import loops_plain

LARGE = 1 << 30
"""Lanes drawn in this process from which on the compiled loops are used."""

loops = Loops(loops_plain, "metricldp.coins.loops_compiled", LARGE)
