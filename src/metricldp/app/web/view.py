"""What the pages say: templates filled in, with every word escaped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from metricldp.answers.answer import percent
from metricldp.answers.conditions import attributes_in
from metricldp.answers.quick import Quick
from metricldp.app.web import charts
from metricldp.app.web.asked import (
    GROUPS,
    HEATMAP,
    SHOWS,
    USUAL_BARS,
    USUAL_GROUPS,
    USUAL_SIDE,
    Asked,
    asked,
    asked_about,
    usual_width,
)
from metricldp.app.web.costs import check_cost
from metricldp.app.web.found import Found, answer, headline
from metricldp.app.web.promise import promise
from metricldp.app.web.scene import Scene, svg
from metricldp.app.web.tables import Table
from metricldp.basics.errors import MetricLdpError
from metricldp.basics.optional import optional
from metricldp.basics.text import plain as written
from metricldp.collector.base import Status
from metricldp.estimate.source import name_in_text
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import jinja2
    import markupsafe
    from starlette import responses
    from starlette.responses import Response
else:
    jinja2, markupsafe = optional("jinja2"), optional("markupsafe")
    responses = optional("starlette.responses")

_HOURS_SHOWN = 72
_MOST_TIMES = 120
_MOST_OFFERED = 60


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("metricldp.app.web", "templates")
    undefined = jinja2.StrictUndefined
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=undefined, trim_blocks=True, lstrip_blocks=True
    )


def _filled(name: str, **words: Any) -> str:
    return _templates().get_template(name).render({"known": True, **words})


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    kept = {"cache-control": "no-store", **(headers or {})}
    return responses.Response(text, status, kept, "text/html; charset=utf-8")


def login(onward: str, wrong: str = "", status: int = 401) -> Response:
    return html(_filled("login.html", next=onward, wrong=wrong, known=False), status)


def plain(status: int, said: str, headers: Mapping[str, str] | None = None) -> Response:
    heads = {404: "Nothing here", 503: "Busy", 403: "Refused"}
    words = {"head": heads.get(status, "Something is wrong"), "said": said, "known": False}
    return html(_filled("plain.html", **words), status, headers)


def surveys(mine: list[Agreement]) -> Response:
    every = [{"fingerprint": one.fingerprint, "names": names_of(one)} for one in mine]
    return html(_filled("surveys.html", surveys=every))


def names_of(survey: Agreement) -> str:
    *most, last = survey.asked
    return f"{', '.join(most)} and {last}" if most else last


def survey(tally: Quick, status: Status, said: list[tuple[str, str]]) -> tuple[int, str]:
    """The page of one survey with the answer to a question, or with what is wrong with it."""
    agreed, wrong = tally.survey, ""
    show = next((word for name, word in said if name == "show" and word), "")
    show = show or _usual_show(agreed, said)
    question = replace(_nothing(agreed), name=show if show in SHOWS else "histogram")
    found: Found | None = None
    numbers: list[tuple[str, str]] = []
    try:
        question = asked(agreed, show, said)
        drawn = completed(question)
        check_cost(tally, drawn)
        found = answer(tally, drawn)
        numbers = headline(tally, drawn)
    except MetricLdpError as mistake:
        wrong, drawn = str(mistake), completed(question)
    over_time, times = _over_time(status)
    conditions = _conditions(agreed)
    page = _filled(
        "survey.html",
        survey=agreed,
        status=status,
        names=names_of(agreed),
        title=found.title if found else names_of(agreed),
        shows=_shows(agreed),
        show=drawn.name,
        attributes=asked_about(agreed),
        attribute=drawn.attribute,
        by=drawn.by,
        example=" or ".join(conditions[:2]),
        example1=conditions[0],
        conditions=conditions,
        measures=_measures(agreed),
        said=_said(said),
        more=any(_said(said)(name) for name in ("width", "by_width", "of", "against", "liars")),
        about=drawn.about,
        anytime=any(name == "anytime" and word == "1" for name, word in said),
        wrong=wrong,
        found=found,
        headline=numbers,
        drawing=_inline(found, "answer-chart"),
        caption=_caption(drawn),
        address=question.address,
        download=_download(drawn),
        times=markupsafe.Markup(svg(times, name="times")) if times else "",
        over_time=over_time,
        outcomes=_outcomes(status),
        never=sorted(name for name, n in status.outcomes.items() if not n and name != "accepted"),
        promise=promise(agreed),
    )
    return (400 if wrong else 200), page


def _usual_show(survey: Agreement, said: list[tuple[str, str]]) -> str:
    """A histogram; where every attribute has a condition there is none to draw, only a number."""
    where = next((word for name, word in said if name == "where" and word.strip()), None)
    try:
        compared = attributes_in(where or {})
    except MetricLdpError:
        return "histogram"
    chosen = any(name == "attribute" and word for name, word in said)
    return "histogram" if chosen or {*asked_about(survey)} - {*compared} else "count"


def _nothing(survey: Agreement) -> Asked:
    return Asked(survey, "histogram", (), None)


def _said(said: list[tuple[str, str]]) -> Any:
    first = dict(reversed(said))
    return lambda name: first.get(name, "")


def completed(question: Asked) -> Asked:
    """What is meant where nothing is said: attributes without a condition, not too many bars."""
    survey, names = question.survey, asked_about(question.survey)
    compared = attributes_in(question.where or {})
    free = [name for name in names if name not in compared]
    attribute = question.attribute or [*free, names[0]][0]
    by = question.by
    if not by or (by == attribute and question.name == HEATMAP):
        others = [name for name in names if name != attribute]
        named = [name for name in others if survey.asked[name].named]
        chosen = named or others if question.name == GROUPS else others
        by = chosen[0] if chosen else attribute
    most = USUAL_SIDE if question.name == HEATMAP else USUAL_BARS
    width = question.width
    if width is None and attribute in survey.asked:
        width = usual_width(survey.asked[attribute], most)
    by_width = question.by_width
    if by_width is None and by in survey.asked:
        by_width = usual_width(
            survey.asked[by], USUAL_SIDE if question.name == HEATMAP else USUAL_GROUPS
        )
    of = question.of
    if question.name == GROUPS and not of and by != attribute and attribute in survey.asked:
        described = survey.asked[attribute]
        of = "" if described.named or described.is_cyclic else attribute
    return replace(question, attribute=attribute, by=by, of=of, width=width, by_width=by_width)


def _download(drawn: Asked) -> str:
    """The words of the same question for the API, where nothing goes without saying."""
    given = [(name, word) for name, word in drawn.given if name != "show"]
    there = {name for name, _ in given}
    wanted: list[tuple[str, Any]] = [("attribute", drawn.attribute), ("by", drawn.by)]
    wanted += [("of", drawn.of), ("width", drawn.width), ("by_width", drawn.by_width)]
    more = [(n, written(v).replace(",", "") if n.endswith("width") else v) for n, v in wanted if v]
    added = tuple(pair for pair in more if pair[0] not in there)
    return replace(drawn, given=(*given, *added)).address


def _shows(survey: Agreement) -> dict[str, str]:
    two = len(asked_about(survey)) > 1
    return {name: words for name, words in SHOWS.items() if two or name not in (HEATMAP, GROUPS)}


def _conditions(survey: Agreement) -> list[str]:
    """Conditions to choose from: every category, and a range of every attribute of numbers."""
    firsts, others = [], []
    for attribute in asked_about(survey):
        one, name = survey.asked[attribute], name_in_text(attribute)
        if one.named:
            labels = [one.name_of(k) for k in range(min(one.size, _MOST_OFFERED))]
            first, *more = (f"{name} == {label!r}" for label in labels)
            firsts.append(first)
            others += more
        else:
            last = max(0, one.size // 2 - 1)
            ends = [written(end) for end in (one.values_at(0)[0], one.values_at(last)[1])]
            if one.in_bins:  # with the digits that an edge needs
                ends = [one.name_of(0).partition(" to ")[0], one.until(last)]
            low, high = (end.replace(",", "") for end in ends)
            firsts.append(f"{low} <= {name} {'<' if one.in_bins else '<='} {high}")
    return [*firsts, *others][:_MOST_OFFERED]


def _measures(survey: Agreement) -> list[str]:
    asked = {name: survey.asked[name] for name in asked_about(survey)}
    numbers = [name for name, one in asked.items() if not (one.named or one.is_cyclic)]
    return ["people", *numbers, *_conditions(survey)]


def _inline(found: Found | None, name: str) -> markupsafe.Markup | str:
    return markupsafe.Markup(svg(found.scene, name=name)) if found and found.scene else ""


def _caption(question: Asked) -> str:
    level = percent(question.level)
    words = {
        "histogram": f"Estimates, with their {level} intervals.",
        "cdf": f"The line is the estimate; the band holds all of the curve at {level}.",
        HEATMAP: f"Stronger colours are more people. A dot: the {level} interval reaches zero.",
        GROUPS: f"Lines are {level} intervals. That of a difference allows for shared reports.",
    }
    lied = f" Dashed: what could be, had {written(question.liars)} devices not lied."
    told = words.get(question.name, "")
    return told + (lied if told and question.liars and question.name != HEATMAP else "")


def _over_time(status: Status) -> tuple[Table, Scene | None]:
    """Reports by the hour or, where there are many hours, by the day."""
    hours = dict(status.per_hour)
    step, form, unit = 1, "%d %b %H:00", "hour"
    if hours and max(hours) - min(hours) >= _HOURS_SHOWN:
        step, form, unit = 24, "%d %b %Y", "day"
    counts: dict[int, int] = {}
    for hour, count in hours.items():
        counts[hour // step] = counts.get(hour // step, 0) + count
    first, last = (min(counts), max(counts)) if counts else (0, -1)
    times = [(t, counts.get(t, 0)) for t in range(max(first, last - _MOST_TIMES + 1), last + 1)]
    rows = [(datetime.fromtimestamp(t * step * 3600, UTC).strftime(form), n) for t, n in times]
    table = Table(f"Reports accepted by {unit} (UTC)", (unit, "reports"), tuple(rows))
    if not rows:
        return table, None
    told = f"Reports accepted in each {unit}, {sum(n for _, n in rows):,} in all."
    return table, charts.columns(rows, f"Reports by {unit}", told, f"{unit}, UTC")


def _outcomes(status: Status) -> Table:
    """Outcomes that there were; "accepted" always."""
    there = [pair for pair in status.outcomes.items() if pair[1] or pair[0] == "accepted"]
    rows = tuple(sorted(there, key=lambda pair: (-pair[1], pair[0])))
    return Table("What became of everything that was sent", ("outcome", "reports"), rows)
