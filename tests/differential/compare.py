"""Results of one case from one system, and the differences between two systems.

Integers, exact fractions, bytes and rejections must be equal. Floats may differ by 1e-9 of
|value| + SE. Intended differences are listed in `known_differences.toml` and are not compared.
"""

from __future__ import annotations

import math
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from systems import Current, Plain, Version02

TOLERANCE = 1e-9
FLOOR = 1e-12
"""Smallest scale of a column without standard errors, such as probabilities and p-values."""
KNOWN = tomllib.loads((Path(__file__).parent / "known_differences.toml").read_text("utf-8"))
REJECTED = {"rejected": True}
CRASHED = {"crashed": True}


def outcomes(system: Version02, case: Plain, design: Plain) -> Plain:
    """Return everything that is compared for a survey whose design is given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _outcomes(system, case, design)


def _outcomes(system: Version02, case: Plain, design: Plain) -> Plain:
    survey = system.design(design)
    results: Plain = {
        "distributions": system.distributions(survey),
        "certificate": system.certificate(survey),
    }
    payloads, memories = [], []
    for row, response in enumerate(case["respondents"]):
        memory: Plain | None = {} if row % 2 and memoises(design) else None
        payloads.append(system.payload(survey, response, f"{case['seed']} {row}", memory))
        memories += sorted(memory.values()) if memory else []
    results |= {"payloads": [payload.hex() for payload in payloads], "memories": memories}
    results["marginals"] = rejected_or(system, system.marginals, survey, payloads)
    tally = system.tally(survey, payloads)
    results["queries"] = [
        rejected_or(system, system.expected_error, survey, query)
        if query["kind"] == "expected_error"
        else rejected_or(system, system.answer, tally, query)
        for query in case["queries"]
    ]
    return results


def memoises(design: Plain) -> bool:
    mechanisms = [a.get("mechanism") for a in design["attributes"].values()]
    return any(isinstance(m, dict) and m["name"] == "memoised" for m in mechanisms)


def rejected_or(system: Version02, call: Any, *arguments: Any) -> Any:
    """Return a result as plain data, or the fact that the package rejects the call or crashes.

    Where version 0.2 crashes there is nothing to compare with.
    """
    try:
        return call(*arguments)
    except system.invalid:
        return REJECTED
    except Exception:
        if isinstance(system, Current):
            raise
        return CRASHED


def differences(case: Plain, expected: Plain, actual: Plain) -> Iterator[str]:
    """Yield one line for each place where two results differ."""
    for seam in ("distributions", "certificate", "payloads", "memories", "marginals"):
        if expected[seam] not in (actual[seam], CRASHED):
            yield f"{seam}: {first_difference(expected[seam], actual[seam])}"
    triples = zip(case["queries"], expected["queries"], actual["queries"], strict=True)
    for query, old, new in triples:
        known = known_difference(case, query)
        if known is None and old != CRASHED:
            yield from query_differences(query, old, new)
        elif known is not None and KNOWN[known].get("expect") == "rejected" and new != REJECTED:
            yield f"{query}: {shortened(new)}, expected a rejection"


def query_differences(query: Plain, old: Plain, new: Plain) -> Iterator[str]:
    if set(old) != set(new):
        yield f"{query}: {shortened(old)} became {shortened(new)}"
        return
    if old == REJECTED:
        return
    values, errors = old.get("value"), old.get("stderr")
    for name, column in old.items():
        if len(column) != len(new[name]):
            yield f"{query}: {name} has {len(new[name])} rows, expected {len(column)}"
            continue
        for row, (before, after) in enumerate(zip(column, new[name], strict=True)):
            own = values[row] if values and len(values) == len(column) else before
            scale = size(own) + size(before) + (size(errors[row]) if errors else FLOOR / TOLERANCE)
            if not close(before, after, TOLERANCE * scale):
                yield f"{query}: {name}[{row}] {before!r} became {after!r}"


def size(value: Any) -> float:
    finite = isinstance(value, int | float) and math.isfinite(value)
    return abs(float(value)) if finite else 0.0


def close(before: Any, after: Any, tolerance: float) -> bool:
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return bool(before == after)
    if before == after or (math.isnan(before) and math.isnan(after)):
        return True
    return abs(before - after) <= tolerance


def known_difference(case: Plain, query: Plain) -> str | None:
    """Return the name of the intended difference that covers a query, if there is one."""
    names = [query.get("attribute"), query.get("other"), *query.get("predictors", [])]
    attributes = [case["spec"]["attributes"][name] for name in names if name is not None]
    for title, entry in KNOWN.items():
        matches = [entry["attribute"].items() <= attribute.items() for attribute in attributes]
        if query["kind"] in entry["queries"] and any(matches):
            return str(title)
    return None


def first_difference(old: Any, new: Any, place: str = "") -> str:
    """Return the place of the first difference of two pieces of plain data."""
    if isinstance(old, dict) and isinstance(new, dict) and set(old) == set(new):
        key = next(key for key in old if old[key] != new[key])
        return first_difference(old[key], new[key], f"{place}[{key!r}]")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        at = next(at for at, value in enumerate(old) if value != new[at])
        return first_difference(old[at], new[at], f"{place}[{at}]")
    return f"{place} {shortened(old)} became {shortened(new)}"


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
