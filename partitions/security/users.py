"""Users: changes through the controller, and look-ups in the local copy of its state.

A password becomes salted keys for both mechanisms of SCRAM, in a thread; it is stored nowhere. Look-ups need no
controller, so that authentication goes on while the controller has no majority. Used by API servers and
authenticators."""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from raftlog.errors import ChangeRefused, InvalidArgument, UnknownUser
from raftlog.partitions.caller import Caller
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import DeleteUser, SetUserCredentials, StoredCredential, UserRow
from raftlog.partitions.controller.machine.security_commands import SECRET_BYTES
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.security.audit import write_user_changed
from raftlog.security.credentials import ScramCredential, ScramMechanism, check_user_name, from_password
from raftlog.types import Index

_NEVER_EXISTED: Final = Index(0)


class KnownUser(NamedTuple):
    """User, with the iterations of each mechanism that it can use."""

    name: str
    is_superuser: bool
    iterations: dict[ScramMechanism, int]
    version: int


class Users:
    """Users of the cluster: changes through the controller, look-ups in the local copy of its state."""

    def __init__(self, metadata: ControllerHost) -> None:
        self._metadata = metadata
        self._own_secret = secrets.token_bytes(SECRET_BYTES)

    # look-ups in the local copy

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential of a user for one mechanism; None without one."""
        row = self._row(name)
        found = () if row is None else row.credentials
        return next((_credential(each) for each in found if each.mechanism == mechanism), None)

    def any_credential(self, name: str) -> ScramCredential | None:
        """Return a credential of a user, to compare a password with; None for an unknown user."""
        row = self._row(name)
        return None if row is None else _credential(row.credentials[0])

    def is_superuser(self, name: str) -> bool:
        """Return whether a user is a superuser in the controller's state."""
        row = self._row(name)
        return row is not None and row.is_superuser

    def version_of(self, name: str) -> int:
        """Return the version of a user, which rises with each change of its credentials; 0 if it does not exist."""
        row = self._row(name)
        return 0 if row is None else row.version

    @property
    def secret(self) -> bytes:
        """Secret from which the salts of unknown users are derived.

        It is the cluster's, or before the first user this process's."""
        stored = self._metadata.state.secrets
        return stored.first().secret if len(stored) else self._own_secret

    @property
    def has_any(self) -> bool:
        """Whether the cluster has users, as known here."""
        return len(self._metadata.state.users) > 0

    def superusers(self) -> list[str]:
        """Return the names of the superusers in the controller's state."""
        return sorted(row.name for row in self._metadata.state.users if row.is_superuser)

    def _row(self, name: str) -> UserRow | None:
        return self._metadata.state.users.get(name)

    # administration

    async def list(self, *, deadline: Deadline) -> "list[KnownUser]":
        """Return all users by name."""
        await self._metadata.barrier(deadline)
        return sorted(map(_known_user, self._metadata.state.users))

    async def create(
        self, name: str, password: str, *, caller: Caller, deadline: Deadline, is_superuser: bool = False
    ) -> None:
        """Create a user. Raises `UserExists`, and `InvalidArgument` for a bad name or password."""
        check_user_name(name)
        credentials = await _derive(password)
        flag = True if is_superuser else None
        await self._set(name, credentials, caller, deadline, "created", flag, expected_version=_NEVER_EXISTED)

    async def set_password(self, name: str, password: str, *, caller: Caller, deadline: Deadline) -> None:
        """Replace the password of a user. Raises `UnknownUser`."""
        credentials = await _derive(password)
        await self._metadata.barrier(deadline)
        version = self.version_of(name)
        if not version:
            raise _unknown(name)
        await self._set(name, credentials, caller, deadline, "password", None, expected_version=Index(version))

    async def alter_credentials(
        self,
        name: str,
        added: Sequence[ScramCredential],
        removed: Sequence[ScramMechanism],
        *,
        caller: Caller,
        deadline: Deadline,
    ) -> None:
        """Replace and delete credentials, all or nothing; creates the user, or deletes it with its last credential.

        Raises `UnknownUser` for a credential to delete that does not exist, and `InvalidArgument`."""
        if added:
            check_user_name(name)
        elif not removed:
            raise InvalidArgument(f"nothing of the user {name!r} shall change")
        await self._set(name, _stored(added), caller, deadline, "credentials", None, removed=removed)

    async def delete(self, name: str, *, caller: Caller, deadline: Deadline) -> None:
        """Delete a user; entries of access control that name it stay. Raises `UnknownUser`."""
        try:
            command = DeleteUser(name)
        except InvalidArgument:
            raise _unknown(name) from None
        await self._metadata.submit(command, deadline)
        write_user_changed(caller, name, "deleted")

    async def create_first(self, name: str, password: str, *, caller: Caller, deadline: Deadline) -> bool:
        """Create the first user, a superuser, unless the cluster ever had a user; return whether it was created."""
        check_user_name(name)
        if len(self._metadata.state.secrets):
            return False
        credentials = await _derive(password)
        try:
            await self._set(name, credentials, caller, deadline, "created", True, is_first=True)
        except ChangeRefused:
            return False
        return True

    async def _set(
        self,
        name: str,
        credentials: tuple[StoredCredential, ...],
        caller: Caller,
        deadline: Deadline,
        change: str,
        is_superuser: bool | None,
        *,
        removed: Sequence[ScramMechanism] = (),
        is_first: bool = False,
        expected_version: Index | None = None,
    ) -> None:
        """Store credentials of a user through the controller, and log the change without secrets."""
        command = SetUserCredentials(
            name,
            credentials,
            tuple(sorted(map(int, removed))),
            is_superuser,
            secrets.token_bytes(SECRET_BYTES),
            is_first,
            expected_version,
        )
        await self._metadata.submit(command, deadline)
        write_user_changed(caller, name, change)


async def _derive(password: str) -> tuple[StoredCredential, ...]:
    """Return the credentials of a password for all mechanisms, computed in a thread."""

    def derive() -> tuple[StoredCredential, ...]:
        """Return the credentials of the password for all mechanisms; slow by design."""
        return _stored([from_password(mechanism, password) for mechanism in ScramMechanism])

    return await asyncio.to_thread(derive)


def _stored(credentials: Sequence[ScramCredential]) -> tuple[StoredCredential, ...]:
    """Return credentials as rows of the controller's state, ordered by mechanism."""
    return tuple(
        StoredCredential(int(each.mechanism), each.salt, each.iterations, each.stored_key, each.server_key)
        for each in sorted(credentials, key=lambda each: each.mechanism)
    )


def _credential(stored: StoredCredential) -> ScramCredential:
    """Return the credential of a row."""
    return ScramCredential(
        ScramMechanism(stored.mechanism), stored.salt, stored.iterations, stored.stored_key, stored.server_key
    )


def _known_user(row: UserRow) -> KnownUser:
    """Return the description of a user, without secrets."""
    iterations = {ScramMechanism(each.mechanism): each.iterations for each in row.credentials}
    return KnownUser(row.name, row.is_superuser, iterations, row.version)


def _unknown(name: str) -> UnknownUser:
    """Return the error for a user that does not exist."""
    return UnknownUser(f"user {name!r} does not exist")
