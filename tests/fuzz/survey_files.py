"""Survey files: real ones with something changed, and texts that are none."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from functools import cache
from pathlib import Path

from fuzzing import Wrong, tried

from metricldp import Integer, Survey
from metricldp.survey import files

VECTORS = Path(__file__).parents[2] / "vectors"
AT_ONCE = 500
_LONGEST = 700
"""Letters of the surveys that are changed."""
_PROVED = 60
"""One in so many surveys that are accepted is proved, if it is small."""


@cache
def real():
    """Surveys that are good, as data."""
    found = []
    for path in sorted(VECTORS.glob("*.json")):
        for entry in json.loads(path.read_text("utf-8")).get("surveys", ()):
            if len(json.dumps(entry["survey"])) < _LONGEST:
                found.append(entry["survey"])
    auto = {"kind": "integer", "low": 0, "high": 9, "epsilon": 1, "mechanism": "auto"}
    bins = {"kind": "continuous", "low": 0, "high": 1, "bins": "auto", "epsilon": 1}
    found += [{"metricldp": 2, "attributes": {"x": auto}}] * 5
    found += [{"metricldp": 2, "attributes": {"x": bins}}] * 5
    return found


@cache
def compiled():
    """The loops that search are compiled once on a machine; no case is to blame for that."""
    Survey.design({"x": Integer(0, 4, epsilon=1, within=2, mechanism="extremal")})


NUMBERS = [0, 1, -1, 2, 3, 7, 64, 100, 0.5, 1e-5, 1e-12, 1e-320, 1e308, -1e308, math.inf, -math.inf]
NUMBERS += [
    math.nan,
    2**31,
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
    10**400,
    1.5,
    1000,
    20,
]
TEXTS = ["", "x", "auto", "integer", "response", "unary", "matrix", "geometric", "threshold", "inf"]
TEXTS += [
    "nan",
    "1/3",
    "7/0",
    "haar",
    "hio",
    "planar-laplace",
    "hierarchy-3",
    "hierarchy-0",
    "9" * 400,
]
TEXTS += ["ranges", "prefixes", "values", "identity", "hierarchy", "graph", "tree", "table", "\x00"]
TEXTS += [
    "shaped",
    "tents",
    "plane",
    "sum",
    "given",
    "0011221100",
    "sensitive",
    "capped",
    "within",
    "ring",
    "a\nb",
    "ü😀",
    "\ud800",
    "=",
    "+",
    " ",
    "x=response",
]
KEYS = [
    "kind",
    "low",
    "high",
    "epsilon",
    "per",
    "bins",
    "points",
    "levels",
    "categories",
    "private",
]
KEYS += [
    "metric",
    "mechanism",
    "name",
    "p",
    "edges",
    "optional",
    "workload",
    "strategy",
    "epsilons",
]
KEYS += [
    "within",
    "cap",
    "cyclic",
    "patterns",
    "around",
    "shapes",
    "tops",
    "reach",
    "bits",
    "branching",
    "consistent",
    "attributes",
    "joint",
    "metricldp",
    "",
    "x",
    "of",
]


def value(random, depth=0):
    kind = random.randrange(10)
    if kind < 4:
        return random.choice(NUMBERS)
    if kind < 6:
        return random.choice(TEXTS)
    if kind == 6:
        return random.choice([True, False, None, [], {}])
    if depth > 3:
        return random.choice(NUMBERS)
    if kind < 9:
        return [value(random, depth + 1) for _ in range(random.choice([1, 2, 3, 5]))]
    return {random.choice(KEYS): value(random, depth + 1) for _ in range(random.choice([1, 2]))}


def changed(random, data):
    """The same with something else in some place."""
    data = copy.deepcopy(data)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        places = list(_places(data))
        if not places:
            return value(random)
        inner = [place for place in places if "kind" in place[0] or isinstance(place[0], list)]
        inside, key = random.choice(inner if inner and random.random() < 0.8 else places)
        how = random.randrange(9)
        if how == 0:
            del inside[key]
        elif how == 1 and isinstance(inside, dict):
            inside[random.choice(KEYS)] = inside.pop(key)
        elif how == 2 and isinstance(inside, dict):
            inside[random.choice(KEYS)] = value(random)
        elif how == 3 and isinstance(inside, list):
            inside.insert(random.randrange(len(inside) + 1), copy.deepcopy(inside[key]))
        elif how == 4:
            _, other = random.choice(list(_pairs(random.choice(real()))))
            inside[key] = copy.deepcopy(other)
        elif how == 5 and isinstance(inside[key], int | float):
            inside[key] = _moved(random, inside[key])
        else:
            inside[key] = value(random)
    return data


def _moved(random, number):
    try:
        return random.choice(
            [number + 1, number - 1, -number, number * 10, number / 10, number * 1e9]
        )
    except OverflowError:
        return -number


def _places(data):
    """Where something stands: what holds it, and its key or place."""
    inner = data.items() if isinstance(data, dict) else enumerate(data)
    for key, inside in list(inner):
        yield data, key
        if isinstance(inside, dict | list):
            yield from _places(inside)


def _pairs(data):
    return ((key, inside[key]) for inside, key in _places(data))


def text(random):
    """A file: how it ends, and what stands in it."""
    form = random.choice(["toml", "json"])
    data = random.choice(real())
    if random.random() < 0.85:
        data = changed(random, data)
    try:
        said = files.to_json(data) if form == "json" else files.to_toml(data)
    except Exception:  # what is no survey need not be writable
        said = json.dumps(data)
    if random.random() < 0.25:
        said = _scrambled(random, said)
    return form, said


def _scrambled(random, said):
    for _ in range(random.choice([1, 1, 2, 8])):
        at, end = sorted(random.randrange(len(said) + 1) for _ in range(2))
        how = random.randrange(6)
        if how == 0:
            said = (
                said[:at]
                + chr(random.choice([0, 9, 10, 34, 91, 92, 127, 233, 0x1F600]))
                + said[at:]
            )
        elif how == 1:
            said = said[:at] + said[min(end, at + 3) :]
        elif how == 2:
            said = said[:at]
        elif how == 3:
            said = said[:at] + said[at:end] + said[at:]
        elif how == 4:
            said = said[:at] + random.choice("[]{}\",:=0123456789eE+-.#'\n") + said[at + 1 :]
        else:
            said = said[:at] + random.choice(["[" * 2000, "{" * 500, "0x" + "f" * 9000, "9" * 9000])
    return said


def block(random, where):
    compiled()
    wrong = []
    for k in range(AT_ONCE):
        if random.random() < 0.02:
            case = random.randbytes(random.randrange(200))
        elif random.random() < 0.1:
            case = changed(random, random.choice(real()))
        else:
            case = text(random)
        prove = random.randrange(_PROVED) == 0
        failure = tried(
            "surveys", f"{where} case {k}", case, lambda case=case, prove=prove: one(case, prove)
        )
        wrong += [failure] if failure else []
    return AT_ONCE, wrong


def one(case, prove=False):
    """Read it; what is accepted has to come back the same from each of its own forms."""
    if isinstance(case, bytes):
        with tempfile.NamedTemporaryFile(suffix=".toml") as file:
            file.write(case)
            file.flush()
            survey = Survey.load(file.name)
    elif isinstance(case, tuple):
        form, said = case
        survey = Survey.from_json(said) if form == "json" else Survey.from_toml(said)
    else:
        survey = Survey.from_dict(case)
    fingerprint = survey.fingerprint
    for again in (Survey.from_json(survey.to_json()), Survey.from_toml(survey.to_toml())):
        if again.fingerprint != fingerprint or again.to_dict() != survey.to_dict():
            raise Wrong("a survey is another when it is saved and loaded")
    small = survey.report_bits < 64 and all(a.size < 20 for a in survey.attributes.values())
    if prove and small and not survey.certify().holds:
        raise Wrong("a survey is accepted that breaks its promise")
