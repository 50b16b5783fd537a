"""Channels made for a metric: errors against all others, limits, times, bytes and speed.

Prints tables and saves benchmarks/results/design.json. `--quick` leaves out what takes minutes.
"""

import contextlib
import json
import os
import platform
import sys
import time
from fractions import Fraction
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from metricldp import Integer, Survey
from metricldp.basics.errors import MetricLdpError
from metricldp.basics.text import table
from metricldp.channels.mixture import Mixture
from metricldp.design.auto import choose, mean_variance
from metricldp.design.designed import Designed, Tents
from metricldp.design.limits import limit
from metricldp.design.registry import every_mechanism
from metricldp.design.shaped import ShapedNoise
from metricldp.design.workloads import Workload
from metricldp.metrics import Line, Uniform
from metricldp.metrics.window import Bent, Window

RESULTS = Path(__file__).parent / "results"
OURS = ("shaped", "tents", "designed")
ONE, HALF, TWO, THREE = Fraction(1), Fraction(1, 2), Fraction(2), Fraction(3)
FIFTH, ONE_AND_A_HALF = Fraction(1, 5), Fraction(3, 2)


def settings():
    """Sixty: how many values, a metric in words and as it is, and a workload."""
    for size in (16, 64):
        for epsilon in (Fraction(1, 10), HALF, ONE_AND_A_HALF):
            for workload in ("ranges", "values"):
                yield size, f"{float(epsilon):g} per step", Line(epsilon), workload
    for size in (16, 40, 100):
        for epsilon, width in ((ONE, 5), (HALF, 8), (TWO, 3)):
            for workload in ("ranges", "mean"):
                words = f"{float(epsilon):g} within {width}"
                yield size, words, Window(epsilon, width), workload
    for size in (16, 40, 100):
        for epsilon, width, cap in ((ONE, 5, THREE), (HALF, 8, ONE_AND_A_HALF)):
            for workload in ("prefixes", "values"):
                words = f"{float(epsilon):g} within {width}, cap {float(cap):g}"
                yield size, words, Window(epsilon, width, cap), workload
    for size in (8, 16, 64):
        for epsilon in (ONE, THREE):
            for workload in ("ranges", "values"):
                yield size, f"{float(epsilon):g} for all pairs", Uniform(epsilon), workload
    yield 24, "0.5 per step, a circle", Bent(HALF, around=24), "ranges"
    yield 24, "0.5 per step, a circle", Bent(HALF, around=24), "values"
    yield 12, "1 per step, a circle", Bent(ONE, around=12), "ranges"
    yield 12, "1 per step, a circle", Bent(ONE, around=12), "4 bars"
    yield 40, "1 within 5", Window(ONE, 5), "5 bars"
    yield 16, "1 within 4", Window(ONE, 4), "4 bars"


def against_all(size, metric, workload):
    """What "auto" takes and its variance per person; the best of all others, and its own."""
    own = choose(size, metric, ordered=True, workload=workload)
    mine = mean_variance(own.channel(size, metric), workload)
    others = {}
    for other in every_mechanism():
        if other.joint or other.name in (*OURS, own.name, "matrix"):
            continue
        with contextlib.suppress(MetricLdpError, NotImplementedError):
            channel = other.settled(size, metric, ordered=True).channel(size, metric)
            if channel.linear:
                others[other.name] = mean_variance(channel, workload)
    best = min(others, key=others.get)
    return own.name, mine, best, others[best]


KNOWN = [
    (16, "1 within 4", Window(ONE, 4), 3.645),
    (32, "1 within 5", Window(ONE, 5), 3.513),
    (100, "1 within 5", Window(ONE, 5), 1.409),
    (100, "1 within 5, cap 3", Window(ONE, 5, THREE), 2.70),
    (24, "0.7 within 3", Window(Fraction(7, 10), 3), 5.844),
    (16, "0.35 per step", Line(Fraction(35, 100)), 9.92),
    (16, "1 for all pairs", Uniform(ONE), 6.438),
    (20, "2 for all pairs", Uniform(TWO), 1.351),
    (40, "0.5 within 8, cap 1.5", Window(HALF, 8, ONE_AND_A_HALF), 30.57),
]
SHAPED = [
    (100, "1 within 5", Window(ONE, 5), 1.48),
    (100, "1 within 5, cap 3", Window(ONE, 5, THREE), 2.83),
    (1000, "1 within 20", Window(ONE, 20), 1.60),
]
TENTS = [
    (100, "0.2 per step, cap 6", Bent(FIFTH, cap=Fraction(6)), 24.84),
    (100, "0.2 per step, cap 4", Bent(FIFTH, cap=Fraction(4)), 29.98),
    (24, "0.5 per hour, a circle", Bent(HALF, around=24), 3.29),
]


def known():
    """Designed channels, shaped noise and tents as shipped, in whole numbers, for all ranges."""
    for cases, mechanism in ((KNOWN, Designed()), (SHAPED, ShapedNoise()), (TENTS, Tents())):
        for size, words, metric, target in cases:
            began = time.process_time()
            settled = mechanism.settled(size, metric, ordered=True)
            took = time.process_time() - began
            channel = settled.channel(size, metric)
            found = {
                "mechanism": mechanism.name,
                "size": size,
                "promise": words,
                "variance": channel.mean_range_variance(),
                "target": target,
                "seconds": took,
                "bits": channel.bits,
                "reports": channel.outputs,
            }
            if isinstance(channel, Mixture):
                found["search gap"] = getattr(settled, "search", None) and settled.search.excess - 1
            if size <= 100:
                workload = Workload.all_ranges(size)
                least = limit(size, metric, workload.gram()).total
                found["limit"] = (least - workload.gram().trace() / size) / workload.rows
            yield found


def sizes_and_speed(people=1_000_000):
    """Design time, bytes of the survey, bits of a report; encode and counts against geometric."""
    draw = np.random.default_rng(1)
    for size in (32, 100, 256, 1024):
        row = {"size": size}
        values = {"a": draw.integers(0, size, people), "b": draw.integers(0, size, people)}
        for name in ("geometric", "shaped"):
            began = time.process_time()
            kinds = {
                key: Integer(0, size - 1, epsilon=1, within=5, mechanism=name) for key in values
            }
            survey = Survey(kinds)
            row[f"{name} design s"] = time.process_time() - began
            row[f"{name} bytes"] = len(survey.to_toml()) / len(values)
            row[f"{name} bits"] = survey.channels["a"].bits
            survey.encode({key: part[:1000] for key, part in values.items()})
            survey.encode(values)
            began = time.process_time()
            reports = survey.encode(values)
            row[f"{name} encode M/s"] = len(values) * people / (time.process_time() - began) / 1e6
            channel, column = survey.channels["a"], values["a"].astype(np.int32)
            row[f"{name} channel M/s"] = channel_speed(channel, column)
            tally = survey.tally(reports)
            for words, where in (("count", {"a": (3, size // 2)}), ("joint", joint(size))):
                tally.count(where)
                began = time.process_time()
                for shift in range(20):
                    tally.count(
                        {key: (low + shift % 3, high) for key, (low, high) in where.items()}
                    )
                row[f"{name} {words} ms"] = (time.process_time() - began) / 20 * 1e3
        yield row


def joint(size):
    """Ranges of both."""
    return {"a": (3, size // 2), "b": (4, size // 3 + 4)}


def channel_speed(channel, column):
    """Reports per second and core from positions, in the batches that encode uses."""
    from metricldp.coins.stream import Coins

    coins = Coins()
    channel.encode(column[:70_000], coins)
    best = 0.0
    for _ in range(5):
        began = time.process_time()
        for start in range(0, len(column), 65_536):
            channel.encode(column[start : start + 65_536], coins)
        best = max(best, len(column) / (time.process_time() - began) / 1e6)
    return best


def shown(rows):
    """A table of dictionaries that share their keys."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [
        [f"{row[k]:,.4g}" if isinstance(row.get(k), float) else str(row.get(k, "")) for k in heads]
        for row in rows
    ]
    print(table([heads, *cells]), flush=True)


def main():
    quick = "--quick" in sys.argv
    compared = []
    for size, words, metric, workload in list(settings())[:: 10 if quick else 1]:
        name, mine, best, other = against_all(size, metric, workload)
        compared.append(
            {
                "values": size,
                "promise": words,
                "questions": workload,
                "auto": name,
                "variance": mine,
                "best other": best,
                "its variance": other,
                "ratio": mine / other,
            }
        )
    shown(compared)
    found = {"machine": platform.processor() or platform.machine(), "compared": compared}
    if not quick:
        found["known"] = list(known())
        shown(found["known"])
    found["speed"] = list(sizes_and_speed(100_000 if quick else 1_000_000))
    shown(found["speed"])
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "design.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
