"""Utility-optimised mechanisms: some values are sensitive, and nothing is promised for the others.

Utility-optimised local differential privacy (ULDP) is no metric. A report may tell for certain that
somebody has a value that is not sensitive. Every other report is at most e^epsilon times as likely
from one value as from any other. So whoever has a sensitive value is hidden among all people, and
whoever has another may not be; a survey, whose distances are finite and the same both ways round,
refuses such channels. They are here to be compared with, beside `SensitiveSet`, which keeps 2
epsilon where they keep nothing. Both are from Murakami and Kawamoto, "Utility-Optimized Local
Differential Privacy Mechanisms for Distribution Estimation" (USENIX Security 2019).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms import Channel, UnaryChannel
from metricldp.mechanisms.table import TableChannel
from metricldp_core.exact import WORD, ceil_of, exp_bounds, floor_of


def utility_response(size: int, sensitive: Collection[int], epsilon: Fraction) -> TableChannel:
    """Randomized response among s sensitive values; others say themselves, or one of those.

    Each sensitive value is reported with c2 = 1/(s + e^epsilon - 1) by everybody but those who have
    it, who report it with e^epsilon c2. Others report themselves with what is left, 1 - s c2.
    """
    most, count = exp_bounds(epsilon)[0], len(sensitive)
    other = ceil_of(WORD / (count + most - 1))
    rows = []
    for x in range(size):
        row = [other if y in sensitive else 0 for y in range(size)]
        row[x] += WORD - sum(row)
        rows.append(row)
    return TableChannel.of(rows)


@dataclass(frozen=True)
class UtilityRappor(UnaryChannel):
    """Utility-optimised RAPPOR: the bits of other values are ones for nobody but their owners."""

    @classmethod
    def for_epsilon(cls, size: int, sensitive: Collection[int], epsilon: Fraction) -> UtilityRappor:
        """Sensitive bits as in symmetric unary encoding; an own other bit with 1 - e^(-epsilon/2).

        With t = e^(epsilon/2)/(e^(epsilon/2) + 1) sensitive bits are ones with t and 1 - t. A
        report without ones at other values tells a sensitive value from another one by t/(1 - t)
        times what a zero at that one tells, both at most e^(epsilon/2).
        """
        half = exp_bounds(epsilon / 2)[0]
        own = floor_of(half / (1 + half) * WORD)
        bare = floor_of((1 - 1 / half) * WORD)
        return cls.of(
            tuple(own if x in sensitive else bare for x in range(size)),
            tuple(WORD - own if x in sensitive else 0 for x in range(size)),
        )


def protected_ratio(channel: Channel, sensitive: Collection[int]) -> Fraction:
    """How much a report tells at most, of those that do not give a value away; by listing them all.

    A report that one value alone can send is refused if that is a sensitive one, and so is one
    that some can send and others not.
    """
    worst = Fraction(1)
    for number, report in enumerate(channel.every_report()):
        chances = [channel.probability(x, report) for x in range(channel.size)]
        senders = [x for x, chance in enumerate(chances) if chance]
        if len(senders) == 1 and senders[0] not in sensitive:
            continue
        if senders and len(senders) < channel.size:
            raise CertificateError(
                f"report {number} gives away that somebody has one of the values {senders}"
            )
        if senders:
            worst = max(worst, max(chances) / min(chances))
    return worst
