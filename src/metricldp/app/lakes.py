"""Commands for reports that are too many for one file: slices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metricldp.app.arguments import survey_in
from metricldp.app.questions import AsJson, SurveyFile, Trust
from metricldp.app.terminal import show
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted
from metricldp.basics.writing import check_apart
from metricldp.store.slices import INDEX, slice_files

_Folder = Annotated[Path, typer.Option("--output", "-o", help="the folder to write into")]


def register(app: typer.Typer) -> None:
    """All of them, on the command line."""
    app.command("slice")(_slice)


def _slice(
    survey: SurveyFile,
    reports: Annotated[Path, typer.Argument(help="reports: a Parquet file, or a folder of them")],
    output: _Folder,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Turn reports of bits into columns of bits, from which engines count soonest."""
    agreed = survey_in(survey)
    check_apart(output / INDEX, [survey, reports], QueryError)
    n = slice_files(agreed, reports, output, trust=trust)
    words = f"{counted(n, 'report')} to survey {agreed.fingerprint[:16]} sliced in {output}"
    show({"survey": agreed.fingerprint, "reports": n, "folder": str(output)}, words, as_json)
