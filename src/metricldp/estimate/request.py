"""Queries as plain data: one description of each for Python, the command line and HTTP.

A request is a frozen dataclass. Its fields are the parameters of the method of `Tally` that it
calls. The metadata of a field documents it and says how its text is read. The front ends build the
same object from text and call `run`. Nothing heavy is imported here, so that help is quick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import guess, listed, shown

if TYPE_CHECKING:
    from metricldp.survey.agreement import Agreement

KINDS: dict[str, type[Request]] = {}
"""Every query by its name in commands and addresses, in the order of the help."""
TARGETS = ("respondents", "population")
MATRICES = ("values", "prefixes", "ranges")
Condition = str | Mapping[str, Any] | None
Groups = str | Sequence[str] | Mapping[str, Any] | None

# Reading text ------------------------------------------------------------------------------------


def number(text: str) -> float:
    """10000, 1e4, 10_000 or 10,000."""
    try:
        value = float(str(text).replace(",", ""))
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise QueryError(f"{shown(text)} is not a number such as 2500 or 1e6")
    return value


def integer(text: str) -> int:
    """The same without a fraction, however many digits it has."""
    try:
        return int(str(text).replace(",", ""))
    except ValueError:
        value = number(text)
    if value != int(value):
        raise QueryError(f"{shown(text)} is not an integer")
    return int(value)


def fraction(text: str) -> float:
    """0.95 or 95%."""
    digits = str(text).removesuffix("%")
    return number(digits) / 100 if digits != str(text) else number(digits)


def flag(text: str) -> bool:
    """true or false, 1 or 0."""
    if (word := str(text).lower()) not in ("true", "false", "1", "0"):
        raise QueryError(f"write true or false, not {shown(text)}")
    return word in ("true", "1")


def edges(text: str) -> list[float]:
    """The edges of bands: 0,18,30,65,100."""
    values = [number(part) for part in text.split(",")]
    if len(values) < 2:
        raise QueryError(f"bands have two edges or more, such as 0,18,30,65,100, not {text}")
    return [int(value) if value.is_integer() else value for value in values]


def bins(text: str) -> Any:
    """A number of bins, or their edges."""
    return edges(text) if "," in text else integer(text)


def groups(texts: Iterable[str]) -> Groups:
    """Attributes to group by, as `Tally` takes them: "region", or "age=0,18,30" for bands."""
    bands: dict[str, Any] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if (name := name.strip()) in bands:
            raise QueryError(f"by names {shown(name)} twice")
        bands[name] = edges(rest) if equals else None
    if not bands or any(bands.values()):
        return bands or None
    return next(iter(bands)) if len(bands) == 1 else list(bands)


def _pair(text: str, read: Callable[[str], Any]) -> tuple[str, Any]:
    """An attribute and what belongs to it: region=south."""
    name, equals, rest = text.partition("=")
    if not (name.strip() and equals and rest.strip()):
        raise QueryError(f"write attribute=value, not {shown(text)}")
    return name.strip(), read(rest.strip())


# Parameters --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """What the documentation and the front ends need of a field."""

    help: str
    read: Callable[[str], Any] = str
    metavar: str = "TEXT"
    role: str = ""
    """"attribute", "attributes", "condition", "groups" or "pairs"; others are plain values."""
    choices: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    """Exclusive."""
    default: Any = None
    required: bool = False

    @property
    def repeated(self) -> bool:
        """Whether it is a list of texts."""
        return self.role in ("attributes", "groups", "pairs")

    def value(self, name: str, text: Any) -> Any:
        """The value that a text, or a list of texts, stands for."""
        try:
            if self.repeated:
                texts = [text] if isinstance(text, str) else list(text)
                if self.role == "pairs":
                    return dict(_pair(one, self.read) for one in texts)
                return groups(texts) if self.role == "groups" else tuple(texts)
            return self.read(text)
        except QueryError as wrong:
            raise QueryError(f"{name}: {wrong}") from None

    def check(self, name: str, value: Any) -> None:
        """Raise an error for a value that no survey and no reports could make valid."""
        if value is None and not self.required:
            return
        if self.choices and value not in self.choices:
            raise QueryError(
                f"{name} is {' or '.join(self.choices)}, not {shown(value)}"
                f"{guess(value, self.choices)}"
            )
        if self.bounds is not None:
            low, high = self.bounds
            if not is_number(value) or not low < value < high:
                limits = f"between {low:g} and {high:g}" if high < 1e9 else f"above {low:g}"
                raise QueryError(f"{name} is a number {limits}, not {shown(value)}")


def _doc(help: str, *more: Any, **options: Any) -> dict[str, Parameter]:
    """Metadata of a field."""
    return {"parameter": Parameter(help, *more, **options)}


def _attribute(help: str) -> dict[str, Parameter]:
    return _doc(help, role="attribute", metavar="ATTRIBUTE")


def parameters(kind: type[Request]) -> dict[str, Parameter]:
    """The parameters of a query by name: attributes first, then those that all queries have."""
    own = {}
    for one in fields(kind):
        if one.name not in kind.excluded:
            required = one.default is MISSING
            default = None if required else one.default
            described: Parameter = one.metadata["parameter"]
            own[one.name] = replace(described, default=default, required=required)
    return dict(sorted(own.items(), key=lambda item: item[0] in _COMMON))


# Requests ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Request:
    """A query of a tally or of anything that answers the same queries."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    topic: ClassVar[str] = "Counts and distributions"
    excluded: ClassVar[tuple[str, ...]] = ()
    """Common parameters that do not apply to this query."""
    gives_table: ClassVar[bool] = True
    """Whether `run` returns an EstimateTable."""

    where: Condition = field(
        default=None,
        metadata=_doc('Condition in quotes: "18 <= age <= 29"', role="condition", metavar="WHERE"),
    )
    by: Groups = field(
        default=None,
        metadata=_doc("region, or bands such as age=0,18,65", role="groups", metavar="GROUP"),
    )
    target: str = field(
        default="respondents",
        metadata=_doc("respondents or population", choices=TARGETS),
    )
    confidence_level: float = field(
        default=0.95,
        metadata=_doc("Level of the intervals", fraction, "NUMBER", bounds=(0, 1)),
    )
    simultaneous: bool = field(
        default=False, metadata=_doc("Intervals valid for all rows together", flag)
    )

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub("(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        cls.summary = (cls.__doc__ or "").partition("\n")[0].rstrip(".")
        KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        used = parameters(type(self))
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in used:
                used[one.name].check(one.name, value)
            elif value != one.default:
                raise QueryError(f"{self.kind} takes no {one.name}")

    @classmethod
    def from_text(cls, texts: Mapping[str, Any]) -> Request:
        """From the texts of a command line or an address, by name of the parameter."""
        known = parameters(cls)
        for name in texts:
            if name not in known:
                there = f"{listed(known)}{guess(name, known)}"
                raise QueryError(f"{cls.kind} has no parameter {shown(name)}; it has {there}")
        for name, one in known.items():
            if one.required and not texts.get(name):
                raise QueryError(f"{cls.kind} needs {name}: {one.help[0].lower()}{one.help[1:]}")
        return cls(**{name: known[name].value(name, text) for name, text in texts.items()})

    def validate(self, survey: Agreement) -> None:
        """Raise an error if attributes, groups or conditions in text do not fit the survey."""
        from metricldp.answers.by import cells
        from metricldp.estimate.expression import select
        from metricldp.store.readings import attribute_of

        for name, one in parameters(type(self)).items():
            value = getattr(self, name)
            if one.role == "condition" and isinstance(value, str):
                select(survey, value)
            elif one.role.startswith("attribute") or one.role == "pairs":
                for attribute in [value] if isinstance(value, str) else value or ():
                    attribute_of(survey, attribute)
        if self.by is not None:
            cells(survey, self.by, self.where, getattr(self, "attribute", None))

    def result(self, tally: Any) -> Any:
        """The result of the method of the tally that this request describes."""
        raise NotImplementedError


def run(tally: Any, request: Request) -> Any:
    """The result of a request: an `EstimateTable`, or of a test or a regression what it returns.

    `tally` is a Tally, Fit or Pool: anything with the same methods.
    """
    result = request.result(tally)
    return table_of(result) if request.gives_table else result


def table_of(result: Any) -> Any:
    """A single estimate as a table of one row, a regression as the table of its coefficients."""
    from metricldp.estimate.table import EstimateTable

    result = getattr(result, "coefficients", result)
    return result if isinstance(result, EstimateTable) else EstimateTable.single(result)


_COMMON = tuple(one.name for one in fields(Request))


def _population() -> Any:
    """The field `target` of hypothesis tests of association."""
    metadata = Request.__dataclass_fields__["target"].metadata
    return field(default="population", metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Count(Request):
    """Number of respondents who meet a condition."""

    def result(self, tally: Any) -> Any:
        return tally.count(self.where, by=self.by, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Fraction(Request):
    """Fraction of respondents who meet a condition."""

    where: Condition = field(metadata=Request.__dataclass_fields__["where"].metadata)
    among: Condition = field(
        default=None,
        metadata=_doc("Only respondents who meet this", role="condition", metavar="WHERE"),
    )

    def result(self, tally: Any) -> Any:
        return tally.fraction(self.where, among=self.among, by=self.by, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Sum(Request):
    """Sum of an attribute or a weight."""

    topic = "Numeric attributes"
    attribute: str = field(metadata=_attribute("Numeric attribute or weight"))

    def result(self, tally: Any) -> Any:
        return tally.sum(self.attribute, self.where, by=self.by, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Mean(Request):
    """Mean of an attribute; circular mean of a cyclic one."""

    topic = "Numeric attributes"
    attribute: str = field(metadata=_attribute("Numeric attribute"))

    def result(self, tally: Any) -> Any:
        return tally.mean(self.attribute, self.where, by=self.by, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Variance(Mean):
    """Variance of an attribute."""

    def result(self, tally: Any) -> Any:
        return tally.variance(self.attribute, self.where, by=self.by, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Std(Mean):
    """Standard deviation of an attribute."""

    def result(self, tally: Any) -> Any:
        return tally.std(self.attribute, self.where, by=self.by, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Quantile(Request):
    """Quantile of an attribute, by default the median."""

    topic = "Numeric attributes"
    attribute: str = field(metadata=_attribute("Attribute with an order"))
    q: float = field(
        default=0.5,
        metadata=_doc("Fraction of respondents below it", fraction, "NUMBER", bounds=(0, 1)),
    )

    def result(self, tally: Any) -> Any:
        return tally.quantile(self.attribute, self.q, self.where, by=self.by, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Histogram(Request):
    """Number of respondents in each bin or category."""

    excluded = ("by",)
    attribute: str = field(metadata=_attribute("Attribute"))
    bins: Any = field(
        default=None, metadata=_doc("Number of bins, or edges: 0,18,30,65", bins, "BINS")
    )

    def result(self, tally: Any) -> Any:
        return tally.histogram(self.attribute, self.where, bins=self.bins, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Cdf(Request):
    """Distribution function of an attribute, with a band."""

    excluded = ("by", "simultaneous")
    attribute: str = field(metadata=_attribute("Attribute with an order"))

    def result(self, tally: Any) -> Any:
        return tally.cdf(self.attribute, self.where, target=self.target)


@dataclass(frozen=True, kw_only=True)
class TopK(Request):
    """Most frequent values of an attribute."""

    excluded = ("by", "simultaneous")
    attribute: str = field(metadata=_attribute("Attribute"))
    k: int = field(
        default=10, metadata=_doc("Number of values", integer, "NUMBER", bounds=(0, float("inf")))
    )

    def result(self, tally: Any) -> Any:
        return tally.top_k(self.attribute, self.k, self.where, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Workload(Request):
    """Counts for all values, prefixes or ranges of an attribute."""

    excluded = ("by",)
    attribute: str = field(metadata=_attribute("Attribute"))
    matrix: Any = field(
        default="ranges", metadata=_doc(f"{', '.join(MATRICES)} or '10 bars'", metavar="NAME")
    )

    def result(self, tally: Any) -> Any:
        return tally.workload(self.attribute, self.matrix, self.where, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Covariance(Request):
    """Covariance of two attributes."""

    topic = "Relations between attributes"
    excluded = ("by", "simultaneous")
    x: str = field(metadata=_attribute("Numeric attribute"))
    y: str = field(metadata=_attribute("Another numeric attribute"))
    target: str = _population()

    def result(self, tally: Any) -> Any:
        return tally.covariance(self.x, self.y, self.where, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Correlation(Covariance):
    """Correlation coefficient of two attributes."""

    def result(self, tally: Any) -> Any:
        return tally.correlation(self.x, self.y, self.where, target=self.target)


@dataclass(frozen=True, kw_only=True)
class Regression(Request):
    """Linear regression by least squares."""

    topic = "Relations between attributes"
    excluded = ("by", "simultaneous")
    gives_table = False
    y: str = field(metadata=_attribute("Outcome, a numeric attribute"))
    x: tuple[str, ...] = field(
        metadata=_doc("Predictors: attributes", role="attributes", metavar="ATTRIBUTE")
    )
    base: Mapping[str, str] | None = field(
        default=None,
        metadata=_doc("Reference category, such as region=south", role="pairs", metavar="PAIR"),
    )
    target: str = _population()

    def result(self, tally: Any) -> Any:
        return tally.linear_regression(
            self.y, self.x, self.where, base=self.base, target=self.target
        )


@dataclass(frozen=True, kw_only=True)
class Independence(Request):
    """Test whether two attributes are independent."""

    topic = "Relations between attributes"
    excluded = ("by", "simultaneous", "confidence_level")
    gives_table = False
    x: str = field(metadata=_attribute("Attribute"))
    y: str = field(metadata=_attribute("Another attribute"))
    widths: Mapping[str, float] | None = field(
        default=None,
        metadata=_doc("Width of bands, such as age=10", number, "PAIR", "pairs"),
    )
    target: str = _population()

    def result(self, tally: Any) -> Any:
        return tally.independence_test(
            self.x, self.y, self.where, widths=self.widths, target=self.target
        )


@dataclass(frozen=True, kw_only=True)
class Trend(Request):
    """Test whether a fraction changes along an attribute."""

    topic = "Relations between attributes"
    excluded = ("by", "simultaneous")
    gives_table = False
    event: Condition = field(
        metadata=_doc("Condition in quotes: the event", role="condition", metavar="WHERE")
    )
    attribute: str = field(metadata=_attribute("Attribute with an order"))
    target: str = _population()

    def result(self, tally: Any) -> Any:
        return tally.trend_test(self.event, self.attribute, self.where, target=self.target)


@dataclass(frozen=True, kw_only=True)
class GoodnessOfFit(Request):
    """Test whether respondents could have produced the reports."""

    topic = "Reports"
    excluded = ("where", "by", "target", "confidence_level", "simultaneous")
    gives_table = False

    def result(self, tally: Any) -> Any:
        return tally.goodness_of_fit_test()


@dataclass(frozen=True, kw_only=True)
class Contributions(Request):
    """Write the contribution of each report, for SQL."""

    topic = "Reports"
    excluded = ("by", "target", "confidence_level", "simultaneous")
    gives_table = False
    attribute: str | None = field(
        default=None, metadata=_attribute("Attribute of a sum; default: a count")
    )
    public: bool = field(default=False, metadata=_doc("Also write the public columns", flag))

    def result(self, tally: Any) -> Any:
        return tally.contributions(self.where, self.attribute, public=self.public)


def _documented(kind: type[Request]) -> str:
    """The docstring of a query with its parameters."""
    lines = (f"    {name}: {one.help}." for name, one in parameters(kind).items())
    return "\n".join([f"{kind.summary}.", "", "Parameters:", *lines])


for _kind in KINDS.values():
    _kind.__doc__ = _documented(_kind)
