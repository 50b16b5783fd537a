"""Charts of tables show every row and every interval, and no bar of a group that may be empty."""

from __future__ import annotations

import datetime
import subprocess
import sys
import warnings

import looking
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    pool,
    waves,
)
from metricldp.plot.charts import MOST_ROWS
from metricldp.plot.style import COLORS, GREY, INK, TRUTH, contrast, save

NAMES = [
    "north",
    "$south$ and $east$",
    "a, b",
    "日本",
    "a name that goes on and on until the end of the line and then on to the next",
]
CANTONS = [f"canton number {k}" for k in range(40)]
EMPTY = "not distinguishable from empty"
UNKNOWN = "cannot be estimated"
TRUE, FITTED = "true value", "fitted, biased"


def tally_of(attributes, people, seed):
    survey = Survey.design(attributes)
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed)))


@pytest.fixture(scope="module")
def named():
    """Names of all kinds, over few reports."""
    rng = np.random.default_rng(5)
    return tally_of(
        {
            "age $": Integer(0, 99, epsilon=1, per=5, mechanism="threshold"),
            "region": Categorical(NAMES, epsilon=2, mechanism="randomized-response"),
            "canton": Categorical(CANTONS, epsilon=4, mechanism="randomized-response"),
            "often": Ordinal(["never", "rarely", "often"], epsilon=1, mechanism="geometric"),
        },
        {
            "age $": rng.integers(0, 100, 900),
            "region": rng.choice(NAMES, 900),
            "canton": rng.choice(CANTONS, 900),
            "often": rng.choice(["never", "rarely"], 900),
        },
        seed=4,
    )


@pytest.fixture(scope="module")
def tally():
    """One attribute of each kind; nobody is in the west, above 79 years old or out at noon."""
    n, rng = 100_000, np.random.default_rng(11)
    return tally_of(
        {
            "age": Integer(0, 99, epsilon=1, per=5, mechanism="threshold"),
            "income": Continuous(0, 200_000, bins=40, epsilon=4, per=10_000, mechanism="geometric"),
            "rent": Continuous(
                edges=[0, 200, 400, 800, 1600, 3200], epsilon=2, mechanism="geometric", per=200
            ),
            "region": Categorical(
                ["north", "south", "east", "west"], epsilon=3, mechanism="randomized-response"
            ),
            "often": Ordinal(["never", "rarely", "often"], epsilon=3, mechanism="geometric"),
            "hour": Integer(0, 23, epsilon=1, within=2, cyclic=True, mechanism="tight-constraints"),
        },
        {
            "age": rng.integers(0, 80, n),
            "income": rng.uniform(0, 200_000, n),
            "rent": rng.uniform(0, 3200, n),
            "region": rng.choice(["north", "south", "east"], n, p=[0.6, 0.25, 0.15]),
            "often": rng.choice(["never", "rarely"], n),
            "hour": rng.integers(20, 28, n) % 24,
        },
        seed=8,
    )


@pytest.fixture(scope="module")
def years():
    """Five waves of different sizes, one year left out, in which ages rise."""
    rng = np.random.default_rng(3)
    survey = Survey.design({"age": Integer(0, 99, epsilon=2, per=5, mechanism="threshold")})
    tallies = {}
    for year, n in ((2019, 4000), (2020, 5000), (2022, 6000), (2023, 7000), (2024, 8000)):
        ages = rng.integers(0, 60, n) + year - 2019
        reports = survey.randomize({"age": ages}, randomness=Randomness.seeded(year))
        tallies[year] = survey.tally(reports)
    return tallies


def labels_of(axes):
    return axes.get_legend_handles_labels()[1]


def words(labels):
    return [label.get_text().replace("\n", " ") for label in labels]


def facts(axes):
    """The small print below a figure, in one line."""
    return " ".join(axes.figure.get_supxlabel().split())


def segments(axes, label):
    """The lines of intervals with a label: (rows, 2 ends, x and y)."""
    (lines,) = [one for one in axes.collections if one.get_label() == label]
    return np.array(lines.get_segments())


def steps(axes):
    """The band and the line of a chart of steps."""
    band, line = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    return band.get_data(), line.get_data()


# Kinds of charts ---------------------------------------------------------------------------------


def test_counts_along_numbers_are_steps_with_a_band(tally):
    table = tally.histogram("income", bins=20)
    band, line = steps(table.plot())
    low, high = table.confidence_interval()
    assert (low > 0).all()
    np.testing.assert_array_equal(band.edges, np.arange(0, 200_001, 10_000))
    np.testing.assert_allclose(band.values, high)
    np.testing.assert_allclose(band.baseline, low)
    np.testing.assert_allclose(line.values, table.values)


@pytest.mark.parametrize("by", [{"rent": None}, {"age": [0, 18, 30, 65, 80]}])
def test_steps_of_different_width_show_people_per_unit(by, tally):
    ((name, _),) = by.items()
    table = tally.count(by=by)
    edges = np.array(table.groupings[0].edges)
    axes = table.plot()
    band, line = steps(axes)
    np.testing.assert_allclose(line.values * np.diff(edges), table.values)
    np.testing.assert_allclose(band.values * np.diff(edges), table.confidence_interval().high)
    assert axes.get_ylabel() == f"people per unit of {name}"


@pytest.mark.parametrize("attribute", ["region", "canton", "often"])
def test_counts_of_names_are_bars_with_every_name(attribute, named):
    table = named.histogram(attribute)
    axes = table.plot()
    assert words(axes.get_yticklabels()) == list(table.labels)
    assert not looking.overlaps(axes.figure)
    clear = table.confidence_interval().low > 0
    assert [bar.get_width() for bar in axes.patches] == pytest.approx(table.values[clear])


def test_means_and_differences_are_points(tally):
    for table in (tally.mean("age", by="region"), tally.count(by="region").differences("north")):
        axes = table.plot()
        (points,) = [line for line in axes.lines if line.get_label() == "estimate"]
        known = [one.value for _, one in table if one.estimable]
        drawn = points.get_xdata()
        np.testing.assert_allclose(drawn[np.isfinite(drawn)], known)
        assert not axes.patches


def test_means_of_bands_are_points_at_their_middles(tally):
    table = tally.mean("income", by={"age": [0, 20, 40, 60, 80]})
    axes = table.plot()
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [9.5, 29.5, 49.5, 69.5])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), table.values)
    assert words(axes.get_xticklabels()) == ["0 to 19", "20 to 39", "40 to 59", "60 to 79"]
    assert axes.get_ylabel() == "mean income"


def test_single_estimate_is_one_point(tally):
    estimate = tally.mean("age")
    axes = estimate.plot()
    low, high = estimate.confidence_interval()
    assert axes.lines[0].get_xdata() == [estimate.value]
    np.testing.assert_allclose(segments(axes, "95% confidence interval")[0, :, 0], [low, high])


def test_rows_of_different_units_are_labelled_with_them(tally):
    axes = tally.linear_regression("income", ["age"]).coefficients.plot()
    assert words(axes.get_yticklabels()) == ["intercept (income)", "age (income per age)"]


def test_quantiles_of_levels_have_the_levels_along_the_axis(tally):
    axes = tally.quantile("often", by="region").plot()
    assert words(axes.get_xticklabels()) == ["never", "rarely", "often"]
    assert set(axes.lines[0].get_xdata()[:3]) <= {0, 1}


def test_circular_means_and_their_intervals_are_beside_each_other(tally):
    table = tally.mean("hour", by="region")
    axes = table.plot()
    lines = segments(axes, "95% confidence interval")
    assert (lines[:, 0, 0] < axes.lines[0].get_xdata()[:3]).all()
    assert (lines[:, 1, 0] > axes.lines[0].get_xdata()[:3]).all()
    assert np.ptp(lines[:, :, 0]) < 2
    late = tally.mean("hour", {"hour": [22, 23, 0, 1, 2]}).plot()
    assert late.xaxis.get_major_formatter()(24.5, None) == "0.5"


def test_two_attributes_are_a_heat_map(tally):
    table = tally.count(by={"region": None, "age": [0, 40, 80, 100]})
    axes = table.plot()
    (mesh,) = axes.collections
    clear = table.confidence_interval().low > 0
    drawn = mesh.get_array().ravel()
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), ~clear)
    np.testing.assert_allclose(drawn[clear], table.values[clear])
    texts = [text.get_text() for text in axes.texts]
    assert texts == [f"{x:,.0f}" if yes else "" for x, yes in zip(table.values, clear, strict=True)]
    (crosses,) = axes.lines
    assert len(crosses.get_xdata()) == (~clear).sum() == 6
    assert axes.get_xlabel() == f"age\n(x: {EMPTY})"
    assert words(axes.get_yticklabels()) == ["north", "south", "east", "west"]


def test_heat_map_of_differences_marks_those_not_distinguishable_from_zero(tally):
    table = tally.mean("age", by=["region", "often"]).differences(("north", "never"))
    assert len(table) == 11  # not every pair of groups, so not a heat map
    assert table.plot().lines
    shares = tally.fraction("age < 40", by=["region", "often"]).differences()
    axes = shares.plot()
    low, high = shares.confidence_interval()
    marked = np.array([not one.estimable for _, one in shares]) | ((low <= 0) & (high >= 0))
    assert len(axes.lines[0].get_xdata()) == marked.sum() > 6
    assert axes.get_xlabel() == "often\n(x: not distinguishable from zero)"


def test_slice_of_a_table_of_two_attributes_is_drawn(tally):
    table = tally.count(by={"region": None, "age": [0, 40, 80, 100]})
    assert len(table.iloc[:6].plot().texts) == 6
    assert len(table.iloc[:5].plot().get_yticks()) == 5


def test_cdf_is_steps_with_its_simultaneous_band(tally):
    table = tally.cdf("age")
    axes = table.plot()
    band, line = steps(axes)
    low, high = table.confidence_interval()
    np.testing.assert_allclose(line.values, table.values)
    np.testing.assert_allclose(line.edges, np.arange(101))
    np.testing.assert_allclose([band.baseline, band.values], [low, high])
    assert facts(axes).startswith("95% simultaneous confidence band; 100,000 reports.")
    pointwise = table.plot(simultaneous=False)
    np.testing.assert_allclose(
        steps(pointwise)[0].values, table.confidence_interval(simultaneous=False).high
    )
    assert facts(pointwise).startswith("95% confidence band;")


def test_band_of_bins_covers_what_is_between_their_edges(tally):
    table = tally.cdf("income")
    low, high = table.confidence_interval()
    axes = table.plot()
    (band,) = axes.patches
    assert band.get_data().edges.tolist() == [0, *table.ends]
    np.testing.assert_array_equal(band.get_data().values, high)
    np.testing.assert_array_equal(band.get_data().baseline, [0, *low[:-1]])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [0, *table.values])


def test_cdf_of_a_group_that_may_be_empty_has_only_a_band(tally):
    axes = tally.cdf("age", "region == 'west'").plot()
    assert len(axes.patches) == 1
    assert EMPTY in labels_of(axes)


def test_waves_are_a_line_at_their_times(years):
    table = waves(years).mean("age")
    axes = table.plot()
    (line,) = axes.lines
    assert line.get_xdata().tolist() == [2019, 2020, 2022, 2023, 2024]
    np.testing.assert_allclose(line.get_ydata(), table.values)
    assert words(axes.get_xticklabels()) == ["2019", "2020", "2022", "2023", "2024"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("year", "mean age")
    assert axes.figure.get_suptitle() == "Mean age over time"
    assert "4,000 to 8,000 reports each" in facts(axes)
    drawn = np.sort(segments(axes, "95% confidence interval")[:, :, 1])
    np.testing.assert_allclose(drawn.T, table.confidence_interval())


# Rows without a bar ------------------------------------------------------------------------------


def test_row_that_may_be_empty_has_a_thin_interval_and_no_bar(tally):
    table = tally.histogram("region")
    low, high = table.confidence_interval()
    assert (low > 0).tolist() == [True, True, True, False]
    axes = table.plot()
    assert len(axes.patches) == 3
    thin = segments(axes, EMPTY)
    np.testing.assert_allclose(thin, [[[low[3], 3], [high[3], 3]]])
    assert len(segments(axes, "95% confidence interval")) == 3


def test_steps_leave_out_groups_that_may_be_empty(tally):
    table = tally.histogram("age", bins=10)
    clear = table.confidence_interval().low > 0
    assert clear.tolist() == [True] * 8 + [False] * 2
    axes = table.plot()
    for drawn in steps(axes):
        np.testing.assert_array_equal(np.isnan(drawn.values), ~clear)
    assert len(segments(axes, EMPTY)) == 2


def test_fraction_that_may_be_zero_and_mean_of_an_empty_group_are_intervals_alone(tally):
    fractions = tally.fraction("often == 'often'", by="region").plot()
    assert not fractions.patches
    assert len(segments(fractions, EMPTY)) == 4
    means = tally.mean("age", by="region").plot()
    assert np.isnan(means.lines[0].get_xdata()).tolist() == [False] * 3 + [True]
    low, high = means.get_xlim()
    np.testing.assert_allclose(segments(means, UNKNOWN)[0, :, 0], [low, high])
    assert 30 < low < high < 50, "the whole domain hides the intervals of other groups"


def test_count_at_another_level_may_be_empty(tally):
    table = tally.histogram("age", bins=5)
    low = [table.confidence_interval(level).low[-1] for level in (0.05, 0.95)]
    assert (low[0] > 0, low[1] > 0) == (True, False) or low[0] <= 0
    ends = table.confidence_interval(1 - 1e-9).low
    bars = steps(table.plot(confidence_level=1 - 1e-9))[1].values
    np.testing.assert_array_equal(np.isfinite(bars), ends > 0)


def test_infinite_intervals_end_at_the_edge(named):
    survey = named.survey
    person = {"age $": [3], "region": ["north"], "canton": [CANTONS[0]], "often": ["never"]}
    one = survey.tally(survey.randomize(person, randomness=Randomness.seeded(2)))
    for attribute in ("age $", "region"):
        axes = one.histogram(attribute, target="population").plot()
        assert not looking.cut_off(axes.figure)
        assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all()
        assert "population" in facts(axes)


# Options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("attribute", ["age $", "region", "often"])
@pytest.mark.parametrize("level", [0.95, 0.999])
def test_intervals_have_the_level_and_fit(attribute, level, named):
    table = named.histogram(attribute)
    axes = table.plot(confidence_level=level)
    low, high = axes.get_ylim() if attribute == "age $" else axes.get_xlim()
    ends = np.array(table.confidence_interval(level))
    assert low <= ends.min() < ends.max() < high
    assert facts(axes).startswith(f"{100 * level:g}% confidence intervals; 900 reports.")


def test_simultaneous_intervals_are_drawn_and_named(tally):
    table = tally.histogram("region")
    axes = table.plot(simultaneous=True)
    _, high = table.confidence_interval(simultaneous=True)
    drawn = segments(axes, "95% confidence interval")[:, 1, 0]
    np.testing.assert_allclose(drawn, high[:3])
    assert facts(axes).startswith("95% simultaneous confidence intervals")
    assert facts(tally.top_k("region", 2).plot()).startswith("95% simultaneous")


def test_true_values_are_drawn(tally):
    truth = [60_000, 25_000, 15_000, 0]
    axes = tally.histogram("region").plot(truth=truth)
    (points,) = [line for line in axes.lines if line.get_label() == TRUE]
    assert points.get_xdata().tolist() == truth
    rent = np.diff([0, 200, 400, 800, 1600, 3200]) * 31.25
    (points,) = tally.histogram("rent").plot(truth=rent).lines[1:]
    np.testing.assert_allclose(points.get_ydata(), 31.25)
    points = tally.cdf("age").plot(truth=np.arange(1, 101) / 100).lines[-1]
    assert points.get_ydata()[-1] == 1
    with pytest.raises(QueryError, match="truth has 2 values for 4 rows"):
        tally.histogram("region").plot(truth=[1, 2])


def test_fitted_value_and_unbiased_estimate_are_both_drawn(tally):
    table = tally.fit_distribution("income").histogram("income", bins=20)
    unbiased = tally.histogram("income", bins=20)
    assert not np.allclose(table.values, unbiased.values)
    axes = table.plot()
    (points,) = [line for line in axes.lines if line.get_label() == FITTED]
    np.testing.assert_allclose(points.get_ydata(), table.values)
    np.testing.assert_allclose(steps(axes)[1].values, unbiased.values)


def test_fitted_and_unbiased_cdf_are_both_drawn(tally):
    fitted, unbiased = tally.fit_distribution("often").cdf("often"), tally.cdf("often")
    assert not np.array_equal(fitted.values, unbiased.values)
    band, line, dashed = [patch.get_data() for patch in fitted.plot().patches]
    np.testing.assert_array_equal(line.values, unbiased.values)
    np.testing.assert_array_equal(dashed.values, fitted.values)
    np.testing.assert_allclose(band.values, unbiased.confidence_interval().high)


def test_pool_is_drawn(years):
    axes = pool([years[2019], years[2020]]).histogram("age", bins=10).plot()
    assert len(steps(axes)) == 2
    assert "9,000 reports" in facts(axes)


def test_chart_in_the_axes_of_the_caller_has_no_figure_text(tally):
    figure = Figure(figsize=(9, 4))
    left, right = figure.subplots(1, 2)
    assert tally.histogram("region").plot(left) is left
    assert tally.cdf("age").plot(ax=right, title="Ages in $") is right
    assert not figure.get_suptitle()
    assert not figure.get_supxlabel()
    assert not figure.texts
    assert left.get_title() == ""
    assert right.get_title() == "Ages in $"
    assert left.get_legend() is not None


def test_several_tables_share_an_axes(tally):
    figure = Figure()
    axes = figure.subplots()
    for name, color in zip(["north", "south"], COLORS, strict=False):
        tally.cdf("age", {"region": name}).plot(axes, label=name, color=color)
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["north", "south", "95% confidence band"]
    assert len(axes.patches) == 4


def test_title_has_the_condition_or_is_that_of_the_caller(tally):
    where = {"age": (20, 59)}
    for table in (
        tally.histogram("income", where),
        tally.cdf("income", where),
        tally.count(where, by=["region", "often"]),
        tally.mean("income", where, by="region"),
    ):
        title = table.plot().figure.get_suptitle().replace("\n", " ")
        assert title.endswith(" among age 20 to 59")
    assert tally.histogram("age").plot(title="Ages").figure.get_suptitle() == "Ages"


def test_dollars_are_not_mathematics(named):
    for table in (named.histogram("region"), named.histogram("age $"), named.cdf("age $")):
        axes = table.plot(title="price in $ and $")
        legend = axes.get_legend().get_texts()
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        texts = [*ticks, *legend, axes.figure._suptitle, axes.xaxis.label, axes.yaxis.label]
        dollars = [text for text in texts if "$" in text.get_text()]
        assert len(dollars) == 2
        assert not any(text.get_parse_math() for text in dollars)


def test_what_cannot_be_drawn_is_rejected(tally):
    with pytest.raises(QueryError, match=f"1 to {MOST_ROWS} rows, not 5,050"):
        tally.workload("age", "ranges").plot()
    with pytest.raises(QueryError, match="1 to 120 rows, not 0"):
        tally.histogram("region").iloc[4:].plot()


# Figures -----------------------------------------------------------------------------------------


def test_notebook_shows_the_chart(tally):
    axes = tally.histogram("region").plot()
    for shown in (axes, axes.figure):
        assert shown._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_figure_is_saved_without_warnings(name, named, tmp_path):
    """Also with characters that the font lacks; warnings are errors in tests."""
    save(named.histogram("region").plot(), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        named.histogram("region").plot().figure.savefig(tmp_path / f"own-{name}")


def test_pyplot_is_not_imported():
    program = (
        "import sys; from metricldp import Estimate\n"
        "one = Estimate(5.0, 1.0)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "one.plot()\n"
        "assert 'matplotlib' in sys.modules\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"


def test_missing_matplotlib_is_an_error_of_one_line():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from metricldp import Estimate, MissingDependencyError\n"
        "try: Estimate(5.0, 1.0).plot()\n"
        "except MissingDependencyError as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("plots need matplotlib")
    assert "install 'metricldp[plot]'" in run.stdout
    assert run.stdout.count("\n") == 1


# What a reader notices ---------------------------------------------------------------------------

DRAWN = {
    "histogram": lambda t: t.histogram("age", bins=20).plot(),
    "histogram with true values": lambda t: t.histogram("age", bins=20).plot(truth=[6250] * 20),
    "every value": lambda t: t.histogram("age").plot(simultaneous=True),
    "bins": lambda t: t.histogram("income", {"age": (20, 59)}).plot(confidence_level=0.9),
    "edges": lambda t: t.histogram("rent").plot(),
    "bands": lambda t: t.count(by={"age": [0, 18, 30, 65, 100]}).plot(),
    "names": lambda t: t.histogram("region").plot(truth=[60_000, 25_000, 15_000, 0]),
    "fractions": lambda t: t.fraction("age < 30", by="region").plot(),
    "cdf": lambda t: t.cdf("age").plot(truth=np.arange(1, 101) / 100),
    "cdf of bins": lambda t: t.cdf("income", {"region": "north"}).plot(),
    "cdf of levels": lambda t: t.cdf("often").plot(),
    "empty cdf": lambda t: t.cdf("age", {"region": "west"}).plot(),
    "conditions": lambda t: t.counts(
        [{"age": (k, k + 9), "region": ["north", "south"]} for k in range(0, 100, 10)]
    ).plot(),
    "workload": lambda t: t.workload("age", "10 bars").plot(simultaneous=True),
    "top": lambda t: t.top_k("age", 12).plot(),
    "slice": lambda t: t.histogram("age").iloc[:5].plot(),
    "heat map": lambda t: t.count(by={"region": None, "age": [*range(0, 101, 10)]}).plot(),
    "large heat map": lambda t: t.count(
        by={"age": [*range(0, 101, 5)], "income": [*range(0, 200_001, 10_000)]}
    ).plot(),
    "heat map of edges": lambda t: t.count(by={"rent": None, "region": None}).plot(),
    "heat map of means": lambda t: t.mean("age", by=["region", "often"]).plot(),
    "means": lambda t: t.mean("income", by="region").plot(),
    "means of bands": lambda t: t.mean("income", by={"age": [0, 18, 30, 65, 100]}).plot(),
    "means of hours": lambda t: t.mean("age", by="hour").plot(),
    "circular means": lambda t: t.mean("hour", by="region").plot(),
    "levels": lambda t: t.quantile("often", by="region").plot(),
    "differences": lambda t: t.mean("age", by="region").differences().plot(),
    "one": lambda t: t.count("18 <= age <= 29").plot(),
    "one mean": lambda t: t.mean("age", {"region": "west"}).plot(),
    "coefficients": lambda t: t.linear_regression("income", ["age", "rent"]).coefficients.plot(),
    "fit": lambda t: (
        t.fit_distribution("income").histogram("income", bins=20).plot(truth=[5000] * 20)
    ),
    "population": lambda t: t.count(by="region", target="population").plot(),
}


@pytest.mark.parametrize("name", DRAWN)
def test_figure_is_readable_and_states_level_reports_and_guarantee(name, tally):
    axes = DRAWN[name](tally)
    assert not looking.overlaps(axes.figure)
    assert not looking.cut_off(axes.figure)
    assert not looking.faint(axes.figure)
    text, level = facts(axes), 90 if name == "bins" else 95
    assert text.startswith((f"{level}% confidence", f"{level}% simultaneous confidence"))
    assert "; 100,000 reports" in text
    if name not in ("differences", "coefficients"):  # they have no survey
        assert "Guarantee: " in text
        assert "all attributes together epsilon " in text
    assert axes.figure.get_suptitle()


@pytest.mark.parametrize("dates", [False, True])
@pytest.mark.parametrize("query", ["count", "fraction", "mean", "quantile"])
def test_texts_of_waves_are_whole_and_apart(query, dates, years):
    days = [datetime.date(year, 3, 1) for year in years]
    found = waves(list(years.values()), days if dates else list(years))
    argument = "age" if query in ("mean", "quantile") else "age > 50"
    axes = getattr(found, query)(argument).plot()
    assert not looking.overlaps(axes.figure)
    assert not looking.cut_off(axes.figure)


def test_bad_texts_are_noticed():
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, "one word")
    assert not (looking.overlaps(figure) or looking.cut_off(figure) or looking.faint(figure))
    figure.text(0.2, 0.55, "another", color="#999999")
    figure.text(0.9, 0.1, "too far")
    assert looking.overlaps(figure) == [("one word", "another")]
    assert looking.cut_off(figure) == ["too far"]
    assert looking.faint(figure) == ["another"]


def test_colours_are_distinguishable_with_colour_blindness():
    assert min(looking.least_difference([*COLORS, GREY]).values()) > 20
    assert all(contrast(color) >= 3 for color in (*COLORS, GREY, TRUTH, INK))
    near = looking.least_difference(["#d1495b", "#3a8f5c"])  # a red and a green of the same shade
    assert near["as most people"] > 60
    assert near["without green"] < 10
