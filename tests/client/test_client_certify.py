"""The proof on the device says what Python's says, and notices a threshold that is one unit off."""

import json
from dataclasses import replace

import pytest
from browsers import chromium, node, served
from facts import surveys

from metricldp import (
    Categorical,
    Continuous,
    Graph,
    Integer,
    Lp,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
)
from metricldp.channels.geometric import Geometric
from metricldp.channels.matrix import MatrixChannel
from metricldp.channels.mixture import Mixture
from metricldp.channels.response import Response
from metricldp.channels.shaped import Shaped, levels
from metricldp.channels.table import Table
from metricldp.channels.threshold import Threshold
from metricldp.channels.unary import UnaryChannel
from metricldp.reports.manifest import manifest
from metricldp.survey.certify import prove
from metricldp_core.exact import WORD, at_most_exp


def proved(texts, tmp_path):
    path = tmp_path / "manifests.json"
    path.write_text(json.dumps(texts), "utf-8")
    return node("certify_node.js", path)


def more_metrics(mechanism="condensed"):
    """What the facts have not: capped and cyclic metrics of many kinds."""
    how = {"mechanism": mechanism}
    names = [f"c{k}" for k in range(9)]
    tree = Tree({"one": names[:4], "two": names[4:]}, {"two": 3})
    for attribute in (
        Categorical(names, epsilon=1, metric=tree, **how),
        Categorical(names, epsilon=1, metric=SensitiveSet(names[2:4]), **how),
        Continuous(edges=[0, 1, 2, 5, 9, 20], epsilon=1, per=3, max_epsilon=2, **how),
        Continuous(0, 1, bins=12, epsilon=1, within=0.3, **how),
        Continuous(0, 1, points=6, epsilon=2, per=1, max_epsilon=1, **how, rounding="stochastic"),
        Continuous(0, 1, points=6, epsilon=1, within=0.5, **how, rounding="stochastic"),
        Integer(0, 11, epsilon=0.5, per=1, cyclic=True, max_epsilon=2, **how),
        Integer(0, 11, epsilon=0.5, within=2.5, **how),
    ):
        yield Survey.design({"x": attribute})


def searched():
    """Those that are found by a search, which takes a while."""
    yield from more_metrics("auto")
    both = {
        "x": Integer(0, 5, epsilon=0.5, per=1),
        "y": Integer(0, 4, epsilon=1, max_epsilon=2, per=1),
    }
    yield Survey.design(SurveySpec(both, joint=[["x", "y"]]))
    how = {"name": "additive", "workload": "ranges", "metric": "plane", "max_epsilon": 2}
    plane = {"x": Integer(0, 5, epsilon=0.5, per=1), "y": Integer(0, 4, epsilon=1, per=1)}
    yield Survey.design(SurveySpec(plane, joint={("x", "y"): how}))
    yield Survey.design(
        SurveySpec({"x": Integer(0, 9, epsilon=1, per=1), "y": both["y"]}, metric=Lp(2))
    )


def test_it_agrees_with_python(tmp_path):
    agree([*surveys(), *more_metrics()], tmp_path)


@pytest.mark.slow
def test_it_agrees_in_chromium(tmp_path):
    asked = [*surveys(), *more_metrics()]
    texts = [manifest(survey) for survey in asked]
    texts += [text for _, text, _ in variants(asked)]
    with served() as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/clients/js/package.json")
        call = "async (texts) => (await import('/tests/client/check.js')).certified(texts)"
        found = page.evaluate(call, texts)
    told = proved(texts, tmp_path)
    assert [(one["holds"], one["lines"]) for one in found] == [
        (one["holds"], one["lines"]) for one in told
    ]
    assert {one["holds"] for one in found} == {True, False}


@pytest.mark.slow
def test_it_agrees_on_what_was_searched(tmp_path):
    asked = list(searched())
    agree(asked, tmp_path)
    assert_noticed(list(variants(asked)), tmp_path)


def agree(asked, tmp_path):
    found = proved([manifest(survey) for survey in asked], tmp_path)
    for survey, told in zip(asked, found, strict=True):
        certificate = survey.certify()
        assert told["holds"] is certificate.holds is True, told
        lines = dict(line.split(": ", 1) for line in told["lines"])
        assert list(lines) == [field["name"] for field in json.loads(manifest(survey))["fields"]]
        for proof in certificate.proofs:
            said = lines[proof.attribute.replace(", ", "+")]
            loss = float(said.split()[1].rstrip(","))
            assert said.endswith("holds")
            assert loss >= proof.tightest.loss - 1e-8 * max(1, loss)  # exact, or a bound of it
    assert max(told["ms"] for told in found) < 2_000


FEW = 1_000
"""A level is rounded up to a whole number, which hides a unit of the factor between levels."""


def changed(channel):
    """The channel with one of its integers one unit off, either way."""
    for by in (-1, 1):
        if isinstance(channel, Threshold):
            yield replace(channel, flip=channel.flip + by)
        elif isinstance(channel, Response):
            yield replace(channel, keep=channel.keep + by)
        elif isinstance(channel, Geometric):
            for noise in changed_noise(channel.noise, by):
                yield replace(channel, noise=noise)
        elif isinstance(channel, MatrixChannel):
            for noise in changed_noise(channel.noises[0].noise, by):
                rows = replace(channel.noises[0], noise=noise), *channel.noises[1:]
                yield replace(channel, noises=rows)
        elif isinstance(channel, UnaryChannel):
            yield replace(channel, own=(channel.own[0] + by, *channel.own[1:]))
            yield replace(channel, other=(*channel.other[:-1], channel.other[-1] + by))
        elif isinstance(channel, Mixture):
            yield with_tops(channel, (channel.tops[0] + by, *channel.tops[1:]))
            yield with_tops(replace(channel, fall=channel.fall + FEW * by), channel.tops)
        elif isinstance(channel, Table):
            first = channel.weights[0]
            row = (first[0] + by, first[1] - by, *first[2:])
            yield replace(channel, weights=(row, *channel.weights[1:]))
        elif isinstance(channel, Shaped):
            yield replace(channel, fall=channel.fall + FEW * by)
            yield replace(channel, tops=(channel.tops[0] + by, *channel.tops[1:]))


def changed_noise(noise, by):
    yield replace(noise, zero=noise.zero + by)
    yield replace(noise, block=noise.block + by)
    if noise.digits:
        yield replace(noise, digits=(noise.digits[0] + by, *noise.digits[1:]))


def with_tops(channel, tops):
    columns = [
        [levels(top, channel.fall, max(shape))[depth] for depth in shape]
        for top, shape in zip(tops, channel.depths, strict=True)
    ]
    rows = list(zip(*columns, strict=True))
    return replace(channel, tops=tops, weights=tuple((*row, WORD - sum(row)) for row in rows))


def variants(asked):
    """Laws with one integer off: the text for the client, and whether Python proves it."""
    for survey in asked:
        for name, channel in survey.channels.items():
            for other in changed(channel):
                holds = all(pair.holds for pair in prove(other, survey.kept[name]))
                yield (
                    channel.distribution.to_data()["law"],
                    with_law(survey, name, other.distribution.to_data()),
                    holds,
                )
        for block in survey.blocks.values():
            grid = block.mechanism.grid
            for one in changed(block.channel.one):
                other = replace(block.channel, one=one)
                holds = all(
                    at_most_exp(
                        other.distribution.ratio(grid.cell(x), grid.cell(y)), grid.distance(x, y)
                    )
                    for x, y in other.proving_pairs(grid)
                )
                yield "cells", with_law(survey, block.name, other.distribution.to_data()), holds


def with_law(survey, name, law):
    data = json.loads(manifest(survey))
    next(field for field in data["fields"] if field["name"] == name)["law"] = law
    return json.dumps(data)


BOUNDED = {"geometric", "matrix"}
"""Judged before clipping: the proof may refuse what holds by a hair, never the other way round."""


def test_one_unit_is_noticed(tmp_path):
    found = list(variants([*surveys(), *more_metrics()]))
    refused = assert_noticed(found, tmp_path)
    assert refused >= {"threshold", "geometric", "response", "unary", "matrix", "table"}
    assert refused >= {"shaped", "shapes", "cells"}
    assert any(holds for _, _, holds in found)  # the other way round a unit costs nothing


def assert_noticed(found, tmp_path):
    """The laws of which at least one change is refused, by Python and by the client."""
    told = proved([text for _, text, _ in found], tmp_path)
    for (law, text, python), said in zip(found, told, strict=True):
        assert said["holds"] <= python, (law, text)  # what is broken is refused
        assert law in BOUNDED or said["holds"] is python, (law, text)
        assert any("BROKEN" in line for line in said["lines"]) is not said["holds"]
    return {law for law, _, holds in found if not holds}


@pytest.mark.parametrize("share", ["999/5000", "1/6"])
def test_a_promise_of_less_is_refused(tmp_path, share):
    survey = Survey.design({"x": Integer(0, 99, epsilon=1, per=5, mechanism="geometric")})
    text = manifest(survey)
    less = text.replace('"step":"1/5"', f'"step":"{share}"')
    good, bad = proved([text, less], tmp_path)
    assert good["holds"] and not bad["holds"]


def test_a_promise_that_leaves_values_out_is_refused(tmp_path):
    """Pairs of a graph that do not lead everywhere promise nothing of the rest."""
    edges = [("a", "b"), ("a", "c"), ("c", "d", 2)]
    attribute = Categorical(list("abcd"), epsilon=1, metric=Graph(edges), mechanism="unary")
    data = json.loads(manifest(Survey.design({"x": attribute})))
    texts = [json.dumps(data)]
    metric = data["fields"][0]["metric"]
    for at in range(3):
        less = {key: metric[key][:at] + metric[key][at + 1 :] for key in ("pairs", "steps")}
        data["fields"][0]["metric"] = metric | less
        texts.append(json.dumps(data))
    assert [told["holds"] for told in proved(texts, tmp_path)] == [True, False, False, False]


def test_absurd_integers_are_refused(tmp_path):
    """Signs turned round, certain coins, a report that only one value can send."""
    cases = [
        ("threshold", {"flip": "0000000000000000"}),
        ("threshold", {"flip": "ffffffffffffffff"}),
        ("randomized-response", {"keep": "ffffffffffffffff"}),
        ("randomized-response", {"keep": "0000000000000000"}),
        ("geometric", {"zero": "ffffffffffffffff"}),
        ("geometric", {"zero": "0000000000000000"}),
        ("geometric", {"block": "0000000000000000"}),
        ("unary", {"other": ["0000000000000000"] * 4}),
        ("unary", {"own": ["0000000000000000"] * 4}),
    ]
    texts = []
    for mechanism, change in cases:
        survey = Survey.design({"x": Integer(0, 3, epsilon=1, mechanism=mechanism, per=1)})
        law = survey.channels["x"].distribution.to_data() | change
        texts.append(with_law(survey, "x", law))
    assert [told["holds"] for told in proved(texts, tmp_path)] == [False] * len(cases)


def test_a_table_that_is_no_law_is_refused(tmp_path):
    """Rows that do not add up to 1, or fall below 0, are not what is drawn."""
    survey = Survey.design({"x": Integer(0, 1, epsilon=1, mechanism="condensed", per=1)})
    law = {"law": "table", "size": 2}

    def of(*rows):
        weights = [[f"{int(share * 2**64):016x}" for share in row] for row in rows]
        return with_law(survey, "x", law | {"weights": weights})

    shapes = {"law": "shapes", "size": 2, "depths": [[0, 1], [1, 0]], "fall": "b000000000000000"}
    over = with_law(survey, "x", shapes | {"tops": ["a000000000000000", "9000000000000000"]})
    texts = [
        of([0.5, 0.5], [0.25, 0.75]),
        of([1, 1], [0.75, 0.75]),  # the first always sends 0
        of([0.5, 0.5], [0.375, 0.375]),  # the second sometimes sends what nobody else does
        of([1.5, 0.5], [1.25, 0.75]),
        over,
    ]
    assert [told["holds"] for told in proved(texts, tmp_path)] == [True, *[False] * 4]


@pytest.mark.parametrize("mechanism", ["threshold", "geometric", "randomized-response", "unary"])
def test_a_proof_of_fewer_values_than_can_be_answered_is_refused(tmp_path, mechanism):
    """The size that a law states is that of the question; else pairs are left out of the proof."""
    texts = []
    for size in (4, 3, 1, None):
        survey = Survey.design({"x": Integer(0, 3, epsilon=1, mechanism=mechanism, per=1)})
        law = survey.channels["x"].distribution.to_data() | {"size": size}
        texts.append(with_law(survey, "x", law))
    good, *bad = texts
    assert proved([good], tmp_path)[0]["holds"]
    for text in bad:
        try:
            assert not proved([text], tmp_path)[0]["holds"]
        except AssertionError as refused:
            assert "Error" in str(refused)  # some are not even opened


def test_rows_of_a_matrix_that_end_early_are_refused(tmp_path):
    survey = Survey.design({"x": Integer(0, 3, epsilon=1, mechanism="condensed", per=1)})
    row = (
        Survey.design({"x": Integer(0, 1, epsilon=0.5, mechanism="geometric", per=1)})
        .channels["x"]
        .distribution.to_data()
    )
    law = {"law": "matrix", "size": 4, "rows": [row | {"low": 0, "runs": [0, 2, 1, 2]}]}
    early = {**law, "rows": [law["rows"][0] | {"runs": [0, 2]}]}
    texts = [with_law(survey, "x", one) for one in (law, early)]
    for text in range(2):
        data = json.loads(texts[text])
        data["bytes"] = 18
        texts[text] = json.dumps(data)
    assert [told["holds"] for told in proved(texts, tmp_path)] == [True, False]
