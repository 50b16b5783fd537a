"""Tables of estimates: labels, columns, exports and text, on a survey with an empty group."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

from metricldp import (
    Categorical,
    Continuous,
    EstimateTable,
    Integer,
    Interval,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
)
from metricldp.answers.brackets import Planner

N = 4_000
COLUMNS = ["estimate", "std_error", "ci_low", "ci_high", "n", "note"]


@pytest.fixture(scope="module")
def tally():
    survey = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, within=10, max_epsilon=3),
            "region": Categorical(["north", "south", "west"], epsilon=3),
            "mood": Ordinal(["low", "mid", "high"], epsilon=2),
            "month": Integer(1, 12, epsilon=2, within=2, cyclic=True),
            "pay": Continuous(0, 100, bins=10, epsilon=1, within=20),
        }
    )
    rng = np.random.default_rng(1)
    data = {
        "age": rng.integers(20, 60, N),
        "region": rng.choice(["north", "south"], N),
        "mood": rng.choice(["low", "mid", "high"], N),
        "month": rng.integers(1, 13, N),
        "pay": rng.uniform(0, 100, N),
    }
    return survey.tally(survey.randomize(data, randomness=Randomness.seeded(1)))


# Labels ------------------------------------------------------------------------------------------


def test_labels_have_the_type_of_the_attribute(tally):
    months = tally.count(by="month")
    assert months.labels == list(range(1, 13))
    assert months[1] == months.iloc[0] and months[np.int64(12)] == months.iloc[-1]
    assert tally.count(by="region")["north"] == tally.count("region == 'north'")
    assert tally.count(by="pay").labels[0] == (0.0, 10.0)


def test_iteration_gives_labels_and_estimates(tally):
    table = tally.count(by="region")
    assert [label for label, _ in table] == ["north", "south", "west"]
    assert all(estimate == table[label] for label, estimate in table)
    assert len(table) == 3


def test_bands_are_left_closed_and_labelled_by_their_edges(tally):
    table = tally.count(by={"age": [0, 18, 30, 65, 100]})
    assert table.labels == [(0, 18), (18, 30), (30, 65), (65, 100)]
    assert table[18, 30].value == pytest.approx(tally.count("18 <= age < 30").value)
    assert table.to_arrow().column_names[:2] == ["age_low", "age_high"]
    exported = table.to_arrow()
    assert exported["age_low"].to_pylist() == [0, 18, 30, 65]
    assert exported["age_high"].to_pylist() == [18, 30, 65, 100], "edges, not last values"
    assert exported["n"].to_pylist() == [N] * 4, "all reports, not those of the group"


def test_two_attributes_give_pairs_of_labels(tally):
    table = tally.count(by=["region", "mood"])
    assert len(table) == 9 and table.labels[1] == ("north", "mid")
    single = tally.count("region == 'north' and mood == 'mid'")
    assert table["north", "mid"].value == pytest.approx(single.value)
    assert table["north", "mid"].stderr == pytest.approx(single.stderr)
    assert table.to_arrow().column_names == ["region", "mood", *COLUMNS]


@pytest.mark.parametrize("label", ["east", "", 0, None, ("north",), ["north"], {}])
def test_unknown_label_names_the_labels(tally, label):
    with pytest.raises(QueryError, match="it has 'north', 'south', 'west'"):
        tally.count(by="region")[label]


def test_position_beyond_the_rows_is_an_index_error(tally):
    table = tally.count(by="region")
    with pytest.raises(IndexError, match="rows 0 to 2"):
        table.iloc[3]
    assert table.iloc[1:].labels == ["south", "west"]


@pytest.mark.parametrize(
    "by", [{"age": 10}, {"age": [0]}, {"age": [10, 0]}, {"region": [0, 1]}, ["age"] * 2, 3, {}]
)
def test_invalid_groups_are_rejected(tally, by):
    with pytest.raises(QueryError):
        tally.count(by=by)


# Columns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        lambda t: t.count(by="region"),
        lambda t: t.fraction("age < 40", by="region"),
        lambda t: t.sum("age", by="region"),
        lambda t: t.mean("age", by="region"),
        lambda t: t.variance("age", by="region"),
        lambda t: t.std("age", by="region"),
        lambda t: t.quantile("age", by="region"),
        lambda t: t.histogram("region"),
        lambda t: t.top_k("region", 2),
        lambda t: t.count(by="region").differences("north"),
        lambda t: t.count(by="region").differences(),
        lambda t: t.mean("age", by="region").differences(),
    ],
)
def test_columns_are_the_same_for_every_query(tally, query):
    table = query(tally)
    assert isinstance(table, EstimateTable)
    arrow = table.to_arrow()
    assert arrow.column_names == ["region", *COLUMNS]
    assert arrow.schema.field("n").type == pa.int64()
    assert arrow.schema.field("note").type == pa.string()
    assert arrow.column("n").to_pylist() == [N] * len(table)
    assert str(pa.table(table).to_pylist()) == str(arrow.to_pylist())
    assert list(table.to_pandas().columns) == arrow.column_names
    data = table.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert [list(row) for row in data["rows"]] == [arrow.column_names] * len(table)
    lines = table.to_csv().splitlines()
    assert lines[0] == ",".join(arrow.column_names) and len(lines) == len(table) + 1
    assert str(table) and table._repr_html_().startswith("<div>")


def test_levels_are_ordered_categories(tally):
    table = tally.count(by="mood")
    frame = table.to_pandas()
    assert frame["mood"].cat.ordered and list(frame["mood"].cat.categories) == [
        "low",
        "mid",
        "high",
    ]
    assert table.to_arrow().schema.field("mood").type.ordered


def test_group_with_the_name_of_a_column_gets_another_one():
    survey = Survey.design({"n": Integer(0, 3, epsilon=1, per=1)})
    table = survey.tally(survey.randomize({"n": [0, 1, 2, 3] * 10})).count(by="n")
    assert table.to_arrow().column_names == ["n_group", *COLUMNS]


def test_levels_with_the_name_of_a_column_leave_that_column_alone():
    survey = Survey.design({"n": Ordinal(["low", "high"], epsilon=1)})
    table = survey.tally(survey.randomize({"n": ["low", "high"] * 10})).count(by="n")
    arrow, pandas, polars = table.to_arrow(), table.to_pandas(), table.to_polars()
    for frame in (arrow.to_pydict(), pandas.to_dict("list"), polars.to_dict(as_series=False)):
        assert frame["n"] == [20, 20] and frame["n_group"] == ["low", "high"]
    assert arrow.schema.field("n_group").type.ordered


def test_bands_with_the_name_of_a_column_leave_that_column_alone():
    survey = Survey.design({"ci": Integer(0, 3, epsilon=1, per=1)})
    tally = survey.tally(survey.randomize({"ci": [0, 1, 2, 3] * 10}))
    columns = tally.count(by={"ci": [0, 2, 4]}).to_arrow().column_names
    assert columns == ["ci_group_low", "ci_group_high", *COLUMNS]


def test_single_estimate_is_a_table_of_one_row(tally):
    estimate = tally.count("age < 30")
    table = EstimateTable.single(estimate)
    assert table.to_arrow().column_names == COLUMNS
    (row,) = table.to_dict()["rows"]
    assert row == {name: estimate.to_dict()[name] for name in COLUMNS}
    assert str(table) == str(estimate)


# What cannot be estimated ------------------------------------------------------------------------


def test_mean_of_a_group_that_may_be_empty_is_nan_with_a_note(tally):
    table = tally.mean("age", by="region")
    assert math.isnan(table.values[2]) and math.isnan(table.stderr[2])
    assert np.isfinite(table.values[:2]).all()
    row = table.to_dict()["rows"][2]
    assert (
        row["estimate"] is None and row["std_error"] is None and "group is estimated" in row["note"]
    )
    assert "west    cannot be estimated" in str(table)
    assert str(table["west"]).startswith("cannot be estimated: the group is not distinguishable")


@pytest.mark.parametrize(
    "query",
    [
        lambda tally, empty: tally.mean("age", empty),
        lambda tally, empty: tally.mean("pay", empty),
        lambda tally, empty: tally.fraction("age < 30", among=empty),
        lambda tally, empty: tally.quantile("age", 0.5, empty),
        lambda tally, empty: tally.variance("age", empty),
        lambda tally, empty: tally.std("age", empty),
        lambda tally, empty: tally.covariance("age", "pay", empty),
        lambda tally, empty: tally.correlation("age", "pay", empty),
        lambda tally, empty: tally.cdf("age", empty).at(30),
        lambda tally, empty: tally.sum("age", empty) / tally.count(empty),
        lambda tally, empty: tally.mean("age") - tally.mean("age", empty),
        lambda tally, empty: tally.fit_distribution(["age", "region"]).mean("age", empty),
    ],
)
def test_value_that_cannot_be_estimated_is_nan(tally, query):
    """A number in its place, such as the middle of the domain, could be taken for an estimate."""
    estimate = query(tally, "region == 'west'")
    low, high = estimate.confidence_interval()
    assert math.isnan(estimate.value) and math.isnan(float(estimate)) and low < high
    assert not math.isfinite(estimate.stderr) and str(estimate).startswith("cannot be estimated")


def test_distribution_of_a_group_that_may_be_empty_is_nan_with_a_note(tally):
    table = tally.cdf("mood", "region == 'west'")
    columns = table.to_arrow().to_pydict()
    assert all(map(math.isnan, columns["estimate"] + columns["std_error"]))
    assert all("the group is estimated at" in note for note in columns["note"])
    assert [row["estimate"] for row in table.to_dict()["rows"]] == [None] * 3
    assert str(table).count("cannot be estimated") == 3
    assert columns["ci_low"][0] == 0 and columns["ci_high"][0] == 1


def test_count_outside_of_its_interval_is_printed_as_a_bound(tally):
    for seed in range(20):
        reports = tally.survey.randomize(
            {
                "age": [30] * 500,
                "region": ["north"] * 500,
                "mood": ["low"] * 500,
                "month": [1] * 500,
                "pay": [1.0] * 500,
            },
            randomness=Randomness.seeded(seed),
        )
        west = tally.survey.tally(reports).count("region == 'west'")
        low, high = west.confidence_interval()
        assert 0 <= low <= high <= 500
        if west.value < low:
            assert str(west).startswith(f"fewer than {high:,.0f} people (SE")
            return
    raise AssertionError("no seed gave an estimate below zero")


def test_interval_lies_within_what_is_possible(tally):
    fraction = tally.fraction("region == 'west'")
    mean = tally.mean("age", "region == 'west'")
    for estimate, (least, most) in ((fraction, (0, 1)), (mean, (0, 99))):
        low, high = estimate.confidence_interval(0.999)
        assert least <= low <= high <= most


def test_impossible_interval_is_the_nearest_value_with_a_note():
    survey = Survey.design({"x": Integer(0, 1, epsilon=3, per=1)})
    reports = survey.randomize({"x": [0] * 500}, randomness=Randomness.seeded(3))
    estimate = survey.tally(reports).count("x == 1")
    assert estimate.value < 0 and estimate._interval(0.001)[1] < 0
    assert estimate.confidence_interval(0.001) == (0, 0)
    assert estimate.to_text(0.001).endswith("; no possible value is in its 0.1% CI")
    assert "no possible value" not in estimate.to_text(0.999)
    note = "no possible value is in its 0.1% CI"
    assert estimate.to_dict(0.001)["note"] == note and estimate.to_dict()["note"] is None
    table = EstimateTable.single(estimate)
    assert note in table.to_csv(0.001) and table.to_pandas(0.001)["note"].tolist() == [note]
    assert table.to_arrow(0.999)["note"].to_pylist() == [None]


def test_notes_of_all_rows_are_in_every_export(tally):
    """A table of one row has no note that only some of its rows have."""
    tables = (
        EstimateTable.single(tally.mean("age", "region == 'west'")),
        EstimateTable.single(tally.mean("pay")),
        tally.mean("month", by="region"),
    )
    for table, words in zip(tables, ("the group", "middle of its bins", "modulo 12"), strict=True):
        notes = [row["note"] for row in table.to_dict()["rows"]]
        assert all(words in note for note in notes)
        assert table.to_arrow()["note"].to_pylist() == notes == table.to_pandas()["note"].tolist()
        assert table.to_csv().count(words) == len(table)


# Text --------------------------------------------------------------------------------------------


def test_text_of_a_count():
    survey = Survey.design({"age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3)})
    rng = np.random.default_rng(1)
    reports = survey.randomize(
        {"age": rng.integers(18, 90, 100_000)}, randomness=Randomness.seeded(1)
    )
    text = str(survey.tally(reports).count("18 <= age <= 29"))
    value, rest = text.split(" people (SE ")
    error, rest = rest.split(", 95% CI ")
    low, high = rest.removesuffix(")").split(" to ")
    numbers = [int(word.replace(",", "")) for word in (value, error, low, high)]
    assert numbers[2] < numbers[0] < numbers[3] and 400 < numbers[1] < 700
    assert (
        f"{numbers[0]:,} people (SE {numbers[1]:,}, 95% CI {numbers[2]:,} to {numbers[3]:,})"
        == text
    )


def test_no_printed_number_is_infinite_or_bare_plus_minus(tally):
    for table in (tally.mean("age", by="region"), tally.count(by="mood"), tally.cdf("age")):
        text = str(table)
        assert "±" not in text and "inf" not in text.split() and "nan" not in text.lower()


def test_long_tables_print_their_first_rows(tally):
    table = tally.workload("age", "ranges")
    lines = str(table).splitlines()
    rows = [line for line in lines if not line.startswith("note: ")]
    assert len(table) == 5_050 and len(rows) == 202  # with the label and the header
    assert "note: and 4,850 more rows" in lines


def test_printing_and_intervals_run_no_search(tally, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a search was started")

    monkeypatch.setattr(Planner, "plan", fail)
    with pytest.raises(AssertionError, match="a search was started"):
        tally.count("age < 30").confidence_interval(method="envelope")
    for result in (
        tally.count("age < 30"),
        tally.fraction("age < 30", among="region == 'north'"),
        tally.mean("age"),
        tally.quantile("age"),
        tally.cdf("age"),
        tally.count(by=["age", "mood"]),
        tally.top_k("region"),
    ):
        assert str(result) and result.confidence_interval() and result.to_dict()


def test_table_and_single_query_have_the_same_interval(tally):
    for table, query in (
        (tally.count(by="region"), tally.count),
        (tally.mean("age", by="region"), lambda where: tally.mean("age", where)),
        (
            tally.count(by=["region", "mood"]),
            lambda where: tally.count(f"{where} and mood == 'low'"),
        ),
    ):
        label = "south" if len(table) == 3 else ("south", "low")
        row = table.labels.index(label)
        low, high = table.confidence_interval()
        expected = query("region == 'south'").confidence_interval()
        assert (low[row], high[row]) == pytest.approx(expected, rel=1e-9)


def test_simultaneous_intervals_are_wider_and_labelled(tally):
    table = tally.count(by="region")
    low, high = table.confidence_interval(simultaneous=True)
    each = table.confidence_interval()
    assert (high - low)[:2].min() > (each.high - each.low)[:2].max()
    assert "95% CI (all rows)" in table.to_text(simultaneous=True)
    expected = table["north"].confidence_interval(1 - 0.05 / 3)
    assert (low[0], high[0]) == pytest.approx(expected)


# Differences -------------------------------------------------------------------------------------


def test_rows_of_a_simultaneous_table_keep_their_simultaneous_intervals(tally):
    """Rows are selected by their estimates, so an interval for one of them is too short."""
    for table in (tally.top_k("age", 5), tally.cdf("mood")):
        low, high = table.iloc[:2].confidence_interval(simultaneous=True)
        shown = table.iloc[:2].to_arrow()
        assert shown["ci_low"].to_pylist() == pytest.approx(low.tolist())
        assert (high - low)[0] > np.diff(table.iloc[0].confidence_interval())[0]
        assert "95% CI (all rows)" in str(table.iloc[:2])
    table = tally.top_k("age", 5)
    assert table.iloc[:2].to_arrow() == table.to_arrow().slice(0, 2)


def test_differences_of_some_rows_are_those_of_the_table(tally):
    table = tally.count(by="mood")
    assert table.iloc[1:].differences()["mid"] == table.differences()["mid"]


def test_poisoning_bounds_have_named_ends(tally):
    for query in (tally.count("age < 30"), tally.mean("age"), tally.count(by="mood")):
        bounds = query.poisoning_bounds(malicious=5)
        assert isinstance(bounds, Interval) and np.all(bounds.low < bounds.high)


def test_count_over_a_number_has_no_people():
    survey = Survey.design({"x": Integer(0, 1, epsilon=1, per=1)})
    tally = survey.tally(survey.randomize({"x": [0, 1] * 50}, randomness=Randomness.seeded(1)))
    count = tally.count("x == 1")
    for fraction in (count / tally.n, 0.01 * count):
        low, high = (end / 100 for end in count.confidence_interval())
        assert fraction.unit == "" and fraction.confidence_interval() == pytest.approx((low, high))
        assert f"95% CI {low:.3f} to {high:.3f}" in str(fraction)
    assert (2 * count).unit == (-count).unit == "people"


def test_differences_from_a_baseline_have_their_joint_error(tally):
    table = tally.count(by="region").differences("north")
    direct = tally.count("region == 'south'") - tally.count("region == 'north'")
    assert table["south"].value == pytest.approx(direct.value)
    assert table["south"].stderr == pytest.approx(direct.stderr)
    assert "north" not in table.labels


def test_differences_from_everyone_else(tally):
    table = tally.mean("age", by="region").differences()
    direct = tally.mean("age", "region == 'north'") - tally.mean("age", "region != 'north'")
    assert table["north"].value == pytest.approx(direct.value)
    assert table["north"].stderr == pytest.approx(direct.stderr)


def test_baseline_must_be_a_label(tally):
    with pytest.raises(QueryError, match="it has 'north', 'south', 'west'"):
        tally.count(by="region").differences("nrth")


# Distribution functions --------------------------------------------------------------------------


def test_cdf_shows_and_exports_its_simultaneous_band(tally):
    cdf = tally.cdf("mood")
    low, high = cdf.confidence_interval()
    arrow = cdf.to_arrow()
    assert arrow.column("ci_low").to_pylist() == pytest.approx(low.tolist())
    assert arrow.column("ci_high").to_pylist() == pytest.approx(high.tolist())
    point = cdf.at("low").confidence_interval()
    assert high[0] - low[0] > point.high - point.low
    assert "95% CI (all rows)" in str(cdf)


def test_cdf_at_a_value_or_an_edge(tally):
    assert tally.cdf("age").at(29).value == pytest.approx(tally.fraction("age <= 29").value)
    assert tally.cdf("pay").at(30).value == pytest.approx(tally.fraction("pay < 30").value)
    with pytest.raises(QueryError, match="use an edge"):
        tally.cdf("pay").at(35)
    with pytest.raises(QueryError, match="below the first value"):
        tally.cdf("age").at(-1)


# Tests -------------------------------------------------------------------------------------------


def test_null_test_agrees_with_the_interval(tally):
    estimate = tally.count("age < 30")
    low, high = estimate.confidence_interval(0.95)
    assert estimate.test(low + 1e-6).pvalue > 0.05 > estimate.test(low - 5).pvalue
    two, one = estimate.test(high), estimate.test(high, alternative="less")
    assert one.pvalue == pytest.approx(two.pvalue / 2)
    assert estimate.test(high, alternative="greater").pvalue == pytest.approx(1 - two.pvalue / 2)
    assert two.statistic == pytest.approx((estimate.value - high) / estimate.stderr)
    with pytest.raises(QueryError, match="alternative is one of"):
        estimate.test(alternative="both")
