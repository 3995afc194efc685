"""Whole brokers in virtual time: everything below the HTTP listener, from one seed.

What differs from the simulation of drivers beside it: a process here is the product's own composition (`Node` and the
layers above it), with the real transport between processes, run over simulated connections. So handshakes, framing,
back-pressure, reconnecting and requests between brokers are under test as well, and nothing of them is written twice.

`wires` and `transport` are the connections, `machine` is one computer and the environment of its process.
"""
