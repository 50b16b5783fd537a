"""Blind tokens: one report per person, and nobody can tell whose report it is.

A separate issuer signs a serial number that it does not see (RFC 9474, RSABSSA-SHA384-PSS in its
deterministic form; the salt has 48 bytes) and hands out one signature per person. The collector has
the public key only. Nothing here signs: blind signing in Python would not take constant time.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from metricldp.basics.errors import InvalidSpecError

_BITS, _SALT = 2048, 48


class Blind:
    """Tokens of one issuer."""

    size, once = _BITS // 8, True

    def __init__(self, pem: bytes) -> None:
        try:
            key = load_pem_public_key(pem)
        except ValueError:
            key = None
        if not isinstance(key, rsa.RSAPublicKey) or key.key_size != _BITS:
            raise InvalidSpecError(
                f"the key of blind tokens is an RSA public key of {_BITS} bits in PEM form; get "
                "the public key from the issuer"
            )
        self._key = key
        self._padding = padding.PSS(padding.MGF1(SHA384()), _SALT)

    def holds(self, serial: bytes, proof: bytes) -> bool:
        try:
            self._key.verify(proof, serial, self._padding, SHA384())
        except InvalidSignature:
            return False
        return True
