"""Every exception and warning of the package.

MetricLdpError
├── InvalidSpecError         a survey, an attribute or a survey file is invalid
├── InvalidValueError        a response cannot be randomized: missing, not a number, out of range
├── InvalidReportError       a report or a file of reports does not belong to this survey
├── QueryError               a query that the survey cannot answer
├── CertificateError         a mechanism cannot give the guarantee that it is asked for
└── MissingDependencyError   a library is not installed

Each message names the place and the remedy in one line. No message shows a respondent's value.
"""


class MetricLdpError(Exception):
    """The base class of all errors that this package raises on purpose."""


class InvalidSpecError(MetricLdpError, ValueError):
    """A spec, a survey, an attribute or a survey file is invalid."""


class InvalidValueError(MetricLdpError, ValueError):
    """A response is missing, of the wrong type or outside its domain; nothing was randomized.

    If one value is invalid, `attribute` and `row` (from 0) locate it, and `reason` is one of
    missing, kind, whole, range and name. The message does not contain the value. It counts rows of
    data from 1, so "row 1" of a CSV file is the line after the header.
    """

    def __init__(
        self,
        why: str,
        *,
        attribute: str | None = None,
        row: int | None = None,
        reason: str = "kind",
    ) -> None:
        where = "" if attribute is None else f"{attribute} "
        super().__init__(f"{where}{why}" if row is None else f"{where}in row {row + 1} {why}")
        self.why, self.attribute, self.row, self.reason = why, attribute, row, reason

    def after(self, rows: int) -> "InvalidValueError":
        """The same error if `rows` precede the batch of the row."""
        return self.at((self.row or 0) + rows)

    def at(self, row: int) -> "InvalidValueError":
        """The same error with a row."""
        return InvalidValueError(self.why, attribute=self.attribute, row=row, reason=self.reason)

    def adding(self, words: str) -> "InvalidValueError":
        """The same error with more text."""
        why = f"{self.why}; {words}"
        return InvalidValueError(why, attribute=self.attribute, row=self.row, reason=self.reason)


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


class QueryError(MetricLdpError, ValueError):
    """A query is invalid: an unknown attribute, an empty range, a wrong argument."""


class CertificateError(MetricLdpError, ValueError):
    """A mechanism has no integers that give the stated guarantee."""


class MissingDependencyError(MetricLdpError, ImportError):
    """An optional library is not installed; the message has the command."""


class SeededRandomnessWarning(UserWarning):
    """Randomness is derived from a seed: anyone who knows the seed can remove the noise."""


class TightenedMetricWarning(UserWarning):
    """Stated distances violate the triangle inequality and were replaced by shortest paths."""


class WeakGuaranteeWarning(UserWarning):
    """A designed survey guarantees little; the message has a line with the number for each case."""
