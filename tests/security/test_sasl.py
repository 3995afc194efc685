"""SASL exchanges without I/O: each mechanism, scramp as the client, malformed, repeated and random messages."""

import random
from base64 import b64encode

import pytest
from scramp import ScramClient

from raftlog.errors import AuthenticationFailed
from raftlog.security.credentials import PASSWORD_BYTES_MAX, ScramCredential, ScramMechanism, from_password
from raftlog.security.sasl import (
    MECHANISMS,
    MESSAGE_BYTES_MAX,
    OAUTHBEARER,
    PLAIN,
    SCRAM_MECHANISMS,
    TOKEN_BYTES_MAX,
    Challenge,
    PasswordCheck,
    Proved,
    SaslExchange,
    TokenCheck,
    make_exchange,
    parse_bearer_token,
)

CREDENTIALS = {mechanism: from_password(mechanism, "pencil") for mechanism in ScramMechanism}


def find(user: str, mechanism: ScramMechanism) -> ScramCredential | None:
    return CREDENTIALS[mechanism] if user == "user" else None


def begin(mechanism: str) -> SaslExchange:
    return make_exchange(mechanism, find, b"secret")


def test_plain() -> None:
    exchange = begin(PLAIN)
    assert exchange.step(b"\0user\0pencil") == PasswordCheck("user", "pencil")
    assert exchange.user == "user"
    assert begin(PLAIN).step("user\0user\0pä:ss".encode()) == PasswordCheck("user", "pä:ss")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"user\0pencil",
        b"\0user\0pencil\0",
        b"\0\0pencil",
        b"\0user\0",
        b"other\0user\0pencil",
        b"\0us\xffer\0pencil",
        b"\0user\0" + b"p" * (PASSWORD_BYTES_MAX + 1),
        b"\0" + b"u" * 257 + b"\0pencil",
    ],
)
def test_malformed_plain(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        begin(PLAIN).step(message)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_scram_with_scramp(mechanism: str) -> None:
    client, exchange = ScramClient([mechanism], "user", "pencil"), begin(mechanism)
    challenge = exchange.step(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    proved = exchange.step(client.get_client_final().encode())
    assert isinstance(proved, Proved)
    assert proved.user == "user"
    client.set_server_final(proved.data.decode())  # raises unless the broker proved to know the credential


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("user", "wrong"), ("nobody", "pencil")])
def test_scram_refuses_after_the_same_steps(mechanism: str, user: str, password: str) -> None:
    client, exchange = ScramClient([mechanism], user, password), begin(mechanism)
    challenge = exchange.step(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    with pytest.raises(AuthenticationFailed, match="unknown user or wrong password"):
        exchange.step(client.get_client_final().encode())


def test_replayed_scram_messages_are_refused() -> None:
    mechanism = "SCRAM-SHA-256"
    client, exchange = ScramClient([mechanism], "user", "pencil"), begin(mechanism)
    first = client.get_client_first().encode()
    challenge = exchange.step(first)
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    final = client.get_client_final().encode()
    exchange.step(final)
    for message in (final, first):
        with pytest.raises(AuthenticationFailed, match="has ended"):
            exchange.step(message)
    other = begin(mechanism)
    other.step(first)
    with pytest.raises(AuthenticationFailed, match="does not belong"):
        other.step(final)


def test_bearer() -> None:
    exchange = begin(OAUTHBEARER)
    message = b"n,a=al=2Cice,\x01auth=Bearer abc.def.ghi\x01traceId=1-2\x01\x01"
    assert exchange.step(message) == TokenCheck("abc.def.ghi", "al,ice")
    assert begin(OAUTHBEARER).step(b"n,,\x01auth=bearer abc\x01\x01") == TokenCheck("abc", "")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer abc\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,a==,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * (TOKEN_BYTES_MAX + 1) + b"\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * MESSAGE_BYTES_MAX + b"\x01\x01",
    ],
)
def test_malformed_bearer(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        begin(OAUTHBEARER).step(message)


def test_secrets_are_not_shown() -> None:
    assert "pencil" not in repr(PasswordCheck("user", "pencil"))
    assert "abc" not in repr(TokenCheck("abc", "user"))


def test_header_of_another_scheme() -> None:
    with pytest.raises(AuthenticationFailed, match="not a bearer token"):
        parse_bearer_token("Basic abc")


SEEDS = (
    b"\0user\0pencil",
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO,p=" + b64encode(bytes(32)),
    b"n,a=user,\x01auth=Bearer a.b.c\x01\x01",
)
BYTES = b"\0\x01,=nyprcam \xff\xc3az09+/"


def mutate(message: bytes, rng: random.Random) -> bytes:
    """Return a message with a few random changes."""
    data = bytearray(message)
    for _ in range(rng.randrange(4)):
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            data[place:place] = bytes([rng.choice(BYTES)])
        elif kind == 1:
            del data[place : place + rng.randrange(1, 4)]
        elif place < len(data):
            data[place] = rng.choice(BYTES)
    return bytes(data)


def fuzz(exchanges: int, seed: int) -> int:
    """Run random exchanges; return the number that reached an answer. No user may be proved by them."""
    rng = random.Random(seed)
    answered = 0
    for _ in range(exchanges):
        exchange = begin(rng.choice(MECHANISMS))
        for _ in range(3):
            try:
                step = exchange.step(mutate(rng.choice(SEEDS), rng))
            except AuthenticationFailed:
                continue
            answered += 1
            assert not isinstance(step, Proved), "proved without the password"
    return answered


def test_random_exchanges_prove_nothing() -> None:
    assert fuzz(20_000, seed=27) > 2_000


@pytest.mark.slow
def test_a_million_random_exchanges_prove_nothing() -> None:
    assert fuzz(1_000_000, seed=2027) > 100_000
