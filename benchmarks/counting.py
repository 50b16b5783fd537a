"""Counts and tables from reports: against memory bandwidth, matrix products and a second."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numba import njit
from threadpoolctl import threadpool_limits

from measure import (
    NAMES,
    Figure,
    by_turns,
    compiled_from,
    number,
    people_of,
    quick,
    random_ranges,
    save,
    show,
    survey_of,
    timed,
)
from metricldp.store import cubes

MILLION = 1_000_000


@njit(nogil=True)
def read_four(columns, places):
    """Touch every word of four columns and do next to nothing with it."""
    one, two, three, four = (
        columns[places[0]],
        columns[places[1]],
        columns[places[2]],
        columns[places[3]],
    )
    mixed = np.uint64(0)
    for word in range(len(one)):
        mixed ^= one[word] ^ two[word] ^ three[word] ^ four[word]
    return mixed


@njit(nogil=True)
def read_many(columns, places):
    mixed = np.uint64(0)
    for row in range(len(places)):
        mixed ^= read_four(columns, places[row])
    return mixed


def one_count(n: int, queries: int) -> tuple[list[Figure], dict]:
    """Counts cut at both ends, and the bare reading of as many columns, query by query."""
    survey = survey_of("threshold")
    size = min(n, MILLION)
    parts = [survey.encode(people_of(survey, size, seed)) for seed in range(n // size)]
    tally = survey.tally(pa.concat_tables(parts), layout="reports")
    del parts
    rng = np.random.default_rng(3)
    for _ in range(10):  # bit columns are there after a few
        tally.count(random_ranges(rng))
    segments = tally.store._columns._segments
    height = len(segments[0][1])
    bytes_read = sum(4 * 8 * columns.shape[1] for _, columns in segments)
    columns_bytes = sum(columns.nbytes for _, columns in segments)

    def places(rows: int) -> np.ndarray:
        return np.array([rng.choice(height, 4, replace=False) for _ in range(rows)])

    def read(four: np.ndarray) -> None:
        for _, columns in segments:
            read_four(columns, four)

    together = 32

    def read_on_all_cores(pool: ThreadPoolExecutor, chosen: list[np.ndarray]) -> None:
        tasks = [(columns, rows) for rows in chosen for _, columns in segments]
        list(pool.map(lambda task: read_many(*task), tasks))

    read(places(1)[0])
    cores = os.cpu_count() or 1
    counts, reads, both = [], [], []
    with ThreadPoolExecutor(cores) as pool:
        read_on_all_cores(pool, [places(2)])
        for query in range(queries):
            where, four = random_ranges(rng), places(1)[0]
            counts.append(timed(lambda where=where: tally.count(where)))
            reads.append(timed(lambda four=four: read(four)))
            if query % 50 == 0:
                chosen = [places(together) for _ in range(cores)]
                taken = timed(lambda chosen=chosen: read_on_all_cores(pool, chosen))
                both.append(taken / (cores * together))
    count, alone, shared = (float(np.median(found)) for found in (counts, reads, both))
    what = f"one count, {n:,} threshold reports"
    figures = [
        Figure(
            what,
            f"{1e6 * count:.0f} us",
            f"reading 4 columns, {on}, {1e6 * taken:.0f} us ({bytes_read / taken / 1e9:.1f} GB/s)",
            count / taken,
            "times",
            2,
        )
        for on, taken in (("one core", alone), (f"{cores} cores", shared))
    ]
    details = {
        "queries": queries,
        "bytes_of_all_columns": columns_bytes,
        "bytes_read": bytes_read,
        "count_s": percentiles(counts),
        "read_one_core_s": percentiles(reads),
        "read_all_cores_s": percentiles(both),
    }
    return figures, details


def percentiles(seconds: list[float]) -> dict[str, float]:
    return {f"p{p}": float(np.percentile(seconds, p)) for p in (10, 50, 90)}


class MatrixProduct:
    """The same table by float32 matrix products, from the same packed reports.

    Every core takes blocks of rows that fit its cache, one BLAS thread each: at least as fast as
    BLAS' own threads, which get in each other's way when the machine is not idle.
    """

    rows = 2048

    def __init__(self, batches: list, features: int) -> None:
        self.features = features
        self.blocks = [
            [batch[name][start : start + self.rows] for name in NAMES]
            for batch in batches
            for start in range(0, len(batch[NAMES[0]]), self.rows)
        ]
        self.cores = os.cpu_count() or 1

    def build(self) -> tuple[np.ndarray, float]:
        """The table, and the seconds that multiplying alone took."""
        with threadpool_limits(1), ThreadPoolExecutor(self.cores) as pool:
            parts = list(pool.map(self._share, range(self.cores)))
        return np.sum([sums for sums, _ in parts], axis=0), max(taken for _, taken in parts)

    def _share(self, core: int) -> tuple[np.ndarray, float]:
        sums = np.zeros((self.features, self.features), dtype=np.int64)
        multiplying = 0.0
        for left, right in self.blocks[core :: self.cores]:
            first, second = self._signs(left), self._signs(right)
            started = time.perf_counter()
            product = first.T @ second
            multiplying += time.perf_counter() - started
            sums += product.astype(np.int64)
        return sums, multiplying

    def _signs(self, packed: np.ndarray) -> np.ndarray:
        """Bits to signs, behind a constant 1; sums over a block are exact in float32."""
        signs = np.ones((len(packed), self.features), dtype=np.float32)
        bits = np.unpackbits(packed, axis=1, count=self.features - 1, bitorder="little")
        np.multiply(bits, np.float32(2), out=signs[:, 1:])
        signs[:, 1:] -= 1
        return signs


def full_table(n: int, rounds: int) -> tuple[list[Figure], dict]:
    survey = survey_of("threshold")
    tally = survey.tally(survey.encode(people_of(survey, n)))
    batches = tally.store.batches(NAMES)
    product = MatrixProduct(batches, survey.channels["a"].features)
    alone: list[float] = []

    def ours() -> np.ndarray:
        return cubes.build(tally.store.batches(NAMES), survey.channels).sums

    def by_product() -> np.ndarray:
        sums, multiplying = product.build()
        alone.append(multiplying)
        return sums

    assert np.array_equal(ours(), by_product()), "the matrix product has another table"
    alone.clear()
    seconds = by_turns([ours, by_product], rounds)
    mine, whole = (float(np.median(found)) for found in seconds)
    bare = float(np.median(alone))
    what = f"256 x 256 table, {n:,} threshold reports"
    figures = [
        Figure(
            what,
            f"{1e3 * mine:.0f} ms",
            f"float32 product from the same reports, {1e3 * whole:.0f} ms",
            whole / mine,
            "times",
            10,
            at_least=True,
        ),
        Figure(
            what,
            f"{1e3 * mine:.0f} ms",
            f"the product alone, bits expanded for nothing, {1e3 * bare:.0f} ms",
            bare / mine,
            "times",
        ),
    ]
    return figures, {"ours_s": seconds[0], "product_s": seconds[1], "product_alone_s": alone}


def many_counts(n: int, queries: int, rounds: int) -> tuple[list[Figure], dict]:
    survey = survey_of("geometric")
    reports = survey.encode(people_of(survey, n))
    rng = np.random.default_rng(4)
    wheres = [random_ranges(rng) for _ in range(queries)]
    survey.tally(reports).counts(wheres[:100])
    (seconds,) = by_turns([lambda: survey.tally(reports).counts(wheres)], rounds)
    took = float(np.median(seconds))
    figure = Figure(
        f"{queries:,} counts, {n:,} geometric reports",
        f"{number(1e6 * took / queries)} us each",
        "a new tally each time, building included",
        took,
        "s",
        1,
    )
    return [figure], {"seconds": seconds}


def main() -> None:
    small = quick()
    compiled_from(0)
    one, one_details = one_count(2 * MILLION if small else 10 * MILLION, 200 if small else 2000)
    full, full_details = full_table(MILLION // 4 if small else MILLION, 3 if small else 7)
    many, many_details = many_counts(MILLION, 10_000, 2 if small else 5)
    notes = (
        "",
        "Two attributes of 256 values. Columns are read cold: each query takes others, and all",
        f"together are {one_details['bytes_of_all_columns'] / 1e9:.1f} GB. The tables of the "
        "second comparison are equal, entry by entry.",
    )
    figures = [*one, *full, *many]
    show("Counting", figures, notes)
    save("counting", figures, count=one_details, table=full_details, many=many_details)


if __name__ == "__main__":
    main()
