"""The command line: a thin layer that reads files, calls the package and prints.

A user's mistake is one line on standard error and exit code 2; `--json` prints data instead of
tables; long work shows a progress bar on a terminal and nothing in a pipe.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from metricldp.answers.tally import Tally
from metricldp.app import columns, planning, serving, trends
from metricldp.app import demo as story
from metricldp.app import explain as words
from metricldp.app.arguments import SURVEYS, number, survey_in, whole
from metricldp.app.output import directory, write_csv, write_text
from metricldp.app.plots import check_picture
from metricldp.app.plots.comparisons import comparison
from metricldp.app.plots.risks import risk as draw_risk
from metricldp.app.questions import QUESTIONS, AsJson, Fingerprint, SurveyFile
from metricldp.app.statistics import STATISTICS
from metricldp.app.terminal import drop_output, fail, fit_the_terminal, show, tell, watched
from metricldp.basics.errors import MetricLdpError, QueryError, TightenedMetricWarning
from metricldp.basics.optional import require
from metricldp.basics.text import counted
from metricldp.basics.writing import check_apart
from metricldp.lab import amplify as shuffled
from metricldp.lab import audit as inquiry
from metricldp.lab import compare as contest
from metricldp.lab import limits as bounds
from metricldp.lab import risk as chances
from metricldp.lab.audit.clients import FORMATS, SECONDS, Command
from metricldp.reports import files
from metricldp.reports.incoming import check_uncounted
from metricldp.store.files import SUFFIX
from metricldp.survey.agreement import SHORTEST_FINGERPRINT, Agreement
from metricldp.survey.certify import certify as prove

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Surveys under metric local differential privacy: describe, encode, collect, ask.",
)

PeopleFile = Annotated[Path, typer.Argument(help="people's values, a .csv or .parquet file")]
ReportsOut = Annotated[Path, typer.Option("--output", "-o", help="the reports file to write")]
People = Annotated[
    int, typer.Option("--n", parser=whole, metavar="NUMBER", help="how many people are expected")
]
Clip = Annotated[bool, typer.Option("--clip", help="move values outside to the end")]
_STOPPED = 130
"""The exit code of an interrupt, which typer may return instead of raising it."""


def _version(asked: bool) -> None:
    if asked:
        print(f"metricldp {version('metricldp')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Options before any command."""


@app.command()
def demo(
    picture: Annotated[Path, typer.Option("--output", "-o", help="the picture")] = Path("demo.png"),
    as_json: AsJson = False,
) -> None:
    """Go the whole way on a synthetic population, with the truth beside every answer."""
    show(story.tell(picture, _say(as_json)), f"The picture is in {picture}.", as_json)


@app.command()
def explain(survey: SurveyFile, n: People = 10_000, as_json: AsJson = False) -> None:
    """Say what a survey promises and what accuracy to expect."""
    found = words.explain(survey_in(survey), n)
    show(found.to_dict(), str(found), as_json)


@app.command()
def risk(
    survey: SurveyFile,
    attribute: Annotated[str | None, typer.Argument(help="one of the survey's, or all")] = None,
    within: Annotated[
        float | None,
        typer.Option(
            "--within", parser=number, metavar="NUMBER", help="how far a guess may be off"
        ),
    ] = None,
    reports: Annotated[
        int,
        typer.Option("--reports", parser=whole, metavar="NUMBER", help="of one person, at most"),
    ] = 10,
    people: Annotated[
        Path | None,
        typer.Option("--prior", help="people as the attacker expects them, .csv or .parquet"),
    ] = None,
    clip: Clip = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="a picture to write")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of what is sampled")] = 1,
    as_json: AsJson = False,
) -> None:
    """Say how often an attacker guesses a person's value, before and after reports."""
    if plot is not None:
        check_picture(plot)
        check_apart(plot, [survey, *([people] if people else [])], QueryError)
    agreed = survey_in(survey)
    prior: Any = "uniform"
    told = None
    if people is not None:
        names = chances.asked_about(agreed, attribute)
        prior, told = chances.shares_in(agreed, names, people, clip=clip)
    found = chances.risk(
        agreed, attribute, prior=prior, within=within, reports=reports, seed=seed, told=told
    )
    data, text = found.to_dict(), str(found)
    if plot is not None:
        draw_risk(found, plot)
        data["picture"], text = str(plot), f"{text}\npicture in {plot}"
    show(data, text, as_json)


@app.command()
def certify(survey: SurveyFile, as_json: AsJson = False) -> None:
    """Prove the promise from the integers in use; exit code 1 if it does not hold."""
    certificate = prove(survey_in(survey))
    show(certificate.to_dict(), str(certificate), as_json)
    if not certificate.holds:
        raise typer.Exit(1)


@app.command()
def design(
    survey: SurveyFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="the survey to hand out")],
    as_json: AsJson = False,
) -> None:
    """Settle a survey: choose mechanisms, search for shapes, and write all that was found."""
    check_apart(output, [survey], QueryError, "survey", SURVEYS)
    agreed = survey_in(survey)
    agreed.save(output)
    found = bounds.Made.of(agreed)
    words = f"{found}\nsurvey {agreed.fingerprint} in {output}"
    data = {"survey": agreed.fingerprint, "file": str(output), **found.to_dict()}
    show(data, words, as_json)


@app.command()
def limit(survey: SurveyFile, n: People = 10_000, as_json: AsJson = False) -> None:
    """Prove how much less error any other mechanism under the same metrics could have."""
    found = bounds.limits(survey_in(survey), n)
    show(found.to_dict(), str(found), as_json)


@app.command()
def amplify(
    survey: SurveyFile,
    n: Annotated[
        int, typer.Option("--n", parser=whole, metavar="NUMBER", help="people in a batch")
    ] = 10_000,
    delta: Annotated[
        float, typer.Option("--delta", parser=number, metavar="1e-6", help="how rarely it may fail")
    ] = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Say what a shuffled batch of reports tells of a person, for those who trust the shuffler."""
    found = shuffled.amplify(survey_in(survey), n, delta)
    show(found.to_dict(), str(found), as_json)


@app.command()
def verify(
    survey: SurveyFile,
    fingerprint: Annotated[
        str | None,
        typer.Argument(help=f"as published, the first {SHORTEST_FINGERPRINT} digits of it or more"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a survey is the one that was published; exit code 1 if it is another.

    Without a fingerprint, print the one to publish.
    """
    agreed = survey_in(survey)
    if fingerprint is None:
        show({"survey": agreed.fingerprint}, agreed.fingerprint, as_json)
        return
    same = agreed.is_published_as(fingerprint)
    data = {"survey": agreed.fingerprint, "published": fingerprint, "same": same}
    words = f"{survey} is survey {agreed.fingerprint}"
    if same or as_json:
        show(data, f"{words}, as published", as_json)
    else:
        tell(f"{words}, not the published {fingerprint}; do not report to it")
    if not same:
        raise typer.Exit(1)


@app.command()
def encode(
    survey: SurveyFile,
    people: PeopleFile,
    output: ReportsOut,
    clip: Clip = False,
    in_order: Annotated[
        bool, typer.Option("--no-shuffle", help="keep the order of the people, which may tell")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Blur people's values: CSV or Parquet in, a Parquet file of reports out."""
    agreed = survey_in(survey)
    check_apart(output, [survey], QueryError)
    with watched("encoding") as progress:
        count = files.encode_file(
            agreed,
            people,
            output,
            clip=clip,
            shuffle=not in_order,
            progress=progress,
        )
    _show_reports(agreed, count, output, as_json)


@app.command()
def merge(
    survey: SurveyFile,
    reports: Annotated[list[Path], typer.Argument(help="reports, Parquet files made by encode")],
    output: ReportsOut,
    fingerprint: Fingerprint = None,
    as_json: AsJson = False,
) -> None:
    """Join several files of reports, or of totals, into one."""
    agreed = survey_in(survey)
    check_apart(output, [survey], QueryError)
    if output.suffix == SUFFIX:
        whole = Tally.of(agreed, reports[0])
        for path in reports[1:]:
            more = Tally.of(agreed, path)
            check_uncounted(more.store.counted, whole.store.counted, f"the reports in {path}")
            whole += more
        whole.save(output)
        _show_reports(agreed, whole.n, output, as_json)
        return
    count = files.merge_files(agreed, reports, output, fingerprint=fingerprint)
    _show_reports(agreed, count, output, as_json)


def _show_reports(survey: Agreement, count: int, output: Path, as_json: bool) -> None:
    data = {"survey": survey.fingerprint, "reports": count, "file": str(output)}
    words = f"{counted(count, 'report')} to survey {survey.fingerprint[:16]} in {output}"
    show(data, words, as_json)


for question in (*QUESTIONS, *STATISTICS):
    question.register(app)
serving.register(app)
columns.register(app)
planning.register(app)
trends.register(app)


@app.command()
def compare(
    survey: SurveyFile,
    people: PeopleFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="a directory for table and picture, made if need be"),
    ] = None,
    queries: Annotated[
        int, typer.Option("--queries", min=1, max=10_000, help="random questions per attribute")
    ] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of questions and simulation")] = 1,
    clip: Clip = False,
    as_json: AsJson = False,
) -> None:
    """Compare mechanisms on a survey and people of one's own; nobody's reports are made."""
    if output is not None:
        require("plot")
    agreed = survey_in(survey)
    _check_page(output, "compare", [survey, people])
    with watched("comparing") as progress:
        found = contest.compare(
            agreed,
            people,
            queries=queries,
            seed=seed,
            clip=clip,
            progress=progress,
        )
    written = []
    if output is not None:
        written = [
            write_text(output / "compare.txt", f"{found.text()}\n"),
            write_csv(output / "compare.csv", found.to_dict()["rows"]),
            output / "compare.png",
        ]
        comparison(found, written[-1])
    _show_written(found, written, as_json)


@app.command()
def audit(
    survey: SurveyFile,
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            help="a command: people as lines of JSON in, a line with the bytes of each out",
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help=f"of those lines: {' or '.join(FORMATS)}")
    ] = FORMATS[0],
    seconds: Annotated[
        float, typer.Option("--seconds", help="that each run of the client may take")
    ] = SECONDS,
    n: Annotated[
        int, typer.Option("--n", parser=whole, metavar="NUMBER", help="how many reports to ask for")
    ] = inquiry.REPORTS,
    false_alarm: Annotated[
        float, typer.Option("--false-alarm", help="how often a good client may fail")
    ] = inquiry.FALSE_ALARM,
    clip: Annotated[bool, typer.Option("--clip", help="the client clips values outside")] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="of the choice of people")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="a directory for the page, made if need be"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test a client, ours or anybody's, by its reports; exit code 1 if it breaks its promise."""
    agreed = survey_in(survey)
    _check_page(output, "audit", [survey])
    encoder = None if client is None else Command(client, form, seconds)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the client ends, too
    with watched("auditing") as progress:
        found = inquiry.audit(
            agreed,
            encoder,
            n=n,
            false_alarm=false_alarm,
            clip=clip,
            seed=seed,
            progress=progress,
        )
    written = []
    if output is not None:
        data = found.to_dict()
        written = [write_text(output / "audit.txt", f"{found}\n")]
        for name in ("findings", "power"):
            if data[name]:
                written.append(write_csv(output / f"audit_{name}.csv", data[name]))
    _show_written(found, written, as_json)
    if not found.passed:
        raise typer.Exit(1)


def _check_page(output: Path | None, name: str, read: list[Path]) -> None:
    """Make a directory for a page, none of whose files may replace what is read."""
    if output is not None:
        for ending in ("txt", "csv", "png"):
            check_apart(directory(output) / f"{name}.{ending}", read, QueryError)


def _show_written(found: Any, written: list[Path], as_json: bool) -> None:
    """The result, and the files that it was written to."""
    names = [str(path) for path in written]
    more = f"\n\nWritten: {', '.join(names)}" if names else ""
    show({**found.to_dict(), "files": names}, f"{found}{more}", as_json)


def _say(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else print


def _command_of(wrong: Exception) -> str:
    """The command whose words were wrong."""
    context = getattr(wrong, "ctx", None)
    return f"metricldp {context.info_name}" if context and context.parent else "metricldp"


def main() -> None:
    """Run, turning every mistake of the user into one line and exit code 2."""
    fit_the_terminal()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TightenedMetricWarning)
            warnings.showwarning = tell
            code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except MetricLdpError as wrong:
        fail(str(wrong))
    except (typer.Abort, KeyboardInterrupt):
        fail("stopped", _STOPPED)
    except BrokenPipeError:
        drop_output()
        sys.exit(1)
    except OSError as wrong:
        if wrong.filename is None:
            drop_output()
        fail(f"{wrong.filename or 'cannot write'}: {wrong.strerror or wrong}")
    except Exception as wrong:
        message = getattr(wrong, "format_message", None)
        if message is None:
            raise
        said = message().rstrip(".")
        fail(f"{said}{'' if said.endswith('?') else ';'} see {_command_of(wrong)} --help")
    if code == _STOPPED:
        fail("stopped", _STOPPED)
    sys.exit(code or 0)
