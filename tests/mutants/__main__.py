"""Change the program a little, and see whether a test notices: `make mutants`.

All tests of modules.toml are collected once. Then each change gets a process of its own, forked
when everything is loaded: it puts the changed function in place, and runs the tests that come by
the changed lines, until one fails. A change that runs at import gets a process that has loaded the
libraries only, and so does every change with --strict. A change that no test notices is a gap in
the tests, or needs a reason in explained.toml.

    python tests/mutants                      all modules of modules.toml
    python tests/mutants coins.draws exact    some of them
    python tests/mutants --again              only what no test noticed the last time
    python tests/mutants --since COMMIT       only functions that changed since then

With --since, what stands as it stood is taken as it was then: noticed, unless it is explained.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from changes import Change, changes, read

from loading import ROOT, SOURCE, Changed, Watch, file_of, functions_of, swap

HERE = Path(__file__).parent
MEMORY = ROOT / ".mutants"
"""What runs remember: which tests come by which lines, and what became of each change."""
PYTEST = (
    *("-m", "not slow", "--assert=plain", "-o", "addopts="),
    *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:terminal"),
)
PATIENCE = 3.0, 10.0
"""A test may take so many seconds of a processor, and so many times as long as without a change."""
STUCK = 15.0
"""Seconds in which a process says and does nothing if it hangs."""
ROOM = 4 << 30
"""Bytes that a change may take more than the program without it."""


class Steady:
    """Property tests try the same cases in every run, and do not look for the smallest."""

    def pytest_collection(self, session):
        from hypothesis import Phase, settings

        settings.register_profile(
            "mutants",
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutants")


class Runner:
    """Runs chosen tests one after the other, tells the first that fails, and ends the process."""

    def __init__(self, chosen: list[str], tests: dict[str, dict], tell: int) -> None:
        self.chosen, self.tests, self.tell = chosen, tests, tell

    def pytest_runtestloop(self, session):
        items = {item.nodeid: item for item in session.items}
        here = [items[test] for test in self.chosen if test in items]
        if len(here) < len(self.chosen):
            self.say("other tests")
        for item, following in zip(here, [*here[1:], None], strict=True):
            os.write(self.tell, f"begins {item.nodeid}\n".encode())
            own = self.tests[item.nodeid]["time"]
            signal.setitimer(signal.ITIMER_PROF, PATIENCE[0] + PATIENCE[1] * own)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        self.say("")

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.say(report.nodeid)

    def say(self, by: str) -> None:
        os.write(self.tell, f"noticed {by}\n".encode() if by else b"survived\n")
        os._exit(0)


class Swapping:
    """Collects all tests, and then tries one change after the other."""

    def __init__(self, work: Callable[[pytest.Session], None]) -> None:
        self.work = work

    def pytest_runtestloop(self, session):
        self.work(session)
        return True


@dataclass(frozen=True)
class Outcome:
    """What became of a change, and the first test that noticed."""

    noticed: bool
    by: str
    seconds: float


@dataclass(frozen=True)
class Asked:
    """What the command line says, and what is known of the tests."""

    table: dict[str, list[str]]
    tests: dict[str, dict]
    explained: dict[str, dict[str, str]]
    again: bool
    since: str
    strict: bool
    seconds: float
    folder: str


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("modules", nargs="*", help="parts of names of modules")
    arguments.add_argument("--again", action="store_true", help="only what was not noticed before")
    arguments.add_argument(
        "--since", default="", metavar="COMMIT", help="only functions that changed since then"
    )
    arguments.add_argument("--strict", action="store_true", help="load the package for each change")
    arguments.add_argument(
        "--seconds", type=float, default=3, help="of tests that a change has to survive"
    )
    arguments.add_argument("--list", action="store_true", help="print the changes, run nothing")
    said = arguments.parse_args()
    os.chdir(ROOT)
    MEMORY.mkdir(exist_ok=True)
    everything = _modules()
    table = {
        module: files
        for module, files in everything.items()
        if not said.modules or any(part in module for part in said.modules)
    }
    if said.list:
        for module in table:
            for change in changes(read(file_of(module))):
                print(f"{module}:{change.line} {change.name}")
        return
    files = sorted({file for files in table.values() for file in files})
    tests = {}
    for file in files:
        tests |= _watched(file, list(everything))
    folder = tempfile.mkdtemp()
    asked = Asked(
        *(table, tests, _explained(), said.again, said.since),
        *(said.strict, said.seconds, folder),
    )
    # What runs at import first: later the package is loaded, and cannot be loaded again.
    at_import = {module: _run(module, asked) for module in table}
    rows: list[tuple] = []

    def work(session: pytest.Session) -> None:
        _leave_out(asked, session)
        rows.extend(_finish(module, at_import[module], asked, session) for module in table)

    pytest.main([*PYTEST, f"--basetemp={folder}/t", *files], plugins=[Swapping(work), Steady()])
    shutil.rmtree(folder, ignore_errors=True)
    print(_table(rows))
    if any(row[-1] for row in rows):
        sys.exit("there are changes that no test notices and nothing explains, or old explanations")


def _run(module: str, asked: Asked, session: pytest.Session | None = None) -> dict[str, dict]:
    """Try the changes of a module: in a session those inside functions, without one the others."""
    memory = MEMORY / f"{module}.json"
    before = json.loads(memory.read_text()) if memory.exists() else {}
    functions = functions_of(module) if session else {}
    same = _same(module, asked.since) if asked.since else set()
    became: dict[str, dict] = {}
    for at, change in enumerate(changes(read(file_of(module)))):
        strict = asked.strict or not change.place.lines or module.endswith("_compiled")
        if strict == bool(session):
            continue
        if asked.again and before.get(change.name, {}).get("noticed"):
            became[change.name] = before[change.name]
            continue
        if change.place.where in same:
            noticed = change.name not in asked.explained.get(module, {})
            became[change.name] = asdict(Outcome(noticed, "as before", 0.0))
            continue
        chosen = _tests_for(module, change, asked)
        outcome = _try(module, at, chosen, asked, session, functions)
        became[change.name] = asdict(outcome)
        if not outcome.noticed and change.name not in asked.explained.get(module, {}):
            print(f"{module}:{change.line} {change.name}  [{len(chosen)} tests]", flush=True)
        memory.write_text(json.dumps(before | became, indent=1))
    return became


def _same(module: str, commit: str) -> set[str]:
    """The functions that have the changes that they had at a commit, and no others."""
    path = file_of(module).relative_to(ROOT).as_posix()
    shown = ["git", "show", f"{commit}:{path}"]
    said = subprocess.run(shown, check=False, capture_output=True, text=True)
    if said.returncode:
        return set()  # there was no such file
    then, now = _by_function(ast.parse(said.stdout)), _by_function(read(file_of(module)))
    return {where for where, names in now.items() if then.get(where) == names}


def _by_function(tree: ast.Module) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for change in changes(tree):
        found[change.place.where].append(change.name)
    return found


def _finish(module: str, at_import: dict[str, dict], asked: Asked, session: pytest.Session):
    """The rest of a module's changes, and its line in the table."""
    became = at_import | _run(module, asked, session)
    (MEMORY / f"{module}.json").write_text(json.dumps(became, indent=1))
    explained = asked.explained.get(module, {})
    survived = {name for name, what in became.items() if not what["noticed"]}
    stale = [name for name in explained if name not in survived]
    for name in stale:
        by = became[name]["by"] if name in became else "nobody, it is gone"
        print(f"{module}: explained, but noticed by {by}: {name}")
    reasons, left = len(survived & set(explained)), len(survived - set(explained))
    seconds = sum(what["seconds"] for what in became.values())
    print(f"{module}: {len(survived)} of {len(became)} survived, {left} open; {seconds:.0f} s")
    sys.stdout.flush()
    return module, len(became), len(became) - len(survived), reasons, left + len(stale)


def _tests_for(module: str, change: Change, asked: Asked) -> list[str]:
    """Those that come by: one of each function first, the quick ones first."""
    tests = {t: seen for t, seen in asked.tests.items() if t.split("::")[0] in asked.table[module]}
    line = next(iter(change.place.lines), None)
    if module.endswith("_compiled"):  # nobody sees the lines of machine code
        by = list(tests)
    elif line:
        by = [test for test, seen in tests.items() if line in seen["lines"].get(module, ())]
    else:
        by = []
    if not by:  # it runs at import, or where nobody sees it, in a forked process
        by = [test for test, seen in tests.items() if module in seen["lines"]]
    turns: dict[str, int] = defaultdict(int)
    ranked = []
    for test in sorted(by, key=lambda test: tests[test]["time"]):
        function = test.split("[")[0]
        ranked.append((turns[function], tests[test]["time"], test))
        turns[function] += 1
    chosen, spent = [], 0.0
    for turn, seconds, test in sorted(ranked):
        if turn == 0 or spent + seconds <= asked.seconds:
            chosen.append(test)
            spent += seconds if turn else 0.0
    return chosen


def _leave_out(asked: Asked, session: pytest.Session) -> None:
    """Tests that fail or hang in a forked process without a change: some libraries' threads do.

    With one case of a function those that come after it are left out, too, as a hang takes time.
    """
    left = list(asked.tests)
    while left:
        outcome = _try("", -1, left, asked, session, {})
        if not outcome.noticed:
            return
        left = left[left.index(outcome.by) :]
        function = outcome.by.split("[")[0]
        out = [test for test in left if test.split("[")[0] == function]
        print(f"left out, {len(out)} that do not run in a forked process: {function}", flush=True)
        left = [test for test in left if test not in out]
        for test in out:
            del asked.tests[test]


def _try(module, at, chosen, asked, session, functions) -> Outcome:
    """Run tests against one change, in a process of its own."""
    if not chosen:
        return Outcome(False, "no test comes by", 0.0)
    start = time.monotonic()
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hear)
        _in_child(module, at, Runner(chosen, asked.tests, tell), asked, session, functions)
    os.close(tell)
    said = _listen(hear, child)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(hear)
    what, _, by = said.partition(" ")  # the last word; who only begins breaks off or hangs
    return Outcome(what != "survived", by or what, round(time.monotonic() - start, 2))


def _listen(hear: int, child: int) -> str:
    """The last thing that a process says before it ends, or hangs without working."""
    said, worked = b"", -1
    while not said.endswith(b"survived\n") and b"\nnoticed" not in b"\n" + said:
        if select.select([hear], [], [], STUCK)[0]:
            more = os.read(hear, 1 << 16)
            if not more:
                break
            said, worked = said + more, -1
        elif worked == (worked := _worked(child)):
            break
    return (said.decode().splitlines() or ["breaks off"])[-1]


def _worked(group: int) -> int:
    """The processor's time that a group of processes has taken."""
    found = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            said = file.read_text().rpartition(")")[2].split()
            found += sum(map(int, said[11:15])) if int(said[2]) == group else 0
    return found


def _in_child(module, at, runner, asked, session, functions) -> None:
    """The change, the tests, and the end of the process whatever comes."""
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
        signal.setitimer(signal.ITIMER_PROF, 60)
        if not module:
            session.config.pluginmanager.register(runner)
            runner.pytest_runtestloop(session)
        tree = read(file_of(module))
        change = changes(tree)[at]
        change.make()
        loader = Changed(module, tree, change.place.where if change.place.lines else None)
        if session is not None:
            swap(loader.code, functions)
            session.config.pluginmanager.register(runner)
            runner.pytest_runtestloop(session)
        sys.meta_path.insert(0, loader)
        files = dict.fromkeys(test.split("::")[0] for test in runner.chosen)
        pytest.main([*PYTEST, f"--basetemp={asked.folder}/t", *files], plugins=[runner, Steady()])
        runner.say("pytest, which did not begin")
    finally:
        os._exit(70)


def _watched(file: str, watched: list[str]) -> dict[str, dict]:
    """The tests of a file, run once without a change; the libraries that they load are loaded."""
    digest = hashlib.sha256(repr((file, watched)).encode())
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    for path in sorted([*SOURCE.rglob("*.py"), *helpers]):
        if HERE not in path.parents:
            digest.update(path.read_bytes())
    digest.update((ROOT / file).read_bytes())
    memory = MEMORY / f"tests-{digest.hexdigest()[:16]}.json"
    if not memory.exists():
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                watch = Watch(watched)
                if pytest.main([*PYTEST, file], plugins=[watch, Steady()]) > 1:
                    os._exit(1)
                loaded = [name for name in sys.modules if _is_library(name)]
                memory.write_text(json.dumps({"tests": watch.tests, "libraries": loaded}))
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{file} does not run")
        print(f"{file} without a change: {time.monotonic() - start:.0f} s", flush=True)
    found = json.loads(memory.read_text())
    for name in found["libraries"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    bad = [test for test, seen in found["tests"].items() if not seen["passed"]]
    if bad:
        print("left out, as they fail or are skipped without a change:", *bad, sep="\n  ")
    return {test: seen for test, seen in found["tests"].items() if seen["passed"]}


def _is_library(name: str) -> bool:
    file = getattr(sys.modules[name], "__file__", None) or ""
    return str(ROOT / "tests") not in file and not name.startswith(("metricldp", "__m"))


def _modules() -> dict[str, list[str]]:
    """The tests of each module: its own, or those of its room, which is all files of a folder."""
    found: dict[str, list[str]] = {}
    for name, tests in tomllib.loads((HERE / "modules.toml").read_text()).items():
        inside = sorted(file_of(name).with_suffix("").glob("*.py"))
        found |= {f"{name}.{file.stem}": tests for file in inside if changes(read(file))}
        if not inside:
            found[name] = tests
    return found


def _explained() -> dict[str, dict[str, str]]:
    """The reason for each change that no test can notice, by module and name."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for entry in tomllib.loads((HERE / "explained.toml").read_text()).get("explained", []):
        for name in entry["changes"]:
            found[entry["module"]][name] = entry["why"]
    return found


def _table(rows) -> str:
    together = ("together", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    lines = [f"{'module':26}{'changes':>9}{'noticed':>9}{'explained':>11}{'open':>6}"]
    for module, count, noticed, explained, left in [*rows, together]:
        lines.append(f"{module:26}{count:9,}{noticed:9,}{explained:11,}{left:6,}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
