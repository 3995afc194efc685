"""Partitions: what a broker does with topics, and the façade `broker.py` that every API calls."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions"
