"""State of each block of one journal file: intact, zero, or neither.

Intact blocks are gathered into runs (each block follows the one before it in place, use, sequence and chain), so a
sound file of any size has one or two runs: memory does not grow with the journal. Recovery evaluates runs; this
module does not decide which blocks are torn and which are damaged."""

from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from raftlog.errors import FormatError
from raftlog.runtime.journal.blocks import (
    BLOCK_HEADER,
    BLOCK_MAGIC,
    BLOCK_SIZE,
    BLOCK_VERSION,
    CHECKED_FROM,
    ZERO_BLOCK,
)
from raftlog.storage.disk import File

_CHUNK_BLOCKS: Final = 256
_NO_MAGIC: Final = bytes(4)


@dataclass(slots=True)
class BlockRun:
    """Consecutive intact blocks of one file, each of which continues the sequence and checksums of the one before it.

    Each new block changes the fields from `end` on."""

    file: File
    block: int
    """Number of the run's first block in the file."""
    use: int
    sequence: int
    """Sequence of the run's first block."""
    first_chain: int
    """Checksum of the block before the run, as the run's first block has it."""
    first_part: int
    end: int
    """The sequence after the run's last block; `sequence < end`."""
    checksum: int
    """Checksum of the run's last block."""
    frame: int
    """Number of the frame of the run's last block; no block of the run belongs to a later frame."""
    complete: int
    """The sequence after the last frame whose last block is in the run; 0 without such a frame."""
    start: int
    """`start` in the header of the run's last block; never falls within a run."""

    @property
    def first_sequence(self) -> int:
        """The sequence of the file's block 0 in this use."""
        return self.sequence - self.block

    @property
    def first_frame(self) -> int:
        return self.sequence - self.first_part

    def block_of(self, sequence: int) -> int:
        """Return the number, in its file, of the block with this sequence."""
        return sequence - self.first_sequence


@dataclass(slots=True)
class BadBlocks:
    """Blocks in a row that are neither intact nor zero."""

    block: int
    count: int
    reason: str


@dataclass(slots=True)
class FileSurvey:
    """The blocks of one file, by number; blocks in no list are zero."""

    file: File
    blocks: int
    """Blocks in the file, a short last one included."""
    runs: list[BlockRun] = field(default_factory=list)
    bad: list[BadBlocks] = field(default_factory=list)

    def note_bad(self, block: int, reason: str) -> None:
        """Add a bad block, to the last range of bad ones if it continues that."""
        last = self.bad[-1] if self.bad else None
        if last and last.block + last.count == block and last.reason == reason:
            last.count += 1
        else:
            self.bad.append(BadBlocks(block, 1, reason))


def survey_file(file: File, seed: int) -> FileSurvey:
    """Check every block of the file. Raises `FormatError` for blocks of a newer version."""
    size = file.size()
    survey = FileSurvey(file, -(-size // BLOCK_SIZE))
    for first in range(0, survey.blocks, _CHUNK_BLOCKS):
        _survey_chunk(survey, first, min(_CHUNK_BLOCKS, survey.blocks - first), seed)
    return survey


def _survey_chunk(survey: FileSurvey, first: int, count: int, seed: int) -> None:
    """Survey `count` blocks from block `first` on; after a read error, each of them alone."""
    try:
        data = survey.file.read(first * BLOCK_SIZE, count * BLOCK_SIZE)
    except OSError as error:
        if count == 1:
            survey.note_bad(first, f"it cannot be read ({error.strerror})")
            return
        for number in range(first, first + count):
            _survey_chunk(survey, number, 1, seed)
        return
    whole = len(data) - len(data) % BLOCK_SIZE
    _survey_blocks(survey, first, data[:whole] if whole < len(data) else data, seed)
    if any(data[whole:]):  # also if zeros would complete the block: the missing bytes can be neither read nor kept
        survey.note_bad(first + whole // BLOCK_SIZE, "the file ends inside the block")


def _survey_blocks(survey: FileSurvey, first: int, data: bytes, seed: int) -> None:
    """Add the blocks of `data` to the survey.

    Recovery spends its time in this loop, so it works on locals and makes no object per block."""
    view = memoryview(data)
    unpack = BLOCK_HEADER.unpack_from
    run = survey.runs[-1] if survey.runs else None
    number = first
    for at in range(0, len(data), BLOCK_SIZE):
        magic, checksum, chain, use, block, part, parts, sequence, start, _, version, _ = unpack(data, at)
        if magic != BLOCK_MAGIC or crc32c(view[at + CHECKED_FROM : at + BLOCK_SIZE], seed) != checksum:
            if magic != _NO_MAGIC or view[at : at + BLOCK_SIZE] != ZERO_BLOCK:
                survey.note_bad(number, "the block fails its checksum")
        elif block != number:
            survey.note_bad(number, f"it holds block {block} of use {use}")
        elif version != BLOCK_VERSION:
            raise FormatError(
                f"{survey.file.path}: block {number} is of version {version}; this program reads version "
                f"{BLOCK_VERSION}: use the release that wrote it, or a newer one"
            )
        else:
            if not (
                run
                and sequence == run.end
                and chain == run.checksum
                and use == run.use
                and number == run.block + run.end - run.sequence
            ):
                run = BlockRun(survey.file, number, use, sequence, chain, part, 0, 0, 0, 0, 0)
                survey.runs.append(run)
            run.end = sequence + 1
            run.checksum = checksum
            run.frame = sequence - part
            run.start = start
            if part + 1 == parts:
                run.complete = sequence + 1
        number += 1
