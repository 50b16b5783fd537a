"""Ids of 16 bytes in sorted runs, of which a thousand are looked up at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ID = 16
"""Bytes of an id."""
Half = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.uint8]
"""A row of 16 bytes for each id."""


def halves(ids: Ids) -> tuple[Half, Half]:
    """The last eight bytes of each id, by which runs are sorted, and the first eight.

    Numbers that compare like the bytes. Ids are random at their end, whatever they begin with.
    """
    words = np.ascontiguousarray(ids).view(">u8").reshape(-1, ID // 8)
    return words[:, 1].astype(np.uint64), words[:, 0].astype(np.uint64)


def places(ids: tuple[Half, ...], run: tuple[Half, ...]) -> npt.NDArray[np.intp]:
    """Where each id stands in a run; -1 for one that does not.

    Both are columns; a run is sorted by its first, and all of them have to be equal. Ids that come
    in the order of the run are found faster.
    """
    keys, key = run[0], ids[0]
    found = np.full(len(key), -1, dtype=np.intp)
    if not len(keys):
        return found
    at = keys.searchsorted(key)
    left = np.flatnonzero(keys.take(at, mode="clip") == key)
    while len(left):  # more than once only where ids share their last half
        here = at[left]
        same = np.ones(len(left), dtype=bool)
        for column, own in zip(run[1:], ids[1:], strict=True):
            same &= column[here] == own[left]
        found[left[same]] = here[same]
        left = left[~same]
        at[left] += 1
        left = left[at[left] < len(keys)]
        left = left[keys[at[left]] == key[left]]
    return found
