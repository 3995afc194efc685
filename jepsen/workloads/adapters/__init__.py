"""Access of a client to the log: by HTTP, or by Kafka's protocol with an unmodified client library.

`port` is their interface; the roles of a workload use it, so that workload, history and checkers are the same."""
