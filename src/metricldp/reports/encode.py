"""Encoding: a table of people to a table of reports, batch by batch."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from metricldp.mechanisms import Column
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import round_at_random
from metricldp.reports.arrow import BATCH, to_table
from metricldp.reports.columns import checked
from metricldp.reports.shuffle import random_order
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    import pyarrow as pa


def encode(
    survey: Agreement,
    people: Any,
    *,
    randomness: Randomness | None = None,
    clip: bool = False,
    shuffle: bool = False,
) -> pa.Table:
    """Blur a table of people. All values are checked before the first coin is drawn.

    Reports stand in the order of the people, or in a random one.
    """
    found = checked(survey, people, clip=clip)
    source = randomness or Randomness()
    columns = {}
    for name, column in found.items():
        block = survey.block_of(name)
        if survey.attributes[name].is_public:
            columns[name] = column.view(np.float64)
        elif block is None:
            columns[name] = _encode_column(survey, name, column, source)
        elif name == block.names[0]:
            blurred = block.channel.sample([found[other] for other in block.names], source)
            columns |= {block.columns[part]: column for part, column in blurred.items()}
    if shuffle:
        order = random_order(len(next(iter(columns.values()))), source)
        columns = {name: column[order] for name, column in columns.items()}
    return to_table(survey, columns)


def _encode_column(
    survey: Agreement, name: str, positions: npt.NDArray[np.int64], randomness: Randomness
) -> Column:
    """Batch by batch; where there are several, each has coins of its own, for any order."""
    channel = survey.channels[name]
    column = channel.field.empty(len(positions))
    jobs = []
    for start in range(0, len(positions), BATCH):
        batch = slice(start, start + BATCH)
        own = randomness.spawn() if len(positions) > BATCH else randomness
        jobs.append(partial(_encode_batch, survey, name, positions[batch], column[batch], own))
    # Integers are drawn in steps so short that threads would mostly wait for each other.
    threads = min(_cores(), len(jobs)) if channel.is_bits else 1
    if threads <= 1:
        for job in jobs:
            job()
    else:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
    return column


def _encode_batch(
    survey: Agreement,
    name: str,
    positions: npt.NDArray[np.int64],
    column: Column,
    randomness: Randomness,
) -> None:
    if survey.attributes[name].rounded_at_random:
        positions = round_at_random(randomness, positions)
    column[:] = survey.channels[name].sample(positions, randomness)


def _cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
