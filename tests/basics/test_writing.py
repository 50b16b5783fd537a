"""A file is the old one or the new one, whatever happens to the writer, and nothing else stays."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from metricldp import (
    Accountant,
    Categorical,
    Integer,
    InvalidReportError,
    InvalidSpecError,
    Survey,
    SurveySpec,
)
from metricldp.basics import writing
from metricldp.basics.errors import QueryError
from metricldp.basics.writing import check_apart, replacing
from metricldp.plot import save

SURVEY = Survey.design(
    {"age": Integer(0, 9, epsilon=1, per=1), "told": Categorical(["no", "yes"], epsilon=1)}
)
PEOPLE = {"age": [1, 2, 3] * 50, "told": ["no", "yes", "no"] * 50}


def ledger():
    found = Accountant()
    found.add(SURVEY, "first")
    return found


def tally(**how):
    return SURVEY.tally(SURVEY.randomize(PEOPLE), **how)


KINDS = {
    "survey.toml": lambda path: SURVEY.save(path, overwrite=True),
    "survey.json": lambda path: SURVEY.save(path, overwrite=True),
    "ledger.json": lambda path: ledger().save(path),
    "tally.parquet": lambda path: tally().save(path),
    "tally.totals": lambda path: tally(keep=[("age",)]).save(path),
    "chart.png": lambda path: save(tally().histogram("age").plot(), path),
}
"""Everything that is saved, by the name of its file."""


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """Where to save something of each kind, and the function that does."""
    (tmp_path / request.param).write_bytes(b"old")
    return tmp_path / request.param, KINDS[request.param]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


class FullDisk:
    """A file that takes a few bytes and no more."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        self._room -= len(bytes(data))
        if self._room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *wrong):
        self._file.close()


@pytest.mark.parametrize("room", [0, 100])
def test_a_full_disk_leaves_the_old_file(kind, room, monkeypatch):
    path, save = kind
    create = writing._created
    monkeypatch.setattr(
        writing, "_created", lambda *where: (FullDisk((made := create(*where))[0], room), made[1])
    )
    with pytest.raises((InvalidSpecError, InvalidReportError, QueryError)) as told:
        save(path)
    assert str(told.value) == f"cannot write {path}: No space left on device"
    assert path.read_bytes() == b"old"
    assert names(path.parent) == [path.name]


def test_a_full_disk_is_one_line_on_the_command_line(tmp_path):
    """A limit on the size of files stands in for the disk."""
    SURVEY.save(tmp_path / "survey.toml")
    people = "age,told\n" + "1,no\n" * 50_000
    (tmp_path / "people.csv").write_text(people)
    (tmp_path / "out.parquet").write_bytes(b"old")
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000));"
        "sys.argv = ['metricldp', 'randomize', 'survey.toml', 'people.csv', '-o', 'out.parquet',"
        " '--force'];"
        "from metricldp.__main__ import main; main()"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "metricldp: cannot write out.parquet: File too large\n"
    assert (tmp_path / "out.parquet").read_bytes() == b"old"
    assert names(tmp_path) == ["out.parquet", "people.csv", "survey.toml"]


def test_everything_is_flushed_before_the_name_is_taken(kind, monkeypatch):
    path, save = kind
    synced = []
    fsync = os.fsync

    def note(descriptor):
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(("folder" if folder else "file", path.read_bytes() == b"old"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    save(path)
    assert synced == [("file", True), ("folder", False)]
    assert names(path.parent) == [path.name]


class Stopped(BaseException):
    """Neither an error of the package nor of the system."""


@pytest.mark.parametrize("wrong", [Stopped, KeyboardInterrupt, ValueError])
def test_whatever_is_raised_nothing_stays(wrong, tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(wrong), replacing(tmp_path / "a", QueryError) as file:
        file.write(b"new")
        raise wrong
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_leftovers_of_the_dead_are_removed_and_the_living_are_not_robbed(tmp_path):
    path = tmp_path / ("name" * 60)  # so long that nothing can be added to it
    with replacing(path, QueryError) as first:
        first.write(b"first")
        (living,) = tmp_path.iterdir()
        dead = living.with_name(living.name[:-4] + "dead")
        dead.write_bytes(b"half")
        other = tmp_path / ".metricldp-0123456789abcdef-0123456789abcdef"
        other.write_bytes(b"of another name")
        with replacing(path, QueryError) as second:
            second.write(b"second")
            assert living.exists()
            assert not dead.exists()
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    other.unlink()
    assert names(tmp_path) == [path.name]


def test_a_file_taken_for_a_leftover_before_its_lock_is_made_again(tmp_path, monkeypatch):
    flock, taken = writing.fcntl.flock, []

    def rob(file, operation):
        if not taken:
            taken.append(Path(file.name))
            taken[0].unlink()
        flock(file, operation)

    monkeypatch.setattr(writing.fcntl, "flock", rob)
    with replacing(tmp_path / "a", QueryError) as file:
        file.write(b"new")
    assert taken
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_of_two_writers_the_last_wins_and_each_is_whole(tmp_path):
    path, versions = tmp_path / "a", [bytes([k]) * 300_000 for k in range(4)]
    path.write_bytes(versions[0])
    wrong = []

    def write(version):
        for _ in range(30):
            with replacing(path, QueryError) as file:
                for start in range(0, len(version), 50_000):
                    file.write(version[start : start + 50_000])

    def read():
        while any(thread.is_alive() for thread in writers):
            if path.read_bytes() not in versions:
                wrong.append("torn")

    writers = [threading.Thread(target=write, args=(version,)) for version in versions]
    for thread in writers:
        thread.start()
    read()
    for thread in writers:
        thread.join()
    assert not wrong
    assert path.read_bytes() in versions
    assert names(tmp_path) == ["a"]


def test_rights_and_links_stay_as_they_are(tmp_path):
    (tmp_path / "folder").mkdir()
    secret = tmp_path / "folder" / "survey.toml"
    secret.write_bytes(b"old")
    secret.chmod(0o600)
    (tmp_path / "link.toml").symlink_to(secret)
    SURVEY.save(tmp_path / "link.toml", overwrite=True)
    assert (tmp_path / "link.toml").is_symlink()
    assert Survey.load(secret) == SURVEY
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    mask = os.umask(0o027)
    try:
        SURVEY.save(tmp_path / "new.toml")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new.toml").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("name", "needle"),
    [
        ("folder", "it is a directory"),
        ("none/a.toml", "there is no directory"),
        ("device", "it is a device; name a file"),
        ("s.yaml", "s.yaml: a survey file ends in .toml or .json"),
        ("s", "a survey file ends in .toml or .json"),
    ],
)
def test_what_no_survey_can_be_written_to(name, needle, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "device")
    with pytest.raises(InvalidSpecError, match=needle):
        SURVEY.save(tmp_path / name)
    assert names(tmp_path) == ["device", "folder"]


def test_a_survey_replaces_no_file_unless_told(tmp_path):
    path = tmp_path / "survey.toml"
    SURVEY.save(path)
    before = path.read_bytes()
    other = Survey.design({"age": Integer(0, 9, epsilon=2, per=1)})
    for thing in (other, SurveySpec(other.attributes)):
        with pytest.raises(InvalidSpecError, match="exists already; pass overwrite=True"):
            thing.save(path)
        assert path.read_bytes() == before
        thing.save(path, overwrite=True)
        assert path.read_bytes() != before
        path.write_bytes(before)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "x/" * 3000, "\udcff\0"])
def test_names_that_the_system_cannot_have(name, tmp_path):
    calls = [lambda path, save=save: save(path) for save in KINDS.values()]
    calls += [Survey.load, Accountant.load, SURVEY.tally, lambda path: SURVEY.tally(f"{path}*")]
    for call, ending in zip(calls, [*KINDS, ".toml", ".json", ".parquet", ".pq"], strict=True):
        with pytest.raises((InvalidSpecError, InvalidReportError, QueryError)) as told:
            call(f"{tmp_path}/{name}{Path(ending).suffix or ending}")
        assert "\n" not in str(told.value)


def test_where_there_are_no_locks_writing_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "fcntl", None)
    for _ in range(2):
        SURVEY.save(tmp_path / "a.toml", overwrite=True)
    assert Survey.load(tmp_path / "a.toml") == SURVEY
    assert names(tmp_path) == ["a.toml"]


@pytest.mark.parametrize(
    ("save", "endings"),
    [
        (lambda path: ledger().save(path), [".json"]),
        (lambda path: tally().save(path), [".parquet", ".pq"]),
        (lambda path: tally(keep=[("age",)]).save(path), [".totals"]),
        (SURVEY.save, [".toml", ".json"]),
    ],
)
def test_an_ending_means_what_it_says(save, endings, tmp_path):
    for ending in (".csv", ".txt", ".yaml", "", *{".json", ".toml", ".parquet"} - {*endings}):
        with pytest.raises((InvalidSpecError, InvalidReportError)) as told:
            save(tmp_path / f"a{ending}")
        assert f"file ends in {' or '.join(endings)}" in str(told.value)
    assert not names(tmp_path)
    for ending in endings:
        save(tmp_path / f"a{ending}")
        save(tmp_path / f"b{ending.upper()}")
        assert ending == ".json" or (tmp_path / f"b{ending.upper()}").read_bytes()[:1] != b"{"


def test_what_is_read_is_not_replaced(tmp_path):
    (tmp_path / "survey").write_bytes(b"")
    (tmp_path / "symbolic").symlink_to("survey")
    (tmp_path / "hard").hardlink_to(tmp_path / "survey")
    for name in ("survey", "./survey", "symbolic", "hard"):
        with pytest.raises(QueryError, match=r"would replace .*survey; name another file"):
            check_apart(tmp_path / name, [tmp_path / "survey", tmp_path / "none"], QueryError)
    check_apart(tmp_path / "new", [tmp_path / "survey"], QueryError)


# Killed at any moment ----------------------------------------------------------------------------

_KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from metricldp import Accountant, Categorical, Integer, Survey

kind, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
path, chance = folder / kind, random.Random(7)
survey = Survey.design(
    {"age": Integer(0, 99, epsilon=1, per=1), "told": Categorical(["no", "yes"], epsilon=1)}
)

def made(n):
    if kind.startswith("survey"):
        names = [f"answer {k}" for k in range(40 * n)]
        answer = Categorical(names, epsilon=1, mechanism="randomized-response")
        return Survey.design({"answer": answer})
    if kind.startswith("ledger"):
        ledger = Accountant()
        for k in range(4 * n):
            ledger.add(survey, f"collection {k}")
        return ledger
    people = {"age": np.arange(20_000 * n) % 100, "told": ["no"] * (20_000 * n)}
    keep = {"keep": [("age", "told")]} if kind.endswith("totals") else {}
    return survey.tally(survey.randomize(people), **keep)

both = [made(1), made(2)]
replace = {"overwrite": True} if kind.startswith("survey") else {}
whole = []
for thing in both:
    thing.save(path, **replace)
    whole.append(path.read_bytes())
left = torn = 0
seen = set()
for turn in range(kills):
    child = os.fork()
    if not child:
        for k in range(10**9):
            both[k % 2].save(path, **replace)
    time.sleep(chance.uniform(0, 0.006))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = path.read_bytes()
    torn += found not in whole
    seen.add(whole.index(found) if found in whole else -1)
    left += len(os.listdir(folder)) - 1
    both[turn % 2].save(path, **replace)
    assert os.listdir(folder) == [kind], os.listdir(folder)
print(torn, left, len(seen))
"""


def killed(kind, folder, kills):
    words = [sys.executable, "-W", "ignore", "-c", _KILLER, kind, str(folder), str(kills)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))


KILLED = ["survey.toml", "survey.json", "ledger.json", "tally.parquet", "tally.totals"]


@pytest.mark.parametrize("kind", ["ledger.json", "tally.parquet"])
def test_a_killed_writer_leaves_a_whole_file(kind, tmp_path):
    torn, *_ = killed(kind, tmp_path, 20)
    assert not torn


@pytest.mark.slow
@pytest.mark.parametrize("kind", KILLED)
def test_a_thousand_killed_writers(kind, tmp_path):
    """Some must have been killed in the middle of writing, or the test shows nothing."""
    torn, left, seen = killed(kind, tmp_path, 1000)
    print(
        f"\n{kind}: 1,000 kills, {torn} torn, {left} left behind and all removed by the next save"
    )
    assert not torn
    assert left > 100
    assert seen == 2


def test_a_writer_that_is_killed_while_another_writes(tmp_path):
    """Two processes, one name: nothing of the dead one stays after the living one's next save."""
    script = (
        "import sys; from metricldp.basics.writing import replacing;"
        "open_file = replacing(sys.argv[1], ValueError); file = open_file.__enter__();"
        "file.write(b'half'); file.flush(); print('here', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "a")]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"here\n"
    with replacing(tmp_path / "a", QueryError) as file:
        file.write(b"whole")
    assert len(names(tmp_path)) == 2
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with replacing(tmp_path / "a", QueryError) as file:
        file.write(b"whole again")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"whole again"
