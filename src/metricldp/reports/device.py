"""The device: one person's values to the bytes of one report, quickly and in plain integers.

What is plain goes the short way: each value to its place, each place blurred to an integer, the
integers one after the other. Anything else, be it wrong or only unusual, goes the way of a table of
one row, which refuses it with its reason or takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from metricldp.basics.errors import ValueRefused
from metricldp.basics.text import guess, listed, shown
from metricldp.coins.stream import Coins
from metricldp.coins.tape import Tape
from metricldp.reports import encode, pack
from metricldp.survey.agreement import Agreement

_SCALARS = {np.int64, np.int32, np.float64, np.str_}
"""What a row of a data frame holds: the same values as Python's own."""


class _Part(NamedTuple):
    """What one attribute adds to a report, and from which bit on."""

    name: str
    place: Callable[[object], int | None]
    blur: Callable[[int, Tape], int]
    start: int


class Device:
    """What every report of a survey needs, looked up once."""

    def __init__(self, survey: Agreement) -> None:
        self._survey = survey
        self._header = pack.header(survey)
        self._width = pack.packed_size(survey) - len(self._header)
        self._parts: list[_Part] = []
        start = 0
        for name, attribute in survey.attributes.items():
            self._parts.append(_Part(name, attribute.place, _blur(survey, name), start))
            start += survey.fields[name].bits

    def report(self, person: Mapping[str, Any], *, coins: Coins | None, clip: bool) -> bytes:
        """The bytes to send. All values are checked before the first coin is drawn."""
        places = self._places(person)
        if places is None:
            return self._as_table(person, coins, clip)
        tape = Tape(coins or Coins())
        fields = 0
        for part, place in zip(self._parts, places, strict=True):
            fields |= part.blur(place, tape) << part.start
        return self._header + fields.to_bytes(self._width, "little")

    def _places(self, person: object) -> list[int] | None:
        """The places of a person who is a dict of plain values; None for any other."""
        if type(person) is not dict:
            return None
        places = []
        for part in self._parts:
            value: Any = person.get(part.name)
            if type(value) in _SCALARS:
                value = value.item()
            place = part.place(value)
            if place is None:
                return None
            places.append(place)
        return places

    def _as_table(self, person: Mapping[str, Any], coins: Coins | None, clip: bool) -> bytes:
        if not isinstance(person, Mapping):
            raise ValueRefused(f"a person is a dict of values by attribute, not {shown(person)}")
        survey = self._survey
        for name in survey.attributes:
            if name not in person:
                there = f"{listed(person)}{guess(name, person)}"
                raise ValueRefused(f"the person has no value for {name!r}; she has {there}")
        columns = {name: [person[name]] for name in survey.attributes}
        try:
            table = encode.encode(survey, columns, coins=coins, clip=clip)
        except ValueRefused as wrong:
            raise ValueRefused(wrong.why, attribute=wrong.attribute) from None
        return pack.pack(survey, table)[0]


def _blur(survey: Agreement, name: str) -> Callable[[int, Tape], int]:
    """From a place to a field: rounded at random first, blurred, or a public weight as it is."""
    attribute = survey.attributes[name]
    if attribute.is_public:
        return lambda place, _: place
    channel = survey.channels[name]
    if attribute.rounded_at_random:
        return lambda place, tape: channel.blur(tape.rounded(place), tape)
    return channel.blur
