"""What stands after a command: numbers as people write them, and files in their order."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from metricldp.answers.partition import Parted
from metricldp.app.terminal import watched
from metricldp.basics.errors import QueryError
from metricldp.basics.progress import Progress
from metricldp.design.shapes import watching
from metricldp.estimate.source import EXAMPLE
from metricldp.survey.agreement import Agreement

CONDITION_HELP = "a condition in quotes, such as \"18 <= age <= 29 and region == 'north'\""
SURVEYS = (".toml", ".json")
_PEOPLE = ".csv"
_COLLECTED = (".parquet", ".pq", ".totals")


_COMPARES = re.compile(r"[=<>≤≥≠]|\s(in|is)\s")

Typed = str | float
"""A word, or the default of an option, which goes through its parser, too."""


def number(text: Typed) -> float:
    """10000, 1e4, 10_000 or 10,000."""
    try:
        found = float(str(text).replace(",", ""))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise typer.BadParameter(f"{text!r} is not a number such as 2500 or 1e6")
    return found


def whole(text: Typed) -> int:
    """The same without a fraction, however many digits it has."""
    try:
        return int(str(text).replace(",", ""))
    except ValueError:
        found = number(text)
    if found != int(found):
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(found)


def several(text: Typed) -> int:
    """A whole number from 1 on."""
    found = whole(text)
    if found < 1:
        raise typer.BadParameter(f"{text!r} is not a whole number from 1 on")
    return found


def share(text: Typed) -> float:
    """0.95 or 95%."""
    digits = str(text).removesuffix("%")
    return number(digits) / 100 if digits != str(text) else number(digits)


def is_condition(word: str) -> bool:
    """Whether a word of the command line compares something, and so is not a name or a number."""
    return bool(_COMPARES.search(word))


def only_condition(words: Sequence[str]) -> str | None:
    """The condition of a command, if there is one."""
    if len(words) > 1:
        raise QueryError(
            f"a command takes one condition, not {len(words)}; join them with and, in quotes: "
            f"{EXAMPLE!r}"
        )
    return words[0] if words else None


def survey_in(path: Path) -> Agreement:
    """The survey of a file; other files and conditions in its place are told to move."""
    if path.suffix in (_PEOPLE, *_COLLECTED) or (is_condition(str(path)) and not path.exists()):
        raise QueryError(f"{path} is not a survey; that, a .toml or .json file, comes first")
    with designing():
        return Parted.load(path)


@contextlib.contextmanager
def designing() -> Iterator[None]:
    """Where shapes have to be searched for, a bar shows how far that is."""
    with contextlib.ExitStack() as bars:
        bar: list[Progress] = []

        def progress(done: float) -> None:
            if not bar:
                bar.append(bars.enter_context(watched("designing")))
            bar[0](done)

        before = watching.set(progress)
        try:
            yield
        finally:
            watching.reset(before)


def check_order(
    survey: Agreement, reports: Path, attribute: str | None, words: Sequence[str], usage: str
) -> None:
    """Whether the words of a question stand where they should, before anything is read."""
    if reports.suffix == _PEOPLE:
        raise QueryError(
            f"{reports} holds people, not reports; encode them first: "
            f"metricldp encode SURVEY {reports} -o reports.parquet"
        )
    if reports.suffix in SURVEYS:
        raise QueryError(f"{reports} is a survey; reports come after it: {usage}")
    asks = is_condition(str(reports)) or reports.name in survey.attributes
    if asks and not reports.exists():
        raise QueryError(f"{reports} is not a file of reports, which come second: {usage}")
    for word in words if attribute is None else (attribute, *words):
        if word not in survey.attributes and Path(word).suffix in (*SURVEYS, *_COLLECTED):
            raise QueryError(f"{word} is a file, which comes before what is asked: {usage}")
    if attribute is None or attribute in survey.attributes:
        return
    if is_condition(attribute) or any(word in survey.attributes for word in words):
        raise QueryError(f"{attribute!r} is not an attribute, which comes third: {usage}")
