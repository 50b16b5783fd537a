"""Bytes of a report, a manifest and a survey file, for the survey of the guide.

`python benchmarks/sizes.py --output docs/results` writes the values that pages show.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from measure import arguments, table
from metricldp import Categorical, Continuous, Integer, Survey


def guide() -> Survey:
    """The survey that most pages of the guide use."""
    income = Continuous(0, 200_000, bins=40, epsilon=1, within=10_000, max_epsilon=3, optional=True)
    return Survey.design(
        {
            "age": Integer(0, 99, epsilon=1, within=5, max_epsilon=3),
            "income": income,
            "region": Categorical(["north", "south", "east"], epsilon=2),
        }
    )


def sizes(survey: Survey) -> list[dict[str, object]]:
    report = survey.report({"age": 30, "income": 40_000, "region": "north"})
    with TemporaryDirectory() as folder:
        survey.save(Path(folder, "survey.toml"))
        file = Path(folder, "survey.toml").read_bytes()
    return [
        {"part": "report", "bytes": len(report)},
        {"part": "manifest", "bytes": len(survey.manifest())},
        {"part": "survey file", "bytes": len(file)},
    ]


if __name__ == "__main__":
    arguments(__doc__)
    table(sizes(guide()), ("part", "bytes"), "sizes")
