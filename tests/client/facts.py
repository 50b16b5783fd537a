"""Facts about manifests that the core computes and the client must repeat.

They are reports for given words, positions of values and reasons to reject them, sentences about
the guarantee, and certificates. The facts are the same in each run.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

from client_manifests import manifests
from random_manifests import random_manifests

from metricldp_core import Device, InvalidValueError, certify
from metricldp_core.distributions import Memoised
from metricldp_core.exact import WORD
from metricldp_core.guarantee import sentences
from metricldp_core.manifest import Manifest
from metricldp_core.random_words import Words
from metricldp_core.values import Names, Response, WholeNumbers


class Recorded:
    """A source of random bytes with these words first, then pseudorandom ones; a record of all."""

    def __init__(self, seed: str, first: tuple[int, ...] = ()) -> None:
        self._seed, self.record = seed, b"".join(word.to_bytes(8, "little") for word in first)
        self._read = 0

    def __call__(self, count: int) -> bytes:
        start, self._read = self._read, self._read + count
        while len(self.record) < self._read:
            self.record += hashlib.shake_256(f"{self._seed} {len(self.record)}".encode()).digest(
                512
            )
        return self.record[start : self._read]

    def words(self, count: int) -> str:
        """The first words, 16 hexadecimal digits each, one after the other."""
        parts = (self.record[8 * k : 8 * k + 8][::-1] for k in range(count))
        return b"".join(parts).hex()


WEIRD = (
    *(
        None,
        "",
        " ",
        "\x1c\x85\u3000",
        "\ufeff",
        "\u200b",
        "x",
        "name 1",
        "NaN",
        "-inf",
        "1e999",
        "9" * 400,
    ),
    *(
        "1_0",
        "0x1",
        "٣",
        "+1",
        " 1.",
        ".5e0",
        "1e0",
        "-0",
        "+-1",
        "1 1",
        "9007199254740993",
        "5" * 1001,
    ),
    *(0.5, 1e-300, -0.0, 1e300, 10**9, -(10**9), 2**53, [], [1], {}, {"a": 1}, True, False, "true"),
    *(math.nan, math.inf, -math.inf),
)
"""Values of which most are rejected by most attributes."""


def plain(value):
    """A value as JSON has it; numbers that are not finite are objects."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")}
    return value


def valid_values(domain, draw) -> list:
    """Values inside of a domain: ends, edges and their neighbours, and some at random."""
    if isinstance(domain, Names):
        return [domain.names[0], domain.names[-1], draw.choice(domain.names)]
    inside = draw.random()
    if isinstance(domain, WholeNumbers):
        found = [domain.low, domain.high, domain.low + int(inside * domain.size)]
        return [*found, float(found[-1]), str(found[-1])]
    found = [domain.low, domain.high, domain.low + inside * (domain.high - domain.low)]
    steps = getattr(domain, "edges", None) or (
        domain.low + (domain.high - domain.low) / 7 * k for k in range(8)
    )
    edge = draw.choice(list(steps)[:500])
    found += [edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf), str(edge)]
    found.append(edge + (domain.high - domain.low) / domain.size * 1.5 * 2.0**-32)
    found.append(-0.0)
    return [value for value in found if domain.low <= float(value) <= domain.high]


def responses(manifest, count, seed) -> Iterator[dict]:
    draw = random.Random(seed)
    attributes = [domain for domain in manifest.domains if not isinstance(domain, Response)]
    for _ in range(count):
        found = {}
        for domain in attributes:
            found[domain.name] = draw.choice(valid_values(domain, draw))
            if domain.optional and draw.random() < 0.3:
                found[domain.name] = draw.choice([None, "", " "])
                if draw.random() < 0.3:
                    del found[domain.name]
        yield found


def near(marks, seed) -> Recorded:
    """Words at, just below and just above probabilities, among others."""
    draw, words = random.Random(seed), []
    for _ in range(24):
        mark = draw.choice(marks)
        words.append(draw.choice([mark, mark - 1, mark + 1, 0, WORD - 1, draw.getrandbits(64)]))
    return Recorded(seed, tuple(word % WORD for word in words))


def reports(device, marks, count, seed) -> Iterator[dict]:
    """Responses and words, and the report that they make."""
    manifest = device.manifest
    memoised = any(isinstance(field.distribution, Memoised) for field in manifest.fields)
    memory: dict[str, int] = {}
    for k, response in enumerate(responses(manifest, count, seed)):
        source = near(marks, f"{seed} {k}") if k % 3 == 2 else Recorded(f"{seed} {k}")
        words = Words(source)
        fact = {"response": {name: plain(value) for name, value in response.items()}}
        remembers = memoised and k % 4 > 0
        if remembers:
            fact["memory"] = dict(memory)
        positions = device.positions(response)
        report = device.randomize(positions, words, memory if remembers else None).hex()
        fact |= {"words": source.words(words.used), "report": report}
        yield fact | ({"remembered": dict(memory)} if remembers else {})


def values(device, count, seed) -> Iterator[dict]:
    """Values of one attribute, with the positions or the reason for which they are rejected."""
    manifest, draw = device.manifest, random.Random(seed)
    good = next(responses(manifest, 1, seed))
    for name in list(good)[:3]:
        for value in draw.sample(WEIRD, count):
            if isinstance(value, float) and value.is_integer() and is_named(manifest, name):
                continue  # JavaScript does not distinguish 1.0 from 1
            response, clip = good | {name: value}, draw.random() < 0.3
            fact = {"response": {n: plain(v) for n, v in response.items()}, "clip": clip}
            try:
                yield fact | {"positions": list(map(str, device.positions(response, clip=clip)))}
            except InvalidValueError as error:
                yield fact | {"rejected": error.reason}


def is_named(manifest, name):
    return any(d.name == name and isinstance(d, Names) for d in manifest.domains)


def certificates(manifest) -> list[dict]:
    proofs = certify(manifest).proofs
    tightest = [(proof, proof.tightest) for proof in proofs]
    return [
        {"name": proof.name, "holds": proof.holds, "loss": pair.loss, "allowed": pair.limit.allowed}
        for proof, pair in tightest
    ]


def facts(each: int, some: int, start=0, step=1) -> Iterator[dict]:
    """Facts about manifests, with so many reports and values of each."""
    for manifest in manifests()[start::step]:
        device, text = Device(manifest), manifest.text
        digits = [word for word in text.split('"') if len(word) == 16 and is_hexadecimal(word)]
        seed = manifest.fingerprint
        # A report of many bits needs many words.
        count = min(each, 3 + 60_000 // sum(field.bits for field in manifest.fields))
        yield {
            "manifest": text,
            "fingerprint": manifest.fingerprint,
            "sentences": sentences(manifest),
            "certificates": certificates(manifest),
            "reports": list(reports(device, [int(word, 16) for word in digits], count, seed)),
            "values": list(values(device, some, seed)),
        }


def random_facts(count: int, seed=1) -> Iterator[dict]:
    """Sentences and certificates of random manifests."""
    for manifest in random_manifests(count, seed):
        yield {
            "manifest": manifest.text,
            "fingerprint": manifest.fingerprint,
            "sentences": sentences(manifest),
            "certificates": certificates(manifest),
            "reports": [],
            "values": [],
        }


def fact_of_vector(vector) -> dict:
    """What a file of vectors has about a manifest, but for reports that are rejected."""
    rejected = vector.get("rejected_values", ())
    return {
        "manifest": vector["manifest"],
        "fingerprint": vector["fingerprint"],
        "sentences": vector["guarantee"],
        "certificates": certificates(Manifest.parse(vector["manifest"])),
        "reports": vector.get("reports", []),
        "values": [{**one, "rejected": one["reason"]} for one in rejected],
    }


def is_hexadecimal(word):
    return not set(word) - set("0123456789abcdef")


def broken(fact):
    """The same facts with one wrong digit in one report: a check must notice."""
    found = [dict(report) for report in fact["reports"]]
    last = found[-1]["report"]
    found[-1]["report"] = last[:-1] + ("1" if last[-1] == "0" else "0")
    return {**fact, "reports": found}


def written(path: Path, data: dict) -> Path:
    path.write_text(json.dumps(data, allow_nan=False), "utf-8")
    return path
