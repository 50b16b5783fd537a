"""A draft can be designed, takes the data it came from, and has a comment for each choice."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from metricldp import InvalidValueError, Randomness, Survey, SurveySpec, draft
from metricldp.planning.draft import WARNING, describe, outward

ROWS = 300


def people(seed=1, rows=ROWS):
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(10.4, 0.6, rows)).round(-2)
    return {
        "person id": np.arange(rows) + 1000,
        "age": rng.integers(18, 90, rows),
        "income": income,
        "height": rng.normal(1.72, 0.1, rows).round(3),
        "region": rng.choice(["north", "south", "east"], rows),
        "mood": rng.choice(["Good", "Bad", "Fair"], rows),
        "children": [None if rng.random() < 0.1 else int(k) for k in rng.integers(0, 5, rows)],
        "member": rng.random(rows) < 0.5,
        "born": [f"19{y}-03-{d:02d}" for y, d in rng.integers((30, 1), (99, 28), (rows, 2))],
        "remark": [f"I would say {k} of them, and sometimes {k + 1}, or more" for k in range(rows)],
        "all blank": [""] * rows,
        "constant": [7] * rows,
    }


KINDS = {
    "age": "integer",
    "income": "continuous",
    "height": "continuous",
    "region": "categorical",
    "mood": "ordinal",
    "children": "integer",
    "member": "categorical",
}


def quick(spec):
    """The draft's survey, with mechanisms that need no search."""
    data = spec.to_dict()
    for entry in data["attributes"].values():
        ordered = entry["kind"] != "categorical"
        entry["mechanism"] = "geometric" if ordered else "randomized-response"
    return Survey.design(SurveySpec.from_dict(data))


def comments_of(spec, name):
    return " ".join(spec.comments[name])


def as_csv(table, path):
    pc.write_csv(pa.table(table), path / "people.csv")
    return path / "people.csv"


def as_parquet(table, path):
    pq.write_table(pa.table(table), path / "people.parquet")
    return path / "people.parquet"


FORMS = {
    "dict": lambda table, path: table,
    "pandas": lambda table, path: pd.DataFrame(table),
    "polars": lambda table, path: pl.DataFrame(table, strict=False),
    "lazy": lambda table, path: pl.DataFrame(table, strict=False).lazy(),
    "arrow": lambda table, path: pa.table(table),
    "csv": as_csv,
    "parquet": as_parquet,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_draft(form, tmp_path):
    spec = draft(FORMS[form](people(), tmp_path))
    entries = spec.to_dict()["attributes"]
    assert {name: entry["kind"] for name, entry in entries.items()} == KINDS
    assert entries == draft(people()).to_dict()["attributes"]
    assert entries["mood"]["levels"] == ["Bad", "Fair", "Good"]
    assert entries["age"] | {"kind": "integer", "low": 0, "high": 90} == entries["age"]
    assert [name for name, entry in entries.items() if "optional" in entry] == ["children"]
    reasons = {
        "person id": "an id",
        "born": "dates",
        "remark": "free text",
        "all blank": "no row has a value",
        "constant": "every row has the same value",
    }
    left_out = [line for line in spec.comments[""] if line.startswith("Left out: ")]
    assert len(left_out) == len(reasons)
    for line, (name, why) in zip(left_out, reasons.items(), strict=True):
        assert line.startswith(f"Left out: '{name}', ") and why in line


def test_a_draft_is_a_spec_that_takes_its_data(tmp_path):
    names = ("age", "region", "mood", "children", "born")
    table = {name: column for name, column in people().items() if name in names}
    draft(table).save(tmp_path / "draft.toml")
    spec = SurveySpec.load(tmp_path / "draft.toml")
    assert spec == draft(table)
    survey = quick(spec)
    assert set(survey.asked) == set(names) - {"born"}
    assert survey.tally(survey.randomize(table, randomness=Randomness.seeded(1))).n == ROWS
    assert survey.certify().holds


@pytest.mark.parametrize("seed", range(20))
def test_random_data_is_always_inside(seed):
    rng = np.random.default_rng(seed)
    scale, shift = 10.0 ** rng.integers(-4, 6), float(rng.choice([0, -1, 1, 1000]))
    table = {
        "a": shift + scale * rng.normal(size=50),
        "b": (shift + 10 * scale * rng.random(50)).round().astype(int),
        "c": rng.integers(-5, 6, 50),
        "d": rng.choice(["x", "y z", "true", 'q"uote', "ü"], 50),
    }
    spec = draft(table)
    survey = quick(spec)
    survey.randomize(table, randomness=Randomness.seeded(1))
    for name, entry in spec.to_dict()["attributes"].items():
        if "low" in entry:
            values = np.asarray(table[name], dtype=float)
            span = values.max() - values.min()
            assert entry["high"] - entry["low"] <= 2.5 * span + 2
            assert 2 <= survey.asked[name].size <= 400


def test_every_choice_that_follows_the_data_has_a_comment():
    """What differs between drafts of different data has its reason in a comment."""
    one, other = draft(people(1)), draft(people(2, 200))
    others = other.to_dict()["attributes"]
    silent = set()
    for name, entry in one.to_dict()["attributes"].items():
        named = {line.partition(" = ")[0] for line in one.comments[name] if " = " in line}
        for key, value in entry.items():
            silent |= {key} - named
            assert others[name].get(key) == value or key in named, (name, key)
        assert any(line.startswith("? ") for line in one.comments[name])
    assert silent == {"epsilon", "max_epsilon", "per"}  # the same for all data


def test_file_and_text_have_all_comments(tmp_path):
    spec = draft(people())
    spec.save(tmp_path / "draft.toml")
    text = (tmp_path / "draft.toml").read_text("utf-8")
    assert text == str(spec)
    assert "metricldp = " not in text
    assert max(map(len, text.splitlines())) <= 100
    plain = " ".join(text.replace("#", "").split())
    assert text.startswith("# Draft of a survey from a table, 300 rows.\n")
    assert WARNING in plain
    for line in (line for lines in spec.comments.values() for line in lines):
        assert " ".join(line.split()) in plain
    tables = text.split("[attributes.")[1:]
    for name, table in zip(KINDS, tables, strict=True):
        assert table.startswith(f"{name}]\n# kind = ")
        assert table.count("\n# ? ") == sum(x.startswith("? ") for x in spec.comments[name])


def test_json_files_and_other_specs_have_no_comments(tmp_path):
    spec = draft(people())
    spec.save(tmp_path / "draft.json")
    assert json.loads((tmp_path / "draft.json").read_text("utf-8")) == spec.to_dict()
    again = SurveySpec(spec.attributes)
    assert again == spec
    assert "#" not in str(again)


@pytest.mark.parametrize(
    ("ends", "whole", "rounded"),
    [
        ((18, 89), True, (0, 90)),
        ((1, 5), True, (1, 5)),
        ((0, 100), True, (0, 100)),
        ((1203, 187_432), True, (0, 190_000)),
        ((1.52, 1.98), False, (1.5, 2.0)),
        ((-0.031, 0.044), False, (-0.04, 0.05)),
        ((1990, 2024), True, (1990, 2030)),
    ],
)
def test_ends_are_rounded_outward(ends, whole, rounded):
    assert outward(*ends, whole) == rounded


def test_hints_about_round_numbers_and_spikes():
    rng = np.random.default_rng(1)
    ages = rng.integers(18, 90, 500)
    assert not describe("age", pa.array(ages)).hints
    rounded = np.where(rng.random(500) < 0.4, 10 * (ages // 10), ages)
    (hint,) = describe("age", pa.array(rounded)).hints
    assert "multiples of 10" in hint
    hours = np.where(rng.random(500) < 0.3, 37.5, rng.uniform(10, 60, 500))
    (hint,) = describe("hours", pa.array(hours)).hints
    assert "of the values are 37.5" in hint


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([datetime.date(2000, 1, 1)] * 3), "dates"),
        (["01.02.1999", "3/4/2001"], "dates"),
        ([1, "a", None], "several types"),
        (pa.array([[1], [2]]), "numbers and names"),
        ([1.0, float("inf")], "infinite"),
        ([2**60, 2**61], "an id"),
        ([f"k{k}" for k in range(20)], "all 20 values are different"),
        ([f"k{k % 60}" for k in range(200)], "60 different names"),
        (["a\x00", "b"] * 5, "cannot be printed"),
        (pa.array([None, None]), "no row has a value"),
    ],
)
def test_what_is_left_out_says_why(values, why):
    assert why in describe("x", values).left_out


def test_kinds_that_are_easily_mistaken():
    assert describe("zip", pa.array(["01234", "99999", "01234"] * 4)).entry["kind"] == "categorical"
    assert describe("pay", pa.array(np.arange(20) * 1017 + 3)).entry["kind"] == "continuous"
    assert describe("pay_id", pa.array(np.arange(20) * 1017 + 3)).left_out
    ordered = pa.array(pd.Categorical(["lo", "hi", "lo"], ["lo", "hi"], ordered=True))
    assert describe("x", ordered).entry["levels"] == ["lo", "hi"]
    whole = describe("x", pa.array([1.0, None, 3.0]))
    assert whole.entry["kind"] == "integer" and whole.entry["optional"] is True


def test_nothing_to_draft_from():
    for nothing in ({}, {"a": []}, {"a": [None]}, pa.table({}), {"a": [1, 2], "b": [1]}):
        with pytest.raises(InvalidValueError):
            draft(nothing)
    with pytest.raises(InvalidValueError, match="there is no file"):
        draft("none.csv")


def test_names_of_a_known_scale_are_in_its_order():
    spec = draft({"pay": ["low", "high", "middle"] * 9})
    assert spec.attributes["pay"].kind == "ordinal"
    assert spec.attributes["pay"].levels == ("low", "middle", "high")
    assert "in order" in comments_of(spec, "pay")


def test_a_placeholder_is_compared_with_the_range():
    spec = draft({"age": [10, 80, 33, 33] * 9})
    assert spec.attributes["age"].within == 5
    assert "the range is 16 times as wide" in comments_of(spec, "age")


@pytest.mark.parametrize(
    ("name", "asked"),
    [("hour", True), ("weekday", True), ("Month of birth", True), ("age", False)],
)
def test_columns_that_may_be_cyclic_have_a_question(name, asked):
    spec = draft({name: [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 7, 7]})
    assert ("cyclic = true" in comments_of(spec, name)) == asked
