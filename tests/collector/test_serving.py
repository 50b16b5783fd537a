"""metricldp serve and its companions as a user has them: a real server with two processes."""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from unittest import mock

import httpx
import pyarrow.parquet as pq
import pytest
from devices import ask, records, serve_and, until
from test_durability import free_port

from metricldp.basics.errors import InvalidReportError, QueryError
from metricldp.cli import main as cli
from metricldp.collector import sending
from metricldp.collector.folder import Collector
from metricldp.collector.server import Options, application, is_page
from metricldp.reports import parquet
from metricldp.reports.bytes import header


def command(*words, cwd=None):
    """A command in this process: its exit code, and what it said where."""
    said, wrong = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or "."),
        mock.patch.object(sys, "argv", ["metricldp", *map(str, words)]),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(wrong),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main()
    return ended.value.code, said.getvalue(), wrong.getvalue()


def collector_command(*words, cwd=None):
    return command("collector", *words, cwd=cwd)


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


class Served:
    def __init__(self, place, *words):
        self.place, self.port, self.operations = place, free_port(), free_port()
        more = ["--port", self.port, "--ops-port", self.operations, *words]
        with (Path(place).parent / "log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "metricldp",
                    "collector",
                    "serve",
                    *map(str, [place, *more]),
                ],
                env=environment(),
                stderr=log,
            )
        self.url = f"http://127.0.0.1:{self.port}"
        until(self.ready, 60)

    def ready(self):
        assert self.process.poll() is None, (Path(self.place).parent / "log").read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{self.operations}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) in (0, -signal.SIGTERM)


@pytest.fixture(scope="module")
def place(tmp_path_factory, survey):
    folder = tmp_path_factory.mktemp("served")
    survey.save(folder / "survey.toml")
    (folder / "people.csv").write_text(
        "age,region\n" + "".join(f"{k % 100},{'north' if k % 3 else 'east'}\n" for k in range(300))
    )
    return folder


@pytest.fixture(scope="module")
def served(place):
    found = Served(place / "survey.toml", "--workers", "2", "--seal-at", "200")
    yield found
    found.stop()


def test_the_whole_way(place, served, survey):
    code, said, wrong = collector_command(
        "send", "survey.toml", "people.csv", "--to", served.url, cwd=place
    )
    assert (code, said) == (0, "300 reports accepted, 0 duplicates\n"), wrong
    assert command("randomize", "survey.toml", "people.csv", "-o", "r.parquet", cwd=place)[0] == 0
    for expected in ((300, 0), (0, 300)):  # the same file again changes nothing
        code, said, _ = collector_command(
            *("send", "survey.toml", "r.parquet", "--to", served.url, "--json"), cwd=place
        )
        found = json.loads(said)
        assert (found["accepted"], found["duplicate"]) == expected
    code, said, _ = collector_command("status", "survey.toml", "--json", cwd=place)
    status = json.loads(said)[survey.fingerprint]
    assert (status["reports"], status["outcomes"]["duplicate"]) == (600, 300)
    collector = Collector.at(place / "survey.collected")
    until(lambda: list((place / "survey.collected" / "segments").glob("*.parquet")))
    assert collector.tally(survey).n == 600
    collector.close()


def children(process):
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    commands = {int(pid): Path(f"/proc/{pid}/cmdline") for pid in path.read_text().split()}
    return {pid for pid, command in commands.items() if "spawn_main" in command.read_text()}


def test_killed_worker_is_started_again(served, survey, reports):
    before = children(served.process)
    assert len(before) == 2
    os.kill(min(before), signal.SIGKILL)
    until(lambda: len(children(served.process) - before) == 1, 30)
    until(served.ready, 30)
    address = f"{served.url}/v1/surveys/{survey.fingerprint}/reports"
    for record in records(reports[:50]):
        assert httpx.post(address, content=record).json()["accepted"] == 1


def test_signal_stops_all_workers_after_their_last_commit(tmp_path, survey, reports):
    survey.save(tmp_path / "s.toml")
    served = Served(tmp_path / "s.toml", "--workers", "2")
    workers = children(served.process)
    address = f"{served.url}/v1/surveys/{survey.fingerprint}/reports"
    for record in records(reports[:20]):
        assert httpx.post(address, content=record).status_code == 200
    served.stop()
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not (tmp_path / "s.collected" / "collector.sqlite-wal").exists()  # closed properly
    with Collector.at(tmp_path / "s.collected") as collector:
        assert collector.tally(survey).n == 20


def test_ingest_command(tmp_path, survey, reports):
    survey.save(tmp_path / "s.toml")
    sent = records(reports[:30])
    wrong = sent[0][:16] + b"\x07" + sent[0][17:]
    (tmp_path / "a.log").write_bytes(b"".join([*sent, *sent[:4], wrong]))
    words = ("ingest", "s.toml", "a.log", "--at-once", "8")
    assert collector_command(*words, cwd=tmp_path)[:2] == (
        0,
        "30 accepted, 4 duplicate, 1 rejected: the report has another version\n",
    )
    code, said, _ = collector_command(*words, "--json", cwd=tmp_path)
    assert json.loads(said) == {"survey": survey.fingerprint}
    assert (
        collector_command("ingest", "s.collected", "a.log", cwd=tmp_path)[1] == "no new records\n"
    )
    with Collector.at(tmp_path / "s.collected") as collector:
        assert collector.tally(survey).n == 30
    for place, log, why in (
        ("s.toml", "http://x/y", "kafka://HOST:PORT/TOPIC"),
        ("s.toml", "none.log", "cannot read the log none.log"),
        ("nowhere", "a.log", "is not a collector folder"),
    ):
        code, said, error = collector_command("ingest", place, log, cwd=tmp_path)
        assert (code, said, error.count("\n")) == (2, "", 1)
        assert why in error
    assert not (tmp_path / "nowhere").exists()


def test_ingest_follows_a_log_until_it_is_interrupted(tmp_path, survey, reports, monkeypatch):
    survey.save(tmp_path / "s.toml")
    sent = records(reports[:30])
    (tmp_path / "a.log").write_bytes(b"".join(sent[:10]))

    steps = iter([sent[10:]])

    def pause(_):
        if (more := next(steps, None)) is None:
            raise KeyboardInterrupt
        with (tmp_path / "a.log").open("ab") as file:
            file.write(b"".join(more))

    monkeypatch.setattr("metricldp.collector.ingest.time.sleep", pause)
    code, said, _ = collector_command("ingest", "s.toml", "a.log", "--follow", cwd=tmp_path)
    assert (code, said) == (130, "10 accepted\n20 accepted\n")


def test_status_names_a_report_of_another_survey(tmp_path, survey, wide, reports):
    """It printed "1 survey", the reason's word, as if it counted surveys."""
    survey.save(tmp_path / "s.toml")
    served = Served(tmp_path / "s.toml")
    try:
        address = f"{served.url}/v1/surveys/{survey.fingerprint}/reports"
        other = records([header(wide) + reports[0][len(header(wide)) :]])[0]
        assert httpx.post(address, content=other).status_code == 400
        for record in records(reports[:3]):
            httpx.post(address, content=record).raise_for_status()
            httpx.post(address, content=record).raise_for_status()
        token = collector_command("token", "new", "s.toml", "--name", "ann", cwd=tmp_path)[
            1
        ].strip()
        words = ("status", served.url, "--survey", survey.fingerprint, "--token", token)
        texts = [
            collector_command(*words)[1],
            collector_command("status", "s.toml", cwd=tmp_path)[1],
        ]
    finally:
        served.stop()
    for text in texts:
        assert text == (
            f"survey {survey.fingerprint}\n"
            "           3 reports\n"
            "           3 duplicate\n"
            "           1 rejected: the report belongs to another survey\n"
        )


def modes(folder):
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in folder.rglob("*")
    }


def test_every_file_is_private_in_an_existing_folder(tmp_path, survey, reports):
    """With the usual umask; the settings in the database include the key of invites."""
    place = tmp_path / "existing"
    place.mkdir(0o755)
    survey.save(place / "survey.toml")
    (place / "survey.toml").chmod(0o644)
    before = os.umask(0o022)
    try:
        served = Served(place, "--invites", "--seal-at", "5")
        words = ("token", "invites", "existing", "-n", "10", "-o", "invites.txt")
        assert collector_command(*words, cwd=tmp_path)[0] == 0
        lines = (tmp_path / "invites.txt").read_text().splitlines()
        address = f"{served.url}/v1/surveys/{survey.fingerprint}/reports"
        for line, report in zip(lines, reports, strict=False):
            httpx.post(address, content=bytes.fromhex(line) + report).raise_for_status()
        until(lambda: list((place / "segments").glob("*.parquet")))
        assert collector_command("backup", "existing", "-o", "copies/copy", cwd=tmp_path)[0] == 0
        running = modes(place)
        served.stop()
    finally:
        os.umask(before)
    assert running.pop("survey.toml") == "0o644"  # the owner's own file
    assert {"collector.sqlite", "collector.sqlite-wal", "collector.sqlite-shm"} <= running.keys()
    for tree in (running, modes(tmp_path / "copies" / "copy")):
        folders = {"segments", "surveys"}
        assert {tree[name] for name in folders} == {"0o700"}
        assert {mode for name, mode in tree.items() if name not in folders} == {"0o600"}, tree
        assert any(name.endswith(".parquet") for name in tree)
    assert stat.S_IMODE((tmp_path / "copies" / "copy").stat().st_mode) == 0o700


def test_tokens_and_status_over_the_network(place, served, survey):
    code, token, _ = collector_command("token", "new", "survey.toml", "--name", "ann", cwd=place)
    assert code == 0
    code, said, _ = collector_command("token", "list", "survey.toml", cwd=place)
    assert said.startswith("ann  ask  ")
    assert token.strip() not in said
    status = f"{served.url}/v1/surveys/{survey.fingerprint}/status"
    assert httpx.get(status).status_code == 401
    bearer = {"Authorization": f"Bearer {token.strip()}"}
    answer = httpx.get(status, headers=bearer)
    assert answer.status_code == 200
    assert answer.json()["closed"] is False
    words = ("status", served.url, "--survey", survey.fingerprint, "--token", token.strip())
    assert survey.fingerprint in collector_command(*words)[1]
    assert httpx.post(status.replace("status", "close"), headers=bearer).status_code == 401
    assert collector_command("token", "revoke", "survey.toml", "ann", cwd=place)[0] == 0
    assert httpx.get(status, headers=bearer).status_code == 401


def test_what_everybody_may_read(served, survey):
    one = f"{served.url}/v1/surveys/{survey.fingerprint}"
    answer = httpx.get(one)
    assert answer.text == survey.to_json()
    assert "no-cache" in answer.headers["cache-control"]  # the presentation can change
    again = httpx.get(one, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.text) == (304, "")
    answer = httpx.get(f"{one}/manifest")
    assert answer.text == survey.manifest()
    assert hashlib.sha256(answer.content).hexdigest() == survey.fingerprint
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "server" not in answer.headers
    for path in ("/metrics", "/healthz", "/readyz"):  # on their own port only
        assert httpx.get(f"{served.url}{path}").status_code == 404
    assert httpx.get(f"http://127.0.0.1:{served.operations}/v1/surveys/x").status_code == 404


def test_metrics_start_at_zero_and_can_be_read(served, survey):
    text = httpx.get(f"http://127.0.0.1:{served.operations}/metrics").text
    line = re.compile(r'[a-z_]+(\{[a-z]+="[\w-]+"(,[a-z]+="[\w-]+")*\})? [0-9.]+')
    for one in text.splitlines():
        assert one.startswith(("# HELP ", "# TYPE ")) or line.fullmatch(one), one
    name = f'survey="{survey.fingerprint}"'
    assert f'metricldp_reports_total{{{name},outcome="conflict"}} 0' in text
    assert f'metricldp_reports_total{{{name},outcome="accepted"}} ' in text


def test_a_backup_while_it_runs(place, served, survey):
    code, said, _ = collector_command("backup", "survey.toml", "-o", "copy", cwd=place)
    assert code == 0
    assert said.endswith("metricldp collector serve copy serves them\n")
    copy = Collector.at(place / "copy")
    assert copy.tally(survey).n == copy.status(survey).outcomes["accepted"]
    copy.close()


def test_invites_from_the_command_line(tmp_path, survey, reports):
    survey.save(tmp_path / "s.toml")
    served = Served(tmp_path / "s.toml", "--invites")
    try:
        words = ("token", "invites", "s.toml", "-n", "5", "-o", "invites.txt")
        assert collector_command(*words, cwd=tmp_path)[0] == 0
        path = tmp_path / "invites.txt"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        (tmp_path / "people.csv").write_text("age,region\n" + "30,north\n" * 5)
        sent = ("send", "s.toml", "people.csv", "--to", served.url, "--invites", "invites.txt")
        assert collector_command(*sent, cwd=tmp_path)[1] == "5 reports accepted, 0 duplicates\n"
        code, said, _ = collector_command(
            *sent, cwd=tmp_path
        )  # blurred again, under the same invites
        # A report that is randomized to the same bytes again counts as known.
        accepted, known, rejected = map(int, re.findall(r"\d+", said))
        assert (code, accepted, known + rejected) == (1, 0, 5)
        assert said.endswith("rejected: this id was used for a different report\n")
        address = f"{served.url}/v1/surveys/{survey.fingerprint}/reports"
        answer = httpx.post(address, content=bytes(32) + reports[0])
        assert (answer.status_code, answer.json()["type"][-7:]) == (403, ":invite")
        assert collector_command("close", "s.toml", cwd=tmp_path)[0] == 0
        line = path.read_text().splitlines()[0]
        answer = httpx.post(address, content=bytes.fromhex(line) + reports[0])
        assert answer.status_code == 410
    finally:
        served.stop()


def test_owners_over_the_network(tmp_path, survey, wide, reports):
    collector = Collector(tmp_path / "c")
    collector.open(survey)
    with collector.using() as (_, register):
        token = register.new_token("owner", 0, "own")
        asks = register.new_token("analyst", 0, "ask")
    bearer = {"authorization": f"Bearer {token}"}
    path = f"/v1/surveys/{wide.fingerprint}"

    async def go(app):
        text = wide.to_toml().encode()
        assert (await ask(app, "PUT", path, text)).word == "token"
        poor = {"authorization": f"Bearer {asks}"}
        assert (await ask(app, "PUT", path, text, poor)).word == "token"
        assert (await ask(app, "PUT", path, b"what", bearer)).word == "question"
        other = f"/v1/surveys/{survey.fingerprint}"
        assert (await ask(app, "PUT", other, text, bearer)).word == "question"
        assert (await ask(app, "PUT", path, text, bearer)).status == 201
        assert (await ask(app, "PUT", path, wide.to_json().encode(), bearer)).status == 201
        assert (await ask(app, "GET", path)).body.decode() == wide.to_json()
        assert (await ask(app, "POST", f"{path}/invites", b"", bearer)).word == "question"
        collector.change(wide, proof="invites", key="00" * 32)
        many = await ask(app, "POST", f"{path}/invites", b"", bearer, query=b"n=3")
        assert len(many.body.split()) == 3
        for wrong in (b"n=0", b"n=x", b"n=99999999999"):
            answer = await ask(app, "POST", f"{path}/invites", b"", bearer, query=wrong)
            assert answer.word == "question"
        assert (await ask(app, "POST", f"{path}/close", b"", bearer)).status == 200
        assert collector.status(wide).closed
        assert (await ask(app, "DELETE", path)).word == "token"
        assert (await ask(app, "DELETE", path, b"", bearer)).status == 204
        assert (await ask(app, "GET", path)).word == "unknown-survey"

    serve_and(collector, go)
    collector.close()


def test_pages_and_queries_go_to_the_page_application(tmp_path, survey):
    seen = []

    async def pages(scope, receive, send):
        seen.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    collector = Collector(tmp_path / "c")
    collector.open(survey)
    one = f"/v1/surveys/{survey.fingerprint}"

    async def go():
        app = application(collector, pages, options=Options(every=0.0))
        await app.start()
        for path in (
            "/surveys",
            f"/surveys/{survey.fingerprint}",
            f"{one}/query/count",
            f"{one}/query/cdf.svg",
        ):
            assert (await ask(app, "GET", path)).body == b"page"
        assert (await ask(app, "GET", one)).body.decode() == survey.to_json()
        assert (await ask(app, "POST", f"{one}/query/count")).word == "not-found"
        await app.stop()

    asyncio.run(go())
    assert len(seen) == 4
    for path in (one, f"{one}/status", f"{one}/manifest", f"{one}/reports", f"{one}/count"):
        assert not is_page(path, "GET")


def test_sending_tries_again_with_the_same_bytes(survey, reports, monkeypatch):
    seen, answers = [], iter([OSError("gone"), (503, b"{}"), None, (503, b"")])

    def once(self, method, path, body, token):
        seen.append(body)
        found = next(answers)
        if isinstance(found, OSError):
            raise found
        return found or (200, b'{"accepted":3,"duplicate":0,"rejected":{}}')

    monkeypatch.setattr(sending.Line, "_once", once)
    line = sending.Line("http://127.0.0.1:9", waits=(0, 0, 0))
    heads = iter([record[:16] for record in records(reports)])
    assert sending.send(survey, reports[:3], heads, line).accepted == 3
    assert len(seen) == 3
    assert len({*seen}) == 1
    with pytest.raises(InvalidReportError, match="does not respond"):
        sending.Line("http://127.0.0.1:9", waits=()).ask("GET", "/")
    for wrong in ("ftp://x", "nonsense", "http://"):
        with pytest.raises(QueryError, match="address"):
            sending.Line(wrong)


def ids(survey, path):
    return [*islice(sending.ids_for(survey, path), 3)]


def test_the_same_reports_have_the_same_ids_whenever_and_wherever_they_are(tmp_path, survey):
    people = {"age": [30] * 50, "region": ["north"] * 50}
    first, copy, other, plain, more = (tmp_path / f"{k}.parquet" for k in range(5))
    for path in (first, other):
        parquet.write(survey, path, [survey.randomize(people)])
    shutil.copyfile(first, copy)
    os.utime(copy, (0, 0))
    pq.write_table(pq.read_table(first), plain)  # by a program that keeps no collection
    pq.write_table(survey.randomize(people), more)
    found = [ids(survey, path) for path in (first, copy, plain, other, more)]
    assert found[0] == found[1] == found[2]
    assert len({one for some in found for one in some}) == 9


def test_few_reports_are_told_apart_by_their_collections(tmp_path, survey):
    few = survey.randomize({"age": [30], "region": ["north"]})
    for name in ("a.parquet", "b.parquet"):
        parquet.write(survey, tmp_path / name, [few])
    assert ids(survey, tmp_path / "a.parquet") != ids(survey, tmp_path / "b.parquet")
    assert ids(survey, tmp_path / "a.parquet") == ids(survey, tmp_path / "a.parquet")
    pq.write_table(few, tmp_path / "c.parquet")
    with pytest.raises(QueryError, match=r"survey\.tally\(\.\.\.\)\.save\(\.\.\.\)"):
        ids(survey, tmp_path / "c.parquet")
    survey.tally(tmp_path / "c.parquet").save(tmp_path / "d.parquet")
    assert len({*ids(survey, tmp_path / "d.parquet")}) == 3


@pytest.fixture
def other_server():
    """A web server that is no collector, and what it answers to everything."""

    class Handler(BaseHTTPRequestHandler):
        said = b""

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(Handler.said)))
            self.end_headers()
            self.wfile.write(Handler.said)

        do_GET = do_POST

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", Handler
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "said",
    [
        b"<html>hello</html>",
        b"[]",
        b"[" * 100_000,
        b'{"accepted":"x","duplicate":0,"rejected":{}}',
        b'{"accepted":1e999,"duplicate":0,"rejected":{}}',
        b'{"accepted":1,"duplicate":0,"rejected":[]}',
        b'{"per_hour":[[1]],"reports":"x"}',
    ],
)
def test_a_server_that_is_no_collector(place, other_server, said):
    url, handler = other_server
    handler.said = said
    for words in (
        ("send", "survey.toml", "people.csv", "--to", url),
        ("status", url, "--survey", "00", "--token", "t"),
    ):
        code, out, wrong = collector_command(*words, cwd=place)
        assert (code, out, wrong.count("\n")) == (2, "", 1), wrong
        assert f"{url} does not respond like a collector" in wrong


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:99999",
        "http://localhost:abc",
        "http://[::1",
        "http://a b",
        f"http://{'a' * 64}",
        "http://127.0.0.1:9/é",
    ],
)
def test_addresses_that_are_none(place, url):
    for words in (
        ("send", "survey.toml", "people.csv", "--to", url),
        ("status", url, "--survey", "00", "--token", "t"),
    ):
        code, out, wrong = collector_command(*words, cwd=place)
        assert (code, out, wrong.count("\n")) == (2, "", 1), wrong
        assert "a collector has an address such as" in wrong


def test_mistakes_are_one_line(tmp_path, survey):
    survey.save(tmp_path / "s.toml")
    for words in (
        ("collector", "status", "http://127.0.0.1:9", "--survey", "00", "--token", "a\nb"),
        ("collector", "status", "http://127.0.0.1:9", "--survey", "00", "--token", "é€"),
        ("collector", "serve", "none.toml"),
        ("collector", "status", "nowhere"),
        ("collector", "send", "s.toml", "none.csv", "--to", "http://127.0.0.1:9"),
        ("collector", "token", "new", "nowhere", "--name", "ann"),
        ("collector", "status", "http://127.0.0.1:9"),
        ("collector", "serve", "s.toml", "--host", ""),
        ("collector", "serve", "s.toml", "--seal-at", "0"),
        ("collector", "serve", "s.toml", "--seal-at=-1"),
        ("collector", "send", "s.toml", "s.toml", "--to", "http://127.0.0.1:9", "--at-once=-5"),
        ("collector", "manifest", "s.toml", "-o", "p.csv"),
        ("design", "s.toml", "-o", "p.csv"),
        ("collector", "serve", "s.toml", "--store", "postgresql://nobody@127.0.0.1:9/none"),
    ):
        code, said, wrong = command(*words, cwd=tmp_path)
        assert (code, said, wrong.count("\n")) == (2, "", 1), wrong
