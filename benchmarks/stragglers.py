"""Stragglers and duplicates, simulated: what they cost, and what they may not change.

    python benchmarks/stragglers.py

Partitions are counted by workers of which some are slow, with and without copies of slow tasks.
Totals come back in any order, some of them twice. Reports are delivered at least once. All is drawn
from one seed, so the tables are the same every time.
"""

import heapq

import numpy as np

from metricldp import Integer, Survey
from metricldp.basics.text import table

SEED = 17
SURVEY = Survey({"x": Integer(0, 255, epsilon=1, mechanism="threshold")})
SLOW, FACTOR = 0.03, 10.0
"""How many tasks are slow, and how much."""


def makespan(
    seconds: np.ndarray, again: np.ndarray, workers: int, copies: bool
) -> tuple[float, int]:
    """When all tasks are done, and how many results came back twice.

    With copies, an idle worker runs a task that has been going on for two medians a second time;
    whichever ends first counts, and the other is not stopped.
    """
    free = [0.0] * workers
    heapq.heapify(free)
    ends = np.zeros(len(seconds))
    for task, needed in enumerate(seconds):
        start = heapq.heappop(free)
        ends[task] = start + needed
        heapq.heappush(free, ends[task])
    twice = 0
    if copies:
        median = float(np.median(seconds))
        for task in np.argsort(-ends):
            idle = heapq.heappop(free)
            noticed = max(idle, ends[task] - seconds[task] + 2 * median)
            if noticed >= ends[task]:
                heapq.heappush(free, idle)
                continue
            twice += 1
            done = noticed + again[task]
            ends[task] = min(ends[task], done)
            heapq.heappush(free, done)
    return float(ends.max()), twice


def stragglers(rng: np.random.Generator) -> str:
    rows = [["partitions a worker", "perfect", "as they come", "with copies", "sent twice"]]
    workers = 64
    for each in (1, 4, 16, 64):
        count = workers * each

        def drawn(count: int = count) -> np.ndarray:
            usual = rng.lognormal(0.0, 0.2, count)
            return usual * np.where(rng.random(count) < SLOW, FACTOR, 1.0)

        runs = [(drawn(), drawn()) for _ in range(50)]
        perfect = np.mean([seconds.sum() / workers for seconds, _ in runs])
        plain = np.mean([makespan(*run, workers, copies=False)[0] for run in runs])
        both = [makespan(*run, workers, copies=True) for run in runs]
        copied, twice = np.mean(both, axis=0)
        cells = [f"{v / each:.2f}" for v in (perfect, plain, copied)]
        rows.append([str(each), *cells, f"{100 * twice / count:.1f} %"])
    return table(rows)


def merged(rng: np.random.Generator) -> str:
    """Totals that come back twice: added by partition they are right, added as they come wrong."""
    parts = rng.poisson(1000, (200, 256)).astype(np.int64)
    sent = [*range(200), *rng.choice(200, 12, replace=False)]
    rng.shuffle(sent)
    kept: dict[int, np.ndarray] = {}
    for part in sent:
        kept.setdefault(part, parts[part])
    by_part, blind = sum(kept.values()), sum(parts[part] for part in sent)
    truth = parts.sum(axis=0)
    assert np.array_equal(by_part, truth)
    assert not np.array_equal(blind, truth)
    return (
        f"200 partitions, 12 of them sent twice: by partition {by_part.sum() - truth.sum():+,} "
        f"reports, as they come {blind.sum() - truth.sum():+,}"
    )


def duplicates(rng: np.random.Generator) -> str:
    """A count of a tenth of the people, in standard errors, with and without ids."""
    rows = [["reports", "repeated", "off by, as they come", "in standard errors", "by id"]]
    for n, share in ((10**5, 0.001), (10**6, 0.001), (10**6, 0.01), (10**6, 0.1)):
        sent = np.concatenate([np.arange(n), rng.choice(n, int(share * n))])
        rng.shuffle(sent)
        member = rng.random(n) < 0.1
        assert member[np.unique(sent)].sum() == member.sum()
        off = int(member[sent].sum() - member.sum())
        error = SURVEY.predict({"x": (100, 125)}, n=n, prior="uniform")
        rows.append([f"{n:,}", f"{share:.1%}", f"{off:+,}", f"{off / error:+.1f}", "exact"])
    return table(rows)


def main() -> None:
    rng = np.random.default_rng(SEED)
    print(f"{SLOW:.0%} of tasks take {FACTOR:.0f} times as long; time in usual tasks a partition\n")
    print(stragglers(rng))
    print(f"\n{merged(rng)}\n")
    print(duplicates(rng))


if __name__ == "__main__":
    main()
