"""What one person has given away over several collections: metrics that add up (appendix B).

Reports about the same value that were blurred with independent coins keep the sum of their metrics,
pair by pair. A device that keeps a ledger can tell its owner what is spent, and stop in time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from metricldp.attributes import PLAN, Attribute
from metricldp.channels import kept_by
from metricldp.errors import QueryError, SurveyError, ValueRefused
from metricldp.messages import counted, guess, listed, shown
from metricldp.metrics import Metric, Uniform, added
from metricldp.survey import Survey
from metricldp.tables import table

FORMAT = 1
"""The version of ledger files."""


@dataclass(frozen=True)
class Entry:
    """One collection that the person took part in."""

    survey: Survey
    note: str = ""

    @property
    def share(self) -> Fraction:
        """What an Lp metric over several attributes leaves to each."""
        return self.survey.metric.share(len(self.survey.channels))

    def metric(self, name: str) -> Metric:
        """What the channel of one attribute keeps, which may be less than the metric allows."""
        metric = self.survey.attributes[name].distances.scaled(self.share)
        return kept_by(self.survey.channels[name], metric)

    def distance(self, name: str, x: object, other: object) -> Fraction:
        """The same for two values in the data's words, which may lie between positions."""
        attribute, kept = self.survey.attributes[name], self.metric(name)
        if not attribute.rounds:
            return attribute.distance(x, other, kept)
        apart = self.share * attribute.distance(x, other)
        return min(apart, kept.smallest(attribute.size)) if isinstance(kept, Uniform) else apart


@dataclass(frozen=True)
class Spent:
    """Two values, in the data's words, and how far all reports together may tell them apart."""

    attribute: str
    x: str
    other: str
    epsilon: Fraction

    def __str__(self) -> str:
        return f"{self.attribute} {self.x} | {self.other}: epsilon {_number(self.epsilon)}"


class Ledger:
    """The collections of one person, in order, and what they add up to.

    >>> from metricldp import Integer, Ledger, Survey
    >>> ledger = Ledger()
    >>> ledger.add(Survey({"age": Integer(0, 99, epsilon=1, per=5)}), note="spring")
    >>> ledger.add(Survey({"age": Integer(0, 99, epsilon=1, per=10)}), note="autumn")
    >>> float(ledger.spent("age", 30, 40))
    3.0
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, survey: Survey, note: str = "") -> None:
        """Enter a report to this survey; refused where an attribute has another domain by now."""
        if not isinstance(survey, Survey):
            raise SurveyError(f"a ledger adds up surveys, not {shown(survey)}")
        if not isinstance(note, str) or not (note.isprintable() or note == ""):
            raise SurveyError(f"a note is a line of text, not {shown(note)}")
        for name, attribute in survey.attributes.items():
            before = next(self._with(name), None)
            if before is not None:
                _check_same(name, before.survey.attributes[name], attribute)
        self.entries.append(Entry(survey, note))

    @property
    def attributes(self) -> dict[str, Attribute]:
        """Every blurred attribute that was reported, as it was first seen."""
        found: dict[str, Attribute] = {}
        for entry in self.entries:
            for name in entry.survey.channels:
                found.setdefault(name, entry.survey.attributes[name])
        return found

    @property
    def clear(self) -> tuple[str, ...]:
        """Public weights: sent as they are, nothing protects them."""
        names = (n for e in self.entries for n, a in e.survey.attributes.items() if a.clear)
        return tuple(dict.fromkeys(names))

    def spent(self, attribute: str, x: object, other: object) -> Fraction:
        """The epsilon at which all reports together may tell two values apart."""
        self._described(attribute)
        try:
            parts = [entry.distance(attribute, x, other) for entry in self._with(attribute)]
        except ValueRefused as wrong:
            raise QueryError(f"{attribute} {wrong.why}") from None
        return sum(parts, Fraction(0))

    def total(self, attribute: str) -> Metric:
        """The sum of the metrics of all collections, on positions."""
        described = self._described(attribute)
        return added([entry.metric(attribute) for entry in self._with(attribute)], described.size)

    def worst(self, attribute: str) -> Spent:
        """The two values that are told apart best."""
        described, total = self._described(attribute), self.total(attribute)
        x, other = total.farthest(described.size)
        names = described.label(x), described.label(other)
        return Spent(attribute, *names, total.distance(x, other))

    @property
    def together(self) -> Fraction:
        """The epsilon of two people who differ as much as possible in everything reported."""
        return sum((self.worst(name).epsilon for name in self.attributes), Fraction(0))

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __str__(self) -> str:
        if not self.entries:
            return "nothing spent"
        rows = [("attribute", "collection", "nearest pair", "farthest pair")]
        for name, described in self.attributes.items():
            size = described.size
            entries = list(self._with(name))
            for place, entry in enumerate(entries):
                told = entry.note or f"survey {entry.survey.fingerprint[:8]}"
                rows.append((name if not place else "", told, *_ends(entry.metric(name), size)))
            if len(entries) > 1:
                rows.append(("", "together", *_ends(self.total(name), size)))
        lines = [table(rows, left=2)]
        lines += [f"{name} was sent in the clear: nothing protects it" for name in self.clear]
        lines.append(
            f"{counted(len(self), 'collection')}; two people who differ as much as possible in "
            f"everything are at epsilon {_number(self.together)}"
        )
        return "\n".join(lines)

    # The ledger as a file ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the surveys whole, so that nothing has to be looked up."""
        entries = [{"note": e.note, "survey": e.survey.to_dict()} for e in self.entries]
        return {"metricldp-ledger": FORMAT, "entries": entries}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ledger:
        """A ledger from plain data, refusing what it does not know."""
        version = data.get("metricldp-ledger") if isinstance(data, Mapping) else None
        if type(version) is not int or version != FORMAT:
            raise SurveyError(f"a ledger says metricldp-ledger = {FORMAT}, not {shown(version)}")
        entries = data.get("entries")
        if set(data) != {"metricldp-ledger", "entries"} or not isinstance(entries, list):
            raise SurveyError("a ledger holds metricldp-ledger and a list of entries, nothing else")
        ledger = cls()
        for place, entry in enumerate(entries):
            if not isinstance(entry, Mapping) or set(entry) != {"note", "survey"}:
                raise SurveyError(f"entry {place + 1} of the ledger needs a note and a survey")
            if not isinstance(entry["survey"], Mapping):
                raise SurveyError(f"entry {place + 1} of the ledger has no survey to read")
            ledger.add(Survey.from_dict(entry["survey"]), entry["note"])
        return ledger

    def save(self, path: str | Path) -> None:
        """Write a JSON file."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        try:
            Path(path).write_text(text, "utf-8")
        except OSError as wrong:
            raise SurveyError(f"cannot write the ledger {path}: {wrong.strerror}") from None

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a JSON file."""
        try:
            data = json.loads(Path(path).read_text("utf-8"))
        except OSError as wrong:
            raise SurveyError(f"cannot read the ledger {path}: {wrong.strerror}") from None
        except (ValueError, RecursionError):
            raise SurveyError(f"cannot read the ledger {path}: not a JSON file") from None
        try:
            return cls.from_dict(data)
        except SurveyError as wrong:
            raise SurveyError(f"{path}: {wrong}") from None

    def _with(self, name: str) -> Iterator[Entry]:
        return (entry for entry in self.entries if name in entry.survey.attributes)

    def _described(self, name: str) -> Attribute:
        known = self.attributes
        if name in known:
            return known[name]
        if name in self.clear:
            raise QueryError(f"{name} was sent in the clear: nothing protects it")
        raise QueryError(
            f"the ledger has no attribute {shown(name)}; it has {listed(known)}{guess(name, known)}"
        )


def _check_same(name: str, before: Attribute, now: Attribute) -> None:
    """Only metrics on the same values can be added up."""
    first, second = _domain(before), _domain(now)
    if first == second:
        return
    key = next(key for key in {**first, **second} if first.get(key) != second.get(key))
    raise SurveyError(
        f"{name} cannot be added up: its {key} was {shown(first.get(key))} and now is "
        f"{shown(second.get(key))}; keep a ledger of its own for another domain"
    )


def _domain(attribute: Attribute) -> dict[str, Any]:
    """What an attribute is about, without how it is protected."""
    protection = ("epsilon", "per", "mechanism", "metric", "bits", *PLAN)
    return {key: value for key, value in attribute.to_dict().items() if key not in protection}


def _ends(metric: Metric, size: int) -> tuple[str, str]:
    return _number(metric.smallest(size)), _number(metric.diameter(size))


def _number(epsilon: Fraction) -> str:
    return f"{float(epsilon):.6g}"
