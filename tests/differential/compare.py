"""Results of one case from one system, and the differences between two systems.

Integers, exact fractions, bytes and rejections must be equal. Floats may differ by 1e-9 of
|value| + SE. Certificates are compared by their tightest pairs. Marginal tables and estimates are
those of the payloads of version 0.2. Intended differences are listed in `known_differences.toml`,
with what is expected.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from systems import KNOWN as ALL_KNOWN
from systems import Current, Plain, Version02

TOLERANCE = 1e-9
FLOOR = 1e-12
"""Smallest scale of a column without standard errors, such as probabilities and p-values."""
KNOWN = ALL_KNOWN["queries"]
REJECTED = {"rejected": True}
CRASHED = {"crashed": True}
SAVED_TOLERANCE, SAVED_FIT_TOLERANCE = 1e-6, 1e-4
"""Of intervals, p-values and fits that were saved on another processor.

Cancellation and iterations amplify last digits: version 0.2 itself differs by as much.
"""
MOST_ERRORS = 6.0
"""By so many standard errors of both two unbiased estimates from the same reports may differ."""
SEARCHED = 0.05
"""Of the width of an envelope interval on another processor: its search may end elsewhere."""
INTERNAL = ("least", "most", "envelope", "bands")
"""Columns of the current version that only tell how to compare its intervals."""


def agreed(case: Plain) -> Plain:
    """Return the case with `per` in place of a `within` of one step of values rounded at random."""
    attributes = {n: with_per_step(a) for n, a in case["spec"]["attributes"].items()}
    return {**case, "spec": {**case["spec"], "attributes": attributes}}


def with_per_step(attribute: Plain) -> Plain:
    known = ALL_KNOWN["specs"]["within-one-step"]["attribute"]
    if not known.items() <= attribute.items() or "within" not in attribute:
        return attribute
    steps, extent = attribute["points"] - 1, attribute["high"] - attribute["low"]
    if steps == 1 or attribute["within"] * steps != extent:
        return attribute
    return {("per" if key == "within" else key): value for key, value in attribute.items()}


def outcomes(
    system: Version02, case: Plain, survey: Any, collected: Sequence[str] | None = None
) -> Plain:
    """Return everything that is compared for a survey.

    Marginal tables and queries are about the payloads that were `collected`, in hexadecimal digits,
    or about those that the system makes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _outcomes(system, case, survey, collected)


def _outcomes(
    system: Version02, case: Plain, survey: Any, collected: Sequence[str] | None
) -> Plain:
    results: Plain = {
        "distributions": system.distributions(survey),
        "certificate": system.certificate(survey),
    }
    payloads, memories = [], []
    for row, response in enumerate(case["respondents"]):
        memory: Plain | None = {} if row % 2 and memoises(case["spec"]) else None
        payloads.append(system.payload(survey, response, f"{case['seed']} {row}", memory))
        memories += sorted(memory.values()) if memory else []
    results |= {"payloads": [payload.hex() for payload in payloads], "memories": memories}
    if isinstance(system, Current):
        results["same_bits"] = system.same_bits(survey)
    if collected is not None:
        payloads = [bytes.fromhex(payload) for payload in collected]
    results["marginals"] = rejected_or(system, system.marginals, survey, payloads)
    tally = system.tally(survey, payloads)
    results["queries"] = [
        rejected_or(system, system.expected_error, survey, query)
        if query["kind"] == "expected_error"
        else rejected_or(system, system.answer, tally, query)
        for query in case["queries"]
    ]
    return results


def memoises(spec: Plain) -> bool:
    return any(a.get("mechanism") == "memoised" for a in spec["attributes"].values())


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
    """Yield one line for each place where two results differ.

    Saved payloads are those of this version, others those of version 0.2.
    """
    seams = ["distributions", "marginals"]
    if same_machine:
        yield from payload_differences(expected["payloads"], actual)
    else:
        seams.append("payloads")
    seams += ["memories"] if not same_machine or has_same_words(expected, actual) else []
    for seam in seams:
        if expected[seam] not in (actual[seam], CRASHED):
            yield f"{seam}: {first_difference(expected[seam], actual[seam])}"
    yield from certificate_differences(expected["certificate"], actual["certificate"])
    triples = zip(case["queries"], expected["queries"], actual["queries"], strict=True)
    for query, old, new in triples:
        known = known_difference(case, query)
        other_jump = known == "joint-sums"
        if (known is None or other_jump) and old != CRASHED:
            yield from query_differences(query, old, new, same_machine, other_jump=other_jump)
        elif known is not None and KNOWN[known]["expect"] == "rejected":
            if new != REJECTED:
                yield f"{query}: {shortened(new)}, expected a rejection"
        elif known == "circular-mean" and old != CRASHED:
            yield from circular_differences(query, old, new)
        elif old != CRASHED:
            yield from centred_differences(query, old, new)


def has_same_words(expected: Plain, actual: Plain) -> bool:
    """Whether no field reads other random words than in version 0.2."""
    return 8 * len(expected["payloads"][0]) // 2 == actual["same_bits"]


def payload_differences(expected: list[str], actual: Plain) -> Iterator[str]:
    """Compare the length of payloads, and the fields that read the same random words."""
    mask = (1 << actual["same_bits"]) - 1
    for row, pair in enumerate(zip(expected, actual["payloads"], strict=True)):
        old, new = (int.from_bytes(bytes.fromhex(text), "little") & mask for text in pair)
        if len(pair[0]) != len(pair[1]) or old != new:
            yield f"payloads: [{row}] {pair[0]} became {pair[1]}, {actual['same_bits']} bits"


def certificate_differences(expected: list[Plain], actual: list[Plain]) -> Iterator[str]:
    """Compare the tightest pair of each proof: the privacy loss, and what is allowed.

    Of several pairs with the same room any may be listed. Losses that are bounds are not below the
    exact ones, nor above what is allowed.
    """
    by_group = {proof["group"]: proof for proof in actual}
    if by_group.keys() != {proof["group"] for proof in expected}:
        yield f"certificate: proofs of {list(by_group)}, expected {shortened(expected)}"
        return
    for old in expected:
        new = by_group[old["group"]]
        for key in ("mechanism", "holds"):
            if old[key] != new[key]:
                yield f"certificate: {key} {old[key]!r} became {new[key]!r}"
        pairs = [(float(Fraction(pair[2])), loss_of(pair[3])) for pair in old["pairs"]]
        room, least = new["allowed"] - new["loss"], min(a - loss for a, loss in pairs)
        if new["bound"]:
            right = room <= least + TOLERANCE and (room >= -TOLERANCE or not new["holds"])
        else:
            right = abs(room - least) <= TOLERANCE and any(
                abs(a - new["allowed"]) + abs(loss - new["loss"]) <= TOLERANCE for a, loss in pairs
            )
        if not right:
            yield f"certificate: {old['group']} {shortened(pairs)} became {shortened(new)}"


def loss_of(digest: str) -> float:
    """The logarithm of a ratio as `_digest` writes it."""
    value, _, shortened = digest.partition(" sha256:")
    if shortened:
        return math.log(float(value))
    ratio = Fraction(value)
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def query_differences(
    query: Plain, old: Plain, new: Plain, same_machine: bool, *, other_jump: bool = False
) -> Iterator[str]:
    """Compare all columns; with `other_jump` the lengths of intervals are compared roughly."""
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
                slack = tolerance * scale
                expected = expected_end(old, new, name, row, slack, same_machine, other_jump)
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


def centred_differences(query: Plain, old: Plain, new: Plain) -> Iterator[str]:
    """Compare two unbiased estimates, of values less different constants."""
    columns = {name: column for name, column in new.items() if name not in INTERNAL}
    if REJECTED in (old, new) or {n: len(c) for n, c in old.items()} != {
        n: len(c) for n, c in columns.items()
    }:
        if old != new:
            yield f"{query}: {shortened(old)} became {shortened(new)}"
        return
    pairs = zip(zip(*old.values(), strict=True), zip(*columns.values(), strict=True), strict=True)
    for row, ((before, error, *_), (value, stderr, low, high)) in enumerate(pairs):
        if error == math.inf and math.isnan(value):
            continue  # what cannot be estimated is NaN in this version
        if not abs(value - before) <= MOST_ERRORS * (error + stderr):
            yield f"{query}: value[{row}] {before!r} became {value!r}"
        if not (stderr >= 0 and low <= high):
            yield f"{query}: {value!r} with standard error {stderr!r} and {low!r} to {high!r}"


def saved_tolerance(query: Plain, column: str) -> float:
    """Return the tolerance of a column that was saved on another processor."""
    if query["kind"] == "fit_distribution":
        return SAVED_FIT_TOLERANCE
    return SAVED_TOLERANCE if column in ("low", "high", "pvalue") else TOLERANCE


def expected_end(
    old: Plain,
    new: Plain,
    name: str,
    row: int,
    tolerance: float,
    same_machine: bool,
    other_jump: bool = False,
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
        if isinstance(end, str):  # a level, whose name has its number
            return new[name][row] if lowest <= end <= highest else end
        slack = tolerance if same_machine else SEARCHED * (highest - lowest)
        return new[name][row] if lowest - slack <= end <= highest + slack else end
    ends = [old["low"][row], old["high"][row]]
    if "least" in new:
        ends = [min(max(one, new["least"][row]), new["most"][row]) for one in ends]
    end = ends[name == "high"]
    if other_jump:
        value, least, most = old["value"][row], new["least"][row], new["most"][row]
        scaled = [value + factor * (old[name][row] - value) for factor in (1 / 2, 2)]
        near, far = sorted(min(max(one, least), most) for one in scaled)
        return new[name][row] if near - tolerance <= new[name][row] <= far + tolerance else end
    envelope = new["envelope"][row] if "envelope" in new else None
    if envelope is None:
        return end
    is_level = isinstance(envelope[0], str)  # of a quantile
    slack = tolerance
    if not same_machine and not is_level:
        slack += SEARCHED * (envelope[1] - envelope[0])
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
    names = [name for name in names if name is not None]
    attributes = [case["spec"]["attributes"][name] for name in names]
    groups = [g for g in case["spec"].get("groups", []) if set(names) & set(g["attributes"])]
    for title, entry in KNOWN.items():
        if "joint" in entry:
            matches = [group["mechanism"] in entry["joint"] for group in groups]
        elif "memoised" in entry:
            designs = case["design"]["attributes"].values()
            first = [d.get("distribution", {}).get("first", {}).get("kind") for d in designs]
            matches = [kind in entry["memoised"] for kind in first]
        else:
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
