"""Reader of a journal: the use of each of its files, its end, and its fold.

Changes nothing; `Journal.open` continues from here, offline readers (`log verify`) stop here. Memory: one slice of a
file at a time, and the fold."""

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from raftlog.runtime.journal.blocks import FIRST_SEQUENCE, checksum_seed
from raftlog.runtime.journal.files import list_journal_files
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.stream import PayloadReader
from raftlog.runtime.journal.survey import FileSurvey, survey_file
from raftlog.runtime.journal.valid_range import ValidRange, find_valid_range
from raftlog.storage.disk import Disk, File

_FILES_AHEAD: Final = 2


class ReadJournal(NamedTuple):
    """Result of reading a journal; its files are open."""

    files: list[File]
    valid_range: ValidRange | None
    """`None` when nothing was ever written."""
    fold: Fold

    @property
    def others(self) -> list[File]:
        """Files that hold no blocks that recovery needs."""
        live = self.valid_range.live if self.valid_range else []
        return [file for file in self.files if all(each.file is not file for each in live)]


def read_files(
    disk: Disk, path: str, disk_uuid: uuid.UUID, *, read_only: bool = False, synced_at_least: int = 0
) -> ReadJournal:
    """Read the journal in the directory `path`; raises `JournalDamaged`, `FormatError` and `OSError`."""
    files: list[File] = []
    try:
        for name in list_journal_files(disk, path):
            files.append(disk.open(name, read_only=read_only))
        return _scan_and_replay(path, files, checksum_seed(disk_uuid), synced_at_least)
    except BaseException:
        for file in files:
            file.close()
        raise


def _scan_and_replay(path: str, files: Sequence[File], seed: int, synced_at_least: int) -> ReadJournal:
    """Scan the blocks of all files, and replay the frames of the valid range into a `Fold`."""
    surveys = [_survey_with_prefetch(files, number, seed) for number in range(len(files))]
    valid_range = find_valid_range(path, surveys, synced_at_least)
    if valid_range is None:
        return ReadJournal(list(files), None, Fold(PayloadReader((), seed), FIRST_SEQUENCE, FIRST_SEQUENCE))
    reader = PayloadReader(valid_range.live, seed)
    fold = Fold(reader, valid_range.start, valid_range.end)
    fold.torn_blocks = valid_range.torn_blocks
    for frame in reader.read_frames(valid_range.start, valid_range.end):
        fold.take(frame)
    fold.finish()
    return ReadJournal(list(files), valid_range, fold)


def _survey_with_prefetch(files: Sequence[File], number: int, seed: int) -> FileSurvey:
    """Survey one file while the disk fetches the next ones."""
    for ahead in files[number + 1 : number + 1 + _FILES_AHEAD]:
        ahead.prefetch()
    return survey_file(files[number], seed)


def read_journal(disk: Disk, path: str, disk_uuid: uuid.UUID) -> Fold:
    """Replay a journal and return the resulting state, for programs that change nothing.

    Raises `JournalDamaged`, `FormatError` and `OSError`."""
    return read_files(disk, path, disk_uuid, read_only=True).fold
