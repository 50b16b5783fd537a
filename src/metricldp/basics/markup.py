"""Small tables for notebooks: plain HTML without colours or scripts, everything escaped.

Pages of the collector have templates of their own. Here is the little that `_repr_html_` needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LEFT_AND_BOLD = 'style="text-align:left;font-weight:bold"'


def table(
    rows: Iterable[Sequence[str]], *, caption: str = "", head: bool = True, left: int = 1
) -> str:
    """Rows, the first of them a header row, and the first cell of each its name.

    As in a table of text, the first `left` columns are flush left and numbers flush right. A cell
    may have several lines.
    """
    found = [f"<caption {_LEFT_AND_BOLD}>{_lines(caption)}</caption>"] if caption else []
    for place, row in enumerate(rows):
        above = head and not place
        cells = (_cell(cell, k, above, k < left) for k, cell in enumerate(row))
        found.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(found)}</table>"


def beside(*tables: str, above: Iterable[str] = (), below: Iterable[str] = ()) -> str:
    """Tables with paragraphs of text above and below them."""
    first, last = ("".join(f"<p>{_lines(text)}</p>" for text in texts) for texts in (above, below))
    return f"<div>{first}{''.join(tables)}{last}</div>"


def _cell(text: str, place: int, above: bool, left: bool) -> str:
    scope = "col" if above else "row"
    opened = f'th scope="{scope}"' if above or not place else "td"
    return f"<{opened} {_side(left)}>{_lines(text)}</{opened[:2]}>"


def _side(left: bool) -> str:
    return f'style="text-align:{"left" if left else "right"}"'


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
