"""The files in deploy/: nginx runs with its own, in front of a real collector."""

import contextlib
import datetime
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from metricldp import Integer, Survey
from metricldp.collector.envelope import new_id

ROOT = Path(__file__).parents[2]
SURVEY = Survey.design({"age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric")})
REPORTS = f"/v1/surveys/{SURVEY.fingerprint}/reports"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def record():
    return new_id() + SURVEY.report({"age": 42})


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def certificate(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    signed = made.sign(key, hashes.SHA256())
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


@contextlib.contextmanager
def running(words, ready):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + 60
        while not ready():
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < end, "it does not start"
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def listens(port):
    def ready():
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    return ready


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collector")
    SURVEY.save(folder / "survey.toml")
    port, operations = free_port(), free_port()
    words = [sys.executable, "-m", "metricldp", "collector", "serve", str(folder / "survey.toml")]
    words += ["--port", str(port), "--ops-port", str(operations)]
    with running(words, listens(port)):
        yield port, operations


@pytest.fixture(scope="module")
def proxy(collector, tmp_path_factory):
    """nginx with our file, in which only names, ports, paths and limits are changed."""
    if NGINX is None:
        pytest.skip("there is no nginx")
    folder = tmp_path_factory.mktemp("nginx")
    certificate(folder)
    port = free_port()
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for old, new in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:8000": f"127.0.0.1:{collector[0]}",
        "COLLECT.EXAMPLE": "localhost",
        "/etc/ssl/CERTIFICATE.pem": f"{folder}/certificate.pem",
        "/etc/ssl/KEY.pem": f"{folder}/key.pem",
        "/var/log/nginx/": f"{folder}/",
        "rate=10r/s": "rate=5r/s",  # so that a slow machine sends too often, too
        "burst=50": "burst=10",
    }.items():
        assert old in text
        text = text.replace(old, new)
    places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    temporary = "\n".join(f"{place}_temp_path {folder}/{place};" for place in places)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/main.log; events {{}}\n"
        f"http {{ {temporary}\n{text} }}"
    )
    words = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with running(words, listens(port)):
        yield port, folder


def accepted(collector):
    """What the collector itself counts."""
    text = httpx.get(f"http://127.0.0.1:{collector[1]}/metrics").text
    return sum(map(int, re.findall(r'outcome="accepted"[^}]*}\s+(\d+)', text)))


def client(port):
    return httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False)


def test_a_report_comes_through(collector, proxy):
    before = accepted(collector)
    with client(proxy[0]) as http:
        sent = record()
        first, again = (http.post(REPORTS, content=sent) for _ in range(2))
        assert (first.json()["accepted"], again.json()["duplicate"]) == (1, 1)
        assert first.headers["access-control-allow-origin"] == "*"
        assert http.get(f"/v1/surveys/{SURVEY.fingerprint}/manifest").status_code == 200
    assert accepted(collector) == before + 1


def test_operations_are_not_shown_outside(proxy):
    with client(proxy[0]) as http:
        assert {http.get(p).status_code for p in ("/metrics", "/readyz", "/healthz")} == {404}


def test_a_body_over_a_mebibyte_stops_at_the_proxy(collector, proxy):
    before = accepted(collector)
    with client(proxy[0]) as http:
        assert http.post(REPORTS, content=bytes((1 << 20) + 1)).status_code == 413
    assert accepted(collector) == before


def test_whoever_sends_too_often_is_told_when_to_come_back(collector, proxy):
    """And loses nothing: the same bytes are taken later."""
    before = accepted(collector)
    waiting = [record() for _ in range(40)]
    turned_away = 0
    with client(proxy[0]) as http:
        for _ in range(40):
            left = []
            for one in waiting:
                found = http.post(REPORTS, content=one)
                if found.status_code == 503:
                    turned_away += 1
                    assert found.headers["retry-after"] == "5"
                    assert found.headers["content-type"] == "application/problem+json"
                    assert found.headers["access-control-allow-origin"] == "*"
                    assert found.json()["type"].endswith(":busy")
                    left.append(one)
                else:
                    assert found.json()["accepted"] + found.json()["duplicate"] == 1
            waiting = left
            if not waiting:
                break
            time.sleep(1)
    assert turned_away
    assert not waiting
    assert accepted(collector) == before + 40


SMUGGLED = (
    "Content-Length: {inner}\r\nContent-Length: {outer}\r\n",
    "Content-Length: {outer}\r\nTransfer-Encoding: chunked\r\n",
    "Content-Length: {outer}\r\nTransfer-Encoding: identity, chunked\r\n",
    "Content-Length: {outer}\r\nTransfer-Encoding: xchunked\r\n",
    "Content-Length: {outer}\r\nTransfer-Encoding : chunked\r\n",
    "Content-Length: {outer}\r\nTransfer-Encoding:\tchunked\r\n",
    "Content-Length: {outer}\r\nX: y\r\n Transfer-Encoding: chunked\r\n",
    "Content-Length: {outer}\r\nX: y\nTransfer-Encoding: chunked\r\n",
    "Content-Length: +{outer}\r\nTransfer-Encoding: chunked\r\n",
    "Content-Length: 0\r\nContent-Length:{outer}\r\n",
    "Content-Length: 0x{outer:x}\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: {outer}\r\n",
)
"""Two opinions about where a body ends: the second request must never be seen as one."""


@pytest.mark.parametrize("through", ["proxy", "collector"])
def test_no_request_is_smuggled_in_the_body_of_another(through, request):
    behind = request.getfixturevalue("collector")
    port = request.getfixturevalue(through)[0]
    before, answers = accepted(behind), 0
    for headers in SMUGGLED:
        hidden = record()
        inner = (
            f"POST {REPORTS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(hidden)}\r\n\r\n"
        ).encode() + hidden
        body = b"0\r\n\r\n" + inner
        told = headers.format(inner=5, outer=len(body))
        sent = f"POST {REPORTS} HTTP/1.1\r\nHost: localhost\r\n{told}\r\n".encode() + body
        found = exchange(port, sent, tls=through == "proxy")
        answers += found.count(b'"accepted":1')
        # A request with two lengths may end in two answers, each to something that was sent in the
        # open; what must not be is a report taken without an answer to whoever sent it.
        if found.count(b"HTTP/1.1 ") > 1:
            assert b"transfer-encoding:" in told.lower().encode()
    assert accepted(behind) == before + answers


def exchange(port, sent, *, tls):
    wire = socket.create_connection(("127.0.0.1", port), timeout=1)
    if tls:
        context = ssl._create_unverified_context()
        wire = context.wrap_socket(wire, server_hostname="localhost")
    found = b""
    with wire, contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLError):
        wire.sendall(sent)
        while part := wire.recv(65536):
            found += part
    return found


def test_logs_say_nothing_of_who_sent_a_report(collector, proxy):
    with client(proxy[0]) as http:
        http.post(REPORTS, content=record(), headers={"User-Agent": "a very special browser"})
        http.get("/nowhere", headers={"Referer": "somewhere"})
    time.sleep(0.2)
    lines = (proxy[1] / "metricldp.log").read_text().splitlines()
    assert lines
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d [A-Z-]+ \d{3} \d+", line) for line in lines), lines
    assert not (proxy[1] / "metricldp-error.log").read_text()


def test_units_name_commands_that_exist():
    """Whatever deploy/ runs is run as the command line has it."""
    shown = subprocess.run(
        [sys.executable, "-m", "metricldp", "collector", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for file in ("metricldp.service", "Containerfile"):
        text = (ROOT / "deploy" / file).read_text()
        said = [line for line in text.splitlines() if line.startswith(("ExecStart", "CMD"))]
        assert said
        options = re.findall(r"--[a-z-]+", " ".join(said))
        assert all(option in shown for option in options)
