"""Settings of the journal."""

from dataclasses import dataclass
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.runtime.journal.blocks import BLOCK_SIZE, PAYLOAD_SIZE, WRITE_BLOCKS_MAX
from raftlog.topic_config import GIB, MIB

_LEAST_FRAME_BLOCKS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """Sizes in bytes, rounded down to whole blocks of 4 KiB."""

    file_bytes: int = 16 * MIB
    """Size of one preallocated file; larger files are switched less often, and recycled later."""
    write_bytes_max: int = 4 * MIB
    """The largest frame, and so the largest single write; at most 4 MiB and at most `file_bytes`."""
    pending_bytes_max: int = 16 * MIB
    """Bytes of operations that may wait in memory; above it appends of entries raise `Overloaded`."""
    reserve_bytes: int = 2 * MIB
    """Room, in memory and on the disk, that new entries may not use: on a full disk votes, trims, a checkpoint and
    entries that were admitted before still go through. The reserve grows to twice the size of the last checkpoint
    (148 bytes for each group)."""
    checkpoint_bytes: int = 64 * MIB
    """Bytes of journal since the last checkpoint from which on `Journal.is_checkpoint_due` is true."""
    journal_bytes_max: int = GIB
    """Bytes of journal since the last checkpoint above which appends of entries raise `Overloaded`: bounds recovery."""
    spare_files_max: int = 8
    """Files kept for reuse after a checkpoint; more are unlinked."""

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for sizes that are negative or contradict each other."""
        frame_bytes_max = min(self.file_bytes, WRITE_BLOCKS_MAX * BLOCK_SIZE)
        if not _LEAST_FRAME_BLOCKS * BLOCK_SIZE <= self.write_bytes_max <= frame_bytes_max:
            raise InvalidArgument(
                f"write_bytes_max={self.write_bytes_max} is out of range: it must be "
                f"{_LEAST_FRAME_BLOCKS * BLOCK_SIZE} to {frame_bytes_max} (a file, or {WRITE_BLOCKS_MAX} blocks)"
            )
        for name in ("pending_bytes_max", "reserve_bytes", "checkpoint_bytes", "journal_bytes_max", "spare_files_max"):
            if getattr(self, name) < 0:
                raise InvalidArgument(f"{name}={getattr(self, name)} is negative")
        if self.reserve_bytes > self.file_bytes:
            raise InvalidArgument(f"reserve_bytes={self.reserve_bytes} is more than file_bytes={self.file_bytes}")

    @property
    def file_blocks(self) -> int:
        return self.file_bytes // BLOCK_SIZE

    @property
    def frame_payload_max(self) -> int:
        """Payload bytes of the largest frame."""
        return self.write_bytes_max // BLOCK_SIZE * PAYLOAD_SIZE

    @property
    def reserve_blocks(self) -> int:
        return self.reserve_bytes // BLOCK_SIZE
