"""Spec files: what people write, saved and read again."""

import json
import tomllib

import numpy as np
import pytest

from metricldp import (
    AutoBins,
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    InvalidSpecError,
    Lp,
    Matrix,
    Ordinal,
    Relative,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
    Unary,
    Weight,
    Workload,
)

LEVELS = ["low", "middle", "high"]
ATTRIBUTES = {
    "integer": Integer(0, 9, epsilon=1, within=2, max_epsilon=3),
    "cyclic integer": Integer(0, 11, epsilon=1, per=2, cyclic=True),
    "bins": Continuous(0, 10, bins=5, epsilon=1, per=2),
    "cyclic bins": Continuous(0, 360, bins=12, epsilon=1, within=30, cyclic=True),
    "edges": Continuous(edges=[0, 1, 5, 20], epsilon=1, within=5, max_epsilon=2),
    "best bins": Continuous(0, 1, bins="auto", epsilon=1, per=0.1),
    "bins for n": Continuous(0, 1, bins=AutoBins(n=np.int64(500)), epsilon=1, per=0.1),
    "bins for a prior": Continuous(0, 1, bins=AutoBins(prior=(1, 2, 3)), epsilon=1, per=0.1),
    "log bins": Continuous(1, 100, bins=4, epsilon=1, metric=Relative(0.5)),
    "rounded": Continuous(0, 1, points=5, epsilon=1, per=0.5, rounding="stochastic"),
    "ordinal": Ordinal(LEVELS, epsilon=1),
    "cyclic ordinal": Ordinal(LEVELS, epsilon=1, within=1, cyclic=True),
    "categorical": Categorical(LEVELS, epsilon=1, max_epsilon=2),
    "public weight": Weight(0, 4),
    "private weight": Weight(0, 4, private=True, epsilon=1),
}
METRICS = {
    "sensitive-set": SensitiveSet(["low"]),
    "graph": Graph([("low", "middle"), ("middle", "high", 2.5)]),
    "tree": Tree({"left": ["low", "middle"], "right": ["high"]}, {"left": 2}),
    "distance-matrix": DistanceMatrix([[0, 1, "4/3"], [1, 0, 1], ["4/3", 1, 0]]),
    "relative": Relative(0.5),
}
MECHANISMS = {
    "geometric": "geometric",
    "search": {"name": "auto", "workload": "prefixes"},
    "additive": {"name": "additive", "workload": {"ranges": 2, "mean": 1}, "prior": [1, 2, 3]},
    "extremal": {"name": "extremal", "seconds": 5, "gap": 0.1},
    "tight-constraints": "tight-constraints",
    "memoised": {"name": "memoised", "first": {"name": "tight-constraints"}, "each": 0.5},
    "unary": Unary(),
    "matrix": Matrix(workload="prefixes", reach=2),
    "matrix rows": Matrix(workload=[[1, 0, 0], [0, 1, 1]], strategy=np.eye(3, dtype=int)),
    "workload": {"name": "additive", "workload": Workload.prefixes(3)},
    "peer": {"name": "hierarchy-2"},
}
GROUPS = {
    "list": [["x", "y"]],
    "names": {("x", "y"): "hio"},
    "data": {("x", "y"): {"name": "additive", "metric": "plane", "max_epsilon": 2.5}},
    "two groups": {("x", "z"): "additive", ("y", "c"): {"name": "hio", "branching": 3}},
    "auto": "auto",
}


def saved_and_loaded(spec, folder):
    """Return what is read from a TOML and from a JSON file."""
    for ending in ("toml", "json"):
        spec.save(folder / f"spec.{ending}")
    return [SurveySpec.load(folder / f"spec.{ending}") for ending in ("toml", "json")]


def check_round_trip(spec, folder):
    for again in saved_and_loaded(spec, folder):
        assert again == spec
        assert again.to_dict() == spec.to_dict()
    plain = json.loads(json.dumps(spec.to_dict()))
    assert SurveySpec.from_dict(plain) == spec


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_attributes_round_trip(kind, tmp_path):
    spec = SurveySpec({"v": ATTRIBUTES[kind], "other": Integer(0, 3, epsilon=1, per=1)})
    check_round_trip(spec, tmp_path)
    assert saved_and_loaded_attributes(spec) == dict(spec.attributes)


def saved_and_loaded_attributes(spec):
    return dict(SurveySpec.from_dict(tomllib.loads(str(spec))).attributes)


@pytest.mark.parametrize("kind", [kind for kind in ATTRIBUTES if kind != "public weight"])
@pytest.mark.parametrize("optional", [True, 0.5])
def test_optional_attributes_round_trip(kind, optional, tmp_path):
    entry = SurveySpec({"v": ATTRIBUTES[kind]}).to_dict()["attributes"]["v"]
    spec = SurveySpec.from_dict({"attributes": {"v": {**entry, "optional": optional}}})
    assert isinstance(spec.attributes["v"], type(ATTRIBUTES[kind]))
    assert spec.attributes["v"].optional == (1.0 if optional is True else optional)
    check_round_trip(spec, tmp_path)


@pytest.mark.parametrize("kind", METRICS)
def test_metrics_round_trip(kind, tmp_path):
    if kind == "relative":
        attribute = Integer(1, 9, epsilon=1, metric=METRICS[kind], max_epsilon=2)
    else:
        attribute = Categorical(LEVELS, epsilon=1, metric=METRICS[kind])
    spec = SurveySpec({"v": attribute})
    assert spec.to_dict()["attributes"]["v"]["metric"]["kind"] == kind
    check_round_trip(spec, tmp_path)
    assert saved_and_loaded_attributes(spec) == {"v": attribute}


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_with_data_round_trip(name, tmp_path):
    attribute = Ordinal(LEVELS, epsilon=1, mechanism=MECHANISMS[name])
    check_round_trip(SurveySpec({"v": attribute}), tmp_path)


def test_workload_of_an_attribute_is_the_workload_of_its_mechanism(tmp_path):
    stated = {"name": "auto", "workload": "values"}
    named = Integer(0, 20, epsilon=1, within=3, max_epsilon=4, workload="values")
    assert named == Integer(0, 20, epsilon=1, within=3, max_epsilon=4, mechanism=stated)
    check_round_trip(SurveySpec({"v": named}), tmp_path)
    plain = Integer(0, 20, epsilon=1, within=3, max_epsilon=4)
    surveys = [Survey.design({"v": attribute}) for attribute in (plain, named)]
    values, ranges = (
        [s.expected_error(c, n=1).stderr for s in surveys] for c in ("v == 3", "v < 9")
    )
    assert values[1] < 0.95 * values[0] and ranges[0] < ranges[1]


@pytest.mark.parametrize("mechanism", [{"name": "additive", "workload": "values"}, Unary()])
def test_second_workload_of_an_attribute_is_rejected(mechanism):
    with pytest.raises(InvalidSpecError, match="states its own workload or takes none"):
        Ordinal(LEVELS, epsilon=1, mechanism=mechanism, workload="ranges")
    matrix = Ordinal(LEVELS, epsilon=1, mechanism=Matrix(), workload="prefixes")
    assert matrix.mechanism == Matrix(workload="prefixes")


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("metric", [None, Lp(2), Lp(float("inf"))])
def test_groups_and_norms_round_trip(name, metric, tmp_path):
    attributes = {n: Integer(0, 3, epsilon=1, per=1) for n in "xyz"}
    attributes["c"] = Categorical(["a", "b"], epsilon=1)
    together = [("x", "y"), ("z",)] if name == "auto" else None
    spec = SurveySpec(attributes, joint=GROUPS[name], metric=metric, together=together)
    check_round_trip(spec, tmp_path)


def test_specs_that_differ_are_unequal():
    attributes = {n: Integer(0, 3, epsilon=1, per=1) for n in "xy"}
    specs = [
        SurveySpec(attributes),
        SurveySpec({**attributes, "y": Integer(0, 3, epsilon=1, per=2)}),
        SurveySpec(attributes, metric=Lp(2)),
        SurveySpec(attributes, joint=[["x", "y"]]),
        SurveySpec(attributes, joint={("x", "y"): "hio"}),
        SurveySpec(attributes, joint="auto"),
    ]
    for k, spec in enumerate(specs):
        assert [spec == other for other in specs] == [k == j for j in range(len(specs))]


@pytest.mark.parametrize("name", ["toml", "json"])
def test_a_loaded_spec_designs_the_same_survey(name, tmp_path):
    attributes = {
        "age": Integer(0, 5, epsilon=1, within=2, max_epsilon=2),
        "site": Categorical(LEVELS, epsilon=1, metric=METRICS["tree"], mechanism="unary"),
        "share": Continuous(0, 1, points=5, epsilon=1, per=0.5, rounding="stochastic"),
        "visits": Integer(0, 3, epsilon=1, per=1, optional=True, mechanism="geometric"),
        "x": Integer(0, 2, epsilon=1, per=1),
        "y": Ordinal(LEVELS, epsilon=1),
        "weight": Weight(0, 4),
    }
    joint = {("x", "y"): {"name": "tight-constraints", "max_epsilon": 3}}
    spec = SurveySpec(attributes, joint=joint, metric=Lp(1))
    spec.save(tmp_path / f"spec.{name}")
    again = SurveySpec.load(tmp_path / f"spec.{name}")
    assert Survey.design(again).fingerprint == Survey.design(spec).fingerprint


def test_a_spec_file_has_the_words_of_the_interface():
    spec = SurveySpec(
        {
            "a": Integer(0, 3, epsilon=1, per=1, max_epsilon=2, mechanism="additive"),
            "b": Continuous(0, 1, points=3, epsilon=1, per=1, rounding="stochastic"),
            "c": Categorical(["u", "v"], epsilon=1, metric=DistanceMatrix([[0, 1], [1, 0]])),
        }
    )
    text = str(spec)
    for needle in ("max_epsilon = 2", '"additive"', 'rounding = "stochastic"', "distance-matrix"):
        assert needle in text
    assert "cap" not in text
    assert "metricldp" not in text
    assert '"real"' not in text


def test_save_replaces_a_file_only_with_overwrite(tmp_path):
    spec = SurveySpec({"a": Integer(0, 3, epsilon=1, per=1)})
    other = SurveySpec({"b": Integer(0, 3, epsilon=1, per=1)})
    for path in (tmp_path / "spec.toml", tmp_path / "spec.json"):
        spec.save(path)
        with pytest.raises(InvalidSpecError, match="exists already; pass overwrite=True"):
            other.save(path)
        assert SurveySpec.load(path) == spec
        other.save(path, overwrite=True)
        assert SurveySpec.load(path) == other


def test_a_saved_survey_is_replaced_only_with_overwrite(tmp_path):
    survey = Survey.design({"a": Integer(0, 3, epsilon=1, per=1)})
    other = Survey.design({"b": Integer(0, 3, epsilon=1, per=1)})
    path = tmp_path / "survey.toml"
    survey.save(path)
    for rejected in (other, SurveySpec(other.attributes)):
        with pytest.raises(InvalidSpecError, match="exists already; pass overwrite=True"):
            rejected.save(path)
    assert Survey.load(path) == survey
    other.save(path, overwrite=True)
    assert Survey.load(path) == other


def test_designed_surveys_and_specs_are_not_confused(tmp_path):
    spec = SurveySpec({"a": Integer(0, 3, epsilon=1, per=1)})
    survey = Survey.design(spec)
    spec.save(tmp_path / "spec.toml")
    survey.save(tmp_path / "survey.toml")
    with pytest.raises(
        InvalidSpecError,
        match=r"survey.toml: this is a designed survey, not a sp.*"
        r"Survey\.load",
    ):
        SurveySpec.load(tmp_path / "survey.toml")
    with pytest.raises(InvalidSpecError, match=r"this is a designed survey.* Survey\.load"):
        SurveySpec.from_dict(survey.to_dict())
    with pytest.raises(
        InvalidSpecError, match=r"spec.toml: this is a spec, .* Survey\.design\(spec"
    ):
        Survey.load(tmp_path / "spec.toml")
    for read in (Survey.from_dict, lambda data: Survey.from_json(json.dumps(data))):
        with pytest.raises(InvalidSpecError, match=r"design it first: Survey\.design\(spec\)"):
            read(spec.to_dict())
    with pytest.raises(InvalidSpecError, match=r"design it first: Survey\.design\(spec\)"):
        Survey.from_toml(str(spec))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "real", "points": 3}, "attribute a has kind 'real'; choose integer, ordinal"),
        ({"kind": "continuous", "rounding": "up", "points": 3}, 'a: rounding is "stochastic" or'),
        ({"kind": "continuous", "rounding": "stochastic"}, "attribute a: rounding needs points"),
        ({"kind": "integer", "rounding": "stochastic"}, "attribute a: .* no 'rounding'"),
        ({"kind": "integer", "cap": 2}, "attribute a: .* no 'cap'"),
        ({"kind": "number"}, "kind 'number'; choose integer, ordinal, categorical, continuous, w"),
        ({"kind": "integer", "per": None}, "attribute a: epsilon = 1 needs a distance"),
    ],
)
def test_attributes_that_a_spec_file_cannot_have(entry, message):
    data = {"low": 0, "high": 1, "epsilon": 1, "per": 1, **entry}
    data = {key: value for key, value in data.items() if value is not None}
    with pytest.raises(InvalidSpecError, match=message):
        SurveySpec.from_dict({"attributes": {"a": data}})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a spec file holds a table, not a list"),
        ({}, r"a table \[attributes.NAME\] is needed"),
        ({"attributes": {}}, r"a table \[attributes.NAME\] is needed"),
        ({"attributes": {"a": 3}}, "attribute a must be a table, not 3"),
        ({"attribute": {}}, "a spec has no .*'attribute'.*did you mean 'attributes'"),
    ],
)
def test_files_that_are_not_specs(data, message):
    with pytest.raises(InvalidSpecError, match=message):
        SurveySpec.from_dict(data)


def test_groups_that_cannot_be_are_rejected_by_the_spec():
    attributes = {n: Integer(0, 3, epsilon=1, per=1) for n in "xy"}
    for joint, message in (
        (3, "joint= is a list of sets of attributes"),
        ([["x", "z"]], "joint= names 'z'"),
        ({("x", "y"): "threshold"}, "randomizes one attribute"),
    ):
        with pytest.raises(InvalidSpecError, match=message):
            SurveySpec(attributes, joint=joint)
    with pytest.raises(InvalidSpecError, match='together= belongs to joint="auto"'):
        SurveySpec(attributes, together=[["x", "y"]])


def test_a_workload_that_is_too_large_for_a_file_is_rejected(tmp_path):
    ranges = {"name": "additive", "workload": Workload.all_ranges(200)}
    spec = SurveySpec({"a": Integer(0, 199, epsilon=1, per=1, mechanism=ranges)})
    with pytest.raises(InvalidSpecError, match="20,100 rows over 200 values is too large"):
        spec.save(tmp_path / "spec.toml")
    assert not (tmp_path / "spec.toml").exists()
