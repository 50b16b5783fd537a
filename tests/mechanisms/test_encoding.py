"""Reports do not depend on kernels, batches or the number of cores."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial

import numpy as np
import plain_kernels
import pytest
import test_channels
from hypothesis import given, settings
from hypothesis import strategies as st

from metricldp import Categorical, Continuous, Integer, Randomness, Survey, Weight
from metricldp.basics.errors import InvalidValueError
from metricldp.mechanisms import (
    GeometricChannel,
    RandomizedResponseChannel,
    ThresholdChannel,
    ThresholdPaperChannel,
)
from metricldp.mechanisms import sampling as randomness
from metricldp.mechanisms import sampling_kernels as kernels
from metricldp.mechanisms.sampling import bernoulli
from metricldp.reports import encode as reports
from metricldp_core import distributions as core
from metricldp_core.exact import WORD

SEEDS = st.integers(0, 10**6)


@contextlib.contextmanager
def plain():
    """Encode with the numpy versions of the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("decide", "decide_rest", "cross", "add_noise"):
            patch.setattr(kernels, name, getattr(plain_kernels, name))
        yield


VERSIONS = (plain, contextlib.nullcontext)


def drawn_both_ways(draw, seed):
    """Draws with and without kernels from the same words; both read as many of them."""
    results, after = [], []
    for version in VERSIONS:
        source = Randomness.seeded(seed)
        with version():
            results.append(draw(source))
        after.append(source.words(4))
    assert (after[0] == after[1]).all()
    assert results[0].dtype == results[1].dtype
    return results


@settings(max_examples=60)
@given(
    threshold=st.one_of(
        st.sampled_from([0, 1, 1 << 63, 3 << 62, 5 << 60, 1 << 56, 1 << 55, WORD - 1, WORD]),
        st.integers(0, WORD),
    ),
    words=st.sampled_from([0, 1, 2, 511, 512, 513, 1030, 2048, 2049]),
    block=st.sampled_from([1, 7, 512, 1 << 14]),
    seed=SEEDS,
)
def test_lanes(threshold, words, block, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "BLOCK", block)
        one, other = drawn_both_ways(lambda source: bernoulli(source, threshold, words), seed)
    assert (one == other).all()


@settings(max_examples=100)
@given(data=st.data(), n=st.integers(0, 140), size=st.integers(2, 300), seed=SEEDS)
def test_rows_of_bits(data, n, size, seed):
    """Rows of both versions equal the definition of every bit."""
    bits = data.draw(st.sampled_from([size - 1, size, size + 1]))
    width = -(-bits // 8)
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, size, n)
    flips = rng.integers(0, WORD, -(-n * width // 8), dtype=np.uint64)
    lanes = np.unpackbits(flips.view(np.uint8), bitorder="little")[: 8 * n * width]
    expected = lanes.reshape(n, 8 * width) ^ (positions[:, None] <= np.arange(8 * width))
    expected[:, bits:] = 0
    for version in (kernels, plain_kernels):
        words = flips.copy()
        version.cross(words, positions, width, bits)
        rows = words.view(np.uint8)[: n * width].reshape(n, width)
        assert (np.unpackbits(rows, axis=1, bitorder="little") == expected).all()


@settings(max_examples=60)
@given(
    epsilon=st.sampled_from(["0.0001", "0.02", "0.3", "1", "8", "64"]),
    size=st.sampled_from([2, 5, 9, 256, 257, 300, 70_000]),
    n=st.sampled_from([0, 1, 63, 64, 65, 130, 1000]),
    seed=SEEDS,
)
def test_reports_of_every_channel(epsilon, size, n, seed):
    positions = np.random.default_rng(seed).integers(0, size, n)
    for kind in (
        ThresholdChannel,
        ThresholdPaperChannel,
        GeometricChannel,
        RandomizedResponseChannel,
    ):
        if kind is RandomizedResponseChannel and epsilon == "0.0001":
            continue
        channel = kind.for_epsilon(size, Fraction(epsilon))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("metricldp.mechanisms.geometric._AT_ONCE", 128)
            one, other = drawn_both_ways(lambda c, k=channel: k.sample(positions, c), seed)
        assert one.dtype == channel.field.empty(0).dtype
        assert (one == other).all()
        assert not channel.field.invalid(one).any()


@given(seed=SEEDS, size=st.sampled_from([2, 7, 200]), n=st.sampled_from([1, 64, 200]))
def test_noise_of_many_rounds_is_cut_at_the_domain(seed, size, n):
    """With a block that nearly always grows, every draw of a coin ends beyond the domain."""
    channel = GeometricChannel(core.Geometric(size, zero=1, digits=(1,), block=WORD - 1))
    positions = np.random.default_rng(seed).integers(0, size, n)
    one, other = drawn_both_ways(lambda source: channel.sample(positions, source), seed)
    assert (one == other).all()
    assert set(one.tolist()) <= {0, size - 1}


LAWS = [
    test_channels.test_threshold_bits_on_every_coin,
    test_channels.test_response_on_every_coin,
    test_channels.test_geometric_noise_of_two_digits_on_every_coin,
    partial(test_channels.test_geometric_noise_on_every_coin, 2),
    partial(test_channels.test_geometric_noise_on_every_coin, 4),
]
BROKEN = test_channels.test_samplers_that_break_the_promise_are_rejected_on_every_coin


@pytest.mark.parametrize(
    "law",
    [*LAWS, partial(BROKEN, test_channels.LastBitBare), partial(BROKEN, test_channels.CoinReused)],
)
def test_the_law_on_every_coin_with_plain_kernels(law):
    """The tests of channels run with the kernels; the oracle passes them too."""
    with plain():
        law()


# Batches and threads


def a_survey():
    return Survey.design(
        {
            "t": Integer(0, 20, epsilon=1, mechanism="threshold", per=1),
            "g": Integer(0, 300, epsilon=0.1, mechanism="geometric", per=1),
            "c": Categorical(["a", "b", "c"], epsilon=1),
            "r": Continuous(0, 1, points=9, epsilon=5, rounding="stochastic", per=1),
            "w": Weight(0, 10),
        }
    )


def some_people(n):
    rng = np.random.default_rng(3)
    return {
        "t": rng.integers(0, 21, n),
        "g": rng.integers(0, 301, n),
        "c": rng.choice(["a", "b", "c"], n),
        "r": rng.uniform(0, 1, n),
        "w": rng.uniform(0, 10, n),
    }


@pytest.mark.parametrize("n", [1, 99, 100, 101, 750])
def test_seeded_reports_depend_on_neither_kernels_nor_cores(n, monkeypatch):
    survey, people = a_survey(), some_people(n)
    monkeypatch.setattr(reports, "BATCH", 100)
    tables = []
    for version in VERSIONS:
        for cores in (1, 2, 5):
            monkeypatch.setattr(reports, "_cores", lambda cores=cores: cores)
            with version():
                tables.append(survey.randomize(people, randomness=Randomness.seeded(7)))
    assert all(table.equals(tables[0]) for table in tables)


def test_batches_have_coins_of_their_own(monkeypatch):
    """The same people in every batch, and not one batch like another."""
    monkeypatch.setattr(reports, "BATCH", 100)
    survey = Survey.design({"g": Integer(0, 999, epsilon=0.01, mechanism="geometric", per=1)})
    for source in (Randomness(), Randomness.seeded(1)):
        column = survey.randomize({"g": [500] * 1000}, randomness=source)["g=report"].to_numpy()
        assert len({batch.tobytes() for batch in column.reshape(10, 100)}) == 10


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0: {4, 5, 6}}[pid], raising=False)
    assert reports._cores() == 3
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert reports._cores() == 7
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert reports._cores() == 1


def test_without_a_word_nothing_is_clipped_shown_or_mixed():
    survey = Survey.design({"g": Integer(0, 30, epsilon=60, per=1)})
    with pytest.raises(InvalidValueError) as told:
        reports.encode(survey, {"g": [31]})
    assert "31" not in str(told.value)
    assert reports.encode(survey, {"g": range(31)})["g=report"].to_pylist() == list(range(31))


def test_small_jobs_start_no_threads(monkeypatch):
    started = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, workers):
            started.append(workers)
            super().__init__(workers)

    monkeypatch.setattr(reports, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(reports, "_cores", lambda: 2)
    monkeypatch.setattr(reports, "BATCH", 100)
    survey = a_survey()
    survey.randomize(some_people(100))
    assert started == []
    before = threading.active_count()
    survey.randomize(some_people(101))
    assert started == [2]
    assert threading.active_count() == before
    monkeypatch.setattr(reports, "_cores", lambda: 1)
    survey.randomize(some_people(101))
    assert started == [2]


def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(reports, "BATCH", 10)
    monkeypatch.setattr(reports, "_cores", lambda: 2)

    def broken(self, positions, source):
        raise MemoryError("no room")

    monkeypatch.setattr(ThresholdChannel, "sample", broken)
    with pytest.raises(MemoryError, match="no room"):
        a_survey().randomize(some_people(50))


def test_a_wrong_last_value_draws_no_coin(monkeypatch):
    monkeypatch.setattr(reports, "BATCH", 10)
    source = Randomness.seeded(5)
    people = some_people(50)
    people["g"][-1] = 301
    with pytest.raises(InvalidValueError, match="g in row 50"):
        a_survey().randomize(people, randomness=source)
    assert (source.words(4) == Randomness.seeded(5).words(4)).all()
    assert (source.spawn().words(4) == Randomness.seeded(5).spawn().words(4)).all()
