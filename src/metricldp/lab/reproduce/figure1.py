"""Figure 1: total squared error of all frequencies against the number of sensitive values.

The paper's setting: m = 100 values, n = 10,000 people, epsilon = 1, and the metric E_S with
|S| = k from 1 to 100. Nothing has to be simulated, because all errors are known exactly; a few
points are, on the whole way from a survey to its histogram, to see that the theory is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from metricldp.answers.predict import predicted_total
from metricldp.answers.queries import workload_for
from metricldp.answers.tally import Tally
from metricldp.attributes.integer import Integer
from metricldp.basics.exact import as_written
from metricldp.channels import Channel, Floats, Response
from metricldp.design.scales import sensitive_scales
from metricldp.lab.crowd import seeded
from metricldp.lab.pages import Progress, silent
from metricldp.metrics import SensitiveSet
from metricldp.reports.encode import encode
from metricldp.survey.agreement import Agreement

LIMIT = 5.0
"""Standard errors that the mean of a simulation may be from its exact expectation.

The standard error is known, not estimated: the estimates of 100 frequencies from 10,000 people are
as good as normal, so their total squared error is a weighted sum of squares of normal numbers with
variance 2 tr(C^2) for the covariance C. It is skewed, most of all where one sensitive value has
most of the error. Its exact tails beyond this limit are 8e-6 at most for one point and 3.1e-5 for
all ten, here and in the quick version: a false alarm in 30,000 runs. The seed is fixed, and was
before the first run.
"""
PLANS: dict[str, dict[str, Any]] = {
    "unary": {},
    "matrix": {"workload": "values", "strategy": "identity"},
}
"""The mechanisms that are simulated, and what an attribute says of each."""


@dataclass(frozen=True)
class Setting:
    """What is computed, and what is simulated; the defaults are the paper's, where it says."""

    people: int = 10_000
    size: int = 100
    epsilon: float = 1.0
    shown: tuple[int, ...] = (1, 10, 40, 50, 100)
    """The k that are simulated and written out in the text."""
    repetitions: int = 100
    seed: int = 2026


QUICK = Setting(people=2000, size=20, shown=(1, 2, 8, 10, 20), repetitions=60)


@dataclass(frozen=True)
class Point:
    """Total squared errors for one number of sensitive values, in people squared."""

    sensitive: int
    laplace: float
    """E_S: the matrix mechanism with the identity as strategy, Laplace noise (the paper)."""
    matrix: float
    """E_S: the same scales with geometric noise, as a survey has it."""
    clipped: float
    """E_S: the same with reach 0, every report clipped to zero or one."""
    unary: float
    """E_S: bits with probabilities optimised for the metric."""
    histogram: float
    """Epsilon-LDP: the matrix mechanism with the same scale for all (the paper's comparison)."""
    unary_plain: float
    """Epsilon-LDP: optimised unary encoding as published."""
    subset: float
    """Epsilon-LDP: subset selection."""
    response: float
    """Epsilon-LDP: k-ary randomized response."""

    @property
    def plain(self) -> float:
        return min(self.histogram, self.unary_plain, self.subset, self.response)


@dataclass(frozen=True)
class Simulated:
    """The mean total squared error over all repetitions, and what it should be."""

    sensitive: int
    mechanism: str
    mean: float
    standard_error: float
    exact: float

    @property
    def deviation(self) -> float:
        return (self.mean - self.exact) / self.standard_error


# Theory

_KEPT = {"matrix": ("matrix", None), "clipped": ("matrix", 0), "unary": ("unary", None)}


def points(setting: Setting) -> list[Point]:
    m, n, epsilon = setting.size, setting.people, setting.epsilon
    even, response = np.full(m, epsilon / 2), Response.for_epsilon(m, as_written(epsilon))
    plain = {
        "histogram": n * laplace(even),
        "unary_plain": n * published_unary(m, epsilon),
        "subset": n * subset_selection(m, epsilon),
        "response": n * m * response.mean_frequency_variance(),
    }
    found = []
    for k in range(1, m + 1):
        kept = {}
        for name, (mechanism, reach) in _KEPT.items():
            survey = survey_of(setting, k, mechanism, reach)
            values = workload_for(survey, "value", "values")
            kept[name] = predicted_total(survey, "value", values, n, "uniform")
        found.append(Point(k, n * laplace(scales(m, k, epsilon)), **kept, **plain))
    return found


def scales(size: int, sensitive: int, epsilon: float) -> Floats:
    """1/s of each value under E_S, the sensitive ones first (section 3.2 in closed form)."""
    inside, outside = sensitive_scales(size, sensitive, epsilon)
    return np.where(np.arange(size) < sensitive, inside, outside)


def laplace(u: Floats) -> float:
    """Laplace noise of scale 1/u on every count: 2/u^2 each."""
    return float((2 / u**2).sum())


def published_unary(size: int, epsilon: float) -> float:
    """Optimised unary encoding of Wang et al. 2017: 4 e^eps/(e^eps - 1)^2 each, and 1 for all."""
    return size * 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2 + 1


def subset_selection(size: int, epsilon: float) -> float:
    """Ye and Barg 2018: a random subset of d values that holds the true one more often.

    The least error of all plain mechanisms known; its d is near m/(e^epsilon + 1).
    """
    most = math.exp(epsilon)
    errors = []
    for d in range(1, size):
        p = d * most / (d * most + size - d)
        q = (p * (d - 1) + (1 - p) * d) / (size - 1)
        errors.append((p * (1 - p) + (size - 1) * q * (1 - q)) / (p - q) ** 2)
    return min(errors)


# Simulation


def simulate(setting: Setting, progress: Progress = silent) -> list[Simulated]:
    """Some points on the whole way: a survey, reports, a tally, its histogram."""
    coins = seeded(setting.seed)
    people = np.arange(setting.people) % setting.size
    truth = np.bincount(people, minlength=setting.size).astype(np.float64)
    found: list[Simulated] = []
    for mechanism, k in product(PLANS, setting.shown):
        survey = survey_of(setting, k, mechanism)
        errors = []
        for _ in range(setting.repetitions):
            tally = Tally.of(survey, encode(survey, {"value": people}, coins=coins))
            estimates = np.array([answer.value for answer in tally.histogram("value")])
            errors.append(((estimates - truth) ** 2).sum())
        exact, spread = expected(survey.channels["value"], truth)
        error = spread / math.sqrt(setting.repetitions)
        found.append(Simulated(k, mechanism, float(np.mean(errors)), error, exact))
        progress(len(found) / len(PLANS) / len(setting.shown))
    return found


def survey_of(
    setting: Setting, sensitive: int, mechanism: str, reach: int | None = None
) -> Agreement:
    wish = {} if reach is None else {"reach": reach}
    value = Integer(
        0,
        setting.size - 1,
        epsilon=setting.epsilon,
        metric=SensitiveSet(range(sensitive)),
        mechanism={"name": mechanism, **PLANS[mechanism], **wish},
    )
    return Agreement({"value": value})


def expected(channel: Channel, people: Floats) -> tuple[float, float]:
    """The mean and the standard deviation of the total squared error, for so many at each value.

    The covariance of two frequencies is the sum over people of E[F G | x] - f(x) g(x).
    """
    values = np.eye(channel.size)
    covariance = np.array(
        [
            (channel.moments(np.broadcast_to(f, values.shape), values)[0] - f * values) @ people
            for f in values
        ]
    )
    return float(np.trace(covariance)), math.sqrt(2 * float((covariance**2).sum()))
