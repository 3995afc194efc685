"""Bearer tokens: required claims, algorithms, unknown keys, hostile tokens and key sets."""

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.errors import AuthenticationFailed, InvalidArgument, Unavailable
from raftlog.security.bearer import (
    KEY_SET_BYTES_MAX,
    BearerSettings,
    BearerVerifier,
    UnknownKey,
    check_settings,
    parse_key_set,
    read_key_set,
)
from tests.security.tokens import AUDIENCE, ISSUER, TokenIssuer

ISSUING = TokenIssuer()
SETTINGS = BearerSettings("keys.json", ISSUER, AUDIENCE)


@pytest.fixture(scope="module")
def verifier() -> BearerVerifier:
    found = BearerVerifier(SETTINGS, lambda source: ISSUING.key_set())
    found.load()
    return found


@pytest.mark.parametrize("key", ["rsa", "ec"])
@pytest.mark.parametrize("key_id", ["", None])
def test_a_valid_token(verifier: BearerVerifier, key: str, key_id: str | None) -> None:
    now = time.time()
    found = verifier.verify(ISSUING.token(expires_at=now + 60, key=key, key_id=key_id), now)
    assert found.principal == "alice"
    assert found.expires_at == int(now + 60)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": None}, "iss"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "not valid"),
        ({"sub": None}, "claim sub is missing"),
        ({"nbf": time.time() + 600}, "not valid"),
        ({"iat": time.time() + 600}, "not valid"),
    ],
)
def test_claims(verifier: BearerVerifier, claims: dict[str, Any], why: str) -> None:
    with pytest.raises(AuthenticationFailed, match=why):
        verifier.verify(ISSUING.token(expires_at=time.time() + 60, **claims), time.time())


@pytest.mark.parametrize("name", ["", "a:b", " a", "a\nb", "a" * 257])
def test_principals_that_cannot_be_users(verifier: BearerVerifier, name: str) -> None:
    with pytest.raises(AuthenticationFailed, match="claim sub"):
        verifier.verify(ISSUING.token(name, expires_at=time.time() + 60), time.time())


def test_an_expired_token(verifier: BearerVerifier) -> None:
    for age in (1, 3600):
        with pytest.raises(AuthenticationFailed, match="expired"):
            verifier.verify(ISSUING.token(expires_at=time.time() - age), time.time())


def test_another_claim_for_the_principal() -> None:
    verifier = BearerVerifier(SETTINGS._replace(principal_claim="name"), lambda source: ISSUING.key_set())
    verifier.load()
    token = ISSUING.token(expires_at=time.time() + 60, name="bob")
    assert verifier.verify(token, time.time()).principal == "bob"


def encoded(*parts: Any) -> str:
    return ".".join(
        base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode()).rstrip(b"=").decode()
        for part in parts
    )


CLAIMS = {"sub": "alice", "exp": int(time.time()) + 3600, "aud": AUDIENCE, "iss": ISSUER}


def test_an_unsigned_token(verifier: BearerVerifier) -> None:
    for algorithm in ("none", "None", "", None, 5):
        with pytest.raises(AuthenticationFailed):
            verifier.verify(encoded({"alg": algorithm, "kid": "rsa"}, CLAIMS, b""), time.time())


def test_a_token_signed_with_the_public_key_as_secret(verifier: BearerVerifier) -> None:
    unsigned = encoded({"alg": "HS256", "typ": "JWT", "kid": "rsa"}, CLAIMS)
    for secret in (ISSUING.public_pem(), ISSUING.key_set("rsa")):
        token = f"{unsigned}.{encoded(hmac.digest(secret, unsigned.encode(), 'sha256'))}"
        with pytest.raises(AuthenticationFailed, match="algorithm"):
            verifier.verify(token, time.time())


def test_a_token_of_another_key(verifier: BearerVerifier) -> None:
    other = TokenIssuer().token(expires_at=time.time() + 60)
    with pytest.raises(AuthenticationFailed, match="signature"):
        verifier.verify(other, time.time())
    with pytest.raises(UnknownKey):
        verifier.verify(ISSUING.token(expires_at=time.time() + 60, key_id="new"), time.time())


def test_an_algorithm_that_does_not_fit_the_key(verifier: BearerVerifier) -> None:
    with pytest.raises(UnknownKey):
        verifier.verify(ISSUING.token(expires_at=time.time() + 60, key="ec", key_id="rsa"), time.time())


def test_a_key_that_is_limited_to_one_algorithm() -> None:
    keys = json.loads(ISSUING.key_set("rsa"))
    keys["keys"][0]["alg"] = "RS512"
    verifier = BearerVerifier(SETTINGS, lambda source: json.dumps(keys).encode())
    verifier.load()
    verifier.verify(ISSUING.token(expires_at=time.time() + 60, algorithm="RS512"), time.time())
    with pytest.raises(UnknownKey):
        verifier.verify(ISSUING.token(expires_at=time.time() + 60), time.time())


@given(st.one_of(st.text(), st.lists(st.binary(), min_size=3, max_size=3).map(lambda parts: encoded(*parts))))
def test_random_tokens(verifier: BearerVerifier, token: str) -> None:
    with pytest.raises(AuthenticationFailed):
        verifier.verify(token, time.time())


@given(st.data())
def test_changed_tokens(verifier: BearerVerifier, data: st.DataObject) -> None:
    token = ISSUING.token(expires_at=time.time() + 60)
    place = data.draw(st.integers(0, token.rindex(".") + 100))
    letter = data.draw(st.sampled_from("abc.AB01_-"))
    changed = token[:place] + letter + token[place + 1 :]
    if changed != token:
        with pytest.raises(AuthenticationFailed):
            verifier.verify(changed, time.time())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 5}',
        b'{"keys": [5]}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b'{"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}]}',
        b"[" * 100_000,
    ],
)
def test_key_sets_without_a_usable_key(data: bytes) -> None:
    with pytest.raises(Unavailable, match="in here"):
        parse_key_set(data, "here")


def test_a_key_for_encryption_is_left_out() -> None:
    keys = json.loads(ISSUING.key_set())
    keys["keys"][0]["use"] = "enc"
    assert [key.id for key in parse_key_set(json.dumps(keys).encode(), "here")] == ["ec"]


def test_a_failed_load_keeps_the_keys() -> None:
    answers = [ISSUING.key_set(), b"broken"]
    verifier = BearerVerifier(SETTINGS, lambda source: answers.pop(0))
    verifier.load()
    with pytest.raises(Unavailable):
        verifier.load()
    verifier.verify(ISSUING.token(expires_at=time.time() + 60), time.time())


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with pytest.raises(Unavailable, match="cannot be read"):
        read_key_set(str(path))
    path.write_bytes(ISSUING.key_set())
    assert read_key_set(str(path)) == ISSUING.key_set()
    path.write_bytes(bytes(KEY_SET_BYTES_MAX + 1))
    with pytest.raises(Unavailable, match="more than"):
        read_key_set(str(path))


def test_a_key_url_that_does_not_answer() -> None:
    with pytest.raises(Unavailable, match=r"https://127\.0\.0\.1:1/keys"):
        read_key_set("https://127.0.0.1:1/keys")


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS._replace(keys="http://issuer.example/keys"),
        SETTINGS._replace(keys="file:///etc/keys"),
        SETTINGS._replace(audience=""),
        SETTINGS._replace(issuer=""),
        SETTINGS._replace(keys=""),
    ],
)
def test_wrong_settings_are_refused(settings: BearerSettings) -> None:
    with pytest.raises(InvalidArgument):
        check_settings(settings)


def test_valid_settings_are_accepted() -> None:
    check_settings(SETTINGS)
    check_settings(SETTINGS._replace(keys="https://issuer.example/keys"))
