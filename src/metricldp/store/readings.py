"""Readings: what an answer wants to know of one attribute, as functions and as their decoders.

An answer and its variance are sums over people of products of functions, one factor per attribute.
A reading holds the factors of one attribute for all the sums that an answer needs, row by row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from metricldp.channels import Channel, Floats
from metricldp.survey.agreement import Agreement

TOGETHER = 256
"""Queries or rows read at a time: their functions and decoders stay in the cache."""
Functions = Mapping[str, Floats]
"""One function of the position for each attribute named; all others are 1."""


@dataclass(frozen=True)
class Reading:
    """Some functions of one attribute's position (k, size), and decoders of them (k, features)."""

    name: str
    channel: Channel
    functions: Floats
    coefficients: Floats


def involved(survey: Agreement, *queries: Collection[str]) -> list[str]:
    """The attributes that matter: those named, and those that cost even when left whole."""
    named = {name for names in queries for name in names}
    return [n for n, c in survey.channels.items() if n in named or not c.free_when_whole]


def read(survey: Agreement, *queries: Functions) -> list[Reading]:
    """Three rows for each query: f, E[F^2 | x] and f^2; the last two give the variance.

    The rows of many queries come in three blocks, so that each block is read at once.
    """
    return [
        read_one(survey, name, _gathered(survey, name, queries))
        for name in involved(survey, *queries)
    ]


def read_one(survey: Agreement, name: str, functions: Floats) -> Reading:
    """The same three blocks of rows for one attribute: (queries, size) functions."""
    f = functions
    return _rows(name, survey.channels[name], [(f,), (f, f), (_square(survey, name, f),)])


def _gathered(survey: Agreement, name: str, queries: Sequence[Functions]) -> Floats:
    """One row for each query; no function is 1 everywhere."""
    whole = np.ones(survey.channels[name].size)
    return np.array([functions.get(name, whole) for functions in queries])


def read_pair(survey: Agreement, functions: Functions, others: Functions) -> list[Reading]:
    """Eight rows: f, E[F^2], f^2; g, E[G^2], g^2; E[FG], f g: two answers and their covariance."""
    readings = []
    for name in involved(survey, functions, others):
        channel = survey.channels[name]
        ones = np.ones(channel.size)
        f, g = functions.get(name, ones), others.get(name, ones)
        f_square, g_square = _square(survey, name, f), _square(survey, name, g)
        rows = [(f,), (f, f), (f_square,), (g,), (g, g), (g_square,), (f, g), (f * g,)]
        readings.append(_rows(name, channel, rows))
    return readings


def read_weighted(
    survey: Agreement, functions: Functions, weight: str, ends: Floats
) -> list[Reading]:
    """Four rows with a private weight w as one more attribute.

    f w, E[F^2 W^2], and, for the f^2 w^2 that no single bit of w could tell, f^2 w and f^2.
    """
    readings = []
    for name in involved(survey, functions, {weight: ends}):
        channel = survey.channels[name]
        ones = np.ones(channel.size)
        if name == weight:
            rows: list[tuple[Floats, ...]] = [(ends,), (ends, ends), (ends,), (ones,)]
        else:
            f = functions.get(name, ones)
            square = _square(survey, name, f)
            rows = [(f,), (f, f), (square,), (square,)]
        readings.append(_rows(name, channel, rows))
    return readings


def _square(survey: Agreement, name: str, f: Floats) -> Floats:
    """f^2; or, where values are rounded at random to the grid, the best that can be said below it.

    Between two points f is the straight line, and the square of a line lies below the line between
    the squares by up to a quarter of the squared step. So the variance takes a smaller square: for
    an indicator none next to a cut, else a quarter of the larger step less.
    """
    square = f**2
    plain = np.array_equal(square, f)
    if not survey.attributes[name].rounded_at_random:
        return f if plain else np.asarray(square)
    steps = np.abs(np.diff(f))
    nothing = np.zeros((*f.shape[:-1], 1))
    nearby = np.maximum(
        np.concatenate([steps, nothing], axis=-1), np.concatenate([nothing, steps], axis=-1)
    )
    indicator = (square == f).all(axis=-1, keepdims=True)
    return np.where(indicator, np.where(nearby > 0, 0.0, f), square - nearby**2 / 4)


def _rows(name: str, channel: Channel, items: list[tuple[Floats, ...]]) -> Reading:
    found: dict[tuple[int, ...], tuple[Floats, Floats]] = {}  # by identity: rows share functions
    for item in items:
        key = tuple(id(function) for function in item)
        if key not in found:
            alone = len(item) == 1
            found[key] = (
                (item[0], channel.coefficients(item[0])) if alone else channel.moments(*item)
            )
    rows = [found[tuple(id(function) for function in item)] for item in items]
    functions, coefficients = (_joined([row[part] for row in rows]) for part in (0, 1))
    return Reading(name, channel, functions, coefficients)


def _joined(rows: list[Floats]) -> Floats:
    """Rows, or blocks of rows, as one block."""
    return np.stack(rows) if rows[0].ndim == 1 else np.concatenate(rows)
