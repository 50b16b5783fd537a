"""The device: one person's values to the bytes of one report, in plain integers.

Each value to its position, each position blurred to an integer, the integers one after the other.
Nothing here makes a table: a device needs numpy and cryptography, no more. How long it takes and
how many coins are used does not depend on the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from operator import itemgetter
from typing import Any, NamedTuple

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import CertificateError, InvalidValueError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import guess, listed, shown
from metricldp.coins.stream import Randomness
from metricldp.reports.bytes import header, packed_size
from metricldp.survey.agreement import Agreement
from metricldp_core.random_words import Words


class _Kept(NamedTuple):
    """What it takes to remember the first of two blurs of an attribute."""

    name: str
    first: Callable[[int, Words], int]
    second: Callable[[int, Words], int]
    between: int
    """How many whole numbers the first can make."""


class _Part(NamedTuple):
    """What an attribute, or a block of them, adds to a report, and from which bit on."""

    taken: itemgetter[Any]
    """Its own of all positions: one, or of a block several."""
    blur: Callable[[Any, Words], int]
    start: int
    bits: int
    kept: _Kept | None = None


Memory = MutableMapping[str, int]
"""What a device keeps of first blurs. Private: its keys hold positions. It never leaves the device.
"""


def remembered_as(fingerprint: str, name: str, position: int) -> str:
    """The key of a first blur in a memory: a text, so that a memory can be saved as JSON."""
    return f"{fingerprint} {position} {name}"


class Device:
    """What every report of a survey needs, looked up once."""

    def __init__(self, survey: Agreement) -> None:
        self._header, self._fingerprint = header(survey), survey.fingerprint
        self._width = packed_size(survey) - len(self._header)
        self._attributes = [
            (a.source(name), a.position_if_any) for name, a in survey.attributes.items()
        ]
        self._asked = frozenset(survey.asked)
        self._needed = [name for name, a in survey.asked.items() if a.optional is None]
        self._parts: list[_Part] = []
        names = list(survey.attributes)
        start = 0
        for at, name in enumerate(names):
            block = survey.block_of(name)
            if block is None:
                blur, bits = _blur(survey, name), survey.fields[name].bits
                kept = _kept(survey, name)
                self._parts.append(_Part(itemgetter(at), blur, start, bits, kept))
                start += bits
            elif name == block.names[0]:
                own = itemgetter(*(names.index(name) for name in block.names))
                self._parts.append(_Part(own, block.channel.blur, start, block.channel.bits))
                start += block.channel.bits

    def report(
        self,
        person: Mapping[str, Any],
        *,
        randomness: Randomness | None,
        clip: bool,
        memory: Memory | None = None,
    ) -> bytes:
        """The bytes to send. All values are checked before the first coin is drawn."""
        positions = self._positions(person, clip)
        return self._blurred(positions, Words(randomness or Randomness()), memory)

    def from_tape(
        self,
        person: Mapping[str, Any],
        words: Words,
        *,
        clip: bool = False,
        memory: Memory | None = None,
    ) -> bytes:
        """The same from coins that are written down: for tests only, it gives no privacy."""
        return self._blurred(self._positions(person, clip), words, memory)

    def _positions(self, person: Mapping[str, Any], clip: bool) -> list[int]:
        if not isinstance(person, Mapping):
            kind = type(person).__name__
            raise InvalidValueError(f"a response is a dict of values by attribute, not {kind}")
        for name in self._needed:
            if name not in person:
                there = [key for key in person if isinstance(key, str)]
                why = f"the response has no value for {name!r}, only for {listed(there)}"
                raise InvalidValueError(f"{why}{guess(name, there)}", reason="missing")
        # A misspelt name of what is needed is missed above; of what is optional it would read as no
        # answer. Refused whether or not there is one, so that this tells nothing of it.
        if len(self._needed) < len(self._asked) and not self._asked.issuperset(person):
            names = sorted(self._asked)
            other = next(key for key in person if key not in self._asked)
            named, meant = shown(other), guess(other, names)
            if not isinstance(other, str):
                named, meant = "a key that is not a name", ""
            why = f"the response has a value for {named}, which is not in the survey"
            raise InvalidValueError(f"{why}{meant or f'; it has {listed(names)}'}")
        return [position(person.get(name), name, clip=clip) for name, position in self._attributes]

    def _blurred(self, positions: list[int], words: Words, memory: Memory | None) -> bytes:
        fields, new = 0, dict[str, int]()
        for part in self._parts:
            position = part.taken(positions)
            if memory is None or part.kept is None:
                field = part.blur(position, words)
            else:
                field = self._second(part.kept, position, words, memory, new)
            if field >> part.bits:
                raise CertificateError(
                    "a mechanism produced a report outside of its field; no report is sent"
                )
            fields |= field << part.start
        if memory is not None:
            memory.update(new)
        return self._header + fields.to_bytes(self._width, "little")

    def _second(
        self, kept: _Kept, position: int, words: Words, memory: Memory, new: dict[str, int]
    ) -> int:
        """The second blur of the first one that is remembered, or of a new one.

        A first one is drawn in any case, so that coins and time do not tell whether it is new.
        """
        key, drawn = (
            remembered_as(self._fingerprint, kept.name, position),
            kept.first(position, words),
        )
        once = memory.get(key, drawn)
        if not is_whole(once) or not 0 <= once < kept.between:
            raise InvalidValueError(
                f"the memory has an entry that is not a first value of {kept.name!r}; "
                "it was changed or is another's: restore it, or start a new one"
            )
        new[key] = int(once)
        return kept.second(int(once), words)


def _blur(survey: Agreement, name: str) -> Callable[[int, Words], int]:
    """From a position to a field: rounded at random first, blurred, or a public weight as it is."""
    attribute = survey.attributes[name]
    if attribute.is_public:
        return lambda position, _: position
    return _rounding(attribute, survey.channels[name].blur)


def _kept(survey: Agreement, name: str) -> _Kept | None:
    """What a part needs to remember its first blur; nothing where there is none to remember."""
    attribute = survey.attributes[name]
    if attribute.is_public or survey.channels[name].lifetime is survey.channels[name]:
        return None
    channel: Any = survey.channels[name]
    first = _rounding(attribute, channel.first.blur)
    return _Kept(name, first, channel.second.blur, channel.first.outputs)


def _rounding(
    attribute: Attribute, blur: Callable[[int, Words], int]
) -> Callable[[int, Words], int]:
    """A blur of a position, or of what it is rounded to at random."""
    if attribute.rounded_at_random:
        return lambda position, words: blur(words.round(position), words)
    return blur
