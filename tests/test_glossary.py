"""The vocabulary of the public interface: standard terms in names, messages, help, page and README.

Each list grows with every part of the package that is rewritten.
"""

import ast
import inspect
import re
import sys
import warnings
from pathlib import Path

import collected
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import metricldp
from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    Relative,
    SensitiveSet,
    Survey,
    SurveySpec,
    Weight,
    plan,
)
from metricldp.cli.main import app
from metricldp.collector.page import pages

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "metricldp"
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))
import prepare  # noqa: E402
import words  # noqa: E402

NOT_REWRITTEN = (
    *("paper*.md", "compare*.md", "peers*.md", "metrics*.md"),
    *("matrix.md", "mechanisms.md", "benchmarks*.md", "guarantees-*.md", "architecture.md"),
)
"""Pages of the specification and of research, which keep their words until they are rewritten."""
GUIDE = sorted(
    path.relative_to(DOCS).as_posix()
    for path in DOCS.rglob("*.md")
    if path.parent != DOCS or not any(path.match(pattern) for pattern in NOT_REWRITTEN)
)
MOST_WORDS = {
    "glossary.md": 800,
    "changelog.md": 1_500,
    "contributing.md": 600,
    "specification.md": 5_500,
}
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
    r"hand(s|ed)? out|tells?|told|keeps? to themselves|lets? go|everybody|said|says?|kept|peers?|"
    r"blocks?|answers?|answered|tape|heaps?|heaped"
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


KEYS = ("metricldp-ledger", "metricldp test coins ")
"""Keys of files and seeds, which are part of formats."""

EXTRAS = {
    # Names of layers that are still to be rewritten; this table may only shrink.
    **{name: {"said", "settled"} for name in ("DistanceMatrix", "Graph", "Tree")},
    **{name: {"settled"} for name in ("Relative", "SensitiveSet")},
    **{name: {"kept", "promise", "settled"} for name in ("Matrix", "Unary")},
    **{name: {"bracket", "made"} for name in ("Estimate", "Quantile")},
    "Continuous": {"said"},
    "Fit": {"shares"},
    "Lp": {"share"},
    "Survey": {"asked"},
    "Tally": {"of"},
    "Totals": {"asked"},
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


def texts_of(source):
    """The string literals with a space, outside of docstrings, and their lines."""
    tree = ast.parse(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if id(node) not in statements and isinstance(text, str) and " " in text:
            for key in KEYS:
                text = text.replace(key, "")
            yield node.lineno, text


def wrong_words(text):
    text = re.sub(r"\(docs/[^)]*\)", "", text)  # links
    return sorted({match.group(0).lower() for match in re.finditer(rf"\b({PROSE})\b", text, re.I)})


def wrong_lines(source):
    return {line: words for line, text in texts_of(source) if (words := wrong_words(text))}


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_texts_use_standard_terms(path):
    assert not wrong_lines(path.read_text("utf-8"))


def test_texts_outside_of_docstrings_are_checked():
    source = (
        'def f():\n    """A promise."""\n    x = {"promise": 1}\n'
        '    y = f"{x} keeps its promise"\n    raise ValueError("the coins of " + y)\n'
        '    return "metricldp test coins 1"\n'
    )
    assert wrong_lines(source) == {4: ["promise"], 5: ["coins"]}


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
    """The prose of a page: no code, and no targets of links."""
    return re.sub(r"`[^`]+`|\]\([^)]*\)", "", words.without_code(text))


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


# Help


def helps(group, *names):
    """The names of every command, of groups as well."""
    yield names
    for name, command in getattr(group, "commands", {}).items():
        yield from helps(command, *names, name)


COMMANDS = sorted(helps(get_command(app)))


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_uses_standard_terms(names):
    shown = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and "Usage: " in shown.output
    assert not wrong_words(shown.output)


def test_help_of_groups_and_commands_is_checked():
    assert {(), ("query",), ("query", "count"), ("collector", "token", "new")} < set(COMMANDS)
    assert wrong_words("Usage: query [OPTIONS]\n  Ask the liars.") == ["liars"]


# Texts of a survey


@pytest.fixture(scope="module")
def survey():
    """Every kind of attribute: optional, joint, memoised, cyclic and with weights."""
    memoised = {"name": "memoised", "each": 0.5}
    attributes = {
        "east": Integer(0, 6, epsilon=1, within=2, max_epsilon=3),
        "north": Integer(0, 6, epsilon=1, within=2, max_epsilon=3),
        "income": Continuous(0, 100, bins=5, epsilon=1, within=20, max_epsilon=3, optional=True),
        "hour": Integer(0, 23, epsilon=1, within=2, cyclic=True, mechanism="threshold"),
        "region": Categorical(["a", "b", "c"], epsilon=2),
        "smokes": Categorical(["yes", "no"], epsilon=2, mechanism=memoised),
        "degree": Ordinal(["low", "mid", "high"], epsilon=1),
        "size": Continuous(0, 10, epsilon=1, within=2, rounding="stochastic", points=6),
        "pay": Continuous(edges=[0, 1, 5, 10], epsilon=9, per=1),
        "wealth": Continuous(10, 99, epsilon=1, metric=Relative(0.5), max_epsilon=4, bins=5),
        "health": Categorical(["none", "flu", "hiv"], epsilon=1, metric=SensitiveSet(["hiv"])),
        "private": Weight(0, 10, private=True, epsilon=1),
        "public": Weight(0, 10),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Survey.design(SurveySpec(attributes, joint=[["east", "north"]]))


def test_texts_of_a_survey_use_standard_terms(survey):
    explanation = survey.explain(n=10_000)
    spent = Accountant()
    spent.add(survey, note="first")
    texts = [explanation, explanation.details(), survey.certify(), spent, survey.manifest()]
    texts += [survey.risk(name) for name in survey.asked if name != "public"]
    texts += [survey.risk("east", within=1), survey.expected_error("region == 'a'", n=1000)]
    texts += [plan(survey, 0.02, where="region == 'a'")]
    texts += [plan(survey, 0.02, where="region == 'a'", find="epsilon", n=5000)]
    for text in map(str, texts):
        printed = re.sub(r'"[^"\\ ]*"', "", text)  # keys of the manifest
        assert not wrong_words(printed.replace("income=response", ""))
    for text in map(str, texts[:4]):
        assert "=response" not in text
    assert "no response" in explanation.details()
    blurred = str(explanation).replace("randomized", "blurred")  # negative control
    assert wrong_words(blurred) == ["blurred"]


def test_an_explanation_is_short():
    attributes = {
        "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3),
        "income": Continuous(0, 100, bins=5, epsilon=1, within=20, optional=True),
        "region": Categorical(["a", "b", "c"], epsilon=2),
    }
    text = str(Survey.design(attributes).explain(n=10_000))
    assert len(text.splitlines()) <= 25
    assert max(map(len, text.splitlines())) <= 80


# The page and the JavaScript client

PAGE = SRC / "collector" / "page"
CLIENT = ROOT / "clients" / "js" / "metricldp.js"
CODE = r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"|`(?:[^`\\]|\\.)*`"


def texts_of_template(source):
    """The text of a template, with the attributes that a browser shows or reads aloud."""
    shown = re.findall(r'(?:aria-label|alt|title|placeholder)="([^"]*)"', source)
    text = " ".join([re.sub(r"<[^>]*>", " ", source), *shown])
    return re.sub(r"{[{%#].*?[}%#]}", " ", text, flags=re.S)


def texts_of_javascript(source):
    """The string literals with a space, without comments and expressions in templates."""
    literals = [found for found in re.findall(CODE, source, re.S) if found[0] in '"`']
    return [re.sub(r"\${[^}]*}", " ", text) for text in literals if " " in text]


@pytest.mark.parametrize("path", sorted((PAGE / "templates").iterdir()), ids=lambda p: p.name)
def test_templates_use_standard_terms(path):
    assert not wrong_words(texts_of_template(path.read_text("utf-8")))


@pytest.mark.parametrize("path", [PAGE / "static" / "page.js", CLIENT], ids=lambda p: p.name)
def test_javascript_uses_standard_terms(path):
    texts = texts_of_javascript(path.read_text("utf-8"))
    assert texts
    assert not [text for text in texts if wrong_words(text)]


def test_texts_of_templates_and_javascript_are_checked():
    template = '<p class="answer" title="The crowd">{{ answer }} Our promise</p>{% if kept %}'
    assert wrong_words(texts_of_template(template)) == ["crowd", "promise"]
    script = '// coins\nconst answer = refuse("told"); x = `the answer ${coins}`; y = "was told";'
    assert texts_of_javascript(script) == ["`the answer  `", '"was told"']


def test_pages_use_standard_terms(survey):
    values = {
        **{"east": 3, "north": 3, "income": 20, "hour": 7, "region": "a", "smokes": "no"},
        **{"degree": "low", "size": 5, "pay": 2, "wealth": 20, "health": "none"},
        **{"private": 5, "public": 2},
    }
    tally = survey.tally(survey.randomize({name: [value] * 500 for name, value in values.items()}))
    headers = {"authorization": f"Bearer {collected.TOKEN}"}
    site = pages(collected.InMemory(tally))
    client = collected.Client(site, base_url="http://127.0.0.1:8000", headers=headers)
    for query in ("", "?show=groups&by=region&estimate=pay", "?where=income+is+None", "?where=age"):
        page = client.get(f"/surveys/{survey.fingerprint}{query}")
        assert "Privacy guarantee" in page.text and "no response" in page.text
        assert not wrong_words(texts_of_template(page.text))
