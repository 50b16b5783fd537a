"""How p-values are displayed."""

from __future__ import annotations

import sys

SMALLEST = 1e-12
"""The smallest p-value that is displayed."""
POSITIVE = sys.float_info.min
"""The smallest p-value that is returned: a p-value is never 0."""


def p_text(p: float, smallest: float = SMALLEST) -> str:
    """A p-value in one form everywhere."""
    return f"less than {smallest:.2g}" if p <= smallest else f"{p:.2g}"
