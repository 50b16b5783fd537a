"""Table 2 of the paper again: orders of error, with all mechanisms on the same people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from metricldp.basics.text import counted, table
from metricldp.channels.mechanism import ANY_TWO, PER_STEP
from metricldp.design.registry import AUTO
from metricldp.lab.contest import WITHIN
from metricldp.lab.pages import Page, Progress, block, filled, rows_of
from metricldp.lab.reproduce.table2 import (
    FALSE_ALARM,
    FEWEST,
    FINE,
    Checked,
    Point,
    Setting,
    Slope,
    check,
    holds,
    points,
    slopes,
)
from metricldp.lab.reproduce.table2_pictures import meant, pictures

QUICK_NOTE = "\nA quick version, for trying things out: smaller domains and fewer people.\n"
_RESAMPLED = ("errors", "quantiles")


def page(setting: Setting, progress: Progress) -> Page:
    """Compute, and check by simulation."""
    found = points(setting, lambda done: progress(0.6 * done))
    checked = check(setting, lambda done: progress(0.6 + 0.4 * done))
    fitted = slopes(found)
    tables: dict[str, Sequence[Any]] = {
        "table2": found,
        "table2-slopes": fitted,
        "table2-checked": checked,
    }
    return Page(
        "table2",
        describe(setting, found, fitted, checked),
        {f"{name}.csv": rows_of(rows, _RESAMPLED) for name, rows in tables.items()},
        pictures(setting, found),
    )


# What it says


def describe(
    setting: Setting,
    found: Sequence[Point],
    fitted: Sequence[Slope],
    checked: Sequence[Checked],
) -> str:
    """What was done, what came out, and who wins where; a Markdown page."""
    last = setting.sizes[-1]
    asked = ", ".join(f"{p:g}" for p in setting.probabilities)
    wide = f"{setting.epsilon * (last - 1):,g}"
    shown = asdict(setting) | {"asked": asked, "last": last, "wide": wide}
    parts = [
        "# Table 2 again\n",
        *(filled(words) + "\n" for words in _PREFACE.format(**shown).split("\n\n")),
        "## How errors grow with m\n",
        filled(_ORDERS.format(fine=FINE, fewest=FEWEST, resamples=setting.resamples)),
        "",
        *(filled(f"- {line}") for line in _growth(setting, found, fitted)),
        "",
        block(_slope_table(setting, found, fitted)),
        "Mean squared error of ranges per person, one attribute, against m:\n",
        block(_grid(found, "m", "size", "error")),
        "Mean error of quantiles times the root of the number of people, simulated (± standard "
        "error), against\nm:\n",
        block(_grid(found, "m", "size", "quantile")),
        filled(_DASHES) + "\n",
        "Mean squared error of ranges over two attributes per person, against m:\n",
        block(_grid(found, "m, D = 2", "size", "error")),
        "## Against D\n",
        filled(_DIMENSIONS.format(**asdict(setting))),
        "",
        block(_grid(found, "D", "attributes", "error")),
        "## Against epsilon\n",
        f"{setting.middle} values, one attribute; ranges, then quantiles:\n",
        block(_grid(found, "epsilon", "epsilon", "error")),
        block(_grid(found, "epsilon", "epsilon", "quantile")),
        "## At an equal meaning of epsilon\n",
        filled(_MEANING.format(**asdict(setting))),
        "",
        *(part for count, size, _ in setting.meanings for part in _meaning(found, count, size)),
        _agreement(setting, checked),
    ]
    return "\n".join(parts)


_PREFACE = """{people:,} people, half of them spread evenly over the domain, half by Beta(2, 5), the
same places whatever the size. {questions} random ranges ({questions_of_many} over several
attributes): both ends of every attribute's part are drawn uniformly. All mechanisms see the same
people and the same questions. The error is the mean over the questions of the exact expected
squared error, over the number of people: people squared per person. Times the number of people, the
root of it is the usual error in people.

**Two promises are compared, and there are always two columns for them.** "step" is the epsilon
between two people one step apart in one attribute, "width" that between opposite ends of the whole
domain, all attributes together. Mechanisms with epsilon per step keep little at the width: at m =
{last:,} and epsilon = {epsilon:g} per step it is {wide}, which is nothing. Mechanisms with one
epsilon between any two values promise more, and pay for it. An error means nothing without its two
columns.

The quantiles are {asked}; their error is the paper's, the distance between the probability asked
for and the true percentiles of the value given. It has no exact form: it is simulated, {quantiles}
times, with shares made monotone by isotonic regression. People, questions and coins are seeded, so
that this page comes out the same again; no real survey does so."""

_ORDERS = """Table 2 of the paper states orders in log m. Epsilon-LDP: n log m / eps^2 for one
attribute (its sections 1 and 4 say log^2 m, which is also what its own formula for D attributes,
(log m)^(D + D_R), gives at D = 1), and log m sqrt(log log m) for quantiles. Epsilon per step:
nothing in m for ranges, sqrt(log log m) for quantiles. Below is the exponent b of error ~ (log2
m)^b, fitted on logarithmic scales, and behind the comma the exponent between the last two sizes
alone. The interval holds 95% of the fits to {resamples} bootstrap samples: of people and questions
together, the same ones at every m, for ranges; of the simulated repetitions for quantiles. It tells
how much the exponent depends on who was asked what. Whether there is such a law at all it does not
tell: a curve that levels off has an exponent above 0, but a local one that goes to 0. Quantiles are
fitted from m = {fine} on, because a value of a coarser domain holds so many percentiles that it is
often right. Fewer than {fewest} sizes are too few for an interval. An empty cell is a mechanism
that is not there."""

_DASHES = """A dash stands where a mechanism is too slow to be simulated at that size, an empty cell
where it is too slow to be computed, or needs several attributes."""

_DIMENSIONS = """D attributes of {modest} values, epsilon = {epsilon:g} for each. A mechanism with a
channel for each attribute then keeps D times that between people who differ in all of them: see the
width. HIO blurs the whole person at once: its epsilon is that of one attribute, or, in the lines
that say so, that of all together."""

_MEANING = """One epsilon per step against the same epsilon for everything is no fair contest: a
step may be a year, or a cent. So let values up to w steps apart get epsilon = {epsilon:g}, by one
of three promises that all keep this. "epsilon within w" is just what was said: {epsilon:g} up to w
steps apart, {epsilon:g} more for every w steps beyond; neighbours may be told apart by the whole
{epsilon:g}. "epsilon per step" gives every step {epsilon:g}/w and protects neighbours better than
was asked. "epsilon between any two" does not depend on w and protects far values better than was
asked. So each error is to be read with its step and width, which stand above the rows they belong
to; HIO has epsilon in all, or D times epsilon, at both. At w = m - 1 all pairs are within w."""


def _shown(number: float | None) -> str:
    if number is None:
        return "-"
    if 0.01 <= number < 1e5:
        return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
    return f"{number:.1e}"


def _grid(found: Sequence[Point], panel: str, across: str, what: str) -> str:
    """A row for each contender, its promise, and a column for each place."""
    here = [p for p in found if p.panel == panel]
    places = sorted({getattr(p, across) for p in here})
    letter = {"size": "m", "attributes": "D", "epsilon": "eps", "within": "w"}[across]
    rows = [["mechanism", "step", "width", *(f"{letter} = {place:g}" for place in places)]]
    for title in dict.fromkeys(p.title for p in here):
        mine = {getattr(p, across): p for p in here if p.title == title}
        if what == "quantile" and not any(p.quantile is not None for p in mine.values()):
            continue
        cells = (_cell(mine[x], what) if x in mine else "" for x in places)
        rows.append([title, *_privacy(list(mine.values())), *cells])
    return table(rows)


def _cell(point: Point, what: str) -> str:
    """An exact error, or a simulated one with as many digits as its standard error allows."""
    if what == "error" or point.quantile is None or not point.quantile_error:
        return _shown(getattr(point, what))
    digits = max(0, -math.floor(math.log10(point.quantile_error)))
    return f"{point.quantile:,.{digits}f} ± {point.quantile_error:.{digits}f}"


def _meaning(found: Sequence[Point], attributes: int, size: int) -> Iterator[str]:
    """Against w, for so many attributes and values: who is best, and the table."""
    here = meant(found, attributes, size)
    yield f"### {counted(attributes, 'attribute', 'attributes')} of {size:,} values\n"
    yield from (filled(f"- {line}") for line in _best_as_meant(here))
    yield f"\n{block(_meaning_grid(here))}"


def _meaning_grid(here: Sequence[Point]) -> str:
    """Step and width of every w above the rows of each promise."""
    places = sorted({p.within for p in here})
    rows = [["mechanism", *(f"w = {place:,}" for place in places)]]
    for promise in (WITHIN, PER_STEP, ANY_TWO):
        mine = [p for p in here if p.promise == promise]
        for what in ("step", "width"):
            at = {p.within: getattr(p, what) for p in reversed(mine)}
            rows.append([f"{promise}: {what}", *(f"{at[place]:.3g}" for place in places)])
        for title in dict.fromkeys(p.title for p in mine):
            errors = {p.within: p.error for p in mine if p.title == title}
            rows.append([title, *(_shown(errors.get(place)) for place in places)])
    return table(rows)


def _privacy(mine: Sequence[Point]) -> list[str]:
    """Step and width of some points."""
    return [_between([getattr(p, what) for p in mine]) for what in ("step", "width")]


def _between(values: Sequence[float]) -> str:
    """One number, or the first and the last of several."""
    ends = dict.fromkeys(f"{value:g}" for value in (*values[:1], *values[-1:]))
    return " to ".join(ends)


def _slope_table(setting: Setting, found: Sequence[Point], fitted: Sequence[Slope]) -> str:
    """Exponents beside the orders of the paper; the last column needs no law."""
    half, last = setting.sizes[len(setting.sizes) // 2], setting.sizes[-1]
    rows = [["mechanism", "step", "width", "D = 1", "paper", "quantiles", "paper"]]
    rows[0] += [f"m = {last:,} / {half:,}", "step", "width", "D = 2", "paper"]
    for title in dict.fromkeys(p.title for p in found if p.promise != WITHIN):
        alone, two = (
            [p for p in found if (p.panel, p.title) == (panel, title)]
            for panel in ("m", "m, D = 2")
        )
        at = {p.size: p.error for p in alone}
        growth = f"{at[last] / at[half]:.3g}" if half in at and last in at else ""
        one = (*_fit(alone, "error", fitted), *_fit(alone, "quantile", fitted))
        both = (*_privacy(two), *_fit(two, "error", fitted))
        rows.append([title, *_privacy(alone), *one, growth, *both])
    return table(rows)


def _fit(mine: Sequence[Point], what: str, fitted: Sequence[Slope]) -> list[str]:
    """The exponent with its interval and what the paper states; nothing where nothing is known."""
    known = [p for p in mine if getattr(p, what) is not None]
    if not known:
        return ["", ""]
    place = known[0].title, known[0].attributes, what
    slope = next((s for s in fitted if (s.title, s.attributes, s.what) == place), None)
    order = _order(known[0], what)
    if slope is None:
        return ["too few sizes", order]
    sure = "too few sizes" if slope.low is None else f"{slope.low:.2f} to {slope.high:.2f}"
    return [f"{slope.exponent:.2f} ({sure}), {slope.local:.2f}", order]


_LOGARITHMIC = ("hierarchy", "haar", "hio")
"""The mechanisms under epsilon-LDP whose order the paper states."""


def _order(point: Point, what: str) -> str:
    """What the paper states, with powers of log log m left out; nothing where it states nothing."""
    kind = point.attributes, what
    if point.mechanism == "prefix":
        return "0" if kind == (1, "error") else ""
    if point.mechanism == "faces":
        return "2"
    if point.promise == PER_STEP:
        return "0"
    if not point.mechanism.startswith(_LOGARITHMIC):
        return ""
    return {(1, "error"): "1 or 2", (2, "error"): "4", (1, "quantile"): "1"}[kind]


def _growth(setting: Setting, found: Sequence[Point], fitted: Sequence[Slope]) -> list[str]:
    """What the slopes say, in words that follow from the numbers."""
    here = [p for p in found if p.panel == "m"]
    lines = []
    for mechanism in ("geometric", "threshold"):
        mine = {p.size: p.error for p in here if p.mechanism == mechanism}
        if mine:
            title = next(p.title for p in here if p.mechanism == mechanism)
            first, last = mine[min(mine)], mine[max(mine)]
            most = max(mine, key=lambda size: mine[size])
            words = "falls" if last < first / 2 else "stays" if last < 1.5 * first else "grows"
            lines.append(
                f"{title}: {words}, {_shown(first)} at m = {min(mine):,}, "
                f"{_shown(last)} at m = {max(mine):,}, at most {_shown(mine[most])} in between. "
                + _WHY[mechanism]
            )
            lines[-1] += "".join(
                f" Between the last two sizes its exponent is {s.local:.2f}."
                for s in fitted
                if (s.mechanism, s.attributes, s.what) == (mechanism, 1, "error")
            )
    logs = [s for s in fitted if s.mechanism.startswith(_LOGARITHMIC) and s.what == "error"]
    alone = [s for s in logs if s.attributes == 1]
    if alone:
        low, high = min(s.exponent for s in alone), max(s.exponent for s in alone)
        lines.append(
            f"Hierarchies and wavelets grow like a power of log m: {low:.1f} to {high:.1f} for one "
            "attribute."
        )
    for slope in (s for s in fitted if s.mechanism == "faces"):
        lines.append(
            f"{slope.title}, the extension of Haney et al. that the paper's second row is about: "
            f"{slope.exponent:.1f} for two attributes, {slope.local:.1f} between the last two "
            "sizes. " + _FACES
        )
    return lines


_FACES = """The paper states 2, without a proof. Here every person adds the noise that Haney et al.
let a curator add, whose order is 3 (D - 1); we know of no way to save the third logarithm. Of the
rows with epsilon per step it is the one whose error is of order 1/epsilon^2 for every D."""

_WHY = {
    "geometric": "Only people near the ends of a range can be taken for others, and of so many "
    "people fewer are near, the more values there are.",
    "threshold": "Each end of a range costs the same noise from everybody, whatever m: "
    "(coth^2(epsilon/2) - 1)/2 for both, 1.84 at epsilon = 1, is the most there can be. Ends of "
    "the domain are free, and met more rarely the larger it is: so the error comes up to that "
    "bound, and an exponent above 0 on small m is no growth.",
}


def _best_as_meant(here: Sequence[Point]) -> Iterator[str]:
    """The best of each promise at every w, and from where on one epsilon for all pairs wins."""
    wins, worse = [], 1.0
    for within in sorted({p.within for p in here}):
        at = [p for p in here if p.within == within and p.mechanism != AUTO]
        best = {}
        for p in sorted(at, key=lambda p: -p.error):
            best[p.promise] = p
        meant, step, plain = (best[promise] for promise in (WITHIN, PER_STEP, ANY_TWO))
        wins += [within] if plain.error < step.error else []
        worse = max(worse, meant.error / min(step.error, plain.error))
        told = (f"{p.promise} {_shown(p.error)} ({p.title})" for p in (meant, step, plain))
        yield f"w = {within:,}: {', '.join(told)}."
    first = f"from w = {min(wins):,} on, of those tried" if wins else "at no w tried"
    behind = "never" if worse < 1.001 else f"at most {worse - 1:.1%}"
    yield f"Epsilon between any two beats epsilon per step {first}; within w is {behind} behind."


def _agreement(setting: Setting, checked: Sequence[Checked]) -> str:
    verdict = "holds" if holds(checked) else "FAILS"
    words = f"""At {len(setting.checks)} places {setting.checked_people:,} people are blurred and
        asked about {setting.repetitions} times. Each question's squared errors over their exact
        variance, added up over the repetitions, are chi-squared; that checks bias and variance at
        once. The last column is the chance of the worst question of each line, times the number of
        questions. The check at one false alarm in {round(1 / FALSE_ALARM):,} runs {verdict}."""
    rows = [["mechanism", "step", "width", "D", "m", "eps", "exact", "simulated", "± s.e."]]
    rows[0].append("chance")
    for one in checked:
        place = [f"{n:g}" for n in (one.step, one.width, one.attributes, one.size, one.epsilon)]
        numbers = [f"{one.exact:.4g}", f"{one.simulated:.4g}", f"{one.standard_error:.1g}"]
        rows.append([one.title, *place, *numbers, f"{one.surprise:.2g}"])
    head = "## Do simulation and theory agree\n"
    return "\n".join([head, filled(words), "", block(table(rows))])
