"""The device: one person's values to the bytes of one report, in plain integers.

Each value to its position, each position blurred to an integer, the integers one after the other.
Nothing here makes a table: a device needs numpy and cryptography, no more. How long it takes and
how many coins are used does not depend on the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import ValueRefused
from metricldp.basics.text import guess, listed, shown
from metricldp.coins.stream import Coins
from metricldp.coins.tape import Tape
from metricldp.reports import pack
from metricldp.survey.agreement import Agreement


class _Part(NamedTuple):
    """What one attribute adds to a report, and from which bit on."""

    name: str
    attribute: Attribute
    blur: Callable[[int, Tape], int]
    start: int


class Device:
    """What every report of a survey needs, looked up once."""

    def __init__(self, survey: Agreement) -> None:
        self._header = pack.header(survey)
        self._width = pack.packed_size(survey) - len(self._header)
        self._parts: list[_Part] = []
        start = 0
        for name, attribute in survey.attributes.items():
            self._parts.append(_Part(name, attribute, _blur(survey, name), start))
            start += survey.fields[name].bits

    def report(self, person: Mapping[str, Any], *, coins: Coins | None, clip: bool) -> bytes:
        """The bytes to send. All values are checked before the first coin is drawn."""
        positions = self._positions(person, clip)
        return self._blurred(positions, Tape(coins or Coins()))

    def from_tape(self, person: Mapping[str, Any], tape: Tape, *, clip: bool = False) -> bytes:
        """The same from coins that are written down: for tests only, it gives no privacy."""
        return self._blurred(self._positions(person, clip), tape)

    def _positions(self, person: Mapping[str, Any], clip: bool) -> list[int]:
        if not isinstance(person, Mapping):
            raise ValueRefused(f"a person is a dict of values by attribute, not {shown(person)}")
        for name, *_ in self._parts:
            if name not in person:
                there = f"{listed(person)}{guess(name, person)}"
                raise ValueRefused(f"the person has no value for {name!r}; she has {there}")
        return [
            attribute.position(person[name], name, clip=clip)
            for name, attribute, _, _ in self._parts
        ]

    def _blurred(self, positions: list[int], tape: Tape) -> bytes:
        fields = 0
        for part, position in zip(self._parts, positions, strict=True):
            fields |= part.blur(position, tape) << part.start
        return self._header + fields.to_bytes(self._width, "little")


def _blur(survey: Agreement, name: str) -> Callable[[int, Tape], int]:
    """From a position to a field: rounded at random first, blurred, or a public weight as it is."""
    attribute = survey.attributes[name]
    if attribute.is_public:
        return lambda position, _: position
    channel = survey.channels[name]
    if attribute.rounded_at_random:
        return lambda position, tape: channel.blur(tape.rounded(position), tape)
    return channel.blur
