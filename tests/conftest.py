"""Makes shared checks and tests importable, and takes the clock out of property tests."""

import sys
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), *(str(room) for room in TESTS.iterdir() if room.is_dir())]
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
