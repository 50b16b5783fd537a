"""What all benchmarks share: timing by turns, figures with their targets, tables and JSON."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from metricldp import Integer, Survey
from metricldp.basics.text import table

RESULTS = Path(__file__).parent / "results"
NAMES = ("a", "b")
QUICK = "--quick"


@dataclass(frozen=True)
class Figure:
    """One measured number, the two sides it came from, and what it should be."""

    what: str
    ours: str
    against: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def row(self) -> tuple[str, ...]:
        wanted, verdict = "", ""
        if self.target is not None:
            bound = "at least" if self.at_least else "at most"
            wanted = f"{bound} {number(self.target)} {self.unit}"
            verdict = "met" if self.met else "MISSED"
        shown = f"{number(self.value)} {self.unit}"
        return self.what, self.ours, self.against, shown, wanted, verdict


def number(value: float) -> str:
    """Three digits, or all of a whole number."""
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def by_turns(works: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Seconds of every work in every round: each has its turn, so all meet the same machine."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for place, work in enumerate(works):
            seconds[place].append(timed(work))
    return seconds


def survey_of(mechanism: str, names: Sequence[str] = NAMES) -> Survey:
    """Attributes of 256 values, epsilon 1 per step."""
    return Survey({name: Integer(0, 255, epsilon=1, mechanism=mechanism) for name in names})


def people_of(survey: Survey, n: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 256, n) for name in survey.attributes}


def random_ranges(rng: np.random.Generator, names: Sequence[str] = NAMES) -> dict[str, tuple]:
    """A range of each attribute that is cut at both ends."""
    ends = {name: np.sort(rng.choice(np.arange(1, 255), 2, replace=False)) for name in names}
    return {name: (int(low), int(high)) for name, (low, high) in ends.items()}


def show(title: str, figures: Sequence[Figure], notes: Sequence[str] = ()) -> None:
    head = ("", "ours", "against", "figure", "target", "")
    print(f"\n{title}\n")
    print(table([head, *(figure.row() for figure in figures)], left=3))
    for note in notes:
        print(note)


def save(name: str, figures: Sequence[Figure], **details: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    rows = [{**asdict(figure), "met": figure.met} for figure in figures]
    saved = {"machine": machine(), "quick": QUICK in sys.argv, "figures": rows, **details}
    (RESULTS / f"{name}.json").write_text(json.dumps(saved, indent=2) + "\n", "utf-8")


def machine() -> dict[str, object]:
    """Where the figures were measured."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def processor() -> str:
    about = Path("/proc/cpuinfo")
    lines = about.read_text("utf-8").splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def quick() -> bool:
    """Whether the command line asks for small sizes, to try a benchmark out."""
    parser = argparse.ArgumentParser()
    parser.add_argument(QUICK, action="store_true", help="small sizes, to try it out")
    return bool(parser.parse_args().quick)
