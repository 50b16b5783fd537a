"""Manifests: one text for each, and everything else is rejected quickly with the reason."""

import copy
import hashlib
import json
import math
import random
import re
import time

import pytest
from core_cases import W, examples, field, integer, manifest, optional, simple

from metricldp.channels.plain_data import manifest_of, plain_data, word
from metricldp_core import InvalidManifestError, Manifest
from metricldp_core.canonical import canonical, is_line, parsed
from metricldp_core.distributions import (
    Geometric,
    LazyGeometric,
    Matrix,
    Memoised,
    RandomizedResponse,
    Row,
    Table,
    Threshold,
    Unary,
)
from metricldp_core.levels import Additive, Extremal

LINE = {"kind": "line", "epsilon": "1/2"}
NUMBER = {"name": "n", "kind": "continuous", "low": -1.5, "high": 1e-7}
NOISE = Geometric(4, W // 3, (W // 3,), W // 5)
FIELDS = [
    simple(integer("a", high=3, cyclic=True)),
    *optional({"name": "o", "kind": "ordinal", "names": ["low", "mid", "é"], "within": "1"}),
    field(integer("b", high=3), {**LINE, "width": "3/2", "cap": "7/3"}, NOISE),
    field(integer("c", high=4, cyclic=True), {**LINE, "ring": True}, Threshold(5, (W // 3,) * 4)),
    field({**NUMBER, "bins": 4, "within": "0.25"}, LINE, Unary(4, (W // 2,) * 4, (W // 3,) * 4)),
    field(
        {**NUMBER, "name": "p", "points": 4}, LINE, Memoised(NOISE, LazyGeometric(NOISE, 1, W - 1))
    ),
    field(
        {"name": "e", "kind": "continuous", "edges": [0.5, 1, 2e21], "ratio": "0.1"},
        {"kind": "graph", "step": "1/1000000", "lengths": [str(1 << 53)]},
        Extremal.of(((0, 1), (1, 0)), (W // 3, W // 3), W // 2),
    ),
    field(
        {"name": "g", "kind": "categorical", "names": ["x", "y", "z"]},
        {"kind": "graph", "step": "2", "pairs": [[0, 1], [0, 2]], "lengths": [1, 2]},
        Table(((W // 2, W // 2), (W // 4, W // 4 * 3), (W // 2, W // 2))),
    ),
    field(
        [integer("u"), integer("v")],
        {"kind": "grid", "step": "1", "sizes": [2, 2], "steps": [[0, 1, 1], [1, 0, 2], [1, 1, 2]]},
        Additive(
            (2, 2), (2, 3), ((0, 1, 1, 2, 1, 0), (1, 0, 1, 0, 2, 1)), (W // 9, W // 9), W // 2
        ),
    ),
    field(
        integer("m", high=2),
        LINE,
        Matrix(3, (Row((0, 1, 1), 0, NOISE), Row((-2, -2, 1), -2, NOISE))),
    ),
    {"attributes": [{"name": "w", "kind": "weight", "low": 0, "high": 4}]},
    simple({"name": "q", "kind": "weight", "low": 0, "high": 4, "private": True}),
    field(
        integer("r", high=2),
        LINE,
        Memoised(Table(((W - 1, 1),) * 3), RandomizedResponse(2, W // 3)),
    ),
]
TEXT = manifest(*FIELDS)
DATA = json.loads(TEXT)


def rejection(text):
    """The message with which a text is rejected, within a second of processor time."""
    start = time.process_time()
    with pytest.raises(InvalidManifestError) as caught:
        Manifest.parse(text)
    assert time.process_time() - start < 1
    return str(caught.value)


def accepted(text):
    try:
        read = Manifest.parse(text)
    except InvalidManifestError:
        return False
    assert manifest_of(read.fields).text == read.text == text
    return True


def paths(data, path=()):
    """The paths of all values in JSON data, with their parents."""
    if isinstance(data, dict):
        for key in data:
            yield (*path, key)
            yield from paths(data[key], (*path, key))
    elif isinstance(data, list):
        for k, item in enumerate(data):
            yield (*path, k)
            yield from paths(item, (*path, k))


def at(data, path):
    for key in path:
        data = data[key]
    return data


PATHS = list(paths(DATA))


# Lines of text ----------------------------------------------------------------------------------

WHITE = [*range(9, 14), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)]
WHITE += [0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F)]
CONTROLS += [*range(0x2066, 0x206A), *range(0xD800, 0xE000)]


def test_lines_of_text_are_the_same_in_every_version_of_unicode():
    every = range(0x110000)
    assert [c for c in every if not chr(c).strip()] == WHITE
    assert [c for c in every if not is_line(f"a{chr(c)}b")] == CONTROLS
    assert [c for c in every if not is_line(chr(c))] == sorted({*WHITE, *CONTROLS})
    assert not any(map(is_line, ("", None, 5, b"a", ["a"])))


# One text ----------------------------------------------------------------------------------------


def test_manifests_are_read_as_they_are_written():
    read = Manifest.parse(TEXT)
    assert read.text == TEXT
    assert Manifest.parse(read.text) == read
    assert len(read.fields) == len(FIELDS)
    for distribution in examples(6):
        if isinstance(distribution, LazyGeometric):
            continue
        text = manifest(simple(integer(high=distribution.size - 1)))
        data = json.loads(text)
        data["fields"][0]["distribution"] = plain_data(distribution)
        assert accepted(canonical(data)) or "hexadecimal" in rejection(canonical(data))


def test_fingerprint_is_the_hash_of_the_text():
    assert Manifest.parse(TEXT).fingerprint == hashlib.sha256(TEXT.encode()).hexdigest()
    assert "é" in TEXT


OTHER_FORMS = {
    "space": lambda t: t.replace(":", ": ", 1),
    "newline": lambda t: t + "\n",
    "byte order mark": lambda t: "\ufeff" + t,
    "escape": lambda t: t.replace('"low"', '"\\u006cow"', 1),
    "escaped letter": lambda t: t.replace("é", "\\u00e9"),
    "float": lambda t: t.replace('"low":0', '"low":0.0', 1),
    "minus zero": lambda t: t.replace('"low":0', '"low":-0', 1),
    "exponent": lambda t: t.replace("1e-7", "0.0000001"),
    "capital exponent": lambda t: t.replace("1e-7", "1E-7"),
    "long exponent": lambda t: t.replace("2e+21", "2e21"),
    "digits": lambda t: t.replace("-1.5", "-1.50"),
    "capital digits": lambda t: t.replace(f"{W // 9:x}", f"{W // 9:X}", 1),
    "fraction": lambda t: t.replace('"3/2"', '"6/4"'),
    "whole fraction": lambda t: t.replace('"2"', '"2/1"', 1),
    "text length": lambda t: t.replace(f'"{1 << 53}"', f'"{(1 << 53) - 1}"'),
    "number length": lambda t: t.replace(f'"{1 << 53}"', str(1 << 53)),
    "split run": lambda t: re.sub(
        r'\[\["([0-9a-f]{16})",4\]\]', r'[["\1",1],["\1",3]]', t, count=1
    ),
    "order of keys": lambda t: t.replace(
        '"high":3,"kind":"integer"', '"kind":"integer","high":3', 1
    ),
    "listed path": lambda t: t.replace('"lengths":["9', '"pairs":[[0,1]],"lengths":["9'),
    "default width": lambda t: t.replace(
        '"kind":"line","ring":true', '"kind":"line","ring":true,"width":"1"'
    ),
    "list of depths": lambda t: t.replace('"depths":["01","10"]', '"depths":[[0,1],[1,0]]'),
    "long depths": lambda t: t.replace('"depths":["01","10"]', '"depths":[":0001","10"]'),
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_other_forms_of_the_same_data_are_rejected(name):
    text = OTHER_FORMS[name](TEXT)
    assert text != TEXT
    rejection(text)


# Wrong data --------------------------------------------------------------------------------------


def test_every_missing_key_and_item_is_rejected_or_makes_another_manifest():
    for path in PATHS:
        data = copy.deepcopy(DATA)
        del at(data, path[:-1])[path[-1]]
        text = canonical(data)
        if isinstance(path[-1], str) and path[-1] not in OPTIONAL_KEYS:
            rejection(text)
        else:
            assert accepted(text) or rejection(text)


OPTIONAL_KEYS = (
    "cyclic",
    "optional",
    "within",
    "ratio",
    "width",
    "cap",
    "ring",
    "pairs",
    "private",
)


def test_every_unknown_key_is_rejected():
    for path in [(), *PATHS]:
        if isinstance(at(DATA, path), dict):
            for key in ("extra", "Kind", "", "\ud800"):
                data = copy.deepcopy(DATA)
                at(data, path)[key] = 1
                assert rejection(json.dumps(data))
    data = {**DATA, "extra": 1}
    assert "unknown key 'extra'" in rejection(canonical(data))


@pytest.mark.parametrize("wrong", [None, True, [], {}, 1.5, -1, "", "x", [[]], {"a": 1}], ids=repr)
def test_every_value_of_a_wrong_type_is_rejected(wrong):
    for path in PATHS:
        value = at(DATA, path)
        if type(value) is type(wrong) or (
            type(value) in (int, float) and type(wrong) in (int, float)
        ):
            continue
        data = copy.deepcopy(DATA)
        at(data, path[:-1])[path[-1]] = wrong
        assert rejection(canonical(data)).startswith("the manifest ")


def test_numbers_that_json_does_not_have_are_rejected():
    for path in PATHS:
        if type(at(DATA, path)) in (int, float):
            for wrong in (math.nan, math.inf, -math.inf):
                data = copy.deepcopy(DATA)
                at(data, path[:-1])[path[-1]] = wrong
                assert re.search("NaN|Infinity", rejection(json.dumps(data)))
            data = copy.deepcopy(DATA)
            at(data, path[:-1])[path[-1]] = "HUGE"
            for digits in ("1e999", "9" * 300, "9" * 5000, "-" + "9" * 400):
                rejection(json.dumps(data).replace('"HUGE"', digits))


def test_every_key_that_occurs_twice_is_rejected():
    keys = list(re.finditer(r'[{,](?="[a-z]+":)', TEXT))
    for match in keys:
        rest = TEXT[match.end() :]
        key = rest[: rest.index(":")]
        text = f"{TEXT[: match.end()]}{key}:0,{rest}"
        assert "an object has a key twice" in rejection(text)
    assert len(keys) > 100


def test_texts_that_are_no_manifest_are_rejected():
    for text in ("", " ", "1", "null", '"x"', "[]", "{", "{}", "[" * 10**5, '{"a":' * 10**5, "\0"):
        rejection(text)
    for version in (0, 2, 1.0, "1", True, None, -1, 1 << 60):
        rejection(json.dumps({**DATA, "metricldp": version}))
    assert "another format than 1" in rejection(canonical({**DATA, "metricldp": 2}))


def test_random_changes_are_rejected_or_make_a_manifest_of_that_text():
    """Characters replaced, removed and repeated, and values exchanged: no other error occurs."""
    rng = random.Random(1)
    accepted_count = 0
    for _ in range(400):
        place, length = rng.randrange(len(TEXT)), rng.randrange(1, 4)
        middle = rng.choice(["", '"', "0", "1", "9", ",", "[", "}", "f", "-", ".", "e9", "\u0000"])
        accepted_count += accepted(TEXT[:place] + middle + TEXT[place + length :])
    for _ in range(400):
        data = copy.deepcopy(DATA)
        path, other = rng.choice(PATHS), rng.choice(PATHS)
        value = copy.deepcopy(at(DATA, other))
        at(data, path[:-1])[path[-1]] = value
        accepted_count += accepted(canonical(data))
    assert accepted_count > 20


def changed(index, **parts):
    """The manifest with one field changed."""
    data = copy.deepcopy(DATA)
    for name, part in parts.items():
        data["fields"][index][name] = part
    return canonical(data)


HALF, THIRD = word(W // 2), word(W // 3)
GRID = FIELDS[9]["metric"]
ADDITIVE = FIELDS[9]["distribution"]
EXTREMAL = FIELDS[7]["distribution"]
GEOMETRIC = FIELDS[3]["distribution"]
INVALID = {
    "two attributes of one name": manifest(simple(integer()), simple(integer())),
    "a response without an optional attribute": manifest(simple(integer()), optional(integer())[1]),
    "an optional attribute without a response": manifest(optional(integer())[0]),
    "two responses": manifest(*optional(integer()), optional(integer())[1]),
    "nothing private": manifest(FIELDS[11]),
    "no fields": manifest(),
    "a joint optional attribute": changed(
        9, attributes=[integer("u", optional=True), integer("v")]
    ),
    "joint values rounded at random": changed(
        9, attributes=[{**NUMBER, "points": 2}, integer("v")]
    ),
    "a joint weight": changed(9, attributes=[FIELDS[11]["attributes"][0], integer("v")]),
    "a joint response": changed(9, attributes=[integer("u"), {"name": "v", "kind": "response"}]),
    "nine attributes": changed(9, attributes=[integer(n) for n in "abcdefghi"]),
    "no attributes": changed(9, attributes=[]),
    "a metric of a weight": changed(11, metric=LINE),
    "another number of positions": changed(3, attributes=[integer("b", high=4)]),
    "a grid of other sizes": changed(9, metric={**GRID, "sizes": [4, 1]}),
    "a grid of one attribute": changed(3, metric=GRID),
    "a line of two attributes": changed(9, metric=LINE),
    "a graph of two attributes": changed(
        9, metric={"kind": "graph", "step": "1", "lengths": [1, 1, 1]}
    ),
    "a ring of values in a line": changed(3, metric={**LINE, "ring": True}),
    "a line of values in a ring": changed(4, metric=LINE),
    "a ring of values rounded at random": changed(6, metric={**LINE, "ring": True}),
    "a graph of values rounded at random": changed(
        6, metric={"kind": "graph", "step": "1", "lengths": [1, 1, 1]}
    ),
    "a grid without a unit step": changed(9, metric={**GRID, "steps": [[0, 1, 1], [1, 1, 2]]}),
    "a grid with a step twice": changed(9, metric={**GRID, "steps": [*GRID["steps"], [1, 1, 1]]}),
    "a grid with a step of nothing": changed(
        9, metric={**GRID, "steps": [*GRID["steps"], [0, 0, 1]]}
    ),
    "a step beyond the grid": changed(9, metric={**GRID, "steps": [*GRID["steps"], [2, 0, 1]]}),
    "a graph with a pair twice": changed(
        8,
        metric={
            "kind": "graph",
            "step": "2",
            "pairs": [[0, 1], [0, 2], [0, 1]],
            "lengths": [1] * 3,
        },
    ),
    "a graph with a pair of one": changed(
        8, metric={"kind": "graph", "step": "2", "pairs": [[0, 1], [2, 2]], "lengths": [1, 2]}
    ),
    "a graph with a pair backwards": changed(
        8, metric={"kind": "graph", "step": "2", "pairs": [[1, 0], [0, 2]], "lengths": [1, 2]}
    ),
    "a graph in two parts": changed(
        8, metric={"kind": "graph", "step": "2", "pairs": [[0, 1]], "lengths": [1]}
    ),
    "a length of nothing": changed(
        8, metric={"kind": "graph", "step": "2", "pairs": [[0, 1], [0, 2]], "lengths": [0, 2]}
    ),
    "a distance above 2^40": changed(
        8, metric={"kind": "graph", "step": "2", "pairs": [[0, 1], [0, 2]], "lengths": [1, 1 << 40]}
    ),
    "an epsilon above 2^40": changed(3, metric={"kind": "line", "epsilon": str(2 << 40)}),
    "a long epsilon": changed(3, metric={"kind": "line", "epsilon": f"1/{'9' * 2001}"}),
    **{
        f"an epsilon {epsilon}": changed(3, metric={"kind": "line", "epsilon": epsilon})
        for epsilon in ("0", "-1", "1/0", "0/1", "1.5", "1/-2", "+1", " 1", "1/2/3", "٣", "")
    },
    "a width below 1": changed(3, metric={**LINE, "width": "2/3"}),
    "a width of 1": changed(3, metric={**LINE, "width": "1"}),
    "a graph of all neighbours": changed(
        8, metric={"kind": "graph", "step": "2", "pairs": [[0, 1], [1, 2]], "lengths": [1, 2]}
    ),
    "a small length as text": changed(
        8, metric={"kind": "graph", "step": "1/9", "lengths": [1, str((1 << 53) - 1)]}
    ),
    "equal neighbours in two runs": changed(
        4, distribution={"kind": "threshold", "size": 5, "flips": [[THIRD, 2], [THIRD, 2]]}
    ),
    "a cap below epsilon": changed(3, metric={**LINE, "cap": "1/3"}),
    "a keep of 0": changed(
        0, distribution={"kind": "randomized-response", "size": 4, "keep": "0" * 16}
    ),
    "a lazy distribution of a field": changed(
        3, distribution=plain_data(LazyGeometric(NOISE, W // 2, W // 2))
    ),
    "too few flips": changed(
        4, distribution={"kind": "threshold", "size": 5, "flips": [[THIRD, 3]]}
    ),
    "too many flips": changed(
        4, distribution={"kind": "threshold", "size": 5, "flips": [[THIRD, 7]]}
    ),
    "a run of nothing": changed(
        4, distribution={"kind": "threshold", "size": 5, "flips": [[THIRD, 0]]}
    ),
    "bits of other lengths": changed(
        5, distribution={"kind": "unary", "own": [[HALF, 4]], "other": [[THIRD, 3]]}
    ),
    "a block above one half": changed(3, distribution={**GEOMETRIC, "block": word(W // 2 + 1)}),
    "a block of 0": changed(3, distribution={**GEOMETRIC, "block": "0" * 16}),
    "a zero of 0": changed(3, distribution={**GEOMETRIC, "zero": "0" * 16}),
    "64 digits": changed(3, distribution={**GEOMETRIC, "digits": [THIRD] * 64}),
    "rows of other lengths": changed(
        10,
        distribution={
            "kind": "matrix",
            "rows": [
                {**FIELDS[10]["distribution"]["rows"][0], "entries": [[0, 2]]},
                FIELDS[10]["distribution"]["rows"][1],
            ],
        },
    ),
    "an entry below its window": changed(
        10,
        distribution={
            "kind": "matrix",
            "rows": [{**FIELDS[10]["distribution"]["rows"][0], "entries": [[-1, 3]]}],
        },
    ),
    "an entry above its window": changed(
        10,
        distribution={
            "kind": "matrix",
            "rows": [{**FIELDS[10]["distribution"]["rows"][0], "entries": [[4, 3]]}],
        },
    ),
    "weights below 2^64": changed(
        8, distribution={"kind": "table", "weights": [[HALF, THIRD]] * 3}
    ),
    "weights above 2^64": changed(
        8, distribution={"kind": "table", "weights": [[HALF, HALF, HALF]] * 3}
    ),
    "weights of other lengths": changed(
        8,
        distribution={
            "kind": "table",
            "weights": [[HALF, HALF], [HALF, HALF, "0" * 16], [HALF, HALF]],
        },
    ),
    "a second stage that does not fit": changed(
        6, distribution=plain_data(Memoised(NOISE, RandomizedResponse(3, W // 2)))
    ),
    "a first stage that is memoised": changed(
        6,
        distribution={
            "kind": "memoised",
            "first": FIELDS[6]["distribution"],
            "second": plain_data(RandomizedResponse(4, 1)),
        },
    ),
    "levels above 2^64": changed(7, distribution={**EXTREMAL, "tops": [HALF, word(W - 1)]}),
    "a top of 0": changed(7, distribution={**EXTREMAL, "tops": ["0" * 16, HALF]}),
    "a fall of 0": changed(7, distribution={**EXTREMAL, "fall": "0" * 16}),
    "depths without 0": changed(7, distribution={**EXTREMAL, "depths": ["11", "10"]}),
    "depths of other lengths": changed(7, distribution={**EXTREMAL, "depths": ["01", "100"]}),
    "a depth that is no digit": changed(7, distribution={**EXTREMAL, "depths": ["0-", "10"]}),
    "odd digits": changed(7, distribution={**EXTREMAL, "depths": [":001", "10"]}),
    "a depth above 16,384": changed(7, distribution={**EXTREMAL, "depths": [[0, 16385], "10"]}),
    "three patterns": changed(
        9,
        distribution={**ADDITIVE, "depths": ADDITIVE["depths"] * 2, "tops": ADDITIVE["tops"] * 2}
        | {"depths": [*ADDITIVE["depths"], "011210"], "tops": [THIRD[:15] + "0"] * 3},
    ),
    "a ring that is too short": changed(9, distribution={**ADDITIVE, "lengths": [3, 1]}),
    "another number of places": changed(9, distribution={**ADDITIVE, "lengths": [2, 4]}),
    "sizes without lengths": changed(9, distribution={**ADDITIVE, "sizes": [4]}),
    "levels of a pattern above 2^64": changed(9, distribution={**ADDITIVE, "tops": [HALF, HALF]}),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_manifests_are_rejected_by_the_field(name):
    text = INVALID[name]
    pairs = zip(json.loads(text)["fields"], DATA["fields"], strict=False)
    wrong = [k for k, (changed_field, valid) in enumerate(pairs) if changed_field != valid]
    place = f"fields[{wrong[0]}]" if len(json.loads(text)["fields"]) == len(FIELDS) else "manifest"
    assert rejection(text).startswith(f"the manifest is invalid: {place}")


def test_changes_that_keep_a_manifest_valid_are_the_negative_control():
    for part in (
        {"metric": {**LINE, "width": "3/2"}},
        {"distribution": {**GEOMETRIC, "block": HALF}},
    ):
        assert accepted(changed(3, **part))
    assert accepted(changed(7, distribution={**EXTREMAL, "depths": [[0, 3844], "10"]}))
    assert accepted(changed(7, distribution={**EXTREMAL, "depths": [":00zz", "0Z"]}))


# Canonical JSON ----------------------------------------------------------------------------------


NUMBERS = {
    "0": (0, -0.0, 0.0),
    "9007199254740992": (1 << 53, float(1 << 53)),
    "9007199254740994": (float((1 << 53) + 2),),
    "-1.5": (-1.5,),
    "0.000001": (1e-6,),
    "1e-7": (1e-7,),
    "1.5e-7": (1.5e-7,),
    "123456789012345680000": (1.2345678901234568e20,),
    "1e+21": (1e21,),
    "5e-324": (5e-324,),
    "1.7976931348623157e+308": (1.7976931348623157e308,),
    "0.0001": (1e-4,),
    "0.00001": (1e-5,),
}


def test_numbers_are_written_as_javascript_writes_them():
    for text, numbers in NUMBERS.items():
        for number in numbers:
            assert canonical(number) == text
            assert float(json.loads(text)) == number


def test_what_has_no_canonical_form_is_an_error():
    for wrong in (math.nan, math.inf, (1 << 53) + 1):
        with pytest.raises(ValueError, match="not a number in every language"):
            canonical(wrong)
    for wrong in (b"x", {1, 2}, 1j, object()):
        with pytest.raises(TypeError, match="not plain data"):
            canonical(wrong)
    assert canonical({"😀": [True, None], "\ue000": '"\\\n', "a": {}}) == (
        '{"a":{},"😀":[true,null],"\ue000":"\\"\\\\\\n"}'
    )
    assert parsed('{"b":[1,{"a":2}]}') == {"b": [1, {"a": 2}]}
