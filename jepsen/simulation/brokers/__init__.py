"""Whole brokers in virtual time: everything below the HTTP listener, from one seed.

In the simulation of drivers the harness composes the parts of a process. Here a process is the product's own
composition (`Node` and the layers above it), with the real transport over simulated connections. So handshakes,
framing, back-pressure, reconnecting and requests between brokers are under test as well.

`wires` and `transport` are the connections, `machine` is one simulated computer with its disk and its process.
"""
