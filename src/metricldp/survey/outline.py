"""A survey as a small table for a notebook: what is asked, what is promised, how it is blurred."""

from __future__ import annotations

from metricldp.basics.markup import beside, table
from metricldp.survey.agreement import Agreement
from metricldp.survey.strength import in_short, rounded, together, warnings_of


def outline(survey: Agreement, caption: str) -> str:
    """A row for each attribute; below it the promise of a whole report, and where it is none."""
    rows = [("attribute", "values", "promise", "blurred by")]
    for name, attribute in survey.asked.items():
        values = attribute.describe()
        if attribute.optional is not None:
            values += "; may be left out"
        if attribute.is_public:
            rows.append((name, values, "none: sent in the clear", ""))
        else:
            rows.append((name, values, in_short(survey, name), _blurred(survey, name)))
    whole = f"Any two people: at most ε {rounded(together(survey))} in all."
    weak = [f"Warning: {line}." for line in warnings_of(survey)]
    return beside(table(rows, caption=caption, left=len(rows[0])), below=[whole, *weak])


def _blurred(survey: Agreement, name: str) -> str:
    block, mechanism = survey.block_of(name), survey.mechanisms[name].name
    others = [] if block is None else [other for other in block.names if other != name]
    return f"{mechanism}, together with {' and '.join(others)}" if others else mechanism
