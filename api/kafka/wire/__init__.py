"""Codecs of Kafka's protocol: bytes in, values out, no I/O; called by `dispatcher` and the handlers."""
