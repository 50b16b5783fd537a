"""Tallies of simulated people without their reports: tables with the very law that theirs have.

A table of counts is drawn attribute by attribute from how many people are where, so a million of
them cost no more than a thousand.
"""

import numpy as np
from crowd_sums import chances, features

from metricldp.answers.tally import Tally
from metricldp.store.cubes import Table
from metricldp.store.totals import Totals


def tallied(survey, people, rng):
    """A tally of people, an array of counts with an axis for each attribute of the survey.

    Attributes that are blurred as one have one axis together. Bits are for one attribute alone.
    """
    names = tuple(survey.tabled)
    channels = [survey.tabled[name] for name in names]
    sums = np.asarray(people).reshape([channel.size for channel in channels])
    n = int(sums.sum())
    if len(channels) == 1:
        places = [((int(x),), int(sums[x])) for x in np.flatnonzero(sums)]
        sums = features(channels[0], places, 1, rng)[0]
    else:
        for axis, channel in enumerate(channels):
            sums = np.moveaxis(blurred(channel, np.moveaxis(sums, axis, -1), rng), -1, axis)
    store = Totals(survey, [names])
    store._tables[names] = Table(dict(zip(names, channels, strict=True)), sums.astype(np.int64))
    store._n = n
    return Tally(store)


def blurred(channel, counts, rng):
    """Reports of people along the last axis."""
    law = chances(channel)
    found = np.zeros((*counts.shape[:-1], channel.outputs), dtype=np.int64)
    where = np.argwhere(counts)
    for start in range(0, len(where), 2048):
        some = tuple(where[start : start + 2048].T)
        np.add.at(found, some[:-1], rng.multinomial(counts[some], law[some[-1]]))
    return found
