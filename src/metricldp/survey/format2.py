"""Survey files of format 2, which keeps the names of version 0.2 until format 1 replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metricldp.basics.errors import InvalidSpecError

_KEYS = {"max_epsilon": "cap"}
_MECHANISMS = {
    "additive": "shaped",
    "extremal": "designed",
    "randomized-response": "response",
    "tight-constraints": "tents",
}
_METRICS = {"distance-matrix": "table"}
_NESTED = "memoised"
"""The mechanism with another one inside, as `first`."""


def written(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a survey with the names that files of format 2 have."""
    return _Names(_KEYS, _MECHANISMS, _METRICS).survey(data)


def read(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a file of format 2 with today's names."""
    return _Names(_inverse(_KEYS), _inverse(_MECHANISMS), _inverse(_METRICS)).survey(data)


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {old: new for new, old in names.items()}


@dataclass(frozen=True)
class _Names:
    """Names to replace, and by which."""

    keys: Mapping[str, str]
    mechanisms: Mapping[str, str]
    metrics: Mapping[str, str]

    def survey(self, data: Mapping[str, Any]) -> dict[str, Any]:
        replaced = dict(data)
        attributes, groups = data.get("attributes"), data.get("joint")
        if isinstance(attributes, Mapping):
            replaced["attributes"] = {name: self._entry(own) for name, own in attributes.items()}
        elif isinstance(attributes, list):
            replaced["attributes"] = [self._entry(entry) for entry in attributes]
        if isinstance(groups, list):
            replaced["joint"] = [self._entry(entry) for entry in groups]
        return replaced

    def _entry(self, entry: Any) -> Any:
        """The table of an attribute or of a group."""
        if not isinstance(entry, Mapping):
            return entry
        replaced = self._renamed(entry)
        if "mechanism" in replaced:
            replaced["mechanism"] = self._mechanism(replaced["mechanism"])
        metric = replaced.get("metric")
        if isinstance(metric, Mapping) and isinstance(metric.get("kind"), str):
            replaced["metric"] = {
                **metric,
                "kind": self.metrics.get(metric["kind"], metric["kind"]),
            }
        return replaced

    def _mechanism(self, mechanism: Any) -> Any:
        """A name, or a table with a name; the data of other packages' mechanisms stay."""
        if isinstance(mechanism, str):
            return self.mechanisms.get(mechanism, mechanism)
        if not isinstance(mechanism, Mapping):
            return mechanism
        name = mechanism.get("name")
        replaced = dict(mechanism)
        if isinstance(name, str) and name in self.mechanisms:
            replaced = {**self._renamed(mechanism), "name": self.mechanisms[name]}
        if name == _NESTED and "first" in mechanism:
            replaced["first"] = self._mechanism(mechanism["first"])
        return replaced

    def _renamed(self, table: Mapping[str, Any]) -> dict[str, Any]:
        for old, new in self.keys.items():
            if new in table:
                raise InvalidSpecError(f"survey files of format 2 have {old}, not {new}")
        return {self.keys.get(key, key): value for key, value in table.items()}
