"""The searches for shapes, compiled by numba; the same numbers as those of `loops_plain`."""

from __future__ import annotations

from numba import njit

from metricldp.design import loops_plain

anneal = njit(cache=True)(loops_plain.anneal)
move_many = njit(cache=True)(loops_plain.move_many)
climb = njit(cache=True)(loops_plain.climb)
every_shape = njit(cache=True)(loops_plain.every_shape)


def try_out() -> None:
    """Nothing to try out: what cannot be compiled fails at its first call."""
