"""Every exception and warning of the package.

MetricLdpError
├── InvalidSpecError         a survey, an attribute or a survey file is invalid
├── InvalidValueError        a response cannot be randomized: missing, not a number, out of range
├── InvalidReportError       a report or a file of reports does not belong to this survey
├── InvalidManifestError     a manifest is malformed or does not keep its guarantee
├── QueryError               a query that the survey cannot answer
├── CertificateError         a mechanism cannot give the guarantee that it is asked for
└── MissingDependencyError   a library is not installed

Each message names the place and the remedy in one line. No message shows a respondent's value.
"""

from metricldp_core.errors import (
    CertificateError,
    InvalidManifestError,
    InvalidValueError,
    MetricLdpError,
)

__all__ = [
    "CertificateError",
    "InvalidManifestError",
    "InvalidReportError",
    "InvalidSpecError",
    "InvalidValueError",
    "MetricLdpError",
    "MissingDependencyError",
    "QueryError",
    "SeededRandomnessWarning",
    "TightenedMetricWarning",
    "WeakGuaranteeWarning",
]


def at_row(error: InvalidValueError, row: int | None, words: str = "") -> InvalidValueError:
    """The same error with a row, counted from 0, and perhaps with more words."""
    why = f"{error.why}; {words}" if words else error.why
    return InvalidValueError(why, attribute=error.attribute, row=row, reason=error.reason)


class InvalidReportError(MetricLdpError, ValueError):
    """A report or a file of reports is invalid; `reason` is one word to count by.

    Bytes: `kind` (not bytes), `length`, `version` (another version of the format), `survey`
    (another survey), `padding` (bits set after the last field), `range` (a value that no report
    can have).

    Tables and files, in addition: `unmarked` (no version or fingerprint), `columns` (missing,
    repeated, unknown or of a wrong type), `missing` (empty rows), `file` (absent, or incomplete),
    `checksum` (damaged), `twice` (counted already, or a copy).

    Files of totals, in addition: `header`, `shapes` (tables of a wrong size), `keep` (other groups
    of attributes), `sums` (inconsistent sums).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class InvalidSpecError(MetricLdpError, ValueError):
    """A spec, a survey, an attribute or a survey file is invalid."""


class QueryError(MetricLdpError, ValueError):
    """A query is invalid: an unknown attribute, an empty range, a wrong argument."""


class MissingDependencyError(MetricLdpError, ImportError):
    """An optional library is not installed; the message has the command."""


class SeededRandomnessWarning(UserWarning):
    """Randomness is derived from a seed: anyone who knows the seed can remove the noise."""


class TightenedMetricWarning(UserWarning):
    """Stated distances violate the triangle inequality and were replaced by shortest paths."""


class WeakGuaranteeWarning(UserWarning):
    """A designed survey guarantees little; the message has a line with the number for each case."""
