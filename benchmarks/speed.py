"""All benchmarks of speed, each in a process of its own, and which of their targets are met.

Each prints its tables and saves a JSON file in benchmarks/results/. `--quick` takes small sizes, to
try them out: its figures mean little.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from measure import QUICK, RESULTS, machine, quick

PARTS = ("encode", "counting", "growth", "device", "loading")


def main() -> None:
    options = [QUICK] if quick() else []
    started = time.perf_counter()
    print(", ".join(f"{key}: {value}" for key, value in machine().items()), flush=True)
    for part in PARTS:
        script = str(Path(__file__).with_name(f"{part}.py"))
        subprocess.run([sys.executable, script, *options], check=True)
    figures = [
        figure
        for part in PARTS
        for figure in json.loads((RESULTS / f"{part}.json").read_text("utf-8"))["figures"]
        if figure["target"] is not None
    ]
    missed = [figure for figure in figures if not figure["met"]]
    met = len(figures) - len(missed)
    print(f"\n{met} of {len(figures)} targets met, {time.perf_counter() - started:.0f} s in all")
    for figure in missed:
        print(f"missed: {figure['what']}, against {figure['against']}")


if __name__ == "__main__":
    main()
