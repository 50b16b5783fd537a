"""The page in a real browser, under its own policy: light and dark, with and without scripts."""

import os
import shutil
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest
from collected import TOKEN, InMemory, nasty_tally, survey, tally

from metricldp.app.web import pages
from metricldp.coins.stream import Coins

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the path")
SHOWS = ("histogram", "cdf", "heatmap", "groups")


def axe():
    """The program that looks for barriers, wherever npm has put it."""
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
    """A visitor who is logged in, and all that the browser complains of."""

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

    def go(self, fingerprint, **said):
        self.page.goto(f"{self.server}/surveys/{fingerprint}?{urlencode(said)}")
        return self.page

    def barriers(self):
        """What axe finds; its program comes in past the policy, as that of a debugger does."""
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


@pytest.mark.parametrize(("scheme", "show"), [("light", "groups"), ("dark", "cdf")])
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
    one.go(collected.surveys()[0].fingerprint, where="nonsense")
    assert one.barriers() == []
    assert [said for said in one.complaints if "400" not in said] == []
    one.page.goto(f"{one.server}/surveys")
    assert one.barriers() == []
    one.page.goto(f"{one.server}/surveys/login")
    assert one.barriers() == []


def test_the_two_schemes_differ(visit, collected):
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
    for survey_ in collected.surveys():
        page = one.go(survey_.fingerprint, show=show)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_question_without_scripts(visit, collected):
    one = visit(java_script_enabled=False)
    page = one.go(collected.surveys()[0].fingerprint)
    page.select_option("#show", "groups")
    page.select_option("#by", "region")
    page.fill("#where1", "age=18..59")
    page.click("text=Ask")
    assert page.inner_text("#answer h2") == "Mean age by region among age=18..59"
    page.select_option("#attribute", "income")
    page.click("text=Ask")
    assert page.inner_text("#answer h2") == "Mean income by region among age=18..59"
    assert page.locator("#answer svg").count() == 1
    assert "where=age%3D18..59" in page.url


def test_the_answer_changes_as_one_types(visit, collected):
    one = visit()
    page = one.go(collected.surveys()[0].fingerprint)
    page.locator("#answer summary").click()
    page.evaluate("window.same = true")
    page.fill("#where1", "region=north")
    playwright.expect(page.locator("#answer h2")).to_contain_text("north")
    assert page.evaluate("window.same") and "where=region%3Dnorth" in page.url
    assert page.evaluate("document.querySelector('#answer details').open")
    assert "north" in page.inner_text("#heard")
    page.fill("#where1", "region=nowhere")
    page.wait_for_selector("#answer .wrong")
    assert "nowhere" in page.inner_text("#heard")
    page.fill("#where1", "")
    page.wait_for_selector("#answer svg")
    assert one.complaints == [said for said in one.complaints if "400" in said]


def test_watching_asks_again(visit, collected):
    asked, one = survey(), visit()
    fingerprint = collected.surveys()[0].fingerprint
    page = one.context.new_page()
    page.clock.install()
    page.goto(f"{one.server}/surveys/{fingerprint}?anytime=1")
    before = page.inner_text("#answer")
    assert "stay right while you watch" in before
    more = {"age": [30] * 2000, "income": [10.0] * 2000, "region": ["west"] * 2000}
    collected.tally(asked).add(asked.encode(more, coins=Coins.seeded(5)))
    with page.expect_response(lambda response: "anytime=1" in response.url):
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
    assert [name for name in seen if name in ("show", "attribute", "by", "where1", "anytime")] == [
        *("show", "attribute", "by", "where1", "anytime")
    ]
    assert "SUMMARY" in seen and "BUTTON" in seen


def test_names_that_are_programs_do_not_run(visit, collected):
    one = visit()
    for show in SHOWS:
        page = one.go(collected.surveys()[1].fingerprint, show=show)
        assert page.locator("img, b, svg script").count() == 0
    assert [said for said in one.complaints if "400" not in said] == []


def test_pages_and_scripts_are_small(visit, collected):
    one = visit()
    sizes = {}
    for show in SHOWS:
        body = one.go(collected.surveys()[0].fingerprint, show=show).content()
        sizes[show] = len(body.encode())
    assert max(sizes[show] for show in ("histogram", "cdf", "groups")) < 50_000
    assert sizes["heatmap"] < 150_000
    script = one.page.request.get(f"{one.server}/surveys/page.js").body()
    assert len(script) < 2000
