"""A query as an address or a form describes it: a request, and how its estimates are shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from metricldp.answers import watched
from metricldp.basics.errors import QueryError
from metricldp.basics.text import guess, listed, shown
from metricldp.estimate.request import KINDS, Contributions, Request, flag, integer, parameters
from metricldp.estimate.table import EstimateTable

LONGEST_VALUE, LONGEST_ADDRESS = 4000, 8000
"""Characters of one parameter, and of all: more than a server should parse for anyone."""
QUERIES = {name: kind for name, kind in KINDS.items() if kind is not Contributions}
"""Contributions are one row for each report, and analysts have access to estimates only."""
OPTIONS = ("malicious", "anytime", "baseline")
"""Parameters that all queries have beside those of their request."""
Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Query:
    """A request, and what else is shown of its estimates."""

    request: Request
    texts: Mapping[str, str | Sequence[str]]
    """The parameters of the request, as they were given."""
    malicious: int = 0
    """Clients for whose false reports bounds are shown."""
    anytime: bool = False
    """Whether intervals are confidence sequences."""
    baseline: str = ""
    """The group, in words, whose difference from all others is estimated."""

    @classmethod
    def from_address(cls, name: str, pairs: Pairs) -> Query:
        """From the name of a query and the parameters of an address."""
        if name not in QUERIES:
            raise QueryError(
                f"there is no query {shown(name)}; queries are {', '.join(QUERIES)}"
                f"{guess(name, QUERIES)}"
            )
        known = parameters(QUERIES[name])
        repeated = {one for one, parameter in known.items() if parameter.repeated}
        texts = read_parameters(pairs, {*known, *OPTIONS}, repeated)
        options = {one: texts.pop(one) for one in OPTIONS if one in texts}
        return cls.of(QUERIES[name], texts, options)

    @classmethod
    def of(cls, kind: type[Request], texts: Mapping[str, Any], options: Mapping[str, str]) -> Query:
        """From the parameters of a request, and the options."""
        malicious = integer(options.get("malicious", "0"))
        if malicious < 0:
            raise QueryError(f"malicious is a number of clients, not {malicious}")
        anytime = flag(options.get("anytime", "false"))
        request = kind.from_text(texts)
        return cls(request, texts, malicious, anytime, options.get("baseline", ""))

    def check(self, n: int) -> None:
        """Raise an error for options that so many reports do not allow."""
        if self.anytime and n < watched.FIRST:
            raise QueryError(
                f"confidence sequences begin at {watched.FIRST} reports, and there are {n:,}; wait "
                "for more reports, or leave anytime out"
            )
        if self.malicious > n:
            raise QueryError(f"malicious is at most the number of reports, {n:,}")

    def differences(self, table: EstimateTable) -> EstimateTable:
        """The differences of all other groups from the baseline."""
        texts = [", ".join(row) for row in zip(*(g.texts for g in table.groupings), strict=True)]
        if self.baseline not in texts:
            raise QueryError(
                f"there is no group {shown(self.baseline)} for the baseline; groups are "
                f"{listed(texts)}{guess(self.baseline, texts)}"
            )
        return table.differences(table.labels[texts.index(self.baseline)])

    def address(self) -> str:
        """The parameters of an address that describes this query."""
        texts: dict[str, Any] = {**self.texts}
        texts |= {name: getattr(self, name) for name in OPTIONS if getattr(self, name)}
        return urlencode(texts, doseq=True)


def read_parameters(pairs: Pairs, known: Collection[str], repeated: Collection[str]) -> Any:
    """Texts by parameter, and lists of them for parameters that may be repeated.

    A browser also sends the empty fields of a form; they count as not given.
    """
    texts: dict[str, Any] = {}
    length = 0
    for name, text in pairs:
        if name not in known:
            raise QueryError(
                f"there is no parameter {shown(name)}; parameters are {', '.join(sorted(known))}"
                f"{guess(name, known)}"
            )
        length += len(name) + len(text)
        if len(text) > LONGEST_VALUE or length > LONGEST_ADDRESS:
            raise QueryError(
                f"{name} is too long; a parameter has at most {LONGEST_VALUE:,} characters, and "
                f"all together have at most {LONGEST_ADDRESS:,}"
            )
        if not text.strip():
            continue
        if name in repeated:
            texts.setdefault(name, []).append(text)
        elif name in texts:
            raise QueryError(f"{name} is given twice; give it once")
        else:
            texts[name] = text
    return texts
