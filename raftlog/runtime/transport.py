"""What the driver asks of the network, and what travels on it.

    Envelope      one Raft message of one group; those of a loop turn to one process go together
    ProcessBeat   the heartbeat between two processes: groups sleep on it, and stale disks are known by it

Nothing here is trusted to arrive: messages may be lost, doubled, late and out of order. Buffers in a message are not
changed by anybody once it was sent.
"""

import uuid
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from raftlog.raft import Message
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import NodeId


class Envelope(NamedTuple):
    """A message and the group that it is about."""

    group: GroupKey
    message: Message


class ProcessBeat(NamedTuple):
    """A process is there. `boot_epoch` counts its starts, `journal_sequence` its synced journal blocks, per disk."""

    disk_uuid: uuid.UUID
    boot_epoch: int
    journal_sequence: int


class Transport(Protocol):
    """The ways to other processes, by node id."""

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Send the messages of one turn; returns at once and never raises, whatever becomes of them."""
        ...

    def beat(self, node: NodeId, beat: ProcessBeat) -> None:
        """Send a heartbeat, likewise."""
        ...

    async def request(self, node: NodeId, request: object) -> object:
        """Ask over the bulk connection, where bytes delay no heartbeat. Raises `OSError` and `TimeoutError`."""
        ...
