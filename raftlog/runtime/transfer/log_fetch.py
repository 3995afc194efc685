"""Fetch of many missing entries by a follower from its leader, piece by piece, over the bulk connection.

    entries after the follower's last one are requested → appended and checked like any append of the leader → …
    until the leader has no more; later entries are sent by Raft

If the leader's log begins after the end of the follower's log, an `installation` comes first.

    appended and not yet durable ≤ window bytes,   requested ahead ≤ one piece

Fetched entries are in the log, so after any interruption of a transfer, a crash or another leader, the next one
continues after them. Diverging logs are detected as by any append: committed entries agree. Entries are fetched only as
fast as they become durable here, and the leader keeps no data for a follower that makes no progress."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from raftlog.errors import FormatError, Unavailable
from raftlog.raft import Entry, EntryId
from raftlog.raft.messages import AppendRequest, InstallOffer
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.bulk import FetchResult, LogFetchRequest, LogsDiverge
from raftlog.runtime.transfer.ports import AppendPort, send_request
from raftlog.runtime.transport import Envelope
from raftlog.types import Index

_SLICE_ENTRIES: Final = 128
"""Number of entries that are appended before the loop's other tasks run."""


class LogFetch:
    """One attempt of a follower to fetch the entries that it lacks from the leader."""

    def __init__(
        self,
        port: AppendPort,
        group: PartitionReplica,
        offer: InstallOffer,
        wait_turn: Callable[[], "asyncio.Future[None]"],
    ) -> None:
        """Prepare a fetch; `wait_turn` returns a future that is done after the driver's next turn."""
        self.offer = offer
        self.leader, self.term = offer.sender, offer.term
        self.bytes_taken = 0
        self._port, self._group = port, group
        self._wait_turn = wait_turn
        self._unsynced: deque[tuple[Index, int]] = deque()
        """Last index and size of entries that were appended and may not be durable yet."""
        self._unsynced_bytes = 0

    async def run(self) -> None:
        """Fetch the leader's entries. Raises `RaftlogError`, `OSError`, `TimeoutError`; appended entries stay."""
        core = self._group.core
        after = core.last_id
        result = await self._request_entries(after)
        if isinstance(result, LogsDiverge):
            after = EntryId(core.committed_index, self._group.log.term_at(core.committed_index))
            result = await self._request_entries(after)
        while isinstance(result, FetchResult) and result.entries and self._is_wanted:
            last = EntryId(result.entries[-1].index, result.entries[-1].term)
            if last.index >= result.last_index:
                await self._append_in_slices(after, result)
                return  # later entries are sent by Raft
            ahead = self._port.loop.create_task(self._request_entries(last))
            try:
                await self._append_in_slices(after, result)
                result, after = await ahead, last
            finally:
                ahead.cancel()
                if ahead.done() and not ahead.cancelled():
                    ahead.exception()  # no caller waits for it any more

    @property
    def _is_wanted(self) -> bool:
        """Whether the source is still the leader, according to this replica."""
        core = self._group.core
        return core.leader == self.leader and core.term == self.term and not self._group.is_closed

    async def _request_entries(self, after: EntryId) -> FetchResult | LogsDiverge:
        """Request the entries after `after` from the leader. Raises like `run`."""
        config = self._port.config
        request = LogFetchRequest(self._group.key, self.term, self.offer.sequence, after, config.transfer_chunk_bytes)
        result = await send_request(self._port, self.leader.node_id, request)
        if isinstance(result, (FetchResult, LogsDiverge)):
            return result
        raise FormatError(f"node {self.leader.node_id} answered with {type(result).__name__}")

    async def _append_in_slices(self, after: EntryId, result: FetchResult) -> None:
        """Append fetched entries in slices, each when there is room for it."""
        for start in range(0, len(result.entries), _SLICE_ENTRIES):
            some = result.entries[start : start + _SLICE_ENTRIES]
            await self._wait_for_room()
            if not self._is_wanted:
                return
            self._append(after, some, result.committed)
            after = EntryId(some[-1].index, some[-1].term)
            await asyncio.sleep(0)

    def _append(self, after: EntryId, entries: tuple[Entry, ...], committed: Index) -> None:
        """Append entries as if the leader had sent them; raises `Unavailable` if they are not accepted."""
        group, port = self._group, self._port
        request = AppendRequest(
            self.leader, port.me, self.term, self.offer.sequence, after, entries, committed, is_probe=False
        )
        port.receive(self.leader.node_id, [Envelope(group.key, request)])
        last = entries[-1]
        if group.core.last_id.index < last.index and self._is_wanted:
            reason = port.append_error(0) or "there is no room for them, or they are not sound"
            raise Unavailable(f"entries {entries[0].index} to {last.index} of {group.path} were not taken: {reason}")
        size = sum(entry.size_bytes for entry in entries)
        self._unsynced.append((last.index, size))
        self._unsynced_bytes += size
        self.bytes_taken += size

    async def _wait_for_room(self) -> None:
        """Wait until enough entries are durable to append more; raise `TimeoutError` if the disk makes no progress."""
        config = self._port.config
        async with asyncio.timeout(config.transfer_timeout_ms / 1000):
            while True:
                durable = self._group.core.durable_index
                while self._unsynced and self._unsynced[0][0] <= durable:
                    self._unsynced_bytes -= self._unsynced.popleft()[1]
                if self._unsynced_bytes <= config.transfer_window_bytes or not self._is_wanted:
                    return
                await self._wait_turn()
