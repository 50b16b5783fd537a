"""Proofs that a report may be sent: none, an invite, or a blind token.

An invite is a serial number of 16 random bytes and the start of its HMAC-SHA256 under a key of the
survey. Each can be used once. Whoever hands invites out can link a report to who got the invite,
from the network or from the store; blind tokens (`blind.py`) are for those who must not be able to.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Protocol

SERIAL = 16
"""Bytes of an id: a day and random bytes, or the serial number of an invite."""
KEY = 32
"""Bytes of the key of a survey's invites."""


class Proof(Protocol):
    """How a survey knows that somebody may report."""

    size: int
    """Bytes between the id and the report."""
    once: bool
    """Whether the id is a serial number, which can never be used again."""

    def holds(self, serial: bytes, proof: bytes) -> bool:
        """Whether the proof is good for this serial number."""


class Anybody:
    """No proof at all: who invents a second id can report twice."""

    size, once = 0, False

    def holds(self, serial: bytes, proof: bytes) -> bool:
        return True


class Invited:
    """Invites under one key."""

    size, once = 16, True

    def __init__(self, key: bytes) -> None:
        self._key = key

    def proof(self, serial: bytes) -> bytes:
        return hmac.digest(self._key, serial, hashlib.sha256)[: self.size]

    def holds(self, serial: bytes, proof: bytes) -> bool:
        return hmac.compare_digest(self.proof(serial), proof)

    def new(self, count: int) -> list[bytes]:
        """So many new invites: serial number and proof, 32 bytes each."""
        serials = (secrets.token_bytes(SERIAL) for _ in range(count))
        return [serial + self.proof(serial) for serial in serials]
