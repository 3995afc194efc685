"""Parts of this package, which listeners use as `Broker.leader`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.leader.appends import LeaderAppends
from raftlog.partitions.leader.fetch import FetchedPartition, PartitionFetch, PartitionsFetch
from raftlog.partitions.leader.offsets import LeaderOffsets
from raftlog.partitions.leader.session_fetch import SessionFetch
from raftlog.partitions.leader.topic_leaders import TopicLeaders
from raftlog.partitions.leader.transaction_appends import TransactionAppends
from raftlog.partitions.routing.topics import Topics
from raftlog.types import Isolation


class LeaderFetches:
    """Fetches from partitions that this node leads; one instance per process."""

    def __init__(self, topics: Topics, counters: Counters, bytes_max: int) -> None:
        self._topics, self._counters, self._bytes_max = topics, counters, bytes_max

    async def fetch(
        self,
        requests: Sequence[PartitionFetch],
        *,
        max_bytes: int,
        min_bytes: int,
        deadline: Deadline,
        free_bytes: Callable[[], int] | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> list[FetchedPartition]:
        """Return stored batches of several partitions, one result each, with one wait; errors are results.

        No partition may occur twice. `free_bytes` returns the memory that an answer may take at that moment; while it
        returns 0, answers have no records."""
        if not requests:
            return []
        max_bytes = max(0, min(max_bytes, self._bytes_max))
        fetch = PartitionsFetch(self._topics, self._counters, requests, max_bytes, free_bytes, isolation)
        return await fetch.run(min(min_bytes, max_bytes), deadline)

    def begin_session(self, free_bytes: Callable[[], int] | None = None) -> SessionFetch:
        """Return a fetch session without partitions; close it after use. `free_bytes`: see `fetch`."""
        return SessionFetch(self._topics, self._counters, self._bytes_max, free_bytes)


class LeaderParts(NamedTuple):
    """Components that serve requests for partitions that this broker leads."""

    appends: LeaderAppends
    fetches: LeaderFetches
    offsets: LeaderOffsets
    transaction_appends: TransactionAppends
    """Appends to transactions, which any broker accepts."""
    topics: TopicLeaders
    """Look-up of the leaders of topics, for metadata requests."""
