"""Whether a group can still elect a leader, as far as its replica here knows who votes. Pure; called by `ClusterView`.

a majority of a half of the configuration on retired disks   ⇒   nobody will lead it again by itself
"""

from collections.abc import Container
from uuid import UUID

from raftlog.raft.quorum import majority_size
from raftlog.runtime.replica.group import Group


def lost_majority(group: Group, retired: Container[UUID], name: str) -> str | None:
    """What to tell an operator of a group that lost more of its voters' disks than it can; None for all others."""
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
