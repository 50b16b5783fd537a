"""Tables of all queries: by position and label, as arrays, exports and text."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Cdf,
    EstimateTable,
    Integer,
    Quantile,
    QueryError,
    Randomness,
    Survey,
)
from metricldp.answers.answer import Estimate
from metricldp.answers.ratio import Ratio
from metricldp.basics.errors import MissingDependencyError
from metricldp.estimate.table import MOST_ROWS_SHOWN

SURVEY = Survey.design(
    {
        "age": Integer(0, 9, epsilon=1, mechanism="geometric", per=1),
        "region": Categorical(["north", "<south>", "east"], epsilon=1),
    }
)
RNG = np.random.default_rng(3)
PEOPLE = {
    "age": RNG.integers(0, 10, 500),
    "region": RNG.choice(["north", "<south>", "east"], 500),
}
TALLY = SURVEY.tally(SURVEY.randomize(PEOPLE, randomness=Randomness.seeded(3)))
ASK = {
    "histogram": lambda tally: tally.histogram("age"),
    "names": lambda tally: tally.histogram("region"),
    "linear": lambda tally: tally.workload("age", "ranges"),
    "counts": lambda tally: tally.counts([None, {"age": (2, 5)}, {"region": "<south>"}]),
    "cdf": lambda tally: tally.cdf("age"),
}


@pytest.fixture(params=ASK)
def found(request):
    return ASK[request.param](TALLY)


def test_rows_by_position_label_and_slice(found):
    assert isinstance(found, EstimateTable)
    rows = [estimate for _, estimate in found]
    assert len(found) == len(rows) == len(found.labels)
    assert found.iloc[np.int64(-1)] == rows[-1]
    assert found[found.labels[1]] == rows[1]
    part = found.iloc[1:3]
    assert isinstance(part, EstimateTable)
    assert part.labels == list(found.labels[1:3])
    assert [a.value for _, a in part] == pytest.approx([a.value for a in rows[1:3]])
    assert found.iloc[::-1].iloc[0] == rows[-1]
    assert found == EstimateTable(found.groupings, rows)
    assert found != found.iloc[1:]
    with pytest.raises(TypeError):
        hash(found)


def test_arrays_and_exports_have_the_same_numbers(found):
    low, high = found.confidence_interval(0.9, simultaneous=False)
    for array in (found.values, found.stderr, low, high):
        assert array.shape == (len(found),)
    table = found.to_arrow(0.9, simultaneous=False)
    for name, array in (("estimate", found.values), ("std_error", found.stderr), ("ci_low", low)):
        assert table[name].to_pylist() == array.tolist()
    data = found.to_dict(0.9, simultaneous=False)
    assert [row["ci_high"] for row in data["rows"]] == high.tolist()
    assert (data["confidence_level"], data["target"]) == (0.9, "respondents")


def test_intervals_are_those_of_the_rows(found):
    rows = [estimate for _, estimate in found]
    alone = found.confidence_interval(0.9, simultaneous=False)
    np.testing.assert_allclose(np.transpose(alone), [one.confidence_interval(0.9) for one in rows])
    wide = found.confidence_interval(0.9, simultaneous=True)
    if not isinstance(found, Cdf):  # whose band is monotone
        each = 1 - 0.1 / len(found)
        np.testing.assert_allclose(
            np.transpose(wide), [one.confidence_interval(each) for one in rows]
        )
    for level in (0, 1, math.nan, "0.5", True):
        with pytest.raises(QueryError, match="a confidence level is between 0 and 1"):
            found.confidence_interval(level, simultaneous=True)


@pytest.mark.parametrize("simultaneous", [True, False])
def test_simultaneous_intervals_hold_together(simultaneous):
    """10 bars at 90 %, 300 repetitions; the twin of single intervals must fail.

    The bars' errors are normal enough: with a true chance of 0.9, fewer than 0.83 of 300 have a
    chance below 1e-4; single intervals hold together in about a third of all cases.
    """
    truth = np.bincount(PEOPLE["age"], minlength=10)
    randomness = Randomness.seeded(4)
    held = 0
    for _ in range(300):
        bars = SURVEY.tally(SURVEY.randomize(PEOPLE, randomness=randomness)).histogram("age")
        low, high = bars.confidence_interval(0.9, simultaneous=simultaneous)
        held += bool(((low <= truth) & (truth <= high)).all())
    assert (held >= 0.83 * 300) == simultaneous


def test_exports_and_texts_show_simultaneous_intervals_if_asked(found):
    low, high = found.confidence_interval(0.9, simultaneous=True)
    alone = found.confidence_interval(0.9, simultaneous=False)
    for simultaneous, ends in ((True, (low, high)), (False, alone)):
        how = {"simultaneous": simultaneous}
        for name, array in zip(("ci_low", "ci_high"), ends, strict=True):
            assert found.to_arrow(0.9, **how)[name].to_pylist() == array.tolist()
            assert found.to_pandas(0.9, **how)[name].tolist() == array.tolist()
            assert found.to_polars(0.9, **how)[name].to_list() == array.tolist()
            rows = found.to_dict(0.9, **how)["rows"]
            assert [row[name] for row in rows] == array.tolist()
        assert found.to_dict(0.9, **how)["simultaneous"] is simultaneous
        assert ("90% CI (all rows)" in found.to_text(0.9, **how)) == simultaneous
        assert ("90% CI (all rows)" in found.to_html(0.9, **how)) == simultaneous
    assert (high - low).sum() > (alone.high - alone.low).sum()


def test_text_is_the_table_and_html_is_escaped(found):
    assert repr(found) == str(found)
    assert len(str(found).splitlines()) >= len(found)
    page = found._repr_html_()
    assert page.count("<tr>") == len(found) + 1
    assert "<south>" not in page
    assert ("&lt;south&gt;" in page) == any("<south>" in str(label) for label in found.labels)


def test_printing_computes_the_errors_of_printed_rows_only():
    survey = Survey.design({"v": Integer(0, 99, epsilon=1, per=1)})
    ranges = survey.tally(survey.randomize({"v": [1, 2]})).workload("v", "ranges")
    page = ranges._repr_html_()
    assert page.count("<tr>") == MOST_ROWS_SHOWN + 1
    assert "and 4,850 more rows" in page
    assert "stderr" not in ranges.__dict__


def test_shared_notes_are_printed_once():
    empty = SURVEY.tally([]).histogram("region")
    assert str(empty).count("no reports yet") == 1
    assert empty.to_dict()["notes"] == ["no reports yet"]
    assert len(TALLY.counts([])) == len(TALLY.counts([]).values) == 0
    assert TALLY.counts([]).to_dict()["rows"] == []


def test_single_estimates_are_numbers():
    one = Estimate(1234.5678, 4.0)
    assert float(one) == 1234.5678
    assert f"{one:,.0f}" == "1,235"
    assert f"{one}" == str(one)
    median = TALLY.quantile("age", 0.5)
    assert isinstance(median, Quantile)
    assert float(median) == median.value
    assert f"{median:03d}" == f"{median.value:03d}"


@pytest.mark.parametrize(("library", "ask"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_library_that_is_missing(library, ask, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        MissingDependencyError, match=rf"needs {library} .*pip install \S*{library}"
    ):
        getattr(TALLY.histogram("age"), ask)()


def test_totals_need_no_pyarrow_to_be_asked(tmp_path):
    """A file of totals is read and asked without it."""
    SURVEY.save(tmp_path / "survey.toml")
    totals = SURVEY.tally(
        SURVEY.randomize(PEOPLE, randomness=Randomness.seeded(3)), keep=[("age", "region")]
    )
    totals.save(tmp_path / "kept.totals")
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from metricldp import Survey\n"
        "survey = Survey.load('survey.toml')\n"
        "print(survey.tally('kept.totals').count({'age': (2, 5), 'region': 'north'}))\n"
    )
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "pyarrow" in told.stderr:
        pytest.skip("pyarrow is still loaded")
    assert told.stdout.strip() == str(totals.count({"age": (2, 5), "region": "north"}))


def test_answers_are_equal_by_what_they_say():
    """Not by what stands behind it: how sums were found, what they are made of, what was agreed."""
    one = Estimate(1.0, 2.0)
    behind = {
        **{"layout": "cells", "scale": 2.0, "reports": 3, "one": 4.0, "origin": (2.0, one)},
        **{"bracket": object(), "lie": object(), "made": object(), "survey": object()},
    }
    assert one == replace(one, **behind)
    for name, value in behind.items():
        assert getattr(one, name) != value
    assert (one.scale, one.reports, one.one, one.layout) == (1, 0, 0, "")
    told = {"value": 2.0, "variance": 1.0, "question": "q", "unit": "years", "target": "population"}
    told |= {"notes": ("n",), "bounds": (1.0, 2.0), "jump": 1.0, "hidden": 1.0, "between": (one,)}
    for name, value in told.items():
        assert one != replace(one, **{name: value})
    assert one.bounds == (0, math.inf) and one.jump == one.hidden == 0
    assert one.stderr == math.sqrt(2)
    ratio = Ratio(
        1.0, 2.0, denominator=4.0, numerator_variance=1.0, denominator_variance=1.0, shared=0.5
    )
    behind = {"above": object(), "lies": object(), "ends": object(), "ones": (1.0, 1.0)}
    assert ratio == replace(ratio, **behind)
    assert ratio.clear
    assert ratio.ones == (0, 0) and ratio.possible == (-math.inf, math.inf)
    for name in ("denominator", "numerator_variance", "denominator_variance", "shared"):
        assert ratio != replace(ratio, **{name: 7.0})
    assert ratio != replace(ratio, numerator=3.0)
