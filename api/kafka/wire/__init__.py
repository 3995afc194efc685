"""Codecs of Kafka's protocol, from bytes to values and back, without I/O; used by `dispatcher` and the handlers."""
