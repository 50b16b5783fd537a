"""The stream of random words that all coins come from: AES-256 in counter mode."""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
import weakref
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from metricldp.basics.errors import SeededRandomnessWarning

Words = npt.NDArray[np.uint64]

_ZEROS = memoryview(bytes(1 << 20))

_forks = 0
_streams: weakref.WeakSet[Randomness] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """A new count, so that every stream draws a new key; new locks, as old ones may be held."""
    global _forks  # noqa: PLW0603 - one counter per process, written only in a new child
    _forks += 1
    for stream in list(_streams):
        stream._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class Randomness:
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
    def seeded(cls, seed: int) -> Randomness:
        """A stream that repeats itself, for tests only: it gives no privacy, and warns of that."""
        warnings.warn(
            f"randomness with seed {seed} gives no privacy: the noise can be computed from the "
            "seed; use Randomness() for real data",
            SeededRandomnessWarning,
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

    def spawn(self) -> Randomness:
        """Another, independent stream, for another thread or batch."""
        return Randomness()

    def _rekey(self, key: bytes) -> None:
        self._key = key
        self._process = (os.getpid(), _forks)
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def _key_after_fork(self) -> bytes:
        return os.urandom(32)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "randomness cannot be copied or pickled, because a copy would repeat it; use spawn()"
        )


class _Seeded(Randomness):
    def __init__(self, key: bytes) -> None:
        self._start(key)

    def spawn(self) -> Randomness:
        with self._lock:
            if self._process != (os.getpid(), _forks):
                self._rekey(self._key_after_fork())
            self._spawned += 1
            return _Seeded(hashlib.sha256(self._key + self._spawned.to_bytes(8, "big")).digest())

    def _key_after_fork(self) -> bytes:
        return hashlib.sha256(self._key + f"fork {os.getpid()} {_forks}".encode()).digest()


def seeded(seed: int) -> Randomness:
    """Randomness that repeats itself, for simulations only, without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededRandomnessWarning)
        return Randomness.seeded(seed)
