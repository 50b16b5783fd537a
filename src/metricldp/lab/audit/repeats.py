"""Coins that are used twice: reports of one person, one after the other, and after a new start.

If all coins are new, reports of one person can change places. So of four, two that follow each
other so far apart and two others, it is as likely that the neighbours are more alike as that those
are who are crossed over: a fair coin again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metricldp.attributes.answered import label
from metricldp.lab.audit.clients import Client
from metricldp.lab.audit.design import Person
from metricldp.lab.audit.sample import Features, as_rows
from metricldp.lab.audit.trials import Family
from metricldp.survey.agreement import Agreement

Bits = npt.NDArray[np.int8]
_LAGS = (1, 2, 3)


def test_repeats(
    family: Family,
    survey: Agreement,
    features: Features,
    clients: Sequence[Client],
    person: Person,
    count: int,
) -> None:
    """One person many times; with a second client, the same from its own start."""
    runs = [_bits(survey, client, person, count) for client in clients]
    known, tried = np.array_split(runs[0], 2)
    found = _likely_lag(known)
    for lag in dict.fromkeys((*_LAGS, found)):
        bits = tried if lag == found and lag not in _LAGS else runs[0]
        for start in (0, lag):
            first, second = _apart(bits[start:], lag)
            _test(family, features, first, second, f"reports {lag} apart in a row", "in a row")
    told = "reports at the same position after two starts"
    for other in runs[1:]:
        _test(family, features, runs[0], other, told, "after a restart")


def _bits(survey: Agreement, client: Client, person: Person, count: int) -> Bits:
    sent: list[bytes | None] = []
    while len(sent) < count:
        sent += client.reports([person] * min(client.at_once, count - len(sent)))
    rows, _ = as_rows(survey, sent)
    return np.unpackbits(rows, axis=1, bitorder="little").view(np.int8)


def _apart(bits: Bits, lag: int) -> tuple[Bits, Bits]:
    """Pairs of reports so far apart, no report in two of them."""
    first = np.arange(len(bits) - lag)
    first = first[first // lag % 2 == 0]
    return bits[first], bits[first + lag]


def _likely_lag(bits: Bits) -> int:
    """How far reports are apart that are most alike."""
    moved = bits - bits.mean(axis=0)
    power = np.abs(np.fft.rfft(moved, n=2 * len(bits), axis=0)) ** 2
    alike = np.fft.irfft(power.sum(axis=1))[1 : max(2, len(bits) // 4)]
    return 1 + int(np.argmax(alike))


def _test(
    family: Family, features: Features, first: Bits, second: Bits, words: str, about: str
) -> None:
    half = len(first) // 2
    places = [(0, first.shape[1]), *((start, end) for _, start, end in features.columns)]
    names = ["whole reports", *(label(name) for name, *_ in features.columns)]
    for (start, end), name in zip(places, names, strict=True):
        a, c = first[:half, start:end], first[half : 2 * half, start:end]
        b, d = second[:half, start:end], second[half : 2 * half, start:end]
        straight = (a != b).sum(axis=1) + (c != d).sum(axis=1)
        crossed = (a != d).sum(axis=1) + (c != b).sum(axis=1)
        alike, total = int((straight < crossed).sum()), int((straight != crossed).sum())
        for more in (True, False):
            seen = alike if more else total - alike
            told = (
                f"{words}, {name}: {'more' if more else 'less'} similar than others in {seen:,} of "
                f"{total:,} cases, where {total / 2:,.0f} are expected"
            )
            family.single(seen, total, 0.5, told, about)
