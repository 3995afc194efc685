"""Copy of another replica's files below an offset into a new log: compacted entries cannot be read by index.

    list of files → batches of one after the other, unchanged → each checked, and that it follows the one before
    → the last one ends at the beginning of the requested roll

The source states the version of its files. When that changes, the copy is useless: the newest record of a key may have
been in a file that was copied before, and its tombstone has been removed. Gaps are accepted only if the roll of their
file has a compaction mark. Called by `installation` and `refill`."""

from raftlog.errors import FormatError, InvalidBatch, Unavailable
from raftlog.records import HEADER_SIZE, BatchHeader, ControlKind, crc_matches, read_control, read_header
from raftlog.records.header import MAGIC
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.bulk import FilesRequest, FilesResult, PieceRequest, PieceResult
from raftlog.runtime.transfer.ports import LogPort, send_request
from raftlog.storage.gap import gap_error
from raftlog.storage.roll import Roll, decode_roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import NodeId, Offset, Term


class FileCopy:
    """One attempt to copy the segment files of another replica."""

    def __init__(self, port: LogPort, group: PartitionReplica, source: NodeId) -> None:
        self.bytes_taken = 0
        self._port, self._group, self._source = port, group, source

    async def request_files(self, below: Offset) -> FilesResult:
        """Request and return the list of the files to copy. Raises like `copy`."""
        result = await send_request(self._port, self._source, FilesRequest(self._group.key, below))
        if not isinstance(result, FilesResult) or not result.base_offsets:
            raise self._copy_error("it has no such files")
        return result

    async def copy(self, files: FilesResult, segments: SegmentedLog) -> None:
        """Copy the files into an empty log. Raises `RaftlogError`, `OSError` or `TimeoutError`."""
        for base_offset in files.base_offsets:
            row = 0
            while batches := await self._request_piece(files, base_offset, row):
                for batch in batches:
                    self._append_copied(segments, batch)
                row += len(batches)
                segments.write()
                self.bytes_taken += sum(map(len, batches))
            changed = segments.list_changes_since_checkpoint()
            await self._port.persister.sync(changed.files, changed.directories)
            changed.mark_synced()
        if (segments.next_offset, segments.last_index) != (files.below, files.boundary.index):
            raise self._copy_error(f"they end before entry {segments.last_index + 1} at offset {segments.next_offset}")

    async def _request_piece(self, files: FilesResult, base_offset: Offset, row: int) -> tuple[bytes, ...]:
        """Request batches of a file from row `row` on; none after its last one. Raises like `copy`."""
        bytes_max = self._port.config.transfer_chunk_bytes
        request = PieceRequest(self._group.key, files.version, base_offset, row, bytes_max)
        result = await send_request(self._port, self._source, request)
        if not isinstance(result, PieceResult):
            raise self._copy_error("no piece")
        return result.batches

    def _append_copied(self, segments: SegmentedLog, batch: bytes) -> None:
        """Append a copied batch to the segments after checking that it follows the last one."""
        header = read_header(batch) if len(batch) >= HEADER_SIZE else None
        if header is None or not self._is_next(segments, batch, header):
            raise self._copy_error(f"no batch that follows entry {segments.last_index}, offset {segments.next_offset}")
        roll = self._decode_roll(batch, header)
        if roll is not None and roll.base_index == (segments.last_index + 1 if segments.segments else roll.base_index):
            if segments.segments and segments.active.base_offset == header.base_offset:
                raise self._copy_error(f"a second roll at offset {header.base_offset}")
            segments.begin_segment(batch, header, roll, Term(header.leader_epoch))
            return
        if roll is not None or not segments.segments:
            raise self._copy_error(f"no roll that begins a file at offset {header.base_offset}")
        reason = gap_error(batch, header, segments.active.next_index, segments.active.compacted_to)
        if reason is not None:
            raise self._copy_error(reason)
        segments.append_stamped(batch, header)

    @staticmethod
    def _is_next(segments: SegmentedLog, batch: bytes, header: BatchHeader) -> bool:
        """Return whether a batch is sound and follows the last one in offset and term."""
        active = segments.active if segments.segments else None
        return (
            header.magic == MAGIC
            and header.size == len(batch)
            and header.base_offset == segments.next_offset
            and header.last_offset_delta >= -1
            and header.leader_epoch >= (active.row(active.rows - 1).term if active else 0)
            and crc_matches(batch, header)
        )

    def _decode_roll(self, batch: bytes, header: BatchHeader) -> Roll | None:
        """Return the roll in a batch, None for other batches. Raises `Unavailable`."""
        if not header.is_control:
            return None
        try:
            kind, payload = read_control(batch, header)
            roll = decode_roll(payload) if kind is ControlKind.ROLL else None
        except (InvalidBatch, FormatError) as error:
            raise self._copy_error(str(error)) from None
        if roll is not None and roll.group_id != self._group.group_id:
            raise self._copy_error(f"a roll of group {roll.group_id}")
        return roll

    def _copy_error(self, problem: str) -> Unavailable:
        """Return the error for files that the source did not return."""
        return Unavailable(f"node {self._source} did not return the files of {self._group.name}: {problem}")
