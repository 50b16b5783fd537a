"""The commands of `metricldp query`, one for each request; the request classes describe them."""

from __future__ import annotations

import glob
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from metricldp.basics.errors import QueryError
from metricldp.basics.progress import progress_bar
from metricldp.basics.text import counted, shown
from metricldp.cli.arguments import (
    REPORTS,
    RESPONSES,
    SURVEYS,
    AsJson,
    Fingerprint,
    Force,
    Plot,
    SurveyFile,
    check_output,
    check_plot,
    group,
    is_condition,
    load_survey,
)
from metricldp.cli.terminal import show
from metricldp.estimate.request import (
    KINDS,
    Contributions,
    Parameter,
    Request,
    parameters,
    run,
    table_of,
)

if TYPE_CHECKING:
    from metricldp.api import Survey

app = group("Estimate from reports, with confidence intervals.")
AsCsv = Annotated[bool, typer.Option("--csv", metavar="", help="Print CSV")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write (.parquet)")]
_REPORTS = typer.Argument(metavar="REPORTS...", help="Report files or folders")
_MORE = typer.Argument(hidden=True)
"""All words after those that the help shows: report files and predictors can be many."""


def _tally(survey: Survey, reports: Sequence[Path], fingerprint: str | None) -> Any:
    """One tally of all report files; files of totals are added."""
    from metricldp.answers.tally import Tally

    totals = [path for path in reports if path.suffix == ".totals"]
    others = [path for path in reports if path not in totals]
    if len(totals) > 1 or (totals and others):
        return _merged_totals(survey, totals, others)
    return Tally.of(survey, totals[0] if totals else list(others), fingerprint=fingerprint)


def _merged_totals(survey: Survey, totals: list[Path], others: list[Path]) -> Any:
    from metricldp.answers.tally import Tally
    from metricldp.reports.incoming import check_uncounted

    if others:
        raise QueryError(f"{totals[0]} has totals and {others[0]} reports; query them separately")
    tally = Tally.of(survey, totals[0])
    for path in totals[1:]:
        more = Tally.of(survey, path)
        check_uncounted(more.store.counted, tally.store.counted, f"the reports in {path}")
        tally += more
    return tally


def _estimate(
    kind: type[Request],
    survey_file: Path,
    words: list[str],
    options: dict[str, Any],
    *,
    as_json: bool,
    as_csv: bool = False,
    plot: Path | None = None,
    force: bool = False,
    fingerprint: str | None = None,
) -> None:
    """Run a query; errors in its arguments come before the reports are read."""
    if as_json and as_csv:
        raise QueryError("--json does not go with --csv; leave one out")
    survey = load_survey(survey_file)
    reports, request = _request(kind, survey, words, options)
    check_plot(plot, [survey_file, *reports], force)
    with progress_bar("estimating"):
        result = run(_tally(survey, reports, fingerprint), request)
        level, every = request.confidence_level, request.simultaneous or None
        data, text = _written(request, result, as_json, as_csv)
    if plot is not None:
        from metricldp.plot import save

        axes = table_of(result).plot(confidence_level=level, simultaneous=every)
        save(axes, plot)
        data["plot"] = str(plot)
        text = text if as_csv else f"{text}\nchart in {plot}"
    show(data, text, as_json)


def _written(
    request: Request, result: Any, as_json: bool, as_csv: bool
) -> tuple[dict[str, Any], str]:
    """A result as JSON or as text; intervals are computed once."""
    how: dict[str, Any] = {}
    if "confidence_level" not in request.excluded:
        how["confidence_level"] = request.confidence_level
    if as_csv or request.gives_table:
        how["simultaneous"] = request.simultaneous or None
    if as_csv:
        return {}, table_of(result).to_csv(**how).rstrip("\n")
    if as_json:
        return result.to_dict(**how), ""
    return {}, result.to_text(**how) if hasattr(result, "to_text") else str(result)


def _contributions(
    survey_file: Path,
    words: list[str],
    options: dict[str, Any],
    output: Path,
    force: bool,
    as_json: bool,
    fingerprint: str | None,
) -> None:
    """Write each report's contribution, file by file."""
    from metricldp.answers.decoded import decode_file
    from metricldp.reports.parquet import ENDINGS

    survey = load_survey(survey_file)
    reports, request = _request(Contributions, survey, words, options)
    assert isinstance(request, Contributions)
    if len(reports) > 1:
        raise QueryError("contributions are written for one file or folder of reports")
    check_output(output, [survey_file, *reports], force, "contributions", ENDINGS)
    with progress_bar("writing"):
        decoder, rows = decode_file(
            survey,
            reports[0],
            output,
            request.where,
            request.attribute,
            public=request.public,
            fingerprint=fingerprint,
        )
    data = {
        "survey": survey.fingerprint,
        "query": decoder.words,
        "unit": decoder.unit,
        "columns": decoder.schema.names,
        "reports": rows,
        "notes": list(decoder.notes),
        "file": str(output),
    }
    text = f"contributions of {counted(rows, 'report')} to {decoder.words} in {output}"
    show(data, "; ".join([text, *decoder.notes]), as_json)


# Words -------------------------------------------------------------------------------------------


def _request(
    kind: type[Request], survey: Survey, words: list[str], options: dict[str, Any]
) -> tuple[list[Path], Request]:
    """The report files and the validated request that the words after the survey state."""
    reports, names, where = _sorted_words(kind, survey, words)
    texts = {name: text for name, text in options.items() if text not in (None, [], False)}
    if where is not None:
        texts["where"] = where
    request = kind.from_text({**texts, **_attributes(kind, names)})
    request.validate(survey)
    return reports, request


def _sorted_words(
    kind: type[Request], survey: Survey, words: list[str]
) -> tuple[list[Path], list[str], str | None]:
    """Report files, names of attributes, and the condition."""
    if not all(word.strip() for word in words):
        raise QueryError(f"a word is empty; leave an empty condition out: {_usage(kind)}")
    files: list[Path] = []
    for word in words:
        if files and not _is_file(word, survey):
            break
        _check_reports(word, kind, survey)
        files.append(Path(word))
    rest = words[len(files) :]
    for word in rest:
        if word not in survey.attributes and Path(word).suffix in (*SURVEYS, *REPORTS):
            raise QueryError(f"{word} is a file; files come before the query: {_usage(kind)}")
    conditions = [word for word in rest if word not in survey.attributes and is_condition(word)]
    if len(conditions) > 1:
        raise QueryError(
            f"write one condition instead of {len(conditions)}, joined with and, in quotes: "
            f'"{" and ".join(conditions)}"'
        )
    names = [word for word in rest if word not in conditions]
    if conditions and names and rest[-1] != conditions[0]:
        raise QueryError(f"the condition comes last: {_usage(kind)}")
    return files, names, conditions[0] if conditions else None


def _is_file(word: str, survey: Survey) -> bool:
    if word in survey.attributes or is_condition(word):
        return False
    return Path(word).suffix in REPORTS or Path(word).exists() or glob.has_magic(word)


def _check_reports(word: str, kind: type[Request], survey: Survey) -> None:
    """Raise an error for a word that cannot be a file of reports."""
    path = Path(word)
    if path.suffix == RESPONSES:
        raise QueryError(
            f"{path} has responses, not reports; randomize them first: "
            f"metricldp randomize SURVEY {path} -o reports.parquet"
        )
    if path.suffix in SURVEYS:
        raise QueryError(f"{path} is a survey; files of reports follow it: {_usage(kind)}")
    if (is_condition(word) or word in survey.attributes) and not path.exists():
        raise QueryError(f"{path} is not a file of reports, which comes second: {_usage(kind)}")


def _attributes(kind: type[Request], names: list[str]) -> dict[str, Any]:
    """Names of attributes by parameter."""
    texts: dict[str, Any] = {}
    for name, one in _positional(kind).items():
        if one.role == "attributes":
            texts[name], names = names, []
        elif names:
            texts[name], *names = names
        elif one.required:
            raise QueryError(f"{kind.kind} needs {name}: {_usage(kind)}")
    if names:
        number = next((n for n, one in parameters(kind).items() if one.metavar == "NUMBER"), None)
        hint = f"; a number follows its option, --{number}" if names[0][0].isdigit() else ""
        raise QueryError(
            f"{shown(names[0])} is neither an attribute that {kind.kind} takes nor a condition "
            f"such as 'age >= 18'{hint}: {_usage(kind)}"
        )
    return texts


def _positional(kind: type[Request]) -> dict[str, Parameter]:
    return {n: one for n, one in parameters(kind).items() if one.role.startswith("attribute")}


def _usage(kind: type[Request]) -> str:
    words = ["metricldp query", kind.kind, "SURVEY REPORTS..."]
    for name, one in parameters(kind).items():
        if name == "where" or one.role.startswith("attribute"):
            word = f"{name.upper()}{'...' if one.repeated else ''}"
            words.append(word if one.required else f"[{word}]")
    return " ".join(words)


# Commands ----------------------------------------------------------------------------------------


class QueryCommand(typer.core.TyperCommand):
    """A sub-command whose usage line has the order of the words."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*_usage(KINDS[self.name or ""]).split()[3:], "[OPTIONS]"]


def _signature(kind: type[Request]) -> dict[str, tuple[Any, Any]]:
    """The arguments and options of a command: types for typer, and defaults."""
    positional, other = _positional(kind), parameters(kind)
    required = inspect.Parameter.empty
    result: dict[str, tuple[Any, Any]] = {
        "survey": (SurveyFile, required),
        "reports": (Annotated[str, _REPORTS], required),
    }
    where = {"where": other.pop("where")} if "where" in other else {}
    for name, one in {**positional, **where}.items():
        metavar = f"{name.upper()}{'...' if one.repeated else ''}"
        argument = typer.Argument(metavar=metavar, help=one.help)
        result[name] = _optional(argument, one.required)
    result["more"] = Annotated[list[str] | None, _MORE], None
    for name, one in other.items():
        if name not in positional:
            result[name] = _option(name, one)
    result["fingerprint"] = Fingerprint, None
    if kind is Contributions:
        return {**result, "output": (Output, required), "force": (Force, False)}
    if kind.gives_table or kind.kind == "regression":
        result |= {"as_csv": (AsCsv, False), "plot": (Plot, None), "force": (Force, False)}
    return result


def _optional(argument: Any, required: bool) -> tuple[Any, Any]:
    if required:
        return Annotated[str, argument], inspect.Parameter.empty
    return Annotated[str | None, argument], None


def _option(name: str, one: Parameter) -> tuple[Any, Any]:
    """An option; its text is read by the request."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(one.default, bool):
        return Annotated[bool, typer.Option(flag, metavar="", help=one.help)], False
    help = one.help
    if one.default is not None:
        help = f"{help} ({one.default})"
    choices: Callable[[], Sequence[str]] | None = (lambda: one.choices) if one.choices else None
    described = typer.Option(flag, help=help, metavar=one.metavar, autocompletion=choices)
    if one.repeated:
        return Annotated[list[str] | None, described], None
    return _optional(described, one.required)


def _command(kind: type[Request]) -> Callable[..., None]:
    """The function of a sub-command, with a signature for typer."""
    signature = {**_signature(kind), "as_json": (AsJson, False)}

    def command(survey: Path, reports: str, more: list[str] | None, **given: Any) -> None:
        names = [*_positional(kind), *(["where"] if "where" in given else [])]
        words = [given.pop(name) for name in names]
        words = [reports, *(word for word in words if word is not None), *(more or ())]
        options = {name: given.pop(name) for name in parameters(kind) if name in given}
        if kind is Contributions:
            _contributions(survey, words, options, **given)
        else:
            _estimate(kind, survey, words, options, **given)

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for name, (annotation, default) in signature.items()
        ]
    )
    command.__annotations__ = {name: annotation for name, (annotation, _) in signature.items()}
    return command


for _kind in KINDS.values():
    app.command(
        _kind.kind, cls=QueryCommand, help=f"{_kind.summary}.", rich_help_panel=_kind.topic
    )(_command(_kind))
