"""Transport protocol: the driver's interface to the network, and the messages on it.

    Envelope      one Raft message of one Raft group; those of a loop turn to one process are sent together
    ProcessHeartbeat   heartbeat between two processes: quiesced groups rely on it, and stale disks are recognized by it

Delivery is not guaranteed: messages may be lost, duplicated, late and out of order. Buffers in a message do not change
after it was sent."""

import uuid
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from raftlog.raft import Message
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import NodeId


class Envelope(NamedTuple):
    """Raft message and the key of its Raft group."""

    group: GroupKey
    message: Message


class ProcessHeartbeat(NamedTuple):
    """Heartbeat of a process: `boot_epoch` counts the starts on its disk, `journal_sequence` synced journal blocks."""

    disk_uuid: uuid.UUID
    boot_epoch: int
    journal_sequence: int


class Transport(Protocol):
    """Connections to other processes, by node id."""

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Send the messages of one turn; return at once and never raise, even if they are lost."""
        ...

    def send_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        """Send a heartbeat; return at once and never raise."""
        ...

    async def request(self, node: NodeId, request: object) -> object:
        """Send a request over the bulk connection; it does not delay heartbeats. Raises `OSError`, `TimeoutError`."""
        ...
