"""Errors of the device: each message names the place and the remedy, and shows no response."""

from __future__ import annotations


class MetricLdpError(Exception):
    """The base class of all errors that this package raises on purpose."""


class InvalidManifestError(MetricLdpError, ValueError):
    """A manifest is malformed, too large, or does not keep its guarantee."""


class CertificateError(MetricLdpError, ValueError):
    """A mechanism has no integers that give the stated guarantee."""


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
