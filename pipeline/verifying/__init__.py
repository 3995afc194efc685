"""All replicas of all partitions checked, compared with each other and with an archive, in parallel.

    finding     which logs there are                        planning    which ranges of which files are read together
    journals    what journals say of them                   groups      which are copies of each other
    walking     a range of one file                         comparing   a range of a file on all replicas
    whole       what is doubtful, by the code of `log verify`
    archived    an archive against its logs                 judging, report     the verdict

Users call `verify`; nobody else comes in.
"""

from raftlog.pipeline.verifying.job import verify
from raftlog.pipeline.verifying.report import ArchiveVerdict, PartitionVerdict, VerifyReport

__all__ = ["ArchiveVerdict", "PartitionVerdict", "VerifyReport", "verify"]
