"""Errors of the pipeline, subclasses of those in `raftlog.errors`.

RaftlogError
├── ArchiveDamaged          (StorageError) files of an archive do not match its manifests
├── ArchiveTaken            (VersionConflict) another run writes to the archive, or has claimed it
├── CheckpointMismatch      (InvalidArgument) a checkpoint of other topics than the query reads, or of another program
├── DataLost                (RequestError) records to be read were deleted; the message has their offsets
├── InputChanged            (RequestError) a repeated write has other rows than before
├── LogReplaced             (RequestError) a topic was created anew, or belongs to another cluster
├── MissingRequirement      Java or a package of the extra `pipeline` is missing; the message says how to install it
├── NotAnArchive            (InvalidArgument) a directory without an archive where one is needed, or with other files
├── PipelineFailed          a Spark job failed; the message has the job and the worker's error
├── SegmentGone             (StorageError) a segment file was removed or compacted since the read was planned
├── TransactionsInSegments  (RequestError) files with transactions, whose outcomes only brokers know
└── WriteForgotten          (OutcomeUnknown) the rows that an earlier attempt stored cannot be determined any more"""

from raftlog.errors import (
    InvalidArgument,
    OutcomeUnknown,
    RaftlogError,
    RequestError,
    StorageError,
    VersionConflict,
)


class ArchiveDamaged(StorageError):
    """A manifest or a file of an archive is missing or damaged."""


class ArchiveTaken(VersionConflict):
    """Another run writes to the archive, or has claimed it from this run, whose last step is discarded."""


class CheckpointMismatch(InvalidArgument):
    """The checkpoint of a query does not match the topics that the query reads now."""


class DataLost(RequestError):
    """Records to be read were deleted: trimmed, or with their topic.

    The message names partition and offsets; with the option `failOnDataLoss=false` it is a warning."""


class InputChanged(RequestError):
    """A write was repeated with different rows, and some of the earlier rows are already stored."""


class LogReplaced(RequestError):
    """The topic's log is not the one that was read before.

    The topic was deleted and created anew, it lost records, or the cluster is another one."""


class MissingRequirement(RaftlogError):
    """A requirement of Spark is not installed; the message has the command to install it."""


class PipelineFailed(RaftlogError):
    """A Spark job failed; the message has the job and the error of the worker, or of Spark."""


class NotAnArchive(InvalidArgument):
    """The directory contains no archive, and other files, so that no archive can be created in it."""


class WriteForgotten(OutcomeUnknown):
    """The rows that an earlier attempt of a write has stored can no longer be determined.

    The record of the write expired, or records that it wrote were deleted."""


class SegmentGone(StorageError):
    """A running broker removed or replaced a segment file since the read was planned: read again."""


class TransactionsInSegments(RequestError):
    """Segment files have records of transactions, and which of them are committed is known to brokers only."""
