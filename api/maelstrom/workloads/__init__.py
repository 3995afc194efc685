"""Maelstrom's workloads, one module each: their requests and answers."""
