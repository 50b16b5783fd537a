"""Libraries that may be missing and are slow to load: imported when first used, not before.

A file that needs one says so at its top, and its functions use it as if it had been imported:

    if TYPE_CHECKING:
        import pyarrow as pa
    else:
        pa = optional("pyarrow")
"""

from __future__ import annotations

import importlib
from typing import Any

from metricldp.basics.errors import MissingLibrary

_NEEDED = {
    "apsw": ("a collector needs", "[serve]"),
    "jinja2": ("pages need", "[serve]"),
    "confluent_kafka": ("a log in Kafka needs", "[kafka]"),
    "duckdb": ("engine='duckdb' needs", "[duckdb]"),
    "markupsafe": ("pages need", "[serve]"),
    "matplotlib": ("pictures need", "[plot]"),
    "narwhals": ("tables of people need", ""),
    "pandas": ("a table for pandas needs", None),
    "polars": ("a table for polars, or engine='polars', needs", "[polars]"),
    "pyarrow": ("tables and files of reports need", ""),
    "psycopg": ("a collector on Postgres needs", "[postgres]"),
    "pyspark": ("engine='spark' needs", "[spark]"),
    "rich": ("the command line needs", "[cli]"),
    "scipy": ("designing a matrix mechanism, or checking simulated answers, needs", "[design]"),
    "threadpoolctl": ("designing a matrix mechanism needs", "[design]"),
    "starlette": ("a collector needs", "[serve]"),
    "typer": ("the command line needs", "[cli]"),
    "uvicorn": ("a collector needs", "[serve]"),
}
"""What each library is for, and the extra that installs it: "" is the package, None itself."""


class _Library:
    """A module that is imported at the first look inside."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        found = getattr(loaded(self._name), attribute)
        setattr(self, attribute, found)
        return found


def optional(name: str) -> Any:
    """A library of those above, or a module in one, to be imported when it is first used."""
    return _Library(name)


def loaded(name: str) -> Any:
    """The module itself, or one line that says what it is for and how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as wrong:
        library = name.partition(".")[0]
        use, extra = _NEEDED[library]
        wanted = library if extra is None else f"'metricldp{extra}'"
        raise MissingLibrary(
            f"{use} {library} ({wrong}); run python -m pip install {wanted}",
            name=library,
        ) from None
