"""What a notebook shows: the data of the text, in small tables, with nothing unescaped."""

from html.parser import HTMLParser

import pytest

from metricldp import Categorical, Continuous, Integer, Ordinal, Survey, SurveySpec, Weight
from metricldp.basics.markup import beside, table

EVIL = '<script>alert("&amp;")</script><b onclick>'
TAGS = {"div", "p", "table", "caption", "tr", "th", "td", "br"}


class Page(HTMLParser):
    """The tags of a page, their attributes, and the words of every cell and paragraph."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.words = [], set(), [], [""]
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= set(attrs)
        if tag != "br":
            self.open.append(tag)
            self.words.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words[-1] += data


@pytest.fixture(scope="module")
def survey():
    return Survey.design(
        {
            f"age {EVIL}": Integer(0, 9, epsilon=1, within=2, max_epsilon=3, optional=2),
            "level": Ordinal([f"low {EVIL}", "high"], epsilon=25),
            "place": Categorical([EVIL, "other"], epsilon=1),
            f"weight {EVIL}": Weight(0, 1),
        }
    )


@pytest.fixture(scope="module")
def tally(survey):
    one, two, three, four = survey.asked
    people = {one: [1, 2, None], two: ["high"] * 3, three: [EVIL, "other", EVIL], four: [0, 1, 1]}
    return survey.tally(survey.randomize(people))


SHOWN = {
    "survey": lambda survey, tally: survey,
    "tally": lambda survey, tally: tally,
    "answer": lambda survey, tally: tally.count({"place": EVIL}),
    "share": lambda survey, tally: tally.fraction({"level": "high"}, among={"place": EVIL}),
    "answers": lambda survey, tally: tally.count(by="place"),
    "two-way": lambda survey, tally: tally.count(by=["place", "level"]),
    "quantiles": lambda survey, tally: tally.quantile("level", 0.5, by="place"),
    "cdf": lambda survey, tally: tally.cdf("level"),
    "certificate": lambda survey, tally: survey.certify(),
    "explanation": lambda survey, tally: survey.explain(),
    "fitted": lambda survey, tally: tally.fit_distribution(["place"]).count({"place": EVIL}),
}


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_gets_through_unescaped(survey, tally, name):
    page = Page(SHOWN[name](survey, tally)._repr_html_())
    assert set(page.tags) <= TAGS
    sides = {("style", f"text-align:{side}") for side in ("left", "right", "left;font-weight:bold")}
    assert page.attributes <= {*sides, ("scope", "row"), ("scope", "col")}
    evil = [words for words in page.words if "<script>" in words]
    assert name == "cdf" or evil, "the name is to be read as it is"
    assert all(EVIL in " ".join(words.split()) for words in evil)


def words(found):
    return Page(found._repr_html_()).words


def test_table_of_a_survey_states_the_guarantees():
    survey = Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3),
            "pay": Continuous(0, 100, bins=10, epsilon=1, within=10, max_epsilon=3, optional=1),
            "vote": Categorical(["yes", "no"], epsilon=1),
            "count": Weight(0, 1),
        }
    )
    found = words(survey)
    assert any(f"Survey {survey.fingerprint[:16]}" in line for line in found)
    assert "age: whole numbers from 0 to 99; mechanism additive" in found
    assert any(line.startswith("pay: 0 to 100 in 10 bins, optional") for line in found)
    assert "The value is sent without protection." in found
    whole = [one for one in found if one.startswith("All attributes together: ")]
    assert whole and whole[0] in words(survey.tally([]))
    assert f"Tally of 0 reports to survey {survey.fingerprint[:16]}" in words(survey.tally([]))


def test_joint_attributes_are_named():
    both = {name: Integer(0, 3, epsilon=1, per=1) for name in ("east", "north")}
    survey = Survey.design(
        SurveySpec(both, joint={("east", "north"): {"name": "additive", "metric": "sum"}})
    )
    assert "east: whole numbers from 0 to 3; mechanism additive, jointly with north" in words(
        survey
    )


def test_weak_guarantees_are_warned_of(survey):
    (warning,) = survey.certify().warnings[:1]
    for found in (survey, survey.tally([]), survey.explain()):
        assert f"Warning: {warning}." in words(found)
    assert f"warning: {warning}" in words(survey.certify())


def test_estimate_shows_the_numbers_of_its_text(tally):
    for estimate in (tally.count({"place": "other"}), tally.fraction({"place": "other"})):
        display, shown = estimate.display(0.95), words(estimate)
        assert f"{display.value} {estimate.unit}" in shown
        assert display.stderr in shown and display.interval in shown
        assert estimate.question in shown
        assert display.value in str(estimate) and display.interval in str(estimate)


def test_a_certificate_has_the_words_of_its_text(survey):
    certificate = survey.certify()
    lines = str(certificate).splitlines()
    shown = words(certificate)
    assert [line for line in lines[len(certificate.proofs) + 1 :] if line not in shown] == []
    assert sum(word == "holds" for word in shown) == len(certificate.proofs)


def test_an_explanation_has_the_words_of_its_text():
    survey = Survey.design(
        {
            "age": Integer(0, 9, epsilon=1, within=2, max_epsilon=3),
            "again": Integer(0, 9, epsilon=1, mechanism="memoised", per=1),
            "plan": Integer(
                0, 7, epsilon=1, mechanism={"name": "matrix", "workload": "ranges"}, per=1
            ),
            "bins": Continuous(0, 100, bins=10, epsilon=1, per=10),
        }
    )
    shown = "".join(" ".join(words(survey.explain(n=100))).split())
    for line in str(survey.explain(n=100)).splitlines():
        if "Expected standard errors" not in line:
            assert "".join(line.split()) in shown, line


def test_a_table_has_heads_and_sides():
    page = table([("name", "x"), ("a", "1\n2")], caption="what")
    assert page == (
        '<table><caption style="text-align:left;font-weight:bold">what</caption>'
        '<tr><th scope="col" style="text-align:left">name</th>'
        '<th scope="col" style="text-align:right">x</th></tr>'
        '<tr><th scope="row" style="text-align:left">a</th>'
        '<td style="text-align:right">1<br>2</td></tr></table>'
    )
    assert beside("<table></table>", above=["a < b"], below=["c"]) == (
        "<div><p>a &lt; b</p><table></table><p>c</p></div>"
    )
