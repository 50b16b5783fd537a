"""Results of one case from one system, and the differences between two systems.

Integers, exact fractions, bytes and rejections must be equal. Floats may differ by 1e-9 of
|value| + SE. Intended differences are listed in `known_differences.toml`, with what is expected.
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
SAVED_TOLERANCE, SAVED_FIT_TOLERANCE = 1e-6, 1e-4
"""Of intervals, p-values and fits that were saved on another processor.

Cancellation and iterations amplify last digits: version 0.2 itself differs by as much.
"""
SEARCHED = 0.05
"""Of the width of an envelope interval on another processor: its search may end elsewhere."""
INTERNAL = ("least", "most", "envelope", "bands")
"""Columns of the current version that only tell how to compare its intervals."""


def outcomes(system: Version02, case: Plain, design: Plain) -> Plain:
    """Return everything that is compared for a survey whose design is given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _outcomes(system, case, design)


def _outcomes(system: Version02, case: Plain, design: Plain) -> Plain:
    survey = system.load(design)
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


def differences(
    case: Plain, expected: Plain, actual: Plain, *, same_machine: bool = True
) -> Iterator[str]:
    """Yield one line for each place where two results differ."""
    for seam in ("distributions", "certificate", "payloads", "memories", "marginals"):
        if expected[seam] not in (actual[seam], CRASHED):
            yield f"{seam}: {first_difference(expected[seam], actual[seam])}"
    triples = zip(case["queries"], expected["queries"], actual["queries"], strict=True)
    for query, old, new in triples:
        known = known_difference(case, query)
        if known is None and old != CRASHED:
            yield from query_differences(query, old, new, same_machine)
        elif known is not None and KNOWN[known]["expect"] == "rejected":
            if new != REJECTED:
                yield f"{query}: {shortened(new)}, expected a rejection"
        elif old != CRASHED:
            yield from circular_differences(query, old, new)


def query_differences(query: Plain, old: Plain, new: Plain, same_machine: bool) -> Iterator[str]:
    rest = {name: column for name, column in new.items() if name not in INTERNAL}
    if set(old) != set(rest):
        yield f"{query}: {shortened(old)} became {shortened(rest)}"
        return
    if old == REJECTED:
        return
    for name, column in old.items():
        if len(column) != len(rest[name]):
            yield f"{query}: {name} has {len(rest[name])} rows, expected {len(column)}"
            return
    values, errors = old.get("value"), old.get("stderr")
    for name, column in old.items():
        tolerance = TOLERANCE if same_machine else saved_tolerance(query, name)
        for row, (before, after) in enumerate(zip(column, rest[name], strict=True)):
            own = values[row] if values and len(values) == len(column) else before
            error = errors[row] if errors else None
            scale = size(own) + size(before) + (FLOOR / TOLERANCE if error is None else size(error))
            expected = before
            if name in ("low", "high"):
                expected = expected_end(old, new, name, row, tolerance * scale, same_machine)
            if name in ("value", "stderr") and error == math.inf and math.isnan(after):
                continue  # what cannot be estimated is NaN in this version
            if name == "value" and unknown_distribution(query, new, after):
                continue
            if not close(expected, after, tolerance * scale):
                yield f"{query}: {name}[{row}] {expected!r} became {after!r}"


def unknown_distribution(query: Plain, new: Plain, after: Any) -> bool:
    """Whether a quantile or a distribution function is NaN, of a group that may be empty.

    Version 0.2 gave a value for a group whose fraction up to the first value was not clear.
    """
    is_nan = isinstance(after, float) and math.isnan(after)
    kind = query["kind"]
    if not is_nan or kind not in ("quantile", "cdf"):
        return False
    return kind == "quantile" or all(map(math.isnan, new["value"]))


def circular_differences(query: Plain, old: Plain, new: Plain) -> Iterator[str]:
    """Compare circular means with those of the histogram of version 0.2, modulo the period.

    `length` is the length of the mean resultant: the direction of a short one is less exact.
    """
    if REJECTED in (old, new):
        if old != new:
            yield f"{query}: {shortened(old)} became {shortened(new)}"
        return
    columns = {name: column for name, column in new.items() if name not in INTERNAL}
    rows = len(old["value"])
    shape = {name: len(column) for name, column in columns.items()}
    if shape != dict.fromkeys(("value", "stderr", "low", "high"), rows):
        yield f"{query}: columns {shape}, expected value, stderr, low and high of {rows} rows"
        return
    for row, (value, error, low, high) in enumerate(zip(*columns.values(), strict=True)):
        before, period, length = (old[name][row] for name in ("value", "period", "length"))
        if not 0 <= high - low <= period * (1 + TOLERANCE):
            yield f"{query}: interval[{row}] {low!r} to {high!r} with a period of {period!r}"
        if math.isnan(value) and not math.isfinite(error) and close(period, high - low, TOLERANCE):
            continue  # what cannot be estimated is NaN in this version
        apart = abs((value - before + period / 2) % period - period / 2)
        if not apart * length <= TOLERANCE * period:
            yield f"{query}: value[{row}] {before!r} became {value!r}"
        if not (error >= 0 and low <= value <= high):
            yield f"{query}: {value!r} with standard error {error!r} and {low!r} to {high!r}"


def saved_tolerance(query: Plain, column: str) -> float:
    """Return the tolerance of a column that was saved on another processor."""
    if query["kind"] == "fit_distribution":
        return SAVED_FIT_TOLERANCE
    return SAVED_TOLERANCE if column in ("low", "high", "pvalue") else TOLERANCE


def expected_end(
    old: Plain, new: Plain, name: str, row: int, tolerance: float, same_machine: bool
) -> Any:
    """Apply the intended differences of intervals to an end of version 0.2.

    This version intersects every interval with what is possible. Its default method is "normal";
    version 0.2 took the envelope interval where it expected that to be shorter. Then its ends are
    compared with those of the envelope interval of this version, found by a search whose last steps
    depend on the processor.
    """
    end = old[name][row]
    if "bands" in new:
        lowest, highest = (band[row] for band in new["bands"][name])
        slack = tolerance if same_machine else SEARCHED * (highest - lowest)
        return new[name][row] if lowest - slack <= end <= highest + slack else end
    if "least" not in new:
        return end
    ends = [min(max(old[n][row], new["least"][row]), new["most"][row]) for n in ("low", "high")]
    end = ends[name == "high"]
    envelope = new["envelope"][row]
    if envelope is None:
        return end
    slack = tolerance if same_machine else tolerance + SEARCHED * (envelope[1] - envelope[0])
    if all(close(a, b, slack) for a, b in zip(ends, envelope, strict=True)):
        return new[name][row]
    return end


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
