"""What it means for a process that another one refuses to talk to it. Pure; called by the node.

A single confused stranger must not end a member of a cluster. So who is right?

    a stale or copied disk     the refuser remembers more of this disk than the disk itself: it is right, if it belongs
                               to our cluster and its metadata gives our node id just this disk. The disk is given up
                               for good, for its boot epoch would overtake the remembered one after some more starts.
                               The next start takes a new disk uuid, and is filled by the others (`opening`).
    a retired disk             retired is for ever, so whoever in our cluster knows of it is right: the same
    another disk than the assigned one
                               nothing: a process that begins asks to be taken in the place of the old disk
                               (`metadata.replacing`), and an old process is told by the first line that it is retired
    another cluster, a node id that is used twice
                               at a first start we are the newcomer, and wrong. A process whose own copy of the
                               metadata has it registered is not: the refuser may be behind, or lost itself; whether we
                               are still a member is for the controller to say when we register.
    everything else            versions, addresses that lead elsewhere: tried again
"""

from enum import Enum
from typing import Final

from raftlog.runtime.rpc.handshake import HandshakeRefusal, Reason

_STALE: Final = (Reason.STALE_BOOT_EPOCH, Reason.STALE_JOURNAL, Reason.COPIED_DISK)
_MISTAKEN: Final = (Reason.CLUSTER_ID, Reason.OWN_NODE_ID, Reason.NODE_ID_TWICE, *_STALE)


class Consequence(Enum):
    """What is to be done."""

    NONE = "nothing"
    END = "the process ends"
    END_FOR_GOOD = "the process ends, and the disk is never used again"


def consequence_of(refusal: HandshakeRefusal, cluster_id: str | None, is_established: bool) -> Consequence:
    """`cluster_id` is ours; `is_established`: this node is registered with this disk, as far as its own copy knows."""
    is_of_ours = cluster_id in (None, refusal.cluster_id)
    if refusal.reason in _STALE and refusal.is_member and is_of_ours:
        return Consequence.END_FOR_GOOD
    if refusal.reason is Reason.RETIRED_DISK and cluster_id is not None and is_of_ours:
        return Consequence.END_FOR_GOOD
    if refusal.reason in _MISTAKEN and not is_established:
        return Consequence.END
    return Consequence.NONE
