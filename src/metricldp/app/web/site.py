"""The page and the analysts' API as one ASGI application: routes, headers, refusals, and turns."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from metricldp.answers.quick import Quick
from metricldp.app.web import doors, view
from metricldp.app.web.asked import Asked, asked
from metricldp.app.web.costs import check_cost
from metricldp.app.web.found import Found, answer
from metricldp.app.web.scene import svg
from metricldp.app.web.tables import to_csv
from metricldp.basics.errors import MetricLdpError, QueryError
from metricldp.basics.optional import optional
from metricldp.collector.base import Collected
from metricldp.collector.database import StoreError
from metricldp.collector.problems import TYPE
from metricldp.survey.agreement import Agreement

if TYPE_CHECKING:
    from starlette import applications, exceptions, responses, routing
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
else:
    applications, exceptions = optional("starlette.applications"), optional("starlette.exceptions")
    responses, routing = optional("starlette.responses"), optional("starlette.routing")

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
RUNNING, WAITING = 2, 8
"""Questions that are worked on at once, and that may wait; more are told to come back."""
RETRY = 5
_KINDS = {
    "": "application/json",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml",
}
_STATIC = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
log = logging.getLogger("metricldp.web")
T = TypeVar("T")


class Refused(Exception):
    """What a request gets instead of an answer: a status, a word to tell it by, and a sentence."""

    def __init__(self, status: int, word: str, said: str) -> None:
        super().__init__(said)
        self.status, self.word, self.said = status, word, said


class Turns:
    """Runs questions in threads: a few at once, a few that wait, and no more."""

    def __init__(self, running: int = RUNNING, waiting: int = WAITING) -> None:
        self._most, self._inside = running + waiting, 0
        self._running = asyncio.Semaphore(running)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """One after the other for each key, as a tally is not made for two at once."""
        if self._inside >= self._most:
            raise Refused(503, "busy", "too many questions at once; ask again in a few seconds")
        self._inside += 1
        try:
            async with self._running:
                return await asyncio.to_thread(self._locked, self._locks[key], work)
        finally:
            self._inside -= 1

    @staticmethod
    def _locked(lock: threading.Lock, work: Callable[[], T]) -> T:
        with lock:
            return work()


class Site:
    """Answers to requests, from what was collected."""

    def __init__(self, collected: Collected) -> None:
        self.collected, self.turns = collected, Turns()
        self._kept: dict[str, Quick] = {}
        """By fingerprint, until more reports have come: what was counted is not counted again."""

    # Pages ---------------------------------------------------------------------------------------

    async def surveys(self, request: Request) -> Response:
        token = doors.token_of(request)
        mine = await asyncio.to_thread(self._mine, token)
        if not mine:
            return view.login("/surveys")
        return view.surveys(mine)

    def _mine(self, token: str) -> list[Agreement]:
        every = self.collected.surveys()
        return [survey for survey in every if doors.allowed(self.collected, token, survey)]

    async def page(self, request: Request) -> Response:
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        try:
            survey = await self._let_in(request)
        except Refused as refused:
            if refused.status == 401:
                return view.login(doors.safe_next(address))
            return view.plain(refused.status, refused.said)
        work = partial(self._page, survey, request.query_params.multi_items())
        try:
            status, html = await self.turns.run(survey.fingerprint, work)
        except Refused as refused:
            headers = {"retry-after": str(RETRY)} if refused.status == 503 else {}
            return view.plain(refused.status, refused.said, headers)
        return view.html(html, status)

    def _page(self, survey: Agreement, said: list[tuple[str, str]]) -> tuple[int, str]:
        tally = self._tally(survey)
        return view.survey(tally, self.collected.status(survey), said)

    def _tally(self, survey: Agreement) -> Quick:
        """In a turn of its own for each survey."""
        tally = self.collected.tally(survey)
        kept = self._kept.get(survey.fingerprint)
        if kept is None or not kept.is_over(tally):
            kept = self._kept[survey.fingerprint] = Quick.over(tally)
        return kept

    async def login(self, request: Request) -> Response:
        if request.method != "POST":
            return view.login("/surveys", status=200)
        form = await doors.form_of(request)
        token, onward = form.get("token", "").strip(), doors.safe_next(form.get("next", ""))
        if not doors.from_here(request):
            return view.login(onward, "This form was sent by another site; log in here.", 403)
        known = 0 < len(token) <= doors.LONGEST_TOKEN
        if not known or not await asyncio.to_thread(self._mine, token):
            return view.login(onward, "This token opens no survey here; check it, or ask for one.")
        response = responses.RedirectResponse(onward, 303)
        doors.keep(request, response, token)
        return response

    async def logout(self, request: Request) -> Response:
        if not doors.from_here(request):
            return view.plain(403, "This form was sent by another site.")
        response = responses.RedirectResponse("/surveys/login", 303)
        doors.forget(request, response)
        return response

    # The API -------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        try:
            survey = await self._let_in(request)
            name, _, kind = request.path_params["question"].partition(".")
            if kind not in _KINDS:
                raise Refused(404, "not-found", "an answer comes as .json, .csv or .svg")
            said = [word for word in request.query_params.multi_items() if word[0] != "show"]
            work = partial(self._answer, survey, name, kind, said)
            return await self.turns.run(survey.fingerprint, work)
        except Refused as refused:
            return problem(refused)
        except StoreError:  # it names files, which are nobody's business
            log.exception("the store failed")
            return problem(Refused(503, "busy", "the store does not answer; ask again later"))
        except MetricLdpError as wrong:
            return problem(Refused(400, "question", str(wrong)))

    def _answer(
        self, survey: Agreement, name: str, kind: str, said: list[tuple[str, str]]
    ) -> Response:
        question: Asked = asked(survey, name, said)
        tally = self._tally(survey)
        check_cost(tally, question)
        body = _written(answer(tally, question), kind)
        headers = {"cache-control": "no-store"}
        if kind in ("csv", "svg"):
            headers["content-disposition"] = f'attachment; filename="{name}.{kind}"'
        return responses.Response(body, headers=headers, media_type=_KINDS[kind])

    async def _let_in(self, request: Request) -> Agreement:
        token = doors.token_of(request)
        if not token:
            raise Refused(401, "token", "this needs a token: Authorization: Bearer ...")
        survey, right = await asyncio.to_thread(
            self._found, request.path_params["fingerprint"], token
        )
        if survey is None:
            raise Refused(
                404, "unknown-survey", "no survey with this fingerprint is collected here"
            )
        if not right:
            raise Refused(401, "token", "this token does not let you ask about this survey")
        return survey

    def _found(self, fingerprint: str, token: str) -> tuple[Agreement | None, bool]:
        for survey in self.collected.surveys():
            if survey.fingerprint == fingerprint:
                return survey, doors.allowed(self.collected, token, survey)
        return None, False


def _written(found: Found, kind: str) -> bytes:
    if kind == "csv":
        return to_csv(found.table).encode()
    if kind == "svg":
        if found.scene is None:
            raise QueryError("this answer is a number and has no chart; take .json or .csv")
        return svg(found.scene, alone=True).encode()
    return json.dumps(found.data, ensure_ascii=False, allow_nan=False).encode()


def problem(refused: Refused) -> Response:
    """application/problem+json, as everywhere in the collector."""
    data = {"type": TYPE + refused.word, "title": refused.said, "status": refused.status}
    headers = {"cache-control": "no-store"}
    if refused.status == 401:
        headers["www-authenticate"] = "Bearer"
    if refused.status == 503:
        headers["retry-after"] = str(RETRY)
    return responses.Response(json.dumps(data), refused.status, headers, "application/problem+json")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    body, tag = _file(name)
    headers = {"etag": tag, "cache-control": "public, max-age=300"}
    if request.headers.get("if-none-match") == tag:
        return responses.Response(status_code=304, headers=headers)
    return responses.Response(body, headers=headers, media_type=_STATIC[name])


def _file(name: str) -> tuple[bytes, str]:
    if name not in _STATIC:
        raise exceptions.HTTPException(404)
    body = files("metricldp.app.web").joinpath("static", name).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"'


async def _home(request: Request) -> Response:
    return responses.RedirectResponse("/surveys", 307)


async def _wrong(request: Request, wrong: Exception) -> Response:
    """What no route answers, or what nobody thought of; its trace goes to the log."""
    status = wrong.status_code if isinstance(wrong, exceptions.HTTPException) else 500
    words = {404: ("not-found", "there is nothing at this address")}
    words[405] = "method", "this address does not take that method"
    word, said = words.get(status, ("internal", "something went wrong here"))
    if request.url.path.startswith("/v1/"):
        return problem(Refused(status, word, said))
    return view.plain(status, said)


def pages(collected: Collected) -> ASGIApp:
    """What people look at and analysts ask, for whatever was collected."""
    site = Site(collected)
    routes = [
        routing.Route("/", _home),
        routing.Route("/surveys", site.surveys),
        routing.Route("/surveys/login", site.login, methods=["GET", "POST"]),
        routing.Route("/surveys/logout", site.logout, methods=["POST"]),
        routing.Route("/surveys/{name:str}", _static_or(site.page)),
        routing.Route("/v1/surveys/{fingerprint:str}/{question:str}", site.ask),
    ]
    handlers: Any = {exceptions.HTTPException: _wrong, Exception: _wrong}
    return _guarded(applications.Starlette(routes=routes, exception_handlers=handlers))


def _static_or(page: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def route(request: Request) -> Response:
        if request.path_params["name"] in _STATIC:
            return await _static(request)
        request.path_params["fingerprint"] = request.path_params["name"]
        found: Response = await page(request)
        return found

    return route


def _guarded(app: ASGIApp) -> ASGIApp:
    """The same application, whose every answer has the headers that keep a page to itself."""
    kept = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *kept]
            await send(message)

        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            await app(scope, receive, sending)
        except Exception:
            log.exception("a request failed")
            if not started:
                await problem(Refused(500, "internal", "something went wrong here"))(
                    scope, receive, sending
                )

    return guarded
