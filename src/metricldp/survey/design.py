"""The design of an attribute that is randomized alone, and its restoration from a survey file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from metricldp.attributes.base import Attribute
from metricldp.basics.checks import positive
from metricldp.basics.errors import CertificateError, InvalidSpecError
from metricldp.basics.progress import Progress
from metricldp.mechanisms import registry
from metricldp.mechanisms.auto import choose
from metricldp.mechanisms.base import Mechanism, Problem, UninstalledMechanism
from metricldp.mechanisms.bins import with_best_bins
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.channels import channel_of, threshold_name
from metricldp.mechanisms.effort import Effort
from metricldp.mechanisms.extremal_search import BestMixture
from metricldp.mechanisms.memoised import MemoisedResponse, first_mechanism
from metricldp.metrics import Metric
from metricldp_core import distributions as core
from metricldp_core.canonical import Entry
from metricldp_core.distributions import SUPPORTED, Distribution
from metricldp_core.errors import InvalidManifestError
from metricldp_core.exact import decimal_of
from metricldp_core.levels import Additive
from metricldp_core.verify import prove, steps

MAX_PAIRS_CHECKED = 1 << 16
"""Steps of the proof of a mechanism from elsewhere, up to which it runs when a survey is made."""
DESIGN_IT = "write a spec and design it: Survey.design(spec), metricldp design"


@dataclass(frozen=True)
class Randomized:
    """An attribute with its mechanism, the problem that it solves, and its distribution."""

    attribute: Attribute
    problem: Problem
    distribution: Distribution

    @property
    def search(self) -> BestMixture | None:
        """How the search for an extremal mixture ended, if the design ran one."""
        return getattr(self.distribution, "search", None)

    @cached_property
    def channel(self) -> Channel:
        return channel_of(self.distribution, getattr(self.attribute.mechanism, "prior", None))


def randomized(
    name: str,
    attribute: Attribute,
    share: Fraction,
    stored: Distribution | None,
    effort: Effort,
    progress: Progress,
) -> Randomized:
    """Design the distribution of an attribute, unless a survey file states it."""
    try:
        if stored is None:
            return designed(attribute, share, effort, progress)
        return restored(attribute, share, stored)
    except (CertificateError, InvalidSpecError) as wrong:
        raise InvalidSpecError(f"attribute {name}: {wrong}") from None


def designed(
    attribute: Attribute, share: Fraction, effort: Effort, progress: Progress
) -> Randomized:
    """Choose the mechanism of an attribute if it states "auto", and design its distribution."""
    if attribute.undecided:
        attribute = with_best_bins(attribute, share)
    problem, stated = _problem(attribute, share), attribute.mechanism
    if (asked := registry.asks_for_best(stated)) is not None:
        registry.check_asked(asked.get("workload"), attribute.ordered)
        if attribute.only_mechanism is None:
            mechanism, distribution = choose(replace(problem, **asked), effort, progress)
            return Randomized(replace(attribute, mechanism=mechanism), problem, distribution)
        stated = attribute.only_mechanism
    mechanism = registry.mechanism(stated, ordered=attribute.ordered, only=attribute.only_mechanism)
    registry.check_serves(mechanism, attribute.kind, attribute.ordered, attribute.only_mechanism)
    registry.check_asked(mechanism.workload, attribute.ordered)
    distribution = mechanism.design(problem, effort, progress)
    if mechanism.name not in registry.BUILT_IN:
        _check_guarantee(mechanism, problem, distribution)
    mechanism = mechanism.resolved(problem, distribution)
    return Randomized(replace(attribute, mechanism=mechanism), problem, distribution)


def _problem(attribute: Attribute, share: Fraction) -> Problem:
    return Problem.single(
        attribute.size,
        metric_on_positions(attribute, share),
        ordered=attribute.ordered,
        epsilon=decimal_of(attribute.epsilon),
        label=attribute.label,
    )


def metric_on_positions(attribute: Attribute, share: Fraction) -> Metric:
    """The metric that the distribution of an attribute has to guarantee.

    Distances shrink by the share of an Lp metric; where positions are rounded at random, the
    metric between points of the grid is a little smaller.
    """
    metric = attribute.distances.scaled(share)
    return metric.on_grid_points() if attribute.rounded_at_random else metric


def _check_guarantee(mechanism: Mechanism, problem: Problem, distribution: Distribution) -> None:
    """Reject a plug-in that breaks its metric; of long domains the certificate states it."""
    metric = problem.metric.to_core(problem.size)
    if steps(distribution, metric) > MAX_PAIRS_CHECKED:
        return
    for pair in prove("", distribution, metric).pairs:
        if not pair.holds:
            raise InvalidSpecError(
                f"mechanism {mechanism} distinguishes {problem.label(pair.x)} from "
                f"{problem.label(pair.other)} better than the metric allows; run "
                "check_mechanism on it"
            )


# From a survey file -------------------------------------------------------------------------------


def distribution_from(data: Any, size: int, place: str) -> Distribution:
    """The output distribution that a survey file states, for so many positions."""
    try:
        entry = Entry(data, place)
        distribution = core.read_distribution(entry, SUPPORTED)
        if distribution.size != size:
            entry.reject(f"has {distribution.size:,} positions, the attribute has {size:,}")
    except InvalidManifestError as error:
        raise InvalidSpecError(str(error).replace("manifest", "survey file", 1)) from None
    return distribution


def restored(attribute: Attribute, share: Fraction, distribution: Distribution) -> Randomized:
    """An attribute of a survey file with its mechanism, which need not be installed."""
    stated, problem = attribute.only_mechanism or attribute.mechanism, _problem(attribute, share)
    mechanism: Mechanism
    is_table = isinstance(stated, str) and distribution.kind == core.Table.kind
    if is_table and not registry.is_known(stated):
        mechanism = UninstalledMechanism(stated)
    else:
        if registry.asks_for_best(stated) is not None:
            raise InvalidSpecError("name the mechanism of the distribution")
        mechanism = registry.mechanism(
            stated, ordered=attribute.ordered, only=attribute.only_mechanism
        )
        mechanism = resolved(mechanism, problem, distribution, stated)
    registry.check_serves(mechanism, attribute.kind, attribute.ordered, attribute.only_mechanism)
    return Randomized(replace(attribute, mechanism=mechanism), problem, distribution)


def resolved(
    mechanism: Mechanism, problem: Problem, distribution: Distribution, stated: Any
) -> Mechanism:
    """The mechanism of a survey file, if it is one of the distribution beside it."""
    for key in stated if isinstance(stated, Mapping) else ():
        if key in mechanism.search_options:
            raise InvalidSpecError(
                f"{key!r} of mechanism {mechanism.name!r} follows from the distribution; "
                "leave it out"
            )
    check_kind(mechanism, distribution, problem.sizes)
    if isinstance(mechanism, MemoisedResponse) and isinstance(distribution, core.Memoised):
        check_kind(first_mechanism(mechanism.first), distribution.first, problem.sizes)
        positive("each", mechanism.each)
    return mechanism.resolved(problem, distribution)


def check_kind(mechanism: Mechanism, stored: Distribution, sizes: tuple[int, ...]) -> None:
    """Reject a distribution that a mechanism for values of these sizes does not have."""
    if mechanism.kind not in ("", stored.kind):
        raise InvalidSpecError(
            f"mechanism {mechanism.name!r} has a distribution {mechanism.kind!r}, not "
            f"{stored.kind!r}"
        )
    bits = threshold_name(stored) if isinstance(stored, core.Threshold) else mechanism.name
    if mechanism.kind and bits != mechanism.name:
        raise InvalidSpecError(
            f"mechanism {mechanism.name!r} does not have {stored.bits:,} bits for {stored.size:,} "
            "values"
        )
    if isinstance(stored, Additive) and stored.sizes != sizes:
        raise InvalidSpecError(
            f"the distribution has sizes {list(stored.sizes)}, needs {list(sizes)}"
        )


def check_designed(name: str, attribute: Attribute) -> None:
    """Reject an attribute of a survey file without what only a design computes."""
    if attribute.undecided or not _is_baseline(name, attribute):
        raise InvalidSpecError(f"attribute {name} is not designed; {DESIGN_IT}")


def _is_baseline(name: str, attribute: Attribute) -> bool:
    """Whether the mechanism is a baseline, which has no distribution in survey files."""
    try:
        if registry.asks_for_best(attribute.mechanism) is not None:
            return False
        mechanism = registry.mechanism(attribute.mechanism, ordered=attribute.ordered)
        return mechanism.name not in registry.BUILT_IN
    except InvalidSpecError as wrong:
        raise InvalidSpecError(f"attribute {name}: {wrong}") from None
