"""Logins of a broker: passwords, tokens, their cost, refusals and audit events."""

import asyncio
import logging
import time
from typing import Any

import pytest

from raftlog.errors import AuthenticationFailed, Unavailable
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.security import authenticator as module
from raftlog.partitions.security.authenticator import REFUSAL_S, Authenticator
from raftlog.partitions.security.bearer_keys import BearerKeys
from raftlog.partitions.security.failure_limiter import BURST, RATE_PER_S, WAITING_MAX
from raftlog.security.bearer import BearerSettings, BearerVerifier
from raftlog.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN
from tests.security.tokens import AUDIENCE, ISSUER, TokenIssuer
from tests.security.users import FakeUsers
from tests.waiting import until

ORIGIN = Caller(ANONYMOUS, "tests", "192.0.2.1", "kafka")
ISSUING = TokenIssuer()


class Broker:
    """Authenticator with a clock and users of its own."""

    def __init__(self) -> None:
        self.users = FakeUsers()
        self.users.put("alice", "pencil")
        self.is_ready = True
        self.now_ms = int(time.time() * 1000)
        self.authenticator = Authenticator(self.users, lambda: self.now_ms, self._check_ready)

    def _check_ready(self) -> None:
        if not self.is_ready:
            raise Unavailable("starting")

    async def log_in(self, user: str, password: str) -> Any:
        return await self.authenticator.check_password(user, password, ORIGIN, "Basic")


@pytest.fixture
async def broker() -> Broker:
    return Broker()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the passwords that PBKDF2 was computed for."""
    seen: list[str] = []
    check = module.is_password_of

    def counted(credential: Any, password: str) -> bool:
        seen.append(password)
        return check(credential, password)

    monkeypatch.setattr(module, "is_password_of", counted)
    return seen


async def test_a_right_password_is_derived_once(broker: Broker, checks: list[str]) -> None:
    for _ in range(5):
        identity = await broker.log_in("alice", "pencil")
    assert identity.principal == "alice"
    assert checks == ["pencil"]
    broker.users.put("alice", "rubber")
    assert not broker.authenticator.is_current(identity)
    with pytest.raises(AuthenticationFailed):
        await broker.log_in("alice", "pencil")
    assert (await broker.log_in("alice", "rubber")).version > identity.version
    assert checks == ["pencil", "pencil", "rubber"]


async def test_unknown_users_cost_the_same(broker: Broker, checks: list[str]) -> None:
    errors = []
    for user, password in (("alice", "wrong"), ("nobody", "wrong")):
        began = time.monotonic()
        with pytest.raises(AuthenticationFailed) as error:
            await broker.log_in(user, password)
        assert time.monotonic() - began >= REFUSAL_S * 0.99
        errors.append(str(error.value))
    assert checks == ["wrong", "wrong"]
    assert errors[0] == errors[1]


async def test_a_user_that_is_deleted(broker: Broker) -> None:
    identity = await broker.log_in("alice", "pencil")
    assert broker.authenticator.is_current(identity)
    broker.users.delete("alice")
    assert not broker.authenticator.is_current(identity)


async def test_a_change_during_the_check_ends_the_login(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    check = module.is_password_of

    def change(credential: Any, password: str) -> bool:
        broker.users.put("alice", "rubber")
        return check(credential, password)

    monkeypatch.setattr(module, "is_password_of", change)
    identity = await broker.log_in("alice", "pencil")
    assert not broker.authenticator.is_current(identity)


@pytest.mark.parametrize("name", [ANONYMOUS, "*"])
async def test_names_that_are_no_users(broker: Broker, name: str) -> None:
    broker.users.put(name, "pencil")
    with pytest.raises(AuthenticationFailed):
        await broker.log_in(name, "pencil")


async def test_a_broker_that_starts_may_not_know_a_user_yet(broker: Broker) -> None:
    broker.is_ready = False
    await broker.log_in("alice", "pencil")
    with pytest.raises(Unavailable):
        await broker.log_in("bob", "pencil")


async def test_many_failures_of_an_address_delay_it(broker: Broker, checks: list[str]) -> None:
    refusals: list[str] = []

    async def fail(password: str) -> None:
        with pytest.raises(AuthenticationFailed) as error:
            await broker.log_in("alice", password)
        refusals.append(str(error.value))

    began = time.monotonic()
    await asyncio.gather(*(fail(f"wrong {number}") for number in range(BURST)))
    await broker.log_in("alice", "pencil")
    assert time.monotonic() - began > 0.9 / RATE_PER_S, "one check more than the burst"
    waiting = [asyncio.ensure_future(fail("wrong")) for _ in range(WAITING_MAX + 10)]
    await until(lambda: sum("too many" in refusal for refusal in refusals) >= 5)
    assert checks.count("wrong") < WAITING_MAX, "the others are refused without a check"
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_events_of_logins_have_no_secret(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await broker.log_in("alice", "pencil")
    with pytest.raises(AuthenticationFailed):
        await broker.log_in("alice", "guess-of-a-password")
    names = [record.getMessage() for record in caplog.records]
    assert any("authenticated" in name for name in names)
    assert any("authentication_failed" in name for name in names)
    assert not any("pencil" in str(vars(record)) or "guess" in str(vars(record)) for record in caplog.records)


async def test_sasl_plain(broker: Broker) -> None:
    login = broker.authenticator.begin(PLAIN)
    identity = await login.step(b"\0alice\0pencil", ORIGIN)
    assert identity is not None
    assert (identity.principal, identity.mechanism, login.data) == ("alice", PLAIN, b"")


def with_tokens(broker: Broker) -> None:
    verifier = BearerVerifier(BearerSettings("keys", ISSUER, AUDIENCE), lambda source: ISSUING.key_set())
    broker.authenticator.bearer = BearerKeys(verifier)


async def test_tokens(broker: Broker) -> None:
    assert OAUTHBEARER not in broker.authenticator.mechanisms
    with pytest.raises(AuthenticationFailed, match="no bearer tokens"):
        await broker.authenticator.check_token("abc", ORIGIN, "Bearer")
    with_tokens(broker)
    assert broker.authenticator.mechanisms == MECHANISMS
    now = broker.authenticator.now_s()
    token = ISSUING.token(expires_at=now + 60)
    identity = await broker.authenticator.check_token(token, ORIGIN, "Bearer")
    assert identity.principal == "alice"
    assert broker.authenticator.is_current(identity)
    broker.now_ms += 61_000
    assert not broker.authenticator.is_current(identity)
    login = broker.authenticator.begin(OAUTHBEARER)
    with pytest.raises(AuthenticationFailed, match="another user"):
        await login.step(
            b"n,a=bob,\x01auth=Bearer " + ISSUING.token(expires_at=now + 600).encode() + b"\x01\x01", ORIGIN
        )


async def test_a_token_of_a_new_key_is_accepted_after_the_keys_are_read_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.partitions.security.bearer_keys.KEYS_RETRY_S", 0.0)
    sets = [ISSUING.key_set("rsa")]
    verifier = BearerVerifier(BearerSettings("keys", ISSUER, AUDIENCE), lambda source: sets[-1])
    broker.authenticator.bearer = BearerKeys(verifier)
    expires_at = broker.authenticator.now_s() + 60
    await broker.authenticator.check_token(ISSUING.token(expires_at=expires_at), ORIGIN, "Bearer")
    sets.append(ISSUING.key_set())
    await broker.authenticator.check_token(ISSUING.token(expires_at=expires_at, key="ec"), ORIGIN, "Bearer")
    with pytest.raises(AuthenticationFailed, match="unknown key"):
        await broker.authenticator.check_token(ISSUING.token(expires_at=expires_at, key_id="no"), ORIGIN, "Bearer")


async def test_keys_that_cannot_be_read(broker: Broker) -> None:
    verifier = BearerVerifier(BearerSettings("/does/not/exist", ISSUER, AUDIENCE))
    broker.authenticator.bearer = BearerKeys(verifier)
    token = ISSUING.token(expires_at=broker.authenticator.now_s() + 60)
    for _ in range(2):
        with pytest.raises(Unavailable, match="could not be read"):
            await broker.authenticator.check_token(token, ORIGIN, "Bearer")
