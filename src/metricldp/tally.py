"""The tally: what the collector keeps, and the questions it answers.

It holds the reports themselves, packed, so that every question over any of the attributes stays
open. Merging is `+`; answers depend on which reports came in, never on their order or batches
(to the last digit where integers are counted: in all but weights and long lists of values).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from metricldp import layouts, quantiles, reports
from metricldp.answers import Answer, Histogram, Ratio
from metricldp.attributes import Attribute, Categorical, Ordinal
from metricldp.bitcolumns import Batch, BitColumns, Terms
from metricldp.channels import BitChannel, Floats
from metricldp.errors import QueryError, ReportRefused
from metricldp.estimate import (
    RESPONDENTS,
    UNSEEN,
    kept_between,
    to_answer,
    to_private_sum,
    to_ratio,
)
from metricldp.messages import counted, shown
from metricldp.quantiles import Cdf, Quantile
from metricldp.queries import Query, Where, attribute_of, parse, weight_of
from metricldp.readings import Reading, involved, read, read_one, read_pair, read_weighted
from metricldp.survey import Survey
from metricldp.weights import Weight


class Tally:
    """Reports of one survey, and answers from them.

    `layout` says how sums are found: "reports", "cells", "prefix", or "auto", which builds a table
    for a set of attributes once enough questions about them have come in. Every answer says in its
    own `layout` which it was.
    """

    def __init__(self, survey: Survey, table: pa.Table, layout: str = "auto") -> None:
        if layout not in layouts.LAYOUTS:
            raise QueryError(f"a layout is one of {', '.join(layouts.LAYOUTS)}, not {layout!r}")
        self.survey = survey
        self.layout = layout
        self._table = table
        self._tables: dict[tuple[str, ...], layouts.Table] = {}
        self._asked: Counter[tuple[str, ...]] = Counter()

    @classmethod
    def of(
        cls,
        survey: Survey,
        collected: pa.Table | str | Path | Sequence[bytes],
        *,
        refused: Counter[str] | None = None,
        layout: str = "auto",
    ) -> Tally:
        """From a table of reports, a Parquet file of them, or their bytes; strictly checked."""
        if isinstance(collected, str | Path):
            table = reports.read(survey, collected)
        elif isinstance(collected, list | tuple):
            table = reports.unpack(survey, collected, refused=refused)
        else:
            table = reports.check_table(survey, collected)
        return cls(survey, table, layout)

    @property
    def n(self) -> int:
        """How many people reported."""
        return int(self._table.num_rows)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if other.survey != self.survey:
            raise ReportRefused("survey", "tallies of two different surveys cannot be merged")
        merged = Tally(self.survey, pa.concat_tables([self._table, other._table]), self.layout)
        for names in self._tables.keys() & other._tables.keys():
            merged._tables[names] = self._tables[names] + other._tables[names]
        return merged

    def __radd__(self, other: object) -> Tally:
        """So that `sum` of many tallies works, which starts from 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.survey == other.survey
            and self.n == other.n
            and sorted(reports.pack(self.survey, self._table))
            == sorted(reports.pack(other.survey, other._table))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Tally of {counted(self.n, 'report')} to survey {self.survey.fingerprint[:16]}>"

    def save(self, path: str | Path) -> None:
        """Write the tally as a Parquet file of reports; `survey.tally(path)` loads it."""
        reports.write(self.survey, self._table, path)

    # Questions -----------------------------------------------------------------------------------

    def count(self, where: Where | None = None, *, about: str = RESPONDENTS) -> Answer:
        """How many people are in all the ranges and categories of the where-clause."""
        return self._answer(self._parsed(where), about)

    def counts(self, wheres: Sequence[Where], *, about: str = RESPONDENTS) -> list[Answer]:
        """Many counts; "auto" builds the tables that so many questions are worth."""
        queries = [self._parsed(where) for where in wheres]
        self._asked.update(tuple(involved(self.survey, query.functions)) for query in queries)
        return [self._answer(query, about) for query in queries]

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
        return replace(self._answer(query, about), unit=attribute)

    def weighted(self, where: Where | None = None, *, weight: str | None = None) -> Answer:
        """The sum of a weight over the people of the where-clause; name it if there are several."""
        name, described = weight_of(self.survey, weight)
        query = self._parsed(where)
        question = f"{name} among {query.words}"
        if described.clear:
            return self._weighted_in_the_clear(name, query, question)
        readings = read_weighted(self.survey, query.functions, name, described.ends)
        sums = layouts.from_reports(self._batches(_names(readings)), readings, 4)
        answer = to_private_sum(sums, readings, self.n, name, described.ends, question=question)
        return replace(answer, notes=query.notes)

    def _weighted_in_the_clear(self, name: str, query: Query, question: str) -> Answer:
        readings = read(self.survey, query.functions)
        batches = self._batches([*_names(readings), name])
        weights = layouts.Weights(name, (1, 2, 2))
        sums = layouts.from_reports(batches, readings, 3, weights)
        squares = [np.square(batch[name]) for batch in batches]
        largest = sorted(float(square) for part in squares for square in _largest(part, UNSEEN))
        total = math.fsum(float(part.sum()) for part in squares)
        bounds = kept_between(readings, total, unseen=sum(largest[-UNSEEN:]))
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
        sums, layout = self._sums(readings, 8)
        ratio = to_ratio(
            sums,
            readings,
            self.n,
            question=query.words,
            unit=attribute,
            notes=query.notes,
            layout=layout,
        )
        if not any(self.survey.attributes[reading.name].rounds for reading in readings):
            return ratio
        # Rounding at random hides part of a covariance, but not of the values less their mean.
        inside = group.functions.get(attribute, np.ones(len(query.functions[attribute])))
        above = query.functions[attribute] - ratio.value * inside
        residual = replace(query, functions={**query.functions, attribute: above})
        return ratio.with_residual(self._answer(residual, RESPONDENTS).stderr ** 2)

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
        if attribute in query.functions:
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
        # One at a time: all bars together would be a matrix of size x size.
        bars = (((first <= grid) & (grid <= last)).astype(np.float64) for first, last in ends)
        answers = self.profile(attribute, query, bars, labels, about=about)
        named = isinstance(described, Ordinal | Categorical)
        return Histogram(attribute, labels, tuple(answers), named)

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
        plain = read(self.survey, group.functions)
        rest = [reading for reading in plain if reading.name != attribute]
        channel = self.survey.channels[attribute]
        inside = group.functions.get(attribute, np.ones(channel.size))
        batches = self._batches([*_names(rest), attribute])
        sums = layouts.opened(batches, rest, attribute, channel, 3)
        answers = []
        for function, label in zip(functions, labels, strict=True):
            reading = read_one(self.survey, attribute, function * inside)
            found = (reading.coefficients * sums).sum(axis=1)
            answers.append(
                to_answer(
                    found,
                    [*rest, reading],
                    self.n,
                    question=label,
                    about=about,
                    notes=group.notes,
                    layout="reports",
                )
            )
        return answers

    def _cdf(self, attribute: str, where: Where | None, *, literal: bool) -> Cdf:
        described: Attribute = attribute_of(self.survey, attribute)
        query = self._parsed(where)
        group = quantiles.Group(attribute, described, query, self.n, literal)
        return group.to_cdf(self.profile(attribute, query, group.functions(), group.labels))

    # Sums ----------------------------------------------------------------------------------------

    def _parsed(self, where: Where | None) -> Query:
        query = parse(self.survey, where)
        return query if self.n else replace(query, notes=(*query.notes, "no reports yet"))

    def _answer(self, query: Query, about: str) -> Answer:
        readings = read(self.survey, query.functions)
        sums, layout = self._sums(readings, 3)
        return to_answer(
            sums,
            readings,
            self.n,
            question=query.words,
            about=about,
            notes=query.notes,
            layout=layout,
        )

    def _valued(self, attribute: str, where: Where | None) -> tuple[Query, Query]:
        """The query of an attribute's values over a group, and the group's own."""
        described: Attribute = attribute_of(self.survey, attribute)
        group = self._parsed(where)
        values, note = described.numbers(attribute)
        inside = group.functions.get(attribute, np.ones(described.size))
        functions = {**group.functions, attribute: values * inside}
        notes = (*group.notes, note) if note else group.notes
        return Query(functions, f"{attribute} among {group.words}", notes), group

    def _sums(self, readings: list[Reading], rows: int) -> tuple[Floats, str]:
        """The sum over people of every row's product, and the layout it came from."""
        if not readings:
            return np.full(rows, float(self.n)), "reports"
        names = _names(readings)
        self._asked[names] += 1
        layout = self._layout_for(names)
        if layout == "reports":
            terms = Terms.of(readings, rows) if self._asked[names] > 2 else None
            if terms is not None:
                return self._bit_columns.sums(terms), layout
            return layouts.from_reports(self._batches(names), readings, rows), layout
        if names not in self._tables:
            channels = {name: self.survey.channels[name] for name in names}
            self._tables[names] = layouts.build(self._batches(names), channels)
        table = self._tables[names]
        if layout == "cells":
            return table.from_cells(readings), layout
        return table.from_prefixes(readings), layout

    @cached_property
    def _bit_columns(self) -> BitColumns:
        """The reports turned by 90 degrees, once so many questions are asked that it pays."""
        channels = {n: c for n, c in self.survey.channels.items() if isinstance(c, BitChannel)}
        return BitColumns(channels, self._batches(list(channels)), self.n)

    def _layout_for(self, names: tuple[str, ...]) -> str:
        channels = [self.survey.channels[name] for name in names]
        if self.layout == "auto":
            if names in self._tables or layouts.worth_a_table(channels, self._asked[names]):
                return "prefix"
            return "reports"
        if self.layout != "reports":
            layouts.check_size(channels, names)
        return self.layout

    def _batches(self, names: Sequence[str]) -> list[Batch]:
        return list(reports.batches(self._table.select(list(names))))


def _names(readings: list[Reading]) -> tuple[str, ...]:
    return tuple(reading.name for reading in readings)


def _largest(values: Floats, count: int) -> Floats:
    """The few largest values, in any order."""
    return values if len(values) <= count else np.partition(values, -count)[-count:]
