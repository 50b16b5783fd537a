"""Small changes of a program, each of which some test should notice.

Changed are comparisons, whole numbers, arithmetic, conditions, arguments and statements. Left alone
are texts, annotations, assertions, and what only decides which names are imported.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.MatMult: ast.Mult,
}
OPPOSITES = (
    ("min", "max"),
    ("any", "all"),
    ("floor", "ceil"),
    ("floor_of", "ceil_of"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("bisect_left", "bisect_right"),
)
OPPOSITE = dict(OPPOSITES) | {second: first for first, second in OPPOSITES}
TRIFLES = {"strict", "stacklevel", "maxsize"}
"""Arguments that are not left out: they decide nothing, or only speed."""
SYMMETRIC = {"isinstance", "min", "max", "gcd", "hasattr", "getattr", "cast"}
"""Functions whose arguments are not exchanged."""


SHORTEST = 8
"""A part of a program that is told in a name has so many letters."""


@dataclass(frozen=True)
class Place:
    """A node of a program, and all nodes above it, the module first."""

    node: ast.AST
    above: tuple[ast.AST, ...]
    field: str
    index: int | None
    where: str
    lines: tuple[int, ...]
    """The lines of the statement around it that run with it; none where it runs at import."""

    @property
    def parent(self) -> ast.AST:
        return self.above[-1]

    def put(self, new: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new

    def told(self) -> ast.AST:
        """The smallest part of the program around it that says something."""
        for node in (self.node, *reversed(self.above)):
            if isinstance(node, ast.stmt):
                return node
            if isinstance(node, ast.FormattedValue):
                continue
            if isinstance(node, ast.expr) and len(ast.unparse(node)) >= SHORTEST:
                return node
        return self.node


@dataclass(frozen=True)
class Change:
    """One node in place of another; its name stays the same when lines above come and go."""

    place: Place
    new: ast.AST
    before: str
    after: str
    nth: int

    @property
    def name(self) -> str:
        again = f" (no. {self.nth})" if self.nth > 1 else ""
        return f"{self.place.where}: {self.before} -> {self.after}{again}"

    @property
    def line(self) -> int:
        return self.place.node.lineno

    def make(self) -> None:
        """Change the tree, for good."""
        ast.fix_missing_locations(self.new)
        self.place.put(self.new)


def changes(tree: ast.Module) -> list[Change]:
    """All changes of a module, in its order."""
    found, seen = [], Counter()
    for place in _places(tree):
        old = place.node
        for new in _instead(old, place.parent, place.field):
            ast.copy_location(new, old)
            whole = place.told()
            before = _text(whole)
            place.put(new)
            after = _text(new if whole is old else whole)
            place.put(old)
            key = place.where, before, after
            seen[key] += 1
            found.append(Change(place, new, before, after, seen[key]))
    return found


def read(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _text(node: ast.AST, longest: int = 100) -> str:
    """A statement by its first line, an expression whole."""
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _places(
    node: ast.AST,
    above: tuple[ast.AST, ...] = (),
    where: str = "",
    lines: tuple[int, ...] = (),
    later: bool = False,
) -> Iterator[Place]:
    """Every node that may change."""
    above = (*above, node)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _left_alone(child):
                continue
            if isinstance(child, ast.keyword) and child.arg in TRIFLES:
                continue
            if field == "args" and _is_called(node, "reshape"):  # any negative length is found
                continue
            inner, here, runs_later = where, lines, later
            if isinstance(child, ast.stmt):
                here = _own_lines(child) if later else ()
            if hasattr(child, "lineno"):
                yield Place(child, above, field, index, where or "module", here)
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{where}.{child.name}" if where else child.name
            if isinstance(child, ast.FunctionDef):  # its defaults are made with it, its body later
                yield from _places(child.args, (*above, child), inner, here, later)
                runs_later = True
            if not _is_types(child, node) and not _is_number(child):
                yield from _places(child, above, inner, here, runs_later)


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.arguments):
        return True  # seen with their function
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Global):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _own_lines(node: ast.stmt) -> tuple[int, ...]:
    """The lines of a statement without those of the statements inside it."""
    inner = [child.lineno for child in ast.walk(node) if isinstance(child, ast.stmt)][1:]
    last = min(inner) - 1 if inner else node.end_lineno
    return tuple(range(node.lineno, max(last, node.lineno) + 1))


def _instead(node: ast.AST, parent: ast.AST, field: str) -> Iterator[ast.AST]:
    """What may stand in place of a node."""
    match node:
        case ast.Compare():
            for at, op in enumerate(node.ops):
                for other in COMPARISONS[type(op)]:
                    yield _with(node, ops=[*node.ops[:at], other(), *node.ops[at + 1 :]])
        case ast.BoolOp():
            for at in range(len(node.values)):
                rest = node.values[:at] + node.values[at + 1 :]
                yield _with(node, values=rest) if len(rest) > 1 else deepcopy(rest[0])
        case ast.BinOp():
            if _is_types(node, parent):
                yield from _without_each(_alternatives(node))
            elif _is_number(node):
                yield _with(node, right=ast.Constant(node.right.value + 1))
            elif not _is_listing(node.left) and not _is_listing(node.right):
                yield _with(node, op=ARITHMETIC[type(node.op)]())
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            yield _with(node, operand=ast.Constant(node.operand.value + 1))
            yield _with(node, operand=ast.Constant(node.operand.value - 1))
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield deepcopy(node.operand)
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield ast.Constant(node.value + 1)
            if node.value == 1:
                yield ast.Constant(0)
        case ast.Constant(value=float()):
            yield ast.Constant(2 * node.value or 1.0)
        case ast.Call():
            yield from _other_calls(node)
        case ast.IfExp():
            yield deepcopy(node.body)
            yield deepcopy(node.orelse)
        case ast.AugAssign():
            if not _is_listing(node.value):
                yield _with(node, op=ARITHMETIC[type(node.op)]())
            yield ast.Pass()
        case ast.Expr() | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
    if _is_condition(node, parent, field):
        yield ast.UnaryOp(ast.Not(), deepcopy(node))


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in OPPOSITE:
        yield _with(node, func=ast.Name(OPPOSITE[called.id], ast.Load()))
    if isinstance(called, ast.Attribute) and called.attr in OPPOSITE:
        yield _with(node, func=_with(called, attr=OPPOSITE[called.attr]))
    if isinstance(called, ast.Name) and called.id == "abs":
        yield deepcopy(node.args[0])
    name = ast.unparse(called).rsplit(".", 1)[-1]
    plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
    if plain and len(node.args) > 1 and name not in SYMMETRIC:
        second, first = node.args[:2]
        if _is_simple(first) and _is_simple(second) and ast.dump(first) != ast.dump(second):
            yield _with(node, args=[first, second, *node.args[2:]])
    for at, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in TRIFLES:
            yield _with(node, keywords=node.keywords[:at] + node.keywords[at + 1 :])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    found = deepcopy(node)
    for name, value in fields.items():
        setattr(found, name, deepcopy(value))
    return found


def _is_condition(node: ast.AST, parent: ast.AST, field: str) -> bool:
    """Something that decides, and is no comparison that changes by itself."""
    decides = isinstance(parent, ast.If | ast.While) and field == "test"
    decides |= isinstance(parent, ast.comprehension) and field == "ifs"
    return decides and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp)


def _is_called(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(name)


def _is_types(node: ast.AST, parent: ast.AST) -> bool:
    """What isinstance is asked for; a part of it is seen with the whole."""
    return _is_called(parent, "isinstance") and node is parent.args[1]


def _alternatives(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _without_each(types: list[ast.expr]) -> Iterator[ast.AST]:
    for left_out in types if len(types) > 1 else ():
        rest = [deepcopy(kind) for kind in types if kind is not left_out]
        yield reduce(lambda one, two: ast.BinOp(one, ast.BitOr(), two), rest)


def _is_number(node: ast.AST) -> bool:
    """A number that is written as -1 or 1 << 12."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant)
    if not isinstance(node, ast.BinOp):
        return False
    return all(
        isinstance(part, ast.Constant) and isinstance(part.value, int)
        for part in (node.left, node.right)
    )


def _is_listing(node: ast.AST) -> bool:
    """A list or a text, which are only put together."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    return isinstance(node, ast.List | ast.ListComp | ast.JoinedStr)


def _is_simple(node: ast.AST) -> bool:
    """What could be taken for another argument."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    return isinstance(node, ast.Name | ast.Attribute | ast.BinOp | ast.Subscript)
