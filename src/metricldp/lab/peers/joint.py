"""HIO, planar Laplace noise and Laplace faces: mechanisms for several attributes together."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, cast

from metricldp.attributes.base import LARGEST_SIZE
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.numbers import is_whole
from metricldp.basics.progress import Progress
from metricldp.basics.text import shown
from metricldp.lab.peers.faces import Faces
from metricldp.lab.peers.hio import HadamardBoxes
from metricldp.lab.peers.hio_hashing import HashedBoxes
from metricldp.lab.peers.planar import SMALLEST_STEP, Planar
from metricldp.mechanisms.base import ANY_TWO, Mechanism, Problem
from metricldp.mechanisms.channel import LARGEST_EPSILON
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.joint import JointChannel, Sizes
from metricldp.metrics import Line, Metric, Uniform
from metricldp.metrics.product import ProductMetric
from metricldp_core.distributions import Distribution


@dataclass(frozen=True)
class _OnTrees(Mechanism):
    """HIO: one epsilon between any two people, the smallest distance of any attribute."""

    branching: int = 5

    options: ClassVar[tuple[str, ...]] = ("branching",)
    guarantee: ClassVar[str] = ANY_TWO  # type: ignore[misc]
    joint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not is_whole(self.branching) or self.branching < 2:
            raise InvalidSpecError(
                f"branching is a whole number of at least 2, not {shown(self.branching)}"
            )
        # No attribute has more positions, so more branches mean the same.
        object.__setattr__(self, "branching", min(int(self.branching), LARGEST_SIZE))

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        """Categories have no order, so their tree is a root with leaves."""
        pairs = zip(problem.sizes, problem.ordered, strict=True)
        branchings = tuple(min(size, self.branching if line else size) for size, line in pairs)
        epsilon = min(problem.metric.smallest(problem.size), LARGEST_EPSILON)
        return self._boxes(problem.sizes, branchings, epsilon).distribution

    @abstractmethod
    def _boxes(self, sizes: Sizes, branchings: Sizes, epsilon: Fraction) -> JointChannel: ...

    def proved_metric(self, metric: Metric, distribution: Distribution) -> Metric:
        return Uniform(metric.smallest(distribution.size))


@dataclass(frozen=True)
class Hio(_OnTrees):
    """HIO with Hadamard response.

    With `consistent`, answers are read from the same reports with the best weights of all levels
    instead of the fewest nodes.
    """

    consistent: bool = False

    options: ClassVar[tuple[str, ...]] = ("branching", "consistent")
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
class PlanarLaplace(Mechanism):
    """Two attributes on lines, by their distance in the plane; up to 32 x 32 cells."""

    name: ClassVar[str] = "planar-laplace"  # type: ignore[misc]
    title: ClassVar[str] = "planar Laplace noise"  # type: ignore[misc]
    source: ClassVar[str] = "Andrés et al. 2013"  # type: ignore[misc]

    joint: ClassVar[bool] = True

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        sizes, metrics = problem.sizes, _metrics(problem.metric)
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
        return Planar.for_steps((sizes[0], sizes[1]), (first, second)).distribution

    def proved_metric(self, metric: Metric, distribution: Distribution) -> Metric:
        """The distance in the plane."""
        return replace(cast(ProductMetric, metric), p=2)


@dataclass(frozen=True)
class LaplaceFaces(Mechanism):
    """Attributes on lines, epsilon per step of each: distances add up."""

    name: ClassVar[str] = "faces"  # type: ignore[misc]
    title: ClassVar[str] = "Laplace faces"  # type: ignore[misc]
    source: ClassVar[str] = "Haney et al. 2015, local"  # type: ignore[misc]
    joint: ClassVar[bool] = True
    max_computed: ClassVar[int] = 256  # type: ignore[misc]
    max_simulated: ClassVar[int] = 8  # type: ignore[misc]

    def distribution(self, problem: Problem, effort: Effort, progress: Progress) -> Distribution:
        if not all(problem.ordered):
            raise InvalidSpecError(
                "Laplace faces are for attributes with an order: numbers or levels"
            )
        metric = self._lines(cast(ProductMetric, problem.metric))
        steps = tuple(line.step for line in metric.metrics)
        return Faces.for_steps(problem.sizes, steps).distribution

    def _lines(self, metric: ProductMetric) -> ProductMetric:
        """The steepest lines below the metrics of the attributes."""
        sides = zip(metric.metrics, metric.sizes, strict=True)
        steps = (min(own.per_step(size), LARGEST_EPSILON) for own, size in sides)
        return replace(metric, metrics=tuple(Line(step) for step in steps))

    def proved_metric(self, metric: Metric, distribution: Distribution) -> Metric:
        return self._lines(cast(ProductMetric, metric))


def _metrics(metric: Metric) -> tuple[Metric, ...]:
    return cast(ProductMetric, metric).metrics
