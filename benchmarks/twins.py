"""Compiled loops and their numpy twins, bit for bit: the same coins, the same answers."""

import sys
import warnings

from drive import steps
from measure import LOOPS, Figure, compiled_from, quick, save, show
from metricldp import Coins, SeededCoinsWarning

NEVER = 1 << 200


def results(n: int) -> dict[str, object]:
    seeds = iter(range(1, 100))
    return {name: work() for name, work in steps(n, lambda: Coins.seeded(next(seeds)))}


def main() -> None:
    n = 30_000 if quick() else 200_000
    warnings.simplefilter("ignore", SeededCoinsWarning)
    compiled_from(NEVER)
    twins = results(n)
    assert "numba" not in sys.modules, "the numpy twins were to run without numba"
    compiled_from(0)
    compiled = results(n)
    for loops in LOOPS:
        assert loops.now.__name__.endswith("_compiled"), f"{loops.now.__name__} is not compiled"
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
