"""The commands that make surveys and reports, and the entry point of all commands.

An error of the user is one line on standard error with exit code 2. Libraries are imported inside
commands, so that help is quick.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import typer

from metricldp.basics.errors import (
    MetricLdpError,
    QueryError,
    TightenedMetricWarning,
    WeakGuaranteeWarning,
)
from metricldp.basics.progress import progress_bar
from metricldp.cli import collector, lab, queries
from metricldp.cli.arguments import (
    SURVEYS,
    AsJson,
    Clip,
    Force,
    Plot,
    ResponseFile,
    SurveyFile,
    argument,
    check_output,
    check_plot,
    is_condition,
    load_survey,
    option,
)
from metricldp.cli.terminal import adapt_to_terminal, discard_output, fail, show, warn
from metricldp.estimate import request

_INTERRUPTED = 130
"""The exit code of an interrupt, which typer may return instead of raising it."""
_PRIORS = ("uniform", "worst")
app = typer.Typer(
    name="metricldp",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Collect sensitive values under metric local differential privacy.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"metricldp {version('metricldp')}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = option(
        False, "--version", callback=_version, is_eager=True, help="Print the version"
    ),
) -> None:
    """Options before any command."""


@app.command(rich_help_panel="Start")
def demo(
    output: Path = option(Path("demo.png"), "--output", "-o", help="Chart to write"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show all steps on synthetic data, with the true values."""
    from metricldp.cli import demo as example

    check_plot(output, [], force)
    with progress_bar("simulating"):
        data = example.run(output, (lambda text: None) if as_json else print)
    show(data, f"The chart is in {output}.", as_json)


@app.command(rich_help_panel="Start")
def draft(
    data: Path = argument(
        ..., help="Synthetic or public data, never private data (.csv, .parquet)"
    ),
    output: Path | None = option(
        None, "--output", "-o", help="Spec to write (.toml); else printed"
    ),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a first spec from synthetic or public data."""
    from metricldp.planning import draft as drafts

    if output is not None:
        check_output(output, [data], force, "draft", [".toml"])
    with progress_bar("reading"):
        spec = drafts.draft(data)
    comments = {name: list(lines) for name, lines in spec.comments.items()}
    content = {**spec.to_dict(), "comments": comments}
    if output is None:
        show(content, str(spec).rstrip("\n"), as_json)
        return
    spec.save(output, overwrite=True)
    text = f"draft in {output}\nEdit it, then: metricldp design {output} -o survey.toml"
    show({**content, "file": str(output)}, text, as_json)


@app.command(rich_help_panel="Survey")
def design(
    spec: Path = argument(..., help="Spec (.toml, .json)"),
    output: Path = option(..., "--output", "-o", help="Survey to write (.toml, .json)"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Design a survey from a spec; all numbers are fixed then."""
    from metricldp.api import Survey
    from metricldp.lab.limits import Made
    from metricldp.survey.spec import SurveySpec

    check_output(
        output,
        [spec],
        force,
        "survey",
        SURVEYS,
        "a new design does not accept reports of the old survey",
    )
    survey = Survey.design(SurveySpec.load(spec))
    survey.save(output, overwrite=True)
    errors = Made.of(survey)
    data = {"survey": survey.fingerprint, "file": str(output), **errors.to_dict()}
    show(data, f"{errors}\nsurvey {survey.fingerprint} in {output}", as_json)


@app.command(rich_help_panel="Survey")
def explain(
    survey: SurveyFile,
    n: int | None = option(
        None, "--n", help="Number of respondents, for errors", read=request.integer
    ),
    details: bool = option(False, "--details", help="All pairs of values, and remarks"),
    as_json: AsJson = False,
) -> None:
    """Explain what a survey guarantees and what errors to expect."""
    loaded = load_survey(survey)
    with progress_bar("computing errors"):
        explanation = loaded.explain(n=n)
    show(explanation.to_dict(), explanation.details() if details else str(explanation), as_json)


@app.command(rich_help_panel="Survey")
def certify(survey: SurveyFile, as_json: AsJson = False) -> None:
    """Prove the guarantee in exact arithmetic; exit code 1 if it fails."""
    loaded = load_survey(survey)
    with progress_bar("certifying"):
        certificate = loaded.certify()
    show(certificate.to_dict(), str(certificate), as_json)
    if not certificate.holds:
        raise typer.Exit(1)


@app.command(rich_help_panel="Survey")
def risk(
    survey: SurveyFile,
    attribute: str = argument(..., metavar="ATTRIBUTE", help="Attribute"),
    within: float = option(
        0, "--within", help="How far off a right guess may be", read=request.number
    ),
    prior: str = option(
        "uniform", "--prior", help="uniform, or a file of public data (.csv, .parquet)"
    ),
    clip: Clip = False,
    as_json: AsJson = False,
) -> None:
    """Compute an adversary's chance to guess a value from a report."""
    loaded = load_survey(survey)
    with progress_bar("computing the risk"):
        distribution = _prior(loaded, prior, [attribute], clip)
        assessment = loaded.risk(attribute, within=within, prior=distribution)
    show(assessment.to_dict(), str(assessment), as_json)


@app.command(rich_help_panel="Survey")
def plan(
    survey: SurveyFile,
    kind: str = argument(..., metavar="KIND", help="count, fraction or mean"),
    attribute: str | None = argument(None, metavar="ATTRIBUTE", help="Attribute, for a mean"),
    where: str | None = argument(
        None, metavar="WHERE", help='Condition in quotes: "18 <= age <= 29"'
    ),
    error: str = option(
        "", "--error", help="Error wanted: 0.02 or 2% of a fraction; else in its unit"
    ),
    find: str | None = option(
        None, "--find", help="n, epsilon, within, max_epsilon, mechanism or bins"
    ),
    n: int | None = option(
        None, "--n", help="Number of respondents, if it is given", read=request.integer
    ),
    change: str | None = option(None, "--change", help="Attribute to change; else all"),
    prior: str = option(
        "uniform", "--prior", help="uniform, worst, or public data (.csv, .parquet)"
    ),
    stderr: bool = option(False, "--stderr", help="The error is a standard error"),
    confidence_level: float = option(
        0.95, "--confidence-level", help="Level of the interval", read=request.fraction
    ),
    plot: Plot = None,
    output: Path | None = option(None, "--output", "-o", help="Survey to write with the setting"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Find the respondents or the epsilon that a target error needs."""
    from metricldp import api
    from metricldp.answers.conditions import attributes_in

    read = _read(survey, prior)
    check_plot(plot, read, force)
    if output is not None:
        inputs = [*read, *([plot] if plot else [])]
        check_output(output, inputs, force, "survey", SURVEYS)
    loaded = load_survey(survey)
    attribute, where = _planned_query(kind, [word for word in (attribute, where) if word])
    names = [*([attribute] if attribute else []), *attributes_in(where or {})]
    found = api.plan(
        loaded,
        _target_error(error, kind),
        where,
        query=kind,
        attribute=attribute,
        n=n,
        find=find,
        change=change,
        prior=_prior(loaded, prior, names, clip=False),
        confidence_level=None if stderr else confidence_level,
    )
    data, text = found.to_dict(), "" if as_json else str(found)
    if plot is not None:
        from metricldp.plot import draw_plan, save

        settings = found.trade_off()
        save(draw_plan(found, settings), plot)
        data |= {"plot": str(plot), "trade_off": settings.to_dict()}
        text = f"{text}\n\n{settings}\n\nchart in {plot}"
    if output is not None:
        found.survey.save(output, overwrite=True)
        data["file"] = str(output)
        text = f"{text}\nsurvey {found.survey.fingerprint[:16]} in {output}"
    show(data, text, as_json)


def _read(survey: Path, prior: str) -> list[Path]:
    """The files that are read."""
    return [survey, *([] if prior in _PRIORS else [Path(prior)])]


def _prior(survey: Any, text: str, names: list[str], clip: bool) -> Any:
    """A named prior, or the distribution of the attributes in a file of public data."""
    from metricldp.planning.expected_error import prior_in_file

    return text if text in _PRIORS else prior_in_file(survey, names, Path(text), clip=clip)


def _planned_query(kind: str, words: list[str]) -> tuple[str | None, str | None]:
    """The attribute of a mean, and the condition."""
    names = [word for word in words if not is_condition(word)]
    conditions = [word for word in words if is_condition(word)]
    if len(conditions) > 1:
        raise QueryError(
            "write one condition, joined with and: \"18 <= age <= 29 and region == 'north'\""
        )
    if kind == "mean" and len(names) != 1:
        raise QueryError("a mean has one attribute: metricldp plan SURVEY mean ATTRIBUTE")
    if kind != "mean" and names:
        raise QueryError(f"{names[0]!r} is not a condition; write one such as 'age >= 18'")
    return next(iter(names), None), next(iter(conditions), None)


def _target_error(text: str, kind: str) -> float:
    if not text:
        raise QueryError("give the error that you want, such as --error 0.02")
    if text.endswith("%") and kind != "fraction":
        raise QueryError(f"--error {text}: only a fraction has an error in percent")
    return request.fraction(text) if kind == "fraction" else request.number(text)


@app.command(rich_help_panel="Reports")
def randomize(
    survey: SurveyFile,
    responses: ResponseFile,
    output: Path = option(..., "--output", "-o", help="Reports to write (.parquet)"),
    clip: Clip = False,
    in_order: bool = option(
        False, "--no-shuffle", help="Keep the order, which can reveal respondents"
    ),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Randomize responses into a file of reports, for tests and pilots."""
    from metricldp.basics.text import counted
    from metricldp.reports.files import encode_file
    from metricldp.reports.parquet import ENDINGS

    check_output(
        output,
        [survey, responses],
        force,
        "reports",
        ENDINGS,
        "randomizing the same respondents again adds to their privacy loss",
    )
    loaded = load_survey(survey)
    with progress_bar("randomizing") as progress:
        n = encode_file(
            loaded, responses, output, clip=clip, shuffle=not in_order, progress=progress
        )
    data = {"survey": loaded.fingerprint, "reports": n, "file": str(output)}
    text = f"{counted(n, 'report')} for survey {loaded.fingerprint[:16]} in {output}"
    show(data, text, as_json)


app.add_typer(queries.app, name="query", rich_help_panel="Query")
app.add_typer(collector.app, name="collector", rich_help_panel="Collector and lab")
app.add_typer(lab.app, name="lab", rich_help_panel="Collector and lab")


def main() -> None:
    """Run a command; errors of the user, interrupts and closed pipes set the exit code."""
    adapt_to_terminal()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TightenedMetricWarning)
            warnings.simplefilter("always", WeakGuaranteeWarning)
            warnings.showwarning = warn
            code = app(sys.argv[1:] or ["--help"], prog_name="metricldp", standalone_mode=False)
        sys.stdout.flush()
    except MetricLdpError as wrong:
        fail(str(wrong))
    except (typer.Abort, KeyboardInterrupt):
        fail("stopped", _INTERRUPTED)
    except BrokenPipeError:
        discard_output()
        sys.exit(1)
    except OSError as wrong:
        if wrong.filename is None:
            discard_output()
        fail(f"{wrong.filename or 'cannot write'}: {wrong.strerror or wrong}")
    except Exception as wrong:
        message = getattr(wrong, "format_message", None)
        if message is None:
            raise
        context = getattr(wrong, "ctx", None)
        command = context.command_path if context else "metricldp"
        if not (text := message().rstrip(".")):  # the help of a group was printed
            sys.exit(0)
        fail(f"{text}{'' if text.endswith('?') else ';'} see {command} --help")
    if code == _INTERRUPTED:
        fail("stopped", _INTERRUPTED)
    sys.exit(code or 0)
