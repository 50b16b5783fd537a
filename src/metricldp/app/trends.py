"""The command for a survey that is asked again: an answer for each wave, changes and the trend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from metricldp.answers import queries
from metricldp.answers.comparisons import p_text
from metricldp.answers.tally import Tally
from metricldp.answers.waves import WaveAnswers, Waves
from metricldp.app import plots
from metricldp.app.arguments import (
    CONDITION_HELP,
    check_order,
    is_condition,
    only_condition,
    share,
    survey_in,
)
from metricldp.app.questions import AsJson, SurveyFile
from metricldp.app.terminal import show
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import finite
from metricldp.basics.text import listed, shown
from metricldp.basics.writing import check_apart
from metricldp.survey.agreement import Agreement

_SURVEYS = (".toml", ".json")
_KINDS = ("fraction", "count", "mean", "sum", "quantile")
_OF_ATTRIBUTES = _KINDS[2:]
_USAGE = "metricldp waves SURVEY WAVE1 WAVE2 ... CONDITION"

_Words = Annotated[
    list[str],
    typer.Argument(
        help="reports of each wave in time order, a survey before those that have another; then "
        f"{CONDITION_HELP}"
    ),
]
_Ask = Annotated[str, typer.Option("--ask", help="fraction, count, mean, sum or quantile")]
_Attribute = Annotated[
    str | None, typer.Option("--attribute", help="what a mean, sum or quantile is of")
]
_Probability = Annotated[
    float, typer.Option("--p", parser=share, metavar="0.5", help="which quantile")
]
_Labels = Annotated[
    str | None,
    typer.Option("--labels", help="of the waves, such as 2024,2025 (the names of the files)"),
]
_Base = Annotated[
    str | None, typer.Option("--base", help="compare with this wave, not with the one before")
]
_About = Annotated[
    str, typer.Option("--about", help="respondents, or the population that they were drawn from")
]
_Level = Annotated[
    float,
    typer.Option("--level", parser=share, metavar="0.95", help="the level of the intervals"),
]
_Plot = Annotated[Path | None, typer.Option("--plot", help="a picture to write")]
_SamePeople = Annotated[
    bool | None,
    typer.Option(
        "--same-people/--new-people", help="whether people may have answered more than one wave"
    ),
]


def register(app: typer.Typer) -> None:
    """On the command line."""
    app.command("waves")(_trend)


def _trend(
    survey: SurveyFile,
    words: _Words,
    ask: _Ask = "fraction",
    attribute: _Attribute = None,
    p: _Probability = 0.5,
    labels: _Labels = None,
    base: _Base = None,
    same_people: _SamePeople = None,
    about: _About = "respondents",
    level: _Level = 0.95,
    plot: _Plot = None,
    as_json: AsJson = False,
) -> None:
    """Ask several waves of a survey the same, with the changes between them and the trend."""
    if ask not in _KINDS:
        raise QueryError(f"--ask is one of {listed(_KINDS)}, not {shown(ask)}")
    if (attribute is None) == (ask in _OF_ATTRIBUTES):
        raise QueryError(
            f"a {ask} is of an attribute; name it with --attribute"
            if attribute is None
            else f"a {ask} is of people; leave --attribute out"
        )
    if plot is not None:
        plots.check_picture(plot)
        check_apart(plot, [survey, *map(Path, words)], QueryError)
    conditions = [word for word in words if is_condition(word) and not Path(word).exists()]
    agreed = survey_in(survey)
    where = only_condition(conditions)
    queries.parse_all(agreed, where)
    files = _files(agreed, [word for word in words if word not in conditions], attribute)
    names = _labels(labels, [path for path, _ in files])
    tallies = {name: Tally.of(own, path) for name, (path, own) in zip(names, files, strict=True)}
    waves = Waves(tallies, same_people=same_people)
    given: dict[str, Any] = {"where": where, "about": about}
    if attribute is not None:
        given["attribute"] = attribute
    if ask == "quantile":
        given["p"] = p
    found: WaveAnswers = getattr(waves, ask)(**given)
    changes, slope = found.changes(base), found.trend()
    sure = slope.p_value()
    data = {
        **found.to_dict(level),
        "changes": changes.to_dict(level)["answers"],
        "trend": {**slope.to_dict(level), "per": waves.per, "p": finite(sure)},
    }
    told = f"trend: {slope.text(level)}; p-value {p_text(sure)}"
    if plot is not None:
        plots.waves(found, plot, level=level)
        data["picture"], told = str(plot), f"{told}\npicture in {plot}"
    show(data, f"{found.text(level)}\n\n{changes.text(level)}\n\n{told}", as_json)


def _files(
    survey: Agreement, words: Sequence[str], attribute: str | None
) -> list[tuple[Path, Agreement]]:
    """Files of reports, each with its survey: the first one, or the last that stands before it."""
    found = []
    for path in map(Path, words):
        if path.suffix in _SURVEYS:
            survey = survey_in(path)
            continue
        check_order(survey, path, attribute, (), _USAGE)
        if not path.exists():
            raise QueryError(f"{path} is neither a file of reports nor a condition: {_USAGE}")
        found.append((path, survey))
    if len(found) < 2:
        raise QueryError(f"a trend needs two files of reports or more: {_USAGE}")
    return found


def _labels(said: str | None, paths: Sequence[Path]) -> list[str]:
    names = [path.stem for path in paths]
    if said is not None:
        names = [name.strip() for name in said.split(",")]
    if len(names) != len(paths):
        raise QueryError(f"--labels names {len(names)} waves, and there are {len(paths)} files")
    if len({*names}) < len(names):
        raise QueryError("two waves have the same name; tell them apart with --labels")
    return names
