"""Report vectors: this package reproduces vectors/*.json, and wrong vectors are noticed."""

import hashlib
import json

import pytest
import vector_cases
from vector_cases import FILES, FOLDER, MANIFESTS, made

from metricldp import Integer, InvalidSpecError, InvalidValueError, MetricLdpError, Survey
from metricldp_core.device import Device
from metricldp_core.distributions import FIRST, SECOND, SUPPORTED
from metricldp_core.manifest import Manifest
from metricldp_core.metrics import KINDS
from vectors import Recorded, check, check_of_survey, manifest_vector, report_vector

FEWEST = 3_000
"""Vectors in all files together."""
DOMAINS = {"integer", "continuous", "ordinal", "categorical", "weight", "response"}


def loaded(name):
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_files_are_reproduced(name):
    count, wrong = check(loaded(name))
    assert not wrong, "\n".join(wrong[:5])
    assert count > 40
    assert made(name) == (FOLDER / f"{name}.json").read_text("utf-8"), "vectors never change"


def test_there_are_many_vectors_and_no_other_files():
    files = sorted(FOLDER.iterdir())
    assert [file.name for file in files] == sorted(f"{name}.json" for name in FILES)
    assert sum(check(loaded(name))[0] for name in FILES) >= FEWEST


def test_every_distribution_metric_and_domain_has_vectors():
    fields = [
        field
        for name in MANIFESTS
        for one in loaded(name)["manifests"]
        for field in Manifest.parse(one["manifest"]).fields
    ]
    drawn = [f.distribution for f in fields if f.distribution is not None]
    memoised = [d for d in drawn if d.kind == "memoised"]
    assert {d.kind for d in drawn} == SUPPORTED.keys()
    assert {d.first.kind for d in memoised} == FIRST.keys()
    assert {d.second.kind for d in memoised} == SECOND.keys()
    assert {f.metric.kind for f in fields if f.metric is not None} == KINDS.keys()
    domains = [domain for field in fields for domain in field.domains]
    assert {domain.kind for domain in domains} == DOMAINS
    for named in ("optional", "stochastic", "within", "ratio", "cyclic", "given"):
        assert {bool(getattr(domain, named, None)) for domain in domains} == {True, False}, named


def wrong_vectors():
    """A vector of each list with something wrong in it."""
    first = ["manifests", 0]
    yield "threshold", [*first, "reports", 0, "words"], lambda words: words + "0" * 16
    yield "threshold", [*first, "reports", 0, "report"], lambda report: report[:-2] + "02"
    yield "threshold", [*first, "fingerprint"], lambda digits: "0" + digits[1:]
    yield "threshold", [*first, "guarantee", 0], lambda sentence: sentence.replace("most", "least")
    yield "threshold", [*first, "certificate", 0, "loss"], lambda loss: loss + 1e-8
    yield "threshold", [*first, "certificate", 0, "tightest"], lambda pair: pair[::-1]
    yield "table", [*first, "reports", 0, "report"], lambda report: report[:-1] + "1"
    yield "memoised", [*first, "reports", -1, "remembered"], lambda _: {}
    yield "random-words", ["random_words", 5, "result"], lambda found: found + "1"
    yield "canonical", ["canonical", 0, "text"], lambda text: text + "0"
    yield "rejected-reports", [*first, "rejected_reports", 0, "reason"], lambda _: "range"
    yield "rejected-reports", [*first, "rejected_reports", 0, "report"], lambda _: ""
    yield "rejected-values", [*first, "rejected_values", 0, "reason"], lambda _: "kind"
    yield "rejected-manifests", ["rejected_manifests", 0, "reason"], lambda _: "guarantee"
    yield "rejected-manifests", ["rejected_manifests", -1, "manifest"], lambda _: VALID
    yield "surveys", ["surveys", 0, "fingerprint"], lambda digits: digits[::-1]
    yield "rejected-surveys", ["rejected_surveys", 0, "text"], lambda _: DESIGNED.to_toml()


DESIGNED = Survey.design({"x": Integer(0, 9, epsilon=1, per=1, mechanism="geometric")})
VALID = DESIGNED.manifest()


@pytest.mark.parametrize(("name", "path", "change"), list(wrong_vectors()))
def test_wrong_vector_is_noticed(name, path, change):
    data = loaded(name)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    assert len(check(data)[1]) == 1
    with pytest.raises(InvalidSpecError, match="metricldp-vectors = 1"):
        check({**data, "metricldp-vectors": 2})


@pytest.mark.parametrize("name", MANIFESTS)
def test_surveys_read_reports_as_devices_write_them(name):
    """The package with arrays and the core agree on all reports, also on rejected ones."""
    cases = [one for one in MANIFESTS[name]() if one.survey is not None]
    assert (len(cases) > 0) == (name != "table")  # no mechanism of a survey is a table
    for one in cases:
        assert check_of_survey(one.survey, one.vector) == []


def test_survey_that_reads_reports_differently_is_noticed():
    one = next(iter(vector_cases.rejected_reports()))
    vector = one.vector
    wrong = {**vector["rejected_reports"][0], "reason": "range"}
    assert len(check_of_survey(one.survey, {**vector, "rejected_reports": [wrong]})) == 1
    assert check_of_survey(DESIGNED, vector) == ["another manifest"]


# Making vectors


def test_recorded_words():
    """The words that are given, lowest byte first, and then digests of the seed and a number."""
    first, second = (hashlib.sha256(f"seed {k}".encode()).digest() for k in (1, 2))
    stream = Recorded("seed", [1, 2**64 - 2])
    given = bytes([1, *[0] * 7, 254, *[255] * 7])
    assert stream.draw(16) == given
    assert stream.drawn == given  # nothing is drawn before it is needed
    assert stream.draw(8) == first[:8]
    assert stream.draw(40) == first[8:] + second[:16]
    assert stream.draw(0) == b""
    assert stream.words(3) == "0000000000000001" + "fffffffffffffffe" + first[7::-1].hex()
    assert stream.words(0) == ""


def test_vectors_of_another_survey():
    survey = Survey.design({"a": Integer(0, 9, epsilon=1, per=1)})
    device = Device(survey.client_manifest)
    response, beyond = {"a": 3}, {"a": 12}
    one = report_vector(device, response, Recorded("one"))
    assert set(one) == {"response", "words", "report"}
    assert one["response"] == response
    source = Recorded("one")
    source.draw(len(one["words"]) // 2)
    assert one["words"] == source.words(len(one["words"]) // 16)
    clipped = report_vector(device, beyond, Recorded("two"), clip=True)
    assert (clipped["clip"], clipped["response"]) == (True, beyond)
    with pytest.raises(InvalidValueError):
        report_vector(device, beyond, Recorded("two"))
    rejected = [{"response": beyond, "reason": "range"}]
    found = manifest_vector(
        survey.client_manifest, reports=[one, clipped], rejected_values=rejected
    )
    assert (found["manifest"], found["fingerprint"]) == (survey.manifest(), survey.fingerprint)
    assert check({"metricldp-vectors": 1}) == (0, [])
    data = {"metricldp-vectors": 1, "manifests": [found]}
    assert check(data) == (4, [])
    for place, key, wrong in (
        (found, "fingerprint", "{}"),
        (one, "words", one["words"] + "0" * 16),
        (one, "report", "00"),
        (clipped, "report", "00"),
        (rejected[0], "reason", "kind"),
    ):
        right, place[key] = place[key], wrong
        count, differences = check(data)
        assert (count, len(differences)) == (4, 1)
        assert differences[0].startswith("manifests: ")
        place[key] = right
    rejected.append({"response": beyond, "clip": True, "reason": None})
    assert check(data) == (5, [])
    one["words"] = one["words"][:-16]
    with pytest.raises(MetricLdpError, match="more random words than were given"):
        check(data)
    one["response"] = beyond
    with pytest.raises(InvalidValueError):  # without clip it is rejected
        check(data)


def test_survey_files_in_both_formats():
    texts = [
        {"format": "json", "text": DESIGNED.to_json()},
        {"format": "toml", "text": DESIGNED.to_toml()},
    ]
    good = [{**text, "fingerprint": DESIGNED.fingerprint} for text in texts]
    swapped = [{**text, "format": "toml" if text["format"] == "json" else "json"} for text in texts]
    data = {"metricldp-vectors": 1, "surveys": good, "rejected_surveys": swapped}
    assert check(data) == (4, [])
    accepted = check({"metricldp-vectors": 1, "rejected_surveys": texts})[1]
    assert len(accepted) == 2
