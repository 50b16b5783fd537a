"""Uploads: the same reasons for the same faults as the strict reader of many reports."""

import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidReportError,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.collector.envelope import LARGEST, UNDATED, Envelope, new_id, today
from metricldp.collector.proofs import Anybody, Invited
from metricldp.reports.bytes import pack, packed_size, unpack
from metricldp_core.report import ReportFormat

SURVEYS = [
    Survey.design({"age": Integer(0, 99, epsilon=1, mechanism="geometric", per=1)}),
    Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, mechanism="geometric", per=1),
            "region": Categorical(["a", "b", "c"], epsilon=1, mechanism="randomized-response"),
            "paid": Weight(0, 10),
            "income": Continuous(0, 9, bins=9, epsilon=1, mechanism="threshold", per=1),
        }
    ),
    Survey.design({"x": Integer(0, 20, epsilon=1, mechanism="prefix", per=1)}),
    Survey.design(
        SurveySpec(
            {"x": Integer(0, 4, epsilon=1, per=1), "y": Integer(0, 6, epsilon=2, per=1)},
            joint=[["x", "y"]],
        )
    ),
    Survey.design({"x": Integer(0, 9, epsilon=1, optional=True, per=1)}),
]


def word(survey, report):
    try:
        unpack(survey, [report])
    except InvalidReportError as wrong:
        return wrong.reason
    return ""


@cache
def good(survey):
    people = {
        name: [attribute.label(0) if attribute.kind == "categorical" else 1]
        for name, attribute in survey.asked.items()
    }
    (report,) = pack(survey, survey.randomize(people))
    return report


def damaged(survey, rng):
    """A report with a few bytes changed, cut, or longer; or of nothing but noise."""
    report = bytearray(good(survey))
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(2 * len(report)))
    if kind == 1:
        return bytes(report[: rng.randrange(len(report))])
    if kind == 2:
        return bytes(report) + rng.randbytes(rng.randrange(1, 9))
    low = 0 if kind == 3 else 17
    for _ in range(rng.randrange(1, 4)):
        report[rng.randrange(low, len(report))] = rng.randrange(256)
    return bytes(report)


@pytest.mark.parametrize("survey", SURVEYS, ids=range(len(SURVEYS)))
@given(seed=st.integers(0, 2**32))
def test_core_gives_the_same_reason_as_the_reader_of_arrays(survey, seed):
    rng = random.Random(seed)
    one = ReportFormat(survey.client_manifest)
    for report in (good(survey), *(damaged(survey, rng) for _ in range(10))):
        assert one.reason(report) == word(survey, report)


def test_damaged_reports_have_every_reason():
    rng, met = random.Random(5), set()
    for survey in SURVEYS:
        one = ReportFormat(survey.client_manifest)
        met |= {one.reason(damaged(survey, rng)) for _ in range(2000)}
    assert met == {"", "length", "version", "survey", "padding", "range"}


def envelope(survey, proof=None, most=10_000):
    return Envelope(survey, 1, proof or Anybody(), 30, most)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 200])
def test_records_are_read_alike_however_many_they_are(survey, reports, count):
    rng = random.Random(count)
    mixed = [r if rng.random() < 0.7 else bytes([*r[:-1], 255]) for r in reports[:count]]
    found = envelope(survey).read(b"".join(new_id() + report for report in mixed))
    one = ReportFormat(survey.client_manifest)
    assert found.reports == [r[17:] for r in mixed if not one.reason(r)]
    assert sum(found.refused.values()) == sum(bool(one.reason(r)) for r in mixed)
    assert len({*found.marks}) == len(found.marks) == len(found)


def test_a_body_that_is_no_whole_number_of_records_is_refused_as_one(survey, reports):
    body = b"".join(new_id() + report for report in reports[:5])
    size = 16 + packed_size(survey)
    for cut in (0, 1, 15, 16, 17, 40, 2 * size - 1, 2 * size + 1, 5 * size - 1):
        found = envelope(survey).read(body[:cut])
        assert not found.marks
        assert found.refused == {"length": 1}
    assert envelope(survey).read(b"\x00" * 30).refused == {"version": 1}


@pytest.mark.parametrize(
    ("ahead", "refused"),
    [
        (-31, "late"),
        (-30, ""),
        (0, ""),
        (1, ""),
        (2, "early"),
        (10_000, "early"),
        (-10_000, "late"),
        (int.from_bytes(UNDATED) - 1 - today(), "early"),
        (int.from_bytes(UNDATED) - today(), ""),
    ],
)
def test_the_replay_window(survey, reports, ahead, refused):
    found = envelope(survey).read(new_id(today() + ahead) + reports[0])
    assert dict(found.refused) == ({refused: 1} if refused else {})
    assert len(found) == (not refused)


def test_what_is_kept_of_an_id_is_not_the_id_and_links_it_to_nothing(survey, reports):
    one = new_id()
    found, again, other = (envelope(survey).read(one + report) for report in reports[:3])
    assert found.marks == again.marks == other.marks
    assert found.marks[0][:4] == one[:4]
    assert one[4:] not in found.marks[0]
    if reports[0] != reports[1]:
        assert found.digests != again.digests
    # Two devices with the same report have different digests: the id is the key.
    assert envelope(survey).read(new_id() + reports[0]).digests != found.digests


def test_an_invite_has_no_day_and_has_to_be_right(survey, reports):
    proof = Invited(bytes(32))
    read = envelope(survey, proof).read
    for invite in proof.new(5):
        found = read(invite + reports[0])
        assert len(found) == 1
        assert not found.dated
        wrong = bytearray(invite)
        wrong[20] ^= 1
        assert read(bytes(wrong) + reports[0]).refused == {"invite": 1}
        assert read(invite[:16] + bytes(16) + reports[0]).refused == {"invite": 1}
    assert envelope(survey, Invited(bytes(31) + b"1")).read(invite + reports[0]).refused == {
        "invite": 1
    }


def test_too_many_in_one_upload(survey, reports):
    body = b"".join(new_id() + report for report in reports[:11])
    assert envelope(survey, most=10).read(body).refused == {"too-many": 11}
    assert len(envelope(survey, most=11).read(body)) == 11
    assert LARGEST == 1 << 20
