"""The promise of a survey in words, cut into what a page can lay out."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from metricldp.app.explain import explain
from metricldp.app.sections import BESIDE, PLAN, Explained, cut
from metricldp.survey.agreement import Agreement

_PEOPLE = 10_000


@lru_cache(maxsize=64)
def promise(survey: Agreement) -> Explained:
    """What `metricldp explain` says, but for mechanisms; found once for each survey."""
    said = explain(survey, _PEOPLE)
    found = cut(said.text, said.warnings, _PEOPLE)
    parts = [
        replace(part, lines=tuple(line for line in part.lines if line[0] not in (PLAN, BESIDE)))
        for part in found.parts
    ]
    return replace(found, parts=tuple(parts))
