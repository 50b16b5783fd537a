"""The collector records which presentation of a survey was in use, and from when on."""

import hashlib
import json
import time

import pyarrow.parquet as pq
import pytest
from collected import TOKEN, Client, InMemory
from devices import ask, records, serve_and

from metricldp import InvalidSpecError, Survey
from metricldp.cli.collector import _status_from
from metricldp.collector import sealing
from metricldp.collector.page import pages

EMPTY = hashlib.sha256(b"{}").hexdigest()
TEXTS = {"en": {"age": {"title": "Age", "text": "How old are you?\nIn years."}}}
OTHERS = {"en": {"region": {"labels": {"north": "The North", "east": "L’Est"}}}}


def presented(survey, presentation):
    return Survey.from_dict({**survey.to_dict(), "presentation": presentation})


def digests(collector, survey):
    return [digest for _, digest in collector.status(survey).presentations]


def test_digest_is_that_of_canonical_json(survey):
    text = json.dumps(OTHERS, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expected = hashlib.sha256(text.encode()).hexdigest()
    shown = presented(survey, OTHERS)
    assert shown.presentation_digest == expected
    for copy in (Survey.from_toml(shown.to_toml()), Survey.from_json(shown.to_json())):
        assert copy.presentation_digest == expected
    assert survey.presentation_digest == EMPTY
    assert presented(survey, TEXTS).presentation_digest not in (expected, EMPTY)


def test_presentation_does_not_change_the_fingerprint(survey):
    assert presented(survey, TEXTS).fingerprint == survey.fingerprint


@pytest.mark.parametrize(
    "presentation",
    [
        {"en": {"age": {"title": "half \ud800"}}},
        {"en": {"age": {"labels": {"\udfff": "x"}}}},
        {"en": {"age": {"labels": {3: "x"}}}},
        {"en": {"age": {"labels": ["x"]}}},
        {"en": {"age": {"title": 3}}},
        {"en": {"age": {"epsilon": "3"}}},
        {"en": {"wage": {"title": "x"}}},
        {"en": {"age": "x"}},
        {"en": "x"},
        {"\ud800": {}},
        {3: {}},
        "x",
    ],
)
def test_presentation_that_is_not_text_is_rejected(survey, presentation):
    with pytest.raises(InvalidSpecError) as caught:
        presented(survey, presentation)
    str(caught.value).encode()  # the message can be printed


def test_digest_is_recorded_once_for_each_change(collector, survey):
    start = int(time.time())
    shown, changed = presented(survey, TEXTS), presented(survey, OTHERS)
    for one in (survey, survey, shown, shown, changed, shown):
        collector.open(one)
        assert collector.entry(survey.fingerprint).presentations[-1][1] == one.presentation_digest
    collector.change(survey, window=9)  # settings leave the presentation as it is
    expected = [one.presentation_digest for one in (survey, shown, changed, shown)]
    assert digests(collector, survey) == expected
    times = [second for second, _ in collector.status(survey).presentations]
    assert times == sorted(times)
    assert start <= times[0] and times[-1] <= time.time()
    assert collector.surveys()[0].presentation == TEXTS


def test_reports_are_counted_across_presentations(collector, survey, reports):
    collector.open(survey)

    async def go(app):
        path = f"/v1/surveys/{survey.fingerprint}/reports"
        first = await ask(app, "POST", path, b"".join(records(reports[:3])))
        assert collector.tally(survey).n == 3
        collector.open(presented(survey, TEXTS))
        second = await ask(app, "POST", path, b"".join(records(reports[3:7])))
        return first.data["accepted"], second.data["accepted"]

    assert serve_and(collector, go) == (3, 4)
    assert collector.tally(survey).n == 7


def test_owner_changes_the_presentation_over_the_network(collector, survey, wide):
    collector.open(survey)
    other = collector.open(wide).number
    number = collector.entry(survey.fingerprint).number
    scopes = {"owner": (number, "own"), "analyst": (number, "ask"), "stranger": (other, "own")}
    with collector.using() as (_, register):
        tokens = {name: register.new_token(name, *scope) for name, scope in scopes.items()}
    path = f"/v1/surveys/{survey.fingerprint}"
    shown = presented(survey, TEXTS)
    bearers = {name: {"authorization": f"Bearer {token}"} for name, token in tokens.items()}

    async def go(app):
        before = await ask(app, "GET", path)
        for headers in ((), bearers["analyst"], bearers["stranger"]):
            assert (await ask(app, "PUT", path, shown.to_json().encode(), headers)).word == "token"
        assert digests(collector, survey) == [EMPTY]
        put = await ask(app, "PUT", path, shown.to_json().encode(), bearers["owner"])
        assert (put.status, put.data["presentation"]) == (201, shown.presentation_digest)
        bad = shown.to_json().replace("Age", "\\ud800").encode()
        assert (await ask(app, "PUT", path, bad, bearers["owner"])).word == "question"
        after = await ask(app, "GET", path)
        assert after.data["presentation"] == TEXTS
        assert after.headers["etag"] != before.headers["etag"]
        old = await ask(app, "GET", path, headers={"if-none-match": before.headers["etag"]})
        assert old.status == 200
        manifest = await ask(app, "GET", f"{path}/manifest")
        assert manifest.body.decode() == survey.manifest()
        # An owner of one survey cannot open others.
        new = f"/v1/surveys/{'0' * 64}"
        assert (await ask(app, "PUT", new, b"", bearers["owner"])).word == "token"
        status = await ask(app, "GET", f"{path}/status", headers=bearers["analyst"])
        return [digest for _, digest in status.data["presentations"]]

    assert serve_and(collector, go) == [EMPTY, shown.presentation_digest]


def test_segment_states_the_presentation_at_the_time_of_sealing(collector, books, survey, reports):
    shown = presented(survey, TEXTS)
    number = collector.open(shown).number

    async def go(app):
        path = f"/v1/surveys/{survey.fingerprint}/reports"
        await ask(app, "POST", path, b"".join(records(reports[:5])))

    serve_and(collector, go)
    assert collector.tend(books, 5) == 5
    (name,) = books.segments(number)
    path = sealing.file_of(books, collector.folder, name)
    said = pq.read_metadata(path).metadata
    assert said[sealing.PRESENTATION].decode() == shown.presentation_digest
    assert survey.tally(path).n == 5


def test_page_shows_the_latest_digests_with_their_times(survey):
    collected = InMemory(survey.tally([]))
    collected.presentations = tuple((1_700_000_000 + 60 * k, f"{k:064x}") for k in range(7))
    client = Client(
        pages(collected), base_url="http://x", headers={"authorization": f"Bearer {TOKEN}"}
    )
    text = client.get(f"/surveys/{survey.fingerprint}").text
    footer = text.partition("<footer")[2]
    assert survey.fingerprint in footer
    assert f"{6:064x}</code>, since 14 Nov 2023 22:19 (UTC)" in footer
    assert footer.index(f"{6:064x}") < footer.index(f"{5:064x}")
    assert f"{1:064x}" not in footer


def test_status_command_reads_the_times(collector, survey):
    collector.open(survey)
    status = collector.status(survey)
    data = json.loads(json.dumps({**vars(status), "outcomes": dict(status.outcomes)}))
    assert _status_from(data) == status
