"""`check_channel` passes what is right and refuses every broken twin."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from checks import MECHANISMS
from metricldp import CertificateError, Coins, Integer, Survey, SurveyError
from metricldp.basics.exact import ONE
from metricldp.channels import Geometric, Response
from metricldp.channels.conformance import check_channel
from metricldp.channels.mechanism import ANY_TWO, Simple
from metricldp.channels.table import Table
from metricldp.coins.tape import Tape
from metricldp.design.registry import mechanism
from metricldp.metrics import Uniform
from metricldp.survey.certify import prove

SLOW = ("matrix", "prefix", "histogram-sum")
"""Long noise has so many reports that only the shortest cases can be listed."""


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_conforms(name):
    sizes, epsilons = ((2,), (3.0,)) if name in SLOW else ((2, 3, 5), (0.1, 3.0))
    found = check_channel(mechanism(name), sizes=sizes, epsilons=epsilons)
    assert found.holds, str(found)
    assert sum(finding.what != "skipped" for finding in found.findings) >= 8


@pytest.mark.parametrize("given", [lambda size, epsilon: None, "geometric", Response(3, ONE // 2)])
def test_what_is_no_mechanism_is_refused(given):
    with pytest.raises(SurveyError, match="check_channel checks a mechanism, such as") as wrong:
        check_channel(given)
    assert "\n" not in str(wrong.value)


def broken(what, channel):
    """What is found wrong with a channel that does not follow from its epsilon."""
    made = Simple("twin", channel, ANY_TWO)
    found = check_channel(made, sizes=(3,), epsilons=(1.0,))
    assert not found.holds
    assert "BROKEN" in str(found)
    assert what in {finding.what for finding in found.failures}, str(found)


def test_more_is_kept_than_epsilon_allows():
    def twin(size, epsilon):
        honest = Response.for_epsilon(size, epsilon)
        return replace(honest, keep=honest.keep + (1 << 30))

    broken("loss within the metric", twin)


class Twin(Response):
    """Randomized response with one thing wrong at a time."""


def twin_with(**methods):
    made = type("Twin", (Response,), methods)
    return lambda size, epsilon: made(size, Response.for_epsilon(size, epsilon).keep)


def test_a_ratio_that_is_understated():
    broken("loss within the metric", twin_with(worst_ratio=lambda self, x, other: Fraction(1)))


def test_a_decoder_that_is_off():
    def coefficients(self, functions):
        return 1.01 * Response.coefficients(self, functions)

    broken("no bias", twin_with(coefficients=coefficients))


def test_a_moment_that_is_off():
    def mean(self, values):
        return Response.mean(self, values) + 0.01

    broken("second moments", twin_with(mean=mean))


def test_cells_that_are_not_the_transpose():
    broken("features", twin_with(cells=lambda self, totals: totals))


def test_a_sampler_that_keeps_too_often():
    def encode(self, positions, coins):
        honest = Response.encode(self, positions, coins)
        return np.where(coins.words(len(positions)) < ONE // 8, positions, honest).astype(np.uint8)

    broken("encode", twin_with(encode=encode))


def test_a_device_that_keeps_too_often():
    def blur(self, position, tape):
        drawn = Response.blur(self, position, tape)
        return position if tape.toss(ONE // 8) else drawn

    broken("blur", twin_with(blur=blur))


def test_a_probability_that_is_off():
    def probability(self, x, report):
        return Response.probability(self, x, report) * Fraction(999, 1000)

    broken("probabilities", twin_with(probability=probability))


def test_a_channel_that_cannot_be_made_is_told():
    def refuse(size, epsilon):
        return Table.of([[1, 2], [3, 4]])

    broken("made", refuse)


def test_tables_of_weights():
    honest = Geometric.for_epsilon(4, Fraction(1))
    weights = [[int(honest.probability(x, y) * ONE) for y in range(4)] for x in range(4)]
    for x, row in enumerate(weights):
        row[x] += ONE - sum(row)
    table = Table.of(weights)
    functions = np.random.default_rng(1).normal(size=(2, 4))
    np.testing.assert_allclose(
        table.coefficients(functions), honest.coefficients(functions), rtol=1e-9
    )
    np.testing.assert_allclose(table.moment(functions), honest.moment(functions), rtol=1e-9)


def test_more_reports_than_positions():
    """The decoder is unbiased, and costs less than one that reads half of the reports."""

    def twice(size, epsilon):
        rows = []
        for row in Table.of([[ONE - ONE // 4, ONE // 4], [ONE // 4, ONE - ONE // 4]]).weights:
            rows.append([weight // 2 for weight in row for _ in (0, 1)])
        return Table.of(rows)

    made = Simple("twice", twice, ANY_TWO)
    found = check_channel(made, sizes=(2,), epsilons=(2.0,))
    assert found.holds, str(found)


def test_a_survey_refuses_a_mechanism_from_elsewhere_that_breaks_its_metric():
    def blunt(size, epsilon):
        return Response.for_epsilon(size, 3 * epsilon)

    with pytest.raises(SurveyError, match="tells 0 from 1 better than the metric allows"):
        Survey({"v": Integer(0, 4, epsilon=1, mechanism=Simple("blunt", blunt, ANY_TWO))})


@pytest.mark.parametrize("name", ["geometric", "matrix", "unary", ""])
def test_a_mechanism_of_ones_own_has_a_name_of_its_own(name):
    made = Simple(name, Response.for_epsilon, ANY_TWO)
    with pytest.raises(SurveyError, match="needs a name of its own"):
        Survey({"v": Integer(0, 4, epsilon=1, mechanism=made)})


def test_a_device_that_sends_more_bits_than_its_field():
    def blur(self, position, tape):
        return Response.blur(self, position, tape) | position << self.bits

    broken("blur", twin_with(blur=blur))


def test_a_device_refuses_a_report_beyond_its_field():
    leaky = twin_with(
        blur=lambda self, position, tape: Response.blur(self, position, tape) | 1 << self.bits
    )
    made = Simple("leaky", leaky, ANY_TWO)
    survey = Survey({"v": Integer(0, 4, epsilon=1, mechanism=made)})
    with pytest.raises(CertificateError, match="beyond its field"):
        survey.report({"v": 2})


def test_an_encoder_that_blurs_the_first_person_for_everybody():
    def encode(self, positions, coins):
        return Response.encode(self, np.full(len(positions), positions[0]), coins)

    broken("encode", twin_with(encode=encode))


def test_an_encoder_that_uses_its_coins_twice():
    def encode(self, positions, coins):
        half = len(positions) // 2
        first = Response.encode(self, np.zeros(half, dtype=int), coins)
        moved = np.concatenate([first, first])
        return ((moved + positions) % self.size).astype(np.uint8)

    broken("encode", twin_with(encode=encode))


def test_an_influence_that_is_too_small():
    broken("no bias", twin_with(influence=lambda self, function: 0.1))


def test_a_false_word_that_all_pairs_are_alike():
    made = type("Twin", (Geometric,), {"same_ratio_for_all_pairs": True})

    def twin(size, epsilon):
        honest = Geometric.for_epsilon(size, epsilon / 4)
        return made(honest.size, honest.epsilon, honest.noise)

    broken("loss within the metric", twin)


def test_nothing_checked_does_not_hold():
    found = check_channel(mechanism("unary-optimised"), sizes=(30,), epsilons=(1.0,))
    assert not found.holds
    assert "nothing was checked" in str(found)


@pytest.mark.parametrize(
    "weights",
    [
        [[ONE // 4, ONE - ONE // 4, 0], [ONE - ONE // 4, ONE // 4, 0]],
        [[0, ONE // 4, ONE - ONE // 4], [0, ONE - ONE // 4, ONE // 4]],
        [[ONE // 4, 0, ONE - ONE // 4], [ONE - ONE // 4, 0, ONE // 4]],
    ],
    ids=["last", "first", "inner"],
)
def test_reports_without_weight_are_never_drawn(weights):
    table = Table.of(weights)
    drawn = table.encode(np.arange(2000) % 2, Coins.seeded(1))
    assert {int(y) for y in drawn} == {y for y in range(3) if weights[0][y]}
    lone = {table.blur(0, Tape(Coins.seeded(2))) for _ in range(50)}
    assert lone <= {y for y in range(3) if weights[0][y]}


def test_a_table_that_tells_for_certain_is_not_certified():
    table = Table.of([[ONE, 0], [0, ONE]])
    (pair,) = prove(table, Uniform(Fraction(1)))
    assert not pair.holds
    assert pair.loss > 1000
