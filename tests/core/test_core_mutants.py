"""Mutants of the core: one change to its source text each, detected by a check of this folder."""

import inspect
import sys
import textwrap
from dataclasses import replace
from functools import cached_property, partial

import pytest
import test_core_device
import test_core_draws
import test_core_manifest
import test_core_metrics
import test_core_proof
import test_core_report
import test_core_sentences
import test_core_values
import test_core_words
from core_cases import examples

from metricldp_core import canonical, distributions, exact, guarantee, levels, metrics, verify
from metricldp_core.device import Device
from metricldp_core.manifest import Field
from metricldp_core.random_words import Words
from metricldp_core.report import ReportFormat
from metricldp_core.values import Bins, Names, Points, WholeNumbers


def mutate(monkeypatch, owner, name, old, new):
    """Replace a part of the source of a function or method that occurs once in it."""
    member = vars(owner)[name]
    function = member
    for wrapper in ("func", "__func__", "fget", "__wrapped__"):
        function = getattr(function, wrapper, function)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{name} has changed: write the mutant again"
    lines = source.replace(old, new).splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def "))
    text = "\n".join(["from __future__ import annotations", *lines[start:]])
    namespace = {}
    exec(compile(text, "mutant", "exec"), function.__globals__, namespace)
    mutant = namespace[name]
    if isinstance(member, cached_property):
        mutant = cached_property(mutant)
        mutant.__set_name__(owner, name)
    elif isinstance(member, property | classmethod):
        mutant = type(member)(mutant)
    monkeypatch.setattr(owner, name, mutant)
    for module in list(sys.modules.values()):
        if module.__name__.startswith(("metricldp_core", "test_core")):
            for alias in [key for key, value in vars(module).items() if value is member]:
                monkeypatch.setattr(module, alias, mutant)


def every(check, *kinds):
    """A check of small distributions, made anew, so that nothing was computed before."""

    def run():
        for distribution in examples(1, each=2):
            if type(distribution) in kinds:
                check(distribution)

    return run


draws, ratios = (
    partial(every, test_core_draws.check_draws),
    partial(every, test_core_draws.check_ratios),
)


TORUS = test_core_draws.test_torus_ratios_depend_on_differences_of_cells_and_not_of_positions
NOISE = test_core_draws.test_geometric_ratio_of_a_step_is_attained_by_noise_that_is_not_clipped


def lines(check):
    """A check of lines that are made anew."""

    def run():
        for line in test_core_metrics.LINES[::3]:
            check(replace(line))

    return run


def grids():
    for metric in test_core_metrics.grids():
        test_core_metrics.check_groups(metric)
        test_core_metrics.check_paths(metric)


def invalid(name):
    return partial(test_core_manifest.test_invalid_manifests_are_rejected_by_the_field, name)


MUTANTS = {
    # Random words
    "below includes the threshold": (Words, "below", "<", "<=", test_core_words.check_below),
    "uniform includes the bound": (
        Words,
        "uniform",
        ">= bound",
        "> bound",
        test_core_words.check_uniform,
    ),
    "bits of the wrong end": (
        Words,
        "bits",
        "self.word() >> 64 - count",
        "self.word() % (1 << count)",
        test_core_words.check_bits,
    ),
    "rounding up at 0": (Words, "round", "< rest", "<= rest", test_core_words.check_round),
    "words are read twice": (
        Words,
        "word",
        "self._next += 1",
        "self._next += self.used % 2",
        test_core_words.test_words_are_read_lowest_byte_first_and_in_blocks,
    ),
    # Draws
    "an offset that can be 0": (
        distributions.RandomizedResponse,
        "draw",
        "1 + words.uniform(self.size - 1)",
        "words.uniform(self.size)",
        draws(distributions.RandomizedResponse),
    ),
    "threshold bits one place up": (
        distributions.Threshold,
        "draw",
        "position <= k",
        "position < k",
        draws(distributions.Threshold),
    ),
    "unary keeps the other bit": (
        distributions.Unary,
        "draw",
        "(bit, own)[k == position]",
        "bit | own & (k == position)",
        draws(distributions.Unary),
    ),
    "noise of one sign": (
        distributions.Geometric,
        "noise",
        "1 - 2 * negative",
        "1",
        draws(distributions.Geometric),
    ),
    "no noise above the digits": (
        distributions.Geometric,
        "noise",
        "magnitude += length",
        "pass",
        draws(distributions.Geometric),
    ),
    "ends stay as all others": (
        distributions.LazyGeometric,
        "draw",
        "(self.keep, self.end)",
        "(self.keep, self.keep)",
        draws(distributions.LazyGeometric),
    ),
    "levels are rounded down": (
        levels,
        "levels",
        "-(-found[-1] * fall // WORD)",
        "found[-1] * fall // WORD",
        draws(levels.Extremal),
    ),
    "cells are flattened the other way": (
        levels.Additive,
        "place",
        "place += x * stride",
        "place += x",
        TORUS,
    ),
    "reports of a table one word early": (
        distributions.Table,
        "draw",
        "words.word()",
        "words.word() + 1",
        draws(distributions.Table),
    ),
    # Ratios
    "no carry into a digit": (
        distributions.Geometric,
        "step",
        "quotient(ones * (WORD - digit), zeros * digit)",
        "quotient(WORD - digit, digit)",
        NOISE,
    ),
    "zero counts once": (
        distributions.Geometric,
        "step",
        "2 * self.zero",
        "self.zero",
        NOISE,
    ),
    "the smaller contribution of bits": (
        distributions.Unary,
        "ratio",
        "max(",
        "min(",
        ratios(distributions.Unary),
    ),
    "the nearest report of a table": (
        distributions.Table,
        "ratio",
        "gap >= least",
        "gap <= least",
        ratios(distributions.Table),
    ),
    "one way of a pair": (
        distributions,
        "quotient",
        "Fraction(max(a, b), min(a, b))",
        "Fraction(a, b)",
        ratios(distributions.Table),
    ),
    "ratios of the last pattern": (
        levels.Additive,
        "ratio",
        "ratios += [",
        "ratios = [",
        TORUS,
    ),
    "products are rounded down": (
        exact,
        "_times",
        "-(-one * other >> _PLACES)",
        "(one * other >> _PLACES)",
        test_core_proof.test_products_are_rounded_up_and_saturate,
    ),
    "no limit of products": (
        exact,
        "_times",
        ", _MOST)",
        ", _MOST << 9999)",
        test_core_proof.test_products_are_rounded_up_and_saturate,
    ),
    # Exact comparisons
    "an upper bound is enough": (
        exact,
        "at_most_exp",
        "ratio <= lower",
        "ratio <= upper",
        test_core_proof.test_comparisons_with_powers_of_e_decide_next_to_them,
    ),
    "no room for truncation": (
        exact,
        "exp_bounds",
        "lower_sum + 4 * terms + 4",
        "lower_sum",
        test_core_proof.test_enclosures_of_powers_of_e_contain_them,
    ),
    # Metrics
    "the cap is ignored": (
        metrics.Line,
        "at",
        "min(far, self.cap)",
        "far",
        lines(test_core_metrics.check_formula),
    ),
    "the ring is ignored": (
        metrics.Line,
        "at",
        "if self.ring",
        "if False",
        lines(test_core_metrics.check_formula),
    ),
    "pairs over the end of a ring are left out": (
        metrics.Line,
        "_pairs",
        "if self.ring",
        "if False",
        lines(test_core_metrics.check_groups),
    ),
    "the last multiple of a width is left out": (
        metrics.Line,
        "_ranges",
        "> widest:",
        ">= widest:",
        lines(test_core_metrics.check_paths),
    ),
    "pairs at the cap are left out": (
        metrics.Line,
        "_ranges",
        "if self.cap is not None:",
        "if False:",
        lines(test_core_metrics.check_paths),
    ),
    "a grid in one direction": (metrics.Grid, "groups", "len(ways) // 2", "1", grids),
    "between points as at points": (
        Field,
        "point_metric",
        "if self.metric and self.stochastic else",
        "if False else",
        test_core_proof.check_stochastic,
    ),
    "a width between points as at points": (
        metrics.Line,
        "between_points",
        "ceil(self.width) + 1",
        "ceil(self.width)",
        test_core_proof.check_stochastic,
    ),
    # Proofs
    "certainty is a ratio": (
        metrics.Limit,
        "allows",
        "ratio >= CERTAIN",
        "False",
        test_core_proof.test_certainty_is_not_allowed_by_any_distance,
    ),
    "any cells are alike": (
        verify,
        "by_difference",
        "distribution.grid in ((metric.size,), metric.grid)",
        "True",
        test_core_proof.test_torus_with_the_metric_of_a_line_is_not_certified_by_its_first_row,
    ),
    # Manifests
    "weights need not add up": (
        distributions.Table,
        "read",
        "sum(weights[-1]) != WORD or",
        "",
        invalid("weights below 2^64"),
    ),
    "levels may exceed 2^64": (
        levels.Additive,
        "read",
        "> WORD",
        "> WORD << 9",
        invalid("levels of a pattern above 2^64"),
    ),
    "other forms of a manifest": (
        canonical,
        "is_canonical",
        "canonical(data) == text",
        "True",
        partial(test_core_manifest.test_other_forms_of_the_same_data_are_rejected, "space"),
    ),
    "keys may occur twice": (
        canonical,
        "_unique",
        "len(found) < len(pairs)",
        "False",
        test_core_manifest.test_every_key_that_occurs_twice_is_rejected,
    ),
    "unknown keys are ignored": (
        canonical.Entry,
        "done",
        "for key in self._rest",
        "for key in ()",
        test_core_manifest.test_every_unknown_key_is_rejected,
    ),
    # Values
    "edges belong to the bin below": (
        Bins,
        "position_of",
        "bisect_right(self.edges, self._real(value, clip))",
        "bisect_right(self.edges, self._real(value, clip) - 1e-9)",
        partial(
            test_core_values.test_bins_hold_their_lower_edge_and_the_last_one_both,
            test_core_values.TENTHS,
        ),
    ),
    "points are one more": (
        Points,
        "position_of",
        "(self.points - 1)",
        "self.points",
        test_core_values.check_points,
    ),
    "numbers need not be whole": (
        WholeNumbers,
        "position_of",
        "value != exact",
        "False",
        test_core_values.test_numbers_that_are_not_whole_are_rejected,
    ),
    "the value is in the message": (
        Names,
        "position_of",
        'rest = "; only',
        'rest = f"{name}; only',
        partial(test_core_values.test_messages_do_not_contain_the_value, "918273x"),
    ),
    # Reports and devices
    "padding is not checked": (
        ReportFormat,
        "reason",
        "if content >> self._bits:",
        "if False:",
        test_core_report.check_bits,
    ),
    "the survey is not checked": (
        ReportFormat,
        "reason",
        "or not report.startswith(self.header)",
        "",
        test_core_report.check_bits,
    ),
    "memory is ignored": (
        Device,
        "randomize",
        "memory.get(key, drawn)",
        "drawn",
        test_core_device.check_memory,
    ),
    "the guarantee is not checked": (
        Device,
        "__init__",
        ".holds",
        ".holds and False",
        test_core_device.test_a_manifest_that_breaks_its_guarantee_or_has_another_fingerprint_is_rejected,
    ),
    # Sentences
    "factors are rounded down": (
        guarantee,
        "factor",
        "ceil_of(",
        "floor_of(",
        test_core_sentences.check_factors,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_detected(name, monkeypatch):
    *change, check = MUTANTS[name]
    check()  # of the original
    forget = exact.exp_bounds.cache_clear
    forget()
    mutate(monkeypatch, *change)
    with pytest.raises((Exception, pytest.fail.Exception)):
        check()
    forget()
