"""Pictures show every name as it is written and every interval whole."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Coins,
    Graph,
    Integer,
    Ordinal,
    QueryError,
    SensitiveSet,
    Survey,
    Table,
)
from metricldp.app import plots
from metricldp.app.plots import answers, metrics
from metricldp.app.plots.shared import save

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
    """Draw, save, and look at the axes."""

    def look(draw, thing, name="a.png", **options):
        seen = []
        with monkeypatch.context() as patch:
            for module in (answers, metrics):
                patch.setattr(module, "save", lambda *words: (seen.append(words[0]), save(*words)))
            draw(thing, tmp_path / name, title="price in $ and $", **options)
        assert (tmp_path / name).stat().st_size > 1000
        (figure,) = seen
        return figure.axes[0]

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
    assert low <= ends.min() < ends.max() < high
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
        plots.metric_graph(metric, path, labels=labels, title=title, marked=[0])

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
