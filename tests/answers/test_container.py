"""One container for all questions: by position and label, as arrays, tables and text."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from metricldp import Answers, Categorical, Coins, Integer, Quantile, QueryError, Survey
from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import MAX_ROWS_SHOWN
from metricldp.answers.ratio import Ratio
from metricldp.basics.errors import MissingLibrary

SURVEY = Survey(
    {
        "age": Integer(0, 9, epsilon=1, mechanism="geometric"),
        "region": Categorical(["north", "<south>", "east"], epsilon=1),
    }
)
RNG = np.random.default_rng(3)
PEOPLE = {
    "age": RNG.integers(0, 10, 500),
    "region": RNG.choice(["north", "<south>", "east"], 500),
}
TALLY = SURVEY.tally(SURVEY.encode(PEOPLE, coins=Coins.seeded(3)))
ASK = {
    "histogram": lambda tally: tally.histogram("age"),
    "names": lambda tally: tally.histogram("region"),
    "linear": lambda tally: tally.linear("age", "ranges"),
    "counts": lambda tally: tally.counts([None, {"age": (2, 5)}, {"region": "<south>"}]),
    "cdf": lambda tally: tally.cdf("age"),
}


@pytest.fixture(params=ASK)
def found(request):
    return ASK[request.param](TALLY)


def test_rows_by_position_label_and_slice(found):
    assert isinstance(found, Answers)
    rows = list(found)
    assert len(found) == len(rows) == len(found.labels)
    assert found[np.int64(-1)] == rows[-1]
    assert found[found.labels[1]] == rows[1]
    part = found[1:3]
    assert isinstance(part, Answers)
    assert list(part.labels) == list(found.labels[1:3])
    assert [a.value for a in part] == pytest.approx([a.value for a in rows[1:3]])
    assert found[::-1][0] == rows[-1]
    assert found == Answers("", found.labels, rows)
    assert found != found[1:]
    with pytest.raises(IndexError, match=f"answers 0 to {len(rows) - 1}, not 999"):
        found[999]
    with pytest.raises(QueryError, match="is called 'nothing'; there are"):
        found["nothing"]
    with pytest.raises(TypeError):
        hash(found)


def test_arrays_and_tables(found):
    low, high = found.interval(0.9, simultaneous=found.simultaneous)
    for array in (found.values, found.stderr, low, high):
        assert array.shape == (len(found),)
    table = found.to_arrow(0.9)
    assert table.column_names == [found.attribute or "question", "value", "stderr", "low", "high"]
    for name, array in (("value", found.values), ("stderr", found.stderr), ("low", low)):
        assert table[name].to_pylist() == array.tolist()
    pd.testing.assert_frame_equal(found.to_pandas(0.9), table.to_pandas())
    assert found.to_polars(0.9).equals(pl.from_arrow(table))
    data = found.to_dict(0.9)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert [row["high"] for row in data["answers"]] == high.tolist()
    assert (data["level"], data["about"]) == (0.9, "respondents")


def test_a_column_has_a_name_of_its_own():
    survey = Survey({"value": Integer(0, 1, epsilon=1)})
    table = survey.tally(survey.encode({"value": [0, 1]})).histogram("value").to_arrow()
    assert table.column_names == ["label", "value", "stderr", "low", "high"]


def test_intervals_are_those_of_the_rows(found):
    low, high = found.interval(0.9)
    np.testing.assert_allclose(np.transpose([low, high]), [a.interval(0.9) for a in found])
    wide = found.interval(0.9, simultaneous=True)
    if not found.simultaneous:
        each = 1 - 0.1 / len(found)
        np.testing.assert_allclose(np.transpose(wide), [a.interval(each) for a in found])
    for level in (0, 1, math.nan, "0.5", True):
        with pytest.raises(QueryError, match="a level lies between 0 and 1"):
            found.interval(level, simultaneous=True)


@pytest.mark.parametrize("simultaneous", [True, False])
def test_simultaneous_intervals_hold_together(simultaneous):
    """10 bars at 90 %, 300 repetitions; the twin of single intervals must fail.

    The bars' errors are normal enough: with a true chance of 0.9, fewer than 0.83 of 300 have a
    chance below 1e-4; single intervals hold together in about a third of all cases.
    """
    truth = np.bincount(PEOPLE["age"], minlength=10)
    coins = Coins.seeded(4)
    held = 0
    for _ in range(300):
        bars = SURVEY.tally(SURVEY.encode(PEOPLE, coins=coins)).histogram("age")
        low, high = bars.interval(0.9, simultaneous=simultaneous)
        held += bool(((low <= truth) & (truth <= high)).all())
    assert (held >= 0.83 * 300) == simultaneous


def test_tables_and_texts_show_intervals_that_hold_together(found):
    low, high = found.interval(0.9, simultaneous=True)
    alone = found.interval(0.9)
    for simultaneous, ends in ((True, (low, high)), (False, alone)):
        how = {"simultaneous": simultaneous}
        for name, array in zip(("low", "high"), ends, strict=True):
            assert found.to_arrow(0.9, **how)[name].to_pylist() == array.tolist()
            assert found.to_pandas(0.9, **how)[name].tolist() == array.tolist()
            assert found.to_polars(0.9, **how)[name].to_list() == array.tolist()
            rows = found.to_dict(0.9, **how)["answers"]
            assert [row[name] for row in rows] == array.tolist()
        assert found.to_dict(0.9, **how)["simultaneous"] is simultaneous
        assert ("90% for all" in found.text(0.9, **how)) == simultaneous
        assert ("90% for all" in found.to_html(0.9, **how)) == simultaneous
        assert f"{found[0]._shown(low[0])} to " in found.to_html(0.9, simultaneous=True)
    assert found.text(simultaneous=found.simultaneous) == str(found)
    assert (high - low).sum() > (alone[1] - alone[0]).sum()


def test_text_is_short(found):
    assert len(repr(found)) < 80
    assert len(str(found).splitlines()) >= len(found)
    page = found._repr_html_()
    assert page.startswith("<div><table><tr><th ")
    assert page.count("<tr>") == len(found) + 1
    assert "<south>" not in page
    assert ("&lt;south&gt;" in page) == any("<south>" in label for label in found.labels)


def test_many_rows_are_not_all_shown():
    survey = Survey({"v": Integer(0, 99, epsilon=1)})
    ranges = survey.tally(survey.encode({"v": [1, 2]})).linear("v", "ranges")
    assert repr(ranges) == "<Answers to 5,050 questions about v>"
    lines = str(ranges).splitlines()
    assert (len(lines), lines[-1]) == (MAX_ROWS_SHOWN + 1, "and 4,850 more")
    page = ranges._repr_html_()
    assert page.count("<tr>") == MAX_ROWS_SHOWN + 2
    assert "and 4,850 more" in page
    assert "stderr" not in ranges.__dict__  # nobody asked for the errors of all


def test_notes_of_all_are_told_once():
    empty = SURVEY.tally([]).histogram("region")
    assert str(empty).splitlines()[-1] == "all: no reports yet"
    assert str(empty).count("no reports yet") == 1
    assert empty.to_dict()["notes"] == ["no reports yet"]
    assert len(TALLY.counts([])) == len(TALLY.counts([]).values) == 0
    assert TALLY.counts([]).to_dict()["answers"] == []
    assert repr(TALLY.counts([{}])) == "<Answers to 1 question>"


def test_single_answers_are_numbers():
    one = Answer(1234.5678, 4.0)
    assert float(one) == 1234.5678
    assert f"{one:,.0f}" == "1,235"
    assert f"{one}" == str(one)
    assert repr(one) == "<Answer: 1,235 ± 2 people>"
    assert repr(TALLY.mean("age")).startswith("<Ratio: ")
    median = TALLY.quantile("age", 0.5)
    assert isinstance(median, Quantile)
    assert float(median) == median.value
    assert f"{median:03d}" == f"{median.value:03d}"
    assert repr(median) == f"<Quantile: age 0.5-quantile {median.value}>"
    assert repr(median.cdf) == "<Cdf of age among everybody>"


@pytest.mark.parametrize(("library", "ask"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_library_that_is_missing(library, ask, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibrary, match=rf"needs {library} .*pip install \S*{library}"):
        getattr(TALLY.histogram("age"), ask)()


def test_totals_need_no_pyarrow_to_be_asked(tmp_path):
    """A file of totals is read and asked without it."""
    SURVEY.save(tmp_path / "survey.toml")
    totals = SURVEY.tally(SURVEY.encode(PEOPLE, coins=Coins.seeded(3)), keep=[("age", "region")])
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
        pytest.skip("other rooms still load it")
    assert told.stdout.strip() == str(totals.count({"age": (2, 5), "region": "north"}))


def test_answers_are_equal_by_what_they_say():
    """Not by what stands behind it: how sums were found, what they are made of, what was agreed."""
    one = Answer(1.0, 2.0)
    behind = {
        **{"layout": "cells", "scale": 2.0, "reports": 3, "one": 4.0, "origin": (2.0, one)},
        **{"bracket": object(), "lie": object(), "made": object(), "survey": object()},
    }
    assert one == replace(one, **behind)
    for name, value in behind.items():
        assert getattr(one, name) != value
    assert (one.scale, one.reports, one.one, one.layout) == (1, 0, 0, "")
    told = {"value": 2.0, "variance": 1.0, "question": "q", "unit": "years", "about": "population"}
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
    assert ratio != replace(ratio, possible=(0.0, 1.0)) != replace(ratio, numerator=3.0)
