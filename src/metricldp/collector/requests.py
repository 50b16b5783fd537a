"""Everything but uploads, through Starlette: surveys and manifests, status, and what owners do."""

from __future__ import annotations

import json
import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from metricldp.basics.errors import InvalidSpecError, MetricLdpError
from metricldp.basics.optional import optional
from metricldp.collector.database import StoreError
from metricldp.collector.envelope import LARGEST
from metricldp.collector.folder import Collector, survey_of
from metricldp.collector.problems import problem
from metricldp.collector.proofs import Invited
from metricldp.collector.register import Entry
from metricldp.collector.settings import Settings
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    from starlette import applications, exceptions, responses, routing
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
else:
    applications, exceptions = optional("starlette.applications"), optional("starlette.exceptions")
    responses, routing = optional("starlette.responses"), optional("starlette.routing")

MOST_INVITES = 100_000
_FOREVER = "public, max-age=31536000, immutable"
_CHECKED = "public, no-cache"
"""Of what can change: caches ask whether it did."""
_OPEN = {"access-control-allow-origin": "*"}
log = logging.getLogger("metricldp.collector")
Flush = Callable[[], Awaitable[None]]


class RequestError(Exception):
    """Ends a request with a problem."""

    def __init__(self, word: str, detail: str | None = None) -> None:
        super().__init__(word)
        self.word, self.detail = word, detail


def as_response(word: str, detail: str | None = None) -> Response:
    status, headers, body = problem(word, detail)
    said = {name.decode(): value.decode() for name, value in headers}
    return responses.Response(body, status, said)


def bearer(request: Request) -> str:
    """The token that came with a request."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


class Requests:
    """The answers of one collector."""

    def __init__(self, collector: Collector, flush: Flush) -> None:
        self._collector, self._flush = collector, flush

    def routes(self) -> list[Route]:
        one = "/v1/surveys/{fp}"
        return [
            routing.Route(one, self._guarded(self._survey), methods=["GET", "PUT", "DELETE"]),
            routing.Route(f"{one}/manifest", self._guarded(self._manifest), methods=["GET"]),
            routing.Route(f"{one}/status", self._guarded(self._status), methods=["GET"]),
            routing.Route(f"{one}/close", self._guarded(self._close), methods=["POST"]),
            routing.Route(f"{one}/invites", self._guarded(self._invites), methods=["POST"]),
        ]

    def _guarded(
        self, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except RequestError as wrong:
                return as_response(wrong.word, wrong.detail)
            except StoreError:
                log.exception("the store failed")
                return as_response("busy")
            except MetricLdpError as wrong:
                return as_response("question", str(wrong))

        return answered

    async def _entry(self, request: Request, scope: str | None = None) -> Entry:
        """The survey of a request."""
        entry = await self._known(request, scope)
        if entry is None:
            raise RequestError("unknown-survey")
        return entry

    async def _known(self, request: Request, scope: str | None) -> Entry | None:
        """The same, or None; the token is checked first, so that others cannot probe."""
        fingerprint = request.path_params["fp"]
        entry = await to_thread(self._collector.entry, fingerprint)
        if scope is not None:
            survey = None if entry is None else survey_of(entry.text)
            token = bearer(request)
            if not token or not await to_thread(self._collector.allowed, token, survey, scope):
                raise RequestError("token")
        return entry

    async def _survey(self, request: Request) -> Response:
        if request.method == "PUT":
            return await self._put(request)
        if request.method == "DELETE":
            entry = await self._entry(request, "own")
            await to_thread(self._collector.delete, survey_of(entry.text))
            return responses.Response(status_code=204)
        survey = survey_of((await self._entry(request)).text)
        tag = f"{survey.fingerprint}-{survey.presentation_digest}"
        return _cached(request, survey.to_json(), tag, _CHECKED)

    async def _manifest(self, request: Request) -> Response:
        entry = await self._entry(request)
        text = await to_thread(client_manifest, entry.text)
        return _cached(request, text, entry.fingerprint, _FOREVER)

    async def _status(self, request: Request) -> Response:
        entry = await self._entry(request, "ask")
        await self._flush()
        found = await to_thread(self._collector.status, survey_of(entry.text))
        return _json(asdict(found))

    async def _put(self, request: Request) -> Response:
        """Open a survey, or change the presentation of one that is open."""
        await self._known(request, "own")
        text = await _body(request)
        survey = await to_thread(_read_survey, text)
        if survey.fingerprint != request.path_params["fp"]:
            raise RequestError("question", f"the body is survey {survey.fingerprint}")
        await to_thread(self._collector.open, survey)
        data = {"survey": survey.fingerprint, "presentation": survey.presentation_digest}
        return _json(data, 201)

    async def _close(self, request: Request) -> Response:
        entry = await self._entry(request, "own")
        await to_thread(self._collector.stop, survey_of(entry.text))
        return _json({"closed": True})

    async def _invites(self, request: Request) -> Response:
        entry = await self._entry(request, "own")
        if entry.settings.proof != "invites":
            raise RequestError("question", "this survey takes no invites; serve it with --invites")
        n = request.query_params.get("n", "1")
        whole = n.isascii() and n.isdigit() and len(n) <= len(str(MOST_INVITES))
        if not (whole and 1 <= int(n) <= MOST_INVITES):
            raise RequestError("question", f"n is a whole number from 1 to {MOST_INVITES:,}")
        text = await to_thread(invites, entry.settings, int(n))
        return responses.Response(text, 200, {"cache-control": "no-store"}, "text/plain")


def invites(settings: Settings, n: int) -> str:
    """New invites, one on each line: serial number and proof in hexadecimal digits."""
    proof = settings.made_proof()
    if not isinstance(proof, Invited):
        raise InvalidSpecError("this survey takes no invites; serve it with --invites")
    return "".join(f"{invite.hex()}\n" for invite in proof.new(n))


@lru_cache(maxsize=64)
def client_manifest(text: str) -> str:
    """The manifest of a survey, as devices read it."""
    return survey_of(text).client_manifest.text


def _read_survey(text: str) -> Agreement:
    made = Agreement.from_json if text.lstrip().startswith("{") else Agreement.from_toml
    return made(text)


async def _body(request: Request) -> str:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            raise RequestError("too-large")
        parts.append(part)
    try:
        return b"".join(parts).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError("question", "a survey is a text in UTF-8") from None


def _cached(request: Request, text: str, tag: str, control: str) -> Response:
    headers = {"cache-control": control, **_OPEN, "etag": f'"{tag}"'}
    if f'"{tag}"' in request.headers.get("if-none-match", ""):
        return responses.Response(status_code=304, headers=headers)
    return responses.Response(text, headers=headers, media_type="application/json")


def _json(data: dict[str, Any], status: int = 200) -> Response:
    body = json.dumps(data, indent=2)
    return responses.Response(body, status, {"cache-control": "no-store"}, "application/json")


def _on_http(_: Request, wrong: Exception) -> Response:
    status = wrong.status_code if isinstance(wrong, exceptions.HTTPException) else 500
    return as_response({404: "not-found", 405: "method"}.get(status, "question"))


def _on_failure(_: Request, wrong: Exception) -> Response:
    return as_response("internal")


def starlette(collector: Collector, flush: Flush) -> applications.Starlette:
    """The routes as an app; nothing of a failure reaches whoever asked."""
    routes = Requests(collector, flush).routes()
    handlers: Any = {exceptions.HTTPException: _on_http, Exception: _on_failure}
    return applications.Starlette(routes=routes, exception_handlers=handlers)
