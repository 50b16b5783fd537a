"""The commands of a collection: compile, serve, ingest, send, status, token, close, backup."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metricldp.app.arguments import Typed, several, survey_in, whole
from metricldp.app.questions import AsJson, SurveyFile
from metricldp.app.terminal import show, tell, watched
from metricldp.app.web import pages
from metricldp.basics.errors import QueryError
from metricldp.basics.optional import optional, require
from metricldp.basics.text import counted
from metricldp.basics.writing import check_apart, replacing, why_not
from metricldp.collector import backups, sending
from metricldp.collector import ingest as ingesting
from metricldp.collector.base import Status
from metricldp.collector.folder import SEAL, Collector, survey_of
from metricldp.collector.problems import outcome_words
from metricldp.collector.proofs import KEY
from metricldp.collector.register import ALL, Entry
from metricldp.collector.requests import invites
from metricldp.collector.server import Application, Options, application
from metricldp.collector.settings import MOST_AT_ONCE
from metricldp.reports import manifest as manifests

if TYPE_CHECKING:
    import uvicorn
    from uvicorn import supervisors
else:
    uvicorn, supervisors = optional("uvicorn"), optional("uvicorn.supervisors")

SUFFIX = ".collected"
_MOST_AT_ONCE = 2000
"""Connections of one process; others get 503."""
_SWITCH = 0.0005
"""Seconds for which the thread that seals may hold the interpreter."""
_HEALTHCHECK = 30
"""Seconds in which a worker must answer its supervisor; on a busy machine imports take long."""
token_app = typer.Typer(rich_markup_mode=None, help="Tokens of analysts and owners, and invites.")
_Place = Annotated[Path, typer.Argument(help="the collector's folder, or its survey.toml")]
_Store = Annotated[
    str | None, typer.Option("--store", help="postgresql://... instead of a file in the folder")
]
_Which = Annotated[
    str | None, typer.Option("--survey", help="the fingerprint, or its first digits")
]


def compile_client(
    survey: SurveyFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="the manifest, else SURVEY.client.json")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what a browser or a phone needs of a survey, and print its SHA-256 to pin it."""
    path = survey.with_suffix(manifests.SUFFIX) if output is None else output
    check_apart(path, [survey], QueryError, "client manifest", [".json"])
    found = manifests.save(survey_in(survey), path)
    show(found.to_dict(), str(found), as_json)


def _count(name: str, words: str, parser: Callable[[Typed], int] = several) -> Any:
    return typer.Option(name, parser=parser, metavar="NUMBER", help=words)


def serve(
    place: Annotated[
        Path,
        typer.Argument(help="a folder for reports, or a survey.toml, beside which one is made"),
    ],
    host: Annotated[str, typer.Option("--host", help="the address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="its port")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="processes")] = 1,
    operations_port: Annotated[
        int | None,
        typer.Option("--ops-port", min=1, max=65535, help="for /healthz, /readyz and /metrics"),
    ] = None,
    batch: Annotated[
        int | None,
        _count("--batch", "release reports in shuffled batches of at least so many", whole),
    ] = None,
    with_invites: Annotated[
        bool, typer.Option("--invites", help="take a report only with an invite")
    ] = False,
    blind: Annotated[
        Path | None,
        typer.Option("--blind", help="take a report only with a token of this issuer: its .pem"),
    ] = None,
    window: Annotated[
        int | None, _count("--window", "days for which a report is known again (30)")
    ] = None,
    most: Annotated[int | None, _count("--most", "reports to accept in all")] = None,
    at_once: Annotated[
        int | None, _count("--at-once", f"reports in one upload ({MOST_AT_ONCE:,})")
    ] = None,
    keep_days: Annotated[
        int | None, _count("--keep-days", "days after which sealed reports are deleted")
    ] = None,
    seal_at: Annotated[int, _count("--seal-at", "reports in a sealed file, about")] = SEAL,
    store: _Store = None,
) -> None:
    """Collect reports over the network, and show what they say."""
    require("collector")
    if store is not None:
        require("postgres")
    folder = folder_of(place, make=True)
    said: dict[str, Any] = {
        "batch": batch,
        "window": window,
        "most": most,
        "at_once": at_once,
        "keep_days": keep_days,
    }
    said = {name: value for name, value in said.items() if value is not None}
    files = [place] if place.is_file() else sorted(folder.glob("*.toml"))
    surveys = [survey_in(path) for path in files]
    with Collector(folder, store) as collector:
        for survey in surveys:
            collector.open(survey)
        entries = collector.entries()
        for entry in entries:
            _change(collector, entry, dict(said), with_invites, blind)
    if not entries:
        tell(f"no survey is open yet: put a survey.toml into {folder}, or PUT one")
    options = Options(seal_at=seal_at, operations_port=operations_port)
    sockets = [_listen(host, port)]
    if operations_port is not None:
        sockets.append(_listen(host, operations_port))
    name = f"[{host}]" if ":" in host else host
    tell(f"collecting in {folder} at http://{name}:{sockets[0].getsockname()[1]}")
    for entry in entries:
        tell(f"survey {entry.fingerprint}")
    run_server(partial(build_application, folder, store, options), sockets, workers)


def build_application(folder: Path, store: str | None, options: Options) -> Application:
    """The application of one process: the collector with its own committer, and its pages."""
    sys.setswitchinterval(_SWITCH)
    collector = Collector(folder, store)
    return application(collector, pages(collector), options=options)


def run_server(
    factory: Callable[[], Application], sockets: Sequence[socket.socket], workers: int = 1
) -> None:
    """Serve until a signal comes; uvicorn starts a worker again when it dies."""
    config = uvicorn.Config(
        factory,
        factory=True,
        workers=workers,
        loop="uvloop" if os.name == "posix" else "auto",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,  # no addresses and times
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_AT_ONCE,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,
        timeout_worker_healthcheck=_HEALTHCHECK,
    )
    if workers == 1:
        uvicorn.Server(config).run(list(sockets))
    else:
        supervisors.Multiprocess(config, list(sockets)).run()


def folder_of(place: Path, *, make: bool = False) -> Path:
    """The folder itself, or that of a survey: beside it, with another ending."""
    if place.suffix not in (".toml", ".json"):
        return place
    if make and not place.is_file():
        raise QueryError(f"there is no survey {place}")
    return place.with_suffix(SUFFIX)


def _change(
    collector: Collector, entry: Entry, said: dict[str, Any], with_invites: bool, blind: Path | None
) -> None:
    """What the command line says counts for all surveys of the folder."""
    if with_invites and blind is not None:
        raise QueryError("a survey takes invites or blind tokens, not both")
    if with_invites and entry.settings.proof != "invites":
        said |= {"proof": "invites", "key": os.urandom(KEY).hex()}
    if blind is not None:
        try:
            said |= {"proof": "blind", "key": blind.read_text("ascii")}
        except (OSError, ValueError) as wrong:
            raise QueryError(f"cannot read {blind}: {why_not(wrong)}") from None
    if said:
        collector.change(survey_of(entry.text), **said)


def _listen(host: str, port: int) -> socket.socket:
    if not host:  # which would be all addresses
        raise QueryError("--host is empty; say 127.0.0.1 for this machine only, or 0.0.0.0 for all")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as wrong:
        raise QueryError(f"cannot listen at {host} port {port}: {wrong}") from None
    made.listen(2048)
    made.set_inheritable(True)
    return made


def ingest(
    place: _Place,
    log: Annotated[str, typer.Argument(help="a file of records, or kafka://HOST:PORT/TOPIC")],
    which: _Which = None,
    group: Annotated[
        str | None, typer.Option("--group", help="the consumer group in Kafka")
    ] = None,
    at_once: Annotated[int, _count("--at-once", "messages in one transaction")] = ingesting.AT_ONCE,
    follow: Annotated[
        bool, typer.Option("--follow", help="wait for more at the end of the log")
    ] = False,
    store: _Store = None,
    as_json: AsJson = False,
) -> None:
    """Read a log that delivers at least once into a collector's database; each id counts once."""
    folder = folder_of(place, make=True)
    with Collector(folder, store) if place.is_file() else Collector.at(folder, store) as collector:
        if place.is_file():
            which = collector.open(survey_in(place)).fingerprint
        entry = _entry(collector, which)

        def show_outcomes(outcomes: Counter[str]) -> None:
            words = ", ".join(f"{n:,} {outcome_words(one)}" for one, n in sorted(outcomes.items()))
            show({"survey": entry.fingerprint, **outcomes}, words or "no new records", as_json)

        total = ingesting.ingest(
            collector,
            entry.fingerprint,
            ingesting.log_of(log, entry, group),
            at_once=at_once,
            follow=follow,
            on_batch=show_outcomes if follow else lambda outcomes: None,
        )
        show_outcomes(total)


def send(
    survey: SurveyFile,
    source: Annotated[
        Path, typer.Argument(help="reports (.parquet), or people (.csv) to be blurred here")
    ],
    to: Annotated[str, typer.Option("--to", help="the collector's address, https://...")],
    invites_file: Annotated[
        Path | None, typer.Option("--invites", help="a file of invites, one for each report")
    ] = None,
    at_once: Annotated[int, _count("--at-once", "reports in one upload")] = sending.AT_ONCE,
    clip: Annotated[bool, typer.Option("--clip", help="move values outside to the end")] = False,
    as_json: AsJson = False,
) -> None:
    """Send reports to a collector; again, with the same bytes, until they are kept."""
    agreed = survey_in(survey)
    if not source.is_file():
        raise QueryError(f"there is no file {source}")
    known = sending.ids_for(agreed, source)
    ids = known if invites_file is None else sending.invites_in(invites_file)
    reports = sending.reports_in(agreed, source, clip=clip)
    with watched("sending"), sending.Line(to) as line:
        found = sending.send(agreed, reports, ids, line, at_once=at_once)
    counts = [f"{counted(found.accepted, 'report')} accepted", f"{found.duplicate} known already"]
    counts += [f"{n} {outcome_words(reason)}" for reason, n in found.refused.items()]
    show(found.to_dict(), ", ".join(counts), as_json)
    if found.refused:
        raise typer.Exit(1)


def status(
    place: Annotated[str, typer.Argument(help="the collector's folder, survey.toml or address")],
    which: _Which = None,
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="METRICLDP_TOKEN", help="for an address: its token"),
    ] = None,
    store: _Store = None,
    as_json: AsJson = False,
) -> None:
    """Say what became of everything that was sent to a collector."""
    if place.startswith(("http://", "https://")):
        if which is None or token is None:
            raise QueryError("an address needs --survey and --token")
        with sending.Line(place, ()) as line:
            found = line.ask("GET", f"/v1/surveys/{which}/status", token=token)
            words = line.understood(lambda: _words(which, _status_from(found)))
        show(found, words, as_json)
        return
    with Collector.at(folder_of(Path(place)), store) as collector:
        entries = collector.entries() if which is None else [_entry(collector, which)]
        told = {e.fingerprint: collector.status(survey_of(e.text)) for e in entries}
    data = {name: asdict(one) for name, one in told.items()}
    show(data, "\n".join(_words(name, one) for name, one in told.items()), as_json)


def _status_from(found: dict[str, Any]) -> Status:
    hours = tuple((int(hour), int(n)) for hour, n in found["per_hour"])
    return Status(**{**found, "per_hour": hours})


def _words(name: str, one: Status) -> str:
    refused = {k: n for k, n in one.outcomes.items() if n and k != "accepted"}
    held = f", {one.waiting:,} waiting for a batch" if one.waiting else ""
    others = "".join(f"\n  {n:>10,} {outcome_words(one)}" for one, n in sorted(refused.items()))
    closed = " (closed)" if one.closed else ""
    return f"survey {name}{closed}\n  {one.reports:>10,} reports{held}{others}"


def _entry(collector: Collector, which: str | None) -> Entry:
    """The survey that is meant: the only one, or that with such a fingerprint."""
    found = [e for e in collector.entries() if which is None or e.fingerprint.startswith(which)]
    if len(found) != 1:
        names = ", ".join(e.fingerprint[:16] for e in collector.entries()) or "none"
        raise QueryError(f"name one survey with --survey; here are {names}")
    return found[0]


def close(place: _Place, which: _Which = None, store: _Store = None) -> None:
    """Take no more reports of a survey; answers stay."""
    with Collector.at(folder_of(place), store) as collector:
        entry = _entry(collector, which)
        collector.stop(survey_of(entry.text))
    show({}, f"survey {entry.fingerprint} is closed", False)


def backup(
    place: _Place,
    output: Annotated[Path, typer.Option("--output", "-o", help="a new folder for the copy")],
    as_json: AsJson = False,
) -> None:
    """Copy a collector's folder as it is at one moment, while it runs."""
    with Collector.at(folder_of(place)) as collector:
        n = backups.backup(collector, output)
    words = f"{counted(n, 'report')} in {output}; metricldp serve {output} serves them again"
    show({"reports": n, "folder": str(output)}, words, as_json)


@token_app.command("new")
def token_new(
    place: _Place,
    name: Annotated[str, typer.Option("--name", help="who holds it")],
    scope: Annotated[str, typer.Option("--scope", help="ask or own")] = "ask",
    which: _Which = None,
    everything: Annotated[
        bool, typer.Option("--all", help="for all surveys, and those to come")
    ] = False,
    store: _Store = None,
    as_json: AsJson = False,
) -> None:
    """Make a token; it is shown this once."""
    with Collector.at(folder_of(place), store) as collector:
        number = ALL if everything else _entry(collector, which).number
        with collector.using() as (_, register):
            token = register.new_token(name, number, scope)
    show({"name": name, "scope": scope, "token": token}, token, as_json)


@token_app.command("list")
def token_list(place: _Place, store: _Store = None, as_json: AsJson = False) -> None:
    """List tokens by name; the tokens themselves are not kept."""
    with Collector.at(folder_of(place), store) as collector, collector.using() as (_, register):
        names = {entry.number: entry.fingerprint for entry in register.entries()}
        found = [
            {"name": t.name, "scope": t.scope, "survey": names.get(t.survey, "all")}
            for t in register.tokens()
        ]
    lines = "\n".join(f"{t['name']}  {t['scope']}  {t['survey'][:32]}" for t in found)
    show({"tokens": found}, lines or "no tokens", as_json)


@token_app.command("revoke")
def token_revoke(
    place: _Place,
    name: Annotated[str, typer.Argument(help="the token's name")],
    store: _Store = None,
) -> None:
    """Take a token back, at once."""
    with Collector.at(folder_of(place), store) as collector, collector.using() as (_, register):
        register.revoke(name)
    show({}, f"{name} may do nothing any more", False)


@token_app.command("invites")
def token_invites(
    place: _Place,
    output: Annotated[Path, typer.Option("--output", "-o", help="the file to write")],
    n: Annotated[int, typer.Option("-n", parser=whole, metavar="NUMBER", help="how many")] = 1000,
    which: _Which = None,
    store: _Store = None,
) -> None:
    """Write invites, one on each line; each is good for one report."""
    with Collector.at(folder_of(place), store) as collector:
        check_apart(output, [place, *folder_of(place).iterdir()], QueryError)
        text = invites(_entry(collector, which).settings, n)
    with replacing(output, QueryError, private=True) as file:
        file.write(text.encode())
    show({}, f"{counted(n, 'invite')} in {output}; whoever has one can use it", False)


def register(app: typer.Typer) -> None:
    """All of these as commands of the command line."""
    for command in (serve, ingest, send, status, close, backup):
        app.command()(command)
    app.command("compile")(compile_client)
    app.add_typer(token_app, name="token")
