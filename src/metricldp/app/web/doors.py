"""Who may come in: tokens from a header or a cookie, and the form that makes the cookie."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote, urlsplit

from metricldp.collector.base import Collected
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

SCOPE = "ask"
LONGEST_TOKEN, LONGEST_FORM = 512, 16_384
KEPT = 12 * 3600
"""Seconds for which a browser keeps a token."""
_NEXT = re.compile(r"/surveys(/[0-9a-f]+)?(\?[^\\\s]*)?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def token_of(request: Request) -> str:
    """The token of a request; nothing, if it has none. An address never holds one."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        found = token.strip()
    else:
        found = unquote(request.cookies.get(_cookie(request), ""))
    return found if len(found) <= LONGEST_TOKEN else ""


def allowed(collected: Collected, token: str, survey: Agreement) -> bool:
    """Whether a token lets somebody ask about a survey."""
    return bool(token) and collected.allowed(token, survey, SCOPE)


def safe_next(address: str) -> str:
    """Where to go after logging in: a page of ours, or else the list of them."""
    return address if _NEXT.fullmatch(address) and len(address) < LONGEST_FORM else "/surveys"


def from_here(request: Request) -> bool:
    """Whether a form was sent by a page of ours, as far as the browser says."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a small form; a large body is not read to its end."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
    return {name: values[0] for name, values in fields.items()}


def keep(request: Request, response: Response, token: str) -> None:
    """A cookie that no script sees and no other site sends; only over TLS, but on one machine."""
    response.set_cookie(
        _cookie(request),
        quote(token, safe=""),
        max_age=KEPT,
        path="/",
        secure=not _local(request),
        httponly=True,
        samesite="strict",
    )


def forget(request: Request, response: Response) -> None:
    response.delete_cookie(
        _cookie(request),
        path="/",
        secure=not _local(request),
        httponly=True,
        samesite="strict",
    )


def _cookie(request: Request) -> str:
    """Over TLS a name that another host of the same domain cannot set."""
    return "metricldp" if _local(request) else "__Host-metricldp"


def _local(request: Request) -> bool:
    """Whether browser and server are on one machine, with no proxy between them."""
    passed = any(name in request.headers for name in ("x-forwarded-for", "forwarded", "via"))
    passed = passed or "x-forwarded-proto" in request.headers
    return request.url.scheme == "http" and request.url.hostname in _LOOPBACK and not passed
