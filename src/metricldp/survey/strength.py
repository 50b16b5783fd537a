"""How strong a promise is, in words: graded by how many times as likely a report may become."""

from __future__ import annotations

import math
from decimal import ROUND_UP, Context
from fractions import Fraction
from typing import Any

from metricldp.attributes.answered import answered
from metricldp.attributes.base import Attribute
from metricldp.basics.text import plain
from metricldp.survey.agreement import Agreement
from metricldp.survey.ledger import Entry, kept

NO_PROMISE_NEARBY = 10
"""Above this epsilon between the nearest two values a promise is none: it allows 22,026 times."""
NO_PROMISE_ACROSS = 20
"""The same between the farthest two: 485 million times."""
GRADES = ((1.5, "hardly a hint"), (10.0, "a hint"), (100.0, "a strong hint"))
"""Up to so many times as likely, and what to call it."""
BEYOND = "hardly any protection"


def grade(epsilon: float) -> str:
    """What a report gives away of two values at this distance."""
    return next((word for times, word in GRADES if epsilon <= math.log(times)), BEYOND)


def legend() -> str:
    """What the words of `grade` stand for."""
    graded = ", ".join(f"up to {plain(times)} times is {word}" for times, word in GRADES)
    return f"{graded}, and more is {BEYOND}"


def widest(survey: Agreement, name: str) -> Fraction:
    """The epsilon that plain local differential privacy would state for an attribute."""
    return kept(survey, name).diameter(survey.attributes[name].size) / survey.share


def together(survey: Agreement) -> float:
    """The epsilon of two people who differ as much as possible in everything."""
    names = (name for name in survey.channels if not survey.attributes[name].asks_whether)
    blocks = [float(block.diameter / survey.share) for block in survey.blocks.values()]
    return survey.metric.join([*(_farthest(survey, name) for name in names), *blocks])


def _farthest(survey: Agreement, name: str) -> float:
    """Of two people in one attribute: both answered, or one did not and counts as the middle."""
    across = float(widest(survey, name))
    if survey.attributes[name].optional is None:
        return across
    middle = float(Entry(survey).from_none(name) / survey.share)
    return max(across, survey.metric.join([middle, float(widest(survey, answered(name)))]))


def from_no_answer(survey: Agreement, name: str) -> dict[str, float]:
    """The epsilon between no answer and the middle, with which it counts, and the farthest value.

    Who leaves an answer out differs in two fields of the report: the value, and whether there is
    one.
    """
    attribute, whether = survey.attributes[name], survey.attributes[answered(name)]
    far = attribute.values_at(0)[0]
    if not attribute.rounded_at_random:
        middle, size = attribute.position(attribute.middle), attribute.size
        far = attribute.values_at(attribute.distances.farthest_from(middle, size))[0]
    ends = [0.0, float(attribute.distance(attribute.middle, far))]
    epsilons = [survey.metric.join([float(whether.epsilon), end]) for end in ends]
    values = [plain(attribute.middle), plain(far)]
    if values[0] == values[1]:
        values = [str(attribute.middle), str(far)]
    return dict(zip(values, epsilons, strict=True))


def against_no_answer(epsilons: dict[str, float]) -> list[str]:
    """The bounds of `from_no_answer` in words."""
    (middle, near), (end, far) = epsilons.items()
    return [
        f"no answer against {middle}, the middle: {times(near)}",
        f"no answer against {end}: {times(far)}",
    ]


def in_short(survey: Agreement, name: str) -> str:
    """What is promised of one attribute, in a few words."""
    attribute = survey.attributes[name]
    metric, size = attribute.distances, attribute.size
    most = "" if attribute.cap is None else f", never above {plain(attribute.cap)}"
    if metric.is_uniform:
        return f"ε {rounded(widest(survey, name))} between any two values"
    if attribute.metric_kind == "relative":
        by: Any = getattr(attribute.metric, "by", 0)  # type: ignore[attr-defined]
        return f"ε {plain(attribute.epsilon)} for every {plain(100 * by)} %{most}"
    if metric.by_difference(size) is None:
        near, far = rounded(metric.smallest(size)), rounded(widest(survey, name))
        return f"ε {near} to {far} between any two values"
    return f"ε {plain(attribute.epsilon)} {unit_of(attribute)}{most}"


def unit_of(attribute: Attribute) -> str:
    """What an epsilon is stated for: per 5, or within 5."""
    within: float | None = getattr(attribute, "within", None)
    noun = " level" if attribute.named else ""
    units: float = getattr(attribute, "per", 1.0) if within is None else within
    said = "per" if within is None else "within"
    return f"{said} {plain(units)}{noun}{'s' if noun and units != 1 else ''}"


def rounded(epsilon: float | Fraction) -> str:
    """Four digits, as people write them."""
    return plain(float(f"{float(epsilon):.4g}"))


def up(number: float, digits: int = 4) -> float:
    """Rounded up: a promise says no less than what may be lost."""
    return float(Context(prec=digits, rounding=ROUND_UP).create_decimal(repr(number)))


def times(exponent: float) -> str:
    """What two values at this distance are promised, in numbers and in words."""
    return f"at most {_ratio(exponent)} times as likely, {grade(exponent)}"


def _ratio(exponent: float) -> str:
    """e^exponent, rounded up; beyond a million the exponent says more than the digits."""
    if exponent >= 13:
        return f"e^{plain(up(exponent))}"
    ratio = math.nextafter(math.exp(exponent), math.inf)
    digits = (
        2 - math.floor(math.log10(ratio - 1)) if ratio < 1.1 else 2 - math.floor(math.log10(ratio))
    )
    digits = min(max(digits, 0), 12)
    return f"{math.ceil(ratio * 10**digits) / 10**digits:,.{digits}f}"


def warnings_of(survey: Agreement) -> tuple[str, ...]:
    """Where a promise is none: a line for each attribute or block, else one for all together."""
    found = [line for name in survey.attributes if (line := _of_attribute(survey, name))]
    most = "people who differ as much as possible"
    for block in survey.blocks.values():
        if (epsilon := block.diameter / survey.share) > NO_PROMISE_ACROSS:
            found.append(_none(" and ".join(block.names), f"between {most}", epsilon))
    if not found and (width := together(survey)) > NO_PROMISE_ACROSS:
        found = [_none("all attributes together", f"between {most}", width)]
    return tuple(found)


def _of_attribute(survey: Agreement, name: str) -> str | None:
    attribute = survey.attributes[name]
    if attribute.is_public:
        return None
    size, metric = attribute.size, kept(survey, name)
    near, far = (d / survey.share for d in (metric.smallest(size), metric.diameter(size)))
    if near > NO_PROMISE_NEARBY:
        x, other = (attribute.label(position) for position in metric.nearest(size))
        pair = f"even between {x} and {other}, the nearest two values"
        who = "between any two values" if near == far else pair
        return _none(name, who, near, NO_PROMISE_NEARBY)
    if far > NO_PROMISE_ACROSS:
        x, other = (attribute.label(position) for position in metric.farthest(size))
        return _none(name, f"between {x} and {other}", far)
    return None


def _none(name: str, who: str, epsilon: float | Fraction, most: int = NO_PROMISE_ACROSS) -> str:
    limit = f"epsilon {rounded(epsilon)}, above {most}"
    return f"{name}: no promise {who}: a report may tell them apart ({limit})"
