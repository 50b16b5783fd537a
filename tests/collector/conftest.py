"""A survey whose reports can be told apart, and both stores."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from metricldp import Categorical, Integer, Survey
from metricldp.collector.books import Books
from metricldp.collector.folder import Collector
from metricldp.reports.bytes import pack


@pytest.fixture(scope="session")
def survey():
    """Few bits, with values that no device could send, and padding."""
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism="geometric"),
            "region": Categorical(
                ["north", "south", "east"], epsilon=2, mechanism="randomized-response"
            ),
        }
    )


@pytest.fixture(scope="session")
def wide():
    """64 bits, each of them free: a report can be any number of eight bytes."""
    return Survey.design({"x": Integer(0, 64, epsilon=1, mechanism="threshold", per=1)})


@pytest.fixture(scope="session")
def reports(survey):
    people = {"age": [k % 100 for k in range(500)], "region": ["north", "east"] * 250}
    return pack(survey, survey.randomize(people))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A real server of Debian's package, on a socket in a temporary folder."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("no Postgres server is installed (Debian: postgresql)")
    tools = found[-1].parent
    owner = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    # Sockets have short names only, and their folder belongs to the server's user.
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("Postgres does not run as root, and there is no setpriv")
        shutil.chown(folder, owner, owner)
    group = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups"]
    before = group if os.geteuid() == 0 else []

    def run(*command):
        subprocess.run([*before, *command], check=True, capture_output=True, cwd=folder)

    data = folder / "data"
    run(tools / "initdb", "-D", data, "-A", "trust", "-U", "metricldp", "--no-sync")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c max_connections=50"
    run(tools / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield f"postgresql://metricldp@/postgres?host={folder}"
    finally:
        run(tools / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request):
    """Nothing for the file in the folder, or the address of an empty database."""
    if request.param == "sqlite":
        return None
    psycopg = pytest.importorskip("psycopg")
    url = request.getfixturevalue("postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS metricldp CASCADE")
    return url


@pytest.fixture
def collector(tmp_path, store):
    found = Collector(tmp_path / "collected", store)
    yield found
    found.close()


@pytest.fixture
def books(collector):
    found = Books(collector.connect())
    yield found
    found.database.close()
