"""The matrix mechanism as a survey has it: the plan that is saved, made and checked (section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from metricldp.basics.errors import SurveyError
from metricldp.basics.text import distinct, guess, listed
from metricldp.channels.base import Channel
from metricldp.channels.matrix import Matrix
from metricldp.channels.mechanism import Label, Mechanism
from metricldp.design import plans, strategies
from metricldp.design.workloads import Workload
from metricldp.metrics import Metric


@dataclass(frozen=True)
class MatrixPlan(Mechanism):
    """What a matrix mechanism is to be good for, and then the rows that a person reports.

    `workload` ("ranges", "prefixes", "values", a Workload or rows) and `strategy` ("auto", a name
    or rows) are wishes until the survey is made. Then the epsilon of each row is settled, and the
    survey's file holds all that a device needs. Windows reach `reach` beyond the values of a row.

    >>> from metricldp import Integer, MatrixPlan, Survey
    >>> ages = Integer(0, 99, epsilon=1, mechanism=MatrixPlan(workload="prefixes"))
    >>> Survey({"age": ages}).mechanisms["age"].strategy
    'prefix'
    """

    workload: Any = None
    strategy: Any = None
    epsilons: Any = None
    reach: int | None = None

    name: ClassVar[str] = "matrix"  # type: ignore[misc]
    title: ClassVar[str] = "matrix mechanism"  # type: ignore[misc]
    source: ClassVar[str] = "Xiang et al. 2020, section 3"  # type: ignore[misc]
    max_computed: ClassVar[int] = 0  # type: ignore[misc]

    def with_saved(self, data: Mapping[str, Any]) -> MatrixPlan:
        known = [f.name for f in fields(self)]
        for key in data:
            if key not in known:
                raise SurveyError(
                    f"mechanism 'matrix' has no entry {key!r}; it has {listed(known)}"
                    f"{guess(key, known)}"
                )
        return MatrixPlan(**data)

    def saved(self) -> dict[str, Any]:
        rows, epsilons = self.strategy, self.epsilons
        found = {
            "workload": plans.GIVEN if isinstance(self.workload, Workload) else self.workload,
            "strategy": [list(row) for row in rows] if isinstance(rows, tuple) else rows,
            "epsilons": list(epsilons) if isinstance(epsilons, tuple) else epsilons,
            "reach": self.reach,
        }
        return {key: value for key, value in found.items() if value is not None}

    def settled(
        self, size: int, metric: Metric, *, ordered: bool = False, label: Label = str
    ) -> MatrixPlan:
        if size > plans.MOST_POSITIONS:
            raise SurveyError(
                f"{size:,} positions are too many for the matrix mechanism; "
                f"use at most {plans.MOST_POSITIONS:,}"
            )
        usual = "ranges" if ordered else "values"
        workload = plans.checked_workload(_given(self.workload, usual), size)
        strategy = plans.checked_strategy(_given(self.strategy, "auto"), size)
        reach = None if self.reach is None else plans.checked_reach(self.reach)
        checked = replace(self, workload=workload, strategy=strategy, reach=reach)
        if self.epsilons is not None:
            return replace(checked, epsilons=plans.checked_epsilons(self.epsilons))
        if not isinstance(strategy, str):
            lost = strategies.undetermined(strategy)
            _check_determined(lost, "of the strategy", "add rows, or leave strategy out", label)
        strategy, epsilons = plans.made(workload, strategy, metric, size)
        named = workload if isinstance(workload, str) else plans.GIVEN
        return replace(checked, workload=named, strategy=strategy, epsilons=epsilons)

    def channel(self, size: int, metric: Metric, *, label: Label = str) -> Channel:
        """The rows with their noise, if their epsilons keep the metric and tell every value."""
        if self.epsilons is None:
            return self.settled(size, metric, label=label).channel(size, metric, label=label)
        rows = plans.rows_of(self.strategy, size)
        epsilons = plans.epsilons_of(self.epsilons, len(rows))
        found = plans.broken(rows, epsilons, metric)
        if found is not None:
            x, other, spent = found
            told, allowed = distinct(spent, metric.distance(x, other))
            raise SurveyError(
                f"the epsilons of the strategy's rows add up to {told} between {label(x)} "
                f"and {label(other)}, where the metric allows {allowed}; "
                "leave epsilons out to have them chosen"
            )
        lost = plans.undetermined(self.strategy, rows, epsilons)
        remedy = "send more rows, or leave epsilons out"
        _check_determined(lost, "with an epsilon above 0", remedy, label)
        return Matrix.of(rows, epsilons, self.reach)

    def kept(self, size: int, metric: Metric) -> Metric:
        return metric


def _given(said: Any, usual: str) -> Any:
    return usual if said is None else said


def _check_determined(position: int | None, which: str, remedy: str, label: Label) -> None:
    if position is not None:
        raise SurveyError(
            f"the rows {which} cannot tell how many people have the value {label(position)}; "
            f"{remedy} to have them chosen"
        )
