"""Only the owner can read the files of SQLite, also those of an earlier version."""

import stat

import pytest

from metricldp.collector.sqlite import FILE, SQLite

LOGS = (f"{FILE}-wal", f"{FILE}-shm")


def modes(folder):
    """Return the mode of every file of a folder."""
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


def write(database, name):
    database.rows("BEGIN IMMEDIATE")
    database.rows(f"CREATE TABLE {name} (value INTEGER)")
    database.rows("COMMIT")


@pytest.fixture
def running(tmp_path):
    """A connection that keeps the logs in place, as in a process that still runs."""
    database = SQLite(tmp_path)
    write(database, "one")
    assert set(modes(tmp_path)) == {FILE, *LOGS}
    yield database
    database.close()


@pytest.mark.parametrize("readable", [[FILE, *LOGS], LOGS, LOGS[:1], LOGS[1:], [FILE]])
def test_old_database_and_its_logs_become_private(tmp_path, running, readable):
    for name in readable:
        (tmp_path / name).chmod(0o644)
    again = SQLite(tmp_path)
    write(again, "two")
    assert modes(tmp_path) == dict.fromkeys([FILE, *LOGS], "0o600")
    assert {name for (name,) in running.rows("SELECT name FROM sqlite_master")} >= {"one", "two"}
    again.close()


def test_new_database_and_its_logs_are_private(tmp_path, running):
    assert modes(tmp_path) == dict.fromkeys([FILE, *LOGS], "0o600")


def test_old_database_without_logs_becomes_private(tmp_path):
    database = SQLite(tmp_path)
    database.close()
    assert set(modes(tmp_path)) == {FILE}
    (tmp_path / FILE).chmod(0o644)
    SQLite(tmp_path).close()
    assert modes(tmp_path) == {FILE: "0o600"}
