"""What a survey promises, in words and numbers that an owner and an analyst can both check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from metricldp.attributes import Attribute, Continuous, Integer, Ordinal
from metricldp.channels import Channel
from metricldp.error import predicted
from metricldp.errors import QueryError
from metricldp.metrics import Line
from metricldp.queries import Query
from metricldp.reports import packed_size
from metricldp.survey import Survey
from metricldp.values import plain


@dataclass(frozen=True)
class Explanation:
    """The text, and the same numbers as data."""

    text: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a program."""
        return self.data


def explain(survey: Survey, n: int) -> Explanation:
    """Every attribute's promise and accuracy, then the survey's as a whole."""
    if n < 1:
        raise QueryError(f"explain needs at least one person, not n = {n}")
    size = packed_size(survey)
    width = float(sum(_widest(a) for a in survey.attributes.values()))
    lines = [
        f"Survey {survey.fingerprint[:16]}: {_plural(len(survey.attributes), 'attribute')}, "
        f"{size} bytes per report, errors for {n:,} people.",
        "Each person's device blurs her values before anything leaves it. The promise: whatever is",
        "sent, no value explains it more than e^E times better than another, E their distance.",
    ]
    described = []
    for name, attribute in survey.attributes.items():
        entry = _entry(survey, name, n)
        described.append(entry)
        lines += ["", *_attribute_lines(name, attribute, survey.channels[name], entry)]
    lines += [
        "",
        "Together: distances add up over attributes. Two people who differ as much as possible in",
        f"everything are at epsilon {width:.4g}; that, and not a single epsilon above, is the",
        "figure to compare with plain epsilon-LDP. Sending a second report spends it all again.",
    ]
    data = {
        "survey": survey.fingerprint,
        "n": n,
        "bytes_per_report": size,
        "effective_epsilon": width,
        "attributes": described,
    }
    return Explanation("\n".join(lines), data)


def _entry(survey: Survey, name: str, n: int) -> dict[str, Any]:
    attribute, channel = survey.attributes[name], survey.channels[name]
    half = np.arange(attribute.size) < (attribute.size + 1) // 2
    if not isinstance(attribute.metric, Line):
        half = np.arange(attribute.size) == 0
    query = Query({name: half.astype(float)}, name)
    return {
        "attribute": name,
        "kind": attribute.kind,
        "mechanism": attribute.mechanism,
        "positions": attribute.size,
        "epsilon": attribute.epsilon,
        "per": getattr(attribute, "per", None),
        "epsilon_per_step": float(attribute.metric.step),
        "effective_epsilon": float(_widest(attribute)),
        "bits": channel.bits,
        "question": attribute.label(0, (attribute.size + 1) // 2 - 1)
        if isinstance(attribute.metric, Line)
        else attribute.label(0),
        "error_uniform": predicted(survey, query, n, "uniform"),
        "error_worst": predicted(survey, query, n, "worst"),
        "influence": channel.influence(query.functions[name]),
    }


def _attribute_lines(
    name: str, attribute: Attribute, channel: Channel, entry: dict[str, Any]
) -> list[str]:
    blurred = f"blurred by {attribute.mechanism} ({channel.bits} bits)"
    lines = [f"{name}: {_domain(attribute)}, {blurred}"]
    if isinstance(attribute.metric, Line):
        lines.append(f"  promise   epsilon {plain(attribute.epsilon)} per {_unit(attribute)}")
        for apart in _examples(attribute):
            times = _times(float(attribute.metric.step) * apart / _step(attribute))
            lines.append(f"            {name} {plain(apart)} apart: at most {times} more likely")
        lines += _width_lines(attribute, entry["effective_epsilon"])
    else:
        lines.append(
            f"  promise   any two values: at most {_times(attribute.epsilon)} more likely "
            f"(plain {plain(attribute.epsilon)}-LDP)"
        )
    if isinstance(attribute, Continuous):
        lines += _edge_lines(name, attribute)
    lines.append(
        f"  accuracy  count of {entry['question']}: ± {entry['error_uniform']:,.0f} people with "
        f"values spread evenly, ± {entry['error_worst']:,.0f} at worst"
    )
    lines.append(f"            one report moves that count by at most {entry['influence']:.3g}")
    return lines


def _width_lines(attribute: Attribute, epsilon: float) -> list[str]:
    if attribute.mechanism == "response":
        return [
            f"            response keeps more: epsilon {epsilon:.4g} for any two values, "
            f"plain {epsilon:.4g}-LDP"
        ]
    ends = f"{attribute.label(0)} against {attribute.label(attribute.size - 1)}"
    return [
        f"  at full width ({ends}) epsilon is {epsilon:.4g}:",
        "            far values can be told apart; this is not plain "
        f"{plain(attribute.epsilon)}-LDP",
    ]


def _widest(attribute: Attribute) -> Fraction:
    """The epsilon that plain local differential privacy would state for an attribute."""
    if attribute.mechanism == "response":
        return attribute.metric.step
    return attribute.metric.diameter(attribute.size)


def _edge_lines(name: str, attribute: Continuous) -> list[str]:
    step = float(attribute.metric.step)
    return [
        f"  bin edges values are kept as bins of {plain(attribute.width)}; two values a hair apart "
        f"on both sides of",
        f"            an edge are a whole bin apart: at most {_times(step)} more "
        f"likely. For any two values",
        f"            E is at most {step:.4g} x (distance / {plain(attribute.width)} + 1)",
    ]


def _domain(attribute: Attribute) -> str:
    if isinstance(attribute, Integer):
        return f"whole numbers from {plain(attribute.low)} to {plain(attribute.high)}"
    if isinstance(attribute, Continuous):
        return f"{plain(attribute.low)} to {plain(attribute.high)} in {attribute.bins} bins"
    if isinstance(attribute, Ordinal):
        return f"{attribute.size} levels from {attribute.levels[0]} to {attribute.levels[-1]}"
    return f"{attribute.size} categories"


def _unit(attribute: Attribute) -> str:
    per = getattr(attribute, "per", 1.0)
    noun = " level" if isinstance(attribute, Ordinal) else ""
    return f"{plain(per)}{noun}{'s' if noun and per != 1 else ''}"


def _step(attribute: Attribute) -> float:
    return attribute.width if isinstance(attribute, Continuous) else 1.0


def _examples(attribute: Attribute) -> list[float]:
    """One step, `per` units and twice that, as far as they fit the grid and the domain."""
    step, per = _step(attribute), float(getattr(attribute, "per", 1.0))
    widest = step * (attribute.size - 1)
    apart = {step, *(step * math.floor(k * per / step + 1e-9) for k in (1, 2))}
    return sorted(a for a in apart if step <= a <= widest)


def _times(exponent: float) -> str:
    """e^exponent in words; beyond a million the exponent says more than the digits."""
    return f"{math.exp(exponent):.3g} times" if exponent < 13 else f"e^{exponent:.4g} times"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
