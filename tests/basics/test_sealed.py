"""Sealed lines: what was written comes back, and nothing else does."""

import hashlib
import json
import re

import pytest

from metricldp import ReportRefused
from metricldp.basics.canonical import canonical
from metricldp.basics.sealed import fits, sealed, unsealed

SHAPE = {"kind": str, "files": [{"n": int}], "sums": (re.compile("[a-z]+"), int), "version": int}
DATA = {"kind": "ä", "files": [{"n": 3}, {"n": 0}], "sums": {"a": 1, "b": 2}, "version": 7}


def read(path):
    return unsealed(path, "version", 7, SHAPE, "begin anew")


def test_what_was_written_comes_back(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(sealed(DATA))
    assert read(path) == DATA
    said = json.loads(sealed(DATA))
    digest = said.pop("sha256")
    assert digest == hashlib.sha256(canonical(said).encode("utf-8")).hexdigest()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "file"),
        (b"[" * 100_000, "file"),
        (b"7\n", "file"),
        (b'{"versio":7}', "file"),
        (b'{"version":1e999}', "file"),
        (b'{"version":' + b"9" * 400 + b"}", "file"),
        (b'{"version":"\\ud800"}', "file"),
        (sealed({**DATA, "version": 8}), "version"),
        (sealed({**DATA, "version": "7"}), "version"),
        (sealed(DATA)[:-1], "checksum"),
        (sealed(DATA).replace(b":3", b": 3"), "checksum"),
        (sealed(DATA).replace(b":3", b":4"), "checksum"),
        (canonical(DATA).encode("utf-8") + b"\n", "checksum"),
        (sealed({**DATA, "more": 1}), "checksum"),
    ],
)
def test_nothing_else_does(tmp_path, raw, reason):
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(ReportRefused, match=r"x\.json .*begin anew|x\.json: .*begin anew") as wrong:
        read(path)
    assert wrong.value.reason == reason
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 1},
        {"files": {}},
        {"files": [3]},
        {"files": [{"n": -1}]},
        {"files": [{"n": True}]},
        {"files": [{"n": 3.0}]},
        {"files": [{"n": 3, "m": 4}]},
        {"sums": []},
        {"sums": {"A": 1}},
        {"sums": {"a": "1"}},
    ],
)
def test_shapes(changes):
    assert fits(DATA, SHAPE)
    assert not fits({**DATA, **changes}, SHAPE)
