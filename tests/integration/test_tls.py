"""Real brokers with TLS on every listener: clients of HTTP and Kafka, wrong clients, and renewed certificates."""

import asyncio
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import kafka  # type: ignore[import-untyped]
import pytest

from raftlog.client import BrokerAddresses, BrokerClient, Producer, sync
from raftlog.loadgen import LoadMode, LoadPlan, Mix
from raftlog.loadgen.session import run_session
from raftlog.security.client_tls import ClientTlsFiles, client_context
from raftlog.testing import process_start
from raftlog.testing.errors import BrokerFailed
from raftlog.testing.http import ask
from raftlog.testing.process import PROGRAM
from tests.forked.client import ForkedProcess
from tests.forked.commands import run_raftlog
from tests.security.certificates import create
from tests.waiting import block_until


class SecureBroker(NamedTuple):
    """Running broker, with its files."""

    http: str
    kafka: str
    authority: str
    alice: ClientTlsFiles
    directory: Path
    process: "ForkedProcess | subprocess.Popen[bytes]"

    @property
    def port(self) -> int:
        return int(self.http.rpartition(":")[2])

    def get(self, path: str, context: ssl.SSLContext | None = None) -> tuple[int, Any]:
        context = context or client_context(ClientTlsFiles(self.authority))
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=10, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def wait_for(self, name: str) -> dict[str, Any]:
        """Wait for an event in the broker's log; return its fields."""

        def find() -> list[dict[str, Any]]:
            text = (self.directory / "log").read_text()
            whole = text[: text.rfind("\n") + 1]  # the last line may be incomplete
            return [fields for fields in map(json.loads, whole.splitlines()) if fields["event"] == name]

        return block_until(find, lambda: name)[0]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecureBroker]:
    authority, node, clients = create(tmp_path / "tls", "alice")
    tls = ("--tls-certificate", node.certificate, "--tls-key", node.key, "--tls-authority", authority)
    free = ("--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--log-format", "json", "--auto-create-topics")
    command = [
        sys.executable,
        *PROGRAM,
        "serve",
        "--data-dir",
        f"{tmp_path}/data",
        *free,
        *tls,
        "--client-certificates",
        "optional",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = process_start.start(command, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    try:
        ready = json.loads(process.stdout.readline())
        alice = ClientTlsFiles(authority, clients["alice"].certificate, clients["alice"].key)
        yield SecureBroker(ready["http"], ready["kafka"], authority, alice, tmp_path, process)
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()


def test_http_is_served_with_tls_only(broker: SecureBroker, tmp_path: Path) -> None:
    assert broker.http.startswith("https://127.0.0.1:")
    assert broker.get("/v1/status/ready")[0] == 200
    assert broker.get("/v1/brokers")[1][0]["http_address"] == broker.http
    other, _, _ = create(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        broker.get("/", client_context(ClientTlsFiles(other)))
    plain = http.client.HTTPConnection("localhost", broker.port, timeout=10)
    plain.request("GET", "/")
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()
    plain.close()
    assert broker.wait_for("tls_handshake_failed")["listener"] == "http"


def _with_librdkafka(address: str, tls: ClientTlsFiles) -> list[bytes]:
    files = {"ssl.ca.location": tls.authority, "ssl.certificate.location": tls.certificate, "ssl.key.location": tls.key}
    settings = {"bootstrap.servers": address, "security.protocol": "SSL", **files}
    producer = confluent_kafka.Producer(settings)
    for number in range(1_000):
        producer.produce("orders", b"%d" % number * 100)
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    until = time.monotonic() + 20
    while len(found) < 1_000 and time.monotonic() < until:
        found += [message.value() or b"" for message in consumer.consume(1_000, 0.5)]
    consumer.close()
    return found


def _with_kafka_python(address: str, tls: ClientTlsFiles) -> list[bytes]:
    settings = {
        "bootstrap_servers": address,
        "security_protocol": "SSL",
        "ssl_cafile": tls.authority,
        "ssl_certfile": tls.certificate,
        "ssl_keyfile": tls.key,
    }
    producer = kafka.KafkaProducer(**settings)
    sent = [producer.send("orders", b"%d" % number * 100) for number in range(1_000)]
    for each in sent:
        each.get(20)
    producer.close()
    consumer = kafka.KafkaConsumer("orders", auto_offset_reset="earliest", consumer_timeout_ms=3_000, **settings)
    found = [record.value for _, record in zip(range(1_000), consumer, strict=False)]
    consumer.close()
    return found


def _with_kcat(address: str, tls: ClientTlsFiles) -> list[bytes]:
    settings = {"security.protocol": "SSL", "ssl.ca.location": tls.authority}
    flags = [
        "kcat",
        "-b",
        address,
        "-t",
        "orders",
        *(each for pair in settings.items() for each in ("-X", "=".join(map(str, pair)))),
    ]
    given = b"\n".join(b"%d" % number * 100 for number in range(1_000))
    subprocess.run([*flags, "-P"], input=given, check=True, timeout=30)
    return subprocess.run([*flags, "-C", "-e", "-q"], capture_output=True, check=True, timeout=30).stdout.splitlines()


@pytest.mark.parametrize("client", [_with_librdkafka, _with_kafka_python, _with_kcat])
def test_kafka_clients_use_tls(broker: SecureBroker, client: Callable[[str, ClientTlsFiles], list[bytes]]) -> None:
    assert client(broker.kafka, broker.alice) == [b"%d" % number * 100 for number in range(1_000)]


def test_certificates_are_renewed_under_load_without_a_failed_request(broker: SecureBroker) -> None:
    """Some clients keep their connection, others open one for each request; all trust both authorities."""
    both = broker.directory / "both.pem"
    new_authority, renewed, _ = create(broker.directory / "new")
    both.write_bytes(Path(broker.authority).read_bytes() + Path(new_authority).read_bytes())
    failures: list[BaseException] = []
    counts = {"kept": 0, "new": 0}
    ended = threading.Event()

    def ask(kind: str) -> None:
        context = client_context(ClientTlsFiles(str(both)))
        connection = http.client.HTTPSConnection("localhost", broker.port, timeout=10, context=context)
        try:
            while not ended.is_set():
                connection.request("GET", "/v1/status/ready")
                with connection.getresponse() as answer:
                    assert answer.read()
                    assert answer.status == 200
                counts[kind] += 1
                if kind == "new":
                    connection.close()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)
        finally:
            connection.close()

    def wait_for_requests(count: int) -> None:
        """Wait until clients of both kinds have got `count` further answers, or one has failed."""
        wanted = {kind: answered + count for kind, answered in counts.items()}
        block_until(lambda: failures or all(counts[kind] >= wanted[kind] for kind in counts), lambda: counts)

    threads = [threading.Thread(target=ask, args=(kind,)) for kind in ("kept", "new", "new")]
    for thread in threads:
        thread.start()
    try:
        wait_for_requests(20)
        os.replace(renewed.certificate, broker.directory / "tls" / "node-1.pem")
        os.replace(renewed.key, broker.directory / "tls" / "node-1.key")
        broker.wait_for("tls_reloaded")
        wait_for_requests(20)
    finally:
        ended.set()
        for thread in threads:
            thread.join(10)
    assert failures == []
    assert broker.get("/", client_context(ClientTlsFiles(new_authority)))[0] == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        broker.get("/", client_context(ClientTlsFiles(broker.authority)))


def test_a_broken_file_keeps_the_old_certificate(broker: SecureBroker) -> None:
    (broker.directory / "tls" / "node-1.pem").write_text("garbage")
    broker.process.send_signal(signal.SIGHUP)
    assert "PEM" in broker.wait_for("tls_reload_failed")["why"]
    assert broker.get("/v1/status/ready")[0] == 200


def _run(broker: SecureBroker, *args: str, ca: str | None = None) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "RAFTLOG_BOOTSTRAP": broker.http, "RAFTLOG_CA": ca or broker.authority}
    return run_raftlog(*args, given="a\nb\n", env=environment)


def test_commands_use_tls_and_check_the_broker(broker: SecureBroker, tmp_path: Path) -> None:
    assert _run(broker, "topic", "create", "orders").returncode == 0
    assert _run(broker, "produce", "orders").returncode == 0
    assert sorted(_run(broker, "consume", "orders", "--no-follow").stdout.split()) == ["a", "b"]
    other, _, _ = create(tmp_path / "other")
    refused = _run(broker, "topic", "list", ca=other)
    assert refused.returncode == 1
    assert "its certificate is not trusted" in refused.stderr
    assert "(--ca FILE)" in refused.stderr


async def test_both_clients_use_tls(broker: SecureBroker) -> None:
    alice = broker.alice
    bootstrap = BrokerAddresses(broker.http, ca=broker.authority, certificate=alice.certificate, key=alice.key)
    async with BrokerClient(bootstrap) as client:
        await client.create_topic("orders", 1)
    async with Producer(bootstrap) as producer:
        await producer.send("orders", b"one")

    def read() -> int:
        with sync.BrokerClient(bootstrap) as client:
            assert [each.http for each in client.brokers()] == [broker.http]
            return int(client.offsets("orders", 0).end)

    assert await asyncio.to_thread(read) == 1


def test_loads_and_requests_of_tests_use_tls(broker: SecureBroker) -> None:
    alice = broker.alice
    access = BrokerAddresses(broker.http, ca=broker.authority, certificate=alice.certificate, key=alice.key)
    assert ask(broker.http, "/v1/status/ready", access=access)[0] == 200
    with pytest.raises(BrokerFailed, match=r"https://127\.0\.0\.1:\d+/v1/status/ready: .*CERTIFICATE_VERIFY_FAILED"):
        ask(broker.http, "/v1/status/ready")
    plan = LoadPlan(mode=LoadMode.CLOSED, seconds=1.0, mix=Mix.parse("send=1,poll=1"), value_bytes=40_000)
    result = run_session(plan, access, None, 2, 1, warm_s=0.2)
    assert result.succeeded > 20
    assert result.between is not None, "the counters of the brokers are read with TLS"
