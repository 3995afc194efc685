"""Commands about users, permissions and client quotas, one frozen record each. From feature level 3 on.

Numbers of mechanisms, operations, types and effects are Kafka's (`raftlog.security`). A command never holds a password:
its proposer derives the salted keys. Which operation suits which type of resource, and the meaning of quota values, are
checked by the proposer alone. See `commands` for the rules that all commands follow."""

from dataclasses import dataclass
from typing import Annotated, Final

from raftlog.errors import InvalidArgument
from raftlog.partitions.controller.machine.commands import Command
from raftlog.partitions.controller.machine.schema import (
    Flag,
    Names,
    OptionalFlag,
    OptionalIndex,
    SchemaRecord,
    Settings,
    blob,
    listing,
    named,
    nested,
    text,
    whole,
)

USERS_MAX: Final = 10_000
ACLS_MAX: Final = 100_000
QUOTAS_MAX: Final = 10_000
"""Limits of the rows of the state; the same in all replicas: other numbers need another feature level."""
COMMAND_ACLS_MAX: Final = 1_000
"""Limit of the entries of one command."""
SECRET_BYTES: Final = 32
ENTITY_TYPES: Final = ("client-id", "ip", "user")
_KEY_BYTES_MAX: Final = 64
_SALT_BYTES_MAX: Final = 256
_ITERATIONS_MAX: Final = 16_384
_MECHANISM: Final = whole("mechanism", 1, 2)
_ENTITY_NAMES: Final = text("entity name", 0, 320)

UserName = Annotated[str, text("user name", 1, 256)]
Secret = Annotated[bytes, blob("secret", SECRET_BYTES, SECRET_BYTES)]
Entity = Annotated[
    tuple[tuple[str, str], ...], named("entity", text("entity type", 1, 16), _ENTITY_NAMES, len(ENTITY_TYPES))
]
"""Types and names of a quota's entity; an empty name is the default of its type."""


@dataclass(frozen=True, slots=True)
class StoredCredential(SchemaRecord):
    """Salted keys of a user for one mechanism of SCRAM."""

    mechanism: Annotated[int, _MECHANISM]
    salt: Annotated[bytes, blob("salt", 1, _SALT_BYTES_MAX)]
    iterations: Annotated[int, whole("iterations", 1, _ITERATIONS_MAX)]
    stored_key: Annotated[bytes, blob("key", 1, _KEY_BYTES_MAX)]
    server_key: Annotated[bytes, blob("key", 1, _KEY_BYTES_MAX)]

    def __repr__(self) -> str:
        """Return a text without keys, because tests and logs may print commands."""
        return f"StoredCredential(mechanism={self.mechanism}, iterations={self.iterations})"


Credentials = Annotated[
    tuple[StoredCredential, ...], listing("list of StoredCredential", nested(StoredCredential), 0, 2)
]


@dataclass(frozen=True, slots=True)
class AclEntry(SchemaRecord):
    """Entry of the access control list, which allows or denies one operation."""

    resource_type: Annotated[int, whole("resource type", 2, 5)]
    pattern_type: Annotated[int, whole("pattern type", 3, 4)]
    resource_name: Annotated[str, text("resource name", 1, 255)]
    principal: Annotated[str, text("principal", 1, 320)]
    host: Annotated[str, text("host", 1, 64)]
    operation: Annotated[int, whole("operation", 2, 12)]
    effect: Annotated[int, whole("effect", 2, 3)]

    @property
    def key(self) -> tuple[int, int, str, str, str, int, int]:
        """All fields, which together identify the entry."""
        return (
            self.resource_type,
            self.pattern_type,
            self.resource_name,
            self.principal,
            self.host,
            self.operation,
            self.effect,
        )


AclEntries = Annotated[tuple[AclEntry, ...], listing("list of AclEntry", nested(AclEntry), 1, COMMAND_ACLS_MAX)]


@dataclass(frozen=True, slots=True)
class SetUserCredentials(Command):
    """Change of a user's credentials; creates the user. A user without credentials is deleted.

    `credentials` replace those of the same mechanism, `removed` names mechanisms to delete, both ascending.
    `is_superuser` stays unchanged when it is None. `secret` becomes the cluster's secret if the cluster has none. With
    `is_first` the command is refused if the cluster ever had a user."""

    name: UserName
    credentials: Credentials
    removed: Annotated[tuple[int, ...], listing("mechanisms", _MECHANISM, 0, 2)]
    is_superuser: OptionalFlag
    secret: Secret
    is_first: Flag = False
    expected_version: OptionalIndex = None

    def check_rules(self) -> None:
        """Raise `InvalidArgument` if mechanisms are not in order, contradict each other, or nothing changes."""
        mechanisms = [credential.mechanism for credential in self.credentials]
        for numbers in (mechanisms, list(self.removed)):
            if numbers != sorted(set(numbers)):
                raise InvalidArgument(f"the mechanisms {numbers} must be in ascending order, each once")
        if set(mechanisms) & set(self.removed):
            raise InvalidArgument("a credential cannot be set and removed at once")
        if not mechanisms and not self.removed and self.is_superuser is None:
            raise InvalidArgument(f"nothing of the user {self.name!r} shall change")

    def __repr__(self) -> str:
        """Return a text without keys and secret."""
        return f"SetUserCredentials({self.name!r}, {self.credentials!r}, removed={self.removed!r})"


@dataclass(frozen=True, slots=True)
class DeleteUser(Command):
    """Deletion of a user; entries of the access control list that name it stay."""

    name: UserName
    expected_version: OptionalIndex = None


@dataclass(frozen=True, slots=True)
class CreateAcls(Command):
    """Addition of entries; those that exist stay as they are."""

    entries: AclEntries

    def check_rules(self) -> None:
        """Raise `InvalidArgument` if an ACL occurs twice."""
        _check_distinct(self.entries)


@dataclass(frozen=True, slots=True)
class DeleteAcls(Command):
    """Deletion of entries; those that do not exist are ignored."""

    entries: AclEntries

    def check_rules(self) -> None:
        """Raise `InvalidArgument` if an ACL occurs twice."""
        _check_distinct(self.entries)


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(Command):
    """Change of the quotas of one entity; an entity without quotas is deleted."""

    entity: Entity
    quotas: Settings
    unset: Names = ()

    def check_rules(self) -> None:
        """Raise `InvalidArgument` for an impossible entity, for quotas out of order, or if nothing changes."""
        types = [type_ for type_, _ in self.entity]
        if not types or not {*types} <= {*ENTITY_TYPES} or ("ip" in types and len(types) > 1):
            raise InvalidArgument(f"quotas are of a user, a client-id, both, or an ip, not of {types}")
        names = [name for name, _ in self.quotas]
        if list(self.unset) != sorted({*self.unset}) or {*names} & {*self.unset}:
            raise InvalidArgument("quotas to remove must be in ascending order, each once, and not set at once")
        if not names and not self.unset:
            raise InvalidArgument("no quota is named that shall change")


def _check_distinct(entries: tuple[AclEntry, ...]) -> None:
    """Raise `InvalidArgument` if an ACL occurs twice."""
    if len({entry.key for entry in entries}) != len(entries):
        raise InvalidArgument("the entries are not distinct")
