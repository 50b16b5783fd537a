"""Facts: a survey, a person and the words of a words make the bytes of a report, in any language.

The files in `vectors/` hold such facts, and what must be refused; docs/formats-files.md says how to
read them. Whoever writes a client, or a channel of their own, makes and checks facts with this
module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from metricldp.basics.errors import InvalidReportError, InvalidSpecError, InvalidValueError
from metricldp.channels.table import Table
from metricldp.reports.bytes import pack, unpack
from metricldp.survey.agreement import Agreement
from metricldp_core.canonical import canonical
from metricldp_core.device import Device, Memory
from metricldp_core.random_words import Words

FORMAT = 1
"""The version of files of facts."""


class Recorded:
    """A stream of known words: pseudorandom ones after those that are given."""

    def __init__(self, seed: str, first: Iterable[int] = ()) -> None:
        self.seed, self.drawn = seed, b"".join(word.to_bytes(8, "little") for word in first)
        self._at = self._blocks = 0

    def draw(self, count: int) -> bytes:
        while len(self.drawn) < self._at + count:
            self._blocks += 1
            self.drawn += hashlib.sha256(f"{self.seed} {self._blocks}".encode()).digest()
        self._at += count
        return self.drawn[self._at - count : self._at]

    def words(self, count: int) -> str:
        """The first words, 16 hexadecimal digits each, one after the other."""
        parts = (self.drawn[8 * k : 8 * k + 8][::-1] for k in range(count))
        return b"".join(parts).hex()


def fact(
    survey: Agreement,
    person: Mapping[str, Any],
    stream: Recorded,
    *,
    clip: bool = False,
    memory: Memory | None = None,
) -> dict[str, Any]:
    """One report: the person, every word that was read, and the bytes.

    With a memory also what it held before and what it holds afterwards.
    """
    words = Words(stream)
    said = {"person": dict(person)} | ({"clip": True} if clip else {})
    said |= {} if memory is None else {"memory": dict(memory)}
    report = Device(survey.client_manifest).from_tape(person, words, clip=clip, memory=memory).hex()
    found = {**said, "words": stream.words(words.used), "report": report}
    return found if memory is None else {**found, "remembered": dict(memory)}


def entry(survey: Agreement, **facts: Any) -> dict[str, Any]:
    """A survey in every form, and facts about it."""
    marks = {"canonical": survey.canonical, "fingerprint": survey.fingerprint}
    return {"survey": survey.to_dict(), **marks, **facts}


# Checking ----------------------------------------------------------------------------------------


def check(data: Mapping[str, Any]) -> tuple[int, list[str]]:
    """How many facts a file holds, and those that this package does not find."""
    if data.get("metricldp-vectors") != FORMAT:
        raise InvalidSpecError(f"a file of facts says metricldp-vectors = {FORMAT}")
    count, wrong = 0, []
    for kind, facts_of in _CHECKS.items():
        for one in data.get(kind, ()):
            for said, found in facts_of(one):
                count += 1
                wrong += [f"{kind}: {found} where a file says {said}"] if said != found else []
    return count, wrong


Pairs = Iterator[tuple[Any, Any]]
"""What a file says, and what is found."""


def _survey(one: Mapping[str, Any]) -> Pairs:
    survey = Agreement.from_dict(one["survey"])
    yield (one["canonical"], one["fingerprint"]), (survey.canonical, survey.fingerprint)
    device = Device(survey.client_manifest)
    for fact in one.get("facts", ()):
        words = Words.given(_words(fact["words"]))
        memory = dict(fact["memory"]) if "memory" in fact else None
        report = device.from_tape(
            fact["person"], words, clip=fact.get("clip", False), memory=memory
        )
        (read_back,) = pack(survey, unpack(survey, [report]))
        said = (fact["report"], fact["report"], len(fact["words"]), fact.get("remembered"))
        yield said, (report.hex(), read_back.hex(), 16 * words.used, memory)
    for fact in one.get("values", ()):
        with_clip = partial(device.from_tape, clip=fact.get("clip", False))
        yield fact["refused"], _reason(with_clip, fact["person"], Words.given([]))
    for fact in one.get("reports", ()):
        yield fact["refused"], _reason(unpack, survey, [bytes.fromhex(fact["report"])])


def _law(one: Mapping[str, Any]) -> Pairs:
    channel = Table.of([[int(weight, 16) for weight in row] for row in one["law"]["weights"]])
    yield one["law"], channel.distribution.to_data()
    for fact in one["facts"]:
        words = Words.given(_words(fact["words"]))
        said = (fact["report"], len(fact["words"]))
        yield said, (channel.distribution.draw(fact["position"], words), 16 * words.used)


def _tape(one: Mapping[str, Any]) -> Pairs:
    words = Words.given(_words(one["words"]))
    arguments = [int(argument, 16) for argument in one["arguments"]]
    said = (int(one["found"], 16), len(one["words"]))
    yield said, (int(getattr(words, one["call"])(*arguments)), 16 * words.used)


def _file(one: Mapping[str, Any]) -> Pairs:
    load = Agreement.from_json if one["format"] == "json" else Agreement.from_toml
    yield one["refused"], _reason(load, one["text"])


def _reason(call: Callable[..., object], *arguments: Any) -> str | None:
    """The word that it is refused with; None where it is not."""
    try:
        call(*arguments)
    except (InvalidReportError, InvalidValueError) as wrong:
        return wrong.reason
    except InvalidSpecError:
        return "survey"
    return None


def _words(text: str) -> list[int]:
    return [int(text[at : at + 16], 16) for at in range(0, len(text), 16)]


_CHECKS: dict[str, Callable[[Mapping[str, Any]], Pairs]] = {
    "surveys": _survey,
    "laws": _law,
    "words": _tape,
    "canonical": lambda one: iter([(one["text"], canonical(one["data"]))]),
    "files": _file,
}
