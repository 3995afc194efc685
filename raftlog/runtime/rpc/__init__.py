"""The transport between processes: frames over TCP, optionally TLS, for Raft messages, heartbeats and requests.

Used by the composition root, which makes a `TcpTransport`, passes it to the driver and sets its hooks; by routing,
which makes `Call`s; by status pages. The driver uses only `raftlog.runtime.transport.Transport`. Pickle is used
nowhere.
"""
