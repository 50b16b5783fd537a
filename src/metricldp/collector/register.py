"""The register of a collector: which surveys are open, and who may ask or own them."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass

from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown
from metricldp.collector.books import Books
from metricldp.collector.settings import Settings
from metricldp.survey.agreement import Agreement

ALL = 0
"""Stands for every survey, and for those that will be opened."""
SCOPES = ("ask", "own")
"""Who owns a survey may ask, too."""
_TOKEN = 32
_ABOUT_A_SURVEY = ("tokens", "ids", "groups_waiting", "segments", "counters", "hours")


@dataclass(frozen=True)
class Entry:
    """A survey as it is registered."""

    number: int
    fingerprint: str
    text: str
    settings: Settings
    closed: bool
    presentations: tuple[tuple[int, str], ...]
    """Digests of the presentation in order, each with the second since 1970 of its first use."""


@dataclass(frozen=True)
class Token:
    """Who may do what; the token itself is known to its holder alone."""

    name: str
    survey: int
    scope: str


class Register:
    """Surveys and tokens, through the books."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._database = books.database

    # Surveys -------------------------------------------------------------------------------------

    def open(self, survey: Agreement, settings: Settings) -> Entry:
        """Register a survey, or replace the settings and the presentation of one that is known."""
        with self._books.writing():
            known = self.entry(survey.fingerprint)
            presentations = [] if known is None else [*known.presentations]
            if not presentations or presentations[-1][1] != survey.presentation_digest:
                presentations.append((int(time.time()), survey.presentation_digest))
            self._database.rows(
                "INSERT INTO surveys (fingerprint, text, settings, most, presentations) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO UPDATE SET "
                "text = excluded.text, settings = excluded.settings, most = excluded.most, "
                "presentations = excluded.presentations",
                (
                    *(survey.fingerprint, survey.to_toml(), settings.to_json(), settings.most),
                    json.dumps(presentations),
                ),
            )
        found = self.entry(survey.fingerprint)
        assert found is not None
        return found

    def entries(self) -> list[Entry]:
        """In the order in which they were opened."""
        return self._found("ORDER BY number", ())

    def entry(self, fingerprint: str) -> Entry | None:
        return next(iter(self._found("WHERE fingerprint = ?", (fingerprint,))), None)

    def _found(self, which: str, values: tuple[str, ...]) -> list[Entry]:
        rows = self._database.rows(
            "SELECT number, fingerprint, text, settings, closed, presentations "
            f"FROM surveys {which}",
            values,
        )
        return [
            Entry(
                *(int(number), fingerprint, text, Settings.from_json(settings), bool(closed)),
                tuple((second, digest) for second, digest in json.loads(presentations)),
            )
            for number, fingerprint, text, settings, closed, presentations in rows
        ]

    def close(self, number: int) -> None:
        with self._books.writing():
            self._database.rows("UPDATE surveys SET closed = 1 WHERE number = ?", (number,))

    def delete(self, number: int) -> list[str]:
        """Everything about a survey; the names of its segments, whose files are left."""
        with self._books.writing():
            names = list(self._books.segments(number))
            self._database.rows("DELETE FROM surveys WHERE number = ?", (number,))
            for table in _ABOUT_A_SURVEY:
                self._database.rows(f"DELETE FROM {table} WHERE survey = ?", (number,))
        return names

    # Tokens --------------------------------------------------------------------------------------

    def new_token(self, name: str, survey: int, scope: str) -> str:
        """A new token; it is shown this once, and only its hash is kept."""
        if scope not in SCOPES:
            raise QueryError(f"a token's scope is one of {', '.join(SCOPES)}, not {shown(scope)}")
        if not name.strip() or not name.isprintable():
            raise QueryError(f"a token's name is a line of text, not {shown(name)}")
        token = secrets.token_urlsafe(_TOKEN)
        with self._books.writing():
            if self._database.rows("SELECT 1 FROM tokens WHERE name = ?", (name,)):
                raise QueryError(f"there is a token named {name!r}; revoke it, or name another")
            self._database.rows(
                "INSERT INTO tokens VALUES (?, ?, ?, ?)", (name, survey, scope, _hashed(token))
            )
        return token

    def tokens(self) -> list[Token]:
        rows = self._database.rows("SELECT name, survey, scope FROM tokens ORDER BY name")
        return [Token(str(name), int(survey), str(scope)) for name, survey, scope in rows]

    def revoke(self, name: str) -> None:
        with self._books.writing():
            gone = self._database.many("DELETE FROM tokens WHERE name = ?", [(name,)])
        if not gone:
            raise QueryError(
                f"there is no token named {name!r}; see metricldp collector token list"
            )

    def allowed(self, token: str, survey: int, scope: str) -> bool:
        """Whether a token gives a scope for a survey; every candidate is compared to its end."""
        said = _hashed(token)
        rows = self._database.rows(
            "SELECT scope, hash FROM tokens WHERE survey = ? OR survey = ?", (survey, ALL)
        )
        good = False
        for given, known in rows:
            enough = given in (scope, "own")
            good |= hmac.compare_digest(bytes(known), said) and enough
        return good and scope in SCOPES


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
