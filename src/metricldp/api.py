"""The survey as users have it: the agreement, and what can be done with it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from metricldp.answers import decoded, predict
from metricldp.answers.brackets import Planner
from metricldp.answers.conditions import Where
from metricldp.answers.partition import Parted
from metricldp.answers.pictures import hang
from metricldp.answers.predict import Prior
from metricldp.answers.tally import Tally
from metricldp.app.explain import Explanation, explain
from metricldp.app.plots import PICTURES
from metricldp.basics.checks import flag
from metricldp.basics.errors import ValueRefused
from metricldp.basics.text import shown
from metricldp.coins.stream import Coins
from metricldp.design.workloads import Workload
from metricldp.lab.plans import Plan, plan
from metricldp.lab.risk import Risk, risk
from metricldp.reports import encode
from metricldp.reports.device import Device, Memory
from metricldp.survey.certify import Certificate, certify
from metricldp.survey.outline import outline

if TYPE_CHECKING:
    import pyarrow as pa

hang(PICTURES)


class Survey(Parted):
    """Several attributes of different kinds, each with its metric and its channel.

    >>> from metricldp import Survey, Integer, Categorical
    >>> survey = Survey({
    ...     "age": Integer(0, 99, epsilon=1, within=5, cap=3),
    ...     "region": Categorical(["north", "south"], epsilon=2),
    ... })
    >>> survey.mechanisms["age"].name
    'shaped'
    """

    # The doors -----------------------------------------------------------------------------------

    def encode(
        self,
        people: Any,
        *,
        coins: Coins | None = None,
        clip: bool = False,
        shuffle: bool = False,
    ) -> pa.Table:
        """Blur people's values: pandas, polars, Arrow or a dict of arrays in, reports out.

        Lazy frames and DuckDB relations are computed, as far as the survey needs their columns.
        A value outside its domain is refused and nothing is encoded; `clip=True` moves it to the
        nearest end instead. An error names the row and never shows the value, since messages end up
        in logs. With `shuffle` the reports stand in a random order, not in that of
        the people. Coins come from the operating system unless a test passes others.
        """
        _check_asked(coins, clip=clip, shuffle=shuffle)
        return encode.encode(self, people, coins=coins, clip=clip, shuffle=shuffle)

    def report(
        self,
        person: Mapping[str, Any],
        *,
        coins: Coins | None = None,
        clip: bool = False,
        memory: Memory | None = None,
    ) -> bytes:
        """Blur one person's values on their device: the bytes to send.

        An error names the attribute and never shows the value. `memory` is a dict
        that the device keeps and saves for attributes with the mechanism `memoised`: the first blur
        of every value so far. Without it each report has a first blur of its own, and spends anew.
        """
        _check_asked(coins, clip=clip)
        if memory is not None and not isinstance(memory, MutableMapping):
            raise ValueRefused(f"a memory is a dict that the device keeps, not {shown(memory)}")
        return self._device.report(person, coins=coins, clip=clip, memory=memory)

    @cached_property
    def _device(self) -> Device:
        return Device(self)

    def tally(
        self,
        collected: Any,
        *,
        refused: Counter[str] | None = None,
        layout: str = "auto",
        keep: Iterable[Sequence[str]] | None = None,
        fingerprint: str | None = None,
        engine: str | None = None,
    ) -> Tally:
        """What the collector keeps: from a table, a Parquet file or the bytes of reports.

        A table is one of Arrow, pandas or polars, a lazy frame or a DuckDB relation. Files may be
        a folder, or a pattern such as "day-*.parquet". `collected` may also be a list or a stream
        of tables, files and bytes, or a file of totals. No file, copy of a file or table object is
        counted twice.

        A report that no device could have sent is refused with an exception. Bytes from many
        devices may be counted instead: with a Counter as `refused`, bad ones are left out and
        counted there by reason. `layout` is one of "auto", "cells", "prefix" and "reports", the
        three of the paper's Table 1.

        With `keep`, a list of sets of attributes, only exact sums over those are kept and the
        reports are let go: the memory is the same for any number of people.

        Tables that went through another program have often lost the mark of their survey. They are
        rejected unless you pass the survey's `fingerprint`, or at least its first 16 digits: then
        you state that they are reports of this survey and were not counted yet. Values that no
        report can have are rejected all the same.

        With `engine`, one of "duckdb", "polars", "spark" and "auto", reports stay where they are,
        and every question is asked there: files, an address that the engine can read, a relation,
        a lazy frame, or a data frame or table of Spark. Its integers are those of any other tally.
        """
        found = Tally.of(
            self,
            collected,
            refused=refused,
            layout=layout,
            keep=keep,
            fingerprint=fingerprint,
            engine=engine,
        )
        return found.plan_for(self._planned_for) if self._planned_for else found

    def decode(
        self,
        collected: Any,
        where: Where | None = None,
        of: str | None = None,
        *,
        public: bool = False,
        fingerprint: str | None = None,
    ) -> pa.RecordBatchReader:
        """For every report the number that it adds to an answer, as a stream of Arrow batches.

        The answer is a count or, `of` an attribute or a weight, its sum. The sum of `decoded` is
        its value, that of `variance` the variance of the blurring; `square` is decoded^2, for the
        variance of drawing people as well. Where bins leave values open there are the same columns
        with `_low` and `_high`, for every value at the lower and at the upper edge of its bin. With
        `public` the public weights come along. Reports come in any form that `tally` takes.
        """
        return decoded.decode(self, collected, where, of, public=public, fingerprint=fingerprint)

    _planned_for: Mapping[str, ArrayLike] | None = None

    def plan_for(self, prior: Mapping[str, ArrayLike]) -> Survey:
        """The same survey, whose tallies plan their brackets for people spread like that.

        By attribute, the shares of people at each position: what is known from elsewhere, a census
        or last year, and never from the reports that will be asked. Intervals hold whether or not
        people are spread so; if they are about, brackets are shorter. It is no part of the
        agreement, and in no file.
        """
        found = copy.copy(self)
        found._planned_for = Planner(self, prior).prior
        return found

    def predict(
        self,
        where: Where | None = None,
        n: int = 1,
        prior: Prior = "worst",
        *,
        weights: Mapping[str, ArrayLike] | None = None,
        attribute: str | None = None,
        workload: Workload | str | ArrayLike | None = None,
    ) -> float:
        """The standard error that the theory predicts for a count over n people, in people.

        `prior` says how people are spread: "worst" (the worst for this question), "uniform", one
        array of shares for the attribute in question, a dict of arrays for several independent
        ones, or their joint array. With `weights`, a dict of a weight's name and a sample of its
        values, the error is that of the weight's sum.

        With an attribute and a workload it is the error of `tally.linear`: the root of the mean
        squared error over the rows. Its square times the rows is the total squared error.
        """
        if attribute is None and workload is None:
            return predict.of_count(self, where, n, prior, weights)
        others = weights if where is None else where
        return predict.of_workload(self, attribute, workload, n, prior, others)

    def plan(
        self,
        kind: str,
        where: Where | None = None,
        *,
        error: float,
        find: str | None = None,
        n: int | None = None,
        attribute: str | None = None,
        of: str | None = None,
        prior: Prior | None = None,
        measure: str = "interval",
        level: float = 0.95,
    ) -> Plan:
        """What has to be set for an answer with a certain error, and what that means for a person.

        `kind` is "count", "fraction" or "mean", of an `attribute`. `error` is half of the width of
        an interval of the level; with measure="stderr" it is the standard error. `find` is the one
        unknown: "n"; "epsilon", of all attributes in proportion or `of` one; or "within", "cap",
        "mechanism" or "bins" `of` one. Left out, it is n or, where n is given, epsilon. `prior` is
        as in `predict`; of a group's mean it is "uniform" where nothing is said, else "worst".

        The plan has the advised `survey`; printed, it has the trade-off as well, which takes the
        time of making a few more surveys.
        """
        return plan(
            self,
            kind,
            where,
            error=error,
            find=find,
            n=n,
            attribute=attribute,
            of=of,
            prior=prior,
            measure=measure,
            level=level,
        )

    def certify(self) -> Certificate:
        """The exact privacy loss of the integers that are shipped, pair by pair."""
        return certify(self)

    def risk(
        self,
        attribute: str | None = None,
        *,
        prior: Prior = "uniform",
        within: float | None = None,
        reports: int = 10,
        seed: int = 1,
    ) -> Risk:
        """How often an attacker guesses a person's value, before and after up to so many reports.

        Of one attribute, or of each by itself. The attacker knows how people are spread: "uniform",
        an array of shares for the attribute, or a dict of them. `within` says how far a guess may
        be off, in the attribute's units; otherwise by as much as its promise is stated for. Where
        reports cannot be listed the chance is that of a sample, which `seed` repeats.
        """
        return risk(self, attribute, prior=prior, within=within, reports=reports, seed=seed)

    def explain(self, n: int = 10_000) -> Explanation:
        """What is promised, in words, and what accuracy to expect from n people."""
        return explain(self, n)

    def _repr_html_(self) -> str:
        return outline(self, f"Survey {self.fingerprint[:16]}")


def _check_asked(coins: object, **flags: object) -> None:
    """Refuse nonsense before a value is looked at."""
    if coins is not None and not any(hasattr(coins, draw) for draw in ("draw", "words")):
        raise ValueRefused(f"coins are Coins(), or left out, not {shown(coins)}")
    for what, value in flags.items():
        flag(what, value, ValueRefused)
