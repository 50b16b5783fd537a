"""Reports of the client with words of its own have the distribution that the integers define."""

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from browsers import HERE
from client_manifests import (
    additive,
    cliff,
    field,
    geometric,
    line,
    names,
    points,
    randomized_response,
    roof,
    table,
    threshold,
    whole,
)
from scipy import stats

from metricldp.channels.plain_data import manifest_of
from metricldp_core.exact import WORD
from metricldp_core.manifest import Field
from metricldp_core.metrics import Uniform
from metricldp_core.report import HEADER_BYTES

N = 20_000
FALSE_ALARM = 1e-9
"""Chance that a test of one field fails although the client is right."""
RESPONSE = {"age": 4, "mood": 1, "height": 0.3, "place": "name 2", "hour": 3, "code": 0}
FIELDS = (
    field(whole(7, "age", 0), geometric(7, 0.7), line(7)),
    field(whole(4, "mood", 0), threshold(4, 1), line(4)),
    field(points(4, "height", 0.0, 1.0), geometric(4, 2), line(4)),
    field(names(5, "place"), randomized_response(5, 1), Uniform(5, Fraction(1))),
    field(whole(6, "hour", 0), additive([6], [12], [roof(12, 3), cliff(12, 5)], 0.5), line(6)),
    field(whole(3, "code", 0), table(3, 6, "randomness"), line(3)),
)


def share(probability):
    return probability / WORD


def clipped_geometric(distribution, position):
    """Probabilities of all reports, with the noise as far as it matters."""
    found, count = Counter(), len(distribution.digits)
    block, last = share(distribution.block), distribution.size - 1
    for bits in product((0, 1), repeat=count):
        low = sum(bit << j for j, bit in enumerate(bits))
        chance = 1.0
        for bit, digit in zip(bits, distribution.digits, strict=True):
            chance *= share(digit) if bit else 1 - share(digit)
        for blocks in range(200):
            magnitude = 1 + low + (blocks << count)
            for noise in (-magnitude, magnitude):
                each = chance * block**blocks * (1 - block) * (1 - share(distribution.zero)) / 2
                found[min(max(position + noise, 0), last)] += each
    found[position] += share(distribution.zero)
    return found


def threshold_bits(distribution, position):
    found = Counter()
    for bits in product((0, 1), repeat=len(distribution.flips)):
        chance = 1.0
        for k, (bit, flip) in enumerate(zip(bits, distribution.flips, strict=True)):
            flipped = bit != (position <= k)
            chance *= share(flip) if flipped else 1 - share(flip)
        found[sum(bit << k for k, bit in enumerate(bits))] = chance
    return found


def additive_reports(distribution, position):
    found, n = Counter(), distribution.ring
    for j, (pattern, levels) in enumerate(
        zip(distribution.depths, distribution.levels, strict=True)
    ):
        total = sum(levels[depth] for depth in pattern)
        for d, depth in enumerate(pattern):
            found[j * n + (position + d) % n] = levels[depth] / total / len(distribution.depths)
    return found


def expected():
    """The probabilities of the reports of each field for the response."""
    height = FIELDS[2].distribution
    low, high = clipped_geometric(height, 0), clipped_geometric(height, 1)
    keep = share(FIELDS[3].distribution.keep)
    return [
        clipped_geometric(FIELDS[0].distribution, 4),
        threshold_bits(FIELDS[1].distribution, 1),
        {y: 0.1 * low[y] + 0.9 * high[y] for y in range(4)},
        {y: keep if y == 2 else (1 - keep) / 4 for y in range(5)},
        additive_reports(FIELDS[4].distribution, 3),
        {y: share(weight) for y, weight in enumerate(FIELDS[5].distribution.weights[0])},
    ]


def counted(manifest, tmp_path):
    """How often the client sent each report of each field."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    path = tmp_path / "survey.client.json"
    path.write_text(manifest.text, "utf-8")
    words = ["node", str(HERE / "lines.js"), str(path), manifest.fingerprint]
    lines = f"{json.dumps(RESPONSE)}\n" * N
    done = subprocess.run(words, input=lines, capture_output=True, text=True, check=True)
    found = [Counter() for _ in manifest.fields]
    for one in done.stdout.split():
        content = int.from_bytes(bytes.fromhex(one)[HEADER_BYTES:], "little")
        for part, counts in zip(manifest.fields, found, strict=True):
            counts[content & (1 << part.bits) - 1] += 1
            content >>= part.bits
    return found


def p_value(counts, chances):
    """Of Pearson's test, with rare reports together."""
    assert abs(sum(chances.values()) - 1) < 1e-9
    assert sum(counts[y] for y in chances) == N
    rare = {y for y, chance in chances.items() if chance * N < 10}
    observed = [counts[y] for y in chances if y not in rare]
    means = [chance * N for y, chance in chances.items() if y not in rare]
    if rare:
        observed.append(sum(counts[y] for y in rare))
        means.append(sum(chances[y] for y in rare) * N)
    return float(stats.chisquare(observed, means, sum_check=False).pvalue)


def p_values(manifest, tmp_path):
    pairs = zip(counted(manifest, tmp_path), expected(), strict=True)
    return [p_value(counts, chances) for counts, chances in pairs]


def test_reports_have_their_distribution(tmp_path):
    assert min(p_values(manifest_of(FIELDS), tmp_path)) > FALSE_ALARM


def test_client_with_another_distribution_is_detected(tmp_path):
    """A position that stays less often by a tenth, and noise that is 0 less often by a tenth."""
    response, noise = FIELDS[3].distribution, FIELDS[0].distribution
    others = {
        3: replace(response, keep=response.keep * 90 // 100),
        0: replace(noise, zero=noise.zero * 90 // 100),
    }
    fields = [
        Field(part.domains, replace(part.metric, epsilon=Fraction(9)), others[k])
        if k in others
        else part
        for k, part in enumerate(FIELDS)
    ]
    for k, p in enumerate(p_values(manifest_of(fields), tmp_path)):
        assert (p < FALSE_ALARM) is (k in others)
