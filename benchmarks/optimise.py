"""The optimiser of the matrix mechanism: how near to closed forms, how fast, how large.

Each timed row runs in a process of its own, so that its peak memory is its own. Prints tables and
saves benchmarks/results/optimise.json.
"""

import itertools
import json
import multiprocessing
import platform
import resource
import time
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array, csgraph

from metricldp.basics.text import table
from metricldp.design.optimise import optimised
from metricldp.design.scales import best_scales, sensitive_scales
from metricldp.design.workloads import Workload

RESULTS = Path(__file__).parent / "results"
JOBS = [
    (100, "all_ranges", "line", "auto"),
    (100, "identity", "sensitive", "auto"),
    (100, "all_ranges", "sensitive", "auto"),
    (100, "all_ranges", "graph", "auto"),
    (100, "identity", "uniform", "auto"),
    (100, "all_ranges", "uniform", "auto"),
    (500, "identity", "graph", "auto"),
    (500, "all_ranges", "graph", "auto"),
    (500, "all_ranges", "line", "auto"),
    (2000, "all_ranges", "line", "prefix"),
]


def line(size):
    return np.array([(x, x + 1) for x in range(size - 1)]), np.ones(size - 1)


def uniform(size):
    pairs = np.array(list(itertools.combinations(range(size), 2)))
    return pairs, np.ones(len(pairs))


def sensitive(size, count=None, epsilon=1.0):
    """E_S: pairs without a sensitive value are implied by those with one, if there is one."""
    count = size // 10 if count is None else count
    pairs, _ = uniform(size)
    pairs = pairs[pairs[:, 0] < count]
    return pairs, np.full(len(pairs), epsilon)


def graph(size):
    """A random connected graph of 4 edges per value; edges longer than a way round are left out."""
    rng = np.random.default_rng(1)
    edges = {(int(rng.integers(x)), x) for x in range(1, size)}
    while len(edges) < 4 * size:
        x, other = (int(end) for end in np.sort(rng.integers(0, size, 2)))
        if x != other:
            edges.add((x, other))
    pairs, lengths = np.array(sorted(edges)), rng.uniform(0.5, 2, 4 * size)
    joined = coo_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(size, size)).tocsr()
    distances = csgraph.shortest_path(joined, directed=False)[pairs[:, 0], pairs[:, 1]]
    kept = lengths <= distances * (1 + 1e-12)
    return pairs[kept], lengths[kept]


METRICS = {"line": line, "uniform": uniform, "sensitive": sensitive, "graph": graph}


def run(size, kind, metric, strategy):
    pairs, distances = METRICS[metric](size)
    workload = getattr(Workload, kind)(size)
    wall, processor = time.perf_counter(), time.process_time()
    plan = optimised(workload, pairs, distances, strategy)
    return {
        "size": size,
        "workload": kind,
        "metric": metric,
        "pairs": len(pairs),
        "strategy": plan.name,
        "rows": len(plan.u),
        "error": plan.error,
        "gap": plan.gap,
        "rounds": len(plan.history) - 1,
        "seconds": time.perf_counter() - wall,
        "processor_s": time.process_time() - processor,
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def closed_form():
    """The largest relative difference from the closed form of E_S, and the ratios of figure 1."""
    worst, cases = 0.0, 0
    sizes = {
        2: (1, 2),
        3: (1, 2, 3),
        10: range(1, 11),
        100: (1, 2, 10, 33, 40, 49, 50, 51, 99, 100),
    }
    ratios = {}
    for size, counts in sizes.items():
        for count, epsilon in itertools.product(counts, (0.01, 1.0, 10.0)):
            found = best_scales(np.ones(size), np.eye(size), *sensitive(size, count, epsilon))
            inside, outside = sensitive_scales(size, count, epsilon)
            formula = count / inside**2 + (size - count) / outside**2
            worst, cases = max(worst, abs(found.objective / formula - 1)), cases + 1
            if size == 100 and epsilon == 1:
                ratios[count] = found.objective / (size / 0.5**2)
    return worst, cases, ratios


def main():
    context = multiprocessing.get_context("spawn")
    rows = []
    for job in JOBS:
        with context.Pool(1) as pool:
            rows.append(pool.apply(run, job))
    worst, cases, ratios = closed_form()
    print(f"E_S, solver against closed form, {cases} cases: at most {worst:.1e} apart")
    print("ratio to eps-LDP, 100 values:", ", ".join(f"{k}: {r:.3f}" for k, r in ratios.items()))
    head = ("values", "workload", "metric", "pairs", "strategy", "rows", "error", "gap", "rounds")
    shown = [
        (
            str(r["size"]),
            r["workload"],
            r["metric"],
            f"{r['pairs']:,}",
            r["strategy"],
            str(r["rows"]),
            f"{r['error']:,.1f}",
            f"{r['gap']:.0e}",
            str(r["rounds"]),
            f"{r['seconds']:.2f} s",
            f"{r['processor_s']:.2f} s",
            f"{r['peak_memory_gb']:.2f} GB",
        )
        for r in rows
    ]
    print(table([(*head, "time", "processor", "peak"), *shown]))
    RESULTS.mkdir(exist_ok=True)
    saved = {
        "machine": platform.processor() or platform.machine(),
        "sensitive_worst_difference": worst,
        "sensitive_ratios": ratios,
        "rows": rows,
    }
    (RESULTS / "optimise.json").write_text(json.dumps(saved, indent=2) + "\n")


if __name__ == "__main__":
    main()
