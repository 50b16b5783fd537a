"""What has to be set for a wish: searches over predicted errors, one setting unknown.

Nothing here computes an error. A survey is made with another setting, exactly as a user would make
it, and its error is predicted; errors fall with people and epsilon and rise with `within`, so a few
tries suffice. What was found was tried: its error is the predicted one, not an interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from metricldp.answers.wishes import Wish
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import CertificateError, QueryError, SurveyError
from metricldp.basics.text import plain
from metricldp.design import registry
from metricldp.design.auto import MAX_SEARCHED_FOR, MAX_UNARY_BITS
from metricldp.design.plans import GIVEN
from metricldp.survey.agreement import Agreement
from metricldp.survey.strength import NO_PROMISE_NEARBY, up

MOST_PEOPLE = 10**12
"""More people than this there are not."""
_CLOSE = 1.01
"""A setting is found when one that is lower by a hundredth is not enough."""
_DIGITS = 3
"""Of an epsilon, rounded up."""
_SEARCHED = ("designed", "matrix", "memoised")
"""Mechanisms that are found by long searches: tried for few positions only."""
_ROUND = (1.0, 2.0, 2.5, 5.0)
MOST_BINS = 200


def remade(survey: Agreement, changes: Mapping[str, Mapping[str, Any]]) -> Agreement:
    """The same survey with some attributes said otherwise; what blurs those is decided anew."""
    attributes: dict[str, Attribute] = dict(survey.asked)
    for name, change in changes.items():
        said = {"mechanism": _again(survey, name)} if name in survey.channels else {}
        attributes[name] = replace(attributes[name], **{**said, **change})
    joint = {}
    for block in survey.blocks.values():
        again: Any = block.mechanism
        if changed := [name for name in block.names if name in changes]:
            again = {"name": again.name, **_wishes(again, ("metric", "cap", "workload"))}
            before, after = survey.asked[changed[0]].epsilon, attributes[changed[0]].epsilon
            if "cap" in again:
                again["cap"] = up(again["cap"] * after / before, _DIGITS)
        joint[block.names] = again
    return type(survey)(attributes, metric=survey.metric, joint=joint or None)


def _again(survey: Agreement, name: str) -> Any:
    """What to say of a mechanism so that it is searched for again: "auto" stays auto."""
    if registry.asks_for_best(survey.stated[name]) is not None:
        return survey.stated[name]
    found = survey.mechanisms[name]
    wishes = _wishes(found, ("workload", "prior"))
    return {"name": found.name, **wishes} if wishes else found.name


def _wishes(mechanism: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    found = {key: value for key, value in mechanism.saved().items() if key in keys}
    if found.get("workload") == GIVEN:
        raise SurveyError(
            f"{mechanism.name} was made for rows that the survey does not hold; say the mechanism "
            "again, with its workload"
        )
    return found


# People --------------------------------------------------------------------------------------


def people_for(wish: Wish, survey: Agreement) -> int:
    """The fewest people with whom the wish is met."""
    if wish.kind == "count":
        raise QueryError(
            "with more people the error of a count grows; ask for a fraction, whose error falls"
        )
    if not wish.met(survey, MOST_PEOPLE):
        rest = wish.open(survey)
        left = f"; bins leave ± {wish.shown(rest)} open, so use more bins, or kind real"
        raise QueryError(
            f"no number of people is enough for ± {wish.shown(wish.error)}{left if rest else ''}"
        )
    few, enough = 0, 1
    while not wish.met(survey, enough):
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if wish.met(survey, middle) else (middle, enough)
    return enough


# Epsilon, within, cap --------------------------------------------------------------------------


def scaled(attribute: Attribute, factor: float) -> dict[str, Any]:
    """All distances of an attribute times a factor: epsilon and, where it has them, the others."""
    said = {key: getattr(attribute, key) for key in ("epsilon", "cap", "optional")}
    return {key: up(value * factor, _DIGITS) for key, value in said.items() if value is not None}


def with_epsilon(survey: Agreement, names: list[str], factor: float) -> Agreement:
    """The survey with the distances of some attributes times a factor."""
    if factor == 1:
        return survey
    return remade(survey, {name: scaled(survey.asked[name], factor) for name in names})


def epsilon_for(wish: Wish, survey: Agreement, n: int, names: list[str]) -> Agreement:
    """The survey with the smallest epsilons, in a fixed proportion, that meets the wish."""
    tried = [name for name in wish.names(survey) if name in names]
    if not tried:
        raise QueryError(f"{wish.words(survey)} has nothing to do with {', '.join(names)}")
    nearest = max(float(survey.asked[m].distances.smallest(survey.asked[m].size)) for m in tried)
    most = NO_PROMISE_NEARBY / nearest
    if most <= 1:
        raise QueryError(
            f"epsilon {plain(nearest)} for the nearest two values is no promise; begin with a "
            "smaller one"
        )
    error = cache(lambda factor: wish.error_of(with_epsilon(survey, tried, factor), n))
    factor = crossing(error, wish.error, 1.0, most / 1e5, most)
    if factor is None:
        least = wish.shown(error(most))
        raise QueryError(
            f"no epsilon that is a promise gives ± {wish.shown(wish.error)} with {n:,} people; at "
            f"{plain(most * nearest)} for the nearest two values it is still ± {least}; ask more "
            "people"
        )
    return with_epsilon(survey, names, factor)


def within_for(wish: Wish, survey: Agreement, n: int, name: str) -> Agreement:
    """The survey with the widest `within` of an attribute that meets the wish."""
    attribute: Any = survey.asked[name]
    if not attribute.ordered or not hasattr(attribute, "within"):
        raise QueryError(f"{name} is {attribute.kind} and has no within; find epsilon instead")
    step = attribute.grid_step

    @cache
    def made(steps: int) -> Agreement:
        change = {"within": float(f"{steps * step:.9g}")}
        return remade(survey, {name: change | ({} if attribute.within else {"per": 1})})

    def met(steps: int) -> bool:
        return wish.met(made(steps), n)

    few, many = 1, attribute.size - 1
    if not met(few):
        least = wish.shown(wish.error_of(made(few), n))
        raise QueryError(
            f"even within {plain(step)} the error is ± {least}; ask more people, or find epsilon"
        )
    while many > few:
        middle = min((few + many + 1) // 2, 4 * few)  # narrow ones are found sooner
        few, many = (middle, many) if met(middle) else (few, middle - 1)
    return made(few)


def cap_for(wish: Wish, survey: Agreement, n: int, name: str) -> Agreement:
    """The survey with the smallest `cap` of an attribute that meets the wish."""
    attribute = replace(survey.asked[name], cap=None)
    metric, size = attribute.distances, attribute.size
    least, most = float(metric.smallest(size)), float(metric.diameter(size))
    if least >= most:
        raise QueryError(f"any two values of {name} are equally far apart; find epsilon instead")

    @cache
    def made(cap: float) -> Agreement:
        return remade(survey, {name: {"cap": max(up(cap, _DIGITS), least)}})

    start = min(max(survey.asked[name].cap or 3 * least, least), most)
    found = crossing(lambda cap: wish.error_of(made(cap), n), wish.error, start, least, most)
    if found is None:
        without = wish.shown(wish.error_of(made(most), n))
        raise QueryError(
            f"without any cap the error is ± {without}; ask more people, or find epsilon"
        )
    return made(found)


def crossing(
    error: Callable[[float], float], target: float, start: float, least: float, most: float
) -> float | None:
    """The smallest setting with no more than a target error, which falls: to a hundredth.

    It starts where the error is taken to fall as 1 over the setting, and goes on between one that
    is enough and one that is not, where errors are straight in logarithms.
    """
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    x = start
    while True:
        found = error(x)
        if found <= target:
            high = x, found
        else:
            low = x, found
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


# Mechanisms and bins ---------------------------------------------------------------------------


def mechanisms_for(survey: Agreement, name: str) -> dict[str, Agreement]:
    """The survey with each of our mechanisms that can blur an attribute and is found soon."""
    attribute = survey.attributes[name]
    if name not in survey.channels or attribute.only_mechanism:
        raise QueryError(f"{name} has no other mechanism to choose; find epsilon instead")
    found = {}
    for own in registry.BUILT_IN.values():
        most = {"unary": MAX_UNARY_BITS, "threshold-paper": 1 << 10, "tents": 1 << 8}.get(own.name)
        most = MAX_SEARCHED_FOR if own.name in _SEARCHED else most
        if not own.max_computed or (most and attribute.size > most):
            continue
        made = _if_it_can_be(survey, name, {"mechanism": own.name})
        if made is not None:
            found[own.name] = made
    return found


def bins_for(survey: Agreement, name: str) -> dict[int, Agreement]:
    """The survey with bins of round widths for an attribute, the widest first."""
    attribute: Any = survey.asked[name]
    if not attribute.in_bins or attribute.edges is not None:
        raise QueryError(f"{name} has no bins of one width to choose; find epsilon instead")
    extent, found = attribute.high - attribute.low, {}
    for width in _widths(extent):
        bins = round(extent / width)
        if 2 <= bins <= MOST_BINS and math.isclose(bins * width, extent, rel_tol=1e-9):
            made = _if_it_can_be(survey, name, {"bins": bins})
            if made is not None:
                found[bins] = made
    if not found:
        raise QueryError(
            f"no bins of a round width fit {name}, from {plain(attribute.low)} to "
            f"{plain(attribute.high)}; move an end to a round number"
        )
    return found


def _widths(extent: float) -> list[float]:
    """Round numbers, from half of the domain down to its two-hundredth part."""
    top = math.floor(math.log10(extent))
    every = [part * 10.0**power for power in range(top, top - 4, -1) for part in reversed(_ROUND)]
    return [width for width in every if extent / MOST_BINS <= width <= extent / 2]


def _if_it_can_be(survey: Agreement, name: str, change: Mapping[str, Any]) -> Agreement | None:
    try:
        return remade(survey, {name: change})
    except (CertificateError, QueryError, SurveyError):
        return None
