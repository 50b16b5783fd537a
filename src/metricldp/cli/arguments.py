"""Arguments that several commands take, and checks of the files that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metricldp.basics.errors import InvalidSpecError, QueryError
from metricldp.basics.optional import require
from metricldp.basics.writing import check_apart
from metricldp.estimate import request

if TYPE_CHECKING:
    from metricldp.api import Survey

SURVEYS = (".toml", ".json")
REPORTS = (".parquet", ".pq", ".totals")
RESPONSES = ".csv"
CHARTS = (".png", ".svg", ".pdf")
_COMPARES = re.compile(r"[=<>≤≥≠]|\s(in|is)\s")


def group(help: str) -> typer.Typer:
    """Commands below one name."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=help)


def option(
    default: Any, *names: str, help: str, read: Callable[[str], Any] | None = None, **more: Any
) -> Any:
    """An option; with `read` a number as it is written everywhere: 1e6, 1_000_000, 95%."""
    if isinstance(default, bool):
        more |= {"metavar": ""}
    if read is not None:
        more |= {"parser": _parser(read), "metavar": "NUMBER"}
    return typer.Option(default, *names, help=help, **more)


def argument(default: Any, *, help: str, **more: Any) -> Any:
    """An argument; its default is `...` if it is required."""
    return typer.Argument(default, help=help, **more)


def _parser(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    """The same function for typer, which passes defaults through it as well."""

    def parse(text: Any) -> Any:
        try:
            return read(text)
        except QueryError as wrong:
            raise typer.BadParameter(str(wrong)) from None

    return parse


def positive(text: str) -> int:
    """An integer from 1 on."""
    if (value := request.integer(text)) < 1:
        raise QueryError(f"{text} is not an integer of at least 1")
    return value


SurveyFile = Annotated[
    Path, typer.Argument(metavar="SURVEY", help="Designed survey (.toml, .json)")
]
ResponseFile = Annotated[
    Path, typer.Argument(metavar="RESPONSES", help="Responses (.csv, .parquet)")
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON")]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Replace existing files")]
Clip = Annotated[bool, typer.Option("--clip", metavar="", help="Clip values to their domain")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Chart to write: .png, .svg, .pdf")]
Fingerprint = Annotated[
    str | None,
    typer.Option("--fingerprint", help="Survey fingerprint, for reports without one"),
]


def load_survey(path: Path) -> Survey:
    """A designed survey; the error for other files says what to do."""
    from metricldp.api import Survey

    others = (RESPONSES, *REPORTS)
    if path.suffix in others or (is_condition(str(path)) and not path.exists()):
        raise QueryError(f"{path} is not a survey; a survey (.toml or .json) comes first")
    try:
        return Survey.load(path)
    except InvalidSpecError:
        if _is_spec(path):
            raise QueryError(
                f"{path} is a spec, not a designed survey; design it first: "
                f"metricldp design {path} -o survey.toml"
            ) from None
        raise


def _is_spec(path: Path) -> bool:
    from metricldp.survey import files

    try:
        data = files.read(path, "survey")
    except InvalidSpecError:
        return False
    return isinstance(data, dict) and "attributes" in data and "metricldp" not in data


def is_condition(word: str) -> bool:
    """Whether a word compares something, so that it is not a name, a number or a file."""
    return bool(_COMPARES.search(word))


def check_output(
    output: Path,
    inputs: Iterable[Path],
    force: bool,
    what: str = "",
    endings: Sequence[str] = (),
    warning: str = "",
) -> None:
    """Before any work: an output never replaces an input, and other files only with --force."""
    check_apart(output, inputs, QueryError, what, endings)
    if not force and output.exists() and not output.is_dir():
        because = f"; {warning}" if warning else ""
        raise QueryError(f"{output} exists{because}; name another file, or add --force")


def check_plot(path: Path | None, inputs: Iterable[Path], force: bool) -> None:
    """The same for a chart, which also needs matplotlib."""
    if path is not None:
        check_output(path, inputs, force, "chart", CHARTS)
        require("plot")


def output_folder(path: Path, names: Iterable[str], inputs: Iterable[Path], force: bool) -> None:
    """Create a folder for several output files, each of which is checked."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise QueryError(f"{path} is a file; name a folder") from None
    for name in names:
        check_output(path / name, inputs, force)
