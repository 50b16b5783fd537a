"""Manifests: valid ones with changes. Each pair of a small accepted one is compared."""

from __future__ import annotations

import json
from functools import cache
from itertools import combinations

from fuzzing import Wrong, tried
from survey_files import changed, designed

from metricldp.channels.plain_data import manifest_of
from metricldp_core import Device, Manifest, certify
from metricldp_core.canonical import canonical
from metricldp_core.exact import at_most_exp
from metricldp_core.guarantee import sentences
from metricldp_core.random_words import Words
from metricldp_core.report import ReportFormat

AT_ONCE = 500
_SMALL = 12
"""Positions up to which all pairs are compared."""


@cache
def real():
    return [survey.manifest() for survey in designed()]


@cache
def data():
    return [json.loads(text) for text in real()]


def text_of(manifest):
    try:
        return canonical(manifest)
    except (TypeError, ValueError, UnicodeError):
        return json.dumps(manifest)


def block(random, where):
    wrong = []
    for k in range(AT_ONCE):
        case = text_of(changed(random, random.choice(data()), data()))
        seed = random.getrandbits(32)
        failure = tried(
            "manifests", f"{where} case {k}", case, lambda case=case, seed=seed: one(case, seed)
        )
        wrong += [failure] if failure else []
    return AT_ONCE, wrong


def one(text, seed=0):
    """Read, prove and describe it; what a device accepts guarantees its metric for all pairs."""
    manifest = Manifest.parse(text)
    if manifest_of(manifest.fields).text != text:
        raise Wrong("a manifest is another when it is written")
    if not certify(manifest).holds:
        return
    for field in manifest.fields:
        if field.metric is not None and field.distribution.size <= _SMALL:
            _compare(field)
    sentences(manifest)
    device = Device(manifest)
    positions = [
        field.domains[0].position_of(field.domains[0].high, False)
        if field.distribution is None
        else field.domains[0].size - 1
        for field in manifest.fields
    ]
    words = (k * 0x9E3779B97F4A7C15 + seed & (1 << 64) - 1 for k in range(1 << 20))
    given = Words(lambda count: b"".join(next(words).to_bytes(8) for _ in range(count // 8)))
    report = device.randomize(positions, given)
    if reason := ReportFormat(manifest).reason(report):
        raise Wrong(f"a report of the device is rejected: {reason}")


def _compare(field):
    metric = field.point_metric
    for x, other in combinations(range(metric.size), 2):
        if not at_most_exp(field.distribution.ratio(x, other), metric.distance(x, other)):
            raise Wrong(f"positions {x} and {other} of {field.name} exceed their distance")
