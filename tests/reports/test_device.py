"""Reports of devices: the probabilities, the positions and the bytes of a table."""

import itertools
import math
import pickle
import secrets
import threading
from collections import Counter, OrderedDict, UserDict
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checks import MECHANISMS, assert_counts, designed_channel, exact_law, key, law_of
from metricldp import (
    Categorical,
    CertificateError,
    Continuous,
    Integer,
    InvalidSpecError,
    InvalidValueError,
    Matrix,
    Ordinal,
    Randomness,
    Survey,
    Weight,
)
from metricldp.lab.peers.haar import Haar
from metricldp.lab.peers.hadamard import Hadamard
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hierarchy import Hierarchy
from metricldp.lab.peers.hierarchy_unary import UnaryHierarchy
from metricldp.lab.peers.histogram import HistogramSum, HistogramThreshold
from metricldp.lab.peers.prefix import Prefix
from metricldp.lab.peers.subset import SubsetSelection
from metricldp.lab.peers.unary import UnaryOptimised, UnarySymmetric
from metricldp.lab.peers.waves import SquareWave
from metricldp.mechanisms import (
    BitChannel,
    GeometricChannel,
    MatrixChannel,
    RandomizedResponseChannel,
    ThresholdChannel,
    ThresholdDummyChannel,
    ThresholdPaperChannel,
    UnaryChannel,
)
from metricldp.mechanisms.registry import build
from metricldp.mechanisms.sampling import FRACTION_BITS
from metricldp.mechanisms.table import TableChannel
from metricldp.metrics import Line, Uniform
from metricldp.reports import bytes as pack
from metricldp.reports import columns as people
from metricldp_core import distributions as core
from metricldp_core.device import Device
from metricldp_core.distributions import RandomizedResponse
from metricldp_core.exact import WORD
from metricldp_core.manifest import Manifest
from metricldp_core.random_words import Words
from metricldp_core.report import HEADER_BYTES
from vectors import report_of

# Draws, enumerated over all words


def law_on_device(channel, x):
    """P(report | x) of draws, keyed like `exact_law`."""
    word = 2 if isinstance(channel, GeometricChannel | MatrixChannel) else 4
    law, open_mass = law_of(
        lambda words: as_key(channel, channel.distribution.draw(x, words)), word=word
    )
    assert open_mass == 0
    return law


def as_key(channel, drawn):
    assert 0 <= drawn < 1 << channel.bits
    if isinstance(channel, BitChannel | MatrixChannel | UnaryHierarchy):
        return drawn.to_bytes(channel.field.width, "little")
    return key(channel.field.dtype.type(drawn))


def possible(law):
    return {report: p for report, p in law.items() if p}


NOISES = [
    core.Geometric(4, zero=3 << 62, digits=(1 << 62,), block=1 << 63),
    core.Geometric(4, zero=1 << 62, digits=(1 << 63, 3 << 62), block=1 << 63),
    core.Geometric(4, zero=1 << 62, digits=(), block=3 << 62),
]


def threshold(size, flip, kind=ThresholdChannel):
    return kind(core.Threshold(size, (flip,) * (size - 1 + kind.extra_bits)))


def response(size, keep):
    return RandomizedResponseChannel(core.RandomizedResponse(size, keep))


def rows_of(kind, *rows):
    """A matrix of two positions: entries, low end and noise of each row."""
    return kind(core.Matrix(2, tuple(core.Row(*row) for row in rows)))


def noise(which, size):
    return replace(NOISES[which], size=size)


COARSE = {
    "threshold": [threshold(2, 11 << 60), threshold(3, 5 << 60)],
    "threshold-paper": [threshold(size, 5 << 60, ThresholdPaperChannel) for size in (2, 3)],
    "threshold-dummy": [threshold(size, 3 << 61, ThresholdDummyChannel) for size in (2, 3)],
    "randomized-response": [response(2, 11 << 60), response(5, 11 << 60)],
    "unary": [
        UnaryChannel.of((11 << 60, 3 << 62), (5 << 60, 1 << 62)),
        UnaryChannel.of((7 << 60,) * 2, (3 << 61, 1 << 60)),
    ],
    "geometric": [GeometricChannel(noise(which, size)) for which in range(3) for size in (2, 3, 4)],
    "matrix": [
        rows_of(MatrixChannel, ((1, 0), -1, NOISES[0])),
        rows_of(MatrixChannel, ((1, 0), 0, noise(2, 2)), ((0, 2), 0, noise(0, 3))),
    ],
    "unary-symmetric": [UnarySymmetric.of((11 << 60,) * 2, (5 << 60,) * 2)],
    "unary-optimised": [UnaryOptimised.of((1 << 63,) * 2, (3 << 60,) * 2)],
    "histogram-sum": [
        rows_of(HistogramSum, ((1, 0), 0, noise(which, 2)), ((0, 1), 0, noise(which, 2)))
        for which in range(3)
    ],
    "histogram-threshold": [HistogramThreshold.of((9 << 60,) * 2, (5 << 60,) * 2)],
    "local-hashing": [LocalHashing(2, 2, 11 << 60)],
    "hadamard": [Hadamard(2, 11 << 60), Hadamard(3, 13 << 60), Hadamard(5, 9 << 60)],
    "subset": [SubsetSelection(3, 1, 11 << 60), SubsetSelection(3, 2, 9 << 60)],
    "hierarchy-2": [Hierarchy(2, 11 << 60, 2), Hierarchy(4, 11 << 60, 2)],
    "hierarchy-4": [Hierarchy(3, 11 << 60, 3), Hierarchy(5, 11 << 60, 4)],
    "hierarchy-2-unary": [UnaryHierarchy(2, 3 << 60, 2), UnaryHierarchy(3, 1 << 62, 2)],
    "haar": [Haar(2, 11 << 60), Haar(3, 11 << 60)],
    "square-wave": [SquareWave.of([[7 << 60] * 2 + [2 << 60], [2 << 60] + [7 << 60] * 2])],
    "condensed": [TableChannel.of([[11 << 60, 5 << 60], [3 << 60, 13 << 60]])],
    "prefix": [rows_of(Prefix, ((1, 0), -1, NOISES[0]))],
}
"""Channels whose integers have four binary digits, of geometric noise two: these decide."""


@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_of_all_words_have_the_probabilities_of_the_channel(name):
    for channel in COARSE[name]:
        for x in range(channel.size):
            assert law_on_device(channel, x) == possible(exact_law(channel, x))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (
            Continuous(
                0, 2, points=3, epsilon=1, mechanism="threshold", rounding="stochastic", per=1
            ),
            0.75,
        ),
        (
            Continuous(
                0, 2, points=3, epsilon=1, mechanism="threshold", rounding="stochastic", per=1
            ),
            2,
        ),
        (Weight(-1, 1, private=True, epsilon=1), -0.5),
    ],
)
def test_what_is_rounded_at_random_has_the_law_of_both_steps(attribute, value):
    size = attribute.size
    channel = threshold(3, 5 << 60) if size == 3 else response(2, 11 << 60)
    (field,) = Survey.design({"v": attribute}).client_manifest.fields
    field = replace(field, distribution=channel.distribution)
    position = field.domains[0].position(value)
    law, _ = law_of(lambda words: as_key(channel, field.draw(position, words)))
    step = Fraction(attribute.high - attribute.low) / (size - 1)
    whole, rest = divmod(Fraction(value - attribute.low) / step, 1)
    laws = [exact_law(channel, min(int(whole) + up, size - 1)) for up in (0, 1)]
    assert law == {r: (1 - rest) * laws[0][r] + rest * laws[1][r] for r in laws[0]}


def test_bits_of_two_attributes_are_flipped_by_different_words():
    names, flip = ("a", "b"), Fraction(5, 16)
    survey = Survey.design(
        {n: Integer(0, 1, epsilon=1, mechanism="threshold", per=1) for n in names}
    )
    coarse = threshold(2, 5 << 60).distribution
    fields = (replace(field, distribution=coarse) for field in survey.client_manifest.fields)
    device = Device(Manifest(tuple(fields)))
    law, _ = law_of(lambda words: device.randomize([1, 1], words)[HEADER_BYTES])
    single = [1 - flip, flip]
    assert law == {a + 2 * b: single[a] * single[b] for a in (0, 1) for b in (0, 1)}


# Negative controls: each of these samplers does not have the probabilities of its channel


def flips_less(position, words):
    """Flips 20 % less often."""
    return threshold(3, 4 << 60).distribution.draw(position, words)


def word_reused(position, words):
    """Bits 0 and 1 are flipped by the same word."""
    drawn = threshold(3, 5 << 60).distribution.draw(position, words)
    truth = 0b11 & ~((1 << position) - 1)
    first = (drawn ^ truth) & 1
    return drawn & ~2 | (truth & 2) ^ first << 1


def last_bit_as_it_is(position, words):
    drawn = threshold(3, 5 << 60).distribution.draw(position, words)
    return drawn & ~2 | (2 if position < 2 else 0)


def moves_nowhere(position, words):
    """A value that is not kept may still be the true one."""
    keep, moved = words.below(11 << 60), words.uniform(2)
    return position if keep else (position + moved) % 3


def sign_of_digit(position, words):
    """The sign follows from a word that was used before."""
    drawn = abs(NOISES[0].noise(words))
    return min(max(position + (-drawn if drawn & 1 else drawn), 0), 3)


WRONG = [
    (flips_less, threshold(3, 5 << 60)),
    (word_reused, threshold(3, 5 << 60)),
    (last_bit_as_it_is, threshold(3, 5 << 60)),
    (moves_nowhere, response(3, 11 << 60)),
    (sign_of_digit, GeometricChannel(NOISES[0])),
]


@pytest.mark.parametrize(("draw", "channel"), WRONG, ids=lambda one: getattr(one, "__name__", ""))
def test_wrong_sampler_is_noticed_by_enumeration(draw, channel):
    word = 2 if isinstance(channel, GeometricChannel) else 4
    law, _ = law_of(lambda words: as_key(channel, draw(1, words)), word=word)
    assert law != possible(exact_law(channel, 1))


# The integers that are shipped have 64 digits: these are sampled


def check_draws(channel, draw=None, *, n=40_000, seed=11):
    """What the distribution draws has the probabilities that estimates use."""
    words, draw = Words(Randomness.seeded(seed).draw), draw or channel.distribution.draw
    for x in range(channel.size):
        law = exact_law(channel, x)
        drawn = Counter(as_key(channel, draw(x, words)) for _ in range(n))
        assert set(drawn) <= set(law), "an impossible report was drawn"
        observed = [drawn[report] for report in law]
        assert_counts(observed, law.values(), false_alarm=1e-9 / channel.size)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 5)], ids=float)
@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_have_the_probabilities_of_the_integers(name, epsilon):
    metric = (Uniform if name in ("randomized-response", "unary") else Line)(epsilon)
    if name == "matrix":
        check_draws(designed_channel(Matrix(strategy="prefix", reach=1), 3, metric))
    elif name == "prefix":
        check_draws(Prefix.for_epsilon(3, epsilon, reach=1))
    elif name == "histogram-sum":
        check_draws(HistogramSum.for_epsilon(3, epsilon, reach=1))
    else:
        check_draws(build(name, 3, metric))


@pytest.mark.parametrize(("draw", "channel"), WRONG, ids=lambda one: getattr(one, "__name__", ""))
def test_wrong_sampler_is_noticed_by_sampling(draw, channel):
    with pytest.raises(AssertionError):
        check_draws(channel, draw)


# One value to its position: as in a column of one value


def in_a_column(attribute, value, *, clip=False):
    """What the way of a table makes of one value, or the sentence of its refusal."""
    try:
        column = people._column({"v": [value]}, "v")
        return int(people.positions_of(attribute, column, "v", clip=clip)[0]) % WORD
    except InvalidValueError as wrong:
        return wrong.why


def alone(attribute, value, *, clip=False):
    try:
        found = attribute.position(value, "v", clip=clip)
    except InvalidValueError as wrong:
        assert (wrong.attribute, wrong.row) == ("v", None)
        return wrong.why
    assert type(found) is int
    return found


def check_position(attribute, value):
    """The same position as in a column, clipped or not, or the same words of refusal.

    A column cannot hold Fractions and integers of more than 64 bits; it knows types where a device
    knows values, so what is neither a number nor a text is refused in other words.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    holds = not isinstance(value, Fraction) and not (type(value) is int and value.bit_length() > 63)
    for clip in (True, False):
        found, column = alone(attribute, value, clip=clip), in_a_column(attribute, value, clip=clip)
        if not holds or (attribute.named and isinstance(plain, float | bytes | Decimal)):
            assert type(column) is str or type(found) is str or found == column
        elif type(found) is int or type(plain) in (int, float, str):
            assert found == column
        else:
            assert type(column) is str
    return found if type(found) is int else None


ENDS = st.one_of(
    st.integers(-1000, 1000),
    st.floats(-1e6, 1e6),
    st.floats(-1e307, 1e307),
    st.sampled_from([0.0, -0.0, 1e-300, 5e-324, 0.1, 0.3, 1e17, 2**53, -(2**53), 2**60]),
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**53 + d for d in (-1, 0, 1)] + [2**63, 2**64, -(2**63) - 1, 10**400]),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["1", " 1", "0x1", "1.0", "nan", "a ", "A"]),
    st.integers(-5, 5).map(np.int64),
    st.floats(-5, 5).map(np.float64),
    st.floats(-5, 5, width=32).map(np.float32),
    st.booleans().map(np.bool_),
    st.integers(-5, 5).map(Decimal),
    st.sampled_from([b"a", [1], (1,), {}, 1j, float("nan"), math.inf, Fraction(1, 2)]),
)


def near(points, steps=3):
    """Floats a few roundings around some points."""

    def moved(pair):
        point, by = pair
        for _ in range(abs(by)):
            point = math.nextafter(point, math.copysign(math.inf, by))
        return point

    return st.tuples(st.sampled_from(points), st.integers(-steps, steps)).map(moved)


def one_of_these(data, *kinds):
    """A value of one kind, all kinds alike; `st.one_of` would count the branches inside them."""
    return data.draw(data.draw(st.sampled_from(kinds)))


def made(kind, *ends, **more):
    """An attribute, or None where it cannot be."""
    width = max(abs(float(end)) for end in ends) or 1.0
    try:
        return kind(*ends, epsilon=1, per=width if math.isfinite(width) else 1.0, **more)
    except (InvalidSpecError, OverflowError):
        return None


@given(st.integers(-20, 20), st.integers(1, 30), st.one_of(st.integers(-60, 60), ODD))
@example(0, 1, True)
@example(0, 1, np.True_)
@example(0, 2, True)
@example(0, 5, -0.0)
@example(0, 5, 2.5)
def test_positions_of_whole_numbers(low, width, value):
    attribute = Integer(low, low + width, epsilon=1, per=1)
    found = check_position(attribute, value)
    if type(value) is int and low <= value <= low + width:
        assert found == value - low
        assert check_position(attribute, float(value)) == found


@pytest.mark.parametrize("high", [2**53, -(2**53) + 9])
@pytest.mark.parametrize("kind", [int, float])
def test_positions_of_the_largest_whole_numbers(high, kind):
    attribute = Integer(high - 9, high, epsilon=1, per=1)
    for value in range(high - 12, high + 13):
        assert (check_position(attribute, kind(value)) is None) == (
            not high - 9 <= kind(value) <= high
        )


@given(st.data())
def test_positions_in_bins(data):
    low, high = sorted(data.draw(st.tuples(ENDS, ENDS)))
    bins = data.draw(st.one_of(st.integers(2, 300), st.sampled_from([10, 100, 255, 256, 4097])))
    attribute = made(Continuous, low, high, bins=bins)
    if attribute is None:
        return
    inside = st.floats(attribute.low, attribute.high)
    value = one_of_these(data, near(attribute.bin_edges.tolist()), inside, ENDS, ODD)
    found = check_position(attribute, value)
    if type(value) is float and attribute.low <= value <= attribute.high:
        edges = attribute.bin_edges
        assert edges[found] <= value
        assert value < edges[found + 1] or found == bins - 1


@pytest.mark.parametrize("bins", ["auto", {"n": 500}, {"smoothness": 2.0}, 7, 100, 1000])
@pytest.mark.parametrize("ends", [(0, 1), (-0.7, 0.1), (0, 3e-7), (1e15, 1e15 + 2000)])
def test_every_edge_and_its_neighbours(bins, ends):
    """Whatever chose the bins, the values around every edge fall where a column puts them."""
    survey = Survey.design({"v": Continuous(*ends, bins=bins, epsilon=5, per=ends[1] - ends[0])})
    attribute = survey.attributes["v"]
    values = [
        math.nextafter(e, to) for e in attribute.bin_edges.tolist() for to in (-9e99, e, 9e99)
    ]
    values = [v for v in values if attribute.low <= v <= attribute.high]
    found = attribute.positions(np.array(values)).tolist()
    assert [attribute.position(v) for v in values] == found


@given(st.data())
def test_positions_on_a_grid_without_bins(data):
    low, high = sorted(data.draw(st.tuples(ENDS, ENDS)))
    points = data.draw(st.one_of(st.integers(2, 300), st.sampled_from([11, 101, 4097])))
    attribute = made(Continuous, low, high, points=points, rounding="stochastic")
    if attribute is None:
        return
    inside = st.floats(attribute.low, attribute.high)
    value = one_of_these(data, near(attribute.grid.tolist()), inside, ENDS, ODD)
    found = check_position(attribute, value)
    if type(value) is float and attribute.low <= value <= attribute.high:
        assert 0 <= found <= points - 1 << FRACTION_BITS


@given(st.data(), st.booleans())
def test_positions_of_weights(data, private):
    low, high = sorted(map(float, data.draw(st.tuples(ENDS, ENDS))))
    if not low < high or not math.isfinite(high - low):
        return
    more = {"private": True, "epsilon": 1} if private else {}
    attribute = Weight(low, high, **more)
    value = one_of_these(data, near([low, high]), st.floats(low, high), ENDS, ODD)
    found = check_position(attribute, value)
    if type(value) is float and low <= value <= high:
        assert 0 <= found <= (1 << FRACTION_BITS if private else 1 << 64)


NAMES = st.text(max_size=4).filter(lambda name: name.strip() and name.isprintable())


@given(st.lists(NAMES, min_size=2, max_size=9, unique=True), ODD, st.sampled_from([0, 1]))
@example(["1", "2"], 1, 0)
@example(["\u00e9", "e\u0301"], "e\u0301", 1)
@example(["nan", "None"], float("nan"), 0)
@example(["true", "false"], True, 0)
def test_positions_of_names(names, value, kind):
    attribute = [Ordinal, Categorical][kind](names, epsilon=1)
    check_position(attribute, value)
    for place, name in enumerate(names):
        assert check_position(attribute, name) == place


# The bytes


EVERY_KIND = {
    "age": Integer(0, 99, epsilon=1, mechanism="threshold", per=1),
    "paper": Integer(0, 9, epsilon=1, mechanism="threshold-paper", per=1),
    "dummy": Integer(0, 9, epsilon=1, mechanism="threshold-dummy", per=1),
    "income": Continuous(0, 1000, bins=300, epsilon=1, per=20, mechanism="geometric"),
    "height": Continuous(50, 250, points=41, epsilon=1, per=10, rounding="stochastic"),
    "often": Ordinal(["never", "rarely", "often"], epsilon=1),
    "region": Categorical(["north", "south", "east"], epsilon=2),
    "weight": Weight(0, 10),
    "hidden": Weight(0, 10, private=True, epsilon=1),
    "yes": Integer(0, 1, epsilon=1, per=1),
}
RESPONSE = {
    "age": 34,
    "paper": 3.0,
    "dummy": 9,
    "income": 28.5,
    "height": 171,
    "often": "rarely",
    "region": "east",
    "weight": 2.5,
    "hidden": 7.5,
    "yes": True,
}


@given(st.lists(st.sampled_from(sorted(EVERY_KIND)), min_size=1, unique=True))
def test_the_bytes_are_those_of_a_table(names):
    """What a report unpacks to packs to the very same bytes, whatever the order of the fields."""
    if set(names) == {"weight"}:
        return
    survey = Survey.design({name: EVERY_KIND[name] for name in names})
    blobs = [survey.report(RESPONSE) for _ in range(3)]
    table = pack.unpack(survey, blobs)
    assert pack.pack(survey, table) == blobs
    if "weight" in names:
        assert table["weight=report"].to_pylist() == [2.5] * 3


ALWAYS_DRAWN = {
    *("unary-optimised", "histogram-threshold", "local-hashing", "hadamard"),
    *("hierarchy-2", "hierarchy-4", "hierarchy-2-unary", "haar", "square-wave"),
}
"""Mechanisms whose reports differ from draw to draw, however large epsilon is."""


@pytest.mark.parametrize("mechanism", sorted(set(MECHANISMS) - ALWAYS_DRAWN))
@pytest.mark.parametrize("size", [2, 9, 10, 257])
def test_without_noise_both_ways_give_the_same_bytes(mechanism, size):
    """Epsilon is the largest there is: a bit is flipped once in 2^64 times.

    Of unary encoding a pair of bits tells 24 nats at most, so one in some hundred thousand is
    flipped; these seeds flip none. What is compared is how bytes are put together, not chance.
    """
    survey = Survey.design(
        {
            "a": Integer(0, size - 1, epsilon=900, mechanism=mechanism, per=1),
            "w": Weight(-1, 1),
            "b": Integer(0, size - 1, epsilon=900, mechanism=mechanism, per=1),
            "p": Weight(0, 1, private=True, epsilon=900),
        }
    )
    for x in {0, 1, size // 2, size - 1}:
        person = {"a": x, "w": -0.3, "b": size - 1 - x, "p": x % 2}
        people = {name: [value] for name, value in person.items()}
        table = survey.randomize(people, randomness=Randomness.seeded(3))
        assert survey.report(person, randomness=Randomness.seeded(4)) == pack.pack(survey, table)[0]


@pytest.mark.parametrize("mechanism", sorted(ALWAYS_DRAWN))
@pytest.mark.parametrize("size", [2, 9, 10, 257])
def test_drawn_reports_have_the_bytes_of_a_table(mechanism, size):
    survey = Survey.design(
        {
            "a": Integer(0, size - 1, epsilon=1, mechanism=mechanism, per=1),
            "b": Integer(0, size - 1, epsilon=1, mechanism=mechanism, per=1),
        }
    )
    blobs = [survey.report({"a": x, "b": size - 1 - x}) for x in range(size)]
    assert pack.pack(survey, pack.unpack(survey, blobs)) == blobs


def test_nobody_needs_a_table(monkeypatch):
    """Neither who is clipped nor who has unusual values, and nobody who is refused."""

    def refuse(*_, **__):
        raise AssertionError("the way of a table")

    survey = Survey.design(EVERY_KIND)
    for module, name in ((people, "_column"), (people, "positions_of"), (pack, "to_table")):
        monkeypatch.setattr(module, name, refuse)
    survey.report(RESPONSE)
    survey.report(RESPONSE | {"unasked": object()})
    for change in ({"age": "34"}, {"weight": np.float32(1)}, {"income": Fraction(7, 2)}):
        survey.report(RESPONSE | change)
    survey.report(RESPONSE | {"age": 340}, clip=True)
    for change in ({"age": "x"}, {"age": 340}, {"often": None}, {"often": "always"}):
        with pytest.raises(InvalidValueError):
            survey.report(RESPONSE | change)


@pytest.mark.parametrize("wrap", [OrderedDict, UserDict, MappingProxyType])
def test_other_mappings_and_unusual_values_still_serve(wrap):
    survey = Survey.design(EVERY_KIND)
    unusual = {"age": "34", "height": np.float32(171), "income": Decimal("28.5")}
    blobs = [survey.report(wrap(RESPONSE)), survey.report(wrap(RESPONSE | unusual))]
    assert survey.tally(blobs).n == 2


@pytest.mark.parametrize("person", [None, 3, [("age", 3)], "age", {"Age": 3}, {}, {"age": None}])
def test_who_is_no_person_is_refused(person):
    with pytest.raises(InvalidValueError):
        Survey.design({"age": Integer(0, 99, epsilon=1, per=1)}).report(person)


class NoRandomness(Randomness):
    """Random words that must not be read."""

    def draw(self, count):
        raise AssertionError("a word was read")


def test_all_values_are_checked_before_the_first_word():
    with pytest.raises(InvalidValueError, match="hidden is outside 0 to 10"):
        Survey.design(EVERY_KIND).report(RESPONSE | {"hidden": 11}, randomness=NoRandomness())


def test_clipping_is_as_for_a_table():
    survey = Survey.design({"v": Integer(0, 9, epsilon=900, per=1), "w": Weight(0, 1)})
    top = survey.report({"v": 9, "w": 1})
    assert survey.report({"v": 9, "w": 1}, clip=True) == top
    assert survey.report({"v": 12, "w": 1.5}, clip=True) == top


# Streams


def test_words_come_from_the_operating_system_unless_randomness_is_passed(monkeypatch):
    read = []

    def urandom(count):
        read.append(count)
        return secrets.token_bytes(count)

    survey = Survey.design(EVERY_KIND)
    monkeypatch.setattr("metricldp.api.os.urandom", urandom)
    reports = {survey.report(RESPONSE) for _ in range(5)}
    assert len(reports) == 5
    assert len(read) >= 5
    read.clear()
    own = Randomness.seeded(3)
    seeded = [survey.report(RESPONSE, randomness=own) for _ in range(2)]
    assert read == []
    assert seeded[0] != seeded[1]
    again = Randomness.seeded(3)
    assert [survey.report(RESPONSE, randomness=again) for _ in range(2)] == seeded


def test_threads_that_share_randomness_get_different_words():
    survey = Survey.design({"v": Integer(0, 255, epsilon=0.01, mechanism="threshold", per=1)})
    randomness, found = Randomness(), []
    threads = [
        threading.Thread(
            target=lambda: found.extend(
                survey.report({"v": 9}, randomness=randomness) for _ in range(200)
            )
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 6 * 200


def test_a_survey_that_has_reported_can_still_be_sent():
    survey = Survey.design(EVERY_KIND)
    survey.report(RESPONSE)
    assert pickle.loads(pickle.dumps(survey)) == survey
    for attribute in survey.attributes.values():
        assert pickle.loads(pickle.dumps(attribute)) == attribute


WAYS = {
    int: [
        *(3, 3.0, "3", " 3 ", "+3", "3.0", "3e0", np.int64(3), np.uint8(3), np.float32(3)),
        *(Fraction(3), Decimal(3), Decimal("3.0"), np.str_("3")),
    ],
    str: ["y", np.str_("y")],
}


def test_equal_values_and_equal_coins_give_equal_reports():
    """However a value is written, and whether values are clipped or not."""
    survey = Survey.design(
        {
            "a": Integer(0, 9, epsilon=1, per=1),
            "b": Continuous(0, 9, bins=7, epsilon=1, per=1),
            "r": Continuous(0, 9, points=11, epsilon=1, rounding="stochastic", per=1),
            "w": Weight(0, 9),
            "p": Weight(0, 9, private=True, epsilon=1),
            "c": Categorical(["x", "y"], epsilon=1),
        }
    )
    words = Randomness.seeded(5).words(64).tolist()
    plain = dict.fromkeys("abrwp", 3) | {"c": "y"}
    device = Device(survey.client_manifest)
    expected = report_of(device, plain, Words.given(words))
    for value, name, clip in itertools.product(WAYS[int], WAYS[str], (False, True)):
        person = dict.fromkeys("abrwp", value) | {"c": name}
        assert report_of(device, person, Words.given(words), clip=clip) == expected
        assert survey.report(person, randomness=Randomness.seeded(5), clip=clip) == expected


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("size", [2, 3, 9, 70])
def test_every_value_reads_equally_many_words(mechanism, size):
    survey = Survey.design({"a": Integer(0, size - 1, epsilon=0.5, mechanism=mechanism, per=1)})
    device = Device(survey.client_manifest)
    for seed in range(5):
        given, used = Randomness.seeded(seed).words(5000).tolist(), set()
        for value in range(-1, size + 1):
            words = Words.given(given)
            report_of(device, {"a": value}, words, clip=True)
            used.add(words.used)
        assert len(used) == 1


def test_device_shows_no_value_and_clips_only_on_request():
    device = Device(Survey.design({"a": Integer(0, 9, epsilon=1, per=1)}).client_manifest)
    with pytest.raises(InvalidValueError, match=r"^a is outside 0 to 9") as caught:
        device.report({"a": 77})
    assert "77" not in str(caught.value)
    device.report({"a": 77}, clip=True)


class TooLong(RandomizedResponse):
    """Draws an integer that has one bit too many."""

    def draw(self, position, words):
        return (1 << self.bits) - 1 + position


def test_field_that_is_too_long_is_not_sent():
    """It would run into the next attribute's, whatever a distribution of a plug-in may draw."""
    survey = Survey.design(
        {n: Integer(0, 3, epsilon=1, per=1, mechanism="randomized-response") for n in ("a", "b")}
    )
    first, second = survey.client_manifest.fields
    wrong = TooLong(4, first.distribution.keep)
    device = Device(Manifest((replace(first, distribution=wrong), second)))
    assert len(device.report({"a": 0, "b": 2})) == HEADER_BYTES + 1
    with pytest.raises(CertificateError, match="outside of its field; no report is sent"):
        device.report({"a": 1, "b": 2})
