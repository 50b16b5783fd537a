"""Encoders as an audit sees them: people in, the bytes of their reports out, and nothing else."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import TIMEOUT_MAX, Thread, Timer
from time import monotonic
from typing import IO, Any, Protocol

from metricldp.basics.errors import QueryError
from metricldp.basics.numbers import is_number
from metricldp.basics.text import counted, shown
from metricldp.basics.writing import scratch, why_not
from metricldp.lab.audit.design import Person
from metricldp.survey.agreement import Agreement
from metricldp_core.device import Device

Encoder = Callable[[Person], bytes]
Reports = list[bytes | None]
"""The bytes of each report; None where a person was refused."""
_READ: dict[str, Callable[[str], bytes]] = {
    "hex": bytes.fromhex,
    "base64": lambda line: base64.b64decode(line, validate=True),
}
FORMATS = tuple(_READ)
REJECTED = "rejected"
"""The first word of the line for a response that a command rejects."""
SECONDS = 600
"""That a command may take for some people."""
_ROOM = 1 << 29
"""Bytes that a command may write for some people."""
_PIECE, _MORE = 1 << 16, 1000
"""Bytes of a complaint that are read at a time, and lines beyond one for each person."""


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

    A response is rejected by a line that begins with the word "rejected", or by an exit code.
    """

    at_once = 1 << 17
    restarts = True
    refusal = ""

    def __init__(self, command: str, form: str = "hex", seconds: float = SECONDS) -> None:
        if not isinstance(form, str) or form not in _READ:
            raise QueryError(f"a client writes {' or '.join(FORMATS)}, not {shown(form)}")
        if not isinstance(command, str):
            raise QueryError(f"the command of a client is a line of text, not {shown(command)}")
        if not is_number(seconds) or not 0 < seconds <= TIMEOUT_MAX:
            raise QueryError(f"a client has a number of seconds above 0, not {shown(seconds)}")
        try:
            self.words = shlex.split(command)
        except ValueError as wrong:
            raise QueryError(f"cannot read the command {shown(command)}: {wrong}") from None
        if not self.words:
            raise QueryError('name the command of the client, such as --client "node client.js"')
        self.name, self._read, self._seconds = command, _READ[form], seconds

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

    def _run(self, people: Sequence[Person]) -> tuple[list[str], int, str]:
        """Its lines, exit code and last complaint, within limits; whatever it started ends then."""
        process = self._started(people)
        assert process.stdout is not None and process.stderr is not None
        complaints: deque[bytes] = deque(maxlen=2)  # the last pieces, however many there are
        pieces = iter(partial(os.read, process.stderr.fileno(), _PIECE), b"")
        listener = Thread(target=complaints.extend, args=[pieces], daemon=True)
        timer, deadline = Timer(self._seconds, _kill, [process]), monotonic() + self._seconds
        with process:
            try:
                timer.start()
                listener.start()
                lines = self._lines(process.stdout, len(people))
                process.wait()
                late = monotonic() >= deadline
            finally:
                timer.cancel()
                _kill(process)  # and whom it left behind, who may hold its pipes open
                if listener.is_alive():  # a signal may come before it has begun
                    listener.join(1)
        if late:
            raise QueryError(
                f"the client took more than {self._seconds:g} seconds for "
                f"{counted(len(people), 'person', 'people')}; give it more with --seconds"
            )
        complaint = b"".join(complaints).decode("utf-8", "replace").strip().splitlines()
        return lines, process.returncode, complaint[-1] if complaint else ""

    def _started(self, people: Sequence[Person]) -> subprocess.Popen[bytes]:
        """The client in a group of its own; people are in a file, which it reads when it likes."""
        with scratch(tempfile.gettempdir()) as said:
            said.write("".join(json.dumps(person) + "\n" for person in people).encode())
            said.seek(0)
            pipe = subprocess.PIPE
            try:
                return subprocess.Popen(
                    self.words, stdin=said, stdout=pipe, stderr=pipe, start_new_session=True
                )
            except (OSError, ValueError) as wrong:
                raise QueryError(f"cannot run {shown(self.words[0])}: {why_not(wrong)}") from None

    def _lines(self, output: IO[bytes], count: int) -> list[str]:
        """What it wrote, refused as soon as it is far too much."""
        lines: list[str] = []
        room = _ROOM
        while line := output.readline(room):
            room -= len(line)
            if len(lines) == count + _MORE or not room:
                much = counted(len(lines), "line") if room else f"{_ROOM >> 20} MiB"
                people = counted(count, "person", "people")
                raise QueryError(f"the client wrote more than {much} for {people}")
            lines.append(line.decode("utf-8", "replace"))
        return lines

    def _report(self, line: str) -> bytes | None:
        """What cannot be read is a report of no bytes, which no collector takes."""
        if line.lower().startswith(REJECTED):
            self.refusal = self.refusal or shown(line)
            return None
        try:
            return self._read(line.strip())
        except (ValueError, binascii.Error):
            return b""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """A client with all that it has started, where a system keeps those together."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def client_of(survey: Agreement, encoder: Any, clip: bool) -> Client:
    """The package's own device where nothing else is said."""
    if encoder is None:
        manifest = survey.client_manifest
        return Function(
            lambda person: Device(manifest).report(person, clip=clip), "metricldp's own device"
        )
    if hasattr(encoder, "reports"):
        client: Client = encoder
        return client
    if not callable(encoder):
        raise QueryError(
            f"a client is a function from a response to the bytes of a report, not {shown(encoder)}"
        )
    return Function(encoder, getattr(encoder, "__qualname__", type(encoder).__name__))
