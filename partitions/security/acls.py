"""Entries of access control: creation, deletion and description through the controller. Used by API servers."""

import asyncio
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.partitions.caller import Caller
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import AclEntry, AclRow, CreateAcls, DeleteAcls, check_level
from raftlog.partitions.controller.machine.security_commands import COMMAND_ACLS_MAX
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.security.audit import write_acls_changed
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import (
    CLUSTER_NAME,
    OPERATIONS,
    USER_PREFIX,
    WILDCARD,
    Acl,
    AclEffect,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
)

_SLICE: Final = 500
"""Entries that are described in one turn of the loop."""
_ABSTRACT: Final = (AclOperation.ANY, AclResourceType.ANY, PatternType.ANY, PatternType.MATCH, AclEffect.ANY)


class Acls:
    """Access control list of the cluster."""

    def __init__(self, metadata: ControllerHost) -> None:
        self._metadata = metadata

    def update_authorizer(self, authorizer: Authorizer, superusers: Iterable[str]) -> None:
        """Update an authorizer with the entries changed since the last call, and set its superusers.

        After a snapshot was read it gets all entries."""
        table = self._metadata.state.acls
        changed = table.take_changed()
        if changed is None:
            authorizer.refresh(map(_acl_of, table), superusers)
            return
        added = [_acl_of(row) for key in changed if (row := table.get(key)) is not None]
        removed = [_acl_of(AclEntry(*key)) for key in changed if key not in table]
        authorizer.update(added, removed, superusers)

    async def describe(self, wanted: AclFilter, *, deadline: Deadline) -> list[Acl]:
        """Return the entries that a filter selects, sorted."""
        await self._metadata.barrier(deadline)
        found = []
        for number, row in enumerate(list(self._metadata.state.acls), 1):
            acl = _acl_of(row)
            if wanted.matches(acl):
                found.append(acl)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return sorted(found)

    async def create(self, acls: Sequence[Acl], *, caller: Caller, deadline: Deadline) -> None:
        """Add entries; existing ones stay. Raises `InvalidArgument` for an invalid one, before any is added.

        They are added 1,000 at a time, so an error later than that may leave a part of them."""
        entries = list(dict.fromkeys(_entry_of(check_acl(acl)) for acl in acls))
        for part in _parts(entries):
            await self._metadata.submit(CreateAcls(part), deadline)
            write_acls_changed(caller, "created", [_acl_of(entry) for entry in part])

    async def delete(
        self, wanted: Sequence[AclFilter], *, caller: Caller, deadline: Deadline, dry_run: bool = False
    ) -> list[list[Acl]]:
        """Delete the entries that the filters select; return them for each filter.

        `dry_run`: only return them."""
        found = [await self.describe(each, deadline=deadline) for each in wanted]
        entries = [_entry_of(acl) for acl in dict.fromkeys(acl for acls in found for acl in acls)]
        for part in _parts(entries):
            check_level(DeleteAcls(part), self._metadata.state.feature_level)
            if not dry_run:
                await self._metadata.submit(DeleteAcls(part), deadline)
                write_acls_changed(caller, "deleted", [_acl_of(entry) for entry in part])
        return found


def check_acl(acl: Acl) -> Acl:
    """Return an entry in its normal form. Raises `InvalidArgument` for one that could never apply."""
    named = (acl.resource_type, acl.pattern_type, acl.operation, acl.effect)
    if any(each is abstract for each in named for abstract in _ABSTRACT):  # numbers of different types are equal
        raise InvalidArgument("ANY and MATCH are for filters; an entry names its types, its operation and its effect")
    allowed = OPERATIONS[acl.resource_type]
    if acl.operation not in allowed:
        names = ", ".join(operation.name for operation in sorted(allowed))
        raise InvalidArgument(f"{acl.resource_type.name} has no operation {acl.operation.name}; it has {names}")
    if not acl.principal.startswith(USER_PREFIX) or acl.principal == USER_PREFIX:
        raise InvalidArgument(f"principal {acl.principal!r} is not {USER_PREFIX}NAME or {USER_PREFIX}*")
    if acl.resource_type is AclResourceType.CLUSTER and (acl.pattern_type, acl.resource_name) not in (
        (PatternType.LITERAL, CLUSTER_NAME),
        (PatternType.LITERAL, WILDCARD),
    ):
        raise InvalidArgument(f"the resource of the type CLUSTER has the literal name {CLUSTER_NAME!r}")
    if acl.pattern_type is PatternType.PREFIXED and acl.resource_name == WILDCARD:
        raise InvalidArgument("the prefix '*' matches no name; the literal name '*' matches all")
    return acl._replace(host=_host(acl.host))


def _host(host: str) -> str:
    """Return the normal form of a host: an IP address, or `*`. Raises `InvalidArgument`."""
    if host == WILDCARD:
        return host
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise InvalidArgument(f"host {host!r} is not an IP address or '*'") from None


def _parts(entries: list[AclEntry]) -> list[tuple[AclEntry, ...]]:
    """Split entries into parts, one for each command."""
    return [tuple(entries[at : at + COMMAND_ACLS_MAX]) for at in range(0, len(entries), COMMAND_ACLS_MAX)]


def _entry_of(acl: Acl) -> AclEntry:
    """Return an ACL as a row for the controller's state."""
    types = int(acl.resource_type), int(acl.pattern_type)
    return AclEntry(*types, acl.resource_name, acl.principal, acl.host, int(acl.operation), int(acl.effect))


def _acl_of(row: AclRow | AclEntry) -> Acl:
    """Return the ACL of a row of the controller's state."""
    entry = row.entry if isinstance(row, AclRow) else row
    return Acl(
        AclResourceType(entry.resource_type),
        PatternType(entry.pattern_type),
        entry.resource_name,
        entry.principal,
        entry.host,
        AclOperation(entry.operation),
        AclEffect(entry.effect),
    )
