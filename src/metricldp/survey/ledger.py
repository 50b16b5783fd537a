"""The privacy accountant: the metrics of several collections add up (appendix B of the paper).

Reports about the same value with independent randomness guarantee the sum of their metrics, pair by
pair. A device can show its owner the total and stop at a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from metricldp.attributes.answered import label, response_of
from metricldp.attributes.base import Attribute
from metricldp.basics.checks import is_line
from metricldp.basics.errors import InvalidSpecError, InvalidValueError, QueryError
from metricldp.basics.text import counted, guess, listed, shown, table
from metricldp.mechanisms.memoised_channel import MemoisedChannel
from metricldp.metrics import Metric, added
from metricldp.survey import files
from metricldp.survey.agreement import Agreement

FORMAT = 1
"""The version of ledger files."""


@dataclass(frozen=True)
class Entry:
    """One collection that the respondent took part in."""

    survey: Agreement
    note: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of attributes in the accountant, where they differ from those of the survey."""
    remembered: Mapping[str, int] = field(default_factory=dict)
    """Of reports from a memory: for attributes of the survey, how many values it holds so far."""

    @cached_property
    def called(self) -> dict[str, str]:
        """The name in the accountant of every attribute, to its name in the survey."""
        return {_called(name, self.names, self.survey): name for name in self.survey.attributes}

    def attribute(self, called: str) -> Attribute:
        return self.survey.attributes[self.called[called]]

    def metric(self, called: str) -> Metric:
        return kept(self.survey, self.called[called])

    def distance(self, called: str, x: object, other: object) -> Fraction:
        """The same for two values in the data's words, which may lie between positions."""
        attribute, metric = self.attribute(called), self.metric(called)
        if not attribute.rounded_at_random:
            return attribute.distance(x, other, metric)
        apart = self.survey.share * attribute.distance(x, other)
        return min(apart, metric.smallest(attribute.size)) if metric.is_uniform else apart

    def from_none(self, called: str) -> Fraction:
        """How far answers are at most from the middle, with which those count who left it out."""
        attribute, metric = self.attribute(called), self.metric(called)
        if attribute.rounded_at_random:  # both ends are as far
            return self.distance(called, attribute.middle, attribute.values_at(0)[0])
        middle = attribute.position(attribute.middle)
        return metric.distance(middle, metric.farthest_from(middle, attribute.size))


def kept(survey: Agreement, name: str) -> Metric:
    """What the channel of an attribute keeps: its share of the metric, or less where known."""
    return survey.proved_metric(name)


@dataclass(frozen=True)
class Spent:
    """Two values and the epsilon that all reports together guarantee for them."""

    attribute: str
    x: str
    other: str
    epsilon: Fraction

    def __str__(self) -> str:
        return f"{label(self.attribute)} {self.x} | {self.other}: epsilon {_number(self.epsilon)}"


class Accountant:
    """The collections of one respondent, in order, and their total privacy loss.

    >>> from metricldp import Integer, Accountant, Survey
    >>> accountant = Accountant()
    >>> accountant.add(Survey.design({"age": Integer(0, 99, epsilon=1, per=5)}), note="spring")
    >>> accountant.add(Survey.design({"age": Integer(0, 99, epsilon=1, per=10)}), note="autumn")
    >>> float(accountant.spent("age", 30, 40))
    3.0
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(
        self,
        survey: Agreement,
        note: str = "",
        *,
        names: Mapping[str, str] | None = None,
        memory: Mapping[str, int] | None = None,
    ) -> None:
        """Add a report to this survey; an attribute with another domain raises an error.

        `names` renames attributes in the accountant. An attribute with another domain needs another
        name: it is not compared pair by pair then, but counts in full in the total.

        `memory` is the one that the report was made with. For a memoised attribute, all reports to
        one survey count once for every value in the memory. Without a memory every report counts.
        The accountant stores the number of values, not the values.
        """
        if not isinstance(survey, Agreement):
            raise InvalidSpecError(f"an accountant adds surveys, not {type(survey).__name__}")
        _check_note(note)
        held = {} if memory is None else values_in(memory, survey)
        self._enter(Entry(survey, note, _checked_names(names, survey), held))

    def _enter(self, entry: Entry) -> None:
        for name in entry.called:
            before = next(self._with(name), None)
            if before is not None:
                _check_same(name, before.attribute(name), entry.attribute(name))
        self.entries.append(entry)

    @property
    def attributes(self) -> dict[str, Attribute]:
        """Every randomized attribute that was reported, as it was first added."""
        found: dict[str, Attribute] = {}
        for entry in self.entries:
            for called, name in entry.called.items():
                if not entry.survey.attributes[name].is_public:
                    found.setdefault(called, entry.survey.attributes[name])
        return found

    @property
    def public(self) -> tuple[str, ...]:
        """Public weights: sent as they are, without protection."""
        names = (n for e in self.entries for n in e.called if e.attribute(n).is_public)
        return tuple(dict.fromkeys(names))

    def spent(self, attribute: str, x: object, other: object) -> Fraction:
        """The epsilon that all reports together guarantee for two values."""
        if self._described(attribute).asks_whether:
            for word in (x, other):
                if word not in ("no", "yes"):
                    raise QueryError(f"{attribute} is 'no' or 'yes', not {shown(word)}")
            x, other = (None if word == "no" else word for word in (x, other))
        try:
            parts = [k * e.distance(attribute, x, other) for e, k in self._times(attribute)]
            whether = response_of(attribute)
            parts += [entry.distance(whether, x, other) for entry in self._with(whether)]
        except InvalidValueError as wrong:
            raise QueryError(f"{attribute} {wrong.why}") from None
        return sum(parts, Fraction(0))

    def total(self, attribute: str) -> Metric:
        """The sum of the metrics of all collections, on positions."""
        described = self._described(attribute)
        metrics = [e.metric(attribute).scaled(Fraction(k)) for e, k in self._times(attribute) if k]
        return added(metrics, described.size)

    def worst(self, attribute: str) -> Spent:
        """The two values with the largest epsilon."""
        described, total = self._described(attribute), self.total(attribute)
        x, other = total.farthest(described.size)
        names = described.label(x), described.label(other)
        return Spent(attribute, *names, total.distance(x, other))

    @property
    def together(self) -> Fraction:
        """The epsilon of two respondents who differ as much as possible in everything reported.

        The attributes of a group count together, with the guarantee of that report.
        """
        blocks = (block for entry in self.entries for block in entry.survey.blocks.values())
        found = sum((block.diameter for block in blocks), Fraction(0))
        for name, described in self.attributes.items():
            entries = [(e, k) for e, k in self._times(name) if e.called[name] in e.survey.channels]
            if not described.asks_whether:
                found += self._farthest(name, entries)
        return found

    def _farthest(self, name: str, entries: list[tuple[Entry, int]]) -> Fraction:
        """The largest epsilon of one attribute, for respondents who left it out or not.

        A respondent who left it out in one collection and not in another counts with two values,
        so distances are added pair by pair only for required attributes. Every report reveals
        anew whether there is a response, also one without a new value.
        """
        size, whether = self.attributes[name].size, response_of(name)
        always = [
            e.metric(name).scaled(Fraction(k)) for e, k in entries if k and whether not in e.called
        ]
        found = added(always, size).diameter(size) if always else Fraction(0)
        for entry, times in entries:
            if whether in entry.called:
                left_out = entry.metric(whether).diameter(2) + times * entry.from_none(name)
                found += max(times * entry.metric(name).diameter(size), left_out)
        return found

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Accountant) and self.entries == other.entries

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"<Accountant of {counted(len(self), 'collection')} about {listed(self.attributes)}>"

    def __str__(self) -> str:
        if not self.entries:
            return "nothing spent"
        rows = [("attribute", "collection", "nearest pair", "farthest pair")]
        for name, described in self.attributes.items():
            parts = [(_note(e, name, k), e.metric(name), k) for e, k in self._times(name)]
            together = [("together", self.total(name), 1)] if len(parts) > 1 else []
            for place, (note, metric, times) in enumerate([*parts, *together]):
                ends = metric.smallest(described.size), metric.diameter(described.size)
                near, far = (_number(times * end) for end in ends)
                rows.append(("" if place else label(name), note, near, far))
        lines = [table(rows, left=2)]
        lines += [f"{name} was sent without protection" for name in self.public]
        if any(entry.survey.blocks for entry in self.entries):
            lines.append("attributes of a joint mechanism count together in the total")
        lines.append(
            f"{counted(len(self), 'collection')}; epsilon {_number(self.together)} for two "
            "respondents who differ as much as possible in all attributes"
        )
        return "\n".join(lines)

    # The ledger as a file ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the surveys in full."""
        entries = [
            {"note": e.note, "survey": e.survey.to_dict()}
            | ({"names": dict(e.names)} if e.names else {})
            | ({"remembered": dict(e.remembered)} if e.remembered else {})
            for e in self.entries
        ]
        return {"metricldp-ledger": FORMAT, "entries": entries}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Accountant:
        if not isinstance(data, Mapping):
            raise InvalidSpecError(f"an accountant file is an object, not {type(data).__name__}")
        version = data.get("metricldp-ledger")
        if type(version) is not int or version != FORMAT:
            raise InvalidSpecError(
                f"metricldp-ledger of an accountant file is {FORMAT}, not {shown(version)}"
            )
        entries = data.get("entries")
        if set(data) != {"metricldp-ledger", "entries"} or not isinstance(entries, list):
            raise InvalidSpecError(
                "an accountant file has the keys metricldp-ledger and entries, and no other"
            )
        ledger = cls()
        for place, entry in enumerate(entries):
            extra = {"names", "remembered"}
            if not isinstance(entry, Mapping) or set(entry) - extra != {"note", "survey"}:
                raise InvalidSpecError(
                    f"entry {place + 1} of the accountant needs a note and a survey, and may have "
                    "names and remembered"
                )
            if not isinstance(entry["survey"], Mapping):
                raise InvalidSpecError(f"entry {place + 1} of the accountant has no survey")
            survey = Agreement.from_dict(entry["survey"])
            held = _checked_counts(entry.get("remembered", {}), survey, place)
            _check_note(entry["note"])
            ledger._enter(
                Entry(survey, entry["note"], _checked_names(entry.get("names"), survey), held)
            )
        return ledger

    def save(self, path: str | Path) -> None:
        """Write a .json file."""
        files.write(self.to_dict(), path, "accountant", json_only=True)

    @classmethod
    def load(cls, path: str | Path) -> Accountant:
        """Read a JSON file."""
        data = files.read(path, "accountant", json_only=True)
        try:
            return cls.from_dict(data)
        except InvalidSpecError as wrong:
            raise InvalidSpecError(f"{path}: {wrong}") from None

    def _times(self, name: str) -> Iterator[tuple[Entry, int]]:
        """The entries with an attribute, and how often each counts.

        Once; from a memory, as often as it holds values that it did not hold before.
        """
        most: dict[tuple[str, str], int] = {}
        for entry in self._with(name):
            held = entry.remembered.get(entry.called[name])
            if held is None:
                yield entry, 1
                continue
            key = entry.survey.fingerprint, entry.called[name]
            before = most.get(key, 0)
            yield entry, max(0, held - before)
            most[key] = max(held, before)

    def _with(self, name: str) -> Iterator[Entry]:
        return (entry for entry in self.entries if name in entry.called)

    def _described(self, name: str) -> Attribute:
        known = self.attributes
        if isinstance(name, str) and name in known:
            return known[name]
        if isinstance(name, str) and name in self.public:
            raise QueryError(f"{name} was sent without protection")
        raise QueryError(
            f"the accountant has no attribute {shown(name)}; it has "
            f"{listed(known)}{guess(name, known)}"
        )


def values_in(memory: Mapping[str, int], survey: Agreement) -> dict[str, int]:
    """The number of values in a memory, for each memoised attribute of a survey."""
    if not isinstance(memory, Mapping):
        raise InvalidSpecError(
            f"a memory is the dict that report(memory=) uses, not {type(memory).__name__}"
        )
    found = {
        name: 0 for name, channel in survey.channels.items() if isinstance(channel, MemoisedChannel)
    }
    for key in (key for key in memory if isinstance(key, str)):
        fingerprint, _, rest = key.partition(" ")
        name = rest.partition(" ")[2]
        if fingerprint == survey.fingerprint and name in found:
            found[name] += 1
    empty = next((name for name, count in found.items() if not count), None)
    if empty is not None:
        raise InvalidSpecError(
            f"the memory has no value of {empty!r} for this survey; add a report after it was "
            "made, with its own memory"
        )
    return found


def _checked_counts(counts: object, survey: Agreement, place: int) -> dict[str, int]:
    if not isinstance(counts, Mapping):
        raise InvalidSpecError(
            f"entry {place + 1} of the accountant: remembered is an object of counts"
        )
    for name, count in counts.items():
        channel = survey.channels.get(name)
        if not isinstance(channel, MemoisedChannel):
            raise InvalidSpecError(
                f"entry {place + 1} of the accountant: {shown(name)} is not a memoised attribute "
                "of its survey"
            )
        if type(count) is not int or count < 1:
            raise InvalidSpecError(
                f"entry {place + 1} of the accountant: {name!r} has {shown(count)} values "
                "remembered; write a whole number of at least 1"
            )
    return dict(counts)


def _check_note(note: object) -> None:
    # No message shows the note: it may be a memory that was passed in its place.
    if not isinstance(note, str):
        raise InvalidSpecError(f"a note is a line of text, not {type(note).__name__}")
    if not note.isprintable():
        raise InvalidSpecError("a note is a line of text, without line breaks")


def _note(entry: Entry, name: str, times: int) -> str:
    said = entry.note or f"survey {entry.survey.fingerprint[:8]}"
    if entry.called[name] not in entry.remembered:
        return said
    return f"{said} ({counted(times, 'new value')} remembered)"


def _check_same(name: str, before: Attribute, now: Attribute) -> None:
    """Only metrics on the same values can be added up."""
    first, second = before.domain, now.domain
    if first == second:
        return
    key = next(key for key in {**first, **second} if first.get(key) != second.get(key))
    raise InvalidSpecError(
        f"{name} cannot be added up pair by pair: its {key} was {shown(first.get(key))} and now is "
        f"{shown(second.get(key))}; add it to the same accountant under another name, "
        f"names={{{name!r}: ...}}, so that both count in full"
    )


def _wrong(name: object) -> str:
    """Why a name is not a line of text, without the name."""
    if not isinstance(name, str):
        return f"not {type(name).__name__}"
    return "without line breaks" if name.strip() else "not empty"


def _checked_names(names: object, survey: Agreement) -> dict[str, str]:
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        kind = type(names).__name__
        raise InvalidSpecError(f"names map attributes to names in the accountant, not {kind}")
    for called in names.values():  # first, for a memory maps to numbers and its keys are private
        if not is_line(called):
            raise InvalidSpecError(f"a name in the accountant is a line of text, {_wrong(called)}")
    for name in names:
        if name not in survey.asked:
            raise InvalidSpecError(
                f"the survey has no attribute {shown(name)} to be called another name; "
                f"it has {listed(survey.asked)}{guess(name, survey.asked)}"
            )
    all_names = [_called(name, names, survey) for name in survey.attributes]
    twice = next((called for called in all_names if all_names.count(called) > 1), None)
    if twice is not None:
        raise InvalidSpecError(
            f"two attributes of one survey are called {twice!r}; give each its own"
        )
    return dict(names)


def _called(name: str, names: Mapping[str, str], survey: Agreement) -> str:
    """The name of an attribute in the accountant; that of its presence follows it."""
    source = survey.attributes[name].source(name)
    called = names.get(source, source)
    return called if source == name else response_of(called)


def _number(epsilon: Fraction) -> str:
    return f"{float(epsilon):.6g}"
