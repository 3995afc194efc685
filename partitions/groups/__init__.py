"""Consumer groups: a machine on coordinators (`partitions.coordinator`) of `__consumer_offsets`.

Who may come in: the façade of a broker, consumer instances, and what is declared in `results`.
"""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.groups"
