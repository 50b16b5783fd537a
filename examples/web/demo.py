"""From browsers to a page: `make demo-web`.

A collector starts, simulated browsers send reports with the real JavaScript client, and a page
shows the estimates beside the true counts, which only a demonstration has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import socket
import subprocess
import tempfile
import time
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from metricldp.answers.tally import Tally
from metricldp.basics.text import table
from metricldp.cli import demo
from metricldp.cli.collector import build_application
from metricldp.collector.folder import Collector
from metricldp.collector.register import ALL
from metricldp.collector.server import Options
from metricldp.survey.agreement import Agreement

HERE = Path(__file__).parent
OPTIONS = Options(seal_at=5000)
HEAD = ("condition", "true count", "estimate", "SE", "95% CI", "covered")
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--once", action="store_true", help="end when the estimates are there")
    said = parser.parse_args()
    if shutil.which("node") is None:
        raise SystemExit("this needs node, version 19 or newer; on Debian: apt-get install nodejs")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(show(Path(folder), said.people, said.port, said.once))


async def show(folder: Path, people: int, port: int, once: bool) -> None:
    survey = demo.survey()
    collector = Collector(folder)
    collector.open(survey)
    with collector.using() as (_, register):
        token = register.new_token("demo", ALL, "ask")
    collector.close()
    app = build_application(folder, None, OPTIONS)
    beside: dict[str, bytes] = {}
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        base = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        server = uvicorn.Server(
            uvicorn.Config(with_truth(app, beside), access_log=False, log_level="warning")
        )
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            lines = await collect(survey, people, base, app.collector)
            beside["/truth"] = page(survey, lines).encode()
            print(table([HEAD, *(cells(line) for line in lines)]))
            covered = sum(line["covered"] for line in lines)
            print(f"\n{covered} of {len(lines)} intervals cover the true count.")
            print(f"\nEstimates and true counts:  {base}truth")
            print(f"The page for analysts:      {base}surveys/{survey.fingerprint}")
            print(f"Its token:                  {token}")
            if not once:
                print("Press Ctrl-C to end.")
                await serving
        finally:
            server.should_exit = True
            await serving
            app.collector.close()


async def collect(survey: Agreement, people: int, base: str, collector: Collector) -> list[Row]:
    """Every respondent uses a browser of their own; then the counts are estimated."""
    values = demo.population(people)
    rows = (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
    lines = "\n".join(json.dumps(row, default=lambda value: value.item()) for row in rows)
    words = ["node", HERE / "browsers.mjs", base, survey.fingerprint]
    print(f"{people:,} browsers send reports to {base}")
    started = time.monotonic()
    node = await asyncio.create_subprocess_exec(
        *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    out, _ = await node.communicate(lines.encode())
    if node.returncode:
        raise SystemExit("the browsers failed")
    told = json.loads(out)
    print(
        f"{told['sent']:,} reports were sent in {time.monotonic() - started:.0f} s; "
        f"{told['offline']} requests failed, {told['lost']} responses were lost, "
        f"{told['reopened']} tabs were opened again and sent the rest"
    )
    outcomes = collector.status(survey).outcomes
    print(f"accepted: {outcomes['accepted']:,}; duplicates: {outcomes['duplicate']:,}\n")
    assert outcomes["accepted"] == told["sent"] == people
    tally = await asyncio.to_thread(collector.tally, survey)
    return [row(tally, condition, values) for condition in demo.CONDITIONS]


def row(tally: Tally, condition: str, values: demo.Data) -> Row:
    """An estimate and the true count."""
    estimate, truth = tally.count(condition), demo.true_count(tally.survey, values, condition)
    low, high = estimate.confidence_interval()
    return {
        "condition": condition,
        "truth": truth,
        "estimate": estimate.value,
        "std_error": estimate.stderr,
        "interval": (low, high),
        "covered": low <= truth <= high,
    }


def cells(line: Row) -> list[str]:
    low, high = line["interval"]
    return [
        line["condition"],
        f"{line['truth']:,}",
        f"{line['estimate']:,.0f}",
        f"{line['std_error']:,.0f}",
        f"{low:,.0f} to {high:,.0f}",
        "yes" if line["covered"] else "no",
    ]


def page(survey: Agreement, lines: list[Row]) -> str:
    """A table whose conditions link to the page for analysts."""
    head = "".join(f'<th scope="col">{escape(word)}</th>' for word in HEAD)
    body = "".join(
        f'<tr><th scope="row"><a href="{escape(address(survey, line["condition"]))}">'
        f"{escape(line['condition'])}</a></th>"
        + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells(line)[1:])
        + "</tr>"
        for line in lines
    )
    covered = sum(line["covered"] for line in lines)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Estimates and true counts</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/surveys/page.css"></head>
<body><main><h1>Estimates and true counts</h1>
<p>{len(lines)} counts of synthetic respondents. The collector received randomized reports only; the
true counts are known because this is a demonstration. {covered} of {len(lines)} intervals cover
them; in the long run 95% do.</p>
<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>
</main></body></html>
"""


def address(survey: Agreement, condition: str) -> str:
    query = urlencode({"show": "count", "where": condition})
    return f"/surveys/{survey.fingerprint}?{query}"


def with_truth(app: Any, beside: dict[str, bytes]) -> Any:
    """The collector's app with one address more."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] not in beside:
            await app(scope, receive, send)
            return
        policy = b"default-src 'none'; style-src 'self'"
        headers = [(b"content-type", b"text/html"), (b"content-security-policy", policy)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": beside[scope["path"]]})

    return answer


if __name__ == "__main__":
    main()
