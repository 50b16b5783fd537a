"""Designed surveys: files of format 2 are loaded without a search and mean the same as before."""

import contextlib
import copy
import functools
import json
import sys
import warnings
from fractions import Fraction

import pytest

from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    InvalidSpecError,
    Lp,
    Ordinal,
    Relative,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
    Weight,
)
from metricldp.design import (
    annealing,
    auto,
    bins,
    designed,
    memoised,
    plans,
    registry,
    shaped,
    shapes,
    torus,
    unary,
)
from metricldp.design.cells import ON_CELLS
from metricldp.design.workloads import Workload
from metricldp.metrics import Bent, Line, Uniform, Window
from metricldp.survey import format2

LEVELS = ["low", "middle", "high", "top"]
ORDERED = [m.name for m in registry.every_mechanism() if m.serves(True) and not m.joint]
UNORDERED = [m.name for m in registry.every_mechanism() if m.serves(False) and not m.joint]
SHORT = {"extremal": {"name": "extremal", "seconds": 2, "gap": 0.05}}
"""Searches that take less time."""
SEARCHES = [
    *(annealing.annealed, auto.choose, bins.with_best_bins, designed.best_shapes),
    *(designed._found, designed.tent_weights, memoised._first_for, plans.made),
    *(shaped._best_for, shaped.best_patterns, shapes.best_mixture, torus.best_torus),
    *(unary._found, unary.best_losses),
]
"""What chooses or finds something when a survey is designed."""


def line(**more):
    return Integer(0, 3, **{"epsilon": 1, "per": 1, **more})


def colours(**more):
    return Categorical(LEVELS, **{"epsilon": 1, **more})


def with_mechanisms():
    """Yield a name and the spec of a survey for every mechanism, alone or of a group."""
    for name in ORDERED:
        mechanism = SHORT.get(name, name)
        yield f"{name} on a line", SurveySpec({"v": line(mechanism=mechanism), "w": Weight(0, 1)})
    for name in UNORDERED:
        mechanism = SHORT.get(name, name)
        yield f"{name} on categories", SurveySpec({"v": colours(mechanism=mechanism)})
    pair = {"x": line(), "y": Integer(0, 2, epsilon=1, per=1), "z": colours(mechanism="unary")}
    joint = [m.name for m in registry.every_mechanism() if m.joint]
    for name in [*ON_CELLS, *joint]:
        mechanism = SHORT.get(name, name)
        yield f"{name} of a group", SurveySpec(pair, joint={("x", "y"): mechanism})
    data = {"name": "additive", "metric": "plane", "max_epsilon": 2, "workload": "prefixes"}
    yield "additive in a plane", SurveySpec(pair, joint={("x", "y"): data}, metric=Lp(1))


def with_data():
    """Yield a name and a spec whose mechanism has data, or whose attribute has other choices."""
    mechanisms = {
        "memoised tents": {"name": "memoised", "first": "tight-constraints", "each": 0.3},
        "memoised extremal": {"name": "memoised", "first": SHORT["extremal"]},
        "additive, workload": {"name": "additive", "workload": {"ranges": 1, "mean": 2}},
        "additive, rows": {"name": "additive", "workload": Workload.prefixes(4), "prior": [1] * 4},
        "matrix, strategy": {"name": "matrix", "strategy": "haar", "workload": "values"},
        "matrix, rows": {"name": "matrix", "strategy": [[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]]},
        "search": {"name": "auto", "workload": "prefixes"},
    }
    for name, mechanism in mechanisms.items():
        kind = line(within=2, per=None, mechanism=mechanism) if "tents" in name else None
        if name == "matrix, rows":
            mechanism["strategy"].append([0, 0, 0, 1])
        yield name, SurveySpec({"v": kind or line(mechanism=mechanism)})
    attributes = {
        "cyclic": Integer(0, 4, epsilon=1, within=1, cyclic=True, mechanism="additive"),
        "max_epsilon": line(max_epsilon=2, mechanism="tight-constraints"),
        "best bins": Continuous(0, 1, bins="auto", epsilon=1, per=0.1, mechanism="geometric"),
        "edges": Continuous(edges=[0, 1, 5, 20], epsilon=1, within=5, mechanism="unary"),
        "log bins": Continuous(1, 9, bins=3, epsilon=1, metric=Relative(0.5), mechanism="unary"),
        "rounded": Continuous(0, 1, points=4, epsilon=1, per=0.5, rounding="stochastic"),
        "ordinal": Ordinal(LEVELS, epsilon=1, within=2, mechanism="threshold"),
        "sensitive": colours(metric=SensitiveSet(["low"]), mechanism="matrix"),
        "graph": colours(metric=Graph([("low", n) for n in LEVELS[1:]]), mechanism="unary"),
        "tree": colours(metric=Tree({"a": LEVELS[:2], "b": LEVELS[2:]}), mechanism="unary"),
        "matrix of distances": colours(
            metric=DistanceMatrix([[int(i != j) for j in range(4)] for i in range(4)]),
            mechanism="tight-constraints",
        ),
        "private weight": Weight(0, 4, private=True, epsilon=1, optional=True),
        "optional": line(optional=0.5, mechanism="geometric"),
    }
    for name, attribute in attributes.items():
        yield name, SurveySpec({"v": attribute, "w": line(mechanism="geometric")})
    both = {"x": line(mechanism="threshold"), "y": colours(mechanism="randomized-response")}
    yield "norm", SurveySpec(both, metric=Lp(2))


SPECS = {**dict(with_mechanisms()), **dict(with_data())}
each = pytest.mark.parametrize("name", SPECS)


@functools.cache
def designed_data(name):
    """Return the file of a designed survey as plain data, and its fingerprint."""
    survey = Survey.design(SPECS[name])
    return json.loads(survey.to_json()), survey.fingerprint


@contextlib.contextmanager
def no_search():
    """Make every search fail, under every name by which a module of the package calls it."""

    def fail(*_, **__):
        raise AssertionError("a search")

    modules = [module for name, module in sys.modules.items() if name.startswith("metricldp.")]
    with pytest.MonkeyPatch.context() as patched:
        for search in SEARCHES:
            for module in modules:
                if vars(module).get(search.__name__) is search:
                    patched.setattr(module, search.__name__, fail)
        yield


@each
def test_a_designed_survey_is_loaded_without_a_search(name, tmp_path):
    data, fingerprint = designed_data(name)
    with no_search():
        survey = Survey.from_dict(data)
        survey.save(tmp_path / "survey.toml")
        loaded = Survey.load(tmp_path / "survey.toml")
        assert survey.fingerprint == loaded.fingerprint == fingerprint
    assert survey.to_dict() == data
    assert survey.certify().holds


@pytest.mark.parametrize(
    "name", ["additive on a line", "matrix on categories", "unary on a line", "best bins", "search"]
)
def test_designing_is_noticed_as_a_search(name):
    """The negative control of the test above."""
    with no_search(), pytest.raises(AssertionError, match="a search"):
        Survey.design(SPECS[name])


FOUND = ("patterns", "shapes", "tops", "bits", "epsilons", "first")
"""What a search finds, as files name it."""


def found_entries(data):
    """Yield where a designed file has something that a search found: a table and a key."""
    tables = [*data["attributes"].values(), *data.get("joint", [])]
    for table in tables:
        mechanism = table.get("mechanism")
        nested = mechanism.get("first") if isinstance(mechanism, dict) else None
        for own in (mechanism, nested):
            if isinstance(own, dict):
                yield from ((own, key) for key in FOUND if key in own)


@each
def test_a_file_without_what_a_search_found_is_rejected(name):
    data, _ = designed_data(name)
    for number in range(len(list(found_entries(data)))):
        changed = copy.deepcopy(data)
        table, key = list(found_entries(changed))[number]
        del table[key]
        message = "not designed; write a spec and design it"
        with no_search(), pytest.raises(InvalidSpecError, match=message):
            Survey.from_dict(changed)


def test_every_search_leaves_data_in_some_file():
    keys = {key for name in SPECS for _, key in found_entries(designed_data(name)[0])}
    assert keys == set(FOUND)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "auto"},
        {"mechanism": {"name": "auto", "workload": "prefixes"}},
        {"mechanism": "shaped"},
        {"mechanism": "unary"},
        {"kind": "continuous", "bins": "auto", "mechanism": "geometric"},
        {"kind": "continuous", "bins": {"n": 500}, "mechanism": "geometric"},
    ],
)
def test_files_that_need_a_search_are_rejected(change):
    data = {"kind": "integer", "low": 0, "high": 3, "epsilon": 1, "per": 1, **change}
    message = r"attribute v is not designed; .*Survey\.design"
    with no_search(), pytest.raises(InvalidSpecError, match=message):
        Survey.from_dict({"metricldp": 2, "attributes": {"v": data}})
    plain = {"kind": "integer", "low": 0, "high": 3, "epsilon": 1, "per": 1}
    groups = {"metricldp": 2, "attributes": {"v": plain, "w": plain}}
    for joint in ("auto", [["v", "w"]], [{"attributes": ["v", "w"], "mechanism": "tents"}]):
        message = "the groups of joint are not designed"
        with no_search(), pytest.raises(InvalidSpecError, match=message):
            Survey.from_dict({**groups, "joint": joint})


METRICS = [
    Line(Fraction(1, 2)),
    Uniform(Fraction(1)),
    Window(Fraction(1), 2),
    Bent(Fraction(1), cap=Fraction(2)),
]


@pytest.mark.parametrize("name", sorted({*ORDERED, *UNORDERED}))
def test_is_designed_tells_whether_a_search_is_left(name):
    """Data that a search adds make a mechanism designed; then nothing more is added."""
    for metric in METRICS:
        wanted = registry.mechanism(SHORT.get(name, name)).beside(Fraction(1))
        try:
            settled = wanted.settled(4, metric, ordered=True)
        except InvalidSpecError:  # not for this metric
            continue
        assert settled.is_designed
        if settled.to_dict() != wanted.to_dict():
            assert not wanted.is_designed
        again = wanted.with_saved(settled.saved())
        assert again.is_designed
        assert again.settled(4, metric, ordered=True).to_dict() == settled.to_dict()


# Version 0.2 ------------------------------------------------------------------------------------

OLD = {"additive": "shaped", "extremal": "designed", "tight-constraints": "tents"}
OLD["randomized-response"] = "response"


def old_mechanism(mechanism):
    if isinstance(mechanism, str):
        return OLD.get(mechanism, mechanism)
    data = {("cap" if key == "max_epsilon" else key): value for key, value in mechanism.items()}
    for key in ("name", "first"):
        if key in data:
            data[key] = old_mechanism(data[key])
    return data


def old_entry(entry):
    data = {("cap" if key == "max_epsilon" else key): value for key, value in entry.items()}
    if "mechanism" in data:
        data["mechanism"] = old_mechanism(data["mechanism"])
    if data.pop("rounding", None):
        data["kind"] = "real"
    if data.get("metric", {}).get("kind") == "distance-matrix":
        data["metric"] = {**data["metric"], "kind": "table"}
    return data


def old_survey(spec):
    """Return the data from which version 0.2 made the survey of a spec."""
    data = {**spec.to_dict(), "metricldp": 2}
    data["attributes"] = {name: old_entry(entry) for name, entry in data["attributes"].items()}
    joint = [{"mechanism": "additive", **group} for group in data.get("joint", [])]
    data["joint"] = [old_entry(group) for group in joint]
    return data


@each
def test_a_file_of_version_02_has_the_same_fingerprint(name):
    oracle = pytest.importorskip("metricldp_oracle", reason="run make oracle")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oracle.TightenedMetricWarning)
        old = oracle.Survey.from_dict(old_survey(SPECS[name]))
    data = json.loads(old.to_json())
    with no_search():
        survey = Survey.from_dict(data)
        assert survey.fingerprint == old.fingerprint
    assert survey.to_dict() == data
    assert survey.canonical == old.canonical


def test_names_of_format_2_are_those_of_version_02():
    attribute = line(max_epsilon=2, mechanism="tight-constraints")
    nested = {"name": "memoised", "first": "tight-constraints", "each": 0.3}
    matrix = DistanceMatrix([[0, 1], [1, 0]])
    survey = Survey.design(
        SurveySpec(
            {
                "a": attribute,
                "b": line(mechanism=nested),
                "c": Categorical(["u", "v"], epsilon=1, metric=matrix),
                "x": line(),
                "y": line(),
            },
            joint={("x", "y"): {"name": "tight-constraints", "max_epsilon": 3}},
        )
    )
    data = survey.to_dict()
    entries = data["attributes"]
    assert entries["a"]["cap"] == 2
    assert entries["a"]["mechanism"]["name"] == "tents"
    assert entries["b"]["mechanism"]["first"]["name"] == "tents"
    assert entries["c"]["metric"]["kind"] == "table"
    assert data["joint"][0]["mechanism"]["name"] == "tents"
    assert data["joint"][0]["mechanism"]["cap"] == 3
    assert "max_epsilon" not in survey.to_toml()


def test_max_epsilon_in_a_file_of_format_2_is_rejected():
    """Otherwise one of two bounds, cap and max_epsilon, would be passed over."""
    data = Survey.design({"a": line(max_epsilon=2, mechanism="geometric")}).to_dict()
    data["attributes"]["a"]["max_epsilon"] = 5
    with pytest.raises(InvalidSpecError, match="format 2 have cap, not max_epsilon"):
        Survey.from_dict(data)


def test_data_of_mechanisms_of_other_packages_are_not_renamed():
    theirs = {"name": "theirs", "cap": 3, "first": "response", "max_epsilon": 1}
    data = {"attributes": {"a": {"kind": "integer", "cap": 2, "mechanism": theirs}}}
    assert format2.read(data)["attributes"]["a"]["mechanism"] == theirs
    new = {"attributes": {"a": {"kind": "integer", "max_epsilon": 2, "mechanism": theirs}}}
    assert format2.written(new) == data
    assert format2.read(format2.written(new)) == new
