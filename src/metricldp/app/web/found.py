"""Answers as the page and the API give them: data, a table, a chart, and a few sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from metricldp.answers import differences, grids, watched
from metricldp.answers.answer import Answer, percent
from metricldp.answers.answer_table import Answers, Histogram
from metricldp.answers.circular import CircularMean
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.quick import Quick
from metricldp.app.questions import QUESTIONS
from metricldp.app.web import charts
from metricldp.app.web.asked import (
    GROUPS,
    HEATMAP,
    MOST_BARS,
    MOST_CELLS,
    MOST_GROUPS,
    Asked,
    check_bars,
)
from metricldp.app.web.charts import Row
from metricldp.app.web.costs import table_is_best
from metricldp.app.web.scene import Scene
from metricldp.app.web.tables import Table
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import finite
from metricldp.basics.text import shown
from metricldp.design.plans import workload_of
from metricldp.store.readings import attribute_of

_QUESTIONS = {question.name: question for question in QUESTIONS}
_MOST_ROWS = 4096
_LIARS = ("low without lies", "high without lies")


@dataclass(frozen=True)
class Found:
    """One answer, in every form that somebody may want."""

    title: str
    data: dict[str, Any]
    table: Table
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    scene: Scene | None = None
    more: tuple[Table, ...] = ()


def answer(tally: Quick, asked: Asked) -> Found:
    """Ask the tally; what is too much at once is refused with what would do."""
    if asked.anytime and tally.n < watched.FIRST:
        raise QueryError(
            f"intervals that stay right while one watches begin at {watched.FIRST} reports, and "
            f"there are {tally.n:,}; wait, or leave anytime out"
        )
    if asked.liars > tally.n:
        raise QueryError(f"of {tally.n:,} devices {shown(asked.liars)} cannot lie")
    return _ANSWERS.get(asked.name, _single)(tally, asked)


def _asked_of(tally: Quick, asked: Asked, **more: Any) -> Any:
    question = _QUESTIONS[asked.name]
    if question.attribute:
        if not asked.attribute:
            raise QueryError(f"{asked.name} needs attribute=, {question.attribute}")
        more["attribute"] = asked.attribute
    return question.ask(tally, where=asked.where, about=asked.about, **more)


def among(asked: Asked) -> str:
    return f" among {asked.where}" if asked.where else ""


def _noted(asked: Asked, notes: Sequence[str] = ()) -> tuple[str, ...]:
    if asked.anytime:
        stay = f"{percent(asked.level)} intervals that stay right while you watch"
        return (*notes, f"{stay}, at every number of reports together, in the limit of many")
    return tuple(notes)


# Single numbers


def _single(tally: Quick, asked: Asked) -> Found:
    """count, fraction, sum and mean."""
    found: Answer = _asked_of(tally, asked)
    data = found.to_dict(asked.level)
    if asked.anytime:
        data |= _ends(found.interval(asked.level, anytime=True)) | {"anytime": True}
    if asked.liars:
        _add_liars(data, asked, [found.moved_by(asked.liars)])
    table = _table({**data, "answers": [{"label": found.question, **data}]}, "", "question", 3)
    title = f"{asked.name.capitalize()} of {found.question}"
    return Found(title, data, table, (single_line(found, asked),), _noted(asked, found.notes))


def single_line(found: Answer, asked: Asked) -> str:
    """A value with its error and interval, in the digits that mean something."""
    low, high = found.interval(asked.level, anytime=asked.anytime)
    if isinstance(found, CircularMean):
        return found.text(asked.level).partition(";")[0]
    show = found._shown
    text = f"{show(found.value)} ± {show(found.stderr)} {found.unit}"
    text += f" ({percent(asked.level)}: {found._shown_ends(low, high)})"
    if asked.liars:
        low, high = found.moved_by(asked.liars)
        text += f"; had {asked.liars:,} devices not lied, {show(low)} to {show(high)}"
    return text


def _ends(ends: tuple[float, float]) -> dict[str, Any]:
    return {"low": finite(float(ends[0])), "high": finite(float(ends[1]))}


def _add_liars(data: dict[str, Any], asked: Asked, ends: Sequence[tuple[Any, Any]]) -> None:
    """Between what each answer would lie had so many devices not lied, as the command line says."""
    told = [[_plain_number(low), _plain_number(high)] for low, high in ends]
    data["liars"] = {"devices": asked.liars, "without_them": told}


def _plain_number(end: Any) -> Any:
    return finite(float(end)) if isinstance(end, float) else end


def _quantiles(tally: Quick, asked: Asked) -> Found:
    chances = list(asked.probabilities or (0.5,))
    found: list[Quantile] = _asked_of(tally, asked, probabilities=chances, method=asked.method)
    data = _QUESTIONS["quantile"].data(found, asked.level)
    if asked.anytime:
        for one, told in zip(found, data["quantiles"], strict=True):
            told["low"], told["high"] = one.interval(asked.level, anytime=True)
            told["anytime"] = True
    if asked.liars:
        _add_liars(data, asked, [one.moved_by(asked.liars) for one in found])
    table = _quantile_table(found, asked)
    lines = tuple(one.text(asked.level) for one in found if not asked.anytime)
    title = f"Quantiles of {found[0].cdf.question}"
    return Found(title, data, table, lines, _noted(asked, found[0].cdf.notes))


def _quantile_table(found: Sequence[Quantile], asked: Asked) -> Table:
    rows = []
    for one in found:
        low, high = one.interval(asked.level, anytime=asked.anytime)
        rows.append((f"{100 * one.probability:g}%", one.shown(), str(low), str(high)))
    heads = ("share of people", f"{found[0].attribute} up to", "low", "high")
    return Table(f"Quantiles of {found[0].attribute}", heads, tuple(rows))


# Rows


def _rows_data(found: Answers, asked: Asked, simultaneous: bool) -> dict[str, Any]:
    data = found.to_dict(asked.level, simultaneous=simultaneous)
    if asked.anytime:
        low, high = found.interval(asked.level, simultaneous=simultaneous, anytime=True)
        for told, ends in zip(data["answers"], zip(low, high, strict=True), strict=True):
            told.update(_ends(ends))
        data["anytime"] = True
    if asked.liars:
        _add_liars(data, asked, list(zip(*found.moved_by(asked.liars), strict=True)))
    return data


def _rows(data: dict[str, Any]) -> list[Row]:
    """The answers as a chart draws them."""
    liars = data.get("liars", {}).get("without_them") or [None] * len(data["answers"])
    pairs = zip(data["answers"], liars, strict=True)
    return [replace(_row(told), liars=_both(*ends) if ends else None) for told, ends in pairs]


def _row(told: dict[str, Any]) -> Row:
    return Row(str(told["label"]), told["value"], *_both(told["low"], told["high"]))


def _both(low: float | None, high: float | None) -> tuple[float, float]:
    return -math.inf if low is None else low, math.inf if high is None else high


def _table(data: dict[str, Any], caption: str, head: str, digits: int = 0) -> Table:
    names = ("value", "stderr", "low", "high")
    heads: tuple[str, ...] = (head, "value", "± error", "low", "high")
    liars = data.get("liars", {}).get("without_them") or [()] * len(data["answers"])
    if "liars" in data:
        heads += _LIARS
    rows = tuple(
        (str(one["label"]), *(one[name] for name in names), *ends)
        for one, ends in zip(data["answers"], liars, strict=True)
    )
    return Table(caption, heads, rows, digits)


def _histogram(tally: Quick, asked: Asked) -> Found:
    described = attribute_of(tally.survey, asked.attribute) if asked.attribute else None
    if described is not None and not described.is_weight:
        count = sum(1 for _ in described.bars(asked.width, asked.attribute))
        check_bars(asked.attribute, count, MOST_BARS, "bars")
    found: Histogram = _asked_of(tally, asked, width=asked.width)
    data = _rows_data(found, asked, asked.simultaneous)
    rows = _rows(data)
    title = f"People by {asked.attribute}{among(asked)}"
    told = f"{title}: {_span(rows)}, each with its {percent(asked.level)} interval."
    scene = charts.names(rows, title, told, "people")
    if found.edges is not None and len(rows) > 1:
        scene = charts.steps(found.edges, rows, title, told, asked.attribute, "people")
    table = _table(data, title, asked.attribute)
    return Found(title, data, table, (), _noted(asked, data["notes"]), scene)


def _span(rows: Sequence[Row]) -> str:
    most = max(rows, key=lambda row: row.value)
    return f"{len(rows)} bars, the highest at {most.label} with about {most.value:,.0f} people"


def _linear(tally: Quick, asked: Asked) -> Found:
    if asked.attribute:
        size = attribute_of(tally.survey, asked.attribute).size
        rows = workload_of(asked.workload, size).rows
        if rows > _MOST_ROWS:
            raise QueryError(
                f"{asked.workload} of {asked.attribute} are {rows:,} questions; ask for at most "
                f"{_MOST_ROWS:,}, such as workload=prefixes or '10 bars', or use the command line"
            )
    found: Answers = _asked_of(tally, asked, workload=asked.workload)
    data = _rows_data(found, asked, asked.simultaneous)
    title = f"{asked.workload.capitalize()} of {asked.attribute}{among(asked)}"
    return Found(title, data, _table(data, title, asked.attribute), (), _noted(asked))


def _cdf(tally: Quick, asked: Asked) -> Found:
    if asked.attribute:
        size = attribute_of(tally.survey, asked.attribute).size
        check_bars(asked.attribute, size, 2 * MOST_BARS, "shares; ask for a histogram")
    found: Cdf = _asked_of(tally, asked)
    data = _rows_data(found, asked, True)
    rows = _rows(data)
    title = f"Share of people up to each {asked.attribute}{among(asked)}"
    table = _table(data, title, f"{asked.attribute} up to", 4)
    chances = asked.probabilities or (0.1, 0.25, 0.5, 0.75, 0.9)
    quantiles = [found.quantile(p) for p in chances]
    median = found.quantile(0.5)
    told = f"{title}, with a {percent(asked.level)} band for all of it; median {median.shown()}."
    scene = None
    if not found.described.named and len(rows) > 1:
        ends = [float(end) for end in found.ends]
        marked = [(one.probability, float(one.value)) for one in quantiles]
        scene = charts.shares(ends, rows, marked, title, told, asked.attribute)
    else:
        scene = charts.names(rows, title, told, "share of people", 2)
    more = (_quantile_table(quantiles, asked),)
    return Found(title, data, table, (), _noted(asked, data["notes"]), scene, more)


def _heatmap(tally: Quick, asked: Asked) -> Found:
    names = asked.attribute, asked.by
    if not all(names):
        raise QueryError("a heatmap needs attribute= and by=, two attributes")
    if names[0] == names[1]:
        raise QueryError(f"a heatmap is of two attributes, not of {names[0]} twice")
    widths = asked.width, asked.by_width
    sides = [
        list(attribute_of(tally.survey, name).bars(width, name))
        for name, width in zip(names, widths, strict=True)
    ]
    check_bars(" and ".join(names), len(sides[0]) * len(sides[1]), MOST_CELLS, "cells")
    found = grids.grid(
        tally,
        names,
        asked.where,
        widths=widths,
        about=asked.about,
        table=table_is_best(tally, asked),
    )
    low, high = found.interval(
        asked.level, simultaneous=asked.simultaneous, method="normal", anytime=asked.anytime
    )
    title = f"{names[0]} and {names[1]}{among(asked)}"
    numbers = zip(found.values, found.stderr, low, high, strict=True)
    cells = [
        {"label": label, "value": float(value), "stderr": float(error), **_ends((a, b))}
        for label, (value, error, a, b) in zip(found.labels, numbers, strict=True)
    ]
    data: dict[str, Any] = {
        "attributes": list(names),
        "rows": list(found.rows),
        "columns": list(found.columns),
        "about": asked.about,
        "level": asked.level,
        "simultaneous": asked.simultaneous,
        "notes": list(found.shared_notes()),
        "answers": cells,
    }
    if asked.anytime:
        data["anytime"] = True
    if asked.liars:
        _add_liars(data, asked, list(zip(*found.moved_by(asked.liars), strict=True)))
    wide = len(found.columns)
    rows = [[_row(one) for one in cells[k : k + wide]] for k in range(0, len(cells), wide)]
    clear = sum(row.low > 0 for line in rows for row in line)
    told = f"{title}: {len(cells)} cells, {clear} of them clearly above zero."
    scene = charts.heat(found.rows, found.columns, rows, names, f"People by {title}", told)
    pairs = [(row, column) for row in found.rows for column in found.columns]
    heads = (*names, "value", "± error", "low", "high")
    lines = tuple(
        (*pair, *(one[name] for name in ("value", "stderr", "low", "high")))
        for pair, one in zip(pairs, cells, strict=True)
    )
    table = Table(f"People by {title}", heads, lines)
    return Found(f"People by {title}", data, table, (), _noted(asked, data["notes"]), scene)


# Groups


def _groups(tally: Quick, asked: Asked) -> Found:
    if not asked.by:
        raise QueryError("groups need by=, the attribute that makes them")
    described = attribute_of(tally.survey, asked.by)
    check_bars(
        asked.by, sum(1 for _ in described.bars(asked.by_width, asked.by)), MOST_GROUPS, "groups"
    )
    measure = _measure(tally, asked)
    found = differences.groups(
        tally,
        asked.by,
        asked.where,
        width=asked.by_width,
        measure=measure,
        against=asked.against,
        about=asked.about,
    )
    what = "people" if measure is None else measure.words
    title = f"{what[0].upper()}{what[1:]} by {asked.by}{among(asked)}"
    ask = {"level": asked.level, "method": "normal", "anytime": asked.anytime}
    data: dict[str, Any] = {
        "by": asked.by,
        "measure": what,
        "against": found.against,
        "about": asked.about,
        "level": asked.level,
        "answers": [],
    }
    apart: list[Row | None] = []
    for label, one, other in zip(found.labels, found.answers, found.differences, strict=True):
        told = {"label": label, **_numbers(one, ask), "unit": one.unit, "notes": list(one.notes)}
        told["difference"] = None if other is None else _numbers(other, ask)
        data["answers"].append(told)
        apart.append(None if other is None else _row({"label": label, **told["difference"]}))
    if asked.anytime:
        data["anytime"] = True
    if asked.liars:
        _add_liars(data, asked, [one.moved_by(asked.liars) for one in found.answers])
    rows = _rows(data)
    digits = 0 if measure is None else 3
    clear = [row.label for row in apart if row and (row.low > 0 or row.high < 0)]
    seen = f"clearly different from {found.against}: {', '.join(clear) or 'none'}"
    scene = charts.beside(
        rows, apart, (what, f"difference from {found.against}"), title, f"{title}; {seen}."
    )
    table = _groups_table(data, title, asked.by, found.against, digits)
    notes = tuple(dict.fromkeys(note for one in found.answers for note in one.notes))
    return Found(
        title, data, table, (f"{seen[0].upper()}{seen[1:]}.",), _noted(asked, notes), scene
    )


def _measure(tally: Quick, asked: Asked) -> differences.Measure | None:
    said = asked.of
    if not said or (said == "people" and said not in tally.survey.attributes):
        return None
    if said in tally.survey.attributes:
        return differences.mean_of(tally, said)
    return differences.share_of(tally, said)


def _numbers(one: Answer, ask: dict[str, Any]) -> dict[str, Any]:
    return {"value": one.value, "stderr": finite(one.stderr), **_ends(one.interval(**ask))}


def _groups_table(data: dict[str, Any], title: str, by: str, against: str, digits: int) -> Table:
    names = ("value", "stderr", "low", "high")
    rows = []
    for told in data["answers"]:
        apart = told["difference"] or dict.fromkeys(names)
        rows.append((told["label"], *(told[n] for n in names), *(apart[n] for n in names)))
    heads = (by, "value", "± error", "low", "high", f"less {against}", "± error", "low", "high")
    return Table(title, heads, tuple(rows), digits)


_ANSWERS: dict[str, Callable[[Quick, Asked], Found]] = {
    "quantile": _quantiles,
    "histogram": _histogram,
    "linear": _linear,
    "cdf": _cdf,
    HEATMAP: _heatmap,
    GROUPS: _groups,
}


def headline(tally: Quick, asked: Asked) -> list[tuple[str, str]]:
    """How many people meet the conditions, and their mean of what is asked about, in words."""
    if not tally.n:
        return []
    found, where = [], asked.where
    if where and asked.name != "count":
        count = tally.count(where, about=asked.about)
        found.append((f"people with {asked.where}", single_line(count, asked)))
    if where and asked.name != "fraction":
        share = tally.fraction(where, about=asked.about)
        found.append(("share of all", single_line(share, asked)))
    described = attribute_of(tally.survey, asked.attribute)
    unknown = described.is_cyclic and (asked.anytime or asked.liars)  # no such circular interval
    if asked.name in ("histogram", "cdf") and not described.named and not unknown:
        mean = tally.mean(asked.attribute, where, about=asked.about)
        found.append((f"mean {asked.attribute}", single_line(mean, asked)))
    return found
