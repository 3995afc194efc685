"""Handlers of Kafka's requests, by resource: each room has `apis`, which returns what it serves."""
