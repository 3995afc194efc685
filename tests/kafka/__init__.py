"""Tests of the Kafka listener."""
