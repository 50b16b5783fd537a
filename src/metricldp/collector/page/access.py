"""Access: tokens from a header or a cookie, and the log-in form that sets the cookie."""

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
COOKIE_SECONDS = 12 * 3600
_PROXY = ("x-forwarded-for", "x-forwarded-proto", "forwarded", "via")
_NEXT = re.compile(r"/surveys(/[0-9a-f]+)?(\?[^\\\s]*)?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def token_of(request: Request) -> str:
    """The token of a request, or an empty text. Addresses never contain tokens: they are logged."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        token = token.strip()
    else:
        token = unquote(request.cookies.get(_cookie(request), ""))
    return token if len(token) <= LONGEST_TOKEN else ""


def allowed(collected: Collected, token: str, survey: Agreement) -> bool:
    """Whether a token gives access to the estimates of a survey."""
    return bool(token) and collected.allowed(token, survey, SCOPE)


def safe_next(address: str) -> str:
    """The address to open after logging in: a page of this site, or else the list of surveys."""
    return address if _NEXT.fullmatch(address) and len(address) < LONGEST_FORM else "/surveys"


def same_site(request: Request) -> bool:
    """Whether a form was sent by a page of this site, as far as the browser reports it."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; reading stops at a body that is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
    return {name: values[0] for name, values in fields.items()}


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Set a cookie that scripts cannot read, other sites cannot send, and only TLS transports.

    A browser on the same machine needs no TLS.
    """
    response.set_cookie(
        _cookie(request),
        quote(token, safe=""),
        max_age=COOKIE_SECONDS,
        path="/",
        secure=not _local(request),
        httponly=True,
        samesite="strict",
    )


def delete_cookie(request: Request, response: Response) -> None:
    response.delete_cookie(
        _cookie(request),
        path="/",
        secure=not _local(request),
        httponly=True,
        samesite="strict",
    )


def _cookie(request: Request) -> str:
    """The name of the cookie; over TLS one that other hosts of the domain cannot set."""
    return "metricldp" if _local(request) else "__Host-metricldp"


def _local(request: Request) -> bool:
    """Whether browser and server are on the same machine, with no proxy between them."""
    proxied = any(name in request.headers for name in _PROXY)
    return request.url.scheme == "http" and request.url.hostname in _LOOPBACK and not proxied
