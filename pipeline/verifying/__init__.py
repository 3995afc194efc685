"""Verification of all replicas of all partitions, against each other and against an archive, in parallel.

    finding     logs in the directories                     planning    ranges of files that are read together
    journals    state of replicas in their journals         groups      copies of the same log
    walking     a range of one file                         comparing   a range of a file on all replicas
    whole       doubtful segments, by the code of `log verify`
    archived    an archive against its logs                 judging, report     the verdict

Users call `verify`; everything else is internal."""

from raftlog.pipeline.verifying.job import verify
from raftlog.pipeline.verifying.report import ArchiveVerdict, PartitionVerdict, VerifyReport

__all__ = ["ArchiveVerdict", "PartitionVerdict", "VerifyReport", "verify"]
