"""How near a survey's channels are to the best that any mechanism can do under their metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.basics.text import table
from metricldp.channels.base import Channel
from metricldp.channels.cells import Cells
from metricldp.design.auto import mean_variance, variance_of
from metricldp.design.cells import gram_of_cells
from metricldp.design.limits import MOST_LIMITED, limit
from metricldp.design.plans import GIVEN, checked_prior, checked_workload, workload_of
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

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
        rows = [("attribute", "mechanism", "questions", "proof", "error", "none is below", "room")]
        for e in self.entries:
            numbers = f"± {e.error:,.4g}", f"± {e.limit:,.4g}", f"{e.room:.1%}"
            how = "all shapes" if e.exact else "relaxation"
            rows.append((e.attribute, e.mechanism, e.workload, how, *numbers))
        lines = [table(rows, left=4)] if self.entries else []
        if self.entries:
            lines.append(
                f"in people, of {self.entries[0].n:,}: the root of the mean squared error of the "
                "questions. No mechanism\nthat keeps the same metric and decodes without bias, one "
                "report a person, has a smaller one."
            )
            if not all(e.exact for e in self.entries):
                lines.append("Limits from a relaxation hold, too, but the best may be above them.")
        return "\n".join([*lines, *(f"{name}: {why}" for name, why in self.without.items())])


@dataclass(frozen=True)
class Made:
    """What a survey's mechanisms are, and how the searches for them ended."""

    entries: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, survey: Agreement) -> Made:
        return cls(tuple(_made(survey, name) for name in (*survey.channels, *survey.blocks)))

    def to_dict(self) -> dict[str, Any]:
        return {"made": list(self.entries)}

    def __str__(self) -> str:
        rows = [("attribute", "mechanism", "made for", "values", "bits")]
        for e in self.entries:
            words = (e["attribute"], e["mechanism"], e["workload"] or "")
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
    search = getattr(getattr(own, "of", own), "search", None)
    if search is not None:
        found["proved"] = search.limit is not None
        found["gap"] = search.excess - 1
        if search.limit is not None:
            found["gap"] = search.total / search.limit - 1
    return found


def _ending(entry: dict[str, Any]) -> str:
    head, gap = f"{entry['attribute']}:", f"{max(entry['gap'], 0):.2g}"
    if entry["proved"]:
        return (
            f"{head} no channel has an error that is smaller by more than a share of {gap}, proved"
        )
    return f"{head} the search found nothing better by more than a share of {gap}; no proof"


def limits(survey: Agreement, n: int = 10_000) -> Limits:
    """Of every attribute: for the questions and the people that its mechanism was made for."""
    if n < 1:
        raise QueryError(f"n is how many people are expected, at least 1, not {n}")
    found, without = [], {}
    alone = [name for name in survey.attributes if survey.block_of(name) is None]
    for name in (*alone, *survey.blocks):
        try:
            one = joint_nearness if name in survey.blocks else nearness
            found.append(one(survey, name, n=n))
        except QueryError as why:
            without[name] = str(why)
    return Limits(tuple(found), without)


def nearness(
    survey: Agreement, name: str, *, workload: Any = None, prior: Any = None, n: int = 10_000
) -> Nearness:
    """Of one attribute, for a workload and a prior; what its mechanism was made for if unsaid."""
    attribute, channel = attribute_of(survey, name), survey.channels.get(name)
    if attribute.kind == "weight" or not isinstance(channel, Channel):
        block = survey.block_of(name)
        if block is not None:
            raise QueryError(
                f"{name} is blurred together with others; metricldp limit has the limit of "
                f"{block.name}"
            )
        raise QueryError(f"{name} has no channel of its own, so no limit of its own")
    if attribute.size > MOST_LIMITED:
        raise QueryError(
            f"limits are found for up to {MOST_LIMITED} values, not {attribute.size:,}"
        )
    own = survey.mechanisms[name]
    made_for = None if own.workload == GIVEN else own.workload
    asked = made_for if workload is None else workload
    asked = checked_workload(asked, attribute.size, attribute.ordered)
    spread = checked_prior(getattr(own, "prior", None) if prior is None else prior, attribute.size)
    weights = None if spread is None else np.array(spread)
    questions = workload_of(asked, attribute.size)
    least = limit(attribute.size, survey.kept[name], questions.gram(), weights)
    return Nearness(
        name,
        own.name,
        asked if isinstance(asked, str) else "of your own",
        n,
        math.sqrt(n * mean_variance(channel, asked, spread)),
        math.sqrt(n * max(0.0, variance_of(least.total, questions, weights))),
        least.exact,
    )


def joint_nearness(survey: Agreement, name: str, *, n: int = 10_000) -> Nearness:
    """Of attributes that are blurred together as the cells of a grid, people spread evenly."""
    block = survey.blocks[name]
    own, cells, channel = block.mechanism, math.prod(block.sizes), block.channel
    if own.grid is None or not isinstance(channel, Cells):
        raise QueryError(
            f"limits are found for shaped, designed and tents over cells, not for {own.name}"
        )
    if cells > _MOST_CELLS:
        raise QueryError(
            f"limits are found for up to {_MOST_CELLS} cells, not {cells:,}; try a coarser grid to "
            "see how near it is"
        )
    ordered = [survey.attributes[one].ordered for one in block.names]
    usual = "ranges" if any(ordered) else "values"
    asked = usual if own.workload in (None, GIVEN) else own.workload
    gram, count = gram_of_cells(asked, own.grid, ordered)
    known = float(np.trace(gram)) / cells
    least = limit(cells, own.grid, gram)
    variances = (channel.one.mean_square(gram) - known) / count, (least.total - known) / count
    error, lowest = (math.sqrt(n * max(0.0, variance)) for variance in variances)
    return Nearness(name, own.name, asked, n, error, lowest, least.exact)
