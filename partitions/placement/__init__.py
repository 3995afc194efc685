"""Where replicas and leaders are, and how they get to where they shall be.

`assignments` makes and removes the groups of this node, `moves` changes their members, `balancing` decides what is
placed where, `recovery` lets a partition that lost its majority go on.
"""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement"
