"""The ledger: what several collections add up to, pair by pair (appendix B)."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

from checks import enumerated_ratio, exact_law
from metricldp import (
    Accountant,
    Categorical,
    Continuous,
    Graph,
    Integer,
    InvalidSpecError,
    Lp,
    Ordinal,
    QueryError,
    SensitiveSet,
    Survey,
    SurveySpec,
    Tree,
    Weight,
)
from metricldp.mechanisms.unary import losses_of
from metricldp.metrics import Line
from metricldp_core.exact import at_most_exp

SITES = ("news", "games", "clinic")
LEVELS = ("never", "rarely", "often")
STAR = SensitiveSet(["clinic"])


def ledger_of(*surveys):
    ledger = Accountant()
    for k, survey in enumerate(surveys):
        ledger.add(survey, note=f"wave {k + 1}")
    return ledger


@pytest.fixture
def ledger():
    return ledger_of(
        Survey.design({"age": Integer(0, 9, epsilon=1, per=5, mechanism="threshold")}),
        Survey.design(
            {
                "age": Integer(0, 9, epsilon=0.5, mechanism="randomized-response", per=1),
                "site": Categorical(SITES, epsilon=2),
            }
        ),
        Survey.design(
            {
                "site": Categorical(SITES, epsilon=1, metric=STAR, mechanism="randomized-response"),
                "w": Weight(0, 1),
            }
        ),
    )


def test_what_is_spent_is_the_sum(ledger):
    assert ledger.spent("age", 2, 7) == 1 + Fraction(1, 2)  # response keeps 1/2 for every pair
    assert ledger.spent("age", 2, 2) == 0
    assert ledger.spent("site", "news", "clinic") == 3
    assert ledger.spent("site", "news", "games") == 3  # response on the star keeps 1 as well
    assert len(ledger) == 3
    worst = ledger.worst("age")
    assert (worst.x, worst.other, worst.epsilon) == ("0", "9", Fraction(23, 10))
    assert str(worst) == "age 0 | 9: epsilon 2.3"
    assert ledger.together == Fraction(23, 10) + 3


def test_the_total_is_a_metric_on_positions(ledger):
    total = ledger.total("age")
    for x, other in itertools.product(range(10), repeat=2):
        assert total.distance(x, other) == ledger.spent("age", x, other)
        assert (total.distance(x, other) == 0) == (x == other)
    for x, z, other in itertools.product(range(10), repeat=3):
        assert total.distance(x, other) <= total.distance(x, z) + total.distance(z, other)
    twice = ledger_of(*[Survey.design({"a": Integer(0, 99_999, epsilon=1, per=1)})] * 2)
    assert twice.total("a") == Line(Fraction(2))


def test_two_reports_keep_the_sum_and_no_less():
    """All pairs of reports of both collections, by enumeration: the sum holds, and is needed."""
    edges = Graph([("never", "rarely"), ("rarely", "often")])
    surveys = [
        Survey.design({"use": Ordinal(LEVELS, epsilon=1, mechanism="threshold", metric=edges)}),
        Survey.design({"use": Ordinal(LEVELS, epsilon=0.5, mechanism="geometric")}),
    ]
    ledger = ledger_of(*surveys)
    channels = [survey.channels["use"] for survey in surveys]
    laws = [[exact_law(channel, x) for x in range(3)] for channel in channels]
    for x, other in itertools.combinations(range(3), 2):
        worst = max(
            (laws[0][x][a] / laws[0][other][a]) * (laws[1][x][b] / laws[1][other][b])
            for a in laws[0][0]
            for b in laws[1][0]
        )
        spent = ledger.spent("use", LEVELS[x], LEVELS[other])
        assert at_most_exp(worst, spent)
        alone = [ledger_of(survey).spent("use", LEVELS[x], LEVELS[other]) for survey in surveys]
        assert spent == sum(alone)
        assert not at_most_exp(worst, max(alone))


def test_bits_of_unary_are_counted_as_they_were_settled():
    """Their share of an Lp metric is in the bits already."""
    use = Ordinal(LEVELS, epsilon=2, mechanism="unary")
    both = Survey.design(
        SurveySpec(
            {"use": use, "age": Integer(0, 9, epsilon=1, mechanism="threshold", per=1)},
            metric=Lp(float("inf")),
        )
    )
    alone = Survey.design({"use": use})
    total = ledger_of(both, alone).total("use")
    for x, other in itertools.combinations(range(3), 2):
        told = sum(
            max(here[0] + there[1], here[1] + there[0])
            for here, there in (
                [as_bits(losses_of(law)[place]) for place in (x, other)]
                for law in (survey.channels["use"].distribution for survey in (both, alone))
            )
        )
        assert total.distance(x, other) == told
        assert total.distance(x, other) <= 3 * (other - x)
        ratio = [survey.channels["use"].distribution.ratio(x, other) for survey in (both, alone)]
        assert at_most_exp(ratio[0] * ratio[1], total.distance(x, other))


def as_bits(pair):
    return tuple(Fraction(repr(part)) for part in pair)


def test_shares_and_values_between_positions():
    attributes = {
        "v": Continuous(0, 10, points=11, epsilon=1, per=1, rounding="stochastic"),
        "b": Continuous(0, 10, bins=5, epsilon=1, per=1),
    }
    both = Survey.design(SurveySpec(attributes, metric=Lp(float("inf"))))
    ledger = ledger_of(both, Survey.design(attributes))
    assert ledger.spent("v", 2.5, 4) == Fraction(3, 2) * Fraction(3, 2)
    assert ledger.spent("b", 0.5, 9.9) == Fraction(3, 2) * 8
    assert ledger.spent("b", 0.5, 1.9) == 0


def between(channel, v):
    """The law of a value that is rounded at random to one of the positions next to it."""
    low, rest = int(v), Fraction(v) - int(v)
    laws = [exact_law(channel, x) for x in (low, min(low + 1, channel.size - 1))]
    return {report: (1 - rest) * laws[0][report] + rest * laws[1][report] for report in laws[0]}


def test_far_values_between_positions_cost_no_more_than_response_tells():
    """By enumeration: near values cost their distance, far ones what the channel keeps for all."""
    real = Continuous(
        0, 4, points=5, epsilon=0.5, mechanism="randomized-response", rounding="stochastic", per=1
    )
    shared = Survey.design(
        SurveySpec({"v": real, "age": Integer(0, 9, epsilon=1, per=1)}, metric=Lp(float("inf")))
    )
    for survey, most in ((Survey.design({"v": real}), Fraction(1, 2)), (shared, Fraction(1, 4))):
        ledger = ledger_of(survey)
        channel = survey.channels["v"]
        for x, other in itertools.permutations((0, 0.25, 0.5, 1.75, 4), 2):
            spent = ledger.spent("v", x, other)
            assert spent == min(most * Fraction(abs(other - x)), most)
            worst = enumerated_ratio(between(channel, x), between(channel, other))
            assert at_most_exp(worst, spent)
    line = Continuous(
        0, 4, points=5, epsilon=0.5, mechanism="threshold", per=1, rounding="stochastic"
    )
    assert ledger_of(Survey.design({"v": line})).spent("v", 0.5, 3.5) == Fraction(3, 2)


@pytest.mark.parametrize("mechanism", ["threshold", "randomized-response", "matrix"])
def test_the_share_of_an_lp_metric_is_counted_once_everywhere(mechanism):
    """Two attributes under the largest of their distances have half of them each."""
    use = Ordinal(LEVELS, epsilon=2, mechanism=mechanism)
    both = Survey.design(
        SurveySpec(
            {"use": use, "age": Integer(0, 9, epsilon=1, mechanism="threshold", per=1)},
            metric=Lp(float("inf")),
        )
    )
    ledger = ledger_of(both, Survey.design({"use": use}))
    assert both.metric.share(2) == Fraction(1, 2)
    far = Fraction(2 if mechanism == "randomized-response" else 4)
    total = ledger.total("use")
    for x, other in itertools.combinations(range(3), 2):
        apart = Fraction(2) if mechanism == "randomized-response" else 2 * Fraction(other - x)
        assert total.distance(x, other) == apart * Fraction(3, 2)
        assert ledger.spent("use", LEVELS[x], LEVELS[other]) == apart * Fraction(3, 2)
    assert ledger.worst("use").epsilon == far * Fraction(3, 2)
    assert ledger.worst("age").epsilon == Fraction(9, 2)
    assert ledger.together == far * Fraction(3, 2) + Fraction(9, 2)
    assert [line.split()[-2:] for line in str(ledger).splitlines()[1:5]] == [
        ["1", f"{float(far / 2):g}"],
        ["2", f"{float(far):g}"],
        ["3", f"{float(far * 3 / 2):g}"],
        ["0.5", "4.5"],
    ]


@pytest.mark.parametrize("mechanism", ["geometric", "threshold", "threshold-paper"])
def test_a_channel_of_a_line_is_counted_for_what_it_keeps(mechanism):
    """On a graph it keeps the steepest line below, which is less: by enumeration, and so added."""
    edges = Graph([("never", "rarely"), ("rarely", "often", 2)])
    survey = Survey.design({"use": Ordinal(LEVELS, epsilon=0.5, metric=edges, mechanism=mechanism)})
    ledger = ledger_of(survey)
    assert ledger.total("use") == Line(Fraction(1, 2))
    laws = [exact_law(survey.channels["use"], x) for x in range(3)]
    for x, other in itertools.combinations(range(3), 2):
        spent = ledger.spent("use", LEVELS[x], LEVELS[other])
        assert (
            spent == Fraction(other - x, 2) <= survey.attributes["use"].distances.distance(x, other)
        )
        assert at_most_exp(enumerated_ratio(laws[x], laws[other]), spent)


def test_it_reads_well(ledger):
    text = str(ledger)
    assert text.splitlines()[0].split() == [
        *("attribute", "collection", "nearest", "pair", "farthest", "pair")
    ]
    assert [line.split() for line in text.splitlines()[1:4]] == [
        ["age", "wave", "1", "0.2", "1.8"],
        ["wave", "2", "0.5", "0.5"],
        ["together", "0.7", "2.3"],
    ]
    assert "w was sent without protection" in text
    assert text.endswith(
        "3 collections; epsilon 5.3 for two respondents who differ as much as possible in all "
        "attributes"
    )
    assert str(Accountant()) == "nothing spent"
    unnamed = Accountant()
    unnamed.add(Survey.design({"a": Integer(0, 1, epsilon=1, per=1)}))
    survey = f"survey {unnamed.entries[0].survey.fingerprint[:8]}"
    assert str(unnamed).splitlines() == [
        f"attribute  {'collection':15}  nearest pair  farthest pair",
        f"a          {survey}             1              1",
        "1 collection; epsilon 1 for two respondents who differ as much as possible in all "
        "attributes",
    ]


def test_files(ledger, tmp_path):
    ledger.save(tmp_path / "ledger.json")
    again = Accountant.load(tmp_path / "ledger.json")
    assert again == ledger
    assert str(again) == str(ledger)
    assert again.to_dict() == json.loads(json.dumps(ledger.to_dict()))
    assert all(set(entry) == {"note", "survey"} for entry in ledger.to_dict()["entries"])
    again.add(Survey.design({"a": Integer(0, 1, epsilon=1, per=1)}))
    assert again != ledger
    assert ledger != ledger.entries


def test_a_ledger_is_json_whatever_its_file_is_called(ledger, tmp_path):
    with pytest.raises(InvalidSpecError, match=r"\.json"):
        ledger.save(tmp_path / "ledger.toml")
    assert list(tmp_path.iterdir()) == []
    ledger.save(tmp_path / "ledger.json")
    (tmp_path / "ledger.json").rename(tmp_path / "ledger.old")
    assert Accountant.load(tmp_path / "ledger.old") == ledger


@pytest.mark.parametrize(
    ("attribute", "needles"),
    [
        (Integer(0, 99, epsilon=1, per=1), ("high", "9", "99")),
        (Ordinal(LEVELS, epsilon=1), ("kind", "'integer'", "'ordinal'")),
        (Integer(1, 9, epsilon=1, per=1), ("low",)),
    ],
)
def test_what_cannot_be_compared_is_refused(ledger, attribute, needles):
    before = len(ledger)
    with pytest.raises(InvalidSpecError) as caught:
        ledger.add(Survey.design({"age": attribute}))
    for needle in ("age cannot be added up", "the same accountant under another name", *needles):
        assert needle in str(caught.value)
    assert len(ledger) == before
    with pytest.raises(InvalidSpecError, match="its categories was"):
        ledger.add(Survey.design({"site": Categorical(SITES[::-1], epsilon=1)}))
    with pytest.raises(InvalidSpecError, match="its private was"):
        ledger.add(Survey.design({"w": Weight(0, 1, private=True, epsilon=1)}))


def test_another_domain_counts_in_full_under_another_name(ledger, tmp_path):
    before = ledger.together
    finer = Survey.design(
        {"age": Integer(0, 99, epsilon=1, per=5), "site": Categorical(SITES, epsilon=1)}
    )
    ledger.add(finer, note="finer", names={"age": "age to 99"})
    assert ledger.together == before + Fraction(99, 5) + 1
    assert ledger.spent("age to 99", 30, 40) == 2
    assert ledger.spent("site", "news", "games") == 4  # one that keeps its name adds up as ever
    assert "age to 99" in str(ledger)
    assert repr(ledger) == "<Accountant of 4 collections about 'age', 'site', 'age to 99'>"
    ledger.save(tmp_path / "ledger.json")
    assert Accountant.load(tmp_path / "ledger.json") == ledger
    for names, needle in (
        ({"Age": "x"}, "no attribute 'Age' to be called another name.*differs only in its case"),
        ({"age": "site"}, "two attributes of one survey are called 'site'"),
        ({"age": "two\nlines"}, "a name in the accountant is a line of text, without line breaks"),
        ({"age": " "}, "a name in the accountant is a line of text, not empty"),
        ({"age": 3}, "a name in the accountant is a line of text, not int"),
        ("age", "names map attributes"),
    ):
        with pytest.raises(InvalidSpecError, match=needle):
            ledger.add(finer, names=names)
    with pytest.raises(InvalidSpecError, match="age to 99 cannot be added up pair by pair"):
        ledger.add(
            Survey.design({"age": Integer(0, 9, epsilon=1, per=1)}), names={"age": "age to 99"}
        )


UNARY = {
    "tree": Tree({"web": ["news", "games"], "body": ["clinic"]}, {"web": 2}),
    "star": STAR,
    "path": Graph([("news", "games"), ("games", "clinic", 3)]),
    "plain": None,
}


@pytest.mark.parametrize("case", UNARY)
def test_of_unary_bits_the_ledger_counts_what_they_tell(case):
    """By enumeration: the loss of every pair is below what is entered, and meets it somewhere."""
    survey = Survey.design(
        {"v": Categorical(SITES, epsilon=1, metric=UNARY[case], mechanism="unary")}
    )
    ledger, channel = ledger_of(survey), survey.channels["v"]
    promised, total = survey.attributes["v"].distances, ledger.total("v")
    laws = [exact_law(channel, x) for x in range(3)]
    for x, other in itertools.combinations(range(3), 2):
        worst = enumerated_ratio(laws[x], laws[other])
        spent = ledger.spent("v", SITES[x], SITES[other])
        assert spent == total.distance(x, other) == total.distance(other, x)
        assert at_most_exp(worst, spent)
        assert not at_most_exp(worst, spent * Fraction(999_999, 1_000_000))
        assert spent <= promised.distance(x, other)
    entry = survey.explain().to_dict()["attributes"][0]
    assert entry["max_epsilon"] >= float(total.diameter(3)) == float(ledger.together)
    again = ledger_of(Survey.from_toml(survey.to_toml()))
    assert again.total("v").diameter(3) == total.diameter(3)


def broken(ledger, key, value, inside=False):
    """A ledger as plain data in which one thing is another, of the whole or of its last entry."""
    data = ledger.to_dict()
    (data["entries"][-1] if inside else data)[key] = value
    return data


def test_a_ledger_file_holds_what_is_known_and_nothing_else(ledger, tmp_path):
    """A key that is not understood may change what the rest means, so it is not passed over."""
    assert Accountant.from_dict(ledger.to_dict()) == ledger
    whole = "keys metricldp-ledger and entries, and no other"
    part = "entry 3 of the accountant needs a note and a survey, and may have names"
    for data, needle in (
        (broken(ledger, "owner", "me"), whole),
        (broken(ledger, "entries", {}), whole),
        (broken(ledger, "entries", None), whole),
        (
            broken(ledger, "metricldp-ledger", True),
            "metricldp-ledger of an accountant file is 1, not True",
        ),
        (
            broken(ledger, "metricldp-ledger", 1.0),
            "metricldp-ledger of an accountant file is 1, not 1.0",
        ),
        (broken(ledger, "times", 2, inside=True), part),
        (broken(ledger, "survey", 3, inside=True), "entry 3 of the accountant has no survey"),
        (broken(ledger, "note", 3, inside=True), "a note is a line of text, not int"),
        (broken(ledger, "names", 3, inside=True), "names map attributes"),
    ):
        with pytest.raises(InvalidSpecError, match=needle):
            Accountant.from_dict(data)
    for key in ("note", "survey"):
        data = ledger.to_dict()
        del data["entries"][1][key]
        with pytest.raises(InvalidSpecError, match="entry 2 of the accountant needs"):
            Accountant.from_dict(data)
    (tmp_path / "ledger.json").write_text(json.dumps(broken(ledger, "owner", "me")))
    with pytest.raises(InvalidSpecError, match=f"ledger.json: an accountant file has the {whole}"):
        Accountant.load(tmp_path / "ledger.json")


def test_mistakes(ledger, tmp_path):
    for call, needle in (
        (lambda: ledger.spent("Age", 1, 2), "differs only in its case"),
        (lambda: ledger.total("height"), "no attribute 'height'"),
        (lambda: ledger.worst("w"), "w was sent without protection"),
        (lambda: ledger.worst(["age"]), "no attribute"),
        (lambda: ledger.worst(np.array(["age", "w"])), "no attribute"),
        (lambda: ledger.spent("age", 1, 200), r"age \(200\) is outside 0 to 9"),
        (lambda: ledger.spent("site", "news", "shop"), r"site \('shop'\) is not one of"),
        (lambda: ledger.spent("site", "news", None), r"site \(None\) is missing"),
    ):
        with pytest.raises(QueryError, match=needle):
            call()
    path = tmp_path / "ledger.json"
    for text, needle in (
        ("{", "not a JSON file"),
        ("[]", "an accountant file is an object, not list"),
        ('{"metricldp-ledger": 2, "entries": []}', "not 2"),
        ('{"metricldp-ledger": 1}', "has the keys metricldp-ledger and entries, and no other"),
        ('{"metricldp-ledger": 1, "entries": [3]}', "entry 1"),
        ('{"metricldp-ledger": 1, "entries": [{"note": "", "survey": 3}]}', "entry 1"),
        ('{"metricldp-ledger": 1, "entries": [{"note": 1, "survey": {}}]}', "metricldp = 1"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidSpecError, match=needle):
            Accountant.load(path)
    with pytest.raises(InvalidSpecError, match="cannot read the accountant"):
        Accountant.load(tmp_path / "none.json")
    with pytest.raises(InvalidSpecError, match=r"cannot write .*directory"):
        ledger.save(tmp_path)
    with pytest.raises(InvalidSpecError, match="an accountant adds surveys, not dict"):
        ledger.add({"age": 3})
    with pytest.raises(InvalidSpecError, match="a note is a line of text"):
        ledger.add(Survey.design({"b": Integer(0, 1, epsilon=1, per=1)}), note="two\nlines")
    large = Survey.design({"a": Integer(0, 9999, epsilon=1, mechanism="geometric", per=1)})
    mixed = ledger_of(
        large,
        Survey.design({"a": Integer(0, 9999, epsilon=1, mechanism="randomized-response", per=1)}),
    )
    assert mixed.spent("a", 3, 9) == 7
    with pytest.raises(InvalidSpecError, match="different kinds are added up for 1,000 positions"):
        mixed.total("a")
