"""How the command line talks: text or JSON out, a bar while it works, a mistake in one line."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from metricldp.basics.progress import Progress, silent


def show(data: dict[str, Any], text: str, as_json: bool) -> None:
    """The same for a program or for people."""
    if as_json:
        print(json.dumps(data, indent=2, ensure_ascii=not _shows_everything(sys.stdout)))
    else:
        print(text)


@contextlib.contextmanager
def watched(name: str) -> Iterator[Progress]:
    """A bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(name), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        yield lambda done: bar.update(task, completed=done)


def tell(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning is one line as well; where in the code it arose is nothing to a reader."""
    print(f"metricldp: {message}", file=sys.stderr)


def fail(message: str, code: int = 2) -> NoReturn:
    tell(" ".join(message.split()))
    sys.exit(code)


def drop_output() -> None:
    """What is left in a full or closed standard output must not be tried again at the end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_PLAIN = {"±": "+-", "×": "x", "·": "*", "–": "-", "²": "^2"}
"""What our own signs become where a terminal cannot show them; other letters become codes."""


def fit_the_terminal() -> None:
    """Print what a terminal of another encoding cannot show as something that it can."""

    def plainly(wrong: UnicodeError) -> tuple[str, int]:
        assert isinstance(wrong, UnicodeEncodeError)
        letters = wrong.object[wrong.start : wrong.end]
        codes = (_PLAIN.get(x) or x.encode("ascii", "backslashreplace").decode() for x in letters)
        return "".join(codes), wrong.end

    codecs.register_error("metricldp.plainly", plainly)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this; its number is not reused
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and not _shows_everything(stream):
            stream.reconfigure(errors="metricldp.plainly")


def _shows_everything(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")
