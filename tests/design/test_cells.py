"""Several attributes as one: metrics on the cells of a grid, and what blurs cells."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from checks import assert_counts
from metricldp import (
    Categorical,
    Coins,
    Continuous,
    Cyclic,
    Integer,
    Ledger,
    Lp,
    QueryError,
    Survey,
    SurveyError,
)
from metricldp.answers.tally import Tally
from metricldp.basics.exact import at_most_exp
from metricldp.channels.cells import REPORT
from metricldp.coins.tape import Tape
from metricldp.design.cells import grid_of
from metricldp.metrics.closed import closure
from metricldp.metrics.grid import Axis, Grid, in_plane

BOTH = ("east", "north")


def side(size, **said):
    return Integer(0, size - 1, **said)


def place(*sizes, **said):
    return {name: side(size, **said) for name, size in zip(BOTH, sizes, strict=True)}


def blurred(attributes, name, metric="plane", **more):
    how = {"name": name, "metric": metric, **more}
    return Survey(attributes, joint={tuple(attributes)[:2]: how})


WITHIN = {"epsilon": 1, "within": 2}
SURVEYS = {
    "shaped, plane": lambda: blurred(place(3, 4, **WITHIN), "shaped"),
    "shaped, bins": lambda: blurred(
        {name: Continuous(0, 3, bins=3, epsilon=1, within=1) for name in BOTH}, "shaped"
    ),
    "shaped, sum": lambda: blurred(place(3, 3, epsilon=0.5), "shaped", "sum"),
    "shaped, cap": lambda: blurred(place(3, 4, epsilon=1, within=1, cap=2), "shaped"),
    "shaped, lines": lambda: blurred(place(2, 3, epsilon=1), "shaped"),
    "designed, plane": lambda: blurred(place(3, 3, **WITHIN), "designed"),
    "designed, circle": lambda: blurred(
        {"hour": Cyclic(4, epsilon=1), "kind": Categorical(["a", "b", "c"], epsilon=1)},
        "designed",
        "sum",
    ),
    "tents, plane": lambda: blurred(place(3, 3, epsilon=1), "tents"),
    "tents, sum": lambda: blurred(place(2, 3, epsilon=0.3), "tents", "sum"),
}
made = {}


@pytest.fixture(params=SURVEYS)
def survey(request):
    if request.param not in made:
        made[request.param] = SURVEYS[request.param]()
    return made[request.param]


# Metrics on cells


def axis(size, *, windows=True, in_bins=False, step=Fraction(1), epsilon=1, cap=None):
    return Axis(size, Fraction(epsilon), Fraction(step), windows, in_bins, cap)


def test_whole_numbers_in_the_plane_are_windows_apart():
    grid = in_plane([axis(9, step=Fraction(1, 3)), axis(7, step=Fraction(1, 3))])
    for a, b in np.ndindex(9, 7):
        assert grid.numbers[a, b] == math.ceil(math.sqrt(a * a + b * b) / 3 - 1e-12)


def test_two_places_within_the_radius_are_never_farther_apart_than_epsilon():
    """Wherever they lie in their bins, and twice that within twice the radius, and so on."""
    radius, rng = 1.7, np.random.default_rng(1)
    sides = {name: Continuous(0, 8, bins=16, epsilon=1, within=radius) for name in BOTH}
    grid = grid_of(sides, "plane")
    first = rng.uniform(0, 8, (40_000, 2))
    turn, far = rng.uniform(0, 2 * math.pi, 40_000), rng.uniform(0, 5, 40_000)
    second = first + far[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    inside = ((second >= 0) & (second < 8)).all(axis=1)
    far = np.sqrt(((first - second) ** 2).sum(axis=1))
    apart = np.abs((first // 0.5).astype(int) - (second // 0.5).astype(int))[inside]
    allowed = np.ceil(far[inside] / radius)
    assert (grid.numbers[apart[:, 0], apart[:, 1]] <= allowed).all()
    # And no less than that is promised: somebody is as far apart as allowed.
    assert (grid.numbers[apart[:, 0], apart[:, 1]] == allowed).mean() > 0.2
    naive = np.ceil(np.sqrt((apart**2).sum(axis=1)) * 0.5 / radius)  # from middle to middle
    assert (naive > allowed).any()


@pytest.mark.parametrize(
    "axes",
    [
        (axis(4, in_bins=True, step=Fraction(2, 3)), axis(5, in_bins=True, step=Fraction(2, 3))),
        (axis(4, step=Fraction(1, 2)), axis(5, in_bins=True, step=Fraction(1, 3))),
        (axis(4, windows=False), axis(5, windows=False, epsilon=Fraction(3, 7))),
        (axis(4, cap=Fraction(5, 2)), axis(5, cap=Fraction(5, 2))),
        (axis(4, windows=False, cap=Fraction(5, 2)), axis(3, windows=False, cap=Fraction(5, 2))),
    ],
)
def test_a_grid_is_a_metric_and_generated_by_its_pairs(axes):
    grid = in_plane(axes)
    size = grid.numbers.size
    whole = grid.whole(size)
    assert np.array_equal(whole, closure(whole.copy()))
    assert (whole[~np.eye(size, dtype=bool)] > 0).all()
    pairs = list(grid.generating_pairs(size))
    assert len(pairs) == len(set(pairs)) == grid.generating_count(size)
    far = np.full((size, size), 10 * int(whole.max()), dtype=np.int64)
    np.fill_diagonal(far, 0)
    for x, other in pairs:
        assert grid.distance(x, other) == grid.step * int(whole[x, other])
        far[x, other] = far[other, x] = whole[x, other]
    assert np.array_equal(closure(far), whole)
    assert grid.smallest(size) == grid.step * int(whole[whole > 0].min())
    assert grid.diameter(size) == grid.step * int(whole.max())
    coarse = grid.coarser(8)
    assert np.array_equal(coarse.whole(size), closure(coarse.whole(size).copy()))
    assert (coarse.whole(size) * coarse.step <= whole * grid.step).all()


def test_straight_lines_are_rounded_down_by_very_little():
    grid = in_plane([axis(4, windows=False), axis(5, windows=False, epsilon=2)])
    for x, other in itertools.combinations(range(20), 2):
        (a, b), (c, d) = grid.cell(x), grid.cell(other)
        exact = math.hypot(a - c, 2 * (b - d))
        assert exact - 1e-5 < float(grid.distance(x, other)) <= exact


def test_distances_add_up():
    sides = {"hour": Cyclic(6, epsilon=1), "age": side(5, epsilon=0.3, within=2, cap=0.5)}
    grid = grid_of(sides, "sum")
    for x, other in itertools.product(range(30), repeat=2):
        pairs = zip(sides.values(), grid.cell(x), grid.cell(other), strict=True)
        assert grid.distance(x, other) == sum(a.distances.distance(p, q) for a, p, q in pairs)


# Channels


def cells_of(block):
    return list(np.ndindex(*block.sizes))


def test_the_loss_of_all_reports_is_within_the_metric(survey):
    (block,) = survey.blocks.values()
    channel, promised = block.channel, grid_of(survey.attributes, block.mechanism.metric)
    reports = range(channel.one.outputs)
    laws = [[channel.probability(x, {REPORT: y}) for y in reports] for x in cells_of(block)]
    assert all(sum(law) == 1 for law in laws)
    for x, other in itertools.combinations(range(len(laws)), 2):
        ratios = [max(p / q, q / p) for p, q in zip(laws[x], laws[other], strict=True)]
        assert max(ratios) == channel.worst_ratio(promised.cell(x), promised.cell(other))
        assert at_most_exp(max(ratios), promised.distance(x, other))
    assert survey.certify().holds
    chances = np.array(laws, dtype=float)
    assert np.allclose(chances, channel._shares, rtol=1e-12)


def functions_of(block, count=3, seed=5):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(count, size)) for size in block.sizes]


def expanded(terms, block):
    total = np.zeros((len(terms[0].scale), *block.sizes))
    for term in terms:
        first, second = term.factors
        total += term.scale[:, None, None] * first[:, :, None] * second[:, None, :]
    return total.reshape(len(total), -1)


def enumerated(block):
    """What decoders of products, and their moments, are by all reports."""
    channel, f, g = block.channel, functions_of(block), functions_of(block, seed=6)
    every = channel.every_report()
    laws = np.array(
        [
            [float(channel.probability(x, {REPORT: y})) for y in range(channel.one.outputs)]
            for x in cells_of(block)
        ]
    )
    F, G = channel.decoded(f, every), channel.decoded(g, every)
    true = (f[0][:, :, None] * f[1][:, None, :]).reshape(3, -1)
    means = np.allclose(F @ laws.T, true, atol=1e-8)
    seconds = np.allclose((F * G) @ laws.T, expanded(channel.moment(f, g), block), rtol=1e-8)
    return means, seconds, np.allclose(np.abs(F).max(axis=1), channel.influence(f))


def test_decoders_are_unbiased_with_exact_moments(survey):
    (block,) = survey.blocks.values()
    assert enumerated(block) == (True, True, True)


def test_broken_decoders_are_caught():
    (block,) = SURVEYS["tents, sum"]().blocks.values()
    block.channel.__dict__["_decoder"] = block.channel._decoder * 1.001
    assert not enumerated(block)[0]
    block.channel.__dict__["_shares"] = np.roll(block.channel._shares, 1, axis=0)
    assert not enumerated(block)[1]


@pytest.mark.parametrize("name", ["shaped, plane", "tents, sum"])
def test_both_samplers_have_the_law(name):
    (block,) = SURVEYS[name]().blocks.values()
    coins, n = Coins.seeded(3), 60_000
    for x in cells_of(block)[:5]:
        law = [block.channel.probability(x, {REPORT: y}) for y in range(block.channel.one.outputs)]
        positions = [np.full(n, p) for p in x]
        drawn = block.channel.encode(positions, coins)[REPORT]
        assert_counts(np.bincount(drawn, minlength=len(law)), law, false_alarm=1e-8)
        tape = Tape(coins)
        one = Counter(block.channel.blur(x, tape) for _ in range(5_000))
        assert_counts([one[y] for y in range(len(law))], law, false_alarm=1e-8)


# Surveys


def test_files_say_it_all(survey):
    for again in (Survey.from_toml(survey.to_toml()), Survey.from_json(survey.to_json())):
        assert again == survey
        assert again.canonical == survey.canonical


def test_answers_from_reports_totals_and_parts_are_the_same(survey, tmp_path):
    n, rng = 4_000, np.random.default_rng(2)
    people = {}
    for name, described in survey.attributes.items():
        values = [described.values_at(k)[0] for k in range(described.size)]
        people[name] = [values[k] for k in rng.integers(0, described.size, n)]
    reports = survey.encode(people, coins=Coins.seeded(1))
    first, second = survey.attributes
    where = {first: people[first][0], second: people[second][0]}
    whole = survey.tally(reports)
    kept = survey.tally(reports, keep=[(first,)])
    kept.save(tmp_path / "a.totals")
    kept = Tally.load(survey, tmp_path / "a.totals")
    parts = survey.tally(reports.slice(0, 1_000)) + survey.tally(reports.slice(1_000))
    for asked in (where, {first: where[first]}, {second: where[second]}):
        answers = [tally.count(asked) for tally in (whole, kept, parts)]
        assert len({round(answer.value, 6) for answer in answers}) == 1
        assert len({round(answer.stderr, 6) for answer in answers}) == 1
        true = sum(all(people[k][i] == v for k, v in asked.items()) for i in range(n))
        assert abs(answers[0].value - true) < 6.5 * answers[0].stderr


def test_errors_are_the_predicted_ones():
    """The mean square of a rectangle's answers over many collections: within 5 % at 6 sigma."""
    survey = SURVEYS["shaped, plane"]()
    where, n, times = {"east": (1, 2), "north": (0, 1)}, 40, 3_000
    people = {"east": np.tile(np.arange(n) % 3, times), "north": np.tile(np.arange(n) % 4, times)}
    reports = survey.encode(people, coins=Coins.seeded(4))
    (block,) = survey.blocks.values()
    inside = [np.array([[0.0, 1, 1]]), np.array([[1.0, 1, 0, 0]])]
    column = reports.column("east+north").to_numpy()
    sums = block.channel.decoded(inside, {REPORT: column})[0].reshape(times, n).sum(axis=1)
    shares = np.zeros((3, 4))
    np.add.at(shares, (np.arange(n) % 3, np.arange(n) % 4), 1 / n)
    expected = survey.predict(where, n=n, prior=shares) ** 2
    true = sum(k % 3 >= 1 and k % 4 <= 1 for k in range(n))
    assert abs(((sums - true) ** 2).mean() / expected - 1) < 6 * math.sqrt(2 / times)


def test_shaped_noise_is_near_the_best_and_far_better_than_planar_laplace():
    """4 x 4 cells, within 1 cell: all rectangles, mean variance per person."""
    sides = place(4, 4, epsilon=1, within=1)

    def variance(survey):
        ranges = [(a, b) for a in range(4) for b in range(a, 4)]
        asked = itertools.product(ranges, repeat=2)
        boxes = [dict(zip(BOTH, ends, strict=True)) for ends in asked]
        return np.mean([survey.predict(box, n=1, prior="uniform") ** 2 for box in boxes])

    planar = Survey(place(4, 4, epsilon=1), joint={BOTH: "planar-laplace"})
    shaped, designed = (variance(blurred(sides, name)) for name in ("shaped", "designed"))
    assert designed == pytest.approx(1.554, rel=0.01)
    assert designed < shaped < 1.12 * designed
    assert variance(planar) > 2 * shaped


def test_what_stays_the_same_for_attributes_beside_a_place():
    alone = Survey({"age": side(10, epsilon=1)})
    survey = Survey(
        {"east": side(3, **WITHIN), "age": side(10, epsilon=1), "north": side(3, **WITHIN)},
        joint={BOTH: {"name": "shaped", "metric": "plane"}},
    )
    assert survey.channels["age"].law() == alone.channels["age"].law()
    assert list(survey.fields) == ["east+north", "age"]
    ledger = Ledger()
    ledger.add(survey)
    assert ledger.spent("east", 0, 2) == 1
    assert ledger.together == survey.blocks["east+north"].diameter + 9
    assert "at most 2.72 times as likely" in str(survey.explain(n=100))
    assert "neighbouring cells may be told apart by the whole epsilon" in str(
        survey.explain(n=100)
    ).replace("\n", " ")


# What is refused


def broken(survey, **changes):
    data = survey.to_dict()
    data["joint"][0]["mechanism"] |= changes
    return data


def test_patterns_and_shapes_that_break_the_metric_are_refused():
    """A depth that is off by more than one, wherever it is, or a ring of other lengths."""
    survey = SURVEYS["shaped, plane"]()
    for place_of in range(0, 20, 3):
        patterns = list(survey.to_dict()["joint"][0]["mechanism"]["patterns"])
        digits = list(patterns[0])
        digits[place_of] = str(int(digits[place_of]) + 2)
        patterns[0] = "".join(digits)
        if "0" not in digits:
            continue
        with pytest.raises(SurveyError, match="steps apart better than the metric allows"):
            Survey.from_dict(broken(survey, patterns=patterns))
    with pytest.raises(SurveyError, match=r"steps apart better|do not go around"):
        Survey.from_dict(broken(survey, around=survey.blocks["east+north"].mechanism.around[::-1]))
    with pytest.raises(SurveyError, match="around has a whole number for each attribute"):
        Survey.from_dict(broken(survey, around=[2, 100]))
    designed = SURVEYS["designed, plane"]()
    shapes = list(designed.to_dict()["joint"][0]["mechanism"]["shapes"])
    shapes[1] = "0" * 8 + "9"
    with pytest.raises(SurveyError, match=r"shape 1 tells .* apart better than the metric allows"):
        Survey.from_dict(broken(designed, shapes=shapes))


def test_a_certificate_follows_the_attributes_and_not_the_file():
    """A channel for one epsilon is not certified for a smaller one."""
    survey = SURVEYS["shaped, plane"]()
    other = blurred(place(3, 4, epsilon=0.9, within=2), "shaped")
    (block,) = survey.blocks.values()
    other.blocks = {"east+north": replace(block, names=BOTH)}
    (proof,) = other.certify().proofs
    assert not proof.holds


PLANE = {"name": "shaped", "metric": "plane"}


@pytest.mark.parametrize(
    ("attributes", "joint", "message"),
    [
        (place(40, 40, **WITHIN), PLANE, "40 x 40 cells are too many .* at most 1,024"),
        (
            place(11, 10, **WITHIN),
            {**PLANE, "name": "designed"},
            "110 cells are too many to be",
        ),
        (place(3, 3, epsilon=1), {**PLANE, "metric": "air"}, 'metric is "sum" or "plane", not '),
        (place(3, 3, epsilon=1), {**PLANE, "size": 3}, "'shaped' has no entry 'size'"),
        (
            {"east": side(3, epsilon=1, within=1), "north": side(3, epsilon=1)},
            PLANE,
            "say within for both, or per for both",
        ),
        (
            {"east": side(3, epsilon=1, within=1), "north": side(3, epsilon=2, within=1)},
            PLANE,
            "epsilon within a distance in the plane must be the same",
        ),
        (
            {"east": side(3, epsilon=1, cap=2), "north": side(3, epsilon=1)},
            PLANE,
            "a cap is for the distance in the plane; state the same for both",
        ),
        (
            {"hour": Cyclic(5, epsilon=1), "north": side(3, epsilon=1)},
            PLANE,
            "hour is no side of a plane: that takes evenly spaced numbers along a line",
        ),
        (
            {**place(3, 3, epsilon=1), "up": side(3, epsilon=1)},
            PLANE,
            "a plane has two attributes, not 3",
        ),
        (place(4, 4, epsilon=0.3), {**PLANE, "name": "tents"}, "would need a probability below 0"),
        (place(3, 3, epsilon=1e-9), PLANE, "epsilon is too small for cells to be told apart"),
    ],
)
def test_refused(attributes, joint, message):
    with pytest.raises(SurveyError, match=message) as refused:
        Survey(attributes, joint={tuple(attributes): joint})
    assert "\n" not in str(refused.value)


def test_the_norm_of_a_survey_and_that_of_a_place():
    """A window in the plane may be more than the root of the sum of squares, and a sum is."""
    lines = Survey(place(3, 3, epsilon=1), metric=Lp(2), joint={BOTH: PLANE})
    assert lines.certify().holds
    with pytest.raises(SurveyError, match="has a norm with p up to 1"):
        Survey(place(3, 3, **WITHIN), metric=Lp(2), joint={BOTH: PLANE})
    with pytest.raises(SurveyError, match="has a norm with p up to 1"):
        Survey(place(3, 3, epsilon=1), metric=Lp(2), joint={BOTH: "shaped"})


def test_within_and_cap_are_refused_where_they_say_nothing():
    with pytest.raises(SurveyError, match=r"within 0\.2 is less than one step of the grid, 0\.5"):
        Continuous(0, 8, bins=16, epsilon=1, within=0.2)
    with pytest.raises(SurveyError, match=r"cap 0\.5 is below the smallest distance, 1"):
        Continuous(0, 8, bins=16, epsilon=1, within=1, cap=0.5)


def test_what_totals_hold_of_blocks():
    survey = Survey(place(3, 3, epsilon=1), joint={BOTH: "hio"})
    with pytest.raises(QueryError, match="east is a joint attribute"):
        survey.tally(survey.encode({"east": [1], "north": [2]}), keep=[("east",)])


def test_three_attributes_as_one():
    """At a tenth per step the product of three channels has over 100 times the error."""
    sides = {name: side(3, epsilon=0.1) for name in "abc"}
    joint = Survey(sides, joint={("a", "b", "c"): "shaped"})
    assert joint.certify().holds
    corner = dict.fromkeys(sides, (0, 1))
    product = Survey({name: replace(a, mechanism="threshold") for name, a in sides.items()})
    assert product.predict(corner, n=1, prior="uniform") ** 2 > 100 * (
        joint.predict(corner, n=1, prior="uniform") ** 2
    )


def test_equal_grids_are_equal():
    one, two = (in_plane([axis(3), axis(4)]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != one.scaled(Fraction(1, 2))
    assert isinstance(one, Grid)
