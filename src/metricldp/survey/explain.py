"""What a survey guarantees to its respondents: factors of likelihood, in words and as data.

A factor says how many times as likely a report can be for one value as for another, e^epsilon of
the two. Factors and epsilons are rounded up, so that no text is stronger than the guarantee.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_UP, Context
from fractions import Fraction
from typing import Any

from metricldp.attributes.base import Attribute
from metricldp.basics.markup import beside
from metricldp.basics.markup import table as html_table
from metricldp.basics.text import counted, plain, table
from metricldp.mechanisms.stated import GIVEN
from metricldp.metrics import Relative
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp_core import guarantee as core
from metricldp_core.exact import decimal_of
from metricldp_core.manifest import Field

WEAK_CLOSE = 3
"""Largest epsilon of values that the survey calls close without a warning: e^3 = 20."""
WEAK_ATTRIBUTE = 10
"""The same of any two values of an attribute: e^10 = 22,026."""
WEAK_SURVEY = 20
"""The same of any two respondents: e^20 = 485 million."""
_WIDTH = 80

# Numbers: all are those of the core, which writes the sentences that devices show -----------------


def rounded_up(number: float, digits: int = 4) -> float:
    """A number with few digits that is at least as large."""
    return float(Context(prec=digits, rounding=ROUND_UP).create_decimal(repr(float(number))))


def factor(epsilon: float | Fraction) -> str:
    return core.factor(Fraction(epsilon))


def times(epsilon: float | Fraction) -> str:
    return core.times(Fraction(epsilon))


def shown_epsilon(epsilon: float | Fraction) -> str:
    return plain(rounded_up(float(epsilon)))


def _fields(survey: Agreement) -> dict[str, tuple[Field, Field | None, int]]:
    """Of each private attribute its field, that of its response, and its place in the field."""
    return {
        domain.name: (field, response, k)
        for field, response in core.fields_with_responses(survey.client_manifest)
        for k, domain in enumerate(field.domains)
    }


def attribute_epsilon(survey: Agreement, name: str) -> Fraction:
    """The largest epsilon between two values of an attribute."""
    field, _, k = _fields(survey)[name]
    return core.attribute_epsilon(field, k)


def group_epsilon(survey: Agreement, group: Block) -> Fraction:
    """The largest epsilon between two respondents in attributes that are randomized jointly."""
    return core.largest_epsilon(_fields(survey)[group.names[0]][0])


def survey_epsilon(survey: Agreement) -> float:
    """The largest epsilon between two respondents, comparable with plain epsilon-LDP."""
    return float(core.total_epsilon(survey.client_manifest))


def _largest(survey: Agreement, name: str) -> Fraction:
    """The largest epsilon between two values, or between a value and no response."""
    field, response, k = _fields(survey)[name]
    across = core.attribute_epsilon(field, k)
    return across if response is None else max(across, core.no_response(field, response))


def close_values(survey: Agreement, name: str) -> tuple[str, Fraction] | None:
    """The values that the survey calls close, in words, and the largest epsilon between them."""
    field, _, k = _fields(survey)[name]
    return core.close_values(field, k)


def close_distance(attribute: Any) -> Fraction | None:
    """The distance of `within` or `per`, at least one step of an attribute without bins."""
    if not hasattr(attribute, "within") or getattr(attribute, "metric", None) is not None:
        return None
    distance = decimal_of(attribute.within or attribute.per)
    return distance if attribute.in_bins else max(distance, attribute.step)


def _epsilon(field: Field, k: int, **close: Fraction) -> Fraction:
    """The largest epsilon of two values of attribute k that are close in another sense."""
    texts: dict[str, Any] = {"within": None, "ratio": None}
    texts |= {key: str(value) for key, value in close.items()}
    domains = list(field.domains)
    domains[k] = replace(domains[k], **texts)
    return core.close_epsilon(replace(field, domains=tuple(domains)), k)


def _length(attribute: Attribute, distance: float | Fraction) -> str:
    number = plain(float(distance))
    return number + (f" level{'s' * (distance != 1)}" if attribute.named else "")


# Weak guarantees ----------------------------------------------------------------------------------


def weak_guarantees(survey: Agreement) -> tuple[str, ...]:
    """One line for each attribute and group with a weak guarantee, or for all together."""
    lines, largest = [], 0.0
    for name, attribute in survey.asked.items():
        case = None if attribute.is_public else _weak_attribute(survey, name)
        if case is not None:
            lines.append(f"{name}: {case[0]}")
            largest = max(largest, case[1])
    parts = {" and ".join(g.names): float(group_epsilon(survey, g)) for g in survey.blocks.values()}
    for names, epsilon in {**parts, "all attributes together": survey_epsilon(survey)}.items():
        if epsilon > WEAK_SURVEY and largest <= WEAK_SURVEY:
            weak = _weak("one respondent as for another", epsilon)
            lines.append(f"{names}: {weak}; use smaller epsilons or fewer attributes")
            largest = epsilon
    return tuple(lines)


def _weak_attribute(survey: Agreement, name: str) -> tuple[str, float] | None:
    """What is weak about an attribute, with a remedy, and its largest epsilon."""
    attribute: Any = survey.attributes[name]
    close, across = close_values(survey, name), _largest(survey, name)
    remedies = []
    text = ""
    if close is not None and close[1] > WEAK_CLOSE:
        text = f"{_weak(*close)}, and {factor(across)} times for any two"
        remedies.append("use a smaller epsilon")
    elif across <= WEAK_ATTRIBUTE:
        return None
    elif across > attribute_epsilon(survey, name):
        text = _weak(f"one {name} as for no response", across)
        remedies.append("use a smaller epsilon, or optional=")
    elif close is None:
        text = _weak(f"one {name} as for another", across)
        remedies.append("use a smaller epsilon")
    else:
        ends = map(attribute.label, attribute.distances.farthest(attribute.size))
        text = _weak(" as for ".join(ends), across)
    if close is not None and across > WEAK_ATTRIBUTE:
        limit = "max_epsilon=" if attribute.max_epsilon is None else "a smaller max_epsilon"
        remedies.append(f"set {limit}")
    return f"{text}; {' and '.join(remedies)}", float(across)


def _weak(pair: str, epsilon: float | Fraction) -> str:
    number = factor(epsilon)
    also = "" if number.startswith("e^") else f" (epsilon {shown_epsilon(epsilon)})"
    return f"a report can be {number} times as likely for {pair}{also}"


# Explanation --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """The guarantee of one attribute, or of several that are randomized jointly."""

    title: str
    guarantee: str
    pairs: tuple[tuple[str, float], ...] = ()
    """Two values in words, and the epsilon between them."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a survey guarantees; `print` shows it in short, `details()` returns all of it."""

    head: str
    sections: tuple[Section, ...]
    together: str
    data: Mapping[str, Any]

    @property
    def warnings(self) -> list[str]:
        """A line for each weak guarantee."""
        return list(self.data["warnings"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for programs."""
        return dict(self.data)

    def __str__(self) -> str:
        parts = [f"{_titled(part)}\n{_filled(part.guarantee, '  ')}" for part in self.sections]
        return self._text("\n".join(parts), _ERRORS)

    def details(self) -> str:
        """All pairs of values, remarks and expected errors, as text."""
        sections = "\n\n".join(_detailed(section) for section in self.sections)
        return self._text(sections, {**_ERRORS, "poisoning": "one malicious report"})

    def _text(self, sections: str, columns: Mapping[str, str]) -> str:
        head = f"{self.head}\n{_filled(PREFACE)}"
        warnings = "\n".join(_filled(f"Warning: {line}.") for line in self.warnings)
        errors = ""
        if rows := self._errors(columns):
            count = counted(self.data["n"], "respondent")
            errors = f"Expected standard errors of counts, {count}:\n{table(rows)}"
        parts = [head, warnings, sections, _filled(self.together), errors]
        return "\n\n".join(part for part in parts if part)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html(self.head)

    def to_html(self, caption: str) -> str:
        """A row for each attribute, and the expected errors, for a notebook."""
        rows = [("attribute", "guarantee")]
        rows += [(section.title, section.guarantee) for section in self.sections]
        errors = [html_table(e, caption="Standard errors")] if (e := self._errors(_ERRORS)) else []
        warnings = [f"Warning: {line}." for line in self.warnings]
        guarantees = html_table(rows, caption=caption, left=len(rows[0]))
        return beside(guarantees, *errors, above=[PREFACE], below=[self.together, *warnings])

    def _errors(self, columns: Mapping[str, str]) -> list[tuple[str, ...]]:
        rows = [
            (f"  {entry['attribute']} {error['where']}", *(f"{error[key]:,.0f}" for key in columns))
            for entry in self.data["attributes"]
            if (error := entry.get("expected_error")) is not None
        ]
        return [("  count of", *columns.values()), *rows] if rows else []


PREFACE = (
    "Each value is randomized on the respondent's device. A factor is how many times as likely "
    "a report can be for one value as for another, all else being equal."
)
_ERRORS = {"stderr_uniform": "uniform values", "stderr_worst": "worst case"}
"""Keys of expected errors, and the columns that show them."""


def explain(
    survey: Agreement,
    n: int | None = None,
    errors: Mapping[str, Mapping[str, Any]] | None = None,
) -> Explanation:
    """The guarantees of a survey; `errors` holds the expected errors for n respondents."""
    sections, entries = [], []
    for name, attribute in survey.asked.items():
        if attribute.public_ends is not None:
            title = f"{name}: a public weight from {' to '.join(map(plain, attribute.public_ends))}"
            sections.append(Section(title, core.PUBLIC))
            continue
        section = _section(survey, name)
        sections.append(section)
        entries.append(_entry(survey, name, section, (errors or {}).get(name)))
    sections += [_group_section(survey, group) for group in survey.blocks.values()]
    data = {
        "survey": survey.fingerprint,
        "n": n,
        "norm": "inf" if survey.metric.p == math.inf else survey.metric.p,
        "max_epsilon": survey_epsilon(survey),
        "warnings": list(weak_guarantees(survey)),
        "attributes": entries,
    }
    head = f"Survey {survey.fingerprint[:16]}: {counted(len(survey.asked), 'attribute')}"
    return Explanation(head, tuple(sections), _together(survey, len(entries)), data)


def short_guarantee(survey: Agreement, names: Sequence[str]) -> str:
    """The guarantees of some attributes and of a whole report, in a line for a chart."""
    private = [
        name for name in names if name in survey.asked and not survey.attributes[name].is_public
    ]
    parts = [f"{name} {_stated(survey, name)}" for name in private]
    if len(survey.asked) > len(parts) or not parts:
        parts.append(f"all attributes together epsilon {shown_epsilon(survey_epsilon(survey))}")
    return "; ".join(parts)


def _stated(survey: Agreement, name: str) -> str:
    """The guarantee of an attribute as its specification states it."""
    attribute: Any = survey.attributes[name]
    metric, size = attribute.distances, attribute.size
    if metric.is_uniform:
        return f"epsilon {shown_epsilon(attribute_epsilon(survey, name))} for any two values"
    limit = "" if attribute.max_epsilon is None else f", max_epsilon {plain(attribute.max_epsilon)}"
    stated = getattr(attribute, "metric", None)
    if isinstance(stated, Relative):
        return f"epsilon {plain(attribute.epsilon)} per {plain(100 * stated.by)} %{limit}"
    if close_distance(attribute) is None:
        across = shown_epsilon(attribute_epsilon(survey, name))
        return f"epsilon {shown_epsilon(metric.smallest(size))} to {across}"
    unit = attribute.within or attribute.per
    word = "per" if attribute.within is None else "within"
    return f"epsilon {plain(attribute.epsilon)} {word} {_length(attribute, unit)}{limit}"


def _described(attribute: Attribute) -> str:
    return attribute.describe() + (", optional" if attribute.optional is not None else "")


def guarantee(survey: Agreement, name: str) -> str:
    """The guarantee of one attribute in one to three sentences."""
    return core.field_guarantee(*_fields(survey)[name])


def _section(survey: Agreement, name: str) -> Section:
    attribute = survey.attributes[name]
    group, mechanism = survey.block_of(name), survey.mechanisms[name].name
    others = [] if group is None else [other for other in group.names if other != name]
    jointly = f", jointly with {' and '.join(others)}" if others else ""
    title = f"{name}: {_described(attribute)}; mechanism {mechanism}{jointly}"
    text = guarantee(survey, name)
    return Section(title, text, tuple(_pairs(survey, name)), tuple(_notes(survey, name)))


def _pairs(survey: Agreement, name: str) -> Iterator[tuple[str, float]]:
    """Pairs of values in words, with the epsilon between them."""
    attribute: Any = survey.attributes[name]
    metric, size, across = attribute.distances, attribute.size, attribute_epsilon(survey, name)
    stated = getattr(attribute, "metric", None)
    rows: list[tuple[str, float | Fraction]] = []
    field, _, k = _fields(survey)[name]
    if isinstance(stated, Relative) and not metric.is_uniform:
        percent = plain(100 * stated.by)
        rows.append((f"one larger by {percent} %", _epsilon(field, k, ratio=decimal_of(stated.by))))
        rows.append(("one twice the other", _epsilon(field, k, ratio=Fraction(1))))
    elif close_distance(attribute) is not None and not metric.is_uniform:
        lengths = _example_lengths(attribute)
        rows += [(f"within {_length(attribute, d)}", _epsilon(field, k, within=d)) for d in lengths]
    elif (close := close_values(survey, name)) is not None:
        rows.append((close[0].replace(" as for ", " and "), close[1]))
    if not metric.is_uniform:
        rows.append(("average of all pairs", metric.mean(size)))
    farthest = " and ".join(map(attribute.label, metric.farthest(size)))
    rows.append(("any two" if metric.is_uniform else f"any two ({farthest})", across))
    yield from ((label, min(float(epsilon), float(across))) for label, epsilon in rows)
    if attribute.optional is not None:
        yield "a value and no response", float(no_response(survey, name))


def _example_lengths(attribute: Any) -> list[Fraction]:
    """One step, the distance of `within` or `per`, twice that, and a third of the domain."""
    unit = decimal_of(attribute.within or attribute.per)
    if getattr(attribute, "edges", None) is not None:
        return [unit, 2 * unit]
    step, size = attribute.step, attribute.size
    lengths = {step, unit, 2 * unit, step * (size // 3)}
    return sorted(length for length in lengths if step <= length <= step * (size - 1))


def _notes(survey: Agreement, name: str) -> Iterator[str]:
    attribute: Any = survey.attributes[name]
    mechanism, metric, size = survey.mechanisms[name], attribute.distances, attribute.size
    across = attribute_epsilon(survey, name)
    if rounded_up(float(across)) < rounded_up(float(metric.diameter(size))):
        yield (
            f"The mechanism guarantees more than the metric: epsilon {shown_epsilon(across)} for "
            "any two values."
        )
    if attribute.in_bins and attribute.metric_kind == "line":
        yield _bins_note(attribute)
    elif attribute.in_bins:
        yield "The guarantee holds for exact values, wherever they are in their bins."
    elif attribute.rounded_at_random and attribute.ordered:
        yield (
            "Values are rounded to the grid at random, so that the guarantee holds for exact "
            "values, and sums and means are unbiased."
        )
    one_report = survey.one_report(name)
    if one_report is not None:
        epsilon = shown_epsilon(one_report.smallest(size))
        yield (
            "The guarantee holds for all reports of one value from one memory together. A single "
            f"report has epsilon {epsilon} for the closest two values."
        )
    if mechanism.workload == GIVEN:
        yield "The mechanism was designed for a workload that the survey file does not contain."
    elif isinstance(mechanism.workload, str):
        yield f"The mechanism was designed for the workload {mechanism.workload}."


def _bins_note(attribute: Any) -> str:
    metric, size = attribute.distances, attribute.size
    neighbours = range(size - 1) if attribute.edges is not None else (0,)
    edge = factor(max(metric.distance(k, k + 1) for k in neighbours))
    if attribute.edges is None:
        width = plain(attribute.grid_step)
        bound = f"{shown_epsilon(metric.distance(0, 1))} x (distance / {width} + 1)"
    else:
        unit = shown_epsilon(attribute.unit)
        bound = f"{unit} x (distance + half of the widths of their bins)"
    return (
        f"Two values on different sides of the edge of a bin have a factor of up to {edge}, even "
        f"if they are very close. The epsilon of any two values is at most {bound}."
    )


def _group_section(survey: Agreement, group: Block) -> Section:
    grid = group.grid
    names = " and ".join(group.names)
    title = f"{names}: randomized jointly by {group.mechanism.name}"
    notes: list[str] = []
    if grid is not None and not grid.axes:
        notes = ["Distances of the attributes add up."]
    elif grid is not None and grid.straight:
        notes = ["The distance of two locations is the length of the straight line between them."]
    elif grid is not None:
        step = float(grid.axes[0].epsilon)
        lengths = [
            f"{plain(survey.attributes[name].grid_step / float(axis.step))} in {name}"
            for name, axis in zip(group.names, grid.axes, strict=True)
        ]
        notes = [
            f"Locations within an ellipse with the radii {' and '.join(lengths)} have a factor of "
            f"at most {factor(step)}, up to twice as far apart {factor(2 * step)}, and so on."
        ]
    return Section(
        title, core.group_guarantee(_fields(survey)[group.names[0]][0]), (), tuple(notes)
    )


def _together(survey: Agreement, private: int) -> str:
    epsilon = survey_epsilon(survey)
    factors = f"a report is {times(epsilon)} for one respondent as for another"
    again = "A second report of the same respondent adds the same epsilon again."
    if remembered := [name for name in survey.channels if _remembers(survey, name)]:
        names = " and ".join(remembered)
        again = f"{again[:-1]}, except reports of one value of {names} from the same memory."
    if private == 1:
        return f"In all, {factors} (epsilon {shown_epsilon(epsilon)}). {again}"
    norm = ""
    if survey.metric.p != 1:
        p = "-infinity" if survey.metric.p == math.inf else plain(survey.metric.p)
        share = f"{float(survey.share):.3g}"
        norm = f" The L{p} norm combines epsilons: each mechanism uses {share} of its epsilon."
    return (
        f"All attributes together: {factors} (epsilon {shown_epsilon(epsilon)}, to compare with "
        "plain epsilon-LDP). Correlated attributes reveal information about each other, within "
        f"this bound.{norm} {again}"
    )


def no_response(survey: Agreement, name: str) -> Fraction:
    """The largest epsilon between a value and no response."""
    field, response, _ = _fields(survey)[name]
    assert response is not None
    return core.no_response(field, response)


def _remembers(survey: Agreement, name: str) -> bool:
    """Whether the guarantee holds for all reports of one value from one memory together."""
    return survey.one_report(name) is not None


def _entry(
    survey: Agreement, name: str, section: Section, error: Mapping[str, Any] | None
) -> dict[str, Any]:
    attribute, group = survey.attributes[name], survey.block_of(name)
    close = close_values(survey, name)
    across = float(attribute_epsilon(survey, name))
    entry = {
        "attribute": name,
        "kind": attribute.kind,
        "mechanism": survey.mechanisms[name].name,
        "jointly_with": [] if group is None else [n for n in group.names if n != name],
        "positions": attribute.size,
        "metric": attribute.metric_kind,
        "epsilon": attribute.epsilon,
        "close_epsilon": across if close is None else float(close[1]),
        "max_epsilon": across,
        "guarantee": section.guarantee,
        "pairs": [{"values": label, "epsilon": epsilon} for label, epsilon in section.pairs],
        "notes": list(section.notes),
    }
    if attribute.optional is not None:
        entry["no_response"] = float(no_response(survey, name))
    return entry if error is None else {**entry, "expected_error": dict(error)}


def _detailed(section: Section) -> str:
    rows = [("  two values", "epsilon", "factor")]
    rows += [(f"  {label}", f"{shown_epsilon(e)}", factor(e)) for label, e in section.pairs]
    pairs = [table(rows)] if section.pairs else [_filled(section.guarantee, "  ")]
    return "\n".join([_titled(section), *pairs, *(_filled(note, "  ") for note in section.notes)])


def _titled(section: Section) -> str:
    return textwrap.fill(section.title, _WIDTH, subsequent_indent="    ")


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
