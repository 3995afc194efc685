"""Handlers of logins and users: SaslHandshake, SaslAuthenticate, and the SCRAM credentials of users."""

from raftlog.api.kafka.api import KafkaApi
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.applied import with_applied_changes
from raftlog.api.kafka.handlers.security.logins import make_login_apis
from raftlog.api.kafka.handlers.security.scram_credentials import ScramCredentialRequests


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the APIs of logins, where the listener requires them, and of users."""
    found = with_applied_changes(context.broker, ScramCredentialRequests(context).apis())
    return [*make_login_apis(), *found] if context.authentication is not None else found
