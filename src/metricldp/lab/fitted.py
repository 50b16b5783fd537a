"""Distributions that are fitted to reports, in a comparison: Square Wave, read by EM and EMS.

They are biased, and the bias does not fall with the number of people as noise does. So no error is
computed for them, and a sample would say nothing of everybody: all people are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.channels import Floats
from metricldp.channels.mechanism import ANY_TWO
from metricldp.lab.contest import Contender, Entry, entries
from metricldp.lab.crowd import Crowd, Questions
from metricldp.lab.peers.reconstruct import expectation_maximisation

_MOST = 256
_SOURCE = "Li et al. 2020"


@dataclass(frozen=True)
class Fitted(Entry):
    """Square Wave for one attribute with an order, fitted with or without smoothing."""

    smooth: bool

    def errors(
        self, crowd: Crowd, asked: Questions, repetitions: int, rng: np.random.Generator
    ) -> Floats:
        """Of every answer, (repetitions, questions): everybody's reports are drawn anew for each.

        How often each report comes is drawn at once for all people with the same value.
        """
        ((name, channel),) = self.survey.channels.items()
        law = channel.mean(np.eye(channel.outputs)).T  # type: ignore[attr-defined]
        people = np.bincount(crowd.positions[name], minlength=channel.size)
        found = []
        for _ in range(repetitions):
            counts = rng.multinomial(people, law / law.sum(axis=1, keepdims=True)).sum(axis=0)
            shares = expectation_maximisation(channel, counts, smooth=self.smooth)  # type: ignore[arg-type]
            found.append(asked.functions[name] @ (crowd.n * shares - people))
        return np.array(found)


def fitted(attributes: Mapping[str, Attribute]) -> Iterator[Fitted]:
    """With one epsilon between any two values: the smallest distance of the attribute."""
    if len(attributes) == 1 and all(a.ordered for a in attributes.values()):
        for title, smooth in {"Square Wave, EM": False, "Square Wave, EMS": True}.items():
            wave = Contender("square-wave", title, ANY_TWO, _SOURCE, _MOST)
            for entry in entries(attributes, [wave]):
                yield Fitted(entry.contender, entry.survey, smooth)
