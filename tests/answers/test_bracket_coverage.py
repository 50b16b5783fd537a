"""How often intervals hold, method by method, on people that nobody planned for.

Every pair of people and a question has 500 runs. A pair fails if its coverage is below 0.93 (0.98
for Bernstein's) beyond doubt: one of a million pairs with just that coverage would. Run this file
itself for the table in the documentation.
"""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from crowd_tables import tallied
from scipy import stats

from metricldp import Integer, Survey, SurveySpec
from metricldp.answers import brackets

RUNS = 500
FALSE_ALARM = 1e-6
LEAST = {"auto": 0.93, "envelope": 0.93, "bernstein": 0.98}
HARD = ("two humps", "at the cut", "beside the cut", "few inside")
ALONE = [
    ("geometric", 100, 0.05, 20_000),
    ("geometric", 100, 0.1, 100_000),
    ("geometric", 100, 0.2, 20_000),
    ("geometric", 100, 0.5, 20_000),
    ("geometric", 40, 4.0, 1_000),
    ("threshold", 60, 0.1, 20_000),
    ("threshold", 60, 0.5, 1_000_000),
    ("additive", 50, 0.1, 1_000),
    ("additive", 50, 0.7, 5_000),
]
TOGETHER = [
    ("geometric", 24, 0.2, 100_000),
    ("additive", 20, 0.3, 5_000),
    ("block", 10, 0.3, 20_000),
]


def crowds(size, n, rng):
    """Counts of n people along one attribute, most of them spread as nobody would plan for."""
    x, low, high = np.arange(size), math.ceil(0.3 * size), int(0.55 * size)

    def drawn(weights):
        return rng.multinomial(n, weights / weights.sum())

    def placed(*places):
        found = np.zeros(size, dtype=np.int64)
        found[list(places)] = n // len(places)
        found[places[0]] += n - found.sum()
        return found

    return {
        "falling": drawn(np.exp(-x / (size / 12))),
        "two humps": drawn(
            np.exp(-(((x - 0.25 * size) / (size / 25)) ** 2))
            + 0.5 * np.exp(-(((x - 0.7 * size) / (size / 15)) ** 2))
        ),
        "heaped": drawn(np.where(x % 5 == 0, 20.0, 1.0) * (1 + np.sin(x / 9) ** 2)),
        "comb": drawn(np.where(x % 2 == 0, 1.0, 0.0)),
        "at the cut": placed(low),
        "beside the cut": placed(low - 1),
        "at the end": placed(high),
        "beyond the end": placed(high + 1),
        "both sides": placed(low - 1, low),
        "far away": placed(size - 1),
        "few inside": drawn(np.where((x >= low) & (x <= high), 5e-4, 1.0)),
    }


def surveyed(mechanism, size, epsilon, names):
    joint = [list(names)] if mechanism == "block" else None
    said = {} if joint else {"mechanism": mechanism}
    return Survey.design(
        SurveySpec({k: Integer(0, size - 1, epsilon=epsilon, **said) for k in names}, joint=joint)
    )


def pairs(mechanism, size, epsilon, n, dimensions):
    """A survey, and people with questions about them and the true counts."""
    rng = np.random.default_rng([size, n])
    names = "ab"[:dimensions]
    survey = surveyed(mechanism, size, epsilon, names)
    low, high = math.ceil(0.3 * size), int(0.55 * size)
    x = np.arange(size)
    inside = (x >= low) & (x <= high)
    for kind, counts in crowds(size, n, rng).items():
        if dimensions == 1:
            asked = [({"a": (low, high)}, counts[inside].sum())]
            asked.append(({"a": (None, low - 1)}, counts[:low].sum()))
            yield survey, kind, counts, asked
            continue
        first = np.repeat(x, counts)
        second = np.clip(first + rng.integers(-1, 2, n), 0, size - 1)
        both = np.zeros((size, size), dtype=np.int64)
        np.add.at(both, (first, second), 1)
        asked = [
            ({"a": (low, high), "b": (low, None)}, both[np.ix_(inside, x >= low)].sum()),
            ({"a": (low, high)}, counts[inside].sum()),
        ]
        yield survey, kind, both, asked


def held(survey, crowd, asked, methods, runs, rng):
    """For each question and method how many intervals hold, and how wide they are on average."""
    hits = {(place, m): 0 for place in range(len(asked)) for m in (*methods, "normal")}
    widths = dict.fromkeys(hits, 0.0)
    for _ in range(runs):
        tally = tallied(survey, crowd, rng)
        for place, (where, truth) in enumerate(asked):
            answer = tally.count(where)
            for method in (*methods, "normal"):
                low, high = answer.confidence_interval(0.95, method=method)
                hits[place, method] += low - 1e-6 <= truth <= high + 1e-6
                widths[place, method] += (high - low) / runs
    return hits, widths


def table(setting, dimensions, methods, runs=RUNS, kinds=None):
    rows = []
    for survey, kind, crowd, asked in pairs(*setting, dimensions):
        if kinds is not None and kind not in kinds:
            continue
        rng = np.random.default_rng([runs, len(rows)])
        hits, widths = held(survey, crowd, asked, methods, runs, rng)
        for place in range(len(asked)):
            for method in methods:
                width = widths[place, method] / widths[place, "normal"]
                share = hits[place, method] / runs
                row = {"people": kind, "question": place, "method": method}
                rows.append({**row, "held": share, "width": width})
    return rows


def doubtful(rows, runs=RUNS):
    """The rows whose coverage is too low beyond doubt."""
    return [
        row
        for row in rows
        if stats.binom.cdf(round(row["held"] * runs), runs, LEAST[row["method"]]) < FALSE_ALARM
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimensions", "setting"), [*((1, s) for s in ALONE), *((2, s) for s in TOGETHER)], ids=str
)
def test_intervals_hold(dimensions, setting):
    rows = table(setting, dimensions, ("auto", "bernstein"))
    assert not doubtful(rows)
    assert np.mean([row["held"] for row in rows if row["method"] == "auto"]) >= 0.945


@pytest.mark.slow
def test_a_function_below_the_one_asked_for_is_caught(monkeypatch):
    """The other broken twin: at one position u is below f, and some people are there."""
    right = brackets.above

    def lowered(parts, sign, n, z, drawn):
        soft = right(parts, sign, n, z, drawn)
        function = soft.function.copy()
        place = math.ceil(0.3 * len(function))
        function[place] = min(function[place], sign * 0.9)
        return replace(soft, function=function)

    monkeypatch.setattr(brackets, "above", lowered)
    rows = table(("geometric", 40, 0.2, 20_001), 1, ("envelope",), 60, ("at the cut",))
    assert {row["people"] for row in doubtful(rows, 60)} >= {"at the cut"}


def main():
    found = {}
    for settings, dimensions in ((ALONE, 1), (TOGETHER, 2)):
        for setting in settings:
            rows = table(setting, dimensions, ("auto", "bernstein"), int(sys.argv[2]))
            found[f"{dimensions} {setting}"] = rows
            for method in ("auto", "bernstein"):
                some = [row for row in rows if row["method"] == method]
                shares, widths = ([row[key] for row in some] for key in ("held", "width"))
                worst = min(some, key=lambda row: row["held"])
                print(
                    f"{dimensions} {setting} {method}: {len(some)} pairs, mean "
                    f"{np.mean(shares):.3f}, least {worst['held']:.3f} ({worst['people']}), width "
                    f"{np.mean(widths):.2f} ({np.median(widths):.2f})",
                    flush=True,
                )
            Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
