"""Libraries that are imported at their first use: extras, and base libraries that load slowly.

A module that needs one defines it at its top, and its functions use it like an imported module:

    if TYPE_CHECKING:
        import pyarrow as pa
    else:
        pa = lazy("pyarrow")
"""

from __future__ import annotations

import importlib
from typing import Any

from metricldp.basics.errors import MissingDependencyError

_EXTRAS = {
    "apsw": ("a collector needs", "collector"),
    "confluent_kafka": ("reading reports from Kafka needs", "kafka"),
    "duckdb": ("engine='duckdb' needs", "duckdb"),
    "httptools": ("a collector needs", "collector"),
    "jinja2": ("a collector needs", "collector"),
    "markupsafe": ("a collector needs", "collector"),
    "matplotlib": ("plots need", "plot"),
    "pandas": ("a table for pandas needs", None),
    "polars": ("a table for polars, or engine='polars', needs", "polars"),
    "psycopg": ("a collector with PostgreSQL needs", "postgres"),
    "pyspark": ("engine='spark' needs", "spark"),
    "starlette": ("a collector needs", "collector"),
    "uvicorn": ("a collector needs", "collector"),
}
"""The use of each optional library and the extra that installs it; None: the library itself."""


class _Library:
    """A module that is imported when one of its attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = getattr(loaded(self._name), attribute)
        setattr(self, attribute, value)
        return value


def optional(name: str) -> Any:
    """A library of an extra, or a module in it, to be imported at its first use."""
    return _Library(name)


def lazy(name: str) -> Any:
    """A base library, or a module in it, to be imported at its first use to save start-up time."""
    return _Library(name)


def loaded(name: str) -> Any:
    """Import the module; if it is missing, raise an error of one line with the remedy."""
    try:
        return importlib.import_module(name)
    except ImportError as wrong:
        library = name.partition(".")[0]
        if library in _EXTRAS:
            use, extra = _EXTRAS[library]
            target = library if extra is None else f"'metricldp[{extra}]'"
            text = f"{use} {library} ({wrong}); run python -m pip install {target}"
        else:
            text = (
                f"metricldp depends on {library}, which is missing ({wrong}); "
                "run python -m pip install metricldp"
            )
        raise MissingDependencyError(text, name=library) from None


def require(extra: str) -> None:
    """Raise an error before long work if a library of the extra is missing."""
    for library, (_, installed_by) in _EXTRAS.items():
        if installed_by == extra:
            loaded(library)
