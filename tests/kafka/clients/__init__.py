"""Released Kafka clients, unchanged, against real brokers."""
