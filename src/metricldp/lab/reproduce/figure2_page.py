"""Figure 2 of the paper again: the picture, the numbers, and the text that says what they show."""

from __future__ import annotations

import math
from dataclasses import asdict

from metricldp.answers.theorems import paper_range_variance
from metricldp.basics.text import table
from metricldp.lab.pages import (
    GREY,
    Curve,
    Page,
    Panel,
    Panels,
    Progress,
    block,
    filled,
    hue,
    rows_of,
)
from metricldp.lab.reproduce.figure2 import (
    LIMIT,
    MECHANISMS,
    QUERIES,
    Point,
    RangeError,
    Setting,
    each_range,
    simulate,
)

QUICK_NOTE = "A quick version, for trying things out: fewer attributes than the paper's figure.\n"


def page(setting: Setting, progress: Progress) -> Page:
    """Simulate, and compute the error of each range."""
    points, ranges = simulate(setting, progress), each_range(setting)
    title, files = _TITLE.format(**asdict(setting)), ("figure2.png", "figure2.svg")
    return Page(
        "figure2",
        describe(setting, points, ranges),
        {"figure2.csv": rows_of(points), "figure2-ranges.csv": rows_of(ranges)},
        [Panels(files, title, picture(points, ranges), size=(2.65, 2.7), note=_NOTE)],
    )


_TITLE = "Figure 2 again: {people} people, {size} values per attribute, Zipf {zipf}"
_NOTE = """Lines are exact, dots are simulated, ± 2 standard errors. Dashes: Theorem 2, constant 1.
Below: for every range the exact error of threshold-paper over what Theorem 3 allows."""
_SHADES = ("#5aa9d6", "#0072b2", "#8a2be2", "#1a1a1a")


def picture(points: list[Point], ranges: list[RangeError]) -> list[list[Panel]]:
    """A column for each number of attributes: single values, ranges, and each range alone."""
    columns = sorted({point.attributes for point in points})
    rows = [[_against_epsilon(points, d, queries) for d in columns] for queries in QUERIES]
    return [*rows, [_each_range(ranges, d) for d in columns]]


def _against_epsilon(points: list[Point], attributes: int, queries: str) -> Panel:
    here = [p for p in points if (p.attributes, p.queries) == (attributes, queries)]
    paper = [p for p in here if p.mechanism == MECHANISMS[0]]
    epsilons = [p.epsilon for p in paper]
    bound = [p.theorem2 for p in paper]
    curves = [Curve("Theorem 2", epsilons, bound, GREY, "dashes")]
    for place, mechanism in enumerate(MECHANISMS):
        mine = [p for p in here if p.mechanism == mechanism]
        color, errors = hue((2, 1, 0)[place]), [2 * p.standard_error for p in mine]
        exact, drawn = [p.exact for p in mine], [p.simulated for p in mine]
        curves.append(Curve(mechanism, epsilons, exact, color))
        curves.append(Curve("", epsilons, drawn, color, "points", errors))
    return Panel(
        f"D = {attributes}: {queries}",
        "epsilon per step",
        "mean squared error (people²)",
        curves,
        above=("epsilon across the whole domain", paper[0].full_width_epsilon / paper[0].epsilon),
    )


def _each_range(ranges: list[RangeError], attributes: int) -> Panel:
    epsilons = sorted({r.epsilon for r in ranges})
    shown = [e for e in (0.5, 1.0, 2.0, 4.0) if e in epsilons]
    curves = []
    for place, epsilon in enumerate(shown):
        mine = [r for r in ranges if (r.attributes, r.epsilon) == (attributes, epsilon)]
        inside, ratios = [100 * r.inside for r in mine], [r.ratio for r in mine]
        curves.append(Curve(f"ε = {epsilon:g}", inside, ratios, _SHADES[place], "points"))
    return Panel(
        f"D = {attributes}: each range",
        "people inside the range (%)",
        "exact error over Theorem 3",
        curves,
        logs="",
        line=1.0,
    )


def describe(setting: Setting, points: list[Point], ranges: list[RangeError]) -> str:
    """What was done, what came out, and where the bound is exceeded; a Markdown page."""
    shown = asdict(setting) | {"counts": " and ".join(map(str, setting.attributes))}
    parts = [
        _PREFACE.format(**shown),
        _agreement(setting, points),
        "## Where the bound is exceeded\n",
        *(_exceeded(here) for here in _groups(points, MECHANISMS[0])),
        "",
        _ALONE,
        block(_alone(setting, ranges)),
        "## All numbers\n",
        "For each mechanism the exact expectation, the simulation, and its standard error.\n",
    ]
    for here in _groups(points):
        parts += [f"D = {here[0].attributes}, {here[0].queries}:\n", block(_numbers(here))]
    return "\n".join(parts)


_PREFACE = """# Figure 2 again

{people} people, {counts} attributes of {size} values each, every attribute independently Zipf with
parameter {zipf} cut off at {size} values. All single values, and {ranges} random ranges: every
attribute's part is one of its {size} ({size} + 1)/2 ranges, all equally likely, the whole domain
among them. The mechanism (blurring and estimation) is repeated {repetitions} times on the same
people. The people and the ranges are drawn with seed {seed}. The coins of the blurring are seeded
too, so that this page comes out the same again: nobody would be protected by them, and no real
survey does so.

Two errors are called "squared error", both in people squared:

- the **mean squared error** of a set of queries, (estimate - truth)^2 averaged over the queries and
  repetitions: it is what the paper's figure shows. "exact" is its expectation over the coins, for
  these very people and queries.
- the **expected squared error of one query**, its variance over the coins: it is what Theorems 2
  and 3 state, for every query.

The bound is Theorem 2 with constant 1, as in the paper's figure. Theorem 3 with constant 1 is the
same for a range that cuts every attribute, and twice that for each attribute left whole.

`epsilon` is per step of one attribute. The guarantee between opposite corners of the domain adds up
over the attributes and their {size} - 1 steps each: it stands in the column "across".
"""

_ALONE = """The theorems speak of every query. Below are the ranges one by one, each against
Theorem 3 with its own number of cut attributes. Most ranges hold few people. The last column is the
ratio of a range that cuts every attribute and has everybody inside, ((kappa^2 + 1)/2)^D - 1 over
the bound:
"""


def _groups(points: list[Point], mechanism: str | None = None) -> list[list[Point]]:
    """The points of each number of attributes and kind of query, in order."""
    groups: dict[tuple[int, str], list[Point]] = {}
    for point in points:
        if mechanism in (None, point.mechanism):
            groups.setdefault((point.attributes, point.queries), []).append(point)
    return list(groups.values())


def _agreement(setting: Setting, points: list[Point]) -> str:
    few, many = (max(abs(p.deviations[k]) for p in points) for k in range(2))
    verdict = "holds" if max(few, many) <= LIMIT else "FAILS"
    words = f"""{setting.repetitions} repetitions say little about their own spread, so
        {setting.extra} more are run for every point. The standard deviation of one repetition's
        mean squared error over these, divided by sqrt({setting.repetitions}), is the standard error
        of what is shown. The queries of a repetition share its reports, so they are never counted
        as independent. All {len(points)} points are compared with their exact expectation: the
        {setting.repetitions} repetitions are at most {few:.1f} standard errors off, the
        {setting.extra} at most {many:.1f}. The check at {LIMIT:g} standard errors {verdict}."""
    return f"## Do simulation and theory agree\n\n{filled(words)}\n"


def _exceeded(points: list[Point]) -> str:
    """One kind of query: the mean over all of them against Theorem 2."""
    attributes, queries = points[0].attributes, points[0].queries
    words = f"- D = {attributes}, {queries}: the mean squared error of threshold-paper is "
    over = [p for p in points if p.exact > p.theorem2]
    if over:
        listed = ", ".join(
            f"{p.epsilon:g} (exact {p.exact / p.theorem2:.3f} of it, simulated "
            f"{p.simulated / p.theorem2:.3f}; {p.exact / p.theorem3:.3f} of the mean of Theorem 3)"
            for p in over
        )
        words += f"above Theorem 2 at epsilon {listed}."
    else:
        most = max(points, key=lambda p: p.exact / p.theorem2)
        ratio = most.exact / most.theorem2
        words += f"below Theorem 2 everywhere, at most {ratio:.3f} of it (at {most.epsilon:g})."
    share, worst = max(p.beyond for p in points), max(p.worst for p in points)
    words += f" One by one, {f'up to {share:.1%}' if share else 'none'} of them exceed "
    words += f"{'Theorem 2' if queries == QUERIES[0] else 'Theorem 3'}; the largest ratio is "
    return filled(f"{words}{worst:.3f}.")


def _alone(setting: Setting, ranges: list[RangeError]) -> str:
    head = ("D", "epsilon", "across", "ranges above", "largest ratio", "people inside it")
    rows = [(*head, "if all were inside")]
    for attributes in setting.attributes:
        for epsilon in setting.epsilons:
            mine = [r for r in ranges if (r.attributes, r.epsilon) == (attributes, epsilon)]
            worst = max(mine, key=lambda r: r.ratio)
            bound = paper_range_variance(epsilon, attributes, attributes, 1)
            inside = ((1 / math.tanh(epsilon / 2) ** 2 + 1) / 2) ** attributes - 1
            across = attributes * (setting.size - 1) * epsilon
            above = f"{sum(r.ratio > 1 for r in mine)} of {len(mine)}"
            ratios = (f"{worst.ratio:.3f}", f"{worst.inside:.1%}", f"{inside / bound:.3f}")
            rows.append((str(attributes), f"{epsilon:g}", f"{across:g}", above, *ratios))
    return table(rows, left=0)


def _numbers(points: list[Point]) -> str:
    head = ["epsilon", "across", "Theorem 2"]
    for mechanism in MECHANISMS:
        head += [mechanism, "simulated", "± s.e."]
    rows = [head]
    for epsilon in dict.fromkeys(p.epsilon for p in points):
        mine = {p.mechanism: p for p in points if p.epsilon == epsilon}
        paper = mine[MECHANISMS[0]]
        row = [f"{epsilon:g}", f"{paper.full_width_epsilon:g}", f"{paper.theorem2:.3g}"]
        for mechanism in MECHANISMS:
            p = mine[mechanism]
            row += [f"{p.exact:.3g}", f"{p.simulated:.3g}", f"{p.standard_error:.1g}"]
        rows.append(row)
    return table(rows, left=0)
