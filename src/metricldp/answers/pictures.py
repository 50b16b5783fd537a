"""Where answers find their pictures: `app/plots` is hung up here; answers know nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Draw = Callable[..., Any]

_PICTURES: dict[type, Draw] = {}
"""By the kind of answers; a kind without a picture of its own has that of what it derives from."""


def hang(pictures: Mapping[type, Draw]) -> None:
    """Say how each kind of answers is drawn."""
    _PICTURES.update(pictures)


def plot(found: object, path: str | Path | None, **look: Any) -> Any:
    """Draw answers in the way of their kind."""
    draw = next(_PICTURES[kind] for kind in type(found).__mro__ if kind in _PICTURES)
    return draw(found, path, **look)
