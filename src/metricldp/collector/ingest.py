"""Reports from a log that delivers at least once: a Kafka topic, or a file.

A message has the bytes of an upload: one or more records. Each batch of messages is written to the
collector's database in one transaction. Only then are its offsets committed. A crash in between
makes the log deliver the batch again, and the ids of its records are duplicates.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from metricldp.basics.errors import InvalidReportError, QueryError
from metricldp.basics.optional import optional
from metricldp.basics.text import shown
from metricldp.basics.writing import replacing, why_not
from metricldp.collector.books import ACCEPTED, DUPLICATE, Books
from metricldp.collector.folder import SEAL, Collector, envelope_of
from metricldp.collector.register import Entry, Register
from metricldp.collector.sealing import remove_orphans

kafka: Any = optional("confluent_kafka")

AT_ONCE = 10_000
"""Messages in one transaction."""
_WAIT, _PATIENCE = 0.5, 10.0
"""Seconds for one batch of messages, and until a silent broker has no more messages for now."""
_OFFSET = ".offset"
logger = logging.getLogger("metricldp.collector")


class Log(Protocol):
    """Messages in order, delivered again from the last commit on after a crash."""

    def read(self, most: int) -> list[bytes]:
        """The next messages; none if there are no more for now."""

    def commit(self) -> None:
        """Never deliver again what was read so far."""

    def close(self) -> None: ...


class FileLog:
    """A file of records of one size that grows; its offset is in a file beside it."""

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size
        self._committed = path.with_name(path.name + _OFFSET)
        try:
            self._next = int(self._committed.read_text()) if self._committed.exists() else 0
            length = path.stat().st_size
        except (OSError, ValueError) as wrong:
            raise InvalidReportError(
                "file", f"cannot read the log {path}: {why_not(wrong)}"
            ) from None
        if self._next > length:
            raise InvalidReportError(
                "file",
                f"{path} is shorter than its offset in {self._committed}; a log only grows: give "
                "a new log another name",
            )

    def read(self, most: int) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._next)
                data = file.read(most * self._size)
        except OSError as wrong:
            raise InvalidReportError(
                "file", f"cannot read {self._path}: {why_not(wrong)}"
            ) from None
        end = len(data) - len(data) % self._size  # the last record may still be incomplete
        self._next += end
        return [data[at : at + self._size] for at in range(0, end, self._size)]

    def commit(self) -> None:
        with replacing(self._committed, QueryError, private=True) as file:
            file.write(str(self._next).encode())

    def close(self) -> None:
        """No file stays open."""


class KafkaLog:
    """A topic, of which this process reads all partitions; Kafka stores the offsets of a group."""

    def __init__(self, servers: str, topic: str, group: str) -> None:
        self._topic, self._servers = topic, servers
        self._partitions: set[int] = set()
        self._at_end: set[int] = set()
        self._client = kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,  # errors are raised; the client would log them repeatedly
            }
        )
        with self._errors():
            self._assign()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except kafka.KafkaException as wrong:
            why = f"cannot read from {self._servers}: {wrong.args[0].str()}; check the address"
            raise InvalidReportError("file", why) from None

    def _assign(self) -> None:
        """Read all partitions of now, each from its committed offset or its beginning.

        Partitions are assigned here, not by the group: after a crash the group would wait for the
        lost member to time out.
        """
        topic = self._client.list_topics(self._topic, timeout=_PATIENCE).topics.get(self._topic)
        if topic is None or topic.error is not None or not topic.partitions:
            raise InvalidReportError(
                "file", f"the broker has no topic {self._topic}; create it first"
            )
        if self._partitions == {*topic.partitions}:
            return
        self._partitions, self._at_end = {*topic.partitions}, set()
        places = [kafka.TopicPartition(self._topic, number) for number in topic.partitions]
        places = self._client.committed(places, timeout=_PATIENCE)
        for place in places:
            low, _ = self._client.get_watermark_offsets(place, timeout=_PATIENCE)
            if 0 <= place.offset < low:
                logger.warning(
                    "partition %d of %s: %d messages were deleted before they were read; keep "
                    "messages longer",
                    place.partition,
                    self._topic,
                    low - place.offset,
                )
        self._client.assign(places)

    def read(self, most: int) -> list[bytes]:
        with self._errors():
            deadline = time.monotonic() + _PATIENCE
            while time.monotonic() < deadline:
                if bodies := self._consume(most):
                    return bodies
                if self._at_end == self._partitions:
                    break
            self._assign()
            return []

    def _consume(self, most: int) -> list[bytes]:
        bodies = []
        for message in self._client.consume(most, timeout=_WAIT):
            error = message.error()
            if error is None:
                bodies.append(message.value() or b"")
                self._at_end.discard(message.partition())
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                self._at_end.add(message.partition())
            else:
                raise InvalidReportError("file", f"the broker reports: {error.str()}")
        return bodies

    def commit(self) -> None:
        with self._errors():
            self._client.commit(asynchronous=False)

    def close(self) -> None:
        self._client.close()


def log_of(source: str, entry: Entry, group: str | None = None) -> Log:
    """The log at kafka://HOST:PORT/TOPIC, or in a file, with records of a survey."""
    if "://" not in source:
        return FileLog(Path(source), envelope_of(entry).size)
    address = re.fullmatch(r"kafka://([^/?#\s]+)/([^/?#]+)/?", source)
    if address is None:
        raise QueryError(f"a log is a file or kafka://HOST:PORT/TOPIC, not {shown(source)}")
    servers, topic = address.groups()
    return KafkaLog(servers, topic, group or f"metricldp-{entry.fingerprint[:16]}")


def ingest(
    collector: Collector,
    fingerprint: str,
    log: Log,
    *,
    at_once: int = AT_ONCE,
    seal_at: int = SEAL,
    follow: bool = False,
    on_batch: Callable[[Counter[str]], None] = lambda outcomes: None,
) -> Counter[str]:
    """Read a log to its end, or for ever; how many records had which outcome."""
    total: Counter[str] = Counter()
    books = Books(collector.connect())
    try:
        remove_orphans(books, collector.folder)
        while True:
            messages = log.read(at_once)
            if not messages:
                if follow:
                    time.sleep(_WAIT)
                    continue
                return total
            outcomes = _write(books, fingerprint, messages)
            log.commit()
            collector.tend(books, seal_at)
            total += outcomes
            on_batch(outcomes)
    finally:
        books.database.close()
        log.close()


def _write(books: Books, fingerprint: str, messages: list[bytes]) -> Counter[str]:
    """One transaction; settings may have changed since the last one."""
    entry = Register(books).entry(fingerprint)
    if entry is None:
        raise QueryError(f"survey {fingerprint[:32]} was deleted; open it again with serve")
    envelope = envelope_of(entry)
    outcomes: Counter[str] = Counter()
    for outcome in books.take([envelope.read(message) for message in messages], Counter()):
        outcomes += Counter({ACCEPTED: outcome.accepted, DUPLICATE: outcome.duplicate})
        outcomes += outcome.refused
    return outcomes
