"""What a new process pays: the import, and the first calls, which compile or load kernels."""

import json
import os
import subprocess
import sys
import tempfile

import measure

IMPORT = """
import json, time
started = time.perf_counter(), time.process_time()
import metricldp
print(json.dumps([time.perf_counter() - started[0], time.process_time() - started[1]]))
"""
CALLS = """
import json, sys, time
import numpy as np
from metricldp import Integer, Survey
n = int(sys.argv[1])
taken = {}
def timed(name, work):
    started = time.perf_counter(), time.process_time()
    result = work()
    taken[name] = [time.perf_counter() - started[0], time.process_time() - started[1]]
    return result
values = {name: np.arange(n) % 256 for name in "ab"}
for mechanism in ("geometric", "threshold"):
    one = Integer(0, 255, epsilon=1, per=1, mechanism=mechanism)
    survey = Survey.design({name: one for name in "ab"})
    reports = timed(f"randomize, {mechanism}", lambda: survey.randomize(values))
    where = {"a": (20, 200), "b": (50, 180)}
    timed(f"count, {mechanism}", lambda: survey.tally(reports).count(where))
    timed(f"histogram, {mechanism}", lambda: survey.tally(reports).histogram("a"))
print(json.dumps(taken))
"""


def run(code: str, *arguments: str, cache: str | None = None) -> object:
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main() -> None:
    small = measure.arguments(__doc__).small
    imports = [run(IMPORT) for _ in range(2 if small else 6)][1:]  # the first writes bytecode
    rows = [
        {
            "call": "import metricldp",
            "cache": "",
            "seconds": min(wall for wall, _ in imports),
            "processor seconds": min(busy for _, busy in imports),
        }
    ]
    n = str(20_000 if small else 1_000_000)
    with tempfile.TemporaryDirectory() as cache:
        for state in ("empty", "filled"):
            for call, (wall, busy) in run(CALLS, n, cache=cache).items():
                line = {"call": call, "cache": state, "seconds": wall, "processor seconds": busy}
                rows.append(line)
    measure.table(rows, list(rows[0]), "loading")


if __name__ == "__main__":
    main()
