"""Sentences about the guarantee, written from the numbers of a manifest.

A factor says how many times as likely a report can be for one value as for another: e^epsilon of
the two. Factors and epsilons are rounded up, so no sentence is stronger than the guarantee. There
is no other source of such sentences: certificates, explanations, consent texts and the page of a
client all use these.

Values are decimals of at most 15 digits. Values that are rounded at random to points count as
multiples of 2^-32 of the step between points, to which the device rounds them first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction
from math import floor, log10
from typing import Any

from metricldp_core.distributions import Memoised
from metricldp_core.exact import (
    CERTAIN,
    ceil_of,
    decimal_of,
    exp_bounds,
    floor_of,
    log_bounds,
    log_of,
)
from metricldp_core.manifest import Field, Manifest
from metricldp_core.metrics import Graph, Line, Uniform, strictest
from metricldp_core.random_words import FRACTION_BITS
from metricldp_core.values import Bins, Domain, Names, Points, Response, WholeNumbers

LARGEST_FACTOR = 13
"""From this epsilon on factors are written as powers of e."""
PUBLIC = "The value is sent without protection."
_MOST_NAMES = 5
_MOST_CLOSE = 1 << 16
"""Pairs of close values of a graph; if there are more, the epsilon of any two is stated."""
_EXACT = Context(prec=100)


def rounded_up(number: Fraction, digits: int = 4) -> str:
    """A number in few digits, rounded up."""
    context = Context(prec=digits, rounding=ROUND_UP)
    return f"{context.divide(number.numerator, number.denominator).normalize():f}"


def factor(epsilon: Fraction) -> str:
    """e^epsilon in three digits, rounded up; from e^13 on as a power of e."""
    if epsilon >= LARGEST_FACTOR:
        return f"e^{rounded_up(epsilon)}"
    ratio = exp_bounds(epsilon)[1]
    above_one = float(ratio - 1)
    digits = 2 - floor(log10(above_one if above_one < 0.1 else float(ratio)))
    digits = min(max(digits, 0), 12)
    return f"{ceil_of(ratio * 10**digits) / 10**digits:,.{digits}f}"


def times(epsilon: Fraction) -> str:
    return f"at most {factor(epsilon)} times as likely"


def largest_epsilon(field: Field) -> Fraction:
    """The epsilon of any two values of a field: what the metric or the distribution guarantees."""
    assert field.metric is not None
    assert field.distribution is not None
    largest, ratio = field.metric.largest(), field.distribution.largest_ratio()
    if field.stochastic or ratio >= CERTAIN or log_of(ratio) > float(largest) - 1e-9:
        return largest
    return min(largest, log_bounds(ratio)[1])


def attribute_epsilon(field: Field, k: int = 0) -> Fraction:
    """The epsilon of any two values of attribute k, all else being equal."""
    if len(field.domains) == 1:
        return largest_epsilon(field)
    distance = _along(field, k)
    return min(max(distance(0, x) for x in range(field.domains[k].size)), largest_epsilon(field))


def close_values(field: Field, k: int = 0) -> tuple[str, Fraction] | None:
    """The values of attribute k that are close, in words, and the largest epsilon between them.

    None if no pair of values has a larger epsilon.
    """
    domain = field.domains[k]
    if isinstance(field.metric, Uniform | None) or isinstance(domain, Response):
        return None
    if domain.within is not None:
        words = f"one {domain.name} as for another within {_grouped(domain.within)}"
        if isinstance(domain, Names):
            words += " level" if domain.within == "1" else " levels"
        epsilon = close_epsilon(field, k)
    elif domain.ratio is not None:
        percent = Decimal(domain.ratio).scaleb(2, _EXACT).normalize(_EXACT)
        words = f"one {domain.name} as for another, if the larger is at most "
        words += f"{percent:f} % above the smaller"
        epsilon = close_epsilon(field, k)
    elif len(field.domains) > 1 or field.stochastic:
        return None
    else:
        words, epsilon = _closest(field)
    return (words, epsilon) if epsilon < attribute_epsilon(field, k) else None


Distance = Callable[[Any, Any], Fraction]


def _along(field: Field, k: int) -> Distance:
    """The distance of two values of attribute k, all else being equal, by their positions."""
    metric, stride = field.metric, 1
    for domain in field.domains[k + 1 :]:
        stride *= domain.size
    if isinstance(metric, Line) and field.stochastic and metric.width == 1:
        # Between points distances are proportional: `linear` is about points alone.
        return lambda x, y: min(metric.epsilon * abs(x - y), metric.largest())
    if isinstance(metric, Line):
        return lambda x, y: metric.at(abs(x - y))
    assert metric is not None
    return lambda x, y: metric.distance(x * stride, y * stride)


def close_epsilon(field: Field, k: int) -> Fraction:
    """The largest epsilon of two values that attribute k calls close."""
    domain, metric, distance = field.domains[k], field.metric, _along(field, k)
    if isinstance(domain, Points):
        step = (decimal_of(domain.high) - decimal_of(domain.low)) / (domain.points - 1)
        difference = Fraction(domain.within or 0) / step
        if isinstance(metric, Line) and metric.width == 1:
            difference += Fraction(1, 1 << FRACTION_BITS)  # positions are rounded
        return distance(0, min(difference, domain.points - 1))
    last = _last_close(domain)
    steps = max(end - x for x, end in enumerate(last))
    cyclic = getattr(domain, "cyclic", False)
    if isinstance(metric, Graph):
        reaches = [steps if cyclic else end - x for x, end in enumerate(last)]
        firsts = [1 if cyclic or not metric.is_line else far for far in reaches]
        if sum(reaches) - sum(firsts) > _MOST_CLOSE:
            return metric.largest()
        apart = (
            metric.distance(x, (x + d) % domain.size)
            for x, (first, far) in enumerate(zip(firsts, reaches, strict=True))
            for d in range(first, far + 1)
        )
        return max(apart, default=Fraction(0))
    # All other metrics depend on the number of steps alone.
    if isinstance(metric, Line):
        return metric.at(min(steps, domain.size // 2) if metric.ring else steps)
    differences = {*range(steps + 1)}
    if cyclic:
        differences |= {domain.size - d for d in differences if d}
    return max(distance(0, d) for d in differences)


def _last_close(domain: Domain) -> list[int]:
    """Of each position, the last one with a value that is close to one of its values."""
    if domain.ratio is not None or (isinstance(domain, Bins) and domain.given):
        part, within = Fraction(domain.ratio or 0), Fraction(domain.within or 0)
        if isinstance(domain, Bins):
            edges = [decimal_of(edge) for edge in domain.edges]
            lows, highs, find = edges[:-1], edges[1:], bisect_left  # values are below upper edges
        else:
            assert isinstance(domain, WholeNumbers)
            lows = highs = [Fraction(domain.low + x) for x in range(domain.size)]
            find = bisect_right
        return [find(lows, high * (1 + part) + within) - 1 for high in highs]
    within = Fraction(domain.within or 0)
    if isinstance(domain, Bins):
        # Two values of one distance can be one bin more apart than its whole bins.
        steps = ceil_of(within / ((decimal_of(domain.high) - decimal_of(domain.low)) / domain.bins))
    else:
        steps = max(floor_of(within), 1)
    return [min(x + steps, domain.size - 1) for x in range(domain.size)]


def _closest(field: Field) -> tuple[str, Fraction]:
    """The closest two values in words, or the sensitive ones."""
    domain, metric = field.domains[0], field.metric
    assert metric is not None
    closest = strictest(metric.groups())
    x, other = next(closest.pairs(True))
    epsilon = closest.limit.epsilon
    if isinstance(metric, Graph) and (sensitive := metric.sensitive()):
        names = ", ".join(_label(domain, place) for place in sensitive[:_MOST_NAMES])
        more = len(sensitive) - _MOST_NAMES
        names += f" and {more} more" if more > 0 else ""
        return f"one {domain.name} as for another if one is {names}", epsilon
    pair = f"{_label(domain, x)} as for {_label(domain, other)}"
    return f"{pair}, the closest two values", epsilon


def _label(domain: Domain, position: int) -> str:
    if isinstance(domain, Names):
        return domain.names[position]
    if isinstance(domain, WholeNumbers):
        return str(domain.low + position)
    return f"bin {position + 1}"


def _grouped(number: str) -> str:
    """A decimal number with thousands apart, if there are five digits or more."""
    whole, point, rest = number.partition(".")
    return f"{int(whole):,}{point}{rest}" if len(whole) > 4 else number


def no_response(field: Field, response: Field) -> Fraction:
    """The largest epsilon between a value and no response.

    A missing response takes the position of the middle, so two fields of a report differ: the
    value, and whether there is one.
    """
    domain, metric, distance = field.domains[0], field.metric, _along(field, 0)
    middle = domain.position(domain.middle)
    if isinstance(metric, Uniform) or (isinstance(metric, Line) and metric.ring):
        far = metric.largest()
    elif isinstance(metric, Graph):
        far = metric.step * max(metric.distances_from(middle))
    else:
        place = Fraction(middle, 1 << FRACTION_BITS) if field.stochastic else middle
        far = max(distance(place, 0), distance(place, domain.size - 1))
    return min(far, largest_epsilon(field)) + largest_epsilon(response)


def field_guarantee(field: Field, response: Field | None = None, k: int = 0) -> str:
    """The guarantee of one attribute in one to three sentences."""
    name, across, close = field.domains[k].name, attribute_epsilon(field, k), close_values(field, k)
    if close is None:
        text = f"A report is {times(across)} for one {name} as for another."
    else:
        text = f"A report is {times(close[1])} for {close[0]}, "
        text += f"and at most {factor(across)} times for any two."
    subject = "It"
    if isinstance(field.distribution, Memoised):
        text += " This holds for all reports of one response together. "
        text += "Each different response counts again, and reports can reveal that it changed."
        subject = "Each report"  # whether there is a response is not memoised
    if response is not None:
        text += (
            f" {subject} is {times(no_response(field, response))} for a value as for no response."
        )
    return text


def total_epsilon(manifest: Manifest) -> Fraction:
    """The largest epsilon between two respondents, comparable with plain epsilon-LDP."""
    total = Fraction(0)
    for field, response in fields_with_responses(manifest):
        across = largest_epsilon(field)
        total += across if response is None else max(across, no_response(field, response))
    return total


def fields_with_responses(manifest: Manifest) -> list[tuple[Field, Field | None]]:
    """The private fields, each with the field that says whether there is a response."""
    private = [field for field in manifest.fields if field.distribution is not None]
    by_name = {f.domains[0].name: f for f in private if isinstance(f.domains[0], Response)}
    return [
        (field, by_name.get(field.domains[0].name) if len(field.domains) == 1 else None)
        for field in private
        if not isinstance(field.domains[0], Response)
    ]


def sentences(manifest: Manifest) -> list[str]:
    """The guarantee of each attribute and group, and of all attributes together."""
    found = []
    for field, response in fields_with_responses(manifest):
        for k, domain in enumerate(field.domains):
            found.append(f"{domain.name}: {field_guarantee(field, response, k)}")
        if len(field.domains) > 1:
            names = " and ".join(domain.name for domain in field.domains)
            found.append(f"{names}: {group_guarantee(field)}")
    for field in manifest.fields:
        if field.distribution is None:
            found.append(f"{field.name}: {PUBLIC}")
    together = total_epsilon(manifest)
    private = "private " * any(field.distribution is None for field in manifest.fields)
    text = f"A report is {times(together)} for one respondent as for another"
    found.append(f"All {private}attributes together: {text} (epsilon {rounded_up(together)}).")
    return found


def group_guarantee(field: Field) -> str:
    """The guarantee of attributes that are randomized jointly."""
    return (
        f"A report is {times(largest_epsilon(field))} for one respondent as for another who "
        "differs in these attributes alone."
    )
