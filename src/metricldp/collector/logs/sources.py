"""Logs to read from: files, or topics of Kafka. They may repeat themselves and mix up their order.

A log has partitions, each with records at offsets. Whoever reads keeps the offsets beside what was
made of the records, and never in the log: then the two cannot disagree. An offset goes with a name
that no other log has: two that were taken for one would lose people. One that is taken for two is
read again, and its ids are known.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from metricldp.basics.errors import QueryError, ReportRefused
from metricldp.basics.optional import optional
from metricldp.basics.text import shown
from metricldp.basics.writing import why_not
from metricldp.collector.search import ID
from metricldp.reports.bytes import packed_size
from metricldp.survey.agreement import Agreement

kafka: Any = optional("confluent_kafka")

ENDING = ".log"
_PATIENCE, _MOMENT = 5.0, 0.1
"""Seconds until a broker that says nothing has nothing, and to gather messages in."""


class Read(NamedTuple):
    """Records as they came, and where to go on from."""

    records: list[bytes]
    offsets: dict[str, int]


class Log(Protocol):
    """What is read: partitions of records, at least once each."""

    def read(self, offsets: Mapping[str, int], most: int) -> Read:
        """Records from these offsets on, about so many; none if there are no more for now."""


class FileLog:
    """One file that grows, or a folder of them: records of one size, one after the other."""

    def __init__(self, survey: Agreement, path: str | Path) -> None:
        self._size = ID + packed_size(survey)
        self._path = Path(path)
        if not self._path.exists():
            raise ReportRefused("file", f"there is no log {path}")

    def _files(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        return sorted(self._path.glob(f"*{ENDING}"))

    def read(self, offsets: Mapping[str, int], most: int) -> Read:
        records: list[bytes] = []
        now = dict(offsets)
        for path in self._files():
            try:
                # A name of any bytes, and nobody's folders in the manifest.
                place = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
                with path.open("rb") as file:
                    # The first id alone: with its report, it would link the two for good.
                    first = hashlib.sha256(file.read(ID)).hexdigest()
                    start = now.get(f"{first} {place}", 0)
                    other = not start and any(key.partition(" ")[2] == place for key in now)
                    if other or path.stat().st_size < start:
                        raise ReportRefused(
                            "file",
                            f"{path} is shorter than what was read of it, or begins otherwise; a "
                            "log only grows: give a new one another name",
                        )
                    file.seek(start)
                    data = file.read((most - len(records)) * self._size)
            except OSError as wrong:
                raise ReportRefused("file", f"cannot read {path}: {why_not(wrong)}") from None
            whole = len(data) - len(data) % self._size  # the rest is still being written
            records += [data[at : at + self._size] for at in range(0, whole, self._size)]
            if whole:
                now[f"{first} {place}"] = start + whole
            if len(records) >= most:
                break
        return Read(records, now)


class KafkaLog:
    """A topic whose messages are records, one or several each."""

    def __init__(self, survey: Agreement, servers: str, topic: str, client: Any = None) -> None:
        self._size, self._topic, self._servers = ID + packed_size(survey), topic, servers
        self._client = client or kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"metricldp-{survey.fingerprint[:16]}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "log_level": 0,  # what is wrong is raised; the log would say it again and again
            }
        )
        self._reading: dict[str, int] = {}
        """The next offset of each partition."""
        self._name = ""
        """What the partitions of this topic have in common, and those of no other."""

    def _partitions(self) -> list[int]:
        cluster = self._client.list_topics(self._topic, timeout=_PATIENCE)
        found = cluster.topics.get(self._topic)
        if found is None or found.error is not None or not found.partitions:
            raise ReportRefused("file", f"the broker has no topic {self._topic}")
        self._name = f"{cluster.cluster_id} {self._topic}"
        return sorted(found.partitions)

    def _ends(self) -> dict[str, tuple[int, int]]:
        """The first offset that is there and the next one to come, of each partition."""
        found = {}
        for number in self._partitions():
            place = kafka.TopicPartition(self._topic, number)
            ends = self._client.get_watermark_offsets(place, timeout=_PATIENCE)
            found[f"{self._name} {number}"] = ends
        return found

    def _assign(self, offsets: Mapping[str, int], ends: Mapping[str, tuple[int, int]]) -> None:
        self._reading = {}
        for partition, (low, high) in ends.items():
            start = self._reading[partition] = offsets.get(partition, low)
            if not low <= start <= high:
                raise ReportRefused(
                    "file",
                    f"partition {_number(partition)} of {self._topic} has offsets {low} to {high}, "
                    f"and was read up to {start}: reports were deleted before they were counted",
                )
        places = [(_number(p), at) for p, at in self._reading.items()]
        self._client.assign([kafka.TopicPartition(self._topic, p, at) for p, at in places])

    def read(self, offsets: Mapping[str, int], most: int) -> Read:
        """From all partitions as they come, up to where they end now."""
        try:
            return self._read(offsets, most)
        except kafka.KafkaException as wrong:
            raise ReportRefused(
                "file",
                f"cannot read from {self._servers}: {wrong.args[0].str()}; check the address",
            ) from None

    def _read(self, offsets: Mapping[str, int], most: int) -> Read:
        ends = self._ends()
        if self._reading.keys() != ends.keys() or {**offsets, **self._reading} != offsets:
            self._assign(offsets, ends)
        records: list[bytes] = []
        now, deadline = self._reading, time.monotonic() + _PATIENCE
        while len(records) < most and any(now[p] < high for p, (_, high) in ends.items()):
            messages = self._client.consume(min(most - len(records), 10_000), timeout=_MOMENT)
            if messages:
                deadline = time.monotonic() + _PATIENCE
            elif time.monotonic() > deadline:  # what is left are marks of transactions
                break
            for message in messages:
                if message.error() is not None:
                    raise ReportRefused("file", f"the broker says: {message.error()}")
                records += self._records(message.value() or b"")
                now[f"{self._name} {message.partition()}"] = message.offset() + 1
        return Read(records, {**offsets, **now})

    def _records(self, value: bytes) -> Sequence[bytes]:
        """Records of a message; one that is no whole number of them counts as one bad record."""
        if not value or len(value) % self._size:
            return [value]
        return [value[at : at + self._size] for at in range(0, len(value), self._size)]


def _number(partition: str) -> int:
    return int(partition.rpartition(" ")[2])


def log_of(survey: Agreement, source: str) -> Log:
    """The log that an address means: kafka://host:port/topic, or a file or folder."""
    if "://" not in source:
        return FileLog(survey, source)
    found = re.fullmatch(r"kafka://([^/?#\s]+)/([^/?#]+)/?", source)
    if found is None:
        raise QueryError(
            f"a log is a file, a folder or kafka://HOST:PORT/TOPIC, not {shown(source)}"
        )
    return KafkaLog(survey, *found.groups())
