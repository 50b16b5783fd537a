"""Two versions of the package behind one neutral interface.

Specs, respondents and queries are plain data in the words of the public interface of 1.0, designs
are survey files of format 1. A system translates them for its version, and returns integers, exact
fractions and floats. When a layer of the package is rewritten, only the class of the current
version changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import math
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from metricldp import QueryError
from metricldp.answers.conditions import any_of, none_of

Plain = dict[str, Any]

MECHANISMS = {
    "additive": "shaped",
    "extremal": "designed",
    "randomized-response": "response",
    "tight-constraints": "tents",
}
"""Names of 1.0 and of version 0.2, where they differ."""
METRICS = {"distance-matrix": "table"}
DESIGNED = {"around", "bits", "epsilons", "gap", "patterns", "reach", "seconds", "shapes", "tops"}
"""Settings of mechanisms in files of version 0.2 that follow from the integers in format 1."""
KNOWN = tomllib.loads((Path(__file__).parent / "known_differences.toml").read_text("utf-8"))
OTHER_WORDS = KNOWN["payloads"]["one-word-for-each-bit"]["distributions"]
MAX_TABLE = 64
"""Output distributions with at most this many probabilities are compared entry by entry."""


class Words:
    """Known 64-bit words in place of randomness: word k is SHA-256 of the seed and k, cut off."""

    def __init__(self, seed: str) -> None:
        self._seed, self._bytes, self._blocks = seed, b"", 0

    def draw(self, count: int) -> bytes:
        """Return the next bytes; a word is eight of them, lowest byte first."""
        while len(self._bytes) < count:
            self._bytes += hashlib.sha256(f"{self._seed} {self._blocks}".encode()).digest()
            self._blocks += 1
        drawn, self._bytes = self._bytes[:count], self._bytes[count:]
        return drawn


class Version02:
    """The interface of version 0.2, installed under the name `package`."""

    header = 17
    """Bytes of a report before its payload: the version and the start of the fingerprint."""
    version = 2
    """The first byte of a report."""
    randomness = "coins"
    """The argument of `report` with the random words."""

    def __init__(self, package: str) -> None:
        self.package = importlib.import_module(package)
        self.invalid = self.package.MetricLdpError

    # Surveys -------------------------------------------------------------------------------------

    def design(self, spec: Plain) -> Any:
        """Choose mechanisms and fix all numbers; a spec without `auto` is loaded as it is."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.package.TightenedMetricWarning)
            return self.package.Survey.from_dict(self._old_survey(spec))

    def export(self, survey: Any) -> Plain:
        """Return the designed survey as a file of format 1, with the integers of version 0.2."""
        data = survey.to_dict()
        design: Plain = {"metricldp": 1}
        if "metric" in data:
            design["norm"] = data["metric"]
        design["attributes"] = {
            name: self._new_attribute(entry) | self._integers(survey, name)
            for name, entry in data["attributes"].items()
        }
        for name in survey.channels.keys() & data["attributes"].keys():
            attribute = design["attributes"][name]
            if "distribution" in attribute:
                attribute["mechanism"] = _settings(attribute["mechanism"])
        groups = {}
        for group in data.get("joint", ()):
            name = "+".join(group["attributes"])
            distribution = _distribution(survey.blocks[name].channel)
            mechanism = self._new_mechanism(group["mechanism"])
            groups[name] = {"mechanism": _settings(mechanism) if distribution else mechanism}
            groups[name] |= {"distribution": distribution} if distribution else {}
        return design | ({"groups": groups} if groups else {})

    def _integers(self, survey: Any, name: str) -> Plain:
        """The distributions of an attribute and of its response."""
        channels = {"distribution": name, "response": f"{name}=answered"}
        found = {
            key: _distribution(survey.channels[of])
            for key, of in channels.items()
            if of in survey.channels
        }
        return {key: data for key, data in found.items() if data is not None}

    def _old_survey(self, spec: Plain) -> Plain:
        data: Plain = {"metricldp": 2}
        if "norm" in spec:
            data["metric"] = {"p": spec["norm"]}
        data["attributes"] = {n: self._old_attribute(a) for n, a in spec["attributes"].items()}
        if "groups" in spec:
            data["joint"] = [
                {
                    "attributes": group["attributes"],
                    "mechanism": self._old_mechanism(group["mechanism"]),
                }
                for group in spec["groups"]
            ]
        return data

    def _old_attribute(self, attribute: Plain) -> Plain:
        data = dict(attribute)
        if data.pop("rounding", None) == "stochastic":
            data["kind"] = "real"
        if "max_epsilon" in data:
            data["cap"] = data.pop("max_epsilon")
        if "mechanism" in data:
            data["mechanism"] = self._old_mechanism(data["mechanism"])
        if "metric" in data:
            kind = data["metric"]["kind"]
            data["metric"] = {**data["metric"], "kind": METRICS.get(kind, kind)}
        return data

    def _new_attribute(self, entry: Plain) -> Plain:
        data = dict(entry)
        if data["kind"] == "real":
            data |= {"kind": "continuous", "rounding": "stochastic"}
        if "cap" in data:
            data["max_epsilon"] = data.pop("cap")
        if "mechanism" in data:
            data["mechanism"] = self._new_mechanism(data["mechanism"])
        if "metric" in data:
            kind = data["metric"]["kind"]
            data["metric"] = {**data["metric"], "kind": _inverse(METRICS).get(kind, kind)}
        return data

    def _old_mechanism(self, mechanism: Any) -> Any:
        return _translated(mechanism, MECHANISMS, {"max_epsilon": "cap"})

    def _new_mechanism(self, mechanism: Any) -> Any:
        return _translated(mechanism, _inverse(MECHANISMS), {"cap": "max_epsilon"})

    # Output distributions and certificates -------------------------------------------------------

    def distributions(self, survey: Any) -> Plain:
        """Return P(output | position) of each group of attributes, as exact fractions.

        Large distributions are represented by the probabilities of a few outputs.
        """
        single = {_named(name): _table(channel) for name, channel in survey.channels.items()}
        joint = {name: _joint_table(b.channel) for name, b in survey.blocks.items()}
        return {name: table for name, table in (single | joint).items() if table is not None}

    def certificate(self, survey: Any) -> list[Plain]:
        """Return the exact likelihood ratio of each pair that version 0.2 examined."""
        certificate = survey.certify()
        names = _inverse(MECHANISMS)
        return [
            {
                "group": _named(proof.attribute),
                "mechanism": names.get(proof.mechanism, proof.mechanism),
                "holds": proof.holds,
                "generating_pairs": proof.count,
                "pairs": [
                    [pair.x, pair.other, str(pair.allowed), _digest(pair.ratio), pair.holds]
                    for pair in proof.pairs
                ],
            }
            for proof in certificate.proofs
        ]

    # Reports -------------------------------------------------------------------------------------

    def payload(self, survey: Any, response: Plain, seed: str, memory: Plain | None) -> bytes:
        """Return the bytes of one report without its header, for known random words."""
        given = {name: value for name, value in response.items() if value is not None}
        words = {self.randomness: Words(seed)}
        return bytes(survey.report(given, memory=memory, **words))[self.header :]

    def tally(self, survey: Any, payloads: Sequence[bytes]) -> Any:
        return survey.tally(self._reports(survey, payloads))

    def _reports(self, survey: Any, payloads: Sequence[bytes]) -> list[bytes]:
        start = bytes([self.version]) + bytes.fromhex(survey.fingerprint)[: self.header - 1]
        return [start + payload for payload in payloads]

    def marginals(self, survey: Any, payloads: Sequence[bytes]) -> Plain:
        """Return sums over reports of products of features, for each group and two pairs of them.

        The features of a one-integer report are its indicators, those of bits are their signs, and
        those of a matrix report its fields.
        """
        names = [name for name in survey.tabled if name in survey.asked or name in survey.blocks]
        keep = [[name] for name in names] + [list(pair) for pair in pairwise(names)][:2]
        if not keep:
            return {}
        store = survey.tally(self._reports(survey, payloads), keep=keep).store
        tables = {names: table.sums for names, table in store._tables.items()}
        return {" x ".join(map(_named, names)): sums.tolist() for names, sums in tables.items()}

    # Queries -------------------------------------------------------------------------------------

    def answer(self, tally: Any, query: Plain) -> Plain:
        """Return the columns of a query's result: values, standard errors, ends of intervals."""
        kind, target = query["kind"], query.get("target", "respondents")
        where = self._where(tally.survey, query.get("where"))
        attribute = query.get("attribute")
        about = {"about": target}
        if kind == "count":
            return _estimates(tally.count(where, by=query.get("by"), **about))
        if kind == "fraction":
            among = self._where(tally.survey, query.get("among"))
            return _estimates(tally.fraction(where, of=among, by=query.get("by"), **about))
        if kind in ("sum", "mean"):
            ask = tally.sum if kind == "sum" else tally.mean
            columns = _estimates(ask(attribute, where, by=query.get("by"), **about))
            if kind == "mean" and tally.survey.attributes[attribute].is_cyclic:
                return _circular_means(tally, attribute, where, query.get("by"))
            return columns
        if kind in ("variance", "std"):
            return _estimates(getattr(tally, kind)(attribute, where, **about))
        if kind == "quantile":
            quantile = tally.quantile(attribute, query["q"], where, **about)
            low, high = quantile.interval(0.95)
            return {"value": [quantile.value], "low": [low], "high": [high]}
        if kind == "cdf":
            cdf = tally.cdf(attribute, where, **about)
            low, high = cdf.interval(0.95, simultaneous=True)
            return {"value": list(cdf.values), "low": list(low), "high": list(high)}
        if kind == "histogram":
            return _estimates(tally.histogram(attribute, where, **about))
        if kind == "top_k":
            top = tally.top(attribute, query["k"], where, **about)
            return {"label": list(top.labels), "value": list(top.values)}
        if kind == "workload":
            return _estimates(tally.linear(attribute, query["matrix"], where, **about))
        if kind in ("covariance", "correlation"):
            return _estimates(getattr(tally, kind)(attribute, query["other"], where, **about))
        if kind == "linear_regression":
            return _estimates(tally.regression(attribute, query["predictors"], where).coefficients)
        if kind == "independence_test":
            return _test(tally.independence(attribute, query["other"], where))
        if kind == "trend_test":
            event = self._where(tally.survey, query["event"])
            return _test(tally.trend(event, attribute, where))
        if kind == "goodness_of_fit_test":
            return {"pvalue": [part.p_value for part in tally.suspicion().parts]}
        if kind == "fit_distribution":
            fit = tally.fit(query["attributes"])
            return {"value": fit.shares.reshape(-1).tolist()}
        if kind == "confidence_sequence":
            low, high = tally.count(where, **about).interval(0.95, anytime=True)
            return {"low": [low], "high": [high]}
        if kind == "poisoning_bounds":
            low, high = tally.count(where, **about).moved_by(query["malicious"])
            return {"low": [low], "high": [high]}
        raise ValueError(f"there is no query {kind}")

    def expected_error(self, survey: Any, query: Plain) -> Plain:
        """Return the standard error that the design predicts for a count."""
        where = self._where(survey, query.get("where"))
        error = survey.predict(where, n=query["n"], prior=query["prior"])
        return {"value": [error]}

    def _where(self, survey: Any, condition: Plain | None) -> Any:
        if condition is None:
            return None
        if "or" in condition:
            parts = [self._where(survey, part) for part in condition["or"]]
            return self.package.any_of(*parts)
        if "not" in condition:
            return self.package.none_of(self._where(survey, condition["not"]))
        return {
            name: self._selection(survey.attributes[name], test) for name, test in condition.items()
        }

    def _selection(self, attribute: Any, test: Plain) -> Any:
        if "is" in test:
            return test["is"]
        if "in" in test:
            return list(test["in"])
        low, high = test["between"]
        if attribute.kind == "continuous" and test.get("bins"):
            # Whole bins, left-closed: [low, high). Version 0.2 takes every bin that a range meets.
            return low, math.nextafter(high, -math.inf) if high is not None else None
        return low, high


class Current(Version02):
    """The package under test, with the public names of 1.0."""

    randomness = "randomness"
    version = 1

    def __init__(self) -> None:
        super().__init__("metricldp")

    def design(self, spec: Plain) -> Any:
        """Design the survey of a spec; epsilon alone means epsilon per unit in version 0.2."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.package.TightenedMetricWarning)
            return self.package.Survey.design(self.package.SurveySpec.from_dict(self._spec(spec)))

    def load(self, design: Plain) -> Any:
        """Load a designed survey from a file of format 1."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.package.TightenedMetricWarning)
            return self.package.Survey.from_dict(design)

    def export(self, survey: Any) -> Plain:
        return survey.to_dict()

    def certificate(self, survey: Any) -> list[Plain]:
        """Return the tightest pair of each proof, and whether its loss is a bound."""
        bounds = {f.name for f in survey.client_manifest.fields if is_bound(f.distribution)}
        return [
            {
                "group": proof.attribute,
                "mechanism": proof.mechanism,
                "holds": proof.holds,
                "generating_pairs": proof.count,
                "loss": proof.tightest.loss,
                "allowed": proof.tightest.limit.allowed,
                "bound": proof.core.name in bounds,
            }
            for proof in survey.certify().proofs
        ]

    def payload(self, survey: Any, response: Plain, seed: str, memory: Plain | None) -> bytes:
        """Return the bytes of one report without its header, for known random words.

        A memory is needed for each report but the first of a memoised attribute.
        """
        given = {name: value for name, value in response.items() if value is not None}
        words = {self.randomness: Words(seed)}
        memory = {} if memory is None else memory
        return bytes(survey.report(given, memory=memory, **words))[self.header :]

    def same_bits(self, survey: Any) -> int:
        """How many bits of a payload precede the first field that reads other words than in 0.2.

        All bits of its bytes if there is none.
        """
        count = 0
        for field in survey.client_manifest.fields:
            if field.distribution is not None and field.distribution.kind in OTHER_WORDS:
                return count
            count += field.bits
        return -(-count // 8) * 8

    def _spec(self, spec: Plain) -> Plain:
        data: Plain = {"attributes": {n: _with_unit(a) for n, a in spec["attributes"].items()}}
        if "norm" in spec:
            data["metric"] = {"p": spec["norm"]}
        if "groups" in spec:
            data["joint"] = spec["groups"]
        return data

    def answer(self, tally: Any, query: Plain) -> Plain:
        """Return the columns of a query's result: values, standard errors, ends of intervals."""
        kind, target = query["kind"], {"target": query.get("target", "respondents")}
        where = self._where(tally.survey, query.get("where"))
        attribute = query.get("attribute")
        if kind == "count":
            return _estimates(tally.count(where, by=query.get("by"), **target), _interval)
        if kind == "fraction":
            among = self._where(tally.survey, query.get("among"))
            fraction = tally.fraction(where, among=among, by=query.get("by"), **target)
            return _estimates(fraction, _interval)
        if kind in ("sum", "mean"):
            statistic = getattr(tally, kind)(attribute, where, by=query.get("by"), **target)
            return _estimates(statistic, _interval)
        if kind in ("variance", "std"):
            return _estimates(getattr(tally, kind)(attribute, where, **target), _interval)
        if kind == "quantile":
            quantile = tally.quantile(attribute, query["q"], where, **target)
            low, high = quantile.confidence_interval()
            ends = {"low": [low], "high": [high], "envelope": [_envelope(quantile)]}
            return {"value": [quantile.value], **ends}
        if kind == "cdf":
            cdf = tally.cdf(attribute, where, **target)
            low, high = (column.tolist() for column in cdf.confidence_interval())
            columns = {"value": cdf.values.tolist(), "low": low, "high": high}
            return columns | {"bands": _bands_between_methods(cdf)}
        if kind == "histogram":
            return _estimates(tally.histogram(attribute, where, **target), _interval)
        if kind == "top_k":
            top = tally.top_k(attribute, query["k"], where, **target)
            values = [estimate.value for _, estimate in top]  # a table has NaN without an SE
            return {"label": [_label(label) for label in top.labels], "value": values}
        if kind == "workload":
            workload = tally.workload(attribute, query["matrix"], where, **target)
            return _estimates(workload, _interval)
        if kind in ("covariance", "correlation"):
            statistic = getattr(tally, kind)(attribute, query["other"], where, **target)
            return _estimates(statistic, _interval)
        if kind == "linear_regression":
            regression = tally.linear_regression(
                attribute, query["predictors"], where, target="respondents"
            )
            return _estimates(regression.coefficients, _interval)
        if kind == "independence_test":
            return _test(tally.independence_test(attribute, query["other"], where), "pvalue")
        if kind == "trend_test":
            event = self._event(tally.survey, query["event"])
            return _test(tally.trend_test(event, attribute, where), "pvalue")
        if kind == "goodness_of_fit_test":
            return {"pvalue": [part.pvalue for part in tally.goodness_of_fit_test().parts]}
        if kind == "fit_distribution":
            fit = tally.fit_distribution(query["attributes"])
            return {"value": fit.shares.reshape(-1).tolist()}
        if kind == "confidence_sequence":
            return _interval(tally.count(where, **target), anytime=True)
        if kind == "poisoning_bounds":
            low, high = tally.count(where, **target).poisoning_bounds(query["malicious"])
            return {"low": [low], "high": [high]}
        raise ValueError(f"there is no query {kind}")

    def expected_error(self, survey: Any, query: Plain) -> Plain:
        """Return the standard error that the design predicts for a count."""
        where = self._where(survey, query.get("where"))
        error = survey.expected_error(where, n=query["n"], prior=query["prior"])
        return {"value": [error.stderr]}

    def _where(self, survey: Any, condition: Plain | None) -> Any:
        """Return a condition as text; conditions on two attributes alternate with dictionaries."""
        if condition is None:
            return None
        if "or" in condition or "not" in condition or len(condition) == 1:
            return self._text(survey, condition)
        return super()._where(survey, condition)

    def _event(self, survey: Any, event: Plain) -> Any:
        """Return an event with the structure that is stated; text is simplified first."""
        if "or" in event:
            return any_of(*(self._event(survey, part) for part in event["or"]))
        return (
            none_of(self._event(survey, event["not"]))
            if "not" in event
            else {
                name: self._selection(survey.attributes[name], test) for name, test in event.items()
            }
        )

    def _text(self, survey: Any, condition: Plain) -> str:
        if "or" in condition:
            return " or ".join(f"({self._text(survey, part)})" for part in condition["or"])
        if "not" in condition:
            return f"not ({self._text(survey, condition['not'])})"
        return " and ".join(
            _comparison(name, survey.attributes[name], test) for name, test in condition.items()
        )

    def _selection(self, attribute: Any, test: Plain) -> Any:
        """Bins are left-closed here, and a range of whole bins is stated by its edges."""
        return tuple(test["between"]) if test.get("bins") else super()._selection(attribute, test)


def is_bound(distribution: Any) -> bool:
    """Whether the likelihood ratios of a distribution are rounded up to a power of one step."""
    kind = getattr(distribution, "kind", "")
    if kind == "memoised":
        return is_bound(distribution.first)
    return kind in KNOWN["certificates"]["bounds"]["distributions"]


def _named(name: str) -> str:
    """The name of a field, in which version 0.2 wrote =answered for =response."""
    return name.replace("=answered", "=response")


def _settings(mechanism: Any) -> Any:
    """A mechanism of a file of version 0.2 without what the integers determine."""
    if isinstance(mechanism, str):
        return mechanism
    data = {key: value for key, value in mechanism.items() if key not in DESIGNED}
    if isinstance(data.get("strategy"), list):
        data["strategy"] = "given"
    if isinstance(data.get("first"), dict):
        data["first"] = data["first"]["name"]
    return data if len(data) > 1 else data["name"]


def _distribution(channel: Any) -> Plain | None:
    """The integers of a channel of version 0.2 as format 1 writes them; None of baselines."""
    data = channel.law()
    kind = data.pop("law")
    if kind == "geometric":
        return {"kind": kind, **data}
    if kind == "table":
        return {"kind": kind, "weights": data["weights"]}
    if kind == "response":
        return {"kind": "randomized-response", **data}
    if kind == "threshold":
        return {"kind": kind, "size": data["size"], "flips": [[data["flip"], data["bits"]]]}
    if kind == "unary":
        return {"kind": kind, "own": _runs(data["own"]), "other": _runs(data["other"])}
    if kind == "matrix":
        rows = zip(data["rows"], channel.noises, strict=True)
        return {"kind": kind, "rows": [_row(row, noise.size) for row, noise in rows]}
    if kind == "memoised":
        first, second = (_distribution(part) for part in (channel.first, channel.second))
        return {"kind": kind, "first": first, "second": second}
    if kind == "lazy":
        noise = {key: value for key, value in data["of"].items() if key != "law"}
        return {"kind": "lazy-geometric", "keep": data["keep"], "end": data["end"], **noise}
    if kind == "shapes":
        return {"kind": "extremal", **{key: data[key] for key in ("depths", "tops", "fall")}}
    if kind == "shaped":
        lengths = [len(data["depths"][0])]
        return {"kind": "additive", "sizes": [data.pop("size")], "lengths": lengths, **data}
    if kind == "cells":
        found = _distribution(channel.one)
        if found is not None and found["kind"] == "additive":
            found |= {"sizes": data["sizes"], "lengths": list(channel.one.lengths)}
        return found
    return None


def _runs(values: Sequence[Any]) -> list[list[Any]]:
    return [[value, len(list(group))] for value, group in groupby(values)]


def _row(row: Plain, size: int) -> Plain:
    runs = [list(pair) for pair in zip(row["runs"][::2], row["runs"][1::2], strict=True)]
    noise = {key: row[key] for key in ("low", "zero", "digits", "block")}
    return {"entries": runs, "size": size, **noise}


def _with_unit(attribute: Plain) -> Plain:
    """State the unit of a numeric attribute that states no distance."""
    stated = {"within", "per", "metric"} & set(attribute)
    if attribute["kind"] not in ("integer", "continuous") or stated:
        return attribute
    return {**attribute, "per": 1}


def _comparison(name: str, attribute: Any, test: Plain) -> str:
    if "is" in test:
        return f"{name} is None"
    if "in" in test:
        return f"{name} in {test['in']!r}"
    low, high = test["between"]
    if test.get("bins") and high < attribute.high:
        return f"{low!r} <= {name} < {high!r}"
    return f"{low!r} <= {name} <= {high!r}"


def _circular_means(tally: Any, attribute: str, where: Any, by: str | None) -> Plain:
    """Return circular means of the histograms of version 0.2, which took the mean along a line."""
    described = tally.survey.attributes[attribute]
    counts = np.reshape(tally.histogram(attribute, where, by=by).values, (-1, described.size))
    in_bins = described.kind == "continuous"
    low, period = described.low, described.high - described.low + (0 if in_bins else 1)
    turns = (np.arange(described.size) + (0.5 if in_bins else 0.0)) / described.size
    totals = counts @ np.exp(2j * np.pi * turns)
    return {
        "value": (low + np.angle(totals) / (2 * np.pi) % 1 * period).tolist(),
        "period": [float(period)] * len(totals),
        "length": (np.abs(totals) / np.abs(counts).sum(axis=1)).tolist(),
    }


def _interval(result: Any, **how: Any) -> Plain:
    """95% intervals, what is possible, and the envelope intervals of rows that have one."""
    low, high = result.confidence_interval(0.95, **how)
    estimates = [one for _, one in result] if hasattr(result, "values") else [result]
    least, most = zip(*(estimate._attainable for estimate in estimates), strict=True)
    columns = {"low": np.ravel(low).tolist(), "high": np.ravel(high).tolist()}
    envelopes = [_envelope(estimate) for estimate in estimates]
    return columns | {"least": list(least), "most": list(most), "envelope": envelopes}


def _envelope(estimate: Any) -> list[float] | None:
    try:
        return list(estimate.confidence_interval(0.95, method="envelope"))
    except QueryError:
        return None


def _bands_between_methods(cdf: Any) -> dict[str, list[list[float]]]:
    """Of each end of the band the lowest and the highest value that a choice of methods gives.

    Version 0.2 chose the method of each point; this version takes the normal intervals.
    """
    each = cdf._each(0.95, True)
    methods = [[list(point.confidence_interval(each))] for point in cdf.points[:-1]]
    for own, point in zip(methods, cdf.points, strict=False):
        with contextlib.suppress(QueryError):
            own.append(list(point.confidence_interval(each, method="envelope")))
    found = {}
    for side, name in enumerate(("low", "high")):
        found[name] = []
        for choose in (min, max):
            ends = [choose(interval[side] for interval in own) for own in methods] + [1.0]
            ends = np.clip(ends, 0.0, 1.0)
            if side == 0:
                band = np.minimum(np.maximum.accumulate(ends), cdf.values)
            else:
                band = np.maximum(np.minimum.accumulate(ends[::-1])[::-1], cdf.values)
            found[name].append(band.tolist())
    return found


def _label(label: Any) -> str:
    """A row's label in the words of version 0.2."""
    if isinstance(label, tuple):
        return " to ".join(_label(end) for end in label)
    return f"{label:g}" if isinstance(label, float) else str(label)


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {old: new for new, old in names.items()}


def _translated(mechanism: Any, names: Mapping[str, str], keys: Mapping[str, str]) -> Any:
    if isinstance(mechanism, str):
        return names.get(mechanism, mechanism)
    data = {keys.get(key, key): value for key, value in mechanism.items()}
    for key in ("name", "first"):
        if key in data:
            data[key] = _translated(data[key], names, keys)
    return data


def _table(channel: Any) -> Plain | None:
    if channel.bits > 12:
        return None
    outputs = channel.every_report()
    return _probabilities(
        channel.size, len(outputs), lambda x, y: channel.probability(x, outputs[y])
    )


def _joint_table(channel: Any) -> Plain | None:
    if channel.bits > 12 or not channel.has_likelihood:
        return None
    columns = channel.every_report()
    reports = [
        dict(zip(columns, row, strict=True))
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]
    cells = list(np.ndindex(*channel.sizes))
    return _probabilities(
        len(cells), len(reports), lambda x, y: channel.probability(cells[x], reports[y])
    )


def _probabilities(size: int, outputs: int, probability: Any) -> Plain:
    """All probabilities of a small distribution; of a large one those at spread positions."""
    positions, reports = list(range(size)), list(range(outputs))
    if size * outputs > MAX_TABLE:
        positions = sorted({0, size // 3, size - 1})
        reports = sorted({0, 1, outputs // 3, outputs // 2, outputs - 1})
    rows = [[_digest(probability(x, y)) for y in reports] for x in positions]
    return {"positions": positions, "outputs": reports, "probabilities": rows}


def _digest(number: Fraction) -> str:
    """An exact fraction as text; one of many digits as its value and the SHA-256 of the text."""
    text = str(Fraction(number))
    if len(text) <= 48:
        return text
    return f"{float(number):.15g} sha256:{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _old_interval(result: Any) -> Plain:
    low, high = result.interval(0.95)
    return {"low": np.ravel(low).tolist(), "high": np.ravel(high).tolist()}


def _estimates(result: Any, interval: Callable[[Any], Plain] = _old_interval) -> Plain:
    """Columns of one estimate, or of a table of them."""
    if not hasattr(result, "values"):
        return {"value": [result.value], "stderr": [result.stderr]} | interval(result)
    columns = {"value": result.values, "stderr": result.stderr}
    found = {name: np.asarray(column, dtype=float).tolist() for name, column in columns.items()}
    return found | interval(result)


def _test(result: Any, pvalue: str = "p_value") -> Plain:
    return {"statistic": [result.statistic], "pvalue": [getattr(result, pvalue)]}
