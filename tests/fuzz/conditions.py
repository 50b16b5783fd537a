"""Conditions as people type them, and as programs hand them over."""

from __future__ import annotations

import datetime
import decimal
import math
from functools import cache

import numpy as np
from fuzzing import tried

from metricldp import Categorical, Continuous, Integer, Ordinal, QueryError, Survey, Weight
from metricldp.answers.queries import parse_all
from metricldp.mechanisms.randomness import Randomness

AT_ONCE = 500
_ASKED = 40
"""One in so many conditions that are understood is asked."""


@cache
def tally():
    survey = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, per=5),
            "flag": Integer(0, 1, epsilon=1, per=1),
            "income": Continuous(0, 2000, bins=20, epsilon=1, per=100),
            "region": Categorical(["north", "south", "1..2", "a,b"], epsilon=1, optional=True),
            "mood": Ordinal(["bad", "fair", "good"], epsilon=1),
            "height": Continuous(1, 2, points=11, epsilon=3, rounding="stochastic", per=1),
            "w": Weight(0, 2),
            "größe": Integer(-5, 5, epsilon=1, optional=True, per=1),
        }
    )
    random = np.random.default_rng(1)
    people = {
        name: np.array([a.values_at(p)[0] for p in range(a.size)])[random.integers(a.size, size=50)]
        for name, a in survey.asked.items()
    }
    return survey.tally(survey.randomize(people, randomness=Randomness()))


NAMES = ["age", "flag", "income", "region", "mood", "height", "w", "größe", "Age", " age "]
NAMES += ["region=response", "age=response", "`age`", "`größe`", "``", "`no such name`", "class"]
VALUES = ["0", "18", "29", "99", "100", "-1", "1e3", "1e400", "nan", "inf", "-0", "0x10", "1_0"]
VALUES += ["18.5", "'north'", '"bad"', "'good'", "'a,b'", "'1..2'", "True", " 7 ", "９", "١", "1j"]
VALUES += ["9" * 5000, "\x00", "None", "¼", "1e-320", "'\ud800'", "+5", "2.0", "1,5", "...", "b'x'"]
VALUES += ["[1, 2]", "('north', 'a,b')", "[]", "age", "f''", "lambda: 0", "len(age)", "'\\''"]
SYMBOLS = ["<", "<=", ">", ">=", "==", "!=", " in ", " not in ", " is ", " is not "]
JOINTS = [
    *SYMBOLS,
    " and ",
    " or ",
    " not ",
    "..",
    "=",
    "<>",
    ":=",
    ":",
    ";",
    "",
    " if ",
    ".",
    "**",
]
LETTERS = "age=.,018-+eE_ \t\nnorthü\x00\u2028😀><![]{}()'\"\\/%`&|~@"

PLAUSIBLE = {
    "age": ["0", "18", "29", "99", "18.0", "1e1"],
    "flag": ["0", "1", "True"],
    "income": ["0", "300", "1900", "2e3", "100"],
    "region": ["'north'", "'south'", "'1..2'", '"a,b"'],
    "mood": ["'bad'", "'fair'", '"good"'],
    "height": ["1", "1.5", "1.9", "2"],
    "größe": ["-5", "0", "5", "+1"],
}


def plausible(random, depth=0):
    """Return a condition that is likely to be valid."""
    if depth < 3 and random.random() < 0.3:
        first, second = (plausible(random, depth + 1) for _ in range(2))
        return random.choice([f"({first}) or {second}", f"{first} and {second}", f"not ({first})"])
    name = random.choice(list(PLAUSIBLE))
    first, second = (random.choice(PLAUSIBLE[name]) for _ in range(2))
    kind = random.randrange(4)
    if kind == 0:
        return f"{first} <= {name} <{random.choice(['', '='])} {second}"
    if kind == 1:
        return f"{name} {random.choice(['in', 'not in'])} [{first}, {second}]"
    if kind == 2:
        return f"{name} is {random.choice(['', 'not '])}None"
    return f"{name}{random.choice(SYMBOLS[:6])}{first}"


def text(random):
    """Return a text that resembles a condition more or less."""
    if random.random() < 0.15:
        return "".join(random.choice(LETTERS) for _ in range(random.randrange(20)))
    if random.random() < 0.5:
        result = plausible(random)
    else:
        result = random.choice(NAMES)
        while random.random() < 0.7:
            result += random.choice(JOINTS) + random.choice(VALUES)
    if random.random() < 0.3:
        at = random.randrange(len(result))
        result = result[:at] + random.choice(LETTERS) + result[at + random.randrange(3) :]
    if random.random() < 0.01:
        result = random.choice(["not ", "(", "-", "["]) * random.randrange(4_000) + result
    return result


def thing(random, depth=0):
    """Something that a program may hand over."""
    few = [None, True, False, 0, 18, -3, 99, 10**400, 18.5, math.nan, math.inf, -0.0, "north", ""]
    few += [
        "bad",
        b"x",
        1j,
        decimal.Decimal("18"),
        datetime.date(2020, 1, 1),
        object,
        len,
        ...,
        {1},
    ]
    few += [
        np.int64(4),
        np.float32(2),
        np.bool_(True),
        np.array(3),
        np.array([1, 2]),
        np.str_("bad"),
    ]
    few += [
        np.array([]),
        range(3),
        slice(1, 2),
        frozenset({"north"}),
        np.datetime64("2020"),
        "good",
    ]
    if depth > 2 or random.random() < 0.5:
        return random.choice(few)
    inner = [thing(random, depth + 1) for _ in range(random.randrange(4))]
    kind = random.randrange(4)
    if kind == 3:
        return {str(k): value for k, value in enumerate(inner)}
    return (tuple, tuple, list)[kind](inner)


def block(random, where):
    wrong = []
    for k in range(AT_ONCE):
        if random.random() < 0.75:
            case = text(random)
            ask = random.randrange(_ASKED) == 0
        else:
            keys = [random.choice(NAMES) for _ in range(random.choice([1, 1, 2]))]
            case = {key: thing(random) for key in keys} if random.random() < 0.95 else thing(random)
            ask = random.randrange(_ASKED) == 0
        failure = tried(
            "where", f"{where} case {k}", case, lambda case=case, ask=ask: one(case, ask)
        )
        wrong += [failure] if failure else []
    return AT_ONCE, wrong


def one(case, ask=False):
    survey = tally().survey
    try:
        queries = parse_all(survey, case)
    except QueryError as error:
        message, *lines = str(error).split("\n")
        if isinstance(case, str) and len(lines) == 2 and lines[1].strip() == "^":
            raise QueryError(message) from None  # an error of a text shows the text on other lines
        raise
    for query in queries:
        shapes = {name: values.shape for name, values in query.functions.items()}
        assert all(shape == (survey.attributes[name].size,) for name, shape in shapes.items())
    if ask:
        assert math.isfinite(tally().count(case).value)
