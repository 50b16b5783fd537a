"""Changed manifests, with the verdict of the core: invalid, or the guarantee holds or is broken.

The client must agree. Each number of a manifest is changed by one unit, entries are removed, added
and replaced, and probabilities are set to 0 or almost 1. The changes are the same in each run.
"""

from __future__ import annotations

import json
import math
import random
from bisect import bisect
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, product

from client_manifests import (
    ONE,
    additive,
    bins,
    chain,
    edges,
    extremal,
    geometric,
    grid,
    line,
    manifests,
    matrix,
    names,
    points,
    randomized_response,
    roof,
    scaled,
    table,
    uneven_threshold,
    uneven_unary,
    whole,
)
from facts import is_hexadecimal

from metricldp.channels.plain_data import manifest_of
from metricldp_core import InvalidManifestError, Manifest, certify
from metricldp_core.canonical import canonical
from metricldp_core.distributions import Geometric, Matrix, Memoised, Threshold
from metricldp_core.exact import WORD, exp_bounds
from metricldp_core.manifest import Field
from metricldp_core.metrics import Grid, Uniform
from metricldp_core.values import Bins, Names, Points, PublicWeight, Response
from metricldp_core.verify import MOST_STEPS, steps


def verdict(text: str) -> str:
    """Whether a manifest is invalid, or its guarantee holds or is broken."""
    try:
        return "holds" if certify(Manifest.parse(text)).holds else "broken"
    except InvalidManifestError:
        return "invalid"


def numbers(data, path=()) -> Iterator[tuple]:
    """The paths of all numbers of a manifest: probabilities, fractions and whole numbers."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from numbers(value, (*path, key))
    elif isinstance(data, list):
        for key, value in enumerate(data):
            yield from numbers(value, (*path, key))
    elif type(data) is int or (isinstance(data, str) and changed(data, path, 1) is not None):
        yield path


def changed(value, path, by):
    """A number of a manifest one unit off, or None."""
    if type(value) is int:
        return value + by
    named = next((key for key in reversed(path) if isinstance(key, str)), "")
    if named in ("epsilon", "width", "cap", "step"):
        fraction = Fraction(value)
        return str(fraction + Fraction(by, fraction.denominator))
    if len(value) == 16 and is_hexadecimal(value) and named not in ("name", "names"):
        number = int(value, 16) + by
        return f"{number:016x}" if 0 <= number < WORD else None
    if named == "depths" and 2 <= len(value) < 100:
        # The depth of one place.
        at = len(value) // 3
        return value[:at] + chr(ord(value[at]) + by) + value[at + 1 :]
    return None


def with_number(text, path, value) -> str:
    data = json.loads(text)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return canonical(data)


def one_unit_changes(most: int, start=0, step=1) -> Iterator[dict]:
    """Each number of each manifest one unit up and down; of at most so many numbers for each."""
    for manifest in manifests()[start::step]:
        text = manifest.text
        if len(text) > 100_000:
            continue
        data = json.loads(text)
        private = [
            path
            for path in numbers(data["fields"], ("fields",))
            if path[2] in ("distribution", "metric")
        ]
        draw = random.Random(manifest.fingerprint)
        if len(private) > most:
            first = [path for path in private if path[2] == "metric"][:4]
            rest = [path for path in private if path not in first]
            private = first + draw.sample(rest, most - len(first))
        for path in private:
            value = data
            for key in path:
                value = value[key]
            for by in (-1, 1):
                other = changed(value, path, by)
                if other is not None:
                    one = with_number(text, path, other)
                    yield {"manifest": one, "verdict": verdict(one), "number": path_text(path)}
        yield from shifted_weights(text, data)


def shifted_weights(text, data) -> Iterator[dict]:
    """One unit moved between two weights of a table, whose rows keep their sum."""
    for k, part in enumerate(data["fields"]):
        if part.get("distribution", {}).get("kind") != "table":
            continue
        for x, by in product(range(min(3, len(part["distribution"]["weights"]))), (-1, 1)):
            path = ("fields", k, "distribution", "weights", x)
            row = list(part["distribution"]["weights"][x])
            row[0] = f"{int(row[0], 16) + by:016x}"
            row[1] = f"{int(row[1], 16) - by:016x}"
            one = with_number(text, path, row)
            yield {"manifest": one, "verdict": verdict(one), "number": "table two weights"}


def extreme() -> Iterator[dict]:
    """Manifests with a probability of 0, of one unit, or of almost 1."""
    for manifest in manifests():
        text = manifest.text
        if len(text) > 20_000:
            continue
        data = json.loads(text)
        draw = random.Random(f"extreme {manifest.fingerprint}")
        words = [path for path in numbers(data) if is_word(data, path)]
        for path in draw.sample(words, min(3, len(words))):
            for value in ("0" * 16, "0" * 15 + "1", "f" * 16):
                one = with_number(text, path, value)
                yield {"manifest": one, "verdict": verdict(one), "number": "extreme"}


FAMILIES = {
    "unary": (200, 300, lambda n: (uneven_unary(n, "large"), Uniform(n, ONE))),
    "threshold": (900, 1100, lambda n: (uneven_threshold(n, "large"), line(n))),
    "table": (200, 300, lambda n: (table(n, 7, "large"), Uniform(n, ONE))),
    "extremal": (100, 300, lambda n: (extremal(n, 0.9, 3), Uniform(n, ONE))),
    "path": (1_900, 2_100, lambda n: (additive([n], [n], [roof(n, 4)], 0.9), chain(n))),
    "matrix": (200, 400, lambda n: (matrix(n, 1, "linear"), line(n, width=3, cap=9))),
    "ring": (
        *(400, 1_000),
        lambda n: (additive([n], [n], [roof(n, 4)] * 8, 0.5), line(n, ring=True, width=n // 2)),
    ),
    "memoised": (
        *(100, 300),
        lambda n: (Memoised(table(n, 20, "large"), randomized_response(20, 1)), line(n, width=n)),
    ),
    "grid": (
        *(20, 100),
        lambda n: (table(4 * n, 9, "large"), scaled(grid([4, n], "capped"), ONE / 5)),
    ),
}
"""Manifests with n positions, between two numbers."""


def largest_proofs() -> Iterator[dict]:
    """Of each family the largest manifest whose proof has few enough steps, and the next one."""
    for name, (low, high, family) in FAMILIES.items():
        members = range(low, high)
        first = bisect(members, MOST_STEPS, key=lambda n, family=family: member_steps(n, family))
        assert 0 < first < len(members)
        for n in (members[first - 1], members[first]):
            text = member(n, family).text
            yield {"manifest": text, "verdict": verdict(text), "number": f"{name} {n}"}


def member(n, family) -> Manifest:
    distribution, metric = family(n)
    domains = (whole(n, "x", 0, cyclic=getattr(metric, "ring", False)),)
    if distribution.size != n:
        domains = (whole(4, "x", 0), whole(n, "y", 0))
    return manifest_of((Field(domains, metric, distribution),))


def member_steps(n, family) -> int:
    fields = member(n, family).fields
    return sum(steps(field.distribution, field.point_metric) for field in fields)


FINE = 1 << 400
"""Denominator of an epsilon that 256 digits of a power of e do not decide."""


def nearest_loss() -> int:
    """The smallest epsilon that holds for a randomized response, in units of 2^-400."""
    distribution = randomized_response(3, 1)
    ratio, low, high = distribution.largest_ratio(), FINE // 2, 2 * FINE
    while high - low > 1:
        middle = (low + high) // 2
        if exp_bounds(Fraction(middle, FINE), 1024)[0] >= ratio:
            high = middle
        else:
            low = middle
    return high


def limits() -> Iterator[dict]:
    """Manifests at limits of format 1, and beyond them."""
    plain = randomized_response(3, 1), Uniform(3, ONE)

    def one(domain, distribution=plain[0], metric=plain[1]):
        return Field((domain,), metric, distribution)

    weight = Field((PublicWeight("w", low=0.0, high=1.0),))
    wide = Threshold(1 << 20, (WORD // 3,) * (1 << 20))
    wider = Threshold(1 << 20, (WORD // 3,) * ((1 << 20) + 1))
    many = [one(whole(3, f"a{k}")) for k in range(1_001)]
    bits = [one(whole(1 << 20, name), wide, Uniform(1 << 20, ONE)) for name in "xy"]
    families = {
        "ratio from 0": [[one(whole(3, "x", low, ratio="0.5"))] for low in (0, 1)],
        "edges": [
            [one(Bins("x", low=given[0], high=given[-1], given=given))]
            for given in ((0.0, 1.0, 2.0, 3.0), (0.0, 1.0, 1.0, 3.0), (0.0, 2.0, 1.0, 3.0))
        ],
        "attributes": [many[:1_000], many],
        "bits": [bits, [bits[0], one(whole(1 << 20, "y"), wider, Uniform(1 << 20, ONE))]],
        "no private attribute": [[weight], [weight, one(whole(3))]],
        "names": [[one(whole(3)), one(whole(3, name))] for name in ("x", "y", "x+y", "y=response")],
        "group": [
            [Field((whole(3), whole(3, "y")), Uniform(9, ONE), randomized_response(9, 1))],
            [
                one(whole(3, "x+y")),
                Field((whole(3), whole(3, "y")), Uniform(9, ONE), randomized_response(9, 1)),
            ],
        ],
        "special group": [
            [Field((domain, whole(3, "y")), Uniform(9, ONE), randomized_response(9, 1))]
            for domain in (
                *(names(3), points(3), whole(3, optional=True), edges(3)),
                *(Points("x", low=0.0, high=1.0, points=3, weight=True), weight.domains[0]),
            )
        ],
        "response in a group": [
            [
                one(whole(3, optional=True)),
                Field((Response("x"), whole(3, "y")), Uniform(6, ONE), randomized_response(6, 1)),
            ]
        ],
        "equal names": [
            [one(Names("x", names=tuple(found)))] for found in (("a", "b", "c"), tuple("aba"))
        ],
        "ends": [
            [one(Bins("x", low=low, high=1e300, bins=3))]
            for low in (-1e300, math.nextafter(-1e300, -math.inf), 1e300)
        ],
        "enclosure": [
            [one(whole(3), plain[0], Uniform(3, Fraction(nearest_loss() + by, FINE)))]
            for by in (0, -1)
        ],
        "low": [[one(whole(3, "x", low))] for low in (-(2**53), -(2**53) - 1, 2**53 - 2)],
        "block": [
            [one(whole(3), Geometric(3, WORD // 2, (), WORD // 2 + by), line(3))] for by in (0, 1)
        ],
    }
    for name, cases in families.items():
        for fields in cases:
            try:
                text = manifest_of(fields).text
            except ValueError:
                continue  # a number that no JSON has
            yield {"manifest": text, "verdict": verdict(text), "number": name}


def cube(letters, count) -> Field:
    """Eight attributes of three positions, and steps along all of them."""
    units = [tuple(int(d == k) for k in range(8)) for d in range(8)]
    steps = (*units, *islice(product((1, 2), repeat=8), count))
    metric = Grid((3,) * 8, ONE, steps, (1,) * len(steps))
    return Field(tuple(whole(3, name) for name in letters), metric, randomized_response(3**8, 1))


LARGEST = {
    "bins": (
        *(1_048_000, 1_048_576),
        lambda n: [
            Field((bins(n, name),), Uniform(n, ONE), randomized_response(n, 1)) for name in "xy"
        ],
    ),
    "unary": (
        *(28_000, 30_000),
        lambda n: [Field((whole(n),), Uniform(n, ONE), uneven_unary(n, "large"))],
    ),
    "matrix": (
        *(10_000, 16_000),
        lambda n: [Field((whole(3),), line(3), Matrix(3, matrix(3, 1, "linear").rows[1:] * n))],
    ),
    "depths": (
        *(900, 1_100),
        lambda n: [Field((whole(n),), Uniform(n, ONE), extremal(n, 0.9, 3))],
    ),
    "grid": (
        *(1, 256),
        lambda n: [cube("abcdefgh", 256), cube("ijklmnop", 200), cube("qrstuvwx", n)],
    ),
    "width": (
        *(520_000, 530_000),
        lambda n: [Field((whole(n, "x", 0),), line(n, width=NEARLY_ONE), geometric(n, 1e-3))],
    ),
}
"""Manifests with many items, by a number between two others."""
NEARLY_ONE = 1 + ONE / 2**30


def most_items() -> Iterator[dict]:
    """Of each family the largest manifest that is read, and the next one."""
    for name, (low, high, family) in LARGEST.items():
        members = range(low, high)
        texts = {}

        def is_rejected(n, family=family, texts=texts):
            texts[n] = manifest_of(family(n)).text
            return not is_read(texts[n])

        first = bisect(members, False, key=is_rejected)
        assert 0 < first < len(members)
        for n in (members[first - 1], members[first]):
            yield {"manifest": texts[n], "read": is_read(texts[n]), "number": f"{name} {n}"}


def is_read(text: str) -> bool:
    try:
        Manifest.parse(text)
    except InvalidManifestError:
        return False
    return True


def is_word(data, path):
    for key in path:
        data = data[key]
    return isinstance(data, str) and len(data) == 16 and is_hexadecimal(data)


def path_text(path) -> str:
    return ".".join(key for key in path[2:] if isinstance(key, str))


REPLACEMENTS = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        1.5,
        2**53,
        1e300,
        "",
        "1",
        "0",
        "2/4",
        "1/2",
        "3",
        "01",
        "1.0",
    ),
    *([], [1], {}, "uniform", "table", "geometric", "constructor", "__proto__", "0123", ":0011"),
    *("ffffffffffffffff", "0000000000000000", "8000000000000000", "FFFFFFFFFFFFFFFF", "\ud800"),
)


def malformed(each: int, start=0, step=1) -> Iterator[dict]:
    """Manifests with an entry added, removed or replaced, and other texts of the same data."""
    for manifest in manifests()[start::step]:
        text, draw = manifest.text, random.Random(f"malformed {manifest.fingerprint}")
        if len(text) > 20_000:
            continue
        texts = [draw.choice(list(other_texts(text)))]
        for _ in range(each):
            data = json.loads(text)
            replace_one(data, draw)
            try:
                texts.append(canonical(data))
            except (ValueError, UnicodeEncodeError):
                continue
        for one in texts:
            yield {"manifest": one, "verdict": verdict(one), "number": "malformed"}


def other_texts(text) -> Iterator[str]:
    data = json.loads(text)
    yield json.dumps(data)
    yield text + " "
    yield text.replace(',"metricldp":1', "") + ""
    yield text.replace('"metricldp":1', '"metricldp":1.0')
    yield text.replace('"metricldp":1', '"metricldp":2')
    yield text.replace('"metricldp":1', '"metricldp":1,"metricldp":1')
    yield text.replace('"metricldp":1', '"metricldp":1,"more":1')
    yield text[:-1]
    yield text.replace('"name":"', '"name":"\u0009')
    yield text.replace('"name":"', '"name":"=')
    yield text.replace('"name":"', '"name":"\u00e4')
    yield text.replace('"name":"', '"name":"\u2028')
    yield text.replace('"epsilon":"', '"width":"1","epsilon":"')
    yield text.replace('"kind":"line"', '"kind":"line","width":"1"')
    yield text.replace('"kind":"response"', '"kind":"response","optional":true')
    yield "[" * 100_000
    yield f"[{text}]"
    yield "null"


def replace_one(data, draw) -> None:
    """Replace, remove or add one entry somewhere."""
    inner = data
    while True:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            return
        key = draw.choice(list(keys))
        if isinstance(inner[key], dict | list) and draw.random() < 0.85:
            inner = inner[key]
            continue
        kind = draw.getrandbits(3)
        if kind == 0:
            del inner[key]
        elif kind == 1 and isinstance(inner, dict):
            more = (
                "cap",
                "width",
                "ring",
                "optional",
                "cyclic",
                "within",
                "ratio",
                "pairs",
                "more",
            )
            inner[draw.choice(more)] = draw.choice([True, "1", "2", "0.5", 1, "3/2", None])
        elif kind == 2 and isinstance(inner, list):
            inner.append(inner[key])
        else:
            inner[key] = draw.choice(REPLACEMENTS)
        return
