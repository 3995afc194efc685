"""Error of the Kafka codecs for malformed requests."""


class MalformedRequest(Exception):
    """Error for bytes that are no request of Kafka's protocol; the connection is closed.

    It is outside of the tree of `raftlog.errors`: nothing was executed, and the client gets no answer. The message
    names the field and the reason, never the bytes."""
