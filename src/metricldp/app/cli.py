"""The command line: a thin layer that reads files, calls the package and prints.

A user's mistake is one line on standard error and exit code 2; `--json` prints data instead of
tables; long work shows a progress bar on a terminal and nothing in a pipe.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metricldp.answers.answer import percent
from metricldp.app.runner import directory, run, watched, write
from metricldp.basics.errors import MetricLdpError, QueryError, TightenedMetricWarning
from metricldp.basics.text import counted, table
from metricldp.lab import compare as contest
from metricldp.lab.reproduce import STUDIES
from metricldp.lab.reproduce import page as study
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    from metricldp.answers.answer import Answer
    from metricldp.answers.queries import Where
    from metricldp.answers.tally import Tally


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Surveys under metric local differential privacy: describe, encode, collect, ask.",
)

SurveyFile = Annotated[Path, typer.Argument(help="the survey, a .toml or .json file")]
ReportsFile = Annotated[Path, typer.Argument(help="reports, a Parquet file made by encode")]
Conditions = Annotated[
    list[str] | None,
    typer.Argument(help="conditions such as age=18..29, income=50000.. or region=north,south"),
]
_STOPPED = 130
"""The exit code of an interrupt, which typer may return instead of raising it."""
AsJson = Annotated[bool, typer.Option("--json", help="print data for a program")]
Level = Annotated[float, typer.Option("--level", help="the level of the intervals")]
About = Annotated[
    str,
    typer.Option("--about", help="respondents, or the population that they were drawn from"),
]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

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
    from metricldp.answers.tally import Tally
    from metricldp.app import demo as story
    from metricldp.app import plots
    from metricldp.reports.encode import encode as blur
    from metricldp.survey.certify import certify as prove

    plots.check_picture(picture)
    say = _say(as_json)
    people = story.population()
    survey = story.survey()
    n = len(people["age"])
    say(f"{n:,} people who do not exist, with an age, an income and a region each.")
    say(f"They agree on survey {survey.fingerprint[:16]}:")
    say("  whatever a device sends, an age 5 years off or an income 10,000 off is at most 2.7")
    say("  times less likely to have caused it, and another region at most 7.4 times.")
    say(f"  Certified by exact arithmetic: {'yes' if prove(survey).holds else 'NO'}.")
    started = time.perf_counter()
    reports = blur(survey, people)
    encoded = time.perf_counter() - started
    say(f"Every device blurs its values: {n:,} reports in {encoded:.2f} s.")
    say("")
    tally = Tally.of(survey, reports)
    lines = story.ask(tally, people)
    ages = tally.histogram("age", width=5)
    exact = [story.truth(survey, people, {"age": (a, a + 4)}) for a in range(0, 100, 5)]
    plots.histogram(ages, picture, title=f"Age of {n:,} people, from blurred reports", truth=exact)
    if as_json:
        asked = [{**r.answer.to_dict(), "truth": r.truth, "covered": r.covered} for r in lines]
        _print_json({"survey": survey.fingerprint, "people": n, "answers": asked})
        return
    rows = [("question", "truth", "estimate", "± error", "95% interval", "holds")]
    for line in lines:
        low, high = line.answer.interval()
        rows.append(
            (
                line.answer.question,
                f"{line.truth:,}",
                f"{line.answer.value:,.0f}",
                f"{line.answer.stderr:,.0f}",
                f"{low:,.0f} to {high:,.0f}",
                "yes" if line.covered else "no",
            )
        )
    say(table(rows))
    say("")
    held = sum(line.covered for line in lines)
    say(f"{held} of {len(lines)} intervals hold the truth; 95% of them do in the long run.")
    say(f"The picture is in {picture}.")


@app.command()
def explain(
    survey: SurveyFile,
    n: Annotated[
        int, typer.Option("--n", max=10**15, help="how many people are expected")
    ] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Say what a survey promises and what accuracy to expect."""
    from metricldp.app.explain import explain as words

    _show(words(Agreement.load(survey), n), as_json)


@app.command()
def certify(survey: SurveyFile, as_json: AsJson = False) -> None:
    """Prove the promise from the integers in use; exit code 1 if it does not hold."""
    from metricldp.survey.certify import certify as prove

    certificate = prove(Agreement.load(survey))
    _show(certificate, as_json)
    if not certificate.holds:
        raise typer.Exit(1)


@app.command()
def encode(
    survey: SurveyFile,
    people: Annotated[Path, typer.Argument(help="people's values, a .csv or .parquet file")],
    output: Annotated[Path, typer.Option("--output", "-o", help="the reports file to write")],
    clip: Annotated[bool, typer.Option("--clip", help="move values outside to the end")] = False,
    as_json: AsJson = False,
) -> None:
    """Blur people's values: CSV or Parquet in, a Parquet file of reports out."""
    from metricldp.reports import files

    agreed = Agreement.load(survey)
    count = files.encode_file(agreed, people, output, clip=clip, progress=sys.stderr.isatty())
    done = {"survey": agreed.fingerprint, "reports": count, "file": str(output)}
    if as_json:
        _print_json(done)
    else:
        print(f"{counted(count, 'report')} to survey {agreed.fingerprint[:16]} in {output}")


@app.command()
def merge(
    survey: SurveyFile,
    reports: Annotated[list[Path], typer.Argument(help="reports, Parquet files made by encode")],
    output: Annotated[Path, typer.Option("--output", "-o", help="the reports file to write")],
    as_json: AsJson = False,
) -> None:
    """Join several files of reports into one."""
    from metricldp.reports import files

    agreed = Agreement.load(survey)
    count = files.merge_files(agreed, reports, output)
    if as_json:
        _print_json({"survey": agreed.fingerprint, "reports": count, "file": str(output)})
    else:
        print(f"{counted(count, 'report')} to survey {agreed.fingerprint[:16]} in {output}")


@app.command()
def count(
    survey: SurveyFile,
    reports: ReportsFile,
    conditions: Conditions = None,
    about: About = "respondents",
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Count the people who meet all conditions, with the error."""
    tally, where = _opened(survey, reports, conditions)
    _answer(tally.count(where, about=about), level, as_json)


@app.command()
def fraction(
    survey: SurveyFile,
    reports: ReportsFile,
    conditions: Conditions = None,
    about: About = "respondents",
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Give the share of all people who meet the conditions, with the error."""
    tally, where = _opened(survey, reports, conditions)
    _answer(tally.fraction(where, about=about), level, as_json)


@app.command()
def weighted(
    survey: SurveyFile,
    reports: ReportsFile,
    conditions: Conditions = None,
    weight: Annotated[str | None, typer.Option(help="which weight, if there are several")] = None,
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Sum a weight over the people who meet all conditions, with the error."""
    tally, where = _opened(survey, reports, conditions)
    _answer(tally.weighted(where, weight=weight), level, as_json)


@app.command("sum")
def sum_(
    survey: SurveyFile,
    reports: ReportsFile,
    attribute: Annotated[str, typer.Argument(help="the attribute to add up")],
    conditions: Conditions = None,
    about: About = "respondents",
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Add up an attribute over the people who meet the conditions, with the error."""
    tally, where = _opened(survey, reports, conditions)
    _answer(tally.sum(attribute, where, about=about), level, as_json)


@app.command()
def mean(
    survey: SurveyFile,
    reports: ReportsFile,
    attribute: Annotated[str, typer.Argument(help="the attribute to average")],
    conditions: Conditions = None,
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Average an attribute over the people who meet the conditions, with the error."""
    tally, where = _opened(survey, reports, conditions)
    _answer(tally.mean(attribute, where), level, as_json)


@app.command()
def quantile(
    survey: SurveyFile,
    reports: ReportsFile,
    attribute: Annotated[str, typer.Argument(help="an attribute with an order")],
    words: Annotated[
        list[str] | None,
        typer.Argument(help="probabilities such as 0.25 0.5, then conditions such as age=18..29"),
    ] = None,
    method: Annotated[str, typer.Option(help="isotonic or binary-search")] = "isotonic",
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Give quantiles of an attribute (its median if none is named), with intervals."""
    words = words or []
    asked = [_probability(word) for word in words if "=" not in word] or [0.5]
    tally, where = _opened(survey, reports, [word for word in words if "=" in word])
    found = tally.quantiles(attribute, asked, where, method)
    if as_json:
        _print_json({"attribute": attribute, "quantiles": [q.to_dict(level) for q in found]})
        return
    for one in found:
        print(one.text(level))


@app.command()
def histogram(
    survey: SurveyFile,
    reports: ReportsFile,
    attribute: Annotated[str, typer.Argument(help="the attribute to draw")],
    conditions: Conditions = None,
    width: Annotated[int, typer.Option("--width", max=1 << 20, help="positions per bar")] = 1,
    plot: Annotated[Path | None, typer.Option("--plot", help="a picture to write")] = None,
    about: About = "respondents",
    level: Level = 0.95,
    as_json: AsJson = False,
) -> None:
    """Count the people at every value of an attribute, with the errors."""
    if plot is not None:
        from metricldp.app import plots

        plots.check_picture(plot)
    tally, where = _opened(survey, reports, conditions)
    bars = tally.histogram(attribute, where, width=width, about=about)
    data = bars.to_dict(level)
    if plot is not None:
        among = f" among {', '.join(conditions)}" if conditions else ""
        title = f"{attribute}{among}, from blurred reports"
        plots.histogram(bars, plot, title=title, level=level)
        data["picture"] = str(plot)
    if as_json:
        _print_json(data)
        return
    rows = [(attribute, "people", "± error", f"{percent(level)} interval")]
    for label, answer in zip(bars.labels, bars, strict=True):
        low, high = answer.interval(level)
        rows.append(
            (label, f"{answer.value:,.0f}", f"{answer.stderr:,.0f}", f"{low:,.0f} to {high:,.0f}")
        )
    print(table(rows))
    if plot is not None:
        print(f"picture in {plot}")


@app.command()
def compare(
    survey: SurveyFile,
    people: Annotated[Path, typer.Argument(help="people's values, a .csv or .parquet file")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="a directory for table and picture, made if need be"),
    ] = None,
    queries: Annotated[
        int, typer.Option("--queries", min=1, max=10_000, help="random questions per attribute")
    ] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of questions and simulation")] = 1,
    clip: Annotated[bool, typer.Option("--clip", help="move values outside to the end")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare mechanisms on a survey and people of one's own; nobody's reports are made."""
    agreed = Agreement.load(survey)
    if output is not None:
        directory(output)
    with watched("comparing") as progress:
        found = contest.compare(
            agreed, people, queries=queries, seed=seed, clip=clip, progress=progress
        )
    files = [] if output is None else [str(path) for path in write(contest.page(found), output)]
    if as_json:
        _print_json({**found.to_dict(), "files": files})
        return
    print(found)
    if files:
        print(f"\nWritten: {', '.join(files)}")


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help="figure1, figure2, table1, table2 or all")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="the directory to write into, made if need be")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="a small version, for a first look")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's figures and tables again, with the exact theory beside them."""
    if what != "all" and what not in STUDIES:
        raise QueryError(f"cannot reproduce {what!r}; choose {', '.join(STUDIES)} or all")
    directory(output)
    say, files = _say(as_json), []
    for name in STUDIES if what == "all" else [what]:
        page, written = run(name, partial(study, name, quick), output)
        say(page.text)
        files += [str(path) for path in written]
    if as_json:
        _print_json({"files": files})
    else:
        say(f"Written: {', '.join(files)}")


def main() -> None:
    """Run, turning every mistake of the user into one line and exit code 2."""
    _fit_the_terminal()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TightenedMetricWarning)
            warnings.showwarning = _tell
            code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except MetricLdpError as wrong:
        _fail(str(wrong))
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped", _STOPPED)
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as wrong:
        if wrong.filename is None:
            _drop_output()
        _fail(f"{wrong.filename or 'cannot write'}: {wrong.strerror or wrong}")
    except Exception as wrong:
        message = getattr(wrong, "format_message", None)
        if message is None:
            raise
        _fail(message())
    if code == _STOPPED:
        _fail("stopped", _STOPPED)
    sys.exit(code or 0)


def _tell(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning is one line as well; where in the code it arose is nothing to a reader."""
    print(f"metricldp: {message}", file=sys.stderr)


def _fail(message: str, code: int = 2) -> None:
    print(f"metricldp: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


_PLAIN = {"±": "+-", "×": "x", "·": "*", "–": "-", "²": "^2"}
"""What our own signs become where a terminal cannot show them; other letters become codes."""


def _fit_the_terminal() -> None:
    """Print what a terminal of another encoding cannot show as something that it can."""

    def plainly(wrong: UnicodeError) -> tuple[str, int]:
        assert isinstance(wrong, UnicodeEncodeError)
        letters = wrong.object[wrong.start : wrong.end]
        codes = (_PLAIN.get(x) or x.encode("ascii", "backslashreplace").decode() for x in letters)
        return "".join(codes), wrong.end

    codecs.register_error("metricldp.plainly", plainly)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and not _shows_everything(stream):
            stream.reconfigure(errors="metricldp.plainly")


def _shows_everything(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def _drop_output() -> None:
    """What is left in a full or closed standard output must not be tried again at the end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _opened(survey: Path, reports: Path, conditions: list[str] | None) -> tuple[Tally, Where]:
    """The tally of a reports file, and the conditions, which are checked first."""
    from metricldp.answers import queries
    from metricldp.answers.tally import Tally

    agreed = Agreement.load(survey)
    where = queries.parse_text(agreed, conditions or [])
    return Tally.of(agreed, reports), where


def _probability(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise QueryError(
            f"{word!r} is neither a probability such as 0.5 nor a condition such as age=18..29"
        ) from None


def _show(thing: Any, as_json: bool) -> None:
    if as_json:
        _print_json(thing.to_dict())
    else:
        print(thing)


def _answer(answer: Answer, level: float, as_json: bool) -> None:
    if as_json:
        _print_json(answer.to_dict(level))
    else:
        print(answer.text(level))


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=not _shows_everything(sys.stdout)))


def _say(quiet: bool) -> Any:
    return (lambda text: None) if quiet else print
