"""Reports per second, one attribute of 256 values: metricldp and its peers, by turns."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import opendp.prelude as dp
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client
from numba import njit
from pure_ldp.frequency_oracles.unary_encoding import UEClient

from measure import Figure, by_turns, compiled_from, number, people_of, quick, save, show, survey_of

SIZE = 256
EPSILON = 1.0
NOTES = (
    "",
    "This is speed only; the promises differ. multi-freq-ldpy and pure-ldp keep epsilon = 1",
    "between any two values, metricldp and OpenDP epsilon = 1 per step. Their reports answer",
    "other questions.",
    "metricldp: exact sampling, AES-256-CTR coins; values checked, reports packed into a table.",
    "OpenDP: exact sampling and cryptographic randomness as well. multi-freq-ldpy and pure-ldp:",
    "floating-point probabilities and the Mersenne Twister of numpy, numba and Python.",
    '"call by call" is one Python call for each person, as their documents show it;',
    '"compiled loop" calls the same compiled client from a loop compiled around it.',
)


@dataclass(frozen=True)
class Side:
    """One way of encoding n people."""

    name: str
    n: int
    work: Callable[[], object]


@njit
def ue_loop(values, size, epsilon, optimal):
    reports = np.empty((len(values), size), dtype=np.uint8)
    for place in range(len(values)):
        reports[place] = UE_Client(values[place], size, epsilon, optimal)
    return reports


@njit
def grr_loop(values, size, epsilon):
    reports = np.empty(len(values), dtype=np.int64)
    for place in range(len(values)):
        reports[place] = GRR_Client(values[place], size, epsilon)
    return reports


def own(mechanism: str, n: int) -> Side:
    survey = survey_of(mechanism, ["a"])
    people = people_of(survey, n)
    return Side(mechanism, n, lambda: survey.encode(people))


def multi_freq_ue(values: np.ndarray, optimal: bool, compiled: bool) -> Side:
    kind = "optimised" if optimal else "symmetric"
    how = "compiled loop" if compiled else "call by call"
    listed = values.tolist()

    def work():
        if compiled:
            return ue_loop(values, SIZE, EPSILON, optimal)
        return [UE_Client(value, SIZE, EPSILON, optimal) for value in listed]

    return Side(f"multi-freq-ldpy UE_Client, {kind}, {how}", len(values), work)


def multi_freq_grr(values: np.ndarray, compiled: bool) -> Side:
    how = "compiled loop" if compiled else "call by call"
    listed = values.tolist()

    def work():
        if compiled:
            return grr_loop(values, SIZE, EPSILON)
        return [GRR_Client(value, SIZE, EPSILON) for value in listed]

    return Side(f"multi-freq-ldpy GRR_Client, {how}", len(values), work)


def pure(values: np.ndarray, optimal: bool) -> Side:
    client = UEClient(EPSILON, SIZE, use_oue=optimal, index_mapper=lambda value: value)
    listed = values.tolist()
    kind = "optimised" if optimal else "symmetric"
    return Side(
        f"pure-ldp UEClient, {kind}, call by call",
        len(values),
        lambda: [client.privatise(value) for value in listed],
    )


def opendp_geometric(values: np.ndarray) -> Side:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=dp.i32)), dp.l1_distance(T=dp.i32)
    measurement = dp.m.make_geometric(*space, scale=1 / EPSILON)
    whole = values.astype(np.int32)
    return Side("OpenDP make_geometric, one vector", len(values), lambda: measurement(whole))


def against(ours: str, peers: list[Side], rates: dict[str, float], target: float) -> Figure:
    """How many times the rate of the fastest of some peers."""
    best = max((peer.name for peer in peers), key=rates.__getitem__)
    return Figure(
        f"encode, {ours}",
        f"{number(rates[ours])}/s",
        f"{best}, {number(rates[best])}/s",
        rates[ours] / rates[best],
        "times",
        target,
        at_least=True,
    )


def main() -> None:
    small = quick()
    n, part, rounds = (400_000, 10, 3) if small else (4_000_000, 1, 7)
    values = np.random.default_rng(2).integers(0, SIZE, 200_000 // part)
    threshold, geometric = own("threshold", n), own("geometric", n)
    ue = [multi_freq_ue(values[: 30_000 // part], kind, False) for kind in (True, False)]
    ue_compiled = [multi_freq_ue(values[: 60_000 // part], kind, True) for kind in (True, False)]
    pure_ue = [pure(values[: 5_000 // part], kind) for kind in (True, False)]
    grr = [multi_freq_grr(values, False)]
    grr_compiled = [multi_freq_grr(values, True)]
    vector = [opendp_geometric(values[: 50_000 // part])]
    sides = [threshold, geometric, *ue, *ue_compiled, *pure_ue, *grr, *grr_compiled, *vector]
    compiled_from(0)
    by_turns([side.work for side in sides], 1)  # all are compiled before they are timed
    seconds = by_turns([side.work for side in sides], rounds)
    rates = {
        side.name: side.n / float(np.median(found))
        for side, found in zip(sides, seconds, strict=True)
    }
    figures = [
        against("threshold", ue, rates, 50),
        against("threshold", ue_compiled, rates, 50),
        against("threshold", pure_ue, rates, 150),
        against("geometric", grr, rates, 10),
        against("geometric", grr_compiled, rates, 10),
        against("geometric", vector, rates, 100),
    ]
    title = f"Encoding {n:,} people, one attribute of 256 values; medians of {rounds} rounds"
    show(title, figures, NOTES)
    save("encode", figures, people=n, reports_per_second=rates, seconds=seconds)


if __name__ == "__main__":
    main()
