"""How far lying devices could move an answer: at most what their reports are worth.

A report adds its decoded value to an answer, whatever it says. Whoever makes k devices lie
replaces k such values by others, each at most the largest in size: twice that, k times over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from metricldp.channels import Floats
from metricldp.store.readings import involved
from metricldp.survey.agreement import Agreement


def influence(survey: Agreement, functions: Mapping[str, Floats]) -> float:
    """The largest decoded value of one report, in size, for a product of functions."""
    sizes = []
    for name in involved(survey, functions):
        if name in survey.blocks:
            block = survey.blocks[name]
            pairs = zip(block.names, block.sizes, strict=True)
            rows = [functions.get(n, np.ones(size))[None] for n, size in pairs]
            sizes.append(float(block.channel.influence(rows)[0]))
        else:
            channel = survey.channels[name]
            sizes.append(channel.influence(functions.get(name, np.ones(channel.size))))
    return math.prod(sizes) if sizes else 1.0


def moved(survey: Agreement, functions: Mapping[str, Floats], liars: int) -> float:
    """How far so many lying devices can move the sum of a product of functions, each way."""
    return 2 * liars * influence(survey, functions)
