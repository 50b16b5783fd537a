"""A plan: from the answer that is wanted to what has to be set, and what a person is promised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from metricldp.answers import advice
from metricldp.answers.answer import normal_reach, percent
from metricldp.answers.wishes import EVENLY, INTERVAL, MEAN, STDERR, WORST, Wish
from metricldp.basics.errors import CertificateError, QueryError, SurveyError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import counted, filled, guess, listed, plain, shown, table
from metricldp.lab import risk
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.strength import rounded, times, warnings_of, widest

FINDS = ("n", "epsilon", "within", "cap", "mechanism", "bins")
_OF_ONE = ("within", "cap", "mechanism", "bins")
"""What is about one attribute."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of epsilon, and of the people, in the table of the trade-off."""
_FEW_IN_GROUP = 0.1
"""Above this relative error of a group's size the error of its mean is only roughly known."""
_WORTH = 0.99
"""A mechanism, or bins, that come later have to be better by more than a hundredth."""


@dataclass(frozen=True)
class Row:
    """One setting of epsilon: what errors and what guesses it leaves."""

    factor: float
    epsilons: dict[str, float]
    errors: dict[int, float]
    """By the number of people."""
    guess: dict[str, Any] | None
    """The chances of an attacker, as `explain` has them."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What was asked for, what was found, and what it means for both sides."""

    wish: Wish
    find: str
    of: str | None
    n: int
    survey: Any
    """The survey with what was found; all is settled in it, and it can be handed out."""
    before: Agreement
    tried: dict[str, float] = field(default_factory=dict)
    """The error of each mechanism, or number of bins, that was compared."""

    @cached_property
    def error(self) -> float:
        """The predicted error, in the measure that was asked for."""
        return self.wish.error_of(self.survey, self.n)

    @cached_property
    def stderr(self) -> float:
        return self.wish.stderr(self.survey, self.n)

    @property
    def met(self) -> bool:
        """Whether the wish is met; a mechanism or bins may not be enough by themselves."""
        return self.error <= self.wish.error

    @cached_property
    def names(self) -> list[str]:
        """The attributes that the answer depends on."""
        return self.wish.names(self.survey)

    @property
    def found(self) -> Any:
        """The setting: a number, a name, or an epsilon for each attribute."""
        asked = self.survey.asked
        if self.find == "n":
            return self.n
        if self.find == "epsilon":
            chosen = [*asked] if self.of is None else [self.of]
            return {name: asked[name].epsilon for name in chosen if not asked[name].is_public}
        if self.find == "mechanism":
            return self.survey.mechanisms[self.of].name
        return getattr(asked[self.of], self.find)

    # In words ------------------------------------------------------------------------------------

    def __str__(self) -> str:
        blocks = [
            filled(self.advice),
            *(filled(f"Warning: {w}.") for w in warnings_of(self.survey)),
        ]
        blocks.append("\n".join(["For a person:", *(filled(f"- {line}") for line in self.person)]))
        if self.tried:
            what = "mechanism" if self.find == "mechanism" else "bins"
            rows = [(what, "± error")]
            rows += [(name, self.wish.shown(error)) for name, error in self.tried.items()]
            blocks.append(table(rows))
        if self.trade_off:
            unit = f" in {self.wish.unit}" if self.wish.kind != MEAN else ""
            blocks.append(f"± error{unit}, by epsilon and by people\n{self._table()}")
        return "\n\n".join([*blocks, "\n".join(filled(f"- {note}") for note in self.notes)])

    @cached_property
    def advice(self) -> str:
        """What to set, what that gives, and whom it holds for: two or three sentences."""
        wish, what = self.wish, self.wish.words(self.survey)
        if wish.measure == STDERR:
            meant = "the standard error"
        else:
            reach = f"{normal_reach(wish.level):.3g} standard errors of {wish.shown(self.stderr)}"
            rest = wish.open(self.survey)
            reach += f" and {wish.shown(rest)} that bins leave open" if rest else ""
            meant = f"half of the width of a {percent(wish.level)} interval, {reach}"
        told = f"{self._setting} Then the error of {what} is ± {wish.shown(self.error)}, "
        told += f"{wish.spread}. That is {meant}."
        if self.n_if_even is not None and self.n_if_even < self.n:
            people = counted(self.n_if_even, "person", "people")
            told += f" If people are spread evenly, {people} are enough."
        if not self.met:
            told += (
                f" It is more than the ± {wish.shown(wish.error)} that were asked for: find n or "
                "epsilon as well."
            )
        return told

    @cached_property
    def n_if_even(self) -> int | None:
        """How many people are enough if they are spread evenly, where n is for the worst case."""
        wish = self.wish
        if self.find != "n" or not isinstance(wish.prior, str) or wish.prior != WORST:
            return None
        return advice.people_for(replace(wish, prior=EVENLY), self.survey)

    @property
    def _setting(self) -> str:
        people = counted(self.n, "person", "people")
        if self.find == "n":
            return f"Ask {people}."
        if self.find != "epsilon":
            best = ", the best of those below" if self.tried else ""
            return f"With {people}, set {self.find} of {self.of} to {plain(self.found)}{best}."
        said = ", ".join(f"{name} {plain(epsilon)}" for name, epsilon in self.found.items())
        asked, before = self.survey.asked, self.before.asked
        more = [k for k in ("cap", "optional") if any(getattr(asked[m], k) for m in self.found)]
        factor = max(epsilon / before[name].epsilon for name, epsilon in self.found.items())
        also = f", and {' and '.join(more)} as well" if more else ""
        return f"With {people}, set epsilon to {said}: {rounded(factor)} times what it was{also}."

    @cached_property
    def person(self) -> list[str]:
        """What the survey means for a person, attribute by attribute."""
        return [line for name in self.names if (line := self._of_person(name))]

    def _of_person(self, name: str) -> str:
        attribute, across = self.survey.attributes[name], float(widest(self.survey, name))
        if attribute.is_public:
            return ""
        near = float(attribute.distances.smallest(attribute.size))
        told = f"{name}: any two values are {times(across)}"
        if near < across:
            told = f"{name}: the nearest two values are {times(near)}; any two {times(across)}"
        told = told.replace("are at most", "make a report at most")
        short = risk.in_short(self.survey, name)
        return f"{told}. An attacker {risk.short_line(short['guess'])}" if short else told

    @cached_property
    def notes(self) -> list[str]:
        """What limits the advice."""
        found = [f"{note[0].upper()}{note[1:]}." for note in self.wish.notes(self.survey)]
        off = self.wish.size_error(self.survey, self.n)
        if off > _FEW_IN_GROUP:
            found.append(
                f"The size of the group is known to ± {100 * off:.0f} % only, so the error of its "
                "mean may be larger than was predicted; take a larger group, or more people."
            )
        if self.wish.measure == INTERVAL:
            found.append(
                "The interval of an answer can be somewhat longer, where a few large errors make "
                "it up, and shorter, where it is a bracket. The standard error is that of the "
                f"answer{', to first order' if self.wish.kind == MEAN else ''}."
            )
        found.append(
            "It is the error of blurring, for those who report. Sampling error is not included."
        )
        return found

    # The trade-off -------------------------------------------------------------------------------

    @cached_property
    def people(self) -> list[int]:
        """Numbers of people around the advised one."""
        found = [self.n if f == 1 else _short(self.n * f) for f in FACTORS]
        return sorted({people for people in found if people >= 1})

    @cached_property
    def trade_off(self) -> list[Row]:
        """Errors by epsilon, times what it is, and by people; what cannot be made is left out."""
        names = [self.of] if self.of else self.names
        names = [name for name in names if not self.survey.asked[name].is_public]
        found = []
        for factor in FACTORS:
            try:
                made = advice.with_epsilon(self.survey, names, factor)
            except (CertificateError, QueryError, SurveyError):
                continue
            errors = {people: self.wish.error_of(made, people) for people in self.people}
            epsilons = {name: made.asked[name].epsilon for name in names}
            found.append(Row(factor, epsilons, errors, risk.in_short(made, names[0]).get("guess")))
        return found

    def _table(self) -> str:
        first, *_ = self.trade_off
        heads = [f"epsilon of {name}" for name in first.epsilons]
        guesses = [f"{next(iter(first.epsilons))} guessed"] if first.guess else []
        rows = [
            (*heads, *guesses, *(counted(people, "person", "people") for people in self.people))
        ]
        for row in self.trade_off:
            cells = [rounded(epsilon) for epsilon in row.epsilons.values()]
            if guesses:
                after = row.guess["after"] if row.guess else None
                cells.append("" if after is None else f"{100 * after:.3g}%")
            rows.append((*cells, *(self.wish.digits(error) for error in row.errors.values())))
        return table(rows, left=0)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a program."""
        return {
            "survey": self.survey.fingerprint,
            "question": self.wish.words(self.survey),
            "kind": self.wish.kind,
            "find": self.find,
            "attribute": self.of,
            "found": self.found,
            "n": self.n,
            "error_wanted": self.wish.error,
            "error": self.error,
            "measure": self.wish.measure,
            "level": self.wish.level,
            "stderr": self.stderr,
            "met": self.met,
            "holds": self.wish.spread,
            "n_if_even": self.n_if_even,
            "advice": self.advice,
            "person": self.person,
            "compared": self.tried,
            "trade_off": [
                {
                    "epsilons": row.epsilons,
                    "guess": row.guess,
                    "errors": [{"n": n, "error": error} for n, error in row.errors.items()],
                }
                for row in self.trade_off
            ],
            "notes": self.notes,
        }


def plan(
    survey: Agreement,
    kind: Any,
    where: Any = None,
    *,
    error: Any,
    find: Any = None,
    n: Any = None,
    attribute: Any = None,
    of: Any = None,
    prior: Any = None,
    measure: Any = INTERVAL,
    level: Any = 0.95,
) -> Plan:
    """The setting to find for an answer with an error: n, or epsilon where n is known."""
    find = ("n" if n is None else "epsilon") if find is None else find
    if not isinstance(find, str) or find not in FINDS:
        choice = f"{', '.join(FINDS[:-1])} or {FINDS[-1]}"
        raise QueryError(f"a plan finds {choice}, not {shown(find)}{guess(find, FINDS)}")
    wish = Wish.of(
        survey, kind, where, prior, attribute=attribute, error=error, measure=measure, level=level
    )
    if not wish.stderr(survey, 1) > 0:
        raise QueryError(f"{wish.words(survey)} is known without error; give a condition")
    names = _changed(survey, wish, find, of)
    if find == "n":
        if n is not None:
            raise QueryError(f"n is what is to be found; leave n = {shown(n)} out, or find another")
        people = advice.people_for(wish, survey)
        return Plan(wish, find, None, people, survey, survey)
    if not is_whole(n) or not 1 <= n <= advice.MOST_PEOPLE:
        raise QueryError(
            f"to find {find}, say how many people there are, from 1 to {advice.MOST_PEOPLE:,}, not "
            f"n = {shown(n)}"
        )
    n = int(n)
    if find == "epsilon":
        made = advice.epsilon_for(wish, survey, n, names)
        return Plan(wish, find, of, n, made, survey)
    (name,) = names
    if find in ("within", "cap"):
        search = advice.within_for if find == "within" else advice.cap_for
        return Plan(wish, find, name, n, search(wish, survey, n, name), survey)
    choices: dict[Any, Agreement] = {}
    choices |= (advice.mechanisms_for if find == "mechanism" else advice.bins_for)(survey, name)
    tried: dict[str, float] = {}
    best: Any = None
    for choice, made in choices.items():
        try:
            tried[plain(choice)] = wish.error_of(made, n)
        except QueryError:  # a range that is narrower than a bin
            continue
        if best is None or tried[plain(choice)] < _WORTH * tried[plain(best)]:
            best = choice
    if best is None:
        raise QueryError(f"{wish.words(survey)} cannot be asked with any other {find} of {name}")
    order = sorted(tried, key=lambda one: tried[one]) if find == "mechanism" else list(tried)
    return Plan(wish, find, name, n, choices[best], survey, {one: tried[one] for one in order})


def _changed(survey: Agreement, wish: Wish, find: str, of: Any) -> list[str]:
    """The attributes that a setting is changed of."""
    blurred = [name for name, a in survey.asked.items() if not a.is_public]
    if of is not None:
        attribute_of(survey, of)
        if of not in blurred:
            raise QueryError(f"{of} is public or about another attribute; choose {listed(blurred)}")
        if find == "n":
            raise QueryError(f"n is not a setting of {of}; leave the attribute to change out")
        if of not in wish.names(survey):
            raise QueryError(f"{wish.words(survey)} has nothing to do with {of}")
        return [of]
    about = [name for name in wish.names(survey) if name in blurred]
    if find in _OF_ONE:
        if len(about) != 1:
            there = listed(about or blurred)
            raise QueryError(f"say of which attribute {find} is to be found: {there}")
        return about
    return blurred


def _short(number: float) -> int:
    """Two digits, as numbers in a table are."""
    return round(float(f"{number:.2g}"))
