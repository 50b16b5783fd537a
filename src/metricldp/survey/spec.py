"""What people write about a survey: attributes, guarantees and groups, before it is designed."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from metricldp.attributes.base import Attribute
from metricldp.attributes.continuous import AutoBins
from metricldp.attributes.kinds import from_dict
from metricldp.basics.checks import refuse_unknown
from metricldp.basics.errors import InvalidSpecError
from metricldp.basics.text import listed, shown
from metricldp.mechanisms.base import Mechanism
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Lp
from metricldp.survey import files
from metricldp.survey.agreement import attribute_tables, check_attributes
from metricldp.survey.blocks import USUAL, Group, blocks_of, joint_from

_KEYS = ("metric", "attributes", "joint", "together")
_WIDTH = 96
"""Letters in a line of comments."""
_MOST_ENTRIES = 1 << 14
"""Of the rows of a workload in a spec file."""


class SurveySpec:
    """Attributes with their guarantees, and the groups that one mechanism randomizes together.

    `joint` lists groups of attributes, maps groups to mechanisms, or is "auto": then the partition
    with the smallest expected error is chosen, for sets of attributes that are queried `together`.
    `metric` is an `Lp` norm over all attributes. `Survey.design(spec)` fixes all numbers.
    `comments` are lines for the file: by attribute, and with the key "" for the top.
    """

    def __init__(
        self,
        attributes: Mapping[str, Attribute],
        *,
        joint: Any = None,
        metric: Lp | None = None,
        together: Any = None,
        comments: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        check_attributes(attributes)
        if metric is not None and not isinstance(metric, Lp):
            raise InvalidSpecError(f"the metric of a survey is Lp(p), not {shown(metric)}")
        if together is not None and joint != "auto":
            raise InvalidSpecError('together= belongs to joint="auto"; state that as well')
        if not isinstance(joint, str) or joint != "auto":
            blocks_of(joint, attributes)  # rejects groups that cannot be
        if comments is not None and not isinstance(comments, Mapping):
            raise InvalidSpecError(
                f"comments map names of attributes to lines, not {shown(comments)}"
            )
        self.attributes: Mapping[str, Attribute] = MappingProxyType(dict(attributes))
        self.joint, self.metric, self.together = joint, metric, together
        self.comments: Mapping[str, Sequence[str]] = MappingProxyType(dict(comments or {}))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in a spec file."""
        data: dict[str, Any] = {}
        if self.metric is not None:
            data["metric"] = self.metric.to_dict()
        data["attributes"] = {name: _entry(a) for name, a in self.attributes.items()}
        if self.joint is not None:
            data["joint"] = _joint_entries(self.joint)
        if self.together is not None:
            data["together"] = _plain(self.together)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From plain data, as in a spec file."""
        if not isinstance(data, Mapping):
            raise InvalidSpecError(f"a spec file holds a table, not a {type(data).__name__}")
        if "metricldp" in data:
            raise InvalidSpecError(
                "this is a designed survey, not a spec; read it with Survey.load, or design again "
                "from the spec that it was designed from"
            )
        refuse_unknown("a spec", data, _KEYS)
        attributes = attribute_tables(data)
        metric = data.get("metric")
        return cls(
            {name: from_dict(dict(entry), name) for name, entry in attributes.items()},
            metric=None if metric is None else Lp.from_dict(metric),
            joint=joint_from(data["joint"]) if "joint" in data else None,
            together=data.get("together"),
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a .toml or .json file; JSON has no comments."""
        files.write(self.to_dict(), path, "spec", overwrite=overwrite, toml=str(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a .toml or .json file."""
        data = files.read(path, "spec")
        try:
            return cls.from_dict(data)
        except InvalidSpecError as wrong:
            raise files.in_file(path, wrong) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SurveySpec) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        """The spec as a TOML file, with its comments."""
        text = files.to_toml(self.to_dict())
        for name in self.attributes:
            table = files.to_toml({"attributes": {name: {}}})
            text = text.replace(table, table + _comment_lines(self.comments.get(name, ())), 1)
        top = _comment_lines(self.comments.get("", ()))
        return f"{top}\n{text}" if top else text

    def __repr__(self) -> str:
        return f"<SurveySpec of {listed(self.attributes)}>"


def _entry(attribute: Attribute) -> dict[str, Any]:
    entry = attribute.to_dict()
    metric = entry.pop("metric", None)
    if isinstance(entry.get("bins"), AutoBins):
        entry["bins"] = _plain(entry["bins"].to_dict())
    if attribute.mechanism not in ("auto", attribute.only_mechanism):
        entry["mechanism"] = _plain(attribute.mechanism)
    return entry if metric is None else {**entry, "metric": metric}


def _plain(value: Any) -> Any:
    """A mechanism, a workload or another stated value as lists, tables, numbers and texts."""
    if isinstance(value, Mechanism | Group):
        return _plain(value.to_dict())
    if isinstance(value, Workload):
        return _plain(_rows(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _rows(workload: Workload) -> list[list[float]]:
    if workload.rows * workload.size > _MOST_ENTRIES:
        raise InvalidSpecError(
            f"a workload of {workload.rows:,} rows over {workload.size:,} values is too large for "
            "a spec file; name it, such as workload='ranges', or design the survey and save that"
        )
    rows: list[list[float]] = workload.rows_block(0, workload.rows).tolist()
    return rows


def _joint_entries(joint: Any) -> Any:
    if isinstance(joint, str):
        return joint
    if isinstance(joint, Mapping):
        return [
            {"attributes": list(names)} | ({} if said == USUAL else {"mechanism": _plain(said)})
            for names, said in joint.items()
        ]
    return [{"attributes": list(names)} for names in joint]


def _comment_lines(comments: Sequence[str]) -> str:
    wrapped = (
        textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="#   ")
        for text in comments
    )
    return "".join(f"{text}\n" for text in wrapped)
