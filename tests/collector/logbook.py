"""Logs of records to test with, and what an honest count of them is."""

import numpy as np

from metricldp import Categorical, Coins, Integer, Survey
from metricldp.reports.bytes import pack

SURVEY = Survey(
    {
        "age": Integer(0, 20, epsilon=1, mechanism="threshold"),
        "visits": Integer(0, 9, epsilon=1, mechanism="geometric"),
        "region": Categorical(["north", "south", "east"], epsilon=1),
    }
)
KEEP = [["age"], ["visits", "region"]]


def records(n, seed=1):
    """Records of so many people: an id and a report each."""
    rng = np.random.default_rng(seed)
    people = {
        "age": rng.integers(0, 21, n),
        "visits": rng.integers(0, 10, n),
        "region": rng.choice(["north", "south", "east"], n),
    }
    blobs = pack(SURVEY, SURVEY.encode(people, coins=Coins.seeded(seed)))
    return [rng.bytes(16) + blob for blob in blobs]


def delivered(some, seed=1, again=0.3):
    """At least once, and not in order."""
    rng = np.random.default_rng(seed)
    twice = [record for record in some if rng.random() < again]
    thrice = [record for record in twice if rng.random() < again]
    sent = [*some, *twice, *thrice]
    return [sent[k] for k in rng.permutation(len(sent))]


def honest(some):
    """Totals of these records, each counted once."""
    return SURVEY.tally(iter(record[16:] for record in some), keep=KEEP)
