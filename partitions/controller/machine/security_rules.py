"""Rules and effects of commands about users, permissions and client quotas. Called by `ControllerState.apply` only.

Every function checks first and changes last: it raises a `RaftlogError` with nothing changed, or it changes
everything and returns the result."""

from raftlog.errors import ChangeRefused, UnknownUser, UserExists
from raftlog.partitions.controller.machine.cluster import ClusterState
from raftlog.partitions.controller.machine.errors import check_version
from raftlog.partitions.controller.machine.rows import AclRow, QuotaRow, SaltSecret, UserRow
from raftlog.partitions.controller.machine.schema import settings_of
from raftlog.partitions.controller.machine.security_commands import (
    ACLS_MAX,
    QUOTAS_MAX,
    USERS_MAX,
    AlterClientQuotas,
    CreateAcls,
    DeleteAcls,
    DeleteUser,
    SetUserCredentials,
)
from raftlog.types import Index


def set_credentials(cluster: ClusterState, command: SetUserCredentials, index: Index) -> int:
    """Create, change or delete a user; return its version, or the index of its deletion."""
    before = cluster.users.get(command.name)
    if command.is_first and len(cluster.secrets):
        raise ChangeRefused("the cluster has or had users; its first user is created only once")
    if command.expected_version == 0 and before is not None:
        raise UserExists(f"user {command.name!r} exists already")
    version = 0 if before is None else before.version
    check_version(f"user {command.name!r}", version, command.expected_version)
    old = {} if before is None else {credential.mechanism: credential for credential in before.credentials}
    missing = [number for number in command.removed if number not in old]
    if missing or (before is None and not command.credentials):
        raise UnknownUser(f"user {command.name!r} does not exist, or has no such credential")
    if before is None and len(cluster.users) >= USERS_MAX:
        raise ChangeRefused(f"the cluster has {len(cluster.users)} users, and can have {USERS_MAX}: delete one first")
    after = {number: each for number, each in old.items() if number not in command.removed}
    after |= {credential.mechanism: credential for credential in command.credentials}
    if not len(cluster.secrets):
        cluster.secrets.put(SaltSecret(command.secret, index))
    if not after:
        cluster.users.remove(command.name)
        return index
    was_superuser = before is not None and before.is_superuser
    is_superuser = was_superuser if command.is_superuser is None else command.is_superuser
    credentials = tuple(after[number] for number in sorted(after))
    if before is not None and (credentials, is_superuser) == (before.credentials, before.is_superuser):
        return version
    cluster.users.put(UserRow(command.name, credentials, is_superuser, index))
    return index


def delete_user(cluster: ClusterState, command: DeleteUser, index: Index) -> int:
    """Delete a user; return the index of the deletion. Raises `UnknownUser`."""
    before = cluster.users.get(command.name)
    if before is None:
        raise UnknownUser(f"user {command.name!r} does not exist")
    check_version(f"user {command.name!r}", before.version, command.expected_version)
    cluster.users.remove(command.name)
    return index


def create_acls(cluster: ClusterState, command: CreateAcls, index: Index) -> int:
    """Add entries; return their version, that of the newest if all exist already."""
    new = [entry for entry in command.entries if entry.key not in cluster.acls]
    if len(cluster.acls) + len(new) > ACLS_MAX:
        raise ChangeRefused(
            f"the cluster has {len(cluster.acls)} entries of access control, and can have {ACLS_MAX}: delete some first"
        )
    if not new:
        return max(cluster.acls[entry.key].version for entry in command.entries)
    for entry in new:
        cluster.acls.put(AclRow(entry, index))
    return index


def delete_acls(cluster: ClusterState, command: DeleteAcls, index: Index) -> int:
    """Delete entries; return the index, or 0 if none of them exists."""
    found = [entry.key for entry in command.entries if entry.key in cluster.acls]
    for key in found:
        cluster.acls.remove(key)
    return index if found else 0


def alter_quotas(cluster: ClusterState, command: AlterClientQuotas, index: Index) -> int:
    """Change the quotas of an entity; return their version, 0 if it had none and has none."""
    before = cluster.client_quotas.get(command.entity)
    version, old = (0, {}) if before is None else (before.version, dict(before.quotas))
    after = {name: value for name, value in old.items() if name not in command.unset} | dict(command.quotas)
    if after == old:
        return version
    if before is None and len(cluster.client_quotas) >= QUOTAS_MAX:
        raise ChangeRefused(
            f"{len(cluster.client_quotas)} entities have quotas, and {QUOTAS_MAX} can have them: delete some first"
        )
    if after:
        cluster.client_quotas.put(QuotaRow(command.entity, settings_of(after), index))
    else:
        cluster.client_quotas.remove(command.entity)
    return index
