"""What a survey promises, in words and numbers that an owner and an analyst can both check."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from metricldp.answers.liars import one_report
from metricldp.answers.predict import predicted, predicted_total
from metricldp.answers.queries import Query, if_answered
from metricldp.app.sections import cut
from metricldp.app.words import memory_entry, of_block, of_margin, of_memory, of_ratios
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import counted, plain, shown
from metricldp.design.auto import mean_variance, without_search
from metricldp.design.plans import GIVEN, workload_of
from metricldp.lab import risk
from metricldp.metrics import Metric
from metricldp.reports.bytes import packed_size
from metricldp.survey.agreement import Agreement
from metricldp.survey.strength import (
    against_no_answer,
    from_no_answer,
    grade,
    legend,
    rounded,
    times,
    together,
    unit_of,
    up,
    warnings_of,
    widest,
)

MOST_PEOPLE = 10**15
"""More than this nobody expects."""
_WIDTH = 95
"""Letters in a line of running text; lines about an attribute may be a little longer."""
_MOST_PLANNED = 1000
_OF_SHAPES = ("shaped", "designed", "tents")
"""Up to so many positions the total error of a plan is found at once."""
_PREFACE = (
    "Each person's device blurs their values before anything leaves it. The promise says how much "
    "more likely one value may make a report than another value, all else being equal. 'At most 3 "
    "times as likely': whoever sees the report becomes at most 3 times surer of one value against "
    "the other."
)


@dataclass(frozen=True, repr=False)
class Explanation:
    """The text, and the same numbers as data."""

    text: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Explanation of survey {self.data['survey'][:16]}>"

    def _repr_html_(self) -> str:
        return cut(self.text, self.warnings, self.data["n"]).to_html()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a program."""
        return self.data

    @property
    def warnings(self) -> list[str]:
        """Where a promise is none."""
        return list(self.data["warnings"])


def explain(survey: Agreement, n: int) -> Explanation:
    """Every attribute's promise and accuracy, then the survey's as a whole."""
    if not is_whole(n) or not 1 <= n <= MOST_PEOPLE:
        raise QueryError(
            f"explain needs a whole number of people from 1 to {MOST_PEOPLE:,}, not n = {shown(n)}"
        )
    n = int(n)
    size = packed_size(survey)
    width, warnings = together(survey), warnings_of(survey)
    lines = [
        f"Survey {survey.fingerprint[:16]}: {counted(len(survey.asked), 'attribute')}, "
        f"{size} bytes per report, errors for {counted(n, 'person', 'people')}.",
        *textwrap.wrap(f"{_PREFACE} In words, {legend()}.", _WIDTH),
        *(text for line in warnings for text in textwrap.wrap(f"Warning: {line}.", _WIDTH)),
    ]
    described = []
    for name, attribute in survey.attributes.items():
        if attribute.is_public:
            lines += ["", f"{name}: a public weight, sent in the clear; nothing is promised for it"]
            continue
        entry = _entry(survey, name, n)
        described.append(entry)
        told = _attribute_lines(name, attribute, entry)
        lines += ["", *(folded for line in told for folded in _folded(line))]
    blurred = [name for name, attribute in survey.asked.items() if not attribute.is_public]
    lines += ["", *_together(survey, blurred, width)]
    data = {
        "survey": survey.fingerprint,
        "n": n,
        "bytes_per_report": size,
        "metric_p": "inf" if survey.metric.p == math.inf else survey.metric.p,
        "effective_epsilon": width,
        "words": grade(width),
        "warnings": list(warnings),
        "attributes": described,
    }
    return Explanation("\n".join(lines), data)


def _folded(line: str) -> list[str]:
    return textwrap.wrap(line, 100, subsequent_indent=" " * 14, break_long_words=False)


def _together(survey: Agreement, names: list[str], width: float) -> list[str]:
    p = "-infinity" if survey.metric.p == math.inf else plain(survey.metric.p)
    blocks = [
        line
        for block in survey.blocks.values()
        for line in textwrap.wrap(of_block(survey, block), _WIDTH)
    ]
    at_most = f"epsilon {rounded(width)}, {grade(width)}"
    again = "A second report by the same person spends it all again."
    if len(names) == 1:
        told = f"The whole report: two people who differ as much as possible in {names[0]} are at"
        return textwrap.wrap(f"{told} {at_most}. {again}", _WIDTH)
    how = "distances add up" if survey.metric.p == 1 else f"the norm L{p} joins the distances"
    if survey.blocks and survey.parts == 1:
        how = "all attributes are blurred as one."
    elif survey.metric.p == 1 or survey.parts == 1:
        how += " over attributes."
    else:
        how += ". The channels keep their sum, so each works with "
        how += f"{float(survey.share):.3g} of its epsilon."
    told = (
        f"Together: {how} Two people who differ as much as possible in everything are at "
        f"{at_most}; that, and not a single epsilon above, is the figure to compare with plain "
        f"epsilon-LDP. Where attributes go together, as {names[0]} and {names[1]} may, a report "
        f"tells of one through the other: both distances together bound that. {again}"
    )
    return [*blocks, *textwrap.wrap(told, _WIDTH)]


def _entry(survey: Agreement, name: str, n: int) -> dict[str, Any]:
    attribute, block = survey.attributes[name], survey.block_of(name)
    last = (attribute.size + 1) // 2 - 1 if attribute.ordered else 0
    first = (np.arange(attribute.size) <= last).astype(float)
    query = Query({name: first, **if_answered(survey, name)}, name)
    return {
        "attribute": name,
        "kind": attribute.kind,
        "mechanism": survey.mechanisms[name].name,
        "positions": attribute.size,
        "epsilon": attribute.epsilon,
        "per": getattr(attribute, "per", None),
        "metric": attribute.metric_kind,
        **_distances_entry(survey, name),
        "bits": survey.channels[name].bits if block is None else block.channel.bits,
        "together_with": [] if block is None else [n for n in block.names if n != name],
        "question": attribute.label(0, last),
        "error_uniform": predicted(survey, query, n, "uniform"),
        "error_worst": predicted(survey, query, n, "worst"),
        **_liars_entry(survey, query),
        "n": n,
        **_plan_entry(survey, name, n),
        **_others_entry(survey, name),
        **memory_entry(survey, name),
        **_alone_entry(survey, name, query, n),
        **risk.in_short(survey, name),
        **_no_answer_entry(survey, name),
    }


def _no_answer_entry(survey: Agreement, name: str) -> dict[str, Any]:
    attribute = survey.attributes[name]
    if not attribute.asks_whether:
        return {}
    return {"no_answer": from_no_answer(survey, attribute.source(name))}


def _distances_entry(survey: Agreement, name: str) -> dict[str, Any]:
    """Epsilon of one step, of two values on average, and of any two; and what to call it."""
    metric, size = survey.attributes[name].distances, survey.attributes[name].size
    near, across = float(metric.smallest(size)), float(widest(survey, name))
    typical = min(metric.mean(size), across)
    return {
        "epsilon_per_step": near,
        "typical_epsilon": typical,
        "effective_epsilon": across,
        "words": {"step": grade(near), "typical": grade(typical), "across": grade(across)},
    }


def _liars_entry(survey: Agreement, query: Query) -> dict[str, float]:
    """How far one more report, and one lie in place of an honest report, can move an answer."""
    low, high = one_report(survey, query.functions)
    return {"influence": max(high, -low), "moved_by_a_liar": high - low}


def _plan_entry(survey: Agreement, name: str, n: int) -> dict[str, Any]:
    """What a plan was made for, its total error there, and what "auto" would have instead."""
    attribute, workload = survey.attributes[name], survey.mechanisms[name].workload
    if not isinstance(workload, str) or survey.mechanisms[name].name in _OF_SHAPES:
        return {}
    found: dict[str, Any] = {"workload": workload}
    if workload == GIVEN or attribute.size > _MOST_PLANNED:
        return found
    usual = replace(attribute, mechanism="auto")
    joint = {block.names: block.mechanism for block in survey.blocks.values()}
    other = Agreement({**survey.asked, name: usual}, metric=survey.metric, joint=joint)
    asked = workload_of(workload, attribute.size)
    found["total_error"] = predicted_total(survey, name, asked, n, "uniform")
    found["auto"] = other.mechanisms[name].name
    found["auto_total_error"] = predicted_total(other, name, asked, n, "uniform")
    return found


def _alone_entry(survey: Agreement, name: str, query: Query, n: int) -> dict[str, Any]:
    """What the same question would cost if the attribute were blurred by itself."""
    block, attribute = survey.block_of(name), survey.attributes[name]
    if block is None or block.channel.one is None or attribute.size > _MOST_PLANNED:
        return {}
    return {"error_alone": predicted(Agreement({name: attribute}), query, n, "uniform")}


def _others_entry(survey: Agreement, name: str) -> dict[str, Any]:
    """The variance that a person adds to a question on average, and that of simpler channels."""
    attribute, own = survey.attributes[name], survey.mechanisms[name]
    alone = name in survey.channels and attribute.size <= _MOST_PLANNED
    if own.name not in _OF_SHAPES or not alone:
        return {}
    usual = "ranges" if attribute.ordered else "values"
    workload = usual if own.workload in (None, GIVEN) else own.workload
    kept, ordered = survey.kept[name], attribute.ordered
    others = without_search(attribute.size, kept, ordered=ordered, workload=workload)
    others.pop(own.name, None)
    mine = mean_variance(survey.channels[name], workload)
    return {"asked": workload, "variance": mine, "others": others}


def _others_lines(entry: dict[str, Any]) -> list[str]:
    if "others" not in entry:
        return []
    mine, others = entry["variance"], entry["others"]
    told = ", ".join(f"{n} {others[n] / mine:,.3g}" for n in sorted(others, key=others.get))
    what = f"a person adds {mine:.3g} to the squared error of {_questions(entry['asked'])}"
    return [f"  beside    {what}; with others so many times that: {told}"]


def _questions(workload: str) -> str:
    return "the mean" if workload == "mean" else f"a question, mean over all {workload}"


def _attribute_lines(name: str, attribute: Attribute, entry: dict[str, Any]) -> list[str]:
    others, bits = " and ".join(entry["together_with"]), counted(entry["bits"], "bit")
    blurred = f"blurred by {entry['mechanism']} ({bits})"
    if others:
        blurred = f"blurred together with {others} by {entry['mechanism']} ({bits} in all)"
    lines = [f"{name}: {attribute.describe()}, {blurred}"]
    metric = attribute.distances
    if attribute.metric_kind == "relative":
        lines += of_ratios(attribute) + _width_lines(attribute, entry)
    elif (
        attribute.ordered
        and not metric.is_uniform
        and metric.by_difference(attribute.size) is not None
    ):
        lines += _difference_lines(name, attribute, entry)
    elif not metric.is_uniform:
        lines += _pair_lines(attribute, metric)
        lines += _more_lines(attribute, entry)
    elif attribute.asks_whether:
        near, far = against_no_answer(entry["no_answer"])
        lines += [f"  promise   {near}", f"            {far}"]
    else:
        lines.append(
            f"  promise   any two values: {times(attribute.epsilon)} "
            f"(plain {plain(attribute.epsilon)}-LDP)"
        )
        lines += _more_lines(attribute, entry)
    if attribute.in_bins and attribute.metric_kind == "line":
        lines += _edge_lines(attribute)
    elif attribute.rounded_at_random and attribute.ordered:
        lines += _rounding_lines(attribute)
    if not attribute.is_weight:
        lines += _accuracy_lines(entry)
    if "guess" in entry:
        lines.append(f"  attacker  {risk.short_line(entry['guess'])}")
    return lines + of_memory(entry) + _plan_lines(entry) + _others_lines(entry)


def _difference_lines(name: str, attribute: Attribute, entry: dict[str, Any]) -> list[str]:
    """The promise of a metric that asks how far apart values are, by some examples."""
    metric, cap = attribute.distances, attribute.cap
    told = f"  promise   epsilon {plain(attribute.epsilon)} {unit_of(attribute)}"
    lines = [told if cap is None else f"{told}, never above {plain(cap)}"]
    for apart, what in _examples(attribute).items():
        far = metric.distance(0, round(apart / attribute.grid_step))
        lines.append(f"            {name} {plain(apart)} apart{what}: {times(float(far))}")
    if metric.kind == "window":
        near = "nearer ones are hidden no better: neighbours are told apart by the whole epsilon"
        lines.append(f"            {near}")
        if attribute.in_bins:
            lines.append("            this holds for the values themselves, wherever in their bins")
    return lines + _width_lines(attribute, entry)


def _plan_lines(entry: dict[str, Any]) -> list[str]:
    if "workload" not in entry:
        return []
    if entry["workload"] == GIVEN:
        return [
            "  plan      made for rows that were given, which the survey does not hold; where they",
            "            left a count open, every value counted a hundredth of their largest entry",
        ]
    made = f"  plan      made for all {entry['workload']}".replace("all mean", "the mean")
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
        "            one report moves that count by at most "
        f"{plain(float(format(entry['influence'], '.3g')))}, a hundred liars by "
        f"{100 * entry['moved_by_a_liar']:,.0f}",
    ]
    if "error_alone" in entry:
        lines += of_margin(even, entry["error_alone"])
    if even > entry["n"] / 2:
        lines.append("            as large as the count itself: of no use with so few people")
    return lines


def _pair_lines(attribute: Attribute, metric: Metric) -> list[str]:
    """The promise of a metric that was stated in words, by its telling pairs."""
    size = attribute.size
    told = metric.telling_pairs(size, attribute.name_of)
    if metric.diameter(size) == metric.smallest(size):
        told = told[:1]
    else:
        told.insert(1, ("two values on average", Fraction(metric.mean(size))))
    kind, count = attribute.metric_kind.replace("-", " "), metric.generating_count(size)
    return [
        f"  promise   distances of a {kind}, by {counted(count, 'generating pair')}",
        *(f"            {what}: {times(float(far))}" for what, far in told),
    ]


def _more_lines(attribute: Attribute, entry: dict[str, Any]) -> list[str]:
    """What the channel keeps beyond the metric, where it is known to keep more."""
    epsilon = entry["effective_epsilon"]
    if epsilon >= float(attribute.distances.diameter(attribute.size)):
        return []
    most, head = f"{up(epsilon):.4g}", f"            {entry['mechanism']} keeps more: epsilon"
    return [f"{head} {most} for any two values, plain {most}-LDP, {grade(epsilon)}"]


def _width_lines(attribute: Attribute, entry: dict[str, Any]) -> list[str]:
    more, epsilon = _more_lines(attribute, entry), entry["effective_epsilon"]
    if more:
        return more
    ends = " against ".join(map(attribute.label, attribute.distances.farthest(attribute.size)))
    across = f"  at full width ({ends}) epsilon is {rounded(epsilon)}"
    if epsilon <= attribute.epsilon:
        return [f"{across}: plain {rounded(epsilon)}-LDP, {grade(epsilon)}"]
    return [
        f"{across}: {grade(epsilon)};",
        f"            this is not plain {plain(attribute.epsilon)}-LDP",
    ]


def _edge_lines(attribute: Attribute) -> list[str]:
    metric, size = attribute.distances, attribute.size
    step, width = float(metric.per_step(size)), plain(attribute.grid_step)
    if metric.is_line:
        found = [
            f"  bin edges values are kept as bins of {width}; two values a hair apart on both",
            f"            sides of an edge are a whole bin apart: {times(step)}.",
            f"            For any two values E is at most {step:.4g} x (distance / {width} + 1).",
        ]
    else:
        hair = max(float(metric.distance(k, k + 1)) for k in range(size - 1))
        found = [
            "  bin edges bins are as far apart as their middles; two values a hair apart on both",
            f"            sides of an edge: {times(hair)}.",
            f"            For any two values E is at most {float(attribute.unit):.4g} x (distance",
            "            + half the widths of their bins).",
        ]
    return [
        *found,
        "            Sums and means take the middle of bins, and their intervals allow for that;",
        "            an attribute of kind real has no bins.",
    ]


def _rounding_lines(attribute: Attribute) -> list[str]:
    metric, size = attribute.distances, attribute.size
    promised, kept = (float(m.per_step(size)) for m in (metric, metric.on_grid_points()))
    price = f"{kept:.4g} per step is kept, not {promised:.4g},"
    if metric.kind == "window":
        points = sum(metric.on_grid_points().distance(0, x) <= metric.step for x in range(1, size))
        price = f"points up to {counted(points, 'step')} apart are kept at epsilon,"
    return [
        "  rounding  values are rounded at random, so sums and means are unbiased for the values",
        f"            themselves. The price: {price}",
        "            and ranges fade in and out around their ends.",
    ]


def _examples(attribute: Attribute) -> dict[float, str]:
    """One step, `per` units, twice that, and what two values are apart on average, a third of the
    domain: as far as they fit the grid and the domain."""
    step = attribute.grid_step
    said: Any = getattr(attribute, "within", None) or getattr(attribute, "per", 1.0)
    per = float(said)
    apart = {step * (attribute.size // 3): " (about a third)"}
    apart |= {step: ""} | {step * math.floor(k * per / step + 1e-9): "" for k in (1, 2)}
    return {a: apart[a] for a in sorted(apart) if step <= a <= step * (attribute.size - 1)}
