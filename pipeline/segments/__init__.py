"""Reading the files of logs without a broker: the data source `raftlog-segments`, and what the jobs use of it.

`replicas_in` finds logs, `logs_in` chooses one replica of each partition, `splits_of` and `plan_segments` divide them
among tasks, `read_segment_split` reads one split.
"""

from raftlog.pipeline.segments.extent import LogExtent
from raftlog.pipeline.segments.plan import logs_in, plan_segments, splits_of
from raftlog.pipeline.segments.reading import batches_of, read_segment_split
from raftlog.pipeline.segments.replicas import FoundReplica, replicas_in
from raftlog.pipeline.segments.split import SegmentSplit

__all__ = [
    "FoundReplica",
    "LogExtent",
    "SegmentSplit",
    "batches_of",
    "logs_in",
    "plan_segments",
    "read_segment_split",
    "replicas_in",
    "splits_of",
]
