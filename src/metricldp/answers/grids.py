"""A count for every pair of bars of two attributes: a heat map, from one table of the reports.

A cell is a product of two functions, so its decoders are products, too: those of the bars of each
attribute are made once, and all cells come out of two products of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import Grid
from metricldp.answers.conditions import Where
from metricldp.answers.estimate import RESPONDENTS, to_answers
from metricldp.answers.liars import one_report
from metricldp.answers.predict import variance_bounds
from metricldp.answers.queries import Query, asked_of, if_answered, parse
from metricldp.answers.tally import Tally
from metricldp.attributes.selection import Chosen
from metricldp.basics.errors import QueryError
from metricldp.channels import Floats
from metricldp.store import cubes
from metricldp.store.extremes import Extremes
from metricldp.store.readings import Readings, attribute_of, involved, read, read_one


def grid(
    tally: Tally,
    names: tuple[str, str],
    where: Where | None = None,
    *,
    widths: tuple[float | None, float | None] = (None, None),
    about: str = RESPONDENTS,
    table: bool = True,
) -> Grid:
    """How many people are in every pair of bars of two attributes, among those of `where`.

    Without a table, which takes long to make of many bits, every cell is a question of its own.
    """
    group = _group(tally, names, where)
    bars = [list(_bars(tally, name, width)) for name, width in zip(names, widths, strict=True)]
    rows, columns = ([bar.words for bar in one] for one in bars)
    functions = [np.array([bar.inside for bar in one], dtype=np.float64) for one in bars]
    found = _from_table(tally, names, functions, group, about) if table else None
    if found is None:
        found = _one_by_one(tally, names, functions, group, about)
    labels = [f"{row}, {names[1]} {column}" for row in rows for column in columns]
    words = asked_of(names[0], labels, group)
    found = [replace(one, question=said) for one, said in zip(found, words, strict=True)]
    kinds = [attribute_of(tally.survey, name) for name in names]
    down, across = (kind.edges_of(one) for kind, one in zip(kinds, bars, strict=True))
    return Grid(names, rows, columns, found, (down, across))


def table_names(tally: Tally, names: tuple[str, str], group: Query) -> tuple[str, ...] | None:
    """The attributes that a table for this has to hold; None where there can be no such table."""
    survey = tally.survey
    needed = tuple(involved(survey, (*group.factors, *names)))
    if not all(name in survey.channels for name in needed):
        return None
    channels = [survey.channels[name] for name in needed]
    fits = cubes.table_bytes(channels) <= cubes.MAX_TABLE_BYTES
    wide = np.prod([float(channel.largest) for channel in channels]) <= cubes.MAX_FEATURE_PRODUCT
    return needed if fits and wide else None


def _group(tally: Tally, names: tuple[str, str], where: Where | None) -> Query:
    first, second = names
    if first == second:
        raise QueryError(f"a heat map is of two attributes, not of {first} and {first}")
    group = parse(tally.survey, where, first)
    for name in names:
        if attribute_of(tally.survey, name).is_weight:
            raise QueryError(f"{name} is a weight; ask for its sum")
        if name in group.factors:
            raise QueryError(f"{name} is an axis of the heat map; leave it out of where")
    return replace(group, factors={**group.factors, **if_answered(tally.survey, second)})


def _bars(tally: Tally, name: str, width: float | None) -> Sequence[Chosen]:
    return list(attribute_of(tally.survey, name).bars(width, name))


def _from_table(
    tally: Tally, names: tuple[str, str], functions: list[Floats], group: Query, about: str
) -> list[Answer] | None:
    needed = table_names(tally, names, group)
    if needed is None:
        return None
    table = tally._table(needed)
    rest = read(tally.survey, group.functions)
    for name in names:
        rest = rest.without(name)
    sides = [read_one(tally.survey, n, f) for n, f in zip(names, functions, strict=True)]
    axes = list(table.channels)
    sums = {}
    for row in sides[0].rows:
        left, right = (side.named(side.parts[0].coefficients)[row] for side in sides)
        middle = _contracted(table.sums, axes, rest, row)
        if axes.index(names[0]) > axes.index(names[1]):
            middle = middle.T
        sums[row] = (left @ middle @ right.T).ravel()
    counts = [len(function) for function in functions]
    pairs = [_spread(sides[0].pairs(), counts, 0), _spread(sides[1].pairs(), counts, 1)]
    others = [_spread([pair], [1, counts[0] * counts[1]], 0) for pair in rest.pairs()]
    steps = _all_cells(sides[0].extremes(), counts, 0).times(
        _all_cells(sides[1].extremes(), counts, 1)
    )
    steps = steps.times(rest.extremes())
    asked = [("", group.notes)] * len(sums["value"])
    bounds = variance_bounds([*others, *pairs])
    found = to_answers(sums, bounds, steps, tally.n, asked, about=about, layout="cells")
    cells = [{names[0]: row, names[1]: column} for row in functions[0] for column in functions[1]]
    return [
        replace(
            one,
            lie=partial(one_report, tally.survey, {**group.functions, **cell}),
            survey=tally.survey,
        )
        for one, cell in zip(found, cells, strict=True)
    ]


def _contracted(sums: Any, axes: list[str], rest: Readings, row: str) -> Floats:
    """The table with the decoders of all other attributes applied: an axis for each of the two."""
    found: Floats = sums.astype(np.float64)
    for part in sorted(rest.parts, key=lambda part: -axes.index(part.name)):
        decoder = rest.named(part.coefficients)[row][0]
        found = np.tensordot(found, decoder, (axes.index(part.name), 0))
    return found


def _cells(rows: Floats, counts: list[int], side: int) -> Floats:
    """What is known of the bars of one side, for each cell."""
    return np.repeat(rows, counts[1], axis=0) if side == 0 else np.tile(rows, (counts[0], 1))


def _spread(
    pairs: Sequence[tuple[Floats, Floats]], counts: list[int], side: int
) -> tuple[Floats, Floats]:
    ((second, square),) = pairs
    return _cells(second, counts, side), _cells(square, counts, side)


def _all_cells(steps: Extremes, counts: list[int], side: int) -> Extremes:
    return Extremes(*(_cells(part[:, None], counts, side)[:, 0] for part in steps))


def _one_by_one(
    tally: Tally, names: tuple[str, str], functions: list[Floats], group: Query, about: str
) -> list[Answer]:
    """Where there is no table: a question for each cell."""
    cells = [{names[0]: row, names[1]: column} for row in functions[0] for column in functions[1]]
    queries = [replace(group, factors={**group.factors, **cell}) for cell in cells]
    return tally._answers(queries, about)
