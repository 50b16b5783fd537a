"""Commands for reports that are too many for one file: slices, segments and logs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from metricldp.app.arguments import survey_in
from metricldp.app.questions import AsJson, Fingerprint, SurveyFile
from metricldp.app.terminal import show
from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted
from metricldp.basics.writing import check_apart
from metricldp.collector.logs.compact import compact as compacted
from metricldp.collector.logs.ingest import AT_ONCE, Outcome, ingest
from metricldp.collector.logs.sources import log_of
from metricldp.store.slices import INDEX, slice_files
from metricldp.survey.agreement import Agreement

_Folder = Annotated[Path, typer.Option("--output", "-o", help="the folder to write into")]
_Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", help="attributes whose totals are kept, such as age,region; repeatable"),
]
_PAUSE = 1.0
"""Seconds between two looks at a log that is followed."""


def register(app: typer.Typer) -> None:
    """All of them, on the command line."""
    app.command("slice")(_slice)
    app.command("compact")(_compact)
    app.command("ingest")(_ingest)


def _slice(
    survey: SurveyFile,
    reports: Annotated[Path, typer.Argument(help="reports: a Parquet file, or a folder of them")],
    output: _Folder,
    fingerprint: Fingerprint = None,
    as_json: AsJson = False,
) -> None:
    """Turn reports of bits into columns of bits, from which engines count soonest."""
    agreed = survey_in(survey)
    check_apart(output / INDEX, [survey, reports], QueryError)
    n = slice_files(agreed, reports, output, fingerprint=fingerprint)
    words = f"{counted(n, 'report')} to survey {agreed.fingerprint[:16]} sliced in {output}"
    show({"survey": agreed.fingerprint, "reports": n, "folder": str(output)}, words, as_json)


def _compact(
    survey: SurveyFile,
    segments: Annotated[Path, typer.Argument(help="a folder of segments: reports, or log records")],
    output: _Folder,
    keep: _Keep = None,
    as_json: AsJson = False,
) -> None:
    """Join many segments into few files; none is read twice, and nobody counted twice."""
    agreed = survey_in(survey)
    found = compacted(agreed, segments, output, keep=_sets(keep))
    data = {"survey": agreed.fingerprint, **found._asdict(), "folder": str(output)}
    words = (
        f"{counted(found.accepted, 'report')} from {counted(found.segments, 'new segment')}, "
        f"{found.known} known; {_others(found)}{found.reports:,} in {output}"
    )
    show(data, words, as_json)


def _ingest(
    survey: SurveyFile,
    log: Annotated[
        str, typer.Argument(help="a file or folder of records, or kafka://HOST:PORT/TOPIC")
    ],
    output: _Folder,
    keep: _Keep = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, help="records of a round, which is one file")
    ] = AT_ONCE,
    follow: Annotated[
        bool, typer.Option("--follow", help="wait for more at the end of the log, for ever")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read a log that may repeat itself into Parquet files, everybody once."""
    agreed = survey_in(survey)
    source = log_of(agreed, log)
    while True:
        found = ingest(agreed, source, output, keep=_sets(keep), at_once=at_once)
        if found.read or not follow:
            _tell(agreed, found, output, as_json)
        if not follow:
            return
        time.sleep(_PAUSE)


def _tell(survey: Agreement, found: Outcome, output: Path, as_json: bool) -> None:
    data = {"survey": survey.fingerprint, **found._asdict(), "folder": str(output)}
    words = (
        f"{counted(found.accepted, 'report')} from {counted(found.read, 'record')}; "
        f"{_others(found)}{found.reports:,} in {output}"
    )
    show(data, words, as_json)


def _others(found: Any) -> str:
    """What was not taken, and why."""
    refused = "".join(f"{n:,} refused ({reason}); " for reason, n in found.refused.items())
    repeated = f"{counted(found.duplicates, 'duplicate')}; " if found.duplicates else ""
    return repeated + refused


def _sets(keep: list[str] | None) -> list[list[str]]:
    return [[name.strip() for name in names.split(",")] for names in keep or []]
