"""When the compiled loops take over: numba takes a second or two to load, so work must be worth it.

The work of a process is added up, over many calls as well as in one; once it is as much as loading
costs, the compiled loops are loaded and used from then on.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from types import ModuleType

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


class Loops:
    """The numpy loops of a module, and later their compiled twins."""

    def __init__(self, plain: ModuleType, compiled: str, large: int) -> None:
        self._plain = plain
        self._compiled = compiled
        self.large = large
        """So much work is worth loading them."""
        self.done = 0
        self.loaded: ModuleType | None = None

    def expect(self, work: int) -> None:
        # Arrays are read as little-endian words, and numba knows the machine's own order only.
        if self.loaded is not None or sys.byteorder != "little":
            return
        self.done += work
        if self.done >= self.large:
            self.loaded = self._load()

    def _load(self) -> ModuleType:
        try:
            compiled = importlib.import_module(self._compiled)
            compiled.try_out()
            return compiled
        except ModuleNotFoundError as wrong:
            if wrong.name not in ("numba", "llvmlite"):
                raise
            return self._plain  # the extra that makes them faster is not installed
        except (ImportError, RuntimeError, OSError) as wrong:  # of numba and its cache
            why = str(wrong).splitlines()[0]
            warnings.warn(
                f"compiled loops cannot be loaded ({why}); numpy's give the same numbers, slower",
                RuntimeWarning,
                stacklevel=2,
            )
            return self._plain

    @property
    def now(self) -> ModuleType:
        return self._plain if self.loaded is None else self.loaded
