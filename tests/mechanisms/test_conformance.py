"""`check_mechanism` refuses every broken twin."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from checks import mechanism_of, prove
from metricldp import CertificateError, Integer, InvalidSpecError, Randomness, Survey
from metricldp.mechanisms import GeometricChannel, RandomizedResponseChannel, conformance, keep_for
from metricldp.mechanisms.base import ANY_TWO
from metricldp.mechanisms.conformance import check_mechanism
from metricldp.mechanisms.fields import Number
from metricldp.mechanisms.geometric import geometric_distribution
from metricldp.mechanisms.randomized_response import ResponseMoments
from metricldp.mechanisms.registry import mechanism
from metricldp.mechanisms.table import TableChannel
from metricldp.metrics import Line, Uniform
from metricldp_core.distributions import Geometric as GeometricNoise
from metricldp_core.distributions import RandomizedResponse
from metricldp_core.exact import WORD, exp_bounds


@pytest.mark.parametrize(
    "given",
    [
        lambda size, epsilon: None,
        "geometric",
        RandomizedResponseChannel.for_epsilon(3, Fraction(1)),
    ],
)
def test_what_is_no_mechanism_is_refused(given):
    with pytest.raises(
        InvalidSpecError, match="check_mechanism checks a mechanism, such as"
    ) as wrong:
        check_mechanism(given)
    assert "\n" not in str(wrong.value)


def broken(what, channel):
    """What is found wrong with a channel that does not follow from its epsilon."""
    made = mechanism_of("twin", channel, ANY_TWO)
    found = check_mechanism(made, sizes=(3,), epsilons=(1.0,))
    assert not found.holds
    assert "BROKEN" in str(found)
    assert what in {finding.what for finding in found.failures}, str(found)


def test_more_is_kept_than_epsilon_allows():
    def twin(size, epsilon):
        return RandomizedResponseChannel(
            RandomizedResponse(size, keep_for(size, epsilon) + (1 << 30))
        )

    broken("loss within the metric", twin)


OF_MOMENTS = {"coefficients", "mean", "frequencies", "output_range", "second_moment_estimator"}


def twin_with(distribution=RandomizedResponse, **methods):
    """Randomized response with other methods of the channel or of its moments."""
    of_moments = {name: method for name, method in methods.items() if name in OF_MOMENTS}
    others = {name: method for name, method in methods.items() if name not in OF_MOMENTS}
    kind = type("TwinMoments", (ResponseMoments,), of_moments)
    moments = property(lambda self: kind(self.size, Fraction(self.distribution.keep, WORD)))
    made = type("Twin", (RandomizedResponseChannel,), {**others, "moments": moments})

    def twin(size, epsilon):
        return made(distribution(size, keep_for(size, epsilon)))

    return twin


def twin_drawing(sample=RandomizedResponseChannel.sample, **methods):
    """A channel whose output distribution has other methods."""
    return twin_with(type("Drawing", (RandomizedResponse,), methods), sample=sample)


def test_a_ratio_that_is_understated():
    broken("loss within the metric", twin_drawing(ratio=lambda self, x, other: Fraction(1)))


def test_a_decoder_that_is_off():
    def coefficients(self, functions):
        return 1.01 * ResponseMoments.coefficients(self, functions)

    broken("no bias", twin_with(coefficients=coefficients))


def test_a_moment_that_is_off():
    def mean(self, values):
        return ResponseMoments.mean(self, values) + 0.01

    broken("second moments", twin_with(mean=mean))


def test_cells_that_are_not_the_transpose():
    broken("features", twin_with(frequencies=lambda self, totals: totals))


def test_a_sampler_that_keeps_too_often():
    def sample(self, positions, randomness):
        honest = RandomizedResponseChannel.sample(self, positions, randomness)
        return np.where(randomness.words(len(positions)) < WORD // 8, positions, honest).astype(
            np.uint8
        )

    broken("sample", twin_with(sample=sample))


def test_a_device_that_keeps_too_often():
    def draw(self, position, words):
        drawn = RandomizedResponse.draw(self, position, words)
        return position if words.below(WORD // 8) else drawn

    broken("draw", twin_drawing(draw=draw))


def test_a_probability_that_is_off():
    def probability(self, x, report):
        return RandomizedResponseChannel.probability(self, x, report) * Fraction(999, 1000)

    broken("probabilities", twin_with(probability=probability))


def test_a_channel_that_cannot_be_made_is_told():
    def refuse(size, epsilon):
        return TableChannel.of([[1, 2], [3, 4]])

    broken("made", refuse)


def test_tables_of_weights():
    honest = GeometricChannel.for_epsilon(4, Fraction(1))
    weights = [
        [int(honest.probability(x, np.asarray(y)) * WORD) for y in range(4)] for x in range(4)
    ]
    for x, row in enumerate(weights):
        row[x] += WORD - sum(row)
    table = TableChannel.of(weights)
    functions = np.random.default_rng(1).normal(size=(2, 4))
    np.testing.assert_allclose(
        table.moments.coefficients(functions), honest.moments.coefficients(functions), rtol=1e-9
    )
    np.testing.assert_allclose(
        table.moments.second_moment(functions), honest.moments.second_moment(functions), rtol=1e-9
    )


def test_more_reports_than_positions():
    """The decoder is unbiased, and costs less than one that reads half of the reports."""

    def twice(size, epsilon):
        rows = []
        for row in [[WORD - WORD // 4, WORD // 4], [WORD // 4, WORD - WORD // 4]]:
            rows.append([weight // 2 for weight in row for _ in (0, 1)])
        return TableChannel.of(rows)

    made = mechanism_of("twice", twice, ANY_TWO)
    found = check_mechanism(made, sizes=(2,), epsilons=(2.0,))
    assert found.holds, str(found)


def test_a_survey_refuses_a_mechanism_from_elsewhere_that_breaks_its_metric():
    def blunt(size, epsilon):
        return RandomizedResponseChannel.for_epsilon(size, 3 * epsilon)

    with pytest.raises(
        InvalidSpecError, match="distinguishes 0 from 1 better than the metric allows"
    ):
        Survey.design(
            {"v": Integer(0, 4, epsilon=1, mechanism=mechanism_of("blunt", blunt, ANY_TWO), per=1)}
        )


@pytest.mark.parametrize("name", ["geometric", "matrix", "unary", ""])
def test_a_mechanism_of_ones_own_has_a_name_of_its_own(name):
    made = mechanism_of(name, RandomizedResponseChannel.for_epsilon, ANY_TWO)
    with pytest.raises(InvalidSpecError, match="needs a name of its own"):
        Survey.design({"v": Integer(0, 4, epsilon=1, mechanism=made, per=1)})


def test_a_device_that_sends_more_bits_than_its_field():
    def draw(self, position, words):
        return RandomizedResponse.draw(self, position, words) | position << self.bits

    broken("draw", twin_drawing(draw=draw))


def test_a_device_refuses_a_report_beyond_its_field():
    leaky = twin_drawing(
        draw=lambda self, position, words: (
            RandomizedResponse.draw(self, position, words) | 1 << self.bits
        )
    )
    made = mechanism_of("leaky", leaky, ANY_TWO)
    survey = Survey.design({"v": Integer(0, 4, epsilon=1, mechanism=made, per=1)})
    with pytest.raises(CertificateError, match="outside of its field"):
        survey.report({"v": 2})


def test_an_encoder_that_blurs_the_first_person_for_everybody():
    def sample(self, positions, randomness):
        return RandomizedResponseChannel.sample(
            self, np.full(len(positions), positions[0]), randomness
        )

    broken("sample", twin_with(sample=sample))


def test_an_encoder_that_blurs_the_neighbour():
    def sample(self, positions, randomness):
        return RandomizedResponseChannel.sample(self, np.roll(positions, 1), randomness)

    broken("sample", twin_with(sample=sample))


def test_an_encoder_that_uses_its_coins_twice():
    def sample(self, positions, randomness):
        half = len(positions) // 2
        first = RandomizedResponseChannel.sample(self, np.zeros(half, dtype=int), randomness)
        moved = np.concatenate([first, first])
        return ((moved + positions) % self.size).astype(np.uint8)

    broken("sample", twin_with(sample=sample))


def test_a_false_word_that_all_pairs_are_alike():
    made = type("Drawing", (GeometricNoise,), {"invariance": "all"})

    def twin(size, epsilon):
        noise = geometric_distribution(size, epsilon / 4)
        return GeometricChannel(made(size, noise.zero, noise.digits, noise.block))

    broken("loss within the metric", twin)


def test_nothing_checked_does_not_hold():
    found = check_mechanism(mechanism("unary-optimised"), sizes=(30,), epsilons=(1.0,))
    assert not found.holds
    assert "nothing was checked" in str(found)


@pytest.mark.parametrize(
    "weights",
    [
        [[WORD // 4, WORD - WORD // 4, 0], [WORD - WORD // 4, WORD // 4, 0]],
        [[0, WORD // 4, WORD - WORD // 4], [0, WORD - WORD // 4, WORD // 4]],
        [[WORD // 4, 0, WORD - WORD // 4], [WORD - WORD // 4, 0, WORD // 4]],
    ],
    ids=["last", "first", "inner"],
)
def test_reports_without_weight_are_never_drawn(weights):
    table = TableChannel.of(weights)
    drawn = table.sample(np.arange(2000) % 2, Randomness.seeded(1))
    assert {int(y) for y in drawn} == {y for y in range(3) if weights[0][y]}


def test_a_table_that_tells_for_certain_is_not_certified():
    table = TableChannel.of([[WORD, 0], [0, WORD]])
    (pair,) = prove(table, Uniform(Fraction(1)))
    assert not pair.holds
    assert pair.loss > 1000


# One thing wrong at a time, and what is said of it


@pytest.fixture
def few_draws(monkeypatch):
    """For what is found without a sampler."""
    monkeypatch.setattr(conformance, "DRAWS", 100)


quickly = pytest.mark.usefixtures("few_draws")


def wrong_with(channel, sizes=(3,), epsilon=1.0):
    """What is said to be wrong, by check."""
    made = mechanism_of("twin", channel, ANY_TWO)
    found = check_mechanism(made, sizes=sizes, epsilons=(epsilon,))
    return {finding.what: finding.detail for finding in found.failures}


@quickly
def test_probabilities_below_zero():
    def probability(self, x, report):
        return Fraction(6, 5) if int(report) == x else Fraction(-1, 10)

    wrong = wrong_with(twin_with(probability=probability))
    assert wrong["probabilities"] == "the probabilities of all reports from 0 add up to 1"


@quickly
def test_probabilities_that_do_not_add_up_though_floats_say_the_same():
    class Twin(RandomizedResponseChannel):
        def probability(self, x, report):
            return super().probability(x, report) * (Fraction(999, 1000) if x == 1 else 1)

        def log_likelihood(self, column):
            return super().log_likelihood(column) + np.log([1, 0.999, 1])

    wrong = wrong_with(Twin.for_epsilon)
    assert wrong["probabilities"] == "the probabilities of all reports from 1 add up to 0.999"


@quickly
@pytest.mark.parametrize(("factor", "off"), [(3, "2"), (0.5, "0.5"), (0, "1"), (1 + 1e-7, "1e-07")])
def test_the_chance_of_one_report_that_floats_say_otherwise(factor, off):
    """It is off by a share of what it is."""

    def log_likelihood(self, column):
        found = RandomizedResponseChannel.log_likelihood(self, column)
        with np.errstate(divide="ignore"):
            found[2, 1] += np.log(factor)
        return found

    wrong = wrong_with(twin_with(log_likelihood=log_likelihood))
    assert wrong == {"probabilities": f"`log_likelihood`, in some report, is off by {off}"}


@quickly
def test_a_chance_of_what_cannot_be_sent():
    class Twin(TableChannel):
        def log_likelihood(self, column):
            found = super().log_likelihood(column)
            assert (found[2] == -np.inf).all()
            found[2] = np.log([0.25, 0.0625])
            return found

    third = WORD // 3
    never = (WORD - third, third, 0), (third, WORD - third, 0)
    wrong = wrong_with(lambda size, epsilon: Twin.of(never), sizes=(2,))
    assert wrong == {"probabilities": "`log_likelihood`, in some report, is off by 0.25"}


@quickly
@pytest.mark.parametrize("units", [-1, 0, 9, 11])
def test_a_ratio_is_stated_to_one_part_in_2_to_the_40(units):
    """Less is never right, and more only as far as fractions are shortened."""
    stated = 1 + Fraction(units, 10 << 40)

    def ratio(self, x, other):
        return RandomizedResponse.ratio(self, x, other) * stated

    made = twin_drawing(ratio=ratio)
    wrong = wrong_with(lambda size, epsilon: made(size, epsilon / 2))
    if units in (0, 9):
        assert not wrong
    else:
        assert list(wrong) == ["loss within the metric"]
        assert wrong["loss within the metric"] == "loss of 0 and 1: 0.5, not 0.5 as stated"


@quickly
def test_a_report_that_tells_for_certain_and_one_that_nobody_sends():
    certain = wrong_with(lambda size, epsilon: TableChannel.of(((WORD, 0), (0, WORD))), sizes=(2,))
    assert certain == {
        "loss within the metric": "a report of 0 or 1 can come from one of them only",
        # There are no random words.
        "sample": "the second half of the reports used the random words of the first",
    }
    third = WORD // 3
    never = [[WORD - third, third, 0], [third, WORD - third, 0]]
    assert not wrong_with(lambda size, epsilon: TableChannel.of(never), sizes=(2,))


@quickly
def test_a_promise_that_is_broken_by_the_last_unit_is_told_in_enough_digits():
    def twin(size, epsilon):
        return RandomizedResponseChannel(RandomizedResponse(size, keep_for(size, epsilon) + 1))

    told = wrong_with(twin)["loss within the metric"]
    ratio, allowed = (part.split()[-1] for part in told.split(", more than "))
    assert told.startswith("the likelihood ratio of 0 and 1 is 2.71828182845904523")
    assert Fraction(ratio) > Fraction(allowed)
    assert abs(Fraction(allowed) - exp_bounds(Fraction(1))[1]) < Fraction(1, 10**18)


@quickly
@pytest.mark.parametrize(("less", "holds"), [(1e-7, False), (1e-9, True)])
def test_an_output_range_is_right_up_to_rounding(less, holds):
    def output_range(self, function):
        low, high = ResponseMoments.output_range(self, function)
        return (low, high - less * abs(high)) if high > 1 else (low, high)

    wrong = wrong_with(twin_with(output_range=output_range))
    said = "an estimate of one report is outside of `output_range`"
    assert wrong == ({} if holds else {"no bias": said})


@quickly
def test_a_decoder_of_one_function_alone_that_is_off():
    """The constant 1, each single value, and functions of no kind: each of them is looked at."""

    def off_where(chosen):
        def coefficients(self, functions):
            found = ResponseMoments.coefficients(self, functions)
            return found + 0.01 * np.array([chosen(f) for f in functions]).reshape(-1, 1)

        return wrong_with(twin_with(coefficients=coefficients, output_range=lambda *_: (-1e3, 1e3)))

    for chosen in (
        lambda f: np.ptp(f) == 0,
        lambda f: f.tolist() == [0, 0, 1],
        lambda f: f.tolist() == [1, 0, 0],
        lambda f: f.min() < 0,
    ):
        assert off_where(chosen)["no bias"].startswith("the mean of a decoder is off by 0.0")


@quickly
@pytest.mark.parametrize("part", [0, 1])
def test_a_moment_or_its_decoder_that_is_off(part):
    def second_moment_estimator(self, functions, others):
        found = list(ResponseMoments.second_moment_estimator(self, functions, others))
        found[part] = found[part] + [[0], [0.5]]
        return tuple(found)

    wrong = wrong_with(twin_with(second_moment_estimator=second_moment_estimator))
    what = "the mean of a decoded moment" if part else "a second moment"
    assert list(wrong) == ["second moments"]
    assert wrong["second moments"].startswith(f"{what} is off by 0.")


def off(method, by):
    """The same method with something added to what it finds."""

    def changed(self, *given):
        kind = ResponseMoments if method in OF_MOMENTS else RandomizedResponseChannel
        return getattr(kind, method)(self, *given) + by

    return {method: changed}


def levels(self, coefficients):
    found = RandomizedResponseChannel.levels(self, coefficients)
    return replace(found, table=found.table + 0.5)


def later_totals(self, column, codes, count):
    found = RandomizedResponseChannel.totals(self, column, codes, count)
    found[:, 1:] += 1
    return found


@quickly
@pytest.mark.parametrize(
    ("methods", "what"),
    [
        (off("values", 0.5), "`values`"),
        ({"levels": levels}, "`levels`"),
        (off("totals", 1), "`totals`"),
        ({"totals": later_totals}, "`totals`"),
        (off("frequencies", 0.5), "`frequencies`"),
    ],
    ids=["values", "levels", "totals", "later totals", "frequencies"],
)
def test_features_that_are_read_in_two_ways(methods, what):
    wrong = wrong_with(twin_with(**methods))
    assert wrong["features"].startswith(f"{what} is off by ")
    assert set(wrong) <= {"features", "no bias", "second moments"}


@quickly
def test_pairs_may_be_told_apart_differently_if_nobody_says_that_they_are_alike():
    """And no warning is given of coins that are seeded for a check."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = check_mechanism(mechanism("geometric"), sizes=(4,), epsilons=(1.0,))
    assert found.holds, str(found)


@quickly
def test_a_report_that_only_one_of_two_can_send_among_others():
    rows = ((WORD // 2, WORD // 2, 0), (WORD // 2, WORD // 4, WORD // 4))
    wrong = wrong_with(lambda size, epsilon: TableChannel.of(rows), sizes=(2,))
    assert wrong["loss within the metric"] == "a report of 0 or 1 can come from one of them only"


@quickly
@pytest.mark.parametrize("side", [0, 1])
def test_an_output_range_has_to_hold_all_reports(side):
    def output_range(self, function):
        ends = list(ResponseMoments.output_range(self, function))
        ends[side] = function.mean()
        return tuple(ends)

    assert list(wrong_with(twin_with(output_range=output_range))) == ["no bias"]


@quickly
def test_a_moment_of_two_different_functions_that_is_off():
    """Right for one function by itself, wrong for two."""

    def second_moment_estimator(self, functions, others):
        moment, decoder = ResponseMoments.second_moment_estimator(self, functions, others)
        alike = (functions == others).all(axis=1, keepdims=True)
        return moment + 0.5 * ~alike, decoder

    wrong = wrong_with(twin_with(second_moment_estimator=second_moment_estimator))
    assert wrong["second moments"].startswith("a second moment is off by ")


def test_numbers_are_apart_by_a_share_of_the_largest_or_of_one():
    apart = conformance._apart
    assert apart([1e6 + 1e-3, 1], [1e6, 1], "it") == ""
    assert apart([1e6 + 1, 1], [1e6, 1], "it") == "it is off by 1e-06"
    assert apart([1.5e-8], [0.0], "it") == "it is off by 1.5e-08"
    assert apart([0.9e-8], [0.0], "it") == ""


@quickly
def test_a_channel_that_has_no_levels_needs_none():
    assert not wrong_with(twin_with(levels=lambda self, coefficients: None))


def field_with(**methods):
    made = type("Field", (Number,), methods)
    return twin_with(field=property(lambda self: made(self.outputs)))


@quickly
@pytest.mark.parametrize(
    ("methods", "says"),
    [
        (
            {"invalid": lambda self, column: column == 2},
            "a report that can be sent is called invalid",
        ),
        (
            {"pack": lambda self, column: Number.pack(self, column)[:, :1]},
            "packed reports have the shape (3, 1)",
        ),
        (
            {"unpack": lambda self, bits: Number.unpack(self, bits) ^ 1},
            "reports change on the way to bits and back",
        ),
    ],
    ids=["invalid", "pack", "unpack"],
)
def test_a_field_that_does_not_hold_its_reports(methods, says):
    assert wrong_with(field_with(**methods))["bits"] == says


@quickly
@pytest.mark.parametrize(
    "error", [InvalidSpecError, ZeroDivisionError, KeyError, TypeError, ValueError]
)
def test_a_check_that_breaks_off_is_a_failure(error):
    def fail(self, totals):
        raise error("no such thing")

    wrong = wrong_with(twin_with(frequencies=fail))
    assert list(wrong) == ["features"]
    assert wrong["features"].startswith(f"{error.__name__}: ")
    assert "no such thing" in wrong["features"]


def test_reports_that_nobody_can_send():
    def sample(self, positions, randomness):
        column = RandomizedResponseChannel.sample(self, positions, randomness)
        column[np.flatnonzero(positions == 1)[:1]] = 3
        return column

    def draw(self, position, words):
        return 3 if position == 2 else RandomizedResponse.draw(self, position, words)

    wrong = wrong_with(twin_drawing(sample, draw=draw))
    assert wrong == {
        "sample": "position 1 sent a report of probability 0",
        "draw": "position 2 sent a report of probability 0",
    }

    def beyond(self, position, words):
        drawn = RandomizedResponse.draw(self, position, words)
        return drawn + 4 * (position == drawn == 1)  # some of the reports of one position

    wrong = wrong_with(twin_drawing(draw=beyond))
    assert wrong == {"draw": "position 1 sent a report beyond its 2 bits"}


def test_a_report_without_weight_is_not_sent_even_once():
    third = WORD // 3

    class Twin(TableChannel):
        def sample(self, positions, randomness):
            column = TableChannel.sample(self, positions, randomness)
            column[np.flatnonzero(positions == 1)[:2]] = 2
            return column

    honest = TableChannel.of([[WORD - third, third, 0], [third, WORD - third, 0]])
    wrong = wrong_with(lambda size, epsilon: Twin(honest.distribution), sizes=(2,))
    assert wrong == {"sample": "position 1 sent report 2 2 times of 10,000, expected are 0"}


def test_counts_are_refused_just_where_chance_is_below_the_stated_false_alarm():
    """Counts as they are made to be; five positions with five reports each, so 25 times 2 tails.

    The chance of k or more of n, or of k or fewer, is at most exp(-n KL(k/n, p)).
    """
    n, keep = conformance.DRAWS, keep_for(5, Fraction(1))
    p = keep / WORD

    def bound(k):
        share = k / n
        tail = share * math.log(share / p) + (1 - share) * math.log((1 - share) / (1 - p))
        return 50 * math.exp(-n * tail)

    most = min(k for k in range(int(n * p), n) if bound(k) < conformance.FALSE_ALARM)
    least = max(k for k in range(1, int(n * p)) if bound(k) < conformance.FALSE_ALARM)
    for kept, holds in ((most, False), (most - 1, True), (least, False), (least + 1, True)):

        def sample(self, positions, randomness, kept=kept):
            column = positions.copy()
            for x in range(5):
                here = np.flatnonzero(positions == x)
                moved = (x + 1 + np.arange(n - kept) % 4) % 5
                column[here[kept:n]] = moved[: len(here[kept:n])]
                again = here[n : 2 * n - kept]  # other people than in the first half
                column[again] = moved[: len(again)]
            return column.astype(np.uint8)

        wrong = wrong_with(twin_with(sample=sample), sizes=(5,))
        says = f"position 0 sent report 0 {kept} times of 10,000, expected are {n * p:.0f}"
        assert wrong == ({} if holds else {"sample": says})


def with_reports(count):
    """A mechanism of two positions with so many reports."""

    def many(size, epsilon):
        row = [WORD // count] * count
        row[0] += WORD - sum(row)
        return TableChannel.of([row, [row[-1] + row[0] // 4, *row[1:-1], row[0] - row[0] // 4]])

    return check_mechanism(mechanism_of("many", many, ANY_TWO), sizes=(2,), epsilons=(1.0,))


def test_up_to_4096_reports_are_listed(monkeypatch):
    monkeypatch.setattr(conformance, "_CHECKS", {"bits": conformance._CHECKS["bits"]})
    assert [finding.what for finding in with_reports(1 << 12).findings] == ["bits"]


def test_more_than_4096_reports_are_not_listed():
    (finding,) = with_reports((1 << 12) + 1).findings
    assert finding.what == conformance.SKIPPED
    assert finding.holds
    assert finding.detail == "13 bits are too many to be listed"


@quickly
def test_cases_that_are_skipped_spoil_nothing():
    found = check_mechanism(mechanism("unary-optimised"), sizes=(2, 30), epsilons=(1.0,))
    assert found.holds
    assert "skipped" in {finding.what for finding in found.findings}
    assert len(found.findings) == 10


@quickly
def test_which_cases_are_checked_and_what_is_printed():
    found = check_mechanism(mechanism("randomized-response"))
    cases = list(dict.fromkeys(finding.case for finding in found.findings))
    assert cases == [
        f"{size} positions, epsilon {epsilon}, uniform"
        for size in (2, 3, 5)
        for epsilon in ("0.1", "1", "3")
    ]
    lines = str(found).splitlines()
    assert lines[0].split() == ["check", "cases"]
    assert lines[1].split() == ["probabilities", "9"]
    assert [line.split()[-1] for line in lines[1:-1]] == ["9"] * 9
    assert lines[-1] == "randomized-response: all 81 checks hold"
    assert all(
        finding.case.endswith("line")
        for finding in check_mechanism(mechanism("geometric"), sizes=(2,), epsilons=(1.0,)).findings
    )
    more = check_mechanism(
        mechanism("randomized-response"), sizes=(2,), epsilons=(1.0,), metrics=[Uniform, Line]
    )
    assert {finding.case.split()[-1] for finding in more.findings} == {"uniform", "line"}
    twin = check_mechanism(
        mechanism_of("twin", twin_with(frequencies=lambda self, totals: totals), ANY_TWO)
    )
    lines = str(twin).splitlines()
    assert lines[0].split() == ["case", "check"]
    assert lines[1].startswith(
        "2 positions, epsilon 0.1, uniform  features  `frequencies` is off by "
    )
    assert lines[-1] == "twin: 9 of 81 checks are BROKEN"
