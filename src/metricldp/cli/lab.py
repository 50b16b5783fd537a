"""The commands of `metricldp lab`: measurements for researchers and auditors."""

from __future__ import annotations

import csv
import io
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from metricldp.basics.errors import QueryError
from metricldp.basics.progress import progress_bar
from metricldp.basics.writing import replacing
from metricldp.cli.arguments import (
    AsJson,
    Clip,
    Force,
    ResponseFile,
    SurveyFile,
    group,
    load_survey,
    option,
    output_folder,
)
from metricldp.cli.terminal import show
from metricldp.estimate.request import integer, number

app = group("Compare, audit and bound mechanisms.")
Folder = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for text, tables and charts")
]


@app.command()
def compare(
    survey: SurveyFile,
    responses: ResponseFile,
    output: Folder = None,
    queries: int = option(100, "--queries", min=1, max=10_000, help="Random queries per attribute"),
    seed: int = option(1, "--seed", min=0, help="Seed of queries and simulation"),
    clip: Clip = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare mechanisms on a survey and your data, by simulation."""
    from metricldp.lab import compare as comparison

    names = ("compare.txt", "compare.csv", "compare.png")
    if output is not None:
        from metricldp.basics.optional import require

        require("plot")
        output_folder(output, names, [survey, responses], force)
    loaded = load_survey(survey)
    with progress_bar("comparing") as progress:
        result = comparison.compare(
            loaded, responses, queries=queries, seed=seed, clip=clip, progress=progress
        )
    written = []
    if output is not None:
        from metricldp.plot import draw_comparison, save

        written = [output / name for name in names]
        _write_text(written[0], f"{result.text()}\n")
        _write_csv(written[1], result.to_dict()["rows"])
        save(draw_comparison(result), written[2])
    _show_written(result, written, as_json)


@app.command()
def limit(
    survey: SurveyFile,
    n: int = option(10_000, "--n", help="Number of respondents", read=integer),
    as_json: AsJson = False,
) -> None:
    """Bound how much smaller the error of any mechanism can be."""
    from metricldp.lab.limits import limits

    loaded = load_survey(survey)
    with progress_bar("computing bounds"):
        result = limits(loaded, n)
    show(result.to_dict(), str(result), as_json)


@app.command()
def audit(
    survey: SurveyFile,
    client: str | None = option(
        None, "--client", help="Command: reads responses as JSON lines, writes reports"
    ),
    form: str = option("hex", "--format", help="Encoding of its reports: hex or base64"),
    seconds: float = option(600, "--seconds", help="Time limit of each run of the client"),
    n: int | None = option(None, "--n", help="Number of reports", read=integer),
    false_alarm: float | None = option(
        None, "--false-alarm", help="Probability that a correct client fails", read=number
    ),
    clip: bool = option(False, "--clip", help="The client clips values"),
    seed: int | None = option(None, "--seed", min=0, help="Seed of the choice of responses"),
    output: Folder = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Test a client by its reports; exit code 1 if it fails."""
    from metricldp.lab import audit as audits
    from metricldp.lab.audit.clients import Command

    if output is not None:
        names = ("audit.txt", "audit_findings.csv", "audit_power.csv")
        output_folder(output, names, [survey], force)
    loaded = load_survey(survey)
    encoder = None if client is None else Command(client, form, seconds)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the client ends as well
    with progress_bar("auditing") as progress:
        result = audits.audit(
            loaded,
            encoder,
            n=audits.REPORTS if n is None else n,
            false_alarm=audits.FALSE_ALARM if false_alarm is None else false_alarm,
            clip=clip,
            seed=seed,
            progress=progress,
        )
    written = []
    if output is not None:
        written.append(_write_text(output / "audit.txt", f"{result}\n"))
        data = result.to_dict()
        for name in ("findings", "power"):
            if data[name]:
                written.append(_write_csv(output / f"audit_{name}.csv", data[name]))
    _show_written(result, written, as_json)
    if not result.passed:
        raise typer.Exit(1)


@app.command()
def amplify(
    survey: SurveyFile,
    n: int = option(10_000, "--n", help="Reports in a shuffled batch", read=integer),
    delta: float = option(1e-6, "--delta", help="Probability that the bound may fail", read=number),
    as_json: AsJson = False,
) -> None:
    """Compute the epsilon of shuffled batches with a trusted shuffler."""
    from metricldp.lab.amplify import amplify as amplified

    loaded = load_survey(survey)
    with progress_bar("computing bounds"):
        result = amplified(loaded, n, delta)
    show(result.to_dict(), str(result), as_json)


def _write_text(path: Path, text: str) -> Path:
    with replacing(path, QueryError) as file:
        file.write(text.encode("utf-8"))
    return path


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """One line for each row; the first row names the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return _write_text(path, text.getvalue())


def _show_written(result: Any, written: list[Path], as_json: bool) -> None:
    """The result, and the files that were written."""
    names = [str(path) for path in written]
    more = f"\n\nwritten: {', '.join(names)}" if names else ""
    show({**result.to_dict(), "files": names}, f"{result}{more}", as_json)
