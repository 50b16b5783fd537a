"""From the error that a query may have to a setting of the survey, and what that guarantees."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from metricldp.basics.errors import CertificateError, InvalidSpecError, QueryError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import counted, filled, guess, listed, plain, shown, table
from metricldp.planning import search
from metricldp.planning.risk import MOST_POSITIONS, Risk, risk, usual_within
from metricldp.planning.target import MEAN, WORST, Target
from metricldp.store.readings import attribute_of
from metricldp.survey.agreement import Agreement
from metricldp.survey.explain import guarantee, weak_guarantees

FINDS = ("n", "epsilon", "within", "max_epsilon", "mechanism", "bins")
_OF_ONE = ("within", "max_epsilon", "mechanism", "bins")
"""Settings of a single attribute."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of epsilon, and of the number of respondents, in a trade-off."""
_SMALL_GROUP = 0.1
"""Above this relative error of the size of a group the error of its mean is only a rough guess."""
_BETTER = 0.99
"""Of two choices the later one has to have an error that is smaller by a hundredth."""


@dataclass(frozen=True)
class Setting:
    """The survey with epsilons times a factor: errors by number of respondents, and the risk."""

    factor: float
    epsilons: dict[str, float]
    errors: dict[int, float]
    risk: Risk | None


@dataclass(frozen=True)
class TradeOff:
    """Error against privacy: settings with smaller and larger epsilons around a plan."""

    target: Target
    settings: tuple[Setting, ...]

    def __str__(self) -> str:
        if not self.settings:
            return "no other epsilon is possible"
        first = self.settings[0]
        heads = [f"epsilon of {name}" for name in first.epsilons]
        name = next(iter(first.epsilons))
        risks = [f"risk of {name}"] if first.risk else []
        counts = [counted(n, "respondent") for n in first.errors]
        rows = [(*heads, *risks, *counts)]
        for setting in self.settings:
            cells = [plain(float(f"{epsilon:.4g}")) for epsilon in setting.epsilons.values()]
            after = setting.risk.after if setting.risk else None
            cells += ["" if after is None else f"{100 * after:.3g}%"] * len(risks)
            rows.append((*cells, *map(self.target.digits, setting.errors.values())))
        measure, unit = self.target.measure, f" in {self.target.unit}" if self.target.unit else ""
        return f"{measure[0].upper()}{measure[1:]}{unit}\n{table(rows, left=0)}"

    def to_dict(self) -> dict[str, Any]:
        return {"measure": self.target.measure, "settings": [asdict(s) for s in self.settings]}


@dataclass(frozen=True, eq=False)
class Plan:
    """The setting with which a query meets its target error, and the survey that has it."""

    target: Target
    find: str
    """What was unknown: "n", "epsilon", "within", "max_epsilon", "mechanism" or "bins"."""
    change: str | None
    """The attribute that was changed."""
    n: int
    survey: Any
    """The designed survey with the setting."""
    before: Agreement
    compared: dict[str, float] = field(default_factory=dict)
    """The expected error of each mechanism, or number of bins, that was compared."""

    @cached_property
    def error(self) -> float:
        """The expected error, in the measure of the target."""
        return self.target.error_of(self.survey, self.n)

    @cached_property
    def stderr(self) -> float:
        return self.target.stderr(self.survey, self.n)

    @property
    def is_met(self) -> bool:
        """Whether the target is met; a mechanism or bins may not suffice by themselves."""
        return self.error <= self.target.error

    @property
    def value(self) -> Any:
        """The setting: a number, a name, or an epsilon for each attribute."""
        asked = self.survey.asked
        if self.find == "n":
            return self.n
        if self.find == "epsilon":
            names = [*asked] if self.change is None else [self.change]
            return {name: asked[name].epsilon for name in names if not asked[name].is_public}
        if self.find == "mechanism":
            return self.survey.mechanisms[self.change].name
        return getattr(asked[self.change], self.find)

    @cached_property
    def n_worst_case(self) -> int | None:
        """The respondents that suffice for any distribution of values, if n was to be found."""
        if self.find != "n" or self.target.is_worst:
            return None
        try:
            return search.respondents_for(replace(self.target, prior=WORST), self.survey)
        except QueryError:  # the mean of a group, or a bias that is too large
            return None

    def __str__(self) -> str:
        parts = [filled(self.advice), *(filled(f"Warning: {w}.") for w in self.warnings)]
        lines = [filled(f"- {line}") for line in self.guarantees]
        parts.append("\n".join(["Guarantees of the planned survey:", *lines]))
        if self.compared:
            rows = [(self.find, "error")]
            rows += [(name, self.target.shown(error)) for name, error in self.compared.items()]
            parts.append(table(rows))
        return "\n\n".join([*parts, "\n".join(filled(f"- {note}") for note in self.notes)])

    @cached_property
    def advice(self) -> str:
        """The setting and its expected error in a few sentences."""
        target, what = self.target, self.target.words(self.survey)
        text = f"{self._setting} Then {what} has a {target.measure} of {target.shown(self.error)}"
        if target.confidence_level is not None:
            text += f" (SE {target.shown(self.stderr)})"
        text += f", {target.assumption}."
        if bias := target.bias(self.survey) if target.confidence_level is not None else 0.0:
            text += f" Bins alone cause {target.shown(bias)} of it."
        if self.n_worst_case is not None:
            many = counted(self.n_worst_case, "respondent")
            text += f" For any distribution of values {many} suffice."
        if not self.is_met:
            error = target.shown(target.error)
            text += f" This is above the target of {error}; find n or epsilon as well."
        return text

    @property
    def _setting(self) -> str:
        if self.find == "n":
            return f"Collect reports of {counted(self.n, 'respondent')}."
        respondents = f"With {counted(self.n, 'respondent')}"
        if self.find != "epsilon":
            best = ", the best of those below" if self.compared else ""
            return f"{respondents}, set {self.find} of {self.change} to {plain(self.value)}{best}."
        epsilons = ", ".join(f"{name} {plain(epsilon)}" for name, epsilon in self.value.items())
        asked, before = self.survey.asked, self.before.asked
        keys = ("max_epsilon", "optional")
        others = [key for key in keys if any(getattr(asked[name], key) for name in self.value)]
        factor = max(epsilon / before[name].epsilon for name, epsilon in self.value.items())
        scale = f"{factor:.4g} times the previous value"
        also = f"; scale {' and '.join(others)} by the same factor" if others else ""
        return f"{respondents}, set epsilon to {epsilons}: {scale}{also}."

    @property
    def warnings(self) -> list[str]:
        """A line for each weak guarantee of the survey."""
        return list(weak_guarantees(self.survey))

    @cached_property
    def guarantees(self) -> list[str]:
        """The guarantee and the risk of each attribute that the query depends on."""
        lines = []
        for name in self.target.names(self.survey):
            if not self.survey.attributes[name].is_public:
                told = _risk(self.survey, name)
                lines.append(f"{name}: {guarantee(self.survey, name)}{_in_words(told)}")
        return lines

    @cached_property
    def notes(self) -> list[str]:
        """What limits the plan."""
        notes = [f"{note[0].upper()}{note[1:]}." for note in self.target.notes(self.survey)]
        relative = self.target.group_size_error(self.survey, self.n)
        if relative > _SMALL_GROUP:
            notes.append(
                f"The size of the group has a relative error of {100 * relative:.0f} %, so the "
                "error of its mean may be larger than expected. Use a larger group, or more "
                "respondents."
            )
        if self.target.query == MEAN:
            notes.append("The error of a mean is a linear approximation.")
        notes.append("The error is that of randomization. Sampling error is not included.")
        return notes

    def trade_off(self) -> TradeOff:
        """Errors and risk for smaller and larger epsilons; designs a survey for each.

        Epsilons that no mechanism can have are left out.
        """
        names = [self.change] if self.change else self.target.names(self.survey)
        names = [name for name in names if not self.survey.asked[name].is_public]
        counts = {self.n if f == 1 else round(float(f"{self.n * f:.2g}")) for f in FACTORS}
        settings = []
        for factor in FACTORS:
            try:
                survey = search.with_epsilon(self.survey, names, factor)
            except (CertificateError, QueryError, InvalidSpecError):
                continue
            errors = {n: self.target.error_of(survey, n) for n in sorted(counts) if n >= 1}
            epsilons = {name: survey.asked[name].epsilon for name in names}
            settings.append(Setting(factor, epsilons, errors, _risk(survey, names[0])))
        return TradeOff(self.target, tuple(settings))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for programs."""
        target = self.target
        return {
            "survey": self.survey.fingerprint,
            "query": target.words(self.survey),
            "find": self.find,
            "change": self.change,
            "value": self.value,
            "n": self.n,
            "n_worst_case": self.n_worst_case,
            "target_error": target.error,
            "confidence_level": target.confidence_level,
            "error": self.error,
            "stderr": self.stderr,
            "is_met": self.is_met,
            "assumption": target.assumption,
            "advice": self.advice,
            "warnings": self.warnings,
            "guarantees": self.guarantees,
            "compared": self.compared,
            "notes": self.notes,
        }


def _risk(survey: Agreement, name: str) -> Risk | None:
    """For the distance for which the guarantee is stated; None for very large domains."""
    if survey.attributes[name].size > MOST_POSITIONS >> 4:
        return None
    return risk(survey, name, within=usual_within(survey, name))


def _in_words(found: Risk | None) -> str:
    if found is None or found.after is None:
        return ""
    guess = f"guess within {plain(found.within)}" if found.within else "guess"
    before, after = f"{100 * found.before:.3g}%", f"{100 * found.after:.3g}%"
    return f" The best {guess} is right for {after} of respondents ({before} without reports)."


def plan(
    survey: Agreement,
    target_error: Any,
    where: Any = None,
    *,
    query: Any = "fraction",
    attribute: Any = None,
    n: Any = None,
    find: Any = None,
    change: Any = None,
    prior: Any = "uniform",
    confidence_level: Any = 0.95,
) -> Plan:
    """The setting to find for a target error: n or, if n is given, epsilon."""
    find = ("n" if n is None else "epsilon") if find is None else find
    if not isinstance(find, str) or find not in FINDS:
        known = f"{', '.join(FINDS[:-1])} or {FINDS[-1]}"
        raise QueryError(f"find is {known}, not {shown(find)}{guess(find, FINDS)}")
    target = Target(query, where, attribute, target_error, confidence_level, prior)
    if not target.stderr(survey, 1) > 0:
        raise QueryError(f"the error of {target.words(survey)} is zero; give a condition, where=")
    names = _changed(survey, target, find, change)
    if find == "n":
        if n is not None:
            raise QueryError(f"n is to be found; leave n={shown(n)} out, or find another setting")
        respondents = search.respondents_for(target, survey)
        return Plan(target, find, None, respondents, survey, survey)
    if not is_whole(n) or not 1 <= n <= search.MOST_RESPONDENTS:
        raise QueryError(
            f"to find {find}, state the number of respondents, n= from 1 to "
            f"{search.MOST_RESPONDENTS:,}, not {shown(n)}"
        )
    n = int(n)
    if find == "epsilon":
        design = search.epsilon_for(target, survey, n, names)
        return Plan(target, find, change, n, design, survey)
    (name,) = names
    if find in ("within", "max_epsilon"):
        search_for = search.within_for if find == "within" else search.max_epsilon_for
        return Plan(target, find, name, n, search_for(target, survey, n, name), survey)
    choices = (search.mechanisms_for if find == "mechanism" else search.bins_for)(survey, name)
    errors: dict[Any, float] = {}
    best: Any = None
    for choice, design in choices.items():
        try:
            errors[choice] = target.error_of(design, n)
        except QueryError:  # the condition cuts bins
            continue
        if best is None or errors[choice] < _BETTER * errors[best]:
            best = choice
    if best is None:
        raise QueryError(f"{target.words(survey)} cannot be estimated with any other {find}")
    order = sorted(errors, key=lambda one: errors[one]) if find == "mechanism" else list(errors)
    compared = {plain(choice): errors[choice] for choice in order}
    return Plan(target, find, name, n, choices[best], survey, compared)


def _changed(survey: Agreement, target: Target, find: str, change: Any) -> list[str]:
    """The attributes that a setting is changed of."""
    private = [name for name, a in survey.asked.items() if not a.is_public]
    needed = [name for name in target.names(survey) if name in private]
    if change is not None:
        attribute_of(survey, change)
        if find == "n":
            raise QueryError(f"n is not a setting of {change}; leave change= out")
        if change not in needed:
            raise QueryError(
                f"{target.words(survey)} does not depend on {change}; change {listed(needed)}"
            )
        return [change]
    if find in _OF_ONE and len(needed) != 1:
        there = listed(needed or private)
        raise QueryError(f"state the attribute whose {find} is to be found, change={there}")
    return needed if find in _OF_ONE else private
