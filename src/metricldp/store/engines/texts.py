"""The SQL of what engines are asked, readable, in the words of each dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from metricldp.store.engines.base import REPORTS, SQUARES, WEIGHT, Ones


class Dialect(NamedTuple):
    """Where SQL differs: the quotes of names, and the XOR of two integers."""

    quote: str
    xor: str

    def name(self, name: str) -> str:
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"


DUCKDB = Dialect('"', "xor({}, {})")
SPARK = Dialect("`", "({} ^ {})")


def group_by(
    columns: Sequence[str], source: str, dialect: Dialect, weight: str | None = None
) -> str:
    """How many rows have each combination of values, and how much weight."""
    names = [dialect.name(column) for column in columns]
    wanted = [*names, f"COUNT(*) AS {dialect.name(REPORTS)}"]
    if weight is not None:
        said = f"CAST({dialect.name(weight)} AS DOUBLE)"
        wanted.append(f"SUM({said}) AS {dialect.name(WEIGHT)}")
        wanted.append(f"SUM({said} * {said}) AS {dialect.name(SQUARES)}")
    last = f"\nGROUP BY {', '.join(names)}" if names else ""
    return f"SELECT {', '.join(wanted)}\nFROM {source}{last}"


def counted_ones(asked: Sequence[Ones], source: str, dialect: Dialect) -> str:
    """One row with a count of ones for each question."""
    sums = [f"SUM(BIT_COUNT({_word(ones, dialect)})) AS n{k}" for k, ones in enumerate(asked)]
    return f"SELECT {', '.join(sums)}\nFROM {source}"


def _word(ones: Ones, dialect: Dialect) -> str:
    parts = [dialect.xor.format(dialect.name(a), dialect.name(b)) for a, b in ones.masks]
    if ones.flips:
        flipped = dialect.name(ones.flips[0])
        for name in ones.flips[1:]:
            flipped = dialect.xor.format(flipped, dialect.name(name))
        parts.append(flipped)
    return " & ".join(parts)


def outside(column: str, low: float, high: float, source: str, dialect: Dialect) -> str:
    """How many rows have a number that is not between the two, or none."""
    name, low_text, high_text = dialect.name(column), repr(float(low)), repr(float(high))
    inside = f"{name} IS NOT NULL AND {name} >= {low_text} AND {name} <= {high_text}"
    return f"SELECT COUNT(*) AS n\nFROM {source}\nWHERE NOT ({inside})"


def largest(column: str, count: int, source: str, dialect: Dialect) -> str:
    """The largest few values of a column."""
    name = dialect.name(column)
    return f"SELECT {name}\nFROM {source}\nORDER BY {name} DESC\nLIMIT {int(count)}"
