"""The commands of `metricldp collector`: receive reports, and send them."""

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

from metricldp.basics.errors import QueryError
from metricldp.basics.progress import progress_bar
from metricldp.basics.text import counted
from metricldp.cli.arguments import (
    AsJson,
    Clip,
    Force,
    SurveyFile,
    argument,
    check_output,
    group,
    load_survey,
    option,
    positive,
)
from metricldp.cli.terminal import show, warn
from metricldp.estimate.request import integer

if TYPE_CHECKING:
    from metricldp.collector.base import Status
    from metricldp.collector.folder import Collector
    from metricldp.collector.register import Entry
    from metricldp.collector.server import Application, Options

app = group("Receive reports over the network, and send them.")
token_app = group("Manage tokens of analysts and owners, and invites.")
SUFFIX = ".collected"
_MAX_CONNECTIONS = 2000
"""Connections of one process; others get status 503."""
_SWITCH_INTERVAL = 0.0005
"""Seconds for which the thread that writes report files may run without a switch."""
_HEALTHCHECK = 30
"""Seconds in which a worker must respond to its supervisor; on a busy machine imports are slow."""

Place = Annotated[Path, typer.Argument(help="Collector folder, or the survey.toml beside it")]
Database = Annotated[
    str | None, typer.Option("--store", help="postgresql://... instead of a file in the folder")
]
Which = Annotated[
    str | None, typer.Option("--survey", help="Fingerprint of the survey, or its first digits")
]


@app.command()
def serve(
    place: Path = argument(
        ..., help="Folder for reports, or a survey file (uses a folder beside it)"
    ),
    host: str = option("127.0.0.1", "--host", help="Address to listen on"),
    port: int = option(8000, "--port", min=0, max=65535, help="Port"),
    workers: int = option(1, "--workers", min=1, max=64, help="Processes"),
    operations_port: int | None = option(
        None, "--ops-port", min=1, max=65535, help="Port of /healthz, /readyz, /metrics"
    ),
    batch: int | None = option(
        None, "--batch", help="Release shuffled batches of this size", read=integer
    ),
    with_invites: bool = option(False, "--invites", help="Accept reports only with an invite"),
    blind: Path | None = option(None, "--blind", help="Accept only tokens of this issuer (.pem)"),
    window: int | None = option(
        None, "--window", help="Days in which a repeated id counts as duplicate", read=positive
    ),
    most: int | None = option(
        None, "--most", help="Largest number of reports to accept", read=positive
    ),
    at_once: int | None = option(
        None, "--at-once", help="Largest number of reports in one upload", read=positive
    ),
    keep_days: int | None = option(
        None, "--keep-days", help="Days until reports are deleted", read=positive
    ),
    seal_at: int = option(
        100_000, "--seal-at", help="Approximate number of reports in a Parquet file", read=positive
    ),
    store: Database = None,
) -> None:
    """Receive reports over HTTP, and serve estimates and a page."""
    from metricldp.basics.optional import require
    from metricldp.collector.folder import Collector
    from metricldp.collector.server import Options

    require("collector")
    if store is not None:
        require("postgres")
    folder = folder_of(place, make=True)
    settings = {
        "batch": batch,
        "window": window,
        "most": most,
        "at_once": at_once,
        "keep_days": keep_days,
    }
    changes: dict[str, Any] = {name: one for name, one in settings.items() if one is not None}
    files = [place] if place.is_file() else sorted(folder.glob("*.toml"))
    surveys = [load_survey(path) for path in files]
    with Collector(folder, store) as collector:
        for survey in surveys:
            collector.open(survey)
        entries = collector.entries()
        for entry in entries:
            _change(collector, entry, dict(changes), with_invites, blind)
    if not entries:
        warn(f"no survey is open; put a survey.toml into {folder}, or PUT one")
    options = Options(seal_at=seal_at, operations_port=operations_port)
    sockets = [_listen(host, port)]
    if operations_port is not None:
        sockets.append(_listen(host, operations_port))
    name = f"[{host}]" if ":" in host else host
    warn(f"collecting in {folder} at http://{name}:{sockets[0].getsockname()[1]}")
    for entry in entries:
        warn(f"survey {entry.fingerprint}")
    run_server(partial(build_application, folder, store, options), sockets, workers)


def build_application(folder: Path, store: str | None, options: Options) -> Application:
    """The application of one process: a collector that writes by itself, and its pages."""
    from metricldp.collector.folder import Collector
    from metricldp.collector.page import pages
    from metricldp.collector.server import application

    sys.setswitchinterval(_SWITCH_INTERVAL)
    collector = Collector(folder, store)
    return application(collector, pages(collector), options=options)


def run_server(
    factory: Callable[[], Application], sockets: Sequence[socket.socket], workers: int = 1
) -> None:
    """Serve until a signal comes; a worker that ends is started again."""
    import uvicorn
    from uvicorn import supervisors

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
        limit_concurrency=_MAX_CONNECTIONS,
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
    collector: Collector,
    entry: Entry,
    changes: dict[str, Any],
    with_invites: bool,
    blind: Path | None,
) -> None:
    """Settings of the command line apply to all surveys of the folder."""
    from metricldp.basics.writing import why_not
    from metricldp.collector.folder import survey_of
    from metricldp.collector.proofs import KEY

    if with_invites and blind is not None:
        raise QueryError("a survey takes invites or blind tokens, not both")
    if with_invites and entry.settings.proof != "invites":
        changes |= {"proof": "invites", "key": os.urandom(KEY).hex()}
    if blind is not None:
        try:
            changes |= {"proof": "blind", "key": blind.read_text("ascii")}
        except (OSError, ValueError) as wrong:
            raise QueryError(f"cannot read {blind}: {why_not(wrong)}") from None
    if changes:
        collector.change(survey_of(entry.text), **changes)


def _listen(host: str, port: int) -> socket.socket:
    if not host:  # which would be all addresses
        raise QueryError("--host is empty; use 127.0.0.1 for this machine only, 0.0.0.0 for all")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as wrong:
        raise QueryError(f"cannot listen at {host} port {port}: {wrong}") from None
    listener.listen(2048)
    listener.set_inheritable(True)
    return listener


@app.command()
def ingest(
    place: Place,
    log: str = argument(..., help="File of records, or kafka://HOST:PORT/TOPIC"),
    which: Which = None,
    group: str | None = option(None, "--group", help="Consumer group of Kafka"),
    at_once: int | None = option(
        None, "--at-once", help="Messages in one transaction", read=positive
    ),
    follow: bool = option(False, "--follow", help="Wait for more records at the end of the log"),
    store: Database = None,
    as_json: AsJson = False,
) -> None:
    """Read reports from a log; repeated ids are duplicates."""
    from metricldp.collector import ingest as ingesting
    from metricldp.collector.folder import Collector
    from metricldp.collector.problems import outcome_words

    folder = folder_of(place, make=True)
    with Collector(folder, store) if place.is_file() else Collector.at(folder, store) as collector:
        if place.is_file():
            which = collector.open(load_survey(place)).fingerprint
        entry = _entry(collector, which)

        def show_outcomes(outcomes: Counter[str]) -> None:
            words = ", ".join(f"{n:,} {outcome_words(one)}" for one, n in sorted(outcomes.items()))
            show({"survey": entry.fingerprint, **outcomes}, words or "no new records", as_json)

        total = ingesting.ingest(
            collector,
            entry.fingerprint,
            ingesting.log_of(log, entry, group),
            at_once=at_once or ingesting.AT_ONCE,
            follow=follow,
            on_batch=show_outcomes if follow else lambda outcomes: None,
        )
        show_outcomes(total)


@app.command()
def send(
    survey: SurveyFile,
    source: Path = argument(..., help="Reports (.parquet), or responses to randomize here (.csv)"),
    to: str = option(..., "--to", help="Address of the collector, https://..."),
    invites_file: Path | None = option(
        None, "--invites", help="File of invites, one for each report"
    ),
    at_once: int | None = option(None, "--at-once", help="Reports in one upload", read=positive),
    clip: Clip = False,
    as_json: AsJson = False,
) -> None:
    """Send reports to a collector, and repeat until all are stored."""
    from metricldp.collector import sending
    from metricldp.collector.problems import outcome_words

    loaded = load_survey(survey)
    if not source.is_file():
        raise QueryError(f"there is no file {source}")
    known = sending.ids_for(loaded, source)
    ids = known if invites_file is None else sending.invites_in(invites_file)
    reports = sending.reports_in(loaded, source, clip=clip)
    with progress_bar("sending"), sending.Line(to) as line:
        sent = sending.send(loaded, reports, ids, line, at_once=at_once or sending.AT_ONCE)
    counts = [
        f"{counted(sent.accepted, 'report')} accepted",
        counted(sent.duplicate, "duplicate"),
        *(f"{n} {outcome_words(reason)}" for reason, n in sent.refused.items()),
    ]
    show(sent.to_dict(), ", ".join(counts), as_json)
    if sent.refused:
        raise typer.Exit(1)


@app.command()
def status(
    place: str = argument(..., help="Collector folder, survey.toml, or address"),
    which: Which = None,
    token: str | None = option(
        None, "--token", envvar="METRICLDP_TOKEN", help="Token, for an address"
    ),
    store: Database = None,
    as_json: AsJson = False,
) -> None:
    """Count accepted, duplicate and rejected reports."""
    from metricldp.collector import sending
    from metricldp.collector.folder import Collector, survey_of

    if place.startswith(("http://", "https://")):
        if which is None or token is None:
            raise QueryError("an address needs --survey and --token")
        with sending.Line(place, ()) as line:
            data = line.ask("GET", f"/v1/surveys/{which}/status", token=token)
            words = line.understood(lambda: _words(which, _status_from(data)))
        show(data, words, as_json)
        return
    with Collector.at(folder_of(Path(place)), store) as collector:
        entries = collector.entries() if which is None else [_entry(collector, which)]
        counts = {e.fingerprint: collector.status(survey_of(e.text)) for e in entries}
    data = {name: asdict(one) for name, one in counts.items()}
    show(data, "\n".join(_words(name, one) for name, one in counts.items()), as_json)


def _status_from(data: dict[str, Any]) -> Status:
    from metricldp.collector.base import Status

    hours = tuple((int(hour), int(n)) for hour, n in data["per_hour"])
    digests = tuple((int(second), str(digest)) for second, digest in data["presentations"])
    return Status(**{**data, "per_hour": hours, "presentations": digests})


def _words(name: str, one: Status) -> str:
    from metricldp.collector.problems import outcome_words

    others = {k: n for k, n in one.outcomes.items() if n and k != "accepted"}
    waiting = f", {one.waiting:,} waiting for a batch" if one.waiting else ""
    lines = "".join(f"\n  {n:>10,} {outcome_words(one)}" for one, n in sorted(others.items()))
    closed = " (closed)" if one.closed else ""
    return f"survey {name}{closed}\n  {one.reports:>10,} reports{waiting}{lines}"


def _entry(collector: Collector, which: str | None) -> Entry:
    """The only survey, or the one with this fingerprint."""
    entries = [e for e in collector.entries() if which is None or e.fingerprint.startswith(which)]
    if len(entries) != 1:
        names = ", ".join(e.fingerprint[:16] for e in collector.entries()) or "none"
        raise QueryError(f"name one survey with --survey; the collector has {names}")
    return entries[0]


@app.command()
def close(place: Place, which: Which = None, store: Database = None) -> None:
    """Stop accepting reports of a survey; queries still work."""
    from metricldp.collector.folder import Collector, survey_of

    with Collector.at(folder_of(place), store) as collector:
        entry = _entry(collector, which)
        collector.stop(survey_of(entry.text))
    show({}, f"survey {entry.fingerprint} is closed", False)


@app.command()
def backup(
    place: Place,
    output: Path = option(..., "--output", "-o", help="New folder for the copy"),
    as_json: AsJson = False,
) -> None:
    """Copy a collector folder while the collector runs."""
    from metricldp.collector import backups
    from metricldp.collector.folder import Collector

    with Collector.at(folder_of(place)) as collector, progress_bar("copying"):
        n = backups.backup(collector, output)
    text = f"{counted(n, 'report')} in {output}; metricldp collector serve {output} serves them"
    show({"reports": n, "folder": str(output)}, text, as_json)


@app.command()
def manifest(
    survey: SurveyFile,
    output: Path | None = option(
        None, "--output", "-o", help="File to write; default: SURVEY.client.json"
    ),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the manifest for devices, and print its fingerprint."""
    from metricldp.reports import manifest as manifests

    path = survey.with_suffix(manifests.SUFFIX) if output is None else output
    check_output(path, [survey], force, "client manifest", [".json"])
    saved = manifests.save(load_survey(survey), path)
    show(saved.to_dict(), str(saved), as_json)


app.add_typer(token_app, name="token")


@token_app.command("new")
def token_new(
    place: Place,
    name: str = option(..., "--name", help="Holder of the token"),
    scope: str = option("ask", "--scope", help="Permission: ask (query) or own (manage)"),
    which: Which = None,
    everything: bool = option(False, "--all", help="For all surveys, including later ones"),
    store: Database = None,
    as_json: AsJson = False,
) -> None:
    """Create a token; it is shown only once."""
    from metricldp.collector.folder import Collector
    from metricldp.collector.register import ALL

    with Collector.at(folder_of(place), store) as collector:
        number = ALL if everything else _entry(collector, which).number
        with collector.using() as (_, register):
            token = register.new_token(name, number, scope)
    show({"name": name, "scope": scope, "token": token}, token, as_json)


@token_app.command("list")
def token_list(place: Place, store: Database = None, as_json: AsJson = False) -> None:
    """List the names of tokens; tokens themselves are not stored."""
    from metricldp.collector.folder import Collector

    with Collector.at(folder_of(place), store) as collector, collector.using() as (_, register):
        names = {entry.number: entry.fingerprint for entry in register.entries()}
        tokens = [
            {"name": t.name, "scope": t.scope, "survey": names.get(t.survey, "all")}
            for t in register.tokens()
        ]
    lines = "\n".join(f"{t['name']}  {t['scope']}  {t['survey'][:32]}" for t in tokens)
    show({"tokens": tokens}, lines or "no tokens", as_json)


@token_app.command("revoke")
def token_revoke(
    place: Place,
    name: str = argument(..., help="Name of the token"),
    store: Database = None,
) -> None:
    """Revoke a token at once."""
    from metricldp.collector.folder import Collector

    with Collector.at(folder_of(place), store) as collector, collector.using() as (_, register):
        register.revoke(name)
    show({}, f"the token of {name} is revoked", False)


@token_app.command("invites")
def token_invites(
    place: Place,
    output: Path = option(..., "--output", "-o", help="File to write"),
    n: int = option(1000, "-n", help="Number of invites", read=integer),
    which: Which = None,
    store: Database = None,
    force: Force = False,
) -> None:
    """Write invites, one on each line; each is valid for one report."""
    from metricldp.basics.writing import replacing
    from metricldp.collector.folder import Collector
    from metricldp.collector.requests import invites

    with Collector.at(folder_of(place), store) as collector:
        check_output(output, [place, *folder_of(place).iterdir()], force)
        text = invites(_entry(collector, which).settings, n)
    with replacing(output, QueryError, private=True) as file:
        file.write(text.encode())
    show({}, f"{counted(n, 'invite')} in {output}; store the file securely", False)
