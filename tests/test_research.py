"""The research scripts run, and their results agree with exact theory and the paper's claims."""

import importlib
import json
import math
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from theorems import paper_range_variance

from metricldp import Integer, Survey

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path.stem for path in (ROOT / "research").glob("*.py") if path.stem != "common")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The JSON of a script, run once with --quick; all its files must be there."""

    @cache
    def run(name):
        output = tmp_path_factory.mktemp(name)
        script = [sys.executable, ROOT / "research" / f"{name}.py", "--quick", "--output", output]
        subprocess.run(script, check=True, capture_output=True, cwd=output)
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in output.glob("*.png"))
        assert len([*output.glob("*.png")]) == (4 if name == "table2" else 1)
        return json.loads((output / f"{name}.json").read_text("utf-8"))

    return run


def assert_agrees(rows, limit=6.0):
    """Every simulated mean is within `limit` standard errors of the exact value.

    The standard errors come from at least 30 repetitions. Student's t with 29 degrees of freedom
    exceeds 6 with probability 1.6e-6: for 24 rows one false alarm in 26,000 runs.
    """
    off = [(row["simulated"] - row["exact"]) / row["standard_error"] for row in rows]
    assert max(map(abs, off)) < limit, off


def wrong(rows, factor):
    return [{**row, "exact": factor * row["exact"]} for row in rows]


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_runs(results, name):
    assert results(name)["quick"] is True


def test_scripts_use_the_public_interface():
    allowed = {"metricldp", "metricldp.lab.limits"}
    for name in (*SCRIPTS, "common"):
        lines = (ROOT / "research" / f"{name}.py").read_text("utf-8").splitlines()
        imported = {line.split()[1] for line in lines if line.startswith(("from ", "import "))}
        assert {module for module in imported if module.startswith("metricldp")} <= allowed


# Figure 1


def test_figure1_curves(results):
    rows = results("figure1")["curves"]
    assert [row["sensitive"] for row in rows] == list(range(1, 21))
    for row in rows:
        assert row["matrix"] < row["laplace"] <= row["histogram"] == pytest.approx(320_000)
        assert row["clipped"] == pytest.approx(row["matrix"] / 2)
        assert row["unary"] < row["clipped"]
        assert row["subset"] < row["optimised"] < row["randomized-response"]
        if row["sensitive"] >= 10:  # from m / 2 on, E_S gains nothing with these mechanisms
            assert row["laplace"] == pytest.approx(320_000)
            assert row["unary"] == pytest.approx(rows[-1]["unary"])
    assert rows[0]["unary"] < 0.7 * rows[-1]["unary"]


def test_figure1_noise_variances(results):
    """The matrix mechanism from its noise: the known total takes sum v^2 / sum v off."""
    j = np.arange(-1000, 1001)
    for row in results("figure1")["curves"]:
        k = row["sensitive"]
        ratio = min(1, (k / (20 - k)) ** (1 / 3)) if k < 20 else 1
        scale = np.where(np.arange(20) < k, ratio, 1) / (1 + ratio)
        noise = np.exp(-np.abs(j) * scale[:, None])
        v = (noise / noise.sum(axis=1, keepdims=True)) @ j**2
        total = 2000 * (v.sum() - (v**2).sum() / v.sum())
        assert row["matrix"] == pytest.approx(total, rel=1e-5)


def test_figure1_simulation(results):
    rows = results("figure1")["simulated"]
    assert_agrees(rows)
    for factor in (0.6, 1.6):
        with pytest.raises(AssertionError):
            assert_agrees(wrong(rows, factor))


# Figure 2


def test_figure2_simulation(results):
    rows = results("figure2")["points"]
    assert len(rows) == 4 * 3 * 2
    assert_agrees(rows)
    for factor in (0.8, 1.25):
        with pytest.raises(AssertionError):
            assert_agrees(wrong(rows, factor))


def test_figure2_bounds(results):
    """Means stay below Theorem 3, because most respondents are outside; single ranges do not."""
    for row in results("figure2")["points"]:
        assert row["across"] == 3 * 9 * row["epsilon"]
        assert row["theorem2"] == pytest.approx(paper_range_variance(row["epsilon"], 3, 3, 1000))
        if row["mechanism"] == "threshold-paper":
            ranges = row["queries"] == "ranges"
            assert row["exact"] < row["theorem3"]
            assert (row["share_above"] > 0) == ranges == (row["largest_ratio"] > 1)
        if row["ratios"]:
            empty = [r for r, share in zip(row["ratios"], row["inside"], strict=True) if not share]
            assert max(empty, default=0) <= 1


# Table 1


def test_table1_sizes(results):
    data = results("table1")
    assert set(data["costs"]) == {"respondents", "values", "attributes"}
    for rows in data["costs"].values():
        assert [row["layout"] for row in rows] == ["cells", "prefix", "reports"] * 2
        assert all(row["first"] > 0 and row["repeated"] > 0 and row["kept"] > 0 for row in rows)
    (step,) = (g for g in data["growth"] if g["layout"] == "cells" and g["step"].startswith("D"))
    assert step["kept, paper"] == 4


# Table 2


def errors_of(rows, mechanism, guarantee, field="values"):
    mine = [r for r in rows if (r["mechanism"], r["guarantee"]) == (mechanism, guarantee)]
    return {row[field]: row["error"] for row in mine}


def test_table2_growth(results):
    data = results("table2")
    rows = data["ranges"]["D = 1"]
    bound = (1 / math.tanh(0.5) ** 2 - 1) / 2
    assert max(errors_of(rows, "threshold", "step").values()) < bound
    geometric = errors_of(rows, "geometric", "step")
    assert geometric[64] < geometric[32] < geometric[16]
    fits = {(f["mechanism"], f["guarantee"]): f for f in data["exponents"]["D = 1"]}
    assert fits["geometric", "step"]["exponent"] < 0
    assert abs(fits["threshold", "step"]["exponent"]) < 0.25
    for mechanism in ("haar", "hierarchy-2", "hierarchy-4"):
        assert 1 < fits[mechanism, "pairs"]["exponent"] < 3.5
    for mechanism in ("unary-optimised", "local-hashing", "hadamard"):  # linear in m
        errors = errors_of(rows, mechanism, "pairs")
        assert 1.8 < errors[64] / errors[32] < 2.2


def test_table2_has_all_mechanisms(results, monkeypatch):
    """Designs that fail are left out, so a wrong name would be missed."""
    monkeypatch.syspath_prepend(ROOT / "research")
    table2 = importlib.import_module("table2")
    rows = [row for part in results("table2")["ranges"].values() for row in part]
    rows += results("table2")["within"]
    designed = {(row["mechanism"], row["guarantee"]) for row in rows}
    expected = {(name, guarantee) for guarantee, names in table2.ALONE.items() for name in names}
    blocks = {(f"{name}, block", g) for g, names in table2.TOGETHER.items() for name in names}
    assert designed == expected | blocks


def test_table2_is_what_the_survey_predicts(results):
    """One entry computed again, as the workload of all random ranges."""
    rng = np.random.default_rng([2026, 1])
    even, hill = rng.random(1000), rng.beta(2, 5, 1000)
    values = (np.where(np.arange(1000) % 2 == 0, even, hill) * 32).astype(int)
    ends = np.sort((np.random.default_rng([2026, 2]).random((200, 2)) * 32).astype(int), axis=1)
    grid = np.arange(32)
    ranges = (ends[:, :1] <= grid) & (grid <= ends[:, 1:])
    survey = Survey.design({"v": Integer(0, 31, epsilon=1, within=31, mechanism="haar")})
    shares = np.bincount(values, minlength=32) / 1000
    error = (
        survey.expected_error(
            attribute="v", workload=ranges.astype(float), prior=shares, n=1
        ).stderr
        ** 2
    )
    rows = results("table2")["ranges"]["D = 1"]
    assert errors_of(rows, "haar", "pairs")[32] == pytest.approx(error)


def test_table2_same_guarantee(results):
    """Epsilon per step wins at w = 1, epsilon for all pairs at w = m - 1; within w never loses."""
    rows = results("table2")["within"]
    for attributes, size, middle in ((1, 8, [2]), (2, 4, [])):
        here = [r for r in rows if (r["attributes"], r["values"]) == (attributes, size)]

        def best(w, guarantee, here=here):
            mine = [r for r in here if (r["within"], r["guarantee"]) == (w, guarantee)]
            return min(row["error"] for row in mine)

        assert best(1, "step") < best(1, "pairs")
        assert best(size - 1, "step") > 3 * best(size - 1, "pairs")
        assert best(size - 1, "within") == pytest.approx(best(size - 1, "pairs"), rel=1e-2)
        for w in middle:
            assert best(w, "within") < 0.95 * min(best(w, "step"), best(w, "pairs"))
        widths = {row["width"] for row in here if row["within"] == size - 1}
        assert widths <= {attributes, 1}


# Dimensions and limits


def test_dimensions_slopes(results):
    """The exponent D belongs to products; a block grows like 1/epsilon^2 for every D."""
    data = results("dimensions")
    one, two = data["slopes"]
    for method in ("threshold", "block", "limit"):
        assert one[method] == pytest.approx(2, abs=0.1)
    assert two["threshold"] == pytest.approx(4, abs=0.1)
    assert two["block"] == pytest.approx(2, abs=0.1)
    for row in data["rows"]:
        assert row["attained"]
        for method in ("threshold", "geometric", "additive", "block"):
            assert row[method] >= row["limit"] * (1 - 1e-6)


def test_dimensions_products(results):
    """The product of two attributes by the predicted error of every box."""
    side = Integer(0, 1, epsilon=0.1, mechanism="geometric", per=1)
    survey = Survey.design({"a": side, "b": side})
    ranges = [(0, 0), (1, 1), (0, 1)]
    errors = [
        survey.expected_error({"a": a, "b": b}, prior="uniform", n=1).stderr
        for a in ranges
        for b in ranges
    ]
    (row,) = (
        r for r in results("dimensions")["rows"] if (r["attributes"], r["epsilon"]) == (2, 0.1)
    )
    assert row["geometric"] == pytest.approx(np.mean(np.square(errors)))


def test_limits_hold(results):
    for row in results("limits")["rows"]:
        assert 1 - 1e-6 < row["ratio"] < 1.02
        assert row["published_ratio"] > 1 - 1e-6
