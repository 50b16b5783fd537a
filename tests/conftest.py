"""Makes shared checks and tests importable, and takes the clock out of property tests."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), *(str(room) for room in TESTS.iterdir() if room.is_dir())]
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
LONG = [
    line
    for line in (TESTS / "slow_lane.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Long tests go to the slow lane, before lanes are chosen."""
    found = set()
    for item in items:
        for start in LONG:
            if item.nodeid.startswith(start):
                item.add_marker(pytest.mark.slow)
                found.add(start)
    whole = {item.nodeid.partition("::")[0] for item in items}
    named = any("::" in word for word in config.invocation_params.args)
    missing = [s for s in LONG if s not in found and s.partition("::")[0] in whole]
    if missing and not named:
        raise pytest.UsageError(f"tests/slow_lane.txt names tests that are not there: {missing}")
