"""The client manifest: what a device needs, the same for everybody who has the survey."""

import hashlib
import json
import math
import re
from fractions import Fraction

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
from metricldp.basics.text import plain
from metricldp.cli import main as cli
from metricldp.reports.bytes import header, packed_size
from metricldp.reports.manifest import manifest, pin, save, unknown_laws
from metricldp.survey.explain import guarantee
from metricldp_core.canonical import canonical


def fields(survey):
    return json.loads(manifest(survey))["fields"]


@pytest.fixture
def survey():
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
            "income": Continuous(0, 1e5, bins=20, epsilon=1, per=1e4, optional=2),
            "told": Categorical(["no", "yes"], epsilon=1, mechanism="randomized-response"),
            "w": Weight(0, 2),
        }
    )


def test_it_is_one_canonical_line(survey):
    text = manifest(survey)
    data = json.loads(text)
    assert "\n" not in text and canonical(data) == text
    assert data["survey"] == survey.fingerprint and data["metricldp-client"] == 1
    assert data["header"] == header(survey).hex() and data["bytes"] == packed_size(survey)
    assert sum(field["bits"] for field in data["fields"]) == survey.report_bits


def test_the_same_survey_has_the_same_line(survey):
    again = Survey.from_toml(survey.to_toml())
    assert manifest(again) == manifest(survey)
    assert pin(manifest(survey)) == hashlib.sha256(manifest(survey).encode()).hexdigest()


def test_fields_say_where_a_value_stands(survey):
    age, income, whether, told, weight = fields(survey)
    assert age["of"] == [{"name": "age", "kind": "integer", "low": 0, "high": 99}]
    bins = {"name": "income", "kind": "continuous", "low": 0, "high": 100000, "bins": 20}
    assert income["of"] == [bins | {"optional": True}]
    assert whether["of"] == [{"name": "income", "kind": "answered"}]
    assert told["of"][0]["names"] == ["no", "yes"]
    assert weight["of"] == [{"name": "w", "kind": "weight", "low": 0, "high": 2}]
    assert (weight["bits"], weight["says"]) == (64, "w: The value is sent without protection.")
    assert "law" not in weight and "epsilon" not in weight
    assert [field["name"] for field in fields(survey)] == list(survey.attributes)
    laws = json.loads(survey.canonical)["laws"]
    assert [age["law"], whether["law"]] == [laws["age"], laws["income=response"]]


def test_small_ones_are_small(survey):
    alone = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric")})
    assert len(manifest(alone)) < 650
    assert len(manifest(survey)) < 2300


@pytest.mark.parametrize(
    "attribute, data",
    [
        (Integer(0, 9, epsilon=1, per=5), {"metric": "line", "step": "1/5"}),
        (
            Integer(0, 9, epsilon=1, max_epsilon=3, per=1),
            {"metric": "line", "step": "1", "cap": "3"},
        ),
        (
            Integer(0, 11, epsilon=1, cyclic=True, per=1),
            {"metric": "line", "step": "1", "around": 12},
        ),
        (
            Integer(0, 9, epsilon=1, within=2.5, max_epsilon=2),
            {"metric": "window", "step": "1", "width": "5/2", "cap": "2"},
        ),
        (Categorical(["a", "b"], epsilon=0.3), {"metric": "uniform", "step": "3/10", "width": 2}),
        (
            Categorical(["a", "b", "c"], epsilon=1, metric=SensitiveSet(["b"])),
            {"metric": "graph", "step": "1", "steps": [1, 1]},
        ),
        (
            Ordinal(["a", "b", "c"], epsilon=1, metric=Graph([("a", "b"), ("b", "c", 2)])),
            {"metric": "graph", "step": "1", "steps": [1, 2]},
        ),
        (
            Ordinal(["a", "b", "c"], epsilon=1, metric=Graph([("a", "b"), ("a", "c", 2.5)])),
            {"metric": "graph", "step": "1/2", "pairs": [[0, 1], [0, 2]], "steps": [2, 5]},
        ),
        (
            Continuous(0, 1, points=5, epsilon=1, rounding="stochastic", per=1),
            {"metric": "line", "step": "1/4"},
        ),
    ],
)
def test_metrics_are_exact(attribute, data):
    assert attribute.distances.to_data(attribute.size) == data


def test_pairs_of_a_graph_lead_everywhere():
    """The shortest way over the pairs is the metric again; one pair less, and it is not."""
    edges = Graph([("a", "b"), ("b", "c", 2), ("c", "d", "1/3"), ("d", "a", 2)])
    metric = Categorical(list("abcd"), epsilon=1, metric=edges).distances
    data = metric.to_data(4)
    pairs = data.get("pairs", [[x, x + 1] for x in range(3)])

    def ways(pairs):
        far = {(x, y): Fraction(x != y) * 100 for x in range(4) for y in range(4)}
        for (x, y), steps in zip(pairs, data["steps"], strict=False):
            far[x, y] = far[y, x] = Fraction(data["step"]) * steps
        for z in range(4):
            for x, y in list(far):
                far[x, y] = min(far[x, y], far[x, z] + far[z, y])
        return far

    assert all(far == metric.distance(*pair) for pair, far in ways(pairs).items())
    assert any(far != metric.distance(*pair) for pair, far in ways(pairs[:-1]).items())


def test_words_and_epsilon(survey):
    age, income, whether, told, _ = fields(survey)
    assert "at most 2.72 times as likely for one age as for another within 5" in age["says"]
    assert "at most e^19.8 times for any two" in age["says"]
    assert income["says"].startswith(f"income: {guarantee(survey, 'income')}")
    assert whether["says"] == (
        "income (response): A report is at most 7.39 times as likely for no response as for "
        "50,000, the middle, and at most 1,097 times as likely for no response as for 0."
    )
    assert told["says"].startswith("told: A report is at most 2.72 times as likely")
    assert [age["epsilon"], whether["epsilon"], told["epsilon"]] == [19.8, 2, 1]


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
def test_stated_factors_of_no_response_bound_the_exact_ratios(attribute, norm):
    """The exact ratio of no response and each value, over both fields of a report."""
    survey = Survey.design(SurveySpec({"x": attribute}, metric=Lp(norm)))
    _, field = fields(survey)
    largest = max(
        float(t.replace(",", "")) for t in re.findall(r"at most ([\d,.]+)", field["says"])
    )
    middle = attribute.position(attribute.middle)
    values, (_, whether) = range(attribute.size), survey.channels.values()
    exact = whether.distribution.ratio(0, 1) * max(
        survey.channels["x"].distribution.ratio(middle, x) for x in values
    )
    assert exact <= largest
    assert f"for no response as for {plain(attribute.middle)}, the middle" in field["says"]
    # Negative control: the field alone, which the text stated before.
    assert exact > math.exp(field["epsilon"])
    bounds = survey.explain().to_dict()["attributes"][0]["no_response"].values()
    assert largest == pytest.approx(math.exp(max(bounds)), rel=0.01)


@pytest.mark.parametrize(
    ("attribute", "stated"),
    [
        (Integer(0, 99, epsilon=1, within=5), "2.72 times as likely for one x as for another wit"),
        (Integer(0, 3, epsilon=1, per=10), "1.35 times as likely for one x as for another."),
        (Continuous(0, 1e5, bins=20, epsilon=1, per=1000), "e^95 times for any two."),
        (Integer(1, 99, epsilon=1, metric=Relative(0.5)), "by 50 %, and at most 83,530 times for"),
        (Continuous(edges=[0, 1, 5, 10], epsilon=1, per=1), "90.1 times as likely for one x as fo"),
        (
            Categorical(list("abc"), epsilon=1, metric=SensitiveSet(["a"])),
            "for another if one is a",
        ),
    ],
)
def test_texts_state_the_metric_that_a_device_proves(attribute, stated):
    """Factors are rounded up, and that of any two values is e^epsilon of the field."""
    (field,) = fields(Survey.design({"x": attribute}))
    assert field["says"].startswith("x: A report is at most ") and stated in field["says"]
    *_, largest = re.findall(r"at most (e\^)?([\d,.]+\d)", field["says"])
    number = float(largest[1].replace(",", ""))
    assert (number if largest[0] else math.log(number)) == pytest.approx(field["epsilon"], 1e-2)


def test_guarantee_of_a_memoised_attribute_covers_all_its_reports():
    memoised = {"name": "memoised", "each": 0.25}
    (field,) = fields(Survey.design({"x": Integer(0, 9, epsilon=1, mechanism=memoised, per=1)}))
    assert " This holds for all reports of one response together." in field["says"]


def test_edges_circles_and_private_weights():
    attributes = {
        "pay": Continuous(edges=[0, 1, 5, 20], epsilon=1, per=1),
        "hour": Integer(0, 23, epsilon=1, per=1, cyclic=True),
        "w": Weight(0, 2, private=True, epsilon=1),
    }
    pay, hour, weight = (field["of"][0] for field in fields(Survey.design(attributes)))
    assert (pay["edges"], pay["low"], pay["high"]) == ([0, 1, 5, 20], 0, 20)
    assert (hour["cyclic"], weight["private"]) == (True, True)
    assert "cyclic" not in pay and "private" not in pay


def test_a_block_stands_where_its_first_attribute_does():
    attributes = {name: Integer(0, 3, epsilon=1, per=1) for name in "axb"}
    found = fields(Survey.design(SurveySpec(attributes, joint=[["a", "b"]])))
    assert [[each["name"] for each in field["of"]] for field in found] == [["a", "b"], ["x"]]
    assert found[0]["epsilon"] == 6
    assert found[0]["says"].splitlines() == [
        *(
            f"{name}: A report is at most 2.72 times as likely for one {name} as for another within"
            " 1, and at most 20.1 times for any two."
            for name in "ab"
        ),
        "a and b: A report is at most 404 times as likely for one respondent as for another who "
        "differs in these attributes alone.",
    ]


def test_a_block_of_parts_has_no_distances():
    survey = Survey.design(
        SurveySpec({k: Integer(0, 3, epsilon=1, per=1) for k in "ab"}, joint={("a", "b"): "hio"})
    )
    (field,) = fields(survey)
    assert field.keys() == {"name", "of", "bits", "law"}
    assert unknown_laws(survey) == ["hio"]


def test_cells_have_one_field():
    attributes = {
        "a": Integer(0, 3, epsilon=1, per=1),
        "b": Integer(0, 2, epsilon=0.5, max_epsilon=0.5, per=1),
    }
    (field,) = fields(Survey.design(SurveySpec(attributes, joint=[["a", "b"]])))
    assert [each["name"] for each in field["of"]] == ["a", "b"]
    assert field["law"]["law"] == "cells"
    assert field["metric"] == {
        "metric": "grid",
        "sizes": [4, 3],
        "step": "1/2",
        "numbers": [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7],
    }


def test_a_norm_shrinks_distances():
    attributes = {"a": Integer(0, 3, epsilon=1, per=1), "b": Integer(0, 2, epsilon=0.5, per=1)}
    wide = Survey.design(SurveySpec(attributes, metric=Lp(float("inf"))))
    assert [field["metric"]["step"] for field in fields(wide)] == ["1/2", "1/4"]


def test_laws_that_the_client_does_not_know(tmp_path, survey):
    assert unknown_laws(survey) == []
    peers = Survey.design({"a": Categorical(list("abcd"), epsilon=1, mechanism="hadamard")})
    assert unknown_laws(peers) == ["hadamard"]
    assert "does not support" in str(save(peers, tmp_path / "a.client.json"))


def test_compile(tmp_path, survey):
    found = save(survey, tmp_path / "survey.client.json")
    data = (tmp_path / "survey.client.json").read_bytes()
    assert data == manifest(survey).encode() and found.size == len(data)
    assert found.pin == hashlib.sha256(data).hexdigest()
    assert found.to_dict()["survey"] == survey.fingerprint


def test_the_command(tmp_path, monkeypatch, capsys, survey):
    monkeypatch.chdir(tmp_path)
    survey.save("asked.toml")

    def run(*words):
        monkeypatch.setattr(
            "sys.argv", ["metricldp", "collector", "manifest", "asked.toml", *words]
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    text = manifest(survey)
    code, out, err = run()
    assert (code, err) == (0, "") and (tmp_path / "asked.client.json").read_text("utf-8") == text
    assert out == (
        f"client of survey {survey.fingerprint} in asked.client.json, {len(text):,} bytes\n"
        f"pin {pin(text)}\n"
    )
    code, out, _ = run("-o", "other.json", "--json")
    told = {"survey": survey.fingerprint, "file": "other.json", "pin": pin(text)}
    assert json.loads(out) == {**told, "size": len(text), "unknown": []}
    for name in ("asked.toml", "other.txt"):  # the survey itself, and no JSON
        code, _, err = run("-o", name)
        assert code == 2 and err.count("\n") == 1
