"""HTTP API: Confluent REST Proxy's v2 for records, its v3 for topics, Redpanda's admin API for operators.

`server.HttpServer` serves a `raftlog.partitions.broker.Broker`; the handlers are grouped by resource. They keep no
state of their own except for connections."""
