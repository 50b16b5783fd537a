"""Charts of metrics show all values and generating pairs, with labels that do not overlap."""

from __future__ import annotations

import re

import looking
import numpy as np
import pytest
from matplotlib.figure import Figure
from test_charts import CANTONS, NAMES

from metricldp import (
    Categorical,
    DistanceMatrix,
    Graph,
    Integer,
    Ordinal,
    QueryError,
    SensitiveSet,
)
from metricldp.plot import draw_metric, metrics, save
from metricldp.plot.style import INK, TRUTH

METRICS = {
    "line": Integer(0, 20, epsilon=1, per=1),
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
    "two": Ordinal(["no", "yes"], epsilon=1, metric=DistanceMatrix([[0, 1], [1, 0]])),
}


@pytest.mark.parametrize("kind", METRICS)
def test_metric_is_drawn_with_all_values_and_generating_pairs(kind):
    attribute = METRICS[kind]
    labels = [attribute.label(k) for k in range(attribute.size)]
    axes = draw_metric(attribute.distances, labels=labels, title="price in $", marked=[0])
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
    assert axes.figure.get_suptitle() == "price in $"
    assert metrics._clearance(places, np.array(pairs)) > 0.01, "an edge runs behind a node"


@pytest.mark.parametrize("kind", METRICS)
def test_texts_of_a_metric_are_whole(kind):
    figure = draw_metric(METRICS[kind]).figure
    assert not looking.cut_off(figure)
    assert not looking.faint(figure)


def test_lengths_are_written_on_few_edges_or_in_a_scale():
    ring = draw_metric(METRICS["ring"])
    written = {text.get_text() for text in ring.texts}
    assert {"1", "1.11", "1.89", "2"} <= written
    assert len(ring.figure.axes) == 1
    net = draw_metric(METRICS["net"])
    assert [axes.get_ylabel() for axes in net.figure.axes] == ["", "length of an edge (ε)"]
    assert "Every edge has the length ε 1." in draw_metric(METRICS["line"]).figure.get_supxlabel()


def test_metric_in_the_axes_of_the_caller_has_no_figure_text():
    figure = Figure()
    axes = figure.subplots()
    assert draw_metric(METRICS["line"], axes) is axes
    assert not figure.get_suptitle()
    assert not figure.get_supxlabel()


def test_attribute_has_its_names_and_marked_values_their_colour(tmp_path):
    names = list("abcdef")
    site = Categorical(names, epsilon=1, metric=SensitiveSet(["a", "b"]))
    paths = [tmp_path / name for name in ("a.svg", "b.svg")]
    axes = draw_metric(site, marked=["a", "b"])
    save(axes, paths[0])
    save(draw_metric(site.distances, labels=names, marked=[0, 1]), paths[1])
    drawn = [re.sub(r"<dc:date>.*|#\w+|id=\"\w+\"", "", path.read_text()) for path in paths]
    assert drawn[0] == drawn[1]
    inks = [text.get_color() for text in axes.texts if text.get_text() in names]
    assert inks == [TRUTH] * 2 + [INK] * 4


def test_what_is_no_metric_or_value_is_rejected():
    names = list("abcdef")
    site = Categorical(names, epsilon=1, metric=SensitiveSet(["a", "b"]))
    for call, needle in (
        (lambda: draw_metric(site, marked="x"), "marked 'x' is not a value"),
        (lambda: draw_metric(site, labels=["a"]), "1 labels for 6 values"),
        (lambda: draw_metric(site.distances), "pass labels, or the attribute"),
        (lambda: draw_metric(site.distances, labels=names, marked=[6]), "6 is not a position"),
        (lambda: draw_metric("site"), "an attribute or a metric, not 'site'"),
        (lambda: draw_metric(Integer(0, 99, epsilon=1, per=1)), "2 to 60 values, not 100"),
        (
            lambda: draw_metric(Integer(0, 99, epsilon=1, per=1).distances, labels=["x"] * 100),
            "2 to 60 values, not 100",
        ),
    ):
        with pytest.raises(QueryError, match=needle):
            call()


def test_places_follow_the_distances_where_a_plane_has_such_places():
    """A square of towns, with diagonals that are implied by the metric."""
    side, across = 1.0, 2**0.5
    rows = [
        [0, side, across, side],
        [side, 0, side, across],
        [across, side, 0, side],
        [side, across, side, 0],
    ]
    metric = Categorical(list("abcd"), epsilon=1, metric=DistanceMatrix(rows)).distances
    pairs = list(metric.generating_pairs(4))
    places = metrics._places(metric, 4, pairs, [metric.distance(*pair) for pair in pairs])
    between = np.linalg.norm(places[:, None] - places, axis=2)
    np.testing.assert_allclose(between / between[0, 1], rows, atol=1e-6)


def test_digits_are_never_turned():
    upright = draw_metric(Integer(0, 39, epsilon=1, metric=SensitiveSet([6, 9])))
    assert {text.get_rotation() for text in upright.texts} == {0}
    names = Categorical(CANTONS[:30], epsilon=1, metric=SensitiveSet(CANTONS[:2]))
    assert {text.get_rotation() for text in draw_metric(names).texts} != {0}
