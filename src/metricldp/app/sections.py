"""What `explain` says, cut into parts that a page or a notebook can lay out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metricldp.basics.markup import beside, table

PLAN, BESIDE = "Plan", "Beside others"
_LABELS = {
    "promise": "Promise",
    "accuracy": "Accuracy",
    "attacker": "An attacker",
    "bin edges": "At the edges of bins",
    "rounding": "Rounding",
    "again": "Asked again",
    "plan": PLAN,
    "beside": BESIDE,
}
"""What the text calls the lines of an attribute, and what a page does."""


@dataclass(frozen=True)
class Part:
    """One attribute: what it is, and lines under a few heads."""

    head: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Explained:
    """All of it: what it is about, what the words mean, every attribute, and all of them."""

    title: str
    preface: str
    warnings: tuple[str, ...]
    parts: tuple[Part, ...]
    together: str
    people: int
    """Whom errors are for."""

    def to_html(self) -> str:
        """A small table for each attribute, for a notebook."""
        weak = [f"Warning: {line}." for line in self.warnings]
        tables = [
            table(
                [(label, "\n".join(said)) for label, said in part.lines],
                caption=part.head,
                head=False,
                left=2,
            )
            for part in self.parts
        ]
        above = [self.title, self.preface, *weak]
        return beside(*tables, above=above, below=[self.together])


def cut(text: str, warnings: Sequence[str], people: int) -> Explained:
    first, *middle, last = text.split("\n\n")
    title, *lines = first.split("\n")
    preface, _, _ = " ".join(lines).partition(" Warning: ")
    parts = tuple(_part(some) for some in middle)
    last = " ".join(last.split("\n"))
    return Explained(title, preface, tuple(warnings), parts, last, people)


def _part(text: str) -> Part:
    head, *lines = text.split("\n")
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        label = next((name for name in _LABELS if line.startswith(f"  {name:<9} ")), None)
        if label is not None:
            found.append((_LABELS[label], [line[12:].strip()]))
        elif line.startswith(" " * 14) and found:
            found[-1][1][-1] += f" {line.strip()}"
        elif found:
            found[-1][1].append(line.strip())
    return Part(head, tuple((label, tuple(said)) for label, said in found))
