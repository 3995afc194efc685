"""Logins of Kafka connections without sockets: order of requests, bare tokens, second logins, and ends."""

import asyncio
import time
from struct import Struct

import pytest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from scramp import ScramClient

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.connection import KafkaConnection
from raftlog.api.kafka.login import FRAME_BYTES_MAX, LOGIN_S
from raftlog.partitions.security.authenticator import Authenticator
from raftlog.partitions.security.bearer_keys import BearerKeys
from raftlog.security.bearer import BearerSettings, BearerVerifier
from raftlog.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN
from tests.kafka.harness import Edge, RecordingTransport, feed, make_frame, make_request, parse_answers
from tests.security.tokens import AUDIENCE, ISSUER, TokenIssuer
from tests.security.users import FakeUsers
from tests.waiting import until

ISSUING = TokenIssuer()
_SIZE = Struct(">i")
RIGHT = b"\0alice\0pencil"


class Listener:
    """Listener that requires a login, with the user alice."""

    def __init__(self, *, is_insecure: bool = True) -> None:
        self.users = FakeUsers()
        self.users.put("alice", "pencil")
        self.users.put("bob", "rubber")
        self.now_ms = int(time.time() * 1000)
        authenticator = Authenticator(self.users, lambda: self.now_ms, lambda: None)
        verifier = BearerVerifier(BearerSettings("keys", ISSUER, AUDIENCE), lambda source: ISSUING.key_set())
        authenticator.bearer = BearerKeys(verifier)
        self.edge = Edge(authentication=ListenerAuthentication(authenticator, MECHANISMS, is_insecure))
        self.edge.is_immediate = True

    def connect(self) -> "Client":
        return Client(*self.edge.connect())

    def token(self, subject: str = "alice", seconds: float = 60) -> bytes:
        token = ISSUING.token(subject, expires_at=self.now_ms / 1000 + seconds)
        return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


class Client:
    """Client of one connection."""

    def __init__(self, connection: KafkaConnection, transport: RecordingTransport) -> None:
        self.connection, self.transport = connection, transport

    @property
    def principal(self) -> str:
        return self.connection.caller.principal

    async def send(self, data: bytes) -> bytes:
        """Send bytes, and return what the broker writes until it waits for the next request."""
        begin = len(self.transport.written)
        feed(self.connection, data)
        await until(lambda: self.connection.is_idle or self.transport.is_closed)
        return self.transport.written[begin:]

    async def wait_until_closed(self) -> None:
        """Wait for the end of the connection, which follows the answer to a failed login."""
        await until(lambda: self.transport.is_closed)

    async def handshake(self, mechanism: str, version: int = 1) -> tuple[int, list[str]]:
        body = SaslHandshakeRequest(mechanism=mechanism).encode(version=version)
        [(_, content)] = parse_answers(await self.send(make_request(ApiKey.SASL_HANDSHAKE, version, body)))
        answer = SaslHandshakeResponse.decode(content, version=version)
        return answer.error_code, list(answer.mechanisms)

    async def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        body = SaslAuthenticateRequest(auth_bytes=token).encode(version=version)
        [(_, content)] = parse_answers(await self.send(make_request(ApiKey.SASL_AUTHENTICATE, version, body)))
        return SaslAuthenticateResponse.decode(content[1:] if version == 2 else content, version=version)

    async def log_in(self, mechanism: str, token: bytes) -> int:
        assert (await self.handshake(mechanism))[0] == 0
        return int((await self.authenticate(token)).error_code)

    async def fetch(self) -> bytes:
        return await self.send(make_request(ApiKey.FETCH, 4, b"body"))


@pytest.fixture
async def listener() -> Listener:
    return Listener()


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_plain(listener: Listener, version: int) -> None:
    client = listener.connect()
    assert await client.send(make_request(ApiKey.API_VERSIONS, 0))
    assert await client.handshake(PLAIN) == (0, list(MECHANISMS))
    answer = await client.authenticate(RIGHT, version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, None, b"")
    assert client.principal == "alice"
    assert await client.fetch()
    assert listener.edge.seen[-1].caller.principal == "alice"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram(listener: Listener, mechanism: str) -> None:
    client, scram = listener.connect(), ScramClient([mechanism], "alice", "pencil")
    await client.handshake(mechanism)
    first = await client.authenticate(scram.get_client_first().encode())
    scram.set_server_first(first.auth_bytes.decode())
    assert client.principal == "ANONYMOUS"
    final = await client.authenticate(scram.get_client_final().encode())
    scram.set_server_final(final.auth_bytes.decode())
    assert client.principal == "alice"
    assert final.session_lifetime_ms == 0
    assert await client.fetch()


async def test_other_requests_before_the_login_end_the_connection(listener: Listener) -> None:
    for before in (0, 1):
        client = listener.connect()
        if before:
            await client.handshake(PLAIN)
        assert await client.fetch() == b""
        await client.wait_until_closed()
    assert not listener.edge.seen


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0nobody\0pencil", b"", b"garbage"])
async def test_a_failed_login_is_answered_and_then_closed(listener: Listener, token: bytes) -> None:
    client = listener.connect()
    await client.handshake(PLAIN)
    answer = await client.authenticate(token)
    assert answer.error_code == 58
    assert answer.error_message.startswith("authentication failed")
    await client.wait_until_closed()


async def test_a_mechanism_that_is_not_offered(listener: Listener) -> None:
    client = listener.connect()
    assert await client.handshake("GSSAPI") == (33, list(MECHANISMS))
    await client.wait_until_closed()


async def test_plain_needs_tls() -> None:
    client = Listener(is_insecure=False).connect()
    code, offered = await client.handshake(PLAIN)
    assert code == 33
    assert offered == [name for name in MECHANISMS if name != PLAIN]


async def test_requests_out_of_order(listener: Listener) -> None:
    client = listener.connect()
    assert (await client.authenticate(RIGHT)).error_code == 34
    await client.wait_until_closed()
    client = listener.connect()
    await client.handshake(PLAIN)
    assert (await client.handshake(PLAIN))[0] == 34
    await client.wait_until_closed()


async def test_bare_tokens_after_version_0(listener: Listener) -> None:
    client, scram = listener.connect(), ScramClient(["SCRAM-SHA-256"], "alice", "pencil")
    await client.handshake("SCRAM-SHA-256", version=0)

    async def exchange(text: str) -> str:
        data = await client.send(make_frame(text.encode()))
        assert _SIZE.unpack_from(data)[0] == len(data) - 4
        return data[4:].decode()

    scram.set_server_first(await exchange(scram.get_client_first()))
    scram.set_server_final(await exchange(scram.get_client_final()))
    assert client.principal == "alice"
    assert await client.fetch()


async def test_a_wrong_bare_token_has_no_answer(listener: Listener) -> None:
    for token in (b"\0alice\0wrong", b"", b"x" * 100_000):
        client = listener.connect()
        await client.handshake(PLAIN, version=0)
        assert await client.send(make_frame(token)) == b""
        await client.wait_until_closed()


async def test_a_short_token_without_a_mechanism_header_logs_in(listener: Listener) -> None:
    listener.users.put("a", "b")
    client = listener.connect()
    await client.handshake(PLAIN, version=0)
    assert await client.send(make_frame(b"\0a\0b")) == bytes(4)
    assert client.principal == "a"


async def test_large_frames_are_refused_only_before_the_login(listener: Listener) -> None:
    client = listener.connect()
    await client.send(_SIZE.pack(FRAME_BYTES_MAX + 1) + bytes(100))
    await client.wait_until_closed()
    client = listener.connect()
    await client.log_in(PLAIN, RIGHT)
    assert await client.send(make_request(ApiKey.FETCH, 4, bytes(FRAME_BYTES_MAX * 2)))


async def test_tokens_that_expire(listener: Listener) -> None:
    client = listener.connect()
    await client.handshake(OAUTHBEARER)
    answer = await client.authenticate(listener.token(seconds=60))
    assert answer.error_code == 0
    assert 55_000 < answer.session_lifetime_ms <= 60_000
    assert await client.fetch()
    listener.now_ms += 40_000
    assert await client.log_in(OAUTHBEARER, listener.token(seconds=60)) == 0
    listener.now_ms += 40_000
    assert await client.fetch(), "the second token counts"
    listener.now_ms += 40_000
    assert await client.fetch() == b""
    await client.wait_until_closed()


async def test_an_expired_token(listener: Listener) -> None:
    assert await listener.connect().log_in(OAUTHBEARER, listener.token(seconds=-1)) == 58


async def test_a_second_login_keeps_the_principal(listener: Listener) -> None:
    client = listener.connect()
    await client.log_in(PLAIN, RIGHT)
    assert await client.log_in(PLAIN, RIGHT) == 0
    assert await client.log_in(PLAIN, b"\0bob\0rubber") == 58
    await client.wait_until_closed()
    assert client.principal == "alice"


async def test_only_tokens_during_a_second_login(listener: Listener) -> None:
    client = listener.connect()
    await client.log_in(PLAIN, RIGHT)
    await client.handshake(PLAIN)
    assert await client.fetch() == b""
    assert client.transport.is_closed


async def test_a_second_login_by_version_0(listener: Listener) -> None:
    client = listener.connect()
    await client.log_in(PLAIN, RIGHT)
    assert (await client.handshake(PLAIN, version=0))[0] == 34


async def test_a_deleted_user_is_cut_off(listener: Listener) -> None:
    waiting, asking = listener.connect(), listener.connect()
    for client in (waiting, asking):
        await client.log_in(PLAIN, RIGHT)
    now = asyncio.get_running_loop().time()
    waiting.connection.check_login(now)
    assert not waiting.transport.is_closed
    listener.users.delete("alice")
    assert await asking.fetch() == b""
    assert asking.transport.is_closed
    waiting.connection.check_login(now)
    assert waiting.transport.is_closed


async def test_a_connection_without_a_login_ends(listener: Listener) -> None:
    client = listener.connect()
    now = asyncio.get_running_loop().time()
    client.connection.check_login(now + LOGIN_S - 1)
    assert not client.transport.is_closed
    client.connection.check_login(now + LOGIN_S + 1)
    assert client.transport.is_closed


async def test_requests_that_are_sent_with_the_login_begin_after_it(listener: Listener) -> None:
    client = listener.connect()
    await client.handshake(PLAIN)
    body = SaslAuthenticateRequest(auth_bytes=RIGHT).encode(version=0)
    data = make_request(ApiKey.SASL_AUTHENTICATE, 0, body, 1) + make_request(ApiKey.FETCH, 4, b"body", 2)
    assert [number for number, _ in parse_answers(await client.send(data))] == [1, 2]
    assert listener.edge.seen[-1].caller.principal == "alice"


async def test_without_a_required_login_nothing_changes() -> None:
    edge = Edge()
    connection, _ = edge.connect()
    assert connection.login is None
