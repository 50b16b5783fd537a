"""The manifest of a survey: what a device needs, the same for everybody who has the survey."""

import hashlib
import json
import math
import re

import pytest

from metricldp import (
    Categorical,
    Continuous,
    Graph,
    Integer,
    Lp,
    Ordinal,
    Relative,
    SensitiveSet,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.channels.plain_data import plain_data
from metricldp.cli import main as cli
from metricldp.reports.bytes import header, packed_size
from metricldp.reports.manifest import rejection, save
from metricldp.survey.explain import guarantee
from metricldp_core.canonical import canonical
from metricldp_core.device import Device
from metricldp_core.errors import InvalidManifestError
from metricldp_core.exact import log_of
from metricldp_core.guarantee import sentences, total_epsilon


def fields(survey):
    return json.loads(survey.manifest())["fields"]


@pytest.fixture
def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
            "income": Continuous(0, 1e5, bins=20, epsilon=1, per=1e4, optional=2),
            "smokes": Categorical(["no", "yes"], epsilon=1, mechanism="randomized-response"),
            "w": Weight(0, 2),
        }
    )


def test_manifest_is_one_canonical_line_whose_digest_is_the_fingerprint(survey):
    text = survey.manifest()
    data = json.loads(text)
    assert "\n" not in text and canonical(data) == text
    assert data.keys() == {"metricldp", "fields"} and data["metricldp"] == 1
    assert survey.fingerprint == hashlib.sha256(text.encode()).hexdigest()
    assert header(survey) == bytes([1]) + bytes.fromhex(survey.fingerprint)[:16]
    assert sum(field.bits for field in survey.client_manifest.fields) == survey.report_bits
    assert len(Device(text).report({"age": 3, "smokes": "no", "w": 1})) == packed_size(survey)


def test_files_of_a_survey_have_one_manifest(survey):
    for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
        assert again.manifest() == survey.manifest()


def test_manifest_does_not_depend_on_texts_and_settings(survey):
    """Settings of a mechanism that do not change the integers are not for devices."""
    data = survey.to_dict()
    texts = {"en": {"age": {"title": "Age", "text": "How old are you?"}}}
    assert Survey.from_dict({**data, "presentation": texts}).manifest() == survey.manifest()
    mechanism = data["attributes"]["income"]["mechanism"]
    assert mechanism["name"] == "additive"
    data["attributes"]["income"]["mechanism"] = {**mechanism, "workload": "values"}
    assert Survey.from_dict(data).manifest() == survey.manifest()


def test_fields_have_the_domains_of_their_attributes(survey):
    age, income, response, smokes, weight = fields(survey)
    domain = {"name": "age", "kind": "integer", "low": 0, "high": 99, "within": "5"}
    assert age["attributes"] == [domain]
    domain = {"name": "income", "kind": "continuous", "low": 0, "high": 100000, "bins": 20}
    assert income["attributes"] == [domain | {"within": "10000", "optional": True}]
    assert response["attributes"] == [{"name": "income", "kind": "response"}]
    assert smokes["attributes"][0]["names"] == ["no", "yes"]
    assert weight == {"attributes": [{"name": "w", "kind": "weight", "low": 0, "high": 2}]}
    assert [field.name for field in survey.client_manifest.fields] == list(survey.attributes)
    stored = survey.to_dict()["attributes"]
    assert age["distribution"] == stored["age"]["distribution"]
    assert response["distribution"] == stored["income"]["response"]


def test_small_surveys_have_small_manifests(survey):
    alone = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric")})
    assert len(alone.manifest()) < 300
    assert len(survey.manifest()) < 1500


@pytest.mark.parametrize(
    "attribute, data",
    [
        (Integer(0, 9, epsilon=1, per=5), {"kind": "line", "epsilon": "1/5"}),
        (
            Integer(0, 9, epsilon=1, max_epsilon=3, per=1),
            {"kind": "line", "epsilon": "1", "cap": "3"},
        ),
        (
            Integer(0, 11, epsilon=1, cyclic=True, per=1),
            {"kind": "line", "epsilon": "1", "ring": True},
        ),
        (
            Integer(0, 9, epsilon=1, within=2.5, max_epsilon=2),
            {"kind": "line", "epsilon": "1", "width": "5/2", "cap": "2"},
        ),
        (Categorical(["a", "b"], epsilon=0.3), {"kind": "uniform", "epsilon": "3/10"}),
        (
            Categorical(["a", "b", "c"], epsilon=1, metric=SensitiveSet(["b"])),
            {"kind": "graph", "step": "1", "lengths": [1, 1]},
        ),
        (
            Ordinal(["a", "b", "c"], epsilon=1, metric=Graph([("a", "b"), ("b", "c", 2)])),
            {"kind": "graph", "step": "1", "lengths": [1, 2]},
        ),
        (
            Ordinal(["a", "b", "c"], epsilon=1, metric=Graph([("a", "b"), ("a", "c", 2.5)])),
            {"kind": "graph", "step": "1/2", "pairs": [[0, 1], [0, 2]], "lengths": [2, 5]},
        ),
        (
            Continuous(0, 1, points=5, epsilon=1, rounding="stochastic", per=1),
            {"kind": "line", "epsilon": "1/4"},
        ),
    ],
)
def test_metrics_are_exact(attribute, data):
    assert plain_data(attribute.distances.to_core(attribute.size)) == data


def test_distances_of_a_graph_are_shortest_paths():
    edges = Graph([("a", "b"), ("b", "c", 2), ("c", "d", "1/3"), ("d", "a", 2)])
    metric = Categorical(list("abcd"), epsilon=1, metric=edges).distances
    whole = metric.to_core(4)
    assert all(
        whole.distance(x, y) == metric.distance(x, y) for x in range(4) for y in range(4) if x != y
    )


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(
    "attribute",
    [
        Integer(0, 60, epsilon=1, per=10, optional=1, mechanism="geometric"),
        Integer(0, 9, epsilon=1, within=3, max_epsilon=2, optional=0.5, mechanism="geometric"),
        Continuous(0, 30, bins=7, epsilon=1, per=10, optional=1, mechanism="threshold"),
        Categorical(list("abcd"), epsilon=2, optional=0.3, mechanism="randomized-response"),
    ],
    ids=["line", "capped", "bins", "categories"],
)
def test_stated_factor_of_no_response_bounds_the_exact_ratios(attribute, norm):
    """The exact ratio of no response and each value, over both fields of a report."""
    survey = Survey.design(SurveySpec({"x": attribute}, metric=Lp(norm)))
    text = guarantee(survey, "x")
    stated = float(re.search(r"at most ([\d.]+) times as likely for a value as for no", text)[1])
    middle = attribute.position(attribute.middle)
    values, (_, whether) = range(attribute.size), survey.channels.values()
    exact = whether.distribution.ratio(0, 1) * max(
        survey.channels["x"].distribution.ratio(middle, x) for x in values
    )
    assert exact <= stated
    # Negative control: the response field alone.
    assert exact > whether.distribution.ratio(0, 1)
    epsilon = survey.explain().to_dict()["attributes"][0]["no_response"]
    assert stated == pytest.approx(math.exp(epsilon), rel=0.01)


@pytest.mark.parametrize(
    ("attribute", "stated"),
    [
        (Integer(0, 99, epsilon=1, within=5), "2.72 times as likely for one x as for another wit"),
        (Integer(0, 3, epsilon=1, per=10), "1.35 times as likely for one x as for another."),
        (Continuous(0, 1e5, bins=20, epsilon=1, per=1000), "e^95 times for any two."),
        (
            Integer(1, 99, epsilon=1, metric=Relative(0.5)),
            "above the smaller, and at most 11.7 times for",
        ),
        (Continuous(edges=[0, 1, 5, 10], epsilon=1, per=1), "90.1 times as likely for one x as fo"),
        (
            Categorical(list("abc"), epsilon=1, metric=SensitiveSet(["a"])),
            "for another if one is a",
        ),
    ],
)
def test_sentences_state_the_metric_of_the_manifest(attribute, stated):
    """Factors are rounded up; that of any two values is of the metric or of the integers."""
    survey = Survey.design({"x": attribute})
    text, _ = sentences(survey.client_manifest)
    assert text == f"x: {guarantee(survey, 'x')}"
    assert text.startswith("x: A report is at most ") and stated in text
    *_, (power, digits) = re.findall(r"at most (e\^)?([\d,.]+\d)", text)
    number = float(digits.replace(",", ""))
    epsilon = float(total_epsilon(survey.client_manifest))
    assert (number if power else math.log(number)) == pytest.approx(epsilon, 1e-2)


def test_fields_of_a_group_are_at_the_place_of_its_first_attribute():
    attributes = {name: Integer(0, 3, epsilon=1, per=1) for name in "axb"}
    survey = Survey.design(SurveySpec(attributes, joint=[["a", "b"]]))
    found = fields(survey)
    assert [[one["name"] for one in f["attributes"]] for f in found] == [["a", "b"], ["x"]]
    assert sentences(survey.client_manifest)[:3] == [
        *(
            f"{name}: A report is at most 2.72 times as likely for one {name} as for another within"
            " 1, and at most 20.1 times for any two."
            for name in "ab"
        ),
        "a and b: A report is at most 149 times as likely for one respondent as for another who "
        "differs in these attributes alone.",
    ]


def test_metric_of_a_group_lists_generating_steps():
    attributes = {
        "a": Integer(0, 3, epsilon=1, per=1),
        "b": Integer(0, 2, epsilon=0.5, max_epsilon=0.5, per=1),
    }
    survey = Survey.design(SurveySpec(attributes, joint=[["a", "b"]]))
    (field,) = survey.client_manifest.fields
    assert [domain.name for domain in field.domains] == ["a", "b"]
    metric = plain_data(field.metric)
    assert (metric["kind"], metric["sizes"], metric["step"]) == ("grid", [4, 3], "1/2")
    whole = [[field.metric.distance(0, 3 * a + b) for b in range(3)] for a in range(4)]
    assert [[2 * e for e in row] for row in whole] == [
        [0, 1, 1],
        [2, 3, 3],
        [4, 5, 5],
        [6, 7, 7],
    ]


def test_norm_scales_distances():
    attributes = {"a": Integer(0, 3, epsilon=1, per=1), "b": Integer(0, 2, epsilon=0.5, per=1)}
    wide = Survey.design(SurveySpec(attributes, metric=Lp(float("inf"))))
    assert [field["metric"]["epsilon"] for field in fields(wide)] == ["1/2", "1/4"]


def test_baselines_are_named_and_rejected_by_devices(tmp_path, survey):
    assert rejection(survey) == ""
    pair = {k: Integer(0, 3, epsilon=1, per=1) for k in "ab"}
    for baseline, name in (
        (
            Survey.design({"a": Categorical(list("abcd"), epsilon=1, mechanism="hadamard")}),
            "hadamard",
        ),
        (Survey.design(SurveySpec(pair, joint={("a", "b"): "hio"})), "hio"),
    ):
        saved = str(save(baseline, tmp_path / "a.client.json"))
        assert "warning: devices reject the manifest" in saved
        with pytest.raises(InvalidManifestError, match=f"a kind '{name}.*' that is not supp"):
            Device(baseline.manifest())


def test_proofs_that_are_too_long_for_devices_are_stated(tmp_path):
    attribute = Integer(0, 299, epsilon=1, within=100, mechanism="matrix")
    survey = Survey.design({"x": attribute})
    assert "takes more than 8,388,608 steps" in str(save(survey, tmp_path / "x.client.json"))


def test_certificate_examines_the_fields_of_the_manifest(survey):
    for field, proof in zip(survey.client_manifest.fields, survey.certify().proofs, strict=False):
        near = proof.tightest
        assert proof.core.name == field.name
        assert near.loss == log_of(near.ratio) <= near.limit.allowed


def test_saved_manifest_is_its_text(tmp_path, survey):
    found = save(survey, tmp_path / "survey.client.json")
    data = (tmp_path / "survey.client.json").read_bytes()
    assert data == survey.manifest().encode() and found.size == len(data)
    assert found.to_dict()["survey"] == survey.fingerprint == hashlib.sha256(data).hexdigest()


def test_command_that_writes_the_manifest(tmp_path, monkeypatch, capsys, survey):
    monkeypatch.chdir(tmp_path)
    survey.save("designed.toml")

    def run(*words):
        monkeypatch.setattr(
            "sys.argv", ["metricldp", "collector", "manifest", "designed.toml", *words]
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    text = survey.manifest()
    code, out, err = run()
    assert (code, err) == (0, "")
    assert (tmp_path / "designed.client.json").read_text("utf-8") == text
    assert out == (
        f"manifest of survey {survey.fingerprint} in designed.client.json, {len(text):,} bytes\n"
    )
    code, out, _ = run("-o", "other.json", "--json")
    expected = {"survey": survey.fingerprint, "file": "other.json", "size": len(text)}
    assert json.loads(out) == {**expected, "rejected": ""}
    for name in ("designed.toml", "other.txt"):  # the survey itself, and not JSON
        code, _, err = run("-o", name)
        assert code == 2 and err.count("\n") == 1
