"""Conditions as people type them, and as programs hand them over."""

from __future__ import annotations

import datetime
import decimal
import math
from functools import cache

import numpy as np
from fuzzing import tried
from metricldp.answers.where_text import parse_text

from metricldp import Categorical, Continuous, Integer, Ordinal, Real, Survey, Weight
from metricldp.answers.queries import parse
from metricldp.coins.stream import Coins

AT_ONCE = 500
_ASKED = 40
"""One in so many conditions that are understood is asked."""


@cache
def tally():
    survey = Survey(
        {
            "age": Integer(0, 99, epsilon=1, per=5),
            "flag": Integer(0, 1, epsilon=1),
            "income": Continuous(0, 2000, bins=20, epsilon=1, per=100),
            "region": Categorical(["north", "south", "1..2", "a,b"], epsilon=1, optional=True),
            "mood": Ordinal(["bad", "fair", "good"], epsilon=1),
            "height": Real(1, 2, points=11, epsilon=3),
            "w": Weight(0, 2),
            "größe": Integer(-5, 5, epsilon=1, optional=True),
        }
    )
    random = np.random.default_rng(1)
    people = {
        name: np.array([a.values_at(p)[0] for p in range(a.size)])[random.integers(a.size, size=50)]
        for name, a in survey.asked.items()
    }
    return survey.tally(survey.encode(people, coins=Coins()))


NAMES = ["age", "flag", "income", "region", "mood", "height", "w", "größe", "Age", "", " age "]
NAMES += ["region=answered", "age=answered"]
ENDS = ["", "0", "18", "29", "99", "100", "-1", "1e3", "1e400", "nan", "inf", "-0", "0x10", "1_0"]
ENDS += [
    "18.5",
    "north",
    "bad",
    "good",
    "a,b",
    "1..2",
    "True",
    " 7 ",
    "９",
    "١",
    "9" * 5000,
    "\x00",
]
ENDS += ["unanswered", "null", "None", "¼", "1e-320", "\ud800", "+5", "18 ", "2.0", "1,5"]
JOINTS = ["..", "...", ",", "-", "=", "..", " to ", ":", "", "....", ">=", "<", ";"]
LETTERS = "age=.,018-+eE_ \t\nnorthü\x00\u2028😀><![]{}()'\"\\/%"


PLAUSIBLE = {
    "age": ["0", "18", "29", "99", "18.0", "1e1", ""],
    "flag": ["0", "1", ""],
    "income": ["0", "250", "1999.5", "2e3", "100", ""],
    "region": ["north", "south", "1..2", "a,b", "unanswered"],
    "mood": ["bad", "fair", "good", ""],
    "height": ["1", "1.5", "1.9", "2", ""],
    "größe": ["-5", "0", "5", "unanswered", ""],
}


def plausible(random):
    """One that may well mean something."""
    name = random.choice(list(PLAUSIBLE))
    first, second = (random.choice(PLAUSIBLE[name]) for _ in range(2))
    said = random.choice([f"={first}", f"={first}..{second}", f"={first},{second}"])
    if random.random() < 0.3:
        said = random.choice([f">={first}", f"<={first}", f">{first}", f"<{second}", f" = {first}"])
    return f"{name}{said}"


def text(random):
    """A condition in words, more or less."""
    if random.random() < 0.4:
        return plausible(random)
    if random.random() < 0.15:
        return "".join(random.choice(LETTERS) for _ in range(random.randrange(20)))
    said = random.choice(ENDS)
    while random.random() < 0.6:
        said += random.choice(JOINTS) + random.choice(ENDS)
    whole = f"{random.choice(NAMES)}{random.choice(['=', '=', '=', '=', '', '==', '>='])}{said}"
    if random.random() < 0.2 and whole:
        at = random.randrange(len(whole))
        whole = whole[:at] + random.choice(LETTERS) + whole[at + random.randrange(3) :]
    return whole


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
            case = [text(random) for _ in range(random.choice([1, 1, 1, 2, 3]))]
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
    words = isinstance(case, list) and all(isinstance(word, str) for word in case)
    where = parse_text(survey, case) if words else case
    query = parse(survey, where)
    shapes = {name: values.shape for name, values in query.functions.items()}
    assert all(shape == (survey.attributes[name].size,) for name, shape in shapes.items())
    if ask:
        assert math.isfinite(tally().count(where).value)
