"""Surveys with attributes that are blurred together, answered and predicted: by enumeration."""

import itertools
import math

import numpy as np
import pytest

from checks import every_report_of, people_of
from metricldp import (
    Categorical,
    Integer,
    Lp,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.answers.predict import variance_bounds
from metricldp.answers.queries import parse
from metricldp.lab.peers.hio import HadamardBoxes
from metricldp.mechanisms.joint import Term
from metricldp.store.readings import read, read_pair, read_weighted


def line(size, epsilon=1.0, **more):
    return Integer(0, size - 1, epsilon=epsilon, per=1, **more)


PLANE, TREES = ("x", "y"), ("u", "v")
HIO = {"name": "hio", "branching": 2}
HASHED = {"name": "hio-hashing", "branching": 2}
SURVEYS = {
    # The block is not one piece in the survey's order.
    "plane around a category": Survey.design(
        SurveySpec(
            {"x": line(2), "told": Categorical(["no", "yes"], epsilon=0.7), "y": line(3, 0.6)},
            joint={PLANE: "planar-laplace"},
        )
    ),
    "trees beside literal bits": Survey.design(
        SurveySpec(
            {"a": line(2, mechanism="threshold-paper"), "u": line(2), "v": line(3, 1.2)},
            joint={TREES: HIO},
        )
    ),
    "consistent trees beside bits": Survey.design(
        SurveySpec(
            {"u": line(2), "v": line(3), "a": line(2, 0.8, mechanism="threshold")},
            joint={TREES: {**HIO, "consistent": True}},
            metric=Lp(1.5),
        )
    ),
    "both": Survey.design(
        SurveySpec(
            {"x": line(2), "u": line(2), "y": line(2, 0.5), "v": Ordinal(["lo", "hi"], epsilon=2)},
            joint={PLANE: "planar-laplace", TREES: HIO},
            metric=Lp(2),
        )
    ),
}
HASHES = Survey.design(
    SurveySpec(
        {"a": line(2, mechanism="threshold-paper"), "u": line(2, 0.4), "v": line(2, 0.3)},
        joint={TREES: HASHED},
    )
)
WHERES = {
    "plane around a category": [
        {},
        {"told": "yes"},
        {"x": 1},
        {"y": (1, 2)},
        {"x": 0, "y": [0, 2]},
        {"y": 1, "told": "no"},
        {"x": 1, "y": (0, 1), "told": "yes"},
    ],
    "trees beside literal bits": [
        {},
        {"u": 1},
        {"v": (1, 2)},
        {"v": 1, "a": 1},
        {"u": 0, "v": [0, 2], "a": 0},
    ],
    "consistent trees beside bits": [{"v": (0, 1)}, {"u": 1, "v": 2}, {"v": 1, "a": 1}],
    "both": [{"x": 1}, {"v": "hi"}, {"y": 0, "u": 1}, {"x": 0, "y": 1, "u": 0, "v": "lo"}],
}
CASES = [(name, where) for name, wheres in WHERES.items() for where in wheres]
each_case = pytest.mark.parametrize(("name", "where"), CASES, ids=str)
each_survey = pytest.mark.parametrize("name", SURVEYS)


@pytest.fixture(scope="module")
def enumerated():
    """The tallies of every single report, and the law of the reports, of each survey."""
    found = {}
    for name, survey in SURVEYS.items():
        table, laws = every_report_of(survey)
        np.testing.assert_allclose(laws.sum(axis=1), 1, rtol=1e-12)
        tallies = [survey.tally(table.slice(k, 1)) for k in range(table.num_rows)]
        found[name] = survey, tallies, laws
    return found


def truths(survey, functions):
    """A product of functions for every person."""
    people = people_of(survey)
    return np.array([math.prod(f[x[name]] for name, f in functions.items()) for x in people])


def check_answers(answers, laws, f, scale=1.0):
    """Answers to single reports have the mean f and tell their own variance without bias."""
    values = np.array([answer.value for answer in answers])
    variances = np.array([answer.variance for answer in answers])
    near = {"rtol": 1e-9, "atol": 1e-9 * max(1.0, np.abs(values).max() ** 2)}
    np.testing.assert_allclose(laws @ values, scale * f, **near)
    exact = laws @ values**2 - (scale * f) ** 2
    np.testing.assert_allclose(laws @ variances, exact, **near)
    return exact


@each_case
def test_counts_and_their_bounds(enumerated, name, where):
    survey, tallies, laws = enumerated[name]
    functions = parse(survey, where).functions
    f = truths(survey, functions)
    exact = check_answers([tally.count(where) for tally in tallies], laws, f)
    shares = [tally.fraction(where) for tally in tallies]
    np.testing.assert_allclose(laws @ [share.value for share in shares], f, atol=1e-9)
    least, most = variance_bounds(read(survey, functions).pairs())
    near = 1e-9 * max(1.0, exact.max())
    assert least == pytest.approx(exact.min(), abs=near)
    assert most == pytest.approx(exact.max(), abs=near)


def test_everybody_is_known(enumerated):
    """Also where a question names an attribute of a block and leaves nobody out."""
    for survey, tallies, _ in enumerated.values():
        for block in survey.blocks.values():
            size = survey.attributes[block.names[0]].size
            for tally in tallies[:3]:
                whole = tally.workload(block.names[0], np.ones((1, size)))
                free = all(channel.moments.knows_total for channel in survey.channels.values())
                if free:
                    assert (tally.count().value, tally.count().stderr) == (1, 0)
                    assert (whole.values[0], whole.iloc[0].stderr) == (1, 0)


@each_case
def test_predicted_errors_are_the_enumerated_ones(enumerated, name, where):
    survey, tallies, laws = enumerated[name]
    functions = parse(survey, where).functions
    values = np.array([tally.count(where).value for tally in tallies])
    sizes = {n: a.size for n, a in survey.attributes.items()}
    exact = (laws @ values**2 - truths(survey, functions) ** 2).reshape(list(sizes.values()))
    n = 50

    def check(predicted, variance):
        assert predicted**2 == pytest.approx(n * variance, rel=1e-9, abs=1e-11 * values.max() ** 2)

    check(survey.expected_error(where, n=n, prior="worst").stderr, exact.max())
    check(survey.expected_error(where, n=n, prior="uniform").stderr, exact.mean())
    rng = np.random.default_rng(12)
    margins = {name: rng.dirichlet(np.ones(size)) for name, size in sizes.items()}
    spread = np.ones(())
    for margin in margins.values():
        spread = np.multiply.outer(spread, margin)
    check(survey.expected_error(where, n=n, prior=margins).stderr, (spread * exact).sum())
    # The axes of a joint array: what is asked about, and where the error differs all the same.
    axes = [
        k for k in range(len(sizes)) if list(sizes)[k] in functions or np.ptp(exact, k).max() > 1e-9
    ]
    shape = [list(sizes.values())[k] for k in axes]
    others = tuple(k for k in range(len(sizes)) if k not in axes)
    if shape:
        together = rng.dirichlet(np.ones(math.prod(shape))).reshape(shape)
        check(
            survey.expected_error(where, n=n, prior=together).stderr,
            (together * exact.mean(axis=others)).sum(),
        )


def test_the_axes_of_a_joint_prior_are_told():
    plane, trees = SURVEYS["plane around a category"], SURVEYS["trees beside literal bits"]
    assert plane.expected_error({"x": 1}, n=10, prior=[1, 2]).stderr > 0
    with pytest.raises(QueryError, match=r"^a prior for x x y has shape \(2, 3\), not \(2,\)$"):
        plane.expected_error({"x": 1, "y": 2}, n=10, prior=[1, 2])
    with pytest.raises(QueryError, match=r"^the prior has no entry for y; add an array for it$"):
        plane.expected_error({"x": 1, "y": 2}, n=10, prior={"x": [1, 2]})
    with pytest.raises(QueryError, match=r"^a prior for x x told x y has shape \(2, 2, 3\), not"):
        plane.expected_error({"y": 0, "told": "yes", "x": 1}, n=10, prior=np.ones((2, 3, 2)))
    with pytest.raises(QueryError, match=r"^a prior for u has shape \(2,\), not \(2, 3\)$"):
        trees.expected_error({"u": 1}, n=10, prior=np.ones((2, 3)))
    assert trees.expected_error({"u": 1}, n=10, prior=[3, 5]).stderr > 0


@each_survey
def test_sums_and_the_parts_of_a_mean(enumerated, name):
    """The covariance in a mean is that of two different functions of the same report."""
    survey, tallies, laws = enumerated[name]
    numbers = {n: a for n, a in survey.attributes.items() if a.kind == "integer"}
    others = {n: a for n, a in survey.attributes.items() if n not in numbers}
    cases = [(n, {}) for n in numbers]
    cases += list(zip(numbers, [{other: 1} for other in reversed(numbers)], strict=True))
    cases += [(next(iter(numbers)), {other: a.name_of(1)}) for other, a in others.items()]
    for attribute, where in cases:
        group = parse(survey, where).functions
        values = np.arange(survey.attributes[attribute].size, dtype=float)
        summed = {**group, attribute: values * group.get(attribute, 1.0)}
        f, g = truths(survey, summed), truths(survey, group)
        check_answers([tally.sum(attribute, where) for tally in tallies], laws, f)
        pair = read_pair(survey, summed, group)
        sums = [t.store.sums(pair, t.store.layout_for(pair.names)) for t in tallies]
        row = {key: np.array([float(one[key][0]) for one in sums]) for key in pair.rows}
        top, bottom = row["numerator"], row["denominator"]
        near = {"rtol": 1e-9, "atol": 1e-9 * np.abs(top).max() * np.abs(bottom).max()}
        np.testing.assert_allclose(laws @ top, f, **near)
        np.testing.assert_allclose(laws @ bottom, g, **near)
        np.testing.assert_allclose(laws @ row["numerator_second"], laws @ top**2, **near)
        np.testing.assert_allclose(laws @ row["denominator_second"], laws @ bottom**2, **near)
        np.testing.assert_allclose(laws @ row["both"], laws @ (top * bottom), **near)
        np.testing.assert_allclose(laws @ row["product"], f * g, **near)


@each_survey
def test_histograms_workloads_and_distribution_functions(enumerated, name):
    survey, tallies, laws = enumerated[name]
    for attribute in (block.names[-1] for block in survey.blocks.values()):
        size = survey.attributes[attribute].size
        grid = np.arange(size)
        bars = [tally.histogram(attribute) for tally in tallies]
        ranges = [tally.workload(attribute, "ranges") for tally in tallies]
        cdfs = [tally.cdf(attribute) for tally in tallies]
        for k in range(size):
            check_answers([b.iloc[k] for b in bars], laws, truths(survey, {attribute: grid == k}))
            shares = [cdf.iloc[k].value for cdf in cdfs]
            below = truths(survey, {attribute: grid <= k})
            np.testing.assert_allclose(laws @ shares, below, atol=1e-9)
        spans = itertools.combinations_with_replacement(range(size), 2)
        for k, (low, high) in enumerate(spans):
            f = truths(survey, {attribute: (low <= grid) & (grid <= high)})
            check_answers([found.iloc[k] for found in ranges], laws, f)
            np.testing.assert_allclose(laws @ [r.values[k] for r in ranges], f, atol=1e-9)


@each_survey
def test_any_functions_at_once(enumerated, name):
    """Random functions of all attributes: the rows of a reading, two queries together."""
    survey, _, laws = enumerated[name]
    table, _ = every_report_of(survey)
    check_readings(survey, table, laws)


def check_readings(survey, table, laws):
    rng = np.random.default_rng(5)
    queries = [{n: rng.normal(size=a.size) for n, a in survey.attributes.items()} for _ in range(2)]
    readings = read(survey, *queries)
    (batch,) = survey.tally(table.combine_chunks()).store.batches(survey.fields)
    found = readings.named(math.prod(part.values(batch) for part in readings.parts))
    for k, functions in enumerate(queries):
        f, value = truths(survey, functions), found["value"][k]
        near = {"rtol": 1e-9, "atol": 1e-9 * np.abs(value).max() ** 2}
        np.testing.assert_allclose(laws @ value, f, **near)
        np.testing.assert_allclose(laws @ found["second"][k], laws @ value**2, **near)
        np.testing.assert_allclose(laws @ found["square"][k], f**2, **near)
        noise = laws @ value**2 - f**2
        least, most = (bound[k] for bound in variance_bounds(readings.pairs()))
        assert least == pytest.approx(noise.min(), abs=1e-9 * noise.max())
        assert most == pytest.approx(noise.max())
    # And a tally adds up what it reads of each report.
    sums = survey.tally(table).store.sums(read(survey, queries[0]), "reports")
    for row, total in sums.items():
        assert total[0] == pytest.approx(found[row][0].sum(), rel=1e-9, abs=1e-6)


def test_hashed_boxes_beside_literal_bits():
    """There are too many reports for a tally of each; the readings are enumerated."""
    table, laws = every_report_of(HASHES)
    check_readings(HASHES, table, laws)
    (batch,) = HASHES.tally(table.combine_chunks()).store.batches(HASHES.fields)
    for where in ({"u": 1}, {"u": 0, "v": 1}, {"v": 0, "a": 1}):
        functions = parse(HASHES, where).functions
        readings = read(HASHES, functions)
        value = math.prod(part.values(batch) for part in readings.parts)[0]
        f = truths(HASHES, functions)
        np.testing.assert_allclose(laws @ value, f, atol=1e-9 * np.abs(value).max())
        exact = (laws @ value**2 - f**2).reshape(2, 2, 2)
        assert HASHES.expected_error(where, n=1, prior="worst").stderr ** 2 == pytest.approx(
            exact.max(), rel=1e-9
        )
        assert HASHES.expected_error(where, prior="uniform", n=1).stderr ** 2 == pytest.approx(
            exact.mean(), rel=1e-9
        )
        shares = np.random.default_rng(2).dirichlet(np.ones(8)).reshape(2, 2, 2)
        asked = [k for k, name in enumerate(HASHES.attributes) if name in where]
        others = tuple(k for k in range(3) if k not in asked)
        margin = shares.sum(axis=others)
        expected = (margin * exact.mean(axis=others)).sum()
        assert HASHES.expected_error(where, prior=margin, n=1).stderr ** 2 == pytest.approx(
            expected, rel=1e-9
        )


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["planar-laplace", HIO], ids=str)
def test_a_public_weight_beside_a_block(mechanism):
    survey = Survey.design(
        SurveySpec(
            {"w": Weight(0, 10), "x": line(2), "y": line(2, 0.5), "a": line(2)},
            joint={PLANE: mechanism},
        )
    )
    table, laws = every_report_of(survey, {"w": 3.5})
    tallies = [survey.tally(table.slice(k, 1)) for k in range(table.num_rows)]
    for where in ({"x": 1}, {"y": 0, "a": 1}, {"x": 0, "y": 1}):
        f = truths(survey, parse(survey, where).functions)
        exact = check_answers([t.sum("w", where) for t in tallies], laws, f, scale=3.5)
        predicted = survey.expected_error(where, weights={"w": [3.5]}, n=1, prior="worst").stderr
        assert predicted**2 == pytest.approx(exact.max(), rel=1e-9)
        predicted = survey.expected_error(where, n=7, prior="uniform", weights={"w": [3.5]}).stderr
        assert predicted**2 == pytest.approx(7 * exact.mean(), rel=1e-9)
    with pytest.raises(QueryError, match="name one of the survey's weights, not 'x'"):
        survey.expected_error({"x": 1}, weights={"x": [1]}, n=1, prior="worst")


@pytest.mark.parametrize("mechanism", ["planar-laplace", HIO], ids=str)
def test_a_private_weight_beside_a_block(mechanism):
    """Of weights at the ends the sum is right, and its variance too large by (w - c)^2 inside."""
    survey = Survey.design(
        SurveySpec(
            {"x": line(2), "w": Weight(1, 5, private=True, epsilon=1.5), "y": line(2, 0.5)},
            joint={PLANE: mechanism},
        )
    )
    ends = np.array([1.0, 5.0])
    table, laws = every_report_of(survey)
    tallies = [survey.tally(table.slice(k, 1)) for k in range(table.num_rows)]
    for where in ({"x": 1}, {"x": 0, "y": 1}):
        functions = parse(survey, where).functions
        answers = [tally.sum("w", where) for tally in tallies]
        values = np.array([answer.value for answer in answers])
        f, inside = truths(survey, {**functions, "w": ends}), truths(survey, functions)
        near = {"rtol": 1e-9, "atol": 1e-9 * np.abs(values).max() ** 2}
        np.testing.assert_allclose(laws @ values, f, **near)
        exact = laws @ values**2 - f**2
        stated = laws @ [answer.variance for answer in answers]
        np.testing.assert_allclose(stated, exact + 4 * inside, **near)
        readings = read_weighted(survey, functions, "w", ends)
        assert set(readings.names) == {"w", "x+y"}
        assert survey.expected_error(where, weights={"w": ends}, n=1, prior="worst").stderr > 0


# Many people -------------------------------------------------------------------------------------


def some_people(survey, n, seed=3):
    rng = np.random.default_rng(seed)
    return {
        name: [a.name_of(k) for k in rng.integers(0, a.size, n)]
        if a.named
        else rng.integers(0, a.size, n)
        for name, a in survey.attributes.items()
    }


@each_survey
def test_merging_and_answers_of_a_crowd(name):
    survey = SURVEYS[name]
    people = some_people(survey, 4000)
    table = survey.randomize(people, randomness=Randomness.seeded(4))
    whole = survey.tally(table)
    parts = [survey.tally(table.slice(k, 1000)) for k in range(0, 4000, 1000)]
    merged = sum(parts)
    assert merged == whole
    other = survey.tally(table.slice(0, 0))
    other.add(table)
    first, where = next(iter(survey.blocks.values())).names[0], WHERES[name][-1]
    for ask in (
        lambda t: t.count(where),
        lambda t: t.fraction(where),
        lambda t: t.sum(first),
        lambda t: t.mean(first),
        lambda t: t.histogram(first).iloc[0],
        lambda t: t.cdf(first).iloc[0],
        lambda t: t.workload(first, "ranges").iloc[1],
    ):
        answers = [ask(tally) for tally in (whole, merged, other)]
        for answer in answers[1:]:
            assert answer.value == pytest.approx(answers[0].value, rel=1e-12, abs=1e-9)
            assert answer.stderr == pytest.approx(answers[0].stderr, rel=1e-9)
    # Six standard errors: a false alarm of 2e-9 each.
    inside = math.prod(np.isin(people[key], np.atleast_1d(meant)) for key, meant in where.items())
    answer = whole.count(where)
    assert abs(answer.value - inside.sum()) < 6 * answer.stderr
    mean = whole.mean(first)
    assert mean.value == pytest.approx(whole.sum(first).value / whole.count().value)
    assert abs(mean.value - np.mean(people[first])) < 6 * mean.stderr
    assert whole.quantile(first, 0.5).value in people[first]


@each_survey
def test_a_population_of_people(name):
    survey = SURVEYS[name]
    tally = survey.tally(
        survey.randomize(some_people(survey, 500), randomness=Randomness.seeded(4))
    )
    for where in WHERES[name][-2:]:
        own, drawn = tally.count(where), tally.count(where, target="population")
        assert drawn.value == own.value
        assert drawn.stderr > own.stderr


@pytest.mark.parametrize(
    ("name", "attribute"),
    [(n, a) for n, s in {**SURVEYS, "hashes": HASHES}.items() for a in s.attributes],
)
def test_the_worst_case_of_a_workload_is_one_kind_of_person(name, attribute):
    """The largest sum over all rows of anybody, which everybody has who is like that."""
    survey = {**SURVEYS, "hashes": HASHES}[name]
    size = survey.attributes[attribute].size
    asked = [[1, *[0] * (size - 1)], [*[0] * (size - 1), 2], [3, *[1] * (size - 1)]]
    sizes = {name: a.size for name, a in survey.attributes.items()}
    errors = []
    for person in itertools.product(*map(range, sizes.values())):
        alike = {n: np.eye(sizes[n])[at] for n, at in zip(sizes, person, strict=True)}
        errors.append(
            survey.expected_error(n=7, prior=alike, attribute=attribute, workload=asked).stderr
        )
    error = survey.expected_error(n=7, prior="worst", attribute=attribute, workload=asked).stderr
    assert error == pytest.approx(max(errors), rel=1e-9)


def test_one_workload_is_predicted_from_its_rows():
    survey = SURVEYS["plane around a category"]
    rows = [
        survey.expected_error({"y": span}, n=10, prior="uniform").stderr ** 2
        for span in ((0, 0), (0, 1), (1, 1))
    ]
    rows += [
        survey.expected_error({"y": span}, n=10, prior="uniform").stderr ** 2
        for span in ((1, 2), (2, 2))
    ]
    error = survey.expected_error(n=10, prior="uniform", attribute="y", workload="ranges").stderr
    assert 6 * error**2 == pytest.approx(sum(rows), rel=1e-9)  # and everybody, who is known


class ConstantNoise(HadamardBoxes):
    """Adds the noise of a count also where nobody is left out."""

    def second_moment(self, functions, others=None):
        return self._second_moment(functions, functions if others is None else others)


class WrongSecond(HadamardBoxes):
    """A second moment a thousandth too small."""

    def _second_moment(self, functions, others):
        return [
            Term(0.999 * term.scale, term.factors)
            for term in super()._second_moment(functions, others)
        ]


@pytest.mark.parametrize("cls", [ConstantNoise, WrongSecond])
def test_broken_blocks_are_caught(cls, enumerated):
    survey = Survey.from_dict(SURVEYS["consistent trees beside bits"].to_dict())
    (block,) = survey.blocks.values()
    honest = block.channel
    object.__setattr__(block, "channel", cls(honest.sizes, honest.branchings, honest.keep, True))
    table, laws = every_report_of(survey)
    tallies = [survey.tally(table.slice(k, 1)) for k in range(table.num_rows)]
    broken = {"consistent trees beside bits": (survey, tallies, laws)}
    with pytest.raises(AssertionError):
        test_counts_and_their_bounds(broken, "consistent trees beside bits", {"u": 1, "v": 2})
        test_everybody_is_known(broken)


def test_many_attributes_are_predicted():
    """More than there are letters for the axes of an array."""
    kinds = {
        f"x{k}": Categorical(["p", "q"], epsilon=1, mechanism="randomized-response")
        for k in range(60)
    }
    survey = Survey.design(kinds)
    where = {f"x{k}": "p" for k in range(55)}
    one = survey.channels["x0"].moments.second_moment(np.array([1.0, 0.0])).mean()
    expected = math.sqrt(one**55 - 0.5**55)
    assert survey.expected_error(where, prior="uniform", n=1).stderr == pytest.approx(
        expected, rel=1e-9
    )


def test_an_interval_of_everybody_ends_at_everybody():
    """The best function above may be the constant, whose sum is known but for rounding."""
    survey = Survey.design(
        SurveySpec({name: Integer(0, 5, epsilon=0.3, per=1) for name in "ab"}, joint=[["a", "b"]])
    )
    people = {"a": np.full(300, 2), "b": np.full(300, 3)}
    for seed in range(10):
        tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(seed)))
        low, high = tally.count({"a": (1, 3)}).confidence_interval()
        assert low <= 300 <= high, (low, high - 300)


def test_a_share_of_everybody_ends_at_1():
    """49 times a 49th is less than 1, as computers count."""
    survey = Survey.design({"a": Integer(0, 9, epsilon=0.5, per=1)})
    tally = survey.tally(survey.randomize({"a": np.full(49, 2)}, randomness=Randomness.seeded(0)))
    assert tally.fraction({"a": (1, 3)}).confidence_interval()[1] == 1
    assert (tally.count({"a": (1, 3)}) / 49).confidence_interval()[1] == 1
