"""Survey files: plain data as TOML, for people, and as JSON, for programs."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from metricldp.basics.checks import flag
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.optional import lazy
from metricldp.basics.text import shown
from metricldp.basics.writing import near_file, path_of, replacing, why_not

tomli_w = lazy("tomli_w")


def to_toml(data: dict[str, Any]) -> str:
    return str(tomli_w.dumps(data))


MOST_KEY_PARTS = 64
"""Dots in one key of TOML; reading takes the square of them in time and memory."""
LONGEST_TEXT = 1 << 24
"""Letters of a file."""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*+){{{MOST_KEY_PARTS}}}")


def from_toml(text: str) -> dict[str, Any]:
    _check_text(text)
    if _LONG_KEY.search(text):
        raise InvalidSpecError(f"not a TOML file: a key has more than {MOST_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise InvalidSpecError(f"not a TOML file: {wrong}") from None


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidSpecError(f"a survey is read from a text, not from {shown(text)}")
    if len(text) > LONGEST_TEXT:
        raise InvalidSpecError(f"{len(text):,} letters are too many; use at most {LONGEST_TEXT:,}")


def to_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str) -> Any:
    _check_text(text)
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as wrong:
        raise InvalidSpecError(f"not a JSON file: {wrong}") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table without a key that stands twice: languages differ in which of the two they take."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shown(name)} occurs twice in one object")
        found[name] = value
    return found


def in_file(path: str | Path, wrong: InvalidSpecError) -> InvalidSpecError:
    """The same error with the name of the file in front, once."""
    text = str(wrong)
    return wrong if text.startswith(f"{path}: ") else InvalidSpecError(f"{path}: {text}")


def write(
    data: dict[str, Any],
    name: str | Path,
    what: str,
    *,
    json_only: bool = False,
    overwrite: bool = True,
    toml: str | None = None,
) -> None:
    """In the form that the ending of the name says; `toml` is the data with comments."""
    path = path_of(name, InvalidSpecError)
    if not flag("overwrite", overwrite, InvalidSpecError) and os.path.isfile(path):  # noqa: PTH113 - no error
        raise InvalidSpecError(f"{path} exists already; pass overwrite=True to replace it")
    endings = [".json"] if json_only else [".toml", ".json"]
    with replacing(path, InvalidSpecError, what, endings) as file:
        text = to_json(data) if path.suffix.lower() == ".json" else toml or to_toml(data)
        file.write(text.encode("utf-8"))


def read(name: str | Path, what: str, *, json_only: bool = False) -> Any:
    path = path_of(name, InvalidSpecError)
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as wrong:
        why = "not a text file" if isinstance(wrong, UnicodeDecodeError) else why_not(wrong)
        if isinstance(wrong, FileNotFoundError):
            why += near_file(path)
        if isinstance(wrong, IsADirectoryError):
            why += f"; name a {'' if json_only else '.toml or '}.json file"
        raise InvalidSpecError(f"cannot read the {what} {path}: {why}") from None
    try:
        return from_json(text) if json_only or path.suffix.lower() == ".json" else from_toml(text)
    except InvalidSpecError as wrong:
        raise InvalidSpecError(f"{path}: {wrong}") from None
