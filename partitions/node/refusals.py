"""Consequence of a refused handshake for the refused process. Pure; called by the node.

A single misconfigured process must not end a member of a cluster. So the reason of the refusal decides:

    a stale or copied disk     the refuser remembers more of this disk than the disk itself: it is right, if it belongs
                               to the same cluster and its metadata has just this disk for the node id. The disk is
                               abandoned permanently: its boot epoch would pass the remembered one after some starts.
                               The next start takes a new disk uuid, and is filled by the others (`opening`).
    a retired disk             retirement is permanent, so every process of the same cluster is right: as above
    another disk than the assigned one
                               nothing: a starting process requests the place of the old disk
                               (`controller.disk_replacement`), and an old process receives the retirement as above
    another cluster, a node id that is used twice
                               at its first start this process is the newcomer, and ends. A process that is registered
                               by its own copy of the metadata continues: the refuser may be behind, or removed itself.
                               The controller decides at the registration whether this process is still a member.
    everything else            versions, addresses that lead elsewhere: retried
"""

from enum import Enum
from typing import Final

from raftlog.runtime.rpc.handshake import HandshakeRefusal, Reason

_STALE: Final = (Reason.STALE_BOOT_EPOCH, Reason.STALE_JOURNAL, Reason.COPIED_DISK)
_MISTAKEN: Final = (Reason.CLUSTER_ID, Reason.OWN_NODE_ID, Reason.NODE_ID_TWICE, *_STALE)


class Consequence(Enum):
    """Consequence of a refused handshake."""

    NONE = "nothing"
    END = "the process ends"
    END_FOR_GOOD = "the process ends, and the disk is never used again"


def consequence_of(refusal: HandshakeRefusal, cluster_id: str | None, is_established: bool) -> Consequence:
    """Return the consequence of a refused handshake.

    `cluster_id` is that of this process; `is_established`: this node is registered with this disk, by its own copy of
    the metadata."""
    is_of_ours = cluster_id in (None, refusal.cluster_id)
    if refusal.reason in _STALE and refusal.is_member and is_of_ours:
        return Consequence.END_FOR_GOOD
    if refusal.reason is Reason.RETIRED_DISK and cluster_id is not None and is_of_ours:
        return Consequence.END_FOR_GOOD
    if refusal.reason in _MISTAKEN and not is_established:
        return Consequence.END
    return Consequence.NONE
