"""The contest: exact errors against enumeration, simulations against them, and what is compared."""

import csv
import json
import math
import re
import sys
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from checks import mechanism_of, squared_errors_p_value
from metricldp import (
    Categorical,
    Continuous,
    Graph,
    Integer,
    InvalidSpecError,
    Lp,
    Matrix,
    Ordinal,
    QueryError,
    Randomness,
    SensitiveSet,
    Survey,
    SurveySpec,
    Weight,
)
from metricldp.answers.predict import predicted
from metricldp.answers.queries import Query
from metricldp.answers.tally import Tally
from metricldp.cli import main as cli
from metricldp.lab import contest
from metricldp.lab.compare import (
    FITTED,
    LOOSE,
    OWN,
    POST,
    REFITTED,
    SAME,
    compare,
    compared,
    joint_sets,
    taking_part,
)
from metricldp.lab.contest import (
    Contender,
    Entry,
    everybody,
    in_table_2,
    spread_out,
)
from metricldp.lab.crowd import Crowd, Questions, _contracted
from metricldp.lab.fitted import fitted, post_processed, refitted
from metricldp.lab.peers.reconstruct import expectation_maximisation
from metricldp.mechanisms import RandomizedResponseChannel, registry
from metricldp.mechanisms.base import ANY_TWO, PER_STEP
from metricldp.reports.encode import encode
from metricldp.survey.certify import certify

AGE = Integer(0, 9, epsilon=1, per=1)
CONTENDERS = in_table_2()


def entries(attributes, contenders=CONTENDERS):
    return contest.entries(attributes, contenders)


def crowd_of(attributes, n=300, seed=5):
    rng = np.random.default_rng(seed)
    return Crowd(attributes, {name: rng.integers(0, a.size, n) for name, a in attributes.items()})


def entry_of(mechanism, attributes):
    return next(c for c in CONTENDERS if c.mechanism == mechanism).enter(attributes)


# Who takes part


def test_contenders_are_told_apart():
    titles = [c.title for c in everybody()]
    assert len(set(titles)) == len(titles)
    assert {c.promise for c in CONTENDERS} == {PER_STEP, ANY_TWO}


def test_everybody_takes_part_but_who_is_not_compared():
    known = {m.name for m in registry.every_mechanism() if not m.joint}
    there = {c.mechanism for c in everybody() if not c.mechanism.startswith("hio")}
    assert known - there == {"matrix", "memoised", "threshold-dummy"}
    assert set(in_table_2()) < set(everybody())


def test_a_plug_in_takes_part_by_itself(monkeypatch):
    """Whatever is installed is compared; table 2 stays as it is."""
    before = in_table_2()
    new = mechanism_of(
        "blurry", RandomizedResponseChannel.for_epsilon, ANY_TWO, title="blurry response"
    )
    monkeypatch.setattr(contest, "every_mechanism", lambda: [new])
    everybody.cache_clear()
    try:
        found = [c.title for c in everybody() if c not in before]
        assert found[:2] == ["additive noise over cells", "blurry response"]
    finally:
        everybody.cache_clear()
    assert in_table_2() == before


def test_who_is_not_there_is_skipped():
    nobody = Contender("telepathy", "telepathy", ANY_TWO, "nobody")
    with pytest.raises(InvalidSpecError, match="there is no mechanism 'telepathy'"):
        nobody.enter({"age": AGE})
    found = [e.contender.mechanism for e in entries({"age": AGE}, [nobody, CONTENDERS[0]])]
    assert found == ["geometric"]
    few = replace(CONTENDERS[0], most=5)
    with pytest.raises(InvalidSpecError, match="age has more than 5 positions"):
        few.enter({"age": AGE})


STEEP = Graph([("a", "b", 0.1), ("b", "c", 5), ("c", "d", 5), ("d", "e", 5)])
LETTERS = list("abcde")
PROMISES = {
    "one": {"v": Integer(0, 4, epsilon=0.75, per=1)},
    "two": {"v": Integer(0, 4, epsilon=0.75, per=1), "w": Integer(0, 4, epsilon=0.75, per=1)},
    "unequal": {"v": Integer(0, 3, epsilon=0.5, per=1), "w": Integer(0, 4, epsilon=1.25, per=1)},
    "graph": {"v": Ordinal(LETTERS, epsilon=1, metric=STEEP)},
    "sensitive": {"v": Ordinal(LETTERS, epsilon=0.5, metric=SensitiveSet(["b"]))},
    "categories": {"v": Categorical(LETTERS, epsilon=1)},
    "sensitive categories": {"v": Categorical(LETTERS, epsilon=0.5, metric=SensitiveSet(["b"]))},
    "steep categories": {"v": Categorical(LETTERS, epsilon=1, metric=STEEP)},
    "mixed": {
        "v": Ordinal(LETTERS, epsilon=1, metric=STEEP),
        "w": Categorical(["x", "y"], epsilon=2),
    },
}
OWN_METRIC = [Contender(name, name, PER_STEP, "this package") for name in ("unary", "matrix")]


def told_apart(channel, attribute):
    """The loss of the integers between neighbours, and between any two: both at the worst."""
    pairs = list(permutations(range(channel.size), 2))
    near = [p for p in pairs if abs(p[0] - p[1]) == 1 or isinstance(attribute, Categorical)]
    return [
        max(math.log(channel.distribution.ratio(*pair)) for pair in some) for some in (near, pairs)
    ]


@pytest.mark.parametrize("attributes", PROMISES.values(), ids=PROMISES)
def test_two_columns_of_privacy(attributes):
    """The stated epsilons are those of the integers in use, pair by pair."""
    for entry in entries(attributes, [*CONTENDERS, *OWN_METRIC]):
        if not entry.joint:
            channels = entry.survey.channels.items()
            losses = [told_apart(channel, attributes[name]) for name, channel in channels]
            near, far = max(loss[0] for loss in losses), sum(loss[1] for loss in losses)
        else:
            (proof,) = certify(entry.survey).proofs
            near = far = proof.tightest.loss
            if not entry.contender.plain:
                (block,) = entry.survey.blocks.values()
                ends = (0,) * len(block.sizes), tuple(size - 1 for size in block.sizes)
                near = max(pair.loss for pair in proof.core.pairs)
                far = math.log(block.channel.worst_ratio(*ends))
        assert near <= entry.step + 1e-12
        assert far <= entry.width + 1e-12
        if entry.contender.mechanism != "histogram-threshold":  # it keeps more than it promises
            assert near == pytest.approx(entry.step, abs=1e-7)
            assert far == pytest.approx(entry.width, abs=1e-7)


def joint_entries(attributes):
    """By title, with the group that each stands in."""
    found = [(g, e) for g, e in taking_part(attributes) if e.joint]
    return {(group, entry.contender.title): entry for group, entry in found}


UNEQUAL = {"v": Integer(0, 5, epsilon=0.5, per=2), "w": Integer(0, 4, epsilon=1.25, per=1)}


@pytest.mark.parametrize("oracle", ["HIO, published (OLH)", "HIO with Hadamard response"])
def test_what_is_said_to_keep_the_metric_keeps_it(oracle):
    """Every two people of a joint mechanism, by its own integers, against the survey's distance."""
    found = joint_entries(UNEQUAL)
    one = f"{oracle}, epsilon in all"
    assert [t for g, t in found if g == SAME and t.startswith(oracle)] == [one]
    smallest = min(a.distances.smallest(a.size) for a in UNEQUAL.values())
    entry = found[SAME, one]
    (proof,) = certify(entry.survey).proofs
    assert max(pair.limit.allowed for pair in proof.core.pairs) <= smallest
    assert all(pair.holds for pair in proof.core.pairs)
    assert entry.step == entry.width == pytest.approx(0.25)
    loose = {title: e.step for (group, title), e in found.items() if group == LOOSE}
    assert loose[one] == pytest.approx(0.5)
    assert loose[f"{oracle}, D times epsilon"] == pytest.approx(1.75)


def test_every_product_that_is_said_to_keep_the_metric_keeps_it():
    for attributes in ({"v": PROMISES["graph"]["v"]}, UNEQUAL, PROMISES["mixed"]):
        for group, entry in taking_part(attributes):
            if group != LOOSE and not entry.joint:
                for name, channel in entry.survey.channels.items():
                    promised = attributes[name].distances
                    for x, other in permutations(range(channel.size), 2):
                        loss = math.log(channel.distribution.ratio(x, other))
                        assert loss <= promised.distance(x, other) + 1e-12


def test_spread_out_leaves_no_stated_metric():
    for attribute in (PROMISES["graph"]["v"], PROMISES["steep categories"]["v"]):
        plain = spread_out(attribute)
        assert plain.metric is None
        assert plain.distances.smallest(5) == 1


@pytest.mark.parametrize("mechanism", ["hio", "hio-hashing"])
def test_simulated_joint_mechanisms_agree_with_the_formula(mechanism):
    """False-alarm rate 1e-9; a variance 1.5 times too large or too small is caught."""
    attributes = {"v": Integer(0, 5, epsilon=0.75, per=1), "w": Integer(0, 3, epsilon=0.75, per=1)}
    crowd, entry = crowd_of(attributes, n=400), entry_of(mechanism, attributes)
    asked = Questions.draw(attributes, 3, np.random.default_rng(6))
    errors = entry.answers(crowd, asked, 800, Randomness.seeded(12)) - crowd.truth(asked)
    for factor in (1.0, 1.5, 1 / 1.5):
        chance = squared_errors_p_value(errors, factor * entry.variances(crowd, asked))
        assert (chance > 1e-9) == (factor == 1)


def test_a_steep_metric_has_different_columns():
    """Unary tells c and d apart by 5, threshold bits no neighbours by more than 0.1."""
    unary, threshold = (
        Contender(name, name, PER_STEP, "this package").enter(PROMISES["graph"])
        for name in ("unary", "threshold")
    )
    assert unary.step == pytest.approx(5)
    assert (threshold.step, threshold.width) == (pytest.approx(0.1), pytest.approx(0.4))


def test_an_equal_meaning():
    age = spread_out(Integer(0, 99, epsilon=1, per=5))
    assert age.distances.smallest(100) == 1
    bins = spread_out(Continuous(0, 10, bins=40, epsilon=2, per=5))
    assert float(bins.distances.smallest(40)) == pytest.approx(2)
    assert spread_out(Categorical(["a", "b"], epsilon=1)) == Categorical(["a", "b"], epsilon=1)


@pytest.mark.parametrize(
    "attribute",
    [
        Integer(0, 9, epsilon=1, within=3),
        Integer(0, 23, epsilon=1, within=3, cyclic=True),
        Continuous(0, 10, bins=20, epsilon=1, within=2),
        Continuous(0, 10, edges=[0, 1, 3, 10], epsilon=1, within=2, max_epsilon=2),
        Ordinal(LETTERS, epsilon=1, per=2, max_epsilon=1.5),
        Ordinal(LETTERS, epsilon=1, metric=STEEP, max_epsilon=1.5),
    ],
    ids=repr,
)
def test_every_promise_can_be_spread_out(attribute):
    """One epsilon between any two values, whatever the survey says; never more than a cap."""
    plain = spread_out(attribute).distances
    assert plain.smallest(attribute.size) == plain.diameter(attribute.size) == 1
    capped = spread_out(replace(attribute, epsilon=2, max_epsilon=2))
    assert capped.distances.diameter(attribute.size) == 2
    low = spread_out(Integer(0, 99, epsilon=1, per=5, max_epsilon=0.5)).distances
    assert low.smallest(100) == low.diameter(100) == 0.5
    titles = [entry.contender.title for _, entry in taking_part({"v": attribute})]
    assert "Haar wavelet (HaarHRR)" in titles


# Errors


@pytest.mark.parametrize("count", [1, 2])
def test_exact_errors_are_those_of_the_survey(count):
    """`survey.error` for the people's own distribution, which is proved elsewhere."""
    attributes = {f"v{d}": AGE for d in range(count)}
    crowd, asked = crowd_of(attributes), Questions.draw(attributes, 8, np.random.default_rng(1))
    joint = np.zeros((10,) * count)
    np.add.at(joint, tuple(crowd.positions.values()), 1)
    for entry in entries(attributes):
        if not entry.joint:
            found = entry.variances(crowd, asked)
            for where, variance in zip(asked.wheres(), found, strict=True):
                cut = {k: v for k, v in where.items() if v != (0, 9)}
                if len(cut) == count:
                    expected = Survey.expected_error(
                        entry.survey, where, n=crowd.n, prior=joint
                    ).stderr
                    assert math.sqrt(variance) == pytest.approx(expected, rel=1e-9)


def test_exact_errors_of_joint_mechanisms():
    """Those of their own second moments, which are enumerated elsewhere; 0 about everybody."""
    attributes = {"a": AGE, "b": Integer(0, 4, epsilon=0.5, per=1)}
    crowd, asked = crowd_of(attributes), Questions.draw(attributes, 30, np.random.default_rng(1))
    joint = np.zeros((10, 5))
    np.add.at(joint, tuple(crowd.positions.values()), 1)
    found = [e for e in entries(attributes) if e.joint]
    assert len(found) == 5
    for entry in found:
        rows = [{name: f[k] for name, f in asked.functions.items()} for k in range(30)]
        errors = [predicted(entry.survey, Query(row, ""), crowd.n, joint) for row in rows]
        expected = np.square(errors)
        np.testing.assert_allclose(entry.variances(crowd, asked), expected, rtol=1e-9)
    whole = Questions(attributes, {"a": np.array([[0, 9]]), "b": np.array([[0, 4]])})
    for entry in found:
        assert entry.variances(crowd, whole) == [0]
        assert (entry.answers(crowd, whole, 2, Randomness.seeded(1)) == crowd.n).all()


def test_published_hio_is_far_better_at_a_large_epsilon():
    attributes = {f"v{d}": Integer(0, 15, epsilon=1, per=1) for d in range(4)}
    crowd, asked = crowd_of(attributes), Questions.draw(attributes, 20, np.random.default_rng(1))
    errors = {e.contender.title: e.variances(crowd, asked).mean() for e in entries(attributes)}
    wide = "HIO, published (OLH), D times epsilon", "HIO with Hadamard response, D times epsilon"
    assert errors[wide[0]] < errors[wide[1]] / 10
    one = "HIO, published (OLH), epsilon in all", "HIO with Hadamard response, epsilon in all"
    assert errors[one[0]] < errors[one[1]]


def test_answers_are_those_of_the_tally():
    """One repetition, the same coins: the sums of the contest against the front door."""
    for attributes in ({"a": AGE}, {"a": AGE, "b": Ordinal(["x", "y", "z"], epsilon=1)}):
        crowd, asked = crowd_of(attributes), Questions.draw(attributes, 5, np.random.default_rng(2))
        for mechanism in ("threshold", "geometric", "randomized-response"):
            entry = entry_of(mechanism, attributes)
            values = {"a": crowd.positions["a"]}
            if "b" in attributes:
                values["b"] = np.array(["x", "y", "z"])[crowd.positions["b"]]
            tally = Tally.of(
                entry.survey, encode(entry.survey, values, randomness=Randomness.seeded(7))
            )
            (mine,) = entry.answers(crowd, asked, 1, Randomness.seeded(7))
            theirs = [tally.count(where).value for where in asked.wheres()]
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_answers_of_joint_mechanisms_are_those_of_their_reports():
    attributes = {"a": AGE, "b": Integer(0, 4, epsilon=0.5, per=1)}
    crowd, asked = crowd_of(attributes), Questions.draw(attributes, 5, np.random.default_rng(2))
    for entry in entries(attributes):
        if entry.joint:
            reports = encode(entry.survey, crowd.positions, randomness=Randomness.seeded(7))
            tally = Tally.of(entry.survey, reports)
            theirs = [tally.count(where).value for where in asked.wheres()]
            (mine,) = entry.answers(crowd, asked, 1, Randomness.seeded(7))
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_repetitions_come_in_parts(monkeypatch):
    """Blurred in parts or at once, there are as many answers, about the same people."""
    crowd, asked = crowd_of({"a": AGE, "b": AGE}), None
    asked = Questions.draw(crowd.attributes, 4, np.random.default_rng(3))
    monkeypatch.setattr("metricldp.lab.contest._TOGETHER", 1000)
    found = entry_of("geometric", crowd.attributes).answers(crowd, asked, 7, Randomness.seeded(1))
    assert found.shape == (7, 4)
    assert len(np.unique(found, axis=0)) == 7


def test_true_counts_by_table_and_by_cells(monkeypatch):
    attributes = {"a": AGE, "b": Integer(0, 4, epsilon=1, per=1), "c": AGE}
    crowd, asked = crowd_of(attributes), Questions.draw(attributes, 30, np.random.default_rng(4))
    inside = np.ones((30, crowd.n))
    for name, ends in asked.ends.items():
        x = crowd.positions[name]
        inside *= (ends[:, :1] <= x) & (x <= ends[:, 1:])
    assert crowd.table is not None
    np.testing.assert_allclose(crowd.truth(asked), inside.sum(axis=1))
    monkeypatch.setattr("metricldp.lab.crowd._SMALL", 0)
    monkeypatch.setattr("metricldp.lab.crowd._AT_ONCE", 100)
    sparse = crowd_of(attributes, n=100)
    assert sparse.table is None
    np.testing.assert_allclose(sparse.truth(asked), crowd_of_table(sparse, asked))


def crowd_of_table(crowd, asked):
    counts = np.zeros((10, 5, 10))
    np.add.at(counts, tuple(crowd.positions.values()), 1)
    return _contracted(counts, list(asked.functions.values()))


def test_questions_are_the_same_relative_to_any_domain():
    small, large = (
        Questions.draw({"a": Integer(0, m - 1, epsilon=1, per=1)}, 50, np.random.default_rng(1))
        for m in (16, 64)
    )
    np.testing.assert_array_equal(small.ends["a"], large.ends["a"] // 4)
    names = Questions.draw({"a": Categorical(["x", "y"], epsilon=1)}, 9, np.random.default_rng(1))
    assert {where["a"] for where in names.wheres()} == {"x", "y"}


# The check


def checked(mechanism, *, epsilon=1.0, blurred=None, factor=1.0, count=1):
    """The p-value of a simulation; blurred with another epsilon, or a variance that is off."""
    attributes = {f"v{d}": Integer(0, 7, epsilon=epsilon, per=1) for d in range(count)}
    rng = np.random.default_rng(11)  # most people at the low end: even ones would hide a bias
    positions = {name: (8 * rng.random(4000) ** 3).astype(int) for name in attributes}
    crowd = Crowd(attributes, positions)
    asked = Questions.draw(attributes, 20, np.random.default_rng(6))
    entry = entry_of(mechanism, attributes)
    errors = None
    if blurred is None:
        errors = entry.answers(crowd, asked, 400, Randomness.seeded(12)) - crowd.truth(asked)
    else:
        other = entry_of(mechanism, {n: replace(a, epsilon=blurred) for n, a in attributes.items()})
        decoders = entry.survey.channels["v0"].moments.coefficients(asked.functions["v0"])
        totals = other.totals(crowd, "v0", 400, Randomness.seeded(12))
        errors = (decoders @ totals).T - crowd.truth(asked)
    return squared_errors_p_value(errors, factor * entry.variances(crowd, asked))


EVERYBODY = [c for c in CONTENDERS if type(c) is Contender]


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
@pytest.mark.parametrize("contender", EVERYBODY, ids=lambda c: c.mechanism)
def test_simulation_agrees_with_the_formula(contender, epsilon):
    """False-alarm rate 1e-9 for each; the seeds were chosen before looking."""
    try:
        contender.enter({"v0": Integer(0, 7, epsilon=epsilon, per=1)})
    except InvalidSpecError:
        pytest.skip("not registered")
    assert checked(contender.mechanism, epsilon=epsilon) > 1e-9


@pytest.mark.parametrize("mechanism", ["geometric", "threshold", "randomized-response"])
def test_the_check_rejects_what_is_wrong(mechanism):
    assert checked(mechanism, blurred=1.1) < 1e-9
    assert checked(mechanism, blurred=0.9) < 1e-9
    assert checked(mechanism, factor=0.6) < 1e-9
    assert checked(mechanism, factor=1.8) < 1e-9
    assert checked(mechanism, count=2) > 1e-9


def test_answers_that_are_known_have_to_be_right():
    errors = np.random.default_rng(1).normal(size=(200, 3))
    errors[:, 2] = 1e-9
    assert squared_errors_p_value(errors, np.array([1.0, 1.0, 0.0])) > 1e-9
    errors[7, 2] = 0.1
    assert squared_errors_p_value(errors, np.array([1.0, 1.0, 0.0])) == 0
    assert squared_errors_p_value(np.zeros((5, 2)), np.zeros(2)) == 1
    assert squared_errors_p_value(np.full((5, 2), 1e-12), np.zeros(2)) == 1
    assert squared_errors_p_value(np.full((5, 2), 1e-3), np.zeros(2)) == 0
    assert squared_errors_p_value(np.zeros((5, 0)), np.zeros(0)) == 1


# One's own survey


def people_file(path, n=400):
    rng = np.random.default_rng(8)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "income", "region", "extra"])
        for _ in range(n):
            rows.writerow(
                [rng.integers(0, 30), rng.uniform(0, 100), rng.choice(["north", "south"]), "x"]
            )
    return path


SURVEY = Survey.design(
    {
        "age": Integer(0, 29, epsilon=1, per=3),
        "income": Continuous(0, 100, bins=20, epsilon=1, per=20),
        "region": Categorical(["north", "south"], epsilon=1),
    }
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = people_file(tmp_path_factory.mktemp("people") / "people.csv")
    return compare(SURVEY, path, queries=10, repetitions=12)


def test_a_comparison_has_every_promise(found):
    blocks = found.blocks()
    assert list(blocks)[:3] == ["age", "income", "region"]
    assert len(blocks) == 6, "three attributes, two pairs, one set of three"
    for about, rows in blocks.items():
        assert rows[0].group == OWN
        assert [row.group for row in rows[1:]].count(OWN) == 0
        assert (LOOSE in {row.group for row in rows}) == (about != "region")
        biased = [(row.title, row.step, row.width) for row in rows if row.group == FITTED]
        alone = [(title, 1, 1) for title in ("PriPL-Tree", "Square Wave, EM", "Square Wave, EMS")]
        both = [("HDG, D times epsilon", 2, 2), ("HDG, epsilon in all", 1, 1)]
        both += [(title.replace("HDG", "PriPL-Trees, HDG's grids"), *at) for title, *at in both]
        expected = {"age": alone, "income": alone, "age x income": both}
        assert sorted(biased) == expected.get(about, [])
        used = [(row.title, row.group) for row in rows if row.group != LOOSE]
        assert (rows[0].title, SAME) not in used, "the survey is there once"
    age = {(row.mechanism, row.group): row for row in blocks["age"]}
    own = age[SURVEY.mechanisms["age"].name, OWN]
    assert (own.step, own.width) == (pytest.approx(1 / 3), pytest.approx(29 / 3))
    same, loose = (age["randomized-response", group] for group in (SAME, LOOSE))
    assert (same.step, same.width) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (loose.step, loose.width) == (1, 1)
    assert same.exact > loose.exact


def test_both_epsilons_of_hio_are_printed(found):
    for about, rows in found.blocks(5).items():
        shown = [row for row in rows if row.group == LOOSE and row.mechanism.startswith("hio")]
        epsilons = sorted({row.width for row in shown})
        count = about.count(" x ") + 1
        assert epsilons == ([1, count] if count > 1 else [])


def test_names_can_be_typed(found):
    for row in found.rows:
        if not row.mechanism.startswith(("hio", "hdg", "pripl")):
            for mechanism in row.mechanism.split(" + "):
                assert registry.mechanism(mechanism).name == mechanism
    joint = [row.mechanism for row in found.rows if row.about == "age x region"]
    assert not joint or "haar + randomized-response" in joint


@pytest.mark.parametrize(
    ("per", "words"),
    [
        (1, "age: the stated epsilon 1 is its smallest distance"),
        (40, "age: the stated epsilon 1 between any two values is not stronger than the survey"),
        (3, None),
    ],
)
def test_what_the_stated_epsilon_means_is_said(tmp_path, per, words):
    survey = Survey.design({"age": Integer(0, 29, epsilon=1, per=per)})
    found = compare(survey, people_file(tmp_path / "people.csv", 1), queries=1, repetitions=2)
    assert (words is None) == (not found.notes)
    assert words is None or words in str(found)
    assert str(found).startswith("1 person, survey")
    assert (LOOSE in {row.group for row in found.rows}) == (per != 1)


def assert_near(found, factor=1.0):
    """False-alarm rate 1e-9 for all rows together, and 1e-9 for all one by one.

    Errors are nearly normal, so a mean square over its expectation is chi-squared over its degrees
    of freedom: as many as repetitions where all questions err alike, and more where they do not.
    Every row has coins of its own; HIO and faces are simulated more rarely, and left out.
    """
    rows = [row for row in found.rows if not row.mechanism.startswith(("hio", "faces"))]
    rows = [row for row in rows if row.exact is not None]  # not biased
    ratios = [(factor * row.simulated / row.exact) ** 2 for row in rows]
    for some, alarm in ((ratios, 1e-9 / len(rows)), ([np.mean(ratios)], 1e-9)):
        degrees = found.repetitions * len(rows) // len(some)
        low, high = (end(alarm / 2, degrees) / degrees for end in (stats.chi2.ppf, stats.chi2.isf))
        assert low < min(some) <= max(some) < high


def test_a_comparison_is_exact_and_simulated(found):
    """A check that everything is scaled right."""
    assert_near(found)
    for wrong in (0.75, 1.3):
        with pytest.raises(AssertionError):
            assert_near(found, wrong)
    alone = Survey.design({"age": replace(SURVEY.attributes["age"], mechanism="threshold")})
    (row,) = (r for r in found.rows if (r.about, r.mechanism) == ("age", "threshold"))
    if row.group == SAME:
        rough = alone.expected_error({"age": (5, 12)}, n=found.people, prior="worst").stderr
        assert rough / 2 < row.exact < 2 * rough


def test_what_is_fitted_is_measured_on_everybody_without_an_exact_error(found):
    """Its errors are those of devices, reports and expectation maximisation, drawn anew here."""
    rows = [row for row in found.rows if row.group == FITTED]
    pairs = sum(about == "age x income" for about in found.blocks())
    assert len(rows) == 6 + 4 * pairs
    assert all(row.exact is None and row.simulated > 0 for row in rows)
    assert str(found).count(f"- {FITTED}:") == 2 + pairs


def test_the_surveys_own_fit_stands_below_it(found):
    for rows in found.blocks().values():
        assert [row.group for row in rows[:2]] == [OWN, REFITTED]
        own, fit = rows[:2]
        assert (fit.mechanism, fit.step, fit.width) == (own.mechanism, own.step, own.width)
        assert fit.exact is None
        assert 0 < fit.simulated < 3 * own.exact


@pytest.mark.parametrize("joint", [None, [["a", "b"]]])
def test_fits_of_ones_own_reports_are_those_of_a_tally(joint):
    attributes = {"a": Integer(0, 4, epsilon=1, per=1), "b": Integer(0, 5, epsilon=2, per=1)}
    survey = Survey.design(SurveySpec(attributes, joint=joint))
    rng = np.random.default_rng(3)
    crowd = Crowd(survey.attributes, {name: rng.integers(0, 4, 3000) for name in attributes})
    asked = Questions.draw(survey.attributes, 8, rng)
    entry = Entry(Contender("", "", ANY_TWO, ""), survey)
    (errors,) = refitted(entry, crowd, asked, 1, Randomness.seeded(4))
    tally = survey.tally(survey.randomize(crowd.positions, randomness=Randomness.seeded(4)))
    fit = tally.fit_distribution(["a", "b"])
    wheres = asked.wheres()
    found = np.array([fit.count(where).value for where in wheres])
    truth = crowd.truth(asked)
    # The same coins in the same order, where an attribute at a time is blurred.
    assert np.abs(errors).max() < 6 * max(fit.count(where).stderr for where in wheres)
    assert np.abs(found - truth - errors).max() < 12 * max(
        fit.count(where).stderr for where in wheres
    )
    few = Crowd(survey.attributes, {name: x[:50] for name, x in crowd.positions.items()})
    assert refitted(entry, few, asked, 1, Randomness.seeded(4)) is None


@pytest.mark.parametrize("smooth", [False, True])
def test_errors_of_what_is_fitted_are_those_of_reports(smooth):
    attributes = {"v": Integer(0, 15, epsilon=2, per=1)}
    rng = np.random.default_rng(2)
    crowd = Crowd(attributes, {"v": rng.binomial(15, 0.3, 500)})
    asked = Questions.draw(attributes, 10, rng)
    title = "Square Wave, EMS" if smooth else "Square Wave, EM"
    (entry,) = (one for one in fitted(attributes, 500) if one.contender.title == title)
    channel = Survey.design(
        {"v": Integer(0, 15, epsilon=2, mechanism="square-wave", per=1)}
    ).channels["v"]
    slowly = []
    for seed in range(60):
        column = channel.sample(crowd.positions["v"], Randomness.seeded(seed))
        counts = np.bincount(column, minlength=channel.outputs)
        shares = expectation_maximisation(channel, counts, smooth=smooth)
        slowly.append(500 * asked.functions["v"] @ shares - crowd.truth(asked))
    quickly = entry.errors(crowd, asked, 60, rng)
    assert quickly.shape == (60, 10)
    squares = [(np.array(errors) ** 2).mean(axis=1) for errors in (slowly, quickly)]
    gap = squares[0].mean() - squares[1].mean()
    spread = math.sqrt(sum(one.var(ddof=1) / 60 for one in squares))
    assert abs(gap) < 6 * spread
    assert abs(gap + squares[0].mean() / 2) > 2 * spread, "half as much would be noticed"
    assert not list(fitted(attributes, 99)), "too few people to fit anything to"
    assert not list(fitted({"v": Integer(0, 256, epsilon=1, per=1)}, 500)), "too slow"
    assert not list(fitted({"c": Categorical(["a", "b"], epsilon=1)}, 500))


def test_post_processed_counts_are_those_of_the_survey():
    """Of the same reports; counts add up already, so that Norm changes nothing and is left out."""
    attributes = {"c": Categorical(list("abcdef"), epsilon=1, mechanism="randomized-response")}
    entry = contest.Entry(Contender("", "own", ANY_TWO, "nobody"), Survey.design(attributes))
    crowd = Crowd(attributes, {"c": np.repeat(np.arange(6), [300, 250, 200, 50, 0, 0])})
    asked = Questions.draw(attributes, 12, np.random.default_rng(3))
    found = {
        one.contender.title: errors
        for one, errors in post_processed(entry, crowd, asked, 50, Randomness.seeded(4))
    }
    assert len(found) == 9
    assert "Norm" not in found
    truth, before = crowd.truth(asked), entry.answers(crowd, asked, 50, Randomness.seeded(4))
    np.testing.assert_allclose(found["Post-Pos"], np.maximum(before, 0) - truth)
    np.testing.assert_allclose(found["Base-Pos"], found["Post-Pos"], err_msg="of single values")
    for title in ("Norm-Sub (CLS)", "Base-Cut", "MLE-Apx"):
        assert (found[title] ** 2).mean() < ((before - truth) ** 2).mean()
    many = {"v": Integer(0, 256, epsilon=1, mechanism="geometric", per=1)}
    entry = contest.Entry(entry.contender, Survey.design(many))
    crowd = Crowd(many, {"v": np.arange(257)})
    asked = Questions.draw(many, 2, np.random.default_rng(3))
    assert not list(post_processed(entry, crowd, asked, 2, Randomness.seeded(4)))


def test_rows_of_post_processing(found):
    for about, rows in found.blocks().items():
        mine = [row for row in rows if row.group == POST]
        assert bool(mine) == (" x " not in about)
        assert all(row.exact is None and row.step == rows[0].step for row in mine)
        assert len({row.title for row in mine}) == len(mine)


def test_smoothing_is_biased_where_people_round():
    """A million ages rounded to tens: EMS has an error ten times that of Haar, as the page says."""
    attributes = {"age": Integer(0, 99, epsilon=1, per=1)}
    rng = np.random.default_rng(1)
    ages = np.clip((rng.normal(45, 20, 1_000_000).astype(int) + 5) // 10 * 10, 0, 99)
    crowd, asked = Crowd(attributes, {"age": ages}), Questions.draw(attributes, 50, rng)
    haar = entry_of("haar", attributes).variances(crowd, asked).mean()
    made = list(fitted(attributes, crowd.n))[:2]
    plain, smooth = (one.errors(crowd, asked, 3, rng) for one in made)
    assert (smooth**2).mean() > 50 * haar
    assert (plain**2).mean() < 10 * haar


def test_a_long_file_is_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr("metricldp.lab.compare.SAMPLE", 50)
    found = compare(SURVEY, people_file(tmp_path / "people.csv"), queries=5, seed=3, repetitions=12)
    assert (found.people, found.sample) == (400, 50)
    assert "a random sample of 50, scaled to all by the exact errors" in str(found)
    assert_near(found)


def test_a_single_repetition_has_no_standard_error(tmp_path):
    alone = Survey.design({"age": Integer(0, 29, epsilon=1, per=3)})
    found = compare(alone, people_file(tmp_path / "people.csv"), queries=3, repetitions=1)
    rows = [row for row in found.rows if row.exact is not None]
    assert all(row.simulated is not None and row.standard_error is None for row in rows)
    assert "nan" not in found.text()


def test_the_same_seed_gives_the_same_table(tmp_path, found):
    again = compare(SURVEY, people_file(tmp_path / "people.csv"), queries=10, repetitions=12)
    assert again == found


TOGETHER = Survey.design(
    SurveySpec(
        {**SURVEY.attributes, "age": AGE, "income": Integer(0, 4, epsilon=0.5, per=1)},
        joint={("age", "income"): {"name": "hio", "branching": 4}},
    )
)


@pytest.mark.parametrize(
    "names", [("age",), ("income", "region"), ("age", "income"), TOGETHER.attributes]
)
def test_blocks_of_ones_own_are_compared_as_they_are(names):
    """Exact errors are those that the survey predicts, answers those of its tally."""
    mine = {name: TOGETHER.attributes[name] for name in names}
    group, own = next(taking_part(mine, TOGETHER))
    used = own.survey.attributes
    assert group == OWN
    assert list(used) == [n for n in TOGETHER.attributes if n != "region" or n in names]
    assert own.mechanism == ("hio + randomized-response" if "region" in names else "hio")
    crowd, asked = crowd_of(used), Questions.draw(mine, 6, np.random.default_rng(2))
    values = {n: np.array([a.values_at(x)[0] for x in crowd.positions[n]]) for n, a in used.items()}
    tally = Tally.of(own.survey, encode(own.survey, values, randomness=Randomness.seeded(7)))
    (answers,) = own.answers(crowd, asked, 1, Randomness.seeded(7))
    found = zip(asked.wheres(), own.variances(crowd, asked), answers, strict=True)
    for k, (where, variance, answer) in enumerate(found):
        if "region" not in names:  # else coins are drawn in another order
            assert answer == pytest.approx(tally.count(where).value, abs=1e-6)
        cut = [n for n in mine if not asked.functions[n][k].all()]
        people = np.zeros([used[name].size for name in cut])
        np.add.at(people, tuple(crowd.positions[name] for name in cut), 1)
        expected = 0.0
        if cut:
            error = Survey.expected_error(own.survey, where, n=crowd.n, prior=people)
            expected = error.stderr
        assert math.sqrt(variance) == pytest.approx(expected, rel=1e-9)


def test_what_is_left_out():
    survey = Survey.design(
        {
            "age": AGE,
            "weight": Weight(0, 10),
            "income": Continuous(0, 100, epsilon=1, points=10, rounding="stochastic", per=1),
            "money": Integer(0, 9999, epsilon=1, per=1),
        }
    )
    kept, notes = compared(survey)
    assert list(kept) == ["age"]
    assert [note.split()[0] for note in notes] == ["weight", "income", "money"]
    assert "10,000 positions, and at most 4,096 are compared; give it bins" in notes[2]
    only = Survey.design({"region": Categorical(["a", "b"], epsilon=1)})
    assert compared(only)[1] == ["No attribute has an order, so there are no ranges."]
    with pytest.raises(QueryError, match="nothing to compare in a survey of 'money'"):
        compared(Survey.design({"money": Integer(0, 9999, epsilon=1, per=1)}))
    assert joint_sets(["a"], np.random.default_rng(1)) == []
    assert len(joint_sets(list("abcde"), np.random.default_rng(1))) == 3


def test_what_is_not_compared(tmp_path):
    people = people_file(tmp_path / "people.csv", 5)
    with pytest.raises(QueryError, match="at least one query, not 0"):
        compare(SURVEY, people, queries=0)
    with pytest.raises(QueryError, match=r"the norm p = 2 cannot be compared"):
        compare(Survey.design(SurveySpec(SURVEY.attributes, metric=Lp(2))), people)


def test_a_matrix_of_ones_own_keeps_its_plan():
    survey = Survey.design({"age": Integer(0, 5, epsilon=1, mechanism="matrix", per=1)})
    (group, entry), *others = taking_part(survey.attributes)
    assert group == OWN
    assert entry.survey == survey
    assert len(others) >= 3


def test_survey_from_a_file_is_compared_with_its_own_integers():
    """The file has no rows of a strategy, losses of bits or depths beside them."""
    rows = Matrix(strategy=[[1, 0, 0], [2, 1, 0], [0, 1, 0]])
    bits = {"name": "unary", "bits": [[0.1, 0.2], [0.2, 0.1]]}
    survey = Survey.design(
        SurveySpec(
            {
                "age": Integer(0, 2, epsilon=1, mechanism=rows, per=1),
                "sex": Categorical(["f", "m"], epsilon=1, mechanism=bits, optional=True),
                **{name: Integer(0, 2, epsilon=1, within=1) for name in "xy"},
            },
            joint={("x", "y"): "additive"},
        )
    )
    again = Survey.from_toml(survey.to_toml())
    for attributes in (again.attributes, {"x": again.attributes["x"]}):
        asked = {name: a for name, a in attributes.items() if not a.asks_whether}
        (_, entry), *_ = taking_part(asked, again)
        for name, channel in entry.survey.channels.items():
            assert channel.distribution == again.channels[name].distribution
        blocks = (one.blocks["x+y"].channel for one in (entry.survey, again))
        assert next(blocks).distribution == next(blocks).distribution


# The command


@pytest.fixture
def run_cli(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["metricldp", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code, *capsys.readouterr()

    return run


def test_compare_writes_what_it_says(run_cli, tmp_path):
    SURVEY.save(tmp_path / "survey.toml")
    people = people_file(tmp_path / "people.csv", 60)
    out = tmp_path / "new" / "out"
    words = (
        "lab",
        "compare",
        tmp_path / "survey.toml",
        people,
        "--queries",
        3,
        "-o",
        out,
        "--json",
    )
    code, printed, _ = run_cli(*words)
    assert code == 0
    data = json.loads(printed)
    assert data["people"] == 60
    assert [path.rpartition("/")[2] for path in data["files"]] == [
        "compare.txt",
        "compare.csv",
        "compare.png",
    ]
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    with (out / "compare.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(data["rows"])
    assert {"step", "width", "exact", "simulated"} <= set(rows[0])
    text = (out / "compare.txt").read_text()
    assert len(re.findall("^mechanism +known as +step +width +exact", text, re.M)) == 6
    assert text.count(f"- {OWN}:") == 6
    assert "Compare errors at equal step and width" in text


def test_a_file_is_no_directory(run_cli, tmp_path):
    SURVEY.save(tmp_path / "survey.toml")
    people = people_file(tmp_path / "people.csv", 3)
    code, _, errors = run_cli("lab", "compare", tmp_path / "survey.toml", people, "-o", people)
    assert code == 2
    assert errors == f"metricldp: {people} is a file; name a folder\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": "years"}, "has no column 'age'; it has"),
        ({"north": "moon"}, "region in row 1 is not one of 'north', 'south'"),
    ],
)
def test_compare_is_kind(run_cli, tmp_path, change, words):
    SURVEY.save(tmp_path / "survey.toml")
    people = tmp_path / "people.csv"
    text = "age,income,region\n3,5.5,north\n4,6.5,south\n"
    for old, new in change.items():
        text = text.replace(old, new)
    people.write_text(text)
    code, _, errors = run_cli("lab", "compare", tmp_path / "survey.toml", people)
    assert code == 2
    assert words in errors
    assert errors.count("\n") == 1
