"""Facts for clients: manifests, people and words, and the bytes that must come out.

The small ones are those of vectors/*.json, which stay for ever. The many are made here, the same
ones each time: every law the client has, in many sizes, at many epsilons, with words at and around
the thresholds, values at and around the edges of bins, and values that must be refused.
"""

import json
import math
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path

from metricldp import (
    Categorical,
    Continuous,
    Graph,
    Integer,
    InvalidValueError,
    Lp,
    Matrix,
    Ordinal,
    SensitiveSet,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.reports.manifest import manifest, pin, unknown_laws
from metricldp_core.device import Device
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words
from vectors import Recorded, fact

FOLDER = Path(__file__).parents[2] / "vectors"
REFUSED = (None, "", "x", 0.5, 10**9, -(10**9), [1], True)
"""Values of which most are refused by most attributes."""


def known(survey):
    """Whether the client has all of its laws."""
    return not unknown_laws(survey)


def committed():
    """The facts of vectors/ that are about surveys the client knows, and those about its words."""
    found = {"surveys": [], "words": [], "laws": []}
    for path in sorted(FOLDER.glob("*.json")):
        data = json.loads(path.read_text("utf-8"))
        for one in data.get("surveys", ()):
            survey = Survey.from_dict(one["survey"])
            if known(survey):
                facts = {key: one[key] for key in ("facts", "values") if key in one}
                found["surveys"].append({"manifest": manifest(survey), **facts})
        found["words"] += data.get("words", [])
        found["laws"] += data.get("laws", [])
    return found


# The many ----------------------------------------------------------------------------------------


ONE_INTEGER = ("geometric", "threshold", "randomized-response")


def attributes():
    """Every law in sizes and epsilons; what a search would find is stated."""
    for size, epsilon in product((2, 3, 10, 33, 100, 257), (0.1, 1, 3)):
        for mechanism in ONE_INTEGER:
            yield Integer(5, size + 4, epsilon=epsilon, mechanism=mechanism, per=1)
    yield Integer(0, (1 << 20) - 1, epsilon=0.01, mechanism="geometric", per=1)
    yield Integer(-(2**53), 99 - 2**53, epsilon=1, per=7, mechanism="geometric")
    for size, epsilon in product((2, 5, 40, 70), (0.5, 2)):
        names = [f"c{k}" for k in range(size)]
        yield Categorical(names, epsilon=epsilon, mechanism="unary")
        yield Categorical(names, epsilon=epsilon, metric=SensitiveSet(["c1"]), mechanism="unary")
        yield Ordinal(names, epsilon=epsilon, optional=1, mechanism="threshold")
    edges = [("a", "b"), ("b", "c", 2), ("c", "d", 0.5), ("d", "e"), ("a", "e", 3)]
    yield Categorical(list("abcde"), epsilon=1, metric=Graph(edges), mechanism="unary")
    for size, strategy in product((4, 9, 32), ("prefix", "identity", "haar", "hierarchy")):
        plan = Matrix(workload="ranges", strategy=strategy, reach=size % 3)
        yield Integer(0, size - 1, epsilon=1, mechanism=plan, per=1)
    for size, step in product((3, 8, 30), (1, 2)):
        yield Integer(
            0, size - 1, epsilon=1, max_epsilon=step, mechanism=_pattern(size, step), per=1
        )
        yield Integer(0, size - 1, epsilon=0.5, within=2, mechanism=_stairs(size))
    ring = {"name": "additive", "workload": "ranges", "patterns": ["000111222111"] * 8}
    yield Integer(1, 12, epsilon=2, within=3, cyclic=True, mechanism=ring)
    two = {
        "name": "additive",
        "workload": "ranges",
        "patterns": [[*range(70), *range(70, 0, -1)]] * 2,
    }
    yield Integer(0, 69, epsilon=0.25, mechanism=two, per=1)
    for epsilon in (0.5, 1, 4):
        yield Integer(0, 3, epsilon=epsilon, mechanism="square-wave", per=1)
        yield Integer(0, 7, epsilon=epsilon, mechanism="condensed", per=1)
        yield Integer(0, 7, epsilon=epsilon, mechanism="tight-constraints", per=1)
    for bins, mechanism in product((2, 7, 10, 20), ONE_INTEGER):
        yield Continuous(-0.7, 2.3, bins=bins, epsilon=1, mechanism=mechanism, per=1)
    yield Continuous(
        edges=[-0.5, 0.1, 0.30000000000000004, 3, 7.25], epsilon=1, mechanism="unary", per=1
    )
    yield Continuous(0, 1, bins=10, epsilon=9, mechanism="geometric", optional=0.5, per=1)
    for points, mechanism in product((2, 5, 13), ONE_INTEGER):
        yield Continuous(
            -1, 2.5, points=points, epsilon=2, mechanism=mechanism, rounding="stochastic", per=1
        )
    yield Weight(-1, 3, private=True, epsilon=1)
    yield Weight(0, 0.1, private=True, epsilon=0.2, optional=True)


def _pattern(size, step):
    """A roof over a ring that is longer than the domain, not higher than max_epsilon."""
    around = 2 * size + 2
    depths = [min(k, around - k, step) for k in range(around)]
    return {"name": "additive", "workload": "ranges", "patterns": [depths] * 2}


def _stairs(size):
    around = 4 * size
    depths = [min(k, around - k) // 2 for k in range(around)]
    return {"name": "additive", "workload": "ranges", "patterns": [depths]}


def joined():
    """Several attributes: norms, and cells."""
    three = {
        "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
        "place": Categorical(
            ["north", "south", "east"], epsilon=2, mechanism="randomized-response"
        ),
        "income": Continuous(0, 2e5, bins=20, epsilon=1, per=1e4, mechanism="threshold"),
        "height": Continuous(
            100,
            220,
            points=13,
            epsilon=1,
            per=10,
            mechanism="geometric",
            optional=1,
            rounding="stochastic",
        ),
        "w": Weight(0.5, 2),
    }
    for p in (1, 2, 1.1, math.inf):
        yield Survey.design(SurveySpec(three, metric=Lp(p)))
    small = {"x": Integer(0, 1, epsilon=1, within=1), "y": Integer(0, 2, epsilon=1, within=1)}
    patterns = ["32101210121010121012", "21212321234321232101"]
    for metric in ("plane", "sum"):
        how = {"name": "additive", "workload": "ranges", "metric": metric}
        how |= {"around": [4, 5], "patterns": patterns}
        yield Survey.design(SurveySpec({**small, "z": three["age"]}, joint={("x", "y"): how}))
    lines = {"x": Integer(0, 1, epsilon=1, per=1), "y": Integer(0, 1, epsilon=0.5, per=1)}
    tops = ["6e5843f423fa9028", "6e5843f423fa8c28", "6e5843f423fa8c28", "6e5843f423fa9028"]
    how = {"name": "tight-constraints", "metric": "plane", "tops": tops}
    yield Survey.design(SurveySpec(lines, joint={("x", "y"): how}))


@lru_cache(maxsize=1)
def surveys():
    return [*(Survey.design({"x": attribute}) for attribute in attributes()), *joined()]


def people(survey, count):
    """Values at ends, in the middle and around edges; in turn none where that may be."""
    columns = {}
    for name, attribute in survey.asked.items():
        values = [*_values(attribute)]
        columns[name] = values + [None] * (attribute.optional is not None)
    for k in range(count):
        yield {
            name: values[(k * (2 * place + 1) + k // len(values)) % len(values)]
            for place, (name, values) in enumerate(columns.items())
        }


def _values(attribute):
    if hasattr(attribute, "values"):
        at = {0, 1, attribute.size // 2, attribute.size - 1, attribute.size // 3}
        return [attribute.values[k] for k in sorted(at) if k < attribute.size]
    low, high = attribute.values_at(0)[0], attribute.values_at(attribute.size - 1)[1]
    found = [low, high, (low + high) / 2, low + (high - low) / 3]
    size = attribute.size - (not attribute.in_bins)
    for k in range(1, size, max(1, size // 5)):
        edge = attribute.values_at(k)[0]
        found += [edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf)]
        found.append(edge + (high - low) / size * 1.5 * 2.0**-32)
    return [value for value in found if low <= value <= high]


def near(marks, seed):
    """Words at, just below and just above thresholds, among others."""
    stream, words = Recorded(f"near {seed}"), []
    for _ in range(24):
        kind, which, *rest = stream.draw(10)
        mark = marks[which % len(marks)]
        chosen = [mark, mark - 1, mark + 1, 0, WORD - 1]
        words.append(
            chosen[kind % 7] % WORD if kind % 7 < 5 else int.from_bytes(bytes(rest), "big")
        )
    return Recorded(seed, words)


def many(each=120, start=0, step=1):
    """Surveys with so many facts each; the same ones for the same numbers."""
    for survey in surveys()[start::step]:
        text = manifest(survey)
        marks = [int(word, 16) for word in text.split('"') if len(word) == 16 and _hex(word)]
        facts = []
        for k, person in enumerate(people(survey, each)):
            seed = f"{survey.fingerprint} many {k}"
            stream = near(marks, seed) if k % 3 == 2 else Recorded(seed)
            facts.append(fact(survey, person, stream, clip=k % 7 == 3))
        yield {"manifest": text, "pin": pin(text), "facts": facts, "values": refused(survey)}


def _hex(word):
    return not set(word) - set("0123456789abcdef")


def refused(survey):
    """What Python refuses, and with which word."""
    found, device = [], Device(survey.client_manifest)
    good = next(iter(people(survey, 1)))
    for name, value in product(survey.asked, REFUSED):
        person = {**good, name: value}
        try:
            device.from_tape(person, Words(Recorded("refused")))
        except InvalidValueError as wrong:
            found.append({"person": person, "refused": wrong.reason})
    return found


def broken(one):
    """The same with one wrong digit in one report: whoever checks facts must notice."""
    facts = [dict(fact) for fact in one["facts"]]
    last = facts[-1]["report"]
    facts[-1]["report"] = last[:-1] + ("1" if last[-1] == "0" else "0")
    return {**one, "facts": facts}


def main(path, *numbers):
    data = {**committed(), "many": list(many(*(int(number) for number in numbers)))}
    Path(path).write_text(json.dumps(data), "utf-8")
    print(sum(len(one["facts"]) + len(one["values"]) for one in data["many"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
