"""Random surveys, respondents and queries, as neutral data for Hypothesis."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

Plain = dict[str, Any]

EPSILONS = st.sampled_from([0.2, 0.5, 0.7, 1.0, 1.3, 2.0, 3.5])
ORDERED = [
    *("geometric", "threshold", "threshold-paper", "threshold-dummy", "randomized-response"),
    *("additive", "extremal", "tight-constraints", "memoised", "unary", "matrix"),
    *("haar", "hierarchy-2", "hierarchy-3-unary", "prefix", "square-wave", "condensed"),
]
UNORDERED = [
    *("randomized-response", "unary", "extremal", "tight-constraints", "memoised", "matrix"),
    *("unary-symmetric", "unary-optimised", "histogram-threshold", "histogram-sum"),
    *("local-hashing", "hadamard", "subset", "condensed"),
]
OWN_METRIC = ["auto", "randomized-response", "unary", "extremal", "tight-constraints", "matrix"]
GROUPS = ["additive", "extremal", "tight-constraints", "faces", "hio", "hio-hashing"]
LETTERS = "abcdefgh"


@st.composite
def cases(draw: st.DrawFn) -> Plain:
    """A spec, respondents whose responses are valid, and queries about them."""
    kinds = draw(st.lists(st.sampled_from(list(ATTRIBUTES)), min_size=1, max_size=3))
    if all(kind == "public-weight" for kind in kinds):
        kinds = ["integer", *kinds]
    attributes = {LETTERS[at]: draw(ATTRIBUTES[kind]()) for at, kind in enumerate(kinds)}
    spec: Plain = {"attributes": attributes}
    joinable = [n for n, a in attributes.items() if _can_be_joint(a)]
    if len(joinable) >= 2 and draw(st.booleans()):
        names = joinable[:2]
        for name in names:
            attributes[name].pop("mechanism", None)
        spec["groups"] = [{"attributes": names, "mechanism": draw(st.sampled_from(GROUPS))}]
    elif len(attributes) > 1 and draw(st.integers(0, 9)) == 0:
        spec["norm"] = 2.0
    n = draw(st.sampled_from([80, 30, 30, 1]))
    columns = {
        name: draw(st.lists(responses(a), min_size=n, max_size=n)) for name, a in attributes.items()
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    queries = draw(st.lists(query(spec), min_size=3, max_size=5))
    return {"spec": spec, "respondents": rows, "queries": queries, "seed": draw(st.integers(0, 99))}


# Attributes --------------------------------------------------------------------------------------


@st.composite
def numeric(draw: st.DrawFn, attribute: Plain, step: float) -> Plain:
    """Add a guarantee, a mechanism and an optional response to a numeric attribute."""
    attribute |= {"epsilon": draw(EPSILONS)}
    stated = draw(st.sampled_from(["per", "within", "plain"]))
    if stated != "plain":
        attribute[stated] = step * draw(st.sampled_from([1, 2, 3]))
    if draw(st.integers(0, 2)) == 0:
        attribute["max_epsilon"] = attribute["epsilon"] * draw(st.sampled_from([1, 2, 3]))
    if draw(st.integers(0, 4)) == 0 and attribute.get("rounding") is None:
        attribute["cyclic"] = True
    if draw(st.integers(0, 3)) == 0:
        attribute["optional"] = draw(st.sampled_from([True, 0.5, 2.0]))
    attribute["mechanism"] = draw(st.sampled_from(ORDERED))
    return attribute


@st.composite
def integer(draw: st.DrawFn) -> Plain:
    low = draw(st.integers(-3, 3))
    attribute = {"kind": "integer", "low": low, "high": low + draw(st.integers(1, 7))}
    return draw(numeric(attribute, 1))


@st.composite
def binned(draw: st.DrawFn) -> Plain:
    if draw(st.booleans()):
        edges = draw(st.lists(st.integers(0, 40), min_size=3, max_size=6, unique=True).map(sorted))
        return draw(numeric({"kind": "continuous", "edges": [float(e) for e in edges]}, 5.0))
    attribute = {"kind": "continuous", "low": 0.0, "high": 40.0, "bins": draw(st.integers(2, 8))}
    return draw(numeric(attribute, 10.0))


@st.composite
def rounded(draw: st.DrawFn) -> Plain:
    attribute = {"kind": "continuous", "low": 0.0, "high": 10.0, "rounding": "stochastic"}
    attribute["points"] = draw(st.integers(2, 6))
    return draw(numeric(attribute, 5.0))


@st.composite
def ordinal(draw: st.DrawFn) -> Plain:
    levels = [f"level {k}" for k in range(draw(st.integers(2, 6)))]
    return draw(numeric({"kind": "ordinal", "levels": levels}, 1))


@st.composite
def categorical(draw: st.DrawFn) -> Plain:
    categories = [f"c{k}" for k in range(draw(st.integers(2, 6)))]
    attribute = {"kind": "categorical", "categories": categories, "epsilon": draw(EPSILONS)}
    if draw(st.integers(0, 3)) == 0:
        attribute["optional"] = True
    return attribute | {"mechanism": draw(st.sampled_from(UNORDERED))}


@st.composite
def with_metric(draw: st.DrawFn) -> Plain:
    """A categorical attribute whose metric is stated pair by pair, or an integer one by ratio."""
    kind = draw(st.sampled_from(["graph", "tree", "sensitive-set", "distance-matrix", "relative"]))
    mechanism = draw(st.sampled_from(OWN_METRIC))
    if kind == "relative":
        metric: Plain = {"kind": kind, "by": draw(st.sampled_from([0.2, 0.5]))}
        attribute: Plain = {"kind": "integer", "low": 1, "high": draw(st.integers(3, 7))}
    else:
        names = [f"c{k}" for k in range(draw(st.integers(3, 5)))]
        attribute = {"kind": "categorical", "categories": names}
        lengths = st.sampled_from([1, 2, "1/2"])
        metric = {"kind": kind}
        if kind == "graph":
            metric["edges"] = [[a, b, draw(lengths)] for a, b in pairwise(names)]
        elif kind == "tree":
            metric["groups"] = {"left": names[:2], "right": names[2:]}
        elif kind == "sensitive-set":
            metric["values"] = names[: draw(st.integers(1, 2))]
        else:
            apart = {(i, j): draw(lengths) for j in range(len(names)) for i in range(j)}
            metric["rows"] = [
                [0 if i == j else apart[min(i, j), max(i, j)] for j in range(len(names))]
                for i in range(len(names))
            ]
    return attribute | {"epsilon": draw(EPSILONS), "mechanism": mechanism, "metric": metric}


@st.composite
def private_weight(draw: st.DrawFn) -> Plain:
    return {"kind": "weight", "low": 0.0, "high": 4.0, "private": True, "epsilon": draw(EPSILONS)}


def public_weight() -> st.SearchStrategy[Plain]:
    return st.just({"kind": "weight", "low": 0.0, "high": 4.0})


ATTRIBUTES = {
    "integer": integer,
    "binned": binned,
    "rounded": rounded,
    "ordinal": ordinal,
    "categorical": categorical,
    "with-metric": with_metric,
    "private-weight": private_weight,
    "public-weight": public_weight,
}


def _can_be_joint(attribute: Plain) -> bool:
    plain = attribute["kind"] in ("integer", "continuous", "ordinal", "categorical")
    return plain and not {"optional", "metric", "rounding"} & set(attribute)


def responses(attribute: Plain) -> st.SearchStrategy[Any]:
    """Valid values of an attribute; a missing one where it is optional."""
    kind = attribute["kind"]
    values: st.SearchStrategy[Any]
    if kind == "integer":
        values = st.integers(attribute["low"], attribute["high"])
    elif kind in ("ordinal", "categorical"):
        values = st.sampled_from(values_of(attribute))
    else:
        low, high = bounds(attribute)
        # On a circle high is low since 1.0; version 0.2 put it in the last bin.
        last = 15 if attribute.get("cyclic") else 16
        values = st.integers(0, last).map(lambda k: low + (high - low) * k / 16)
    return st.none() | values if attribute.get("optional") else values


def bounds(attribute: Plain) -> tuple[float, float]:
    if "edges" in attribute:
        return attribute["edges"][0], attribute["edges"][-1]
    return attribute["low"], attribute["high"]


def values_of(attribute: Plain) -> list[str]:
    return attribute["levels"] if attribute["kind"] == "ordinal" else attribute["categories"]


# Queries -----------------------------------------------------------------------------------------


@st.composite
def query(draw: st.DrawFn, spec: Plain) -> Plain:
    """One query about one or two attributes of a spec, with a condition."""
    weights = [n for n, a in spec["attributes"].items() if a["kind"] == "weight"]
    attributes = {n: a for n, a in spec["attributes"].items() if n not in weights}
    if not attributes:
        return {"kind": "sum", "attribute": weights[0]}
    found = draw(subject(attributes, weights))
    kind = found["kind"]
    used = {found.get("attribute"), found.get("other"), *found.get("predictors", [])}
    rest = {n: a for n, a in attributes.items() if n not in used}
    if kind == "trend_test":
        found["event"] = draw(condition(rest))
    elif kind == "fraction":
        found["where"] = draw(condition(attributes))
        if draw(st.booleans()):
            found["among"] = draw(condition(attributes))
    elif kind not in WITHOUT_CONDITION and rest and draw(st.booleans()):
        found["where"] = draw(condition(rest))
    by = [n for n in rest if n not in named(found.get("where")) | named(found.get("among"))]
    if kind in GROUPED and by and found.get("attribute") not in weights and draw(st.booleans()):
        found["by"] = by[0]
    if kind not in (*WITHOUT_CONDITION, "expected_error"):
        found["target"] = draw(st.sampled_from(["respondents", "population"]))
    return found


WITHOUT_CONDITION = ("goodness_of_fit_test", "fit_distribution")
GROUPED = ("count", "fraction", "mean", "sum")
PRIORS = ["uniform", "worst"]


@st.composite
def subject(draw: st.DrawFn, attributes: Plain, weights: list[str]) -> Plain:
    """The kind of a query, the attributes it is about and its parameters."""
    names = list(attributes)
    numeric = [n for n, a in attributes.items() if a["kind"] in ("integer", "continuous")]
    ordered = [n for n, a in attributes.items() if a["kind"] != "categorical"]
    choices: dict[str, list[str]] = {
        **dict.fromkeys(("mean", "variance", "std"), numeric),
        **dict.fromkeys(("quantile", "cdf"), ordered),
        **dict.fromkeys(("histogram", "top_k", "workload"), names),
        "sum": numeric + weights,
        "independence_test": names if len(names) > 1 else [],
        **dict.fromkeys(("covariance", "correlation"), numeric if len(numeric) > 1 else []),
        "linear_regression": numeric[:1] if len(numeric) > 1 else [],
        "trend_test": numeric[:1] if len(names) > 1 else [],
    }
    possible = [kind for kind, about in choices.items() if about]
    kind = draw(st.sampled_from(["count", *ABOUT_EVERYONE, *possible]))
    found: Plain = {"kind": kind}
    if kind in choices:
        found["attribute"] = draw(st.sampled_from(choices[kind]))
    others = numeric if kind in ("covariance", "correlation") else names
    parameters: dict[str, Any] = {
        "quantile": {"q": draw(st.sampled_from([0.1, 0.5, 0.9]))},
        "top_k": {"k": 1},
        "workload": {"matrix": draw(st.sampled_from(["values", "prefixes", "ranges"]))},
        "linear_regression": {"predictors": numeric[1:2]},
        "fit_distribution": {"attributes": [draw(st.sampled_from(names))]},
        "poisoning_bounds": {"malicious": draw(st.integers(0, 3))},
        "expected_error": {
            "n": draw(st.sampled_from([1, 1000])),
            "prior": draw(st.sampled_from(PRIORS)),
        },
    }
    if kind in ("covariance", "correlation", "independence_test"):
        parameters[kind] = {"other": next(n for n in others if n != found["attribute"])}
    return found | parameters.get(kind, {})


ABOUT_EVERYONE = (
    *("count", "fraction", "fit_distribution", "goodness_of_fit_test"),
    *("confidence_sequence", "poisoning_bounds", "expected_error"),
)


@st.composite
def condition(draw: st.DrawFn, attributes: Plain) -> Plain:
    """A condition on one or two attributes, or one of the two, or none of them."""
    names = draw(st.lists(st.sampled_from(list(attributes)), min_size=1, max_size=2, unique=True))
    tests = {name: draw(comparison(attributes[name])) for name in names}
    form = draw(st.sampled_from(["and", "and", "or", "not"]))
    if form == "or" and len(tests) > 1:
        return {"or": [{name: value} for name, value in tests.items()]}
    if form == "not" and not any(attributes[name].get("optional") for name in tests):
        return {"not": tests}
    return tests


@st.composite
def comparison(draw: st.DrawFn, attribute: Plain) -> Plain:
    """A range of whole values or whole bins, a set of categories, or no response."""
    if attribute.get("optional") and draw(st.integers(0, 3)) == 0:
        return {"is": None}
    kind = attribute["kind"]
    if kind in ("ordinal", "categorical"):
        return {"in": draw(st.lists(st.sampled_from(values_of(attribute)), min_size=1, max_size=3))}
    if kind == "integer":
        ends = st.integers(attribute["low"], attribute["high"])
        low, high = sorted([draw(ends), draw(ends)])
        return {"between": [low, high]}
    edges = edges_of(attribute)
    first = draw(st.integers(0, len(edges) - 2))
    last = draw(st.integers(first + 1, len(edges) - 1))
    between = {"between": [edges[first], edges[last]]}
    return between if attribute.get("rounding") else between | {"bins": True}


def edges_of(attribute: Plain) -> list[float]:
    if "edges" in attribute:
        return attribute["edges"]
    low, high = attribute["low"], attribute["high"]
    count = attribute.get("bins", 4)
    return [low + (high - low) * k / count for k in range(count + 1)]


def named(where: Plain | None) -> set[str]:
    """Return the attributes of a condition."""
    if where is None:
        return set()
    if "or" in where:
        return set().union(*(named(part) for part in where["or"]))
    return named(where["not"]) if "not" in where else set(where)
