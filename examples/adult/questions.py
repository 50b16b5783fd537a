"""Thirty questions of an analyst about the people of the Adult file.

Each is one line of Python, one command, and one line of pandas that has the true answer, which an
analyst of a real survey never sees. What an answer is needed for was written down before any of
them was asked: it is useful if half of its 95% interval is no longer than `need`. Of a table every
row has to be; a test has to find what is there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question, how to ask it, what is true, and how near an answer has to be."""

    words: str
    python: str
    """Of `tally`."""
    command: str
    """After `metricldp COMMAND survey.toml reports.parquet`, the command first."""
    truth: str
    """Of `people`, a table of pandas."""
    need: float | tuple[float, ...] | None
    """Half of an interval, at most; for every row alike, or for each."""
    unit: str = ""


def points(number: float) -> float:
    return number / 100


QUESTIONS = (
    Question(
        "How many are 18 to 29?",
        'tally.count({"age": (18, 29)})',
        "count age=18..29",
        "people.age.between(18, 29).sum()",
        1000,
        "people",
    ),
    Question(
        "Which share is 65 or older?",
        'tally.fraction({"age": (65, None)})',
        "fraction age=65..",
        "(people.age >= 65).mean()",
        points(1),
    ),
    Question(
        "How old are they on average?",
        'tally.mean("age")',
        "mean age",
        "people.age.mean()",
        0.5,
        "years",
    ),
    Question(
        "What is the median age?",
        'tally.quantile("age", 0.5)',
        "quantile age 0.5",
        "people.age.quantile(0.5)",
        1,
        "years",
    ),
    Question(
        "Between which ages is the middle half?",
        'tally.quantiles("age", [0.25, 0.75])',
        "quantile age 0.25 0.75",
        "people.age.quantile([0.25, 0.75])",
        1,
        "years",
    ),
    Question(
        "How far do ages spread (standard deviation)?",
        'tally.std("age")',
        "std age",
        "people.age.std(ddof=0)",
        1,
        "years",
    ),
    Question(
        "How long do they work in a week?",
        'tally.mean("hours")',
        "mean hours",
        "people.hours.mean()",
        0.5,
        "hours",
    ),
    Question(
        "Which share works more than 40 hours?",
        'tally.fraction({"hours": (41, None)})',
        "fraction hours=41..",
        "(people.hours > 40).mean()",
        points(2),
    ),
    Question(
        "Which share are women?",
        'tally.fraction({"sex": "Female"})',
        "fraction sex=Female",
        '(people.sex == "Female").mean()',
        points(1),
    ),
    Question(
        "Which share earns over 50K?",
        'tally.fraction({"income": "over 50K"})',
        'fraction "income=over 50K"',
        '(people.income == "over 50K").mean()',
        points(1),
    ),
    Question(
        "Which share of the women earns over 50K?",
        'tally.fraction({"income": "over 50K"}, of={"sex": "Female"})',
        'fraction "income=over 50K" --of sex=Female',
        '(people[people.sex == "Female"].income == "over 50K").mean()',
        points(2),
    ),
    Question(
        "By how much is that share higher for men?",
        'tally.fraction({"income": "over 50K"}, of={"sex": "Male"})'
        ' - tally.fraction({"income": "over 50K"}, of={"sex": "Female"})',
        'fraction "income=over 50K" --of sex=Male --less sex=Female',
        '(people[people.sex == "Male"].income == "over 50K").mean()'
        ' - (people[people.sex == "Female"].income == "over 50K").mean()',
        points(2),
    ),
    Question(
        "How many times as high is it?",
        'tally.fraction({"income": "over 50K"}, of={"sex": "Male"})'
        ' / tally.fraction({"income": "over 50K"}, of={"sex": "Female"})',
        'fraction "income=over 50K" --of sex=Male --over sex=Female',
        '(people[people.sex == "Male"].income == "over 50K").mean()'
        ' / (people[people.sex == "Female"].income == "over 50K").mean()',
        0.3,
    ),
    Question(
        "How many hours more do men work?",
        'tally.mean("hours", {"sex": "Male"}) - tally.mean("hours", {"sex": "Female"})',
        "mean hours sex=Male --less sex=Female",
        'people[people.sex == "Male"].hours.mean() - people[people.sex == "Female"].hours.mean()',
        1,
        "hours",
    ),
    Question(
        "How old are low and high earners?",
        'tally.mean("age", by="income")',
        "mean age --by income",
        'people.groupby("income").age.mean()',
        1,
        "years",
    ),
    Question(
        "Which share earns over 50K, by four steps of schooling?",
        'tally.fraction({"income": "over 50K"}, by={"education": 4})',
        'fraction "income=over 50K" --by education=4',
        '(people.income == "over 50K").groupby((people.education - 1) // 4).mean()',
        points(3),
    ),
    Question(
        "And by ten years of age?",
        'tally.fraction({"income": "over 50K"}, by={"age": 10})',
        'fraction "income=over 50K" --by age=10',
        '(people.income == "over 50K").groupby((people.age - 17) // 10).mean()',
        points(5),
    ),
    Question(
        "How many are there of each sex and income?",
        'tally.count(by=["sex", "income"])',
        "count --by sex --by income",
        'people.groupby(["sex", "income"]).size()',
        500,
        "people",
    ),
    Question(
        "How many are in their thirties and work 50 hours or more?",
        'tally.count({"age": (30, 39), "hours": (50, None)})',
        "count age=30..39 hours=50..",
        "(people.age.between(30, 39) & (people.hours >= 50)).sum()",
        500,
        "people",
    ),
    Question(
        "How many women of 25 to 34 have a degree?",
        'tally.count({"sex": "Female", "age": (25, 34), "education": (13, None)})',
        "count sex=Female age=25..34 education=13..",
        '((people.sex == "Female") & people.age.between(25, 34) & (people.education >= 13)).sum()',
        250,
        "people",
    ),
    Question(
        "How many are under 25 or over 64?",
        'tally.count({"age": [(None, 24), (65, None)]})',
        "count age=..24,65..",
        "((people.age < 25) | (people.age > 64)).sum()",
        1000,
        "people",
    ),
    Question(
        "How many are married, or earn over 50K?",
        'tally.count(any_of({"married": "yes"}, {"income": "over 50K"}))',
        'count "married=yes or income=over 50K"',
        '((people.married == "yes") | (people.income == "over 50K")).sum()',
        500,
        "people",
    ),
    Question(
        "How old are those who are not both married and well paid?",
        'tally.mean("age", none_of({"married": "yes", "income": "over 50K"}))',
        'mean age "not (married=yes and income=over 50K)"',
        'people[~((people.married == "yes") & (people.income == "over 50K"))].age.mean()',
        1,
        "years",
    ),
    Question(
        "How many work 1 to 20 hours, 21 to 40 and so on?",
        'tally.histogram("hours", width=20)',
        "histogram hours --width 20",
        "people.groupby((people.hours - 1) // 20).size()",
        1000,
        "people",
    ),
    Question(
        "How many are there by age and sex?",
        'tally.count(by={"age": 20, "sex": None})',
        "count --by age=20 --by sex",
        'people.groupby([(people.age - 17) // 20, "sex"]).size()',
        750,
        "people",
    ),
    Question(
        "Do schooling and hours go together (correlation)?",
        'tally.correlation("education", "hours")',
        "correlation education hours",
        "people.education.corr(people.hours)",
        0.05,
    ),
    Question(
        "How do hours depend on age and sex (a line)?",
        'tally.regression("hours", ["age", "sex"])',
        "regression hours age sex",
        "line(people)",
        (2, 0.05, 1),
        "hours",
    ),
    Question(
        "Are sex and income independent?",
        'tally.independence("sex", "income")',
        "independence sex income",
        "'no, they are not'",
        None,
    ),
    Question(
        "Does the share over 50K rise with schooling?",
        'tally.trend({"income": "over 50K"}, "education")',
        'trend education --share "income=over 50K"',
        "'yes, it does'",
        None,
    ),
    Question(
        "Which three occupations have the most people?",
        'tally.top("occupation", 3)',
        "top occupation --k 3",
        "people.occupation.value_counts().head(3)",
        250,
        "people",
    ),
)
