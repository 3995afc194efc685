"""One interface for all clients that write and read records: Kafka's, `raftlog.client` and plain HTTP.

Every call makes a client, uses it for partition 0 and closes it, and blocks. Tests read `DRIVERS`."""

import asyncio
import base64
import http.client
import itertools
import json
import subprocess
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, Final, TypeVar

import confluent_kafka as librdkafka
import kafka
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition

from raftlog.client import Consumer, Producer
from raftlog.records import NewRecord
from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.kafka.clients.stored import BEGINNING, WITHIN_S, FromEnd, Offset, Position, Since, StoredRecord, UnsentRecord

BINARY: Final = "application/vnd.kafka.binary.v2+json"
Result = TypeVar("Result")


class Driver:
    """Client under test; the attributes are those of a client that can do everything."""

    codecs: ClassVar[Sequence[str]] = ("none", "gzip", "snappy", "lz4", "zstd")
    acks: ClassVar[Sequence[str]] = ("all", "1", "0")
    is_idempotent: ClassVar = True
    """Whether its producer can be idempotent."""
    has_timestamps: ClassVar = True
    """Whether it writes given timestamps."""
    has_null_headers: ClassVar = True
    """Whether it writes headers without value."""

    def __init__(self, cluster: Cluster) -> None:
        self.bootstrap, self.addresses = cluster.kafka, cluster.addresses

    def write(
        self,
        topic: str,
        records: Sequence[UnsentRecord],
        codec: str = "none",
        acks: str = "all",
        is_idempotent: bool = False,
    ) -> None:
        """Write records, and wait until they are acknowledged."""
        raise NotImplementedError

    def read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        """Return the first `count` records from a position on."""
        raise NotImplementedError


class Kcat(Driver):
    """kcat in a process: the librdkafka of the distribution."""

    has_timestamps = False
    has_null_headers = False

    def write(
        self,
        topic: str,
        records: Sequence[UnsentRecord],
        codec: str = "none",
        acks: str = "all",
        is_idempotent: bool = False,
    ) -> None:
        """Write records, with one process per change of the headers: all lines of a process have the same."""
        settings = ["-z", codec, "-X", f"acks={acks}", "-X", f"enable.idempotence={str(is_idempotent).lower()}"]
        for headers, group in itertools.groupby(records, lambda record: record.headers):
            flags = list(itertools.chain(*(("-H", f"{name}={(value or b'').decode()}") for name, value in headers)))
            lines = b"".join(_line(record) for record in group)
            self.run("-P", "-t", topic, "-p", "0", "-Z", "-K", "|", *settings, *flags, sent=lines)

    def read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        """Read with `-o`."""
        match start:
            case FromEnd(last):
                begin = f"-{last}"
            case Since(timestamp):
                begin = f"s@{timestamp}"
            case Offset(offset):
                begin = "beginning" if start == BEGINNING else str(offset)
        return self.lines("-C", "-t", topic, "-p", "0", "-o", begin, "-c", str(count))

    def lines(self, *flags: str) -> list[StoredRecord]:
        """Run a consumer; return the records that it prints."""
        return [_parse_line(json.loads(line)) for line in self.run(*flags, "-J", "-q").splitlines()]

    def run(self, *flags: str, sent: bytes = b"") -> bytes:
        """Run kcat; return its output."""
        command = ["kcat", "-b", self.bootstrap, *flags]
        done = subprocess.run(command, input=sent, capture_output=True, timeout=WITHIN_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def _line(record: UnsentRecord) -> bytes:
    """Return the input of kcat for a record; with `-Z` an empty value is null."""
    return (b"" if record.key is None else record.key + b"|") + (record.value or b"") + b"\n"


def _parse_line(line: dict[str, Any]) -> StoredRecord:
    names = line.get("headers", [])
    headers = tuple((name, _to_utf8(value)) for name, value in zip(names[::2], names[1::2], strict=True))
    return StoredRecord(line["offset"], _to_utf8(line["key"]), _to_utf8(line["payload"]), headers, line["ts"])


def _to_utf8(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class Librdkafka(Driver):
    """Producer and consumer of confluent-kafka."""

    def write(
        self,
        topic: str,
        records: Sequence[UnsentRecord],
        codec: str = "none",
        acks: str = "all",
        is_idempotent: bool = False,
        partition: int = 0,
    ) -> None:
        """Write records in one batch."""
        producer = librdkafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": is_idempotent,
            }
        )
        errors: list[librdkafka.KafkaError | None] = []
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                timestamp=record.timestamp,
                headers=list(record.headers),
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(WITHIN_S) == 0
        assert errors == [None] * len(records)

    def read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        """Read an assigned partition."""
        consumer = librdkafka.Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none"})
        try:
            match start:
                case FromEnd(last):
                    _, end = consumer.get_watermark_offsets(librdkafka.TopicPartition(topic, 0), WITHIN_S)
                    begin = end - last
                case Since(timestamp):
                    [found] = consumer.offsets_for_times([librdkafka.TopicPartition(topic, 0, timestamp)], WITHIN_S)
                    begin = found.offset
                case Offset(offset):
                    begin = librdkafka.OFFSET_BEGINNING if start == BEGINNING else offset
            consumer.assign([librdkafka.TopicPartition(topic, 0, begin)])
            messages: list[librdkafka.Message] = []
            while len(messages) < count:
                messages += (new := consumer.consume(count - len(messages), WITHIN_S))
                assert new, f"{len(messages)} records of {count}"
            return [from_librdkafka(message) for message in messages]
        finally:
            consumer.close()


def from_librdkafka(message: librdkafka.Message) -> StoredRecord:
    """Return a message of confluent-kafka as a record."""
    assert message.error() is None, message.error()
    headers = tuple(message.headers() or ())
    return StoredRecord(message.offset(), message.key(), message.value(), headers, message.timestamp()[1])


class Aiokafka(Driver):
    """Producer and consumer of aiokafka."""

    has_null_headers = False

    def write(
        self,
        topic: str,
        records: Sequence[UnsentRecord],
        codec: str = "none",
        acks: str = "all",
        is_idempotent: bool = False,
    ) -> None:
        """Write records in one batch."""
        _run(self._write(topic, records, codec, acks, is_idempotent))

    async def _write(
        self, topic: str, records: Sequence[UnsentRecord], codec: str, acks: str, is_idempotent: bool
    ) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=is_idempotent,
            linger_ms=1,
        ) as producer:
            for key, value, headers, timestamp in records:
                await producer.send(topic, value, key, 0, timestamp, list(headers))

    def read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        """Read an assigned partition."""
        return _run(self._read(topic, start, count))

    async def _read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        place = AiokafkaPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
            consumer.assign([place])
            match start:
                case FromEnd(last):
                    consumer.seek(place, (await consumer.end_offsets([place]))[place] - last)
                case Since(timestamp):
                    consumer.seek(place, (await consumer.offsets_for_times({place: timestamp}))[place].offset)
                case Offset(offset) if start == BEGINNING:
                    await consumer.seek_to_beginning(place)
                case Offset(offset):
                    consumer.seek(place, offset)
            return [from_python(await consumer.getone()) for _ in range(count)]


class KafkaPython(Driver):
    """Producer and consumer of kafka-python 3; codecs other than gzip need further packages."""

    codecs = ("none", "gzip")
    has_null_headers = False

    def write(
        self,
        topic: str,
        records: Sequence[UnsentRecord],
        codec: str = "none",
        acks: str = "all",
        is_idempotent: bool = False,
    ) -> None:
        """Write records in one batch."""
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=is_idempotent,
            linger_ms=1,
        )
        for key, value, headers, timestamp in records:
            producer.send(topic, value, key, list(headers), 0, timestamp)
        producer.flush(WITHIN_S)
        producer.close()

    def read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        """Read an assigned partition."""
        place = kafka.TopicPartition(topic, 0)
        consumer = kafka.KafkaConsumer(bootstrap_servers=self.bootstrap, consumer_timeout_ms=1_000 * WITHIN_S)
        try:
            consumer.assign([place])
            match start:
                case FromEnd(last):
                    consumer.seek(place, consumer.end_offsets([place])[place] - last)
                case Since(timestamp):
                    consumer.seek(place, consumer.offsets_for_times({place: timestamp})[place].offset)
                case Offset(offset) if start == BEGINNING:
                    consumer.seek_to_beginning(place)
                case Offset(offset):
                    consumer.seek(place, offset)
            return [from_python(record) for record in itertools.islice(consumer, count)]
        finally:
            consumer.close()


def from_python(record: Any) -> StoredRecord:
    """Return a record of aiokafka, of kafka-python or of `raftlog.client`."""
    return StoredRecord(record.offset, record.key, record.value, tuple(record.headers), record.timestamp)


class Raftlog(Driver):
    """Producer and consumer of `raftlog.client`."""

    def write(
        self,
        topic: str,
        records: Sequence[UnsentRecord],
        codec: str = "none",
        acks: str = "all",
        is_idempotent: bool = False,
    ) -> None:
        """Write records in one batch."""
        _run(self._write(topic, records, codec, acks, is_idempotent))

    async def _write(
        self, topic: str, records: Sequence[UnsentRecord], codec: str, acks: str, is_idempotent: bool
    ) -> None:
        options: Any = {"compression": codec, "acks": acks, "idempotent": is_idempotent}
        async with Producer(self.addresses, **options) as producer:
            new = [NewRecord(value, key, timestamp, headers) for key, value, headers, timestamp in records]
            for delivery in await producer.send_batch(topic, 0, new):
                await delivery

    def read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        """Read an assigned partition."""
        return _run(self._read(topic, start, count))

    async def _read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        async with Consumer(self.addresses) as consumer:
            await consumer.assign([(topic, 0)])
            match start:
                case FromEnd(last):
                    consumer.seek_from_end(last)
                case Since(timestamp):
                    consumer.seek_to_timestamp(timestamp)
                case Offset(offset) if start == BEGINNING:
                    consumer.seek_to_beginning()
                case Offset(offset):
                    consumer.seek((topic, 0), offset)
            records = []
            while len(records) < count:
                records += await consumer.poll(count - len(records))
            return [from_python(record) for record in records]


class Http(Driver):
    """HTTP requests of Confluent's REST Proxy, with base64."""

    is_idempotent = False
    codecs = ("none",)

    def write(
        self,
        topic: str,
        records: Sequence[UnsentRecord],
        codec: str = "none",
        acks: str = "all",
        is_idempotent: bool = False,
    ) -> None:
        """Write records in one request."""
        rows = [
            {
                "key": _encode_base64(record.key),
                "value": _encode_base64(record.value),
                "headers": [{"name": name, "value": _encode_base64(value)} for name, value in record.headers],
                "timestamp": record.timestamp,
            }
            for record in records
        ]
        path = f"/topics/{topic}/partitions/0?acks={acks}"
        self._request("POST", path, {"Content-Type": BINARY}, orjson.dumps({"records": rows}))

    def read(self, topic: str, start: Position, count: int) -> list[StoredRecord]:
        """Fetch until all `count` records have arrived."""
        match start:
            case Offset(offset):
                begin = max(offset, 0)
            case FromEnd(last):
                begin = ask(self.addresses[0], f"/topics/{topic}/partitions/0/offsets")[1]["end_offset"] - last
            case Since(timestamp):
                path = f"/topics/{topic}/partitions/0/offsets?timestamp={timestamp}"
                begin = ask(self.addresses[0], path)[1]["offset"]
        found: list[StoredRecord] = []
        while len(found) < count:
            path = f"/topics/{topic}/partitions/0/records?offset={begin + len(found)}"
            rows = self._request("GET", path, {"Accept": BINARY})
            found += [
                StoredRecord(
                    row["offset"],
                    _to_bytes(row["key"]),
                    _to_bytes(row["value"]),
                    tuple((each["name"], _to_bytes(each["value"])) for each in row["headers"]),
                    row["timestamp"],
                )
                for row in rows
            ]
        return found[:count]

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> Any:
        connection = http.client.HTTPConnection(self.addresses[0], timeout=WITHIN_S)
        connection.request(method, path, body, headers)
        with connection.getresponse() as response:
            answer = response.read()
        connection.close()
        assert response.status == 200, answer
        return orjson.loads(answer)


def _encode_base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    async def run_bounded() -> Result:
        async with asyncio.timeout(WITHIN_S):
            return await work

    return asyncio.run(run_bounded())


KAFKA_CLIENTS: Final = (Kcat, Librdkafka, Aiokafka, KafkaPython)
DRIVERS: Final = (*KAFKA_CLIENTS, Raftlog, Http)
