"""The thirty questions of `examples/adult`: asked both ways, of people who exist or do not."""

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from metricldp.cli import main as cli

pd = pytest.importorskip("pandas")
HERE = Path(__file__).parents[1] / "examples" / "adult"
sys.path.insert(0, str(HERE))
import ask  # noqa: E402
from questions import QUESTIONS  # noqa: E402


def in_this_process(words):
    """What a command prints, without a process of its own."""
    said, before = io.StringIO(), sys.argv
    sys.argv = ["metricldp", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            cli.main()
    finally:
        sys.argv = before
    return said.getvalue()


def made_up(n):
    """People with the same columns, in whom everything depends on everything."""
    rng = np.random.default_rng(1)
    male, schooling = rng.random(n) < 0.6, rng.integers(1, 17, n)
    age = np.clip(17 + rng.gamma(3, 8, n), 17, 90).astype(int)
    paid = rng.random(n) < 0.04 * schooling + 0.1 * male
    return pd.DataFrame(
        {
            "age": age,
            "hours": np.clip(20 + schooling + 8 * male + rng.normal(0, 18, n), 1, 99).astype(int),
            "education": schooling,
            "sex": np.where(male, "Male", "Female"),
            "married": np.where(rng.random(n) < age / 100, "yes", "no"),
            "income": np.where(paid, "over 50K", "50K or less"),
            "occupation": rng.choice(ask.OCCUPATIONS, n, p=np.arange(15, 0, -1) / 120),
        }
    )


def test_thirty_questions_are_asked_in_one_line_each():
    assert len({question.words for question in QUESTIONS}) == 30
    readme = (HERE / "README.md").read_text("utf-8")
    table = readme.split(ask.START)[1].split(ask.END)[0].strip().splitlines()
    assert len(table) == 32
    for number, question in enumerate(QUESTIONS, 1):
        assert "\n" not in question.python + question.command
        assert table[number + 1].startswith(f"| {number} | {question.words} |")
    for block in ask.listed().split("\n\n"):
        assert block.strip() in readme


def test_python_and_the_command_line_say_the_same_of_people_who_do_not_exist(
    tmp_path, monkeypatch, capsys
):
    """`table` raises where they differ; that the comparison can fail is seen as well."""
    monkeypatch.chdir(tmp_path)
    people = made_up(6000)
    rows = ask.table(people, in_this_process).splitlines()
    assert len(rows) == 32
    outside = sum("(outside)" in row for row in rows)
    assert outside <= 5  # of 20 intervals of 95%: more than five, once in 3,000 times

    def another(words):
        data = json.loads(in_this_process(words))
        return json.dumps({**data, "value": data["value"] + 1})

    with pytest.raises(AssertionError, match="differ"):
        ask.table(people, another)


@pytest.mark.slow
def test_the_table_is_what_is_answered_today(tmp_path, monkeypatch, capsys):
    source = ask.wheel()
    if source is None:
        pytest.skip(f"the people are missing: {ask.MISSING}")
    monkeypatch.chdir(tmp_path)
    people = ask.adult(source)
    assert len(people) == 48_842
    assert ask.table(people, in_this_process) in (HERE / "README.md").read_text("utf-8")
