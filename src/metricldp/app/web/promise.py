"""The promise of a survey in words, cut into what a page can lay out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from metricldp.app.explain import explain
from metricldp.survey.agreement import Agreement

_LABELS = {
    "promise": "Promise",
    "accuracy": "Accuracy",
    "attacker": "An attacker",
    "bin edges": "At the edges of bins",
    "rounding": "Rounding",
}
"""What is shown of an attribute, and how it is called there."""
_PEOPLE = 10_000


@dataclass(frozen=True)
class Part:
    """One attribute: what it is, and lines under a few heads."""

    head: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Promise:
    """All of it: what the words mean, every attribute, and all of them together."""

    preface: str
    warnings: tuple[str, ...]
    parts: tuple[Part, ...]
    together: str
    people: int = _PEOPLE


@lru_cache(maxsize=64)
def promise(survey: Agreement) -> Promise:
    """What `metricldp explain` says, found once for each survey."""
    found = explain(survey, _PEOPLE)
    first, *middle, last = found.text.split("\n\n")
    _, *lines = first.split("\n")
    preface, _, _ = " ".join(lines).partition(" Warning: ")
    parts = tuple(_part(text) for text in middle)
    return Promise(preface, tuple(found.warnings), parts, " ".join(last.split("\n")))


def _part(text: str) -> Part:
    head, *lines = text.split("\n")
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        label = next((name for name in _LABELS if line.startswith(f"  {name:<9} ")), None)
        if label is not None:
            found.append((_LABELS[label], [line[12:].strip()]))
        elif line.startswith(" " * 14) and found:
            found[-1][1][-1] += f" {line.strip()}"
        elif line[2:3].strip() and line[2:12].strip() in ("plan", "beside"):
            found.append(("", [line[12:].strip()]))
        elif found:
            found[-1][1].append(line.strip())
    return Part(head, tuple((label, tuple(said)) for label, said in found if label))
