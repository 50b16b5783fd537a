"""What the fuzz targets share: cases by number, limits of time and memory, failures."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import warnings
from dataclasses import dataclass
from pathlib import Path

from metricldp import MetricLdpError

SECONDS, BYTES = 10, 2 << 30
"""What no single case may take: of processor time, whatever else is running."""
PATIENCE = 12
"""So many times that, by the clock: a case that waits for something takes no processor's time."""


class TooLongError(BaseException):
    """Not an Exception, so that nobody takes it for a refusal."""


@dataclass(frozen=True)
class Failure:
    """What went wrong, and the case again."""

    target: str
    where: str
    why: str
    case: str

    def __str__(self):
        return f"{self.target} {self.where}: {self.why}\n    {self.case[:2000]}"


class Wrong(AssertionError):
    """Something was accepted that should not have been, or changed on the way."""


def limit_memory():
    """So much more than the libraries take by themselves."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))


@contextlib.contextmanager
def limited(seconds=SECONDS):
    """An alarm after so many seconds of work, or many more of waiting."""

    def ring(number, _):
        waited = number == signal.SIGALRM
        raise TooLongError(f"{PATIENCE * seconds} s by the clock" if waited else f"{seconds} s")

    clocks = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, ring) for number in clocks}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
    try:
        yield
    finally:
        for number, clock in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(number, before[number])


def coins_for(seed, target, block):
    """The random choices of a block of cases: the same each time."""
    return random.Random(f"{seed} {target} {block}")


def tried(target, where, case, work):
    """Run one case: None, or what is wrong with how it ended."""
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()
    except MetricLdpError as refusal:
        text = str(refusal)
        if text.count("\n") > 2 or len(text) > 2000:  # a condition is shown with a caret
            return Failure(target, where, f"a refusal of {len(text)} letters or lines", repr(case))
    except TooLongError as late:
        return Failure(target, where, f"took more than {late}", repr(case))
    except MemoryError:
        return Failure(target, where, f"took more than {BYTES >> 30} GB", repr(case))
    except Exception as wrong:
        return Failure(target, where, f"{type(wrong).__name__}: {wrong}", repr(case))
    return None
