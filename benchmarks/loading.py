"""What a new process pays: importing the package, and the first call of every compiled loop."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from drive import steps
from measure import LOOPS, QUICK, Figure, save, show, timed

IMPORT = """
import sys, time
started = time.perf_counter(), time.process_time()
import metricldp
print(time.perf_counter() - started[0], time.process_time() - started[1])
assert "numba" not in sys.modules, "importing metricldp loads numba"
"""


def importing(times: int) -> list[list[float]]:
    """Wall and processor seconds of `import metricldp`; a first process writes the bytecode."""
    found = [[float(part) for part in run("-c", IMPORT).split()] for _ in range(times + 1)]
    return found[1:]


def run(*arguments: str, cache: str | None = None) -> str:
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def first_calls(n: int) -> dict:
    """In this process: each call twice, and which compiled loops they reached."""
    for loops in LOOPS:
        loops.large = 0  # the first call of each kind is large enough
    seconds = {name: [both_clocks(work), both_clocks(work)] for name, work in steps(n)}
    loops = {
        f"{module}.{name}": bool(value.signatures)
        for module, found in list(sys.modules.items())
        if module.startswith("metricldp.") and module.endswith((".kernels", ".loops_compiled"))
        for name, value in vars(found).items()
        if hasattr(value, "signatures") and getattr(value, "__module__", "") == module
    }
    return {"seconds": seconds, "loops": loops}


def both_clocks(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds: the second hardly depend on who else uses the machine."""
    busy = time.process_time()
    return timed(work), time.process_time() - busy


def compiling(n: int) -> tuple[dict, dict]:
    """The first calls with an empty cache, and with the one that these filled."""
    with tempfile.TemporaryDirectory() as cache:
        here = str(Path(__file__))
        empty, filled = (
            json.loads(run(here, "--first-calls", str(n), cache=cache)) for _ in range(2)
        )
    return empty, filled


def extra(found: dict) -> list[float]:
    """What first calls take longer than the same calls again, by both clocks."""
    return np.sum([np.subtract(*pair) for pair in found["seconds"].values()], axis=0).tolist()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(QUICK, action="store_true", help="small sizes, to try it out")
    parser.add_argument("--first-calls", type=int, help="make them in this process, print JSON")
    options = parser.parse_args()
    if options.first_calls:
        print(json.dumps(first_calls(options.first_calls)))
        return
    imports = importing(5)
    n = 300_000 if options.quick else 1_000_000
    empty, filled = compiling(n)
    reached = [name for name, found in empty["loops"].items() if found]
    missed = sorted(set(empty["loops"]) - set(reached))
    imported = np.median(imports, axis=0).tolist()
    compiled, loaded = extra(empty), extra(filled)
    figures = [
        Figure(
            "import metricldp, without numba",
            f"{imported[1]:.2f} s of processor",
            f"median of {len(imports)} new processes",
            imported[0],
            "s",
            0.5,
        ),
        Figure(
            f"first calls, {len(reached)} of {len(empty['loops'])} compiled loops, empty cache",
            f"{compiled[1]:.2f} s of processor",
            f"the same calls again, {n:,} people",
            compiled[0],
            "s more",
            10,
        ),
        Figure(
            "first calls, loaded from a filled cache",
            f"{loaded[1]:.2f} s of processor",
            f"the same calls again, {n:,} people",
            loaded[0],
            "s more",
        ),
    ]
    notes = [f"not reached: {name}" for name in missed]
    show("What a new process pays", figures, notes)
    save("loading", figures, imports=imports, empty_cache=empty, filled_cache=filled)


if __name__ == "__main__":
    main()
