"""Authentication that a client listener requires, for the servers of all protocols."""

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.partitions.security.authenticator import Authenticator
from raftlog.security.sasl import PLAIN


class ListenerAuthentication(NamedTuple):
    """Requirement that every client of a listener logs in.

    `mechanisms` are names of SASL mechanisms; those that are not configured are left out. `is_insecure` allows
    PLAIN on connections without TLS, which show the password to the network."""

    authenticator: Authenticator
    mechanisms: Sequence[str]
    is_insecure: bool = False

    def offered(self, *, is_encrypted: bool) -> tuple[str, ...]:
        """Return the SASL mechanisms that a connection may use; without TLS, PLAIN only with `is_insecure`."""
        configured = self.authenticator.mechanisms
        return tuple(
            name
            for name in self.mechanisms
            if name in configured and (name != PLAIN or is_encrypted or self.is_insecure)
        )
