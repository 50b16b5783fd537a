"""Contributions of reports: their sums are the estimates, for every mechanism and in SQL."""

from __future__ import annotations

import json
import math

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import MIXED, ONE, people, reports, wheres

from checks import every_report_of
from metricldp import (
    Categorical,
    Continuous,
    Integer,
    InvalidReportError,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    Weight,
)
from metricldp.answers.decoded import Decoder, decode_file
from metricldp.reports import parquet
from metricldp.reports.incoming import pieces

KINDS = {
    "memoised": Survey.design({"a": Integer(0, 6, epsilon=2, mechanism="memoised", per=1)}),
    "extremal": Survey.design({"a": Integer(0, 6, epsilon=1, mechanism="extremal", per=1)}),
    "within": Survey.design({"a": Integer(0, 20, epsilon=1, within=3, max_epsilon=2)}),
    "real": Survey.design(
        {"a": Continuous(0, 10, points=6, epsilon=1, rounding="stochastic", per=1)}
    ),
    "bins": Survey.design({"a": Continuous(0, 10, bins=5, epsilon=1, per=1)}),
    "levels": Survey.design({"a": Ordinal(["low", "mid", "high"], epsilon=1)}),
    "every kind": Survey.design(
        {
            "a": Integer(0, 6, epsilon=1, mechanism="threshold", optional=2, per=1),
            "b": Continuous(
                0, 10, points=6, epsilon=1, optional=True, rounding="stochastic", per=1
            ),
            "c": Continuous(0, 10, bins=5, epsilon=1, per=1),
            "d": Categorical(["x", "y"], epsilon=1),
            "w": Weight(0, 10),
            "v": Weight(1, 5, private=True, epsilon=2),
        }
    ),
}
SURVEYS = {**ONE, **MIXED, **KINDS}


def crowd(survey, n=400, seed=1):
    """Everybody somewhere, in the words of each kind."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, a in survey.asked.items():
        if a.named:
            found[name] = rng.choice(a.values, n)
        elif a.is_weight:
            found[name] = rng.uniform(a.low, a.high, n)
        elif a.in_bins or a.rounded_at_random:
            found[name] = rng.uniform(0, 10, n)
        else:
            found[name] = rng.integers(0, a.size, n)
        if a.optional is not None:
            found[name] = [None if rng.random() < 0.2 else v for v in found[name].tolist()]
    return survey.randomize(found, randomness=Randomness.seeded(seed))


def questions(survey):
    """A where-clause of each attribute, of pairs, of all, and of nobody in particular."""
    words = {}
    for name, a in survey.asked.items():
        if not a.is_weight:
            words[name] = a.values[0] if a.named else (1, a.size - 2)
            if a.in_bins or a.rounded_at_random:
                words[name] = (2, 6)
    yield {}
    yield from ({name: meant} for name, meant in words.items())
    yield words
    yield from ({name: None} for name, a in survey.asked.items() if a.optional is not None)


def summed_up(survey, of):
    try:
        survey.attributes[of].numbers(of)
    except QueryError:
        return survey.attributes[of].is_weight
    return True


def agree(column, answer, suffix=""):
    """Sums are added in another order, so they agree to rounding of the largest terms."""
    for name, expected in (("contribution", answer.value), ("variance", answer.variance)):
        values = column[f"{name}{suffix}"].to_numpy()
        scale = max(1.0, float(np.abs(values).sum()))
        assert math.fsum(values) == pytest.approx(expected, abs=1e-10 * scale), name


@pytest.mark.parametrize("name", SURVEYS)
def test_sums_of_contributions_are_the_estimates_for_every_mechanism(name):
    survey = SURVEYS[name]
    table = crowd(survey)
    tally = survey.tally(table)
    for where in questions(survey):
        column = tally.contributions(where)
        assert column.num_rows == 400
        agree(column, tally.count(where))
        assert np.array_equal(column["square"], np.square(column["contribution"]))
        for attribute in survey.asked:
            if not summed_up(survey, attribute) or where.get(attribute, 0) is None:
                continue
            column, total = tally.contributions(where, attribute), tally.sum(attribute, where)
            agree(column, total)
            for suffix, side in zip(("_low", "_high"), total.between, strict=False):
                agree(column, side, suffix)
            assert len(column.schema) == 3 * (1 + len(total.between))


@settings(max_examples=25)
@given(st.sampled_from(sorted(MIXED)), st.integers(0, 70_000), st.integers(0, 9), st.data())
def test_sums_of_contributions_are_the_estimates_for_any_reports(name, n, seed, data):
    survey = MIXED[name]
    table = reports(survey, n, seed)
    where = data.draw(st.sampled_from(list(wheres(survey))))
    tally = survey.tally(table)
    column = tally.contributions(where)
    assert column.num_rows == n
    agree(column, tally.count(where))


@pytest.mark.parametrize(
    "name", ["threshold", "unary", "geometric", "randomized-response", "tight-constraints"]
)
def test_variance_for_the_population_is_the_sample_variance_of_contributions(name):
    """Exact, from every report that a person drawn evenly could send."""
    survey, where, share = ONE[name], {"a": (1, 3)}, 3 / 7
    everything, law = every_report_of(survey)
    chances = law.mean(axis=0)
    column = survey.tally(everything).contributions(where)
    mean, square = chances @ column["contribution"], chances @ column["square"]
    assert mean == pytest.approx(share)
    # E[sum of squares - (sum)^2 / n] * n / (n - 1) is n times this, for any n.
    expected = survey.expected_error(where, n=1, prior="uniform").stderr ** 2 + share * (1 - share)
    assert square - mean**2 == pytest.approx(expected)


def test_sql_sums_of_a_file_of_contributions_are_the_estimates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey = KINDS["every kind"]
    parquet.write(survey, "reports.parquet", [crowd(survey, 5000)])
    tally = survey.tally("reports.parquet")
    for where in questions(survey):
        for attribute in (None, "b", "c", "w", "v"):
            if attribute is not None and where.get(attribute, 0) is None:
                continue
            _, rows = decode_file(survey, "reports.parquet", "column.parquet", where, attribute)
            value, variance, n, drawn = duckdb.sql(
                "SELECT SUM(contribution), SUM(variance), COUNT(*), COUNT(*) / (COUNT(*) - 1) * "
                "(SUM(square) - SUM(contribution) ** 2 / COUNT(*)) FROM 'column.parquet'"
            ).fetchall()[0]
            one, other = (
                tally.count(where, target=target)
                if attribute is None
                else tally.sum(attribute, where, target=target)
                for target in ("respondents", "population")
            )
            assert n == rows == 5000
            assert value == pytest.approx(one.value, rel=1e-9, abs=1e-6)
            assert variance == pytest.approx(one.variance, rel=1e-9, abs=1e-6)
            # Another unbiased estimate than the tally's; of 5,000 people not far from it.
            assert drawn == pytest.approx(other.variance, rel=0.2, abs=1e-6)


def test_public_columns_are_included_and_group():
    survey = MIXED["weight"]
    table = reports(survey, 3000, 1)
    column = survey.tally(table).contributions({"a": (1, 3)}, public=True)
    assert column.column_names == ["contribution", "variance", "square", "w"]
    assert column["w"].equals(table["w=report"])
    heavy = table["w=report"].to_numpy() > 5
    found = survey.tally(table.filter(heavy)).count({"a": (1, 3)})
    found_column = column  # noqa: F841 - DuckDB finds it by its name
    value, variance = duckdb.sql(
        "SELECT SUM(contribution), SUM(variance) FROM found_column WHERE w > 5"
    ).fetchall()[0]
    assert (value, variance) == pytest.approx((found.value, found.variance))
    weighted = survey.tally(table).contributions({"a": (1, 3)}, "w", public=True)
    products = np.asarray(column["contribution"]) * np.asarray(table["w=report"])
    assert np.allclose(weighted["contribution"], products)


def test_file_of_contributions_is_read_in_pieces_and_written_whole(tmp_path):
    survey, folder = ONE["threshold"], tmp_path / "days"
    folder.mkdir()
    parts = [reports(survey, n, n) for n in (70_000, 10, 130)]
    for k, part in enumerate(parts):
        parquet.write(survey, folder / f"{k}.parquet", [part])
    output = tmp_path / "column.parquet"
    decoder, rows = decode_file(survey, folder, output, {"a": (2, 4)})
    written = pq.read_table(output)
    assert rows == 70_140
    assert decoder.words == "a 2 to 4"
    assert written == survey.tally(pa.concat_tables(parts)).contributions({"a": (2, 4)})
    first = next(decoder.batches(pieces(survey, folder)))
    assert first.num_rows <= 1 << 16
    assert json.loads(written.schema.metadata[b"metricldp.contributions"]) == {
        "survey": survey.fingerprint,
        "question": "a 2 to 4",
        "unit": "people",
        "notes": [],
    }
    assert all(pa.types.is_float64(f.type) and not f.nullable for f in decoder.schema)
    summed = Decoder.of(KINDS["every kind"], {"d": "x"}, of="v")
    assert (summed.words, summed.unit) == ("v among d x", "v")
    # A damaged file leaves the old column as it was.
    damaged = folder / "1.parquet"
    raw = bytearray(damaged.read_bytes())
    raw[8] ^= 1
    damaged.write_bytes(raw)
    with pytest.raises(InvalidReportError):
        decode_file(survey, folder, output, {"a": (0, 0)})
    assert pq.read_table(output) == written
    with pytest.raises(InvalidReportError):
        survey.tally(folder)


def test_memory_does_not_grow_with_the_file(tmp_path):
    """What Arrow holds while a stream is read does not grow with the file."""
    survey = Survey.design({"a": Integer(0, 99, epsilon=1, mechanism="threshold", per=1)})
    part = reports(survey, parquet.ROW_GROUP, 1)
    decoder, most = Decoder.of(survey, {"a": (20, 40)}), []
    for times in (2, 8):
        file = tmp_path / f"{times}.parquet"
        parquet.write(survey, file, [part] * times)
        before, held = pa.total_allocated_bytes(), 0
        for batch in decoder.batches(pieces(survey, file)):
            held = max(held, pa.total_allocated_bytes() - before)
            del batch
        most.append(held)
    assert most[1] < 1.2 * most[0], most


def test_invalid_arguments_of_contributions_are_rejected(tmp_path):
    survey = MIXED["weight"]
    table = reports(survey, 10, 1)
    tally = survey.tally(table)
    for wrong, words in (
        ({"where": {"x": 1}}, "no attribute 'x'"),
        ({"attribute": "x"}, "no attribute 'x'"),
        ({"attribute": "b"}, "its values are names"),
        ({"public": 1}, "public is True or False"),
    ):
        with pytest.raises(QueryError, match=words):
            tally.contributions(**wrong)
    clash = Survey.design({"a": Integer(0, 3, epsilon=1, per=1), "square": Weight(0, 1)})
    with pytest.raises(QueryError, match="'square' has the name of a column of contributions"):
        Decoder.of(clash, None, public=True)
    with pytest.raises(QueryError, match=r"totals have no single reports.*keep="):
        survey.tally(table, keep=[["a"]]).contributions({"a": (1, 2)})
    parquet.write(survey, tmp_path / "reports.parquet", [table])
    with pytest.raises(QueryError, match=r"stay in duckdb.*engine="):
        survey.tally(tmp_path / "reports.parquet", engine="duckdb").contributions({"a": (1, 2)})
    with pytest.raises(QueryError, match="would replace"):
        decode_file(survey, tmp_path / "reports.parquet", tmp_path / "reports.parquet")
    with pytest.raises(QueryError, match=r"ends in .parquet"):
        decode_file(survey, tmp_path / "reports.parquet", tmp_path / "column.csv")
    empty = survey.tally(survey.randomize(people(survey, 0, 1)))
    assert empty.contributions().num_rows == 0
