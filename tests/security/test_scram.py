"""Server side of SCRAM: the RFC's example, a client written from the RFC, replays, tampered and random messages."""

import hmac
from base64 import b64decode, b64encode
from hashlib import new as new_hash

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raftlog.errors import AuthenticationFailed, InvalidArgument
from raftlog.security.credentials import (
    ITERATIONS_MAX,
    PASSWORD_BYTES_MAX,
    ScramCredential,
    ScramMechanism,
    check_user_name,
    from_password,
    from_salted,
    is_password_of,
    salted_password,
)
from raftlog.security.scram import MESSAGE_BYTES_MAX, ScramExchange

SECRET = b"secret of the cluster"
MECHANISMS = tuple(ScramMechanism)
CREDENTIALS = {
    mechanism: from_password(mechanism, "pencil", salt=b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    for mechanism in MECHANISMS
}
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"


def exchange(mechanism: ScramMechanism = ScramMechanism.SHA_256, nonce: str = "server") -> ScramExchange:
    def find(user: str) -> ScramCredential | None:
        return CREDENTIALS[mechanism] if user in ("user", "a,b=c") else None

    return ScramExchange(mechanism, find, SECRET, lambda: nonce)


def final_of(mechanism: ScramMechanism, first: bytes, server_first: bytes, password: str) -> tuple[bytes, bytes]:
    """Return the client's final message and the signature that it expects (RFC 5802, section 3)."""
    name = mechanism.hash_name
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    header, bare = first[:3], first[3:]
    salted = salted_password(mechanism, password, b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", name)
    unsigned = b"c=" + b64encode(header) + b",r=" + fields["r"].encode()
    signed = b",".join((bare, server_first, unsigned))
    signature = hmac.digest(new_hash(name, client_key).digest(), signed, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    return unsigned + b",p=" + b64encode(proof), b"v=" + b64encode(expected)


def test_a_client_that_sends_its_nonce_twice_is_accepted() -> None:
    scram = exchange()
    server_first = scram.first(b"n,,n=user,r=nonce")
    salted = salted_password(ScramMechanism.SHA_256, "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    unsigned = b"c=biws,r=noncenonceserver"
    signed = b",".join((b"n=user,r=nonce", server_first, unsigned))
    signature = hmac.digest(new_hash("sha256", client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    assert scram.final(unsigned + b",p=" + b64encode(proof)).startswith(b"v=")


def test_the_exchange_equals_the_example_of_rfc_7677() -> None:
    scram = exchange(nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert scram.first(FIRST) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert scram.user == "user"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_that_knows_the_password(mechanism: ScramMechanism) -> None:
    scram = exchange(mechanism)
    final, expected = final_of(mechanism, FIRST, scram.first(FIRST), "pencil")
    assert scram.final(final) == expected


def test_commas_and_equals_signs_in_names() -> None:
    scram = exchange()
    scram.first(b"n,,n=a=2Cb=3Dc,r=nonce")
    assert scram.user == "a,b=c"


@pytest.mark.parametrize("user", [b"user", b"nobody"])
def test_a_wrong_password_and_an_unknown_user_fail_alike(user: bytes) -> None:
    scram, first = exchange(), b"n,,n=" + user + b",r=nonce"
    final, _ = final_of(ScramMechanism.SHA_256, first, scram.first(first), "pen")
    with pytest.raises(AuthenticationFailed, match=r"^unknown user or wrong password$"):
        scram.final(final)


def test_the_salt_of_an_unknown_user_stays_the_same() -> None:
    salts = {exchange().first(b"n,,n=nobody,r=x").split(b",")[1] for _ in range(3)}
    others = {exchange().first(b"n,,n=%s,r=x" % name).split(b",")[1] for name in (b"else", b"third")}
    assert len(salts) == 1
    assert len(salts | others) == 3


def test_an_unknown_user_cannot_use_the_empty_key() -> None:
    """A proof made for an all-zero stored key is refused."""
    scram, first = exchange(), b"n,,n=nobody,r=nonce"
    server_first = scram.first(first)
    unsigned = b"c=biws,r=nonceserver"
    proof = hmac.digest(bytes(32), b",".join((first[3:], server_first, unsigned)), "sha256")
    with pytest.raises(AuthenticationFailed):
        scram.final(unsigned + b",p=" + b64encode(proof))


def test_a_replayed_final_message_fails_in_another_exchange_and_in_its_own() -> None:
    scram = exchange()
    final, _ = final_of(ScramMechanism.SHA_256, FIRST, scram.first(FIRST), "pencil")
    scram.final(final)
    with pytest.raises(AuthenticationFailed):
        scram.final(final)
    other = exchange(nonce="another")
    other.first(FIRST)
    with pytest.raises(AuthenticationFailed, match="does not belong"):
        other.final(final)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"p=tls-unique,,n=user,r=nonce",
        b"n,,n=user",
        b"n,,r=nonce,n=user",
        b"n,,n=,r=nonce",
        b"n,,n=us=er,r=nonce",
        b"n,,n=us=2cer,r=nonce",
        b"n,,n=user,r=",
        b"n,,n=user,r=no\x00nce",
        b"n,,m=must,n=user,r=nonce",
        b"n,a=other,n=user,r=nonce",
        b"n,,n=user,r=nonce,tokenauth=true",
        b"n,,n=\xff,r=nonce",
        b"n,,n=" + b"u" * MESSAGE_BYTES_MAX + b",r=nonce",
    ],
)
def test_first_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        exchange().first(message)


@pytest.mark.parametrize("message", [b"n,a=user,n=user,r=x", b"y,,n=user,r=x", b"n,,n=user,r=x,e=1"])
def test_first_messages_that_are_accepted(message: bytes) -> None:
    assert exchange().first(message).startswith(b"r=xserver,s=")


@given(st.integers(0, 200), st.integers(1, 255))
@example(0, 1)
def test_a_changed_byte_of_the_final_message_is_noticed(place: int, change: int) -> None:
    scram = exchange()
    final, _ = final_of(ScramMechanism.SHA_256, FIRST, scram.first(FIRST), "pencil")
    changed = bytearray(final)
    changed[place % len(final)] ^= change
    with pytest.raises(AuthenticationFailed):
        scram.final(bytes(changed))


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_random_messages_end_with_the_error(first: bytes, final: bytes) -> None:
    scram = exchange()

    def run() -> None:
        scram.first(first)
        scram.final(final)

    with pytest.raises(AuthenticationFailed):
        run()


def test_many_extensions_take_no_longer_than_their_bytes() -> None:
    """A pattern that matches an extension in two ways would take for ever."""
    with pytest.raises(AuthenticationFailed):
        exchange().first(b"n,,n=user,r=x" + b",e=1" * 900 + b",=")


class TestCredentials:
    """Making and checking stored credentials."""

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_only_the_password_itself_is_accepted(self, mechanism: ScramMechanism) -> None:
        credential = from_password(mechanism, "pässword")
        assert is_password_of(credential, "pässword")
        assert not is_password_of(credential, "password")
        assert from_password(mechanism, "pässword") != credential, "salts are random"

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_credential_from_a_salted_password_accepts_the_password(self, mechanism: ScramMechanism) -> None:
        salted = salted_password(mechanism, "pencil", b"salt", 8192)
        assert is_password_of(from_salted(mechanism, salted, b"salt", 8192), "pencil")

    @pytest.mark.parametrize(
        ("salted", "salt", "iterations"),
        [
            (bytes(31), b"s", 4096),
            (bytes(32), b"", 4096),
            (bytes(32), b"s", 4095),
            (bytes(32), b"s", ITERATIONS_MAX + 1),
        ],
    )
    def test_bad_parameters_are_refused(self, salted: bytes, salt: bytes, iterations: int) -> None:
        with pytest.raises(InvalidArgument):
            from_salted(ScramMechanism.SHA_256, salted, salt, iterations)

    @pytest.mark.parametrize("password", ["", "p" * (PASSWORD_BYTES_MAX + 1)])
    def test_empty_and_long_passwords_are_refused(self, password: str) -> None:
        with pytest.raises(InvalidArgument):
            from_password(ScramMechanism.SHA_256, password)

    def test_nothing_secret_is_printed(self) -> None:
        credential = from_password(ScramMechanism.SHA_512, "pencil")
        assert repr(credential) == "ScramCredential(SCRAM-SHA-512, 4096 iterations)"

    @pytest.mark.parametrize("name", ["", " alice", "alice ", "al:ice", "al\nice", "a" * 257])
    def test_invalid_names_are_refused(self, name: str) -> None:
        with pytest.raises(InvalidArgument):
            check_user_name(name)

    def test_valid_names_are_accepted(self) -> None:
        for name in ("alice", "CN=web,O=Example", "Ünal Ö", "service-1.example"):
            check_user_name(name)
