"""Hostile and mistaken clients of a real broker with TLS and logins.

Random and replayed exchanges, old versions of TLS, another host name, expired certificates."""

import asyncio
import contextlib
import os
import random
import signal
import ssl
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

import confluent_kafka
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from scramp import ScramClient

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.client import BrokerAddresses
from raftlog.client.sync import BrokerClient
from raftlog.errors import RaftlogError
from raftlog.security.authority import PrivateAuthority
from raftlog.security.client_tls import ClientTlsFiles, client_context
from raftlog.security.sasl import MECHANISMS
from raftlog.testing import BrokerProcess, Cluster
from raftlog.testing.http import ask
from tests.kafka.harness import make_request
from tests.security.test_sasl import SEEDS, mutate
from tests.waiting import block_until

_SIZE: Final = Struct(">i")
_CORRELATION_BYTES: Final = 4
ADDRESSES: Final = 2_000
"""Source addresses of the fuzzer, because failures of one address are slowed down."""
AT_ONCE: Final = 64
SCRAM: Final = "SCRAM-SHA-256"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, secure=True) as cluster:
        yield cluster


def trusting(cluster: Cluster) -> ssl.SSLContext:
    assert cluster.security is not None
    return client_context(ClientTlsFiles(cluster.security.ca))


class KafkaClient:
    """Connection to a Kafka listener with TLS, from an address of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, address: str, context: ssl.SSLContext, source: str = "127.0.0.1") -> "KafkaClient":
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), ssl=context, local_addr=(source, 0)))

    async def send(self, frame: bytes) -> bytes | None:
        """Return the answer without its header; None if the broker ends the connection."""
        try:
            self._writer.write(frame)
            (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
            return (await self._reader.readexactly(size))[_CORRELATION_BYTES:]
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return None

    async def handshake(self, mechanism: str) -> int | None:
        body = SaslHandshakeRequest(mechanism=mechanism).encode(version=1)
        found = await self.send(make_request(ApiKey.SASL_HANDSHAKE, 1, body))
        return None if found is None else int(SaslHandshakeResponse.decode(found, version=1).error_code)

    async def authenticate(self, token: bytes) -> tuple[int, bytes] | None:
        """Return the error code and the answer's data; None if the broker ends the connection."""
        body = SaslAuthenticateRequest(auth_bytes=token).encode(version=1)
        found = await self.send(make_request(ApiKey.SASL_AUTHENTICATE, 1, body))
        if found is None:
            return None
        answer = SaslAuthenticateResponse.decode(found, version=1)
        return int(answer.error_code), bytes(answer.auth_bytes or b"")

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self._writer.wait_closed()


def source_of(number: int) -> str:
    return f"127.{1 + number // 250 % 200}.{number % 250}.7"


async def fuzz(cluster: Cluster, exchanges: int, seed: int) -> int:
    """Run random exchanges; return the number of answers. No token may log in."""
    rng, context = random.Random(seed), trusting(cluster)
    left, answered = iter(range(exchanges)), 0

    async def exchange(number: int) -> int:
        client = await KafkaClient.connect(cluster.nodes[1].kafka, context, source_of(number % ADDRESSES))
        answers = 0
        try:
            if rng.randrange(10) == 0:
                answers += await client.send(mutate(make_request(ApiKey.SASL_HANDSHAKE, 1, SEEDS[0]), rng)) is not None
            if await client.handshake(rng.choice(MECHANISMS)) is None:
                return answers
            for _ in range(3):
                message = mutate(rng.choice(SEEDS), rng)
                found = await client.authenticate(message)
                if found is None:
                    break
                answers += 1
                code, data = found
                assert code != 0 or data.startswith(b"r="), f"{message!r} logged in"
        finally:
            await client.close()
        return answers

    async def work() -> None:
        nonlocal answered
        for number in left:
            async with asyncio.timeout(60):
                found = await exchange(number)
            answered += found

    await asyncio.gather(*(work() for _ in range(min(AT_ONCE, exchanges))))
    return answered


def check_fuzz(cluster: Cluster, exchanges: int, seed: int) -> None:
    answered = asyncio.run(fuzz(cluster, exchanges, seed))
    assert answered > exchanges // 2
    log = cluster.logs()[1]
    assert "Traceback" not in log
    assert "a handler of" not in log
    assert '"event": "authenticated"' not in "\n".join(line for line in log.splitlines() if '"kafka"' in line)
    with BrokerClient(cluster.access) as client:
        assert client.health().is_healthy


def test_random_exchanges_through_tls_log_nobody_in(cluster: Cluster) -> None:
    check_fuzz(cluster, 100, seed=27)


@pytest.mark.slow
def test_ten_thousand_random_exchanges_through_tls_log_nobody_in(cluster: Cluster) -> None:
    check_fuzz(cluster, 10_000, seed=2028)


async def test_replayed_messages_of_scram_log_nobody_in(cluster: Cluster) -> None:
    """The messages of a successful login, sent again on another connection, are refused."""
    assert cluster.security is not None
    context, address = trusting(cluster), cluster.nodes[1].kafka
    scram = ScramClient([SCRAM], cluster.security.user, cluster.security.password())
    recorded = [scram.get_client_first().encode()]
    client = await KafkaClient.connect(address, context)
    assert await client.handshake(SCRAM) == 0
    challenge = await client.authenticate(recorded[0])
    assert challenge is not None
    scram.set_server_first(challenge[1].decode())
    recorded.append(scram.get_client_final().encode())
    proved = await client.authenticate(recorded[1])
    assert proved is not None
    assert proved[0] == 0
    scram.set_server_final(proved[1].decode())
    await client.close()
    replaying = await KafkaClient.connect(address, context)
    assert await replaying.handshake(SCRAM) == 0
    again = await replaying.authenticate(recorded[0])
    assert again is not None
    assert again[0] == 0
    assert again[1] != challenge[1], "a nonce was used twice"
    refused = await replaying.authenticate(recorded[1])
    assert refused is not None
    assert refused[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    await replaying.close()


@pytest.mark.parametrize("listener", ["http", "kafka"])
async def test_downgraded_tls_is_refused(cluster: Cluster, listener: str) -> None:
    node = cluster.nodes[1]
    host, _, port = (node.kafka if listener == "kafka" else node.http.removeprefix("https://")).rpartition(":")
    old, weak = trusting(cluster), trusting(cluster)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("AES128-SHA:AES256-GCM-SHA384:@SECLEVEL=0")
    for context in (old, weak):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(host, int(port), ssl=context)
    current = trusting(cluster)
    current.maximum_version = ssl.TLSVersion.TLSv1_2
    _, writer = await asyncio.open_connection(host, int(port), ssl=current)
    writer.close()
    await writer.wait_closed()


def issue(
    directory: Path, names: list[x509.GeneralName], seconds: float, stem: str = "node-1"
) -> tuple[str, list[str]]:
    """Issue a certificate of a broker; return the authority, and the flags of `serve`."""
    authority = PrivateAuthority(str(directory))
    usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    issued = authority._issue(stem, "raftlog node 1", names, usages, seconds / 86_400)  # type: ignore[arg-type]
    return authority.certificate, ["--tls-certificate", issued.certificate, "--tls-key", issued.key]


LEFT_S = 6.0
"""Time until a certificate expires, in which a broker loads it."""


def refusal_of_librdkafka(kafka: str, ca: str) -> str:
    """Return the first reason for which librdkafka refuses a broker."""
    reasons: list[str] = []
    settings = {"bootstrap.servers": kafka, "security.protocol": "SSL", "ssl.ca.location": ca}
    producer = confluent_kafka.Producer({**settings, "error_cb": lambda error: reasons.append(error.str())})
    until = time.monotonic() + 20
    while not reasons and time.monotonic() < until:
        producer.poll(0.1)
    return reasons[0]


def test_a_broker_with_another_host_name_is_refused(tmp_path: Path) -> None:
    """The certificate is of the trusted authority, and names another host than the one that clients connect to."""
    ca, flags = issue(tmp_path / "tls", [x509.DNSName("db1.example.com")], 86_400)
    with BrokerProcess(tmp_path / "data", *flags, "--kafka", "127.0.0.1:0") as process:
        ready = process.start()
        access = BrokerAddresses(ready["http"], ca=ca)
        with pytest.raises(RaftlogError, match="IP address mismatch"), BrokerClient(access) as client:
            client.brokers()
        assert "certificate verify failed" in refusal_of_librdkafka(ready["kafka"], ca)


def test_an_expired_certificate_is_reported_and_refused(tmp_path: Path) -> None:
    """Expiry while the broker runs: clients refuse new connections, and health names the certificate."""
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    ca, flags = issue(tmp_path / "tls", names, 86_400)
    with BrokerProcess(tmp_path / "data", *flags, "--kafka", "127.0.0.1:0") as process:
        http = process.start()["http"].replace("127.0.0.1", "localhost")
        access = BrokerAddresses(http, ca=ca)
        assert ask(http, "/v1/status/ready", access=access)[0] == 200
        expired_at = time.time() + LEFT_S + 1
        _, short = issue(tmp_path / "tls", names, LEFT_S, "node-1-short")
        for new, present in zip(short[1::2], flags[1::2], strict=True):
            os.replace(new, present)
        os.kill(process.pid, signal.SIGHUP)
        block_until(lambda: process.log_text().count('"tls_reloaded"') >= 2, process.log_text)
        block_until(lambda: time.time() > expired_at)
        with pytest.raises(RaftlogError, match="certificate has expired"), BrokerClient(access) as client:
            client.brokers()
        assert "certificate verify failed" in refusal_of_librdkafka(process.ready["kafka"], ca)
        trusting_all = client_context(ClientTlsFiles(ca))
        trusting_all.check_hostname, trusting_all.verify_mode = False, ssl.CERT_NONE
        health = asyncio.run(get(http, "/v1/cluster/health_overview", trusting_all))
        assert "the certificate of the listener http expired on" in health
        assert "certificate_expires" in process.log_text()
    with BrokerProcess(tmp_path / "data", *flags) as process, pytest.raises(RaftlogError, match="expired on"):
        process.start()


async def get(http: str, path: str, context: ssl.SSLContext) -> str:
    host, _, port = http.removeprefix("https://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text
