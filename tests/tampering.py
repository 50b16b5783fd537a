"""Lines of sealed JSON that somebody changed, in hundreds of ways, the same each time."""

from __future__ import annotations

import contextlib
import copy
import json
import random

from metricldp.basics.sealed import sealed

_INSTEAD = [None, True, -5, 0, 1, 2, 150.5, 10**30, 10**400, float("inf"), float("nan"), "", "x"]
_INSTEAD += ["../x", "\ud800", "0" * 32, "0" * 64, [], {}, [[]], [1], {"x": 1}]


def cases(raw, number):
    """So many other contents of a file: damaged, changed, and changed with the right digest."""
    rng = random.Random(number)
    for _ in range(number):
        how = rng.randrange(3)
        if how == 0:
            yield _damaged(raw, rng)
            continue
        said = json.loads(raw)
        if how == 1:
            yield json.dumps(_changed(said, rng)).encode()
            continue
        del said["sha256"]
        said = _changed(said, rng)
        found = json.dumps(said).encode()
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            found = sealed(said)  # else it has no canonical text
        yield found


def _damaged(raw, rng):
    data = bytearray(raw)
    at = rng.randrange(len(data))
    how = rng.randrange(3)
    if how == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif how == 1:
        del data[at : at + rng.randrange(1, 40)]
    else:
        data[at:at] = rng.choice([b" ", b"0", b'"', b"\n", b"\xff", b"[" * 100_000])
    return bytes(data)


def _changed(said, rng):
    """A copy in which one entry, however deep, is gone, doubled, renamed or another."""
    said = copy.deepcopy(said)
    inside, key = rng.choice(list(_entries(said)))
    how = rng.randrange(4)
    if how == 0:
        del inside[key]
    elif how == 1 and isinstance(inside, list):
        inside.append(inside[key])
    elif how == 1:
        inside[rng.choice(["x", "", "ids-000009.ids", f"{key} "])] = inside.pop(key)
    else:
        inside[key] = rng.choice(_INSTEAD)
    return said


def _entries(said):
    keys = said if isinstance(said, dict) else range(len(said))
    for key in list(keys):
        yield said, key
        if isinstance(said[key], dict | list):
            yield from _entries(said[key])
