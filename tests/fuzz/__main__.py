"""`make fuzz`: feed the package what nobody should send, and see that it refuses in one line.

    python tests/fuzz                        every target for half a minute
    python tests/fuzz --full                 10^7 reports, 10^4 files, 10^6 of the others
    python tests/fuzz surveys --cases 50000  one target, so many cases
    python tests/fuzz surveys --seed 7 --block 12   one block again: each failure names its own

Cases come in blocks that follow from the seed and the number of the block. What is done is written
to `.fuzz.json`, so that a run that was stopped goes on where it was; another seed starts anew. Each
process may take 2 GB more than its libraries, each case 10 seconds of
processor time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "fuzz")]

import conditions  # noqa: E402
import manifests  # noqa: E402
import report_bytes  # noqa: E402
import report_files  # noqa: E402
import survey_files  # noqa: E402
from fuzzing import Failure, coins_for, limit_memory  # noqa: E402

TARGETS = {
    "reports": report_bytes,
    "surveys": survey_files,
    "manifests": manifests,
    "parquet": report_files,
    "where": conditions,
}
FULL = {"reports": 10**7, "surveys": 10**6, "manifests": 10**6, "parquet": 10**4, "where": 10**6}
STATE = TESTS.parent / ".fuzz.json"


def run_block(target, seed, number):
    where = f"--seed {seed} --block {number}"
    return TARGETS[target].block(coins_for(seed, target, number), where)


def run(target, seed, *, cases, seconds, workers):
    """So many cases, or so many seconds: print how many there were in all; the failures."""
    state = _read(seed)
    done = state.setdefault(target, {"blocks": 0, "cases": 0, "failures": 0, "seconds": 0.0})
    start, before, first, failures = time.time(), done["seconds"], done["cases"], []
    forked = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, forked, initializer=limit_memory) as pool:
        waiting = deque()
        while done["cases"] < (cases or sys.maxsize) and time.time() - start < (seconds or 1e9):
            while len(waiting) < 2 * workers:
                waiting.append(pool.submit(run_block, target, seed, done["blocks"] + len(waiting)))
            try:
                count, wrong = waiting.popleft().result()
            except BrokenProcessPool:
                where = f"--seed {seed} --block {done['blocks']}, or one of the next few"
                wrong = [Failure(target, where, "the process died", "")]
                count, seconds = 0, 1e-9
            done["blocks"] += 1
            done["cases"] += count
            done["failures"] += len(wrong)
            done["seconds"] = round(before + time.time() - start, 1)
            failures += wrong
            for failure in wrong:
                print(failure, flush=True)
            if done["blocks"] % 20 == 0:
                _write(seed, state)
        for future in waiting:
            future.cancel()
    _write(seed, state)
    rate = (done["cases"] - first) / max(1e-9, time.time() - start)
    print(f"{target}: {done['cases']:,} cases, {done['failures']} failures, {rate:,.0f} a second")
    return failures


def _read(seed):
    if STATE.exists():
        state = json.loads(STATE.read_text())
        if state.get("seed") == seed:
            return state
    return {"seed": seed}


def _write(seed, state):
    STATE.write_text(json.dumps({**state, "seed": seed}, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], metavar="TARGET")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--block", type=int, help="this one only, here and now")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    failed = 0
    for target in asked.targets or TARGETS:
        if asked.block is not None:
            limit_memory()
            count, wrong = run_block(target, asked.seed, asked.block)
            print(*wrong, f"{target}: {count} cases, {len(wrong)} failures", sep="\n")
            failed += len(wrong)
            continue
        cases = FULL[target] if asked.full else asked.cases
        seconds = asked.seconds or (None if cases else 30.0)
        options = {"cases": cases, "seconds": seconds, "workers": asked.workers}
        failed += len(run(target, asked.seed, **options))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
