"""Users, entries of access control and client quotas, as `BrokerClient.admin.security`; any broker answers.

Passwords are sent to the broker, which stores salted keys only."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from raftlog.client.calls import ANSWER_MS, Calls, quote_segment
from raftlog.values.security import AclDescription, QuotaDescription, UserDescription

_USERS: Final = "/v1/security/users"
_ACLS: Final = "/v1/security/acls"
_QUOTAS: Final = "/v1/security/quotas"


class SecurityClient:
    """Administration of security; changes except `create_user` are repeated if their answer was lost."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def users(self) -> list[UserDescription]:
        """Return all users by name."""
        return await self._calls.read(list[UserDescription], _USERS)

    async def create_user(self, name: str, password: str, *, is_superuser: bool = False) -> None:
        """Create a user. Raises `UserExists`."""
        body = {"name": name, "password": password, "is_superuser": is_superuser}
        await self._calls.change("POST", _USERS, body, timeout_ms=ANSWER_MS)

    async def set_password(self, name: str, password: str) -> None:
        """Replace the password of a user. Raises `UnknownUser`."""
        path = f"{_USERS}/{quote_segment(name, 'user')}/password"
        await self._calls.change("PUT", path, {"password": password}, timeout_ms=ANSWER_MS, repeatable=True)

    async def delete_user(self, name: str) -> None:
        """Delete a user. Raises `UnknownUser`."""
        await self._calls.change("DELETE", f"{_USERS}/{quote_segment(name, 'user')}", timeout_ms=ANSWER_MS)

    async def acls(self, selected: Mapping[str, str] | None = None) -> list[AclDescription]:
        """Return entries of access control; `selected` maps filter parameters of docs/HTTP.md to values."""
        return await self._calls.read(list[AclDescription], _ACLS, selected)

    async def create_acls(self, acls: Sequence[AclDescription]) -> None:
        """Create entries of access control; existing ones stay."""
        body = {"acls": [structs.asdict(acl) for acl in acls]}
        await self._calls.change("POST", _ACLS, body, timeout_ms=ANSWER_MS, repeatable=True)

    async def delete_acls(self, selected: Mapping[str, str], *, dry_run: bool = False) -> list[AclDescription]:
        """Delete the selected entries of access control; return them. `dry_run`: only return them."""
        query = {**selected, "dry_run": "true" if dry_run else "false"}
        return await self._calls.change_as(
            list[AclDescription], "DELETE", _ACLS, timeout_ms=ANSWER_MS, query=query, only_reads=dry_run
        )

    async def quotas(self) -> list[QuotaDescription]:
        """Return all entities with quotas."""
        return await self._calls.read(list[QuotaDescription], _QUOTAS)

    async def alter_quotas(
        self, entity: Mapping[str, str], upsert: Mapping[str, float], remove: Sequence[str] = ()
    ) -> None:
        """Set some quotas of an entity, and remove others."""
        body = {"entity": dict(entity), "upsert": dict(upsert), "remove": list(remove)}
        await self._calls.change("PUT", _QUOTAS, body, timeout_ms=ANSWER_MS, repeatable=True)
