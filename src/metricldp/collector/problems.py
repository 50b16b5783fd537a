"""Errors as others see them: application/problem+json, whose type ends in the word of the refusal.

No value, no name and no line of code stands in them.
"""

from __future__ import annotations

import json

STATUS = {
    "length": 400,
    "version": 400,
    "survey": 400,
    "padding": 400,
    "range": 400,
    "late": 400,
    "early": 400,
    "too-many": 413,
    "too-large": 413,
    "invite": 403,
    "conflict": 409,
    "closed": 410,
    "full": 403,
    "unknown-survey": 404,
    "slow": 408,
    "busy": 503,
    "token": 401,
    "question": 400,
    "not-found": 404,
    "method": 405,
    "internal": 500,
}
"""The status of HTTP for each word."""
_TOLD = {
    "length": "the body is not a whole number of records of this survey",
    "version": "the report has another version; update the client",
    "survey": "the report belongs to another survey; use its own address",
    "padding": "the report has bits set after its last field",
    "range": "the report has a value that no device could send",
    "late": "the id is older than the replay window; the report is not accepted any more",
    "early": "the id has a date in the future; check the clock",
    "too-many": "too many reports in one upload; send fewer at a time",
    "too-large": "the body is too large; send fewer reports at a time",
    "invite": "there is no invite or token that is valid for this survey",
    "conflict": "this id was used for a different report; send the same bytes again, or none",
    "closed": "the survey is closed; delete the report",
    "full": "the survey has its maximum number of reports; delete the report",
    "unknown-survey": "this collector has no survey with this fingerprint",
    "slow": "the body did not arrive in time; send it again",
    "busy": "the server cannot store reports now; send the same bytes again later",
    "token": "this address needs a valid token: Authorization: Bearer ...",
    "question": "the request is invalid",
    "not-found": "there is nothing at this address",
    "method": "this address does not support that method",
    "internal": "an internal error occurred; the operator can find it in the log",
}
TYPE = "urn:metricldp:problem:"
Headers = list[tuple[bytes, bytes]]
OPEN = (b"access-control-allow-origin", b"*")
"""Any page may send reports and read what became of them: there are no cookies to abuse."""


def outcome_words(outcome: str) -> str:
    """An outcome of a report for people; a reason alone, such as "survey", is no sentence."""
    return f"rejected: {_TOLD[outcome].partition(';')[0]}" if outcome in _TOLD else outcome


def problem(word: str, detail: str | None = None) -> tuple[int, Headers, bytes]:
    """Status, headers and body."""
    status = STATUS[word]
    said = {"type": f"{TYPE}{word}", "title": _TOLD[word], "status": status}
    body = json.dumps(said | ({"detail": detail} if detail else {})).encode()
    headers: Headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        OPEN,
    ]
    if word == "busy":
        # Pages from elsewhere see it only if they are told that they may.
        headers += [(b"retry-after", b"2"), (b"access-control-expose-headers", b"retry-after")]
    if word == "token":
        headers.append((b"www-authenticate", b"Bearer"))
    return status, headers, body
