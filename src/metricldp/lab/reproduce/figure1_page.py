"""Figure 1 of the paper again: the metric, the errors under it, and what the relaxation buys."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction

from metricldp.basics.text import table
from metricldp.lab.pages import (
    COLORS,
    GREY,
    Curve,
    MetricGraph,
    Page,
    Panel,
    Panels,
    Progress,
    block,
    filled,
    rows_of,
)
from metricldp.lab.reproduce.figure1 import (
    LIMIT,
    PLANS,
    Point,
    Setting,
    Simulated,
    points,
    simulate,
)
from metricldp.metrics import Sensitive

QUICK_NOTE = "\nA quick version, for trying things out: fewer values than the paper's figure.\n"


def page(setting: Setting, progress: Progress) -> Page:
    """Compute, and simulate some points."""
    exact, simulated = points(setting), simulate(setting, progress)
    title = "Figure 1 again: {size} values, {people:,} people, ε = {epsilon:g}"
    errors = Panels(
        ("figure1.png", "figure1.svg"),
        title.format(**asdict(setting)),
        picture(exact, simulated),
        size=(5.3, 4.0),
        note=_NOTE,
    )
    return Page(
        "figure1",
        describe(setting, exact, simulated),
        {"figure1.csv": rows_of(exact), "figure1-simulated.csv": rows_of(simulated)},
        [metric_picture(), errors],
    )


def metric_picture() -> MetricGraph:
    """A small E_S: three sensitive values of nine."""
    metric = Sensitive(frozenset({0, 1, 2}), Fraction(1))
    labels = [f"{'sensitive' if x in metric.places else 'value'} {x + 1}" for x in range(9)]
    title = "E_S: ε where an edge is, 2ε by way of a sensitive value"
    return MetricGraph(("figure1-metric.png",), title, metric, labels, metric.places)


_CURVES = {
    "laplace": ("matrix, Laplace noise (paper)", COLORS[2], "line"),
    "matrix": ("matrix", COLORS[0], "line"),
    "clipped": ("matrix, clipped to bits", GREY, "line"),
    "unary": ("unary", COLORS[1], "line"),
    "histogram": ("histogram-sum (paper)", COLORS[2], "dashes"),
    "unary_plain": ("unary-optimised", GREY, "dashes"),
    "subset": ("subset", COLORS[3], "dashes"),
}
_NOTE = """Solid lines keep E_S: ε between two values of which one is sensitive, 2ε between others.
Dashes keep ε between any two values. Lines are exact; dots are simulated, ± 2 standard errors."""


def picture(exact: list[Point], simulated: list[Simulated]) -> list[list[Panel]]:
    """Errors against the number of sensitive values, and the simulated points.

    Response is left to the table: it is so far above the others that they would look alike.
    """
    sizes = [point.sensitive for point in exact]
    curves = [
        Curve(label, sizes, [getattr(point, key) / 1e6 for point in exact], color, look)
        for key, (label, color, look) in _CURVES.items()
    ]
    for mechanism in PLANS:
        mine = [s for s in simulated if s.mechanism == mechanism]
        color = _CURVES[mechanism][1]
        places, means = [s.sensitive for s in mine], [s.mean / 1e6 for s in mine]
        errors = [2 * s.standard_error / 1e6 for s in mine]
        curves.append(Curve("", places, means, color, "points", errors))
    panel = Panel(
        "",
        "sensitive values",
        "total squared error (millions of people²)",
        curves,
        logs="",
        from_zero=True,
    )
    return [[panel]]


# What it says


def describe(setting: Setting, exact: list[Point], simulated: list[Simulated]) -> str:
    """What was done, what came out, and who wins where; a Markdown page."""
    parts = [
        _PREFACE.format(**asdict(setting)),
        "## In numbers\n\nIn millions of people squared:\n",
        block(_numbers([exact[k - 1] for k in setting.shown])),
        "## What the relaxation buys\n",
        *(filled(f"- {line}") for line in _findings(setting, exact)),
        "",
        _agreement(setting, simulated),
    ]
    return "\n".join(parts)


_PREFACE = """# Figure 1 again

{size} values, {people:,} people spread evenly over them, epsilon = {epsilon:g}. The error is the
expected squared error of an estimated frequency, in people squared, added up over all values.

Two different promises are compared, and no figure below makes sense without its promise:

- **E_S**: epsilon between two values of which at least one is in the sensitive set S, 2 epsilon
  between two values outside S.
- **epsilon-LDP**: epsilon between any two values. It is the stronger promise, and does not depend
  on S. Every mechanism that keeps it keeps E_S as well.

Under E_S, the matrix mechanism of section 3.2 (the identity as strategy, scales in closed form):
with the paper's Laplace noise; as the channel `matrix`, with geometric noise on whole numbers; and
with reach 0, clipped to bits. Then the channel `unary`, one bit per value with probabilities
optimised for E_S. Under epsilon-LDP: the histogram encoding that the paper compares with; optimised
unary encoding (Wang et al. 2017: p = 1/2, q = 1/(e^epsilon + 1), error 4 e^epsilon/(e^epsilon -
1)^2 for each value and person); subset selection (Ye and Barg 2018), the plain mechanism with the
least error known; and k-ary randomized response.

Laplace noise, histogram encoding and optimised unary encoding are as published and do not use that
all frequencies add up to the number of people. The channels do, and so does subset selection by its
nature. It would lower the others by about one part in {size}.
"""


def _numbers(shown: list[Point]) -> str:
    kept = {"laplace": "Laplace", "matrix": "matrix", "clipped": "clipped", "unary": "unary"}
    plain = {
        "histogram": "histogram",
        "unary_plain": "unary",
        "subset": "subset",
        "response": "response",
    }
    rows = [
        ["|S|", *["E_S"] * len(kept), *["epsilon-LDP"] * len(plain)],
        ["", *kept.values(), *plain.values()],
    ]
    for point in shown:
        numbers = (getattr(point, key) / 1e6 for key in (*kept, *plain))
        rows.append([str(point.sensitive), *(f"{number:.3f}" for number in numbers)])
    return table(rows, left=0)


def _findings(setting: Setting, exact: list[Point]) -> list[str]:
    """Who wins, in words that follow from the numbers."""
    shown = [exact[k - 1] for k in setting.shown]
    sets = ", ".join(str(k) for k in setting.shown)
    paper = ", ".join(f"{p.laplace / p.histogram:.3f}" for p in shown)
    best = ", ".join(f"{p.laplace / p.plain:.3f}" for p in shown)
    ours = ", ".join(f"{p.unary / p.plain:.3f}" for p in shown)
    over = [p.clipped / p.unary - 1 for p in exact]
    half = max(p.clipped / p.matrix for p in exact)
    return [
        f"Against histogram encoding, as the paper has it: at |S| = {sets} the matrix mechanism, "
        f"here always with the identity strategy, "
        f"has {paper} of its error.",
        f"Against the best plain mechanism the matrix mechanism {_wins(exact, 'laplace')} with the "
        f"paper's noise; the channel matrix, with discrete noise, {_wins(exact, 'matrix')}. With "
        f"the paper's noise it has {best} of the error of the best plain mechanism at these |S|, "
        "although it promises less.",
        f"Clipped to bits (reach 0), the channel matrix has {half:.2f} of its error, and "
        f"{_wins(exact, 'clipped')}. That is unary encoding with one number for each value; the "
        f"two numbers of the channel unary do better: clipped bits have {min(over):.1%} to "
        f"{max(over):.1%} more error.",
        f"The channel unary {_wins(exact, 'unary')}: it has {ours} of the error of the best plain "
        f"mechanism at these |S|. {_unary_verdict(exact)}",
    ]


def _wins(exact: list[Point], key: str) -> str:
    """Where a mechanism under E_S has less error than every plain one."""
    wins = [p.sensitive for p in exact if getattr(p, key) < p.plain]
    if not wins:
        return "loses for every S"
    if len(wins) == len(exact):
        return "wins for every S"
    if wins == [1]:
        return "wins at |S| = 1 only"
    return f"wins up to |S| = {max(wins)}"


def _unary_verdict(exact: list[Point]) -> str:
    """How far it gains from the metric, and what is better beyond."""
    last = exact[-1]
    gains = [p.sensitive for p in exact if p.unary < last.unary * (1 - 1e-6)]
    over = min(min(p.laplace, p.matrix) / p.unary for p in exact)
    words = f"""The error of the matrix mechanism without clipping is {over:.2f} times as large or
        more, for every S. The channel unary gains from E_S up to |S| = {max(gains, default=0)};
        beyond that it is the best plain unary encoding,
        {1 - last.unary / last.unary_plain:.1%} below the published error because it knows the
        number of people. Subset selection, which is plain, is """
    better = [p.sensitive for p in exact if p.subset < p.unary]
    if not better:
        return f"{words} never better."
    most = max(p.unary / p.subset for p in exact) - 1
    return f"{words} better from |S| = {min(better)}, by up to {most:.1%}."


def _agreement(setting: Setting, simulated: list[Simulated]) -> str:
    off = max(abs(point.deviation) for point in simulated)
    verdict = "holds" if off <= LIMIT else "FAILS"
    words = f"""The channels {" and ".join(PLANS)} are simulated at {len(setting.shown)} points,
        {setting.repetitions} times each, on the whole way: survey, reports, tally, histogram. The
        mean total squared error is at most {off:.1f} standard errors from its exact expectation;
        their size is known and not estimated. The check at {LIMIT:g} standard errors {verdict}; a
        right theory fails it less than once in 30,000 runs. People and coins are seeded, so that
        this page comes out the same again: nobody would be protected by such coins, and no real
        survey does so."""
    rows = [["channel", "|S|", "exact", "simulated", "± s.e.", "off by"]]
    for point in simulated:
        numbers = (f"{n:,.0f}" for n in (point.exact, point.mean, point.standard_error))
        off_by = f"{point.deviation:+.1f} s.e."
        rows.append([point.mechanism, str(point.sensitive), *numbers, off_by])
    head = "## Do simulation and theory agree\n"
    return "\n".join([head, filled(words), "", block(table(rows))])
