"""Encoders as an audit sees them: people in, the bytes of their reports out, and nothing else."""

from __future__ import annotations

import base64
import binascii
import json
import shlex
import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from metricldp.basics.errors import QueryError
from metricldp.basics.text import counted, shown
from metricldp.lab.audit.design import Person
from metricldp.reports.device import Device
from metricldp.survey.agreement import Agreement

Encoder = Callable[[Person], bytes]
Reports = list[bytes | None]
"""The bytes of each report; None where a person was refused."""
_READ: dict[str, Callable[[str], bytes]] = {
    "hex": bytes.fromhex,
    "base64": lambda line: base64.b64decode(line, validate=True),
}
FORMATS = tuple(_READ)
REFUSED = "refused"
"""How the line of a person begins whom a command refuses."""


class Client(Protocol):
    """Whatever encodes."""

    name: str
    at_once: int
    """How many people it is best given at a time."""
    restarts: bool
    """Whether each call begins anew, as a device that was switched off."""
    refusal: str
    """What it said when it first refused somebody."""

    def reports(self, people: Sequence[Person]) -> Reports: ...


class Function:
    """A function of one person; whatever it raises is a refusal."""

    at_once = 1 << 13
    restarts = False
    refusal = ""

    def __init__(self, encoder: Encoder, name: str) -> None:
        self.encoder, self.name = encoder, name

    def reports(self, people: Sequence[Person]) -> Reports:
        return [self._report(person) for person in people]

    def _report(self, person: Person) -> bytes | None:
        try:
            return self.encoder(person)
        except Exception as wrong:  # a client of somebody else's may refuse in any way
            self.refusal = self.refusal or shown(wrong)
            return None


class Command:
    """A command that reads people as lines of JSON, and writes a line with the bytes of each.

    A person is refused by a line that begins with the word "refused", or by an exit code.
    """

    at_once = 1 << 17
    restarts = True
    refusal = ""

    def __init__(self, command: str, form: str = "hex") -> None:
        if not isinstance(form, str) or form not in _READ:
            raise QueryError(f"a client writes {' or '.join(FORMATS)}, not {shown(form)}")
        if not isinstance(command, str):
            raise QueryError(f"the command of a client is a line of text, not {shown(command)}")
        try:
            self.words = shlex.split(command)
        except ValueError as wrong:
            raise QueryError(f"cannot read the command {shown(command)}: {wrong}") from None
        if not self.words:
            raise QueryError('name the command of the client, such as --client "node client.js"')
        self.name, self._read = command, _READ[form]

    def reports(self, people: Sequence[Person]) -> Reports:
        lines, code, complaint = self._run(people)
        if code and len(people) == 1:
            return [None]
        if len(lines) != len(people) or code:
            why = f": {shown(complaint)}" if complaint else ""
            raise QueryError(
                f"the client wrote {counted(len(lines), 'line')} for "
                f"{counted(len(people), 'person', 'people')} (exit code {code}){why}"
            )
        return [self._report(line) for line in lines]

    def _run(self, people: Iterable[Person]) -> tuple[list[str], int, str]:
        said = "".join(json.dumps(person) + "\n" for person in people)
        try:
            done = subprocess.run(self.words, input=said.encode(), capture_output=True, check=False)
        except OSError as wrong:
            raise QueryError(f"cannot run {shown(self.words[0])}: {wrong.strerror}") from None
        complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return lines, done.returncode, complaint[-1] if complaint else ""

    def _report(self, line: str) -> bytes | None:
        """What cannot be read is a report of no bytes, which no collector takes."""
        if line.lower().startswith(REFUSED):
            self.refusal = self.refusal or shown(line)
            return None
        try:
            return self._read(line.strip())
        except (ValueError, binascii.Error):
            return b""


def client_of(survey: Agreement, encoder: Any, clip: bool) -> Client:
    """The package's own device where nothing else is said."""
    if encoder is None:
        device = Device(survey)
        return Function(
            lambda person: device.report(person, coins=None, clip=clip), "metricldp's own device"
        )
    if hasattr(encoder, "reports"):
        client: Client = encoder
        return client
    if not callable(encoder):
        raise QueryError(
            f"an encoder is a function from a person to the bytes of a report, not {shown(encoder)}"
        )
    return Function(encoder, getattr(encoder, "__qualname__", type(encoder).__name__))
