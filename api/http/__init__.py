"""The HTTP face: Confluent REST Proxy's v2 for records, its v3 for topics, Redpanda's admin shape for operators.

`server.HttpServer` serves a `raftlog.partitions.broker.Broker`; the handlers are grouped by noun. Nothing here keeps
state of its own besides what a connection needs.
"""
