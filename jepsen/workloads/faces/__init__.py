"""Faces of the log through which a client works: HTTP, or Kafka's protocol by an unchanged client library.

`port` is their interface; the roles of a workload use it, so that workload, history and checkers are the same."""
