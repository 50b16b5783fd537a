"""Prepare the pages of the site in build/docs, before the site generator runs.

Pages are the Markdown files of docs/, and CONTRIBUTING.md, SECURITY.md and CHANGELOG.md. Templates
such as `{{ result("sizes", "rows", "report", "bytes") }}` are filled, formulas become MathML, and
links that leave docs/ become text. `--watch` prepares changed pages until it is interrupted.
"""

import argparse
import ast
import inspect
import json
import re
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

import typer

import metricldp
from metricldp.cli import main as cli

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RESULTS = DOCS / "results"
OUTPUT = ROOT / "build" / "docs"
PROJECT_FILES = {
    f"{name.lower()}.md": f"{name}.md" for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG")
}
TEMPLATE = re.compile(r"\{\{ (?P<call>\w+\(.*?\)) \}\}")
FORMULA = re.compile(
    r"^\$\$\n(?P<block>.*?)\n\$\$$|\$`(?P<line>[^`]+)`\$", re.MULTILINE | re.DOTALL
)
PRIME = re.compile(r"<msup>(<mi>\w</mi>)<mi>&#x02032;</mi></msup>")
"""A prime, which is raised already: as a superscript it would be too small to read."""
INIT_VAR = re.compile(r"^InitVar\[(.*)\]$")
PARAMETERS = re.compile(r"^Parameters:\n((?:    .*\n?)+)", re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s:]+)\)")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
SHARED = 3
"""Arguments of so many commands are described once, before all commands."""
WIDEST = 88
"""Characters of a signature on one line."""

# Results -----------------------------------------------------------------------------------------


def result(name: str, *keys: str | int) -> str:
    """A value of docs/results/NAME.json, found by its keys; a text finds the row that has it."""
    value = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    for key in keys:
        if isinstance(value, list) and isinstance(key, str):
            [value] = [row for row in value if key in row.values()]
        else:
            value = value[key]
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, str | int):
        return f"{value:,}" if isinstance(value, int) else value
    raise TypeError(f"{name} {keys} is {type(value).__name__}, not a number or a text")


# Python reference --------------------------------------------------------------------------------


def api(name: str, *members: str) -> str:
    """The reference of a public name and its members; "NAME(...)" adds the signature."""
    name, _, with_signature = name.partition("(")
    value = getattr(metricldp, name)
    function = value.__init__ if isinstance(value, type) else value
    code = signature(name, function) if with_signature else ""
    parts = [_entry("##", name, code, inspect.getdoc(value))]
    for member in members:
        parts.append(_entry("###", f"{name}.{member}", *_member(value, member)))
    return "\n\n".join(parts)


def _entry(level: str, name: str, code: str, text: str | None) -> str:
    """A heading, a signature and a docstring."""
    if not text:
        raise ValueError(f"{name} has no docstring")
    shown = f"```python\n{code}\n```\n\n" if code else ""
    return f"{level} `{name}` {{ #{name} }}\n\n{shown}{markdown(text)}"


def _member(owner: type, name: str) -> tuple[str, str | None]:
    """The signature or the type of a member, and its docstring."""
    value = inspect.getattr_static(owner, name, None)
    function = getattr(value, "__func__", value)
    if inspect.isfunction(function):
        before = f"{owner.__name__}." if function is not value else ""
        return signature(f"{before}{name}", function), inspect.getdoc(function)
    getter = getattr(value, "fget", None) or getattr(value, "func", None)
    if getter is None:
        return _field(owner, name)
    return f"{name}: {inspect.signature(getter).return_annotation}", inspect.getdoc(getter)


def _field(owner: type, name: str) -> tuple[str, str | None]:
    """The type of a field and its docstring, which only the source of the class has."""
    for one in owner.__mro__[:-1]:
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(definition, ast.ClassDef)
        for node, after in pairwise([*definition.body, ast.Pass()]):
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                text = inspect.cleandoc(str(after.value.value)) if documented else None
                return f"{name}: {ast.unparse(node.annotation)}", text
    raise ValueError(f"{owner.__name__} has no member {name}")


def signature(name: str, function: Callable[..., Any]) -> str:
    """A call with its arguments, on one line or with a line for each argument."""
    stated = inspect.signature(function)
    words, keyword_only = [], False
    for one in list(stated.parameters.values()):
        if one.name in ("self", "cls") or one.name.startswith("_"):
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            words.append("*")
        keyword_only |= one.kind is one.VAR_POSITIONAL
        words.append(_argument(one))
    gives = stated.return_annotation
    arrow = "" if gives in (stated.empty, None, "None") else f" -> {gives}"
    line = f"{name}({', '.join(words)}){arrow}"
    if len(line) <= WIDEST:
        return line
    lines = "".join(f"    {word},\n" for word in words)
    return f"{name}(\n{lines}){arrow}"


def _argument(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    word = stars + one.name
    if one.annotation is not one.empty:
        annotation = INIT_VAR.sub(r"\1", str(one.annotation))
        word += f": {annotation}"
    if one.default is one.empty:
        return word
    plain = isinstance(one.default, str | int | float | tuple | None)
    default = json.dumps(one.default) if isinstance(one.default, str) else repr(one.default)
    return f"{word} = {default}" if plain else f"{word} = ..."


def markdown(docstring: str) -> str:
    """A docstring with its examples in fences and its parameters as a list."""
    docstring = PARAMETERS.sub(_parameters, docstring)
    lines, inside = [], False
    for line in (*docstring.splitlines(), ""):
        if line.startswith(">>> ") and not inside:
            lines.append("```pycon")
            inside = True
        if inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join(lines).rstrip()


def _parameters(section: re.Match[str]) -> str:
    """Lines such as "low, high: text" as items of a list."""

    def item(match: re.Match[str]) -> str:
        return f"- `{match[1].replace(', ', '`, `')}`: "

    return re.sub(r"^(\w+(?:, \w+)*): ", item, textwrap.dedent(section[1]), flags=re.MULTILINE)


# Command line ------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its arguments and options; those of several commands come once, first."""
    every = list(_commands(typer.main.get_command(cli.app)))
    uses = Counter(row for _, _, command in every for row in _rows(command)).most_common()
    meanings = {name: text for (name, text), number in reversed(uses) if number >= SHARED}
    shared = sorted(meanings.items())
    parts = ["## Arguments and options of several commands", _table(shared)]
    heading = ""
    for panel, name, command in every:
        if panel != heading:
            parts.append(f"## {panel}")
            heading = panel
        usage = " ".join(("metricldp", name, *_usage(command)))
        anchor = name.replace(" ", "-")
        parts += [f"### `{name}` {{ #{anchor} }}", command.help, f"```text\n{usage}\n```"]
        rows = _rows(command)
        parts += [_table(own)] if (own := [row for row in rows if row not in shared]) else []
        if also := [f"`{row[0]}`" for row in rows if row in shared and row[0].startswith("-")]:
            parts.append(f"Also {', '.join(also)}.")
    return "\n\n".join(parts)


def _commands(group: Any, before: str = "", panel: str = "") -> Iterator[tuple[str, str, Any]]:
    """The heading, the name and the object of every command."""
    for name, command in group.commands.items():
        words = f"{before}{name}"
        title = panel or command.rich_help_panel or name
        if hasattr(command, "commands"):
            yield from _commands(command, f"{words} ", panel or words.capitalize())
        else:
            yield title, words, command


def _usage(command: Any) -> list[str]:
    """Required arguments, optional ones in brackets, and [OPTIONS], in the order of a command."""
    words = []
    for one in command.params:
        if one.param_type_name == "argument" and not one.hidden:
            name = (one.metavar or one.name).upper()
            words.append(name if one.required else f"[{name}]")
    return [*words, "[OPTIONS]"]


def _rows(command: Any) -> list[tuple[str, str]]:
    """The arguments and options of a command, each with its help and its default."""
    rows = []
    for one in command.params:
        if one.hidden:
            continue
        name = (one.metavar or one.name).upper()
        if one.param_type_name == "option":
            value = "" if one.is_flag else f" {one.metavar or 'VALUE'}"
            name = ", ".join((*one.opts, *one.secondary_opts)) + value
        text = one.help
        if one.param_type_name == "option" and one.default not in (None, False, ""):
            text += f"; default {one.default}"
        rows.append((name, text))
    return rows


def _table(rows: list[tuple[str, str]]) -> str:
    lines = [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in rows]
    return "\n".join(["| argument | meaning |", "| --- | --- |", *lines])


# Pages -------------------------------------------------------------------------------------------

TEMPLATES = {"result": result, "api": api, "commands": commands}


def pages() -> dict[str, Path]:
    """The source of every page, by the name of the page on the site."""
    found = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    return found | {page: ROOT / name for page, name in PROJECT_FILES.items()}


def prepared(page: str) -> str:
    """The text of a page as the site generator reads it."""
    source = pages()[page]
    folder = PurePosixPath(source.relative_to(ROOT).as_posix()).parent
    text = TEMPLATE.sub(fill, source.read_text("utf-8"))
    return LINK.sub(lambda link: within_the_site(link, folder), text)


def fill(template: re.Match[str]) -> str:
    call = ast.parse(template["call"], mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    return TEMPLATES[call.func.id](*map(ast.literal_eval, call.args))


def within_the_site(link: re.Match[str], folder: PurePosixPath) -> str:
    """A link to a page as it is, and a link to another file of the project as its name."""
    target = PurePosixPath(normpath(folder / link["path"]))
    anchor = link["anchor"] or ""
    if target.parts[0] == "docs":
        above = "" if folder.parts else "docs/"
        return f"[{link['text']}]({link['path'].removeprefix(above)}{anchor})"
    if str(target) in PROJECT_FILES.values():
        up = "../" * (len(folder.parts) - 1)
        return f"[{link['text']}]({up}{str(target).lower()}{anchor})"
    words = link["text"].strip("`")
    return f"`{target}`" if words == str(target) else f"{link['text']} (`{target}`)"


def with_formulas(text: str) -> str:
    """Formulas as MathML, which browsers show without a script: $`x`$, or lines between $$."""
    from latex2mathml.converter import convert

    def written(formula: re.Match[str]) -> str:
        if formula["line"]:
            return PRIME.sub(r"\1<mo>&#x02032;</mo>", convert(formula["line"]))
        block = PRIME.sub(r"\1<mo>&#x02032;</mo>", convert(formula["block"], display="block"))
        return f"<div>{block}</div>"

    return FORMULA.sub(written, text)


def navigation() -> list[str]:
    """The pages in the menu of the site, in order."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    return list(_pages_below(settings["project"]["nav"]))


def _pages_below(menu: Any) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
    else:
        for below in menu.values() if isinstance(menu, dict) else menu:
            yield from _pages_below(below)


def mistakes() -> list[str]:
    """What the site generator does not check: the menu, and whether pictures exist."""
    menu, names = Counter(navigation()), set(pages())
    found = [
        f"zensical.toml has {page}, which does not exist" for page in menu if page not in names
    ]
    found += [f"zensical.toml needs {page} once in nav" for page in names if menu[page] != 1]
    for page, source in pages().items():
        for picture in PICTURE.findall(source.read_text("utf-8")):
            if not (source.parent / picture).exists():
                found.append(f"{page} shows {picture}, which does not exist")
    return sorted(found)


def build() -> None:
    """Write all pages and pictures into the folder for the site generator."""
    contents = {OUTPUT / page: with_formulas(prepared(page)).encode() for page in pages()}
    for path in DOCS.rglob("*"):
        if path.suffix in (".png", ".svg", ".css", ".js"):
            contents[OUTPUT / path.relative_to(DOCS)] = path.read_bytes()
    for path in OUTPUT.rglob("*"):
        if path.is_file() and path not in contents:
            path.unlink()
    for path, content in contents.items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--watch", action="store_true", help="prepare changed pages again")
    options = parser.parse_args()
    if found := mistakes():
        raise SystemExit("\n".join(found))
    build()
    while options.watch:
        time.sleep(1)
        build()


if __name__ == "__main__":
    main()
