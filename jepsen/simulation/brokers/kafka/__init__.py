"""Kafka's protocol in the simulation of brokers: the product's listener on simulated connections, and its clients.

The clients are programs on a node of their own. They speak frames encoded by kafka-python, find leaders by Metadata,
and have a topic that only they use. `listener` serves; `wire_client` sends; `clients` has the roles."""
