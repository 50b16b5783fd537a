"""What counts as a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from metricldp.basics.optional import lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = lazy("numpy")

_LEAST = 1e-6
_ROUNDING = 1e-9
_DIGITS = 1e-12


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; True, False and what no float could hold are not."""
    if type(value) is float:
        return True
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= 1023
    return isinstance(value, (float, np.integer, np.floating))


def is_whole(value: object) -> TypeGuard[int | float]:
    """Whether a value is a whole number, be it an int or a float."""
    return is_number(value) and math.isfinite(value) and value == int(value)


def finite(number: float) -> float | None:
    """The number, or None where it is infinite, which JSON cannot say."""
    return number if math.isfinite(number) else None


def whole(number: float, size: float = 0.0) -> float:
    """The nearest whole number, where no more than rounding lies between: 49 * (1 / 49) is 1.

    Of a sum, `size` is that of its parts.
    """
    near = float(np.rint(number)) + 0.0  # without a sign, if it is 0
    close = math.isclose(number, near, rel_tol=_DIGITS, abs_tol=_DIGITS * size)
    return near if close else number


def within(ends: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    """Two ends kept between limits: what misses a limit by no more than rounding is at it."""
    (low, high), (least, most) = ends, limits
    near = _ROUNDING * (finite(most - least) or 0.0)
    return (
        least if low < least + near else min(low, most),
        most if high > most - near else max(high, least),
    )


def spread_of(prior: Sequence[float] | None, size: int) -> npt.NDArray[np.float64]:
    """A prior as shares of people, none below a millionth of the even share.

    A decoder made for it is without bias whatever is true. But where nobody at all is expected, it
    would divide by nearly nothing, and its rounding would be seen.
    """
    if prior is None:
        return np.full(size, 1 / size)
    shares = np.maximum(np.array(prior) / sum(prior), _LEAST / size)
    return np.asarray(shares / shares.sum())


def root_of(gram: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """R with R^T R = gram."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
