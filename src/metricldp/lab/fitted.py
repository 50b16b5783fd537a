"""Distributions that are fitted to reports, in a comparison.

They are biased, and the bias does not fall with the number of people as noise does. So no error is
computed for them, and a sample would say nothing of everybody: all people are simulated. Square
Wave read by EM and EMS and PriPL-Tree are for one attribute, HDG is for several, with fine grids or
PriPL-Trees for each. Unbiased counts of values that are post-processed are biased as well, and so
are fits of a survey's own reports.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from metricldp.answers.tally import Tally
from metricldp.attributes.base import Attribute
from metricldp.basics.errors import QueryError
from metricldp.lab.contest import Contender, Entry
from metricldp.lab.crowd import Crowd, Questions
from metricldp.lab.peers import postprocess
from metricldp.lab.peers.grids import collected
from metricldp.lab.peers.pripl import pripl_tree
from metricldp.lab.peers.reconstruct import expectation_maximisation
from metricldp.lab.peers.waves import drawn_waves
from metricldp.mechanisms import Floats, IntegerChannel
from metricldp.mechanisms.base import ANY_TWO
from metricldp.mechanisms.randomness import Randomness
from metricldp.reports.arrow import to_table
from metricldp.store.raw import Raw

_MOST = 256
"""Positions of an attribute up to which it is quick enough."""
_FEWEST = 100
"""People below which there is nothing to fit."""
_MOST_FITTED = 1 << 22
"""Cells, of reports of bits times people, up to which a survey's own reports are fitted."""
_NEARLY_NONE = 1e-12
"""The variance that is taken for none."""
_Shares = Callable[[Crowd, Questions, float, np.random.Generator], Floats]


@dataclass(frozen=True)
class Fitted:
    """One epsilon between any two people, and a share for each question, with new coins."""

    contender: Contender
    epsilon: Fraction
    shares: _Shares

    @property
    def mechanism(self) -> str:
        return self.contender.mechanism

    @property
    def step(self) -> float:
        return float(self.epsilon)

    width = step

    def errors(
        self, crowd: Crowd, asked: Questions, repetitions: int, rng: np.random.Generator
    ) -> Floats:
        """Of every answer, (repetitions, questions): everybody's reports are drawn anew."""
        drawn = [self.shares(crowd, asked, self.step, rng) for _ in range(repetitions)]
        return crowd.n * np.array(drawn) - crowd.truth(asked)


def _wave(
    crowd: Crowd, asked: Questions, epsilon: float, rng: np.random.Generator, *, smooth: bool
) -> Floats:
    ((name, positions),) = crowd.positions.items()
    found = drawn_waves(positions, crowd.attributes[name].size, epsilon, rng)
    return np.asarray(asked.functions[name] @ expectation_maximisation(*found, smooth=smooth))


def _pripl(crowd: Crowd, asked: Questions, epsilon: float, rng: np.random.Generator) -> Floats:
    ((name, positions),) = crowd.positions.items()
    found = pripl_tree(positions, crowd.attributes[name].size, epsilon, rng)
    return np.asarray(asked.functions[name] @ found)


def _hdg(
    crowd: Crowd, asked: Questions, epsilon: float, rng: np.random.Generator, **more: Any
) -> Floats:
    sizes = [attribute.size for attribute in crowd.attributes.values()]
    found = collected(list(crowd.positions.values()), sizes, epsilon, rng, **more)
    return found.shares([asked.functions[name] for name in crowd.attributes])


_ALONE: tuple[tuple[Contender, _Shares], ...] = (
    (
        Contender("square-wave", "Square Wave, EM", ANY_TWO, "Li et al. 2020"),
        partial(_wave, smooth=False),
    ),
    (
        Contender("square-wave", "Square Wave, EMS", ANY_TWO, "Li et al. 2020"),
        partial(_wave, smooth=True),
    ),
    (Contender("pripl-tree", "PriPL-Tree", ANY_TWO, "Wang et al. 2024"), _pripl),
)


_TOGETHER: tuple[tuple[Contender, _Shares], ...] = (
    (Contender("hdg", "HDG", ANY_TWO, "Yang et al. 2020"), _hdg),
    (
        Contender("pripl-tree", "PriPL-Trees, HDG's grids", ANY_TWO, "Wang et al. 2024, in part"),
        partial(_hdg, alone=pripl_tree),
    ),
)


def fitted(attributes: Mapping[str, Attribute], people: int) -> Iterator[Fitted]:
    """Those that serve attributes with an order: at the smallest distance, between any two people.

    Several attributes together have it once for the whole person, or once for each.
    """
    few = all(a.ordered and a.size <= _MOST for a in attributes.values())
    if not few or people < _FEWEST:
        return
    steps = [a.distances.smallest(a.size) for a in attributes.values()]
    if len(attributes) == 1:
        for contender, shares in _ALONE:
            yield Fitted(contender, steps[0], shares)
        return
    for epsilon, told in ((min(steps), "epsilon in all"), (sum(steps), "D times epsilon")):
        for contender, shares in _TOGETHER:
            title = f"{contender.title}, {told}"
            yield Fitted(replace(contender, title=title), Fraction(epsilon), shares)


def refitted(
    own: Entry, crowd: Crowd, asked: Questions, repetitions: int, randomness: Randomness
) -> Floats | None:
    """The errors of a survey's own answers from fits of its reports; None where that takes long."""
    survey, names = own.survey, list(asked.attributes)
    cells = math.prod(attribute.size for attribute in survey.attributes.values())
    bits = not all(isinstance(channel, IntegerChannel) for channel in survey.tabled.values())
    known = len(survey.tabled) == len(survey.channels) + len(survey.blocks)
    if not known or crowd.n < _FEWEST or cells * (crowd.n if bits else 1) > _MOST_FITTED:
        return None
    found = []
    for _ in range(repetitions):
        columns = {
            name: channel.sample(crowd.positions[name], randomness)
            for name, channel in survey.channels.items()
        }
        for block in survey.blocks.values():
            drawn = block.channel.sample(
                [crowd.positions[name] for name in block.names], randomness
            )
            columns |= {block.columns[part]: column for part, column in drawn.items()}
        tally = Tally(Raw(survey, to_table(survey, columns)))
        found.append(tally.fit_distribution(names).values(asked.functions))
    return np.array(found) - crowd.truth(asked)


def post_processed(
    own: Entry, crowd: Crowd, asked: Questions, repetitions: int, randomness: Randomness
) -> Iterator[tuple[Entry, Floats]]:
    """The errors of a survey's counts of one attribute, post-processed in each of ten ways.

    All from the same reports. What changes nothing is left out, as Norm where counts add up
    already, and what does not work as no count is above 0; so are attributes of many values.
    """
    ((name, channel),) = own.survey.channels.items()
    if channel.size > _MOST:
        return
    person = np.eye(channel.size)
    found = (
        channel.moments.coefficients(person) @ own.totals(crowd, name, repetitions, randomness)
    ).T
    added = channel.moments.second_moment(person) - person
    with_it = float(added.diagonal().mean())
    without = float(added[person == 0].mean())
    deviation = math.sqrt(crowd.n * max(without, _NEARLY_NONE))
    more = {"base_pos": (), "base_cut": (deviation,), "mle_apx": (crowd.n, without, with_it)}
    more |= dict.fromkeys(("power", "power_ns"), (crowd.n, deviation))
    truth, ranges = crowd.truth(asked), asked.functions[name].T
    before = found @ ranges
    drawn = {"Post-Pos": np.maximum(before, 0.0)}
    for method, title in postprocess.TITLES.items():
        with contextlib.suppress(QueryError):
            process = getattr(postprocess, method)
            given = more.get(method, (crowd.n,))
            drawn[title] = np.array([process(counts, *given) for counts in found]) @ ranges
    for title, answers in drawn.items():
        if not np.allclose(answers, before):
            yield replace(own, contender=replace(own.contender, title=title)), answers - truth
