"""The survey as users have it: the agreement, and what can be done with it."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from metricldp.answers.conditions import Where
from metricldp.answers.partition import best_blocks
from metricldp.answers.predict import Prior
from metricldp.answers.tally import Tally
from metricldp.attributes.base import Attribute
from metricldp.basics.checks import flag
from metricldp.basics.errors import InvalidSpecError, InvalidValueError, WeakGuaranteeWarning
from metricldp.basics.progress import Progress, bar_unless, silent
from metricldp.basics.text import shown
from metricldp.mechanisms.effort import DEFAULT, Effort, checked_effort
from metricldp.mechanisms.randomness import Randomness
from metricldp.mechanisms.workloads import Workload
from metricldp.metrics import Lp
from metricldp.planning import plan as planning
from metricldp.planning.expected_error import ExpectedError, expected_error, typical_errors
from metricldp.planning.plan import Plan
from metricldp.planning.risk import Risk, risk
from metricldp.reports import encode
from metricldp.survey.agreement import Agreement
from metricldp.survey.blocks import distributions_of
from metricldp.survey.certify import Certificate, certify
from metricldp.survey.explain import Explanation, explain, weak_guarantees
from metricldp.survey.spec import SurveySpec
from metricldp_core.device import Device, Memory

if TYPE_CHECKING:
    import pyarrow as pa


class Survey(Agreement):
    """A designed survey: attributes with their privacy guarantees and fixed mechanisms.

    >>> from metricldp import Categorical, Integer, Survey
    >>> survey = Survey.design({
    ...     "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3),
    ...     "region": Categorical(["north", "south"], epsilon=2),
    ... })
    >>> survey.mechanisms["age"].name
    'additive'
    """

    # Reports --------------------------------------------------------------------------------------

    @classmethod
    def design(
        cls,
        spec: SurveySpec | Mapping[str, Attribute],
        *,
        effort: Effort = DEFAULT,
        progress: Progress | None = None,
    ) -> Survey:
        """Choose mechanisms, compute their numbers, and return a survey in which all are fixed.

        `effort` states how long searches run: equal efforts give equal surveys, unless its limit of
        time stops a search. `progress` is called with the fraction that is done; by default a
        terminal shows a bar. A WeakGuaranteeWarning names guarantees above e^3 for values that the
        spec calls close, e^10 for any two values of an attribute, or e^20 for any two respondents.
        """
        survey = cls._designed(spec, progress, checked_effort(effort))
        if weak := weak_guarantees(survey):
            message = "\n  ".join(["weak privacy guarantee", *weak])
            warnings.warn(message, WeakGuaranteeWarning, stacklevel=2)
        return survey

    @classmethod
    def _designed(
        cls,
        spec: SurveySpec | Mapping[str, Attribute],
        progress: Progress | None,
        effort: Effort = DEFAULT,
    ) -> Survey:
        if not isinstance(spec, SurveySpec):
            spec = SurveySpec(spec)
        with bar_unless(progress, "designing") as report:
            joint, stored = spec.joint, {}
            remaining = report
            if isinstance(joint, str) and joint == "auto":
                if spec.metric is not None and spec.metric != Lp():
                    raise InvalidSpecError(
                        'joint="auto" is for distances that add up; state the groups'
                    )
                blocks = best_blocks(spec.attributes, spec.together, effort, report)
                joint = {names: block.group for names, block in blocks.items()}
                stored, remaining = distributions_of(blocks.values()), silent
            return cls.fixed(
                spec.attributes,
                metric=spec.metric,
                joint=joint,
                stored=stored,
                effort=effort,
                progress=remaining,
            )

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("design a survey with Survey.design(spec), or read one with Survey.load")

    def randomize(
        self,
        data: Any,
        *,
        clip: bool = False,
        shuffle: bool = False,
        randomness: Randomness | None = None,
    ) -> pa.Table:
        """Randomize respondents' values: pandas, polars, Arrow or a dict of arrays in, reports out.

        Lazy frames and DuckDB relations are computed, as far as the survey needs their columns.
        If a value is outside its domain, an error names the row, counted from 1, and nothing is
        randomized;
        `clip=True` moves such values to the nearest end. No error shows a value. With `shuffle`
        the reports are in random order. Randomness comes from the operating system unless a test
        passes its own.
        """
        _check_asked(randomness, clip=clip, shuffle=shuffle)
        self._check_guarantee()
        return encode.encode(self, data, randomness=randomness, clip=clip, shuffle=shuffle)

    def report(
        self,
        response: Mapping[str, Any],
        *,
        memory: Memory | None = None,
        clip: bool = False,
        randomness: Randomness | None = None,
    ) -> bytes:
        """Randomize one response on the respondent's device and return the bytes to send.

        An error names the attribute and never shows the value. `memory` is a dict that the device
        stores for attributes with the mechanism `memoised`: the first randomized value of each
        response so far. A second report of these without a memory raises an error, because it would
        add to the privacy loss.
        """
        _check_asked(randomness, clip=clip)
        if memory is not None and not isinstance(memory, MutableMapping):
            kind = type(memory).__name__  # never its content, which shows the response
            raise InvalidValueError(f"memory is a dict that the device stores, not {kind}")
        source = os.urandom if randomness is None else randomness.draw
        return self._device.report(response, memory=memory, clip=clip, source=source)

    @cached_property
    def _device(self) -> Device:
        return Device(self.client_manifest)

    def tally(
        self,
        reports: Any,
        *,
        rejected: Counter[str] | None = None,
        layout: str = "auto",
        keep: Iterable[Sequence[str]] | None = None,
        fingerprint: str | None = None,
        engine: str | None = None,
    ) -> Tally:
        """The tally of reports: a table, a Parquet file or the bytes of reports.

        A table is one of Arrow, pandas or polars, a lazy frame or a DuckDB relation. Files may be
        a folder, or a pattern such as "day-*.parquet". `reports` may also be a list or a stream
        of tables, files and bytes, or a file of totals. No file, copy of a file or table object is
        counted twice. Copies of bytes, and copies or slices of tables, cannot be recognized and are
        counted again: two respondents can send equal bytes. The report of a retry has the same
        bytes only if the device sends its stored bytes. A collector deduplicates reports by id.

        An invalid report raises an error. With a Counter as `rejected`, invalid reports are left
        out and counted there by reason. `layout` is one of "auto", "cells", "prefix" and
        "reports", the three methods of the paper's Table 1.

        With `keep`, a list of groups of attributes, only exact totals over these groups remain:
        the memory does not grow with the number of reports.

        Tables that went through another program have often lost the mark of their survey. They are
        rejected unless you pass the survey's `fingerprint`, or at least its first 16 digits: then
        you state that they are reports of this survey and were not counted yet. Values that no
        report can have are rejected all the same.

        With `engine`, one of "duckdb", "polars", "spark" and "auto", the engine counts where the
        reports are: files, an address that the engine can read, a relation, a lazy frame, or a data
        frame or table of Spark. The counted integers are those of any other tally.
        """
        return Tally.of(
            self,
            reports,
            rejected=rejected,
            layout=layout,
            keep=keep,
            fingerprint=fingerprint,
            engine=engine,
        )

    def expected_error(
        self,
        where: Where | None = None,
        *,
        n: int,
        prior: Prior = "uniform",
        weights: Mapping[str, ArrayLike] | None = None,
        attribute: str | None = None,
        workload: Workload | str | ArrayLike | None = None,
    ) -> ExpectedError:
        """The standard error that the design implies for a count over n respondents.

        `prior` states how values are distributed: "uniform", "worst" (the worst case for this
        query), one array of fractions for the attribute in question, a dict of arrays for several
        independent ones, or their joint array. With `weights`, a dict of a weight's name and a
        sample of its values, the error is that of the weight's sum. With an attribute and a
        workload it is the root of the mean squared error over the rows of `tally.workload`.
        """
        return expected_error(self, where, n, prior, weights, attribute, workload)

    def manifest(self) -> str:
        """All that a device needs, as one line of JSON: the same survey has the same manifest."""
        return self.client_manifest.text

    def certify(self) -> Certificate:
        """The exact privacy loss of the integers that are shipped, pair by pair."""
        return certify(self)

    def risk(self, attribute: str, *, within: float = 0, prior: Prior = "uniform") -> Risk:
        """How often an adversary guesses a respondent's value, before and after seeing the report.

        The adversary knows the prior: "uniform", one array of fractions for the attribute, or a
        dict of arrays. A guess is right if it is at most `within` off, in the attribute's units.
        If reports are too many to be listed, respondents are simulated with a fixed seed.
        """
        return risk(self, attribute, within=within, prior=prior)

    def explain(self, *, n: int | None = None) -> Explanation:
        """The guarantees in plain language and, for n respondents, the expected standard errors.

        Print it for an overview. `details()` returns all pairs of values and remarks as text, and
        `to_dict()` the same as data.
        """
        return explain(self, n, None if n is None else typical_errors(self, n))

    def _repr_html_(self) -> str:
        return explain(self)._repr_html_()


def plan(
    spec: SurveySpec | Mapping[str, Attribute] | Survey,
    target_error: float,
    where: Where | None = None,
    *,
    query: str = "fraction",
    attribute: str | None = None,
    n: int | None = None,
    find: str | None = None,
    change: str | None = None,
    prior: Prior = "uniform",
    confidence_level: float | None = 0.95,
    progress: Progress | None = None,
) -> Plan:
    """Find the setting with which a query meets a target error, such as the number of respondents.

    The query is a "fraction" or a "count" of respondents, or the "mean" of an attribute, `where` a
    condition holds. `target_error` is half of the width of a confidence interval, or the standard
    error if `confidence_level` is None: of a fraction between 0 and 1, of a count in people, of a
    mean in the attribute's unit.

    `find` is the one unknown: "n"; "epsilon" of all attributes in proportion, or of the attribute
    to `change`; "within", "max_epsilon", "mechanism" or "bins" of one attribute. By default it is
    "n" or, if n is given, "epsilon". `prior` is as in `Survey.expected_error`; "worst" plans for
    any distribution of values. `Plan.survey` is the designed survey with the setting.
    """
    with bar_unless(progress, "planning") as report:
        survey = spec if isinstance(spec, Survey) else Survey._designed(spec, report)
        return planning.plan(
            survey,
            target_error,
            where,
            query=query,
            attribute=attribute,
            n=n,
            find=find,
            change=change,
            prior=prior,
            confidence_level=confidence_level,
        )


def _check_asked(randomness: object, **flags: object) -> None:
    """Refuse nonsense before a value is looked at."""
    if randomness is not None and not any(hasattr(randomness, draw) for draw in ("draw", "words")):
        raise InvalidValueError(f"randomness is Randomness() or left out, not {shown(randomness)}")
    for what, value in flags.items():
        flag(what, value, InvalidValueError)
