"""Error of the Kafka codecs."""


class MalformedRequest(Exception):
    """Bytes that are no request of Kafka's protocol; the connection ends.

    It is outside of the tree of `raftlog.errors`: nothing was executed, and the client gets no answer. The message
    names the field and the reason, never the bytes."""
