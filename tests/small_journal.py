"""Small journals for brokers that run for one test: each is first written as zeros, and 32 MiB take long."""

from dataclasses import replace

from raftlog.partitions.node.settings import node_driver_config
from raftlog.runtime.journal.config import JournalConfig

MIB = 1 << 20
SMALL_JOURNAL = replace(
    node_driver_config(),
    journal=JournalConfig(file_bytes=MIB, write_bytes_max=MIB // 2, reserve_bytes=MIB // 4),
)
"""Settings of the product with small files and bounds."""
