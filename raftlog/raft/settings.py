"""The settings of one replica's core. Times are ticks; how long a tick lasts is the driver's choice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Every bound and time of the core. Trade-offs stand with each."""

    election_ticks_min: int = 10
    """A follower that hears nothing for this long, plus a random share of as much again, asks for pre-votes. Also the
    period of CheckQuorum, and how long a leader's message keeps a follower loyal. Shorter finds dead leaders sooner and
    takes slow ones for dead."""
    heartbeat_ticks: int = 3
    """Between heartbeats of a group that is awake; several must fit into an election timeout."""
    sleep_after_ticks: int = 0
    """A leader that had nothing to do for this long proposes sleep; 0: the group never sleeps."""
    entries_per_message_max: int = 1024
    message_bytes_max: int = 1 << 20
    """Payload of one append; a single larger entry still goes, alone."""
    in_flight_entries_max: int = 8192
    in_flight_bytes_max: int = 8 << 20
    """What may be on its way to one follower, or written there but not yet durable. More hides longer round trips and
    costs memory on both sides."""
    fetch_bytes_min: int = 8 << 20
    """A follower that lacks more than this, to be read from files, is told to fetch it by itself; it is sent appends
    again when less than a quarter of this is left. Less spares the connection of heartbeats more."""
    uncommitted_entries_max: int = 65_536
    uncommitted_bytes_max: int = 64 << 20
    """What a leader takes beyond its commit before it refuses proposals as overloaded."""
    pending_reads_max: int = 10_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if name != "sleep_after_ticks" and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        if self.sleep_after_ticks < 0:
            raise ValueError(f"sleep_after_ticks is {self.sleep_after_ticks}; it must be at least 0")
        if not self.heartbeat_ticks < self.election_ticks_min:
            raise ValueError(f"heartbeat_ticks {self.heartbeat_ticks} ≥ election_ticks_min {self.election_ticks_min}")
