"""Pictures show every name as it is written and every interval whole."""

from __future__ import annotations

import datetime
import re
import warnings
from itertools import pairwise

import looking
import numpy as np
import pytest
from matplotlib.figure import Figure

from metricldp import (
    Categorical,
    Coins,
    Continuous,
    Graph,
    Integer,
    Ordinal,
    QueryError,
    Relative,
    SensitiveSet,
    Survey,
    Table,
)
from metricldp.answers.differences import groups, mean_of
from metricldp.answers.grids import grid
from metricldp.answers.quick import Quick
from metricldp.app import plots
from metricldp.app.plots import metrics
from metricldp.app.plots.comparisons import comparison, row_label
from metricldp.app.plots.curves import Curve, Panel, panels, spread
from metricldp.app.plots.shared import COLORS, GREY, INK, TRUTH, contrast, hue, readable
from metricldp.app.words import promise_in_short
from metricldp.lab.compare import LOOSE, SAME, Comparison, Row

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
    return Quick.over(survey.tally(survey.encode(people, coins=Coins.seeded(4))))


@pytest.fixture
def drawn(tmp_path):
    """Draw, save, and look at the axes."""

    def look(draw, thing, name="a.png", **options):
        figure = draw(thing, tmp_path / name, title="price in $ and $", **options)
        assert (tmp_path / name).stat().st_size > 1000
        return figure.axes[0]

    return look


def words(labels):
    return [label.get_text().replace("\n", " ") for label in labels]


def texts(axes):
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [*labels, axes.figure._suptitle, axes.xaxis.label, axes.yaxis.label]


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
    assert low <= ends.min() < ends.max() < high
    assert f"{100 * level:g}% interval" in axes.get_legend_handles_labels()[1]


def test_dollars_are_money(tally, drawn):
    for draw, thing in (
        (plots.histogram, tally.histogram("region")),
        (plots.histogram, tally.histogram("age $", width=5)),
        (plots.cdf, tally.cdf("age $")),
    ):
        axes = drawn(draw, thing)
        assert axes.figure.get_suptitle() == "price in $ and $"
        money = [text for text in texts(axes) if "$" in text.get_text()]
        assert len(money) == 2
        assert not any(text.get_parse_math() for text in money)


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_letters_without_a_glyph_are_no_warning(name, tally, drawn):
    drawn(plots.histogram, tally.histogram("region"), name)  # warnings are errors here


def test_infinite_intervals_are_not_drawn(tally, drawn):
    survey = tally.survey
    person = {"age $": [3], "region": ["north"], "canton": [CANTONS[0]], "often": ["never"]}
    one = Quick.over(survey.tally(survey.encode(person)))
    for attribute in ("age $", "region"):
        drawn(plots.histogram, one.histogram(attribute, about="population"))


def test_the_truth_stands_beside(tally, drawn):
    axes = drawn(plots.histogram, tally.histogram("region"), truth=[100, 200, 300, 200, 100])
    labels = axes.get_legend_handles_labels()[1]
    assert "truth (never collected)" in labels


METRICS = {
    "line": Integer(0, 20, epsilon=1),
    "uniform": Categorical(NAMES, epsilon=1),
    "sensitive": Categorical(CANTONS[:30], epsilon=1, metric=SensitiveSet(CANTONS[3:6])),
    "star": Categorical(NAMES, epsilon=1, metric=SensitiveSet(NAMES[:1])),
    "ring": Integer(
        0, 9, epsilon=1, metric=Graph([(k, (k + 1) % 10, 1 + k / 9) for k in range(10)])
    ),
    "net": Integer(
        0,
        29,
        epsilon=1,
        metric=Graph(
            [*((k, k + 1, 1 + k / 30) for k in range(29)), *((0, k) for k in range(2, 30))]
        ),
    ),
    "two": Ordinal(["no", "yes"], epsilon=1, metric=Table([[0, 1], [1, 0]])),
}


@pytest.mark.parametrize("kind", METRICS)
def test_a_metric_is_drawn_with_all_values_and_generating_pairs(kind, drawn):
    attribute = METRICS[kind]
    labels = [attribute.label(k) for k in range(attribute.size)]

    def draw(metric, path, title):
        return plots.metric_graph(metric, path, labels=labels, title=title, marked=[0])

    axes = drawn(draw, attribute.distances)
    pairs = list(attribute.distances.generating_pairs(attribute.size))
    assert len(axes.lines) == len(pairs)
    (nodes,) = axes.collections
    places = nodes.get_offsets()
    assert len(np.unique(np.round(places, 6), axis=0)) == attribute.size
    for line, pair in zip(axes.lines, pairs, strict=True):
        np.testing.assert_allclose(np.column_stack(line.get_data()), places[list(pair)])
    texts = [text for text in axes.texts if text.get_text() in labels or "..." in text.get_text()]
    assert len(texts) >= attribute.size
    assert not any(text.get_parse_math() for text in texts)
    title = axes.figure.get_suptitle()
    assert title == "price in $ and $"
    assert metrics._clearance(places, np.array(pairs)) > 0.01, "an edge runs behind a node"


@pytest.mark.parametrize("kind", METRICS)
def test_the_title_of_a_metric_is_whole_and_clear_of_the_labels(kind, drawn):
    axes = drawn(plots.metric_graph, METRICS[kind])
    figure = axes.figure
    with warnings.catch_warnings(action="ignore"):
        figure.draw_without_rendering()
        boxes = {text: text.get_window_extent() for text in (figure._suptitle, *axes.texts)}
    whole, title = figure.bbox, boxes[figure._suptitle]
    for text, box in boxes.items():
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert whole.y0 <= box.y0
        assert box.y1 <= whole.y1
        assert text is figure._suptitle or box.y1 < title.y0


def test_an_attribute_brings_its_names_and_its_values_are_marked(tmp_path):
    names = list("abcdef")
    site = Categorical(names, epsilon=1, metric=SensitiveSet(["a", "b"]))
    paths = [tmp_path / name for name in ("a.svg", "b.svg")]
    plots.metric_graph(site, paths[0], marked=["a", "b"])
    plots.metric_graph(site.distances, paths[1], labels=names, marked=[0, 1])
    drawn = [re.sub(r"<dc:date>.*|#\w+|id=\"\w+\"", "", path.read_text()) for path in paths]
    assert drawn[0] == drawn[1]
    for call, needle in (
        (lambda: plots.metric_graph(site, tmp_path / "a.gif"), "ends in .png, .svg, .pdf"),
        (lambda: plots.metric_graph(site, tmp_path / "no" / "a.png"), "a directory that is there"),
        (
            lambda: plots.metric_graph(site, paths[0], marked="x"),
            "'x' is marked, which is no value",
        ),
        (lambda: plots.metric_graph(site, paths[0], labels=["a"]), "1 labels for 6 values"),
        (lambda: plots.metric_graph(site.distances, paths[0]), "pass labels, or the attribute"),
        (
            lambda: plots.metric_graph(site.distances, paths[0], labels=names, marked=[6]),
            "6 is marked, which is no position",
        ),
        (lambda: plots.metric_graph("site", paths[0]), "an attribute or a metric, not 'site'"),
    ):
        with pytest.raises(QueryError, match=needle):
            call()


def test_places_follow_the_distances_where_a_plane_can_hold_them():
    """A square of towns, its diagonals implied or not: the picture is the square."""
    side, across = 1.0, 2**0.5
    rows = [
        [0, side, across, side],
        [side, 0, side, across],
        [across, side, 0, side],
        [side, across, side, 0],
    ]
    metric = Categorical(list("abcd"), epsilon=1, metric=Table(rows)).distances
    pairs = list(metric.generating_pairs(4))
    places = metrics._nodes(metric, 4, pairs, [metric.distance(*pair) for pair in pairs])
    between = np.linalg.norm(places[:, None] - places, axis=2)
    np.testing.assert_allclose(between / between[0, 1], rows, atol=1e-6)


def test_too_many_values_are_no_picture(tmp_path):
    attribute = Integer(0, 99, epsilon=1)
    with pytest.raises(QueryError, match="2 to 60 values, not 100"):
        plots.metric_graph(attribute, tmp_path / "a.png")
    with pytest.raises(QueryError, match="2 to 60 values, not 100"):
        plots.metric_graph(attribute.distances, tmp_path / "a.png", labels=["x"] * 100)


# What a reader notices


@pytest.fixture(scope="module")
def answered():
    """A survey of its own, with everything that can be drawn from it; intervals are quick ones."""
    survey = Survey(
        {
            "age": Integer(0, 99, epsilon=1, per=5),
            "income": Continuous(0, 200_000, bins=40, epsilon=4, per=10_000),
            "rent": Continuous(
                edges=[0, 200, 400, 800, 1600, 3200], epsilon=2, mechanism="geometric"
            ),
            "region": Categorical(["north", "south", "east", "west"], epsilon=3),
        }
    )
    rng = np.random.default_rng(11)
    people = {
        "age": rng.integers(0, 100, 20_000),
        "income": rng.uniform(0, 200_000, 20_000),
        "rent": rng.uniform(0, 3200, 20_000),
        "region": rng.choice(["north", "south", "east", "west"], 20_000, p=[0.6, 0.2, 0.15, 0.05]),
    }
    return Quick.over(survey.tally(survey.encode(people, coins=Coins.seeded(8))))


def months(tally):
    """The same question in ten months, of several groups."""
    found = [tally.count({"age": (10 * k, 10 * k + 9)}) for k in range(10)]
    return {f"group number {k}": found[k:] + found[:k] for k in range(8)}


DATES = [datetime.date(2026, month, 1) for month in range(1, 11)]
DRAWN = {
    "histogram": lambda t: t.histogram("age", width=5).plot(),
    "of every value": lambda t: t.histogram("age").plot(simultaneous=True),
    "of bins": lambda t: t.histogram("income", where={"age": (20, 59)}).plot(level=0.9),
    "of edges": lambda t: t.histogram("rent").plot(),
    "of names": lambda t: t.histogram("region").plot(truth=[12_000, 4000, 3000, 1000]),
    "cdf": lambda t: t.cdf("age").plot(truth=np.arange(1, 101) / 100),
    "cdf of bins": lambda t: t.cdf("income", {"region": "north"}).plot(),
    "counts": lambda t: t.counts([{"age": (k, k + 9)} for k in range(0, 100, 10)]).plot(),
    "linear": lambda t: t.linear("age", "10 bars").plot(simultaneous=True),
    "slice": lambda t: t.histogram("age")[:5].plot(),
    "heat map": lambda t: grid(t, ("region", "age"), widths=(None, 10)).plot(),
    "large heat map": lambda t: grid(t, ("age", "income"), widths=(5, 10_000)).plot(),
    "heat map of edges": lambda t: grid(t, ("rent", "region")).plot(),
    "groups": lambda t: groups(t, "region", {"age": (20, 59)}).plot(),
    "means": lambda t: groups(t, "region", measure=mean_of(t, "income")).plot(),
    "trend": lambda t: plots.trend(list(t.histogram("age", width=10)), range(2017, 2027)),
    "trend of groups": lambda t: plots.trend(months(t), DATES),
    "trend of words": lambda t: plots.trend(months(t), [f"wave {k}" for k in range(10)]),
    "trade-off": lambda _: plots.tradeoff(
        {f"mechanism {k}": [(5 + k) / e**0.5 for e in (0.5, 1, 2, 4)] for k in range(9)},
        (0.5, 1, 2, 4),
        xlabel="epsilon",
        note="10,000 people.",
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_letters_are_whole_apart_and_dark_enough(name, answered):
    figure = DRAWN[name](answered)
    assert not looking.overlaps(figure)
    assert not looking.cut_off(figure)
    assert not looking.faint(figure)


@pytest.mark.parametrize("name", [name for name in DRAWN if name != "trade-off"])
def test_a_picture_says_its_level_its_people_and_the_promise(name, answered):
    figure = DRAWN[name](answered)
    below = " ".join(figure.get_supxlabel().split())
    assert re.match(r"9[05]% intervals|The whole curve lies in the band with 95%", below)
    times = 10 if name.startswith("trend") else 1  # each time has reports of its own
    assert f"from {20_000 * times:,} blurred reports" in below
    assert "Promise: " in below
    assert "any two people at most ε " in below
    assert figure.get_suptitle()


def test_a_promise_is_said_in_short(answered):
    survey = answered.survey
    assert promise_in_short(survey, ["age"]).startswith("age ε 1 per 5; any two people at most ε ")
    assert "region ε 3 between any two values" in promise_in_short(survey, ["region"])
    one = Survey({"age": Integer(0, 99, epsilon=1, within=5, cap=3, mechanism="geometric")})
    assert promise_in_short(one, ["age"]) == "age ε 1 within 5, never above 3"
    shop = Survey({"shop": Categorical(["a", "b", "c"], epsilon=1, metric=SensitiveSet(["a"]))})
    assert promise_in_short(shop, ["shop"]) == "shop ε 1 to 2 between any two values"
    wealth = Continuous(edges=[1, 2, 4, 8], epsilon=1, metric=Relative(0.1), mechanism="geometric")
    assert promise_in_short(Survey({"wealth": wealth}), ["wealth"]) == "wealth ε 1 for every 10 %"


def test_bad_letters_are_noticed():
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, "one word")
    assert not (looking.overlaps(figure) or looking.cut_off(figure) or looking.faint(figure))
    figure.text(0.2, 0.55, "another", color="#999999")
    figure.text(0.9, 0.1, "too far")
    assert looking.overlaps(figure) == [("one word", "another")]
    assert looking.cut_off(figure) == ["too far"]
    assert looking.faint(figure) == ["another"]


def test_colours_are_told_apart_by_everybody():
    assert min(looking.least_difference([*COLORS, GREY]).values()) > 20
    assert all(contrast(color) >= 3 for color in (*COLORS, GREY, TRUTH, INK))
    assert contrast(readable(GREY)) >= 4.5
    near = looking.least_difference(["#d1495b", "#3a8f5c"])  # a red and a green of the same shade
    assert near["as most people"] > 60
    assert near["without green"] < 10


def test_bars_are_as_wide_as_they_are(answered):
    last = answered.histogram("age", width=30)
    assert last.edges == (-0.5, 29.5, 59.5, 89.5, 99.5)
    figure = last.plot()
    steps = figure.axes[0].patches[-1].get_data()
    assert steps.edges.tolist() == list(last.edges)
    assert steps.values.tolist() == last.values.tolist()
    assert "the last bar is narrower" in figure.get_supxlabel()
    rent = answered.histogram("rent")
    assert rent.edges == (0, 200, 400, 800, 1600, 3200)
    for look, by in ({}, [200, 200, 400, 800, 1600]), ({"density": False}, 1):
        axes = rent.plot(**look).axes[0]
        np.testing.assert_allclose(axes.patches[-1].get_data().values, rent.values / by)
        assert axes.get_ylabel() == ("people" if look else "people per unit of rent")


def test_a_band_of_bins_holds_what_lies_between_their_edges(answered):
    shares = answered.cdf("income")
    low, high = shares.interval(simultaneous=True)
    band = shares.plot().axes[0].patches[0].get_data()
    assert band.edges.tolist() == [0, *shares.ends]
    np.testing.assert_array_equal(band.values, high)
    np.testing.assert_array_equal(band.baseline, [0, *low[:-1]])


def test_conditions_stand_in_the_title(answered):
    where = {"age": (20, 59)}
    for found in (
        answered.histogram("income", where=where),
        answered.cdf("income", where),
        answered.linear("income", "10 bars", where),
        grid(answered, ("region", "income"), where, widths=(None, 50_000)),
        groups(answered, "region", where),
    ):
        assert found.plot().get_suptitle().replace("\n", " ").endswith(" among age 20 to 59")


def test_cells_without_people_are_crossed_out(answered):
    found = grid(answered, ("region", "age"), widths=(None, 10))
    figure = found.plot(level=0.99)
    low, _ = found.interval(0.99)
    assert len(figure.axes[0].lines) == (low <= 0).sum() > 0
    assert "crossed out: the interval reaches zero" in figure.get_supxlabel()
    written = [text.get_text() for text in figure.axes[0].texts]
    assert written == [f"{value:,.0f}" for value in found.values]


def test_a_fit_and_tallies_together_have_pictures(answered):
    bars = answered.fit("age").histogram("age", width=10)
    assert bars.edges == answered.histogram("age", width=10).edges
    assert "from 20,000 blurred reports" in bars.plot().get_supxlabel()
    assert bars.norm_sub().edges == bars.edges


def test_names_at_the_ends_of_lines_do_not_touch():
    rng = np.random.default_rng(3)
    for _ in range(50):
        count = int(rng.integers(1, 15))
        wanted, heights = np.sort(rng.random(count)), rng.uniform(0.02, 0.06, count)
        found = spread(wanted, heights)
        assert np.all(np.diff(found) >= (heights[1:] + heights[:-1]) / 2 - 1e-12)
        assert found[0] - heights[0] / 2 >= -1e-12
        assert found[-1] + heights[-1] / 2 <= 1 + 1e-12
    np.testing.assert_allclose(spread(np.array([0.2, 0.8]), np.array([0.1, 0.1])), [0.2, 0.8])


def test_lines_that_look_like_one_share_a_name():
    at, up = [1, 2, 4], np.array([10.0, 100.0, 1000.0])
    errors = {"ours": up, "twin": 1.001 * up, "other": 3 * up}
    figure = plots.tradeoff(errors, at, xlabel="n", marked=["ours"])
    assert {text.get_text() for text in figure.axes[0].texts} == {"ours, twin", "other"}
    apart = plots.tradeoff(errors, at, xlabel="n")
    assert {text.get_text() for text in apart.axes[0].texts} == {"ours", "twin", "other"}


def test_panels_and_comparisons_are_readable():
    curves = [Curve(f"line {k}", [1, 2, 3], [k + 1, k + 2, k + 3], hue(k)) for k in range(12)]
    panel = Panel("left", "x", "y", curves)
    drawn = panels("Two of a kind", [[panel, panel]], note="All.")
    labels = [sorted(text.get_text() for text in axes.texts) for axes in drawn.axes]
    assert labels[0] == []  # the panel beside it has the same lines
    assert len(labels[1]) == 12
    rows = [
        Row("age", "ranges", group, f"mechanism {k}", "", 1.0, 99.0, 10.0**k, None, None)
        for k, group in enumerate([SAME] * 4 + [LOOSE] * 4)
    ]
    ranked = comparison(Comparison("0" * 64, 100, 100, 1, 1, tuple(rows), ()))
    for figure in (drawn, ranked):
        assert not looking.overlaps(figure)
        assert not looking.cut_off(figure)
        assert not looking.faint(figure)


def test_a_ranking_tells_its_lines_apart():
    titles = {
        "geometric": "clipped geometric noise",
        "designed": "designed, all pairs alike",
        "hio": "HIO, D times epsilon",
    }
    rows = [
        Row("age", "ranges", SAME, mechanism, title, 1.0, 9.0, 5.0, None, None)
        for mechanism, title in [*titles.items(), ("hio", "consistent HIO, D times epsilon")]
    ]
    found = [row_label(row, rows) for row in rows]
    assert found == ["geometric", "designed", *(row.title for row in rows[2:])]


def test_digits_are_never_turned():
    upright = plots.metric_graph(Integer(0, 39, epsilon=1, metric=SensitiveSet([6, 9])))
    assert {text.get_rotation() for text in upright.axes[0].texts} == {0}
    names = Categorical(CANTONS[:30], epsilon=1, metric=SensitiveSet(CANTONS[:2]))
    assert {text.get_rotation() for text in plots.metric_graph(names).axes[0].texts} != {0}


def test_a_notebook_shows_the_figure(answered):
    figure = answered.histogram("region").plot()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused(answered, tmp_path):
    one = answered.count({"age": (0, 9)})
    for call, needle in (
        (lambda: answered.linear("age", "ranges").plot(), "1 to 120 rows, not 5,050"),
        (lambda: plots.trend([], []), "a trend needs answers"),
        (lambda: plots.trend([one], [1, 2]), "1 answer at 2 times"),
        (lambda: plots.trend({"a": [one]}, [1, 2]), "a: 1 answer at 2 times"),
        (lambda: plots.tradeoff({"a": [1.0]}, [1, 2], xlabel="n"), "a has 1 error for 2 places"),
        (lambda: plots.tradeoff({"a": [0, 1]}, [1, 2], xlabel="n"), "positive numbers"),
        (lambda: answered.histogram("age").plot(tmp_path / "a.gif"), "ends in .png, .svg, .pdf"),
    ):
        with pytest.raises(QueryError, match=needle):
            call()
