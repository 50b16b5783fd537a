"""Devices: memory, randomness, fingerprints, missing and unknown names; and equal work."""

import gc
import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from core_cases import W, examples, field, integer, manifest, optional, simple

from metricldp.channels.plain_data import manifest_of
from metricldp_core import Device, InvalidManifestError, InvalidValueError, Manifest, MetricLdpError
from metricldp_core.distributions import (
    Geometric,
    LazyGeometric,
    Memoised,
    RandomizedResponse,
    Table,
    Threshold,
)
from metricldp_core.levels import Additive
from metricldp_core.random_words import Words

ANY = {"kind": "line", "epsilon": "64"}
KEEPS = Memoised(RandomizedResponse(4, W // 2), RandomizedResponse(4, W // 3))
MEMOISED = manifest(field(integer(high=3), {"kind": "uniform", "epsilon": "9"}, KEEPS))
PLAIN = manifest(simple(integer(high=3)))


def counted(*values):
    """A source of bytes that gives these words, then zeros, and counts its calls."""
    content = b"".join(v.to_bytes(8, "little") for v in values).ljust(1 << 12, b"\0")
    calls = []

    def source(count):
        calls.append(count)
        return content[sum(calls) - count : sum(calls)]

    return source, calls


# Randomness --------------------------------------------------------------------------------------


def test_randomness_comes_from_the_operating_system_by_default(monkeypatch):
    calls = []

    def urandom(count):
        calls.append(count)
        return bytes(count)

    assert Device.report.__kwdefaults__["source"] is os.urandom
    defaults = {**Device.report.__kwdefaults__, "source": urandom}
    monkeypatch.setattr(Device.report, "__kwdefaults__", defaults)
    Device(PLAIN).report({"x": 1})
    assert calls == [512]


def test_reports_never_share_words():
    source, calls = counted()
    device = Device(PLAIN)
    for _ in range(3):
        device.report({"x": 1}, source=source)
    assert len(calls) == 3


def test_values_are_checked_before_the_first_word_is_read():
    source, calls = counted()
    for text in (PLAIN, manifest(simple(integer("a")), simple(integer("b")))):
        with pytest.raises(InvalidValueError):
            Device(text).report({"a": 0, "b": 7, "x": 9}, source=source)
    assert calls == []


def test_forked_processes_have_different_words():
    """A device that is forked reads new bytes of the operating system for each report."""
    text = manifest(field(integer(high=99), ANY, Threshold(100, (W // 2 - 1,) * 99)))
    device = Device(text)
    device.report({"x": 1})
    read, write = os.pipe()
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            os.write(write, device.report({"x": 1}))
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    os.close(write)
    size = device._format.size
    reports = os.read(read, 1 << 16)
    os.close(read)
    parts = {reports[k : k + size] for k in range(0, len(reports), size)}
    assert len(parts) == 3


def test_reports_follow_from_given_words_alone():
    device = Device(PLAIN)
    words = [0, 1 << 62]
    reports = {device.randomize(device.positions({"x": 2}), Words.given(words)) for _ in range(3)}
    assert len(reports) == 1
    with pytest.raises(MetricLdpError, match="more random words"):
        device.randomize(device.positions({"x": 2}), Words.given(words[:1]))


# Memory ------------------------------------------------------------------------------------------


def check_memory():
    """The first randomization of a position is drawn once, the second for each report."""
    device, memory = Device(MEMOISED), {}
    stay = [0, 0]
    move = [W - 1, 0]
    first = device.randomize(device.positions({"x": 1}), Words.given([*move, *stay]), memory)
    assert memory == {f"{device.manifest.fingerprint} 1 x": 2}
    again = device.randomize(device.positions({"x": 1}), Words.given([*stay, *stay]), memory)
    assert first == again
    assert len(memory) == 1
    device.randomize(device.positions({"x": 3}), Words.given([*stay, *move]), memory)
    assert memory[f"{device.manifest.fingerprint} 3 x"] == 3
    assert len(memory) == 2


def test_first_randomization_is_drawn_once_for_each_position():
    check_memory()


def test_a_second_report_without_the_memory_of_the_first_raises_an_error():
    for memories in ((None, None), ({}, None), (None, {}), ({}, {}, None)):
        device = Device(MEMOISED)
        *before, last = memories
        for memory in before:
            device.report({"x": 1}, memory=memory)
        with pytest.raises(InvalidValueError, match="needs the memory of the first"):
            device.report({"x": 1}, memory=last)
    device = Device(MEMOISED)
    with pytest.raises(InvalidValueError):
        device.report({"x": 9})
    device.report({"x": 1})  # nothing was reported before
    device = Device(PLAIN)
    assert all(device.report({"x": 1}) for _ in range(3))


@pytest.mark.parametrize("entry", [-1, 4, 1.0, True, "2", None, 1 << 70])
def test_an_invalid_memory_is_rejected_and_not_shown(entry):
    device = Device(MEMOISED)
    memory = {f"{device.manifest.fingerprint} 1 x": entry}
    with pytest.raises(InvalidValueError, match="memory has an invalid entry for 'x'") as caught:
        device.report({"x": 1}, memory=memory)
    assert repr(entry) not in str(caught.value)
    assert len(memory) == 1


def test_a_memory_serves_one_survey_only():
    """Entries are keyed by the fingerprint, so that another survey draws afresh."""
    other = manifest(field(integer(high=3), {"kind": "uniform", "epsilon": "8"}, KEEPS))
    memory = {}
    for text in (MEMOISED, other):
        Device(text).report({"x": 1}, memory=memory)
    assert len(memory) == 2
    assert json.loads(json.dumps(memory)) == memory


def test_memory_of_values_that_are_rounded_at_random_is_kept_by_value():
    """All reports of one value are functions of one output, also between two points."""
    domain = {"name": "x", "kind": "continuous", "low": 0, "high": 3, "points": 4}
    device, memory = Device(manifest(field(domain, {"kind": "uniform", "epsilon": "9"}, KEEPS))), {}
    device.report({"x": 1.5}, memory=memory)
    assert list(memory) == [f"{device.manifest.fingerprint} {3 << 31} x"]
    # Without a memory the same words are read in the same order.
    words = [1 << 63, 0, 0, 0, 0]
    positions = device.positions({"x": 0.25})
    assert device.randomize(positions, Words.given(words)) == device.randomize(
        positions, Words.given(words), {}
    )


def test_fields_of_one_name_cannot_share_an_entry_of_the_memory():
    joint = field([integer("a"), integer("b")], {"kind": "uniform", "epsilon": "9"}, KEEPS)
    single = field(integer("a+b", high=3), {"kind": "uniform", "epsilon": "9"}, KEEPS)
    assert Manifest.parse(manifest(joint)).fields[0].name == "a+b"
    with pytest.raises(InvalidManifestError, match="different names"):
        Manifest.parse(manifest(joint, single))


# Manifests and names -----------------------------------------------------------------------------


def test_a_manifest_that_breaks_its_guarantee_or_has_another_fingerprint_is_rejected():
    low = {"kind": "uniform", "epsilon": "1/100"}
    broken = manifest(field(integer(), low, RandomizedResponse(2, W // 4 * 3)))
    with pytest.raises(InvalidManifestError, match=r"does not hold:\nx: .*BROKEN"):
        Device(broken)
    good = Device(PLAIN).manifest.fingerprint
    assert Device(PLAIN, fingerprint=good).manifest.fingerprint == good
    for other in (good[:-1], good.upper(), "", "0" * 64):
        with pytest.raises(InvalidManifestError, match="another fingerprint; do not report"):
            Device(PLAIN, fingerprint=other)


def message(device, response):
    with pytest.raises(InvalidValueError) as caught:
        device.report(response)
    return str(caught.value)


def test_responses_are_mappings_with_a_value_for_each_attribute():
    device = Device(manifest(simple(integer("age")), simple(integer("sex"))))
    assert message(device, [1]) == "a response is a dict of values by attribute, not list"
    assert message(device, {}) == "the response has no value for 'age', only for none"
    assert "did you mean 'agee'?" in message(device, {"agee": 1, "sex": 0})
    assert "'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j' and 2 more" in message(
        device, dict.fromkeys("cdefghijkl", 918273)
    )
    assert "918273" not in message(device, dict.fromkeys("cdefghijkl", 918273))
    assert device.report({"age": 1, "sex": 0, "more": 5})


def test_unknown_names_are_rejected_if_an_attribute_is_optional():
    """A misspelt name would otherwise count as a missing response."""
    device = Device(manifest(*optional(integer("age")), simple(integer("sex"))))
    assert device.report({"sex": 1}) and device.report({"age": None, "sex": 1})
    unknown = message(device, {"agee": 918273, "sex": 1})
    assert unknown.startswith("the response has a value for 'agee', which is not in the survey")
    assert unknown.endswith("did you mean 'age'?")
    assert "a key that is not a name" in message(device, {"sex": 1, 918273: 1})
    assert "918273" not in message(device, {"sex": 1, 918273: 1})


def test_public_weights_are_sent_as_they_are():
    public = {"attributes": [{"name": "w", "kind": "weight", "low": 0, "high": 9}]}
    device = Device(manifest(simple(integer()), public))
    report = device.report({"x": 1, "w": 2.5})
    bits = int.from_bytes(report[17:], "little") >> 1
    assert np.uint64(bits).view(np.float64) == 2.5
    assert device._format.reason(report) == ""


def test_cells_of_joint_attributes_are_flattened():
    grid = {"kind": "uniform", "epsilon": "9"}
    domains = [integer("a", high=1), integer("b", high=2), integer("c", high=3)]
    device = Device(manifest(field(domains, grid, RandomizedResponse(24, W // 2))))
    assert device.positions({"a": 1, "b": 2, "c": 3}) == [23]
    assert device.positions({"a": 1, "b": 0, "c": 2}) == [14]


# Equal work --------------------------------------------------------------------------------------


def executed(call):
    """How many of Python's instructions a call executes, with all that it calls."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # others may have put Python code into it
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


WORDS = [k * 0x9E3779B97F4A7C15 % W for k in range(1, 400)]


def work(device, values, *, clip=False, memory=None, words=WORDS):
    """The numbers of instructions, and of words, that reports of these values take."""
    counts = set()
    for value in values:
        response = {} if value is NOTHING else {"x": value}
        for _ in range(2):  # what is computed once is not counted
            tape, store = Words.given(words), None if memory is None else dict(memory)

            def report(response=response, tape=tape, store=store):
                device.randomize(device.positions(response, clip=clip), tape, store)

            count = executed(report)
        counts.add((count, tape.used))
    return counts


NOTHING = object()
INSIDE, OUTSIDE = [0, 1, 50, 98, 99], [-1, 100, 150, -(10**9), 10**30, -(10**400), 10**5000]
FLOATS = [-1.0, 100.0, 150.0, -1e300, 1e300, 1.7976931348623157e308]
TYPES = {
    "int": (INSIDE, OUTSIDE),
    "float": ([float(v) for v in INSIDE], FLOATS),
    "int64": ([np.int64(v) for v in INSIDE], [np.int64(v) for v in OUTSIDE[:4]]),
    "float32": ([np.float32(v) for v in INSIDE], [np.float32(v) for v in FLOATS[:3]]),
    "decimal": ([Decimal(v) for v in INSIDE], [Decimal(v) for v in OUTSIDE[:5]]),
    "text": ([str(v) for v in INSIDE], [str(v) for v in OUTSIDE[:5]]),
}
NUMBER = {"name": "x", "kind": "continuous", "low": 0, "high": 99}
DOMAINS = {
    "integer": integer(high=99),
    "bins": {**NUMBER, "bins": 7},
    "edges": {"name": "x", "kind": "continuous", "edges": [0, 1, 5, 50, 99]},
    "points": {**NUMBER, "points": 12},
    "private weight": {**NUMBER, "kind": "weight", "private": True},
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", DOMAINS)
def test_every_number_takes_the_same_instructions(name, kind):
    inside, outside = TYPES[kind]
    if kind == "text" and name != "integer":
        inside = [*inside, "50.5", "+1e1", ".5"]
    device = Device(manifest(simple(DOMAINS[name])))
    assert len(work(device, inside)) == 1
    assert len(work(device, inside + outside, clip=True)) == 1
    device = Device(manifest(*optional(DOMAINS[name])))
    missing = {"float": [float("nan")], "text": [" "], "decimal": [Decimal("NaN")]}.get(kind, [])
    assert len(work(device, inside + missing)) == 1


def test_public_weights_take_the_same_instructions():
    public = {"attributes": [{"name": "x", "kind": "weight", "low": 0, "high": 99}]}
    device = Device(manifest(simple(integer("y")), public))
    device.positions = lambda response, clip, real=device.positions: real(
        {**response, "y": 0}, clip=clip
    )
    for inside, outside in TYPES.values():
        assert len(work(device, inside + outside, clip=True)) == 1


@pytest.mark.parametrize("kind", ["ordinal", "categorical"])
def test_every_name_takes_the_same_instructions(kind):
    names = ["a", "no", "north-by-north-west", "ä", "x" * 500]
    domain = {"name": "x", "kind": kind, "names": names}
    for parts in ([simple(domain)], optional(domain)):
        device = Device(manifest(*parts))
        assert len(work(device, names)) == 1
        assert len(work(device, names, clip=True)) == 1


@pytest.mark.parametrize("distribution", list(examples(5)), ids=lambda d: d.kind)
def test_draws_take_the_same_instructions_at_every_position(distribution):
    for start in (0, 50, 100, 150):
        counts = set()
        for x in range(distribution.size):
            for _ in range(2):
                tape = Words.given(WORDS[start:])
                count = executed(lambda x=x, tape=tape: distribution.draw(x, tape))
            counts.add((count, tape.used))
        assert len(counts) == 1


def test_memoised_reports_take_the_same_instructions_whatever_is_remembered():
    lazy = Memoised(
        Geometric(4, W // 3, (W // 3,), W // 4),
        LazyGeometric(Geometric(4, W // 3, (), W // 4), W // 2, W // 5),
    )
    for kept in (KEEPS, lazy):
        device = Device(manifest(field(integer(high=3), {"kind": "line", "epsilon": "9"}, kept)))
        mark = device.manifest.fingerprint
        memories = [{}, {f"{mark} {x} x": x for x in range(4)}, {f"{mark} 1 x": 3}]
        words = [W // 2] * 40
        assert (
            len({c for m in memories for c in work(device, range(4), memory=m, words=words)}) == 1
        )


def test_a_shortcut_for_values_inside_would_be_detected():
    """A negative control: a domain that clips by an exception takes more instructions."""
    device = Device(PLAIN)
    domain = device.manifest.fields[0].domains[0]

    class Hurried(type(domain)):
        def position_of(self, value, clip):
            try:
                return super().position_of(value, False)
            except InvalidValueError:
                return super().position_of(value, clip)

    values = [0, 3, 10**30]
    assert len(work(device, values, clip=True)) == 1
    hurried = Hurried(**{f.name: getattr(domain, f.name) for f in fields(domain)})
    device.manifest = manifest_of((replace(device.manifest.fields[0], domains=(hurried,)),))
    assert len(work(device, values, clip=True)) == 2


# Imports -----------------------------------------------------------------------------------------


def test_the_core_imports_the_standard_library_only():
    """In an interpreter without packages, environment or user folders."""
    source = Path(__file__).parents[2] / "src"
    program = f"""
import sys
sys.path[:] = [{str(source)!r}, *(p for p in sys.path if "site-packages" not in p)]
from metricldp_core import Device
Device({PLAIN!r}).report({{"x": 1}})
import metricldp_core.guarantee
names = {{name.partition(".")[0] for name in sys.modules}}
print(*sorted(names - set(sys.stdlib_module_names) - {{"__main__"}}))
"""
    run = [sys.executable, "-S", "-I", "-c", program]
    result = subprocess.run(run, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["metricldp_core"]
    assert result.stderr == ""


def test_the_core_is_typed_and_has_all_modules():
    folder = Path(sys.modules["metricldp_core"].__file__).parent
    assert (folder / "py.typed").exists()
    assert {Additive.__module__, Table.__module__, Device.__module__} <= {
        f"metricldp_core.{path.stem}" for path in folder.glob("*.py")
    }
