"""The pictures of the user guide: `python docs/pictures.py` draws them into docs/pictures.

Every number in them is computed here with the package. Randomness is seeded, so that pictures
repeat; never seed the randomness of real respondents.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import metricldp as mldp
from metricldp import Randomness, SeededRandomnessWarning
from metricldp.cli import demo
from metricldp.plot import save
from metricldp.plot.style import (
    BAND,
    GREY,
    INK,
    SMALL,
    TEXT,
    TRUTH,
    USUAL,
    add_title,
    new_axes,
    new_figure,
    round_ticks,
    tidy,
)

PLAIN = "#a0006d"
"""Colour of plain LDP."""
REGIONS = ["north", "south", "east", "west"]
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


def age(epsilon: float = 1, **more: Any) -> mldp.Integer:
    """The attribute of the running example."""
    return mldp.Integer(0, 99, epsilon=epsilon, **{"within": 5, "max_epsilon": 3 * epsilon, **more})


# The metric --------------------------------------------------------------------------------------


def draw_metrics() -> Any:
    """Distances of some ages and of all regions, as two matrices."""
    drawn = new_figure(3.5)
    left, right = drawn.subplots(1, 2, width_ratios=[1.75, 1])
    region = mldp.Categorical(REGIONS, epsilon=2)
    _draw_matrix(left, age(), list(range(30, 50, 2)))
    _draw_matrix(right, region, REGIONS)
    left.set_title("age: epsilon=1, within=5, max_epsilon=3", fontsize=USUAL)
    right.set_title("region: epsilon=2", fontsize=USUAL)
    facts = "E = 1, 2 or 3 means: a report is at most 2.7, 7.4 or 20.1 times as likely for one "
    facts += "value as for the other."
    title = "Distance E of two values: the smaller, the harder to distinguish"
    add_title(drawn, title, [facts])
    return drawn


def _draw_matrix(axes: Any, attribute: Any, values: Sequence[Any]) -> None:
    distances = np.array([[float(attribute.distance(x, y)) for y in values] for x in values])
    axes.imshow(distances, cmap="Blues", vmin=0, vmax=4.5)
    for (row, column), distance in np.ndenumerate(distances):
        color = "white" if distance >= 3 else "#1a1a1a"
        axes.text(column, row, f"{distance:g}", ha="center", va="center", color=color, size=USUAL)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(len(values)), values, fontsize=USUAL)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


# The path of a report ----------------------------------------------------------------------------


def draw_path() -> Any:
    """From a response on a device to an estimate."""
    survey = mldp.Survey.design({"age": age(), "region": mldp.Categorical(REGIONS, epsilon=2)})
    response = {"age": 34, "region": "east"}
    report = survey.report(response, randomness=Randomness.seeded(1))
    axes = new_axes(3.1)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 44)
    axes.set_axis_off()
    _draw_box(axes, (1, 3), 31, 27, "Respondent's device", BAND)
    _draw_box(axes, (38, 3), 28, 27, "Collector", "#e6e6e6")
    _draw_box(axes, (72, 3), 27, 27, "Analyst", "#e6e6e6")
    _draw_box(axes, (10, 35.5), 82, 7.5, "", "white")
    public = "survey.toml, public, the same for all: attributes, guarantees, mechanisms"
    axes.text(51, 39.2, public, **_centred())
    for place in (16.5, 52, 85.5):
        _draw_arrow(axes, (place, 35.5), (place, 30), GREY)
    axes.text(16.5, 21.5, "age 34, region east", **_centred())
    _draw_arrow(axes, (16.5, 19.5), (16.5, 14.5))
    axes.text(18, 17, "randomize", va="center", **_small())
    axes.text(16.5, 12, f"report, {len(report)} bytes:", **_centred())
    axes.text(16.5, 7.8, f"...{report[-6:].hex(' ')}", family="monospace", **_centred())
    _draw_arrow(axes, (32, 12), (38, 12))
    axes.text(35, 13.5, "TLS", ha="center", **_small())
    axes.text(52, 19.5, "checks each report\nand stores it once,\nwithout an address", **_centred())
    axes.text(52, 8.2, "tally of all reports", **_centred())
    _draw_arrow(axes, (66, 12), (72, 12))
    axes.text(85.5, 19.5, "query: count of\n18 <= age <= 29", **_centred())
    axes.text(85.5, 9.2, "estimate, SE and\n95% CI", **_centred())
    facts = "The response stays on the device. The guarantee is about the report, wherever it is "
    facts += "read."
    add_title(axes.figure, "The path of a report", [facts])
    return axes


def _draw_box(
    axes: Any, place: tuple[float, float], width: float, height: float, title: str, color: str
) -> None:
    look: dict[str, Any] = {"facecolor": color, "edgecolor": INK, "linewidth": 1}
    style = "round,pad=0,rounding_size=1.5"
    axes.add_patch(FancyBboxPatch(place, width, height, boxstyle=style, **look))
    x, y = place[0] + width / 2, place[1] + height - 3.2
    axes.text(x, y, title, weight="bold", **_centred())


def _draw_arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], color: str = INK
) -> None:
    look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.4}
    axes.add_patch(FancyArrowPatch(start, end, color=color, shrinkA=0, shrinkB=0, zorder=5, **look))


def _centred() -> dict[str, Any]:
    return {"ha": "center", "va": "center", "fontsize": USUAL, "color": "#1a1a1a"}


def _small() -> dict[str, Any]:
    return {"fontsize": SMALL, "color": TEXT}


# The demonstration -------------------------------------------------------------------------------


def draw_demo(n: int = demo.RESPONDENTS) -> Any:
    """One report; and the ages of all respondents, with the truth and with plain LDP."""
    people = demo.population(n)
    drawn = new_figure(3.9)
    left, right = drawn.subplots(1, 2, width_ratios=[1, 2.1])
    metric = mldp.Survey.design({"age": age()})
    plain = mldp.Survey.design({"age": age(within=99, max_epsilon=None)})
    _draw_report(left, metric, int(people["age"][0]))
    bands = demo.BANDS
    truth = np.histogram(people["age"], bands)[0]
    for k, (survey, color, words) in enumerate(
        (
            (metric, INK, "metric LDP"),
            (plain, PLAIN, "plain LDP"),
        )
    ):
        reports = survey.randomize({"age": people["age"]}, randomness=Randomness.seeded(1))
        table = survey.tally(reports).histogram("age", bins=bands)
        values = np.array([estimate.value for _, estimate in table])
        low, high = np.array(
            [estimate.confidence_interval() for _, estimate in table], dtype=float
        ).T
        places = np.array(bands[:-1]) + 2.5 + (-0.8, 0.8)[k]
        look: dict[str, Any] = {"color": color, "linewidth": 1.5 - 0.4 * k, "zorder": 3 - k}
        right.vlines(places, low, high, **look)
        look = {"color": color, "s": 12, "marker": "os"[k], "zorder": 4 - k}
        right.scatter(places, values, label=f"{words}, 95% CI", **look)
    right.stairs(truth, bands, color=TRUTH, linewidth=1.2, label="true count", zorder=2)
    right.set_xlabel("age, in bands of 5 years")
    right.set_ylabel("respondents")
    round_ticks(right.yaxis)
    right.axhline(0, color=GREY, linewidth=0.6)
    right.set_ylim(top=1.3 * truth.max())
    tidy(right, grid="y")
    right.legend(loc="upper right", fontsize=SMALL, frameon=False)
    facts = f"{n:,} synthetic respondents; left, the report of one of them under metric LDP. "
    facts += (
        "Metric LDP: factor e within 5 years, e^3 for any two ages. Plain LDP: factor e for any "
    )
    facts += "two ages, a stronger guarantee for distant ages."
    add_title(drawn, "One report is uncertain; many reports give the distribution", [facts])
    return drawn


def _draw_report(axes: Any, survey: Any, value: int) -> None:
    """The likelihood of one report for every age, relative to the least likely."""
    channel = survey.channels["age"]
    report = survey.randomize({"age": [value]}, randomness=Randomness.seeded(1))
    likelihood = np.exp(channel.log_likelihood(report.column("age").to_numpy())[0])
    axes.step(range(100), likelihood / likelihood.min(), where="mid", color=INK, linewidth=1.4)
    axes.axvline(value, color=TRUTH, linewidth=1.2)
    axes.text(value + 2, 22.5, f"true age {value}", color=TRUTH, fontsize=SMALL)
    axes.axhline(np.exp(3), color=GREY, linewidth=0.8, linestyle="--")
    axes.text(20, np.exp(3) - 1.2, "bound e^3", color=TEXT, fontsize=SMALL)
    axes.set_ylim(0, 25)
    axes.set_xlabel("age")
    axes.set_ylabel("times as likely as for the least likely age")
    axes.set_title("One report", fontsize=USUAL)
    tidy(axes, grid="y")


# Error and epsilon -------------------------------------------------------------------------------


def draw_errors(n: int = 50_000) -> Any:
    """The error of a count and an adversary's right guesses against epsilon."""
    drawn = new_figure(3.5)
    left, right = drawn.subplots(1, 2)
    guarantees: dict[str, tuple[str, Callable[[float], mldp.Integer]]] = {
        "within=5, max_epsilon = 3 x epsilon": (INK, age),
        "any two ages (plain LDP)": (PLAIN, lambda e: age(e, within=99, max_epsilon=None)),
    }
    for words, (color, attribute) in guarantees.items():
        errors, guesses = [], []
        for epsilon in EPSILONS:
            survey = mldp.Survey.design({"age": attribute(epsilon)})
            error = survey.expected_error("18 <= age <= 29", n=n).stderr
            errors.append(100 * error / n)
            guesses.append(100 * survey.risk("age", within=5).after)
        look: dict[str, Any] = {"color": color, "marker": "o", "markersize": 4, "label": words}
        left.plot(EPSILONS, errors, **look)
        right.plot(EPSILONS, guesses, **look)
    before = 100 * mldp.Survey.design({"age": age()}).risk("age", within=5).before
    right.axhline(before, color=GREY, linewidth=0.9, linestyle="--", label="without a report")
    left.set_yscale("log")
    left.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
    left.minorticks_off()
    left.set_ylabel("SE, percentage points")
    left.set_title("Error of the fraction aged 18 to 29", fontsize=USUAL)
    right.set_ylim(0, 103)
    right.set_ylabel("right guesses, %")
    right.set_title("Guesses of one age within 5 years", fontsize=USUAL)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.set_xlabel("epsilon")
        tidy(axes, grid="both")
    right.legend(loc="upper left", fontsize=SMALL, frameon=False)
    facts = f"{n:,} respondents, uniform ages 0 to 99, default mechanism. The adversary knows the "
    facts += "distribution of ages and sees one report."
    add_title(drawn, "Larger epsilons reduce the error and increase the risk", [facts])
    return drawn


PICTURES: dict[str, Callable[[], Any]] = {
    "metric.png": draw_metrics,
    "report-path.png": draw_path,
    "demo.png": draw_demo,
    "error-epsilon.png": draw_errors,
}


def draw(name: str, folder: Path) -> Path:
    """Draw one picture into a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededRandomnessWarning)
        warnings.simplefilter("ignore", mldp.WeakGuaranteeWarning)
        save(PICTURES[name](), folder / name)
    return folder / name


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PICTURES:
        print(draw(chosen, Path(__file__).parent / "pictures"))
