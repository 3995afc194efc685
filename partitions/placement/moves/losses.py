"""Groups that lost their majority, by the configuration of the local replica. Pure; called by `cluster_view`.

a majority of one half of the configuration on retired disks   ⇒   no leader can be elected any more
"""

from collections.abc import Container
from uuid import UUID

from raftlog.raft.quorum import majority_size
from raftlog.runtime.replica.partition_replica import PartitionReplica


def lost_majority(group: PartitionReplica, retired: Container[UUID], name: str) -> str | None:
    """Return advice for operators if too many voters' disks are retired; None for other groups."""
    configuration = group.core.configuration
    for half in (configuration.voters, configuration.outgoing):
        gone = [voter for voter in half if voter.disk_uuid in retired]
        if gone and len(half) - len(gone) < majority_size(len(half)):
            return (
                f"{len(gone)} of the {len(half)} disks that vote in it were replaced or removed "
                f"({', '.join(map(str, gone))}): no leader can be elected; `raftlog partition recover {name}` says "
                "what can be done"
            )
    return None
