"""Commands for a survey that is still to be made: what to set, and a draft to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from metricldp.answers.conditions import attributes_in
from metricldp.answers.wishes import EVENLY, FRACTION, MEAN, MEASURES, WORST
from metricldp.app.arguments import (
    CONDITION_HELP,
    SURVEYS,
    designing,
    is_condition,
    number,
    only_condition,
    share,
    survey_in,
    whole,
)
from metricldp.app.drafts import draft
from metricldp.app.plots import check_picture
from metricldp.app.plots.plans import trade_off
from metricldp.app.questions import AsJson, SurveyFile
from metricldp.app.terminal import show
from metricldp.basics.errors import QueryError
from metricldp.basics.writing import check_apart
from metricldp.lab import risk
from metricldp.lab.plans import FINDS, plan
from metricldp.survey.agreement import Agreement


def register(app: typer.Typer) -> None:
    """All of them, on the command line."""
    app.command("plan")(_plan)
    app.command("draft")(_draft)


def _plan(
    survey: SurveyFile,
    kind: Annotated[str, typer.Argument(help="the answer wanted: count, fraction or mean")],
    words: Annotated[
        list[str] | None,
        typer.Argument(help=f"for a mean the attribute; then {CONDITION_HELP}"),
    ] = None,
    error: Annotated[
        str,
        typer.Option(
            "--error",
            metavar="0.02",
            help="the error wanted: of a fraction 0.02 or 2%, else in people or the data's unit",
        ),
    ] = "",
    find: Annotated[
        str | None,
        typer.Option(
            "--find",
            help=f"the one unknown: {', '.join(FINDS)}; n, or epsilon where --n is given",
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", parser=whole, metavar="NUMBER", help="how many people will report"),
    ] = None,
    of: Annotated[
        str | None, typer.Option("--of", help="the attribute to change; epsilon: all, if left out")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            "--prior",
            help="how people are spread: worst, uniform, or a .csv or .parquet file of public data",
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            help="what an error is: interval, half of its width; or stderr, the standard error",
        ),
    ] = MEASURES[0],
    level: Annotated[
        float,
        typer.Option("--level", parser=share, metavar="0.95", help="the level of the interval"),
    ] = 0.95,
    plot: Annotated[Path | None, typer.Option("--plot", help="a picture to write")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="where to write the advised survey")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what to set for an answer with a certain error, and what that means for a person."""
    read = [survey, *([Path(prior)] if prior else [])]
    if plot is not None:
        check_picture(plot)
        check_apart(plot, read, QueryError)
    if output is not None:
        inputs = [*read, *([plot] if plot else [])]
        check_apart(output, inputs, QueryError, "survey", SURVEYS)
    agreed = survey_in(survey)
    attribute, conditions = _asked(kind, words or [])
    where = only_condition(conditions)
    with designing():
        found = plan(
            agreed,
            kind,
            where,
            error=_error(error, kind),
            find=find,
            n=n,
            attribute=attribute,
            of=of,
            prior=_prior(agreed, prior, attribute, where),
            measure=measure,
            level=level,
        )
        data, text = found.to_dict(), "" if as_json else str(found)
    if plot is not None:
        trade_off(found, plot)
        data["picture"], text = str(plot), f"{text}\npicture in {plot}"
    if output is not None:
        found.survey.save(output)
        data["file"] = str(output)
        text = f"{text}\nsurvey {found.survey.fingerprint[:16]} in {output}"
    show(data, text, as_json)


def _draft(
    people: Annotated[
        Path, typer.Argument(help="made-up or public people, a .csv or .parquet file")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="the .toml file to write; else it is shown"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a survey from made-up or public data, with what you have to decide as questions."""
    if output is not None:
        check_apart(output, [people], QueryError)
    found = draft(people)
    if output is None:
        show(found.to_dict(), found.to_toml().rstrip("\n"), as_json)
        return
    found.save(output)
    then = f"Answer the questions in it, then: metricldp design {output} -o survey.toml"
    show({**found.to_dict(), "file": str(output)}, f"{found}\n\ndraft in {output}\n{then}", as_json)


def _asked(kind: str, words: list[str]) -> tuple[str | None, list[str]]:
    """The attribute of a mean, and conditions."""
    named = [word for word in words if not is_condition(word)]
    conditions = [word for word in words if is_condition(word)]
    if kind == MEAN and len(named) != 1:
        raise QueryError("a mean is of one attribute: metricldp plan SURVEY mean ATTRIBUTE")
    if kind != MEAN and named:
        raise QueryError(f"{named[0]!r} is not a condition; write one such as age >= 18")
    return (named[0] if named else None), conditions


def _error(text: str, kind: str) -> float:
    if not text:
        raise QueryError("say how large the error may be, such as --error 0.02")
    if text.endswith("%") and kind != FRACTION:
        raise QueryError(f"--error {text}: a {kind} has its error in its own unit, not in per cent")
    try:
        return share(text) if kind == FRACTION else number(text)
    except typer.BadParameter as wrong:
        raise QueryError(f"--error {wrong}") from None


def _prior(survey: Agreement, said: str | None, attribute: str | None, where: Any) -> Any:
    """A word, or the shares of people in a file, attribute by attribute."""
    if said is None or said in (WORST, EVENLY):
        return said
    compared = attributes_in(where or {})
    names = [name for name in survey.asked if name == attribute or name in compared]
    for block in survey.blocks.values():
        if not set(block.names).isdisjoint(names):
            names += [name for name in block.names if name not in names]
    if not names:
        raise QueryError("a prior is about the attributes in question, and there are none")
    return risk.shares_in(survey, names, Path(said))[0]
