"""Report vectors: a manifest, a response and random words determine the bytes of a report.

The files in `vectors/` are for clients in any language. Each is a JSON object that has
`metricldp-vectors`, the number 1, and some of these lists:

manifests           `manifest` (its text), `fingerprint`, `guarantee` (sentences), `certificate`
                    and some of `reports`, `rejected_values` and `rejected_reports`
rejected_manifests  `manifest`, `because` (in words) and `reason`: "manifest" if it cannot be read,
                    "guarantee" if its output distributions break its metrics
random_words        `call` and `arguments` of a function of random words, `words`, `result`
canonical           `data` and `text`, its canonical JSON
surveys             `format` ("toml" or "json"), `text` and `fingerprint` of a survey file
rejected_surveys    `format`, `text` and `because` of a survey file that is rejected

certificate         for each private field: `field`, `distribution`, `pairs` (their number),
                    `tightest` (two positions), `loss` and `allowed` in nine digits
reports             `response`, `clip` if true, `words`, `report`; of a device with a memory also
                    `memory` before and `remembered` after the report
rejected_values     `response`, `clip` if true, and `reason`: missing, kind, whole, range or name
rejected_reports    `report` and `reason`: length, version, survey, padding or range

Words, probabilities and reports are hexadecimal: a word has 16 digits, words follow each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from metricldp.basics.errors import InvalidReportError, InvalidSpecError
from metricldp.metrics.base import generating_count
from metricldp.reports.bytes import pack, unpack
from metricldp.survey.agreement import Agreement
from metricldp_core.canonical import canonical
from metricldp_core.device import Device, Memory
from metricldp_core.errors import (
    InvalidManifestError,
    InvalidValueError,
)
from metricldp_core.guarantee import sentences
from metricldp_core.manifest import Manifest
from metricldp_core.random_words import Words
from metricldp_core.report import ReportFormat
from metricldp_core.verify import certify

FORMAT = 1
"""The version of vector files."""


class Recorded:
    """A source of known words: pseudorandom ones after those that are given."""

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


def report_of(
    device: Device,
    response: Mapping[str, Any],
    words: Words,
    *,
    clip: bool = False,
    memory: Memory | None = None,
) -> bytes:
    """The report that a device makes of these words."""
    return device.randomize(device.positions(response, clip=clip), words, memory)


# Making vectors ----------------------------------------------------------------------------------


def report_vector(
    device: Device,
    response: Mapping[str, Any],
    source: Recorded,
    *,
    clip: bool = False,
    memory: Memory | None = None,
) -> dict[str, Any]:
    """One report: the response, every word that was read, and the bytes."""
    words = Words(source.draw)
    found = {"response": dict(response)} | ({"clip": True} if clip else {})
    found |= {} if memory is None else {"memory": dict(memory)}
    report = report_of(device, response, words, clip=clip, memory=memory)
    found |= {"words": source.words(words.used), "report": report.hex()}
    return found if memory is None else {**found, "remembered": dict(memory)}


def manifest_vector(manifest: Manifest, **lists: Any) -> dict[str, Any]:
    """A manifest with what follows from it alone, and lists about it."""
    return {
        "manifest": manifest.text,
        "fingerprint": manifest.fingerprint,
        "guarantee": sentences(manifest),
        "certificate": certificate(manifest),
        **lists,
    }


def certificate(manifest: Manifest) -> list[dict[str, Any]]:
    """The numbers of the proof of each private field."""
    metrics = {field.name: field.point_metric for field in manifest.fields}
    return [
        {
            "field": proof.name,
            "distribution": proof.kind,
            "pairs": generating_count(metrics[proof.name]),
            "tightest": [proof.tightest.x, proof.tightest.other],
            "loss": float(f"{proof.tightest.loss:.9g}"),
            "allowed": float(f"{proof.tightest.limit.allowed:.9g}"),
        }
        for proof in certify(manifest).proofs
    ]


# Checking ----------------------------------------------------------------------------------------


def check(data: Mapping[str, Any]) -> tuple[int, list[str]]:
    """How many vectors a file has, and those that this package does not reproduce."""
    if data.get("metricldp-vectors") != FORMAT:
        raise InvalidSpecError(f"a file of vectors has metricldp-vectors = {FORMAT}")
    count, wrong = 0, []
    for kind, vectors_of in _CHECKS.items():
        for one in data.get(kind, ()):
            for expected, found in vectors_of(one):
                count += 1
                if found != expected:
                    wrong.append(f"{kind}: {found} where the file has {expected}")
    return count, wrong


Pairs = Iterator[tuple[Any, Any]]
"""What a file has, and what this package finds."""


def _manifest(one: Mapping[str, Any]) -> Pairs:
    manifest = Manifest.parse(one["manifest"])
    facts = manifest_vector(manifest)
    yield tuple(one[key] for key in facts), tuple(facts.values())
    device, reports = Device(manifest), ReportFormat(manifest)
    for vector in one.get("reports", ()):
        words, clip = Words.given(_words(vector["words"])), vector.get("clip", False)
        memory = dict(vector["memory"]) if "memory" in vector else None
        report = report_of(device, vector["response"], words, clip=clip, memory=memory)
        expected = (vector["report"], len(vector["words"]), vector.get("remembered"), "")
        yield expected, (report.hex(), 16 * words.used, memory, reports.reason(report))
    for vector in one.get("rejected_values", ()):
        response, clip = vector["response"], vector.get("clip", False)
        yield vector["reason"], reason(device.positions, response, clip=clip)
    for vector in one.get("rejected_reports", ()):
        yield vector["reason"], reports.reason(bytes.fromhex(vector["report"]))


def _rejected_manifest(one: Mapping[str, Any]) -> Pairs:
    yield (one["reason"], "manifest"), (_stage(one["manifest"]), reason(Device, one["manifest"]))


def _stage(text: str) -> str | None:
    """Where a manifest is rejected: by reading it or by its proof."""
    try:
        return None if certify(Manifest.parse(text)).holds else "guarantee"
    except InvalidManifestError:
        return "manifest"


def _random_words(one: Mapping[str, Any]) -> Pairs:
    words = Words.given(_words(one["words"]))
    arguments = [int(argument, 16) for argument in one["arguments"]]
    expected = (int(one["result"], 16), len(one["words"]))
    yield expected, (int(getattr(words, one["call"])(*arguments)), 16 * words.used)


def _loaded(one: Mapping[str, Any]) -> Agreement:
    return (Agreement.from_json if one["format"] == "json" else Agreement.from_toml)(one["text"])


def _survey(one: Mapping[str, Any]) -> Pairs:
    yield one["fingerprint"], _loaded(one).fingerprint


def reason(call: Callable[..., object], *arguments: Any, **settings: Any) -> str | None:
    """One word for why a call is rejected; None if it is not."""
    try:
        call(*arguments, **settings)
    except (InvalidReportError, InvalidValueError) as error:
        return error.reason
    except InvalidManifestError:
        return "manifest"
    except InvalidSpecError:
        return "survey"
    return None


def _words(text: str) -> list[int]:
    return [int(text[at : at + 16], 16) for at in range(0, len(text), 16)]


_CHECKS: dict[str, Callable[[Mapping[str, Any]], Pairs]] = {
    "manifests": _manifest,
    "rejected_manifests": _rejected_manifest,
    "random_words": _random_words,
    "canonical": lambda one: iter([(one["text"], canonical(one["data"]))]),
    "surveys": _survey,
    "rejected_surveys": lambda one: iter([("survey", reason(_loaded, one))]),
}


def check_of_survey(survey: Agreement, one: Mapping[str, Any]) -> list[str]:
    """What the package with arrays finds differently of the reports of its own manifest."""
    if one["manifest"] != survey.client_manifest.text:
        return ["another manifest"]
    good = [bytes.fromhex(vector["report"]) for vector in one.get("reports", ())]
    wrong = [] if pack(survey, unpack(survey, good)) == good else ["reports are read differently"]
    for vector in one.get("rejected_reports", ()):
        found = reason(unpack, survey, [bytes.fromhex(vector["report"])])
        wrong += [] if found == vector["reason"] else [f"{found}, not {vector['reason']}"]
    return wrong
