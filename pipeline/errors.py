"""Errors of the pipeline's own, branches of the tree in `raftlog.errors`.

RaftlogError
├── ArchiveDamaged          (StorageError) an archive whose files are not what its manifests say
├── ArchiveTaken            (VersionConflict) another run writes to the archive, or took it over
├── CheckpointMismatch      (InvalidArgument) a checkpoint of other topics than the query reads, or of another program
├── DataLost                (RequestError) records that were to be read are not there any more; says which
├── InputChanged            (RequestError) rows that a write is repeated with are not those that it began with
├── LogReplaced             (RequestError) a topic is not the one that it was: created anew, or another cluster's
├── MissingRequirement      Java or a package of the extra `pipeline` is not there; says what to install
├── NotAnArchive            (InvalidArgument) a directory without an archive where one is needed, or with other files
├── PipelineFailed          a job of Spark failed; says what and why, in the words of the worker
├── SegmentGone             (StorageError) a segment file was removed or compacted since it was planned to be read
└── WriteForgotten          (OutcomeUnknown) what an earlier attempt has written cannot be found out any more
"""

from raftlog.errors import (
    InvalidArgument,
    OutcomeUnknown,
    RaftlogError,
    RequestError,
    StorageError,
    VersionConflict,
)


class ArchiveDamaged(StorageError):
    """A manifest or a file of an archive is missing, or is not what was written."""


class ArchiveTaken(VersionConflict):
    """Another run writes to the archive, or took it over from this one; nothing of this run's last step is kept."""


class CheckpointMismatch(InvalidArgument):
    """The checkpoint of a query does not match the topics that the query reads now."""


class DataLost(RequestError):
    """Records to be read were deleted: trimmed, or with their topic.

    The message names partition and offsets; with the option `failOnDataLoss=false` it is a warning."""


class InputChanged(RequestError):
    """A write was repeated with other rows than before, and some of the earlier rows are in the log for good."""


class LogReplaced(RequestError):
    """The topic's log is not the one that was read before.

    The topic was deleted and created anew, it lost records, or the cluster is another one."""


class MissingRequirement(RaftlogError):
    """Something that Spark needs is not installed; the message says how to install it."""


class PipelineFailed(RaftlogError):
    """A job of Spark failed: what it was doing, and what the worker (or Spark) said."""


class NotAnArchive(InvalidArgument):
    """The directory holds no archive, or other files, so that none is begun there."""


class WriteForgotten(OutcomeUnknown):
    """The rows that an earlier attempt of a write has stored cannot be determined any more.

    The record of the write expired, or records that it wrote were deleted."""


class SegmentGone(StorageError):
    """A segment file was removed or replaced since the read was planned, because a broker is running. Read again."""
