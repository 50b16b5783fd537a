"""The thirty queries of `examples/adult`, in Python and on the command line."""

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


def run_here(words):
    """What a command prints, without a process of its own."""
    output, before = io.StringIO(), sys.argv
    sys.argv = ["metricldp", *words]
    try:
        with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
            cli.main()
    finally:
        sys.argv = before
    return output.getvalue()


def synthetic_people(n):
    """People with the columns of the file, all of which are correlated."""
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


def test_readme_lists_all_queries():
    assert len({question.words for question in QUESTIONS}) == 30
    readme = (HERE / "README.md").read_text("utf-8")
    table = readme.split(ask.START)[1].split(ask.END)[0].strip().splitlines()
    assert len(table) == 32
    for number, question in enumerate(QUESTIONS, 1):
        assert "\n" not in question.python + (question.command or "")
        assert table[number + 1].startswith(f"| {number} | {question.words} |")
    for block in ask.listed().split("\n\n"):
        assert block.strip() in readme
    missing = [str(k) for k, question in enumerate(QUESTIONS, 1) if question.command is None]
    assert f"Questions {', '.join(missing[:-1])} and {missing[-1]} have no command." in readme


def test_python_and_command_line_give_equal_results(tmp_path, monkeypatch, capsys):
    """`table` raises an error where they differ; a changed result shows that it can."""
    monkeypatch.chdir(tmp_path)
    people = synthetic_people(6000)
    commands = []

    def run(words):
        commands.append(words)
        return run_here(words)

    rows = ask.table(people, run).splitlines()
    assert len(rows) == 32 and len(commands) == 26
    outside = sum("(outside)" in row for row in rows)
    assert outside <= 5  # of 20 intervals of 95%: more than five, once in 3,000 times

    def changed(words):
        data = json.loads(run_here(words))
        data["rows"][0]["estimate"] += 1
        return json.dumps(data)

    (tmp_path / "changed").mkdir()
    monkeypatch.chdir(tmp_path / "changed")
    with pytest.raises(AssertionError, match="differ"):
        ask.table(people, changed)


@pytest.mark.slow
def test_table_of_the_readme_can_be_reproduced(tmp_path, monkeypatch, capsys):
    source = ask.wheel()
    if source is None:
        pytest.skip(f"the data are missing: {ask.MISSING}")
    monkeypatch.chdir(tmp_path)
    people = ask.adult(source)
    assert len(people) == 48_842
    assert ask.table(people, run_here) in (HERE / "README.md").read_text("utf-8")
