"""Shared by the benchmarks: command-line options, timing, tables and JSON files.

Every script takes `--small` (seconds instead of minutes) and `--output` (a folder for JSON files).
"""

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from metricldp import Integer, Survey

NAMES = ("a", "b")
_settings = {"folder": Path("build", "bench"), "small": False}


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the common options, for scripts that add their own."""
    result = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    result.add_argument("--small", action="store_true", help="small sizes: seconds")
    result.add_argument("--output", type=Path, default=_settings["folder"], help="for JSON files")
    return result


def arguments(source: str | argparse.ArgumentParser | None) -> argparse.Namespace:
    """The options of the command line; `source` is a description or a parser."""
    chosen = source if isinstance(source, argparse.ArgumentParser) else parser(source)
    options = chosen.parse_args()
    _settings.update(folder=options.output, small=options.small)
    return options


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str], name: str) -> None:
    """Print rows as a table, and save them as <folder>/<name>.json with the machine."""
    lines = [list(columns), *([_text(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(columns))]
    print(f"\n{name}")
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    sys.stdout.flush()
    folder = _settings["folder"]
    folder.mkdir(parents=True, exist_ok=True)
    saved = {"machine": machine(), "small": _settings["small"], "rows": [dict(r) for r in rows]}
    (folder / f"{name}.json").write_text(json.dumps(saved, indent=1, default=float) + "\n", "utf-8")


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def machine() -> dict[str, object]:
    """Where the figures were measured."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text("utf-8").splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def timed(work: Callable[[], object]) -> float:
    """Wall seconds of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def median_seconds(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median of several rounds; works alternate, so all meet the same load of the machine.

    One more round before is not timed: it loads compiled code.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            took = timed(work)
            if turn:
                seconds[name].append(took)
    return {name: float(np.median(taken)) for name, taken in seconds.items()}


def peak_megabytes() -> float:
    """The largest memory of this process so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1e6 if sys.platform == "darwin" else 1e3)


def survey_of(mechanism: str, names: Sequence[str] = NAMES, size: int = 256) -> Survey:
    """Attributes of 256 values, epsilon 1 per step."""
    one = Integer(0, size - 1, epsilon=1, mechanism=mechanism, per=1)
    return Survey.design(dict.fromkeys(names, one))


def respondents_of(survey: Survey, n: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, a.size, n) for name, a in survey.attributes.items()}


def random_ranges(rng: np.random.Generator, names: Sequence[str] = NAMES) -> dict[str, tuple]:
    """A range of each attribute with both ends inside its 256 values."""
    ends = {name: np.sort(rng.choice(np.arange(1, 255), 2, replace=False)) for name in names}
    return {name: (int(low), int(high)) for name, (low, high) in ends.items()}
