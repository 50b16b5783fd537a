"""Questions of the command line beyond counts: variances, correlations, lines, tests, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from metricldp.answers.regression import Regression
from metricldp.answers.tally import Tally
from metricldp.answers.top import Top
from metricldp.answers.wald import Test
from metricldp.app.arguments import number
from metricldp.app.questions import ALWAYS, Question
from metricldp.basics.errors import QueryError
from metricldp.basics.text import listed

_TESTED = {
    "about": (
        Annotated[
            str,
            typer.Option("--about", help="the population people were drawn from, or respondents"),
        ],
        "population",
    ),
    "level": ALWAYS["level"],
    "as_json": ALWAYS["as_json"],
}
_BASE = Annotated[
    list[str] | None,
    typer.Option("--base", help="what levels are compared with, such as region=north; repeatable"),
]
_WIDTHS = Annotated[
    list[str] | None,
    typer.Option("--width", help="of an attribute's bars, such as age=10; repeatable"),
]
_SHARE = Annotated[
    str | None,
    typer.Option("--share", help="a condition that the share is of; needed"),
]
_K = Annotated[int, typer.Option("--k", help="how many values")]
_OTHER = "the other attribute"


def _one(others: Sequence[str]) -> str:
    if len(others) != 1:
        raise QueryError(f"name one other attribute, then a condition, not {listed(others)}")
    return others[0]


def _pairs(words: Sequence[str] | None, what: str) -> dict[str, str]:
    """Words such as region=north, by what stands before the sign."""
    found = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise QueryError(f"{what} is said as attribute=value, not as {word!r}")
        found[name.strip()] = value.strip()
    return found


def _covariance(tally: Tally, attribute: str, others: Sequence[str], **how: Any) -> Any:
    return tally.covariance(attribute, _one(others), **how)


def _correlation(tally: Tally, attribute: str, others: Sequence[str], **how: Any) -> Any:
    return tally.correlation(attribute, _one(others), **how)


def _regression(
    tally: Tally, attribute: str, others: Sequence[str], base: list[str] | None, **how: Any
) -> Regression:
    if not others:
        raise QueryError("name the predictors after the outcome, then a condition")
    return tally.regression(attribute, others, base=_pairs(base, "a base"), **how)


def _independence(
    tally: Tally, attribute: str, others: Sequence[str], width: list[str] | None, **how: Any
) -> Test:
    try:
        widths = {name: number(text) for name, text in _pairs(width, "a width").items()}
    except typer.BadParameter as wrong:
        raise QueryError(f"a width is a number: {wrong}") from None
    return tally.independence(attribute, _one(others), widths=widths, **how)


def _trend(tally: Tally, attribute: str, share: str | None, **how: Any) -> Test:
    if not share:
        raise QueryError("say what the share is of, as with --share \"vote == 'yes'\"")
    return tally.trend(share, attribute, **how)


def _top(tally: Tally, attribute: str, k: int, **how: Any) -> Top:
    return tally.top(attribute, k, **how)


STATISTICS = (
    Question(
        "variance",
        "Give the variance of an attribute over the people who meet the condition.",
        Tally.variance,
        attribute="an attribute whose values are numbers",
        taken=ALWAYS,
    ),
    Question(
        "std",
        "Give the standard deviation of an attribute over the people who meet the condition.",
        Tally.std,
        attribute="an attribute whose values are numbers",
        taken=ALWAYS,
    ),
    Question(
        "covariance",
        "Give the covariance of two attributes over the people who meet the condition.",
        _covariance,
        attribute="an attribute whose values are numbers",
        others=_OTHER,
        taken=ALWAYS,
    ),
    Question(
        "correlation",
        "Give the correlation of two attributes over the people who meet the condition.",
        _correlation,
        attribute="an attribute whose values are numbers",
        others=_OTHER,
        taken=ALWAYS,
    ),
    Question(
        "regression",
        "Fit a line by least squares: an attribute by others, numbers and categories.",
        _regression,
        attribute="the outcome, an attribute whose values are numbers",
        others="the predictors",
        options={"base": (_BASE, None)},
        taken=ALWAYS,
    ),
    Question(
        "independence",
        "Test whether two attributes are independent.",
        _independence,
        attribute="an attribute",
        others=_OTHER,
        options={"width": (_WIDTHS, None)},
        taken=_TESTED,
    ),
    Question(
        "trend",
        "Test whether the share of people who meet a condition changes along an attribute.",
        _trend,
        attribute="an attribute with an order",
        options={"share": (_SHARE, None)},
        taken=_TESTED,
    ),
    Question(
        "top",
        "Give the most frequent values of an attribute, and which ranks are certain.",
        _top,
        attribute="the attribute",
        options={"k": (_K, 3)},
        taken=ALWAYS,
    ),
)
"""In the order of the help."""
