"""How near a survey's channels are to the best that any mechanism can do under their metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricldp.attributes.answered import label
from metricldp.basics.errors import QueryError
from metricldp.basics.text import table
from metricldp.mechanisms.auto import mean_variance, variance_of
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.joint_cells import Cells
from metricldp.mechanisms.limits import MAX_LIMITED, limit
from metricldp.mechanisms.stated import (
    GIVEN,
    MARGINS,
    checked_prior,
    checked_workload,
    workload_of,
)
from metricldp.mechanisms.workloads import Workload
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block

_MOST_CELLS = 64
"""Cells up to which a limit is found in a minute or so: they have more pairs than a line."""


@dataclass(frozen=True)
class Nearness:
    """The root of the mean squared error of an attribute's questions, and what none is below."""

    attribute: str
    mechanism: str
    workload: str
    n: int
    error: float
    limit: float
    exact: bool
    """Whether the limit is what the best channel has; else it may be too small."""

    @property
    def room(self) -> float:
        """How much smaller the error could be at most, as a share."""
        return 1 - self.limit / self.error

    def to_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**found, "room": self.room}


@dataclass(frozen=True)
class Limits:
    """An entry for each attribute that has a limit, and why others have none."""

    entries: tuple[Nearness, ...]
    without: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"limits": [entry.to_dict() for entry in self.entries], "without": self.without}

    def __str__(self) -> str:
        rows = [("attribute", "mechanism", "workload", "bound", "error", "lower bound", "gap")]
        for e in self.entries:
            numbers = f"{e.error:,.4g}", f"{e.limit:,.4g}", f"{e.room:.1%}"
            how = "exact" if e.exact else "relaxation"
            rows.append((label(e.attribute), e.mechanism, e.workload, how, *numbers))
        lines = [table(rows, left=4)] if self.entries else []
        if self.entries:
            lines.append(
                f"Root mean squared errors of the workload, in people, for {self.entries[0].n:,} "
                "respondents. No mechanism\nwith the same metric, unbiased estimates and one "
                "report of each respondent has an error\nbelow the lower bound."
            )
            if not all(e.exact for e in self.entries):
                lines.append("A bound from a relaxation is valid, but may not be attainable.")
        return "\n".join([*lines, *(f"{label(name)}: {why}" for name, why in self.without.items())])


@dataclass(frozen=True)
class Made:
    """The mechanisms of a designed survey, and how searches for extremal mixtures ended."""

    entries: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, survey: Agreement) -> Made:
        return cls(tuple(_made(survey, name) for name in (*survey.channels, *survey.blocks)))

    def to_dict(self) -> dict[str, Any]:
        return {"made": list(self.entries)}

    def __str__(self) -> str:
        rows = [("attribute", "mechanism", "workload", "values", "bits")]
        for e in self.entries:
            words = (label(e["attribute"]), e["mechanism"], e["workload"] or "")
            rows.append((*words, f"{e['values']:,}", f"{e['bits']:,}"))
        return "\n".join([table(rows, left=3), *(_ending(e) for e in self.entries if "gap" in e)])


def _made(survey: Agreement, name: str) -> dict[str, Any]:
    own: Any
    if (block := survey.blocks.get(name)) is not None:
        own, bits, size = block.mechanism, block.channel.bits, math.prod(block.sizes)
    else:
        own, bits = survey.mechanisms[name], survey.channels[name].bits
        size = survey.attributes[name].size
    found: dict[str, Any] = {
        "attribute": name,
        "mechanism": own.name,
        "workload": own.workload,
        "values": size,
        "bits": bits,
    }
    if (search := survey.searches.get(name)) is not None:
        found["proved"] = search.limit is not None
        found["gap"] = search.excess - 1
        if search.limit is not None:
            found["gap"] = search.total / search.limit - 1
    return found


def _ending(entry: dict[str, Any]) -> str:
    head, gap = f"{label(entry['attribute'])}:", f"{max(entry['gap'], 0):.2g}"
    if entry["proved"]:
        return f"{head} no mean squared error is smaller by more than a fraction of {gap} (proved)"
    return (
        f"{head} the search found none that is smaller by more than a fraction of {gap}; no proof"
    )


def limits(survey: Agreement, n: int = 10_000) -> Limits:
    """Of every attribute: for the questions and the people that its mechanism was made for."""
    if n < 1:
        raise QueryError(f"n is the number of respondents, at least 1, not {n}")
    found, without = [], {}
    together = {name: block.name for block in survey.blocks.values() for name in block.names}
    for name in dict.fromkeys(together.get(name, name) for name in survey.attributes):
        try:
            found.append(nearness(survey, name, n=n))
        except QueryError as why:
            without[name] = str(why)
    return Limits(tuple(found), without)


def nearness(
    survey: Agreement, name: str, *, workload: Any = None, prior: Any = None, n: int = 10_000
) -> Nearness:
    """Of one attribute, for a workload and a prior; what its mechanism was made for if unsaid.

    A block of attributes over the cells of a grid is called by their names joined with +.
    """
    if isinstance(name, str) and name in survey.blocks:
        return _of_block(survey, survey.blocks[name], workload, prior, n)
    attribute, channel = attribute_of(survey, name), survey.channels.get(name)
    if attribute.kind == "weight" or not isinstance(channel, Channel):
        block = survey.block_of(name)
        if block is not None:
            raise QueryError(
                f"{name} is in a group; `metricldp lab limit` computes the bound of {block.name}"
            )
        raise QueryError(f"{label(name)} has no mechanism of its own, so no lower bound")
    _check_few(attribute.size, "values")
    own = survey.mechanisms[name]
    made_for = None if own.workload == GIVEN else own.workload
    asked = made_for if workload is None else workload
    asked = checked_workload(asked, attribute.size, attribute.ordered)
    spread = checked_prior(getattr(own, "prior", None) if prior is None else prior, attribute.size)
    weights = None if spread is None else np.array(spread)
    questions = workload_of(asked, attribute.size)
    least = limit(attribute.size, survey.problems[name].metric, questions.gram(), weights)
    return Nearness(
        name,
        own.name,
        asked if isinstance(asked, str) else "custom",
        n,
        math.sqrt(n * mean_variance(channel, asked, spread)),
        math.sqrt(n * max(0.0, variance_of(least.total, questions, weights))),
        least.exact,
    )


def _of_block(survey: Agreement, block: Block, workload: Any, prior: Any, n: int) -> Nearness:
    """Ranges of all attributes at once, say, and people spread evenly over cells."""
    channel, own = block.channel, block.mechanism
    if not isinstance(channel, Cells) or block.grid is None:
        raise QueryError(
            "lower bounds of groups are computed for additive, extremal and tight-constraints, not "
            f"for {own.name}"
        )
    if prior is not None:
        raise QueryError(f"the lower bound of {block.name} is for a uniform prior; leave prior out")
    cells = math.prod(block.sizes)
    if cells > _MOST_CELLS:
        raise QueryError(
            f"lower bounds are computed for up to {_MOST_CELLS} cells, not {cells:,}; use a "
            "coarser grid"
        )
    ordered = [survey.attributes[name].ordered for name in block.names]
    asked = own.workload if workload is None else workload
    if asked is None or (workload is None and asked == GIVEN):
        asked = "ranges" if any(ordered) else "values"
    if not isinstance(asked, str) or asked in (GIVEN, MARGINS, "mean"):
        raise QueryError(
            f"the lower bound of {block.name} is for ranges, prefixes, values or bars of each"
        )
    sides = zip(block.sizes, ordered, strict=True)
    parts = [workload_of(asked if is_ordered else "values", size) for size, is_ordered in sides]
    questions = Workload.product(parts)
    gram = questions.gram()
    least = limit(cells, block.grid, gram)
    return Nearness(
        block.name,
        own.name,
        asked,
        n,
        math.sqrt(n * variance_of(channel.one.moments.mean_square(gram), questions, None)),
        math.sqrt(n * max(0.0, variance_of(least.total, questions, None))),
        least.exact,
    )


def _check_few(size: int, what: str) -> None:
    if size > MAX_LIMITED:
        raise QueryError(f"lower bounds are computed for up to {MAX_LIMITED} {what}, not {size:,}")
