"""Ids that were counted: 16 bytes each, in sorted runs, so that a million are looked up at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

ID = 16
"""Bytes of an id."""
_MOST_RUNS = 8
Ids = npt.NDArray[np.uint8]
"""A row of 16 bytes for each id."""
_Half = npt.NDArray[np.uint64]


class Seen:
    """A set of ids that only grows."""

    def __init__(self) -> None:
        self._runs: list[tuple[_Half, _Half]] = []
        """For each run the last halves of its ids, in order, and their first halves."""

    def __len__(self) -> int:
        return sum(len(last) for last, _ in self._runs)

    def fresh(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which ids are new, each at its first place only."""
        last, first = _halves(ids)
        order = np.lexsort((first, last))  # looked up in order, which is gentle to the memory
        last, first = last[order], first[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(last) != 0) | (np.diff(first) != 0)
        for run in self._runs:
            new &= ~_among(last, first, run)
        found = np.zeros(len(order), dtype=bool)
        found[order] = new
        return found

    def add(self, ids: Ids) -> None:
        """Ids that are fresh, and differ."""
        if not len(ids):
            return
        self._runs.append(_sorted(*_halves(ids)))
        # A run is merged with the one before while it is not much smaller, so runs stay few.
        while len(self._runs) > 1 and (
            len(self._runs) > _MOST_RUNS or 2 * len(self._runs[-1][0]) > len(self._runs[-2][0])
        ):
            one, two = self._runs.pop(), self._runs.pop()
            joined = (np.concatenate(pair) for pair in zip(one, two, strict=True))
            self._runs.append(_sorted(*joined))


def ordered(ids: Ids) -> Ids:
    """The ids in the order of their bytes, which is nobody's."""
    words = ids.view(">u8").reshape(-1, 2)
    return ids[np.lexsort((words[:, 1], words[:, 0]))]


def _halves(ids: Ids) -> tuple[_Half, _Half]:
    words: Any = np.ascontiguousarray(ids).view("<u8").reshape(-1, 2)
    return words[:, 1].astype(np.uint64), words[:, 0].astype(np.uint64)


def _sorted(last: _Half, first: _Half) -> tuple[_Half, _Half]:
    order = np.argsort(last, kind="stable")  # two sorted runs are merged, not sorted again
    return last[order], first[order]


def _among(last: _Half, first: _Half, run: tuple[_Half, _Half]) -> npt.NDArray[np.bool_]:
    """Whether each id is in a run: by its last half, then compared with those that share it."""
    at = np.searchsorted(run[0], last)
    found = np.zeros(len(last), dtype=bool)
    left = np.arange(len(last))
    while len(left):
        left = left[at[left] < len(run[0])]
        left = left[run[0][at[left]] == last[left]]
        found[left] = run[1][at[left]] == first[left]
        left = left[~found[left]]
        at[left] += 1
    return found
