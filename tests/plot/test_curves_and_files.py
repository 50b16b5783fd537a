"""Charts of errors, comparisons and plans are readable; charts are written whole or not at all."""

from __future__ import annotations

import looking
import numpy as np
import pytest
from matplotlib.figure import Figure

from metricldp import Categorical, Estimate, Integer, QueryError, Survey
from metricldp.api import plan
from metricldp.lab.compare import LOOSE, SAME, Comparison, Row
from metricldp.plot import check_picture, draw_comparison, draw_errors, draw_plan, save
from metricldp.plot.comparisons import row_label
from metricldp.plot.style import COLORS, GREY, label_some, log_ticks


def readable(figure):
    return not (looking.overlaps(figure) or looking.cut_off(figure) or looking.faint(figure))


# Errors ------------------------------------------------------------------------------------------

AT = (0.5, 1, 2, 4)


def errors_of(count):
    return {f"mechanism {k}": [(5 + k) / e**0.5 for e in AT] for k in range(count)}


def test_errors_are_lines_listed_from_the_largest_to_the_smallest():
    errors = errors_of(9)
    axes = draw_errors(errors, AT, xlabel="epsilon", note="10,000 people.")
    assert readable(axes.figure)
    assert [line.get_ydata().tolist() for line in axes.lines] == list(errors.values())
    assert [line.get_color() for line in axes.lines] == [*COLORS, GREY, GREY, GREY]
    assert len({line.get_marker() for line in axes.lines}) == 9
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == [f"mechanism {k}" for k in reversed(range(9))]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0.5", "1", "2", "4"]
    assert axes.figure.get_supxlabel() == "10,000 people."


def test_marked_errors_are_in_colour():
    axes = draw_errors(errors_of(3), AT, xlabel="epsilon", marked=["mechanism 2"])
    assert [line.get_color() for line in axes.lines] == [GREY, GREY, COLORS[0]]


def test_errors_in_the_axes_of_the_caller_have_no_figure_text():
    figure = Figure()
    axes = figure.subplots()
    assert draw_errors(errors_of(2), AT, axes, xlabel="epsilon", note="All.") is axes
    assert not figure.get_suptitle()
    assert not figure.get_supxlabel()


@pytest.mark.parametrize(
    ("errors", "at", "match"),
    [
        ({}, [1, 2], "at least one name"),
        ({"a": [1.0]}, [1], "two or more numbers"),
        ({"a": [0, 1]}, [1, 2], "all above 0"),
        ({"a": [1.0]}, [1, 2], "a has 1 error for 2 numbers"),
    ],
)
def test_errors_that_cannot_be_drawn_are_rejected(errors, at, match):
    with pytest.raises(QueryError, match=match):
        draw_errors(errors, at, xlabel="n")


# Comparisons -------------------------------------------------------------------------------------


def test_comparison_has_a_point_for_each_mechanism():
    rows = [
        Row("age", "ranges", group, f"mechanism {k}", "", 1.0, 99.0, 10.0**k, None, None)
        for k, group in enumerate([SAME] * 4 + [LOOSE] * 4)
    ]
    figure = draw_comparison(Comparison("0" * 64, 100, 100, 1, 1, tuple(rows), ()))
    assert readable(figure)
    (axes,) = figure.axes
    assert [line.get_xdata()[0] for line in axes.lines] == [row.error for row in rows]
    assert [text.get_text() for text in axes.get_yticklabels()] == [row.mechanism for row in rows]
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("ε 1 to 99") == 8
    assert {SAME, LOOSE} <= set(texts)


def test_mechanisms_of_the_same_name_have_different_labels():
    titles = {
        "geometric": "clipped geometric noise",
        "extremal": "extremal, all pairs alike",
        "hio": "HIO, D times epsilon",
    }
    rows = [
        Row("age", "ranges", SAME, mechanism, title, 1.0, 9.0, 5.0, None, None)
        for mechanism, title in [*titles.items(), ("hio", "consistent HIO, D times epsilon")]
    ]
    labels = [row_label(row, rows) for row in rows]
    assert labels == ["geometric", "extremal", *(row.title for row in rows[2:])]


# Plans -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned():
    survey = Survey.design(
        {
            "age": Integer(0, 19, epsilon=1, within=3, max_epsilon=2, mechanism="geometric"),
            "region": Categorical(["north", "south"], epsilon=2, mechanism="randomized-response"),
        }
    )
    return plan(survey, 0.05, {"age": (3, 6), "region": "north"})


def test_plan_shows_errors_and_the_adversary_over_the_same_epsilons(planned):
    settings = planned.trade_off()
    figure = draw_plan(planned, settings)
    assert readable(figure)
    errors, adversary = figure.axes
    epsilons = [row.epsilons["age"] for row in settings.settings]
    middle = [100 * row.errors[planned.n] for row in settings.settings]
    np.testing.assert_allclose(errors.lines[1].get_data(), [epsilons, middle])
    after = [100 * row.risk.after for row in settings.settings]
    np.testing.assert_allclose(adversary.lines[0].get_data(), [epsilons, after])
    assert errors.get_ylabel() == "95% margin of error (percentage points)"
    assert adversary.get_ylabel() == "right guesses of age within 3 (%)"
    target = [line for line in errors.lines if str(line.get_label()).startswith("target: 5")]
    assert target[0].get_ydata() == [5, 5]


# Ticks and files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[1, 1.5], [1, 10], [3, 4000], [1e-9, 1e9], [7, 7]])
def test_logarithmic_axes_have_a_few_ticks(values):
    axes = Figure().subplots()
    axes.set_xscale("log")
    log_ticks(axes.xaxis, values)
    ticks = axes.xaxis.get_majorticklocs()
    assert 1 <= len(ticks) <= 8
    assert min(values) / 1.3 <= min(ticks) <= max(ticks) <= max(values) * 1.3


def test_labels_too_near_to_each_other_are_left_out():
    axes = Figure().subplots()
    places = [0, 0.1, 0.2, *range(1, 30)]
    label_some(axes, places, [f"wave number {place}" for place in places])
    chosen = axes.get_xticks()
    assert 2 <= len(chosen) <= 13
    assert np.diff(chosen).min() > 29 / 12 * 0.99
    assert {text.get_rotation() for text in axes.get_xticklabels()} == {30}


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("a.gif", "ends in .png, .svg, .pdf"),
        ("no/a.png", "in an existing directory"),
        ("x" * 500 + ".png", "in an existing directory"),
    ],
)
def test_file_that_cannot_be_written_is_noticed_early(name, match, tmp_path):
    for call in (check_picture, lambda path: save(Estimate(5.0, 1.0).plot(), path)):
        with pytest.raises(QueryError, match=match):
            call(tmp_path / name)
    check_picture(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_equal_charts_are_equal_files(name, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        save(Estimate(5.0, 1.0).plot(), tmp_path / folder / name)
    one, two = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
    assert one == two
    save(Estimate(9.0, 1.0).plot().figure, tmp_path / name)
    assert (tmp_path / name).read_bytes() != one
