"""Coins: exact bits, exact integers, and streams that never repeat."""

import copy
import functools
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import assert_counts
from metricldp import Integer, Randomness, SeededRandomnessWarning, Survey
from metricldp.basics.errors import CertificateError
from metricldp.mechanisms import ThresholdChannel, geometric
from metricldp.mechanisms import sampling as draws
from metricldp.mechanisms.exact_probability import noise_probability, noise_tail
from metricldp.mechanisms.geometric import add_noise, geometric_distribution
from metricldp.mechanisms.sampling import bernoulli, lanes, uniform
from metricldp_core.distributions import Threshold as ThresholdBits
from metricldp_core.exact import WORD
from metricldp_core.random_words import Words


class Tape:
    """Words written down beforehand, one after the other."""

    def __init__(self, planes):
        self.planes = list(planes)

    def words(self, count):
        assert count <= len(self.planes), "more coins than there should be"
        taken, self.planes = self.planes[:count], self.planes[count:]
        return np.array(taken, dtype=np.uint64)


THRESHOLDS = st.one_of(
    st.integers(1, WORD - 1),
    st.integers(0, 63).map(lambda k: 1 << k),
    st.integers(1, 1023).map(lambda k: k << 54),
    st.sampled_from([1, 2, WORD - 1, WORD - 256, (1 << 56) - 1]),
)


def tape_of(numbers, threshold):
    """Words that make the lanes stand for these numbers: planes of digits, then what is left."""
    digits = 64 - (threshold & -threshold).bit_length() + 1
    planes = min(8, digits)
    words = [
        sum((u >> (63 - k) & 1) << lane for lane, u in enumerate(numbers[start : start + 64]))
        for k in range(planes)
        for start in range(0, len(numbers), 64)
    ]
    same = [u for u in numbers if u >> (64 - planes) == threshold >> (64 - planes)]
    return words + [u << planes & (WORD - 1) for u in same if digits > planes]


@given(data=st.data(), threshold=THRESHOLDS, words=st.integers(1, 3))
def test_a_lane_is_one_exactly_if_its_number_is_below_the_threshold(data, threshold, words):
    """Whatever the 64 digits of its number: many share their first digits with the threshold."""
    near = st.integers(0, (1 << 56) - 1).map(lambda low: threshold >> 56 << 56 | low)
    close = st.integers(-2, 2).map(lambda d: min(max(threshold + d, 0), WORD - 1))
    number = st.one_of(st.integers(0, WORD - 1), near, close)
    numbers = data.draw(st.lists(number, min_size=64 * words, max_size=64 * words))
    tape = Tape(tape_of(numbers, threshold))
    drawn = bernoulli(tape, threshold, words)
    assert lanes(drawn, 64 * words).tolist() == [int(u < threshold) for u in numbers]
    assert not tape.planes, "coins were left over"


@pytest.mark.parametrize("close", [-1, 0, 1])
def test_numbers_next_to_the_threshold_are_decided_at_the_last_digit(close):
    threshold = 0x9E3779B97F4A7C15
    tape = Tape(tape_of([threshold + close] * 64, threshold))
    assert int(bernoulli(tape, threshold, 1)[0]) == (WORD - 1 if close < 0 else 0)


def test_a_digit_left_out_is_caught():
    """The broken twin: lanes that stop at nine digits differ from the numbers they stand for."""
    threshold = 0x9E3779B97F4A7C15
    tape = Tape(tape_of([threshold - 1] * 64, threshold))
    assert int(bernoulli(tape, threshold >> 55 << 55, 1)[0]) != WORD - 1


def test_certain_and_impossible_bits_need_no_coins():
    for impossible in (0, -1, -WORD):
        assert (bernoulli(Tape([]), impossible, 3) == 0).all()
    for certain in (WORD, WORD + 1, 3 << 63):
        assert (bernoulli(Tape([]), certain, 3) == WORD - 1).all()


def test_rows_longer_than_a_block_are_drawn_as_well(monkeypatch):
    """However many rows fit into a block, one is drawn at a time at the least."""
    monkeypatch.setattr(draws, "BLOCK", 2)
    thresholds = [WORD, 0, WORD, WORD, 0]
    for words in (1, 2, 3, 5):
        drawn = draws.bernoullis(Tape([]), thresholds, words)
        assert drawn.tolist() == [[t - 1 if t else 0] * words for t in thresholds]


@pytest.mark.parametrize("probability", [1 / 4096 + 1 / 2**20, 0.2689414, 0.5, 0.999])
def test_bernoulli_has_its_probability(probability):
    threshold = int(probability * WORD)
    words = 1 << 18
    ones = int(np.bitwise_count(bernoulli(Randomness.seeded(4), threshold, words)).sum())
    exact = Fraction(threshold, WORD)
    assert_counts([ones, 64 * words - ones], [exact, 1 - exact], false_alarm=1e-9)


def test_a_bernoulli_ten_percent_off_is_rejected():
    threshold = int(0.2689414 * WORD)
    words = 1 << 12
    ones = int(np.bitwise_count(bernoulli(Randomness.seeded(4), threshold * 9 // 10, words)).sum())
    exact = Fraction(threshold, WORD)
    with pytest.raises(AssertionError):
        assert_counts([ones, 64 * words - ones], [exact, 1 - exact], false_alarm=1e-9)


def test_lanes_are_independent_of_each_other():
    """Pairs of neighbouring lanes, planes and words fall into the four cells as they should."""
    threshold = int(0.3 * WORD)
    bits = lanes(bernoulli(Randomness.seeded(9), threshold, 1 << 14), 1 << 20)
    p = Fraction(threshold, WORD)
    cells = [(1 - p) ** 2, p * (1 - p), p * (1 - p), p**2]
    for distance in (1, 8, 63, 64, 65):
        pairs = (
            2 * bits[: -2 * distance].reshape(-1)[::1] + np.roll(bits, -distance)[: -2 * distance]
        )
        disjoint = pairs.reshape(-1)[: len(pairs) // (2 * distance) * (2 * distance)]
        disjoint = disjoint.reshape(-1, 2 * distance)[:, :distance]
        observed = np.bincount(disjoint.reshape(-1), minlength=4)
        assert_counts(observed, cells, false_alarm=1e-9)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 100])
def test_uniform_integers(bound):
    drawn = uniform(Randomness.seeded(5), bound, 300_000)
    observed = np.bincount(drawn, minlength=bound)
    assert_counts(observed, [Fraction(1, bound)] * bound, false_alarm=1e-9)


def test_one_value_needs_no_coins():
    assert uniform(Tape([]), 1, 5).tolist() == [0] * 5


def test_a_table_rounds_at_random_like_a_device():
    """Word by word: up if its top 32 digits are below what is left of the position."""
    rests = [0, 1, 2, 1 << 31, (1 << 32) - 2, (1 << 32) - 1]
    tops = [0, 1, 2, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1]
    cases = list(itertools.product((0, 1, 7, 1000), rests, tops, (0, (1 << 32) - 1)))
    words = [top << 32 | low for _, _, top, low in cases]
    positions = [whole << 32 | rest for whole, rest, _, _ in cases]
    rounded = draws.round_at_random(Tape(words), np.array(positions)).tolist()
    assert rounded == [whole + (top < rest) for whole, rest, top, _ in cases]
    device = Words.given(words)
    assert rounded == [device.round(position) for position in positions]


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 50), Fraction(3, 10), Fraction(7, 10), Fraction(1), Fraction(3)]
)
def test_two_sided_geometric_noise(epsilon):
    reach = 30
    noise = geometric_distribution(2 * reach + 3, epsilon)
    middle = np.full(500_000, reach + 1)
    drawn = np.empty(len(middle), dtype=np.int64)
    add_noise(noise, Randomness.seeded(6), middle, drawn)
    inside = [noise_probability(noise, k) for k in range(-reach, reach + 1)]
    cells = [noise_tail(noise, reach + 1), *inside, noise_tail(noise, reach + 1)]
    assert sum(cells) == 1
    assert_counts(np.bincount(drawn, minlength=len(cells)), cells, false_alarm=1e-9)
    a = np.exp(-float(epsilon))
    ideal = (1 - a) / (1 + a) * a ** np.abs(np.arange(-reach, reach + 1.0))
    np.testing.assert_allclose([float(p) for p in inside], ideal, rtol=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "digits"), [("0.7", 0), ("0.699", 1), ("0.35", 1), ("0.349", 2), ("0.0001", 13)]
)
def test_a_block_of_noise_is_as_long_as_seven_tenths_of_epsilon(epsilon, digits):
    """It decides how many coins a device tosses, and so stands for ever."""
    assert len(geometric_distribution(9, Fraction(epsilon)).digits) == digits


def test_noise_that_cannot_be_kept_is_refused():
    with pytest.raises(CertificateError, match="too small"):
        geometric_distribution(9, Fraction(1, 1 << 70))


def test_streams_differ_and_seeded_ones_repeat():
    assert (Randomness().words(4) != Randomness().words(4)).any()
    randomness = Randomness()
    assert (randomness.words(4) != randomness.words(4)).any()
    assert (randomness.spawn().words(4) != randomness.spawn().words(4)).any()
    one, other = Randomness.seeded(1), Randomness.seeded(1)
    assert (one.words(4) == other.words(4)).all()
    assert (one.spawn().words(4) == other.spawn().words(4)).all()
    assert (one.spawn().words(4) != one.spawn().words(4)).any()
    assert (Randomness.seeded(2).words(4) != Randomness.seeded(1).words(4)).any()
    many = randomness.words(1 << 18)
    assert len(np.unique(many)) == len(many)


def test_seeded_coins_say_so():
    with pytest.warns(SeededRandomnessWarning, match="no privacy"):
        Randomness.seeded(1)


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("make", [Randomness, lambda: Randomness.seeded(1)])
def test_coins_cannot_be_copied(copying, make):
    with pytest.raises(TypeError, match="would repeat"):
        copying(make())


def _in_child(draw):
    """Words drawn in a forked child, and in a fork of that child."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        os.write(write_end, draw().tobytes())
        if grandchild:
            os.waitpid(grandchild, 0)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    drawn = b""
    while part := os.read(read_end, 1 << 16):
        drawn += part
    os.close(read_end)
    return np.frombuffer(drawn, dtype=np.uint64)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [Randomness, lambda: Randomness.seeded(1)])
def test_forking_never_repeats_coins(make):
    randomness = make()
    randomness.words(3)
    drawn = [_in_child(lambda: randomness.words(50)) for _ in range(3)]
    drawn += [_in_child(lambda: randomness.spawn().words(50)) for _ in range(3)]
    drawn += [randomness.words(500), randomness.spawn().words(500)]
    everything = np.concatenate(drawn)
    assert len(everything) == 6 * 100 + 2 * 500
    assert len(np.unique(everything)) == len(everything)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_gets_the_number_of_another_draws_its_own_coins(monkeypatch):
    monkeypatch.setattr("metricldp.mechanisms.randomness.os.getpid", lambda: 1)
    randomness = Randomness()
    everything = np.concatenate([_in_child(lambda: randomness.words(9)), randomness.words(9)])
    assert len(np.unique(everything)) == len(everything) == 27


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_seeded_coins_are_the_same_in_every_process():
    """Made there, they and what they spawn repeat; only what was made before a fork does not."""
    for draw in (lambda c: c.words(9), lambda c: c.spawn().words(9)):
        here = draw(Randomness.seeded(3)).tolist()
        assert _in_child(lambda draw=draw: draw(Randomness.seeded(3))).tolist() == here * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_a_thread_draws_does_not_hang_the_child():
    randomness = Randomness()
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            randomness.words(1 << 14)

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs is killed, and its status says so
                randomness.words(4)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _encode_in_worker(survey, people):
    return survey.randomize(people).column("v=report").to_pylist()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pool_of_forked_workers_blurs_differently_in_each():
    survey = Survey.design({"v": Integer(0, 999, epsilon=0.01, per=1)})
    people = {"v": [500] * 50}
    with multiprocessing.get_context("fork").Pool(2) as pool:
        drawn = pool.starmap(_encode_in_worker, [(survey, people)] * 4)
    assert len({tuple(d) for d in drawn}) == 4


@pytest.mark.parametrize("make", [Randomness, lambda: Randomness.seeded(1)])
def test_threads_never_repeat_coins(make):
    randomness = make()
    drawn = []
    threads = [
        threading.Thread(target=lambda: drawn.extend(randomness.words(64) for _ in range(200)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = np.concatenate(drawn)
    assert len(everything) == 8 * 200 * 64
    assert len(np.unique(everything)) == len(everything)


def test_a_stream_shared_after_a_fork_that_is_not_seen_is_rekeyed_by_its_process():
    randomness = Randomness()
    before = randomness._key
    randomness._process = (-1, 0)
    randomness.words(1)
    assert randomness._key != before


class Recorder:
    """Coins that remember which words they gave."""

    def __init__(self, seed):
        self._coins = Randomness.seeded(seed)
        self.given = []

    def words(self, count):
        self.given.append(self._coins.words(count))
        return self.given[-1]


def test_lanes_of_several_thresholds_one_by_one():
    """Each lane's digits, and a word of its own where eight of them leave it undecided."""
    rng = np.random.default_rng(9)
    for seed in range(20):
        thresholds = [int(t) for t in rng.integers(1, 2**64, 3, dtype=np.uint64)]
        thresholds += [0, WORD, 1 << 60, 5 << 50]
        rng.shuffle(thresholds)
        words = int(rng.integers(1, 30))
        tape = Recorder(seed)
        drawn = draws.bernoullis(tape, thresholds, words)
        planes = tape.given[0].reshape(-1, words)
        own = [int(word) for word in tape.given[1]] if len(tape.given) > 1 else []
        for threshold, row in zip(thresholds, drawn, strict=True):
            count = draws._planes(threshold)
            digits = [lanes(plane.copy(), 64 * words).astype(int) for plane in planes[:count]]
            planes = planes[count:]
            for lane, found in enumerate(lanes(row.copy(), 64 * words).tolist()):
                number = sum(int(d[lane]) << (63 - k) for k, d in enumerate(digits))
                rest = threshold << count & (WORD - 1)
                if rest and number >> (64 - count) == threshold >> (64 - count):
                    assert found == (own.pop(0) < rest)
                else:
                    assert found == (number < threshold)
        assert not own


def test_growing_lane_by_lane(monkeypatch):
    """A lane grows as long as all its coins so far said so, in the words where coins were drawn."""
    draw = draws.bernoullis
    later = []

    def recorded(*asked):
        later.append(draw(*asked))
        return later[-1].copy()

    monkeypatch.setattr("metricldp.mechanisms.geometric.bernoullis", recorded)
    rng = np.random.default_rng(5)
    for seed in range(60):
        words, most = int(rng.integers(1, 12)), int(rng.integers(1, 30))
        rounds = min(8, words.bit_length() + 1, most)
        block = int(rng.choice([1, 2, 3])) << 62
        source = Randomness.seeded(seed)
        first = draw(source, [block] * rounds, words)
        later.clear()
        planes = np.concatenate(list(geometric._grown(block, source, first.copy(), most)))
        grown = sum(lanes(plane.copy(), 64 * words).astype(int) for plane in planes)
        tossed = [[int(row[word]) for row in first] for word in range(words)]
        for part in later:
            alive = [w for w in range(words) if functools.reduce(int.__and__, tossed[w])]
            assert part.shape[1] == len(alive)
            for place, word in enumerate(alive):
                tossed[word] += [int(row[place]) for row in part]
        for lane, found in enumerate(grown.tolist()):
            randomness = [row >> (lane % 64) & 1 for row in tossed[lane // 64]]
            run = randomness.index(0) if 0 in randomness else len(randomness)
            assert found == run
            assert 0 in randomness or len(randomness) == most


@pytest.mark.parametrize(("size", "people"), [(257, 20_000), (70_000, 100), (3, 200_000)])
def test_no_two_people_share_their_noise(size, people):
    """Nobody's flips come again: pieces of 16 bytes of fair flips are all different."""
    channel = ThresholdChannel(ThresholdBits(size, (WORD // 2 - 1,) * (size - 1)))
    reports = channel.sample(np.zeros(people, dtype=int), Randomness.seeded(1)).reshape(-1)
    if size == 3:  # two bits a person: put them together
        bits = reports & 3
        reports = np.packbits(np.stack([bits & 1, bits >> 1], axis=1).reshape(-1))
    pieces = reports[: len(reports) // 16 * 16].reshape(-1, 16)
    assert len(np.unique(pieces.view("V16"))) == len(pieces)
    words = bernoulli(Randomness.seeded(1), 1 << 63, 3 * draws.BLOCK + 3)
    assert len(np.unique(words)) == len(words)
