"""The device: one person's values to the bytes of one report, in plain integers.

Each value to its position, each position blurred to an integer, the integers one after the other.
Nothing here makes a table: a device needs numpy and cryptography, no more. How long it takes and
how many coins are used does not depend on the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from metricldp.basics.errors import ValueRefused
from metricldp.basics.text import guess, listed, shown
from metricldp.channels.joint import JointChannel
from metricldp.coins.stream import Coins
from metricldp.coins.tape import Tape
from metricldp.reports.bytes import header, packed_size
from metricldp.survey.agreement import Agreement


class _Part(NamedTuple):
    """What an attribute, or a block of them, adds to a report, and from which bit on."""

    names: tuple[str, ...]
    blur: Callable[..., int]
    """From the positions, and the tape."""
    start: int


class Device:
    """What every report of a survey needs, looked up once."""

    def __init__(self, survey: Agreement) -> None:
        self._header = header(survey)
        self._width = packed_size(survey) - len(self._header)
        self._attributes = survey.attributes
        self._parts: list[_Part] = []
        start = 0
        for name in survey.attributes:
            block = survey.block_of(name)
            if block is None:
                self._parts.append(_Part((name,), _blur(survey, name), start))
                start += survey.fields[name].bits
            elif name == block.names[0]:
                self._parts.append(_Part(block.names, _together(block.channel), start))
                start += block.channel.bits

    def report(self, person: Mapping[str, Any], *, coins: Coins | None, clip: bool) -> bytes:
        """The bytes to send. All values are checked before the first coin is drawn."""
        positions = self._positions(person, clip)
        return self._blurred(positions, Tape(coins or Coins()))

    def from_tape(self, person: Mapping[str, Any], tape: Tape, *, clip: bool = False) -> bytes:
        """The same from coins that are written down: for tests only, it gives no privacy."""
        return self._blurred(self._positions(person, clip), tape)

    def _positions(self, person: Mapping[str, Any], clip: bool) -> dict[str, int]:
        if not isinstance(person, Mapping):
            raise ValueRefused(f"a person is a dict of values by attribute, not {shown(person)}")
        for name in self._attributes:
            if name not in person:
                there = f"{listed(person)}{guess(name, person)}"
                why = f"the person has no value for {name!r}; she has {there}"
                raise ValueRefused(why, reason="missing")
        return {
            name: attribute.position(person[name], name, clip=clip)
            for name, attribute in self._attributes.items()
        }

    def _blurred(self, positions: Mapping[str, int], tape: Tape) -> bytes:
        fields = 0
        for names, blur, start in self._parts:
            fields |= blur(*[positions[name] for name in names], tape) << start
        return self._header + fields.to_bytes(self._width, "little")


def _together(channel: JointChannel) -> Callable[..., int]:
    return lambda *said: channel.blur(said[:-1], said[-1])


def _blur(survey: Agreement, name: str) -> Callable[[int, Tape], int]:
    """From a position to a field: rounded at random first, blurred, or a public weight as it is."""
    attribute = survey.attributes[name]
    if attribute.is_public:
        return lambda position, _: position
    channel = survey.channels[name]
    if attribute.rounded_at_random:
        return lambda position, tape: channel.blur(tape.rounded(position), tape)
    return channel.blur
