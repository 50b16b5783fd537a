"""The bytes of reports: every bit has one meaning, and whatever no device sends is rejected."""

import contextlib
import random

import pytest
from core_cases import W, examples, field, integer, manifest, simple

from metricldp.channels.plain_data import manifest_of
from metricldp_core import Device, InvalidManifestError, Manifest
from metricldp_core.distributions import RandomizedResponse, Threshold
from metricldp_core.random_words import Words
from metricldp_core.report import HEADER_BYTES, REASONS, ReportFormat

TEXT = manifest(
    simple(integer("a", high=4)),
    field(integer("b", high=3), {"kind": "line", "epsilon": "9"}, Threshold(4, (W // 3,) * 3)),
    {"attributes": [{"name": "w", "kind": "weight", "low": 0, "high": 4}]},
    simple(integer("c", high=6)),
)
FORMAT = ReportFormat(Manifest.parse(TEXT))
ONE = 0x3FF0000000000000
PARTS = [4, 5, ONE, 6]


def content(report):
    return int.from_bytes(report[HEADER_BYTES:], "little")


def test_parts_follow_each_other_lowest_bit_first():
    report = FORMAT.pack(PARTS)
    assert len(report) == FORMAT.size == HEADER_BYTES + 10
    assert report[0] == 1
    assert report[1:17].hex() == Manifest.parse(TEXT).fingerprint[:32]
    assert content(report) == 4 | 5 << 3 | ONE << 6 | 6 << 70
    assert FORMAT.reason(report) == ""
    assert FORMAT.pack([0, 0, 0, 0])[HEADER_BYTES:] == bytes(10)


def check_bits():
    """Every bit of a report is checked: its header, its padding and its parts."""
    report = FORMAT.pack(PARTS)
    reasons = []
    for bit in range(8 * len(report)):
        flipped = bytearray(report)
        flipped[bit // 8] ^= 1 << bit % 8
        reasons.append(FORMAT.reason(bytes(flipped)))
    assert set(reasons[:8]) == {"version"}
    assert set(reasons[8 : 8 * HEADER_BYTES]) == {"survey"}
    body = reasons[8 * HEADER_BYTES :]
    assert body[73:] == ["padding"] * 7
    for bit, reason in enumerate(body[:73]):
        parts = content(report) ^ 1 << bit
        inside = parts & 7 < 5 and parts >> 70 < 7
        weight = parts >> 6 & W - 1
        inside = inside and (weight <= 0x4010000000000000 or weight == W // 2)
        assert reason == ("" if inside else "range"), bit


def test_every_single_bit_of_a_report_is_checked():
    check_bits()


def test_reports_of_other_lengths_versions_surveys_and_kinds_are_rejected():
    report = FORMAT.pack(PARTS)
    other = ReportFormat(Manifest.parse(manifest(simple(integer("a", high=4)))))
    for size in range(len(report)):
        assert FORMAT.reason(report[:size]) == "length"
    assert FORMAT.reason(report + b"\0") == FORMAT.reason(report * 2) == "length"
    for version in (0, 2, 255):
        wrong = bytes([version]) + report[1:]
        assert FORMAT.reason(wrong) == FORMAT.reason(wrong[:5]) == "version"
    assert FORMAT.reason(other.pack([1])) == other.reason(report) == "survey"
    for wrong in (bytearray(report), memoryview(report), report.hex(), list(report), None, 5, ""):
        assert FORMAT.reason(wrong) == "kind"
    assert FORMAT.reason(b"") == "length"
    found = {FORMAT.reason(b"\2"), "survey", "kind", "length", "padding", "range"}
    assert found == set(REASONS)


@pytest.mark.parametrize("bits", range(1, 9))
def test_padding_has_as_many_bits_as_are_left(bits):
    """From a whole byte to a single bit in the last one."""
    text = manifest(
        field(integer(high=1), {"kind": "line", "epsilon": "9"}, Threshold(2, (W // 3,)))
    )
    if bits > 1:
        flips = Threshold(bits + 1, (W // 3,) * bits)
        text = manifest(field(integer(high=bits), {"kind": "line", "epsilon": "9"}, flips))
    report_format = ReportFormat(Manifest.parse(text))
    report = report_format.pack([(1 << bits) - 1])
    assert report_format.reason(report) == ""
    for bit in range(bits, 8):
        assert report_format.reason(report[:-1] + bytes([report[-1] | 1 << bit])) == "padding"


def test_all_integers_of_a_field_are_possible_or_out_of_range():
    for size in (2, 3, 5, 8):
        text = manifest(simple(integer(high=size - 1)))
        report_format = ReportFormat(Manifest.parse(text))
        bits = RandomizedResponse(size, 1).bits
        reasons = [report_format.reason(report_format.pack([y])) for y in range(1 << bits)]
        assert reasons == [""] * size + ["range"] * ((1 << bits) - size)


def test_devices_send_reports_that_are_accepted_and_can_be_read_back():
    """For every kind of distribution that a field can have."""
    rng, fields = random.Random(1), []
    for k, distribution in enumerate(examples(4)):
        domain = integer(f"x{k}", high=distribution.size - 1)
        one = field(domain, {"kind": "uniform", "epsilon": "1000"}, distribution)
        with contextlib.suppress(InvalidManifestError):  # no field has such a distribution
            fields += Manifest.parse(manifest(one)).fields
    assert len({one.distribution.kind for one in fields}) == 9
    device = Device.__new__(Device)  # some can reveal a position, so that no guarantee holds
    device.manifest = manifest_of(fields)
    device._format = ReportFormat(device.manifest)
    for _ in range(20):
        positions = [rng.randrange(one.distribution.size) for one in fields]
        report = device.randomize(positions, Words())
        assert device._format.reason(report) == ""
        rest, parts = content(report), []
        for one in fields:
            parts.append(rest & (1 << one.bits) - 1)
            rest >>= one.bits
        assert device._format.pack(parts) == report
