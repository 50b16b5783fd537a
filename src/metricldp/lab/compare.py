"""A survey of one's own against everybody else: the same people, the same questions, every promise.

Every attribute is asked about ranges, or values where there is no order, and random sets of two and
three attributes about joint ranges. Errors are exact for the people in the file; a simulation on a
sample of them, said to be one, stands beside.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.basics.progress import Progress, silent
from metricldp.basics.text import counted, listed, table
from metricldp.lab.contest import (
    AS_ONE,
    MOST,
    Contender,
    Entry,
    entries,
    everybody,
    spread_out,
)
from metricldp.lab.crowd import Crowd, Questions
from metricldp.lab.fitted import Fitted, fitted, post_processed, refitted
from metricldp.lab.meanings import both_promises, meanings, nearer, stated
from metricldp.mechanisms import Floats
from metricldp.mechanisms.base import ANY_TWO, PER_STEP
from metricldp.mechanisms.randomness import Randomness, seeded
from metricldp.metrics import Lp, Metric
from metricldp.reports.files import read_positions
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block, distributions_of
from metricldp.survey.ledger import kept

OWN, SAME = "the survey itself", "the survey's metric"
APART = "each attribute's distances, which add up: a weaker guarantee for locations"
LOOSE = "the stated epsilon between any two values of each attribute"
FITTED = "the stated epsilon, estimates from a fitted distribution: biased"
REFITTED = "the survey itself, estimates from a fitted distribution: biased"
POST = "the survey itself, counts of values post-processed: biased"
"""What a row keeps: what the survey has; the same metric or more; in a plane the same along each
attribute, but more across; the stated epsilon everywhere.

What is fitted keeps that, too, but no error can be stated beside an answer."""
SAMPLE, REPETITIONS = 1000, 60
_SLOWER = 4
"""Joint mechanisms answer so many times more slowly, and are simulated more rarely."""
_PAIRS, _TRIPLES = 2, 1
_JOINT_QUESTIONS = 40


@dataclass(frozen=True)
class Row:
    """The error of one mechanism in one set of questions, in people."""

    about: str
    questions: str
    group: str
    mechanism: str
    """As a survey file has it; of several attributes, those that differ."""
    title: str
    """The name that people know it by."""
    step: float
    """Epsilon between two people one step apart in one attribute."""
    width: float
    """Epsilon between two people at opposite ends of all of them."""
    exact: float | None
    """Root of the mean expected squared error, for the people in the file; None where biased."""
    simulated: float | None
    """The same measured on a sample, scaled to everybody; None where that would take too long.

    What is biased is measured on everybody."""
    standard_error: float | None

    @property
    def joint(self) -> bool:
        return self.mechanism.startswith("hio")

    @property
    def error(self) -> float:
        """Exact where it can be."""
        return self.exact if self.exact is not None else self.simulated or 0.0


@dataclass(frozen=True)
class Comparison:
    """All rows, and what they are about."""

    survey: str
    people: int
    sample: int
    repetitions: int
    seed: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def blocks(self, most: int | None = None) -> dict[str, list[Row]]:
        """The rows of each set of questions, the survey's own first; at most so many of a group.

        HIO at the stated epsilon is never left out, because it stands there at two of them.
        """
        found: dict[str, list[Row]] = {}
        for about in dict.fromkeys(row.about for row in self.rows):
            here = sorted((row for row in self.rows if row.about == about), key=lambda r: r.error)
            groups = ([row for row in here if row.group == group] for group in _GROUPS)
            found[about] = [
                row
                for group in groups
                for place, row in enumerate(group)
                if most is None or place < most or (row.group == LOOSE and row.joint)
            ]
        return found

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return self.text(BEST)

    def text(self, most: int | None = None) -> str:
        """The table: of every group at most so many rows, those with the least error."""
        who = (
            "all of them."
            if self.sample == self.people
            else f"a random sample of {self.sample:,}, scaled to all by the exact errors."
        )
        parts = [
            f"{counted(self.people, 'person', 'people')}, survey {self.survey[:16]}. Errors are "
            f"root mean squared errors, in people.\nSimulated: {self.repetitions} times "
            f"(HIO and biased estimators: {_more_rarely(self.repetitions)}) on {who}"
        ]
        for about, rows in self.blocks(most).items():
            left = sum(row.about == about for row in self.rows) - len(rows)
            more = f"\nand {left} more; --output writes all rows" if left else ""
            parts.append(f"{about}: {rows[0].questions}\n{_table(rows)}{more}")
        return "\n\n".join([*parts, _LEGEND, *self.notes])


BEST = 5
"""Rows of each group that are printed."""
_GROUPS = (OWN, REFITTED, POST, SAME, APART, LOOSE, FITTED)
_LEGEND = """step: epsilon between neighbouring values. width: epsilon across the whole domain.
Compare errors at equal step and width: a larger width protects distant values less."""


def _table(rows: Sequence[Row]) -> str:
    """All rows in one table, with a line above those of each promise."""
    lines = [["mechanism", "known as", "step", "width", "exact", "simulated", "SE"]]
    for row in rows:
        errors = row.exact, row.simulated, row.standard_error
        epsilons = (f"{row.step:.4g}", f"{row.width:.4g}")
        told = ["-" if x is None else f"{x:,.0f}" for x in errors]
        lines.append([row.mechanism, row.title, *epsilons, *told])
    head, *body = table(lines, left=2).splitlines()
    found = [head]
    for group in _GROUPS:
        mine = [line for row, line in zip(rows, body, strict=True) if row.group == group]
        found += [f"- {group}:", *mine] if mine else []
    return "\n".join(found)


# The work


def compare(
    survey: Agreement,
    people: str | Path,
    *,
    queries: int = 100,
    seed: int = 1,
    clip: bool = False,
    repetitions: int = REPETITIONS,
    progress: Progress = silent,
) -> Comparison:
    """Everybody on one's own survey and file of people."""
    if queries < 1:
        raise QueryError(f"a comparison needs at least one query, not {queries}")
    if survey.metric != Lp():
        raise QueryError(
            f"a survey with the norm p = {survey.metric.p:g} cannot be compared; "
            "remove [metric], so that distances add up"
        )
    attributes, notes = compared(survey)
    positions = read_positions(
        attributes,
        people,
        clip=clip,
        progress=lambda done: progress(0.1 * done),
    )
    crowd = Crowd(attributes, positions)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(crowd.n, min(SAMPLE, crowd.n), replace=False)
    sample = crowd.some(np.sort(chosen))
    sets = [(name,) for name in attributes] + joint_sets(list(attributes), rng)
    rows: list[Row] = []
    for k, names in enumerate(sets):
        count = queries if len(names) == 1 else min(queries, _JOINT_QUESTIONS)
        asked = Questions.draw({name: attributes[name] for name in names}, count, rng)
        contest = list(taking_part(asked.attributes, survey))
        # An answer from a block depends on all attributes in it.
        asked_of = {tuple(entry.survey.attributes) for _, entry in contest}
        crowds = {wide: (crowd.only(wide), sample.only(wide)) for wide in asked_of}
        for place, (group, entry) in enumerate(contest):
            everyone, some = crowds[tuple(entry.survey.attributes)]
            # Coins of its own for each: one more contender changes nobody else's.
            randomness = seeded(_number(seed, *names, group, entry.contender.title))
            errors = _measured(entry, everyone, some, asked, repetitions, randomness)
            rows.append(_row(group, entry, asked, errors))
            progress(0.1 + 0.9 * (k + (place + 1) / len(contest)) / len(sets))
        first = contest[0][1]
        randomness, times = seeded(_number(seed, *names, REFITTED)), _more_rarely(repetitions)
        wide = crowds[tuple(first.survey.attributes)][0]
        drawn = refitted(first, wide, asked, times if len(names) == 1 else 2, randomness)
        if drawn is not None:
            rows.append(_row(REFITTED, first, asked, (None, *_scaled(drawn, 1.0, 1.0))))
        if len(names) == len(first.survey.channels) == len(first.survey.attributes) == 1:
            randomness, times = seeded(_number(seed, *names, POST)), _more_rarely(repetitions)
            for entry, drawn in post_processed(first, crowd.only(names), asked, times, randomness):
                rows.append(_row(POST, entry, asked, (None, *_scaled(drawn, 1.0, 1.0))))
        loose = {name: spread_out(attribute) for name, attribute in asked.attributes.items()}
        for biased in fitted(loose, crowd.n):
            own = np.random.default_rng(_number(seed, *names, biased.contender.title))
            drawn = biased.errors(crowd.only(names), asked, _more_rarely(repetitions), own)
            rows.append(_row(FITTED, biased, asked, (None, *_scaled(drawn, 1.0, 1.0))))
    return Comparison(
        survey.fingerprint,
        crowd.n,
        sample.n,
        repetitions,
        seed,
        tuple(rows),
        (*meanings(attributes), *both_promises(survey), *notes),
    )


def _number(*said: object) -> int:
    """The same for the same words, on every machine."""
    return int.from_bytes(hashlib.sha256(repr(said).encode()).digest()[:8], "big")


def compared(survey: Agreement) -> tuple[dict[str, Attribute], list[str]]:
    """The attributes that are compared, and what is said of those left out."""
    found, notes = {}, []
    for name, attribute in survey.asked.items():
        block = survey.block_of(name)
        together = (name,) if block is None else block.names
        large = next((n for n in together if survey.attributes[n].size > MOST), None)
        if attribute.is_weight:
            notes.append(f"{name} is left out: it is a weight.")
        elif attribute.optional is not None:
            notes.append(f"{name} is left out: it is optional.")
        elif attribute.rounded_at_random:
            notes.append(f"{name} is left out: its values are rounded at random; give it bins.")
        elif large is not None:
            size, what = survey.attributes[large].size, "it" if large == name else large
            notes.append(
                f"{name} is left out: {what} has {size:,} positions, and at most {MOST:,} are "
                "compared; give it bins."
            )
        else:
            found[name] = attribute
    if not found:
        raise QueryError(
            f"nothing to compare in a survey of {listed(survey.asked)}; "
            f"it needs a category, or a number of at most {MOST:,} positions"
        )
    if not any(attribute.ordered for attribute in found.values()):
        notes.append("No attribute has an order, so there are no ranges.")
    return found, notes


def joint_sets(names: Sequence[str], rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Two random pairs of attributes and a random set of three, as far as there are any."""
    found = []
    for size, most in ((2, _PAIRS), (3, _TRIPLES)):
        every = list(combinations(names, size))
        found += [every[k] for k in sorted(rng.permutation(len(every))[:most])]
    return found


def taking_part(
    attributes: Mapping[str, Attribute], survey: Agreement | None = None
) -> Iterator[tuple[str, Entry]]:
    """The survey itself, then everybody at its metric, then plain mechanisms at its epsilon.

    Of the survey the attributes, and those that are blurred together with one of them.
    """
    survey = survey or Agreement(attributes)
    touched = [b for b in survey.blocks.values() if any(name in attributes for name in b.names)]
    wanted = {*attributes, *(name for block in touched for name in block.names)}
    own = _own(survey, wanted, touched)
    yield OWN, own
    there = [_made(own)]
    group = APART if any(nearer(block) for block in touched) else SAME
    # A block that the survey has itself is not searched for again.
    known = [(b.names, b.mechanism.name) for b in touched if not nearer(b)]
    found = (tuple(attributes), AS_ONE.mechanism) in known
    others = [c for c in everybody() if not c.wider and not (found and c == AS_ONE)]
    for entry in entries(attributes, others):
        if entry.joint or _made(entry) not in there:
            there.append(_made(entry))
            yield group, entry
    loose = {name: spread_out(attribute) for name, attribute in attributes.items()}
    apart = any(stated(a) != a.distances.smallest(a.size) for a in attributes.values())
    for entry in entries(loose, [c for c in everybody() if (c.plain if apart else c.wider)]):
        yield LOOSE, entry


def _own(survey: Agreement, wanted: Container[str], blocks: Sequence[Block]) -> Entry:
    """Known as what people call its mechanism; as nothing where there are several.

    It has the integers of the survey: what a survey file leaves out is not designed again.
    """
    attributes = {name: a for name, a in survey.attributes.items() if name in wanted}
    stored = {name: known for name, known in survey.distributions.items() if name in wanted}
    stored |= distributions_of(blocks)
    joint = {block.names: block.group for block in blocks}
    survey = Agreement(attributes, joint=joint, stored=stored)
    alike = [channel.distribution.invariance == "all" for channel in survey.channels.values()]
    alike += [block.channel.distribution.invariance == "all" for block in blocks]
    promise = ANY_TWO if all(alike) else PER_STEP
    used = list(survey.mechanisms.values())
    title = used[0].title if len({found.name for found in used}) == 1 else ""
    return Entry(Contender("", title, promise, "the survey", MOST, 256), survey)


def _made(entry: Entry) -> list[tuple[str, Metric, bool]]:
    """What blurs each attribute, what it keeps, and whether alone: who has the same is the same."""
    survey, used = entry.survey, entry.survey.mechanisms
    return [(used[n].name, kept(survey, n), n in survey.channels) for n in survey.attributes]


def _more_rarely(repetitions: int) -> int:
    return max(2, repetitions // _SLOWER)


def _measured(
    entry: Entry,
    crowd: Crowd,
    sample: Crowd,
    asked: Questions,
    repetitions: int,
    randomness: Randomness,
) -> _Errors:
    exact = max(0.0, float(entry.variances(crowd, asked).mean()))  # below only by rounding
    simulated = error = None
    drawn = min(entry.contender.drawn, MOST)
    if all(attribute.size <= drawn for attribute in crowd.attributes.values()):
        expected = max(0.0, float(entry.variances(sample, asked).mean()))
        times = _more_rarely(repetitions) if entry.joint else repetitions
        errors = entry.answers(sample, asked, times, randomness) - sample.truth(asked)
        simulated, error = _scaled(errors, exact, expected)
    return math.sqrt(exact), simulated, error


def _row(group: str, entry: Entry | Fitted, asked: Questions, errors: _Errors) -> Row:
    ordered = frozenset(attribute.ordered for attribute in asked.attributes.values())
    return Row(
        " x ".join(asked.attributes),
        _QUESTIONS[ordered],
        group,
        entry.mechanism,
        entry.contender.title,
        entry.step,
        entry.width,
        *errors,
    )


_Errors = tuple[float | None, float | None, float | None]


_QUESTIONS = {
    frozenset({True}): "random ranges",
    frozenset({False}): "random values",
    frozenset({False, True}): "random ranges and values",
}


def _scaled(errors: Floats, exact: float, expected: float) -> tuple[float, float | None]:
    """The measured error of the sample and its standard error, as they would be for everybody.

    A single repetition has no standard error.
    """
    means = (errors**2).mean(axis=1)
    if not expected:
        return 0.0, 0.0
    scale = math.sqrt(exact / expected)
    root = math.sqrt(float(means.mean()))
    if len(means) < 2:
        return scale * root, None
    spread = float(means.std(ddof=1)) / math.sqrt(len(means))
    return scale * root, scale * spread / (2 * root) if root else 0.0
