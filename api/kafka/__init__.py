"""Kafka protocol: the listener for Kafka clients.

`listener.KafkaListener` serves a `raftlog.partitions.broker.Broker`. `connection` splits a connection's bytes into
frames and sends answers in the order of the requests, `dispatcher` decodes a request, calls its handler and encodes the
answer, `handlers` has the handlers by resource, and `wire` the codecs, which do no I/O. Produce, Fetch and ListOffsets
are served by the leader alone and are never forwarded."""
