"""`within` and `max_epsilon` in every attribute: guarantees for values hold for their positions."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from metricldp import (
    Categorical,
    Continuous,
    Graph,
    Integer,
    InvalidSpecError,
    InvalidValueError,
    Ordinal,
    QueryError,
    Relative,
    Survey,
    Tree,
)
from metricldp.metrics import Bent, Uniform, Window
from metricldp.metrics.closed import closure


def test_within_five_years_and_never_above_three():
    age = Integer(0, 99, epsilon=1, within=5, max_epsilon=3)
    assert age.distances == Window(Fraction(1), 5, Fraction(3))
    assert [int(age.distance(30, age_)) for age_ in (31, 35, 36, 40, 41, 99)] == [1, 1, 2, 2, 3, 3]
    assert age.to_dict() == {
        "kind": "integer",
        "low": 0,
        "high": 99,
        "epsilon": 1.0,
        "within": 5.0,
        "max_epsilon": 3.0,
    }


def test_a_part_of_a_step_counts():
    age = Integer(0, 99, epsilon=1, within=2.5)
    assert age.distances == Window(Fraction(1), Fraction(5, 2))
    assert [int(age.distance(30, 30 + d)) for d in (1, 2, 3, 5, 6, 7, 8)] == [1, 1, 2, 2, 3, 3, 4]
    assert Integer(0, 9, epsilon=1, within=3.0).distances.width == 3
    assert Integer(0, 9, epsilon=1, within=9.5).distances == Uniform(Fraction(1))


@pytest.mark.parametrize("mechanism", ["auto", "additive", "extremal", "geometric", "unary"])
@pytest.mark.parametrize(
    "said", [{}, {"max_epsilon": 3}, {"max_epsilon": 2.5}, {"cyclic": True}], ids=str
)
def test_channels_keep_a_part_of_a_step(mechanism, said):
    """Each against every pair of values, not only those that the certificate goes through."""
    age = Integer(0, 15, epsilon=1, within=2.5, mechanism=mechanism, **said)
    survey = Survey.design({"age": age})
    assert survey.certify().holds
    channel = survey.channels["age"]
    for x, other in product(range(16), repeat=2):
        if x < other:
            apart = min(other - x, 16 - other + x) if age.cyclic else other - x
            allowed = min(math.ceil(apart / 2.5), age.max_epsilon or 99)
            loss = math.log(
                max(channel.distribution.ratio(x, other), channel.distribution.ratio(other, x))
            )
            assert loss <= allowed + 1e-9, (x, other)
    assert Survey.from_toml(survey.to_toml()).fingerprint == survey.fingerprint


def test_noise_for_a_part_of_a_step_lies_between():
    """What keeps windows of 3 steps keeps those of 2.5; made for 2.5 it has a smaller error."""
    errors = [
        Survey.design({"age": Integer(0, 39, epsilon=1, within=w, mechanism="additive")})
        .expected_error({"age": (10, 19)}, n=10_000, prior="uniform")
        .stderr
        for w in (2, 2.5, 3)
    ]
    assert errors[0] < errors[1] < errors[2]


@pytest.mark.parametrize("steps", [Fraction(n, 12) for n in range(12, 61)])
def test_bins_are_as_far_apart_as_a_window_allows(steps):
    """The largest metric below what any two values in two bins may be apart, by brute force."""
    bins = Continuous(0, 20, bins=20, epsilon=1, within=float(steps))
    apart = np.abs(np.arange(20)[:, None] - np.arange(20))
    within = Fraction(str(float(steps)))
    nearest = [0, *(math.floor((d - 1) / within) + 1 for d in range(1, 20))]
    assert np.array_equal(closure(np.array(nearest)[apart]), bins.distances.matrix(20))


def test_middles_may_be_evenly_spaced_where_bins_are_not():
    """Bins of 9 and 1 in turn: over a bin of 1 two values are within 5 of each other."""
    bins = Continuous(edges=(0, 9, 10, 19, 20, 29), epsilon=1, within=5)
    assert bins.distance(8.9, 10.1) == 1
    assert bins.distance(8.9, 19.5) == 2
    same = Continuous(edges=(0, 5, 10, 15, 20), epsilon=1, within=5)
    assert same.distances == Continuous(0, 20, bins=4, epsilon=1, within=5).distances


def test_max_epsilon_on_every_kind_of_metric():
    assert Integer(0, 9, epsilon=1, max_epsilon=2.5, per=1).distances == Bent(
        Fraction(1), cap=Fraction(5, 2)
    )
    assert (
        Integer(0, 9, epsilon=1, max_epsilon=20, per=1).distances
        == Integer(0, 9, epsilon=1, per=1).distances
    )
    assert Categorical(["a", "b"], epsilon=1, max_epsilon=1).distances == Uniform(Fraction(1))
    sites = Tree({"health": ["clinic", "pharmacy"], "play": ["games", "chess"]})
    site = Categorical(
        ["clinic", "pharmacy", "games", "chess"], epsilon=1, metric=sites, max_epsilon=1.5
    )
    assert site.distance("clinic", "pharmacy") == 1
    assert site.distance("clinic", "games") == Fraction(3, 2)
    assert Ordinal(["no", "some", "much"], epsilon=1, within=2).distances == Uniform(Fraction(1))


def test_hours_go_round():
    hour = Integer(0, 23, epsilon=1, within=2, cyclic=True)
    assert hour.distances == Window(Fraction(1), 2, around=24)
    assert [int(hour.distance(23, other)) for other in (0, 1, 2, 11)] == [1, 1, 2, 6]
    month = Integer(1, 12, epsilon=1, cyclic=True, max_epsilon=3, per=1)
    assert month.distances == Bent(Fraction(1), cap=Fraction(3), around=12)
    day = Ordinal(["mo", "tu", "we", "th", "fr", "sa", "su"], epsilon=1, cyclic=True)
    assert day.distance("su", "mo") == day.distance("mo", "tu") == 1
    assert Integer(0, 2, epsilon=1, cyclic=True, per=1).distances == Uniform(Fraction(1))
    turn = Continuous(0, 360, bins=36, epsilon=1, within=30, cyclic=True)
    assert turn.distance(355, 5) == 1
    assert "cyclic" not in Integer(0, 2, epsilon=1, per=1).to_dict()
    survey = Survey.design({"hour": hour, "month": month, "turn": turn})
    assert {mechanism.name for mechanism in survey.mechanisms.values()} == {"additive"}
    assert survey.certify().holds
    with pytest.raises(InvalidSpecError, match="cannot be cyclic"):
        Continuous(0, 1, points=5, epsilon=1, cyclic=True, per=1, rounding="stochastic")


EDGES = (0, 1, 2.5, 10, 11, 30, 100)


@pytest.mark.parametrize(
    "attribute",
    [
        Integer(0, 40, epsilon=1, within=4),
        Integer(0, 40, epsilon=1, within=2.5),
        Integer(0, 40, epsilon=0.5, within=3.3, max_epsilon=2),
        Integer(0, 40, epsilon=0.5, within=7, max_epsilon=2),
        Continuous(0, 100, bins=20, epsilon=1, within=10),
        Continuous(0, 100, bins=20, epsilon=1, within=12),
        Continuous(edges=(0, 9, 10, 19, 20, 29), epsilon=1, within=5),
        Continuous(0, 100, bins=20, epsilon=1, per=10, max_epsilon=3),
        Continuous(edges=EDGES, epsilon=1, within=10),
        Continuous(edges=EDGES, epsilon=1, within=10, max_epsilon=2),
    ],
    ids=str,
)
def test_positions_are_no_farther_apart_than_their_values(attribute):
    """For all pairs on a fine grid: what positions allow is at most what was promised."""
    low, high, epsilon = attribute.low, attribute.high, Fraction(str(attribute.epsilon))
    whole = attribute.kind == "integer"
    values = np.arange(low, high + 1) if whole else np.linspace(low, high, 201)
    for x, other in product(values.tolist(), repeat=2):
        if x == other:
            continue
        apart = abs(Fraction(x) - Fraction(other))
        if attribute.within is None:  # bins: a whole bin more, as it always was
            promised = epsilon * (apart / Fraction(attribute.per) + attribute.step / 10)
        else:
            promised = epsilon * math.ceil(apart / Fraction(str(attribute.within)))
        promised = min(promised, attribute.max_epsilon or promised)
        assert attribute.distance(x, other) <= promised, (x, other)


def test_windows_far_narrower_than_any_bin():
    """From bin to bin is one window each, however many there would be at once."""
    narrow = Continuous(edges=EDGES, epsilon=1, within=1e-300)
    assert [int(narrow.distance(0, value)) for value in (0.5, 1, 2.5, 10.5, 99)] == [0, 1, 2, 3, 5]
    assert Survey.design({"x": narrow}).certify().holds


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: Integer(0, 9, epsilon=1, within=0.5), "within 0.5 is less than one step"),
        (lambda: Integer(0, 9, epsilon=1, within=2, per=3), "not both"),
        (lambda: Integer(0, 9, epsilon=1, within=-1), "within must be"),
        (
            lambda: Integer(0, 9, epsilon=1, max_epsilon=0.5, per=1),
            "max_epsilon 0.5 is below the smallest distance, 1",
        ),
        (lambda: Integer(0, 9, epsilon=1, within=2, max_epsilon=0.5), "max_epsilon 0.5 is below"),
        (
            lambda: Integer(0, 9, epsilon=1, per=1e-320, max_epsilon=2),
            r"max_epsilon 2 is below the smallest distance, 1.\d+E\+320",
        ),
        (
            lambda: Integer(0, 9, epsilon=1, max_epsilon=1 - 2**-40, per=1),
            "max_epsilon 0.999999999999 is below the smallest distance, 1 ",
        ),
        (
            lambda: Integer(2, 7, epsilon=1, metric=Relative(0.5), max_epsilon=0.01),
            r"max_epsilon 0.01 is below the smallest distance, 0.3801\d+ between 6 and 7, the "
            "nearest two",
        ),
        (
            lambda: Categorical(
                list("ab"), epsilon=1, metric=Graph([("a", "b", 3)]), max_epsilon=2
            ),
            "max_epsilon 2 is below the smallest distance, 3 between a and b",
        ),
        (lambda: Categorical(["a", "b"], epsilon=1, within=1), "no 'within'"),
        (
            lambda: Survey.design(
                {"age": Integer(0, 9, epsilon=0.1, within=2, mechanism="tight-constraints")}
            ),
            "would be negative",
        ),
    ],
)
def test_what_cannot_be_promised_is_refused(made, why):
    with pytest.raises(InvalidSpecError, match=why) as wrong:
        made()
    assert "\n" not in str(wrong.value)


def test_a_survey_of_windows_from_file_to_answer(tmp_path):
    survey = Survey.design(
        {
            "age": Integer(0, 29, epsilon=1, within=5, max_epsilon=3),
            "income": Continuous(0, 100, bins=20, epsilon=1, within=20),
            "height": Continuous(0, 1, points=11, epsilon=2, within=0.3, rounding="stochastic"),
        }
    )
    assert {m.name for m in survey.mechanisms.values()} <= {"additive", "extremal"}
    assert survey.certify().holds
    survey.save(tmp_path / "survey.toml")
    again = Survey.load(tmp_path / "survey.toml")
    assert again.fingerprint == survey.fingerprint
    draw, n = np.random.default_rng(1), 4000
    people = {
        "age": draw.integers(0, 30, n),
        "income": draw.uniform(0, 100, n),
        "height": draw.uniform(0, 1, n),
    }
    tally = again.tally(survey.randomize(people))
    answer = tally.count({"age": (10, 19)})
    truth = int(((people["age"] >= 10) & (people["age"] <= 19)).sum())
    assert abs(answer.value - truth) < 6.2 * answer.stderr  # once in 10^9 runs
    assert (
        answer.stderr
        < 0.5
        * Survey.design({"age": Integer(0, 29, epsilon=1, per=5)})
        .expected_error({"age": (10, 19)}, n=n, prior="uniform")
        .stderr
    )


# Around a circle ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "values", "turn"),
    [
        (Integer(0, 23, epsilon=1, within=2, cyclic=True), [24, -1], 24),
        (Integer(1, 12, epsilon=1, cyclic=True, per=1), [0, 13], 12),
        (Integer(0, 2, epsilon=1, cyclic=True, per=1), [3], 3),
        (Continuous(0, 360, bins=36, epsilon=1, within=30, cyclic=True), [370.0, -1], 360),
        (Integer(0, 3, epsilon=1, metric=Graph([(k, (k + 1) % 4) for k in range(4)])), [4], 4),
    ],
    ids=str,
)
def test_nothing_is_clipped_around_a_circle(attribute, values, turn):
    """24 o'clock is not the last hour; no end is nearest."""
    for value, clip in product(values, (False, True)):
        with pytest.raises(InvalidValueError, match=f"reduce it modulo {turn}"):
            attribute.position(value, "x", clip=clip)
        with pytest.raises(InvalidValueError, match=f"reduce it modulo {turn}"):
            attribute.positions(np.array([0 if attribute.low == 0 else 1, value]), "x", clip=clip)
    inside = attribute.values_at(1)[0]
    assert attribute.position(inside, "x", clip=True) == 1
    assert Integer(0, 23, epsilon=1, per=1).position(24, "x", clip=True) == 23


def test_ranges_of_bins_go_over_the_end():
    turn = Continuous(0, 360, bins=36, epsilon=1, within=30, cyclic=True)
    chosen = turn.choose((350, 20), "turn")
    assert np.flatnonzero(chosen.inside).tolist() == [0, 1, 35]
    assert chosen.note is None
    with pytest.raises(QueryError, match="350 and 360; 21 lies between the edges 20 and 30"):
        turn.choose((352, 21), "turn")
    assert np.flatnonzero(turn.choose((360, 20), "turn").inside).tolist() == [0, 1]
    for words in ((360, 0), (400, 20), (20, -5)):
        with pytest.raises(QueryError, match=r"narrower than a bin|empty range"):
            turn.choose(words, "turn")
    with pytest.raises(QueryError, match="its ends are swapped"):
        Continuous(0, 360, bins=36, epsilon=1, per=1).choose((350, 20), "turn")


def test_a_circle_stays_one_where_all_its_values_are_alike():
    hour = Integer(0, 23, epsilon=1, within=12, cyclic=True)
    assert hour.distances == Uniform(Fraction(1))
    assert np.flatnonzero(hour.choose((22, 1), "hour").inside).tolist() == [0, 1, 22, 23]


def test_bins_of_different_widths_do_not_go_round():
    """They were taken for a line, on which the last is farthest from the first."""
    with pytest.raises(
        InvalidSpecError, match="bins of different widths do not go around a circle"
    ):
        Continuous(edges=[0, 1, 5, 10], epsilon=1, cyclic=True, per=1)
    even = Continuous(edges=[0, 5, 10, 15, 20], epsilon=1, cyclic=True, per=1)
    assert even.distance(1, 19) == Continuous(
        0, 20, bins=4, epsilon=1, cyclic=True, per=1
    ).distance(1, 19)


def test_edges_are_told_apart():
    far = Continuous(1e6, 1e6 + 1, bins=4, epsilon=1, per=1)
    assert far.label(1) == "1,000,000.25 to 1,000,000.5"
    assert Continuous(0, 1, bins=7, epsilon=1, per=1).label(1) == "0.142857 to 0.285714"


@pytest.mark.parametrize("more", [{}, {"max_epsilon": 3}])
@pytest.mark.parametrize("mechanism", ["extremal", "randomized-response", "geometric"])
def test_within_one_step_of_values_rounded_at_random_is_epsilon_for_each_step(mechanism, more):
    """A manifest cannot tell the two apart, and epsilon for each step is at least as strong."""
    common = {"epsilon": 1, "points": 6, "rounding": "stochastic", "mechanism": mechanism, **more}
    within, per = (
        Survey.design({"v": Continuous(0, 10, **{key: 2}, **common)}) for key in ("within", "per")
    )
    assert within.certify().holds
    assert within.fingerprint == per.fingerprint
    assert within.randomize({"v": [3.5]}).num_rows == 1
