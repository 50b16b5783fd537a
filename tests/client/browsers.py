"""node and Chromium for tests of the client; where they are missing, tests are skipped."""

import contextlib
import functools
import http.server
import json
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
CLIENT = ROOT / "clients" / "js"


def tool(name):
    """A development tool of the client, where `npm install` has been run."""
    found = CLIENT / "node_modules" / ".bin" / name
    if not found.exists():
        pytest.skip(f"{name} is not installed; run npm install in clients/js")
    return str(found)


def node(script, *arguments):
    """What a script prints as JSON."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    words = ["node", str(HERE / script), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(handler=_Quiet, folder=ROOT):
    """A server on a port of its own: its address."""
    handler = functools.partial(handler, directory=str(folder)) if folder else handler
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def chromium():
    """A real browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
