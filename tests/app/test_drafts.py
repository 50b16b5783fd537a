"""A draft loads, encodes the data it came from, and makes no choice without telling."""

import datetime
import json
import sys
import tomllib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from metricldp import Coins, Survey, ValueRefused, draft
from metricldp.app import cli
from metricldp.app.drafts import WARNING
from metricldp.design.drafts import drafted, outward

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


def quick(found):
    """The draft's survey, with mechanisms that need no search."""
    data = tomllib.loads(found.to_toml())
    for entry in data["attributes"].values():
        ordered = entry["kind"] != "categorical"
        entry["mechanism"] = "geometric" if ordered else "response"
    return Survey.from_dict(data)


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
    found = draft(FORMS[form](people(), tmp_path))
    entries = found.to_dict()["attributes"]
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
        "constant": "nothing to tell apart",
    }
    assert set(found.left_out) == set(reasons)
    for name, why in reasons.items():
        assert why in found.left_out[name]


def test_a_draft_loads_and_encodes_what_it_came_from(tmp_path):
    some = ("age", "region", "mood", "children", "born")
    table = {name: column for name, column in people().items() if name in some}
    found = draft(table)
    found.save(tmp_path / "draft.toml")
    survey = Survey.load(tmp_path / "draft.toml")
    assert set(survey.asked) == set(some) - {"born"}
    assert survey.tally(survey.encode(table, coins=Coins.seeded(1))).n == ROWS
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
    found = draft(table)
    survey = quick(found)
    survey.encode(table, coins=Coins.seeded(1))
    for column in found.kept:
        entry = column.entry
        if "low" in entry:
            values = np.asarray(table[column.name], dtype=float)
            span = values.max() - values.min()
            assert entry["high"] - entry["low"] <= 2.5 * span + 2
            assert 2 <= survey.asked[column.name].size <= 400


def test_no_choice_is_silent():
    """Whatever differs between drafts of different data has its reason beside it."""
    one, other = draft(people(1)), draft(people(2, 200))
    for here, there in zip(one.kept, other.kept, strict=True):
        for key, value in here.entry.items():
            if there.entry.get(key) != value:
                assert key in here.why, (here.name, key)
        assert set(here.why) <= set(here.entry)
        assert here.questions
    never = {key for column in one.kept for key in column.entry if key not in column.why}
    assert never == {"epsilon", "cap"}  # placeholders, the same for all data


def test_the_file_and_the_terminal_warn():
    found = draft(people())
    plainly = " ".join(found.to_toml().replace("# ", "").replace("\n", " ").split())
    assert WARNING in plainly
    assert WARNING in " ".join(str(found).split())
    assert found.to_toml().count("# ? ") == sum(len(column.questions) for column in found.kept)
    for choice in found.choices:
        assert f"- {choice}" in str(found)
    for name in found.left_out:
        assert f"{name}" in found.to_toml()


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
    assert not drafted("age", pa.array(ages)).hints
    rounded = np.where(rng.random(500) < 0.4, 10 * (ages // 10), ages)
    (hint,) = drafted("age", pa.array(rounded)).hints
    assert "multiples of 10" in hint
    hours = np.where(rng.random(500) < 0.3, 37.5, rng.uniform(10, 60, 500))
    (hint,) = drafted("hours", pa.array(hours)).hints
    assert "of the values are 37.5" in hint


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([datetime.date(2000, 1, 1)] * 3), "dates"),
        (["01.02.1999", "3/4/2001"], "dates"),
        ([1, "a", None], "several kinds"),
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
    assert why in drafted("x", values).left_out


def test_kinds_that_are_easily_mistaken():
    assert drafted("zip", pa.array(["01234", "99999", "01234"] * 4)).entry["kind"] == "categorical"
    assert drafted("pay", pa.array(np.arange(20) * 1017 + 3)).entry["kind"] == "continuous"
    assert drafted("pay_id", pa.array(np.arange(20) * 1017 + 3)).left_out
    ordered = pa.array(pd.Categorical(["lo", "hi", "lo"], ["lo", "hi"], ordered=True))
    assert drafted("x", ordered).entry["levels"] == ["lo", "hi"]
    whole = drafted("x", pa.array([1.0, None, 3.0]))
    assert whole.entry["kind"] == "integer" and whole.entry["optional"] is True


def test_nothing_to_draft_from():
    for nothing in ({}, {"a": []}, {"a": [None]}, pa.table({}), {"a": [1, 2], "b": [1]}):
        with pytest.raises(ValueRefused):
            draft(nothing)
    with pytest.raises(ValueRefused, match="there is no file"):
        draft("none.csv")


def test_words_of_a_known_scale_are_drafted_in_its_order():
    found = {one.name: one for one in draft({"pay": ["low", "high", "middle"] * 9}).kept}["pay"]
    assert found.entry["kind"] == "ordinal" and found.entry["levels"] == ["low", "middle", "high"]
    assert any("in order" in question for question in found.questions)


def test_a_placeholder_says_how_it_compares_with_the_range():
    found = draft({"age": [10, 80, 33, 33] * 9}).kept[0]
    assert found.entry["within"] == 5 and "16 times as wide" in found.why["within"]


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    as_csv(people(), tmp_path)

    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["metricldp", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == code
        return capsys.readouterr()

    said = run("draft", "people.csv", "-o", "draft.toml").out
    assert "draft in draft.toml" in said
    assert said.endswith("then: metricldp design draft.toml -o survey.toml\n")
    assert run("draft", "people.csv").out == (tmp_path / "draft.toml").read_text("utf-8")
    data = json.loads(run("draft", "people.csv", "--json").out)
    assert set(data["attributes"]) == set(KINDS)
    assert "Private data must not be used" in data["warning"]
    assert "draft" in run("draft", "people.csv", "-o", "people.json", code=2).err
    assert "people.csv" in run("draft", "people.csv", "-o", "people.csv", code=2).err
