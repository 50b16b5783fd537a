"""The cases of vectors/*.json: `python tests/reports/vector_cases.py --write` makes them again.

Facts are for ever: a case may be added, but a fact that is there never changes.
"""

import json
import math
import re
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    Lp,
    Matrix,
    Ordinal,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
    Unary,
    Weight,
)
from metricldp.channels.table import Table
from metricldp_core.canonical import canonical
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words
from vectors import FORMAT, Recorded, entry, fact

FOLDER = Path(__file__).parents[2] / "vectors"


# Words -------------------------------------------------------------------------------------------


def thresholds(survey):
    """Every probability of its laws."""
    return [int(text, 16) for text in re.findall(r'"([0-9a-f]{16})"', survey.canonical)]


def near(survey, seed):
    """Words at, just below and just above the thresholds of the laws, among other words."""
    marks = thresholds(survey)
    stream, words = Recorded(f"near {seed}"), []
    for _ in range(40):
        kind, which, *rest = stream.draw(10)
        mark = marks[which % len(marks)]
        chosen = [mark, mark - 1, mark + 1, 0, WORD - 1]
        words.append(
            chosen[kind % 8] % WORD if kind % 8 < 5 else int.from_bytes(bytes(rest), "big")
        )
    return Recorded(seed, words)


def stubborn(survey, seed):
    """Digits that agree with a threshold's in most lanes: these are decided late or never."""
    marks = thresholds(survey)
    wide = -(-max(field.bits for field in survey.fields.values()) // 64)
    words, stream = [], Recorded(f"stubborn {seed}")
    for digit in range(64):
        for _ in range(wide):
            few = [int.from_bytes(stream.draw(8), "big") for _ in range(3)]
            plain = WORD - 1 if marks[0] >> (63 - digit) & 1 else 0
            words.append(plain ^ (few[0] & few[1] & few[2]))
    return Recorded(seed, words)


def told(survey, people, *, extra=(), clip=False):
    """Facts for people in turn: random words, then some near the thresholds, then `extra`."""
    facts = []
    for k, person in enumerate(people):
        seed = f"{survey.fingerprint} {k}"
        stream = near(survey, seed) if k % 3 == 2 else Recorded(seed)
        facts.append(fact(survey, person, stream, clip=clip))
    for k, make in enumerate(extra):
        facts.append(fact(survey, people[k], make(survey, f"{survey.fingerprint} extra {k}")))
    return facts


def around(attribute, count):
    """Values of an attribute: both ends, the middle and some between."""
    size = attribute.size
    positions = [0, size - 1, size // 2, 1 % size, *((7 * k + 3) % size for k in range(count))]
    values = getattr(attribute, "values", None)
    return [{"x": values[p]} for p in positions[:count]]


def of_mechanisms(mechanisms, sizes, epsilons, count, *, extra=(), make=None):
    make = make or (lambda size, **more: Integer(0, size - 1, per=1, **more))
    found = []
    for mechanism in mechanisms:
        for size in sizes:
            for epsilon in epsilons:
                survey = Survey.design({"x": make(size, epsilon=epsilon, mechanism=mechanism)})
                attribute = survey.attributes["x"]
                found.append(
                    entry(survey, facts=told(survey, around(attribute, count), extra=extra))
                )
    return {"surveys": found}


def names(size, **more):
    return Categorical([f"c{k}" for k in range(size)], **more)


# Mechanisms --------------------------------------------------------------------------------------


def threshold():
    kinds = ["threshold", "threshold-paper", "threshold-dummy"]
    few = of_mechanisms(kinds, [2, 3, 9, 65], [0.1, 1, 4], 6, extra=[stubborn])
    wide = of_mechanisms(["threshold"], [66, 130, 1000], [0.5], 3)
    return {"surveys": few["surveys"] + wide["surveys"]}


def geometric():
    few = of_mechanisms(["geometric"], [2, 3, 10, 256, 1000], [0.1, 0.5, 1, 4, 64], 8)
    wide = of_mechanisms(["geometric"], [1 << 20], [0.0001, 0.05], 8)
    return {"surveys": few["surveys"] + wide["surveys"]}


def response():
    return of_mechanisms(
        ["randomized-response"], [2, 3, 4, 5, 17, 200], [0.1, 1, 5], 11, make=names
    )


def unary():
    five = ["a", "b", "c", "d", "e"]
    metrics = [
        None,
        SensitiveSet(["b", "d"]),
        Graph([("a", "b"), ("b", "c", 2), ("c", "d", 0.5), ("d", "e"), ("a", "e", 3)]),
        Tree({"one": ["a", "b"], "two": {"left": ["c"], "right": ["d", "e"]}}, {"left": 2}),
        DistanceMatrix(TABLE),
    ]
    found = []
    for metric in metrics:
        for epsilon in (0.5, 2):
            x = Categorical(five, epsilon=epsilon, metric=metric, mechanism="unary")
            survey = Survey.design({"x": x})
            people = [{"x": five[k % 5]} for k in range(8)]
            extra = [stubborn] if epsilon == 2 else []
            found.append(entry(survey, facts=told(survey, people, extra=extra)))
    bits = Unary(bits=[[0.75, 0.25]] * 40 + [[0.5, 0.5]] * 2 + [[0.25, 0.75]] * 38)
    survey = Survey.design({"x": names(80, epsilon=2, mechanism=bits)})
    found.append(entry(survey, facts=told(survey, around(survey.attributes["x"], 4))))
    peers = ["unary-symmetric", "unary-optimised", "histogram-threshold"]
    more = of_mechanisms(peers, [2, 5], [1, 3], 5, make=names)
    wide = of_mechanisms(peers[1:2], [70], [1], 5, make=names)
    return {"surveys": found + more["surveys"] + wide["surveys"]}


TABLE = [
    [0, 1, 2, 3, 4],
    [1, 0, 1.5, "7/3", 3],
    [2, 1.5, 0, 1, 2],
    [3, "7/3", 1, 0, 1],
    [4, 3, 2, 1, 0],
]


def matrix():
    plans = [
        Matrix(workload="ranges", strategy="prefix"),
        Matrix(workload="ranges", strategy="hierarchy", epsilons=0.25),
        Matrix(workload="values", strategy="haar", epsilons=0.25, reach=3),
        Matrix(workload="prefixes", strategy="identity", epsilons=0.5, reach=0),
        Matrix(
            workload="values",
            strategy=[[3, -2, 0, 1, 5], [0, 0, 1, 1, 2], [1, 0, 0, 0, 0], [0, 1, 0, 1, 0]],
            epsilons=[0.05, 0.1, 0.25, 0.125],
        ),
    ]
    found = []
    for plan in plans:
        survey = Survey.design({"x": Integer(10, 14, epsilon=1, mechanism=plan, per=1)})
        people = around(survey.attributes["x"], 8)
        found.append(entry(survey, facts=told(survey, people)))
    wide = Matrix(workload="ranges", strategy="prefix", reach=2)
    survey = Survey.design({"x": Integer(0, 63, epsilon=0.5, mechanism=wide, per=1)})
    found.append(entry(survey, facts=told(survey, around(survey.attributes["x"], 4))))
    peers = of_mechanisms(["prefix", "histogram-sum"], [2, 4], [0.5, 3], 6)
    return {"surveys": found + peers["surveys"]}


def table():
    tables = [
        [[WORD - 1, 1], [1, WORD - 1]],
        [[WORD >> 1, WORD >> 2, WORD >> 2], [WORD >> 2, WORD >> 1, WORD >> 2], [1, WORD - 2, 1]],
        [[5, 0, WORD - 5, 0], [7, 0, WORD - 7, 0]],
    ]
    laws = []
    for weights in tables:
        channel, facts = Table.of(weights), []
        sums = [0, *channel._lookup.below[0], *channel._lookup.below[-1]]
        words = sorted({w % WORD for s in sums for w in (s - 1, s, s + 1)})
        for x in range(channel.size):
            for word in words:
                report = channel.distribution.draw(x, Words.given([word]))
                facts.append({"position": x, "words": word(word), "report": report})
        laws.append({"law": channel.distribution.to_data(), "facts": facts})
    return {"laws": laws}


def shaped():
    """Patterns and shapes are found by a search in floats, so all of them are stated here."""
    stairs = ["0011233211", "0123333210"]
    deep = list(range(80)) + list(range(80, 0, -1))
    cases = [
        (Integer(0, 7, epsilon=1, within=2), {"patterns": ["0011221100"]}),
        (
            Integer(0, 7, epsilon=1, within=2, max_epsilon=2),
            {"patterns": ["0011221100", "0112211000"]},
        ),
        (Integer(0, 7, epsilon=0.25, per=2), {"patterns": stairs * 2}),
        (Integer(1, 12, epsilon=2, within=3, cyclic=True), {"patterns": ["000111222111"] * 8}),
        (Ordinal(["a", "b", "c"], epsilon=0.1, max_epsilon=0.1), {"patterns": ["001"]}),
        (
            Continuous(0, 60, bins=60, epsilon=0.5, per=1),
            {"patterns": [list(range(40)) + deep[-40:]]},
        ),
        (Continuous(0, 60, bins=60, epsilon=0.5, per=1), {"patterns": [deep]}),
        (
            Continuous(0, 1, points=5, epsilon=1, within=0.5, optional=1, rounding="stochastic"),
            {"patterns": ["000111222111"]},
        ),
    ]
    found = []
    for attribute, data in cases:
        x = replace(attribute, mechanism={"name": "additive", "workload": "ranges", **data})
        survey = Survey.design({"x": x})
        values = [x.low, x.high] if hasattr(x, "low") else list(x.levels)
        found.append(entry(survey, facts=told(survey, [{"x": value} for value in values * 5])))
    return {"surveys": found}


def shapes():
    within = {
        "name": "extremal",
        "workload": "ranges",
        "shapes": [
            "11011",
            "22110",
            "10110",
            "10011",
            "21101",
            "21100",
            "01101",
            "01100",
            "12110",
            "00110",
            "10112",
            "01122",
            "01121",
            "00112",
            "01110",
        ],
        "tops": [
            "5deca76fde30023a",
            "4d5fb116ecafeb9f",
            "1ed57cffb4747aff",
            "00059884c70ffdd1",
            "58a2b61af405c78e",
            "000354abfd839e49",
            "1eda3ab62b99fa25",
            "02e95c9a99918395",
            "00033450f9dd8b2f",
            "02ee166dcd8680a8",
            "589dc52f476da33d",
            "4d5c7719af34cb94",
            "0004b24d81356521",
            "0003544d0f556055",
            "28ef981dd262c986",
        ],
    }
    secret = {
        "name": "extremal",
        "workload": "values",
        "shapes": ["101", "210", "010", "012"],
        "tops": ["7064c4f30270682c", "4d6ad359bc455694", "51eeab4a60713ad1", "4d6ad359bc455694"],
    }
    ends, inner = "a02f4103d6608be6", "705fc0b6a8b5151e"
    tents = {"name": "tight-constraints", "tops": [ends, inner, "81f669e459cb3866", inner, ends]}
    alike = {"name": "tight-constraints", "tops": ["b6137867257aee58"] * 4}
    cases = [
        Integer(0, 4, epsilon=1, within=2, mechanism=within),
        Integer(0, 4, epsilon=1, max_epsilon=2, mechanism=tents, per=1),
        Categorical(["a", "b", "c"], epsilon=0.5, metric=SensitiveSet(["b"]), mechanism=secret),
        Categorical(["a", "b", "c", "d"], epsilon=2, mechanism=alike),
    ]
    found = []
    for attribute in cases:
        survey = Survey.design({"x": attribute})
        found.append(entry(survey, facts=told(survey, around(attribute, 13))))
    return {"surveys": found}


def memoised():
    """Two blurs: from no memory, and three reports from one memory, in which a value comes back."""
    tops = ["a02f4103d6608be6", "705fc0b6a8b5151e", "81f669e459cb3866"]
    tents = {"name": "tight-constraints", "tops": [*tops, tops[1], tops[0]]}
    letters = ["a", "b", "c", "d"]
    line = [(size, epsilon) for size in (2, 3, 10, 100, 1000) for epsilon in (0.1, 1, 4)]
    cases = [
        *(
            Integer(0, size - 1, epsilon=epsilon, mechanism=again(epsilon), per=1)
            for size, epsilon in line
        ),
        *(names(size, epsilon=e, mechanism=again(e)) for size in (2, 3, 17) for e in (0.1, 1, 5)),
        Integer(0, 4, epsilon=1, max_epsilon=2, mechanism=again(1, first=tents), per=1),
        Continuous(-1, 1, points=6, epsilon=2, mechanism=again(2), per=1, rounding="stochastic"),
        Continuous(0, 60, bins=30, epsilon=1, per=5, mechanism=again(0.4)),
        Ordinal(letters, epsilon=3, optional=1, mechanism=again(2, first="geometric")),
    ]
    found = []
    for attribute in cases:
        survey = Survey.design({"x": attribute})
        values = [v["x"] for v in around(attribute, 4)] if hasattr(attribute, "values") else None
        values = values or [attribute.low, attribute.high, (attribute.low + attribute.high) / 2]
        facts = told(survey, [{"x": value} for value in values])
        memory = {}
        for k, value in enumerate([values[0], values[1], values[0], values[1], values[0]]):
            seed = f"{survey.fingerprint} again {k}"
            facts.append(fact(survey, {"x": value}, Recorded(seed), memory=memory))
        found.append(entry(survey, facts=facts))
    both = {
        "age": Integer(0, 9, epsilon=1, mechanism=again(1), per=1),
        "plain": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        "region of birth": names(3, epsilon=1, mechanism=again(1)),
    }
    survey, memory, facts = Survey.design(both), {}, []
    for k in range(6):
        person = {"age": k // 2, "plain": k, "region of birth": "c1" if k < 5 else "c2"}
        seed = f"{survey.fingerprint} {k}"
        facts.append(fact(survey, person, Recorded(seed), memory=memory))
    return {"surveys": [*found, entry(survey, facts=facts)]}


def again(epsilon, **more):
    return {"name": "memoised", "each": epsilon / 4, **more}


def hadamard():
    return of_mechanisms(["hadamard"], [2, 3, 4, 7, 8, 100], [1, 3], 9, make=names)


def hashing():
    return of_mechanisms(["local-hashing"], [2, 5, 11, 100], [0.5, 1, 3], 9, make=names)


def subset():
    return of_mechanisms(["subset"], [2, 3, 6, 11, 100], [0.2, 1, 3], 9, make=names)


def levels():
    kinds = ["haar", "hierarchy-2", "hierarchy-3", "hierarchy-4-plain", "hierarchy-16"]
    signs = of_mechanisms(kinds, [2, 5, 17, 100], [1, 4], 7)
    bits = of_mechanisms(["hierarchy-2-unary", "hierarchy-4-unary"], [2, 7, 70], [1, 3], 6)
    return {"surveys": signs["surveys"] + bits["surveys"]}


def joint():
    ages = {"x": Integer(0, 6, epsilon=1, per=1), "y": Integer(10, 29, epsilon=1, per=1)}
    cases = []
    for name in ("hio", "hio-hashing"):
        for branching in (2, 5):
            how = {"name": name, "branching": branching}
            place = Categorical(["a", "b", "c"], epsilon=2)
            cases += [(ages, how, ("x", "y")), ({**ages, "c": place}, how, ("c", "x", "y"))]
            between = {"x": ages["x"], "z": Ordinal(["no", "yes"], epsilon=1), "y": ages["y"]}
            cases.append((between, how, ("x", "y")))
    found = []
    for attributes, how, names in cases:
        survey = Survey.design(SurveySpec(attributes, joint={names: how}))
        whole = {"x": [0, 3, 6], "y": [10, 17, 29], "c": ["a", "c", "b"], "z": ["no", "yes", "no"]}
        people = [
            {n: whole[n][(k + k // 3 * d) % 3] for d, n in enumerate(attributes)} for k in range(8)
        ]
        found.append(entry(survey, facts=told(survey, people)))
    return {"surveys": found}


def cells():
    """Several attributes as one; patterns and tops are stated, as above."""
    whole = {name: Integer(0, size - 1, epsilon=1, within=1) for name, size in (("x", 2), ("y", 3))}
    bins = {
        name: Continuous(0, size, bins=size, epsilon=1, within=1, max_epsilon=2)
        for name, size in (("x", 3), ("y", 2))
    }
    three = {
        "x": Integer(0, 1, epsilon=0.5, per=1),
        "y": Integer(0, 2, epsilon=0.5, cyclic=True, per=1),
        "z": Ordinal(["no", "yes"], epsilon=1),
        "c": Categorical(["a", "b"], epsilon=0.5),
    }
    lines = {"x": Integer(0, 1, epsilon=1, per=1), "y": Integer(0, 1, epsilon=0.5, per=1)}
    patterns = ["32101210121010121012", "21212321234321232101"]
    flat = ["11101011101011111011"]
    shaped = {"name": "additive", "workload": "ranges"}
    tops = ["6e5843f423fa9028", "6e5843f423fa8c28", "6e5843f423fa8c28", "6e5843f423fa9028"]
    best = {
        "name": "extremal",
        "metric": "plane",
        "workload": "ranges",
        "shapes": ["2110", "1201", "1021", "0112", "1001", "0110"],
        "tops": [*["7720eb65f042ce60"] * 4, *["18326733de05502f"] * 2],
    }
    near = {name: Integer(0, 1, epsilon=1, within=1) for name in "xy"}
    cases = [
        (whole, {**shaped, "metric": "plane", "around": [4, 5], "patterns": patterns}),
        ({**whole, "c": three["c"]}, {**shaped, "around": [4, 5], "patterns": patterns[1:]}),
        (bins, {**shaped, "metric": "plane", "around": [5, 4], "patterns": flat}),
        (three, {**shaped, "around": [2, 3, 2], "patterns": ["011010010110"]}),
        (lines, {"name": "tight-constraints", "metric": "plane", "tops": tops}),
        (near, best),
    ]
    found = []
    for attributes, how in cases:
        names = tuple(name for name in attributes if name != "z")
        names = names[: len(how.get("around", "xy"))]
        survey = Survey.design(SurveySpec(attributes, joint={names: how}))
        values = [
            [attribute.values_at(k)[0] for k in range(attribute.size)]
            for attribute in attributes.values()
        ]
        people = [dict(zip(attributes, person, strict=True)) for person in product(*values)]
        found.append(entry(survey, facts=told(survey, people)))
    return {"surveys": found}


# Values ------------------------------------------------------------------------------------------


def positions():
    """Mechanisms that keep what they are given, so that the report is the position."""
    sure = {"epsilon": 100, "mechanism": "randomized-response"}
    tenth = Continuous(0, 1, bins=10, per=0.1, **sure)
    odd = Continuous(-0.7, 2.3, bins=7, per=0.1, **sure)
    large = Continuous(1e16, 1e16 + 40, bins=17, per=1, **sure)
    placed = Continuous(edges=[-1.5, -0.1, 0, 0.1, 0.30000000000000004, 7, 20], per=0.02, **sure)
    cases = [
        (Integer(-3, 4, per=1, **sure), [-3, -2, 0, 4, 3.0, -0.0]),
        (Integer(0, 1, per=1, **sure), [0, 1, True, False, 1.0]),
        (Integer(-(2**53), 10 - 2**53, per=1, **sure), [-(2**53), 10 - 2**53, -(2.0**53)]),
        (Ordinal(["no", "yes", "ja ü", "1", "true"], **sure), ["no", "ja ü", "1", 1, True, "true"]),
        (Categorical(["\u00e9", "e\u0301", "😀", "\uffee"], **sure), ["\u00e9", "e\u0301", "😀"]),
        (tenth, edges_of(tenth)),
        (odd, edges_of(odd)),
        (large, [1e16 + 2 * k for k in range(21)]),
        (
            Continuous(
                0,
                1,
                points=5,
                per=1,
                epsilon=4000,
                mechanism="randomized-response",
                rounding="stochastic",
            ),
            reals(0, 1, 5),
        ),
        (
            Continuous(
                -0.7,
                2.3,
                points=8,
                per=1,
                epsilon=2000,
                mechanism="randomized-response",
                rounding="stochastic",
            ),
            reals(-0.7, 2.3, 8),
        ),
        (
            Continuous(
                5,
                6,
                points=2,
                per=1,
                epsilon=1000,
                mechanism="randomized-response",
                rounding="stochastic",
            ),
            reals(5, 6, 2),
        ),
        (Weight(-1, 3, private=True, epsilon=50), reals(-1, 3, 3)),
        (Weight(0, 0.1, private=True, epsilon=50), reals(0, 0.1, 3)),
        (placed, edges_of(placed)),
    ]
    found = []
    for attribute, values in cases:
        survey = Survey.design({"x": attribute})
        found.append(entry(survey, facts=told(survey, [{"x": value} for value in values])))
    clips = [-1e300, -1, -0.1, 0.95, 1.5, 7, 2**70, 1e300]
    for attribute in (
        Integer(0, 5, per=1, **sure),
        tenth,
        Continuous(0, 1, points=3, epsilon=9, rounding="stochastic", per=1),
    ):
        whole = [int(v) for v in clips] if attribute.kind == "integer" else clips
        survey = Survey.design({"x": attribute})
        people = [{"x": value} for value in whole]
        found.append(entry(survey, facts=told(survey, people, clip=True)))
    survey = Survey.design({"w": Weight(-1, 2), "x": Integer(0, 1, epsilon=1, per=1)})
    weights = [0, -0.0, 1, 2, -1, 0.1, 5e-324, 1 / 3, 1.9999999999999998]
    people = [{"w": weight, "x": k % 2} for k, weight in enumerate(weights)]
    found.append(entry(survey, facts=told(survey, people)))
    return {"surveys": found}


def optional():
    """What people may leave out: null, a blank text, or no entry at all."""
    kinds = [
        (Integer(-3, 4, epsilon=1, mechanism="geometric", optional=2, per=1), [-3, 0, 4, 3.0]),
        (Integer(0, 98, epsilon=1, per=5, mechanism="threshold", optional=0.5), [0, 49, 98]),
        (Ordinal(["no", "yes", "ja"], epsilon=1, mechanism="threshold", optional=1), ["no", "ja"]),
        (
            Categorical(["a", "b"], epsilon=1, mechanism="randomized-response", optional=3),
            ["a", "b"],
        ),
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
                -0.7,
                2.3,
                points=8,
                epsilon=1,
                mechanism="geometric",
                optional=1,
                per=1,
                rounding="stochastic",
            ),
            [0.8, 2],
        ),
        (Weight(-1, 3, private=True, epsilon=1, optional=0.1), [-1, 1, 2.5]),
    ]
    found = []
    placed = Continuous(
        edges=[-0.5, 0.5, 3, 7.25], epsilon=1, mechanism="threshold", optional=1, per=1
    )
    for attribute, values in [*kinds, (placed, [0, 3.375])]:
        survey = Survey.design({"x": attribute})
        people = [*({"x": value} for value in values), {"x": None}, {}, {"x": ""}, {"x": "  "}]
        found.append(entry(survey, facts=told(survey, people)))
    both = {name: attribute for name, (attribute, _) in zip("abcdefgh", kinds, strict=True)}
    both["w"], both["z"] = (
        Weight(0, 1),
        Integer(0, 3, epsilon=1, mechanism="randomized-response", per=1),
    )
    survey = Survey.design(SurveySpec(both, metric=Lp(2)))
    always = {"w": 0.25, "z": 2}
    whole = {name: values[0] for name, (_, values) in zip("abcdefgh", kinds, strict=True)}
    people = [always, {**whole, **always}, {**whole, **always, "c": None}, {**always, "h": 1}]
    values = [
        {"person": {**whole, **always, "a": 9}, "refused": "range"},
        {"person": {**whole, **always, "d": "c"}, "refused": "name"},
        {"person": {**whole, "w": 0.25}, "refused": "missing"},
        {"person": {**whole, "z": 2}, "refused": "missing"},
    ]
    found.append(entry(survey, facts=told(survey, people), values=values))
    return {"surveys": found}


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
    values = [low + step * (k + share) for k in range(points - 1) for share in shares]
    values += [high, next_to(high, -1), next_to(low, 1)]
    return [value for value in values if low <= value <= high]


def mixed():
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
            100, 220, points=13, epsilon=1, per=10, mechanism="geometric", rounding="stochastic"
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
    person = {"age": 33, "region": "east", "income": 49_999.99}
    other = {"mood": "fair", "height": 171.3, "w": 1.25, "v": 7}
    odd = {'a "b"\\': 3, "😀": 0, "\uffee": 2, "10": 1, "9": 2}
    cases = [
        (three, None, person),
        (three, Lp(2), person),
        (three, Lp(1.1), person),
        (three, Lp(float("inf")), person),
        (more, None, other),
        ({**three, **more}, Lp(3), {**person, **other}),
        (strange, None, odd),
    ]
    edges = [-0.5, 0.5, 1_000, 2_000, 5_000, 10_000, 99_999]
    for mechanism in ("geometric", "threshold", "unary"):
        gain = Continuous(edges=edges, epsilon=1, per=1_000, mechanism=mechanism)
        cases.append(({"gain": gain}, None, {"gain": 2174}))
    found = []
    for attributes, metric, one in cases:
        survey = Survey.design(SurveySpec(attributes, metric=metric))
        found.append(entry(survey, facts=told(survey, [one] * 12)))
    return {"surveys": found}


# What is refused ---------------------------------------------------------------------------------


def bad_reports():
    surveys = [
        Survey.design(
            {
                "x": Integer(0, 4, epsilon=1, mechanism="randomized-response", per=1),
                "w": Weight(0, 1),
            }
        ),
        Survey.design({"x": Integer(0, 5, epsilon=1, mechanism="threshold", per=1)}),
        Survey.design({"x": Integer(0, 4, epsilon=1, mechanism="hierarchy-2-unary", per=1)}),
        Survey.design(
            {"x": Integer(0, 2, epsilon=1, mechanism=Matrix(strategy="prefix", reach=1), per=1)}
        ),
        Survey.design({"x": Integer(0, 4, epsilon=1, mechanism="local-hashing", per=1)}),
        Survey.design({"x": Integer(0, 4, epsilon=1, mechanism="haar", per=1)}),
        Survey.design({"x": Integer(0, 6, epsilon=1, mechanism="subset", per=1)}),
    ]
    found = []
    for survey in surveys:
        person = {"x": 2, "w": 0.5} if "w" in survey.attributes else {"x": 2}
        good = fact(survey, person, Recorded(survey.fingerprint))
        report, bad = bytes.fromhex(good["report"]), []
        bits = survey.report_bits
        for flip in (*range(0, 8, 3), *range(8, 136, 21), 135):
            bad.append((flipped(report, flip), "version" if flip < 8 else "survey"))
        bad += [(cut, "length") for cut in (b"", report[:1], report[:16], report[:-1])]
        bad += [
            (report + b"\0", "length"),
            (report * 2, "length"),
            (b"\1" + report[1:17], "version"),
        ]
        bad += [(b"{" + report, "version"), (flipped(report, 100)[:-1], "survey")]
        bad += [(flipped(report, 100) + b"\0", "survey")]
        bad += [(flipped(report, 136 + b), "padding") for b in range(bits, -(-bits // 8) * 8)]
        bad += [(flipped(flipped(report, b), 0), "version") for b in (8, 136)]
        body = range(1 << min(bits, 8))
        wide = 8 * (len(report) - 17)
        for low in body:
            raw = low.to_bytes(len(report) - 17, "little")
            if bits <= 8 and not sendable(survey, low):
                bad.append((report[:17] + raw, "range"))
        if "w" in survey.attributes:
            for double in ("000000000000f07f", "000000000000f8ff", "000000000000f0bf"):
                whole = 4 | int.from_bytes(bytes.fromhex(double), "little") << 3
                bad.append((report[:17] + whole.to_bytes(wide // 8, "little"), "range"))
        refused = [{"report": blob.hex(), "refused": reason} for blob, reason in bad]
        found.append(entry(survey, facts=[good], reports=refused))
    return {"surveys": found}


def flipped(blob, bit):
    changed = bytearray(blob)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def sendable(survey, number):
    """Whether some device could send this field: it is among all that its channel lists."""
    (field,) = survey.fields.values()
    every = field.every()
    if every.ndim == 2:
        return number in {int.from_bytes(row.tobytes(), "little") for row in every}
    return number in every.tolist()


def bad_values():
    survey = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=1),
            "yes": Integer(0, 1, epsilon=1, per=1),
            "place": Categorical(["here", "there"], epsilon=1),
            "mood": Ordinal(["bad", "good"], epsilon=1),
            "income": Continuous(0, 10, bins=5, epsilon=1, per=1),
            "height": Continuous(
                0, 1, points=3, epsilon=1, mechanism="threshold", rounding="stochastic", per=1
            ),
            "w": Weight(0, 1),
            "v": Weight(0, 1, private=True, epsilon=1),
        }
    )
    good = {"age": 3, "yes": 1, "place": "here", "mood": "bad"}
    good |= {"income": 5, "height": 0.5, "w": 0.25, "v": 1}
    bad = [("place", value, "name") for value in ("", "Here", "here ", "nowhere", "0", 5, True)][1:]
    bad += [("mood", value, "name") for value in ("Bad", "worse", 0, False)]
    bad += [(name, value, "kind") for name in ("place", "mood") for value in (0.5, [1], {"a": 1})]
    numbers = ("age", "yes", "income", "height", "w", "v")
    bad += [(name, None, "missing") for name in good]
    bad += [(name, "", "missing") for name in ("place", "age", "income")]
    bad += [(name, value, "kind") for name in numbers for value in ("old", "0x1", [1], {})]
    bad += [(name, True, "kind") for name in numbers if name != "yes"]
    bad += [(name, value, "whole") for name in ("age", "yes") for value in (0.5, 1e-9, 98.99)]
    bad += [(name, value, "range") for name in numbers for value in (-1, 100, 2**70, -5e300)]
    bad += [(name, -5e-324, "range") for name in ("income", "height", "w", "v")]
    bad += [("income", 10.000000000000002, "range"), ("height", 1.0000000000000002, "range")]
    values = [{"person": {**good, name: value}, "refused": why} for name, value, why in bad]
    for name in good:
        rest = {key: value for key, value in good.items() if key != name}
        values.append({"person": rest, "refused": "missing"})
    clipped = [("age", 0.5, "whole"), ("place", "x", "name"), ("income", None, "missing")]
    for name, value, why in clipped:
        values.append({"person": {**good, name: value}, "clip": True, "refused": why})
    one = fact(survey, good, Recorded("good"))
    return {"surveys": [entry(survey, facts=[one], values=values)]}


def bad_files():
    good = '[attributes.x]\nkind = "integer"\nlow = 0\nhigh = 9\nepsilon = 1\n'
    head = "metricldp = 2\n\n"
    changes = {
        "version 1": "metricldp = 1\n\n" + good,
        "version 3": "metricldp = 3\n\n" + good,
        "version as a decimal": "metricldp = 2.0\n\n" + good,
        "version as text": 'metricldp = "2"\n\n' + good,
        "no version": good,
        "no attributes": head,
        "an empty table of attributes": head + "[attributes]\n",
        "an attribute that is no table": head + "[attributes]\nx = 5\n",
        "an unknown entry of the survey": head + 'title = "x"\n' + good,
        "not TOML": head + "[attributes.x\n",
        "a key twice": head + good + "low = 1\n",
        "p below 1": head + "[metric]\np = 0.5\n\n" + good,
        "p as other text": head + '[metric]\np = "many"\n\n' + good,
        "p infinite as a number": head + "[metric]\np = inf\n\n" + good,
        "another entry of the norm": head + "[metric]\np = 2\nq = 3\n\n" + good,
        "only a public weight": head + '[attributes.w]\nkind = "weight"\nlow = 0\nhigh = 1\n',
        "an equals sign in a name": head + good.replace("s.x]", 's."a=b"]'),
        "an empty name": head + good.replace("s.x]", 's.""]'),
        "a line break in a name": head + good.replace("s.x]", 's."a\\nb"]'),
    }
    entries = {
        "unknown kind": ('"integer"', '"number"'),
        "no kind": ('kind = "integer"\n', ""),
        "unknown entry": ("low = 0", "low = 0\nlowest = 0"),
        "no low": ("low = 0\n", ""),
        "no epsilon": ("epsilon = 1\n", ""),
        "low is high": ("low = 0", "low = 9"),
        "low above high": ("low = 0", "low = 10"),
        "low with a fraction": ("low = 0", "low = 0.5"),
        "low as text": ("low = 0", 'low = "0"'),
        "low as a truth value": ("low = 0", "low = false"),
        "high beyond 2^53": ("high = 9", "high = 9007199254740993"),
        "too many positions": ("high = 9", "high = 1048576"),
        "epsilon 0": ("epsilon = 1", "epsilon = 0"),
        "epsilon below 0": ("epsilon = 1", "epsilon = -1"),
        "epsilon infinite": ("epsilon = 1", "epsilon = inf"),
        "epsilon not a number": ("epsilon = 1", "epsilon = nan"),
        "epsilon as text": ("epsilon = 1", 'epsilon = "1"'),
        "epsilon too small": ("epsilon = 1", "epsilon = 1e-13"),
        "epsilon too large": ("epsilon = 1", "epsilon = 1025"),
        "per 0": ("epsilon = 1", "epsilon = 1\nper = 0"),
        "unknown mechanism": ("epsilon = 1", 'epsilon = 1\nmechanism = "magic"'),
        "a tree of one child": ("epsilon = 1", 'epsilon = 1\nmechanism = "hierarchy-1"'),
        "mechanism without a name": ("epsilon = 1", "epsilon = 1\nmechanism = {reach = 1}"),
        "saved data of another": (
            "epsilon = 1",
            'epsilon = 1\nmechanism = {name = "geometric", reach = 1}',
        ),
        "bits that tell too much": (
            "high = 9\nepsilon = 1",
            'high = 1\nepsilon = 1\nmechanism = {name = "unary", bits = [[1, 1], [1, 1]]}',
        ),
        "epsilons that tell too much": (
            "epsilon = 1",
            'epsilon = 1\nmechanism = {name = "matrix", strategy = "prefix", epsilons = 1.5}',
        ),
        "a strategy that tells too little": (
            "high = 9\nepsilon = 1",
            "high = 2\nepsilon = 1\n"
            'mechanism = {name = "matrix", strategy = [[1, 0, 0]], epsilons = 0.1}',
        ),
        "unknown metric": ("epsilon = 1", 'epsilon = 1\nmetric = {kind = "circle"}'),
        "a metric about other values": (
            "epsilon = 1",
            'epsilon = 1\nmetric = {kind = "sensitive-set", values = [10]}',
        ),
        "a graph in two parts": (
            "high = 9\nepsilon = 1",
            'high = 3\nepsilon = 1\nmetric = {kind = "graph", edges = [[0, 1], [2, 3]]}',
        ),
    }
    changes |= {why: head + good.replace(*change) for why, change in entries.items()}
    others = {
        "a name twice": 'kind = "categorical"\ncategories = ["a", "a"]\nepsilon = 1',
        "one name": 'kind = "ordinal"\nlevels = ["a"]\nepsilon = 1',
        "an empty category": 'kind = "categorical"\ncategories = ["a", ""]\nepsilon = 1',
        "a category without an order": 'kind = "categorical"\ncategories = ["a", "b"]\n'
        'epsilon = 1\nmechanism = "geometric"',
        "one bin": 'kind = "continuous"\nlow = 0\nhigh = 1\nbins = 1\nepsilon = 1',
        "bins too thin": 'kind = "continuous"\nlow = 1e16\nhigh = 1e16\nbins = 4\nepsilon = 1',
        "one bin by edges": 'kind = "continuous"\nedges = [0, 1]\nepsilon = 1',
        "edges that do not rise": 'kind = "continuous"\nedges = [0, 2, 2]\nepsilon = 1',
        "an infinite edge": 'kind = "continuous"\nedges = [0, 1, inf]\nepsilon = 1',
        "edges and bins": 'kind = "continuous"\nedges = [0, 1, 2]\nbins = 2\nepsilon = 1',
        "edges that end elsewhere": 'kind = "continuous"\nedges = [0, 1, 2]\nhigh = 3\nepsilon = 1',
        "edges too far apart": 'kind = "continuous"\nedges = [0, 1, 2, 1e18]\nepsilon = 1',
        "one point": 'kind = "real"\nlow = 0\nhigh = 1\npoints = 1\nepsilon = 1',
        "infinite ends": 'kind = "real"\nlow = 0\nhigh = inf\npoints = 3\nepsilon = 1',
        "a public weight with epsilon": 'kind = "weight"\nlow = 0\nhigh = 1\nepsilon = 1',
        "a public weight that is optional": 'kind = "weight"\nlow = 0\nhigh = 1\noptional = 1',
        "optional as text": 'kind = "real"\nlow = 0\nhigh = 1\npoints = 3\nepsilon = 1\n'
        'optional = "yes"',
        "optional 0": 'kind = "real"\nlow = 0\nhigh = 1\npoints = 3\nepsilon = 1\noptional = 0',
        "a private weight without": 'kind = "weight"\nlow = 0\nhigh = 1\nprivate = true',
    }
    changes |= {why: f"{head}[attributes.x]\n{entry}\n" for why, entry in others.items()}
    two = head + good + "\n" + good.replace("s.x]", "s.y]")
    block = '[[joint]]\nattributes = ["x", "y"]\nmechanism = "hio"\n'
    changes |= {
        "two joint tables of the same attributes": f"{two}\n{block}\n{block}",
        "two joint tables of an attribute": f"{two}\n{block}\n" + block.replace('"y"', '"x"'),
        "a joint table of one attribute": f"{two}\n" + block.replace(', "y"', ""),
        "consistent as a number": f"{two}\n"
        + block.replace('"hio"', '{name = "hio", consistent = 1}'),
        "one branch": f"{two}\n" + block.replace('"hio"', '{name = "hio", branching = 1}'),
    }
    toml = [{"format": "toml", "because": why, "text": text} for why, text in changes.items()]
    text = '{"metricldp":2,"attributes":{"x":{"kind":"integer","low":0,"high":9,"epsilon":1}}}'
    in_json = {
        "not JSON": text[:-1],
        "a list": f"[{text}]",
        "a key twice": text.replace('"low":0', '"low":0,"low":1'),
        "NaN": text.replace('"epsilon":1', '"epsilon":NaN'),
        "infinite p as a number": text.replace("{", '{"metric":{"p":Infinity},', 1),
        "null": text.replace('"epsilon":1', '"epsilon":null'),
    }
    toml += [{"format": "json", "because": why, "text": text} for why, text in in_json.items()]
    return {"files": [{**one, "refused": "survey"} for one in toml]}


# The ground --------------------------------------------------------------------------------------


def words():
    calls = [("integer", bits) for bits in (0, 1, 7, 32, 63, 64)]
    calls += [("toss", t) for t in (0, 1, 1 << 63, WORD - 1, WORD)]
    calls += [("uniform", bound) for bound in (1, 2, 3, 5, 64, 65, 1000, (1 << 63) + 1, WORD)]
    calls += [("rounded", p) for p in (0, 1, 1 << 31, 1 << 32, (5 << 32) + 12345, (9 << 32) - 1)]
    calls += [
        ("lanes", t, count)
        for t in (0, 1 << 63, 3 << 62, 1 << 60, 0xAAAAAAAAAAAAAAAA, 1 << 20, WORD)
        for count in (1, 3, 64, 65, 130)
    ]
    found = []
    for call, *arguments in calls:
        for k in range(3 if call != "lanes" else 2):
            stream = Recorded(f"{call} {arguments} {k}")
            drawn = Words(stream)
            result = getattr(drawn, call)(*arguments)
            said = [f"{argument:x}" for argument in arguments]
            words = stream.words(drawn.used)
            found.append({"call": call, "arguments": said, "words": words, "found": f"{result:x}"})
    for word in (0, 4, 5, 6, WORD - 1):
        one = {"call": "toss", "arguments": ["5"], "words": word(word)}
        found.append({**one, "found": f"{Words.given([word]).toss(5):x}"})
    return {"words": found}


def canonical_texts():
    numbers = [0, -0.0, 1, -1, 1.0, 0.1, 0.5, 100, 1e20, 1e21, 1.5e21, 123456789012345680000]
    numbers = [float(n) if abs(n) > 2**53 else n for n in numbers]
    numbers += [1e-5, 1e-6, 1e-7, 1.5e-7, 0.000123, 5e-324, 1.7976931348623157e308, 2**53]
    numbers += [333333333.3333333, 1 / 3, 4.35, 1e23, 9007199254740994.0, 295147905179352830000.0]
    texts = [
        "",
        "a",
        '"',
        "\\",
        "/",
        "\b\t\n\f\r",
        "\x00\x1f\x7f",
        "\u00e9",
        "e\u0301",
        "€",
        "😀",
        "\u2028",
    ]
    data = [*numbers, *texts, True, False, None, [], {}, [1, [2, {}]]]
    data += [{"b": 1, "a": 2, "10": 3, "9": 4}, {"😀": 1, "\uffee": 2, "é": 3, "z": 4, "": 5}]
    return {"canonical": [{"data": one, "text": canonical(one)} for one in data]}


def to_json(data):
    """A file of facts, each on a line of its own."""
    return lines({"metricldp-vectors": FORMAT, **data}, "") + "\n"


def lines(value, indent):
    inner = indent + " "
    if is_list_of_facts(value):
        rows = ",\n".join(inner + lines(item, inner) for item in value)
        return f"[\n{rows}\n{indent}]"
    if isinstance(value, dict) and any(map(is_list_of_facts, value.values())):
        pairs = (f"{inner}{json.dumps(key)}: {lines(v, inner)}" for key, v in value.items())
        return "{\n" + ",\n".join(pairs) + f"\n{indent}}}"
    return json.dumps(value, ensure_ascii=False)


def is_list_of_facts(value):
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


FILES = {
    "threshold": threshold,
    "geometric": geometric,
    "response": response,
    "unary": unary,
    "matrix": matrix,
    "table": table,
    "shaped": shaped,
    "shapes": shapes,
    "memoised": memoised,
    "hadamard": hadamard,
    "hashing": hashing,
    "subset": subset,
    "levels": levels,
    "joint": joint,
    "cells": cells,
    "positions": positions,
    "mixed": mixed,
    "optional": optional,
    "refused-reports": bad_reports,
    "refused-values": bad_values,
    "refused-surveys": bad_files,
    "words": words,
    "canonical": canonical_texts,
}


def made(name):
    return to_json(FILES[name]())


if __name__ == "__main__" and "--write" in sys.argv:
    FOLDER.mkdir(exist_ok=True)
    for topic in FILES:
        (FOLDER / f"{topic}.json").write_text(made(topic), "utf-8")
