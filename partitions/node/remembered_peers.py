"""Memory of other disks, stored on this disk, so that old copies of them are recognized also after a restart.

    {data-dir}/.raftlog/peers     per disk: node id, boot epoch and its boot id, journal sequence

Saved at once when a restarted process connects: an older copy of its disk is recognized from then on. Changed journal
sequences are saved after a checkpoint, and `save_interval_s` after the last save at the latest. Later sequences are
lost with a crash, and then only this process accepts a copy from that interval. A damaged file is kept aside and begun
anew: the other processes remember as well. A failed sync ends the process. Called by the node's timer and the
transport's memory."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from raftlog.errors import SmallFileDamaged, SyncFailed
from raftlog.runtime.log.sealed_file import read_sealed, submit_sealed, write_sealed
from raftlog.runtime.rpc.memory import PeerMemory, PeerRecord
from raftlog.storage.directory import DAMAGED, internal_path, make_directory
from raftlog.storage.disk import Disk
from raftlog.storage.json_file import JsonFile, parse_uuid
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

PEERS: Final = "peers"


class RememberedPeers:
    """Storage of a transport's memory of peers; call `restore` first."""

    def __init__(
        self, disk: Disk, data_dir: str, memory: PeerMemory, save_interval_s: float, fail: Callable[[SyncFailed], None]
    ) -> None:
        """Prepare to save `memory` at most every `save_interval_s` seconds.

        `fail` ends the node after a failed sync."""
        self._disk, self._data_dir, self._memory, self._fail = disk, data_dir, memory, fail
        self._path = internal_path(data_dir, PEERS)
        self._save_interval_s = save_interval_s
        self._saved: Sequence[PeerRecord] = ()
        """Content of the file, after the save under way."""
        self._saved_at = 0.0
        self._is_saving = False
        self._is_start_unsaved = False
        """Whether a restarted process connected after the last save began."""
        self._is_over = False
        memory.on_start = self._save_start

    def stop(self) -> None:
        """Begin no further saves, because the process ends."""
        self._is_over = True

    def restore(self) -> None:
        """Fill the memory from the file; blocking. Raises `FormatError` for a file of another version."""
        try:
            file = read_sealed(self._disk, self._path, PEERS)
            records = [] if file is None else _unpack_records(file)
        except SmallFileDamaged as error:
            target = internal_path(self._data_dir, DAMAGED, PEERS)
            _logger.error("%s; it is kept as %s, and its memory of other disks is dropped", error, target)
            make_directory(self._disk, internal_path(self._data_dir, DAMAGED))
            self._disk.rename(self._path, target)
            self._disk.sync([], [internal_path(self._data_dir), internal_path(self._data_dir, DAMAGED)])
            return
        if file is not None:
            self._memory.restore(records)
            self._saved = self._memory.records()

    def save_if_due(self, now: float, *, is_checkpoint: bool) -> bool:
        """Begin a save if the memory has changed and a save is due; return whether it has begun."""
        if self._is_saving or not (is_checkpoint or now - self._saved_at >= self._save_interval_s):
            return False
        self._saved_at = now
        return self._submit()

    def _save_start(self) -> None:
        """Save soon after a peer has restarted, because an old copy of its disk must be recognized later."""
        self._is_start_unsaved = True
        if not self._is_saving and not self._is_over:
            self._submit()

    def _submit(self) -> bool:
        """Begin to save the peers; return False if nothing changed."""
        self._is_start_unsaved = False
        records = self._memory.records()
        if records == self._saved:
            return False
        self._saved, self._is_saving = records, True
        try:
            submit_sealed(self._disk, self._path, PEERS, _pack_records(records), self._on_saved, lambda: self._is_over)
        except OSError as error:
            self._on_saved(error)
        return True

    def save(self) -> None:
        """Save at an orderly end, also in place of a running save; blocking.

        Call `stop` before, so that the other save cannot return. Without room or descriptors nothing is saved, as at a
        crash. Raises `SyncFailed`."""
        records = self._memory.records()
        if records == self._saved and not self._is_saving:
            return
        try:
            write_sealed(self._disk, self._path, PEERS, _pack_records(records))
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise SyncFailed(f"{self._path}: {error}") from error
            _logger.warning("%s was not saved at the end: %s", self._path, error)
        else:
            self._saved = records

    def _on_saved(self, error: OSError | None) -> None:
        """Save again if a process restarted meanwhile; retry a failed save later, or end the node."""
        self._is_saving = False
        if error is None:
            if self._is_start_unsaved and not self._is_over:
                self._submit()
            return
        self._saved = ()  # retried after the interval
        if error.errno in TEMPORARY_ERRORS:
            _logger.warning("%s cannot be saved for now: %s", self._path, error)
        else:
            self._fail(SyncFailed(f"{self._path}: {error}; the content of the disk is unknown"))


def _pack_records(records: Sequence[PeerRecord]) -> dict[str, Any]:
    """Return the records of peers as fields of the file."""
    return {
        "disks": [[str(each.disk_uuid), int(each.node_id), each.boot_epoch, each.journal_sequence] for each in records],
        "lives": {str(each.disk_uuid): each.boot_id.hex() for each in records if each.boot_id is not None},
    }


def _unpack_records(file: JsonFile) -> list[PeerRecord]:
    """Return the records of the file. Raises `SmallFileDamaged`."""
    boot_ids = file.parse_field("lives", _unpack_boot_ids, "boot ids in hex by uuid", {})
    return file.parse_field("disks", lambda rows: [_unpack_record(row, boot_ids) for row in rows], "a list of disks")


def _unpack_record(row: Any, boot_ids: Mapping[uuid.UUID, bytes]) -> PeerRecord:
    """Return the record of a row. Raises `ValueError`."""
    match row:
        case [str(text), int(node_id), int(boot_epoch), int(journal_sequence)]:
            disk_uuid = parse_uuid(text)
            return PeerRecord(disk_uuid, NodeId(node_id), boot_epoch, journal_sequence, boot_ids.get(disk_uuid))
    raise ValueError(f"{row!r} is no disk")


def _unpack_boot_ids(raw: Any) -> dict[uuid.UUID, bytes]:
    """Return the boot ids by disk uuid, from a field of the file."""
    return {parse_uuid(disk_uuid): bytes.fromhex(boot_id) for disk_uuid, boot_id in dict(raw).items()}
