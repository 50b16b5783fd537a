"""Attributes that are blurred together, in surveys: files, reports, proofs, ledgers, commands."""

import itertools
import json
import math
import pickle
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from checks import assert_counts, every_report_of
from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    Integer,
    InvalidReportError,
    InvalidSpecError,
    InvalidValueError,
    Lp,
    Ordinal,
    QueryError,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.cli.main import main
from metricldp.lab.compare import APART, OWN, REFITTED, SAME, compare, compared, taking_part
from metricldp.lab.crowd import Crowd, Questions
from metricldp.lab.peers.hio import HadamardBoxes
from metricldp.lab.peers.hio_hashing import HashedBoxes
from metricldp.lab.peers.joint import Hio, PlanarLaplace
from metricldp.mechanisms import additive_search
from metricldp.mechanisms.search_cache import CACHE
from metricldp.metrics import Uniform
from metricldp.reports import bytes as packed
from metricldp.reports.arrow import column_of
from metricldp.survey.explain import factor
from metricldp_core.device import Device
from metricldp_core.exact import at_most_exp
from metricldp_core.random_words import Words
from vectors import report_of


def line(size, epsilon=1.0, **more):
    return Integer(0, size - 1, epsilon=epsilon, **{"per": 1, **more})


BOTH = ("east", "north")
PLACE = {"east": line(4, 0.5), "age": line(6, 0.3), "north": line(3, 0.5)}
HOWS = {
    "planar": "planar-laplace",
    "trees": {"name": "hio", "branching": 2},
    "consistent": {"name": "hio", "branching": 3, "consistent": True},
    "hashed": {"name": "hio-hashing", "branching": 2},
}
SURVEYS = {
    name: Survey.design(SurveySpec(PLACE, joint={BOTH: how}, metric=Lp(2)))
    for name, how in HOWS.items()
}
SURVEYS["two"] = Survey.design(
    SurveySpec(
        {
            **PLACE,
            "level": Ordinal(["low", "middle", "high"], epsilon=2),
            "colour": Categorical(["red", "blue"], epsilon=1),
            "w": Weight(0, 5),
            "share": Continuous(0, 1, bins=4, epsilon=1, per=0.5),
        },
        joint={BOTH: "planar-laplace", ("level", "colour", "share"): "hio"},
    )
)
each = pytest.mark.parametrize("survey", SURVEYS.values(), ids=SURVEYS)


def some_people(survey, n=300, seed=2):
    rng = np.random.default_rng(seed)
    found = {}
    for name, attribute in survey.attributes.items():
        if attribute.named:
            names = [attribute.name_of(k) for k in range(attribute.size)]
            found[name] = rng.choice(names, n).tolist()
        elif attribute.kind == "integer":
            found[name] = rng.integers(0, attribute.size, n)
        else:
            found[name] = rng.uniform(attribute.low, attribute.high, n)
    return found


# Files and fingerprints --------------------------------------------------------------------------


@each
def test_round_trips(survey, tmp_path):
    assert Survey.from_toml(survey.to_toml()) == survey
    assert Survey.from_json(survey.to_json()) == survey
    assert pickle.loads(pickle.dumps(survey)) == survey
    for suffix in ("toml", "json"):
        survey.save(tmp_path / f"survey.{suffix}")
        again = Survey.load(tmp_path / f"survey.{suffix}", fingerprint=survey.fingerprint)
        assert again.manifest() == survey.manifest()
        assert {n: b.mechanism for n, b in again.blocks.items()} == {
            n: b.mechanism for n, b in survey.blocks.items()
        }
    assert list(survey.to_dict()["groups"]) == list(survey.blocks)
    assert all(f'[groups."{name}"' in survey.to_toml() for name in survey.blocks)


def test_groups_of_a_survey_file():
    text = SURVEYS["consistent"].to_toml()
    rest = text[: text.index("[groups")]
    group = '[groups."east+north"]\nmechanism = {name = "hio", branching = 3, consistent = true}\n'
    assert Survey.from_toml(rest + group) == SURVEYS["consistent"]
    short = Survey.from_toml(f'{rest}[groups."east+north"]\nmechanism = "hio"\n')
    assert short.mechanisms["east"] == Hio(branching=5)
    assert short.mechanisms["age"].name == "additive"


def test_fingerprints_tell_blocks_apart():
    alone = Survey.design(SurveySpec(PLACE, metric=Lp(2)))
    others = [
        alone,
        *SURVEYS.values(),
        Survey.design(SurveySpec(PLACE, joint={BOTH: "planar-laplace"})),
        Survey.design(
            SurveySpec(
                {**PLACE, "east": line(4, 0.4)}, joint={BOTH: "planar-laplace"}, metric=Lp(2)
            )
        ),
        Survey.design(SurveySpec(PLACE, joint={("east", "age"): "planar-laplace"}, metric=Lp(2))),
        Survey.design(
            SurveySpec(PLACE, joint={BOTH: {"name": "hio", "branching": 3}}, metric=Lp(2))
        ),
    ]
    # Two of them differ in the weights of the estimator alone: devices cannot tell.
    assert len({survey.fingerprint for survey in others}) == len(others) - 1
    assert others[-1] == SURVEYS["consistent"]
    same = Survey.design(SurveySpec(PLACE, joint={BOTH[::-1]: PlanarLaplace()}, metric=Lp(2)))
    assert same == SURVEYS["planar"]
    blocks = {("level", "colour", "share"): "hio", BOTH: "planar-laplace"}
    assert Survey.design(SurveySpec(SURVEYS["two"].attributes, joint=blocks)) == SURVEYS["two"]


@each
def test_a_survey_knows_its_blocks(survey):
    for name, block in survey.blocks.items():
        assert name == "+".join(block.names)
        for attribute in block.names:
            assert survey.block_of(attribute) is block
            assert survey.mechanisms[attribute] is block.mechanism
            assert attribute not in survey.channels
    assert survey.block_of("age") is None
    assert survey.parts == len(survey.channels) + len(survey.blocks)
    assert survey.report_bits == sum(field.bits for field in survey.fields.values())


# Refusals ----------------------------------------------------------------------------------------

ODD = {
    "x": line(3),
    "y": line(3),
    "z": line(3, mechanism="threshold"),
    "w": Weight(0, 1),
    "hidden": Weight(0, 1, private=True, epsilon=1),
    "real": Continuous(0, 1, points=3, epsilon=1, rounding="stochastic", per=1),
    "open": Continuous(0, 1, bins="auto", epsilon=1, per=1),
    "said": Categorical(["a", "b"], epsilon=1),
}
KINDS = "integer, continuous, ordinal and categorical attributes can be in a group"


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        ("east", "joint= is a list of sets of attributes, such as"),
        (["east"], "each of two attributes or more, not 'east'"),
        ([[["east"], "north"]], "each of two attributes or more, not"),
        ([{"east": 1}], "each of two attributes or more, not"),
        ([BOTH, BOTH], "'east', 'north' are named twice in joint=; leave one out"),
        ({"xy": "hio"}, "each of two attributes or more, not 'xy'"),
        ({("x",): "hio"}, "each of two attributes or more, not"),
        ({frozenset("xy"): "hio"}, "each of two attributes or more, not"),
        ({("x", "Y"): "hio"}, "joint= names 'Y'; the survey has 'x'"),
        ({("x", 3): "hio"}, "joint= names 3; the survey has"),
        ({("x", "x"): "hio"}, "x is named twice in joint=; it can be in one group only"),
        ({("x", "y"): "hio", ("y", "said"): "hio"}, "y is named twice in joint="),
        (
            {("x", "y"): "threshold"},
            "mechanism 'threshold' randomizes one attribute; name it there",
        ),
        (
            {("x", "y"): "auto"},
            "no mechanism 'auto'; choose additive, tight-constraints, extremal or a plug-in",
        ),
        (
            {("x", "y"): "planar"},
            "choose additive, tight-constraints, extremal or a plug-in; did you mean "
            "'planar-laplace'",
        ),
        (
            {("x", "y"): None},
            "there is no mechanism None; choose additive, tight-constraints, extremal",
        ),
        ({("x", "y"): {"branching": 3}}, "a mechanism is a name or a table with a name"),
        ({("x", "y"): {"name": "hio", "fanout": 3}}, "mechanism 'hio' has no entry 'fanout'"),
        ({("x", "y"): {"name": "hio", "branching": 0}}, "whole number of at least 2, not 0"),
        ({("x", "y"): {"name": "hio", "consistent": 1}}, "consistent is true or false, not 1"),
        ({("x", "y"): {"name": "planar-laplace", "cells": 3}}, "'planar-laplace' .*'cells'"),
        ({("x", "w"): "hio"}, f"x, w: w is weight; {KINDS}"),
        ({("x", "hidden"): "hio"}, f"x, hidden: hidden is weight; {KINDS}"),
        ({("x", "real"): "hio"}, f"x, real: real is rounded at random; {KINDS}"),
        ({("x", "open"): "hio"}, "x, open: state the number of bins of open"),
        ({("x", "z"): "hio"}, "x, z: z has a mechanism of its own, 'threshold'; remove it"),
        ({("x", "said"): "planar-laplace"}, "x, said: planar Laplace noise is for distances"),
    ],
)
def test_refused(joint, message):
    with pytest.raises(InvalidSpecError, match=message) as refused:
        Survey.design(SurveySpec(ODD, joint=joint))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("p", [2.001, 3, math.inf])
def test_norms_that_a_block_cannot_keep(p):
    with pytest.raises(
        InvalidSpecError, match="x, y: a survey with joint attributes has a norm with p"
    ):
        Survey.design(
            SurveySpec({"x": line(3), "y": line(3)}, joint={("x", "y"): "hio"}, metric=Lp(p))
        )


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"attributes": ["east", "north"]}, r"joint is a list of tables \[\[joint\]\], not"),
        (["east"], "has attributes and a mechanism, not 'east'"),
        ([{"mechanism": "hio"}], "has attributes and a mechanism, not"),
        ([{"attributes": BOTH, "mechanism": "hio", "p": 2}], "has attributes and a mechanism"),
        ([{"attributes": "east", "mechanism": "hio"}], "is a list of names, not 'east'"),
        ([{"attributes": ["east", 3], "mechanism": "hio"}], "is a list of names, not"),
        ([{"attributes": [], "mechanism": "hio"}], "each of two attributes or more"),
        ([{"attributes": list(BOTH), "mechanism": "hio"}] * 2, "two tables .* are about"),
    ],
)
def test_groups_that_a_spec_file_cannot_have(tables, message):
    data = {**SurveySpec(PLACE).to_dict(), "joint": json.loads(json.dumps(tables))}
    with pytest.raises(InvalidSpecError, match=message) as refused:
        SurveySpec.from_dict(data)
    assert "\n" not in str(refused.value)


HIO = {"mechanism": "hio"}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["east", "north"]], r'groups is a table \[groups."x\+y"\], not'),
        ({"east": HIO}, "names its attributes, not 'east'"),
        ({"east+north": "hio"}, "names its attributes, not 'east\\+north'"),
        ({"east+north": {**HIO, "p": 2}}, "group east\\+north has no entry 'p'"),
        ({"east+north+west": HIO}, "names attributes of the survey in their order: 'east', 'age'"),
        ({"north+east": HIO}, "group north\\+east names attributes of the survey in their order"),
        ({"east+north+": HIO}, "group east\\+north\\+ names attributes"),
        ({"east+east+north": HIO}, "group east\\+east\\+north names attributes"),
        ({"east+age+north": HIO}, "attribute age: distribution: leave it out"),
        ({"east+north": {}}, "group east\\+north is not designed; write a spec"),
    ],
)
def test_groups_that_a_survey_file_cannot_have(groups, message):
    data = {**SURVEYS["planar"].to_dict(), "groups": groups}
    with pytest.raises(InvalidSpecError, match=message) as refused:
        Survey.from_json(json.dumps(data))
    assert "\n" not in str(refused.value)


def test_a_mechanism_for_several_is_refused_for_one():
    with pytest.raises(
        InvalidSpecError, match=r"attribute a: .*'hio' randomizes several .*in joint="
    ):
        Survey.design({"a": line(3, mechanism="hio")})


# Reports -----------------------------------------------------------------------------------------


@each
def test_reports_as_tables_bytes_and_files(survey, tmp_path):
    table = survey.randomize(some_people(survey), randomness=Randomness.seeded(6))
    assert table.column_names == [column_of(name) for name in survey.fields]
    blobs = packed.pack(survey, table)
    assert {len(blob) for blob in blobs} == {packed.packed_size(survey)}
    assert packed.unpack(survey, blobs).equals(table)
    assert survey.tally(blobs) == survey.tally(table)
    survey.tally(table).save(tmp_path / "reports.parquet")
    assert survey.tally(tmp_path / "reports.parquet") == survey.tally(table)
    other = Survey.design(SurveySpec(PLACE, joint={BOTH: "hio"}))
    with pytest.raises(InvalidReportError, match="belong to another survey") as refused:
        other.tally(table)
    assert refused.value.reason == "survey"


@pytest.mark.parametrize(
    ("name", "columns"), [("planar", BOTH), ("trees", (*BOTH, "east+north=sign"))]
)
def test_impossible_reports_are_refused(name, columns):
    survey = SURVEYS[name]
    table = survey.randomize(some_people(survey, 3), randomness=Randomness.seeded(7))
    assert {column_of(name) for name in columns} < set(table.column_names)
    for part in columns:
        column = column_of(part)
        place = table.column_names.index(column)
        wrong = np.array([0, survey.fields[part].outputs, 0], dtype=np.uint8)
        changed = table.set_column(place, table.schema.field(place), [wrong])
        with pytest.raises(
            InvalidReportError, match=f"report 2 has .* column {re.escape(repr(column))}"
        ):
            survey.tally(changed)


@each
def test_values_are_refused_before_a_coin_is_drawn(survey):
    people = some_people(survey, 3)
    with pytest.raises(InvalidValueError, match="north in row 2"):
        survey.randomize({**people, "north": [1, 7, 0]})
    assert survey.randomize({**people, "north": [1, 7, 0]}, clip=True).num_rows == 3
    person = {name: column[0] for name, column in people.items()}
    with pytest.raises(InvalidValueError, match="north"):
        survey.report({**person, "north": -1})
    del person["north"]
    with pytest.raises(InvalidValueError, match="the response has no value for 'north'"):
        survey.report(person)


TINY = {
    name: Survey.design(
        SurveySpec(
            {"x": line(2, 0.8), "told": Categorical(["no", "yes"], epsilon=1), "y": line(2)},
            joint={("x", "y"): how},
        )
    )
    for name, how in HOWS.items()
    if name != "hashed"  # it has 8,000 reports; its own sampler is tested with the peers
}


@pytest.mark.parametrize("survey", TINY.values(), ids=TINY)
def test_devices_and_tables_have_one_law(survey):
    """Both samplers against the exact law of whole reports: a false alarm of 1e-9 each."""
    table, laws = every_report_of(survey)
    known, n, device = packed.pack(survey, table), 4000, Device(survey.client_manifest)
    assert len(set(known)) == len(known)
    for row, x in enumerate(itertools.product((0, 1), ("no", "yes"), (0, 1))):
        person = dict(zip(survey.attributes, x, strict=True))
        many = {name: [value] * n for name, value in person.items()}
        words = Words(Randomness.seeded(50 + row).draw)
        for drawn in (
            Counter(packed.pack(survey, survey.randomize(many, randomness=Randomness.seeded(row)))),
            Counter(report_of(device, person, words) for _ in range(n)),
        ):
            assert set(drawn) <= set(known)
            assert_counts([drawn[blob] for blob in known], laws[row], false_alarm=1e-9)


# Proofs ------------------------------------------------------------------------------------------


def with_channel(survey, channel, name=None):
    """A copy of the survey with another channel behind a block's back."""
    copy = Survey.from_dict(survey.to_dict())
    block = copy.blocks[name or next(iter(copy.blocks))]
    object.__setattr__(block, "channel", channel)
    return copy


@each
def test_blocks_are_certified_beside_attributes(survey):
    certificate = survey.certify()
    assert certificate.holds
    blocks = [", ".join(block.names) for block in survey.blocks.values()]
    assert {proof.attribute for proof in certificate.proofs} == {*survey.channels, *blocks}
    assert [proof.core.name for proof in certificate.proofs] == [
        field.name for field in survey.client_manifest.fields if field.metric is not None
    ]
    assert json.loads(json.dumps(certificate.to_dict()))["holds"] is True
    for block in survey.blocks.values():
        assert f"{', '.join(block.names)}  " in str(certificate)


@pytest.mark.parametrize("name", ["trees", "consistent"])
@pytest.mark.parametrize("off", [1 << 40, -(1 << 40)])
def test_a_sign_that_is_kept_a_little_too_often_is_not_certified(name, off):
    """By 2^-24; kept less often it tells people apart less."""
    survey = SURVEYS[name]
    honest = next(iter(survey.blocks.values())).channel
    broken = HadamardBoxes(honest.sizes, honest.branchings, honest.keep + off, honest.consistent)
    certificate = with_channel(survey, broken).certify()
    assert certificate.holds == (off < 0)
    assert ("BROKEN" in str(certificate)) == (off > 0)


def test_a_hash_that_is_kept_a_little_too_often_is_not_certified():
    survey = SURVEYS["hashed"]
    honest = next(iter(survey.blocks.values())).channel
    oracle = type(honest.oracle)(
        honest.oracle.size, honest.oracle.buckets, honest.oracle.keep + (1 << 40)
    )
    broken = HashedBoxes(honest.sizes, honest.branchings, oracle)
    assert not with_channel(survey, broken).certify().holds


@dataclass(frozen=True)
class Boastful(Hio):
    """States that it guarantees the largest distance of any attribute."""

    def distribution(self, problem, effort, progress):
        metric = self.proved_metric(problem.metric, None)
        return super().distribution(replace(problem, metric=metric), effort, progress)

    def proved_metric(self, metric, distribution):
        sides = zip(metric.metrics, metric.sizes, strict=True)
        return Uniform(max(own.smallest(size) for own, size in sides))


@dataclass(frozen=True)
class Adding(PlanarLaplace):
    """Has more than the distance in the plane, and states it."""

    def distribution(self, problem, effort, progress):
        metric = problem.metric.scaled(Fraction(7, 5))
        return super().distribution(replace(problem, metric=metric), effort, progress)

    def proved_metric(self, metric, distribution):
        return super().proved_metric(metric.scaled(Fraction(3, 2)), distribution)


def test_mechanism_that_states_more_than_the_survey_allows_is_not_certified():
    """Its reports are within the distance that it states, which is above that of the survey."""
    place = {"x": line(3, 0.5), "y": line(3, 1.0)}
    for mechanism in (Boastful(), Adding()):
        survey = Survey.design(SurveySpec(place, joint={("x", "y"): mechanism}, metric=Lp(2)))
        certificate = survey.certify()
        (proof,) = certificate.proofs
        (block,) = survey.blocks.values()
        for pair in proof.core.pairs:
            stated = block.metric.distance(pair.x, pair.other)
            assert at_most_exp(pair.ratio, stated)
            assert pair.limit.epsilon < stated
        assert not certificate.holds
    assert Survey.design(SurveySpec(place, joint={("x", "y"): "hio"}, metric=Lp(2))).certify().holds


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_every_two_people_are_within_the_norm(p):
    """All pairs of a survey with a block and an attribute beside it, by their exact losses."""
    attributes = {"x": line(2, 0.5), "a": line(3, 0.4), "y": line(3, 0.7)}
    for how in ("planar-laplace", "hio", "hio-hashing"):
        survey = Survey.design(SurveySpec(attributes, joint={("x", "y"): how}, metric=Lp(p)))
        channel = survey.blocks["x+y"].channel
        people = list(itertools.product(range(2), range(3), range(3)))
        for one, two in itertools.combinations(people, 2):
            ratio = channel.distribution.ratio(3 * one[0] + one[2], 3 * two[0] + two[2])
            ratio *= survey.channels["a"].distribution.ratio(one[1], two[1])
            apart = [
                a.distances.distance(*ends)
                for a, *ends in zip(attributes.values(), one, two, strict=True)
            ]
            assert math.log(ratio) <= survey.metric.join([float(d) for d in apart]) + 1e-12


# Ledgers -----------------------------------------------------------------------------------------


def test_a_ledger_counts_a_block_once():
    ledger = Accountant()
    ledger.add(SURVEYS["trees"], "trees")
    share = SURVEYS["trees"].share
    assert ledger.spent("east", 0, 3) == Fraction(1, 2) * share
    assert ledger.spent("north", 0, 1) == Fraction(1, 2) * share
    age = Fraction(3, 10) * 5 * share
    assert ledger.together == Fraction(1, 2) * share + age
    ledger.add(SURVEYS["planar"], "plane")
    assert ledger.spent("east", 0, 3) == (Fraction(1, 2) + Fraction(3, 2)) * share
    corner = math.hypot(1.5, 1.0) * float(share)
    assert float(ledger.together) == pytest.approx(0.5 * float(share) + corner + 2 * float(age))
    ledger.add(Survey.design(PLACE), "alone", names={"age": "years"})
    assert ledger.spent("east", 0, 3) == 2 * share + Fraction(3, 2)
    alone = 1.5 + 1.5 + 1.0
    expected = 0.5 * float(share) + corner + 2 * float(age) + alone
    assert float(ledger.together) == pytest.approx(expected)
    assert "attributes of a joint mechanism count together in the total" in str(ledger)
    assert Accountant.from_dict(ledger.to_dict()) == ledger
    assert all(isinstance(SURVEYS["trees"].blocks["east+north"].margin(n), Uniform) for n in BOTH)


# Words -------------------------------------------------------------------------------------------


def test_explanations_name_joint_attributes():
    explanation = SURVEYS["planar"].explain()
    text = " ".join(str(explanation).split())
    assert "east: whole numbers from 0 to 3; mechanism planar-laplace, jointly with north" in text
    corner = factor(13**0.5 / 2 * float(SURVEYS["planar"].share))
    assert f"jointly by planar-laplace A report is at most {corner} times" in text
    step = factor(0.5 * float(SURVEYS["planar"].share))
    assert f"{step} times as likely for one east as for another within 1" in text
    details = " ".join(SURVEYS["two"].explain().details().split())
    assert "guarantees more than the metric: epsilon 0.5 for any two values" in details
    entries = {e["attribute"]: e for e in SURVEYS["two"].explain(n=10).to_dict()["attributes"]}
    assert entries["level"]["jointly_with"] == ["colour", "share"]
    assert entries["age"]["jointly_with"] == []
    assert all(entry["expected_error"]["poisoning"] > 0 for entry in entries.values())


# Totals ------------------------------------------------------------------------------------------


def test_totals_are_kept_of_attributes_blurred_alone():
    survey = SURVEYS["planar"]
    table = survey.randomize(some_people(survey), randomness=Randomness.seeded(6))
    for keep in ([("east",)], [("age", "north")]):
        with pytest.raises(
            QueryError, match="is a joint attribute, which needs the reports themselves"
        ) as wrong:
            survey.tally(table, keep=keep)
        assert "\n" not in str(wrong.value)
    totals, whole = survey.tally(table, keep=[("age",)]), survey.tally(table)
    assert totals.count({"age": (1, 3)}).value == pytest.approx(whole.count({"age": (1, 3)}).value)
    for ask in (
        lambda t: t.count({"east": 1}),
        lambda t: t.count({"east": 1, "age": 2}),
        lambda t: t.histogram("age", {"north": 1}),
        lambda t: t.histogram("north"),
        lambda t: t.mean("east"),
    ):
        with pytest.raises(
            QueryError, match=r"east\+north are joint attributes, which need the reports"
        ):
            ask(totals)


@pytest.mark.parametrize("layout", ["cells", "prefix", "reports"])
def test_layouts_beside_a_block(layout):
    survey = SURVEYS["trees"]
    table = survey.randomize(some_people(survey), randomness=Randomness.seeded(6))
    tally, usual = survey.tally(table, layout=layout), survey.tally(table)
    for where, found in (
        ({"age": 2}, layout),
        ({"east": 1}, "reports"),
        ({"east": 1, "age": 2}, "reports"),
    ):
        answer = tally.count(where)
        assert answer.layout == found
        assert answer.value == pytest.approx(usual.count(where).value)
        assert answer.stderr == pytest.approx(usual.count(where).stderr)


# Commands ----------------------------------------------------------------------------------------


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey = SURVEYS["two"]
    survey.save("survey.toml")
    pc.write_csv(pa.table(some_people(survey)), "people.csv")
    return survey


def run(capsys, *words):
    with mock.patch.object(sys, "argv", ["metricldp", *words]), pytest.raises(SystemExit) as left:
        main()
    printed = capsys.readouterr()
    return left.value.code, printed.out, printed.err


def test_the_command_line(at_work, capsys):
    code, out, _ = run(capsys, "certify", "survey.toml")
    assert code == 0
    assert "east, north" in out
    assert "level, colour, share" in out
    assert "certified: every pair of values is within its distance" in out
    assert run(capsys, "randomize", "survey.toml", "people.csv", "-o", "reports.parquet")[0] == 0
    tally = at_work.tally("reports.parquet")
    levels = {"level": ["low", "middle"]}
    for words, expected in (
        (("count", "1 <= east <= 2 and age <= 3"), tally.count({"east": (1, 2), "age": (0, 3)})),
        (
            ("fraction", "colour == 'red' and north == 1"),
            tally.fraction({"colour": "red", "north": 1}),
        ),
        (("sum", "w", "level in ['low', 'middle']"), tally.sum("w", levels)),
        (("sum", "north", "colour == 'red'"), tally.sum("north", {"colour": "red"})),
        (("mean", "east"), tally.mean("east")),
        (("histogram", "north", "level == 'low'"), tally.histogram("north", {"level": "low"})),
        (("workload", "level", "--matrix", "prefixes"), tally.workload("level", "prefixes")),
        (("cdf", "east"), tally.cdf("east")),
    ):
        asked = ["query", words[0], "survey.toml", "reports.parquet", *words[1:]]
        code, out, err = run(capsys, *asked, "--json")
        assert (code, err) == (0, "")
        rows = json.loads(out)["rows"]
        values = expected.values if hasattr(expected, "values") else [expected.value]
        assert [row["estimate"] for row in rows] == pytest.approx(list(values))
        assert run(capsys, *asked)[0] == 0
    quantile = ("query", "quantile", "survey.toml", "reports.parquet", "north", "--q", "0.5")
    assert run(capsys, *quantile)[0] == 0
    code, out, _ = run(capsys, "explain", "survey.toml")
    assert "mechanism planar-laplace, jointly with north" in out


def test_mistakes_in_a_survey_file_are_one_line(at_work, capsys):
    text = at_work.to_toml().replace('"planar-laplace"', '"planar"')
    Path("wrong.toml").write_text(text)
    code, out, err = run(capsys, "certify", "wrong.toml")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "wrong.toml: there is no mechanism 'planar'; choose additive, tight-constraints" in err


# Comparisons -------------------------------------------------------------------------------------


def test_a_survey_with_a_block_is_compared_as_it_is(tmp_path):
    """Its own errors are those that it predicts for these very people, also beside its block."""
    survey = Survey.design(
        SurveySpec(
            {**PLACE, "c": Categorical(["p", "q"], epsilon=1)}, joint={BOTH: "planar-laplace"}
        )
    )
    people = some_people(survey, 200)
    pc.write_csv(pa.table(people), tmp_path / "people.csv")
    found = compare(survey, tmp_path / "people.csv", queries=4, repetitions=4)
    own = {row.about: row for row in found.rows if row.group == OWN}
    assert {"east", "age", "north", "c"} < set(own)
    assert own["east"].mechanism == "planar-laplace"
    assert (own["east"].step, own["age"].step) == (0.5, pytest.approx(0.3))
    assert own["east"].width == pytest.approx(math.hypot(1.5, 1.0))
    assert {own[about].title for about in ("east", "north")} == {"planar Laplace noise"}
    assert all(row.exact > 0 and row.simulated is not None for row in own.values())
    joined = next((row for about, row in own.items() if " x " in about and "age" in about), None)
    assert joined is None or "+" in joined.mechanism


@pytest.mark.parametrize("metric", ["plane", "sum"])
def test_a_comparison_tells_both_promises_of_a_table(tmp_path, metric):
    """In a plane two channels promise less than the table; not where distances add up."""
    kinds = {name: Integer(0, 3, epsilon=1, within=1) for name in BOTH}
    survey = Survey.design(SurveySpec(kinds, joint={BOTH: {"name": "extremal", "metric": metric}}))
    pc.write_csv(pa.table(some_people(survey, 50)), tmp_path / "people.csv")
    found = compare(survey, tmp_path / "people.csv", queries=2, repetitions=2)
    groups = {row.group for row in found.rows}
    assert (APART in groups, SAME in groups) == (metric == "plane", metric == "sum")
    both = "at most epsilon 5 for any two respondents. Mechanisms of one attribute each have 3 + 3"
    assert (both in str(found)) == (metric == "plane")
    assert ("at most epsilon 3 + 3 = 6 for any two respondents. HIO" in str(found)) == (
        metric == "sum"
    )


def test_a_block_is_compared_with_the_same_noise_apart(tmp_path, monkeypatch):
    """And is not searched for again, where the survey has one of its own."""
    kinds = {name: Integer(0, 17, epsilon=1, within=3) for name in BOTH}
    monkeypatch.setattr(additive_search, "MOVES", 20)
    monkeypatch.setattr(CACHE, "enabled", False)
    for joint in (None, [BOTH]):
        survey = Survey.design(SurveySpec(kinds, joint=joint))
        pc.write_csv(pa.table(some_people(survey, 150)), tmp_path / "people.csv")
        found = compare(survey, tmp_path / "people.csv", queries=2, repetitions=2)
        rows = [row for row in found.rows if row.about == " x ".join(BOTH)]
        shaped = [row for row in rows if row.mechanism == "additive" and row.width == 12]
        titles = [row.title for row in shaped if row.group != REFITTED]
        assert titles == [
            "additive noise",
            "additive noise" if joint else "additive noise over cells",
        ]
        assert {"HDG, epsilon in all", "PriPL-Trees, HDG's grids, D times epsilon"} < {
            row.title for row in rows
        }


def test_a_block_stays_together_in_a_comparison():
    survey = SURVEYS["two"]
    sizes = {name: survey.attributes[name].size for name in (*BOTH, "age")}
    rng = np.random.default_rng(3)
    positions = {name: rng.integers(0, size, 100) for name, size in sizes.items()}
    crowd = Crowd({name: survey.attributes[name] for name in positions}, positions)
    for names in (("east",), ("age", "north"), BOTH):
        attributes = {name: survey.attributes[name] for name in names}
        asked = Questions.draw(attributes, 5, np.random.default_rng(2))
        group, entry = next(taking_part(attributes, survey))
        assert group == OWN
        assert set(entry.survey.attributes) == {*names, *BOTH}
        variances = entry.variances(crowd.only(list(entry.survey.attributes)), asked)
        shares = np.zeros([sizes[name] for name in sizes if name in names])
        order = [name for name in sizes if name in names]
        np.add.at(shares, tuple(positions[name] for name in order), 1)
        alone = Survey.design(SurveySpec(entry.survey.attributes, joint={BOTH: "planar-laplace"}))
        for where, variance in zip(asked.wheres(), variances, strict=True):
            cut = {n: m for n, m in where.items() if m != (0, sizes[n] - 1)}
            if len(cut) == len(names):
                by_survey = [n for n in alone.attributes if n in names]
                prior = np.transpose(shares, [order.index(n) for n in by_survey])
                expected = alone.expected_error(where, n=100, prior=prior).stderr
                assert math.sqrt(variance) == pytest.approx(expected, rel=1e-9)


def test_large_attributes_leave_their_block_out_of_a_comparison():
    survey = Survey.design(
        SurveySpec({"x": line(5000), "y": line(3), "a": line(4)}, joint={("x", "y"): "hio"})
    )
    kept, notes = compared(survey)
    assert list(kept) == ["a"]
    assert [note.split(",")[0] for note in notes] == [
        "x is left out: it has 5",
        "y is left out: x has 5",
    ]


def test_attributes_may_be_named_without_a_mechanism():
    """In a list, in a table without one, or as a list in a file: additive noise."""
    attributes = {"x": line(3), "y": line(3)}
    said = Survey.design(SurveySpec(attributes, joint={("x", "y"): "additive"}))
    assert Survey.design(SurveySpec(attributes, joint=[["x", "y"]])) == said
    data = SurveySpec(attributes).to_dict()
    for entry in (["x", "y"], {"attributes": ["x", "y"]}):
        assert Survey.design(SurveySpec.from_dict({**data, "joint": [entry]})) == said
