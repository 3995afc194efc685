"""Clients of simulated brokers, by kind, and the values that they write."""
