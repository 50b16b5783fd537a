"""The paper's figures and table again: simulation against theory, files, and the command."""

import csv
import json
import math
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from checks import total_error
from metricldp import Coins, Survey
from metricldp.answers.tally import Tally
from metricldp.answers.theorems import paper_range_variance
from metricldp.app import cli
from metricldp.design.scales import best_scales
from metricldp.lab.pages import Panels
from metricldp.lab.reproduce import STUDIES, figure1, figure1_page, figure2, page, table1, table2
from metricldp.metrics import Sensitive
from metricldp.reports.arrow import batches

SMALL = replace(figure2.QUICK, people=200, size=4, epsilons=(1.0, 3.0), extra=10)


SMALL1 = replace(figure1.QUICK, people=200, size=6, shown=(1, 6), repetitions=5)
SMALL2 = replace(
    table2.QUICK,
    people=100,
    sizes=(8, 16, 64),
    sizes_of_two=(4, 8, 16),
    attributes=(1, 2),
    middle=8,
    meanings=((1, 8, (1, 7)), (2, 4, (1, 3))),
    questions=10,
    questions_of_many=5,
    quantiles=2,
    checks=((1, 4, 1.0),),
    repetitions=20,
)


@pytest.fixture(scope="module")
def exact_points():
    return figure1.points(figure1.Setting())


@pytest.fixture(scope="module")
def simulated():
    return figure1.simulate(figure1.QUICK)


@pytest.fixture(scope="module")
def quick_points():
    return figure2.simulate(figure2.QUICK)


# Figure 1


def test_the_papers_own_curve(exact_points):
    """The ratios to histogram encoding, and the closed form against the solver."""
    assert [p.sensitive for p in exact_points] == list(range(1, 101))
    ratios = {p.sensitive: p.laplace / p.histogram for p in exact_points}
    for k, expected in ((1, 0.445), (10, 0.731), (40, 0.987), (50, 1), (75, 1), (100, 1)):
        assert ratios[k] == pytest.approx(expected, abs=5e-4)
    pairs = np.array([(x, y) for x in range(100) for y in range(x + 1, 100)])
    for k in (1, 10, 40, 60):
        metric = Sensitive(frozenset(range(k)), 1)
        distances = [float(metric.distance(int(x), int(y))) for x, y in pairs]
        solver = best_scales(np.ones(100), np.eye(100), pairs, distances)
        exact = exact_points[k - 1].laplace
        assert 2 * 10_000 * solver.objective == pytest.approx(exact, rel=1e-6)


def test_what_figure_1_says_of_who_wins(exact_points):
    """The words of the page are computed; these are the facts that the documents state."""
    setting = figure1.Setting()
    for p in exact_points:
        assert p.matrix < p.laplace <= p.histogram == 8e6
        assert p.plain == p.subset < p.unary_plain < p.response
        assert (p.laplace < p.plain) == (p.matrix < p.plain) == (p.sensitive == 1)
        assert (p.clipped < p.plain) == (p.sensitive <= 27)
        assert (p.unary < p.plain) == (p.sensitive <= 39)
        assert p.unary < p.clipped == pytest.approx(p.matrix / 2)
        assert p.unary < 1.016 * p.plain
    at = {p.sensitive: p.unary / p.unary_plain for p in exact_points}
    assert [round(at[k], 3) for k in setting.shown] == [0.428, 0.719, 0.976, 0.990, 0.990]
    words = " ".join(figure1_page.describe(setting, exact_points, [_exact(1, 1.0)]).split())
    assert "the matrix mechanism wins at |S| = 1 only with the paper's noise;" in words
    assert "the channel matrix, with discrete noise, wins at |S| = 1 only." in words
    assert "the channel matrix has 0.50 of its error, and wins up to |S| = 27." in words
    assert "The channel unary wins up to |S| = 39:" in words
    assert "The channel unary gains from E_S up to |S| = 49;" in words
    assert "Subset selection, which is plain, is better from |S| = 40, by up to 1.6%." in words


def test_the_best_plan_does_not_change_who_wins(exact_points):
    """Scales that are the best for the decoder in use, which knows n, are hardly better."""
    for k in (1, 2):
        value = figure1.survey_of(figure1.Setting(), k, "matrix").attributes["value"]
        plan = replace(value.mechanism, strategy="identity-total", epsilons=None)
        best = Survey({"value": replace(value, mechanism=plan)})
        total = total_error(best, "value", "values", 10_000, "uniform")
        assert 0.98 * exact_points[k - 1].matrix < total < exact_points[k - 1].matrix
        assert (total < exact_points[k - 1].plain) == (k == 1)


def _exact(k, off):
    return figure1.Simulated(k, "unary", mean=off * 1e6, standard_error=1e4, exact=1e6)


def test_plain_formulas_by_their_definitions():
    """Subset selection by counting all subsets."""
    size, most, totals = 5, math.exp(0.7), []
    for d in range(1, size):
        subsets = [s for s in range(1 << size) if s.bit_count() == d]
        law = np.array([[most if s >> x & 1 else 1.0 for s in subsets] for x in range(size)])
        law /= law.sum(axis=1, keepdims=True)
        holds = np.array([[s >> k & 1 for s in subsets] for k in range(size)])
        means = law @ holds.T
        p, q = means[0, 0], means[0, 1]
        decoded = (holds - q) / (p - q)
        np.testing.assert_allclose(law @ decoded.T, np.eye(size), atol=1e-12)
        totals.append((law @ (decoded**2).T - np.eye(size)).sum() / size)
    assert figure1.subset_selection(size, 0.7) == pytest.approx(min(totals), rel=1e-9)


def test_the_matrix_mechanism_by_the_sum_of_its_noise():
    """Variances v_k of the noise summed up; that all add up to n takes sum v^2 / sum v off."""
    points = figure1.points(figure1.QUICK)
    j = np.arange(-1000, 1001)
    for k in figure1.QUICK.shown:
        u = figure1.scales(20, k, 1.0)
        noise = np.exp(-np.abs(j) * u[:, None])
        v = (noise / noise.sum(axis=1, keepdims=True)) @ j**2
        total = 2000 * (v.sum() - (v**2).sum() / v.sum())
        assert points[k - 1].matrix == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("mechanism", figure1.PLANS)
def test_the_expectation_of_a_simulation_is_the_point_of_the_curve(mechanism):
    points = figure1.points(figure1.QUICK)
    for k in figure1.QUICK.shown:
        survey = figure1.survey_of(figure1.QUICK, k, mechanism)
        people = np.full(20, 100.0)
        exact, spread = figure1.expected(survey.channels["value"], people)
        assert exact == pytest.approx(getattr(points[k - 1], mechanism), rel=1e-9)
        # Between that of one frequency that has it all and of 20 independent ones.
        assert exact * math.sqrt(2 / 20) < spread < exact * math.sqrt(2)


def assert_simulated(points):
    """Within `LIMIT` standard errors; see there for the rate of false alarms."""
    assert max(abs(point.deviation) for point in points) <= figure1.LIMIT


def test_simulated_frequencies_agree_with_theory(simulated):
    found = [(point.mechanism, point.sensitive) for point in simulated]
    assert found == list(product(("unary", "matrix"), figure1.QUICK.shown))
    assert_simulated(simulated)


@pytest.mark.slow
def test_simulated_frequencies_agree_in_the_papers_own_setting():
    assert_simulated(figure1.simulate(figure1.Setting()))


@pytest.mark.parametrize("mechanism", figure1.PLANS)
@pytest.mark.parametrize("wrong", ["other", "plain", "more", "less"])
def test_a_wrong_theory_of_frequencies_is_noticed(simulated, mechanism, wrong):
    points = figure1.points(figure1.QUICK)
    other = {"unary": "matrix", "matrix": "clipped"}[mechanism]
    broken = {
        "other": lambda p: getattr(points[p.sensitive - 1], other),
        "plain": lambda p: points[p.sensitive - 1].plain,
        "more": lambda p: 1.5 * p.exact,
        "less": lambda p: 0.7 * p.exact,
    }[wrong]
    mine = [point for point in simulated if point.mechanism == mechanism]
    with pytest.raises(AssertionError):
        assert_simulated([replace(point, exact=broken(point)) for point in mine])


# Figure 2: people and queries


def test_the_people_are_the_ones_of_the_paper():
    world = figure2.World.draw(figure2.Setting(people=200_000), 5)
    assert world.positions.shape == (5, 200_000)
    assert world.inside.shape == (5, 100, 10)
    shares = np.arange(1, 11) ** -1.1
    shares /= shares.sum()
    for column in world.positions:
        seen = np.bincount(column, minlength=10) / 200_000
        assert np.abs(seen - shares).max() < 6 * math.sqrt(0.25 / 200_000)
    # Every part of a range is connected and not empty.
    steps = np.abs(np.diff(world.inside, axis=2, prepend=0, append=0)).sum(axis=2)
    assert (steps == 2).all()
    again = figure2.World.draw(figure2.Setting(people=200_000), 5)
    assert (again.positions == world.positions).all()
    assert (again.inside == world.inside).all()


def test_truth_by_counting_people_one_by_one():
    world = figure2.World.draw(SMALL, 3)
    people = list(zip(*world.positions, strict=True))
    for cell in np.ndindex(*world.cells.shape):
        assert world.cells[cell] == people.count(cell)
    for k in range(SMALL.ranges):
        inside = [all(world.inside[d, k, x] for d, x in enumerate(person)) for person in people]
        assert world.in_ranges[k] == sum(inside)
        assert world.cut[k] == sum(not world.inside[d, k].all() for d in range(3))


# Figure 2: the exact expectation


@pytest.mark.parametrize("mechanism", figure2.MECHANISMS)
def test_exact_errors_person_by_person(mechanism):
    """The contraction along axes against the sum over people, and against `survey.error`."""
    world = figure2.World.draw(replace(SMALL, people=30, ranges=8), 3)
    survey = world.survey(mechanism, 1.0)
    channel = survey.channels["v1"]
    exact = world.exact(channel)
    people = world.positions.T
    for cell in np.ndindex(*world.cells.shape):
        seconds = [channel.moment(np.eye(4)[v]) for v in cell]
        slow = sum(
            math.prod(seconds[d][x] for d, x in enumerate(person)) - (tuple(person) == cell)
            for person in people
        )
        assert exact["single values"][cell] == pytest.approx(slow, rel=1e-10)
    joint = world.cells / world.cells.sum()
    for k in range(8):
        where = {}
        for d in range(3):
            places = np.flatnonzero(world.inside[d, k])
            where[f"v{d + 1}"] = (int(places[0]) + 1, int(places[-1]) + 1)
        named = [d for d in range(3) if not world.inside[d, k].all()]
        left = joint.sum(axis=tuple(d for d in range(3) if d not in named))
        predicted = Survey.predict(survey, where, n=30, prior=left)
        assert exact["ranges"][k] == pytest.approx(predicted**2, rel=1e-9)


@pytest.mark.parametrize("mechanism", figure2.MECHANISMS)
def test_simulated_errors_by_another_route(mechanism):
    """Without a table: the squared distance of all cells as a sum over pairs of people.

    The estimate is the sum over people of outer products of decoders v_id, so it is
    sum_ij prod_d <v_id, v_jd> - 2 sum_ij prod_d v_id[x_jd] + sum_ij [x_i = x_j].
    """
    world = figure2.World.draw(figure2.QUICK, 3)
    survey = world.survey(mechanism, 1.0)
    reports = world.reports(survey, Coins.seeded(1))
    (batch,) = batches(reports.combine_chunks())
    both = cross = same = 1.0
    for (name, channel), x in zip(survey.channels.items(), world.positions, strict=True):
        decoded = channel.values(batch[name], channel.coefficients(np.eye(10)))
        both = both * (decoded.T @ decoded)
        cross = cross * decoded[x]
        same = same * (x[:, None] == x)
    squared = (both.sum() - 2 * cross.sum() + same.sum()) / 1000
    singles, ranges = world.squared_errors(survey, reports)
    assert singles == pytest.approx(squared, rel=1e-9)
    tally = Tally.of(survey, reports)
    missed = []
    for k in range(100):
        places = [np.flatnonzero(world.inside[d, k]) + 1 for d in range(3)]
        where = {f"v{d + 1}": (int(p[0]), int(p[-1])) for d, p in enumerate(places)}
        missed.append(tally.count(where).value - world.in_ranges[k])
    assert ranges == pytest.approx(np.mean(np.square(missed)), rel=1e-9)


# Figure 2: simulation against theory


def assert_agrees(points):
    """Every simulation within `LIMIT` standard errors of its expectation; see there for alarms."""
    off = np.array([point.deviations for point in points])
    assert np.abs(off).max() <= figure2.LIMIT
    # The standard errors are not too large either: of so many deviations the mean square is near 1.
    assert 0.4 < (off**2).mean() < 2.5


def test_simulation_agrees_with_theory(quick_points):
    assert len(quick_points) == 4 * 3 * 2
    assert_agrees(quick_points)


@pytest.mark.slow
def test_simulation_agrees_with_theory_in_the_papers_own_setting():
    points = figure2.simulate(figure2.Setting())
    assert len(points) == 2 * 9 * 3 * 2
    assert_agrees(points)


@pytest.mark.parametrize("wrong", ["theorem2", "theorem3", "more", "less", "wide"])
def test_a_wrong_theory_is_noticed(quick_points, wrong):
    broken = {
        "theorem2": lambda p: replace(p, exact=p.theorem2),
        "theorem3": lambda p: replace(p, exact=p.theorem3),
        "more": lambda p: replace(p, exact=1.2 * p.exact),
        "less": lambda p: replace(p, exact=0.8 * p.exact),
        "wide": lambda p: replace(
            p,
            standard_error=3 * p.standard_error,
            standard_error_extra=3 * p.standard_error_extra,
        ),
    }[wrong]
    with pytest.raises(AssertionError):
        assert_agrees([broken(point) for point in quick_points])


def test_what_the_figure_says_about_the_bound(quick_points):
    """The means stay below it, because most people are outside; single ranges do not."""
    for point in quick_points:
        assert point.full_width_epsilon == 3 * 9 * point.epsilon
        assert point.theorem2 == paper_range_variance(point.epsilon, 3, 3, 1000)
        if point.mechanism == "threshold-paper":
            assert point.exact < point.theorem3
            assert (point.beyond > 0) == (point.queries == "ranges") == (point.worst > 1)
        if point.queries == "single values":
            assert point.theorem3 == pytest.approx(point.theorem2)
    ranges = figure2.each_range(figure2.QUICK)
    for epsilon in figure2.QUICK.epsilons:
        (point,) = (
            p
            for p in quick_points
            if (p.queries, p.mechanism, p.epsilon) == ("ranges", "threshold-paper", epsilon)
        )
        mine = [r for r in ranges if r.epsilon == epsilon]
        assert np.mean([r.exact for r in mine]) == pytest.approx(point.exact)
        assert max(r.ratio for r in mine) == pytest.approx(point.worst)
        assert sum(r.ratio > 1 for r in mine) / 100 == point.beyond
    assert all(r.ratio <= 1 for r in ranges if r.inside == 0)


def test_the_same_seed_gives_the_same_figure():
    assert figure2.simulate(SMALL) == figure2.simulate(SMALL)


# Table 1


def test_the_papers_orders():
    size = table1.Size(people=1000, values=10, attributes=3)
    assert size.cells_inside == 6**3
    for layout in ("cells", "prefix"):
        assert table1.paper_order(size, layout)["build"] == 3 * 10**3 * 1000
        assert table1.paper_order(size, layout)["kept"] == 1000
    assert table1.paper_order(size, "cells")["query"] == 216
    assert table1.paper_order(size, "prefix")["query"] == 8
    on_the_fly = {"build": 1, "query": 3 * 10**3 * 1000, "kept": 3 * 10 * 1000}
    assert table1.paper_order(size, "reports") == on_the_fly


def test_memory_is_what_the_layouts_hold():
    cells, prefix, reports = table1.measure(
        table1.Size(people=500, values=16, attributes=3), least=0.01
    )
    table = 8 * 16**3
    assert table <= prefix.kept < table + 8192
    assert 2 * table <= cells.kept < 2 * table + 8192  # sums and frequencies
    assert reports.kept == 3 * 2 * 500  # three attributes of 16 bits
    assert reports.build == 0 < min(cells.build, prefix.build)
    assert all(c.query > 0 and c.peak > 0 for c in (cells, prefix, reports))


def test_all_layouts_are_asked_the_same():
    size = table1.Size(people=300, values=6, attributes=2)
    survey, collected = table1._reports(size)
    columns, readings = list(batches(collected)), table1._readings(survey, size)
    answers = [
        table1._ask(columns, readings, k, table1._build(columns, survey.channels, k))
        for k in table1.LAYOUTS
    ]
    low, high = size.ends
    expected = Tally.of(survey, collected).count({"v1": (low, high), "v2": (low, high)}).value
    assert answers == pytest.approx([expected] * 3, rel=1e-9)


# Files and the command


@pytest.fixture
def run_cli(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["metricldp", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code, *capsys.readouterr()

    return run


def test_reproduce_all_writes_what_it_says(run_cli, tmp_path, monkeypatch):
    monkeypatch.setattr(figure2, "QUICK", SMALL)
    monkeypatch.setattr(figure1, "QUICK", SMALL1)
    monkeypatch.setattr(table2, "QUICK", SMALL2)
    code, printed, errors = run_cli(
        "reproduce", "all", "-o", str(tmp_path / "new" / "out"), "--quick", "--json"
    )
    assert (code, errors) == (0, "")
    files = json.loads(printed)["files"]
    assert len(files) == 34
    assert sorted(files) == sorted(map(str, (tmp_path / "new" / "out").iterdir()))
    for name in files:
        data = Path(name).read_bytes()
        if name.endswith(".png"):
            assert data.startswith(b"\x89PNG")
        elif name.endswith(".svg"):
            assert ET.fromstring(data).tag.endswith("svg")
        elif name.endswith(".csv"):
            rows = list(csv.DictReader(data.decode().splitlines()))
            assert len(rows) >= (2 * 3 * 2 if "figure2" in name else 2)
            assert all(math.isfinite(float(rows[0][key])) for key in rows[0] if key == "exact")
        else:
            assert data.startswith(b"# ")


def test_reproduce_prints_its_findings(run_cli, tmp_path, monkeypatch):
    monkeypatch.setattr(figure2, "QUICK", SMALL)
    code, printed, errors = run_cli("reproduce", "figure2", "-o", str(tmp_path), "--quick")
    assert (code, errors) == (0, "")
    words = " ".join(printed.split())
    assert "coins of the blurring are seeded" in words
    assert "The check at 5 standard errors holds." in words
    assert "Where the bound is exceeded" in words
    assert "expected squared error of one query" in words
    assert (tmp_path / "figure2.md").read_text("utf-8") in printed


def test_reproduce_prints_who_wins(run_cli, tmp_path, monkeypatch):
    monkeypatch.setattr(figure1, "QUICK", SMALL1)
    code, printed, errors = run_cli("reproduce", "figure1", "-o", str(tmp_path), "--quick")
    assert (code, errors) == (0, "")
    words = " ".join(printed.split())
    assert "Two different promises are compared" in words
    assert "Against the best plain mechanism the matrix mechanism loses for every S" in words
    assert "The check at 5 standard errors holds" in words
    assert (tmp_path / "figure1.md").read_text("utf-8") in printed


def test_reproduce_refuses_what_it_does_not_know(run_cli, tmp_path):
    code, _, errors = run_cli("reproduce", "figure9", "-o", str(tmp_path))
    assert code == 2
    assert errors.startswith(
        "metricldp: cannot reproduce 'figure9'; choose figure1, figure2, table1, table2, dimensions"
    )
    taken = tmp_path / "file"
    taken.write_text("")
    code, _, errors = run_cli("reproduce", "figure2", "-o", str(taken), "--quick")
    assert code == 2
    assert errors.count("\n") == 1


@pytest.mark.parametrize("name", STUDIES)
def test_progress_ends_at_one(name, monkeypatch):
    monkeypatch.setattr(figure2, "QUICK", SMALL)
    monkeypatch.setattr(figure1, "QUICK", SMALL1)
    monkeypatch.setattr(table2, "QUICK", SMALL2)
    seen = []
    found = page(name, quick=True, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)
    assert found.name == name
    assert all("(quick version)" in p.title for p in found.pictures if isinstance(p, Panels))
