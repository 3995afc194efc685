"""Simulated network: links, streams, cuts, and the transport of a process over them."""
