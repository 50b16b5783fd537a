"""Every question that the command line puts to a tally: one table, one way to ask and to print."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from metricldp.answers import queries
from metricldp.answers.answer import percent
from metricldp.answers.answer_table import Answers
from metricldp.answers.by import Quantiles
from metricldp.answers.comparisons import p_text
from metricldp.answers.conditions import Where, attributes_in
from metricldp.answers.fitted import Fitted
from metricldp.answers.liars import checked_liars
from metricldp.answers.quantiles import Quantile
from metricldp.answers.searches import ISOTONIC
from metricldp.answers.tally import Tally
from metricldp.app import plots
from metricldp.app.arguments import (
    CONDITION_HELP,
    check_order,
    is_condition,
    number,
    only_condition,
    share,
    survey_in,
)
from metricldp.app.terminal import show, watched
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted, plain, table
from metricldp.basics.writing import check_apart

SurveyFile = Annotated[Path, typer.Argument(help="the survey, a .toml or .json file")]
AsJson = Annotated[bool, typer.Option("--json", help="print data for a program")]
Fingerprint = Annotated[
    str | None,
    typer.Option("--fingerprint", help="of the survey, to read reports that lost its mark"),
]
ReportsFile = Annotated[
    Path, typer.Argument(help="reports: a Parquet file made by encode, or a folder of them")
]
Conditions = Annotated[
    list[str] | None,
    typer.Argument(help=CONDITION_HELP),
]
_ProbabilitiesAndConditions = Annotated[
    list[str] | None,
    typer.Argument(help=f"probabilities such as 0.25 0.5, then {CONDITION_HELP}"),
]
_About = Annotated[
    str,
    typer.Option("--about", help="respondents, or the population that they were drawn from"),
]
_Simultaneous = Annotated[
    bool, typer.Option("--simultaneous", help="intervals that hold for all rows together")
]
_Level = Annotated[
    float,
    typer.Option("--level", parser=share, metavar="0.95", help="the level of the intervals"),
]
_Fit = Annotated[
    bool,
    typer.Option(
        "--fit", help="a fit to the reports beside the unbiased answer: biased, often nearer"
    ),
]
_Liars = Annotated[
    int,
    typer.Option("--liars", help="also say how far so many lying devices can have moved it"),
]
_Plot = Annotated[Path | None, typer.Option("--plot", help="a picture to write")]


_OF_PEOPLE = {"of", "less", "over"}
"""Options that are conditions."""
_MAY_BE_LEFT_OUT = {"by", *_OF_PEOPLE}
ALWAYS: dict[str, tuple[Any, Any]] = {
    "about": (_About, "respondents"),
    "level": (_Level, 0.95),
    "as_json": (AsJson, False),
}
"""What every question takes: types for the command line, and defaults."""
_FOR_COUNTS = {"fit": (_Fit, False), "liars": (_Liars, 0)}
"""What those take that a fit answers as well, and of which is known what liars can do."""


@dataclass(frozen=True)
class Question:
    """A command: what it takes beside what every question does, and how it answers."""

    name: str
    help: str
    ask: Callable[..., Any]
    """Of a tally, with an attribute if it has one, a where-clause, and the options."""
    text: Callable[..., str] = lambda found, level: found.text(level)
    attribute: str = ""
    """What to say of the attribute that it is about; nothing, if it is about none."""
    options: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Each its type for the command line, and its default."""
    data: Callable[..., dict[str, Any]] = lambda found, *level, **how: found.to_dict(*level, **how)
    draw: Callable[..., Any] | None = None
    probabilities: bool = False
    """Whether words that are no conditions are probabilities."""
    others: str = ""
    """What to say of more attributes that words name which are no conditions; nothing, if none."""
    taken: Mapping[str, tuple[Any, Any]] = field(default_factory=lambda: {**ALWAYS, **_FOR_COUNTS})
    """What it takes as every question does."""

    def answer(
        self,
        survey: Path,
        reports: Path,
        *,
        conditions: list[str] | None,
        level: float,
        as_json: bool,
        plot: Path | None = None,
        liars: int = 0,
        **given: Any,
    ) -> None:
        """Run the command; a mistake in its words is found before the reports are read."""
        if plot is not None:
            plots.check_picture(plot)
            check_apart(plot, [survey, reports], QueryError)
        words = conditions or []
        if self.probabilities or self.others:
            named = [word for word in words if not is_condition(word)]
            words = [word for word in words if is_condition(word)]
        agreed = survey_in(survey)
        check_order(agreed, reports, given.get("attribute"), conditions or [], self._usage)
        where = only_condition(words)
        queries.parse_all(agreed, where)
        given = {k: v for k, v in given.items() if v is not None or k not in _MAY_BE_LEFT_OUT}
        for name in _OF_PEOPLE & given.keys():
            queries.parse_all(agreed, given[name])
        if "by" in given:
            given["by"] = _groups(given["by"])
        said = {*given} if given.get("fit") else {*given} - {"fit"}
        _check_options(said | ({"liars"} if liars and self.probabilities else set()))
        if self.probabilities:
            given["probabilities"] = [_probability(word) for word in named] or [0.5]
        if self.others:
            given["others"] = named
        how = {name: given.pop(name) for name in ("simultaneous",) if name in given}
        compared = {"less", "over"} & given.keys()
        found = self._asked(Tally.of(agreed, reports), where, given)
        data = self.data(found, level, **how) if as_json else {}
        text = "" if as_json else self.text(found, level, **how)
        if compared:
            data["p_value"] = p = found.p_value(1.0 if "over" in compared else 0.0)
            text = f"{found.question}: {text}\np-value of no difference: {p_text(p)}"
        if checked_liars(liars):
            rows = _moved(found, liars)
            data["liars"] = {"devices": liars, "without_them": [[*ends] for _, *ends in rows]}
            text = f"{text}\n{_moved_text(rows, liars)}"
        if plot is not None and self.draw is not None:
            among = f" among {where}" if where else ""
            title = f"{given['attribute']}{among}, from blurred reports"
            self.draw(found, plot, title=title, level=level, **how)
            data["picture"], text = str(plot), f"{text}\npicture in {plot}"
        show(data, text, as_json)

    def _asked(self, tally: Tally, where: Where | None, given: dict[str, Any]) -> Any:
        """The tally's answer or, with --fit, that of a fit over the attributes in question."""
        for name in ("less", "over"):
            if name in given:
                others = given.pop(name)
                if "of" in given:
                    than = self._asked(tally, where, {**given, "of": others})
                else:
                    than = self._asked(tally, others, {**given})
                found = self._asked(tally, where, given)
                return found - than if name == "less" else found / than
        if not given.pop("fit", False):
            return self.ask(tally, where=where, **given)
        names = [given["attribute"]] if self.attribute else []
        names += [name for name in attributes_in(where or {}) if name not in names]
        if not names:
            raise QueryError("--fit needs an attribute to fit; give a condition such as age >= 18")
        if given.pop("method", ISOTONIC) != ISOTONIC:
            raise QueryError("a fit rises by itself; leave --method out with --fit")
        with watched("fitting") as progress:
            found = tally.fit(names, progress=progress)
        return getattr(found, self.ask.__name__)(where=where, **given)

    @property
    def _usage(self) -> str:
        attribute = " ATTRIBUTE" if self.attribute else ""
        more = " PROBABILITIES" if self.probabilities else " ATTRIBUTES" if self.others else ""
        return f"metricldp {self.name} SURVEY REPORTS{attribute}{more} CONDITION"

    def register(self, app: typer.Typer) -> None:
        """As a command with the parameters that it takes."""
        words: Any = _ProbabilitiesAndConditions if self.probabilities else Conditions
        if self.others:
            said = f"{self.others}, then {CONDITION_HELP}"
            words = Annotated[list[str] | None, typer.Argument(help=said)]
        taken: dict[str, tuple[Any, Any]] = {
            "survey": (SurveyFile, inspect.Parameter.empty),
            "reports": (ReportsFile, inspect.Parameter.empty),
        }
        if self.attribute:
            about = Annotated[str, typer.Argument(help=self.attribute)]
            taken["attribute"] = about, inspect.Parameter.empty
        taken["conditions"] = words, None
        taken |= self.options
        if self.draw is not None:
            taken["plot"] = _Plot, None
        taken |= self.taken

        def command(**given: Any) -> None:
            self.answer(**given)

        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
                )
                for name, (kind, default) in taken.items()
            ]
        )
        command.__annotations__ = {name: kind for name, (kind, _) in taken.items()}
        app.command(self.name, help=self.help)(command)


def _check_options(given: set[str]) -> None:
    """Some of them do not go together."""
    alone = {
        "fit": ("by", "of", "less", "over"),
        "by": ("less", "over", "liars"),
        "less": ("over",),
    }
    for name, others in alone.items():
        wrong = [f"--{other}" for other in others if other in given]
        if name in given and wrong:
            raise QueryError(f"--{name} does not go with {' or '.join(wrong)}; leave one out")


def _groups(said: Sequence[str]) -> dict[str, float | None]:
    """Attributes with the widths of their bars, if they were given."""
    found: dict[str, float | None] = {}
    for word in said:
        name, equals, width = word.partition("=")
        found[name.strip()] = number(width) if equals else None
    return found


def _probability(word: str) -> float:
    try:
        return share(word)
    except typer.BadParameter:
        raise QueryError(
            f"{word!r} is neither a probability such as 0.5 nor a condition such as age >= 18"
        ) from None


def _rows(unit: str, digits: int) -> Callable[..., str]:
    """Many answers as a table."""

    def text(found: Answers, level: float, simultaneous: bool | None = None) -> str:
        table_of = found.to_arrow(level, simultaneous=simultaneous)
        head, *names = (columns := table_of.to_pydict())
        shown = ([f"{number:,.{digits}f}" for number in columns[name]] for name in names)
        interval = "band" if found.simultaneous else "for all" if simultaneous else "interval"
        beside = [one.unbiased for one in found if isinstance(one, Fitted)]
        kinds = ("fitted", f"unbiased {unit}") if beside else (unit,)
        rows = [(head, *kinds, "± error", f"{percent(level)} {interval}")]
        unbiased: list[tuple[str, ...]] = [
            (f"{one.value:,.{digits}f}",) if one else ("-",) for one in beside
        ]
        cells = zip(columns[head], *shown, unbiased or [()] * len(found), strict=True)
        for label, value, error, low, high, other in cells:
            rows.append((plain(label), value, *other, error, f"{low} to {high}"))
        return "\n".join([table(rows), *(f"all: {note}" for note in found.shared_notes())])

    return text


def _moved(found: Any, liars: int) -> list[tuple[str, Any, Any]]:
    """Labels, and between what each value would lie without the lies."""
    if isinstance(found, Answers):
        low, high = (end.tolist() for end in found.moved_by(liars))
        return list(zip(map(plain, found.labels), low, high, strict=True))
    if isinstance(found, list):
        return [(f"{one.probability:g}-quantile", *one.moved_by(liars)) for one in found]
    return [("", *found.moved_by(liars))]


def _moved_text(rows: Sequence[tuple[str, Any, Any]], liars: int) -> str:
    told = f"had {counted(liars, 'device')} not lied, at most so far from it"
    shown = [(label, f"{_short(low)} to {_short(high)}") for label, low, high in rows]
    if len(shown) == 1:
        return f"{told}: {shown[0][1]}"
    return f"{told}:\n{table([('', 'without the lies'), *shown])}"


def _short(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, int | float) else plain(value)


def quantiles(
    tally: Tally, *, by: dict[str, float | None] | None = None, **given: Any
) -> Sequence[Quantile | Quantiles]:
    """Those of everybody; or, for each probability, those of every group."""
    if by is None:
        return tally.quantiles(**given)
    return [tally.quantile(p=p, by=by, **given) for p in given.pop("probabilities")]


def _quantiles_data(found: Sequence[Quantile | Quantiles], level: float) -> dict[str, Any]:
    first = found[0].found[0] if isinstance(found[0], Quantiles) else found[0]
    return {"attribute": first.attribute, "quantiles": [one.to_dict(level) for one in found]}


def _quantiles_text(found: Sequence[Quantile | Quantiles], level: float) -> str:
    return "\n".join(one.text(level) for one in found)


_BY = Annotated[
    list[str] | None,
    typer.Option("--by", help="an attribute whose groups are asked, or age=10 for bars; or two"),
]
_OF = Annotated[
    str | None, typer.Option("--of", help="the people that it is a share of: a condition")
]
_COMPARED = {
    name: (Annotated[str | None, typer.Option(f"--{name}", help=said)], None)
    for name, said in (
        ("less", "less the same of other people: a condition"),
        ("over", "divided by the same of other people: a condition"),
    )
}
_METHOD = Annotated[str, typer.Option(help="isotonic or binary-search")]
_WIDTH = Annotated[
    float | None,
    typer.Option(
        "--width", parser=number, metavar="NUMBER", help="of a bar, in the attribute's units"
    ),
]
_WORKLOAD = Annotated[str, typer.Option("--workload", help="values, prefixes, ranges or '10 bars'")]

QUESTIONS = (
    Question(
        "count",
        "Count the people who meet the condition, with the error.",
        Tally.count,
        options={"by": (_BY, None), **_COMPARED},
    ),
    Question(
        "fraction",
        "Give the share of all people who meet the condition, with the error.",
        Tally.fraction,
        options={"of": (_OF, None), "by": (_BY, None), **_COMPARED},
    ),
    Question(
        "sum",
        "Add up an attribute or a weight over the people who meet the condition, with the error.",
        Tally.sum,
        attribute="the attribute or weight to add up",
        options={"by": (_BY, None), **_COMPARED},
    ),
    Question(
        "mean",
        "Average an attribute over the people who meet the condition, with the error.",
        Tally.mean,
        attribute="the attribute to average",
        options={"by": (_BY, None), **_COMPARED},
    ),
    Question(
        "quantile",
        "Give quantiles of an attribute (its median if none is named), with intervals.",
        quantiles,
        _quantiles_text,
        attribute="an attribute with an order",
        options={"by": (_BY, None), "method": (_METHOD, "isotonic")},
        data=_quantiles_data,
        probabilities=True,
    ),
    Question(
        "cdf",
        "Give the share of people at or below every value, with a band for all of them.",
        Tally.cdf,
        _rows("share", 3),
        attribute="an attribute with an order",
        draw=plots.cdf,
    ),
    Question(
        "histogram",
        "Count the people at every value of an attribute, with the errors.",
        Tally.histogram,
        _rows("people", 0),
        attribute="the attribute to draw",
        options={"width": (_WIDTH, None), "simultaneous": (_Simultaneous, False)},
        draw=plots.histogram,
    ),
    Question(
        "linear",
        "Count the people in every range, prefix or value of an attribute, with the errors.",
        Tally.linear,
        _rows("people", 0),
        attribute="the attribute to ask about",
        options={"workload": (_WORKLOAD, "ranges"), "simultaneous": (_Simultaneous, False)},
    ),
)
"""In the order of the help."""
