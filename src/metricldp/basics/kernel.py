"""What compiled kernels share: the numba decorator, and the population count of a word.

A folder's kernels are in its `kernels.py`. Only those modules import this one, and callers import
them inside the function that runs a kernel, because loading numba takes about a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.extending import intrinsic


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function at its first call, and cache the machine code on disk.

    numba looks for a writable folder when it decorates: beside the module, then in the user's cache
    folder. Without one the kernel is compiled in each process.
    """
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:
    """The number of ones of an unsigned 64-bit word, in one machine instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


popcount: Any = _popcount
