"""The transport between processes: frames over TCP, optionally TLS, for Raft messages, heartbeats and requests.

Who may come in: the composition root, which makes a `TcpTransport`, hands it to the driver and sets its hooks; routing,
which makes `Call`s; status pages. The driver knows only `raftlog.runtime.transport.Transport`. Pickle is used nowhere.
"""
