"""What every channel has to be, checked for any of them: `check_mechanism`, for whoever writes one.

On a few positions everything is a finite sum, so law, loss, bias and moments are proved by listing
all reports. The two samplers can only be tried: their counts are held against the exact law, with a
stated chance of a false alarm, by Chernoff's bound: of n draws with probability p a share of k/n or
further out has a chance of at most 2 exp(-n KL(k/n, p)).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np

from metricldp.basics.errors import InvalidSpecError, MetricLdpError, SeededRandomnessWarning
from metricldp.basics.text import distinct, shown, table
from metricldp.mechanisms.base import ANY_TWO, Mechanism, Problem
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.memoised_channel import MemoisedChannel
from metricldp.mechanisms.moments import Floats, OneHot
from metricldp.mechanisms.randomness import Randomness
from metricldp.metrics import Line, Metric, Uniform
from metricldp_core.canonical import Entry, canonical
from metricldp_core.distributions import SUPPORTED, Distribution, read_distribution
from metricldp_core.exact import at_most_exp, exp_bounds, log_of
from metricldp_core.random_words import Words

SIZES = (2, 3, 5)
EPSILONS = (0.1, 1.0, 3.0)
MAX_REPORTS = 1 << 12
"""More reports than this are not listed: such a case is skipped, and said to be."""
DRAWS = 10_000
FALSE_ALARM = 1e-9
"""The chance that a sampler which is right is refused, in each case."""
_ROUNDING = 1e-8
SKIPPED = "skipped"
"""Cases with too many reports to be listed: nothing is known of them."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked in one case."""

    case: str
    what: str
    holds: bool
    detail: str = ""


@dataclass(frozen=True)
class Conformance:
    """All that was checked of a mechanism."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing was found wrong, and something was checked at all."""
        checked = any(finding.what != SKIPPED for finding in self.findings)
        return checked and all(finding.holds for finding in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.holds)

    def __str__(self) -> str:
        if not self.failures:
            checks = list(dict.fromkeys(finding.what for finding in self.findings))
            counts = {what: sum(f.what == what for f in self.findings) for what in checks}
            rows = [("check", "cases"), *((what, str(count)) for what, count in counts.items())]
            verdict = (
                f"all {len(self.findings)} checks hold" if self.holds else "nothing was checked"
            )
            return f"{table(rows)}\n{self.name}: {verdict}"
        broken = [("case", "check", ""), *((f.case, f.what, f.detail) for f in self.failures)]
        verdict = f"{len(self.failures)} of {len(self.findings)} checks are BROKEN"
        return f"{table(broken, left=3)}\n{self.name}: {verdict}"


def check_mechanism(
    mechanism: Mechanism,
    *,
    sizes: Sequence[int] = SIZES,
    epsilons: Sequence[float] = EPSILONS,
    metrics: Sequence[Callable[[Fraction], Metric]] | None = None,
    seed: int = 1,
) -> Conformance:
    """Check the channels that a mechanism makes, on a few sizes, epsilons and metrics.

    The metrics are lines, or one distance for all pairs, as the mechanism promises. Print the
    result, or assert that it `holds`.
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidSpecError(
            "check_mechanism checks a mechanism, such as EpsilonMechanism(name, make) of "
            f"mechanisms.base, not {shown(mechanism)}"
        )
    if metrics is None:
        metrics = [Uniform] if mechanism.guarantee == ANY_TWO else [Line]
    findings: list[Finding] = []
    for size, epsilon, metric_of in product(sizes, epsilons, metrics):
        metric = metric_of(Fraction(str(epsilon)))
        case = f"{size} positions, epsilon {epsilon:g}, {type(metric).__name__.lower()}"
        findings += _checked(mechanism, size, metric, case, seed)
    return Conformance(mechanism.name, tuple(findings))


def _checked(
    mechanism: Mechanism, size: int, metric: Metric, case: str, seed: int
) -> Iterator[Finding]:
    try:
        problem = Problem.single(size, metric, ordered=mechanism.needs_order)
        distribution = mechanism.design(problem)
        channel, again = channel_of(distribution), _from_data(distribution)
    except MetricLdpError as wrong:
        yield Finding(case, "made", False, str(wrong))
        return
    reports = channel.every_report() if channel.bits <= 24 else None
    if reports is None or len(reports) > MAX_REPORTS:
        yield Finding(case, SKIPPED, True, f"{channel.bits} bits are too many to be listed")
        return
    for what, check in _CHECKS.items():
        try:
            found = check(_Case(channel, again, metric, reports, seed))
        except (MetricLdpError, ArithmeticError, LookupError, TypeError, ValueError) as wrong:
            found = f"{type(wrong).__name__}: {shown(str(wrong))}"
        yield Finding(case, what, not found, found)


def _from_data(distribution: Distribution) -> Channel:
    """The channel of a distribution that went through plain data, unless it is a baseline's."""
    if distribution.kind in SUPPORTED:
        distribution = read_distribution(Entry(distribution.to_data(), "the survey"), SUPPORTED)
    return channel_of(distribution)


class _Case:
    """A channel with all its reports and their exact probabilities."""

    def __init__(
        self, channel: Channel, again: Channel, metric: Metric, reports: Column, seed: int
    ) -> None:
        self.channel, self.again, self.metric, self.reports = channel, again, metric, reports
        self.seed, self.size = seed, channel.size
        self.law = _law(channel)
        self.shares: Floats = np.array(self.law, dtype=np.float64)
        self.functions: Floats = np.random.default_rng(seed).normal(size=(3, channel.size))

    def randomness(self) -> Randomness:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededRandomnessWarning)
            return Randomness.seeded(self.seed)


def _law(channel: Channel) -> list[list[Fraction]]:
    reports = channel.every_report()
    return [[channel.probability(x, row) for row in reports] for x in range(channel.size)]


def _probabilities(case: _Case) -> str:
    """Exactly one report is sent."""
    for x, row in enumerate(case.law):
        if sum(row) != 1 or min(row) < 0:
            return f"the probabilities of all reports from {x} add up to {float(sum(row)):.9g}"
    chances, exact = np.exp(case.channel.log_likelihood(case.reports)), case.shares.T
    ratios = np.divide(chances, exact, out=1 + chances, where=exact > 0)
    found = _apart(ratios, 1.0, "`log_likelihood`, in some report,")
    if not found and isinstance(case.channel.moments, OneHot):
        found = _apart(case.channel.moments.spread(np.eye(case.size)), case.shares, "`spread`")
    return found


def _loss(case: _Case) -> str:
    """The worst ratio is what the distribution states, and below e^E, for every two positions.

    Of memoised reports the ratio is that of the first randomization.
    """
    law = _law(case.channel.first if isinstance(case.channel, MemoisedChannel) else case.channel)
    ratios = {case.channel.distribution.ratio(*pair) for pair in combinations(range(case.size), 2)}
    if case.channel.distribution.invariance == "all" and len(ratios) > 1:
        return "one ratio for all pairs is stated, but the ratios differ"
    for x, other in combinations(range(case.size), 2):
        pairs = [pair for pair in zip(law[x], law[other], strict=True) if any(pair)]
        if not all(all(pair) for pair in pairs):
            return f"a report of {x} or {other} can come from one of them only"
        worst = max(Fraction(max(pair)) / min(pair) for pair in pairs)
        stated, allowed = case.channel.distribution.ratio(x, other), case.metric.distance(x, other)
        if not worst <= stated <= worst * (1 + Fraction(1, 1 << 40)):
            return (
                f"loss of {x} and {other}: {log_of(worst):.9g}, not {log_of(stated):.9g} as stated"
            )
        if not at_most_exp(stated, allowed):
            told, most = distinct(stated, exp_bounds(allowed)[1])
            return f"the likelihood ratio of {x} and {other} is {told}, more than {most}"
    return ""


def _unbiased(case: _Case) -> str:
    """Decoders have the function as their mean, and the decoder of 1 is 1."""
    channel = case.channel
    functions = np.concatenate([np.eye(case.size), case.functions, np.ones((1, case.size))])
    values = channel.values(case.reports, channel.moments.coefficients(functions))
    for function, outputs in zip(functions, values, strict=True):
        low, high = channel.moments.output_range(function)
        room = _ROUNDING * np.abs(outputs).max()
        if not low - room <= outputs.min() <= outputs.max() <= high + room:
            return "an estimate of one report is outside of `output_range`"
    return _apart(values @ case.shares.T, functions, "the mean of a decoder")


def _moments(case: _Case) -> str:
    """The second moment is that of all reports, and so is the mean of its own decoder."""
    channel, f, g = case.channel, case.functions[:2], case.functions[1:]
    first, second = (channel.values(case.reports, channel.moments.coefficients(h)) for h in (f, g))
    moment, decoder = channel.moments.second_moment_estimator(f, g)
    exact = (first * second) @ case.shares.T
    found = _apart(moment, exact, "a second moment")
    decoded = channel.values(case.reports, decoder) @ case.shares.T
    return found or _apart(decoded, exact, "the mean of a decoded moment")


def _features(case: _Case) -> str:
    """Values, levels, totals and cells all read the same features."""
    channel, column = case.channel, case.reports
    decoders = channel.moments.coefficients(case.functions)
    expanded = channel.features(column)
    values = decoders @ expanded.T
    found = _apart(channel.values(column, decoders), values, "`values`")
    levels = channel.levels(decoders)
    if levels is not None:
        found = found or _apart(levels.table[:, levels.codes(column)], values, "`levels`")
    codes = np.arange(len(column)) % 2
    totals = np.stack([expanded[codes == code].sum(axis=0) for code in (0, 1)], axis=1)
    found = found or _apart(channel.totals(column, codes, 2), totals, "`totals`")
    sums = totals.astype(np.float64)
    cells = channel.moments.coefficients(np.eye(case.size)) @ sums
    return found or _apart(channel.moments.frequencies(sums), cells, "`frequencies`")


def _field(case: _Case) -> str:
    """Reports go to bits and back, and none of them is called impossible."""
    field = case.channel.field
    if field.invalid(case.reports).any():
        return "a report that can be sent is called invalid"
    bits = field.pack(case.reports)
    if bits.shape != (len(case.reports), field.bits):
        return f"packed reports have the shape {bits.shape}"
    same = np.array_equal(field.unpack(bits), case.reports)
    return "" if same else "reports change on the way to bits and back"


def _words(case: _Case) -> str:
    """The distribution is plain data, and what was saved makes the same channel."""
    data, again = (canonical(c.distribution.to_data()) for c in (case.channel, case.again))
    return "" if data == again else "saved data make another channel"


def _sample(case: _Case) -> str:
    """The counts of the sampler for many, all positions mixed; no coin is used twice."""
    field, mixed = case.channel.field, np.repeat(np.arange(case.size), DRAWS)
    np.random.default_rng(case.seed).shuffle(mixed)
    drawn = field.pack(case.channel.sample(mixed, case.randomness()))
    alike = field.pack(case.channel.sample(np.zeros(2 * DRAWS, dtype=np.int64), case.randomness()))
    if np.array_equal(alike[:DRAWS], alike[DRAWS:]):
        return "the second half of the reports used the random words of the first"
    return _surprise(case, [drawn[mixed == x] for x in range(case.size)])


def _draw(case: _Case) -> str:
    words, bits = Words(case.randomness().draw), case.channel.bits
    drawn = []
    for x in range(case.size):
        reports = [case.channel.distribution.draw(x, words) for _ in range(DRAWS)]
        if max(reports) >> bits:
            return f"position {x} sent a report beyond its {bits} bits"
        wide = np.array(reports, dtype=np.uint64)[:, None]
        drawn.append((wide >> np.arange(bits, dtype=np.uint64) & np.uint64(1)).astype(np.uint8))
    return _surprise(case, drawn)


_CHECKS: dict[str, Callable[[_Case], str]] = {
    "probabilities": _probabilities,
    "loss within the metric": _loss,
    "no bias": _unbiased,
    "second moments": _moments,
    "features": _features,
    "bits": _field,
    "saved data": _words,
    "sample": _sample,
    "draw": _draw,
}


def _apart(found: Any, expected: Any, what: str) -> str:
    far = np.abs(np.asarray(found) - expected).max() / max(1.0, np.abs(expected).max())
    return "" if far <= _ROUNDING else f"{what} is off by {far:.3g}"


def _surprise(case: _Case, drawn: list[Any]) -> str:
    """Whether counts are too far from the law to be chance."""
    weights = 1 << np.arange(case.channel.bits, dtype=np.int64)
    known = {int(code): k for k, code in enumerate(case.channel.field.pack(case.reports) @ weights)}
    limit = math.log(2 * case.size * len(case.reports) / FALSE_ALARM)
    for x, bits in enumerate(drawn):
        counts = np.zeros(len(case.reports))
        for code, count in zip(*np.unique(bits @ weights, return_counts=True), strict=True):
            if int(code) not in known:
                return f"position {x} sent a report of probability 0"
            counts[known[int(code)]] = count
        for report, (count, p) in enumerate(zip(counts, case.shares[x], strict=True)):
            if DRAWS * _divergence(count / DRAWS, float(p)) > limit:
                return (
                    f"position {x} sent report {report} {count:.0f} times of {DRAWS:,}, "
                    f"expected are {DRAWS * p:.0f}"
                )
    return ""


def _divergence(share: float, p: float) -> float:
    parts = ((share, p), (1 - share, 1 - p))
    return sum(s * math.log(s / q) if q > 0 else math.inf for s, q in parts if s > 0)
