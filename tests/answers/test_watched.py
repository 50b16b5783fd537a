"""Intervals that stay right while one watches: somebody looks after every single report."""

import math
from functools import partial

import numpy as np
import pytest

from metricldp import Categorical, EstimateTable, Integer, Survey
from metricldp.answers import watched
from metricldp.answers.answer import Estimate, normal_reach
from metricldp.answers.estimate import drawn, one_person, to_answer, to_ratio, with_draws
from metricldp.basics.errors import QueryError
from metricldp.estimate.table import Grouping
from metricldp.mechanisms.randomness import Randomness
from metricldp.store.readings import read, read_pair

LEVEL = 0.95
SURVEYS = {
    "threshold": Integer(0, 15, epsilon=1, mechanism="threshold", per=1),
    "geometric": Integer(0, 15, epsilon=1, mechanism="geometric", per=1),
    "response": Categorical([f"c{k}" for k in range(16)], epsilon=1),
    "wide": Integer(0, 15, epsilon=0.2, mechanism="geometric", per=1),
    "narrow": Integer(0, 15, epsilon=2, mechanism="geometric", per=1),
}
INSIDE = range(3, 9)


def steady(random, shape):
    return random.binomial(15, 0.35, size=shape), np.full(shape[1], 0.35)


def drifting(random, shape):
    chance = np.linspace(0.05, 0.8, shape[1])
    return random.binomial(15, chance, size=shape), chance


def jumping(random, shape):
    """Half of the time everybody is far from both ends of the range, and then at one."""
    people = np.full(shape, 15)
    people[:, shape[1] // 2 :] = 8
    return people, None


def mixed(random, shape):
    """The same, with one in fifty at the end of the range from the start."""
    people = jumping(random, shape)[0]
    people[random.random(shape) < 0.02] = 8
    return people, None


class Wave:
    """Reports of many runs to one survey, with what an onlooker sees after each."""

    def __init__(self, kind, shape, target, seed, people=steady):
        self.survey = Survey.design({"a": SURVEYS[kind]})
        self.target, (runs, reports) = target, shape
        function = np.zeros(16)
        function[list(INSIDE)] = 1.0
        self.readings = read(self.survey, {"a": function})
        where, chance = people(np.random.default_rng(seed), shape)
        column = self.survey.channels["a"].sample(where.reshape(-1), Randomness.seeded(seed))
        rows = self.readings.parts[0].values({"a": column}).reshape(3, runs, reports)
        self.value, second, square = self.sums = rows.cumsum(axis=2)
        self.times = times = np.arange(1, reports + 1)
        self.least, self.most = one_person(self.readings.pairs())
        steps = self.readings.extremes().of(0)
        self.jump, self.hidden, self.one = steps.jump, steps.hidden, self.most
        self.bounds = (
            np.maximum(times * self.least, np.minimum(times, 3) * self.most),
            times * self.most,
        )
        if target == "respondents":
            self.truth, self.variance = function[where].cumsum(axis=1), second - square
            return
        inside = [math.comb(15, k) * chance**k * (1 - chance) ** (15 - k) for k in INSIDE]
        self.truth = np.sum(inside, axis=0).cumsum()
        n = np.maximum(times, 2)
        self.variance = (second - self.value**2 / n) * n / (n - 1)
        self.bounds = self.bounds[0], np.inf
        self.jump, self.hidden = with_draws(steps)
        self.one += steps.width**2 / 4
        expected = drawn(self.value[0, 9], second[0, 9], 10)
        assert self.variance[0, 9] == pytest.approx(expected)

    @property
    def error(self):
        return self.value - self.truth

    @property
    def paces(self):
        return [(np.clip(self.variance, *self.bounds), self.one)]

    def answer(self, run, time):
        """What the package says at one look."""
        return to_answer(
            *(float(rows[run, time - 1]) for rows in self.sums),
            (self.least, self.most),
            self.readings.extremes().of(0),
            time,
            ("", ()),
            target=self.target,
        )


class Merged:
    """One wave after the other: the sum of their answers, looked at all the time."""

    def __init__(self, first, second):
        def after(one, two):
            return np.concatenate([one, one[..., -1:] + two], axis=-1)

        def beside(one, two):
            pace, unit = one
            flat = np.broadcast_to(pace[..., -1:], two[0].shape)
            late = np.concatenate([np.zeros_like(pace), two[0]], axis=-1)
            return (np.concatenate([pace, flat], axis=-1), unit), (late, two[1])

        self.error = after(first.error, second.error)
        self.variance = after(first.variance, second.variance)
        self.bounds = tuple(map(after, first.bounds, second.bounds))
        self.jump = max(first.jump, second.jump)
        self.hidden = first.hidden + second.hidden
        self.paces = beside(*first.paces, *second.paces)


def anytime(looks):
    """`watched.reach` of all looks at once."""
    wrong, total = 1 - LEVEL, np.clip(looks.variance, *looks.bounds)
    rate, doubt, added = watched._rate(wrong), -2 * math.log(wrong), 0.0
    for pace, unit in looks.paces:
        going = pace > 0
        doubt = doubt + np.log1p(rate * pace / (watched.BEST * unit)) * going
        added = added + going * watched.BEST * unit / rate
    return np.sqrt((1 + added / total) * doubt)


def plain(_):
    return np.full(1, normal_reach(LEVEL))


def reach(looks, z):
    """`Answer.reach` of all looks at once, for a number of standard errors at each."""
    low, high = looks.bounds
    variance = np.clip(looks.variance, low, high)
    variance = np.minimum(variance + z**2 / 2 * looks.hidden, high)
    return z * np.sqrt(variance) + np.maximum(0.5, z**2 / 6) * looks.jump


def ever_wrong(looks, z):
    """The share of runs in which some look from the first on showed a wrong interval."""
    wrong = np.abs(looks.error) > reach(looks, z(looks))
    return wrong[:, watched.FIRST - 1 :].any(axis=1).mean()


def merging(shape, seed, kinds=("narrow", "wide")):
    half = shape[0], shape[1] // 2
    return Merged(*(Wave(kind, half, "respondents", seed + k) for k, kind in enumerate(kinds)))


SCENES = {
    f"{kind}, {people.__name__}, {target}": partial(Wave, kind, target=target, people=people)
    for kind, people in (
        *((kind, steady) for kind in ("threshold", "geometric", "response")),
        ("geometric", drifting),
        ("response", drifting),
    )
    for target in ("respondents", "population")
}
SCENES |= {
    f"geometric, {people.__name__}": partial(Wave, "geometric", target="respondents", people=people)
    for people in (jumping, mixed)
}
SCENES |= {
    "epsilon 2, then 0.2": merging,
    "epsilon 0.2, then 2": partial(merging, kinds=("wide", "narrow")),
}


@pytest.mark.parametrize("target", ["respondents", "population"])
def test_the_fast_way_of_this_test_is_the_package(target):
    watch = Wave("threshold", (3, 400), target, seed=1)
    far = reach(watch, anytime(watch))
    for run, time in ((0, 100), (1, 101), (2, 399)):
        low, high = watch.answer(run, time).confidence_interval(LEVEL, anytime=True)
        value = watch.value[run, time - 1]
        expected = value - far[run, time - 1], value + far[run, time - 1]
        assert (low, high) == pytest.approx(expected)


def test_the_fast_way_of_merging_is_the_package():
    waves = [
        Wave(kind, (1, 200), "respondents", seed) for seed, kind in ((1, "narrow"), (2, "wide"))
    ]
    tallies = []
    for seed, wave in enumerate(waves, 1):
        people, _ = steady(np.random.default_rng(seed), (1, 200))
        tallies.append(
            wave.survey.tally(
                wave.survey.randomize({"a": people[0]}, randomness=Randomness.seeded(seed))
            )
        )
    where = {"a": (INSIDE[0], INSIDE[-1])}
    found = tallies[0].count(where) + tallies[1].count(where)
    looks = Merged(*waves)
    paces = [(pace[0, -1], unit) for pace, unit in looks.paces]
    assert np.array(found.paces) == pytest.approx(np.array(paces))
    low, high = found._interval(LEVEL, anytime=True)
    assert (high - low) / 2 == pytest.approx(reach(looks, anytime(looks))[0, -1])
    assert found.confidence_interval(LEVEL, anytime=True) == (max(low, 0), min(high, 400))


def test_the_variance_jumps_a_hundredfold():
    """In the scenes that say so."""
    for scene in ("geometric, jumping", "epsilon 2, then 0.2"):
        looks = SCENES[scene]((200, 1000), seed=1)
        before, after = (looks.variance[:, k].mean() for k in (499, 999))
        assert (after - before) / before > 80


@pytest.mark.parametrize("scene", SCENES)
def test_watching_is_allowed(scene):
    """200 runs: of 5.5 % at most 28 are wrong but once in ten thousand; plain ones have more."""
    looks = SCENES[scene]((200, 3000), seed=20)
    assert ever_wrong(looks, anytime) <= 28 / 200
    assert ever_wrong(looks, plain) > 28 / 200


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_a_thousand_onlookers(scene):
    """Looks at every report from the first allowed to the 20,000th.

    Were the true share 3.5 %, which is more than any was measured at, 1,000 runs would have more
    than 5.5 % once in a thousand times.
    """
    parts = [SCENES[scene]((100, 20_000), seed=seed) for seed in range(100, 120, 2)]
    assert np.mean([ever_wrong(part, anytime) for part in parts]) <= 0.055
    assert np.mean([ever_wrong(part, plain) for part in parts]) > 0.2


class Means:
    """The mean of a group, which is two sums, as Fieller's interval sees it: N - mean D.

    Half of the time the group is rare and its members are old; then it is not, and they are young.
    """

    def __init__(self, shape, seed):
        runs, reports = shape
        random = np.random.default_rng(seed)
        self.survey = Survey.design(
            {"a": SURVEYS["geometric"], "c": Categorical(["x", "y"], epsilon=2)}
        )
        late = np.arange(reports) >= reports // 2
        where = {
            "a": random.binomial(15, np.where(late, 0.2, 0.8), size=shape),
            "c": (random.random(shape) > np.where(late, 0.7, 0.2)).astype(np.int64),
        }
        values, inside = np.arange(16.0), np.array([1.0, 0.0])
        self.readings = read_pair(self.survey, {"a": values, "c": inside}, {"c": inside})
        rows = 1.0
        for k, part in enumerate(self.readings.parts):
            (name,) = part.columns
            channel = self.survey.channels[name]
            column = channel.sample(where[name].reshape(-1), Randomness.seeded(2 * seed + k))
            rows = rows * part.values({name: column})
        self.sums = dict(
            zip(self.readings.rows, rows.reshape(-1, runs, reports).cumsum(axis=2), strict=True)
        )
        members = where["c"] == 0
        size, total = members.cumsum(axis=1), (members * where["a"]).cumsum(axis=1)
        self.truth = total / np.maximum(size, 1)

    def answer(self, run, time):
        sums = {row: found[run, time - 1 : time] for row, found in self.sums.items()}
        return to_ratio(
            sums, self.readings, time, question="", unit="a", possible=(0.0, 15.0), centre=0.0
        )

    def ever_wrong(self, *, watching):
        """Without what the package adds for jumps."""
        sums, times = self.sums, np.arange(1, self.truth.shape[1] + 1)
        n, d, mean = sums["numerator"], sums["denominator"], self.truth
        top, bottom = (
            sums[f"{p}_second"] - sums[f"{p}_square"] for p in ("numerator", "denominator")
        )
        worst = []
        for part, found in (("numerator", top), ("denominator", bottom)):
            least, most = one_person(self.readings.pairs(f"{part}_second", f"{part}_square"))
            np.maximum(found, np.maximum(times * least, np.minimum(times, 3) * most), out=found)
            worst.append(most)
        limit = np.sqrt(top * bottom)
        shared = np.clip(sums["both"] - sums["product"], -limit, limit)

        def residual(mean):
            return np.maximum(top - 2 * mean * shared + mean**2 * bottom, 1e-9)

        z = normal_reach(LEVEL)
        if watching:
            guess, wrong = n / d, 1 - LEVEL
            rate = watched._rate(wrong)
            doubt = -2 * math.log(wrong) + sum(
                np.log1p(rate * v / (watched.BEST * unit))
                for v, unit in zip((top, bottom), worst, strict=True)
            )
            added = watched.BEST * (worst[0] + guess**2 * worst[1]) / rate
            z = np.sqrt((1 + added / residual(guess)) * doubt)
        self.reach = z
        clear = (d > 2 * np.sqrt(bottom)) & (d**2 > z**2 * bottom)
        wrong = clear & (np.abs(n - mean * d) > z * np.sqrt(residual(mean)))
        return wrong[:, watched.FIRST - 1 :].any(axis=1).mean()


def test_a_mean_may_be_watched():
    """200 runs: of 5.5 % at most 28 are wrong but once in ten thousand; plain ones have more."""
    means = Means((200, 3000), seed=3)
    assert means.ever_wrong(watching=False) > 28 / 200
    assert means.ever_wrong(watching=True) <= 28 / 200
    one = means.answer(5, 2999)
    far = watched.reach(LEVEL, one.paces, one.stderr**2)
    assert far == pytest.approx(means.reach[5, 2998])


@pytest.mark.slow
def test_a_thousand_onlookers_of_a_mean():
    parts = [Means((100, 20_000), seed=seed) for seed in range(100, 110)]
    assert np.mean([part.ever_wrong(watching=True) for part in parts]) <= 0.055
    assert np.mean([part.ever_wrong(watching=False) for part in parts]) > 0.2


GROWTHS = {
    "steady": np.zeros(3000),
    "a hundredfold at once": np.repeat([0.0, math.log(100)], 1500),
    "by a tenth from report to report": np.log(1.1) * np.arange(3000),
    "a thousandfold ten times": np.repeat(math.log(1000) * np.arange(10), 300),
    "falling by a percent": -np.log(1.01) * np.arange(3000),
}


def by_reports(variances):
    """A broken twin: the number of reports as time."""
    return np.arange(1, len(variances) + 1) / 1000


def by_variance(variances):
    return variances.cumsum() / variances[0] / watched.BEST


def normal_errors_ever_wrong(growth, time):
    """Of 1,000 runs with normal errors whose variances are known."""
    variances = np.exp(GROWTHS[growth])
    rate, doubt = watched._rate(1 - LEVEL), -2 * math.log(1 - LEVEL)
    tau = rate * time(variances)
    far = np.sqrt((1 + 1 / tau) * (doubt + np.log1p(tau)) * variances.cumsum())
    errors = np.random.default_rng(7).normal(size=(1000, 3000)) * np.sqrt(variances)
    return (np.abs(errors.cumsum(axis=1)) > far).any(axis=1).mean()


@pytest.mark.parametrize("growth", GROWTHS)
def test_accumulated_variance_is_the_right_time(growth):
    """Of 5 %, 1,000 runs have more than 7.8 % once in ten thousand times."""
    assert normal_errors_ever_wrong(growth, by_variance) <= 0.078


def test_the_number_of_reports_is_the_wrong_time():
    assert normal_errors_ever_wrong("by a tenth from report to report", by_reports) > 0.12


def test_the_reach_is_the_formula_and_is_shortest_where_it_says():
    def far(people, level=0.95, sums=1):
        return watched.reach(level, [watched.Pace(7.0 * people, 7.0)] * sums)

    assert far(watched.BEST) == pytest.approx(1.55 * normal_reach(0.95), rel=0.01)
    assert far(watched.BEST) < min(far(watched.BEST / 5), far(watched.BEST * 5))
    assert far(10**6) < 2.25 * normal_reach(0.95)
    assert far(500, sums=2) > far(500)
    strict = watched.strict(0.95, [watched.Pace(777.0, 1.0)])
    assert normal_reach(strict) == pytest.approx(watched.reach(0.95, [watched.Pace(777.0, 1.0)]))


def test_the_unit_of_time_is_known_before_anybody_reports():
    """Whatever they then say; and it goes along into other units."""
    survey = Survey.design({"a": SURVEYS["geometric"]})
    near, far = (
        survey.tally(survey.randomize({"a": [x] * 500}, randomness=Randomness.seeded(x)))
        for x in (8, 15)
    )
    for target in ("respondents", "population"):
        one, other = (tally.count({"a": (3, 8)}, target=target) for tally in (near, far))
        assert one.one == other.one > 0
        assert one.variance > 20 * other.variance or target == "population"
        share = near.fraction({"a": (3, 8)}, target=target)
        assert share.one == pytest.approx(one.one / 500**2)
        ends = [end * 500 for end in share.confidence_interval(anytime=True)]
        assert ends == pytest.approx(one.confidence_interval(anytime=True))
    assert near.mean("a").ones == far.mean("a").ones


def test_too_early_everything_is_possible():
    survey = Survey.design({"a": SURVEYS["geometric"]})
    tally = survey.tally(
        survey.randomize({"a": [3] * (watched.FIRST - 1)}, randomness=Randomness.seeded(1))
    )
    assert tally.count({"a": 3})._interval(anytime=True) == (-math.inf, math.inf)
    assert tally.count({"a": 3}).confidence_interval(anytime=True) == (0, watched.FIRST - 1)
    assert tally.mean("a").confidence_interval(anytime=True) == (0.0, 15.0)
    tally.add(survey.randomize({"a": [3] * 2}, randomness=Randomness.seeded(2)))
    assert math.isfinite(tally.count({"a": 3})._interval(anytime=True)[0])


def test_every_kind_of_answer_takes_it_and_is_wider():
    survey = Survey.design({"a": SURVEYS["geometric"], "c": Categorical(["x", "y"], epsilon=1)})
    people = {"a": np.arange(4000) % 16, "c": np.array(["x", "y"])[np.arange(4000) % 2]}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(3)))
    singles = (
        tally.count({"a": 3}),
        tally.fraction({"a": 3, "c": "x"}),
        tally.mean("a"),
        tally.mean("a", {"c": "x"}),
        tally.sum("a"),
        tally.quantile("a", 0.35),
        tally.quantile("a", 0.35, {"c": "x"}),
        tally.quantile("a", 0.35, target="population"),
    )
    for one in singles:
        low, high = one.confidence_interval(0.95)
        wide, wider = one.confidence_interval(0.95, anytime=True)
        assert wide <= low <= one.value <= high <= wider
        assert wider - wide > high - low
    rows = (tally.histogram("a"), tally.cdf("a"), tally.cdf("a", {"c": "x"}))
    for many in rows:
        for simultaneous in (False, True):
            ends = many.confidence_interval(simultaneous=simultaneous, method="normal")
            wide = many.confidence_interval(simultaneous=simultaneous, anytime=True)
            assert (wide[0] <= ends[0]).all() and (ends[1] <= wide[1]).all()
            assert np.max(np.subtract(*wide[::-1]) - np.subtract(*ends[::-1])) > 0


def test_many_rows_share_the_level_before_it_is_made_strict():
    """The other way round the band would be too narrow early on."""
    rows = EstimateTable(
        [Grouping("x", ["a", "b"], ["a", "b"])],
        [Estimate(0.0, 1.0, reports=200, one=1 / 200)] * 2,
    )
    (low, _), _ = rows.confidence_interval(0.95, simultaneous=True, anytime=True)
    assert low == pytest.approx(-watched.reach(0.975, [watched.Pace(1.0, 1 / 200)]))


def test_where_no_unit_is_known_reports_count_alike():
    known, unknown = (Estimate(0.0, 8.0, reports=200, one=one) for one in (8 / 200, 0.0))
    assert known.confidence_interval(anytime=True) == unknown.confidence_interval(anytime=True)


def test_a_mean_pays_for_its_two_sums():
    survey = Survey.design({"a": SURVEYS["geometric"], "c": Categorical(["x", "y"], epsilon=1)})
    tally = survey.tally(
        survey.randomize({"a": [5] * 500, "c": ["x"] * 500}, randomness=Randomness.seeded(3))
    )
    one = tally.mean("a", {"c": "x"})
    assert len(one.paces) == 2 and len(tally.mean("a").paces) == 1
    strict = watched.strict(0.95, one.paces, one.stderr**2)
    assert one.confidence_interval(0.95, anytime=True) == one.confidence_interval(
        strict, method="normal"
    )


@pytest.mark.parametrize("level", [0.0, 1.0, -1, float("nan"), "0.95", 1 - 1e-13])
def test_levels_that_cannot_be(level):
    with pytest.raises(QueryError):
        Estimate(1.0, 1.0, reports=150).confidence_interval(level, anytime=True)
