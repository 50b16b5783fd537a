"""A real browser, the real client and collector: each report is stored once and counted."""

import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest
from browsers import CLIENT, ROOT, _Quiet, chromium, served

from metricldp import Survey

WEB = ROOT / "examples" / "web"
SURVEY = Survey.load(WEB / "survey.toml")
OPEN = """async ([send, fingerprint]) => {
  const { open } = await import("./metricldp.js");
  globalThis.survey = await open("survey.client.json", { fingerprint, send });
}"""


class Pages(_Quiet):
    """The page of the owner, at another address than the collector."""

    def translate_path(self, path):
        if path.split("?")[0].endswith("metricldp.js"):
            return str(CLIENT / "metricldp.js")
        return super().translate_path(path)


@contextmanager
def collecting(folder):
    """`metricldp serve` as a process of its own: its address, and a token."""
    shutil.copy(WEB / "survey.toml", folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    metricldp = [sys.executable, "-m", "metricldp"]
    words = [*metricldp, "collector", "serve", str(folder / "survey.toml"), "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            assert process.poll() is None, process.stdout.read()
            try:
                if httpx.get(f"{address}/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        words = [
            *metricldp,
            "collector",
            "token",
            "new",
            str(folder / "survey.toml"),
            "--name",
            "test",
        ]
        token = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        yield address, token
    finally:
        process.terminate()
        process.communicate(timeout=30)


def tab(context, page_at, send):
    page = context.new_page()
    page.goto(f"{page_at}/page.css")
    page.evaluate(OPEN, [send, SURVEY.fingerprint])
    return page


def report(page, response):
    return page.evaluate("(response) => survey.report(response)", response)["state"]


def sent(page):
    for _ in range(200):
        if page.evaluate("survey.status()")["state"] == "sent":
            return
        page.evaluate("survey.flush()")
        time.sleep(0.05)
    raise AssertionError("the report is not sent")


def plain(context, page_at, send, response):
    assert report(tab(context, page_at, send), response) == "sent"


def offline_then_online(context, page_at, send, response):
    page = tab(context, page_at, send)
    context.set_offline(True)
    assert report(page, response) == "waiting"
    context.set_offline(False)
    sent(page)


def response_lost(context, page_at, send, response):
    """The collector stores the report, and its response does not arrive."""
    page, lost = tab(context, page_at, send), []

    def lose(route):
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch().status)
            route.abort()

    page.route("**/reports", lose)
    assert report(page, response) == "waiting"
    sent(page)
    assert lost == [200]


def tab_closed_and_opened_again(context, page_at, send, response):
    page = tab(context, page_at, send)
    context.set_offline(True)
    assert report(page, response) == "waiting"
    page.close()
    context.set_offline(False)
    sent(tab(context, page_at, send))


def called_twice(context, page_at, send, response):
    page = tab(context, page_at, send)
    assert report(page, response) == report(page, {"age": 99}) == "sent"


WAYS = [
    plain,
    offline_then_online,
    response_lost,
    tab_closed_and_opened_again,
    called_twice,
]


def test_from_the_browser_to_the_estimate(tmp_path):
    bodies, preflights = {}, []
    with (
        chromium() as browser,
        served(Pages, WEB) as page_at,
        collecting(tmp_path) as (send, token),
    ):
        responses = [{"age": 20 + 3 * k, "income": 500 * k if k % 3 else None} for k in range(15)]
        for k, response in enumerate(responses):
            context = browser.new_context()

            def note(request):
                if request.method == "OPTIONS":
                    preflights.append(request.url)
                if request.url.endswith("/reports") and request.method == "POST":
                    body = request.post_data_buffer
                    assert bodies.setdefault(body[:16], body) == body, "other bytes, same id"

            context.on("request", note)
            WAYS[k % len(WAYS)](context, page_at, send, response)
            context.close()
        head = {"Authorization": f"Bearer {token}"}
        base = f"{send}/v1/surveys/{SURVEY.fingerprint}"
        status = httpx.get(f"{base}/status", headers=head).json()
        where = {"where": "30 <= age < 60"}
        result = httpx.get(f"{base}/query/count", params=where, headers=head).json()
        page = httpx.get(f"{send}/surveys/{SURVEY.fingerprint}", params=where, headers=head)
    assert not preflights
    assert len(bodies) == len(responses) == status["reports"] == status["outcomes"]["accepted"]
    assert status["outcomes"]["duplicate"] >= 3  # those whose response was lost
    tally = SURVEY.tally([body[16:] for body in bodies.values()])
    estimate = tally.count({"age": (30, 60)})
    (row,) = result["rows"]
    assert (row["estimate"], row["std_error"]) == (estimate.value, estimate.stderr)
    assert page.status_code == 200
    assert "15 reports" in page.text


def test_the_demonstration():
    """`make demo-web`, with fewer browsers."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    words = [sys.executable, WEB / "demo.py", "--people", "150", "--once", "--port", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accepted: 150;" in done.stdout
    assert "intervals cover the true count" in done.stdout
