"""Survey files: real ones with something changed, and texts that are none."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from functools import cache

from fuzzing import Wrong, tried

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    SensitiveSet,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.mechanisms.registry import BUILT_IN
from metricldp.survey import files

AT_ONCE = 500
_PROVED = 60
"""One in so many surveys that are accepted is proved, if it is small."""


@cache
def designed():
    """Small surveys with every mechanism and every kind of attribute."""
    x, y = (Integer(0, n, epsilon=1, within=1) for n in (1, 2))
    more = [
        {"c": Categorical(list("abc"), epsilon=1, metric=SensitiveSet(["a"]), optional=True)},
        {"b": Continuous(edges=[0, 1, 5], epsilon=1, within=2), "w": Weight(-1, 2)},
        {"r": Continuous(0, 1, points=4, epsilon=2, rounding="stochastic", per=1)},
        {"o": Ordinal(["no", "yes"], epsilon=1), "v": Weight(0, 1, private=True, epsilon=1)},
    ]
    kinds = [mechanism.name for mechanism in BUILT_IN.values()]
    more += [{"x": Integer(0, 4, epsilon=1, per=1, mechanism=kind)} for kind in kinds]
    groups = [{("x", "y"): kind} for kind in ("additive", "tight-constraints", "extremal")]
    specs = [*map(SurveySpec, more), *(SurveySpec({"x": x, "y": y}, joint=each) for each in groups)]
    return [Survey.design(spec) for spec in specs]


@cache
def real():
    """Valid surveys and specs as data."""
    auto = {"kind": "integer", "low": 0, "high": 9, "epsilon": 1, "mechanism": "auto", "per": 1}
    bins = {"kind": "continuous", "low": 0, "high": 1, "bins": "auto", "epsilon": 1, "per": 1}
    specs = [{"attributes": {"x": attribute}} for attribute in (auto, bins)]
    return [survey.to_dict() for survey in designed()] + specs


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
_TEXTS = """
x auto integer continuous ordinal categorical weight randomized-response unary matrix geometric
threshold additive tight-constraints extremal memoised table stochastic inf nan 1/3 7/0 haar hio
planar-laplace hierarchy-3 hierarchy-0 ranges prefixes values identity hierarchy graph tree uniform
line grid plane sum given 0011221100 sensitive-set distance-matrix lazy-geometric = + x=response
0000000000000000 0000000000000001 8000000000000000 ffffffffffffffff
"""
TEXTS = [*_TEXTS.split(), "", " ", "a\nb", "ü😀", "\ud800", "\x00", "9" * 400]
_KEYS = """
kind low high epsilon per bins points levels categories private metric mechanism name p edges
optional workload strategy epsilons within max_epsilon cyclic patterns around shapes tops reach bits
branching consistent attributes groups x+y norm metricldp distribution response presentation x of
size keep flips own other zero digits block first second rows entries weights sizes lengths depths
fall fields domains names step pairs steps cap width ring ratio
"""
KEYS = _KEYS.split()


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


def changed(random, data, valid):
    """The same with something else in some place, also from other valid data."""
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
            _, other = random.choice(list(_pairs(random.choice(valid))))
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
        data = changed(random, data, real())
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
    wrong = []
    for k in range(AT_ONCE):
        if random.random() < 0.02:
            case = random.randbytes(random.randrange(200))
        elif random.random() < 0.1:
            case = changed(random, random.choice(real()), real())
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
    elif isinstance(case, dict) and "metricldp" not in case:
        spec = SurveySpec.from_dict(case)
        if SurveySpec.from_dict(spec.to_dict()) != spec:
            raise Wrong("a spec is another when it is written and read")
        return
    else:
        survey = Survey.from_dict(case)
    fingerprint = survey.fingerprint
    for again in (Survey.from_json(survey.to_json()), Survey.from_toml(survey.to_toml())):
        if again.fingerprint != fingerprint or again.to_dict() != survey.to_dict():
            raise Wrong("a survey is another when it is saved and loaded")
    small = survey.report_bits < 64 and all(a.size < 20 for a in survey.attributes.values())
    if prove and small and not survey.certify().holds:
        raise Wrong("a survey is accepted that breaks its guarantee")
