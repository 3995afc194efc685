"""Maelstrom's workloads, one module each: what a request asks for, and what it is answered with."""
