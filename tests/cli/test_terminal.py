"""Terminals, pipes, full disks, interrupts and progress bars."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rich.progress  # noqa: F401 - loaded here, because the bar loads it while the work goes on

from metricldp.basics import progress
from metricldp.basics.progress import progress_bar

PROGRAM = [sys.executable, "-c", "from metricldp.cli.main import main; main()"]
RANDOMIZE = ["randomize", "survey.toml", "people.csv", "-o", "out.parquet"]
LONG = ["query", "histogram", "survey.toml", "reports.parquet", "age"]


def start(*words, **options):
    return subprocess.run([*PROGRAM, *words], capture_output=True, check=False, **options)


def test_terminal_that_has_only_ascii(folder):
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    count = ["query", "count", "survey.toml", "reports.parquet"]
    done = start(*count, "region == 'nörth'", env=ascii_only)
    assert done.returncode == 2
    assert rb"'n\xf6rth'" in done.stderr
    assert done.stderr.isascii()
    for words in (count, ["--help"], ["explain", "survey.toml"]):
        done = start(*words, env=ascii_only)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()


def test_closed_standard_output_is_no_error(folder):
    line = f"{subprocess.list2cmdline(PROGRAM)} --version >&-"
    done = subprocess.run(line, shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [LONG, [*LONG, "--csv"], [*LONG, "--json"]], ids=" ".join)
def test_broken_pipe_ends_without_a_message(words, folder):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [*PROGRAM, *words], stdout=pipe, stderr=subprocess.PIPE, check=False, cwd=folder
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
@pytest.mark.parametrize("words", [["certify", "survey.toml"], LONG], ids=" ".join)
def test_full_disk_is_one_line(words, folder):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *words, "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "metricldp: cannot write: No space left on device\n"


def test_pipe_sees_no_progress_bar(folder, survey):
    done = start(*RANDOMIZE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"600 reports for survey {survey.fingerprint[:16]} in out.parquet\n"


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes standard error a terminal, where bars appear at once."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "DELAY", 0.0)
    return lambda: monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def test_terminal_sees_a_progress_bar(terminal, folder, execute, monkeypatch):
    terminal()

    def slow(*_, progress, **__):
        time.sleep(0.5)
        progress(0.5)
        return 600

    monkeypatch.setattr("metricldp.reports.files.encode_file", slow)
    code, out, error = execute(*RANDOMIZE)
    assert (code, out[:11]) == (0, "600 reports")
    assert "randomizing" in error


def test_output_of_the_work_stays_on_standard_output(terminal, capsys):
    terminal()
    with progress_bar("working") as report:
        time.sleep(0.5)
        report(0.5)
        print("a result")
    out, error = capsys.readouterr()
    assert out == "a result\n"
    assert "working" in error and "a result" not in error


def test_short_work_shows_no_progress_bar(terminal, monkeypatch, capsys):
    terminal()
    monkeypatch.setattr(progress, "DELAY", 60.0)
    with progress_bar("working") as report:
        report(0.5)
    assert capsys.readouterr().err == ""


def test_progress_bar_ends_with_an_error(terminal, capsys):
    terminal()
    with pytest.raises(ValueError, match="failed"), progress_bar("working") as report:
        time.sleep(0.5)
        report(0.5)
        raise ValueError("failed")
    text = capsys.readouterr().err
    assert "working" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is shown again


def test_interrupt_leaves_no_file(folder, execute, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("metricldp.reports.files.encode", interrupt)
    assert execute(*RANDOMIZE) == (130, "", "metricldp: stopped\n")
    assert not [*folder.glob("*out*")]


def test_error_of_the_program_is_not_hidden(folder, execute, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a defect")

    monkeypatch.setattr("metricldp.reports.files.encode", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        execute(*RANDOMIZE)
