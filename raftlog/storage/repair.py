"""Repair by `raftlog log recover`: it makes a damaged log accept appends again, without the damaged records.

Only for a log with one copy, and only on request: a header that its index row determines is restored, a roll is
rewritten, every other damaged batch becomes a gap with its index and offsets; the old bytes are kept in
`.raftlog/damaged/`. Where the extent of the damage is unknown, the rest of the log is moved there and cut off.

The order makes an interrupted repair repeatable: the checkpoint is replaced by one that covers no batch, bytes are
kept, the segment is replaced by rename, its index removed; the next opening reads all batches and rebuilds the
index."""

import uuid
from dataclasses import dataclass, field

from raftlog.errors import CorruptBatch
from raftlog.records import ControlKind, build_control_batch, stamp
from raftlog.storage.checkpoint import read_checkpoint, store_empty_checkpoint
from raftlog.storage.directory import DAMAGED, LONE_LOG, internal_path, lock_directory, make_directory, read_meta
from raftlog.storage.disk import Disk, File
from raftlog.storage.gap import REASON_LOST, Gap, build_gap_batch
from raftlog.storage.recovery import segment_bases
from raftlog.storage.roll import Roll, encode_roll
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_stem
from raftlog.storage.verify import StoredBatch, open_log_file, verify_log, walk_segment
from raftlog.types import Offset, Term

_COPY_BYTES = 4 << 20


@dataclass(slots=True)
class RepairReport:
    """Result of a repair: damage that was found, and records that are lost.

    Offset ranges are `(first, end)`, end exclusive."""

    problems: list[CorruptBatch] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    cut_from: int | None = None
    """Offset from which on no batch can be located, so that the rest is cut off."""
    kept_in: list[str] = field(default_factory=list)
    left: list[CorruptBatch] = field(default_factory=list)
    """Damage that cannot be repaired: a missing segment between others can only be restored from a copy."""
    done: bool = False


def repair_log(disk: Disk, path: str, *, accept_loss: bool) -> RepairReport:
    """Find damage in the log in `path` and, with `accept_loss`, replace it by gaps. The log must not be open.

    Raises `DirectoryLocked` and `OSError`. Without `accept_loss` no file is changed."""
    lock = lock_directory(disk, path)
    try:
        report = RepairReport(problems=verify_log(disk, path).problems)
        damaged = sorted({problem.file for problem in report.problems})
        plans = [plan for file in damaged if (plan := _plan_segment(disk, path, file, report))]
        first = next(iter(segment_bases(disk, path)), 0)
        checkpoint = read_checkpoint(disk, path)
        if checkpoint and first > checkpoint.log_start_offset:
            report.lost.append((checkpoint.log_start_offset, first))
        if accept_loss and report.problems:
            make_directory(disk, internal_path(path, DAMAGED))
            store_empty_checkpoint(disk, path, first)
            for segment_file, pieces in plans:
                _rewrite(disk, path, segment_file, pieces, report)
            if report.cut_from is not None:
                _move_newer_to_damaged(disk, path, report)
            report.left = verify_log(disk, path).problems
            report.done = not report.left
        return report
    finally:
        lock.release()


_Pieces = list[tuple[int, int, bytes | None]]
"""Pieces of a repaired segment: old position and length, and the bytes that replace the old ones, if any."""


def _plan_segment(disk: Disk, path: str, file: str, report: RepairReport) -> tuple[str, _Pieces] | None:
    """Return the file and its pieces, or None if it is missing; add lost records, or the cut, to the report."""
    if not disk.exists(file):
        report.cut_from = _min_offset(report.cut_from, int(file.rpartition("/")[2].removesuffix(LOG_SUFFIX)))
        return None
    segment = open_log_file(disk, file)
    pieces: _Pieces = []
    try:
        newer = next((base for base in segment_bases(disk, path) if base > segment.base_offset), None)
        for stored in walk_segment(segment, newer):
            is_damaged = stored.reason is not None and not stored.row_only
            if is_damaged and stored.row is None:
                report.cut_from = _min_offset(report.cut_from, stored.offset)
                break
            replacement = stored.restored
            if is_damaged and replacement is None and stored.number == 0:
                replacement = _build_roll(disk, path, segment)
            elif is_damaged and replacement is None:
                replacement = _build_gap(segment, stored)
                report.lost.append((stored.offset, segment.next_offset))
            pieces.append((stored.position, len(stored.batch), replacement))
    finally:
        segment.close()
    return file, pieces


def _min_offset(known: int | None, offset: int) -> int:
    """Return the lower offset; `known` is None at first."""
    return offset if known is None else min(known, offset)


def _build_roll(disk: Disk, path: str, segment: Segment) -> bytes:
    """Build a roll in place of a damaged one: in a lone log only its creation time is unknown."""
    checkpoint = read_checkpoint(disk, path)
    start = checkpoint.log_start_offset if checkpoint else 0
    meta = read_meta(disk, path, LONE_LOG)
    group_id = uuid.uuid4() if meta is None else meta.uuid("group_id")
    roll = Roll(group_id, segment.base_index, 0, start, -1, 0)
    offset = Offset(segment.base_offset)
    batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), 0, next_offset=offset)
    stamp(batch, offset, Term(0))
    return bytes(batch)


def _build_gap(segment: Segment, stored: StoredBatch) -> bytes:
    """Build the gap in place of a damaged batch that has a row."""
    assert stored.row is not None, "only a batch with a row can be placed"
    index, term = stored.row.index, stored.row.term
    return build_gap_batch(Gap(index, index, stored.offset, segment.next_offset, term, REASON_LOST))


def _rewrite(disk: Disk, path: str, file: str, pieces: _Pieces, report: RepairReport) -> None:
    """Replace a segment file by one built from `pieces`; replaced bytes are kept in `.raftlog/damaged/`."""
    old = disk.open(file)
    temporary = file + ".repaired"
    if disk.exists(temporary):
        disk.unlink(temporary)
    new = disk.open(temporary, create=True)
    try:
        written = 0
        for position, length, replacement in pieces:
            if replacement:
                _keep_bytes(disk, path, old, position, length, report)
            written += _copy_piece(old, position, length, replacement, new, written)
        end = pieces[-1][0] + pieces[-1][1] if pieces else 0
        if end < old.size():
            _keep_bytes(disk, path, old, end, old.size() - end, report)
        disk.sync([new])
    finally:
        old.close()
        new.close()
    disk.rename(temporary, file)
    disk.sync([], [path])
    _remove_files(disk, path, _index_files(file.removesuffix(LOG_SUFFIX)))


def _copy_piece(old: File, position: int, length: int, replacement: bytes | None, new: File, written: int) -> int:
    """Write a piece, or the bytes that replace it, at position `written`; return the number of bytes."""
    if replacement:
        new.write(written, [replacement])
        return len(replacement)
    for at in range(0, length, _COPY_BYTES):
        new.write(written + at, [old.read(position + at, min(_COPY_BYTES, length - at))])
    return length


def _keep_bytes(disk: Disk, path: str, old: File, position: int, length: int, report: RepairReport) -> None:
    """Copy bytes that the repair replaces or cuts off into `.raftlog/damaged/`, synced, and add them to the report."""
    if not length:
        return
    kept = internal_path(path, DAMAGED, f"{old.path.rpartition('/')[2]}.{position}.recovered")
    if disk.exists(kept):
        disk.unlink(kept)
    copy = disk.open(kept, create=True)
    try:
        for at in range(0, length, _COPY_BYTES):
            copy.write(at, [old.read(position + at, min(_COPY_BYTES, length - at))])
        disk.sync([copy], [internal_path(path, DAMAGED)])
    finally:
        copy.close()
    report.kept_in.append(kept)


def _index_files(stem: str) -> list[str]:
    """Return the names of a segment's index files."""
    return [stem + INDEX_SUFFIX, stem + TIME_INDEX_SUFFIX]


def _remove_files(disk: Disk, directory: str, names: list[str]) -> None:
    """Delete the files at the paths `names`, and sync `directory`; the next opening rebuilds them from the batches."""
    for name in names:
        if disk.exists(name):
            disk.unlink(name)
    disk.sync([], [directory])


def _move_newer_to_damaged(disk: Disk, path: str, report: RepairReport) -> None:
    """Move the segments after the lost end of the log into `.raftlog/damaged/`, newest first."""
    assert report.cut_from is not None
    for base in reversed(segment_bases(disk, path)):
        if base < report.cut_from:
            break
        stem = f"{path}/{segment_stem(base)}"
        _remove_files(disk, path, _index_files(stem))
        kept = internal_path(path, DAMAGED, f"{segment_stem(base)}{LOG_SUFFIX}")
        disk.rename(stem + LOG_SUFFIX, kept)
        disk.sync([], [path, internal_path(path, DAMAGED)])
        report.kept_in.append(kept)
