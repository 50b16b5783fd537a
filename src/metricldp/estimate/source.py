"""The text of a condition: checks before it is parsed, and errors that show a position in it."""

from __future__ import annotations

import keyword
import re
import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

from metricldp.basics.errors import QueryError
from metricldp.basics.text import shown

MAX_LENGTH = 4_000
MAX_DEPTH = 30
"""Parentheses inside each other."""
MAX_NOTS = 100
WINDOW = 72
"""Columns of an expression in an error message."""
EXAMPLE = "18 <= age <= 29 and region == 'north'"
KEYWORDS = ("and", "or", "not", "in", "is", "None", "True", "False")

_TOKEN = re.compile(
    r"""(?P<space>\ +)
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted>`[^`]+`)
    | (?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>\w+)
    | (?P<operator><=|>=|==|!=|<>|=>|=<|:=|&&|\|\||.)""",
    re.VERBOSE,
)
_OPERATORS = ("<=", ">=", "==", "!=", "<", ">", "(", ")", "[", "]", ",", "-", "+")
_REMEDIES = {
    "=": "write == for one value, and 18 <= age <= 29 for a range",
    "=>": "write >=",
    "=<": "write <=",
    "<>": "write !=",
    "!": "write not, or !=",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    **dict.fromkeys(("&", "&&"), "write and"),
    **dict.fromkeys(("|", "||"), "write or"),
    "~": "write not",
    "'": "close the string with '",
    '"': 'close the string with "',
    "`": "close the name with `",
    ".": "write a name with a dot in backticks",
    ";": f"write one condition, such as {EXAMPLE}",
    "*": "compare an attribute with a number",
    "/": "compare an attribute with a number",
    "#": "a condition has no comments",
    **dict.fromkeys("“”„‘’‚«»", "write straight quotes, such as 'north'"),
}


def name_in_text(name: str) -> str:
    """An attribute's name as a condition has it: in backticks if Python could not read it."""
    plain = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    return name if plain else f"`{name}`"


class Token(NamedTuple):
    """A piece of the text, with the kind that the pattern gives it."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True)
class Source:
    """A checked text in which nothing but a condition can be written."""

    text: str
    quoted: dict[int, str] = field(default_factory=dict)
    """Names in backticks by their position."""

    @classmethod
    def of(cls, text: object) -> Source:
        """The text, if its characters, length, nesting and symbols are those of a condition."""
        if not isinstance(text, str):
            raise QueryError(f"a condition is a text such as {EXAMPLE}, not {shown(text)}")
        if len(text) > MAX_LENGTH:
            raise QueryError(
                f"the condition has {len(text):,} characters; use at most {MAX_LENGTH:,}"
            )
        source = cls(re.sub(r"[\t\n\r\f\v]", " ", str(text)))
        if not source.text.strip():
            raise QueryError(f"the condition is empty; leave it out, or write {EXAMPLE}")
        source._check_characters()
        tokens = source._tokens()
        source._check_tokens(tokens)
        source._check_nesting(tokens)
        return source

    @property
    def python(self) -> str:
        """Python source with the same positions; a name in backticks becomes underscores."""
        characters = list(self.text)
        for start, name in self.quoted.items():
            characters[start : start + len(name) + 2] = "_" * (len(name) + 2)
        return "".join(characters)

    def error(self, message: str, position: int) -> QueryError:
        """An error whose second line shows the text and whose third line marks the position."""
        start, end = 0, len(self.text)
        if max(_columns(self.text), end) > WINDOW:
            start = max(0, position - WINDOW // 4)
            end = start
            last = min(len(self.text), start + WINDOW - 6)
            while end < last and _columns(self.text[start : end + 1]) <= WINDOW - 6:
                end += 1
        before, after = "..." if start else "", "..." if end < len(self.text) else ""
        line = f"{before}{_printable(self.text[start:end])}{after}".rstrip()
        indent = _columns(before + _printable(self.text[start:position]))
        return QueryError(f"{message}\n    {line}\n    {' ' * indent}^")

    def _check_characters(self) -> None:
        for position, character in enumerate(self.text):
            if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
                code = f"U+{ord(character):04X}"
                raise self.error(f"a condition cannot contain the character {code}", position)

    def _tokens(self) -> list[Token]:
        tokens = []
        for match in _TOKEN.finditer(self.text):
            kind = match.lastgroup or ""
            token = Token(kind, match[0], match.start())
            if kind == "quoted":
                self.quoted[token.start] = token.text[1:-1]
            if kind != "space":
                tokens.append(token)
        return tokens

    def _check_tokens(self, tokens: list[Token]) -> None:
        """Reject what a condition does not need; much of it would nest, or warn when parsed."""
        for place, token in enumerate(tokens):
            before = tokens[place - 1] if place else None
            after = tokens[place + 1] if place + 1 < len(tokens) else None
            if token.kind == "operator":
                self._check_operator(token, before, after)
            elif token.kind == "string":
                self._check_string(token)
            elif token.kind == "name":
                self._check_name(token)
            elif token.kind == "number" and after is not None:
                self._check_number(token, after)
            if before is not None and _is_end(before) and _is_value(token):
                self._check_prefix(before, token)
                message = "two values follow each other; write an operator between them"
                if before.kind == token.kind == "name":
                    name = _short(self.text[before.start : _end(token)])
                    message = f"two names follow each other; a name with a space is `{name}`"
                    if token.text == "between":
                        message = f"a range is written with comparisons, as in {EXAMPLE}"
                raise self.error(message, token.start)

    def _check_number(self, token: Token, after: Token) -> None:
        if after.start == _end(token) and after.kind in ("name", "number"):
            message = f"{_short(token.text + after.text)} is not a number such as 50_000"
            if ".." in token.text + after.text:
                message = f"a range is written with comparisons, as in {EXAMPLE}"
            raise self.error(message, token.start)

    def _check_operator(self, token: Token, before: Token | None, after: Token | None) -> None:
        if token.text not in _OPERATORS:
            remedy = _REMEDIES.get(token.text, f"write conditions such as {EXAMPLE}")
            quote = '"' if token.text == "'" else "'"
            symbol = _visible(token.text)
            if symbol == token.text:
                symbol = f"{quote}{symbol}{quote}"
            raise self.error(f"a condition has no {symbol}; {remedy}", token.start)
        if token.text == "(" and before is not None and _is_end(before):
            message = (
                f"a condition has no functions; compare attributes with values, as in {EXAMPLE}"
            )
            raise self.error(message, token.start)
        if token.text == "[" and (before is None or before.text not in ("in", "[", "==", "!=")):
            message = "a list follows in or not in, as in region in ['north', 'south']"
            raise self.error(message, token.start)
        if token.text in "-+":
            binary = before is not None and _is_end(before)
            if binary or after is None or after.kind != "number":
                message = f"a condition has no arithmetic; use {token.text} before a number only"
                raise self.error(message, token.start)

    def _check_prefix(self, before: Token, token: Token) -> None:
        adjacent = _end(before) == token.start
        if adjacent and before.kind == "name" and token.kind == "string":
            raise self.error("a string has no prefix; leave it out", before.start)

    def _check_string(self, token: Token) -> None:
        if wrong := re.search(r"\\(?!['\"\\])", re.sub(r"\\\\", "  ", token.text)):
            message = "use a backslash before a quote or another backslash only"
            raise self.error(message, token.start + wrong.start())

    def _check_name(self, token: Token) -> None:
        if token.text.lower() in KEYWORDS[:5] and token.text not in KEYWORDS:
            raise self.error(f"write {token.text.lower()} in lower case", token.start)
        if keyword.iskeyword(token.text) and token.text not in KEYWORDS:
            message = (
                f"{token.text} is a reserved word of Python; compare attributes with values, and "
                f"write an attribute as `{token.text}`"
            )
            raise self.error(message, token.start)
        if not token.text.isidentifier():
            message = (
                f"{_short(token.text)} is neither a name nor a number; use backticks for names"
            )
            raise self.error(message, token.start)

    def _check_nesting(self, tokens: list[Token]) -> None:
        opened: list[Token] = []
        for token in tokens:
            if token.kind == "operator" and token.text in "([":
                opened.append(token)
            closes = token.kind == "operator" and token.text in ")]"
            if closes and (not opened or opened.pop().text + token.text not in ("()", "[]")):
                raise self.error(f"{token.text} has no opening parenthesis", token.start)
            if token.text == "," and not opened:
                message = "use commas in lists only; join conditions by and"
                raise self.error(message, token.start)
            if len(opened) > MAX_DEPTH:
                message = f"parentheses are nested more than {MAX_DEPTH} deep; remove some"
                raise self.error(message, token.start)
        if opened:
            raise self.error(f"{opened[-1].text} is not closed", opened[-1].start)
        nots = [token for token in tokens if token.kind == "name" and token.text == "not"]
        if len(nots) > MAX_NOTS:
            message = f"the condition has more than {MAX_NOTS} nots"
            raise self.error(message, nots[MAX_NOTS].start)


def _end(token: Token) -> int:
    return token.start + len(token.text)


def _is_value(token: Token) -> bool:
    """Whether a token is a name or a literal, and not a symbol or a word such as `and`."""
    return token.kind != "operator" and (token.kind != "name" or token.text not in KEYWORDS[:5])


def _is_end(token: Token) -> bool:
    """Whether a value ends with this token."""
    return _is_value(token) or (token.kind == "operator" and token.text in (")", "]"))


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}..."


def _visible(symbol: str) -> str:
    """A symbol, or its code if it is invisible or changes the text around it."""
    code = f"U+{ord(symbol[0]):04X}"
    return symbol if symbol.isprintable() and not unicodedata.combining(symbol[0]) else code


def _columns(text: str) -> int:
    """How wide a text is on a terminal."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
