"""Coins: cryptographic random words, and exact random bits and integers made from them.

Nothing here draws a floating-point number. A probability is an integer over 2^64, a draw compares
random bits with the binary digits of that integer, and the certificate of a channel is computed
from the very same integers.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from metricldp.errors import CertificateError, SeededCoinsWarning
from metricldp.exact import ONE, ceil_of, exp_bounds, floor_of
from metricldp.kernels import encoding

Words = npt.NDArray[np.uint64]

_ZEROS = memoryview(bytes(1 << 20))
BLOCK = 1 << 14
"""Words decided at a time: eight planes of them and the results stay in the cache."""
FRACTION_BITS = 32
"""Binary digits behind the point of a position that is rounded at random."""
_PLANES = 8
"""Binary digits drawn for every lane before the few undecided ones are gathered up."""
_CROWD = 1 << 16
"""People who get their noise together, with few calls for all of them."""
_ROUNDS = 8
"""Rounds of growing that are drawn at once: most words need no more."""

_forks = 0
_streams: weakref.WeakSet[Coins] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """A new count, so that every stream draws a new key; new locks, as old ones may be held."""
    global _forks  # noqa: PLW0603 - one counter per process, written only in a new child
    _forks += 1
    for stream in list(_streams):
        stream._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class Coins:
    """A stream of random words: AES-256 in counter mode under a key of the operating system.

    One stream may be used from many threads. After a fork the child draws a new key. A stream can
    neither be copied nor pickled, because the copy would repeat it: `spawn` makes another one.
    """

    def __init__(self) -> None:
        self._start(os.urandom(32))

    def _start(self, key: bytes) -> None:
        self._lock = threading.Lock()
        self._spawned = 0
        self._rekey(key)
        _streams.add(self)

    @classmethod
    def seeded(cls, seed: int) -> Coins:
        """A stream that repeats itself, for tests only: it gives no privacy, and warns of that."""
        warnings.warn(
            f"coins seeded with {seed} give no privacy: whoever knows the seed can take the noise "
            "away; use Coins() for real people",
            SeededCoinsWarning,
            stacklevel=2,
        )
        return _Seeded(hashlib.sha256(f"metricldp test coins {seed}".encode()).digest())

    def words(self, count: int) -> Words:
        """The next `count` words of 64 independent fair bits."""
        return np.frombuffer(self.draw(8 * count), dtype="<u8")

    def draw(self, count: int) -> bytes:
        """The next `count` bytes of independent fair bits."""
        with self._lock:
            if self._process != (os.getpid(), _forks):
                self._rekey(self._key_after_fork())
            if count <= len(_ZEROS):
                return self._cipher.update(_ZEROS[:count])
            return self._cipher.update(bytes(count))

    def spawn(self) -> Coins:
        """Another, independent stream, for another thread or batch."""
        return Coins()

    def _rekey(self, key: bytes) -> None:
        self._key = key
        self._process = (os.getpid(), _forks)
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def _key_after_fork(self) -> bytes:
        return os.urandom(32)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # noqa: ANN401 - signature of object
        raise TypeError("coins cannot be copied or pickled, a copy would repeat them; use spawn()")


class _Seeded(Coins):
    def __init__(self, key: bytes) -> None:
        self._start(key)

    def spawn(self) -> Coins:
        with self._lock:
            if self._process != (os.getpid(), _forks):
                self._rekey(self._key_after_fork())
            self._spawned += 1
            return _Seeded(hashlib.sha256(self._key + self._spawned.to_bytes(8, "big")).digest())

    def _key_after_fork(self) -> bytes:
        return hashlib.sha256(self._key + f"fork {os.getpid()} {_forks}".encode()).digest()


def bernoulli(coins: Coins, threshold: int, words: int) -> Words:
    """Words of 64 independent lanes, each 1 with probability exactly threshold / 2^64."""
    result = np.empty(words, dtype=np.uint64)
    fill(coins, threshold, result)
    return result


def fill(coins: Coins, threshold: int, result: Words) -> None:
    """Fill words with lanes that are 1 with probability exactly threshold / 2^64."""
    for start in range(0, len(result), BLOCK):
        _decide(coins, [threshold], result[None, start : start + BLOCK])


def bernoullis(coins: Coins, thresholds: Sequence[int], words: int) -> Words:
    """A row of words for each threshold, all independent; few calls for many rows."""
    result = np.empty((len(thresholds), words), dtype=np.uint64)
    step = max(1, BLOCK // words)
    for start in range(0, len(thresholds), step):
        _decide(coins, thresholds[start : start + step], result[start : start + step])
    return result


def _decide(coins: Coins, thresholds: Sequence[int], result: Words) -> None:
    """Fill each row with lanes of its threshold.

    A lane stands for a uniform number u of 64 binary digits, and is 1 if u < threshold. Eight
    digits are drawn for all lanes together; the one lane in 256 that they do not decide gets a
    word of its own for the rest.
    """
    words = result.shape[1]
    planes = [_planes(threshold) for threshold in thresholds]
    random = coins.words(sum(planes) * words).reshape(-1, words) if any(planes) else result[:0]
    undecided = np.empty_like(result)
    waiting = []
    for row, (threshold, count) in enumerate(zip(thresholds, planes, strict=True)):
        digits, rest = threshold >> (64 - count), threshold << count & (ONE - 1)
        if count:
            left = encoding.decide(random[:count], digits, result[row], undecided[row])
            random = random[count:]
            if rest and left:
                waiting.append((row, left, rest))
        else:
            result[row] = 0 if threshold <= 0 else ONE - 1
    if waiting:
        random = coins.words(sum(left for _, left, _ in waiting))
        for row, left, rest in waiting:
            encoding.settle(result[row], undecided[row], random[:left], rest)
            random = random[left:]


def _planes(threshold: int) -> int:
    """How many digits are drawn for all lanes.

    Below the last digit that is 1 no lane can fall below the threshold any more; what is certain
    or impossible needs none.
    """
    if threshold <= 0 or threshold >= ONE:
        return 0
    return min(_PLANES, 64 - (threshold & -threshold).bit_length() + 1)


def lanes(words: Words, count: int) -> npt.NDArray[np.uint8]:
    """The first `count` lanes of packed words, as zeros and ones."""
    return np.unpackbits(words.view(np.uint8), count=count, bitorder="little")


def words_for(count: int) -> int:
    """How many words hold `count` lanes."""
    return -(-count // 64)


def uniform(coins: Coins, bound: int, count: int) -> npt.NDArray[np.int64]:
    """`count` independent integers, exactly uniform on 0 .. bound - 1, by rejection."""
    result = np.zeros(count, dtype=np.int64)
    if bound == 1:
        return result
    shift = np.uint64(64 - (bound - 1).bit_length())
    waiting = np.arange(count)
    while len(waiting):
        drawn = (coins.words(len(waiting)) >> shift).astype(np.int64)
        result[waiting] = drawn
        waiting = waiting[drawn >= bound]
    return result


def round_at_random(coins: Coins, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions in units of 2^-32 to whole ones, up with exactly the probability of the rest."""
    whole = positions >> FRACTION_BITS
    rest = positions & ((1 << FRACTION_BITS) - 1)
    drawn = (coins.words(len(positions)) >> np.uint64(64 - FRACTION_BITS)).astype(np.int64)
    return np.asarray(whole + (drawn < rest))


@dataclass(frozen=True)
class GeometricNoise:
    """The integers that define a two-sided geometric noise, P(k) close to C e^(-epsilon |k|).

    Noise is 0 with probability zero / 2^64, else a fair sign times 1 + G. The binary digits of G
    are independent: digit j is 1 with probability digits[j] / 2^64; above them G grows by 2^J as
    long as a coin of probability block / 2^64 says so. No tail is ever tabulated, so no
    probability is ever rounded to zero.
    """

    zero: int
    digits: tuple[int, ...]
    block: int

    @classmethod
    def for_epsilon(cls, epsilon: Fraction) -> GeometricNoise:
        """Integers whose neighbouring probabilities never differ by more than e^epsilon.

        In order: each digit's odds, the block and at last the zero are rounded so that every step
        k -> k + 1 of the noise shrinks its probability by e^-epsilon at the most, given the
        integers already chosen. The zero, about epsilon 2^63, is rounded down to a whole number;
        with an epsilon below 2^-32 or so that may leave it too far below its neighbours.
        """
        shrink = exp_bounds(-epsilon)[1]
        digits: list[int] = []
        odds_before = Fraction(1)  # product of the odds of the digits so far
        while epsilon * (1 << len(digits)) < Fraction(7, 10):
            odds = shrink * odds_before
            digit = ceil_of(odds / (1 + odds) * ONE)
            digits.append(digit)
            odds_before *= Fraction(digit, ONE - digit)
        block = ceil_of(shrink * odds_before * ONE)
        first = Fraction(ONE - block, ONE)
        for digit in digits:
            first *= Fraction(ONE - digit, ONE)
        zero = floor_of(first / (first + 2 * shrink) * ONE)
        too_low = first * (ONE - zero) > 2 * zero / shrink
        if too_low or block >= ONE or any(2 * digit >= ONE for digit in digits):
            raise CertificateError(
                f"epsilon {float(epsilon):.3g} per step is too small for 64-bit coins; "
                "use a coarser grid or a larger epsilon"
            )
        return cls(zero, tuple(digits), block)

    @property
    def length(self) -> int:
        """How many values of G the digits tell apart: 2^J."""
        return 1 << len(self.digits)

    def blur(
        self, coins: Coins, positions: npt.NDArray[Any], size: int, out: npt.NDArray[Any]
    ) -> None:
        """Independent noise for each position: clip(x + noise, 0, size - 1) goes to `out`."""
        wide = np.ascontiguousarray(positions, dtype=np.int64)
        for start in range(0, len(wide), _CROWD):
            part = slice(start, start + _CROWD)
            self._blur(coins, wide[part], size, out[part])

    def _blur(
        self, coins: Coins, positions: npt.NDArray[np.int64], size: int, out: npt.NDArray[Any]
    ) -> None:
        words = words_for(len(positions))
        # Noise of `size` or more is clipped wherever it stands, so it need not grow further.
        most = size // self.length + 1
        rounds = min(_ROUNDS, words.bit_length() + 1, most)
        drawn = bernoullis(coins, (self.zero, *self.digits, *[self.block] * rounds), words)
        zero, digits, growing = np.split(drawn, [1, 1 + len(self.digits)])
        planes = np.concatenate([digits, *self._grown(coins, growing, most)])
        weights = np.full(len(planes), self.length, dtype=np.int64)
        weights[: len(digits)] = 1 << np.arange(len(digits))
        negative = coins.words(words)
        encoding.blur(positions, planes, weights, negative, zero[0], out, size - 1)

    def _grown(self, coins: Coins, growing: Words, most: int) -> Iterator[Words]:
        """In which of `most` rounds each lane grows, from the coins of the first few on.

        Later coins are drawn only for the words in which a lane has grown in all rounds so far.
        """
        rounds, words = growing.shape
        grown = np.bitwise_and.accumulate(growing, axis=0)
        yield grown
        at = np.flatnonzero(grown[-1])
        alive = grown[-1, at]
        most -= rounds
        while len(at) and most:
            growing = bernoullis(coins, [self.block] * min(rounds, most), len(at))
            growing[0] &= alive
            growing = np.bitwise_and.accumulate(growing, axis=0)
            grown = np.zeros((len(growing), words), dtype=np.uint64)
            grown[:, at] = growing
            yield grown
            alive = growing[-1]
            at, alive = at[alive != 0], alive[alive != 0]
            most -= len(growing)

    def draw(self, coins: Handful, limit: int) -> int:
        """One draw, as `blur` makes many: exact below `limit` in size."""
        size = 1
        for j, digit in enumerate(self.digits):
            size += coins.toss(digit) << j
        for _ in range(limit // self.length + 1):
            if not coins.toss(self.block):
                break
            size += self.length
        negative, zero = coins.integer(1), coins.toss(self.zero)
        if zero:
            return 0
        return -size if negative else size

    def probability(self, size: int) -> Fraction:
        """The exact probability of the noise being `size` (or -size)."""
        if size == 0:
            return Fraction(self.zero, ONE)
        blocks, rest = divmod(abs(size) - 1, self.length)
        mass = Fraction(ONE - self.zero, 2 * ONE) * Fraction(self.block, ONE) ** blocks
        mass *= Fraction(ONE - self.block, ONE)
        for j, digit in enumerate(self.digits):
            mass *= Fraction(digit if rest >> j & 1 else ONE - digit, ONE)
        return mass

    def tail(self, size: int) -> Fraction:
        """The exact probability of the noise being `size` or more, for size >= 1."""
        blocks, rest = divmod(size - 1, self.length)
        block = Fraction(self.block, ONE)
        # Of the digits: the probability that they read `rest` or more, from the lowest digit up.
        at_least = Fraction(1)
        for j, digit in enumerate(self.digits):
            one = Fraction(digit, ONE)
            at_least = one * at_least if rest >> j & 1 else one + (1 - one) * at_least
        inside = (1 - block) * at_least + block
        return Fraction(ONE - self.zero, 2 * ONE) * block**blocks * inside


# One person at a time, in plain integers ---------------------------------------------------------

_HANDFUL = 512
"""Bytes taken from a stream at once: enough for most reports, and quick to make."""


class Handful:
    """Coins for one report, taken from a stream many at a time; for one thread only."""

    def __init__(self, coins: Coins) -> None:
        self._coins = coins
        self._drawn = b""
        self._used = 0

    def integer(self, bits: int) -> int:
        """An integer of that many fair bits; what is left over in a byte is not used again."""
        start = self._used
        end = start + (bits + 7 >> 3)
        if end > len(self._drawn):
            start, end = 0, end - start
            self._drawn = self._coins.draw(max(end, _HANDFUL))
        self._used = end
        return int.from_bytes(self._drawn[start:end], "little") >> (-bits & 7)

    def toss(self, threshold: int) -> bool:
        """True with probability exactly threshold / 2^64."""
        return self.integer(64) < threshold

    def lanes(self, threshold: int, count: int) -> int:
        """An integer of `count` bits, each 1 with probability exactly threshold / 2^64.

        As in `bernoulli`, every bit stands for a number that is drawn digit by digit until it
        differs from the threshold.
        """
        below, undecided = 0, (1 << count) - 1
        if threshold <= 0 or threshold >= ONE:
            return below if threshold <= 0 else undecided
        for digit in _digits(threshold):
            agree = undecided & self.integer(count)
            if digit:
                below |= undecided ^ agree
                undecided = agree
            else:
                undecided ^= agree
            if not undecided:
                break
        return below

    def uniform(self, bound: int) -> int:
        """An integer exactly uniform on 0 .. bound - 1, by rejection."""
        bits = (bound - 1).bit_length()
        drawn = self.integer(bits)
        while drawn >= bound:
            drawn = self.integer(bits)
        return drawn

    def rounded(self, position: int) -> int:
        """A position in units of 2^-32 to a whole one, as `round_at_random` does it."""
        rest = position & ((1 << FRACTION_BITS) - 1)
        return (position >> FRACTION_BITS) + (self.integer(FRACTION_BITS) < rest)


@lru_cache(maxsize=256)
def _digits(threshold: int) -> tuple[bool, ...]:
    """The binary digits of threshold / 2^64 from the highest to the last that is 1."""
    return tuple(digit == "1" for digit in f"{threshold:064b}".rstrip("0"))
