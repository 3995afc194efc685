"""Settings of a Kafka listener."""

from typing import NamedTuple

from raftlog.topic_config import MIB


class KafkaSettings(NamedTuple):
    """Bounds of a Kafka listener; flags of `raftlog serve` replace the defaults."""

    request_bytes_max: int = 100 * MIB
    """Largest frame, as Kafka's `socket.request.max.bytes`; a larger one ends the connection."""
    connections_max: int = 10_000
    """Maximum number of open connections; further ones are closed immediately."""
    pipelined_requests_max: int = 100
    """Requests of one connection that have no answer yet; further ones stay unread in the socket."""
    idle_ms_max: int = 600_000
    """Time without a request after which a connection is closed, as Kafka's `connections.max.idle.ms`."""
    auto_create_topics: bool = False
    """Whether Metadata creates unknown topics, as Kafka's `auto.create.topics.enable`."""


DEFAULTS = KafkaSettings()
