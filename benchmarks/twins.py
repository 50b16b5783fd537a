"""Compiled loops and their numpy twins, bit for bit: the same coins, the same answers."""

import sys
import warnings

from drive import steps
from measure import Figure, quick, save, show
from metricldp import Coins, SeededCoinsWarning
from metricldp.kernels import counting, encoding

NEVER = 1 << 200


def results(n: int) -> dict[str, object]:
    seeds = iter(range(1, 100))
    return {name: work() for name, work in steps(n, lambda: Coins.seeded(next(seeds)))}


def main() -> None:
    n = 30_000 if quick() else 200_000
    warnings.simplefilter("ignore", SeededCoinsWarning)
    counting.loops.large = encoding.loops.large = NEVER
    twins = results(n)
    assert "numba" not in sys.modules, "the numpy twins were to run without numba"
    counting.loops.large = encoding.loops.large = 0
    compiled = results(n)
    for kind in ("counting", "encoding"):
        name = f"metricldp.kernels.{kind}_compiled"
        assert name in sys.modules, f"the compiled loops of {kind} did not run"
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
