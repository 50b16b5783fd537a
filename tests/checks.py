"""Statistical checks with exact tails and a stated false-alarm rate, and coins that enumerate."""

from __future__ import annotations

import gc
import itertools
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
from scipy import stats

from metricldp.answers.queries import workload_for
from metricldp.mechanisms import Channel
from metricldp.mechanisms.base import EpsilonMechanism, Problem
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.levels import fall_of
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import words_for
from metricldp.mechanisms.table import TableChannel
from metricldp.metrics import Metric
from metricldp.reports import arrow
from metricldp_core import verify
from metricldp_core.distributions import Distribution
from metricldp_core.levels import Extremal
from metricldp_core.random_words import Words


def assert_counts(observed, probabilities, *, false_alarm: float) -> None:
    """Each count is binomial: reject if any lies in a tail of false_alarm / cells, exactly."""
    observed = np.asarray(observed)
    probabilities = np.asarray([float(p) for p in probabilities])
    n = int(observed.sum())
    tail = false_alarm / (2 * len(observed))
    low = stats.binom.cdf(observed, n, probabilities)
    high = stats.binom.sf(observed - 1, n, probabilities)
    worst = min(low.min(), high.min())
    assert worst > tail, f"a count this far off has probability {worst:.2g}, below {tail:.2g}"


def assert_mean(samples, expected: float, *, variance: float, false_alarm: float) -> None:
    """The mean of many independent samples of known variance; normal tails, for n in the 10^5s."""
    samples = np.asarray(samples)
    z = (samples.mean() - expected) / np.sqrt(variance / len(samples))
    chance = 2 * stats.norm.sf(abs(z))
    assert chance > false_alarm, f"mean {samples.mean():.6g}, expected {expected:.6g}: {z:.1f} sd"


def key(report) -> bytes:
    """A report as something to count."""
    return np.asarray(report).tobytes()


def exact_law(channel: Channel, x: int) -> dict[bytes, Fraction]:
    """P(report | x) of every report, from the channel's integers."""
    return {key(report): channel.probability(x, report) for report in channel.every_report()}


def enumerated_ratio(law: dict, other: dict) -> float | Fraction:
    """The worst ratio either way; infinite where one side is impossible."""
    worst: float | Fraction = Fraction(1)
    for report, p in law.items():
        q = other[report]
        if p == q == 0:
            continue
        if p == 0 or q == 0:
            return float("inf")
        worst = max(worst, p / q, q / p)
    return worst


def prove(channel: Channel, metric: Metric) -> tuple[verify.Pair, ...]:
    """The pairs that the proof of a channel examines, with their ratios and limits."""
    return verify.prove("", channel.distribution, metric.to_core(channel.size)).pairs


def check_sampler(channel: Channel, *, n: int = 200_000, seed: int = 11) -> None:
    """What `encode` draws has the law that the certificate is computed from."""
    randomness = Randomness.seeded(seed)
    for x in range(channel.size):
        law = exact_law(channel, x)
        drawn = Counter(key(r) for r in channel.sample(np.full(n, x), randomness))
        assert set(drawn) <= set(law), "an impossible report was drawn"
        observed = [drawn[report] for report in law]
        assert_counts(observed, law.values(), false_alarm=1e-9 / channel.size)


class EveryCoin:
    """Coins for 2^bits people at once, each with a different words of `bits` coins: all of them.

    A sampler that is run on them shows its law exactly, as counts over 2^bits. Each plane that the
    sampler draws gives every person `lanes` fresh coins of their words; a person occupies `stride`
    lanes. A draw of one whole word per person gives `word` coins in its top bits.
    """

    def __init__(self, bits: int, *, lanes: int = 1, stride: int = 1, word: int = 0) -> None:
        self.people = 1 << bits
        self.bits, self.lanes, self.stride, self.word = bits, lanes, stride, word
        self.at = 0

    def words(self, count: int):
        if self.word and count == self.people:
            top = np.zeros(count, dtype=np.uint64)
            for _ in range(self.word):
                top = top << np.uint64(1) | self._coin().astype(np.uint64)
            return top << np.uint64(64 - self.word)
        width = words_for(self.people * self.stride)
        planes, left = divmod(count, width)
        assert left == 0
        return np.concatenate([self._plane(width) for _ in range(planes)])

    def _plane(self, width: int):
        flat = np.zeros((self.people, self.stride), dtype=np.uint8)
        for lane in range(self.lanes):
            flat[:, lane] = self._coin()
        packed = np.packbits(flat.reshape(-1), bitorder="little")
        padded = np.zeros(8 * width, dtype=np.uint8)
        padded[: len(packed)] = packed
        return padded.view("<u8")

    def _coin(self):
        assert self.at < self.bits, "the words is too short for this sampler"
        self.at += 1
        return (np.arange(self.people) >> (self.at - 1) & 1).astype(np.uint8)


def sampled_law(channel: Channel, x: int, randomness: EveryCoin) -> dict[bytes, Fraction]:
    """The exact law of the sampler itself, by running it on every coin."""
    drawn = Counter(key(r) for r in channel.sample(np.full(randomness.people, x), randomness))
    return {report: Fraction(count, randomness.people) for report, count in drawn.items()}


class EveryWord(Words):
    """Words that are enumerated: the top `count` bits of each, the others are zeros.

    A run that reads a word not tried yet is run again for every value of it, so all runs are tried
    with their exact probabilities, however many words each of them reads.
    """

    def __init__(self, path, count):
        self.path, self.count, self.at = path, count, 0

    def word(self):
        return self.bits(64)

    def bits(self, count):
        """With few of them all their values, else the values of the top bits."""
        tried = min(count, self.count)
        if self.at == len(self.path):
            self.path.append([0, tried])
        drawn, tried = self.path[self.at]
        self.at += 1
        return drawn << (count - tried)


def steps(call) -> int:
    """How many instructions of Python a call takes, with all that it calls."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # it may run Python code of other tests
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def law_of(draw, *, word=4, rounds=10**6):
    """The exact law of what `draw` returns, and the mass of the runs that need more draws."""
    law, open_mass, path = Counter(), Fraction(0), []
    while True:
        found = draw(EveryWord(path, word))
        mass = Fraction(1, 1 << sum(tossed for _, tossed in path))
        if len(path) > rounds:
            open_mass += mass * (1 << sum(tossed for _, tossed in path[rounds:]))
            del path[rounds:]
        else:
            law[found] += mass
        while path and path[-1][0] + 1 == 1 << path[-1][1]:
            path.pop()
        if not path:
            return dict(law), open_mass
        path[-1][0] += 1


ORACLES = (
    "unary-symmetric",
    "unary-optimised",
    "histogram-sum",
    "histogram-threshold",
    "local-hashing",
    "hadamard",
    "subset",
)
"""Peers that tell the frequency of each value."""
PEERS = (*ORACLES, "hierarchy-2", "hierarchy-4", "hierarchy-2-unary", "haar", "square-wave")
"""Peers that keep one epsilon between any two values."""
MECHANISMS = (
    "threshold",
    "threshold-paper",
    "threshold-dummy",
    "geometric",
    "randomized-response",
    "unary",
    "matrix",
    *PEERS,
    "prefix",
    "condensed",
)
"""Everybody who blurs one attribute."""


def total_error(survey, attribute, workload, n=1, prior="worst"):
    """The sum of the predicted squared errors of all rows."""
    rows = workload_for(survey, attribute, workload).rows
    return (
        rows
        * survey.expected_error(n=n, prior=prior, attribute=attribute, workload=workload).stderr
        ** 2
    )


def every_report_of(survey, public=()):
    """Every report of a tiny survey as a table, and P(report | person): (people, reports).

    People are all combinations of positions of blurred attributes, in the survey's order. A public
    weight has the same value in all reports.
    """
    parts = []
    for name, channel in survey.channels.items():
        column = channel.every_report()
        law = [[channel.probability(x, report) for report in column] for x in range(channel.size)]
        parts.append(((name,), {name: column}, law))
    for block in survey.blocks.values():
        columns = block.channel.every_report()
        reports = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        law = [
            [block.channel.probability(x, report) for report in reports]
            for x in itertools.product(*map(range, block.sizes))
        ]
        parts.append((block.names, {block.columns[part]: c for part, c in columns.items()}, law))
    sizes = [len(law[0]) for _, _, law in parts]
    places = np.indices(sizes).reshape(len(parts), -1)
    columns = {
        name: column[place]
        for (_, columns, _), place in zip(parts, places, strict=True)
        for name, column in columns.items()
    }
    count = places.shape[1]
    columns |= {name: np.full(count, float(value)) for name, value in dict(public).items()}
    laws = []
    for x in people_of(survey):
        person = np.ones(())
        for names, _, law in parts:
            at = np.ravel_multi_index(
                [x[name] for name in names], [survey.attributes[name].size for name in names]
            )
            person = np.multiply.outer(person, np.array([float(p) for p in law[at]]))
        laws.append(person.reshape(-1))
    return arrow.to_table(survey, columns), np.array(laws)


def people_of(survey):
    """Every combination of positions of blurred attributes, by name."""
    names = [name for name, attribute in survey.attributes.items() if not attribute.is_public]
    for x in itertools.product(*(range(survey.attributes[name].size) for name in names)):
        yield dict(zip(names, x, strict=True))


def squared_errors_p_value(errors, variances) -> float:
    """The probability of squared errors (repetitions, queries) this extreme under the variances.

    Answers are sums over many people, so they are nearly normal, and their squared errors over the
    exact variance, added up over independent repetitions, are chi-squared: this checks bias and
    variance at once. The p-value is that of the most extreme query, two-sided, times the number of
    queries (Bonferroni). A query without variance must be exact up to rounding, or it is 0.
    """
    most = variances.max(initial=0.0)
    known = variances <= 1e-9 * most
    if (errors[:, known] ** 2 > 1e-7 * most + 1e-9).any():
        return 0.0
    if known.all():
        return 1.0
    scaled = (errors[:, ~known] ** 2).sum(axis=0) / variances[~known]
    tails = stats.chi2.cdf(scaled, len(errors)), stats.chi2.sf(scaled, len(errors))
    worst = np.minimum(*tails)
    return float(min(1.0, 2 * len(worst) * worst.min()))


def designed_channel(mechanism, size, metric, *, ordered=True, **problem):
    """The channel of the distribution that a mechanism designs for one attribute."""
    problem = Problem.single(size, metric, ordered=ordered, **problem)
    distribution = mechanism.design(problem)
    return channel_of(distribution, getattr(mechanism, "prior", None))


class OwnChannel(Distribution):
    """The distribution of a channel that the package does not have, for negative controls."""

    kind = "own"

    def __init__(self, channel):
        self.channel, self.own = channel, channel.distribution
        self.size, self.bits, self.invariance = channel.size, self.own.bits, self.own.invariance

    def draw(self, position, words):
        return self.own.draw(position, words)

    def ratio(self, x, other):
        return self.own.ratio(x, other)

    def largest_ratio(self):
        return self.own.largest_ratio()

    def to_data(self):
        return self.own.to_data()

    @classmethod
    def read(cls, entry):
        raise NotImplementedError


def mechanism_of(name, channel, *more, **options):
    """A mechanism with the channels of a function of a size and an epsilon."""
    return EpsilonMechanism(
        name, lambda size, epsilon: OwnChannel(channel(size, epsilon)), *more, **options
    )


def extremal_table(depths, tops, unit):
    """The channel of a mixture of shapes with these highest levels."""
    return TableChannel(Extremal.of(depths, tops, fall_of(unit)))
