"""Producer of prepared Kafka requests, whose own work is small, as that of wrk is over HTTP.

One connection has a fixed number of Produce requests in flight, each with one batch. A request is passed to TLS as a
whole, so its records are full (16 KiB), as with Kafka's Java clients and with librdkafka's compressed batches.
librdkafka writes uncompressed batches record by record: for 64 KiB of records of 1,000 bytes it makes 70 TLS records,
with a system call for each (`rd_kafka_transport_ssl_send`)."""

import socket
import ssl
import struct
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any, Final

from bench.measure import require
from bench.samples import batches
from bench.scram_logins import Request, ScramClient, encode_request, next_request

_PRODUCE: Final = (0, 7)
_TIMEOUT_MS: Final = 30_000
_DIFFERENT_BATCHES: Final = 50
_READ_BYTES: Final = 1 << 16
_LENGTH: Final = struct.Struct(">i")


class _Producer:
    """Blocking connection of a producer to the leader of partition 0 of a topic."""

    def __init__(self, address: str, topic: str, authority: str, in_flight_max: int, records: int) -> None:
        """Connect to a broker, with TLS if the path of an authority is given."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_MS / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if authority:
            context = ssl.create_default_context(cafile=authority)
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        self._in_flight_max, self._in_flight = in_flight_max, 0
        self._received = b""
        name = topic.encode()
        self._requests: Iterator[bytes] = cycle(
            [_encode_produce(name, batch) for batch in batches(_DIFFERENT_BATCHES, records)]
        )
        self._error_at = _LENGTH.size * 4 + 2 + len(name)
        """Position of the partition's error code in an answer, after the correlation id."""

    def ask(self, api: tuple[int, int], body: bytes) -> bytes:
        """Send one request, and return its answer without the correlation id."""
        self._socket.sendall(encode_request(api, body))
        while not (answers := self._take_answers()):
            self._receive()
        return answers[0]

    def send(self) -> int:
        """Send requests until the greatest number is in flight, and wait for answers; return their number."""
        for _ in range(self._in_flight_max - self._in_flight):
            self._socket.sendall(next(self._requests))
        self._in_flight = self._in_flight_max
        return self._wait()

    def finish(self) -> int:
        """Wait for the answers to all requests, and close; return the number of these answers."""
        ended = 0
        while self._in_flight:
            ended += self._wait()
        self._socket.close()
        return ended

    def _wait(self) -> int:
        """Wait for answers to Produce; return their number. Raises `MeasureFailed` if one has an error."""
        while not (answers := self._take_answers()):
            self._receive()
        for answer in answers:
            [error] = struct.unpack_from(">h", answer, self._error_at)
            require(error == 0, f"Produce failed with the error {error}")
        self._in_flight -= len(answers)
        return len(answers)

    def _receive(self) -> None:
        """Wait for bytes of answers."""
        received = self._socket.recv(_READ_BYTES)
        require(bool(received), "the broker closed the connection")
        self._received += received

    def _take_answers(self) -> list[bytes]:
        """Return the complete answers among the received bytes, each without its correlation id."""
        data, at, found = self._received, 0, []
        while at + _LENGTH.size <= len(data):
            [size] = _LENGTH.unpack_from(data, at)
            end = at + _LENGTH.size + size
            if end > len(data):
                break
            found.append(data[at + 2 * _LENGTH.size : end])
            at = end
        self._received = data[at:]
        return found


def _encode_produce(topic: bytes, batch: bytes) -> bytes:
    """Return a Produce request with acks -1 and one batch for partition 0."""
    head = struct.pack(">hhii", -1, -1, _TIMEOUT_MS, 1) + struct.pack(">h", len(topic)) + topic
    return encode_request(_PRODUCE, head + struct.pack(">iii", 1, 0, len(batch)) + batch)


def produce(
    address: str,
    topic: str,
    in_flight: int,
    records: int,
    warm_s: float,
    seconds: float,
    login: dict[str, str],
) -> dict[str, Any]:
    """Send batches of `records` × 100 random bytes as fast as the broker takes them; in a child process.

    `login` may have `user` and `password` for a login by SCRAM, and the path of an `authority` for TLS. In the result,
    `batches` is the number of all acknowledged ones."""
    producer = _Producer(address, topic, login.get("authority", ""), in_flight, records)
    if "user" in login:
        steps = ScramClient(login["user"], login["password"]).log_in_steps()
        request: Request | None = next(steps)
        while request is not None:
            request = next_request(steps, producer.ask(*request))
    ended, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + warm_s:
        ended += producer.send()
    before, began, cpu_s = ended, time.perf_counter(), time.process_time()
    while (now := time.perf_counter()) < began + seconds:
        ended += producer.send()
    counted = ended - before
    cpu_s = time.process_time() - cpu_s
    return {
        "batches_per_s": counted / (now - began),
        "batches": ended + producer.finish(),
        "client_cpu_ms_per_batch": 1000 * cpu_s / max(1, counted),
    }
