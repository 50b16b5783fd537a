"""The documentation site builds strictly, has every page in its navigation, and stays at home.

The pages are the files that tests/test_docs.py runs; nothing is copied.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

import metricldp
from test_docs import READ, ROOT, RUN

DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text("utf-8")
LONGEST = 330
"""Lines of a page: longer ones are split."""


def pages():
    """All pages, by the name that the navigation has for them."""
    return {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md")}


def in_the_navigation(config=CONFIG):
    found = re.search(r"^nav:\n((?:[ #].*\n|\n)*)", config, re.MULTILINE)
    return re.findall(r"^ +- .*: (\S+\.md)$", found[1], re.MULTILINE)


def test_every_page_is_in_the_navigation_once():
    named = in_the_navigation()
    above = {f"{path.stem.lower()}.md" for path in ROOT.glob("*.md")} - {"readme.md"}
    assert sorted(named) == sorted({*pages(), *above}), "mkdocs.yml: a line under nav for each page"


def test_a_page_that_is_left_out_is_noticed():
    assert "glossary.md" in in_the_navigation()
    assert "glossary.md" not in in_the_navigation(CONFIG.replace("glossary.md", "other.md"))


def test_the_examples_of_every_page_are_run():
    assert set(pages().values()) <= set(RUN)


@pytest.mark.parametrize("name", sorted(pages()))
def test_pages_are_short(name):
    lines = pages()[name].read_text("utf-8").count("\n")
    assert lines <= LONGEST, f"docs/{name} has {lines} lines; split it"


def test_the_readme_is_short():
    assert (ROOT / "README.md").read_text("utf-8").count("\n") <= 200


def lists_without_a_line_before(text):
    """First items that stand right behind words: GitHub shows a list there, the site would not."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    item = r"(?:[-*]|\d+\.) "
    return re.findall(rf"^(?!{item}|\s|#|:::).+\n({item}.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("path", READ, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_lists_are_lists_on_the_site_too(path):
    assert lists_without_a_line_before(path.read_text("utf-8")) == []


def test_a_list_that_would_be_a_paragraph_is_noticed():
    assert lists_without_a_line_before("Words:\n- one\n- two\n") == ["- one"]
    assert lists_without_a_line_before("Words:\n\n- one\n  more\n- two\n") == []


NAMED = re.compile(r"`((?:[\w-]+/)+[\w-]+\.(?:py|js|toml|sh|service|conf))`")
"""Files that a page names, from the root of the project or of the package."""


@pytest.mark.parametrize("path", READ, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(path):
    for name in NAMED.findall(path.read_text("utf-8")):
        places = (ROOT / name, ROOT / "src" / "metricldp" / name)
        assert any(place.exists() for place in places), f"{path.name} names {name}"


def test_every_public_name_is_in_the_api_reference():
    text = "\n".join(path.read_text("utf-8") for path in (DOCS / "api").glob("*.md"))
    named = re.findall(r"^::: metricldp\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(name for name in metricldp.__all__ if name[0] != "_")


@pytest.mark.parametrize("name", ["Survey", "Tally"])
def test_every_method_is_in_the_api_reference(name):
    text = (DOCS / "api" / f"{name.lower()}.md").read_text("utf-8")
    listed = text.partition(f"::: metricldp.{name}\n")[2].partition("\n:::")[0]
    named = set(re.findall(r"^ +- (\w+)$", listed, re.MULTILINE))
    inner = {"asked", "block_of", "canonical", "fixed", "tabled"}  # for the package itself
    inner |= {"layout_for", "profile"}
    assert named == {n for n in dir(getattr(metricldp, name)) if n[0] != "_"} - inner


def test_nothing_of_the_site_names_a_host():
    for path in (DOCS / "assets").iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name
    assert "://" not in CONFIG


class Loaded(HTMLParser):
    """What a browser loads for a page by itself."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in {"script", "img", "iframe", "source"} and given.get("src"):
            self.found.add(given["src"])
        if tag == "link" and given.get("rel") not in {"canonical", "prev", "next"}:
            self.found.add(given["href"])


def mkdocs():
    """The interpreter that has mkdocs: this one, or that of `make docs`."""
    if find_spec("mkdocs") and find_spec("mkdocstrings") and find_spec("material"):
        return sys.executable
    for python in (".venv-docs/bin/python", ".venv-docs/Scripts/python.exe"):
        if (ROOT / python).exists():
            return str(ROOT / python)
    return pytest.skip("mkdocs is not installed; make docs installs it")


def build(root, output):
    words = [mkdocs(), "-m", "mkdocs", "build", "--strict", "--site-dir", output]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    output = tmp_path_factory.mktemp("site")
    done = build(ROOT, output)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


@pytest.mark.slow
def test_the_site_builds_strictly_and_has_every_page(site):
    for name in in_the_navigation():
        assert (site / name).with_suffix(".html").exists(), name
    assert (site / "search" / "search_index.js").stat().st_size > 100_000


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    for path in site.rglob("*.html"):
        parser = Loaded()
        parser.feed(path.read_text("utf-8"))
        for address in parser.found:
            assert not re.match(r"(?:[a-z]+:)?//", address), f"{path.name} loads {address}"
            if path.name != "404.html":  # its addresses start at the root of a server
                assert (path.parent / address.partition("?")[0]).exists(), (path.name, address)


@pytest.mark.slow
def test_signatures_are_in_the_api_reference(site):
    text = re.sub(r"<[^>]+>", "", (site / "api" / "survey.html").read_text("utf-8"))
    for words in ("clip: bool = False", "certify() -&gt; Certificate", "from_toml("):
        assert words in text


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["none.md", "glossary.md#none"])
def test_a_broken_link_fails_the_build(tmp_path, wrong):
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in (*ROOT.glob("*.md"), ROOT / "mkdocs.yml"):
        shutil.copy(path, tmp_path / path.name)
    with Path(tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[wrong]({wrong})\n")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    assert wrong.partition("#")[2] or wrong in done.stdout + done.stderr


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium to be had")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.slow
def test_search_works_from_a_folder_and_asks_nobody(site, chromium):
    page, elsewhere = chromium.new_page(), []
    page.on("request", lambda asked: elsewhere.append(asked.url))
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("ledger", delay=20)
    page.wait_for_selector(".md-search-result__article", timeout=20_000)
    assert "ledger" in page.inner_text(".md-search-result__list").lower()
    assert all(address.startswith(("file:", "data:", "about:")) for address in elsewhere)


@pytest.mark.slow
def test_no_page_is_wider_than_a_phone(site, chromium):
    page = chromium.new_page(viewport={"width": 390, "height": 844})
    for name in in_the_navigation():
        page.goto((site / name).with_suffix(".html").as_uri(), wait_until="domcontentloaded")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{name} is {width} wide"
