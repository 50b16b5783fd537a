"""Intervals that stay right while one watches: somebody looks after every single report."""

import math

import numpy as np
import pytest

from metricldp import Categorical, Integer, Survey
from metricldp.answers import watched
from metricldp.answers.answer import Answer, normal_reach
from metricldp.answers.answer_table import Answers
from metricldp.answers.estimate import drawn, kept_between, one_person, to_answer, with_draws
from metricldp.basics.errors import QueryError
from metricldp.coins.stream import Coins
from metricldp.store.readings import read

LEVEL = 0.95
SURVEYS = {
    "threshold": Integer(0, 15, epsilon=1, mechanism="threshold"),
    "geometric": Integer(0, 15, epsilon=1, mechanism="geometric"),
    "response": Categorical([f"c{k}" for k in range(16)], epsilon=1),
}
INSIDE = range(3, 9)


class Watch:
    """Many runs of one question, with what an onlooker sees after each report."""

    def __init__(self, kind, runs, reports, about, seed):
        self.survey = Survey({"a": SURVEYS[kind]})
        self.about, self.reports = about, reports
        function = np.zeros(16)
        function[list(INSIDE)] = 1.0
        self.readings = read(self.survey, {"a": function})
        random = np.random.default_rng(seed)
        people = random.binomial(15, 0.35, size=runs * reports)
        column = self.survey.channels["a"].encode(people, Coins.seeded(seed))
        rows = self.readings.parts[0].values({"a": column}).reshape(3, runs, reports)
        self.value, self.second, self.square = rows.cumsum(axis=2)
        self.times = np.arange(1, reports + 1)
        if about == "respondents":
            self.truth = function[people].reshape(runs, reports).cumsum(axis=1)
        else:
            chance = [math.comb(15, k) * 0.35**k * 0.65 ** (15 - k) for k in INSIDE]
            self.truth = self.times * sum(chance)

    def answer(self, run, time):
        """What the package says at one look."""
        return to_answer(
            *(float(rows[run, time - 1]) for rows in (self.value, self.second, self.square)),
            one_person(self.readings.pairs()),
            self.readings.extremes().of(0),
            time,
            ("", ()),
            about=self.about,
        )

    def reach(self, z):
        """`Answer.reach` of all looks at once, for a number of standard errors at each."""
        least, most = one_person(self.readings.pairs())
        steps = self.readings.extremes().of(0)
        jump, hidden = steps.jump, steps.hidden
        variance = self.second - self.square
        low, high = np.array([kept_between((least, most), int(t)) for t in self.times]).T
        if self.about == "population":
            n = np.maximum(self.times, 2)
            variance, high = (self.second - self.value**2 / n) * n / (n - 1), np.inf
            jump, hidden = with_draws(steps)
            assert drawn(self.value[0, 9], self.second[0, 9], 10) == pytest.approx(variance[0, 9])
        variance = np.minimum(np.clip(variance, low, high) + z**2 / 2 * hidden, high)
        return z * np.sqrt(variance) + np.maximum(0.5, z**2 / 6) * jump

    def ever_wrong(self, z, first=watched.FIRST):
        """The share of runs in which some look from the first on showed a wrong interval."""
        wrong = np.abs(self.value - self.truth) > self.reach(z)
        return wrong[:, first - 1 :].any(axis=1).mean()

    @property
    def anytime(self):
        return np.array([watched.reach(LEVEL, int(t)) for t in self.times])


def plain(_):
    return np.full(1, normal_reach(LEVEL))


@pytest.mark.parametrize("about", ["respondents", "population"])
def test_the_fast_way_of_this_test_is_the_package(about):
    watch = Watch("threshold", 3, 400, about, seed=1)
    reach = watch.reach(watch.anytime)
    for run, time in ((0, 100), (1, 101), (2, 399)):
        low, high = watch.answer(run, time).interval(LEVEL, anytime=True)
        value, far = watch.value[run, time - 1], reach[run, time - 1]
        assert (low, high) == pytest.approx((value - far, value + far))


@pytest.mark.parametrize("kind", SURVEYS)
def test_watching_is_allowed(kind):
    """300 runs: of 5.5 % at most 35 are wrong but once in a million; a plain interval has more."""
    watch = Watch(kind, 300, 3000, "respondents", seed=20)
    assert watch.ever_wrong(watch.anytime) <= 35 / 300
    assert watch.ever_wrong(plain(watch)) > 35 / 300


@pytest.mark.slow
@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize("kind", SURVEYS)
def test_a_thousand_onlookers(kind, about):
    """Looks at every report from the first allowed to the 20,000th."""
    parts = [Watch(kind, 100, 20_000, about, seed) for seed in range(100, 110)]
    watching = np.mean([part.ever_wrong(part.anytime) for part in parts])
    assert watching <= 0.055
    assert np.mean([part.ever_wrong(plain(part)) for part in parts]) > 0.3


def test_the_reach_is_the_formula_and_is_shortest_where_it_says():
    z = watched.reach(0.95, watched.BEST)
    assert z == pytest.approx(1.55 * normal_reach(0.95), rel=0.01)
    assert z < watched.reach(0.95, watched.BEST // 5)
    assert watched.reach(0.95, 10**6) < 2 * normal_reach(0.95)
    assert normal_reach(watched.strict(0.95, 777)) == pytest.approx(watched.reach(0.95, 777))


def test_too_early_everything_is_possible():
    survey = Survey({"a": SURVEYS["geometric"]})
    tally = survey.tally(survey.encode({"a": [3] * (watched.FIRST - 1)}, coins=Coins.seeded(1)))
    assert tally.count({"a": 3}).interval(anytime=True) == (-math.inf, math.inf)
    assert tally.mean("a").interval(anytime=True) == (0.0, 15.0)
    tally.add(survey.encode({"a": [3] * 2}, coins=Coins.seeded(2)))
    assert math.isfinite(tally.count({"a": 3}).interval(anytime=True)[0])


def test_every_kind_of_answer_takes_it_and_is_wider():
    survey = Survey({"a": SURVEYS["geometric"], "c": Categorical(["x", "y"], epsilon=1)})
    people = {"a": np.arange(4000) % 16, "c": np.array(["x", "y"])[np.arange(4000) % 2]}
    tally = survey.tally(survey.encode(people, coins=Coins.seeded(3)))
    singles = (
        tally.count({"a": 3}),
        tally.fraction({"a": 3, "c": "x"}),
        tally.mean("a"),
        tally.mean("a", {"c": "x"}),
        tally.sum("a"),
        tally.quantile("a", 0.35),
        tally.quantile("a", 0.35, {"c": "x"}),
        tally.quantile("a", 0.35, about="population"),
    )
    for one in singles:
        low, high = one.interval(0.95)
        wide, wider = one.interval(0.95, anytime=True)
        assert wide <= low <= one.value <= high <= wider
        assert wider - wide > high - low
    rows = (tally.histogram("a"), tally.cdf("a"), tally.cdf("a", {"c": "x"}))
    for many in rows:
        for simultaneous in (False, True):
            ends = many.interval(simultaneous=simultaneous, method="normal")
            wide = many.interval(simultaneous=simultaneous, anytime=True)
            assert (wide[0] <= ends[0]).all() and (ends[1] <= wide[1]).all()


def test_many_rows_share_the_level_before_it_is_made_strict():
    """The other way round the band would be too narrow early on."""
    rows = Answers("", ["a", "b"], [Answer(0.0, 1.0, reports=200)] * 2)
    (low, _), _ = rows.interval(0.95, simultaneous=True, anytime=True)
    assert low == pytest.approx(-watched.reach(0.975, 200))


def test_a_mean_pays_for_its_two_sums():
    assert watched.reach(0.95, 500, 2) > watched.reach(0.95, 500, 1)
    survey = Survey({"a": SURVEYS["geometric"], "c": Categorical(["x", "y"], epsilon=1)})
    tally = survey.tally(survey.encode({"a": [5] * 500, "c": ["x"] * 500}, coins=Coins.seeded(3)))
    one = tally.mean("a", {"c": "x"})
    strict = watched.strict(0.95, 500, 2)
    assert one.interval(0.95, anytime=True) == one.interval(strict, "normal")


@pytest.mark.parametrize("level", [0.0, 1.0, -1, float("nan"), "0.95", 1 - 1e-13])
def test_levels_that_cannot_be(level):
    with pytest.raises(QueryError):
        Answer(1.0, 1.0, reports=150).interval(level, anytime=True)
