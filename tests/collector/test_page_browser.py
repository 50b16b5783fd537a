"""The page in Chromium, under its content policy: light and dark, with and without scripts."""

import os
import shutil
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest
from collected import TOKEN, InMemory, nasty_tally, survey, tally

from metricldp.collector.page import pages
from metricldp.collector.page.form import SHOWS
from metricldp.mechanisms.randomness import Randomness

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the path")


def axe():
    """The program that finds barriers, where npm has installed it."""
    root = Path(__file__).parents[2]
    places = [Path(os.environ.get("AXE_CORE", "/nowhere"))]
    places += [root / part / "node_modules" / "axe-core" for part in ("clients/js", "")]
    for place in places:
        if (place / "axe.min.js").is_file():
            return (place / "axe.min.js").read_text("utf-8")
    pytest.skip("needs axe-core: npm install in clients/js, or AXE_CORE=its folder")


@pytest.fixture(scope="module")
def collected():
    return InMemory(tally(3000), nasty_tally())


@pytest.fixture(scope="module")
def server(collected):
    """The address of a server in a thread of this process."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    config = uvicorn.Config(pages(collected), host="127.0.0.1", port=port, log_level="error")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    running.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visit:
    """A browser that is logged in, with its errors and messages."""

    def __init__(self, browser, server, **how):
        self.context = browser.new_context(**how)
        self.page, self.complaints = self.context.new_page(), []
        self.server = server
        self.page.goto(f"{server}/surveys/login")
        self.page.fill("#token", TOKEN)
        self.page.click("main button")
        self.page.wait_for_url(f"{server}/surveys")
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda wrong: self.complaints.append(str(wrong)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def go(self, fingerprint, **fields):
        self.page.goto(f"{self.server}/surveys/{fingerprint}?{urlencode(fields)}")
        return self.page

    def barriers(self):
        """The violations that axe reports; a debugger may run it despite the content policy."""
        self.context.new_cdp_session(self.page).send("Runtime.evaluate", {"expression": axe()})
        return self.page.evaluate(
            "async () => (await axe.run()).violations.map((v) => [v.id, v.nodes[0].html])"
        )


@pytest.fixture
def visit(browser, server):
    opened = []

    def enter(**how):
        opened.append(Visit(browser, server, **how))
        return opened[-1]

    yield enter
    for one in opened:
        one.context.close()


OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true })"


@pytest.mark.parametrize(("scheme", "show"), [("light", "groups"), ("dark", "distribution")])
def test_no_barriers(visit, collected, scheme, show):
    one = visit(color_scheme=scheme)
    one.go(collected.surveys()[0].fingerprint, show=show).evaluate(OPEN_ALL)
    assert one.barriers() == []
    assert one.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_barriers_and_no_complaints_anywhere(visit, collected, scheme):
    one = visit(color_scheme=scheme)
    for survey_ in collected.surveys():
        for show in SHOWS:
            one.go(survey_.fingerprint, show=show).evaluate(OPEN_ALL)
            assert one.barriers() == []
    one.go(collected.surveys()[0].fingerprint, where="nonsense == 3")
    assert one.barriers() == []
    assert [text for text in one.complaints if "400" not in text] == []
    one.page.goto(f"{one.server}/surveys")
    assert one.barriers() == []
    one.page.goto(f"{one.server}/surveys/login")
    assert one.barriers() == []


def test_light_and_dark_schemes_differ(visit, collected):
    grounds = []
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme).go(collected.surveys()[0].fingerprint)
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        band = page.evaluate("getComputedStyle(document.querySelector('svg .band')).fill")
        grounds.append(band)
    assert len(set(grounds)) == 4


@pytest.mark.parametrize("show", SHOWS)
def test_a_phone_needs_no_scrolling_sideways(visit, collected, show):
    one = visit(viewport={"width": 360, "height": 740})
    wide = "[...document.querySelectorAll('.wide')].filter((e) => e.querySelector('svg'))"
    for survey_ in collected.surveys():
        page = one.go(survey_.fingerprint, show=show)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(f"{wide}.every((e) => e.scrollWidth <= e.clientWidth)")
        assert page.locator(".drawing:visible").count() == (1 if show == "count" else 2)


def test_query_without_scripts(visit, collected):
    one = visit(java_script_enabled=False)
    page = one.go(collected.surveys()[0].fingerprint)
    page.select_option("#show", "groups")
    page.select_option("#by", "region")
    page.fill("#where", "18 <= age < 60")
    page.click("text=Run query")
    assert page.inner_text("#answer h2") == "Mean age by region among age 18 to 59"
    page.select_option("#attribute", "income")
    page.click("text=Run query")
    assert page.inner_text("#answer h2") == "Mean income by region among age 18 to 59"
    assert page.locator("#answer svg:visible").count() == 1
    assert "where=18+%3C%3D+age+%3C+60" in page.url


def test_estimates_change_while_typing(visit, collected):
    one = visit()
    page = one.go(collected.surveys()[0].fingerprint)
    page.locator("#answer summary").click()
    page.evaluate("window.same = true")
    page.fill("#where", "region == 'north'")
    playwright.expect(page.locator("#answer h2")).to_contain_text("north")
    assert page.evaluate("window.same") and "where=region+%3D%3D+%27north%27" in page.url
    assert page.evaluate("document.querySelector('#answer details').open")
    assert "north" in page.inner_text("#announcement")
    page.fill("#where", "region == 'nowhere'")
    page.wait_for_selector("#answer .error")
    assert "nowhere" in page.inner_text("#announcement")
    page.fill("#where", "")
    page.wait_for_selector("#answer svg")
    assert one.complaints == [text for text in one.complaints if "400" in text]


@pytest.mark.parametrize(
    ("show", "fields"),
    [
        ("count", {"show", "where"}),
        ("histogram", {"show", "attribute", "where", "bins"}),
        ("groups", {"show", "attribute", "by", "where", "by_bins", "estimate", "baseline"}),
    ],
)
def test_form_shows_the_fields_of_its_query(visit, collected, show, fields):
    page = visit().go(collected.surveys()[0].fingerprint, show=show)
    page.evaluate(OPEN_ALL)
    always = {"confidence_level", "target", "malicious", "anytime"}
    visible = page.locator("#query :is(input, select):visible").all()
    assert {one.get_attribute("name") for one in visible} == fields | always


def test_monitoring_updates_the_estimates(visit, collected):
    asked, one = survey(), visit()
    fingerprint = collected.surveys()[0].fingerprint
    page = one.context.new_page()
    page.clock.install()
    page.goto(f"{one.server}/surveys/{fingerprint}?anytime=true")
    before = page.inner_text("#answer")
    assert "confidence sequence" in before
    more = {"age": [30] * 2000, "income": [10.0] * 2000, "region": ["west"] * 2000}
    collected.tally(asked).add(asked.randomize(more, randomness=Randomness.seeded(5)))
    with page.expect_response(lambda response: "anytime=true" in response.url):
        page.clock.fast_forward(11_000)
    playwright.expect(page.locator("#answer")).not_to_have_text(before, use_inner_text=True)


def test_the_whole_page_by_keyboard(visit, collected):
    page = visit().go(collected.surveys()[0].fingerprint)
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        if seen[-1] == "BODY":
            break
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", seen
    fields = ["show", "attribute", "where", "anytime"]
    assert [name for name in seen if name in fields] == fields
    assert "SUMMARY" in seen and "BUTTON" in seen


def test_code_in_names_does_not_run(visit, collected):
    one = visit()
    for show in SHOWS:
        page = one.go(collected.surveys()[1].fingerprint, show=show)
        assert page.locator("img, b, svg script").count() == 0
    assert [text for text in one.complaints if "400" not in text] == []


def test_pages_and_scripts_are_small(visit, collected):
    one = visit()
    sizes = {}
    for show in SHOWS:
        body = one.go(collected.surveys()[0].fingerprint, show=show).content()
        sizes[show] = len(body.encode())
    assert max(sizes[show] for show in SHOWS if show != "heatmap") < 60_000
    assert sizes["heatmap"] < 150_000
    script = one.page.request.get(f"{one.server}/surveys/page.js").body()
    assert len(script) < 2000
