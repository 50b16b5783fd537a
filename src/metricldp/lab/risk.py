"""What an attacker learns from a survey's reports: the chances of guessing a person's value.

Before any report, after one, and after several of the same person; with a stated prior, for every
mechanism alike. See `guessing.py` for what is computed, and what of it is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.answers.predict import shares_of
from metricldp.answers.queries import expected
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.text import counted, filled, plain, shown, table
from metricldp.channels import Floats
from metricldp.coins.draws import FRACTION_BITS
from metricldp.lab.crowd import seeded
from metricldp.lab.guessing import DRAWS, Alone, Attack, Boxes, Guesses, Seen, Stretches, Together
from metricldp.reports.files import read_positions
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block
from metricldp.survey.strength import up

EVENLY = "spread evenly"
MOST_REPORTS = 1000
MOST_POSITIONS = 1 << 12
"""Attributes with more positions are left out."""
MOST_IN_SHORT = 1 << 8
"""Up to so many positions it takes a moment."""
_SERIES = (1, 2, 5)
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Chance:
    """How often the best guess of an attribute is right after so many reports of one person."""

    attribute: str
    within: float | None
    """How far a guess may be off, in the data's units; None if not at all."""
    reports: int
    chance: float | None
    """Of everybody; None where it is not known."""
    error: float
    """Its standard error; 0 where it is exact."""
    limit: float
    """What the metric alone allows: no reports of any mechanism make anybody surer."""
    easiest: str | None = None
    """Who is easiest to guess after one report."""
    of_easiest: float | None = None
    """How often the guess is right about them."""
    error_of_easiest: float = 0.0


@dataclass(frozen=True)
class Risk:
    """The chances of an attacker, attribute by attribute."""

    fingerprint: str
    prior: str
    """How people are spread, in words."""
    about: Mapping[str, str]
    """What each attribute is, and what blurs it."""
    words: Mapping[str, str]
    """What a guess is about, where it may not be off at all."""
    chances: tuple[Chance, ...]
    left_out: tuple[str, ...] = ()
    """Attributes that nothing is said about, and why."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "survey": self.fingerprint,
            "prior": self.prior,
            "chances": [asdict(chance) for chance in self.chances],
            "left_out": list(self.left_out),
        }

    def __str__(self) -> str:
        head = (
            f"Survey {self.fingerprint[:16]}: how often somebody guesses a person's value who "
            f"knows that people are {self.prior}, and sees the person's reports."
        )
        blocks = [filled(head)]
        for name, found in groupby(self.chances, lambda chance: chance.attribute):
            blocks.append(f"{name}: {self.about[name]}\n{self._table(list(found))}")
        blocks += ["\n".join(self.left_out)] if self.left_out else []
        return "\n\n".join([*blocks, filled(self._last)])

    def _table(self, chances: Sequence[Chance]) -> str:
        counts = dict.fromkeys(chance.reports for chance in chances)
        rows = [("guess", "right", *(_after(count) for count in counts))]
        for within, same in groupby(chances, lambda chance: chance.within):
            found = list(same)
            name = self.words[found[0].attribute] if within is None else f"within {plain(within)}"
            rows.append((name, "of all", *(_shown(c.chance, c.error) for c in found)))
            if (easiest := found[-1].easiest) is not None:
                own = [_shown(c.of_easiest, c.error_of_easiest) for c in found]
                rows.append(("", f"of {easiest}, the easiest", *own))
            rows.append(("", "limit", *(_limit(c.limit) for c in found)))
        return table(rows, left=2)

    @property
    def _last(self) -> str:
        sampled = any(chance.error for chance in self.chances)
        drawn = f", except those with ±, which are averages over {DRAWS:,} simulated people"
        return (
            f"Chances are exact{drawn if sampled else ''}. Several reports are of one value, with "
            "new coins each. The limit is how sure anybody can be after any such reports, whatever "
            "mechanism keeps the metric; those whom everybody expects are guessed more often. Each "
            "attribute is looked at by itself: who knows how attributes go together, or more about "
            "a person, guesses better."
        )


def _after(reports: int) -> str:
    return counted(reports, "report") if reports else "before"


def _shown(chance: float | None, error: float) -> str:
    if chance is None:
        return ""
    percent = 100 * chance
    if error:
        digits = min(2, max(0, 1 - math.floor(math.log10(100 * error))))
        return f"{percent:.{digits}f} ± {100 * error:.{digits}f}%"
    return ">99.9%" if 99.95 <= percent < 100 else f"{percent:.3g}%"


def _limit(limit: float) -> str:
    return f"{min(up(100 * limit * (1 - _ROUNDING), 3), 100.0):.3g}%"


def risk(
    survey: Agreement,
    attribute: Any = None,
    *,
    prior: Any = "uniform",
    within: Any = None,
    reports: Any = 10,
    seed: Any = 1,
    told: str | None = None,
) -> Risk:
    """The chances for one attribute, or for all that are blurred; `told` is the prior in words."""
    if not is_whole(reports) or not 1 <= reports <= MOST_REPORTS:
        raise QueryError(
            f"reports are a whole number from 1 to {MOST_REPORTS:,}, not {shown(reports)}"
        )
    if not is_whole(seed) or seed < 0:
        raise QueryError(f"a seed is a whole number of at least 0, not {shown(seed)}")
    names = asked_about(survey, attribute)
    if within is not None and len(names) > 1:
        raise QueryError("within is in the units of one attribute; name that attribute")
    shares = _shares(survey, names, prior)
    counts = _series(int(reports))
    found: list[Chance] = []
    left_out, words, about = [], {}, {}
    for name in names:
        if (size := _size(survey, name)) > MOST_POSITIONS:
            most = f"its {size:,} positions are more than {MOST_POSITIONS:,}"
            left_out.append(f"{name}: left out, {most}")
            continue
        kinds = _kinds(survey, name, within)
        found += chances_of(survey, name, shares, kinds, counts, int(seed))
        words[name], about[name] = _word(survey, name), _about(survey, name)
    if told is None:
        told = EVENLY if isinstance(prior, str) else "spread as was given"
    return Risk(survey.fingerprint, told, about, words, tuple(found), tuple(left_out))


def _size(survey: Agreement, name: str) -> int:
    block = survey.blocks.get(name)
    return survey.attributes[name].size if block is None else math.prod(block.sizes)


def _about(survey: Agreement, name: str) -> str:
    block = survey.blocks.get(name, survey.block_of(name))
    if block is None:
        blurred = f"blurred by {survey.mechanisms[name].name}"
    elif name == block.name:
        return f"{' and '.join(block.names)}, blurred together by {block.mechanism.name}"
    else:
        others = " and ".join(other for other in block.names if other != name)
        blurred = f"blurred together with {others} by {block.mechanism.name}"
    return f"{survey.attributes[name].describe()}, {blurred}"


def in_short(survey: Agreement, name: str) -> dict[str, Any]:
    """The widest guess of an attribute after one report, people spread evenly, as data."""
    if survey.attributes[name].size > MOST_IN_SHORT:
        return {}
    within, shares = usual_within(survey, name), _shares(survey, [name], "uniform")
    before, after = chances_of(survey, name, shares, [within], [1], 1)
    if (
        before.chance or 0.0
    ) > 1 - 1e-9:  # the middle is near to everything: nothing is left to guess
        within = None
        before, after = chances_of(survey, name, shares, [within], [1], 1)
    of = _word(survey, name) if within is None else f"within {plain(within)}"
    found = {"of": of, "within": within, "before": before.chance, "after": after.chance}
    return {"guess": {**found, "error": after.error, "limit": after.limit}}


def short_line(guess: Mapping[str, Any]) -> str:
    """The same in words."""
    right = f"{_shown(guess['before'], 0.0)} right before a report"
    if guess["after"] is not None:
        right += f", {_shown(guess['after'], guess['error'])} after one"
    most = _limit(guess["limit"])
    return f"guesses {guess['of']}: {right}, never surer than {most} (people {EVENLY})"


def asked_about(survey: Agreement, attribute: Any) -> list[str]:
    """The attributes or blocks that are meant: one, or all that are blurred."""
    if attribute is None:
        return [*(n for n, a in survey.attributes.items() if not a.is_public), *survey.blocks]
    if isinstance(attribute, str) and attribute in survey.blocks:
        return [attribute]
    if attribute_of(survey, attribute).is_public:
        raise QueryError(
            f"{attribute} is a public weight and sent in the clear: everybody knows it"
        )
    return [attribute]


def shares_in(
    survey: Agreement,
    names: Sequence[str],
    people: Path,
    *,
    clip: bool = False,
) -> tuple[dict[str, Floats], str]:
    """How people in a file are spread, for all attributes that are looked at; and in words."""
    found, count = {}, 0
    every = {m for n in names for m in (survey.blocks[n].names if n in survey.blocks else [n])}
    asked = {name: a for name, a in survey.attributes.items() if name in every}
    wanted = {n: a for n, a in asked.items() if not a.asks_whether and a.size <= MOST_POSITIONS}
    if not wanted:
        raise QueryError(f"a file of people says nothing of {names[0]}; leave the prior out")
    read = read_positions(wanted, people, clip=clip)
    for name, positions in read.items():
        parts = 1 << FRACTION_BITS if wanted[name].rounded_at_random else 1
        nearest = np.rint(positions / parts).astype(np.int64)
        found[name] = np.bincount(nearest, minlength=wanted[name].size).astype(np.float64)
        count = len(positions)
    return found, f"spread as the {counted(count, 'person', 'people')} in {people}"


def chances_of(
    survey: Agreement,
    name: str,
    shares: Mapping[str, Floats],
    withins: Sequence[float | None],
    counts: Sequence[int],
    seed: int,
) -> list[Chance]:
    """Of an attribute or a block: for each kind of guess before any report, and after so many."""
    seen, spread, distances = _seen(survey, name, shares)
    found = []
    for within in withins:
        kind = _guesses(survey, name, within)
        if seen is None:
            limits = {r: kind.limit(spread, distances, r) for r in counts}
            before = float(kind.sums(spread[None]).max())
            found.append(Chance(name, within, 0, before, 0.0, before))
            found += [Chance(name, within, r, None, 0.0, most) for r, most in limits.items()]
            continue
        attack = Attack(seen, spread, distances, np.random.default_rng(seed), seeded(seed))
        before = float(kind.sums(attack.prior[None]).max())
        found.append(Chance(name, within, 0, before, 0.0, before))
        easiest, gains = attack.gains(kind, counts)
        label = _label(survey, name, easiest)
        for r, (share, own, limit) in zip(counts, gains, strict=True):
            found.append(Chance(name, within, r, *share, limit, label, *own))
    return found


def _seen(
    survey: Agreement, name: str, shares: Mapping[str, Floats]
) -> tuple[Seen | None, Floats, Floats]:
    """What is seen of an attribute or a block, how people are spread over its states, and E.

    Nothing is, where a block has too many reports: then they are spread over what is guessed.
    """
    if name in survey.blocks:
        block, axis = survey.blocks[name], None
        distances = _apart(block)
    else:
        distances = survey.kept[name].matrix(survey.attributes[name].size)
        found = survey.block_of(name)
        if found is None:
            return Alone(survey.channels[name]), shares[name], distances
        block, axis = found, found.names.index(name)
        if math.prod(block.sizes) > MOST_POSITIONS:
            return None, shares[name], distances
    spread = np.ones(1)
    for other in block.names:
        spread = np.multiply.outer(spread, shares[other]).reshape(-1)
    seen = Together(block.channel, axis)
    if seen.every is None:
        return None, seen.attribute(spread[None])[0], distances
    return seen, spread, distances


def _apart(block: Block) -> Floats:
    """E of any two cells: that of the grid, or as the attributes' distances are joined."""
    cells = np.indices(block.sizes).reshape(len(block.sizes), -1)
    if block.mechanism.grid is not None:
        return block.mechanism.grid.matrix(cells.shape[1])
    norm = block.mechanism.largest_norm
    sides = zip(block.metrics, block.sizes, cells, strict=True)
    powers = (m.matrix(size)[np.ix_(at, at)] ** norm for m, size, at in sides)
    return np.asarray(sum(powers) ** (1 / norm))


def _label(survey: Agreement, name: str, state: int) -> str:
    if name not in survey.blocks:
        return survey.attributes[name].label(state)
    block = survey.blocks[name]
    places = zip(block.names, np.unravel_index(state, block.sizes), strict=True)
    return ", ".join(survey.attributes[one].label(int(at)) for one, at in places)


def _shares(survey: Agreement, names: Sequence[str], prior: Any) -> dict[str, Floats]:
    """The prior of each attribute that is meant, and of those that are blurred together with it."""
    inner = {n: b for n, b in survey.blocks.items() if n in names}
    names = list(dict.fromkeys(m for n in names for m in (inner[n].names if n in inner else [n])))
    _, prior, _ = expected(1, prior, None)
    if isinstance(prior, str):
        if prior != "uniform":
            raise QueryError(f"a prior is 'uniform' or arrays of shares, not {shown(prior)}")
        needed, given = set(), {}
    elif isinstance(prior, Mapping):
        needed, given = {n for n in names if not survey.attributes[n].asks_whether}, dict(prior)
    elif len(names) > 1:
        raise QueryError("an array is the prior of one attribute; name it, or give a dict")
    else:
        needed, given = set(names), {names[0]: prior}
    for name in given:
        attribute_of(survey, name)
    blocks = [survey.block_of(name) for name in names]
    every = {*names, *(name for block in blocks if block for name in block.names)}
    found = {}
    for name in every:
        size = {name: survey.attributes[name].size}
        if size[name] <= MOST_POSITIONS:
            (found[name],) = shares_of(size, given if name in {*given, *needed} else "uniform")
    return found


def _series(reports: int) -> list[int]:
    """1, 2, 5, 10, 20, 50 and so on, up to the number itself."""
    found = (start * 10**power for power in range(4) for start in _SERIES)
    return [*(r for r in found if r < reports), reports]


def _word(survey: Agreement, name: str) -> str:
    if name in survey.blocks:
        return "the cell"
    described = survey.attributes[name]
    if described.in_bins:
        return "the bin"
    return "the point" if described.rounded_at_random else "the value"


def usual_within(survey: Agreement, name: str) -> float | None:
    """What the promise is stated for, where a guess may be off by that and still say something.

    Of a block, if it is the same for all its attributes.
    """
    if name in survey.blocks:
        found = {usual_within(survey, one) for one in survey.blocks[name].names}
        return found.pop() if len(found) == 1 else None
    described = survey.attributes[name]
    said: Any = getattr(described, "within", None) or getattr(described, "per", None)
    if said is None or not described.ordered or described.metric_kind == "relative":
        return None
    near, two = (_stretches(described, name, far * float(said)) for far in (1, 0.5))
    some = two.length.max() > 1 and near.length.min() < described.size
    return float(said) if some else None


def _kinds(survey: Agreement, name: str, within: Any) -> list[float | None]:
    if within is None:
        usual = usual_within(survey, name)
        return [None] if usual is None else [None, usual]
    for one in survey.blocks[name].names if name in survey.blocks else [name]:
        described = survey.attributes[one]
        if not described.ordered:
            raise QueryError(f"{one} has no order, so no guess of it is near; leave within out")
        if not is_number(within) or not math.isfinite(within) or within <= 0:
            raise QueryError(f"within is a positive number, not {shown(within)}")
        if _stretches(described, one, float(within)).length.max() == 1:
            raise QueryError(
                f"no guess is within {plain(within)} of two values of {one}; leave it out, and "
                "guess the value itself"
            )
    return [None, float(within)]


def _guesses(survey: Agreement, name: str, within: float | None) -> Guesses:
    if name not in survey.blocks:
        return _stretches(survey.attributes[name], name, within)
    names = survey.blocks[name].names
    return Boxes([_stretches(survey.attributes[one], one, within) for one in names])


def _stretches(described: Attribute, name: str, within: float | None) -> Stretches:
    size = described.size
    if within is None:
        return Stretches.of_one(size)
    if described.is_cyclic:
        return Stretches.around(size, within / described.grid_step)
    numbers = np.arange(size, dtype=np.float64) if described.named else described.numbers(name)[0]
    return Stretches.near(numbers, within)
