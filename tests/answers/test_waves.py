"""Waves: the same question asked of several tallies in time order."""

import math
from datetime import date

import numpy as np
import pytest
from scipy import stats

from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    Weight,
    waves,
)

SURVEYS = [
    Survey.design({"age": Integer(0, 20, epsilon=e, mechanism=by, per=1), "region": REGION})
    for REGION in [Categorical(["n", "s"], epsilon=2)]
    for e, by in ((1, "threshold"), (0.5, "geometric"), (1, "geometric"), (2, "geometric"))
]
YOUNG = {"age": (3, 8)}


def tally_of(survey, ages, seed):
    people = {"age": ages, "region": np.array(["n", "s"])[np.arange(len(ages)) % 2]}
    people = {name: people[name] for name in people if name in survey.attributes}
    return survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed)))


def ages(n, shift=0):
    return (np.arange(n) * 7 + shift) % 21


@pytest.fixture
def four_waves():
    sizes = (400, 600, 500, 800)
    tallies = [tally_of(s, ages(n), k) for k, (s, n) in enumerate(zip(SURVEYS, sizes, strict=True))]
    return waves(dict(zip(("2020", "2021", "2023", "2024"), tallies, strict=True)))


def test_answers_stand_in_time_order_and_are_those_of_the_tallies(four_waves):
    for ask in (
        lambda one: one.count(YOUNG),
        lambda one: one.fraction({**YOUNG, "region": "n"}, target="population"),
        lambda one: one.sum("age", YOUNG),
        lambda one: one.mean("age"),
    ):
        found = ask(four_waves)
        expected = [ask(tally) for tally in four_waves.tallies]
        assert found.values.tolist() == pytest.approx([one.value for one in expected])
        assert found.stderr.tolist() == pytest.approx([one.stderr for one in expected])
        assert found["2021"].value == found.values[1]
    assert four_waves.count().labels == ["2020", "2021", "2023", "2024"]
    assert four_waves.count(YOUNG).to_arrow().column_names[0] == "wave"
    assert "2,300 reports" in repr(four_waves)


@pytest.mark.parametrize("target", ["respondents", "population"])
def test_changes_are_differences_with_their_own_error(four_waves, target):
    found = four_waves.fraction(YOUNG, target=target)
    rows, changes = [estimate for _, estimate in found], found.differences()
    assert changes.labels == ["2021 - 2020", "2023 - 2021", "2024 - 2023"]
    for k, (_, change) in enumerate(changes):
        assert change.value == pytest.approx(rows[k + 1].value - rows[k].value)
        assert change.variance == pytest.approx(rows[k].variance + rows[k + 1].variance)
        assert changes.pvalues()[k] == change.pvalue()
    assert found.differences().labels == changes.labels
    assert found.differences().values == pytest.approx(changes.values)
    assert found.differences().stderr == pytest.approx(changes.stderr)
    against = found.differences(baseline=2023)
    assert against.labels == ["2020 - 2023", "2021 - 2023", "2024 - 2023"]
    assert found.differences(2023).labels == against.labels
    assert found.differences(2023).values == pytest.approx(against.values)
    assert against.values[0] == pytest.approx(rows[0].value - rows[2].value)
    noted = "assuming that each wave sampled other respondents from the population"
    assert (noted in changes.to_text()) == (target == "population")


# Trends -----------------------------------------------------------------------------------------


def test_a_trend_is_weighted_least_squares(four_waves):
    found = four_waves.fraction(YOUNG)
    times = np.array([2020.0, 2021, 2023, 2024])
    weights = [
        1 / (tally.survey.expected_error(YOUNG, n=tally.n, prior="uniform").stderr / tally.n) ** 2
        for tally in four_waves.tallies
    ]
    design = np.column_stack([np.ones(4), times]) * np.sqrt(weights)[:, None]
    inverse = np.linalg.pinv(design)[1] * np.sqrt(weights)
    trend = found.trend()
    assert trend.value == pytest.approx(inverse @ found.values)
    assert trend.variance == pytest.approx(inverse**2 @ [one.variance for _, one in found])
    assert trend.unit == "of respondents per year" and trend.question.startswith(
        "trend of age 3 to 8"
    )
    assert trend.confidence_interval(anytime=True)[0] < trend.confidence_interval()[0]


def test_the_weights_do_not_look_at_the_reports():
    """Or the slope would have a bias."""
    one, other = (
        waves([tally_of(s, ages(300, k + shift), k) for k, s in enumerate(SURVEYS)])
        for shift in (0, 5)
    )
    slopes = [
        [answer.count(YOUNG).trend().made.terms[k].factor for k in range(4)]
        for answer in (one, other)
    ]
    assert slopes[0] == slopes[1]


def runs(count, error=1.0):
    """How often slopes of counts are outside their intervals, and how far off, in errors."""
    truth = np.array([np.isin(ages(300, k), range(3, 9)).sum() for k in range(3)])
    wrong, off = 0, []
    for run in range(count):
        tallies = [tally_of(SURVEYS[k], ages(300, k), 10 * run + k) for k in range(3)]
        trend = waves(tallies).count(YOUNG).trend()
        factors = [term.factor for term in trend.made.terms]
        expected = float(np.dot(factors, truth))
        low, high = (
            trend.value + error * (end - trend.value) for end in trend.confidence_interval()
        )
        wrong += not low <= expected <= high
        off.append((trend.value - expected) / trend.stderr)
    return wrong, np.array(off)


@pytest.mark.slow
def test_trends_are_right_as_often_as_they_say():
    """1,000 runs; false alarms: 1 in 10,000 for each claim. A twin with half the error fails."""
    wrong, off = runs(1000)
    assert wrong <= stats.binom.isf(1e-4, 1000, 0.05)
    assert abs(off.mean()) * math.sqrt(1000) <= stats.norm.isf(5e-5) * 1.1
    assert runs(200, error=0.5)[0] > stats.binom.isf(1e-4, 200, 0.05)


def test_few_trends_are_right_as_often_as_they_say():
    """60 runs: more than 11 wrong ones once in ten thousand times."""
    wrong, _ = runs(60)
    assert wrong <= stats.binom.isf(1e-4, 60, 0.05)


def test_means_have_trends_and_small_groups_have_none_that_is_sure():
    survey = SURVEYS[2]
    three_waves = waves([tally_of(survey, ages(400, k), k) for k in range(3)])
    found = three_waves.mean("age", {"region": "n"})
    assert math.isfinite(found.trend().stderr) and found.trend().unit == "age per wave"
    weights = 1 / found.stderr**2
    assert found.trend().value == pytest.approx(
        np.polyfit(range(3), found.values, 1, w=weights**0.5)[0]
    )
    nobody = three_waves.mean("age", {"age": (18, 20), "region": "n"})
    assert not any(one.clear for _, one in nobody), "of this seed"
    low, high = nobody.trend().confidence_interval()
    assert math.isinf(nobody.trend().stderr)
    assert (low, high) == pytest.approx((-1, 1)), "from 18 to 20 in two waves, at most"


def test_what_is_sent_in_the_clear_has_a_trend_without_error():
    survey = Survey.design({"age": Integer(0, 20, epsilon=1, per=1), "w": Weight(0, 1)})
    people = [{"age": ages(50), "w": np.full(50, k / 4)} for k in range(3)]
    tallies = [
        survey.tally(survey.randomize(p, randomness=Randomness.seeded(k)))
        for k, p in enumerate(people)
    ]
    everybody = waves(tallies).count().trend()
    assert (everybody.value, everybody.stderr) == (0.0, 0.0)
    with pytest.raises(QueryError, match="cannot be combined"):
        waves(tallies).sum("w").differences()


# Quantiles --------------------------------------------------------------------------------------


def test_quantiles_have_changes_and_trends(four_waves):
    found = four_waves.quantile("age", 0.5)
    single = [tally.quantile("age", 0.5) for tally in four_waves.tallies]
    assert found.values.tolist() == [one.value for one in single]
    assert [one.confidence_interval() for _, one in found] == [
        one.confidence_interval() for one in single
    ]
    change = found.differences().iloc[0]
    low, high = change.confidence_interval(0.9)
    (a, b), (c, d) = (one.confidence_interval(math.sqrt(0.9)) for one in single[:2])
    assert (low, high) == (c - b, d - a)
    assert 0 < change.pvalue() <= 1
    trend = found.trend()
    assert trend.confidence_interval()[0] <= trend.value <= trend.confidence_interval()[1]
    assert trend.confidence_interval(anytime=True)[0] <= trend.confidence_interval()[0]
    assert (-change).confidence_interval(0.9) == (-high, -low)
    assert "nan" not in found.to_text() + trend.to_text()


def test_quantile_of_a_wave_with_an_empty_group_is_nan_with_a_note():
    survey = SURVEYS[2]
    found = waves([tally_of(survey, ages(400, k), k) for k in range(3)]).quantile(
        "age", 0.5, {"age": (18, 20), "region": "n"}
    )
    for one in (*(row for _, row in found), found.trend(), found.differences().iloc[0]):
        assert math.isnan(one.value) and not math.isfinite(one.stderr)
        assert "the group is estimated at" in str(one) and "(SE nan" not in str(one)
        assert str(one).startswith("cannot be estimated")
    low, high = found.iloc[0].confidence_interval()
    assert (low, high) == (18, 20)


@pytest.mark.parametrize("where", [None, {"region": "s"}], ids=["everyone", "an empty group"])
def test_levels_have_no_difference(where):
    survey = Survey.design(
        {
            "mood": Ordinal(["bad", "fair", "good"], epsilon=1),
            "region": Categorical(["n", "s"], epsilon=1),
        }
    )
    people = {"mood": ["bad", "good"] * 99, "region": ["n"] * 198}
    tallies = [
        survey.tally(survey.randomize(people, randomness=Randomness.seeded(k))) for k in range(2)
    ]
    with pytest.raises(QueryError, match="levels, which have no differences"):
        waves(tallies).quantile("mood", 0.5, where)


# People who answer again ------------------------------------------------------------------------

AGAIN = Survey.design({"age": Integer(0, 20, epsilon=1, mechanism={"name": "memoised"}, per=1)})


def test_waves_of_memoised_answers_are_refused_unless_people_are_new():
    tallies = [tally_of(AGAIN, ages(300), k) for k in range(2)]
    for same in (None, True):
        found = waves(tallies, same_people=same).count(YOUNG)
        for ask in (found.differences, found.trend):
            with pytest.raises(QueryError, match=r"memoised.*same_people=False"):
                ask()
    assert len(waves(tallies, same_people=False).count(YOUNG).differences()) == 1


def test_a_memory_belongs_to_one_survey():
    other = Survey.design({"age": Integer(0, 20, epsilon=2, mechanism={"name": "memoised"}, per=1)})
    tallies = [tally_of(survey, ages(300), k) for k, survey in enumerate((AGAIN, other))]
    assert len(waves(tallies).count(YOUNG).differences()) == 1


def test_why_memoised_waves_are_refused():
    """The error of the first blur drops out of a difference: the sum of variances is far off.

    Of 400 differences the sample variance is within 30 % of the true one but once in 10,000 times.
    """
    mechanism = {"name": "memoised", "each": 0.95}
    survey = Survey.design({"age": Integer(0, 20, epsilon=1, mechanism=mechanism, per=1)})
    channel = survey.channels["age"]
    first = channel.first.sample(np.tile(ages(100), 400), Randomness.seeded(1)).astype(np.int64)
    inside = np.isin(np.arange(21), range(3, 9)).astype(float)

    def counts(reports):
        decoder = channel.moments.coefficients(inside[None])[0]
        return decoder[reports].reshape(400, 100).sum(axis=1)

    one, other = (counts(channel.second.sample(first, Randomness.seeded(seed))) for seed in (2, 3))
    assert np.var(one - other) < 0.5 * (np.var(one) + np.var(other))


def test_the_same_people_were_drawn_once():
    tallies = [tally_of(SURVEYS[0], ages(300), k) for k in range(2)]
    found = waves(tallies, same_people=True)
    assert len(found.count(YOUNG).differences()) == 1
    with pytest.raises(QueryError, match="sampled once"):
        found.count(YOUNG, target="population").differences()
    quiet = waves(tallies, same_people=False).count(YOUNG, target="population").differences()
    assert not quiet.iloc[0].notes


# Labels and refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "per", "apart"),
    [
        (("2024", "2025", "2027"), "year", 2),
        ((2024, 2025, 2027), "year", 2),
        ((1, 2.5, 3), "step", 0.5),
        (("a", "b", "c"), "wave", 1),
        ((date(2024, 1, 1), date(2024, 7, 1), date(2025, 7, 1)), "year", 365 / 365.25),
        (("2024-01", "2024-07", "2025-07"), "year", 365 / 365.25),
        (("2024-01", "2024-07", "later"), "wave", 1),
        (("2024-01", "2024-13", "2025-01"), "wave", 1),
    ],
)
def test_labels_tell_the_time(labels, per, apart):
    tallies = [tally_of(SURVEYS[0], ages(30), k) for k in range(3)]
    found = waves(dict(zip(labels, tallies, strict=True)))
    assert found.per == per
    assert found.times[2] - found.times[1] == pytest.approx(apart)


def test_refusals():
    one, two, three = (tally_of(SURVEYS[0], ages(60), k) for k in range(3))
    empty = SURVEYS[0].tally(SURVEYS[0].randomize({"age": [], "region": []}))
    wider = tally_of(Survey.design({"age": Integer(0, 30, epsilon=1, per=1)}), ages(60), 4)
    both = one + two
    for tallies, words in (
        (one, "a list of tallies, or a dict"),
        ({"a": one}, "two tallies or more"),
        ([], "two tallies or more"),
        ([one, "b"], "'wave 2' is 'b', not a tally"),
        ([one, empty], "'wave 2' has no reports"),
        ({"2025": one, "2024": two}, "'2024' follows '2025'"),
        ([one, both], "'wave 1' and 'wave 2' have reports in common"),
        ([one, one], "reports in common"),
        ({None: one, "b": two}, "the label of a wave"),
        ({"": one, "b": two}, "the label of a wave"),
    ):
        with pytest.raises(QueryError, match=words):
            waves(tallies)
    with pytest.raises(QueryError, match=r"age has other values in wave 'wave 2'.*high 30, not 20"):
        waves([one, wider]).count(YOUNG)
    assert len(waves([one, wider]).count()) == 2
    with pytest.raises(QueryError, match="no attribute 'region'"):
        waves([one, wider]).count({"region": "n"})
    found = waves({"a": one, "b": two, "c": three}).count(YOUNG)
    with pytest.raises(QueryError, match="no wave is called 'd'; there are 'a', 'b', 'c'"):
        found.differences(baseline="d")
    with pytest.raises(QueryError, match="same_people"):
        waves([one, two], same_people="yes")
    with pytest.raises(QueryError, match="height"):
        waves([one, two]).mean("height")


def test_bins_leave_changes_open():
    survey = Survey.design({"pay": Continuous(0, 100, bins=10, epsilon=1, per=1)})
    tallies = [
        survey.tally(
            survey.randomize({"pay": np.arange(500) % 100}, randomness=Randomness.seeded(k))
        )
        for k in range(2)
    ]
    change = waves(tallies).mean("pay").differences().iloc[0]
    low, high = change.confidence_interval()
    assert high - low > 20 and low < 0 < high
