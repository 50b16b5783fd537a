"""The documentation site builds strictly, has every page in its menu, and needs no network.

docs/prepare.py copies the pages that tests/test_docs.py runs, and fills their templates.
"""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

import metricldp
from metricldp.cli import main as cli
from test_docs import READ, ROOT, RUN, prepare
from test_public_interface import MEMBERS, MISSING_MEMBERS

DOCS = ROOT / "docs"
LONGEST = 330
"""Lines of a page: longer ones are split."""
LONGEST_SPECIFICATION = 600
"""Those of the specification, which is one page with many tables; its words are limited, too."""


def pages():
    """The pages in docs/, by their name on the site."""
    return {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md")}


# Pages --------------------------------------------------------------------------------------------


def test_every_page_is_in_the_menu_once_and_every_picture_exists():
    assert prepare.mistakes() == []


def test_missing_pages_and_pictures_are_noticed(monkeypatch, tmp_path):
    other = tmp_path / "glossary.md"
    other.write_text("![a](none.png)\n", "utf-8")
    known = prepare.pages()
    changed = known | {"glossary.md": other, "new.md": known["glossary.md"]}
    del changed["audit.md"]
    monkeypatch.setattr(prepare, "pages", lambda: changed)
    assert set(prepare.mistakes()) >= {
        "zensical.toml has audit.md, which does not exist",
        "zensical.toml needs new.md once in nav",
        "glossary.md shows none.png, which does not exist",
    }


def test_the_examples_of_every_page_are_run():
    assert set(pages().values()) <= set(RUN)


@pytest.mark.parametrize("name", sorted(pages()))
def test_pages_are_short(name):
    lines = pages()[name].read_text("utf-8").count("\n")
    most = LONGEST_SPECIFICATION if name == "specification.md" else LONGEST
    assert lines <= most, f"docs/{name} has {lines} lines; split it"


def test_the_readme_is_short():
    assert (ROOT / "README.md").read_text("utf-8").count("\n") <= 210


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
        places = (ROOT / name, ROOT / "src" / name, ROOT / "src" / "metricldp" / name)
        assert any(place.exists() for place in places), f"{path.name} names {name}"


# Templates ----------------------------------------------------------------------------------------


def fill(text):
    return prepare.TEMPLATE.sub(prepare.fill, text)


def test_values_come_from_saved_results(monkeypatch, tmp_path):
    monkeypatch.setattr(prepare, "RESULTS", tmp_path)
    rows = [{"mb": 2345.6}, {"case": "wide", "mb": 7}]
    saved = {"age": {"se": 0.012345, "n": 50000, "rows": rows}, "name": "additive"}
    (tmp_path / "errors.json").write_text(json.dumps(saved), "utf-8")
    assert fill('SE {{ result("errors", "age", "se") }}.') == "SE 0.0123."
    assert fill('{{ result("errors", "age", "n") }}') == "50,000"
    assert fill('{{ result("errors", "age", "rows", 0, "mb") }} MB') == "2,346 MB"
    assert fill('`{{ result("errors", "name") }}`') == "`additive`"
    assert fill('{{ result("errors", "age", "rows", "wide", "mb") }}') == "7"
    for wrong in (
        *('result("errors", "height")', 'result("none", "age")', 'result("errors", "age")'),
        'result("errors", "age", "rows", "none")',
    ):
        with pytest.raises((KeyError, FileNotFoundError, TypeError, ValueError)):
            fill(f"{{{{ {wrong} }}}}")


def test_saved_results_are_those_of_their_scripts(tmp_path):
    script = [sys.executable, ROOT / "benchmarks" / "sizes.py", "--output", tmp_path]
    subprocess.run(script, cwd=tmp_path, check=True, capture_output=True)
    saved, fresh = (
        json.loads((folder / "sizes.json").read_text("utf-8"))["rows"]
        for folder in (prepare.RESULTS, tmp_path)
    )
    assert saved == fresh, "run python benchmarks/sizes.py --output docs/results"
    assert [path.name for path in prepare.RESULTS.iterdir()] == ["sizes.json"]


def test_links_to_other_files_of_the_project_become_words():
    def linked(text, folder):
        where = prepare.PurePosixPath(folder)
        return prepare.LINK.sub(lambda link: prepare.within_the_site(link, where), text)

    assert linked("[a](api/survey.md#Survey)", "docs") == "[a](api/survey.md#Survey)"
    assert linked("[a](../SECURITY.md)", "docs") == "[a](security.md)"
    assert linked("[a](../../CHANGELOG.md)", "docs/api") == "[a](../changelog.md)"
    assert linked("[a](docs/audit.md#x)", ".") == "[a](audit.md#x)"
    assert linked("[a](SECURITY.md)", ".") == "[a](security.md)"
    assert linked("[a](../src/metricldp/api.py)", "docs") == "a (`src/metricldp/api.py`)"
    assert linked("[`LICENSE`](../LICENSE)", "docs") == "`LICENSE`"


# Reference ----------------------------------------------------------------------------------------


def documented():
    """The public names of the API pages, each with the members that are listed."""
    text = "\n".join(path.read_text("utf-8") for path in (DOCS / "api").glob("*.md"))
    calls = re.findall(r"^\{\{ api\((.*)\) \}\}$", text, re.MULTILINE)
    lists = [re.findall(r'"([^"]+)"', call) for call in calls]
    return {name.removesuffix("(...)"): set(members) for name, *members in lists}


def test_every_public_name_is_in_the_api_reference():
    assert sorted(documented()) == sorted({*metricldp.__all__} - {"__version__"})


@pytest.mark.parametrize("name", sorted(set(MEMBERS) & set(metricldp.__all__)))
def test_every_method_is_in_the_api_reference(name):
    existing = MEMBERS[name] - set(MISSING_MEMBERS.get(name, "").split())
    value = getattr(metricldp, name)
    arguments = set(inspect.signature(value.__init__).parameters)
    assert documented()[name] - {"distance"} == existing - (
        set() if name in ("Survey", "Tally", "Estimate", "EstimateTable") else arguments
    )


def test_api_pages_have_signatures_and_docstrings():
    text = prepare.prepared("api/survey.md")
    assert (
        "### `Survey.verify` { #Survey.verify }\n\n```python\nverify(fingerprint: str)\n```" in text
    )
    assert "Survey.load(path: str | Path" in text  # a class method
    assert "fingerprint: str\n```" in text  # a property
    assert "```pycon\n>>> from metricldp import" in text
    assert "{{" not in text
    with pytest.raises(ValueError, match="Survey has no member none"):
        prepare.api("Survey", "none")


def commands(group, before=""):
    """Every command by its name, those of groups such as `token new` as well."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name, command


COMMANDS = dict(commands(typer.main.get_command(cli.app)))
PAGE = prepare.prepared("commands.md")
SHARED = PAGE.partition("## Arguments and options of several commands")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_described_with_all_its_arguments_and_options(name):
    anchor = name.replace(" ", "-")
    section = PAGE.partition(f"### `{name}` {{ #{anchor} }}\n")[2].partition("\n##")[0]
    assert COMMANDS[name].help in section
    assert f"metricldp {name} " in section
    for one in COMMANDS[name].params:
        if not one.hidden:
            words = [o for o in one.opts if o[0] == "-"] or [(one.metavar or one.name).upper()]
            assert all(word in section for word in words)
            text = one.help.replace("|", "\\|")
            assert f"| {text}" in section + SHARED


def test_the_commands_are_those_of_the_application():
    assert {"demo", "query count", "collector token new", "lab audit"} <= set(COMMANDS)


def test_arguments_of_several_commands_are_described_once():
    assert PAGE.count("| Print JSON |") == 1
    assert PAGE.count("Replace existing files") == 1


# The site -----------------------------------------------------------------------------------------


def test_nothing_of_the_site_names_a_host():
    for path in (DOCS / "assets").iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name
    assert "://" not in (ROOT / "zensical.toml").read_text("utf-8")


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


def interpreter():
    """The interpreter that has the site generator: this one, or that of `make docs`."""
    if find_spec("zensical") and find_spec("latex2mathml"):
        return sys.executable
    for python in (".venv-docs/bin/python", ".venv-docs/Scripts/python.exe"):
        if (ROOT / python).exists():
            return str(ROOT / python)
    return pytest.skip("Zensical is not installed; make docs installs it")


def build(root):
    """Run the two commands of `make docs`; the last one that ran."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    for words in (["docs/prepare.py"], ["-m", "zensical", "build", "--clean", "--strict"]):
        command = [interpreter(), *words]
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            break
    return done


def copy_of_project(folder):
    """What the site is built from."""
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name)
    for path in (*ROOT.glob("*.md"), ROOT / "zensical.toml"):
        shutil.copy(path, folder / path.name)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = copy_of_project(tmp_path_factory.mktemp("project"))
    done = build(root)
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "build" / "site"


@pytest.mark.slow
def test_the_site_builds_strictly_and_has_every_page(site):
    for name in prepare.navigation():
        assert (site / name).with_suffix(".html").exists(), name
    assert (site / "search.js").stat().st_size > 100_000


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
def test_signatures_and_formulas_are_on_the_site(site):
    text = re.sub(r"<[^>]+>", "", (site / "api" / "survey.html").read_text("utf-8"))
    for words in ("clip: bool = False", "certify() -&gt; Certificate", "Survey.design("):
        assert words in text
    assert 'id="Survey.tally"' in (site / "api" / "survey.html").read_text("utf-8")
    glossary = (site / "glossary.html").read_text("utf-8")
    assert "<msup>" in glossary
    assert "<mi>x</mi><mo>&#x02032;</mo>" in glossary  # a superscript would be too small to read


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", ["[a](none.md)", "[a](glossary.md#none)", "![a](none.png)", '{{ api("None") }}']
)
def test_a_broken_link_picture_or_template_fails_the_build(site, tmp_path, wrong):
    root = copy_of_project(tmp_path)
    with Path(root / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{wrong}\n")
    done = build(root)
    assert done.returncode != 0
    assert re.search(r"none|None|does not exist", done.stdout + done.stderr)


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.slow
def test_search_works_from_a_folder_without_a_network(site, chromium):
    page, requests = chromium.new_page(), []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.click("button.md-search__button")
    page.locator("input[type=text]").fill("accountant")
    page.get_by_role("option", name="Accountant.add").wait_for(timeout=20_000)
    assert all(address.startswith(("file:", "data:", "about:")) for address in requests)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_follow_the_system(site, chromium, scheme):
    page = chromium.new_page(color_scheme=scheme)
    page.goto((site / "index.html").as_uri())
    page.wait_for_selector(
        f'body[data-md-color-scheme="{"slate" if scheme == "dark" else "default"}"]'
    )
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", colour)[:3])) < 60) == (scheme == "dark")


@pytest.mark.slow
def test_no_page_is_wider_than_a_phone(site, chromium):
    page = chromium.new_page(viewport={"width": 390, "height": 844})
    for name in prepare.navigation():
        page.goto((site / name).with_suffix(".html").as_uri(), wait_until="domcontentloaded")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{name} is {width} wide"
