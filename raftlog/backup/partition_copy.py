"""Copy of one partition's new batches into files of a backup.

    begin = covered end, or the log start   ≤   copied   ≤   end = the committed end when the run began

Batches are stored as they were fetched, after a check of their CRC; batches without records are left out. While one
file is written the next one is fetched, so at most two are in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from crc32c import crc32c

from raftlog.backup.errors import BackupRefused
from raftlog.backup.manifest import SavedFile, SavedTopic, UnsavedRange
from raftlog.backup.state import BackupRun, Place
from raftlog.client import BrokerClient
from raftlog.client.answers import Fetched
from raftlog.client.decode import read_batches
from raftlog.client.outage import Outage, is_unanswered
from raftlog.errors import OffsetOutOfRange, Unavailable, UnknownTopic
from raftlog.records import BatchHeader

_FETCH_BYTES_MAX: Final = 4 << 20
_WAIT_MS: Final = 500
_PAUSE_S_MAX: Final = 1.0


class CopyOptions(NamedTuple):
    """Limits of a run: size of files, partitions at a time, and seconds without an answer after which it fails."""

    file_bytes: int = 16 << 20
    parallel: int = 4
    give_up_after_s: float = 30.0


class CopiedBatches(NamedTuple):
    """Report of copied batches for the progress: all offsets of the partition below `offset` are done."""

    place: Place
    offset: int
    size: int
    records: int


class _Buffer:
    """Batches collected for the next file of the backup, from offset `first` on."""

    def __init__(self, first: int) -> None:
        """Begin an empty buffer for records from offset `first` on."""
        self.first = first
        self.data = bytearray()
        self.batches = self.records = self.last_offset = self.last_crc = 0

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """Add a batch to the next file."""
        self.data += batch
        self.batches += 1
        self.records += header.record_count
        self.last_offset, self.last_crc = header.base_offset, header.crc


class PartitionCopy:
    """Copy of one partition in a run."""

    def __init__(
        self,
        client: BrokerClient,
        run: BackupRun,
        topic: SavedTopic,
        partition: int,
        options: CopyOptions,
        on_file: Callable[[SavedFile], Awaitable[None]],
        on_copied: Callable[[CopiedBatches], None],
    ) -> None:
        """Prepare a copy. `on_file` gets each file after it was stored, `on_copied` gets the progress."""
        self._client, self._run, self.topic, self._partition = client, run, topic, partition
        self._options, self._on_file, self._on_copied = options, on_file, on_copied
        self.name = f"{topic.name}/{partition}"
        self._place: Place = (topic.topic_id, partition)
        self._outage = Outage(f"backup of {self.name}", options.give_up_after_s, _PAUSE_S_MAX, is_unanswered)
        self.lost: list[UnsavedRange] = []

    async def check_last(self, last: SavedFile, log_start: int, end: int, *, compacts: bool) -> None:
        """Raise `BackupRefused` unless the log still has the last saved batch.

        A batch that the cluster deleted, and topics with `compacts`, are not checked."""
        if end < last.end:
            await self._fetch_once(end, 1, 0)  # raises `UnknownTopic` if this is another topic of the name
            raise BackupRefused(
                f"{self.name} ends at offset {end}, and the backup has offsets up to {last.end}: the cluster lost "
                "records that were saved; keep this backup, and begin another one"
            )
        if last.last_offset < log_start or compacts:
            return
        body, _ = await self._fetch(last.last_offset, 1)
        found = next(iter(read_batches(body)), None) if body else None
        if found is None or (found[0].base_offset, found[0].crc) != (last.last_offset, last.last_crc):
            raise BackupRefused(
                f"{self.name} has other records at offset {last.last_offset} than the backup: the cluster lost "
                "records that were saved; keep this backup, and begin another one"
            )

    async def run(self, begin: int, end: int) -> None:
        """Copy the batches from `begin` to `end`."""
        offset, buffer = begin, _Buffer(begin)
        writing: asyncio.Task[None] | None = None
        try:
            while offset < end:
                try:
                    body, watermark = await self._fetch(offset, min(_FETCH_BYTES_MAX, self._options.file_bytes))
                except OffsetOutOfRange as error:
                    offset = await self._skip_deleted(error, offset, end)
                    writing = await self._store(writing, buffer, min(offset, end))
                    buffer = _Buffer(offset)
                    continue
                size = records = 0
                after = min(end, watermark)
                for header, batch in read_batches(body):
                    after = header.next_offset
                    if after > end:
                        after = end
                        break
                    if header.record_count and not header.is_control:
                        buffer.add(header, batch)
                        size += len(batch)
                        records += header.record_count
                offset = max(offset, after)
                self._on_copied(CopiedBatches(self._place, offset, size, records))
                if len(buffer.data) >= self._options.file_bytes:
                    writing = await self._store(writing, buffer, offset)
                    buffer = _Buffer(offset)
            writing = await self._store(writing, buffer, end)
            if writing is not None:
                await writing
        finally:
            if writing is not None and not writing.done():
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    async def _fetch(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Return batches from an offset on, and the end of the read offsets.

        No batches: all records up to that end are removed. Because a new leader may not know the end yet, an answer
        without batches counts only if it is repeated after a majority confirmed the end."""

        async def attempt() -> tuple[bytes, int]:
            """Fetch batches; if there are none, confirm the end of the log, and fetch again."""
            fetched = await self._fetch_once(offset, max_bytes, _WAIT_MS)
            if fetched.body:
                return fetched.body, fetched.high_watermark
            bounds = await self._client.offsets(self.topic.name, self._partition, linearizable=True)
            fetched = await self._fetch_once(offset, max_bytes, 0)
            end = min(fetched.high_watermark, bounds.end)
            if not fetched.body and end <= offset:
                raise Unavailable(f"{self.name}: the leader has only offsets below {end}")
            return fetched.body, end

        return await self._outage.repeat(attempt)

    async def _fetch_once(self, offset: int, max_bytes: int, timeout_ms: int) -> Fetched:
        """Fetch batches once. Raises `UnknownTopic` also if the topic's name belongs to another topic now."""
        fetched = await self._client.fetch_batches(
            self.topic.name, self._partition, offset, timeout_ms=timeout_ms, max_bytes=max_bytes
        )
        if fetched.topic_id not in (None, self.topic.topic_id):
            raise UnknownTopic(f"topic {self.topic.name} was deleted and created anew during the backup")
        return fetched

    async def _skip_deleted(self, error: OffsetOutOfRange, offset: int, end: int) -> int:
        """Return the offset at which the log begins, after retention deleted records; record them as lost."""
        if error.first <= offset:
            raise error
        self.lost.append(UnsavedRange(*self._place, offset, min(error.first, end)))
        return error.first

    async def _store(
        self, writing: "asyncio.Task[None] | None", buffer: _Buffer, end: int
    ) -> "asyncio.Task[None] | None":
        """Wait for the task `writing` of the previous file, then start a task that stores the collected batches.

        Return the new task; None if no batches were collected."""
        if writing is not None:
            await writing
        if not buffer.batches:
            return None
        return asyncio.create_task(self._write(buffer, end))

    async def _write(self, buffer: _Buffer, end: int) -> None:
        """Store a file with the collected batches, and report it."""
        path = self._run.path_of(self._place, buffer.first, end)
        crc = await asyncio.to_thread(crc32c, buffer.data)
        await asyncio.to_thread(self._run.store.write, path, buffer.data)
        await self._on_file(
            SavedFile(
                path,
                *self._place,
                buffer.first,
                end,
                len(buffer.data),
                crc,
                buffer.batches,
                buffer.records,
                buffer.last_offset,
                buffer.last_crc,
            )
        )
