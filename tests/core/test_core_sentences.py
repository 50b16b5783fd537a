"""Sentences about the guarantee are never stronger than what metrics and distributions give."""

import random
import re
from fractions import Fraction
from itertools import combinations

import pytest
from core_cases import (
    W,
    field,
    integer,
    largest_quotient,
    manifest,
    optional,
    probabilities,
    simple,
)

from metricldp.channels.plain_data import plain_data
from metricldp_core import Manifest
from metricldp_core.distributions import (
    Geometric,
    LazyGeometric,
    Memoised,
    RandomizedResponse,
    Table,
    Threshold,
)
from metricldp_core.exact import at_most_exp, exp_bounds
from metricldp_core.guarantee import (
    attribute_epsilon,
    close_values,
    factor,
    fields_with_responses,
    largest_epsilon,
    no_response,
    rounded_up,
    sentences,
    total_epsilon,
)

F = Fraction
LINE = {"kind": "line", "epsilon": "1/2"}
RING = {**LINE, "ring": True}


def number(name="x", low=0, high=6, **more):
    return {"name": name, "kind": "continuous", "low": low, "high": high, **more}


def names(count, **more):
    return {"name": "x", "kind": "ordinal", "names": [f"n{k}" for k in range(count)], **more}


def graph(lengths, pairs=None):
    return {"kind": "graph", "step": "1/4", "lengths": lengths} | (
        {"pairs": pairs} if pairs else {}
    )


def noise(size):
    """Noise with a loss of about 1/8 per step."""
    return Threshold(size, (int(W * 0.47),) * (size - 1))


def one(domain, metric, distribution=None):
    """The field of a manifest with one attribute; by default its reports tell little."""
    size = domain.get("bins") or domain.get("points") or len(domain.get("names", ()))
    size = size or len(domain.get("edges", ())) - 1
    if domain["kind"] == "integer":
        size = domain["high"] - domain["low"] + 1
    text = manifest(field(domain, metric, distribution or RandomizedResponse(size, W - 1)))
    return Manifest.parse(text).fields[0]


# Values that are called close --------------------------------------------------------------------


def values(domain):
    """Values of a domain with the positions of each: on both sides of each edge, between points."""
    if domain.kind == "integer":
        return [(F(v), v - domain.low) for v in range(domain.low, domain.high + 1)]
    if domain.kind == "ordinal":
        return [(F(x), x) for x in range(domain.size)]
    if domain.stochastic:
        step = (F(domain.high) - F(domain.low)) / (domain.points - 1)
        return [(F(domain.low) + step * k / 12, F(k, 12)) for k in range(12 * domain.points - 11)]
    edges = [F(edge) for edge in domain.edges]
    inside = [(0, F(1, 1 << 40), F(1, 3), F(1, 2), 1 - F(1, 1 << 40))] * domain.size
    return [
        (low + part * (high - low), k)
        for k, (low, high, parts) in enumerate(zip(edges, edges[1:], inside, strict=False))
        for part in parts
        # The upper end of a circle is the same point as the lower one, but in the last bin.
    ] + [(edges[-1], domain.size - 1)] * (not domain.cyclic)


def is_close(domain, v, other):
    """Whether the survey calls two values close."""
    low, high, whole = min(v, other), max(v, other), domain.kind in ("integer", "ordinal")
    if domain.ratio is not None:
        return high <= low * (1 + F(domain.ratio))
    apart = high - low
    if getattr(domain, "cyclic", False):
        apart = min(apart, (domain.size if whole else F(domain.high - domain.low)) - apart)
    return apart <= max(F(domain.within), int(whole))


def along(one_field, x, other):
    """The distance that is guaranteed for two positions, by shortest paths; between points too."""
    metric = one_field.metric
    if one_field.stochastic and metric.kind == "line" and metric.width == 1:
        far = metric.epsilon * abs(x - other)
        return far if metric.cap is None else min(far, metric.cap)
    if metric.kind == "line":
        return metric.at(abs(x - other))
    return metric.distance(x, other)


def check_close(domain, metric):
    """The stated epsilon is that of the farthest two values that are called close."""
    checked = one(domain, metric)
    parsed, across = checked.domains[0], attribute_epsilon(checked)
    pairs = list(combinations(values(parsed), 2))
    far = max(along(checked, x, other) for (_, x), (_, other) in pairs)
    assert across >= far
    close = [along(checked, x, y) for (v, x), (w, y) in pairs if v != w and is_close(parsed, v, w)]
    stated = close_values(checked)
    epsilon = across if stated is None else stated[1]
    assert epsilon >= max(close, default=0)
    if stated is not None:
        rounding = F(1, 1 << 32) if parsed.stochastic else 0
        assert epsilon - max(close, default=0) <= rounding
        assert epsilon < across


CLOSE = [
    *((integer(high=9, within=w), LINE) for w in ("0.5", "1", "2.5", "3", "20")),
    *((integer(high=9, within=w), {**LINE, "width": "5/2"}) for w in ("2", "3", "5", "8")),
    *((integer(high=9, within=w), {**LINE, "width": "2", "cap": "5/4"}) for w in ("2", "3", "7")),
    *(
        (integer(high=9, within=w, cyclic=True), {**LINE, "ring": True})
        for w in ("1", "4", "5", "9")
    ),
    (integer(high=8, within="3", cyclic=True), {**LINE, "ring": True, "width": "3/2"}),
    *((integer(high=4, within=w), graph([1, 9, 2, 3])) for w in ("1", "2", "3")),
    *((integer(high=4, within=w, cyclic=True), graph([1, 9, 2, 3])) for w in ("1", "2")),
    *(
        (integer(high=3, within=w), graph([8, 7, 6, 1], [[0, 1], [1, 2], [2, 3], [0, 2]]))
        for w in ("1", "2")
    ),
    *((integer(low=3, high=20, ratio=r), LINE) for r in ("0.1", "0.5", "1", "7")),
    (integer(low=3, high=8, ratio="0.5"), graph([3, 1, 4, 1, 5])),
    *((names(5, within=w), graph([1, 9, 2, 3])) for w in ("1", "2")),
    (names(5, within="1", cyclic=True), {**LINE, "ring": True}),
    *((number(bins=6, within=w), LINE) for w in ("0.25", "1", "1.5", "2")),
    *((number(bins=6, within=w), {**LINE, "width": "3"}) for w in ("1", "2", "2.5")),
    *((number(bins=6, within=w, cyclic=True), {**LINE, "ring": True}) for w in ("1", "2.5")),
    *((number(high=8, points=5, within=w), LINE) for w in ("0.5", "2", "3", "100")),
    *((number(high=8, points=5, within=w), {**LINE, "cap": "3/4"}) for w in ("2", "3", "5")),
    *((number(high=8, points=5, within=w), {**LINE, "width": "3/2"}) for w in ("3", "4", "6.5")),
    *(
        ({"name": "x", "kind": "continuous", "edges": [0, 1, 1.5, 4, 5], "within": w}, metric)
        for w in ("0.25", "1", "2.5")
        for metric in (LINE, graph([3, 1, 2]))
    ),
    *(
        ({"name": "x", "kind": "continuous", "edges": [0.5, 1, 1.5, 4, 5], "ratio": r}, metric)
        for r in ("0.25", "1", "3")
        for metric in (LINE, graph([3, 1, 2]))
    ),
]


@pytest.mark.parametrize(("domain", "metric"), CLOSE, ids=lambda part: str(part)[:60])
def test_close_values_have_the_epsilon_of_the_farthest_two(domain, metric):
    check_close(domain, metric)


def test_close_values_of_joint_attributes():
    """Along each attribute, all else being equal, also around the circle of a cyclic one."""
    steps = [[0, 1, 3], [1, 0, 5], [0, 2, 4], [2, 0, 6], [1, 1, 7], [0, 4, 3]]
    grid = {"kind": "grid", "step": "1/8", "sizes": [4, 5], "steps": steps}
    for cyclic in ({}, {"cyclic": True}):
        domains = [integer("a", high=3, within="1"), integer("b", high=4, within="2", **cyclic)]
        text = manifest(field(domains, grid, RandomizedResponse(20, W // 20 * 3)))
        checked = Manifest.parse(text).fields[0]
        for k, (domain, stride) in enumerate(zip(checked.domains, (5, 1), strict=True)):
            pairs = [
                (x, o) for x, o in combinations(range(domain.size), 2) if is_close(domain, x, o)
            ]
            known = max(checked.metric.distance(x * stride, o * stride) for x, o in pairs)
            stated, across = close_values(checked, k), attribute_epsilon(checked, k)
            assert (across if stated is None else stated[1]) >= min(known, across)
            far = max(checked.metric.distance(0, x * stride) for x in range(domain.size))
            assert across == min(far, largest_epsilon(checked))


def test_closest_values_are_named_if_none_are_stated():
    words, epsilon = close_values(one(names(4), graph([5, 2, 3])))
    assert (words, epsilon) == ("n1 as for n2, the closest two values", F(1, 2))
    words, epsilon = close_values(one(names(4), graph([2, 2, 2], [[0, 1], [1, 2], [1, 3]])))
    assert (words, epsilon) == ("one x as for another if one is n1", F(1, 2))
    assert (
        close_values(one(number(bins=4), LINE))[0] == "bin 1 as for bin 2, the closest two values"
    )
    assert close_values(one(number(points=4), LINE)) is None
    assert close_values(one(integer(), {"kind": "uniform", "epsilon": "1"})) is None


# All values, and no response ---------------------------------------------------------------------


def losses(one_field):
    """Whether each pair of positions is within an epsilon."""
    size = one_field.distribution.size
    known = [probabilities(one_field.distribution, x) for x in range(size)]
    return [largest_quotient(known[x], known[o]) for x, o in combinations(range(size), 2)]


def test_largest_epsilon_is_that_of_the_metric_or_the_distribution():
    rng = random.Random(1)
    for size in (2, 3, 5):
        for distribution in (
            RandomizedResponse(size, rng.randrange(W // size, W)),
            noise(size),
            Geometric(size, W // 3, (W // 3,), W // 5),
            Table(tuple((v, W - v) for v in (rng.randrange(1, W) for _ in range(size)))),
        ):
            for epsilon in ("1/1000", "1", "50"):
                checked = one(
                    integer(high=size - 1), {"kind": "uniform", "epsilon": epsilon}, distribution
                )
                stated = largest_epsilon(checked)
                assert stated <= F(epsilon)
                if stated < F(epsilon):
                    assert all(at_most_exp(ratio, stated) for ratio in losses(checked))


def test_saturated_ratios_do_not_make_an_epsilon_smaller():
    """The bound of 5,000 threshold bits is beyond all numbers that are used."""
    distribution = Threshold(5000, (W // 100,) * 4999)
    checked = one(integer(high=4999), {"kind": "line", "epsilon": "5"}, distribution)
    assert largest_epsilon(checked) == 5 * 4999


def test_no_response_is_the_middle_and_another_field():
    """The farthest value from the middle, plus the epsilon of whether there is a response."""
    response_epsilon = None
    cases = [
        (integer(high=4), LINE),
        (integer(high=5, cyclic=True), {**LINE, "ring": True}),
        (integer(high=4), graph([1, 9, 2, 3])),
        (integer(high=4), {"kind": "uniform", "epsilon": "3/2"}),
        (names(4), graph([5, 2, 3])),
        ({"name": "x", "kind": "continuous", "edges": [0, 1, 2, 100, 101]}, graph([8, 1, 1])),
        ({"name": "x", "kind": "continuous", "edges": [0, 97, 98, 99, 100]}, graph([1, 1, 8])),
        (number(bins=5), {**LINE, "width": "3/2"}),
        (number(points=5), LINE),
        (number(points=4), {**LINE, "width": "3/2"}),
        (number(points=4), {"kind": "uniform", "epsilon": "3/2"}),
        (number(kind="weight", private=True), {"kind": "uniform", "epsilon": "3/2"}),
    ]
    for domain, metric in cases:
        value, response = optional(domain)
        value["metric"] = metric
        value["distribution"] = {**value["distribution"], "keep": "ffffffffffffffff"}
        parsed = Manifest.parse(manifest(value, response))
        ((checked, of_response),) = fields_with_responses(parsed)
        response_epsilon = largest_epsilon(of_response)
        read = checked.domains[0]
        middle = read.position(read.middle)
        middle = F(middle, 1 << 32) if checked.stochastic else middle
        ends = range(read.size)
        far = max(along(checked, middle, x) for x in ends)
        assert no_response(checked, of_response) == far + response_epsilon
        assert total_epsilon(parsed) == max(far + response_epsilon, largest_epsilon(checked))


def test_all_attributes_together_have_the_sum():
    text = manifest(
        field(
            integer("a", high=3), {"kind": "line", "epsilon": "1/3"}, RandomizedResponse(4, W - 1)
        ),
        *optional(integer("b", high=2)),
        {"attributes": [{"name": "w", "kind": "weight", "low": 0, "high": 1}]},
        simple(integer("c"), "1/7"),
    )
    parsed = Manifest.parse(text)
    a, b, c = fields_with_responses(parsed)
    parts = [
        largest_epsilon(a[0]),
        max(largest_epsilon(b[0]), no_response(*b)),
        largest_epsilon(c[0]),
    ]
    assert total_epsilon(parsed) == sum(parts)
    # Two respondents who differ in everything, by enumeration of the fields.
    worst = F(1)
    for one_field in parsed.fields:
        if one_field.distribution is not None:
            worst *= max(losses(one_field))
    assert parts[0] == 1  # the metric of a, whose distribution reveals more
    assert at_most_exp(worst / max(losses(a[0])), sum(parts[1:]))


# Numbers in sentences ----------------------------------------------------------------------------


def check_factors():
    """Factors and epsilons in sentences are never below the exact ones, and close to them."""
    rng = random.Random(2)
    epsilons = [F(1, 10**k) for k in (1, 2, 5, 9, 11, 12, 15, 30, 300)]
    epsilons += [F(rng.randrange(1, 10**6), 10 ** rng.randrange(4, 7)) for _ in range(300)]
    epsilons += [F(k, 8) for k in range(1, 130)] + [F(0), F(13), F(1 << 40)]
    for epsilon in epsilons:
        text = factor(epsilon)
        shown = F(text.replace(",", "").removeprefix("e^"))
        if text.startswith("e^"):
            assert shown >= epsilon >= 13
            assert shown <= epsilon * (1 + F(1, 1000))
        else:
            upper = exp_bounds(epsilon)[1]
            assert shown >= upper
            above = F(1, 100) * (upper if upper >= F(11, 10) else upper - 1) + F(1, 10**12)
            assert shown - upper <= above


def test_factors_are_rounded_up():
    check_factors()
    assert factor(F(1)) == "2.72"
    assert factor(F(1, 10)) == "1.11"
    assert factor(F(1, 100)) == "1.0101"
    assert factor(F(9)) == "8,104"
    assert factor(F(20)) == "e^20"
    assert factor(F(200001, 10000)) == "e^20.01"


def test_numbers_are_rounded_up_to_four_digits():
    for value, text in (
        (F(1, 3), "0.3334"),
        (F(2), "2"),
        (F(12345), "12350"),
        (F(10**40), "1" + "0" * 40),
    ):
        assert rounded_up(value) == text
    for k in range(1, 200):
        assert F(k, 7) <= F(rounded_up(F(k, 7))) <= F(k, 7) * (1 + F(1, 999))


def test_percentages_are_exact():
    for ratio, percent in (
        ("0.5", "50"),
        ("1", "100"),
        ("0.1234567", "12.34567"),
        ("0.001", "0.1"),
    ):
        words, _ = close_values(one(integer(low=1, high=40, ratio=ratio), LINE))
        assert (
            words == f"one x as for another, if the larger is at most {percent} % above the smaller"
        )


def test_sentences_state_all_parts():
    text = manifest(
        field(integer("age", high=99, within="5"), {**LINE, "width": "5"}, noise(100)),
        *optional(names(3)),
        field(
            [integer("u"), integer("v")],
            {"kind": "uniform", "epsilon": "1"},
            RandomizedResponse(4, W // 4 * 2),
        ),
        {"attributes": [{"name": "w", "kind": "weight", "low": 0, "high": 1}]},
    )
    lines = sentences(Manifest.parse(text))
    assert [line.partition(":")[0] for line in lines] == [
        *("age", "x", "u", "v", "u and v", "w", "All private attributes together"),
    ]
    assert lines[0].startswith(
        "age: A report is at most 1.65 times as likely for one age as for another within 5, "
        "and at most "
    )
    _, value, response, *_ = Manifest.parse(text).fields
    any_two, none = factor(attribute_epsilon(value)), factor(no_response(value, response))
    assert lines[1] == (
        f"x: A report is at most {any_two} times as likely for one x as for another. "
        f"It is at most {none} times as likely for a value as for no response."
    )
    assert lines[-2] == "w: The value is sent without protection."
    assert re.fullmatch(r"All .*: A report is at most .* \(epsilon [0-9.]+\)\.", lines[-1])


def test_sentences_about_memoised_responses_limit_them_to_one_response():
    """Whether there is a response is not memoised, so each report counts again for that."""
    lazy = LazyGeometric(Geometric(2, W // 3, (), W // 5), W // 2, W // 2)
    kept = Memoised(Geometric(2, W // 3, (), W // 5), lazy)
    value, response = optional(integer())
    value["distribution"], value["metric"] = plain_data(kept), {"kind": "line", "epsilon": "4"}
    line = sentences(Manifest.parse(manifest(value, response)))[0]
    together = line.index(
        "This holds for all reports of one response together. Each different response counts "
        "again, and reports can reveal that it changed."
    )
    assert line.index("Each report is at most") > together


def test_epsilons_of_sentences_are_finite_for_all_manifests():
    """Also at the ends of what a manifest can state."""
    for epsilon in ("1/" + "9" * 60, str(1 << 40), "1/3"):
        for distribution in (RandomizedResponse(2, W // 2), RandomizedResponse(2, W - 1)):
            text = manifest(field(integer(), {"kind": "line", "epsilon": epsilon}, distribution))
            for line in sentences(Manifest.parse(text)):
                assert len(line) < 200
                assert "inf" not in line
