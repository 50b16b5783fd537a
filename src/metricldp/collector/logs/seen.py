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
        new = _first_places(last, first)
        for run in self._runs:
            new &= ~_among(last, first, run)
        return new

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
    order = np.lexsort((first, last))
    return last[order], first[order]


def _first_places(last: _Half, first: _Half) -> npt.NDArray[np.bool_]:
    order = np.lexsort((np.arange(len(last)), first, last))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(last[order]) != 0) | (np.diff(first[order]) != 0)
    found = np.zeros(len(order), dtype=bool)
    found[order] = new
    return found


def _among(last: _Half, first: _Half, run: tuple[_Half, _Half]) -> npt.NDArray[np.bool_]:
    """Whether each id is in a run: by its last half, then compared with those that share it."""
    at = np.searchsorted(run[0], last, "left")
    end = np.searchsorted(run[0], last, "right")
    found = np.zeros(len(last), dtype=bool)
    left = np.flatnonzero(at < end)
    while len(left):
        found[left] = run[1][at[left]] == first[left]
        at[left] += 1
        left = left[~found[left] & (at[left] < end[left])]
    return found
