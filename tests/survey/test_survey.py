"""Surveys: files, fingerprints, explanations and certificates."""

import hashlib
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidSpecError,
    Lp,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)

MANIFEST = (
    '{"fields":[{"attributes":[{"high":99,"kind":"integer","low":0,"name":"age","within":"5"}],'
    '"distribution":{"block":"73073916076e220e","digits":["733e1443505f6313","66bc67cf4c5a7029"],'
    '"kind":"geometric","size":100,"zero":"1983d7795f4139da"},'
    '"metric":{"epsilon":"1/5","kind":"line"}}],"metricldp":1}'
)
FINGERPRINT = "80d5cdd38dca7b40d72cebad74c8ae10c7e47f1c194ca1dd141e723b956c5cb8"
"""Of the survey in test_fingerprints_are_of_manifests, format 1."""

positive = st.floats(0.1, 30)
names = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="="), min_size=1, max_size=8
)
integers = st.builds(
    lambda low, width, e, per, m: Integer(low, low + width, epsilon=e, per=per, mechanism=m),
    st.integers(-(10**6), 10**6),
    st.integers(1, 50),
    positive,
    positive,
    st.sampled_from(["auto", "threshold", "threshold-paper", "geometric", "randomized-response"]),
)
continuous = st.builds(
    lambda low, width, bins, e: Continuous(low, low + width, bins=bins, epsilon=e, per=width),
    st.floats(-1e6, 1e6),
    st.floats(1, 1e6),
    st.integers(2, 40),
    positive,
)
categories = st.lists(names, min_size=2, max_size=6, unique=True)
attributes = st.one_of(
    integers,
    continuous,
    st.builds(lambda c, e: Categorical(c, epsilon=e), categories, positive),
    st.builds(lambda c, e, per: Ordinal(c, epsilon=e, per=per), categories, positive, positive),
)
specs = st.dictionaries(names, attributes, min_size=1, max_size=4)


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_files_of_any_survey_round_trip_exactly_and_every_one_is_certified(few):
    """Most of the time is that of what "auto" searches for, so one survey stands both tests."""

    @settings(max_examples=25 if few else 200)
    @given(specs)
    def each(spec):
        survey = Survey.design(spec)
        for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
            assert again == survey
            assert again.attributes == survey.attributes
            assert again.channels == survey.channels
            assert again.to_toml() == survey.to_toml()
        assert survey.certify().holds

    each()


def test_saved_files_load(tmp_path):
    survey = Survey.design(
        {"a": Integer(0, 9, epsilon=1, per=1), 'é \\ "q" #': Integer(0, 9, epsilon=1, per=1)}
    )
    for name in ("survey.toml", "survey.json"):
        survey.save(tmp_path / name)
        assert Survey.load(tmp_path / name) == survey


def test_fingerprints_are_of_manifests():
    base = {"a": Integer(0, 9, epsilon=1, per=1), "b": Integer(0, 9, epsilon=1, per=1)}
    changed = [
        {"b": base["b"], "a": base["a"]},
        {"a": base["a"], "c": base["b"]},
        {**base, "a": Integer(0, 9, epsilon=math.nextafter(1, 2), per=1)},
        {**base, "a": Integer(0, 10, epsilon=1, per=1)},
        {**base, "a": Integer(0, 9, epsilon=1, per=2)},
        {**base, "a": Integer(0, 9, epsilon=1, mechanism="threshold-paper", per=1)},
        {"a": base["a"]},
    ]
    prints = {Survey.design(one).fingerprint for one in [base, *changed]}
    assert len(prints) == 1 + len(changed)
    # With another manifest, reports that were collected could not be read.
    fixed = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric")})
    assert fixed.manifest() == MANIFEST
    assert hashlib.sha256(MANIFEST.encode()).hexdigest() == FINGERPRINT == fixed.fingerprint


def test_surveys_are_fixed_and_can_be_pickled():
    survey = Survey.design(
        SurveySpec({"a": Integer(0, 9, epsilon=1, per=1), "w": Weight(0, 1)}, metric=Lp(2))
    )
    again = pickle.loads(pickle.dumps(survey))
    assert again == survey
    assert again.channels == survey.channels
    with pytest.raises(TypeError):
        survey.attributes["a"] = Integer(0, 9, epsilon=50, per=1)
    with pytest.raises(TypeError):
        survey.channels["a"] = None


def test_decimals_mean_what_is_written():
    assert Integer(0, 9, epsilon=0.1, per=0.3).distances.step == Fraction(1, 3)
    assert Continuous(0, 0.3, bins=3, epsilon=1, per=0.1).distances.step == 1
    assert Categorical(["x", "y"], epsilon=0.1).distances.step == Fraction(1, 10)


def test_many_categories_are_certified_by_one_pair():
    many = [f"c{k}" for k in range(2000)]
    survey = Survey.design({"c": Categorical(many, epsilon=1, mechanism="randomized-response")})
    proof = survey.certify().proofs[0]
    assert proof.holds
    assert (len(proof.core.pairs), proof.count) == (1, 2000 * 1999 // 2)


def test_auto_is_written_out():
    survey = Survey.design(
        {"a": Integer(0, 999, epsilon=1, per=1), "b": Integer(0, 4, epsilon=0.1, per=1)}
    )
    assert survey.mechanisms["a"].name == "geometric"
    assert survey.mechanisms["b"].name == "additive"
    assert "auto" not in survey.to_toml()
    assert 'mechanism = "geometric"' in survey.to_toml()
    assert Survey.from_toml(survey.to_toml()).fingerprint == survey.fingerprint


def test_certificate_reads_well():
    survey = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric")})
    certificate = survey.certify()
    assert certificate.holds
    assert certificate.proofs[0].count == 99
    assert len(certificate.proofs[0].core.pairs) == 1  # others have the same bound
    assert certificate.proofs[0].tightest.loss == pytest.approx(0.2, rel=1e-12)
    assert "certified: every pair" in str(certificate)
    json.dumps(certificate.to_dict())


@pytest.mark.parametrize("metric", [Lp(1), Lp(2), Lp(math.inf)])
def test_channels_for_other_metrics_than_stated_are_not_certified(metric, monkeypatch):
    """All channels are designed for three times the metric; the manifest has the stated one."""
    from metricldp.survey import design

    attributes = {
        "a": Integer(0, 9, epsilon=1, per=1),
        "r": Continuous(0, 9, points=10, epsilon=1, per=1, rounding="stochastic"),
        "c": Categorical(["x", "y"], epsilon=1),
    }
    assert Survey.design(SurveySpec(attributes, metric=metric)).certify().holds
    stated = design.metric_on_positions
    monkeypatch.setattr(
        design, "metric_on_positions", lambda a, share: stated(a, share).scaled(Fraction(3))
    )
    survey = Survey.design(SurveySpec(attributes, metric=metric))
    assert not any(proof.holds for proof in survey.certify().proofs)
    with pytest.raises(ValueError, match=r"the guarantee does not hold|break its guarantee"):
        survey.report({"a": 1, "r": 1, "c": "x"})
    with pytest.raises(InvalidSpecError, match="break its guarantee: a has a privacy loss of"):
        Survey.from_toml(survey.to_toml())


def test_continuous_values_fall_into_their_bins():
    attribute = Continuous(0, 1, bins=10, epsilon=1, per=1)
    edges = attribute.bin_edges
    places = attribute.positions(edges)
    assert places.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    below = np.nextafter(edges[1:-1], 0)
    assert attribute.positions(below).tolist() == list(range(9))


@given(
    low=st.floats(-1e9, 1e9),
    width=st.floats(1e-3, 1e9),
    bins=st.integers(2, 1000),
    share=st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_bins_agree_with_their_edges(low, width, bins, share):
    high = low + width
    edges = np.linspace(low, high, bins + 1)
    if not (np.diff(edges) > 0).all():
        return
    attribute = Continuous(low, high, bins=bins, epsilon=1, per=width / bins)
    values = np.clip(low + np.array(share) * width, low, high)
    expected = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    assert attribute.positions(values).tolist() == expected.tolist()


def test_where_clauses_mean_what_they_say():
    survey = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=1),
            "income": Continuous(0, 100, bins=10, epsilon=1, per=10),
            "mood": Ordinal(["bad", "fair", "good"], epsilon=0.5),
            "region": Categorical(["north", "south", "east"], epsilon=2),
        }
    )

    def chosen(name, words):
        return np.flatnonzero(survey.attributes[name].choose(words, name).inside).tolist()

    assert chosen("age", (18, 20)) == [18, 19, 20]
    assert chosen("age", (97, None)) == [97, 98, 99]
    assert chosen("age", (None, 1)) == [0, 1]
    assert chosen("age", (98, 1000)) == [98, 99]
    assert chosen("age", 7) == [7]
    assert chosen("age", [7, 3]) == [3, 7]
    assert chosen("income", (20, 50)) == [2, 3, 4]
    with pytest.raises(QueryError, match="20 and 30; 49 lies between the edges 40 and 50"):
        chosen("income", (22, 49))
    assert survey.attributes["income"].choose((20, 50), "income").note is None
    with pytest.raises(QueryError, match="part of a bin; use the bin, 20 to 30"):
        chosen("income", 25.0)
    assert chosen("mood", ("fair", None)) == [1, 2]
    assert chosen("mood", "bad") == [0]
    assert chosen("region", ["east", "north"]) == [0, 2]
    tally = survey.tally(
        survey.randomize(
            {"age": [1], "income": [1.0], "mood": ["bad"], "region": ["north"]},
            randomness=Randomness.seeded(1),
        )
    )
    assert not tally.count({"income": (20, 50)}).notes


def test_a_key_that_stands_twice_is_refused():
    """Languages differ in which of the two they take."""
    text = Survey.design({"a": Integer(0, 9, epsilon=1, per=1)}).to_json()
    twice = text.replace('"low": 0,', '"low": 0, "low": 5,')
    with pytest.raises(InvalidSpecError, match="not a JSON file: 'low' occurs twice in one object"):
        Survey.from_json(twice)


@pytest.mark.parametrize("names", [("a", "b+c"), ("a", "b")])
def test_blocks_cannot_be_mistaken_for_another(names):
    attributes = {n: Integer(0, 3, epsilon=1, per=1) for n in ("a", "b", "a+b", "b+c")}
    with pytest.raises(InvalidSpecError, match="another may be called so, too; use names without"):
        Survey.design(SurveySpec(attributes, joint={names: "hio"}))
