"""Surveys whose mechanisms state numbers that a search would compute, so that none changes them."""

from dataclasses import replace

import numpy as np

from checks import extremal_table
from metricldp import Lp, Survey
from metricldp.mechanisms import strategies
from metricldp.mechanisms.additive_channel import AdditiveChannel
from metricldp.mechanisms.additive_search import grid_in_units, line_in_units
from metricldp.mechanisms.channels import channel_of
from metricldp.mechanisms.extremal import in_units
from metricldp.mechanisms.matrix import telling_rows
from metricldp.mechanisms.matrix_channel import MatrixChannel
from metricldp.mechanisms.memoised import FIRSTS, MemoisedResponse, _second
from metricldp.mechanisms.memoised_channel import MemoisedChannel
from metricldp.mechanisms.unary_channel import UnaryChannel
from metricldp.survey.blocks import Group
from metricldp.survey.design import _problem
from metricldp_core.exact import decimal_of

NUMBERS = ("patterns", "around", "shapes", "tops", "bits", "epsilons")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def design(attributes, joint=None, metric=None):
    """Design a survey in which tables of mechanisms may contain numbers of `NUMBERS`."""
    stored, plain, joint = {}, dict(attributes), dict(joint or {})
    together = {name for names in joint for name in names}
    parts = sum(not a.is_public for n, a in attributes.items() if n not in together) + len(joint)
    parts += sum(a.optional is not None for a in attributes.values())
    share = (metric or Lp()).share(parts)
    for name, attribute in attributes.items():
        if has_numbers(attribute.mechanism):
            problem = _problem(attribute, share)
            stored[name] = distribution(attribute.mechanism, problem)
            plain[name] = replace(attribute, mechanism=without_numbers(attribute.mechanism))
    for names, mechanism in joint.items():
        if has_numbers(mechanism):
            joint[names] = without_numbers(mechanism)
            described = {name: attributes[name] for name in attributes if name in names}
            problem = Group.of(joint[names]).problem(described, share)
            stored["+".join(described)] = distribution(mechanism, problem)
    return Survey.fixed(plain, metric=metric, joint=joint or None, stored=stored)


def has_numbers(mechanism):
    return isinstance(mechanism, dict) and (
        any(key in mechanism for key in NUMBERS) or has_numbers(mechanism.get("first"))
    )


def without_numbers(mechanism):
    stated = {key: value for key, value in mechanism.items() if key not in (*NUMBERS, "reach")}
    if isinstance(stated.get("first"), dict):
        stated["first"] = stated["first"]["name"]
    return stated


def depths_of(shapes):
    """Shapes as depths: digits in a text, or a list."""
    return tuple(tuple(map(DIGITS.index, s)) if isinstance(s, str) else tuple(s) for s in shapes)


def distribution(mechanism, problem):
    """The distribution with the numbers that a mechanism states."""
    name, size, metric = mechanism["name"], problem.size, problem.metric
    if name == "additive":
        depths = depths_of(mechanism["patterns"])
        if "around" in mechanism:
            grid, lengths = grid_in_units(metric), tuple(mechanism["around"])
        else:
            grid, lengths = line_in_units(size, metric), (len(depths[0]),)
        return AdditiveChannel.of(problem.sizes, lengths, depths, grid.step).distribution
    if name in ("extremal", "tight-constraints"):
        grid = in_units(size, metric)
        shapes = depths_of(mechanism.get("shapes", grid.apart.tolist()))
        tops = tuple(int(top, 16) for top in mechanism["tops"])
        return extremal_table(shapes, tops, grid.unit).distribution
    if name == "unary":
        return UnaryChannel.for_losses([tuple(pair) for pair in mechanism["bits"]]).distribution
    if name == "matrix":
        strategy, epsilons = mechanism["strategy"], mechanism["epsilons"]
        entries = strategies.plain(strategy, size) if isinstance(strategy, str) else strategy
        rows = telling_rows(np.array(entries))
        exact = [decimal_of(e) for e in np.broadcast_to(epsilons, len(rows)).tolist()]
        return MatrixChannel.of(rows, exact, mechanism.get("reach")).distribution
    assert name == "memoised"
    stated = distribution(mechanism["first"], problem)
    first = FIRSTS[mechanism["first"]["name"]]
    part = MemoisedResponse(first.name, mechanism["each"])._share(problem)
    channel = channel_of(stated)
    guaranteed = first.proved_metric(metric, stated).scaled(part)
    return MemoisedChannel(channel, _second(channel, guaranteed, part)).distribution
