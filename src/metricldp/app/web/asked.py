"""An address as a question: what every word of it means, and how much may be asked at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import typer

from metricldp.answers import queries
from metricldp.answers.answer import normal_reach
from metricldp.answers.estimate import RESPONDENTS, check_about
from metricldp.app.arguments import number, share, whole
from metricldp.app.questions import QUESTIONS
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess, listed, plain, shown
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement

LONGEST_WORD, LONGEST_ADDRESS = 4000, 8000
MOST_BARS, MOST_CELLS, MOST_GROUPS, MOST_QUANTILES = 512, 2500, 24, 20
"""What one address may ask for."""
USUAL_BARS, USUAL_SIDE, USUAL_GROUPS = 25, 10, 8
"""Bars of a histogram, of a side of a heat map, and groups, at most, where no width is given."""
HEATMAP, GROUPS = "heatmap", "groups"
SHOWS = {
    "histogram": "Histogram",
    "cdf": "Distribution and quantiles",
    HEATMAP: "Two attributes together",
    GROUPS: "Groups side by side",
    "count": "How many people",
}
"""What the page draws, in the order of its menu."""
NAMES = (*(question.name for question in QUESTIONS), HEATMAP, GROUPS)
USUAL_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_SEVERAL = ("p",)
_SINGLE = (
    *(
        "show",
        "where",
        "attribute",
        "by",
        "of",
        "against",
        "width",
        "by_width",
        "workload",
        "method",
    ),
    *("simultaneous", "level", "about", "anytime", "liars"),
)
_UNSAID = (("level", "0.95"), ("about", RESPONDENTS), ("liars", "0"))
"""What is meant anyway, and is left out of a link."""


@dataclass(frozen=True)
class Asked:
    """A question as it came, checked word by word; `given` says it again."""

    survey: Agreement
    name: str
    given: tuple[tuple[str, str], ...]
    where: str | None
    attribute: str = ""
    by: str = ""
    of: str = ""
    against: str | None = None
    width: float | None = None
    by_width: float | None = None
    workload: str = "ranges"
    method: str = "isotonic"
    simultaneous: bool = False
    probabilities: tuple[float, ...] = ()
    level: float = 0.95
    about: str = RESPONDENTS
    anytime: bool = False
    liars: int = 0

    @property
    def address(self) -> str:
        """The words of the question behind the question mark, always in the same order."""
        return urlencode(self.given)

    def said(self, name: str) -> str:
        """What was said for a word that may be said once."""
        return dict(self.given).get(name, "")


def asked(survey: Agreement, name: str, said: Iterable[tuple[str, str]]) -> Asked:
    """The question of an address; a refusal names the word, and what it could be."""
    if name not in NAMES:
        raise QueryError(f"no question is called {shown(name)}; there are {listed(NAMES)}")
    words = _words(said)
    several = {name: [w for n, w in words if n == name] for name in _SEVERAL}
    single = {n: w for n, w in words if n not in _SEVERAL}
    where = single.get("where")
    queries.parse(survey, where)
    level = _read(single, "level", share, 0.95)
    normal_reach(level)
    about = single.get("about", RESPONDENTS)
    check_about(about)
    liars = _read(single, "liars", whole, 0)
    if liars < 0:
        raise QueryError(f"so many lying devices cannot be: {shown(liars)}")
    probabilities = [_chance(word) for word in several["p"]]
    if len(probabilities) > MOST_QUANTILES:
        raise QueryError(f"at most {MOST_QUANTILES} quantiles at once, not {len(probabilities)}")
    for naming in ("attribute", "by"):
        if naming in single:
            attribute_of(survey, single[naming])
    worth_saying = [word for word in words if word not in _UNSAID]
    order = {name: place for place, name in enumerate(("show", *_SINGLE, *_SEVERAL))}
    return Asked(
        survey,
        name,
        tuple(sorted(worth_saying, key=lambda word: order[word[0]])),
        where,
        single.get("attribute", ""),
        single.get("by", ""),
        single.get("of", ""),
        single.get("against"),
        _read(single, "width", number, None),
        _read(single, "by_width", number, None),
        single.get("workload", "ranges"),
        single.get("method", "isotonic"),
        _flag(single, "simultaneous"),
        tuple(probabilities),
        level,
        about,
        _flag(single, "anytime"),
        liars,
    )


def _words(said: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What was said and is not empty; each word known, short, and once where it may be once."""
    found: list[tuple[str, str]] = []
    length = 0
    for name, word in said:
        if name not in _SINGLE and name not in _SEVERAL:
            known = (*_SEVERAL, *_SINGLE)
            raise QueryError(
                f"no part of a question is called {shown(name)}; there are {', '.join(known)}"
                f"{guess(name, known)}"
            )
        length += len(name) + len(word)
        if len(word) > LONGEST_WORD or length > LONGEST_ADDRESS:
            raise QueryError(f"{name} is too long; a word has at most {LONGEST_WORD} letters")
        if not word.strip():
            continue
        if name in _SINGLE and any(other == name for other, _ in found):
            raise QueryError(f"{name} is said twice; say it once")
        found.append((name, word))
    return found


def _read(single: Mapping[str, str], name: str, parser: Any, usual: Any) -> Any:
    if name not in single:
        return usual
    try:
        return parser(single[name])
    except (typer.BadParameter, ValueError, OverflowError) as wrong:
        raise QueryError(f"{name}: {_said(wrong)}") from None


def _said(wrong: Exception) -> str:
    return str(getattr(wrong, "message", wrong))


def _flag(single: Mapping[str, str], name: str) -> bool:
    word = single.get(name, "0")
    if word not in ("0", "1", "on", "true", "false"):
        raise QueryError(f"{name} is 1 or 0, not {shown(word)}")
    return word in ("1", "on", "true")


def _chance(word: str) -> float:
    try:
        return share(word)
    except typer.BadParameter:
        raise QueryError(f"p is a probability such as 0.5, not {shown(word)}") from None


# What is meant where nothing is said


def asked_about(survey: Agreement) -> list[str]:
    """The attributes that can be drawn, in the survey's order."""
    return [name for name, one in survey.asked.items() if not one.is_weight]


def usual_width(attribute: Attribute, most: int) -> float | None:
    """A round number of steps, so that there are not too many bars; None for one step each."""
    if attribute.size <= most or not attribute.ordered or attribute.named:
        return None
    if getattr(attribute, "edges", None) is not None:
        return None  # bars of one width would cut its bins
    steps = attribute.size / most
    power = 10.0 ** math.floor(math.log10(steps))
    together = next(k * power for k in (1, 2, 5, 10) if k * power >= steps * (1 - 1e-9))
    return max(1, round(together)) * attribute.grid_step


def check_bars(name: str, bars: int, most: int, what: str) -> None:
    """Refuse what would be too many bars, cells or groups."""
    if bars > most:
        remedy = f"give a width, so that there are at most {plain(most)}, or choose another"
        raise QueryError(f"{name} makes {plain(bars)} {what}; {remedy}")
