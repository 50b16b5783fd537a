"""HIO, planar Laplace noise and Laplace faces: mechanisms for several attributes together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from metricldp.attributes.base import LARGEST_SIZE
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_whole
from metricldp.basics.text import shown
from metricldp.lab.peers.faces import Faces
from metricldp.lab.peers.hio import HadamardBoxes
from metricldp.lab.peers.hio_hashing import HashedBoxes
from metricldp.lab.peers.planar import SMALLEST_STEP, Planar
from metricldp.mechanisms.base import ANY_TWO
from metricldp.mechanisms.channel import LARGEST_EPSILON
from metricldp.mechanisms.joint import JointChannel, JointMechanism, Metrics, People, Sizes
from metricldp.metrics import Line, Metric, Uniform
from metricldp.metrics.grid import root_below


@dataclass(frozen=True)
class _OnTrees(JointMechanism):
    """HIO: one epsilon between any two people, the smallest distance of any attribute."""

    branching: int = 5

    saves: ClassVar[tuple[str, ...]] = ("branching",)
    promise: ClassVar[str] = ANY_TWO  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not is_whole(self.branching) or self.branching < 2:
            raise InvalidSpecError(
                f"branching is a whole number of at least 2, not {shown(self.branching)}"
            )
        # No attribute has more positions, so more branches mean the same.
        object.__setattr__(self, "branching", min(int(self.branching), LARGEST_SIZE))

    def joined(self, sizes: Sizes, metrics: Metrics, ordered: Sequence[bool]) -> JointChannel:
        """Categories have no order, so their tree is a root with leaves."""
        pairs = zip(sizes, ordered, strict=True)
        branchings = tuple(min(size, self.branching if line else size) for size, line in pairs)
        epsilon = min(self._smallest(sizes, metrics), LARGEST_EPSILON)
        return self._boxes(sizes, branchings, epsilon)

    @abstractmethod
    def _boxes(self, sizes: Sizes, branchings: Sizes, epsilon: Fraction) -> JointChannel: ...

    def _smallest(self, sizes: Sizes, metrics: Metrics) -> Fraction:
        return min(metric.smallest(size) for size, metric in zip(sizes, metrics, strict=True))

    def distance(self, sizes: Sizes, metrics: Metrics, x: People, other: People) -> Fraction:
        return self._smallest(sizes, metrics)

    def margins(self, sizes: Sizes, metrics: Metrics) -> list[Metric]:
        return [Uniform(self._smallest(sizes, metrics))] * len(sizes)


@dataclass(frozen=True)
class Hio(_OnTrees):
    """HIO with Hadamard response.

    With `consistent`, answers are read from the same reports with the best weights of all levels
    instead of the fewest nodes.
    """

    consistent: bool = False

    saves: ClassVar[tuple[str, ...]] = ("branching", "consistent")
    name: ClassVar[str] = "hio"  # type: ignore[misc]
    title: ClassVar[str] = "HIO with Hadamard response"  # type: ignore[misc]
    source: ClassVar[str] = "Wang et al. 2019, other oracle"  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.consistent, bool):
            raise InvalidSpecError(f"consistent is true or false, not {shown(self.consistent)}")

    def _boxes(self, sizes: Sizes, branchings: Sizes, epsilon: Fraction) -> JointChannel:
        return HadamardBoxes.for_epsilon(sizes, branchings, epsilon, consistent=self.consistent)


@dataclass(frozen=True)
class HashedHio(_OnTrees):
    """HIO with local hashing and the fewest nodes, as published."""

    name: ClassVar[str] = "hio-hashing"  # type: ignore[misc]
    title: ClassVar[str] = "HIO, published (OLH)"  # type: ignore[misc]
    source: ClassVar[str] = "Wang et al. 2019"  # type: ignore[misc]

    def _boxes(self, sizes: Sizes, branchings: Sizes, epsilon: Fraction) -> JointChannel:
        return HashedBoxes.for_epsilon(sizes, branchings, epsilon)


@dataclass(frozen=True)
class PlanarLaplace(JointMechanism):
    """Two attributes on lines, by their distance in the plane; up to 32 x 32 cells."""

    name: ClassVar[str] = "planar-laplace"  # type: ignore[misc]
    title: ClassVar[str] = "planar Laplace noise"  # type: ignore[misc]
    source: ClassVar[str] = "Andrés et al. 2013"  # type: ignore[misc]

    def joined(self, sizes: Sizes, metrics: Metrics, ordered: Sequence[bool]) -> JointChannel:
        if len(sizes) != 2:
            raise InvalidSpecError(f"planar Laplace noise is for two attributes, not {len(sizes)}")
        if not all(metric.is_line for metric in metrics):
            raise InvalidSpecError(
                "planar Laplace noise is for distances along lines: numbers or levels"
            )
        first, second = (m.per_step(size) for m, size in zip(metrics, sizes, strict=True))
        if min(first, second) < SMALLEST_STEP:
            raise InvalidSpecError(
                f"epsilon {float(min(first, second)):.3g} per step is too small for planar Laplace "
                f"noise; use a coarser grid, for at least {float(SMALLEST_STEP):.3g} per step"
            )
        return Planar.for_steps((sizes[0], sizes[1]), (first, second))

    def distance(self, sizes: Sizes, metrics: Metrics, x: People, other: People) -> Fraction:
        """The distance in the plane, rounded down by less than 2^-96."""
        apart = [m.distance(a, b) for m, a, b in zip(metrics, x, other, strict=True)]
        return root_below(sum((length**2 for length in apart), Fraction(0)))

    def margins(self, sizes: Sizes, metrics: Metrics) -> list[Metric]:
        return list(metrics)


@dataclass(frozen=True)
class LaplaceFaces(JointMechanism):
    """Attributes on lines, epsilon per step of each: distances add up."""

    name: ClassVar[str] = "faces"  # type: ignore[misc]
    title: ClassVar[str] = "Laplace faces"  # type: ignore[misc]
    source: ClassVar[str] = "Haney et al. 2015, local"  # type: ignore[misc]
    adds_up: ClassVar[bool] = True
    max_computed: ClassVar[int] = 256  # type: ignore[misc]
    max_simulated: ClassVar[int] = 8  # type: ignore[misc]

    def joined(self, sizes: Sizes, metrics: Metrics, ordered: Sequence[bool]) -> JointChannel:
        if not all(ordered):
            raise InvalidSpecError(
                "Laplace faces are for attributes with an order: numbers or levels"
            )
        return Faces.for_steps(sizes, self._steps(sizes, metrics))

    def _steps(self, sizes: Sizes, metrics: Metrics) -> tuple[Fraction, ...]:
        pairs = zip(metrics, sizes, strict=True)
        return tuple(min(metric.per_step(size), LARGEST_EPSILON) for metric, size in pairs)

    def distance(self, sizes: Sizes, metrics: Metrics, x: People, other: People) -> Fraction:
        apart = (abs(a - b) for a, b in zip(x, other, strict=True))
        steps = zip(self._steps(sizes, metrics), apart, strict=True)
        return sum((step * length for step, length in steps), Fraction(0))

    def margins(self, sizes: Sizes, metrics: Metrics) -> list[Metric]:
        return [Line(step) for step in self._steps(sizes, metrics)]
