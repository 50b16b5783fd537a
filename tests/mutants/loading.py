"""The package with something in it that is not in its files: marks at every line, or a change."""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import importlib
import importlib.machinery
import importlib.util
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from changes import read

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "metricldp"
HITS = "__hits__"
"""The lines that ran, by module, while tests run without a change."""


def file_of(module: str) -> Path:
    return SOURCE / f"{module.replace('.', '/')}.py"


class Changed(importlib.machinery.SourceFileLoader):
    """Loads one module of the package with a change in it."""

    def __init__(self, module: str, tree: ast.Module, where: str | None = "") -> None:
        path = str(file_of(module))
        super().__init__(f"metricldp.{module}", path)
        self.code, self.where = compile(tree, path, "exec"), where

    def get_code(self, fullname):
        return self.code

    def exec_module(self, module):
        """Machine code that was kept is of the module without the change.

        A change inside a loop concerns that loop; any other may concern all of them.
        """
        super().exec_module(module)
        kept = [thing for thing in vars(module).values() if hasattr(thing, "enable_caching")]
        for loop in kept if self.where != "" else ():
            if self.where == loop.__name__ or self.where not in {one.__name__ for one in kept}:
                loop._cache = importlib.import_module("numba.core.caching").NullCache()

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)


class Watch:
    """Which tests come by which lines, and how long they take."""

    def __init__(self, modules: list[str]) -> None:
        self.hits: dict[str, set[int]] = {module: set() for module in modules}
        self.tests: dict[str, dict] = {}
        setattr(builtins, HITS, self.hits)
        for module in modules:
            tree = read(file_of(module))
            _mark(tree, module)
            sys.meta_path.insert(0, Changed(module, tree))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        for lines in self.hits.values():
            lines.clear()
        start = time.process_time()
        try:
            return (yield)
        finally:
            self.tests.setdefault(item.nodeid, {"passed": True}).update(
                time=round(time.process_time() - start, 4),
                lines={module: sorted(lines) for module, lines in self.hits.items() if lines},
            )

    def pytest_runtest_logreport(self, report):
        if not report.passed:  # a test that is skipped or fails by itself notices nothing
            self.tests.setdefault(report.nodeid, {})["passed"] = False


def _mark(tree: ast.Module, module: str) -> None:
    """Let every statement of every function leave its line behind."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or _is_machine_code(function):
            continue
        for node in ast.walk(function):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list) and not isinstance(node, ast.ClassDef):
                    marked = [part for one in block for part in (_mark_of(one, module), one)]
                    setattr(node, field, [part for part in marked if part is not None])


def _mark_of(statement: ast.stmt, module: str) -> ast.stmt | None:
    if isinstance(statement, ast.Nonlocal | ast.Global) or hasattr(statement, "marks"):
        return None
    mark = ast.parse(f"{HITS}[{module!r}].add({statement.lineno})").body[0]
    mark.marks = statement.marks = True
    for node in ast.walk(mark):
        ast.copy_location(node, statement)
    return mark


def _is_machine_code(function: ast.FunctionDef) -> bool:
    return any("njit" in ast.unparse(one) for one in function.decorator_list)


def functions_of(module: str) -> dict[str, list[FunctionType]]:
    """The functions of a module by the names of their code, wherever they are held."""
    found: dict[str, list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == str(file_of(module)):
            found[thing.__code__.co_qualname].append(thing)
    return found


def swap(code: CodeType, functions: dict[str, list[FunctionType]]) -> None:
    """Put changed code into functions that are loaded, and forget what they remember."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            swap(inner, functions)
            for function in functions.get(inner.co_qualname, ()):
                if function.__code__.co_firstlineno == inner.co_firstlineno:
                    function.__code__ = inner
    if code.co_qualname == "<module>":
        for thing in gc.get_objects():
            if isinstance(thing, functools._lru_cache_wrapper):
                thing.cache_clear()
