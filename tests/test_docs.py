"""Every block of the documents is run, and what it prints is what they show.

`python tests/test_docs.py --write` puts the real output into the documents, or into those that are
named after it. Randomness is seeded here: 1 for the first batch of each document, 2 for the
second and so on, so that outputs repeat.

`metricldp collector serve` in a console block starts a collector that runs until the end of the
document, at a free port; later blocks reach it at the port that the document states.
"""

import base64
import contextlib
import difflib
import io
import itertools
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from metricldp import Randomness, SeededRandomnessWarning
from metricldp.cli import main as cli

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))
import prepare  # noqa: E402

RUN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
READ = sorted({*RUN, *ROOT.glob("*.md")})

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<shown>\n```text\n.*?^```\n)?"
    r"|^```console\n(?P<session>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


def replay(text, name):
    """The document as it should be: every output block holds what its code prints today."""
    namespace = {"__name__": name}

    def again(block):
        line = text.count("\n", 0, block.start()) + 1
        if block["session"] is not None:
            return f"```console\n{run_session(block['session'], served)}```\n"
        code = served.real(block["code"])
        shown = served.stated(run_python(code, namespace, name, line))
        output = f"\n```text\n{shown}```\n" if shown else ""
        return f"```python\n{block['code']}```\n{output}"

    with isolated(), Served() as served:
        return BLOCK.sub(again, text)


class Served:
    """The collectors that a document starts: they run in the background until its end."""

    STATED = "127.0.0.1:8000"
    """The address in documents; the real one has a free port."""

    def __init__(self):
        self.processes, self.address = [], self.STATED

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def real(self, text):
        return text.replace(self.STATED, self.address)

    def stated(self, text):
        return text.replace(self.address, self.STATED)

    def stop(self):
        """SIGTERM, as from systemd; what was accepted is stored."""
        for process in self.processes:
            process.terminate()
            process.wait(30)
            process.stderr.close()
        self.processes.clear()

    def start(self, words):
        """What a new collector prints until it listens; one that was started before ends."""
        self.stop()
        command = [sys.executable, "-m", *words, "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, bufsize=0)
        self.processes.append(process)
        printed = process.stderr.readline().decode()
        place = re.search(r"http://(127\.0\.0\.1:\d+)", printed)
        if place is None:
            return printed + process.stderr.read().decode()
        self.address = place[1]
        wait_for(f"http://{self.address}/readyz")
        os.set_blocking(process.stderr.fileno(), False)  # all is printed before it listens
        return printed + (process.stderr.read() or b"").decode()


def wait_for(address, seconds=60):
    """Until a server is ready."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=10):
            return
        time.sleep(0.05)
    raise TimeoutError(address)


@contextlib.contextmanager
def isolated():
    """A temporary directory to work in, and seeded randomness."""
    seeds = itertools.count(1)

    def randomness():
        return Randomness.seeded(next(seeds))

    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.chdir(directory),
        mock.patch("metricldp.api.os", SimpleNamespace(urandom=randomness().draw)),
        mock.patch("metricldp.reports.encode.Randomness", randomness),
        mock.patch("metricldp.reports.files.Randomness", randomness),
        mock.patch("metricldp.collector.register.secrets.token_urlsafe", example_token),
    ):
        yield


def example_token(size):
    """A token that repeats, from random bytes that are not."""
    return base64.urlsafe_b64encode(random.Random(1).randbytes(size)).rstrip(b"=").decode()


def run_python(code, namespace, name, line):
    printed = io.StringIO()
    program = compile("\n" * line + code, name, "exec")  # so that a traceback has the right line
    with contextlib.redirect_stdout(printed):
        exec(program, namespace)
    return whole_lines(printed.getvalue())


def run_session(session, served):
    """Every command of a console block, each followed by what it prints and how it fails."""
    commands = [line for line in session.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{run_command(command, served)}" for command in commands)


def run_command(command, served):
    words = shlex.split(served.real(command.removeprefix("$ ")), comments=True)
    assert words[0] == "metricldp", f"a console block holds metricldp commands only, not {command}"
    if words[1:3] == ["collector", "serve"]:
        return served.stated(served.start(words))
    return served.stated(run_in_process(words))


def run_in_process(words):
    printed = io.StringIO()
    with (
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.suppress(SystemExit),
    ):
        cli.main()
    return whole_lines(printed.getvalue())


def whole_lines(printed):
    return printed if printed.endswith("\n") or not printed else printed + "\n"


def fences(text):
    """The opening fence of every block, wherever it stands."""
    return re.findall(r"^[ \t>]*(?:```|~~~).*", text, re.MULTILINE)[::2]


def anchors(text):
    """Headings as they are linked to, by their own id or by their words."""
    headings = re.findall(r"^#+ (.+?)(?: \{ #(\S+) \})?$", text, re.MULTILINE)
    return {own or re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h, own in headings}


def filled(path):
    """The text of a document with what its templates stand for."""
    return prepare.TEMPLATE.sub(prepare.fill, path.read_text("utf-8"))


def same_everywhere(text):
    """Without the digits that processors do not agree on: those beyond the tenth of a float, and
    the lower half of the tops that a search in floats found."""
    text = re.sub(r"(?<![\w.])\d+\.\d{8,}", lambda found: f"{float(found[0]):.9g}", text)
    tops = re.compile(r"^tops = \[[^\]]*\]", re.MULTILINE)
    return tops.sub(lambda found: re.sub(r'"([0-9a-f]{8})[0-9a-f]{8}"', r'"\1"', found[0]), text)


def test_only_digits_that_depend_on_the_processor_are_ignored():
    shown = 'tops = [\n    "6f756159c5783a91",\n    "000019053eca740a",\n]\nx = 0.12345678901\n'
    real = 'tops = [\n    "6f756159c5ed1291",\n    "000019053eca7405",\n]\nx = 0.12345678902\n'
    assert same_everywhere(shown) == same_everywhere(real)
    for old, new in (("6f75", "6f76"), ("0.1234", "0.1235"), ("tops", "levels")):
        assert same_everywhere(shown) != same_everywhere(real.replace(old, new))


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_output_is_what_the_document_shows(path):
    text = same_everywhere(path.read_text("utf-8"))
    fresh = same_everywhere(replay(path.read_text("utf-8"), path.name))
    lines = difflib.unified_diff(
        text.splitlines(), fresh.splitlines(), "shown", "real", lineterm=""
    )
    assert fresh == text, "run python tests/test_docs.py --write\n" + "\n".join(lines)


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_block_hides_from_the_tests(path):
    known = {"```python", "```text", "```console", "```sh", "```toml"}
    if path.name == "quickstart-web.md":  # tests/client/test_browser.py runs these
        known |= {"```html", "```js"}
    text = path.read_text("utf-8")
    assert set(fences(text)) <= known
    examples = {file.read_text("utf-8") for file in (ROOT / "examples").rglob("*.toml")}
    assert set(re.findall(r"^```toml\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)) <= examples


@pytest.mark.parametrize("path", READ, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_pictures_exist(path):
    text = re.sub(r"^```html\n.*?^```$", "", path.read_text("utf-8"), flags=re.M | re.S)
    for link in map("".join, LINK.findall(text)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), f"{path.name} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(filled(target)), f"{path.name}: no heading {link}"


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blocks_need_nothing_but_the_package(path):
    installed = {"metricldp", "metricldp_core", "numpy", "pyarrow", "scipy", "matplotlib"}
    if path.name == "engines.md":
        installed |= {"duckdb"}
    for block in BLOCK.finditer(path.read_text("utf-8")):
        for name in re.findall(r"^ *(?:import|from) (\w+)", block["code"] or "", re.MULTILINE):
            assert name in installed | sys.stdlib_module_names, f"{path.name} imports {name}"


def test_last_digits_may_differ_and_no_others():
    assert same_everywhere("178.26332580889115") == same_everywhere("178.26332580889104")
    assert same_everywhere("178.2633258088") != same_everywhere("178.2633268088")
    assert same_everywhere("1.2345") == "1.2345"
    assert same_everywhere('tops = ["6f756159c5783a91"]') == 'tops = ["6f756159"]'
    assert same_everywhere('"6f756159c5783a91"') == '"6f756159c5783a91"'


def test_a_wrong_output_is_noticed():
    wrong = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert replay(wrong, "wrong") == wrong.replace("3", "2")
    assert replay("```console\n$ metricldp certify none.toml\n```\n", "wrong").count("\n") == 4


if __name__ == "__main__" and "--write" in sys.argv:
    warnings.simplefilter("ignore", SeededRandomnessWarning)
    named = sys.argv[sys.argv.index("--write") + 1 :]
    for document in RUN:
        if named and document.name not in named:
            continue
        document.write_text(replay(document.read_text("utf-8"), document.name), "utf-8")
