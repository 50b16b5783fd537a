"""Pictures show every name as it is written and every interval whole."""

from __future__ import annotations

import warnings
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

from metricldp import Categorical, Coins, Integer, Ordinal, Survey, plots

NAMES = [
    "north",
    "$south$ and $east$",
    "a, b",
    "日本",
    "a name that goes on and on until the end of the line and then on to the next",
]
CANTONS = [f"canton number {k}" for k in range(40)]


@pytest.fixture(scope="module")
def tally():
    survey = Survey(
        {
            "age $": Integer(0, 99, epsilon=1, per=5),
            "region": Categorical(NAMES, epsilon=2),
            "canton": Categorical(CANTONS, epsilon=4),
            "often": Ordinal(["never", "rarely", "often"], epsilon=1),
        }
    )
    rng = np.random.default_rng(5)
    people = {
        "age $": rng.integers(0, 100, 900),
        "region": rng.choice(NAMES, 900),
        "canton": rng.choice(CANTONS, 900),
        "often": rng.choice(["never", "rarely"], 900),
    }
    return survey.tally(survey.encode(people, coins=Coins.seeded(4)))


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw, save, and look at the axes before they are thrown away."""

    def look(draw, thing, name="a.png", **options):
        with monkeypatch.context() as patch:
            patch.setattr(plt, "close", lambda figure: None)
            draw(thing, tmp_path / name, title="price in $ and $", **options)
        assert (tmp_path / name).stat().st_size > 1000
        axes = plt.gcf().axes[0]
        plt.close("all")
        return axes

    return look


def words(labels):
    return [label.get_text().replace("\n", " ") for label in labels]


def texts(axes):
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [*labels, axes.title, axes.xaxis.label, axes.yaxis.label]


@pytest.mark.parametrize("attribute", ["region", "canton", "often"])
def test_every_name_is_there_and_stands_alone(attribute, tally, drawn):
    bars = tally.histogram(attribute)
    axes = drawn(plots.histogram, bars)
    assert words(axes.get_yticklabels()) == list(bars.labels)
    with warnings.catch_warnings(action="ignore"):
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    ends = sorted((box.y0, box.y1) for box in boxes)
    assert all(one[1] <= other[0] + 1 for one, other in pairwise(ends))
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([a.value for a in bars])


@pytest.mark.parametrize("attribute", ["age $", "region", "often"])
@pytest.mark.parametrize("level", [0.95, 0.999])
def test_intervals_have_room(attribute, level, tally, drawn):
    bars = tally.histogram(attribute)
    axes = drawn(plots.histogram, bars, level=level)
    low, high = axes.get_xlim() if bars.named else axes.get_ylim()
    ends = np.array([answer.interval(level) for answer in bars])
    assert low < ends.min() < ends.max() < high
    assert f"{100 * level:g}% interval" in axes.get_legend_handles_labels()[1]


def test_dollars_are_money(tally, drawn):
    for draw, thing in (
        (plots.histogram, tally.histogram("region")),
        (plots.histogram, tally.histogram("age $", width=5)),
        (plots.cdf, tally.cdf("age $")),
    ):
        axes = drawn(draw, thing)
        assert axes.get_title() == "price in $ and $"
        money = [text for text in texts(axes) if "$" in text.get_text()]
        assert len(money) == 2
        assert not any(text.get_parse_math() for text in money)


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_letters_without_a_glyph_are_no_warning(name, tally, drawn):
    drawn(plots.histogram, tally.histogram("region"), name)  # warnings are errors here


def test_infinite_intervals_are_not_drawn(tally, drawn):
    survey = tally.survey
    person = {"age $": [3], "region": ["north"], "canton": [CANTONS[0]], "often": ["never"]}
    one = survey.tally(survey.encode(person))
    for attribute in ("age $", "region"):
        drawn(plots.histogram, one.histogram(attribute, about="population"))


def test_the_truth_stands_beside(tally, drawn):
    axes = drawn(plots.histogram, tally.histogram("region"), truth=[100, 200, 300, 200, 100])
    labels = axes.get_legend_handles_labels()[1]
    assert "truth (never collected)" in labels
