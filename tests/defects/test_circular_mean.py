"""Means of cyclic attributes are circular; statistics along a line are rejected."""

import json
import math
import sys
from itertools import pairwise

import numpy as np
import pytest
from collected import TOKEN, Client, InMemory
from scipy import integrate, stats

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    plan,
    pool,
    waves,
)
from metricldp.answers.conditions import any_of
from metricldp.cli.main import main
from metricldp.collector.page import pages

N = 4_000
SEXES = ["female", "male"]
SURVEY = Survey.design(
    {
        "bed": Integer(0, 23, epsilon=1, within=2, cyclic=True),
        "sex": Categorical(SEXES, epsilon=3),
        "age": Integer(0, 99, epsilon=1, within=10),
    }
)
LINEAR = ("sum", "variance", "std", "quantile", "cdf")


def respondents(rng, n=N):
    """Two groups around midnight, three hours apart."""
    sex = rng.integers(0, 2, n)
    hours = np.round(rng.normal(22.2, 1.5, n) + 3 * sex).astype(int) % 24
    return {"bed": hours, "sex": np.array(SEXES)[sex], "age": rng.integers(20, 60, n)}


PEOPLE = respondents(np.random.default_rng(1))


@pytest.fixture(scope="module")
def tally():
    return SURVEY.tally(SURVEY.randomize(PEOPLE, randomness=Randomness.seeded(1)))


def truth(values, period=24.0, low=0.0):
    angle = np.angle(np.exp(2j * np.pi * (np.asarray(values) - low) / period).mean())
    return low + angle * period / (2 * np.pi) % period


def distance(one, other, period=24.0):
    return abs((one - other + period / 2) % period - period / 2)


def covers(answer, value, level=0.95):
    low, high = answer.confidence_interval(level)
    return (value - low) % answer.period <= high - low


# Values


def test_mean_of_bedtimes_is_circular(tally):
    """Within 5 standard errors: a false alarm in fewer than one of 10^6 runs."""
    answer, expected = tally.mean("bed"), truth(PEOPLE["bed"])
    assert distance(answer.value, expected) < 5 * answer.stderr < 0.5
    assert 0 <= answer.value < 24 and covers(answer, expected, 0.999999)
    # Negative control: the linear mean is about noon.
    assert distance(PEOPLE["bed"].mean(), expected) > 5
    assert not covers(answer, PEOPLE["bed"].mean(), 0.999999)


def test_mean_is_the_direction_of_the_estimated_histogram(tally):
    for where in (None, {"sex": "female"}, {"bed": (21, 3)}, {"age": (30, 50), "sex": "male"}):
        rows = np.eye(24)
        counts = tally.workload("bed", rows, where).values
        total = counts @ np.exp(2j * np.pi * np.arange(24) / 24)
        assert distance(tally.mean("bed", where).value, np.angle(total) * 24 / 2 / np.pi) < 1e-9


@pytest.mark.parametrize(
    ("attribute", "values", "expected"),
    [
        (Integer(0, 23, epsilon=700, within=1, cyclic=True), [23, 23, 0, 0], 23.5),
        (Integer(0, 23, epsilon=700, within=1, cyclic=True), [22, 1], 23.5),
        (Integer(1, 12, epsilon=700, within=1, cyclic=True), [12, 1, 2], 1),
        (Integer(1, 12, epsilon=700, within=1, cyclic=True), [12, 12, 1, 1], 12.5),
        (Integer(-3, 3, epsilon=700, within=1, cyclic=True), [3, -3], 3.5),
        (Integer(0, 3, epsilon=700, within=1, cyclic=True), [0, 1], 0.5),
        (Continuous(0, 360, bins=36, epsilon=700, within=10, cyclic=True), [352, 358, 1, 7], 0),
    ],
)
def test_mean_of_small_cases_without_noise(attribute, values, expected):
    survey = Survey.design({"x": attribute})
    tally = survey.tally(survey.randomize({"x": values * 50}, randomness=Randomness.seeded(1)))
    answer = tally.mean("x")
    assert distance(answer.value, expected, answer.period) < 1e-6
    assert attribute.low <= answer.value < attribute.low + answer.period
    assert covers(answer, expected)


def test_groups_parts_waves_pools_and_fits_have_the_same_circular_mean(tally):
    women = PEOPLE["bed"][PEOPLE["sex"] == "female"]
    table = tally.mean("bed", by="sex")
    alone = tally.mean("bed", {"sex": "female"})
    assert (
        table["female"].value == alone.value
        and table["female"].confidence_interval() == alone.confidence_interval()
    )
    assert distance(alone.value, truth(women)) < 5 * alone.stderr
    either = tally.mean("bed", any_of({"sex": "female"}, {"age": (0, 30)}))
    chosen = (PEOPLE["sex"] == "female") | (PEOPLE["age"] <= 30)
    assert distance(either.value, truth(PEOPLE["bed"][chosen])) < 5 * either.stderr
    later = respondents(np.random.default_rng(2))
    other = SURVEY.tally(SURVEY.randomize(later, randomness=Randomness.seeded(2)))
    both = truth(np.concatenate([PEOPLE["bed"], later["bed"]]))
    pooled, merged = pool([tally, other]).mean("bed"), (tally + other).mean("bed")
    assert distance(pooled.value, merged.value) < 1e-9
    assert pooled.confidence_interval() == pytest.approx(merged.confidence_interval(), abs=1e-3)
    assert distance(pooled.value, both) < 5 * pooled.stderr
    means = waves([tally, other]).mean("bed")
    assert [one.value for _, one in means] == [tally.mean("bed").value, other.mean("bed").value]
    for fitted in (tally.fit_distribution(["bed"]), pool([tally, other]).fit_distribution(["bed"])):
        answer = fitted.mean("bed")
        assert distance(answer.value, both) < 1 and 0 <= answer.value < 24
        assert answer.confidence_interval() == answer.unbiased.confidence_interval()


# Intervals


def test_ends_are_where_the_perpendicular_component_may_be_zero(tally):
    """Linear check: for directions inside the interval A(t) may be 0, outside it may not."""
    answer = tally.mean("bed", {"sex": "male"})
    low, high = answer.confidence_interval()
    assert low <= answer.value <= high
    step = (high - low) / 100

    def limits(number):
        turn = 2 * np.pi * (np.arange(24) - number) / 24
        one = tally.workload("bed", [np.sin(turn)], {"sex": "male"}).iloc[0]
        return one.confidence_interval(0.95, method="normal")

    for number in (low + step, answer.value, high - step):
        below, above = limits(number)
        assert below <= 0 <= above
    assert limits(low - step)[0] > 0 and limits(high + step)[1] < 0


def test_interval_is_unwrapped_and_printed_inside_the_domain():
    """The mean is 0: estimates are a little above 0 or a little below 24."""
    survey = Survey.design({"bed": Integer(0, 23, epsilon=1, within=2, cyclic=True)})
    sides = set()
    for seed in range(8):
        reports = survey.randomize({"bed": [23, 0, 0, 1] * 100}, randomness=Randomness.seeded(seed))
        answer = survey.tally(reports).mean("bed")
        low, high = answer.confidence_interval()
        assert low < answer.value < high
        assert (low < 0) != (high > 24)
        sides.add(low < 0)
        printed = str(answer).partition(" CI ")[2].partition(")")[0]
        ends = [float(end) for end in printed.split(" to ")]
        assert all(0 <= end < 24 for end in ends) and ends[0] > ends[1]
        assert answer.to_dict()["ci_low"] == low
    assert sides == {True, False}


def test_direction_that_cannot_be_estimated_has_the_whole_circle():
    """As many at 0 as at 12, and an empty group."""
    reports = SURVEY.randomize(
        {"bed": [0, 12] * 500, "sex": ["male"] * 1000, "age": [30] * 1000},
        randomness=Randomness.seeded(5),
    )
    tally = SURVEY.tally(reports)
    for answer in (tally.mean("bed"), tally.mean("bed", {"sex": "female"})):
        assert answer.confidence_interval() == (0, 24)
        assert math.isinf(answer.stderr)
        assert (
            "cannot be estimated" in str(answer) and "cannot be estimated" in answer._repr_html_()
        )


def test_values_in_bins_widen_the_interval():
    """Shifting every value inside of its bin changes no report but the mean by half a bin."""
    survey = Survey.design({"turn": Continuous(0, 360, bins=36, epsilon=5, within=10, cyclic=True)})
    middles = np.repeat([345.0, 355.0, 5.0, 15.0], [100, 300, 200, 50])
    tally = survey.tally(survey.randomize({"turn": middles}, randomness=Randomness.seeded(1)))
    answer = tally.mean("turn")
    for shift in (-5, 0, 4.999):
        assert covers(answer, truth(middles + shift, 360))
    low, high = answer.confidence_interval()
    assert 10 <= high - low < 11


def test_p_value_is_modulo_the_period(tally):
    answer = tally.mean("bed")
    near = truth(PEOPLE["bed"])
    assert answer.pvalue(near) == pytest.approx(answer.pvalue(near + 24), rel=1e-4)
    assert answer.pvalue(near + 12) < 1e-6 < answer.pvalue(near)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_rule_for_the_whole_circle_keeps_the_level_for_every_resultant(level):
    """Enumeration for normal errors: a miss is an interval that is no whole circle, and either
    rejects A = 0 or points in the opposite direction. Without the rule, half of all would miss."""
    z, radius = stats.norm.ppf(0.5 + level / 2), math.sqrt(-2 * math.log(1 - level))
    for length in (0.0, 0.3, 1.0, 2.0, 3.0, 5.0):

        def outside(a, joint, length=length):
            """P(B beyond the joint region, and where that misses) for A = a."""
            reach = math.sqrt(max(0.0, joint**2 - a * a))
            below = stats.norm.cdf(-reach - length)
            return below + (stats.norm.sf(reach - length) if abs(a) > z else 0.0)

        def missed(joint, outside=outside):
            return integrate.quad(
                lambda a: stats.norm.pdf(a) * outside(a, joint), -9, 9, points=[-z, z], limit=400
            )[0]

        assert missed(radius) <= 1 - level + 1e-6
        if length == 0 and level >= 0.95:
            assert missed(0.0) > 0.5  # negative control: the sign alone decides


CASES = {
    "concentrated": (lambda rng: rng.normal(23.5, 2, 300), 0.3),
    "two groups": (lambda rng: rng.normal(22, 3, 300) + 6 * rng.integers(0, 2, 300), 0.3),
    "nearly even": (lambda rng: rng.uniform(0, 24, 300) - 1.5 * rng.integers(0, 2, 300), 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["respondents", "population"])
def test_95_percent_intervals_cover(name, target):
    """400 runs; more than 44 misses have probability 10^-6 if 5 per cent miss.

    Negative control: intervals of level 0.6 miss more often, where they are not the whole circle.
    """
    draw, epsilon = CASES[name]
    survey = Survey.design({"bed": Integer(0, 23, epsilon=epsilon, within=2, cyclic=True)})
    rng = np.random.default_rng(11)
    population = truth(np.round(np.concatenate([draw(rng) for _ in range(5_000)])) % 24)
    allowed = stats.binom.isf(1e-6, 400, 0.05)
    assert allowed == 44
    misses = short_misses = 0
    for run in range(400):
        hours = np.round(draw(rng)).astype(int) % 24
        expected = population if target == "population" else truth(hours)
        reports = survey.randomize({"bed": hours}, randomness=Randomness.seeded(run))
        answer = survey.tally(reports).mean("bed", target=target)
        misses += not covers(answer, expected)
        short_misses += not covers(answer, expected, 0.6)
    assert misses <= allowed
    if name != "nearly even":
        assert short_misses > allowed


# Rejections


@pytest.mark.parametrize("kind", LINEAR)
def test_statistics_along_a_line_are_rejected_with_the_remedy(tally, kind):
    more = (0.5,) if kind == "quantile" else ()
    other = SURVEY.tally(SURVEY.randomize(PEOPLE, randomness=Randomness.seeded(9)))
    sources = [tally, tally.fit_distribution(["bed"]), pool([tally, other]), waves([tally, other])]
    asked = [source for source in sources if hasattr(source, kind)]
    assert tally in asked
    for source in asked:
        with pytest.raises(QueryError, match="bed is cyclic") as error:
            getattr(source, kind)("bed", *more)
        assert "mean (circular)" in str(error.value) and "\n" not in str(error.value)


def test_other_statistics_along_a_line_are_rejected(tally):
    for ask in (
        lambda: tally.quantile("bed", 0.5, by="sex"),
        lambda: tally.quantiles("bed", [0.25, 0.75]),
        lambda: tally.covariance("bed", "age"),
        lambda: tally.correlation("age", "bed"),
        lambda: tally.linear_regression("age", ["bed"]),
        lambda: tally.linear_regression("bed", ["age"]),
        lambda: tally.trend_test({"sex": "male"}, "bed"),
        lambda: tally.contributions(attribute="bed"),
        lambda: plan(SURVEY, 0.5, query="mean", attribute="bed", n=1000),
    ):
        with pytest.raises(QueryError, match="bed is cyclic"):
            ask()


def test_arithmetic_and_other_methods_of_circular_means_are_rejected(tally):
    answer = tally.mean("bed")
    for ask in (
        lambda: answer - answer,
        lambda: answer / tally.mean("age"),
        lambda: 2 * answer,
        lambda: answer.confidence_interval(anytime=True),
        lambda: answer.confidence_interval(method="envelope"),
        lambda: waves([tally, SURVEY.tally(SURVEY.randomize(PEOPLE))]).mean("bed").differences(),
    ):
        with pytest.raises(QueryError):
            ask()


def test_cyclic_levels_have_no_mean_and_no_quantiles():
    days = ["mo", "tu", "we", "th", "fr", "sa", "su"]
    ring = {"kind": "graph", "edges": [list(pair) for pair in pairwise([*days, days[0]])]}
    survey = Survey.design({"day": Ordinal(days, epsilon=1, metric=ring)})
    tally = survey.tally(survey.randomize({"day": days * 9}, randomness=Randomness.seeded(1)))
    for ask in (lambda: tally.mean("day"), lambda: tally.quantile("day", 0.5)):
        with pytest.raises(QueryError, match=r"names|cyclic"):
            ask()


def test_attributes_along_a_line_are_not_affected(tally):
    assert abs(tally.mean("age").value - PEOPLE["age"].mean()) < 5 * tally.mean("age").stderr
    assert tally.quantile("age", 0.5).value


# Command line and page


def test_command_line_prints_the_circular_mean(tally, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    SURVEY.save("survey.toml")
    tally.save("reports.parquet")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["metricldp", *words])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return code, out + err

    files = ("survey.toml", "reports.parquet")
    code, out = run("query", "mean", *files, "bed", "--json")
    (row,) = json.loads(out)["rows"]
    assert code == 0 and row["estimate"] == pytest.approx(tally.mean("bed").value)
    code, out = run("query", "mean", *files, "bed", "--by", "sex")
    assert code == 0 and out.strip() == str(tally.mean("bed", by="sex"))
    for kind in ("quantile", "sum", "cdf"):
        code, out = run("query", kind, *files, "bed")
        assert code and "bed is cyclic" in out


def test_page_and_http_answer_with_the_circular_mean(tally):
    client = Client(
        pages(InMemory(tally)),
        base_url="http://127.0.0.1:8000",
        headers={"authorization": f"Bearer {TOKEN}"},
    )
    address = f"/v1/surveys/{SURVEY.fingerprint}/query"

    def numbers(rows):
        return [row["estimate"] for row in rows], [row["ci_high"] for row in rows]

    rows = client.get(f"{address}/mean?attribute=bed").json()["rows"]
    mean = tally.mean("bed").to_dict()
    assert numbers(rows) == (pytest.approx([mean["estimate"]]), pytest.approx([mean["ci_high"]]))
    rows = client.get(f"{address}/mean?attribute=bed&by=sex").json()["rows"]
    assert numbers(rows) == numbers(tally.mean("bed", by="sex").to_dict()["rows"])
    for query in ("quantile?", "cdf?", "sum?", "mean?by=sex&baseline=male&"):
        reply = client.get(f"{address}/{query}attribute=bed")
        expected = "circular means are not" if "by" in query else "bed is cyclic"
        assert reply.status_code == 400 and expected in reply.text
    for show in ("histogram", "groups", "count", "heatmap"):
        text = client.get(f"/surveys/{SURVEY.fingerprint}?show={show}&attribute=bed").text
        assert ("Mean bed" in text) == (show == "histogram")
        assert "bed is cyclic" not in text
    means = f"/surveys/{SURVEY.fingerprint}?show=groups&by=sex&estimate=bed"
    assert "Mean bed by sex" in client.get(means).text
