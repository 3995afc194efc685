"""Reads of committed records at one replica: their end, the aborted transactions among them, and the waits for more.

    last stable offset = min(high watermark, first offset of an open transaction);   it never falls

While the producers' state is lost for good (damage without another replica, entries of a newer release), open
transactions are unknown: then records up to the first batch of any transaction are served, without a last stable
offset. Owned by a replica."""

from typing import Final, NamedTuple

from raftlog.errors import OffsetNotAvailable, Unavailable
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica.aborted_transactions import AbortedTransactions, has_transactions
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.waits import Waits
from raftlog.partitions.results import AbortedTransaction
from raftlog.raft import Ready
from raftlog.records import read_header
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Offset

_ALL_BYTES: Final = 1 << 62
"""Size reported for newly stable records whose bytes are not counted, so that every waiting reader wakes."""
UNKNOWN: Final = Offset(-1)


class CommittedRead(NamedTuple):
    """Batches below the last stable offset or the high watermark, and the aborted transactions among them."""

    batches: list[memoryview]
    end: Offset
    """Offset up to which records could be read at that time."""
    last_stable_offset: Offset
    aborted: list[AbortedTransaction]


class CommittedReads:
    """Reads with isolation `read_committed` at one replica."""

    def __init__(self, name: str, group: PartitionReplica, producers: ProducerState) -> None:
        """Follow the last stable offset of the replica `name`."""
        self._name, self._group, self._producers = name, group, producers
        self.waits = Waits()
        """Waits of readers for a higher last stable offset."""
        self._aborted = AbortedTransactions(group, self.waits.wake_all)
        self._stable = UNKNOWN
        """Last stable offset at the last step with a waiting reader."""
        self._had_open = True
        """Whether a transaction may have been open after the last step."""

    def read(self, offset: int, max_bytes: int, watermark: Offset, *, is_lost: bool) -> CommittedRead:
        """Return batches from `offset` on, below `watermark` and the last stable offset.

        `is_lost`: no other replica can supply the state of the transactions. Raises `OffsetNotAvailable` while
        transactions or their outcomes are being read, `Unavailable` and `CorruptBatch`."""
        try:
            stable = min(self._producers.stable_end, watermark)
        except Unavailable as error:
            if not is_lost and self._producers.problem is None:
                raise
            return self._read_without_state(offset, max_bytes, watermark, error)
        batches = self._group.read(offset, max_bytes, stable) if offset < stable else []
        aborted = self._aborted.find(batches)
        if aborted is None:
            raise OffsetNotAvailable(f"{self._name}: outcomes of transactions are being read; retry")
        return CommittedRead(batches, stable, stable, aborted)

    def _read_without_state(self, offset: int, max_bytes: int, watermark: Offset, error: Unavailable) -> CommittedRead:
        """Return batches up to the first one of a transaction; raise `error` if there is none before it."""
        batches = self._group.read(offset, max_bytes, watermark) if offset < watermark else []
        for at, batch in enumerate(batches):
            if has_transactions([batch]):
                if at == 0:
                    raise error
                return CommittedRead(batches[:at], Offset(read_header(batch).base_offset), UNKNOWN, [])
        return CommittedRead(batches, watermark, UNKNOWN, [])

    async def wait_for_end(self, deadline: Deadline, *, is_lost: bool) -> Offset:
        """Return the last stable offset, once the transactions are known; the high watermark if they never will be.

        Raises `OffsetNotAvailable`."""
        while True:
            try:
                return self._producers.stable_end
            except Unavailable:
                if is_lost or self._producers.problem is not None:
                    return self._group.high_watermark
                if not await self.waits.wait(1, deadline):
                    raise

    def on_step(self, ready: Ready) -> None:
        """Wake readers after a step of the group, in which entries were delivered or its role has changed."""
        had_open = self._had_open
        if self._producers.is_loaded:
            self._had_open = bool(self._producers.table.transactions.open)
        if ready.role_state is not None:
            self.waits.wake_all()
        elif ready.apply is not None and self.waits and self._producers.is_loaded:
            before, self._stable = self._stable, self._producers.stable_end
            if not had_open and not self._had_open:
                self.waits.advance(self._group.log.size_of(*ready.apply))
            elif self._stable > before:
                self.waits.advance(_ALL_BYTES)

    def on_loaded(self) -> None:
        """Count on open transactions in a state that was read anew."""
        self._had_open = True

    def close(self) -> None:
        """Stop work in the background, because the replica ends."""
        self._aborted.close()
