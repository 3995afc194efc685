"""Partitions: a broker's work with topics, behind the façade `broker.py` that every API calls."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions"
