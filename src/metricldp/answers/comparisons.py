"""How p-values are displayed."""

from __future__ import annotations

SMALLEST = 1e-12
"""The smallest p-value that is displayed."""


def p_text(p: float, smallest: float = SMALLEST) -> str:
    """A p-value in one form everywhere."""
    return f"less than {smallest:.2g}" if p <= smallest else f"{p:.2g}"
