"""Every kind of metric: the axioms, tightening, generating pairs, certificates, words and files."""

import heapq
import itertools
import math
import random
import tomllib
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import enumerated_ratio, exact_law, prove
from metricldp import (
    Categorical,
    Continuous,
    DistanceMatrix,
    Graph,
    Integer,
    InvalidSpecError,
    InvalidValueError,
    Lp,
    Ordinal,
    Randomness,
    SensitiveSet,
    Survey,
    SurveySpec,
    TightenedMetricWarning,
    Tree,
)
from metricldp.mechanisms.registry import build
from metricldp.metrics import Line, Sensitive, Uniform, added, tightened
from metricldp_core.exact import at_most_exp, log_of

NAMES = ("news", "games", "clinic", "pharmacy", "bank")
NAN, INF = math.nan, math.inf

WORDS = {
    "sensitive-set": SensitiveSet(["clinic", "bank"]),
    "graph": Graph(
        [
            ("news", "games"),
            ("games", "clinic", 2.5),
            ("clinic", "pharmacy", 0.3),
            ("bank", "news", 1.1),
            ("bank", "pharmacy", 2),
        ]
    ),
    "tree": Tree(
        {"health": ["clinic", {"shops": ["pharmacy"]}], "rest": ["news", "games", "bank"]},
        {"health": 1.25, "bank": "1/3"},
    ),
    "distance-matrix": DistanceMatrix(
        [
            [0, 1, 2, 2, 1],
            [1, 0, 2, 2.5, 2],
            [2, 2, 0, 0.5, 1.5],
            [2, 2.5, 0.5, 0, "5/3"],
            [1, 2, 1.5, Fraction(5, 3), 0],
        ]
    ),
}
each_kind = pytest.mark.parametrize("kind", WORDS)


def attribute(kind, **more):
    return Ordinal(NAMES, **{"epsilon": 0.7, "metric": WORDS[kind], **more})


def all_pairs(size):
    return itertools.combinations(range(size), 2)


def assert_metric(metric, size):
    """The axioms, one by one."""
    for x, other in itertools.product(range(size), repeat=2):
        assert isinstance(metric.distance(x, other), Fraction)
        assert (metric.distance(x, other) == 0) == (x == other)
        assert metric.distance(x, other) == metric.distance(other, x) >= 0
    for x, z, other in itertools.product(range(size), repeat=3):
        assert metric.distance(x, other) <= metric.distance(x, z) + metric.distance(z, other)


def literal_closure(said, size):
    """Min-plus powers of a matrix of fractions: as slow as it is plain."""
    far = sum(said.values()) + 1
    matrix = [[Fraction(0) if x == y else far for y in range(size)] for x in range(size)]
    for (x, other), length in said.items():
        matrix[x][other] = matrix[other][x] = length
    for _ in range(max(1, math.ceil(math.log2(size)))):
        matrix = [
            [min(map(sum, zip(row, column, strict=True))) for column in matrix] for row in matrix
        ]  # symmetric, so its rows are its columns
    return matrix


def shortest_path(edges, start, end):
    """Dijkstra over {pair: length}; None where nothing leads there."""
    best, heap = {}, [(Fraction(0), start)]
    while heap:
        length, here = heapq.heappop(heap)
        if here in best:
            continue
        best[here] = length
        for (x, other), step in edges.items():
            if here in (x, other):
                heapq.heappush(heap, (length + step, other if here == x else x))
    return best.get(end)


LENGTHS = {
    "ties": lambda r: Fraction(r.randint(1, 4)),
    "decimals": lambda r: Fraction(r.randint(1, 500), 100),
    "floats": lambda r: Fraction(repr(r.uniform(0.01, 3))),
    "fractions": lambda r: Fraction(r.randint(1, 40), r.choice([3, 7, 11])) + Fraction(1, 1 << 50),
}
"""Few digits fit into 64 bits, many do not: both ways of closing a table are taken."""


def functions(most):
    """A random symmetric positive function on up to `most` values, every pair or some stated."""

    def make(size, style, whole, seed):
        rng = random.Random(seed)
        pairs = [p for p in all_pairs(size) if whole or p[1] == p[0] + 1 or rng.random() < 0.3]
        return {pair: LENGTHS[style](rng) for pair in pairs}, size

    return st.builds(
        make, st.integers(2, most), st.sampled_from(list(LENGTHS)), st.booleans(), st.integers(0)
    )


# The closure


@settings(max_examples=40, deadline=None)
@given(functions(30))
def test_tightening_is_the_literal_closure(drawn):
    said, size = drawn
    metric, changes = tightened(said, range(size))
    literal = literal_closure(said, size)
    for x, other in itertools.product(range(size), repeat=2):
        assert metric.distance(x, other) == literal[x][other]
    changed = {(c.x, c.other): (c.before, c.after) for c in changes}
    expected = {(x, y): (d, literal[x][y]) for (x, y), d in said.items() if literal[x][y] < d}
    assert changed == expected
    np.testing.assert_allclose(
        metric.matrix(size), [[float(d) for d in row] for row in literal], rtol=1e-15
    )


def test_ways_round_that_floats_cannot_tell_are_decided_by_integers():
    """Numbers beyond 64 bits: a way that is no longer looks longer once it is rounded."""
    rng, misled = random.Random(3), Counter()
    for _ in range(300):
        first, second, third = (rng.getrandbits(80) | 1 << 80 for _ in range(3))
        direct = first + second + 1
        said = {(0, 1): direct, (0, 2): first, (1, 2): second, (0, 3): third}
        said |= {(1, 3): direct - third, (0, 4): rng.getrandbits(84) | 1 << 83}
        metric, changes = tightened({pair: Fraction(n) for pair, n in said.items()}, range(5))
        assert metric.distance(0, 1) == direct - 1
        assert (0, 1) in {(change.x, change.other) for change in changes}
        scale = 5 * said[0, 4] + 1
        misled["closing"] += first / scale + second / scale > direct / scale
        # The first way longer by one instead, the second still as long: it alone implies the pair.
        said[0, 2] += 2
        metric, _ = tightened({pair: Fraction(n) for pair, n in said.items()}, range(5))
        assert metric.distance(0, 1) == direct
        assert (0, 1) not in list(metric.generating_pairs(5))
        scale = metric.whole(5).max()
        ways = [(said[0, z] / scale) + (said[1, z] / scale) for z in (2, 3)]
        misled["generating"] += ways[0] <= ways[1] > direct / scale
    assert min(misled["closing"], misled["generating"]) > 20


@settings(max_examples=30, deadline=None)
@given(functions(12))
def test_a_tightened_function_is_a_metric(drawn):
    said, size = drawn
    assert_metric(tightened(said, range(size))[0], size)


@settings(max_examples=15, deadline=None)
@given(functions(20))
def test_generating_pairs_generate_and_none_can_be_left_out(drawn):
    said, size = drawn
    metric, _ = tightened(said, range(size))
    edges = {pair: metric.distance(*pair) for pair in metric.generating_pairs(size)}
    assert len(edges) == metric.generating_count(size)
    again, changes = tightened(edges, range(size))
    assert again == metric
    assert not changes
    for pair, length in edges.items():
        rest = {other: d for other, d in edges.items() if other != pair}
        way_round = shortest_path(rest, *pair)
        assert way_round is None or way_round > length


@settings(max_examples=25, deadline=None)
@given(functions(12), functions(12))
def test_what_is_asked_of_a_metric_is_what_all_pairs_say(drawn, another):
    said, size = drawn
    metric, _ = tightened(said, range(size))
    every = {pair: metric.distance(*pair) for pair in all_pairs(size)}
    assert metric.smallest(size) == min(every.values())
    assert metric.diameter(size) == max(every.values())
    assert metric.per_step(size) == min(d / (y - x) for (x, y), d in every.items())
    if another[1] != size:
        return
    second, _ = tightened(another[0], range(size))
    for factor in (Fraction(1, 9), Fraction(1, 2), Fraction(1)):
        scaled = second.scaled(factor)
        expected = all(scaled.distance(*pair) <= d for pair, d in every.items())
        assert scaled.within(metric, size) == expected
    line, uniform = Line(metric.per_step(size)), Uniform(metric.smallest(size))
    for plain in (line, uniform):
        assert plain.within(metric, size)
        assert not plain.scaled(Fraction(101, 100)).within(metric, size)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_closed_forms_agree_with_tables(size):
    """Line, uniform and every sensitive set, against the closure of their generating pairs."""
    sets = [
        Sensitive(frozenset(places), Fraction(2, 3))
        for count in range(1, size + 1)
        for places in itertools.combinations(range(size), count)
    ]
    for metric in (Line(Fraction(1, 3)), Uniform(Fraction(5, 7)), *sets):
        pairs = list(metric.generating_pairs(size))
        assert len(set(pairs)) == len(pairs) == metric.generating_count(size)
        assert all(x < other for x, other in pairs)
        table, changes = tightened({p: metric.distance(*p) for p in pairs}, range(size))
        assert not changes
        assert_metric(metric, size)
        assert sorted(pairs) == sorted(table.generating_pairs(size))
        for x, other in itertools.product(range(size), repeat=2):
            assert table.distance(x, other) == metric.distance(x, other)
        assert table.smallest(size) == metric.smallest(size)
        assert table.diameter(size) == metric.diameter(size)
        assert table.per_step(size) == metric.per_step(size)
        assert metric.within(table, size)
        assert table.within(metric, size)
        assert not metric.scaled(Fraction(3, 2)).within(table, size)
        assert not table.scaled(Fraction(3, 2)).within(metric, size)
        np.testing.assert_array_equal(table.matrix(size), metric.matrix(size))
    for metric, other in itertools.permutations(sets, 2):
        both = all(metric.distance(*p) <= other.distance(*p) for p in all_pairs(size))
        assert metric.within(other, size) == both


def test_neighbours_alone_would_not_give_the_slope():
    """The ends are nearer than the sum of the steps between: only the pair of ends tells."""
    metric, _ = tightened({(0, 1): Fraction(1), (1, 2): Fraction(1), (0, 2): Fraction(1)}, "abc")
    assert metric.per_step(3) == Fraction(1, 2)


@settings(max_examples=30, deadline=None)
@given(st.lists(functions(8), min_size=2, max_size=3))
def test_a_sum_of_metrics_is_a_metric(drawn):
    size = min(size for _, size in drawn)
    tables = [
        tightened({p: d for p, d in said.items() if max(p) < size}, range(size))[0]
        for said, _ in drawn
    ]
    parts = [*tables, Line(Fraction(1, 3)), Sensitive(frozenset([0]), Fraction(1, 7))]
    total = added(parts, size)
    assert_metric(total, size)
    for pair in all_pairs(size):
        assert total.distance(*pair) == sum(part.distance(*pair) for part in parts)


# Words


def test_the_distances_of_each_kind_are_what_they_say():
    e = Fraction(7, 10)
    chosen = attribute("sensitive-set")
    assert chosen.distance("clinic", "bank") == chosen.distance("news", "bank") == e
    assert chosen.distance("news", "games") == 2 * e
    graph = attribute("graph")
    assert graph.distance("news", "clinic") == e * Fraction("3.4")  # by bank and pharmacy
    assert graph.distance("games", "clinic") == e * Fraction("2.5")
    assert graph.distance("games", "games") == 0
    tree = attribute("tree")
    assert tree.distance("news", "games") == e
    assert tree.distance("clinic", "pharmacy") == e * Fraction("1.5")
    assert tree.distance("bank", "news") == e * (Fraction(1, 2) + Fraction(1, 3))
    up, down = Fraction(1, 2) + Fraction("1.25"), Fraction(1, 2) + Fraction(1, 3)
    assert tree.distance("clinic", "bank") == e * (up + down)
    table = attribute("distance-matrix")
    assert table.distance("pharmacy", "bank") == e * Fraction(5, 3)
    for kind in WORDS:
        assert_metric(attribute(kind).distances, 5)


def test_lengths_are_in_units_of_epsilon_per_per():
    edges = Graph([(10, 11, 5), (11, 12)])
    assert Integer(10, 12, epsilon=2, per=5, metric=edges).distance(10, 12) == Fraction(12, 5)
    assert (
        Categorical(["a", "b"], epsilon=2, metric=DistanceMatrix([[0, 3], [3, 0]])).distance(
            "a", "b"
        )
        == 6
    )


def test_the_same_set_is_the_same_agreement():
    both = [SensitiveSet(values) for values in (["bank", "clinic"], {"clinic", "bank"})]
    prints = {Survey.design({"v": attribute("tree", metric=words)}).fingerprint for words in both}
    assert len(prints) == 1
    assert Graph([("a", "b", 1.0)]) == Graph([("a", "b")]) == Graph([["a", "b", np.int64(1)]])
    assert DistanceMatrix(np.array([[0, 1], [1, 0]])) == DistanceMatrix([[0.0, 1], [1.0, 0]])


@each_kind
def test_files_hold_the_metric(kind, tmp_path):
    numbers = Integer(-1, 1, epsilon=1, metric=Tree({"a b": [-1, 0], "c": [1]}, {-1: 2, "c": 3}))
    survey = Survey.design(SurveySpec({"v": attribute(kind), "é 1": numbers}, metric=Lp(2)))
    for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
        assert again == survey
        assert again.attributes == survey.attributes
        assert again.channels == survey.channels
        assert again.to_toml() == survey.to_toml()
    for name in ("s.toml", "s.json"):
        survey.save(tmp_path / name)
        assert Survey.load(tmp_path / name) == survey
    without = Survey.design(
        SurveySpec({"v": attribute(kind, metric=None), "é 1": numbers}, metric=Lp(2))
    )
    assert without.fingerprint != survey.fingerprint
    assert "metric" not in without.attributes["v"].to_dict()
    assert hash(survey.attributes["v"]) == hash(Survey.from_toml(survey.to_toml()).attributes["v"])


def test_tightening_is_told_once_and_written_down():
    rows = [[0, 1, 9, 4], [1, 0, 1, 9], [9, 1, 0, 1], [4, 9, 1, 0]]
    with pytest.warns(TightenedMetricWarning) as told:
        loose = Categorical(["a", "b", "c", "d"], epsilon=1, metric=DistanceMatrix(rows))
    (warning,) = told
    assert warning.filename == __file__
    message = str(warning.message)
    assert "\n" not in message
    assert "'a' to 'c' from 9 to 2, 'a' to 'd' from 4 to 3, 'b' to 'd' from 9 to 2" in message
    survey = Survey.design({"v": loose})  # warnings are errors here
    assert Survey.from_toml(survey.to_toml()) == survey
    assert survey.attributes["v"].metric.rows[0] == (0, 1, 2, 3)
    with pytest.warns(TightenedMetricWarning, match="'a' to 'c' from 5 to 2$"):
        edges = Ordinal(
            ["a", "b", "c"], epsilon=1, metric=Graph([("a", "b"), ("b", "c"), ("a", "c", 5)])
        )
    assert edges.metric == Graph([("a", "b"), ("b", "c"), ("a", "c", 2)])
    many = np.full((9, 9), 100.0)
    np.fill_diagonal(many, 0)
    many[0] = many[:, 0] = 1
    many[0, 0] = 0
    with pytest.warns(TightenedMetricWarning, match=r"and 25 more, 28 in all$"):
        Integer(0, 8, epsilon=1, metric=DistanceMatrix(many))


def test_the_tightened_table_is_exact_in_the_file():
    """A sum of decimals that no float holds is written as a fraction."""
    rows = [[0, 1e-10, 9], [1e-10, 0, 1.0000000000000002], [9, 1.0000000000000002, 0]]
    with pytest.warns(TightenedMetricWarning):
        small = Categorical(["a", "b", "c"], epsilon=1, metric=DistanceMatrix(rows))
    exact = Fraction("1e-10") + Fraction("1.0000000000000002")
    assert small.distance("a", "c") == exact
    survey = Survey.design({"v": small})
    assert Survey.from_json(survey.to_json()).attributes["v"].distance("a", "c") == exact


# Surveys and certificates


@each_kind
@pytest.mark.parametrize(
    "mechanism", ["auto", "randomized-response", "unary", "threshold", "geometric"]
)
@pytest.mark.parametrize("metric", [Lp(1), Lp(2)])
def test_every_pair_keeps_the_metric(kind, mechanism, metric):
    """All pairs and all reports, by enumeration, against the promise and its share."""
    survey = Survey.design(
        SurveySpec(
            {"v": attribute(kind, mechanism=mechanism), "a": Integer(0, 9, epsilon=1, per=1)},
            metric=metric,
        )
    )
    assert survey.certify().holds
    channel, promised = survey.channels["v"], survey.attributes["v"].distances
    assert mechanism in ("auto", survey.mechanisms["v"].name)
    laws = [exact_law(channel, x) for x in range(5)]
    share = metric.share(2)
    for x, other in all_pairs(5):
        worst = enumerated_ratio(laws[x], laws[other])
        assert worst <= channel.distribution.ratio(x, other)
        assert at_most_exp(
            channel.distribution.ratio(x, other), share * promised.distance(x, other)
        )


@settings(max_examples=25, deadline=None)
@given(
    functions(30),
    st.sampled_from(["randomized-response", "unary", "threshold", "geometric", "matrix"]),
)
def test_certificates_hold_on_tightened_functions(drawn, mechanism):
    said, size = drawn
    if mechanism == "matrix" and size > 12:  # a plan of many takes long
        said, size = {pair: length for pair, length in said.items() if max(pair) < 12}, 12
    rows = [["0"] * size for _ in range(size)]
    for x, other in all_pairs(size):
        length = said.get((x, other), Fraction(50))
        rows[x][other] = rows[other][x] = length
    for x in range(size):
        rows[x][x] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TightenedMetricWarning)
        described = Integer(1, size, epsilon=0.5, metric=DistanceMatrix(rows), mechanism=mechanism)
    proof = Survey.design({"v": described}).certify().proofs[0]
    assert proof.holds
    assert proof.count == described.distances.generating_count(size)
    assert proof.tightest.limit.allows(proof.tightest.ratio)


@each_kind
@pytest.mark.parametrize("mechanism", ["randomized-response", "unary", "threshold", "geometric"])
def test_a_channel_for_a_larger_metric_is_rejected(kind, mechanism):
    """The broken twin: integers that keep 1.001 times the metric."""
    metric = attribute(kind).distances
    honest = build(mechanism, 5, metric)
    assert all(pair.holds for pair in prove(honest, metric))
    broken = build(mechanism, 5, metric.scaled(Fraction(1001, 1000)))
    assert not all(pair.holds for pair in prove(broken, metric))


@each_kind
@pytest.mark.parametrize("larger", ["scaled", "one pair", "another kind"])
def test_a_survey_built_on_a_larger_metric_is_not_certified(kind, larger, monkeypatch):
    """The proof is about the metric of the attribute, not about the one of the design."""
    from metricldp.survey import design

    def larger_metric(a, share):
        metric = a.distances.scaled(share)
        if larger == "scaled":
            return metric.scaled(Fraction(1001, 1000))
        if larger == "another kind":
            return Line(metric.diameter(a.size))
        pair = min(metric.generating_pairs(a.size), key=lambda p: metric.distance(*p))
        said = {p: metric.distance(*p) for p in all_pairs(a.size)}
        said[pair] *= 2
        return tightened(said, range(a.size))[0]

    monkeypatch.setattr(design, "metric_on_positions", larger_metric)
    certificate = Survey.design({"v": attribute(kind)}).certify()
    assert not certificate.holds
    assert not certificate.proofs[0].tightest.holds


@each_kind
def test_the_whole_way(kind):
    survey = Survey.design({"v": attribute(kind, epsilon=8)})
    people = {"v": list(NAMES) * 200}
    tally = survey.tally(survey.randomize(people, randomness=Randomness.seeded(2)))
    answer = tally.count({"v": ["clinic", "bank"]})
    assert abs(answer.value - 400) < 6 * answer.stderr + 1e-9
    epsilon = log_of(survey.channels["v"].distribution.largest_ratio())
    less = epsilon < float(survey.attributes["v"].distances.diameter(5)) - 0.01
    assert ("guarantees more than the metric" in survey.explain().details()) == less
    assert survey.explain().to_dict()["attributes"][0]["metric"] == kind


def test_explanations_name_the_closest_values():
    visit = Categorical(NAMES, epsilon=1, metric=WORDS["sensitive-set"])
    text = " ".join(str(Survey.design({"visit": visit}).explain()).split())
    assert "at most 2.72 times as likely for one visit as for another if one is clinic" in text
    assert "and at most 7.39 times for any two" in text
    use = attribute("graph", epsilon=1, mechanism="geometric")
    explanation = Survey.design({"use": use}).explain()
    text = " ".join(str(explanation).split())
    assert "at most 1.35 times as likely for clinic as for pharmacy, the closest two" in text
    assert "any two (news and clinic)" in explanation.details()
    assert "and at most 3.01 times for any two" in text


def test_large_domains_have_closed_forms():
    ages = Integer(0, 99_999, epsilon=1, metric=SensitiveSet([3, 77_000]))
    certificate = Survey.design({"a": ages}).certify()
    assert certificate.holds
    assert certificate.proofs[0].count == 99_999 + 99_998
    with pytest.raises(InvalidSpecError, match="up to 1,000 values"):
        Integer(0, 1000, epsilon=1, metric=Graph([(0, 1)]))


# Bad input


def table(entry, back=None, size=3):
    rows = [[float(abs(x - y)) for y in range(size)] for x in range(size)]
    rows[0][2] = entry
    rows[2][0] = entry if back is None else back
    return DistanceMatrix(rows)


BAD = {
    "zero": (
        lambda: table(0),
        "'a' to 'c'",
        "not 0",
        "merge values that must be indistinguishable",
    ),
    "zero edge": (lambda: Graph([("a", "b", 0), ("b", "c")]), "'a' to 'b'", "not 0"),
    "negative": (lambda: table(-1), "'a' to 'c'", "positive", "-1"),
    "negative edge": (lambda: Graph([("a", "b", -2)]), "'a' to 'b'", "-2"),
    "nan": (lambda: table(NAN), "'a' to 'c'", "nan"),
    "nan edge": (lambda: Graph([("a", "b", NAN)]), "'a' to 'b'", "nan"),
    "infinite": (lambda: table(INF), "'a' to 'c'", "inf"),
    "infinite edge": (lambda: Graph([("b", "c", INF)]), "'b' to 'c'", "inf"),
    "infinite back": (lambda: table(2, INF), "'c' to 'a'", "inf"),
    "text": (lambda: table("two"), "'a' to 'c'", "'two'"),
    "zero denominator": (lambda: table("2/0"), "'a' to 'c'", "'2/0'"),
    "true": (lambda: table(True), "'a' to 'c'", "True"),
    "list": (lambda: table([1]), "row 1, column 3", "[1]"),
    "huge": (lambda: table(1e300), "'a' to 'c'", "1e+300"),
    "asymmetric": (lambda: table(2, 1.5), "'a' to 'c' is 2", "'c' to 'a' is 1.5"),
    "diagonal": (
        lambda: DistanceMatrix([[0, 1, 1], [1, 2, 1], [1, 1, 0]]),
        "'b' to 'b'",
        "must be 0",
    ),
    "few rows": (lambda: DistanceMatrix([[0, 1], [1, 0]]), "2 rows for 3 values"),
    "short row": (
        lambda: DistanceMatrix([[0, 1, 1], [1, 0], [1, 1, 0]]),
        "row of 'b'",
        "2 distances",
    ),
    "no rows": (lambda: DistanceMatrix("abc"), "list of rows"),
    "vector": (lambda: DistanceMatrix([1, 2, 3]), "list of rows"),
    "disconnected": (lambda: Graph([("a", "b")]), "from 'a' to 'c'", "connect"),
    "no edges": (lambda: Graph([]), "from 'a' to 'b'"),
    "unknown": (lambda: Graph([("a", "B")]), "'B'", "differs only in its case"),
    "self-loop": (lambda: Graph([("b", "b")]), "'b' to 'b'", "nowhere"),
    "twice": (lambda: Graph([("a", "b"), ("b", "a", 2)]), "two edges 'b' to 'a'"),
    "edge": (lambda: Graph([("a",)]), "(value, value, length)"),
    "edges": (lambda: Graph("ab"), "list of edges"),
    "half a value": (lambda: Graph([(0.5, "a")]), "0.5"),
    "sensitive": (lambda: SensitiveSet(["d"]), "'d'", "'a', 'b', 'c'"),
    "nothing sensitive": (lambda: SensitiveSet([]), "at least one"),
    "sensitive twice": (lambda: SensitiveSet(["a", "a"]), "'a' twice"),
    "sensitive text": (lambda: SensitiveSet("abc"), "list of values"),
    "leaf": (lambda: Tree({"g": ["a", "b", "c", "d"]}), "'d'"),
    "no leaf": (lambda: Tree({"g": ["a", "c"]}), "does not contain 'b'"),
    "leaf twice": (lambda: Tree({"g": ["a", "b"], "h": ["b", "c"]}), "'b' twice"),
    "group as leaf": (lambda: Tree({"a": ["a", "b"], "h": ["c"]}), "'a' twice"),
    "empty group": (lambda: Tree({"g": ["a", "b", "c"], "h": []}), "empty"),
    "group": (lambda: Tree({"g": "abc"}), "'abc'"),
    "group name": (lambda: Tree({3: ["a", "b", "c"]}), "name, not 3"),
    "length of nothing": (lambda: Tree({"g": ["a", "b", "c"]}, {"h": 1}), "no 'h'"),
    "bad length": (lambda: Tree({"g": ["a", "b", "c"]}, {"g": -1}), "above 'g'", "-1"),
    "lengths": (lambda: Tree({"g": ["a", "b", "c"]}, 3), "pairs of a name and a number"),
    "not a metric": (
        lambda: Line(Fraction(1)),
        "SensitiveSet, Graph, Tree, DistanceMatrix or Relative",
    ),
}


@pytest.mark.parametrize("mistake", BAD)
def test_mistakes_are_one_line_that_names_the_pair(mistake):
    make, *needles = BAD[mistake]
    with pytest.raises(InvalidSpecError) as caught:
        Ordinal(["a", "b", "c"], epsilon=1, metric=make())
    message = str(caught.value)
    assert "\n" not in message
    for needle in needles:
        assert needle in message


def test_too_large_and_too_small_distances_are_rejected():
    for length, words in (
        (2e6, "between a and b, which adds almost no noise"),
        (1e-15, "the nearest two"),
    ):
        with pytest.raises(InvalidSpecError, match=words):
            Ordinal(["a", "b"], epsilon=1, metric=Graph([("a", "b", length)]))
    with pytest.raises(InvalidValueError, match=r"ordinal value \('z'\) is not one of"):
        attribute("graph").distance("z", "news")
    with pytest.raises(InvalidValueError, match=r"ordinal value \(<object.*\) holds object values"):
        attribute("graph").distance(object(), "news")
    deep = ["a", "b"]
    for k in range(5000):
        deep = {f"g{k}": deep}
    with pytest.raises(InvalidSpecError, match="nested too deeply"):
        Tree(deep)


@pytest.mark.parametrize(
    ("entry", "needle"),
    [
        ('{kind = "star"}', "'star'; choose sensitive-set, graph, tree, distance-matrix"),
        ("{}", "needs a kind; choose"),
        ('{kind = "graph"}', "needs 'edges'"),
        ('{kind = "graph", edge = []}', "did you mean 'edges'"),
        ('{kind = "tree", groups = {g = ["a", "b"]}, lengths = [["g"]]}', "pairs"),
        (
            '{kind = "distance-matrix", rows = [[0, nan], [nan, 0]]}',
            "attribute v: the distance 'a' to 'b'",
        ),
        ('"line"', "SensitiveSet, Graph, Tree, DistanceMatrix or Relative"),
    ],
)
def test_mistakes_in_files(entry, needle):
    text = '[attributes.v]\nkind = "categorical"\ncategories = ["a", "b"]\n'
    with pytest.raises(InvalidSpecError) as caught:
        SurveySpec.from_dict(tomllib.loads(f"{text}epsilon = 1\nmetric = {entry}\n"))
    assert needle in str(caught.value)
    assert str(caught.value).startswith("attribute v: ")


@pytest.mark.parametrize("length", [2**53, 2**53 + 1, 10**17, 10**18 - 1])
def test_long_lengths_survive_files(length):
    """Whole numbers beyond 2^53 are no numbers in every language."""
    far = Graph([("a", "b", length), ("b", "c", length)])
    survey = Survey.design({"v": Categorical(["a", "b", "c"], epsilon=1e-17, metric=far)})
    assert survey.attributes["v"].distance("a", "b") == length * Fraction("1e-17")
    for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
        assert again.fingerprint == survey.fingerprint
        assert again.attributes["v"].distance("a", "b") == length * Fraction("1e-17")


def test_messages_name_the_remedy():
    table = DistanceMatrix([[0, 1], [1, 0]])
    for make, needle in (
        (lambda: Continuous(0, 1, bins=3, epsilon=1, metric=table), "is Relative(...) or left out"),
        (
            lambda: Continuous(0, 1, points=3, epsilon=1, metric=table, rounding="stochastic"),
            "takes no metric; integer",
        ),
        (lambda: Integer(0, 1, epsilon=1, mechanisms="x", per=1), "did you mean 'mechanism'"),
        (lambda: Integer(0, 1, epsilon=1, metric="tree"), 'a table such as {kind = "graph"'),
        (lambda: Integer(0, 1, epsilon=1, metric={"edges": []}), "a metric needs a kind; choose"),
        (lambda: Integer(0, 2, epsilon=1, metric=table), "give a row for each, in the order"),
        (lambda: Integer(0, 2, epsilon=1, metric=Tree({"x": [0, 1]})), "add it to a group"),
        (
            lambda: Integer(0, 2, epsilon=1, reach=0, per=1),
            "an integer attribute has no 'reach'; it has",
        ),
        (
            lambda: Survey.design(
                {"v": Integer(0, 2, epsilon=1, mechanism={"name": "auto", "reach": 0}, per=1)}
            ),
            "mechanism 'auto' has no entry 'reach'; it has 'workload'",
        ),
    ):
        with pytest.raises(InvalidSpecError) as caught:
            make()
        assert needle in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("far", "told"),
    [
        (9, "0 to 2 from 9 to 2"),
        (2.00000004, "0 to 2 from 2.00000004 to 2"),
        (
            2.0000000000004,
            "by rounding only, distances were shortened to the shortest path: 0 to 2",
        ),
    ],
)
def test_the_warning_shows_the_difference_and_names_the_attribute(far, told):
    rows = [[0, 1, far], [1, 0, 1], [far, 1, 0]]
    with pytest.warns(TightenedMetricWarning) as caught:
        Integer(0, 2, epsilon=1, metric=DistanceMatrix(rows))
    assert str(caught[0].message).endswith(told)
    text = f"""
        [attributes.stars]
        kind = "integer"
        low = 0
        high = 2
        epsilon = 1
        metric = {{kind = "distance-matrix", rows = {rows}}}
    """
    with pytest.warns(TightenedMetricWarning) as caught:
        SurveySpec.from_dict(tomllib.loads(text))
    assert len(caught) == 1
    assert str(caught[0].message).startswith("attribute stars: ")
    assert str(caught[0].message).endswith(told)
