"""The page and the analysts' HTTP API as one ASGI application: routes, headers, errors, limits."""

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

from metricldp.answers.tally import Tally
from metricldp.basics.errors import MetricLdpError, QueryError
from metricldp.basics.optional import optional
from metricldp.collector.base import Collected
from metricldp.collector.database import StoreError
from metricldp.collector.page import access, survey_page
from metricldp.collector.page.charts import chart
from metricldp.collector.page.cost import check_cost
from metricldp.collector.page.query import Pairs, Query
from metricldp.collector.page.view import TableView
from metricldp.collector.problems import TYPE
from metricldp.estimate.request import parameters, run
from metricldp.estimate.table import EstimateTable
from metricldp.store.base import REPORTS
from metricldp.store.raw import Raw
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
"""Queries that run at once, and that wait; more get status 503."""
RETRY = 5
"""Seconds after which a rejected client may try again."""
_FORMATS = {
    "": "application/json",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml",
}
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
log = logging.getLogger("metricldp.page")
T = TypeVar("T")


class HttpError(Exception):
    """A status, the word of its problem type, and a text."""

    def __init__(self, status: int, word: str, text: str) -> None:
        super().__init__(text)
        self.status, self.word, self.text = status, word, text


class QueryQueue:
    """Runs queries in threads: a few at once, while a few wait."""

    def __init__(self, running: int = RUNNING, waiting: int = WAITING) -> None:
        self._most, self._inside = running + waiting, 0
        self._running = asyncio.Semaphore(running)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    async def run(self, key: str, work: Callable[[], T]) -> T:
        """Run work; of each key one at a time, so that a tally is not made twice at once."""
        if self._inside >= self._most:
            raise HttpError(503, "busy", "too many queries at once; try again in a few seconds")
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
    """The routes."""

    def __init__(self, collected: Collected) -> None:
        self.collected, self.queue = collected, QueryQueue()

    # Pages ---------------------------------------------------------------------------------------

    async def surveys(self, request: Request) -> Response:
        surveys = await asyncio.to_thread(self._allowed, access.token_of(request))
        return survey_page.surveys(surveys) if surveys else survey_page.login("/surveys")

    def _allowed(self, token: str) -> list[Agreement]:
        surveys = self.collected.surveys()
        return [survey for survey in surveys if access.allowed(self.collected, token, survey)]

    async def page(self, request: Request) -> Response:
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        try:
            survey = await self._survey(request)
            work = partial(self._page, survey, request.query_params.multi_items())
            status, html = await self.queue.run(survey.fingerprint, work)
        except HttpError as error:
            if error.status == 401:
                return survey_page.login(access.safe_next(address))
            return survey_page.message(error.status, error.text, _retry_header(error))
        return survey_page.html(html, status)

    def _page(self, survey: Agreement, pairs: Pairs) -> tuple[int, str]:
        status = self.collected.status(survey)
        return survey_page.survey_page(self._tally(survey), status, pairs)

    def _tally(self, survey: Agreement) -> Tally:
        """A tally that reads the reports and keeps no tables, which would stay in memory."""
        tally = self.collected.tally(survey)
        store = tally.store
        if isinstance(store, Raw):
            store = Raw(survey, store.table, REPORTS)
        return Tally(store, tally.planner)

    async def login(self, request: Request) -> Response:
        if request.method != "POST":
            return survey_page.login("/surveys", status=200)
        form = await access.form_of(request)
        token, target = form.get("token", "").strip(), access.safe_next(form.get("next", ""))
        if not access.same_site(request):
            text = "This form was sent by another site. Log in here."
            return survey_page.login(target, text, 403)
        is_valid = 0 < len(token) <= access.LONGEST_TOKEN
        if not is_valid or not await asyncio.to_thread(self._allowed, token):
            text = "This token gives access to no survey of this collector. Check it."
            return survey_page.login(target, text)
        response = responses.RedirectResponse(target, 303)
        access.set_cookie(request, response, token)
        return response

    async def logout(self, request: Request) -> Response:
        if not access.same_site(request):
            return survey_page.message(403, "This form was sent by another site.")
        response = responses.RedirectResponse("/surveys/login", 303)
        access.delete_cookie(request, response)
        return response

    # Queries -------------------------------------------------------------------------------------

    async def query(self, request: Request) -> Response:
        try:
            survey = await self._survey(request)
            name, _, form = request.path_params["kind"].partition(".")
            if form not in _FORMATS:
                raise HttpError(404, "not-found", "estimates come as .json, .csv or .svg")
            work = partial(self._answer, survey, name, form, request.query_params.multi_items())
            return await self.queue.run(survey.fingerprint, work)
        except HttpError as error:
            return problem(error)
        except StoreError:  # its text names files of the server
            log.exception("the store failed")
            return problem(HttpError(503, "busy", "the store does not respond; try again later"))
        except MetricLdpError as error:
            return problem(HttpError(400, "question", str(error)))

    def _answer(self, survey: Agreement, name: str, form: str, pairs: Pairs) -> Response:
        query = Query.from_address(name, pairs)
        tally = self._tally(survey)
        query.check(tally.n)
        check_cost(tally, query)
        headers = {"cache-control": "no-store"}
        if form in ("csv", "svg"):
            headers["content-disposition"] = f'attachment; filename="{name}.{form}"'
        body = _body(run(tally, query.request), query, form)
        return responses.Response(body, headers=headers, media_type=_FORMATS[form])

    async def _survey(self, request: Request) -> Agreement:
        """The survey of a request, if its token gives access to it."""
        token = access.token_of(request)
        if not token:
            raise HttpError(401, "token", "this address needs a token: Authorization: Bearer ...")
        fingerprint = request.path_params["fingerprint"]
        surveys = await asyncio.to_thread(self.collected.surveys)
        survey = next((one for one in surveys if one.fingerprint == fingerprint), None)
        if survey is None:
            text = "this collector has no survey with this fingerprint"
            raise HttpError(404, "unknown-survey", text)
        if not await asyncio.to_thread(access.allowed, self.collected, token, survey):
            raise HttpError(401, "token", "this token does not give access to this survey")
        return survey


def _body(result: Any, query: Query, form: str) -> bytes:
    """The result of a request as JSON, CSV or SVG."""
    table = getattr(result, "coefficients", result)  # of a regression
    if not isinstance(table, EstimateTable):
        if form in ("csv", "svg"):
            raise QueryError(f"the result of {query.request.kind} is not a table; use .json")
        levels = [query.request.confidence_level]
        has_level = "confidence_level" in parameters(type(query.request))
        return _json(result.to_dict(*levels[:has_level]))
    view = TableView(table, query)
    if form == "svg":
        title = survey_page.title_of(table, query.request)
        return chart(view, title).svg(standalone=True).encode()
    if view.differences is not None:
        if query.malicious:
            raise QueryError("differences have no poisoning bounds; leave malicious out")
        view = view.differences
    if form == "csv":
        return view.to_csv().encode()
    more = {} if table is result else result.to_dict(view.level)
    more.pop("rows", None)
    return _json(view.to_dict() | more)


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


def problem(error: HttpError) -> Response:
    """application/problem+json, as everywhere in the collector."""
    title = error.text.partition("\n")[0]
    data = {"type": TYPE + error.word, "title": title, "status": error.status}
    if title != error.text:
        data["detail"] = error.text
    headers = {"cache-control": "no-store", **_retry_header(error)}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    body = json.dumps(data)
    return responses.Response(body, error.status, headers, "application/problem+json")


def _retry_header(error: HttpError) -> dict[str, str]:
    return {"retry-after": str(RETRY)} if error.status == 503 else {}


async def _static(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    body, tag = _file(name)
    headers = {"etag": tag, "cache-control": "public, max-age=300"}
    if request.headers.get("if-none-match") == tag:
        return responses.Response(status_code=304, headers=headers)
    return responses.Response(body, headers=headers, media_type=_STATIC[name])


def _file(name: str) -> tuple[bytes, str]:
    body = files("metricldp.collector.page").joinpath("static", name).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"'


async def _home(request: Request) -> Response:
    return responses.RedirectResponse("/surveys", 307)


async def _on_error(request: Request, error: Exception) -> Response:
    """The response where no route answers, or to an unexpected error, which is logged."""
    status = error.status_code if isinstance(error, exceptions.HTTPException) else 500
    words = {404: ("not-found", "there is nothing at this address")}
    words[405] = "method", "this address does not support that method"
    word, text = words.get(status, ("internal", "an internal error occurred"))
    if request.url.path.startswith("/v1/"):
        return problem(HttpError(status, word, text))
    return survey_page.message(status, text)


def pages(collected: Collected) -> ASGIApp:
    """The pages and the analysts' API for the reports of a collector."""
    site = Site(collected)
    routes = [
        routing.Route("/", _home),
        routing.Route("/surveys", site.surveys),
        routing.Route("/surveys/login", site.login, methods=["GET", "POST"]),
        routing.Route("/surveys/logout", site.logout, methods=["POST"]),
        *(routing.Route(f"/surveys/{name}", _static) for name in _STATIC),
        routing.Route("/surveys/{fingerprint:str}", site.page),
        routing.Route("/v1/surveys/{fingerprint:str}/query/{kind:str}", site.query),
    ]
    handlers: Any = {exceptions.HTTPException: _on_error, Exception: _on_error}
    return _with_headers(applications.Starlette(routes=routes, exception_handlers=handlers))


def _with_headers(app: ASGIApp) -> ASGIApp:
    """The same application with security headers in every response, whatever fails."""
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            await app(scope, receive, sending)
        except Exception:
            log.exception("a request failed")
            if not started:
                error = HttpError(500, "internal", "an internal error occurred")
                await problem(error)(scope, receive, sending)

    return guarded
