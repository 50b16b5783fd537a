"""Where-clauses put together: all of them, any of them, none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.estimate import expression

ALL, ANY, NONE = "all", "any", "none"


@dataclass(frozen=True)
class Condition:
    """People who meet all, any or none of some where-clauses."""

    kind: str
    parts: tuple[Where, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise QueryError(f"{self.kind}_of takes where-clauses, at least one")
        for part in self.parts:
            if not isinstance(part, Mapping | Condition | str):
                raise QueryError(
                    f"{self.kind}_of takes where-clauses such as '18 <= age <= 29', "
                    f"not {shown(part)}"
                )


Where = str | Mapping[str, Any] | Condition
"""A text such as "18 <= age <= 29"; or attribute to a value, `between` or a list of those; or
several such clauses with `any_of`, `all_of` and `none_of`."""


class Between(NamedTuple):
    """A range of values; None is an open end."""

    low: Any
    high: Any


def between(low: Any, high: Any) -> Between:
    """The values from low to high, both included: `{"age": between(18, 29)}`; None is open."""
    return Between(low, high)


def any_of(*wheres: Where) -> Condition:
    """People who meet one or more: `any_of({"age": (18, 29)}, {"region": "north"})`."""
    return Condition(ANY, wheres)


def all_of(*wheres: Where) -> Condition:
    """People who meet every one of some where-clauses."""
    return Condition(ALL, wheres)


def none_of(*wheres: Where) -> Condition:
    """Everybody who meets none of some where-clauses, those who left an answer out included."""
    return Condition(NONE, wheres)


def check_mapping(where: object) -> None:
    """Raise an error if a condition that is neither a text nor a Condition is not a mapping."""
    if not isinstance(where, Mapping):
        example = "{'age': between(18, 29), 'region': 'north'}"
        raise QueryError(
            f"a condition is a text such as \"18 <= age <= 29 and region == 'north'\", or maps "
            f"attributes to ranges or values, such as {example}, not {shown(where)}"
        )


def entries_in(where: Where) -> list[tuple[str, Any]]:
    """Every attribute that is named in a where-clause, with what is asked of it there."""
    if isinstance(where, str):
        return expression.entries(where)
    if not isinstance(where, Condition):
        check_mapping(where)
        return list(where.items())
    return [entry for part in where.parts for entry in entries_in(part)]


def attributes_in(where: Where) -> list[str]:
    """The attributes that a where-clause is about, each once."""
    return list(dict.fromkeys(name for name, _ in entries_in(where)))
