"""The pages as HTML: templates filled with text, every character of which is escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from metricldp.answers.quantiles import Cdf
from metricldp.answers.tally import Tally
from metricldp.basics.errors import MetricLdpError, QueryError
from metricldp.basics.optional import optional
from metricldp.basics.text import plain
from metricldp.collector.base import Status
from metricldp.collector.page.charts import NARROW, QUANTILES, WIDE, chart, column_chart
from metricldp.collector.page.cost import check_cost
from metricldp.collector.page.form import (
    FIELDS,
    OPTIONS,
    SHOWS,
    Form,
    drawable,
    estimates,
    examples,
)
from metricldp.collector.page.query import Pairs, Query, read_parameters
from metricldp.collector.page.svg import Drawing
from metricldp.collector.page.view import TableView, TextTable
from metricldp.collector.problems import outcome_words
from metricldp.estimate.request import Count, Fraction, Mean, Request, run
from metricldp.estimate.table import EstimateTable, listed_words
from metricldp.survey.agreement import Agreement
from metricldp.survey.explain import PREFACE, Section, explain, factor, shown_epsilon
from metricldp_core.guarantee import sentences

if TYPE_CHECKING:
    import jinja2
    import markupsafe
    from starlette import responses
    from starlette.responses import Response
else:
    jinja2, markupsafe = optional("jinja2"), optional("markupsafe")
    responses = optional("starlette.responses")

_HOURS_SHOWN, _MOST_TIMES = 72, 120


# Responses ---------------------------------------------------------------------------------------


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("metricldp.collector.page", "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _filled(name: str, **texts: Any) -> str:
    return _templates().get_template(name).render({"logged_in": True, **texts})


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    headers = {"cache-control": "no-store", **(headers or {})}
    return responses.Response(text, status, headers, "text/html; charset=utf-8")


def login(target: str, error: str = "", status: int = 401) -> Response:
    return html(_filled("login.html", next=target, error=error, logged_in=False), status)


def message(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    heads = {404: "Not found", 503: "Busy", 403: "Rejected"}
    head = heads.get(status, "Error")
    return html(_filled("message.html", head=head, text=text, logged_in=False), status, headers)


def surveys(allowed: Sequence[Agreement]) -> Response:
    entries = [{"fingerprint": one.fingerprint, "names": _names(one)} for one in allowed]
    return html(_filled("surveys.html", surveys=entries))


def _names(survey: Agreement) -> str:
    *most, last = survey.asked
    return f"{', '.join(most)} and {last}" if most else last


# The page of a survey ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """The estimates of a query as the page shows them."""

    title: str
    query: Query
    lines: Sequence[tuple[str, str]] = ()
    """Single estimates, with names."""
    drawing: Any = ""
    caption: str = ""
    tables: Sequence[TextTable] = ()
    details: Sequence[TextTable] = ()
    """Tables that are closed at first."""
    notes: Sequence[str] = ()

    @property
    def files(self) -> list[tuple[str, str, str]]:
        """Links to the estimates as files: a name, the ending, and the address."""
        estimates, kind = replace(self.query, baseline=""), self.query.request.kind
        files = [("CSV", "csv", estimates), ("JSON", "json", estimates)]
        files += [("SVG", "svg", self.query)] if self.drawing else []
        differences = replace(self.query, malicious=0)
        files += [("CSV of differences", "csv", differences)] if self.query.baseline else []
        return [(name, end, f"{kind}.{end}?{query.address()}") for name, end, query in files]


def survey_page(tally: Tally, status: Status, pairs: Pairs) -> tuple[int, str]:
    """The page with the estimates of a query, or with what is wrong with it."""
    survey, error, result = tally.survey, "", None
    pairs = list(pairs)
    first = {name: text for name, text in reversed(pairs) if name in FIELDS and text.strip()}
    form = Form(survey, first)
    try:
        form = Form(survey, read_parameters(pairs, FIELDS, ()))
        result = result_of(tally, form)
    except MetricLdpError as wrong:
        error = str(wrong)
    over_time, times = reports_over_time(status)
    page = _filled(
        "survey.html",
        survey=survey,
        status=status,
        names=_names(survey),
        form=form,
        shows=_shows(survey),
        attributes=drawable(survey),
        attribute=_known(form, "attribute"),
        by=_known(form, "by"),
        examples=examples(survey),
        estimates=estimates(survey),
        more=any(text for name, text in form.pairs() if name in OPTIONS),
        error=error.partition("\n"),
        result=result,
        link=urlencode(form.pairs()),
        times=times,
        over_time=over_time,
        outcomes=_outcomes(status),
        guarantee=_explanation(survey),
        together=_sentences(survey.client_manifest)[-1],
        preface=PREFACE,
        presentations=_presentations(status),
        pairs=_pairs,
    )
    return (400 if error else 200), page


_explanation, _sentences = lru_cache(maxsize=64)(explain), lru_cache(maxsize=64)(sentences)
_MOST_PRESENTATIONS = 5


def _presentations(status: Status) -> list[tuple[str, str]]:
    """Digests of the presentation, the latest ones first, each with the time of its first use."""
    return [
        (f"{datetime.fromtimestamp(second, UTC):%d %b %Y %H:%M}", digest)
        for second, digest in status.presentations[: -_MOST_PRESENTATIONS - 1 : -1]
    ]


def _pairs(section: Section) -> TextTable:
    """Two values, and the epsilon and the factor between them."""
    rows = [(words, shown_epsilon(e), factor(e)) for words, e in section.pairs]
    return TextTable(f"Guarantees for {section.title}", ("two values", "epsilon", "factor"), rows)


def _known(form: Form, name: str) -> str:
    """What a menu shows; the first attribute in place of one that the survey does not have."""
    names = drawable(form.survey)
    try:
        chosen = getattr(form, name)
    except MetricLdpError:
        chosen = form[name]
    return chosen if chosen in names else names[0]


def _shows(survey: Agreement) -> dict[str, str]:
    several = len(drawable(survey)) > 1
    pairs = ("heatmap", "groups")
    return {name: words for name, words in SHOWS.items() if several or name not in pairs}


def result_of(tally: Tally, form: Form) -> Result:
    """Run the query of a form."""
    query = form.query()
    query.check(tally.n)
    check_cost(tally, query)
    table = run(tally, query.request)
    query = _with_baseline(query, table) if form.show == "groups" else query
    query, notes = _without_bounds(query, table)
    view = TableView(table, query)
    title = title_of(table, query.request)
    lines = _headline(tally, form, query)
    if form.show == "count":
        return Result(title, query, lines, notes=[*notes, *view.notes()])
    drawing = _responsive("answer", lambda width: chart(view, title, width))
    tables = [_quantiles(table, query)] if isinstance(table, Cdf) else []
    details = [view.text_table(title)]
    if view.differences is not None:
        details.append(view.differences.text_table(f"Differences from {query.baseline}"))
    notes += [*view.notes(), *_empty(view)]
    return Result(title, query, lines, drawing, _caption(form, view), tables, details, notes)


def _with_baseline(query: Query, table: EstimateTable) -> Query:
    """The query with the first group as its baseline, if none is given and differences exist."""
    if query.baseline or len(table) < 2:
        return query
    compared = replace(query, baseline=table.groupings[0].texts[0])
    try:
        compared.differences(table)
    except QueryError:  # of circular means
        return query
    return compared


def _without_bounds(query: Query, table: EstimateTable) -> tuple[Query, list[str]]:
    """The query without malicious clients, and a note, if its bounds are not known."""
    try:
        if query.malicious:
            table.poisoning_bounds(query.malicious)
    except QueryError:
        return replace(query, malicious=0), ["Poisoning bounds are not known for these estimates."]
    return query, []


def _responsive(name: str, drawing: Callable[[float], Drawing]) -> Any:
    """A chart for screens and one for phones, of which the stylesheet shows one."""
    widths = {"wide": WIDE, "narrow": NARROW}
    both = [drawing(width).svg(f"{name}-{kind}") for kind, width in widths.items()]
    return markupsafe.Markup("".join(both))


def title_of(table: EstimateTable, request: Request) -> str:
    """What is estimated, of whom; labels of tables state the condition already."""
    label = table.label
    if request.kind == "count" and not table.groupings:
        label = f"respondents among {label}" if request.where else "respondents"
    return f"{label[0].upper()}{label[1:]}"


def _headline(tally: Tally, form: Form, query: Query) -> list[tuple[str, str]]:
    """How many respondents meet the condition, and their mean, unless they are shown anyway."""
    request = query.request
    where = form["where"] or None
    common: Any = {"target": request.target, "confidence_level": request.confidence_level}
    requests: dict[str, Request] = {}
    if where:
        requests["Respondents who meet the condition"] = Count(where=where, **common)
        requests["Fraction of all respondents"] = Fraction(where=where, **common)
    elif form.show == "count":
        requests["Respondents"] = Count(**common)
    one = form.survey.asked[form.attribute]
    known = not (one.named or (one.is_cyclic and query.anytime))  # no such interval
    if form.show in ("histogram", "distribution") and known:
        requests[f"Mean {form.attribute}"] = Mean(attribute=form.attribute, where=where, **common)
    if not tally.n:
        return []
    tables = {name: run(tally, one) for name, one in requests.items()}
    return [
        (name, TableView(table, _without_bounds(query, table)[0]).line())
        for name, table in tables.items()
    ]


def _quantiles(table: Cdf, query: Query) -> TextTable:
    level, rows = query.request.confidence_level, []
    for quantile in map(table.quantile, QUANTILES):
        low, high = quantile.confidence_interval(level, anytime=query.anytime)
        value = quantile.display(level).value if quantile.estimable else "cannot be estimated"
        percent = f"{100 * quantile.probability:g}%"
        rows.append((percent, value, f"{plain(low)} to {plain(high)}"))
    heads = ("quantile", table.attribute, TableView(table, query).interval)
    return TextTable(f"Quantiles of {table.attribute}", heads, rows)


def _caption(form: Form, view: TableView) -> str:
    interval = view.interval_name
    captions = {
        "histogram": f"Estimates with {interval}s.",
        "distribution": f"The line is the estimate. The {interval} band holds for the whole "
        "function.",
        "heatmap": "A stronger colour means more respondents. A dot marks a cell whose "
        f"{interval} includes 0.",
        "groups": f"Estimates and differences with {interval}s.",
    }
    dashes = view.query.malicious and form.show != "heatmap"
    return captions[form.show] + (f" Dashed: {view.if_malicious}." if dashes else "")


def _empty(view: TableView) -> list[str]:
    """A note on groups without a bar."""
    labels = [row.label for row in view.rows if row.empty]
    if not labels or len(view.table.groupings) == 2:
        return []
    groups = f"These groups are not distinguishable from empty: {listed_words(labels)}."
    return [f"{groups} The chart shows only their intervals."]


# Reports -----------------------------------------------------------------------------------------


def reports_over_time(status: Status) -> tuple[TextTable, Any]:
    """Accepted reports by hour or, for many hours, by day: a table and its chart."""
    hours = dict(status.per_hour)
    step, form, unit = 1, "%d %b %H:00", "hour"
    if hours and max(hours) - min(hours) >= _HOURS_SHOWN:
        step, form, unit = 24, "%d %b %Y", "day"
    counts: dict[int, int] = {}
    for hour, count in hours.items():
        counts[hour // step] = counts.get(hour // step, 0) + count
    first, last = (min(counts), max(counts)) if counts else (0, -1)
    times = range(max(first, last - _MOST_TIMES + 1), last + 1)
    rows = [
        (datetime.fromtimestamp(t * step * 3600, UTC).strftime(form), counts.get(t, 0))
        for t in times
    ]
    cells = [(time, f"{count:,}") for time, count in rows]
    table = TextTable(f"Accepted reports by {unit} (UTC)", (unit, "reports"), cells)
    if not rows:
        return table, ""

    def drawing(width: float) -> Drawing:
        return column_chart(rows, table.caption, f"{unit}, UTC", width)

    return table, _responsive("times", drawing)


def _outcomes(status: Status) -> TextTable:
    """How many reports had each outcome that occurred."""
    there = [pair for pair in status.outcomes.items() if pair[1] or pair[0] == "accepted"]
    ordered = sorted(there, key=lambda pair: (-pair[1], pair[0]))
    rows = [(outcome_words(outcome), f"{count:,}") for outcome, count in ordered]
    return TextTable("Outcomes of all reports that were sent", ("outcome", "reports"), rows)
