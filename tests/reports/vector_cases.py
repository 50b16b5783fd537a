"""The cases of vectors/*.json: `python tests/reports/vector_cases.py --write` writes the files.

Existing vectors never change; cases are added at the end of a list. What a search would find, such
as patterns and tops, is stated, so that no search changes a vector.
"""

import json
import math
import re
import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import rejected_cases

import given_numbers
from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    Lp,
    Matrix,
    Ordinal,
    Relative,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
    Weight,
)
from metricldp_core import distributions, metrics, values
from metricldp_core.canonical import canonical
from metricldp_core.canonical import word as digits
from metricldp_core.device import Device
from metricldp_core.distributions import Table
from metricldp_core.exact import WORD
from metricldp_core.manifest import Field, Manifest
from metricldp_core.random_words import Words
from vectors import FORMAT, Recorded, manifest_vector, report_of, report_vector

FOLDER = Path(__file__).parents[2] / "vectors"


@dataclass
class Case:
    """A manifest with lists of vectors, and the survey that it is from, if any."""

    manifest: Manifest
    survey: Survey | None = None

    def __post_init__(self):
        self.device = Device(self.manifest)
        self.lists = {}

    @classmethod
    def of(cls, survey):
        return cls(survey.client_manifest, survey)

    @property
    def vector(self):
        return manifest_vector(self.manifest, **self.lists)

    def add(self, key, vectors):
        self.lists.setdefault(key, []).extend(vectors)
        return self

    def reports(self, responses, *, clip=False):
        """Reports of responses in turn: from random words, every third near the thresholds."""
        for k, response in enumerate(responses):
            seed = f"{self.manifest.fingerprint} {k}"
            source = near(self.manifest, seed) if k % 3 == 2 else Recorded(seed)
            self.add("reports", [report_vector(self.device, response, source, clip=clip)])
        return self

    def remembered(self, responses):
        """Reports of responses in turn from one memory."""
        memory = {}
        for k, response in enumerate(responses):
            source = Recorded(f"{self.manifest.fingerprint} memory {k}")
            self.add("reports", [report_vector(self.device, response, source, memory=memory)])
        return self

    def rejected_values(self, rejected, *, clip=False):
        clipped = {"clip": True} if clip else {}
        vectors = [{"response": r, **clipped, "reason": why} for r, why in rejected]
        return self.add("rejected_values", vectors)


# Words -------------------------------------------------------------------------------------------


def thresholds(manifest):
    """Probabilities and cumulative sums that words are compared with."""
    found = [int(text, 16) for text in re.findall(r'"([0-9a-f]{16})"', manifest.text)]
    for field in manifest.fields:
        if isinstance(field.distribution, Table):
            found += [total for row in field.distribution._cumulative[:4] for total in row]
    return found


def near(manifest, seed):
    """Words at, just below and just above the thresholds, among other words."""
    marks = thresholds(manifest)
    stream, words = Recorded(f"near {seed}"), []
    for _ in range(40):
        kind, high, low, *rest = stream.draw(11)
        mark = marks[(high << 8 | low) % len(marks)]
        chosen = [mark, mark - 1, mark + 1, 0, WORD - 1]
        words.append(
            chosen[kind % 8] % WORD if kind % 8 < 5 else int.from_bytes(bytes(rest), "big")
        )
    return Recorded(seed, words)


# Attributes and fields ---------------------------------------------------------------------------


def case(**attributes):
    return Case.of(given_numbers.design(attributes))


def around(attribute, count):
    """Responses x: both ends, the middle and some between."""
    size = attribute.size
    positions = [0, size - 1, size // 2, 1 % size, *((7 * k + 3) % size for k in range(count))]
    return [{"x": attribute.values[p]} for p in positions[:count]]


def of_mechanisms(mechanisms, sizes, epsilons, count, *, make=None):
    make = make or (lambda size, **more: Integer(0, size - 1, per=1, **more))
    for mechanism, size, epsilon in product(mechanisms, sizes, epsilons):
        found = case(x=make(size, epsilon=epsilon, mechanism=mechanism))
        yield found.reports(around(found.survey.attributes["x"], count))


def names(size, **more):
    return Categorical([f"c{k}" for k in range(size)], **more)


def stated(distribution, metric, domain=None):
    """A manifest of one field of whole numbers."""
    domain = domain or values.WholeNumbers("x", low=0, high=distribution.size - 1)
    return Case(Manifest((Field((domain,), metric, distribution),)))


def everyone(found):
    """Each value twice."""
    return found.reports(
        [
            {"x": x % found.device.manifest.fields[0].distribution.size}
            for x in range(2 * found.device.manifest.fields[0].distribution.size)
        ]
    )


# Distributions -----------------------------------------------------------------------------------


def randomized_response():
    yield from of_mechanisms(
        ["randomized-response"], [2, 3, 4, 5, 17, 200], [0.1, 1, 5], 11, make=names
    )


def threshold():
    kinds = ["threshold", "threshold-paper", "threshold-dummy"]
    yield from of_mechanisms(kinds, [2, 3, 9, 65], [0.1, 1, 4], 6)
    yield from of_mechanisms(["threshold"], [66, 130, 1000], [0.5], 3)
    flips = tuple(WORD // n for n in (3, 4, 2, 5))
    lengths = (7, 11, 1, 14)  # tenths, above the logarithms of (1 - p) / p
    metric = metrics.Graph(5, metrics.Fraction(1, 10), tuple((x, x + 1) for x in range(4)), lengths)
    yield everyone(stated(distributions.Threshold(5, flips), metric))


def geometric():
    yield from of_mechanisms(["geometric"], [2, 3, 10, 256, 1000], [0.1, 0.5, 1, 4, 64], 8)
    yield from of_mechanisms(["geometric"], [1 << 20], [0.0001, 0.05], 8)


DISTANCES = [
    [0, 1, 2, 3, 4],
    [1, 0, 1.5, "7/3", 3],
    [2, 1.5, 0, 1, 2],
    [3, "7/3", 1, 0, 1],
    [4, 3, 2, 1, 0],
]
FIVE = ["a", "b", "c", "d", "e"]
METRICS = [
    None,
    SensitiveSet(["b", "d"]),
    Graph([("a", "b"), ("b", "c", 2), ("c", "d", 0.5), ("d", "e"), ("a", "e", 3)]),
    Tree({"one": ["a", "b"], "two": {"left": ["c"], "right": ["d", "e"]}}, {"left": 2}),
    DistanceMatrix(DISTANCES),
]


def unary():
    for metric, epsilon in product(METRICS, (0.5, 2)):
        found = case(x=Categorical(FIVE, epsilon=epsilon, metric=metric, mechanism="unary"))
        yield found.reports([{"x": FIVE[k % 5]} for k in range(8)])
    bits = {
        "name": "unary",
        "bits": [[0.75, 0.25]] * 40 + [[0.5, 0.5]] * 2 + [[0.25, 0.75]] * 38,
    }
    found = case(x=names(80, epsilon=2, mechanism=bits))
    yield found.reports(around(found.survey.attributes["x"], 4))


def plan(workload, strategy, epsilons, **more):
    return {
        "name": "matrix",
        "workload": workload,
        "strategy": strategy,
        "epsilons": epsilons,
        **more,
    }


def matrix():
    plans = [
        Matrix(workload="ranges", strategy="prefix"),
        plan("ranges", "hierarchy", 0.25),
        plan("values", "haar", 0.25, reach=3),
        plan("prefixes", "identity", 0.5, reach=0),
        plan(
            "values",
            [[3, -2, 0, 1, 5], [0, 0, 1, 1, 2], [1, 0, 0, 0, 0], [0, 1, 0, 1, 0]],
            [0.05, 0.1, 0.25, 0.125],
        ),
    ]
    for each in plans:
        found = case(x=Integer(10, 14, epsilon=1, mechanism=each, per=1))
        yield found.reports(around(found.survey.attributes["x"], 8))
    wide = Matrix(workload="ranges", strategy="prefix", reach=2)
    found = case(x=Integer(0, 63, epsilon=0.5, mechanism=wide, per=1))
    yield found.reports(around(found.survey.attributes["x"], 4))


def table():
    half, quarter = WORD >> 1, WORD >> 2
    tables = [
        [[WORD - 1, 1], [1, WORD - 1]],
        [[half, quarter, quarter], [quarter, half, quarter], [quarter - 1, quarter + 1, half]],
        [[5, 0, WORD - 5, 0], [7, 0, WORD - 7, 0]],
        [[0, WORD - 1, 1], [0, 1, WORD - 1]],
    ]
    for weights in tables:
        distribution = Table(tuple(map(tuple, weights)))
        largest = metrics.Fraction(math.ceil(math.log(distribution.largest_ratio()) * 8) or 1, 8)
        found = stated(distribution, metrics.Uniform(len(weights), largest))
        sums = {total for row in distribution._cumulative for total in (0, *row)}
        words = sorted({w % WORD for s in sums for w in (s - 1, s, s + 1)})
        for x, one in product(range(len(weights)), words):
            report = report_of(found.device, {"x": x}, Words.given([one])).hex()
            found.add("reports", [{"response": {"x": x}, "words": digits(one), "report": report}])
        yield found


def additive():
    stairs = ["0011233211", "0123333210"]
    deep = list(range(80)) + list(range(80, 0, -1))
    longest = [*range(4000), *range(4000, 0, -1)]
    cases = [
        (Integer(0, 7, epsilon=1, within=2), ["0011221100"]),
        (Integer(0, 7, epsilon=1, within=2, max_epsilon=2), ["0011221100", "0112211000"]),
        (Integer(0, 7, epsilon=0.25, per=2), stairs * 2),
        (Integer(1, 12, epsilon=2, within=3, cyclic=True), ["000111222111"] * 8),
        (Ordinal(["a", "b", "c"], epsilon=0.1, max_epsilon=0.1), ["001"]),
        (Continuous(0, 60, bins=60, epsilon=0.5, per=1), [list(range(40)) + deep[-40:]]),
        (Continuous(0, 60, bins=60, epsilon=0.5, per=1), [deep]),
        (
            Continuous(0, 1, points=5, epsilon=1, within=0.5, optional=1, rounding="stochastic"),
            ["000111222111"],
        ),
        (Ordinal(list("mtwhfsu"), epsilon=1, cyclic=True), ["0123210"]),
        (Integer(0, 3999, epsilon=0.001, per=1), [longest]),
    ]
    for attribute, patterns in cases:
        how = {"name": "additive", "workload": "ranges", "patterns": patterns}
        found = case(x=replace(attribute, mechanism=how))
        ends = attribute.values if hasattr(attribute, "values") else (attribute.low, attribute.high)
        yield found.reports([{"x": ends[k]} for k in (0, -1, 0, -1, len(ends) // 2) * 2])


SHAPES = """
    11011 5deca76fde30023a 22110 4d5fb116ecafeb9f 10110 1ed57cffb4747aff 10011 00059884c70ffdd1
    21101 58a2b61af405c78e 21100 000354abfd839e49 01101 1eda3ab62b99fa25 01100 02e95c9a99918395
    12110 00033450f9dd8b2f 00110 02ee166dcd8680a8 10112 589dc52f476da33d 01122 4d5c7719af34cb94
    01121 0004b24d81356521 00112 0003544d0f556055 01110 28ef981dd262c986
"""
EXTREMAL = {
    "name": "extremal",
    "workload": "ranges",
    "shapes": SHAPES.split()[::2],
    "tops": SHAPES.split()[1::2],
}
SENSITIVE = {
    "name": "extremal",
    "workload": "values",
    "shapes": ["101", "210", "010", "012"],
    "tops": ["7064c4f30270682c", "4d6ad359bc455694", "51eeab4a60713ad1", "4d6ad359bc455694"],
}
_END, _INNER = "a02f4103d6608be6", "705fc0b6a8b5151e"
TIGHT = {
    "name": "tight-constraints",
    "tops": [_END, _INNER, "81f669e459cb3866", _INNER, _END],
}
ALIKE = {"name": "tight-constraints", "tops": ["b6137867257aee58"] * 4}


def extremal():
    cases = [
        Integer(0, 4, epsilon=1, within=2, mechanism=EXTREMAL),
        Integer(0, 4, epsilon=1, max_epsilon=2, mechanism=TIGHT, per=1),
        Categorical(list("abc"), epsilon=0.5, metric=SensitiveSet(["b"]), mechanism=SENSITIVE),
        Categorical(list("abcd"), epsilon=2, mechanism=ALIKE),
    ]
    for attribute in cases:
        yield case(x=attribute).reports(around(attribute, 13))


def again(epsilon, **more):
    return {"name": "memoised", "each": epsilon / 4, **more}


def memoised():
    """Without a memory, and reports from one memory, in which a value comes back."""
    line = product((2, 3, 10, 100, 1000), (0.1, 1, 4))
    uneven = Graph([("a", "b"), ("b", "c", 2), ("c", "d", 0.5)])
    cases = [
        *(Integer(0, size - 1, epsilon=e, mechanism=again(e), per=1) for size, e in line),
        *(names(size, epsilon=e, mechanism=again(e)) for size in (2, 3, 17) for e in (0.1, 1, 5)),
        Integer(0, 4, epsilon=1, max_epsilon=2, mechanism=again(1, first=TIGHT), per=1),
        Categorical(
            list("abc"),
            epsilon=0.5,
            metric=SensitiveSet(["b"]),
            mechanism=again(0.5, first=SENSITIVE),
        ),
        Continuous(-1, 1, points=6, epsilon=2, mechanism=again(2), per=1, rounding="stochastic"),
        Continuous(0, 60, bins=30, epsilon=1, per=5, mechanism=again(0.4)),
        Ordinal(list("abcd"), epsilon=3, optional=1, mechanism=again(2, first="geometric")),
        Categorical(
            list("abcd"), epsilon=2, metric=uneven, mechanism=again(2, first="randomized-response")
        ),
    ]
    for attribute in cases:
        found = case(x=attribute)
        if hasattr(attribute, "values"):
            responses = around(attribute, 4)
        else:
            ends = attribute.low, attribute.high, (attribute.low + attribute.high) / 2
            responses = [{"x": value} for value in ends]
        order = [responses[k] for k in (0, 1, 0, 1, 0)]
        yield found.reports(responses).remembered(order)
    weights = ((WORD - 3, 2, 1), (1, 2, WORD - 3))
    first = Table(weights)
    whole = distributions.Memoised(first, distributions.RandomizedResponse(3, WORD >> 1))
    found = stated(whole, metrics.Uniform(2, metrics.Fraction(45)))
    yield found.remembered([{"x": k % 2} for k in range(4)])
    several = case(
        age=Integer(0, 9, epsilon=1, mechanism=again(1), per=1),
        plain=Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        **{"region of birth": names(3, epsilon=1, mechanism=again(1))},
    )
    yield several.remembered(
        [{"age": k // 2, "plain": k, "region of birth": "c1" if k < 5 else "c2"} for k in range(6)]
    )


def groups():
    """Several attributes in one integer."""
    whole = {name: Integer(0, size - 1, epsilon=1, within=1) for name, size in (("x", 2), ("y", 3))}
    bins = {
        name: Continuous(0, size, bins=size, epsilon=1, within=1, max_epsilon=2)
        for name, size in (("x", 3), ("y", 2))
    }
    three = {
        "x": Integer(0, 1, epsilon=0.5, per=1),
        "y": Integer(0, 2, epsilon=0.5, cyclic=True, per=1),
        "z": Ordinal(["no", "yes"], epsilon=1, mechanism="threshold"),
        "c": Categorical(["a", "b"], epsilon=0.5),
    }
    lines = {"x": Integer(0, 1, epsilon=1, per=1), "y": Integer(0, 1, epsilon=0.5, per=1)}
    patterns = ["32101210121010121012", "21212321234321232101"]
    shaped = {"name": "additive", "workload": "ranges"}
    tops = ["6e5843f423fa9028", "6e5843f423fa8c28", "6e5843f423fa8c28", "6e5843f423fa9028"]
    best = {
        "name": "extremal",
        "metric": "plane",
        "workload": "ranges",
        "shapes": ["2110", "1201", "1021", "0112", "1001", "0110"],
        "tops": [*["7720eb65f042ce60"] * 4, *["18326733de05502f"] * 2],
    }
    near_ones = {name: Integer(0, 1, epsilon=1, within=1) for name in "xy"}
    flat = ["11101011101011111011"]
    cases = [
        (whole, {**shaped, "metric": "plane", "around": [4, 5], "patterns": patterns}, None),
        ({**whole, "c": three["c"]}, {**shaped, "around": [4, 5], "patterns": patterns[1:]}, None),
        (bins, {**shaped, "metric": "plane", "around": [5, 4], "patterns": flat}, None),
        (three, {**shaped, "around": [2, 3, 2], "patterns": ["011010010110"]}, None),
        (lines, {"name": "tight-constraints", "metric": "plane", "tops": tops}, None),
        (near_ones, best, None),
        (lines, {"name": "tight-constraints", "metric": "plane", "tops": tops}, Lp(2)),
    ]
    for described, how, norm in cases:
        together = tuple(name for name in described if name != "z")
        together = together[: len(how.get("around", "xy"))]
        attributes = {
            name: attribute if name in together or name == "z" else again_alone(attribute)
            for name, attribute in described.items()
        }
        survey = given_numbers.design(attributes, {together: how}, norm)
        each = [[a.values_at(k)[0] for k in range(a.size)] for a in attributes.values()]
        responses = [dict(zip(attributes, one, strict=True)) for one in product(*each)]
        yield Case.of(survey).reports(responses)


def again_alone(attribute):
    """The attribute with a mechanism that no search finds."""
    return replace(attribute, mechanism="randomized-response")


# Metrics, and the sentences about them -----------------------------------------------------------


def guarantees():
    """The guarantee of many metrics; the distributions are simple."""
    geometric = {"mechanism": "geometric"}
    response = {"mechanism": "randomized-response"}
    edges = [-0.5, 0.5, 1_000, 2_000, 5_000, 10_000, 99_999]
    attributes = [
        Integer(18, 99, epsilon=1, within=5, **geometric),
        Integer(18, 99, epsilon=1, within=5, max_epsilon=2.5, **response),
        Integer(0, 99, epsilon=0.1, per=3, max_epsilon=0.35, **response),
        Integer(0, 9, epsilon=0.001, per=1, **geometric),
        Integer(0, 9, epsilon=20, per=1, **response),
        Integer(0, 23, epsilon=1, within=3, cyclic=True, **response),
        Integer(0, 11, epsilon=0.5, per=2, cyclic=True, max_epsilon=1, **response),
        Integer(1, 1000, epsilon=0.125, metric=Relative(0.1), **geometric),
        Ordinal(FIVE, epsilon=1, **geometric),
        Ordinal(FIVE, epsilon=1, per=2, **geometric),
        Ordinal(FIVE, epsilon=0.7, cyclic=True, **response),
        Continuous(0, 1, bins=10, epsilon=1, within=0.25, **geometric),
        Continuous(0, 200_000, bins=20, epsilon=1, per=15_000, **geometric),
        Continuous(0, 360, bins=36, epsilon=1, within=30, cyclic=True, **response),
        Continuous(edges=edges, epsilon=1, per=1_000, **geometric),
        Continuous(edges=edges, epsilon=1, within=1_500, max_epsilon=3, **response),
        Continuous(edges=[1, 2, 4, 8, 16, 32], epsilon=1, metric=Relative(0.5), **response),
        Continuous(0, 2.5, points=6, epsilon=1, per=0.5, rounding="stochastic", **geometric),
        Continuous(
            0,
            10,
            points=11,
            epsilon=1,
            within=2.5,
            rounding="stochastic",
            max_epsilon=3,
            **response,
        ),
        *(Categorical(FIVE, epsilon=1.5, metric=metric, mechanism="unary") for metric in METRICS),
        Categorical(
            list("abcdefghij"), epsilon=1, metric=SensitiveSet(list("abcdefg")), mechanism="unary"
        ),
        Integer(0, 3, epsilon=1, metric=SensitiveSet([2]), mechanism="unary"),
        Weight(0, 10, private=True, epsilon=0.25),
    ]
    for k, attribute in enumerate(attributes):
        found = case(x=replace(attribute, optional=0.5) if k % 3 == 2 else attribute)
        value = attribute.values[1] if hasattr(attribute, "values") else attribute.low
        yield found.reports([{"x": value}])
    length = 3**40  # a length that is text, because not every language reads it as a number
    metric = metrics.Graph(3, metrics.Fraction(1, 3**39), ((0, 1), (0, 2)), (length, 2 * length))
    distribution = distributions.RandomizedResponse(3, WORD >> 1)
    yield stated(distribution, metric).reports([{"x": 2}])
    uneven = metrics.Line(8, metrics.Fraction(1), metrics.Fraction(7, 3), metrics.Fraction(5, 2))
    eight = distributions.RandomizedResponse(8, WORD >> 2)
    for ring in (False, True):
        domain = values.WholeNumbers("x", low=0, high=7, cyclic=ring)
        yield stated(eight, replace(uneven, ring=ring), domain).reports([{"x": 3}])


# Domains -----------------------------------------------------------------------------------------


def positions():
    """Distributions that nearly always report the position itself."""
    sure = {"epsilon": 100, "mechanism": "randomized-response"}
    dense = {"mechanism": "randomized-response", "rounding": "stochastic", "per": 1}
    tenth = Continuous(0, 1, bins=10, per=0.1, **sure)
    odd = Continuous(-0.7, 2.3, bins=7, per=0.1, **sure)
    large = Continuous(1e16, 1e16 + 40, bins=17, per=1, **sure)
    around_a_circle = Continuous(0, 6.28, bins=9, per=1, cyclic=True, **sure)
    placed = Continuous(edges=[-1.5, -0.1, 0, 0.1, 0.30000000000000004, 7, 20], per=0.02, **sure)
    texts = ["7", " 7", "7.0", "-3e0", "+4", "0.7e1"]
    cases = [
        (Integer(-3, 4, per=1, **sure), [-3, -2, 0, 4, 3.0, -0.0, "3", " -2 ", "4e0"]),
        (Integer(0, 1, per=1, **sure), [0, 1, True, False, 1.0]),
        (Integer(0, 6, per=1, cyclic=True, **sure), [0, 6, 3.0]),
        (Integer(-(2**53), 10 - 2**53, per=1, **sure), [-(2**53), 10 - 2**53, -(2.0**53)]),
        (Ordinal(["no", "yes", "ja ü", "1", "true"], **sure), ["no", "ja ü", "1", 1, True, "true"]),
        (Ordinal(["a", "b", "c"], cyclic=True, **sure), ["a", "c"]),
        (Categorical(["\u00e9", "e\u0301", "😀", "\uffee"], **sure), ["\u00e9", "e\u0301", "😀"]),
        (tenth, [*edges_of(tenth), "0.3", "1e-1"]),
        (odd, edges_of(odd)),
        (large, [1e16 + 2 * k for k in range(21)]),
        (around_a_circle, edges_of(around_a_circle)),
        (placed, edges_of(placed)),
        (Continuous(0, 1, points=5, epsilon=4000, **dense), reals(0, 1, 5)),
        (Continuous(-0.7, 2.3, points=8, epsilon=2000, **dense), reals(-0.7, 2.3, 8)),
        (Continuous(5, 6, points=2, epsilon=1000, **dense), reals(5, 6, 2)),
        (Weight(-1, 3, private=True, epsilon=50), reals(-1, 3, 3)),
        (Weight(0, 0.1, private=True, epsilon=50), reals(0, 0.1, 3)),
        (Continuous(-10, 10, bins=40, per=1, **sure), texts),
    ]
    for attribute, responses in cases:
        yield case(x=attribute).reports([{"x": value} for value in responses])
    clips = [-1e300, -1, -0.1, 0.95, 1.5, 7, 2**70, 1e300]
    for attribute in (
        Integer(0, 5, per=1, **sure),
        tenth,
        Continuous(0, 1, points=3, epsilon=9, **dense),
    ):
        whole = [int(v) for v in clips] if attribute.kind == "integer" else clips
        yield case(x=attribute).reports([{"x": value} for value in whole], clip=True)
    weights = [0, -0.0, 1, 2, -1, 0.1, 5e-324, 1 / 3, 1.9999999999999998]
    weighted = case(w=Weight(-1, 2), x=Integer(0, 1, epsilon=1, per=1, mechanism="geometric"))
    yield weighted.reports([{"w": weight, "x": k % 2} for k, weight in enumerate(weights)])


def edges_of(attribute):
    """Every edge, and the doubles next to it."""
    found = []
    for edge in attribute.bin_edges.tolist():
        for value in (next_to(edge, -1), edge, next_to(edge, 1)):
            if attribute.low <= value <= attribute.high:
                found.append(value)
    return found


def next_to(value, way):
    return math.nextafter(value, way * math.inf)


def reals(low, high, points):
    """Points of the grid, halves of a unit of 2^-32 between them, and doubles next to both."""
    step = (high - low) / (points - 1)
    shares = [0, 2.0**-33, 3 * 2.0**-33, 0.5, 1 - 2.0**-33, 1 / 3]
    found = [low + step * (k + share) for k in range(points - 1) for share in shares]
    found += [high, next_to(high, -1), next_to(low, 1)]
    return [value for value in found if low <= value <= high]


def optional():
    """Responses that are left out: null, a blank text, or no entry at all."""
    edges = [-0.5, 0.5, 3, 7.25]
    kinds = [
        (Integer(-3, 4, epsilon=1, mechanism="geometric", optional=2, per=1), [-3, 0, 4, 3.0]),
        (Integer(0, 98, epsilon=1, per=5, mechanism="threshold", optional=0.5), [0, 49, 98]),
        (Ordinal(["no", "yes", "ja"], epsilon=1, mechanism="threshold", optional=1), ["no", "ja"]),
        (names(2, epsilon=1, mechanism="randomized-response", optional=3), ["c0", "c1"]),
        (
            Continuous(0, 1, bins=10, epsilon=3, mechanism="geometric", optional=1, per=1),
            [0, 0.5, 1],
        ),
        (
            Continuous(-0.7, 2.3, bins=7, epsilon=1, mechanism="threshold", optional=1, per=1),
            [0.8, 0.9],
        ),
        (
            Continuous(
                *(-0.7, 2.3),
                points=8,
                rounding="stochastic",
                epsilon=1,
                mechanism="geometric",
                optional=1,
                per=1,
            ),
            [0.8, 2],
        ),
        (Weight(-1, 3, private=True, epsilon=1, optional=0.1), [-1, 1, 2.5]),
        (
            Continuous(edges=edges, epsilon=1, mechanism="threshold", optional=1, per=1),
            [0, 3.375],
        ),
    ]
    for attribute, given in kinds:
        responses = [*({"x": value} for value in given), {"x": None}, {}, {"x": ""}, {"x": "  "}]
        yield case(x=attribute).reports(responses)
    several = {name: attribute for name, (attribute, _) in zip("abcdefgh", kinds, strict=False)}
    several["w"] = Weight(0, 1)
    several["z"] = Integer(0, 3, epsilon=1, mechanism="randomized-response", per=1)
    survey = Survey.design(SurveySpec(several, metric=Lp(2)))
    always = {"w": 0.25, "z": 2}
    whole = {name: given[0] for name, (_, given) in zip("abcdefgh", kinds, strict=False)}
    whole |= always
    rejected = [
        ({**whole, "a": 9}, "range"),
        ({**whole, "d": "c"}, "name"),
        ({**whole, "ab": 1}, "kind"),
        ({key: value for key, value in whole.items() if key != "z"}, "missing"),
        ({key: value for key, value in whole.items() if key != "w"}, "missing"),
    ]
    responses = [always, whole, {**whole, "c": None}, {**always, "h": 1}]
    yield Case.of(survey).reports(responses).rejected_values(rejected)


def mixed():
    """Several fields, names that need care, and norms over attributes."""
    three = {
        "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
        "region": Categorical(
            ["north", "south", "east"], epsilon=2, mechanism="randomized-response"
        ),
        "income": Continuous(0, 200_000, bins=20, epsilon=1, per=10_000, mechanism="threshold"),
    }
    more = {
        "mood": Ordinal(["bad", "fair", "good"], epsilon=0.5, mechanism="threshold"),
        "height": Continuous(
            *(100, 220), points=13, epsilon=1, per=10, mechanism="geometric", rounding="stochastic"
        ),
        "w": Weight(0.5, 2),
        "v": Weight(0, 10, private=True, epsilon=1),
    }
    strange = {
        'a "b"\\': Integer(0, 3, epsilon=1, mechanism="randomized-response", per=1),
        "😀": Integer(0, 3, epsilon=1, mechanism="randomized-response", per=1),
        "\uffee": Integer(0, 3, epsilon=1, mechanism="threshold", per=1),
        "10": Integer(0, 3, epsilon=1e-05, mechanism="randomized-response", per=1),
        "9": Integer(0, 3, epsilon=0.1, per=3, mechanism="randomized-response"),
    }
    one = {"age": 33, "region": "east", "income": 49_999.99}
    other = {"mood": "fair", "height": 171.3, "w": 1.25, "v": 7}
    odd = {'a "b"\\': 3, "😀": 0, "\uffee": 2, "10": 1, "9": 2}
    cases = [
        (three, None, one),
        (three, Lp(2), one),
        (three, Lp(1.1), one),
        (three, Lp(float("inf")), one),
        (more, None, other),
        ({**three, **more}, Lp(3), {**one, **other}),
        (strange, None, odd),
    ]
    for attributes, norm, response in cases:
        survey = Survey.design(SurveySpec(attributes, metric=norm))
        yield Case.of(survey).reports([response] * 12)


# What is rejected --------------------------------------------------------------------------------


def rejected_reports():
    first = case(x=Integer(0, 4, epsilon=1, mechanism="randomized-response", per=1), w=Weight(0, 1))
    one = {"mechanism": Matrix(strategy="prefix", reach=1), "per": 1}
    cases = [
        (first, {"x": 2, "w": 0.5}),
        (case(x=Integer(0, 5, epsilon=1, mechanism="threshold", per=1)), {"x": 2}),
        (case(x=Integer(0, 6, epsilon=1, mechanism="geometric", per=1)), {"x": 2}),
        (case(x=Integer(0, 2, epsilon=1, **one)), {"x": 2}),
        (case(x=Integer(0, 4, epsilon=1, mechanism="unary", per=1)), {"x": 2}),
        (case(x=Integer(0, 4, epsilon=1, mechanism=again(1), per=1)), {"x": 2}),
        (case(x=Integer(0, 4, epsilon=1, within=2, mechanism=EXTREMAL)), {"x": 2}),
        (
            case(x=names(3, epsilon=1, mechanism="randomized-response", optional=1)),
            {"x": "c1"},
        ),
    ]
    for found, response in cases:
        good = report_vector(found.device, response, Recorded(found.manifest.fingerprint))
        report, bad = bytes.fromhex(good["report"]), []
        bits = sum(field.bits for field in found.manifest.fields)
        for flip in (*range(0, 8, 3), *range(8, 136, 21), 135):
            bad.append((flipped(report, flip), "version" if flip < 8 else "survey"))
        bad += [(cut, "length") for cut in (b"", report[:1], report[:16], report[:-1])]
        bad += [(report + b"\0", "length"), (report * 2, "length")]
        bad += [(b"\2" + report[1:17], "version"), (b"{" + report, "version")]
        bad += [(flipped(report, 100)[:-1], "survey"), (flipped(report, 100) + b"\0", "survey")]
        bad += [(flipped(report, 136 + b), "padding") for b in range(bits, -(-bits // 8) * 8)]
        bad += [(flipped(flipped(report, b), 0), "version") for b in (8, 136)]
        if bits <= 8:
            for low in range(1 << bits):
                if not all_possible(found.survey, low):
                    bad.append((report[:17] + bytes([low]), "range"))
        if len(found.manifest.fields) == 2 and bits == 67:
            for double in ("000000000000f07f", "000000000000f8ff", "000000000000f0bf"):
                whole = 4 | int.from_bytes(bytes.fromhex(double), "little") << 3
                bad.append((report[:17] + whole.to_bytes(len(report) - 17, "little"), "range"))
        vectors = [{"report": one.hex(), "reason": reason} for one, reason in bad]
        yield found.add("reports", [good]).add("rejected_reports", vectors)


def flipped(report, bit):
    changed = bytearray(report)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def all_possible(survey, content):
    """Whether each field is among all integers that the survey lists for it."""
    for field in survey.fields.values():
        part, content = content & (1 << field.bits) - 1, content >> field.bits
        every = field.every()
        if every.ndim == 2:
            every = np.array([int.from_bytes(row.tobytes(), "little") for row in every])
        if part not in every:
            return False
    return True


def rejected_values():
    stochastic = {"mechanism": "threshold", "rounding": "stochastic"}
    found = case(
        age=Integer(0, 99, epsilon=1, per=1, mechanism="geometric"),
        yes=Integer(0, 1, epsilon=1, per=1, mechanism="geometric"),
        place=Categorical(["here", "there"], epsilon=1, mechanism="randomized-response"),
        mood=Ordinal(["bad", "good"], epsilon=1, mechanism="threshold"),
        income=Continuous(0, 10, bins=5, epsilon=1, per=1, mechanism="geometric"),
        hour=Integer(0, 23, epsilon=1, per=1, cyclic=True, mechanism="randomized-response"),
        height=Continuous(0, 1, points=3, epsilon=1, per=1, **stochastic),
        w=Weight(0, 1),
        v=Weight(0, 1, private=True, epsilon=1),
    )
    good = {"age": 3, "yes": 1, "place": "here", "mood": "bad", "income": 5, "hour": 7}
    good |= {"height": 0.5, "w": 0.25, "v": 1}
    numbers = ("age", "yes", "income", "hour", "height", "w", "v")
    bad = [("place", value, "name") for value in ("Here", "here ", "nowhere", "0", 5, True)]
    bad += [("mood", value, "name") for value in ("Bad", "worse", 0, False)]
    bad += [(name, value, "kind") for name in ("place", "mood") for value in (0.5, [1], {"a": 1})]
    bad += [(name, None, "missing") for name in good]
    bad += [(name, value, "missing") for name in good for value in ("", " \t")]
    bad += [(name, value, "kind") for name in numbers for value in ("old", "0x1", "1,5", [1], {})]
    bad += [(name, True, "kind") for name in numbers if name != "yes"]
    bad += [(name, value, "whole") for name in ("age", "yes", "hour") for value in (0.5, 1e-9)]
    bad += [("age", 98.99, "whole"), ("age", "98.99", "whole"), ("hour", 23.5, "whole")]
    bad += [(name, value, "range") for name in numbers for value in (-1, 100, 2**70, -5e300)]
    bad += [(name, value, "range") for name in numbers for value in ("-1", "1e3", "inf", "-inf")]
    bad += [(name, "nan", "missing") for name in numbers]
    bad += [(name, -5e-324, "range") for name in ("income", "height", "w", "v")]
    bad += [("income", 10.000000000000002, "range"), ("height", 1.0000000000000002, "range")]
    found.rejected_values([({**good, name: value}, why) for name, value, why in bad])
    without = [{key: value for key, value in good.items() if key != name} for name in good]
    found.rejected_values([(response, "missing") for response in [{}, *without]])
    clipped = [("age", 0.5, "whole"), ("place", "x", "name"), ("income", None, "missing")]
    clipped += [("hour", 24, "range"), ("age", "x", "kind"), ("v", "inf", "range")]
    found.rejected_values([({**good, n: value}, why) for n, value, why in clipped], clip=True)
    yield found.reports([good])


# Survey files ------------------------------------------------------------------------------------


def surveys():
    """Survey files and their fingerprints, one of each kind of attribute, mechanism and metric."""
    made = [one.survey for name in MANIFESTS for one in islice_of(name) if one.survey is not None]
    first = made[0]
    data = first.to_dict()
    texts = {"x": {"title": "Which one?", "text": "Choose.", "labels": {"c0": "The first"}}}
    shown = Survey.from_dict({**data, "presentation": {"en": texts, "de": texts}})
    files = [("toml", one.to_toml(), one.fingerprint) for one in [*made, shown]]
    files += [("json", one.to_json(), one.fingerprint) for one in [*made[::5], shown]]
    assert shown.fingerprint == first.fingerprint
    return {
        "surveys": [{"format": f, "text": text, "fingerprint": mark} for f, text, mark in files]
    }


def islice_of(name):
    """A few surveys of each file; those with long files are left out."""
    found = [one for one in MANIFESTS[name]() if len(one.manifest.text) < 4_000]
    return found[:: max(1, len(found) // 6)]


# Random words and canonical JSON -----------------------------------------------------------------


def random_words():
    calls = [("bits", count) for count in (0, 1, 7, 32, 63, 64)]
    calls += [("below", p) for p in (0, 1, 1 << 63, WORD - 1, WORD)]
    calls += [("uniform", bound) for bound in (1, 2, 3, 5, 64, 65, 1000, (1 << 63) + 1, WORD)]
    calls += [("round", p) for p in (0, 1, 1 << 31, 1 << 32, (5 << 32) + 12345, (9 << 32) - 1)]
    found = []
    for (call, argument), k in product(calls, range(3)):
        stream = Recorded(f"{call} {argument} {k}")
        words = Words(stream.draw)
        result = int(getattr(words, call)(argument))
        read = stream.words(words.used)
        found.append(
            {"call": call, "arguments": [f"{argument:x}"], "words": read, "result": f"{result:x}"}
        )
    edges = [("below", 5, word) for word in (0, 4, 5, 6, WORD - 1)]
    edges += [("round", 7 << 32 | 5, word << 32 | 9) for word in (0, 4, 5, 6, (1 << 32) - 1)]
    for call, argument, word in edges:
        result = int(getattr(Words.given([word]), call)(argument))
        one = {"call": call, "arguments": [f"{argument:x}"], "words": digits(word)}
        found.append({**one, "result": f"{result:x}"})
    return {"random_words": found}


def canonical_json():
    numbers = [0, -0.0, 1, -1, 1.0, 0.1, 0.5, 100, 1e20, 1e21, 1.5e21, 123456789012345680000]
    numbers = [float(n) if abs(n) > 2**53 else n for n in numbers]
    numbers += [1e-5, 1e-6, 1e-7, 1.5e-7, 0.000123, 5e-324, 1.7976931348623157e308, 2**53]
    numbers += [333333333.3333333, 1 / 3, 4.35, 1e23, 9007199254740994.0, 295147905179352830000.0]
    texts = ["", "a", '"', "\\", "/", "\b\t\n\f\r", "\x00\x1f\x7f", "\u00e9", "e\u0301", "€", "😀"]
    data = [*numbers, *texts, "\u2028", True, False, None, [], {}, [1, [2, {}]]]
    data += [{"b": 1, "a": 2, "10": 3, "9": 4}, {"😀": 1, "\uffee": 2, "é": 3, "z": 4, "": 5}]
    return {"canonical": [{"data": one, "text": canonical(one)} for one in data]}


# Files -------------------------------------------------------------------------------------------

MANIFESTS = {
    "randomized-response": randomized_response,
    "threshold": threshold,
    "geometric": geometric,
    "unary": unary,
    "matrix": matrix,
    "table": table,
    "additive": additive,
    "extremal": extremal,
    "memoised": memoised,
    "groups": groups,
    "guarantees": guarantees,
    "positions": positions,
    "optional": optional,
    "mixed": mixed,
    "rejected-reports": rejected_reports,
    "rejected-values": rejected_values,
}
OTHERS = {
    "rejected-manifests": rejected_cases.manifests,
    "surveys": surveys,
    "rejected-surveys": rejected_cases.surveys,
    "random-words": random_words,
    "canonical": canonical_json,
}
FILES = [*MANIFESTS, *OTHERS]


def made(name):
    """The text of a file."""
    if name in MANIFESTS:
        return to_json({"manifests": [one.vector for one in MANIFESTS[name]()]})
    return to_json(OTHERS[name]())


def to_json(data):
    """A file of vectors, each on a line of its own."""
    return lines({"metricldp-vectors": FORMAT, **data}, "") + "\n"


def lines(value, indent):
    inner = indent + " "
    if is_list_of_vectors(value):
        rows = ",\n".join(inner + lines(item, inner) for item in value)
        return f"[\n{rows}\n{indent}]"
    if isinstance(value, dict) and any(map(is_list_of_vectors, value.values())):
        pairs = (f"{inner}{json.dumps(key)}: {lines(v, inner)}" for key, v in value.items())
        return "{\n" + ",\n".join(pairs) + f"\n{indent}}}"
    return json.dumps(value, ensure_ascii=False)


def is_list_of_vectors(value):
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


if __name__ == "__main__" and "--write" in sys.argv:
    FOLDER.mkdir(exist_ok=True)
    for topic in FILES:
        (FOLDER / f"{topic}.json").write_text(made(topic), "utf-8")
