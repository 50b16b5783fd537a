"""Saved cases: inputs and results of version 0.2 as neutral JSON, which stay when the oracle goes.

A file holds 50 cases, one to a line: spec, design (a survey file of format 1), respondents,
queries, and the results of each. Names are those of the public interface of 1.0; report payloads
have no header. Payloads and memories that differ on purpose are those of this version. Then
`collected` has the payloads of version 0.2, which marginal tables and estimates are about.

With the installed oracle, `python tests/differential/saved.py` chooses and writes the cases again.
With `update` it compares them with the oracle and writes only what differs on purpose, which is in
known_differences.toml: specs, designs, names of fields, payloads and memories. It stops at any
other difference, and prints how many cases changed. Files that are up to date stay as they are.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import cases
from compare import (
    CRASHED,
    REJECTED,
    agreed,
    differences,
    has_same_words,
    known_difference,
    outcomes,
    query_differences,
)
from hypothesis import HealthCheck, Phase, given, seed, settings
from systems import Current, Plain, Version02

FOLDER = Path(__file__).parent / "cases"
COUNT, PER_FILE = 300, 50
DRAWN = 3000
"""Random cases from which the saved ones are chosen."""


def load() -> Iterator[Plain]:
    """Yield all saved cases."""
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            yield decoded(json.loads(line))


def collected(case: Plain) -> list[str]:
    """Return the payloads of version 0.2."""
    return case.get("collected", case["results"]["payloads"])


def write() -> None:
    """Choose cases that cover mechanisms and queries evenly, and save them with their results."""
    FOLDER.mkdir(exist_ok=True)
    save(chosen())


def save(cases: list[Plain]) -> None:
    lines = [json.dumps(encoded(case), separators=(",", ":")) for case in cases]
    for first in range(0, COUNT, PER_FILE):
        path = FOLDER / f"{first:03}.jsonl"
        path.write_text("\n".join(lines[first : first + PER_FILE]) + "\n", "utf-8")


def update() -> None:
    """Write what differs on purpose again, and print how many cases changed."""
    oracle, changes, cases = Version02("metricldp_oracle"), Counter[str](), list[Plain]()
    for old in load():
        case = with_results(agreed(old), oracle)
        results, before = case["results"], old["results"]
        if case["spec"] == old["spec"]:
            check_same(old, case)
            results["queries"] = before["queries"]  # last digits depend on the processor
        changed = {key for key in ("spec", "design") if case[key] != old[key]}
        changed |= {key for key in results if results[key] != before[key]}
        changes.update([*changed, *(["any"] if changed else [])])
        cases.append(case)
    save(cases)
    print(f"{len(cases)} cases, changed: {dict(changes)}")


def check_same(old: Plain, case: Plain) -> None:
    """Raise an error if anything differs that is not intended to."""
    before, results = old["results"], case["results"]
    for seam in ("distributions", "certificate", "marginals"):
        renamed = json.loads(json.dumps(before[seam]).replace("=answered", "=response"))
        if renamed != json.loads(json.dumps(encoded(results[seam]))):
            raise ValueError(f"{seam} of {old['spec']}")
    if collected(old) != collected(case):
        raise ValueError(f"payloads of {old['spec']}")
    pairs = zip(old["queries"], before["queries"], results["queries"], strict=True)
    for query, earlier, later in pairs:
        for line in query_differences(query, earlier, later, same_machine=False):
            raise ValueError(line)


def with_results(case: Plain, oracle: Version02) -> Plain:
    """Return a case with the design and the results of version 0.2, and what differs on purpose."""
    designed, current = oracle.design(case["spec"]), Current()
    design, expected = oracle.export(designed), outcomes(oracle, case, designed)
    actual = outcomes(current, case, current.load(design), expected["payloads"])
    if wrong := list(differences(case, expected, actual)):
        raise ValueError("\n".join(wrong))
    kept = ("spec", "respondents", "queries", "seed")
    found = {key: case[key] for key in kept} | {"design": design, "results": expected}
    if not has_same_words(expected, actual):
        found["collected"] = expected["payloads"]
        of_this_version = {key: actual[key] for key in ("payloads", "memories")}
        found["results"] = expected | of_this_version
    return found


def chosen() -> list[Plain]:
    """Return cases one by one, each with the mechanisms and queries that were rare until then."""
    pool = list(drawn())
    seen: Counter[str] = Counter()
    taken: list[Plain] = []
    while len(taken) < COUNT:
        news = [sum(1 / (1 + seen[s]) for s in subjects(case)) for case in pool]
        at = news.index(max(news))
        case = pool.pop(at)
        seen.update(subjects(case))
        taken.append(case)
    return taken


def drawn() -> list[Plain]:
    """Return random cases that version 0.2 accepts, with its results."""
    oracle, accepted = Version02("metricldp_oracle"), list[Plain]()

    @seed(31)
    @settings(
        max_examples=DRAWN,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def collect(case: Plain) -> None:
        case = agreed(case)
        if any(known_difference(case, query) for query in case["queries"]):
            return
        try:
            case = with_results(case, oracle)
        except oracle.invalid:
            return
        if CRASHED not in (case["results"]["marginals"], *case["results"]["queries"]):
            accepted.append(case)

    collect()
    return accepted


def subjects(case: Plain) -> set[str]:
    """Return what a case is about: its mechanisms, kinds of attributes, metrics and queries."""
    pairs = zip(case["queries"], case["results"]["queries"], strict=True)
    found = {f"query {query['kind']}" for query, result in pairs if result != REJECTED}
    for group in case["design"].get("groups", {}).values():
        found.add(f"joint {name_of(group['mechanism'])}")
    for attribute in case["design"]["attributes"].values():
        found.add(f"kind {attribute['kind']} {attribute.get('rounding', '')}")
        found.add(f"mechanism {name_of(attribute.get('mechanism'))}")
        found |= {
            key for key in ("optional", "cyclic", "within", "max_epsilon") if key in attribute
        }
        found |= {f"metric {attribute['metric']['kind']}"} if "metric" in attribute else set()
    return found


def name_of(mechanism: Any) -> Any:
    return mechanism["name"] if isinstance(mechanism, dict) else mechanism


def encoded(value: Any) -> Any:
    """Return plain data without numpy's types; numbers that JSON lacks become texts."""
    if isinstance(value, dict):
        return {key: encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


if __name__ == "__main__":
    (update if sys.argv[1:] == ["update"] else write)()
