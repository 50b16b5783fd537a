"""The device: a response to the bytes of one report.

All values are checked before the first random word is read. The number of words and the time do not
depend on the values, as far as Python's own instructions go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from difflib import get_close_matches
from typing import Any

from metricldp_core.distributions import Memoised
from metricldp_core.errors import CertificateError, InvalidManifestError, InvalidValueError
from metricldp_core.manifest import Manifest
from metricldp_core.random_words import Words
from metricldp_core.report import ReportFormat
from metricldp_core.values import Response, listed
from metricldp_core.verify import certify

Memory = MutableMapping[str, int]
"""The first randomizations that a device remembers. It is private and never leaves the device."""


class Device:
    """Makes the reports of one respondent.

    The manifest is verified when the device is made: one that breaks its guarantee raises an
    InvalidManifestError. State the published `fingerprint`; else a distributor can give each device
    a manifest of its own and recognize its reports.
    """

    def __init__(self, manifest: str | Manifest, *, fingerprint: str | None = None) -> None:
        if isinstance(manifest, str):
            manifest = Manifest.parse(manifest)
        if fingerprint is not None and manifest.fingerprint != fingerprint:
            raise InvalidManifestError("the manifest has another fingerprint; do not report to it")
        if not (certificate := certify(manifest)).holds:
            raise InvalidManifestError(f"the guarantee does not hold:\n{certificate}")
        self.manifest, self._format = manifest, ReportFormat(manifest)
        self._asked = {d.name: d for d in manifest.domains if not isinstance(d, Response)}
        self._memoised = any(isinstance(f.distribution, Memoised) for f in manifest.fields)
        self._reported = self._unremembered = False

    def report(
        self,
        response: Mapping[str, Any],
        *,
        memory: Memory | None = None,
        clip: bool = False,
        source: Callable[[int], bytes] = os.urandom,
    ) -> bytes:
        """Return the bytes to send for a response, a dict of values by attribute.

        `memory` is a dict that the device stores for memoised attributes. A second report of these
        raises an error without a memory, or if the first had none, because it would add to the
        privacy loss. With `clip`, numbers outside their domain move to the nearest end. `source`
        returns random bytes.
        """
        if self._memoised and self._reported and (memory is None or self._unremembered):
            raise InvalidValueError(
                "a second report of a memoised attribute needs the memory of the first; pass the "
                "same memory={} of this respondent to each report, from the first on"
            )
        positions = self.positions(response, clip=clip)
        report = self.randomize(positions, Words(source), memory)
        self._reported = True
        self._unremembered |= memory is None
        return report

    def positions(self, response: Mapping[str, Any], *, clip: bool = False) -> list[int]:
        """Return the position of each field."""
        if not isinstance(response, Mapping):
            kind = type(response).__name__
            raise InvalidValueError(f"a response is a dict of values by attribute, not {kind}")
        for name, domain in self._asked.items():
            # The steps do not depend on whether there is an entry.
            if (name not in response) & (not domain.optional):
                there = [key for key in response if isinstance(key, str)]
                why = f"the response has no value for {name!r}, only for {listed(there) or 'none'}"
                raise InvalidValueError(f"{why}{_guess(name, there)}", reason="missing")
        # A misspelt name of an optional attribute would read as no response. The check does not
        # depend on whether there is one.
        if any(domain.optional for domain in self._asked.values()):
            for key in set(response).difference(self._asked):
                named = repr(key)[:80] if isinstance(key, str) else "a key that is not a name"
                meant = _guess(key, self._asked) or f"; it has {listed(list(self._asked))}"
                raise InvalidValueError(
                    f"the response has a value for {named}, which is not in the survey{meant}"
                )
        found = []
        for field in self.manifest.fields:
            each = [d.position(response.get(d.name), clip=clip) for d in field.domains]
            found.append(field.position(each))
        return found

    def randomize(self, positions: list[int], words: Words, memory: Memory | None = None) -> bytes:
        """Return the bytes of a report. Words that are not uniform give no privacy."""
        parts, new = [], dict[str, int]()
        for field, position in zip(self.manifest.fields, positions, strict=True):
            if memory is None or not isinstance(field.distribution, Memoised):
                part = field.draw(position, words)
            else:
                # The first randomization is drawn in any case, so that neither words nor time
                # depend on whether it is remembered.
                start = words.round(position) if field.stochastic else position
                drawn = field.distribution.first.draw(start, words)
                key = f"{self.manifest.fingerprint} {position} {field.name}"
                once = memory.get(key, drawn)
                if type(once) is not int or not 0 <= once < field.distribution.first.outputs:
                    raise InvalidValueError(
                        f"the memory has an invalid entry for {field.name!r}; it was changed or is "
                        "of another device: restore it, or start a new one"
                    )
                new[key] = once
                part = field.distribution.second.draw(once, words)
            if part >> field.bits:
                raise CertificateError("a report is outside of its field; no report is sent")
            parts.append(part)
        if memory is not None:
            memory.update(new)
        return self._format.pack(parts)


def _guess(name: object, names: Any) -> str:
    near = get_close_matches(str(name), list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
