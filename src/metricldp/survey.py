"""The survey: the public agreement between the people and the collector.

It is pure data with a fingerprint, and the front door of the package: its methods `encode`,
`tally`, `error`, `certify` and `explain` open the room of that name when they are called.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from metricldp import channels
from metricldp.attributes import Attribute, from_dict
from metricldp.channels import Channel
from metricldp.coins import Coins
from metricldp.errors import CertificateError, SurveyError, ValueRefused

if TYPE_CHECKING:
    from metricldp.certify import Certificate
    from metricldp.error import Prior
    from metricldp.explain import Explanation
    from metricldp.queries import Where
    from metricldp.tally import Tally

FORMAT = 1
"""The version of survey files, fingerprints and reports."""


class Survey:
    """Several attributes of different kinds, each with its metric and its channel.

    >>> from metricldp import Survey, Integer, Categorical
    >>> survey = Survey({
    ...     "age": Integer(0, 99, epsilon=1, per=5),
    ...     "region": Categorical(["north", "south"], epsilon=2),
    ... })
    >>> survey.attributes["age"].mechanism
    'geometric'
    """

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        if not attributes:
            raise SurveyError("a survey needs at least one attribute")
        chosen: dict[str, Attribute] = {}
        built: dict[str, Channel] = {}
        for name, attribute in attributes.items():
            _check_name(name)
            if not isinstance(attribute, Attribute):
                raise SurveyError(
                    f"attribute {name} must be an Integer, Continuous, Ordinal or Categorical, "
                    f"not {attribute!r}"
                )
            try:
                chosen[name] = _settle(attribute)
                built[name] = channels.build(
                    chosen[name].mechanism, attribute.size, attribute.metric
                )
            except CertificateError as wrong:
                raise SurveyError(f"attribute {name}: {wrong}") from None
        self.attributes: Mapping[str, Attribute] = chosen
        self.channels: Mapping[str, Channel] = built

    # The agreement as a file ---------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the mechanism that "auto" took is written out."""
        return {
            "metricldp": FORMAT,
            "attributes": {name: a.to_dict() for name, a in self.attributes.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Survey:
        """A survey from plain data, refusing what it does not know."""
        for key in data:
            if key not in ("metricldp", "attributes"):
                raise SurveyError(f"a survey has no entry {key!r}; it has metricldp and attributes")
        if data.get("metricldp") != FORMAT:
            raise SurveyError(
                f"a survey file says metricldp = {FORMAT}, not {data.get('metricldp')!r}"
            )
        attributes = data.get("attributes")
        if not isinstance(attributes, Mapping) or not attributes:
            raise SurveyError("a survey file needs a table [attributes.NAME] for each attribute")
        for name, entry in attributes.items():
            if not isinstance(entry, Mapping):
                raise SurveyError(f"attribute {name} must be a table, not {entry!r}")
        return cls({name: from_dict(dict(entry), name) for name, entry in attributes.items()})

    def to_toml(self) -> str:
        """The survey as a TOML file, the form for people."""
        lines = [f"metricldp = {FORMAT}"]
        for name, attribute in self.attributes.items():
            lines += ["", f"[attributes.{_toml_key(name)}]"]
            lines += [f"{key} = {_toml(value)}" for key, value in attribute.to_dict().items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> Survey:
        """A survey from the text of a TOML file."""
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as wrong:
            raise SurveyError(f"not a TOML file: {wrong}") from None

    def to_json(self) -> str:
        """The survey as JSON, the form for programs."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """A survey from the text of a JSON file."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as wrong:
            raise SurveyError(f"not a JSON file: {wrong}") from None
        if not isinstance(data, dict):
            raise SurveyError(f"a survey file holds an object, not a {type(data).__name__}")
        return cls.from_dict(data)

    def save(self, path: str | Path) -> None:
        """Write a .toml or .json file."""
        path = Path(path)
        path.write_text(self.to_json() if path.suffix == ".json" else self.to_toml(), "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Survey:
        """Read a .toml or .json file."""
        path = Path(path)
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else "not a text file"
            raise SurveyError(f"cannot read the survey {path}: {why}") from None
        try:
            return cls.from_json(text) if path.suffix == ".json" else cls.from_toml(text)
        except SurveyError as wrong:
            raise SurveyError(f"{path}: {wrong}") from None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical form: equal exactly for equal agreements."""
        listed = [[name, a.to_dict()] for name, a in self.attributes.items()]
        canonical = json.dumps([FORMAT, listed], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Survey) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {a!r}" for name, a in self.attributes.items())
        return f"Survey({{{inside}}})"

    @property
    def report_bits(self) -> int:
        """The blurred content of one report, without its header."""
        return sum(channel.bits for channel in self.channels.values())

    # The doors -----------------------------------------------------------------------------------

    def encode(self, people: Any, *, coins: Coins | None = None, clip: bool = False) -> pa.Table:  # noqa: ANN401
        """Blur people's values: pandas, polars, Arrow or a dict of arrays in, reports out.

        A value outside its domain is refused and nothing is encoded; `clip=True` moves it to the
        nearest end instead. Coins come from the operating system unless a test passes others.
        """
        from metricldp import reports  # noqa: PLC0415 - a door

        return reports.encode(self, people, coins=coins, clip=clip)

    def report(self, person: Mapping[str, Any], *, coins: Coins | None = None) -> bytes:
        """Blur one person's values on her device: the bytes to send."""
        from metricldp import reports  # noqa: PLC0415 - a door

        if not isinstance(person, Mapping):
            raise ValueRefused(f"a person is a dict of values by attribute, not {person!r}")
        columns = {name: [value] for name, value in person.items()}
        return reports.pack(self, self.encode(columns, coins=coins))[0]

    def tally(
        self,
        collected: pa.Table | str | Path | Sequence[bytes],
        *,
        refused: Counter[str] | None = None,
    ) -> Tally:
        """What the collector keeps: from a table, a Parquet file or the bytes of reports.

        A report that no device could have sent is refused with an exception. Bytes from many
        devices may be counted instead: with a Counter as `refused`, bad ones are left out and
        counted there by reason.
        """
        from metricldp.tally import Tally  # noqa: PLC0415 - a door

        return Tally.of(self, collected, refused=refused)

    def error(self, where: Where | None = None, n: int = 1, prior: Prior = "worst") -> float:
        """The standard error that the theory predicts for a count over n people, in people.

        `prior` says how people are spread: "worst" (the worst for this question), "uniform", one
        array of shares for the attribute in question, a dict of arrays for several independent
        ones, or their joint array.
        """
        from metricldp import error, queries  # noqa: PLC0415 - doors

        return error.predicted(self, queries.parse(self, where or {}), n, prior)

    def certify(self) -> Certificate:
        """The exact privacy loss of the integers that are shipped, pair by pair."""
        from metricldp.certify import certify  # noqa: PLC0415 - a door

        return certify(self)

    def explain(self, n: int = 10_000) -> Explanation:
        """What is promised, in words, and what accuracy to expect from n people."""
        from metricldp.explain import explain  # noqa: PLC0415 - a door

        return explain(self, n)


def _settle(attribute: Attribute) -> Attribute:
    if attribute.mechanism != "auto":
        return attribute
    return replace(attribute, mechanism=channels.choose(attribute.size, attribute.metric))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or "=" in name:
        raise SurveyError(f"an attribute's name must be a non-empty text without '=', not {name!r}")


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
    return name if bare else _toml(name)


def _toml(value: str | float | list[str]) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
