"""Manifests and survey files that are rejected, each for one reason.

Each case changes one place of a valid one and has a part of the message, so that it is known to be
rejected for its own reason.
"""

import copy
import json

import pytest

import given_numbers
from metricldp import (
    Categorical,
    Continuous,
    Graph,
    Integer,
    Matrix,
    Ordinal,
    SensitiveSet,
    Survey,
    Weight,
)
from metricldp.basics.errors import InvalidSpecError
from metricldp.survey import files
from metricldp_core.canonical import canonical, word
from metricldp_core.device import Device
from metricldp_core.errors import InvalidManifestError
from metricldp_core.manifest import Manifest

DELETED = object()
"""In place of a value: the key is left out."""


def changed(data, path, value):
    """A copy of plain data with another value at a path such as fields.0.metric."""
    found = copy.deepcopy(data)
    *inner, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place = found
    for key in inner:
        place = place[key]
    if value is DELETED:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return found


def _designed():
    line = {"epsilon": 1, "per": 1}
    geometric = {"mechanism": "geometric"}
    response = {"mechanism": "randomized-response"}
    shaped = {"name": "additive", "workload": "ranges"}
    alike = {"name": "tight-constraints", "tops": ["b6137867257aee58"] * 4}
    place = {"x": Integer(0, 1, epsilon=1, within=1), "y": Integer(0, 2, epsilon=1, within=1)}
    together = {**shaped, "metric": "plane", "around": [4, 5]}
    together["patterns"] = ["32101210121010121012", "21212321234321232101"]
    ring = {**shaped, "patterns": ["000111222111"] * 8}
    edges = [("a", "b"), ("b", "c", 2), ("a", "c", 3)]
    designed = {
        "geometric": {"x": Integer(0, 9, **line, **geometric)},
        "response": {"x": Categorical(list("abc"), epsilon=1, **response)},
        "threshold": {"x": Integer(0, 3, **line, mechanism="threshold")},
        "unary": {"x": Categorical(list("abc"), epsilon=1, metric=Graph(edges), mechanism="unary")},
        "sensitive": {
            "x": Categorical(list("abcd"), epsilon=1, metric=SensitiveSet(["a"]), mechanism="unary")
        },
        "matrix": {"x": Integer(0, 3, **line, mechanism=Matrix(strategy="prefix", reach=1))},
        "additive": {"x": Integer(1, 12, epsilon=2, within=3, cyclic=True, mechanism=ring)},
        "extremal": {"x": Categorical(list("abcd"), epsilon=2, mechanism=alike)},
        "memoised": {"x": Integer(0, 9, **line, mechanism={"name": "memoised", "each": 0.5})},
        "remembered": {
            "x": Categorical(list("abc"), epsilon=1, mechanism={"name": "memoised", "each": 0.5})
        },
        "optional": {
            "x": Integer(0, 9, **line, **geometric, optional=1),
            "y": Ordinal(["no", "yes"], epsilon=1, mechanism="threshold"),
        },
        "weight": {"x": Integer(0, 9, **line, **geometric), "w": Weight(0, 1)},
        "private": {"v": Weight(0, 1, private=True, epsilon=1)},
        "bins": {"x": Continuous(0, 60, bins=4, epsilon=1, per=15, **geometric)},
        "edges": {"x": Continuous(edges=[0, 1, 10, 20], epsilon=1, per=20, **geometric)},
        "points": {"x": Continuous(0, 1, points=5, **line, rounding="stochastic", **geometric)},
        "levels": {"x": Ordinal(list("abcd"), epsilon=1, cyclic=True, **response)},
        "within": {"x": Integer(0, 9, epsilon=1, within=3, max_epsilon=2.5, **response)},
        "quarter": {"x": Integer(0, 4, epsilon=0.25, per=1, **geometric)},
    }
    found = {name: given_numbers.design(attributes) for name, attributes in designed.items()}
    found["group"] = given_numbers.design(place, {("x", "y"): together})
    return found


def _table():
    """A manifest whose distribution is a table; no mechanism of a survey makes one."""
    domain = {"high": 1, "kind": "integer", "low": 0, "name": "x"}
    weights = [[word(3 << 62), word(1 << 62)], [word(1 << 62), word(3 << 62)]]
    distribution = {"kind": "table", "weights": weights}
    metric = {"epsilon": "6/5", "kind": "uniform"}
    field = {"attributes": [domain], "distribution": distribution, "metric": metric}
    return {"metricldp": 1, "fields": [field]}


def bases():
    """Valid manifests as plain data."""
    found = {name: json.loads(one.manifest()) for name, one in _designed().items()}
    found["table"] = _table()
    for data in found.values():
        Device(canonical(data))
    return found


ONE, F = "fields.0.", "fields.0.distribution."
M, A = "fields.0.metric.", "fields.0.attributes.0."
PROBABILITY = "16 hexadecimal digits"
UNREADABLE = [
    # because, base, path, value, part of the message
    ("another format", "geometric", "metricldp", 2, "another format than 1"),
    ("the format as a fraction", "geometric", "metricldp", 1.5, "needs metricldp, a whole number"),
    ("the format as text", "geometric", "metricldp", "1", "needs metricldp, a whole number"),
    ("no format", "geometric", "metricldp", DELETED, "has no metricldp"),
    ("an unknown key", "geometric", "title", "x", "has an unknown key 'title'"),
    ("no fields", "geometric", "fields", [], "needs fields, a list"),
    ("fields that are not a list", "geometric", "fields", {}, "needs fields, a list"),
    ("a field that is not an object", "geometric", "fields.0", 5, "is not an object"),
    ("an unknown key of a field", "geometric", ONE + "bits", 4, "has an unknown key 'bits'"),
    ("a field without attributes", "geometric", ONE + "attributes", [], "needs attributes, a list"),
    ("a field without a metric", "geometric", ONE + "metric", DELETED, "has no metric"),
    ("no distribution", "geometric", ONE + "distribution", DELETED, "has no distribution"),
    ("a public weight with a metric", "weight", "fields.1.metric", {}, "unknown key 'metric'"),
    ("only a public weight", "weight", "fields.0", DELETED, "one of them private"),
    # Attributes
    ("no name", "geometric", A + "name", DELETED, "has no name"),
    ("a blank name", "geometric", A + "name", " ", "needs name, a line of text"),
    ("a name with a line break", "geometric", A + "name", "a\nb", "needs name, a line of text"),
    ("a name with =", "geometric", A + "name", "a=b", "or a name with '='"),
    ("a name that is a number", "geometric", A + "name", 5, "needs name, a line of text"),
    ("no kind", "geometric", A + "kind", DELETED, "has no kind"),
    ("an unknown kind", "geometric", A + "kind", "number", "'number' that is not supported"),
    ("an unknown key of an attribute", "geometric", A + "unit", "m", "unknown key 'unit'"),
    ("low above high", "geometric", A + "low", 10, "needs low|needs high"),
    ("low with a fraction", "geometric", A + "low", 0.5, "needs low, a whole number"),
    ("low as text", "geometric", A + "low", "0", "needs low, a whole number"),
    ("low as a truth value", "geometric", A + "low", False, "needs low, a whole number"),
    ("more positions than probabilities", "geometric", A + "high", 10, "10 positions, needs 11"),
    ("too many positions", "geometric", A + "high", 1 << 20, "needs high, a whole number"),
    ("cyclic that is false", "geometric", A + "cyclic", False, "has cyclic that is not true"),
    ("optional that is 1", "optional", A + "optional", 1, "has optional that is not true"),
    ("within as a number", "within", A + "within", 3, "needs within, a decimal number"),
    ("within as a fraction", "within", A + "within", "3/2", "needs within, a decimal number"),
    ("within 0", "within", A + "within", "0", "needs within, a decimal number"),
    ("within with zeros at its end", "within", A + "within", "3.0", "needs within, a decimal"),
    ("a ratio as a number", "within", A + "ratio", 0.5, "needs ratio, a decimal number"),
    ("one name", "response", A + "names", ["a"], "needs names, a list of 2"),
    ("a name twice", "response", A + "names", list("aba"), "needs names, different lines"),
    ("an empty name of a value", "response", A + "names", ["a", "b", " "], "needs names, diff"),
    ("a name of a value as a number", "response", A + "names", ["a", "b", 3], "needs names, diff"),
    ("cyclic categories", "response", A + "cyclic", True, "has an unknown key 'cyclic'"),
    ("one bin", "bins", A + "bins", 1, "needs bins, a whole number from 2"),
    ("infinite width", "bins", A + "high", 1e301, "needs high, a finite number"),
    ("equal ends", "bins", A + "high", 0, "needs low below high"),
    ("two edges", "edges", A + "edges", [0, 1], "needs edges, a list of 3"),
    ("edges that do not rise", "edges", A + "edges", [0, 1, 1, 20], "needs edges that rise"),
    ("edges and ends", "edges", A + "low", 0, "has an unknown key 'low'"),
    ("an edge as text", "edges", A + "edges", [0, 1, "10", 20], "needs edges, a finite number"),
    ("one point", "points", A + "points", 1, "needs points, a whole number from 2"),
    ("points and bins", "points", A + "bins", 4, "has an unknown key 'bins'"),
    ("points on a ring", "points", M + "ring", True, "does not fit its attributes"),
    ("a private weight that is false", "private", A + "private", False, "has private that is not"),
    ("a public weight without ends", "weight", "fields.1.attributes.0.low", DELETED, "has no low"),
    ("a response with ends", "optional", "fields.1.attributes.0.low", 0, "unknown key 'low'"),
    ("an optional attribute alone", "optional", "fields.1", DELETED, "one response field for each"),
    ("a response to nothing", "optional", A + "optional", DELETED, "one response field for each"),
    (
        "a response to another attribute",
        "optional",
        "fields.1.attributes.0.name",
        "y",
        "one response field for each",
    ),
    ("a name of two attributes", "optional", "fields.2.attributes.0.name", "x", "different names"),
    ("optional in a group", "group", A + "optional", True, "cannot be randomized jointly"),
    ("a weight in a group", "group", "fields.0.attributes.2",
     {"high": 1, "kind": "weight", "low": 0, "name": "w"}, "cannot be randomized jointly"),
    # Metrics
    ("an unknown metric", "geometric", M + "kind", "circle", "a metric 'circle' that is not supp"),
    ("epsilon as a number", "geometric", M + "epsilon", 1, "needs epsilon, a positive fraction"),
    ("epsilon 0", "geometric", M + "epsilon", "0", "needs epsilon, a positive fraction"),
    ("epsilon below 0", "geometric", M + "epsilon", "-1", "needs epsilon, a positive fraction"),
    ("epsilon as a decimal", "geometric", M + "epsilon", "1.5", "needs epsilon, a positive"),
    ("epsilon not in lowest terms", "geometric", M + "epsilon", "2/2", "needs epsilon, a positive"),
    ("epsilon of too many digits", "geometric", M + "epsilon", "1" * 2001, "needs epsilon, a posi"),
    ("an unknown key of a metric", "geometric", M + "unit", "1", "has an unknown key 'unit'"),
    ("a width below 1", "within", M + "width", "1/2", "needs a width of at least 1"),
    ("a cap below epsilon", "within", M + "cap", "1/2", "a cap of at least epsilon"),
    ("a cap that is null", "within", M + "cap", None, "needs cap, a positive fraction"),
    ("a ring that is 1", "levels", M + "ring", 1, "has ring that is not true"),
    ("a ring of values on a line", "geometric", M + "ring", True, "does not fit its attributes"),
    ("a line of cyclic values", "levels", M + "ring", DELETED, "does not fit its attributes"),
    ("a graph of points", "points", "fields.0.metric",
     {"kind": "graph", "step": "1", "lengths": [1] * 4}, "does not fit its attributes"),
    ("a line over a group", "group", "fields.0.metric", {"kind": "line", "epsilon": "1"},
     "does not fit its attributes"),
    ("a grid of one attribute", "geometric", "fields.0.metric",
     {"kind": "grid", "step": "1", "sizes": [2, 5], "steps": [[0, 1, 1], [1, 0, 1]]},
     "does not fit its attributes"),
    ("a grid of the attributes in another order", "group", "fields.0.metric",
     {"kind": "grid", "step": "1", "sizes": [3, 2], "steps": [[0, 1, 1], [1, 0, 1]]},
     "does not fit its attributes"),
    ("a distance above 2^40", "geometric", M + "epsilon", str(1 << 41), "2"),
    ("a pair in falling order", "sensitive", M + "pairs.0", [1, 0], "needs pairs, a whole number"),
    ("a pair of three", "sensitive", M + "pairs.0", [0, 1, 2], "needs pairs of positions"),
    ("a pair of a position itself", "sensitive", M + "pairs.0", [1, 1],
     "needs pairs, a whole number"),
    ("a pair beyond the positions", "sensitive", M + "pairs.0", [0, 4],
     "needs pairs, a whole number"),
    ("a pair twice", "sensitive", M + "pairs.1", [0, 1], "needs different pairs"),
    ("pairs that leave a position out", "sensitive", M + "pairs.2", [1, 2],
     "connect all positions"),
    ("fewer lengths than pairs", "unary", M + "lengths", [1], "needs lengths, a list of 2"),
    ("a length of 0", "unary", M + "lengths.0", 0, "needs lengths, a whole number from 1"),
    ("a small length as text", "unary", M + "lengths.0", "2", "needs lengths, a whole number"),
    ("a large length as a number", "unary", M + "lengths.0", 1 << 53, "needs lengths, a whole num"),
    ("a grid of one size", "group", M + "sizes", [6], "needs sizes, a list of 2 to 8"),
    ("a grid of other sizes", "group", M + "sizes", [2, 2], "has sizes or steps that do not fit"),
    ("a grid without a unit step", "group", M + "steps.0", [1, 2, 2], "one position along each"),
    ("a step of no length", "group", M + "steps.0", [0, 0, 1], "one position along each"),
    ("a step too long", "group", M + "steps.0", [0, 3, 1], "needs steps, a whole number from 0"),
    ("a step of one attribute", "group", M + "steps.0", [1, 1], "needs steps, lists of a number"),
    ("a step twice", "group", M + "steps.2", [0, 1, 1], "needs different steps"),
    # Distributions
    ("an unknown distribution", "geometric", F + "kind", "magic", "'magic' that is not supported"),
    ("a distribution of the second kind", "geometric", F + "kind", "lazy-geometric", "not supp"),
    ("an unknown key of one", "geometric", F + "rows", [], "has an unknown key 'rows'"),
    ("a size of 1", "geometric", F + "size", 1, "needs size, a whole number from 2"),
    ("a probability of 15 digits", "geometric", F + "zero", "f" * 15, PROBABILITY),
    ("a probability in capitals", "geometric", F + "zero", "A" * 16, PROBABILITY),
    ("a probability as a number", "geometric", F + "zero", 5, PROBABILITY),
    ("a probability of 0 for noise of 0", "geometric", F + "zero", "0" * 16, PROBABILITY),
    ("blocks that never repeat", "geometric", F + "block", "0" * 16, PROBABILITY),
    ("64 digits", "geometric", F + "digits", ["7" * 16] * 64, "needs digits, a list of 0 to 63"),
    ("a value that is never kept", "response", F + "keep", "0" * 16, PROBABILITY),
    ("a response of other size", "response", F + "size", 4, "4 positions, needs 3"),
    ("too few flips", "threshold", F + "flips", [["4" * 16, 2]], "has 2 flips for 4 positions"),
    ("too many flips", "threshold", F + "flips", [["4" * 16, 6]], "has 6 flips for 4 positions"),
    ("a run of no length", "threshold", F + "flips", [["4" * 16, 0]], "needs flips, a whole num"),
    ("two runs of one value", "threshold", F + "flips", [["4" * 16, 1], ["4" * 16, 2]],
     "canonical form"),
    ("a run without a count", "threshold", F + "flips", [["4" * 16]],
     "a list of \\[value, count\\]"),
    ("own and other of two lengths", "unary", F + "own", [["c" * 16, 2]], "of equal length"),
    ("no rows", "matrix", F + "rows", [], "needs rows, a list of 1"),
    ("rows of two lengths", "matrix", F + "rows.0.entries", [[0, 3]], "needs rows of equal length"),
    ("an entry outside of its window", "matrix", F + "rows.0.low", 3, "needs entries, a whole"),
    ("a row of kind geometric", "matrix", F + "rows.0.kind", "geometric", "unknown key 'kind'"),
    ("a window beyond 2^31", "matrix", F + "rows.0.low", -(1 << 31) - 1, "needs low, a whole"),
    ("no patterns", "additive", F + "depths", [], "needs depths, a list of 1"),
    ("three patterns", "additive", F + "depths", ["000111222111"] * 3, "needs tops, a list of 3"),
    ("patterns without a depth 0", "additive", F + "depths.0", "111222333222", "one of them 0"),
    ("patterns of two lengths", "additive", F + "depths.0", "00011122211", "of equal length"),
    ("a ring of other length", "additive", F + "lengths", [13], "one depth for each place"),
    ("more positions than places", "additive", F + "sizes", [13], "one depth for each place"),
    ("a ring of two sides for one", "additive", F + "lengths", [3, 4], "one depth for each place"),
    ("levels above 2^64 together", "additive", F + "tops.0", "f" * 16, "add up to more than 2"),
    ("a pattern that is never drawn", "additive", F + "tops.0", "0" * 16, "positive tops"),
    ("a fall of 0", "additive", F + "fall", "0" * 16, PROBABILITY),
    ("depths that are not in digits", "additive", F + "depths.0", "0001112221-1", "needs depths"),
    ("depths in two digits without need", "additive", F + "depths.0", ":" + "00" * 12, "shortest"),
    ("depths as a list without need", "additive", F + "depths.0", [0] * 12, "shortest form"),
    ("a depth beyond 2^14", "additive", F + "depths.0", [0] * 11 + [16385],
     "needs depths, a whole"),
    ("levels above 2^64 at a value", "extremal", F + "tops.0", "f" * 16, "more than 2\\^64 at a"),
    ("fewer tops than shapes", "extremal", F + "tops", ["1" * 16], "needs tops, a list of"),
    ("weights of two lengths", "table", F + "weights.0", [word(1 << 63)] * 2 + ["0" * 16],
     "add up to 2\\^64"),
    ("weights below 2^64 together", "table", F + "weights.0.0", word((3 << 62) - 1), "add up to 2"),
    ("a row of weights as text", "table", F + "weights.0", "3" * 16, "a list of lists"),
    ("one row of weights", "table", F + "weights.1", DELETED, "needs weights, a list of 2"),
    ("a second randomization of other size", "memoised", F + "second.size", 9, "does not fit"),
    ("a first randomization of bits", "memoised", F + "first.kind", "unary", "not supported here"),
    ("a memoised first randomization", "remembered", F + "first.kind", "memoised", "not supported"),
    ("a second one that is a table", "remembered", F + "second.kind", "table", "not supported"),
    ("a second one without keep", "memoised", F + "second.keep", DELETED, "has no keep"),
]  # fmt: skip
_LESS = "999999999999999999/1000000000000000000"
BROKEN = [
    # because, base, path, value, or the name of a base for its distribution
    ("a little less per step", "geometric", M + "epsilon", _LESS),
    ("noise that is 0 too often", "geometric", F + "zero", "a" * 16),
    ("a digit that is too rare", "geometric", F + "digits.0", "0" * 16),
    ("a digit that is too frequent", "geometric", F + "digits.0", "f" * 16),
    ("blocks that repeat too rarely", "geometric", F + "block", "0" * 15 + "1"),
    ("kept too often", "response", F + "keep", "b" * 16),
    ("always kept", "response", F + "keep", "f" * 16),
    ("a value that is kept too rarely", "response", F + "keep", "0" * 15 + "1"),
    ("a little less between any two", "response", M + "epsilon", _LESS),
    ("flipped too rarely", "threshold", F + "flips", [["4" * 16, 3]]),
    ("one bit that is flipped too rarely",
     "threshold", F + "flips", [["4" * 16, 1], ["7" * 16, 2]]),
    ("never flipped", "threshold", F + "flips", [["0" * 16, 3]]),
    ("flipped too often", "threshold", F + "flips", [["c" * 16, 3]]),
    ("a bit that is certain", "unary", F + "own", [["f" * 16, 3]]),
    ("a bit that is never set by others", "unary", F + "other", [["0" * 16, 3]]),
    ("a shorter edge", "unary", M + "lengths.1", 1),
    ("a smaller step", "sensitive", M + "step", _LESS),
    ("entries too far apart", "matrix", F + "rows.0.entries", [[0, 1], [2, 3]]),
    ("an epsilon of a row that is too large", "matrix", M + "epsilon", _LESS),
    ("levels that fall too fast", "additive", F + "fall", "1" * 16),
    ("a pattern that is too steep", "additive", F + "depths.0", "000333444333"),
    ("a larger width", "additive", M + "width", "4"),
    ("shapes that fall too fast", "extremal", F + "fall", "1" * 16),
    ("too little for the last report", "extremal", F + "tops.0", "b613786b257afc91"),
    ("a report of one value only", "table", F + "weights.0", ["f" * 16, word(1)]),
        ("weights that are too far apart", "table", M + "epsilon", "1"),
    ("a first randomization that keeps too often", "remembered", F + "first.keep", "b" * 16),
    ("noise of a memory that is too small", "memoised", F + "first.zero", "a" * 16),
    ("a response that is kept too often", "optional", "fields.1.distribution.keep", "d" * 16),
    ("a private weight that is kept too often", "private", F + "keep", "b" * 16),
    ("points with the distribution of values", "points", ONE + "distribution", "quarter"),
    ("a shorter step of a group", "group", M + "step", _LESS),
    ("a little less between close values", "within", M + "epsilon", _LESS),
]  # fmt: skip


def manifests():
    """Rejected manifests; each is rejected where and for the reason that is stated."""
    valid, found = bases(), []
    for because, base, path, value, message in UNREADABLE:
        text = canonical(changed(valid[base], path, value))
        found.append(_rejected(text, because, "manifest", message))
    for because, base, path, value in BROKEN:
        known = valid[value]["fields"][0]["distribution"] if str(value) in valid else value
        text = canonical(changed(valid[base], path, known))
        found.append(_rejected(text, because, "guarantee", "the guarantee does not hold"))
    text = canonical(valid["geometric"])

    def low(value):
        return text.replace('"low":0', f'"low":{value}')

    texts = [
        ("not JSON", text[:-1], "not valid JSON"),
        ("a text in front", " " + text, "not in canonical form"),
        ("two values", text + text, "not valid JSON"),
        ("a list", f"[{text}]", "is not an object"),
        ("an empty text", "", "not valid JSON"),
        ("spaces", text.replace(":", ": "), "not in canonical form"),
        ("a line break at the end", text + "\n", "not in canonical form"),
        ("a key twice", text.replace('"low":0', '"low":0,"low":0'), "has a key twice"),
        ("NaN", low("NaN"), "not valid JSON: it has NaN"),
        ("infinity", low("-Infinity"), "not valid JSON: it has -Infinity"),
        ("null", low("null"), "needs low, a whole number"),
        ("a number as a decimal", low("0.0"), "needs low, a whole number"),
        ("a negative zero", low("-0"), "not in canonical form"),
        ("an escape without need", text.replace('"x"', '"\\u0078"'), "not in canonical form"),
        ("deep lists", "[" * 5_000 + "]" * 5_000, "not valid JSON"),
    ]
    for because, one, message in texts:
        found.append(_rejected(one, because, "manifest", message))
    swapped = json.dumps(json.loads(text)["fields"][0], sort_keys=True, separators=(",", ":"))
    other = '{"metricldp":1,"fields":[' + swapped + "]}"
    found.append(_rejected(other, "keys in another order", "manifest", "not in canonical form"))
    bits = changed(valid["threshold"], A + "high", (1 << 20) - 1)
    bits = changed(bits, F + "size", 1 << 20)
    bits = changed(bits, F + "flips", [["7" * 16, (1 << 20) - 1]])
    many = [changed(bits["fields"][0], "attributes.0.name", f"x{k}") for k in range(3)]
    text = canonical({**bits, "fields": many})
    found.append(
        _rejected(text, "reports that are too long", "manifest", "more than 262,144 bytes")
    )
    return {"rejected_manifests": found}


def _rejected(text, because, stage, message):
    """The vector of a rejected manifest, once it was seen to be rejected for this reason."""
    with pytest.raises(InvalidManifestError, match=message):
        (Manifest.parse if stage == "manifest" else Device)(text)
        pytest.fail(f"{because}: the manifest is accepted")
    return {"manifest": text, "because": because, "reason": stage}


# Survey files ------------------------------------------------------------------------------------

X = "attributes.x."
D = X + "distribution."
WRONG_FILES = [
    # because, base, path, value, part of the message
    ("another version", "geometric", "metricldp", 2, "a survey file has metricldp = 1, not 2"),
    ("a version as a decimal", "geometric", "metricldp", 1.0, "not 1.0"),
    ("a version as text", "geometric", "metricldp", "1", "not '1'"),
    ("no version", "geometric", "metricldp", DELETED, "this is a spec, not a designed survey"),
    ("no attributes", "geometric", "attributes", DELETED, "a table .* is needed"),
    ("an empty table of attributes", "geometric", "attributes", {}, "a table .* is needed"),
    ("an attribute that is not a table", "geometric", "attributes.x", 5, "x must be a table"),
    ("an unknown entry of the survey", "geometric", "title", "x", "no entry 'title'"),
    ("p below 1", "geometric", "norm", {"p": 0.5}, "p of at least 1, not 0.5"),
    ("p as text", "geometric", "norm", {"p": "many"}, "p of at least 1, not 'many'"),
    ("another entry of the norm", "geometric", "norm", {"p": 2, "q": 3}, "the entry norm has p"),
    ("a norm that is not a table", "geometric", "norm", 2, "the entry norm has p"),
    ("a norm that a mechanism does not support", "group", "norm", {"p": 3},
     "a norm with p up to 1"),
    ("only a public weight", "weight", "attributes.x", DELETED, "at least one attribute"),
    ("an unknown kind", "geometric", X + "kind", "number", "has kind 'number'"),
    ("no kind", "geometric", X + "kind", DELETED, "has kind None"),
    ("an unknown entry", "geometric", X + "lowest", 0, "has no 'lowest'"),
    ("no low", "geometric", X + "low", DELETED, "needs 'low'"),
    ("no epsilon", "geometric", X + "epsilon", DELETED, "needs 'epsilon'"),
    ("low is high", "geometric", X + "low", 9, "one value only"),
    ("low above high", "geometric", X + "low", 10, "is empty"),
    ("low with a fraction", "geometric", X + "low", 0.5, "must be whole"),
    ("low as text", "geometric", X + "low", "0", "must be whole"),
    ("low as a truth value", "geometric", X + "low", False, "must be whole"),
    ("high beyond 2^53", "geometric", X + "high", (1 << 53) + 1, "whole numbers up to"),
    ("too many positions", "geometric", X + "high", 1 << 20, "positions are too many"),
    ("epsilon 0", "geometric", X + "epsilon", 0, "a positive finite number"),
    ("epsilon below 0", "geometric", X + "epsilon", -1, "a positive finite number"),
    ("epsilon infinite", "geometric", X + "epsilon", float("inf"), "a positive finite number"),
    ("epsilon not a number", "geometric", X + "epsilon", float("nan"), "a positive finite number"),
    ("epsilon as text", "geometric", X + "epsilon", "1", "a positive finite number"),
    ("epsilon too small", "geometric", X + "epsilon", 1e-13, "too small for 64-bit words"),
    ("per 0", "geometric", X + "per", 0, "per must be a positive"),
    ("per and within", "geometric", X + "within", 1, "not both"),
    ("a smaller epsilon", "geometric", X + "epsilon", 0.999, "break its guarantee"),
    ("a larger unit", "geometric", X + "per", 1.001, "break its guarantee"),
    ("one value more", "geometric", X + "high", 10, "has 10 positions, the attribute has 11"),
    ("no distribution", "geometric", X + "distribution", DELETED, "is not designed"),
    ("no mechanism", "geometric", X + "mechanism", DELETED, "name the mechanism of the dist"),
    ("a mechanism without a name", "geometric", X + "mechanism", {"reach": 1},
     "a table with a name"),
    ("settings of another", "geometric", X + "mechanism", {"name": "geometric", "reach": 1},
     "has no entry 'reach'"),
    ("a mechanism that is not installed", "geometric", X + "mechanism", "magic", "no mechanism"),
    ("an unknown distribution", "geometric", D + "kind", "magic", "'magic' that is not supported"),
    ("a probability of 15 digits", "geometric", D + "zero", "f" * 15, "16 hexadecimal digits"),
    ("a probability as a number", "geometric", D + "zero", 5, "16 hexadecimal digits"),
    ("an unknown key of the distribution", "geometric", D + "rows", [], "unknown key 'rows'"),
    ("noise that is not geometric", "geometric", D + "zero", "a" * 16, "not geometric"),
    ("a distribution that is a text", "geometric", X + "distribution", "geometric",
     "not an object"),
    ("another distribution than the mechanism", "geometric", X + "mechanism", "additive",
     "has a distribution 'additive', not"),
    ("a response to what is not optional", "geometric", X + "response", {}, "has response if"),
    ("optional without a response", "optional", X + "response", DELETED, "has response if"),
    ("a response that is kept too often", "optional", X + "response.keep", "d" * 16, "break its"),
    ("optional as text", "optional", X + "optional", "yes", "optional is True, or"),
    ("optional 0", "optional", X + "optional", 0, "optional is True, or"),
    ("a name twice", "response", X + "categories", list("aba"), "categories repeat 'a'"),
    ("one name", "response", X + "categories", ["a"], "fewer than two names"),
    ("an empty category", "response", X + "categories", ["a", "b", ""], "must be non-empty names"),
    ("noise on a category", "response", X + "mechanism", "geometric", "has a distribution 'geom"),
    ("an unknown metric", "sensitive", X + "metric.kind", "circle", "has kind 'circle'"),
    ("a metric about other values", "sensitive", X + "metric.values", ["e"],
     "names 'e', which is not"),
    ("another sensitive value", "sensitive", X + "metric.values", ["b"], "break its guarantee"),
    ("a graph in two parts", "unary", X + "metric.edges", [["a", "b"]], "nothing leads from"),
    ("bits that are too precise", "unary", D + "own", [["f" * 16, 3]], "break its guarantee"),
    ("a row whose noise is not geometric", "matrix", D + "rows.0.zero", "a" * 16, "not geometric"),
    ("entries beyond the window", "matrix", D + "rows.0.low", 3, "needs entries"),
    ("one bin", "bins", X + "bins", 1, "at least 2 bins"),
    ("bins that are not chosen", "bins", X + "bins", "auto", "leave it out"),
    ("bins too thin", "bins", X + "low", 59.99999999999999, "are too narrow"),
    ("one bin by edges", "edges", X + "edges", [0, 1], "make 2 to 1,000 bins"),
    ("edges that do not rise", "edges", X + "edges", [0, 2, 2, 20], "edges must rise"),
    ("an infinite edge", "edges", X + "edges", [0, 1, 10, float("inf")], "an edge must be finite"),
    ("edges and bins", "edges", X + "bins", 3, "bins or edges, not both"),
    ("edges too far apart", "edges", X + "edges", [0, 1, 2, 1e18], "use smaller lengths"),
    ("one point", "points", X + "points", 1, "at least 2 points"),
    ("points without rounding", "points", X + "rounding", DELETED, "has no 'points'"),
    ("an unknown rounding", "points", X + "rounding", "up", "rounding is .stochastic. or left out"),
    ("a public weight with epsilon", "weight", "attributes.w.epsilon", 1, "has no epsilon"),
    ("a public weight that is optional", "weight", "attributes.w.optional", 1,
     "cannot be optional"),
    ("a private weight without epsilon", "private", "attributes.v.epsilon", DELETED,
     "needs an epsilon"),
    ("patterns that are too steep", "additive", D + "depths.0", "000333444333", "break its"),
    ("patterns of other length", "additive", D + "depths.0", "00011122211", "equal length"),
    ("shapes above 2^64", "extremal", D + "tops.0", "f" * 16, "more than 2"),
    ("an unknown workload", "additive", X + "mechanism.workload", "everything",
     "no workload is called"),
    ("a second one that does not fit", "memoised", D + "second.size", 9, "does not fit"),
    ("a first one that keeps too often", "remembered", D + "first.keep", "b" * 16, "break its"),
    ("a group of one attribute", "group", "groups", {"x": {"mechanism": "additive"}}, "names its"),
    ("a group of an unknown attribute", "group", "groups", {"x+y+z": {}}, "in their order"),
    ("a group in another order", "group", "groups", {"y+x": {}}, "in their order: 'x', 'y'"),
    ("a group of another shape", "group", "groups.x+y.distribution.sizes", [3, 2],
     "needs \\[2, 3\\]"),
    ("a group of another mechanism", "group", "groups.x+y.mechanism", "extremal",
     "distribution 'extr"),
    ("a distribution of an attribute in a group", "group", D[:-1], {}, "leave it out"),
    ("a distribution of a public weight", "weight", "attributes.w.distribution", {},
     "leave it out"),
    ("a prior of other length", "additive", X + "mechanism.prior", [1, 2], "a prior is a list of"),
    ("one report that has all of epsilon", "memoised", X + "mechanism.each", 1, "must be below 1"),
    ("one report that has less", "memoised", X + "mechanism.each", 0.4, "one report of x has a"),
    ("bits of another mechanism", "threshold", X + "mechanism", "threshold-paper",
     "does not have 3 bits"),
    ("no first mechanism", "memoised", X + "mechanism", "memoised", "first is 'geometric'"),
    ("another first mechanism", "remembered", X + "mechanism.first", "extremal",
     "distribution 'extremal', not"),
    ("texts that are a list", "geometric", "presentation", [], "a table of languages"),
    ("a group without a distribution", "group", "groups.x+y.distribution", DELETED, "not designed"),
    ("an unknown entry of a group", "group", "groups.x+y.title", "x", "no entry 'title'"),
    ("groups that are a list", "group", "groups", [], "groups is a table"),
    ("a group of another size", "group", "attributes.x.high", 2, "has 6 positions"),
    ("a shorter distance in a group", "group", "attributes.x.epsilon", 0.9,
     "must be the same for both"),
    ("a group that keeps less", "group", "groups.x+y.distribution.fall", "4" * 16, "break its"),
    ("an attribute of a group with a mechanism", "group", X + "mechanism", "geometric",
     "a mechanism of its own"),
    ("texts about another attribute", "geometric", "presentation", {"en": {"y": {}}}, "'y'"),
    ("an unknown text", "geometric", "presentation", {"en": {"x": {"help": "?"}}}, "'help'"),
    ("a title that is a number", "geometric", "presentation", {"en": {"x": {"title": 3}}}, "texts"),
    ("labels that are a list", "geometric", "presentation", {"en": {"x": {"labels": []}}}, "texts"),
    ("a language without a table", "geometric", "presentation", {"en": "x"}, "a table of texts"),
]  # fmt: skip


def surveys():
    """Rejected survey files; each is rejected for the reason that is stated."""
    valid, found = {name: one.to_dict() for name, one in _designed().items()}, []
    for because, base, path, value, message in WRONG_FILES:
        text = files.to_toml(changed(valid[base], path, value))
        found.append(_rejected_file("toml", text, because, message))
    text = files.to_toml(valid["geometric"])
    named = [("an equals sign", '"a=b"'), ("an empty text", '""'), ("a line break", '"a\\nb"')]
    texts = [
        (f"{what} as a name", text.replace("s.x", f"s.{name}"), "name must be")
        for what, name in named
    ]
    texts += [
        ("not TOML", text.replace("[attributes.x]", "[attributes.x"), "not a TOML file"),
        ("a key twice", text.replace("low = 0", "low = 0\nlow = 1"), "not a TOML file"),
        ("JSON as TOML", files.to_json(valid["geometric"]), "not a TOML file"),
        ("an empty file", "", "a survey file has metricldp = 1, and it is missing"),
    ]
    found += [_rejected_file("toml", one, because, message) for because, one, message in texts]
    text = files.to_json(valid["geometric"])
    texts = [
        ("not JSON", text.strip()[:-1], "not a JSON file"),
        ("a list", f"[{text}]", "a survey file is an object, not a list"),
        ("a key twice", text.replace('"low": 0', '"low": 0, "low": 1'), "'low' occurs twice"),
        ("NaN", text.replace('"low": 0', '"low": NaN'), "must be whole"),
        ("null", text.replace('"low": 0', '"low": null'), "must be whole"),
        ("TOML as JSON", files.to_toml(valid["geometric"]), "not a JSON file"),
    ]
    found += [_rejected_file("json", one, because, message) for because, one, message in texts]
    return {"rejected_surveys": found}


def _rejected_file(form, text, because, message):
    load = Survey.from_json if form == "json" else Survey.from_toml
    with pytest.raises(InvalidSpecError, match=message):
        load(text)
        pytest.fail(f"{because}: the file is accepted")
    return {"format": form, "text": text, "because": because}
