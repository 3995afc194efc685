"""The journal of a process with many groups: hard state, entries and cuts of all of them, made durable by one sync.

The driver appends and flushes, takes checkpoints, and folds the journal when the process starts; offline readers use
`read_journal`. Files are touched only through `raftlog.storage.disk`. docs/JOURNAL.md says how it works, and
docs/FORMATS.md, section 13, has its bytes.
"""

from raftlog.errors import JournalDamaged
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.fold import Extent, Fold, FoldedGroup
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import (
    Append,
    AppendIds,
    CommitHint,
    Created,
    Cut,
    GroupKey,
    GroupState,
    Install,
    JournaledHardState,
    LogEnd,
    LostEnd,
    Mark,
    Operation,
    Removed,
    Trim,
    VotingPosition,
)
from raftlog.runtime.journal.recovery import read_journal

__all__ = [
    "Append",
    "AppendIds",
    "CommitHint",
    "Created",
    "Cut",
    "Extent",
    "Fold",
    "FoldedGroup",
    "GroupKey",
    "GroupState",
    "Install",
    "Journal",
    "JournalConfig",
    "JournalDamaged",
    "JournalSequence",
    "JournaledHardState",
    "LogEnd",
    "LostEnd",
    "Mark",
    "Operation",
    "Removed",
    "Trim",
    "VotingPosition",
    "read_journal",
]
