"""The systems that this one is compared with: plain local differential privacy, as channels.

They come in as plug-ins: the entry points of this package name the objects below.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import shown
from metricldp.lab.peers.condensed import Condensed
from metricldp.lab.peers.haar import Haar
from metricldp.lab.peers.hadamard import Hadamard
from metricldp.lab.peers.hashing import LocalHashing
from metricldp.lab.peers.hierarchy import Hierarchy, PlainHierarchy
from metricldp.lab.peers.hierarchy_unary import UnaryHierarchy
from metricldp.lab.peers.histogram import HistogramSum, HistogramThreshold
from metricldp.lab.peers.joint import HashedHio, Hio, LaplaceFaces, PlanarLaplace
from metricldp.lab.peers.prefix import Prefix
from metricldp.lab.peers.subset import SubsetSelection
from metricldp.lab.peers.unary import UnaryOptimised, UnarySymmetric
from metricldp.lab.peers.waves import SquareWave
from metricldp.mechanisms.base import ANY_TWO, EpsilonMechanism
from metricldp_core.distributions import Distribution

_WANG, _CORMODE = "Wang et al. 2017", "Cormode et al. 2019"


def _designed_by(channel: Any, size: int, epsilon: Fraction) -> Distribution:
    designed: Distribution = channel.for_epsilon(size, epsilon).distribution
    return designed


def _oracle(
    name: str, channel: Any, title: str, source: str, most: int, **more: Any
) -> EpsilonMechanism:
    """A peer that keeps one epsilon between any two values, simulated up to so many of them."""
    return EpsilonMechanism(
        name, partial(_designed_by, channel), ANY_TWO, title, source, max_simulated=most, **more
    )


UNARY_SYMMETRIC = _oracle(
    "unary-symmetric", UnarySymmetric, "symmetric unary", "Erlingsson et al. 2014", 256
)
UNARY_OPTIMISED = _oracle("unary-optimised", UnaryOptimised, "optimised unary (OUE)", _WANG, 256)
HISTOGRAM_SUM = _oracle("histogram-sum", HistogramSum, "noisy histogram (SHE)", _WANG, 64)
HISTOGRAM_THRESHOLD = _oracle(
    "histogram-threshold", HistogramThreshold, "cut histogram (THE)", _WANG, 256
)
LOCAL_HASHING = _oracle("local-hashing", LocalHashing, "local hashing (OLH)", _WANG, 256)
HADAMARD = _oracle("hadamard", Hadamard, "Hadamard response", "Acharya et al. 2019", 1 << 12)
SUBSET = _oracle("subset", SubsetSelection, "subset selection", "Ye and Barg 2018", 256)
HAAR = _oracle("haar", Haar, "Haar wavelet (HaarHRR)", _CORMODE, 1 << 12, needs_order=True)
SQUARE_WAVE = _oracle(
    "square-wave",
    SquareWave,
    "Square Wave, unbiased",
    "Li et al. 2020",
    256,
    needs_order=True,
    max_computed=256,
)
CONDENSED = Condensed()
PREFIX = EpsilonMechanism(
    "prefix",
    partial(_designed_by, Prefix),
    title="Laplace prefix sums",
    source="Haney et al. 2015, local",
    needs_order=True,
    max_computed=1024,
    max_simulated=64,
)


def _distribution(channel: Any, branching: int, size: int, epsilon: Fraction) -> Distribution:
    made: Distribution = channel.branched(branching, size, epsilon).distribution
    return made


class Hierarchies:
    """The family hierarchy-B, hierarchy-B-plain and hierarchy-B-unary, for any branching B."""

    _NAME = re.compile(r"hierarchy-([1-9][0-9]{0,8})(?:-(plain|unary))?", re.ASCII)
    _KINDS: ClassVar[dict[str, tuple[Any, str]]] = {
        "": (Hierarchy, "(TreeHRR)"),
        "plain": (PlainHierarchy, "raw (TreeHRR)"),
        "unary": (UnaryHierarchy, "unary (TreeOUE)"),
    }

    def named(self, name: str) -> EpsilonMechanism:
        found = self._NAME.fullmatch(name)
        if not found or int(found[1]) < 2:
            raise InvalidSpecError(
                f"mechanism {shown(name)} names no tree; write hierarchy-B, hierarchy-B-plain or "
                "hierarchy-B-unary with a whole number B of at least 2, such as hierarchy-4"
            )
        channel, told = self._KINDS[found[2] or ""]
        branching = int(found[1])
        return EpsilonMechanism(
            name,
            partial(_distribution, channel, branching),
            ANY_TWO,
            f"hierarchy of {branching}{',' if found[2] else ''} {told}",
            _CORMODE,
            needs_order=True,
            max_simulated=256 if found[2] == "unary" else 1 << 12,
        )

    @property
    def usual(self) -> list[EpsilonMechanism]:
        names = ("2", "4", "16", "4-plain", "4-unary")
        return [self.named(f"hierarchy-{name}") for name in names]


HIERARCHY = Hierarchies()
HIO, HIO_HASHING, PLANAR_LAPLACE, FACES = Hio(), HashedHio(), PlanarLaplace(), LaplaceFaces()
