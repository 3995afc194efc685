"""Checkpoint of a lone log: the end of synced and checked batches, in two alternating slots.

`{log}/.raftlog/checkpoint` has two slots of 4 KiB. Each write goes to the slot that is not the newest, so a torn
write leaves the other one; the valid slot with the higher sequence counts. A lost checkpoint loses no data: recovery
then reads everything. docs/FORMATS.md has the bytes."""

import struct
from typing import NamedTuple

from crc32c import crc32c

from raftlog.storage.directory import CHECKPOINT, internal_path
from raftlog.storage.disk import Disk, File

SLOT_SIZE = 4096
_MAGIC = b"RLCK"
_VERSION = 1
_SLOT = struct.Struct(">4sHHQqqQqQq")
_CRC = struct.Struct(">I")


class Checkpoint(NamedTuple):
    """Checkpoint at the end of a batch: `segment` is the base offset of its file, `end_position` the end in that file.

    With `last_index` 0 it covers no batch, only the log start. `next_offset`, `last_index` and `max_timestamp` (of that
    segment) belong to that position. All batches and rows below it are synced and checked."""

    sequence: int
    log_start_offset: int
    segment: int
    end_position: int
    next_offset: int
    last_index: int
    max_timestamp: int


class CheckpointFile:
    """File with the two slots; the caller syncs `file` after `write`."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Open the checkpoint file at `path`, and read its newest checkpoint; create it if it does not exist."""
        self.is_new = not disk.exists(path)
        self.file: File = disk.open(path, create=self.is_new)
        if self.is_new:
            self.file.write(0, [bytes(2 * SLOT_SIZE)])  # later writes need no space, so a full disk cannot stop them
        self.newest = read_newest_checkpoint(self.file)

    def write(self, checkpoint: Checkpoint) -> None:
        """Write the slot that `checkpoint.sequence` selects; durable once `file` is synced."""
        slot = _SLOT.pack(_MAGIC, _VERSION, 0, *checkpoint)
        slot += _CRC.pack(crc32c(slot))
        self.file.write(checkpoint.sequence % 2 * SLOT_SIZE, [slot.ljust(SLOT_SIZE, b"\0")])
        self.newest = checkpoint


def read_checkpoint(disk: Disk, path: str) -> Checkpoint | None:
    """Return the newest checkpoint of the log in `path`, or None; for tools that do not open the log."""
    name = internal_path(path, CHECKPOINT)
    if not disk.exists(name):
        return None
    file = disk.open(name, read_only=True)
    try:
        return read_newest_checkpoint(file)
    finally:
        file.close()


def store_empty_checkpoint(disk: Disk, path: str, first_offset: int = 0) -> None:
    """Store a checkpoint that covers no batch, and keeps the log start or raises it to `first_offset`."""
    newest = read_checkpoint(disk, path)
    if newest is None:
        return
    slots = CheckpointFile(disk, internal_path(path, CHECKPOINT))
    try:
        slots.write(Checkpoint(newest.sequence + 1, max(newest.log_start_offset, first_offset), 0, 0, 0, 0, -1))
        disk.sync([slots.file])
    finally:
        slots.file.close()


def read_newest_checkpoint(file: File) -> Checkpoint | None:
    """Return the checkpoint in the valid slot with the higher sequence; None without any."""
    found = [read for number in (0, 1) if (read := _read_slot(file, number)) is not None]
    return max(found, key=lambda checkpoint: checkpoint.sequence, default=None)


def _read_slot(file: File, number: int) -> Checkpoint | None:
    """Return the checkpoint in slot `number`; None if the slot is torn or of another version."""
    slot = file.read(number * SLOT_SIZE, _SLOT.size + _CRC.size)
    if len(slot) < _SLOT.size + _CRC.size:
        return None
    magic, version, _, *fields = _SLOT.unpack_from(slot)
    intact = _CRC.unpack_from(slot, _SLOT.size)[0] == crc32c(slot[: _SLOT.size])
    return Checkpoint(*fields) if intact and magic == _MAGIC and version == _VERSION else None
