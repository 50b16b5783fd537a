"""Threshold bits: section 4.1 of the paper, for the metric of a line.

Bit k says whether x <= k and is flipped with a probability of its own. One step of x changes one
bit, so with p = 1/(e^epsilon + 1) the report has E(x, x') = epsilon |x - x'|.

There are three versions. `ThresholdChannel` leaves out the paper's m-th bit, which is 1 for
everybody: the collector knows that and pays no noise for it. `ThresholdPaperChannel` sends it, as
section 4.1 does. `ThresholdDummyChannel`, the end of section 4.2, has one value more, which nobody
holds and at which every function is 0; an attribute left out then costs a factor
(kappa^2 - 1)/2 + 1 instead of kappa^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from metricldp.basics.errors import CertificateError
from metricldp.mechanisms.base import EpsilonMechanism
from metricldp.mechanisms.channel import BitChannel, CoreChannel, Integers
from metricldp.mechanisms.fields import Column
from metricldp.mechanisms.moments import Floats, Independent
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.sampling import BLOCK, bernoullis, fill, words_for
from metricldp_core import distributions as core
from metricldp_core.exact import WORD, ceil_of, exp_bounds


@dataclass(frozen=True)
class ThresholdChannel(CoreChannel, BitChannel):
    """Each bit is flipped with its own probability flips[k] / 2^64."""

    distribution: core.Threshold

    mechanism: ClassVar[str] = "threshold"
    extra_bits: ClassVar[int] = 0
    """Bits beyond size - 1, which are 1 for everybody before the flip."""

    @classmethod
    def for_epsilon(cls, size: int, epsilon: Fraction) -> Self:
        """The smallest flip probability, rounded up, that keeps epsilon per step."""
        flip = ceil_of(WORD / (1 + exp_bounds(epsilon)[0]))
        if 2 * flip >= WORD:
            raise CertificateError(
                f"epsilon {float(epsilon):.3g} per step is too small for 64-bit words; "
                "use a coarser grid or a larger epsilon"
            )
        return cls(core.Threshold(size, (flip,) * (size - 1 + cls.extra_bits)))

    @cached_property
    def moments(self) -> ThresholdMoments:
        return ThresholdMoments(self.size, self.distribution.flips)

    def sample(self, positions: Integers, randomness: Randomness) -> Column:
        from metricldp.mechanisms import sampling_kernels as kernels

        count, width = len(positions), self.field.width
        column = np.empty(words_for(8 * count * width), dtype=np.uint64)
        wide = np.ascontiguousarray(positions, dtype=np.int64)
        # Eight rows fill whole words; as many of them as stay in the cache are made at a time.
        step = 8 * max(1, BLOCK // width)
        for start in range(0, count, step):
            part = wide[start : start + step]
            first = start // 8 * width
            flips = column[first : first + words_for(8 * len(part) * width)]
            self._flip(randomness, len(part), flips)
            kernels.cross(flips, part, width, self.bits)
        return column.view(np.uint8)[: count * width].reshape(count, width)

    def _flip(self, randomness: Randomness, count: int, flips: Any) -> None:
        """Rows of flips; what is beyond the last bit of a row does not matter."""
        probabilities = self.distribution.flips
        if len(set(probabilities)) == 1:
            fill(randomness, probabilities[0], flips)
            return
        drawn = bernoullis(randomness, probabilities, words_for(count)).view(np.uint8)
        bits = np.unpackbits(drawn, axis=1, count=count, bitorder="little")
        packed = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little")
        flips.view(np.uint8)[: packed.size] = packed.reshape(-1)

    def log_likelihood(self, column: Column) -> Floats:
        """Of x the bits below it are 1 by a flip, and those from it on 0."""
        bits = np.unpackbits(column, axis=1, count=self.bits, bitorder="little")
        p = np.array(self.distribution.flips) / WORD
        flipped, kept = np.log(p), np.log1p(-p)
        below, above = np.where(bits, flipped, kept), np.where(bits, kept, flipped)
        logs = np.zeros((len(column), self.bits + 1))
        np.cumsum(below - above, axis=1, out=logs[:, 1:])
        return np.asarray(logs[:, : self.size] + above.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class ThresholdPaperChannel(ThresholdChannel):
    """Section 4.1 to the letter: `size` bits, the last of which is 1 for everybody."""

    mechanism: ClassVar[str] = "threshold-paper"
    extra_bits: ClassVar[int] = 1


@dataclass(frozen=True)
class ThresholdDummyChannel(ThresholdChannel):
    """The end of section 4.2: `threshold-paper` for one value more, which nobody holds."""

    mechanism: ClassVar[str] = "threshold-dummy"
    extra_bits: ClassVar[int] = 2


class ThresholdMoments(Independent):
    """A function as its steps: f(x) = (f(0) + f(last)) / 2 + sum_k (f(k) - f(k + 1)) s_k(x) / 2.

    s_k is 1 if x <= k, else -1. A flipped sign times kappa_k = 1 / (1 - 2 p_k) is unbiased and has
    the variance kappa_k^2 - 1. The last sign, in front of f(0) + f(last), is the constant 1. The
    paper's estimator, equation 7, reads its noisy last bit instead.
    """

    lows, highs = -1, 1

    def __init__(self, size: int, flips: tuple[int, ...]) -> None:
        self.size = size
        self.has_constant = self.knows_total = len(flips) == size - 1
        self._is_extended = len(flips) > size
        self.feature_count = len(flips) + self.has_constant
        known = {flip: _sign_moments(flip) for flip in set(flips)}
        signs = [known[flip] for flip in flips] + [(1.0, 0.0)] * self.has_constant
        self.kappa, self.noise = np.array(signs).T

    def _halves(self, functions: Floats) -> Floats:
        """What each unbiased sign is multiplied with, the last sign last."""
        ends = functions[..., :1] + functions[..., -1:]
        steps = [functions[..., :-1] - functions[..., 1:]]
        if self._is_extended:
            ends, steps = functions[..., :1], [*steps, functions[..., -1:]]
        return np.concatenate([*steps, ends], axis=-1) / 2

    def coefficients(self, functions: Floats) -> Floats:
        weights = self.kappa * self._halves(functions)
        if self.has_constant:
            return np.concatenate([weights[..., -1:], weights[..., :-1]], axis=-1)
        return np.asarray(weights)

    def second_moment(self, functions: Floats, others: Floats | None = None) -> Floats:
        """f g, and the noise of every step of both, at every position alike."""
        others = functions if others is None else others
        first = self._halves(functions)
        second = first if others is functions else self._halves(others)
        return np.asarray(functions * others + ((first * second) @ self.noise)[..., None])

    def frequencies(self, totals: Floats) -> Floats:
        signs = np.concatenate([totals[1:], totals[:1]]) if self.has_constant else totals
        halves = (self.kappa / 2 * signs.T).T
        steps, last = halves[:-1], halves[-1]
        result = np.zeros((len(halves), *totals.shape[1:]))
        result[:-1] += steps
        result[1:] -= steps
        result[0] += last
        result[-1] += last
        return result[: self.size]

    @property
    def means(self) -> Floats:  # type: ignore[override]
        """E[sign of bit k | x], (bits, size)."""
        signs = np.where(np.arange(len(self.kappa))[:, None] >= np.arange(self.size), 1.0, -1.0)
        bits = len(self.kappa) - self.has_constant
        return np.asarray(signs[:bits] / self.kappa[:bits, None])

    def mean_range_variance(self) -> float:
        """In closed form, without a dummy: `size` of all ranges have a step at each sign."""
        if self._is_extended or not self.has_constant:
            return super().mean_range_variance()
        return float(self.noise.sum() / 2 / (self.size + 1))


def _sign_moments(flip: int) -> tuple[float, float]:
    """Kappa, and kappa^2 - 1."""
    keep, gap = Fraction(flip * (WORD - flip)), Fraction(WORD - 2 * flip)
    return float(WORD / gap), float(4 * keep / gap**2)


def threshold(size: int, epsilon: Fraction) -> core.Threshold:
    return ThresholdChannel.for_epsilon(size, epsilon).distribution


def threshold_paper(size: int, epsilon: Fraction) -> core.Threshold:
    return ThresholdPaperChannel.for_epsilon(size, epsilon).distribution


def threshold_dummy(size: int, epsilon: Fraction) -> core.Threshold:
    return ThresholdDummyChannel.for_epsilon(size, epsilon).distribution


def _mechanism(
    name: str,
    make: Callable[[int, Fraction], core.Threshold],
    title: str,
    source: str,
    max_computed: int = 1 << 12,
) -> EpsilonMechanism:
    return EpsilonMechanism(
        name,
        make,
        title=title,
        source=source,
        kind="threshold",
        needs_order=True,
        max_computed=max_computed,
    )


_PAPER = "Xiang et al. 2020"
THRESHOLD = _mechanism("threshold", threshold, "threshold bits", f"{_PAPER}, last bit left out")
THRESHOLD_PAPER = _mechanism("threshold-paper", threshold_paper, "threshold bits, literal", _PAPER)
THRESHOLD_DUMMY = _mechanism(
    "threshold-dummy", threshold_dummy, "threshold bits, dummy value", _PAPER, max_computed=0
)
