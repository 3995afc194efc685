"""Plan of the listeners of a broker, read from its options."""

from collections.abc import Mapping
from typing import NamedTuple

from raftlog.api.http.server.server import HttpSettings
from raftlog.cli.serve.authentication_options import AuthenticationPlan
from raftlog.cli.serve.kafka_options import KafkaPlan
from raftlog.security.tls_files import ServerTls


class ListenerPlan(NamedTuple):
    """Configuration of the listeners for clients.

    `host` and `port` are those of HTTP; `tls` has the listeners with TLS by name."""

    host: str
    port: int
    http: HttpSettings
    kafka: KafkaPlan
    tls: Mapping[str, ServerTls]
    logins: AuthenticationPlan
