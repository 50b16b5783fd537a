"""Searches for one setting with which the expected error of a query meets its target.

A survey is designed with another setting, and its error is predicted. Errors fall with respondents
and epsilon and rise with `within`, so a few designs suffice. The setting that is returned was
designed itself: its error is computed, not interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from metricldp.attributes.answered import response_of
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import CertificateError, InvalidSpecError, QueryError
from metricldp.basics.text import plain
from metricldp.mechanisms import registry
from metricldp.mechanisms.auto import MAX_SEARCHED_FOR, MAX_UNARY_BITS
from metricldp.mechanisms.stated import GIVEN
from metricldp.planning.target import COUNT, Target
from metricldp.survey.agreement import Agreement
from metricldp.survey.explain import rounded_up

MOST_RESPONDENTS = 10**12
LARGEST_EPSILON = 10
"""Epsilon of the closest two values, above which none is searched for."""
MOST_BINS = 200
_CLOSE = 1.01
"""A setting is returned when one that is smaller by a hundredth does not suffice."""
_DIGITS = 3
"""Of an epsilon, rounded up."""
_SLOW = ("extremal", "matrix", "memoised")
"""Mechanisms with long searches, compared for few positions only."""
_MOST_POSITIONS = {
    "unary": MAX_UNARY_BITS,
    "threshold-paper": 1 << 10,
    "tight-constraints": 1 << 8,
} | dict.fromkeys(_SLOW, MAX_SEARCHED_FOR)
_ROUND = (1.0, 2.0, 2.5, 5.0)


def redesigned(survey: Agreement, changes: Mapping[str, Mapping[str, Any]]) -> Agreement:
    """The survey with some attributes changed; the mechanisms of those are designed again."""
    attributes: dict[str, Attribute] = dict(survey.asked)
    for name, change in changes.items():
        stated = {"mechanism": _stated(survey, name)} if name in survey.channels else {}
        attributes[name] = replace(attributes[name], **{**stated, **change})
    joint, again = {}, {*changes, *map(response_of, changes)}
    for block in survey.blocks.values():
        group = block.group
        if changed := [name for name in block.names if name in changes]:
            again.add(block.name)
            options = _configuration(group.mechanism, ("workload",))
            mechanism = registry.BUILT_IN[group.mechanism.name].with_options(options)
            limit = group.max_epsilon
            if limit is not None:
                before, after = survey.asked[changed[0]].epsilon, attributes[changed[0]].epsilon
                limit = rounded_up(limit * after / before, _DIGITS)
            group = replace(group, mechanism=mechanism, max_epsilon=limit)
        joint[block.names] = group
    stored = {name: known for name, known in survey.distributions.items() if name not in again}
    return type(survey).fixed(attributes, metric=survey.metric, joint=joint or None, stored=stored)


def _stated(survey: Agreement, name: str) -> Any:
    """The mechanism as it was stated, without the numbers that a search found."""
    if registry.asks_for_best(survey.stated[name]) is not None:
        return survey.stated[name]
    mechanism = survey.mechanisms[name]
    configuration = _configuration(mechanism, ("workload", "prior"))
    return {"name": mechanism.name, **configuration} if configuration else mechanism.name


def _configuration(mechanism: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    stated = {key: getattr(mechanism, key) for key in keys if key in mechanism.options}
    configuration = {key: value for key, value in stated.items() if value is not None}
    if configuration.get("workload") == GIVEN:
        raise InvalidSpecError(
            f"{mechanism.name} was designed for a workload that the survey does not contain; "
            "state the mechanism again, with its workload"
        )
    return configuration


# Respondents -------------------------------------------------------------------------------------


def respondents_for(target: Target, survey: Agreement) -> int:
    """The smallest number of respondents that meets the target."""
    if target.query == COUNT:
        raise QueryError(
            "the error of a count grows with the number of respondents; plan a fraction, whose "
            "error falls"
        )
    if not target.is_met(survey, MOST_RESPONDENTS):
        bias = target.bias(survey)
        remedy = ", or rounding='stochastic'"
        because = f" because bins alone cause {target.shown(bias)}; use more bins{remedy}"
        raise QueryError(
            f"no number of respondents suffices for an error of {target.shown(target.error)}"
            f"{because if bias else ''}"
        )
    few, enough = 0, 1
    while not target.is_met(survey, enough):
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if target.is_met(survey, middle) else (middle, enough)
    return enough


# Epsilon, within, max_epsilon --------------------------------------------------------------------


def scaled(attribute: Attribute, factor: float) -> dict[str, Any]:
    """Epsilon, max_epsilon and optional of an attribute times a factor."""
    epsilons = {key: getattr(attribute, key) for key in ("epsilon", "max_epsilon", "optional")}
    return {k: rounded_up(e * factor, _DIGITS) for k, e in epsilons.items() if e is not None}


def with_epsilon(survey: Agreement, names: list[str], factor: float) -> Agreement:
    """The survey with the epsilons of some attributes times a factor."""
    if factor == 1:
        return survey
    return redesigned(survey, {name: scaled(survey.asked[name], factor) for name in names})


def epsilon_for(target: Target, survey: Agreement, n: int, names: list[str]) -> Agreement:
    """The survey with the smallest epsilons, in fixed proportion, that meets the target."""
    needed = [name for name in target.names(survey) if name in names]
    if not needed:
        raise QueryError(f"{target.words(survey)} does not depend on {', '.join(names)}")
    asked = survey.asked
    nearest = max(float(asked[m].distances.smallest(asked[m].size)) for m in needed)
    most = LARGEST_EPSILON / nearest
    if most <= 1:
        raise QueryError(
            f"epsilon {plain(nearest)} for the closest two values gives no protection; start with "
            "a smaller one"
        )
    error = cache(lambda factor: target.error_of(with_epsilon(survey, needed, factor), n))
    factor = smallest_setting(error, target.error, 1.0, most / 1e5, most)
    if factor is None:
        raise QueryError(
            f"no epsilon up to {plain(most * nearest)} for the closest two values gives an error "
            f"of {target.shown(target.error)} with {n:,} respondents: it is "
            f"{target.shown(error(most))} there; use more respondents"
        )
    return with_epsilon(survey, names, factor)


def within_for(target: Target, survey: Agreement, n: int, name: str) -> Agreement:
    """The survey with the largest `within` of an attribute that meets the target."""
    attribute: Any = survey.asked[name]
    if not attribute.ordered or not hasattr(attribute, "within"):
        raise QueryError(f"{name} is {attribute.kind} and has no within; find epsilon instead")
    step = attribute.grid_step

    @cache
    def design(steps: int) -> Agreement:
        return redesigned(survey, {name: {"within": float(f"{steps * step:.9g}"), "per": None}})

    if not target.is_met(design(1), n):
        error = target.shown(target.error_of(design(1), n))
        raise QueryError(
            f"even with within={plain(step)} the error is {error}; use more respondents, or find "
            "epsilon"
        )
    few, many = 1, attribute.size - 1
    while many > few:
        middle = min((few + many + 1) // 2, 4 * few)  # small windows are designed sooner
        few, many = (middle, many) if target.is_met(design(middle), n) else (few, middle - 1)
    return design(few)


def max_epsilon_for(target: Target, survey: Agreement, n: int, name: str) -> Agreement:
    """The survey with the smallest `max_epsilon` of an attribute that meets the target."""
    attribute = replace(survey.asked[name], max_epsilon=None)
    metric, size = attribute.distances, attribute.size
    least, most = float(metric.smallest(size)), float(metric.diameter(size))
    if least >= most:
        raise QueryError(f"any two values of {name} have the same epsilon; find epsilon instead")

    @cache
    def design(limit: float) -> Agreement:
        return redesigned(survey, {name: {"max_epsilon": max(rounded_up(limit, _DIGITS), least)}})

    start = min(max(survey.asked[name].max_epsilon or 3 * least, least), most)
    limit = smallest_setting(
        lambda limit: target.error_of(design(limit), n), target.error, start, least, most
    )
    if limit is None:
        error = target.shown(target.error_of(design(most), n))
        raise QueryError(
            f"without max_epsilon the error is {error}; use more respondents, or find epsilon"
        )
    return design(limit)


def smallest_setting(
    error: Callable[[float], float], target: float, start: float, least: float, most: float
) -> float | None:
    """The smallest setting whose error is at most the target, to a hundredth; the error falls.

    From the start the error is assumed to fall as 1 / setting. Between a setting that suffices and
    one that does not, log(error) is interpolated in log(setting).
    """
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    x = start
    while True:
        value = error(x)
        if value <= target:
            high = x, value
        else:
            low = x, value
        if low is not None and high is not None:
            apart = math.log(high[0] / low[0])
            if apart <= math.log(_CLOSE):
                return high[0]
            fall = math.log(low[1] / max(high[1], 1e-300))
            part = math.log(low[1] / target) / fall + 0.02
            x = low[0] * math.exp(apart * min(max(part, 0.15), 0.85))
        elif high is not None:
            if high[0] <= least:
                return high[0]
            x = max(least, x * min(0.97 * high[1] / target, 0.9))
        else:
            assert low is not None
            if low[0] >= most:
                return None
            x = min(most, x * max(1.03 * low[1] / target, 1.1))


# Mechanisms and bins ------------------------------------------------------------------------------


def mechanisms_for(survey: Agreement, name: str) -> dict[Any, Agreement]:
    """The survey with each built-in mechanism that can serve an attribute and is designed soon."""
    attribute = survey.attributes[name]
    if name not in survey.channels or attribute.only_mechanism:
        raise QueryError(f"{name} has no choice of mechanisms; find epsilon instead")
    names = [
        mechanism.name
        for mechanism in registry.BUILT_IN.values()
        if mechanism.max_computed
        and attribute.size <= _MOST_POSITIONS.get(mechanism.name, math.inf)
    ]
    return _possible(survey, name, "mechanism", names)


def bins_for(survey: Agreement, name: str) -> dict[Any, Agreement]:
    """The survey with bins of round widths for an attribute, the widest first."""
    attribute: Any = survey.asked[name]
    if not attribute.in_bins or attribute.edges is not None:
        raise QueryError(f"{name} has no bins of equal width to choose; find epsilon instead")
    extent = attribute.high - attribute.low
    top = math.floor(math.log10(extent))
    widths = [part * 10.0**power for power in range(top, top - 4, -1) for part in reversed(_ROUND)]
    counts = [
        bins
        for width in widths
        if 2 <= (bins := round(extent / width)) <= MOST_BINS
        and math.isclose(bins * width, extent, rel_tol=1e-9)
    ]
    surveys = _possible(survey, name, "bins", counts)
    if not surveys:
        raise QueryError(
            f"no bins of a round width fit {name}, from {plain(attribute.low)} to "
            f"{plain(attribute.high)}; move an end to a round number"
        )
    return surveys


def _possible(survey: Agreement, name: str, key: str, values: list[Any]) -> dict[Any, Agreement]:
    surveys = {}
    for value in values:
        try:
            surveys[value] = redesigned(survey, {name: {key: value}})
        except (CertificateError, QueryError, InvalidSpecError):
            continue
    return surveys
