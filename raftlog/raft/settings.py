"""Settings of one replica's core. Times are ticks; the driver chooses the duration of a tick.

The values that brokers use are in `node_driver_config` of `partitions/node/settings.py`; the defaults here are those of
a core on its own."""

from dataclasses import dataclass
from typing import Final

_MAY_BE_ZERO: Final = ("quiesce_after_ticks", "deferred_bytes_max")


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Bounds and times of the core, with their trade-offs."""

    election_ticks_min: int = 10
    """Ticks without a leader's message after which a follower requests pre-votes; a random part of it is added.

    Also the period of CheckQuorum, and the time for which a follower refuses votes after a leader's message.
    A shorter time detects dead leaders sooner, but also takes slow leaders for dead."""
    heartbeat_ticks: int = 3
    """Ticks between heartbeats of a Raft group that is awake; several must fit into an election timeout."""
    quiesce_after_ticks: int = 0
    """Idle ticks after which a leader begins to quiesce the Raft group; 0: never."""
    entries_per_message_max: int = 1024
    message_bytes_max: int = 1 << 20
    """Maximum bytes of entries in one append; a larger entry is sent alone."""
    in_flight_entries_max: int = 8192
    in_flight_bytes_max: int = 8 << 20
    """Maximum bytes of entries that were sent to one follower and not yet acknowledged as durable.

    A higher value allows full throughput over longer round trips, but costs memory on both sides."""
    fetch_bytes_min: int = 8 << 20
    """Bytes of missing entries, to be read from files, above which a follower is asked to fetch them.

    Appends resume when less than a quarter of this is missing. A lower value keeps more bulk transfer off the
    connection that carries heartbeats."""
    uncommitted_entries_max: int = 65_536
    uncommitted_bytes_max: int = 64 << 20
    """Bytes that a leader accepts beyond its commit index before it refuses proposals as overloaded."""
    pending_reads_max: int = 10_000
    deferred_bytes_max: int = 0
    """Bytes of new entries that followers beyond the quorum may lack until `send_deferred_appends`; 0: none.

    The quorum that answers fastest gets every append at once. A higher value saves messages, but delays the others."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for values below their minimum and for heartbeats rarer than elections."""
        for name in self.__slots__:
            value = getattr(self, name)
            least = 0 if name in _MAY_BE_ZERO else 1
            if value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        if not self.heartbeat_ticks < self.election_ticks_min:
            raise ValueError(f"heartbeat_ticks {self.heartbeat_ticks} ≥ election_ticks_min {self.election_ticks_min}")
