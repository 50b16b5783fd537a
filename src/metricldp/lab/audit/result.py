"""What an audit found: verdicts, what failed, and how small a fault it would have found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from metricldp.basics.text import counted, filled, table
from metricldp.lab.audit.trials import FOUND

VERDICTS = {
    "privacy": "no two values are easier to distinguish than the metric allows",
    "distribution": "reports have the distribution that the survey states",
    "randomness": "no randomness is used twice",
    "format": "reports are well-formed, and values outside of a domain are rejected",
}
_BROKEN = {
    "privacy": "values are easier to distinguish than the metric allows",
    "distribution": "reports have another distribution than the survey states: biased estimates",
    "randomness": "randomness is used twice: the noise can be removed",
    "format": "reports that a collector rejects, or values that a client should reject",
}
_UNREAD = ("kind", "length")
_OPEN = "no fault was detected, but some reports have another length or type and were not read"

_MOST_LISTED = 20
"""Findings in the text."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong."""

    verdict: str
    """One of privacy, distribution, randomness and format."""
    family: str
    """The tests that found it, or the reason that a collector gives."""
    words: str
    chance: float
    """The chance of such a count, if all is well; 0 for what is certain."""
    others: int = 0
    """How many tests failed about the same attribute beside this one, at least."""


@dataclass(frozen=True)
class Power:
    """What would have been found of one attribute."""

    attribute: str
    pairs: int
    """How many pairs of its values were looked at one by one."""
    allowed: float
    """The smallest distance of any two that were looked at."""
    everywhere: float
    """The excess of epsilon that is found if all pairs have it."""
    one_pair: float | None
    """The excess that is found if a single pair has it, whichever that is."""
    needed: dict[float, int | None]
    """How many reports would find an excess that all pairs have."""


@dataclass(frozen=True)
class Audit:
    """What an audit found."""

    fingerprint: str
    client: str
    reports: int
    repeats: int
    false_alarm: float
    tests: dict[str, int]
    """How many there were of each family."""
    findings: tuple[Finding, ...]
    power: tuple[Power, ...]
    outside: int
    """People with a value outside of its domain who were tried."""

    @property
    def passed(self) -> bool:
        return not self.findings

    @property
    def verdicts(self) -> dict[str, str]:
        """For each kind of test: broken, holds, or open if not all reports could be read."""
        found = {finding.verdict for finding in self.findings}
        unread = any(finding.family in _UNREAD for finding in self.findings)
        rest = "open" if unread else "holds"
        return {verdict: "broken" if verdict in found else rest for verdict in VERDICTS}

    def holds(self, verdict: str) -> bool:
        """Whether nothing was found against a verdict, and all reports could be read."""
        return self.verdicts[verdict] == "holds"

    def to_dict(self) -> dict[str, Any]:
        return {
            "survey": self.fingerprint,
            "client": self.client,
            "passed": self.passed,
            "verdicts": self.verdicts,
            "reports": self.reports,
            "false_alarm": self.false_alarm,
            "tests": self.tests,
            "findings": [asdict(finding) for finding in self.findings],
            "power": [
                asdict(power)
                | {
                    "everywhere": _finite(power.everywhere),
                    "one_pair": _finite(power.one_pair),
                    "needed": {f"{excess:g}": count for excess, count in power.needed.items()},
                }
                for power in self.power
            ],
        }

    def __str__(self) -> str:
        head, last = filled(self._head), filled(self._last)
        return "\n\n".join([head, self._verdicts, *self._listed, self._powers, last])

    @property
    def _head(self) -> str:
        return (
            f"Survey {self.fingerprint[:16]}, {self.client}: {counted(self.reports, 'report')}, "
            f"{self.repeats:,} more of one response, {sum(self.tests.values()):,} exact tests. A "
            f"correct client fails with a probability of at most {self.false_alarm:g}."
        )

    @property
    def _verdicts(self) -> str:
        rows = [("verdict", "", "")]
        for verdict, state in self.verdicts.items():
            words = {"broken": _BROKEN[verdict], "open": _OPEN, "holds": VERDICTS[verdict]}
            rows.append((verdict, state.upper() if state == "broken" else state, words[state]))
        return table(rows, left=3)

    @property
    def _listed(self) -> list[str]:
        if not self.findings:
            return []
        rows = [("broken", "probability", "what was observed")]
        for f in self.findings[:_MOST_LISTED]:
            others = f"; and {counted(f.others, 'test')} like it" if f.others else ""
            rows.append((f.verdict, f"{f.chance:.1g}", f.words + others))
        text, more = table(rows, left=3), len(self.findings) - _MOST_LISTED
        return [f"{text}\nand {counted(more, 'more', 'more')}, in .findings" if more > 0 else text]

    @property
    def _powers(self) -> str:
        excesses = list(self.power[0].needed) if self.power else []
        heads = [f"reports for {excess:g}" for excess in excesses]
        rows = [("attribute", "pairs", "allowed", "all pairs", "one pair", *heads)]
        for power in self.power:
            found = (_shown(power.everywhere), _shown(power.one_pair))
            needed = [_round(power.needed[excess]) for excess in excesses]
            rows.append(
                (power.attribute, str(power.pairs), f"{power.allowed:.4g}", *found, *needed)
            )
        return table(rows)

    @property
    def _last(self) -> str:
        return (
            f"An excess of epsilon that this audit detects with probability {FOUND:g} if all "
            "pairs of values have it, or if one pair has it; and the number of reports that "
            "detects a smaller excess of all pairs. The audit does not detect rarer faults, nor "
            "what time and memory reveal."
        )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _shown(excess: float | None) -> str:
    if excess is None:
        return ""
    return f"+{excess:.3g}" if math.isfinite(excess) else "none"


def _round(count: int | None) -> str:
    """Two digits are all that is known."""
    if count is None:
        return "more"
    step = 10 ** max(0, len(str(count)) - 2)
    return f"{-(-count // step) * step:,}"
