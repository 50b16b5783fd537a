"""Which attributes are blurred as one, where nobody says so: the smallest predicted error."""

import itertools

import numpy as np
import pytest

from metricldp import Categorical, Integer, InvalidSpecError, Lp, Survey, SurveySpec, Weight
from metricldp.answers import partition
from metricldp.mechanisms import additive_search
from metricldp.mechanisms.search_cache import CACHE
from metricldp.survey.blocks import distributions_of


def side(epsilon, size=3):
    return Integer(0, size - 1, epsilon=epsilon, per=1)


SMALL = {"a": side(0.2), "b": side(0.2), "c": side(0.2)}


def mean_variance(survey, names):
    """Of all ranges of these attributes, one question after the other."""
    ranges = [(low, high) for low in range(3) for high in range(low, 3)]
    asked = [
        dict(zip(names, ends, strict=True)) for ends in itertools.product(ranges, repeat=len(names))
    ]
    return np.mean(
        [survey.expected_error(where, n=1, prior="uniform").stderr ** 2 for where in asked]
    )


def test_what_is_asked_together_is_blurred_together():
    found = Survey.design(SurveySpec(SMALL, joint="auto", together=[("a", "c")]))
    assert list(found.blocks) == ["a+c"]
    assert Survey.from_toml(found.to_toml()) == found
    assert not Survey.design(SurveySpec(SMALL, joint="auto", together=["a", "b", "c"])).blocks
    where = {"a": (1, 2), "b": (0, 1)}
    assert list(Survey.design(SurveySpec(SMALL, joint="auto", together=[where])).blocks) == ["a+b"]


def test_no_other_partition_has_a_smaller_error():
    sets = [("a", "b"), ("b", "c"), ("b",)]
    best = Survey.design(
        SurveySpec(SMALL, joint="auto", together=[(sets[0], 3), (sets[1], 1), (sets[2], 1)])
    )
    every = [None, [["a", "b"]], [["b", "c"]], [["a", "b", "c"]]]
    totals = [
        sum(w * mean_variance(survey, names) for w, names in zip((3, 1, 1), sets, strict=True))
        for survey in (best, *(Survey.design(SurveySpec(SMALL, joint=joint)) for joint in every))
    ]
    assert totals[0] == pytest.approx(min(totals), rel=1e-9)
    assert len(best.blocks) == 1


@pytest.mark.parametrize("sets", [[("a", "b")], [("a", "b"), ("b", "c")]])
def test_large_blocks_are_tried_briefly_where_there_are_several(monkeypatch, sets):
    """By transforms, with the error of what is found; what is chosen is searched for in full."""
    monkeypatch.setattr("metricldp.mechanisms.additive_channel.MOST_SOLVED", 4)
    monkeypatch.setattr("metricldp.mechanisms.additive_search.MOST_SOLVED", 4)
    monkeypatch.setattr(partition, "_LARGE", 4)
    efforts, judged, shares = [], [], []
    plain, square = additive_search.annealed_by_slopes, partition._mean_square

    def annealed(torus, workload, effort, progress):
        efforts.append(effort.scale)
        return plain(torus, workload, effort, progress)

    def mean_square(apart, block, names):
        judged.append((square(apart, block, names), block, names))
        return judged[-1][0]

    monkeypatch.setattr(additive_search, "annealed_by_slopes", annealed)
    monkeypatch.setattr(CACHE, "enabled", False)
    monkeypatch.setattr(partition, "_mean_square", mean_square)
    spec = SurveySpec(SMALL, joint="auto", together=[*sets, "c"])
    found = Survey.design(spec, progress=shares.append)
    assert efforts == ([1.0] if len(sets) == 1 else [0.1, 0.1, 0.1, 1.0])
    assert len(found.blocks) == 1
    assert shares[-1] == 1
    assert shares == sorted(shares)
    value, block, names = judged[0]
    described = {name: SMALL[name] for name in block.names}
    stored = distributions_of([block])
    survey = Survey.fixed(described, joint={block.names: block.group}, stored=stored)
    inside = (5 / 9) ** len(names)  # ranges of three values hold so many of them
    assert mean_variance(survey, sorted(names)) == pytest.approx(value - inside, rel=1e-9)


def test_spec_file_may_state_auto(tmp_path):
    path = tmp_path / "spec.toml"
    lines = ['joint = "auto"']
    for name in "ab":
        lines += [f"[attributes.{name}]", 'kind = "integer"', "low = 0", "high = 2"]
        lines += ["epsilon = 0.2", "per = 1"]
    path.write_text("\n".join(lines), "utf-8")
    assert list(Survey.design(SurveySpec.load(path)).blocks) == ["a+b"]


def test_large_epsilons_stay_apart():
    large = {"a": side(3), "b": side(3)}
    assert not Survey.design(SurveySpec(large, joint="auto")).blocks


def test_what_cannot_be_joined_is_left_alone():
    mixed = {
        **SMALL,
        "kind": Categorical(["x", "y", "z"], epsilon=0.2),
        "own": Integer(0, 2, epsilon=0.2, mechanism="geometric", per=1),
        "pay": Weight(0, 10),
    }
    survey = Survey.design(SurveySpec(mixed, joint="auto", together=[("a", "kind"), ("own", "b")]))
    assert list(survey.blocks) == ["a+kind"]
    assert survey.mechanisms["own"].name == "geometric"


def test_auto_in_data_of_a_spec():
    data = SurveySpec(SMALL, joint="auto").to_dict()
    assert list(Survey.design(SurveySpec.from_dict(data)).blocks) == ["a+b+c"]


@pytest.mark.parametrize(
    ("together", "why"),
    [
        (["d"], "together= names 'd'; the survey has"),
        ([3], "together= lists sets of attributes"),
        ([(("a", "b"), 0)], "a weight in together= is a number above 0"),
        ([{"z": 1}], "together= names 'z'"),
    ],
)
def test_refused(together, why):
    with pytest.raises(InvalidSpecError, match=why):
        Survey.design(SurveySpec(SMALL, joint="auto", together=together))


def test_other_refusals():
    with pytest.raises(InvalidSpecError, match="for distances that add up"):
        Survey.design(SurveySpec(SMALL, joint="auto", metric=Lp(2)))
    with pytest.raises(InvalidSpecError, match='together= belongs to joint="auto"'):
        SurveySpec(SMALL, together=[("a", "b")])
    many = {name: side(0.2, 2) for name in "abcdefgh"}
    with pytest.raises(InvalidSpecError, match="parts up to 6 attributes, not 8"):
        Survey.design(SurveySpec(many, joint="auto"))
    assert list(Survey.design(SurveySpec(many, joint="auto", together=[("g", "h")])).blocks) == [
        "g+h"
    ]
    wide = {name: side(0.2, 100) for name in "abcdef"}
    with pytest.raises(
        InvalidSpecError, match="would try 15 large groups, of more than 131,072 cells"
    ):
        Survey.design(SurveySpec(wide, joint="auto"))
