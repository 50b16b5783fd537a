"""A black-box audit of an encoder, ours or anybody's, against the survey that it serves.

It asks the encoder for the reports of people whom it makes up, looks at nothing but bytes, and
tests: that no two values are told apart better than the metric allows (privacy), that reports have
the law that the survey promises (law: else answers are biased), that no coin is used twice (coins),
and that the bytes are what a collector takes and nothing outside of a domain is encoded (form).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number, is_whole
from metricldp.basics.progress import Progress, silent
from metricldp.basics.text import counted, shown
from metricldp.lab.audit import ratios
from metricldp.lab.audit.clients import Client, Command, Encoder, Reports, client_of
from metricldp.lab.audit.design import Design, Pair, Rows, design_for
from metricldp.lab.audit.ratios import Event, Table
from metricldp.lab.audit.repeats import test_repeats
from metricldp.lab.audit.result import Audit, Finding, Power
from metricldp.lab.audit.sample import NOBODY, Features, Sample, collected, referred
from metricldp.lab.audit.trials import Failure, Family, Prospect, from_odds
from metricldp.reports.bytes import packed_size
from metricldp.survey.agreement import Agreement

__all__ = ["Audit", "Command", "Finding", "Power", "audit"]

REPORTS, SMALLEST, LARGEST = 1_000_000, 1_000, 10**8
FALSE_ALARM = 1e-6
_REFERENCE = 2
"""So many times the sample are drawn from the law for comparison."""
_REPEATS = 20_000
_MOST_BITS, _MOST_BYTES = 1 << 14, 1 << 29
"""Of one report, and of all."""
_EXCESSES = (0.2, 0.1, 0.05, 0.02)
_PEOPLE = "people"
_FAMILIES = {
    "values": "privacy",
    "values pooled": "privacy",
    "people": "privacy",
    "two features": "privacy",
    "likelihood ratios": "privacy",
    "distribution of features": "distribution",
    "distribution pooled": "distribution",
    "distribution of two features": "distribution",
    "randomness": "randomness",
}


def audit(
    survey: Agreement,
    encoder: Encoder | Client | None = None,
    *,
    n: int = REPORTS,
    false_alarm: float = FALSE_ALARM,
    clip: bool = False,
    restart: Callable[[], Encoder] | None = None,
    seed: int | None = None,
    progress: Progress = silent,
) -> Audit:
    """Ask an encoder for about n reports, and test them against the survey.

    `encoder` turns a person, a dict of values by attribute, into the bytes of a report, and raises
    an exception for a value outside of its domain; `Command("node client.js")` is one that runs by
    itself. Without one, the package's own device is audited. With `clip=True` values outside are to
    be clipped, and must not be told from those at the end. `restart` makes the encoder anew, as
    after a new start; a command starts anew by itself. An encoder that keeps its promise fails with
    a probability of at most `false_alarm`. `seed` is for the choice of people alone.
    """
    if not is_whole(n) or not SMALLEST <= n <= LARGEST:
        raise QueryError(
            f"an audit needs {SMALLEST:,} to {LARGEST:,} reports, not {shown(n)}; "
            f"n={REPORTS:,} is usual"
        )
    if not is_number(false_alarm) or not 0 < false_alarm < 1:
        raise QueryError(f"false_alarm is a probability, such as 1e-6, not {shown(false_alarm)}")
    size = packed_size(survey)
    if survey.report_bits > _MOST_BITS or n * size > _MOST_BYTES:
        raise QueryError(
            f"{n:,} reports of {counted(size, 'byte')} are too many to be looked at; at most "
            f"{_MOST_BYTES // size:,} are, and at most {_MOST_BITS:,} bits of each"
        )
    client = client_of(survey, encoder, clip)
    started = [client, client] if client.restarts else [client]
    if restart is not None:
        started = [client_of(survey, restart(), clip) for _ in range(2)]
    random = np.random.default_rng(seed)
    asked = _Audited(survey, int(n), float(false_alarm), clip, client, started, random, progress)
    return asked.result()


@dataclass
class _Audited:
    survey: Agreement
    n: int
    false_alarm: float
    clip: bool
    client: Client
    started: list[Client]
    """The same, and where it can be started anew, twice."""
    random: np.random.Generator
    progress: Progress

    def result(self) -> Audit:
        self.families = {
            name: Family(verdict, self.false_alarm / len(_FAMILIES))
            for name, verdict in _FAMILIES.items()
        }
        self.everywhere: dict[str, list[Prospect]] = defaultdict(list)
        self.single: dict[str, list[Prospect]] = defaultdict(list)
        """By attribute, what would show faults of all its pairs, and of one."""
        form = self._form()
        self._values()
        self._people()
        repeats = min(_REPEATS, max(200, self.n // 10))
        test_repeats(
            self.families["randomness"],
            self.survey,
            self.features,
            self.started,
            self.design.people.people[0],
            repeats,
        )
        self.progress(1.0)
        return Audit(
            fingerprint=self.survey.fingerprint,
            client=self.client.name,
            reports=len(self.sample.rows),
            repeats=repeats,
            false_alarm=self.false_alarm,
            tests={name: family.tests for name, family in self.families.items()},
            findings=(*form, *self._failed()),
            power=tuple(self._power()),
            outside=len(self.design.outside),
        )

    def _failed(self) -> Iterator[Finding]:
        """The clearest failure of each verdict about each attribute, and how many are like it."""
        found: dict[tuple[str, str], list[tuple[Failure, str]]] = defaultdict(list)
        for name, family in self.families.items():
            for failure in family.failures:
                found[family.verdict, failure.about].append((failure, name))
        for (verdict, _), failures in found.items():
            first, name = min(failures)
            yield Finding(verdict, name, first.words, first.chance, len(failures) - 1)

    # The sample ----------------------------------------------------------------------------------

    @cached_property
    def design(self) -> Design:
        return design_for(self.survey, clip=self.clip)

    @cached_property
    def refused(self) -> Counter[str]:
        return Counter()

    @cached_property
    def sample(self) -> Sample:
        asked = self.design.drawn(self.n, self.random)

        def watched(done: float) -> None:
            self.progress(0.6 * done)

        return collected(self.survey, self.client, asked, self.refused, watched)

    @cached_property
    def reference(self) -> Sample:
        asked = self.design.drawn(_REFERENCE * self.n, self.random)
        return referred(self.survey, asked, clip=self.clip)

    @cached_property
    def features(self) -> Features:
        return Features(self.survey, self.reference)

    # Form ----------------------------------------------------------------------------------------

    def _form(self) -> list[Finding]:
        count, found = len(self.sample.rows), []
        refusal = getattr(self.client, "refusal", "")
        for reason, bad in sorted(self.refused.items()):
            if bad:
                told = _FORM.get(reason, f"rejected for their {reason}")
                if reason == NOBODY and refusal:
                    told = f"{told}; the first message was {refusal}"
                words = f"{counted(bad, 'report')} of {count:,}: {told}"
                found.append(Finding("format", reason, words, 0.0))
        encoded = defaultdict(list)
        for (name, person), report in zip(self.design.outside, self._outside(), strict=True):
            if report is not None:
                encoded[name].append(shown(person[name]) if name in person else "no entry at all")
        for name, values in encoded.items():
            words = f"responses were encoded that must be rejected: {name} {', '.join(values)}"
            found.append(Finding("format", "outside", words, 0.0))
        return found

    def _outside(self) -> Reports:
        """All at once, or one by one if the client stops at the first that it refuses."""
        people = [person for _, person in self.design.outside]
        try:
            return self.client.reports(people)
        except QueryError:
            return [report for person in people for report in self.client.reports([person])]

    # Privacy and law -----------------------------------------------------------------------------

    def _values(self) -> None:
        """One attribute after the other, everything else at random."""
        pooled, single = self.families["values pooled"], self.families["values"]
        for at, asked in enumerate(self.design.attributes):
            # Events are chosen by one half of the promised reports and counted in the other:
            # those that look best in a sample look better there than they are.
            mine, early, late = (
                ratios.table(self.features, sample, _groups(sample, at, len(asked.values)))
                for sample in (self.sample, *self.reference.halves)
            )
            promised = early + late
            ratios.test_pairs(single, mine, asked.pairs, self.features.names)
            for pool in asked.pools:
                events = [ratios.best_event(early, pair) for pair in pool]
                ratios.test_pool(pooled, mine, pool, events)
                self.everywhere[asked.name].append(self._prospect(pooled, late, pool, events))
            for pair in asked.pairs:
                event = ratios.best_event(early, pair)
                self.single[asked.name].append(self._prospect(single, late, [pair], [event]))
            words = [f"{asked.name} {value}" for value in asked.values]
            self._law(mine, promised, words, asked.name)
            self._agreement(mine, promised, asked.name)
            self.progress(0.6 + 0.2 * (at + 1) / len(self.design.attributes))

    def _people(self) -> None:
        people = self.design.people
        everybody = range(len(people.people))
        mine, promised = (
            ratios.table(self.features, sample, [sample.of(kind) for kind in everybody])
            for sample in (self.sample, self.reference)
        )
        ratios.test_pairs(self.families["people"], mine, people.pairs, self.features.names)
        words = [f"person {kind + 1}" for kind in everybody]
        self._law(mine, promised, words, _PEOPLE)
        self._two_features()
        law = ratios.Law(self.survey, self.features, self.design)
        early, late = self.sample.halves
        for at, pair in enumerate(people.pairs):
            self._likelihood(pair, law, early, late)
            self.progress(0.8 + 0.2 * (at + 1) / len(people.pairs))

    def _law(self, mine: Table, promised: Table, words: list[str], about: str) -> None:
        names = self.features.names

        def told(at: tuple[int, ...]) -> str:
            share = mine.counts[at] / max(1, mine.sizes[at[0]])
            expected = promised.counts[at] / max(1, promised.sizes[at[0]])
            return f"{words[at[0]]}, {names[at[1]]}: {share:.4g} of reports, not {expected:.4g}"

        sizes = mine.sizes[:, None], promised.sizes[:, None]
        family = self.families["distribution of features"]
        family.same(mine.counts, sizes[0], promised.counts, sizes[1], told, about)

    def _agreement(self, mine: Table, promised: Table, name: str) -> None:
        """Each feature as it mostly is for a value, over all values together."""
        counts, sizes = mine.counts + promised.counts, mine.sizes + promised.sizes
        mostly = 2 * counts >= sizes[:, None]
        hits, others = (
            np.where(mostly, t.counts, t.sizes[:, None] - t.counts).sum(axis=0)
            for t in (mine, promised)
        )
        all_mine, all_others = int(mine.sizes.sum()), int(promised.sizes.sum())

        def told(at: tuple[int, ...]) -> str:
            shares = f"{hits[at] / all_mine:.4g} of reports, not {others[at] / all_others:.4g}"
            return f"all of {name}, {self.features.names[at[0]]}: as it mostly is in {shares}"

        self.families["distribution pooled"].same(hits, all_mine, others, all_others, told, name)

    def _two_features(self) -> None:
        names = self.features.together
        upper = np.triu_indices(len(names), 1)
        people = range(len(self.design.people.people))
        mine, promised = (
            [
                ratios.pairs_of_features(self.features, sample.rows[sample.of(kind)])
                for kind in people
            ]
            for sample in (self.sample, self.reference)
        )

        def event(at: tuple[int, ...]) -> str:
            first, second = (names[ends[at[-1]]] for ends in upper)
            return ratios.TOGETHER[at[-2]].format(first, second)

        for pair in self.design.people.pairs:
            hits, total = ratios.both_ways(mine[pair.first], mine[pair.second])

            def told(at: Any, pair: Pair = pair, hits: Any = hits, total: Any = total) -> str:
                return ratios.ratio_words(pair, event(at), int(hits[at]), int(total[at]))

            family = self.families["two features"]
            family.above(hits, total, from_odds(pair.allowed), told, pair.about)
        family = self.families["distribution of two features"]
        for kind in people:
            counts, expected = mine[kind], promised[kind]
            sizes = len(self.sample.of(kind)), len(self.reference.of(kind))

            def tell(
                at: Any,
                kind: int = kind,
                counts: Any = counts,
                expected: Any = expected,
                sizes: tuple[int, int] = sizes,
            ) -> str:
                share, promised = counts[at] / max(1, sizes[0]), expected[at] / max(1, sizes[1])
                return f"person {kind + 1}, {event(at)}: {share:.4g} of reports, not {promised:.4g}"

            family.same(counts, sizes[0], expected, sizes[1], tell, _PEOPLE)

    def _likelihood(self, pair: Pair, law: ratios.Law, early: Sample, late: Sample) -> None:
        family, kinds = self.families["likelihood ratios"], (pair.first, pair.second)
        learnt, tried = law.scores(self.reference, pair), law.scores(self.sample, pair)
        told = "what its law finds likelier"
        prospects = ratios.test_scores(family, pair, learnt, tried, told)
        for sample, other in ((self.reference, self.sample), (early, late)):
            # On reports that they were learnt from, weights would tell more than on others.
            first, second = sample.halves
            weights = ratios.naive(self.features, first, kinds)
            learnt = ratios.scored(self.features, second, kinds, weights)
            tried = ratios.scored(self.features, other, kinds, weights)
            told = "what its bits make likelier"
            found = ratios.test_scores(family, pair, learnt, tried, told)
            prospects += found if sample is self.reference else []
        self.everywhere[pair.about] += prospects

    # Power ---------------------------------------------------------------------------------------

    def _prospect(
        self, family: Family, half: Table, pairs: list[Pair], events: list[Event]
    ) -> Prospect:
        """What is to be expected in the sample, from half of the reference."""
        scale = 2 / _REFERENCE
        hits, total = ratios.seen(half, pairs, events)
        return Prospect(family, pairs[0].allowed, scale * hits, scale * total)

    def _power(self) -> Iterator[Power]:
        for name, prospects in self.everywhere.items():
            if not prospects:
                continue  # so few reports that none is of these people
            single = self.single.get(name, [])
            alone = [prospect.excess() for prospect in single]
            needed = {e: min(p.needed(e) for p in prospects) * self.n for e in _EXCESSES}
            yield Power(
                name,
                len(single),
                min(prospect.allowed for prospect in single or prospects),
                min(prospect.excess() for prospect in prospects),
                max(alone) if alone else None,
                {e: math.ceil(n) if math.isfinite(n) else None for e, n in needed.items()},
            )


def _groups(sample: Sample, attribute: int, values: int) -> list[Rows]:
    return [sample.with_value(attribute, value) for value in range(values)]


_FORM = {
    NOBODY: "there is none, though all values are inside of their domains",
    "kind": "not bytes",
    "length": "of another length",
    "version": "another version in the first byte",
    "survey": "the fingerprint of another survey",
    "padding": "bits set behind the last field",
    "range": "a value that no device could send",
}
