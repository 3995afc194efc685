"""Storage: a segmented log on disk, and everything that touches files. It knows nothing of Raft.

`LoneLog` is a log without Raft; `SegmentedLog` is what a replica builds on. All file access goes through the protocol
in `disk`. Callers from above import the names below.
"""

from raftlog.storage.disk import Disk, File
from raftlog.storage.lone_log import Appended, LoneLog
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.recovery import RecoveryReport
from raftlog.storage.segmented_log import SegmentedLog

__all__ = ["Appended", "Disk", "File", "LoneLog", "RealDisk", "RecoveryReport", "SegmentedLog"]
