"""Reports per second, one attribute of 256 values: metricldp and other libraries.

The guarantees differ: multi-freq-ldpy and pure-ldp have epsilon 1 between any two values, metricldp
and OpenDP epsilon 1 per step. metricldp samples exactly with cryptographic randomness, checks the
values and packs a table of reports; so does OpenDP, without the table. multi-freq-ldpy and pure-ldp
draw floating-point numbers from the Mersenne Twister, one respondent at a time. A library that is
not installed is left out; benchmarks/requirements.txt has the versions.
"""

import importlib.util
from collections.abc import Callable
from functools import partial

import numpy as np

import measure

SIZE, EPSILON = 256, 1.0
MECHANISMS = ("threshold", "geometric", "randomized-response", "additive")


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def others(values: np.ndarray) -> dict[str, tuple[int, Callable[[], object]]]:
    """Name, number of respondents and work of other libraries."""
    works: dict[str, tuple[int, Callable[[], object]]] = {}
    few, fewer = values[: len(values) // 4], values[: len(values) // 40]
    if installed("multi_freq_ldpy"):
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
        from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client
        from numba import njit

        @njit
        def unary_loop(positions):
            reports = np.empty((len(positions), SIZE), dtype=np.uint8)
            for place in range(len(positions)):
                reports[place] = UE_Client(positions[place], SIZE, EPSILON, True)
            return reports

        @njit
        def response_loop(positions):
            reports = np.empty(len(positions), dtype=np.int64)
            for place in range(len(positions)):
                reports[place] = GRR_Client(positions[place], SIZE, EPSILON)
            return reports

        works["multi-freq-ldpy UE_Client, calls"] = (
            len(few),
            lambda: [UE_Client(value, SIZE, EPSILON, True) for value in few.tolist()],
        )
        works["multi-freq-ldpy UE_Client, compiled"] = len(few), partial(unary_loop, few)
        works["multi-freq-ldpy GRR_Client, calls"] = (
            len(values),
            lambda: [GRR_Client(value, SIZE, EPSILON) for value in values.tolist()],
        )
        works["multi-freq-ldpy GRR_Client, compiled"] = len(values), partial(response_loop, values)
    if installed("pure_ldp"):
        from pure_ldp.frequency_oracles.unary_encoding import UEClient

        client = UEClient(EPSILON, SIZE, use_oue=True, index_mapper=lambda value: value)
        works["pure-ldp UEClient, calls"] = (
            len(fewer),
            lambda: [client.privatise(value) for value in fewer.tolist()],
        )
    if installed("opendp"):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=dp.i32)), dp.l1_distance(T=dp.i32)
        geometric = dp.m.make_geometric(*space, scale=1 / EPSILON)
        works["OpenDP make_geometric, one vector"] = (
            len(few),
            partial(geometric, few.astype(np.int32)),
        )
    return works


def main() -> None:
    small = measure.arguments(__doc__).small
    n, rounds = (200_000, 2) if small else (4_000_000, 7)
    works: dict[str, tuple[int, Callable[[], object]]] = {}
    for mechanism in MECHANISMS:
        survey = measure.survey_of(mechanism, ["a"], SIZE)
        works[f"metricldp {mechanism}"] = (
            n,
            partial(survey.randomize, measure.respondents_of(survey, n)),
        )
    works |= others(np.random.default_rng(2).integers(0, SIZE, n // 20))
    seconds = measure.median_seconds({name: work for name, (_, work) in works.items()}, rounds)
    rows = [
        {"sampler": name, "respondents": count, "reports per second": count / seconds[name]}
        for name, (count, _) in works.items()
    ]
    measure.table(rows, ["sampler", "respondents", "reports per second"], "encode")


if __name__ == "__main__":
    main()
