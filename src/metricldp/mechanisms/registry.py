"""Mechanisms by name: our own, and those that installed packages add.

A package adds one with an entry point of the group `metricldp.mechanisms`: its name is the name in
surveys, its value a Mechanism, or a family whose `named(name)` makes one for every name that begins
with its own and a dash. The systems that this package is compared with come in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from metricldp.basics.checks import refuse_unknown
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import guess, shown
from metricldp.mechanisms.additive import AdditiveNoise
from metricldp.mechanisms.base import Mechanism, Problem
from metricldp.mechanisms.channel import Channel
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.extremal import ExtremalMechanism, TightConstraints
from metricldp.mechanisms.geometric import GEOMETRIC
from metricldp.mechanisms.matrix import Matrix
from metricldp.mechanisms.memoised import MemoisedResponse
from metricldp.mechanisms.randomized_response import RANDOMIZED_RESPONSE
from metricldp.mechanisms.threshold import THRESHOLD, THRESHOLD_DUMMY, THRESHOLD_PAPER
from metricldp.mechanisms.unary import Unary
from metricldp.metrics import Metric

GROUP = "metricldp.mechanisms"
"""The group of entry points that plug-ins register in."""
AUTO = "auto"

BUILT_IN: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        *(GEOMETRIC, THRESHOLD, THRESHOLD_PAPER, THRESHOLD_DUMMY, RANDOMIZED_RESPONSE),
        *(AdditiveNoise(), TightConstraints(), ExtremalMechanism()),
        *(Unary(), Matrix(), MemoisedResponse()),
    )
}


@cache
def plugged_in() -> Mapping[str, EntryPoint]:
    """What installed packages add, by name; our own names are not theirs to change."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        before = found.setdefault(entry.name, entry)
        if _is_ours(entry) or _is_ours(before):
            found[entry.name] = entry if _is_ours(entry) else before
        elif before.value != entry.value:
            raise InvalidSpecError(
                f"two packages add a mechanism {entry.name!r}: {before.value} and {entry.value}; "
                "uninstall one of them"
            )
    return {name: entry for name, entry in found.items() if name not in BUILT_IN}


def asks_for_best(said: Any) -> dict[str, Any] | None:
    """What `auto` is to be good for, if that is what is said: a workload, a prior, or nothing."""
    if isinstance(said, str) and said == AUTO:
        return {}
    if not isinstance(said, Mapping) or said.get("name") != AUTO:
        return None
    rest = {key: value for key, value in said.items() if key != "name"}
    refuse_unknown("mechanism 'auto'", rest, ("workload", "prior"))
    return rest


def check_asked(workload: Any, ordered: bool) -> None:
    """Refuse the mean of what has no order."""
    names = workload if isinstance(workload, Mapping) else (workload,)
    if not ordered and any(isinstance(name, str) and name == "mean" for name in names):
        raise InvalidSpecError("categories have no mean; use the workload values, or leave it out")


def mechanism(
    said: Any, *, ordered: bool = True, only: str | None = None, joint: bool = False
) -> Mechanism:
    """The mechanism that is meant: by its name, by a table with its data, or itself.

    `ordered`, `only` and `joint` say what it is for, so that a refusal lists no other.
    """
    if isinstance(said, Mechanism):
        own = BUILT_IN.get(said.name, said)
        ours = type(own) is type(said) and (own.options or own == said)
        if not said.name or not ours:
            raise InvalidSpecError(
                f"a mechanism of one's own needs a name of its own, not {said.name!r}; its survey "
                "file would mean another"
            )
        return said
    if isinstance(said, Mapping):
        rest = dict(said)
        name = rest.pop("name", None)
        if not isinstance(name, str):
            raise InvalidSpecError(
                f"a mechanism is a name or a table with a name, not {shown(said)}"
            )
        found = mechanism(name, ordered=ordered, only=only, joint=joint)
        return found.with_options(rest)
    if isinstance(said, str):
        if said in BUILT_IN:
            return BUILT_IN[said]
        plugged = _from_plug_in(said)
        if plugged is not None:
            return plugged
    known = [own.name for own in every_mechanism() if _fits(own, ordered, only, joint)]
    meant = guess(said, known if joint else [AUTO, *known])
    raise InvalidSpecError(
        f"there is no mechanism {shown(said)}; choose {_choice(ordered, only, joint)}{meant}"
    )


def is_known(name: str) -> bool:
    """Whether a mechanism of this name is built in or installed."""
    return name in BUILT_IN or _from_plug_in(name) is not None


def check_serves(found: Mechanism, kind: str, ordered: bool, only: str | None) -> None:
    """Refuse a mechanism that cannot blur attributes of a kind, with those that can."""
    if found.joint:
        raise InvalidSpecError(
            f"mechanism {found.name!r} randomizes several attributes together; name them in joint="
        )
    if not _fits(found, ordered, only):
        raise InvalidSpecError(
            f"mechanism {found.name!r} does not support {kind} attributes; "
            f"choose {_choice(ordered, only)}"
        )


def _fits(found: Mechanism, ordered: bool, only: str | None, joint: bool = False) -> bool:
    serves = (found.groups or found.joint) if joint else not found.joint
    return found.serves(ordered) and serves and only in (None, found.name)


def _choice(ordered: bool, only: str | None, joint: bool = False) -> str:
    """At most eight names; the variants of the paper and plug-ins are left out."""
    found = [] if joint else [AUTO]
    found += [name for name, own in BUILT_IN.items() if _fits(own, ordered, only, joint)]
    names = [name for name in found if not name.startswith("threshold-")][:8]
    return ", ".join(names) + " or a plug-in" * (only is None)


@cache
def _from_plug_in(name: str) -> Mechanism | None:
    """An entry point of that name, or a member of the family that the name begins with.

    Our own come first: nobody else changes what one of our names means.
    """
    parts = name.split("-")
    begins = ["-".join(parts[:count]) for count in range(len(parts), 0, -1)]
    known = [begin for begin in begins if begin in plugged_in()]
    for begin in sorted(known, key=lambda begin: not _is_ours(plugged_in()[begin])):
        loaded = _loaded(begin)
        found: Mechanism = loaded.named(name) if hasattr(loaded, "named") else loaded
        if found.name == name:
            return found
    return None


def _is_ours(entry: EntryPoint) -> bool:
    return entry.value.startswith("metricldp.")


def _loaded(name: str) -> Any:
    entry = plugged_in()[name]
    try:
        found = entry.load()
    except (ImportError, AttributeError) as wrong:
        why = f"the mechanism {name!r} of {entry.value} cannot be loaded: {wrong}"
        raise InvalidSpecError(why) from None
    if not isinstance(found, Mechanism) and not hasattr(found, "named"):
        raise InvalidSpecError(
            f"{entry.value}, the mechanism {name!r}, is not a Mechanism: {shown(found)}"
        )
    if isinstance(found, Mechanism) and found.name != name:
        raise InvalidSpecError(
            f"the entry point {name!r} of {entry.value} has a mechanism called {found.name!r}; "
            "give both one name"
        )
    return found


def every_mechanism() -> Iterator[Mechanism]:
    """Our own and everybody's; of a family its usual members."""
    yield from BUILT_IN.values()
    for name in plugged_in():
        loaded = _loaded(name)
        yield from [loaded] if isinstance(loaded, Mechanism) else loaded.usual


def build(said: Any, size: int, metric: Metric) -> Channel:
    """The channel of a mechanism for `size` positions under a metric."""
    found = mechanism(said)
    return channel_of(found.design(Problem.single(size, metric, ordered=found.needs_order)))
