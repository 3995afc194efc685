"""Settings of the driver. Those of the Raft core and of the journal are nested."""

from dataclasses import dataclass, field
from typing import Self

from raftlog.errors import InvalidArgument
from raftlog.raft import RaftSettings
from raftlog.runtime.journal.config import JournalConfig
from raftlog.topic_config import GIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Limits at which the leader of a Raft group begins a new segment, checked before an append.

    A segment that holds no offset yet is never rolled."""

    segment_bytes: int = GIB
    """Size that an append must not make the active segment exceed."""
    segment_rows_max: int = 4 * MIB
    """Largest number of rows in the segment's index."""
    segment_ms: int | None = None
    """Maximum age of the segment's roll by the leader's clock; `None`: no limit."""

    @classmethod
    def from_config(cls, config: "DriverConfig") -> Self:
        """Return the limits from the settings of the driver, for Raft groups without limits of their own."""
        return cls(segment_bytes=config.segment_bytes, segment_rows_max=config.segment_rows_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """Sizes in bytes, times in milliseconds; every number is at least 1."""

    tick_ms: int = 50
    """One tick of every awake group; the times in `raft` count ticks."""
    deferral_ms: int = 30
    """Time after which followers outside the quorum get deferred appends (`RaftSettings.deferred_bytes_max`)."""
    quorum_wait_ms: int = 3
    """Least time after which deferred appends are sent if the quorum has not committed them; at most `deferral_ms`.

    It grows with the usual time of commits, up to half of `deferral_ms`."""
    raft: RaftSettings = field(default_factory=RaftSettings)
    journal: JournalConfig = field(default_factory=JournalConfig)
    segment_bytes: int = GIB
    """Size of segments in groups without limits of their own; see `GroupLimits`."""
    segment_rows_max: int = 4 * MIB
    large_append_bytes: int = 64 * 1024
    """Appends of one group and turn from this size on are synced in their segment instead of being journaled."""
    segment_write_bytes: int = 32 * 1024
    """Journaled entries are written to their segment at one of the next ticks, or as soon as so many bytes wait."""
    recent_bytes_max: int = MIB
    """Bytes of one group's newest entries that stay in memory for followers; unwritten entries may exceed the limit."""
    checkpoint_interval_ms: int = 60_000
    """A checkpoint is made at least this often while anything is journaled; sooner when the journal requires it."""
    checkpoint_groups_max: int = 256
    """Groups whose files a checkpoint syncs at the same time."""
    stall_ms: int = 1_000
    """Time after which a leader steps down because its loop or its disk makes no progress."""
    storage_min_free_bytes: int = 1
    """Free space on the file system below which no records are accepted, and leadership moves to brokers that have
    more.

    The rest is for the journal, checkpoints, trims and the controller; 1: only a disk that is really full refuses."""
    transfer_chunk_bytes: int = MIB
    """Bytes of one request when a follower fetches entries that it lacks or that are damaged.

    More blocks the leader's loop for longer, less is slower where the machine is busy: 1 MiB was 20 % faster than
    half of it."""
    transfer_window_bytes: int = 4 * MIB
    """Bytes that one follower has received and not yet synced before it waits with the next request."""
    transfers_max: int = 4
    """Groups of this process that fetch at the same time."""
    transfer_timeout_ms: int = 10_000
    """Timeout of one request for entries, which is then sent again, perhaps to another replica."""
    compaction_bytes_per_s: int = 32 * MIB
    """Bytes that compaction reads and writes a second, for all groups of this process together."""
    compaction_wait_ms: int = 60_000
    """Time that a compacting leader waits for followers that lack entries below the mark."""
    scrub_interval_ms: int = 7 * 24 * 3_600_000
    """Time in which the background scrub reads everything about once."""
    retry_pause_ms: int = 1_000
    """Pause before an installation or a repair that failed is begun again."""

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for a whole number below 1."""
        for name in self.__slots__:
            value = getattr(self, name)
            if type(value) is int and value < 1:
                raise InvalidArgument(f"{name}={value} is out of range: it must be at least 1")
