"""What the host of the controller's group can be told."""

from dataclasses import dataclass
from uuid import UUID

from raftlog.config import MIB
from raftlog.errors import InvalidArgument
from raftlog.partitions.addresses import Address, address_text


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSettings:
    """Sizes in bytes, times in milliseconds."""

    seeds: tuple[Address, ...] = ()
    """RPC addresses: the same list on each of a cluster's first brokers (with their own, in any order), or any members
    of a cluster to join. Empty: a broker alone, or one that knows its cluster already."""
    snapshot_log_bytes: int = 4 * MIB
    """A snapshot is made when the log has grown by more than this since the last one, and by more than that has."""
    hash_interval_ms: int = 30_000
    """The leader tells the others the hash of its state so often, while it changes."""
    attempt_ms: int = 1_500
    """A request whose answer takes longer is sent again, to whoever leads then; it is done once all the same."""
    look_ms: int = 100
    """Between two looks at the seeds, and between two attempts to register, at first; doubled up to `look_ms_max`."""
    look_ms_max: int = 1_000
    probe_ms: int = 1_000
    """An address that does not answer for so long is absent."""
    care_ms: int = 250
    """Between two looks of the leader at who should belong to the group."""
    caught_up_entries: int = 64
    """A learner that lacks no more entries than these can become a voter."""
    replace_silence_ms: int = 3_000
    """A new disk takes the place of an old one when the controller's leader has not heard that for so long."""
    refused_silence_ms: int = 10_000
    """The same for a disk that the cluster had refused as an old copy: the right one may only be starting again."""
    replace_patience_ms: int = 15_000
    """A process with a new disk ends when the old one was in use all the time for so long: its node id is taken."""
    fold_ms: float = 2.0
    """The loop is not held longer to apply what was committed."""

    def __post_init__(self) -> None:
        for seed in self.seeds:
            address_text(seed)
        for name in self.__slots__:
            value = getattr(self, name)
            if name != "seeds" and not value > 0:
                raise InvalidArgument(f"{name}={value} is out of range: it must be above 0")


def check_start(settings: MetadataSettings, rpc_port: int | None, cluster_id: str | None) -> None:
    """Raises `InvalidArgument` where a process cannot start with these."""
    if cluster_id is not None and not _is_uuid(cluster_id):
        raise InvalidArgument(f"the cluster id {cluster_id!r} is not a uuid in its usual form")
    if rpc_port is None and settings.seeds:
        raise InvalidArgument("a broker with seeds needs an RPC address that the others can reach")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
