"""The command that writes a decoded column, for whoever adds it up with other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metricldp.answers.decoded import decode_file
from metricldp.app.arguments import check_order, only_condition, survey_in
from metricldp.app.questions import AsJson, Conditions, Fingerprint, ReportsFile, SurveyFile
from metricldp.app.terminal import show
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted
from metricldp.basics.writing import check_apart

_USAGE = "metricldp decode SURVEY REPORTS CONDITION -o COLUMN"


def register(app: typer.Typer) -> None:
    """On the command line."""
    app.command("decode")(_decode)


def _decode(
    survey: SurveyFile,
    reports: ReportsFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="the Parquet file to write")],
    conditions: Conditions = None,
    of: Annotated[
        str | None,
        typer.Option("--of", help="an attribute or weight to add up, instead of counting people"),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="carry the reports' public columns along")
    ] = False,
    fingerprint: Fingerprint = None,
    as_json: AsJson = False,
) -> None:
    """Write what each report adds to an answer and to its variance, to be summed by any tool."""
    agreed = survey_in(survey)
    words = conditions or []
    check_order(agreed, reports, None, words, _USAGE)
    where = only_condition(words)
    check_apart(output, [survey], QueryError)
    decoder, rows = decode_file(
        agreed, reports, output, where, of, public=public, fingerprint=fingerprint
    )
    data = {
        "survey": agreed.fingerprint,
        "question": decoder.words,
        "unit": decoder.unit,
        "columns": decoder.schema.names,
        "reports": rows,
        "notes": list(decoder.notes),
        "file": str(output),
    }
    told = f"{counted(rows, 'report')} decoded for {decoder.words} in {output}"
    show(data, "; ".join([told, *decoder.notes]), as_json)
