"""A count for every pair of groups of two attributes, from one table of the reports.

A cell is a product of two functions, so its decoders are products, too: those of the bars of each
attribute are made once, and all cells come out of two products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metricldp.answers.answer import Estimate
from metricldp.answers.asking import Asking
from metricldp.answers.by import Cells
from metricldp.answers.conditions import Where
from metricldp.answers.estimate import to_answers
from metricldp.answers.predict import variance_bounds
from metricldp.answers.queries import Query, asked_of, if_answered, parse
from metricldp.basics.errors import QueryError
from metricldp.mechanisms import Floats
from metricldp.store import cubes
from metricldp.store.extremes import Extremes
from metricldp.store.readings import Readings, attribute_of, involved, read, read_one


def counts_of_cells(
    tally: Asking, cells: Cells, where: Where | None, target: str
) -> list[Estimate] | None:
    """How many respondents are in every pair of groups of two attributes, row by row.

    None where there is no table of the reports; then each cell is a query of its own.
    """
    rows, columns = cells.bars
    names = rows.name, columns.name
    group = _group(tally, names, where)
    functions = [np.array([bar.inside for bar in one.chosen], float) for one in cells.bars]
    found = _from_table(tally, names, functions, group, target)
    if found is None:
        return None
    labels = [f"{a.words}, {columns.name} {b.words}" for a in rows.chosen for b in columns.chosen]
    words = asked_of(rows.name, labels, group)
    return [replace(one, question=text) for one, text in zip(found, words, strict=True)]


def table_names(
    tally: Asking, names: tuple[str, str], group: Query, cells: int
) -> tuple[str, ...] | None:
    """The attributes of a table for so many cells; None if one pass for each cell is faster."""
    survey = tally.survey
    needed = tuple(involved(survey, (*group.factors, *names)))
    if not all(name in survey.channels for name in needed):
        return None
    channels = [survey.channels[name] for name in needed]
    return needed if cubes.worth_a_table(channels, cells) else None


def _group(tally: Asking, names: tuple[str, str], where: Where | None) -> Query:
    first, second = names
    if first == second:
        raise QueryError(f"a heat map is of two attributes, not of {first} and {first}")
    group = parse(tally.survey, where, first)
    for name in names:
        if attribute_of(tally.survey, name).is_weight:
            raise QueryError(f"{name} is a weight; use its sum")
        if name in group.factors:
            raise QueryError(f"{name} is an axis of the heat map; leave it out of where")
    return replace(group, factors={**group.factors, **if_answered(tally.survey, second)})


def _from_table(
    tally: Asking, names: tuple[str, str], functions: list[Floats], group: Query, target: str
) -> list[Estimate] | None:
    counts = [len(function) for function in functions]
    needed = table_names(tally, names, group, math.prod(counts))
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
    pairs = [_spread(sides[0].pairs(), counts, 0), _spread(sides[1].pairs(), counts, 1)]
    others = [_spread([pair], [1, counts[0] * counts[1]], 0) for pair in rest.pairs()]
    steps = _all_cells(sides[0].extremes(), counts, 0).times(
        _all_cells(sides[1].extremes(), counts, 1)
    )
    steps = steps.times(rest.extremes())
    asked = [("", group.notes)] * len(sums["value"])
    bounds = variance_bounds([*others, *pairs])
    found = to_answers(sums, bounds, steps, tally.n, asked, target=target, layout="cells")
    cells = [{names[0]: row, names[1]: column} for row in functions[0] for column in functions[1]]
    queries = [replace(group, factors={**group.factors, **cell}) for cell in cells]
    return list(map(tally._bracketed, queries, found))


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
