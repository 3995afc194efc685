"""Next steps for the reasons of an unhealthy cluster, as docs/ERRORS.md lists them. Pure data and one lookup."""

from collections.abc import Mapping
from typing import Final

UNKNOWN: Final = "Read the broker's log, and the page on errors of raftlog's documentation."
ACTIONS: Final[Mapping[str, str]] = {
    "does not answer": "Start the broker, or find out why it cannot be reached or answers late.",
    "it is starting or stopping": "Wait until the broker is ready; its log has the progress.",
    "partitions lack replicas in sync": "Start the brokers that are down; a replica that copies its log needs time.",
    "reassignments of partitions that it leads are stuck": "Start the broker for which the moves wait: the list of "
    "moves has the reason of each.",
    "cannot be emptied": "Start brokers on other hosts, or cancel the decommission.",
    "do not vote in the controller's group yet": "Wait: new brokers soon become voters of the controller.",
    "still counts on replaced disks": "Wait a moment. If it stays, a majority is lost: the page on repairs has the "
    "next steps.",
    "the controller has no leader": "Start the brokers that are down: a majority of the controller's voters is needed.",
    "partitions have no leader and cannot be written": "Start the brokers with their replicas; if that is impossible, "
    "`raftlog partition recover TOPIC/PARTITION` shows what remains.",
    "no leader can be elected": "A majority of the partition's disks is lost: `raftlog partition recover` shows what "
    "remains.",
    "has a replica of it": "All disks with the partition are lost: `raftlog partition recover` shows what remains.",
    "damaged replicas": "Check the disk: bytes failed their checksum. They are being repaired from other replicas.",
    "the disk has no room for records": "Free space on the disk, or delete records or topics.",
    "replicas wait for room on the disk": "Free space on the disk soon.",
    "its disk or its loop is stalled": "Look for other programs that use the disk or the CPU of this broker.",
    "it stopped": "Restart the broker after its log was read: a failure stopped one of its replicas.",
    "here differs from the leader's": "Report this defect with the logs of both brokers.",
    "catches up": "Wait: the broker copies the records that it lacks.",
}
"""Next steps, by a text that the reason contains."""


def action_for(reason: str) -> str:
    """Return the next step of the first entry of `ACTIONS` whose text is in `reason`; else `UNKNOWN`."""
    return next((action for part, action in ACTIONS.items() if part in reason), UNKNOWN)
