"""Saved cases: inputs and results of version 0.2 as neutral JSON, which stay when the oracle goes.

`python tests/differential/saved.py` writes them again with the installed oracle. A file holds 50
cases, one to a line: spec, design, respondents, queries, and the results of each. Names are those
of the public interface of 1.0; report payloads have no header.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import cases
from compare import CRASHED, REJECTED, known_difference, outcomes
from hypothesis import HealthCheck, Phase, given, seed, settings
from systems import Plain, Version02

FOLDER = Path(__file__).parent / "cases"
COUNT, PER_FILE = 300, 50
DRAWN = 3000
"""Random cases from which the saved ones are chosen."""


def load() -> Iterator[Plain]:
    """Yield all saved cases."""
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            yield decoded(json.loads(line))


def write() -> None:
    """Choose cases that cover mechanisms and queries evenly, and save them with their results."""
    FOLDER.mkdir(exist_ok=True)
    lines = [json.dumps(encoded(case), separators=(",", ":")) for case in chosen()]
    for first in range(0, COUNT, PER_FILE):
        path = FOLDER / f"{first:03}.jsonl"
        path.write_text("\n".join(lines[first : first + PER_FILE]) + "\n", "utf-8")


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
        try:
            design = oracle.export(oracle.design(case["spec"]))
        except oracle.invalid:
            return
        results = outcomes(oracle, case, design)
        crashed = CRASHED in (results["marginals"], *results["queries"])
        known = any(known_difference(case, query) for query in case["queries"])
        if not crashed and not known:
            accepted.append({**case, "design": design, "results": results})

    collect()
    return accepted


def subjects(case: Plain) -> set[str]:
    """Return what a case is about: its mechanisms, kinds of attributes, metrics and queries."""
    pairs = zip(case["queries"], case["results"]["queries"], strict=True)
    found = {f"query {query['kind']}" for query, result in pairs if result != REJECTED}
    for group in case["design"].get("groups", []):
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
    write()
