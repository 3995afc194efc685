"""Verification of all replicas of all partitions in parallel, against each other and against an archive.

    found_logs          logs in the directories             ranges            ranges of files that are read together
    journals            state of replicas in their journals
    groups              copies of the same log
    segment_walk        a range of one file                 file_comparison   a range of a file on all replicas
    full_checks         doubtful segments, by the code of `log verify`
    archive_comparison  an archive against its logs         verdicts, report  the result

Users call `verify`; everything else is internal."""

from raftlog.pipeline.verification.job import verify
from raftlog.pipeline.verification.report import ArchiveVerdict, PartitionVerdict, VerifyReport

__all__ = ["ArchiveVerdict", "PartitionVerdict", "VerifyReport", "verify"]
