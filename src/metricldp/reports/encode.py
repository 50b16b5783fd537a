"""Reports: what leaves the device, as Arrow tables, Parquet files and fixed-size byte strings.

Bytes of one report: the format version (1), the first 8 bytes of the survey's fingerprint, then the
fields of all attributes in order, bit after bit, lowest bit first, and zeros up to a whole byte.
Decoding is strict: whatever no device of this survey could have sent is refused with a reason.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metricldp.channels import BitChannel, Column
from metricldp.coins import loops as encoding
from metricldp.coins.draws import round_at_random
from metricldp.coins.stream import Coins
from metricldp.reports.arrow import BATCH, to_table
from metricldp.reports.people import checked
from metricldp.survey.agreement import Agreement

_PERSON = 64
"""Lanes that a report costs at the least, in time: an integer is drawn from about so many."""


# Encoding ----------------------------------------------------------------------------------------


def encode(
    survey: Agreement,
    people: Any,
    *,
    coins: Coins | None = None,
    clip: bool = False,
) -> pa.Table:
    """Blur a table of people. All values are checked before the first coin is drawn."""
    found = checked(survey, people, clip=clip)
    source = coins or Coins()
    columns = {}
    for name, column in found.items():
        if survey.attributes[name].is_public:
            columns[name] = column
        else:
            columns[name] = _encode_column(survey, name, column, source)
    return to_table(survey, columns)


def _encode_column(
    survey: Agreement, name: str, positions: npt.NDArray[np.int64], coins: Coins
) -> Column:
    """Batch by batch; where there are several, each has coins of its own, for any order."""
    channel = survey.channels[name]
    column = channel.field.empty(len(positions))
    encoding.expect(len(positions) * max(channel.bits, _PERSON))
    jobs = []
    for start in range(0, len(positions), BATCH):
        batch = slice(start, start + BATCH)
        own = coins.spawn() if len(positions) > BATCH else coins
        jobs.append(partial(_encode_batch, survey, name, positions[batch], column[batch], own))
    # Integers are drawn in steps so short that threads would mostly wait for each other.
    threads = min(_cores(), len(jobs)) if isinstance(channel, BitChannel) else 1
    if threads <= 1:
        for job in jobs:
            job()
    else:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
    return column


def _encode_batch(
    survey: Agreement, name: str, positions: npt.NDArray[np.int64], column: Column, coins: Coins
) -> None:
    if survey.attributes[name].rounded_at_random:
        positions = round_at_random(coins, positions)
    column[:] = survey.channels[name].encode(positions, coins)


def _cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
