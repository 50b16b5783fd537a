"""Thirty questions of an analyst about the people of the Adult file.

Each has one line of Python, one line of pandas with the true value, which an analyst of a real
survey never sees, and, where there is one, a command. The required precision was fixed before the
first query: an estimate is useful if half of its 95% interval is at most `need`. In a table this
applies to each row. A test has to find the effect that exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question, its query, its true value and the required precision."""

    words: str
    python: str
    """An expression of `tally`."""
    command: str | None
    """After `metricldp query`, without the two files; None if one command cannot compute it."""
    truth: str
    """An expression of `people`, a data frame of pandas."""
    need: float | tuple[float, ...] | None
    """The largest useful half-width of an interval: for every row alike, or for each row."""
    unit: str = ""


def points(number: float) -> float:
    """Percentage points as a fraction."""
    return number / 100


QUESTIONS = (
    Question(
        "How many are 18 to 29?",
        'tally.count("18 <= age <= 29")',
        'count "18 <= age <= 29"',
        "people.age.between(18, 29).sum()",
        1000,
        "people",
    ),
    Question(
        "Which fraction is 65 or older?",
        'tally.fraction("age >= 65")',
        'fraction "age >= 65"',
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
        'tally.quantile("age")',
        "quantile age",
        "people.age.quantile(0.5)",
        1,
        "years",
    ),
    Question(
        "Between which ages is the middle half?",
        '[tally.quantile("age", 0.25), tally.quantile("age", 0.75)]',
        None,
        "people.age.quantile([0.25, 0.75])",
        1,
        "years",
    ),
    Question(
        "What is the standard deviation of age?",
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
        "Which fraction works more than 40 hours?",
        'tally.fraction("hours > 40")',
        'fraction "hours > 40"',
        "(people.hours > 40).mean()",
        points(2),
    ),
    Question(
        "Which fraction are women?",
        "tally.fraction(\"sex == 'Female'\")",
        "fraction \"sex == 'Female'\"",
        '(people.sex == "Female").mean()',
        points(1),
    ),
    Question(
        "Which fraction earns over 50K?",
        "tally.fraction(\"income == 'over 50K'\")",
        "fraction \"income == 'over 50K'\"",
        '(people.income == "over 50K").mean()',
        points(1),
    ),
    Question(
        "Which fraction of the women earns over 50K?",
        "tally.fraction(\"income == 'over 50K'\", among=\"sex == 'Female'\")",
        "fraction \"income == 'over 50K'\" --among \"sex == 'Female'\"",
        '(people[people.sex == "Female"].income == "over 50K").mean()',
        points(2),
    ),
    Question(
        "By how much is that fraction higher for men?",
        "tally.fraction(\"income == 'over 50K'\", among=\"sex == 'Male'\")"
        " - tally.fraction(\"income == 'over 50K'\", among=\"sex == 'Female'\")",
        None,
        '(people[people.sex == "Male"].income == "over 50K").mean()'
        ' - (people[people.sex == "Female"].income == "over 50K").mean()',
        points(2),
    ),
    Question(
        "How many times as high is it?",
        "tally.fraction(\"income == 'over 50K'\", among=\"sex == 'Male'\")"
        " / tally.fraction(\"income == 'over 50K'\", among=\"sex == 'Female'\")",
        None,
        '(people[people.sex == "Male"].income == "over 50K").mean()'
        ' / (people[people.sex == "Female"].income == "over 50K").mean()',
        0.3,
    ),
    Question(
        "How many hours more do men work?",
        'tally.mean("hours", "sex == \'Male\'") - tally.mean("hours", "sex == \'Female\'")',
        None,
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
        "Which fraction earns over 50K, by four steps of schooling?",
        'tally.fraction("income == \'over 50K\'", by={"education": [1, 5, 9, 13, 17]})',
        "fraction \"income == 'over 50K'\" --by education=1,5,9,13,17",
        '(people.income == "over 50K").groupby((people.education - 1) // 4).mean()',
        points(3),
    ),
    Question(
        "Which fraction earns over 50K, by ten years of age?",
        "tally.fraction(\"income == 'over 50K'\","
        ' by={"age": [17, 27, 37, 47, 57, 67, 77, 87, 91]})',
        "fraction \"income == 'over 50K'\" --by age=17,27,37,47,57,67,77,87,91",
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
        'tally.count("30 <= age <= 39 and hours >= 50")',
        'count "30 <= age <= 39 and hours >= 50"',
        "(people.age.between(30, 39) & (people.hours >= 50)).sum()",
        500,
        "people",
    ),
    Question(
        "How many women of 25 to 34 have a degree?",
        "tally.count(\"sex == 'Female' and 25 <= age <= 34 and education >= 13\")",
        "count \"sex == 'Female' and 25 <= age <= 34 and education >= 13\"",
        '((people.sex == "Female") & people.age.between(25, 34) & (people.education >= 13)).sum()',
        250,
        "people",
    ),
    Question(
        "How many are under 25 or over 64?",
        'tally.count("age < 25 or age > 64")',
        'count "age < 25 or age > 64"',
        "((people.age < 25) | (people.age > 64)).sum()",
        1000,
        "people",
    ),
    Question(
        "How many are married, or earn over 50K?",
        "tally.count(\"married == 'yes' or income == 'over 50K'\")",
        "count \"married == 'yes' or income == 'over 50K'\"",
        '((people.married == "yes") | (people.income == "over 50K")).sum()',
        500,
        "people",
    ),
    Question(
        "How old are those who are not both married and well paid?",
        "tally.mean(\"age\", \"not (married == 'yes' and income == 'over 50K')\")",
        "mean age \"not (married == 'yes' and income == 'over 50K')\"",
        'people[~((people.married == "yes") & (people.income == "over 50K"))].age.mean()',
        1,
        "years",
    ),
    Question(
        "How many work 1 to 20 hours, 21 to 40 and so on?",
        'tally.histogram("hours", bins=[1, 21, 41, 61, 81, 100])',
        "histogram hours --bins 1,21,41,61,81,100",
        "people.groupby((people.hours - 1) // 20).size()",
        1000,
        "people",
    ),
    Question(
        "How many are there by age and sex?",
        'tally.count(by={"age": [17, 37, 57, 77, 91], "sex": None})',
        "count --by age=17,37,57,77,91 --by sex",
        'people.groupby([(people.age - 17) // 20, "sex"]).size()',
        750,
        "people",
    ),
    Question(
        "What is the correlation of schooling and hours?",
        'tally.correlation("education", "hours", target="respondents")',
        "correlation education hours --target respondents",
        "people.education.corr(people.hours)",
        0.05,
    ),
    Question(
        "How do hours depend on age and sex (linear regression)?",
        'tally.linear_regression("hours", ["age", "sex"], target="respondents")',
        "regression hours age sex --target respondents",
        "coefficients(people)",
        (2, 0.05, 1),
        "hours",
    ),
    Question(
        "Are sex and income independent?",
        'tally.independence_test("sex", "income")',
        "independence sex income",
        "'no, they are not'",
        None,
    ),
    Question(
        "Does the fraction over 50K rise with schooling?",
        'tally.trend_test("income == \'over 50K\'", "education")',
        "trend education --event \"income == 'over 50K'\"",
        "'yes, it does'",
        None,
    ),
    Question(
        "Which three occupations have the most people?",
        'tally.top_k("occupation", 3)',
        "top-k occupation --k 3",
        "people.occupation.value_counts().head(3)",
        250,
        "people",
    ),
)
