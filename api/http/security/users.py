"""/v1/security/users: the users of the cluster. Passwords come in bodies, and no answer has one."""

from aiohttp import web

from raftlog.api.http.requests import NewUserBody, PasswordBody
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import ALTER_CLUSTER, DESCRIBE_CLUSTER
from raftlog.api.http.server.routing import Target
from raftlog.partitions.security.users import KnownUser
from raftlog.values.security import MechanismName, UserDescription

_USERS = "/v1/security/users"
_MECHANISMS: tuple[MechanismName, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class UserHandlers(Handlers):
    """Handlers for users."""

    @HttpEndpoint(f"GET {_USERS}", list[UserDescription], permissions=DESCRIBE_CLUSTER)
    async def users(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return all users by name."""
        found = await self._broker.security.users.list(deadline=target.deadline())
        return value_answer(list(map(describe_user, found)))

    @HttpEndpoint(f"POST {_USERS}", body=NewUserBody, permissions=ALTER_CLUSTER)
    async def create_user(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Create a user.

        The body is `{"name", "password", "is_superuser"?}`."""
        deadline = target.deadline()
        body = await self._bodies.read(request, NewUserBody)
        await self._broker.security.users.create(
            body.name, body.password, is_superuser=body.is_superuser, caller=caller_of(request), deadline=deadline
        )
        return no_content()

    @HttpEndpoint(f"PUT {_USERS}/{{user}}/password", body=PasswordBody, permissions=ALTER_CLUSTER)
    async def set_password(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Replace the password of a user.

        The body is `{"password"}`."""
        deadline = target.deadline()
        body = await self._bodies.read(request, PasswordBody)
        await self._broker.security.users.set_password(
            target.args[0], body.password, caller=caller_of(request), deadline=deadline
        )
        return no_content()

    @HttpEndpoint(f"DELETE {_USERS}/{{user}}", permissions=ALTER_CLUSTER)
    async def delete_user(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete a user; entries of access control that name it stay."""
        await self._broker.security.users.delete(target.args[0], caller=caller_of(request), deadline=target.deadline())
        return no_content()


def describe_user(user: KnownUser) -> UserDescription:
    """Return the description of a user, which has no secret."""
    return UserDescription(user.name, [_MECHANISMS[number - 1] for number in user.iterations], user.is_superuser)
