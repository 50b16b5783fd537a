"""Bytes that are no reports, and reports that were changed on their way."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
from fuzzing import Wrong, tried

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidReportError,
    Lp,
    Ordinal,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.registry import every_mechanism
from metricldp.reports.arrow import column_of
from metricldp.reports.bytes import header, pack, packed_size, unpack

AT_ONCE = 2000
"""Reports of a block."""
_VALID, _FLIPPED, _RANDOM, _HEADER, _LENGTH, _KIND = range(6)
_SHARES = [0.1, 0.35, 0.4, 0.08, 0.06, 0.01]
_SUPPORT = 50
"""Accepted reports of a block that are held against the law."""


def _with(own):
    ages = {"x": Integer(0, 6, epsilon=1, per=1), "y": Integer(10, 15, epsilon=1, per=1)}
    if own.joint:
        return lambda: Survey.design(SurveySpec(ages, joint={("x", "y"): own.name}))
    x = Integer(0, 6, epsilon=1, mechanism=own.name, per=1)
    return lambda: Survey.design({"x": x, "z": Ordinal(["no", "yes"], epsilon=1)})


SURVEYS = [
    *map(_with, every_mechanism()),
    lambda: Survey.design(
        {"w": Weight(-1, 2), "x": Integer(0, 2, epsilon=1, mechanism="randomized-response", per=1)}
    ),
    lambda: Survey.design({"v": Weight(0, 1, private=True, epsilon=1), "w": Weight(0, 1)}),
    lambda: Survey.design(
        SurveySpec({"x": Integer(0, 999, epsilon=0.1, mechanism="geometric", per=1)}, metric=Lp(2))
    ),
    lambda: Survey.design({"x": Integer(0, 300, epsilon=0.1, mechanism="threshold", per=1)}),
    lambda: Survey.design({"c": Categorical([f"c{k}" for k in range(77)], epsilon=1)}),
    lambda: Survey.design(
        {"a": Integer(0, 4, epsilon=1, optional=True, per=1), "b": Integer(0, 4, epsilon=1, per=1)}
    ),
    lambda: Survey.design(
        {
            "h": Continuous(0, 1, points=6, epsilon=3, rounding="stochastic", per=1),
            "i": Continuous(0, 1, bins=11, epsilon=3, per=1),
        }
    ),
]


@cache
def survey_of(number):
    """A survey, and reports that its devices did send."""
    survey = SURVEYS[number]()
    random = np.random.default_rng(number)
    people = {
        name: _values(attribute, random.integers(attribute.size, size=AT_ONCE))
        for name, attribute in survey.asked.items()
    }
    return survey, pack(survey, survey.randomize(people, randomness=Randomness()))


def _values(attribute, positions):
    low = [attribute.values_at(position)[0] for position in range(attribute.size)]
    return np.array(low)[positions]


def block(random, where):
    """Many changed reports at once: how many, and what is wrong."""
    number = random.randrange(len(SURVEYS))
    survey, sent = survey_of(number)
    blobs, kinds = _changed(survey, sent, np.random.default_rng(random.getrandbits(64)))
    wrong = []

    def work():
        refused = Counter()
        table = unpack(survey, blobs, refused=refused)
        accepted = _accepted(survey, blobs, refused, table)
        if any(kinds[k] == _VALID and k not in accepted for k in range(len(blobs))):
            raise Wrong("a report that a device did send is refused")
        if pack(survey, table) != [blobs[k] for k in accepted]:
            raise Wrong("an accepted report is not read as it was written")
        order = sorted(accepted, key=lambda k: (kinds[k] == _VALID, k))
        for k in order[:_SUPPORT]:
            if not supported(survey, blobs[k]):
                raise Wrong(f"no device could send {blobs[k].hex()}, but it is accepted")

    failure = tried("reports", f"{where} survey {number}", (number, "block"), work)
    if failure:
        wrong.append(failure)
    for k in range(0, len(blobs), len(blobs) // 8):
        if isinstance(blobs[k], str):  # the name of a file
            continue
        failure = tried("reports", where, (number, blobs[k]), lambda k=k: single(number, blobs[k]))
        wrong += [failure] if failure else []
    return len(blobs), wrong


def _accepted(survey, blobs, refused, table):
    """Which should have been accepted; that these were is seen when they are packed again."""
    if sum(refused.values()) + table.num_rows != len(blobs):
        raise Wrong(f"{len(blobs)} reports, {table.num_rows} accepted, {refused} refused")
    return {k: None for k, blob in enumerate(blobs) if well_formed(survey, blob)}


@cache
def _shape(survey):
    return header(survey), packed_size(survey), list(survey.fields.values())


def well_formed(survey, blob):
    """The rules of docs/specification.md, read again from the start, in plain integers."""
    start, size, fields = _shape(survey)
    if type(blob) is not bytes or len(blob) != size or not blob.startswith(start):
        return False
    number, at = int.from_bytes(blob[len(start) :], "little"), 0
    for field in fields:
        for outputs, bits in _numbers(field):
            part = number >> at & ((1 << bits) - 1)
            at += bits
            if outputs is not None and not outputs(part):
                return False
    return not number >> at


def _numbers(field):
    """The integers of a field: what each may be, and its bits."""
    kind = type(field).__name__
    if kind == "Number":
        return [(lambda part: part < field.outputs, field.bits)]
    if kind == "Struct":
        return [
            (lambda part, most=most: part < most, (most - 1).bit_length()) for most in field.outputs
        ]
    if kind == "Clear":
        return [(lambda part: field.low <= _double(part) <= field.high, 64)]
    if kind == "Chosen":  # so many bits that are 1
        return [(lambda part: part.bit_count() == field.ones, field.bits)]
    if kind == "LevelBits":  # bits of one level, zeros where it has fewer, and which level
        bits, digits = field.counts[-1], (len(field.counts) - 1).bit_length()
        return [(lambda part: _level(part, field.counts), bits + digits)]
    return [(None, field.bits)]


def _level(part, counts):
    level, nodes = part >> counts[-1], part & ((1 << counts[-1]) - 1)
    return level < len(counts) and not nodes >> counts[level]


def _double(part):
    return np.array([part], dtype="<u8").view("<f8")[0]


def supported(survey, blob):
    """Whether somebody sends this report with a probability above 0."""
    table = unpack(survey, [blob])
    for name, channel in survey.channels.items():
        column = channel.field.unpack(_bits(survey, blob, name))
        if not any(channel.probability(x, column[0]) > 0 for x in range(channel.size)):
            return False
    for each in survey.blocks.values():
        row = {part: int(table[column_of(name)][0].as_py()) for part, name in each.columns.items()}
        if not any(each.channel.probability(x, row) > Fraction(0) for x in np.ndindex(each.sizes)):
            return False
    return True


def _bits(survey, blob, name):
    rows = np.frombuffer(blob[len(header(survey)) :], dtype=np.uint8)[None]
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    start = 0
    for other, field in survey.fields.items():
        if other == name:
            return bits[:, start : start + field.bits]
        start += field.bits
    raise LookupError(name)


def single(number, blob):
    """One report by itself is taken or refused as it is among others."""
    survey, _ = survey_of(number)
    refused = Counter()
    accepted = unpack(survey, [blob], refused=refused).num_rows
    try:
        survey.tally([blob])
    except InvalidReportError as refusal:
        if accepted or refused != {refusal.reason: 1}:
            raise Wrong(f"refused for {refusal.reason}, among others for {refused}") from None
        raise
    if not accepted:
        raise Wrong("accepted by itself, refused among others")


def _changed(survey, sent, random):
    """Reports of all kinds, and which kind each is of."""
    size, start = packed_size(survey), len(header(survey))
    kinds = random.choice(len(_SHARES), p=_SHARES, size=AT_ONCE)
    rows = np.frombuffer(b"".join(sent), dtype=np.uint8).reshape(-1, size).copy()
    rows = rows[random.permutation(len(rows))[: len(kinds)]]
    noise = random.integers(256, size=rows.shape, dtype=np.uint8)
    at = kinds == _RANDOM
    rows[at, start:] = noise[at, start:]
    padding = 8 * (size - start) - survey.report_bits
    if padding:  # else hardly any random report gets past the zeros behind its fields
        tidy = at & (noise[:, 0] < 200)
        rows[tidy, -1] &= np.uint8(0xFF >> padding)
    for times in (1, 2):
        at = (kinds == _FLIPPED) & (noise[:, times] % times == 0)
        places = random.integers(start, size, size=len(rows))
        rows[at, places[at]] ^= np.uint8(1) << (noise[at, times + 2] & 7)
    at = kinds == _HEADER
    places = random.integers(start, size=len(rows))
    rows[at, places[at]] ^= np.maximum(noise[at, 0], 1)
    blobs = [row.tobytes() for row in rows]
    for k in np.flatnonzero(kinds == _LENGTH).tolist():
        cut = int(random.integers(-size, size))
        blobs[k] = blobs[k][:cut] if cut < 0 else blobs[k] + noise[k].tobytes()[: cut + 1]
    others = [bytearray(b"x"), "text", 7, None, memoryview(b"x"), 1.5, (), [b"x"], {}]
    for k in np.flatnonzero(kinds == _KIND).tolist():
        blobs[k] = others[int(random.integers(len(others)))]
    return blobs, kinds
