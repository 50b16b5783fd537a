"""The command line: a thin layer that reads files, calls the package and prints.

A user's mistake is one line on standard error and exit code 2; `--json` prints data instead of
tables; long work shows a progress bar on a terminal and nothing in a pipe.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from metricldp.errors import MetricLdpError
from metricldp.survey import Survey
from metricldp.tables import table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
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
AsJson = Annotated[bool, typer.Option("--json", help="print data for a program")]


@app.command()
def demo(
    picture: Annotated[Path, typer.Option("--output", "-o", help="the picture")] = Path("demo.png"),
    as_json: AsJson = False,
) -> None:
    """Go the whole way on a synthetic population, with the truth beside every answer."""
    from metricldp import demo as story
    from metricldp import plots

    say = _say(as_json)
    people = story.population()
    survey = story.survey()
    n = len(people["age"])
    say(f"{n:,} people who do not exist, with an age, an income and a region each.")
    say(f"They agree on survey {survey.fingerprint[:16]}:")
    say("  whatever a device sends, an age 5 years off or an income 10,000 off is at most 2.7")
    say("  times less likely to have caused it, and another region at most 7.4 times.")
    say(f"  Certified by exact arithmetic: {'yes' if survey.certify().holds else 'NO'}.")
    started = time.perf_counter()
    reports = survey.encode(people)
    encoded = time.perf_counter() - started
    say(f"Every device blurs its values: {n:,} reports in {encoded:.2f} s.")
    say("")
    tally = survey.tally(reports)
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
    n: Annotated[int, typer.Option("--n", help="how many people are expected")] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Say what a survey promises and what accuracy to expect."""
    _show(Survey.load(survey).explain(n), as_json)


@app.command()
def certify(survey: SurveyFile, as_json: AsJson = False) -> None:
    """Prove the promise from the integers in use; exit code 1 if it does not hold."""
    certificate = Survey.load(survey).certify()
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
    from metricldp import files

    agreed = Survey.load(survey)
    count = files.encode_file(agreed, people, output, clip=clip, progress=sys.stderr.isatty())
    done = {"survey": agreed.fingerprint, "reports": count, "file": str(output)}
    if as_json:
        _print_json(done)
    else:
        print(f"{count:,} reports to survey {agreed.fingerprint[:16]} in {output}")


@app.command()
def count(
    survey: SurveyFile,
    reports: ReportsFile,
    conditions: Conditions = None,
    as_json: AsJson = False,
) -> None:
    """Count the people who meet all conditions, with the error."""
    from metricldp import queries

    agreed = Survey.load(survey)
    where = queries.parse_text(agreed, conditions or [])
    _show(agreed.tally(reports).count(where), as_json)


@app.command()
def histogram(
    survey: SurveyFile,
    reports: ReportsFile,
    attribute: Annotated[str, typer.Argument(help="the attribute to draw")],
    conditions: Conditions = None,
    width: Annotated[int, typer.Option("--width", help="positions per bar")] = 1,
    plot: Annotated[Path | None, typer.Option("--plot", help="a picture to write")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the people at every value of an attribute, with the errors."""
    from metricldp import queries

    agreed = Survey.load(survey)
    where = queries.parse_text(agreed, conditions or [])
    bars = agreed.tally(reports).histogram(attribute, where, width=width)
    if plot is not None:
        from metricldp import plots

        among = f" among {', '.join(conditions)}" if conditions else ""
        plots.histogram(bars, plot, title=f"{attribute}{among}, from blurred reports")
    if as_json:
        _print_json(bars.to_dict())
        return
    rows = [(attribute, "people", "± error", "95% interval")]
    for label, answer in zip(bars.labels, bars, strict=True):
        low, high = answer.interval()
        rows.append(
            (label, f"{answer.value:,.0f}", f"{answer.stderr:,.0f}", f"{low:,.0f} to {high:,.0f}")
        )
    print(table(rows))


def main() -> None:
    """Run, turning every mistake of the user into one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except MetricLdpError as wrong:
        _fail(str(wrong))
    except typer.Abort:
        _fail("stopped", 130)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as wrong:
        message = getattr(wrong, "format_message", None)
        if message is None:
            raise
        _fail(message())
    sys.exit(code or 0)


def _fail(message: str, code: int = 2) -> None:
    print(f"metricldp: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def _show(thing: Any, as_json: bool) -> None:  # noqa: ANN401 - anything with to_dict
    if as_json:
        _print_json(thing.to_dict())
    else:
        print(thing)


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def _say(quiet: bool) -> Any:  # noqa: ANN401
    return (lambda text: None) if quiet else print
