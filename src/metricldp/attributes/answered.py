"""Whether somebody answered: the second half of an attribute that is optional.

An optional attribute is two: its value, and whether there is one. Each is blurred by itself, so two
people are E apart in the value and `optional` apart in whether they answered. Who did not answer
counts as the middle of the domain, and nobody can tell: the value is multiplied away when counts
are read, because it is read together with "yes".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from metricldp.attributes.base import Attribute
from metricldp.attributes.named import Categorical
from metricldp.attributes.selection import Span
from metricldp_core.values import Domain, Response

NO, YES = Span(0, 1, 2), Span(1, 2, 2)
"""The people who did not answer, and those who did."""


def response_of(name: str) -> str:
    """What the second half of an attribute is called."""
    return f"{name}=response"


def label(name: str) -> str:
    """The name of an attribute in texts: `income=response` is the response to income."""
    source = name.removesuffix(response_of(""))
    return name if source == name else f"{source} (response)"


@dataclass(frozen=True, repr=False)
class Answered(Categorical):
    """Whether a person has a value for the attribute `of`."""

    of: str = field(kw_only=True)

    kind: ClassVar[str] = "answered"
    asks_whether: ClassVar[bool] = True

    @classmethod
    def about(cls, name: str, attribute: Attribute) -> Answered:
        epsilon = attribute.optional or 0.0
        return cls(["no", "yes"], epsilon=epsilon, mechanism="randomized-response", of=name)

    def source(self, name: str) -> str:
        return self.of

    def domain_of(self, name: str) -> Domain:
        return Response(self.of)

    def describe(self) -> str:
        return f"whether there is a response to {self.of}"
