"""Beginning and end of the journal, and whether its end is torn or damaged.

Recovery begins at the highest `start` of any intact block and follows the chain from block to block. Let `end` be the
sequence after the last complete frame of that walk, `missing` the first sequence that the walk does not reach:

    start < end ≤ missing

A frame is written only after the sync of the frame before it returned, so only the frame at `end` can be torn:

- an intact block of a frame beyond `end` proves that the frame at `end` had been synced: a hole, damage;
- a block that is neither intact nor zero, in a place where the frame at `end` may lie, is damage: power loss leaves
  each block as it was or as it was written;
- otherwise the sync of the missing blocks never returned: torn, and cut at `end`.

A single disk cannot show that the whole last frame, or some of its blocks, were replaced by zeros or by their previous
content. Peers remember the sequence of the last sync; the caller passes it as `synced_at_least`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raftlog.errors import JournalDamaged
from raftlog.runtime.journal.blocks import BLOCK_SIZE, CHECKSUM, WRITE_BLOCKS_MAX
from raftlog.runtime.journal.survey import BlockRun, FileSurvey
from raftlog.storage.disk import File
from raftlog.types import Position

_CHECKSUM_AT = 4


class LiveFile(NamedTuple):
    """A file that holds blocks of the journal: block b of it has the sequence `first_sequence` + b."""

    file: File
    use: int
    first_sequence: int


class BlockSpan(NamedTuple):
    """Blocks of a file: `count` of them, from `block` on."""

    file: File
    block: int
    count: int  # type: ignore[assignment]  # tuple.count is never wanted here


@dataclass(slots=True)
class ValidRange:
    """Valid part of the journal: frames from `start` on, below `end`."""

    start: int
    end: int
    chain: int
    """Checksum of the block before `end`."""
    live: list[LiveFile]
    """Files with blocks from `start` on, below `end`, in order of their use; the last one is continued."""
    stray: list[BlockSpan] = field(default_factory=list)
    """Blocks after the end that a torn write left, and bad ones that never belonged to the journal."""
    torn_blocks: int = 0
    """Number of blocks that the torn write left."""


def find_valid_range(path: str, surveys: Sequence[FileSurvey], synced_at_least: int = 0) -> ValidRange | None:
    """Return the valid part of the journal in `path`; None if nothing was ever written. Raises `JournalDamaged`."""
    start = max((run.start for survey in surveys for run in survey.runs), default=0)
    if not start:
        _check_never_written(path, surveys, synced_at_least)
        return None
    walk = _follow_chain(surveys, start)
    if not walk:
        raise _damage_at(path, surveys, start, f"the checkpoint in frame {start} is missing")
    end = max(run.complete for run in walk)
    if end <= start:
        raise _damage_at(path, surveys, walk[-1].end, f"the checkpoint in frame {start} is not complete")
    last_live = next(number for number, run in enumerate(walk) if end <= run.end)
    valid_range = ValidRange(
        start,
        end,
        _checksum_before(walk[last_live], end),
        [LiveFile(run.file, run.use, run.first_sequence) for run in walk[: last_live + 1]],
    )
    _classify_blocks_after(path, surveys, walk, valid_range)
    if end <= synced_at_least:
        reason = f"it ends at block {end - 1}, but block {synced_at_least} had been synced"
        raise _damage_at(path, surveys, end, reason)
    return valid_range


def _check_never_written(path: str, surveys: Sequence[FileSurvey], synced_at_least: int) -> None:
    """Raise `JournalDamaged` if a journal without intact blocks was written before."""
    for survey in surveys:
        for bad in survey.bad:
            if bad.block < WRITE_BLOCKS_MAX:
                raise JournalDamaged(survey.file.path, Position(bad.block * BLOCK_SIZE), bad.reason)
    if synced_at_least:
        raise JournalDamaged(path, Position(0), f"it is empty, but block {synced_at_least} had been synced")


def _follow_chain(surveys: Sequence[FileSurvey], start: int) -> list[BlockRun]:
    """Return the runs from block `start` on, each continuing the last in sequence, checksum, file use and position."""
    beginnings: dict[int, list[BlockRun]] = {}
    first: BlockRun | None = None
    for survey in surveys:
        for run in survey.runs:
            beginnings.setdefault(run.sequence, []).append(run)
            if run.sequence <= start < run.end and (first is None or run.end > first.end):
                first = run
    walk: list[BlockRun] = []
    following = first
    while following is not None:
        walk.append(following)
        following = next((run for run in beginnings.get(following.end, ()) if _follows(walk[-1], run)), None)
    return walk


def _follows(before: BlockRun, run: BlockRun) -> bool:
    """Return whether a run continues another one in the next file."""
    return run.first_chain == before.checksum and run.use == before.use + 1 and run.block == 0


def _checksum_before(run: BlockRun, end: int) -> int:
    """Return the checksum of the last block of the run before block `end`."""
    if end == run.end:
        return run.checksum
    stored = run.file.read(run.block_of(end - 1) * BLOCK_SIZE + _CHECKSUM_AT, CHECKSUM.size)
    return int(CHECKSUM.unpack(stored)[0])


def _classify_blocks_after(
    path: str, surveys: Sequence[FileSurvey], walk: list[BlockRun], valid_range: ValidRange
) -> None:
    """Classify the blocks after the end: damage, or remains of a write that never finished."""
    missing = walk[-1].end
    walked = {id(run) for run in walk}  # only for membership tests
    for survey in surveys:
        for run in survey.runs:
            if run.end <= valid_range.end:
                continue
            if id(run) not in walked:
                if run.frame > valid_range.end:
                    reason = f"block {missing} is missing, but frame {run.frame} was written after its sync"
                    raise _damage_at(path, surveys, missing, reason)
                if run.sequence == missing == run.first_frame:
                    raise _damage_at(path, surveys, missing, f"block {missing} does not follow its predecessor")
            stray = max(run.sequence, valid_range.end)
            valid_range.stray.append(BlockSpan(run.file, run.block_of(stray), run.end - stray))
            valid_range.torn_blocks += run.end - stray
        for bad in survey.bad:
            _check_bad_blocks(survey, bad.block, bad.count, bad.reason, valid_range)


def _check_bad_blocks(survey: FileSurvey, block: int, count: int, reason: str, valid_range: ValidRange) -> None:
    """Raise `JournalDamaged` for a bad block where the frame at the end may lie; elsewhere record it as stray.

    A bad block in another place held nothing that recovery needs."""
    current = valid_range.live[-1]
    end_block = valid_range.end - current.first_sequence
    here = max(0, _count_blocks(current.file) - end_block)
    if survey.file is current.file:
        reached = range(end_block, end_block + WRITE_BLOCKS_MAX)
    elif any(survey.file is live.file for live in valid_range.live):
        reached = range(0)
    else:
        reached = range(max(0, WRITE_BLOCKS_MAX - here))
    first = max(block, reached.start)
    if first < min(block + count, reached.stop):
        raise JournalDamaged(survey.file.path, Position(first * BLOCK_SIZE), reason)
    valid_range.stray.append(BlockSpan(survey.file, block, count))


def _count_blocks(file: File) -> int:
    """Return the number of whole blocks in a file."""
    return file.size() // BLOCK_SIZE


def _damage_at(path: str, surveys: Sequence[FileSurvey], sequence: int, reason: str) -> JournalDamaged:
    """Return the error for a missing block.

    Its position is that of the block if the blocks around it show that, else the beginning of the directory."""
    for survey in surveys:
        for run in survey.runs:
            block = run.block_of(sequence)
            if 0 <= block < survey.blocks:
                reason = next((bad.reason for bad in survey.bad if bad.block <= block < bad.block + bad.count), reason)
                return JournalDamaged(survey.file.path, Position(block * BLOCK_SIZE), reason)
    return JournalDamaged(path, Position(0), reason)
