"""The tally: what the collector keeps, and the questions it answers.

It holds the reports themselves, packed, so that every question over any of the attributes stays
open. Merging is `+`; answers depend on which reports came in, never on their order or batches
(to the last digit where integers are counted: in all but weights and long lists of values).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from metricldp.answers import quantiles
from metricldp.answers.answer import Answer, Ratio
from metricldp.answers.container import Histogram
from metricldp.answers.estimate import (
    RESPONDENTS,
    UNSEEN,
    kept_between,
    one_person,
    to_answer,
    to_answers,
    to_private_sum,
    to_ratio,
)
from metricldp.answers.linear import Linear, Profile
from metricldp.answers.predict import variance_bounds
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.queries import Query, Where, attribute_of, parse, weight_of, workload_for
from metricldp.attributes.base import Attribute
from metricldp.attributes.named import Categorical, Ordinal
from metricldp.attributes.weight import Weight
from metricldp.basics.errors import QueryError, ReportRefused
from metricldp.basics.text import counted, shown
from metricldp.channels import BitChannel, Floats
from metricldp.design.workloads import Workload
from metricldp.reports import arrow, pack
from metricldp.reports.collected import pieces
from metricldp.store import cubes, scan
from metricldp.store.bits import Batch, BitColumns, Cuts, Product, Terms, counts_from_reports
from metricldp.store.readings import TOGETHER, Reading, involved, read, read_pair, read_weighted
from metricldp.survey.agreement import Agreement

T = TypeVar("T")


class Tally:
    """Reports of one survey, and answers from them.

    `layout` says how sums are found: "reports", "cells", "prefix", or "auto", which builds a table
    for a set of attributes once enough questions about them have come in. Every answer says in its
    own `layout` which it was.
    """

    def __init__(self, survey: Agreement, table: pa.Table, layout: str = "auto") -> None:
        if layout not in cubes.LAYOUTS:
            raise QueryError(f"a layout is one of {', '.join(cubes.LAYOUTS)}, not {layout!r}")
        self.survey = survey
        self.layout = layout
        self._table = table
        self._tables: dict[tuple[str, ...], cubes.Table] = {}
        self._asked: Counter[tuple[str, ...]] = Counter()

    @classmethod
    def of(
        cls,
        survey: Agreement,
        collected: Any,
        *,
        refused: Counter[str] | None = None,
        layout: str = "auto",
    ) -> Tally:
        """From a table of reports, a Parquet file of them, or their bytes; strictly checked."""
        if isinstance(collected, str | Path):
            return cls(survey, arrow.read(survey, collected), layout)
        parts = list(pieces(survey, collected, refused=refused))
        empty = arrow.schema(survey).empty_table()
        return cls(survey, pa.concat_tables(parts) if parts else empty, layout)

    @property
    def n(self) -> int:
        """How many people reported."""
        return int(self._table.num_rows)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        self._check_mergeable(other)
        merged = Tally(self.survey, pa.concat_tables([self._table, other._table]), self.layout)
        for names in self._tables.keys() & other._tables.keys():
            merged._tables[names] = self._tables[names] + other._tables[names]
        if "_bit_columns" in self.__dict__ and "_bit_columns" in other.__dict__:
            merged._bit_columns = self._bit_columns + other._bit_columns
        return merged

    def _check_mergeable(self, other: Tally) -> None:
        if other.survey != self.survey:
            raise ReportRefused("survey", "tallies of two different surveys cannot be merged")
        if type(other) is not type(self):
            raise ReportRefused(
                "keep", "a tally of reports and totals cannot be merged; make both with keep="
            )

    def __radd__(self, other: object) -> Tally:
        """So that `sum` of many tallies works, which starts from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.survey == other.survey
            and self.n == other.n
            and sorted(pack.pack(self.survey, self._table))
            == sorted(pack.pack(other.survey, other._table))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Tally of {counted(self.n, 'report')} to survey {self.survey.fingerprint[:16]}>"

    def save(self, path: str | Path) -> None:
        """Write the tally as a Parquet file of reports; `survey.tally(path)` loads it."""
        arrow.write(self.survey, self._table, path)

    # Questions -----------------------------------------------------------------------------------

    def count(self, where: Where | None = None, *, about: str = RESPONDENTS) -> Answer:
        """How many people are in all the ranges and categories of the where-clause."""
        return self._answers([self._parsed(where)], about)[0]

    def counts(self, wheres: Iterable[Where | None], *, about: str = RESPONDENTS) -> list[Answer]:
        """Thousands of counts at once; "auto" builds the tables that so many are worth."""
        if isinstance(wheres, Mapping):
            raise QueryError("counts takes a list of where-clauses; for a single one ask count")
        queries = []
        for place, where in enumerate(wheres):
            try:
                queries.append(self._parsed(where))
            except QueryError as wrong:
                raise QueryError(f"where-clause {place + 1}: {wrong}") from None
        return self._answers(queries, about)

    def fraction(self, where: Where | None = None, *, about: str = RESPONDENTS) -> Answer:
        """The same as a share of all who reported."""
        if not self.n:
            raise QueryError("a fraction of no reports at all has no answer")
        return self.count(where, about=about).scaled(1 / self.n, "of all")

    def sum(
        self, attribute: str, where: Where | None = None, *, about: str = RESPONDENTS
    ) -> Answer:
        """The sum of an attribute over the people of the where-clause."""
        query, _ = self._valued(attribute, where)
        return replace(self._answers([query], about)[0], unit=attribute)

    def weighted(self, where: Where | None = None, *, weight: str | None = None) -> Answer:
        """The sum of a weight over the people of the where-clause; name it if there are several."""
        name, described = weight_of(self.survey, weight)
        query = self._parsed(where)
        question = f"{name} among {query.words}"
        if described.is_public:
            return self._weighted_in_the_clear(name, query, question)
        readings = read_weighted(self.survey, query.functions, name, described.ends)
        sums = scan.from_reports(self._batches(_names(readings)), readings, 4)
        answer = to_private_sum(sums, readings, self.n, name, described.ends, question=question)
        return replace(answer, notes=query.notes)

    def _weighted_in_the_clear(self, name: str, query: Query, question: str) -> Answer:
        readings = read(self.survey, query.functions)
        batches = self._batches([*_names(readings), name])
        weights = scan.Weights(name, (1, 2, 2))
        sums = scan.from_reports(batches, readings, 3, weights)
        squares = [np.square(batch[name]) for batch in batches]
        largest = sorted(float(square) for part in squares for square in _largest(part, UNSEEN))
        total = math.fsum(float(part.sum()) for part in squares)
        bounds = kept_between(one_person(readings), total, sum(largest[-UNSEEN:]))
        return Answer(
            float(sums[0]),
            float(sums[1] - sums[2]),
            question,
            unit=name,
            notes=query.notes,
            bounds=bounds,
            layout="reports",
        )

    def mean(self, attribute: str, where: Where | None = None) -> Ratio:
        """The mean of an attribute over the people of the where-clause, with Fieller's interval."""
        query, group = self._valued(attribute, where)
        readings = read_pair(self.survey, query.functions, group.functions)
        names = _names(readings)
        self._asked[names] += 1
        layout = self._layout_for(names)
        sums = self._sums(readings, 8, layout)
        ratio = to_ratio(
            sums,
            readings,
            self.n,
            question=query.words,
            unit=attribute,
            notes=query.notes,
            layout=layout,
        )
        if not any(self.survey.attributes[reading.name].rounded_at_random for reading in readings):
            return ratio
        # Rounding at random hides part of a covariance, but not of the values less their mean.
        inside = group.functions.get(attribute, np.ones(len(query.functions[attribute])))
        above = query.functions[attribute] - ratio.value * inside
        residual = replace(query, factors={**query.factors, attribute: above})
        return ratio.with_residual(self._answers([residual])[0].stderr ** 2)

    def histogram(
        self,
        attribute: str,
        where: Where | None = None,
        *,
        width: int = 1,
        about: str = RESPONDENTS,
    ) -> Histogram:
        """A count for every position of an attribute, or for every `width` of them together."""
        described = attribute_of(self.survey, attribute)
        query = self._parsed(where)
        if attribute in query.factors:
            raise QueryError(f"{attribute} is the histogram's own attribute; leave it out of where")
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 1:
            raise QueryError(f"a bar is a whole number of positions wide, not {shown(width)}")
        if isinstance(described, Weight):
            raise QueryError(f"{attribute} is a weight; ask tally.weighted(where) for its sum")
        if width > 1 and isinstance(described, Categorical):
            raise QueryError(f"{attribute} has no order, so its bars cannot be {width} wide")
        size = described.size
        if width > size:
            note = f"one bar of everybody: {attribute} has {size} positions, and widths count those"
            query = replace(query, notes=(*query.notes, note))
        ends = [(start, min(start + int(width), size) - 1) for start in range(0, size, int(width))]
        labels = tuple(described.label(first, last) for first, last in ends)
        grid = np.arange(size)
        bars = (((first <= grid) & (grid <= last)).astype(np.float64) for first, last in ends)
        answers = self.profile(attribute, query, bars, labels, about=about)
        named = isinstance(described, Ordinal | Categorical)
        people = None if query.factors else self.n
        return Histogram(attribute, labels, tuple(answers), named, people)

    def cdf(self, attribute: str, where: Where | None = None) -> Cdf:
        """The share of the respondents at or below every value, with a band for all of it."""
        return self._cdf(attribute, where, literal=False)

    def quantile(
        self,
        attribute: str,
        p: float,
        where: Where | None = None,
        method: str = quantiles.ISOTONIC,
    ) -> Quantile:
        """The value x of the respondents with share(x - 1) < p <= share(x), and its interval.

        "isotonic" reads it off the monotone estimate of all shares; "binary-search" is the paper's
        procedure on the raw ones.
        """
        return self.quantiles(attribute, [p], where, method)[0]

    def quantiles(
        self,
        attribute: str,
        probabilities: Iterable[float],
        where: Where | None = None,
        method: str = quantiles.ISOTONIC,
    ) -> list[Quantile]:
        """Several quantiles of the same people, in one pass."""
        asked = quantiles.checked_all(probabilities, method)
        shares = self._cdf(attribute, where, literal=method == quantiles.BINARY_SEARCH)
        return [shares.quantile(p, method) for p in asked]

    def profile(
        self,
        attribute: str,
        group: Query,
        functions: Iterable[Floats],
        labels: Sequence[str],
        *,
        about: str = RESPONDENTS,
    ) -> list[Answer]:
        """Many functions of one attribute over the same group of people, in one pass."""
        opened = self._profile(attribute, group, about)
        answers: list[Answer] = []
        # A few at a time: all together would be a matrix of size x size.
        for some in _chunks(zip(functions, labels, strict=True), TOGETHER):
            answers += opened.answers(np.array([f for f, _ in some]), [words for _, words in some])
        return answers

    def linear(
        self,
        attribute: str,
        workload: Workload | str | ArrayLike,
        where: Where | None = None,
        *,
        about: str = RESPONDENTS,
    ) -> Linear:
        """A whole workload of linear questions: for each row, its sum over the group of people.

        A row says how much a person at each position adds. `workload` is a Workload, "ranges",
        "prefixes", "values", or rows.
        """
        asked = workload_for(self.survey, attribute, workload)
        return Linear(asked, self._profile(attribute, self._parsed(where), about))

    def _profile(self, attribute: str, group: Query, about: str) -> Profile:
        rest = [r for r in read(self.survey, group.functions) if r.name != attribute]
        sums, layout = self._opened(rest, attribute)
        return Profile(self.survey, attribute, group, rest, sums, self.n, about, layout)

    def _cdf(self, attribute: str, where: Where | None, *, literal: bool) -> Cdf:
        described: Attribute = attribute_of(self.survey, attribute)
        query = self._parsed(where)
        group = quantiles.Group(attribute, described, query, self.n, literal)
        return group.to_cdf(self.profile(attribute, query, group.functions(), group.labels))

    # Sums ----------------------------------------------------------------------------------------

    def _parsed(self, where: Where | None) -> Query:
        query = parse(self.survey, where)
        return query if self.n else replace(query, notes=(*query.notes, "no reports yet"))

    def _answers(self, queries: Sequence[Query], about: str = RESPONDENTS) -> list[Answer]:
        """Answers in the order of the queries; those about the same attributes come together."""
        places: dict[tuple[str, ...], list[int]] = {}
        for place, query in enumerate(queries):
            places.setdefault(tuple(involved(self.survey, query.factors)), []).append(place)
        found: dict[int, Answer] = {}
        for names, asked in places.items():
            self._asked[names] += len(asked)
            layout = self._layout_for(names)
            # On the fly one at a time; from a table as many as their decoders fit the cache.
            for some in _chunks(asked, 1 if layout == "reports" else TOGETHER):
                answers = self._together(names, [queries[place] for place in some], layout, about)
                found.update(zip(some, answers, strict=True))
        return [found[place] for place in range(len(queries))]

    def _together(
        self, names: tuple[str, ...], queries: list[Query], layout: str, about: str
    ) -> list[Answer]:
        """Answers to queries about the same attributes; from reports, to one alone."""
        asked = [(query.words, query.notes) for query in queries]
        if layout == "reports" and (cuts := Cuts.of(self.survey, queries[0])):
            value, second = cuts.read(self._digit_counts(names, cuts.terms))
            sums, bounds = (value, second, value), cuts.bounds()
            return [to_answer(sums, bounds, self.n, asked[0], about=about, layout=layout)]
        readings = read(self.survey, *(query.functions for query in queries))
        blocks = self._sums(readings, 3 * len(queries), layout).reshape(3, -1)
        limits = variance_bounds(readings)
        return to_answers(blocks, limits, self.n, asked, about=about, layout=layout)

    def _valued(self, attribute: str, where: Where | None) -> tuple[Query, Query]:
        """The query of an attribute's values over a group, and the group's own."""
        described: Attribute = attribute_of(self.survey, attribute)
        group = self._parsed(where)
        values, note = described.numbers(attribute)
        inside = group.functions.get(attribute, np.ones(described.size))
        factors = {**group.factors, attribute: values * inside}
        notes = (*group.notes, note) if note else group.notes
        return Query(factors, f"{attribute} among {group.words}", notes), group

    def _sums(self, readings: list[Reading], rows: int, layout: str) -> Floats:
        """The sum over people of every row's product."""
        if not readings:
            return np.full(rows, float(self.n))
        names = _names(readings)
        if layout == "reports":
            if (terms := Terms.of(readings, rows)) is not None:
                return terms.total(self._digit_counts(names, terms.terms))
            return scan.from_reports(self._batches(names), readings, rows)
        if names not in self._tables:
            channels = {name: self.survey.channels[name] for name in names}
            self._tables[names] = cubes.build(self._batches(names), channels)
        table = self._tables[names]
        return table.from_cells(readings) if layout == "cells" else table.from_prefixes(readings)

    def _opened(self, rest: list[Reading], attribute: str) -> tuple[Floats, str]:
        """Sums of every feature of one attribute times the others' decoders, and their layout."""
        channel = self.survey.channels[attribute]
        batches = self._batches([*_names(rest), attribute])
        return scan.opened(batches, rest, attribute, channel, 3), "reports"

    def _digit_counts(self, names: tuple[str, ...], terms: Sequence[Product]) -> list[int]:
        if self._asked[names] > 2:
            return self._bit_columns.counts(terms)
        return counts_from_reports(terms, self._batches(names))

    @cached_property
    def _bit_columns(self) -> BitColumns:
        """The reports turned by 90 degrees, once so many questions are asked that it pays."""
        channels = {n: c for n, c in self.survey.channels.items() if isinstance(c, BitChannel)}
        return BitColumns(channels, self._batches(list(channels)))

    def _layout_for(self, names: tuple[str, ...]) -> str:
        """How to answer about these attributes, given how often they were asked about."""
        if not names:
            return "reports"
        channels = [self.survey.channels[name] for name in names]
        if self.layout == "auto":
            if names in self._tables or cubes.worth_a_table(channels, self._asked[names]):
                return "prefix"
            return "reports"
        if self.layout != "reports":
            cubes.check_size(channels, names)
        return self.layout

    def _batches(self, names: Sequence[str]) -> list[Batch]:
        return list(arrow.batches(self._table.select(list(names))))


def _names(readings: list[Reading]) -> tuple[str, ...]:
    return tuple(reading.name for reading in readings)


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some


def _largest(values: Floats, count: int) -> Floats:
    """The few largest values, in any order."""
    return values if len(values) <= count else np.partition(values, -count)[-count:]
