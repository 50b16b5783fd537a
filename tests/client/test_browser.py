"""The client and the worked page in a real browser: Chromium, where it is installed."""

import hashlib
import http.server
import json
import re
import shutil
import time
from pathlib import Path
from typing import ClassVar

import pytest
from browsers import CLIENT, ROOT, chromium, served, tool

from metricldp import Integer, Survey
from metricldp.reports.bytes import packed_size, unpack
from metricldp_core.guarantee import total_epsilon
from test_docs import BLOCK, Served, isolated, run_command, run_python

WEB = ROOT / "examples" / "web"
PAGE = Survey.load(WEB / "survey.toml")
LENGTH = packed_size(PAGE)


class Collector(http.server.SimpleHTTPRequestHandler):
    """The page, and a collector that stores reports; `lose` of its responses are not sent."""

    bodies: ClassVar[list[bytes]] = []
    methods: ClassVar[list[str]] = []
    lose = 0

    def log_message(self, *_):
        pass

    def translate_path(self, path):
        if path.split("?")[0].endswith("metricldp.js"):
            return str(CLIENT / "metricldp.js")
        return super().translate_path(path)

    def do_OPTIONS(self):
        self.methods.append("OPTIONS")
        self.send_error(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        kind = type(self)
        kind.methods.append("POST")
        twice = body[:16] in {one[:16] for one in kind.bodies}
        kind.bodies.append(body)
        if kind.lose:
            kind.lose -= 1
            self.connection.close()
            return
        outcome = {"accepted": int(not twice), "duplicate": int(twice), "rejected": {}}
        text = json.dumps(outcome).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("access-control-allow-origin", "*")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def collector():
    class Fresh(Collector):
        bodies: ClassVar[list[bytes]] = []
        methods: ClassVar[list[str]] = []

    with served(Fresh, WEB) as address:
        yield Fresh, address


@pytest.fixture
def context(browser):
    made = browser.new_context()
    yield made
    made.close()


def watched(context, address):
    """The page, and what the browser complains about."""
    page, complaints = context.new_page(), []
    page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else 0)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{address}/index.html")
    until(lambda: page.is_enabled("#send"))
    return page, complaints


def until(true, seconds=10):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    assert true()


def fingerprint_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_page_states_the_fingerprint_of_its_survey():
    text = (WEB / "survey.client.json").read_text("utf-8")
    assert text == PAGE.manifest()
    assert fingerprint_of(text) == PAGE.fingerprint
    script = (WEB / "page.js").read_text("utf-8")
    assert f'const FINGERPRINT = "{PAGE.fingerprint}";' in script
    html = (WEB / "index.html").read_text("utf-8")
    assert "//" not in re.sub(r"<!doctype html>", "", html)  # nothing from elsewhere


def test_the_page_by_keyboard(context, collector):
    kind, address = collector
    page, complaints = watched(context, address)
    assert "has proved these guarantees" in page.inner_text("#proof")
    assert page.locator("#guarantee li").count() == 3
    assert page.locator("#proofs li").count() == 3
    for _ in range(30):  # to the first field
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "age":
            break
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    assert "tick the box" in page.inner_text("#message")
    assert page.evaluate("document.activeElement.id") == "agree"
    page.keyboard.press("Space")
    page.focus("#age")
    page.keyboard.press("Enter")
    until(lambda: "outside" in page.inner_text("#message"))
    assert page.evaluate("document.activeElement.id") == "age" and kind.bodies == []
    page.keyboard.press("Control+A")
    page.keyboard.type("42")
    page.keyboard.press("Enter")
    until(lambda: "arrived" in page.inner_text("#message"))
    (body,) = kind.bodies
    assert len(body) == 16 + LENGTH and kind.methods == ["POST"]
    assert unpack(PAGE, [body[16:]]).num_rows == 1
    assert page.input_value("#age") == ""
    page.reload()
    until(lambda: "arrived" in page.inner_text("#message"))
    assert page.is_disabled("#send") and len(kind.bodies) == 1
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(browser, collector, scheme):
    tool("terser")
    axe = (CLIENT / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": 360, "height": 700})
    page, _ = watched(context, collector[1])
    page.evaluate("document.querySelector('details').open = true")
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(({ violations }) => violations.map((one) => one.id))")
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert (found, wide) == ([], 360)


def test_page_does_not_offer_to_send_without_a_proof(context, collector):
    text = PAGE.manifest().replace('"epsilon":"1/2"', '"epsilon":"1/3"')
    script = (WEB / "page.js").read_text("utf-8")
    script = script.replace(PAGE.fingerprint, fingerprint_of(text))
    page = context.new_page()
    page.route("**/survey.client.json", lambda route: route.fulfill(body=text))
    kind = "text/javascript"
    page.route("**/page.js", lambda route: route.fulfill(body=script, content_type=kind))
    page.goto(f"{collector[1]}/index.html")
    until(lambda: "could not" in page.inner_text("#proof"))
    assert page.is_disabled("#send")


def test_page_does_not_open_another_manifest(context, collector):
    page = context.new_page()
    page.route("**/survey.client.json", lambda route: route.fulfill(body=PAGE.manifest() + " "))
    page.goto(f"{collector[1]}/index.html")
    until(lambda: "(fingerprint)" in page.inner_text("#proof"))
    assert page.is_disabled("#send")


OPEN = """async ([send, fingerprint, response]) => {
  const { open } = await import("/metricldp.js");
  globalThis.survey = await open("/survey.client.json", { fingerprint, send });
  return response && (await survey.report(response)).state;
}"""
STORED = """() => new Promise((done) => {
  const opening = indexedDB.open("metricldp");
  opening.onsuccess = () => {
    const objects = opening.result.transaction("metricldp").objectStore("metricldp");
    const asking = objects.get("metricldp");
    asking.onsuccess = () => done(JSON.parse(asking.result));
  };
})"""
RESPONSE = {"age": 42, "income": 3000}


def opened(context, address, send, response=None):
    page = context.new_page()
    page.goto(f"{address}/page.css")
    return page, page.evaluate(OPEN, [send, PAGE.fingerprint, response])


def stored_body(page):
    """The bytes of the only report that waits in the database of a page, in hexadecimal digits."""
    (report,) = page.evaluate(STORED)[PAGE.fingerprint]["waves"].values()
    return report["body"]


def test_report_to_another_origin_needs_no_preflight(context, collector):
    kind, send = collector
    with served(Collector, WEB) as address:
        assert opened(context, address, send, RESPONSE)[1] == "sent"
    assert kind.methods == ["POST"]


def test_lost_response_of_the_collector(context, collector):
    kind, address = collector
    kind.lose = 1
    page, state = opened(context, address, address, RESPONSE)
    if state == "waiting":  # Chromium may have tried again by itself
        assert page.evaluate("survey.flush().then(() => survey.status())")["state"] == "sent"
    assert len(kind.bodies) >= 2 and len(set(kind.bodies)) == 1


def test_offline_then_online(context, collector):
    kind, address = collector
    page, _ = opened(context, address, address)
    context.set_offline(True)
    assert page.evaluate("(response) => survey.report(response)", RESPONSE)["state"] == "waiting"
    body = stored_body(page)
    context.set_offline(False)  # an event of the browser makes the client send
    until(lambda: kind.bodies)
    assert kind.bodies[0].hex() == body


def test_a_tab_closed_and_opened_again(context, collector):
    kind, address = collector
    page, _ = opened(context, address, address)
    context.set_offline(True)
    page.evaluate("(response) => survey.report(response)", RESPONSE)
    body = stored_body(page)
    page.close()
    context.set_offline(False)
    assert kind.bodies == []
    page, _ = opened(context, address, address)  # it sends by itself
    until(lambda: kind.bodies)
    assert kind.bodies[0].hex() == body
    until(lambda: page.evaluate("survey.status()")["state"] == "sent")


def test_two_tabs_randomize_once(context, collector):
    kind, address = collector
    pages = [opened(context, address, address)[0] for _ in range(3)]
    for page in pages:
        call = "(response) => void (globalThis.done = survey.report(response))"
        page.evaluate(call, RESPONSE)
    found = [page.evaluate("done") for page in pages]
    assert len({one["id"] for one in found}) == 1
    assert {one["state"] for one in found} <= {"sent", "waiting"}
    assert len(set(kind.bodies)) == 1
    accountant = pages[0].evaluate("survey.accountant()")
    assert accountant["surveys"][PAGE.fingerprint]["reports"] == 1
    assert accountant["epsilon"] == float(total_epsilon(PAGE.client_manifest))


class Quickstart:
    """The folder of docs/quickstart-web.md with its survey, its page, and collectors."""

    def __init__(self, collector):
        self.collector = collector
        self.text = (ROOT / "docs" / "quickstart-web.md").read_text("utf-8")
        run_python(next(BLOCK.finditer(self.text))["code"], {}, "quickstart-web.md", 1)
        printed = self.run("metricldp collector manifest survey.toml")
        (self.fingerprint,) = re.findall(r"^manifest of survey ([0-9a-f]{64}) ", printed)
        assert printed in self.text
        shutil.copy(CLIENT / "metricldp.js", ".")

    def run(self, command):
        return run_command(f"$ {command}", self.collector)

    def serve(self, words):
        """Start a collector, and write the page with its address."""
        self.run(f"metricldp collector serve {words}")
        for language, name in (("html", "index.html"), ("js", "survey.js")):
            (block,) = re.findall(rf"^```{language}\n(.*?)^```", self.text, re.M | re.S)
            block = self.collector.real(block).replace("FINGERPRINT", self.fingerprint)
            Path(name).write_text(block, "utf-8")

    def outcomes(self):
        (status,) = json.loads(self.run("metricldp collector status survey.toml --json")).values()
        return status["outcomes"]


@pytest.fixture
def quickstart():
    with isolated(), Served() as collector:
        page = Quickstart(collector)
        with served(folder=Path.cwd()) as page.address:
            yield page


def respond(context, address):
    """The page of the quickstart after a response, and what the browser complains about."""
    page, complaints = context.new_page(), []
    page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else 0)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{address}/index.html")
    until(lambda: page.is_enabled("#send"))
    assert "at most 2.72 times as likely" in page.inner_text("#guarantee")
    page.fill("#age", "42")
    page.select_option("#region", "east")
    page.click("#send")
    until(lambda: page.inner_text("#state"))
    return page, complaints


def test_quickstart_page_sends_one_report(context, quickstart):
    quickstart.serve("survey.toml")
    page, complaints = respond(context, quickstart.address)
    assert page.inner_text("#state") == "sent"
    page.click("#send")
    page.reload()
    assert respond(context, quickstart.address)[0].inner_text("#state") == "sent"
    assert complaints == []
    assert quickstart.outcomes()["accepted"] == 1 and not quickstart.outcomes()["duplicate"]


def test_collector_page_shows_the_survey_after_log_in(context, quickstart):
    quickstart.serve("survey.toml")
    respond(context, quickstart.address)
    token = quickstart.run("metricldp collector token new survey.toml --name ann").strip()
    page = context.new_page()
    page.goto(f"http://{quickstart.collector.address}")
    page.fill("#token", token)
    page.keyboard.press("Enter")
    page.click("main a")
    assert "1 reports" in page.inner_text("main")
    assert "at most 2.72 times as likely" in page.inner_text("main")


def test_report_waits_where_the_collector_has_another_survey(context, quickstart):
    Survey.design({"age": Integer(0, 9, epsilon=1, within=5)}).save("other.toml")
    quickstart.serve("other.toml")
    page, _ = respond(context, quickstart.address)
    assert page.inner_text("#state") == "waiting"


def test_report_without_an_invite_is_rejected_for_good(context, quickstart):
    quickstart.serve("survey.toml --invites")
    page, _ = respond(context, quickstart.address)
    assert page.inner_text("#state") == "rejected: invite"
    quickstart.run("metricldp collector token invites survey.toml -n 1 -o invites.txt")
    page, _ = respond(context, quickstart.address)
    assert page.inner_text("#state") == "rejected: invite"


def test_form_submits_no_values_if_the_script_is_missing(context, quickstart):
    quickstart.serve("survey.toml")
    Path("survey.js").unlink()
    page, requests = context.new_page(), []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{quickstart.address}/index.html")
    page.fill("#age", "42")
    page.select_option("#region", "east")
    page.focus("#age")
    page.keyboard.press("Enter")
    page.evaluate("document.getElementById('form').submit()")
    page.wait_for_timeout(300)
    assert page.is_disabled("#send")
    assert not [url for url in requests if "42" in url.rpartition("/")[2] or "east" in url]
