"""Unary encoding: the best bits for a metric, what they promise, and how surveys keep them."""

import contextlib
import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from checks import (
    EveryCoin,
    check_sampler,
    enumerated_ratio,
    exact_law,
    prove,
    sampled_law,
    total_error,
)
from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    InvalidSpecError,
    Lp,
    Ordinal,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
)
from metricldp.basics.errors import CertificateError
from metricldp.mechanisms import UnaryChannel
from metricldp.mechanisms import unary as unary_losses
from metricldp.mechanisms.auto import choose
from metricldp.mechanisms.base import Problem
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.registry import build
from metricldp.mechanisms.unary import best_losses, losses_of
from metricldp.metrics import Line, Sensitive, Uniform, tightened
from metricldp_core.exact import WORD, at_most_exp, decimal_of

SIZE = 100
BEYOND = [11, 8, 17, 11, 3, 12, 15, 9, 18, 17]
"""Tenths between five values on which another program once gave an error that was too small."""
BEYOND_TURNED = [8, 11, 11, 17, 18, 3, 9, 15, 17, 12]
"""The same values in another order."""


def star(k, size=SIZE, epsilon=1):
    return Sensitive(frozenset(range(k)), Fraction(epsilon))


def plain(size, epsilon):
    """Optimised unary encoding as it was published: p = 1/2 and q = 1/(e^epsilon + 1)."""
    other = math.ceil(WORD / (math.exp(epsilon) + 1))
    return UnaryChannel.of((WORD // 2,) * size, (other,) * size)


def bits_of(channel):
    """Variance of all unbiased bits together, people spread evenly: what is minimised."""
    other, own = channel.moments.noise
    return float((other + (own - other) / channel.size).sum())


def tables(size):
    """Random metrics on so many values."""
    pairs = list(combinations(range(size), 2))
    lengths = st.lists(st.integers(1, 40), min_size=len(pairs), max_size=len(pairs))
    return lengths.map(lambda found: table_of(found, size))


def table_of(lengths, size):
    """A metric from tenths between every two of so many values."""
    pairs = combinations(range(size), 2)
    said = {pair: Fraction(length, 10) for pair, length in zip(pairs, lengths, strict=True)}
    return tightened(said, range(size))[0]


@st.composite
def unaries(draw, size=3):
    """Any bits at all."""
    pairs = [sorted(draw(st.sets(st.integers(1, 15), min_size=2, max_size=2))) for _ in range(size)]
    return UnaryChannel.of([p << 60 for _, p in pairs], [q << 60 for q, _ in pairs])


# The law


@given(unaries())
def test_the_worst_ratio_is_a_one_here_and_a_zero_there(channel):
    laws = [exact_law(channel, x) for x in range(3)]
    for x, other in product(range(3), repeat=2):
        worst = Fraction(1)
        if x != other:
            p, q = (
                [Fraction(n, WORD) for n in side]
                for side in (channel.distribution.own, channel.distribution.other)
            )
            for here, there in product((True, False), repeat=2):
                mine = (p[x] if here else 1 - p[x]) * (q[other] if there else 1 - q[other])
                hers = (q[x] if here else 1 - q[x]) * (p[other] if there else 1 - p[other])
                worst = max(worst, mine / hers, hers / mine)
        assert (
            channel.distribution.ratio(x, other) == worst == enumerated_ratio(laws[x], laws[other])
        )


@given(unaries(4))
def test_worst_ratios_multiply_along_paths(channel):
    """Why generating pairs prove all others."""
    for x, way, other in permutations(range(4), 3):
        path = channel.distribution.ratio(x, way) * channel.distribution.ratio(way, other)
        assert channel.distribution.ratio(x, other) <= path


def test_unary_bits_on_every_coin():
    """Planes for the columns of bits, then a word for everybody's own: the law of the code."""
    channel = UnaryChannel.of((3 << 62, 11 << 60, 3 << 62), (1 << 62, 1 << 61, 1 << 63))
    for x in range(3):
        assert sampled_law(channel, x, EveryCoin(10, word=4)) == exact_law(channel, x)


def test_many_people_are_encoded_in_parts(monkeypatch):
    from metricldp.mechanisms import unary_channel as unary

    channel = build("unary", 3, star(1, 3))
    monkeypatch.setattr(unary, "_AT_ONCE", 3 * 64 * 5)
    check_sampler(channel, n=64 * 5 * 40 + 7)
    wide = build("unary", 20, star(3, 20))
    sent = wide.sample(np.arange(20).repeat(50), Randomness.seeded(3))
    assert sent.shape == (1000, 3)
    assert not wide.field.invalid(sent).any()


def test_a_persons_own_bit_is_drawn_to_the_last_unit():
    """Of words next to a threshold only the smaller one is below, and floats could not tell."""
    own = ((1 << 62) + 1, 3 << 62)
    channel = UnaryChannel.of(own, (1 << 60, 1 << 60))
    people = np.array([0, 0, 1, 1, 0])
    drawn = [own[0] - 1, own[0], own[1] - 1, own[1], 0]

    class Randomness:
        def words(self, count):
            return np.array(drawn if count == 5 else [WORD - 1] * count, dtype=np.uint64)

    bits = np.unpackbits(channel.sample(people, Randomness()), axis=1, bitorder="little")
    assert bits[np.arange(5), people].tolist() == [1, 0, 1, 0, 1]


class OwnBitBare(UnaryChannel):
    """The broken twin: a person's own bit is sent as it is."""

    def sample(self, positions, randomness):
        column = super().sample(positions, randomness)
        column[np.arange(len(positions)), positions >> 3] |= (1 << (positions & 7)).astype(np.uint8)
        return column


class NeighbourReused(UnaryChannel):
    """The broken twin: the first bit is sent twice."""

    def sample(self, positions, randomness):
        column = super().sample(positions, randomness)
        return column & 0b11111101 | (column & 1) << 1


@pytest.mark.parametrize("twin", [OwnBitBare, NeighbourReused])
def test_broken_samplers_are_rejected(twin):
    honest = build("unary", 3, star(1, 3))
    with pytest.raises(AssertionError):
        check_sampler(twin(honest.distribution))


# The optimum


@pytest.mark.parametrize("epsilon", [0.2, 1, 3])
@pytest.mark.parametrize("size", [2, 3, 10, 1000])
def test_all_alike_by_the_closed_form(size, epsilon):
    """With e^yes e^no = A the error is (w a^2 + (1-w) A) / ((a-1)(A-a)), w = 1/m: a quadratic.

    Setting its derivative to zero: w (A+1) a^2 + 2 (1-2w) A a - (1-w) A (A+1) = 0.
    """
    share, most = 1 / size, math.exp(epsilon)
    a = max(
        np.roots([share * (most + 1), 2 * (1 - 2 * share) * most, (share - 1) * most * (most + 1)])
    )
    yes, no = best_losses(Uniform(Fraction(str(epsilon))), size)[0]
    assert yes == pytest.approx(math.log(a), abs=2e-5)
    assert decimal_of(yes) + decimal_of(no) == Fraction(str(epsilon))


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
def test_many_values_alike_are_optimised_unary_encoding(epsilon):
    """Wang et al. 2017: p = 1/2, q = 1/(e^epsilon + 1), variance 4 e^epsilon/(e^epsilon - 1)^2.

    That is the best for rare values. The best for all of m values is better by a little that
    vanishes with m; of two values it is the symmetric encoding.
    """
    rare = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
    published = plain(SIZE, epsilon)
    assert published.moments.noise[0][0] == pytest.approx(rare, rel=1e-12)
    many = build("unary", 100_000, Uniform(Fraction(str(epsilon))))
    assert many.distribution.own[0] / WORD == pytest.approx(1 / 2, abs=2e-5)
    assert many.distribution.other[0] / WORD == pytest.approx(1 / (math.exp(epsilon) + 1), abs=2e-5)
    assert many.moments.noise[0][0] == pytest.approx(rare, rel=1e-8)
    for size in (3, 10, 100, 1000):
        best = bits_of(build("unary", size, Uniform(Fraction(str(epsilon)))))
        assert best < bits_of(plain(size, epsilon)) < best * (1 + 1 / size)
    two = build("unary", 2, Uniform(Fraction(str(epsilon))))
    assert (two.distribution.own[0] + two.distribution.other[0]) / WORD == pytest.approx(
        1, abs=1e-12
    )


@pytest.mark.parametrize("epsilon", [0.3, 1, 4])
def test_sensitive_sets_are_never_worse_than_plain(epsilon):
    """Every k; equal to the best plain encoding from m/2 on, and far better for small k."""
    alike = bits_of(build("unary", SIZE, Uniform(Fraction(str(epsilon)))))
    before = 0.0
    for k in range(1, SIZE + 1):
        here = bits_of(build("unary", SIZE, star(k, epsilon=Fraction(str(epsilon)))))
        assert before <= here * (1 + 1e-8)
        assert here <= alike * (1 + 1e-8)
        assert here < bits_of(plain(SIZE, epsilon))
        if k < 45:
            assert here < alike * (1 - 1e-4)
        if k >= SIZE / 2:
            assert here == pytest.approx(alike, rel=1e-8)
        before = here
    if epsilon == 1:
        one = bits_of(build("unary", SIZE, star(1)))
        assert one / alike == pytest.approx(0.4447, abs=1e-4)


def exceeds(losses, metric, size):
    """Whether the bits of two values have a larger loss than their distance, exactly."""
    return any(
        decimal_of(losses[x][0]) + decimal_of(losses[other][1]) > metric.distance(x, other)
        for x, other in permutations(range(size), 2)
    )


def chosen(size, metric, *, ordered=False):
    return choose(Problem.single(size, metric, ordered=ordered))[0]


def error_of(losses, counts):
    """The total error by its definition, from p and q; smooth where they make sense."""
    share, total = 1 / sum(counts), 0.0
    for (yes, no), count in zip(losses, counts, strict=True):
        a, c = math.exp(yes), math.exp(no)
        q = (c - 1) / (a * c - 1)
        p = a * q
        total += count * (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
    return total


def by_scipy(metric, size, counts, of):
    """An independent program: SLSQP from the symmetric start and from p = 1/2, the better one.

    Now and then it gives up at a point beyond the limits, whose error is none that bits can have.
    Limits are on sums, so a point that is made smaller as a whole keeps them.
    """
    pairs = [(x, y) for x, y in permutations(range(size), 2)]
    limits = [
        {
            "type": "ineq",
            "fun": lambda z, x=x, y=y: (
                float(metric.distance(x, y)) - z[2 * of[x]] - z[2 * of[y] + 1]
            ),
        }
        for x, y in pairs
    ]
    near, far = float(metric.smallest(size)), float(metric.diameter(size))
    a = (math.exp(near) + 1) / 2
    found = []
    for start in ((0.49 * near, 0.49 * near), (0.99 * math.log(a), 0.99 * (near - math.log(a)))):
        result = minimize(
            lambda z: math.log(error_of(z.reshape(-1, 2), counts)),
            np.tile(start, len(counts)),
            constraints=limits,
            bounds=[(1e-4, far)] * (2 * len(counts)),  # no loss alone is above the largest pair's
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        losses = result.x.reshape(-1, 2)
        told = [(losses[of[x], 0] + losses[of[y], 1]) / metric.distance(x, y) for x, y in pairs]
        found.append(error_of(losses / max(1.0, *told), counts))
    return min(found)


def least_error(metric, size, losses):
    """No losses within the metric have a smaller error: by the tangent, as the error is convex."""
    yes, no = np.array(losses).T
    a, g = 1 / np.expm1(yes), 1 / np.expm1(no)
    slopes = [-a * (1 + a) * (1 - 1 / size + g), -g * (1 + g) * (1 / size + a)]
    pairs = list(permutations(range(size), 2))
    limits = np.zeros((len(pairs), 2, size))
    for row, (x, y) in zip(limits, pairs, strict=True):
        row[0, x] = row[1, y] = 1
    distances = [float(metric.distance(x, y)) for x, y in pairs]
    lowest = linprog(np.ravel(slopes), limits.reshape(len(pairs), -1), distances)
    assert lowest.success
    return error_of(losses, [1] * size) + lowest.fun - np.vdot(slopes, [yes, no])


@pytest.mark.parametrize(("k", "epsilon"), [(1, 1), (2, 1), (3, 2), (5, 0.5), (7, 1)])
def test_the_optimum_of_sensitive_sets_by_another_program(k, epsilon):
    metric = star(k, 8, Fraction(str(epsilon)))
    of = [int(x >= k) for x in range(8)]
    expected = by_scipy(metric, 8, [k, 8 - k], of)
    losses = best_losses(metric, 8)
    found = error_of(losses, [1] * 8)
    assert found == pytest.approx(expected, rel=1e-6)
    assert bits_of(UnaryChannel.for_losses(losses)) == pytest.approx(found, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(tables(5))
@example(table_of(BEYOND, 5))
@example(table_of(BEYOND_TURNED, 5))
def test_the_optimum_of_any_table_by_another_program(metric):
    losses = best_losses(metric, 5)
    assert not exceeds(losses, metric, 5)
    found = error_of(losses, [1] * 5)
    assert found <= by_scipy(metric, 5, [1] * 5, range(5)) * (1 + 1e-6)


@settings(max_examples=50, deadline=None)
@given(tables(5))
@example(table_of(BEYOND, 5))
@example(table_of(BEYOND_TURNED, 5))
def test_no_bits_have_a_smaller_error(metric):
    """A bound that needs no other optimum; rounding to decimals costs what is left of it."""
    losses = best_losses(metric, 5)
    assert error_of(losses, [1] * 5) <= least_error(metric, 5, losses) * (1 + 2e-4)


def test_bits_that_are_not_the_best_do_not_pass_for_them():
    """The broken twin: all bits tell half of the smallest distance."""
    metric = table_of(BEYOND, 5)
    losses = [(0.15, 0.15)] * 5
    assert not exceeds(losses, metric, 5)
    assert error_of(losses, [1] * 5) > least_error(metric, 5, losses) * (1 + 2e-4)


@settings(max_examples=15, deadline=None)
@given(tables(5), st.data())
def test_values_that_are_alike_have_the_same_bits(metric, data):
    """A copy of a value, somewhere near it, is its twin."""
    near = min(metric.distance(0, other) for other in range(1, 5))
    said = {pair: metric.distance(*pair) for pair in combinations(range(5), 2)}
    said |= {(other, 5): metric.distance(0, other) for other in range(1, 5)}
    said[0, 5] = near * Fraction(data.draw(st.integers(1, 4)), 4)
    twins = best_losses(tightened(said, range(6))[0], 6)
    assert twins[0] == twins[5]


def test_values_with_the_same_distances_in_another_order_are_no_twins():
    """The corners of a rectangle: every row holds the same numbers, and no two can change places.

    Rows of twins differ at the two themselves. With the same numbers in both, no two rows differ
    at three places, so the next case is four: all of them here.
    """
    near, side, across = Fraction(1), Fraction(3, 2), Fraction(2)
    said = {(0, 2): near, (1, 3): near, (0, 1): side, (2, 3): side, (0, 3): across, (1, 2): across}
    metric, _ = tightened(said, range(4))
    assert unary_losses._twins(metric.whole(4)).tolist() == [0, 1, 2, 3]
    losses = best_losses(metric, 4)
    assert not exceeds(losses, metric, 4)
    assert all(pair.holds for pair in prove(UnaryChannel.for_losses(losses), metric))
    for x, other in permutations(range(4), 2):
        more = [list(pair) for pair in losses]
        room = float(said[min(x, other), max(x, other)]) - sum(losses[x])
        more[x][0] += room + 0.01
        assert exceeds(more, metric, 4)


@settings(max_examples=30, deadline=None)
@given(tables(6))
def test_every_pair_is_kept_and_nothing_is_given_away(metric):
    losses = best_losses(metric, 6)
    channel = UnaryChannel.for_losses(losses)
    for x, other in combinations(range(6), 2):
        assert at_most_exp(channel.distribution.ratio(x, other), metric.distance(x, other))
        told = max(
            decimal_of(losses[x][0]) + decimal_of(losses[other][1]),
            decimal_of(losses[other][0]) + decimal_of(losses[x][1]),
        )
        assert told <= metric.distance(x, other)
    # Both numbers of every value are at a limit: none could be raised alone.
    for x in range(6):
        others = [y for y in range(6) if y != x]
        for mine, hers in ((0, 1), (1, 0)):
            room = min(
                metric.distance(x, y) - decimal_of(losses[x][mine]) - decimal_of(losses[y][hers])
                for y in others
            )
            assert 0 <= room < Fraction(1, 10**14)


@pytest.mark.parametrize("epsilon", ["1e-12", "1e-6", "0.001", "30", "1000"])
def test_very_small_and_very_large_distances(epsilon):
    for metric in (
        Uniform(Fraction(epsilon)),
        star(2, 5, Fraction(epsilon)),
        Line(Fraction(epsilon)),
    ):
        channel = build("unary", 5, metric)
        assert all(pair.holds for pair in prove(channel, metric))
        assert np.isfinite(channel.moments.noise).all()


def test_a_line_of_many_values_is_refused():
    with pytest.raises(
        InvalidSpecError, match=r"attribute a: unary bits support up to 1,000 values"
    ):
        Survey.design({"a": Integer(0, 1000, epsilon=1, mechanism="unary", per=1)})
    many = Integer(0, 4999, epsilon=1, mechanism="unary", metric=SensitiveSet([17]))
    survey = Survey.design({"a": many})
    assert survey.certify().holds
    assert len(set(losses_of(survey.channels["a"].distribution))) == 2


# Broken twins: none is certified


@pytest.mark.parametrize("metric", [Uniform(Fraction(1)), star(2, 6), Line(Fraction(1, 2))])
def test_a_probability_one_percent_off_is_not_certified(metric):
    honest = build("unary", 6, metric)
    assert all(pair.holds for pair in prove(honest, metric))
    for value in range(6):
        for side, factor in (("other", 0.99), ("own", 1.01)):
            numbers = list(getattr(honest.distribution, side))
            numbers[value] = int(numbers[value] * factor)
            changed = replace(honest.distribution, **{side: tuple(numbers)})
            broken = replace(honest, distribution=changed)
            assert not all(pair.holds for pair in prove(broken, metric)), (side, value)


def test_of_bounds_around_an_exponential_the_safe_one_is_taken(monkeypatch):
    """With bounds as far apart as 2 and 3 no bit tells by more than 2."""
    from metricldp.mechanisms import unary_channel as unary

    monkeypatch.setattr(unary, "exp_bounds", lambda exponent: (Fraction(2), Fraction(3)))
    own, other = unary._integers(1.0, 1.0)
    assert Fraction(own, other) <= 2
    assert Fraction(WORD - other, WORD - own) <= 2


@pytest.mark.parametrize("pair", [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1e-20, 1e-20)])
def test_bits_that_tell_nothing_are_refused(pair):
    with pytest.raises(CertificateError, match="too large or small for 64-bit words"):
        UnaryChannel.for_losses([(1.0, 1.0), pair])


def test_bits_that_tell_very_much_are_still_bits():
    for pair in ((60.0, 0.1), (0.1, 60.0), (60.0, 60.0)):
        channel = UnaryChannel.for_losses([pair] * 2)
        assert 0 < channel.distribution.other[0] < channel.distribution.own[0] < WORD


@pytest.mark.parametrize("option", ["bits", "bit"])
def test_options_that_do_not_exist_are_rejected(option):
    with pytest.raises(InvalidSpecError, match=f"mechanism 'unary' has no entry '{option}'"):
        Survey.design({"site": site(mechanism={"name": "unary", option: 1})})


# Surveys and their files


def site(**entries):
    entries = {"epsilon": 0.5, "metric": SensitiveSet(["clinic"]), "mechanism": "unary"} | entries
    return Categorical(["news", "games", "shop", "clinic"], **entries)


def test_files_hold_the_bits_and_return_them():
    survey = Survey.design({"site": site(), "age": Integer(0, 9, epsilon=1, per=1)})
    bits = losses_of(survey.channels["site"].distribution)
    assert len(bits) == 4
    assert bits[0] == bits[1] == bits[2] != bits[3]
    for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
        assert again == survey
        assert again.channels["site"] == survey.channels["site"]
        assert again.to_dict() == survey.to_dict()
    saved = {name: entry["mechanism"] for name, entry in survey.to_dict()["attributes"].items()}
    assert saved == {"site": "unary", "age": "geometric"}
    hash(survey.attributes["site"])


@pytest.mark.parametrize("mechanism", ["auto", {"name": "auto", "workload": "values"}])
def test_survey_file_without_the_name_of_a_mechanism_is_rejected(mechanism):
    data = Survey.design({"site": site()}).to_dict()
    data["attributes"]["site"]["mechanism"] = mechanism
    with pytest.raises(InvalidSpecError, match="name the mechanism of the distribution"):
        Survey.from_dict(data)


def test_devices_never_optimise(tmp_path, monkeypatch):
    Survey.design({"site": site()}).save(tmp_path / "survey.toml")

    def never(*rest):
        raise AssertionError("optimised on a device")

    monkeypatch.setattr(unary_losses, "_minimum", never)
    unary_losses.best_losses.cache_clear()
    survey = Survey.load(tmp_path / "survey.toml")
    assert len(survey.report({"site": "shop"})) == len(survey.report({"site": "clinic"}))


def test_loading_and_reporting_need_no_scipy(tmp_path):
    Survey.design({"site": site()}).save(tmp_path / "survey.toml")
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "from metricldp import Survey\n"
        f"survey = Survey.load({str(tmp_path / 'survey.toml')!r})\n"
        "survey.report({'site': 'clinic'})\n"
        "assert survey.certify().holds"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_lp_metric_of_several_attributes_shrinks_the_bits():
    survey = Survey.design(
        SurveySpec({"site": site(), "age": Integer(0, 9, epsilon=1, per=1)}, metric=Lp(2))
    )
    assert survey.certify().holds
    assert Survey.from_toml(survey.to_toml()) == survey


def test_every_kind_of_discrete_attribute():
    levels = ["never", "rarely", "often"]
    survey = Survey.design(
        {
            "a": Integer(0, 6, epsilon=1, mechanism="unary", per=1),
            "b": Ordinal(
                levels,
                epsilon=1,
                mechanism="unary",
                metric=Graph([("never", "often"), ("often", "rarely", 3)]),
            ),
            "c": Categorical(levels, epsilon=1, mechanism="unary"),
        }
    )
    assert survey.certify().holds
    assert [channel.bits for channel in survey.channels.values()] == [7, 3, 3]
    rng = np.random.default_rng(1)
    people = {
        "a": rng.integers(0, 7, 3000),
        "b": rng.choice(levels, 3000),
        "c": rng.choice(levels, 3000),
    }
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(4)))
    for where, truth in (
        ({"a": (2, 5)}, (people["a"] >= 2) & (people["a"] <= 5)),
        ({"a": 3, "c": "often"}, (people["a"] == 3) & (people["c"] == "often")),
        (
            {"b": "never", "c": ["never", "rarely"]},
            (people["b"] == "never") & (people["c"] != "often"),
        ),
    ):
        answer = tally.count(where)
        assert abs(answer.value - truth.sum()) < 6.5 * answer.stderr
    assert sum(one.value for _, one in tally.histogram("a")) == pytest.approx(3000)


def test_bins_and_rounded_numbers():
    survey = Survey.design(
        {
            "c": Continuous(0, 7, bins=7, epsilon=1, mechanism="unary", per=1),
            "r": Continuous(
                0, 1, points=5, epsilon=3, mechanism="unary", rounding="stochastic", per=1
            ),
        }
    )
    assert survey.certify().holds
    rng = np.random.default_rng(1)
    people = {"c": rng.uniform(0, 7, 20_000), "r": rng.uniform(0, 1, 20_000)}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(3)))
    truth = ((people["c"] >= 2) & (people["c"] < 4)).sum()
    answer, mean = tally.count({"c": (2, 4)}), tally.mean("r")
    assert abs(answer.value - truth) < 6 * answer.stderr
    assert abs(mean.value - people["r"].mean()) < 6 * mean.stderr


# What auto takes


def test_auto_takes_the_smaller_mean_variance_of_frequencies():
    taken = set()
    for k, size, epsilon in (
        (1, 4, 1),
        (1, 20, 1),
        (10, 20, 1),
        (1, 20, 6),
        (2, 6, 2),
        (1, 100, 3),
        (19, 20, 9),
    ):
        metric = star(k, size, epsilon)
        errors = {}
        for name in ("randomized-response", "unary", "tight-constraints", "extremal")[
            : 4 if size <= 16 else 3
        ]:
            with contextlib.suppress(InvalidSpecError):  # no tents where one would be below 0
                errors[name] = build(name, size, metric).moments.mean_frequency_variance()
        found = chosen(size, metric).name
        assert errors[found] <= 1.02 * min(errors.values())
        taken.add(found)
    assert taken == {"unary", "tight-constraints", "randomized-response", "extremal"}


def test_auto_prefers_what_is_simple_and_short():
    assert chosen(4, Uniform(Fraction(1))).name == "randomized-response"
    assert chosen(8, Uniform(Fraction(1))).name == "additive"
    assert chosen(100, Uniform(Fraction(1))).name == "additive"
    assert chosen(100, star(1, 100)).name == "unary"
    assert chosen(100, Uniform(Fraction(6))).name == "randomized-response"
    assert chosen(257, Uniform(Fraction(1))).name == "additive"
    assert chosen(5000, Uniform(Fraction(1))).name == "randomized-response"
    assert chosen(100, Line(Fraction(1))).name == "geometric"
    assert chosen(100, Line(Fraction(1, 5))).name == "additive"
    assert chosen(4096, Line(Fraction(1, 5))).name == "geometric"
    assert chosen(257, star(1, 257)).name == "randomized-response"
    assert chosen(300, star(1, 300), ordered=True).name != "unary"


ORDERED = {
    "path": Graph([(x, x + 1) for x in range(11)]),
    "path with a short cut": Graph([*((x, x + 1) for x in range(11)), (0, 11, 2)]),
    "one sensitive": SensitiveSet([0]),
    "half sensitive": SensitiveSet(list(range(6))),
    "two groups": Tree({"low": list(range(6)), "high": list(range(6, 12))}, {"low": 4}),
}


@pytest.mark.parametrize("epsilon", [0.05, 1, 6])
@pytest.mark.parametrize("case", ORDERED)
def test_on_ordered_values_auto_takes_the_smallest_mean_variance_of_ranges(case, epsilon):
    total = {}
    for mechanism in (
        "geometric",
        "threshold",
        "randomized-response",
        "unary",
        "tight-constraints",
        "extremal",
        "auto",
    ):
        attribute = Integer(0, 11, epsilon=epsilon, metric=ORDERED[case], mechanism=mechanism)
        with contextlib.suppress(InvalidSpecError):  # no tents where one would be below 0
            survey = Survey.design({"a": attribute})
            total[mechanism] = total_error(survey, "a", "ranges", prior="uniform")
    assert total["auto"] <= 1.02 * min(total.values())


def test_a_path_that_is_a_line_is_blurred_like_a_line():
    path = Graph([(x, x + 1) for x in range(1, 50)])
    survey = Survey.design({"a": Integer(1, 50, epsilon=1, metric=path)})
    assert survey.mechanisms["a"].name == "geometric"
    levels = [str(x) for x in range(50)]
    rows = [[abs(x - y) for y in range(50)] for x in range(50)]
    survey = Survey.design({"a": Ordinal(levels, epsilon=1, metric=DistanceMatrix(rows))})
    assert survey.mechanisms["a"].name == "geometric"


def test_auto_has_a_choice_where_a_line_would_be_too_flat_for_the_coins():
    many = (1 << 20) - 1
    survey = Survey.design({"a": Integer(0, many, epsilon=1e-9, metric=SensitiveSet([0]))})
    assert survey.mechanisms["a"].name == "randomized-response"
