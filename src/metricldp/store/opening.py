"""Whatever was collected, as a store: reports that are kept, totals of them, or a lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from metricldp.basics.errors import InvalidReportError, InvalidSpecError
from metricldp.basics.text import shown
from metricldp.store import files
from metricldp.store.base import Store
from metricldp.store.lake import Lake
from metricldp.store.raw import Raw
from metricldp.store.totals import Totals
from metricldp.survey.agreement import Agreement


def opened(
    survey: Agreement,
    collected: Any,
    rejected: Counter[str] | None,
    layout: str,
    keep: Iterable[Sequence[str]] | None,
    fingerprint: str | None,
    engine: str | None,
) -> Store:
    """From reports in any form, which are kept; or, with `keep`, only totals of them."""
    if not isinstance(survey, Agreement):
        raise InvalidSpecError(f"a tally is of a survey, not of {shown(survey)}")
    if isinstance(collected, Mapping):
        raise InvalidReportError(
            "kind",
            "reports are not a dict; randomize values first, survey.tally(survey.randomize(data)); "
            "a condition belongs to a query, tally.count(where)",
        )
    saved = isinstance(collected, str | Path) and Path(collected).suffix == files.SUFFIX
    if keep is None and not saved:
        if engine is not None:
            return Lake.of(survey, collected, engine, layout=layout, fingerprint=fingerprint)
        return Raw.of(survey, collected, rejected=rejected, layout=layout, fingerprint=fingerprint)
    if not isinstance(layout, str) or layout != "auto":
        raise InvalidSpecError(
            f"keep= has one layout, its tables; leave layout={shown(layout)} out"
        )
    if saved and keep is None:
        return Totals.load(survey, collected)
    totals = Totals(survey, () if keep is None else keep)
    if saved:
        return totals.merge(Totals.load(survey, collected))
    if engine is not None:
        return Lake.of(survey, collected, engine, fingerprint=fingerprint).totals(totals.keep)
    totals.add(collected, rejected=rejected, fingerprint=fingerprint)
    return totals
