"""What whoever opens a survey decides about its collection, kept beside it in the books."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import shown
from metricldp.collector.blind import Blind
from metricldp.collector.proofs import KEY, Anybody, Invited, Proof

MOST_AT_ONCE = 10_000
"""Reports in one upload."""
_PROOFS = ("none", "invites", "blind")


@dataclass(frozen=True)
class Settings:
    """Of one survey; they are the same for all processes."""

    batch: int = 0
    """Reports are released in shuffled batches of at least so many; 0 releases each at once."""
    window: int = 30
    """Days for which an id is known again; older ones are refused."""
    most: int | None = None
    """Reports that are accepted in all."""
    at_once: int = MOST_AT_ONCE
    """Reports in one upload."""
    keep_days: int | None = None
    """Days after which sealed reports are let go."""
    proof: str = "none"
    """What has to come with a report: "none", "invites" or "blind"."""
    key: str = ""
    """Of invites, in hexadecimal digits; or the issuer's public key in PEM form."""

    def __post_init__(self) -> None:
        least = {"batch": 0, "window": 1, "most": 1, "at_once": 1, "keep_days": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < low):
                raise InvalidSpecError(
                    f"{name} is a whole number from {low} on, not {shown(value)}"
                )
        if self.proof not in _PROOFS:
            raise InvalidSpecError(f"proof is one of {', '.join(_PROOFS)}, not {shown(self.proof)}")
        self.made_proof()

    def made_proof(self) -> Proof:
        if self.proof == "none":
            return Anybody()
        if self.proof == "blind":
            return Blind(self.key.encode())
        try:
            key = bytes.fromhex(self.key)
        except (TypeError, ValueError):
            key = b""
        if len(key) != KEY:
            raise InvalidSpecError(f"the key of invites is {2 * KEY} hexadecimal digits")
        return Invited(key)

    def changed(self, **said: Any) -> Settings:
        return replace(self, **said)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in json.loads(text).items() if name in known})
