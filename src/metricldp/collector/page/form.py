"""The form of a survey's page: its fields, their defaults, and the query that they describe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metricldp.answers.by import edges_for
from metricldp.answers.conditions import attributes_in
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess, listed, plain, shown
from metricldp.collector.page.query import QUERIES, Query
from metricldp.estimate.request import parameters
from metricldp.estimate.source import name_in_text
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

SHOWS = {
    "histogram": "Histogram",
    "distribution": "Distribution function and quantiles",
    "heatmap": "Heat map",
    "groups": "Comparison of groups",
    "count": "Count",
}
"""What the page can show, in the order of its menu."""
OPTIONS = ("bins", "by_bins", "estimate", "baseline", "confidence_level", "target", "malicious")
FIELDS = ("show", "attribute", "by", "where", *OPTIONS, "anytime")
RESPONDENTS = "respondents"
"""The estimate of a comparison that is a count."""
_DEFAULTS = {"confidence_level": "0.95", "target": "respondents", "malicious": "0"}
_BINS, _SIDE, _GROUPS = 25, 10, 8
"""Bins of a histogram, of a side of a heat map, and groups, at most, where none are given."""
_MOST_EXAMPLES = 60


@dataclass(frozen=True)
class Form:
    """The fields of the form, with defaults for those that are empty."""

    survey: Agreement
    fields: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, "")

    @property
    def show(self) -> str:
        """What is shown; by default a count, if conditions use all attributes."""
        if self["show"]:
            return self["show"]
        return "histogram" if self["attribute"] or self._free else "count"

    @property
    def attribute(self) -> str:
        """The attribute; by default one without a condition, with an order for a distribution."""
        names = [*self._free, *drawable(self.survey)]
        ordered = [name for name in names if self.survey.asked[name].ordered]
        return self["attribute"] or [*(ordered if self.show == "distribution" else []), *names][0]

    @property
    def by(self) -> str:
        """The second attribute; by default another one, of categories for a comparison."""
        if self["by"] and (self["by"] != self.attribute or self.show != "heatmap"):
            return self["by"]
        others = [name for name in self._free if name != self.attribute]
        others = others or [name for name in drawable(self.survey) if name != self.attribute]
        named = [name for name in others if self.survey.asked[name].named]
        return [*(named if self.show == "groups" else []), *others, self.attribute][0]

    @property
    def estimate(self) -> str:
        """What is compared: the number of respondents, a mean, or a fraction."""
        if self["estimate"]:
            return self["estimate"]
        one = attribute_of(self.survey, self.attribute)
        averaged = self.attribute != self.by and not (one.named or one.is_cyclic)
        return self.attribute if averaged else RESPONDENTS

    @property
    def _free(self) -> list[str]:
        """Attributes that the condition does not name."""
        try:
            compared = attributes_in(self["where"] or {})
        except QueryError:
            compared = []
        return [name for name in drawable(self.survey) if name not in compared]

    def query(self) -> Query:
        """The query that the form describes."""
        kind, texts = self._request()
        common = ("where", "target", "confidence_level")
        texts = {name: self[name] for name in common if self[name]} | texts
        if kind == "fraction" and self["where"]:
            texts["among"] = self["where"]
        return Query.of(QUERIES[kind], texts, self.fields)

    def _request(self) -> tuple[str, dict[str, Any]]:
        """The kind of the query, and its own parameters."""
        show, one, two = self.show, self.attribute, self.by
        if show == "count":
            return "count", {}
        if show == "histogram":
            bins = self["bins"] or default_bins(attribute_of(self.survey, one), _BINS)
            return "histogram", {"attribute": one} | ({"bins": str(bins)} if bins else {})
        if show == "distribution":
            return "cdf", {"attribute": one}
        if show == "heatmap":
            if one == two:
                raise QueryError("a heat map has two different attributes")
            return "count", {
                "by": [self._bands(one, "bins", _SIDE), self._bands(two, "by_bins", _SIDE)]
            }
        if show != "groups":
            raise QueryError(f"show is {listed(SHOWS)}, not {shown(show)}{guess(show, SHOWS)}")
        by = {"by": [self._bands(two, "by_bins", _GROUPS)]}
        if self.estimate in self.survey.attributes:
            return "mean", by | {"attribute": self.estimate}
        if self.estimate == RESPONDENTS:
            return "count", by
        return "fraction", by | {"where": self.estimate}

    def _bands(self, name: str, entry: str, most: int) -> str:
        """An attribute to group by, with the edges of a field, or of a few equal bands."""
        described = attribute_of(self.survey, name)
        bins: Any = default_bins(described, most)
        if self[entry]:
            bins = parameters(QUERIES["histogram"])["bins"].value(entry, self[entry])
        edges = edges_for(described, name, bins)
        return name if edges is None else f"{name}={','.join(map(repr, edges))}"

    def pairs(self) -> list[tuple[str, str]]:
        """The fields that differ from their defaults, for a link."""
        every = [(name, self[name]) for name in FIELDS if self[name]]
        return [(name, text) for name, text in every if _DEFAULTS.get(name) != text]


def drawable(survey: Agreement) -> list[str]:
    """The attributes that have a distribution, in the survey's order."""
    return [name for name, one in survey.asked.items() if not one.is_weight]


def default_bins(attribute: Attribute, most: int) -> int | None:
    """A number of bins of 1, 2 or 5 times a power of ten steps; None for every value."""
    if attribute.size <= most or not attribute.ordered or attribute.named:
        return None
    if getattr(attribute, "edges", None) is not None:
        return None  # equal bins would cut those of the attribute
    steps = attribute.size / most
    power = 10.0 ** math.floor(math.log10(steps))
    width = next(k * power for k in (1, 2, 5, 10) if k * power >= steps * (1 - 1e-9))
    return math.ceil(attribute.size / max(1, round(width)))


def examples(survey: Agreement) -> list[str]:
    """Conditions to choose from: a range of every attribute of numbers, and every category."""
    firsts, others = [], []
    for attribute in drawable(survey):
        one, name = survey.asked[attribute], name_in_text(attribute)
        if one.named:
            labels = [one.name_of(k) for k in range(min(one.size, _MOST_EXAMPLES))]
            first, *more = (f"{name} == {label!r}" for label in labels)
            firsts.append(first)
            others += more
        else:
            last = max(0, one.size // 2 - 1)
            ends = [plain(end) for end in (one.values_at(0)[0], one.values_at(last)[1])]
            if one.in_bins:  # with the digits that an edge needs
                ends = [one.name_of(0).partition(" to ")[0], one.until(last)]
            low, high = (end.replace(",", "") for end in ends)
            firsts.append(f"{low} <= {name} {'<' if one.in_bins else '<='} {high}")
    return [*firsts, *others][:_MOST_EXAMPLES]


def estimates(survey: Agreement) -> list[str]:
    """What a comparison can estimate in each group."""
    names = [name for name in drawable(survey) if not survey.asked[name].named]
    numbers = [name for name in names if not survey.asked[name].is_cyclic]
    return [RESPONDENTS, *numbers, *examples(survey)]
