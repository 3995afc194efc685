"""Settings of the controller's host."""

from dataclasses import dataclass
from uuid import UUID

from raftlog.errors import InvalidArgument
from raftlog.partitions.addresses import Address, address_text
from raftlog.topic_config import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSettings:
    """Settings of the controller on one process; sizes in bytes, times in milliseconds."""

    seeds: tuple[Address, ...] = ()
    """RPC addresses: the list of the cluster's first brokers, or members of a cluster to join.

    The first brokers all have the same list (with their own, in any order). Empty: a broker alone, or one that
    belongs to a cluster already."""
    snapshot_log_bytes: int = 4 * MIB
    """Growth of the log after which a snapshot is made; it also has to exceed the last snapshot's size."""
    hash_interval_ms: int = 30_000
    """Interval at which the leader sends the hash of its state to the others, while it changes."""
    attempt_ms: int = 1_500
    """Time without an answer after which a request is sent again, to the present leader; it is executed once."""
    look_ms: int = 100
    """First interval between probes of the seeds, and between attempts to register; doubled up to `look_ms_max`."""
    look_ms_max: int = 1_000
    """Longest such interval."""
    probe_ms: int = 1_000
    """Time without an answer after which an address counts as absent."""
    care_ms: int = 250
    """Interval at which the leader compares the members of the group with the brokers."""
    caught_up_entries: int = 64
    """Maximum number of entries that a learner may lack when it becomes a voter."""
    replace_silence_ms: int = 3_000
    """Silence of an old disk, as the controller's leader hears it, after which a new one replaces it."""
    refused_silence_ms: int = 10_000
    """The same silence after the cluster refused a disk as an old copy: the right disk may only be restarting."""
    replace_timeout_ms: int = 15_000
    """Time after which a process with a new disk ends if the old disk is in use: its node id is taken."""
    fold_ms: float = 2.0
    """Longest time for which applying committed entries may block the loop."""

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for a malformed seed, or a number that is not above 0."""
        for seed in self.seeds:
            address_text(seed)
        for name in self.__slots__:
            value = getattr(self, name)
            if name != "seeds" and not value > 0:
                raise InvalidArgument(f"{name}={value} is out of range: it must be above 0")


def check_start(settings: MetadataSettings, rpc_port: int | None, cluster_id: str | None) -> None:
    """Raise `InvalidArgument` for a cluster id that is not a uuid, and for seeds without an RPC port."""
    if cluster_id is not None and not _is_uuid(cluster_id):
        raise InvalidArgument(
            f"the cluster id {cluster_id!r} is not a uuid, such as 479be368-3798-4d6d-8375-d6a82b6e110e"
        )
    if rpc_port is None and settings.seeds:
        raise InvalidArgument("a broker with seeds needs an RPC address that the others can reach")


def _is_uuid(text: str) -> bool:
    """Return whether the text is a UUID in its usual form."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
