"""Users, permissions and quotas in a cluster of three brokers: changes by any broker take effect on all."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from raftlog.errors import InvalidArgument, TopicNotAuthorized, UnknownUser, UserExists
from raftlog.partitions.caller import Caller
from raftlog.partitions.controller import first_start
from raftlog.partitions.security.acls import check_acl
from raftlog.partitions.security.quotas import EntityQuotas, QuotaFilter, QuotaMatch, Quotas
from raftlog.partitions.security.service import FIRST_USER_VARIABLE, check_first_user
from raftlog.security.credentials import ScramMechanism, from_password, is_password_of
from raftlog.security.permissions import (
    CLUSTER_NAME,
    Acl,
    AclEffect,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Resource,
)
from raftlog.types import FEATURE_LEVEL_KNOWN
from tests.brokers.conftest import Brokers, brokers_in
from tests.operations.conftest import soon
from tests.waiting import until

ROOT = Caller("root", "tests", "127.0.0.1", "http")
ALICE = Caller("alice", "tests", "10.0.0.1", "kafka")
ORDERS = Resource(AclResourceType.TOPIC, "orders")
READ = Acl(AclResourceType.TOPIC, PatternType.PREFIXED, "ord", "User:alice", "*", AclOperation.READ, AclEffect.ALLOW)


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, 3) as brokers:
        yield brokers


def audited(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, object]]:
    return [vars(record) for record in caplog.records if record.msg == name]


async def test_users_are_known_on_every_broker_and_after_a_restart(
    three: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    three.first_user = "root:first-password"
    await three.start()
    await until(lambda: all(three[number].security.users.is_superuser("root") for number in (1, 2, 3)))
    users = three[2].security.users
    await users.create("alice", "secret-1", caller=ROOT, deadline=soon())
    with pytest.raises(UserExists):
        await three[3].security.users.create("alice", "other", caller=ROOT, deadline=soon())
    await until(lambda: three[1].security.users.version_of("alice") > 0)
    for mechanism in ScramMechanism:
        credential = three[1].security.users.credential("alice", mechanism)
        assert credential is not None
        assert is_password_of(credential, "secret-1")
    before = users.version_of("alice")
    await users.set_password("alice", "secret-2", caller=ROOT, deadline=soon())
    assert users.version_of("alice") > before
    credential = users.any_credential("alice")
    assert credential is not None
    assert is_password_of(credential, "secret-2")
    assert not is_password_of(credential, "secret-1")
    with pytest.raises(UnknownUser):
        await users.set_password("nobody", "secret", caller=ROOT, deadline=soon())
    with pytest.raises(UnknownUser):
        await users.delete("nobody", caller=ROOT, deadline=soon())
    secrets = {three[number].security.users.secret for number in (1, 2, 3)}
    assert len(secrets) == 1
    await users.delete("root", caller=ROOT, deadline=soon())
    await three.stop()
    await three.start()
    known = await three[1].security.users.list(deadline=soon())
    assert [user.name for user in known] == ["alice"], "the first user is not created again"
    assert known[0].iterations == {ScramMechanism.SHA_256: 4096, ScramMechanism.SHA_512: 4096}
    assert {three[number].security.users.secret for number in (1, 2, 3)} == secrets
    told = [(each["user"], each["change"], each["principal"]) for each in audited(caplog, "user_changed")]
    assert told == [
        ("root", "created", "bootstrap"),
        ("alice", "created", "root"),
        ("alice", "password", "root"),
        ("root", "deleted", "root"),
    ]
    assert not any(password in caplog.text for password in ("first-password", "secret-1", "secret-2"))


async def test_a_scram_credential_of_its_own_is_added_and_deleted(three: Brokers) -> None:
    await three.start()
    users = three[1].security.users
    added = from_password(ScramMechanism.SHA_512, "salted elsewhere", iterations=8192)
    await users.alter_credentials("bob", [added], [], caller=ROOT, deadline=soon())
    assert users.credential("bob", ScramMechanism.SHA_512) == added
    assert users.credential("bob", ScramMechanism.SHA_256) is None
    with pytest.raises(UnknownUser):
        await users.alter_credentials("bob", [], [ScramMechanism.SHA_256], caller=ROOT, deadline=soon())
    await users.alter_credentials("bob", [], [ScramMechanism.SHA_512], caller=ROOT, deadline=soon())
    assert await users.list(deadline=soon()) == []


async def test_a_changed_permission_is_effective_on_every_broker_within_a_second(
    three: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await three.start()
    for number in (1, 2, 3):
        three[number].security.authorizer.is_on = True
        three[number].security.refresh()

    def allowed(number: int) -> bool:
        return three[number].security.authorizer.allows(ALICE, AclOperation.READ, ORDERS)

    with pytest.raises(TopicNotAuthorized):
        three[1].security.authorizer.authorize(ALICE, AclOperation.READ, ORDERS)
    acls = three[2].security.acls
    await acls.create([READ, READ], caller=ROOT, deadline=soon())
    async with asyncio.timeout(1):
        await until(lambda: all(allowed(number) for number in (1, 2, 3)))
    deny = READ._replace(effect=AclEffect.DENY, host="10.0.0.1")
    await three[3].security.acls.create([deny], caller=ROOT, deadline=soon())
    async with asyncio.timeout(1):
        await until(lambda: not any(allowed(number) for number in (1, 2, 3)))
    matching = AclFilter(AclResourceType.TOPIC, PatternType.MATCH, "orders")
    assert await three[1].security.acls.describe(matching, deadline=soon()) == [READ, deny]
    wanted = [AclFilter(effect=AclEffect.DENY), AclFilter(resource_name="ord"), AclFilter(principal="User:bob")]
    planned = await acls.delete(wanted, caller=ROOT, deadline=soon(), dry_run=True)
    assert planned == [[deny], [READ, deny], []]
    assert len(await acls.describe(AclFilter(), deadline=soon())) == 2, "a dry run deletes nothing"
    assert await acls.delete(wanted, caller=ROOT, deadline=soon()) == planned
    assert await acls.describe(AclFilter(), deadline=soon()) == []
    told = [(each["change"], each["count"]) for each in audited(caplog, "acls_changed")]
    assert told == [("created", 1), ("created", 1), ("deleted", 2)]


async def test_quotas_of_the_most_specific_entity_apply(three: Brokers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await three.start()
    quotas = three[1].security.quotas

    async def set_(entity: dict[str, str], **changes: float | None) -> None:
        await quotas.alter(entity, changes, caller=ROOT, deadline=soon(), dry_run=False)

    assert quotas.value("producer_byte_rate", "alice", "app") is None
    expected = [
        ({"client-id": ""}, 1),
        ({"client-id": "app"}, 2),
        ({"user": ""}, 3),
        ({"user": "", "client-id": ""}, 4),
        ({"user": "", "client-id": "app"}, 5),
        ({"user": "alice"}, 6),
        ({"user": "alice", "client-id": ""}, 7),
        ({"user": "alice", "client-id": "app"}, 8),
    ]
    for entity, rate in expected:
        await set_(entity, producer_byte_rate=rate)
        assert quotas.value("producer_byte_rate", "alice", "app") == rate
    assert quotas.value("consumer_byte_rate", "alice", "app") is None
    await set_({"ip": "::0001"}, connection_creation_rate=10)
    await set_({"ip": ""}, connection_creation_rate=20)
    assert (quotas.connection_rate("::1"), quotas.connection_rate("10.0.0.1")) == (10, 20)
    strict = await quotas.describe([QuotaFilter("user", QuotaMatch.EXACT, "alice")], is_strict=True, deadline=soon())
    assert strict == [EntityQuotas({"user": "alice"}, {"producer_byte_rate": 6.0})]
    loose = await quotas.describe([QuotaFilter("user", QuotaMatch.DEFAULT)], deadline=soon())
    assert [each.entity for each in loose] == [
        {"client-id": "", "user": ""},
        {"client-id": "app", "user": ""},
        {"user": ""},
    ]
    await set_({"user": "alice"}, producer_byte_rate=None, request_percentage=12.5)
    assert quotas.value("request_percentage", "alice", "x") == 12.5
    await set_({"user": "alice"}, request_percentage=None)
    any_user = await quotas.describe([QuotaFilter("user", QuotaMatch.ANY)], is_strict=True, deadline=soon())
    assert [each.entity for each in any_user] == [{"user": ""}]
    assert audited(caplog, "quotas_changed")[-1]["unset"] == ["request_percentage"]


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ({}, {"producer_byte_rate": 1}),
        ({"group": "g"}, {"producer_byte_rate": 1}),
        ({"user": "alice"}, {}),
        ({"user": "alice"}, {"producer_byte_rate": 0}),
        ({"user": "alice"}, {"producer_byte_rate": 1.5}),
        ({"user": "alice"}, {"producer_byte_rate": float("nan")}),
        ({"user": "alice"}, {"producer_byte_rate": 1e300}),
        ({"user": "alice"}, {"connection_creation_rate": 1}),
        ({"user": "alice"}, {"wrong": None}),
        ({"ip": "not an address"}, {"connection_creation_rate": 1}),
        ({"ip": "::1", "user": "alice"}, {"connection_creation_rate": 1}),
    ],
)
async def test_invalid_quotas_are_refused(entity: dict[str, str], changes: dict[str, float | None]) -> None:
    with pytest.raises(InvalidArgument):
        await Quotas(None).alter(entity, changes, caller=ROOT, deadline=0, dry_run=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "acl",
    [
        READ._replace(operation=AclOperation.IDEMPOTENT_WRITE),
        READ._replace(operation=AclOperation.ANY),
        READ._replace(resource_type=AclResourceType.ANY),
        READ._replace(pattern_type=PatternType.MATCH),
        READ._replace(effect=AclEffect.ANY),
        READ._replace(principal="alice"),
        READ._replace(principal="User:"),
        READ._replace(host="h1"),
        READ._replace(resource_name="*"),
        Acl(AclResourceType.CLUSTER, PatternType.LITERAL, "c", "User:a", "*", AclOperation.ALTER, AclEffect.ALLOW),
    ],
)
def test_entries_that_could_never_apply_are_refused(acl: Acl) -> None:
    with pytest.raises(InvalidArgument):
        check_acl(acl)


def test_hosts_of_entries_get_their_normal_form() -> None:
    assert check_acl(READ._replace(host="0:0::0001")).host == "::1"
    cluster = Acl(
        AclResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME, "User:*", "*", AclOperation.ALL, AclEffect.DENY
    )
    assert check_acl(cluster) == cluster


@pytest.mark.parametrize("text", ["root", "root:", ":password", "ro ot :x", f"root:{'x' * 1025}"])
def test_an_invalid_first_user_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        check_first_user(text)
    assert "password'" not in str(raised.value)
    assert check_first_user("root:pass:word") == ("root", "pass:word")
    assert FIRST_USER_VARIABLE == "RAFTLOG_BOOTSTRAP_USER"


async def test_below_level_3_changes_are_refused_until_the_upgrade_is_finished(
    three: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(first_start, "FEATURE_LEVEL_KNOWN", 2)
    three.first_user = "root:first-password"
    await three.start()
    security = three[1].security
    assert "the first user was not created: SetUserCredentials needs feature level 3" in caplog.text
    changes: list[Callable[[], object]] = [
        lambda: security.users.create("alice", "secret", caller=ROOT, deadline=soon()),
        lambda: security.acls.create([READ], caller=ROOT, deadline=soon()),
        lambda: security.quotas.alter(
            {"user": "a"}, {"producer_byte_rate": 1}, caller=ROOT, deadline=soon(), dry_run=False
        ),
    ]
    for change in changes:
        with pytest.raises(InvalidArgument, match=r"needs feature level 3.*cluster upgrade --finish"):
            await change()  # type: ignore[misc]
    assert await three[2].operations.cluster.finish_upgrade(deadline=soon()) == FEATURE_LEVEL_KNOWN
    await security.users.create("alice", "secret", caller=ROOT, deadline=soon())
