"""Sums of weights: public ones, which are sent as they are, and private ones."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from metricldp.answers import estimate
from metricldp.answers.answer import Estimate
from metricldp.answers.liars import one_report
from metricldp.answers.queries import Query
from metricldp.store.base import REPORTS, Store
from metricldp.store.extremes import Extremes
from metricldp.store.readings import read, read_weighted


def weighted_sum(store: Store, name: str, query: Query, target: str) -> Estimate:
    """The sum of a weight over the people of a query."""
    estimate.check_about(target)
    survey = store.survey
    described: Any = survey.attributes[name]
    functions: Any = query.functions
    if described.is_public:
        readings = read(survey, functions)
        layout = store.layout_for(readings.names)
        sums, layout = store.sums(readings, layout, name), REPORTS
        total, largest = store.weight_squares(name, estimate.UNSEEN)
        one = estimate.one_person(readings.pairs())
        kept = estimate.kept_between(one, total, sum(largest))
        # Whoever may be drawn has any weight of the survey, not only one that was seen.
        most = math.sqrt(max(largest, default=0.0))
        ends = described.public_ends if target == estimate.POPULATION else (0.0, most)
        steps = readings.extremes().times(Extremes(*np.array([*ends, 0.0, 0.0])[:, None]))
        lie = partial(one_report, survey, functions, name)
        worst = one[1] * max(abs(described.low), abs(described.high)) ** 2
    else:
        readings = read_weighted(survey, functions, name, described.ends)
        layout = store.layout_for(readings.names)
        sums = estimate.with_private_squares(store.sums(readings, layout), described.ends)
        kept, worst = estimate.private_bounds(readings, store.n, name, described.ends)
        steps = readings.extremes()
        lie = partial(one_report, survey, {**functions, name: described.ends})
    asked = (f"{name} among {query.words}", query.notes)
    found = estimate.to_weighted_sum(
        sums, kept, steps.of(0), store.n, asked, unit=name, one=worst, target=target, layout=layout
    )
    return replace(found, lie=lie, survey=survey)
