"""Commands about users, permissions and quotas: bounds, feature level, secrets that stay out of texts, snapshots."""

from collections.abc import Callable
from typing import Any

import pytest

from raftlog.errors import ChangeRefused, InvalidArgument, UnknownUser, UserExists, VersionConflict
from raftlog.partitions.controller.machine import (
    AclEntry,
    AlterClientQuotas,
    Command,
    CreateAcls,
    DeleteAcls,
    DeleteUser,
    SetFeatureLevel,
    SetUserCredentials,
    SnapshotReader,
    StoredCredential,
    check_level,
    security_rules,
    snapshot_payloads,
)
from raftlog.types import Index
from tests.controller.machine.fleet import BOOTSTRAP, CommandLog, register, state_contents

CREDENTIAL = StoredCredential(1, b"salt", 4096, b"stored", b"server")
OTHER = StoredCredential(2, b"salt", 4096, b"stored2", b"server2")
ENTRY = AclEntry(2, 3, "orders", "User:alice", "*", 3, 3)
ALICE = (("user", "alice"),)
RATE = (("producer_byte_rate", "1000"),)


def set_user(name: str = "alice", *credentials: StoredCredential, **fields: Any) -> SetUserCredentials:
    return SetUserCredentials(name, credentials, fields.pop("removed", ()), None, b"s" * 32, **fields)


def make_cluster_at(level: int) -> CommandLog:
    scribe = CommandLog()
    scribe.apply(BOOTSTRAP)
    for node in range(1, 4):
        scribe.apply(register(node, levels=(1, 3)))
    if level > 1:
        scribe.apply(SetFeatureLevel(level))
    return scribe


@pytest.mark.parametrize(
    "command",
    [
        set_user("alice", CREDENTIAL),
        DeleteUser("alice"),
        CreateAcls((ENTRY,)),
        DeleteAcls((ENTRY,)),
        AlterClientQuotas(ALICE, RATE),
    ],
)
def test_commands_are_refused_below_level_3(command: Command) -> None:
    scribe = make_cluster_at(2)
    with pytest.raises(InvalidArgument, match=r"needs feature level 3; the cluster runs at 2: finish the upgrade"):
        check_level(command, scribe.state.feature_level)
    assert isinstance(scribe.apply_refused(command), InvalidArgument), "also where it stands in the log"


def test_a_user_is_created_changed_and_deleted() -> None:
    scribe = make_cluster_at(3)
    created = scribe.apply(set_user("alice", CREDENTIAL, expected_version=Index(0)))
    assert isinstance(scribe.apply_refused(set_user("alice", OTHER, expected_version=Index(0))), UserExists)
    assert scribe.apply(set_user("alice", CREDENTIAL)) == created, "nothing changed"
    changed = scribe.apply(set_user("alice", OTHER))
    assert list(scribe.state.users["alice"].credentials) == [CREDENTIAL, OTHER]
    assert isinstance(scribe.apply_refused(DeleteUser("alice", Index(created))), VersionConflict)
    scribe.apply(set_user("alice", removed=(1,)))
    assert list(scribe.state.users["alice"].credentials) == [OTHER]
    assert scribe.state.users["alice"].version > changed
    assert isinstance(scribe.apply_refused(set_user("alice", removed=(1,))), UnknownUser)
    scribe.apply(set_user("alice", removed=(2,)))
    assert "alice" not in scribe.state.users, "a user without credentials is deleted"
    assert isinstance(scribe.apply_refused(DeleteUser("alice")), UnknownUser)
    assert isinstance(scribe.apply_refused(SetUserCredentials("bob", (), (), True, b"s" * 32)), UnknownUser)


def test_the_first_user_is_created_once() -> None:
    scribe = make_cluster_at(3)
    scribe.apply(set_user("root", CREDENTIAL, is_first=True))
    scribe.apply(DeleteUser("root"))
    assert isinstance(scribe.apply_refused(set_user("root", CREDENTIAL, is_first=True)), ChangeRefused)
    assert [row.secret for row in scribe.state.secrets] == [b"s" * 32], "the secret stays"


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("USERS_MAX", "ACLS_MAX", "QUOTAS_MAX"):
        monkeypatch.setattr(security_rules, limit, 2)
    scribe = make_cluster_at(3)
    makers: list[Callable[[str], Command]] = [
        lambda name: set_user(name, CREDENTIAL),
        lambda name: CreateAcls((AclEntry(2, 3, name, "User:alice", "*", 3, 3),)),
        lambda name: AlterClientQuotas((("user", name),), RATE),
    ]
    for make in makers:
        scribe.apply(make("a"))
        scribe.apply(make("b"))
        assert isinstance(scribe.apply_refused(make("c")), ChangeRefused)
        scribe.apply(make("a"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: set_user(""),
        lambda: set_user("a" * 257, CREDENTIAL),
        lambda: set_user("alice"),
        lambda: set_user("alice", OTHER, CREDENTIAL),
        lambda: set_user("alice", CREDENTIAL, removed=(1,)),
        lambda: set_user("alice", removed=(2, 1)),
        lambda: SetUserCredentials("alice", (CREDENTIAL,), (), None, b"short"),
        lambda: StoredCredential(3, b"salt", 4096, b"k", b"k"),
        lambda: StoredCredential(1, b"", 4096, b"k", b"k"),
        lambda: StoredCredential(1, b"s" * 257, 4096, b"k", b"k"),
        lambda: StoredCredential(1, b"s", 1 << 20, b"k", b"k"),
        lambda: StoredCredential(1, b"s", 4096, "k", b"k"),  # type: ignore[arg-type]
        lambda: AclEntry(1, 3, "orders", "User:a", "*", 3, 3),
        lambda: AclEntry(2, 2, "orders", "User:a", "*", 3, 3),
        lambda: AclEntry(2, 3, "", "User:a", "*", 3, 3),
        lambda: AclEntry(2, 3, "orders", "User:a", "*", 13, 3),
        lambda: AclEntry(2, 3, "orders", "User:a", "*", 3, 1),
        lambda: CreateAcls(()),
        lambda: CreateAcls((ENTRY, ENTRY)),
        lambda: DeleteAcls((ENTRY,) * 1001),
        lambda: AlterClientQuotas((), RATE),
        lambda: AlterClientQuotas((("group", "g"),), RATE),
        lambda: AlterClientQuotas((("ip", "::1"), ("user", "a")), RATE),
        lambda: AlterClientQuotas(ALICE, ()),
        lambda: AlterClientQuotas(ALICE, RATE, ("producer_byte_rate",)),
        lambda: AlterClientQuotas(ALICE, (), ("b", "a")),
    ],
)
def test_invalid_commands_cannot_be_made(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument):
        make()


def test_keys_and_secrets_are_in_no_text() -> None:
    scribe = make_cluster_at(3)
    command = set_user("alice", CREDENTIAL)
    scribe.apply(command)
    with pytest.raises(InvalidArgument) as raised:
        StoredCredential(1, b"salt", 4096, b"hidden" * 20, b"server")
    assert "hidden" not in str(raised.value)
    rows = [*scribe.state.users, *scribe.state.secrets]
    for shown in (repr(command), repr(scribe.request(command)), *map(repr, rows)):
        assert not any(secret in shown for secret in ("salt", "stored", "server", "sss"))


def test_a_snapshot_contains_users_permissions_and_quotas() -> None:
    scribe = make_cluster_at(3)
    for command in (set_user("alice", CREDENTIAL, OTHER), CreateAcls((ENTRY,)), AlterClientQuotas(ALICE, RATE)):
        scribe.apply(command)
    restoration = SnapshotReader().take(next(snapshot_payloads(scribe.state, Index(1))))
    assert restoration is not None
    restored = restoration.finish()
    assert state_contents(restored) == state_contents(scribe.state)
    assert restored.state_hash() == scribe.state.state_hash()
    assert restored.users["alice"].credentials == (CREDENTIAL, OTHER)
