"""Security of a broker: users, logins, permissions and quotas, from the local copy of the controller's state.

The composition calls `state_changed` after each batch of applied commands, so that a change is effective on every
broker once it has applied it."""

import logging
from collections.abc import Callable
from typing import Final

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.caller import Caller
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.security.acls import Acls
from raftlog.partitions.security.authenticator import Authenticator
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.partitions.security.client_rates import ClientRates
from raftlog.partitions.security.listener_security import ListenerSecurities
from raftlog.partitions.security.quotas import Quotas
from raftlog.partitions.security.users import Users
from raftlog.security.credentials import PASSWORD_BYTES_MAX, check_user_name

_logger = logging.getLogger(__name__)
FIRST_USER_MS: Final = 30_000
FIRST_USER_VARIABLE: Final = "RAFTLOG_BOOTSTRAP_USER"
"""Environment variable with the first user of a cluster, as `NAME:PASSWORD`."""
_FOUNDER: Final = Caller("bootstrap", "", "", "")


class Security:
    """Components of a broker's security, for API servers; `authorizer` is off unless it is given.

    `wall_ms` returns the Unix time, and `check_ready` raises `Unavailable` while the broker starts."""

    def __init__(
        self,
        metadata: ControllerHost,
        wall_ms: Callable[[], int],
        check_ready: Callable[[], None],
        authorizer: Authorizer | None = None,
    ) -> None:
        """Create the parts for users, permissions and quotas.

        `check_ready` raises an error while the broker is not ready."""
        self.users, self.acls, self.quotas = Users(metadata), Acls(metadata), Quotas(metadata)
        self.rates = ClientRates(self.quotas)
        """Rates of clients against their quotas."""
        self.authenticator = Authenticator(self.users, wall_ms, check_ready)
        self.authorizer = authorizer or Authorizer()
        self.listeners = ListenerSecurities(wall_ms)
        """Protection and certificates of the listeners, set by the process that makes them."""
        self._metadata = metadata
        self._applied: tuple[bytes, bytes] | None = None
        self._applied_quotas: bytes | None = None

    def state_changed(self) -> None:
        """Apply changed users, access entries and quotas of the controller's state."""
        state = self._metadata.state
        if self._applied_quotas != state.client_quotas.digest:
            self._applied_quotas = state.client_quotas.digest
            self.rates.refresh()
        if self._applied != (state.users.digest, state.acls.digest):
            self.refresh()

    def refresh(self) -> None:
        """Apply changed users and access entries of the controller's state to the decisions about permissions."""
        state = self._metadata.state
        self._applied = (state.users.digest, state.acls.digest)
        self.acls.update_authorizer(self.authorizer, self.users.superusers())

    def close(self) -> None:
        """Cancel checks of waiting requests, and a reading of keys."""
        self.authorizer.close()
        if self.authenticator.bearer is not None:
            self.authenticator.bearer.close()

    async def create_first_user(self, name_and_password: str) -> None:
        """Create the first user of the cluster, a superuser, from `NAME:PASSWORD`, unless it ever had a user.

        Raises `InvalidArgument` for another form. If the controller does not answer in time, or its feature level is
        too low, that is logged, and a restart with the variable tries again."""
        name, password = check_first_user(name_and_password)
        try:
            await self.users.create_first(name, password, caller=_FOUNDER, deadline=deadline_in(FIRST_USER_MS))
        except InvalidArgument as error:
            if "feature level" not in str(error):
                raise
            _logger.warning("the first user was not created: %s", error)
        except RaftlogError as error:
            _logger.warning("the first user was not created, a restart tries again: %s", error)


def check_first_user(name_and_password: str) -> tuple[str, str]:
    """Return name and password of a first user. Raises `InvalidArgument`, which does not show the password."""
    name, colon, password = name_and_password.partition(":")
    if not colon or not 0 < len(password.encode()) <= PASSWORD_BYTES_MAX:
        raise InvalidArgument(
            f"{FIRST_USER_VARIABLE} is not NAME:PASSWORD with a password of 1 to {PASSWORD_BYTES_MAX} bytes"
        )
    check_user_name(name)
    return name, password
