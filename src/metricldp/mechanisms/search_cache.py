"""A cache of search results by the content of their arguments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


class SearchCache:
    """The latest results of this process. Set `enabled` to False to search every time."""

    def __init__(self, size: int) -> None:
        self.enabled, self.size = True, size
        self.results: OrderedDict[Hashable, Any] = OrderedDict()

    def clear(self) -> None:
        self.results.clear()


CACHE = SearchCache(128)


def cached_search(search: Callable[P, R]) -> Callable[P, R]:
    """Return the cached result where a search ran before with equal arguments.

    A callback for progress is no part of the arguments.
    """

    @wraps(search)
    def cached(*args: P.args, **kwargs: P.kwargs) -> R:
        if not CACHE.enabled:
            return search(*args, **kwargs)
        key = search.__qualname__, content((args, kwargs))
        result: R | None = CACHE.results.pop(key, None)
        if result is None:
            result = search(*args, **kwargs)
        CACHE.results[key] = result
        while len(CACHE.results) > CACHE.size:
            CACHE.results.popitem(last=False)
        return result

    return cached


def content(value: Any) -> Hashable:
    """A hashable value that is equal for arguments with equal content."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, blake2b(value.tobytes()).digest()
    if is_dataclass(value):
        return type(value), *(content(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Mapping):
        return (*((key, content(part)) for key, part in value.items()),)
    if isinstance(value, tuple | list):
        return (*map(content, value),)
    return None if callable(value) else cast(Hashable, value)
