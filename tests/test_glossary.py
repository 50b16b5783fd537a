"""The vocabulary of the public interface: standard terms in names, messages, help, page and README.

Each list grows with every part of the package that is rewritten.
"""

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

import metricldp

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "metricldp"
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))
import prepare  # noqa: E402
import words  # noqa: E402

NOT_REWRITTEN = (
    *("survey-file*.md", "formats*.md", "paper*.md", "compare*.md", "peers*.md", "metrics*.md"),
    *("matrix.md", "mechanisms.md", "benchmarks*.md", "guarantees-*.md", "architecture.md"),
)
"""Pages of the specification and of research, which keep their words until they are rewritten."""
GUIDE = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if path.parent != DOCS or not any(path.match(pattern) for pattern in NOT_REWRITTEN)
)
MOST_WORDS = {"glossary.md": 800, "changelog.md": 1_500, "contributing.md": 600}
"""Words of a page, as `python docs/words.py` counts them."""

IDENTIFIERS = (
    *("answer", "answers", "ask", "asked", "blur", "bracket", "cap", "coins", "decode", "decoded"),
    *("encode", "found", "hang", "interval", "kept", "ledger", "liars", "made", "moved", "predict"),
    *("promise", "refused", "said", "settle", "settled", "share", "shares", "suspicion", "told"),
    *("about", "of", "top", "linear", "watched", "tape", "books", "turns", "people"),
)
"""Words that no public name or parameter has."""
PROSE = (
    r"promis\w*|blur\w*|liars?|lying|coins?|refus\w*|brackets?|ledgers?|whoever|anybody|nobody|"
    r"somebody|crowd|contenders?|twins?|settled?|tents|shaped|caps?|household|house|rooms?|doors?|"
    r"hand(s|ed)? out|told|keeps? to themselves|lets? go"
)
"""Words that no text of the product has."""


def public_members(value):
    """The documented names of a public class, and its parameters."""
    for name, member in inspect.getmembers(value):
        if name.startswith("_"):
            continue
        yield name
        function = inspect.unwrap(member) if callable(member) else None
        if inspect.isfunction(function) or inspect.ismethod(function):
            yield from inspect.signature(function).parameters


EXTRAS = {
    # Names of layers that are still to be rewritten; this table may only shrink.
    **{name: {"said", "settled"} for name in ("DistanceMatrix", "Graph", "Tree")},
    **{name: {"settled"} for name in ("Relative", "SensitiveSet")},
    **{name: {"kept", "promise", "settled"} for name in ("Matrix", "Unary")},
    **{name: {"bracket", "made"} for name in ("Estimate", "Quantile")},
    "Continuous": {"said"},
    "Fit": {"shares"},
    "Lp": {"share"},
    "Regression": {"predict"},
    "Survey": {"asked"},
    "Tally": {"of", "refused"},
    "Totals": {"asked", "refused"},
    "Waves": {"found"},
    "Workload": {"answers"},
}


@pytest.mark.parametrize("name", sorted(metricldp.__all__))
def test_public_names_and_parameters_use_standard_terms(name):
    value = getattr(metricldp, name)
    names = [name]
    if inspect.isclass(value):
        names += public_members(value)
        names += inspect.signature(value).parameters if "__init__" in vars(value) else ()
    elif inspect.isfunction(value):
        names += inspect.signature(value).parameters
    wrong = {n for n in names if n in IDENTIFIERS}
    assert wrong == EXTRAS.get(name, set())


def texts_of_errors(path):
    """The literal text of every error that a module raises, with its line."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            parts = [
                part.value
                for part in ast.walk(node.exc)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            yield node.lineno, " ".join(parts).replace("metricldp-ledger", "")  # a key of files


def wrong_words(text):
    return sorted({match.group(0).lower() for match in re.finditer(rf"\b({PROSE})\b", text, re.I)})


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_errors_use_standard_terms(path):
    wrong = {line: words for line, text in texts_of_errors(path) if (words := wrong_words(text))}
    assert not wrong


@pytest.mark.parametrize("name", sorted(metricldp.__all__))
def test_docstrings_of_public_names_use_standard_terms(name):
    value = getattr(metricldp, name)
    texts = {name: inspect.getdoc(value) or ""}
    if inspect.isclass(value):
        for member, function in vars(value).items():
            if not member.startswith("_"):
                texts[member] = inspect.getdoc(function) or ""
    wrong = {member: words for member, text in texts.items() if (words := wrong_words(text))}
    assert not wrong


def test_readme_uses_standard_terms():
    text = (ROOT / "README.md").read_text("utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    assert not wrong_words(prose)
    words = [line for line in prose.splitlines() if not line.startswith("|")]
    assert len(" ".join(words).split()) <= 900


def without_code(text):
    """The prose of a page: neither blocks of code nor code between backticks."""
    return re.sub(r"`[^`]+`", "", words.without_code(text))


@pytest.mark.parametrize("page", [*GUIDE, *prepare.PROJECT_FILES])
def test_pages_of_the_guide_use_standard_terms(page):
    assert not wrong_words(without_code(prepare.prepared(page)))


def test_wrong_words_of_a_page_are_noticed():
    assert wrong_words(without_code("What is promised.\n\n```python\ncoins = 1\n```\n")) == [
        "promised"
    ]
    assert not wrong_words(without_code("Call `ledger.add`.\n\n```text\nrefused\n```\n"))


def test_only_pages_that_exist_are_excepted():
    for pattern in NOT_REWRITTEN:
        assert list(DOCS.glob(pattern)), pattern


@pytest.mark.parametrize("page", MOST_WORDS)
def test_pages_are_not_longer_than_planned(page):
    assert len(words.words(prepare.pages()[page].read_text("utf-8"))) <= MOST_WORDS[page]


def test_words_sentences_and_reading_ease_are_counted():
    text = "# Title\n\nThe cat sat. It `saw(a, b)`:\n\n```python\nx = 1\n```\n\n| a | b |\n"
    assert words.words(text) == ["Title", "The", "cat", "sat", "It", "code", "a", "b"]
    assert words.sentences(text) == [["The", "cat", "sat"], ["It", "code"]]
    assert words.reading_ease("The cat sat on the mat.") == pytest.approx(206.835 - 6.09 - 84.6)
    assert words.reading_ease("Organizational considerations.") < 0
    assert [words.syllables(w) for w in ("made", "noise", "table", "estimate", "added")] == [
        1,
        1,
        2,
        3,
        2,
    ]
