"""decode as people type it."""

import json

import pyarrow.parquet as pq
import pytest
from test_lakes import SURVEY, folder, run  # noqa: F401 - a fixture


def test_decode(folder):  # noqa: F811
    asked = ("decode", folder / "survey.toml", folder / "reports", "-o", folder / "column.parquet")
    told = run(*asked, "age=3..9")
    assert told == f"300 reports decoded for age 3 to 9 in {folder}/column.parquet\n"
    found, tally = pq.read_table(folder / "column.parquet"), SURVEY.tally(folder / "reports")
    assert found == tally.decoded({"age": (3, 9)})
    data = json.loads(run(*asked, "age=3..9", "--of", "visits", "--json"))
    assert data["question"] == "visits among age 3 to 9"
    assert data["columns"] == ["decoded", "variance", "square"]
    assert (data["reports"], data["unit"]) == (300, "visits")
    total = pq.read_table(folder / "column.parquet")["decoded"].to_numpy().sum()
    assert total == pytest.approx(tally.sum("visits", {"age": (3, 9)}).value)


def test_mistakes_are_told_in_one_line(folder):  # noqa: F811
    asked = ("decode", folder / "survey.toml", folder / "reports")
    output = ("-o", folder / "column.parquet")
    assert "no attribute 'height'" in run(*asked, "height=3", *output, code=2)
    assert "no attribute 'height'" in run(*asked, "--of", "height", *output, code=2)
    assert "ends in .parquet" in run(*asked, "age=3", "-o", folder / "column.csv", code=2)
    one = folder / "reports" / "0.parquet"
    assert "would replace" in run(*asked, "age=3", "-o", one, code=2)
    turned = ("decode", folder / "survey.toml", "age=3..9", folder / "reports")
    assert "which come second" in run(*turned, *output, code=2)
