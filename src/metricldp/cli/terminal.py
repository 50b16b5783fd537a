"""What commands print: text or JSON on standard output, warnings and errors in one line."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from typing import Any, NoReturn


def show(data: dict[str, Any], text: str, as_json: bool) -> None:
    """Print text, or the same as JSON."""
    if as_json:
        print(json.dumps(data, indent=2, ensure_ascii=not _is_unicode(sys.stdout)))
    else:
        print(text)


def warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print one line on standard error; a warning without its place in the code."""
    print(f"metricldp: {message}", file=sys.stderr)


def fail(message: str, code: int = 2) -> NoReturn:
    """Print an error and exit; an error with a caret below an expression keeps its lines."""
    lines = [line.rstrip() for line in message.splitlines()]
    warn("\n".join(lines) if any(line.strip() == "^" for line in lines) else " ".join(lines))
    sys.exit(code)


def discard_output() -> None:
    """Discard what a full or closed standard output did not take, so that exit does not fail."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_REPLACEMENTS = {"±": "+-", "×": "x", "·": "*", "–": "-", "²": "^2", "ε": "epsilon"}
"""Of signs that a terminal may not show; other letters become codes."""


def adapt_to_terminal() -> None:
    """Replace letters that the encoding of the terminal does not have."""

    def replaced(wrong: UnicodeError) -> tuple[str, int]:
        assert isinstance(wrong, UnicodeEncodeError)
        letters = wrong.object[wrong.start : wrong.end]
        codes = (
            _REPLACEMENTS.get(x) or x.encode("ascii", "backslashreplace").decode() for x in letters
        )
        return "".join(codes), wrong.end

    codecs.register_error("metricldp.replace", replaced)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller; its number must not be used again
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and not _is_unicode(stream):
            stream.reconfigure(errors="metricldp.replace")


def _is_unicode(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")
