"""Every exception and warning of the package.

MetricLdpError
├── SurveyError        the agreement itself is wrong: an epsilon, a domain, a file
├── ValueRefused       a private value cannot be encoded: missing, not a number, out of range
├── ReportRefused      a report or a reports file cannot be trusted to be of this survey
├── QueryError         a question that the survey cannot answer
├── CertificateError   a channel was asked to promise what it cannot keep
└── MissingLibrary     what was asked for needs a library that is not installed

Each message names the place and the remedy in one line. No message shows a respondent's value.
"""


class MetricLdpError(Exception):
    """The root: catch it to catch everything this package raises on purpose."""


class SurveyError(MetricLdpError, ValueError):
    """A survey, an attribute or a survey file is wrong."""


class ValueRefused(MetricLdpError, ValueError):
    """A private value is missing, of the wrong kind or outside its domain; nothing was encoded.

    Where one value is to blame, `attribute` says of what, `row` (from 0) in which row, and
    `reason` is one word to count by: missing, kind, whole, range or name. It does not contain
    the value.
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

    def moved(self, rows: int) -> "ValueRefused":
        """The same refusal where `rows` came before the batch it was found in."""
        return self.at((self.row or 0) + rows)

    def at(self, row: int) -> "ValueRefused":
        """The same refusal of a value that stands in a row."""
        return ValueRefused(self.why, attribute=self.attribute, row=row, reason=self.reason)

    def adding(self, words: str) -> "ValueRefused":
        """The same refusal with more words behind it."""
        why = f"{self.why}; {words}"
        return ValueRefused(why, attribute=self.attribute, row=self.row, reason=self.reason)


class ReportRefused(MetricLdpError, ValueError):
    """A report or a file of reports is refused; `reason` is one word to count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class QueryError(MetricLdpError, ValueError):
    """A question names something the survey does not have, or an empty range."""


class CertificateError(MetricLdpError, ValueError):
    """No integers exist with which a channel could keep the promise asked of it."""


class MissingLibrary(MetricLdpError, ImportError):
    """Something that not everybody needs is not installed; the message has the command."""


class SeededCoinsWarning(UserWarning):
    """Coins were made from a seed: whoever knows the seed can take the noise away again."""


class TightenedMetricWarning(UserWarning):
    """Stated distances broke the triangle inequality and were replaced by shortest paths."""
