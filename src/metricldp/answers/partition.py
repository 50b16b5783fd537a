"""Which attributes to blur as one: the partition with the smallest predicted error.

For attributes that will be asked about together, the questions are all ranges of each, in all
combinations (values, where there is no order). One person adds prod_d S_d - prod_d f_d^2 to the
variance of such a question; its mean over all questions, and people spread evenly, is the product
of the mean squares of what is blurred apart, less the mean of f^2. Attributes may be one block that
are linked by being asked together; every partition into such blocks is weighed.

The search for a large block is long. Where there are several, each is judged by what a tenth of it
finds, with an exact error, which is a little above what all of it would find; then those that were
chosen are searched for in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from metricldp.answers.predict import predicted
from metricldp.answers.queries import parse
from metricldp.attributes.base import Attribute
from metricldp.basics.checks import is_list
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_number
from metricldp.basics.progress import Progress, part_of, silent
from metricldp.basics.text import guess, listed, shown
from metricldp.mechanisms import Floats, registry
from metricldp.mechanisms.effort import DEFAULT, Effort
from metricldp.mechanisms.joint_cells import Cells
from metricldp.mechanisms.stated import workload_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block, distributions_of

MOST_TOGETHER = 3
"""Attributes in one block."""
MOST_CELLS, MOST_IN_ALL = 1 << 14, 1 << 17
"""Cells of a block that is tried, and of all of them that are large: the exact error takes a second
for two thousand."""
_LARGE, _TRIED = 1024, 0.1
"""Cells beyond which a search is long, and the part of it that has to do where there are more."""
MOST_BLURRED_AS_ONE = 6
"""Attributes that are parted in all ways."""
Names = tuple[str, ...]


def best_blocks(
    attributes: Mapping[str, Attribute],
    together: Any = None,
    effort: Effort = DEFAULT,
    progress: Progress = silent,
) -> dict[Names, Block]:
    """The blocks of the best partition; none where apart is best.

    `together` lists sets of attributes that will be asked about together, or where-clauses, each
    alone or with a weight, as a pair. Left out, it is every attribute alone and every pair.
    """
    apart = Agreement(attributes, effort=effort)
    free = [name for name in attributes if _may_join(attributes[name], apart, name)]
    if together is None:
        together = [*((name,) for name in free), *combinations(free, 2)]
    asked = [_checked(one, apart) for one in (together if is_list(together) else [together])]
    if len(free) > MOST_BLURRED_AS_ONE:
        named = {name for names, _, _ in asked for name in names if len(names) > 1}
        free = [name for name in free if name in named]
    if len(free) > MOST_BLURRED_AS_ONE:
        raise InvalidSpecError(
            f'joint="auto" parts up to {MOST_BLURRED_AS_ONE} attributes, not {len(free)}; name '
            "in together= which are queried together, or state the groups"
        )
    tried = list(_candidates(free, asked, apart))
    cells = {names: math.prod(apart.attributes[name].size for name in names) for names in tried}
    large = [names for names in tried if cells[names] > _LARGE]
    if sum(cells[names] for names in large) > MOST_IN_ALL:
        raise InvalidSpecError(
            f'joint="auto" would try {len(large)} large groups, of more than {MOST_IN_ALL:,} cells '
            "together; name in together= which attributes are queried together"
        )
    blocks: dict[Names, Block] = {}

    def search(names: Names, place: int, scale: float) -> None:
        described = {name: attributes[name] for name in names}
        part = replace(effort, scale=scale * effort.scale)
        report = part_of(progress, place, len(tried) + 1)
        survey = Agreement(described, joint=[names], effort=part, progress=report)
        blocks[names] = survey.blocks["+".join(names)]

    briefly = large if len(large) > 1 else []
    for place, names in enumerate(tried):
        search(names, place, _TRIED if names in briefly else 1.0)
    square = cache(lambda names, those: _mean_square(apart, blocks[names], those))
    found: list[tuple[float, int, list[Names]]] = []
    for partition in _partitions(tried):
        total = 0.0
        for names, where, weight in asked:
            if where is not None:
                joint = {some: blocks[some].group for some in partition}
                described = {name: attributes[name] for some in partition for name in some}
                stored = {k: v for k, v in apart.distributions.items() if k not in described}
                stored |= distributions_of(blocks[some] for some in partition)
                survey = Agreement({**apart.asked, **described}, joint=joint, stored=stored)
                total += weight * predicted(survey, parse(survey, where), 1, "uniform") ** 2
            else:
                total += weight * _variance(apart, names, partition, square)
        found.append((total, len(found), partition))
    best = min(found)[2]
    for names in set(best) & set(briefly):
        search(names, len(tried), 1.0)
    progress(1.0)
    return {names: blocks[names] for names in best}


def _may_join(attribute: Attribute, apart: Agreement, name: str) -> bool:
    """Whether an attribute can be part of a block of additive noise."""
    if (
        attribute.mechanism != registry.AUTO
        or attribute.undecided
        or attribute.optional is not None
    ):
        return False
    if attribute.is_public or attribute.is_weight or attribute.rounded_at_random:
        return False
    return apart.problems[name].metric.by_difference(attribute.size) is not None


def _checked(said: Any, survey: Agreement) -> tuple[Names, Mapping[str, Any] | None, float]:
    """Attributes, the where-clause if it is one, and a weight."""
    weight = 1.0
    if is_list(said) and len(said) == 2 and is_number(said[1]):
        said, weight = said[0], float(said[1])
        if not 0 < weight < math.inf:
            raise InvalidSpecError(
                f"a weight in together= is a number above 0, not {shown(weight)}"
            )
    names = (said,) if isinstance(said, str) else said
    if not isinstance(names, Mapping) and not is_list(names):
        raise InvalidSpecError(
            "together= lists sets of attributes, such as ('age', 'hours'), or where-clauses, each "
            f"alone or with a weight, not {shown(said)}"
        )
    for name in names:
        if name not in survey.asked:
            there = f"{listed(survey.asked)}{guess(name, survey.asked)}"
            raise InvalidSpecError(f"together= names {shown(name)}; the survey has {there}")
    found = tuple(name for name in survey.asked if name in names)
    return found, said if isinstance(said, Mapping) else None, weight


def _candidates(
    free: Sequence[str], asked: Iterable[tuple[Names, Any, float]], survey: Agreement
) -> Iterator[Names]:
    """Sets of attributes that are linked by being asked together, and have few cells."""
    pairs = {pair for names, _, _ in asked for pair in combinations(names, 2)}
    for count in range(2, MOST_TOGETHER + 1):
        for names in combinations(free, count):
            cells = math.prod(survey.attributes[name].size for name in names)
            links = sum(pair in pairs for pair in combinations(names, 2))
            if cells <= MOST_CELLS and links >= count - 1:
                yield names


def _partitions(blocks: Sequence[Names]) -> Iterator[list[Names]]:
    """All choices of blocks that have no attribute in common."""
    if not blocks:
        yield []
        return
    first, *others = blocks
    yield from _partitions(others)
    rest = [names for names in others if not set(names) & set(first)]
    for partition in _partitions(rest):
        yield [first, *partition]


def _gram(apart: Agreement, name: str) -> Floats:
    """Of all ranges of an attribute, or of its values: of a question drawn from them."""
    attribute = apart.attributes[name]
    usual = workload_of("ranges" if attribute.ordered else "values", attribute.size)
    return usual.gram() / usual.rows


def _mean_square(apart: Agreement, block: Block, names: frozenset[str]) -> float:
    """Of the questions about some attributes of a block, in the mean over people spread evenly."""
    sides = zip(block.names, block.sizes, strict=True)
    grams = [_gram(apart, n) if n in names else np.ones((size, size)) for n, size in sides]
    assert isinstance(block.channel, Cells)
    return block.channel.mean_square(grams)


def _variance(
    apart: Agreement,
    names: Names,
    partition: Iterable[Names],
    square: Callable[[Names, frozenset[str]], float],
) -> float:
    """What a person adds to the variance, in the mean over all questions about some attributes."""
    squares, known, left = 1.0, 1.0, set(names)
    for name in names:
        known *= float(np.trace(_gram(apart, name))) / apart.attributes[name].size
    for block in partition:
        if those := left & set(block):
            squares *= square(block, frozenset(those))
            left -= those
    for name in left:
        squares *= apart.channels[name].moments.mean_square(_gram(apart, name))
    return squares - known
