"""Unchanged Kafka clients log in to a real broker with each mechanism, or are refused."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import create_topic
from tests.kafka.clients.drivers import Kcat
from tests.security.tokens import AUDIENCE, ISSUER, TokenIssuer
from tests.waiting import block_until

ISSUING = TokenIssuer()
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WITHIN_S: Final = 20.0
TOPIC = "orders"


class Login(NamedTuple):
    """Credentials of a client: a password, or a token."""

    mechanism: str
    user: str = "alice"
    password: str = "pencil"
    token: str = ""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a broker whose Kafka listener requires a login; over HTTP it requires none."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_bytes(ISSUING.key_set())
    flags = ["--authentication", "kafka=required", "--authorization", "none", "--insecure"]
    flags += ["--oauth-jwks", str(keys), "--oauth-issuer", ISSUER, "--oauth-audience", AUDIENCE]
    with Cluster(1, serve_flags=flags) as cluster:
        cluster.wait_healthy()
        put_user(cluster, "alice", "pencil")
        create_topic(cluster.nodes[1].http, TOPIC, copies=1)
        yield cluster


def put_user(cluster: Cluster, name: str, password: str) -> None:
    body = {"name": name, "password": password}
    assert ask(cluster.nodes[1].http, "/v1/security/users", method="POST", body=body)[0] == 204


def count_records(cluster: Cluster) -> int:
    """Return the number of committed records; clients with acks=1 get their answer before."""
    status, offsets = ask(cluster.nodes[1].http, f"/topics/{TOPIC}/partitions/0/offsets")
    assert status == 200, offsets
    return int(offsets["end_offset"])


def token(**claims: Any) -> str:
    return ISSUING.token(**{"expires_at": time.time() + 300, **claims})


def by_librdkafka(cluster: Cluster, login: Login) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.kafka,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
    }
    if login.token:
        settings["oauth_cb"] = lambda _: (login.token, time.time() + 300)
    else:
        settings |= {"sasl.username": login.user, "sasl.password": login.password}
    refusals: list[str] = []
    producer = confluent_kafka.Producer({**settings, "error_cb": lambda error: refusals.append(error.name())})
    producer.produce(TOPIC, b"record")
    end = time.monotonic() + WITHIN_S
    while len(producer) and time.monotonic() < end and "_AUTHENTICATION" not in refusals:
        producer.poll(0.1)
    if len(producer):
        producer.purge()
        producer.poll(1)
        raise PermissionError(refusals)


def by_kcat(cluster: Cluster, login: Login) -> None:
    driver = Kcat(cluster)
    flags = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", f"sasl.mechanism={login.mechanism}"]
    flags += ["-X", f"sasl.username={login.user}", "-X", f"sasl.password={login.password}"]
    try:
        driver.run("-P", "-t", TOPIC, *flags, "-X", "message.timeout.ms=5000", sent=b"record\n")
    except AssertionError as error:
        if "authentication" in str(error).lower():
            raise PermissionError(str(error)) from None
        raise


class _AiokafkaTokens(AbstractTokenProvider):
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


class _KafkaPythonTokens(KafkaPythonTokenProvider):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def token(self) -> str:
        return self._text


def by_aiokafka(cluster: Cluster, login: Login) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.kafka,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=login.mechanism,
            sasl_plain_username=login.user,
            sasl_plain_password=login.password,
            sasl_oauth_token_provider=_AiokafkaTokens(login.token) if login.token else None,
        )
        try:
            async with asyncio.timeout(WITHIN_S):
                await producer.start()
                await producer.send_and_wait(TOPIC, b"record")
        except AiokafkaError as error:
            raise PermissionError(str(error)) from None
        finally:
            await producer.stop()

    asyncio.run(send())


def by_kafka_python(cluster: Cluster, login: Login) -> None:
    try:
        producer = kafka.KafkaProducer(
            bootstrap_servers=cluster.kafka,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=login.mechanism,
            sasl_plain_username=login.user,
            sasl_plain_password=login.password,
            sasl_oauth_token_provider=_KafkaPythonTokens(login.token) if login.token else None,
            max_block_ms=5_000,
        )
        try:
            producer.send(TOPIC, b"record").get(timeout=WITHIN_S)
        finally:
            producer.close(timeout=1)
    except KafkaError as error:
        raise PermissionError(str(error)) from None


Client = Callable[[Cluster, Login], None]
CLIENTS: Final = [by_librdkafka, by_kcat, by_aiokafka, by_kafka_python]
TOKEN_CLIENTS: Final = [by_librdkafka, by_aiokafka, by_kafka_python]


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_passwords(secured: Cluster, client: Client, mechanism: str) -> None:
    before = count_records(secured)
    client(secured, Login(mechanism))
    block_until(lambda: count_records(secured) == before + 1)


@pytest.mark.parametrize("client", TOKEN_CLIENTS)
def test_tokens(secured: Cluster, client: Client) -> None:
    before = count_records(secured)
    client(secured, Login("OAUTHBEARER", token=token()))
    block_until(lambda: count_records(secured) == before + 1)


@pytest.mark.parametrize("client", [by_librdkafka, by_kcat, by_aiokafka])
@pytest.mark.parametrize(
    "login",
    [
        Login("SCRAM-SHA-256", password="wrong"),
        Login("PLAIN", password="wrong"),
        Login("SCRAM-SHA-512", user="nobody"),
    ],
)
def test_wrong_passwords_and_unknown_users(secured: Cluster, client: Client, login: Login) -> None:
    with pytest.raises(PermissionError):
        client(secured, login)


def test_a_wrong_password_of_kafka_python(secured: Cluster) -> None:
    program = (
        "import logging, sys, kafka\n"
        "logging.basicConfig()\n"
        "kafka.KafkaProducer(bootstrap_servers=sys.argv[1], bootstrap_timeout_ms=12000,\n"
        "    security_protocol='SASL_PLAINTEXT', sasl_mechanism='SCRAM-SHA-256',\n"
        "    sasl_plain_username='alice', sasl_plain_password='wrong')"
    )
    # In a process of its own: a producer that fails leaves its sockets open. Refusals may wait for earlier ones.
    done = subprocess.run(
        [sys.executable, "-c", program, secured.kafka], capture_output=True, timeout=60, check=False, text=True
    )
    assert done.returncode != 0
    assert "authentication failed: unknown user or wrong password" in done.stderr, done.stderr


@pytest.mark.parametrize("claims", [{"expires_at": time.time() - 1}, {"aud": "other"}, {"iss": "other"}])
def test_tokens_that_are_refused(secured: Cluster, claims: dict[str, Any]) -> None:
    with pytest.raises(PermissionError):
        by_aiokafka(secured, Login("OAUTHBEARER", token=token(**claims)))


def test_clients_without_a_login(secured: Cluster) -> None:
    with pytest.raises(confluent_kafka.KafkaException):
        AdminClient({"bootstrap.servers": secured.kafka}).list_topics(timeout=3)


def test_users_by_kafkas_protocol(secured: Cluster) -> None:
    settings = {
        "bootstrap.servers": secured.kafka,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "pencil",
    }
    admin = AdminClient(settings)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    changes = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"rubber")])
    changes["bob"].result(WITHIN_S)
    found = admin.describe_user_scram_credentials(["bob"])["bob"].result(WITHIN_S)
    assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_512, 8192)
    ]
    by_librdkafka(secured, Login("SCRAM-SHA-512", "bob", "rubber"))
    by_librdkafka(secured, Login("PLAIN", "bob", "rubber"))
    with pytest.raises(PermissionError):
        by_librdkafka(secured, Login("SCRAM-SHA-256", "bob", "rubber"))


def test_a_deleted_user_is_cut_off_within_5_s(secured: Cluster) -> None:
    put_user(secured, "carol", "pencil")
    refusals: list[str] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": secured.kafka,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "carol",
            "sasl.password": "pencil",
            "error_cb": lambda error: refusals.append(error.name()),
        }
    )
    producer.produce(TOPIC, b"record")
    assert producer.flush(WITHIN_S) == 0
    assert ask(secured.nodes[1].http, "/v1/security/users/carol", method="DELETE")[0] == 204
    began = time.monotonic()
    while "_AUTHENTICATION" not in refusals and time.monotonic() - began < 10:
        producer.poll(0.1)
    assert time.monotonic() - began < 5, "the idle connection is closed, and the next login is refused"
    producer.purge()


def test_the_log_has_the_logins_and_no_password(secured: Cluster) -> None:
    by_aiokafka(secured, Login("SCRAM-SHA-256"))
    by_aiokafka(secured, Login("OAUTHBEARER", token=token()))
    with pytest.raises(PermissionError):
        by_aiokafka(secured, Login("SCRAM-SHA-256", password="pencils"))
    log = (secured.directory / "1.log").read_text()
    assert "authenticated" in log
    assert "authentication_failed" in log
    assert "pencil" not in log
    assert "eyJ" not in log, "a token"
