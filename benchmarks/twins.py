"""Compiled loops and their numpy twins, bit for bit: the same coins, the same answers."""

import sys
import warnings

from drive import steps
from measure import Figure, quick, save, show
from metricldp import Coins, SeededCoinsWarning, kernels

NEVER = 1 << 200


def results(n: int) -> dict[str, object]:
    seeds = iter(range(1, 100))
    return {name: work() for name, work in steps(n, lambda: Coins.seeded(next(seeds)))}


def main() -> None:
    n = 30_000 if quick() else 200_000
    warnings.simplefilter("ignore", SeededCoinsWarning)
    kernels.LARGE = NEVER
    twins = results(n)
    assert "numba" not in sys.modules, "the numpy twins were to run without numba"
    kernels.LARGE = 0
    compiled = results(n)
    assert "metricldp.kernels.compiled" in sys.modules, "the compiled loops did not run"
    different = [name for name, found in compiled.items() if found != twins[name]]
    figure = Figure(
        f"compiled loops, {n:,} people",
        f"{len(compiled)} kinds of calls",
        "numpy twins",
        len(different),
        "different",
        0,
    )
    show("Bit for bit", [figure])
    save("twins", [figure], calls=list(compiled), different=different)
    assert not different, f"compiled loops and numpy twins differ: {different}"


if __name__ == "__main__":
    main()
