"""Which attributes to blur as one: the partition with the smallest predicted error.

For attributes that will be asked about together, the questions are all ranges of each, in all
combinations (values, where there is no order). One person adds prod_d S_d - prod_d f_d^2 to the
variance of such a question; its mean over all questions, and people spread evenly, is the product
of the mean squares of what is blurred apart, less the mean of f^2. Attributes may be one block that
are linked by being asked together; every partition into such blocks is weighed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from metricldp.answers.predict import predicted
from metricldp.answers.queries import parse
from metricldp.attributes.base import Attribute
from metricldp.basics.checks import is_list
from metricldp.basics.errors import SurveyError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, listed, shown
from metricldp.design import registry
from metricldp.design.plans import workload_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import Block

MOST_TOGETHER = 3
"""Attributes in one block."""
MOST_CELLS = 1024
"""Cells of a block that is tried: its errors are exact, and found in seconds."""
MOST_BLURRED_AS_ONE = 6
"""Attributes that are parted in all ways."""
Names = tuple[str, ...]


def best_blocks(attributes: Mapping[str, Attribute], together: Any = None) -> dict[Names, Any]:
    """The blocks of the best partition, with what was found for each; none where apart is best.

    `together` lists sets of attributes that will be asked about together, or where-clauses, each
    alone or with a weight, as a pair. Left out, it is every attribute alone and every pair.
    """
    apart = Agreement(attributes)
    free = [name for name in attributes if _may_join(attributes[name], apart, name)]
    if together is None:
        together = [*((name,) for name in free), *combinations(free, 2)]
    asked = [_checked(one, apart) for one in (together if is_list(together) else [together])]
    if len(free) > MOST_BLURRED_AS_ONE:
        named = {name for names, _, _ in asked for name in names if len(names) > 1}
        free = [name for name in free if name in named]
    if len(free) > MOST_BLURRED_AS_ONE:
        raise SurveyError(
            f'joint="auto" parts up to {MOST_BLURRED_AS_ONE} attributes, not {len(free)}; name '
            "in together= which are asked about together, or state the blocks"
        )
    blocks: dict[Names, Block] = {}
    for names in _candidates(free, asked, apart):
        described = {name: attributes[name] for name in names}
        blocks |= {names: Agreement(described, joint=[names]).blocks["+".join(names)]}
    found: list[tuple[float, int, dict[Names, Any]]] = []
    for partition in _partitions(list(blocks)):
        joint = {names: blocks[names].mechanism for names in partition}
        survey = Agreement({**apart.asked, **_undecided(attributes, partition)}, joint=joint)
        total = sum(weight * _variance(survey, names, where) for names, where, weight in asked)
        found.append((total, len(found), joint))
    return min(found)[2]


def _undecided(attributes: Mapping[str, Attribute], partition: Iterable[Names]) -> dict[str, Any]:
    """Attributes of blocks as they were stated, without a mechanism of their own."""
    return {name: attributes[name] for names in partition for name in names}


def _may_join(attribute: Attribute, apart: Agreement, name: str) -> bool:
    """Whether an attribute can be part of a block of shaped noise."""
    if (
        attribute.mechanism != registry.AUTO
        or attribute.undecided
        or attribute.optional is not None
    ):
        return False
    if attribute.is_public or attribute.is_weight or attribute.rounded_at_random:
        return False
    return apart.kept[name].by_difference(attribute.size) is not None


def _checked(said: Any, survey: Agreement) -> tuple[Names, Mapping[str, Any] | None, float]:
    """Attributes, the where-clause if it is one, and a weight."""
    weight = 1.0
    if is_list(said) and len(said) == 2 and is_number(said[1]):
        said, weight = said[0], float(said[1])
        if not 0 < weight < math.inf:
            raise SurveyError(f"a weight in together= is a number above 0, not {shown(weight)}")
    names = (said,) if isinstance(said, str) else said
    if not isinstance(names, Mapping) and not is_list(names):
        raise SurveyError(
            "together= lists sets of attributes, such as ('age', 'hours'), or where-clauses, each "
            f"alone or with a weight, not {shown(said)}"
        )
    for name in names:
        if name not in survey.asked:
            there = f"{listed(survey.asked)}{guess(name, survey.asked)}"
            raise SurveyError(f"together= names {shown(name)}; the survey has {there}")
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


def _variance(survey: Agreement, names: Names, where: Mapping[str, Any] | None) -> float:
    """What a person adds to the variance: of one question, or in the mean over all of them."""
    if where is not None:
        return predicted(survey, parse(survey, where), 1, "uniform") ** 2
    squares, known = 1.0, 1.0
    grams = {}
    for name in names:
        attribute = survey.attributes[name]
        usual = workload_of("ranges" if attribute.ordered else "values", attribute.size)
        grams[name] = usual.gram() / usual.rows
        known *= float(np.trace(grams[name])) / attribute.size
        if name in survey.channels:
            squares *= survey.channels[name].mean_square(grams[name])
    for block in survey.blocks.values():
        if set(names) & set(block.names):
            assert block.channel.one is not None
            gram = np.ones((1, 1))
            for name, size in zip(block.names, block.sizes, strict=True):
                gram = np.asarray(np.kron(gram, grams.get(name, np.ones((size, size)))))
            squares *= block.channel.one.mean_square(gram)
    return squares - known
