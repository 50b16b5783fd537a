"""Surveys of every kind, their reports in files, and the same questions asked everywhere."""

from __future__ import annotations

import numpy as np

from checks import MECHANISMS
from metricldp import Categorical, Integer, Randomness, Survey, SurveySpec, Weight
from metricldp.reports import parquet

ONE = {
    name: Survey.design({"a": Integer(0, 6, epsilon=1.3, mechanism=name, per=1)})
    for name in (*MECHANISMS, "additive", "tight-constraints")
}
"""A survey for each mechanism."""
MIXED = {
    "integers": Survey.design(
        {
            "a": Integer(0, 6, epsilon=1, mechanism="geometric", per=1),
            "b": Categorical(["x", "y", "z"], epsilon=1),
            "c": Integer(0, 3, epsilon=1, mechanism="geometric", optional=True, per=1),
        }
    ),
    "bits": Survey.design(
        {
            "a": Integer(0, 6, epsilon=1, mechanism="threshold", per=1),
            "b": Integer(0, 9, epsilon=1, mechanism="threshold", per=1),
            "c": Integer(0, 4, epsilon=1, mechanism="unary", per=1),
        }
    ),
    "all kinds": Survey.design(
        {
            "a": Integer(0, 6, epsilon=1, mechanism="threshold", per=1),
            "b": Integer(0, 4, epsilon=1, mechanism="geometric", per=1),
            "c": Integer(0, 3, epsilon=1, mechanism="matrix", per=1),
            "d": Integer(0, 3, epsilon=1, mechanism="local-hashing", per=1),
            "e": Integer(0, 8, epsilon=1, mechanism="threshold", per=1),
        }
    ),
    "literal": Survey.design(
        {k: Integer(0, 4, epsilon=1, mechanism="threshold-paper", per=1) for k in "ab"}
    ),
    "block": Survey.design(
        SurveySpec(
            {
                "a": Integer(0, 3, epsilon=1, per=1),
                "b": Integer(0, 2, epsilon=1, per=1),
                "c": Integer(0, 4, epsilon=1, mechanism="threshold", per=1),
            },
            joint={("a", "b"): "additive"},
        )
    ),
    "parts": Survey.design(
        SurveySpec(
            {
                "a": Integer(0, 3, epsilon=1, per=1),
                "b": Integer(0, 3, epsilon=1, per=1),
                "c": Integer(0, 4, epsilon=1, mechanism="geometric", per=1),
            },
            joint={("a", "b"): "hio"},
        )
    ),
    "weight": Survey.design(
        {
            "a": Integer(0, 6, epsilon=1, mechanism="geometric", per=1),
            "b": Categorical(["x", "y"], epsilon=1),
            "w": Weight(0, 10),
        }
    ),
}


def people(survey, n, seed):
    rng = np.random.default_rng(seed)
    found = {}
    for name, attribute in survey.asked.items():
        if attribute.is_public:
            found[name] = rng.random(n) * 10
        elif attribute.kind == "categorical":
            found[name] = rng.choice(attribute.categories, n)
        else:
            found[name] = rng.integers(0, attribute.size, n)
    return found


def reports(survey, n, seed):
    return survey.randomize(people(survey, n, seed), randomness=Randomness.seeded(seed))


def written(survey, folder, sizes, seed=1):
    """A folder of segments with so many reports each."""
    folder.mkdir(exist_ok=True)
    for k, n in enumerate(sizes):
        parquet.write(survey, folder / f"part-{k}.parquet", [reports(survey, n, seed + k)])
    return folder


def wheres(survey):
    """Everybody, a range of each attribute, a list of values, and all ranges at once."""
    names = [n for n, a in survey.asked.items() if not a.is_public]
    ranges = {}
    for name in names:
        attribute = survey.attributes[name]
        if attribute.kind == "categorical":
            ranges[name] = list(attribute.categories[:2])
        else:
            ranges[name] = (1, attribute.size - 2)
    yield {}
    yield from ({name: ranges[name]} for name in names)
    yield {names[0]: ranges[names[0]], names[-1]: ranges[names[-1]]}
    yield {name: ranges[name] for name in names[:3]}
