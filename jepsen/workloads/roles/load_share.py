"""Share of a client in the load: its partitions, values and processes, and its part of the history."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from jepsen.workloads.client.numbering import ProcessNumberPool
from jepsen.workloads.client.recording import HistoryWriter
from raftlog.types import TopicPartition


class LoadShare(NamedTuple):
    """Share of the load that one client sends."""

    history: HistoryWriter
    partitions: Sequence[TopicPartition]
    values: Iterator[int]
    senders: ProcessNumberPool
    random: Random
