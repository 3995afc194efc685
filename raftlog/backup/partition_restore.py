"""Restoration of one partition: every file is read and checked; batches at or above the log's end are appended.

    log end ≤ position of the next batch;   offsets without records before it get batches without records

Appends are sent one after another, since each must begin at the log's end; the next file is read meanwhile. After a
lost answer the log's end shows whether the append happened."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from crc32c import crc32c

from raftlog.backup.batches import ContentDigest, build_fillers, read_saved_batches, to_restored
from raftlog.backup.errors import BackupDamaged, BackupRefused
from raftlog.backup.manifest import SavedFile
from raftlog.backup.stores import BackupStore
from raftlog.client import BrokerClient
from raftlog.client.decode import read_batches
from raftlog.client.outage import Outage, is_unanswered
from raftlog.errors import InvalidBatch, OutcomeUnknown, RaftlogError, Unavailable, VersionConflict
from raftlog.records import read_header
from raftlog.types import Buffer

_CALL_BYTES: Final = 1 << 20
_FETCH_BYTES: Final = 4 << 20
_CALL_BATCHES: Final = 5_000
_PAUSE_S_MAX: Final = 1.0


class RestoredPart(NamedTuple):
    """Partition to restore: offsets `begin ≤ offset < end` from these files."""

    topic: str
    partition: int
    begin: int
    end: int
    files: list[SavedFile]

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}"


class PartitionRestore:
    """Restoration of one partition; without a client its files are read and checked only."""

    def __init__(
        self,
        client: BrokerClient | None,
        store: BackupStore,
        part: RestoredPart,
        give_up_after_s: float,
        on_progress: Callable[[int, int], None],
    ) -> None:
        """Prepare a restoration; `on_progress` gets the numbers of offsets and bytes of each file."""
        self._client, self._store, self._part, self._on_progress = client, store, part, on_progress
        self._outage = Outage(f"restoration of {part.name}", give_up_after_s, _PAUSE_S_MAX, is_unanswered)
        self.digest = ContentDigest()
        """Digest of the restored batches of the files."""
        self._end = 0
        """End of the log."""
        self._position = 0
        """Offset after the last batch that was appended or is collected for the next request."""
        self._call: list[Buffer] = []
        self._call_bytes = 0

    async def run(self, *, compares: bool) -> None:
        """Restore all batches, set the log start, and compare the log with the files unless `compares` is false."""
        part = self._part
        if self._client is not None:
            self._end = self._position = await self._log_end()
            if self._end > part.end:
                raise BackupRefused(
                    f"{part.name} ends at offset {self._end}, and at {part.end} in the backup: the topic holds other "
                    "records; delete it, or restore under another name (--rename)"
                )
        done = part.begin
        reading: asyncio.Task[bytes] | None = None
        try:
            for number, file in enumerate(part.files):
                data = await (reading or asyncio.create_task(asyncio.to_thread(self._read, file)))
                following = part.files[number + 1] if number + 1 < len(part.files) else None
                reading = asyncio.create_task(asyncio.to_thread(self._read, following)) if following else None
                await self._append_file(file, data)
                upto = min(max(done, file.end), part.end)
                self._on_progress(upto - done, file.size)
                done = upto
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        if self._client is not None:
            await self._fill(part.end)
            await self._send()
            if part.begin > 0:
                await self._outage.repeat(self._trim)
            if compares:
                await self._compare()
        self._on_progress(part.end - done, 0)

    def _read(self, file: SavedFile) -> bytes:
        """Return the bytes of a file. Raises `BackupDamaged` if it is missing or its checksum does not match."""
        data = self._store.read(file.path)
        if data is None:
            raise BackupDamaged(f"the backup in {self._store.address} lacks {file.path}")
        if len(data) != file.size or crc32c(data) != file.crc:
            raise BackupDamaged(f"{file.path} in {self._store.address} is damaged: its checksum does not match")
        return data

    async def _append_file(self, file: SavedFile, data: bytes) -> None:
        """Append those batches of a file that the log does not have yet."""
        try:
            for header, batch in read_saved_batches(file.path, data):
                fresh, restored = to_restored(header, batch)
                if header.next_offset <= self._part.begin or header.base_offset >= self._part.end:
                    continue
                self.digest.add(fresh, restored)
                if self._client is None or header.next_offset <= self._end:
                    continue
                if header.base_offset < self._position:
                    raise BackupRefused(
                        f"{self._part.name} ends at offset {self._position}, inside the batch at {header.base_offset}: "
                        "the topic holds other records than the backup"
                    )
                await self._fill(header.base_offset)
                await self._add(restored)
        except InvalidBatch as error:
            raise BackupDamaged(f"{file.path} in {self._store.address} is damaged: {error}") from None

    async def _fill(self, offset: int) -> None:
        """Append batches without records for the offsets below `offset`."""
        for filler in build_fillers(self._position, offset):
            await self._add(filler)

    async def _add(self, batch: Buffer) -> None:
        """Collect a batch for the next request; send the request before if the batch would exceed its bounds."""
        if self._call and (self._call_bytes + len(batch) > _CALL_BYTES or len(self._call) == _CALL_BATCHES):
            await self._send()
        self._call.append(batch)
        self._call_bytes += len(batch)
        self._position = read_header(batch).next_offset
        await asyncio.sleep(0)

    async def _send(self) -> None:
        """Append the collected batches in one request, with retries."""
        if not self._call:
            return
        body, self._call, self._call_bytes = b"".join(self._call), [], 0
        await self._outage.repeat(lambda: self._attempt(body))
        self._end = self._position

    async def _attempt(self, body: bytes) -> None:
        """Append the batches unless the log has them already. Raises `BackupRefused` if it has other records there."""
        assert self._client is not None, "without a client nothing is appended"
        part = self._part
        try:
            end: int = await self._client.restore_batches(part.topic, part.partition, body)
        except (VersionConflict, OutcomeUnknown) as error:
            end = await self._log_end()
            if end == self._end:
                raise _retried(error) from None
        if end != self._position:
            raise BackupRefused(
                f"{part.name} ends at offset {end}, not at {self._position}: another program writes to the topic"
            )

    async def _log_end(self) -> int:
        """Return the end of the log, confirmed by a majority."""
        assert self._client is not None, "without a client there is no log"
        client, part = self._client, self._part
        return (await self._outage.repeat(lambda: client.offsets(part.topic, part.partition, linearizable=True))).end

    async def _trim(self) -> None:
        """Delete the records below the first offset to restore, so that the log starts there."""
        assert self._client is not None, "without a client nothing is trimmed"
        await self._client.delete_records(self._part.topic, self._part.partition, self._part.begin)

    async def _compare(self) -> None:
        """Read the log. Raises `BackupRefused` unless it has exactly the restored batches of the files."""
        assert self._client is not None, "without a client nothing is compared"
        client, part, found = self._client, self._part, ContentDigest()
        offset: int = part.begin
        while offset < part.end:
            body, watermark = await self._outage.repeat(partial(self._fetch, client, offset))
            after = min(part.end, watermark)
            for header, batch in read_batches(body):
                found.add(header, batch)
                after = header.next_offset
            offset = max(offset, after)
            await asyncio.sleep(0)
        if (found.batches, found.records, found.crc) != (self.digest.batches, self.digest.records, self.digest.crc):
            raise BackupRefused(
                f"{part.name} has other records than the backup ({found.records} in {found.batches} batches, and "
                f"{self.digest.records} in {self.digest.batches}); delete the topic, and restore it again"
            )

    async def _fetch(self, client: BrokerClient, offset: int) -> tuple[bytes, int]:
        """Return batches from an offset on, and the high watermark."""
        part = self._part
        fetched = await client.fetch_batches(part.topic, part.partition, offset, timeout_ms=500, max_bytes=_FETCH_BYTES)
        if not fetched.body and fetched.high_watermark <= offset:
            raise Unavailable(f"{part.name}: the leader has only offsets below {fetched.high_watermark}")
        return fetched.body, fetched.high_watermark


def _retried(error: RaftlogError) -> RaftlogError:
    """Return the error of an append that did not happen, as one after which the append is sent again."""
    return OutcomeUnknown(str(error)) if isinstance(error, VersionConflict) else error
