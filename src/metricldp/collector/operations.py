"""For those who run a collector: is it alive, can it keep reports, and numbers for Prometheus."""

from __future__ import annotations

from metricldp.collector.books import UNKNOWN
from metricldp.collector.folder import OUTCOMES, Collector
from metricldp.collector.intake import Intake

PATHS = ("/healthz", "/readyz", "/metrics")


def metrics(collector: Collector, intake: Intake | None = None) -> str:
    """Every counter of every survey, from 0 on, in Prometheus' text format."""
    with collector.using() as (books, register), books.database.reading():
        entries = register.entries()
        counters = books.counters()
        waiting = books.waiting()
        sealed = {entry.number: len(books.segments(entry.number)) for entry in entries}
    names = {UNKNOWN: "unknown", **{entry.number: entry.fingerprint for entry in entries}}
    numbers = {
        (name, outcome): counters.get((number, outcome), 0)
        for number, name in names.items()
        for outcome in OUTCOMES
    }
    lines = [
        "# HELP metricldp_reports_total Reports by outcome.",
        "# TYPE metricldp_reports_total counter",
        *(
            f'metricldp_reports_total{{survey="{name}",outcome="{outcome}"}} {n}'
            for (name, outcome), n in numbers.items()
        ),
        "# HELP metricldp_reports_unsealed Reports that are not yet in a Parquet file.",
        "# TYPE metricldp_reports_unsealed gauge",
        *_gauges("metricldp_reports_unsealed", waiting, names),
        "# HELP metricldp_segments Parquet files of reports.",
        "# TYPE metricldp_segments gauge",
        *_gauges("metricldp_segments", sealed, names),
    ]
    if intake is not None:
        lines += [
            "# HELP metricldp_waiting_room_share Fill level of the upload queue, from 0 to 1.",
            "# TYPE metricldp_waiting_room_share gauge",
            f"metricldp_waiting_room_share {intake.load:.4f}",
        ]
    return "\n".join(lines) + "\n"


def _gauges(name: str, values: dict[int, int], names: dict[int, str]) -> list[str]:
    known = ((survey, values.get(number, 0)) for number, survey in names.items() if number)
    return [f'{name}{{survey="{survey}"}} {n}' for survey, n in known]
