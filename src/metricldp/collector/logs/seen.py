"""Ids that were counted: 16 bytes each, in sorted runs, so that a million are looked up at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metricldp.collector.search import Half, Ids, halves, places

_MOST_RUNS = 8


class Seen:
    """A set of ids that only grows."""

    def __init__(self) -> None:
        self._runs: list[tuple[Half, Half]] = []
        """For each run the last halves of its ids, in order, and their first halves."""

    def __len__(self) -> int:
        return sum(len(last) for last, _ in self._runs)

    def fresh(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which ids are new, each at its first place only."""
        last, first = halves(ids)
        order = np.lexsort((first, last))  # looked up in order, which is gentle to the memory
        last, first = last[order], first[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(last) != 0) | (np.diff(first) != 0)
        for run in self._runs:
            new &= places((last, first), run) < 0
        found = np.zeros(len(order), dtype=bool)
        found[order] = new
        return found

    def add(self, ids: Ids) -> None:
        """Ids that are fresh, and differ."""
        if not len(ids):
            return
        self._runs.append(_sorted(*halves(ids)))
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


def _sorted(last: Half, first: Half) -> tuple[Half, Half]:
    order = np.argsort(last, kind="stable")  # two sorted runs are merged, not sorted again
    return last[order], first[order]
