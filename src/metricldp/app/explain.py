"""What a survey promises, in words and numbers that an owner and an analyst can both check."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_UP, Context
from fractions import Fraction
from typing import Any

import numpy as np

from metricldp.answers.predict import predicted, predicted_total
from metricldp.answers.queries import Query
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import counted, plain, shown
from metricldp.design.plans import GIVEN, workload_of
from metricldp.metrics import Metric
from metricldp.reports.bytes import packed_size
from metricldp.survey.agreement import Agreement
from metricldp.survey.ledger import kept

MOST_PEOPLE = 10**15
"""More than this nobody expects."""
_MOST_NAMES = 5
_MOST_PLANNED = 1000
"""Up to so many positions the total error of a plan is found at once."""


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


def explain(survey: Agreement, n: int) -> Explanation:
    """Every attribute's promise and accuracy, then the survey's as a whole."""
    if not is_whole(n) or not 1 <= n <= MOST_PEOPLE:
        raise QueryError(
            f"explain needs a whole number of people from 1 to {MOST_PEOPLE:,}, not n = {shown(n)}"
        )
    n = int(n)
    size = packed_size(survey)
    alone = [_widest(survey, name) for name in survey.channels]
    blocks = [block.diameter / survey.share for block in survey.blocks.values()]
    width = survey.metric.join([float(part) for part in (*alone, *blocks)])
    lines = [
        f"Survey {survey.fingerprint[:16]}: {counted(len(survey.attributes), 'attribute')}, "
        f"{size} bytes per report, errors for {counted(n, 'person', 'people')}.",
        "Each person's device blurs her values before anything leaves it. The promise: whatever",
        "it sends, it would have sent with nearly the same probability had her value been another,",
        "everything else about her being the same. 'At most 3 times more likely' says how nearly:",
        "seeing the report, nobody becomes more than 3 times surer of one value against the other.",
    ]
    described = []
    for name, attribute in survey.attributes.items():
        if attribute.is_public:
            lines += ["", f"{name}: a public weight, sent in the clear; nothing is promised for it"]
            continue
        entry = _entry(survey, name, n)
        described.append(entry)
        lines += ["", *_attribute_lines(name, attribute, entry)]
    lines += ["", *_together(survey, width)]
    data = {
        "survey": survey.fingerprint,
        "n": n,
        "bytes_per_report": size,
        "metric_p": "inf" if survey.metric.p == math.inf else survey.metric.p,
        "effective_epsilon": width,
        "attributes": described,
    }
    return Explanation("\n".join(lines), data)


def _together(survey: Agreement, width: float) -> list[str]:
    p = "-infinity" if survey.metric.p == math.inf else plain(survey.metric.p)
    share = float(survey.share)
    if survey.metric.p == 1 or survey.parts == 1:
        how = "distances add up" if survey.metric.p == 1 else f"the norm L{p} joins the distances"
        joined = [f"Together: {how} over attributes. Two people who differ as much as"]
    else:
        joined = [
            f"Together: the norm L{p} joins the distances. The channels keep their sum, so each",
            f"works with {share:.3g} of its epsilon. Two people who differ as much as",
        ]
    blocks = [
        f"{' and '.join(block.names)} are blurred together: at most epsilon "
        f"{float(block.diameter) / share:.4g} for any two people."
        for block in survey.blocks.values()
    ]
    return [
        *blocks,
        *joined,
        f"possible in everything are at epsilon {width:.4g}; that, and not a single epsilon above,",
        "is the figure to compare with plain epsilon-LDP. Where attributes go together, as age and",
        "income do, a report tells of one through the other: both distances together bound that.",
        "A second report by the same person spends it all again.",
    ]


def _entry(survey: Agreement, name: str, n: int) -> dict[str, Any]:
    attribute, block = survey.attributes[name], survey.block_of(name)
    last = (attribute.size + 1) // 2 - 1 if attribute.ordered else 0
    query = Query({name: (np.arange(attribute.size) <= last).astype(float)}, name)
    return {
        "attribute": name,
        "kind": attribute.kind,
        "mechanism": survey.mechanisms[name].name,
        "positions": attribute.size,
        "epsilon": attribute.epsilon,
        "per": getattr(attribute, "per", None),
        "metric": attribute.metric_kind,
        "epsilon_per_step": float(attribute.distances.smallest(attribute.size)),
        "effective_epsilon": float(_widest(survey, name)),
        "bits": survey.channels[name].bits if block is None else block.channel.bits,
        "together_with": [] if block is None else [n for n in block.names if n != name],
        "question": attribute.label(0, last),
        "error_uniform": predicted(survey, query, n, "uniform"),
        "error_worst": predicted(survey, query, n, "worst"),
        "influence": _influence(survey, query, name),
        "n": n,
        **_plan_entry(survey, name, n),
    }


def _influence(survey: Agreement, query: Query, name: str) -> float:
    """How far one report can move an answer about an attribute."""
    block = survey.block_of(name)
    if block is None:
        return survey.channels[name].influence(query.functions[name])
    sizes = zip(block.names, block.sizes, strict=True)
    functions = [query.functions.get(n, np.ones(size))[None] for n, size in sizes]
    return float(block.channel.influence(functions)[0])


def _plan_entry(survey: Agreement, name: str, n: int) -> dict[str, Any]:
    """What a plan was made for, its total error there, and what "auto" would have instead."""
    attribute, workload = survey.attributes[name], survey.mechanisms[name].workload
    if not isinstance(workload, str):
        return {}
    found: dict[str, Any] = {"workload": workload}
    if workload == GIVEN or attribute.size > _MOST_PLANNED:
        return found
    usual = replace(attribute, mechanism="auto")
    joint = {block.names: block.mechanism for block in survey.blocks.values()}
    other = Agreement({**survey.attributes, name: usual}, metric=survey.metric, joint=joint)
    asked = workload_of(workload, attribute.size)
    found["total_error"] = predicted_total(survey, name, asked, n, "uniform")
    found["auto"] = other.mechanisms[name].name
    found["auto_total_error"] = predicted_total(other, name, asked, n, "uniform")
    return found


def _attribute_lines(name: str, attribute: Attribute, entry: dict[str, Any]) -> list[str]:
    others, bits = " and ".join(entry["together_with"]), counted(entry["bits"], "bit")
    blurred = f"blurred by {entry['mechanism']} ({bits})"
    if others:
        blurred = f"blurred together with {others} by {entry['mechanism']} ({bits} in all)"
    lines = [f"{name}: {attribute.describe()}, {blurred}"]
    metric = attribute.distances
    if metric.is_line:
        lines.append(f"  promise   epsilon {plain(attribute.epsilon)} per {_unit(attribute)}")
        for apart in _examples(attribute):
            times = _times(float(metric.per_step(attribute.size)) * apart / attribute.grid_step)
            lines.append(f"            {name} {plain(apart)} apart: at most {times} more likely")
        lines += _width_lines(attribute, entry)
    elif not metric.is_uniform:
        lines += _pair_lines(attribute, metric)
        lines += _more_lines(attribute, entry)
    else:
        lines.append(
            f"  promise   any two values: at most {_times(attribute.epsilon)} more likely "
            f"(plain {plain(attribute.epsilon)}-LDP)"
        )
        lines += _more_lines(attribute, entry)
    if attribute.in_bins:
        lines += _edge_lines(attribute)
    if not attribute.is_weight:
        lines += _accuracy_lines(entry)
    return lines + _plan_lines(entry)


def _plan_lines(entry: dict[str, Any]) -> list[str]:
    if "workload" not in entry:
        return []
    if entry["workload"] == GIVEN:
        return [
            "  plan      made for rows that were given, which the survey does not hold; where they",
            "            left a count open, every value counted a hundredth of their largest entry",
        ]
    made = f"  plan      made for all {entry['workload']}"
    if "total_error" not in entry:
        return [made]
    total, usual = entry["total_error"], entry["auto_total_error"]
    lines = [f"{made}, whose squared errors add up to {total:.3g} with values spread evenly"]
    if usual < total:
        lines.append(
            f'            that is {total / usual:.3g} times as much as with mechanism "auto", '
            f"which is {entry['auto']} here"
        )
    return lines


def _accuracy_lines(entry: dict[str, Any]) -> list[str]:
    even, worst = entry["error_uniform"], entry["error_worst"]
    lines = [
        f"  accuracy  count of {entry['question']}: ± {even:,.0f} people with values spread "
        f"evenly, ± {worst:,.0f} at worst",
        f"            one report moves that count by at most {entry['influence']:.3g}",
    ]
    if even > entry["n"] / 2:
        lines.append("            as large as the count itself: of no use with so few people")
    return lines


def _pair_lines(attribute: Attribute, metric: Metric) -> list[str]:
    """The promise of a metric that was stated in words, by its telling pairs."""
    size = attribute.size
    told = metric.telling_pairs(size, attribute.name_of)
    if metric.diameter(size) == metric.smallest(size):
        told = told[:1]
    kind, count = attribute.metric_kind.replace("-", " "), metric.generating_count(size)
    return [
        f"  promise   distances of a {kind}, by {counted(count, 'generating pair')}",
        *(f"            {what}: at most {_times(float(far))} more likely" for what, far in told),
    ]


def _more_lines(attribute: Attribute, entry: dict[str, Any]) -> list[str]:
    """What the channel keeps beyond the metric, where it is known to keep more."""
    epsilon = entry["effective_epsilon"]
    if epsilon >= float(attribute.distances.diameter(attribute.size)):
        return []
    most = f"{_up(epsilon):.4g}"
    return [
        f"            {entry['mechanism']} keeps more: epsilon {most} for any two values, "
        f"plain {most}-LDP"
    ]


def _width_lines(attribute: Attribute, entry: dict[str, Any]) -> list[str]:
    more, epsilon = _more_lines(attribute, entry), entry["effective_epsilon"]
    if more:
        return more
    ends = f"{attribute.label(0)} against {attribute.label(attribute.size - 1)}"
    if epsilon <= attribute.epsilon:
        return [f"  at full width ({ends}) epsilon is {epsilon:.4g}: plain {epsilon:.4g}-LDP"]
    return [
        f"  at full width ({ends}) epsilon is {epsilon:.4g}:",
        "            far values can be told apart; this is not plain "
        f"{plain(attribute.epsilon)}-LDP",
    ]


def _widest(survey: Agreement, name: str) -> Fraction:
    """The epsilon that plain local differential privacy would state for an attribute."""
    return kept(survey, name).diameter(survey.attributes[name].size) / survey.share


def _edge_lines(attribute: Attribute) -> list[str]:
    step, width = float(attribute.distances.per_step(attribute.size)), plain(attribute.grid_step)
    return [
        f"  bin edges values are kept as bins of {width}; two values a hair apart on both sides of",
        f"            an edge are a whole bin apart: at most {_times(step)} more "
        f"likely. For any two values",
        f"            E is at most {step:.4g} x (distance / {width} + 1)",
    ]


def _unit(attribute: Attribute) -> str:
    per = getattr(attribute, "per", 1.0)
    noun = " level" if attribute.named else ""
    return f"{plain(per)}{noun}{'s' if noun and per != 1 else ''}"


def _examples(attribute: Attribute) -> list[float]:
    """One step, `per` units and twice that, as far as they fit the grid and the domain."""
    step, per = attribute.grid_step, float(getattr(attribute, "per", 1.0))
    widest = step * (attribute.size - 1)
    apart = {step, *(step * math.floor(k * per / step + 1e-9) for k in (1, 2))}
    return sorted(a for a in apart if step <= a <= widest)


def _up(epsilon: float) -> float:
    """Four digits, rounded up: a promise says no less than what may be lost."""
    return float(Context(prec=4, rounding=ROUND_UP).create_decimal(repr(epsilon)))


def _times(exponent: float) -> str:
    """e^exponent in words, rounded up; beyond a million the exponent says more than the digits."""
    if exponent >= 13:
        return f"e^{exponent:.4g} times"
    ratio = math.exp(exponent)
    digits = (
        2 - math.floor(math.log10(ratio - 1)) if ratio < 1.1 else 2 - math.floor(math.log10(ratio))
    )
    digits = min(max(digits, 0), 12)
    return f"{math.ceil(ratio * 10**digits) / 10**digits:.{digits}f} times"
