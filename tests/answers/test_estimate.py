"""Answers and predicted errors, by enumeration of joint reports on tiny surveys."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theorems import paper_range_variance

from checks import assert_mean, exact_law
from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    QueryError,
    Randomness,
    SensitiveSet,
    Survey,
)
from metricldp.answers.predict import variance_bounds
from metricldp.answers.queries import parse
from metricldp.reports import arrow
from metricldp.store.readings import read

LEVELS = ["low", "mid", "high"]

SURVEYS = {
    "one threshold": Survey.design({"a": Integer(0, 3, epsilon=1, mechanism="threshold", per=1)}),
    "one geometric": Survey.design({"a": Integer(0, 4, epsilon=0.5, mechanism="geometric", per=1)}),
    "paper and geometric": Survey.design(
        {
            "a": Integer(0, 2, epsilon=1, mechanism="threshold-paper", per=1),
            "b": Ordinal(LEVELS, epsilon=0.7, mechanism="geometric"),
        }
    ),
    "threshold, response, geometric": Survey.design(
        {
            "a": Integer(5, 7, epsilon=0.8, mechanism="threshold", per=1),
            "b": Categorical(["x", "y", "z"], epsilon=1.5),
            "c": Continuous(0, 1, bins=4, epsilon=1, per=0.25, mechanism="geometric"),
        }
    ),
    "unary and threshold": Survey.design(
        {
            "a": Ordinal(LEVELS, epsilon=1, mechanism="unary", metric=SensitiveSet(LEVELS[:1])),
            "b": Integer(0, 2, epsilon=0.8, mechanism="threshold", per=1),
        }
    ),
    "two papers and a response on a line": Survey.design(
        {
            "a": Integer(0, 2, epsilon=2, mechanism="threshold-paper", per=1),
            "b": Integer(0, 1, epsilon=0.4, mechanism="threshold-paper", per=1),
            "c": Ordinal(LEVELS, epsilon=1, mechanism="randomized-response"),
        }
    ),
}

QUESTIONS = {
    "one threshold": [{}, {"a": (1, 2)}, {"a": (0, 1)}, {"a": 3}, {"a": [0, 2]}],
    "one geometric": [{}, {"a": (1, 2)}, {"a": (0, 1)}, {"a": 4}, {"a": [0, 2, 3]}],
    "paper and geometric": [{}, {"a": (0, 1)}, {"b": "mid"}, {"a": 1, "b": ("mid", None)}],
    "threshold, response, geometric": [
        {"a": 6},
        {"b": ["x", "z"], "c": (0.25, 0.75)},
        {"a": (6, 7), "b": "y", "c": (None, 0.5)},
    ],
    "unary and threshold": [{}, {"a": "low"}, {"b": (0, 1)}, {"a": ["low", "mid"], "b": (1, 2)}],
    "two papers and a response on a line": [{}, {"a": (1, 1)}, {"a": (0, 1), "b": 0, "c": "high"}],
}
CASES = [(name, where) for name, asked in QUESTIONS.items() for where in asked]
each_case = pytest.mark.parametrize(("name", "where"), CASES, ids=str)


def joint(survey, where):
    """Answers of a tally of each single joint report, and P(report | x) for each joint position."""
    columns = [c.every_report() for c in survey.channels.values()]
    index = list(itertools.product(*(range(len(c)) for c in columns)))
    picked = np.array(index).T
    table = arrow.to_table(
        survey,
        {n: c[k] for n, c, k in zip(survey.channels, columns, picked, strict=True)},
    )
    answers = [survey.tally(table.slice(k, 1)).count(where) for k in range(len(index))]
    laws = {
        name: [np.array([float(p) for p in exact_law(c, x).values()]) for x in range(c.size)]
        for name, c in survey.channels.items()
    }
    law = {}
    for x in itertools.product(*(range(c.size) for c in survey.channels.values())):
        parts = [laws[name][v] for name, v in zip(survey.channels, x, strict=True)]
        joint_law = parts[0]
        for part in parts[1:]:
            joint_law = np.multiply.outer(joint_law, part)
        law[x] = joint_law.reshape(-1)
    return answers, law


def truth(survey, where, x):
    functions = parse(survey, where).functions
    return math.prod(
        functions[n][v] for n, v in zip(survey.channels, x, strict=True) if n in functions
    )


@each_case
def test_counts_are_unbiased_and_so_are_their_variances(name, where):
    survey = SURVEYS[name]
    answers, law = joint(survey, where)
    values = np.array([a.value for a in answers])
    variances = np.array([a.variance for a in answers])
    exact = {}
    for x, p in law.items():
        inside = truth(survey, where, x)
        assert p @ values == pytest.approx(inside, rel=1e-9, abs=1e-9)
        exact[x] = p @ values**2 - inside**2
        assert p @ variances == pytest.approx(exact[x], rel=1e-9, abs=1e-9)
    low, high = variance_bounds(read(survey, parse(survey, where).functions).pairs())
    assert low == pytest.approx(min(exact.values()), rel=1e-9, abs=1e-9)
    assert high == pytest.approx(max(exact.values()), rel=1e-9, abs=1e-9)


@each_case
def test_predicted_errors_equal_the_enumerated_ones(name, where):
    survey = SURVEYS[name]
    answers, law = joint(survey, where)
    values = np.array([a.value for a in answers])
    exact = np.array([p @ values**2 - truth(survey, where, x) ** 2 for x, p in law.items()])
    sizes = [c.size for c in survey.channels.values()]
    exact = exact.reshape(sizes)
    n = 50

    def check(predicted, variance):
        assert predicted**2 == pytest.approx(n * variance, rel=1e-9, abs=1e-12)

    check(survey.expected_error(where, n=n, prior="worst").stderr, exact.max())
    check(survey.expected_error(where, n=n, prior="uniform").stderr, exact.mean())
    rng = np.random.default_rng(12)
    margins = {c: rng.dirichlet(np.ones(s)) for c, s in zip(survey.channels, sizes, strict=True)}
    weights = np.ones(())
    for margin in margins.values():
        weights = np.multiply.outer(weights, margin)
    check(survey.expected_error(where, n=n, prior=margins).stderr, (weights * exact).sum())
    if set(where) and all(c in parse(survey, where).functions for c in where):
        shape = [s for c, s in zip(survey.channels, sizes, strict=True) if c in where]
        others = tuple(k for k, c in enumerate(survey.channels) if c not in where)
        together = rng.dirichlet(np.ones(math.prod(shape))).reshape(shape)
        check(
            survey.expected_error(where, n=n, prior=together).stderr,
            (together * exact.mean(axis=others)).sum(),
        )


@each_case
def test_population_variance_is_unbiased(name, where):
    """Two people drawn at random: the mean of the estimate is the variance of the count."""
    survey = SURVEYS[name]
    if name.startswith(("threshold, ", "two papers")):
        pytest.skip("pairs of reports of the larger surveys are too many to enumerate")
    answers, law = joint(survey, where)
    columns = [c.every_report() for c in survey.channels.values()]
    index = np.array(list(itertools.product(*(range(len(c)) for c in columns)))).T
    table = arrow.to_table(
        survey, {n: c[k] for n, c, k in zip(survey.channels, columns, index, strict=True)}
    )
    shares = np.random.default_rng(3).dirichlet(np.ones(len(law)))
    p = sum(share * row for share, row in zip(shares, law.values(), strict=True))
    values = np.array([a.value for a in answers])
    one = p @ values**2 - (p @ values) ** 2
    expected = 0.0
    for k in range(len(answers)):
        for j in range(len(answers)):
            pair = survey.tally(table.slice(k, 1)) + survey.tally(table.slice(j, 1))
            expected += p[k] * p[j] * pair.count(where, target="population").variance
    assert expected == pytest.approx(2 * one, rel=1e-9, abs=1e-9)


def test_histograms_are_the_counts_of_their_bars():
    survey = SURVEYS["threshold, response, geometric"]
    rng = np.random.default_rng(1)
    people = {
        "a": rng.integers(5, 8, 3000),
        "b": rng.choice(["x", "y", "z"], 3000),
        "c": rng.uniform(0, 1, 3000),
    }
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
    for attribute, values in (("a", [5, 6, 7]), ("b", ["x", "y", "z"])):
        for where in ({}, {"c": (0.25, None)}):
            bars = tally.histogram(attribute, where)
            assert bars.labels == values
            for value, bar in bars:
                single = tally.count({**where, attribute: value})
                assert bar.value == pytest.approx(single.value, rel=1e-9, abs=1e-9)
                assert bar.variance == pytest.approx(single.variance, rel=1e-9, abs=1e-7)
                assert bar.bounds == pytest.approx(single.bounds, rel=1e-9)
    wide = tally.histogram("c", bins=[0, 0.75, 1])
    assert wide.labels == [(0, 0.75), (0.75, 1)]
    assert wide[0, 0.75].value == pytest.approx(tally.count({"c": (0, 0.75)}).value)
    assert sum(tally.histogram("c").values) == pytest.approx(tally.n)


def test_codes_and_plain_sums_agree():
    """Where codes would be too many, products are summed report by report."""
    from metricldp.store import scan

    survey = Survey.design(
        {k: Integer(0, 39, epsilon=1, mechanism="threshold", per=1) for k in "abc"}
    )
    rng = np.random.default_rng(2)
    people = {k: rng.integers(0, 40, 500) for k in "abc"}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(1)))
    batches = tally.store.batches("abc")
    odd = list(range(1, 40, 2))  # 39 bits: too many for codes
    for where in ({"a": (3, 20), "b": odd}, {"a": odd, "b": odd, "c": (5, 9)}, {"c": odd}):
        readings = read(survey, parse(survey, where).functions)
        np.testing.assert_allclose(
            scan.from_reports(batches, readings),
            scan._in_floats(batches, readings.parts, 3, None),
            rtol=1e-9,
            atol=1e-6,
        )
    bars = tally.histogram("a", {"b": odd, "c": odd}, bins=2)
    single = tally.count({"a": (0, 19), "b": odd, "c": odd})
    assert bars.values[0] == pytest.approx(single.value, rel=1e-9)
    assert bars.iloc[0].variance == pytest.approx(single.variance, rel=1e-9)


@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 60), max_size=4),
    sizes=st.lists(st.integers(2, 9), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
)
def test_any_split_in_any_order_gives_the_same_answers(cuts, sizes, seed):
    mechanisms = ["threshold", "geometric", "threshold-paper"]
    survey = Survey.design(
        {
            f"v{k}": Integer(0, size - 1, epsilon=1, mechanism=mechanisms[k], per=1)
            for k, size in enumerate(sizes)
        }
    )
    rng = np.random.default_rng(seed)
    people = {f"v{k}": rng.integers(0, size, 60) for k, size in enumerate(sizes)}
    reports = survey.randomize(people, randomness=Randomness.seeded(seed))
    where = {f"v{k}": (int(rng.integers(0, size)), None) for k, size in enumerate(sizes)}
    whole = survey.tally(reports)
    ends = sorted({0, 60, *cuts})
    parts = [survey.tally(reports.slice(a, b - a)) for a, b in itertools.pairwise(ends)]
    rng.shuffle(parts)
    merged = parts[0]
    for part in parts[1:]:
        merged = merged + part
    assert merged.n == 60
    assert merged.count(where) == whole.count(where)


def test_large_domains_do_not_depend_on_order_either():
    survey = Survey.design(
        {k: Integer(0, 999, epsilon=0.5, mechanism="geometric", per=1) for k in "ab"}
    )
    rng = np.random.default_rng(5)
    people = {k: rng.integers(0, 1000, 20_000) for k in "ab"}
    reports = survey.randomize(people, randomness=Randomness.seeded(5))
    where = {"a": (100, 700), "b": (333, None)}
    whole = survey.tally(reports).count(where)
    shuffled = survey.tally(reports.take(rng.permutation(20_000))).count(where)
    assert whole == shuffled
    parts = survey.tally(reports.slice(0, 777)) + survey.tally(reports.slice(777))
    assert parts.count(where) == whole


@pytest.mark.parametrize("epsilon", [1, 20])
def test_a_bar_of_everybody_has_no_error(epsilon):
    survey = Survey.design({"a": Integer(0, 99, epsilon=epsilon, mechanism="geometric", per=1)})
    tally = survey.tally(survey.randomize({"a": [5] * 100}, randomness=Randomness.seeded(1)))
    bar = tally.histogram("a", bins=1).iloc[0]
    assert bar.value == pytest.approx(100)
    assert bar.stderr == pytest.approx(0, abs=1e-6)


# What the paper and the theory say


def paper_survey(attributes, epsilon=1.0, size=4):
    return Survey.design(
        {
            f"v{k}": Integer(0, size - 1, epsilon=epsilon, mechanism="threshold-paper", per=1)
            for k in range(attributes)
        }
    )


@pytest.mark.parametrize(
    ("attributes", "epsilon", "ratio"), [(2, 1, 1.352), (3, 1, 1.726), (5, 1, 2.619), (5, 2, 8.291)]
)
def test_everybody_inside_exceeds_theorem_3(attributes, epsilon, ratio):
    """The exact variance over the paper's Theorem 3 with constant 1."""
    survey = paper_survey(attributes, epsilon)
    where = {f"v{k}": (1, 2) for k in range(attributes)}
    inside = {f"v{k}": [0, 1, 0, 0] for k in range(attributes)}
    exact = survey.expected_error(where, n=100, prior=inside).stderr ** 2
    kappa_squared = (1 / math.tanh(epsilon / 2)) ** 2
    formula = 100 * (((kappa_squared - 1) / 2 + 1) ** attributes - 1)
    assert exact == pytest.approx(formula, rel=1e-12)
    paper = paper_range_variance(epsilon, attributes, attributes, 100)
    assert exact / paper == pytest.approx(ratio, abs=0.0006)
    outside = {f"v{k}": [0, 0, 0, 1] for k in range(attributes)}
    assert survey.expected_error(where, n=100, prior=outside).stderr ** 2 < paper


def test_simulated_variance_is_1_72_times_theorem_3():
    """D = 3, eps = 1, everyone inside: squared errors of single people, all independent."""
    n = 1_000_000
    survey = paper_survey(3)
    where = {f"v{k}": (1, 2) for k in range(3)}
    reports = survey.randomize(
        {f"v{k}": np.full(n, 1) for k in range(3)}, randomness=Randomness.seeded(17)
    )
    readings = read(survey, parse(survey, where).functions).parts
    product = np.concatenate(
        [
            np.prod(
                [r.channel.values(batch[r.name], r.coefficients[:1])[0] for r in readings], axis=0
            )
            for batch in arrow.batches(reports)
        ]
    )
    squared = (product - 1) ** 2
    kappa_squared = (1 / math.tanh(0.5)) ** 2
    exact = ((kappa_squared - 1) / 2 + 1) ** 3 - 1
    assert_mean(squared, exact, variance=squared.var(), false_alarm=1e-9)
    assert squared.mean() / paper_range_variance(1, 3, 3, 1) == pytest.approx(1.72, abs=0.02)
    # The tally's own answer is the sum of these products.
    assert survey.tally(reports).count(where).value == pytest.approx(product.sum(), rel=1e-9)


RATIOS = [
    (8, 1, "2.2"),
    (256, 1, "67"),
    (512, 1, "133"),
    (512, 0.5, "52"),
    (512, 0.1, "2.6"),
    (64, 0.1, "0.37"),
    (8, 0.05, "0.06"),
]


def _ratio_by_survey_error(size, epsilon, ranges):
    """Mean predicted variance over ranges, uniform people: threshold over geometric."""
    total = {}
    for mechanism in ("threshold", "geometric"):
        survey = Survey.design(
            {"v": Integer(0, size - 1, epsilon=epsilon, mechanism=mechanism, per=1)}
        )
        variances = [
            survey.expected_error({"v": ends}, n=1, prior="uniform").stderr ** 2 for ends in ranges
        ]
        total[mechanism] = math.fsum(variances)
    return total["threshold"] / total["geometric"]


def _two_digits(value, written):
    decimals = len(written.partition(".")[2])
    assert f"{value:.{decimals}f}" == written


def _all_ranges(size):
    return [(low, high) for low in range(size) for high in range(low, size)]


@pytest.mark.parametrize(("size", "epsilon", "written"), RATIOS)
def test_threshold_over_geometric_in_closed_form(size, epsilon, written):
    survey = Survey.design(
        {
            name: Integer(0, size - 1, epsilon=epsilon, mechanism=name, per=1)
            for name in ("threshold", "geometric")
        }
    )
    ratio = survey.channels["threshold"].moments.mean_range_variance()
    ratio /= survey.channels["geometric"].moments.mean_range_variance()
    _two_digits(ratio, written)
    better = "geometric" if ratio >= 1 else "threshold"
    taken = Survey.design({"v": Integer(0, size - 1, epsilon=epsilon, per=1)})
    if taken.mechanisms["v"].name != better:
        least = survey.channels[better].moments.mean_range_variance()
        assert taken.channels["v"].moments.mean_range_variance() < 0.99 * least


@pytest.mark.parametrize(("size", "epsilon", "written"), [r for r in RATIOS if r[0] <= 64])
def test_threshold_over_geometric_by_survey_error(size, epsilon, written):
    _two_digits(_ratio_by_survey_error(size, epsilon, _all_ranges(size)), written)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "epsilon", "written"), [r for r in RATIOS if r[0] > 64])
def test_threshold_over_geometric_by_survey_error_on_large_domains(size, epsilon, written):
    _two_digits(_ratio_by_survey_error(size, epsilon, _all_ranges(size)), written)


@pytest.mark.parametrize("mechanism", ["threshold", "geometric", "randomized-response", "unary"])
@pytest.mark.parametrize("size", [2, 3, 11])
def test_mean_over_all_ranges_is_the_mean_of_the_predicted_errors(mechanism, size):
    survey = Survey.design({"v": Integer(0, size - 1, epsilon=0.7, mechanism=mechanism, per=1)})
    each = [
        survey.expected_error({"v": ends}, n=1, prior="uniform").stderr ** 2
        for ends in _all_ranges(size)
    ]
    closed = survey.channels["v"].moments.mean_range_variance()
    assert closed == pytest.approx(np.mean(each), rel=1e-10)


def test_influences_of_the_theory():
    kappa, a = 1 / math.tanh(0.5), math.exp(-1)
    prefix = (np.arange(10) <= 4).astype(float)
    survey = Survey.design(
        {
            name: Integer(0, 9, epsilon=1, mechanism=name, per=1)
            for name in ("threshold", "geometric")
        }
    )
    threshold, geometric = (c.moments.output_range(prefix)[1] for c in survey.channels.values())
    assert threshold == pytest.approx((1 + kappa) / 2)
    assert geometric == pytest.approx(1 + a / (1 - a) ** 2)


# Intervals


@pytest.mark.parametrize(
    ("repetitions", "least", "most"),
    [(500, 0.908, 0.984), pytest.param(2000, 0.93, 0.97, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "mechanisms", [("geometric", "randomized-response"), ("threshold", "geometric")], ids="-".join
)
def test_intervals_cover(mechanisms, repetitions, least, most):
    """2,000 repetitions, 2 attributes, 2,000 people: 95 % intervals cover 93 % to 97 %.

    With the true rate at 95 % a query leaves that band, or the wider one of 500 repetitions, with
    probability below 1e-4. A true rate of 88 % is out of the wider one in 98 of 100 cases.
    """
    first = Integer(0, 19, epsilon=1, mechanism=mechanisms[0], per=1)
    if mechanisms[1] == "randomized-response":
        second = Categorical(["x", "y", "z"], epsilon=1.5)
    else:
        second = Integer(0, 2, epsilon=1.5, mechanism=mechanisms[1], per=1)
    survey = Survey.design({"a": first, "b": second})
    rng = np.random.default_rng(20)
    names = np.array(["x", "y", "z"]) if mechanisms[1] == "randomized-response" else np.arange(3)
    x, y = names[0].item(), names[1].item()
    people = {
        "a": np.minimum(rng.geometric(0.12, 2000) - 1, 19),
        "b": names[rng.choice(3, 2000, p=[0.5, 0.3, 0.2])],
    }
    is_x = people["b"] == x
    queries = [
        ({"a": (3, 9)}, (people["a"] >= 3) & (people["a"] <= 9)),
        ({"a": (0, 4)}, people["a"] <= 4),
        ({"b": x}, is_x),
        ({"a": (5, None), "b": x}, (people["a"] >= 5) & is_x),
        (
            {"a": (2, 12), "b": [x, y]},
            (people["a"] >= 2) & (people["a"] <= 12) & (people["b"] != names[2]),
        ),
    ]
    truths = [int(inside.sum()) for _, inside in queries]
    covered = np.zeros(len(queries))
    randomness = Randomness.seeded(21)
    for _ in range(repetitions):
        tally = survey.tally(survey.randomize(people, randomness=randomness))
        for k, (where, _) in enumerate(queries):
            low, high = tally.count(where).confidence_interval()
            covered[k] += low <= truths[k] <= high
    rates = covered / repetitions
    assert np.all((rates >= least) & (rates <= most)), covered


def test_interval_levels_and_fractions():
    survey = SURVEYS["one threshold"]
    tally = survey.tally(
        survey.randomize({"a": [0, 1, 2, 3] * 50}, randomness=Randomness.seeded(1))
    )
    answer = tally.count({"a": (1, 2)})
    low, high = answer.confidence_interval(0.5)
    # half of kappa beyond the normal reach, as one flipped bit moves an answer by kappa
    kappa = survey.channels["a"].moments.kappa[0]
    assert high - low == pytest.approx(2 * 0.6744897501960817 * answer.stderr + kappa)
    share = tally.fraction({"a": (1, 2)})
    assert share.value == pytest.approx(answer.value / 200)
    assert share.stderr == pytest.approx(answer.stderr / 200)
    assert tally.fraction().value == 1
    with pytest.raises(QueryError, match="no reports"):
        survey.tally(survey.randomize({"a": np.array([], dtype=int)})).fraction()


def test_a_standard_error_stays_within_what_is_possible():
    survey = SURVEYS["one geometric"]
    for seed in range(200):
        reports = survey.randomize({"a": [0, 4]}, randomness=Randomness.seeded(seed))
        answer = survey.tally(reports).count({"a": (1, 2)})
        assert answer.bounds[0] <= answer.stderr**2 <= answer.bounds[1] * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_mean_near_zero_of_everybody_has_an_even_interval(seed):
    # How many people there are is known, so their number varies with nothing.
    survey = Survey.design(
        {"v": Continuous(0, 1, points=2, epsilon=5, rounding="stochastic", per=1)}
    )
    people = {"v": np.full(2_000, 0.02)}
    mean = survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed))).mean("v")
    low, high = mean._interval()
    assert mean.shared == 0
    assert (low + high) / 2 == pytest.approx(mean.value)
    assert high - low == pytest.approx(2 * mean.reach(0.95))
    assert high - low < 0.1
    assert mean.confidence_interval() == (max(low, 0), high)
